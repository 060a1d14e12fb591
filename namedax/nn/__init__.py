"""The namespace `nx.nn`: `jax.nn` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.nn import NN as _OWN

_space = _Namespace(
    __name__,
    "jax.nn",
    _OWN,
    untouched=("get_scaled_dot_general_config",),
    submodules=("initializers",),
)
__getattr__, __dir__ = _space.get, _space.names
