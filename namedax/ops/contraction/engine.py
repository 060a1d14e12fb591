"""Contraction of operands with labeled dimensions: the engine of `einsum`, `dot` and `pdot`.

Labels that are not in the result are summed over. Two operands contract in one `dot_general`, or in
one multiplication if nothing is summed. Three or more contract in pairs, in
the cheapest order in which no two names of one mesh axis occur in the same pair.

Communication follows from the labels. Reading an axis under a name with a different sharding
reshards it (`namedax.resources.layout`). A summed label that is sharded costs one all-reduce of the
local result. If the result is written with the mesh axes just reduced, it costs one reduce-scatter
instead. There is no other communication. With `overlap=` the communication goes around a ring,
alongside the computation (`namedax.ops.contraction.overlap`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NoReturn

import jax
import jax.numpy as jnp
import opt_einsum
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray
from namedax.core.closure_capture import type_of_programs
from namedax.core.display import type_text
from namedax.core.element_types import accumulation_type, to_type
from namedax.core.names import DType, Label, Labels, MeshAxes
from namedax.core.padded_sharding import Uneven
from namedax.core.region import Region, ambient, check_region_lives
from namedax.core.variance import cast_together, varying
from namedax.errors import AxisSizeError, PositionalAxisError
from namedax.ops.contraction.order import ORDERED, Path, best_order
from namedax.ops.contraction.overlap import contract_around_ring
from namedax.ops.contraction.rings import Overlap
from namedax.ops.contraction.terms import (
    Contraction,
    Plan,
    Term,
    Types,
    chain,
    dot_dimensions,
    lone_labels,
)
from namedax.ops.operands.broadcasting import make_result
from namedax.ops.shape.rename import check_new_name, move
from namedax.resources import communication as comm
from namedax.resources.layout import Layout, sum_scatter
from namedax.resources.padding_masks import masked

__all__ = ["contract"]


def contract(given: Contraction, blocks: Sequence[AnyArray]) -> AnyArray:
    """Contract the blocks of this device, communicate, and name the result."""
    region = ambient()
    datas = [block._data if isinstance(block, NamedArray) else block for block in blocks]
    labels, may_conflict = given.labels, False
    places: Mapping[Label, MeshAxes] = {}
    overlap: Overlap = False
    _check(given, region, blocks, datas)
    if region is not None:
        places = region.places
        if given.wire is None and region.manual:
            overlap = region.overlap if given.overlap is None else given.overlap
        names = dict.fromkeys([*chain(labels), *given.writes.values()])
        used = [axis for name in names for axis in region.resources.get(name, ())]
        may_conflict = len(set(used)) < len(used)
    terms = [
        Term(block, own, tuple([places.get(dim, ()) for dim in dims]), (), "")
        for block, own, dims in zip(blocks, labels, given.dims, strict=True)
    ]
    # Lone labels are summed before the operands contract and with the operand's own sharding,
    # because resharding first would send more.
    lone = lone_labels(labels, given.kept)
    postponed = _postponed(given, places, terms, lone) if given.writes else frozenset()
    types = Types.of(given.op, given.dtype, datas)
    plan = Plan(given, region, types, places, may_conflict, postponed, overlap)
    terms = [_prepared(plan, term, own) for term, own in zip(terms, lone, strict=True)]
    return _write(plan, _contract_all(plan, terms))


# --- checks ---------------------------------------------------------------------------------------


def _check(
    given: Contraction,
    region: Region | None,
    blocks: Sequence[AnyArray],
    datas: Sequence[jax.Array],
) -> None:
    """Check the sizes and the names of the operands and of the result."""
    known: dict[Label, tuple[int, int]] = {}  # the operand and the global size of every label
    renamed = []
    for i, (data, dims, labels) in enumerate(zip(datas, given.dims, given.labels, strict=True)):
        for dim, label, size in zip(dims, labels, data.shape, strict=True):
            if dim is not None and region is not None:
                size = region.sizes[dim] if dim in region.sizes else region.global_size(dim, size)
                if dim != label:
                    renamed.append((dim, label))
            first, other = known.setdefault(label, (i, size))
            if size == other:
                continue
            if not isinstance(label, int) or label >= 0 or 1 not in (size, other):
                _raise_two_sizes(given.op, blocks, label, (first, i), (other, size))
            known[label] = (i, max(size, other))  # the axes of `...` broadcast
    if region is None:
        _check_regions_live(given, datas)
        return
    for dim, label in renamed:
        check_new_name(given.op, "be read as", dim, label, known[label][1], region)
    for label, new in given.writes.items():
        check_new_name(given.op, "be written as", label, new, known[label][1], region)
    region.seen.update([label for label in known if not isinstance(label, int)])


def _raise_two_sizes(
    op: str,
    blocks: Sequence[AnyArray],
    label: Label,
    operands: tuple[int, int],
    sizes: tuple[int, int],
) -> NoReturn:
    """Report a label with two sizes, in two of the operands."""
    first, second = operands
    both = (
        f"has size {sizes[0]} in operand {first}, {type_text(blocks[first])}, and size {sizes[1]}"
        f" in operand {second}, {type_text(blocks[second])}"
    )
    if not isinstance(label, int):
        raise AxisSizeError(
            f"{op}: axis {label!r} {both}; a name has one size. Rename one of the two."
        )
    what = f"letter {chr(label)!r}" if label >= 0 else "an axis of '...'"
    raise PositionalAxisError(f"{op}: {what} {both}. Axes with one label must have equal sizes.")


def _check_regions_live(given: Contraction, datas: Sequence[jax.Array]) -> None:
    """Raise if a block of a mapped function that has ended is summed over a sharded axis."""
    for data, dims, labels in zip(datas, given.dims, given.labels, strict=True):
        if isinstance(data, jax.core.Tracer) and (variance := varying(data)):
            for dim, label in zip(dims, labels, strict=True):
                if dim is not None and label not in given.kept:
                    check_region_lives(given.op, dim, variance)


# --- steps ----------------------------------------------------------------------------------------


def _postponed(
    given: Contraction,
    places: Mapping[Label, MeshAxes],
    terms: Sequence[Term],
    lone: Sequence[frozenset[Label]],
) -> frozenset[str]:
    """Return the mesh axes over which a sum can wait to become a reduce-scatter of the result.

    The result is written with these mesh axes, and only one label uses them. A partial sum over a
    mesh axis must not combine with values that are sharded over it.
    """
    added = {
        mesh_axis
        for label, new in given.writes.items()
        for mesh_axis in set(places.get(new, ())) - set(places.get(label, ()))
    }
    if not added:
        return frozenset()
    users: dict[str, set[Label]] = {}
    for i, (term, own) in enumerate(zip(terms, lone, strict=True)):
        for label, place in zip(term.labels, term.places, strict=True):
            # Two operands may each sum over the same name on their own; these count as two users.
            user = (i, label) if label in own else label
            for mesh_axis in place if label in own else places.get(label, ()):
                users.setdefault(mesh_axis, set()).add(user)
    return frozenset(axis for axis in added if len(users.get(axis, ())) == 1)


def _prepared(plan: Plan, term: Term, lone: frozenset[Label]) -> Term:
    """Take the diagonals of an operand, and sum over its lone labels."""
    if len(set(term.labels)) < len(term.labels):
        term = term.without_repeats()
    # the axes of `...` that have size 1, which broadcast against a larger operand
    ones = [
        i
        for i, label in enumerate(term.labels)
        if isinstance(label, int) and label < 0 and term.data.shape[i] == 1
    ]
    if ones:
        term = term.without(ones, lax.squeeze(term.data, ones))
    if not lone.isdisjoint(term.labels):
        term = _sum_out(plan, term, lone)
    if plan.may_conflict:
        plan.check_placement(term.labels)
    return term


def _sum_out(plan: Plan, term: Term, labels: frozenset[Label]) -> Term:
    """Sum a term over labels, with its own sharding."""
    types = plan.types
    dims = tuple(i for i, label in enumerate(term.labels) if label in labels)
    data = to_type(term.data, accumulation_type(term.data.dtype))
    for dim in dims:
        data = masked(data, dim, term.places[dim], 0)
    if types.common == jnp.bool_ and types.accumulate == jnp.bool_:
        data = jnp.any(data, dims)
    else:
        data = jnp.sum(data, dims, dtype=None if types.is_weak else types.accumulate)
    data, waiting = plan.reduce(data, tuple(chain([term.places[i] for i in dims])))
    rest = term.without(dims, data)
    return Term(data, rest.labels, rest.places, term.pending + waiting, term.no_ring)


def _contract_all(plan: Plan, terms: list[Term]) -> Term:
    """Contract all terms, in pairs."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) == 2:
        return _contract_pair(plan, terms[0], terms[1], plan.given.kept)
    with jax.named_scope(ORDERED):
        for i, j in _path(plan, terms):
            x, y = terms[i], terms[j]
            terms = [term for k, term in enumerate(terms) if k not in (i, j)]
            needed = plan.given.kept.union(*(term.labels for term in terms))
            terms.append(_contract_pair(plan, x, y, needed))
        # The result's axes are cached by the labels only.
        return terms[0].in_order(dict.fromkeys(chain(plan.given.labels)))


