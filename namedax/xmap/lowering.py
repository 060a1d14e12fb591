"""Lowering of the body of a call to a program on devices.

The program is one `jax.shard_map` (`run_manual`), or the same executed in the steps of a loop
(`run_in_steps`). Within a surrounding mapped function it extends that region (`run_nested`). For
XLA's partitioner it uses global arrays with sharding constraints (`run_auto`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import PartitionSpec

from namedax.core.array import dims_of
from namedax.core.closure_capture import type_of_programs
from namedax.core.names import Dims, Mesh, PyTree
from namedax.core.region import Region
from namedax.primitives.equations import call_whole
from namedax.programs.evaluator import consts_to_inputs
from namedax.programs.postpone_psum import ClosesOver, Traced
from namedax.programs.raw_collective_check import explain_values_from_around
from namedax.programs.serial import stepping
from namedax.programs.two_level import mapped_in_two_levels
from namedax.resources.assignment import Assignment
from namedax.resources.layout import relayout
from namedax.resources.mesh import (
    auto_mesh,
    current_mesh,
    explicit_specs,
    group_specs,
    has_explicit_axes,
    mesh_of_types,
    replicated,
    to_specs,
    use_mesh,
    with_auto_axes,
)
from namedax.resources.serial import loops_of, on_devices
from namedax.xmap.argument_blocks import UnevenSteps, take_reduced
from namedax.xmap.call import Call

__all__ = ["run_auto", "run_in_steps", "run_manual", "run_nested", "run_unmapped"]


def run_manual(call: Call, mesh: Any, from_context: bool) -> PyTree:
    """Run the body under one `jax.shard_map`."""
    assert mesh is not None
    call.body.unsharded = call.region.uneven
    specs = call.specs(call.region.resources)
    datas, shard_map = _on_devices(
        call, mesh, from_context, call.region.resources, traced_first=call.body.is_global
    )
    hoists = has_explicit_axes(mesh) or call.tracked
    # In a trace that only produces a jaxpr, the body itself raises `ClosesOver` for the values that
    # it closes over.
    reports_closure = hoists and bool(datas) and {*map(type, datas)} == {type_of_programs()}
    postponed = functools.partial(call.with_postponed_sums, reports_closure=reports_closure)
    run = _run_hoisted if hoists and not reports_closure else lambda mapped, datas: mapped(*datas)
    if call.body.results_are_placed:
        out_specs = call.result_specs()
        body: Callable[..., Any] = postponed(call.body.run)
    else:
        body, out_specs = call.noting_specs(postponed(call.body.run_flat))

    def rebuild(results: PyTree) -> PyTree:
        return results if call.body.results_are_placed else call.rebuild(results)

    run_body, operands, operand_specs = take_reduced(
        body, call.datas, datas, specs, _axes_of(call.region.resources), mesh
    )
    try:
        mapped = group_specs(shard_map, operand_specs)(call.within(run_body), out_specs=out_specs)
        return rebuild(run(mapped, operands))
    except ClosesOver as found:
        consts, again = [replicated(value) for value in found.values], found.body
    if not call.body.results_are_placed:
        out_specs[:] = call.probed_specs()

    def body_with_consts(*blocks: jax.Array) -> PyTree:
        return again(blocks[: len(consts)], blocks[len(consts) :])

    mapped = group_specs(shard_map, [PartitionSpec()] * len(consts) + list(specs))(
        call.within(body_with_consts), out_specs=out_specs
    )
    return rebuild(mapped(*consts, *datas))


def _on_devices(
    call: Call, mesh: Any, from_context: bool, resources: Assignment, traced_first: bool
) -> tuple[list[jax.Array], Callable[..., Any]]:
    """Return the data of the arguments, and `jax.shard_map` over the mesh axes of `resources`.

    On Explicit mesh axes, the data is sharded by `resources`. With `traced_first`, the body is
    traced, and its equations are evaluated differently.
    """
    used = _axes_of(resources)
    datas = [
        data if isinstance(data, jax.core.Tracer) else jnp.asarray(data) for data in call.datas
    ]
    if has_explicit_axes(mesh):
        specs = call.specs(resources)
        datas = to_specs(datas, specs, None if from_context else mesh)
    is_partial = call.request is None and used != frozenset(mesh.axis_names)
    shard_map: Callable[..., Any] = functools.partial(
        jax.shard_map, axis_names=used if is_partial else frozenset(), check_vma=True
    )
    if is_partial and traced_first and has_explicit_axes(mesh):
        shard_map = with_auto_axes(shard_map, mesh, from_context, used)
    else:
        shard_map = functools.partial(shard_map, mesh=None if from_context else mesh)
    return datas, mapped_in_two_levels(shard_map, call.region.slow_axes)


def _axes_of(resources: Assignment) -> frozenset[str]:
    return frozenset(axis for axes in resources.values() for axis in axes)


def run_nested(call: Call, outer: Region, new_axes: frozenset[str]) -> PyTree:
    """Run the body within the body of a surrounding mapped function.

    That function already uses some mesh axes. Axes on these mesh axes are sliced to their blocks,
    as in `nx.rename`. A nested `jax.shard_map` maps over `new_axes`.
    """
    region = call.region
    # Over other mesh axes the values are equal already, if the outer body is mapped over all.
    new_axes -= frozenset(jax.sharding.get_abstract_mesh().manual_axes)

    def on_old(dims: Dims) -> list[tuple[str, ...]]:
        """Return the placements of dims in the region, without placements on the new axes."""
        placements = region.layout(dims)
        return [axes if new_axes.isdisjoint(axes) else () for axes in placements]

    def in_outer(dims: Dims, of: Dims) -> list[tuple[str, ...]]:
        return [() if dim is None or dim not in of else outer.place(dim) for dim in dims]

    datas = [
        relayout(
            jnp.asarray(argument.data),
            in_outer(argument.dims, dims_of(argument.leaf)),
            on_old(argument.dims),
        )
        for argument in call.body.arguments
    ]
    if new_axes:
        assignment = {
            name: axes for name, axes in region.resources.items() if not new_axes.isdisjoint(axes)
        }
        call.body.unsharded = region.uneven.intersection(assignment)
        specs = call.specs(assignment)
        datas = to_specs(datas, specs, None)
        shard_map = functools.partial(
            jax.shard_map, in_specs=specs, axis_names=_lowerable(new_axes), check_vma=True
        )
        traced = call.traced()
        with explain_values_from_around(call.body.name):
            jax.eval_shape(shard_map(traced.trace, out_specs=()), *datas)
        # Rematerialize in the gradient: JAX cannot lower residuals of a nested shard_map that also
        # vary over outer axes. Pass closed-over values as arguments: JAX accepts values whose types
        # mention Explicit axes in no other way.
        closure = [replicated(const) for const in traced.closure]
        shard_map = functools.partial(
            shard_map, in_specs=([PartitionSpec()] * len(closure), *specs)
        )
        run = jax.checkpoint(call.within(traced.with_closure))
        in_levels = mapped_in_two_levels(shard_map, region.slow_axes)
        flat = in_levels(run, out_specs=call.probed_specs(assignment))(closure, *datas)
    else:
        flat = call.within(call.body.run_flat)(*datas)
    results = [
        relayout(data, on_old(result.dims), in_outer(result.final, result.final))
        for data, result in zip(flat, call.body.results, strict=True)
    ]
    return call.rebuild(results)


def _lowerable(new_axes: frozenset[str]) -> frozenset[str]:
    """Return the mesh axes over which a nested `jax.shard_map` maps, `new_axes` or more.

    Since JAX 0.11, the process ends if a mesh axis is mapped within a later one of the mesh, unless
    all axes of the mesh are. So the remaining ones are mapped there, too, with equal blocks.
    """
    mesh = jax.sharding.get_abstract_mesh()
    order, outer = mesh.axis_names.index, mesh.manual_axes
    if max(map(order, outer), default=-1) < min(map(order, new_axes)):
        return new_axes
    return frozenset(mesh.axis_names).difference(outer)


def run_unmapped(call: Call) -> PyTree:
    """Run the body unchanged, if no axis has a resource."""
    datas = call.replicated_datas()
    with mesh_of_types(datas):
        return call.run(*datas)


def run_in_steps(call: Call, mesh: Mesh | None, from_context: bool) -> PyTree:
    """Run the body in the steps of its loops, on the mesh if there is one."""
    with mesh_of_types([] if on_devices(call.region.resources) else call.datas):
        return _run_in_steps(call, mesh, from_context)


def _run_in_steps(call: Call, mesh: Mesh | None, from_context: bool) -> PyTree:
    resources = call.region.resources
    devices, loops = on_devices(resources), loops_of(resources)
    # Axes with short last steps enter and leave with padding, so that each step can take a full
    # block. Other uneven axes enter unsharded.
    short = frozenset(name for name in call.region.uneven if loops_of({name: resources[name]}))
    call.body.unsharded = call.region.uneven
    if devices:
        datas, shard_map = _on_devices(call, mesh, from_context, devices, traced_first=True)
    else:
        datas, shard_map = call.replicated_datas(), None
    ends = UnevenSteps(call.region, call.with_stored(devices), short, shard_map)
    datas = ends.padded(datas, call.argument_dims())
    call.body.unsharded = call.region.uneven - short
    context = current_mesh()
    if shard_map is None and context is not None and has_explicit_axes(context):
        shard_map = with_auto_axes(_unmapped, context, from_context=True, mapped=())
    run = functools.partial(
        stepping.run_in_steps,
        datas=datas,
        in_specs=call.specs(resources),
        loops=loops,
        mesh=mesh,
        manual=_axes_of(devices) | (call.unmapped if call.request else frozenset()),
        shard_map=shard_map,
        postpones_sums=call.postpones_sums,
    )
    # The traced body is split and rewritten, so the scope encloses the execution.
    if call.body.results_are_placed:
        body = call.within(call.with_postponed_sums(call.body.run, loops), scoped=False)
        with call.scope():
            results = run(body, out_specs=call.result_specs())
            return ends.unpadded(results, call.result_dims())
    flat_body, out_specs = call.noting_specs(call.with_postponed_sums(call.body.run_flat, loops))
    with call.scope():
        flat = run(call.within(flat_body, scoped=False), out_specs=out_specs)
        flat = ends.unpadded(flat, call.result_dims())
    return call.rebuild(flat)


def _unmapped(body: Callable[..., PyTree], **_: object) -> Callable[..., PyTree]:
    """Return a body that is mapped over no mesh axes, in place of `jax.shard_map`."""
    return body


def _run_hoisted(mapped: Callable[..., Any], datas: Sequence[Any]) -> PyTree:
    """Run `mapped` with its closed-over values replicated.

    `jax.shard_map` accepts closed-over values that are sharded over Explicit axes in no other way.
    If there are none, run the traced program unchanged.
    """
    closed, shape = jax.make_jaxpr(lambda datas: mapped(*datas), return_shape=True)(datas)
    consts = [replicated(const) for const in closed.consts]
    if all(new is const for new, const in zip(consts, closed.consts, strict=True)):
        flat = call_whole(consts_to_inputs(closed.jaxpr), [*consts, *datas])
    else:
        flat = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*datas)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def run_auto(call: Call, mesh: Any, from_context: bool) -> PyTree:
    """Run the body on global arrays, with sharding constraints for XLA's partitioner."""
    datas = [jnp.asarray(data) for data in call.datas]
    if not has_explicit_axes(mesh):
        return call.run(*datas)
    # Within the body every mesh axis is Auto. `jax.sharding.auto_axes` requires the shardings of
    # the results in advance.
    region = call.region
    call.body.region = region.on_mesh(auto_mesh(mesh))
    with use_mesh(mesh, from_context):
        auto_axes = functools.partial(jax.sharding.auto_axes, axes=tuple(mesh.axis_names))
        datas = to_specs(datas, call.specs(region.resources), None if from_context else mesh)
        traced = Traced(call.body.run_flat, traces=call.traces, source=call.source)
        jax.eval_shape(lambda *xs: auto_axes(traced.trace, out_sharding=())(*xs), *datas)
        # Pass closed-over values as arguments: if JAX casts them implicitly, their gradients have
        # the types of the body.
        mapped = auto_axes(
            call.within(traced.with_closure), out_sharding=explicit_specs(call.probed_specs(), mesh)
        )
        return call.rebuild(mapped(traced.closure, *datas))
