"""namedax: named-axis arrays for JAX.

Write a model over axis names; decide afterwards, in one dictionary (`axis_resources`), which names live on which hardware.
"""

import os as _os
from typing import TYPE_CHECKING, Any

from jax.extend import source_info_util as _source_info_util

from namedax import distributed as distributed
from namedax import errors as errors
from namedax import hlo as hlo
from namedax import image as image
from namedax import interop as interop
from namedax import lax as lax
from namedax import nn as nn
from namedax import numpy as numpy
from namedax import random as random
from namedax import scipy as scipy
from namedax import testing as testing
from namedax import typing as typing
from namedax.core.array import NamedArray as NamedArray
from namedax.distributed import from_process_local as from_process_local
from namedax.distributed import process_entries as process_entries
from namedax.interop import from_xarray as from_xarray
from namedax.interop import to_xarray as to_xarray
from namedax.namespaces.operators import install as _install
from namedax.namespaces.registry import TOP as _TOP
from namedax.operands.nmap import nmap as nmap
from namedax.ops.shape.conversion import named as named
from namedax.ops.shape.conversion import order_like as order_like
from namedax.ops.shape.conversion import positional as positional
from namedax.ops.shape.conversion import shard as shard
from namedax.ops.shape.conversion import untag as untag
from namedax.ops.shape.rename import rename as rename
from namedax.resources.serial import SerialLoop as SerialLoop
from namedax.resources.serial import serial_loop as serial_loop
from namedax.typing import checked as checked
from namedax.xmap import xmap as xmap

globals().update(_TOP)  # the named vocabulary: nx.sum, nx.einsum, ...

__version__ = "0.1.0"

_install()

# A compiled program, a profile and JAX's own messages say the line of the model, not that of the library.
_source_info_util.register_exclusion(_os.path.dirname(__file__) + _os.sep)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
