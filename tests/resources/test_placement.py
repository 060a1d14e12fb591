"""Law 4: placement is visible.

A value is partitioned over a mesh axis if and only if one of its names is mapped there, at every step of a program; and a
program communicates only where it reduces, contracts, renames or gathers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import hlo
from tests.harness import array, make_mesh

RESOURCES = {"a": "x", "b": "y"}
X, Y, Z = array(8, 3, seed=1), array(4, 3, seed=2), array(8, 4, seed=3)
IN = (["a", "c"], ["b", "c"], ["a", "b"])

# What each operation returns, as a function of x{a, c}, y{b, c} and z{a, b}.
OPERATIONS = {
    "argument": lambda x, y, z: x,
    "add": lambda x, y, z: x + y,
    "add-scalar": lambda x, y, z: 2 * x + 1,
    "times-zero": lambda x, y, z: x * 0,
    "where": lambda x, y, z: nx.where(z > 0, x, y),
    "compare": lambda x, y, z: x > y,
    "clip": lambda x, y, z: nx.clip(x, -1.0, 1.0),
    "astype": lambda x, y, z: x.astype(jnp.bfloat16),
    "relu": lambda x, y, z: nx.nn.relu(z),
    "sum-a": lambda x, y, z: nx.sum(z, "a"),
    "sum-c": lambda x, y, z: nx.sum(x, "c"),
    "sum-both": lambda x, y, z: nx.sum(z, ("a", "b")),
    "masked-sum": lambda x, y, z: nx.sum(x, "a", where=x > 0),
    "mean": lambda x, y, z: nx.mean(z, "b"),
    "var": lambda x, y, z: nx.var(z, "a"),
    "prod": lambda x, y, z: nx.prod(z, "b"),
    "max": lambda x, y, z: nx.max(z, "a"),
    "any": lambda x, y, z: nx.any(z > 1, "b"),
    "argmin": lambda x, y, z: nx.argmin(z, "a"),
    "logsumexp": lambda x, y, z: nx.logsumexp(z, "b"),
    "softmax": lambda x, y, z: nx.nn.softmax(z, "a"),
    "log_softmax": lambda x, y, z: nx.nn.log_softmax(z, "b"),
    "dot-c": lambda x, y, z: nx.dot(x, y, "c"),
    "dot-a": lambda x, y, z: nx.dot(x, z, "a"),
    "einsum": lambda x, y, z: nx.einsum("{a,c},{b,c},{a,b}->{c}", x, y, z),
    "einsum-gathers": lambda x, y, z: nx.einsum("{rows:a,c},{b,c}->{rows,b}", x, y),
    "einsum-scatters": lambda x, y, z: nx.einsum("{a,c},{a,d:b}->{c,b:d}", x, z),
    "rename-away": lambda x, y, z: nx.rename(x, {"a": "rows"}),
    "rename-swap": lambda x, y, z: nx.rename(nx.rename(z, {"b": "d"}), {"a": "rows"}),
    "positional": lambda x, y, z: nx.positional(x, ["a", "c"]),
    "all_gather": lambda x, y, z: nx.lax.all_gather(z, "a"),
    "psum": lambda x, y, z: nx.lax.psum(z, ("a", "b")),
    "pmax": lambda x, y, z: nx.lax.pmax(z, "b"),
    "axis_index": lambda x, y, z: nx.lax.axis_index("a"),
    "arange": lambda x, y, z: nx.arange("b"),
    "one_hot": lambda x, y, z: nx.nn.one_hot(nx.argmax(x, "c") % 4, axis="b"),
    "take": lambda x, y, z: nx.take(x, nx.argmax(y, "c"), "a"),
    "take-c": lambda x, y, z: nx.take(x, nx.argmax(y, "c") % 3, "c"),
    "named": lambda x, y, z: nx.named(jnp.arange(8.0), ["a"]),
    "nmap": lambda x, y, z: nx.nmap(jnp.hypot)(x, z),
}


def mesh_axes(dims):
    return frozenset(RESOURCES[dim] for dim in dims if dim in RESOURCES)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_values_vary_over_the_mesh_axes_of_their_names(kind):
    """One trace of all operations: the device variance of every value is that of its names, and so is the result's sharding."""
    seen = {}

    def body(x, y, z):
        results = {name: operation(x, y, z) for name, operation in OPERATIONS.items()}
        for name, value in results.items():
            named = isinstance(value, nx.NamedArray)
            data, dims = (value.data, value.dims) if named else (value, ())
            seen[name] = (jax.typeof(data).manual_axis_type.varying, mesh_axes(dims), dims)
        return results

    results = nx.xmap(body, IN, None, axis_resources=RESOURCES, mesh=make_mesh((4, 2), kind))(X, Y, Z)
    assert seen.keys() == OPERATIONS.keys()
    for name, (varying, wanted, dims) in seen.items():
        assert varying <= wanted, f"{name} varies over {set(varying)}, but its dims {dims} are on {set(wanted)}"
    whole = nx.xmap(lambda x, y, z: {name: f(x, y, z) for name, f in OPERATIONS.items()}, IN, None)(X, Y, Z)
    for name, value in results.items():
        if isinstance(value, nx.NamedArray):
            spec = value.data.sharding.spec
            entries = tuple(spec) + (None,) * (value.data.ndim - len(spec))
            assert entries == tuple(RESOURCES.get(dim) for dim in value.dims), name
            assert value.named_shape == whole[name].named_shape, name
            order = [dim for dim in value.dims if dim is not None]
            have, want = nx.positional(value, [*order, ...]), nx.positional(whole[name], [*order, ...])
        else:
            assert value.sharding.is_fully_replicated, name
            have, want = value, whole[name]
        np.testing.assert_allclose(np.asarray(have, float), np.asarray(want, float), rtol=1e-4, atol=1e-5, err_msg=name)


