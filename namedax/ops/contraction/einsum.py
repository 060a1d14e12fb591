"""`einsum` with axis names in braces, `dot`, `vecdot` and `tensordot`.

`engine` has their semantics and communication.
"""

from __future__ import annotations

import operator
import re
import string
from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.name_scopes import in_scope, scope_text
from namedax.core.names import AxisName, Dims, DType, Label, Labels, is_name
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
    split_names,
)
from namedax.ops.contraction.engine import contract
from namedax.ops.contraction.rings import OVERLAPS, Overlap
from namedax.ops.contraction.spec import ELLIPSIS, EinsumSpec, parse_einsum
from namedax.ops.contraction.terms import Contraction
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE
from namedax.ops.operands import kernels
from namedax.ops.operands.along_axes import along_axes, checks_axes, entries_of, names_in
from namedax.ops.operands.broadcasting import as_block
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of
from namedax.resources.wire import Wire, WireFormat, check_narrow, parse_wire

__all__ = ["dot", "einsum", "tensordot", "vecdot"]


@operation(cached=True)
def einsum(
    spec: str,
    *operands: Any,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    overlap: Overlap | None = None,
    wire: WireFormat | Wire | None = None,
) -> AnyArray:
    """Contract arrays over positional and named axes.

    Args:
      spec: one letter per positional axis, axis names in braces: `"n{b,k},{k,m}->n{b,m}"`. Axes of
        operands that the result omits are summed over. Axes that the specification does not mention
        broadcast. Two axes of an operand under one name, `{i,i:j}`, give their diagonal, like a
        repeated letter (if both are sharded, the second is gathered). `{new:old}` reads the axis
        `old` of an operand as `new`, and in the result writes the axis `old` as `new`. If the two
        names have different shardings, this communicates. `...` denotes further positional axes.
        Without an arrow, labels that appear once are kept (letters in alphabetical order), as in
        NumPy.
      *operands: arrays, named or not, any number. In NumPy's other form, `einsum(x, [0, 1], y, [1,
        2], [0, 2])`, lists of numbers replace the letters.
      precision: as in `jax.lax.dot_general`; by default `None`.
      preferred_element_type: the dtype to accumulate in and to return; by default the dtype of the
        operands, as in `jnp.einsum`.
      overlap: overlaps communication with computation around a ring, in one direction (`True`) or
        in both (`"bidirectional"`); by default the setting of `xmap`. It applies if an operand must
        be gathered over mesh axes along which the other operand varies. It also applies if the
        result is reduce-scattered. Each device computes with one block while it transfers the next.
        The gathered operand is never materialized, also in the gradients, which then exist in
        reverse mode only. A result that needs an all-reduce is instead reduce-scattered in this way
        along its largest axis that divides. Its blocks then go around the ring once more. It is
        still all-reduced if it is a vector, or if the number of devices divides none of its axes.
      wire: the number format in which operands that are read under other names are gathered, and in
        which a result that is written under another name is reduce-scattered: `"bf16"`,
        `"float8_e4m3"` or `"int8"` for the forward pass, or an `nx.Wire` for both directions;
        by default the dtype of the data. Values are rounded within the bounds of `nx.Wire`, only
        where they are sent. An all-reduce is not narrowed. There is reverse mode only, and the
        setting `overlap` of `xmap` does not apply.

    Returns:
      An array with the axes of the result; a plain `jax.Array` if it has no named axes.

    Communication: over a sharded axis that is summed, one all-reduce of the result. If the result
    is written with the same mesh axes, one reduce-scatter instead. An axis that is read under a
    name with another sharding is resharded, as by `nx.rename`.

    Raises:
      EinsumError: the specification is malformed or does not fit the operands.
      ArgumentError: `wire` is not a format, the specification renames no axis, or `overlap` is
        given too.
      ArgumentTypeError: with `wire`, an operand is not real floating-point.
      AxisNotFoundError: an operand lacks an axis.
      AxisSizeError, PositionalAxisError: sizes disagree.
      PlacementConflictError: two axes of one value are sharded over one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> q = nx.named(jnp.ones((4, 2, 8)), ["pos", "heads", "d"])
    >>> nx.einsum("{pos,heads,d},{kpos:pos,heads,d}->{heads,pos,kpos}", q, q).named_shape["kpos"]
    4
    """
    if not isinstance(spec, str):
        spec, operands = _from_lists(spec, operands)
    try:
        parsed = parse_einsum(spec)
    except EinsumError:
        _suggest_braces(spec, operands)
        raise
    if len(parsed.operands) != len(operands):
        raise EinsumError(
            f"einsum: {format_value(spec)} has {_count(len(parsed.operands), 'operand')}, but is"
            f" called with {_count(len(operands), 'array')}. Separate operands by commas."
        )
    if overlap is not None:
        _check_overlap("einsum", overlap)
    formats = None if wire is None else _wire_of(parsed, wire, overlap, operands)
    given = (precision, preferred_element_type, overlap, formats)
    if parsed.renamings and ambient() is not None:
        # The mapped function records names that are in no operand and no result; a cached
        # kernel could not record them.
        return in_scope(
            scope_text("einsum", parsed.mentioned), _einsum, "einsum", parsed, *given, *operands
        )
    return kernels.run("einsum", _einsum, parsed, given, *operands)


