"""Where an argument comes from changes nothing: arrays that arrive sharded over mesh axes on which none of their names lives."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests.harness import array
from tests.operations import OPERATIONS

LAYOUTS = {
    "nothing mapped": {},
    "the other name": {"b": "x"},
    "this name": {"a": "x"},
    "in steps": {"a": nx.SerialLoop(2)},
    "the other name in steps": {"b": nx.SerialLoop(2)},
    "on the mesh and in steps": {"b": ("x", nx.SerialLoop(2))},
}
# In steps no entry moves to another step.
MOVES = ("rope", "sort", "sort_by", "roll", "rolling_reduce", "concatenate", "median", "convolve")
# Auto axes that nobody maps stay with the compiler: on CPUs its gradient of what is written by index is wrong, in plain JAX too.
COMPILERS = ("at",)

CASES = [("explicit", layout) for layout in LAYOUTS]
CASES += [("explicit context", layout) for layout in ("nothing mapped", "this name", "in steps")]
CASES += [("auto", layout) for layout in ("nothing mapped", "the other name")]


@functools.cache
def wanted(left_out):
    """Of a plain array: the results of all operations but some, the weights of a loss of these, and the loss's gradient."""
    x, oracles = array(8, 4), {label: oracle for label, (_, oracle, _) in OPERATIONS.items() if label not in left_out}

    def want(x):
        return {label: oracle(x) for label, oracle in oracles.items()}

    weights = {label: array(*value.shape, seed=n) for n, (label, value) in enumerate(jax.eval_shape(want, x).items())}
    (_, results), gradient = jax.jit(jax.value_and_grad(lambda x: (loss_of(r := want(x), weights), r), has_aux=True))(x)
    return results, weights, gradient


def loss_of(results, weights):
    return sum(jnp.sum(results[label] * weights[label]) for label in results)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("kind", "layout"), CASES)
def test_sharded_over_axes_that_nobody_maps(kind, layout):
    axis_type = AxisType.Auto if kind == "auto" else AxisType.Explicit
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(axis_type,) * 2)
    x = jax.device_put(array(8, 4), NamedSharding(mesh, P("y") if layout != "in steps" else P("x", "y")))
    resources = LAYOUTS[layout]
    left_out = MOVES if layout == "in steps" else COMPILERS if kind == "auto" else ()
    operations = {label: row for label, row in OPERATIONS.items() if label not in left_out}

    def named(x):
        return {label: operation(x) for label, (operation, _, _) in operations.items()}

    out_axes = {label: axes for label, (_, _, axes) in operations.items()}
    f = nx.xmap(named, ["a", "b"], out_axes, axis_resources=resources, mesh=mesh)
    want, weights, want_gradient = wanted(left_out)
    with jax.set_mesh(mesh) if kind == "explicit context" else contextlib.nullcontext():
        (_, have), gradient = jax.jit(jax.value_and_grad(lambda x: (loss_of(r := f(x), weights), r), has_aux=True))(x)
    assert have.keys() == want.keys()
    for label, value in want.items():
        np.testing.assert_allclose(have[label], value, rtol=1e-4, atol=1e-4, err_msg=label)
    np.testing.assert_allclose(gradient, want_gradient, rtol=1e-3, atol=1e-3)


def test_a_value_is_replicated_over_axes_on_which_no_name_lives():
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x = jax.device_put(array(4, 8), NamedSharding(mesh, P("y", "x")))
    with jax.set_mesh(mesh):
        for resources, spec in (({}, ()), ({"a": "x"}, ("x",)), ({"b": "y"}, (None, "y"))):
            result = nx.xmap(lambda x: 2 * x, ["a", "b"], ["a", "b"], axis_resources=resources)(x)
            entries = tuple(result.sharding.spec)
            assert entries[: len(spec)] == spec
            assert not any(entries[len(spec) :])


def both(c):
    """The sum over all entries of what is closed over."""
    return nx.sum(nx.named(c, ["k", "m"]), ("k", "m"))


