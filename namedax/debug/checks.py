"""`nx.debug.check` and `nx.debug.checks`: assertions on the values of a running program.

A check is a call of Python, as of `nx.debug.print`. It records a failure, and raises nothing: an
exception in a callback ends the program of one device, for which the others would wait. The context
`checks` raises the error when the program has ended.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import operator
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state

from namedax.core.array import is_named
from namedax.core.display import type_text
from namedax.core.names import PyTree
from namedax.debug.values import Value, call_with_values
from namedax.errors import ArgumentTypeError, CheckFailedError, format_value, show_name
from namedax.messages.call_errors import checks_signature

__all__ = ["check", "checks"]

# True in `checks()`. Part of JAX's cache keys: a compiled function is traced again in the context.
_context = jax.make_user_context(False)
_is_on: Callable[[], bool] = functools.partial(operator.attrgetter("value"), _context)

# The failures of each context that is entered, the innermost last. Callbacks run in other threads.
_failures: list[list[CheckFailedError]] = []

with ThreadPoolExecutor(1) as _new_thread:  # this module may be imported under a trace
    _EAGER = _new_thread.submit(get_opaque_trace_state).result()


@checks_signature
def check(predicate: PyTree, message: str, /) -> None:
    """Check that every element of a boolean array is True, while a program runs.

    It does nothing outside of `nx.debug.checks()`: then the program has no operation of it.

    Args:
      predicate: a boolean array, named or not, or a `bool`.
      message: the text of the error.

    Communication: one all-gather of the predicate for each mesh axis over which it is sharded, one
    byte for each element. Reduce the predicate with `nx.all` to send less.

    The error has the number of elements that are False, and the axis names and index of the first
    one. Padding of uneven axes is not checked. Results and gradients do not change. The check runs
    in the forward pass, also under `jax.checkpoint`; in each step of a loop; and in the branch that
    is taken. Under `jax.vmap` and `nx.vmap`, it runs once for all elements, with the hidden axes. A
    `SerialLoop` checks the whole axis, after its last step.

    Raises:
      ArgumentTypeError: `predicate` is not boolean, or `message` is not a string.
      CheckFailedError: an element is False. In a compiled program, `nx.debug.checks` raises it.
      PipelineError, PlacementConflictError: as `nx.debug.print`.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((2,), ("x",))
    >>> def root(v):
    ...     nx.debug.check(v >= 0, "v is negative")
    ...     return nx.sqrt(v)
    >>> v = nx.named(jnp.array([4.0, 1.0, -9.0, 0.0]), ["batch"])
    >>> f = nx.xmap(root, axis_resources={"batch": "x"}, mesh=mesh)
    >>> try:
    ...     with nx.debug.checks():
    ...         _ = f(v)
    ... except nx.errors.CheckFailedError as error:
    ...     print(error.index)
    {'batch': 2}
    """
    if not isinstance(message, str):
        raise ArgumentTypeError(
            f"nx.debug.check: the message must be a string, got {format_value(message)}. Write"
            ' nx.debug.check(x > 0, "x is positive").'
        )
    if isinstance(predicate, (bool, np.bool_)):
        predicate = jnp.asarray(predicate)
    if not (is_named(predicate) or hasattr(predicate, "dtype")) or predicate.dtype != jnp.bool_:
        got = type_text(predicate) if is_named(predicate) else format_value(predicate)
        raise ArgumentTypeError(
            f"nx.debug.check: the predicate must be a boolean array, got {got}. Write a comparison,"
            " such as nx.debug.check(x > 0, message)."
        )
    if not _is_on():
        return

    def run(leaves: list[Any]) -> None:
        _record(message, leaves[0])

    call_with_values("debug.check", run, [predicate])
    if _failures and get_opaque_trace_state() == _EAGER:
        jax.effects_barrier()
        if _failures[-1]:
            raise _failures[-1].pop(0)


def _record(message: str, value: Value) -> None:
    """Record a failure if an element of a predicate is False."""
    if value.array.all():
        return
    first = np.unravel_index(int(np.argmin(value.array)), value.array.shape)
    positions = iter(range(value.array.ndim))
    # dims may be shorter than the array: further dimensions are positional
    dims = [*value.dims, *[None] * (value.array.ndim - len(value.dims))]
    labels = [next(positions) if dim is None else dim for dim in dims]
    index = {label: int(i) for label, i in zip(labels, first, strict=True)}
    where = ", ".join(
        f"{'position ' if dim is None else ''}{show_name(label)}: {i}"
        for (label, i), dim in zip(index.items(), dims, strict=True)
    )
    count, size = int((~value.array).sum()), value.array.size
    text = (
        f"the first at {{{where}}}. Print the values there with nx.debug.print."
        if index
        else "it is False. Print its operands with nx.debug.print."
    )
    elements = f"{count} of {size} elements of {value.type_text} are False, " if index else ""
    error = CheckFailedError(f"debug.check: {message}: {elements}{text}").about(index=index)
    if _failures:
        _failures[-1].append(error)
    else:  # a program that was compiled in the context, and runs after it
        logging.getLogger("namedax").error(str(error))


def checks(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """Execute `nx.debug.check` in a context, and raise the error of the first check that fails.

    At its end, the context waits for the programs that run (`jax.effects_barrier`). An eager check
    raises at once. A function that is compiled by `jax.jit` is traced again in the context, so its
    program without checks is unchanged.

    Args:
      enabled: False to omit the checks in a part of the context; default: True.

    Returns:
      A context manager, which is also a decorator: `@nx.debug.checks()`. A decorated function must
        be called outside of `jax.jit`.

    Raises:
      CheckFailedError: a check has failed. Other exceptions in the context take precedence.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(4.0), ["k"])
    >>> nx.debug.check(x > 0, "x is positive")  # outside of the context, nothing is checked
    >>> with nx.debug.checks():
    ...     nx.debug.check(x >= 0, "x is not negative")
    """
    return _checks(enabled)


@contextlib.contextmanager
def _checks(enabled: bool) -> Iterator[None]:
    if not enabled or get_opaque_trace_state() != _EAGER:
        # within a trace nothing runs; the context around the call reports failures
        with _context(enabled):
            yield
        return
    own: list[CheckFailedError] = []
    _failures.append(own)
    try:
        with _context(True):
            yield
        jax.effects_barrier()
    finally:
        _failures[:] = [failures for failures in _failures if failures is not own]
    if own:
        raise own[0]
