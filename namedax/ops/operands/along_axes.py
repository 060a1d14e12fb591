"""Positional functions along named axes.

A named axis becomes a positional one for the call, replicated on every device, and gets its name
back in the result.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from typing import cast as cast_type

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, AxisSpec
from namedax.core.array import NamedArray, dims_of, is_named, make_in_region
from namedax.core.display import type_text
from namedax.core.functions import signature_of
from namedax.core.name_scopes import in_scope, is_in_program, scope_of_lifted
from namedax.core.names import AxisName, Dims, MeshAxes, PyTree, is_name
from namedax.core.padded_sharding import plain
from namedax.core.region import Region, ambient, enter
from namedax.core.variance import cast
from namedax.errors import (
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    raise_not_found,
)
from namedax.messages.call_errors import bound as bound_arguments
from namedax.ops.operands.axes import check_axes, is_axis_name, new_names
from namedax.ops.operands.broadcasting import as_block, constrain_sharding, make_result, to_local
from namedax.ops.operands.new_axis import new_axis_placement
from namedax.ops.operands.nmap import nmap
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import array_of, data_of, flatten, names_of
from namedax.resources.exchange import device_count
from namedax.resources.layout import relayout
from namedax.resources.mesh import explicit_axes_of, with_axes_at

__all__ = [
    "Entries",
    "along_axes",
    "by_name",
    "checks_axes",
    "entries_of",
    "names_in",
    "to_front",
    "with_complete_axes",
]

F = TypeVar("F", bound=Callable[..., Any])


def along_axes(
    function: Callable[..., Any],
    name: str,
    axis_parameters: tuple[str, ...],
    renames: bool = False,
    separates: bool = False,
) -> Callable[..., Any]:
    """Let `function` take names as axes; other names are batch axes.

    A named axis becomes a positional one, in front of the others, in every array argument that has
    it. If a result has as many positional axes as the first array argument had, the front ones get
    their names back. If it has fewer, they are gone.

    Args:
      function: a function of positional arrays.
      name: the name of the function, for messages.
      axis_parameters: the parameters of the function that are axes.
      renames: add the keyword `out_axis`, which renames axes in the result; default: False. Such a
        function is a transform of one array: its other axes are batch axes, positional ones too.
      separates: True if the function of several axes is that of one axis after the other; default:
        False. Then each sharded axis is complete by itself, while the others stay sharded.
    """
    signature = signature_of(function)
    positional = nmap(function)

    @operation(name=name)
    @functools.wraps(function)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        out_axis = kwargs.pop("out_axis", None) if renames else None
        bound = bound_arguments(name, signature(), args, kwargs)
        given = bound.arguments
        check_axes(name, given, axis_parameters)
        axes = [axis for parameter in axis_parameters for axis in names_in(given.get(parameter))]
        wanted = [*dict.fromkeys(axes)]
        renamed = new_names(name, out_axis, wanted, "axis") if out_axis is not None else {}
        if not wanted:
            return positional(*args, **kwargs)
        if separates and not renamed and (parts := _separated(given, axis_parameters[0], axes)):
            of = next(iter(given))
            for part in parts:
                given[of] = lifted(*bound.args, **{**bound.kwargs, axis_parameters[0]: part})
            return given[of]
        arrays = _arrays(given)
        first = next((leaf for leaf in arrays if isinstance(leaf, NamedArray)), None)
        for axis in wanted:
            if first is None or axis not in first.dims:
                text = "the arguments" if first is None else type_text(first)
                raise_not_found(name, axis, text, names_of(() if first is None else first.dims))
        if is_in_program(arrays):
            scope = scope_of_lifted(lifted, tuple(wanted))
            return in_scope(scope, along, bound, wanted, first, renamed)
        return along(bound, wanted, first, renamed)

    def along(
        bound: inspect.BoundArguments,
        wanted: list[Hashable],
        first: Any,
        renamed: Mapping[Hashable, Hashable],
    ) -> PyTree:
        entries = [e for p in axis_parameters for e in entries_of(bound.arguments.get(p, ()))]
        is_batched = renames and all(map(is_axis_name, entries))
        for parameter in axis_parameters:
            if parameter in bound.arguments:
                bound.arguments[parameter] = _renumber(bound.arguments[parameter], wanted)
        leaves, tree = jax.tree.flatten(dict(bound.arguments), is_leaf=is_named)
        keepdims = bool(bound.arguments.get("keepdims", False))
        new = renamed if renames else None

        def of_complete(leaves: Sequence[Any]) -> PyTree:
            of = (
                next(filter(is_named, leaves)) if is_batched else first
            )  # one axis fewer if exchanged
            rank = of.ndim + len(wanted)
            in_front = [to_front(leaf, wanted, name) for leaf in leaves]
            call = inspect.BoundArguments(bound.signature, jax.tree.unflatten(tree, in_front))
            return jax.tree.map(
                lambda leaf: _from_front(leaf, wanted, rank, keepdims, name, new),
                positional(*call.args, **call.kwargs),
                is_leaf=is_named,
            )

        if renamed:  # the new names may have other mesh axes
            return of_complete(leaves)
        return with_complete_axes(name, of_complete, leaves, wanted, is_batched)

    if renames:
        vars(lifted)["__signature__"] = _with_out_axis(inspect.signature(function))
    return lifted


def _separated(
    given: Mapping[str, Any], parameter: str, names: Sequence[Hashable]
) -> list[tuple[Any, ...]]:
    """Return the axes of a call in parts, each sharded one by itself; none if all are complete.

    Sharded axes come first, those over most devices first of all: the first transform is of real
    numbers, which are half of the bytes.
    """
    region, axes = ambient(), entries_of(given[parameter])
    if region is None or not region.manual or len(axes) < 2 or given.get("s") is not None:
        return []
    sharded = [name for name in names if region.place(name)]
    sharded.sort(key=lambda name: -region.mesh_axis_size(region.place(name)))
    rest = tuple(axis for axis in axes if axis not in sharded)
    if not sharded or (len(sharded) == 1 and not rest):
        return []
    return [*((name,) for name in sharded), *([rest] if rest else [])]


def _with_out_axis(signature: inspect.Signature) -> inspect.Signature:
    annotation = "Hashable | Mapping[Hashable, Hashable] | None"
    new = inspect.Parameter(
        "out_axis", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
    return signature.replace(parameters=[*signature.parameters.values(), new])


def entries_of(axis: AxisSpec) -> tuple[Any, ...]:
    """Return one axis, or a tuple or list of axes, as a tuple."""
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def names_in(axis: AxisSpec) -> list[Hashable]:
    """Return the axis names among one axis or several."""
    return [entry for entry in entries_of(axis) if is_axis_name(entry)]


def checks_axes(function: F, name: str | None = None) -> F:
    """Turn a function into an operation that validates its axis arguments before the call.

    JAX's own function would accept `True` as axis 1. `name` is that of the operation; default: the
    name of the function.
    """
    signature, op = signature_of(function), name or function.__name__

    @operation(name=op)
    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_axes(op, bound_arguments(op, signature(), args, kwargs).arguments)
        return function(*args, **kwargs)

    checked.__name__ = checked.__qualname__ = op
    return cast_type(F, checked)


def by_name(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Build a table of functions whose axis arguments are validated."""
    return {function.__name__: checks_axes(function) for function in functions}


