"""Interoperation with xarray, checkpointers, optimizers and Flax.

Most libraries need no conversion, because a named array is a pytree with one leaf. The modules of
this package handle the other cases: `xarray` has its own dimension names, `checkpointers` need the
shardings of restored arrays, `optimizers` that compute a norm in a mapped body need the norm of
global arrays, and `flax` has axis names on parameters, and rules that shard them.

Optimizers of matrices take the names of rows and columns (`matrix_axes`): `muon`, with the
iteration in `newton_schulz`, `shampoo` and `adafactor`.
"""

from namedax.interop.adafactor import adafactor
from namedax.interop.checkpointers import abstract
from namedax.interop.flax import from_flax, from_logical_rules, to_flax
from namedax.interop.muon import muon, scale_by_muon
from namedax.interop.optimizers import clip_by_global_norm, global_norm
from namedax.interop.shampoo import scale_by_shampoo, shampoo
from namedax.interop.xarray import from_xarray, to_xarray

__all__ = [
    "abstract",
    "adafactor",
    "clip_by_global_norm",
    "from_flax",
    "from_logical_rules",
    "from_xarray",
    "global_norm",
    "muon",
    "scale_by_muon",
    "scale_by_shampoo",
    "shampoo",
    "to_flax",
    "to_xarray",
]


def __dir__() -> list[str]:
    return __all__
