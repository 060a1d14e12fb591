"""Conversion to JAX arrays: dtypes, values that fit, and arrays of other libraries.

The dtypes that this package chooses are independent of `jax_numpy_dtype_promotion`. That option
governs only the dtypes that a user mixes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core.primitives import convert_element_type_p

from namedax.core.display import Shown
from namedax.core.names import DType, PyTree
from namedax.errors import ArgumentError, ArgumentTypeError, format_value, show_names

__all__ = [
    "NUMPY",
    "accumulate",
    "accumulates",
    "accumulation_type",
    "additive_identity",
    "as_inexact",
    "as_jax",
    "beyond",
    "check_fits",
    "check_numbers",
    "common_type",
    "extreme",
    "fits",
    "foreign_dims",
    "has_infinity",
    "in_native_order",
    "inexact_type",
    "is_foreign_type",
    "native_dtype",
    "native_order",
    "reject_foreign",
    "reject_foreign_among",
    "reject_overflow",
    "rounded",
    "sum_result_type",
    "to_type",
    "weak_as",
    "widened_type",
]


class _Castable(Protocol):
    @property
    def dtype(self) -> np.dtype: ...
    def astype(self, dtype: DType) -> Self: ...


T = TypeVar("T", bound=_Castable)
V = TypeVar("V")
D = TypeVar("D")
P = ParamSpec("P")
R = TypeVar("R")
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]

# NumPy's scalars and arrays. For everything else the dtypes and values come from JAX.
NUMPY = (np.ndarray, np.generic)
#: Python's numbers, which are operands without axes.
SCALARS = frozenset({bool, int, float, complex})


def native_dtype(dtype: D) -> D:
    """Return a dtype of NumPy's numbers in the byte order of the machine, and others unchanged."""
    if isinstance(dtype, np.dtype) and not dtype.isnative and dtype.kind in "iufc":
        return dtype.newbyteorder("=")  # type: ignore[return-value]
    return dtype


def native_order(value: V) -> V:
    """Return NumPy's numbers in the byte order of the machine, and other values unchanged.

    JAX supports this byte order only. Files of other machines often have the other one.

    >>> import numpy as np
    >>> from namedax.core.element_types import native_order
    >>> native_order(np.ones(2, ">f4")).dtype == np.float32
    True
    """
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return value.astype(native_dtype(value.dtype))  # type: ignore[return-value]
    return value


def in_native_order(args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """Return the arguments of a call with NumPy's numbers in the byte order of the machine.

    A compiled program of JAX can accept an array of the other order, and read its bytes as numbers
    of its own order.
    """
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, (np.ndarray, list, tuple, dict)) and _has_foreign_order((value,)):
            converted: tuple[Args, Kwargs] = jax.tree.map(native_order, (args, kwargs))
            return converted
    return args, kwargs


def _has_foreign_order(values: Iterable[Any]) -> bool:
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            if _has_foreign_order(value):
                return True
        elif kind is dict:
            if _has_foreign_order(value.values()):
                return True
        elif isinstance(value, np.ndarray) and not value.dtype.isnative:
            return True
    return False


def fits(value: object) -> bool:
    """Return True if NumPy's 64-bit numbers fit into JAX's dtypes."""
    try:
        check_numbers("", value)
    except ArgumentError:
        return False
    return True


def check_numbers(op: str, value: object) -> None:
    """Raise if NumPy's 64-bit numbers do not fit into JAX's dtypes and would change.

    Without 64-bit types JAX holds them in 32 bits.

    Raises:
      ArgumentError: `value` is an array or number of NumPy with integers that do not fit, or with
        finite numbers that would become infinite.
    """
    if (
        not isinstance(value, NUMPY)
        or value.dtype.itemsize < 8
        or value.dtype.kind not in "iufc"
        or not value.size
    ):
        return
    kind, bits = value.dtype.kind, value.dtype.itemsize
    if (bits > 8 and kind != "c") or jax.dtypes.canonicalize_dtype(value.dtype).itemsize == bits:
        return
    if kind not in "iu":
        _check_finite(op, value)
        return
    kept = np.iinfo(np.int32 if kind == "i" else np.uint32)
    low, high = int(value.min()), int(value.max())
    if low < kept.min or high > kept.max:
        they = (
            f"the integer {low} does not fit"
            if value.ndim == 0
            else f"the integers of {format_value(np.asarray(value))} are from {low} to {high}"
        )
        raise ArgumentError(
            f"{op}: {they}; JAX holds integers from {kept.min} to {kept.max} while 64-bit types are"
            f" off. {_WIDER}"
        )


