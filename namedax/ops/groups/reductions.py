"""Reductions by group: `group_reduce`, and the labels of groups.

Along a sharded axis sums and extrema are segment reductions, with one all-reduce of the groups.
Quantiles sort by group and value, and read the elements at the ranks of each group.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact, extreme, inexact_type, sum_result_type
from namedax.core.names import is_name
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    as_integer,
    did_you_mean,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.indexing.take import take
from namedax.ops.operands.axes import resolve_axis, unwrap_single
from namedax.ops.operands.one_axis import along
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.cumulative import cumsum
from namedax.ops.reduction.segments import FUNCTIONS as _SEGMENTS
from namedax.ops.shape.conversion import named, untag
from namedax.ops.shape.creation import arange
from namedax.ops.shape.inspection import size
from namedax.ops.shape.joining import stack
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.selection import where
from namedax.ops.sorting.together import sort_by
from namedax.resources import communication as comm

__all__ = [
    "Labels",
    "check_ordered",
    "check_policy",
    "group_reduce",
    "host_numbers",
    "labels_of",
    "one_each",
    "present_in",
]

_isnan, _not = _ELEMENTWISE["isnan"], _ELEMENTWISE["logical_not"]
_REDUCTIONS = "sum mean max min count prod var std median quantile first last".split()


_OF_BOTH = ("var", "std", "quantile", "first", "last")


class _Hidden(Record):
    """The name of an axis of an intermediate result."""

    what: str


_PART, _FRACTION, _GROUPS = _Hidden("part"), _Hidden("q"), _Hidden("groups")


# --- labels ---------------------------------------------------------------------------------------


class Labels(Record):
    """The group of each element along an axis.

    Attributes:
      array: the numbers of the groups along the axis, if they are known at run time only.
      host: the numbers otherwise, as the bytes of 32-bit integers; negative for no group.
      count: the number of groups; `None` if it is not known.
    """

    array: NamedArray | None
    host: bytes | None
    count: int | None

    def numbers(self, axis: Hashable) -> Any:
        """Return the number of the group of each element, -1 for none."""
        if self.host is None:
            return self.array
        return named(jnp.asarray(host_numbers(self.host)), [axis])


def host_numbers(host: bytes) -> np.ndarray:
    """Return the numbers of `Labels.host`."""
    return np.frombuffer(host, np.int32)


def labels_of(
    op: str, x: ArrayLike, by: Any, axis: Hashable, groups: int | Sequence[Any] | None = None
) -> Labels:
    """Read the argument `by` of an operation along a named axis of `x`.

    Raises:
      AxisNotFoundError: `x` or `by` lacks the axis.
      AxisSizeError: there is not one label for each element.
      ArgumentTypeError: `by` is neither an array of integers with the axis nor one of labels.
    """
    resolve_axis(op, x, (axis,))
    if axis not in dims_of(x):
        raise ArgumentTypeError(
            f"{op}: axis={format_value(axis)} is a positional axis; groups need a named one. Name"
            f" it first: nx.named(x, {{{format_value(axis)}: 'time'}})."
        )
    count = None
    if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
        count = as_integer(op, "groups", groups, 0)
    if isinstance(by, NamedArray):
        if axis not in by.dims:
            raise_not_found(op, axis, f"by={type_text(by)}", names_of(by.dims))
        if by.ndim or not (jnp.issubdtype(by.dtype, jnp.integer) or by.dtype == jnp.bool_):
            raise ArgumentTypeError(
                f"{op}: by={type_text(by)} must have integers or booleans and named axes only. Pass"
                " the number of the group of each element, or labels in an array of NumPy."
            )
        if groups is not None and count is None:
            raise ArgumentTypeError(
                f"{op}: groups={format_value(groups)} must be the number of groups, because the"
                f" labels by={type_text(by)} are known at run time only."
            )
        if by.dtype == jnp.bool_:
            return Labels(by.astype(np.int32), None, 2 if count is None else count)
        return Labels(by, None, count)
    if isinstance(by, jax.Array):
        raise ArgumentTypeError(
            f"{op}: by={type_text(by)} has no axis names. Name its axis: nx.named(by,"
            f" [{format_value(axis)}])."
        )
    labels = np.asarray(by)
    n: Any = size(x, axis)
    is_known = not isinstance(n, jax.core.Tracer)  # not of stored padding, which is traced
    if labels.ndim != 1 or (is_known and labels.shape != (n,)):
        raise AxisSizeError(
            f"{op}: by has the shape {labels.shape}, but axis {format_value(axis)} of"
            f" {type_text(x)} has size {n}. Pass one label for each element."
        )
    numbers, found = _numbers(op, labels, groups if count is None else count)
    return Labels(None, np.ascontiguousarray(numbers, np.int32).tobytes(), found)


def _numbers(
    op: str, labels: np.ndarray, groups: int | Sequence[Any] | None
) -> tuple[np.ndarray, int]:
    """Return the number of each label among the groups, and the number of groups."""
    if isinstance(groups, int):
        if labels.dtype.kind not in "iub":
            raise ArgumentTypeError(
                f"{op}: groups={groups} is a number of groups, but the labels of type"
                f" {labels.dtype} are not numbers of groups. Leave it out for one group for each"
                " label, or pass the labels in their order."
            )
        within = (labels >= 0) & (labels < groups)
        return np.where(within, labels, -1), groups
    if groups is None:
        is_missing = np.zeros(labels.shape, bool)
        if labels.dtype.kind in "fcmM":
            is_missing = labels != labels
        elif labels.dtype.kind in "iu":
            is_missing = labels < 0
        known, places = np.unique(labels[~is_missing], return_inverse=True)
        numbers = np.full(labels.shape, -1)
        numbers[~is_missing] = places.reshape(-1)
        return numbers, len(known)
    known = np.asarray(groups)
    order = np.argsort(known, kind="stable")
    in_order = known[order]
    if known.ndim != 1 or (in_order[1:] == in_order[:-1]).any():
        raise ArgumentError(
            f"{op}: groups={format_value(groups)} must be a number, or different labels in their"
            " order."
        )
    if not len(known):
        return np.full(labels.shape, -1), 0
    places = np.minimum(np.searchsorted(in_order, labels), len(known) - 1)
    return np.where(in_order[places] == labels, order[places], -1), len(known)


def check_policy(op: str, nan_policy: str) -> None:
    """Raise if `nan_policy` is unknown."""
    if nan_policy not in ("omit", "propagate"):
        raise ArgumentError(
            f"{op}: nan_policy must be 'omit' or 'propagate', got {format_value(nan_policy)}."
        )


def check_ordered(op: str, reduction: str, dtype: Any, text: object) -> None:
    """Raise if elements of `dtype` have no maximum and minimum; `text` says what has them."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            f"{op}: reduction={reduction!r} of {text} is not defined, because complex numbers have"
            " no order. Take their nx.abs, nx.real or nx.imag first."
        )


