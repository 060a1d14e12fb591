"""The namespace `nx.numpy`: `jax.numpy` for named arrays."""

from namedax.ops.contraction import dot as dot
from namedax.ops.contraction import einsum as einsum
from namedax.ops.creation import arange as arange
from namedax.ops.elementwise import FUNCTIONS as _FUNCTIONS
from namedax.ops.indexing import take as take
from namedax.ops.methods import matmul as matmul
from namedax.ops.reductions import REDUCTIONS as _REDUCTIONS

globals().update(_FUNCTIONS | _REDUCTIONS)
__all__ = sorted([*_FUNCTIONS, *_REDUCTIONS, "arange", "dot", "einsum", "matmul", "take"])
