"""The namespace `nx.scipy.sparse`: `jax.scipy.sparse` for named arrays."""

from namedax.scipy.sparse import linalg as linalg

__all__ = ["linalg"]
