"""Records of primitives that name mesh axes: collectives, device indices and blocks of devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn

from namedax.primitives.dimensions import NONE, trimmed
from namedax.primitives.record import (
    Forward,
    Fusion,
    Kind,
    Mixed,
    Primitive,
    Sharding,
    Shardings,
    aval_of,
    axes_in,
    shape_of,
)
from namedax.resources.communication import PRIMITIVE

__all__ = ["RECORDS"]


def _without(sharding: Sharding, axes: Sequence[str]) -> list[frozenset[str]]:
    return [own.difference(axes) for own in sharding]


def _summed(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    axes = axes_in(eqn.params) or ()
    found = [None if own is None else trimmed(_without(own, axes)) for own in known]
    return found[: len(eqn.outvars)], NONE


def _moved(dimension: Callable[[JaxprEqn], int], adds: bool) -> Forward:
    """Make a rule for a gather or a scatter.

    A gather makes a dimension complete. A scatter leaves each device its block of it.
    """

    def rule(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
        axes, i = axes_in(eqn.params) or (), dimension(eqn)
        found = _without(known[0] or (NONE,) * len(shape_of(eqn.invars[0])), axes)
        if not eqn.params.get("tiled", True):
            found = [*found[:i], *found[i + 1 :]] if adds else [*found[:i], NONE, *found[i:]]
        elif adds:
            found[i] |= frozenset(axes)
        return [trimmed(found)] * len(eqn.outvars), NONE

    return rule


def _permuted(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    """Return the shardings after a permute, which may exchange the mesh axes of dimensions.

    A renaming on a mesh whose axes have equal sizes does so. A dimension is then sharded over the
    axes along which its blocks differ.
    """
    (own,), axes = known, tuple(axes_in(eqn.params) or ())
    if own is None or all(dim.isdisjoint(axes) or dim.issuperset(axes) for dim in own):
        return known, NONE
    mesh: Any = aval_of(eqn.outvars[0]).sharding.mesh
    shape = [mesh.shape[axis] for axis in axes]
    sources = np.arange(math.prod(shape))
    for source, target in eqn.params["perm"]:
        sources[target] = source
    numbers = np.unravel_index(sources.reshape(shape), shape)  # of the source, one for each axis
    differs = {
        axis: frozenset(
            [other for i, other in enumerate(axes) if (number != number.take([0], i)).any()]
        )
        for axis, number in zip(axes, numbers, strict=True)
    }
    return [tuple(NONE.union(*(differs.get(a, {a}) for a in dim)) for dim in own)], NONE


def _exchanged(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    if not eqn.params.get("tiled"):
        return [None], NONE
    if eqn.params["split_axis"] == eqn.params["concat_axis"]:
        return [None], NONE  # the dimension numbers the blocks of another one, which is not known
    axes = axes_in(eqn.params) or ()
    found = _without(known[0] or (NONE,) * len(shape_of(eqn.invars[0])), axes)
    found[eqn.params["split_axis"]] |= frozenset(axes)
    return [trimmed(found)], NONE


_ONE = ((0,),)
_GATHERED = _moved(lambda eqn: eqn.params["all_gather_dimension"], adds=False)
_SCATTERED = _moved(lambda eqn: eqn.params["scatter_dimension"], adds=True)
_OF_GATHER = ("axis_name", "all_gather_dimension", "tiled")

RECORDS: Mapping[str, Primitive] = {
    "psum": Primitive(Kind.SUM, ("axes",), _ONE, forward=_summed),
    "psum_invariant": Primitive(
        Kind.SUM, ("axes",), _ONE, is_invariant=True, called="psum", forward=_summed
    ),
    "pmax": Primitive(Kind.MAXIMUM, ("axes",), forward=_summed),
    "pmin": Primitive(Kind.MINIMUM, ("axes",), forward=_summed),
    "all_gather": Primitive(Kind.GATHER, _OF_GATHER, _ONE, forward=_GATHERED),
    "all_gather_invariant": Primitive(
        Kind.GATHER, _OF_GATHER, _ONE, is_invariant=True, called="all_gather", forward=_GATHERED
    ),
    "reduce_scatter": Primitive(
        Kind.SCATTER,
        ("axis_name", "scatter_dimension", "tiled"),
        _ONE,
        called="psum_scatter",
        forward=_SCATTERED,
    ),
    "all_to_all": Primitive(Kind.EXCHANGE, ("axis_name",), _ONE, forward=_exchanged),
    "ppermute": Primitive(Kind.EXCHANGE, ("axis_name",), _ONE, forward=_permuted),
    "axis_index": Primitive(
        Kind.DEVICE_INDEX,
        ("axis_name",),
        forward=lambda eqn, known: ([None], NONE),
        fusion=Fusion.CHEAP,
        flops=0,
    ),
    PRIMITIVE.name: Primitive(
        Kind.OWN_BLOCK,
        ("axes", "dim"),
        _ONE,
        selects=True,
        forward=_moved(lambda eqn: eqn.params["dim"], adds=True),
        fusion=Fusion.CHEAP,
        flops=0,
    ),
}
