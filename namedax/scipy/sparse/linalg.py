"""The namespace `nx.scipy.sparse.linalg`: `jax.scipy.sparse.linalg` over pytrees of named arrays."""

from typing import TYPE_CHECKING, Any

import jax.scipy.sparse.linalg as _module

from namedax.namespaces.lifting import lift_namespace as _lift_namespace
from namedax.ops.loops.solvers import FUNCTIONS as _FUNCTIONS

globals().update(_lift_namespace(_module, _FUNCTIONS, __name__))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
