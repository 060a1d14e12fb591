"""The namespace `nx.lax`: `jax.lax` for named arrays, collectives over named axes, `linalg`."""

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.lax import LAX as _OWN

# Functions of types or tokens, and functions that take functions or pytrees, which may contain
# named arrays.
_UNTOUCHED = (
    "after_all axis_index_groups broadcast_shapes composite conv_dimension_numbers"
    " conv_general_permutations conv_general_shape_tuple conv_shape_tuple"
    " conv_transpose_shape_tuple create_token custom_linear_solve custom_root dce_sink dtype empty"
    " padtype_to_pads platform_dependent reduce_window_shape_tuple shape_as_value stage"
    " ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike"
).split()

_space = _Namespace(
    __name__,
    "jax.lax",
    _OWN,
    untouched=_UNTOUCHED,
    by_axis={"broadcasted_iota": ()},  # its dimension is positional: there is no array
    submodules=("linalg",),
)
__getattr__, __dir__ = _space.get, _space.names
