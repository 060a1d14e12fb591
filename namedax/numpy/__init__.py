"""The namespace `nx.numpy`: `jax.numpy` for named arrays, with `linalg` and `fft`."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.numpy import NUMPY as _OWN

# Functions that do not depend on the values of arrays, take functions, or read files and buffers.
_UNTOUCHED = (
    "apply_over_axes broadcast_shapes can_cast dtype einsum_path finfo from_dlpack frombuffer"
    " fromfile fromfunction fromiter fromstring get_printoptions iinfo isdtype issubdtype iterable"
    " load mask_indices printoptions promote_types save savez set_printoptions vectorize"
).split()

_space = _Namespace(
    __name__,
    "jax.numpy",
    _OWN,
    untouched=_UNTOUCHED,
    by_axis={"indices": ()},  # `dimensions` are sizes
    submodules=("fft", "linalg"),
)
__getattr__, __dir__ = _space.get, _space.names
