"""Execution in steps: a program that was written for a mesh axis runs along that axis in steps.

A `SerialLoop` is a mesh axis without devices. The body of the mapped function is traced over a mesh
with this axis. All operations, their collectives and their derivatives are therefore the same as on
any mesh axis. This module then executes the traced jaxpr on the real mesh, one block along the
loop's axis after another.

Values that are the same in every step (parameters, and values computed from them alone) are
computed once, outside the loop. A collective over the loop's axis needs all steps before its result
can be used, so the jaxpr is split into passes. Each pass runs the loop once. It computes the values
that the pass needs, again if necessary, and accumulates the operands of the collectives (a sum, a
maximum, or the blocks themselves). The remaining part of a collective, over mesh axes of devices,
runs after the loop. A loss whose gradient is taken in the body, or outside of it, needs one pass; a
batch norm needs three.

The derivative of such a program is the derivative of the traced jaxpr, also executed in steps. No
residuals of a step are stored, so the memory of a step is that of one block. The gradient of a loss
is computed along with its value. A loop can be differentiated in reverse mode, any number of times.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from namedax.core.element_types import weak_as
from namedax.core.memory_kinds import type_like
from namedax.core.names import Mesh, PyTree
from namedax.core.records import Record
from namedax.errors import SerialLoopError
from namedax.primitives.equations import jaxprs_within, mapped_jaxpr
from namedax.primitives.recomputation import without_calls_of_python
from namedax.programs.postpone_psum import postponing
from namedax.programs.serial.plan import plan_steps
from namedax.programs.serial.steps import run
from namedax.resources.mesh import (
    auto_mesh,
    current_mesh,
    entry_of,
    replicated,
    to_specs,
    without_mesh,
)

__all__ = ["run_in_steps", "virtual_mesh"]


def virtual_mesh(mesh: Mesh | None, loops: Mapping[str, int]) -> AbstractMesh:
    """Return `mesh` (or an empty one) with an Auto axis for every loop."""
    sizes = {**(dict(mesh.shape) if mesh is not None else {}), **loops}
    kinds = (*(() if mesh is None else mesh.axis_types), *[AxisType.Auto] * len(loops))
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=kinds)


@contextlib.contextmanager
def _tracing_on(mesh: AbstractMesh) -> Iterator[None]:
    # Leave the current mesh first: JAX does not allow a switch between meshes of different sizes.
    with without_mesh(), jax.sharding.use_abstract_mesh(mesh):
        yield


def _trace(
    body: Callable[..., PyTree],
    datas: Sequence[Any],
    in_specs: Sequence[PartitionSpec],
    out_specs: PyTree,
    mesh: AbstractMesh,
    devices: Set[str],
    loops: Set[str],
) -> tuple[ClosedJaxpr, PyTree]:
    """Return the jaxpr of `body`, mapped over a mesh without devices, and its results' shapes."""
    mapped = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=tuple(in_specs),
        out_specs=out_specs,
        axis_names={*devices, *loops},
        check_vma=True,
    )
    types = [type_like(x, np.shape(x)) for x in datas]
    with _tracing_on(mesh):
        closed, shapes = jax.make_jaxpr(mapped, return_shape=True)(*types)
    return closed, shapes


