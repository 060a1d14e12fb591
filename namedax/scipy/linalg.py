"""The namespace `nx.scipy.linalg`: `jax.scipy.linalg` for named arrays."""

from typing import TYPE_CHECKING, Any

import jax.scipy.linalg as _module

from namedax.namespaces.lifting import lift_namespace as _lift_namespace

globals().update(_lift_namespace(_module, {}, __name__))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
