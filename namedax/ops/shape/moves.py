"""Execution of a parsed rearrangement on blocks.

Every axis of the array is a product of *elementary* axes, and so is every axis of the result. The
array is split into its elementary axes. Then the missing ones are reduced, new ones are broadcast,
and the others are merged again.

On a mesh the first step is to find the sharding of each elementary axis. A row-major split keeps
the shards: the major elementary axes take the mesh axes of the product, as many as each can divide
over. The axes of the result define the target shardings in the same way, and one `relayout` of
elementary axes converts the one to the other. If both agree, there is no communication.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, make, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, MeshAxes, check_dims
from namedax.core.padded_sharding import plain
from namedax.core.records import Record
from namedax.core.region import Region, ambient, enter
from namedax.core.variance import cast_data
from namedax.errors import AxisSizeError, RearrangeError, show_names
from namedax.ops.operands.broadcasting import constrain_sharding, to_local
from namedax.ops.operands.one_axis import finish
from namedax.ops.operands.pytree import data_of, names_of
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.patterns import Term
from namedax.resources import communication as comm
from namedax.resources.layout import relayout
from namedax.resources.mesh import entry_of, is_tracked, replicated

__all__ = ["Carried", "execute"]


def _factor(
    placement: MeshAxes, sizes: Sequence[int], devices: Callable[[str], int]
) -> tuple[list[MeshAxes], MeshAxes]:
    """Distribute the mesh axes of a row-major product over its axes.

    Return them per axis, and the mesh axes that fit none.
    """
    rest = list(sizes)
    held: list[list[str]] = [[] for _ in sizes]
    i = 0
    for k, mesh_axis in enumerate(placement):
        n = devices(mesh_axis)
        while i + 1 < len(rest) and rest[i] == 1:
            i += 1
        if i >= len(rest) or rest[i] % n:
            return [tuple(axes) for axes in held], placement[k:]
        held[i].append(mesh_axis)
        rest[i] //= n
    return [tuple(axes) for axes in held], ()


def _solve(
    op: str,
    x: ArrayLike,
    terms: Sequence[tuple[Term, int]],
    known: dict[Hashable, int],
    fallback: Mapping[Hashable, int],
    text: str,
) -> None:
    """Complete `known`, the sizes of elementary axes, from the sizes of the array's axes."""
    for term, n in terms:
        missing = [label for label in term.axes if label not in known]
        if len(missing) > 1:
            for label in missing:
                if label in fallback:
                    known[label] = fallback[label]
            missing = [label for label in missing if label not in known]
        what = (
            f"axis {term.name!r}"
            if term.name is not None
            else f"positional axis ({' '.join(map(str, term.axes))})"
        )
        if len(missing) > 1:
            raise RearrangeError(
                f"{op}: {what} of size {n} in {type_text(x)} is a product of"
                f" {show_names(term.axes)}, but {show_names(missing)} have no size{text}. Pass all"
                f" but one of them, as in {missing[0]}=2."
            )
        product = math.prod(known[label] for label in term.axes if label not in missing)
        if missing and product and n % product == 0:
            known[missing[0]] = n // product
        elif missing or product != n:
            sizes = (
                " * ".join(
                    f"{label} (unknown)" if label in missing else f"{label}={known[label]}"
                    for label in term.axes
                )
                or "1"
            )
            raise RearrangeError(
                f"{op}: {what} of size {n} in {type_text(x)} is not {sizes}{text}. Correct the"
                " sizes."
            )


def _check_result(
    op: str, region: Region | None, dims: Dims, sizes: Sequence[int], uneven: frozenset[Hashable]
) -> None:
    """Raise if the names of the result do not fit the mapped function.

    Unmentioned names with padding (`uneven`) are valid.
    """
    check_dims(dims, op)
    if region is None:
        return
    names = names_of(dims)
    if region.resources:
        region.check_placement(op, names)
    region.seen.update(names)
    for dim, n in zip(dims, sizes, strict=True):
        if dim is None or dim in uneven:
            continue
        known = region.sizes.get(dim)
        if known is not None and known != n:
            raise AxisSizeError(
                f"{op}: axis {dim!r} would have size {n}, but it has size {known} in this mapped"
                " function; a name has one size. Choose another name."
            )
        region.block_size(dim, n, op)


