"""Cumulative operations along one axis, named or positional: cumsum, cumprod, cummax and so on.

Along a sharded axis every device scans its own block. One all-gather collects the totals of the
blocks (one element per device and row), never the axis. Every device combines the totals of the
preceding blocks, and combines the result with its block. The gradient adds one reduce-scatter of
the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import accumulate, extreme, weak_as
from namedax.core.names import DType
from namedax.core.prefix_scan import NEEDS_RULE, prefix_scan, with_scan_rule
from namedax.core.region import ambient
from namedax.core.reshape import as_one
from namedax.core.variance import cast_data
from namedax.errors import ArgumentTypeError, PositionalAxisError, check_options, format_value
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key, is_axis_name
from namedax.ops.operands.broadcasting import constrain_sharding, make_result, to_local
from namedax.ops.operands.one_axis import along
from namedax.ops.operands.operation import MOVED, Explicit, operation
from namedax.ops.reduction.plan import ReductionPlan, reduction_plan
from namedax.resources import communication as comm
from namedax.resources.padding_masks import masked, only_real, real_blocks, real_entries
from namedax.resources.row_moves import FILL

__all__ = [
    "LAX_FUNCTIONS",
    "cumprod",
    "cumsum",
    "flatten_positional",
    "plan_of_one_axis",
]


def plan_of_one_axis(
    op: str, x: ArrayLike, axis: AxisSpec, supports_padding: bool = False
) -> ReductionPlan:
    """Plan an operation along one axis; `supports_padding` as for any reduction.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.
    """
    plan = reduction_plan(op, x, axis, supports_padding=supports_padding)
    if axis is None or len(plan.axes) != 1:
        raise PositionalAxisError(
            f"{op}: axis={format_value(axis)} must be one positional or named axis."
        )
    return plan


def flatten_positional(op: str, x: ArrayLike) -> AnyArray:
    """Merge the positional axes of `x` into one at the end, as for `axis=None` in `jnp`."""
    x = to_local(x, op, ambient())
    if not isinstance(x, NamedArray):
        return jnp.ravel(x)
    names = [i for i, dim in enumerate(x.dims) if dim is not None]
    places = [i for i, dim in enumerate(x.dims) if dim is None]
    data = lax.transpose(x.data, names + places)
    return make_result(as_one(data, len(names), len(places)), (*(x.dims[i] for i in names), None))


Scan = Callable[..., Any]


def _identity(op: str, dtype: DType) -> np.ndarray:
    if op in ("cumsum", "cumprod"):
        return np.asarray(op == "cumprod", dtype)
    if op == "cumlogsumexp" and jnp.issubdtype(dtype, jnp.complexfloating):
        return np.asarray(-np.inf, dtype)
    return extreme(dtype, op != "cummin")


def _logaddexp(a: jax.Array, b: jax.Array) -> jax.Array:
    """Apply `jnp.logaddexp`, with the derivative zero, not NaN, if both are minus infinity."""
    if jnp.iscomplexobj(a):
        return jnp.logaddexp(a, b)
    is_nothing = jnp.maximum(a, b) == -jnp.inf
    both = jnp.logaddexp(jnp.where(is_nothing, 0, a), jnp.where(is_nothing, 0, b))
    return jnp.where(is_nothing, -jnp.inf, both)


def _cumlogsumexp(data: jax.Array, axis: int, reverse: bool = False) -> jax.Array:
    """Apply `lax.cumlogsumexp`; its sum of complex numbers is NaN under XLA's partitioner.

    The derivative is right for elements of minus infinity, such as masked ones.
    """
    if jnp.iscomplexobj(data):
        return prefix_scan(_logaddexp, data, axis=axis, reverse=reverse)
    return with_scan_rule(lax.cumlogsumexp, _logaddexp)(data, axis=axis, reverse=reverse)


def _compiling(scan: Scan, combine: Callable[[Any, Any], Any]) -> Scan:
    return with_scan_rule(scan, combine) if NEEDS_RULE else scan


def _extremum_scan(largest: bool) -> tuple[Scan, Callable[[Any, Any], Any]]:
    """Return a cumulative maximum (if `largest`) or minimum, and the extremum of two arrays.

    XLA drops the NaN of complex numbers.
    """
    scan, combine = (lax.cummax, lax.max) if largest else (lax.cummin, lax.min)
    scan = _compiling(scan, combine)

    def combine_any(a: jax.Array, b: jax.Array) -> jax.Array:
        if not jnp.iscomplexobj(a):
            return combine(a, b)
        return jnp.where(jnp.isnan(a), a, jnp.where(jnp.isnan(b), b, combine(a, b)))

    def scan_any(data: jax.Array, axis: int, reverse: bool = False) -> jax.Array:
        if not jnp.iscomplexobj(data):
            return scan(data, axis=axis, reverse=reverse)
        return prefix_scan(combine_any, data, axis=axis, reverse=reverse)

    return scan_any, combine_any


_SCANS: dict[str, tuple[Scan, Callable[[Any, Any], Any]]] = {
    "cumsum": (lax.cumsum, lax.add),
    "cumprod": (_compiling(lax.cumprod, lax.mul), lax.mul),
    "cummax": _extremum_scan(True),
    "cummin": _extremum_scan(False),
    "cumlogsumexp": (_cumlogsumexp, _logaddexp),
}


def _continue_over_blocks(
    kind: str, local: jax.Array, plan: ReductionPlan, reverse: bool
) -> jax.Array:
    """Combine the scans of the blocks, `local`, into the scan of the complete axis."""
    scan, combine = _SCANS[kind]
    (dim,) = plan.axes
    local = cast_data(local, plan.mesh_axes)
    n = local.shape[dim]
    if n == 0:
        return local
    total = (
        lax.slice_in_dim(local, 0, 1, axis=dim)
        if reverse
        else lax.slice_in_dim(local, n - 1, n, axis=dim)
    )
    totals = comm.all_gather(total, dim, plan.mesh_axes, "varying")
    if reverse and plan.uneven:  # without totals of padding only, where the scan would begin
        totals = lax.slice_in_dim(totals, 0, real_blocks(plan.uneven[0][1], n), axis=dim)
    totals = scan(totals, axis=dim, reverse=reverse)
    devices = totals.shape[dim]
    before = comm.block_index(plan.mesh_axes) + (1 if reverse else -1)
    exists = (before >= 0) & (before < devices)
    prefix = lax.dynamic_slice_in_dim(totals, jnp.clip(before, 0, devices - 1), 1, dim)
    # The first block has no prefix. The identity keeps the unused branch finite, so that its
    # derivative is not NaN.
    prefix = jnp.where(exists, prefix, jnp.asarray(_identity(kind, local.dtype)))
    return weak_as(
        jnp.where(exists, combine(jnp.broadcast_to(prefix, local.shape), local), local), local
    )


def _scan_with_padding(
    local: Callable[[Any, int], Any], kind: str, plan: ReductionPlan, reverse: bool
) -> jax.Array:
    """Scan an axis with padding in its last blocks; `local` scans one dimension of a block.

    Padding follows the real elements. A scan from the beginning therefore never includes it in a
    real result, and padding gets copies of the last one. A scan from the end would always include
    it: there each block is rotated so that its padding comes first. (As the identity, padding would
    tie with a real infinity.)
    """
    ((dim, place),) = plan.uneven
    block = plan.data.shape[dim]
    nothing: Any = _identity(kind, plan.data.dtype)
    data = masked(cast_data(plan.data, plan.mesh_axes), dim, place, nothing)
    if not reverse:
        data = _continue_over_blocks(kind, local(data, dim), plan, reverse)
        return only_real(data, data, dim, place)
    real = real_entries(place, block)
    data = _turned(local(_turned(data, dim, real), dim), dim, block - real)
    data = _continue_over_blocks(kind, data, plan, reverse)
    # The last result is the result of the last element alone, and padding copies it.
    alone = local(jnp.expand_dims(plan.data, plan.data.ndim), plan.data.ndim)
    return only_real(data, lax.squeeze(alone, [plan.data.ndim]), dim, place)


def _turned(data: jax.Array, dim: int, start: jax.Array | int) -> jax.Array:
    """Rotate `data` along a dimension, so that it begins at `start`."""
    return lax.dynamic_slice_in_dim(lax.concatenate([data, data], dim), start, data.shape[dim], dim)


def _run(
    op: str, kind: str, local: Scan, x: ArrayLike, axis: AxisSpec, reverse: bool, *static: object
) -> AnyArray:
    """Apply `local(op, data, dim, reverse, *static)` to every block, then scan over the blocks."""
    try:
        hash((reverse, static))
    except TypeError:
        check_options(op, reverse=reverse, **dict(zip(("dtype",), static, strict=False)))
    return kernels.run(op, _accumulate, axis_key(op, axis), (kind, local, reverse, static), x)


def _accumulate(
    op: str,
    axis: AxisSpec,
    kind: str,
    local: Scan,
    reverse: bool,
    static: tuple[Any, ...],
    x: ArrayLike,
) -> AnyArray:
    if axis is None:
        x = flatten_positional(op, x)
    x = as_array(x, op)
    if kind == "cumlogsumexp" and not jnp.issubdtype(x.dtype, jnp.inexact):
        raise ArgumentTypeError(
            f"cumlogsumexp: the elements are {x.dtype}, not floats. Convert them first:"
            " x.astype(float)."
        )
    dtype, *options = static or (None,)

    def scan(x: AnyArray, dtype: DType | None) -> AnyArray:
        return _scan(op, axis, kind, local, reverse, (dtype, *options) if static else (), x)

    return accumulate(op, scan, x, dtype)


def _scan(
    op: str,
    axis: AxisSpec,
    kind: str,
    local: Scan,
    reverse: bool,
    static: tuple[Any, ...],
    x: ArrayLike,
) -> AnyArray:
    plan = plan_of_one_axis(
        op, x, dims_of(x).count(None) - 1 if axis is None else axis, supports_padding=True
    )
    if plan.uneven:
        return plan.finish_whole(
            _scan_with_padding(
                lambda data, dim: local(op, data, dim, reverse, *static), kind, plan, reverse
            )
        )
    # XLA's partitioner pads shards with zeros, which are not an identity of the maximum.
    whole = tuple(None if i in plan.axes else dim for i, dim in enumerate(plan.dims_in))
    data = constrain_sharding(
        local(op, constrain_sharding(plan.data, whole), plan.axes[0], reverse, *static), whole
    )
    if plan.mesh_axes:
        data = _continue_over_blocks(kind, data, plan, reverse)
    return plan.finish_whole(data)


def _numpy_scan(
    op: str, data: jax.Array, dim: int, reverse: bool, dtype: DType | None
) -> jax.Array:
    result_type = data.dtype if dtype is None else dtype
    if NEEDS_RULE and op.endswith("cumprod") and jnp.issubdtype(result_type, jnp.inexact):
        data = jnp.where(jnp.isnan(data), 1, data) if op == "nancumprod" else data
        return _lax_scan("cumprod", data.astype(result_type), dim, reverse)
    function = getattr(jnp, op)
    if not reverse:
        return function(data, axis=dim, dtype=dtype)
    return jnp.flip(function(jnp.flip(data, dim), axis=dim, dtype=dtype), dim)


def _lax_scan(op: str, data: jax.Array, dim: int, reverse: bool) -> jax.Array:
    return _SCANS[op.removeprefix("lax.")][0](data, axis=dim, reverse=reverse)


def _run_numpy(
    op: str, kind: str, x: ArrayLike, axis: AxisSpec, dtype: DType | None, reverse: bool
) -> AnyArray:
    return _run(op, kind, _numpy_scan, x, axis, reverse, dtype)


def _run_lax(kind: str, x: ArrayLike, axis: AxisSpec, reverse: bool) -> AnyArray:
    return _run(f"lax.{kind}", kind, _lax_scan, x, axis, reverse)


@operation(requires_axis=MOVED, explicit=Explicit.KEPT, cached=True, on_blocks=True)
def cumsum(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False
) -> LikeArguments:
    """Compute the cumulative sum along one axis.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes, as in
        `jnp.cumsum`. Required if every axis is named.
      dtype: the dtype of the result, as in `jnp.cumsum`; by default `None`.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `x`.

    Communication: along a sharded axis, one all-gather of the sums of the blocks, one element per
    device and row. The gradient, a cumulative sum from the other end, adds one reduce-scatter of
    the same size.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 3.0]), ["pos"])
    >>> nx.positional(nx.cumsum(x, "pos"), ["pos"])
    Array([1., 3., 6.], dtype=float32)
    """
    return _run_numpy("cumsum", "cumsum", x, axis, dtype, reverse)


@operation(requires_axis=MOVED, explicit=Explicit.KEPT, cached=True, on_blocks=True)
def cumprod(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False
) -> LikeArguments:
    """Compute the cumulative product along one axis.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes. Required if
        every axis is named.
      dtype: the dtype of the result, as in `jnp.cumprod`; by default `None`.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `x`.

    Communication: as for `nx.cumsum`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.cumprod(nx.named(jnp.array([1.0, 2.0, 3.0]), ["pos"]), "pos"), ["pos"])
    Array([1., 2., 6.], dtype=float32)
    """
    return _run_numpy("cumprod", "cumprod", x, axis, dtype, reverse)


@operation(requires_axis=MOVED, explicit=Explicit.KEPT, cached=True, on_blocks=True)
def nancumsum(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False
) -> LikeArguments:
    """Compute the cumulative sum along one axis with NaN as zero.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes. Required if
        every axis is named.
      dtype: the dtype of the result, as in `jnp.nancumsum`; by default `None`.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `x`.

    Communication: as for `nx.cumsum`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, jnp.nan, 3.0]), ["pos"])
    >>> nx.positional(nx.nancumsum(x, "pos"), ["pos"])
    Array([1., 1., 4.], dtype=float32)
    """
    return _run_numpy("nancumsum", "cumsum", x, axis, dtype, reverse)


@operation(requires_axis=MOVED, explicit=Explicit.KEPT, cached=True, on_blocks=True)
def nancumprod(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False
) -> LikeArguments:
    """Compute the cumulative product along one axis with NaN as one.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes. Required if
        every axis is named.
      dtype: the dtype of the result, as in `jnp.nancumprod`; by default `None`.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `x`.

    Communication: as for `nx.cumsum`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([2.0, jnp.nan, 3.0]), ["pos"])
    >>> nx.positional(nx.nancumprod(x, "pos"), ["pos"])
    Array([2., 2., 6.], dtype=float32)
    """
    return _run_numpy("nancumprod", "cumprod", x, axis, dtype, reverse)


def _run_cumulative(
    op: str,
    kind: str,
    x: ArrayLike,
    axis: AxisSpec,
    dtype: DType | None,
    include_initial: bool,
    out_axis: Hashable | None,
    identity: int,
) -> LikeArguments:
    if include_initial and axis is not None and is_axis_name(axis):
        result = _run(op, kind, _cumulative_scan, x, axis, False, dtype, False)
        return _prepended(result, axis, identity, out_axis)
    if axis is None:
        if dims_of(x).count(None) != 1:
            raise PositionalAxisError(
                f"{op}: axis= is required unless there is exactly one positional axis, but"
                f" {type_text(x)} has {dims_of(x).count(None)}. Pass a positional or named axis."
            )
        axis = 0
    if include_initial and plan_of_one_axis(op, x, axis).named:
        raise PositionalAxisError(
            f"{op}: include_initial=True makes axis {format_value(axis)} longer by one, but a name"
            " has one size. Leave it out, or use a positional axis."
        )
    return _run(op, kind, _cumulative_scan, x, axis, False, dtype, include_initial)


def _prepended(x: AnyArray, axis: Hashable, value: int, out_axis: Hashable | None) -> LikeArguments:
    """Prepend one element along a named axis, which may get another name."""
    plan = along("pad", x, axis, supports_padding=True)

    def whole(data: jax.Array) -> jax.Array:
        widths = [(int(dim == plan.dim), 0) for dim in range(data.ndim)]
        return jnp.pad(data, widths, constant_values=value)

    rows = np.pad(np.arange(plan.size), (1, 0), constant_values=FILL)
    return plan.remap(out_axis, rows, value, whole)


def _cumulative_scan(
    op: str, data: jax.Array, dim: int, reverse: bool, dtype: DType | None, include_initial: bool
) -> jax.Array:
    return getattr(jnp, op)(data, axis=dim, dtype=dtype, include_initial=include_initial)


@operation(scope=True, on_blocks=True)
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    include_initial: bool = False,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """Compute the cumulative sum along one axis, as in the array API; narrow integers become `int`.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; may be omitted (`None`, the default) if there is exactly one
        positional axis.
      dtype: the dtype of the result; by default `None`.
      include_initial: if `True`, the result begins with 0 and is longer by one; by default `False`.
      out_axis: the name of the longer axis, by default `None`, the same name; required in a mapped
        function in which `axis` has a size.

    Returns:
      An array with the axes of `x`.

    Communication: that of `cumsum`; with `include_initial` along a sharded axis, that of `pad` too.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      AxisSizeError: the longer axis has a different size in the mapped function.
      PositionalAxisError: `axis` is not one axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 3.0]), ["pos"])
    >>> nx.numpy.cumulative_sum(x, axis="pos", include_initial=True, out_axis="edge").data.tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    return _run_cumulative(
        "cumulative_sum", "cumsum", x, axis, dtype, include_initial, out_axis, identity=0
    )


