"""The namespace `nx.scipy.special`: `jax.scipy.special` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.scipy import SPECIAL as _OWN

_space = _Namespace(__name__, "jax.scipy.special", _OWN)
__getattr__, __dir__ = _space.get, _space.names
