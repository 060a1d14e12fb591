"""Operators and methods of `NamedArray`, which call the operations of this package.

`import namedax` calls `install`, so that the module of the array imports no operation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from types import FunctionType
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, LikeArguments
from namedax.core.array import NamedArray, make_padded, padding_of
from namedax.core.display import type_text
from namedax.core.element_types import reject_foreign
from namedax.core.names import DType
from namedax.core.protocol_hints import for_a_list, iteration_hint
from namedax.core.region import ambient
from namedax.errors import ArgumentTypeError, PositionalAxisError, as_integer, format_value
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS, apply_elementwise, elementwise_call
from namedax.ops.indexing.getitem import getitem
from namedax.ops.indexing.take import take
from namedax.ops.indexing.updates import at
from namedax.ops.operands import kernels, pytree
from namedax.ops.operands.axes import is_axis_name, is_flat, reject_order, reject_reversal
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.operation import elementwise_operation, operation
from namedax.ops.reduction import extrema, reductions
from namedax.ops.reduction.cumulative import cumprod, cumsum
from namedax.ops.shape.broadcast_to import squeeze
from namedax.ops.shape.rearrange import repeat
from namedax.ops.shape.rename import rename
from namedax.ops.sorting.sorting import argsort, sort
from namedax.ops.statistics.compositions import ptp
from namedax.resources.wire import Wire, WireFormat

__all__ = ["install", "methods"]

_BINARY: dict[str, Callable[..., Any]] = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "truediv": jnp.true_divide,
    "floordiv": jnp.floor_divide,
    "mod": jnp.mod,
    "pow": jnp.power,
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
    "lshift": jnp.left_shift,
    "rshift": jnp.right_shift,
}
_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": jnp.equal,
    "ne": jnp.not_equal,
    "lt": jnp.less,
    "le": jnp.less_equal,
    "gt": jnp.greater,
    "ge": jnp.greater_equal,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": jnp.negative,
    "pos": jnp.positive,
    "abs": jnp.abs,
    "invert": jnp.invert,
}

_operand_types = (NamedArray, jax.Array, np.ndarray, np.generic, int, float, complex)


def _other(op: str, self: NamedArray, other: object) -> Any:
    """Return the result of an operator whose other operand is not an array.

    Raises:
      ArgumentTypeError: it is a container, which JAX rejects too, because Python would compare it
        as an object or use the array as an index. Or it is an array of another library, whose own
        operator would drop its dims.
    """
    if isinstance(other, (list, tuple, set, dict)):
        raise ArgumentTypeError(
            f"{op}: the operands are {type_text(self)} and {format_value(other)}, and a"
            f" {type(other).__name__} is not an array. {for_a_list(other, self._names or ['day'])}"
        )
    reject_foreign(op, other)
    return NotImplemented


def _binary(name: str, function: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    operate = elementwise_call(function)

    def forward(self: NamedArray, other: ArrayLike, /) -> LikeArguments:
        if not isinstance(other, _operand_types):
            return _other(name, self, other)
        return kernels.run_elementwise(name, operate, (), self, other)

    def swapped(other: ArrayLike, self: NamedArray, /) -> LikeArguments:
        if not isinstance(other, _operand_types):
            return _other(name, self, other)
        return kernels.run_elementwise(name, operate, (), other, self)

    forward.__name__ = swapped.__name__ = name  # for messages
    if not reflected:
        return elementwise_operation(forward)
    apply = elementwise_operation(swapped)

    def backward(self: NamedArray, other: ArrayLike, /) -> LikeArguments:
        return apply(other, self)

    return backward


_power = _binary("power", jnp.power)


def _unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    operate = elementwise_call(function)

    def method(self: NamedArray) -> LikeArguments:
        return kernels.run_elementwise(name, operate, (), self)

    return elementwise_operation(method)


def _pow(self: NamedArray, exponent: ArrayLike, /) -> LikeArguments:
    if type(exponent) is not int:
        return _power(self, exponent)
    # A Python integer is static, as in jnp: repeated multiplication, whose gradient is right for
    # negative and zero bases.
    return kernels.run_elementwise("power", _integer_power, (exponent,), self)


def _integer_power(op: str, exponent: int, x: ArrayLike) -> LikeArguments:
    return apply_elementwise(op, lambda v: jnp.power(v, exponent), x)


def _divmod(self: NamedArray, other: ArrayLike, /) -> tuple[LikeArguments, LikeArguments]:
    quotient: Any = type(self).__floordiv__(self, other)
    return quotient if quotient is NotImplemented else (quotient, self % other)


def _rdivmod(self: NamedArray, other: Any, /) -> tuple[LikeArguments, LikeArguments]:
    quotient: Any = type(self).__rfloordiv__(self, other)
    return quotient if quotient is NotImplemented else (quotient, other % self)


def _round(self: NamedArray, ndigits: int | None = None, /) -> LikeArguments:
    if ndigits is not None:
        return round_(self, as_integer("round", "ndigits", ndigits))
    # As in Python and in JAX, the result has integers.
    return kernels.run_elementwise("round", _to_integers, (), self)


_to_integers = elementwise_call(round)


def round_(self: NamedArray, decimals: int = 0) -> LikeArguments:
    """Round the values to `decimals` decimals; by default 0."""
    return kernels.run_elementwise(
        "round", _round_to, (as_integer("round", "decimals", decimals),), self
    )


def _round_to(op: str, decimals: int, x: ArrayLike) -> LikeArguments:
    return apply_elementwise(op, lambda v: jnp.round(v, decimals), x)


_MATMUL = Lifted(jnp.matmul, "matmul")


def matmul(x: ArrayLike, y: ArrayLike) -> AnyArray:
    """Multiply matrices over the positional axes; named axes are batch axes."""
    return cast("AnyArray", _MATMUL(x, y))


def _matmul(self: NamedArray, other: ArrayLike, /) -> LikeArguments:
    if not isinstance(other, _operand_types):
        return cast("LikeArguments", _other("matmul", self, other))
    return cast("LikeArguments", _MATMUL(self, other))


def _rmatmul(self: NamedArray, other: ArrayLike, /) -> LikeArguments:
    if not isinstance(other, _operand_types):
        return cast("LikeArguments", _other("matmul", self, other))
    return cast("LikeArguments", _MATMUL(other, self))


def astype(self: NamedArray, dtype: DType) -> LikeArguments:
    """Convert the values to the dtype `dtype`."""
    if (padding := padding_of(self)) is not None:
        return make_padded(self._stored.astype(dtype), self._dims, padding)
    return kernels.run_elementwise("astype", _as_type, (dtype,), self)


def _as_type(op: str, dtype: DType, x: ArrayLike) -> LikeArguments:
    return apply_elementwise(op, lambda v: v.astype(dtype), x)


def _iter(self: NamedArray) -> Iterator[LikeArguments]:
    if not self.shape:
        raise PositionalAxisError(
            f"iteration: {type_text(self)} has no positional axis to iterate over; names have no"
            f" order.{iteration_hint(self._names)}"
        )
    return (getitem(self, i) for i in range(self.shape[0]))


_ALONG_AXES: tuple[Callable[..., Any], ...] = (
    *(getattr(reductions, name) for name in "sum mean var std prod any all".split()),
    *(getattr(extrema, name) for name in "max min argmax argmin".split()),
    *(ptp, cumsum, cumprod, sort, argsort),
)
# Methods that act on positional axes, as the methods of `jax.Array` do.
POSITIONAL = ("reshape", "ravel", "flatten", "swapaxes", "transpose", "diagonal", "trace")
# What to write if a method of positional axes gets an axis name.
_BY_NAME = {
    **{
        name: f"nx.{name}(x, ...), which takes names" for name in ("transpose", "diagonal", "trace")
    },
    **dict.fromkeys(("reshape", "ravel", "flatten"), "nx.rearrange, which takes names"),
    "swapaxes": "nx.rename(x, {a: b, b: a}), which exchanges the names of two",
}


def _positional_method(name: str) -> Callable[..., Any]:
    function = getattr(jnp, name, None)

    def method(self: NamedArray, *args: Any, **kwargs: Any) -> LikeArguments:
        for entry in jax.tree.leaves(
            [*args, *(value for key, value in kwargs.items() if "axis" in key or "axes" in key)]
        ):
            if is_axis_name(entry) and entry in self.dims:
                raise ArgumentTypeError(
                    f"{name}: as a method of {type_text(self)} it acts on positional axes, and"
                    f" {format_value(entry)} is a name. Call {_BY_NAME[name]}."
                )
        if name == "transpose" and all(axes is None for axes in (*args, *kwargs.values())):
            reject_reversal(name, self)
        if name in ("ravel", "flatten") or (name == "reshape" and is_flat(args)):
            reject_order(name, self)
        return Lifted(lambda data: getattr(data, name)(*args, **kwargs), name)(self)

    method.__doc__ = (
        f"`jax.Array.{name}` over the positional axes; names are batch"
        f" axes.\n\n{(function.__doc__ or '').split(chr(10))[0]}"
    )
    # The method has its signature.
    method.__wrapped__ = getattr(jax.Array, name)  # type: ignore[attr-defined]
    return method


def copy(self: NamedArray) -> LikeArguments:
    """Copy the array."""
    if (padding := padding_of(self)) is not None:
        return make_padded(jnp.copy(self._stored), self._dims, padding)
    x = to_local(self, "copy", ambient())
    return make_result(jnp.copy(x._data), x._dims)


@operation()
def _rename(
    self: NamedArray,
    names: Mapping[Hashable, Hashable] | None = None,
    /,
    *,
    wire: WireFormat | Wire | None = None,
    **more: Hashable,
) -> LikeArguments:
    """Rename axes: `x.rename({"old": "new"})` or `x.rename(old="new")`; see `nx.rename`."""
    return rename(self, names, wire=wire, **more)


def _transposed(self: NamedArray) -> LikeArguments:
    """Reverse the positional axes."""
    reject_reversal("T", self)
    return nmap(jnp.transpose)(self)


def _matrix_transposed(self: NamedArray) -> LikeArguments:
    """Swap the last two positional axes."""
    return nmap(jnp.matrix_transpose)(self)


def _real(self: NamedArray) -> LikeArguments:
    """Return the real part."""
    return FUNCTIONS["real"](self)


def _imag(self: NamedArray) -> LikeArguments:
    """Return the imaginary part."""
    return FUNCTIONS["imag"](self)


def _as_method(function: FunctionType | Callable[..., Any]) -> Callable[..., Any]:
    # A copy, since a method has another qualified name.
    method = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    method.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(method, function)


def install() -> None:
    """Attach operators and methods to `NamedArray`, and register it as a pytree."""
    pytree.register()
    for name, method in methods().items():
        if callable(method):
            method.__name__ = name
            method.__qualname__ = f"NamedArray.{name}"
        setattr(NamedArray, name, method)


def methods() -> dict[str, Any]:
    """Return the operators, methods and properties by name."""
    found: dict[str, Any] = {}
    for name, function in (_BINARY | _COMPARE).items():
        found[f"__{name}__"] = _binary(function.__name__, function)
    for name, function in _BINARY.items():
        found[f"__r{name}__"] = _binary(function.__name__, function, reflected=True)
    for name, function in _UNARY.items():
        found[f"__{name}__"] = _unary(function.__name__, function)
    found |= {
        "__pow__": _pow,
        "__divmod__": _divmod,
        "__rdivmod__": _rdivmod,
        "__round__": _round,
        "__matmul__": _matmul,
        "__rmatmul__": _rmatmul,
        "__getitem__": getitem,
        "__iter__": _iter,
        "astype": astype,
        "at": property(at),
        "copy": copy,
        "dot": _as_method(dot),
        "rename": _rename,
        "repeat": _as_method(repeat),
        "round": round_,
        "squeeze": _as_method(squeeze),
        "take": _as_method(take),
        "T": property(_transposed),
        "mT": property(_matrix_transposed),
        "real": property(_real),
        "imag": property(_imag),
    }
    for name in ("clip", "conj", "conjugate"):
        found[name] = _as_method(FUNCTIONS[name])
    for function in _ALONG_AXES:
        found[function.__name__] = _as_method(function)
    return found | {name: _positional_method(name) for name in POSITIONAL}
