"""The namespace `nx.scipy.integrate`: `jax.scipy.integrate` for named arrays."""

import jax.scipy.integrate as _module

from namedax.namespaces.lifting import Namespace as _Namespace
from namedax.namespaces.registry import INTEGRATE as _OWN

_space = _Namespace(__name__, _module, _OWN)
__getattr__, __dir__ = _space.get, _space.names
