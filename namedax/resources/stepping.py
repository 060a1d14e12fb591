"""Time as a resource: a program that was written for a mesh axis, executed along that axis in steps.

A `SerialLoop` is a mesh axis that no device stands behind. The body of the mapped function is traced over a mesh that has this
axis, so that all operations, their collectives and their derivatives are what they are on any mesh axis. This module then
executes the traced program on the mesh that there is, the blocks along the loop's axis one after the other.

What does not differ from step to step (parameters, and what is computed of them alone) is computed once, outside of the loop.
A collective over the loop's axis needs all steps before anything that uses its result can go on, so the program falls into
passes. In each the loop runs once: it computes, again where necessary, what this pass needs, and adds up what the collectives
take in (a sum, a maximum, or the blocks themselves). What is left of a collective, over mesh axes of devices, runs after the
loop. A loss whose gradient is taken in the body, or outside of it, needs one pass; a batch norm needs three.

The derivative of such a program is that of the traced one, executed in steps likewise: nothing that a step computed is kept for
it, so a step's memory is that of one block. The gradient of a loss is computed along with its value. A loop can be
differentiated in reverse mode, any number of times.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun, subjaxprs
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from namedax.errors import SerialLoopError
from namedax.resources import communication as comm
from namedax.resources.mesh import replicated
from namedax.resources.variance import cast_data, varying

__all__ = ["run_in_steps", "virtual_mesh"]

Axes = tuple[str, ...]
Spec = PartitionSpec


def virtual_mesh(mesh: Any, loops: Mapping[str, int]) -> AbstractMesh:
    """`mesh` (or none) with an axis for every loop, for tracing."""
    sizes = {**(dict(mesh.shape) if mesh is not None else {}), **loops}
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))


@contextlib.contextmanager
def _tracing_on(mesh: AbstractMesh) -> Iterator[None]:
    # By way of no mesh: from one mesh to another of a different size JAX does not let one go.
    with jax.sharding.use_abstract_mesh(AbstractMesh((), ())), jax.sharding.use_abstract_mesh(mesh):
        yield


def run_in_steps(
    body: Callable[..., Any],
    datas: Sequence[Any],
    in_specs: Sequence[Spec],
    out_specs: Any,
    loops: Mapping[str, int],
    mesh: Any,
    manual: frozenset[str],
    shard_map: Callable[..., Any] | None,
) -> Any:
    """`jax.shard_map(body, ...)(*datas)` on a mesh that has an axis for every loop, executed on the mesh that there is.

    Args:
      body: takes and returns blocks.
      datas: global arrays.
      in_specs: of the arrays, over the axes of the mesh and of the loops; a loop is the minor one in its entry.
      out_specs: a prefix tree for the results.
      loops: the number of steps of every loop.
      mesh: the mesh, or `None`.
      manual: the axes of the mesh over which the body is mapped.
      shard_map: `jax.shard_map` on the mesh, to be given specs; `None` if no axis of the mesh is mapped.

    Raises:
      SerialLoopError: the body does over a loop's axis what can not be done in steps.
    """
    traced_on = virtual_mesh(mesh, loops)
    mapped = jax.shard_map(
        body, mesh=traced_on, in_specs=tuple(in_specs), out_specs=out_specs, axis_names=manual | set(loops), check_vma=True
    )
    types = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x), weak_type=jax.typeof(x).weak_type) for x in datas]
    with _tracing_on(traced_on):
        closed, shapes = jax.make_jaxpr(mapped, return_shape=True)(*types)
    consts = [replicated(const) for const in closed.consts]
    (eqn,) = closed.jaxpr.eqns
    known = dict(zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*consts, *datas], strict=True))
    program = _Program(
        ClosedJaxpr(eqn.params["jaxpr"], ()),
        tuple(eqn.params["in_specs"]),
        tuple(eqn.params["out_specs"]),
        dict(loops),
        traced_on,
        manual,
        shard_map,
    )
    flat = program([var.val if isinstance(var, Literal) else known[var] for var in eqn.invars])
    results = dict(zip(eqn.outvars, flat, strict=True)) | known
    out = [var.val if isinstance(var, Literal) else results[var] for var in closed.jaxpr.outvars]
    return jax.tree.unflatten(jax.tree.structure(shapes), out)


@dataclasses.dataclass(frozen=True)
class _Program:
    """A traced body, and how to run it in steps. Differentiable in reverse mode."""

    jaxpr: ClosedJaxpr
    in_specs: tuple[Spec, ...]
    out_specs: tuple[Spec, ...]
    loops: dict[str, int]
    traced_on: AbstractMesh
    manual: frozenset[str]
    shard_map: Callable[..., Any] | None

    def __call__(self, datas: Sequence[Any]) -> list[Any]:
        floats = [i for i, aval in enumerate(self.jaxpr.in_avals) if jnp.issubdtype(aval.dtype, jnp.inexact)]
        outs = [i for i, aval in enumerate(self.jaxpr.out_avals) if jnp.issubdtype(aval.dtype, jnp.inexact)]
        # The gradient of a loss is taken along with its value, in one pass over the steps; the cotangent only scales it.
        is_loss = len(outs) == 1 and self.jaxpr.out_avals[outs[0]].shape == () and not _has_float16(self.jaxpr.jaxpr)

        @jax.custom_vjp
        def run(*datas: Any) -> list[Any]:
            return self._execute(datas)

        def forward(*primals: Any) -> tuple[list[Any], Any]:
            values = [primal.value for primal in primals]
            wanted = [i for i in floats if primals[i].perturbed]
            marks = tuple(() if i in wanted else None for i in range(len(primals)))  # as a structure: it has to be static
            if not is_loss:
                return self._execute(values), (marks, values, None)
            both = self._with_gradient(wanted, outs[0])(values)
            return both[: len(self.out_specs)], (marks, None, both[len(self.out_specs) :])

        def backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
            marks, values, gradient = residuals
            wanted = [i for i, mark in enumerate(marks) if mark is not None]
            live = [i for i in outs if not isinstance(cotangents[i], SymbolicZero)]
            grads: list[Any] = []
            if live and gradient is not None:
                grads = [cotangents[live[0]].astype(grad.dtype) * grad for grad in gradient]
            elif live:
                grads = self._derivative(wanted, live)([*values, *(cotangents[i] for i in live)])
            supply = iter(grads)
            return tuple(next(supply) if live and i in wanted else None for i in range(len(marks)))

        run.defvjp(forward, backward, symbolic_zeros=True)
        return run(*datas)

    def _pullback(self, wanted: Sequence[int], outs: Sequence[int], blocks: Sequence[Any]) -> tuple[list[Any], Any]:
        """The results for these blocks, and the pullback of those in `outs` to the arguments in `wanted`."""
        function = jaxpr_as_fun(self.jaxpr)

        def part(*given: Any) -> tuple[list[Any], list[Any]]:
            filled = list(blocks)
            for i, value in zip(wanted, given, strict=True):
                filled[i] = value
            results = function(*filled)
            return [results[i] for i in outs], results

        _, pullback, results = jax.vjp(part, *(blocks[i] for i in wanted), has_aux=True)
        return results, pullback

    def _with_gradient(self, wanted: Sequence[int], loss: int) -> _Program:
        """The program of all results, and of the gradient of one."""

        def body(*blocks: Any) -> list[Any]:
            results, pullback = self._pullback(wanted, [loss], blocks)
            return [*results, *pullback([jnp.ones_like(results[loss])])]

        return self._traced(body, (), tuple(self.out_specs) + tuple(self.in_specs[i] for i in wanted))

    def _derivative(self, wanted: Sequence[int], outs: Sequence[int]) -> _Program:
        """The program of the vector-Jacobian product: of arguments and cotangents."""
        count = len(self.in_specs)

        def body(*blocks: Any) -> list[Any]:
            _, pullback = self._pullback(wanted, outs, blocks[:count])
            return list(pullback(list(blocks[count:])))

        return self._traced(body, outs, tuple(self.in_specs[i] for i in wanted))

    def _traced(self, body: Callable[..., Any], cotangents: Sequence[int], out_specs: tuple[Spec, ...]) -> _Program:
        """A program of the arguments, and of cotangents of some results."""
        in_specs = self.in_specs + tuple(self.out_specs[i] for i in cotangents)
        mapped = jax.shard_map(
            body,
            mesh=self.traced_on,
            in_specs=in_specs,
            out_specs=list(out_specs),
            axis_names=self.manual | set(self.loops),
            check_vma=True,
        )
        avals = [*self.jaxpr.in_avals, *(self.jaxpr.out_avals[i] for i in cotangents)]
        types = [
            jax.ShapeDtypeStruct(_global_shape(aval.shape, spec, self.traced_on), aval.dtype)
            for aval, spec in zip(avals, in_specs, strict=True)
        ]
        with _tracing_on(self.traced_on):
            closed = jax.make_jaxpr(mapped)(*types)
        (eqn,) = closed.jaxpr.eqns
        assert list(eqn.invars) == list(closed.jaxpr.invars)
        assert list(eqn.outvars) == list(closed.jaxpr.outvars)
        return dataclasses.replace(self, jaxpr=ClosedJaxpr(eqn.params["jaxpr"], ()), in_specs=in_specs, out_specs=out_specs)

    def _execute(self, datas: Sequence[Any]) -> list[Any]:
        body, in_specs, out_specs = self._nest()
        if self.shard_map is None:
            return list(body(*datas))
        return list(self.shard_map(lambda *blocks: list(body(*blocks)), in_specs=in_specs, out_specs=list(out_specs))(*datas))

    def _nest(self) -> tuple[Callable[..., Any], tuple[Spec, ...], tuple[Spec, ...]]:
        """The body without loops' axes, the loops nested in an order in which it can be done."""
        first: SerialLoopError | None = None
        for order in itertools.permutations(self.loops):
            try:
                return self._nest_in(order)
            except SerialLoopError as error:
                first = first or error
        assert first is not None
        raise first

    def _nest_in(self, order: Sequence[str]) -> tuple[Callable[..., Any], tuple[Spec, ...], tuple[Spec, ...]]:
        in_specs, out_specs, jaxpr = self.in_specs, self.out_specs, self.jaxpr
        remaining = dict(self.loops)
        while True:  # the innermost loop first
            axis, *order = order
            body = _Stepper(jaxpr, axis, remaining.pop(axis), in_specs, out_specs).run
            in_specs = tuple(_without(spec, axis) for spec in in_specs)
            out_specs = tuple(_without(spec, axis) for spec in out_specs)
            if not order:
                return body, in_specs, out_specs
            jaxpr = self._trace_again(body, in_specs, out_specs, remaining)

    def _trace_again(
        self, body: Callable[..., Any], in_specs: tuple[Spec, ...], out_specs: tuple[Spec, ...], loops: Mapping[str, int]
    ) -> ClosedJaxpr:
        sizes = {axis: n for axis, n in self.traced_on.shape.items() if axis in loops or axis not in self.loops}
        mesh = AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))
        mapped = jax.shard_map(
            lambda *blocks: list(body(*blocks)),
            mesh=mesh,
            in_specs=in_specs,
            out_specs=list(out_specs),
            axis_names=self.manual | set(loops),
            check_vma=True,
        )
        types = [
            jax.ShapeDtypeStruct(_global_shape(aval.shape, spec, self.traced_on), aval.dtype, weak_type=aval.weak_type)
            for aval, spec in zip(self.jaxpr.in_avals, self.in_specs, strict=True)
        ]
        with _tracing_on(mesh):
            closed = jax.make_jaxpr(mapped)(*types)
        (eqn,) = closed.jaxpr.eqns
        return ClosedJaxpr(eqn.params["jaxpr"], ())


