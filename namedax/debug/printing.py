"""`nx.debug.print` and `nx.debug.callback`: whole values of a running program, once."""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import is_named
from namedax.core.names import PyTree
from namedax.debug.values import Value, call_with_values
from namedax.errors import ArgumentError, ArgumentTypeError, format_value
from namedax.messages.call_errors import checks_signature
from namedax.resources.communication import is_keys

__all__ = ["callback", "print"]


def print(fmt: str, /, *args: PyTree, **kwargs: PyTree) -> None:
    """Print whole named arrays while a program runs, once.

    In a mapped body one device prints for all devices. The text of an array is its type, as the
    program sees it, and its elements.

    Args:
      fmt: a format string, as of `jax.debug.print`: `"{}"`, `"{x}"`, `"{x!r}"`, or `"{x:.2f}"`,
        which formats each element.
      *args: the values of `{}`: pytrees of named arrays, arrays and others.
      **kwargs: the values of `{x}`.

    Communication: one all-gather of each value for each mesh axis over which it is sharded. Remove
    the call before you measure time, memory or communication.

    The call changes no result and no gradient. It prints in the forward pass only, also under
    `jax.checkpoint`. A loop prints in each of its steps. Under `jax.vmap`, and in functions of
    single elements (`nx.vmap`, `nx.nmap`), it prints once for all elements, with the hidden axes. A
    `SerialLoop` over an axis of the value prints the whole axis, after its last step. JAX does not
    promise an order of independent prints. `jax.effects_barrier()` waits for all of them. With
    several processes, the process of the first device prints.

    Raises:
      ArgumentTypeError: `fmt` is not a string.
      ArgumentError: the format string and the values do not match.
      PipelineError: a value in a pipeline has one microbatch of an axis.
      PlacementConflictError: it would gather values in a loop or a branch of JAX whose condition
        differs between devices, so that some would wait for others forever.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((2,), ("x",))
    >>> def double(v):
    ...     nx.debug.print("v = {v}", v=v)
    ...     return 2 * v
    >>> v = nx.named(jnp.arange(4.0), ["batch"])
    >>> f = nx.xmap(double, axis_resources={"batch": "x"}, mesh=mesh)
    >>> _ = f(v), jax.effects_barrier()
    v = f32[]{batch:4@x}
    [0. 1. 2. 3.]
    """
    if not isinstance(fmt, str):
        raise ArgumentTypeError(
            f"nx.debug.print: the first argument must be a format string, got {format_value(fmt)}."
            ' Write nx.debug.print("{}", x), or nx.debug.print("{x}", x=x).'
        )
    _check_format(fmt, args, kwargs)
    options = np.get_printoptions()

    def show(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # NumPy's options belong to a thread
        with np.printoptions(**options):
            text = fmt.format(*args, **kwargs)
        builtins.print(text)

    _call("debug.print", show, args, kwargs)


@checks_signature
def callback(function: Callable[..., object], /, *args: PyTree, **kwargs: PyTree) -> None:
    """Call a Python function with whole named arrays while a program runs, once.

    In a mapped body the function is called on one device, with the values of all devices.

    Args:
      function: the function; its result is ignored. It gets named arrays of NumPy data, and NumPy
        arrays for arrays without names. Along mesh axes over which an array differs without a name,
        such as `x.data`, it gets the blocks stacked in the first dimension.
      *args: pytrees of named arrays, arrays and others.
      **kwargs: the same by keyword.

    Communication: as `nx.debug.print`.

    Under transformations it behaves as `nx.debug.print`. The function must not call JAX on arrays,
    which may wait for the program that waits for it.

    Raises:
      ArgumentTypeError: `function` cannot be called.
      PipelineError, PlacementConflictError: as `nx.debug.print`.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh, seen = jax.make_mesh((2,), ("x",)), []
    >>> def double(v):
    ...     nx.debug.callback(seen.append, v)
    ...     return 2 * v
    >>> v = nx.named(jnp.arange(4.0), ["batch"])
    >>> f = nx.xmap(double, axis_resources={"batch": "x"}, mesh=mesh)
    >>> _ = f(v), jax.effects_barrier()
    >>> [(x.dims, x.data.tolist()) for x in seen]
    [(('batch',), [0.0, 1.0, 2.0, 3.0])]
    """
    if not callable(function):
        raise ArgumentTypeError(
            f"nx.debug.callback: the first argument must be a function, got"
            f" {format_value(function)}. Write nx.debug.callback(f, x)."
        )

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        args, kwargs = jax.tree.map(
            lambda leaf: leaf.result() if isinstance(leaf, Value) else leaf, (args, kwargs)
        )
        function(*args, **kwargs)

    _call("debug.callback", run, args, kwargs)


def _call(
    op: str,
    function: Callable[[tuple[Any, ...], dict[str, Any]], None],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> None:
    """Make the program call `function` with the arguments, in which arrays are `Value`s."""
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: is_named(x) or x is None)
    call_with_values(op, lambda leaves: function(*jax.tree.unflatten(tree, leaves)), leaves)


class _Checker(string.Formatter):
    """A formatter that finds values which a format string does not use."""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [repr(name) for name in kwargs if name not in used_args]
        unused += [str(i) for i in builtins.range(len(args)) if i not in used_args]
        if unused:
            raise ArgumentError(
                f"nx.debug.print: the format string uses no value {', '.join(unused)}. Write a"
                " placeholder for each value, such as {} or {x}."
            )

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return ""

    def get_value(self, key: int | str, args: Any, kwargs: Any) -> Any:
        try:
            return super().get_value(key, args, kwargs)
        except (IndexError, KeyError):
            raise ArgumentError(
                f"nx.debug.print: the format string uses {key!r}, but there is no such value. Pass"
                f" it, as in nx.debug.print({'{x}' if isinstance(key, str) else '{}'!r}, ...)."
            ) from None


def _check_format(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if a format string and its values do not match, before the program runs."""
    args, kwargs = jax.tree.map(_sample, (args, kwargs), is_leaf=lambda x: is_named(x) or x is None)
    try:
        _Checker().vformat(fmt, args, kwargs)
    except ArgumentError:
        raise
    except ValueError as error:
        raise ArgumentError(
            f"nx.debug.print: {fmt!r} is not a format string: {error}. Write {{{{ and }}}} for"
            " braces."
        ) from error
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise _not_formatted(fmt, error) from error
    try:
        fmt.format(*args, **kwargs)
    except Exception as error:
        raise _not_formatted(fmt, error) from error


def _sample(leaf: Any) -> Any:
    """Return a value of one element for an array, which is formatted like it."""
    if not (is_named(leaf) or hasattr(leaf, "dtype")):
        return leaf
    dtype = jnp.uint32 if is_keys(leaf) else leaf.dtype
    return Value(np.zeros((), dtype), (), (), dtype)


def _not_formatted(fmt: str, error: Exception) -> ArgumentError:
    return ArgumentError(
        f"nx.debug.print: {fmt!r} cannot format its values: {error}. Use a format of one element,"
        " such as {x:.2f}, and pass other facts of an array as values, such as shape=x.shape."
    )