def one_each(x: Any, dtype: Any) -> Any:
    """Return the number 1 for each element of an array."""
    return apply_elementwise("ones_like", lambda data: jnp.ones_like(data, dtype), x)


def present_in(x: AnyArray, nan_policy: str) -> AnyArray | None:
    """Return the mask of the elements that are not NaN; `None` if no element is left out."""
    if nan_policy == "propagate" or not jnp.issubdtype(x.dtype, jnp.inexact):
        return None
    present: AnyArray = _not(_isnan(x))
    return present


# --- reductions -----------------------------------------------------------------------------------


@checks_signature
def group_reduce(
    x: ArrayLike,
    by: Any,
    axis: Hashable,
    reduction: str = "mean",
    *,
    out_axis: Hashable,
    groups: int | Sequence[Any] | None = None,
    q: float | Sequence[float] | None = None,
    nan_policy: str = "omit",
) -> AnyArray:
    """Reduce the elements of each group along a named axis, as `groupby` of pandas and xarray.

    Args:
      x: a named array.
      by: the group of each element. A list or an array of NumPy has one label of any type for each
        element along `axis`, such as a month, and the groups are the different labels, sorted
        (`np.unique`). A named array has the numbers of the groups along `axis`; its other axes are
        batch axes. It may be known at run time only. Elements with a negative number, NaN or NaT,
        or a label that is not in `groups`, are in no group.
      axis: the axis of the elements.
      reduction: `"mean"` (default), `"sum"`, `"max"`, `"min"`, `"count"`, `"prod"`, `"var"`,
        `"std"`, `"median"`, `"quantile"` (of `q`), `"first"` or `"last"`.
      out_axis: the name of the axis of the groups.
      groups: the number of groups, or all labels in the order of the result; by default `None`, the
        labels that occur. Required for a named array `by`, unless the mapped function has a size
        for `out_axis`, or the labels are booleans.
      q: a number between 0 and 1, or a sequence of them; by default `None`.
      nan_policy: `"omit"` (default) leaves NaN out; `"propagate"` makes the result of its group
        NaN.

    Returns:
      The axes of `x` and `by` without `axis`, and the axis of the groups; an axis of several `q` is
      the first positional one. A group without elements has the sum and the count 0, the product 1,
      and NaN otherwise. For integers its maximum is the least value of the dtype, its minimum the
      greatest, and its first and last element 0. As in JAX, a product has no gradient.

    Communication: along a sharded axis, one all-reduce of the result, or one reduce-scatter if
    `out_axis` is sharded over the same mesh axis. A mean with NaN left out adds the counts to it;
    other counts are a second one, unless the labels are from NumPy. Variances and first and last
    elements take two. Quantiles sort as `nx.sort_by`, and take one all-reduce for each of: the
    sizes of the groups, the counts, and the elements at the ranks. The axis is never gathered.

    Raises:
      AxisNotFoundError: `x` or `by` lacks the axis, or the number of groups is not known.
      AxisSizeError: `by` does not have one label for each element.
      ArgumentError: the reduction is unknown, or `q` is missing or out of range.

    >>> import numpy as np, namedax as nx
    >>> x = nx.named(np.array([1.0, 2.0, np.nan, 4.0], "f4"), ["day"])
    >>> month = np.array(["2001-01", "2001-01", "2001-02", "2001-02"], "datetime64[M]")
    >>> nx.group_reduce(x, by=month, axis="day", out_axis="month").data
    Array([1.5, 4. ], dtype=float32)
    >>> season = nx.named(np.array([1, 0, 0, 1]), ["day"])
    >>> nx.group_reduce(x, season, "day", "max", groups=3, out_axis="season").data
    Array([ 2.,  4., nan], dtype=float32)
    """
    op = "group_reduce"
    x, axis = as_array(x, op), unwrap_single(axis, dims_of(x))
    labels = labels_of(op, x, by, axis, groups)
    check_policy(op, nan_policy)
    others = {*dims_of(x), *(dims_of(labels.array) if labels.array is not None else ())} - {axis}
    if not is_name(out_axis) or out_axis in others:
        raise AxisNameError(
            f"{op}: out_axis={format_value(out_axis)} must be an axis name that {type_text(x)} and"
            " by= lack."
        )
    if reduction not in _REDUCTIONS:
        raise ArgumentError(
            f"{op}: reduction must be one of {show_names(_REDUCTIONS)}, got"
            f" {format_value(reduction)}.{did_you_mean(reduction, _REDUCTIONS)}"
        )
    if (q is None) == (reduction == "quantile"):
        raise ArgumentError(
            f"{op}: reduction={reduction!r} with q={format_value(q)}. Pass q, a number from 0 to 1"
            " or several, with reduction='quantile' only."
        )
    if reduction == "median":
        reduction, q = "quantile", 0.5
    if q is not None and (np.ndim(q) > 1 or np.any(np.less(q, 0) | np.greater(q, 1))):
        raise ArgumentError(f"{op}: q={format_value(q)} must be from 0 to 1.")
    fractions: Any = q if q is None or np.ndim(q) == 0 else tuple(np.asarray(q).tolist())
    return _reduce(
        x, labels.array, axis, reduction, out_axis, labels.host, labels.count, fractions, nan_policy
    )


