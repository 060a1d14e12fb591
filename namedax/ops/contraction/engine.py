"""Contraction of operands with labeled dimensions: the engine of `einsum`, `dot` and `pdot`.

Every dimension of every operand has a label: an axis name, or an integer for a positional axis.
Labels that are not in the result are summed over. Two operands contract in one `dot_general`, or in
one multiplication if nothing is summed. Three or more contract in pairs, in
the cheapest order in which no two names of one mesh axis occur in the same pair.

Communication follows from the labels. Reading an axis under a name with a different sharding
reshards it (`namedax.resources.layout`). A summed label that is sharded costs one all-reduce of the
local result. If the result is written with the mesh axes just reduced, it costs one reduce-scatter
instead. There is no other communication. With `overlap=` the communication goes around a ring,
alongside the computation (`namedax.ops.contraction.rings`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import opt_einsum
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of
from namedax.core.closure_capture import type_of_programs
from namedax.core.display import type_text
from namedax.core.element_types import accumulation_type, common_type, to_type, widened_type
from namedax.core.name_scopes import scope_text
from namedax.core.names import DType, MeshAxes
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import ambient, check_region_lives
from namedax.core.variance import cast, varying
from namedax.errors import AxisSizeError, PositionalAxisError
from namedax.ops.contraction.order import ORDERED, Path, best_order
from namedax.ops.contraction.rings import Overlap, Ring, ring_gather, ring_reduce, ring_scatter
from namedax.ops.operands.pytree import data_of
from namedax.ops.shape.rename import check_new_name, move, read
from namedax.resources import communication as comm
from namedax.resources.layout import Layout, sum_scatter
from namedax.resources.padding_masks import masked
from namedax.resources.serial import LoopAxis
from namedax.resources.wire import Wire

__all__ = ["Contraction", "Label", "Labels"]


Label = Hashable
Labels = tuple[Label, ...]


class _Term(Record, frozen=False):
    """An operand during the contraction.

    Attributes:
      source: the data. It is the original named array until an operation changes it, because that
        array caches its casts and reshardings.
      labels: one per dimension.
      places: the current sharding of every dimension; reading the term changes it to the sharding
        of its label.
    """

    source: AnyArray
    labels: Labels
    places: Layout

    @property
    def data(self) -> jax.Array:
        return self.source._data if isinstance(self.source, NamedArray) else self.source

    def without(self, dims: Iterable[int], data: jax.Array) -> _Term:
        """Replace the data by `data`, which lacks the dimensions `dims`."""
        kept = [i for i in range(len(self.labels)) if i not in set(dims)]
        return _Term(data, tuple(self.labels[i] for i in kept), tuple(self.places[i] for i in kept))

    def without_repeats(self) -> _Term:
        """Take the diagonal over every letter or name that appears twice.

        The result has the sharding of the first of the two axes that is sharded, and the other axis
        is sliced to that block. If both are sharded, the second is gathered first.
        """
        term = self
        for label in dict.fromkeys(self.labels):
            while term.labels.count(label) > 1:
                first = term.labels.index(label)
                second = term.labels.index(label, first + 1)
                if not term.places[first]:
                    first, second = second, first
                data, place = term.data, term.places[first]
                if term.places[second]:  # complete, without padding
                    data = comm.all_gather(data, second, term.places[second], "invarying")
                if place:
                    data = comm.cut(data, second, place)
                data = jnp.diagonal(data, axis1=first, axis2=second)
                rest = term.without((first, second), data)
                term = _Term(data, (*rest.labels, label), (*rest.places, place))
        return term

    def in_order(self, labels: Iterable[Label]) -> _Term:
        """Transpose the data to the order of `labels`, which may contain others."""
        order = [self.labels.index(label) for label in labels if label in self.labels]
        data = self.source if order == sorted(order) else lax.transpose(self.data, order)
        places = tuple(self.places[i] for i in order)
        return _Term(data, tuple(self.labels[i] for i in order), places)

    def without_broadcast(self) -> _Term:
        """Remove the axes of `...` that have size 1, which broadcast against a larger operand."""
        ones = [
            i
            for i, label in enumerate(self.labels)
            if isinstance(label, int) and label < 0 and self.data.shape[i] == 1
        ]
        return self.without(ones, lax.squeeze(self.data, ones)) if ones else self


def _no_ring(why: str, labels: Iterable[Label]) -> str:
    names = tuple(label for label in labels if not isinstance(label, int))
    return f"no_ring_{why}{scope_text('', names).removeprefix('nx.')}"


def _named_scope(scope: str) -> contextlib.AbstractContextManager[object]:
    return jax.named_scope(scope) if scope else contextlib.nullcontext()


class Contraction:
    """One contraction, from the labels of its operands to the result.

    Args:
      op: the operation, for messages.
      labels: the labels of the dimensions of every operand.
      keep: the names of the result, before `writes` renames them.
      letters: the positional labels of the result, in order.
      writes: the new name of each axis that the result renames.
      precision: the precision of `dot_general`.
      dtype: the dtype to accumulate in and to return, or `None`.
      overlap: overlaps the transfer of blocks around a ring with computation; by default (`None`)
        the setting of the region.
      wire: the number formats of gathers and reduce-scatters; by default the dtype of the data.
        There are no rings then.
    """

    def __init__(
        self,
        op: str,
        labels: list[Labels],
        keep: frozenset[Label],
        letters: tuple[int, ...],
        writes: Mapping[Label, Label],
        precision: jax.lax.PrecisionLike,
        dtype: DType | None,
        overlap: Overlap | None = None,
        wire: Wire | None = None,
    ):
        self.wire = wire
        self.op, self.labels, self.letters, self.writes = op, labels, letters, writes
        self.kept = keep | frozenset(letters)
        self.precision, self.preferred = precision, None if dtype is None else jnp.dtype(dtype)
        self.region = ambient()
        self.manual = self.region is not None and self.region.manual
        self.overlap = (
            overlap if overlap is not None or self.region is None else self.region.overlap
        )
        if wire is not None:
            self.overlap = None
        # Labels that only one operand has. They are summed before the operands contract and with
        # the operand's own sharding, because resharding first would send more.
        self.alone = [
            frozenset(ls) - self.kept - frozenset(_chain(labels[:i] + labels[i + 1 :]))
            for i, ls in enumerate(labels)
        ]
        self.late: frozenset[str] = frozenset()
        self.pending: list[str] = []
        # the reason why a requested ring is not used; it appears in programs, and so in reports
        self.no_ring = ""

    def place(self, label: Label) -> MeshAxes:
        """Return the sharding of a label, which is empty for a positional label."""
        if self.region is None or not self.manual or isinstance(label, int):
            return ()
        return self.region.place(label)

    def run(self, blocks: Sequence[AnyArray]) -> AnyArray:
        """Contract the blocks of this device, communicate, and name the result."""
        self._check(blocks)
        # As in `jnp.einsum`, all operands are converted to the dtype of the result before the first
        # product.
        self.common, self.weak = _common_type(blocks)
        # The sums of narrow types run in a wider type; the result is rounded once.
        self.result = self.common if self.preferred is None else self.preferred
        self.common = widened_type(self.op, self.common)
        if accumulation_type(self.result) != self.result:
            self.preferred = None
        self.accumulate = self.common
        if self.preferred is not None:
            wide = common_type(self.common, self.preferred)
            self.accumulate = wide if wide == self.preferred else self.common
        terms = [
            _Term(block, ls, tuple(self.place(0 if dim is None else dim) for dim in dims_of(block)))
            for block, ls in zip(blocks, self.labels, strict=True)
        ]
        self.late = self._late(terms)
        for i, term in enumerate(terms):
            term = term.without_repeats().without_broadcast()
            terms[i] = term = self._sum_out(term, self.alone[i])
            self._check_placement(term.labels)
        with _named_scope(ORDERED if len(terms) > 2 else ""):
            for i, j in self._path(terms):
                x, y = terms[i], terms[j]
                terms = [term for k, term in enumerate(terms) if k not in (i, j)]
                kept = self.kept.union(*(term.labels for term in terms))
                terms.append(self._contract(x, y, kept))
            if len(self.labels) > 2:  # the result's axes are cached by the labels only
                terms[0] = terms[0].in_order(dict.fromkeys(_chain(self.labels)))
        return self._write(terms[0])

    def _check(self, blocks: Sequence[AnyArray]) -> None:
        """Raise if one label has two sizes, or an axis of the region has a different size."""
        op, region = self.op, self.region
        known: dict[Label, tuple[int, int]] = {}
        for i, (block, ls) in enumerate(zip(blocks, self.labels, strict=True)):
            for dim, label, n in zip(dims_of(block), ls, data_of(block).shape, strict=True):
                size = n if dim is None or region is None else region.global_size(dim, n)
                first, other = known.setdefault(label, (i, size))
                if size == other:
                    continue
                if isinstance(label, int) and label < 0 and 1 in (size, other):
                    known[label] = (i, max(size, other))  # the axes of `...` broadcast
                    continue
                both = (
                    f"has size {other} in operand {first}, {type_text(blocks[first])}, and size"
                    f" {size} in operand {i}, {type_text(block)}"
                )
                if not isinstance(label, int):
                    raise AxisSizeError(
                        f"{op}: axis {label!r} {both}; a name has one size. Rename one of the two."
                    )
                what = f"letter {chr(label)!r}" if label >= 0 else "an axis of '...'"
                raise PositionalAxisError(
                    f"{op}: {what} {both}. Axes with one label must have equal sizes."
                )
        if region is None:
            for block, ls in zip(blocks, self.labels, strict=True):
                if isinstance(data_of(block), jax.core.Tracer) and (
                    variance := varying(data_of(block))
                ):
                    for dim, label in zip(dims_of(block), ls, strict=True):
                        if dim is not None and label not in self.kept:
                            check_region_lives(op, dim, variance)
            return
        for block, ls in zip(blocks, self.labels, strict=True):
            for dim, label in zip(dims_of(block), ls, strict=True):
                if dim is not None and dim != label:
                    check_new_name(op, "be read as", dim, label, known[label][1], region)
        for label, new in self.writes.items():
            check_new_name(op, "be written as", label, new, known[label][1], region)
        region.seen.update(label for label in known if not isinstance(label, int))

    def _check_placement(self, labels: Iterable[Label]) -> None:
        """Raise if two axes of one value are sharded over the same mesh axis."""
        if self.region is not None and self.region.resources:
            names = (label for label in labels if label is not None and not isinstance(label, int))
            self.region.check_placement(self.op, names)

    def _late(self, terms: Sequence[_Term]) -> frozenset[str]:
        """Return the mesh axes over which a sum can wait to become a reduce-scatter of the result.

        The result is written with these mesh axes, and only one label uses them. A partial sum over
        a mesh axis must not combine with values that are sharded over it.
        """
        if not self.manual:
            return frozenset()
        added = {
            mesh_axis
            for label in self.kept
            for mesh_axis in set(self.place(self.writes.get(label, label))) - set(self.place(label))
        }
        users: dict[str, set[Label]] = {}
        for i, term in enumerate(terms):
            for label, place in zip(term.labels, term.places, strict=True):
                # Two operands may each sum over the same name on their own; these count as two
                # users.
                user = (i, label) if label in self.alone[i] else label
                for mesh_axis in place if label in self.alone[i] else self.place(label):
                    users.setdefault(mesh_axis, set()).add(user)
        return frozenset(a for a in added if len(users.get(a, ())) == 1)

    def _reduce(self, data: jax.Array, mesh_axes: Iterable[str]) -> jax.Array:
        """Sum over mesh axes, except over the mesh axes in `late`, for which the sum can wait."""
        mesh_axes = tuple(mesh_axes)
        if data.dtype == jnp.bool_:  # booleans have no sum
            return comm.pmax(data, mesh_axes) if mesh_axes else data
        self.pending += [axis for axis in mesh_axes if axis in self.late]
        now = tuple(axis for axis in mesh_axes if axis not in self.late)
        return comm.psum(data, now) if now else data

    def _sum_out(self, term: _Term, labels: frozenset[Label]) -> _Term:
        dims = tuple(i for i, label in enumerate(term.labels) if label in labels)
        if not dims:
            return term
        data = to_type(term.data, accumulation_type(term.data.dtype))
        for dim in dims:
            data = masked(data, dim, term.places[dim], 0)
        if self.common == jnp.bool_ and self.accumulate == jnp.bool_:
            data = jnp.any(data, dims)
        else:
            data = jnp.sum(data, dims, dtype=None if self.weak else self.accumulate)
        data = self._reduce(data, _chain(term.places[i] for i in dims))
        return term.without(dims, data)

    def _without_padding(
        self, data: jax.Array, labels: Labels, summed: Iterable[Label]
    ) -> jax.Array:
        """Fill the padding of an operand with zeros along the summed labels."""
        for dim, label in enumerate(labels):
            if label in summed:
                data = masked(data, dim, self.place(label), 0)
        return data

    def _variance(self, term: _Term) -> frozenset[str]:
        """Return the mesh axes over which the term varies after it is read."""
        goal = frozenset(_chain(self.place(label) for label in term.labels))
        return varying(term.data) - frozenset(_chain(term.places)) | goal

    def _read(self, term: _Term, variance: frozenset[str], goal: Layout | None = None) -> jax.Array:
        """Reshard the data of a term to the sharding of its labels, or to `goal`.

        The result is cast to varying over `variance`.
        """
        if goal is None:
            goal = tuple(self.place(label) for label in term.labels)
        if goal == term.places:
            return cast(term.source, variance)
        return read(term.source, term.places, goal, variance, self.wire)

    def _contract(self, a: _Term, b: _Term, needed: frozenset[Label]) -> _Term:
        """Contract two terms over the labels that both have and that are not needed later."""
        self._check_placement(dict.fromkeys(a.labels + b.labels))
        self.no_ring = ""
        if (
            self.manual
            and self.overlap
            and (term := self._contract_around_ring(a, b, needed)) is not None
        ):
            return term
        with _named_scope(self.no_ring):
            return self._contract_directly(a, b, needed)

    def _contract_directly(self, a: _Term, b: _Term, needed: frozenset[Label]) -> _Term:
        x, y = a.data, b.data
        if self.manual:
            variance = self._variance(a) | self._variance(b)
            x, y = self._read(a, variance), self._read(b, variance)
        x, y = (to_type(data, accumulation_type(data.dtype)) for data in (x, y))
        dimensions, labels, summed = _dot_dimensions(a.labels, b.labels, needed)
        places = tuple(self.place(label) for label in labels)
        # Mask both operands: the padding of one may multiply infinite values of the other.
        x = self._without_padding(x, a.labels, summed)
        y = self._without_padding(y, b.labels, summed)
        if not summed:
            data = self._multiply(x, y, a.labels, b.labels, labels)
            return _Term(data, labels, places)
        if self.weak:
            data = self._weak_dot(x, y, a.labels, b.labels, labels)
        else:
            if not (x.dtype == y.dtype == self.common):
                x, y = self._alike(x, y)
            data = self._dot_general(x, y, dimensions)
        return _Term(self._reduce(data, _chain(self.place(s) for s in summed)), labels, places)

    def _dot_general(
        self, x: jax.Array, y: jax.Array, dimensions: lax.DotDimensionNumbers
    ) -> jax.Array:
        if self.region is not None and {type(x), type(y)} == {type_of_programs()}:
            # A trace that only builds a jaxpr does not benefit from JAX's cache on the first calls.
            key = (_dot_general, x.shape, y.shape, x.dtype, dimensions)
            if self.region.state.times(key) <= _OFTEN:
                return lax.dot_general(x, y, dimensions, self.precision, self.preferred)
        return _dot_general(x, y, dimensions, self.precision, self.preferred)

    def _contract_around_ring(self, a: _Term, b: _Term, needed: frozenset[Label]) -> _Term | None:
        """Contract two terms around a ring, if the contraction has a gather or a reduce-scatter."""
        _, labels, summed = _dot_dimensions(a.labels, b.labels, needed)
        if self.weak or not jnp.issubdtype(self.accumulate, jnp.inexact):
            return None
        if uneven := self._uneven(a, b):
            self.no_ring = _no_ring("uneven", uneven)  # padded blocks do not support rings
            return None
        variance = self._variance(a) | self._variance(b)
        moving = [found for term in (a, b) if (found := self._gathered(term, variance)) is not None]
        result = self.common if self.preferred is None else self.accumulate
        ring = functools.partial(
            Ring, both=self.overlap == "bidirectional", precision=self.precision, dtype=result
        )
        reduced = tuple(_chain(self.place(s) for s in summed))
        if moving:
            term, label, axes = max(moving, key=lambda found: found[0].data.size)
            other = b if term is a else a
            x, y = self._alike(cast(term.source, variance), self._read(other, variance))
            data = ring_gather(
                ring(x=term.labels, y=other.labels, out=labels, label=label, axes=axes), x, y
            )
            return _Term(
                self._reduce(data, reduced), labels, tuple(self.place(found) for found in labels)
            )
        late = frozenset(reduced) & self.late
        if not late:
            return self._reduce_around_ring(a, b, ring, labels, reduced)
        if needed != self.kept:
            return None
        for label in labels:
            old, new = self.place(label), self.place(self.writes.get(label, label))
            axes = new[len(old) :]
            if new[: len(old)] != old or frozenset(axes) != late:
                continue
            if not self._divides(label, axes, a, b):
                self.no_ring = _no_ring("uneven", [self.writes.get(label, label)])
            else:
                x, y = self._alike(self._read(a, variance), self._read(b, variance))
                data = ring_scatter(
                    ring(x=a.labels, y=b.labels, out=labels, label=label, axes=axes), x, y
                )
                places = tuple(new if found == label else self.place(found) for found in labels)
                return _Term(
                    self._reduce(data, (axis for axis in reduced if axis not in late)),
                    labels,
                    places,
                )
        return None

    def _uneven(self, *terms: _Term) -> tuple[Label, ...]:
        """Return the labels of axes that are padded before or after they are read."""
        found = (
            label
            for term in terms
            for label, place in zip(term.labels, term.places, strict=True)
            if isinstance(place, Uneven) or isinstance(self.place(label), Uneven)
        )
        return tuple(dict.fromkeys(found))

    def _reduce_around_ring(
        self, a: _Term, b: _Term, ring: Callable[..., Ring], labels: Labels, reduced: MeshAxes
    ) -> _Term | None:
        """Contract two terms and all-reduce the result around a ring.

        The largest axis of the result that the number of devices divides is split into one block
        per device. There is no ring for a vector, which is too small to split. There is also none
        if part of the sum is over loop steps, because the rest is then sent once, after the last
        step.
        """
        sizes = {
            label: n
            for term in (a, b)
            for label, n in zip(term.labels, self._sizes(term), strict=True)
        }
        whole = [label for label in labels if sizes[label] % self._blocks(reduced) == 0]
        if (
            len(labels) < 2
            or any(isinstance(axis, LoopAxis) for axis in reduced)
            or self._blocks(reduced) == 1
        ):
            return None
        if not whole:
            self.no_ring = _no_ring("undivided", labels)
            return None
        label = max(whole, key=sizes.__getitem__)
        variance = self._variance(a) | self._variance(b)
        x, y = self._alike(self._read(a, variance), self._read(b, variance))
        data = ring_reduce(
            ring(x=a.labels, y=b.labels, out=labels, label=label, axes=reduced), x, y
        )
        return _Term(data, labels, tuple(self.place(found) for found in labels))

    def _sizes(self, term: _Term) -> list[int]:
        """Return the local size of every dimension of a term after it is read."""
        goals = (self.place(label) for label in term.labels)
        sizes = zip(term.data.shape, term.places, goals, strict=True)
        return [n * self._blocks(old) // self._blocks(new) for n, old, new in sizes]

    def _gathered(
        self, term: _Term, variance: frozenset[str]
    ) -> tuple[_Term, Label, MeshAxes] | None:
        """Find the remaining all-gather of a term.

        There is none if other resharding remains, or if the other operand does not vary there.

        Returns:
          The term, the label and the mesh axes. If several labels remain, the label with the most
          blocks; the others are gathered immediately.
        """
        goal = [self.place(label) for label in term.labels]
        moved = {
            i: place[len(new) :]
            for i, (place, new) in enumerate(zip(term.places, goal, strict=True))
            if place != new
        }
        if not moved or len(term.labels) < 2:  # a vector is too small to split
            return None
        if any(
            term.places[i][: len(goal[i])] != goal[i] or not variance.issuperset(axes)
            for i, axes in moved.items()
        ):
            return None
        last = max(moved, key=lambda i: self._blocks(moved[i]))
        if len(moved) > 1:
            places = (*goal[:last], term.places[last], *goal[last + 1 :])
            term = _Term(self._read(term, variance, places), term.labels, places)
        return term, term.labels[last], moved[last]

    def _divides(self, label: Label, axes: MeshAxes, *terms: _Term) -> bool:
        sizes = [
            term.data.shape[term.labels.index(label)] for term in terms if label in term.labels
        ]
        return all(size % self._blocks(axes) == 0 for size in sizes)

    def _alike(self, *datas: jax.Array) -> list[jax.Array]:
        datas = tuple(to_type(data, accumulation_type(data.dtype)) for data in datas)
        dtype = common_type(self.common, *datas)
        return [
            data if data.dtype == dtype else lax.convert_element_type(data, dtype) for data in datas
        ]

    def _multiply(
        self, x: jax.Array, y: jax.Array, a: Labels, b: Labels, labels: Labels
    ) -> jax.Array:
        """Multiply two operands that share no summed label, after broadcasting both to `labels`."""
        sizes = dict(zip(b, y.shape, strict=True)) | dict(zip(a, x.shape, strict=True))
        shape = tuple(sizes[label] for label in labels)
        aligned = []
        for data, own in ((x, a), (y, b)):
            if not self.weak and data.dtype != self.accumulate:
                data = lax.convert_element_type(data, self.accumulate)
            places = [labels.index(label) for label in own]
            order = sorted(range(len(own)), key=places.__getitem__)
            if order != list(range(len(own))):
                data = lax.transpose(data, order)
            if data.shape != shape:
                data = lax.broadcast_in_dim(data, shape, sorted(places))
            aligned.append(data)
        return jnp.multiply(*aligned)

    def _weak_dot(
        self, x: jax.Array, y: jax.Array, a: Labels, b: Labels, labels: Labels
    ) -> jax.Array:
        # Only the functions of jnp return weak types.
        symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(dict.fromkeys(a + b))}
        left, right, out = ("".join(symbols[label] for label in ls) for ls in (a, b, labels))
        return jnp.einsum(
            f"{left},{right}->{out}",
            x,
            y,
            precision=self.precision,
            preferred_element_type=self.preferred,
        )

    def _path(self, terms: Sequence[_Term]) -> Path:
        if len(terms) == 1:
            return ()
        if len(terms) == 2:
            return ((0, 1),)
        shapes = [tuple(self._sizes(term)) for term in terms]
        labels = tuple(term.labels for term in terms)
        users: dict[str, dict[Label, None]] = {}
        if self.region is not None:
            for label in dict.fromkeys(_chain(labels)):
                for mesh_axis in self.region.resources.get(label, ()):
                    users.setdefault(mesh_axis, {})[label] = None
        rivals = tuple(frozenset(names) for names in users.values() if len(names) > 1)
        return best_order(labels, tuple(shapes), self.kept, rivals)

    def _blocks(self, axes: MeshAxes) -> int:
        return 1 if self.region is None else self.region.mesh_axis_size(axes)

    def _write(self, term: _Term) -> AnyArray:
        """Finish the sums that waited, reshard the result to its written names, and name it."""
        data, labels, places = term.data, term.labels, list(term.places)
        if self.preferred is not None and data.dtype != self.preferred:
            data = data.astype(self.preferred)
        elif not self.weak and self.preferred is None and data.dtype != self.common:
            data = data.astype(self.common)
        missing = [letter for letter in self.letters if letter not in labels]
        if missing:  # axes of `...` that have size 1 in every operand
            data = lax.expand_dims(data, range(len(missing)))
            labels, places = (*missing, *labels), [()] * len(missing) + places
        written = [self.writes.get(label, label) for label in labels]
        dims = tuple(None if isinstance(label, int) else label for label in written)
        self._check_placement(dims)
        goal = [self.place(label) for label in written]
        if self.pending:
            with _named_scope(self.no_ring):
                data = self._finish_sums(data, places, goal)
        if accumulation_type(self.result) == data.dtype:
            data = to_type(data, self.result)
        slots = [i for i, label in enumerate(labels) if isinstance(label, int)]
        order = list(range(len(labels)))
        for slot, letter in zip(slots, self.letters, strict=True):
            order[slot] = labels.index(letter)
        if order == sorted(order):
            return move(data, places, goal, dims, wire=self.wire)
        return move(data, places, goal, dims, lambda moved: lax.transpose(moved, order), self.wire)

    def _finish_sums(
        self, data: jax.Array, places: list[MeshAxes], goal: Sequence[MeshAxes]
    ) -> jax.Array:
        """Sum over the mesh axes in `pending`.

        Each dimension that is written with them gets a reduce-scatter.

        Records in `places` the new sharding of the dimensions.
        """
        pending = dict.fromkeys(self.pending)
        for dim, (old, new) in enumerate(zip(list(places), goal, strict=True)):
            taken = tuple(axis for axis in new if axis in pending)
            if not taken:
                continue
            added = new[len(old) :]
            if isinstance(new, Uneven) or isinstance(old, Uneven):
                if old or not set(new) <= set(pending):
                    continue
                added = new
            free = set(_chain(places)).isdisjoint(axis for axis in added if axis not in pending)
            if new[: len(old)] != old or not free:
                added = taken  # an intermediate sharding; `move` does the rest
            if isinstance(added, Uneven) or data.shape[dim] % self._blocks(added) == 0:
                data = sum_scatter(data, dim, added, frozenset(taken), self.wire, places)
                places[dim] = added if isinstance(added, Uneven) else old + added
                for axis in taken:
                    del pending[axis]
        return comm.psum(data, tuple(pending)) if pending else data


def _chain(parts: Iterable[Iterable[Any]]) -> Iterable[Any]:
    return itertools.chain.from_iterable(parts)


# For arrays of one of these dtypes, none of them weak, the common dtype is that dtype under every
# configuration.
_FLOATS = frozenset(map(jnp.dtype, ("bfloat16", "float16", "float32", "complex64")))


def _common_type(blocks: Sequence[AnyArray]) -> tuple[np.dtype, bool]:
    """Return the common dtype of all operands, and `True` if it is weak."""
    datas = [data_of(block) for block in blocks]
    first = datas[0].dtype
    if first in _FLOATS:
        for data in datas:
            if data.dtype != first or data.weak_type:
                break
        else:
            return first, False
    common = jnp.result_type(*datas)
    return common, all(data.weak_type or _kind(data.dtype) < _kind(common) for data in datas)


def _kind(dtype: DType) -> int:
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return [jnp.issubdtype(dtype, kind) for kind in kinds].index(True)


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


@functools.lru_cache(maxsize=4096)
def _dot_dimensions(
    a: Labels, b: Labels, needed: frozenset[Label]
) -> tuple[lax.DotDimensionNumbers, Labels, Labels]:
    """Return dimension numbers of `dot_general`, labels of its result, and summed labels."""
    both = [label for label in a if label in b]
    batch = [label for label in both if label in needed]
    summed = [label for label in both if label not in needed]
    free = [label for label in a + b if label not in both]
    contract = (tuple(a.index(s) for s in summed), tuple(b.index(s) for s in summed))
    batched = (tuple(a.index(s) for s in batch), tuple(b.index(s) for s in batch))
    return (contract, batched), tuple(batch + free), tuple(summed)
