# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.numpy`: `jax.numpy` for named arrays, with `linalg` and `fft`."""

import builtins
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, overload

import jax
import jax.typing
from jax.numpy import ComplexWarning as ComplexWarning  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import apply_over_axes as apply_over_axes  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import bartlett as bartlett  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import bfloat16 as bfloat16  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import blackman as blackman  # type: ignore[attr-defined, unused-ignore]
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
from jax.numpy import diag_indices as diag_indices  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import double as double  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import dtype as dtype  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import e as e  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import einsum_path as einsum_path  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import euler_gamma as euler_gamma  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import eye as eye  # type: ignore[attr-defined, unused-ignore]
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
from jax.numpy import hamming as hamming  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import hanning as hanning  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import identity as identity  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import iinfo as iinfo  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import index_exp as index_exp  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import indices as indices  # type: ignore[attr-defined, unused-ignore]
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
from jax.numpy import ix_ as ix_  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import kaiser as kaiser  # type: ignore[attr-defined, unused-ignore]
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
from jax.numpy import tri as tri  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import tril_indices as tril_indices  # type: ignore[attr-defined, unused-ignore]
from jax.numpy import triu_indices as triu_indices  # type: ignore[attr-defined, unused-ignore]
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

from namedax.core.annotations import Array, ArrayLike, Axis
from namedax.core.array import NamedArray
from namedax.numpy import fft as fft
from namedax.numpy import linalg as linalg

