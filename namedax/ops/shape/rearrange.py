"""Split, merge and rearrange axes: `split_axis`, `merge_axes`, and einops patterns with names.

All five functions share one pipeline, which `moves` executes; `patterns` parses the patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import dims_of
from namedax.core.display import type_text
from namedax.core.names import Dims, check_name, is_name
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentTypeError,
    AxisNameError,
    PositionalAxisError,
    RearrangeError,
    did_you_mean,
    format_value,
    raise_not_found,
    reject_names,
    show_names,
    usage,
)
from namedax.ops.operands.one_axis import run
from namedax.ops.operands.operation import MOVED, AxisRequirement, Explicit, operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.moves import Carried, execute
from namedax.ops.shape.patterns import ELLIPSIS, Pattern, Term, parse_pattern
from namedax.ops.shape.repeating import repeat as repeat_entries

__all__ = ["merge_axes", "rearrange", "reduce", "repeat", "split_axis"]


def _as_sizes(op: str, sizes: Mapping[Any, Any]) -> dict[Any, int]:
    for label, n in sizes.items():
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise RearrangeError(
                f"{op}: the size {label} must be a nonnegative integer, got {format_value(n)}."
            )
    return {label: int(n) for label, n in sizes.items()}


def _expand_ellipsis(
    op: str, pattern: Pattern, rank: int, x: ArrayLike
) -> tuple[list[Term], list[Term]]:
    """Return the terms for an array with `rank` positional axes, with `...` expanded."""
    positional = [term for term in pattern.left if term.name is None]
    fixed = sum(not term.is_ellipsis for term in positional)
    has_ellipsis = fixed < len(positional)
    if fixed > rank or (fixed < rank and not has_ellipsis):
        raise RearrangeError(
            f"{op}: {format_value(pattern.text)} has {'at least ' if has_ellipsis else ''}{fixed}"
            f" positional axes, but {type_text(x)} has {rank}. Write one element per positional"
            " axis ('...' for any others), and names in braces."
        )
    extra = tuple((ELLIPSIS, i) for i in range(rank - fixed))

    def written_out(terms: Sequence[Term]) -> list[Term]:
        result: list[Term] = []
        for term in terms:
            if term.is_ellipsis:
                result += [Term(None, (label,)) for label in extra]
            elif ELLIPSIS in term.axes:
                at = term.axes.index(ELLIPSIS)
                result.append(Term(term.name, (*term.axes[:at], *extra, *term.axes[at + 1 :])))
            else:
                result.append(term)
        return result

    return written_out(pattern.left), written_out(pattern.right)


def _run_pattern(
    op: str,
    x: ArrayLike,
    text: str,
    sizes: Mapping[str, Any],
    reduction: str | Callable[..., AnyArray] | None = None,
) -> AnyArray:
    if not isinstance(text, str):
        raise RearrangeError(
            f"{op}: the pattern must be a string such as '{{batch, embed=(heads key)}} -> {{batch,"
            f" heads, key}}', got {format_value(text)}.{usage(op)}"
        )
    pattern = parse_pattern(op, text)
    given = _as_sizes(op, sizes)
    labels = pattern.left_labels | pattern.right_labels
    for label in given:
        if label not in labels:
            known = [known for known in labels if isinstance(known, str)]
            raise RearrangeError(
                f"{op}: {label}={given[label]} gives a size to an axis that is not in"
                f" {text!r}.{did_you_mean(label, known)}"
            )
    region = ambient()
    if region is not None:  # an axis that only the pattern mentions occurs in the region, too
        region.seen.update(label for label in labels if isinstance(label, str))
    sized = pattern.with_sizes(given)
    if callable(reduction):  # a user function may depend on anything
        return _by_pattern(op, sized, reduction, x)
    return run(op, _by_pattern, sized, (reduction,), x)


def _by_pattern(
    op: str, pattern: Pattern, reduction: str | Callable[..., AnyArray] | None, x: ArrayLike
) -> AnyArray:
    dims = dims_of(x)
    left, right = _expand_ellipsis(op, pattern, dims.count(None), x)
    for term in left:
        if term.name is not None and term.name not in dims:
            raise_not_found(op, term.name, type_text(x), names_of(dims))
    return execute(op, x, left, right, dict(pattern.numbers), reduction, f" in {pattern.text!r}")


@operation(explicit=Explicit.AS_JAX)
def rearrange(x: ArrayLike, pattern: str, /, **sizes: int) -> AnyArray:
    """Reorder, split and merge axes by an einops pattern, with names in braces.

    The grammar, on both sides of `->`:

    - Outside of braces are the positional axes in order, as in einops. An element is an identifier
      or a product `(a b)` (row-major, with `a` as the major axis). `...` denotes any number of
      axes, and `1` an axis of size 1.
    - In braces are named axes, separated by commas: `{batch, embed}`; their order has no meaning.
      `{embed=(heads key)}` is the axis `embed` as a product. `{kpos=pos}` is the axis `kpos`, which
      the pattern calls `pos`. `{k=1}` is an axis of size 1.
    - An identifier is the same axis on both sides, in braces or not. So `"b c -> {batch=b} c"`
      names an axis, `"{batch} c -> batch c"` makes one positional, and `"{pos} -> {kpos=pos}"`
      renames it.
    - Named axes that the pattern does not mention are kept.

    Args:
      x: an array, named or not.
      pattern: the axes of `x`, `->`, and the axes of the result.
      **sizes: sizes of elementary axes, for all but one in a product. A named axis of the result
        that equals one of them takes its size from the mapped function.

    Returns:
      The rearranged array. Its physical order follows the pattern, with unmentioned named axes in
      front.

    Communication: none if the shards remain in place, and none for a name that becomes sharded.
    Shards remain in place if a sharded axis is split and its major factor keeps the mesh axis, or
    if such factors are merged. Otherwise it is the cheapest change of layout, such as an all-to-all
    if a mesh axis moves from one axis to another.

    *It gathers* a sharded name that becomes positional, because a positional array is complete on
    every device. It also gathers a sharded name that becomes a name without resources. The same
    holds if the blocks of an axis split a factor (on 8 devices, a major factor of size 4).

    Outside of mapped functions, data that is sharded over Explicit mesh axes keeps the shards that
    can remain in place, under any name and along positional axes, and is gathered over the other
    mesh axes.

    Raises:
      RearrangeError: the pattern is malformed (with a caret under the error), or does not fit the
        array.
      AxisNotFoundError: `x` lacks a named axis.
      AxisSizeError: a new axis has a different size in the mapped function, or does not divide over
        its mesh axes.
      PlacementConflictError: two axes of the result are sharded over one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((5, 32)), ["pos", "embed"])
    >>> nx.rearrange(x, "{pos, embed=(heads key)} -> {pos, heads, key}", heads=4).named_shape["key"]
    8
    >>> nx.rearrange(jnp.ones((2, 6, 4, 3)), "b h w c -> {batch=b, pixels=(h w)} c").dims
    ('batch', 'pixels', None)
    >>> nx.rearrange(x, "{pos, embed=(heads key} -> {pos, heads, key}")
    Traceback (most recent call last):
    namedax.errors.RearrangeError: rearrange: this parenthesis is never closed.
      {pos, embed=(heads key} -> {pos, heads, key}
                  ^
    [NX017]
    """
    return _run_pattern("rearrange", x, pattern, sizes)


@operation()
def reduce(
    x: ArrayLike, pattern: str, /, reduction: str | Callable[..., Any], **sizes: int
) -> AnyArray:
    """Rearrange an array, and reduce the axes that appear on the left only.

    `nx.lax.reduce` is another function, from JAX, which folds positional axes with a function of
    two values.

    Args:
      x: an array, named or not.
      pattern: as in `rearrange`. The left side may have sizes: `"b (h 2) (w 2) c -> b h w c"` pools
        windows of 2 x 2.
      reduction: `"sum"`, `"mean"`, `"max"`, `"min"`, `"prod"`, `"any"`, `"all"`, or another
        reduction of `nx` by name; or a function with the same signature, `f(x, axis=names)`.
      **sizes: as in `rearrange`.

    Returns:
      The reduced array.

    Communication: along a sharded axis every device reduces its block, and the collective of the
    reduction follows. A sum or mean with a result that is sharded over the reduced mesh axis is one
    reduce-scatter.

    Raises:
      RearrangeError: as in `rearrange`, or there is no such reduction.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0), ["time"])
    >>> nx.positional(nx.reduce(x, "{time=(day 2)} -> {day}", "mean"), ["day"])
    Array([0.5, 2.5, 4.5], dtype=float32)
    """
    if isinstance(reduction, str):
        names = [name for name in REDUCTIONS if not name.startswith(("arg", "nanarg"))]
        if reduction not in names:
            raise RearrangeError(
                "reduce: there is no reduction"
                f" {format_value(reduction)}.{did_you_mean(reduction, names)} Write one of"
                f" {show_names(sorted(names))}."
            )
    elif not callable(reduction):
        raise RearrangeError(
            "reduce: the reduction must be a name such as 'mean' or a function f(x, axis=names),"
            f" got {format_value(reduction)}."
        )
    return _run_pattern("reduce", x, pattern, sizes, reduction)


def _is_pattern(x: object = None, repeats: object = None, *_: object, **sizes: object) -> bool:
    return isinstance(repeats, str) or not {"axis", "total_repeat_length", "out_axis"}.issuperset(
        sizes
    )


@overload
def repeat(x: ArrayLike, repeats: str, **sizes: int) -> AnyArray: ...
@overload
def repeat(
    x: ArrayLike,
    repeats: Any,
    axis: AxisSpec = None,
    *,
    total_repeat_length: int | None = None,
    out_axis: Hashable | None = None,
) -> AnyArray: ...
@operation(requires_axis=AxisRequirement(MOVED.remedy, _is_pattern), explicit=Explicit.KEPT)
def repeat(
    x: ArrayLike,
    repeats: Any,
    axis: AxisSpec = None,
    *,
    total_repeat_length: int | None = None,
    out_axis: Hashable | None = None,
    **sizes: int,
) -> AnyArray:
    """Repeat an array along new axes, by a pattern, or its elements along an existing axis.

    With a pattern, `repeat(x, "{k} -> {batch, k}", batch=3)`, it rearranges the array as in einops.
    The array is repeated along the axes that appear on the right only. With a number, `repeat(x, 2,
    "k")`, it is `nx.numpy.repeat`, like the method `x.repeat`.

    Args:
      x: an array, named or not.
      repeats: a pattern as in `rearrange`, in which the right side may have sizes: `"h w -> h (w
        2)"`. Otherwise the number of repetitions of each element: a number, or an integer array
        with one for each.
      axis: without a pattern, a positional or named axis; `None` (default) flattens the positional
        axes. Required if every axis is named.
      total_repeat_length: as in `nx.numpy.repeat`; by default `None`.
      out_axis: as in `nx.numpy.repeat`: the name of the axis in the result; by default `None`.
      **sizes: with a pattern, as in `rearrange`; a new named axis takes its size from the mapped
        function by default.

    Returns:
      The repeated array.

    Communication: along a sharded new axis, none; every device makes its own block. For elements
    along an axis, see `nx.numpy.repeat`.

    Raises:
      RearrangeError: as in `rearrange`, or a new axis has no size.
      ArgumentTypeError: sizes are given without a pattern.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1, 2]), ["k"])
    >>> nx.positional(nx.repeat(x, "{k} -> {k=(k 2)}"), ["k"])
    Array([1, 1, 2, 2], dtype=int32)
    >>> nx.repeat(x, "{k} -> {batch, k}", batch=3).dims
    ('batch', 'k')
    >>> nx.positional(x.repeat(2, "k"), ["k"])
    Array([1, 1, 2, 2], dtype=int32)
    """
    if isinstance(repeats, str):  # any identifier may be the name of an axis
        if "->" not in repeats and (axis is not None or repeats in dims_of(x)):
            reject_names("repeat", repeats, "a number of repetitions or a pattern")
        own = {"axis": axis, "total_repeat_length": total_repeat_length, "out_axis": out_axis}
        return _run_pattern(
            "repeat",
            x,
            repeats,
            {**{name: size for name, size in own.items() if size is not None}, **sizes},
        )
    if sizes:
        raise ArgumentTypeError(
            f"repeat: {show_names(sizes)} are sizes for a pattern, but repeats is"
            f" {format_value(repeats)}. Write a pattern, as in nx.repeat(x, '{{k}} -> {{batch,"
            " k}', batch=3), or nx.repeat(x, 2, axis='k')."
        )
    return repeat_entries(
        x, repeats, axis, total_repeat_length=total_repeat_length, out_axis=out_axis
    )


def _terms_of(dims: Dims) -> list[Term]:
    return [Term(dim, (Carried(i if dim is None else (dim,)),)) for i, dim in enumerate(dims)]


def _require(op: str, x: ArrayLike, name: Hashable) -> None:
    dims = dims_of(x)
    if not is_name(name):
        raise PositionalAxisError(
            f"{op}: {format_value(name)} is not an axis name; for positional axes use"
            f" rearrange.{usage(op)}"
        )
    if name not in dims:
        raise_not_found(op, name, type_text(x), names_of(dims))


@operation(explicit=Explicit.AS_JAX)
def split_axis(
    x: ArrayLike, axis: Hashable, sizes: Mapping[Hashable, int | None] | Sequence[Hashable]
) -> LikeArguments:
    """Split one named axis into several, row-major.

    Args:
      x: a named array.
      axis: the axis to split.
      sizes: sizes by new name. The order of the dict is the order of the axes, major first. With
        `{"heads": 4, "key": 8}` adjacent elements along `axis` are adjacent along `key`. So
        `{"key": 8, "heads": 4}` gives a different result. One size may be `None`: it is computed. A
        sequence of names omits all sizes; the mapped function defines all but one of them.

    Returns:
      `x` with the new axes in place of `axis`.

    Communication: none if `axis` is sharded over mesh axes and the major new axes have the same
    mesh axes. Otherwise as for `rearrange`; in particular it gathers if the new axes have no
    resources. Outside of mapped functions, the major new axes keep Explicit mesh axes.

    Raises:
      AxisNotFoundError: `x` lacks `axis`.
      RearrangeError: the product of the sizes differs from the size of `axis`, or too few are
        known.
      AxisSizeError: a new axis has a different size in the mapped function, or does not divide over
        its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((5, 32)), ["pos", "embed"])
    >>> dict(nx.split_axis(x, "embed", {"heads": 4, "key": 8}).named_shape)
    {'pos': 5, 'heads': 4, 'key': 8}
    >>> row = nx.named(jnp.arange(6), ["k"])
    >>> nx.positional(nx.split_axis(row, "k", {"i": 2, "j": 3}), ["i", "j"])
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    _require("split_axis", x, axis)
    if isinstance(sizes, (str, bytes)) or not isinstance(sizes, (Mapping, Sequence)):
        raise RearrangeError(
            "split_axis: the new axes must be a dict of sizes, such as {'heads': 4, 'key': 8},"
            f" got {format_value(sizes)}."
        )
    new = tuple(sizes)
    for name in new:
        if not is_name(name):
            raise AxisNameError(
                f"split_axis: {format_value(name)} is not an axis name. Use rearrange to split an"
                " axis into positional ones."
            )
        check_name(name, "split_axis")
    given = (
        {name: n for name, n in sizes.items() if n is not None}
        if isinstance(sizes, Mapping)
        else {}
    )
    known = _as_sizes("split_axis", given)
    return run("split_axis", _split, (axis, *new), (tuple(known.get(name) for name in new),), x)


