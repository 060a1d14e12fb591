"""Lowering: a body over names, with its arguments, becomes a program on hardware.

One `jax.shard_map` (`run_manual`), the same executed in steps along a loop (`run_in_steps`), the region of a surrounding
mapped function (`run_nested`), or global arrays with sharding constraints for XLA's partitioner (`run_auto`). Then the body
itself, and its results as arrays.
"""

# Long: one call of a mapped function, from its arguments to its program.

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.array import NamedArray, dims_of, is_named, make_blocks, make_in_region
from namedax.core.axis_mappings import AxisMapping, is_mapping, parse_mapping
from namedax.core.closure_capture import type_of_programs
from namedax.core.display import type_text
from namedax.core.functions import Source
from namedax.core.name_scopes import Renaming, Scope, scope_text
from namedax.core.names import Dims
from namedax.core.padded_sharding import block_of
from namedax.core.records import Record
from namedax.core.region import Region, enter, hidden_axes
from namedax.core.variance import cast_data, varying
from namedax.errors import AxisResourceError, NamedAxesLeftError, did_you_mean, show_names
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.nmap import explain_type_errors
from namedax.ops.shape.conversion import detach_names, map_with_mappings
from namedax.programs.evaluator import consts_to_inputs
from namedax.programs.passes import LATE_SUMS
from namedax.programs.postpone_psum import ClosesOver, Traced, postponing
from namedax.programs.primitives import call_whole
from namedax.programs.raw_collective_check import Dimensions, explain_unbound_axes, explain_values_from_around, refuse_raw
from namedax.programs.reduced_arguments import take_reduced
from namedax.programs.serial import stepping
from namedax.resources import communication as comm
from namedax.resources.assignment import Assignment, partition_spec
from namedax.resources.layout import relayout
from namedax.resources.mesh import (
    auto_mesh,
    enter_mesh,
    explicit_specs,
    group_specs,
    has_explicit_axes,
    is_tracked,
    mesh_of_types,
    replicated,
    to_specs,
    use_mesh,
)
from namedax.resources.microbatches import stages_among
from namedax.resources.padding import padded, unpadded
from namedax.resources.serial import LoopAxis, loops_of, on_devices
from namedax.xmap_options import XmapOptions

__all__ = [
    "Argument",
    "Call",
    "run_auto",
    "run_in_steps",
    "run_manual",
    "run_nested",
    "run_unmapped",
    "what_of",
]


class Argument(Record, frozen=False):
    """One array among the arguments: the leaf as it came, its data, the dims under its mapping, and where it stands.

    The data are global; within a surrounding mapped function they are the block of the names that the leaf had.
    """

    leaf: Any
    data: Any
    dims: Dims
    path: tuple[Any, ...]
    names: tuple[str, ...]

    @property
    def what(self) -> str:
        """What messages call it."""
        return what_of(self.path, self.names)


def what_of(path: Sequence[Any], names: Sequence[str]) -> str:
    """What messages call the argument at a path of `(args, kwargs)`, where the parameters have these names."""
    group, first, *rest = path
    label = names[first.idx] if group.idx == 0 and first.idx < len(names) else getattr(first, "key", None)
    return (f"argument {label!r}" if label is not None else f"argument {first.idx}") + jax.tree_util.keystr(tuple(rest))


def _check_arguments(arguments: Iterable[Argument], region: Region) -> None:
    """Notes the names of the arguments, and raises where two of one of them are on one mesh axis."""
    checked = set[Dims]()
    for argument in arguments:
        if argument.dims not in checked:
            checked.add(argument.dims)
            names = [dim for dim in argument.dims if dim is not None]
            region.seen.update(names)
            remedy = "Map one of them to another mesh axis in axis_resources, or to none."
            region.check_placement(f"xmap, {argument.what}", names, remedy)


