"""The region of a call: sizes, resources and mesh, and the choice of the program (`lowering`).

A call may be inside the body of a surrounding mapped function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh

from namedax.core.functions import source_of
from namedax.core.memory_kinds import any_on_host, to_device
from namedax.core.names import Mesh, PyTree
from namedax.core.region import Region, ambient
from namedax.core.user_code import call_user_code
from namedax.errors import (
    AxisResourceError,
    MeshError,
    NamedaxError,
    SerialLoopError,
    show_names,
)
from namedax.programs.evaluator import SERIAL_STEPS
from namedax.programs.serial.stepping import virtual_mesh
from namedax.resources.assignment import Assignment, check_mesh_axes, dividing
from namedax.resources.mesh import has_explicit_axes, mesh_for, resolve_mesh
from namedax.resources.serial import loops_of, on_devices, with_loops
from namedax.resources.two_level import SlowAxes, slow_axes_on
from namedax.xmap.argument_blocks import enter_stored
from namedax.xmap.arguments import (
    Argument,
    attached_names,
    carried_names,
    collect_sizes,
    join_arguments,
    name_arguments,
)
from namedax.xmap.body import Body
from namedax.xmap.call import Call
from namedax.xmap.effects import AllAxes, MappedAxes, all_axes, axes_used, without_request
from namedax.xmap.lowering import run_auto, run_in_steps, run_manual, run_nested, run_unmapped
from namedax.xmap.options import Mapped, Partitioning

__all__ = ["run_call"]


def run_call(mapped: Mapped, *args: object, **kwargs: object) -> PyTree:
    """Run one call, traced or eager.

    A region is immutable, and the size of an uneven axis must be known when the body begins. If the
    body creates such an axis, the call begins again with its size.
    """
    found: dict[Hashable, int] = {}
    while True:
        try:
            return _run_once(mapped, found, args, kwargs)
        except NamedaxError as error:
            outer = ambient()
            if error.found_size is None:
                raise
            name, size = error.found_size
            # the surrounding mapped function shards the axis, and must know its size too
            if name in found or (outer is not None and name in outer.resources):
                raise
            found[name] = size
        except MappedAxes:
            if all_axes() is None:
                raise
            return without_request(functools.partial(run_call, mapped, *args, **kwargs))


def _run_once(
    mapped: Mapped, found: Mapping[Hashable, int], args: Any, kwargs: dict[str, Any]
) -> PyTree:
    """Name the arguments, create the region, lower the body; `found` are sizes from the body."""
    outer, options = ambient(), mapped._options
    arguments, tree = name_arguments(mapped, args, kwargs)
    # Operations of the body look for such arrays only after this has found one.
    has_host_arrays = any_on_host([argument.data for argument in arguments])
    if has_host_arrays and not options.jit:  # JAX rejects copies in an eager `jax.shard_map`
        for argument in arguments:
            argument.data = to_device(argument.data)
    sizes = {**found, **collect_sizes(arguments, options.axis_sizes, outer)}
    resources = with_loops(options.axis_resources)
    left_out = options.left_out | (frozenset() if outer is None else outer.left_out)
    if SERIAL_STEPS in left_out:
        resources = on_devices(resources)

    def function(named: list[Any]) -> PyTree:
        args_, kwargs_ = join_arguments(mapped, args, kwargs, jax.tree.unflatten(tree, named))
        return call_user_code(mapped._fun, *args_, **kwargs_)

    given = frozenset(found)
    if outer is not None:  # names that an inner mapped function attaches or sizes itself
        given = given.union(options.axis_sizes, attached_names(arguments))
    if outer is not None and outer.resources:
        return _run_within(mapped, function, arguments, outer, sizes, resources, left_out, given)
    devices = on_devices(resources)
    mesh, from_context = resolve_mesh(options.mesh) if devices else (None, False)
    check_mesh_axes(devices, mesh, names=sizes)
    if devices and not from_context:
        mesh = mesh_for(mesh, [argument.data for argument in arguments])
    auto = options.partitioning == "auto" or _is_empty(resources, sizes, arguments)
    if auto:
        # XLA's partitioner supports no loops, and aborts on uneven blocks.
        resources = dividing(devices, sizes, mesh)
    loops = loops_of(resources)
    traced_on = virtual_mesh(mesh, loops) if loops else mesh
    mode: Partitioning = "auto" if auto and resources else "manual"
    carried = frozenset[Hashable]() if outer is None else carried_names(outer, arguments)
    region = Region(
        sizes,
        resources,
        traced_on,
        mode,
        mapped._shared.program,
        options.overlap,
        left_out,
        _slow_axes(mapped, mesh),
        depth=1 if outer is None else outer.depth + 1,
        given=given,
    )
    _enter_stored(arguments, region if resources and not auto else None, mesh)
    unmapped = frozenset[str]()
    if devices and not auto and mesh is not None:
        unmapped = frozenset(mesh.axis_names) - axes_used(devices)
    body = _body(mapped, function, arguments, region, carried)
    call = _call(mapped, body, mesh, unmapped, all_axes())
    if not resources:
        result = run_unmapped(call)
    elif loops:
        result = run_in_steps(call, mesh, from_context)
    else:
        result = (run_auto if auto else run_manual)(call, mesh, from_context)
    if outer is not None:
        outer.seen.update(call.region.seen)
    return result


def _enter_stored(
    arguments: list[Argument], region: Region | None, mesh: Mesh | AbstractMesh | None
) -> None:
    """Take arguments that are stored padded as blocks where `region` pads them to the same size."""
    for argument in arguments:
        if argument.padding is not None:
            argument.data, argument.stored = enter_stored(
                argument.data, argument.dims, argument.padding, region, mesh
            )


def _body(
    mapped: Mapped,
    function: Callable[[list[Any]], Any],
    arguments: list[Argument],
    region: Region,
    carried: frozenset[Hashable],
) -> Body:
    """Return the body in a region, after checking that its blocks fit the sizes."""
    for name, size in region.sizes.items():
        if name in region.resources:
            region.block_size(name, size, "xmap", supports_padding=True)
    return Body(function, mapped._name, mapped._options, arguments, region, carried)


def _call(
    mapped: Mapped,
    body: Body,
    mesh: Mesh | None,
    unmapped: frozenset[str] = frozenset(),
    request: AllAxes | None = None,
) -> Call:
    given = mapped._options.mesh
    tracked = given is not None and has_explicit_axes(given)
    return Call(body, tracked, source_of(mapped._fun), mesh, unmapped, request)


def _slow_axes(mapped: Mapped, mesh: Mesh | AbstractMesh | None) -> SlowAxes:
    """Return the slow mesh axes of a call on this mesh."""
    options = mapped._options
    if mesh is None:
        return ()
    return tuple(slow_axes_on(options.slow_axes, mesh, options.mesh).items())


def _run_within(
    mapped: Mapped,
    function: Callable[[list[Any]], Any],
    arguments: list[Argument],
    outer: Region,
    sizes: dict[Hashable, int],
    resources: Assignment,
    left_out: frozenset[str],
    given: frozenset[Hashable],
) -> PyTree:
    """Run one call within the body of a mapped function that shards axes over a mesh."""
    new_axes = _check_nested(mapped._name, mapped._options.mesh, resources, outer)
    if new_axes and outer.mode == "global":
        raise AxisResourceError(
            f"xmap: {mapped._name} is called in a function that is mapped with"
            f" partitioning='global', and maps axes over the mesh axes {show_names(new_axes)},"
            " which that function does not map. Add these axes to axis_resources of the outer"
            " function."
        )
    region = Region(
        sizes,
        {**outer.resources, **resources},
        outer.mesh,
        outer.mode,
        mapped._shared.program,
        mapped._options.overlap or outer.overlap,
        left_out,
        _slow_axes(mapped, outer.mesh if new_axes else None) or outer.slow_axes,
        depth=outer.depth + 1,
        given=given,
    )
    body = _body(mapped, function, arguments, region, carried_names(outer, arguments))
    call = _call(mapped, body, None)
    if outer.mode != "manual":
        result = call.run(*call.datas)
    else:
        result = run_nested(call, outer, new_axes)
    outer.seen.update(region.seen)
    return result


def _is_empty(
    resources: Assignment, sizes: Mapping[Hashable, int], arguments: Sequence[Argument]
) -> bool:
    """Return True if a mapped axis or every argument is empty.

    XLA cannot compile a `jax.shard_map` with only empty operands.
    """
    if 0 in sizes.values() and any(sizes.get(name) == 0 for name in resources):
        return True
    return bool(arguments) and all(0 in np.shape(argument.data) for argument in arguments)


def _check_nested(
    function: str, mesh: Mesh | None, resources: Assignment, outer: Region
) -> frozenset[str]:
    """Check the options of an inner mapped function, and return the mesh axes that only it uses.

    Args:
      function: the inner function, for messages.
      mesh: the `mesh` argument of the inner function, or `None`.
      resources: the parsed `axis_resources` of the inner function.
      outer: the region of the surrounding mapped function.

    Raises:
      SerialLoopError: the inner function maps an axis to a loop, or to new mesh axes within a loop.
      MeshError: the mesh has other axes than the surrounding mesh, or the surrounding mesh lacks a
        mesh axis.
      AxisResourceError: the surrounding function maps an axis to other mesh axes, or uses some but
        not all mesh axes of an axis.
    """
    if loops_of(resources):
        raise SerialLoopError(
            f"xmap: {function} is called inside another mapped function, and axis_resources maps an"
            " axis to a loop. Put the SerialLoop into the axis_resources of the outermost xmap."
        )
    taken = frozenset(axis for axes in outer.resources.values() for axis in axes)
    new_axes = frozenset(axis for axes in resources.values() for axis in axes) - taken
    if new_axes and loops_of(outer.resources):
        name = next(name for name in resources if not new_axes.isdisjoint(resources[name]))
        raise SerialLoopError(
            f"xmap: {function} is called inside another mapped function, which is executed in steps"
            f" (of a SerialLoop or a pipeline), and maps {name!r} to mesh axes {resources[name]},"
            f" which that function does not use. Put {name!r} into the axis_resources of the"
            " outermost xmap."
        )
    if mesh is not None:
        for axis, size in mesh.shape.items():
            if outer.mesh.shape.get(axis) != size:
                raise MeshError(
                    f"xmap: {function} is called inside another mapped function, and its mesh has"
                    f" the axis {axis!r} of size {size}, which the surrounding mesh"
                    f" {dict(outer.mesh.shape)} does not have. Omit mesh=, or pass the outermost"
                    " xmap a mesh with all axes."
                )
    check_mesh_axes(resources, outer.mesh)
    for name, axes in resources.items():
        if outer.resources.get(name, axes) != axes:
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, but the surrounding mapped function"
                f" maps it to {outer.resources[name]}; an axis name has one sharding. Rename the"
                " axis, or remove it from axis_resources."
            )
    for name, axes in resources.items():
        if not new_axes.isdisjoint(axes) and not taken.isdisjoint(axes):
            raise AxisResourceError(
                f"xmap: {function} maps {name!r} to {axes}, but the surrounding mapped function"
                f" uses only {sorted(taken.intersection(axes))} of them, and not"
                f" {sorted(new_axes.intersection(axes))}. Use mesh axes of one kind, or map the"
                " axis in the outermost xmap."
            )
    return new_axes