CLOSED_OVER = {
    "alone": lambda u, c: u * both(c),
    "with its names": lambda u, c: nx.sum(nx.sin(nx.named(c, ["k", "m"]) * u), ("k", "m")),
    "in a scan": lambda u, c: nx.scan(lambda s, _: (nx.sin(s + both(c)), None), u * both(c), None, length=2)[0],
    "the carry": lambda u, c: nx.sum(
        nx.scan(lambda s, _: (nx.named(c, ["k", "m"]), None), u * both(c), None, length=2)[0], ("k", "m")
    ),
    "along a scan": lambda u, c: nx.sum(nx.fold(lambda s, x: nx.sin(s + x), u, nx.named(c, ["k", "m"]), axis="k"), "m"),
    "in a loop": lambda u, c: nx.fori_loop(0, 2, lambda i, s: nx.sin(s + both(c)), u),
    "in a branch": lambda u, c: nx.cond(True, lambda s: s * both(c), lambda s: s - both(c), u),
    "in a helper": lambda u, c: jax.jit(lambda s: s * both(c))(u),
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("partitioning", ["manual", "auto"])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("spec", [P(), P("x", "y"), None], ids=str)
def test_what_a_body_closes_over(spec, nested, kind, partitioning):
    # All of them in one program; JAX differentiates what is on Explicit axes under `jax.set_mesh` only.
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(kind,) * 2, devices=jax.devices()[:4])
    x, plain = array(8), array(4, 6, seed=1)
    c = plain if spec is None else jax.device_put(plain, NamedSharding(mesh, spec))

    def results(x, c, **options):
        def body(u):
            return [case(u, c) for case in CLOSED_OVER.values()]

        f = nx.xmap(body, ["b"], ["b"], **({"axis_resources": {"b": "x"}} if options else {}), **options)
        return nx.xmap(lambda v: f(v), [None], [None], **options)(x) if nested else f(x)

    def loss(x, c, **options):
        return sum(jnp.sum(jnp.sin(result) * i) for i, result in enumerate(results(x, c, **options), 1))

    with jax.set_mesh(mesh):
        value, gradients = jax.jit(jax.value_and_grad(lambda x, c: loss(x, c, mesh=mesh, partitioning=partitioning), (0, 1)))(
            x, c
        )
    want_value, want_gradients = closed_over(x, plain)
    np.testing.assert_allclose(value, want_value, rtol=1e-4)
    for have, want in zip(gradients, want_gradients, strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-4)


@jax.jit
def closed_over(x, c):
    """The same with `jnp` alone."""

    def total(x, c):
        s = jnp.sum(c)
        scanned = jnp.sin(jnp.sin(x * s + s) + s)
        along = x[:, None] * jnp.ones(6)
        for row in c:
            along = jnp.sin(along + row)
        looped = jnp.sin(jnp.sin(x + s) + s)
        each = [x * s, jnp.sin(c * x[:, None, None]).sum((1, 2)), scanned, s + 0 * x, along.sum(1), looped, x * s, x * s]
        return sum(jnp.sum(jnp.sin(result) * i) for i, result in enumerate(each, 1))

    return jax.value_and_grad(total, (0, 1))(x, c)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("entry", ["x", ("x", "y"), ("y", nx.SerialLoop(2))], ids=str)
def test_committed_elsewhere_along_a_name_that_does_not_divide(entry, kind):
    """To one device, or to another mesh of the same devices: it comes as whole as any argument along such a name."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
    other = jax.make_mesh((2, 4), ("p", "q"), axis_types=(kind,) * 2, devices=jax.devices()[::-1])
    x, y = array(6, 3), array(3, seed=1)
    f = nx.xmap(lambda x, y: nx.sum(x * y, "c"), (["a", "c"], ["c"]), ["a"], axis_resources={"c": entry}, mesh=mesh)
    for sharding in (jax.devices()[3], NamedSharding(other, P("p")), NamedSharding(other, P(None))):
        moved = jax.device_put(x, sharding)
        np.testing.assert_allclose(f(moved, y), x @ y, rtol=1e-5)
        if kind is AxisType.Auto:  # JAX differentiates eagerly on Explicit axes under jax.set_mesh only
            np.testing.assert_allclose(jax.grad(lambda y, x=moved: jnp.sum(f(x, y)))(jnp.asarray(y)), x.sum(0), rtol=1e-5)
        np.testing.assert_allclose(f.lower(moved, y).compile()(x, y), x @ y, rtol=1e-5)