def _suggest_braces(spec: str, operands: Sequence[ArrayLike]) -> None:
    """Raise an error that suggests braces, if the specification is wrong for lack of them."""
    names = {dim for operand in operands for dim in dims_of(operand) if isinstance(dim, str)}
    if "{" in spec or not names.intersection(re.findall(r"\w{2,}", spec)):
        return
    terms = [re.findall(r"\w+", term) for term in re.split(",|->", spec)]
    result = "->" in spec
    braced = [f"{{{', '.join(term)}}}" for term in terms]
    meant = f"{', '.join(braced[:-1] if result else braced)}{f' -> {braced[-1]}' if result else ''}"
    raise EinsumError(
        f"einsum: {format_value(spec)} has axis names without braces, but each letter is a"
        f" positional axis. Write {format_value(meant)}."
    ) from None


def _einsum(
    op: str,
    spec: EinsumSpec,
    precision: jax.lax.PrecisionLike,
    preferred_element_type: DType | None,
    overlap: Overlap | None,
    wire: Wire | None,
    *arrays: ArrayLike,
) -> AnyArray:
    blocks = [as_block(array, op) for array in arrays]
    dims = tuple([dims_of(block) for block in blocks])
    labels, letters, names, writes = _label(spec, blocks, dims)
    op, kept = f"{op} {spec.text!r}", names.union(letters)
    options = (precision, preferred_element_type, overlap, wire)
    return contract(Contraction(op, dims, labels, kept, letters, writes, *options), blocks)


def _wire_of(
    spec: EinsumSpec, wire: object, overlap: object, operands: Sequence[ArrayLike]
) -> Wire | None:
    """Return the number formats of a call, and check that they can apply."""
    formats = parse_wire("einsum", wire)
    if formats is None:
        return None
    if not spec.renamings:
        raise ArgumentError(
            f"einsum: wire narrows the gather of an axis that is read under another name, and the"
            f" reduce-scatter of an axis that is written under another name; {spec.text!r} renames"
            " no axis. Write {new:old} where the sharding changes, or omit wire."
        )
    if overlap:
        raise ArgumentError(
            f"einsum: overlap={format_value(overlap)} sends blocks around a ring in the dtype of"
            " the data, and wire narrows one collective; a contraction has one of the two. Omit"
            " overlap or wire."
        )
    for operand in operands:
        check_narrow("einsum", operand, formats)
    return formats


