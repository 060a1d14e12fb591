"""Contractions: `einsum` with braces, and `dot`.

Both become the same plan: every dimension of every operand has a label (a name, or an integer for a positional axis), and labels
that are not in the result are summed over. Two operands meet in one `dot_general`; three or more in the order that
`opt_einsum` finds.

Communication follows from the labels. Reading an axis under a name with another placement moves it (`relayout`). A label that is
summed and sharded costs one all-reduce of the local result, or one reduce-scatter where the result is written onto the mesh axes
that were just reduced. Nothing else communicates.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import opt_einsum
from jax import lax

from namedax.array import NamedArray, dims_of, type_text
from namedax.environment import Region, ambient
from namedax.errors import AxisSizeError, EinsumError, PositionalAxisError, did_you_mean, raise_not_found, show_names
from namedax.ops import kernels
from namedax.ops.align import local_block, wrap
from namedax.ops.einsum_spec import ELLIPSIS, EinsumSpec, Term, parse_einsum
from namedax.ops.lift import explain_type_errors
from namedax.resources import communication as comm
from namedax.resources.layout import relayout
from namedax.resources.variance import cast, remembered, varying

__all__ = ["dot", "einsum"]

Label = Hashable
Axes = tuple[str, ...]


# --- from a specification to labels ---------------------------------------------------------------------------------


def einsum(
    spec: str, *operands: Any, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """Contraction over positional and named axes.

    Args:
      spec: one letter per positional axis, names in braces: `"n{b,k},{k,m}->n{b,m}"`. Names in operands that are not in the
        result are summed over. A name that the specification does not mention is carried by broadcasting. `{new:old}` reads the
        axis `old` of an operand as `new`, and in the result writes the axis `old` as `new`; where the two names have different
        placements, this moves data (see the module's text). `...` stands for further positional axes. Without an arrow, labels
        that appear once are kept (letters in alphabetical order), as in NumPy.
      *operands: arrays, named or not, any number.
      precision: as in `jax.lax.dot_general`.
      preferred_element_type: as in `jax.lax.dot_general`: the type to accumulate in and to return.

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
            f"einsum: {spec!r} has {len(parsed.operands)} operands, but {len(operands)} arrays were given. Separate operands by commas."
        )

    def impl(*arrays: Any) -> Any:
        region = ambient()
        blocks = [local_block(array, "einsum", region) for array in arrays]
        labels, letters, keep, writes = _label(parsed, blocks)
        return _contract(f"einsum {spec!r}", blocks, labels, letters, keep, writes, precision, preferred_element_type)

    with explain_type_errors:
        return kernels.run(("einsum", spec, precision, preferred_element_type), impl, *operands)


def _label(
    spec: EinsumSpec, operands: Sequence[Any]
) -> tuple[list[tuple[Label, ...]], tuple[int, ...], frozenset[Label], dict[Label, Label]]:
    """Labels of every operand's dimensions, positional labels of the result in order, names kept, and how they are written."""
    mentioned: set[str] = set()
    for term in (*spec.operands, *([spec.result] if spec.result else [])):
        for label, axis in term.names:
            mentioned |= {label, axis}
    ellipsis_ranks = [_ellipsis_rank(spec, i, operand) for i, operand in enumerate(operands)]
    labels = [
        _label_operand(spec, i, operand, ellipsis_ranks[i], mentioned) for i, operand in enumerate(operands)
    ]
    present = {label for operand_labels in labels for label in operand_labels}
    ellipsis = tuple(range(-max(ellipsis_ranks, default=0), 0))
    carried = {label for label in present if not isinstance(label, int) and label not in mentioned}
    if spec.result is None:
        counts: dict[Label, int] = {}
        for operand_labels in labels:
            for label in operand_labels:
                counts[label] = counts.get(label, 0) + 1
        once = {label for label, n in counts.items() if n == 1}
        letters = ellipsis + tuple(sorted(label for label in once if isinstance(label, int) and label >= 0))
        names = frozenset(label for label in once if not isinstance(label, int)) | carried
        return labels, letters, names, {}
    result = spec.result
    out: list[int] = []
    for letter in result.letters:
        if letter == ELLIPSIS:
            out.extend(ellipsis)
            continue
        if ord(letter) not in present:
            raise EinsumError(f"einsum: letter {letter!r} in the result of {spec.text!r} appears in no operand.")
        out.append(ord(letter))
    if ellipsis and ELLIPSIS not in result.letters:
        raise EinsumError(f"einsum: {spec.text!r} has '...' in an operand but not in the result. Write it there, or use letters.")
    for _, label in result.names:
        if label not in present:
            raise EinsumError(
                f"einsum: name {label!r} in the result of {spec.text!r} appears in no operand; the operands have the names "
                f"{show_names(sorted(map(str, (p for p in present if not isinstance(p, int)))))}."
                f"{did_you_mean(label, (p for p in present if not isinstance(p, int)))}"
            )
    writes: dict[Label, Label] = {label: written for written, label in result.names if written != label}
    keep = frozenset(label for _, label in result.names) | carried
    clash = set(writes.values()) & carried
    if clash:
        raise EinsumError(f"einsum: {spec.text!r} writes {show_names(clash)}, which an operand carries already. Choose another name.")
    return labels, tuple(out), keep, writes


