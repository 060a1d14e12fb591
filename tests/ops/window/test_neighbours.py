"""roll, shift, halo, pad, diff, convolve, conv: against jnp in every placement, and what they send."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import conv, convolve, diff, halo, pad, roll, shift
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
)
from namedax.hlo import summary
from namedax.resources.row_moves import move_rows
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh, said

SOME = [p for p in PLACEMENTS[:8] if p.label not in ("blocks", "b-blocks")] + [p for p in FEW if p.kind == "explicit"]


def also(placement, names):
    """The placement with more names, each where another one is."""
    known = dict(placement.resources)
    more = tuple((new, known[old]) for new, old in names.items() if old in known)
    return dataclasses.replace(placement, resources=placement.resources + more)


def neighbours(x, k):
    return (
        roll(x, (3, -1), ("a", "b")),
        roll(x, 11, "a"),
        shift(x, -3, "a", fill_value=1.5),
        halo(x, "a", 1, 2, mode="wrap"),
        halo(x, "b", 2, 0, mode="edge"),
        diff(x, axis="a", prepend=nx.sum(x, "a")),
        convolve(x, k, "same", axis="a"),
        pad(x, {"a": (5, 3), "b": 0}, out_axis={"a": "A"}),
    )


def neighbours_oracle(x, k):
    wrapped = jnp.pad(x, [(1, 2), (0, 0), (0, 0)], "wrap")
    edged = jnp.pad(x, [(0, 0), (2, 0), (0, 0)], "edge")
    same = jax.vmap(jax.vmap(lambda row: jnp.convolve(row, k, "same"), 1, 1), 2, 2)(x)
    return (
        jnp.roll(x, (3, -1), (0, 1)),
        jnp.roll(x, 11, 0),
        jnp.concatenate([x[3:], jnp.full_like(x[:3], 1.5)]),
        jnp.stack([wrapped[j : j + 8] for j in range(4)], -1),
        jnp.stack([edged[:, j : j + 4] for j in range(3)], -1),
        jnp.diff(x, axis=0, prepend=x.sum(0, keepdims=True)),
        same,
        jnp.pad(x, [(5, 3), (0, 0), (0, 0)]),
    )


@pytest.mark.fast(2)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", SOME + PARTITIONER[:1], ids=str)
def test_neighbours(placement):
    ab, windows = ["a", "b", None], ["a", "b", None, None]
    out = (ab, ab, ab, windows, windows, ab, ab, ["A", "b", None])
    check(neighbours, neighbours_oracle, (array(8, 4, 3), array(4)), (ab, [None]), out, also(placement, {"A": "a"}))


def convolutions(x, w, v, k):
    return (
        conv(x, w, ("a", "b"), kernel_axis=("ka", "kb"), features_in="c", features_out="d"),
        conv(x, v, ("a",), strides=2, kernel_dilation=2, padding=[(2, 1)], out_axis={"a": "h"}),
        convolve(x, k, "full", axis="a", out_axis="A"),
    )


def convolutions_oracle(x, w, v, k):
    y = lax.conv_general_dilated(x[None], w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))[0]
    columns = x.transpose(1, 2, 0)  # b, c, a; one filter a channel
    z = lax.conv_general_dilated(columns, v.T[:, None], (2,), [(2, 1)], rhs_dilation=(2,), feature_group_count=3)
    full = jax.vmap(jax.vmap(lambda row: jnp.convolve(row, k, "full"), 1, 1), 2, 2)(x)
    return y, z.transpose(2, 0, 1), full


# Not with the partitioner: on CPUs it computes a wrong gradient of a strided, dilated convolution over a sharded axis.
@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", FEW + [p for p in PLACEMENTS if str(p) in ("crossed-auto", "two-reversed-auto")], ids=str)
def test_convolutions(placement):
    args = (array(8, 4, 3), array(3, 2, 3, 5, seed=1), array(3, 3, seed=2), array(9, seed=3))
    in_axes = (["a", "b", "c"], ["ka", "kb", "c", "d"], [None, "c"], [None])
    out_axes = (["a", "b", "d"], ["h", "b", "c"], ["A", "b", "c"])
    check(convolutions, convolutions_oracle, args, in_axes, out_axes, also(placement, {"A": "a"}))


def test_a_sharded_feature_is_summed_over():
    placement = dataclasses.replace(FEW[2], resources=(("a", "x"), ("b", "y")))

    def body(x, w):
        return conv(x, w, ("a",), features_in="b", features_out="d")

    def oracle(x, w):
        return lax.conv_general_dilated(x[None], w, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"))[0]

    check(body, oracle, (array(8, 4), array(3, 4, 5)), (["a", "b"], [None, "b", "d"]), ["a", "d"], placement)


# --- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("axes", [("x", "y"), ("y", "x"), ("x",)], ids=str)
def test_any_map_of_rows(axes):
    rng = np.random.default_rng(3)
    devices = 8 if len(axes) == 2 else 4
    n = 3 * devices
    maps = [
        rng.integers(-1, n, (devices, 4)),
        rng.permutation(n).reshape(devices, 3),
        np.pad(np.arange(n), devices, mode="reflect").reshape(devices, 5),
    ]
    if devices == 4:
        maps += [np.repeat(np.arange(4) * 2 + 1, 2).reshape(4, 2), np.full((4, 2), -1), np.zeros((4, 0), int)]
    x = array(2, n)

    def body(x):
        return [move_rows(x, 1, axes, rows, 2.5) for rows in maps]

    spec = P(None, axes)
    mapped = jax.jit(jax.shard_map(body, mesh=make_mesh((4, 2)), in_specs=spec, out_specs=spec))

    def oracle(x):
        return [jnp.where(jnp.asarray(rows.ravel()) < 0, 2.5, x[:, rows.ravel()]) for rows in maps]

    def project(f):
        return lambda x: sum(jnp.sum(y * jnp.arange(1.0, y.size + 1).reshape(y.shape)) for y in f(x))

    for have, want in zip(mapped(x), oracle(x), strict=True):
        np.testing.assert_array_equal(have, want)
    np.testing.assert_allclose(jax.grad(project(mapped))(x), jax.jit(jax.grad(project(oracle)))(x), rtol=1e-5)


def test_a_shift_that_is_known_at_run_time():
    x = array(8, 3)
    f = nx.xmap(lambda x, s: roll(x, s, "a"), (["a", None], []), ["a", None], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    for s in (-9, -1, 0, 3, 8, 13):
        np.testing.assert_array_equal(f(x, s), jnp.roll(x, s, 0))


# --- what is sent ---------------------------------------------------------------------------------------------------

ITEM = make.zeros(()).dtype.itemsize
ROW = 5 * ITEM
SENT = {  # of 32 rows in blocks of 4, on 8 devices: collective-permutes, and rows sent
    "roll by one": (lambda x: roll(x, 1, "n"), 1, 1),
    "roll by a block": (lambda x: roll(x, -4, "n"), 1, 4),
    "roll by more": (lambda x: roll(x, 6, "n"), 2, 4),
    "roll by nothing": (lambda x: roll(x, 32, "n"), 0, 0),
    "shift": (lambda x: shift(x, 1, "n"), 1, 1),
    "halo": (lambda x: nx.sum(halo(x, "n", 1, 2), -1), 2, 3),
    "halo of more than a block": (lambda x: nx.sum(halo(x, "n", 5, 0), -1), 2, 5),
    "diff": (lambda x: diff(x, axis="n", append=0.0), 1, 1),
    "convolve": (lambda x: convolve(x, jnp.arange(1.0, 4.0), "same", axis="n"), 2, 2),
    "pad": (lambda x: pad(x, {"n": 4}, out_axis={"n": "m"}), 1, 3),
}


@pytest.mark.full(4)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", SENT)
def test_only_what_is_needed_travels(case):
    body, count, rows = SENT[case]
    out = ["m" if case == "pad" else "n", None]
    f = nx.xmap(body, ["n", None], out, axis_resources={"n": "x"} | ({"m": "x"} if case == "pad" else {}), mesh=make_mesh((8,)))
    x = make.zeros((32, 5))
    sent = {"collective-permute": (count, rows * ROW)} if count else {}
    assert summary(f.lower(x).compile()) == sent
    weights = array(*f(x).shape)
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(f(x) * weights)))
    back = summary(gradient.lower(jax.device_put(x, f(x).sharding)).compile())
    assert back.get("collective-permute", (0, 0)) == sent.get("collective-permute", (0, 0))
    assert "all-gather" not in back


def test_conv_names_the_kernel_axis_that_is_sharded():
    f = nx.xmap(
        lambda x, k: conv(x, k, ("a",), kernel_axis=("p",)),
        (["a"], ["p"]),
        ["a"],
        axis_resources={"p": "x"},
        mesh=make_mesh((2,)),
    )
    with pytest.raises(nx.errors.AxisResourceError) as error:
        f(array(8), array(2))
    assert said(error.value) == (
        "conv: the kernel's axis 'p' is sharded over mesh axis 'x', but every device needs the complete window. Leave 'p' unmapped, or "
        "rename the kernel's axis with nx.rename(kernel, {'p': 'tap'})."
    )


def test_conv_sends_its_halo():
    f = nx.xmap(
        functools.partial(conv, axis=("h", "w"), features_in="c", features_out="d"),
        (["batch", "h", "w", "c"], [None, None, "c", "d"]),
        ["batch", "h", "w", "d"],
        axis_resources={"h": "x", "batch": "y"},
        mesh=make_mesh((4, 2)),
    )
    compiled = f.lower(make.zeros((2, 16, 6, 3)), make.zeros((3, 3, 3, 5))).compile()
    assert summary(compiled) == {"collective-permute": (2, 2 * 6 * 3 * ITEM)}


# --- outside, and mistakes ------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_outside_of_mapped_functions():
    data = array(6, 3)
    x = nx.named(data, ["k", None])
    for n in (0, 2, 7):
        np.testing.assert_allclose(nx.positional(diff(x, n, "k"), ["k", ...]), jnp.diff(data, n, 0), rtol=1e-6)
    for mode in ("constant", "edge", "reflect", "mean", "linear_ramp"):
        np.testing.assert_allclose(
            nx.positional(pad(x, {"k": (1, 2), 0: 1}, mode), ["k", ...]), jnp.pad(data, [(1, 2), (1, 1)], mode), rtol=1e-6
        )
    for mode in ("full", "same", "valid"):
        for taps in (1, 4, 7):
            kernel = array(taps)
            have = nx.positional(convolve(x, kernel, mode, axis="k"), [None, "k"])
            want = [np.convolve(row, kernel, mode) for row in np.asarray(data).T]
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    assert jnp.array_equal(roll(x, 2).data, jnp.roll(data, 2, 1))  # no axis: the positional ones
    assert jnp.array_equal(roll(data, 2), jnp.roll(data, 2))
    window = halo(x, "k", 0, 1, out_axis="w", mode="constant", fill_value=7)
    np.testing.assert_array_equal(
        nx.positional(window, ["w", "k", None])[1], jnp.pad(data, ((0, 1), (0, 0)), constant_values=7)[1:]
    )
    assert jnp.array_equal(pad(data, ((1, 1), (0, 2))), jnp.pad(data, ((1, 1), (0, 2))))
    assert diff(nx.named(jnp.array([True, False]), ["k"]), axis="k").dtype == bool


def test_the_kernel_may_have_names():
    x, k = array(6, 2), array(3, 2)
    have = convolve(nx.named(x, ["n", "c"]), nx.named(k, [None, "c"]), "valid", axis="n")
    want = jnp.stack([jnp.convolve(x[:, i], k[:, i], "valid") for i in range(2)], 1)
    np.testing.assert_allclose(nx.positional(have, ["n", "c"]), want, rtol=1e-5)


X = nx.named(make.zeros((6, 3)), ["k", None])
MISTAKES = [
    (lambda: roll(X, 1, "q"), AxisNotFoundError, "roll: no axis 'q' in f"),
    (lambda: roll(X, (1, 2), ("k", 0, 0)), PositionalAxisError, "roll: got 2 shifts for 3 axes"),
    (lambda: roll(X, nx.named(jnp.arange(2), ["b"]), "k"), PositionalAxisError, "varies over named axes"),
    (lambda: shift(X, 1.5, "k"), ArgumentTypeError, "shift: offset must be a static integer, got 1.5"),
    (lambda: halo(X, "k", -1), ArgumentError, "halo: before must be a static integer of at least 0, got -1"),
    (lambda: halo(X, "k", mode="mirror"), PositionalAxisError, "halo: mode must be one of 'zero'"),
    (lambda: halo(X, "k", out_axis="k"), AxisNameError, "must be an axis name that .* lacks"),
    (lambda: pad(X, {"k": 1}, out_axis={"q": "r"}), AxisNotFoundError, "pad: no axis 'q' in pad_width"),
    (lambda: pad(X, {"k": (1, 2, 3)}), PositionalAxisError, "neither a number nor a pair"),
    (lambda: pad(X, (1, 2), axis="k"), ArgumentError, "pad: mode='constant' takes constant_values= only, not axis="),
    (
        lambda: pad(X, (1, 2), out_axis={"k": "m"}),
        ArgumentError,
        "pad: out_axis={'k': 'm'} is only for named axes. Write pad_width as a",
    ),
    (lambda: diff(X, axis="k", out_axis=3), AxisNameError, "out_axis=3 is not an axis name"),
    (
        lambda: convolve(X, X, axis="k", mode="most"),
        PositionalAxisError,
        "convolve: mode must be 'full', 'same' or 'valid', got 'most'",
    ),
    (lambda: convolve(X, 2.0, axis="k"), PositionalAxisError, "must have exactly one positional axis"),
    (lambda: conv(X, jnp.ones((2, 2)), ("k",)), PositionalAxisError, "has 2 positional axes for the 1 axes"),
    (lambda: conv(X, jnp.ones(2), ("k",), padding="FULL"), PositionalAxisError, "padding must be 'SAME', 'VALID' or a pair"),
    (lambda: conv(X, jnp.ones(7), ("k",), padding="VALID"), AxisSizeError, "covers 7 elements, but axis 'k' has 6"),
    (lambda: conv(X, jnp.ones(7), ("k",), features_in="c"), AxisNotFoundError, "conv: no axis 'c'"),
    (lambda: conv(X, jnp.ones(7), ("k",), strides=(1, 2)), PositionalAxisError, "strides=.1, 2. has 2 values for 1 axes"),
]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("placement", FEW[:2], ids=str)
def test_a_name_keeps_its_size_in_a_mapped_function(placement):
    with pytest.raises(AxisSizeError, match=r"diff: axis 'a' would have size 7, but it has size 8 .* out_axis=..."):
        nx.xmap(lambda x: diff(x, axis="a"), ["a"], ["a"], **placement.options)(make.zeros(8))
    options = also(placement, {"q": "a"}).options
    if placement.resources:
        f = nx.xmap(lambda x: diff(x, axis="a", out_axis="q"), ["a"], ["q"], **options)
        np.testing.assert_array_equal(f(array(8)), np.diff(array(8)))  # axis 'q' is uneven
