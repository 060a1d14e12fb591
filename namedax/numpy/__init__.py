"""The namespace `nx.numpy`: `jax.numpy` for named arrays, with `linalg` and `fft`."""

from namedax.namespaces.lifting import Namespace as _Namespace
from namedax.namespaces.registry.numpy import NUMPY as _OWN

# Functions that do not depend on the values of arrays, take functions, or create positional arrays.
_UNTOUCHED = (
    "apply_over_axes bartlett blackman broadcast_shapes can_cast diag_indices dtype einsum_path eye"
    " finfo from_dlpack frombuffer fromfile fromfunction fromiter fromstring get_printoptions"
    " hamming hanning identity iinfo indices isdtype issubdtype iterable ix_ kaiser load"
    " mask_indices printoptions promote_types save savez set_printoptions tri tril_indices"
    " triu_indices vectorize"
).split()

_space = _Namespace(__name__, "jax.numpy", _OWN, untouched=_UNTOUCHED, submodules=("fft", "linalg"))
__getattr__, __dir__ = _space.get, _space.names