@operation(scope=True, on_blocks=True)
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    include_initial: bool = False,
    out_axis: Hashable | None = None,
) -> LikeArguments:
    """Compute the cumulative product along one axis, as in the array API.

    Narrow integers become `int`.

    Args:
      x: an array, named or not.
      axis: a positional or named axis; may be omitted (`None`, the default) if there is exactly one
        positional axis.
      dtype: the dtype of the result; by default `None`.
      include_initial: if `True`, the result begins with 1 and is longer by one; by default `False`.
      out_axis: the name of the longer axis, by default `None`, the same name; required in a mapped
        function in which `axis` has a size.

    Returns:
      An array with the axes of `x`.

    Communication: as for `nx.numpy.cumulative_sum`.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      AxisSizeError: the longer axis has a different size in the mapped function.
      PositionalAxisError: `axis` is not one axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 3.0]), ["pos"])
    >>> nx.numpy.cumulative_prod(x, axis="pos", include_initial=True, out_axis="edge").data.tolist()
    [1.0, 1.0, 2.0, 6.0]
    """
    return _run_cumulative(
        "cumulative_prod", "cumprod", x, axis, dtype, include_initial, out_axis, identity=1
    )


@operation(explicit=Explicit.KEPT, on_blocks=True)
def cummax(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> LikeArguments:
    """Compute the cumulative maximum along one axis, as `lax.cummax`.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: along a sharded axis, one all-gather of the maxima of the blocks, one element per
    device and row. The gradient adds one reduce-scatter of the same size.

    Equal maxima share the gradient. With more than two of them the shares follow the comparison
    tree, also in JAX, and that tree depends on the blocks.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.cummax(nx.named(jnp.array([2.0, 1.0, 3.0]), ["pos"]), "pos"), ["pos"])
    Array([2., 2., 3.], dtype=float32)
    """
    return _run_lax("cummax", operand, axis, reverse)


@operation(explicit=Explicit.KEPT, on_blocks=True)
def cummin(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> LikeArguments:
    """Compute the cumulative minimum along one axis, as `lax.cummin`.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: as for `nx.cummax`.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.cummin(nx.named(jnp.array([2.0, 1.0, 3.0]), ["pos"]), "pos"), ["pos"])
    Array([2., 1., 1.], dtype=float32)
    """
    return _run_lax("cummin", operand, axis, reverse)


@operation(explicit=Explicit.KEPT, on_blocks=True)
def cumlogsumexp(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> LikeArguments:
    """Compute the cumulative `log(sum(exp(x)))` along one axis, as `lax.cumlogsumexp`.

    The derivative with respect to elements of minus infinity, such as masked ones, is zero. In JAX
    (0.10 to 0.12) it is NaN where two of them are side by side.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: as for `nx.cummax`.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1000.0, 1000.0]), ["pos"])
    >>> round(float(nx.max(nx.cumlogsumexp(x, "pos"), "pos")), 3)
    1000.693
    """
    return _run_lax("cumlogsumexp", operand, axis, reverse)


@operation(name="cumsum", on_blocks=True)
def _lax_cumsum(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> LikeArguments:
    """Compute the cumulative sum along one axis, with the dtype preserved.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: as for `nx.cumsum`.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.
    """
    return _run_lax("cumsum", operand, axis, reverse)


@operation(name="cumprod", on_blocks=True)
def _lax_cumprod(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> LikeArguments:
    """Compute the cumulative product along one axis, with the dtype preserved.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: as for `nx.cumsum`.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.
    """
    return _run_lax("cumprod", operand, axis, reverse)


for _name, _function in (("cumsum", _lax_cumsum), ("cumprod", _lax_cumprod)):
    _function.__name__ = _function.__qualname__ = _name
    _function.__module__ = "namedax.lax"  # where pickle finds it by its name


#: The functions of `jax.lax`; its cumsum and cumprod differ from the functions of `jax.numpy`.
LAX_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (_lax_cumsum, _lax_cumprod, cummax, cummin, cumlogsumexp)
}
