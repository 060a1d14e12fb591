"""`combine_attention`: attention to all keys from attentions to parts of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import as_array, dims_of
from namedax.core.display import type_text
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    format_value,
    show_names,
)
from namedax.ops.elementwise import elementwise_call
from namedax.ops.operands import kernels
from namedax.ops.operands.operation import operation

__all__ = ["FUNCTIONS", "combine_attention"]

_OP = "combine_attention"
_REMEDY = "Pass pairs as dot_product_attention(..., return_residual=True) returns them."


@operation(lambda *_, **__: (), scope=True)
def combine_attention(
    parts: Sequence[tuple[ArrayLike, ArrayLike]],
) -> tuple[AnyArray, AnyArray]:
    """Combine attentions of the same queries to different keys.

    Every part is a pair of `nx.nn.dot_product_attention(..., return_residual=True)`: the result,
    and the logarithm of the sum of the exponentials of the scores. The combination is the pair of
    attention to the keys of all parts. So a loop over blocks of keys can carry one pair.

    Args:
      parts: the pairs. Their axes align by name. At most one of them has sinks.

    Returns:
      The result and the logarithm of the sum. A part whose logarithm is minus infinity has no
      weight. If this holds for all parts, the result is 0 and the logarithm minus infinity.

    Communication: none.

    Raises:
      ArgumentError: there are no parts.
      ArgumentTypeError: a part is not a pair of floating-point arrays.
      AxisNameError: a logarithm has an axis that its result lacks.
      AxisSizeError: an axis has two sizes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> q = nx.named(jnp.ones((2, 3)), ["pos", "d"])
    >>> k = nx.named(jnp.arange(12.0).reshape(4, 3), ["key", "d"])
    >>> names = {"axis": "pos", "features": "d", "key_axis": "key"}
    >>> parts = [k["key", :2], k["key", 2:]]
    >>> pairs = [nx.nn.dot_product_attention(q, x, x, **names, return_residual=True) for x in parts]
    >>> result, _ = nx.nn.combine_attention(pairs)
    >>> bool(nx.allclose(result, nx.nn.dot_product_attention(q, k, k, **names)))
    True
    """
    pairs = _checked(parts)
    logs = [log for _, log in pairs]
    total = kernels.run_elementwise(_OP, _TOTAL, (), *logs)
    result = kernels.run_elementwise(_OP, _SUM, (), total, *(x for pair in pairs for x in pair))
    return result, total


def _log_of_sum(*logs: jax.Array) -> jax.Array:
    """Return the logarithm of the sum of exponentials."""
    logs = tuple(map(_wide, logs))
    finite = _finite(lax.stop_gradient(functools.reduce(jnp.maximum, logs)))
    total = sum(jnp.exp(log - finite) for log in logs)
    is_empty = total == 0
    return jnp.where(is_empty, -jnp.inf, finite + jnp.log(jnp.where(is_empty, 1, total)))


def _weighted_sum(total: jax.Array, *pairs: jax.Array) -> jax.Array:
    """Return the sum of the results, weighted by the shares of their sums in the total."""
    finite, results = _finite(total), pairs[::2]
    terms = (
        jnp.exp(_wide(log) - finite) * jnp.where(log == -jnp.inf, 0, _wide(result))
        for result, log in zip(results, pairs[1::2], strict=True)
    )
    return functools.reduce(jnp.add, terms).astype(jnp.result_type(*results))


_TOTAL, _SUM = (elementwise_call(f, __name__) for f in (_log_of_sum, _weighted_sum))


def _wide(data: jax.Array) -> jax.Array:
    return data.astype(jnp.promote_types(data.dtype, jnp.float32))


def _finite(logs: jax.Array) -> jax.Array:
    return jnp.where(logs == -jnp.inf, 0, logs)


def _checked(parts: Sequence[tuple[ArrayLike, ArrayLike]]) -> list[tuple[AnyArray, AnyArray]]:
    """Return the pairs as arrays."""
    if not isinstance(parts, (list, tuple)) or not parts:
        raise ArgumentError(
            f"{_OP}: parts must be a list of pairs, got {format_value(parts)}. {_REMEDY}"
        )
    pairs = []
    for i, part in enumerate(parts):
        if not isinstance(part, (list, tuple)) or len(part) != 2:
            kind = type_text(part) if hasattr(part, "dtype") else format_value(part)
            raise ArgumentTypeError(f"{_OP}: part {i} must be a pair, got {kind}. {_REMEDY}")
        result, log = (as_array(array, _OP) for array in part)
        for array in (result, log):
            if not jnp.issubdtype(array.dtype, jnp.floating):
                raise ArgumentTypeError(
                    f"{_OP}: part {i} must contain floating-point numbers, got"
                    f" {type_text(array)}. {_REMEDY}"
                )
        if strange := [
            dim for dim in dims_of(log) if dim is not None and dim not in dims_of(result)
        ]:
            raise AxisNameError(
                f"{_OP}: the logarithm of part {i}, {type_text(log)}, has {show_names(strange)},"
                f" which its result, {type_text(result)}, lacks. {_REMEDY}"
            )
        pairs.append((result, log))
    return pairs


FUNCTIONS: dict[str, Callable[..., Any]] = {"combine_attention": combine_attention}
