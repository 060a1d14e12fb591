"""`binary_cross_entropy`: elementwise cross-entropy of two classes, in `nx.nn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray
from namedax.core.call_errors import checks_signature
from namedax.core.display import type_text
from namedax.core.element_types import common_type
from namedax.errors import ArgumentTypeError
from namedax.ops.elementwise import apply_elementwise

__all__ = ["FUNCTIONS", "binary_cross_entropy"]

_OP = "binary_cross_entropy"


@checks_signature
def binary_cross_entropy(
    logits: Any, labels: Any, *, pos_weight: Any = None, where: Any = None
) -> AnyArray:
    """Compute the cross-entropy of the sigmoid of `logits` with labels between 0 and 1, in nats, for every element.

    Args:
      logits: an array, named or not.
      labels: probabilities, booleans or integers; they broadcast by name.
      pos_weight: the weight of the positive class relative to the negative one, a number or an
        array that broadcasts; by default 1.
      where: a boolean array that broadcasts, by default `None`. Elements where it is false have
        loss 0 and no gradient, for any logits and labels.

    Returns:
      An array with the axes of all arguments. It has the dtype of the logits, or float32 for 16-bit
      logits: the loss is computed in at least 32 bits. It avoids the logarithm of a rounded
      probability, so that it is finite for all finite logits. Apply `nx.mean` over the axes to
      average.

    Communication: none.

    Raises:
      ArgumentTypeError: the logits are complex, or `where` is not boolean.

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.array([0.0, 2.0]), ["k"])
    >>> nx.positional(nx.nn.binary_cross_entropy(logits, nx.named(jnp.array([1, 0]), ["k"])), ["k"]).round(3)
    Array([0.693, 2.127], dtype=float32)
    """
    logits, labels = (x if isinstance(x, NamedArray) else jnp.asarray(x) for x in (logits, labels))
    if jnp.issubdtype(logits.dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            f"{_OP}: the logits {type_text(logits)} are complex; write logits.real."
        )
    if where is not None:
        where = where if isinstance(where, NamedArray) else jnp.asarray(where)
        if where.dtype != jnp.bool_:
            raise ArgumentTypeError(
                f"{_OP}: where is {type_text(where)}, but it must be boolean; write where=weight"
                " != 0."
            )
    extra = [("weight", pos_weight)] * (pos_weight is not None) + [("where", where)] * (
        where is not None
    )
    kinds = [kind for kind, _ in extra]

    def loss(x: Any, y: Any, *more: Any) -> Any:
        given = dict(zip(kinds, more, strict=True))
        dtype = common_type(x.dtype, jnp.float32)
        x, y = x.astype(dtype), y.astype(dtype)
        if "where" in given:
            x, y = (jnp.where(given["where"], value, jnp.zeros((), dtype)) for value in (x, y))
        weight = jnp.asarray(given.get("weight", 1), dtype)
        result = -(weight * y * jax.nn.log_sigmoid(x) + (1 - y) * jax.nn.log_sigmoid(-x))
        return (
            jnp.where(given["where"], result, jnp.zeros((), dtype)) if "where" in given else result
        )

    return apply_elementwise(_OP, loss, logits, labels, *(value for _, value in extra))


FUNCTIONS: dict[str, Callable[..., Any]] = {_OP: binary_cross_entropy}