def _has_float16(jaxpr: Any) -> bool:
    """Whether 16-bit floats of the small range occur: there the size of the cotangent matters (loss scaling)."""
    values = itertools.chain(jaxpr.invars, (var for eqn in jaxpr.eqns for var in eqn.outvars))
    return any(getattr(var.aval, "dtype", None) == jnp.float16 for var in values) or any(map(_has_float16, subjaxprs(jaxpr)))


def _entry(spec: Spec, dim: int) -> Axes:
    entry = spec[dim] if dim < len(spec) else None
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def _without(spec: Spec, axis: str) -> Spec:
    entries = (tuple(a for a in _entry(spec, dim) if a != axis) for dim in range(len(spec)))
    return PartitionSpec(*(None if not entry else entry[0] if len(entry) == 1 else entry for entry in entries))


def _global_shape(shape: Sequence[int], spec: Spec, mesh: AbstractMesh) -> tuple[int, ...]:
    return tuple(n * math.prod(mesh.shape[axis] for axis in _entry(spec, dim)) for dim, n in enumerate(shape))


def _dim_of(spec: Spec, axis: str) -> int | None:
    """The dimension that the loop's axis cuts, if there is one."""
    for dim in range(len(spec)):
        entry = _entry(spec, dim)
        if axis in entry:
            assert entry[-1] == axis  # parsed so: the loop is the minor one
            return dim
    return None


