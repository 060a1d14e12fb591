"""The namespace `nx.scipy.signal`: `jax.scipy.signal` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.scipy import SIGNAL as _OWN

_space = _Namespace(__name__, "jax.scipy.signal", _OWN)
__getattr__, __dir__ = _space.get, _space.names