def execute(
    op: str,
    x: ArrayLike,
    left: Sequence[Term],
    right: Sequence[Term],
    sizes: Mapping[Hashable, int],
    reduction: str | Callable[..., AnyArray] | None = None,
    text: str = "",
) -> AnyArray:
    """Run a pattern.

    Args:
      op: the operation, for messages.
      x: an array, named or not.
      left: one term for every positional axis of `x`, in order, and for some of its named axes.
      right: the terms of the result, without the names that `left` omits.
      sizes: the known sizes of elementary axes.
      reduction: the reduction over axes that the result lacks, by default `None`.
      text: the pattern, for messages, by default empty.
    """
    region = ambient()
    x = to_local(x, op, region)
    terms, right = _all_terms(op, x, left, right, text)
    size = _all_sizes(op, x, terms, right, sizes, text)
    out_dims = tuple(term.name for term in right)
    uneven = _carried_uneven(region, terms, right)
    _check_result(
        op,
        region,
        out_dims,
        [math.prod(size[label] for label in term.axes) for term in right],
        uneven,
    )
    placement = _placements(region, uneven)
    old, new = [placement(dim) for dim in dims_of(x)], [placement(dim) for dim in out_dims]
    here, stuck = _factor_all(terms, old, size, _devices_along(region))
    there, late = _factor_all(right, new, size, _devices_along(region))
    data = x._data if isinstance(x, NamedArray) else jnp.asarray(x)
    if is_tracked(data) and any(tracked := [entry_of(_spec(data), i) for i in range(data.ndim)]):
        if region is None and {k for t in terms for k in t.axes} == {
            k for t in right for k in t.axes
        }:
            whole = functools.partial(_move_tracked, data, terms, right, size, tracked)
            return finish(whole, out_dims, frozenset())
        data = replicated(data)
    move = _Move(
        region, data, terms, right, size, (old, new), (here, there), (stuck, late), reduction
    )
    return finish(move.compute, out_dims, move.gathered)


def _all_terms(
    op: str, x: ArrayLike, left: Sequence[Term], right: Sequence[Term], text: str
) -> tuple[list[Term], list[Term]]:
    """Return one term per dimension of `x` and of the result, with unmentioned names in front."""
    dims = dims_of(x)
    by_name = {term.name: term for term in left if term.name is not None}
    in_order = iter([term for term in left if term.name is None])
    carried = [Term(dim, (Carried(dim),)) for dim in dims if dim is not None and dim not in by_name]
    terms = [
        next(in_order) if dim is None else by_name.get(dim) or Term(dim, (Carried(dim),))
        for dim in dims
    ]
    right = [*carried, *right]
    names = [term.name for term in right if term.name is not None]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RearrangeError(
            f"{op}: the result would have the axis {twice!r} twice, since {type_text(x)} has it"
            f" too{text}. Choose another name."
        )
    return terms, right


def _all_sizes(
    op: str,
    x: ArrayLike,
    terms: Sequence[Term],
    right: Sequence[Term],
    sizes: Mapping[Hashable, int],
    text: str,
) -> dict[Hashable, int]:
    """Return the size of every elementary axis: given, from `x`, or from the mapped function."""
    region, dims = ambient(), dims_of(x)
    shape = np.shape(data_of(x))
    placement = _placements(region, _carried_uneven(region, terms, right))
    whole = [
        n if region is None else n * region.mesh_axis_size(placement(dim))
        for dim, n in zip(dims, shape, strict=True)
    ]
    size: dict[Hashable, int] = dict(sizes)
    fallback: dict[Hashable, int] = {}
    if region is not None:
        fallback = {
            t.axes[0]: region.sizes[t.name]
            for t in right
            if len(t.axes) == 1 and t.name in region.sizes
        }
    _solve(op, x, list(zip(terms, whole, strict=True)), size, fallback, text)
    for label in (label for term in right for label in term.axes):
        if label not in size:
            if label not in fallback:
                raise RearrangeError(
                    f"{op}: the new axis {label!r} has no size{text}. Pass it, as in {label}=2."
                )
            size[label] = fallback[label]
    return size


