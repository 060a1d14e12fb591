"""Attention over positional axes: the function of JAX, and the same with a soft cap."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.errors import (
    ArgumentError,
    AxisNotFoundError,
    PositionalAxisError,
    format_value,
)
from namedax.ops.nn.attention_fused import check_platform
from namedax.ops.nn.attention_operands import OPERATION
from namedax.ops.operands.nmap import nmap

__all__ = ["checked_cap", "without_names"]


def checked_cap(soft_cap: object) -> float | None:
    """Return the limit of the scores.

    Raises:
      ArgumentError: it is not a positive number.
    """
    if soft_cap is None:
        return None
    is_number = isinstance(soft_cap, (int, float, np.integer, np.floating))
    if not is_number or isinstance(soft_cap, bool) or not 0 < float(soft_cap) < math.inf:  # type: ignore[arg-type]
        raise ArgumentError(
            f"{OPERATION}: soft_cap must be a positive number, got {format_value(soft_cap)}. Leave"
            " it out for scores without a limit."
        )
    return float(soft_cap)  # type: ignore[arg-type]


#: The arrays of the form by name that JAX's function lacks.
_ARRAYS = ("segments", "key_segments", "sinks")


def without_names(given: Mapping[str, object]) -> AnyArray:
    """Compute attention over the positional axes, given all arguments by name."""
    by_name = [
        name
        for name in (
            "features",
            "key_axis",
            "heads",
            "key_heads",
            "segments",
            "key_segments",
            "sinks",
            "balance",
        )
        if given[name] is not None
    ]
    if by_name:
        value = given[by_name[0]]
        given_as = type_text(value) if by_name[0] in _ARRAYS else repr(value)
        raise AxisNotFoundError(
            f"{OPERATION}: {by_name[0]}={given_as} requires axis=. Pass the axis name of the query"
            " positions too; without it attention is over the positional axes, as in jax.nn."
        )
    soft_cap = checked_cap(given["soft_cap"])
    arrays = [given[name] for name in ("query", "key", "value", "bias", "mask")]
    options = (
        "scale",
        "is_causal",
        "query_seq_lengths",
        "key_value_seq_lengths",
        "local_window_size",
        "implementation",
    )
    for which in ("query", "key", "value"):
        array = given[which]
        if isinstance(array, NamedArray) and array.ndim == 0:
            raise PositionalAxisError(
                f"{OPERATION}: without axis= positions, heads and features are positional axes, but"
                f" {which} is {type_text(array)}. Pass the axis names: axis= for the query"
                " positions, features= for the contracted axis."
            )
    chosen = {k: given[k] for k in options} | {"return_residual": given["return_residual"]}
    if soft_cap is None:
        if chosen["implementation"] == "cudnn":
            check_platform()
        return _plain(*arrays, **chosen)
    if chosen.pop("implementation") == "cudnn":
        raise ArgumentError(
            f"{OPERATION}: implementation='cudnn' has no soft_cap. Leave out implementation=."
        )
    return _capped(*arrays, **chosen, soft_cap=soft_cap)


def _with_cap(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: jax.Array | None,
    mask: jax.Array | None,
    *,
    soft_cap: float,
    scale: jax.typing.ArrayLike | None,
    is_causal: bool,
    query_seq_lengths: jax.Array | None,
    key_value_seq_lengths: jax.Array | None,
    local_window_size: int | tuple[int, int] | None,
    return_residual: bool,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Compute `jax.nn.dot_product_attention` with a limit on the scores before the bias."""
    jax.eval_shape(  # checks the shapes
        functools.partial(
            jax.nn.dot_product_attention,
            is_causal=is_causal,
            local_window_size=local_window_size,
        ),
        *(query, key, value, bias, mask),
        query_seq_lengths=query_seq_lengths,
        key_value_seq_lengths=key_value_seq_lengths,
    )
    shape = jnp.shape(query)
    q, k, v = (jnp.asarray(x).reshape((-1, *jnp.shape(x)[-3:])) for x in (query, key, value))
    (batch, queries, heads, features), (keys, key_heads) = q.shape, k.shape[1:3]
    wide = jnp.promote_types(q.dtype, jnp.float32)
    grouped = q.reshape(batch, queries, key_heads, heads // key_heads, features)
    scores = jnp.einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=wide)
    scores = scores.reshape(batch, heads, queries, keys)
    scores = scores * jnp.asarray(features**-0.5 if scale is None else scale, wide)
    scores = soft_cap * jnp.tanh(scores / soft_cap)
    if bias is not None:
        scores = (scores + bias).astype(wide)
    i, j = jnp.arange(queries)[:, None], jnp.arange(keys)
    allowed = [] if mask is None else [mask]
    if is_causal:
        allowed.append(j <= i)
    if local_window_size is not None:
        reach = local_window_size
        left, right = (reach, reach) if isinstance(reach, (int, np.integer)) else reach
        allowed.append((i - j <= left) & (j - i <= right))
    if query_seq_lengths is not None:
        allowed.append(i < query_seq_lengths[:, None, None, None])
    if key_value_seq_lengths is not None:
        allowed.append(j < key_value_seq_lengths[:, None, None, None])
    least = -0.7 * float(jnp.finfo(jnp.float32).max)  # finite, as in JAX
    for each in allowed:
        scores = jnp.where(each, scores, least)
    scores = scores.astype(jnp.float32)
    weights = jax.nn.softmax(scores).astype(k.dtype)
    weights = weights.reshape(batch, key_heads, heads // key_heads, queries, keys)
    result = jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(q.shape)
    if query_seq_lengths is not None:
        is_query = jnp.arange(queries) < query_seq_lengths[:, None]
        result = result * is_query[:, :, None, None].astype(result.dtype)
    if not return_residual:
        return result.reshape(shape)
    total = jnp.swapaxes(jax.nn.logsumexp(scores, axis=-1), 1, 2).astype(k.dtype)
    return result.reshape(shape), lax.stop_gradient(total.reshape(shape[:-1]))


_plain, _capped = nmap(jax.nn.dot_product_attention), nmap(_with_cap)
