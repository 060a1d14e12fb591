"""The functions that stand in `jax.numpy`, its `fft` and its `linalg`."""

from __future__ import annotations

from namedax.namespaces import spellings
from namedax.namespaces.extended_signatures import FORMS
from namedax.namespaces.other_spellings import frompyfunc
from namedax.namespaces.reduction_forms import REDUCTION_FORMS
from namedax.namespaces.registry.tables import Functions, only, without
from namedax.ops.contraction.einsum import einsum
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.reduction import cumulative, reductions
from namedax.ops.shape import broadcast_to, creation, grids, inspection, joining, repeating, splitting, triangles, unit_axes
from namedax.ops.sorting import searching, selection, sorting
from namedax.ops.statistics import average, counting, covariance, norms, quantiles, without_nans
from namedax.ops.window import convolve, neighbours
from namedax.ops.window.calculus import CALCULUS

__all__ = ["FFT", "LINALG", "NUMPY"]

NUMPY: Functions = {
    **ELEMENTWISE,
    **inspection.FUNCTIONS,
    **reductions.FUNCTIONS,
    **without(cumulative.FUNCTIONS, "cumlogsumexp", "cummax", "cummin"),
    **sorting.FUNCTIONS,
    **searching.FUNCTIONS,
    **quantiles.FUNCTIONS,
    **without_nans.FUNCTIONS,
    **average.FUNCTIONS,
    **counting.FUNCTIONS,
    **joining.FUNCTIONS,
    **splitting.FUNCTIONS,
    **repeating.FUNCTIONS,
    **unit_axes.FUNCTIONS,
    **only(neighbours.FUNCTIONS, "pad", "roll"),
    **convolve.FUNCTIONS,
    **broadcast_to.FUNCTIONS,
    **covariance.FUNCTIONS,
    **grids.FUNCTIONS,
    **selection.FUNCTIONS,
    **triangles.FUNCTIONS,
    **{name: getattr(creation, name) for name in ("arange", "array", "asarray", "empty", "full", "ones", "zeros")},
    "einsum": einsum,
    "take": take,
    "frompyfunc": frompyfunc,
    **FORMS,
    **REDUCTION_FORMS,
    **CALCULUS,
    **spellings.NUMPY,
}
FFT: Functions = {**grids.FFT_FUNCTIONS, **spellings.FFT}
LINALG: Functions = {**norms.LINALG_FUNCTIONS, **spellings.LINALG}
