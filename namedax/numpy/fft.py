"""The namespace `nx.numpy.fft`: `jax.numpy.fft` for named arrays."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.numpy import FFT as _OWN

_space = _Namespace(__name__, "jax.numpy.fft", _OWN)
__getattr__, __dir__ = _space.get, _space.names