def run_manual(call: Call, mesh: Any, from_context: bool) -> Any:
    """Runs the body under one `jax.shard_map`."""
    call.whole = call.region.uneven
    specs = call.specs(call.region.resources)
    datas, shard_map = _on_devices(call, mesh, from_context, call.region.resources)
    hoists = has_explicit_axes(mesh) or call.tracked
    # In a trace that only writes a program the body itself says that it closes over something.
    says = hoists and bool(datas) and {*map(type, datas)} == {type_of_programs()}
    late = functools.partial(call.with_late_sums, says=says)
    run = _run_hoisted if hoists and not says else lambda mapped, datas: mapped(*datas)
    if call.results_are_placed:
        out_specs = call.result_specs()
        body: Callable[..., Any] = late(call.body)
    else:
        body, out_specs = call.noting_specs(late(call.flat_body))

    def rebuild(results: Any) -> Any:
        return results if call.results_are_placed else call.rebuild(results)

    given = [argument.data for argument in call.arguments]
    own, also, with_also = take_reduced(body, given, datas, specs, _axes_of(call.region.resources), mesh)
    try:
        return rebuild(run(group_specs(shard_map, with_also)(call.within(own), out_specs=out_specs), also))
    except ClosesOver as found:
        consts, again = [replicated(value) for value in found.values], found.body
    if not call.results_are_placed:
        out_specs[:] = call.probed_specs()

    def opened_body(*blocks: Any) -> Any:
        return again(blocks[: len(consts)], blocks[len(consts) :])

    mapped = group_specs(shard_map, [PartitionSpec()] * len(consts) + list(specs))(
        call.within(opened_body), out_specs=out_specs
    )
    return rebuild(mapped(*consts, *datas))


def _on_devices(call: Call, mesh: Any, from_context: bool, resources: Assignment) -> tuple[list[Any], Callable[..., Any]]:
    """The data of the arguments where this assignment wants them, and `jax.shard_map` over the mesh axes that it uses."""
    used = _axes_of(resources)
    datas = [data if isinstance(data := argument.data, jax.core.Tracer) else jnp.asarray(data) for argument in call.arguments]
    if has_explicit_axes(mesh):
        specs = call.specs(resources)
        datas = to_specs(datas, specs, None if from_context else mesh)
    names = used if used != frozenset(mesh.axis_names) else frozenset()
    return datas, functools.partial(jax.shard_map, mesh=None if from_context else mesh, axis_names=names, check_vma=True)


def _axes_of(resources: Assignment) -> frozenset[str]:
    return frozenset(axis for axes in resources.values() for axis in axes)


def run_nested(call: Call, outer: Region, new_axes: frozenset[str]) -> Any:
    """Runs the body within that of a surrounding mapped function, which has taken some mesh axes already.

    Names on these axes are cut to their blocks, as by `nx.rename`. For `new_axes` there is another `jax.shard_map`.
    """
    region = call.region

    def on_old(dims: Dims) -> list[tuple[str, ...]]:
        """Where dims live in the region, but for the new axes."""
        placements = [() if dim is None else region.place(dim) for dim in dims]
        return [place if new_axes.isdisjoint(place) else () for place in placements]

    def in_outer(dims: Dims, of: Dims) -> list[tuple[str, ...]]:
        return [() if dim is None or dim not in of else outer.place(dim) for dim in dims]

    datas = [
        relayout(jnp.asarray(argument.data), in_outer(argument.dims, dims_of(argument.leaf)), on_old(argument.dims))
        for argument in call.arguments
    ]
    if new_axes:
        assignment = {name: axes for name, axes in region.resources.items() if not new_axes.isdisjoint(axes)}
        call.whole = region.uneven.intersection(assignment)
        specs = call.specs(assignment)
        datas = to_specs(datas, specs, None)
        shard_map = functools.partial(jax.shard_map, in_specs=specs, axis_names=new_axes, check_vma=True)
        traced = call.traced()
        with explain_values_from_around(call.name):
            jax.eval_shape(shard_map(traced.trace, out_specs=()), *datas)
        # Rematerialised in the gradient: what a nested shard_map would keep for it, and varies over outer axes too, JAX cannot
        # lower. What the body closes over goes in as arguments: JAX takes values whose types mention Explicit axes in no other
        # way.
        closure = [replicated(const) for const in traced.closure]
        shard_map = functools.partial(shard_map, in_specs=([PartitionSpec()] * len(closure), *specs))
        run = jax.checkpoint(call.within(traced.with_closure))
        flat = shard_map(run, out_specs=call.probed_specs(assignment))(closure, *datas)
    else:
        flat = call.within(call.flat_body)(*datas)
    results = [
        relayout(data, on_old(result.dims), in_outer(result.final, result.final))
        for data, result in zip(flat, call.results, strict=True)
    ]
    return call.rebuild(results)


def run_unmapped(call: Call) -> Any:
    """Runs the body as it is, where no name has a resource."""
    datas = call.replicated_datas()
    with mesh_of_types(datas):
        return call.run(*datas)