@operation(name="group_reduce", scope=True, on_blocks=True)
def _reduce(
    x: AnyArray,
    by: NamedArray | None,
    axis: Hashable,
    reduction: str,
    out_axis: Hashable,
    host: bytes | None,
    count: int | None,
    q: float | tuple[float, ...] | None,
    nan_policy: str,
) -> AnyArray:
    along("group_reduce", x, axis, supports_padding=True)  # raises for stored padding
    region = ambient()
    if count is None:
        count = None if region is None else region.sizes.get(out_axis)
    if count is None:
        raise AxisNotFoundError(
            f"group_reduce: the number of groups is not known. Pass groups=12, or the size of"
            f" {format_value(out_axis)} in axis_sizes of xmap."
        ).about(axis=out_axis, found_size=None if region is None else region.found_size(out_axis))
    # Where groups and elements meet in one value, the axis of the groups is complete.
    out = _GROUPS if reduction in _OF_BOTH else out_axis
    groups = _Groups(Labels(by, host, count), axis, out, count)
    present = present_in(x, nan_policy)
    result: AnyArray
    if q is not None:
        result = groups.quantile(x, q, nan_policy == "omit")
    else:
        result = getattr(groups, reduction)(x, present)
    return rename(result, {out: out_axis}) if out != out_axis else result


