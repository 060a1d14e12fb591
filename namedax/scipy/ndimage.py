"""The namespace `nx.scipy.ndimage`: `jax.scipy.ndimage` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.scipy.ndimage")
__getattr__, __dir__ = _space.get, _space.names