def _from_lists(first: object, rest: Sequence[object]) -> tuple[str, tuple[Any, ...]]:
    """Convert NumPy's form `einsum(x, [0, 1], y, [1, 2], [0, 2])` to a specification and operands.

    Raises:
      EinsumError: the arguments are neither a specification nor operands that are followed by lists
        of numbers.
    """
    arguments = (first, *rest)
    operands, lists = arguments[: len(arguments) // 2 * 2 : 2], arguments[1::2]
    result = arguments[-1] if len(arguments) % 2 else None
    if not rest or not all(
        isinstance(numbers, (list, tuple))
        for numbers in (*lists, *([result] if len(arguments) % 2 else []))
    ):
        raise EinsumError(
            f"einsum: the first argument is the specification, a string; got {type_text(first)}."
            " (Or follow each operand by a list of numbers, one per positional axis, and end with"
            " the list of the result.)"
        )

    def term(numbers: Any) -> str:
        return "".join(
            ELLIPSIS if number is Ellipsis else _LETTERS[operator.index(number)]
            for number in numbers
        )

    spec = ",".join(map(term, lists))
    return spec if result is None else f"{spec}->{term(result)}", operands


# In the order of their code points, so that numbers and letters sort the same way.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _check_overlap(op: str, overlap: object) -> None:
    if overlap not in OVERLAPS:
        raise ArgumentError(
            f"{op}: overlap must be True, False or 'bidirectional', got {format_value(overlap)}."
        )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _label(
    spec: EinsumSpec, operands: Sequence[AnyArray], all_dims: Sequence[Dims]
) -> tuple[tuple[Labels, ...], tuple[int, ...], frozenset[Label], dict[Label, Label]]:
    """Assign labels to the dimensions of the operands, according to the specification.

    Returns:
      A tuple: the labels of every operand's dimensions, the positional labels of the result, the
      kept names, and the new names of renamed axes.
    """
    terms = (*spec.operands, *([spec.result] if spec.result else []))
    mentioned = {name for term in terms for pair in term.names for name in pair}
    extra = []  # the number of axes that `...` denotes in every operand
    for i, (term, dims) in enumerate(zip(spec.operands, all_dims, strict=True)):
        has_ellipsis = ELLIPSIS in term.letters
        extra.append(dims.count(None) - len(term.letters) + has_ellipsis)
        if extra[i] < 0 or (extra[i] and not has_ellipsis):
            _raise_wrong_rank(spec, i, operands[i])
    labels = tuple(
        [
            _label_operand(spec, i, operand, all_dims[i], extra[i], mentioned)
            for i, operand in enumerate(operands)
        ]
    )
    everywhere = [label for own in labels for label in own]
    present = dict.fromkeys(everywhere)
    names = [label for label in present if not isinstance(label, int)]
    ellipsis = tuple(range(-max(extra, default=0), 0))
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
            raise EinsumError(
                f"einsum: letter {letter!r} of the result is in no operand.{spec.point(at)}"
            )
    if ellipsis and ELLIPSIS not in result.letters:
        raise EinsumError(
            "einsum: '...' appears in an operand, but not in the result. Add it to the result, or"
            f" write letters.{spec.point(result.at)}"
        )
    for (_, name), at in zip(result.names, result.names_at, strict=True):
        if name not in present:
            have = f"the names {show_names(names)}" if names else "no names"
            raise EinsumError(
                f"einsum: name {name!r} of the result is in no operand; the operands have {have}."
                f"{did_you_mean(name, names)}{spec.point(at)}"
            )
    writes: dict[Label, Label] = {name: new for new, name in result.names if new != name}
    keep = frozenset([name for _, name in result.names]) | carried
    return labels, tuple(out), keep, writes


def _raise_wrong_rank(spec: EinsumSpec, i: int, operand: AnyArray) -> NoReturn:
    """Report an operand whose letters do not match its positional axes."""
    term = spec.operands[i]
    dims = dims_of(operand)
    rank = dims.count(None)
    letters = len(term.letters) - (ELLIPSIS in term.letters)
    names = [dim for dim in dims if isinstance(dim, str)]
    braces = (
        f" Write axis names in braces: '{{{','.join(names)}}}'."
        if letters > rank and names
        else " If they come from an array without names, name it: nx.named(x, names)."
        if names and not letters
        else ""
    )
    raise EinsumError(
        f"einsum: operand {i} has {_count(letters, 'letter')}, but {type_text(operand)} has"
        f" {rank} positional ax{'i' if rank == 1 else 'e'}s. Write one letter for each, or"
        f" '...'.{braces}{spec.point(term.at)}"
    )


def _label_operand(
    spec: EinsumSpec, i: int, operand: AnyArray, dims: Dims, extra: int, mentioned: set[str]
) -> Labels:
    term = spec.operands[i]
    own = [dim for dim in dims if dim is not None]
    read = {axis: label for label, axis in term.names}
    for (_, axis), at in zip(term.names, term.names_at, strict=True):
        if axis not in own:
            has = f"its named axes are {show_names(own)}" if own else "it has no named axis"
            several = ",".join(split_names(axis, own))
            meant = (
                f" Separate names by commas: '{{{several}}}'."
                if several
                else did_you_mean(axis, own, "{{{0}:{1}}}")
            )
            raise AxisNotFoundError(
                f"einsum: no axis {format_value(axis)} in operand {i}, {type_text(operand)}; {has}."
                f"{meant}{spec.point(at)}"
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
                f"einsum: operand {i}, {type_text(operand)}, has the axis {dim!r}, which is"
                " mentioned elsewhere but skipped here. Mention it here too, or read it under"
                f" another name, {{other:{dim}}}.{spec.point(term.at)}"
            )
        else:
            labels.append(dim)
    return tuple(labels)


@operation(cached=True)
def dot(
    x: ArrayLike,
    y: ArrayLike,
    axis: AxisSpec,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    overlap: Overlap | None = None,
) -> AnyArray:
    """Contract two arrays over the given named axes, and broadcast the other axes.

    `nx.numpy.dot` is another function. It contracts the last positional axis of one operand with
    the last but one of the other, and its named axes are batch axes.

    Args:
      x: a named array.
      y: a named array.
      axis: an axis name, or a tuple of names, that both arrays have.
      precision: as in `jax.lax.dot_general`; by default `None`.
      preferred_element_type: the dtype to accumulate in and to return; by default the dtype of the
        operands.
      overlap: as in `einsum`, by default the setting of `xmap`; useful if an operand must be
        resharded for the contraction.

    Returns:
      An array with all axes of both operands except the contracted ones. At most one operand has
      positional axes, or both have equal positional shapes, which multiply elementwise; for outer
      products of positional axes use `einsum`.

    Communication: over a sharded axis, one all-reduce of the result.

    Raises:
      AxisNotFoundError: an operand lacks an axis.
      AxisNameError: an axis is given twice.
      AxisSizeError: an axis has two sizes.
      PositionalAxisError: both operands have positional axes, of different shapes.
      PlacementConflictError: two axes of one value are sharded over one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 3)), ["batch", "inputs"])
    >>> w = nx.named(jnp.ones((3, 5)), ["inputs", "hidden"])
    >>> nx.dot(x, w, "inputs").dims
    ('batch', 'hidden')
    """
    names = entries_of(axis)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise AxisNameError(
                f"dot: axis {name!r} appears twice in axis={format_value(axis)}; an axis is"
                " contracted once."
            )
    if overlap is not None:
        _check_overlap("dot", overlap)
    return kernels.run("dot", _dot, names, (precision, preferred_element_type, overlap), x, y)


def _naming(name: AxisName, argument: str, block: AnyArray, other: AnyArray) -> str:
    """Explain how to name the axis of an unnamed operand.

    This applies if one axis has the size of `name` in the other operand.
    """
    if any(dim is not None for dim in dims_of(block)) or not block.ndim or not is_name(name):
        return ""
    return naming(
        argument,
        block.shape,
        {name: other.named_shape.get(name) if isinstance(other, NamedArray) else None},
    )


def _rename_code(name: AxisName, argument: str, block: AnyArray, other: AnyArray) -> str:
    """Return code that renames a similarly named axis.

    This applies if it has the size of `name` in the other operand.
    """
    sizes, wanted = (
        dict(x.named_shape) if isinstance(x, NamedArray) else {} for x in (block, other)
    )
    if name in wanted and sizes.get(closest(name, sizes)) != wanted[name]:
        return ""
    return f"nx.rename({argument}, {{{{{{1!r}}: {{0!r}}}}}})"


def _dot(
    op: str,
    names: tuple[AxisName, ...],
    precision: jax.lax.PrecisionLike,
    preferred_element_type: DType | None,
    overlap: Overlap | None,
    x: ArrayLike,
    y: ArrayLike,
) -> AnyArray:
    blocks = [as_block(operand, op) for operand in (x, y)]
    all_dims = tuple([dims_of(block) for block in blocks])
    labels: list[Labels] = []
    for i, (block, dims) in enumerate(zip(blocks, all_dims, strict=True)):
        for name in names:
            if name not in dims or name is None:
                own = [dim for dim in dims if dim is not None]
                to_name = _naming(name, "xy"[i], block, blocks[1 - i])
                common = [dim for dim in own if dim in all_dims[1 - i]]
                example = f" Write nx.dot(x, y, {format_value(common[0])})." if common else ""
                hint = f"dot contracts names that both arrays have.{to_name or example}"
                raise_not_found(
                    op,
                    name,
                    type_text(block),
                    own,
                    hint,
                    read_as=_rename_code(name, "xy"[i], block, blocks[1 - i]),
                )
        numbers = iter(range(-dims.count(None), 0))
        labels.append(tuple([next(numbers) if dim is None else dim for dim in dims]))
    shapes = [tuple(block.shape) for block in blocks]
    if all(shapes) and shapes[0] != shapes[1]:
        raise PositionalAxisError(
            f"dot: both operands have positional axes, of shapes {shapes[0]} and {shapes[1]}"
            f" ({type_text(blocks[0])} and {type_text(blocks[1])}); they must be equal, or one"
            " operand must have none. For an outer product write einsum with a letter for each"
            " axis."
        )
    letters = tuple(range(-max(map(len, shapes)), 0))
    kept = frozenset([label for own in labels for label in own if label not in names])
    options = (precision, preferred_element_type, overlap)
    return contract(Contraction(op, all_dims, tuple(labels), kept, letters, {}, *options), blocks)


_positional_vecdot = along_axes(jnp.vecdot, "vecdot", ("axis",))
_positional_tensordot = along_axes(jnp.tensordot, "tensordot", ("axes",))


@checks_axes
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: AxisSpec = -1,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Multiply vectors along one axis, the first one conjugated, as `jnp.vecdot`.

    Along a named axis it is `nx.dot`.

    Args:
      x1: an array, named or not.
      x2: an array, named or not.
      axis: a positional or named axis; by default -1.
      precision: as in `jax.lax.dot_general`; by default `None`.
      preferred_element_type: the dtype to accumulate in and to return; by default the dtype of the
        operands.

    Returns:
      An array with the other axes, which broadcast.

    Communication: over a sharded axis, as for `nx.dot`.

    Raises:
      AxisNotFoundError: an array lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.numpy.vecdot(x, x, axis="k")
    Array(5., dtype=float32)
    """
    options: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    if not names_in(axis):
        return _positional_vecdot(x1, x2, axis=axis, **options)
    conjugated = _ELEMENTWISE["conj"](x1) if jnp.iscomplexobj(data_of(as_array(x1))) else x1
    return dot(conjugated, x2, axis, **options)


@checks_axes
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: AxisSpec = 2,
    *,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Multiply two arrays and sum over axes, as `jnp.tensordot`.

    Over one or several named axes it is `nx.dot`.

    Args:
      a: an array, named or not.
      b: an array, named or not.
      axes: as in `jnp.tensordot`, or an axis name, or a tuple of names; by default 2.
      precision: as in `jax.lax.dot_general`; by default `None`.
      preferred_element_type: the dtype to accumulate in and to return; by default the dtype of the
        operands.

    Returns:
      An array with the other axes of both.

    Communication: over a sharded axis, as for `nx.dot`.

    Raises:
      AxisNotFoundError: an array lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.numpy.tensordot(x, x, "k")
    Array(5., dtype=float32)
    """
    options: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    names = names_in(axes)
    if not names or len(names) < len(entries_of(axes)):
        return _positional_tensordot(a, b, axes, **options)
    return dot(a, b, tuple(names), **options)