@overload
def abs(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.absolute`."""
@overload
def abs(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.absolute`."""
@overload
def absolute(x: NamedArray, /) -> NamedArray:
    """Calculate the absolute value element-wise."""
@overload
def absolute(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate the absolute value element-wise."""
@overload
def acos(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.arccos`"""
@overload
def acos(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.arccos`"""
@overload
def acosh(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.arccosh`"""
@overload
def acosh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.arccosh`"""
@overload
def add(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Add two arrays element-wise."""
@overload
def add(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def add(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Add two arrays element-wise."""
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements are true, over positional and named axes. Arguments as for `sum`.

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
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over positional and named axes. NaN wins; ties share the gradient equally, as in `jnp`, sharded or not.

    See `nx.amax`.
    """
def amin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Minimum over positional and named axes; see `max`.

    See `nx.amin`.
    """
@overload
def angle(z: NamedArray, deg: builtins.bool = False) -> NamedArray:
    """Return the angle of a complex valued number or array."""
@overload
def angle(z: jax.typing.ArrayLike, deg: builtins.bool = False) -> jax.Array:
    """Return the angle of a complex valued number or array."""
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any element is true, over positional and named axes. Arguments as for `sum`.

    See `nx.any`.
    """
@overload
def append(
    arr: NamedArray, values: ArrayLike, axis: Axis = None, *, out_axis: Hashable | None = None,
) -> NamedArray:
    """Joins two arrays, as `concatenate([arr, values], axis)` does."""
@overload
def append(
    arr: ArrayLike, values: NamedArray, axis: Axis = None, *, out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def append(arr: ArrayLike, values: ArrayLike, axis: Axis = None, *, out_axis: Hashable | None = None) -> Array:
    """Joins two arrays, as `concatenate([arr, values], axis)` does.

    `axis=None` flattens the positional axes first; it must be given where all axes have names.
    """
def apply_along_axis(func1d: Callable[..., Any], axis: Axis, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """Apply a function to 1D array slices along an axis."""
def arange(
    start: Any = None,
    stop: Any = None,
    step: ArrayLike | None = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
    axis: Hashable | None = None,
) -> Array:
    """Evenly spaced values, along a name if `axis` is given.

    See `nx.arange`.
    """
@overload
def arccos(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric cosine of input."""
@overload
def arccos(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric cosine of input."""
@overload
def arccosh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic cosine of input."""
@overload
def arccosh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic cosine of input."""
@overload
def arcsin(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric sine of input."""
@overload
def arcsin(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric sine of input."""
@overload
def arcsinh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic sine of input."""
@overload
def arcsinh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic sine of input."""
@overload
def arctan(x: NamedArray, /) -> NamedArray:
    """Compute element-wise inverse of trigonometric tangent of input."""
@overload
def arctan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute element-wise inverse of trigonometric tangent of input."""
@overload
def arctan2(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute the arctangent of x1/x2, choosing the correct quadrant."""
@overload
def arctan2(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def arctan2(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the arctangent of x1/x2, choosing the correct quadrant."""
@overload
def arctanh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise inverse of hyperbolic tangent of input."""
@overload
def arctanh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise inverse of hyperbolic tangent of input."""
def argmax(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: builtins.bool | None = None) -> Array:
    """Index of the first maximum along an axis, a position or a name (`None`: in the flattened positional axes).

    See `nx.argmax`.
    """
def argmin(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: builtins.bool | None = None) -> Array:
    """Index of the first minimum along one axis; see `argmax`.

    See `nx.argmin`.
    """
@overload
def argpartition(a: NamedArray, kth: int, axis: Axis = -1) -> NamedArray:
    """The indices of `partition`, as `jnp.argpartition`. Along a sharded name this gathers the axis; see `partition`."""
@overload
def argpartition(a: ArrayLike, kth: int, axis: Axis = -1) -> Array:
    """The indices of `partition`, as `jnp.argpartition`. Along a sharded name this gathers the axis; see `partition`.

    See `nx.argpartition`.
    """
@overload
def argsort(
    a: NamedArray,
    axis: Axis = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
    dtype: Any = None,
) -> NamedArray:
    """The indices that sort along one axis; ties in their order, NaN last."""
@overload
def argsort(
    a: ArrayLike,
    axis: Axis = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
    dtype: Any = None,
) -> Array:
    """The indices that sort along one axis; ties in their order, NaN last.

    See `nx.argsort`.
    """
@overload
def argwhere(a: NamedArray, *, size: int | None = None, fill_value: ArrayLike | None = None) -> NamedArray:
    """Find the indices of nonzero array elements"""
@overload
def argwhere(a: jax.typing.ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> jax.Array:
    """Find the indices of nonzero array elements"""
@overload
def around(a: NamedArray, decimals: int = 0, out: None = None) -> NamedArray:
    """Alias of :func:`jax.numpy.round`"""
@overload
def around(a: jax.typing.ArrayLike, decimals: int = 0, out: None = None) -> jax.Array:
    """Alias of :func:`jax.numpy.round`"""
def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: builtins.bool = True,
    order: str | None = 'K',
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """A new array: as `asarray`, and with at least `ndmin` positional axes.

    See `nx.array`.
    """
@overload
def array_equal(a1: NamedArray, a2: ArrayLike, equal_nan: builtins.bool = False) -> NamedArray:
    """Check if two arrays are element-wise equal."""
@overload
def array_equal(a1: ArrayLike, a2: NamedArray, equal_nan: builtins.bool = False) -> NamedArray: ...
@overload
def array_equal(a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike, equal_nan: builtins.bool = False) -> jax.Array:
    """Check if two arrays are element-wise equal."""
@overload
def array_equiv(a1: NamedArray, a2: ArrayLike) -> NamedArray:
    """Check if two arrays are element-wise equal."""
@overload
def array_equiv(a1: ArrayLike, a2: NamedArray) -> NamedArray: ...
@overload
def array_equiv(a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike) -> jax.Array:
    """Check if two arrays are element-wise equal."""
def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: builtins.bool | None = None,
) -> str:
    """`repr(x)` of a named array, `jnp.array_repr` of others.

    See `nx.array_repr`.
    """
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: Axis = 0, *, out_axis: Any = None) -> list[Array]:
    """Like `split`, for a number of parts that need not be equal: the first ones are larger by one."""
def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: builtins.bool | None = None,
) -> str:
    """`str(x)` of a named array, `jnp.array_str` of others.

    See `nx.array_str`.
    """
def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: builtins.bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`a` as an array: a named array stays one, and so does a sequence that holds some.

    See `nx.asarray`.
    """
@overload
def asin(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.arcsin`"""
@overload
def asin(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.arcsin`"""
@overload
def asinh(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.arcsinh`"""
@overload
def asinh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.arcsinh`"""
@overload
def astype(x: NamedArray, dtype: Any, /, *, copy: builtins.bool = False, device: Any = None) -> NamedArray:
    """Convert an array to a specified dtype."""
@overload
def astype(x: jax.typing.ArrayLike, dtype: Any, /, *, copy: builtins.bool = False, device: Any = None) -> jax.Array:
    """Convert an array to a specified dtype."""
@overload
def atan(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.arctan`"""
@overload
def atan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.arctan`"""
@overload
def atan2(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Alias of :func:`jax.numpy.arctan2`"""
@overload
def atan2(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def atan2(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.arctan2`"""
@overload
def atanh(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.arctanh`"""
@overload
def atanh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.arctanh`"""
def atleast_1d(*arys: ArrayLike) -> Array | list[Array]:
    """Convert inputs to arrays with at least 1 dimension."""
def atleast_2d(*arys: ArrayLike) -> Array | list[Array]:
    """Convert inputs to arrays with at least 2 dimensions."""
def atleast_3d(*arys: ArrayLike) -> Array | list[Array]:
    """Convert inputs to arrays with at least 3 dimensions."""
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> Array | tuple[Array, Array]:
    """Weighted mean over positional and named axes.

    See `nx.average`.
    """
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
    axis: Axis = None,
    out_axis: Hashable | None = None,
) -> Array:
    """How often each integer from 0 on occurs, over positional and named axes.

    See `nx.bincount`.
    """
@overload
def bitwise_and(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Compute the bitwise AND operation elementwise."""
@overload
def bitwise_and(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def bitwise_and(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Compute the bitwise AND operation elementwise."""
@overload
def bitwise_count(x: NamedArray, /) -> NamedArray:
    """Counts the number of 1 bits in the binary representation of the absolute value
    of each element of ``x``.
    """
@overload
def bitwise_count(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Counts the number of 1 bits in the binary representation of the absolute value
    of each element of ``x``.
    """
@overload
def bitwise_invert(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.invert`."""
@overload
def bitwise_invert(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.invert`."""
@overload
def bitwise_left_shift(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Alias of :func:`jax.numpy.left_shift`."""
@overload
def bitwise_left_shift(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def bitwise_left_shift(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.left_shift`."""
@overload
def bitwise_not(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.invert`."""
@overload
def bitwise_not(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.invert`."""
@overload
def bitwise_or(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Compute the bitwise OR operation elementwise."""
@overload
def bitwise_or(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def bitwise_or(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Compute the bitwise OR operation elementwise."""
@overload
def bitwise_right_shift(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Alias of :func:`jax.numpy.right_shift`."""
@overload
def bitwise_right_shift(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def bitwise_right_shift(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.right_shift`."""
@overload
def bitwise_xor(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Compute the bitwise XOR operation elementwise."""
@overload
def bitwise_xor(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def bitwise_xor(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Compute the bitwise XOR operation elementwise."""
def block(arrays: ArrayLike | list[ArrayLike]) -> Array:
    """Create an array from a list of blocks."""
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Broadcast arrays to a common shape."""
@overload
def broadcast_to(
    array: ArrayLike, shape: Any = None, *, out_sharding: Any = None, named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Repeats an array along axes that it lacks."""
@overload
def broadcast_to(array: ArrayLike, shape: Any = None, *, out_sharding: Any = None) -> Array:
    """Repeats an array along axes that it lacks.

    Args:
      array: an array, named or not.
      shape: the positional shape of the result, as in `jnp.broadcast_to`; default, with `named_shape`: that of the array.
      out_sharding: as in `jnp.broadcast_to`.
      named_shape: names and sizes of the result; `None` for the size of the mapped function. Names of the array that are
        not mentioned stay.

    Returns:
      The array with the axes that it lacked in front. Sends nothing: of a sharded name every device makes its block. The gradient is
      the sum over the new axes, one all-reduce for those that are sharded.

    Raises:
      AxisSizeError: the array has one of the names with a different size, or the mapped function does.
      AxisNotFoundError: a new name has no size.
      PositionalAxisError: there is neither a shape nor a named shape.
      PlacementConflictError: two names of the result are on one mesh axis.
    """
@overload
def cbrt(x: NamedArray, /) -> NamedArray:
    """Calculates element-wise cube root of the input array."""
@overload
def cbrt(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates element-wise cube root of the input array."""
@overload
def ceil(x: NamedArray, /) -> NamedArray:
    """Round input to the nearest integer upwards."""
@overload
def ceil(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Round input to the nearest integer upwards."""
@overload
def choose(
    a: NamedArray, choices: Array | Any | Sequence[ArrayLike], out: None = None, mode: str = 'raise',
) -> NamedArray:
    """Construct an array by stacking slices of choice arrays."""
@overload
def choose(
    a: jax.typing.ArrayLike, choices: Array | Any | Sequence[ArrayLike], out: None = None, mode: str = 'raise',
) -> jax.Array:
    """Construct an array by stacking slices of choice arrays."""
def clip(arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Clip array values to a specified range."""
def column_stack(tup: Any | Array | Sequence[ArrayLike]) -> Array:
    """Stack arrays column-wise."""
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: Axis = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """Compress an array along a given axis using a boolean condition."""
def concat(
    arrays: Sequence[Any], /, *, axis: Axis = 0, dtype: Any = None, out_axis: Hashable | None = None,
) -> Array:
    """Joins arrays along an axis that they all have.

    See `nx.concat`.
    """
def concatenate(
    arrays: Sequence[Any], axis: Axis = 0, dtype: Any = None, *, out_axis: Hashable | None = None,
) -> Array:
    """Joins arrays along an axis that they all have.

    Args:
      arrays: arrays, named or not; other names broadcast. Along a name, positional axes broadcast as in arithmetic.
      axis: a position or a name (`None`: the flattened positional axes, as in `jnp.concatenate`).
      dtype: element type of the result.
      out_axis: the name of the joined axis; default: `axis`. Needed in a mapped function in which `axis` has a fixed size.

    Returns:
      The joined array; the sizes of the axis add up. Along a sharded name, whose result is sharded too, rows move to the blocks
      where they belong, by collective-permutes; if the result's name is not sharded, the operands are gathered.

    Raises:
      AxisNotFoundError: an array lacks the name.
      AxisSizeError: in a mapped function the name has a different size than the result, or that does not divide over its mesh
        axes.
    """
@overload
def conj(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.conjugate`"""
@overload
def conj(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.conjugate`"""
@overload
def conjugate(x: NamedArray, /) -> NamedArray:
    """Return element-wise complex-conjugate of the input."""
@overload
def conjugate(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise complex-conjugate of the input."""
@overload
def convolve(
    a: NamedArray,
    v: ArrayLike,
    mode: str = 'full',
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Convolution along one axis, as `jnp.convolve` does it."""
@overload
def convolve(
    a: ArrayLike,
    v: NamedArray,
    mode: str = 'full',
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = 'full',
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
) -> Array:
    """Convolution along one axis, as `jnp.convolve` does it.

    See `nx.convolve`.
    """
@overload
def copy(a: NamedArray, order: str | None = None) -> NamedArray:
    """Return a copy of the array."""
@overload
def copy(a: jax.typing.ArrayLike, order: str | None = None) -> jax.Array:
    """Return a copy of the array."""
@overload
def copysign(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Copies the sign of each element in ``x2`` to the corresponding element in ``x1``."""
@overload
def copysign(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def copysign(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Copies the sign of each element in ``x2`` to the corresponding element in ``x1``."""
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: builtins.bool = True,
    dtype: Any = None,
    *,
    axis: Axis = None,
    variables: Any = None,
) -> Array:
    """Correlation coefficients of variables over observations: covariances over the roots of both variances. See `nx.cov`.

    Args:
      x: an array, named or not.
      y: without `axis`, as in `jnp.corrcoef`.
      rowvar: without `axis`, as in `jnp.corrcoef`.
      dtype: element type of the result.
      axis: the observations, as in `nx.cov`.
      variables: as in `nx.cov`; where `x` has no positional axis they must be given.

    Returns:
      The coefficients, with the axes of `nx.cov`. It costs what that costs, and one all-reduce for the variances.

    Raises:
      PositionalAxisError: `x` has no positional axis but names besides the observations, and `variables` is left out: each would be correlated
        with itself alone.
    """
@overload
def correlate(
    a: NamedArray, v: ArrayLike, mode: str = 'valid', *, precision: Any = None, preferred_element_type: Any = None,
) -> NamedArray:
    """Correlation of two one dimensional arrays."""
@overload
def correlate(
    a: ArrayLike, v: NamedArray, mode: str = 'valid', *, precision: Any = None, preferred_element_type: Any = None,
) -> NamedArray: ...
@overload
def correlate(
    a: jax.typing.ArrayLike,
    v: jax.typing.ArrayLike,
    mode: str = 'valid',
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> jax.Array:
    """Correlation of two one dimensional arrays."""
@overload
def cos(x: NamedArray, /) -> NamedArray:
    """Compute a trigonometric cosine of each element of input."""
@overload
def cos(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute a trigonometric cosine of each element of input."""
@overload
def cosh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise hyperbolic cosine of input."""
@overload
def cosh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise hyperbolic cosine of input."""
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: builtins.bool = False) -> Array:
    """The number of elements that are not zero, over positional and named axes.

    See `nx.count_nonzero`.
    """
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: builtins.bool = True,
    bias: builtins.bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
    *,
    axis: Axis = None,
    variables: Any = None,
) -> Array:
    """Covariances of variables over observations.

    Args:
      m: an array, named or not.
      y: without `axis`, as in `jnp.cov`.
      rowvar: without `axis`, as in `jnp.cov`.
      bias: whether to divide by the number of observations `n`, instead of `n - 1`.
      ddof: what is subtracted from that number; default: 1, or 0 with `bias`.
      fweights: how often each observation counts: integers along `axis`.
      aweights: the weight of each observation: floats along `axis`.
      dtype: element type of the result.
      axis: the observations: a name, or a tuple of names. Without it this is `jnp.cov` of the positional axes, and names are batch axes.
      variables: with `axis`, the name of the variables and the one that it gets on the other side: `("k", "k2")`. Default: the one
        positional axis of `m`; and if it has none, `m` is one variable. All other names are batch axes.

    Returns:
      The covariances, with `variables` in place of their name, or two positional axes. Over sharded observations: one
      all-reduce for the means, one for the covariances. Sharded variables are gathered once, for the other side.

    Raises:
      AxisNotFoundError: `m` lacks a name.
      AxisNameError: `variables` is not a pair of different names.
      PositionalAxisError: `m` has several positional axes, or has one besides `variables`; without `axis`, it has names and no positional axis.
      ArgumentTypeError: `y` is a name.
    """
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Axis = None) -> Any:
    """Compute the (batched) cross product of two arrays."""
@overload
def cumprod(
    a: NamedArray, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> NamedArray:
    """Cumulative product along one axis; arguments and costs as for `cumsum`."""
@overload
def cumprod(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> Array:
    """Cumulative product along one axis; arguments and costs as for `cumsum`.

    See `nx.cumprod`.
    """
@overload
def cumsum(
    a: NamedArray, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> NamedArray:
    """Cumulative sum along one axis."""
@overload
def cumsum(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> Array:
    """Cumulative sum along one axis.

    See `nx.cumsum`.
    """
@overload
def cumulative_prod(
    x: NamedArray,
    /,
    *,
    axis: Axis = None,
    dtype: Any = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Cumulative product along one axis, as in the array API. Arguments and costs as for `cumulative_sum`; it begins with 1."""
@overload
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: Axis = None,
    dtype: Any = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> Array:
    """Cumulative product along one axis, as in the array API. Arguments and costs as for `cumulative_sum`; it begins with 1."""
@overload
def cumulative_sum(
    x: NamedArray,
    /,
    *,
    axis: Axis = None,
    dtype: Any = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """Cumulative sum along one axis, as in the array API: narrow integers are combined as `int`."""
@overload
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: Axis = None,
    dtype: Any = None,
    include_initial: builtins.bool = False,
    out_axis: Hashable | None = None,
) -> Array:
    """Cumulative sum along one axis, as in the array API: narrow integers are combined as `int`.

    Args:
      x: an array, named or not.
      axis: a position or a name; may be left out if there is exactly one positional axis.
      dtype: element type of the result.
      include_initial: whether the result begins with 0, and is longer by one.
      out_axis: the name of the longer axis; needed in a mapped function in which `axis` has a size.

    Returns:
      An array with the same axes. Costs as for `cumsum`; with `include_initial` along a sharded name, those of `pad` too.

    Raises:
      AxisNotFoundError: `x` has no axis of that name.
      AxisSizeError: the longer axis has a different size in the mapped function.
      PositionalAxisError: `axis` is not one axis.
    """
@overload
def deg2rad(x: NamedArray, /) -> NamedArray:
    """Convert angles from degrees to radians."""
@overload
def deg2rad(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Convert angles from degrees to radians."""
@overload
def degrees(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.rad2deg`"""
@overload
def degrees(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.rad2deg`"""
def delete(
    arr: ArrayLike, obj: ArrayLike | slice, axis: Axis = None, *, assume_unique_indices: builtins.bool = False,
) -> Array:
    """Delete entry or entries from an array."""
@overload
def diag(v: NamedArray, k: int = 0) -> NamedArray:
    """Returns the specified diagonal or constructs a diagonal array."""
@overload
def diag(v: jax.typing.ArrayLike, k: int = 0) -> jax.Array:
    """Returns the specified diagonal or constructs a diagonal array."""
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return indices for accessing the main diagonal of a given array."""
@overload
def diagflat(v: NamedArray, k: int = 0) -> NamedArray:
    """Return a 2-D array with the flattened input array laid out on the diagonal."""
@overload
def diagflat(v: jax.typing.ArrayLike, k: int = 0) -> jax.Array:
    """Return a 2-D array with the flattened input array laid out on the diagonal."""
def diagonal(a: ArrayLike, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> Array:
    """The diagonal over two axes, as the last positional axis of the result: `jnp.diagonal`, by name or position.

    Args:
      a: an array, named or not.
      offset: how far right of the main diagonal.
      axis1: the axis of rows, a position or a name.
      axis2: the axis of columns.

    Over sharded names only the diagonal is sent: it is read (an all-reduce of its size where `axis2` is sharded), and gathered where
    `axis1` is, because it becomes a positional axis. To keep the name write `x["k", nx.arange(axis="q")]`.

    Raises:
      AxisNotFoundError: `a` lacks a name.
    """
@overload
def diff(
    a: NamedArray,
    n: int = 1,
    axis: Axis = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    *,
    out_axis: Hashable | None = None,
) -> NamedArray:
    """The `n`-th differences along one axis, which becomes shorter by `n`."""
@overload
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: Axis = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    *,
    out_axis: Hashable | None = None,
) -> Array:
    """The `n`-th differences along one axis, which becomes shorter by `n`.

    Args:
      a: an array, named or not.
      n: how often differences are taken.
      axis: a position or a name.
      prepend: values before the first: a number, or an array with that axis. Along a name, an array without it is one entry;
        one that has it, all of its entries.
      append: the same at the other end.
      out_axis: the name of the resulting axis; needed in a mapped function in which `axis` has a different size.

    Returns:
      The differences. Along a sharded name each device gets the rows that it lacks of the next block; several entries in front or behind are
      joined on first, for which a sharded axis is gathered.

    Raises:
      AxisNotFoundError: `a` lacks the name.
      AxisSizeError: in a mapped function the name has a different size than the result, or than the entries in front or behind.
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
    x: jax.typing.ArrayLike,
    bins: jax.typing.ArrayLike,
    right: builtins.bool = False,
    *,
    method: str | None = None,
) -> jax.Array:
    """Convert an array to bin indices."""
@overload
def divide(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Alias of :func:`jax.numpy.true_divide`."""
@overload
def divide(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def divide(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.true_divide`."""
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Calculates the integer quotient and remainder of x1 by x2 element-wise"""
@overload
def dot(
    a: NamedArray,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> NamedArray:
    """Compute the dot product of two arrays."""
@overload
def dot(
    a: ArrayLike,
    b: NamedArray,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> NamedArray: ...
@overload
def dot(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> jax.Array:
    """Compute the dot product of two arrays."""
def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """Split an array into sub-arrays depth-wise."""
def dstack(tup: Any | Array | Sequence[ArrayLike], dtype: Any = None) -> Array:
    """Stack arrays depth-wise."""
@overload
def ediff1d(ary: NamedArray, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> NamedArray:
    """Compute the differences of the elements of the flattened array."""
@overload
def ediff1d(
    ary: jax.typing.ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None,
) -> jax.Array:
    """Compute the differences of the elements of the flattened array."""
def einsum(
    subscripts: str,
    /,
    *operands: Any,
    out: None = None,
    optimize: str | builtins.bool | list[tuple[int, ...]] = 'auto',
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Array] = ...,
    out_sharding: Any = None,
    overlap: Any = None,
) -> Array:
    """Contraction over positional and named axes.

    See `nx.einsum`.
    """
@overload
def empty(
    shape: Any = (),
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """An array whose values do not matter (JAX gives zeros); arguments as for `zeros`."""
@overload
def empty(shape: Any = (), dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> jax.Array:
    """An array whose values do not matter (JAX gives zeros); arguments as for `zeros`.

    See `nx.empty`.
    """
def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Array:
    """Create an empty array with the same shape and dtype as an array."""
@overload
def equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Returns element-wise truth value of ``x == y``."""
@overload
def equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns element-wise truth value of ``x == y``."""
@overload
def exp(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise exponential of the input."""
@overload
def exp(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise exponential of the input."""
@overload
def exp2(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise base-2 exponential of input."""
@overload
def exp2(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise base-2 exponential of input."""
@overload
def expand_dims(a: NamedArray, axis: Axis) -> NamedArray:
    """Inserts axes of size 1."""
@overload
def expand_dims(a: ArrayLike, axis: Axis) -> Array:
    """Inserts axes of size 1.

    Args:
      a: an array, named or not.
      axis: a name, a position among the positional axes of the result, or a tuple of both.

    Returns:
      The array with the new axes. Moves nothing.

    Raises:
      AxisNameError: the array has the name already.
    """
@overload
def expm1(x: NamedArray, /) -> NamedArray:
    """Calculate ``exp(x)-1`` of each element of the input."""
@overload
def expm1(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate ``exp(x)-1`` of each element of the input."""
@overload
def extract(
    condition: NamedArray, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0,
) -> NamedArray:
    """Return the elements of an array that satisfy a condition."""
@overload
def extract(
    condition: ArrayLike, arr: NamedArray, *, size: int | None = None, fill_value: ArrayLike = 0,
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
@overload
def fabs(x: NamedArray, /) -> NamedArray:
    """Compute the element-wise absolute values of the real-valued input."""
@overload
def fabs(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the element-wise absolute values of the real-valued input."""
@overload
def fill_diagonal(
    a: NamedArray, val: ArrayLike, wrap: builtins.bool = False, *, inplace: builtins.bool = True,
) -> NamedArray:
    """Return a copy of the array with the diagonal overwritten."""
@overload
def fill_diagonal(
    a: ArrayLike, val: NamedArray, wrap: builtins.bool = False, *, inplace: builtins.bool = True,
) -> NamedArray: ...
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
    a: NamedArray, *, size: int | None = None, fill_value: None | ArrayLike | tuple[ArrayLike, ...] = None,
) -> NamedArray:
    """Return indices of nonzero elements in a flattened array"""
@overload
def flatnonzero(
    a: jax.typing.ArrayLike,
    *,
    size: int | None = None,
    fill_value: None | ArrayLike | tuple[ArrayLike, ...] = None,
) -> jax.Array:
    """Return indices of nonzero elements in a flattened array"""
@overload
def flip(m: NamedArray, axis: Axis = None) -> NamedArray:
    """Reverses axes."""
@overload
def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """Reverses axes.

    Args:
      m: an array, named or not.
      axis: a position, a name, or a tuple of both; `None`: all positional axes, `...`: all. It must be given where all axes have names.

    Returns:
      An array of the same axes. Along a sharded name: one collective-permute that sends each block to its mirror image.

    Raises:
      AxisNotFoundError: the array lacks a name.
    """
@overload
def fliplr(m: NamedArray) -> NamedArray:
    """Reverse the order of elements of an array along axis 1."""
@overload
def fliplr(m: jax.typing.ArrayLike) -> jax.Array:
    """Reverse the order of elements of an array along axis 1."""
@overload
def flipud(m: NamedArray) -> NamedArray:
    """Reverse the order of elements of an array along axis 0."""
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
def float_power(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise base ``x`` exponential of ``y``."""
@overload
def floor(x: NamedArray, /) -> NamedArray:
    """Round input to the nearest integer downwards."""
@overload
def floor(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Round input to the nearest integer downwards."""
@overload
def floor_divide(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculates the floor division of x1 by x2 element-wise"""
@overload
def floor_divide(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def floor_divide(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the floor division of x1 by x2 element-wise"""
@overload
def fmax(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Return element-wise maximum of the input arrays."""
@overload
def fmax(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def fmax(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Return element-wise maximum of the input arrays."""
@overload
def fmin(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Return element-wise minimum of the input arrays."""
@overload
def fmin(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def fmin(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Return element-wise minimum of the input arrays."""
@overload
def fmod(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculate element-wise floating-point modulo operation."""
@overload
def fmod(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def fmod(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise floating-point modulo operation."""
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Split floating point values into mantissa and twos exponent."""
def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> Any:
    """`jax.numpy.frompyfunc`: a `jnp.ufunc` of a function of scalars.

    Args:
      func: a function of `nin` scalars.
      nin: the number of its arguments.
      nout: the number of its results.
      identity: the neutral element of its reductions.

    Returns:
      A `jnp.ufunc`, for arrays without names; call it in `nx.nmap` on named ones.

    Raises:
      ArgumentTypeError: `func` is not a function.
    """
@overload
def full(
    shape: Any = (),
    fill_value: ArrayLike | None = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """An array of one value, with named axes in addition to the positional ones; other arguments as for `zeros`."""
@overload
def full(
    shape: Any = (),
    fill_value: ArrayLike | None = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> jax.Array:
    """An array of one value, with named axes in addition to the positional ones; other arguments as for `zeros`.

    See `nx.full`.
    """
@overload
def full_like(
    a: NamedArray,
    fill_value: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> NamedArray:
    """Create an array full of a specified value with the same shape and dtype as an array."""
@overload
def full_like(
    a: ArrayLike,
    fill_value: NamedArray,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> NamedArray: ...
@overload
def full_like(
    a: jax.typing.ArrayLike,
    fill_value: jax.typing.ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> jax.Array:
    """Create an array full of a specified value with the same shape and dtype as an array."""
@overload
def gcd(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Compute the greatest common divisor of two arrays."""
@overload
def gcd(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def gcd(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Compute the greatest common divisor of two arrays."""
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    dtype: Any = None,
    axis: Axis = 0,
) -> Array:
    """Generate geometrically-spaced values."""
def gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int | None = None) -> Array | list[Array]:
    """Central differences along axes, one-sided ones at both ends: `jnp.gradient`.

    Args:
      f: values, named or not.
      *varargs: the distance between two values, for all axes or for each; or coordinates along the axis, an array that has it
        or a plain one.
      axis: a position, a name, or a tuple of both; default: all positional axes. It must be given where all axes have names.
      edge_order: not supported, as in `jnp.gradient`.

    Returns:
      An array like `f`, or a list of them, one for each axis. Along a sharded name the rows at the boundaries of blocks are sent.

    Raises:
      AxisNotFoundError: `f` lacks a name.
      AxisSizeError: an axis has fewer than two entries.
    """
@overload
def greater(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x > y``."""
@overload
def greater(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def greater(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x > y``."""
@overload
def greater_equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x >= y``."""
@overload
def greater_equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def greater_equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x >= y``."""
@overload
def heaviside(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute the heaviside step function."""
@overload
def heaviside(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def heaviside(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute the heaviside step function."""
def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: builtins.bool | None = None,
    *,
    axis: Axis = None,
    out_axis: Hashable | None = None,
) -> tuple[Array, Array]:
    """How many elements fall into each bin, over positional and named axes.

    See `nx.histogram`.
    """
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike | list[ArrayLike] = 10,
    range: Sequence[None | Array | Sequence[ArrayLike]] | None = None,
    weights: ArrayLike | None = None,
    density: builtins.bool | None = None,
) -> tuple[Array, Array, Array]:
    """Compute a 2-dimensional histogram."""
@overload
def histogram_bin_edges(
    a: NamedArray,
    bins: ArrayLike = 10,
    range: None | Array | Sequence[ArrayLike] = None,
    weights: ArrayLike | None = None,
) -> NamedArray:
    """Compute the bin edges for a histogram."""
@overload
def histogram_bin_edges(
    a: jax.typing.ArrayLike,
    bins: ArrayLike = 10,
    range: None | Array | Sequence[ArrayLike] = None,
    weights: ArrayLike | None = None,
) -> jax.Array:
    """Compute the bin edges for a histogram."""
def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike | list[ArrayLike] = 10,
    range: Sequence[None | Array | Sequence[ArrayLike]] | None = None,
    weights: ArrayLike | None = None,
    density: builtins.bool | None = None,
) -> tuple[Array, list[Array]]:
    """Compute an N-dimensional histogram."""
def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """Split an array into sub-arrays horizontally."""
def hstack(tup: Any | Array | Sequence[ArrayLike], dtype: Any = None) -> Array:
    """Horizontally stack arrays."""
@overload
def hypot(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Return element-wise hypotenuse for the given legs of a right angle triangle."""
@overload
def hypot(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def hypot(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise hypotenuse for the given legs of a right angle triangle."""
@overload
def i0(x: NamedArray) -> NamedArray:
    """Calculate modified Bessel function of first kind, zeroth order."""
@overload
def i0(x: jax.typing.ArrayLike) -> jax.Array:
    """Calculate modified Bessel function of first kind, zeroth order."""
@overload
def imag(val: NamedArray, /) -> NamedArray:
    """Return element-wise imaginary of part of the complex argument."""
@overload
def imag(val: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise imaginary of part of the complex argument."""
@overload
def inner(a: NamedArray, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> NamedArray:
    """Compute the inner product of two arrays."""
@overload
def inner(a: ArrayLike, b: NamedArray, *, precision: Any = None, preferred_element_type: Any = None) -> NamedArray: ...
@overload
def inner(
    a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, *, precision: Any = None, preferred_element_type: Any = None,
) -> jax.Array:
    """Compute the inner product of two arrays."""
def insert(arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: Axis = None) -> Array:
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
) -> Array | tuple[Array, Array, Array]:
    """Compute the set intersection of two 1D arrays."""
@overload
def invert(x: NamedArray, /) -> NamedArray:
    """Compute the bitwise inversion of an input."""
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
def iscomplex(x: jax.typing.ArrayLike) -> jax.Array:
    """Return boolean array showing where the input is complex."""
def iscomplexobj(x: ArrayLike) -> builtins.bool:
    """Whether the element type is complex."""
@overload
def isfinite(x: NamedArray, /) -> NamedArray:
    """Return a boolean array indicating whether each element of input is finite."""
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
    method: Any = 'auto',
) -> NamedArray:
    """Determine whether elements in ``element`` appear in ``test_elements``."""
@overload
def isin(
    element: ArrayLike,
    test_elements: NamedArray,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
    *,
    method: Any = 'auto',
) -> NamedArray: ...
@overload
def isin(
    element: jax.typing.ArrayLike,
    test_elements: jax.typing.ArrayLike,
    assume_unique: builtins.bool = False,
    invert: builtins.bool = False,
    *,
    method: Any = 'auto',
) -> jax.Array:
    """Determine whether elements in ``element`` appear in ``test_elements``."""
@overload
def isinf(x: NamedArray, /) -> NamedArray:
    """Return a boolean array indicating whether each element of input is infinite."""
@overload
def isinf(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return a boolean array indicating whether each element of input is infinite."""
@overload
def isnan(x: NamedArray, /) -> NamedArray:
    """Returns a boolean array indicating whether each element of input is ``NaN``."""
@overload
def isnan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns a boolean array indicating whether each element of input is ``NaN``."""
@overload
def isneginf(x: NamedArray, /, out: Any = None) -> NamedArray:
    """Return boolean array indicating whether each element of input is negative infinite."""
@overload
def isneginf(x: jax.typing.ArrayLike, /, out: Any = None) -> jax.Array:
    """Return boolean array indicating whether each element of input is negative infinite."""
@overload
def isposinf(x: NamedArray, /, out: Any = None) -> NamedArray:
    """Return boolean array indicating whether each element of input is positive infinite."""
@overload
def isposinf(x: jax.typing.ArrayLike, /, out: Any = None) -> jax.Array:
    """Return boolean array indicating whether each element of input is positive infinite."""
@overload
def isreal(x: NamedArray) -> NamedArray:
    """Return boolean array showing where the input is real."""
@overload
def isreal(x: jax.typing.ArrayLike) -> jax.Array:
    """Return boolean array showing where the input is real."""
def isrealobj(x: ArrayLike) -> builtins.bool:
    """Whether the element type is not complex."""
def isscalar(element: Any) -> builtins.bool:
    """Whether `x` is a scalar; a named array is not, however few positional axes it has.

    See `nx.isscalar`.
    """
@overload
def kron(a: NamedArray, b: ArrayLike) -> NamedArray:
    """Compute the Kronecker product of two input arrays."""
@overload
def kron(a: ArrayLike, b: NamedArray) -> NamedArray: ...
@overload
def kron(a: jax.typing.ArrayLike, b: jax.typing.ArrayLike) -> jax.Array:
    """Compute the Kronecker product of two input arrays."""
@overload
def lcm(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Compute the least common multiple of two arrays."""
@overload
def lcm(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def lcm(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Compute the least common multiple of two arrays."""
@overload
def ldexp(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Compute x1 * 2 ** x2"""
@overload
def ldexp(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def ldexp(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute x1 * 2 ** x2"""
@overload
def left_shift(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Shift bits of ``x`` to left by the amount specified in ``y``, element-wise."""
@overload
def left_shift(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def left_shift(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Shift bits of ``x`` to left by the amount specified in ``y``, element-wise."""
@overload
def less(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x < y``."""
@overload
def less(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def less(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x < y``."""
@overload
def less_equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise truth value of ``x <= y``."""
@overload
def less_equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def less_equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise truth value of ``x <= y``."""
def lexsort(keys: Iterable[Any], axis: Axis = -1) -> Array:
    """The indices that sort along one axis by several keys, the last of which counts most; ties in their order.

    Args:
      keys: a sequence of arrays, named or not, which broadcast by name; or one array whose first positional axis counts
        the keys.
      axis: a position or a name.

    Returns:
      Integers with the axes of the keys together.

    Along a sharded name: as for `sort`, of all keys and the indices.
    """
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    retstep: builtins.bool = False,
    dtype: Any = None,
    axis: Axis = 0,
    *,
    device: Any = None,
) -> Array | tuple[Array, Array]:
    """Evenly spaced numbers between two ends, along a new axis that may have a name.

    Args:
      start: the first value: a number or an array, named or not.
      stop: the last value, or the end that is left out; it broadcasts with `start` by name.
      num: how many there are.
      endpoint: whether `stop` is one of them.
      retstep: whether the distance is returned too.
      dtype: element type.
      axis: the name of the new axis, or its position.
      device: as in `jnp.linspace`; for a positional axis.

    Returns:
      The values, with the axes of `start` and `stop` and the new one; with `retstep` a pair of these and the distance. Sends nothing.

    Raises:
      AxisSizeError: `num` is not the size that the name has in the mapped function.
      ArgumentTypeError: `num` is not an integer, or a device is given with a name.
    """
@overload
def log(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise natural logarithm of the input."""
@overload
def log(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise natural logarithm of the input."""
@overload
def log10(x: NamedArray, /) -> NamedArray:
    """Calculates the base-10 logarithm of x element-wise"""
@overload
def log10(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the base-10 logarithm of x element-wise"""
@overload
def log1p(x: NamedArray, /) -> NamedArray:
    """Calculates element-wise logarithm of one plus input, ``log(x+1)``."""
@overload
def log1p(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates element-wise logarithm of one plus input, ``log(x+1)``."""
@overload
def log2(x: NamedArray, /) -> NamedArray:
    """Calculates the base-2 logarithm of ``x`` element-wise."""
@overload
def log2(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the base-2 logarithm of ``x`` element-wise."""
@overload
def logaddexp(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Compute ``log(exp(x1) + exp(x2))`` avoiding overflow."""
@overload
def logaddexp(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def logaddexp(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Compute ``log(exp(x1) + exp(x2))`` avoiding overflow."""
@overload
def logaddexp2(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Logarithm of the sum of exponentials of inputs in base-2 avoiding overflow."""
@overload
def logaddexp2(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def logaddexp2(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Logarithm of the sum of exponentials of inputs in base-2 avoiding overflow."""
@overload
def logical_and(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Compute the logical AND operation elementwise."""
@overload
def logical_and(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def logical_and(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Compute the logical AND operation elementwise."""
@overload
def logical_not(x: NamedArray, /) -> NamedArray:
    """Compute NOT bool(x) element-wise."""
@overload
def logical_not(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute NOT bool(x) element-wise."""
@overload
def logical_or(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Compute the logical OR operation elementwise."""
@overload
def logical_or(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def logical_or(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Compute the logical OR operation elementwise."""
@overload
def logical_xor(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Compute the logical XOR operation elementwise."""
@overload
def logical_xor(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def logical_xor(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Compute the logical XOR operation elementwise."""
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: builtins.bool = True,
    base: ArrayLike = 10.0,
    dtype: Any = None,
    axis: Axis = 0,
) -> Array:
    """Generate logarithmically-spaced values."""
@overload
def matmul(
    a: NamedArray,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> NamedArray:
    """Perform a matrix multiplication."""
@overload
def matmul(
    a: ArrayLike,
    b: NamedArray,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> NamedArray: ...
@overload
def matmul(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> jax.Array:
    """Perform a matrix multiplication."""
@overload
def matrix_transpose(x: NamedArray, /) -> NamedArray:
    """Transpose the last two dimensions of an array."""
@overload
def matrix_transpose(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Transpose the last two dimensions of an array."""
@overload
def matvec(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Batched matrix-vector product."""
@overload
def matvec(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def matvec(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Batched matrix-vector product."""
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over positional and named axes. NaN wins; ties share the gradient equally, as in `jnp`, sharded or not.

    See `nx.max`.
    """
@overload
def maximum(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Return element-wise maximum of the input arrays."""
@overload
def maximum(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def maximum(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Return element-wise maximum of the input arrays."""
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Mean over positional and named axes. Arguments as for `sum`.

    See `nx.mean`.
    """
def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> Array:
    """Median over positional and named axes together; NaN where one element is NaN. Costs as for `quantile`.

    See `nx.median`.
    """
def meshgrid(
    *xi: ArrayLike, copy: builtins.bool = True, sparse: builtins.bool = False, indexing: str = 'xy',
) -> list[Array]:
    """Construct N-dimensional grid arrays from N 1-dimensional vectors."""
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Minimum over positional and named axes; see `max`.

    See `nx.min`.
    """
@overload
def minimum(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Return element-wise minimum of the input arrays."""
@overload
def minimum(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def minimum(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Return element-wise minimum of the input arrays."""
@overload
def mod(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Alias of :func:`jax.numpy.remainder`"""
@overload
def mod(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def mod(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.remainder`"""
def modf(x: ArrayLike, /, out: Any = None) -> tuple[Array, Array]:
    """Return element-wise fractional and integral parts of the input array."""
@overload
def moveaxis(a: NamedArray, source: Axis, destination: Axis) -> NamedArray:
    """Positional axes moved to other positions: `jnp.moveaxis`; names are batch axes, and have no position to be moved to."""
@overload
def moveaxis(a: ArrayLike, source: Axis, destination: Axis) -> Array:
    """Positional axes moved to other positions: `jnp.moveaxis`; names are batch axes, and have no position to be moved to.

    Raises:
      AxisNameError: an axis is a name.
    """
@overload
def multiply(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Multiply two arrays element-wise."""
@overload
def multiply(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def multiply(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
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
def nanargmax(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: builtins.bool | None = None) -> Array:
    """Index of the first maximum of the elements that are not NaN; -1 if there are none. Arguments as for `nx.argmax`.

    See `nx.nanargmax`.
    """
def nanargmin(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: builtins.bool | None = None) -> Array:
    """Index of the first minimum of the elements that are not NaN; see `nanargmax`.

    See `nx.nanargmin`.
    """
@overload
def nancumprod(
    a: NamedArray, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> NamedArray:
    """Cumulative product along one axis in which NaN counts as one; arguments and costs as for `cumsum`."""
@overload
def nancumprod(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> Array:
    """Cumulative product along one axis in which NaN counts as one; arguments and costs as for `cumsum`.

    See `nx.nancumprod`.
    """
@overload
def nancumsum(
    a: NamedArray, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> NamedArray:
    """Cumulative sum along one axis in which NaN counts as zero; arguments and costs as for `cumsum`."""
@overload
def nancumsum(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, out: None = None, *, reverse: builtins.bool = False,
) -> Array:
    """Cumulative sum along one axis in which NaN counts as zero; arguments and costs as for `cumsum`.

    See `nx.nancumsum`.
    """
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum of the elements that are not NaN; NaN if there are none. Arguments as for `nx.max`.

    See `nx.nanmax`.
    """
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Mean of the elements that are not NaN; NaN if there are none. Arguments and costs as for `nx.mean` with `where`.

    See `nx.nanmean`.
    """
def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> Array:
    """Median of the elements that are not NaN; see `median`.

    See `nx.nanmedian`.
    """
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Minimum of the elements that are not NaN; see `nanmax`.

    See `nx.nanmin`.
    """
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Percentiles of the elements that are not NaN. As `quantile`, with `q` between 0 and 100.

    See `nx.nanpercentile`.
    """
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Product of the elements that are not NaN. Arguments and costs as for `nx.prod`.

    See `nx.nanprod`.
    """
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Quantiles of the elements that are not NaN. Arguments and costs as for `quantile`.

    See `nx.nanquantile`.
    """
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    *,
    correction: float | None = None,
) -> Array:
    """The standard deviation of the elements that are not NaN; NaN if there are none. Arguments and costs as for `var`.

    See `nx.nanstd`.
    """
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sum of the elements that are not NaN. Arguments and costs as for `nx.sum`.

    See `nx.nansum`.
    """
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    *,
    correction: float | None = None,
) -> Array:
    """The variance of the elements that are not NaN; NaN if there are none. Arguments and costs as for `var`.

    See `nx.nanvar`.
    """
def ndim(a: ArrayLike) -> int:
    """The number of positional axes.

    See `nx.ndim`.
    """
def negative(*args: ArrayLike, out: None = None, where: None = None) -> Array:
    """Return element-wise negative values of the input."""
@overload
def nextafter(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Return element-wise next floating point value after ``x`` towards ``y``."""
@overload
def nextafter(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def nextafter(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise next floating point value after ``x`` towards ``y``."""
def nonzero(
    a: ArrayLike, *, size: Any = None, fill_value: Any = None, axis: Axis = None, out_axis: Hashable | None = None,
) -> tuple[Array, ...]:
    """The indices of the entries that are not zero, in row-major order.

    Args:
      a: an array, named or not.
      size: how many are returned: the first ones, and after them `fill_value`. A name may leave it out: its size in the mapped function
        is used.
      fill_value: what stands after the last one: a number, or one for each axis; default 0.
      axis: a name, or a tuple of names, major first: other axes are batch axes. Default: the positional axes, as in `jnp.nonzero`, where
        names are batch axes.
      out_axis: the name of the result's axis; default: a positional one, in front.

    Returns:
      A tuple with an array of indices for every axis, each with the batch axes and that of the places. Over sharded names: a
      number per device to count what is before it, and one all-reduce of the result for each axis. (With several names, each
      but the last needs a table of the places before they are added up.)

    Raises:
      AxisNotFoundError: `a` lacks a name, or the number of places is not known.
      ArgumentError: there is no size.
      AxisNameError: `out_axis` is a name of `a`.
    """
@overload
def not_equal(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Returns element-wise truth value of ``x != y``."""
@overload
def not_equal(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def not_equal(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns element-wise truth value of ``x != y``."""
@overload
def ones(
    shape: Any = (),
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Ones, with named axes in addition to the positional ones; arguments as for `zeros`."""
@overload
def ones(shape: Any = (), dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> jax.Array:
    """Ones, with named axes in addition to the positional ones; arguments as for `zeros`.

    See `nx.ones`.
    """
@overload
def ones_like(
    a: NamedArray, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None,
) -> NamedArray:
    """Create an array of ones with the same shape and dtype as an array."""
@overload
def ones_like(
    a: jax.typing.ArrayLike, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None,
) -> jax.Array:
    """Create an array of ones with the same shape and dtype as an array."""
@overload
def outer(a: NamedArray, b: ArrayLike, out: None = None) -> NamedArray:
    """Compute the outer product of two arrays."""
@overload
def outer(a: ArrayLike, b: NamedArray, out: None = None) -> NamedArray: ...
@overload
def outer(a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, out: None = None) -> jax.Array:
    """Compute the outer product of two arrays."""
def packbits(a: ArrayLike, axis: Axis = None, bitorder: str = 'big') -> Array:
    """Pack array of bits into a uint8 array."""
@overload
def pad(
    array: NamedArray,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: Any = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **kwargs: Any,
) -> NamedArray:
    """Pads an array at the ends of its axes."""
@overload
def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: Any = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **kwargs: Any,
) -> Array:
    """Pads an array at the ends of its axes.

    See `nx.pad`.
    """
@overload
def partition(a: NamedArray, kth: int, axis: Axis = -1) -> NamedArray:
    """The values along one axis with that of rank `kth` in its place: smaller ones before it, larger ones behind."""
@overload
def partition(a: ArrayLike, kth: int, axis: Axis = -1) -> Array:
    """The values along one axis with that of rank `kth` in its place: smaller ones before it, larger ones behind.

    See `nx.partition`.
    """
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Percentiles over positional and named axes together; NaN where one element is NaN. As `quantile`, with `q` between 0 and 100.

    See `nx.percentile`.
    """
@overload
def permute_dims(a: NamedArray, /, axes: Axis = None) -> NamedArray:
    """`nx.transpose`, under the name that it has in the array API."""
@overload
def permute_dims(a: ArrayLike, /, axes: Axis = None) -> Array:
    """`nx.transpose`, under the name that it has in the array API.

    See `nx.permute_dims`.
    """
@overload
def piecewise(
    x: NamedArray,
    condlist: Array | Sequence[ArrayLike],
    funclist: list[ArrayLike | Callable[..., Array]],
    *args: Any,
    **kw: Any,
) -> NamedArray:
    """Evaluate a function defined piecewise across the domain."""
@overload
def piecewise(
    x: jax.typing.ArrayLike,
    condlist: Array | Sequence[ArrayLike],
    funclist: list[ArrayLike | Callable[..., Array]],
    *args: Any,
    **kw: Any,
) -> jax.Array:
    """Evaluate a function defined piecewise across the domain."""
@overload
def place(arr: NamedArray, mask: ArrayLike, vals: ArrayLike, *, inplace: builtins.bool = True) -> NamedArray:
    """Update array elements based on a mask."""
@overload
def place(arr: ArrayLike, mask: NamedArray, vals: ArrayLike, *, inplace: builtins.bool = True) -> NamedArray: ...
@overload
def place(arr: ArrayLike, mask: ArrayLike, vals: NamedArray, *, inplace: builtins.bool = True) -> NamedArray: ...
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
def poly(seq_of_zeros: jax.typing.ArrayLike) -> jax.Array:
    """Returns the coefficients of a polynomial for the given sequence of roots."""
@overload
def polyadd(a1: NamedArray, a2: ArrayLike) -> NamedArray:
    """Returns the sum of the two polynomials."""
@overload
def polyadd(a1: ArrayLike, a2: NamedArray) -> NamedArray: ...
@overload
def polyadd(a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike) -> jax.Array:
    """Returns the sum of the two polynomials."""
@overload
def polyder(p: NamedArray, m: int = 1) -> NamedArray:
    """Returns the coefficients of the derivative of specified order of a polynomial."""
@overload
def polyder(p: jax.typing.ArrayLike, m: int = 1) -> jax.Array:
    """Returns the coefficients of the derivative of specified order of a polynomial."""
def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: builtins.bool = False) -> tuple[Array, Array]:
    """Returns the quotient and remainder of polynomial division."""
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: builtins.bool = False,
    w: ArrayLike | None = None,
    cov: builtins.bool = False,
) -> Array | tuple[Array, ...]:
    """Least squares polynomial fit to data."""
@overload
def polyint(p: NamedArray, m: int = 1, k: int | ArrayLike | None = None) -> NamedArray:
    """Returns the coefficients of the integration of specified order of a polynomial."""
@overload
def polyint(p: jax.typing.ArrayLike, m: int = 1, k: int | ArrayLike | None = None) -> jax.Array:
    """Returns the coefficients of the integration of specified order of a polynomial."""
@overload
def polymul(a1: NamedArray, a2: ArrayLike, *, trim_leading_zeros: builtins.bool = False) -> NamedArray:
    """Returns the product of two polynomials."""
@overload
def polymul(a1: ArrayLike, a2: NamedArray, *, trim_leading_zeros: builtins.bool = False) -> NamedArray: ...
@overload
def polymul(
    a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike, *, trim_leading_zeros: builtins.bool = False,
) -> jax.Array:
    """Returns the product of two polynomials."""
@overload
def polysub(a1: NamedArray, a2: ArrayLike) -> NamedArray:
    """Returns the difference of two polynomials."""
@overload
def polysub(a1: ArrayLike, a2: NamedArray) -> NamedArray: ...
@overload
def polysub(a1: jax.typing.ArrayLike, a2: jax.typing.ArrayLike) -> jax.Array:
    """Returns the difference of two polynomials."""
@overload
def polyval(p: NamedArray, x: ArrayLike, *, unroll: int = 16) -> NamedArray:
    """Evaluates the polynomial at specific values."""
@overload
def polyval(p: ArrayLike, x: NamedArray, *, unroll: int = 16) -> NamedArray: ...
@overload
def polyval(p: jax.typing.ArrayLike, x: jax.typing.ArrayLike, *, unroll: int = 16) -> jax.Array:
    """Evaluates the polynomial at specific values."""
@overload
def positive(x: NamedArray, /) -> NamedArray:
    """Return element-wise positive values of the input."""
@overload
def positive(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise positive values of the input."""
@overload
def pow(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Alias of :func:`jax.numpy.power`"""
@overload
def pow(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def pow(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.power`"""
@overload
def power(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculate element-wise base ``x1`` exponential of ``x2``."""
@overload
def power(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def power(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise base ``x1`` exponential of ``x2``."""
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: builtins.bool = True,
) -> Array:
    """Product over positional and named axes. Arguments as for `sum`.

    See `nx.prod`.
    """
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: builtins.bool = False) -> Array:
    """Maximum minus minimum. Arguments as for `nx.max`, costs those of both.

    See `nx.ptp`.
    """
@overload
def put(
    a: NamedArray, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: builtins.bool = True,
) -> NamedArray:
    """Put elements into an array at given indices."""
@overload
def put(
    a: ArrayLike, ind: NamedArray, v: ArrayLike, mode: str | None = None, *, inplace: builtins.bool = True,
) -> NamedArray: ...
@overload
def put(
    a: ArrayLike, ind: ArrayLike, v: NamedArray, mode: str | None = None, *, inplace: builtins.bool = True,
) -> NamedArray: ...
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
    axis: Axis,
    inplace: builtins.bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """Put values into the destination array by matching 1d index and data slices."""
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: builtins.bool = False,
    method: str = 'linear',
    keepdims: builtins.bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Quantiles over positional and named axes together; NaN where one element is NaN.

    See `nx.quantile`.
    """
@overload
def rad2deg(x: NamedArray, /) -> NamedArray:
    """Convert angles from radians to degrees."""
@overload
def rad2deg(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Convert angles from radians to degrees."""
@overload
def radians(x: NamedArray, /) -> NamedArray:
    """Alias of :func:`jax.numpy.deg2rad`"""
@overload
def radians(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Alias of :func:`jax.numpy.deg2rad`"""
@overload
def ravel(a: NamedArray, order: str = 'C', *, out_sharding: Any = None) -> NamedArray:
    """Flatten array into a 1-dimensional shape."""
@overload
def ravel(a: jax.typing.ArrayLike, order: str = 'C', *, out_sharding: Any = None) -> jax.Array:
    """Flatten array into a 1-dimensional shape."""
def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = 'raise',
    order: str = 'C',
    *,
    dtype: Any = None,
) -> Array:
    """Convert multi-dimensional indices into flat indices."""
@overload
def real(val: NamedArray, /) -> NamedArray:
    """Return element-wise real part of the complex argument."""
@overload
def real(val: jax.typing.ArrayLike, /) -> jax.Array:
    """Return element-wise real part of the complex argument."""
@overload
def reciprocal(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise reciprocal of the input."""
@overload
def reciprocal(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise reciprocal of the input."""
@overload
def remainder(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Returns element-wise remainder of the division."""
@overload
def remainder(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def remainder(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Returns element-wise remainder of the division."""
def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: Axis = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
    out_axis: Hashable | None = None,
) -> Array:
    """Repeats single elements along an axis, as `jnp.repeat` does.

    See `nx.repeat`.
    """
@overload
def reshape(
    a: NamedArray,
    shape: Any | (int | Sequence[int]),
    order: str = 'C',
    *,
    copy: builtins.bool | None = None,
    out_sharding: Any = None,
) -> NamedArray:
    """Return a reshaped copy of an array."""
@overload
def reshape(
    a: jax.typing.ArrayLike,
    shape: Any | (int | Sequence[int]),
    order: str = 'C',
    *,
    copy: builtins.bool | None = None,
    out_sharding: Any = None,
) -> jax.Array:
    """Return a reshaped copy of an array."""
@overload
def resize(a: NamedArray, new_shape: int | Sequence[int]) -> NamedArray:
    """Return a new array with specified shape."""
@overload
def resize(a: jax.typing.ArrayLike, new_shape: int | Sequence[int]) -> jax.Array:
    """Return a new array with specified shape."""
def result_type(*args: Any) -> Any:
    """The element type that JAX's promotion gives these arrays and types together."""
@overload
def right_shift(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Right shift the bits of ``x1`` to the amount specified in ``x2``."""
@overload
def right_shift(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def right_shift(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Right shift the bits of ``x1`` to the amount specified in ``x2``."""
@overload
def rint(x: NamedArray, /) -> NamedArray:
    """Rounds the elements of x to the nearest integer"""
@overload
def rint(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Rounds the elements of x to the nearest integer"""
@overload
def roll(a: NamedArray, shift: Any, axis: Axis = None) -> NamedArray:
    """Rolls an array along axes; what leaves at one end comes in at the other."""
@overload
def roll(a: ArrayLike, shift: Any, axis: Axis = None) -> Array:
    """Rolls an array along axes; what leaves at one end comes in at the other.

    Args:
      a: an array, named or not.
      shift: an integer; or one for each axis, as a tuple, a list or an array. An array of JAX may be known at run time only, and one with
        names shifts positional axes, each instance by its own.
      axis: a position, a name, or a tuple of both; `None` rolls the flattened positional axes, as `jnp.roll` does.
        It must be given where all axes have names.

    Returns:
      An array of the same axes. Along a sharded name `n` rows in blocks of `b`: a shift by `s` sends whole blocks to the device
      `s // b` further (one collective-permute of `b - s % b` rows, none if `s < b`), and the boundary to the next (one of `s %
      b` rows). A shift that is known only at run time sends a block for every bit of the number of devices, and one more.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      ArgumentTypeError: a shift is not an integer.
    """
@overload
def rollaxis(a: NamedArray, axis: Axis, start: int = 0) -> NamedArray:
    """A positional axis moved in front of another one: `jnp.rollaxis`; names are batch axes, and have no position to be moved to."""
@overload
def rollaxis(a: ArrayLike, axis: Axis, start: int = 0) -> Array:
    """A positional axis moved in front of another one: `jnp.rollaxis`; names are batch axes, and have no position to be moved to.

    Raises:
      AxisNameError: an axis is a name.
    """
@overload
def roots(p: NamedArray, *, strip_zeros: builtins.bool = True) -> NamedArray:
    """Returns the roots of a polynomial given the coefficients ``p``."""
@overload
def roots(p: jax.typing.ArrayLike, *, strip_zeros: builtins.bool = True) -> jax.Array:
    """Returns the roots of a polynomial given the coefficients ``p``."""
def rot90(m: ArrayLike, k: int = 1, axes: Axis = (0, 1)) -> Array:
    """Rotate an array by 90 degrees counterclockwise in the plane specified by axes."""
@overload
def round(a: NamedArray, decimals: int = 0, out: None = None) -> NamedArray:
    """Round input evenly to the given number of decimals."""
@overload
def round(a: jax.typing.ArrayLike, decimals: int = 0, out: None = None) -> jax.Array:
    """Round input evenly to the given number of decimals."""
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = 'left',
    sorter: Any = None,
    *,
    method: str = 'scan',
    axis: Hashable | None = None,
) -> Array:
    """Where values would go in a sorted array, so that it stays sorted.

    Args:
      a: the sorted array: with one positional axis, or with the name `axis`. Its other names are batch axes.
      v: the values, named or not.
      side: `"left"` or `"right"` of equal elements.
      sorter: indices that sort `a`, with its axes.
      method: as in `jnp.searchsorted`.
      axis: the name of the sorted axis.

    Returns:
      Integers with the axes of `v` and the other names of `a`. Along a sharded name every device counts in its block, and one
      all-reduce of the result adds that up; a `sorter` is applied before that, as by `take_along_axis`.

    Raises:
      AxisNotFoundError: `a` has no axis of that name.
      PlacementConflictError: `v` has an axis on the mesh axis that `axis` is on.
    """
def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
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
    """Sizes of the positional axes.

    See `nx.shape`.
    """
@overload
def sign(x: NamedArray, /) -> NamedArray:
    """Return an element-wise indication of sign of the input."""
@overload
def sign(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return an element-wise indication of sign of the input."""
@overload
def signbit(x: NamedArray, /) -> NamedArray:
    """Return the sign bit of array elements."""
@overload
def signbit(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return the sign bit of array elements."""
@overload
def sin(x: NamedArray, /) -> NamedArray:
    """Compute a trigonometric sine of each element of input."""
@overload
def sin(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute a trigonometric sine of each element of input."""
@overload
def sinc(x: NamedArray, /) -> NamedArray:
    """Calculate the normalized sinc function."""
@overload
def sinc(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate the normalized sinc function."""
@overload
def sinh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise hyperbolic sine of input."""
@overload
def sinh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise hyperbolic sine of input."""
def size(a: ArrayLike, axis: Axis = None) -> int:
    """The number of elements over the positional axes, or along those that are given: positions, names, or a tuple of both.

    See `nx.size`.
    """
@overload
def sort(
    a: NamedArray,
    axis: Axis = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
) -> NamedArray:
    """The values in ascending order along one axis, NaN last."""
@overload
def sort(
    a: ArrayLike,
    axis: Axis = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: builtins.bool = True,
    descending: builtins.bool = False,
) -> Array:
    """The values in ascending order along one axis, NaN last.

    See `nx.sort`.
    """
@overload
def sort_complex(a: NamedArray) -> NamedArray:
    """Return a sorted copy of complex array."""
@overload
def sort_complex(a: jax.typing.ArrayLike) -> jax.Array:
    """Return a sorted copy of complex array."""
@overload
def spacing(x: NamedArray, /) -> NamedArray:
    """Return the spacing between ``x`` and the next adjacent number."""
@overload
def spacing(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Return the spacing between ``x`` and the next adjacent number."""
def split(ary: ArrayLike, indices_or_sections: Any, axis: Axis = 0, *, out_axis: Any = None) -> list[Array]:
    """Cuts an array into parts along one axis.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of equal parts, or the indices where to cut.
      axis: a position or a name.
      out_axis: the name of the axis in the parts, or a list with a name for each; default: `axis`. Needed in a mapped function
        in which `axis` has a fixed size.

    Returns:
      A list of arrays. Along a sharded name, whose parts are sharded too, the rows of all parts move to their blocks together,
      by collective-permutes; an axis whose parts are not sharded is gathered.

    Raises:
      AxisNotFoundError: the array lacks the name.
      AxisSizeError: the parts are not equal, or a part does not have the size that its name has in the mapped function.
    """
@overload
def sqrt(x: NamedArray, /) -> NamedArray:
    """Calculates element-wise non-negative square root of the input array."""
@overload
def sqrt(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates element-wise non-negative square root of the input array."""
@overload
def square(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise square of the input array."""
@overload
def square(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise square of the input array."""
def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Removes axes of size 1.

    Args:
      a: an array, named or not.
      axis: a name, a position, or a tuple of both; `None`: all positional axes of size 1. It must be given where all axes have names.

    Returns:
      The array without these axes. Moves nothing.

    Raises:
      AxisNotFoundError: the array lacks a name.
      AxisSizeError: an axis has a different size.
    """
def stack(arrays: Sequence[Any], axis: Axis = 0, out: None = None, dtype: Any = None) -> Array:
    """Joins arrays along a new axis.

    Args:
      arrays: arrays, named or not; they broadcast, by name and by position.
      axis: the name of the new axis, or its position among the positional axes of the result.
      out: must be `None`, as in `jnp.stack`.
      dtype: element type of the result.

    Returns:
      The stacked array. Along a sharded new axis every device keeps its block; nothing is sent.

    Raises:
      AxisNameError: an array has the new axis already.
      AxisSizeError: the new axis has a different size in the mapped function.
    """
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The standard deviation over positional and named axes together. Arguments and costs as for `var`.

    See `nx.std`.
    """
@overload
def subtract(x1: NamedArray, x2: ArrayLike, /, *, out: None = None, where: None = None) -> NamedArray:
    """Subtract two arrays element-wise."""
@overload
def subtract(x1: ArrayLike, x2: NamedArray, /, *, out: None = None, where: None = None) -> NamedArray: ...
@overload
def subtract(
    x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /, *, out: None = None, where: None = None,
) -> jax.Array:
    """Subtract two arrays element-wise."""
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: builtins.bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: builtins.bool = True,
) -> Array:
    """Sum over positional and named axes.

    See `nx.sum`.
    """
@overload
def swapaxes(a: NamedArray, axis1: Axis, axis2: Axis) -> NamedArray:
    """Two positional axes in each other's place: `jnp.swapaxes`; names are batch axes, which `nx.rename` exchanges."""
@overload
def swapaxes(a: ArrayLike, axis1: Axis, axis2: Axis) -> Array:
    """Two positional axes in each other's place: `jnp.swapaxes`; names are batch axes, which `nx.rename` exchanges.

    Raises:
      AxisNameError: an axis is a name.
    """
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: Axis = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: builtins.bool = False,
    indices_are_sorted: builtins.bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Entries of `x` along one axis.

    See `nx.take`.
    """
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: Axis = -1,
    mode: str | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: builtins.bool | None = None,
) -> Array:
    """Entries of `x` along one axis, at indices that differ from place to place.

    See `nx.take_along_axis`.
    """
@overload
def tan(x: NamedArray, /) -> NamedArray:
    """Compute a trigonometric tangent of each element of input."""
@overload
def tan(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Compute a trigonometric tangent of each element of input."""
def tanh(x: ArrayLike, /) -> Array:
    """Calculate element-wise hyperbolic tangent of input."""
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Axis = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of two arrays, summed over axes: `jnp.tensordot`. Over a name, or several, it is `nx.dot`, and costs that.

    See `nx.tensordot`.
    """
def tile(A: Any, reps: Any, *, out_axis: Hashable | Mapping[Hashable, Hashable] | None = None) -> Array:
    """Repeats an array as a whole.

    Args:
      A: an array, named or not.
      reps: for the positional axes a number or a tuple, as in `jnp.tile`; for named ones a dict `{"k": 2}`.
      out_axis: new names for named axes, `{"k": "k_tiled"}`, or `"k_tiled"` where there is one axis; needed in a mapped
        function in which the name has a fixed size.

    Returns:
      The repeated array. Along a sharded name, rows move to the blocks where they belong, by collective-permutes (or the axis
      is gathered, if its new name is not sharded).

    Raises:
      AxisNotFoundError: the array lacks a name.
      AxisSizeError: in a mapped function the name has a different size than the result, or that does not divide over its mesh
        axes.
    """
def trace(
    a: ArrayLike, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1, dtype: Any = None, out: None = None,
) -> Array:
    """The sum of the diagonal over two axes: `jnp.trace`, by name or position.

    Over sharded names: an all-reduce of the result, and one of the diagonal where `axis2` is sharded too.

    Raises:
      AxisNotFoundError: `a` lacks a name.
    """
@overload
def transpose(a: NamedArray, axes: Axis = None) -> NamedArray:
    """The positional axes in another order. Names have none: where they are given too, nothing happens to them."""
@overload
def transpose(a: ArrayLike, axes: Axis = None) -> Array:
    """The positional axes in another order. Names have none: where they are given too, nothing happens to them.

    Args:
      a: an array, named or not.
      axes: the positional axes in their new order, and names, which change nothing; default: the positional ones reversed.

    Moves nothing between devices.

    Raises:
      AxisNotFoundError: `a` lacks a name.
      PositionalAxisError: `axes` is left out, and `a` has names and no positional axis.
    """
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: Axis = -1) -> Array:
    """The integral along one axis by the trapezoid rule.

    Args:
      y: values, named or not.
      x: where they are: an array with the axis, or a plain one with an entry for each of it; default: `dx` apart.
      dx: the distance between two values.
      axis: a position or a name.

    Over a sharded name: one all-reduce of the result; with `x`, also the row at the boundary of two blocks, for both `x` and
    `y`.

    Raises:
      AxisNotFoundError: `y` lacks the name.
      AxisSizeError: `x` has a different size.
    """
@overload
def tril(m: NamedArray, k: ArrayLike = 0, *, axis: Axis = None) -> NamedArray:
    """The lower triangle over two axes: entries above the `k`-th diagonal become zero."""
@overload
def tril(m: ArrayLike, k: ArrayLike = 0, *, axis: Axis = None) -> Array:
    """The lower triangle over two axes: entries above the `k`-th diagonal become zero.

    Args:
      m: an array, named or not.
      k: the diagonal; above the main one for positive numbers. With `axis` also an integer array that broadcasts by name, for another
        diagonal in every instance.
      axis: a pair of axes, the rows and the columns, such as `("query", "key")`; names or positions. Default: the last two positional
        axes.

    Returns:
      An array of the same axes. Sends nothing, whatever is sharded.

    Raises:
      AxisNotFoundError: `m` lacks a name.
      PositionalAxisError: `axis` is not a pair of two axes.
      ArgumentTypeError: `k` is not an integer.
    """
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of lower triangle of a given array."""
def trim_zeros(filt: ArrayLike, trim: str = 'fb', axis: Axis = None) -> Array:
    """Trim leading and/or trailing zeros of the input array."""
@overload
def triu(m: NamedArray, k: ArrayLike = 0, *, axis: Axis = None) -> NamedArray:
    """The upper triangle over two axes: entries below the `k`-th diagonal become zero. See `nx.tril`."""
@overload
def triu(m: ArrayLike, k: ArrayLike = 0, *, axis: Axis = None) -> Array:
    """The upper triangle over two axes: entries below the `k`-th diagonal become zero. See `nx.tril`."""
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of upper triangle of a given array."""
@overload
def true_divide(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Calculates the division of x1 by x2 element-wise"""
@overload
def true_divide(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def true_divide(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculates the division of x1 by x2 element-wise"""
@overload
def trunc(x: NamedArray) -> NamedArray:
    """Round input to the nearest integer towards zero."""
@overload
def trunc(x: jax.typing.ArrayLike) -> jax.Array:
    """Round input to the nearest integer towards zero."""
uint1: Any
@overload
def union1d(
    ar1: NamedArray, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> NamedArray:
    """Compute the set union of two 1D arrays."""
@overload
def union1d(
    ar1: ArrayLike, ar2: NamedArray, *, size: int | None = None, fill_value: ArrayLike | None = None,
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
    axis: Axis = None,
    *,
    equal_nan: builtins.bool = True,
    size: Any = None,
    fill_value: Any = None,
    sorted: builtins.bool = True,
    out_axis: Hashable | None = None,
) -> Array | tuple[Array, ...]:
    """The different values of an array, in order.

    With `out_axis`, over names: a form that works on sharded axes. Without it this is `jnp.unique` (rows along `axis` where that is given,
    a sharded name is gathered), and names are batch axes.

    Args:
      ar: an array, named or not.
      return_index: whether the indices of the first entry of each value are returned too, with `out_axis`.
      return_inverse: whether the index among the values is returned too, for every entry.
      return_counts: whether the number of entries of each value is returned too.
      axis: with `out_axis` a name, or a tuple of names, whose entries are taken together, major first. Other axes are batch axes.
      equal_nan: whether NaNs are one value.
      size: how many values are returned: the smallest ones, and after them `fill_value`. A name may leave it out.
      fill_value: what stands after the last one; default: the smallest value.
      sorted: without `out_axis`, as in `jnp.unique`; with it the values are always in order.
      out_axis: the name of the axis of the values.

    Returns:
      The values, or a tuple of these and what else was asked for. (The inverse has the one axis along which values were looked
      for, under its name; several names must be merged before: `nx.merge_axes`.) Over a sharded name it costs a sort
      (`nx.sort`), a number per device, and one all-reduce of the result; the index and the inverse a sort of indices more.

    Raises:
      AxisNotFoundError: `ar` lacks a name, or the number of values is not known.
      ArgumentError: there is no size, or an inverse over several names is asked for.
      AxisNameError: `out_axis` is a name of `ar`.
    """
def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Any:
    """Return unique values from x, along with indices, inverse indices, and counts."""
def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Any:
    """Return unique values from x, along with counts."""
def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Any:
    """Return unique values from x, along with indices, inverse indices, and counts."""
@overload
def unique_values(x: NamedArray, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> NamedArray:
    """Return unique values from x, along with indices, inverse indices, and counts."""
@overload
def unique_values(
    x: jax.typing.ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None,
) -> jax.Array:
    """Return unique values from x, along with indices, inverse indices, and counts."""
def unpackbits(a: ArrayLike, axis: Axis = None, count: int | None = None, bitorder: str = 'big') -> Array:
    """Unpack the bits in a uint8 array."""
def unravel_index(indices: ArrayLike, shape: int | Sequence[int]) -> tuple[Array, ...]:
    """Convert flat indices into multi-dimensional indices."""
def unstack(x: ArrayLike, /, *, axis: Axis = 0) -> tuple[Array, ...]:
    """Unstack an array along an axis."""
@overload
def unwrap(p: NamedArray, discont: Any = None, axis: Axis = -1, period: Any = 6.283185307179586) -> NamedArray:
    """Phases without jumps of a period: `jnp.unwrap`, by name or position."""
@overload
def unwrap(p: ArrayLike, discont: Any = None, axis: Axis = -1, period: Any = 6.283185307179586) -> Array:
    """Phases without jumps of a period: `jnp.unwrap`, by name or position.

    Args:
      p: phases, named or not.
      discont: jumps up to this size stay; default: half the period.
      axis: a position or a name.
      period: the size of a jump that means nothing.

    Along a sharded name the row at the boundary of two blocks is sent, and the blocks' totals.

    Raises:
      AxisNotFoundError: `p` lacks the name.
    """
@overload
def vander(x: NamedArray, N: int | None = None, increasing: builtins.bool = False) -> NamedArray:
    """Generate a Vandermonde matrix."""
@overload
def vander(x: jax.typing.ArrayLike, N: int | None = None, increasing: builtins.bool = False) -> jax.Array:
    """Generate a Vandermonde matrix."""
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: builtins.bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The variance over positional and named axes together.

    See `nx.var`.
    """
@overload
def vdot(a: NamedArray, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> NamedArray:
    """Perform a conjugate multiplication of two 1D vectors."""
@overload
def vdot(a: ArrayLike, b: NamedArray, *, precision: Any = None, preferred_element_type: Any = None) -> NamedArray: ...
@overload
def vdot(
    a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, *, precision: Any = None, preferred_element_type: Any = None,
) -> jax.Array:
    """Perform a conjugate multiplication of two 1D vectors."""
def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: Axis = -1, precision: Any = None, preferred_element_type: Any = None,
) -> Array:
    """The product of vectors along one axis, the first one conjugated: `jnp.vecdot`. Along a name it is `nx.dot`, and costs that.

    Raises:
      AxisNotFoundError: an array lacks the name.
    """
@overload
def vecmat(x1: NamedArray, x2: ArrayLike, /) -> NamedArray:
    """Batched conjugate vector-matrix product."""
@overload
def vecmat(x1: ArrayLike, x2: NamedArray, /) -> NamedArray: ...
@overload
def vecmat(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike, /) -> jax.Array:
    """Batched conjugate vector-matrix product."""
def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """Split an array into sub-arrays vertically."""
def vstack(tup: Any | Array | Sequence[ArrayLike], dtype: Any = None) -> Array:
    """Vertically stack arrays."""
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    axis: Axis = None,
    out_axis: Hashable | None = None,
) -> Array | tuple[Array, ...]:
    """Elements of `x` where `condition` holds, else of `y`, broadcast by name.

    Args:
      condition: a boolean array, named or not.
      x: an array or a number.
      y: an array or a number. Without both: the indices at which `condition` holds, in the positional axes, as in `jnp.where`; names are
        batch axes.
      size: how many indices the form with one argument returns; needed if the array has names.
      fill_value: what stands behind the last index found.
      axis: names along which the form with one argument looks, as in `nx.nonzero`; default: the positional axes.
      out_axis: the name of the axis of the indices then.

    Raises:
      NamedAxesLeftError: the condition has names, and neither `x` and `y` nor a size is given; the result's shape depends on data.
      ArgumentError: `size` or `fill_value` with `x` and `y`.
    """
@overload
def zeros(
    shape: Any = (),
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray:
    """Zeros, with named axes in addition to the positional ones."""
@overload
def zeros(shape: Any = (), dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> jax.Array:
    """Zeros, with named axes in addition to the positional ones.

    See `nx.zeros`.
    """
@overload
def zeros_like(
    a: NamedArray, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None,
) -> NamedArray:
    """Create an array full of zeros with the same shape and dtype as an array."""
@overload
def zeros_like(
    a: jax.typing.ArrayLike, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None,
) -> jax.Array:
    """Create an array full of zeros with the same shape and dtype as an array."""