def _arrays(arguments: Mapping[str, Any]) -> list[AnyArray | np.ndarray]:
    leaves = jax.tree.leaves(list(arguments.values()), is_leaf=is_named)
    return [leaf for leaf in leaves if isinstance(leaf, (NamedArray, jax.Array, np.ndarray))]


def _renumber(axis: AxisSpec, names: list[Hashable]) -> AxisSpec:
    """Replace names by the first positions, and shift nonnegative positions behind them."""

    def one(entry: Hashable) -> Hashable:
        if entry in names and not isinstance(entry, int):
            return names.index(entry)
        if isinstance(entry, (int, np.integer)) and entry >= 0:
            return entry + len(names)
        return entry

    if isinstance(axis, (tuple, list)):
        return type(axis)(one(entry) for entry in axis)
    return axis if axis is None else one(axis)


def to_front(leaf: PyTree, names: list[Hashable], op: str) -> PyTree:
    """Return a named array with the axes `names` as its first positional ones, replicated."""
    if not isinstance(leaf, NamedArray) or not any(name in leaf.dims for name in names):
        return leaf
    region = ambient()
    block = to_local(leaf, op, region)
    for name in names:
        if name not in block.dims:
            raise_not_found(op, name, type_text(leaf), names_of(leaf.dims))
    data, dims = block.data, block.dims
    if region is not None and region.manual:
        old = region.layout(dims)
        new = [() if dim in names else place for dim, place in zip(dims, old, strict=True)]
        data = relayout(data, old, new)
    order = [dims.index(name) for name in names] + [
        i for i, dim in enumerate(dims) if dim not in names
    ]
    front = (None,) * len(names) + tuple(dims[i] for i in order[len(names) :])
    return make_in_region(constrain_sharding(lax.transpose(data, order), front), front)


