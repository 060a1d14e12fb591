"""Lowering of a body over named axes to a program on devices.

The program is one `jax.shard_map` (`run_manual`), or the same executed in the steps of a loop
(`run_in_steps`). Within a surrounding mapped function it extends that region (`run_nested`). For
XLA's partitioner it uses global arrays with sharding constraints (`run_auto`). `Call` traces the
body and converts its results to arrays.
"""

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
from namedax.core.names import Dims, Mesh, PyTree
from namedax.core.padded_sharding import StoredName, StoredPadding
from namedax.core.placement_marks import mark_names
from namedax.core.records import Record
from namedax.core.region import Region, enter, hidden_axes
from namedax.core.variance import cast_data, varying
from namedax.errors import AxisResourceError, NamedAxesLeftError, did_you_mean, show_names
from namedax.messages.jax_errors import explain_type_errors
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.shape.conversion import detach_names, map_with_mappings
from namedax.primitives.equations import call_whole
from namedax.programs.evaluator import LATE_SUMS, consts_to_inputs
from namedax.programs.postpone_psum import ClosesOver, Traced, postponing
from namedax.programs.raw_collective_check import (
    Dimensions,
    check_agreement,
    explain_unbound_axes,
    explain_values_from_around,
    reject_raw,
)
from namedax.programs.reduced_arguments import take_reduced
from namedax.programs.serial import stepping
from namedax.programs.two_level import mapped_in_two_levels
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
from namedax.resources.serial import LoopAxis, loops_of, on_devices, stages_among
from namedax.xmap.effects import AllAxes, check_calls
from namedax.xmap.global_bodies import run_partitioned
from namedax.xmap.options import XmapOptions
from namedax.xmap.padded_arguments import own_block, padded_result, stored_dims, zero_at_rest
from namedax.xmap.uneven_steps import UnevenSteps

__all__ = [
    "Argument",
    "Call",
    "describe_argument",
    "run_auto",
    "run_in_steps",
    "run_manual",
    "run_nested",
    "run_unmapped",
]


class Argument(Record, frozen=False):
    """One array among the arguments: its leaf, data, dims by the axis mapping, and path.

    The data is global. Within a surrounding mapped function, it is a block along the named axes of
    the leaf. `padding` is that of data that is stored padded. `stored` are the names along which
    the body takes the stored blocks; the other ones have been sliced to their true size.
    """

    leaf: Any
    data: Any
    dims: Dims
    path: tuple[Any, ...]
    names: tuple[str, ...]
    padding: StoredPadding | None = None
    stored: frozenset[Hashable] = frozenset()

    @property
    def what(self) -> str:
        """Describe the argument for messages."""
        return describe_argument(self.path, self.names)


def describe_argument(path: Sequence[Any], names: Sequence[str]) -> str:
    """Describe the argument at a path of `(args, kwargs)`; `names` are the parameters."""
    group, first, *rest = path
    label = (
        names[first.idx]
        if group.idx == 0 and first.idx < len(names)
        else getattr(first, "key", None)
    )
    return (
        f"argument {label!r}" if label is not None else f"argument {first.idx}"
    ) + jax.tree_util.keystr(tuple(rest))


def _check_arguments(arguments: Iterable[Argument], region: Region) -> None:
    """Record the axis names of the arguments, and check their placement.

    Each array has at most one of its names on a mesh axis.
    """
    checked = set[Dims]()
    for argument in arguments:
        if argument.dims not in checked:
            checked.add(argument.dims)
            names = [dim for dim in argument.dims if dim is not None]
            region.seen.update(names)
            remedy = "Map one of them to another mesh axis in axis_resources, or to none."
            region.check_placement(f"xmap, {argument.what}", names, remedy)


