"""Records of reductions, cumulative operations, windows and sorting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jax.extend.core import JaxprEqn

from namedax.primitives.dimensions import across
from namedax.primitives.record import Primitive, aval_of, records, shape_of

__all__ = ["RECORDS"]


def _axes(eqn: JaxprEqn) -> Sequence[int]:
    axes: Sequence[int] = eqn.params["axes"]
    return axes


def _dimensions(eqn: JaxprEqn) -> Sequence[int]:
    dimensions: Sequence[int] = eqn.params["dimensions"]
    return dimensions


def _axis(eqn: JaxprEqn) -> Sequence[int]:
    return [eqn.params["axis"]]


def _sorted(eqn: JaxprEqn) -> Sequence[int]:
    return [eqn.params["dimension"]]


def _of_top_k(eqn: JaxprEqn) -> Sequence[int]:
    return [eqn.params.get("axis", len(shape_of(eqn.invars[0])) - 1)]


def _of_approximate(eqn: JaxprEqn) -> Sequence[int]:
    return [eqn.params["reduction_dimension"]]


def _of_windows(eqn: JaxprEqn) -> Sequence[int]:
    sizes, strides = eqn.params["window_dimensions"], tuple(eqn.params.get("window_strides", ()))
    return [i for i, n in enumerate(sizes) if n != 1 or strides[i : i + 1] not in ((1,), ())]


def _size(shapes: Sequence[Sequence[int]]) -> int:
    return sum(map(math.prod, shapes))


def _combinations(eqn: JaxprEqn) -> float:
    taken, given = (_size([shape_of(v) for v in part]) for part in (eqn.invars, eqn.outvars))
    return max(taken - given, 0)


def _comparisons(eqn: JaxprEqn) -> float:
    n = aval_of(eqn.invars[0]).shape[eqn.params["dimension"]]
    return _size([shape_of(v) for v in eqn.invars]) * math.ceil(math.log2(max(n, 2)))


def _of_each_window(eqn: JaxprEqn) -> float:
    return _size([shape_of(v) for v in eqn.outvars]) * math.prod(eqn.params["window_dimensions"])


_REDUCTION = {
    "aligned": across(_axes, keeps=False),
    "in_blocks": True,
    "reduces": _axes,
    "flops": _combinations,
}

RECORDS: Mapping[str, Primitive] = {
    "reduce_sum": Primitive(linear=((0,),), takes="the sum", **_REDUCTION),
    "reduce_prod": Primitive(takes="the product", **_REDUCTION),
    "reduce_max": Primitive(takes="the maximum", **_REDUCTION),
    "reduce_min": Primitive(takes="the minimum", **_REDUCTION),
    **records("reduce_and reduce_or reduce_xor", takes="a boolean", **_REDUCTION),
    "argmax": Primitive(takes="the index of the maximum", **_REDUCTION),
    "argmin": Primitive(takes="the index of the minimum", **_REDUCTION),
    "reduce": Primitive(
        aligned=across(_dimensions, keeps=False),
        has_jaxpr=True,
        reduces=_dimensions,
        flops=_combinations,
    ),
    "cumsum": Primitive(linear=((0,),), aligned=across(_axis), in_blocks=True, copies_operand=True),
    **records(
        "cumprod cummax cummin cumlogsumexp",
        aligned=across(_axis),
        in_blocks=True,
        copies_operand=True,
    ),
    **records(
        "reduce_window_sum reduce_window_max reduce_window_min select_and_gather_add",
        aligned=across(_of_windows),
        flops=_of_each_window,
    ),
    "reduce_window": Primitive(aligned=across(_of_windows), has_jaxpr=True, flops=_of_each_window),
    "select_and_scatter_add": Primitive(flops=_of_each_window),
    "sort": Primitive(aligned=across(_sorted), flops=_comparisons),
    "top_k": Primitive(aligned=across(_of_top_k)),
    "approx_top_k": Primitive(aligned=across(_of_approximate)),
}
