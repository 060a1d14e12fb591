"""The body of a call: the user's function on named arrays, as a function of local data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from namedax.core.array import NamedArray, dims_of, is_named, make_blocks, make_in_region
from namedax.core.axis_mappings import AxisMapping, is_mapping, parse_mapping
from namedax.core.display import type_text
from namedax.core.memory_kinds import host_seen, on_device, to_device
from namedax.core.names import Dims, Mesh, PyTree
from namedax.core.placement_marks import mark_names
from namedax.core.records import Record
from namedax.core.region import Region, enter, hidden_axes
from namedax.core.variance import cast_data, varying
from namedax.errors import AxisResourceError, NamedAxesLeftError, did_you_mean, show_names
from namedax.messages.jax_errors import explain_type_errors
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.shape.conversion import detach_names, map_with_mappings
from namedax.programs.raw_collective_check import explain_unbound_axes, reject_raw
from namedax.resources.assignment import partition_spec
from namedax.resources.mesh import enter_mesh
from namedax.resources.serial import stages_among
from namedax.xmap.argument_blocks import own_block, padded_result, result_block
from namedax.xmap.arguments import Argument
from namedax.xmap.global_bodies import run_partitioned
from namedax.xmap.options import XmapOptions

__all__ = ["Body"]


class _Result(Record):
    """The dims of one result in the body (with the names in `out_axes`), and as returned."""

    dims: Dims
    final: Dims
    stored: frozenset[Hashable] = frozenset()


class Body:
    """The body of one call.

    Args:
      function: the function, which takes the arguments as a list of (named) arrays.
      name: the name of the function, for messages.
      options: the options of `xmap`. All names in `axis_resources` and `axis_sizes` must occur in
        the program.
      arguments: the arrays.
      region: the region of the body.
      carried: axis names of a surrounding mapped function. Results may have them in addition to
        `out_axes`.
    """

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        name: str,
        options: XmapOptions,
        arguments: list[Argument],
        region: Region,
        carried: frozenset[Hashable],
    ):
        self.function, self.name, self.options = function, name, options
        self.arguments, self.region, self.carried = arguments, region, carried
        # Axes that enter and leave unsharded, because JAX has no arrays with uneven blocks. The
        # body slices and gathers them.
        self.unsharded: frozenset[Hashable] = frozenset()
        # The names that enter stored padded in an argument. Results leave stored padded along them.
        self.stored: frozenset[Hashable] = frozenset().union(*[a.stored for a in arguments])
        self.results: list[_Result] = []
        # The mesh axes of results, by their dims.
        self._result_axes: dict[Dims, frozenset[str]] = {}
        self._tree: Any = None
        self._check_arguments()
        mappings = jax.tree.leaves(options.out_axes, is_leaf=lambda m: m is None or is_mapping(m))
        self._mappings = [
            None if m is None else parse_mapping(m, "xmap, out_axes") for m in mappings
        ]
        for mapping in self._mappings:
            if mapping is not None:
                names = [name for _, name in mapping.names]
                region.check_placement(f"xmap, out_axes {mapping.text}", names)
                region.seen.update(names)

    def _check_arguments(self) -> None:
        """Record the axis names of the arguments, and check their placement.

        Each array has at most one of its names on a mesh axis.
        """
        checked = set[Dims]()
        for argument in self.arguments:
            if argument.dims not in checked:
                checked.add(argument.dims)
                names = [dim for dim in argument.dims if dim is not None]
                self.region.seen.update(names)
                remedy = "Map one of them to another mesh axis in axis_resources, or to none."
                self.region.check_placement(f"xmap, {argument.what}", names, remedy)

    @property
    def results_are_placed(self) -> bool:
        """Return True if every result is a plain array whose axes are all in `out_axes`."""
        return None not in self._mappings and not self.carried

    @property
    def is_global(self) -> bool:
        """Return True if the body is traced on global shapes, and then partitioned."""
        return self.options.partitioning == "global" and self.region.manual

    def run(self, *datas: jax.Array) -> PyTree:
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

    def run_flat(self, *datas: jax.Array) -> list[Any]:
        """Run the body, and return the data of all leaves as one list."""
        leaves, self._tree = jax.tree.flatten(self.run(*datas))
        return leaves

    def rebuild(self, flat: Sequence[Any], mesh: Mesh | None) -> PyTree:
        """Rebuild the results on `mesh`, named or not, from the data of their leaves."""
        leaves = [
            (
                padded_result(data, result.final, result.stored, self.region, mesh)
                if result.stored
                else make_in_region(data, result.final)
                if result.final.count(None) < len(result.final)
                else data
            )
            for data, result in zip(flat, self.results, strict=True)
        ]
        return jax.tree.unflatten(self._tree, leaves)

    # --- the function ---

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
            return [
                make_result(to_device(data) if dims.count(None) == len(dims) else data, dims)
                for data, dims in zip(datas, all_dims, strict=True)
            ]
        datas = self._blocks(datas)
        arrays = make_blocks(datas, all_dims, self.region)
        return [
            array if dims.count(None) < len(dims) else to_device(data)
            for array, data, dims in zip(arrays, datas, all_dims, strict=True)
        ]

    def _blocks(self, datas: Sequence[Any]) -> Sequence[Any]:
        """Return the blocks of the arguments; some enter unsharded."""
        if not self.unsharded:
            return datas
        return [
            own_block(data, argument.dims, argument.stored, self.unsharded, self.region)
            for data, argument in zip(datas, self.arguments, strict=True)
        ]

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

    # --- results ---

    def _finish(self, leaf: Any, mapping: AxisMapping | None, path: tuple[Any, ...]) -> jax.Array:
        """Convert a result to an array, and record its dims.

        The array varies exactly over the mesh axes of its named axes.
        """

        def what() -> str:
            return f"the result{jax.tree_util.keystr(path)}"

        if host_seen:
            leaf = on_device(leaf)
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
            if self.stored:
                same = [dim for dim, end in zip(dims, final, strict=True) if dim == end]
                stored = self.stored.intersection(same)
            data = result_block(data, dims, stored, self.unsharded, self.region)
        elif self.region.mode == "global":
            data = mark_names(data, dims, self.region)
        elif self.region.resources:
            sharding = NamedSharding(self.region.mesh, partition_spec(dims, self.region.resources))
            data = jax.lax.with_sharding_constraint(data, sharding)
        self.results.append(_Result(dims, final, stored))
        return data