def run_manual(call: Call, mesh: Any, from_context: bool) -> PyTree:
    """Run the body under one `jax.shard_map`."""
    assert mesh is not None
    call.whole = call.region.uneven
    specs = call.specs(call.region.resources)
    datas, shard_map = _on_devices(call, mesh, from_context, call.region.resources)
    hoists = has_explicit_axes(mesh) or call.tracked
    # In a trace that only produces a jaxpr, the body itself raises `ClosesOver` for the values that
    # it closes over.
    reports_closure = hoists and bool(datas) and {*map(type, datas)} == {type_of_programs()}
    late = functools.partial(call.with_late_sums, reports_closure=reports_closure)
    run = _run_hoisted if hoists and not reports_closure else lambda mapped, datas: mapped(*datas)
    if call.results_are_placed:
        out_specs = call.result_specs()
        body: Callable[..., Any] = late(call.body)
    else:
        body, out_specs = call.noting_specs(late(call.flat_body))

    def rebuild(results: PyTree) -> PyTree:
        return results if call.results_are_placed else call.rebuild(results)

    given = [argument.data for argument in call.arguments]
    run_body, operands, operand_specs = take_reduced(
        body, given, datas, specs, _axes_of(call.region.resources), mesh
    )
    try:
        mapped = group_specs(shard_map, operand_specs)(call.within(run_body), out_specs=out_specs)
        return rebuild(run(mapped, operands))
    except ClosesOver as found:
        consts, again = [replicated(value) for value in found.values], found.body
    if not call.results_are_placed:
        out_specs[:] = call.probed_specs()

    def body_with_consts(*blocks: jax.Array) -> PyTree:
        return again(blocks[: len(consts)], blocks[len(consts) :])

    mapped = group_specs(shard_map, [PartitionSpec()] * len(consts) + list(specs))(
        call.within(body_with_consts), out_specs=out_specs
    )
    return rebuild(mapped(*consts, *datas))


def _on_devices(
    call: Call, mesh: Any, from_context: bool, resources: Assignment
) -> tuple[list[jax.Array], Callable[..., Any]]:
    """Return the data of the arguments, and `jax.shard_map` over the mesh axes of `resources`.

    On Explicit mesh axes, the data is sharded by `resources`.
    """
    used = _axes_of(resources)
    datas = [
        data if isinstance(data := argument.data, jax.core.Tracer) else jnp.asarray(data)
        for argument in call.arguments
    ]
    if has_explicit_axes(mesh):
        specs = call.specs(resources)
        datas = to_specs(datas, specs, None if from_context else mesh)
    is_partial = call.request is None and used != frozenset(mesh.axis_names)
    shard_map = functools.partial(
        jax.shard_map,
        mesh=None if from_context else mesh,
        axis_names=used if is_partial else frozenset(),
        check_vma=True,
    )
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
        placements = [() if dim is None else region.place(dim) for dim in dims]
        return [place if new_axes.isdisjoint(place) else () for place in placements]

    def in_outer(dims: Dims, of: Dims) -> list[tuple[str, ...]]:
        return [() if dim is None or dim not in of else outer.place(dim) for dim in dims]

    datas = [
        relayout(
            jnp.asarray(argument.data),
            in_outer(argument.dims, dims_of(argument.leaf)),
            on_old(argument.dims),
        )
        for argument in call.arguments
    ]
    if new_axes:
        assignment = {
            name: axes for name, axes in region.resources.items() if not new_axes.isdisjoint(axes)
        }
        call.whole = region.uneven.intersection(assignment)
        specs = call.specs(assignment)
        datas = to_specs(datas, specs, None)
        shard_map = functools.partial(
            jax.shard_map, in_specs=specs, axis_names=new_axes, check_vma=True
        )
        traced = call.traced()
        with explain_values_from_around(call.name):
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
        flat = call.within(call.flat_body)(*datas)
    results = [
        relayout(data, on_old(result.dims), in_outer(result.final, result.final))
        for data, result in zip(flat, call.results, strict=True)
    ]
    return call.rebuild(results)


def run_unmapped(call: Call) -> PyTree:
    """Run the body unchanged, if no axis has a resource."""
    datas = call.replicated_datas()
    with mesh_of_types(datas):
        return call.run(*datas)


def run_in_steps(call: Call, mesh: Mesh | None, from_context: bool) -> PyTree:
    """Run the body in the steps of its loops, on the mesh if there is one."""
    with mesh_of_types(
        [] if on_devices(call.region.resources) else [argument.data for argument in call.arguments]
    ):
        return _run_in_steps(call, mesh, from_context)