def _from_front(
    leaf: AnyArray,
    names: list[Hashable],
    rank: int,
    keepdims: bool,
    op: str,
    renamed: Mapping[Hashable, Hashable] | None,
) -> AnyArray:
    """Name the first positional axes of a result again, if it has as many as the argument had.

    `renamed` has the new names of axes; `None` means that the function has no `out_axis`.
    """
    dims = dims_of(leaf)
    if dims.count(None) != rank:
        return leaf
    places = [i for i, dim in enumerate(dims) if dim is None][: len(names)]
    data = leaf.data if isinstance(leaf, NamedArray) else jnp.asarray(leaf)
    if keepdims and all(data.shape[i] == 1 for i in places):
        rest = tuple(dim for i, dim in enumerate(dims) if i not in places)
        return make_result(lax.squeeze(data, places), rest)
    region = ambient()
    sizes = {name: data.shape[place] for place, name in zip(places, names, strict=True)}
    if region is not None:
        _check_sizes(op, sizes, region, renamed)
    named = list(dims)
    for place, name in zip(places, names, strict=True):
        named[place] = (renamed or {}).get(name, name)
    for place, name in zip(places, names, strict=True):
        if renamed and name in renamed:  # all at once, so that two axes can swap names
            others = (*named[:place], *named[place + 1 :])
            new_axis_placement(op, renamed[name], sizes[name], others)
    if region is not None and region.manual:
        for place in places:
            if named[place] in names:  # its size may not divide over its mesh axes
                region.block_size(named[place], data.shape[place], op)
        data = relayout(data, region.layout(dims), region.layout(named))
    return make_result(data, tuple(named))


def with_complete_axes(
    op: str,
    function: Callable[[Sequence[Any]], PyTree],
    leaves: Sequence[Any],
    wanted: Sequence[Hashable],
    is_batched: bool = False,
) -> PyTree:
    """Call a function that gathers names of its arrays, if possible after an exchange.

    A free name, over which the function is vectorized, is sharded instead of the wanted names, so
    that each device computes some of the slices along it. Without such a name a free position is
    sharded. If there is none either, or if gathers send fewer bytes, the function gathers.

    Args:
      op: the operation, for messages.
      function: a function of the leaves, which removes the wanted names by `to_front`.
      leaves: arrays, and other arguments.
      wanted: the names that must be complete.
      is_batched: True if the positional axes are batch axes, in the result as in the only array.
        Default: False, and positional axes are not free.
    """
    region = ambient()
    if region is None or not region.manual:
        return function(leaves)
    axes = tuple(axis for name in wanted for axis in plain(region.place(name)))
    if device_count(axes) < 2:
        return function(leaves)
    exchanged = _exchanged(region, op, function, leaves, wanted, axes)
    if exchanged is None and is_batched:
        exchanged = _exchanged_with_position(region, op, function, leaves, wanted, axes)
    return function(leaves) if exchanged is None else exchanged


class _FreePosition:
    """The name of a free positional axis during an exchange."""


def _exchanged_with_position(
    region: Region,
    op: str,
    function: Callable[[Sequence[Any]], PyTree],
    leaves: Sequence[Any],
    wanted: Sequence[Hashable],
    axes: MeshAxes,
) -> PyTree | None:
    place = next(i for i, leaf in enumerate(leaves) if isinstance(leaf, NamedArray))
    x = to_local(leaves[place], op, region)
    devices = device_count(axes)
    free = (i for i, n in enumerate(x.data.shape) if x.dims[i] is None and n and n % devices == 0)
    if (at := next(free, None)) is None:
        return None
    name, number, given = _FreePosition(), x.dims[:at].count(None), list(leaves)
    given[place] = make_in_region(x.data, (*x.dims[:at], name, *x.dims[at + 1 :]))
    results = _exchanged(region, op, function, given, wanted, axes)
    return jax.tree.map(lambda y: _to_position(y, name, number), results, is_leaf=is_named)


def _to_position(x: NamedArray, name: Hashable, number: int) -> AnyArray:
    """Make an axis the positional one with this number."""
    at, order = x.dims.index(name), [*range(len(x.dims))]
    if x.dims[:at].count(None) != number:
        order.remove(at)
        places = [place for place, i in enumerate(order) if x.dims[i] is None]
        order.insert(places[number] if number < len(places) else len(order), at)
    dims = tuple(None if i == at else x.dims[i] for i in order)
    return make_result(lax.transpose(x.data, order), dims)


