"""The namespace `nx.nn.initializers`: `jax.nn.initializers` whose axes may be names."""

from typing import TYPE_CHECKING, Any

from namedax.ops.initializers import INITIALIZERS as _INITIALIZERS

globals().update(_INITIALIZERS)
__all__ = sorted(_INITIALIZERS)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
