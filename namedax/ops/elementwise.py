"""Elementwise functions: JAX's own, over operands that are aligned by name.

Every function of `FUNCTIONS` is `jnp`'s (or `jax.nn`'s) with the same arguments; array arguments may be named.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import get_opaque_trace_state

from namedax.core.array import NamedArray
from namedax.core.bool_arguments import check_flags, flags_of
from namedax.core.call_errors import refuse_miscall
from namedax.core.closure_capture import type_of_programs
from namedax.core.element_types import refuse_overflow
from namedax.core.functions import summary_of
from namedax.core.region import Region
from namedax.errors import ArgumentTypeError, NamedAxesLeftError, UnsupportedArgumentError, refuse_names
from namedax.operands import kernels
from namedax.operands.broadcasting import align_ranks, make_result
from namedax.operands.nmap import explain_type_errors
from namedax.operands.operation import Explicit, elementwise_operation

__all__ = ["FUNCTIONS", "apply_elementwise", "at_once", "elementwise", "elementwise_call"]

UNARY = (
    "abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh atan atanh bitwise_count "
    "bitwise_invert bitwise_not cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor imag invert "
    "iscomplex isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2 logical_not nan_to_num negative positive rad2deg radians "
    "real reciprocal rint round sign signbit sin sinc sinh spacing sqrt square tan tanh trunc i0"
).split()
# Those that take one array, by position, and nothing else.
_OF_ONE = frozenset(UNARY) - frozenset(
    "angle around i0 iscomplex isneginf isposinf isreal nan_to_num negative round trunc".split()
)
BINARY = (
    "add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "float_power floor_divide fmax fmin fmod gcd greater greater_equal heaviside hypot isclose lcm ldexp left_shift less "
    "less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal pow "
    "power remainder right_shift subtract true_divide"
).split()


def apply_elementwise(op: str, function: Callable[..., Any], *operands: Any) -> Any:
    """`function` of the operands, aligned by name. `function` is elementwise, and broadcasts as `jnp` does."""
    datas, dims, shape = align_ranks(op, *operands)
    with explain_type_errors:
        result = function(*datas)
    return make_result(result if result.shape == shape else jnp.broadcast_to(result, shape), dims, operands)


def elementwise_call(function: Callable[..., Any], module: str = __name__) -> Callable[..., Any]:
    """`apply_elementwise` of one function of this module, or another, as kernels call it; made once for each function."""
    compute = at_once(function)

    def call(op: str, *operands: Any) -> Any:
        return apply_elementwise(op, compute, *operands)

    call.__module__ = module
    if function in _OF_FLOATS:
        vars(call)[kernels.OF_BLOCKS] = functools.partial(_of_blocks, _OF_FLOATS[function], function in _CHECKED)
    return call


# --- what is done to floats of one type ------------------------------------------------------------------------------

# Of each function the one that `jnp` calls when it has found that all operands are floats of one type. A function of `jnp` is compiled on its
# own, and traced anew for all types of arrays: most of what it takes to trace a small body.
_OF_FLOATS: dict[Any, Callable[..., Any]] = {
    **{jnp.add: lax.add, jnp.subtract: lax.sub, jnp.multiply: lax.mul, jnp.true_divide: lax.div, jnp.divide: lax.div},
    **{jnp.maximum: lax.max, jnp.minimum: lax.min, jnp.negative: lax.neg, jnp.abs: lax.abs, jnp.square: lax.square},
    **{jnp.exp: lax.exp, jnp.log: lax.log, jnp.sqrt: lax.sqrt, jnp.sin: lax.sin, jnp.cos: lax.cos, jnp.tanh: lax.tanh},
    **{
        jnp.less: lax.lt,
        jnp.less_equal: lax.le,
        jnp.greater: lax.gt,
        jnp.greater_equal: lax.ge,
        jnp.equal: lax.eq,
        jnp.not_equal: lax.ne,
    },
}
# Those after which `jnp` looks for NaN or a division by zero, where the user has asked for that.
_CHECKED = frozenset({jnp.add, jnp.subtract, jnp.true_divide, jnp.divide, jnp.log, jnp.sqrt, jnp.sin, jnp.cos})
_CHECKS = ("jax_error_checking_behavior_nan", "jax_error_checking_behavior_divide")
_FLOATS = frozenset(map(jnp.dtype, ("float16", "bfloat16", "float32", "float64")))


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which calls the one of `jax.lax` at once where a trace gives it floats of one type, if there is one."""
    own, is_checked = _OF_FLOATS.get(function), function in _CHECKED
    if own is None:
        return function

    def compute(*datas: Any) -> Any:
        floats = _floats_of_one_type(datas)
        if floats is None or (is_checked and _are_checked()):
            return function(*datas)
        return own(*floats)

    return compute


