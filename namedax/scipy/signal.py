"""The namespace `nx.scipy.signal`: `jax.scipy.signal` for named arrays."""

from typing import TYPE_CHECKING, Any

import jax.scipy.signal as _module

from namedax.namespaces.lifting import lift_namespace as _lift_namespace
from namedax.namespaces.registry import SIGNAL as _OWN

globals().update(_lift_namespace(_module, _OWN, __name__))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
