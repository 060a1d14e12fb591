"""Splitting, merging and rearranging axes: `split_axis`, `merge_axes`, and einops patterns with braces for names (`patterns`).

All five functions are one pipeline. Every axis of the array is a product of *elementary* axes, and so is every axis of the
result. The array is cut into its elementary axes, those that vanish are reduced, new ones are broadcast, and the others are put
together again.

On a mesh the pipeline begins with the question where the shards of an elementary axis are. A row-major split keeps them where
they are: the mesh axes of the whole go to the major elementary axes first, as many as each can hold. The result's axes say the
same about where they should be, and one `relayout` of elementary axes leads from the one to the other. Where both agree,
nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array, LikeArguments
from namedax.core.array import NamedArray, dims_of, make, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, check_dims, is_name
from namedax.core.region import Region, ambient, enter
from namedax.core.variance import cast_data, with_varying_form
from namedax.errors import (
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    RearrangeError,
    did_you_mean,
    raise_not_found,
    show_names,
)
from namedax.operands.broadcasting import local_block, settled, wrap
from namedax.operands.one_axis import run
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.patterns import ELLIPSIS, Pattern, Term, parse_pattern
from namedax.resources import communication as comm
from namedax.resources.layout import relayout

__all__ = ["FUNCTIONS", "merge_axes", "rearrange", "reduce", "repeat", "split_axis"]

Axes = tuple[str, ...]


# --- execution ------------------------------------------------------------------------------------------------------


def _factor(placement: Axes, sizes: Sequence[int], devices: Callable[[str], int]) -> tuple[list[Axes], Axes]:
    """Where the blocks of a row-major product stand: mesh axes for each of its axes, and those that fit none of them."""
    rest = list(sizes)
    held: list[list[str]] = [[] for _ in sizes]
    i = 0
    for k, mesh_axis in enumerate(placement):
        n = devices(mesh_axis)
        while i + 1 < len(rest) and rest[i] == 1:
            i += 1
        if i >= len(rest) or rest[i] % n:
            return [tuple(axes) for axes in held], placement[k:]
        held[i].append(mesh_axis)
        rest[i] //= n
    return [tuple(axes) for axes in held], ()


def _solve(
    op: str, x: Any, terms: Sequence[tuple[Term, int]], known: dict[Hashable, int], fallback: Mapping[Hashable, int], text: str
) -> None:
    """Completes `known`, the sizes of elementary axes, by those of the array's axes."""
    for term, n in terms:
        missing = [label for label in term.axes if label not in known]
        if len(missing) > 1:
            for label in missing:
                if label in fallback:
                    known[label] = fallback[label]
            missing = [label for label in missing if label not in known]
        what = f"axis {term.name!r}" if term.name is not None else f"positional axis ({' '.join(map(str, term.axes))})"
        if len(missing) > 1:
            raise RearrangeError(
                f"{op}: {what} of size {n} in {type_text(x)} is made of {show_names(term.axes)}, of which "
                f"{show_names(missing)} have no size{text}. Give all but one of them, as in {missing[0]}=2."
            )
        product = math.prod(known[label] for label in term.axes if label not in missing)
        if missing and product and n % product == 0:
            known[missing[0]] = n // product
        elif missing or product != n:
            sizes = (
                " * ".join(f"{label} (unknown)" if label in missing else f"{label}={known[label]}" for label in term.axes)
                or "1"
            )
            raise RearrangeError(f"{op}: {what} of size {n} in {type_text(x)} is not {sizes}{text}. Correct the sizes.")


def _check_result(op: str, region: Region | None, dims: Dims, sizes: Sequence[int]) -> None:
    """Raises if the result's names do not fit the mapped function."""
    check_dims(dims, op)
    if region is None:
        return
    names = [dim for dim in dims if dim is not None]
    if region.resources:
        region.check_placement(op, names)
    region.seen.update(names)
    for dim, n in zip(dims, sizes, strict=True):
        if dim is None:
            continue
        known = region.sizes.get(dim)
        if known is not None and known != n:
            raise AxisSizeError(
                f"{op}: axis {dim!r} would have size {n}, but it has size {known} in this mapped function; a name has one "
                "size. Choose another name."
            )
        region.block_size(dim, n, op)