def _path(plan: Plan, terms: Sequence[Term]) -> Path:
    """Return the pairs in which three or more terms contract."""
    shapes = tuple(tuple(plan.sizes(term)) for term in terms)
    labels = tuple(term.labels for term in terms)
    users: dict[str, dict[Label, None]] = {}
    if plan.region is not None:
        for label in dict.fromkeys(chain(labels)):
            for mesh_axis in plan.region.resources.get(label, ()):
                users.setdefault(mesh_axis, {})[label] = None
    rivals = tuple(frozenset(names) for names in users.values() if len(names) > 1)
    return best_order(labels, shapes, plan.given.kept, rivals)


def _contract_pair(plan: Plan, a: Term, b: Term, needed: frozenset[Label]) -> Term:
    """Contract two terms over the labels that both have and that are not needed later."""
    if plan.may_conflict:
        plan.check_placement(dict.fromkeys(a.labels + b.labels))
    if not plan.overlap:
        return _contract_directly(plan, a, b, needed)
    found = contract_around_ring(plan, a, b, needed)
    if isinstance(found, Term):
        return found
    with _named_scope(found):
        term = _contract_directly(plan, a, b, needed)
    return Term(*term[:-1], found) if found else term


def _named_scope(scope: str) -> contextlib.AbstractContextManager[object]:
    return jax.named_scope(scope) if scope else contextlib.nullcontext()


