"""Making arrays along names: `zeros` and its like, `arange` and `one_hot`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import Array, LikeArguments
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
def arange(start: Any = None, stop: Any = None, step: Any = None, *, axis: Hashable | None = None, dtype: Any = None) -> Array:
    """Evenly spaced values, along a name if `axis` is given.

    Args:
      start: as in `jnp.arange`; with one number it is the end. A name here is taken for `axis`.
      stop: as in `jnp.arange`.
      step: as in `jnp.arange`.
      axis: the name of the result's axis. Without a stop its size is that of the mapped function's axis.
      dtype: element type.

    Returns:
      An array with the one named axis (every device makes its own block), or `jnp.arange(...)` if there is no name.

    Raises:
      AxisNotFoundError: neither a stop nor the mapped function gives the axis a size.
      AxisSizeError: they give different ones.

    >>> import namedax as nx
    >>> nx.arange(5, axis="k").named_shape["k"]
    5
    """
    if axis is None and start is not None and is_name(start) and isinstance(start, (str, tuple)):
        start, axis = None, start
    for what, value in (("stop", stop), ("step", step)):
        if isinstance(value, str):
            raise ArgumentTypeError(
                f"arange: {what}={format_value(value)} is no number. The name of the axis goes by keyword, axis={format_value(value)}."
            )
    if axis is None:
        return jnp.arange(start, stop, step, dtype=dtype)
    check_dims((axis,), "arange")
    if start is None and stop is not None:
        start = 0
    if start is None:
        return global_index("arange", axis, size_of("arange", axis, None, "a stop"), dtype or jnp.arange(1).dtype)
    like = jax.eval_shape(lambda: jnp.arange(start, stop, step, dtype=dtype))
    size = size_of("arange", axis, like.shape[0], "the number of values")
    first, stride = (0, 1) if stop is None else (start, 1 if step is None else step)
    index = global_index("arange", axis, size, like.dtype)
    if first == 0 and stride == 1:
        return index
    return apply_elementwise("arange", lambda i: (first + i * stride).astype(like.dtype), index)


@operation(explicit=Explicit.AS_JAX)
def one_hot(x: Any, num_classes: int | None = None, *, axis: Any = -1, dtype: Any = None) -> Array:
    """One-hot encoding along a new axis, which may have a name.

    Args:
      x: an integer array, named or not.
      num_classes: the size of the new axis. A name may leave it out: its size in the mapped function is used.
      axis: the name of the new axis, or its position among the positional axes of the result.
      dtype: element type; default: the default float.

    Returns:
      1 where the new axis's index equals `x`, else 0; an `x` out of range gives zeros. A sharded new axis is never whole on
      one device, and nothing is sent.

    Raises:
      AxisNotFoundError: the new axis has no size.
      AxisSizeError: `num_classes` is not the size that the name has.

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
                f"one_hot: the argument has the axis {format_value(axis)} already, which is to be the new one. Choose another name."
            )
        if num_classes is not None:
            num_classes = as_integer("one_hot", "num_classes", num_classes, 0)
        size = size_of("one_hot", axis, num_classes, "num_classes")
        index = global_index("one_hot", axis, size)
        return apply_elementwise("one_hot", lambda labels, i: (labels == i).astype(dtype), x, index)
    if num_classes is None:
        raise AxisNotFoundError("one_hot: a positional axis needs num_classes; only a name has a size of its own.")
    classes = as_integer("one_hot", "num_classes", num_classes, 0)
    return Lifted(lambda labels: jax.nn.one_hot(labels, classes, dtype=dtype, axis=axis), "one_hot")(x)


def _filled(
    op: str, function: Any, shape: Any, named_shape: Mapping[Hashable, int | None] | None, device: Any, *options: Any
) -> Any:
    check_shape(op, shape, f"{op}(")
    if named_shape is None or named_shape == {}:
        return function(shape, *options) if device is None else function(shape, *options, device=device)
    if device is not None:
        raise UnsupportedArgumentError(
            f"{op}: device={device} is not supported for arrays with names. Where a named array lives follows from its names: "
            "nx.shard(x, axis_resources, mesh) places it."
        )
    sizes = named_sizes(op, named_shape)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    region = ambient()
    blocks = [
        size if region is None else region.block_size(axis, size, op, supports_padding=True) for axis, size in sizes.items()
    ]
    dims = check_dims((*named_shape, *(None for _ in shape)), op)
    if region is not None:
        region.check_placement(op, named_shape)
        axes = [mesh_axis for name in named_shape for mesh_axis in region.place(name)]
        options = tuple(cast_data(option, axes) if isinstance(option, jax.Array) else option for option in options)
    return make_result(function((*blocks, *shape), *options), dims)