def _ellipsis_rank(spec: EinsumSpec, i: int, operand: Any) -> int:
    term = spec.operands[i]
    rank = dims_of(operand).count(None)
    letters = len(term.letters) - (ELLIPSIS in term.letters)
    if letters > rank or (letters != rank and ELLIPSIS not in term.letters):
        raise EinsumError(
            f"einsum: operand {i} of {spec.text!r} is {term.text!r}, with {letters} letters, but the array is {type_text(operand)} with "
            f"{rank} positional axes. Write one letter per positional axis, or '...'."
        )
    return rank - letters


def _label_operand(spec: EinsumSpec, i: int, operand: Any, extra: int, mentioned: set[str]) -> tuple[Label, ...]:
    term: Term = spec.operands[i]
    dims = dims_of(operand)
    read = {axis: label for label, axis in term.names}
    for axis in read:
        if axis not in dims:
            raise_not_found(
                "einsum", axis, f"operand {i} of {spec.text!r}, {type_text(operand)}", [d for d in dims if d is not None]
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
                f"einsum: {spec.text!r} mentions {dim!r}, but skips it for operand {i}, {type_text(operand)}, which has it. Mention it "
                f"there too, or rename it on reading: {{other:{dim}}}."
            )
        else:
            labels.append(dim)
    return tuple(labels)


