"""One call during lowering: its body, and the specs of its arguments and results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr
from jax.sharding import PartitionSpec

from namedax.core.axis_mappings import is_mapping, parse_mapping
from namedax.core.closure_capture import Traces
from namedax.core.functions import Source
from namedax.core.name_scopes import Renaming, Scope, scope_text
from namedax.core.names import Dims, Mesh, PyTree
from namedax.core.padded_sharding import StoredName
from namedax.core.region import Region, enter
from namedax.programs.evaluator import LATE_SUMS
from namedax.programs.postpone_psum import Traced, postponing
from namedax.programs.raw_collective_check import Dimensions, check_agreement, reject_raw
from namedax.resources.assignment import Assignment, partition_spec
from namedax.resources.mesh import is_tracked, replicated
from namedax.resources.serial import LoopAxis
from namedax.xmap.argument_blocks import stored_dims
from namedax.xmap.body import Body
from namedax.xmap.effects import AllAxes, check_calls

__all__ = ["Call"]


class Call:
    """One call during lowering.

    Args:
      body: the body.
      tracked: True if the `mesh` argument of `xmap` has Explicit axes.
      source: the source location of the user's function.
      mesh: the mesh, or `None`.
      unmapped: the mesh axes that no axis is mapped to.
      request: a request to map the body over them too, or `None`.
    """

    def __init__(
        self,
        body: Body,
        tracked: bool,
        source: Source | None,
        mesh: Mesh | None,
        unmapped: frozenset[str],
        request: AllAxes | None,
    ):
        self.body, self.tracked, self.source = body, tracked, source
        self.mesh, self.unmapped, self.request = mesh, unmapped, request

    @property
    def region(self) -> Region:
        """The region of the body."""
        return self.body.region

    @property
    def traces(self) -> Traces:
        """The function that traces the body."""
        return self.region.state.closure.traced

    @property
    def datas(self) -> list[Any]:
        """The data of the arguments."""
        return [argument.data for argument in self.body.arguments]

    # --- specs ---

    def specs(self, resources: Assignment) -> tuple[PartitionSpec, ...]:
        """Return the partition specs of the arguments for parsed `axis_resources`."""
        return tuple(self._specs(self.argument_dims(), resources))

    def argument_dims(self) -> list[Dims]:
        """Return the dims of the arguments, with `StoredName` for axes that enter stored padded."""
        if not self.body.stored:
            return [argument.dims for argument in self.body.arguments]
        return [stored_dims(argument.dims, argument.stored) for argument in self.body.arguments]

    def result_dims(self) -> list[Dims]:
        """Return the dims of the results, with `StoredName` for axes that leave stored padded."""
        if not self.body.stored:
            return [result.dims for result in self.body.results]
        return [stored_dims(result.dims, result.stored) for result in self.body.results]

    def with_stored(self, resources: Assignment) -> Assignment:
        """Add the mesh axes of the names that are stored padded."""
        if not self.body.stored:
            return resources
        return {
            **resources,
            **{StoredName(name): resources[name] for name in self.body.stored if name in resources},
        }

    def _specs(self, all_dims: Iterable[Dims], resources: Assignment) -> list[PartitionSpec]:
        known: dict[Dims, PartitionSpec] = {}
        return [
            known[dims] if dims in known else known.setdefault(dims, self._spec(dims, resources))
            for dims in all_dims
        ]

    def _spec(self, dims: Dims | Sequence[Hashable | None], resources: Assignment) -> PartitionSpec:
        if self.body.stored:
            resources = self.with_stored(resources)
        return partition_spec(
            [None if dim in self.body.unsharded else dim for dim in dims], resources
        )

    def result_specs(self) -> PyTree:
        """Return a prefix tree of partition specs for results that `out_axes` determines."""

        def spec(mapping: object) -> PartitionSpec:
            names = parse_mapping(mapping, "xmap, out_axes").names
            dims: list[Hashable | None] = [None] * (max((i for i, _ in names), default=-1) + 1)
            for i, name in names:
                dims[i] = name
            return self._spec(dims, self.region.resources)

        return jax.tree.map(spec, self.body.options.out_axes, is_leaf=is_mapping)

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

    # --- the body ---

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
        resources = self.region.resources.items()
        on_mesh = (
            (name, "+".join(axis for axis in axes if not isinstance(axis, LoopAxis)))
            for name, axes in resources
        )
        return Scope(
            scope_text("xmap", tuple(Renaming(name, axes) for name, axes in on_mesh if axes)),
            holds=True,
        )

    @property
    def postpones_sums(self) -> bool:
        """Return True if psums over mesh axes are postponed."""
        return LATE_SUMS not in self.region.left_out

    def with_postponed_sums(
        self, body: Callable[..., Any], loops: Collection[str] = (), reports_closure: bool = False
    ) -> Callable[..., Any]:
        """Wrap `body` to be checked for raw collectives after tracing, with its psums postponed.

        With `reports_closure`, it raises `ClosesOver` for values that must be replicated.
        """
        must_enter = is_tracked if reports_closure else None
        return postponing(body, set(loops), *self._options(), must_enter)

    def traced(self, loops: Collection[str] = ()) -> Traced:
        """Return the flat body as a `Traced`, with the options of `with_postponed_sums`.

        It is traced before it is executed.
        """
        return Traced(self.body.run_flat, set(loops), *self._options())

    def _options(self) -> tuple[Callable[[ClosedJaxpr], None], bool, Traces, Source | None]:
        return self.reject_raw, self.postpones_sums, self.traces, self.source

    def reject_raw(self, closed: ClosedJaxpr) -> None:
        """Reject a traced body with raw collectives or with reductions of blocks by JAX."""
        if not self.body.is_global:  # JAX's functions would take global values
            mapped = self.region.resources
            dimensions = Dimensions(
                self.with_stored(mapped),
                self.body.unsharded,
                self.argument_dims(),
                self.result_dims(),
            )
            if self.request is not None:  # collectives of JAX over the other axes are as wrong
                mapped = {**mapped, **{axis: (axis,) for axis in self.unmapped}}
            reject_raw(closed, mapped, self.body.name, dimensions=dimensions)
        check_agreement(closed, self.body.name)
        check_calls(closed, self.body.name, self.unmapped, self.request)

    def replicated_datas(self) -> list[Any]:
        """Return the data of the arguments, replicated over the Explicit axes in their types.

        No axis is sharded over them.
        """
        return [replicated(jnp.asarray(data)) for data in self.datas]

    def run(self, *datas: jax.Array) -> PyTree:
        """Run the body unchanged on the data of the arguments, and return the results."""
        with self.scope():
            return self.rebuild(self.body.run_flat(*datas))

    def rebuild(self, flat: Sequence[Any]) -> PyTree:
        """Rebuild the results, named or not, from the data of their leaves."""
        return self.body.rebuild(flat, self.mesh)
