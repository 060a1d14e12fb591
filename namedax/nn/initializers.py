"""The namespace `nx.nn.initializers`: `jax.nn.initializers` whose axes may be names."""

from typing import TYPE_CHECKING, Any

from jax.nn.initializers import Initializer as Initializer

from namedax.ops.nn.initializers import INITIALIZERS as _INITIALIZERS

globals().update(_INITIALIZERS)
__all__ = ["Initializer", *sorted(_INITIALIZERS)]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
