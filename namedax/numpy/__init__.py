"""The namespace `nx.numpy`: `jax.numpy` for named arrays, with `linalg` and `fft`."""

from typing import TYPE_CHECKING, Any

import jax.numpy as _jnp

from namedax.namespaces.lifting import lift_namespace as _lift_namespace
from namedax.namespaces.registry import NUMPY as _OWN
from namedax.numpy import fft as fft
from namedax.numpy import linalg as linalg

# What does not look at the values of arrays, or takes functions, or makes positional arrays.
_UNTOUCHED = (
    "apply_over_axes bartlett blackman broadcast_shapes can_cast diag_indices dtype einsum_path eye "
    "finfo from_dlpack frombuffer fromfile fromfunction fromiter frompyfunc fromstring get_printoptions hamming hanning "
    "identity iinfo indices isdtype issubdtype iterable ix_ kaiser load mask_indices printoptions promote_types save savez "
    "set_printoptions tri tril_indices triu_indices vectorize geomspace linspace logspace"
).split()

globals().update(_lift_namespace(_jnp, _OWN, __name__, untouched=_UNTOUCHED))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
