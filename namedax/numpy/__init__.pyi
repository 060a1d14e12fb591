# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.numpy`: `jax.numpy` for named arrays, with `linalg` and `fft`."""

import builtins
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.typing
import numpy as np
from jax.numpy import ComplexWarning as ComplexWarning  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import apply_over_axes as apply_over_axes  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import bfloat16 as bfloat16  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import bool as bool  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import bool_ as bool_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import broadcast_shapes as broadcast_shapes  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import c_ as c_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import can_cast as can_cast  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import cdouble as cdouble  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import character as character  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import complex128 as complex128  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import complex64 as complex64  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import complex_ as complex_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import complexfloating as complexfloating  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import csingle as csingle  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import double as double  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import dtype as dtype  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import e as e  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import einsum_path as einsum_path  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import euler_gamma as euler_gamma  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import finfo as finfo  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import flexible as flexible  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float16 as float16  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float32 as float32  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float4_e2m1fn as float4_e2m1fn  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float64 as float64  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e3m4 as float8_e3m4  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e4m3 as float8_e4m3  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e4m3b11fnuz as float8_e4m3b11fnuz  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e4m3fn as float8_e4m3fn  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e4m3fnuz as float8_e4m3fnuz  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e5m2 as float8_e5m2  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e5m2fnuz as float8_e5m2fnuz  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float8_e8m0fnu as float8_e8m0fnu  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import float_ as float_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import floating as floating  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import from_dlpack as from_dlpack  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import frombuffer as frombuffer  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import fromfile as fromfile  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import fromfunction as fromfunction  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import fromiter as fromiter  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import fromstring as fromstring  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import generic as generic  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import get_printoptions as get_printoptions  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import iinfo as iinfo  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import index_exp as index_exp  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import inexact as inexact  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import inf as inf  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import int16 as int16  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import int2 as int2  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import int32 as int32  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import int4 as int4  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import int64 as int64  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import int8 as int8  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import int_ as int_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import integer as integer  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import isdtype as isdtype  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import issubdtype as issubdtype  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import iterable as iterable  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import load as load  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import mask_indices as mask_indices  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import mgrid as mgrid  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import nan as nan  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import ndarray as ndarray  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import newaxis as newaxis  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import number as number  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import object_ as object_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import ogrid as ogrid  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import pi as pi  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import printoptions as printoptions  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import promote_types as promote_types  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import r_ as r_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import s_ as s_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import save as save  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import savez as savez  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import set_printoptions as set_printoptions  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import signedinteger as signedinteger  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import single as single  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import ufunc as ufunc  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import uint as uint  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import uint16 as uint16  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import uint2 as uint2  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import uint32 as uint32  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import uint4 as uint4  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import uint64 as uint64  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import uint8 as uint8  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import unsignedinteger as unsignedinteger  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import vectorize as vectorize  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, EitherArray
from namedax.core.array import NamedArray
from namedax.core.names import AxisName, DType, PyTree, Shape
from namedax.core.results import PlainArray
from namedax.resources.wire import Wire
from namedax.numpy import fft as fft
from namedax.numpy import linalg as linalg

class _UniqueAllResult(NamedTuple):
    values: AnyArray
    indices: AnyArray
    inverse_indices: AnyArray
    counts: AnyArray
class _UniqueCountsResult(NamedTuple):
    values: AnyArray
    counts: AnyArray
class _UniqueInverseResult(NamedTuple):
    values: AnyArray
    inverse_indices: AnyArray
@overload
def abs(x: NamedArray, /) -> NamedArray:
    """Calculate the absolute value element-wise."""