def _execute(
    op: str,
    x: Any,
    left: Sequence[Term],
    right: Sequence[Term],
    sizes: Mapping[Hashable, int],
    reduction: Any = None,
    text: str = "",
) -> Any:
    """Runs a pattern. `left` has one term for every positional axis of `x`, in order, and for some of its names."""
    region = ambient()
    x = local_block(x, op, region)
    dims = dims_of(x)
    data = x._data if isinstance(x, NamedArray) else jnp.asarray(x)
    placement = _placements(region)

    def devices(mesh_axis: str) -> int:
        return region.mesh_axis_size((mesh_axis,))  # type: ignore[union-attr]

    # One term for every dimension. Names that the pattern does not mention are carried, in front.
    by_name = {term.name: term for term in left if term.name is not None}
    in_order = iter([term for term in left if term.name is None])
    carried = [Term(dim, (_Carried(dim),)) for dim in dims if dim is not None and dim not in by_name]
    terms = [next(in_order) if dim is None else by_name.get(dim) or Term(dim, (_Carried(dim),)) for dim in dims]
    right = [*carried, *right]
    out_dims = tuple(term.name for term in right)
    if len(set(out_dims) - {None}) != len(out_dims) - out_dims.count(None):
        twice = next(dim for dim in out_dims if dim is not None and out_dims.count(dim) > 1)
        raise RearrangeError(
            f"{op}: the result would have the axis {twice!r} twice, since {type_text(x)} has it too{text}. Choose another name."
        )

    whole = [n if region is None or dim is None else n * region.blocks(dim) for dim, n in zip(dims, data.shape, strict=True)]
    size: dict[Hashable, int] = dict(sizes)
    in_region = (
        {}
        if region is None
        else {t.axes[0]: region.sizes[t.name] for t in right if len(t.axes) == 1 and t.name in region.sizes}
    )
    _solve(op, x, list(zip(terms, whole, strict=True)), size, in_region, text)
    for label in (label for term in right for label in term.axes):
        if label not in size:
            if label not in in_region:
                raise RearrangeError(f"{op}: the new axis {label!r} has no size{text}. Give it, as in {label}=2.")
            size[label] = in_region[label]
    out_sizes = [math.prod(size[label] for label in term.axes) for term in right]
    _check_result(op, region, out_dims, out_sizes)

    # Where the blocks are, and where they should be.
    old = [placement(dim) for dim in dims]
    new = [placement(dim) for dim in out_dims]
    labels = [label for term in terms for label in term.axes]
    here, stuck = _factor_all(terms, old, size, devices)
    there, late = _factor_all(right, new, size, devices)
    final = frozenset(axis for axes in new for axis in axes)
    kept = [label for term in right for label in term.axes]
    vanishing = [label for label in labels if label not in there]
    fresh = [label for label in kept if label not in here]
    gathered = frozenset(a for axes in stuck for a in axes) | frozenset(a for k in kept for a in here.get(k, ()))
    gathered -= final | frozenset(a for k in vanishing for a in here[k])

    def block(label: Hashable, where: Mapping[Hashable, Axes]) -> int:
        return size[label] // math.prod(devices(axis) for axis in where[label])

    def compute(keep: frozenset[str]) -> Any:
        keep |= final
        value = data
        if any(stuck):
            value = relayout(value, old, [a[: len(a) - len(s)] for a, s in zip(old, stuck, strict=True)], keep)
        value = value.reshape([block(label, here) for label in labels])
        order, now = labels, dict(here)
        if vanishing:
            value, order = _reduce(value, order, vanishing, reduction, region, size, now, there)
        value = relayout(value, [now[label] for label in order], [there[label] for label in order], keep)
        if fresh:
            missing = frozenset(axis for label in fresh for axis in there[label])
            value = cast_data(value, missing)
            where = [kept.index(label) for label in order]
            value = lax.transpose(value, [where.index(i) for i in sorted(where)])
            value = lax.broadcast_in_dim(value, [block(label, there) for label in kept], sorted(where))
        elif order != kept:
            value = lax.transpose(value, [order.index(label) for label in kept])
        value = value.reshape([math.prod(block(label, there) for label in term.axes) for term in right])
        if any(late):
            value = relayout(value, [a[: len(a) - len(s)] for a, s in zip(new, late, strict=True)], new, keep)
        return value

    if not gathered or all(dim is None for dim in out_dims):
        return wrap(compute(frozenset()), out_dims)
    return with_varying_form(compute(frozenset()), out_dims, gathered, lambda: compute(gathered))


