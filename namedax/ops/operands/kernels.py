"""Compiled kernels: one per operation and pattern of dims.

They make named operations as cheap as plain ones.

Name bookkeeping depends on dims only, not on values. So an operation is compiled once for the dims
of its operands. A later call is a dictionary lookup and one dispatch; `jax.jit` handles shapes,
dtypes, configuration and the ambient region. Under a trace the same kernels are inlined. JAX then
caches the traced operation and its linearization, as for `jnp`'s functions.

A kernel has no names. Names become numbers, in the order in which they appear in the operands and
then in the axes of the operation, and return in the dims of the result. So calls that differ only
in names compile once, and no result can depend on the text of a name. The caches are bounded,
however many names and operations a process uses.

A kernel is identified by its call: a function of the module, and the arguments before the operands.
There is no separate key that could disagree. Arguments are compared by value and type, since `1`,
`1.0` and `True` must differ.

Each call pays for the code between a public function and `run`; `dispatch` skips it.

In a body with sharded names only elementwise operations use kernels, on blocks. The others run
directly, because they may communicate.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import BuiltinFunctionType, EllipsisType, FunctionType, NoneType
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, make, make_block, make_in_region
from namedax.core.element_types import NUMPY, SCALARS, check_numbers, native_order
from namedax.core.explicit_fallback import fallbacks
from namedax.core.memory_kinds import to_device
from namedax.core.name_scopes import Scope, check_scope_names, is_open, names_in, scope_text, silent
from namedax.core.names import Dims, is_name
from namedax.core.recent import Recent
from namedax.core.region import Region, ambient, escaped_blocks, without_region
from namedax.core.strict_broadcasting import check_names, is_strict, strict_scopes, without
from namedax.core.variance import (
    cast,
    costs_nothing_to_cast,
    has_varying_form,
    keep_varying_form,
    saves_when_cast,
    varying,
)
from namedax.errors import StoredPaddingError, reject_names
from namedax.ops.operands.broadcasting import make_result, note_aligned, own_blocks, unify_variance
from namedax.resources.mesh import retyped
from namedax.resources.serial import LoopAxis

__all__ = [
    "CONSTANTS",
    "OF_BLOCKS",
    "AxesAndNew",
    "new_table",
    "remember",
    "run",
    "run_elementwise",
    "scope_of",
    "type_key",
    "varies",
    "watched",
    "whole_types",
    "with_forms",
]

R = TypeVar("R")


class NamedAxes(Protocol):
    """Axes of an operation that are not a name or a tuple: an object with names."""

    def renamed(self, number: Callable[[Hashable], Hashable]) -> NamedAxes:
        """Return a copy with `number(name)` for every name."""


#: The axes of an operation, as part of the key of its kernel.
Axes = AxisSpec | NamedAxes


# --- entry points --------------------------------------------------------------------------------


def run(
    op: str,
    function: Callable[..., Any],
    axes: Axes,
    static: tuple[Any, ...],
    *operands: ArrayLike,
    in_region: bool = True,
    only_axes: bool = False,
    casts: bool = False,
) -> AnyArray:
    """Run `function(op, axes, *static, *operands)` by its kernel unless a name is sharded.

    In a body with sharded names, an operation that occurs often runs by its kernel too if it says
    that it needs only `axes`, and none of these is sharded.

    Args:
      op: the operation, for messages.
      function: a function that returns one array. It must be the same object in every call, a
        function of the module: it and the arguments before the operands identify the kernel. It
        uses no values, names or arrays from elsewhere.
      axes: all axis names of the operation: a name, a position or `None`, or a tuple of these; or
        an object with names, whose method `renamed(number)` returns it with `number(name)` for each
        of its names.
      static: further arguments that are static in the kernel. If one is not hashable, `function` is
        called directly.
      *operands: arrays and Python scalars.
      in_region: False to call `function` directly in every region; default: True.
      only_axes: True if `function` treats all names but those of `axes` as batch axes, and neither
        communicates nor reads anything of the region if those are not sharded; default: False.
      casts: True if `function` first casts all operands to one device variance; default: False.
    """
    if strict_scopes and is_strict():
        again = functools.partial(run, in_region=in_region, only_axes=only_axes, casts=casts)
        return without(again, op, function, axes, static, *operands)
    region = ambient()
    given = (op, axes, *static)
    if region is None:
        # Within a user's `jax.shard_map` the names may have to be checked.
        is_traced = is_block = False
        for operand in operands:
            data = operand._data if type(operand) is NamedArray else operand
            if type(data) not in whole_types:
                is_traced, is_block = (
                    is_traced or isinstance(data, jax.core.Tracer),
                    is_block or varies(data),
                )
        call: Any = function if is_block else _through_kernel
        more = (*given, *operands) if is_block else (function, given, operands, True)
        if not is_traced:
            return call(*more)
    elif region.resources or not in_region:
        for operand in operands:
            if isinstance(operand, NUMPY):
                check_numbers(op, operand)
        key = _key_here(region, function, given, operands, casts) if only_axes else None
        if key is not None and region.state.count(key) >= _OFTEN:
            call, more = _in_region, (region, function, given, operands)
        else:
            if region.state.has_gathered:
                call, more = with_forms, (function, given, operands)
            else:
                call, more = function, (*given, *operands)
            if key is not None:
                call, more = _counted, (region, key, call, more)
    else:
        call, more = _in_region, (region, function, given, operands)
    if is_open():
        return call(*more)
    text = scope_of(function, given, operands)
    if escaped_blocks:
        check_scope_names(text, operands)
    with Scope(text):
        return call(*more)


def scope_of(
    function: Callable[..., Any], given: tuple[Any, ...], operands: tuple[Any, ...]
) -> str:
    """Return the scope text of an operation."""
    return scope_text(given[0], names_in(given[1], operands), function.__module__)


def run_elementwise(
    op: str,
    function: Callable[..., Any],
    static: tuple[Any, ...],
    *operands: ArrayLike | np.generic,
) -> AnyArray:
    """Run an elementwise operation through its kernel, as `run` does.

    On blocks it is the same operation. It has no axes.

    Raises:
      OuterProductError: under `nx.strict_broadcasting`, the result has more names than each of the
        operands.
    """
    if strict_scopes and is_strict():
        check_names(op, operands)
        return without(run_elementwise, op, function, static, *operands)
    region = ambient()
    if region is None:
        try:
            return _through_kernel(function, (op, *static), operands, False)
        except StoredPaddingError as error:
            given = (op, *static, *operands)
            result: AnyArray = fallbacks.run_padded(op, function, given, {}, error)
            return result
    given = (op, *static)
    scope: Any = Scope
    call: Any = _in_region
    more: tuple[Any, ...] = (region, function, given, operands, False)
    if region.mode != "manual":
        call, more = function, (*given, *operands)
    elif (key := own_blocks(operands, region)) is not None:
        call, more = _of_new_blocks, (region, key, function, given, operands)
        if key in region.state.looked_at:  # the common case in a body, with few function calls
            scope, call = jax.named_scope, _of_known_blocks
    if is_open():
        return call(*more)
    with scope(scope_text(op, (), function.__module__)):
        return call(*more)


#: Array types without tracers, as far as they have been seen: JAX has no list of them, and
#: `isinstance` is slower.
whole_types: set[type] = set()


def varies(data: object) -> bool:
    """Return True if `data` may differ from device to device of a `jax.shard_map`.

    It cannot if its type is in `whole_types`.
    """
    if type(data) in whole_types:
        return False
    if isinstance(data, jax.core.Tracer):
        return bool(varying(data))
    if isinstance(data, jax.Array):
        whole_types.add(type(data))
    return False


#: The attribute of an operation's function that computes it from known blocks (`own_blocks`), more
#: cheaply than a kernel. It takes the region, the key of the blocks and the operands. It returns
#: data with the dims and the shape of all operands, or `None`.
OF_BLOCKS = "of_blocks"


def _of_new_blocks(
    region: Region,
    key: tuple[Any, ...],
    function: Callable[..., Any],
    given: tuple[Any, ...],
    operands: tuple[Any, ...],
) -> AnyArray:
    """Run an elementwise operation on own blocks that may need alignment, and record the result."""
    result = _in_region(region, function, given, operands, False)
    note_aligned(key, region)
    return result


def _of_known_blocks(
    region: Region,
    key: tuple[Any, ...],
    function: Callable[..., Any],
    given: tuple[Any, ...],
    operands: tuple[Any, ...],
) -> AnyArray:
    """Run an elementwise operation on own blocks that need no alignment."""
    of_blocks = getattr(function, OF_BLOCKS, None)
    if of_blocks is not None and (data := of_blocks(region, key, operands)) is not None:
        return make_block(data, (key[0] or key[-1])[0], region)
    if _traced_as_it_is(operands) and not _is_frequent(region, (function, given, key)):
        return silent(function)(*given, *operands)
    result = without_region(_through_kernel, function, given, operands, False)
    return (
        make_result(result._data, result._dims, operands) if type(result) is NamedArray else result
    )


def _in_region(
    region: Region,
    function: Callable[..., Any],
    given: tuple[Any, ...],
    operands: tuple[Any, ...],
    with_axes: bool = True,
) -> AnyArray:
    def form(wanted: frozenset[str]) -> Any:
        met = tuple(unify_variance(given[0], operands, region, wanted))
        # Kernels do not depend on the region, so all regions share them.
        return without_region(_through_kernel, function, given, met, with_axes)

    if (
        not with_axes
        and _traced_as_it_is(operands)
        and not _is_frequent(region, (function, given, _shapes(operands)))
    ):
        wrapped = function(*given, *operands)
        if type(wrapped) is not NamedArray:
            return wrapped
    else:
        result = form(frozenset())
        if type(result) is not NamedArray:
            return result
        wrapped = make_result(result._data, result._dims, None if with_axes else operands)
    _keep_form(wrapped, operands, lambda wanted: form(wanted)._data)
    return wrapped


def with_forms(
    function: Callable[..., Any], given: tuple[Any, ...], operands: tuple[Any, ...]
) -> AnyArray:
    """Return `function(*given, *operands)`, with a varying form if gathered `operands` have one."""

    def form(wanted: frozenset[str]) -> jax.Array:
        # each step would reduce-scatter a value that is reduced once, after the loop
        if any(isinstance(axis, LoopAxis) for axis in wanted):
            return result._data
        varied = [
            make_in_region(cast(x, wanted), x._dims) if has_varying_form(x) else x for x in operands
        ]
        again = function(*given, *varied)
        return again._data if again._dims == result._dims else result._data

    result = function(*given, *operands)
    if type(result) is NamedArray and not has_varying_form(result):
        _keep_form(result, operands, form)
    return result


def _keep_form(
    result: NamedArray, operands: tuple[Any, ...], form: Callable[[frozenset[str]], Any]
) -> None:
    """Give the result of an operation a varying form, if one of the operands has one."""
    if any(map(has_varying_form, operands)):
        keep_varying_form(
            result,
            form,
            functools.partial(_are_cast, operands),
            _passes_casts_on(operands, result._data.size),
        )


def _traced_as_it_is(operands: tuple[Any, ...]) -> bool:
    """Return True if tracing an elementwise operation directly is equivalent and cheaper.

    It is one function of `jnp`, which JAX has compiled already. That function takes a number as a
    number, and must treat it as an array. A large or negative integer may not fit the dtype of the
    other operand.
    """
    traced = False
    for operand in operands:
        kind = type(operand)
        if kind is NamedArray:
            traced = traced or isinstance(operand._data, jax.core.Tracer)
        elif kind is int:
            if not 0 <= operand < 128:
                return False
        elif kind is not float:
            return False
    return traced


# The number of direct traces of an operation in one body. After that its kernel is faster, since
# JAX has already traced and linearized it.
_OFTEN = 4


def _is_frequent(region: Region, key: Hashable) -> bool:
    """Count a use of a function with these arguments in the body; return True if it is frequent."""
    try:
        return region.state.times(key) > _OFTEN
    except TypeError:  # an argument is not hashable
        return False


def _key_here(
    region: Region,
    function: Callable[..., Any],
    given: tuple[Any, ...],
    operands: tuple[Any, ...],
    casts: bool,
) -> Hashable:
    """Return a key of an operation along complete axes of own blocks; `None` for any other."""
    if region.mode != "manual":
        return None
    axes = given[1].axes if type(given[1]) is AxesAndNew else given[1]
    if axes is ... or (type(axes) is tuple and ... in axes):
        return None
    names: list[Hashable] = []
    _renamed(given[1], names.append)
    if not region.resources.keys().isdisjoint(names):
        return None
    if (key := own_blocks(operands, region)) is None:
        return None
    if not casts and len({entry[2] for entry in key if entry is not None}) > 1:
        return None
    return function, given, _types(given), key


def _counted(region: Region, key: Hashable, call: Callable[..., R], more: tuple[Any, ...]) -> R:
    """Return `call(*more)`, and count it if it does not raise: a kernel raises less errors."""
    result = call(*more)
    region.state.times(key)
    return result


def _shapes(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([(x._dims, x._data.shape) if type(x) is NamedArray else None for x in operands])


def _passes_casts_on(operands: tuple[Any, ...], size: int) -> bool:
    """Return True if casting the operands sends no more in the gradient than casting the result.

    The result has `size` elements. The transpose of a cast is an all-reduce. It sends twice as much
    as the reduce-scatter that is the transpose of a gather.
    """
    sent = 0
    for operand in operands:
        data = operand._data if type(operand) is NamedArray else operand
        # the others have no gradient, or a negligible one
        if np.ndim(data) and jnp.issubdtype(data.dtype, jnp.inexact):
            sent += math.prod(data.shape) * (1 if saves_when_cast(operand) else 2)
    return sent <= 2 * size


def _are_cast(operands: tuple[Any, ...], axes: frozenset[str]) -> bool:
    """Return True if casting the operands over these axes adds no communication to the gradient."""
    return all(costs_nothing_to_cast(operand, axes) for operand in operands)


class AxesAndNew(NamedTuple):
    """The axes of an operation, one or several, and the name of a new axis of its result."""

    axes: Any
    new: Hashable | None

    def renamed(self, number: Callable[[Hashable], Hashable]) -> AxesAndNew:
        """Return a copy with `number(name)` for every name."""
        return AxesAndNew(
            _renamed(self.axes, number), number(self.new) if is_name(self.new) else self.new
        )


def _renamed(axes: Axes, number: Callable[[Hashable], Hashable]) -> Axes:
    if hasattr(axes, "renamed"):
        return axes.renamed(number)
    if type(axes) is tuple:
        return tuple([number(axis) if is_name(axis) else axis for axis in axes])
    return number(axes) if is_name(axes) else axes


# --- caches --------------------------------------------------------------------------------------


class _Kernel:
    """A compiled operation, and the dims of its result in numbers (`None`: a plain array)."""

    __slots__ = ("call", "result")

    call: Callable[..., Any]
    result: list[Dims | None]


#: The kernels, by call and dims of the operands, in numbers.
_kernels = Recent(256)
#: The calls as made, with their names: a kernel's `call` and the dims of the result. Only
#: `_kernels` decides which kernels stay alive.
_calls = Recent(2048)


#: Tables of other modules that contain kernels, and the maximum number of their entries together.
_tables: list[dict[Any, Any]] = []
_MOST = 4096


def new_table() -> dict[Any, Any]:
    """Return a table for kernels of some recent calls.

    It is emptied when kernels are dropped, and when all tables together are full.
    """
    table: dict[Any, Any] = {}
    _tables.append(table)
    return table


def remember(table: dict[Any, Any], key: Hashable, entry: object) -> None:
    """Add a kernel to a table."""
    if sum(map(len, _tables)) >= _MOST:
        _forget_calls()
    table[key] = entry


def _forget_calls() -> None:
    """Clear the tables from calls to kernels; the kernels stay."""
    _calls.clear()
    for table in _tables:
        table.clear()


class _Watch(threading.local):
    """The recorded kernel calls of a thread, while it records."""

    calls: list[Watched] | None = None


class Watched(NamedTuple):
    """The call of a kernel.

    Attributes:
      call: the compiled function.
      dims: the dims of its result.
      scope: the scope text of the operation; empty for an elementwise one.
      datas: the arrays and numbers of the call.
      result: the result.
    """

    call: Callable[..., Any]
    dims: Dims | None
    scope: str
    datas: list[Any]
    result: Any


_watch = _Watch()


def watched(
    function: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[R, list[Watched]]:
    """Return `function(*args, **kwargs)` and its kernel calls, without those within kernels."""
    calls: list[Watched] = []
    outer, _watch.calls = _watch.calls, calls
    try:
        result = function(*args, **kwargs)
    finally:
        _watch.calls = outer
    if outer is not None:
        outer += calls
    return result, calls


class _Number:
    """The number that replaces a name in a kernel."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index

    def __repr__(self) -> str:
        return f"axis {self.index}"