# --- the product of two terms ---------------------------------------------------------------------


def _contract_directly(plan: Plan, a: Term, b: Term, needed: frozenset[Label]) -> Term:
    """Contract two terms by one product, and reduce its result."""
    types, places = plan.types, plan.places
    x, y = _read(plan, a, b)
    if not x.dtype == y.dtype == types.common:
        x, y = (to_type(data, accumulation_type(data.dtype)) for data in (x, y))
    dimensions, labels, summed = dot_dimensions(a.labels, b.labels, needed)
    padded = [label for label in summed if isinstance(places.get(label), Uneven)]
    if padded:
        # Mask both operands: the padding of one may multiply infinite values of the other.
        x = _without_padding(plan, x, a.labels, padded)
        y = _without_padding(plan, y, b.labels, padded)
    if not summed:
        data = _multiply(types, (x, a.labels), (y, b.labels), labels)
    elif types.is_weak:
        data = _weak_dot(plan, (x, a.labels), (y, b.labels), labels)
    else:
        if not (x.dtype == y.dtype == types.common):
            x, y = types.alike(x, y)
        data = _dot(plan, x, y, dimensions)
    waiting: MeshAxes = ()
    if reduced := tuple([axis for label in summed for axis in places.get(label, ())]):
        data, waiting = plan.reduce(data, reduced)
    layout = tuple([places.get(label, ()) for label in labels])
    return Term(data, labels, layout, a.pending + b.pending + waiting, "")


