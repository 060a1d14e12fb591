"""`linear_attention`: attention without a softmax, as a recurrence with a decaying state.

With a decay for each head it is the state-space duality of Mamba 2 (Dao & Gu 2024, "Transformers
are SSMs"), with a decay for each feature gated linear attention (Yang et al. 2023, "Gated Linear
Attention Transformers with Hardware-Efficient Training"), and with a constant decay retention (Sun
et al. 2023, "Retentive Network"). Chunks are computed as in these papers. The states of chunks, and
then of devices, are combined by associative scans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import ArrayLike
from namedax.core.prefix_scan import prefix_scan
from namedax.ops.nn.decay_sums import DecaySums
from namedax.ops.nn.recurrence import Map, Recurrence, recur
from namedax.ops.operands.operation import operation
from namedax.resources import communication as comm

__all__ = ["FUNCTIONS", "linear_attention"]

_OP = "linear_attention"


@operation(
    lambda *_, axis="pos", features="key", **__: (axis, features), on_blocks=True, scope=True
)
def linear_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    axis: Hashable = "pos",
    features: Hashable = "key",
    decay: ArrayLike | None = None,
    state: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    scale: ArrayLike = 1.0,
    chunk_size: int = 64,
    return_state: bool = False,
) -> Any:
    """Compute causal attention without a softmax, with a state that decays.

    Every instance of the batch axes has a state, a matrix of the features of keys and of values. A
    position t changes it, and then reads it:

        state = exp(decay[t]) * state + outer(key[t], value[t])
        result[t] = scale * query[t] @ state

    Mamba 2 (`decay` for each head), GLA (for each feature) and RetNet (constant) are of this form.
    Axes that no argument mentions (batch, heads) are batch axes, and broadcast by name. So heads
    that share queries and keys need a separate name: `key{batch, pos, groups, key}` and
    `value{batch, pos, groups, heads, value}`.

    Args:
      query: a named array with `axis` and `features`.
      key: a named array with `axis` and `features`.
      value: a named array with `axis`. Its axes that no other array but `state` has become axes of
        the result.
      axis: the axis name of the positions, by default `"pos"`.
      features: the axis name over which `query` and `key` are contracted, by default `"key"`.
      decay: the logarithm of the decay, a number or an array, by default `None` (no decay). It
        broadcasts by name: with `axis` for each position, with `features` for each feature. Minus
        infinity starts a new state.
      state: the state before the first position, with `features`, by default 0: the second result
        of an earlier call.
      segments: integers with `axis`, and any batch axes, by default `None`: the number of the
        packed sequence of each position. The positions of a sequence are consecutive. Each sequence
        begins with the state 0, except for the first one, which continues `state`. A position with
        a negative number belongs to no sequence: it does not change the state, and has the result
        0.
      scale: a factor of the queries, a number or an array that broadcasts, by default 1.
      chunk_size: the number of positions of a chunk, by default 64; above 16 it is rounded up to a
        multiple of 16. It changes time and memory, but not the result. Neither the positions nor
        the block of a device need to be a multiple of it.
      return_state: if `True`, also return the state after the last position; by default `False`.

    Returns:
      An array with the axes of `query`, the axes of `value` in place of `features`, and the batch
      axes of the others. It has the dtype of the operands. With `return_state` a pair: this array,
      and the state with these batch axes, `features` and the axes of `value`, of float32 (or
      float64). All computations are in this dtype.

    **Decoding.** With `state`, the arrays may have one position, or lack `axis`. A sequence in
    parts, each with the state of the part before, has the result of the complete sequence.

    Communication: none, unless positions or features are sharded. Over positions on n devices
    ceil(log2(n)) permutes of the state and of the total decay of each device, and as many in the
    gradient; positions are never sent. `segments` add one number of each row. `return_state` adds
    one all-reduce of the state. Over sharded features one all-reduce of the result.

    Raises:
      AxisNotFoundError: an array lacks an axis.
      AxisNameError: `value` has the axis `features`, `segments` has it, or `state` has `axis`.
      AxisSizeError: an axis has two sizes.
      PlacementConflictError: two axes of the arrays are sharded over one mesh axis.
      ArgumentError: `chunk_size` is not a positive integer.
      ArgumentTypeError: an array is not of floating-point numbers, or `segments` not of integers.

    Source: Dao & Gu 2024, "Transformers are SSMs: Generalized Models and Efficient Algorithms
    Through Structured State Space Duality".

    >>> import jax.numpy as jnp, namedax as nx
    >>> q = k = nx.named(jnp.ones((4, 2)), ["pos", "key"])
    >>> v = nx.named(jnp.ones((4, 1)), ["pos", "value"])
    >>> y, state = nx.nn.linear_attention(q, k, v, decay=jnp.log(0.5), return_state=True)
    >>> y.data.ravel()
    Array([2.  , 3.  , 3.5 , 3.75], dtype=float32)
    >>> q, k, v = (x["pos", 0] for x in (q, k, v))  # one more position
    >>> nx.nn.linear_attention(q, k, v, decay=jnp.log(0.5), state=state).data
    Array([3.875], dtype=float32)
    """
    operands = {
        "query": query,
        "key": key,
        "value": value,
        "decay": decay,
        "state": state,
        "segments": segments,
    }
    return recur(_OP, _attend, axis, features, operands, scale, chunk_size, return_state)


def _attend(blocks: Recurrence) -> tuple[jax.Array, jax.Array]:
    """Return the result of each chunk, and the last state."""
    query, key, value = blocks.query, blocks.key, blocks.value
    decays = DecaySums(blocks.decay, key.dtype)
    result = decays.attend(query, key, value)
    added = decays.added(key, value)
    maps = [added, decays.total] if decays.has_decay else [added]
    dim, count = added.ndim - 3, added.shape[-3]
    if count > 1:
        maps = prefix_scan(_combined, maps, axis=dim)
    block = [lax.index_in_dim(data, count - 1, dim, keepdims=False) for data in maps]
    state = blocks.enter(block, _combined, _applied)
    if count > 1 or state is not None:
        first = jnp.zeros((), added.dtype) if state is None else jnp.expand_dims(state, dim)
        until = [lax.slice_in_dim(data, 0, count - 1, axis=dim) for data in maps]
        later = _applied(until, None if state is None else first)
        first = jnp.broadcast_to(first, (*later.shape[:dim], 1, *later.shape[dim + 1 :]))
        result = result + decays.read(query, jnp.concatenate([first, later], dim))
    return comm.psum(result, blocks.feature_axes), _applied(block, state)


def _combined(first: Map, second: Map) -> Map:
    """Combine two maps of states: `added`, and the factor of the state if it decays."""
    if len(first) == 1:
        return [first[0] + second[0]]
    (added, factor), (more, later) = first, second
    return [later * added + more, factor * later]


def _applied(block: Map, state: jax.Array | None) -> jax.Array:
    added, *factor = block
    if state is None:
        return added
    return added + (factor[0] * state if factor else state)


FUNCTIONS: dict[str, Callable[..., Any]] = {_OP: linear_attention}