@operation(explicit=Explicit.AS_JAX)
def zeros(
    shape: Any = (), dtype: Any = None, *, named_shape: Mapping[Hashable, int | None] | None = None, device: Any = None
) -> Array:
    """Zeros, with named axes in addition to the positional ones.

    Args:
      shape: sizes of the positional axes.
      dtype: element type; default: the default float.
      named_shape: sizes by name, global ones; `None` for a size means that of the mapped function.
      device: of an array without names, as in JAX.

    Returns:
      An array stored in the order of `named_shape`, then `shape`; every device makes its own block.

    Raises:
      AxisNotFoundError: a name has no size.
      AxisSizeError: a name has a different size in the mapped function.

    >>> import namedax as nx
    >>> nx.zeros(3, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    return _filled("zeros", jnp.zeros, shape, named_shape, device, dtype)


@operation(explicit=Explicit.AS_JAX)
def ones(
    shape: Any = (), dtype: Any = None, *, named_shape: Mapping[Hashable, int | None] | None = None, device: Any = None
) -> Array:
    """Ones, with named axes in addition to the positional ones; arguments as for `zeros`.

    >>> import namedax as nx
    >>> nx.ones(3, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    return _filled("ones", jnp.ones, shape, named_shape, device, dtype)


@operation(explicit=Explicit.AS_JAX)
def empty(
    shape: Any = (), dtype: Any = None, *, named_shape: Mapping[Hashable, int | None] | None = None, device: Any = None
) -> Array:
    """An array whose values do not matter (JAX gives zeros); arguments as for `zeros`.

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
) -> Array:
    """An array of one value, with named axes in addition to the positional ones; other arguments as for `zeros`.

    Args:
      shape: sizes of the positional axes.
      fill_value: the value; an array without names broadcasts with the positional axes. It must be given.
      dtype: element type; default: that of the value.
      named_shape: sizes by name.
      device: of an array without names, as in JAX.

    Raises:
      ArgumentTypeError: there is no value, or it has names.
      ArgumentError: it is an integer beyond those of the element type.

    >>> import namedax as nx
    >>> nx.full(3, 7.0, named_shape={"batch": 2}).dims
    ('batch', None)
    """
    if fill_value is None or isinstance(fill_value, NamedArray):
        what = "missing" if fill_value is None else f"{type_text(fill_value)}, which has names"
        raise ArgumentTypeError(
            f"full: fill_value is {what}. Give a number, or an array without names: nx.full(shape, 0.0, named_shape=...)."
        )
    check_fits("full", "fill_value", fill_value, dtype)
    return _filled("full", jnp.full, shape, named_shape, device, fill_value, dtype)


@operation(explicit=Explicit.AS_JAX)
def asarray(a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None) -> LikeArguments:
    """`a` as an array: a named array stays one, and so does a sequence that holds some.

    Args:
      a: an array, a number, or a nested sequence of them. A sequence becomes the first positional axis.
      dtype: element type; default: that of the values.
      order: as in JAX, which takes `"C"` and `"K"`.
      copy: whether a named array is copied.

    Returns:
      A named array if `a` has names, otherwise `jnp.asarray(a)`.

    Raises:
      ArgumentError: the order is another one.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.asarray(x) is x, nx.asarray([x, x + 1]).dims
    (True, ('k', None))
    """
    return _as_array("asarray", a, dtype, order, copy, 0)


@operation(explicit=Explicit.AS_JAX)
def array(object: Any, dtype: Any = None, copy: bool = True, order: str | None = "K", ndmin: int = 0) -> LikeArguments:
    """A new array: as `asarray`, and with at least `ndmin` positional axes.

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
            f"{op}: order={format_value(order)} is not supported; a named array has no order in memory but that of its dims."
        )
    result = a if isinstance(a, NamedArray) else _stacked(a)
    if copy or (dtype is not None and jnp.zeros((), dtype).dtype != result.dtype):
        result = apply_elementwise(op, lambda data: jnp.array(data, dtype), result)
    missing = ndmin - result.ndim
    return (
        make_result(result.data.reshape((1,) * missing + result.data.shape), (None,) * missing + result.dims)
        if missing > 0
        else result
    )


def _stacked(a: Any) -> Any:
    return stack([_stacked(entry) for entry in a]) if isinstance(a, (list, tuple)) else as_array(a, "asarray")
