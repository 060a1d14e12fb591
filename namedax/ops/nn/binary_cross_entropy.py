"""Cross-entropy of two classes, elementwise: `binary_cross_entropy`. In `nx.nn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from namedax.core.annotations import Array
from namedax.core.array import NamedArray
from namedax.core.call_errors import checks_signature
from namedax.core.display import type_text
from namedax.core.element_types import common_type
from namedax.errors import ArgumentTypeError
from namedax.ops.elementwise import apply_elementwise

__all__ = ["FUNCTIONS", "binary_cross_entropy"]

_OP = "binary_cross_entropy"


@checks_signature
def binary_cross_entropy(logits: Any, labels: Any, *, pos_weight: Any = None, where: Any = None) -> Array:
    """Cross-entropy of the sigmoid of `logits` with labels between 0 and 1, in nats, for every element.

    Args:
      logits: an array, named or not.
      labels: probabilities, truth values or integers; they broadcast by name.
      pos_weight: a number or an array that broadcasts: the weight of the positive class, relative to 1 for the negative one.
      where: a boolean array that broadcasts: where the loss counts. Elsewhere it is 0 and has no gradient, whatever logits and labels are.

    Returns:
      An array with the axes of all arguments; of the type of the logits, float32 for 16-bit ones: it is computed in at least 32 bits. No
      logarithm of a rounded probability is taken, so that it is finite for all finite logits. Take `nx.mean` over the axes that you
      mean. Sends nothing.

    Raises:
      ArgumentTypeError: the logits are complex, or `where` is not boolean.

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.array([0.0, 2.0]), ["k"])
    >>> nx.positional(nx.nn.binary_cross_entropy(logits, nx.named(jnp.array([1, 0]), ["k"])), ["k"]).round(3)
    Array([0.693, 2.127], dtype=float32)
    """
    logits, labels = (x if isinstance(x, NamedArray) else jnp.asarray(x) for x in (logits, labels))
    if jnp.issubdtype(logits.dtype, jnp.complexfloating):
        raise ArgumentTypeError(f"{_OP}: the logits {type_text(logits)} are complex; write logits.real.")
    if where is not None:
        where = where if isinstance(where, NamedArray) else jnp.asarray(where)
        if where.dtype != jnp.bool_:
            raise ArgumentTypeError(f"{_OP}: where is {type_text(where)}, but it must be boolean; write where=weight != 0.")
    extra = [("weight", pos_weight)] * (pos_weight is not None) + [("where", where)] * (where is not None)
    kinds = [kind for kind, _ in extra]

    def loss(x: Any, y: Any, *more: Any) -> Any:
        given = dict(zip(kinds, more, strict=True))
        dtype = common_type(x.dtype, jnp.float32)
        x, y = x.astype(dtype), y.astype(dtype)
        if "where" in given:
            x, y = (jnp.where(given["where"], value, jnp.zeros((), dtype)) for value in (x, y))
        weight = jnp.asarray(given.get("weight", 1), dtype)
        result = -(weight * y * jax.nn.log_sigmoid(x) + (1 - y) * jax.nn.log_sigmoid(-x))
        return jnp.where(given["where"], result, jnp.zeros((), dtype)) if "where" in given else result

    return apply_elementwise(_OP, loss, logits, labels, *(value for _, value in extra))


FUNCTIONS: dict[str, Callable[..., Any]] = {_OP: binary_cross_entropy}
