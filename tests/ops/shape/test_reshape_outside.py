"""split_axis, merge_axes and rearrange outside of mapped functions, on Explicit mesh axes: shards that can remain in place do."""

import contextlib

import einops
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import namedax as nx

NAMES = ["b", "e", None]
X = np.sin(np.arange(4 * 24 * 3, dtype=np.float32)).reshape(4, 24, 3)
XY = ("x", "y")


def mesh_of(kinds=(AxisType.Explicit,) * 2):
    return jax.make_mesh((2, 4), XY, axis_types=kinds)


def placed(x, spec, mesh, names=NAMES):
    return nx.named(jax.device_put(x, NamedSharding(mesh, PartitionSpec(*spec))), names)


def split(heads):
    return lambda x: nx.split_axis(x, "e", {"h": heads, "d": None})


# The mesh axes of the array, the function, einops' pattern with the order of the result's dims, the mesh axes of the result, and the mesh
# axes over which it is gathered.
CASES = {
    "split": ((None, "y"), split(4), ("b (h d) k -> b h d k", {"h": 4}), (None, "y", None, None), ""),
    "split into blocks": (("x", "y"), split(8), ("b (h d) k -> b h d k", {"h": 8}), ("x", "y", None, None), ""),
    "split two on the major": ((None, XY), split(8), ("b (h d) k -> b h d k", {"h": 8}), (None, XY, None, None), ""),
    "split one each": ((None, XY), split(2), ("b (h d) k -> b h d k", {"h": 2}), (None, "x", "y", None), ""),
    "split one of two": ((None, XY), split(6), ("b (h d) k -> b h d k", {"h": 6}), (None, "x", None, None), "y"),
    "split a minor size": (("x", "y"), split(3), ("b (h d) k -> b h d k", {"h": 3}), ("x", None, None, None), "y"),
    "split a major of one": ((None, "y"), split(1), ("b (h d) k -> b h d k", {"h": 1}), (None, None, "y", None), ""),
    "merge": (("x", None), lambda x: nx.merge_axes(x, ["b", "e"], "m"), ("b e k -> (b e) k", {}), ("x", None), ""),
    "merge the minor": (("x", "y"), lambda x: nx.merge_axes(x, ["b", "e"], "m"), ("b e k -> (b e) k", {}), ("x", None), "y"),
    "merge single elements": (
        ("y", "x"),
        lambda x: nx.merge_axes(x, ["b", "e"], "m"),
        ("b e k -> (b e) k", {}),
        (("y", "x"), None),
        "",
    ),
    "merge in another order": (
        ("x", "y"),
        lambda x: nx.merge_axes(x, ["e", "b"], "m"),
        ("b e k -> (e b) k", {}),
        ("y", None),
        "x",
    ),
    "reorder": (
        ("x", "y"),
        lambda x: nx.rearrange(x, "{b, e=(h d)} k -> {h, b=(b d)} k", h=4),
        ("b (h d) k -> h (b d) k", {"h": 4}),
        ("y", "x", None),
        "",
    ),
    "rename": (("x", "y"), lambda x: nx.rearrange(x, "{e} k -> {q=e} k"), ("b e k -> b e k", {}), ("x", "y", None), ""),
    "positional": (
        ("x", "y"),
        lambda x: nx.rearrange(x, "{b, e=(h d)} k -> {b} h (d k)", h=8),
        ("b (h d) k -> b h (d k)", {"h": 8}),
        ("x", "y", None),
        "",
    ),
    "there and back": (
        (None, XY),
        lambda x: nx.merge_axes(split(2)(x), ["h", "d"], "e"),
        ("b e k -> b e k", {}),
        (None, XY, None),
        "",
    ),
}


def spec_of(y):
    spec = tuple(jax.typeof(y.data if isinstance(y, nx.NamedArray) else y).sharding.spec)
    return spec + (None,) * (y.data.ndim - len(spec))


