"""The declaration of each operation about Explicit axes is right for this version of JAX.

An operation that declares that JAX has a rule for sharded axes is left to JAX, which raises an error if it has none. So every call of the
reference runs on operands that are sharded over Explicit axes, and must give what it gives on one device.
"""

import json
import operator
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import make_mesh
from tools.reference_calls import OPERANDS

ROOT = pathlib.Path(__file__).parents[2]
SIZES = {"N": 16, "M": 16}
# Over which mesh axes the names of the operands are sharded.
LAYOUTS = {"k": {"k": "x"}, "b": {"b": "y"}, "k and b": {"k": "x", "b": "y"}}
SCOPE = {"jax": jax, "jnp": jnp, "nx": nx}
# JAX cannot differentiate these on one device either.
NO_GRADIENT = {"nx.segment_prod", "nx.spacing", "nx.while_loop"}
# Their gradient shares a tie among the tied elements as the tree of the scan combines them, and a sharded axis has another
# tree (docs/about/laws.md). So their operands get distinct elements.
SPLIT_TIES = {"nx.cummax", "nx.cummin"}


def calls():
    """The calls of the operations in `nx` and `nx.nn` that have named operands, by name."""
    found = {}
    for name, record in json.loads((ROOT / "docs" / "reference" / "examples.json").read_text())["functions"].items():
        is_shown = name.count(".") == 1 or name.startswith("nx.nn.")
        if is_shown and record.get("operands") and hasattr(operator.attrgetter(name[3:])(nx), "_operation"):
            found[name] = (record["call"], tuple(record["operands"]))
    return found


CALLS = calls()
LEAF = {"is_leaf": lambda leaf: isinstance(leaf, nx.NamedArray)}


def operands(names):
    return {name: eval(OPERANDS[name], SCOPE | SIZES) for name in names}


def placed(values, layout, mesh):
    def place(x):
        if not isinstance(x, nx.NamedArray):
            return x
        return nx.shard(x, {name: axes for name, axes in layout.items() if name in x.dims}, mesh, padded=False)

    return {name: place(x) for name, x in values.items()}


def plain(result):
    """The arrays of a result, as they are on one device, with their axes in the order of names."""
    arrays = []
    for leaf in jax.tree.leaves(result, **LEAF):
        if isinstance(leaf, nx.NamedArray):
            names = sorted((dim for dim in leaf.dims if dim is not None), key=str)
            leaf = nx.positional(leaf, [*names, ...])
        if hasattr(leaf, "dtype") and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            arrays.append(np.asarray(leaf))
    return arrays


def check(have, want):
    have, want = plain(have), plain(want)
    assert len(have) == len(want)
    for one, other in zip(have, want, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def cases():
    for name, (_, names) in CALLS.items():
        has = {dim for value in names for dim in ("k", "b") if f'"{dim}"' in OPERANDS[value]}
        for label, layout in LAYOUTS.items():
            if layout.keys() <= has:
                yield pytest.param(name, layout, id=f"{name[3:]}-{label}")


def gradient(f, values):
    def loss(floats):
        leaves = jax.tree.leaves(f(values | floats), **LEAF)
        datas = [leaf.data if isinstance(leaf, nx.NamedArray) else leaf for leaf in leaves]
        return sum(jnp.sum(jnp.sin(x)) for x in datas if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating))

    return jax.jit(jax.grad(loss))({name: x for name, x in values.items() if jnp.issubdtype(x.dtype, jnp.floating)})


def without_ties(values):
    return {key: x + nx.named(jnp.arange(x.data.size).reshape(x.data.shape) / 1e3, list(x.dims)) for key, x in values.items()}


def has_gradient(name, values, result):
    def has_floats(tree):
        return any(hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating) for x in jax.tree.leaves(tree))

    return name not in NO_GRADIENT and has_floats(result) and has_floats(values)


@pytest.mark.fast(0)
@pytest.mark.full(2)
@pytest.mark.parametrize(("name", "layout"), list(cases()))
def test_every_operation_runs_on_explicit_axes(name, layout):
    call, names = CALLS[name]
    values, mesh = operands(names), make_mesh((4, 2), "explicit")

    def f(values):
        return eval(call, SCOPE | SIZES | values)

    if name in SPLIT_TIES:
        values = {
            key: x + nx.named(jnp.arange(x.data.size).reshape(x.data.shape) / 1e3, list(x.dims)) for key, x in values.items()
        }
    want = f(values)
    here = placed(values, layout, mesh)
    check(f(here), want)
    # A program whose result has no operand, such as that of `zeros_like`, needs the mesh to know its devices.
    with jax.set_mesh(mesh):
        check(jax.jit(f)(here), want)
    if has_gradient(name, values, want):
        expected = gradient(f, values)
        with jax.set_mesh(mesh):
            check(gradient(f, here), expected)


# It halves an axis, and a name has one size in a mapped function.
CHANGES_SIZES = {"nx.nn.glu"}


@pytest.mark.fast(0)
@pytest.mark.full(3)
@pytest.mark.parametrize(("name", "layout"), [case for case in cases() if case.values[0] not in CHANGES_SIZES])
def test_every_operation_runs_on_results_of_inner_functions(name, layout):
    """Inside a mapped function, such a result is sharded over Explicit mesh axes that the outer function does not map."""
    call, names = CALLS[name]
    values, mesh = operands(names), make_mesh((4, 2), "explicit")
    if name in SPLIT_TIES:
        values = without_ties(values)

    def f(values):
        return eval(call, SCOPE | SIZES | values)

    def sharded(x):
        resources = {axis: mesh_axis for axis, mesh_axis in layout.items() if isinstance(x, nx.NamedArray) and axis in x.dims}
        return nx.xmap(lambda x: x, axis_resources=resources, mesh=mesh)(x) if resources else x

    mapped = nx.xmap(lambda values: f({key: sharded(x) for key, x in values.items()}), mesh=mesh)
    want = f(values)
    with jax.set_mesh(mesh):
        check(jax.jit(mapped)(values), want)
        if has_gradient(name, values, want):
            check(gradient(mapped, values), gradient(f, values))
