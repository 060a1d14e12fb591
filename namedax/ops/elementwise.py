"""Elementwise functions of JAX, over operands that align by name.

Every function of `FUNCTIONS` takes the same arguments as the function of `jnp` (or `jax.nn`); array
arguments may be named.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import get_opaque_trace_state

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray
from namedax.core.closure_capture import type_of_programs
from namedax.core.element_types import reject_overflow
from namedax.core.jax_docstrings import documented
from namedax.core.region import Region
from namedax.errors import ArgumentTypeError, UnsupportedArgumentError
from namedax.messages.call_errors import check_flags, checks_signature, flags_of, reject_miscall
from namedax.messages.jax_errors import explain_type_errors
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.operands import kernels
from namedax.ops.operands.broadcasting import align_ranks, make_result
from namedax.ops.operands.operation import Explicit, elementwise_operation, operation

__all__ = [
    "FUNCTIONS",
    "apply_elementwise",
    "at_once",
    "elementwise",
    "elementwise_call",
    "frompyfunc",
]

UNARY = (
    "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh"
    " atan atanh bitwise_count bitwise_invert bitwise_not cbrt ceil conj conjugate cos cosh deg2rad"
    " degrees exp exp2 expm1 fabs floor imag invert iscomplex isfinite isinf isnan isneginf"
    " isposinf isreal log log10 log1p log2 logical_not nan_to_num negative positive rad2deg radians"
    " real reciprocal rint round sign signbit sin sinc sinh spacing sqrt square tan tanh trunc i0"
).split()
# The functions that take exactly one array, by position.
_OF_ONE = frozenset(UNARY) - frozenset(
    "angle around i0 iscomplex isneginf isposinf isreal nan_to_num negative round trunc".split()
)
BINARY = (
    "add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"
    " copysign divide equal float_power floor_divide fmax fmin fmod gcd greater greater_equal"
    " heaviside hypot isclose lcm ldexp left_shift less less_equal logaddexp logaddexp2 logical_and"
    " logical_or logical_xor maximum minimum mod multiply nextafter not_equal pow power remainder"
    " right_shift subtract true_divide"
).split()


def apply_elementwise(op: str, function: Callable[..., Any], *operands: ArrayLike) -> AnyArray:
    """Apply an elementwise function to operands that align by name.

    It broadcasts like functions of `jnp`.
    """
    datas, dims, shape = align_ranks(op, *operands)
    with explain_type_errors:
        result = function(*datas)
    return make_result(
        result if result.shape == shape else jnp.broadcast_to(result, shape), dims, operands
    )


def elementwise_call(function: Callable[..., Any], module: str = __name__) -> Callable[..., Any]:
    """Build the form of `apply_elementwise` for one function, once, for kernels to call."""
    compute = at_once(function)

    def call(op: str, *operands: ArrayLike) -> AnyArray:
        return apply_elementwise(op, compute, *operands)

    call.__module__ = module
    if function in _OF_FLOATS:
        vars(call)[kernels.OF_BLOCKS] = functools.partial(
            _of_blocks, _OF_FLOATS[function], function in _CHECKED
        )
    return call


# For each function, the `jax.lax` function that `jnp` calls if all operands are floats of one
# dtype. A function of `jnp` is compiled on its own and traced anew for each type of array. This
# takes most of the time to trace a small body.
_OF_FLOATS: dict[Any, Callable[..., Any]] = {
    jnp.add: lax.add,
    jnp.subtract: lax.sub,
    jnp.multiply: lax.mul,
    jnp.true_divide: lax.div,
    jnp.divide: lax.div,
    jnp.maximum: lax.max,
    jnp.minimum: lax.min,
    jnp.negative: lax.neg,
    jnp.abs: lax.abs,
    jnp.square: lax.square,
    jnp.exp: lax.exp,
    jnp.log: lax.log,
    jnp.sqrt: lax.sqrt,
    jnp.sin: lax.sin,
    jnp.cos: lax.cos,
    jnp.tanh: lax.tanh,
    jnp.less: lax.lt,
    jnp.less_equal: lax.le,
    jnp.greater: lax.gt,
    jnp.greater_equal: lax.ge,
    jnp.equal: lax.eq,
    jnp.not_equal: lax.ne,
}
# The functions after which `jnp` checks for NaN or division by zero, if the user has enabled these
# checks.
_CHECKED = frozenset(
    {jnp.add, jnp.subtract, jnp.true_divide, jnp.divide, jnp.log, jnp.sqrt, jnp.sin, jnp.cos}
)
_CHECKS = ("jax_error_checking_behavior_nan", "jax_error_checking_behavior_divide")
_FLOATS = frozenset(map(jnp.dtype, ("float16", "bfloat16", "float32", "float64")))


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function` to call its `jax.lax` counterpart, if any, on traced floats of one dtype."""
    own, is_checked = _OF_FLOATS.get(function), function in _CHECKED
    if own is None:
        return function

    def compute(*datas: jax.Array) -> jax.Array:
        floats = _floats_of_one_type(datas)
        if floats is None or (is_checked and _are_checked()):
            return function(*datas)
        return own(*floats)

    return compute


