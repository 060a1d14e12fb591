"""Create arrays with named axes, one block on every device: `zeros`, `arange`, `one_hot`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, LikeArguments
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import as_jax, check_fits, reject_foreign
from namedax.core.names import DType, Shape, check_dims, check_name, is_name
from namedax.core.region import ambient
from namedax.core.variance import cast_data
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    AxisSizeError,
    UnsupportedArgumentError,
    as_integer,
    format_value,
)
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.operands.dispatch import in_program
from namedax.ops.operands.new_axis import check_shape, named_sizes, size_of
from namedax.ops.operands.nmap import Lifted
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import data_of
from namedax.ops.shape.conversion import named
from namedax.ops.shape.joining import stack

__all__ = [
    "FFT_FUNCTIONS",
    "arange",
    "array",
    "asarray",
    "empty",
    "fftfreq",
    "full",
    "linspace",
    "one_hot",
    "ones",
    "rfftfreq",
    "zeros",
]

#: A device, or a sharding.
Device: TypeAlias = jax.Device | jax.sharding.Sharding


@operation(explicit=Explicit.AS_JAX)
def arange(
    start: Any = None,
    stop: jax.typing.ArrayLike | None = None,
    step: jax.typing.ArrayLike | None = None,
    *,
    axis: Hashable | None = None,
    dtype: DType | None = None,
) -> AnyArray:
    """Create evenly spaced values, along a named axis if `axis` is given.

    Args:
      start: as in `jnp.arange`; a single number is the stop. A name here is used as `axis`. By
        default `None`, with `axis`.
      stop: as in `jnp.arange`; by default `None`.
      step: as in `jnp.arange`; by default `None`.
      axis: the name of the result's axis, by default `None`. Without a stop, it has its size in the
        mapped function.
      dtype: the dtype, by default as in `jnp.arange`.

    Returns:
      An array with the one named axis (every device makes its own block), or `jnp.arange(...)`
      without a name.

    Communication: none; every device makes its own block.

    Raises:
      AxisNotFoundError: neither a stop nor the mapped function defines the size of the axis.
      AxisSizeError: they define different sizes.

    >>> import namedax as nx
    >>> nx.arange(5, axis="k").named_shape["k"]
    5
    """
    if axis is None and start is not None and is_name(start) and isinstance(start, (str, tuple)):
        start, axis = None, start
    for what, value in (("stop", stop), ("step", step)):
        if isinstance(value, str):
            raise ArgumentTypeError(
                f"arange: {what}={format_value(value)} is not a number. Pass the axis name by"
                f" keyword, axis={format_value(value)}."
            )
    if axis is None:
        return jnp.arange(start, stop, step, dtype=dtype)
    check_dims((axis,), "arange")
    if start is None and stop is not None:
        start = 0
    if start is None:
        return global_index(
            "arange", axis, size_of("arange", axis, None, "a stop"), dtype or jnp.arange(1).dtype
        )
    like = jax.eval_shape(lambda: jnp.arange(start, stop, step, dtype=dtype))
    size = size_of("arange", axis, like.shape[0], "the number of values")
    first, stride = (0, 1) if stop is None else (start, 1 if step is None else step)
    index = global_index("arange", axis, size, like.dtype)
    if first == 0 and stride == 1:
        return index
    return apply_elementwise("arange", lambda i: (first + i * stride).astype(like.dtype), index)


@operation(explicit=Explicit.AS_JAX)
def one_hot(
    x: ArrayLike, num_classes: int | None = None, *, axis: Hashable = -1, dtype: DType | None = None
) -> AnyArray:
    """Encode integers as one-hot vectors along a new axis, which may be named.

    Args:
      x: an integer array, named or not.
      num_classes: the size of the new axis. Optional for a named axis, which takes its size in the
        mapped function. By default `None`.
      axis: the name of the new axis, or its index among the positional axes of the result; by
        default -1.
      dtype: the dtype; by default the default float.

    Returns:
      1 where the index along the new axis equals `x`, else 0; an `x` out of range gives zeros.

    Communication: none; a sharded new axis is never complete on one device.

    Raises:
      AxisNotFoundError: the new axis has no size.
      AxisSizeError: `num_classes` differs from the size of the axis in the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> labels = nx.named(jnp.array([2, 0]), ["batch"])
    >>> nx.positional(nx.nn.one_hot(labels, 3, axis="classes"), ["batch", "classes"])
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    dtype = jnp.zeros((), float).dtype if dtype is None else dtype
    if is_name(axis):
        check_name(axis, "one_hot")
        if isinstance(x, NamedArray) and axis in x.dims:
            raise AxisSizeError(
                f"one_hot: the argument already has the new axis {format_value(axis)}. Choose"
                " another name."
            )
        if num_classes is not None:
            num_classes = as_integer("one_hot", "num_classes", num_classes, 0)
        size = size_of("one_hot", axis, num_classes, "num_classes")
        index = global_index("one_hot", axis, size)
        return apply_elementwise("one_hot", lambda labels, i: (labels == i).astype(dtype), x, index)
    if num_classes is None:
        raise AxisNotFoundError(
            "one_hot: a positional axis requires num_classes. Pass it; only a named axis can take"
            " its size from the mapped function."
        )
    classes = as_integer("one_hot", "num_classes", num_classes, 0)
    return Lifted(
        lambda labels: jax.nn.one_hot(labels, classes, dtype=dtype, axis=axis), "one_hot"
    )(x)


