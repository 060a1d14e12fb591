"""Records of reductions, cumulative operations, windows and sorting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jax.extend.core import JaxprEqn

from namedax.primitives.dimensions import across, listed
from namedax.primitives.record import Primitive, aval_of, records, shape_of

__all__ = ["RECORDS"]


def _of_top_k(eqn: JaxprEqn) -> Sequence[int]:
    return [eqn.params.get("axis", len(shape_of(eqn.invars[0])) - 1)]


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


_REDUCTION = Primitive(
    aligned=across(listed("axes"), keeps=False),
    in_blocks=True,
    reduces=listed("axes"),
    flops=_combinations,
)
_CUMULATIVE = Primitive(aligned=across(listed("axis")), in_blocks=True, copies_operand=True)
_WINDOWS = Primitive(aligned=across(_of_windows), flops=_of_each_window)

RECORDS: Mapping[str, Primitive] = {
    "reduce_sum": _REDUCTION.replace(linear=((0,),), takes="the sum"),
    "reduce_prod": _REDUCTION.replace(takes="the product"),
    "reduce_max": _REDUCTION.replace(takes="the maximum"),
    "reduce_min": _REDUCTION.replace(takes="the minimum"),
    **records("reduce_and reduce_or reduce_xor", _REDUCTION.replace(takes="a boolean")),
    "argmax": _REDUCTION.replace(takes="the index of the maximum"),
    "argmin": _REDUCTION.replace(takes="the index of the minimum"),
    "reduce": Primitive(
        aligned=across(listed("dimensions"), keeps=False),
        has_jaxpr=True,
        reduces=listed("dimensions"),
        flops=_combinations,
    ),
    "cumsum": _CUMULATIVE.replace(linear=((0,),)),
    **records("cumprod cummax cummin cumlogsumexp", _CUMULATIVE),
    **records(
        "reduce_window_sum reduce_window_max reduce_window_min select_and_gather_add", _WINDOWS
    ),
    "reduce_window": _WINDOWS.replace(has_jaxpr=True),
    "select_and_scatter_add": Primitive(flops=_of_each_window),
    "sort": Primitive(aligned=across(listed("dimension")), flops=_comparisons),
    "top_k": Primitive(aligned=across(_of_top_k)),
    "approx_top_k": Primitive(aligned=across(listed("reduction_dimension"))),
}
