"""Creation of arrays with named axes: `zeros` and similar functions, `arange` and `one_hot`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, LikeArguments
from namedax.core.array import NamedArray, as_array
from namedax.core.display import type_text
from namedax.core.element_types import as_jax, check_fits
from namedax.core.foreign_arrays import refuse_foreign
from namedax.core.names import check_dims, check_name, is_name
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
from namedax.operands.broadcasting import make_result
from namedax.operands.nmap import Lifted
from namedax.operands.operation import Explicit, operation
from namedax.operands.sizes import check_shape, named_sizes, size_of
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.shape.joining import stack

__all__ = ["arange", "array", "asarray", "empty", "full", "one_hot", "ones", "zeros"]


@operation(explicit=Explicit.AS_JAX)
def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = None,
    *,
    axis: Hashable | None = None,
    dtype: Any = None,
) -> AnyArray:
    """Create evenly spaced values, along a named axis if `axis` is given.

    Args:
      start: as in `jnp.arange`; a single number is the stop. A name here is used as `axis`.
      stop: as in `jnp.arange`; by default `None`.
      step: as in `jnp.arange`; by default `None`.
      axis: the name of the result's axis, by default `None`. Without a stop, it has its size in the
        mapped function.
      dtype: the dtype, by default as in `jnp.arange`.

    Returns:
      An array with the one named axis (every device makes its own block), or `jnp.arange(...)`
      without a name.

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
    x: Any, num_classes: int | None = None, *, axis: Any = -1, dtype: Any = None
) -> AnyArray:
    """Encode integers as one-hot vectors along a new axis, which may be named.

    Args:
      x: an integer array, named or not.
      num_classes: the size of the new axis. Optional for a named axis, which takes its size in the
        mapped function.
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
    function: Any,
    shape: Any,
    named_shape: Mapping[Hashable, int | None] | None,
    device: Any,
    *options: Any,
) -> Any:
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
    shape: Any = (),
    dtype: Any = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Any = None,
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
    shape: Any = (),
    dtype: Any = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Any = None,
) -> AnyArray:
    """Create an array of ones, with named axes in addition to the positional ones; arguments as for `zeros`.

    >>> import namedax as nx
    >>> nx.ones(3, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    return _filled("ones", jnp.ones, shape, named_shape, device, dtype)


@operation(explicit=Explicit.AS_JAX)
def empty(
    shape: Any = (),
    dtype: Any = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Any = None,
) -> AnyArray:
    """Create an array with unspecified values (zeros in JAX); arguments as for `zeros`.

    >>> import namedax as nx
    >>> nx.empty(3, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    return _filled("empty", jnp.empty, shape, named_shape, device, dtype)


@operation(explicit=Explicit.AS_JAX)
def full(
    shape: Any = (),
    fill_value: Any = None,
    dtype: Any = None,
    *,
    named_shape: Mapping[Hashable, int | None] | None = None,
    device: Any = None,
) -> AnyArray:
    """Create an array of one value, with named axes in addition to the positional ones; other arguments as for `zeros`.

    Args:
      shape: the sizes of the positional axes, by default `()`.
      fill_value: the value, required; an array without named axes broadcasts with the positional
        axes.
      dtype: the dtype; by default the dtype of the value.
      named_shape: the sizes of the named axes, by default none.
      device: for an array without named axes, as in JAX; by default `None`.

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
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None
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
    object: Any, dtype: Any = None, copy: bool = True, order: str | None = "K", ndmin: int = 0
) -> LikeArguments:
    """Create a new array as `asarray` does, with at least `ndmin` positional axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.array(nx.named(jnp.arange(3.0), ["k"]), ndmin=1).shape
    (1,)
    """
    return _as_array("array", object, dtype, order, copy, ndmin)


def _as_array(op: str, a: Any, dtype: Any, order: str | None, copy: bool | None, ndmin: int) -> Any:
    leaves = jax.tree.leaves(a, is_leaf=lambda leaf: isinstance(leaf, NamedArray))
    for leaf in leaves:
        refuse_foreign(op, leaf)
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
    return (
        make_result(
            result.data.reshape((1,) * missing + result.data.shape), (None,) * missing + result.dims
        )
        if missing > 0
        else result
    )


def _stacked(a: Any) -> Any:
    return (
        stack([_stacked(entry) for entry in a])
        if isinstance(a, (list, tuple))
        else as_array(a, "asarray")
    )
