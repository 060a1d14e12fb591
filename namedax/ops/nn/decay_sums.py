"""Products of queries and keys under a decaying state, within chunks of positions.

The weight of position s at position t is the exponential of the sum of the log decays after s, up
to t. All sums here are sums of consecutive log decays and never differences of longer sums. So a
log decay of minus infinity (a state that starts anew) gives the weight 0, and large sums cancel
nothing.

Chunks are divided into blocks of up to 16 positions. Only within a block are there weights of each
two positions. From earlier blocks the weight is a product: the decay from s to the start of the
block, and from there to t (Yang et al. 2023, "Gated Linear Attention Transformers with
Hardware-Efficient Training"). So the decays of every feature need contractions only, and one decay
for all features needs a few operations on all products.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.names import DType

__all__ = ["BLOCK", "DecaySums"]

#: The number of positions of a block. Chunks have fewer positions, or a multiple of it.
BLOCK = 16


def _until(x: jax.Array) -> jax.Array:
    """Return the sums from the start up to each position, along the dimension before the last."""
    return lax.cumsum(x, axis=x.ndim - 2)


def _after(x: jax.Array) -> jax.Array:
    """Return the sums of what comes after each position, along the dimension before the last."""
    later = jnp.concatenate([x[..., 1:, :], jnp.zeros_like(x[..., :1, :])], axis=-2)
    return lax.cumsum(later, axis=x.ndim - 2, reverse=True)


def _between(x: jax.Array, inclusive: bool) -> jax.Array:
    """Return `sum(x[..., s + 1 : t])`, or up to t if `inclusive`, as an array [..., t, s, feature].

    It is minus infinity where s is after t, and where s is t unless `inclusive`.
    """
    size, reach = x.shape[-2], 0 if inclusive else 1
    if not inclusive:  # before the sums, so that products are computed where they are used
        x = jnp.concatenate([jnp.zeros_like(x[..., :1, :]), x[..., :-1, :]], axis=-2)
    t, s = jnp.arange(size)[:, None, None] - reach, jnp.arange(size)[:, None]
    sums = lax.cumsum(jnp.where(t > s, x[..., :, None, :], 0), axis=x.ndim - 2)
    return jnp.where(t >= s, sums, -jnp.inf)


def _blocks(x: jax.Array) -> jax.Array:
    """Split positions, the dimension before the last, into blocks."""
    *batch, size, last = x.shape
    block = min(size, BLOCK)
    return x.reshape((*batch, size // block, block, last))


def _joined(x: jax.Array) -> jax.Array:
    """Join the blocks of positions."""
    return x.reshape((*x.shape[:-3], x.shape[-3] * x.shape[-2], x.shape[-1]))


def _transposed(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, -1, -2)


class DecaySums:
    """The decays of chunks: an array [..., position, feature] of log decays, or none.

    The features are one number, or one for each feature of the keys.

    Attributes:
      from_start: the decay of the state from the start of the chunk up to each position.
      to_end: the decay from each position to the end of the chunk.
      total: the decay of the complete chunk, as [..., feature or 1, 1].
    """

    def __init__(self, decay: jax.Array | None, dtype: DType):
        self._decay = decay
        self.from_start = self.to_end = self.total = jnp.ones((1, 1), dtype)
        if decay is not None:
            self.from_start, self.to_end = jnp.exp(_until(decay)), jnp.exp(_after(decay))
            self.total = jnp.exp(jnp.sum(decay, -2))[..., None]

    def read(self, query: jax.Array, state: jax.Array) -> jax.Array:
        """Return the products of queries with the decayed state from before the chunk."""
        if self.from_start.shape[-1:] == query.shape[-1:]:
            return (query * self.from_start) @ state
        return (query @ state) * self.from_start  # heads may share queries

    def added(self, key: jax.Array, value: jax.Array) -> jax.Array:
        """Return the state after the chunk, if it is 0 before: [..., feature, value feature]."""
        if self.to_end.shape[-1:] == key.shape[-1:]:
            return _transposed(key * self.to_end) @ value
        return _transposed(key) @ (value * self.to_end)

    @property
    def has_decay(self) -> bool:
        """Return True unless there is no decay."""
        return self._decay is not None

    def attend(self, query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        """Return the values up to each position, weighted by the decayed products."""
        if self._decay is None:
            return self.products(query, key) @ value
        products = self._products(query, key)
        return _joined(jnp.einsum("...itjs,...jsv->...itv", products, _blocks(value)))

    def products(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """Return the decayed products of positions t and s: [..., t, s], 0 where s is after t."""
        if self._decay is None:
            return jnp.tril(query @ _transposed(key))
        products = self._products(query, key)
        return products.reshape((*products.shape[:-4], query.shape[-2], query.shape[-2]))

    def _products(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """Return the products as [..., block, t, block, s]."""
        assert self._decay is not None
        if self._decay.shape[-1] > 1:
            return _by_feature(query, key, self._decay)
        return jnp.einsum("...itk,...jsk->...itjs", _blocks(query), _blocks(key)) * self._weights

    @functools.cached_property
    def _weights(self) -> jax.Array:
        """Return the weights of one decay for all features: [..., block, t, block, s]."""
        assert self._decay is not None
        decay = _blocks(self._decay)
        within = jnp.exp(_between(decay, inclusive=True)[..., 0])
        if decay.shape[-3] == 1:
            return within[..., :, :, None, :]
        until = jnp.exp(_until(decay))[..., :, :, :, None]
        return _placed(within, until * jnp.exp(_to_blocks(decay)[..., 0])[..., :, None, :, :])


def _placed(within: jax.Array, earlier: jax.Array) -> jax.Array:
    """Return `within`, [..., block, t, s], for the block of t, and `earlier` for other blocks."""
    is_same = jnp.eye(within.shape[-3], dtype=bool)[:, None, :, None]
    return jnp.where(is_same, within[..., :, :, None, :], earlier)


def _to_blocks(decay: jax.Array) -> jax.Array:
    """Return the sums from each position to the start of each later block.

    The argument is [..., block, position, feature], and the result [..., later block, block,
    position, feature]. It is minus infinity where the block is not before the later one.
    """
    between = _between(jnp.sum(decay, -2), inclusive=False)
    return between[..., None, :] + _after(decay)[..., None, :, :, :]


@jax.checkpoint
def _by_feature(query: jax.Array, key: jax.Array, decay: jax.Array) -> jax.Array:
    """Return the products with a decay for every feature: [..., block, t, block, s].

    The backward pass computes the weights of each two positions of a block again.
    """
    query, key, decay = map(_blocks, (query, key, decay))
    weights = jnp.exp(_between(decay, inclusive=True))  # [..., block, t, s, feature]
    within = jnp.sum(query[..., :, None, :] * key[..., None, :, :] * weights, -1)
    if within.shape[-3] == 1:
        return within[..., :, :, None, :]
    earlier = key[..., None, :, :, :] * jnp.exp(_to_blocks(decay))
    query = query * jnp.exp(_until(decay))
    return _placed(within, jnp.einsum("...itk,...ijsk->...itjs", query, earlier))
