"""The namespace `nx.scipy.integrate`: `jax.scipy.integrate` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.scipy import INTEGRATE as _OWN

_space = _Namespace(__name__, "jax.scipy.integrate", _OWN)
__getattr__, __dir__ = _space.get, _space.names
