"""concatenate, stack, split, flip, tile, repeat, expand_dims, squeeze: against jnp in every placement, and what they send."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import append, array_split, concatenate, expand_dims, flip, split, squeeze, stack, tile
from namedax.errors import ArgumentTypeError, AxisNameError, AxisNotFoundError, AxisSizeError, PositionalAxisError
from namedax.hlo import summary
from namedax.numpy import repeat
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh

SOME = [p for p in PLACEMENTS[:8] if p.label not in ("blocks", "b-blocks")] + [p for p in FEW if p.kind == "explicit"]


def also(placement, names):
    """The placement with more names, each where another one is."""
    known = dict(placement.resources)
    more = tuple((new, known[old]) for new, old in names.items() if old in known)
    return dataclasses.replace(placement, resources=placement.resources + more)


def join(x, y, z):
    first, last = split(concatenate([y, x], "a", out_axis="A"), 2, "A", out_axis="a")
    return (
        concatenate([x, y, z], "a", out_axis="B"),
        concatenate([x, x], axis=0),
        stack([x, 2.0 * y, x * y, x], "s"),
        stack([x, y], -1),
        first * 3 + last,
        flip(x, ("a", "b", 0)),
        tile(x, {"a": 2}, out_axis={"a": "A"}),
        repeat(x, 2, "a", out_axis="A"),
        squeeze(expand_dims(x, ("one", 0)), ("one", 0)),
    )


def join_oracle(x, y, z):
    wide = jnp.broadcast_to(y[:, None, None], x.shape)
    return (
        jnp.concatenate([x, wide, jnp.broadcast_to(z[:, :, None], x.shape)]),
        jnp.concatenate([x, x], 2),
        jnp.stack([x, 2.0 * wide, x * wide, x]),
        jnp.stack([x, wide], -1),
        wide * 3 + x,
        jnp.flip(x),
        jnp.tile(x, (2, 1, 1)),
        jnp.repeat(x, 2, 0),
        x,
    )


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", SOME + PARTITIONER[:1], ids=str)
def test_joining(placement):
    ab = ["a", "b", None]
    out = (["B", "b", None], ab, ["s", *ab], [*ab, None], ab, ab, ["A", "b", None], ["A", "b", None], ab)
    args = (array(8, 4, 3), array(8), array(8, 4, seed=1))
    check(join, join_oracle, args, (ab, ["a"], ["a", "b"]), out, also(placement, {"A": "a", "B": "a"}))


# Not partly manual and Explicit: there JAX has trouble with the gradient of an index array.
@pytest.mark.fast(2)
@pytest.mark.parametrize("placement", FEW[1:3] + [p for p in PLACEMENTS if str(p) == "one-each-explicit"], ids=str)
def test_parts_of_another_placement(placement):
    # What is sharded becomes whole, and what is whole becomes sharded.
    counts = np.array([1, 0, 2, 3, 1, 1, 0, 0])

    def body(x, y):
        first, last = array_split(x, 2, "a", out_axis=["p", "q"])
        parts = (concatenate([x, x], "a", out_axis="w"), first, last, repeat(x, 3, "a", out_axis="r"))
        return (*parts, concatenate([y, 2 * y], "c", out_axis="A"), stack([y] * 8, "a"), repeat(x, counts, "a"))

    def oracle(x, y):
        return (
            jnp.concatenate([x, x]),
            x[:4],
            x[4:],
            jnp.repeat(x, 3),
            jnp.concatenate([y, 2 * y]),
            jnp.stack([y] * 8),
            jnp.repeat(x, counts),
        )

    out = (["w"], ["p"], ["q"], ["r"], ["A"], ["a", "c"], ["a"])
    check(body, oracle, (array(8), array(12)), (["a"], ["c"]), out, also(placement, {"A": "a"}))


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("sharded", ["", "p", "q", "w", "pq", "qw", "pqw"])
@pytest.mark.parametrize("placement", SOME + PARTITIONER[:1], ids=str)
def test_parts_by_name(placement, sharded):
    # Each part and the result are placed where "a" is, or not at all.
    def body(x, y, z):
        whole = concatenate({"p": x, "q": y}, out_axis="w")
        return whole, split(nx.sin(whole), {"p": 8, "q": 16}, "w"), concatenate({"q": z, "p": x}, out_axis="w")

    def oracle(x, y, z):
        whole = jnp.concatenate([jnp.broadcast_to(x[:, None], (8, 4)), y.T])
        parts = {"p": jnp.sin(whole[:8]), "q": jnp.sin(whole[8:]).T}
        return whole, parts, jnp.concatenate([z, x])

    known = dict(placement.resources)
    places = [(name, known[old]) for name, old in [*((name, "a") for name in sharded), ("b", "b")] if old in known]
    args = (array(8), array(4, 16, seed=1), array(16, seed=2))
    out = (["w", "b"], {"p": ["p", "b"], "q": ["b", "q"]}, ["w"])
    check(body, oracle, args, (["p"], ["b", "q"], ["q"]), out, dataclasses.replace(placement, resources=tuple(places)))


def test_parts_by_name_outside():
    x, y = nx.named(array(6, 3), ["k", "b"]), nx.named(array(2, seed=1), ["m"])
    both = concatenate({"k": x, "m": y}, out_axis="n")
    want = jnp.concatenate([array(6, 3), jnp.broadcast_to(array(2, seed=1)[:, None], (2, 3))])
    np.testing.assert_array_equal(nx.positional(both, ["n", "b"]), want)
    parts = split(both, {"k": 6, "m": 2}, "n")
    assert {name: dict(part.named_shape) for name, part in parts.items()} == {"k": {"k": 6, "b": 3}, "m": {"m": 2, "b": 3}}
    np.testing.assert_array_equal(nx.positional(parts["m"], ["m", "b"]), want[6:])
    assert split(y, {"m": 2}, "m")["m"].named_shape == {"m": 2}


@pytest.mark.fast(0)
def test_mistakes_with_parts():
    x, y = nx.named(jnp.ones((4, 3)), ["b", "k"]), nx.named(jnp.ones((2, 4)), ["m", "b"])
    both = concatenate({"k": x, "m": y}, out_axis="n")
    for error, text, call in (
        (AxisNameError, "which needs a name. Pass out_axis=", lambda: concatenate({"k": x, "m": y})),
        (AxisNameError, "axis='k' is given too. Omit axis", lambda: concatenate({"k": x, "m": y}, "k", out_axis="n")),
        (AxisNameError, "has the axis 'b' too", lambda: concatenate({"k": x, "b": y}, out_axis="n")),
        (AxisNotFoundError, "no axis 'c' in", lambda: concatenate({"k": x, "c": y}, out_axis="n")),
        (PositionalAxisError, "the list of arrays is empty", lambda: concatenate({}, out_axis="n")),
        (AxisSizeError, "must add up to 5", lambda: split(both, {"k": 3, "m": 3}, "n")),
        (AxisSizeError, "must not be negative", lambda: split(both, {"k": 6, "m": -1}, "n")),
        (ArgumentTypeError, "the size of 'k' must be a static integer", lambda: split(both, {"k": 3.0, "m": 2}, "n")),
        (AxisNameError, "axis=0 is not a name", lambda: split(both, {"k": 3, "m": 2})),
        (AxisNameError, "out_axis='z' is given too", lambda: split(both, {"k": 3, "m": 2}, "n", out_axis="z")),
        (AxisNameError, "would have the axis 'b' twice", lambda: split(both, {"b": 3, "m": 2}, "n")),
    ):
        with pytest.raises(error, match=re.escape(text)):
            call()


# --- what is sent ---------------------------------------------------------------------------------------------------

ITEM = make.zeros(()).dtype.itemsize
ROW = 5 * ITEM
SENT = {  # of 32 rows in blocks of 4, on 8 devices: collectives, and rows sent
    "flip": (lambda x: flip(x, "n"), "n", {"collective-permute": (1, 4)}),
    "concatenate": (lambda x: concatenate([x, 2 * x], "n", out_axis="m"), "m", {"collective-permute": (2, 8)}),
    "split": (lambda x: nx.add(*split(x, 2, "n", out_axis="m")), "m", {"collective-permute": (2, 4)}),
    "tile": (lambda x: tile(x, {"n": 2}, out_axis={"n": "m"}), "m", {"collective-permute": (2, 8)}),
    "repeat": (lambda x: repeat(x, 2, "n", out_axis="m"), "m", {}),
    "stack": (lambda x: stack([x, x], "s"), "n", {}),
    "gather": (lambda x: concatenate([x], "n", out_axis="whole"), "whole", {"all-gather": (1, 32)}),
}


@pytest.mark.parametrize("case", SENT)
def test_only_what_is_needed_travels(case):
    body, name, sent = SENT[case]
    out = {0 if case != "stack" else 1: name} | ({0: "s"} if case == "stack" else {})
    resources = {"n": "x"} | ({"m": "x"} if name == "m" else {})
    f = nx.xmap(body, ["n", None], out, axis_resources=resources, mesh=make_mesh((8,)))
    assert summary(f.lower(jnp.zeros((32, 5))).compile()) == {kind: (count, rows * ROW) for kind, (count, rows) in sent.items()}


# --- outside, and mistakes ------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_outside_of_mapped_functions():
    data = array(6, 3)
    x = nx.named(data, ["k", None])
    y = nx.named(array(2, 4), ["k", "b"])
    both = concatenate([x, y], "k")
    assert dict(both.named_shape) == {"k": 8, "b": 4}
    assert both.shape == (3,)
    want = jnp.concatenate([jnp.broadcast_to(data[:, None], (6, 4, 3)), jnp.broadcast_to(array(2, 4)[:, :, None], (2, 4, 3))])
    np.testing.assert_array_equal(nx.positional(both, ["k", "b", None]), want)
    for cuts in (3, [1, 1, 4], [-1], [0, 9]):
        for have, part in zip(split(x, cuts, "k"), np.split(data, cuts), strict=True):
            np.testing.assert_array_equal(nx.positional(have, ["k", None]), part)
    for have, part in zip(array_split(x, 4, "k"), jnp.array_split(data, 4), strict=True):
        np.testing.assert_array_equal(nx.positional(have, ["k", None]), part)
    assert [part.shape for part in split(x, 3, 0)] == [(1,)] * 3
    assert concatenate([x, x[:0]], 0).shape == (3,)
    assert concatenate([nx.named(jnp.zeros((2, 0)), [None, "k"]), nx.named(jnp.ones((1, 1)), [None, "k"])], "k").shape == (2,)
    assert concatenate([nx.named(jnp.ones(2, int), ["k"])] * 2, "k", dtype=jnp.bfloat16).dtype == jnp.bfloat16
    np.testing.assert_array_equal(nx.positional(repeat(x, np.arange(6), "k"), ["k", None]), jnp.repeat(data, np.arange(6), 0))
    late = jax.jit(lambda x, n: repeat(x, n, "k", total_repeat_length=15))(x, make.arange(6))
    np.testing.assert_array_equal(nx.positional(late, ["k", None]), jnp.repeat(data, np.arange(6), 0))
    np.testing.assert_array_equal(
        nx.positional(tile(x, (2, 2)), [None, None, "k"]), jnp.tile(data.T[None], (2, 2, 1)).reshape(2, 6, 6)
    )
    np.testing.assert_array_equal(nx.positional(append(x, x, "k"), ["k", None]), jnp.append(data, data, 0))
    assert append(x, 1.0).shape == (4,)
    assert repeat(x, 2).shape == (6,)
    assert flip(x).data[0, 0] == data[0, 2]
    # Without names they are jnp's.
    assert concatenate([data, data], 1).shape == (6, 6)
    assert stack([data, data], 1).shape == (6, 2, 3)
    assert tile(data, 2).shape == (6, 6)
    assert expand_dims(data, (0, -1)).shape == (1, 6, 3, 1)
    assert squeeze(data[:1]).shape == (3,)
    assert flip(data, 0)[0, 0] == data[5, 0]
    assert len(split(data, 2)) == 2


def test_a_name_that_was_born_in_the_body_has_no_fixed_size():
    def body(x):
        y = nx.rename(x, {"a": "new"})
        return flip(concatenate([y, y], "new"), "new")

    f = nx.xmap(body, ["a"], ["new"], axis_resources={"a": "x", "new": "x"}, mesh=make_mesh((4, 2)))
    x = array(8)
    np.testing.assert_array_equal(f(x), jnp.flip(jnp.concatenate([x, x])))


X = nx.named(make.zeros((6, 3)), ["k", None])
MISTAKES = [
    (lambda: concatenate([X, X.data], "k"), AxisNotFoundError, "concatenate: no axis 'k' in f"),
    (lambda: concatenate([], "k"), PositionalAxisError, "concatenate: the list of arrays is empty"),
    (lambda: concatenate(X, "k"), PositionalAxisError, "the first argument must be a list of arrays"),
    (
        lambda: concatenate([X, nx.named(jnp.zeros((6, 2)), ["k", None])], "k"),
        PositionalAxisError,
        "concatenate: positional axis -1 has size 3",
    ),
    (lambda: stack([X, X], "k"), AxisNameError, "stack: axis 'k' appears twice"),
    (lambda: stack([X, X], 2), PositionalAxisError, "stack: positional axis 2 is out of range for a result with 2"),
    (lambda: split(X, 4, "k"), AxisSizeError, "split: axis 'k' of size 6 does not divide into 4 equal parts"),
    (lambda: split(X, 0, "k"), AxisSizeError, "the number of parts of axis 'k' must be a positive integer, got 0"),
    (lambda: split(X, [3, 1], "k"), AxisSizeError, "must not decrease"),
    (lambda: split(X, 2, "k", out_axis=["p"]), AxisNameError, "has 1 names for 2 parts"),
    (lambda: flip(X, "q"), AxisNotFoundError, "flip: no axis 'q'"),
    (lambda: tile(X, {"k": 1.5}), ArgumentTypeError, r"tile: reps\['k'\] must be a static integer of at least 0, got 1.5"),
    (lambda: tile(X, {"k": 2}, out_axis={"q": "r"}), AxisNotFoundError, "tile: no axis 'q'"),
    (lambda: repeat(X, X, "k"), ArgumentTypeError, "repeats must be integers, got"),
    (lambda: expand_dims(X, "k"), AxisNameError, "expand_dims: .* already has the axis 'k'"),
    (lambda: expand_dims(X, (0, 3)), PositionalAxisError, "3 is neither an axis name nor a positional axis"),
    (lambda: squeeze(X, "k"), AxisSizeError, "squeeze: axis 'k' of .* has size 6"),
    (lambda: squeeze(X, 0), AxisSizeError, "squeeze: positional axis 0 of .* has size 3"),
]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("placement", FEW[:2], ids=str)
def test_a_name_keeps_its_size_in_a_mapped_function(placement):
    for body, op, size in [
        (lambda x: concatenate([x, x], "a"), "concatenate", 16),
        (lambda x: split(x, 2, "a")[0], "split", 4),
        (lambda x: tile(x, {"a": 3}), "tile", 24),
        (lambda x: repeat(x, 2, "a"), "repeat", 16),
        (lambda x: stack([1.0, 2.0], "a"), "stack", 2),
    ]:
        with pytest.raises(
            AxisSizeError, match=f"{op}: axis 'a' would have size {size}, but it has size 8 in this mapped function"
        ):
            nx.xmap(body, ["a"], ["a"], **placement.options)(make.zeros(8))


def test_under_jit_the_same():
    x = nx.named(array(6, 3), ["k", None])
    np.testing.assert_array_equal(jax.jit(lambda x: concatenate([x, x], "k"))(x).data, concatenate([x, x], "k").data)
