"""The namespace `nx.lax`: `jax.lax` for named arrays, with the collectives over names, and `linalg`."""

from typing import TYPE_CHECKING, Any

import jax.lax as _module

from namedax.lax import linalg as linalg
from namedax.namespaces.lifting import lift_namespace as _lift_namespace
from namedax.namespaces.registry import LAX as _OWN

# What speaks of types or tokens, or takes functions and pytrees, named arrays too.
_UNTOUCHED = (
    "after_all axis_index_groups broadcast_shapes broadcasted_iota composite conv_dimension_numbers conv_general_permutations "
    "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple create_token custom_linear_solve custom_root "
    "dce_sink dtype empty full iota padtype_to_pads platform_dependent psum_scatter_start reduce_window_shape_tuple shape_as_value stage "
    "ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike"
).split()

globals().update(_lift_namespace(_module, _OWN, __name__, untouched=_UNTOUCHED))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
