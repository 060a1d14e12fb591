"""The namespace `nx.image`: `jax.image` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.window.resizing import FUNCTIONS as _OWN

_space = _Namespace(__name__, "jax.image", _OWN)
__getattr__, __dir__ = _space.get, _space.names