class _Move(Record):
    """A pattern with known sizes and shardings.

    In pairs the first item belongs to the array, the second to the result.

    Attributes:
      region: the ambient region.
      data: the local block.
      left: the terms of the array, one for each dimension.
      right: the terms of the result, one for each dimension.
      size: the sizes of elementary axes.
      places: the mesh axes of each dimension.
      held: the mesh axes of each elementary axis.
      stuck: for each dimension, the mesh axes that fit none of its elementary axes.
      reduction: the reduction over elementary axes that the result lacks.
    """

    region: Region | None
    data: Any
    left: Sequence[Term]
    right: Sequence[Term]
    size: Mapping[Hashable, int]
    places: tuple[Sequence[MeshAxes], Sequence[MeshAxes]]
    held: tuple[Mapping[Hashable, MeshAxes], Mapping[Hashable, MeshAxes]]
    stuck: tuple[Sequence[MeshAxes], Sequence[MeshAxes]]
    reduction: Any

    @property
    def _final(self) -> frozenset[str]:
        return frozenset(axis for axes in self.places[1] for axis in axes)

    @property
    def _labels(self) -> tuple[list[Hashable], list[Hashable]]:
        left, right = (
            [label for term in terms for label in term.axes] for terms in (self.left, self.right)
        )
        return left, right

    @property
    def gathered(self) -> frozenset[str]:
        """Return the mesh axes over which the array is gathered permanently."""
        (labels, kept), (here, there) = self._labels, self.held
        gathered = {axis for axes in self.stuck[0] for axis in axes} | {
            axis for k in kept for axis in here.get(k, ())
        }
        return frozenset(
            gathered - self._final - {axis for k in labels if k not in there for axis in here[k]}
        )

    def _block(self, label: Hashable, held: Mapping[Hashable, MeshAxes]) -> int:
        return self.size[label] // math.prod(map(_devices_along(self.region), held[label]))

    def compute(self, keep: frozenset[str]) -> jax.Array:
        """Compute the result, which also varies over `keep`."""
        (old, new), (here, there), (stuck, late), (order, kept) = (
            self.places,
            self.held,
            self.stuck,
            self._labels,
        )
        keep |= self._final
        value = self.data
        if any(stuck):
            value = relayout(
                value, old, [a[: len(a) - len(s)] for a, s in zip(old, stuck, strict=True)], keep
            )
        value = value.reshape([self._block(label, here) for label in order])
        now = dict(here)
        vanishing = [label for label in order if label not in there]
        if vanishing:
            value, order = _reduce(
                value, order, vanishing, self.reduction, self.region, self.size, now, there
            )
        value = relayout(
            value, [now[label] for label in order], [there[label] for label in order], keep
        )
        fresh = [label for label in kept if label not in here]
        if fresh:
            value = cast_data(value, frozenset(axis for label in fresh for axis in there[label]))
            where = [kept.index(label) for label in order]
            value = lax.transpose(value, [where.index(i) for i in sorted(where)])
            value = lax.broadcast_in_dim(
                value, [self._block(label, there) for label in kept], sorted(where)
            )
        elif order != kept:
            value = lax.transpose(value, [order.index(label) for label in kept])
        value = value.reshape(
            [math.prod(self._block(label, there) for label in term.axes) for term in self.right]
        )
        if any(late):
            value = relayout(
                value, [a[: len(a) - len(s)] for a, s in zip(new, late, strict=True)], new, keep
            )
        return value


def _spec(data: jax.Array) -> PartitionSpec:
    sharding: Any = jax.typeof(data).sharding
    spec: PartitionSpec = sharding.spec
    return spec


def _move_tracked(
    data: jax.Array,
    left: Sequence[Term],
    right: Sequence[Term],
    size: Mapping[Hashable, int],
    places: Sequence[MeshAxes],
    _: frozenset[str],
) -> jax.Array:
    """Run a pattern on global data whose dimensions are sharded over Explicit mesh axes.

    The major elementary axes of a dimension keep its mesh axes, and a dimension of the result keeps
    those of its major elementary axes, as long as shards remain in place. Data is gathered over the
    other mesh axes.
    """
    sharding: Any = (
        jax.typeof(data).sharding if isinstance(data, jax.core.Tracer) else data.sharding
    )
    devices = sharding.mesh.shape

    def sharded(per_dim: Sequence[MeshAxes]) -> NamedSharding:
        return NamedSharding(sharding.mesh, PartitionSpec(*(axes or None for axes in per_dim)))

    here, stuck = _factor_all(left, places, size, devices.__getitem__)
    there = _mergeable(right, here, size, devices)
    order, kept = ([label for term in terms for label in term.axes] for terms in (left, right))
    if any(stuck):
        fitting = [a[: len(a) - len(s)] for a, s in zip(places, stuck, strict=True)]
        data = jax.reshard(data, sharded(fitting))
    data = jnp.reshape(
        data, [size[k] for k in order], out_sharding=sharded([here[k] for k in order])
    )
    if there != here:
        data = jax.reshard(data, sharded([there[k] for k in order]))
    data = lax.transpose(data, [order.index(label) for label in kept])
    return jnp.reshape(
        data,
        [math.prod(size[label] for label in term.axes) for term in right],
        out_sharding=sharded(
            [tuple(a for label in term.axes for a in there[label]) for term in right]
        ),
    )


def _mergeable(
    terms: Sequence[Term],
    held: Mapping[Hashable, MeshAxes],
    size: Mapping[Hashable, int],
    devices: Mapping[str, int],
) -> dict[Hashable, MeshAxes]:
    """Return the mesh axes that elementary axes keep when they are merged into `terms`.

    Elements of a merged axis are in the order of the devices only if each device has one element of
    every axis that is major to a sharded one.
    """
    kept: dict[Hashable, MeshAxes] = {}
    for term in terms:
        is_major = True
        for label in term.axes:
            kept[label] = held[label] if is_major else ()
            blocks = math.prod(devices[axis] for axis in kept[label])
            is_major = is_major and size[label] == blocks
    return kept