def run_in_steps(call: Call, mesh: Any, from_context: bool) -> Any:
    """Runs the body in the steps of its loops, on the mesh where there is one."""
    with mesh_of_types([] if on_devices(call.region.resources) else [argument.data for argument in call.arguments]):
        return _run_in_steps(call, mesh, from_context)


def _run_in_steps(call: Call, mesh: Any, from_context: bool) -> Any:
    resources = call.region.resources
    devices, loops = on_devices(resources), loops_of(resources)
    # Names of which the last steps are short come and leave with padding, so that each step takes what it needs; others come whole.
    short = frozenset(name for name in call.region.uneven if loops_of({name: resources[name]}))
    call.whole = call.region.uneven
    if devices:
        datas, shard_map = _on_devices(call, mesh, from_context, devices)
    else:
        datas, shard_map = call.replicated_datas(), None
    ends = _Ends(call, short, shard_map)
    datas, call.whole = ends.padded(datas), call.region.uneven - short
    run = functools.partial(
        stepping.run_in_steps,
        datas=datas,
        in_specs=call.specs(resources),
        loops=loops,
        mesh=mesh,
        manual=_axes_of(devices),
        shard_map=shard_map,
        late_sums=call.late_sums,
    )
    # The traced body is taken apart and put together anew, so the scope stands around the execution.
    if call.results_are_placed:
        body = call.within(call.with_late_sums(call.body, loops), says=False)
        with call.scope():
            return ends.unpadded(run(body, out_specs=call.result_specs()))
    flat_body, out_specs = call.noting_specs(call.with_late_sums(call.flat_body, loops))
    with call.scope():
        flat = ends.unpadded(run(call.within(flat_body, says=False), out_specs=out_specs))
    return call.rebuild(flat)


class _Ends(Record):
    """Arguments and results along names whose steps do not divide: padding is put on before the steps, and taken off after them.

    Attributes:
      call: the call.
      short: these names.
      shard_map: `jax.shard_map` on the mesh, where there is one: each device cuts its part, and the parts are put together.
    """

    call: Call
    short: frozenset[Hashable]
    shard_map: Callable[..., Any] | None

    def padded(self, datas: Sequence[Any]) -> list[Any]:
        """The data of the arguments, which are whole along these names."""
        dims = [argument.dims for argument in self.call.arguments]
        return self._each(list(datas), dims, self._pad, before=True)

    def unpadded(self, results: Any) -> Any:
        """The results as they are returned; the body has been traced."""
        leaves, tree = jax.tree.flatten(results)
        return jax.tree.unflatten(
            tree, self._each(leaves, [result.dims for result in self.call.results], self._unpad, before=False)
        )

    def _pad(self, data: Any, dim: int, name: Hashable, axes: tuple[str, ...]) -> Any:
        region = self.call.region
        blocks = region.mesh_axis_size(region.resources[name])
        data = padded(data, dim, block_of(region.sizes[name], blocks) * blocks)
        return comm.cut(data, dim, axes) if axes else data

    def _unpad(self, data: Any, dim: int, name: Hashable, axes: tuple[str, ...]) -> Any:
        data = comm.all_gather(data, dim, axes, "invarying") if axes else data
        return unpadded(data, dim, self.call.region.sizes[name])

    def _each(self, datas: list[Any], dims: Sequence[Dims], change: Callable[..., Any], before: bool) -> list[Any]:
        devices = on_devices(self.call.region.resources)
        for i, own in enumerate(dims):
            places = [(dim, name, devices.get(name, ())) for dim, name in enumerate(own) if name in self.short]
            if not places:
                continue

            def changed(data: Any, places: Any = places) -> Any:
                for place in places:
                    data = change(data, *place)
                return data

            if self.shard_map is not None:
                whole = [None if name in self.call.region.uneven else name for name in own]
                cut = [None if name in self.call.region.uneven - self.short else name for name in own]
                specs = [partition_spec(names, devices) for names in (whole, cut)]
                changed = self.shard_map(changed, in_specs=(specs[not before],), out_specs=specs[before])
            datas[i] = changed(datas[i])
        return datas


