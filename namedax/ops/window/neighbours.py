"""Operations on neighbors along an axis: roll, shift, pad and diff.

Along a sharded axis each device needs certain rows of the complete axis, and `move_rows` provides
them. It splits the requested rows into runs that come from one device each, copies the device's own
rows, and sends the others. Each collective-permute transfers as many rows as possible. A roll by
one sends one row, a convolution its halo, a flip the blocks; the axis is never gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import check_fits, weak_as
from namedax.core.names import is_name
from namedax.core.records import Record
from namedax.core.variance import cast_alike, cast_data
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    PositionalAxisError,
    as_integer,
    format_value,
    reject_names,
)
from namedax.ops.operands.along_axes import by_name, entries_of, names_in
from namedax.ops.operands.axes import new_names, unwrap_single
from namedax.ops.operands.broadcasting import align, make_result
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.one_axis import Along, along, data_and_dims, finish, position_of, run
from namedax.ops.operands.operation import MOVED, AxisRequirement, Explicit, operation
from namedax.ops.operands.pytree import data_of
from namedax.ops.shape import joining
from namedax.ops.shape.inspection import size
from namedax.ops.shape.repeating import apply_to_complete_axis
from namedax.resources import communication as comm
from namedax.resources.padding_masks import refilled
from namedax.resources.row_moves import FILL, along_dim

__all__ = ["FFT_FUNCTIONS", "check_fill", "diff", "pad", "roll", "shift"]


@operation(requires_axis=MOVED, on_blocks=True)
def roll(
    a: ArrayLike, shift: int | Sequence[int] | ArrayLike, axis: AxisSpec = None
) -> LikeArguments:
    """Roll an array along axes; elements that leave at one end reenter at the other.

    Args:
      a: an array, named or not.
      shift: an integer; or one for each axis, as a tuple, a list or an array. A JAX array may be
        known at run time only. A named array shifts positional axes, with a separate shift for each
        instance.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) rolls the
        flattened positional axes, as `jnp.roll`. Required if every axis is named.

    Returns:
      An array of the same axes.

    Communication: along a sharded axis in blocks of `b` rows, a shift by `s` takes up to two
    collective-permutes. One sends `b - s % b` rows to the device `s // b` further (none if `s <
    b`). The other sends the boundary, `s % b` rows, to the device after it. A shift that is known
    only at run time sends a block for every bit of the number of devices, and one more.

    Raises:
      AxisNotFoundError: `a` lacks a named axis.
      ArgumentTypeError: a shift is not an integer.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.roll(nx.named(jnp.arange(5), ["k"]), 2, "k"), ["k"])
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    if axis is None:
        return nmap(jnp.roll)(a, sum(_shifts(shift)))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = _shifts(shift)
    if len(shifts) != len(axes):
        if 1 not in (len(shifts), len(axes)):
            raise PositionalAxisError(
                f"roll: got {len(shifts)} shifts for {len(axes)} axes, {axes}. Pass one shift for"
                " each axis."
            )
        count = max(len(shifts), len(axes))
        shifts, axes = shifts * (count // len(shifts)), axes * (count // len(axes))
    if all(isinstance(s, int) for s in shifts):
        return run("roll", _roll_all, axes, (shifts,), a)
    return _roll_all("roll", axes, shifts, a)


def _shifts(shift: int | Sequence[int] | ArrayLike) -> tuple[Any, ...]:
    """Return one shift for every axis.

    A shift that is known at run time only is an integer array without positional axes, else an
    integer.

    Raises:
      ArgumentTypeError: a shift is not an integer.
      PositionalAxisError: the shifts have more than one positional axis.
    """
    if isinstance(shift, (tuple, list)):
        entries = tuple(shift)
    elif not isinstance(shift, (np.ndarray, jax.Array, NamedArray)):
        entries = (shift,)
    elif shift.ndim > 1:
        raise PositionalAxisError(
            "roll: the shifts must be one integer for each axis, as a list or in one array, got"
            f" {type_text(shift)}."
        )
    else:
        entries = tuple(shift[i] for i in range(shift.shape[0])) if shift.ndim else (shift,)
    return tuple(map(_one_shift, entries))


def _one_shift(shift: object) -> int | AnyArray:
    if not isinstance(shift, (jax.Array, NamedArray)):
        return as_integer("roll", "shift", shift)
    if shift.ndim or not jnp.issubdtype(shift.dtype, jnp.integer):
        raise ArgumentTypeError(
            f"roll: a shift must be one integer for each axis, got {type_text(shift)}."
        )
    return shift


def _roll_all(op: str, axes: tuple[Any, ...], shifts: tuple[Any, ...], a: ArrayLike) -> AnyArray:
    for one, by in zip(axes, shifts, strict=True):
        a = _roll_one(a, by, one)
    return as_array(a, op)


def _roll_one(a: ArrayLike, by: int | AnyArray, axis: Any) -> AnyArray:
    if isinstance(by, NamedArray):
        if is_name(axis):
            raise PositionalAxisError(
                f"roll: the shift {type_text(by)} varies over named axes. Along the named axis"
                f" {format_value(axis)} use nx.take with a named index."
            )
        return Lifted(lambda data, s: jnp.roll(data, s, axis), "roll")(a, by)
    if not is_name(axis):
        data, dims = data_and_dims("roll", a)
        return make_result(jnp.roll(data, by, position_of("roll", a, axis)), dims)
    plan = along("roll", a, axis, supports_padding=isinstance(by, int))
    if not plan.old:
        return make_result(jnp.roll(plan.data, by, plan.dim), plan.dims)
    if isinstance(by, int):
        return plan.remap(
            None, np.roll(np.arange(plan.size), by), 0, lambda data: jnp.roll(data, by, plan.dim)
        )
    return make_result(_roll_at_run_time(plan, by), plan.dims)


def _roll_at_run_time(plan: Along, by: jax.Array) -> jax.Array:
    devices, block = plan.blocks(plan.old), plan.data.shape[plan.dim]
    by = jnp.mod(by, plan.size)
    blocks, rest = by // block, by % block
    data = cast_data(plan.data, plan.old)
    for bit in range((devices - 1).bit_length()):
        moved = comm.ppermute(data, plan.old, [(d, (d + 2**bit) % devices) for d in range(devices)])
        data = jnp.where((blocks >> bit) & 1, moved, data)
    before = comm.ppermute(data, plan.old, [(d, (d + 1) % devices) for d in range(devices)])
    return lax.dynamic_slice_in_dim(
        lax.concatenate([before, data], plan.dim), block - rest, block, plan.dim
    )


@operation(on_blocks=True)
def shift(
    x: ArrayLike, offset: int, axis: Hashable, fill_value: jax.typing.ArrayLike = 0
) -> LikeArguments:
    """Shift an array along one axis, drop the elements beyond one end, and fill the other end.

    Args:
      x: an array, named or not.
      offset: an integer; element `i` of the result is element `i - offset` of `x`.
      axis: a positional or named axis.
      fill_value: the value for the free elements, by default 0; among random keys, keys of zeros.

    Returns:
      An array of the same axes.

    Communication: along a sharded axis, at most the communication of `roll`.

    Raises:
      AxisNotFoundError: `x` lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.shift(nx.named(jnp.arange(5), ["k"]), -2, "k", fill_value=9), ["k"])
    Array([2, 3, 4, 9, 9], dtype=int32)
    """
    by, axis = as_integer("shift", "offset", offset), unwrap_single(axis, dims_of(x))
    if isinstance(fill_value, (int, float, complex, np.generic)):
        return run("shift", _shift, (axis,), (by, fill_value), x)
    return _shift("shift", (axis,), by, fill_value, x)


def _shift(
    op: str, axes: tuple[Any], by: int, fill_value: jax.typing.ArrayLike, x: ArrayLike
) -> AnyArray:
    (axis,) = axes
    check_fill(op, "fill_value", fill_value, x)

    def whole(data: jax.Array, dim: int) -> jax.Array:
        if comm.is_keys(data):
            return comm.over_words(lambda words: whole(words, dim), data)
        n = data.shape[dim]
        step = max(-n, min(n, by))
        # Not a pad by a negative number: XLA's partitioner computes a wrong gradient of it next to
        # a sharded array.
        kept = lax.slice_in_dim(data, max(-step, 0), n - max(step, 0), axis=dim)
        come = jnp.broadcast_to(
            jnp.asarray(fill_value, data.dtype),
            (*data.shape[:dim], abs(step), *data.shape[dim + 1 :]),
        )
        return weak_as(
            lax.concatenate(cast_alike([come, kept] if step > 0 else [kept, come]), dim), data
        )

    if not is_name(axis):
        data, dims = data_and_dims(op, x)
        return make_result(whole(data, position_of(op, x, axis)), dims)
    plan = along(op, x, axis, supports_padding=True)
    if not plan.old:
        return make_result(whole(plan.data, plan.dim), plan.dims)
    source = np.arange(plan.size) - by
    rows = np.where((source < 0) | (source >= plan.size), FILL, source)
    return plan.remap(None, rows, fill_value, lambda data: whole(data, plan.dim))


def check_fill(op: str, parameter: str, value: object, x: Any) -> None:
    """Raise if an array cannot hold a value.

    Random keys can be filled with zeros only, and an integer must be in range for the dtype.
    """
    check_fits(op, parameter, value, getattr(x, "dtype", None))
    if (
        hasattr(x, "dtype")
        and comm.is_keys(x)
        and not (isinstance(value, (int, np.integer)) and value == 0)
    ):
        raise ArgumentTypeError(
            f"{op}: {parameter}={format_value(value)} is not a key, but {type_text(x)} is an array"
            f" of random keys, which can be filled with keys of zeros only. Leave out {parameter},"
            " or insert keys with nx.where."
        )


_PAD_MODES = (
    "constant edge empty linear_ramp maximum mean median minimum reflect symmetric wrap".split()
)


_NOT_PADDED = (
    "a width without names applies to those only. Write the names with it, as in"
    " pad_width={{{last!r}: (1, 2)}}; it has {names}."
)


def _is_by_name(array: object = None, pad_width: object = None, *_: object, **__: object) -> bool:
    return isinstance(pad_width, (Mapping, str))


@operation(
    "pad_width", requires_axis=AxisRequirement(_NOT_PADDED, _is_by_name), scope=True, on_blocks=True
)
def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: jax.typing.ArrayLike = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **options: Any,
) -> LikeArguments:
    """Pad an array at the ends of its axes.

    Args:
      array: an array, named or not.
      pad_width: a dict `{"k": (before, after)}` (or `{"k": both}`) for named axes, in which
        integers are positional axes. Or the argument of `jnp.pad`, for the positional axes.
      mode: as in `jnp.pad`; by default `"constant"`.
      constant_values: for `mode="constant"`: a scalar, by default 0, or the argument of `jnp.pad`
        if `pad_width` is not a dict.
      out_axis: new names for named axes, `{"k": "k_padded"}`, or `"k_padded"` for one axis; by
        default `None`. In a mapped function a name with a known size keeps it, so a larger result
        needs another name.
      **options: as in `jnp.pad`.

    Returns:
      The padded array.

    Communication: along a sharded axis rows move only to neighboring devices, as far as blocks
    shift. The axis is gathered only if the new name is not sharded. This holds for the modes
    `"constant"`, `"edge"`, `"wrap"`, `"reflect"` and `"symmetric"`. The others, statistics and
    ramps, gather the axis.

    Raises:
      AxisNotFoundError: the array lacks a named axis.
      AxisSizeError: an axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.pad(nx.named(jnp.array([5, 6]), ["k"]), {"k": (1, 2)}), ["k"])
    Array([0, 5, 6, 0, 0], dtype=int32)
    """
    reject_names("pad", array)
    if isinstance(pad_width, str):
        width = (1, 2) if isinstance(mode, str) or callable(mode) else mode
        raise ArgumentTypeError(
            f"pad: pad_width={format_value(pad_width)} is an axis name. Write it with the width,"
            f" nx.pad(x, {{{format_value(pad_width)}: {format_value(width)}}})."
        )
    if mode == "constant":
        options = _constant_options(constant_values, options)
    if mode not in _PAD_MODES and not callable(mode):
        raise ArgumentError(
            f"pad: mode must be a function or one of {', '.join(_PAD_MODES)}, got"
            f" {format_value(mode)}."
        )
    if not isinstance(pad_width, Mapping):
        if out_axis:
            raise ArgumentError(
                f"pad: out_axis={format_value(out_axis)} is only for named axes. Write pad_width as"
                " a dict, {'k': (1, 2)}."
            )
        return Lifted(lambda data: jnp.pad(data, pad_width, mode, **options), "pad")(array)
    renamed = new_names("pad", out_axis, pad_width, f"pad_width={pad_width!r}")
    for axis, width in pad_width.items():
        pair = (width, width) if np.ndim(width) == 0 else tuple(width)
        if len(pair) != 2:
            raise PositionalAxisError(
                f"pad: the width {format_value(width)} of axis {format_value(axis)} is neither a"
                " number nor a pair (before, after)."
            )
        array = _pad_one(
            array,
            axis,
            as_integer("pad", f"the width before {axis!r}", pair[0], 0),
            as_integer("pad", f"the width after {axis!r}", pair[1], 0),
            mode,
            options,
            renamed.get(axis),
        )
    return as_array(array, "pad")