def _check_finite(op: str, value: np.ndarray | np.generic) -> None:
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    limit = float(np.finfo(np.float32).max)
    for part in parts:
        # fmax and fmin skip NaN. Elements are inspected one by one only if one is large, since it
        # may be infinite.
        if np.fmax.reduce(part, axis=None) <= limit and np.fmin.reduce(part, axis=None) >= -limit:
            continue
        with np.errstate(over="ignore"):
            lost = np.isfinite(part) & np.isinf(part.astype(np.float32))
        if lost.any():
            they = (
                f"{value.item()!r} is a number"
                if value.ndim == 0
                else f"{format_value(np.asarray(value))} has numbers"
            )
            raise ArgumentError(
                f"{op}: {they} beyond {limit:.3g}, the largest that JAX holds while 64-bit types"
                f" are off; it would become infinite. {_WIDER}"
            )


def reject_overflow(op: str, arguments: PyTree) -> None:
    """Raise if a Python integer in the arguments, a pytree, overflows its dtype.

    Raises:
      ArgumentError: there is one.
    """
    info = jnp.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
    for value in jax.tree.leaves(arguments):
        if type(value) is int and not info.min <= value <= info.max:
            raise ArgumentError(f"{op}: {_beyond(value, info)}")


def check_fits(op: str, what: str, value: object, dtype: DType | None = None) -> None:
    """Raise if casting an integer to the dtype of the array that it fills would change it.

    Args:
      op: the operation.
      what: the argument.
      value: the value; only integers of Python or NumPy are checked.
      dtype: the dtype; default: the one that JAX gives the number.

    Raises:
      ArgumentError: the cast would change it.
    """
    check_numbers(op, value)
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return
    dtype = np.int64 if dtype is None else dtype
    if not jnp.issubdtype(dtype, jnp.integer):
        return
    info = jnp.iinfo(jax.dtypes.canonicalize_dtype(dtype))
    if not info.min <= int(value) <= info.max:
        raise ArgumentError(f"{op}: {what}: {_beyond(int(value), info)}")


def _beyond(value: int, info: jnp.iinfo) -> str:
    is_default = info.dtype == jnp.int32 and jax.dtypes.canonicalize_dtype(np.int64) == jnp.int32
    wider = (
        f" while 64-bit types are off. {_WIDER}"
        if is_default
        else ". Give the array a dtype that holds it."
    )
    return f"{value} is out of range for {info.dtype}, from {info.min} to {info.max}{wider}"


_WIDER = (
    "Enable 64-bit types with jax.config.update('jax_enable_x64', True), or change the dtype or"
    " the unit, for example with array.astype('float32')."
)


_NUMBERS = {
    "M": "Convert dates to numbers, for example (x - x[0]) / np.timedelta64(1, 'D').",
    "m": "Convert durations to numbers, for example x / np.timedelta64(1, 'D').",
    **dict.fromkeys(
        "SU", "Convert strings to indices: words, x = np.unique(x, return_inverse=True)."
    ),
}


def as_jax(op: str, value: object, dtype: DType | None = None, **options: Any) -> jax.Array:
    """Return `jnp.asarray(value, dtype)`, or `jnp.array` with options, after checks.

    Raises:
      ArgumentError: numbers do not fit into JAX's dtypes (`check_numbers`), in a list too.
      ArgumentTypeError: dates, text, objects and records of NumPy, which JAX does not support; an
        array with dims of another library.
    """
    if isinstance(value, NUMPY) and (value.dtype.kind in "MmOSU" or value.dtype.names is not None):
        remedy = _NUMBERS.get(
            value.dtype.kind, "Convert it to numbers first, for example with x.astype(float)."
        )
        raise ArgumentTypeError(
            f"{op}: the dtype {value.dtype} of {format_value(np.asarray(value))} is not supported"
            f" by JAX. {remedy}"
        )
    reject_foreign(op, value)
    value = native_order(value)
    if dtype is None:
        check_numbers(op, value)
    try:
        return jnp.array(value, dtype, **options) if options else jnp.asarray(value, dtype)
    except OverflowError as error:
        raise ArgumentError(f"{op}: {error}. {_WIDER}") from None