def _run_hoisted(mapped: Callable[..., Any], datas: Sequence[Any]) -> Any:
    """Runs `mapped` once what its body closes over has been replicated.

    `jax.shard_map` takes values from outside that are sharded over Explicit axes in no other way. Where there are none, the program
    that has been traced to see it is called as it is.
    """
    closed, shape = jax.make_jaxpr(lambda datas: mapped(*datas), return_shape=True)(datas)
    consts = [replicated(const) for const in closed.consts]
    if all(new is const for new, const in zip(consts, closed.consts, strict=True)):
        flat = call_whole(consts_to_inputs(closed.jaxpr), [*consts, *datas])
    else:
        flat = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*datas)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def run_auto(call: Call, mesh: Any, from_context: bool) -> Any:
    """Runs the body on global arrays, whose names tell XLA's partitioner where they live."""
    datas = [jnp.asarray(argument.data) for argument in call.arguments]
    if not has_explicit_axes(mesh):
        return call.run(*datas)
    # Within the body every axis is Auto; the results' shardings must be known before.
    region = call.region
    call.region = region.on_mesh(auto_mesh(mesh))
    with use_mesh(mesh, from_context):
        auto_axes = functools.partial(jax.sharding.auto_axes, axes=tuple(mesh.axis_names))
        datas = to_specs(datas, call.specs(region.resources), None if from_context else mesh)
        traced = Traced(call.flat_body, traces=call.region.state.closure.traced, source=call.source)
        jax.eval_shape(lambda *xs: auto_axes(traced.trace, out_sharding=())(*xs), *datas)
        # What the body closes over goes in as arguments: the gradient of what JAX casts by itself has the type of the body.
        mapped = auto_axes(call.within(traced.with_closure), out_sharding=explicit_specs(call.probed_specs(), mesh))
        return call.rebuild(mapped(traced.closure, *datas))


# --- the body, and its results --------------------------------------------------------------------------------------


class _Result(Record, frozen=False):
    """The dims of one result: in the body, with names that `out_axes` places, and as it is returned."""

    dims: Dims
    final: Dims