def _placements(region: Region | None) -> Callable[[Hashable | None], Axes]:
    """The mesh axes over which the blocks of a dim are spread, in this body."""
    if region is None or not region.manual:
        return lambda dim: ()
    return lambda dim: () if dim is None else region.placement(dim)


def _factor_all(
    terms: Sequence[Term], places: Sequence[Axes], size: Mapping[Hashable, int], devices: Callable[[str], int]
) -> tuple[dict[Hashable, Axes], list[Axes]]:
    """Mesh axes of all elementary axes, and for every term those that fit none of its axes."""
    held: dict[Hashable, Axes] = {}
    left_over = []
    for term, axes in zip(terms, places, strict=True):
        each, remainder = _factor(axes, [size[label] for label in term.axes], devices)
        held.update(zip(term.axes, each, strict=True))
        left_over.append(remainder)
    return held, left_over


class _Carried:
    """The label of an axis that no pattern can name, and a name that no user can have."""

    __slots__ = ("axis",)

    def __init__(self, axis: Hashable):
        self.axis = axis

    def __hash__(self) -> int:
        return hash((_Carried, self.axis))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Carried) and self.axis == other.axis

    def __repr__(self) -> str:
        return repr(self.axis)


def _reduce(
    value: Any,
    order: list[Hashable],
    vanishing: list[Hashable],
    reduction: Any,
    region: Region | None,
    size: Mapping[Hashable, int],
    here: dict[Hashable, Axes],
    there: Mapping[Hashable, Axes],
) -> tuple[Any, list[Hashable]]:
    """Reduces elementary axes; the block that is left, and its labels. `here` learns what a reduce-scatter has placed."""
    rest = [label for label in order if label not in vanishing]
    mesh_axes = tuple(axis for label in order if label in vanishing for axis in here[label])
    if mesh_axes and reduction in ("sum", "mean"):
        # The result is wanted on the mesh axes that are summed over: one reduce-scatter.
        target = next((label for label in rest if not here[label] and there[label] == mesh_axes), None)
        if target is not None:
            axes = tuple(order.index(label) for label in vanishing)
            local = (
                jnp.sum(value, axes) if reduction == "sum" else jnp.mean(value, axes) / math.prod(map(lax.axis_size, mesh_axes))
            )
            here[target] = mesh_axes
            return comm.psum_scatter(local, rest.index(target), mesh_axes), rest
    if reduction not in ("sum", "mean"):
        value = settled(value, (None,) * len(order))
    reduce_ = REDUCTIONS[reduction] if isinstance(reduction, str) else reduction
    names = tuple(map(_Carried, order))
    inner = None
    if region is not None and region.manual:  # a region in which elementary axes are names, and have their places
        sizes: dict[Hashable, int] = {_Carried(label): size[label] for label in order}
        inner = Region(sizes, {_Carried(k): here[k] for k in order if here[k]}, region.mesh, region.mode, ("reduce", region))
    with enter(inner):
        named = make(value, names) if inner is None else make_in_region(value, names)
        result = reduce_(named, axis=tuple(map(_Carried, vanishing)))
    if set(dims_of(result)) != set(map(_Carried, rest)):
        raise RearrangeError(
            f"reduce: {reduction!r} did not reduce the axes that it was given; it is called as in nx.sum(x, axis=names)."
        )
    if not rest:
        return result, rest
    return lax.transpose(result._data, [result._dims.index(_Carried(label)) for label in rest]), rest


# --- the functions --------------------------------------------------------------------------------------------------


def _as_sizes(op: str, sizes: Mapping[Any, Any]) -> dict[Any, int]:
    for label, n in sizes.items():
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise RearrangeError(f"{op}: the size {label}={n!r} is not an integer from 0.")
    return {label: int(n) for label, n in sizes.items()}