# --- the traced program as a list of nodes --------------------------------------------------------------------------

# What a node takes and gives: an index of a value, or a literal.
Value = int | Literal

_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr",
            "custom_vjp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr"}  # fmt: skip
_REMAT = ("checkpoint", "remat", "remat2")
_CASTS = ("pvary", "pcast", "pbroadcast")
_SUMS = ("psum", "psum2", "psum_invariant")
_EXTREMA = {"pmax": jnp.maximum, "pmin": jnp.minimum}
_GATHERS = ("all_gather", "all_gather_invariant")
_STRUCTURED = ("barrier", "identity", "scan", "while", "cond")
_SCATTERS = ("reduce_scatter", "psum_scatter")


@dataclasses.dataclass
class _Node:
    """One operation: a primitive, `barrier`, `identity`, `late psum`, or one of control flow with bodies of its own."""

    kind: str
    eqn: JaxprEqn
    inputs: list[Value]
    outputs: list[int]
    bodies: list[_Body] = dataclasses.field(default_factory=list)
    # Results whose sum over these axes is still to be taken: of a scan, and of the sums in its body.
    waiting: dict[int, Axes] = dataclasses.field(default_factory=dict)
    collective: bool = False  # over the loop's axis
    # Results of control flow that are the same in every step, and the level of the pass that gives them.
    constant: dict[int, int] = dataclasses.field(default_factory=dict)

    @property
    def axes(self) -> Axes:
        """The mesh axes that a collective speaks of."""
        if self.kind == "late psum":
            return self.waiting[0]
        params = self.eqn.params
        axes = params.get("axes", params.get("axis_name", ())) if self.kind not in _STRUCTURED else ()
        axes = axes if isinstance(axes, (tuple, list, frozenset, set)) else (axes,)
        return tuple(axis for axis in axes if isinstance(axis, str))


@dataclasses.dataclass
class _Body:
    """A list of nodes; values are numbered within all of a program."""

    inputs: list[int]
    outputs: list[Value]
    nodes: list[_Node]