def dot(x: Any, y: Any, axis: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Contraction of two arrays over the given names; all other axes are broadcast.

    Args:
      x: a named array.
      y: a named array.
      axis: a name, or a tuple of names, that both arrays have.
      precision: as in `jax.lax.dot_general`.
      preferred_element_type: as in `jax.lax.dot_general`.

    Returns:
      An array with all names of both but the contracted ones. The positional axes of at most one operand are not empty, or
      those of both are equal and meet elementwise; for outer products of positional axes use `einsum`.

    Raises:
      AxisNotFoundError: an operand lacks a name.
      PositionalAxisError: both operands have positional axes, of different shapes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 3)), ["batch", "inputs"])
    >>> w = nx.named(jnp.ones((3, 5)), ["inputs", "hidden"])
    >>> nx.dot(x, w, "inputs").dims
    ('batch', 'hidden')
    """
    names = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)

    def impl(x: Any, y: Any) -> Any:
        region = ambient()
        blocks = [local_block(operand, "dot", region) for operand in (x, y)]
        labels = []
        for block in blocks:
            dims = dims_of(block)
            for name in names:
                if name not in dims or name is None:
                    raise_not_found("dot", name, type_text(block), [d for d in dims if d is not None], "dot contracts names that both have.")
            numbers = iter(range(-dims.count(None), 0))
            labels.append(tuple(next(numbers) if dim is None else dim for dim in dims))
        shapes = [tuple(np.shape(b) if not isinstance(b, NamedArray) else b.shape) for b in blocks]
        if all(shapes) and shapes[0] != shapes[1]:
            raise PositionalAxisError(
                f"dot: both operands have positional axes, of shapes {shapes[0]} and {shapes[1]} ({type_text(x)} and {type_text(y)}); they "
                "have to be equal, or those of one operand empty. For an outer product write einsum with a letter for each axis."
            )
        keep = frozenset(label for ls in labels for label in ls if not isinstance(label, int)) - frozenset(names)
        letters = tuple(range(-max(map(len, shapes)), 0))
        return _contract("dot", blocks, labels, letters, keep, {}, precision, preferred_element_type)

    with explain_type_errors:
        return kernels.run(("dot", names, precision, preferred_element_type), impl, x, y)


# --- from labels to dot_general and collectives ---------------------------------------------------------------------


def _contract(
    op: str,
    blocks: Sequence[Any],
    labels: Sequence[tuple[Label, ...]],
    letters: tuple[int, ...],
    keep: frozenset[Label],
    writes: dict[Label, Label],
    precision: Any,
    preferred_element_type: Any,
) -> Any:
    region = ambient()
    place = _placer(region)
    _check_sizes(op, blocks, labels, place)
    if region is not None:
        region.seen.update(label for ls in labels for label in ls if not isinstance(label, int))
    kept = keep | frozenset(letters)
    scattered = _scatter_axes(keep, writes, place) if region is not None and region.manual else frozenset()
    # What one operand alone has and the result does not is summed there, before the operands meet.
    alone = [
        frozenset(ls) - kept - frozenset(label for j, other in enumerate(labels) if j != i for label in other)
        for i, ls in enumerate(labels)
    ]
    meeting = [
        frozenset(mesh_axis for label in ls if label not in alone[i] for mesh_axis in place(label))
        for i, ls in enumerate(labels)
    ]
    terms = []
    pending: Axes = ()
    for i, (block, ls) in enumerate(zip(blocks, labels, strict=True)):
        others = frozenset[str]().union(*(axes for j, axes in enumerate(meeting) if j != i))
        term = _Term(*_read(block, ls, place, others))
        term = term.without_repeats().without_broadcast()
        term, late = term.sum_out(alone[i], place, scattered)
        pending += late
        terms.append(term)
    if region is not None and region.resources:
        for term in terms:
            region.check_placement(op, (label for label in term.labels if not isinstance(label, int)))

    for pair in _path(terms, kept):
        chosen = [terms[i] for i in pair]
        terms = [term for i, term in enumerate(terms) if i not in pair]
        needed = kept | frozenset(label for term in terms for label in term.labels)
        met, late = _meet(op, chosen, needed, region, place, scattered, precision, preferred_element_type)
        pending += late
        terms.append(met)
    (term,) = terms
    if preferred_element_type is not None:
        term = _Term(term.data.astype(preferred_element_type), term.labels)
    return _write(op, term, letters, writes, pending, region, place)


def _placer(region: Region | None) -> Any:
    if region is None or not region.manual:
        return lambda label: ()
    return lambda label: () if isinstance(label, int) else region.placement(label)


def _check_sizes(op: str, blocks: Sequence[Any], labels: Sequence[tuple[Label, ...]], place: Any) -> None:
    """Raises where one label has two sizes. Blocks are compared as they will be read, in global sizes."""
    region = ambient()
    sizes: dict[Label, tuple[int, int]] = {}
    for i, (block, ls) in enumerate(zip(blocks, labels, strict=True)):
        data = block._data if isinstance(block, NamedArray) else block
        for dim, label, n in zip(dims_of(block), ls, np.shape(data), strict=True):
            size = n if dim is None or region is None else region.global_size(dim, n)
            known, first = sizes.setdefault(label, (size, i))
            if known == size:
                continue
            if isinstance(label, int):
                if label < 0 and 1 in (known, size):  # the axes of '...' broadcast
                    sizes[label] = (max(known, size), i)
                    continue
                what = f"letter {chr(label)!r}" if label >= 0 else "an axis of '...'"
                raise PositionalAxisError(
                    f"{op}: {what} has size {known} in operand {first}, {type_text(blocks[first])}, and size {size} in operand {i}, "
                    f"{type_text(block)}. One letter stands for one size."
                )
            raise AxisSizeError(
                f"{op}: axis {label!r} has size {known} in operand {first}, {type_text(blocks[first])}, and size {size} in operand {i}, "
                f"{type_text(block)}; a name has one size. Rename one of the two axes."
            )
    if region is not None and region.manual:
        for label, (size, _) in sizes.items():
            if not isinstance(label, int) and place(label):
                region.block_size(label, size, op)


def _scatter_axes(keep: Iterable[Label], writes: dict[Label, Label], place: Any) -> frozenset[str]:
    """Mesh axes onto which the result is written and on which it does not lie while it is contracted."""
    axes: set[str] = set()
    for label in keep:
        axes |= set(place(writes.get(label, label))) - set(place(label))
    return frozenset(axes)


def _read(block: Any, labels: tuple[Label, ...], place: Any, others: frozenset[str]) -> tuple[Any, tuple[Label, ...]]:
    """The data of an operand under its labels: moved where a label has another placement than the axis it reads.

    An axis that is gathered to meet values that vary over the same mesh axes is gathered to varying, so that its gradient is one
    reduce-scatter. The array keeps what was read, so that a parameter that is read twice is gathered and reduced once.
    """
    if not isinstance(block, NamedArray):
        return block, labels
    dims = block._dims
    if all(dim is None or dim == label or place(dim) == place(label) for dim, label in zip(dims, labels, strict=True)):
        return block, labels
    old = [() if dim is None else place(dim) for dim in dims]
    new = [place(label) for label in labels]
    gathered = frozenset(axis for a, b in zip(old, new, strict=True) for axis in a if axis not in b) & others
    key = ("read", tuple(old), tuple(new), gathered)
    return remembered(block, key, lambda: relayout(block._data, old, new, gathered)), labels


class _Term:
    """An operand on its way: data (or the array that holds it) and a label for every dimension."""

    __slots__ = ("data", "labels", "source")

    def __init__(self, data: Any, labels: tuple[Label, ...]):
        self.source = data  # a named array remembers its casts
        self.data = data._data if isinstance(data, NamedArray) else data
        self.labels = labels

    def varying_over(self, axes: frozenset[str]) -> Any:
        """The data, cast to vary over `axes`."""
        return cast(self.source, axes)

    def without_repeats(self) -> _Term:
        """The diagonal over a letter that stands twice."""
        for label in set(self.labels):
            while self.labels.count(label) > 1:
                first = self.labels.index(label)
                second = self.labels.index(label, first + 1)
                data = jnp.diagonal(self.data, axis1=first, axis2=second)
                rest = tuple(other for i, other in enumerate(self.labels) if i not in (first, second))
                self = _Term(data, (*rest, label))
        return self

    def without_broadcast(self) -> _Term:
        """Without the axes of `...` that have size 1; whoever has them larger broadcasts."""
        ones = [i for i, label in enumerate(self.labels) if isinstance(label, int) and label < 0 and self.data.shape[i] == 1]
        if not ones:
            return self
        return _Term(lax.squeeze(self.data, ones), tuple(label for i, label in enumerate(self.labels) if i not in ones))

    def sum_out(self, labels: frozenset[Label], place: Any, scattered: frozenset[str]) -> tuple[_Term, Axes]:
        """Sums over `labels`. Returns the mesh axes whose sum is left for later, because it will be a reduce-scatter."""
        if not labels:
            return self, ()
        axes = tuple(i for i, label in enumerate(self.labels) if label in labels)
        mesh_axes = tuple(mesh_axis for i in axes for mesh_axis in place(self.labels[i]))
        late = tuple(mesh_axis for mesh_axis in mesh_axes if mesh_axis in scattered)
        data = jnp.sum(self.data, axes)
        data = comm.psum(data, tuple(mesh_axis for mesh_axis in mesh_axes if mesh_axis not in late))
        return _Term(data, tuple(label for label in self.labels if label not in labels)), late


def _path(terms: Sequence[_Term], kept: frozenset[Label]) -> list[tuple[int, ...]]:
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    return _best_path(tuple(term.labels for term in terms), tuple(term.data.shape for term in terms), kept)


@functools.lru_cache(maxsize=1024)
def _best_path(
    labels: tuple[tuple[Label, ...], ...], shapes: tuple[tuple[int, ...], ...], kept: frozenset[Label]
) -> list[tuple[int, ...]]:
    symbols: dict[Label, str] = {}
    for ls in labels:
        for label in ls:
            symbols.setdefault(label, opt_einsum.get_symbol(len(symbols)))
    text = ",".join("".join(symbols[label] for label in ls) for ls in labels)
    out = "".join(symbol for label, symbol in symbols.items() if label in kept)
    path, _ = opt_einsum.contract_path(f"{text}->{out}", *shapes, shapes=True, optimize="auto")
    return [tuple(sorted(step)) for step in path]


@functools.lru_cache(maxsize=4096)
def _dot_dimensions(
    a: tuple[Label, ...], b: tuple[Label, ...], needed: frozenset[Label]
) -> tuple[Any, tuple[Label, ...], tuple[Label, ...]]:
    """Dimension numbers for `dot_general`, labels of its result, and labels that are summed over."""
    both = [label for label in a if label in b]
    batch = [label for label in both if label in needed]
    summed = [label for label in both if label not in needed]
    free = [label for label in a if label not in both] + [label for label in b if label not in both]
    contract = (tuple(a.index(s) for s in summed), tuple(b.index(s) for s in summed))
    batched = (tuple(a.index(s) for s in batch), tuple(b.index(s) for s in batch))
    return (contract, batched), tuple(batch + free), tuple(summed)


def _meet(
    op: str,
    terms: Sequence[_Term],
    needed: frozenset[Label],
    region: Region | None,
    place: Any,
    scattered: frozenset[str],
    precision: Any,
    preferred_element_type: Any,
) -> tuple[_Term, Axes]:
    """Contracts one or two operands; returns the result and the mesh axes whose sum is left for later."""
    if len(terms) == 1:
        return terms[0], ()
    a, b = terms
    lonely = (frozenset(a.labels) ^ frozenset(b.labels)) - needed
    if lonely:  # an intermediate of three operands or more may have them
        a, late_a = a.sum_out(lonely & frozenset(a.labels), place, scattered)
        b, late_b = b.sum_out(lonely & frozenset(b.labels), place, scattered)
    else:
        late_a = late_b = ()
    if region is not None and region.resources:
        region.check_placement(op, (label for label in dict.fromkeys(a.labels + b.labels) if not isinstance(label, int)))
    if region is not None and region.manual:
        variance = varying(a.data) | varying(b.data)
        x, y = a.varying_over(variance), b.varying_over(variance)
    else:
        x, y = a.data, b.data
    dimensions, labels, summed = _dot_dimensions(a.labels, b.labels, needed)
    dtype = jnp.result_type(x, y)
    if not summed:
        data = _multiply(x, y, a.labels, b.labels, labels)
    else:
        x, y = (v if v.dtype == dtype else lax.convert_element_type(v, dtype) for v in (x, y))
        data = _dot_general(x, y, dimensions, precision, preferred_element_type)
    mesh_axes = tuple(mesh_axis for label in summed for mesh_axis in place(label))
    late = tuple(mesh_axis for mesh_axis in mesh_axes if mesh_axis in scattered)
    data = comm.psum(data, tuple(mesh_axis for mesh_axis in mesh_axes if mesh_axis not in late))
    return _Term(data, labels), late_a + late_b + late


@functools.partial(jax.jit, static_argnums=(2, 3, 4), inline=True)
def _dot_general(x: Any, y: Any, dimensions: Any, precision: Any, preferred_element_type: Any) -> Any:
    # Through jit, so that JAX keeps its linearization, which is most of the cost of tracing a gradient.
    return lax.dot_general(x, y, dimensions, precision=precision, preferred_element_type=preferred_element_type)


def _multiply(x: Any, y: Any, a: tuple[Label, ...], b: tuple[Label, ...], labels: tuple[Label, ...]) -> Any:
    """The product without a sum: elementwise, after both are broadcast to `labels`."""
    sizes = dict(zip(b, y.shape, strict=True)) | dict(zip(a, x.shape, strict=True))
    shape = tuple(sizes[label] for label in labels)
    aligned = []
    for data, own in ((x, a), (y, b)):
        order = sorted(range(len(own)), key=lambda i, own=own: labels.index(own[i]))  # type: ignore[misc]
        if order != list(range(len(own))):
            data = lax.transpose(data, order)
        places = [labels.index(own[i]) for i in order]
        aligned.append(data if data.shape == shape else lax.broadcast_in_dim(data, shape, places))
    return jnp.multiply(*aligned)


def _write(
    op: str,
    term: _Term,
    letters: tuple[int, ...],
    writes: dict[Label, Label],
    pending: Axes,
    region: Region | None,
    place: Any,
) -> Any:
    """Gives the result its names and positions, and finishes the sums that were left for now."""
    data, labels = term.data, term.labels
    missing = [letter for letter in letters if letter not in labels]
    if missing:  # axes of '...' that have size 1 in every operand
        data = lax.expand_dims(data, range(len(missing)))
        labels = (*missing, *labels)
    if region is not None and region.manual:
        old = [place(label) for label in labels]
        new = [place(writes.get(label, label)) for label in labels]
        for i, (have, want) in enumerate(zip(old, new, strict=True)):
            arriving = want[len(have) :] if want[: len(have)] == have else ()
            if arriving and all(axis in pending for axis in arriving):
                data = comm.psum_scatter(data, i, arriving)
                pending = tuple(axis for axis in pending if axis not in arriving)
                old[i] = want
        data = comm.psum(data, pending)
        if old != new:
            data = relayout(data, old, new)
    dims = tuple(None if isinstance(label, int) else writes.get(label, label) for label in labels)
    if region is not None and region.resources:
        region.check_placement(op, (dim for dim in dims if dim is not None))
    slots = [i for i, label in enumerate(labels) if isinstance(label, int)]
    wanted = [labels.index(letter) for letter in letters]
    if slots != wanted:
        order = list(range(len(labels)))
        for slot, source in zip(slots, wanted, strict=True):
            order[slot] = source
        data = lax.transpose(data, order)
    return wrap(data, dims)
