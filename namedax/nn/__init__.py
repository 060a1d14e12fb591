"""The namespace `nx.nn`: `jax.nn` for named arrays."""

from typing import TYPE_CHECKING, Any

import jax.nn as _module

from namedax.namespaces.lifting import lift_namespace as _lift_namespace
from namedax.namespaces.registry import NN as _OWN
from namedax.nn import initializers as initializers

globals().update(_lift_namespace(_module, _OWN, __name__, untouched=("get_scaled_dot_general_config",)))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
