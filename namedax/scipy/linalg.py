"""The namespace `nx.scipy.linalg`: `jax.scipy.linalg` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.scipy.linalg")
__getattr__, __dir__ = _space.get, _space.names