class _Flattener:
    """Turns a jaxpr into nodes: calls are inlined, control flow keeps its bodies."""

    def __init__(self, axis: str):
        self.axis = axis
        self.fresh = itertools.count()
        self.zeros: set[int] = set()  # values that are zeros by the look of them

    def body(self, jaxpr: Any) -> _Body:
        """The nodes of `jaxpr`, closed or open, with inputs of their own."""
        inputs = [next(self.fresh) for _ in getattr(jaxpr, "jaxpr", jaxpr).invars]
        nodes: list[_Node] = []
        outputs = self._inline(jaxpr, inputs, nodes)
        return _Body(inputs, outputs, nodes)

    def _inline(self, jaxpr: Any, inputs: Sequence[Value], nodes: list[_Node]) -> list[Value]:
        """Appends the equations of `jaxpr` to `nodes`; returns its results."""
        consts: Sequence[Any] = ()
        if isinstance(jaxpr, ClosedJaxpr):
            jaxpr, consts = jaxpr.jaxpr, jaxpr.consts
        values: dict[Any, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            values[var] = Literal(const, var.aval)

        def read(var: Any) -> Value:
            return var if isinstance(var, Literal) else values[var]

        for eqn in jaxpr.eqns:
            name, operands = eqn.primitive.name, [read(var) for var in eqn.invars]
            results: list[Value]
            if name in _INLINED and _INLINED[name] in eqn.params:
                results = self._inline(eqn.params[_INLINED[name]], operands, nodes)
            elif name in _REMAT:
                if eqn.params.get("differentiated") and eqn.params.get("prevent_cse", True):
                    fresh = [next(self.fresh) for _ in operands]
                    nodes.append(_Node("barrier", eqn, operands, fresh))
                    operands = list(fresh)
                results = self._inline(eqn.params["jaxpr"], operands, nodes)
            else:
                results = self._operation(eqn, operands, nodes)
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def _operation(self, eqn: JaxprEqn, operands: list[Value], nodes: list[_Node]) -> list[Value]:
        node = _Node(eqn.primitive.name, eqn, operands, [next(self.fresh) for _ in eqn.outvars])
        nodes.append(node)
        if node.kind in ("broadcast_in_dim", *_CASTS) and self._is_zero(operands[0]):
            self.zeros.update(node.outputs)
        bodies = {"scan": ("jaxpr",), "while": ("cond_jaxpr", "body_jaxpr")}
        if node.kind == "cond":
            node.bodies = [self.body(branch) for branch in eqn.params["branches"]]
        elif node.kind in bodies:
            node.bodies = [self.body(eqn.params[body]) for body in bodies[node.kind]]
        if not any(self._speaks_of_loop(body) for body in node.bodies):
            return list(node.outputs)
        if node.kind != "scan":
            raise SerialLoopError(
                f"SerialLoop: a reduction or collective over {self.axis} is taken inside of "
                f"{'a branch' if node.kind == 'cond' else 'a while loop'}, where all steps would have to wait for it. Take it "
                "outside, or remove the SerialLoop from axis_resources."
            )
        return self._sum_after_scan(node, nodes)

    def _is_zero(self, value: Value) -> bool:
        return value in self.zeros if isinstance(value, int) else np.ndim(value.val) == 0 and value.val == 0

    def _speaks_of_loop(self, body: _Body) -> bool:
        return any(
            (self.axis in node.axes and node.kind not in (*_CASTS, "axis_index")) or any(map(self._speaks_of_loop, node.bodies))
            for node in body.nodes
        )

    def _sum_after_scan(self, node: _Node, nodes: list[_Node]) -> list[Value]:
        """Moves sums over the loop out of a scan that only collects them, as the gradient of a scan does with its weights.

        Within the scan a sum that waits is what this step has of it. It may be added to others of its kind, scaled and
        reshaped. The sum itself is taken of what the scan gives. What a carry that collects begins with is one of the summands:
        that of the first step, on the first device.
        """
        (body,) = node.bodies
        consts, carries = _consts_and_carries(node.eqn)
        carried = body.inputs[consts : consts + carries]
        waiting: dict[int, Axes] = {}
        while True:
            found = self._wait(body, waiting, frozenset(carried))
            outputs = {i: found[out] for i, out in enumerate(body.outputs) if isinstance(out, int) and out in found}
            grown = waiting | {carried[i]: axes for i, axes in outputs.items() if i < carries}
            if grown == waiting:
                break
            waiting = grown
        self._wait(body, waiting, frozenset())
        node.waiting = outputs
        results: list[Value] = list(node.outputs)
        for i, axes in outputs.items():
            total = next(self.fresh)
            nodes.append(_Node("late psum", node.eqn, [node.outputs[i]], [total], waiting={0: axes}))
            results[i] = total
        return results

    def _wait(self, body: _Body, waiting: Mapping[int, Axes], may_wait: frozenset[int]) -> dict[int, Axes]:
        """Which values of a scan's body are sums that wait, over which axes. Takes these sums out of the body.

        Of carries in `may_wait` it is not known yet whether they do.
        """
        found, maybe = dict(waiting), set(may_wait)
        for node in body.nodes:
            axes = [found.get(v) if isinstance(v, int) else None for v in node.inputs]
            taken = {a for a in axes if a is not None}
            if node.kind in (*_SUMS, "late psum") and self.axis in node.axes and not taken:
                node.waiting = (
                    {0: node.axes} if node.kind == "late psum" else dict.fromkeys(range(len(node.outputs)), node.axes)
                )
                node.kind = "identity"
            if node.kind == "identity":
                if taken:
                    raise self._too_early("a sum")
                found.update(dict.fromkeys(node.outputs, node.waiting[0]))
            elif self.axis in node.axes and node.kind not in (*_CASTS, "axis_index"):
                raise self._too_early(f"the result of {node.kind}")
            elif taken:
                if not (len(taken) == 1 and self._is_linear(node, axes, maybe)):
                    raise self._too_early(f"an operand of {node.kind}")
                found.update(dict.fromkeys(node.outputs, next(iter(taken))))
            elif not maybe.isdisjoint(v for v in node.inputs if isinstance(v, int)):
                guess = [(self.axis,) if isinstance(v, int) and v in maybe else None for v in node.inputs]
                if self._is_linear(node, guess, maybe):
                    maybe.update(node.outputs)
        return found

    def _is_linear(self, node: _Node, axes: Sequence[Axes | None], may_wait: set[int]) -> bool:
        """Whether a node whose operands wait, where `axes` is not `None`, may be applied before the sum is taken."""
        if node.kind in ("add", "add_any", "sub", "dynamic_update_slice"):
            both = list(zip(axes, node.inputs, strict=True))[:2]  # of an update, not where it goes
            return all(a is not None or self._is_zero(v) or (isinstance(v, int) and v in may_wait) for a, v in both)
        if node.kind in ("mul", "div"):
            waits = [i for i, a in enumerate(axes) if a is not None]
            if len(waits) != 1 or (node.kind == "div" and waits != [0]):
                return False
            other = node.eqn.invars[1 - waits[0]].aval
            return varying_of(other).isdisjoint(axes[waits[0]] or ())
        if node.kind == "convert_element_type":  # to integers it rounds
            kinds = [jnp.issubdtype(var.aval.dtype, jnp.inexact) for var in (*node.eqn.invars, *node.eqn.outvars)]  # type: ignore[attr-defined]
            return kinds[0] == kinds[1]
        return node.kind in _LINEAR

    def _too_early(self, what: str) -> SerialLoopError:
        return SerialLoopError(
            f"SerialLoop: a reduction or collective over {self.axis} is taken inside of lax.scan, and {what} needs it there, so "
            "in every iteration all steps would have to wait for it. Take it outside of the scan, or remove the SerialLoop from "
            "axis_resources."
        )


_LINEAR = frozenset("reshape transpose broadcast_in_dim squeeze expand_dims neg reduce_sum copy slice rev".split())


def _consts_and_carries(scan: JaxprEqn) -> tuple[int, int]:
    """How many operands of a scan are constants, and how many its carry; what is scanned over has an axis more than in the body.

    How a scan's parameters say it depends on the version of JAX.
    """
    jaxpr: ClosedJaxpr = scan.params["jaxpr"]

    def unscanned(operands: Sequence[Any], avals: Sequence[Any]) -> int:
        return sum(operand.aval.ndim == aval.ndim for operand, aval in zip(operands, avals, strict=True))

    carries = unscanned(scan.outvars, jaxpr.out_avals)
    return unscanned(scan.invars, jaxpr.in_avals) - carries, carries


def varying_of(aval: Any) -> frozenset[str]:
    """The mesh axes over which values of a type vary."""
    axes: frozenset[str] = aval.manual_axis_type.varying
    return axes


# --- the nodes in steps ---------------------------------------------------------------------------------------------


class _Stepper:
    """A body over one loop's axis, executed in steps."""

    def __init__(self, jaxpr: ClosedJaxpr, axis: str, steps: int, in_specs: Sequence[Spec], out_specs: Sequence[Spec]):
        self.axis, self.steps = axis, steps
        self.in_dims = [_dim_of(spec, axis) for spec in in_specs]
        self.out_dims = [_dim_of(spec, axis) for spec in out_specs]
        self.body = _Flattener(axis).body(jaxpr)
        self.varies = {value for value, dim in zip(self.body.inputs, self.in_dims, strict=True) if dim is not None}
        self.level: dict[int, int] = dict.fromkeys(self.body.inputs, 0)
        self.producer: dict[int, _Node] = {}
        self.needed = self._needed()
        for node in self.body.nodes:
            self._classify(node)

    def _needed(self) -> set[int]:
        """Values that the results, or side effects, depend on."""
        needed = {out for out in self.body.outputs if isinstance(out, int)}
        for node in reversed(self.body.nodes):
            if node.eqn.effects or not needed.isdisjoint(node.outputs):
                needed.update(v for v in node.inputs if isinstance(v, int))
        return needed

    def _classify(self, node: _Node) -> None:
        """Notes which results of a node differ from step to step, and in which pass they can be computed."""
        self.producer.update(dict.fromkeys(node.outputs, node))
        inputs = [v for v in node.inputs if isinstance(v, int)]
        level = max((self.level[v] for v in inputs), default=0)
        varies = any(v in self.varies for v in inputs)
        if node.kind in _CASTS:
            pass
        elif self.axis in node.axes and node.kind != "axis_index":
            node.collective = True
            self._check_collective(node)
            level += varies
            varies = node.kind in _SCATTERS
        else:
            varies = varies or self._asks_for_step(node)
        if varies and node.bodies:
            # Control flow gives some results that are the same in every step.
            constant = [
                i for i, var in enumerate(node.eqn.outvars) if self.axis not in varying_of(var.aval) and i not in node.waiting
            ]
            node.constant = dict.fromkeys((node.outputs[i] for i in constant), level)
        for output in node.outputs:
            if output in node.constant:
                self.level[output] = level + 1
                continue
            self.level[output] = level
            if varies:
                self.varies.add(output)

    def _asks_for_step(self, node: _Node) -> bool:
        if node.kind == "axis_index" and self.axis in node.axes:
            return True
        return any(self._asks_for_step(inner) for body in node.bodies for inner in body.nodes)

    def _check_collective(self, node: _Node) -> None:
        known = (*_SUMS, *_EXTREMA, *_GATHERS, *_SCATTERS, "late psum")
        if node.kind in known and (node.kind in (*_SUMS, *_EXTREMA, "late psum") or node.axes[-1] == self.axis):
            return
        raise SerialLoopError(
            f"SerialLoop: {node.kind} over {self.axis} moves values of "
            f"{', '.join(str(var.aval) for var in node.eqn.invars)} from step to step, which can not be done in steps. Gather "
            "the axis or rename it first, or remove the SerialLoop from axis_resources."
        )

    # --- one execution ---

    def run(self, *blocks: Any) -> list[Any]:
        """Blocks of all steps to results of all steps."""
        known: dict[int, Any] = {}
        sliced: dict[int, tuple[Any, int]] = {}
        for value, block, dim in zip(self.body.inputs, blocks, self.in_dims, strict=True):
            if dim is None:
                known[value] = block
            else:
                sliced[value] = (block, dim)
        outputs = [(i, v) for i, v in enumerate(self.body.outputs) if isinstance(v, int) and v in self.varies]
        results: dict[int, Any] = {}
        for level in range(max(self.level.values(), default=0) + 1):
            self._compute_constants(known, sliced)
            wanted = [(i, v) for i, v in outputs if self.level[v] == level]
            results |= self._pass(level, known, sliced, wanted)
        for i, (output, dim) in enumerate(zip(self.body.outputs, self.out_dims, strict=True)):
            if i in results:
                continue
            whole = known[output] if isinstance(output, int) else jnp.asarray(_constant(output))
            results[i] = whole if dim is None else lax.concatenate([whole] * self.steps, dim)
        return [results[i] for i in range(len(self.out_dims))]

    def _compute_constants(self, known: dict[int, Any], sliced: dict[int, tuple[Any, int]]) -> None:
        """Computes what is the same in all steps and depends on collectives of earlier passes only."""
        for node in self.body.nodes:
            if not self._is_needed(node) or any(output in known or output in sliced for output in node.outputs):
                continue
            inputs = [v for v in node.inputs if isinstance(v, int)]
            if any(v not in known for v in inputs) or self._asks_for_step(node):
                continue
            values = [known[v] if isinstance(v, int) else _constant(v) for v in node.inputs]
            if node.collective:
                self._finish(node, [self._as_if_summed(node, value) for value in values], known, sliced)
            else:
                known.update(zip(node.outputs, self._evaluate(node, values, None), strict=True))

    def _is_needed(self, node: _Node) -> bool:
        return bool(node.eqn.effects) or not self.needed.isdisjoint(node.outputs)

    def _pass(
        self, level: int, known: dict[int, Any], sliced: dict[int, tuple[Any, int]], wanted: Sequence[tuple[int, int]]
    ) -> dict[int, Any]:
        """Runs the loop once: for the collectives, the results and the side effects of this level."""
        needed = [node for node in self.body.nodes if self._is_needed(node)]
        collectives = [
            node
            for node in needed
            if node.collective
            and not any(v in known or v in sliced for v in node.outputs)
            and all(self.level[v] <= level for v in node.inputs if isinstance(v, int))
        ]
        constants = {v: node for node in needed for v, at in node.constant.items() if at == level and v in self.needed}
        effects = [node for node in needed if node.eqn.effects and self._level(node) == level and self._varies(node)]
        if not (collectives or constants or effects or wanted):
            return {}
        targets = {v for node in collectives for v in node.inputs if isinstance(v, int)} | {v for _, v in wanted}
        plan = self._plan(targets | set(constants), effects, known)
        summands = [v for node in collectives for v in node.inputs]

        def step(index: Any) -> tuple[list[Any], list[Any], list[Any]]:
            values = dict(known)
            for value, (block, dim) in sliced.items():
                chunk = block.shape[dim] // self.steps
                values[value] = lax.dynamic_slice_in_dim(block, index * chunk, chunk, dim)
            for node in plan:
                inputs = [values[v] if isinstance(v, int) else _constant(v) for v in node.inputs]
                values.update(zip(node.outputs, self._evaluate(node, inputs, index), strict=True))
            return (
                [values[v] if isinstance(v, int) else jnp.asarray(_constant(v)) for v in summands],
                [values[v] for v in constants],
                [values[v] for _, v in wanted],
            )

        folds = [_Fold.of(node, self.steps) for node in collectives for _ in node.inputs]
        joins = [_Fold("join", dim, self.steps) for dim in (self.out_dims[i] for i, _ in wanted)]
        folds += [_Fold("last", None, self.steps)] * len(constants) + joins
        index_type = jnp.zeros((), jnp.int32)
        shapes = jax.make_jaxpr(step)(index_type).out_avals
        if self.steps == 1:
            totals = [
                fold.add(fold.start(shape), value, index_type)
                for fold, shape, value in zip(folds, shapes, itertools.chain(*step(index_type)), strict=True)
            ]
        else:

            def iterate(carry: list[Any], index: Any) -> tuple[list[Any], None]:
                values = itertools.chain(*step(index))
                return [fold.add(c, value, index) for fold, c, value in zip(folds, carry, values, strict=True)], None

            start = [fold.start(shape) for fold, shape in zip(folds, shapes, strict=True)]
            totals, _ = lax.scan(iterate, start, jnp.arange(self.steps, dtype=jnp.int32))
        totals = [fold.end(total, shape) for fold, total, shape in zip(folds, totals, shapes, strict=True)]
        supply = iter(totals)
        for node in collectives:
            self._finish(node, [next(supply) for _ in node.inputs], known, sliced)
        known.update((v, next(supply)) for v in constants)
        return {i: next(supply) for i, _ in wanted}

    def _level(self, node: _Node) -> int:
        return max((self.level[v] for v in node.inputs if isinstance(v, int)), default=0)

    def _varies(self, node: _Node) -> bool:
        return self._asks_for_step(node) or any(v in self.varies for v in node.inputs if isinstance(v, int))

    def _plan(self, targets: set[int], effects: Sequence[_Node], known: Mapping[int, Any]) -> list[_Node]:
        """The nodes of one step that lead to the targets, in order."""
        kept = known.keys() - self._cheap()
        wanted = {v for v in targets if v not in kept}
        plan = []
        for node in reversed(self.body.nodes):
            if node.collective:  # its result is known, or cut from what is known
                continue
            chosen = any(node is effect for effect in effects)
            if chosen or (not wanted.isdisjoint(node.outputs) and not (node.eqn.effects and not node.outputs)):
                plan.append(node)
                wanted.update(v for v in node.inputs if isinstance(v, int) and v not in kept)
        return plan[::-1]

    def _cheap(self) -> set[int]:
        """Values that are made anew in every step: kept outside of the loop they would take memory, and time to read."""
        cheap: set[int] = set()
        for node in self.body.nodes:
            if node.kind in ("broadcast_in_dim", "iota") or (
                node.kind in _CASTS and any(isinstance(v, int) and v in cheap for v in node.inputs)
            ):
                cheap.update(node.outputs)
        return cheap

    # --- collectives ---

    def _as_if_summed(self, node: _Node, value: Any) -> Any:
        """What the loop would give for an operand that is the same in every step."""
        if node.kind in _EXTREMA:
            return value
        if node.kind in _GATHERS:
            dim = node.eqn.params["all_gather_dimension"]
            value = value if node.eqn.params["tiled"] else jnp.expand_dims(value, dim)
            return lax.concatenate([value] * self.steps, dim)
        return value * jnp.asarray(self.steps, value.dtype)

    def _finish(self, node: _Node, totals: Sequence[Any], known: dict[int, Any], sliced: dict[int, tuple[Any, int]]) -> None:
        """What is left of a collective when the loop has ended: that over mesh axes of devices."""
        others = tuple(axis for axis in node.axes if axis != self.axis)
        for output, total in zip(node.outputs, totals, strict=True):
            if others:
                total = cast_data(total, others)
            if node.kind in (*_SUMS, "late psum"):
                known[output] = lax.psum(total, others) if others else total
            elif node.kind in _EXTREMA:
                reduce: Any = lax.pmax if node.kind == "pmax" else lax.pmin
                known[output] = reduce(total, others) if others else total
            elif node.kind in _GATHERS:
                to: Any = "varying" if node.kind == "all_gather" else "invarying"
                dim = node.eqn.params["all_gather_dimension"]
                known[output] = comm.all_gather(total, dim, others, to) if others else total
            else:
                dim = node.eqn.params["scatter_dimension"]
                scattered = comm.psum_scatter(total, dim, others) if others else total
                if not node.eqn.params["tiled"]:
                    raise SerialLoopError(
                        f"SerialLoop: an untiled psum_scatter over {self.axis} can not be done in steps; use tiled=True, or a "
                        "name, as in nx.lax.psum_scatter."
                    )
                sliced[output] = (scattered, dim)

    # --- operations ---

    def _evaluate(self, node: _Node, values: Sequence[Any], index: Any) -> Sequence[Any]:
        """One operation, on the mesh that there is."""
        kind, params = node.kind, node.eqn.params
        if kind == "identity":
            return [cast_data(v, [a for a in node.waiting[0] if a != self.axis]) for v in values]
        if kind == "barrier":
            return list(lax.optimization_barrier(tuple(values)))
        if kind in _CASTS:
            axes = [axis for axis in node.axes if axis != self.axis]
            return [cast_data(value, axes) for value in values]
        if kind == "axis_index" and self.axis in node.axes:
            return [index]
        if kind == "scan":
            return self._scan(node, values, index)
        if kind == "while":
            first, second = params["cond_nconsts"], params["body_nconsts"]
            for_cond, for_body, start = values[:first], values[first : first + second], values[first + second :]
            condition, body = node.bodies
            last: list[Any] = lax.while_loop(
                lambda carry: self._call(condition, [*for_cond, *carry], index)[0],
                lambda carry: self._call(body, [*for_body, *carry], index),
                list(start),
            )
            return last
        if kind == "cond":
            branches = [lambda *operands, body=body: self._call(body, operands, index) for body in node.bodies]
            chosen: list[Any] = lax.switch(jnp.asarray(values[0], jnp.int32), branches, *values[1:])
            return chosen
        if kind == "sharding_constraint":
            sharding = _on_this_mesh(params["sharding"])
            return [values[0] if sharding is None else lax.with_sharding_constraint(values[0], sharding)]
        values = _alike(values)  # a sum that waits varies where the sum did not
        bound = {name: _on_this_mesh(value) for name, value in params.items()}
        result = node.eqn.primitive.bind(*values, **bound)
        return result if node.eqn.primitive.multiple_results else [result]

    def _call(self, body: _Body, inputs: Sequence[Any], index: Any) -> list[Any]:
        values = dict(zip(body.inputs, inputs, strict=True))
        for node in body.nodes:
            operands = [values[v] if isinstance(v, int) else _constant(v) for v in node.inputs]
            values.update(zip(node.outputs, self._evaluate(node, operands, index), strict=True))
        return [values[v] if isinstance(v, int) else jnp.asarray(_constant(v)) for v in body.outputs]

    def _scan(self, node: _Node, values: Sequence[Any], index: Any) -> Sequence[Any]:
        params, (body,) = node.eqn.params, node.bodies
        consts, carries = _consts_and_carries(node.eqn)
        start = list(values[consts : consts + carries])
        for i, axes in node.waiting.items():
            if i < carries:
                others = tuple(axis for axis in axes if axis != self.axis)
                first = (index == 0) & (comm.block_index(others) == 0) if others else index == 0
                start[i] = lax.select(*_alike([jnp.broadcast_to(first, start[i].shape), start[i], jnp.zeros_like(start[i])]))

        def iterate(carry: list[Any], xs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            results = self._call(body, [*values[:consts], *carry, *xs], index)
            return results[:carries], results[carries:]

        last, stacked = lax.scan(
            iterate,
            start,
            list(values[consts + carries :]),
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        return [*last, *stacked]


def _alike(values: Sequence[Any]) -> Sequence[Any]:
    """The values cast to one device variance."""
    variances = {varying(value) for value in values}
    if len(variances) < 2:
        return values
    union = frozenset[str]().union(*variances)
    return [cast_data(jnp.asarray(value), union) for value in values]


def _constant(literal: Literal) -> Any:
    """The value of a literal; what JAX keeps knows the mesh that it was traced on."""
    value, aval = literal.val, literal.aval
    return value if isinstance(value, jax.Array) else np.asarray(value, aval.dtype)  # type: ignore[attr-defined]


def _on_scalars(closed: ClosedJaxpr, *operands: Any) -> list[Any]:
    """Evaluates a jaxpr; `jaxpr_as_fun` would do it on the mesh that it was traced on."""
    values = dict(zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*closed.consts, *operands], strict=True))

    def read(var: Any) -> Any:
        return _constant(var) if isinstance(var, Literal) else values[var]

    for eqn in closed.jaxpr.eqns:
        bound = {name: _on_this_mesh(value) for name, value in eqn.params.items()}
        result = eqn.primitive.bind(*map(read, eqn.invars), **bound)
        values.update(zip(eqn.outvars, result if eqn.primitive.multiple_results else [result], strict=True))
    return [read(var) for var in closed.jaxpr.outvars]


def _on_this_mesh(value: Any) -> Any:
    """A parameter of an operation, without the mesh that it was traced on."""
    if isinstance(value, (Jaxpr, ClosedJaxpr)):  # how a scatter or a reduction combines two scalars
        closed = value if isinstance(value, ClosedJaxpr) else ClosedJaxpr(value, ())
        types = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in closed.in_avals]
        again = jax.make_jaxpr(functools.partial(_on_scalars, closed))(*types)
        return again if isinstance(value, ClosedJaxpr) else again.jaxpr
    if not isinstance(value, NamedSharding):
        return value
    if all(entry is None for entry in value.spec):
        return None
    return NamedSharding(jax.sharding.get_abstract_mesh(), value.spec)