def run_in_steps(
    body: Callable[..., PyTree],
    datas: Sequence[jax.Array],
    in_specs: Sequence[PartitionSpec],
    out_specs: PyTree,
    loops: Mapping[str, int],
    mesh: Mesh | None,
    manual: frozenset[str],
    shard_map: Callable[..., PyTree] | None,
    postpones_sums: bool = True,
) -> PyTree:
    """Run `jax.shard_map(body, ...)(*datas)` in steps on the real mesh.

    The specs are for a mesh with an axis for every loop.

    Args:
      body: takes and returns blocks.
      datas: global arrays.
      in_specs: the specs of the arrays, over the axes of the mesh and of the loops; a loop is the
        minor axis in its entry.
      out_specs: a prefix tree of specs for the results.
      loops: the number of steps of every loop.
      mesh: the mesh, or `None`.
      manual: the axes of the mesh over which the body is mapped.
      shard_map: `jax.shard_map` on the mesh, which takes specs; `None` if no axis of the mesh is
        mapped, and none is Explicit.
      postpones_sums: whether psums over mesh axes are postponed in the derivative; default: True.

    Raises:
      SerialLoopError: an operation of the body over a loop's axis cannot be executed in steps.
    """
    traced_on = auto_mesh(virtual_mesh(mesh, loops))
    closed, shapes = _trace(body, datas, in_specs, out_specs, traced_on, manual, set(loops))
    consts = [replicated(const) for const in closed.consts]
    (eqn,) = closed.jaxpr.eqns
    known = dict(
        zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*consts, *datas], strict=True)
    )
    jaxpr, block_in_specs, block_out_specs = mapped_jaxpr(eqn)
    traced_body = _TracedBody(
        ClosedJaxpr(jaxpr, ()),
        block_in_specs,
        block_out_specs,
        dict(loops),
        traced_on,
        manual,
        shard_map,
        postpones_sums,
    )
    flat = traced_body([var.val if isinstance(var, Literal) else known[var] for var in eqn.invars])
    results = dict(zip(eqn.outvars, flat, strict=True)) | known
    out = [var.val if isinstance(var, Literal) else results[var] for var in closed.jaxpr.outvars]
    return jax.tree.unflatten(jax.tree.structure(shapes), out)


