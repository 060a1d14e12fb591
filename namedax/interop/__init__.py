"""Interoperation with xarray, checkpointers, optimizers and Flax.

Most libraries need no conversion, because a named array is a pytree with one leaf. The modules of
this package handle the other cases: `xarray` has its own dimension names, `checkpointers` need the
shardings of restored arrays, `optimizers` that compute a norm in a mapped body need the norm of
global arrays, and `flax` has axis names on parameters, and rules that shard them.
"""

from namedax.interop.checkpointers import abstract
from namedax.interop.flax import from_flax, from_logical_rules, to_flax
from namedax.interop.optimizers import clip_by_global_norm, global_norm
from namedax.interop.state_dicts import from_state_dict, to_state_dict
from namedax.interop.xarray import from_xarray, to_xarray

__all__ = [
    "abstract",
    "clip_by_global_norm",
    "from_flax",
    "from_logical_rules",
    "from_state_dict",
    "from_xarray",
    "global_norm",
    "to_flax",
    "to_state_dict",
    "to_xarray",
]


def __dir__() -> list[str]:
    return __all__
