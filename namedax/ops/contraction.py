"""Contractions: `einsum` with braces, and `dot`.

Both become the same plan: every dimension of every operand has a label (a name, or an integer for a
positional axis), and labels that are not in the result are summed over. Two operands meet in one
`dot_general`, or in one multiplication where nothing is summed; three or more meet in pairs, in the
order that `opt_einsum` finds.

Communication follows from the labels. Reading an axis under a name with another placement moves it
(`namedax.resources.layout`). A label that is summed and sharded costs one all-reduce of the local
result, or one reduce-scatter where the result is written onto the mesh axes that were just reduced.
Nothing else communicates. With `overlap=` gathers and reduce-scatters go around a ring, beside the
computation (`namedax.ops.overlap`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import opt_einsum
from jax import lax

from namedax.array import NamedArray, dims_of, type_text
from namedax.environment import Region, ambient, check_region_lives
from namedax.errors import (
    ArgumentError,
    AxisNotFoundError,
    AxisSizeError,
    EinsumError,
    PositionalAxisError,
    did_you_mean,
    raise_not_found,
    show_names,
)
from namedax.ops import kernels
from namedax.ops.align import local_block
from namedax.ops.einsum_spec import ELLIPSIS, EinsumSpec, parse_einsum
from namedax.ops.lift import explain_type_errors
from namedax.ops.overlap import OVERLAPS, Overlap, Ring, ring_gather, ring_reduce, ring_scatter
from namedax.ops.reshaping import check_new_name, move, read
from namedax.resources import communication as comm
from namedax.resources.layout import Axes, Layout, sum_scatter
from namedax.resources.serial import LoopAxis
from namedax.resources.variance import cast, varying

__all__ = ["dot", "einsum"]

Label = Hashable
Labels = tuple[Label, ...]

# Of more operands than this, not every order is tried where the best one makes rivals meet.
_MANY = 6


# --- from a specification to labels ---------------------------------------------------------------


def einsum(
    spec: str, *operands: Any, precision: Any = None, preferred_element_type: Any = None, overlap: Overlap | None = None
) -> Any:
    """Contraction over positional and named axes.

    Args:
      spec: one letter per positional axis, names in braces: `"n{b,k},{k,m}->n{b,m}"`. Names in
        operands that are not in the result are summed over. A name that the specification does not
        mention is carried by broadcasting. `{new:old}` reads the axis `old` of an operand as `new`,
        and in the result writes the axis `old` as `new`; where the two names have different
        placements, this moves data (see the module's text). `...` stands for further positional
        axes. Without an arrow, labels that appear once are kept (letters in alphabetical order), as
        in NumPy.
      *operands: arrays, named or not, any number.
      precision: as in `jax.lax.dot_general`.
      preferred_element_type: the type to accumulate in and to return; by default that of the
        operands, as in `jnp.einsum`.
      overlap: where two operands meet and one of them would be gathered to be read (by what differs
        from device to device there), or the result reduce-scattered to be written, computes with one
        block while the next is on its way around a ring: in one direction (`True`) or in both
        (`"bidirectional"`). The gathered operand never exists as a whole, and the same holds for the
        gradients (which then exist in reverse mode only). A result that would be all-reduced is
        reduce-scattered in that way, along its largest axis that divides, and its blocks then go around
        once more; it is all-reduced after all if it is a vector, or if no axis of it divides by the
        number of devices. By default what `xmap` was told.

    Returns:
      An array with the axes of the result; a plain `jax.Array` if it has no names.

    Raises:
      EinsumError: the specification is malformed or does not fit the operands.
      AxisNotFoundError: an operand lacks a name.
      AxisSizeError, PositionalAxisError: sizes disagree.
      PlacementConflictError: two names on one mesh axis meet.

    >>> import jax.numpy as jnp, namedax as nx
    >>> q = nx.named(jnp.ones((4, 2, 8)), ["pos", "heads", "d"])
    >>> nx.einsum("{pos,heads,d},{kpos:pos,heads,d}->{heads,pos,kpos}", q, q).named_shape["kpos"]
    4
    """
    if not isinstance(spec, str):
        raise EinsumError(f"einsum: the first argument is the specification, a string; got {type_text(spec)}.")
    parsed = parse_einsum(spec)
    if len(parsed.operands) != len(operands):
        raise EinsumError(
            f"einsum: {spec!r} has {_count(len(parsed.operands), 'operand')}, but "
            f"{_count(len(operands), 'array')} came with it. Separate operands by commas."
        )

    def impl(*arrays: Any) -> Any:
        region = ambient()
        blocks = [_block(array, "einsum", region) for array in arrays]
        labels, letters, keep, writes = _label(parsed, blocks)
        op = f"einsum {spec!r}"
        return _Contraction(op, labels, keep, letters, writes, precision, preferred_element_type, overlap).run(blocks)

    _check_overlap("einsum", overlap)
    with explain_type_errors:
        return kernels.run(("einsum", spec, precision, preferred_element_type, overlap), impl, *operands)


def _check_overlap(op: str, overlap: Any) -> None:
    if overlap is not None and overlap not in OVERLAPS:
        raise ArgumentError(f"{op}: overlap={overlap!r} is none of True, False and 'bidirectional'.")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _block(array: Any, op: str, region: Region | None) -> Any:
    block = local_block(array, op, region)
    return block if isinstance(block, (NamedArray, jax.Array)) else jnp.asarray(block)


def _label(
    spec: EinsumSpec, operands: Sequence[Any]
) -> tuple[list[Labels], tuple[int, ...], frozenset[Label], dict[Label, Label]]:
    """What the specification says of these operands.

    Returns:
      The labels of every operand's dimensions; the positional labels of the result, in order; the
      names that are kept; and for those that are written under another name, this name.
    """
    terms = (*spec.operands, *([spec.result] if spec.result else []))
    mentioned = {name for term in terms for pair in term.names for name in pair}
    ellipsis_ranks = [_ellipsis_rank(spec, i, operand) for i, operand in enumerate(operands)]
    labels = [_label_operand(spec, i, operand, ellipsis_ranks[i], mentioned) for i, operand in enumerate(operands)]
    everywhere = list(itertools.chain.from_iterable(labels))
    present = dict.fromkeys(everywhere)
    names = [label for label in present if not isinstance(label, int)]
    ellipsis = tuple(range(-max(ellipsis_ranks, default=0), 0))
    carried = {name for name in names if name not in mentioned}
    if spec.result is None:
        once = [label for label in present if everywhere.count(label) == 1]
        letters = sorted(label for label in once if isinstance(label, int) and label >= 0)
        keep = frozenset(label for label in once if not isinstance(label, int)) | carried
        return labels, ellipsis + tuple(letters), keep, {}
    result = spec.result
    out: list[int] = []
    for letter, at in zip(result.letters, result.letters_at, strict=True):
        if letter == ELLIPSIS:
            out.extend(ellipsis)
        elif ord(letter) in present:
            out.append(ord(letter))
        else:
            raise EinsumError(f"einsum: letter {letter!r} of the result is in no operand.{spec.point(at)}")
    if ellipsis and ELLIPSIS not in result.letters:
        raise EinsumError(
            "einsum: '...' stands in an operand, but not in the result. Write it there, or write "
            f"letters.{spec.point(result.at)}"
        )
    for (_, name), at in zip(result.names, result.names_at, strict=True):
        if name not in present:
            have = f"the names {show_names(names)}" if names else "no names"
            raise EinsumError(
                f"einsum: name {name!r} of the result is in no operand; the operands have {have}."
                f"{did_you_mean(name, names)}{spec.point(at)}"
            )
    writes: dict[Label, Label] = {name: new for new, name in result.names if new != name}
    keep = frozenset(name for _, name in result.names) | carried
    return labels, tuple(out), keep, writes


def _ellipsis_rank(spec: EinsumSpec, i: int, operand: Any) -> int:
    """The number of positional axes that `...` stands for in operand `i`."""
    term = spec.operands[i]
    rank = dims_of(operand).count(None)
    letters = len(term.letters) - (ELLIPSIS in term.letters)
    if letters > rank or (letters != rank and ELLIPSIS not in term.letters):
        raise EinsumError(
            f"einsum: operand {i} has {_count(letters, 'letter')}, but {type_text(operand)} has "
            f"{rank} positional ax{'i' if rank == 1 else 'e'}s. Write one letter for each, or "
            f"'...'.{spec.point(term.at)}"
        )
    return rank - letters


def _label_operand(spec: EinsumSpec, i: int, operand: Any, extra: int, mentioned: set[str]) -> Labels:
    term = spec.operands[i]
    dims = dims_of(operand)
    own = [dim for dim in dims if dim is not None]
    read = {axis: label for label, axis in term.names}
    for (_, axis), at in zip(term.names, term.names_at, strict=True):
        if axis not in own:
            has = f"its named axes are {show_names(own)}" if own else "it has no named axis"
            raise AxisNotFoundError(
                f"einsum: no axis {axis!r} in operand {i}, {type_text(operand)}; {has}."
                f"{did_you_mean(axis, own)}{spec.point(at)}"
            )
    positional: list[int] = []
    for letter in term.letters:
        positional.extend(range(-extra, 0) if letter == ELLIPSIS else [ord(letter)])
    numbers = iter(positional)
    labels: list[Label] = []
    for dim in dims:
        if dim is None:
            labels.append(next(numbers))
        elif dim in read:
            labels.append(read[dim])
        elif dim in mentioned:
            raise EinsumError(
                f"einsum: operand {i}, {type_text(operand)}, has the axis {dim!r}, which is mentioned "
                f"elsewhere but skipped here. Mention it here too, or read it under another name, "
                f"{{other:{dim}}}.{spec.point(term.at)}"
            )
        else:
            labels.append(dim)
    return tuple(labels)


def dot(
    x: Any,
    y: Any,
    axis: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    overlap: Overlap | None = None,
) -> Any:
    """Contraction of two arrays over the given names; all other axes are broadcast.

    Args:
      x: a named array.
      y: a named array.
      axis: a name, or a tuple of names, that both arrays have.
      precision: as in `jax.lax.dot_general`.
      preferred_element_type: the type to accumulate in and to return; by default that of the
        operands.
      overlap: as in `einsum`; of use where an operand's axis has to move to meet the other operand.

    Returns:
      An array with all names of both but the contracted ones. The positional axes of at most one
      operand are not empty, or those of both are equal and meet elementwise; for outer products of
      positional axes use `einsum`.

    Over a sharded name: one all-reduce of the result.

    Raises:
      AxisNotFoundError: an operand lacks a name.
      AxisSizeError: a name has two sizes.
      PositionalAxisError: both operands have positional axes, of different shapes.
      PlacementConflictError: two names on one mesh axis meet.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 3)), ["batch", "inputs"])
    >>> w = nx.named(jnp.ones((3, 5)), ["inputs", "hidden"])
    >>> nx.dot(x, w, "inputs").dims
    ('batch', 'hidden')
    """
    names = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)

    def impl(x: Any, y: Any) -> Any:
        region = ambient()
        blocks = [_block(operand, "dot", region) for operand in (x, y)]
        labels: list[Labels] = []
        for block in blocks:
            dims = dims_of(block)
            for name in names:
                if name not in dims or name is None:
                    own = [dim for dim in dims if dim is not None]
                    hint = "dot contracts names that both arrays have."
                    raise_not_found("dot", name, type_text(block), own, hint)
            numbers = iter(range(-dims.count(None), 0))
            labels.append(tuple(next(numbers) if dim is None else dim for dim in dims))
        shapes = [tuple(block.shape) for block in blocks]
        if all(shapes) and shapes[0] != shapes[1]:
            raise PositionalAxisError(
                f"dot: both operands have positional axes, of shapes {shapes[0]} and {shapes[1]} "
                f"({type_text(blocks[0])} and {type_text(blocks[1])}); they have to be equal, or "
                "those of one operand empty. For an outer product write einsum with a letter for "
                "each axis."
            )
        keep = frozenset(label for ls in labels for label in ls if not isinstance(label, int))
        letters = tuple(range(-max(map(len, shapes)), 0))
        kept = keep - frozenset(names)
        return _Contraction("dot", labels, kept, letters, {}, precision, preferred_element_type, overlap).run(blocks)

    _check_overlap("dot", overlap)
    with explain_type_errors:
        return kernels.run(("dot", names, precision, preferred_element_type, overlap), impl, x, y)


# --- from labels to dot_general and collectives ---------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Term:
    """An operand on its way.

    Attributes:
      source: the data, or the named array that holds it, as long as nothing was done to it (it
        remembers what it was cast and moved to).
      labels: one per dimension.
      places: the placement that every dimension has; that of its label comes when the term is read.
    """

    source: Any
    labels: Labels
    places: Layout

    @property
    def data(self) -> Any:
        return self.source._data if isinstance(self.source, NamedArray) else self.source

    def without(self, dims: Iterable[int], data: Any) -> _Term:
        """The term with `data`, which lacks these dimensions."""
        kept = [i for i in range(len(self.labels)) if i not in set(dims)]
        return _Term(data, tuple(self.labels[i] for i in kept), tuple(self.places[i] for i in kept))

    def without_repeats(self) -> _Term:
        """The diagonal over a letter that stands twice."""
        term = self
        for label in dict.fromkeys(self.labels):
            while term.labels.count(label) > 1:
                first = term.labels.index(label)
                second = term.labels.index(label, first + 1)
                data = jnp.diagonal(term.data, axis1=first, axis2=second)
                rest = term.without((first, second), data)
                term = _Term(data, (*rest.labels, label), (*rest.places, ()))
        return term

    def without_broadcast(self) -> _Term:
        """Without the axes of `...` that have size 1; whoever has them larger broadcasts."""
        ones = [i for i, label in enumerate(self.labels) if isinstance(label, int) and label < 0 and self.data.shape[i] == 1]
        return self.without(ones, lax.squeeze(self.data, ones)) if ones else self


class _Contraction:
    """One contraction, from the labels of its operands to the result.

    Args:
      op: the operation, for messages.
      labels: of the dimensions of every operand.
      keep: the names of the result, as they are called until it is written.
      letters: the positional labels of the result, in order.
      writes: for names of the result that are written as another name, this name.
      precision: of `dot_general`.
      dtype: the type to accumulate in and to return, or `None`.
      overlap: whether blocks go around a ring while others are computed with; `None`: as the region says.
    """

    def __init__(
        self,
        op: str,
        labels: list[Labels],
        keep: frozenset[Label],
        letters: tuple[int, ...],
        writes: Mapping[Label, Label],
        precision: Any,
        dtype: Any,
        overlap: Overlap | None = None,
    ):
        self.op, self.labels, self.letters, self.writes = op, labels, letters, writes
        self.kept = keep | frozenset(letters)
        self.precision, self.preferred = precision, None if dtype is None else jnp.dtype(dtype)
        self.region = ambient()
        self.manual = self.region is not None and self.region.manual
        self.overlap = overlap if overlap is not None or self.region is None else self.region.overlap
        # What one operand has and nobody else. It is summed before the operands meet, where it
        # lies: to move it first would send more.
        self.alone = [
            frozenset(ls) - self.kept - frozenset(_chain(labels[:i] + labels[i + 1 :])) for i, ls in enumerate(labels)
        ]
        self.late: frozenset[str] = frozenset()
        self.pending: list[str] = []

    def place(self, label: Label) -> Axes:
        """The placement of a label; that of a positional one is empty."""
        if self.region is None or not self.manual or isinstance(label, int):
            return ()
        return self.region.placement(label)

    def run(self, blocks: Sequence[Any]) -> Any:
        """Contracts the blocks of this device, communicates, and names the result."""
        self._check(blocks)
        # As in `jnp.einsum`, all operands have the result's type before the first product.
        self.common = jnp.result_type(*(_data(block) for block in blocks))
        self.weak = all(_data(block).weak_type or _kind(block.dtype) < _kind(self.common) for block in blocks)
        self.accumulate = self.common
        if self.preferred is not None:
            wide = jnp.promote_types(self.common, self.preferred)
            self.accumulate = wide if wide == self.preferred else self.common
        terms = [
            _Term(block, ls, tuple(self.place(dim) for dim in _dims_as_labels(block)))
            for block, ls in zip(blocks, self.labels, strict=True)
        ]
        self.late = self._late(terms)
        for i, term in enumerate(terms):
            term = term.without_repeats().without_broadcast()
            terms[i] = term = self._sum_out(term, self.alone[i])
            self._check_placement(term.labels)
        for i, j in self._path(terms):
            x, y = terms[i], terms[j]
            terms = [term for k, term in enumerate(terms) if k not in (i, j)]
            terms.append(self._meet(x, y, self.kept.union(*(term.labels for term in terms))))
        return self._write(terms[0])

    # --- what has to hold ---

    def _check(self, blocks: Sequence[Any]) -> None:
        """Raises where one label has two sizes, or a name of the region has another size."""
        op, region = self.op, self.region
        known: dict[Label, tuple[int, int]] = {}
        for i, (block, ls) in enumerate(zip(blocks, self.labels, strict=True)):
            for dim, label, n in zip(dims_of(block), ls, _data(block).shape, strict=True):
                size = n if dim is None or region is None else region.global_size(dim, n)
                first, other = known.setdefault(label, (i, size))
                if size == other:
                    continue
                if isinstance(label, int) and label < 0 and 1 in (size, other):
                    known[label] = (i, max(size, other))  # the axes of `...` broadcast
                    continue
                both = (
                    f"has size {other} in operand {first}, {type_text(blocks[first])}, and size "
                    f"{size} in operand {i}, {type_text(block)}"
                )
                if not isinstance(label, int):
                    raise AxisSizeError(f"{op}: axis {label!r} {both}; a name has one size. Rename one of the two.")
                what = f"letter {chr(label)!r}" if label >= 0 else "an axis of '...'"
                raise PositionalAxisError(f"{op}: {what} {both}. One letter stands for one size.")
        if region is None:
            for block, ls in zip(blocks, self.labels, strict=True):
                if isinstance(_data(block), jax.core.Tracer) and (variance := varying(_data(block))):
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
        """Raises where two names on one mesh axis are in one value."""
        if self.region is not None and self.region.resources:
            names = (label for label in labels if label is not None and not isinstance(label, int))
            self.region.check_placement(self.op, names)

    def _late(self, terms: Sequence[_Term]) -> frozenset[str]:
        """Mesh axes over which a sum can wait, to become a reduce-scatter when the result is written.

        These are mesh axes onto which the result is written, and that only one label uses: what is
        partial over them must not meet anything that lies on them.
        """
        if not self.manual:
            return frozenset()
        arriving = {
            mesh_axis
            for label in self.kept
            for mesh_axis in set(self.place(self.writes.get(label, label))) - set(self.place(label))
        }
        users: dict[str, set[Label]] = {}
        for i, term in enumerate(terms):
            for label, place in zip(term.labels, term.places, strict=True):
                # A name may be summed in two operands, in each alone; then they are two users.
                user = (i, label) if label in self.alone[i] else label
                for mesh_axis in place if label in self.alone[i] else self.place(label):
                    users.setdefault(mesh_axis, set()).add(user)
        return frozenset(a for a in arriving if len(users.get(a, ())) == 1)

    # --- sums and products ---

    def _reduce(self, data: Any, mesh_axes: Iterable[str]) -> Any:
        """The sum over mesh axes, except over those where it can wait."""
        mesh_axes = tuple(mesh_axes)
        if data.dtype == jnp.bool_:  # there is no sum of truth values
            return comm.pmax(data, mesh_axes) if mesh_axes else data
        self.pending += [axis for axis in mesh_axes if axis in self.late]
        now = tuple(axis for axis in mesh_axes if axis not in self.late)
        return comm.psum(data, now) if now else data

    def _sum_out(self, term: _Term, labels: frozenset[Label]) -> _Term:
        dims = tuple(i for i, label in enumerate(term.labels) if label in labels)
        if not dims:
            return term
        if self.common == jnp.bool_ and self.accumulate == jnp.bool_:
            data = jnp.any(term.data, dims)
        else:
            data = jnp.sum(term.data, dims, dtype=None if self.weak else self.accumulate)
        data = self._reduce(data, _chain(term.places[i] for i in dims))
        return term.without(dims, data)

    def _variance(self, term: _Term) -> frozenset[str]:
        """The mesh axes over which the term varies once it is read."""
        goal = frozenset(_chain(self.place(label) for label in term.labels))
        return varying(term.data) - frozenset(_chain(term.places)) | goal

    def _read(self, term: _Term, variance: frozenset[str], goal: Layout | None = None) -> Any:
        """The data of a term, moved to where its labels lie (or to `goal`), and varying over `variance`."""
        if goal is None:
            goal = tuple(self.place(label) for label in term.labels)
        if goal == term.places:
            return cast(term.source, variance)
        return read(term.source, term.places, goal, variance)

    def _meet(self, a: _Term, b: _Term, needed: frozenset[Label]) -> _Term:
        """Contracts two terms over what they have in common and nobody needs any more."""
        self._check_placement(dict.fromkeys(a.labels + b.labels))
        x, y = a.data, b.data
        if self.manual and self.overlap and (term := self._around(a, b, needed)) is not None:
            return term
        if self.manual:
            variance = self._variance(a) | self._variance(b)
            x, y = self._read(a, variance), self._read(b, variance)
        dimensions, labels, summed = _dot_dimensions(a.labels, b.labels, needed)
        places = tuple(self.place(label) for label in labels)
        if not summed:
            data = self._multiply(x, y, a.labels, b.labels, labels)
            return _Term(data, labels, places)
        if self.weak:
            data = self._weak_dot(x, y, a.labels, b.labels, labels)
        else:
            dtype = jnp.promote_types(self.common, jnp.result_type(x, y))
            x, y = (v if v.dtype == dtype else lax.convert_element_type(v, dtype) for v in (x, y))
            data = _dot_general(x, y, dimensions, self.precision, self.preferred)
        return _Term(self._reduce(data, _chain(self.place(s) for s in summed)), labels, places)

    def _around(self, a: _Term, b: _Term, needed: frozenset[Label]) -> _Term | None:
        """The contraction of two terms around a ring, where one has to be gathered or the result reduce-scattered."""
        _, labels, summed = _dot_dimensions(a.labels, b.labels, needed)
        if self.weak or not jnp.issubdtype(self.accumulate, jnp.inexact):
            return None
        variance = self._variance(a) | self._variance(b)
        moving = [found for term in (a, b) if (found := self._gathered(term, variance)) is not None]
        result = self.common if self.preferred is None else self.accumulate
        ring = functools.partial(Ring, both=self.overlap == "bidirectional", precision=self.precision, dtype=result)
        reduced = tuple(_chain(self.place(s) for s in summed))
        if moving:
            term, label, axes = max(moving, key=lambda found: found[0].data.size)
            other = b if term is a else a
            x, y = self._alike(cast(term.source, variance), self._read(other, variance))
            data = ring_gather(ring(x=term.labels, y=other.labels, out=labels, label=label, axes=axes), x, y)
            return _Term(self._reduce(data, reduced), labels, tuple(self.place(found) for found in labels))
        late = frozenset(reduced) & self.late
        if not late:
            return self._reduced_around(a, b, ring, labels, reduced)
        if needed != self.kept:
            return None
        for label in labels:
            have, want = self.place(label), self.place(self.writes.get(label, label))
            axes = want[len(have) :]
            if want[: len(have)] == have and frozenset(axes) == late and self._divides(label, axes, a, b):
                x, y = self._alike(self._read(a, variance), self._read(b, variance))
                data = ring_scatter(ring(x=a.labels, y=b.labels, out=labels, label=label, axes=axes), x, y)
                places = tuple(want if found == label else self.place(found) for found in labels)
                return _Term(self._reduce(data, (axis for axis in reduced if axis not in late)), labels, places)
        return None

    def _reduced_around(self, a: _Term, b: _Term, ring: Any, labels: Labels, reduced: Axes) -> _Term | None:
        """The sum of the contraction of two terms over mesh axes, whole on every device, around a ring.

        It is computed in blocks of its largest axis that divides into as many as there are devices. Not where it is a vector, which
        is too small to be sent in parts, nor where a part of the sum is in time, and the rest is sent once, when all of it is there.
        """
        sizes = {label: n for term in (a, b) for label, n in zip(term.labels, self._sizes(term), strict=True)}
        whole = [label for label in labels if sizes[label] % self._blocks(reduced) == 0]
        if len(labels) < 2 or not whole or any(isinstance(axis, LoopAxis) for axis in reduced) or self._blocks(reduced) == 1:
            return None
        label = max(whole, key=sizes.__getitem__)
        variance = self._variance(a) | self._variance(b)
        x, y = self._alike(self._read(a, variance), self._read(b, variance))
        data = ring_reduce(ring(x=a.labels, y=b.labels, out=labels, label=label, axes=reduced), x, y)
        return _Term(data, labels, tuple(self.place(found) for found in labels))

    def _sizes(self, term: _Term) -> list[int]:
        """The local size of every dimension of a term, once it is read."""
        goals = (self.place(label) for label in term.labels)
        sizes = zip(term.data.shape, term.places, goals, strict=True)
        return [n * self._blocks(old) // self._blocks(new) for n, old, new in sizes]

    def _gathered(self, term: _Term, variance: frozenset[str]) -> tuple[_Term, Label, Axes] | None:
        """What is left to gather of a term, if that is all that is to be done and the other operand varies there.

        Returns:
          The term, the label and the mesh axes. Of several labels, the one in the most blocks; the others are gathered at once.
        """
        goal = [self.place(label) for label in term.labels]
        moved = {i: place[len(new) :] for i, (place, new) in enumerate(zip(term.places, goal, strict=True)) if place != new}
        if not moved or len(term.labels) < 2:  # a vector is too small to be sent in parts
            return None
        if any(term.places[i][: len(goal[i])] != goal[i] or not variance.issuperset(axes) for i, axes in moved.items()):
            return None
        last = max(moved, key=lambda i: self._blocks(moved[i]))
        if len(moved) > 1:
            places = (*goal[:last], term.places[last], *goal[last + 1 :])
            term = _Term(self._read(term, variance, places), term.labels, places)
        return term, term.labels[last], moved[last]

    def _divides(self, label: Label, axes: Axes, *terms: _Term) -> bool:
        sizes = [term.data.shape[term.labels.index(label)] for term in terms if label in term.labels]
        return all(size % self._blocks(axes) == 0 for size in sizes)

    def _alike(self, *datas: Any) -> list[Any]:
        dtype = jnp.promote_types(self.common, jnp.result_type(*datas))
        return [data if data.dtype == dtype else lax.convert_element_type(data, dtype) for data in datas]

    def _multiply(self, x: Any, y: Any, a: Labels, b: Labels, labels: Labels) -> Any:
        """The product where nothing is summed, after both operands are broadcast to `labels`."""
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

    def _weak_dot(self, x: Any, y: Any, a: Labels, b: Labels, labels: Labels) -> Any:
        # Only jnp's functions return weak types.
        symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(dict.fromkeys(a + b))}
        left, right, out = ("".join(symbols[label] for label in ls) for ls in (a, b, labels))
        return jnp.einsum(
            f"{left},{right}->{out}",
            x,
            y,
            precision=self.precision,
            preferred_element_type=self.preferred,
        )

    # --- the order of three operands and more ---

    def _path(self, terms: Sequence[_Term]) -> Sequence[tuple[int, int]]:
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
        return _best_path(labels, tuple(shapes), self.kept, rivals)

    def _blocks(self, axes: Axes) -> int:
        return 1 if self.region is None else self.region.mesh_axis_size(axes)

    # --- the result ---

    def _write(self, term: _Term) -> Any:
        """Finishes the sums that waited, moves the result to where it is written, and names it."""
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
            data = self._finish_sums(data, places, goal)
        slots = [i for i, label in enumerate(labels) if isinstance(label, int)]
        order = list(range(len(labels)))
        for slot, letter in zip(slots, self.letters, strict=True):
            order[slot] = labels.index(letter)
        if order == sorted(order):
            return move(data, places, goal, dims)
        return move(data, places, goal, dims, lambda moved: lax.transpose(moved, order))

    def _finish_sums(self, data: Any, places: list[Axes], goal: Sequence[Axes]) -> Any:
        """Sums over the mesh axes that waited: a reduce-scatter onto each dimension that wants them.

        Notes in `places` where the dimensions are then.
        """
        pending = dict.fromkeys(self.pending)
        for dim, (have, want) in enumerate(zip(list(places), goal, strict=True)):
            taken = tuple(axis for axis in want if axis in pending)
            if not taken:
                continue
            arriving = want[len(have) :]
            free = set(_chain(places)).isdisjoint(axis for axis in arriving if axis not in pending)
            if want[: len(have)] != have or not free:
                arriving = taken  # on the way; `move` does the rest
            if data.shape[dim] % self._blocks(arriving) == 0:
                data = sum_scatter(data, dim, arriving, frozenset(taken))
                places[dim] = have + arriving
                for axis in taken:
                    del pending[axis]
        return comm.psum(data, tuple(pending)) if pending else data


def _chain(parts: Iterable[Iterable[Any]]) -> Iterable[Any]:
    return itertools.chain.from_iterable(parts)


def _data(block: Any) -> Any:
    return block._data if isinstance(block, NamedArray) else block


def _kind(dtype: Any) -> int:
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return [jnp.issubdtype(dtype, kind) for kind in kinds].index(True)


def _dims_as_labels(block: Any) -> Labels:
    return tuple(0 if dim is None else dim for dim in dims_of(block))


@functools.partial(jax.jit, static_argnums=(2, 3, 4), inline=True)
def _dot_general(x: Any, y: Any, dimensions: Any, precision: Any, preferred_element_type: Any) -> Any:
    # Through jit, so that JAX keeps its linearization, which is most of the cost of a gradient.
    return lax.dot_general(x, y, dimensions, precision=precision, preferred_element_type=preferred_element_type)


@functools.lru_cache(maxsize=4096)
def _dot_dimensions(a: Labels, b: Labels, needed: frozenset[Label]) -> tuple[Any, Labels, Labels]:
    """Dimension numbers for `dot_general`, labels of its result, and labels that are summed."""
    both = [label for label in a if label in b]
    batch = [label for label in both if label in needed]
    summed = [label for label in both if label not in needed]
    free = [label for label in a + b if label not in both]
    contract = (tuple(a.index(s) for s in summed), tuple(b.index(s) for s in summed))
    batched = (tuple(a.index(s) for s in batch), tuple(b.index(s) for s in batch))
    return (contract, batched), tuple(batch + free), tuple(summed)


@functools.lru_cache(maxsize=1024)
def _best_path(
    labels: tuple[Labels, ...],
    shapes: tuple[tuple[int, ...], ...],
    kept: frozenset[Label],
    rivals: tuple[frozenset[Label], ...],
) -> tuple[tuple[int, int], ...]:
    """Which two operands meet first, which next, and so on; a result goes to the end of the list.

    Args:
      labels: of every operand.
      shapes: of every operand.
      kept: labels of the result.
      rivals: sets of labels that live on one mesh axis, of which no two may meet.
    """
    symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(dict.fromkeys(_chain(labels)))}
    text = ",".join("".join(symbols[label] for label in ls) for ls in labels)
    out = "".join(symbol for label, symbol in symbols.items() if label in kept)
    found, _ = opt_einsum.contract_path(f"{text}->{out}", *shapes, shapes=True, optimize="auto")
    best = tuple((min(step), max(step)) for step in found)
    if not rivals or _is_peaceful(best, labels, kept, rivals):
        return best
    sizes = dict(zip(_chain(labels), _chain(shapes), strict=True))
    costs = {
        path: _cost(path, labels, kept, sizes)
        for path in (_all_paths(len(labels)) if len(labels) <= _MANY else ())
        if _is_peaceful(path, labels, kept, rivals)
    }
    # Where there is no way around it, the meeting is reported by who makes it.
    return min(costs, key=costs.__getitem__, default=best)


def _merges(path: Iterable[tuple[int, int]], labels: Sequence[Labels], kept: frozenset[Label]) -> Iterator[frozenset[Label]]:
    """The labels of each pair that meets."""
    current = [frozenset(ls) for ls in labels]
    for i, j in path:
        meeting = current[i] | current[j]
        yield meeting
        current = [ls for k, ls in enumerate(current) if k not in (i, j)]
        current.append(meeting & kept.union(*current))


def _is_peaceful(
    path: Iterable[tuple[int, int]],
    labels: Sequence[Labels],
    kept: frozenset[Label],
    rivals: Sequence[frozenset[Label]],
) -> bool:
    meetings = _merges(path, labels, kept)
    return all(len(meeting & names) < 2 for meeting in meetings for names in rivals)


def _cost(
    path: Iterable[tuple[int, int]],
    labels: Sequence[Labels],
    kept: frozenset[Label],
    sizes: Mapping[Label, int],
) -> int:
    return sum(math.prod(sizes[label] for label in ls) for ls in _merges(path, labels, kept))


def _all_paths(n: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """All orders in which `n` operands can meet in pairs."""
    if n < 2:
        yield ()
        return
    for pair in itertools.combinations(range(n), 2):
        for rest in _all_paths(n - 1):
            yield (pair, *rest)