def kinds(body, in_axes, out_axes, *args, grad=False):
    """The collectives of the compiled program, by kind, in order."""
    mapped = nx.xmap(body, in_axes, out_axes, axis_resources=RESOURCES, mesh=make_mesh((4, 2)))
    specs = [P(*(RESOURCES.get(dim) for dim in axes)) for axes in in_axes]
    placed = [
        jax.device_put(arg, jax.sharding.NamedSharding(make_mesh((4, 2)), spec)) for arg, spec in zip(args, specs, strict=True)
    ]
    if grad:
        program = jax.jit(jax.grad(lambda *a: jnp.sum(mapped(*a)), argnums=tuple(range(len(args)))))
    else:
        program = mapped
    return [collective.kind for collective in hlo.collectives(program.lower(*placed).compile())]


SILENT = {
    "elementwise": (lambda x, z: nx.tanh(x) * z + nx.exp(-x), ["a", "b", "c"]),
    "broadcasts": (lambda x, z: x + 0 * nx.max(z, ()), ["b", "a", "c"]),
    "sum-of-an-unmapped-name": (lambda x, z: nx.sum(x, "c") * z, ["a", "b"]),
    "contraction-of-an-unmapped-name": (lambda x, z: nx.dot(x, x * z, "c"), ["a", "b"]),
    "softmax-of-an-unmapped-name": (lambda x, z: nx.nn.softmax(x, "c") * z, ["a", "b", "c"]),
    "indices": (lambda x, z: z * nx.arange("a") + nx.lax.axis_index("b"), ["a", "b"]),
    "one-hot-on-a-mapped-name": (lambda x, z: nx.nn.one_hot(nx.argmax(x, "c"), axis="b") * z, ["a", "b"]),
    "rename-of-an-unmapped-name": (lambda x, z: nx.rename(x, {"c": "d"}) * z, ["a", "b", "d"]),
    "pmean-of-a-value-without-the-name": (lambda x, z: nx.lax.pmean(x, "b") * z, ["a", "b", "c"]),
    "where": (lambda x, z: nx.where(z > 0, x, -x), ["a", "b", "c"]),
}


@pytest.mark.parametrize("name", list(SILENT))
def test_no_communication(name):
    body, out_axes = SILENT[name]
    assert kinds(body, (["a", "c"], ["a", "b"]), out_axes, X, Z) == []


def test_no_communication_in_a_gradient_beyond_the_broadcast_operand():
    # z has every name of the result: nothing to add up. x lacks b, so its gradient is one sum over b.
    assert kinds(lambda z: nx.tanh(z) * 3, (["a", "b"],), ["a", "b"], Z, grad=True) == []
    assert kinds(lambda x, z: nx.sin(x) * z, (["a", "c"], ["a", "b"]), ["a", "b", "c"], X, Z, grad=True) == ["all-reduce"]


SPEAKING = {
    "sum": (lambda x, z: nx.sum(z, "a"), ["b"], ["all-reduce"]),
    "sum-over-both": (lambda x, z: nx.sum(z, ("a", "b")), [], ["all-reduce"]),
    "dot": (lambda x, z: nx.dot(x, z, "a"), ["c", "b"], ["all-reduce"]),
    "max": (lambda x, z: nx.max(z, "b"), ["a"], ["all-reduce"]),
    "logsumexp": (lambda x, z: nx.logsumexp(z, "a"), ["b"], ["all-reduce", "all-reduce"]),
    "all_gather": (lambda x, z: nx.lax.all_gather(x, "a"), [None, "c"], ["all-gather"]),
    "rename": (lambda x, z: nx.rename(x, {"a": "rows"}), ["rows", "c"], ["all-gather"]),
    "positional": (lambda x, z: nx.positional(x, ["a", "c"]), [None, None], ["all-gather"]),
}


@pytest.mark.parametrize("name", list(SPEAKING))
def test_communication_where_the_program_says_so(name):
    body, out_axes, wanted = SPEAKING[name]
    assert kinds(body, (["a", "c"], ["a", "b"]), out_axes, X, Z) == wanted


def test_a_body_sees_blocks_of_data_and_global_sizes_of_names():
    shapes = []

    def body(x, y, z):
        shapes.append([(v.data.shape, dict(v.named_shape), v.shape) for v in (x, y, z)])
        return z

    nx.xmap(body, IN, ["a", "b"], axis_resources=RESOURCES, mesh=make_mesh((4, 2)))(X, Y, Z)
    assert shapes[0] == [((2, 3), {"a": 8, "c": 3}, ()), ((2, 3), {"b": 4, "c": 3}, ()), ((2, 2), {"a": 8, "b": 4}, ())]
