"""The namespace `nx.numpy.linalg`: `jax.numpy.linalg` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.numpy import LINALG as _OWN

_space = _Namespace(__name__, "jax.numpy.linalg", _OWN)
__getattr__, __dir__ = _space.get, _space.names