def _run_in_steps(call: Call, mesh: Mesh | None, from_context: bool) -> PyTree:
    resources = call.region.resources
    devices, loops = on_devices(resources), loops_of(resources)
    # Axes with short last steps enter and leave with padding, so that each step can take a full
    # block. Other uneven axes enter unsharded.
    short = frozenset(name for name in call.region.uneven if loops_of({name: resources[name]}))
    call.whole = call.region.uneven
    if devices:
        datas, shard_map = _on_devices(call, mesh, from_context, devices)
    else:
        datas, shard_map = call.replicated_datas(), None
    ends = UnevenSteps(call, short, shard_map)
    datas, call.whole = ends.padded(datas), call.region.uneven - short
    run = functools.partial(
        stepping.run_in_steps,
        datas=datas,
        in_specs=call.specs(resources),
        loops=loops,
        mesh=mesh,
        manual=_axes_of(devices) | (call.unmapped if call.request else frozenset()),
        shard_map=shard_map,
        postpones_sums=call.late_sums,
    )
    # The traced body is split and rewritten, so the scope encloses the execution.
    if call.results_are_placed:
        body = call.within(call.with_late_sums(call.body, loops), scoped=False)
        with call.scope():
            return ends.unpadded(run(body, out_specs=call.result_specs()))
    flat_body, out_specs = call.noting_specs(call.with_late_sums(call.flat_body, loops))
    with call.scope():
        flat = ends.unpadded(run(call.within(flat_body, scoped=False), out_specs=out_specs))
    return call.rebuild(flat)


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
    datas = [jnp.asarray(argument.data) for argument in call.arguments]
    if not has_explicit_axes(mesh):
        return call.run(*datas)
    # Within the body every mesh axis is Auto. `jax.sharding.auto_axes` requires the shardings of
    # the results in advance.
    region = call.region
    call.region = region.on_mesh(auto_mesh(mesh))
    with use_mesh(mesh, from_context):
        auto_axes = functools.partial(jax.sharding.auto_axes, axes=tuple(mesh.axis_names))
        datas = to_specs(datas, call.specs(region.resources), None if from_context else mesh)
        traced = Traced(call.flat_body, traces=call.region.state.closure.traced, source=call.source)
        jax.eval_shape(lambda *xs: auto_axes(traced.trace, out_sharding=())(*xs), *datas)
        # Pass closed-over values as arguments: if JAX casts them implicitly, their gradients have
        # the types of the body.
        mapped = auto_axes(
            call.within(traced.with_closure), out_sharding=explicit_specs(call.probed_specs(), mesh)
        )
        return call.rebuild(mapped(traced.closure, *datas))


# --- the body, and its results --------------------------------------------------------------------


class _Result(Record, frozen=False):
    """The dims of one result in the body (with the names in `out_axes`), and as returned."""

    dims: Dims
    final: Dims
    stored: frozenset[Hashable] = frozenset()