def common_type(*values: jax.typing.ArrayLike | DType) -> np.dtype:
    """Return the dtype of JAX's standard promotion, under strict promotion too.

    >>> import jax, jax.numpy as jnp
    >>> from namedax.core.element_types import common_type
    >>> with jax.numpy_dtype_promotion("strict"):
    ...     common_type(jnp.bfloat16, jnp.float32)
    dtype('float32')
    """
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*values)


# A mean keeps these dtypes. For others the result depends on JAX's configuration.
_OWN = frozenset(map(jnp.dtype, ("bfloat16", "float16", "float32", "complex64")))


def inexact_type(dtype: np.dtype) -> np.dtype:
    """Return the floating-point dtype in which JAX computes a mean of values of type `dtype`."""
    if dtype in _OWN:
        return dtype
    if jnp.issubdtype(dtype, jnp.integer):
        dtype = accumulation_type(dtype)
    return jax.eval_shape(jnp.mean, jax.ShapeDtypeStruct((1,), dtype)).dtype


def as_inexact(data: T) -> T:
    """Return an array, named or not, with integers and booleans converted to floats."""
    return data.astype(inexact_type(data.dtype))


def beyond(dtype: DType) -> jax.Array:
    """Return the value that `jnp` gives for an index out of range, in an array of type `dtype`."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.nan, dtype)
    if dtype == jnp.bool_:
        return jnp.asarray(True)
    info = jnp.iinfo(dtype)
    return jnp.asarray(info.min if jnp.issubdtype(dtype, jnp.signedinteger) else info.max, dtype)


def extreme(dtype: DType, largest: bool) -> np.ndarray:
    """Return the initial value of a maximum (if `largest`) or a minimum.

    No other value is below it in a maximum, or above it in a minimum, so it is the reduction of no
    elements.
    """
    sign = -1 if largest else 1
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.asarray(complex(sign * np.inf, sign * np.inf), dtype)
    if dtype == jnp.bool_:
        return np.asarray(not largest)
    if jnp.issubdtype(dtype, jnp.inexact):
        if has_infinity(dtype):
            return np.asarray(sign * np.inf, dtype)
        limits: Any = jnp.finfo(dtype)
    else:
        limits = jnp.iinfo(dtype)
    return np.asarray(limits.min if largest else limits.max, dtype)


def has_infinity(dtype: DType) -> bool:
    """Return True if the floating-point type `dtype` represents infinity.

    Several types of 8 bits and fewer do not.

    >>> import jax.numpy as jnp
    >>> from namedax.core.element_types import has_infinity
    >>> has_infinity(jnp.float8_e5m2), has_infinity(jnp.float8_e4m3fn)
    (True, False)
    """
    return dtype in _OWN or bool(np.isinf(np.asarray(np.inf, dtype)))


def additive_identity(dtype: DType) -> jax.Array:
    """Return the scalar that changes no number to which it is added.

    For floats it is -0.0, since -0.0 + 0.0 is 0.0.

    >>> import jax.numpy as jnp
    >>> from namedax.core.element_types import additive_identity
    >>> float(additive_identity(jnp.float32)), int(additive_identity(jnp.int32))
    (-0.0, 0)
    """
    zero: Any = 0
    if jnp.issubdtype(dtype, jnp.inexact):
        zero = complex(-0.0, -0.0) if jnp.issubdtype(dtype, jnp.complexfloating) else -0.0
    return lax.full((), zero, dtype)


# --- accumulation in a wider type ----------------------------------------------------------------
# A float of at most 8 bits rounds each partial sum, so that a sum would depend on the blocks.
# Several of these types have no zero, no sign or no infinity, the identities of reductions.
# Integers below 8 bits have no sums in JAX. So operations that combine elements of these types
# compute in a wider type, and round once.


# Types that XLA cannot convert on CPUs: the compilation fails, or ends the process.
_WITHOUT_ARITHMETIC = frozenset({"float6_e2m3fn", "float6_e3m2fn"})


def accumulation_type(dtype: DType) -> np.dtype:
    """Return the dtype in which operations combine elements of type `dtype`.

    It is float32 for floats of at most 8 bits, int8 or uint8 for integers of fewer bits, and
    otherwise `dtype`.

    >>> import jax.numpy as jnp
    >>> from namedax.core.element_types import accumulation_type
    >>> [str(accumulation_type(t)) for t in (jnp.float8_e5m2, jnp.uint4, jnp.bfloat16, jnp.int8)]
    ['float32', 'uint8', 'bfloat16', 'int8']
    """
    if not isinstance(dtype, np.dtype) and jnp.issubdtype(dtype, jax.dtypes.extended):
        return cast("np.dtype", dtype)  # random keys
    return _accumulation_type(jnp.dtype(dtype))


def sum_result_type(dtype: DType) -> np.dtype:
    """Return the dtype of a sum in `jnp`, which is wider for booleans and short integers.

    >>> import jax.numpy as jnp
    >>> from namedax.core.element_types import sum_result_type
    >>> [str(sum_result_type(t)) for t in (jnp.bool_, jnp.int8, jnp.bfloat16)]
    ['int32', 'int32', 'bfloat16']
    """
    return jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((1,), dtype)).dtype


@functools.lru_cache(maxsize=256)
def _accumulation_type(dtype: np.dtype) -> np.dtype:
    if jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits <= 8:
        return np.dtype(np.float32)
    if jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits < 8:
        return np.dtype(np.int8 if jnp.issubdtype(dtype, jnp.signedinteger) else np.uint8)
    return dtype


def widened_type(op: str, dtype: DType) -> np.dtype:
    """Return `accumulation_type(dtype)`.

    Raises:
      ArgumentTypeError: XLA does not compute with `dtype`.
    """
    wide = accumulation_type(dtype)
    name = wide.name if wide == dtype else jnp.dtype(dtype).name
    if name in _WITHOUT_ARITHMETIC:
        raise ArgumentTypeError(
            f"{op}: XLA does not compute with the dtype {name}. Convert the array with NumPy:"
            " jnp.asarray(np.asarray(x).astype('float32'))."
        )
    return wide


def rounded(result: R, dtype: DType) -> R:
    """Cast the arrays of a result that have the accumulation type of `dtype` to `dtype`."""
    wide = accumulation_type(dtype)
    if wide == dtype:
        return result

    def one(array: Any) -> Any:
        return array.astype(dtype) if getattr(array, "dtype", None) == wide else array

    return cast("R", jax.tree.map(one, result, is_leaf=lambda leaf: hasattr(leaf, "astype")))


def accumulate(op: str, function: Callable[[Any, Any], R], x: Any, dtype: DType | None = None) -> R:
    """Return `function(x, dtype)`, computed in the accumulation type and rounded once.

    Args:
      op: the operation, for messages.
      function: combines the elements of an array.
      x: the array, named or not.
      dtype: the dtype of the result, as in `jnp.sum`; by default `None`.

    Raises:
      ArgumentTypeError: XLA does not compute with the dtype.
    """
    wide = widened_type(op, x.dtype)
    if dtype is None:
        return rounded(function(to_type(x, wide), None), x.dtype)
    result = widened_type(op, dtype)
    if result == jnp.dtype(dtype):
        return function(to_type(x, wide), dtype)
    # As in jnp, the elements are converted first. A mean divides by a number that may exceed int8.
    total: Any = function(x.astype(dtype).astype(result), common_type(result, np.int32))
    return cast("R", total.astype(dtype))


def accumulates(parameter: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make an operation compute in the accumulation type of one of its arguments, an array.

    The result is rounded once. A parameter `dtype` is the dtype of the result, and a parameter `op`
    the name of the operation.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        place = inspect.unwrap(function).__code__.co_varnames.index(parameter)

        @functools.wraps(function)
        def wide(*args: P.args, **kwargs: P.kwargs) -> R:
            x: Any = args[place] if len(args) > place else kwargs.get(parameter)
            dtype = getattr(x, "dtype", None)
            if dtype is None or accumulation_type(dtype) == dtype:
                return function(*args, **kwargs)
            bound = inspect.signature(function).bind(*args, **kwargs)

            def run(x: Any, dtype: DType | None) -> R:
                bound.arguments[parameter] = x
                if dtype is not None:
                    bound.arguments["dtype"] = dtype
                return function(*bound.args, **bound.kwargs)

            op = bound.arguments.get("op", function.__name__.lstrip("_"))
            return accumulate(op, run, x, bound.arguments.get("dtype"))

        return wide

    return decorate


def weak_as(data: jax.Array, like: jax.Array | jax.core.ShapedArray) -> jax.Array:
    """Return `data`, weakly typed if `like`, an array or the type of one, is.

    A weak type gives way to the dtype of the other operand, so it affects the dtypes of later
    results. Whether an array of Python numbers keeps it must not depend on how an operation runs on
    a sharded axis.
    """
    if not getattr(like, "weak_type", False) or data.weak_type or data.dtype != like.dtype:
        return data
    # JAX's own functions create weak types from Python numbers only.
    return convert_element_type_p.bind(data, new_dtype=data.dtype, weak_type=True, sharding=None)


def to_type(x: T, dtype: DType) -> T:
    """Cast an array, named or not, to `dtype`.

    An array that already has this dtype stays weakly typed, unlike with `astype`.
    """
    return x if x.dtype == dtype else x.astype(dtype)


# --- arrays of other libraries whose axes have names, such as `xarray.DataArray` -----------------
# NumPy and JAX convert such an array by position and drop its dims. Operands of namedax align by
# name. A conversion without names could give other numbers, or an outer product.


_known: dict[type, bool] = {}
_MOST = 1024


def is_foreign_type(kind: type) -> bool:
    """Return True if `kind` is a type of arrays with dims of another library.

    >>> import numpy as np, xarray
    >>> from namedax.core.element_types import is_foreign_type
    >>> is_foreign_type(xarray.DataArray), is_foreign_type(np.ndarray)
    (True, False)
    """
    known = _known.get(kind)
    if known is not None:
        return known
    if len(_known) >= _MOST:
        _known.clear()
    found = _known[kind] = (
        hasattr(kind, "dims") and hasattr(kind, "__array__") and not issubclass(kind, Shown)
    )
    return found


def foreign_dims(value: Any) -> tuple[Hashable, ...]:
    """Return the dims of an array of another library."""
    return tuple(value.dims)


def reject_foreign(op: str, value: object) -> None:
    """Raise if `value` is an array with dims of another library.

    Raises:
      ArgumentTypeError: it is one.
    """
    if is_foreign_type(type(value)):
        raise ArgumentTypeError(_text(op, value))


def reject_foreign_among(op: str, arguments: PyTree) -> None:
    """Raise if an argument, or an element of a container, is an array with dims of another library.

    Raises:
      ArgumentTypeError: one is.
    """
    # JAX's tree functions sort the keys of dicts, and keys of several types have no order.
    waiting = [arguments]
    while waiting:
        here = waiting.pop()
        if type(here) in (tuple, list):
            waiting += here
        elif type(here) is dict:
            waiting += here.values()
        elif is_foreign_type(type(here)):
            raise ArgumentTypeError(_text(op, here)) from None


def _text(op: str, value: object) -> str:
    kind, dims = type(value), foreign_dims(value)
    named = f"the dims {show_names(dims)}" if dims else "no dims"
    if kind.__module__.partition(".")[0] == "xarray":
        remedy = "Convert it first: nx.from_xarray(x)."
    else:
        remedy = f"Convert it first: nx.named(np.asarray(x), {list(dims)!r})."
    return (
        f"{op}: a {kind.__name__} with {named} is not converted implicitly, because its dims would"
        f" be dropped. {remedy}"
    )
