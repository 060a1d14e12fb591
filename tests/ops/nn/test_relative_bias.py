"""T5's relative position bias, against NumPy functions written from the published definition."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisNotFoundError
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, Placement, array, check, said


def bucket(distance, buckets, bidirectional, max_distance):
    """The bucket of one distance, key minus query."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    return first + min(exact + int(share * (buckets - exact) + 1e-6), buckets - 1)


@pytest.mark.parametrize(
    ("buckets", "bidirectional", "most"), [(32, True, 128), (32, False, 128), (8, True, 20), (8, False, 20)]
)
def test_buckets(buckets, bidirectional, most):
    distance = nx.arange(601, axis="k") - 300
    have = nx.nn.relative_position_buckets(distance, buckets, bidirectional=bidirectional, max_distance=most)
    assert have.dtype == jnp.int32
    np.testing.assert_array_equal(have.data, [bucket(n, buckets, bidirectional, most) for n in range(-300, 301)])


# What the published implementation gives for some distances, with 32 buckets and a largest distance of 128.
PUBLISHED = {
    True: {-500: 15, -128: 15, -91: 15, -90: 14, -16: 10, -8: 8, -7: 7, 0: 0, 1: 17, 8: 24, 16: 26, 63: 29, 64: 30, 128: 31},
    False: {-500: 31, -128: 31, -113: 31, -112: 30, -32: 21, -16: 16, -15: 15, 0: 0, 1: 0, 400: 0},
}


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_of_the_published_implementation(bidirectional):
    known = PUBLISHED[bidirectional]
    have = nx.nn.relative_position_buckets(jnp.array([*known]), 32, bidirectional=bidirectional)
    np.testing.assert_array_equal(have, [*known.values()])


MORE = [
    *PLACEMENTS,
    PARTITIONER[3],
    Placement("uneven", (3, 2), (("a", "x"), ("h", "y"))),
    Placement("buckets", (4, 2), (("bucket", "y"), ("a", "x"))),
]


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", MORE, ids=str)
def test_bias_in_every_placement(placement):
    """Queries {a} and keys {key}; queries of a batch {b} that begin elsewhere."""

    def named(table, starts):
        queries, keys = nx.arange(axis="a"), nx.arange(12, axis="key")
        whole = nx.nn.relative_position_bias(table, queries, keys, axis="bucket", max_distance=9)
        return whole, nx.nn.relative_position_bias(table, queries + starts, keys, axis="bucket", bidirectional=False)

    def oracle(table, starts):
        def read(i, *options):
            index = np.vectorize(lambda n: bucket(n, 8, *options))(np.arange(12) - np.asarray(i)[..., None])
            return table[index]

        return read(np.arange(8), True, 9), read(np.arange(8) + STARTS[:, None], False, 128)

    outs = (["a", "key", "h"], ["b", "a", "key", "h"])
    check(named, oracle, (array(8, 2), jnp.asarray(STARTS)), (["bucket", "h"], ["b"]), outs, placement, axis_sizes={"a": 8})


STARTS = np.array([0, 3, 5, 9])


def test_it_is_a_bias_of_attention():
    q, k = nx.named(array(6, 2, 4), ["pos", "heads", "d"]), nx.named(array(6, 2, 4, seed=1), ["pos", "heads", "d"])
    table = nx.named(array(8, 2), ["bucket", "heads"])
    bias = nx.nn.relative_position_bias(table, nx.arange(6, axis="pos"), nx.arange(6, axis="key_pos"), axis="bucket")
    have = nx.nn.dot_product_attention(q, k, k, bias, axis="pos", features="d", scale=1.0)
    index = np.array([[bucket(j - i, 8, True, 128) for j in range(6)] for i in range(6)])
    scores = jnp.einsum("ihd,jhd->hij", q.data, k.data) + table.data[index].transpose(2, 0, 1)
    want = jnp.einsum("hij,jhd->ihd", jax.nn.softmax(scores), k.data)
    np.testing.assert_allclose(nx.positional(have, ["pos", "heads", "d"]), want, rtol=1e-5, atol=1e-6)


TABLE = nx.named(array(32, 2), ["bucket", "heads"])
I, J = nx.named(make.arange(4), ["pos"]), nx.named(make.arange(4), ["key_pos"])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nx.nn.relative_position_bias(TABLE, I, J, axis="buckets"), AxisNotFoundError, ["no axis 'buckets'", "table"]),
        (
            lambda: nx.nn.relative_position_bias(TABLE, I, I, axis="bucket"),
            AxisNameError,
            ["both have the axes 'pos'", "key_pos"],
        ),
        (
            lambda: nx.nn.relative_position_bias(TABLE, I, J * 1.0, axis="bucket"),
            ArgumentTypeError,
            ["key_positions must contain"],
        ),
        (lambda: nx.nn.relative_position_bias(TABLE, I * 1.0, J, axis="bucket"), ArgumentTypeError, ["query_positions must"]),
        (
            lambda: nx.nn.relative_position_bias(TABLE, I, J, axis="heads"),
            ArgumentError,
            ["buckets must be an integer from 4, got 2"],
        ),
        (lambda: nx.nn.relative_position_buckets(I * 1.0, 32), ArgumentTypeError, ["distance must contain integers"]),
        (lambda: nx.nn.relative_position_buckets(I, 1, bidirectional=False), ArgumentError, ["from 2, got 1"]),
        (lambda: nx.nn.relative_position_buckets(I, 32, max_distance=8), ArgumentError, ["greater than 8", "got 8"]),
        (lambda: nx.nn.relative_position_buckets(I, 32, max_distance=0.5), ArgumentError, ["max_distance must be an integer"]),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as info:
        call()
    for word in words:
        assert word in said(info.value)
