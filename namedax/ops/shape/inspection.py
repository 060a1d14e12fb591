"""Properties of arrays that follow from their types: shape, rank, size, dtype.

Nothing is computed.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray, as_array
from namedax.core.names import DType
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.axes import resolve_axis
from namedax.ops.operands.operation import AxisRequirement, Explicit, operation
from namedax.ops.operands.pytree import stored_leaf

__all__ = [
    "array_repr",
    "array_str",
    "iscomplexobj",
    "isrealobj",
    "isscalar",
    "ndim",
    "result_type",
    "shape",
    "size",
]

_COUNTED = AxisRequirement(
    "without an axis only the elements along those are counted. Pass axis=... for all of its axes,"
    " or choose from {names}."
)


@checks_signature
def shape(x: ArrayLike) -> tuple[int, ...]:
    """Return the sizes of the positional axes.

    Args:
      x: an array, named or not.

    Communication: none.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.shape(nx.named(jnp.ones((2, 5)), ["batch", ...]))
    (5,)
    """
    return x.shape if isinstance(x, NamedArray) else jnp.shape(x)


@checks_signature
def ndim(x: ArrayLike) -> int:
    """Return the number of positional axes.

    Args:
      x: an array, named or not.

    Communication: none.
    """
    return x.ndim if isinstance(x, NamedArray) else jnp.ndim(x)


@operation(requires_axis=_COUNTED, explicit=Explicit.AS_JAX)
def size(x: ArrayLike, axis: Any = None) -> int:
    """Return the number of elements over the positional axes, or along given axes.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes. Sizes of named axes are global.

    Communication: none.

    Raises:
      AxisNotFoundError: `x` lacks a named axis.
      PositionalAxisError: a positional axis is out of range, or no axis is given and every axis of
        `x` is named.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 5)), ["batch", ...])
    >>> nx.numpy.size(x), nx.numpy.size(x, "batch"), nx.numpy.size(x, (0, "batch"))
    (5, 2, 10)
    """
    if not isinstance(x, NamedArray):
        return jnp.size(x, axis)
    if axis is None:
        return x.size
    sizes = dict(x.named_shape)
    found = resolve_axis("size", x, axis)
    return math.prod(x.data.shape[i] if (dim := x.dims[i]) is None else sizes[dim] for i in found)


@checks_signature
def result_type(*args: ArrayLike | DType) -> np.dtype:
    """Return the common dtype of these arrays and types under JAX's promotion.

    Args:
      *args: arrays, named or not, dtypes, and Python numbers.

    Communication: none.
    """
    return jnp.result_type(*(stored_leaf(arg) for arg in args))


@checks_signature
def iscomplexobj(x: ArrayLike) -> bool:
    """Return True if the dtype is complex.

    Args:
      x: an array, named or not.

    Communication: none.
    """
    return jnp.iscomplexobj(stored_leaf(x))


@checks_signature
def isrealobj(x: ArrayLike) -> bool:
    """Return True if the dtype is not complex.

    Args:
      x: an array, named or not.

    Communication: none.
    """
    return jnp.isrealobj(stored_leaf(x))


@checks_signature
def isscalar(x: ArrayLike) -> bool:
    """Return True if `x` is a scalar; a named array is not, for any number of positional axes.

    Args:
      x: any value.

    Communication: none.
    """
    return False if isinstance(x, NamedArray) else jnp.isscalar(x)


@checks_signature
def array_repr(
    x: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return `repr(x)` for a named array, `jnp.array_repr` for others.

    Args:
      x: an array, named or not.
      max_line_width: as in `jnp.array_repr`, for arrays without names; by default `None`.
      precision: as in `jnp.array_repr`, for arrays without names; by default `None`.
      suppress_small: as in `jnp.array_repr`, for arrays without names; by default `None`.

    Communication: none.
    """
    if isinstance(x, NamedArray):
        return repr(x)
    data: Any = as_array(x, "array_repr")  # JAX exports NumPy's function with NumPy's types
    return jnp.array_repr(data, max_line_width, precision, suppress_small)


@checks_signature
def array_str(
    x: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return `str(x)` for a named array, `jnp.array_str` for others.

    Args:
      x: an array, named or not.
      max_line_width: as in `jnp.array_str`, for arrays without names; by default `None`.
      precision: as in `jnp.array_str`, for arrays without names; by default `None`.
      suppress_small: as in `jnp.array_str`, for arrays without names; by default `None`.

    Communication: none.
    """
    return (
        str(x)
        if isinstance(x, NamedArray)
        else jnp.array_str(
            np.asarray(as_array(x, "array_str")), max_line_width, precision, suppress_small
        )
    )
