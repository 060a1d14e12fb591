"""Which functions this package writes itself, by the JAX namespace that they stand in; the rest is lifted (`surface`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from namedax.ops import (
    associative,
    attention,
    binary,
    branches,
    broadcasting,
    collectives,
    comparison,
    control_flow,
    convolution,
    covariance,
    creation,
    custom_rules,
    experts,
    grids,
    inspection,
    joining,
    lax_only,
    losses,
    masks,
    neighbours,
    normalisation,
    pdot,
    permutations,
    pooling,
    rearranging,
    routing,
    scans,
    segments,
    selection,
    slicing,
    sorting,
    spellings,
    statistics,
    triangles,
    vectorising,
)
from namedax.ops.calculus import CALCULUS, detrend
from namedax.ops.einsum import dot, einsum
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.forms import FORMS, LOGSUMEXP
from namedax.ops.indexing import take
from namedax.ops.nn import ACTIVATIONS, log_softmax, softmax
from namedax.ops.reductions import REDUCTIONS, WITH_INDEX, axis_said

__all__ = ["FFT", "INTEGRATE", "LAX", "LINALG", "NN", "NUMPY", "SIGNAL", "SPECIAL", "STATS", "TOP"]

_Functions = dict[str, Callable[..., Any]]


def _only(functions: _Functions, *names: str) -> _Functions:
    return {name: functions[name] for name in names}


def _without(functions: _Functions, *names: str) -> _Functions:
    return {name: function for name, function in functions.items() if name not in names}


def _over_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's form, whose default is all (positional) axes, of a function whose default is the last one."""

    def over_all(x: Any, /, *, axis: Any = None) -> Any:
        return function(x, axis)

    over_all.__name__ = over_all.__qualname__ = function.__name__
    over_all.__doc__ = function.__doc__

    return over_all


NUMPY: _Functions = {
    **ELEMENTWISE,
    **inspection.FUNCTIONS,
    **_without(REDUCTIONS, "logsumexp"),
    **_without(scans.FUNCTIONS, "cumlogsumexp", "cummax", "cummin"),
    **_without(sorting.FUNCTIONS, "top_k"),
    **_without(statistics.FUNCTIONS, "norm", "vector_norm"),
    **joining.FUNCTIONS,
    **_only(neighbours.FUNCTIONS, "pad", "roll"),
    **_only(convolution.FUNCTIONS, "convolve"),
    **broadcasting.FUNCTIONS,
    **covariance.FUNCTIONS,
    **grids.FUNCTIONS,
    **selection.FUNCTIONS,
    **triangles.FUNCTIONS,
    **{name: getattr(creation, name) for name in ("arange", "array", "asarray", "empty", "full", "ones", "zeros")},
    "einsum": einsum,
    "take": take,
    **FORMS,
    **CALCULUS,
    **spellings.NUMPY,
}
FFT: _Functions = {**grids.FFT_FUNCTIONS, **spellings.FFT}
INTEGRATE: _Functions = _only(CALCULUS, "trapezoid")
SIGNAL: _Functions = {"detrend": detrend}
STATS: _Functions = dict(spellings.STATS)
LINALG: _Functions = {**statistics.LINALG_FUNCTIONS, **spellings.LINALG}
LAX: _Functions = {
    **{name: getattr(collectives, name) for name in collectives.__all__ if name != "global_index"},
    **permutations.FUNCTIONS,
    **pdot.FUNCTIONS,
    **joining.LAX_FUNCTIONS,
    **scans.LAX_FUNCTIONS,
    **_only(sorting.FUNCTIONS, "top_k"),
    **_without(control_flow.FUNCTIONS, "fold"),
    **branches.FUNCTIONS,
    **_only(vectorising.FUNCTIONS, "map"),
    **associative.FUNCTIONS,
    **lax_only.FUNCTIONS,
    **spellings.LAX,
}
NN: _Functions = {
    **ACTIVATIONS,
    **attention.FUNCTIONS,
    **binary.FUNCTIONS,
    **experts.FUNCTIONS,
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

# The named vocabulary at the top level, `nx.<function>`.
TOP: _Functions = {
    **NUMPY,
    **comparison.FUNCTIONS,
    **slicing.FUNCTIONS,
    **LOGSUMEXP,
    **_only(scans.FUNCTIONS, "cumlogsumexp", "cummax", "cummin"),
    **_only(sorting.FUNCTIONS, "top_k"),
    **_only(statistics.FUNCTIONS, "norm"),
    **_without(neighbours.FUNCTIONS, "diff"),
    **convolution.FUNCTIONS,
    **segments.FUNCTIONS,
    **rearranging.FUNCTIONS,  # `repeat` is the one of patterns here, and that of elements in nx.numpy
    **WITH_INDEX,
    **control_flow.FUNCTIONS,
    **branches.FUNCTIONS,
    **vectorising.FUNCTIONS,
    **associative.FUNCTIONS,
    **custom_rules.FUNCTIONS,
    "axis_size": collectives.axis_size,
    "dot": dot,
}
_BY_DEFAULT_POSITIONAL = (
    *REDUCTIONS,
    *(name for name in sorting.FUNCTIONS if name.endswith(("median", "quantile", "percentile"))),
    *(name for name in statistics.FUNCTIONS if name.startswith("nan") or name in ("ptp", "average", "norm")),
)
TOP.update({name: axis_said(TOP[name]) for name in _BY_DEFAULT_POSITIONAL if name in TOP})
