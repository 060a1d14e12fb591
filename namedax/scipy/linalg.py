"""The namespace `nx.scipy.linalg`: `jax.scipy.linalg` for named arrays."""

import jax.scipy.linalg as _module

from namedax.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, _module)
__getattr__, __dir__ = _space.get, _space.names