def _are_checked() -> bool:
    nan, divide = _CHECKS
    return getattr(jax.config, nan, "ignore") != "ignore" or getattr(jax.config, divide, "ignore") != "ignore"


def _of_blocks(
    own: Callable[..., Any], is_checked: bool, region: Region, key: tuple[Any, ...], operands: tuple[Any, ...]
) -> Any:
    """`own` of numbers and of blocks with the same dims, shape and type, where a trace only writes a program; `None` for others.

    Where it also differentiates, a kernel is cheaper, whose derivative JAX remembers.
    """
    first = key[0] or key[-1]
    if first is None or first[3] not in _FLOATS or first[0].count(None) == len(first[0]):
        return None
    datas: list[Any] = [operand._data for operand in operands if type(operand) is NamedArray]
    if key.count(first) != len(datas) or {*map(type, datas)} != {type_of_programs()} or (is_checked and _are_checked()):
        return None
    if len(datas) < len(operands):
        if first[3] != jnp.float32 or first[4]:
            return None
        for i, number in enumerate(operands):
            if key[i] is None:
                if type(number) is not float and not (type(number) is int and abs(number) <= _EXACT):
                    return None
                datas.insert(i, _number(number, first[2], region))
    return own(*datas)


# Up to here each integer is a float of 32 bits.
_EXACT = 1 << 24


def _number(number: float, variance: frozenset[str], region: Region) -> Any:
    """A number as a float, rounded as `jnp` rounds it, that varies over mesh axes. It is cast once in each trace."""
    as_float = np.float32(number)
    if not variance:
        return as_float
    trace = get_opaque_trace_state()
    if region.numbers is None or region.numbers[0] != trace:
        region.numbers = (trace, {})
    known = region.numbers[1]
    key = (as_float.tobytes(), variance)
    if key not in known:
        known[key] = lax.pcast(as_float, tuple(sorted(variance)), to="varying")
    return known[key]


def _floats_of_one_type(datas: Sequence[Any]) -> list[Any] | None:
    """The operands if they are traced floats of one type, and numbers, as such floats; `None` if they are not."""
    types = [jax.typeof(data) for data in datas if isinstance(data, jax.core.Tracer)]
    dtype = types[0].dtype if types else None
    if dtype not in _FLOATS:
        return None
    for aval in types:
        if aval.dtype != dtype:
            return None
    if len(types) == len(datas):
        return list(datas)
    # A number is rounded as `jnp` rounds it, and never has a result's type.
    if (
        dtype != jnp.float32
        or types[0].weak_type
        or {type(data) for data in datas if not isinstance(data, jax.core.Tracer)} != {float}
    ):
        return None
    return [data if isinstance(data, jax.core.Tracer) else np.float32(data) for data in datas]


# A parameter that chooses what is computed, and must be known when it is compiled; before it the position of it and of all after it.
_STATIC: dict[str, tuple[Any, ...]] = {
    "angle": (1, "deg"),
    "around": (1, "decimals"),
    "isclose": (4, "equal_nan"),
    "nan_to_num": (1, "copy"),
    "round": (1, "decimals"),
}


