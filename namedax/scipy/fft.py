"""The namespace `nx.scipy.fft`: `jax.scipy.fft` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.scipy.fft")
__getattr__, __dir__ = _space.get, _space.names