def _exchanged(
    region: Region,
    op: str,
    function: Callable[[Sequence[Any]], PyTree],
    leaves: Sequence[Any],
    wanted: Sequence[Hashable],
    axes: MeshAxes,
) -> PyTree | None:
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, NamedArray)]
    arrays = [to_local(leaves[i], op, region) for i in places]
    devices = device_count(axes)
    free = _free_name(region, arrays, wanted, devices)
    if free is None:
        return None
    resources = {name: place for name, place in region.resources.items() if name not in wanted}
    resources[free] = (*region.place(free), *axes)
    inside = region.with_resources(resources)
    found: list[Any] = []

    def run(*datas: jax.Array) -> list[jax.Array]:
        given = list(leaves)
        with enter(inside):
            for i, data, array in zip(places, datas, arrays, strict=True):
                data = relayout(data, region.layout(array.dims), inside.layout(array.dims))
                given[i] = make_in_region(data, array.dims)
            results, tree = jax.tree.flatten(function(given), is_leaf=is_named)
            results = [to_local(result, op, inside) for result in results]
            found[:] = [tree, [dims_of(result) for result in results]]
            return [data_of(result) for result in results]

    datas = [array.data for array in arrays]
    types = jax.eval_shape(run, *datas)
    there = sum(_bytes(array.data) for array in arrays if not {*wanted}.isdisjoint(array.dims))
    back = 0
    for kind, dims in zip(types, found[1], strict=True):
        if free in dims:
            back += _bytes(kind) * (1 if not {*wanted}.isdisjoint(dims) else devices)
    # In units of a block of each device but its own; a gather sends each block to all others.
    if there + back > there * devices:
        return None
    results = run(*datas)
    tree, all_dims = found
    finished = []
    for data, dims in zip(results, all_dims, strict=True):
        for name, n in zip(dims, data.shape, strict=True):
            if name in wanted:  # its size may not divide over its mesh axes
                region.block_size(name, n, op)
        data = relayout(data, inside.layout(dims), region.layout(dims))
        finished.append(make_result(data, dims))
    return jax.tree.unflatten(tree, finished)


def _free_name(
    region: Region, arrays: Sequence[NamedArray], wanted: Sequence[Hashable], devices: int
) -> Hashable | None:
    """Return a name of all arrays with wanted axes, whose block divides over devices.

    There is none if another name of an array is sharded over the same mesh axes: both names could
    meet in a result.
    """
    using = [array for array in arrays if not {*wanted}.isdisjoint(array.dims)]
    axes = {axis for name in wanted for axis in region.place(name)}
    others = {name for array in arrays for name in names_of(array.dims)}.difference(wanted)
    if not all(axes.isdisjoint(region.place(name)) for name in others):
        return None
    for name, n in zip(using[0].dims, using[0].data.shape, strict=True):
        if name is None or name in wanted or name in region.uneven or n == 0 or n % devices:
            continue
        if all(name in array.dims for array in using) and device_count(region.place(name)):
            return name
    return None


def _bytes(value: Any) -> int:
    return math.prod(value.shape) * value.dtype.itemsize


def _check_sizes(
    op: str,
    sizes: Mapping[Hashable, int],
    region: Region,
    renamed: Mapping[Hashable, Hashable] | None,
) -> None:
    """Raise if a named axis of a result has another size than in the mapped function."""
    for name, n in sizes.items():
        size = region.sizes.get(name)
        if size is None or size == n or (renamed is not None and name in renamed):
            continue
        remedy = (
            "Rename the axis of the argument first, to a name of its own: nx.rename(x,"
            f" {{{name!r}: 'other'}})."
            if renamed is None
            else f"Give it another name in the result: out_axis={{{name!r}: 'other'}}."
        )
        raise AxisSizeError(
            f"{op}: the result has size {n} along {name!r}, which has size {size} in this mapped"
            f" function; a name has one size. {remedy}"
        )


# --- arrays sliced along one axis, for functions of single slices ---------------------------------


def _in_front(data: jax.Array, at: int) -> jax.Array:
    return jnp.moveaxis(data, at, 0) if at else data


