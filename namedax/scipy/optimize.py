"""The namespace `nx.scipy.optimize`: `jax.scipy.optimize` for named arrays.

Names are batch axes: over them there is a minimisation for each entry, of a function that sees positional arrays.
"""

from typing import TYPE_CHECKING, Any

import jax.scipy.optimize as _module

from namedax.namespaces.lifting import lift_namespace as _lift_namespace

globals().update(_lift_namespace(_module, {}, __name__))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
