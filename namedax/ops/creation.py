"""Making arrays along names: `zeros` and its like, `arange` and `one_hot`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.array import NamedArray, check_dims, is_name
from namedax.environment import ambient
from namedax.errors import ArgumentTypeError, AxisNotFoundError, AxisSizeError, did_you_mean
from namedax.ops.align import wrap
from namedax.ops.collectives import global_index
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.lift import nmap

__all__ = ["arange", "empty", "full", "one_hot", "ones", "zeros"]


def _size_of(op: str, name: Hashable, given: int | None, argument: str) -> int:
    """The size of a new axis: the one given, which must agree with the mapped function's, or the mapped function's."""
    region = ambient()
    known = None if region is None else region.size_of(name)
    if given is None and known is None:
        known_names = () if region is None else (*region.sizes, *region.seen)
        raise AxisNotFoundError(
            f"{op}: axis {name!r} has no size here.{did_you_mean(name, known_names)} Give {argument}, or the size in axis_sizes of xmap."
        )
    if given is not None and known is not None and given != known:
        raise AxisSizeError(
            f"{op}: {argument} is {given}, but axis {name!r} has size {known} in this mapped function; a name has one size."
        )
    return known if given is None else given  # type: ignore[return-value]


def _check_named_shape(op: str, named_shape: Any) -> None:
    """Raises if `named_shape` is not a mapping from names to sizes, or to `None`."""
    if not isinstance(named_shape, Mapping):
        raise ArgumentTypeError(
            f"{op}: named_shape={named_shape!r} is not a mapping from names to sizes; write named_shape={{'batch': 128}}."
        )
    for name, size in named_shape.items():
        if size is not None and (isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0):
            raise AxisSizeError(
                f"{op}: named_shape gives axis {name!r} the size {size!r}; a size is an integer from 0, or None for that of the mapped "
                "function."
            )


def arange(start: Any = None, stop: Any = None, step: Any = None, *, axis: Hashable | None = None, dtype: Any = None) -> Any:
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
    if axis is None:
        return jnp.arange(start, stop, step, dtype=dtype)
    if start is None and stop is not None:
        start = 0
    if start is None:
        return global_index("arange", axis, _size_of("arange", axis, None, "a stop"), dtype or jnp.arange(1).dtype)
    like = jax.eval_shape(lambda: jnp.arange(start, stop, step, dtype=dtype))
    size = _size_of("arange", axis, like.shape[0], "the number of values")
    first, stride = (0, 1) if stop is None else (start, 1 if step is None else step)
    index = global_index("arange", axis, size, like.dtype)
    if first == 0 and stride == 1:
        return index
    return apply_elementwise("arange", lambda i: (first + i * stride).astype(like.dtype), index)


def one_hot(x: Any, num_classes: int | None = None, *, axis: Any = -1, dtype: Any = None) -> Any:
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
        if isinstance(x, NamedArray) and axis in x.dims:
            raise AxisSizeError(
                f"one_hot: the argument has the axis {axis!r} already, which is to be the new one. Choose another name."
            )
        size = _size_of("one_hot", axis, num_classes, "num_classes")
        index = global_index("one_hot", axis, size)
        return apply_elementwise("one_hot", lambda labels, i: (labels == i).astype(dtype), x, index)
    if num_classes is None:
        raise AxisNotFoundError("one_hot: a positional axis needs num_classes; only a name has a size of its own.")
    return nmap(lambda labels: jax.nn.one_hot(labels, num_classes, dtype=dtype, axis=axis))(x)


def _filled(name: str, fill: Any) -> Any:
    function = getattr(jnp, name)

    def make(shape: Any = (), *args: Any, named_shape: Mapping[Hashable, int | None] | None = None, **kwargs: Any) -> Any:
        if named_shape is None and isinstance(shape, Mapping):
            raise ArgumentTypeError(
                f"{name}: the shape is {shape!r}, a mapping; sizes by name are given as {name}(named_shape={shape!r}), and the "
                "shape is that of the positional axes."
            )
        if named_shape is None or named_shape == {}:
            return function(shape, *args, **kwargs)
        _check_named_shape(name, named_shape)
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        region = ambient()
        sizes = [_size_of(name, axis, size, f"named_shape[{axis!r}]") for axis, size in named_shape.items()]
        blocks = [
            size if region is None else region.block_size(axis, size, name)
            for axis, size in zip(named_shape, sizes, strict=True)
        ]
        dims = check_dims((*named_shape, *(None for _ in shape)), name)
        if region is not None:
            region.check_placement(name, named_shape)
        return wrap(function((*blocks, *shape), *args, **kwargs), dims)

    make.__name__ = make.__qualname__ = name
    make.__module__ = __name__
    call = (
        f"nx.{name}(3, {fill!r}, named_shape={{'batch': 2}})" if name == "full" else f"nx.{name}(3, named_shape={{'batch': 2}})"
    )
    make.__doc__ = f"""`jnp.{name}`, with named axes beside the positional ones.

    Args:
      shape: sizes of the positional axes.
      *args: as in `jnp.{name}`.
      named_shape: sizes by name, global ones; `None` for a size means that of the mapped function.
      **kwargs: as in `jnp.{name}`.

    Returns:
      An array stored in the order of `named_shape`, then `shape`; every device makes its own block.

    >>> import namedax as nx
    >>> {call}.dims
    ('batch', None)
    """
    return make


zeros, ones, empty, full = _filled("zeros", None), _filled("ones", None), _filled("empty", None), _filled("full", 7.0)