def _filled(
    op: str,
    function: Callable[..., jax.Array],
    shape: Shape,
    named_shape: Mapping[Hashable, int | None] | None,
    device: Device | None,
    *options: Any,
) -> AnyArray:
    check_shape(op, shape, f"{op}(")
    if named_shape is None or named_shape == {}:
        return (
            function(shape, *options)
            if device is None
            else function(shape, *options, device=device)
        )
    if device is not None:
        raise UnsupportedArgumentError(
            f"{op}: device={device} is not supported for named arrays. Shard the array over devices"
            " with nx.shard(x, axis_resources, mesh)."
        )
    sizes = named_sizes(op, named_shape)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    region = ambient()
    blocks = [
        size if region is None else region.block_size(axis, size, op, supports_padding=True)
        for axis, size in sizes.items()
    ]
    dims = check_dims((*named_shape, *(None for _ in shape)), op)
    if region is not None:
        region.check_placement(op, named_shape)
        axes = [mesh_axis for name in named_shape for mesh_axis in region.place(name)]
        options = tuple(
            cast_data(option, axes) if isinstance(option, jax.Array) else option
            for option in options
        )
    return make_result(function((*blocks, *shape), *options), dims)


@operation(explicit=Explicit.AS_JAX)
def zeros(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Device | None = None,
) -> AnyArray:
    """Create an array of zeros, with named axes in addition to the positional ones.

    Args:
      shape: the sizes of the positional axes, by default `()`.
      dtype: the dtype; by default the default float.
      named_shape: the global sizes of the named axes, by default none; `None` as a size takes the
        size in the mapped function.
      device: for an array without named axes, as in JAX; by default `None`.

    Returns:
      An array stored in the order of `named_shape`, then `shape`; every device makes its own block.

    Communication: none; every device makes its own block.

    Raises:
      AxisNotFoundError: an axis has no size.
      AxisSizeError: an axis has a different size in the mapped function.

    >>> import namedax as nx
    >>> nx.zeros(3, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    return _filled("zeros", jnp.zeros, shape, named_shape, device, dtype)


@operation(explicit=Explicit.AS_JAX)
def ones(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Device | None = None,
) -> AnyArray:
    """Create an array of ones, with named axes in addition to the positional ones.

    Args:
      shape: the sizes of the positional axes, by default `()`.
      dtype: the dtype; by default the default float.
      named_shape: the global sizes of the named axes, by default none; `None` as a size takes the
        size in the mapped function.
      device: for an array without named axes, as in JAX; by default `None`.

    Returns:
      An array stored in the order of `named_shape`, then `shape`.

    Communication: none; every device makes its own block.

    Raises:
      AxisNotFoundError: an axis has no size.
      AxisSizeError: an axis has a different size in the mapped function.

    >>> import namedax as nx
    >>> nx.ones(3, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    return _filled("ones", jnp.ones, shape, named_shape, device, dtype)


@operation(explicit=Explicit.AS_JAX)
def empty(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Device | None = None,
) -> AnyArray:
    """Create an array with unspecified values, which are zeros in JAX.

    Args:
      shape: the sizes of the positional axes, by default `()`.
      dtype: the dtype; by default the default float.
      named_shape: the global sizes of the named axes, by default none; `None` as a size takes the
        size in the mapped function.
      device: for an array without named axes, as in JAX; by default `None`.

    Returns:
      An array stored in the order of `named_shape`, then `shape`.

    Communication: none; every device makes its own block.

    Raises:
      AxisNotFoundError: an axis has no size.
      AxisSizeError: an axis has a different size in the mapped function.

    >>> import namedax as nx
    >>> nx.empty(3, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    return _filled("empty", jnp.empty, shape, named_shape, device, dtype)


@operation(explicit=Explicit.AS_JAX)
def full(
    shape: Shape = (),
    fill_value: ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Device | None = None,
) -> AnyArray:
    """Create an array of one value, with named axes in addition to the positional ones.

    Args:
      shape: the sizes of the positional axes, by default `()`.
      fill_value: the value, which has no default; an array without named axes broadcasts with the
        positional axes.
      dtype: the dtype; by default the dtype of the value.
      named_shape: the sizes of the named axes, by default none.
      device: for an array without named axes, as in JAX; by default `None`.

    Communication: none; every device makes its own block.

    Raises:
      ArgumentTypeError: the value is missing, or has named axes.
      ArgumentError: the value is an integer out of range for the dtype.

    >>> import namedax as nx
    >>> nx.full(3, 7.0, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    if fill_value is None or isinstance(fill_value, NamedArray):
        what = "missing" if fill_value is None else f"{type_text(fill_value)}, which has named axes"
        raise ArgumentTypeError(
            f"full: fill_value is {what}. Pass a number, or an array without named axes:"
            " nx.full(shape, 0.0, named_shape=...)."
        )
    check_fits("full", "fill_value", fill_value, dtype)
    return _filled("full", jnp.full, shape, named_shape, device, fill_value, dtype)


@operation(explicit=Explicit.AS_JAX)
def asarray(
    a: ArrayLike | Sequence[Any],
    dtype: DType | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
) -> LikeArguments:
    """Convert `a` to an array, which keeps named axes, also of arrays in a sequence.

    Args:
      a: an array, a number, or a nested sequence of them. A sequence becomes the first positional
        axis.
      dtype: the dtype; by default the dtype of the values.
      order: as in JAX, which accepts `"C"` and `"K"`; by default `None`.
      copy: if `True`, a named array is copied; by default `None`.

    Returns:
      A named array if `a` has named axes, otherwise `jnp.asarray(a)`.

    Communication: none.

    Raises:
      ArgumentError: the order is not supported.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.asarray(x) is x, nx.asarray([x, x + 1]).dims
    (True, ('k', None))
    """
    return _as_array("asarray", a, dtype, order, copy, 0)


@operation(explicit=Explicit.AS_JAX)
def array(
    object: ArrayLike | Sequence[Any],
    dtype: DType | None = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
) -> LikeArguments:
    """Create a new array as `asarray` does, with at least `ndmin` positional axes.

    Args:
      object: an array, a number, or a nested sequence of them. A sequence becomes the first
        positional axis.
      dtype: the dtype; by default the dtype of the values.
      copy: if `True` (default), the values are copied.
      order: as in JAX, which accepts `"C"` and `"K"`; by default `"K"`.
      ndmin: the smallest number of positional axes of the result; by default 0.

    Returns:
      A named array if `object` has named axes, otherwise `jnp.array(object)`.

    Communication: none.

    Raises:
      ArgumentError: the order is not supported.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.array(nx.named(jnp.arange(3.0), ["k"]), ndmin=1).shape
    (1,)
    """
    return _as_array("array", object, dtype, order, copy, ndmin)


def _as_array(
    op: str,
    a: ArrayLike | Sequence[Any],
    dtype: DType | None,
    order: str | None,
    copy: bool | None,
    ndmin: int,
) -> AnyArray:
    leaves = jax.tree.leaves(a, is_leaf=lambda leaf: isinstance(leaf, NamedArray))
    for leaf in leaves:
        reject_foreign(op, leaf)
    if not any(isinstance(leaf, NamedArray) for leaf in leaves):
        return as_jax(op, a, dtype, copy=bool(copy), order=order or "K", ndmin=ndmin)
    if order not in (None, "C", "K"):
        raise ArgumentError(
            f"{op}: order={format_value(order)} is not supported for named arrays, which are stored"
            " in the order of their dims. Leave it out."
        )
    result = a if isinstance(a, NamedArray) else _stacked(a)
    if copy or (dtype is not None and jnp.zeros((), dtype).dtype != result.dtype):
        result = apply_elementwise(op, lambda data: jnp.array(data, dtype), result)
    missing = ndmin - result.ndim
    if missing <= 0:
        return result
    data = data_of(result)
    return make_result(
        data.reshape((1,) * missing + data.shape), (None,) * missing + dims_of(result)
    )


def _stacked(a: ArrayLike | Sequence[Any]) -> AnyArray:
    return (
        stack([_stacked(entry) for entry in a])
        if isinstance(a, (list, tuple))
        else as_array(a, "asarray")
    )


@operation(explicit=Explicit.AS_JAX)
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DType | None = None,
    axis: Hashable = 0,
    *,
    device: Device | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Create evenly spaced numbers between two ends, along a new axis that may be named.

    Args:
      start: the first value: a number or an array, named or not.
      stop: the last value, or the excluded end; it broadcasts with `start` by name.
      num: the number of values, by default 50.
      endpoint: if `True` (default), `stop` is the last value.
      retstep: if `True`, the distance is returned too; by default `False`.
      dtype: the dtype, by default as in `jnp.linspace`.
      axis: the name of the new axis, or its index among the positional axes; by default 0.
      device: as in `jnp.linspace`, for a positional axis; by default `None`.

    Returns:
      The values, with the axes of `start` and `stop` and the new axis; with `retstep`, a pair of
      the values and the distance.

    Communication: none.

    Raises:
      AxisSizeError: `num` differs from the size of the axis in the mapped function.
      ArgumentTypeError: `num` is not an integer, or a device is given with a named axis.

    >>> import namedax as nx
    >>> nx.positional(nx.linspace(0.0, 1.0, 5, axis="k"), ["k"])
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    op = "linspace"
    if not is_name(axis):
        positional: Any = jnp.linspace
        options = {} if device is None else {"device": device}
        return Lifted(
            lambda a, b: positional(a, b, num, endpoint, retstep, dtype, axis, **options), op
        )(start, stop)
    if device is not None:
        raise ArgumentTypeError(
            f"{op}: device= is only for a positional axis. Shard the axis {format_value(axis)} with"
            " axis_resources."
        )
    if isinstance(num, bool) or not isinstance(num, (int, np.integer)) or num < 0:
        raise ArgumentTypeError(
            f"{op}: num, the number of values along {format_value(axis)}, must be a nonnegative"
            f" integer, got {format_value(num)}."
        )
    count = size_of(op, axis, int(num), "num")
    ends = [data_of(end) if hasattr(end, "dtype") else end for end in (start, stop)]
    kind = jax.eval_shape(
        lambda: jnp.linspace(jnp.zeros_like(ends[0]), jnp.zeros_like(ends[1]), 1)
    ).dtype
    out = kind if dtype is None else jnp.zeros((), dtype).dtype
    kind = out if jnp.issubdtype(out, jnp.inexact) else kind  # as JAX computes
    divisor = max(count - 1 if endpoint else count, 1)

    def values(a: jax.Array, b: jax.Array, i: jax.Array) -> jax.Array:
        a, b = (jnp.asarray(end, kind) for end in (a, b))
        part = i.astype(jnp.zeros((), kind).real.dtype) / divisor
        value = a * (1 - part) + b * part
        if endpoint and count > 1:
            value = jnp.where(i == count - 1, b, value)
        return (jnp.floor(value) if jnp.issubdtype(out, jnp.integer) else value).astype(out)

    result = apply_elementwise(op, values, start, stop, global_index(op, axis, count))
    if not retstep:
        return result
    steps = count - 1 if endpoint else count

    def distance(a: jax.Array, b: jax.Array) -> jax.Array:
        return (
            (jnp.asarray(b, kind) - jnp.asarray(a, kind)) / steps
            if steps > 0
            else jnp.full(np.shape(a), jnp.nan, kind)
        )

    return result, apply_elementwise(op, distance, start, stop)


def _frequencies(
    op: str,
    n: int,
    d: jax.typing.ArrayLike,
    dtype: DType | None,
    device: Device | None,
    axis: Hashable | None,
) -> AnyArray:
    options = {} if device is None else {"device": device}
    values = getattr(jnp.fft, op)(n, d, dtype=dtype, **options)
    return values if axis is None else named(values, [axis])


@in_program
def fftfreq(
    n: int,
    d: jax.typing.ArrayLike = 1.0,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    axis: Hashable | None = None,
) -> AnyArray:
    """Return the frequencies of `nx.numpy.fft.fft`, as `jnp.fft.fftfreq`, also along a named axis.

    Args:
      n: the number of samples.
      d: the distance of samples, by default 1.0.
      dtype: the dtype, by default as in `jnp.fft.fftfreq`.
      device: as in `jnp.fft.fftfreq`; by default `None`.
      axis: the name of the result's axis, by default `None`, a positional axis.

    Returns:
      An array with the one axis.

    Communication: none; every device keeps its block.

    Raises:
      AxisSizeError: the axis has a different size in the mapped function.

    >>> import namedax as nx
    >>> nx.numpy.fft.fftfreq(4, axis="f").named_shape["f"]
    4
    """
    return _frequencies("fftfreq", n, d, dtype, device, axis)


@in_program
def rfftfreq(
    n: int,
    d: jax.typing.ArrayLike = 1.0,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    axis: Hashable | None = None,
) -> AnyArray:
    """Return the frequencies of `nx.numpy.fft.rfft`, also along a named axis.

    Args:
      n: the number of samples.
      d: the distance of samples, by default 1.0.
      dtype: the dtype, by default as in `jnp.fft.rfftfreq`.
      device: as in `jnp.fft.rfftfreq`; by default `None`.
      axis: the name of the result's axis, by default `None`, a positional axis.

    Returns:
      An array with the one axis.

    Communication: none; every device keeps its block.

    Raises:
      AxisSizeError: the axis has a different size in the mapped function.

    >>> import namedax as nx
    >>> nx.numpy.fft.rfftfreq(4, axis="f").named_shape["f"]
    3
    """
    return _frequencies("rfftfreq", n, d, dtype, device, axis)


FFT_FUNCTIONS: dict[str, Callable[..., Any]] = {"fftfreq": fftfreq, "rfftfreq": rfftfreq}