def _read(plan: Plan, a: Term, b: Term) -> Sequence[jax.Array]:
    """Return the data of both terms with the sharding of their labels and one device variance."""
    if plan.region is None or not plan.region.manual:
        return a.data, b.data
    goal = tuple([plan.places.get(label, ()) for label in a.labels + b.labels])
    if goal == a.places + b.places:
        return cast_together((a.source, b.source), chain(goal))
    variance = plan.variance(a, b)
    return plan.read(a, variance), plan.read(b, variance)


def _without_padding(
    plan: Plan, data: jax.Array, labels: Labels, padded: Iterable[Label]
) -> jax.Array:
    """Fill the padding of an operand with zeros along the summed labels that are padded."""
    for dim, label in enumerate(labels):
        if label in padded:
            data = masked(data, dim, plan.place(label), 0)
    return data


def _multiply(
    types: Types, a: tuple[jax.Array, Labels], b: tuple[jax.Array, Labels], labels: Labels
) -> jax.Array:
    """Multiply two operands that share no summed label, after broadcasting both to `labels`."""
    sizes = {label: n for x, own in (b, a) for label, n in zip(own, x.shape, strict=True)}
    shape = tuple(sizes[label] for label in labels)
    aligned = []
    for data, own in (a, b):
        if not types.is_weak and data.dtype != types.accumulate:
            data = lax.convert_element_type(data, types.accumulate)
        places = [labels.index(label) for label in own]
        order = sorted(range(len(own)), key=places.__getitem__)
        if order != list(range(len(own))):
            data = lax.transpose(data, order)
        if data.shape != shape:
            data = lax.broadcast_in_dim(data, shape, sorted(places))
        aligned.append(data)
    return jnp.multiply(*aligned)


def _weak_dot(
    plan: Plan, a: tuple[jax.Array, Labels], b: tuple[jax.Array, Labels], labels: Labels
) -> jax.Array:
    """Contract weakly typed operands; only the functions of `jnp` return weak types."""
    symbols = {
        label: opt_einsum.get_symbol(i) for i, label in enumerate(dict.fromkeys(a[1] + b[1]))
    }
    left, right, out = ("".join(symbols[label] for label in ls) for ls in (a[1], b[1], labels))
    return jnp.einsum(
        f"{left},{right}->{out}",
        a[0],
        b[0],
        precision=plan.given.precision,
        preferred_element_type=plan.types.preferred,
    )


def _dot(plan: Plan, x: jax.Array, y: jax.Array, dimensions: lax.DotDimensionNumbers) -> jax.Array:
    """Contract two arrays of one dtype."""
    region, options = plan.region, (plan.given.precision, plan.types.preferred)
    if region is not None and {type(x), type(y)} == {type_of_programs()}:
        # A trace that only builds a jaxpr does not benefit from JAX's cache on the first calls.
        key = (_dot_general, x.shape, y.shape, x.dtype, dimensions)
        if region.state.times(key) <= _OFTEN:
            return lax.dot_general(x, y, dimensions, *options)
    return _dot_general(x, y, dimensions, *options)


# The number of times that one product is inlined into a program. The first cached call costs as
# much as that many save.
_OFTEN = 3