def _constant_options(values: object, others: Mapping[str, Any]) -> dict[str, Any]:
    if others:
        raise ArgumentError(
            "pad: mode='constant' takes constant_values= only, not"
            f" {', '.join(f'{name}=' for name in others)}. Named axes are the keys of"
            " pad_width={'k': (1, 2)}, and their new names are out_axis={'k': 'k2'}."
        )
    return {"constant_values": values}


def _pad_one(
    x: ArrayLike,
    axis: Hashable,
    before: int,
    after: int,
    mode: str,
    options: Mapping[str, Any],
    out_axis: Hashable | None,
) -> AnyArray:
    if mode == "constant":
        check_fill("pad", "constant_values", options["constant_values"], x)

    def whole(data: jax.Array, dim: int) -> jax.Array:
        if comm.is_keys(data) and mode == "constant":
            return comm.over_words(lambda words: whole(words, dim), data)
        return jnp.pad(
            data,
            [(before, after) if i == dim else (0, 0) for i in range(data.ndim)],
            mode,
            **options,
        )

    if not is_name(axis):
        data, dims = data_and_dims("pad", x)
        return make_result(whole(data, position_of("pad", x, axis)), dims)
    plan = along("pad", x, axis, supports_padding=True)
    if not plan.old or mode not in ("constant", "edge", "wrap", "reflect", "symmetric"):
        return apply_to_complete_axis(
            plan, out_axis, plan.size + before + after, lambda data: whole(data, plan.dim)
        )
    if mode == "constant":
        rows = np.pad(np.arange(plan.size), (before, after), constant_values=FILL)
    else:
        padded: Callable[..., np.ndarray] = np.pad
        rows = padded(np.arange(plan.size), (before, after), mode, **options)
    return plan.remap(
        out_axis, rows, options.get("constant_values", 0), lambda data: whole(data, plan.dim)
    )


