"""The functions of the namespaces of `jax.scipy` that have a named version."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.ops.namespaces.registry import Functions, only
from namedax.ops.nn.activations import log_softmax, softmax
from namedax.ops.operands.operation import REDUCED, operation
from namedax.ops.reduction.reductions import logsumexp
from namedax.ops.statistics.without_nans import sem
from namedax.ops.window.calculus import CALCULUS, detrend

__all__ = ["INTEGRATE", "SIGNAL", "SPECIAL", "STATS"]


def _over_all(function: Callable[..., AnyArray]) -> Callable[..., AnyArray]:
    """Build SciPy's form of a function: the default is all positional axes, not the last one."""

    def over_all(x: ArrayLike, /, *, axis: AxisSpec = None) -> AnyArray:
        return function(x, axis)

    over_all.__name__ = over_all.__qualname__ = function.__name__
    over_all.__doc__ = _of_all_axes(function)

    return operation(requires_axis=REDUCED)(over_all)


def _of_all_axes(function: Callable[..., AnyArray]) -> str:
    """Return the docstring of a function for the signature without `where`."""
    doc = inspect.getdoc(function) or ""
    lines = re.sub(r"(?m)^  where: .*\n(?:    .*\n)*", "", doc)
    return re.sub(
        r"(?m)^  axis: .*\n(?:    .*\n)*",
        "  axis: the axis or axes to normalize over, positional or named; `None` (default)\n"
        "    selects all positional axes. Required if every axis is named.\n",
        lines,
    )


INTEGRATE: Functions = only(CALCULUS, "trapezoid")
SIGNAL: Functions = {"detrend": detrend}
STATS: Functions = {"sem": sem}
SPECIAL: Functions = {
    "log_softmax": _over_all(log_softmax),
    "softmax": _over_all(softmax),
    "logsumexp": logsumexp,
}