class _Groups(Record):
    """The groups of the elements along an axis.

    Each method reduces an array. Its elements that `present` leaves out are missing; `None` stands
    for none.

    Attributes:
      labels: the labels.
      axis: the axis of the elements.
      out: the axis of the groups.
      number: the number of groups.
    """

    labels: Labels
    axis: Hashable
    out: Hashable
    number: int

    @property
    def numbers(self) -> Any:
        """The number of the group of each element."""
        return self.labels.numbers(self.axis)

    def segment(self, kind: str, x: AnyArray) -> Any:
        """Return a segment reduction over the groups."""
        return _SEGMENTS[f"segment_{kind}"](
            x, self.numbers, self.number, axis=self.axis, out_axis=self.out
        )

    def sizes(self) -> Any:
        """Return the number of elements of each group, missing ones included."""
        if self.labels.host is None:
            return self.segment("sum", one_each(self.numbers, np.int32))
        numbers = host_numbers(self.labels.host)
        counts = np.bincount(numbers[numbers >= 0], minlength=self.number).astype(np.int32)
        return named(jnp.asarray(counts), [self.out])

    def of_elements(self, x: AnyArray) -> Any:
        """Return the value of its group for each element, and any value for those without one."""
        return take(x, self.numbers, self.out, mode="clip")

    # --- one all-reduce ---

    def sum(self, x: Any, present: Any) -> Any:
        """Return the sums."""
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            x = x.astype(sum_result_type(x.dtype))
        wide = x.astype(comm.sum_type(x.dtype))
        return self.segment("sum", _filled(wide, present, 0)).astype(x.dtype)

    def prod(self, x: Any, present: Any) -> Any:
        """Return the products."""
        return self.segment("prod", _filled(x, present, 1))

    def count(self, x: Any, present: Any) -> Any:
        """Return the numbers of elements."""
        ones = one_each(x, np.int32) if present is None else present.astype(np.int32)
        return self.segment("sum", ones)

    def mean(self, x: Any, present: Any) -> Any:
        """Return the means."""
        mean, _ = self._mean(as_inexact(x), present)
        return mean.astype(inexact_type(x.dtype))

    def _mean(self, x: Any, present: Any) -> tuple[Any, Any]:
        """Return the means and the counts, in the dtype of sums."""
        wide = x.astype(comm.sum_type(x.dtype))
        if present is None or size(x, self.axis) >= 2**24:  # beyond it floats cannot count
            count = self.sizes() if present is None else self.count(x, present)
            total = self.segment("sum", _filled(wide, present, 0))
        else:
            pair = stack([_filled(wide, present, 0), present.astype(wide.dtype)], axis=_PART)
            sums = self.segment("sum", pair)
            total, count = sums[{_PART: 0}], sums[{_PART: 1}]
        count = count.astype(wide.real.dtype)
        return where(count > 0, total / _ELEMENTWISE["maximum"](count, 1), np.nan), count

    def var(self, x: Any, present: Any) -> Any:
        """Return the variances."""
        mean, count = self._mean(as_inexact(x), present)
        far = _filled(_ELEMENTWISE["abs"](x - self.of_elements(mean)), present, 0)
        total = self.segment("sum", far * far)
        variance = where(count > 0, total / _ELEMENTWISE["maximum"](count, 1), np.nan)
        return variance.astype(as_inexact(x).real.dtype)

    def std(self, x: Any, present: Any) -> Any:
        """Return the standard deviations."""
        return _ELEMENTWISE["sqrt"](self.var(x, present))

    def max(self, x: Any, present: Any) -> Any:
        """Return the maxima."""
        return self._extremum("max", x, present)

    def min(self, x: Any, present: Any) -> Any:
        """Return the minima."""
        return self._extremum("min", x, present)

    def _extremum(self, kind: str, x: Any, present: Any) -> Any:
        check_ordered("group_reduce", kind, x.dtype, type_text(x))
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            return self.segment(kind, x)
        if present is None and self.labels.host is not None:
            return where(self.sizes() > 0, self.segment(kind, x), np.nan).astype(x.dtype)
        # A group has elements if the extremum of a constant is that constant.
        none = extreme(x.dtype, kind == "max")
        marks = _filled(one_each(x, x.dtype), present, none)
        both = self.segment(kind, stack([_filled(x, present, none), marks], axis=_PART))
        return where(both[{_PART: 1}] == 1, both[{_PART: 0}], np.nan).astype(x.dtype)

    # --- two all-reduces ---

    def first(self, x: Any, present: Any) -> Any:
        """Return the first elements."""
        return self._element(x, present, "min", size(x, self.axis))

    def last(self, x: Any, present: Any) -> Any:
        """Return the last elements."""
        return self._element(x, present, "max", -1)

    def _element(self, x: Any, present: Any, kind: str, none: int) -> Any:
        x, names = _without_positions(x)
        present = None if present is None else _without_positions(present)[0]
        n = size(x, self.axis)
        index = _filled(arange(n, axis=self.axis).astype(np.int32), present, none)
        at = self.segment(kind, index)
        missing = (at < 0) | (at >= n)
        element = take(x, where(missing, 0, at), self.axis)
        nothing = np.nan if jnp.issubdtype(x.dtype, jnp.inexact) else 0
        return _with_positions(where(missing, jnp.asarray(nothing, x.dtype), element), names)

    # --- a sort ---

    def quantile(self, x: Any, q: float | tuple[float, ...], omit: bool) -> Any:
        """Return the quantiles: the elements at their ranks, in the order of groups and values."""
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise ArgumentTypeError(
                "group_reduce: complex numbers have no order. Take their nx.abs, nx.real or nx.imag"
                " first."
            )
        x, names = _without_positions(as_inexact(x))
        numbers = self.numbers
        numbers = where((numbers < 0) | (numbers >= self.number), self.number, numbers)
        ordered = sort_by(x, (numbers, x), self.axis)
        sizes = self.sizes()
        counts = self.count(x, present_in(x, "omit"))
        wide = jnp.promote_types(x.dtype, np.float32)
        fraction = jnp.asarray(q, wide)
        top = _ELEMENTWISE["maximum"](counts - 1, 0)
        rank = (named(fraction, [_FRACTION]) if fraction.ndim else fraction) * top.astype(wide)
        low = _ELEMENTWISE["floor"](rank)
        above = rank - low
        ranks = stack([low, _ELEMENTWISE["ceil"](rank)], axis=_PART).astype(np.int32)
        first = cumsum(sizes, self.out) - sizes
        at = first + _ELEMENTWISE["minimum"](ranks, top)
        picked = take(ordered, at, self.axis, mode="clip").astype(wide)
        low_value, high_value = picked[{_PART: 0}], picked[{_PART: 1}]
        mixed = low_value * (1 - above) + high_value * above
        result = where(above == 0, low_value, mixed)
        known = counts > 0 if omit else (counts > 0) & (counts == sizes)
        result = where(known, result, np.nan).astype(x.dtype)
        return _with_positions(result, [*([_FRACTION] if fraction.ndim else []), *names])


def _filled(x: Any, present: Any, value: Any) -> Any:
    return x if present is None else where(present, x, np.asarray(value, x.dtype))


class _Position(Record):
    """The name of a positional axis while elements are read by index."""

    number: int


def _without_positions(x: Any) -> tuple[Any, list[_Position]]:
    """Return `x` with names for its positional axes, and the names."""
    names = [_Position(i) for i in range(x.ndim)]
    return named(x, dict(enumerate(names))) if names else x, names


def _with_positions(x: Any, names: Sequence[Hashable]) -> Any:
    """Turn the axes `names` into the positional axes of `x`, in this order."""
    return untag(x, list(names)) if names else x
