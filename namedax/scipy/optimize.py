"""The namespace `nx.scipy.optimize`: `jax.scipy.optimize` for named arrays.

Names are batch axes: over them there is a minimisation for each entry, of a function that sees positional arrays.
"""

import jax.scipy.optimize as _module

from namedax.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, _module)
__getattr__, __dir__ = _space.get, _space.names
