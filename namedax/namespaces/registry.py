"""Which functions this package writes itself, by the JAX namespace that they belong to; the rest is lifted (`lifting`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from namedax.core.annotations import Array
from namedax.namespaces import lax_only, spellings
from namedax.namespaces.forms import FORMS
from namedax.namespaces.reduction_forms import LOGSUMEXP, REDUCTION_FORMS
from namedax.ops.collectives import gathering, permuting, reducing
from namedax.ops.contraction import pdot
from namedax.ops.contraction.einsum import einsum
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.experts import mixture, routing
from namedax.ops.indexing.take import take
from namedax.ops.loops import associative_scan, branches, control_flow, vmap
from namedax.ops.nn import attention, binary_cross_entropy, losses, masks, normalisation
from namedax.ops.nn.activations import ACTIVATIONS, log_softmax, softmax
from namedax.ops.reduction import cumulative
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape import broadcast_to, creation, grids, inspection, joining, repeating, splitting, triangles, unit_axes
from namedax.ops.sorting import searching, selection, sorting, top_k
from namedax.ops.statistics import average, counting, covariance, norms, quantiles, without_nans
from namedax.ops.window import convolve, neighbours, pooling
from namedax.ops.window.calculus import CALCULUS, detrend

__all__ = ["FFT", "INTEGRATE", "LAX", "LINALG", "NN", "NUMPY", "SIGNAL", "SPECIAL", "STATS"]

_Functions = dict[str, Callable[..., Any]]


def _only(functions: _Functions, *names: str) -> _Functions:
    return {name: functions[name] for name in names}


def _without(functions: _Functions, *names: str) -> _Functions:
    return {name: function for name, function in functions.items() if name not in names}


def _over_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's form, whose default is all (positional) axes, of a function whose default is the last one."""

    def over_all(x: Any, /, *, axis: Any = None) -> Array:
        return function(x, axis)

    over_all.__name__ = over_all.__qualname__ = function.__name__
    over_all.__doc__ = function.__doc__

    return over_all


NUMPY: _Functions = {
    **ELEMENTWISE,
    **inspection.FUNCTIONS,
    **_without(REDUCTIONS, "logsumexp"),
    **_without(cumulative.FUNCTIONS, "cumlogsumexp", "cummax", "cummin"),
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
    **_only(neighbours.FUNCTIONS, "pad", "roll"),
    **convolve.FUNCTIONS,
    **broadcast_to.FUNCTIONS,
    **covariance.FUNCTIONS,
    **grids.FUNCTIONS,
    **selection.FUNCTIONS,
    **triangles.FUNCTIONS,
    **{name: getattr(creation, name) for name in ("arange", "array", "asarray", "empty", "full", "ones", "zeros")},
    "einsum": einsum,
    "take": take,
    **FORMS,
    **REDUCTION_FORMS,
    **CALCULUS,
    **spellings.NUMPY,
}
FFT: _Functions = {**grids.FFT_FUNCTIONS, **spellings.FFT}
INTEGRATE: _Functions = _only(CALCULUS, "trapezoid")
SIGNAL: _Functions = {"detrend": detrend}
STATS: _Functions = dict(spellings.STATS)
LINALG: _Functions = {**norms.LINALG_FUNCTIONS, **spellings.LINALG}
LAX: _Functions = {
    **{name: getattr(reducing, name) for name in reducing.__all__ if name != "global_index"},
    **permuting.FUNCTIONS,
    **gathering.FUNCTIONS,
    **pdot.FUNCTIONS,
    **unit_axes.LAX_FUNCTIONS,
    **cumulative.LAX_FUNCTIONS,
    **top_k.FUNCTIONS,
    **_without(control_flow.FUNCTIONS, "fold"),
    **branches.FUNCTIONS,
    **_only(vmap.FUNCTIONS, "map"),
    **associative_scan.FUNCTIONS,
    **lax_only.FUNCTIONS,
    **spellings.LAX,
}
NN: _Functions = {
    **ACTIVATIONS,
    **attention.FUNCTIONS,
    **binary_cross_entropy.FUNCTIONS,
    **mixture.FUNCTIONS,
    **losses.FUNCTIONS,
    **masks.FUNCTIONS,
    **normalisation.FUNCTIONS,
    **pooling.FUNCTIONS,
    **routing.FUNCTIONS,
    **LOGSUMEXP,
    **spellings.NN,
    "log_softmax": log_softmax,
    "one_hot": creation.one_hot,
    "softmax": softmax,
}
SPECIAL: _Functions = {"log_softmax": _over_all(log_softmax), "softmax": _over_all(softmax), **LOGSUMEXP}
