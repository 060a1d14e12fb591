"""The namespace `nx.lax`: the collectives of `jax.lax` over names."""

from namedax.ops.collectives import all_gather as all_gather
from namedax.ops.collectives import axis_index as axis_index
from namedax.ops.collectives import axis_size as axis_size
from namedax.ops.collectives import pmax as pmax
from namedax.ops.collectives import pmean as pmean
from namedax.ops.collectives import pmin as pmin
from namedax.ops.collectives import psum as psum

__all__ = ["all_gather", "axis_index", "axis_size", "pmax", "pmean", "pmin", "psum"]