class Entries:
    """Arrays that are sliced along one axis.

    Arrays that have the axis get it in front; the others are the same for every slice. With
    `supports_padding` (default: False) the axis need not divide over its mesh axes. With
    `keeps_host` (default: False) arrays in the memory of the host stay there if they have the axis
    in front, and it is not sharded.

    Args:
      op: the operation, for messages.
      xs: a pytree of arrays.
      axis: a name, or 0 for the first positional axis.
      every: True if all arrays must have the axis; default: False. Along a position all must have
        it.

    If the axis is sharded over Explicit mesh axes, it is gathered; `result` shards it again.

    Attributes:
      datas: the data of the sliced leaves.
      fixed: the leaves that are the same for every slice, by number.
      dims: the dims of one slice of the sliced leaves, by number.
      placement: the mesh axes of the axis.

    Raises:
      AxisNameError: `axis` is neither 0 nor a name.
      AxisNotFoundError: no array has the name, or with `every` not all of them.
      PositionalAxisError: an array has no positional axis.
      UnevenAxisError: the axis does not divide over its mesh axes, and the operation does not
        support padding.
    """

    def __init__(
        self,
        op: str,
        xs: PyTree,
        axis: AxisName,
        every: bool = False,
        supports_padding: bool = False,
        keeps_host: bool = False,
    ):
        region = ambient()
        self.op, self.axis = op, axis
        self.by_name = not isinstance(axis, (int, np.integer)) or isinstance(axis, bool)
        if self.by_name and not is_name(axis):
            raise AxisNameError(
                f"{op}: axis={format_value(axis)} is neither 0 nor the name of an axis."
            )
        if not self.by_name and axis != 0:
            raise PositionalAxisError(
                f"{op}: axis must be 0 (the first positional axis) or a name, got"
                f" {format_value(axis)}. Use nx.numpy.moveaxis(x, {format_value(axis)}, 0) first."
            )
        leaves, self.tree = flatten(xs)
        self.datas: list[Any] = []
        # the sliced leaves, and the dimension of the axis in each
        self._cut: list[tuple[Any, int]] = []
        # JAX slices an axis only where it is not sharded over Explicit mesh axes.
        self._mesh_axes: tuple[str, ...] = ()
        self.fixed: dict[int, Any] = {}
        self.dims: dict[int, Dims] = {}
        self.placement: tuple[str, ...] = ()
        if self.by_name and region is not None:
            self.placement = region.place(axis) if supports_padding else region.placement(axis, op)
        place = axis if self.by_name else None
        blocks = [
            as_block(leaf, op, keeps_host and not self.placement and dims_of(leaf)[:1] == (place,))
            for leaf in leaves
        ]
        for i, block in enumerate(blocks):
            dims = dims_of(block)
            if place not in dims:
                if not self.by_name:
                    where = "in_axes" if op == "vmap" else "axis"
                    raise PositionalAxisError(
                        f"{op}: {type_text(block)} has no positional axis. Pass {where}= with the"
                        " name of an axis."
                    )
                self.fixed[i] = block
                continue
            at = dims.index(place)
            self._mesh_axes = self._mesh_axes or explicit_axes_of(data_of(block), at)
            self.datas.append(_in_front(with_axes_at(data_of(block), at, ()), at))
            self._cut.append((block, at))
            self.dims[i] = dims[:at] + dims[at + 1 :]
        if self.by_name and leaves and (not self.dims or (every and self.fixed)):
            lacking = blocks[min(self.fixed)]
            candidates = [dim for block in blocks for dim in names_of(dims_of(block))]
            raise_not_found(
                op,
                axis,
                type_text(lacking),
                candidates if not self.dims else names_of(dims_of(lacking)),
            )

    @classmethod
    def uncut(cls, op: str, value: PyTree) -> Entries:
        """Return arguments that are all the same for every slice."""
        entries = cls(op, (), 0)
        leaves, entries.tree = flatten(value)
        region = ambient()
        entries.fixed = {
            i: to_local(leaf, op, region) if is_named(leaf) else leaf
            for i, leaf in enumerate(leaves)
        }
        return entries

    def cast(self, number: int, axes: frozenset[str]) -> Any:
        """Return one of `datas`, varying over (at least) these mesh axes.

        For a gathered array, the gradient of this gather is a reduce-scatter.
        """
        block, at = self._cut[number]
        return _in_front(cast(block, axes), at)

    def value(self, datas: Iterable[Any]) -> Any:
        """Return one slice of all arrays, from the data of the sliced leaves."""
        supply = iter(datas)
        count = len(self.fixed) + len(self.dims)
        return self.tree.unflatten(
            [
                self.fixed[i] if i in self.fixed else array_of(next(supply), self.dims[i])
                for i in range(count)
            ]
        )

    def result(self, data: Any, dims: Dims) -> Any:
        """Return an array from the results for each slice, stacked in front."""
        region = ambient()
        if self.by_name and self.axis in dims:
            raise AxisNameError(
                f"{self.op}: the result of the function for one slice along {self.axis!r} already"
                f" has an axis {self.axis!r}, from a value that it carries or closes over. Pass"
                " that value as an argument, or rename its axis."
            )
        dims = (self.axis if self.by_name else None, *dims)
        if region is not None:
            region.check_placement(self.op, names_of(dims))
        return make_result(with_axes_at(data, 0, self._mesh_axes), dims)