class _TracedBody(Record):
    """A traced body, with the data to run it in steps; differentiable in reverse mode."""

    jaxpr: ClosedJaxpr
    in_specs: tuple[PartitionSpec, ...]
    out_specs: tuple[PartitionSpec, ...]
    loops: dict[str, int]
    traced_on: AbstractMesh
    manual: frozenset[str]
    shard_map: Callable[..., PyTree] | None
    postpones_sums: bool

    def __call__(self, datas: Sequence[jax.Array]) -> list[jax.Array]:
        floats = [
            i
            for i, aval in enumerate(self.jaxpr.in_avals)
            if jnp.issubdtype(aval.dtype, jnp.inexact)
        ]
        outs = [
            i
            for i, aval in enumerate(self.jaxpr.out_avals)
            if jnp.issubdtype(aval.dtype, jnp.inexact)
        ]
        # The gradient of a loss is computed along with its value, in one pass over the steps; the
        # cotangent only scales it.
        is_loss = (
            len(outs) == 1
            and self.jaxpr.out_avals[outs[0]].shape == ()
            and not _has_float16(self.jaxpr.jaxpr)
        )

        @jax.custom_vjp
        def run(*datas: jax.Array) -> list[jax.Array]:
            return self._execute(datas)

        def forward(*primals: Any) -> tuple[list[Any], Any]:
            values = [primal.value for primal in primals]
            wanted = [i for i in floats if primals[i].perturbed]
            # A static pytree structure.
            marks = tuple(() if i in wanted else None for i in range(len(primals)))
            if not is_loss:
                return self._execute(values), (marks, values, None)
            both = self._with_gradient(wanted, outs[0])(values)
            return both[: len(self.out_specs)], (marks, None, both[len(self.out_specs) :])

        def backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
            marks, values, gradient = residuals
            wanted = [i for i, mark in enumerate(marks) if mark is not None]
            live = [i for i in outs if not isinstance(cotangents[i], SymbolicZero)]
            grads: list[jax.Array] = []
            if live and gradient is not None:
                grads = [cotangents[live[0]].astype(grad.dtype) * grad for grad in gradient]
            elif live:
                grads = self._derivative(wanted, live)([*values, *(cotangents[i] for i in live)])
            supply = iter(grads)
            return tuple(next(supply) if live and i in wanted else None for i in range(len(marks)))

        run.defvjp(forward, backward, symbolic_zeros=True)
        return run(*datas)

    def _pullback(
        self,
        wanted: Sequence[int],
        outs: Sequence[int],
        blocks: Sequence[jax.Array],
        jaxpr: ClosedJaxpr,
    ) -> tuple[list[jax.Array], Callable[[list[jax.Array]], tuple[jax.Array, ...]]]:
        """Return the results of `jaxpr`, and a pullback from those in `outs` to some arguments."""
        function = jaxpr_as_fun(jaxpr)

        def part(*given: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
            filled = list(blocks)
            for i, value in zip(wanted, given, strict=True):
                filled[i] = value
            results = function(*filled)
            return [results[i] for i in outs], results

        _, pullback, results = jax.vjp(part, *(blocks[i] for i in wanted), has_aux=True)
        return results, pullback

    def _with_gradient(self, wanted: Sequence[int], loss: int) -> _TracedBody:
        """Return the body of all results, and of the gradient of one."""

        def body(*blocks: jax.Array) -> list[jax.Array]:
            results, pullback = self._pullback(wanted, [loss], blocks, self.jaxpr)
            return [*results, *pullback([jnp.ones_like(results[loss])])]

        return self._traced(
            body, (), tuple(self.out_specs) + tuple(self.in_specs[i] for i in wanted)
        )

    def _derivative(self, wanted: Sequence[int], outs: Sequence[int]) -> _TracedBody:
        """Return the vector-Jacobian product, a function of arguments and cotangents."""
        count = len(self.in_specs)
        again = ClosedJaxpr(without_calls_of_python(self.jaxpr.jaxpr), self.jaxpr.consts)

        def body(*blocks: jax.Array) -> list[jax.Array]:
            _, pullback = self._pullback(wanted, outs, blocks[:count], again)
            return list(pullback(list(blocks[count:])))

        return self._traced(body, outs, tuple(self.in_specs[i] for i in wanted))

    def _traced(
        self,
        body: Callable[..., PyTree],
        cotangents: Sequence[int],
        out_specs: tuple[PartitionSpec, ...],
    ) -> _TracedBody:
        """Trace a body of the arguments, and of cotangents of some results."""
        in_specs = self.in_specs + tuple(self.out_specs[i] for i in cotangents)
        avals = [*self.jaxpr.in_avals, *(self.jaxpr.out_avals[i] for i in cotangents)]
        body = postponing(body, set(self.loops), postpones=self.postpones_sums)
        jaxpr = self._trace_blocks(body, avals, in_specs, in_specs, out_specs, self.loops)
        return self.replace(jaxpr=jaxpr, in_specs=in_specs, out_specs=out_specs)

    def _trace_blocks(
        self,
        body: Callable[..., PyTree],
        blocks: Sequence[ShapedArray],
        block_specs: Sequence[PartitionSpec],
        in_specs: Sequence[PartitionSpec],
        out_specs: Sequence[PartitionSpec],
        loops: Mapping[str, int],
    ) -> ClosedJaxpr:
        """Trace `body` on a mesh with these loops only, from blocks on the mesh with all loops."""
        sizes = {axis: n for axis, n in self.traced_on.shape.items() if axis not in self.loops}
        types = [
            type_like(aval, _global_shape(aval.shape, spec, self.traced_on))
            for aval, spec in zip(blocks, block_specs, strict=True)
        ]
        mesh = virtual_mesh(None, {**sizes, **loops})
        closed, _ = _trace(
            lambda *xs: list(body(*xs)),
            types,
            in_specs,
            list(out_specs),
            mesh,
            self.manual,
            set(loops),
        )
        return _of_blocks(closed)

    def _execute(self, datas: Sequence[jax.Array]) -> list[jax.Array]:
        body, in_specs, out_specs = self._nest()
        if self.shard_map is None:
            results = body(*datas)
        else:
            if current_mesh() is not None:  # the user's cotangents may lack a sharding
                datas = to_specs(datas, in_specs, None)
            mapped = self.shard_map(
                lambda *blocks: list(body(*blocks)), in_specs=in_specs, out_specs=list(out_specs)
            )
            results = mapped(*datas)
        return list(map(weak_as, results, self.jaxpr.out_avals))

    def _nest(
        self,
    ) -> tuple[Callable[..., PyTree], tuple[PartitionSpec, ...], tuple[PartitionSpec, ...]]:
        """Return the body without the axes of loops, with the loops nested in a feasible order."""
        body = self.jaxpr, self.in_specs, self.out_specs
        # First try without control flow in lockstep, in which each iteration needs all steps.
        with contextlib.suppress(SerialLoopError):
            return self._nest_in(self.loops, False, *body)
        return self._nest_in(self.loops, True, *body)

    def _nest_in(
        self,
        loops: Mapping[str, int],
        lockstep: bool,
        jaxpr: ClosedJaxpr,
        in_specs: tuple[PartitionSpec, ...],
        out_specs: tuple[PartitionSpec, ...],
    ) -> tuple[Callable[..., PyTree], tuple[PartitionSpec, ...], tuple[PartitionSpec, ...]]:
        """Nest the remaining `loops`; the jaxpr is one step of those that are nested already."""
        last: SerialLoopError | None = None
        # A loop that cannot be the next one cannot be a later one either, when this jaxpr is within
        # the steps of others.
        plans = [
            plan_steps(jaxpr, axis, steps, in_specs, out_specs, lockstep)
            for axis, steps in loops.items()
        ]
        for axis, plan in zip(loops, plans, strict=True):  # innermost first
            in_steps = functools.partial(run, plan)
            remaining = {other: n for other, n in loops.items() if other != axis}
            inner_in_specs = tuple(_without(spec, axis) for spec in in_specs)
            inner_out_specs = tuple(_without(spec, axis) for spec in out_specs)
            if not remaining:
                return in_steps, inner_in_specs, inner_out_specs
            try:
                step = self._trace_blocks(
                    in_steps,
                    self.jaxpr.in_avals,
                    self.in_specs,
                    inner_in_specs,
                    inner_out_specs,
                    remaining,
                )
                return self._nest_in(remaining, lockstep, step, inner_in_specs, inner_out_specs)
            except SerialLoopError as error:
                last = error
        assert last is not None
        raise last


def _of_blocks(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr of blocks in a traced `jax.shard_map`, with closed-over arrays as consts."""
    (eqn,) = closed.jaxpr.eqns
    assert list(eqn.outvars) == list(closed.jaxpr.outvars)
    values = dict(zip(closed.jaxpr.constvars, map(replicated, closed.consts), strict=True))
    inner, _, _ = mapped_jaxpr(eqn)
    given = list(zip(inner.invars, eqn.invars, strict=True))
    arguments = {outer: var for var, outer in given if outer not in values}
    constants = [(var, values[outer]) for var, outer in given if outer in values]
    jaxpr = inner.replace(
        constvars=[*inner.constvars, *(var for var, _ in constants)],
        invars=[arguments[outer] for outer in closed.jaxpr.invars],
    )
    return ClosedJaxpr(jaxpr, [value for _, value in constants])


def _has_float16(jaxpr: Jaxpr) -> bool:
    """Return True if a jaxpr has float16 values, for which the cotangent's size matters."""
    values = itertools.chain(jaxpr.invars, (var for eqn in jaxpr.eqns for var in eqn.outvars))
    return any(getattr(var.aval, "dtype", None) == jnp.float16 for var in values) or any(
        map(_has_float16, jaxprs_within(jaxpr))
    )


def _without(spec: PartitionSpec, axis: str) -> PartitionSpec:
    entries = (tuple(a for a in entry_of(spec, dim) if a != axis) for dim in range(len(spec)))
    return PartitionSpec(
        *(None if not entry else entry[0] if len(entry) == 1 else entry for entry in entries)
    )


def _global_shape(shape: Sequence[int], spec: PartitionSpec, mesh: AbstractMesh) -> tuple[int, ...]:
    return tuple(
        n * math.prod(mesh.shape[axis] for axis in entry_of(spec, dim))
        for dim, n in enumerate(shape)
    )