def _split(
    op: str, axes: tuple[Hashable, ...], sizes: tuple[int | None, ...], x: ArrayLike
) -> AnyArray:
    axis, *new = axes
    known = {name: size for name, size in zip(new, sizes, strict=True) if size is not None}
    terms = _terms_of(dims_of(x))
    at = dims_of(x).index(axis)
    left = [*terms[:at], Term(axis, tuple(new)), *terms[at + 1 :]]
    right = [*terms[:at], *(Term(name, (name,)) for name in new), *terms[at + 1 :]]
    return execute(op, x, left, right, known)


@operation(explicit=Explicit.AS_JAX)
def merge_axes(x: ArrayLike, axis: Sequence[Hashable], name: Hashable) -> LikeArguments:
    """Merge several named axes into one, row-major in the given order.

    Args:
      x: a named array.
      axis: the names of the axes, major first.
      name: the name of the result; it may be one of them.

    Returns:
      `x` with the new axis in place of the first of these axes in physical order.

    Communication: none if the major ones are sharded over mesh axes and the new axis has the same
    mesh axes; otherwise as for `rearrange`. Outside of mapped functions, the new axis keeps the
    Explicit mesh axes of the major ones.

    Raises:
      AxisNotFoundError: `x` lacks one of the axes.
      AxisSizeError: the new axis has a different size in the mapped function, or does not divide
        over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((4, 5, 8)), ["heads", "pos", "key"])
    >>> dict(nx.merge_axes(x, ("heads", "key"), "embed").named_shape)
    {'embed': 32, 'pos': 5}
    """
    if isinstance(axis, str) or not isinstance(axis, Sequence):
        names = [dim for dim in dims_of(x) if dim is not None][:2]
        raise RearrangeError(
            f"merge_axes: the axes must be a tuple, got {format_value(axis)}. Write"
            f" nx.merge_axes(x, {tuple(names or ['heads', 'key'])!r}, 'flat')."
        )
    axes = tuple(axis)
    for i, entry in enumerate(axes):
        _require("merge_axes", x, entry)
        if entry in axes[:i]:
            raise AxisNameError(f"merge_axes: axis {format_value(entry)} appears twice in {axes}.")
    if not axes:
        raise RearrangeError("merge_axes: there is no axis to merge. Pass the axes, major first.")
    if not is_name(name):
        raise AxisNameError(
            f"merge_axes: {format_value(name)} is not an axis name. Use rearrange to merge axes"
            " into a positional one."
        )
    check_name(name, "merge_axes")
    return run("merge_axes", _merge, (name, *axes), (), x)


def _merge(op: str, names: tuple[Hashable, ...], x: ArrayLike) -> AnyArray:
    name, *axes = names
    left = _terms_of(dims_of(x))
    label = {term.name: term.axes[0] for term in left}
    merged = Term(name, tuple(label[axis] for axis in axes))
    first = next(i for i, term in enumerate(left) if term.name in axes)
    rest = [term for term in left[first:] if term.name is None or term.name not in axes]
    return execute(op, x, left, [*left[:first], merged, *rest], {})