class Call:
    """One call while it is lowered: the function, its arguments, the region, and the forms of the body that lowerings need.

    Args:
      function: takes the arguments as a list of (named) arrays.
      name: of the function, for messages.
      options: those of `xmap`. All names in `axis_resources` and `axis_sizes` must occur.
      arguments: the arrays.
      region: the region of the body.
      program: a token for the program, for regions.
      tracked: whether the mesh that was given to `xmap` has Explicit axes.
      source: where the user has written the function.
      carried: names of a surrounding mapped function, which results may have though `out_axes` does not place them.
    """

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        name: str,
        options: XmapOptions,
        arguments: list[Argument],
        region: Region,
        program: Hashable,
        tracked: bool,
        source: Source | None,
        carried: frozenset[Hashable] = frozenset(),
    ):
        self.function, self.name, self.options = function, name, options
        self.arguments, self.region, self.program, self.tracked, self.carried = arguments, region, program, tracked, carried
        self.source = source
        # Names that come and leave whole, since JAX has no arrays of uneven blocks: the body cuts them, and puts them together.
        self.whole: frozenset[Hashable] = frozenset()
        self.results: list[_Result] = []
        self._result_axes: dict[Dims, frozenset[str]] = {}  # on which the names of results with these dims live
        self._tree: Any = None
        _check_arguments(arguments, region)
        mappings = jax.tree.leaves(options.out_axes, is_leaf=lambda m: m is None or is_mapping(m))
        self._mappings = [None if m is None else parse_mapping(m, "xmap, out_axes") for m in mappings]
        for mapping in self._mappings:
            if mapping is not None:
                names = [name for _, name in mapping.names]
                region.check_placement(f"xmap, out_axes {mapping.text}", names)
                region.seen.update(names)

    def specs(self, resources: Assignment) -> tuple[PartitionSpec, ...]:
        """The partition specs of the arguments under an assignment."""
        return tuple(self._specs([argument.dims for argument in self.arguments], resources))

    def _specs(self, all_dims: Iterable[Dims], resources: Assignment) -> list[PartitionSpec]:
        known: dict[Dims, PartitionSpec] = {}
        return [known[dims] if dims in known else known.setdefault(dims, self._spec(dims, resources)) for dims in all_dims]

    def _spec(self, dims: Dims | Sequence[Hashable | None], resources: Assignment) -> PartitionSpec:
        return partition_spec([None if dim in self.whole else dim for dim in dims], resources)

    @property
    def results_are_placed(self) -> bool:
        """Whether every result is a plain array whose axes `out_axes` says."""
        return None not in self._mappings and not self.carried

    def result_specs(self) -> Any:
        """A prefix tree of partition specs for the results, where `out_axes` says them all."""

        def spec(mapping: Any) -> PartitionSpec:
            names = parse_mapping(mapping, "xmap, out_axes").names
            dims: list[Hashable | None] = [None] * (max((i for i, _ in names), default=-1) + 1)
            for i, name in names:
                dims[i] = name
            return self._spec(dims, self.region.resources)

        return jax.tree.map(spec, self.options.out_axes, is_leaf=is_mapping)

    def _outputs(self, datas: Sequence[Any]) -> Any:
        """Runs the function on named arrays of these (local) data."""
        region = self.region
        named = self._named(datas)
        with explain_type_errors, explain_unbound_axes(self.name):
            outputs = self.function(named)
        leaves = jax.tree.leaves(outputs, is_leaf=is_named)
        for dims in {leaf._dims for leaf in leaves if type(leaf) is NamedArray}:
            region.seen.update(dim for dim in dims if dim is not None)
        self._check_names_used()
        return outputs

    def _named(self, datas: Sequence[Any]) -> list[Any]:
        """The arguments as the function takes them. Their names have been noted (`_check_arguments`)."""
        all_dims = [argument.dims for argument in self.arguments]
        if self.whole:
            datas = [self._cut(data, dims) for data, dims in zip(datas, all_dims, strict=True)]
        if self.region.mode == "auto":
            return [make_result(data, dims) for data, dims in zip(datas, all_dims, strict=True)]
        arrays = make_blocks(datas, all_dims, self.region)
        return [
            array if dims.count(None) < len(dims) else data for array, data, dims in zip(arrays, datas, all_dims, strict=True)
        ]

    def _cut(self, data: Any, dims: Dims) -> Any:
        """An argument with its own blocks of names that came whole."""
        for i, dim in enumerate(dims):
            if dim in self.whole:
                data = comm.cut(data, i, self.region.place(dim))
        return data

    def _finish(self, leaf: Any, mapping: AxisMapping | None, path: Any) -> Any:
        """A result as an array whose device variance is that of its names; notes its dims."""

        def what() -> str:
            return f"the result{jax.tree_util.keystr(path)}"

        if mapping is None:
            leaf = to_local(leaf, "xmap, out_axes", self.region)
            data, dims = (leaf._data, leaf._dims) if type(leaf) is NamedArray else (jnp.asarray(leaf), dims_of(leaf))
            final = dims
        else:
            data, dims = detach_names(leaf, mapping, "xmap, out_axes", what, self.carried)
            placed = {name for _, name in mapping.names}
            final = tuple(None if dim in placed else dim for dim in dims)
        axes = self._result_axes.get(dims)
        if axes is None:
            names = [dim for dim in dims if dim is not None]
            self.region.check_placement(f"xmap, {what()}", names)
            axes = frozenset(axis for name in names for axis in self.region.place(name)) if self.region.manual else frozenset()
            self._result_axes[dims] = axes
        if self.region.manual:
            varied = varying(data)
            if not varied <= axes and varied - axes - hidden_axes(self.region) - stages_among(self.region.resources.values()):
                raise NamedAxesLeftError(
                    f"xmap: {what()}, {type_text(leaf)}, differs from device to device along mesh axes "
                    f"{sorted(varied - axes)}, on which none of its names lives: a local block (x.data) has left its "
                    "array. Return the named array."
                )
            if varied != axes:
                data = cast_data(data, axes)
            for i, dim in enumerate(dims):
                if dim in self.whole:
                    data = comm.all_gather(data, i, self.region.place(dim), "invarying")
        elif self.region.resources:
            sharding = NamedSharding(self.region.mesh, partition_spec(dims, self.region.resources))
            data = jax.lax.with_sharding_constraint(data, sharding)
        self.results.append(_Result(dims, final))
        return data

    def body(self, *datas: Any) -> Any:
        """Local data of the arguments to data of the results."""
        with enter(self.region):
            self.region.state.closure.begin(lambda value: enter_mesh(value, self.region.mesh))
            self.results, self._result_axes = [], {}
            outputs = self._outputs(datas)
            try:
                return map_with_mappings(self._finish, outputs, self.options.out_axes, "xmap, out_axes")
            except NamedAxesLeftError:
                if self.region.manual:  # the reduction that is asked for may have been one of JAX
                    closed = jax.make_jaxpr(lambda *datas: (self._outputs(datas), ())[1])(*datas)
                    refuse_raw(closed, self.region.resources, self.name, reductions=False)
                raise

    def flat_body(self, *datas: Any) -> list[Any]:
        """Like `body`, with the data of all leaves as one list."""
        leaves, self._tree = jax.tree.flatten(self.body(*datas))
        return leaves

    def probed_specs(self, resources: Assignment | None = None) -> list[PartitionSpec]:
        """The partition specs of all results, when the body has been traced."""
        resources = self.region.resources if resources is None else resources
        return self._specs([result.dims for result in self.results], resources)

    def noting_specs(self, body: Callable[..., list[Any]]) -> tuple[Callable[..., list[Any]], list[PartitionSpec]]:
        """The flat body, and a list of the partition specs of its results.

        Their axes are known only when the body has been traced: it fills the list, which `jax.shard_map` reads afterwards.
        """
        specs: list[PartitionSpec] = []

        def noted(*datas: Any) -> list[Any]:
            results = body(*datas)
            specs[:] = self.probed_specs()
            return results

        return noted, specs

    def rebuild(self, flat: Sequence[Any]) -> Any:
        """The results, some of them named, from the data of their leaves."""
        leaves = [
            make_in_region(data, result.final) if result.final.count(None) < len(result.final) else data
            for data, result in zip(flat, self.results, strict=True)
        ]
        return jax.tree.unflatten(self._tree, leaves)

    def within(self, body: Callable[..., Any], says: bool = True) -> Callable[..., Any]:
        """`body` in the region, where custom derivatives that it has are taken, too; if it `says` so, in the scope of the function."""

        def run(*datas: Any) -> Any:
            with enter(self.region), self.scope() if says else contextlib.nullcontext():
                return body(*datas)

        return run

    def scope(self) -> Scope:
        """The scope of the function, which says on which mesh axes names live: `nx.xmap{batch:x+y,hidden:z}`."""
        places = self.region.resources.items()
        on_mesh = ((name, "+".join(axis for axis in axes if not isinstance(axis, LoopAxis))) for name, axes in places)
        return Scope(scope_text("xmap", tuple(Renaming(name, axes) for name, axes in on_mesh if axes)), holds=True)

    @property
    def late_sums(self) -> bool:
        """Whether sums over mesh axes are postponed."""
        return LATE_SUMS not in self.region.left_out

    def with_late_sums(self, body: Callable[..., Any], loops: Collection[str] = (), says: bool = False) -> Callable[..., Any]:
        """`body`, looked through when it has been traced, and its sums postponed; it `says` so if it closes over what has to be replicated."""
        options = (self.refuse_raw, self.late_sums, self.region.state.closure.traced, self.source)
        return postponing(body, set(loops), *options, is_tracked if says else None)

    def traced(self, loops: Collection[str] = ()) -> Traced:
        """The flat body, to be traced before it is executed; likewise."""
        return Traced(
            self.flat_body, set(loops), self.refuse_raw, self.late_sums, self.region.state.closure.traced, self.source
        )

    def refuse_raw(self, closed: ClosedJaxpr) -> None:
        """Raises where the traced body has raw collectives, or functions of JAX combine entries of blocks."""
        dims = [argument.dims for argument in self.arguments], [result.dims for result in self.results]
        refuse_raw(closed, self.region.resources, self.name, dimensions=Dimensions(self.region.resources, self.whole, *dims))

    def replicated_datas(self) -> list[Any]:
        """The data of the arguments, replicated over the Explicit axes in their types, on which no name lives."""
        return [replicated(jnp.asarray(argument.data)) for argument in self.arguments]

    def run(self, *datas: Any) -> Any:
        """Runs the body as it is: data of the arguments to results."""
        with self.scope():
            return self.rebuild(self.flat_body(*datas))

    def _check_names_used(self) -> None:
        """Raises for a name in `axis_resources` or `axis_sizes` that no value had."""
        seen = self.region.seen
        for name in self.options.axis_sizes:
            if name not in seen and name not in self.options.axis_resources:
                raise AxisResourceError(
                    f"xmap: axis_sizes gives {name!r} the size {self.options.axis_sizes[name]}, but no value in {self.name} has an axis "
                    f"{name!r}; the names are {show_names(sorted(seen, key=str))}.{did_you_mean(name, seen)} Correct the name, or remove the entry."
                )
        for name in self.options.axis_resources:
            if name not in seen and name not in self.options.axis_sizes:
                raise AxisResourceError(
                    f"xmap: axis_resources maps {name!r} to {self.options.axis_resources[name]}, but no value in {self.name} has an "
                    f"axis {name!r}; the names are {show_names(sorted(seen, key=str))}.{did_you_mean(name, seen)} "
                    "Correct the name, or remove the entry."
                )
