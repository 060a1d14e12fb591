"""The choice of a ring for a product of two terms: a gather, a reduce-scatter or an all-reduce.

If no form applies, the product is contracted directly. A program shows the reason where a ring was
requested, and so do reports.
"""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp

from namedax.core.name_scopes import scope_text
from namedax.core.names import Label, Labels, MeshAxes
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.variance import cast
from namedax.ops.contraction.rings import Ring, ring_gather, ring_reduce, ring_scatter
from namedax.ops.contraction.terms import Plan, Term, chain, dot_dimensions
from namedax.resources.serial import LoopAxis

__all__ = ["contract_around_ring"]


class _Product(Record):
    """The product of two terms.

    Attributes:
      plan: the contraction.
      a: the first term.
      b: the second term.
      labels: the labels of the result.
      reduced: the mesh axes of the summed labels.
      variance: the mesh axes over which both vary after they are read.
    """

    plan: Plan
    a: Term
    b: Term
    labels: Labels
    reduced: MeshAxes
    variance: frozenset[str]

    def ring(self, x: Term, y: Term, label: Label, axes: MeshAxes) -> Ring:
        """Return the ring over `axes` in which the product is split along `label`."""
        given, types = self.plan.given, self.plan.types
        return Ring(
            x.labels,
            y.labels,
            self.labels,
            label,
            axes,
            self.plan.overlap == "bidirectional",
            given.precision,
            types.common if types.preferred is None else types.accumulate,
        )

    def operands(self) -> list[jax.Array]:
        """Read both terms."""
        return self.plan.types.alike(
            *(self.plan.read(term, self.variance) for term in (self.a, self.b))
        )

    def result(self, data: jax.Array, places: tuple[MeshAxes, ...], waiting: MeshAxes) -> Term:
        """Return the term of the result."""
        return Term(data, self.labels, places, self.a.pending + self.b.pending + waiting, "")


def contract_around_ring(plan: Plan, a: Term, b: Term, needed: frozenset[Label]) -> Term | str:
    """Contract two terms around a ring, if the contraction has a gather or a reduction.

    If it has, but there is no ring, return the scope that shows the reason; otherwise an empty
    string.
    """
    types = plan.types
    if types.is_weak or not jnp.issubdtype(types.accumulate, jnp.inexact):
        return ""
    if uneven := _uneven(plan, (a, b)):
        return _no_ring("uneven", uneven)  # padded blocks do not support rings
    _, labels, summed = dot_dimensions(a.labels, b.labels, needed)
    reduced = tuple(chain(map(plan.place, summed)))
    product = _Product(plan, a, b, labels, reduced, plan.variance(a, b))
    candidates = [
        (found, other)
        for term, other in ((a, b), (b, a))
        if (found := _gathered(product, term)) is not None
    ]
    if candidates:
        return _gather(product, *max(candidates, key=lambda pair: pair[0].term.data.size))
    if plan.postponed.isdisjoint(reduced):
        return _all_reduce(product)
    return _reduce_scatter(product) if needed == plan.given.kept else ""


def _no_ring(why: str, labels: Iterable[Label]) -> str:
    names = tuple(label for label in labels if not isinstance(label, int))
    return f"no_ring_{why}{scope_text('', names).removeprefix('nx.')}"


def _uneven(plan: Plan, terms: Iterable[Term]) -> tuple[Label, ...]:
    """Return the labels of axes that are padded before or after they are read."""
    found = (
        label
        for term in terms
        for label, place in zip(term.labels, term.places, strict=True)
        if isinstance(place, Uneven) or isinstance(plan.place(label), Uneven)
    )
    return tuple(dict.fromkeys(found))


# --- a gather -------------------------------------------------------------------------------------


class _Gather(Record):
    """The all-gather of one label of a term over mesh axes."""

    term: Term
    label: Label
    axes: MeshAxes


def _gathered(product: _Product, term: Term) -> _Gather | None:
    """Find the remaining all-gather of a term.

    There is none if other resharding remains, or if the other operand does not vary there. If
    several labels remain, it is the label with the most blocks; the others are gathered
    immediately.
    """
    plan, goal = product.plan, product.plan.layout(term.labels)
    moved = {
        i: place[len(new) :]
        for i, (place, new) in enumerate(zip(term.places, goal, strict=True))
        if place != new
    }
    if not moved or len(term.labels) < 2:  # a vector is too small to split
        return None
    if any(
        term.places[i][: len(goal[i])] != goal[i] or not product.variance.issuperset(axes)
        for i, axes in moved.items()
    ):
        return None
    last = max(moved, key=lambda i: plan.blocks(moved[i]))
    if len(moved) > 1:
        places = (*goal[:last], term.places[last], *goal[last + 1 :])
        data = plan.read(term, product.variance, places)
        term = term.with_data(data, term.labels, places)
    return _Gather(term, term.labels[last], moved[last])


def _gather(product: _Product, moving: _Gather, other: Term) -> Term:
    """Contract while the blocks of one term go around."""
    plan, term = product.plan, moving.term
    x, y = plan.types.alike(cast(term.source, product.variance), plan.read(other, product.variance))
    data = ring_gather(product.ring(term, other, moving.label, moving.axes), x, y)
    data, waiting = plan.reduce(data, product.reduced)
    return product.result(data, plan.layout(product.labels), waiting)


# --- a reduction ----------------------------------------------------------------------------------


def _all_reduce(product: _Product) -> Term | str:
    """Contract two terms and all-reduce the result around a ring.

    The largest axis of the result that the number of devices divides is split into one block per
    device. There is no ring for a vector, which is too small to split. There is also none if part
    of the sum is over loop steps, because the rest is then sent once, after the last step.
    """
    plan, labels, reduced = product.plan, product.labels, product.reduced
    devices = plan.blocks(reduced)
    if len(labels) < 2 or devices == 1 or any(isinstance(axis, LoopAxis) for axis in reduced):
        return ""
    sizes = {
        label: n
        for term in (product.a, product.b)
        for label, n in zip(term.labels, plan.sizes(term), strict=True)
    }
    whole = [label for label in labels if sizes[label] % devices == 0]
    if not whole:
        return _no_ring("undivided", labels)
    label = max(whole, key=sizes.__getitem__)
    ring = product.ring(product.a, product.b, label, reduced)
    return product.result(ring_reduce(ring, *product.operands()), plan.layout(labels), ())


def _reduce_scatter(product: _Product) -> Term | str:
    """Contract two terms and reduce-scatter the result around a ring.

    One label of the result is written with exactly the mesh axes that were postponed.
    """
    plan, reason = product.plan, ""
    late = plan.postponed.intersection(product.reduced)
    for n, label in enumerate(product.labels):
        old, new = plan.place(label), plan.place(plan.written(label))
        axes = new[len(old) :]
        if new[: len(old)] != old or frozenset(axes) != late:
            continue
        if not _divides(product, label, axes):
            reason = _no_ring("uneven", [plan.written(label)])
            continue
        ring = product.ring(product.a, product.b, label, axes)
        data = ring_scatter(ring, *product.operands())
        data, _ = plan.reduce(data, tuple(axis for axis in product.reduced if axis not in late))
        places = plan.layout(product.labels)
        return product.result(data, (*places[:n], new, *places[n + 1 :]), ())
    return reason


def _divides(product: _Product, label: Label, axes: MeshAxes) -> bool:
    terms = (term for term in (product.a, product.b) if label in term.labels)
    sizes = (term.data.shape[term.labels.index(label)] for term in terms)
    return all(size % product.plan.blocks(axes) == 0 for size in sizes)