class _Joined(Record):
    """A temporary name for an axis with its prepended and appended elements."""

    axis: Hashable


def _join_ends(
    a: ArrayLike, axis: Hashable, prepend: ArrayLike | None, append: ArrayLike | None
) -> AnyArray:
    """Concatenate an array and its ends along `axis` under a temporary name."""

    def part(end: ArrayLike | None) -> list[ArrayLike]:
        if end is None or axis in dims_of(end):
            return [] if end is None else [end]
        return [make_result(jnp.asarray(data_of(end))[None], (axis, *dims_of(end)))]

    return joining.concatenate([*part(prepend), a, *part(append)], axis, out_axis=_Joined(axis))


@operation(explicit=Explicit.KEPT, scope=True, on_blocks=True)
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: AxisSpec = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    *,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """Compute the `n`-th differences along one axis, which becomes shorter by `n`.

    Args:
      a: an array, named or not.
      n: the number of times that differences are taken; by default 1.
      axis: a positional or named axis; by default -1.
      prepend: values before the first, by default `None`: a scalar, or an array with the axis.
        Along a name, an array without the axis is one element.
      append: values after the last; by default `None`.
      out_axis: the name of the resulting axis, by default `None`, the same name; required in a
        mapped function in which `axis` has a different size.

    Returns:
      The differences.

    Communication: along a sharded axis each device receives the rows of the next block that it
    lacks. Several prepended or appended elements are concatenated first, for which a sharded axis
    is gathered.

    Raises:
      AxisNotFoundError: `a` lacks the name.
      AxisSizeError: in a mapped function the name has a different size than the result, or than the
        prepended or appended elements.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, first = nx.named(jnp.array([1, 4, 9]), ["k"]), nx.named(jnp.array([5, 3]), ["k"])
    >>> nx.diff(x, axis="k", prepend=first, out_axis="d").data.tolist()
    [-2, -2, 3, 5]
    """
    n, axis = as_integer("diff", "n", n, 0), unwrap_single(axis, dims_of(a))
    if not is_name(axis):
        position = position_of("diff", a, axis)  # raises for an invalid axis
        position -= sum(dim is not None for dim in dims_of(a)[:position])
        return Lifted(lambda data, p, q: jnp.diff(data, n, position, p, q), "diff")(
            a, prepend, append
        )
    ends = [end for end in (prepend, append) if end is not None]
    if any(axis in dims_of(end) for end in ends):
        a = _join_ends(a, axis, prepend, append)
        out_axis = axis if out_axis is None else out_axis
        axis, prepend, append, ends = _Joined(axis), None, None, []
    if n == 0:
        plan = along("diff", a, axis, supports_padding=True)
        return (
            apply_to_complete_axis(plan, out_axis, plan.size, lambda data: data)
            if out_axis not in (None, axis)
            else as_array(a)
        )
    if ends:
        a = _broadcast_to_all("diff", a, ends)
    plan = along("diff", a, axis, supports_padding=True)
    lead = prepend is not None
    size = plan.size + len(ends) - n
    if size < 0:
        size = 0
    dims, new = plan.result(out_axis, size)
    block = plan.block(new, size)

    def compute(keep: frozenset[str]) -> jax.Array:
        keep |= frozenset(new)
        data = plan.windows(new, -int(lead), block, block + n if size else 0, "fill", 0, keep)
        if ends:
            first = (comm.block_index(new) if new else 0) * block - int(lead)
            row = along_dim(first + jnp.arange(data.shape[plan.dim]), plan.dim, data.ndim)
            for end, at in ((prepend, -1), (append, plan.size)):
                if end is not None:
                    data = jnp.where(row == at, _entry(end, plan, data), data)
        return refilled(jnp.diff(data, n, plan.dim), plan.dim, new) if size else data

    return finish(compute, dims, frozenset(plan.old) - frozenset(new))