@dataclasses.dataclass(frozen=True)
class _Fold:
    """How one value of every step becomes one of all."""

    kind: str
    dim: int | None
    steps: int
    expand: bool = False

    @classmethod
    def of(cls, node: _Node, steps: int) -> _Fold:
        if node.kind in _EXTREMA:
            return cls(node.kind, None, steps)
        if node.kind in _GATHERS:
            return cls("join", node.eqn.params["all_gather_dimension"], steps, not node.eqn.params["tiled"])
        return cls("sum", None, steps)

    def start(self, shape: Any) -> Any:
        dims, dtype = list(shape.shape), shape.dtype
        if self.kind == "join":
            assert self.dim is not None
            if self.expand:
                dims.insert(self.dim, 1)
            dims[self.dim] *= self.steps
            data = jnp.zeros(dims, dtype)
        elif self.kind in _EXTREMA:
            data = jnp.full(dims, _least(dtype) if self.kind == "pmax" else _greatest(dtype), dtype)
        else:
            data = jnp.zeros(dims, _wide(dtype) if self.kind == "sum" else dtype)
        return cast_data(data, varying_of(shape))

    def add(self, total: Any, value: Any, index: Any) -> Any:
        value = cast_data(value, varying(total))
        if self.kind == "sum":
            return total + value.astype(total.dtype)
        if self.kind in _EXTREMA:
            return _EXTREMA[self.kind](total, value)
        if self.kind == "last":
            return value
        assert self.dim is not None
        if self.expand:
            value = jnp.expand_dims(value, self.dim)
        return lax.dynamic_update_slice_in_dim(total, value, index * value.shape[self.dim], self.dim)

    def end(self, total: Any, shape: Any) -> Any:
        return total.astype(shape.dtype) if self.kind == "sum" else total


def _wide(dtype: Any) -> Any:
    """The type in which values are added up: of 16-bit floats, 32 bits."""
    return jnp.float32 if dtype in (jnp.bfloat16, jnp.float16) else dtype


def _least(dtype: Any) -> Any:
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else False if dtype == jnp.bool_ else jnp.iinfo(dtype).min


def _greatest(dtype: Any) -> Any:
    return jnp.inf if jnp.issubdtype(dtype, jnp.floating) else True if dtype == jnp.bool_ else jnp.iinfo(dtype).max
