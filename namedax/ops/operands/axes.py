"""Resolve axis arguments: positions, names, or tuples of both."""

from __future__ import annotations

from collections.abc import Collection, Hashable, KeysView, Mapping, Sequence, ValuesView
from typing import Any, NoReturn, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.element_types import is_foreign_type
from namedax.core.names import AxisName, Dims, PyTree, Shape, is_name
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    PositionalAxisError,
    did_you_mean,
    format_value,
    raise_not_found,
    show_names,
    usage,
)

__all__ = [
    "AXIS_PARAMETERS",
    "axis_key",
    "check_axes",
    "holds_names",
    "is_axis_name",
    "is_flat",
    "names_alone",
    "new_names",
    "plain_axis",
    "reject_axes_apart",
    "reject_order",
    "reject_order_of_storage",
    "reject_reversal",
    "resolve_axis",
    "unwrap_single",
]


_NO_AXIS = "{op}: axis={axis} is neither a position nor a name nor a tuple of these."


def resolve_axis(op: str, x: ArrayLike, axis: AxisSpec) -> tuple[int, ...]:
    """Return the physical dimensions of `x` for `axis`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: a position is out of range, or an axis is given twice.
    """
    dims = x._dims if type(x) is NamedArray else dims_of(x)
    if type(axis) is not tuple:  # the most common cases
        found = tuple([i for i, dim in enumerate(dims) if dim is axis])
        if found or axis is None:
            return found
    places = [i for i, dim in enumerate(dims) if dim is None]
    if axis is ...:
        return tuple(range(len(dims)))
    axis = axis_key(op, axis)
    result: list[int] = []
    for entry in axis if isinstance(axis, tuple) else (axis,):
        if isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            if not -len(places) <= entry < len(places):
                _raise_out_of_range(op, x, int(entry), len(places))
            place = places[entry]
        elif is_name(entry):
            if entry not in dims:
                raise_not_found(
                    op,
                    entry,
                    type_text(x),
                    [d for d in dims if d is not None],
                    _hint(op, axis, entry),
                )
            place = dims.index(entry)
        else:
            raise PositionalAxisError(_NO_AXIS.format(op=op, axis=format_value(axis)))
        if place in result:
            raise PositionalAxisError(
                f"{op}: axis {format_value(entry)} is given twice in axis={format_value(axis)} for"
                f" {type_text(x)}."
            )
        result.append(place)
    return tuple(result)


def _raise_out_of_range(op: str, x: ArrayLike, position: int, count: int) -> NoReturn:
    if not count and (names := names_alone(x)):
        choices = " or ".join(f"axis={name!r}" for name in names)
        raise PositionalAxisError(
            f"{op}: axis={position} is a position, but {type_text(x)} has only named axes. Pass"
            f" {choices}."
        )
    raise PositionalAxisError(
        f"{op}: positional axis {position} is out of range for {type_text(x)}, which has {count}"
        " positional axes. Write the name of the axis if it has one."
    )


def unwrap_single(axis: AxisSpec, dims: Dims) -> AxisSpec:
    """Return the name in a tuple of one, unless the tuple is a name itself."""
    return (
        axis[0]
        if type(axis) is tuple and len(axis) == 1 and axis not in dims and axis[0] in dims
        else axis
    )


def _hint(op: str, axis: AxisSpec, name: Hashable) -> str:
    region = ambient()
    if region is not None and (of_mesh := region.mesh_axis_hint(name)):
        return of_mesh
    if isinstance(axis, tuple) and len(axis) > 1:
        return (
            "(A tuple in axis= is a sequence of axes; if the tuple is the name, write"
            f" axis=({axis!r},).)"
        )
    if op in ("sum", "mean", "max", "min") and ambient() is not None:
        return (
            f"Reduce over an axis that it has; a collective (nx.lax.p{op}) also takes a value"
            " without the name."
        )
    return "" if op.startswith(("getitem", "at[")) else "Reduce over an axis that it has."