@functools.partial(jax.jit, static_argnums=(2, 3, 4), inline=True)
def _dot_general(
    x: jax.Array,
    y: jax.Array,
    dimensions: lax.DotDimensionNumbers,
    precision: jax.lax.PrecisionLike,
    preferred_element_type: DType | None,
) -> jax.Array:
    # Through jit, so that JAX caches its linearization, which is most of the cost of a gradient.
    return lax.dot_general(
        x, y, dimensions, precision=precision, preferred_element_type=preferred_element_type
    )


# --- the result -----------------------------------------------------------------------------------


def _write(plan: Plan, term: Term) -> AnyArray:
    """Finish the sums that waited, reshard the result to its written names, and name it."""
    types, labels, places = plan.types, term.labels, term.places
    data, writes = term.source, plan.given.writes
    if isinstance(data, NamedArray):
        data = data._data
    # the dtype in which results are communicated
    if types.preferred is not None:
        data = to_type(data, types.preferred)
    elif data.dtype != types.common and not types.is_weak:
        data = to_type(data, types.common)
    missing = tuple([letter for letter in plan.given.letters if letter not in labels])
    if missing:  # axes of `...` that have size 1 in every operand
        data = lax.expand_dims(data, range(len(missing)))
        labels, places = missing + labels, ((),) * len(missing) + places
    written = [writes.get(label, label) for label in labels]
    dims = tuple([None if isinstance(label, int) else label for label in written])
    if plan.may_conflict:
        plan.check_placement(dims)
    goal = tuple([plan.places.get(label, ()) for label in written])
    if term.pending:
        with _named_scope(term.no_ring):
            data, places = _finish_sums(plan, data, places, goal, term.pending)
    if data.dtype != types.result and accumulation_type(types.result) == data.dtype:
        data = to_type(data, types.result)
    slots = [i for i, label in enumerate(labels) if isinstance(label, int)]
    order = list(range(len(labels)))
    for slot, letter in zip(slots, plan.given.letters, strict=True):
        order[slot] = labels.index(letter)
    wire = plan.given.wire
    if order != sorted(order):
        return move(data, places, goal, dims, lambda moved: lax.transpose(moved, order), wire)
    # `make_result` casts it to the mesh axes of its names
    return make_result(data, dims) if places == goal else move(data, places, goal, dims, wire=wire)


def _finish_sums(
    plan: Plan, data: jax.Array, places: Layout, goal: Layout, pending: MeshAxes
) -> tuple[jax.Array, Layout]:
    """Sum over the mesh axes in `pending`, and return the new sharding too.

    Each dimension that is written with them gets a reduce-scatter.
    """
    waiting, layout = dict.fromkeys(pending), list(places)
    for dim, (old, new) in enumerate(zip(places, goal, strict=True)):
        added = _added_by_scatter(layout, dim, new, waiting)
        if not added or not (
            isinstance(added, Uneven) or data.shape[dim] % plan.blocks(added) == 0
        ):
            continue
        taken = frozenset(axis for axis in added if axis in waiting)
        data = sum_scatter(data, dim, added, taken, plan.given.wire, layout)
        layout[dim] = added if isinstance(added, Uneven) else old + added
        for axis in taken:
            del waiting[axis]
    if waiting:
        data = comm.psum(data, tuple(waiting))
    return data, tuple(layout)


def _added_by_scatter(
    layout: Sequence[MeshAxes], dim: int, new: MeshAxes, waiting: Collection[str]
) -> MeshAxes:
    """Return the mesh axes that a reduce-scatter adds to dimension `dim`, to be sharded over `new`.

    If it cannot add all of them, `move` does the rest.
    """
    old = layout[dim]
    taken = tuple(axis for axis in new if axis in waiting)
    if not taken:
        return ()
    if isinstance(new, Uneven) or isinstance(old, Uneven):
        return () if old or len(taken) < len(new) else new
    added = new[len(old) :]
    used = set(chain(layout))
    is_free = used.isdisjoint(axis for axis in added if axis not in waiting)
    return added if new[: len(old)] == old and is_free else taken
