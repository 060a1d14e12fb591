"""The namespace `nx.scipy.sparse.linalg`: `jax.scipy.sparse.linalg` over pytrees of named arrays."""

import jax.scipy.sparse.linalg as _module

from namedax.namespaces.lifting import Namespace as _Namespace
from namedax.ops.loops.solvers import FUNCTIONS as _FUNCTIONS

_space = _Namespace(__name__, _module, _FUNCTIONS)
__getattr__, __dir__ = _space.get, _space.names
