"""The namespace `nx.random`: `jax.random` for named arrays.

In addition to its shape, every sampler takes the keyword argument `named_shape={"batch": 128}`. In
a mapped function, a size of `None` means the size of that axis in the function. Keys and parameters
can be named arrays. The random numbers depend neither on the mesh nor on `axis_resources`.
`namedax.ops.random.drawing` documents the numbers and the cost of a draw.
"""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.random import choosing as _choosing
from namedax.ops.random import drawing as _samplers

_OWN = {
    "categorical": _choosing.categorical,
    "choice": _choosing.choice,
    "key_impl": _samplers.key_impl,
    "permutation": _choosing.permutation,
    "split": _samplers.split,
}

_space = _Namespace(
    __name__,
    "jax.random",
    _OWN,
    untouched=("key_dtype",),
    lift=_samplers.named_version,
    mirrored=False,
)
__getattr__, __dir__ = _space.get, _space.names