def _are_checked() -> bool:
    nan, divide = _CHECKS
    return (
        getattr(jax.config, nan, "ignore") != "ignore"
        or getattr(jax.config, divide, "ignore") != "ignore"
    )


def _of_blocks(
    own: Callable[..., Any],
    is_checked: bool,
    region: Region,
    key: tuple[Any, ...],
    operands: tuple[Any, ...],
) -> jax.Array | None:
    """Apply `own` to numbers and blocks of equal dims, shape and dtype, or return `None`.

    This applies only in a trace without gradients, which only builds a jaxpr.

    In a trace that also differentiates, a kernel is cheaper, because JAX caches its derivative.
    """
    first = key[0] or key[-1]
    if first is None or first[3] not in _FLOATS or first[0].count(None) == len(first[0]):
        return None
    datas: list[Any] = [operand._data for operand in operands if type(operand) is NamedArray]
    if (
        key.count(first) != len(datas)
        or {*map(type, datas)} != {type_of_programs()}
        or (is_checked and _are_checked())
    ):
        return None
    if len(datas) < len(operands):
        if first[3] != jnp.float32 or first[4]:
            return None
        for i, number in enumerate(operands):
            if key[i] is None:
                if type(number) is not float and not (
                    type(number) is int and abs(number) <= _EXACT
                ):
                    return None
                datas.insert(i, _number(number, first[2], region))
    return own(*datas)


# Up to here each integer is exact as a 32-bit float.
_EXACT = 1 << 24


def _number(number: float, variance: frozenset[str], region: Region) -> np.float32 | jax.Array:
    """Convert a number to a float, rounded as in `jnp`.

    It is cast to varying over mesh axes once per trace.
    """
    as_float = np.float32(number)
    if not variance:
        return as_float
    trace = get_opaque_trace_state()
    if region.state.numbers is None or region.state.numbers[0] != trace:
        region.state.numbers = (trace, {})
    known = region.state.numbers[1]
    key = (as_float.tobytes(), variance)
    if key not in known:
        known[key] = lax.pcast(as_float, tuple(sorted(variance)), to="varying")
    return known[key]


def _floats_of_one_type(datas: Sequence[Any]) -> list[Any] | None:
    """Return traced floats of one dtype, with Python floats converted to it.

    The result for other operands is `None`.
    """
    types = [jax.typeof(data) for data in datas if isinstance(data, jax.core.Tracer)]
    dtype = types[0].dtype if types else None
    if dtype not in _FLOATS:
        return None
    for aval in types:
        if aval.dtype != dtype:
            return None
    if len(types) == len(datas):
        return list(datas)
    # A number is rounded as in `jnp`, and never determines the dtype of the result.
    if (
        dtype != jnp.float32
        or types[0].weak_type
        or {type(data) for data in datas if not isinstance(data, jax.core.Tracer)} != {float}
    ):
        return None
    return [data if isinstance(data, jax.core.Tracer) else np.float32(data) for data in datas]


# Parameters that select the computation and must be static; each list begins with the position of
# the first one.
_STATIC: dict[str, tuple[Any, ...]] = {
    "angle": (1, "deg"),
    "around": (1, "decimals"),
    "isclose": (4, "equal_nan"),
    "nan_to_num": (1, "copy"),
    "round": (1, "decimals"),
}


