"""Random programs in random placements, against an interpreter that knows nothing of namedax.

Hypothesis draws a program (a chain of operations over named arrays), a mesh and an assignment. `run_named` runs it in namedax
under `xmap`; `run_plain` runs it in `jnp` on positional arrays with their axis names beside them. Values and gradients agree,
and the program is refused for two names on one mesh axis exactly where the plain interpreter sees them meet.

`NAMEDAX_EXAMPLES=1000` tries more, and others each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType

import namedax as nx
from namedax.errors import PlacementConflictError

# A name and its twin have one size, so that one can be renamed to the other and placed elsewhere. `d` divides by nothing.
SIZES = {"a": 8, "a2": 8, "b": 4, "b2": 4, "c": 6, "c2": 6, "d": 3}
TWIN = {"a": "a2", "a2": "a", "b": "b2", "b2": "b", "c": "c2", "c2": "c"}
MESHES = [{"x": 4, "y": 2}, {"x": 2, "y": 4}, {"x": 8}, {"x": 2, "y": 2}]

Names = tuple[str, ...]


# --- programs -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation: its name, the values that it takes (by number), and the axes that it speaks of."""

    op: str
    operands: tuple[int, ...]
    axes: Names = ()


@dataclasses.dataclass(frozen=True)
class Program:
    """Arguments (their names, in physical order), steps, and the names of every value, sorted."""

    arguments: tuple[Names, ...]
    steps: tuple[Step, ...]
    names: tuple[Names, ...]
    meetings: tuple[frozenset[str], ...]  # names that are in one value, at each step


UNARY = ["sin", "tanh", "relu", "square"]
BINARY = ["add", "multiply", "maximum", "where"]
REDUCTIONS = ["sum", "mean", "max", "min", "var", "logsumexp"]
COLLECTIVES = ["psum", "pmean", "pmax"]


@st.composite
def programs(draw: Any) -> Program:
    """A program of two or three arguments and three to five steps, valid wherever no two of its names collide."""
    arguments = draw(st.lists(st.permutations(sorted(SIZES)).map(lambda p: tuple(p[:2])), min_size=2, max_size=3))
    names = [tuple(sorted(argument)) for argument in arguments]
    meetings = [frozenset(argument) for argument in arguments]
    steps: list[Step] = []
    for _ in range(draw(st.integers(3, 5))):
        step, result, meeting = draw(_steps(names))
        steps.append(step)
        names.append(tuple(sorted(result)))
        meetings.append(frozenset(meeting | result))
    return Program(tuple(arguments), tuple(steps), tuple(names), tuple(meetings))


