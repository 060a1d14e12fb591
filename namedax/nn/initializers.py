"""The namespace `nx.nn.initializers`: `jax.nn.initializers` with named axes."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.nn.initializers import named_initializer as _named_initializer

_space = _Namespace(__name__, "jax.nn.initializers", lift=_named_initializer)
__getattr__, __dir__ = _space.get, _space.names
