"""Every public function on arrays in every placement, outside of mapped functions: the values, gradients and error classes of the same call on
arrays without placement.

The calls are those of the reference (tools/reference_calls.py). `k` has size 8, or 6 where it is stored padded over four devices, and `b` size 4.
A function runs in one placement, which its name selects; `LOOPS`, which take functions, and some operations run in all.
"""

import ast
import contextlib
import functools
import json
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from tools import recorded_calls as table

AXIS_TYPES = {"E": AxisType.Explicit, "A": AxisType.Auto}
# Shape and axis types of the mesh of each placement. "plain" arrays are on one device, but the call may be under jax.set_mesh.
PLACEMENTS = {
    "plain": ((4,), "E"),
    "one": ((4,), "E"),
    "auto": ((4,), "A"),
    "two": ((2, 2), "EE"),
    "both": ((2, 2), "EE"),  # one axis over both mesh axes
    "mixed": ((2, 2), "EA"),
    "mapped": ((4,), "E"),  # results of a mapped function
    "padded": ((4,), "E"),
    "padded on Auto axes": ((4,), "A"),
}
MODES = ("eager", "jit", "gradient")
WAYS = [(kind, mode, under) for mode in MODES for under in (False, True) for kind in PLACEMENTS if under or kind != "plain"]
RECORD = json.loads((table.ROOT / "docs" / "reference" / "examples.json").read_text())["functions"]
# JAX compiles these over no several devices, as the reference says.
CALLS = {
    name: call
    for name, call in table.recorded().items()
    if "does not compile it" not in json.dumps(RECORD[name].get("cost", ""))
}
# Calls whose results are callables, or text that shows placements.
NOT_COMPARED = ("nmap", "vmap", "array_repr", "array_str")
CALLS = {name: call for name, call in CALLS.items() if name.rpartition(".")[2] not in NOT_COMPARED}
CORE = {
    "fori_loop": "nx.fori_loop(0, 3, lambda i, c: c + x, 0.0)",
    "fold": 'nx.fold(lambda c, e: c + e * x, 0.0, nx.arange(3.0, axis="t"), axis="t")',
    "fold over k": 'nx.fold(lambda c, e: 0.5 * c + e, 0.0, z, axis="k")',
    "scan": 'nx.scan(lambda c, e: (c + e * x, c), 0.0, nx.arange(3.0, axis="t"), axis="t")',
    "scan over b": 'nx.scan(lambda c, e: (c + e, c * e), 0.0, z, axis="b")',
    "scan over k": 'nx.scan(lambda c, e: (c + e, c * e), 0.0, z, axis="k")',
    "map": 'nx.map(lambda e: 2 * e + x, z, axis="b")',
    "associative_scan": 'nx.associative_scan(nx.add, z, axis="k")',
    "cond": 'nx.cond(nx.sum(x, "k") > 3, lambda: x, lambda: 0.0)',
    "cond by name": "nx.cond(x > 0.5, lambda: x, lambda: 0.0)",
    "switch": "nx.switch(1, [lambda: 0.0, lambda: x])",
    "while_loop": "nx.while_loop(lambda c: c < x, lambda c: c + 0.1, nx.zeros_like(x))",
    "while_loop from 0": "nx.while_loop(lambda c: c < x, lambda c: c + 0.1, 0.0)",
    "vmap": 'nx.vmap(lambda e: 2 * e + x, "b", "b")(z)',
    "nmap": "nx.nmap(jnp.cumsum)(v)",
    "stack": 'nx.stack([x, nx.zeros(named_shape={"k": x.named_shape["k"]})], "new")',
    "read by index": 'nx.named(jnp.arange(9.0) * 10, ["q"])[{"q": i}]',
    "arithmetic": "z * x + 1",
    "sum": 'nx.sum(z, "k")',
    "complex max": 'nx.max(x + 1j * (1 - x), "k")',
    "einsum": 'nx.einsum("{b,k},{k,out}->{b,out}", z, w)',
    "split_axis": 'nx.split_axis(x, "k", {"p": 2, "q": N // 2})',
    "merge_axes": 'nx.merge_axes(z, ("b", "k"), "both")',
    "zeros_like": "nx.zeros_like(x)",
    "lax.full_like": "nx.lax.full_like(x, 2.0)",
    "diag_indices_from": "nx.numpy.diag_indices_from(m)",
    "tril_indices_from": "nx.numpy.tril_indices_from(m)",
}


def is_named(leaf: Any) -> bool:
    return isinstance(leaf, nx.NamedArray)


