"""`nx.shard` does not replicate an axis that does not divide without a word."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import namedax as nx
from namedax.errors import ArgumentTypeError, UnevenAxisWarning
from tests import make


def mesh(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))


def days(dtype=jnp.float32):
    return nx.named(make.array(np.arange(1461 * 3).reshape(1461, 3), dtype), ["day", "k"])


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize(
    ("resources", "dtype", "text"),
    [
        (
            {"day": ("x", "y")},
            jnp.float32,
            "axis 'day' of size 1461 does not divide over mesh axes ('x', 'y'), 8 devices in total, and is"
            " replicated: each device stores 17,532 bytes of 1 array instead of 2,196.",
        ),
        (
            {"day": "y", "k": "x"},
            jnp.int8,
            "axis 'day' of size 1461 does not divide over mesh axes ('y',), 2 devices in total; axis 'k' of size 3"
            " does not divide over mesh axes ('x',), 4 devices in total, and are replicated: each device stores"
            " 4,383 bytes of 1 array instead of 731.",
        ),
    ],
    ids=["one", "two"],
)
def test_the_warning_has_sizes_bytes_and_both_remedies(resources, dtype, text, kind):
    with pytest.warns(UnevenAxisWarning) as found:
        placed = nx.shard(days(dtype), resources, mesh(kind))
    assert [str(warning.message) for warning in found] == [
        f"shard: {text} Pass padded=True to store such axes padded and sharded, or padded=False to accept the copies."
    ]
    assert found[0].filename == __file__
    assert placed.sharding.spec == PartitionSpec(None, None)
    assert placed.data.addressable_shards[0].data.nbytes == days(dtype).nbytes


def test_the_bytes_are_those_of_both_ways_of_storage():
    tree = {"a": days(), "b": nx.ones(named_shape={"k": 6, "day": 1461}), "c": nx.ones(named_shape={"k": 4}), "d": 1.0}
    resources = {"day": "x", "k": "y"}
    with pytest.warns(UnevenAxisWarning) as found:
        copied = nx.shard(tree, resources, mesh())
    stored = nx.shard(tree, resources, mesh(), padded=True)

    def held(tree):
        return sum(nx.distributed.bytes_per_device(tree[key]) for key in "ab")

    assert len(found) == 1
    assert f"stores {held(copied):,} bytes of 2 arrays instead of {held(stored):,}." in str(found[0].message)


def test_many_axes_are_counted():
    names = [f"n{i}" for i in range(6)]
    with pytest.warns(UnevenAxisWarning, match=r"'n3' of size 3 .*; 2 more axes do not divide, and are replicated"):
        nx.shard({name: nx.ones(named_shape={name: 3}) for name in names}, dict.fromkeys(names, "x"), mesh())


def test_keys_are_counted():
    keys = nx.named(jax.random.split(jax.random.key(0), 9), ["n"])
    with pytest.warns(UnevenAxisWarning, match="stores 72 bytes of 1 array instead of 24"):
        nx.shard(keys, {"n": "x"}, mesh())


def test_under_jit():
    with pytest.warns(UnevenAxisWarning, match="'day' of size 1461"):
        placed = jax.jit(lambda x: nx.shard(x, {"day": "x"}, mesh()))(days())
    np.testing.assert_array_equal(placed.data, days().data)


def test_once_for_each_place():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            nx.shard(days(), {"day": "x"}, mesh())
        nx.shard(days(), {"day": "x"}, mesh())
    assert [warning.category for warning in found] == [UnevenAxisWarning] * 2


@pytest.mark.parametrize("padded", [True, False])
def test_an_answer_is_no_warning(padded):
    placed = nx.shard(days(), {"day": "x"}, mesh(), padded=padded)
    assert placed.sharding.spec == PartitionSpec("x" if padded else None, None)
    assert placed.data.shape == (1464 if padded else 1461, 3)


@pytest.mark.parametrize(
    "resources", [{"day": ("x", "y")}, {"day": nx.SerialLoop(7)}, {}, {"day": None}], ids=["divides", "loop", "{}", "None"]
)
def test_no_copy_is_no_warning(resources):
    x = nx.ones(named_shape={"day": 1464 if resources.get("day") == ("x", "y") else 1461})
    assert nx.shard(x, resources, mesh()).dims == ("day",)


def test_a_stored_array_is_gathered_with_a_warning():
    stored = nx.shard(days(), {"day": "x"}, mesh(), padded=True)
    assert nx.shard(stored, {}, mesh()).data.shape == (1461, 3)
    with pytest.warns(UnevenAxisWarning, match="1461"):
        assert nx.shard(stored, {"day": "x"}, mesh()).data.shape == (1461, 3)


@pytest.mark.parametrize("padded", ["day", ["day"], 2, days()], ids=["str", "list", "int", "array"])
def test_padded_is_true_false_or_none(padded):
    with pytest.raises(ArgumentTypeError, match=r"shard: padded=.* neither True nor False"):
        nx.shard(days(), {"day": "x"}, mesh(), padded=padded)


def test_it_is_a_warning_of_users():
    assert issubclass(nx.errors.UnevenAxisWarning, UserWarning)
    assert not issubclass(nx.errors.UnevenAxisWarning, nx.errors.NamedaxError)
