"""`cost`: the declared cost of a function, for kernels whose program does not show it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import jax
import numpy as np

from namedax.core.kernel_scopes import KernelCall, new_call
from namedax.core.user_code import call_user_code
from namedax.errors import ArgumentError, ArgumentTypeError, format_value
from namedax.messages.call_errors import checks_signature
from namedax.primitives.costs import largest_result

__all__ = ["Amount", "cost"]

P = ParamSpec("P")
R = TypeVar("R")

#: A number, or a function from the types of the arguments of a call to a number.
Amount: TypeAlias = float | Callable[..., float]


@checks_signature
def cost(
    kernel: Callable[P, R],
    *,
    flops: Amount,
    bytes: Amount,
    gradient_flops: Amount | None = None,
    gradient_bytes: Amount | None = None,
) -> Callable[P, R]:
    """Declare the cost of a function: reports count each of its calls as one operation.

    Use it for a kernel, such as a flash attention in Pallas, whose program does not show its
    operations and its memory traffic. `nx.explain` then charges the declared cost for each call,
    and nothing for the operations within. Arrays within a call take no memory in the estimate of
    the peak; its results do. Collectives within a call are still listed.

    The function may be called anywhere: in the bodies of mapped functions, under `jax.jit`,
    `jax.grad`, `jax.vmap`, `jax.checkpoint` and in loops. Under `jax.vmap` and `nx.nmap` the cost
    is that of one instance, times the number of instances. In the body of a mapped function the
    arguments are the blocks of one device. Values, gradients and the compiled program do not
    change.

    Args:
      kernel: the function. Its arguments and results are pytrees of arrays.
      flops: the floating-point operations of a call; a multiply-add counts as two. A number, or a
        function of the arguments that returns it. It gets each array as a `jax.ShapeDtypeStruct`.
      bytes: the bytes that a call reads from memory and writes to it, in the same form.
      gradient_flops: the same for the backward pass. Default: twice `flops`, as for a product. A
        flash attention, which computes the scores again, has 2.5 times `flops`.
      gradient_bytes: the same for the backward pass. Default: twice `bytes`.

    Returns:
      A function like `kernel`.

    Raises:
      ArgumentTypeError: `kernel` is not a function, or an amount is neither a number nor a
        function.
      ArgumentError: an amount is negative or not finite.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> def attend(q, k, v):
    ...     return jax.nn.softmax(q @ k.T, -1) @ v
    >>> flash = nx.machines.cost(
    ...     attend,
    ...     flops=lambda q, k, v: 4 * q.shape[0] * k.shape[0] * q.shape[1],
    ...     bytes=lambda q, k, v: 4 * (2 * q.size + k.size + v.size),
    ... )
    >>> q = jax.ShapeDtypeStruct((1024, 64), "float32")
    >>> [(step.kind, step.flops, step.bytes) for step in nx.explain(flash, q, q, q).steps]
    [('attend', 268435456.0, 1048576)]
    """
    if not callable(kernel):
        raise ArgumentTypeError(
            f"cost: the first argument must be a function, got {format_value(kernel)}. Write"
            " nx.machines.cost(kernel, flops=..., bytes=...)."
        )
    amounts = {"flops": flops, "bytes": bytes}
    amounts |= {
        name: amount
        for name, amount in (("gradient_flops", gradient_flops), ("gradient_bytes", gradient_bytes))
        if amount is not None
    }
    for name, amount in amounts.items():
        if not callable(amount):
            _number(name, amount)
    text = getattr(getattr(kernel, "func", kernel), "__name__", type(kernel).__name__)

    @functools.wraps(kernel)
    def with_cost(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = jax.tree.flatten((args, kwargs))
        types, keywords = jax.tree.unflatten(tree, [_type_of(leaf) for leaf in leaves])
        known = {
            name: _number(
                name, call_user_code(amount, *types, **keywords) if callable(amount) else amount
            )
            for name, amount in amounts.items()
        }
        call = KernelCall(
            text,
            known["flops"],
            known["bytes"],
            known.get("gradient_flops", 2 * known["flops"]),
            known.get("gradient_bytes", 2 * known["bytes"]),
            largest_result(jax.make_jaxpr(kernel)(*args, **kwargs).jaxpr),
        )
        with jax.named_scope(new_call(call)):
            return call_user_code(kernel, *args, **kwargs)

    return with_cost


def _type_of(leaf: Any) -> Any:
    is_array = isinstance(leaf, (jax.Array, np.ndarray))
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if is_array else leaf


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(
            f"cost: {name}={format_value(value)} is not a number. Pass a number, or a function of"
            " the arguments that returns one."
        )
    if not 0 <= value < math.inf:
        raise ArgumentError(
            f"cost: {name}={format_value(value)} must be zero or positive, and finite. Count the"
            " operations or bytes of one call."
        )
    return float(value)
