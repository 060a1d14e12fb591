"""The namespace `nx.scipy.cluster`: `jax.scipy.cluster` for named arrays."""

from namedax.scipy.cluster import vq as vq

__all__ = ["vq"]
