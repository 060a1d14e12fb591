"""The namespace `nx.scipy.sparse.linalg`: `jax.scipy.sparse.linalg` for pytrees of named arrays."""

from namedax.ops.loops.solvers import FUNCTIONS as _FUNCTIONS
from namedax.ops.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.scipy.sparse.linalg", _FUNCTIONS)
__getattr__, __dir__ = _space.get, _space.names