_numbers: list[_Number] = []
_growing = threading.Lock()


class _Numbering(dict[Hashable, Any]):
    """Names to numbers, in the order of their first appearance."""

    def __missing__(self, name: Hashable) -> _Number:
        index = len(self)
        if index >= len(_numbers):
            with _growing:  # entry i is the number i, even if two threads need it at once
                while index >= len(_numbers):
                    _numbers.append(_Number(len(_numbers)))
        known = self[name] = _numbers[index]
        return known


#: The types of arguments that their type and value identify.
CONSTANTS = frozenset(
    {str, bytes, bool, int, NoneType, EllipsisType, type, range, BuiltinFunctionType}
    | {type(jnp.float32), type(np.float32), type(np.sum)}
)
_plain = CONSTANTS | {FunctionType, type(jnp.sum), _Number}


def _types(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key that distinguishes equal values.

    It has their types, also within tuples, and the sign of zero.
    """
    types = tuple(map(type, values))
    return types if _plain.issuperset(types) else tuple(map(type_key, values))


def type_key(value: object) -> object:
    """Return a key that distinguishes `value` from other values that equal it."""
    kind = type(value)
    if kind in _plain:
        return kind
    if isinstance(value, tuple):
        return (kind, _types(value))
    return (kind, repr(value)) if isinstance(value, (float, complex, np.generic)) else kind


# --- calls through a kernel ----------------------------------------------------------------------


def _through_kernel(
    function: Callable[..., Any], given: tuple[Any, ...], operands: tuple[Any, ...], with_axes: bool
) -> AnyArray:
    # the most common case, without loops
    if len(operands) == 1 and type(operands[0]) is NamedArray:
        (operand,) = operands
        lookup: tuple[Any, ...] = (function, given, _types(given), operand._dims)
        datas = [operand._data]
    else:
        datas = []
        entries: list[Any] = [function, given, _types(given)]
        for operand in operands:
            if type(operand) is NamedArray:
                data = operand._data
                entries.append(operand._dims)
            else:
                data = operand
                if type(data) not in SCALARS and isinstance(data, NUMPY):
                    check_numbers(given[0], data)
                    data = native_order(data)
                rank = 0 if type(data) in SCALARS else getattr(data, "ndim", None)
                if rank is None:
                    reject_names(given[0], data)
                    return function(*given, *operands)  # not an array: the operation reports it
                entries.append(rank)
            datas.append(data)
        lookup = tuple(entries)
    try:
        found = _calls.young.get(lookup)
    except TypeError:  # an argument is not hashable
        return function(*given, *operands)
    watch, _watch.calls = _watch.calls, None
    try:
        if found is None:
            data, dims = _first_call(lookup, with_axes, datas)
        else:
            call, dims = found
            data = call(*datas)
    except Exception:
        if (moved := retyped(given[0], datas)) is not None:
            return _through_kernel(function, given, tuple(_operands(moved, lookup[3:])), with_axes)
        own = _error_with_names(function, given, lookup[3:], datas)
        if own is None:
            raise
        raise own from own.__cause__
    finally:
        _watch.calls = watch
    result = data if dims is None else make(data, dims)
    if watch is not None and (found := _calls.young.get(lookup)) is not None:
        scope = scope_of(function, given, operands) if with_axes else ""
        watch.append(Watched(found[0], found[1], scope, datas, result))
    return result


def _first_call(
    lookup: tuple[Any, ...], with_axes: bool, datas: list[Any]
) -> tuple[Any, Dims | None]:
    """Return the result of an uncached call and its dims; cache the call if it does not raise."""
    found = _calls.get(lookup)
    if found is not None:
        call, dims = found
        return call(*datas), dims
    function, given, _, *dims_in = lookup
    numbers = _Numbering()
    numbered = tuple(
        [
            tuple([None if dim is None else numbers[dim] for dim in dims])
            if type(dims) is tuple
            else dims
            for dims in dims_in
        ]
    )
    if with_axes:
        axes = given[1]
        axes = numbers[axes] if type(axes) is str else _renamed(axes, numbers.__getitem__)
        given = (given[0], axes, *given[2:])
    key = (function, given, _types(given), *numbered)
    kernel = _kernels.get(key)
    known = kernel is not None
    if not known:
        kernel = _compile(function, given, numbered)
    data = kernel.call(*datas)
    if not known and _kernels.put(key, kernel):
        _forget_calls()  # so that dropped kernels are freed
    dims = kernel.result[0]
    if dims is not None:
        names = list(numbers)
        dims = tuple([names[dim.index] if type(dim) is _Number else dim for dim in dims])
    _calls.put(lookup, (kernel.call, dims))
    return data, dims


def _compile(
    function: Callable[..., Any], given: tuple[Any, ...], dims: tuple[Any, ...]
) -> _Kernel:
    kernel = _Kernel()
    result_dims: list[Dims | None] = [None]
    kernel.result = result_dims

    def call(*datas: jax.Array) -> jax.Array:
        result = function(*given, *_operands([*map(to_device, datas)], dims))
        named = isinstance(result, NamedArray)
        result_dims[0] = result._dims if named else None
        return result._data if named else result

    kernel.call = jax.jit(silent(call), inline=True)
    return kernel


def _operands(datas: Sequence[jax.Array], dims: tuple[Any, ...]) -> list[Any]:
    return [
        make(data, d) if type(d) is tuple else data for data, d in zip(datas, dims, strict=True)
    ]


def _error_with_names(
    function: Callable[..., Any], given: tuple[Any, ...], dims: tuple[Any, ...], datas: list[Any]
) -> Exception | None:
    """Return the error that the operation raises for these operands with names.

    The result is `None` if the error did not come from the operation.
    """

    def call(*datas: jax.Array) -> jax.Array:
        result = function(*given, *_operands(datas, dims))
        return result._data if isinstance(result, NamedArray) else result

    try:
        jax.eval_shape(call, *datas)
    except Exception as error:
        return error
    return None