@overload
def abs(x: PlainArray, /) -> PlainArray: ...
@overload
def abs(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate the absolute value element-wise."""
@overload
def absolute(x: NamedArray, /) -> NamedArray:
    """Calculate the absolute value element-wise."""
@overload
def absolute(x: PlainArray, /) -> PlainArray: ...
@overload
def absolute(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate the absolute value element-wise."""
@overload
def acos(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric cosine of input."""
@overload
def acos(x: PlainArray, /) -> PlainArray: ...
@overload
def acos(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric cosine of input."""
@overload
def acosh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic cosine of input."""
@overload
def acosh(x: PlainArray, /) -> PlainArray: ...
@overload
def acosh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic cosine of input."""
@overload
def add(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Add two arrays element-wise."""
@overload
def add(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def add(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def add(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Add two arrays element-wise."""
def all(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Return True if all elements are true, over positional and named axes.

    See `nx.all`.
    """
@overload
def allclose(
    a: NamedArray,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: builtins.bool = False,
) -> NamedArray:
    """Check if two arrays are element-wise approximately equal within a tolerance."""
@overload
def allclose(
    a: ArrayLike,
    b: NamedArray,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: builtins.bool = False,
) -> NamedArray: ...
@overload
def allclose(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: builtins.bool = False,
) -> jax.Array:
    """Check if two arrays are element-wise approximately equal within a tolerance."""
def amax(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the maximum over positional and named axes.

    A NaN is the maximum. Ties share the gradient equally, as in `jnp`, sharded or not.

    Args:
      a: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both, as for `sum`; by default `None`,
        all positional axes.
      out: as in JAX, for arrays without names; it must be left out for others.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: a scalar that takes part in the maximum, by default `None`; required with `where`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: over a sharded axis, one all-reduce of the result. The gradient adds one, which
    counts the ties.

    Raises:
      AxisNotFoundError: `a` has no axis of that name.
    """
def amin(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the minimum over positional and named axes.

    A NaN is the minimum. Ties share the gradient equally, as in `jnp`, sharded or not.

    Args:
      a: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
        (default) all positional ones. Required if every axis is named.
      out: as in JAX, for arrays without names; it must be left out for others.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
        named axes are removed.
      initial: a scalar that takes part in the minimum, by default `None`; required with `where`.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.

    Returns:
      An array with the remaining axes; a plain `jax.Array` if no named axis remains.

    Communication: as for `nx.max`.

    Raises:
      AxisNotFoundError: `a` has no axis of that name.
    """
@overload
def angle(z: NamedArray, deg: builtins.bool = False) -> NamedArray:
    """Return the angle of a complex valued number or array."""
@overload
def angle(z: PlainArray, deg: builtins.bool = False) -> PlainArray: ...
@overload
def angle(z: jax.typing.ArrayLike, deg: builtins.bool = False) -> jax.Array:
    """Return the angle of a complex valued number or array."""
def any(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Return True if any element is true, over positional and named axes.

    See `nx.any`.
    """
@overload
def append(
    arr: NamedArray,
    values: ArrayLike,
    axis: AxisSpec = None,
    *,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Append `values` to an array, as `concatenate([arr, values], axis)` does."""
@overload
def append(
    arr: ArrayLike,
    values: NamedArray,
    axis: AxisSpec = None,
    *,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def append(
    arr: ArrayLike,
    values: ArrayLike,
    axis: AxisSpec = None,
    *,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Append `values` to an array, as `concatenate([arr, values], axis)` does.

    Args:
      arr: an array, named or not.
      values: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes first.
        Required if every axis is named.
      out_axis: the name of the joined axis, as for `nx.concatenate`; by default `None`, the same
        name.

    Returns:
      The longer array.

    Communication: as for `nx.concatenate`.

    Raises:
      AxisNotFoundError: an array lacks the axis.
    """
def apply_along_axis(
    func1d: Callable[..., Any], axis: AxisSpec, arr: ArrayLike, *args: object, **kwargs: object,
) -> AnyArray:
    """Apply a function to 1D array slices along an axis."""
def arange(
    start: ArrayLike | int | None = None,
    stop: jax.typing.ArrayLike | None = None,
    step: jax.typing.ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    axis: Hashable | None = None,
) -> AnyArray:
    """Create evenly spaced values, along a named axis if `axis` is given.

    See `nx.arange`.
    """
@overload
def arccos(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric cosine of input."""
@overload
def arccos(x: PlainArray, /) -> PlainArray: ...
@overload
def arccos(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric cosine of input."""
@overload
def arccosh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic cosine of input."""
@overload
def arccosh(x: PlainArray, /) -> PlainArray: ...
@overload
def arccosh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic cosine of input."""
@overload
def arcsin(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric sine of input."""
@overload
def arcsin(x: PlainArray, /) -> PlainArray: ...
@overload
def arcsin(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric sine of input."""
@overload
def arcsinh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic sine of input."""
@overload
def arcsinh(x: PlainArray, /) -> PlainArray: ...
@overload
def arcsinh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic sine of input."""
@overload
def arctan(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric tangent of input."""
@overload
def arctan(x: PlainArray, /) -> PlainArray: ...
@overload
def arctan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric tangent of input."""
@overload
def arctan2(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute the arctangent of x1/x2, choosing the correct quadrant."""
@overload
def arctan2(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def arctan2(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def arctan2(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the arctangent of x1/x2, choosing the correct quadrant."""
@overload
def arctanh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic tangent of input."""
@overload
def arctanh(x: PlainArray, /) -> PlainArray: ...
@overload
def arctanh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic tangent of input."""
def argmax(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool | None = None,
) -> AnyArray:
    """Return the index of the first maximum along a positional or named axis.

    See `nx.argmax`.
    """
def argmin(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool | None = None,
) -> AnyArray:
    """Return the index of the first minimum along a positional or named axis.

    See `nx.argmin`.
    """
@overload
def argpartition(a: NamedArray, kth: int, axis: AxisSpec = -1) -> NamedArray:
    """Return the indices of `partition`, as `jnp.argpartition`."""
@overload
def argpartition(a: ArrayLike, kth: int, axis: AxisSpec = -1) -> AnyArray:
    """Return the indices of `partition`, as `jnp.argpartition`.

    See `nx.argpartition`.
    """
@overload
def argsort(
    a: NamedArray,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
    dtype: DType | None = None,
) -> NamedArray:
    """Return the indices that sort along one axis; ties keep their order, NaN last."""
@overload
def argsort(
    a: ArrayLike,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
    dtype: DType | None = None,
) -> AnyArray:
    """Return the indices that sort along one axis; ties keep their order, NaN last.

    See `nx.argsort`.
    """
@overload
def argwhere(
    a: NamedArray, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> NamedArray:
    """Find the indices of nonzero array elements."""
@overload
def argwhere(
    a: jax.typing.ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> jax.Array:
    """Find the indices of nonzero array elements."""
@overload
def around(a: NamedArray, decimals: int = 0, out: None = None) -> NamedArray:
    """Round input evenly to the given number of decimals."""
@overload
def around(a: PlainArray, decimals: int = 0, out: None = None) -> PlainArray: ...
@overload
def around(a: jax.typing.ArrayLike, decimals: int = 0, out: None = None) -> jax.Array:
    """Round input evenly to the given number of decimals."""
@overload
def array(
    object: NamedArray,
    dtype: DType | None = None,
    *args: object,
    copy: builtins.bool = True,
    order: str | None = 'K',
    ndmin: int = 0,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Create a new array as `asarray` does, with at least `ndmin` positional axes."""
@overload
def array(
    object: ArrayLike | Sequence[Any],
    dtype: DType | None = None,
    *args: object,
    copy: builtins.bool = True,
    order: str | None = 'K',
    ndmin: int = 0,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Create a new array as `asarray` does, with at least `ndmin` positional axes.

    See `nx.array`.
    """
@overload
def array_equal(a1: NamedArray, a2: ArrayLike, equal_nan: builtins.bool = False) -> NamedArray:
    """Check if two arrays are element-wise equal."""
@overload
def array_equal(a1: ArrayLike, a2: NamedArray, equal_nan: builtins.bool = False) -> NamedArray: ...
@overload
def array_equal(
    a1: PlainArray, a2: jax.typing.ArrayLike, equal_nan: builtins.bool = False,
) -> PlainArray: ...
@overload
def array_equal(
    a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike, equal_nan: builtins.bool = False,
) -> jax.Array:
    """Check if two arrays are element-wise equal."""
@overload
def array_equiv(a1: NamedArray, a2: ArrayLike) -> NamedArray:
    """Check if two arrays are element-wise equal."""
@overload
def array_equiv(a1: ArrayLike, a2: NamedArray) -> NamedArray: ...
@overload
def array_equiv(a1: PlainArray, a2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def array_equiv(a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike) -> jax.Array:
    """Check if two arrays are element-wise equal."""
def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: builtins.bool | None = None,
) -> str:
    """Return `repr(x)` for a named array, `jnp.array_repr` for others.

    See `nx.array_repr`.
    """
def array_split(
    ary: ArrayLike,
    indices_or_sections: int | Sequence[int] | jax.typing.ArrayLike,
    axis: AxisSpec = 0,
    *,
    out_axis: Hashable | list[Hashable] | None = None,
) -> list[AnyArray]:
    """Split an array as `split` does, also unequally: the first sections are larger by one.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of sections, or the split indices.
      axis: a positional or named axis, by default 0.
      out_axis: the name of the axis in the sections, or a list with a name for each, as for
        `nx.split`; by default `None`, the same name.

    Returns:
      A list of arrays.

    Communication: as for `nx.split`.

    Raises:
      AxisNotFoundError: the array lacks the axis.
    """
def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: builtins.bool | None = None,
) -> str:
    """Return `str(x)` for a named array, `jnp.array_str` for others.

    See `nx.array_str`.
    """
@overload
def asarray(
    a: NamedArray,
    dtype: DType | None = None,
    order: str | None = None,
    *,
    copy: builtins.bool | None = None,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Convert `a` to an array, which keeps named axes, also of arrays in a sequence."""
@overload
def asarray(
    a: ArrayLike | Sequence[Any],
    dtype: DType | None = None,
    order: str | None = None,
    *,
    copy: builtins.bool | None = None,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Convert `a` to an array, which keeps named axes, also of arrays in a sequence.

    See `nx.asarray`.
    """
@overload
def asin(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric sine of input."""
@overload
def asin(x: PlainArray, /) -> PlainArray: ...
@overload
def asin(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric sine of input."""
@overload
def asinh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic sine of input."""
@overload
def asinh(x: PlainArray, /) -> PlainArray: ...
@overload
def asinh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic sine of input."""
@overload
def astype(
    x: NamedArray,
    dtype: DType | None,
    /,
    *,
    copy: builtins.bool = False,
    device: Any | jax.sharding.Sharding | None = None,
) -> NamedArray:
    """Convert an array to a specified dtype."""
@overload
def astype(
    x: PlainArray,
    dtype: DType | None,
    /,
    *,
    copy: builtins.bool = False,
    device: Any | jax.sharding.Sharding | None = None,
) -> PlainArray: ...
@overload
def astype(
    x: jax.typing.ArrayLike,
    dtype: DType | None,
    /,
    *,
    copy: builtins.bool = False,
    device: Any | jax.sharding.Sharding | None = None,
) -> jax.Array:
    """Convert an array to a specified dtype."""
@overload
def atan(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric tangent of input."""
@overload
def atan(x: PlainArray, /) -> PlainArray: ...
@overload
def atan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric tangent of input."""
@overload
def atan2(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute the arctangent of x1/x2, choosing the correct quadrant."""
@overload
def atan2(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def atan2(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def atan2(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the arctangent of x1/x2, choosing the correct quadrant."""
@overload
def atanh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic tangent of input."""
@overload
def atanh(x: PlainArray, /) -> PlainArray: ...
@overload
def atanh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic tangent of input."""
def atleast_1d(*arys: ArrayLike) -> AnyArray | list[AnyArray]:
    """Convert inputs to arrays with at least 1 dimension."""
def atleast_2d(*arys: ArrayLike) -> AnyArray | list[AnyArray]:
    """Convert inputs to arrays with at least 2 dimensions."""
def atleast_3d(*arys: ArrayLike) -> AnyArray | list[AnyArray]:
    """Convert inputs to arrays with at least 3 dimensions."""
def average(
    a: ArrayLike,
    axis: AxisSpec = None,
    weights: ArrayLike | None = None,
    returned: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute the weighted mean over positional and named axes.

    See `nx.average`.
    """
def bartlett(M: int) -> AnyArray:
    """Return a Bartlett window of size M."""
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Count how often each integer from 0 on occurs, over positional and named axes.

    See `nx.bincount`.
    """
@overload
def bitwise_and(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Compute the bitwise AND operation elementwise."""
@overload
def bitwise_and(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def bitwise_and(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def bitwise_and(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Compute the bitwise AND operation elementwise."""
@overload
def bitwise_count(x: NamedArray, /) -> NamedArray:
    """Counts the number of 1 bits in the binary representation of the absolute value
    of each element of ``x``.
    """
@overload
def bitwise_count(x: PlainArray, /) -> PlainArray: ...
@overload
def bitwise_count(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Counts the number of 1 bits in the binary representation of the absolute value
    of each element of ``x``.
    """
@overload
def bitwise_invert(x: NamedArray, /) -> NamedArray:
    """Compute the bitwise inversion of an input."""
@overload
def bitwise_invert(x: PlainArray, /) -> PlainArray: ...
@overload
def bitwise_invert(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the bitwise inversion of an input."""
@overload
def bitwise_left_shift(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Shift bits of ``x`` to left by the amount specified in ``y``, element-wise."""
@overload
def bitwise_left_shift(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def bitwise_left_shift(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def bitwise_left_shift(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Shift bits of ``x`` to left by the amount specified in ``y``, element-wise."""
@overload
def bitwise_not(x: NamedArray, /) -> NamedArray:
    """Compute the bitwise inversion of an input."""
@overload
def bitwise_not(x: PlainArray, /) -> PlainArray: ...
@overload
def bitwise_not(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the bitwise inversion of an input."""
@overload
def bitwise_or(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Compute the bitwise OR operation elementwise."""
@overload
def bitwise_or(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def bitwise_or(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def bitwise_or(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Compute the bitwise OR operation elementwise."""
@overload
def bitwise_right_shift(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Right shift the bits of ``x1`` to the amount specified in ``x2``."""
@overload
def bitwise_right_shift(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def bitwise_right_shift(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def bitwise_right_shift(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Right shift the bits of ``x1`` to the amount specified in ``x2``."""
@overload
def bitwise_xor(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Compute the bitwise XOR operation elementwise."""
@overload
def bitwise_xor(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def bitwise_xor(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def bitwise_xor(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Compute the bitwise XOR operation elementwise."""
def blackman(M: int) -> AnyArray:
    """Return a Blackman window of size M."""
@overload
def block(arrays: NamedArray) -> NamedArray:
    """Create an array from a list of blocks."""
@overload
def block(arrays: PlainArray) -> PlainArray: ...
@overload
def block(arrays: jax.typing.ArrayLike | list[jax.typing.ArrayLike]) -> jax.Array:
    """Create an array from a list of blocks."""
def broadcast_arrays(*args: ArrayLike) -> list[AnyArray]:
    """Broadcast arrays to a common shape."""
@overload
def broadcast_to(
    array: ArrayLike,
    shape: Shape | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Repeat an array along axes that it lacks."""
@overload
def broadcast_to(
    array: ArrayLike,
    shape: Shape | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Repeat an array along axes that it lacks.

    Args:
      array: an array, named or not.
      shape: the positional shape of the result, as in `jnp.broadcast_to`; by default, with
        `named_shape`, the shape of the array.
      out_sharding: as in `jnp.broadcast_to`; by default `None`.
      named_shape: names and sizes of the result, by default none; `None` as a size takes the size
        in the mapped function. Axes of the array that it does not mention are kept.

    Returns:
      The array with the new axes in front.

    Communication: none, because every device makes its own block of a sharded axis. The gradient is
    the sum over the new axes, with one all-reduce for sharded ones.

    Raises:
      AxisSizeError: the array or the mapped function has one of the axes with a different size.
      AxisNotFoundError: a new axis has no size.
      PositionalAxisError: there is neither a shape nor a named shape.
      PlacementConflictError: two axes of the result are sharded over one mesh axis.
    """
@overload
def cbrt(x: NamedArray, /) -> NamedArray:
    """Calculates element-wise cube root of the input array."""
@overload
def cbrt(x: PlainArray, /) -> PlainArray: ...
@overload
def cbrt(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates element-wise cube root of the input array."""
@overload
def ceil(x: NamedArray, /) -> NamedArray:
    """Round input to the nearest integer upwards."""
@overload
def ceil(x: PlainArray, /) -> PlainArray: ...
@overload
def ceil(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Round input to the nearest integer upwards."""
@overload
def choose(
    a: NamedArray,
    choices: EitherArray | np.ndarray | Sequence[ArrayLike],
    out: None = None,
    mode: str = 'raise',
) -> NamedArray:
    """Construct an array by stacking slices of choice arrays."""
@overload
def choose(
    a: ArrayLike, choices: NamedArray, out: None = None, mode: str = 'raise',
) -> NamedArray: ...
@overload
def choose(
    a: PlainArray,
    choices: jax.Array | np.ndarray | Sequence[jax.typing.ArrayLike],
    out: None = None,
    mode: str = 'raise',
) -> PlainArray: ...
@overload
def choose(
    a: jax.typing.ArrayLike,
    choices: jax.Array | np.ndarray | Sequence[jax.typing.ArrayLike],
    out: None = None,
    mode: str = 'raise',
) -> jax.Array:
    """Construct an array by stacking slices of choice arrays."""
def clip(
    arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None,
) -> AnyArray:
    """Clip array values to a specified range."""
@overload
def column_stack(tup: NamedArray) -> NamedArray:
    """Stack arrays column-wise."""
@overload
def column_stack(tup: PlainArray) -> PlainArray: ...
@overload
def column_stack(tup: np.ndarray | jax.Array | Sequence[jax.typing.ArrayLike]) -> jax.Array:
    """Stack arrays column-wise."""
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: AxisSpec = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> AnyArray:
    """Compress an array along a given axis using a boolean condition."""
def concat(
    arrays: Sequence[Any] | Mapping[Any, Any],
    /,
    *,
    axis: AxisSpec = 0,
    dtype: DType | None = None,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Join arrays along an axis that all of them have, or along an axis of each.

    Args:
      arrays: arrays, named or not; other named axes broadcast. Along a named axis, positional axes
        broadcast as in arithmetic. A mapping `{"latent": x, "rope": y}` joins the axis "latent" of
        `x` and the axis "rope" of `y`; it requires `out_axis`, and `nx.split` is the inverse.
      axis: a positional or named axis, by default 0 (`None`: the flattened positional axes, as in
        `jnp.concatenate`). Omit it for a mapping.
      dtype: the dtype of the result, by default the common dtype.
      out_axis: the name of the joined axis; by default `axis`. Required in a mapped function in
        which `axis` has a fixed size.

    Returns:
      The joined array; its size along the axis is the sum of the sizes.

    Communication: along a sharded axis with a sharded result, rows move to their blocks by
    collective-permutes. If the axis of the result is not sharded, the operands are gathered.

    Raises:
      AxisNotFoundError: an array lacks the axis.
      AxisNameError: a mapping without `out_axis`, or with an array that has another axis of the
        mapping too.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.
    """
def concatenate(
    arrays: Sequence[Any] | Mapping[Any, Any],
    axis: AxisSpec = 0,
    dtype: DType | None = None,
    *,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Join arrays along an axis that all of them have, or along an axis of each.

    Args:
      arrays: arrays, named or not; other named axes broadcast. Along a named axis, positional axes
        broadcast as in arithmetic. A mapping `{"latent": x, "rope": y}` joins the axis "latent" of
        `x` and the axis "rope" of `y`; it requires `out_axis`, and `nx.split` is the inverse.
      axis: a positional or named axis, by default 0 (`None`: the flattened positional axes, as in
        `jnp.concatenate`). Omit it for a mapping.
      dtype: the dtype of the result, by default the common dtype.
      out_axis: the name of the joined axis; by default `axis`. Required in a mapped function in
        which `axis` has a fixed size.

    Returns:
      The joined array; its size along the axis is the sum of the sizes.

    Communication: along a sharded axis with a sharded result, rows move to their blocks by
    collective-permutes. If the axis of the result is not sharded, the operands are gathered.

    Raises:
      AxisNotFoundError: an array lacks the axis.
      AxisNameError: a mapping without `out_axis`, or with an array that has another axis of the
        mapping too.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.
    """
@overload
def conj(x: NamedArray, /) -> NamedArray:
    """Return element-wise complex-conjugate of the input."""
@overload
def conj(x: PlainArray, /) -> PlainArray: ...
@overload
def conj(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise complex-conjugate of the input."""
@overload
def conjugate(x: NamedArray, /) -> NamedArray:
    """Return element-wise complex-conjugate of the input."""
@overload
def conjugate(x: PlainArray, /) -> PlainArray: ...
@overload
def conjugate(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise complex-conjugate of the input."""
@overload
def convolve(
    a: NamedArray,
    v: ArrayLike,
    mode: str = 'full',
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Convolve along one axis, as `jnp.convolve`."""
@overload
def convolve(
    a: ArrayLike,
    v: NamedArray,
    mode: str = 'full',
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = 'full',
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Convolve along one axis, as `jnp.convolve`.

    See `nx.convolve`.
    """
@overload
def copy(a: NamedArray, order: str | None = None) -> NamedArray:
    """Return a copy of the array."""
@overload
def copy(a: PlainArray, order: str | None = None) -> PlainArray: ...
@overload
def copy(a: jax.typing.ArrayLike, order: str | None = None) -> jax.Array:
    """Return a copy of the array."""
@overload
def copysign(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Copies the sign of each element in ``x2`` to the corresponding element in ``x1``."""
@overload
def copysign(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def copysign(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def copysign(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Copies the sign of each element in ``x2`` to the corresponding element in ``x1``."""
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: builtins.bool = True,
    dtype: DType | None = None,
    *,
    axis: AxisSpec = None,
    variables: Sequence[AxisName] | None = None,
) -> AnyArray:
    """Compute correlation coefficients of variables over observations.

    They are covariances over the roots of both variances.

    See `nx.cov`.

    Args:
      x: an array, named or not.
      y: without `axis`, as in `jnp.corrcoef`; by default `None`.
      rowvar: without `axis`, as in `jnp.corrcoef`; by default `True`.
      dtype: the dtype of the result, by default as in `jnp.corrcoef`.
      axis: the observations, as in `nx.cov`; by default `None`.
      variables: as in `nx.cov`, by default `None`; required if `x` has no positional axis.

    Returns:
      The coefficients, with the axes of `nx.cov`.

    Communication: as for `nx.cov`, and one all-reduce for the variances.

    Raises:
      PositionalAxisError: `x` has no positional axis but named axes in addition to the
        observations, and `variables` is missing: each variable would be correlated with itself
        only.
    """
@overload
def correlate(
    a: NamedArray,
    v: ArrayLike,
    mode: str = 'valid',
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray:
    """Correlation of two one dimensional arrays."""
@overload
def correlate(
    a: ArrayLike,
    v: NamedArray,
    mode: str = 'valid',
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray: ...
@overload
def correlate(
    a: PlainArray,
    v: jax.typing.ArrayLike,
    mode: str = 'valid',
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> PlainArray: ...
@overload
def correlate(
    a: jax.typing.ArrayLike,
    v: jax.typing.ArrayLike,
    mode: str = 'valid',
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> jax.Array:
    """Correlation of two one dimensional arrays."""
@overload
def cos(x: NamedArray, /) -> NamedArray:
    """Compute a trigonometric cosine of each element of input."""
@overload
def cos(x: PlainArray, /) -> PlainArray: ...
@overload
def cos(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute a trigonometric cosine of each element of input."""
@overload
def cosh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise hyperbolic cosine of input."""
@overload
def cosh(x: PlainArray, /) -> PlainArray: ...
@overload
def cosh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise hyperbolic cosine of input."""
def count_nonzero(
    a: ArrayLike, axis: AxisSpec = None, keepdims: builtins.bool = False,
) -> AnyArray:
    """Count the nonzero elements over positional and named axes.

    See `nx.count_nonzero`.
    """
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: builtins.bool = True,
    bias: builtins.bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    axis: AxisSpec = None,
    variables: Sequence[AxisName] | None = None,
) -> AnyArray:
    """Compute the covariances of variables over observations.

    Args:
      m: an array, named or not.
      y: without `axis`, as in `jnp.cov`; by default `None`.
      rowvar: without `axis`, as in `jnp.cov`; by default `True`.
      bias: if `True`, divide by the number of observations `n` instead of `n - 1`; by default
        `False`.
      ddof: the number subtracted from `n`; by default 1, or 0 with `bias`.
      fweights: the number of repetitions of each observation: integers along `axis`; by default 1.
      aweights: the weight of each observation: floats along `axis`; by default 1.
      dtype: the dtype of the result, by default as in `jnp.cov`.
      axis: the axis name of the observations, or a tuple of names. Without it this is `jnp.cov` of
        the positional axes, and named axes are batch axes. By default `None`.
      variables: with `axis`, the name of the variables and the name for the other side: `("k",
        "k2")`. By default the one positional axis of `m`; if it has none, `m` is one variable. All
        other named axes are batch axes.

    Returns:
      The covariances, with `variables` in place of their name, or two positional axes.

    Communication: over sharded observations, one all-reduce for the means, and one for the
    covariances. Sharded variables are gathered once, for the other side.

    Raises:
      AxisNotFoundError: `m` lacks an axis.
      AxisNameError: `variables` is not a pair of different names.
      PositionalAxisError: `m` has several positional axes, or has one in addition to `variables`;
        or, without `axis`, `m` has named axes only.
      ArgumentTypeError: `y` is an axis name.
    """
def cross(
    a: object,
    b: object,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: AxisSpec = None,
) -> PyTree:
    """Compute the (batched) cross product of two arrays."""
@overload
def cumprod(
    a: NamedArray,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> NamedArray:
    """Compute the cumulative product along one axis."""
@overload
def cumprod(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> AnyArray:
    """Compute the cumulative product along one axis.

    See `nx.cumprod`.
    """
@overload
def cumsum(
    a: NamedArray,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> NamedArray:
    """Compute the cumulative sum along one axis."""
@overload
def cumsum(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> AnyArray:
    """Compute the cumulative sum along one axis.

    See `nx.cumsum`.
    """
@overload
def cumulative_prod(
    x: NamedArray,
    /,
    *,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Compute the cumulative product along one axis, as in the array API."""
@overload
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> AnyArray:
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
    """
@overload
def cumulative_sum(
    x: NamedArray,
    /,
    *,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Compute the cumulative sum along one axis, as in the array API; narrow integers become `int`."""
@overload
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> AnyArray:
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
    """
@overload
def deg2rad(x: NamedArray, /) -> NamedArray:
    """Convert angles from degrees to radians."""
@overload
def deg2rad(x: PlainArray, /) -> PlainArray: ...
@overload
def deg2rad(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Convert angles from degrees to radians."""
@overload
def degrees(x: NamedArray, /) -> NamedArray:
    """Convert angles from radians to degrees."""
@overload
def degrees(x: PlainArray, /) -> PlainArray: ...
@overload
def degrees(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Convert angles from radians to degrees."""
def delete(
    arr: ArrayLike,
    obj: ArrayLike | slice,
    axis: AxisSpec = None,
    *,
    assume_unique_indices: builtins.bool = False,
) -> AnyArray:
    """Delete entry or entries from an array."""
@overload
def diag(v: NamedArray, k: int = 0) -> NamedArray:
    """Returns the specified diagonal or constructs a diagonal array."""
@overload
def diag(v: PlainArray, k: int = 0) -> PlainArray: ...
@overload
def diag(v: jax.typing.ArrayLike, k: int = 0) -> jax.Array:
    """Returns the specified diagonal or constructs a diagonal array."""
def diag_indices(n: int, ndim: int = 2) -> tuple[AnyArray, ...]:
    """Return indices for accessing the main diagonal of a multidimensional array."""
def diag_indices_from(arr: ArrayLike) -> tuple[AnyArray, ...]:
    """Return indices for accessing the main diagonal of a given array."""
@overload
def diagflat(v: NamedArray, k: int = 0) -> NamedArray:
    """Return a 2-D array with the flattened input array laid out on the diagonal."""
@overload
def diagflat(v: PlainArray, k: int = 0) -> PlainArray: ...
@overload
def diagflat(v: jax.typing.ArrayLike, k: int = 0) -> jax.Array:
    """Return a 2-D array with the flattened input array laid out on the diagonal."""
def diagonal(
    a: ArrayLike, offset: int = 0, axis1: AxisSpec = 0, axis2: AxisSpec = 1,
) -> AnyArray:
    """Return the diagonal over two axes, as the last positional axis of the result.

    Args:
      a: an array, named or not.
      offset: the distance to the right of the main diagonal; by default 0.
      axis1: the positional or named axis of rows; by default 0.
      axis2: the axis of columns; by default 1.

    To keep the named axis, write `x["k", nx.arange(axis="q")]`.

    Communication: over sharded axes only the diagonal is sent: one all-reduce of its size if
    `axis2` is sharded, and one all-gather if `axis1` is, because it becomes a positional axis.

    Raises:
      AxisNotFoundError: `a` lacks a name.
    """
@overload
def diff(
    a: NamedArray,
    n: int = 1,
    axis: AxisSpec = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    *,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Compute the `n`-th differences along one axis, which becomes shorter by `n`."""
@overload
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: AxisSpec = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    *,
    out_axis: Hashable | None = None,
) -> AnyArray:
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
    """
@overload
def digitize(
    x: NamedArray, bins: ArrayLike, right: builtins.bool = False, *, method: str | None = None,
) -> NamedArray:
    """Convert an array to bin indices."""
@overload
def digitize(
    x: ArrayLike, bins: NamedArray, right: builtins.bool = False, *, method: str | None = None,
) -> NamedArray: ...
@overload
def digitize(
    x: PlainArray,
    bins: jax.typing.ArrayLike,
    right: builtins.bool = False,
    *,
    method: str | None = None,
) -> PlainArray: ...
@overload
def digitize(
    x: jax.typing.ArrayLike,
    bins: jax.typing.ArrayLike,
    right: builtins.bool = False,
    *,
    method: str | None = None,
) -> jax.Array:
    """Convert an array to bin indices."""
@overload
def divide(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculates the division of x1 by x2 element-wise."""
@overload
def divide(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def divide(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def divide(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the division of x1 by x2 element-wise."""
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[AnyArray, AnyArray]:
    """Calculates the integer quotient and remainder of x1 by x2 element-wise."""
@overload
def dot(
    a: NamedArray,
    b: ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> NamedArray:
    """Compute the dot product of two arrays."""
@overload
def dot(
    a: ArrayLike,
    b: NamedArray,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> NamedArray: ...
@overload
def dot(
    a: PlainArray,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> PlainArray: ...
@overload
def dot(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> jax.Array:
    """Compute the dot product of two arrays."""
def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[AnyArray]:
    """Split an array into sub-arrays depth-wise."""
@overload
def dstack(tup: NamedArray, dtype: DType | None = None) -> NamedArray:
    """Stack arrays depth-wise."""
@overload
def dstack(tup: PlainArray, dtype: DType | None = None) -> PlainArray: ...
@overload
def dstack(
    tup: np.ndarray | jax.Array | Sequence[jax.typing.ArrayLike], dtype: DType | None = None,
) -> jax.Array:
    """Stack arrays depth-wise."""
@overload
def ediff1d(
    ary: NamedArray, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None,
) -> NamedArray:
    """Compute the differences of the elements of the flattened array."""
@overload
def ediff1d(
    ary: jax.typing.ArrayLike,
    to_end: ArrayLike | None = None,
    to_begin: ArrayLike | None = None,
) -> jax.Array:
    """Compute the differences of the elements of the flattened array."""
def einsum(
    subscripts: str,
    /,
    *operands: object,
    out: None = None,
    optimize: str | builtins.bool | list[tuple[int, ...]] = 'auto',
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    _dot_general: Callable[..., EitherArray] = ...,
    out_sharding: object = None,
    overlap: Literal[False, True, 'bidirectional'] | None = None,
    wire: Literal['bf16', 'float8_e4m3', 'int8'] | Wire | None = None,
) -> AnyArray:
    """Contract arrays over positional and named axes.

    See `nx.einsum`.
    """
@overload
def empty(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Create an array with unspecified values, which are zeros in JAX."""
@overload
def empty(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Create an array with unspecified values, which are zeros in JAX.

    See `nx.empty`.
    """
@overload
def empty_like(
    prototype: NamedArray,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> NamedArray:
    """Create an empty array with the same shape and dtype as an array."""
@overload
def empty_like(
    prototype: PlainArray,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> PlainArray: ...
@overload
def empty_like(
    prototype: jax.typing.ArrayLike | jax.ShapeDtypeStruct,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> jax.Array:
    """Create an empty array with the same shape and dtype as an array."""
@overload
def equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Returns element-wise truth value of ``x == y``."""
@overload
def equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def equal(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns element-wise truth value of ``x == y``."""
@overload
def exp(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise exponential of the input."""
@overload
def exp(x: PlainArray, /) -> PlainArray: ...
@overload
def exp(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise exponential of the input."""
@overload
def exp2(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise base-2 exponential of input."""
@overload
def exp2(x: PlainArray, /) -> PlainArray: ...
@overload
def exp2(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise base-2 exponential of input."""
@overload
def expand_dims(a: NamedArray, axis: AxisSpec) -> NamedArray:
    """Insert axes of size 1."""
@overload
def expand_dims(a: ArrayLike, axis: AxisSpec) -> AnyArray:
    """Insert axes of size 1.

    Args:
      a: an array, named or not.
      axis: an axis name, the index of a positional axis of the result, or a tuple of both.

    Returns:
      The array with the new axes.

    Communication: none.

    Raises:
      AxisNameError: the array already has the axis.
    """
@overload
def expm1(x: NamedArray, /) -> NamedArray:
    """Calculate ``exp(x)-1`` of each element of the input."""
@overload
def expm1(x: PlainArray, /) -> PlainArray: ...
@overload
def expm1(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate ``exp(x)-1`` of each element of the input."""
@overload
def extract(
    condition: NamedArray,
    arr: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> NamedArray:
    """Return the elements of an array that satisfy a condition."""
@overload
def extract(
    condition: ArrayLike,
    arr: NamedArray,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> NamedArray: ...
@overload
def extract(
    condition: jax.typing.ArrayLike,
    arr: jax.typing.ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> jax.Array:
    """Return the elements of an array that satisfy a condition."""
def eye(
    N: int,
    M: int | None = None,
    k: ArrayLike = 0,
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> AnyArray:
    """Create a square or rectangular identity matrix."""
@overload
def fabs(x: NamedArray, /) -> NamedArray:
    """Compute the element-wise absolute values of the real-valued input."""
@overload
def fabs(x: PlainArray, /) -> PlainArray: ...
@overload
def fabs(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the element-wise absolute values of the real-valued input."""
@overload
def fill_diagonal(
    a: NamedArray,
    val: ArrayLike,
    wrap: builtins.bool = False,
    *,
    inplace: builtins.bool = True,
) -> NamedArray:
    """Return a copy of the array with the diagonal overwritten."""
@overload
def fill_diagonal(
    a: ArrayLike,
    val: NamedArray,
    wrap: builtins.bool = False,
    *,
    inplace: builtins.bool = True,
) -> NamedArray: ...
@overload
def fill_diagonal(
    a: PlainArray,
    val: jax.typing.ArrayLike,
    wrap: builtins.bool = False,
    *,
    inplace: builtins.bool = True,
) -> PlainArray: ...
@overload
def fill_diagonal(
    a: jax.typing.ArrayLike,
    val: jax.typing.ArrayLike,
    wrap: builtins.bool = False,
    *,
    inplace: builtins.bool = True,
) -> jax.Array:
    """Return a copy of the array with the diagonal overwritten."""
@overload
def flatnonzero(
    a: NamedArray,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None | tuple[ArrayLike, ...] | None = None,
) -> NamedArray:
    """Return indices of nonzero elements in a flattened array."""
@overload
def flatnonzero(
    a: jax.typing.ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None | tuple[ArrayLike, ...] | None = None,
) -> jax.Array:
    """Return indices of nonzero elements in a flattened array."""
@overload
def flip(m: NamedArray, axis: AxisSpec = None) -> NamedArray:
    """Reverse axes."""
@overload
def flip(m: ArrayLike, axis: AxisSpec = None) -> AnyArray:
    """Reverse axes.

    Args:
      m: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; `None` (default) selects all
        positional axes, `...` all axes. Required if every axis is named.

    Returns:
      An array of the same axes.

    Communication: along a sharded axis, one collective-permute that sends each block to its mirror
    image.

    Raises:
      AxisNotFoundError: the array lacks a named axis.
    """
@overload
def fliplr(m: NamedArray) -> NamedArray:
    """Reverse the order of elements of an array along axis 1."""
@overload
def fliplr(m: PlainArray) -> PlainArray: ...
@overload
def fliplr(m: jax.typing.ArrayLike) -> jax.Array:
    """Reverse the order of elements of an array along axis 1."""
@overload
def flipud(m: NamedArray) -> NamedArray:
    """Reverse the order of elements of an array along axis 0."""
@overload
def flipud(m: PlainArray) -> PlainArray: ...
@overload
def flipud(m: jax.typing.ArrayLike) -> jax.Array:
    """Reverse the order of elements of an array along axis 0."""
float6_e2m3fn: Any
float6_e3m2fn: Any
@overload
def float_power(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Calculate element-wise base ``x`` exponential of ``y``."""
@overload
def float_power(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def float_power(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def float_power(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise base ``x`` exponential of ``y``."""
@overload
def floor(x: NamedArray, /) -> NamedArray:
    """Round input to the nearest integer downwards."""
@overload
def floor(x: PlainArray, /) -> PlainArray: ...
@overload
def floor(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Round input to the nearest integer downwards."""
@overload
def floor_divide(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculates the floor division of x1 by x2 element-wise."""
@overload
def floor_divide(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def floor_divide(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def floor_divide(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the floor division of x1 by x2 element-wise."""
@overload
def fmax(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Return element-wise maximum of the input arrays."""
@overload
def fmax(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def fmax(x1: PlainArray, x2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def fmax(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Return element-wise maximum of the input arrays."""
@overload
def fmin(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Return element-wise minimum of the input arrays."""
@overload
def fmin(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def fmin(x1: PlainArray, x2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def fmin(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Return element-wise minimum of the input arrays."""
@overload
def fmod(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculate element-wise floating-point modulo operation."""
@overload
def fmod(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def fmod(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def fmod(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise floating-point modulo operation."""
def frexp(x: ArrayLike, /) -> tuple[AnyArray, AnyArray]:
    """Split floating point values into mantissa and twos exponent."""
def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None,
) -> jax.numpy.ufunc:
    """Build a `jnp.ufunc` from a function of scalars, as `jnp.frompyfunc`.

    Args:
      func: a function of `nin` scalars.
      nin: the number of its arguments.
      nout: the number of its results.
      identity: the neutral element of its reductions; by default `None`.

    Returns:
      A `jnp.ufunc` for arrays without names. Call it in `nx.nmap` on named arrays.

    Communication: none.

    Raises:
      ArgumentTypeError: `func` is not a function.
    """
@overload
def full(
    shape: Shape = (),
    fill_value: ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Create an array of one value, with named axes in addition to the positional ones."""
@overload
def full(
    shape: Shape = (),
    fill_value: ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Create an array of one value, with named axes in addition to the positional ones.

    See `nx.full`.
    """
@overload
def full_like(
    a: NamedArray,
    fill_value: ArrayLike,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Create an array full of a specified value with the same shape and dtype as an array."""
@overload
def full_like(
    a: ArrayLike | jax.ShapeDtypeStruct,
    fill_value: NamedArray,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray: ...
@overload
def full_like(
    a: PlainArray,
    fill_value: jax.typing.ArrayLike,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> PlainArray: ...
@overload
def full_like(
    a: jax.typing.ArrayLike | jax.ShapeDtypeStruct,
    fill_value: jax.typing.ArrayLike,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Create an array full of a specified value with the same shape and dtype as an array."""
@overload
def gcd(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Compute the greatest common divisor of two arrays."""
@overload
def gcd(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def gcd(x1: PlainArray, x2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def gcd(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Compute the greatest common divisor of two arrays."""
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    dtype: DType | None = None,
    axis: AxisSpec = 0,
) -> AnyArray:
    """Generate geometrically-spaced values."""
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: AxisSpec = None, edge_order: int | None = None,
) -> AnyArray | list[AnyArray]:
    """Compute central differences along axes, one-sided at both ends: `jnp.gradient`.

    Args:
      f: values, named or not.
      *varargs: the distance between two values, for all axes or for each, by default 1. Or
        coordinates along the axis, an array that has it or a plain one.
      axis: a positional axis, an axis name, or a tuple of both; by default all positional axes.
        Required if every axis is named.
      edge_order: not supported, as in `jnp.gradient`; by default `None`.

    Returns:
      An array like `f`, or a list of them, one for each axis.

    Communication: along a sharded axis, the rows at the boundaries of blocks.

    Raises:
      AxisNotFoundError: `f` lacks a named axis.
      AxisSizeError: an axis has fewer than two elements.
    """
@overload
def greater(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x > y``."""
@overload
def greater(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def greater(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def greater(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x > y``."""
@overload
def greater_equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x >= y``."""
@overload
def greater_equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def greater_equal(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def greater_equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x >= y``."""
def hamming(M: int) -> AnyArray:
    """Return a Hamming window of size M."""
def hanning(M: int) -> AnyArray:
    """Return a Hanning window of size M."""
@overload
def heaviside(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute the heaviside step function."""
@overload
def heaviside(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def heaviside(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def heaviside(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the heaviside step function."""
def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: builtins.bool | None = None,
    *,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Count the elements in each bin, over positional and named axes.

    See `nx.histogram`.
    """
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike | list[ArrayLike] = 10,
    range: Sequence[None | EitherArray | Sequence[ArrayLike]] | None = None,
    weights: ArrayLike | None = None,
    density: builtins.bool | None = None,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Compute a 2-dimensional histogram."""
@overload
def histogram_bin_edges(
    a: NamedArray,
    bins: ArrayLike = 10,
    range: None | EitherArray | Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> NamedArray:
    """Compute the bin edges for a histogram."""
@overload
def histogram_bin_edges(
    a: jax.typing.ArrayLike,
    bins: ArrayLike = 10,
    range: None | EitherArray | Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> jax.Array:
    """Compute the bin edges for a histogram."""
def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike | list[ArrayLike] = 10,
    range: Sequence[None | EitherArray | Sequence[ArrayLike]] | None = None,
    weights: ArrayLike | None = None,
    density: builtins.bool | None = None,
) -> tuple[AnyArray, list[AnyArray]]:
    """Compute an N-dimensional histogram."""
def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[AnyArray]:
    """Split an array into sub-arrays horizontally."""
@overload
def hstack(tup: NamedArray, dtype: DType | None = None) -> NamedArray:
    """Horizontally stack arrays."""
@overload
def hstack(tup: PlainArray, dtype: DType | None = None) -> PlainArray: ...
@overload
def hstack(
    tup: np.ndarray | jax.Array | Sequence[jax.typing.ArrayLike], dtype: DType | None = None,
) -> jax.Array:
    """Horizontally stack arrays."""
@overload
def hypot(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Return element-wise hypotenuse for the given legs of a right angle triangle."""
@overload
def hypot(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def hypot(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def hypot(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise hypotenuse for the given legs of a right angle triangle."""
@overload
def i0(x: NamedArray) -> NamedArray:
    """Calculate modified Bessel function of first kind, zeroth order."""
@overload
def i0(x: PlainArray) -> PlainArray: ...
@overload
def i0(x: jax.typing.ArrayLike) -> jax.Array:
    """Calculate modified Bessel function of first kind, zeroth order."""
def identity(n: int, dtype: DType | None = None) -> AnyArray:
    """Create a square identity matrix."""
@overload
def imag(val: NamedArray, /) -> NamedArray:
    """Return element-wise imaginary of part of the complex argument."""
@overload
def imag(val: PlainArray, /) -> PlainArray: ...
@overload
def imag(val: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise imaginary of part of the complex argument."""
def indices(
    dimensions: AxisSpec, dtype: DType | None = None, sparse: builtins.bool = False,
) -> AnyArray | tuple[AnyArray, ...]:
    """Generate arrays of grid indices."""
@overload
def inner(
    a: NamedArray,
    b: ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray:
    """Compute the inner product of two arrays."""
@overload
def inner(
    a: ArrayLike,
    b: NamedArray,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray: ...
@overload
def inner(
    a: PlainArray,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> PlainArray: ...
@overload
def inner(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> jax.Array:
    """Compute the inner product of two arrays."""
def insert(
    arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: AxisSpec = None,
) -> AnyArray:
    """Insert entries into an array at specified indices."""
int1: Any
@overload
def interp(
    x: NamedArray,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> NamedArray:
    """One-dimensional linear interpolation."""
@overload
def interp(
    x: ArrayLike,
    xp: NamedArray,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> NamedArray: ...
@overload
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: NamedArray,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> NamedArray: ...
@overload
def interp(
    x: jax.typing.ArrayLike,
    xp: jax.typing.ArrayLike,
    fp: jax.typing.ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> jax.Array:
    """One-dimensional linear interpolation."""
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: builtins.bool = False,
    return_indices: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray, AnyArray]:
    """Compute the set intersection of two 1D arrays."""
@overload
def invert(x: NamedArray, /) -> NamedArray:
    """Compute the bitwise inversion of an input."""
@overload
def invert(x: PlainArray, /) -> PlainArray: ...
@overload
def invert(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the bitwise inversion of an input."""
@overload
def isclose(
    a: NamedArray,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: builtins.bool = False,
) -> NamedArray:
    """Check if the elements of two arrays are approximately equal within a tolerance."""
@overload
def isclose(
    a: ArrayLike,
    b: NamedArray,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: builtins.bool = False,
) -> NamedArray: ...
@overload
def isclose(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: builtins.bool = False,
) -> jax.Array:
    """Check if the elements of two arrays are approximately equal within a tolerance."""
@overload
def iscomplex(x: NamedArray) -> NamedArray:
    """Return boolean array showing where the input is complex."""
@overload
def iscomplex(x: PlainArray) -> PlainArray: ...
@overload
def iscomplex(x: jax.typing.ArrayLike) -> jax.Array:
    """Return boolean array showing where the input is complex."""
def iscomplexobj(x: ArrayLike) -> builtins.bool:
    """Return True if the dtype is complex.

    Args:
      x: an array, named or not.

    Communication: none.
    """
@overload
def isfinite(x: NamedArray, /) -> NamedArray:
    """Return a boolean array indicating whether each element of input is finite."""
@overload
def isfinite(x: PlainArray, /) -> PlainArray: ...
@overload
def isfinite(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return a boolean array indicating whether each element of input is finite."""
@overload
def isin(
    element: NamedArray,
    test_elements: ArrayLike,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
    *,
    method: object = 'auto',
) -> NamedArray:
    """Determine whether elements in ``element`` appear in ``test_elements``."""
@overload
def isin(
    element: ArrayLike,
    test_elements: NamedArray,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
    *,
    method: object = 'auto',
) -> NamedArray: ...
@overload
def isin(
    element: PlainArray,
    test_elements: jax.typing.ArrayLike,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
    *,
    method: object = 'auto',
) -> PlainArray: ...
@overload
def isin(
    element: jax.typing.ArrayLike,
    test_elements: jax.typing.ArrayLike,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
    *,
    method: object = 'auto',
) -> jax.Array:
    """Determine whether elements in ``element`` appear in ``test_elements``."""
@overload
def isinf(x: NamedArray, /) -> NamedArray:
    """Return a boolean array indicating whether each element of input is infinite."""
@overload
def isinf(x: PlainArray, /) -> PlainArray: ...
@overload
def isinf(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return a boolean array indicating whether each element of input is infinite."""
@overload
def isnan(x: NamedArray, /) -> NamedArray:
    """Returns a boolean array indicating whether each element of input is ``NaN``."""
@overload
def isnan(x: PlainArray, /) -> PlainArray: ...
@overload
def isnan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns a boolean array indicating whether each element of input is ``NaN``."""
@overload
def isneginf(x: NamedArray, /, out: object = None) -> NamedArray:
    """Return boolean array indicating whether each element of input is negative infinite."""
@overload
def isneginf(x: PlainArray, /, out: object = None) -> PlainArray: ...
@overload
def isneginf(x: jax.typing.ArrayLike, /, out: object = None) -> jax.Array:
    """Return boolean array indicating whether each element of input is negative infinite."""
@overload
def isposinf(x: NamedArray, /, out: object = None) -> NamedArray:
    """Return boolean array indicating whether each element of input is positive infinite."""
@overload
def isposinf(x: PlainArray, /, out: object = None) -> PlainArray: ...
@overload
def isposinf(x: jax.typing.ArrayLike, /, out: object = None) -> jax.Array:
    """Return boolean array indicating whether each element of input is positive infinite."""
@overload
def isreal(x: NamedArray) -> NamedArray:
    """Return boolean array showing where the input is real."""
@overload
def isreal(x: PlainArray) -> PlainArray: ...
@overload
def isreal(x: jax.typing.ArrayLike) -> jax.Array:
    """Return boolean array showing where the input is real."""
def isrealobj(x: ArrayLike) -> builtins.bool:
    """Return True if the dtype is not complex.

    Args:
      x: an array, named or not.

    Communication: none.
    """
def isscalar(element: ArrayLike) -> builtins.bool:
    """Return True if `element` is a scalar; a named array is not, for any number of positional axes.

    See `nx.isscalar`.
    """
def ix_(*args: ArrayLike) -> tuple[AnyArray, ...]:
    """Return a multi-dimensional grid (open mesh) from N one-dimensional sequences."""
@overload
def kaiser(M: int, beta: NamedArray) -> NamedArray:
    """Return a Kaiser window of size M."""
@overload
def kaiser(M: int, beta: PlainArray) -> PlainArray: ...
@overload
def kaiser(M: int, beta: jax.typing.ArrayLike) -> jax.Array:
    """Return a Kaiser window of size M."""
@overload
def kron(a: NamedArray, b: ArrayLike) -> NamedArray:
    """Compute the Kronecker product of two input arrays."""
@overload
def kron(a: ArrayLike, b: NamedArray) -> NamedArray: ...
@overload
def kron(a: PlainArray, b: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def kron(a: jax.typing.ArrayLike, b: jax.typing.ArrayLike) -> jax.Array:
    """Compute the Kronecker product of two input arrays."""
@overload
def lcm(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Compute the least common multiple of two arrays."""
@overload
def lcm(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def lcm(x1: PlainArray, x2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def lcm(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Compute the least common multiple of two arrays."""
@overload
def ldexp(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute x1 * 2 ** x2."""
@overload
def ldexp(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def ldexp(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def ldexp(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute x1 * 2 ** x2."""
@overload
def left_shift(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Shift bits of ``x`` to left by the amount specified in ``y``, element-wise."""
@overload
def left_shift(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def left_shift(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def left_shift(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Shift bits of ``x`` to left by the amount specified in ``y``, element-wise."""
@overload
def less(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x < y``."""
@overload
def less(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def less(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def less(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x < y``."""
@overload
def less_equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x <= y``."""
@overload
def less_equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def less_equal(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def less_equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x <= y``."""
def lexsort(keys: Iterable[ArrayLike], axis: AxisSpec = -1) -> AnyArray:
    """Return the indices that sort along one axis by several keys, the last one as the primary key.

    Ties keep their order.

    Args:
      keys: a sequence of arrays, named or not, which broadcast by name; or one array with the keys
        along its first positional axis.
      axis: a positional or named axis, by default -1.

    Returns:
      Integers with all axes of the keys.

    Communication: along a sharded axis, as for `argsort`, for all keys.
    """
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    retstep: builtins.bool = False,
    dtype: DType | None = None,
    axis: Hashable = 0,
    *,
    device: Any | jax.sharding.Sharding | None = None,
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
    """
@overload
def log(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise natural logarithm of the input."""
@overload
def log(x: PlainArray, /) -> PlainArray: ...
@overload
def log(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise natural logarithm of the input."""
@overload
def log10(x: NamedArray, /) -> NamedArray:
    """Calculates the base-10 logarithm of x element-wise."""
@overload
def log10(x: PlainArray, /) -> PlainArray: ...
@overload
def log10(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the base-10 logarithm of x element-wise."""
@overload
def log1p(x: NamedArray, /) -> NamedArray:
    """Calculates element-wise logarithm of one plus input, ``log(x+1)``."""
@overload
def log1p(x: PlainArray, /) -> PlainArray: ...
@overload
def log1p(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates element-wise logarithm of one plus input, ``log(x+1)``."""
@overload
def log2(x: NamedArray, /) -> NamedArray:
    """Calculates the base-2 logarithm of ``x`` element-wise."""
@overload
def log2(x: PlainArray, /) -> PlainArray: ...
@overload
def log2(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the base-2 logarithm of ``x`` element-wise."""
@overload
def logaddexp(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Compute ``log(exp(x1) + exp(x2))`` avoiding overflow."""
@overload
def logaddexp(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def logaddexp(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def logaddexp(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Compute ``log(exp(x1) + exp(x2))`` avoiding overflow."""
@overload
def logaddexp2(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Logarithm of the sum of exponentials of inputs in base-2 avoiding overflow."""
@overload
def logaddexp2(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def logaddexp2(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def logaddexp2(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Logarithm of the sum of exponentials of inputs in base-2 avoiding overflow."""
@overload
def logical_and(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Compute the logical AND operation elementwise."""
@overload
def logical_and(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def logical_and(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def logical_and(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Compute the logical AND operation elementwise."""
@overload
def logical_not(x: NamedArray, /) -> NamedArray:
    """Compute NOT bool(x) element-wise."""
@overload
def logical_not(x: PlainArray, /) -> PlainArray: ...
@overload
def logical_not(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute NOT bool(x) element-wise."""
@overload
def logical_or(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Compute the logical OR operation elementwise."""
@overload
def logical_or(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def logical_or(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def logical_or(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Compute the logical OR operation elementwise."""
@overload
def logical_xor(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Compute the logical XOR operation elementwise."""
@overload
def logical_xor(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def logical_xor(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def logical_xor(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Compute the logical XOR operation elementwise."""
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    base: ArrayLike = 10.0,
    dtype: DType | None = None,
    axis: AxisSpec = 0,
) -> AnyArray:
    """Generate logarithmically-spaced values."""
@overload
def matmul(
    a: NamedArray,
    b: ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Perform a matrix multiplication."""
@overload
def matmul(
    a: ArrayLike,
    b: NamedArray,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray: ...
@overload
def matmul(
    a: PlainArray,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> PlainArray: ...
@overload
def matmul(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Perform a matrix multiplication."""
@overload
def matrix_transpose(x: NamedArray, /) -> NamedArray:
    """Transpose the last two dimensions of an array."""
@overload
def matrix_transpose(x: PlainArray, /) -> PlainArray: ...
@overload
def matrix_transpose(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Transpose the last two dimensions of an array."""
@overload
def matvec(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Batched matrix-vector product."""
@overload
def matvec(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def matvec(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def matvec(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Batched matrix-vector product."""
def max(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the maximum over positional and named axes.

    See `nx.max`.
    """
@overload
def maximum(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Return element-wise maximum of the input arrays."""
@overload
def maximum(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def maximum(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def maximum(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Return element-wise maximum of the input arrays."""
def mean(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Average over positional and named axes.

    See `nx.mean`.
    """
def median(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> AnyArray:
    """Compute the median over positional and named axes at once, NaN if one element is NaN.

    See `nx.median`.
    """
def meshgrid(
    *xi: ArrayLike,
    copy: builtins.bool = True,
    sparse: builtins.bool = False,
    indexing: str = 'xy',
) -> list[AnyArray]:
    """Construct N-dimensional grid arrays from N 1-dimensional vectors."""
def min(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the minimum over positional and named axes.

    See `nx.min`.
    """
@overload
def minimum(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Return element-wise minimum of the input arrays."""
@overload
def minimum(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def minimum(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def minimum(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Return element-wise minimum of the input arrays."""
@overload
def mod(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Returns element-wise remainder of the division."""
@overload
def mod(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def mod(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def mod(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns element-wise remainder of the division."""
def modf(x: ArrayLike, /, out: object = None) -> tuple[AnyArray, AnyArray]:
    """Return element-wise fractional and integral parts of the input array."""
@overload
def moveaxis(a: NamedArray, source: AxisSpec, destination: AxisSpec) -> NamedArray:
    """Move positional axes to other positions, as `jnp.moveaxis`; named axes are batch axes."""
@overload
def moveaxis(a: ArrayLike, source: AxisSpec, destination: AxisSpec) -> AnyArray:
    """Move positional axes to other positions, as `jnp.moveaxis`; named axes are batch axes.

    Args:
      a: an array, named or not.
      source: the positional axes to move, an integer or a sequence.
      destination: their positions in the result.

    Communication: none.

    Raises:
      AxisNameError: an axis is a name.
    """
@overload
def multiply(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Multiply two arrays element-wise."""
@overload
def multiply(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def multiply(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def multiply(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Multiply two arrays element-wise."""
@overload
def nan_to_num(
    x: NamedArray,
    copy: builtins.bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> NamedArray:
    """Replace NaN and infinite entries in an array."""
@overload
def nan_to_num(
    x: jax.typing.ArrayLike,
    copy: builtins.bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> jax.Array:
    """Replace NaN and infinite entries in an array."""
def nanargmax(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool | None = None,
) -> AnyArray:
    """Return the index of the first maximum without NaNs, or -1 if there is none.

    See `nx.nanargmax`.
    """
def nanargmin(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool | None = None,
) -> AnyArray:
    """Return the index of the first minimum without NaNs, or -1 if there is none.

    See `nx.nanargmin`.
    """
@overload
def nancumprod(
    a: NamedArray,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> NamedArray:
    """Compute the cumulative product along one axis with NaN as one."""
@overload
def nancumprod(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> AnyArray:
    """Compute the cumulative product along one axis with NaN as one.

    See `nx.nancumprod`.
    """
@overload
def nancumsum(
    a: NamedArray,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> NamedArray:
    """Compute the cumulative sum along one axis with NaN as zero."""
@overload
def nancumsum(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    *,
    reverse: builtins.bool = False,
) -> AnyArray:
    """Compute the cumulative sum along one axis with NaN as zero.

    See `nx.nancumsum`.
    """
def nanmax(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the maximum of the elements that are not NaN, or NaN if there are none.

    See `nx.nanmax`.
    """
def nanmean(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Average the elements that are not NaN (NaN if there are none).

    See `nx.nanmean`.
    """
def nanmedian(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> AnyArray:
    """Compute the median of the elements that are not NaN.

    See `nx.nanmedian`.
    """
def nanmin(
    a: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Take the minimum of the elements that are not NaN, or NaN if there are none.

    See `nx.nanmin`.
    """
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> AnyArray:
    """Compute percentiles of the elements that are not NaN.

    See `nx.nanpercentile`.
    """
def nanprod(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Multiply the elements that are not NaN.

    See `nx.nanprod`.
    """
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> AnyArray:
    """Compute quantiles of the elements that are not NaN.

    See `nx.nanquantile`.
    """
def nanstd(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    *,
    correction: float | None = None,
) -> AnyArray:
    """Compute the standard deviation of the elements that are not NaN (NaN if there are none).

    See `nx.nanstd`.
    """
def nansum(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Sum the elements that are not NaN.

    See `nx.nansum`.
    """
def nanvar(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    *,
    correction: float | None = None,
) -> AnyArray:
    """Compute the variance of the elements that are not NaN (NaN if there are none).

    See `nx.nanvar`.
    """
def ndim(a: ArrayLike) -> int:
    """Return the number of positional axes.

    See `nx.ndim`.
    """
def negative(*args: ArrayLike, out: None = None, where: None = None) -> AnyArray:
    """Return element-wise negative values of the input."""
@overload
def nextafter(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise next floating point value after ``x`` towards ``y``."""
@overload
def nextafter(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def nextafter(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def nextafter(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise next floating point value after ``x`` towards ``y``."""
def nonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: jax.typing.ArrayLike | tuple[jax.typing.ArrayLike, ...] | None = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> tuple[AnyArray, ...]:
    """Return the indices of the nonzero elements, in row-major order.

    Args:
      a: an array, named or not.
      size: the number of returned indices: the first ones, followed by `fill_value`. Optional for a
        named axis, which takes its size in the mapped function. By default `None`.
      fill_value: the value after the last index: a number, or one for each axis; by default 0.
      axis: an axis name, or a tuple of names, major first: other axes are batch axes. By default
        the positional axes, as in `jnp.nonzero`, with named axes as batch axes.
      out_axis: the name of the result's axis; by default a positional one, in front.

    Returns:
      A tuple with an array of indices for every axis, each with the batch axes and the axis of the
      result.

    Communication: over sharded axes, one number per device to count the preceding elements, and one
    all-reduce of the result for each axis. With several names, every axis except the last needs a
    table of the results before the sum.

    Raises:
      AxisNotFoundError: `a` lacks an axis, or the size of the result is not known.
      ArgumentError: there is no size.
      AxisNameError: `out_axis` is an axis of `a`.
    """
@overload
def not_equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Returns element-wise truth value of ``x != y``."""
@overload
def not_equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def not_equal(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def not_equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns element-wise truth value of ``x != y``."""
@overload
def ones(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Create an array of ones, with named axes in addition to the positional ones."""
@overload
def ones(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Create an array of ones, with named axes in addition to the positional ones.

    See `nx.ones`.
    """
@overload
def ones_like(
    a: NamedArray,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Create an array of ones with the same shape and dtype as an array."""
@overload
def ones_like(
    a: PlainArray,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> PlainArray: ...
@overload
def ones_like(
    a: jax.typing.ArrayLike | jax.ShapeDtypeStruct,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Create an array of ones with the same shape and dtype as an array."""
@overload
def outer(a: NamedArray, b: ArrayLike, out: None = None) -> NamedArray:
    """Compute the outer product of two arrays."""
@overload
def outer(a: ArrayLike, b: NamedArray, out: None = None) -> NamedArray: ...
@overload
def outer(a: PlainArray, b: jax.typing.ArrayLike, out: None = None) -> PlainArray: ...
@overload
def outer(a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, out: None = None) -> jax.Array:
    """Compute the outer product of two arrays."""
def packbits(a: ArrayLike, axis: AxisSpec = None, bitorder: str = 'big') -> AnyArray:
    """Pack array of bits into a uint8 array."""
@overload
def pad(
    array: NamedArray,
    pad_width: int | EitherArray | np.ndarray | Sequence[int | EitherArray | np.ndarray] | Sequence[Sequence[int | EitherArray | np.ndarray]],
    mode: str = 'constant',
    *,
    constant_values: jax.typing.ArrayLike = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **kwargs: object,
) -> NamedArray:
    """Pad an array at the ends of its axes."""
@overload
def pad(
    array: ArrayLike,
    pad_width: NamedArray,
    mode: str = 'constant',
    *,
    constant_values: jax.typing.ArrayLike = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **kwargs: object,
) -> NamedArray: ...
@overload
def pad(
    array: ArrayLike,
    pad_width: int | EitherArray | np.ndarray | Sequence[int | EitherArray | np.ndarray] | Sequence[Sequence[int | EitherArray | np.ndarray]],
    mode: str = 'constant',
    *,
    constant_values: jax.typing.ArrayLike = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **kwargs: object,
) -> AnyArray:
    """Pad an array at the ends of its axes.

    See `nx.pad`.
    """
@overload
def partition(a: NamedArray, kth: int, axis: AxisSpec = -1) -> NamedArray:
    """Partition values along one axis at rank `kth`: smaller values precede it, larger ones follow."""
@overload
def partition(a: ArrayLike, kth: int, axis: AxisSpec = -1) -> AnyArray:
    """Partition values along one axis at rank `kth`: smaller values precede it, larger ones follow.

    See `nx.partition`.
    """
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Compute percentiles over positional and named axes, NaN if one element is NaN.

    See `nx.percentile`.
    """
@overload
def permute_dims(a: NamedArray, /, axes: Sequence[Hashable] | None = None) -> NamedArray:
    """Reorder the positional axes: `nx.transpose` under its name in the array API."""
@overload
def permute_dims(a: ArrayLike, /, axes: Sequence[Hashable] | None = None) -> AnyArray:
    """Reorder the positional axes: `nx.transpose` under its name in the array API.

    Args:
      a: an array, named or not.
      axes: the positional axes in their new order, and axis names, which have no effect; by default
        `None`, the positional axes in reverse order.

    Communication: none.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      PositionalAxisError: `axes` is omitted, and every axis of `a` is named.

    `nx.numpy.permute_dims` has JAX's parameters, in JAX's order.
    Arguments without any name go to JAX's own function.
    """
@overload
def piecewise(
    x: NamedArray,
    condlist: EitherArray | Sequence[ArrayLike],
    funclist: list[ArrayLike | Callable[..., EitherArray]],
    *args: object,
    **kw: object,
) -> NamedArray:
    """Evaluate a function defined piecewise across the domain."""
@overload
def piecewise(
    x: ArrayLike,
    condlist: NamedArray,
    funclist: list[ArrayLike | Callable[..., EitherArray]],
    *args: object,
    **kw: object,
) -> NamedArray: ...
@overload
def piecewise(
    x: jax.typing.ArrayLike,
    condlist: jax.Array | Sequence[jax.typing.ArrayLike],
    funclist: list[ArrayLike | Callable[..., EitherArray]],
    *args: object,
    **kw: object,
) -> jax.Array:
    """Evaluate a function defined piecewise across the domain."""
@overload
def place(
    arr: NamedArray, mask: ArrayLike, vals: ArrayLike, *, inplace: builtins.bool = True,
) -> NamedArray:
    """Update array elements based on a mask."""
@overload
def place(
    arr: ArrayLike, mask: NamedArray, vals: ArrayLike, *, inplace: builtins.bool = True,
) -> NamedArray: ...
@overload
def place(
    arr: ArrayLike, mask: ArrayLike, vals: NamedArray, *, inplace: builtins.bool = True,
) -> NamedArray: ...
@overload
def place(
    arr: PlainArray,
    mask: jax.typing.ArrayLike,
    vals: jax.typing.ArrayLike,
    *,
    inplace: builtins.bool = True,
) -> PlainArray: ...
@overload
def place(
    arr: jax.typing.ArrayLike,
    mask: jax.typing.ArrayLike,
    vals: jax.typing.ArrayLike,
    *,
    inplace: builtins.bool = True,
) -> jax.Array:
    """Update array elements based on a mask."""
@overload
def poly(seq_of_zeros: NamedArray) -> NamedArray:
    """Returns the coefficients of a polynomial for the given sequence of roots."""
@overload
def poly(seq_of_zeros: PlainArray) -> PlainArray: ...
@overload
def poly(seq_of_zeros: jax.typing.ArrayLike) -> jax.Array:
    """Returns the coefficients of a polynomial for the given sequence of roots."""
@overload
def polyadd(a1: NamedArray, a2: ArrayLike) -> NamedArray:
    """Returns the sum of the two polynomials."""
@overload
def polyadd(a1: ArrayLike, a2: NamedArray) -> NamedArray: ...
@overload
def polyadd(a1: PlainArray, a2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def polyadd(a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike) -> jax.Array:
    """Returns the sum of the two polynomials."""
@overload
def polyder(p: NamedArray, m: int = 1) -> NamedArray:
    """Returns the coefficients of the derivative of specified order of a polynomial."""
@overload
def polyder(p: PlainArray, m: int = 1) -> PlainArray: ...
@overload
def polyder(p: jax.typing.ArrayLike, m: int = 1) -> jax.Array:
    """Returns the coefficients of the derivative of specified order of a polynomial."""
def polydiv(
    u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: builtins.bool = False,
) -> tuple[AnyArray, AnyArray]:
    """Returns the quotient and remainder of polynomial division."""
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: builtins.bool = False,
    w: ArrayLike | None = None,
    cov: builtins.bool = False,
) -> AnyArray | tuple[AnyArray, ...]:
    """Least squares polynomial fit to data."""
@overload
def polyint(p: NamedArray, m: int = 1, k: ArrayLike | None = None) -> NamedArray:
    """Returns the coefficients of the integration of specified order of a polynomial."""
@overload
def polyint(p: jax.typing.ArrayLike, m: int = 1, k: ArrayLike | None = None) -> jax.Array:
    """Returns the coefficients of the integration of specified order of a polynomial."""
@overload
def polymul(
    a1: NamedArray, a2: ArrayLike, *, trim_leading_zeros: builtins.bool = False,
) -> NamedArray:
    """Returns the product of two polynomials."""
@overload
def polymul(
    a1: ArrayLike, a2: NamedArray, *, trim_leading_zeros: builtins.bool = False,
) -> NamedArray: ...
@overload
def polymul(
    a1: PlainArray, a2: jax.typing.ArrayLike, *, trim_leading_zeros: builtins.bool = False,
) -> PlainArray: ...
@overload
def polymul(
    a1: jax.typing.ArrayLike,
    a2: jax.typing.ArrayLike,
    *,
    trim_leading_zeros: builtins.bool = False,
) -> jax.Array:
    """Returns the product of two polynomials."""
@overload
def polysub(a1: NamedArray, a2: ArrayLike) -> NamedArray:
    """Returns the difference of two polynomials."""
@overload
def polysub(a1: ArrayLike, a2: NamedArray) -> NamedArray: ...
@overload
def polysub(a1: PlainArray, a2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def polysub(a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike) -> jax.Array:
    """Returns the difference of two polynomials."""
@overload
def polyval(p: NamedArray, x: ArrayLike, *, unroll: int = 16) -> NamedArray:
    """Evaluates the polynomial at specific values."""
@overload
def polyval(p: ArrayLike, x: NamedArray, *, unroll: int = 16) -> NamedArray: ...
@overload
def polyval(p: PlainArray, x: jax.typing.ArrayLike, *, unroll: int = 16) -> PlainArray: ...
@overload
def polyval(p: jax.typing.ArrayLike, x: jax.typing.ArrayLike, *, unroll: int = 16) -> jax.Array:
    """Evaluates the polynomial at specific values."""
@overload
def positive(x: NamedArray, /) -> NamedArray:
    """Return element-wise positive values of the input."""
@overload
def positive(x: PlainArray, /) -> PlainArray: ...
@overload
def positive(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise positive values of the input."""
@overload
def pow(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculate element-wise base ``x1`` exponential of ``x2``."""
@overload
def pow(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def pow(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def pow(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise base ``x1`` exponential of ``x2``."""
@overload
def power(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculate element-wise base ``x1`` exponential of ``x2``."""
@overload
def power(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def power(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def power(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise base ``x1`` exponential of ``x2``."""
def prod(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: builtins.bool = True,
) -> AnyArray:
    """Multiply over positional and named axes.

    See `nx.prod`.
    """
def ptp(
    a: ArrayLike, axis: AxisSpec = None, out: None = None, keepdims: builtins.bool = False,
) -> AnyArray:
    """Compute the maximum minus the minimum over positional and named axes.

    See `nx.ptp`.
    """
@overload
def put(
    a: NamedArray,
    ind: ArrayLike,
    v: ArrayLike,
    mode: str | None = None,
    *,
    inplace: builtins.bool = True,
) -> NamedArray:
    """Put elements into an array at given indices."""
@overload
def put(
    a: ArrayLike,
    ind: NamedArray,
    v: ArrayLike,
    mode: str | None = None,
    *,
    inplace: builtins.bool = True,
) -> NamedArray: ...
@overload
def put(
    a: ArrayLike,
    ind: ArrayLike,
    v: NamedArray,
    mode: str | None = None,
    *,
    inplace: builtins.bool = True,
) -> NamedArray: ...
@overload
def put(
    a: PlainArray,
    ind: jax.typing.ArrayLike,
    v: jax.typing.ArrayLike,
    mode: str | None = None,
    *,
    inplace: builtins.bool = True,
) -> PlainArray: ...
@overload
def put(
    a: jax.typing.ArrayLike,
    ind: jax.typing.ArrayLike,
    v: jax.typing.ArrayLike,
    mode: str | None = None,
    *,
    inplace: builtins.bool = True,
) -> jax.Array:
    """Put elements into an array at given indices."""
def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: AxisSpec,
    inplace: builtins.bool = True,
    *,
    mode: str | None = None,
) -> AnyArray:
    """Put values into the destination array by matching 1d index and data slices."""
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> AnyArray:
    """Compute quantiles over positional and named axes, NaN if one element is NaN.

    See `nx.quantile`.
    """
@overload
def rad2deg(x: NamedArray, /) -> NamedArray:
    """Convert angles from radians to degrees."""
@overload
def rad2deg(x: PlainArray, /) -> PlainArray: ...
@overload
def rad2deg(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Convert angles from radians to degrees."""
@overload
def radians(x: NamedArray, /) -> NamedArray:
    """Convert angles from degrees to radians."""
@overload
def radians(x: PlainArray, /) -> PlainArray: ...
@overload
def radians(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Convert angles from degrees to radians."""
@overload
def ravel(a: NamedArray, order: str = 'C', *, out_sharding: object = None) -> NamedArray:
    """Flatten array into a 1-dimensional shape."""
@overload
def ravel(a: PlainArray, order: str = 'C', *, out_sharding: object = None) -> PlainArray: ...
@overload
def ravel(
    a: jax.typing.ArrayLike, order: str = 'C', *, out_sharding: object = None,
) -> jax.Array:
    """Flatten array into a 1-dimensional shape."""
def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = 'raise',
    order: str = 'C',
    *,
    dtype: DType | None = None,
) -> AnyArray:
    """Convert multi-dimensional indices into flat indices."""
@overload
def real(val: NamedArray, /) -> NamedArray:
    """Return element-wise real part of the complex argument."""
@overload
def real(val: PlainArray, /) -> PlainArray: ...
@overload
def real(val: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise real part of the complex argument."""
@overload
def reciprocal(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise reciprocal of the input."""
@overload
def reciprocal(x: PlainArray, /) -> PlainArray: ...
@overload
def reciprocal(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise reciprocal of the input."""
@overload
def remainder(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Returns element-wise remainder of the division."""
@overload
def remainder(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def remainder(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def remainder(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns element-wise remainder of the division."""
def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: AxisSpec = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Repeat single elements along an axis, as in `jnp.repeat`.

    See `nx.repeat`.
    """
@overload
def reshape(
    a: NamedArray,
    shape: int | Sequence[int],
    order: str = 'C',
    *,
    copy: builtins.bool | None = None,
    out_sharding: object = None,
) -> NamedArray:
    """Return a reshaped copy of an array."""
@overload
def reshape(
    a: PlainArray,
    shape: int | Sequence[int],
    order: str = 'C',
    *,
    copy: builtins.bool | None = None,
    out_sharding: object = None,
) -> PlainArray: ...
@overload
def reshape(
    a: jax.typing.ArrayLike,
    shape: int | Sequence[int],
    order: str = 'C',
    *,
    copy: builtins.bool | None = None,
    out_sharding: object = None,
) -> jax.Array:
    """Return a reshaped copy of an array."""
@overload
def resize(a: NamedArray, new_shape: Sequence[int]) -> NamedArray:
    """Return a new array with specified shape."""
@overload
def resize(a: PlainArray, new_shape: Sequence[int]) -> PlainArray: ...
@overload
def resize(a: jax.typing.ArrayLike, new_shape: Sequence[int]) -> jax.Array:
    """Return a new array with specified shape."""
def result_type(*args: ArrayLike | DType) -> np.dtype:
    """Return the common dtype of these arrays and types under JAX's promotion.

    Args:
      *args: arrays, named or not, dtypes, and Python numbers.

    Communication: none.
    """
@overload
def right_shift(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Right shift the bits of ``x1`` to the amount specified in ``x2``."""
@overload
def right_shift(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def right_shift(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def right_shift(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Right shift the bits of ``x1`` to the amount specified in ``x2``."""
@overload
def rint(x: NamedArray, /) -> NamedArray:
    """Rounds the elements of x to the nearest integer."""
@overload
def rint(x: PlainArray, /) -> PlainArray: ...
@overload
def rint(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Rounds the elements of x to the nearest integer."""
@overload
def roll(
    a: NamedArray, shift: int | Sequence[int] | ArrayLike, axis: AxisSpec = None,
) -> NamedArray:
    """Roll an array along axes; elements that leave at one end reenter at the other."""
@overload
def roll(a: ArrayLike, shift: NamedArray, axis: AxisSpec = None) -> NamedArray: ...
@overload
def roll(
    a: ArrayLike, shift: int | Sequence[int] | ArrayLike, axis: AxisSpec = None,
) -> AnyArray:
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
    """
@overload
def rollaxis(a: NamedArray, axis: int, start: int = 0) -> NamedArray:
    """Move a positional axis before another one, as `jnp.rollaxis`; named axes are batch axes."""
@overload
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> AnyArray:
    """Move a positional axis before another one, as `jnp.rollaxis`; named axes are batch axes.

    Args:
      a: an array, named or not.
      axis: the positional axis to move.
      start: the positional axis before which it is placed; by default 0.

    Communication: none.

    Raises:
      AxisNameError: an axis is a name.
    """
@overload
def roots(p: NamedArray, *, strip_zeros: builtins.bool = True) -> NamedArray:
    """Returns the roots of a polynomial given the coefficients ``p``."""
@overload
def roots(p: PlainArray, *, strip_zeros: builtins.bool = True) -> PlainArray: ...
@overload
def roots(p: jax.typing.ArrayLike, *, strip_zeros: builtins.bool = True) -> jax.Array:
    """Returns the roots of a polynomial given the coefficients ``p``."""
def rot90(m: ArrayLike, k: int = 1, axes: AxisSpec = (0, 1)) -> AnyArray:
    """Rotate an array by 90 degrees counterclockwise in the plane specified by axes."""
@overload
def round(a: NamedArray, decimals: int = 0, out: None = None) -> NamedArray:
    """Round input evenly to the given number of decimals."""
@overload
def round(a: PlainArray, decimals: int = 0, out: None = None) -> PlainArray: ...
@overload
def round(a: jax.typing.ArrayLike, decimals: int = 0, out: None = None) -> jax.Array:
    """Round input evenly to the given number of decimals."""
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = 'left',
    sorter: ArrayLike | None = None,
    *,
    method: str = 'scan',
    axis: Hashable | None = None,
) -> AnyArray:
    """Find the indices at which values would keep a sorted array sorted.

    Args:
      a: the sorted array: with one positional axis, or with the named axis `axis`. Its other named
        axes are batch axes.
      v: the values, named or not.
      side: the side of equal elements, `"left"` (default) or `"right"`.
      sorter: indices that sort `a`, with its axes, by default `None`.
      method: as in `jnp.searchsorted`; by default `"scan"`.
      axis: the name of the sorted axis, by default `None`, for the positional axis.

    Returns:
      Integers with the axes of `v` and the other named axes of `a`.

    Communication: along a sharded axis every device counts in its block, and one all-reduce of the
    result sums the counts. A `sorter` is applied before, as by `take_along_axis`.

    Raises:
      AxisNotFoundError: `a` has no axis of that name.
      PlacementConflictError: `v` has an axis that is sharded over the mesh axis of `axis`.
    """
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0,
) -> AnyArray:
    """Select values based on a series of conditions."""
@overload
def setdiff1d(
    ar1: NamedArray,
    ar2: ArrayLike,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> NamedArray:
    """Compute the set difference of two 1D arrays."""
@overload
def setdiff1d(
    ar1: ArrayLike,
    ar2: NamedArray,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> NamedArray: ...
@overload
def setdiff1d(
    ar1: jax.typing.ArrayLike,
    ar2: jax.typing.ArrayLike,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> jax.Array:
    """Compute the set difference of two 1D arrays."""
@overload
def setxor1d(
    ar1: NamedArray,
    ar2: ArrayLike,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> NamedArray:
    """Compute the set-wise xor of elements in two arrays."""
@overload
def setxor1d(
    ar1: ArrayLike,
    ar2: NamedArray,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> NamedArray: ...
@overload
def setxor1d(
    ar1: jax.typing.ArrayLike,
    ar2: jax.typing.ArrayLike,
    assume_unique: builtins.bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> jax.Array:
    """Compute the set-wise xor of elements in two arrays."""
def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the sizes of the positional axes.

    See `nx.shape`.
    """
@overload
def sign(x: NamedArray, /) -> NamedArray:
    """Return an element-wise indication of sign of the input."""
@overload
def sign(x: PlainArray, /) -> PlainArray: ...
@overload
def sign(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return an element-wise indication of sign of the input."""
@overload
def signbit(x: NamedArray, /) -> NamedArray:
    """Return the sign bit of array elements."""
@overload
def signbit(x: PlainArray, /) -> PlainArray: ...
@overload
def signbit(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return the sign bit of array elements."""
@overload
def sin(x: NamedArray, /) -> NamedArray:
    """Compute a trigonometric sine of each element of input."""
@overload
def sin(x: PlainArray, /) -> PlainArray: ...
@overload
def sin(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute a trigonometric sine of each element of input."""
@overload
def sinc(x: NamedArray, /) -> NamedArray:
    """Calculate the normalized sinc function."""
@overload
def sinc(x: PlainArray, /) -> PlainArray: ...
@overload
def sinc(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate the normalized sinc function."""
@overload
def sinh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise hyperbolic sine of input."""
@overload
def sinh(x: PlainArray, /) -> PlainArray: ...
@overload
def sinh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise hyperbolic sine of input."""
def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """Return the number of elements over the positional axes, or along given axes.

    See `nx.size`.
    """
@overload
def sort(
    a: NamedArray,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
) -> NamedArray:
    """Sort values in ascending order along one axis, NaN last."""
@overload
def sort(
    a: ArrayLike,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
) -> AnyArray:
    """Sort values in ascending order along one axis, NaN last.

    See `nx.sort`.
    """
@overload
def sort_complex(a: NamedArray) -> NamedArray:
    """Return a sorted copy of complex array."""
@overload
def sort_complex(a: PlainArray) -> PlainArray: ...
@overload
def sort_complex(a: jax.typing.ArrayLike) -> jax.Array:
    """Return a sorted copy of complex array."""
@overload
def spacing(x: NamedArray, /) -> NamedArray:
    """Return the spacing between ``x`` and the next adjacent number."""
@overload
def spacing(x: PlainArray, /) -> PlainArray: ...
@overload
def spacing(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return the spacing between ``x`` and the next adjacent number."""
def split(
    ary: ArrayLike,
    indices_or_sections: int | Sequence[int] | jax.typing.ArrayLike | Mapping[Any, int],
    axis: AxisSpec = 0,
    *,
    out_axis: Hashable | list[Hashable] | None = None,
) -> list[AnyArray] | dict[Any, AnyArray]:
    """Split an array along one axis.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of equal sections, or the split indices. A mapping
        `{"latent": 512, "rope": 64}` gives the names and the sizes of the axis in the sections.
      axis: a positional or named axis, by default 0; a name for a mapping.
      out_axis: the name of the axis in the sections, or a list with a name for each; by default
        `axis`. Required in a mapped function in which `axis` has a fixed size. Omit it for a
        mapping.

    Returns:
      A list of arrays; for a mapping a dict, as `nx.concatenate` takes it.

    Communication: along a sharded axis with sharded sections, the rows of all sections move to
    their blocks in one exchange, by collective-permutes. If the sections are not sharded, the axis
    is gathered.

    Raises:
      AxisNotFoundError: the array lacks the axis.
      AxisSizeError: the sections are not equal, a section does not have the size of its name in the
        mapped function, or the sizes of a mapping do not add up to the size of the axis.
      AxisNameError: a mapping and `out_axis`, or a mapping for a positional axis.
    """
@overload
def sqrt(x: NamedArray, /) -> NamedArray:
    """Calculates element-wise non-negative square root of the input array."""
@overload
def sqrt(x: PlainArray, /) -> PlainArray: ...
@overload
def sqrt(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates element-wise non-negative square root of the input array."""
@overload
def square(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise square of the input array."""
@overload
def square(x: PlainArray, /) -> PlainArray: ...
@overload
def square(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise square of the input array."""
def squeeze(a: ArrayLike, axis: AxisSpec = None) -> AnyArray:
    """Remove axes of size 1.

    Args:
      a: an array, named or not.
      axis: an axis name, a positional axis, or a tuple of both; `None` (default) selects all
        positional axes of size 1. Required if every axis is named.

    Returns:
      The array without these axes.

    Communication: none.

    Raises:
      AxisNotFoundError: the array lacks a named axis.
      AxisSizeError: an axis has a different size.
    """
def stack(
    arrays: Sequence[Any], axis: AxisSpec = 0, out: None = None, dtype: DType | None = None,
) -> AnyArray:
    """Join arrays along a new axis.

    Args:
      arrays: arrays, named or not; they broadcast, by name and by position.
      axis: the name of the new axis, or its index among the positional axes of the result; by
        default 0.
      out: must be `None`, the default, as in `jnp.stack`.
      dtype: the dtype of the result, by default the common dtype.

    Returns:
      The stacked array.

    Communication: none; along a sharded new axis every device keeps its block.

    Raises:
      AxisNameError: an array already has the new axis.
      AxisSizeError: the new axis has a different size in the mapped function.
    """
def std(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> AnyArray:
    """Compute the standard deviation over positional and named axes.

    See `nx.std`.
    """
@overload
def subtract(
    x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None,
) -> NamedArray:
    """Subtract two arrays element-wise."""
@overload
def subtract(
    x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None,
) -> NamedArray: ...
@overload
def subtract(
    x1: PlainArray, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> PlainArray: ...
@overload
def subtract(
    x1: jax.typing.ArrayLike,
    x2: jax.typing.ArrayLike,
    /,
    *,
    out: None = None,
    where: None = None,
) -> jax.Array:
    """Subtract two arrays element-wise."""
def sum(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: builtins.bool = True,
) -> AnyArray:
    """Sum over positional and named axes.

    See `nx.sum`.
    """
@overload
def swapaxes(a: NamedArray, axis1: int, axis2: int) -> NamedArray:
    """Swap two positional axes, as `jnp.swapaxes`; `nx.rename` swaps the names of two axes."""
@overload
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> AnyArray:
    """Swap two positional axes, as `jnp.swapaxes`; `nx.rename` swaps the names of two axes.

    Args:
      a: an array, named or not.
      axis1: the first positional axis.
      axis2: the second positional axis.

    Communication: none.

    Raises:
      AxisNameError: an axis is a name.
    """
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: AxisSpec = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: builtins.bool = False,
    indices_are_sorted: builtins.bool = False,
    fill_value: ArrayLike | None = None,
) -> AnyArray:
    """Take elements of `a` along one axis.

    See `nx.take`.
    """
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: AxisSpec = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: builtins.bool | None = None,
) -> AnyArray:
    """Take elements of `arr` along one axis, at indices that differ between elements.

    See `nx.take_along_axis`.
    """
@overload
def tan(x: NamedArray, /) -> NamedArray:
    """Compute a trigonometric tangent of each element of input."""
@overload
def tan(x: PlainArray, /) -> PlainArray: ...
@overload
def tan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute a trigonometric tangent of each element of input."""
def tanh(x: ArrayLike, /) -> AnyArray:
    """Calculate element-wise hyperbolic tangent of input."""
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: AxisSpec = 2,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Multiply two arrays and sum over axes, as `jnp.tensordot`.

    See `nx.tensordot`.
    """
@overload
def tile(
    A: NamedArray,
    reps: int | Sequence[int] | Mapping[Hashable, int],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> NamedArray:
    """Repeat a complete array."""
@overload
def tile(
    A: ArrayLike,
    reps: int | Sequence[int] | Mapping[Hashable, int],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Repeat a complete array.

    Args:
      A: an array, named or not.
      reps: for the positional axes a number or a tuple, as in `jnp.tile`; for named axes a dict
        `{"k": 2}`.
      out_axis: new names for named axes, `{"k": "k_tiled"}`, or `"k_tiled"` for one axis; by
        default `None`. Required in a mapped function in which the name has a fixed size.

    Returns:
      The repeated array.

    Communication: along a sharded axis, rows move to their blocks by collective-permutes. If the
    new name is not sharded, the axis is gathered.

    Raises:
      AxisNotFoundError: the array lacks a named axis.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.
    """
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: AxisSpec = 0,
    axis2: AxisSpec = 1,
    dtype: DType | None = None,
    out: None = None,
) -> AnyArray:
    """Sum the diagonal over two axes, as `jnp.trace`, by name or position.

    Args:
      a: an array, named or not.
      offset: the distance to the right of the main diagonal; by default 0.
      axis1: the positional or named axis of rows; by default 0.
      axis2: the axis of columns; by default 1.
      dtype: the dtype of the result, as in `jnp.trace`; by default `None`.
      out: not supported, as in `jnp.trace`; by default `None`.

    Returns:
      An array without the two axes.

    Communication: over sharded axes, one all-reduce of the result, and one of the diagonal if
    `axis2` is sharded.

    Raises:
      AxisNotFoundError: `a` lacks a name.
    """
@overload
def transpose(a: NamedArray, axes: Sequence[Hashable] | None = None) -> NamedArray:
    """Reorder the positional axes."""
@overload
def transpose(a: ArrayLike, axes: Sequence[Hashable] | None = None) -> AnyArray:
    """Reorder the positional axes.

    Args:
      a: an array, named or not.
      axes: the positional axes in their new order, and axis names, which have no effect; by default
        `None`, the positional axes in reverse order.

    Communication: none.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      PositionalAxisError: `axes` is omitted, and every axis of `a` is named.
    """
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: AxisSpec = -1,
) -> AnyArray:
    """Integrate along one axis by the trapezoid rule.

    Args:
      y: values, named or not.
      x: the coordinates of the values: an array with the axis, or a plain one with one element for
        each of its elements. By default the spacing is `dx`.
      dx: the distance between two values, by default 1.0.
      axis: a positional or named axis, by default -1.

    Communication: over a sharded axis, one all-reduce of the result. With `x`, also the row at the
    boundary of two blocks, for both `x` and `y`.

    Raises:
      AxisNotFoundError: `y` lacks the axis.
      AxisSizeError: `x` has a different size.
    """
def tri(N: int, M: int | None = None, k: int = 0, dtype: DType | None = None) -> AnyArray:
    """Return an array with ones on and below the diagonal and zeros elsewhere."""
@overload
def tril(
    m: NamedArray, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None,
) -> NamedArray:
    """Return the lower triangle over two axes: elements above the `k`-th diagonal become zero."""
@overload
def tril(m: ArrayLike, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None) -> AnyArray:
    """Return the lower triangle over two axes: elements above the `k`-th diagonal become zero.

    Args:
      m: an array, named or not.
      k: the diagonal, by default 0; above the main diagonal for positive numbers. With `axis`, also
        an integer array that broadcasts by name, for a different diagonal in every instance.
      axis: a pair of axes, the rows and the columns, such as `("query", "key")`, named or
        positional; by default the last two positional axes.

    Returns:
      An array of the same axes.

    Communication: none, for every sharding.

    Raises:
      AxisNotFoundError: `m` lacks a named axis.
      PositionalAxisError: `axis` is not a pair of two axes.
      ArgumentTypeError: `k` is not an integer.
    """
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[AnyArray, AnyArray]:
    """Return the indices of lower triangle of an array of size ``(n, m)``."""
def tril_indices_from(
    arr: ArrayLike | jax.ShapeDtypeStruct, k: int = 0,
) -> tuple[AnyArray, AnyArray]:
    """Return the indices of lower triangle of a given array."""
def trim_zeros(filt: ArrayLike, trim: str = 'fb', axis: AxisSpec = None) -> AnyArray:
    """Trim leading and/or trailing zeros of the input array."""
@overload
def triu(
    m: NamedArray, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None,
) -> NamedArray:
    """Return the upper triangle over two axes: elements below the `k`-th diagonal become zero."""
@overload
def triu(m: ArrayLike, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None) -> AnyArray:
    """Return the upper triangle over two axes: elements below the `k`-th diagonal become zero.

    Args:
      m: an array, named or not.
      k: the diagonal, as for `nx.tril`; by default 0.
      axis: a pair of axes, the rows and the columns, named or positional; by default `None`, the
        last two positional axes.

    Returns:
      An array of the same axes.

    Communication: none, for every sharding.

    Raises:
      AxisNotFoundError: `m` lacks a named axis.
      PositionalAxisError: `axis` is not a pair of two axes.
      ArgumentTypeError: `k` is not an integer.
    """
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[AnyArray, AnyArray]:
    """Return the indices of upper triangle of an array of size ``(n, m)``."""
def triu_indices_from(
    arr: ArrayLike | jax.ShapeDtypeStruct, k: int = 0,
) -> tuple[AnyArray, AnyArray]:
    """Return the indices of upper triangle of a given array."""
@overload
def true_divide(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculates the division of x1 by x2 element-wise."""
@overload
def true_divide(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def true_divide(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def true_divide(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the division of x1 by x2 element-wise."""
@overload
def trunc(x: NamedArray) -> NamedArray:
    """Round input to the nearest integer towards zero."""
@overload
def trunc(x: PlainArray) -> PlainArray: ...
@overload
def trunc(x: jax.typing.ArrayLike) -> jax.Array:
    """Round input to the nearest integer towards zero."""
uint1: Any
@overload
def union1d(
    ar1: NamedArray,
    ar2: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> NamedArray:
    """Compute the set union of two 1D arrays."""
@overload
def union1d(
    ar1: ArrayLike,
    ar2: NamedArray,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> NamedArray: ...
@overload
def union1d(
    ar1: jax.typing.ArrayLike,
    ar2: jax.typing.ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> jax.Array:
    """Compute the set union of two 1D arrays."""
def unique(
    ar: ArrayLike,
    return_index: builtins.bool = False,
    return_inverse: builtins.bool = False,
    return_counts: builtins.bool = False,
    axis: AxisSpec = None,
    *,
    equal_nan: builtins.bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: builtins.bool = True,
    out_axis: Hashable | None = None,
) -> AnyArray | tuple[AnyArray, ...]:
    """Return the distinct values of an array, in order.

    With `out_axis`, this is a form over named axes that supports sharding. Without it, this is
    `jnp.unique` (of rows along `axis` if it is given), and named axes
    are batch axes.

    Args:
      ar: an array, named or not.
      return_index: with `out_axis`, if `True`, also return the index of the first element with each
        value; by default `False`.
      return_inverse: if `True`, also return the index of every element's value; by default `False`.
      return_counts: if `True`, also return the number of elements with each value; by default
        `False`.
      axis: with `out_axis`, an axis name, or a tuple of names that are merged, major first. Other
        axes are batch axes. By default `None`.
      equal_nan: if `True` (default), NaNs are one value.
      size: the number of returned values: the smallest ones, followed by `fill_value`. Optional for
        a named axis. By default `None`.
      fill_value: the value after the last one; by default the smallest value.
      sorted: without `out_axis`, as in `jnp.unique`; with it the values are always in order. By
        default `True`.
      out_axis: the name of the axis of the values, by default `None`.

    Returns:
      The values, or a tuple of the values and the other requested results. The inverse has the one
      axis of the search, under its name; merge several names first with `nx.merge_axes`.

    Communication: over a sharded axis, a sort (`nx.sort`), a number per device, and one all-reduce
    of the result. The index and the inverse cost one more sort of indices. Without `out_axis`, a
    sharded axis is gathered.

    Raises:
      AxisNotFoundError: `ar` lacks an axis, or the number of values is not known.
      ArgumentError: there is no size, or an inverse over several names is requested.
      AxisNameError: `out_axis` is an axis of `ar`.
    """
def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> _UniqueAllResult:
    """Return unique values from x, along with indices, inverse indices, and counts."""
def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> _UniqueCountsResult:
    """Return unique values from x, along with counts."""
def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> _UniqueInverseResult:
    """Return unique values from x, along with indices, inverse indices, and counts."""
@overload
def unique_values(
    x: NamedArray, /, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> NamedArray:
    """Return unique values from x, along with indices, inverse indices, and counts."""
@overload
def unique_values(
    x: jax.typing.ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> jax.Array:
    """Return unique values from x, along with indices, inverse indices, and counts."""
def unpackbits(
    a: ArrayLike, axis: AxisSpec = None, count: int | None = None, bitorder: str = 'big',
) -> AnyArray:
    """Unpack the bits in a uint8 array."""
def unravel_index(indices: ArrayLike, shape: Sequence[int]) -> tuple[AnyArray, ...]:
    """Convert flat indices into multi-dimensional indices."""
def unstack(x: ArrayLike, /, *, axis: AxisSpec = 0) -> tuple[AnyArray, ...]:
    """Unstack an array along an axis."""
@overload
def unwrap(
    p: NamedArray,
    discont: jax.typing.ArrayLike | None = None,
    axis: AxisSpec = -1,
    period: jax.typing.ArrayLike = 6.283185307179586,
) -> NamedArray:
    """Remove jumps by a period from phases: `jnp.unwrap`, by name or position."""
@overload
def unwrap(
    p: ArrayLike,
    discont: jax.typing.ArrayLike | None = None,
    axis: AxisSpec = -1,
    period: jax.typing.ArrayLike = 6.283185307179586,
) -> AnyArray:
    """Remove jumps by a period from phases: `jnp.unwrap`, by name or position.

    Args:
      p: phases, named or not.
      discont: the largest jump to keep; by default half the period.
      axis: a positional or named axis, by default -1.
      period: the size of the jumps to remove, by default 2 pi.

    Communication: along a sharded axis, the row at the boundary of two blocks, and the totals of
    the blocks.

    Raises:
      AxisNotFoundError: `p` lacks the axis.
    """
@overload
def vander(
    x: NamedArray, N: int | None = None, increasing: builtins.bool = False,
) -> NamedArray:
    """Generate a Vandermonde matrix."""
@overload
def vander(
    x: PlainArray, N: int | None = None, increasing: builtins.bool = False,
) -> PlainArray: ...
@overload
def vander(
    x: jax.typing.ArrayLike, N: int | None = None, increasing: builtins.bool = False,
) -> jax.Array:
    """Generate a Vandermonde matrix."""
def var(
    a: ArrayLike,
    axis: AxisSpec = None,
    dtype: DType | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> AnyArray:
    """Compute the variance over positional and named axes.

    See `nx.var`.
    """
@overload
def vdot(
    a: NamedArray,
    b: ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray:
    """Perform a conjugate multiplication of two 1D vectors."""
@overload
def vdot(
    a: ArrayLike,
    b: NamedArray,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray: ...
@overload
def vdot(
    a: PlainArray,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> PlainArray: ...
@overload
def vdot(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> jax.Array:
    """Perform a conjugate multiplication of two 1D vectors."""
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: AxisSpec = -1,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Multiply vectors along one axis, the first one conjugated, as `jnp.vecdot`.

    Along a named axis it is `nx.dot`.

    Args:
      x1: an array, named or not.
      x2: an array, named or not.
      axis: a positional or named axis; by default -1.
      precision: as in `jax.lax.dot_general`; by default `None`.
      preferred_element_type: the dtype to accumulate in and to return; by default the dtype of the
        operands.

    Returns:
      An array with the other axes, which broadcast.

    Communication: over a sharded axis, as for `nx.dot`.

    Raises:
      AxisNotFoundError: an array lacks the name.
    """
@overload
def vecmat(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Batched conjugate vector-matrix product."""
@overload
def vecmat(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def vecmat(x1: PlainArray, x2: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def vecmat(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Batched conjugate vector-matrix product."""
def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[AnyArray]:
    """Split an array into sub-arrays vertically."""
@overload
def vstack(tup: NamedArray, dtype: DType | None = None) -> NamedArray:
    """Vertically stack arrays."""
@overload
def vstack(tup: PlainArray, dtype: DType | None = None) -> PlainArray: ...
@overload
def vstack(
    tup: np.ndarray | jax.Array | Sequence[jax.typing.ArrayLike], dtype: DType | None = None,
) -> jax.Array:
    """Vertically stack arrays."""
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> AnyArray | tuple[AnyArray, ...]:
    """Select elements of `x` where `condition` holds, else of `y`, broadcast by name.

    Args:
      condition: a boolean array, named or not.
      x: an array or a number; by default `None`.
      y: an array or a number; by default `None`. Without both, return the indices at which
        `condition` holds, along the positional axes as in `jnp.where`; names are batch axes.
      size: the number of indices in the one-argument form, by default `None`; required if the array
        has names.
      fill_value: the fill value after the last index; by default `None`.
      axis: the names along which the one-argument form searches, as in `nx.nonzero`; by default
        `None`, the positional axes.
      out_axis: the name of the axis of the indices, as in `nx.nonzero`; by default `None`.

    Communication: none. With one argument, that of `nx.nonzero`.

    Raises:
      NamedAxesLeftError: the condition has names, and neither `x` and `y` nor a size is given; the
        result's shape depends on data.
      ArgumentError: one of `size`, `fill_value`, `axis`, `out_axis` is given with `x` and `y`.
    """
@overload
def zeros(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Create an array of zeros, with named axes in addition to the positional ones."""
@overload
def zeros(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Create an array of zeros, with named axes in addition to the positional ones.

    See `nx.zeros`.
    """
@overload
def zeros_like(
    a: NamedArray,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Create an array full of zeros with the same shape and dtype as an array."""
@overload
def zeros_like(
    a: PlainArray,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> PlainArray: ...
@overload
def zeros_like(
    a: jax.typing.ArrayLike | jax.ShapeDtypeStruct,
    dtype: DType | None = None,
    shape: Any = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Create an array full of zeros with the same shape and dtype as an array."""
