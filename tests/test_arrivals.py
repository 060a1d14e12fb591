"""Where an argument comes from changes nothing: arrays that arrive sharded over mesh axes on which none of their names lives."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests.harness import array

IDS = jnp.array([5, 1, 1])

# Named programs of `{a: 4, b: 8}`, and the same of an array of shape [4, 8].
PROGRAMS = {
    "stack": (lambda x: nx.stack([x, nx.cos(x)], axis="q"), lambda x: jnp.stack([x, jnp.cos(x)], 2), ["a", "b", "q"]),
    "concatenate": (
        lambda x: nx.concatenate([x, 2 * x], "b", out_axis="q"),
        lambda x: jnp.concatenate([x, 2 * x], 1),
        ["a", "q"],
    ),
    "where": (
        lambda x: nx.where(nx.arange(axis="b") > 3, x, nx.arange(axis="b") * 1.0),
        lambda x: jnp.where(jnp.arange(8) > 3, x, jnp.arange(8.0)),
        ["a", "b"],
    ),
    "at": (lambda x: x.at["b", 2].set(3.0), lambda x: x.at[:, 2].set(3.0), ["a", "b"]),
    "sort": (lambda x: nx.sort(x, "b"), lambda x: jnp.sort(x, 1), ["a", "b"]),
    "top_k": (lambda x: nx.top_k(x, 2, axis="b")[0], lambda x: jax.lax.top_k(x, 2)[0], ["a", None]),
    "roll": (lambda x: nx.roll(x, 3, "b"), lambda x: jnp.roll(x, 3, 1), ["a", "b"]),
    "take": (lambda x: nx.take(x, IDS, "b"), lambda x: x[:, IDS], ["a", None]),
    "index": (lambda x: x["b", 5], lambda x: x[:, 5], ["a"]),
    "cumsum": (lambda x: nx.cumsum(x, "b"), lambda x: jnp.cumsum(x, 1), ["a", "b"]),
    "split": (lambda x: nx.split_axis(x, "b", {"p": 2, "q": 4}), lambda x: x.reshape(4, 2, 4), ["a", "p", "q"]),
    "scan": (
        lambda x: nx.scan(lambda c, e: (c + e, c * e), nx.zeros(()), x, axis="b")[1],
        lambda x: (jnp.cumsum(x, 1) - x) * x,
        ["a", "b"],
    ),
    "fold": (
        lambda x: nx.fold(lambda c, e: 0.5 * c + e, nx.zeros(()), x, axis="b"),
        lambda x: (x * 0.5 ** jnp.arange(7, -1, -1)).sum(1),
        ["a"],
    ),
    "dot": (lambda x: nx.dot(x, nx.sin(x), "b"), lambda x: (x * jnp.sin(x)).sum(1), ["a"]),
    "segment_sum": (
        lambda x: nx.segment_sum(x, nx.arange(axis="b") % 2, 2, axis="b", out_axis="q"),
        lambda x: x.reshape(4, 4, 2).sum(1),
        ["a", "q"],
    ),
    "median": (lambda x: nx.median(x, "b"), lambda x: jnp.median(x, 1), ["a"]),
    "convolve": (
        lambda x: nx.convolve(x, jnp.array([1.0, 2.0, 3.0]), "same", axis="b"),
        lambda x: jax.vmap(lambda row: jnp.convolve(row, jnp.array([1.0, 2.0, 3.0]), "same"))(x),
        ["a", "b"],
    ),
}

LAYOUTS = {
    "nothing mapped": {},
    "the other name": {"a": "x"},
    "this name": {"b": "x"},
    "in steps": {"b": nx.SerialLoop(2)},
    "the other name in steps": {"a": nx.SerialLoop(2)},
    "on the mesh and in steps": {"a": ("x", nx.SerialLoop(2))},
}
# In steps no entry moves to another step.
MOVES = ("sort", "roll", "concatenate", "median", "convolve")
# Auto axes that nobody maps stay with the compiler: on CPUs its gradient of what is written by index is wrong, in plain JAX too.
COMPILERS = ("at",)


CASES = [("explicit", layout) for layout in LAYOUTS]
CASES += [("explicit context", layout) for layout in ("nothing mapped", "this name", "in steps")]
CASES += [("auto", layout) for layout in ("nothing mapped", "the other name")]


@pytest.mark.part(2)
@pytest.mark.parametrize(("kind", "layout"), CASES)
def test_sharded_over_axes_that_nobody_maps(kind, layout):
    axis_type = AxisType.Auto if kind == "auto" else AxisType.Explicit
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(axis_type,) * 2)
    plain = array(4, 8)
    x = jax.device_put(plain, NamedSharding(mesh, P(None, "y") if layout != "in steps" else P("y", "x")))
    resources = LAYOUTS[layout]
    in_steps = isinstance(resources.get("b"), nx.SerialLoop)
    left_out = MOVES if in_steps else COMPILERS if kind == "auto" else ()
    programs = {label: p for label, p in PROGRAMS.items() if label not in left_out}

    def named(x):
        return {label: program(x) for label, (program, _, _) in programs.items()}

    def want(x):
        return {label: oracle(x) for label, (_, oracle, _) in programs.items()}

    f = nx.xmap(
        named, ["a", "b"], {label: axes for label, (_, _, axes) in programs.items()}, axis_resources=resources, mesh=mesh
    )
    weights = {label: array(*np.shape(value), seed=n) for n, (label, value) in enumerate(jax.eval_shape(want, plain).items())}

    def loss(results):
        return sum(jnp.sum(results[label] * weights[label]) for label in results)

    with jax.set_mesh(mesh) if kind == "explicit context" else contextlib.nullcontext():
        (_, have), gradient = jax.jit(jax.value_and_grad(lambda x: (loss(r := f(x)), r), has_aux=True))(x)
    for label, value in want(plain).items():
        np.testing.assert_allclose(have[label], value, rtol=1e-4, atol=1e-4, err_msg=label)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: loss(want(x)))(plain), rtol=1e-3, atol=1e-3)


def test_a_value_is_replicated_over_axes_on_which_no_name_lives():
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x = jax.device_put(array(4, 8), NamedSharding(mesh, P("y", "x")))
    with jax.set_mesh(mesh):
        for resources, spec in (({}, ()), ({"a": "x"}, ("x",)), ({"b": "y"}, (None, "y"))):
            result = nx.xmap(lambda x: 2 * x, ["a", "b"], ["a", "b"], axis_resources=resources)(x)
            entries = tuple(result.sharding.spec)
            assert entries[: len(spec)] == spec
            assert not any(entries[len(spec) :])