@pytest.mark.fast(7)
@pytest.mark.parametrize("label", CASES)
def test_shards_remain_in_place(label):
    before, f, (pattern, sizes), after, gathered = CASES[label]
    mesh = mesh_of()
    x = placed(X, before, mesh)
    want = einops.rearrange(X, pattern, **sizes)
    cotangent = np.cos(np.arange(want.size, dtype=np.float32)).reshape(want.shape)
    left, right = pattern.split(" -> ")
    back = einops.rearrange(cotangent, f"{right} -> {left}", **sizes, b=4, k=3)

    @jax.jit
    def both(x, cotangent):
        y, vjp = jax.vjp(f, x)
        return y, vjp(jax.tree.unflatten(jax.tree.structure(y), [cotangent]))[0]

    for context in (contextlib.nullcontext(), jax.set_mesh(mesh)):
        with context:
            y = f(x)
            np.testing.assert_array_equal(np.asarray(y.data), want)
            assert spec_of(y) == after
            cotangent = jax.device_put(cotangent, y.data.sharding)
            traced, gradient = both(x, cotangent)
            np.testing.assert_array_equal(np.asarray(traced.data), want)
            assert spec_of(traced) == after
            np.testing.assert_array_equal(np.asarray(gradient.data), back)
            assert spec_of(gradient) == spec_of(x)
    program = jax.jit(f).lower(x).compile()
    assert {c.kind for c in nx.hlo.collectives(program)} == ({"all-gather"} if gathered else set())
    assert all(c.group_size == mesh.shape[gathered] for c in nx.hlo.collectives(program))
    if not gathered:
        assert not nx.hlo.collectives(both.lower(x, cotangent).compile())


@pytest.mark.parametrize("label", ["split", "split one each", "there and back"])
def test_what_the_reshape_of_jnp_keeps(label):
    before, f, _, after, _ = CASES[label]
    mesh = mesh_of()
    x = placed(X, before, mesh)
    y = jax.jit(f)(x)
    reshaped = jax.jit(lambda x: jnp.reshape(x, y.data.shape, out_sharding=NamedSharding(mesh, PartitionSpec(*after))))(x.data)
    assert reshaped.sharding == y.data.sharding
    np.testing.assert_array_equal(reshaped, y.data)


def test_positional_axes_and_arrays_without_names():
    mesh = mesh_of()
    x = placed(X, ("x", "y"), mesh, [None] * 3)
    data = jax.device_put(X, NamedSharding(mesh, PartitionSpec("x", "y")))
    for f in (
        lambda x: nx.rearrange(x, "b (h d) k -> {b, h} d k", h=8),
        lambda x: nx.rearrange(x, "b (h d) k -> h b (d k)", h=8),
    ):
        want = f(X)
        for given in (x, data):
            for y in (f(given), jax.jit(f)(given)):
                np.testing.assert_array_equal(*(np.asarray(getattr(x, "data", x)) for x in (y, want)))


@pytest.mark.parametrize("kinds", [(AxisType.Auto, AxisType.Explicit), (AxisType.Explicit, AxisType.Auto)], ids=str)
def test_mixed_axis_types(kinds):
    x = placed(X, ("x", "y"), mesh_of(kinds))
    for f in (split(8), lambda x: nx.merge_axes(split(8)(x), ["h", "d"], "e")):
        want = f(nx.named(X, NAMES)).data
        for y in (f(x), jax.jit(f)(x)):
            np.testing.assert_array_equal(np.asarray(y.data), want)
        assert not nx.hlo.collectives(jax.jit(f).lower(x).compile())


def test_in_a_body_and_under_vmap():
    mesh = mesh_of()
    x = placed(X, (None, "y"), mesh)
    f = split(4)
    want = f(nx.named(X, NAMES))
    with jax.set_mesh(mesh):
        mapped = nx.xmap(lambda x: f(x) * 2, axis_resources={"b": "x"})(x)
        np.testing.assert_array_equal(np.asarray(mapped.data), np.asarray(2 * want.data))
        nested = nx.xmap(lambda x: f(nx.xmap(lambda x: x * 3, axis_resources={"e": "y"})(x)), axis_resources={"b": "x"})(x)
        np.testing.assert_array_equal(np.asarray(nested.data), np.asarray(3 * want.data))
        stacked = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), x)
        y = jax.jit(jax.vmap(f))(stacked)
    np.testing.assert_array_equal(np.asarray(y.data), np.stack([want.data, 2 * want.data]))
    assert spec_of(y) == (None, None, "y", None, None)
