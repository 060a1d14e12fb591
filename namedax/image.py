"""The namespace `nx.image`: `jax.image` for named arrays."""

from typing import TYPE_CHECKING, Any

import jax.image as _module

from namedax.ops.resizing import FUNCTIONS as _OWN
from namedax.ops.surface import lift_namespace as _lift_namespace

globals().update(_lift_namespace(_module, _OWN, __name__))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
