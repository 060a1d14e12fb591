"""The namespace `nx.scipy.cluster.vq`: `jax.scipy.cluster.vq` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.scipy.cluster.vq")
__getattr__, __dir__ = _space.get, _space.names
