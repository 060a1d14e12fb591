"""The functions that stand in the namespaces of `jax.scipy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from namedax.core.annotations import AnyArray
from namedax.namespaces import other_spellings
from namedax.namespaces.reduction_forms import LOGSUMEXP
from namedax.namespaces.registry.tables import Functions, only
from namedax.operands.operation import REDUCED, operation
from namedax.ops.nn.activations import log_softmax, softmax
from namedax.ops.window.calculus import CALCULUS, detrend

__all__ = ["INTEGRATE", "SIGNAL", "SPECIAL", "STATS"]


def _over_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's form, whose default is all (positional) axes, of a function whose default is the last one."""

    def over_all(x: Any, /, *, axis: Any = None) -> AnyArray:
        return function(x, axis)

    over_all.__name__ = over_all.__qualname__ = function.__name__
    over_all.__doc__ = function.__doc__

    return operation(requires_axis=REDUCED)(over_all)


INTEGRATE: Functions = only(CALCULUS, "trapezoid")
SIGNAL: Functions = {"detrend": detrend}
STATS: Functions = dict(other_spellings.STATS)
SPECIAL: Functions = {
    "log_softmax": _over_all(log_softmax),
    "softmax": _over_all(softmax),
    **LOGSUMEXP,
}
