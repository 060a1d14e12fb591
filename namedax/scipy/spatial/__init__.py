"""The namespace `nx.scipy.spatial`: `jax.scipy.spatial` for named arrays."""

from namedax.scipy.spatial import transform as transform

__all__ = ["transform"]
