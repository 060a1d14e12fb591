"""The namespace `nx.scipy.optimize`: `jax.scipy.optimize` for named arrays.

Names are batch axes: over them there is a minimisation for each entry, of a function that sees positional arrays.
"""

from namedax.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.scipy.optimize")
__getattr__, __dir__ = _space.get, _space.names