def elementwise(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap an elementwise function of JAX for named arrays.

    Arguments other than arrays and numbers pass through.
    """
    call = elementwise_call(function)

    def operate(x: ArrayLike) -> AnyArray:
        return kernels.run_elementwise(name, call, (), x)

    operate.__name__ = name  # for messages
    of_one = elementwise_operation(operate)
    face = of_one if name in _OF_ONE else _of_several(function, name, call, of_one)
    functools.update_wrapper(
        face, function, updated=()
    )  # a jnp.ufunc's attributes do not fit a function
    face.__name__ = face.__qualname__ = name
    face.__module__ = "namedax.numpy"  # where pickle finds it by its name
    face.__doc__ = _doc(function, name)
    return face


def _of_several(
    function: Callable[..., Any], name: str, call: Callable[..., Any], of_one: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Build the form that takes several operands, and operands and options by keyword."""

    def operate(*operands: ArrayLike) -> AnyArray:
        return kernels.run_elementwise(name, call, (), *operands)

    operate.__name__ = name
    of_operands = elementwise_operation(operate)

    def with_options(*args: ArrayLike, **kwargs: Any) -> AnyArray:
        return _by_keyword(function, name, args, kwargs)

    of_options = operation(
        _no_axes, name=name, explicit=Explicit.AS_JAX, cached=True, elementwise=True
    )(with_options)
    first_static = _STATIC.get(name, (sys.maxsize,))[0]

    def lifted(*args: ArrayLike, **kwargs: Any) -> AnyArray:
        try:
            try:
                if kwargs or len(args) > first_static:
                    return of_options(*args, **kwargs)
                if len(args) == 1:
                    return of_one(args[0])
                if (
                    name in ("pow", "power")
                    and len(args) == 2
                    and type(args[1]) is int
                    and isinstance(args[0], NamedArray)
                ):
                    return operator.pow(*args)  # a Python integer is static, as in jnp
                return of_operands(*args)
            except Exception as error:
                if isinstance(error, (TypeError, OverflowError)):
                    reject_overflow(name, (args, kwargs))
                if isinstance(error, TypeError):
                    _reject_other_than_two(name, len(args) + len(kwargs))
                reject_miscall(name, function, args, kwargs, error)
                raise
        except Exception as error:
            shorten_eager(error)
            raise

    return lifted


def _no_axes(*args: object, **kwargs: object) -> tuple[()]:
    return ()


def _reject_other_than_two(name: str, given: int) -> None:
    """Raise if a function of two arrays got fewer or more.

    Some signatures of JAX do not show their number.
    """
    if name in BINARY and name not in _STATIC and given != 2:
        along = {
            "minimum": "nx.min(x, axis)",
            "maximum": "nx.max(x, axis)",
            "add": "nx.sum(x, axis)",
            "multiply": "nx.prod(x, axis)",
        }.get(name)
        entries = f" To reduce along an axis, write {along}." if along else ""
        raise ArgumentTypeError(
            f"{name}: the function takes two arrays, got {given}. Write nx.{name}(x, y).{entries}"
        ) from None


_signature_of = functools.cache(inspect.signature)


def _by_keyword(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AnyArray:
    first_static, *static = _STATIC.get(name, (sys.maxsize,))
    signature = _signature_of(function)
    signature.bind(*args, **kwargs)  # raises for arguments that are repeated or unknown
    check_flags(name, flags_of(function), args, kwargs)
    by_place = itertools.islice(signature.parameters, first_static, None)
    kwargs = dict(zip(by_place, args[first_static:], strict=False)) | kwargs
    args = args[:first_static]
    fixed = tuple((key, value) for key, value in kwargs.items() if key in static or value is None)
    names = tuple(key for key, value in kwargs.items() if not (key in static or value is None))
    operands = (*args, *(kwargs[key] for key in names))
    return kernels.run_elementwise(
        name, _call_by_keyword, (function, len(args), names, fixed), *operands
    )


def _call_by_keyword(
    op: str,
    function: Callable[..., Any],
    count: int,
    names: tuple[str, ...],
    fixed: tuple[tuple[str, Any], ...],
    *operands: ArrayLike,
) -> AnyArray:
    def of_data(*datas: jax.Array) -> jax.Array:
        return function(
            *datas[:count], **dict(zip(names, datas[count:], strict=True)), **dict(fixed)
        )

    return apply_elementwise(op, of_data, *operands)


def _doc(function: Callable[..., Any], name: str) -> str:
    return documented(
        function,
        f"The named version of `jnp.{name}`, with the same arguments. Positional axes broadcast\n"
        "by position, and named axes by name.",
        names="It has the names of all operands.",
    )


_where = elementwise_call(jnp.where)


@functools.partial(elementwise_operation, explicit=Explicit.ALIGNED)
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> AnyArray:
    """Select elements by name; `ops.sorting.selection` has the public form, which finds indices."""
    return kernels.run_elementwise("where", _where, (), condition, x, y)


def _absent(name: str) -> Callable[..., Any]:
    """Build a substitute for a function that JAX has removed; it raises only when it is called."""

    def absent(*args: object, **kwargs: object) -> NoReturn:
        raise UnsupportedArgumentError(
            f"{name}: JAX {jax.__version__} has no jnp.{name}. namedax only wraps functions that"
            " JAX has."
        )

    absent.__name__ = absent.__qualname__ = name
    absent.__module__ = "namedax.numpy"
    return absent


class _Functions(Mapping[str, Callable[..., Any]]):
    """The functions by name, each made on first access."""

    def __init__(self) -> None:
        self._names = [*UNARY, *BINARY, "clip", "where"]
        self._made: dict[str, Callable[..., Any]] = {"where": where}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            made = elementwise(getattr(jnp, name), name) if hasattr(jnp, name) else _absent(name)
            self._made.setdefault(name, made)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FUNCTIONS = _Functions()


@checks_signature
def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None
) -> jnp.ufunc:
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

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.numpy.frompyfunc(lambda x, y: x + y, 2, 1)(jnp.arange(3), 1)
    Array([1, 2, 3], dtype=int32)
    """
    return jnp.frompyfunc(func, nin, nout, identity=identity)
