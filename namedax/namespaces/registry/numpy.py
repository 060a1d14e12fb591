"""The functions that stand in `jax.numpy`, its `fft` and its `linalg`."""

from __future__ import annotations

from namedax.namespaces import spellings
from namedax.namespaces.extended_signatures import FORMS
from namedax.namespaces.other_spellings import frompyfunc
from namedax.namespaces.reduction_forms import REDUCTION_FORMS
from namedax.namespaces.registry.tables import Functions, only, public_functions, without
from namedax.ops.contraction.einsum import einsum
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.reduction import cumulative, extrema, reductions
from namedax.ops.shape import broadcast_to, creation, inspection, joining, repeating, triangles
from namedax.ops.sorting import searching, selection, sorting
from namedax.ops.statistics import average, counting, covariance, norms, quantiles, without_nans
from namedax.ops.window import convolution, neighbours
from namedax.ops.window.calculus import CALCULUS

__all__ = ["FFT", "LINALG", "NUMPY"]

NUMPY: Functions = {
    **ELEMENTWISE,
    **public_functions(average),
    **public_functions(broadcast_to),
    **only(public_functions(convolution), "convolve"),
    **public_functions(counting),
    **public_functions(covariance),
    **public_functions(creation),
    **without(public_functions(cumulative), "cumlogsumexp", "cummax", "cummin"),
    **without(public_functions(extrema), "max_with_index", "min_with_index"),
    **public_functions(inspection),
    **public_functions(joining),
    **only(public_functions(neighbours), "pad", "roll"),
    **public_functions(quantiles),
    **public_functions(reductions),
    **public_functions(repeating),
    **public_functions(searching),
    **public_functions(selection),
    **without(public_functions(sorting), "top_k"),
    **public_functions(triangles),
    **public_functions(without_nans),
    "einsum": einsum,
    "frompyfunc": frompyfunc,
    "repeat": repeating.repeat,
    "take": take,
    **FORMS,
    **REDUCTION_FORMS,
    **CALCULUS,
    **spellings.NUMPY,
}
FFT: Functions = {**creation.FFT_FUNCTIONS, **spellings.FFT}
LINALG: Functions = {**norms.LINALG_FUNCTIONS, **spellings.LINALG}
