"""`partitioning="auto"` is a second opinion, so it must not lie: every kind of operation against the unmapped program.

Values (with NaNs and infinities among the data, too) and gradients. XLA's partitioner drops NaNs in the maximum of a sharded axis, and
convolves wrongly where it cuts a kernel or places the result by another name; namedax settles the operands of such operations.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from tests import make

IN_AXES = (["b", "k", "c"], ["c", "o"], ["b"], ["t", "c", "d"])
REST = {"b": ["k", "c"], "k": ["b", "c"]}
B = ["b", "k", "c"]
IDS = nx.named(make.array([0, 2, 1, 1, 0, 2, 2, 3]), ["b"])
Q = nx.named(make.array([1, 5, 0, 7]), ["q"])


def reductions(x, w, v, r):
    names = "sum prod mean var max min any all logsumexp nanmax nanmean median ptp".split()
    found = {
        f"{name} {axis}": getattr(nx.numpy if name == "ptp" else nx, name)(x, axis) for name in names for axis in ("b", "k")
    }
    return {
        **found,
        "argmax b": nx.argmax(x, "b"),
        "quantile b": nx.quantile(x, 0.3, "b"),
        "norm b": nx.norm(x, np.inf, axis="b"),
    }


def along(x, w, v, r):
    return {
        "cumulative": [nx.cumsum(x, "b"), nx.cummax(x, "b"), nx.cumlogsumexp(x, "k"), nx.cumprod(x, "k")],
        "sorted": [nx.sort(x, "b"), nx.argsort(x, "k"), nx.flip(x, "b"), nx.roll(x, (3, -1), ("b", "k")), nx.diff(x, axis="b", prepend=0.0)],
        "scanned": [nx.scan(lambda c, x: (c + x, c), 0.0, x, axis="b")[1], nx.associative_scan(nx.multiply, x, axis="b")],
        "normal": [nx.nn.softmax(x, "b"), nx.nn.log_softmax(x, ("b", "k")), nx.nn.layer_norm(x, "b")],
        "branch": [nx.cond(v > 0, lambda x: 0.5, lambda x: nx.max(x, "b"), x)],
        "collectives": [nx.lax.ppermute(x, "b", [(0, 1), (2, 7)]), nx.lax.pshuffle(x, "b", [3, 2, 1, 0, 7, 6, 5, 4]), nx.lax.pmax(x, "b") * x],
        "updated": [x.at["b", 3].set(2.0), x.at["b", 1].add(x["b", 6]), nx.take_along_axis(x, nx.argsort(x, "b"), "b")],
    }  # fmt: skip


def moved(x, w, v, r):
    """What gets axes of other names, which may be on mesh axes of their own."""
    return {
        "segments": [nx.segment_max(x, IDS, 4, axis="b", out_axis="s"), nx.segment_min(x, IDS, 4, axis="b", out_axis="s")],
        "segment sums": nx.segment_sum(x, IDS, 4, axis="b", out_axis="s"),
        "einsum": nx.einsum("{b,k,c},{c,o}->{bb:b,k,o}", x, w),
        "scores": nx.einsum("{b,k,c},{bb:b,k,c}->{bb,k,b}", x, x),
        "renamed": nx.rename(x, {"b": "bb"}),
        "taken": nx.take(x, Q, "b"),
        "split": nx.rearrange(x, "{b=(q s), k, c} -> {q, s, k, c}", q=4),
        "merged": nx.rearrange(x, "{b, k, c} -> {c, m=(k b)}"),
        "reduced": nx.reduce(x, "{b=(q s), k, c} -> {s, c}", "max", q=4),
        "joined": nx.concatenate([x, 2 * x], "b", out_axis="m2"),
    }


MOVED = {
    "segments": [["s", "k", "c"]] * 2,
    "segment sums": ["s", "k", "c"],
    "einsum": ["bb", "k", "o"],
    "scores": ["bb", "k", "b"],
    "renamed": ["bb", "k", "c"],
    "taken": ["q", "k", "c"],
    "split": ["q", "s", "k", "c"],
    "merged": ["c", "m"],
    "reduced": ["s", "c"],
    "joined": ["m2", "k", "c"],
}


def convolved(x, w, v, r):
    options = {"kernel_axis": ("t",), "features_in": "c"}
    return {
        "conv": nx.conv(x, r, ("b",), **options, features_out="d", out_axis={"b": "m3"}),
        "strided": nx.conv(x, r, ("b",), **options, features_out="d", strides=2, padding=[(1, 2)], out_axis={"b": "h"}),
        "one feature": nx.conv(x, r["d", 1], ("b",), **options),
        "convolve": nx.convolve(x, jnp.array([1.0, 2.0, 1.0]), "same", axis="b"),
    }


CONVOLVED = {"conv": ["m3", "k", "d"], "strided": ["h", "k", "d"], "one feature": ["b", "k"], "convolve": B}
PROGRAMS = {
    "reductions": (reductions, None, True),
    "along": (along, None, True),
    "moved": (moved, MOVED, True),
    "convolved": (convolved, CONVOLVED, False),
}
ALL = {
    "b": "x",
    "k": "y",
    "s": "z",
    "m": "z",
    "h": "z",
    "t": "z",
    "q": "x",
    "bb": "z",
    "o": "y",
    "d": "y",
    "m2": "x",
    "m3": "z",
}
LAYOUTS = {
    "one": ((8,), {"b": "x"}),
    "two": ((4, 2), {"b": "x", "k": "y"}),
    "elsewhere": ((2, 2, 2), {name: axis for name, axis in ALL.items() if name not in ("k", "q")}),
    "both": ((4, 2), {"b": ("x", "y"), "t": "x"}),
}


def inputs():
    rng = np.random.default_rng(5)
    x, *rest = (np.asarray(rng.normal(size=shape), np.float32) for shape in ((8, 4, 6), (6, 10), (8,), (4, 6, 2)))
    special = x.copy()
    special[[1, 5, 2, 6], [0, 2, 3, 1], [0, 3, 1, 5]] = [np.nan, np.inf, -np.inf, np.nan]
    return jnp.asarray(x), jnp.asarray(special), tuple(map(jnp.asarray, rest))


def outcome(mapped, with_specials):
    """Values, values with NaNs and infinities, and gradients: one compiled program."""

    def run(x, special, rest):
        def loss(x, *rest):
            leaves = [leaf for leaf in jax.tree.leaves(mapped(x, *rest)) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
            return sum(jnp.sum(jnp.sin(leaf) * jnp.cos(jnp.arange(leaf.size).reshape(leaf.shape))) for leaf in leaves)

        gradients = jax.grad(loss, argnums=(0, 1, 2, 3))(x, *rest)
        return mapped(x, *rest), mapped(special, *rest) if with_specials else None, gradients

    return jax.jit(run)(*inputs())


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("label", PROGRAMS)
def test_the_second_opinion_does_not_lie(label):
    program, out_axes, with_specials = PROGRAMS[label]
    want = outcome(nx.xmap(program, IN_AXES, out_axes), with_specials)
    for layout, (shape, resources) in LAYOUTS.items():
        mesh = jax.make_mesh(shape, ("x", "y", "z")[: len(shape)], axis_types=(AxisType.Auto,) * len(shape))
        names = {
            name
            for mapping in (*IN_AXES, *jax.tree.leaves(out_axes))
            for name in ([mapping] if isinstance(mapping, str) else mapping)
        }
        names |= {"bb", "s", "q"} if label == "moved" else set()
        used = {name: axes for name, axes in resources.items() if name in names}
        have = outcome(nx.xmap(program, IN_AXES, out_axes, mesh=mesh, axis_resources=used, partitioning="auto"), with_specials)
        for (path, h), w in zip(jax.tree_util.tree_flatten_with_path(have)[0], jax.tree.leaves(want), strict=True):
            h, w = np.asarray(h), np.asarray(w)
            tol = 1e-3 * max(1, np.abs(w[np.isfinite(w)]).max(initial=0))
            np.testing.assert_allclose(h, w, rtol=1e-3, atol=tol, err_msg=f"{layout} {jax.tree_util.keystr(path)}")


@pytest.mark.fast(1)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "complex64"])
def test_extrema_of_other_types(dtype):
    x = inputs()[1 if dtype != "int32" else 0]
    x = jnp.where(jnp.isinf(x), 3, x).astype(dtype)
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))

    def program(x):
        return nx.max(x, "b"), nx.min(x, ("b", "k")), nx.max(x, "b", where=x.real > -1, initial=0)

    options = {"mesh": mesh, "axis_resources": {"b": "x"}, "partitioning": "auto"}
    for h, w in zip(nx.xmap(program, (B,), None, **options)(x), nx.xmap(program, (B,), None)(x), strict=True):
        assert h.dtype == w.dtype
        wide = np.complex64 if dtype == "complex64" else np.float32
        np.testing.assert_array_equal(np.asarray(h.data).astype(wide), np.asarray(w.data).astype(wide))


@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=str)
def test_nan_survives_where_an_argument_arrives_sharded_over_a_mesh_axis_that_nobody_maps(resources):
    # XLA's partitioner reduces between the devices, and its maximum drops NaN on CPUs.
    x = np.random.default_rng(0).normal(size=(4, 8, 6)).astype(np.float32)
    x[1, 2, 3] = x[3, 7, 0] = np.nan
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    here = jax.device_put(x, jax.NamedSharding(mesh, jax.P(None, "y")))
    f = nx.xmap(
        lambda x, y: (nx.max(x, "b"), nx.min(y, 0)),
        (["a", "b", "c"], ["a", None, "c"]),
        ["a", "c"],
        axis_resources=resources,
        mesh=mesh,
    )
    for have, want in zip(f(here, here), (x.max(1), x.min(1)), strict=True):
        np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(nx.max(here, 1), x.max(1))


def test_parts_of_what_another_operation_reads_as_well():
    """XLA's partitioner ends in an internal error where it cuts what both read."""
    x = np.random.default_rng(0).normal(size=(2, 8)).astype("float32")
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))

    def program(x):
        first, second = nx.split(x, 2, "k", out_axis="part")
        return nx.cumsum(x, "k"), first, second

    out_axes = (["b", "k"], ["b", "part"], ["part", "b"])
    f = nx.xmap(program, ["b", "k"], out_axes, mesh=mesh, axis_resources={"k": "x"}, partitioning="auto")
    for have, want in zip(f(x), (np.cumsum(x, 1), x[:, :4], x[:, 4:].T), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


@pytest.mark.fast(0)
def test_the_gradient_of_what_is_written_along_a_sharded_axis():
    """XLA's partitioner gets it wrong where it may cut the axis that is written along."""
    x, ids = np.random.default_rng(0).normal(size=(4, 6, 3)).astype("float32"), np.array([0, 2, 1, 1, 0, 2, 2, 1])
    weights = np.random.default_rng(1).normal(size=(4, 6, 8)).astype("float32")

    def loss(x, ids):
        read = x[{"d": ids}]
        written = read.at["a", 4].set(nx.sum(read, ("a", "b", "c")))
        return nx.sum(written * nx.named(weights, ["b", "c", "a"]), ("a", "b", "c")), written

    def plain(x):
        read = jnp.asarray(x)[:, :, ids]
        return jnp.sum(read.at[:, :, 4].set(jnp.sum(read)) * weights)

    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    f = nx.xmap(
        jax.value_and_grad(loss, has_aux=True),
        (["b", "c", "d"], ["a"]),
        (([], ["a", "b", "c"]), ["b", "c", "d"]),
        axis_resources={"a": "x"},
        mesh=mesh,
        partitioning="auto",
    )
    (value, _), gradient = f(x, ids)
    np.testing.assert_allclose(value, plain(x), rtol=1e-4)
    np.testing.assert_allclose(gradient, jax.jit(jax.grad(plain))(x), rtol=1e-4, atol=1e-4)
