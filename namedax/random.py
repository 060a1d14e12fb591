"""The namespace `nx.random`: `jax.random` for named arrays.

Every sampler takes `named_shape={"batch": 128}` by keyword, besides its shape (in a mapped function `None` stands for the size
that a name has there); keys and parameters may be named. The numbers depend neither on the mesh nor on `axis_resources`
(`namedax.ops.random.drawing` says which they are, and what a draw costs).
"""

from namedax.namespaces.lifting import Namespace as _Namespace
from namedax.ops.random import choosing as _choosing
from namedax.ops.random import samplers as _samplers

_OWN = {
    "categorical": _choosing.categorical,
    "choice": _choosing.choice,
    "key_impl": _samplers.key_impl,
    "permutation": _choosing.permutation,
    "split": _samplers.split,
}

_space = _Namespace(__name__, "jax.random", _OWN, untouched=("key_dtype",), lift=_samplers.named_version, mirrored=False)
__getattr__, __dir__ = _space.get, _space.names