def plain_axis(axis: AxisSpec) -> AxisSpec:
    """Convert integer scalars of NumPy and JAX in `axis` to Python integers, and lists to tuples.

    >>> import numpy as np
    >>> from namedax.ops.operands.axes import plain_axis
    >>> plain_axis([np.array(1), "k"])
    (1, 'k')
    """
    if isinstance(axis, (tuple, list)):
        return tuple(int(entry) if _is_integer_array(entry) else entry for entry in axis)
    return int(axis) if _is_integer_array(axis) else axis


def _is_integer_array(entry: object) -> TypeGuard[np.ndarray | np.integer | jax.Array]:
    return (
        isinstance(entry, (np.ndarray, np.integer, jax.Array))
        and entry.ndim == 0
        and jnp.issubdtype(entry.dtype, jnp.integer)
    )


def axis_key(op: str, axis: AxisSpec) -> AxisSpec:
    """Return `axis` as part of a kernel's key.

    Lists, sets and dict views become tuples; integer arrays without axes become integers.
    """
    if isinstance(axis, (list, set, KeysView, ValuesView)):
        axis = tuple(axis)
    if isinstance(axis, (tuple, np.ndarray, np.integer, jax.Array)):
        axis = plain_axis(axis)
    try:
        hash(axis)
    except TypeError:
        raise PositionalAxisError(
            _NO_AXIS.format(op=op, axis=format_value(axis)) + usage(op)
        ) from None
    return axis


def names_alone(x: object) -> Dims:
    """Return the names of an array without positional axes; empty for any other array."""
    dims = x._dims if type(x) is NamedArray else ()
    return () if None in dims else dims


def reject_reversal(op: str, x: object) -> None:
    """Raise if the axes of an array with only named axes are to be reversed: names have no order.

    Args:
      op: the operation.
      x: an array, named or not.

    Raises:
      PositionalAxisError: it has names, and no positional axis.
    """
    names = names_alone(x)
    if not names:
        return
    renamed = f"nx.rename(x, {{{names[0]!r}: {'other' if 'other' not in names else 'another'!r}}})"
    remedy = f"nx.dot(x, {renamed}, {names[-1]!r})" if len(names) > 1 else renamed
    raise PositionalAxisError(
        f"{op}: {type_text(x)} has no positional axis, and names have no order, so there is nothing"
        f" to reverse. Write nx.rename for the other side of a product, as in {remedy}."
    )


def reject_order(op: str, x: object) -> None:
    """Raise if the positional axes are to be merged, and the array has only named axes.

    Raises:
      PositionalAxisError: it has names, and no positional axis.
    """
    names = names_alone(x)
    if not names:
        return
    order = f"nx.positional(x, {list(names)!r})"
    merged = f"nx.merge_axes(x, {names!r}, 'flat') for one named axis, or "
    raise PositionalAxisError(
        f"{op}: {type_text(x)} has no positional axis, and names have no order, so there is nothing"
        f" to {op}. Write {merged if len(names) > 1 else ''}{order} for a positional array."
    )


def is_flat(shape: Shape) -> bool:
    """Return True if a shape has all elements along one axis, whose size is -1."""
    sizes = jax.tree.leaves(shape)
    return -1 in sizes and all(size in (1, -1) for size in sizes)


def reject_order_of_storage(op: str, x: object, axis: AxisSpec) -> None:
    """Raise if `axis=...` means several axes of a named array and their order matters.

    An example is an index over all of them.

    Raises:
      PositionalAxisError: it does.
    """
    if axis is not ... or type(x) is not NamedArray or len(x._dims) < 2:
        return
    positions = iter(range(len(x._dims)))
    order = tuple(next(positions) if dim is None else dim for dim in x._dims)
    raise PositionalAxisError(
        f"{op}: axis=... gives the index no order, because the names of {type_text(x)} have no"
        f" order. Write the axes in order: axis={format_value(order)}."
    )