def _devices_along(region: Region | None) -> Callable[[str], int]:
    """Return a function for the number of devices along a mesh axis."""
    return lambda mesh_axis: region.mesh_axis_size((mesh_axis,))  # type: ignore[union-attr]


def _carried_uneven(
    region: Region | None, left: Sequence[Term], right: Sequence[Term]
) -> frozenset[Hashable]:
    """Return unchanged names that do not divide over their mesh axes: they keep their padding."""
    if region is None or not region.uneven:
        return frozenset()
    after = {term.name: term.axes for term in right}
    return frozenset(
        t.name
        for t in left
        if t.name in region.uneven and len(t.axes) == 1 and after.get(t.name) == t.axes
    )


def _placements(
    region: Region | None, uneven: frozenset[Hashable]
) -> Callable[[Hashable | None], MeshAxes]:
    """Return a function for the mesh axes of a dim in this body; names in `uneven` have padding."""
    if region is None or not region.manual:
        return lambda dim: ()
    return lambda dim: (
        () if dim is None else plain(region.place(dim)) if dim in uneven else region.placement(dim)
    )


def _factor_all(
    terms: Sequence[Term],
    places: Sequence[MeshAxes],
    size: Mapping[Hashable, int],
    devices: Callable[[str], int],
) -> tuple[dict[Hashable, MeshAxes], list[MeshAxes]]:
    """Return the mesh axes of all elementary axes, and those of each term that fit none."""
    held: dict[Hashable, MeshAxes] = {}
    left_over = []
    for term, axes in zip(terms, places, strict=True):
        each, remainder = _factor(axes, [size[label] for label in term.axes], devices)
        held.update(zip(term.axes, each, strict=True))
        left_over.append(remainder)
    return held, left_over


class Carried:
    """A label of an axis for which patterns and users have no name."""

    __slots__ = ("axis",)

    def __init__(self, axis: Hashable):
        self.axis = axis

    def __hash__(self) -> int:
        return hash((Carried, self.axis))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Carried) and self.axis == other.axis

    def __repr__(self) -> str:
        return repr(self.axis)


def _reduce(
    value: jax.Array,
    order: list[Hashable],
    vanishing: list[Hashable],
    reduction: str | Callable[..., AnyArray],
    region: Region | None,
    size: Mapping[Hashable, int],
    here: dict[Hashable, MeshAxes],
    there: Mapping[Hashable, MeshAxes],
) -> tuple[Any, list[Hashable]]:
    """Reduce elementary axes, and return the block and its labels.

    `here` gets the mesh axes of a reduce-scatter.
    """
    rest = [label for label in order if label not in vanishing]
    mesh_axes = tuple(axis for label in order if label in vanishing for axis in here[label])
    if mesh_axes and reduction in ("sum", "mean"):
        # If the result is sharded over the reduced mesh axes, the sum is one reduce-scatter.
        target = next(
            (label for label in rest if not here[label] and there[label] == mesh_axes), None
        )
        if target is not None:
            axes = tuple(order.index(label) for label in vanishing)
            local = (
                jnp.sum(value, axes)
                if reduction == "sum"
                else jnp.mean(value, axes) / math.prod(map(lax.axis_size, mesh_axes))
            )
            here[target] = mesh_axes
            return comm.psum_scatter(local, rest.index(target), mesh_axes), rest
    if reduction not in ("sum", "mean"):
        value = constrain_sharding(value, (None,) * len(order))
    reduce_ = REDUCTIONS[reduction] if isinstance(reduction, str) else reduction
    names = tuple(map(Carried, order))
    inner = None
    if (
        region is not None and region.manual
    ):  # a region in which elementary axes are names with shardings
        sizes: dict[Hashable, int] = {Carried(label): size[label] for label in order}
        inner = Region(
            sizes,
            {Carried(k): here[k] for k in order if here[k]},
            region.mesh,
            region.mode,
            ("reduce", region),
        )
    with enter(inner):
        named = make(value, names) if inner is None else make_in_region(value, names)
        result = reduce_(named, axis=tuple(map(Carried, vanishing)))
    if set(dims_of(result)) != set(map(Carried, rest)):
        raise RearrangeError(
            f"reduce: {reduction!r} did not reduce the given axes. It must reduce them as nx.sum(x,"
            " axis=names) does."
        )
    places = [dims_of(result).index(Carried(label)) for label in rest]
    return lax.transpose(data_of(result), places) if rest else data_of(result), rest