class Call:
    """One call during lowering: function, arguments, region, and variants of the body.

    Args:
      function: the function, which takes the arguments as a list of (named) arrays.
      name: the name of the function, for messages.
      options: the options of `xmap`. All names in `axis_resources` and `axis_sizes` must occur in
        the program.
      arguments: the arrays.
      region: the region of the body.
      program: a token for the program, for regions.
      tracked: True if the `mesh` argument of `xmap` has Explicit axes.
      source: the source location of the user's function.
      carried: axis names of a surrounding mapped function. Results may have them in addition to
        `out_axes`. Default: none.
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
        self.arguments, self.region, self.program = arguments, region, program
        self.tracked, self.carried, self.source = tracked, carried, source
        # Axes that enter and leave unsharded, because JAX has no arrays with uneven blocks. The
        # body slices and gathers them.
        self.whole: frozenset[Hashable] = frozenset()
        # The names that enter stored padded in an argument. Results leave stored padded along them.
        self.stored: frozenset[Hashable] = frozenset().union(*[a.stored for a in arguments])
        self.mesh: Mesh | None = None
        # The mesh axes that no axis is mapped to, and a request to map the body over them too.
        self.unmapped: frozenset[str] = frozenset()
        self.request: AllAxes | None = None
        self.results: list[_Result] = []
        # The mesh axes of results, by their dims.
        self._result_axes: dict[Dims, frozenset[str]] = {}
        self._tree: Any = None
        _check_arguments(arguments, region)
        mappings = jax.tree.leaves(options.out_axes, is_leaf=lambda m: m is None or is_mapping(m))
        self._mappings = [
            None if m is None else parse_mapping(m, "xmap, out_axes") for m in mappings
        ]
        for mapping in self._mappings:
            if mapping is not None:
                names = [name for _, name in mapping.names]
                region.check_placement(f"xmap, out_axes {mapping.text}", names)
                region.seen.update(names)

    def specs(self, resources: Assignment) -> tuple[PartitionSpec, ...]:
        """Return the partition specs of the arguments for parsed `axis_resources`."""
        return tuple(self._specs(self.argument_dims(), resources))

    def argument_dims(self) -> list[Dims]:
        """Return the dims of the arguments, with `StoredName` for axes that enter stored padded."""
        if not self.stored:
            return [argument.dims for argument in self.arguments]
        return [stored_dims(argument.dims, argument.stored) for argument in self.arguments]

    def result_dims(self) -> list[Dims]:
        """Return the dims of the results, with `StoredName` for axes that leave stored padded."""
        if not self.stored:
            return [result.dims for result in self.results]
        return [stored_dims(result.dims, result.stored) for result in self.results]

    def with_stored(self, resources: Assignment) -> Assignment:
        """Add the mesh axes of the names that are stored padded."""
        if not self.stored:
            return resources
        return {
            **resources,
            **{StoredName(name): resources[name] for name in self.stored if name in resources},
        }

    def _specs(self, all_dims: Iterable[Dims], resources: Assignment) -> list[PartitionSpec]:
        known: dict[Dims, PartitionSpec] = {}
        return [
            known[dims] if dims in known else known.setdefault(dims, self._spec(dims, resources))
            for dims in all_dims
        ]

    def _spec(self, dims: Dims | Sequence[Hashable | None], resources: Assignment) -> PartitionSpec:
        if self.stored:
            resources = self.with_stored(resources)
        return partition_spec([None if dim in self.whole else dim for dim in dims], resources)

    @property
    def results_are_placed(self) -> bool:
        """Return True if every result is a plain array whose axes are all in `out_axes`."""
        return None not in self._mappings and not self.carried

    def result_specs(self) -> PyTree:
        """Return a prefix tree of partition specs for results that `out_axes` determines."""

        def spec(mapping: object) -> PartitionSpec:
            names = parse_mapping(mapping, "xmap, out_axes").names
            dims: list[Hashable | None] = [None] * (max((i for i, _ in names), default=-1) + 1)
            for i, name in names:
                dims[i] = name
            return self._spec(dims, self.region.resources)

        return jax.tree.map(spec, self.options.out_axes, is_leaf=is_mapping)

    def _outputs(self, datas: Sequence[Any]) -> PyTree:
        """Run the function on named arrays of the given (local) data."""
        region = self.region
        if self.is_global:
            all_dims = [argument.dims for argument in self.arguments]
            blocks = self._blocks(datas)
            return run_partitioned(self._outputs_in, blocks, all_dims, region, self.name)
        named = self._named(datas)
        with explain_type_errors, explain_unbound_axes(self.name):
            outputs = self.function(named)
        leaves = jax.tree.leaves(outputs, is_leaf=is_named)
        for dims in {leaf._dims for leaf in leaves if type(leaf) is NamedArray}:
            region.seen.update(dim for dim in dims if dim is not None)
        self._check_names_used()
        return outputs

    @property
    def is_global(self) -> bool:
        """Return True if the body is traced on global shapes, and then partitioned."""
        return self.options.partitioning == "global" and self.region.manual

    def _outputs_in(self, region: Region, datas: Sequence[Any]) -> PyTree:
        """Run the function on named arrays of the given data in another region."""
        own, self.region = self.region, region
        try:
            return self._outputs(datas)
        finally:
            self.region = own

    def _named(self, datas: Sequence[Any]) -> list[Any]:
        """Return the arguments of the function as named arrays.

        `_check_arguments` has recorded their axis names.
        """
        all_dims = [argument.dims for argument in self.arguments]
        if self.region.mode != "manual":
            return [make_result(data, dims) for data, dims in zip(datas, all_dims, strict=True)]
        datas = self._blocks(datas)
        arrays = make_blocks(datas, all_dims, self.region)
        return [
            array if dims.count(None) < len(dims) else data
            for array, data, dims in zip(arrays, datas, all_dims, strict=True)
        ]

    def _blocks(self, datas: Sequence[Any]) -> Sequence[Any]:
        """Return the blocks of the arguments; some enter unsharded."""
        if not self.whole:
            return datas
        return [
            own_block(data, argument.dims, argument.stored, self.whole, self.region)
            for data, argument in zip(datas, self.arguments, strict=True)
        ]

    def _finish(self, leaf: Any, mapping: AxisMapping | None, path: tuple[Any, ...]) -> jax.Array:
        """Convert a result to an array, and record its dims.

        The array varies exactly over the mesh axes of its named axes.
        """

        def what() -> str:
            return f"the result{jax.tree_util.keystr(path)}"

        if mapping is None:
            leaf = to_local(leaf, "xmap, out_axes", self.region)
            data, dims = (
                (leaf._data, leaf._dims)
                if type(leaf) is NamedArray
                else (jnp.asarray(leaf), dims_of(leaf))
            )
            final = dims
        else:
            data, dims = detach_names(leaf, mapping, "xmap, out_axes", what, self.carried)
            placed = {name for _, name in mapping.names}
            final = tuple(None if dim in placed else dim for dim in dims)
        axes = self._result_axes.get(dims)
        if axes is None:
            names = [dim for dim in dims if dim is not None]
            self.region.check_placement(f"xmap, {what()}", names)
            axes = (
                frozenset(axis for name in names for axis in self.region.place(name))
                if self.region.manual
                else frozenset()
            )
            self._result_axes[dims] = axes
        stored = frozenset[Hashable]()
        if self.region.manual:
            varied = varying(data)
            if not varied <= axes and varied - axes - hidden_axes(self.region) - stages_among(
                self.region.resources.values()
            ):
                raise NamedAxesLeftError(
                    f"xmap: {what()}, {type_text(leaf)}, varies over the mesh axes"
                    f" {sorted(varied - axes)}, but none of its axes is sharded over them; it"
                    " contains a local block (x.data) of a named array. Return the named array."
                )
            if varied != axes:
                data = cast_data(data, axes)
            for i, dim in enumerate(dims):
                if dim in self.stored and final[i] == dim:
                    stored |= {dim}
                    data = zero_at_rest(data, i, dim, self.region)
                elif dim in self.whole:
                    data = comm.all_gather(data, i, self.region.place(dim), "invarying")
        elif self.region.mode == "global":
            data = mark_names(data, dims, self.region)
        elif self.region.resources:
            sharding = NamedSharding(self.region.mesh, partition_spec(dims, self.region.resources))
            data = jax.lax.with_sharding_constraint(data, sharding)
        self.results.append(_Result(dims, final, stored))
        return data

    def body(self, *datas: jax.Array) -> PyTree:
        """Compute the data of the results from local data of the arguments."""
        with enter(self.region):
            self.region.state.closure.begin(lambda value: enter_mesh(value, self.region.mesh))
            self.results, self._result_axes = [], {}
            outputs = self._outputs(datas)
            try:
                return map_with_mappings(
                    self._finish,
                    outputs,
                    self.options.out_axes,
                    "xmap, out_axes",
                    ("out_axes{}", "the result{}"),
                )
            except NamedAxesLeftError:
                if self.region.manual:  # the body may have used a reduction of JAX instead
                    closed = jax.make_jaxpr(lambda *datas: (self._outputs(datas), ())[1])(*datas)
                    reject_raw(closed, self.region.resources, self.name, reductions=False)
                raise

    def flat_body(self, *datas: jax.Array) -> list[Any]:
        """Run `body` and return the data of all leaves as one list."""
        leaves, self._tree = jax.tree.flatten(self.body(*datas))
        return leaves

    def probed_specs(self, resources: Assignment | None = None) -> list[PartitionSpec]:
        """Return the partition specs of all results. Requires a traced body."""
        resources = self.region.resources if resources is None else resources
        return self._specs(self.result_dims(), resources)

    def noting_specs(
        self, body: Callable[..., list[Any]]
    ) -> tuple[Callable[..., list[Any]], list[PartitionSpec]]:
        """Return the flat body, and a list for the partition specs of its results.

        Tracing the body determines the axes and fills the list. `jax.shard_map` reads it
        afterwards.
        """
        specs: list[PartitionSpec] = []

        def noted(*datas: jax.Array) -> list[Any]:
            results = body(*datas)
            specs[:] = self.probed_specs()
            return results

        return noted, specs

    def rebuild(self, flat: Sequence[Any]) -> PyTree:
        """Rebuild the results, named or not, from the data of their leaves."""
        leaves = [
            (
                padded_result(data, result.final, result.stored, self.region, self.mesh)
                if result.stored
                else make_in_region(data, result.final)
                if result.final.count(None) < len(result.final)
                else data
            )
            for data, result in zip(flat, self.results, strict=True)
        ]
        return jax.tree.unflatten(self._tree, leaves)

    def within(self, body: Callable[..., Any], scoped: bool = True) -> Callable[..., Any]:
        """Wrap `body` to run in the region, including its custom derivatives.

        With `scoped`, it also runs in the scope of the function.
        """

        def run(*datas: jax.Array) -> PyTree:
            with enter(self.region), self.scope() if scoped else contextlib.nullcontext():
                return body(*datas)

        return run

    def scope(self) -> Scope:
        """Return the scope of the function, with all mesh axes: `nx.xmap{batch:x+y,hidden:z}`."""
        places = self.region.resources.items()
        on_mesh = (
            (name, "+".join(axis for axis in axes if not isinstance(axis, LoopAxis)))
            for name, axes in places
        )
        return Scope(
            scope_text("xmap", tuple(Renaming(name, axes) for name, axes in on_mesh if axes)),
            holds=True,
        )

    @property
    def late_sums(self) -> bool:
        """Return True if psums over mesh axes are postponed."""
        return LATE_SUMS not in self.region.left_out

    def with_late_sums(
        self, body: Callable[..., Any], loops: Collection[str] = (), reports_closure: bool = False
    ) -> Callable[..., Any]:
        """Wrap `body` to be checked for raw collectives after tracing, with its psums postponed.

        With `reports_closure`, it raises `ClosesOver` for values that must be replicated.
        """
        options = (self.reject_raw, self.late_sums, self.region.state.closure.traced, self.source)
        return postponing(body, set(loops), *options, is_tracked if reports_closure else None)

    def traced(self, loops: Collection[str] = ()) -> Traced:
        """Return the flat body as a `Traced`, with the options of `with_late_sums`.

        It is traced before it is executed.
        """
        return Traced(
            self.flat_body,
            set(loops),
            self.reject_raw,
            self.late_sums,
            self.region.state.closure.traced,
            self.source,
        )

    def reject_raw(self, closed: ClosedJaxpr) -> None:
        """Reject a traced body with raw collectives or with reductions of blocks by JAX."""
        if self.is_global:  # JAX's functions took global values
            check_agreement(closed, self.name)
            check_calls(closed, self.name, self.unmapped, self.request)
            return
        resources = self.with_stored(self.region.resources)
        dims = self.argument_dims(), self.result_dims()
        mapped = self.region.resources
        if self.request is not None:  # collectives of JAX over the other axes are as wrong
            mapped = {**mapped, **{axis: (axis,) for axis in self.unmapped}}
        reject_raw(
            closed,
            mapped,
            self.name,
            dimensions=Dimensions(resources, self.whole, *dims),
        )
        check_agreement(closed, self.name)
        check_calls(closed, self.name, self.unmapped, self.request)

    def replicated_datas(self) -> list[Any]:
        """Return the data of the arguments, replicated over the Explicit axes in their types.

        No axis is sharded over them.
        """
        return [replicated(jnp.asarray(argument.data)) for argument in self.arguments]

    def run(self, *datas: jax.Array) -> PyTree:
        """Run the body unchanged on the data of the arguments, and return the results."""
        with self.scope():
            return self.rebuild(self.flat_body(*datas))

    def _check_names_used(self) -> None:
        """Check that every axis name in `axis_resources` and `axis_sizes` occurred in a value."""
        seen = self.region.seen
        sizes, resources = self.options.axis_sizes, self.options.axis_resources
        for option, name in (
            *(("axis_sizes", name) for name in sizes if name not in resources),
            *(("axis_resources", name) for name in resources if name not in sizes),
        ):
            if name not in seen:
                entry = (
                    f"gives {name!r} the size {sizes[name]}"
                    if name in sizes
                    else f"maps {name!r} to {resources[name]}"
                )
                raise AxisResourceError(
                    f"xmap: {option} {entry}, but no value in {self.name} has an axis {name!r}; the"
                    f" axes are {show_names(sorted(seen, key=str))}.{did_you_mean(name, seen)}"
                    f" Correct the name, or remove it from {option}."
                )