def reject_axes_apart(op: str, args: Sequence[Any], place: int) -> None:
    """Raise if the arguments from `place` on are several axes of an array, as separate arguments.

    The array may be an element of a list. The check runs before the call, because an axis may have
    the name of a dtype, "h" or "f", and the argument after the axis is the dtype.

    Raises:
      ArgumentTypeError: they are.
    """
    entries = args[place:]
    if len(entries) < 2 or not all(isinstance(entry, str) for entry in entries):
        return
    for x in args[0] if isinstance(args[0], (list, tuple)) else args[:1]:
        if type(x) is NamedArray and any(entry in x._dims for entry in entries[1:]):
            raise ArgumentTypeError(
                f"{op}: {show_names(entries)} are separate arguments, but one argument takes all"
                f" axes of {type_text(x)}. Write axis={tuple(entries)!r}."
            )
        if type(x) is NamedArray and not _is_element_type(entries[1]):
            candidates = [
                *(dim for dim in x._dims if dim is not None),
                "float",
                "int",
                "bool",
                "float16",
                "bfloat16",
                "int8",
            ]
            raise ArgumentTypeError(
                f"{op}: {entries[1]!r} follows the axis, but is neither an axis of {type_text(x)}"
                f" nor a dtype.{did_you_mean(entries[1], candidates)} For several axes write"
                f" axis={tuple(entries)!r}."
            )


def _is_element_type(word: str) -> bool:
    try:
        jnp.dtype(word)
    except TypeError:
        return False
    return True


def new_names(
    op: str,
    out_axis: AxisName | Mapping[AxisName, AxisName] | None,
    axes: Collection[Hashable],
    what: str,
) -> dict[Hashable, Hashable]:
    """Return the names of axes in a result, by their names in the operand.

    Args:
      op: the operation.
      out_axis: `None`, names by names, or one name if exactly one axis has a name.
      axes: the axes that may get another name, and positions.
      what: the source of these axes, for messages.

    Raises:
      ArgumentError: one name for several axes.
      AxisNotFoundError: a name that is not among the axes.
    """
    names = [axis for axis in axes if is_name(axis)]
    if out_axis is None:
        return {}
    if not isinstance(out_axis, Mapping):
        if len(names) != 1:
            remedy = (
                f"Write a dict, such as out_axis={{{names[0]!r}: {format_value(out_axis)}}}."
                if names
                else "Leave it out for positional axes."
            )
            raise ArgumentError(
                f"{op}: out_axis={format_value(out_axis)} is one name, but {what} has {len(names)}"
                f" named axes. {remedy}"
            )
        return {names[0]: out_axis}
    for name in out_axis:
        if name not in axes:
            raise_not_found(op, name, what, names)
    return dict(out_axis)


# Parameters that are axes of the first array argument.
AXIS_PARAMETERS = (
    "axis",
    "axes",
    "dimension",
    "dimensions",
    "axis1",
    "axis2",
    "source",
    "destination",
    "dim",
)


_NO_POSITIONS = (bool, float, np.bool_, np.floating)


def is_axis_name(entry: object) -> bool:
    """Return True if an element of an axis argument is a name."""
    return (
        is_name(entry)
        and not isinstance(entry, (jax.Array, np.ndarray, np.generic, float, bool))
        and not callable(entry)
    )


def check_axes(
    op: str, arguments: Mapping[str, Any], parameters: Collection[str] = AXIS_PARAMETERS
) -> None:
    """Raise if an axis of a named array is a boolean or a float.

    Neither is a position, although it may equal one.

    Args:
      op: the operation.
      arguments: the arguments of the call, by parameter.
      parameters: the parameters that are axes; default: `AXIS_PARAMETERS`.

    Raises:
      PositionalAxisError: there is one.
    """
    for parameter in parameters:
        axes = arguments.get(parameter)
        entries = axes if isinstance(axes, (tuple, list)) else (axes,)
        if any(isinstance(entry, _NO_POSITIONS) for entry in entries) and holds_names(
            list(arguments.values())
        ):
            raise PositionalAxisError(
                f"{op}: {parameter}={format_value(axes)} is neither a position nor a name nor a"
                " tuple of these."
            )


def holds_names(value: PyTree) -> bool:
    """Return True if a value is, or contains, an array with dims: named, or of another library."""
    kind = type(value)
    if kind is NamedArray or is_foreign_type(kind):
        return True
    if kind is tuple or kind is list:
        return any(holds_names(entry) for entry in value)
    if value is None or isinstance(
        value, (str, int, float, complex, jax.Array, np.ndarray, np.generic)
    ):
        return False
    return any(isinstance(leaf, NamedArray) for leaf in jax.tree.leaves(value, is_leaf=is_named))
