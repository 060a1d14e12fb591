"""`gated_delta_rule`: linear attention whose state forgets what it had for a key.

Within a chunk the updates depend on each other: each one reads the state that the earlier ones have
written. A triangular system, which is independent of the state before the chunk, solves for all of
them (Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence
Length"). After that a chunk maps the state linearly, and a scan carries the state over the chunks.
Along sharded positions the scan also carries the product of the maps, a matrix {feature, feature},
so that devices can combine the maps of their blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import ArrayLike
from namedax.core.variance import cast_data
from namedax.ops.nn.decay_sums import DecaySums
from namedax.ops.nn.recurrence import Map, Recurrence, recur
from namedax.ops.operands.operation import operation

__all__ = ["FUNCTIONS", "gated_delta_rule"]

_OP = "gated_delta_rule"


@operation(
    lambda *_, axis="pos", features="key", **__: (axis, features), on_blocks=True, scope=True
)
def gated_delta_rule(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    axis: Hashable = "pos",
    features: Hashable = "key",
    beta: ArrayLike,
    decay: ArrayLike | None = None,
    state: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    scale: ArrayLike = 1.0,
    chunk_size: int = 64,
    return_state: bool = False,
) -> Any:
    """Compute linear attention whose state is corrected by the delta rule.

    Every instance of the batch axes has a state, a matrix of the features of keys and of values. At
    a position t it decays, and then the value that it has for the key changes towards `value[t]`:

        state = exp(decay[t]) * state
        state = state + beta[t] * outer(key[t], value[t] - key[t] @ state)
        result[t] = scale * query[t] @ state

    This is the recurrence of Gated DeltaNet and Qwen3-Next (`decay` for each head), of Kimi Linear
    (for each feature) and of DeltaNet (no decay). Queries and keys are used as they are. For these
    models divide both by their Euclidean norm along `features` before; the scale is one over the
    root of the number of features. Axes align as in `nx.nn.linear_attention`.

    Args:
      query: a named array with `axis` and `features`.
      key: a named array with `axis` and `features`. The state grows without bounds if `beta` times
        the squared norm of a key is above 2.
      value: a named array with `axis`. Its axes that no other array but `state` has become axes of
        the result.
      axis: the axis name of the positions, by default `"pos"`.
      features: the axis name over which queries and keys are contracted, by default `"key"`.
      beta: the size of each update, usually from 0 to 1: a number or an array that broadcasts.
      decay: as in `nx.nn.linear_attention`, by default `None`.
      state: as in `nx.nn.linear_attention`, by default 0.
      segments: as in `nx.nn.linear_attention`, by default `None`.
      scale: a factor of the queries, a number or an array that broadcasts, by default 1.
      chunk_size: as in `nx.nn.linear_attention`, by default 64.
      return_state: if `True`, also return the state after the last position; by default `False`.

    Returns:
      As `nx.nn.linear_attention`.

    Communication: none, unless positions or features are sharded. Over positions on n devices
    ceil(log2(n)) permutes of two matrices, {features, value features} and {features, features}, and
    as many in the gradient; positions are never sent. `segments` add one number of each row.
    `return_state` adds one all-reduce of the state. Over sharded features one all-gather of each
    array that has them.

    Raises:
      AxisNotFoundError: an array lacks an axis.
      AxisNameError: `value`, `beta` or `segments` has the axis `features`, or `state` has `axis`.
      AxisSizeError: an axis has two sizes.
      PlacementConflictError: two axes of the arrays are sharded over one mesh axis.
      ArgumentError: `chunk_size` is not a positive integer.
      ArgumentTypeError: an array is not of floating-point numbers, or `segments` not of integers.

    Source: Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks: Improving Mamba2 with Delta
    Rule".

    >>> import jax.numpy as jnp, namedax as nx
    >>> k = nx.named(jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), ["pos", "key"])
    >>> v = nx.named(jnp.array([[1.0], [2.0], [3.0]]), ["pos", "value"])
    >>> nx.nn.linear_attention(k, k, v).data.ravel()  # the sum of the values of this key
    Array([1., 2., 4.], dtype=float32)
    >>> nx.nn.gated_delta_rule(k, k, v, beta=1.0).data.ravel()  # its last value
    Array([1., 2., 3.], dtype=float32)
    """
    operands = {
        "query": query,
        "key": key,
        "value": value,
        "decay": decay,
        "beta": beta,
        "state": state,
        "segments": segments,
    }
    given = (axis, features, operands, scale, chunk_size, return_state)
    # Every update reads all features of the state.
    return recur(_OP, _attend, *given, gathers_features=True)


def _attend(blocks: Recurrence) -> tuple[jax.Array, jax.Array]:
    """Return the result of each chunk, and the last state."""
    query, key, value, beta = blocks.query, blocks.key, blocks.value, blocks.beta
    assert beta is not None
    decays = DecaySums(blocks.decay, key.dtype)
    inverse = _inverse(beta * decays.products(key, key)) * jnp.swapaxes(beta, -1, -2)
    # The changes that a chunk writes are `added - read @ state`, for the state before the chunk.
    added, read = inverse @ value, inverse @ (key * decays.from_start)
    write = jnp.swapaxes(key * decays.to_end, -1, -2)
    total = decays.total
    if not decays.has_decay:
        total = jnp.broadcast_to(total, (key.shape[-3], 1, 1))

    def run(added: jax.Array, state: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        return _over_chunks((added, read, write, total), state, blocks.variance)

    if blocks.place:
        states, block = run(added, None)
        identity = jnp.eye(key.shape[-1], dtype=key.dtype)
        products, product = run(jnp.zeros_like(total[..., :1, :]), identity)
        state = blocks.enter([block, product], _combined, _applied)
        before, last = _applied([states, products], state), _applied([block, product], state)
    else:
        before, last = run(added, blocks.state)
    before = jnp.moveaxis(before, 0, key.ndim - 3)
    changes = added - read @ before
    result = decays.attend(query, key, changes) + decays.read(query, before)
    return result, last


def _inverse(products: jax.Array) -> jax.Array:
    """Return the inverse of the identity plus the part of matrices below their diagonal."""
    size = products.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(size, dtype=products.dtype), products.shape)
    if size == 1:
        return identity
    return lax.linalg.triangular_solve(
        products, identity, left_side=True, lower=True, unit_diagonal=True
    )


def _over_chunks(
    chunks: Sequence[jax.Array], state: jax.Array | None, variance: frozenset[str]
) -> tuple[jax.Array, jax.Array]:
    """Return the states before all chunks, along the leading dimension, and after the last one."""
    chunks = tuple(jnp.moveaxis(x, x.ndim - 3, 0) for x in chunks)
    added, _, write, _ = chunks
    first = jnp.zeros((), write.dtype) if state is None else state
    columns = added.shape[-1] if state is None else state.shape[-1]
    shapes = [x.shape[1:-2] for x in chunks] + ([] if state is None else [state.shape[:-2]])
    shape = (*jnp.broadcast_shapes(*shapes), write.shape[-2], columns)

    def step(state: jax.Array, chunk: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
        added, read, write, total = chunk
        return total * state + write @ (added - read @ state), state

    start = cast_data(jnp.broadcast_to(first, shape), variance)
    last, before = lax.scan(step, start, chunks)
    return before, last


def _combined(first: Map, second: Map) -> Map:
    """Combine two maps of states: what they add, and the matrix of the state."""
    (added, matrix), (more, later) = first, second
    return [later @ added + more, later @ matrix]


def _applied(block: Map, state: jax.Array | None) -> jax.Array:
    added, matrix = block
    return added if state is None else added + matrix @ state


FUNCTIONS: dict[str, Callable[..., Any]] = {_OP: gated_delta_rule}
