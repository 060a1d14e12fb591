"""The table of all primitives that have a record, and of what follows from their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from namedax.primitives import (
    calls,
    collectives,
    elementwise,
    indexing,
    products,
    reductions,
    shapes,
)
from namedax.primitives.record import Kind, Primitive

__all__ = ["LOCAL_KINDS", "TABLE", "UNKNOWN", "names_with"]

TABLE: Mapping[str, Primitive] = {
    **elementwise.RECORDS,
    **shapes.RECORDS,
    **reductions.RECORDS,
    **products.RECORDS,
    **indexing.RECORDS,
    **collectives.RECORDS,
    **calls.RECORDS,
}
#: The record of all other primitives.
UNKNOWN = Primitive(Kind.UNKNOWN)
#: Kinds that compute locally, name no mesh axes and run no jaxprs: those of most equations.
LOCAL_KINDS = (
    Kind.PLAIN,
    Kind.BARRIER,
    Kind.CONSTRAINT,
    Kind.TRANSFORM,
    Kind.SLICE,
    Kind.UPDATE,
    Kind.NAME,
)


def names_with(condition: Callable[[Primitive], bool]) -> frozenset[str]:
    """Return the names of the primitives whose records fulfill a condition."""
    return frozenset(name for name, record in TABLE.items() if condition(record))
