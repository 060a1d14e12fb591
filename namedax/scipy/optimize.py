"""The namespace `nx.scipy.optimize`: `jax.scipy.optimize` for named arrays.

Named axes are batch axes: there is one minimization per index along them. The function to minimize
takes positional arrays.
"""

from namedax.ops.namespaces.lifting import Namespace as _Namespace

_space = _Namespace(__name__, "jax.scipy.optimize")
__getattr__, __dir__ = _space.get, _space.names
