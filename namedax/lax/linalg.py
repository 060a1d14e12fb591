"""The namespace `nx.lax.linalg`: `jax.lax.linalg` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.lax.linalg")
__getattr__, __dir__ = _space.get, _space.names