def elementwise(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The named version of an elementwise function of JAX. Arguments other than arrays and numbers stay as they are."""
    call = elementwise_call(function)

    def operate(x: Any) -> Any:
        return kernels.run_elementwise(name, call, (), x)

    operate.__name__ = name  # for messages
    of_one = elementwise_operation(operate)
    face = of_one if name in _OF_ONE else _of_several(function, name, call, of_one)
    functools.update_wrapper(face, function, updated=())  # the attributes of a jnp.ufunc are not those of a function
    face.__name__ = face.__qualname__ = name
    face.__module__ = "namedax.numpy"  # where it is found by its name, so that it can be pickled
    face.__doc__ = _doc(function, name)
    return face


def _of_several(
    function: Callable[..., Any], name: str, call: Callable[..., Any], of_one: Callable[[Any], Any]
) -> Callable[..., Any]:
    """The form that takes several operands, and operands and options by keyword."""

    def operate(*operands: Any) -> Any:
        return kernels.run_elementwise(name, call, (), *operands)

    operate.__name__ = name
    of_operands = elementwise_operation(operate)
    first_static = _STATIC.get(name, (sys.maxsize,))[0]

    def lifted(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs or len(args) > first_static:
                return _by_keyword(function, name, args, kwargs)
            if len(args) == 1:
                return of_one(args[0])
            if name in ("pow", "power") and len(args) == 2 and type(args[1]) is int and isinstance(args[0], NamedArray):
                return operator.pow(*args)  # a Python integer is static, as in jnp
            return of_operands(*args)
        except Exception as error:
            if isinstance(error, (TypeError, OverflowError)):
                refuse_overflow(name, (args, kwargs))
            if isinstance(error, TypeError):
                _refuse_other_than_two(name, len(args) + len(kwargs))
            refuse_miscall(name, function, args, kwargs, error)
            raise

    return lifted


def _refuse_other_than_two(name: str, given: int) -> None:
    """Raises where a function of two arrays has failed, and was given fewer or more. Of several JAX does not say in its signature how many."""
    if name in BINARY and name not in _STATIC and given != 2:
        along = {
            "minimum": "nx.min(x, axis)",
            "maximum": "nx.max(x, axis)",
            "add": "nx.sum(x, axis)",
            "multiply": "nx.prod(x, axis)",
        }.get(name)
        entries = f" Of the entries along an axis it is {along}." if along else ""
        raise ArgumentTypeError(f"{name}: it takes two arrays, and is given {given}. Write nx.{name}(x, y).{entries}")


_signature_of = functools.cache(inspect.signature)


def _by_keyword(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    first_static, *static = _STATIC.get(name, (sys.maxsize,))
    signature = _signature_of(function)
    signature.bind(*args, **kwargs)  # complains about arguments that are twice there, or unknown
    check_flags(name, flags_of(function), args, kwargs)
    by_place = itertools.islice(signature.parameters, first_static, None)
    kwargs = dict(zip(by_place, args[first_static:], strict=False)) | kwargs
    args = args[:first_static]
    fixed = tuple((key, value) for key, value in kwargs.items() if key in static or value is None)
    names = tuple(key for key, value in kwargs.items() if not (key in static or value is None))
    operands = (*args, *(kwargs[key] for key in names))
    return kernels.run_elementwise(name, _call_by_keyword, (function, len(args), names, fixed), *operands)


def _call_by_keyword(
    op: str,
    function: Callable[..., Any],
    count: int,
    names: tuple[str, ...],
    fixed: tuple[tuple[str, Any], ...],
    *operands: Any,
) -> Any:
    def of_data(*datas: Any) -> Any:
        return function(*datas[:count], **dict(zip(names, datas[count:], strict=True)), **dict(fixed))

    return apply_elementwise(op, of_data, *operands)


def _doc(function: Callable[..., Any], name: str) -> str:
    return (
        f"{summary_of(function)}\n\nThe named version of `jnp.{name}`, with the same arguments. Arrays may have named axes: positional axes "
        "broadcast by position, named\naxes by name, and the result has the names of all of them. Moves no data between devices."
    )


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of `x` where `condition` holds, else of `y`, broadcast by name.

    The form with one argument is refused: its result's shape depends on the data.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, -2.0, 3.0]), ["k"])
    >>> nx.positional(nx.where(x > 0, x, 0.0), ["k"])
    Array([1., 0., 3.], dtype=float32)
    """
    if x is None or y is None:
        refuse_names("where", condition)
        if any(isinstance(array, NamedArray) for array in (condition, x, y)):
            raise NamedAxesLeftError(
                "where: named arrays need all of condition, x and y; the shape of the form with one argument depends on data."
            )
        return jnp.where(condition, x, y)
    return _where_by_name(condition, x, y)


_where = elementwise_call(jnp.where)


@functools.partial(elementwise_operation, explicit=Explicit.ALIGNED)
def _where_by_name(condition: Any, x: Any, y: Any) -> Any:
    return kernels.run_elementwise("where", _where, (), condition, x, y)


def _absent(name: str) -> Callable[..., Any]:
    """What stands for a function that JAX has dropped, so that only a caller needs to know."""

    def absent(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedArgumentError(
            f"{name}: JAX {jax.__version__} has no jnp.{name} any more, and namedax lifts JAX's own."
        )

    absent.__name__ = absent.__qualname__ = name
    absent.__module__ = "namedax.numpy"
    return absent


class _Functions(Mapping[str, Callable[..., Any]]):
    """The functions by their names. One is made when it is first asked for."""

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
