"""Which functions this package writes itself, by the JAX namespace that they stand in; the rest is lifted (`surface`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from namedax.ops import collectives, inspection
from namedax.ops.contraction import dot, einsum
from namedax.ops.creation import arange, empty, full, one_hot, ones, zeros
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing import take
from namedax.ops.nn import ACTIVATIONS, log_softmax, softmax
from namedax.ops.reductions import REDUCTIONS

__all__ = ["LAX", "NN", "NUMPY", "SPECIAL", "TOP"]

_Functions = dict[str, Callable[..., Any]]

def _over_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's form, whose default is all (positional) axes, of a function whose default is the last one."""

    @functools.wraps(function)
    def over_all(x: Any, axis: Any = None) -> Any:
        return function(x, axis)

    return over_all


_REDUCTIONS_OF_NUMPY = {name: f for name, f in REDUCTIONS.items() if name != "logsumexp"}
_COLLECTIVES: _Functions = {name: getattr(collectives, name) for name in collectives.__all__ if name != "global_index"}

NUMPY: _Functions = {
    **ELEMENTWISE,
    **inspection.FUNCTIONS,
    **_REDUCTIONS_OF_NUMPY,
    "arange": arange,
    "empty": empty,
    "full": full,
    "ones": ones,
    "zeros": zeros,
    "einsum": einsum,
    "take": take,
}
NN: _Functions = {
    **ACTIVATIONS,
    "log_softmax": log_softmax,
    "logsumexp": REDUCTIONS["logsumexp"],
    "one_hot": one_hot,
    "softmax": softmax,
}
SPECIAL: _Functions = {"log_softmax": _over_all(log_softmax), "softmax": _over_all(softmax)}

LAX: _Functions = dict(_COLLECTIVES)

# The named vocabulary at the top level, `nx.<function>`.
TOP: _Functions = {**NUMPY, "dot": dot, "logsumexp": REDUCTIONS["logsumexp"], "axis_size": collectives.axis_size}
