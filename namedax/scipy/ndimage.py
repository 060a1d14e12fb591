"""The namespace `nx.scipy.ndimage`: `jax.scipy.ndimage` for named arrays."""

import jax.scipy.ndimage as _module

from namedax.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, _module)
__getattr__, __dir__ = _space.get, _space.names