def is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def is_float(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and not is_key(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact)


@functools.cache
def mesh_of(kind: str) -> jax.sharding.Mesh:
    shape, types = PLACEMENTS[kind]
    return jax.make_mesh(
        shape, ("x", "y")[: len(shape)], axis_types=tuple(map(AXIS_TYPES.get, types)), devices=jax.devices()[:4]
    )


def sizes_of(kind: str) -> dict[str, int]:
    return {"N": 6 if kind.startswith("padded") else 8, "M": 4}


def evaluate(code: str, **values: Any) -> Any:
    return eval(code, {"jax": jax, "jnp": jnp, "nx": nx, **values})


@functools.cache
def operand(name: str, size: int) -> Any:
    return evaluate(table.sized(table.OPERANDS[name], {"N": size, "M": 4}))


@functools.cache
def placed(name: str, kind: str) -> Any:
    """An operand in a placement."""
    value = operand(name, sizes_of(kind)["N"])
    if kind == "plain" or not is_named(value):
        return value
    layout: dict[str, Any] = {"k": ("x", "y") if kind == "both" else "x"}
    if kind in ("two", "mixed"):
        layout["b"] = "y"
    layout = {name: axes for name, axes in layout.items() if name in value.dims}
    if kind == "mapped":
        return nx.xmap(unchanged, axis_resources=layout, mesh=mesh_of(kind))(value)
    return nx.shard(value, layout, mesh_of(kind), padded=kind.startswith("padded"))


def unchanged(a: Any) -> Any:
    """The same values, computed."""
    if is_key(a):
        return a
    return nx.logical_or(a, False) if a.dtype == bool else a + 0


def numbers(tree: Any) -> list[Any]:
    """Of every leaf its names, dtype and values, the names in order; text of what is no array."""
    found: list[Any] = []
    for leaf in jax.tree.leaves(tree, is_leaf=is_named):
        names = tuple(sorted(dim for dim in leaf.dims if dim is not None)) if is_named(leaf) else ()
        array = nx.positional(leaf, [*names, ...]) if is_named(leaf) else leaf
        if isinstance(array, (jax.Array, np.ndarray)):
            array = jax.random.key_data(array) if is_key(array) else array
            found.append((names, str(array.dtype), np.asarray(array)))
        elif isinstance(array, (bool, int, float, complex, np.generic)):  # an array under jax.jit
            found.append((names, "", np.asarray(array)))
        else:
            found.append(repr(leaf))
    return found


def assert_same(have: list[Any], want: list[Any]) -> None:
    assert len(have) == len(want)
    for h, w in zip(have, want, strict=True):
        if isinstance(w, str):
            assert h == w or "0x" in w
            continue
        assert (h[0], h[1] if w[1] else "", h[2].shape) == (*w[:2], w[2].shape)
        if w[2].dtype.kind not in "fcV":
            np.testing.assert_array_equal(h[2], w[2])
            continue
        wide = complex if w[2].dtype.kind == "c" else float
        values = w[2].astype(wide)
        scale = np.abs(values[np.isfinite(values)]).max(initial=1e-3)
        rough = 2e-4 if w[2].dtype.itemsize > 2 else 1e-2
        np.testing.assert_allclose(h[2].astype(wide), values, rtol=rough, atol=rough * scale)


def weighted(result: Any) -> Any:
    """The sum of all floats, and of the parts of complex numbers, with weights that differ."""
    total: Any = 0.0
    for leaf in jax.tree.leaves(result, is_leaf=is_named):
        if not is_float(leaf) or not isinstance(leaf, (nx.NamedArray, jax.Array)):
            continue
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            leaf = nx.real(leaf) + 0.5 * nx.imag(leaf)
        if is_named(leaf):
            total += nx.sum(leaf * weights(leaf), (*leaf.named_shape, *range(leaf.ndim)))
        else:
            total += jnp.sum(leaf * jnp.cos(jnp.arange(leaf.size, dtype=float)).reshape(leaf.shape))
    return total


def weights(leaf: nx.NamedArray) -> nx.NamedArray:
    names = sorted(leaf.named_shape)
    shape = [leaf.named_shape[name] for name in names]
    return nx.named(jnp.cos(jnp.arange(np.prod(shape, dtype=int), dtype=float)).reshape(shape), names)


def outcome(call: str, mode: str, values: dict[str, Any], mesh: Any = None) -> Any:
    """The numbers that a call gives, or the error that it raises."""
    code = compile(call, call, "eval")

    def run(values: dict[str, Any]) -> Any:
        return evaluate(code, **values)

    def gradient(smooth: dict[str, Any], rest: dict[str, Any]) -> Any:
        return jax.grad(lambda smooth: weighted(run({**rest, **smooth})))(smooth)

    try:
        with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
            if mode == "gradient":
                smooth = {name: value for name, value in values.items() if is_float(value) and value.dtype.kind != "c"}
                rest = {name: value for name, value in values.items() if name not in smooth}
                return numbers(jax.jit(gradient)(smooth, rest))
            return numbers((jax.jit(run) if mode == "jit" else run)(values))
    except Exception as error:
        return error


@functools.cache
def wanted(call: str, mode: str, size: int) -> Any:
    """The outcome on arrays without placement."""
    return outcome(call, mode, {name: operand(name, size) for name in table.operands_of(call)})


def check(template: str, kind: str, mode: str, under: bool) -> None:
    size = sizes_of(kind)["N"]
    call = table.sized(template, sizes_of(kind))
    want = wanted(call, "eager" if mode == "jit" else mode, size)
    values = {name: placed(name, kind) for name in table.operands_of(call)}
    # JAX itself has no gradient of a scalar on Explicit mesh axes without a mesh context.
    under = under or mode == "gradient"
    have = outcome(call, mode, values, mesh_of(kind) if under else None)
    if isinstance(have, nx.errors.StoredPaddingError):  # functions of the user would read the padding
        assert "padded" in kind
        assert "lambda" in call
        return
    if "Primitive polynomial requires" in str(have):
        # JAX cannot differentiate it under jax.shard_map (docs/guides/debugging.md).
        assert mode == "gradient"
        assert kind not in ("plain", "auto")  # there it is not mapped
        return
    if isinstance(have, Exception) and not isinstance(want, Exception) and kind == "plain" and "nx.lax." in call:
        # It is an error of JAX under jax.set_mesh if the call without names raises it, too.
        want = outcome(call.replace("nx.lax.", "jax.lax."), mode, values, mesh_of(kind))
    elif isinstance(have, Exception) or isinstance(want, Exception):
        want = wanted(call, mode, size)
    if isinstance(have, Exception) or isinstance(want, Exception):
        assert isinstance(want, Exception), f"{call} raised {type(have).__name__}: {have}"
        # An error of JAX that is explained in one of the two calls is an error of namedax of the same class.
        explained = isinstance(have, nx.errors.NamedaxError) != isinstance(want, nx.errors.NamedaxError)
        is_same = type(have) is type(want) or (explained and (isinstance(have, type(want)) or isinstance(want, type(have))))
        assert is_same, f"{call}: {have!r}, without placement {want!r}"
    else:
        assert_same(have, want)


def way_of(name: str, call: str) -> tuple[str, str, bool]:
    """The placement in which a function runs; without named operands there is nothing to place."""
    ways = (
        WAYS
        if "named" in " ".join(table.OPERANDS[operand] for operand in table.operands_of(call))
        else [way for way in WAYS if way[0] == "plain"]
    )
    return ways[zlib.crc32(name.encode()) % len(ways)]


def test_every_namespace_has_calls():
    assert {name.rpartition(".")[0] for name in CALLS} >= {"nx", "nx.lax", "nx.nn", "nx.numpy", "nx.random", "nx.scipy.stats"}
    assert len(CALLS) > 1000
    assert all(ast.parse(call) for call in CALLS.values())


# Each takes another path to its program: a kernel with options, an argument that loops close over, a sampler that rejects, rows that
# move between devices, an operation that is composed of others, and functions of the type alone.
@pytest.mark.fast(5)
@pytest.mark.parametrize(
    ("call", "kind", "mode"),
    [
        ("nx.numpy.around(x, 1)", "mapped", "gradient"),
        ("z.astype(int)", "mapped", "eager"),
        ("nx.numpy.sort(z, 'k')", "mapped", "jit"),
        ("nx.untag(x, ['k'])", "mapped", "gradient"),
        (CORE["fold"], "mapped", "gradient"),
        (CORE["fori_loop"], "mapped", "gradient"),
        (CALLS["nx.random.gamma"], "both", "jit"),
        (CALLS["nx.random.poisson"], "two", "eager"),
        (CALLS["nx.lax.ppermute"], "mixed", "eager"),
        (CALLS["nx.nn.binary_cross_entropy"], "padded", "eager"),
        ("nx.iscomplexobj(x)", "padded", "eager"),
        (CALLS["nx.random.key_impl"], "padded", "jit"),
    ],
)
def test_one_call_of_each_path(call, kind, mode):
    check(call, kind, mode, under=True)


@pytest.mark.full(22)
@pytest.mark.fast(7)
@pytest.mark.parametrize("name", CALLS)
def test_a_public_function_on_a_placement_equals_the_call_without(name):
    check(CALLS[name], *way_of(name, CALLS[name]))


@pytest.mark.full(24)
@pytest.mark.fast(6)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]} {way[1]}{' under set_mesh' if way[2] else ''}")
@pytest.mark.parametrize("operation", CORE)
def test_an_operation_on_every_placement_equals_the_call_without(operation, way):
    check(CORE[operation], *way)
