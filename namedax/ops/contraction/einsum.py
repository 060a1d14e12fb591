"""Contractions over names: `einsum` with braces, and `dot`. What they do, and what is sent, is in `engine`."""

from __future__ import annotations

import itertools
import operator
import re
import string
from collections.abc import Sequence
from typing import Any

from namedax.core.annotations import Array
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.name_scopes import in_scope, scope_text
from namedax.core.names import is_name
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    AxisNameError,
    AxisNotFoundError,
    EinsumError,
    PositionalAxisError,
    closest,
    did_you_mean,
    format_value,
    naming,
    raise_not_found,
    show_names,
)
from namedax.operands import kernels
from namedax.operands.nmap import explain_type_errors
from namedax.operands.operation import operation
from namedax.operands.pytree_leaves import block_of
from namedax.ops.contraction.engine import Contraction, Label, Labels
from namedax.ops.contraction.rings import OVERLAPS, Overlap
from namedax.ops.contraction.spec import ELLIPSIS, EinsumSpec, parse_einsum

__all__ = ["dot", "einsum"]


@operation(cached=True)
def einsum(
    spec: str, *operands: Any, precision: Any = None, preferred_element_type: Any = None, overlap: Overlap | None = None
) -> Array:
    """Contraction over positional and named axes.

    Args:
      spec: one letter per positional axis, names in braces: `"n{b,k},{k,m}->n{b,m}"`. Names in operands that are not in the
        result are summed over. A name that the specification does not mention is carried by broadcasting. Two axes of an
        operand under one name, `{i,i:j}`, are read along their diagonal, like a letter that appears twice (if both are sharded,
        the second is gathered). `{new:old}` reads the axis `old` of an operand as `new`, and in the result writes the axis
        `old` as `new`; where the two names have different placements, this moves data (see the module's text). `...` stands for
        further positional axes. Without an arrow, labels that appear once are kept (letters in alphabetical order), as in
        NumPy.
      *operands: arrays, named or not, any number. In NumPy's other form, `einsum(x, [0, 1], y, [1, 2], [0, 2])`, lists of numbers
        stand for the letters.
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
        number of devices. By default as given to `xmap`.

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
        spec, operands = _from_lists(spec, operands)
    parsed = _parsed(spec, operands)
    if len(parsed.operands) != len(operands):
        raise EinsumError(
            f"einsum: {format_value(spec)} has {_count(len(parsed.operands), 'operand')}, but is called with {_count(len(operands), 'array')}. "
            "Separate operands by commas."
        )
    _check_overlap("einsum", overlap)
    given = (precision, preferred_element_type, overlap)
    with explain_type_errors:
        if parsed.renames and ambient() is not None:
            # The mapped function learns of names that are in no operand and in no result; a kernel could not tell it.
            return in_scope(scope_text("einsum", parsed.said), _einsum, "einsum", parsed, *given, *operands)
        return kernels.run("einsum", _einsum, parsed, given, *operands)


def _parsed(spec: str, operands: Sequence[Any]) -> EinsumSpec:
    """The specification, parsed; where one cannot be read whose words are names of the operands, what it is with braces is said."""
    try:
        return parse_einsum(spec)
    except EinsumError:
        names = {dim for operand in operands for dim in dims_of(operand) if isinstance(dim, str)}
        if "{" in spec or not names.intersection(re.findall(r"\w{2,}", spec)):
            raise
        terms = [re.findall(r"\w+", term) for term in re.split(",|->", spec)]
        result = "->" in spec
        braced = [f"{{{', '.join(term)}}}" for term in terms]
        meant = f"{', '.join(braced[:-1] if result else braced)}{f' -> {braced[-1]}' if result else ''}"
        raise EinsumError(
            f"einsum: {format_value(spec)} has names of axes where each letter is a positional axis; names stand in "
            f"braces. Write {format_value(meant)}."
        ) from None


def _einsum(op: str, spec: EinsumSpec, precision: Any, preferred_element_type: Any, overlap: Any, *arrays: Any) -> Any:
    blocks = [block_of(array, op) for array in arrays]
    labels, letters, keep, writes = _label(spec, blocks)
    op = f"{op} {spec.text!r}"
    return Contraction(op, labels, keep, letters, writes, precision, preferred_element_type, overlap).run(blocks)


def _from_lists(first: Any, rest: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The specification and the operands of NumPy's other form: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.

    Raises:
      EinsumError: it is neither that nor an operand behind which numbers stand.
    """
    arguments = (first, *rest)
    operands, lists = arguments[: len(arguments) // 2 * 2 : 2], arguments[1::2]
    result = arguments[-1] if len(arguments) % 2 else None
    if not rest or not all(
        isinstance(numbers, (list, tuple)) for numbers in (*lists, *([result] if len(arguments) % 2 else []))
    ):
        raise EinsumError(
            f"einsum: the first argument is the specification, a string; got {type_text(first)}. (Or each operand is followed by a list "
            "of numbers, one for each positional axis, and the result's list stands last.)"
        )

    def term(numbers: Sequence[Any]) -> str:
        return "".join(ELLIPSIS if number is Ellipsis else _LETTERS[operator.index(number)] for number in numbers)

    spec = ",".join(map(term, lists))
    return spec if result is None else f"{spec}->{term(result)}", operands


# In the order of their codes, so that numbers and letters are sorted alike.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _check_overlap(op: str, overlap: Any) -> None:
    if overlap is not None and overlap not in OVERLAPS:
        raise ArgumentError(f"{op}: overlap={format_value(overlap)} is none of True, False and 'bidirectional'.")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


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
    dims = dims_of(operand)
    rank = dims.count(None)
    letters = len(term.letters) - (ELLIPSIS in term.letters)
    if letters > rank or (letters != rank and ELLIPSIS not in term.letters):
        names = [dim for dim in dims if isinstance(dim, str)]
        braces = f" Names stand in braces: '{{{','.join(names)}}}'." if letters > rank and names else ""
        raise EinsumError(
            f"einsum: operand {i} has {_count(letters, 'letter')}, but {type_text(operand)} has {rank} positional "
            f"ax{'i' if rank == 1 else 'e'}s. Write one letter for each, or '...'.{braces}{spec.point(term.at)}"
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
                f"einsum: no axis {format_value(axis)} in operand {i}, {type_text(operand)}; {has}."
                f"{did_you_mean(axis, own, '{{{0}:{1}}}')}{spec.point(at)}"
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
                f"einsum: operand {i}, {type_text(operand)}, has the axis {dim!r}, which is mentioned elsewhere but skipped "
                f"here. Mention it here too, or read it under another name, {{other:{dim}}}.{spec.point(term.at)}"
            )
        else:
            labels.append(dim)
    return tuple(labels)


@operation(cached=True)
def dot(
    x: Any,
    y: Any,
    axis: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    overlap: Overlap | None = None,
) -> Array:
    """Contraction of two arrays over the given names; all other axes are broadcast.

    `nx.numpy.dot` is another function: it contracts positions, the last axis of one with the last but one of the other, and names are
    batch axes.

    Args:
      x: a named array.
      y: a named array.
      axis: a name, or a tuple of names, that both arrays have.
      precision: as in `jax.lax.dot_general`.
      preferred_element_type: the type to accumulate in and to return; by default that of the
        operands.
      overlap: as in `einsum`; useful where an operand's axis must move to meet the other operand.

    Returns:
      An array with all names of both but the contracted ones. At most one operand has positional axes, or those of both are
      equal and meet elementwise; for outer products of positional axes use `einsum`.

    Over a sharded name: one all-reduce of the result.

    Raises:
      AxisNotFoundError: an operand lacks a name.
      AxisNameError: a name is given twice.
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
    for i, name in enumerate(names):
        if name in names[:i]:
            raise AxisNameError(f"dot: axis {name!r} appears twice in axis={format_value(axis)}; an axis is contracted once.")
    _check_overlap("dot", overlap)
    with explain_type_errors:
        return kernels.run("dot", _dot, names, (precision, preferred_element_type, overlap), x, y)


def _naming(name: Any, argument: str, block: Any, other: Any) -> str:
    """A sentence on how an operand without names gets `name`, at the axis that has its size in the other one where there is only one."""
    if any(dim is not None for dim in dims_of(block)) or not block.ndim or not is_name(name):
        return ""
    return naming(argument, block.shape, {name: other.named_shape.get(name) if isinstance(other, NamedArray) else None})


def _reading(name: Any, argument: str, block: Any, other: Any) -> str:
    """How an operand's axis with a name like `name` is read as that, if it has the size of the other operand's."""
    sizes, wanted = (dict(x.named_shape) if isinstance(x, NamedArray) else {} for x in (block, other))
    if name in wanted and sizes.get(closest(name, sizes)) != wanted[name]:
        return ""
    return f"nx.rename({argument}, {{{{{{1!r}}: {{0!r}}}}}})"


def _dot(op: str, names: tuple[Any, ...], precision: Any, preferred_element_type: Any, overlap: Any, x: Any, y: Any) -> Any:
    blocks = [block_of(operand, op) for operand in (x, y)]
    labels: list[Labels] = []
    for i, block in enumerate(blocks):
        dims = dims_of(block)
        for name in names:
            if name not in dims or name is None:
                own = [dim for dim in dims if dim is not None]
                hint = "dot contracts names that both arrays have." + _naming(name, "xy"[i], block, blocks[1 - i])
                raise_not_found(op, name, type_text(block), own, hint, read_as=_reading(name, "xy"[i], block, blocks[1 - i]))
        numbers = iter(range(-dims.count(None), 0))
        labels.append(tuple(next(numbers) if dim is None else dim for dim in dims))
    shapes = [tuple(block.shape) for block in blocks]
    if all(shapes) and shapes[0] != shapes[1]:
        raise PositionalAxisError(
            f"dot: both operands have positional axes, of shapes {shapes[0]} and {shapes[1]} ({type_text(blocks[0])} and "
            f"{type_text(blocks[1])}); they must be equal, or those of one operand empty. For an outer product write einsum "
            "with a letter for each axis."
        )
    keep = frozenset(label for ls in labels for label in ls if not isinstance(label, int))
    letters = tuple(range(-max(map(len, shapes)), 0))
    kept = keep - frozenset(names)
    return Contraction(op, labels, kept, letters, {}, precision, preferred_element_type, overlap).run(blocks)
