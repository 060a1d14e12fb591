"""The namespace `nx.lax.linalg`: `jax.lax.linalg` for named arrays."""

import jax.lax.linalg as _module

from namedax.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, _module)
__getattr__, __dir__ = _space.get, _space.names
