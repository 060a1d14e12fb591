"""Interoperation with published checkpoints, xarray, checkpointers, optimizers and Flax.

Most libraries need no conversion, because a named array is a pytree with one leaf. The modules of
this package handle the other cases: `xarray` has its own dimension names, `checkpointers` need the
shardings of restored arrays, `optimizers` that compute a norm in a mapped body need the norm of
global arrays, and `flax` has axis names on parameters, and rules that shard them.

A `spec` maps the keys of a published checkpoint to named arrays. `state_dicts` converts tensors in
memory, `safetensors` reads and writes files, and `reports` shows the place of each tensor. They
share `entries` (parsing), `specs` (matching), `key_texts` (messages), `tensors` (blocks) and
`quantization`.

Optimizers of matrices take the names of rows and columns (`matrix_axes`): `muon`, with the
iteration in `newton_schulz`, `shampoo` and `adafactor`.

`lora` has the public names of low-rank `adapters`: `adapted_trees` has them in or next to weights,
`low_rank` contracts, and `peft` reads and writes files.
"""

from namedax.interop import lora
from namedax.interop.adafactor import adafactor
from namedax.interop.checkpointers import abstract
from namedax.interop.flax import from_flax, from_logical_rules, to_flax
from namedax.interop.muon import muon, scale_by_muon
from namedax.interop.optimizers import clip_by_global_norm, global_norm
from namedax.interop.reports import StateDictReport, StateDictRow, state_dict_report
from namedax.interop.safetensors import load_safetensors, save_safetensors
from namedax.interop.shampoo import scale_by_shampoo, shampoo
from namedax.interop.state_dicts import from_state_dict, to_state_dict
from namedax.interop.xarray import from_xarray, to_xarray

__all__ = [
    "StateDictReport",
    "StateDictRow",
    "abstract",
    "adafactor",
    "clip_by_global_norm",
    "from_flax",
    "from_logical_rules",
    "from_state_dict",
    "from_xarray",
    "global_norm",
    "load_safetensors",
    "lora",
    "muon",
    "save_safetensors",
    "scale_by_muon",
    "scale_by_shampoo",
    "shampoo",
    "state_dict_report",
    "to_flax",
    "to_state_dict",
    "to_xarray",
]


def __dir__() -> list[str]:
    return __all__
