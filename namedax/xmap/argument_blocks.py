"""Arguments and results that are not even blocks, in three cases.

An argument that is stored padded enters without communication along an axis that the mapped
function pads to the same size. Along other axes it is sliced to its true size first. Results are
stored padded along the axes along which an argument enters so.

If the steps of a loop do not divide an axis, padding is added before the steps, and removed after
them.

An argument may be reduced over Explicit mesh axes: `jax.P(reduced={"x"})` is the type of a weight
that is replicated over `x`, and whose gradient is unreduced there. Every device keeps its own
summand until the caller sums them. A body gets such an argument twice: replicated, and reduced. If
the traced body casts it to varying over these axes, it takes the reduced one, whose cast has a
transpose without communication. All other uses take the replicated one, whose gradient is summed.
The result therefore does not depend on how the body uses the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.array import NamedArray, make_padded, padding_of
from namedax.core.names import Dims, Mesh, MeshAxes, PyTree
from namedax.core.padded_sharding import StoredName, StoredPadding, block_size
from namedax.core.records import Record
from namedax.core.region import Region
from namedax.core.variance import cast_data
from namedax.programs.evaluator import consts_to_inputs
from namedax.programs.loop_casts import CastFinder, Variants, WithVariants
from namedax.resources import communication as comm
from namedax.resources.assignment import Assignment, partition_spec
from namedax.resources.communication import is_keys
from namedax.resources.mesh import entry_of, has_explicit_axes
from namedax.resources.padding import padded, unpadded
from namedax.resources.padding_masks import masked, refilled
from namedax.resources.serial import loops_of, on_devices
from namedax.resources.stored_padding import padding_on, sliced_to_size

__all__ = [
    "UnevenSteps",
    "enter_stored",
    "own_block",
    "padded_result",
    "result_block",
    "stored_dims",
    "take_reduced",
    "with_data",
]


# --- stored padded --------------------------------------------------------------------------------


def enter_stored(
    data: Any, dims: Dims, padding: StoredPadding, region: Region | None, mesh: Mesh | None
) -> Any:
    """Return the data of an argument, and the names along which it enters as stored blocks.

    Along the other names it is gathered on `mesh` and sliced to its true size. `region` is `None`
    if no axis is padded.
    """
    stored = frozenset(
        name
        for name, size, padded_to, _ in padding.axes
        if region is not None
        and name in region.uneven
        and region.sizes[name] == size
        and not loops_of({name: region.resources[name]})
        and padded_to == _padded_size(region, name)
    )
    true = padding.sizes
    sizes = {i: true[d] for i, d in enumerate(dims) if d in true and d not in stored}
    if sizes and mesh is not None and not has_explicit_axes(mesh):
        # XLA's partitioner would make uneven blocks of the slice, and abort over some uses.
        free = PartitionSpec.UNCONSTRAINED
        spec = PartitionSpec(*(None if i in sizes else free for i in range(len(dims))))
        data = lax.with_sharding_constraint(data, NamedSharding(mesh, spec))
    return sliced_to_size(data, sizes), stored


def _padded_size(region: Region, name: Hashable) -> int:
    blocks = region.mesh_axis_size(region.resources[name])
    return block_size(region.sizes[name], blocks) * blocks


def stored_dims(dims: Dims, stored: frozenset[Hashable]) -> Dims:
    """Return dims in which `StoredName` marks the axes that are stored padded."""
    if not stored:
        return dims
    return tuple(StoredName(dim) if dim in stored else dim for dim in dims)


def own_block(
    data: jax.Array,
    dims: Dims,
    stored: frozenset[Hashable],
    unsharded: frozenset[Hashable],
    region: Region,
) -> jax.Array:
    """Slice this device's block of an argument along the axes that entered `unsharded`.

    Along axes that are `stored` padded, the argument is the block already. Its padding, which may
    have any values, becomes the last element of the axis.
    """
    for i, dim in enumerate(dims):
        if dim in stored:
            data = refilled(data, i, region.place(dim))
        elif dim in unsharded:
            data = comm.cut(data, i, region.place(dim))
    return data


def result_block(
    data: jax.Array,
    dims: Dims,
    stored: frozenset[Hashable],
    unsharded: frozenset[Hashable],
    region: Region,
) -> jax.Array:
    """Gather this device's block of a result along the axes that leave `unsharded`.

    Along axes that leave `stored` padded, zero the padding; random keys have no zero.
    """
    for i, dim in enumerate(dims):
        if dim in stored:
            if not is_keys(data):
                data = masked(data, i, region.place(dim), jnp.zeros((), data.dtype))
        elif dim in unsharded:
            data = comm.all_gather(data, i, region.place(dim), "invarying")
    return data


def padded_result(
    data: Any,
    dims: Dims,
    stored: Iterable[Hashable],
    region: Region,
    mesh: Mesh | None,
) -> NamedArray:
    """Return a result that is stored padded along some names."""
    axes = tuple(
        (name, region.sizes[name], _padded_size(region, name), tuple(region.resources[name]))
        for name in dims
        if name in stored
    )
    return make_padded(data, dims, padding_on(mesh, axes))


def with_data(leaf: NamedArray, data: Any) -> NamedArray | None:
    """Return a leaf that is stored padded with other data; `None` for another leaf."""
    padding = padding_of(leaf)
    return None if padding is None else make_padded(data, leaf._dims, padding)


# --- steps of a loop ------------------------------------------------------------------------------


class UnevenSteps(Record):
    """Arguments and results along axes whose number of steps does not divide their size.

    Attributes:
      region: the region of the body.
      resources: the mesh axes of its names, also of those that are stored padded.
      short: the names of these axes.
      shard_map: `jax.shard_map` on the mesh, or `None` without a mesh. Each device slices its
        block, and the blocks are gathered.
    """

    region: Region
    resources: Assignment
    short: frozenset[Hashable]
    shard_map: Callable[..., Any] | None

    def padded(self, datas: Sequence[Any], all_dims: Sequence[Dims]) -> list[Any]:
        """Pad the data of the arguments, which is unsharded along these axes."""
        return self._each(list(datas), all_dims, self._pad, before=True)

    def unpadded(self, results: PyTree, all_dims: Sequence[Dims]) -> PyTree:
        """Remove the padding of the results."""
        leaves, tree = jax.tree.flatten(results)
        return jax.tree.unflatten(tree, self._each(leaves, all_dims, self._unpad, before=False))

    def _pad(self, data: jax.Array, dim: int, name: Hashable, axes: MeshAxes) -> jax.Array:
        data = padded(data, dim, _padded_size(self.region, name))
        return comm.cut(data, dim, axes) if axes else data

    def _unpad(self, data: jax.Array, dim: int, name: Hashable, axes: MeshAxes) -> jax.Array:
        data = comm.all_gather(data, dim, axes, "invarying") if axes else data
        return unpadded(data, dim, self.region.sizes[name])

    def _each(
        self,
        datas: list[Any],
        all_dims: Sequence[Dims],
        change: Callable[..., jax.Array],
        before: bool,
    ) -> list[Any]:
        uneven, devices = self.region.uneven, on_devices(self.region.resources)
        for i, dims in enumerate(all_dims):
            short = [
                (dim, name, devices.get(name, ()))
                for dim, name in enumerate(dims)
                if name in self.short
            ]
            if not short:
                continue

            def changed(
                data: jax.Array, short: list[tuple[int, Hashable, MeshAxes]] = short
            ) -> jax.Array:
                for axis in short:
                    data = change(data, *axis)
                return data

            if self.shard_map is not None:
                specs = [
                    partition_spec([None if n in names else n for n in dims], self.resources)
                    for names in (uneven, uneven - self.short)
                ]
                changed = self.shard_map(
                    changed, in_specs=(specs[not before],), out_specs=specs[before]
                )
            datas[i] = changed(datas[i])
        return datas


# --- reduced over Explicit axes -------------------------------------------------------------------


def take_reduced(
    body: Callable[..., PyTree],
    given: Sequence[jax.Array],
    datas: Sequence[jax.Array],
    specs: Sequence[PartitionSpec],
    used: Collection[str],
    mesh: Mesh,
) -> tuple[Callable[..., PyTree], Sequence[jax.Array], Sequence[PartitionSpec]]:
    """Take arguments that are reduced over mesh axes as such, too.

    Args:
      body: a function of blocks.
      given: the arguments as the caller passed them.
      datas: the same arguments, placed for the body.
      specs: their placement.
      used: the mesh axes of the body.
      mesh: the mesh.

    Returns:
      A body that takes more blocks, its arguments, and their specs; the inputs unchanged if no
      argument is reduced.
    """
    if not has_explicit_axes(mesh):
        return body, datas, specs
    if jax.__version_info__ < (0, 12) and set(used) != set(mesh.axis_names):
        return body, datas, specs  # JAX 0.10 takes reduced arguments over all axes of a mesh only
    wanted = {
        i: axes
        for i, (data, spec) in enumerate(zip(given, specs, strict=True))
        if (axes := _reduced_over(data, spec, used))
    }
    if not wanted:
        return body, datas, specs
    also = [
        PartitionSpec(
            *(entry_of(specs[i], dim) or None for dim in range(given[i].ndim)),
            reduced=set(wanted[i]),
        )
        for i in wanted
    ]
    placed = [
        jax.reshard(given[i], NamedSharding(mesh, spec))
        for i, spec in zip(wanted, also, strict=True)
    ]
    return _with_reduced(body, wanted), [*datas, *placed], [*specs, *also]


def _reduced_over(data: jax.Array, spec: PartitionSpec, used: Collection[str]) -> frozenset[str]:
    """Return the axes of the body over which an argument is reduced.

    The result is empty unless the argument can be differentiated and is replicated over all of
    them.
    """
    if not isinstance(data, jax.Array):
        return frozenset()
    sharding = jax.typeof(data).sharding
    reduced = (
        frozenset(sharding.spec.reduced) if isinstance(sharding, NamedSharding) else frozenset()
    )
    if not reduced or not jnp.issubdtype(data.dtype, jnp.inexact):
        return frozenset()
    sharded = {axis for dim in range(data.ndim) for axis in entry_of(spec, dim)}
    return reduced if reduced <= set(used) - sharded else frozenset()


def _with_reduced(
    body: Callable[..., PyTree], wanted: Mapping[int, frozenset[str]]
) -> Callable[..., PyTree]:
    """Wrap `body` to take the `wanted` arguments again at the end, reduced over their axes."""

    def run(*values: jax.Array) -> PyTree:
        datas, blocks = values[: -len(wanted)], values[-len(wanted) :]
        structures: list[jax.tree_util.PyTreeDef] = []

        def flat(*datas: jax.Array) -> list[jax.Array]:
            leaves, structure = jax.tree.flatten(body(*datas))
            structures.append(structure)
            return leaves

        closed = jax.make_jaxpr(flat)(*datas)
        jaxpr, count = consts_to_inputs(closed.jaxpr), len(closed.consts)
        finder = CastFinder([0] * len(wanted), 1)
        finder.visit(
            jaxpr,
            {jaxpr.invars[count + i]: frozenset({(k, frozenset())}) for k, i in enumerate(wanted)},
        )
        variants: list[Variants] = [{} for _ in jaxpr.invars]
        for k, over in finder.found:
            i, axes = list(wanted.items())[k]
            if axes <= over:
                variants[count + i][over] = cast_data(
                    lax.pcast(blocks[k], tuple(sorted(axes)), to="varying"), over
                )
        results, _ = WithVariants(
            jaxpr, [*closed.consts, *datas], variants, [False] * len(variants)
        ).run()
        return jax.tree.unflatten(structures[-1], results)

    return run