def _broadcast_to_all(op: str, a: ArrayLike, others: Sequence[Any]) -> NamedArray:
    """Broadcast `a` to the names, positional axes and dtype of the others."""
    datas, dims = align(op, a, *others)
    shape = jnp.broadcast_shapes(*(np.shape(data) for data in datas))
    return make_in_region(jnp.broadcast_to(datas[0], shape).astype(jnp.result_type(*datas)), dims)


def _entry(end: ArrayLike, plan: Along, data: jax.Array) -> jax.Array:
    """Expand `end` to one row along the axis of `plan`."""
    like = tuple(dim for i, dim in enumerate(plan.dims) if i != plan.dim)
    (_, value), _ = align(
        plan.op, make_in_region(lax.index_in_dim(data, 0, plan.dim, keepdims=False), like), end
    )
    value = jnp.asarray(value)
    return jnp.expand_dims(value, plan.dim) if value.ndim else value


# --- shifts of the zero frequency -----------------------------------------------------------------


def _fourier_shift(name: str) -> Callable[..., LikeArguments]:
    positional = nmap(getattr(jnp.fft, name))

    def shifted(x: ArrayLike, axes: AxisSpec = None) -> LikeArguments:
        names = names_in(axes)
        if axes is None:
            return positional(x, None)
        rest = [entry for entry in entries_of(axes) if entry not in names]
        for axis in names:
            position_of(name, x, axis)  # raises for an axis that the array lacks
            half = size(x, axis) // 2
            x = roll(x, half if name == "fftshift" else -half, axis)
        return positional(x, rest) if rest else as_array(x)

    shifted.__name__ = shifted.__qualname__ = name
    shifted.__doc__ = f"""Apply `jnp.fft.{name}` along positional or named axes.

    Args:
      x: an array, named or not.
      axes: a positional axis, an axis name, or a tuple of both; by default `None`, all positional
        axes.

    Returns:
      An array of the same axes.

    Communication: along a sharded axis, that of `nx.roll`.

    Raises:
      AxisNotFoundError: `x` lacks a name.
    """
    return shifted


FFT_FUNCTIONS = by_name(_fourier_shift("fftshift"), _fourier_shift("ifftshift"))
