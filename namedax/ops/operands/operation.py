"""The decorator that defines an operation; its arguments declare everything that callers rely on.

An operation is a function of named arrays and one `@operation(...)`. The decorator checks boolean
arguments and required axes. It runs the function as a mapped function if JAX has no rule for
Explicit mesh axes. It names its equations in traced programs, keeps eager calls short, and explains
calls that fail because of an argument.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, cast

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.core.element_types import in_native_order
from namedax.core.explicit_fallback import (
    Explicit,
    fallbacks,
    may_fall_back,
)
from namedax.core.memory_kinds import any_on_host, host_seen, on_device
from namedax.core.name_scopes import (
    OPERATIONS_ON_FUNCTIONS,
    Scope,
    check_scope_names,
    is_in_program,
    is_open,
    names_in,
    qualified,
    scope_text,
)
from namedax.core.records import Record
from namedax.core.region import active_regions, escaped_blocks
from namedax.core.strict_broadcasting import is_strict, strict_scopes, suspended
from namedax.errors import ArgumentTypeError, PositionalAxisError, StoredPaddingError, show_names
from namedax.messages.call_errors import check_flags, flags_of, reject_miscall
from namedax.messages.jax_errors import add_note
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.operands import dispatch
from namedax.ops.operands.axes import names_alone, reject_axes_apart
from namedax.ops.operands.call_arguments import array_parameters
from namedax.ops.operands.explanations import explain_call
from namedax.ops.operands.one_mesh import on_one_mesh, reject_other_devices

__all__ = [
    "MOVED",
    "REDUCED",
    "SEARCHED",
    "AxisRequirement",
    "Explicit",
    "elementwise_operation",
    "operation",
    "without_axis_check",
]

F = TypeVar("F", bound=Callable[..., Any])

_AXIS_PARAMETERS = ("axis", "axes")


class AxisRequirement(Record):
    """An axis that must be given if every axis of the array is named.

    Without an axis these operations act on the positional axes, and would return such an array
    unchanged.

    Attributes:
      remedy: the consequence of leaving the axis out, and what to write. It may contain `{op}`,
        `{names}` and `{last}`.
      unless: returns True if the arguments give the axes in another way.
    """

    remedy: str
    unless: Callable[..., bool] | None = None


#: The requirement of reductions.
REDUCED = AxisRequirement(
    "without an axis only those are reduced. Pass axis=... for all of its axes, or choose from"
    " {names}."
)
#: The requirement of reductions to an index.
SEARCHED = AxisRequirement(
    "without an axis only those are searched. Pass axis=({names}) for an index over all of its"
    " axes in this order, or choose from {names}."
)
#: The requirement of operations that reorder or index along an axis.
MOVED = AxisRequirement(
    "without an axis {op} acts on those only. Pass an axis, such as axis={last!r}; choose from"
    " {names}."
)


def operation(
    axis: str | Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    requires_axis: AxisRequirement | None = None,
    explicit: Explicit = Explicit.MAPPED,
    on_blocks: bool = False,
    scope: bool = False,
    calls_functions: bool = False,
    arrays: tuple[str, ...] | None = None,
    keeps_programs: bool = True,
    cached: bool = False,
    elementwise: bool = False,
    takes_host: bool = False,
) -> Callable[[F], F]:
    """Turn a function of named arrays into an operation.

    Args:
      axis: the parameter with the axis names of the operation, or a function of all arguments that
        returns them; default: the parameter `axis` or `axes`, if the function has one.
      name: the operation, for messages; default: the name of the function.
      requires_axis: the requirement on `axis` if every axis of the array is named; default: none.
      explicit: how it runs on arrays that are sharded over Explicit mesh axes; default:
        `Explicit.MAPPED`.
      on_blocks: True if its own algorithm sends less than the partitioner along a sharded axis, so
        that it runs as a mapped function in a body that is traced on global shapes; default: False.
      scope: True to open a named scope for its equations; default: False. The kernel opens it for
        operations of one kernel.
      calls_functions: True if it calls user functions, whose operations open their own scopes;
        default: False.
      arrays: the parameters that are pytrees of arrays, in which numbers are operands. Eager calls
        with functions of the user run in a program that is cached by these functions; default:
        eager calls with such functions run directly.
      keeps_programs: False if such calls need a program only on Explicit mesh axes, because JAX
        calls the functions of the user each time; default: True.
      cached: True if eager calls go straight to its kernel from the second one on
        (`dispatch.cached_by_dims`); default: False.
      elementwise: True if `nx.strict_broadcasting` checks its operands; default: False. Other
        operations may form outer products.
      takes_host: True if it copies operands from the memory of the host itself; default: False.
    """

    def decorate(function: F) -> F:
        op = name or function.__name__
        read = axis if callable(axis) else _reader(function, axis)
        run = (
            _in_named_scope(function, op, read, calls_functions)
            if scope or calls_functions
            else function
        )
        parameters = None if arrays is None else array_parameters(function, arrays)
        given = (
            function,
            run,
            op,
            read,
            requires_axis,
            explicit,
            on_blocks,
            elementwise,
            takes_host,
        )
        program = functools.partial(
            dispatch.call_program, _checked(*given), parameters=parameters, keeps=keeps_programs
        )
        checked = _checked(*given, program=program)
        checked.without_axis_check = (  # type: ignore[attr-defined]
            checked
            if requires_axis is None
            else _checked(function, run, op, read, None, explicit, on_blocks)
        )
        return cast("F", dispatch.cached_by_dims(checked, explicit) if cached else checked)

    return decorate


def _checked(
    function: Callable[..., Any],
    run: Callable[..., Any],
    op: str,
    read: Callable[..., Any],
    requires_axis: AxisRequirement | None,
    explicit: Explicit,
    on_blocks: bool = False,
    is_elementwise: bool = False,
    takes_host: bool = False,
    program: functools.partial[Any] | None = None,
) -> Callable[..., Any]:
    """Put the checks of an operation before `run`, which is `function` in its scope.

    Outside of bodies `program(args, kwargs)` runs the operation, if it is given.

    An elementwise operation checks its own names (`core/strict_broadcasting`); others may form
    outer products.
    """
    flags, code = flags_of(function), inspect.unwrap(function).__code__
    parameters = code.co_varnames[: code.co_argcount]  # those that may be given by position
    place = parameters.index("axis") if "axis" in parameters else sys.maxsize  # by keyword only
    separate = place + 1 if requires_axis is not None or "dtype" in parameters else sys.maxsize

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            if program is not None and not active_regions:
                if host_seen and not takes_host:  # before the program, for loops around it
                    args, kwargs = on_device(args), on_device(kwargs)
                try:
                    return program(args, kwargs)
                except Exception as error:
                    reject_other_devices(op, args, kwargs, error)
                    raise
            if strict_scopes and not is_elementwise and is_strict():
                return suspended(checked, *args, **kwargs)
            if (kwargs and not flags.names.isdisjoint(kwargs)) or len(args) > flags.first:
                check_flags(op, flags, args, kwargs)
            if requires_axis is not None:
                _require_axis(
                    function.__name__, function, requires_axis, place, parameters[0], args, kwargs
                )
            if len(args) > separate:
                reject_axes_apart(function.__name__, args, place)
            args, kwargs = in_native_order(args, kwargs)
            # A body has looked at its arguments already.
            if (host_seen or not active_regions) and not takes_host:
                if any_on_host(args) or (kwargs and any_on_host(kwargs.values())):
                    args, kwargs = on_device(args), on_device(kwargs)
            try:
                try:
                    if on_blocks and active_regions:
                        axes = functools.partial(_axes_of, read, args, kwargs)
                        done = fallbacks.run_on_blocks(op, axes, run, args, kwargs)
                        if done is not None:
                            return done[0]
                    if may_fall_back(args) or (kwargs and may_fall_back(kwargs.values())):
                        args, kwargs = on_one_mesh(op, args, kwargs) or (args, kwargs)
                        axes = functools.partial(_axes_of, read, args, kwargs)
                        done = fallbacks.run_mapped(explicit, op, axes, run, args, kwargs)
                        if done is not None:
                            return done[0]
                    return run(*args, **kwargs)
                except StoredPaddingError as error:
                    return fallbacks.run_padded(op, run, args, kwargs, error)
            except Exception as error:
                if (moved := on_one_mesh(op, args, kwargs)) is not None:
                    return checked(*moved[0], **moved[1])
                add_note(error)
                if isinstance(error, TypeError):
                    _reject_numpy(op, args, kwargs)
                explain_call(op, checked, args, kwargs, error)
                raise
        except Exception as error:
            shorten_eager(error)
            raise

    checked._operation = op  # type: ignore[attr-defined]
    if program is not None:
        checked.direct = program.args[0]  # type: ignore[attr-defined]
    return checked


def _in_named_scope(
    function: Callable[..., Any], op: str, read: Callable[..., Any], calls_functions: bool
) -> Callable[..., Any]:
    module = function.__module__
    if calls_functions:
        OPERATIONS_ON_FUNCTIONS.add(qualified(op, module))

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        if is_open() or not is_in_program(args):
            return function(*args, **kwargs)
        text = scope_text(op, _axes_of(read, args, kwargs) or (), module)
        if escaped_blocks:
            check_scope_names(text, (args, kwargs))
        with Scope(text, calls_functions):
            return function(*args, **kwargs)

    return scoped


def _axes_of(
    read: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Hashable, ...] | None:
    """Return the axis names of a call; `None` if it does not name any."""
    try:
        return names_in(read(*args, **kwargs), args) or None
    except TypeError:  # arguments that the function itself rejects
        return None


def _reader(function: Callable[..., Any], parameter: str | None) -> Callable[..., Any]:
    """Return a function that reads one parameter of all arguments."""
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = (
        next((known for known in _AXIS_PARAMETERS if known in names), None)
        if parameter is None
        else parameter
    )
    if found is None:
        return lambda *args, **kwargs: None
    place = code.co_varnames.index(found)
    is_positional = place < code.co_argcount

    def read(*args: Any, **kwargs: Any) -> Any:
        return args[place] if is_positional and place < len(args) else kwargs.get(found)

    return read


def _require_axis(
    op: str,
    function: Callable[..., Any],
    requirement: AxisRequirement,
    place: int,
    first: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Raise if no axis is given for an array that has names and no positional axis.

    Raises:
      PositionalAxisError: the axis is missing.
    """
    if (args[place] if len(args) > place else kwargs.get("axis")) is not None:
        return
    array = args[0] if args else kwargs.get(first)
    if type(array) is not NamedArray or (
        requirement.unless is not None and requirement.unless(*args, **kwargs)
    ):
        return
    names = names_alone(array)
    if names:
        reject_miscall(op, function, args, kwargs, TypeError())
        reason = requirement.remedy.format(op=op, names=show_names(names), last=names[-1])
        raise PositionalAxisError(f"{op}: {type_text(array)} has no positional axis, and {reason}")


def _reject_numpy(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise if NumPy's own function called the method of an array with `out`, which JAX lacks."""
    if "out" in kwargs and args and type(args[0]) is NamedArray:
        names = [dim for dim in args[0]._dims if dim is not None]
        of = (
            f", where axis is one of {show_names(names)}, a tuple of them, or ... for all"
            if names
            else ""
        )
        raise ArgumentTypeError(
            f"{op}: {type_text(args[0])} got out= from np.{op}, and NumPy's functions do not"
            f" support names. Write nx.{op}(x, axis){of}."
        )


def elementwise_operation(
    function: Callable[..., Any], explicit: Explicit = Explicit.AS_JAX
) -> Callable[..., Any]:
    """Turn an elementwise function of operands into an operation with cached eager calls."""
    op = function.__name__
    given = (function, function, op, lambda *operands: (), None, explicit, False, True)
    program = functools.partial(dispatch.call_program, _checked(*given))
    return dispatch.cached_elementwise(_checked(*given, program=program))


def without_axis_check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation whose axis may be omitted, for other operations.

    Without an axis it acts on the positional axes.
    """
    return cast("Callable[..., Any]", function.without_axis_check)  # type: ignore[attr-defined]