def _expand_ellipsis(op: str, pattern: Pattern, rank: int, x: Any) -> tuple[list[Term], list[Term]]:
    """The terms for an array with `rank` positional axes, with `...` written out."""
    positional = [term for term in pattern.left if term.name is None]
    fixed = sum(not term.is_ellipsis for term in positional)
    has_ellipsis = fixed < len(positional)
    if fixed > rank or (fixed < rank and not has_ellipsis):
        raise RearrangeError(
            f"{op}: {pattern.text!r} has {'at least ' if has_ellipsis else ''}{fixed} positional axes, but {type_text(x)} has "
            f"{rank}. Write one entry per positional axis ('...' for those that do not matter), and names in braces."
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


def _run_pattern(op: str, x: Any, text: str, sizes: Mapping[str, Any], reduction: Any = None) -> Any:
    if not isinstance(text, str):
        raise RearrangeError(
            f"{op}: the pattern is a string, as in '{{batch, embed=(heads key)}} -> {{batch, heads, key}}'; got {text!r}."
        )
    pattern = parse_pattern(op, text)
    given = _as_sizes(op, sizes)
    labels = pattern.left_labels | pattern.right_labels
    for label in given:
        if label not in labels:
            known = [known for known in labels if isinstance(known, str)]
            raise RearrangeError(
                f"{op}: {label}={given[label]} is the size of no axis in {text!r}.{did_you_mean(label, known)}"
            )
    region = ambient()
    if region is not None:  # an axis that only the pattern mentions occurs, too
        region.seen.update(label for label in labels if isinstance(label, str))
    sized = pattern.with_sizes(given)
    if callable(reduction):  # the user's, which may depend on anything
        return _by_pattern(op, sized, reduction, x)
    return run(op, _by_pattern, sized, (reduction,), x)


def _by_pattern(op: str, pattern: Pattern, reduction: Any, x: Any) -> Any:
    dims = dims_of(x)
    left, right = _expand_ellipsis(op, pattern, dims.count(None), x)
    for term in left:
        if term.name is not None and term.name not in dims:
            raise_not_found(op, term.name, type_text(x), [dim for dim in dims if dim is not None])
    return _execute(op, x, left, right, dict(pattern.numbers), reduction, f" in {pattern.text!r}")


def rearrange(x: Any, pattern: str, **sizes: int) -> Array:
    """Reorders, splits and merges axes by an einops pattern, with names in braces.

    The grammar, on both sides of `->`:

    - Outside of braces stand the positional axes in order, as in einops: an identifier, a product `(a b)` (row-major, `a` is
      the major one), `...` for any number of axes, `1` for an axis of size 1.
    - In braces stand named axes, with commas: `{batch, embed}`; their order has no meaning. `{embed=(heads key)}` is the axis
      `embed` as a product; `{kpos=pos}` is the axis `kpos`, which the pattern calls `pos`. `{k=1}` is one of size 1.
    - An identifier is the same axis on both sides, in braces or not. So `"b c -> {batch=b} c"` names an axis, `"{batch} c ->
      batch c"` gives one a position, and `"{pos} -> {kpos=pos}"` renames it.
    - Names of the array that the pattern does not mention are carried along.

    Args:
      x: an array, named or not.
      pattern: the axes of `x`, `->`, and those of the result.
      **sizes: sizes of elementary axes, for all but one in a product. A name of the result that stands for one of them takes
        its size from the mapped function.

    Returns:
      The rearranged array. Its physical order is that of the pattern, with the carried names in front. What moves between
      devices: nothing where the shards stay where they are, as where a name on a mesh axis is split and the major part is on
      that mesh axis, or where such parts are merged; nothing for a name that becomes sharded; else the cheapest change of
      layout, an all-to-all where a mesh axis goes from one axis to another. *It gathers*: a sharded name that becomes
      positional (a positional array is whole on every device), or that becomes a name without resources, or whose blocks do not
      consist of whole parts (of 8 devices, a major part of size 4).

    Raises:
      RearrangeError: the pattern is malformed (with a caret under the spot), or does not fit the array.
      AxisNotFoundError: `x` lacks a name.
      AxisSizeError: a new name has a different size in the mapped function, or does not divide over its mesh axes.
      PlacementConflictError: two names of the result are on one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((5, 32)), ["pos", "embed"])
    >>> rearrange(x, "{pos, embed=(heads key)} -> {pos, heads, key}", heads=4).named_shape["key"]
    8
    >>> rearrange(jnp.ones((2, 6, 4, 3)), "b h w c -> {batch=b, pixels=(h w)} c").dims
    ('batch', 'pixels', None)
    >>> rearrange(x, "{pos, embed=(heads key} -> {pos, heads, key}")
    Traceback (most recent call last):
    namedax.errors.RearrangeError: rearrange: this parenthesis is never closed.
      {pos, embed=(heads key} -> {pos, heads, key}
                  ^
    """
    return _run_pattern("rearrange", x, pattern, sizes)


def reduce(x: Any, pattern: str, reduction: str | Callable[..., Any], **sizes: int) -> Array:
    """Rearranges, and reduces the axes that stand on the left only.

    Args:
      x: an array, named or not.
      pattern: as in `rearrange`. The left side may have sizes: `"b (h 2) (w 2) c -> b h w c"` pools windows of 2 x 2.
      reduction: `"sum"`, `"mean"`, `"max"`, `"min"`, `"prod"`, `"any"`, `"all"`, or another reduction of `nx` by name; or a
        function that is called as they are, `f(x, axis=names)`.
      **sizes: as in `rearrange`.

    Returns:
      The reduced array. Along a sharded axis every device reduces its part; then comes the reduction's own collective. A sum
      or mean whose result is wanted on the mesh axis that was reduced is one reduce-scatter.

    Raises:
      RearrangeError: as in `rearrange`, or there is no such reduction.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0), ["time"])
    >>> nx.positional(reduce(x, "{time=(day 2)} -> {day}", "mean"), ["day"])
    Array([0.5, 2.5, 4.5], dtype=float32)
    """
    if isinstance(reduction, str):
        names = [name for name in REDUCTIONS if not name.startswith(("arg", "nanarg"))]
        if reduction not in names:
            raise RearrangeError(
                f"reduce: there is no reduction {reduction!r}.{did_you_mean(reduction, names)} Write one of "
                f"{show_names(sorted(names))}."
            )
    elif not callable(reduction):
        raise RearrangeError(
            f"reduce: the reduction is a name such as 'mean', or a function f(x, axis=names); got {reduction!r}."
        )
    return _run_pattern("reduce", x, pattern, sizes, reduction)


def repeat(x: Any, pattern: str, **sizes: int) -> Array:
    """Rearranges, and repeats the array along the axes that stand on the right only.

    (`nx.numpy.repeat` repeats single elements, as `jnp.repeat` does.)

    Args:
      x: an array, named or not.
      pattern: as in `rearrange`. The right side may have sizes: `"h w -> h (w 2)"`.
      **sizes: as in `rearrange`; a new name takes its size from the mapped function if it is not given.

    Returns:
      The repeated array. Along a sharded new axis every device makes its own block, and nothing is sent.

    Raises:
      RearrangeError: as in `rearrange`, or a new axis has no size.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1, 2]), ["k"])
    >>> nx.positional(repeat(x, "{k} -> {k=(k 2)}"), ["k"])
    Array([1, 1, 2, 2], dtype=int32)
    >>> repeat(x, "{k} -> {batch, k}", batch=3).dims
    ('batch', 'k')
    """
    return _run_pattern("repeat", x, pattern, sizes)


def _terms_of(dims: Dims) -> list[Term]:
    return [Term(dim, (_Carried(i if dim is None else (dim,)),)) for i, dim in enumerate(dims)]


def _require(op: str, x: Any, name: Any) -> None:
    dims = dims_of(x)
    if not is_name(name):
        raise PositionalAxisError(f"{op}: {name!r} is not an axis name; for positional axes use rearrange.")
    if name not in dims:
        raise_not_found(op, name, type_text(x), [dim for dim in dims if dim is not None])


def split_axis(x: Any, axis: Hashable, sizes: Mapping[Hashable, int | None] | Sequence[Hashable]) -> LikeArguments:
    """Splits one named axis into several, row-major.

    Args:
      x: a named array.
      axis: the axis to split.
      sizes: sizes by new name, major first. One may be `None`: it is computed. A sequence of names leaves out all sizes; they
        come from the mapped function, all but one.

    Returns:
      `x` with the new axes in place of `axis`. Where `axis` is on mesh axes and the major new axes hold these, nothing moves.
      Otherwise as in `rearrange`; in particular it gathers if the new axes have no resources.

    Raises:
      AxisNotFoundError: `x` lacks `axis`.
      RearrangeError: the sizes do not multiply to that of `axis`, or too few are known.
      AxisSizeError: a new name has a different size in the mapped function, or does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((5, 32)), ["pos", "embed"])
    >>> dict(split_axis(x, "embed", {"heads": 4, "key": 8}).named_shape)
    {'pos': 5, 'heads': 4, 'key': 8}
    """
    _require("split_axis", x, axis)
    if isinstance(sizes, (str, bytes)) or not isinstance(sizes, (Mapping, Sequence)):
        raise RearrangeError(
            f"split_axis: write the new axes as a dict of sizes, such as {{'heads': 4, 'key': 8}}; got {sizes!r}."
        )
    new = tuple(sizes)
    for name in new:
        if not is_name(name):
            raise AxisNameError(
                f"split_axis: {name!r} is not an axis name. Use rearrange to split an axis into positional ones."
            )
    given = {name: n for name, n in sizes.items() if n is not None} if isinstance(sizes, Mapping) else {}
    known = _as_sizes("split_axis", given)
    return run("split_axis", _split, (axis, *new), (tuple(known.get(name) for name in new),), x)


def _split(op: str, axes: tuple[Hashable, ...], sizes: tuple[int | None, ...], x: Any) -> Any:
    axis, *new = axes
    known = {name: size for name, size in zip(new, sizes, strict=True) if size is not None}
    terms = _terms_of(dims_of(x))
    at = dims_of(x).index(axis)
    left = [*terms[:at], Term(axis, tuple(new)), *terms[at + 1 :]]
    right = [*terms[:at], *(Term(name, (name,)) for name in new), *terms[at + 1 :]]
    return _execute(op, x, left, right, known)


def merge_axes(x: Any, axes: Sequence[Hashable], name: Hashable) -> LikeArguments:
    """Merges several named axes into one, row-major in the order given.

    Args:
      x: a named array.
      axes: the names, major first.
      name: the name of the result; it may be one of them.

    Returns:
      `x` with the new axis in place of the first of `axes` that it holds. Where the major ones are on mesh axes and the new
      axis is on the same, nothing moves; otherwise as in `rearrange`.

    Raises:
      AxisNotFoundError: `x` lacks one of the axes.
      AxisSizeError: the new name has a different size in the mapped function, or does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((4, 5, 8)), ["heads", "pos", "key"])
    >>> dict(merge_axes(x, ("heads", "key"), "embed").named_shape)
    {'embed': 32, 'pos': 5}
    """
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise RearrangeError(f"merge_axes: write the axes as a tuple, such as ('heads', 'key'); got {axes!r}.")
    axes = tuple(axes)
    for i, axis in enumerate(axes):
        _require("merge_axes", x, axis)
        if axis in axes[:i]:
            raise AxisNameError(f"merge_axes: axis {axis!r} appears twice in {axes}.")
    if not axes:
        raise RearrangeError("merge_axes: there is no axis to merge. Give the axes, major first.")
    if not is_name(name):
        raise AxisNameError(f"merge_axes: {name!r} is not an axis name. Use rearrange to merge axes into a positional one.")
    return run("merge_axes", _merge, (name, *axes), (), x)


def _merge(op: str, names: tuple[Hashable, ...], x: Any) -> Any:
    name, *axes = names
    left = _terms_of(dims_of(x))
    label = {term.name: term.axes[0] for term in left}
    merged = Term(name, tuple(label[axis] for axis in axes))
    first = next(i for i, term in enumerate(left) if term.name in axes)
    rest = [term for term in left[first:] if term.name is None or term.name not in axes]
    return _execute(op, x, left, [*left[:first], merged, *rest], {})


#: The functions of this module, by their names in `nx`.
FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (split_axis, merge_axes, rearrange, reduce, repeat)}
