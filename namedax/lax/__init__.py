"""The namespace `nx.lax`: `jax.lax` for named arrays, with the collectives over names, and `linalg`."""

from typing import TYPE_CHECKING, Any

import jax.lax as _module

from namedax.lax import linalg as linalg
from namedax.ops.surface import lift_namespace as _lift_namespace
from namedax.ops.vocabulary import LAX as _OWN

# What speaks of types, mesh axes or tokens, or takes functions of positional arrays.
_UNTOUCHED = (
    "after_all axis_index_groups broadcast_shapes broadcasted_iota composite conv_dimension_numbers conv_general_permutations "
    "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple create_token custom_linear_solve custom_root "
    "dce_sink dtype empty full iota optimization_barrier padtype_to_pads pcast platform_dependent precv psend "
    "psum_scatter_start ragged_all_to_all reduce_window_shape_tuple rng_bit_generator rng_uniform shape_as_value stage with_sharding_constraint "
    "ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike pswapaxes pvary"
).split()

globals().update(_lift_namespace(_module, _OWN, __name__, untouched=_UNTOUCHED))
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
