"""The functions of `jax.numpy`, its `fft` and its `linalg` that have a named version."""

from __future__ import annotations

import jax.numpy as jnp

from namedax.ops.contraction.einsum import einsum, tensordot, vecdot
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.elementwise import frompyfunc
from namedax.ops.indexing import diagonal
from namedax.ops.indexing.getitem import take_along_axis
from namedax.ops.indexing.take import take
from namedax.ops.namespaces.registry import Functions, only, public_functions, without
from namedax.ops.reduction import cumulative, extrema, reductions
from namedax.ops.shape import broadcast_to, creation, inspection, joining, repeating, transposition
from namedax.ops.sorting import selection, sorting
from namedax.ops.statistics import compositions, counting, covariance, quantiles, without_nans
from namedax.ops.window import convolution, neighbours
from namedax.ops.window.calculus import CALCULUS

__all__ = ["FFT", "LINALG", "NUMPY"]

NUMPY: Functions = {
    **ELEMENTWISE,
    **only(public_functions(compositions), "average", "ptp"),
    **public_functions(broadcast_to),
    **only(public_functions(convolution), "convolve"),
    **public_functions(counting),
    **public_functions(covariance),
    **public_functions(creation),
    **public_functions(diagonal),
    **without(public_functions(cumulative), "cumlogsumexp", "cummax", "cummin"),
    **without(public_functions(extrema), "max_with_index", "min_with_index"),
    **public_functions(inspection),
    **public_functions(joining),
    **only(public_functions(neighbours), "diff", "pad", "roll"),
    **public_functions(quantiles),
    **without(public_functions(reductions), "logsumexp"),
    **public_functions(repeating),
    **public_functions(selection),
    **without(public_functions(sorting), "top_k"),
    **public_functions(transposition),
    **public_functions(without_nans),
    "einsum": einsum,
    "frompyfunc": frompyfunc,
    "repeat": repeating.repeat,
    "take": take,
    "take_along_axis": take_along_axis,
    "tensordot": tensordot,
    "vecdot": vecdot,
    "rollaxis": transposition.rollaxis,
    "swapaxes": transposition.swapaxes,
    **CALCULUS,
    **({"minmax": extrema.minmax} if hasattr(jnp, "minmax") else {}),
}
FFT: Functions = {**creation.FFT_FUNCTIONS, **neighbours.FFT_FUNCTIONS}
LINALG: Functions = {
    "norm": compositions.norm,
    "vector_norm": compositions.vector_norm,
    "tensordot": tensordot,
    "vecdot": vecdot,
}