@st.composite
def _steps(draw: Any, names: list[Names]) -> tuple[Step, set[str], set[str]]:
    """One step, the names of its result, and those that meet in it."""
    some = st.integers(0, len(names) - 1)
    i, j = draw(some), draw(some)
    x, y = set(names[i]), set(names[j])
    both = sorted(x & y)
    kinds = ["unary", "arange", "collective"]
    if len(x | y) <= 4:
        kinds += ["binary", "binary"]
    if x:
        kinds += ["reduce", "reduce", "softmax", "gather"]
    if both and len(x | y) <= 5:
        kinds += ["dot", "dot", "dot"]
    if any(name in TWIN and TWIN[name] not in x for name in x):
        kinds += ["rename", "read"]
    if x and len(x) <= 3:
        kinds += ["take", "one_hot"]
    kind = draw(st.sampled_from(kinds))
    if kind == "unary":
        return Step(draw(st.sampled_from(UNARY)), (i,)), x, x
    if kind == "binary":
        return Step(draw(st.sampled_from(BINARY)), (i, j)), x | y, x | y
    if kind == "dot":
        over = draw(st.sets(st.sampled_from(both), min_size=1, max_size=2))
        return Step("dot", (i, j), tuple(sorted(over))), (x | y) - over, x | y
    if kind == "reduce":
        over = draw(st.sets(st.sampled_from(sorted(x)), min_size=1, max_size=2))
        return Step(draw(st.sampled_from(REDUCTIONS)), (i,), tuple(sorted(over))), x - over, x
    if kind == "softmax":
        return Step(draw(st.sampled_from(["softmax", "log_softmax"])), (i,), (draw(st.sampled_from(sorted(x))),)), x, x
    if kind == "gather":
        name = draw(st.sampled_from(sorted(x)))
        return Step("gather", (i,), (name,)), x - {name}, x
    if kind == "collective":
        name = draw(st.sampled_from(sorted(SIZES)))
        return Step(draw(st.sampled_from(COLLECTIVES)), (i,), (name,)), x - {name}, x
    if kind == "arange":
        name = draw(st.sampled_from(sorted(x) or sorted(SIZES)))
        return Step("arange", (i,), (name,)), x | {name}, x | {name}
    if kind in ("rename", "read"):
        old = draw(st.sampled_from([name for name in sorted(x) if name in TWIN and TWIN[name] not in x]))
        new = TWIN[old]
        if kind == "rename":
            return Step("rename", (i,), (old, new)), (x - {old}) | {new}, set()
        # The value times itself, read under the twin's name: every pair of entries of `old`, the rest contracted.
        return Step("read", (i,), (old, new)), {old, new}, x | {new}
    name = draw(st.sampled_from(sorted(x)))
    other = draw(st.sampled_from([n for n in sorted(SIZES) if n != name and (kind == "take" or n not in x)]))
    if kind == "take":
        return Step("take", (i,), (name, other)), (x - {name}) | {other}, x | {other}
    return Step("one_hot", (i,), (name, other)), (x - {name}) | {other}, x


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where a program runs."""

    mesh: tuple[tuple[str, int], ...]
    resources: tuple[tuple[str, Names], ...]
    kind: str
    partitioning: str
    inside: bool  # whether the gradient is taken inside of the body


@st.composite
def experiments(draw: Any) -> tuple[Program, Setting]:
    """A program, and a setting that usually keeps names apart that meet."""
    program = draw(programs())
    mesh = draw(st.sampled_from(MESHES))
    placements: list[Names] = [(), *((axis,) for axis in mesh), *([("x", "y"), ("y", "x")] if "y" in mesh else [])]
    careless = draw(st.integers(0, 5)) == 0
    resources: dict[str, Names] = {}
    for name in draw(st.permutations(sorted({name for names in program.names for name in names} | _spoken(program)))):
        taken = {
            axis for meeting in program.meetings if name in meeting for other in meeting for axis in resources.get(other, ())
        }
        fits = [axes for axes in placements if SIZES[name] % int(np.prod([mesh[axis] for axis in axes])) == 0]
        allowed = [axes for axes in fits if careless or not taken & set(axes)]
        resources[name] = draw(st.sampled_from(allowed[1:] * 3 + allowed[:1]))
    kind = draw(st.sampled_from(["auto", "explicit"]))
    partitioning = draw(st.sampled_from(["manual", "manual", "manual", "auto"]))
    placed = tuple((name, axes) for name, axes in resources.items() if axes)
    return program, Setting(tuple(mesh.items()), placed, kind, partitioning, draw(st.booleans()))


def _spoken(program: Program) -> set[str]:
    return {name for step in program.steps for name in step.axes}


def conflicts(program: Program, setting: Setting) -> bool:
    """Whether two names on one mesh axis meet in some value."""
    resources = dict(setting.resources)
    for meeting in program.meetings:
        axes = [axis for name in meeting for axis in resources.get(name, ())]
        if len(axes) != len(set(axes)):
            return True
    return False


# --- the two interpreters -------------------------------------------------------------------------------------------


def run_named(program: Program, arguments: Any) -> list[Any]:
    """All values of the program but the arguments, by names."""
    values = list(arguments)
    for step in program.steps:
        values.append(named_step(step, *(values[i] for i in step.operands)))
    return values[len(program.arguments) :]


def named_step(step: Step, x: Any, y: Any = None) -> Any:
    op, axes = step.op, step.axes
    if op in ("sin", "tanh", "square"):
        return getattr(nx, op)(x)
    if op == "relu":
        return nx.nn.relu(x)
    if op == "where":
        return nx.where(x > 0, x, y)
    if op in BINARY:
        return getattr(nx, op)(x, y)
    if op == "dot":
        return nx.dot(x, y, axes) / 4
    if op in REDUCTIONS:
        return getattr(nx, op)(x, axes)
    if op in ("softmax", "log_softmax"):
        return getattr(nx.nn, op)(x, axes)
    if op in COLLECTIVES:
        return getattr(nx.lax, op)(x, axes[0])
    if op == "arange":
        return x * (nx.arange(axes[0]) + 1) / 4
    if op == "gather":
        whole = nx.lax.all_gather(x, axes[0])
        return nx.sum(whole * jnp.cos(jnp.arange(SIZES[axes[0]])).astype(whole.dtype), 0)
    if op == "rename":
        return nx.rename(x, {axes[0]: axes[1]})
    if op == "read":
        rest = [dim for dim in x.named_shape if dim != axes[0]]
        spec = f"{{{','.join([axes[0], *rest])}}},{{{','.join([f'{axes[1]}:{axes[0]}', *rest])}}}->{{{axes[0]},{axes[1]}}}"
        return nx.einsum(spec, x, nx.tanh(x)) / 4
    if op == "take":
        return nx.take(x, (nx.arange(axes[1]) * 5 + 1) % SIZES[axes[0]], axes[0])
    assert op == "one_hot"
    # Without the slope, equal entries would be told apart by rounding.
    labels = nx.argmax(x + nx.arange(axes[0]) / 8, axes[0]) % SIZES[axes[1]]
    return nx.nn.one_hot(labels, axis=axes[1]) * nx.sum(x, axes[0])


Plain = tuple[jax.Array, Names]


def run_plain(program: Program, arguments: Any) -> list[jax.Array]:
    """The same values as positional arrays, axes in the order of their sorted names."""
    values: list[Plain] = [(data, names) for data, names in zip(arguments, program.arguments, strict=True)]
    for step in program.steps:
        values.append(plain_step(step, *(values[i] for i in step.operands)))
    return [spread(value, names) for value, names in zip(values, program.names, strict=True)][len(program.arguments) :]


def spread(value: Plain, names: Names) -> jax.Array:
    """The array with axes in the order of `names`; those that it lacks have size one."""
    data, own = value
    data = jnp.transpose(data, [own.index(name) for name in names if name in own])
    return data.reshape([data.shape[[n for n in names if n in own].index(name)] if name in own else 1 for name in names])


def plain_step(step: Step, x: Plain, y: Plain | None = None) -> Plain:
    op, axes = step.op, step.axes
    data, names = x
    if op in ("sin", "tanh", "square"):
        return getattr(jnp, op)(data), names
    if op == "relu":
        return jax.nn.relu(data), names
    if op in BINARY or op == "dot":
        union = tuple(sorted({*names, *y[1]}))
        u, v = spread(x, union), spread(y, union)
        if op == "where":
            return jnp.where(u > 0, u, v), union
        if op == "dot":
            places = tuple(union.index(name) for name in axes)
            return jnp.sum(u * v, places) / 4, tuple(name for name in union if name not in axes)
        return getattr(jnp, op)(u, v), union
    if op in REDUCTIONS:
        function = jax.nn.logsumexp if op == "logsumexp" else getattr(jnp, op)
        return function(data, tuple(names.index(name) for name in axes)), tuple(name for name in names if name not in axes)
    if op in ("softmax", "log_softmax"):
        return getattr(jax.nn, op)(data, names.index(axes[0])), names
    size, without = SIZES[axes[0]], tuple(name for name in names if name != axes[0])
    if op in COLLECTIVES:
        if axes[0] not in names:
            return (data * size if op == "psum" else data), names
        function = {"psum": jnp.sum, "pmean": jnp.mean, "pmax": jnp.max}[op]
        return function(data, names.index(axes[0])), without
    if op == "arange":
        union = tuple(sorted({*names, axes[0]}))
        return spread(x, union) * (spread((jnp.arange(size), (axes[0],)), union) + 1) / 4, union
    front = spread(x, (axes[0], *without))
    if op == "gather":
        return jnp.tensordot(jnp.cos(jnp.arange(size)).astype(data.dtype), front, 1), without
    if op == "rename":
        return data, tuple(axes[1] if name == axes[0] else name for name in names)
    if op == "read":
        flat = front.reshape(size, -1)
        return flat @ jnp.tanh(flat).T / 4, axes
    count = SIZES[axes[1]]
    if op == "take":
        index = (jnp.arange(count) * 5 + 1) % size
        if axes[1] not in names:
            return front[index], (axes[1], *without)
        rest = tuple(name for name in without if name != axes[1])  # both have it: entry by entry
        return spread(x, (axes[0], axes[1], *rest))[index, jnp.arange(count)], (axes[1], *rest)
    slope = jnp.arange(size).reshape([size] + [1] * len(without)) / 8
    labels = jnp.argmax(front + slope, 0) % count
    return jax.nn.one_hot(labels, count, dtype=data.dtype, axis=0) * jnp.sum(front, 0), (axes[1], *without)


# --- the comparison -------------------------------------------------------------------------------------------------


def named_loss(program: Program, *arguments: Any) -> Any:
    total = 0.0
    values = run_named(program, arguments)
    for value, names in zip(values, program.names[len(program.arguments) :], strict=True):
        for name in names:
            value = value * nx.cos(nx.arange(name) * 0.7 + 0.3)
        total = total + (nx.sum(value, names) if names else value)
    return total, values


def plain_loss(program: Program, *arguments: Any) -> Any:
    total = 0.0
    values = run_plain(program, arguments)
    for value, names in zip(values, program.names[len(program.arguments) :], strict=True):
        weighted = value
        for name in names:
            weighted = weighted * spread((jnp.cos(jnp.arange(SIZES[name]) * 0.7 + 0.3), (name,)), names)
        total = total + jnp.sum(weighted)
    return total, values


def run_experiment(program: Program, setting: Setting, arguments: Any) -> Any:
    """Loss, values and gradients from namedax."""
    axis_type = AxisType.Explicit if setting.kind == "explicit" else AxisType.Auto
    axes, shape = zip(*setting.mesh, strict=True)
    mesh = jax.make_mesh(shape, axes, axis_types=(axis_type,) * len(axes), devices=jax.devices()[: int(np.prod(shape))])
    in_axes = tuple(list(names) for names in program.arguments)
    out_axes = ([], [list(names) for names in program.names[len(in_axes) :]])
    spoken_of = {name for names in (*program.names, *(step.axes for step in program.steps)) for name in names}
    options = {
        "axis_sizes": {name: SIZES[name] for name in sorted(spoken_of)},
        "axis_resources": dict(setting.resources),
        "mesh": mesh,
        "partitioning": setting.partitioning,
    }
    argnums = tuple(range(len(in_axes)))
    loss = functools.partial(named_loss, program)
    with jax.set_mesh(mesh) if setting.kind == "explicit" else contextlib.nullcontext():
        if setting.inside:
            return nx.xmap(jax.value_and_grad(loss, argnums, has_aux=True), in_axes, (out_axes, in_axes), **options)(*arguments)
        return jax.jit(jax.value_and_grad(nx.xmap(loss, in_axes, out_axes, **options), argnums, has_aux=True))(*arguments)


def examples() -> int:
    return int(os.environ.get("NAMEDAX_EXAMPLES", "40"))


@pytest.mark.full(0)
@pytest.mark.fast(0)
@settings(
    max_examples=examples(),
    derandomize="NAMEDAX_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(experiments())
def test_random_programs(experiment):
    program, setting = experiment
    rng = np.random.default_rng(len(program.steps))
    arguments = tuple(jnp.asarray(rng.normal(size=[SIZES[name] for name in names]), float) for names in program.arguments)
    if conflicts(program, setting):
        event("conflict")
        with pytest.raises(PlacementConflictError, match="meet in one value"):
            run_experiment(program, setting, arguments)
        return
    for step in program.steps:
        event(step.op)
    event(f"{setting.partitioning}, {setting.kind}, gradient {'inside' if setting.inside else 'outside'}")
    have = run_experiment(program, setting, arguments)
    argnums = tuple(range(len(arguments)))
    want = jax.jit(jax.value_and_grad(functools.partial(plain_loss, program), argnums, has_aux=True))(*arguments)
    for h, w in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert h.shape == w.shape
        scale = 1 + float(jnp.max(jnp.abs(w)))
        np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=1e-3, atol=1e-4 * scale)
