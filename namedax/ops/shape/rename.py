"""Renaming axes, which is how data moves: a name with a different placement is another layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from jax import lax

from namedax.core.annotations import LikeArguments
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import Dims, check_dims, is_name
from namedax.core.region import Region, ambient
from namedax.core.scopes import Renaming, operation
from namedax.core.variance import cast, cast_data, remembered, share_memory, varying, was_cast, with_varying_forms
from namedax.errors import ArgumentTypeError, AxisNameError, AxisSizeError, raise_not_found
from namedax.operands.broadcasting import local_block, wrap
from namedax.resources.layout import Axes, Layout, relayout
from namedax.resources.serial import LoopAxis

__all__ = ["check_new_name", "move", "read", "rename", "transpose_to"]


def _renamings(x: Any, names: Any = None, /, **more: Hashable) -> list[Renaming]:
    """What stands in the scope of the operation."""
    return [Renaming(new, old) for old, new in {**(names or {}), **more}.items()]


@operation(_renamings)
def rename(x: Any, names: Mapping[Hashable, Hashable] | None = None, /, **more: Hashable) -> LikeArguments:
    """Gives axes other names, all at once; where the placements differ, this is resharding.

    Args:
      x: a named array.
      names: new names by old ones.
      **more: the same by keyword, for names that are identifiers: `nx.rename(x, batch="sample")`.

    Returns:
      The same values under the new names. What moves: where an axis gets the placement that it had,
      nothing. From unmapped to mapped nothing: every device keeps its block. From mapped to
      unmapped one all-gather of the axis. Where one axis leaves mesh axes that another one goes
      onto, one all-to-all for both. Where two axes change places on mesh axes of equal size, or one
      axis gets its mesh axes in another order, one collective-permute. From one mesh axis to
      another a collective-permute of a slice and an all-gather of the rest. In general the steps
      that send the fewest bytes (`namedax.resources.layout`).

      The gradient of an all-gather is a reduce-scatter where the result was combined with values
      that vary over the mesh axis, and sends nothing where it was not. That of a slice is an
      all-gather. The others are their own gradients.

    Raises:
      AxisNotFoundError: `x` lacks an old name.
      AxisNameError: a new name is not an axis name, or two axes would have one name.
      AxisSizeError: a new name has a different size in the mapped function, or does not divide over its
        mesh axes.
      PlacementConflictError: two of the resulting names are on one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.rename(nx.named(jnp.ones((2, 3)), ["a", "b"]), {"a": "b", "b": "a"}).dims
    ('b', 'a')
    """
    region = ambient()
    dims = dims_of(x)
    names = _new_names(names, more)
    for old, new in names.items():
        if old not in dims or old is None:
            raise_not_found("rename", old, type_text(x), [d for d in dims if d is not None])
        if not is_name(new):
            raise AxisNameError(f"rename: {new!r} is not an axis name. To make {old!r} positional, use nx.positional.")
    renamed = check_dims(tuple(d if d is None else names.get(d, d) for d in dims), "rename")
    if renamed == dims:
        return x
    x = local_block(x, "rename", region)
    if region is None:
        return wrap(x._data, renamed)
    for dim, new_dim, n in zip(dims, renamed, x._data.shape, strict=True):
        if dim is not None and dim != new_dim:
            check_new_name("rename", "become", dim, new_dim, region.global_size(dim, n), region)
    region.check_placement("rename", (dim for dim in renamed if dim is not None))
    if not region.manual:
        return wrap(x._data, renamed)
    old_layout = [() if dim is None else region.place(dim) for dim in dims]
    new_layout = [() if dim is None else region.place(dim) for dim in renamed]
    if old_layout == new_layout:
        return share_memory(wrap(x._data, renamed), x)
    return move(x, old_layout, new_layout, renamed)


def _new_names(names: Any, more: Mapping[str, Hashable]) -> Mapping[Any, Hashable]:
    if names is None:
        return more
    if not isinstance(names, Mapping):
        raise ArgumentTypeError(
            f"rename: names={names!r} is not a mapping; write nx.rename(x, {{'old': 'new'}}) or nx.rename(x, old='new')."
        )
    twice = [old for old in names if old in more]
    if twice:
        raise AxisNameError(f"rename: axis {twice[0]!r} is given twice, in the mapping and by keyword; give it one new name.")
    return {**names, **more}


def check_new_name(op: str, verb: str, old: Hashable, new: Hashable, size: int, region: Region) -> None:
    """Raises where an axis of global size `size` cannot have the name `new` in this region."""
    known = region.sizes.get(new)
    if known is not None and known != size:
        raise AxisSizeError(
            f"{op}: axis {old!r} of size {size} cannot {verb} {new!r}, which has size {known} in this mapped function; a name "
            "has one size. Choose another name."
        )
    region.note(new, region.block_size(new, size, op, knows_padding=True))


def move(
    source: Any,
    old: Sequence[Axes],
    new: Sequence[Axes],
    dims: Dims,
    finish: Callable[[Any], Any] = lambda data: data,
) -> Any:
    """The local block `source` in another layout, as an array with `dims`.

    Code that combines the array with values that vary over the mesh axes that it was gathered over gets a gather whose
    transpose is a reduce-scatter; code that returns it, one whose transpose is a slice.

    Args:
      source: the local block, or the named array that holds it.
      old: the placement of every dimension.
      new: the placement that every dimension is to have.
      dims: of the result.
      finish: what else is done to the data, without communication.
    """
    before = frozenset(axis for axes in old for axis in axes)
    gathered = before - {axis for axes in new for axis in axes}

    def form(wanted: frozenset[str]) -> Any:
        return finish(read(source, tuple(old), tuple(new), frozenset(axis for axes in new for axis in axes) | wanted))

    if not gathered or all(dim is None for dim in dims):
        return wrap(form(frozenset()), dims)
    region = ambient()
    if region is not None:
        region.seen.update(dim for dim in dims if dim is not None)
    return with_varying_forms(dims, form)


def read(source: Any, old: Layout, new: Layout, variance: frozenset[str]) -> Any:
    """The local block `source` in another layout, varying over `variance` (and what else it varied over).

    An axis that is gathered to meet values that vary over the same mesh axes is gathered to varying, so that its gradient is one
    reduce-scatter. Over other mesh axes it is cast before, so that the gradient is reduced after that, when it is small; over the axis
    of a loop it is cast after it, so that there is one reduce-scatter, behind the loop. Where it is cut into blocks it is not cast, and
    the gradient is one all-gather, unless it was cast already, so that its gradient is reduced anyway. A named array keeps what was read,
    so that a parameter that is read twice is gathered once, and its gradient reduced once.

    Args:
      source: the local block, or the named array that holds it.
      old: the placement of every dimension.
      new: the placement that every dimension is to have.
      variance: mesh axes over which the result is to vary; those of `new` are among them.
    """
    before = frozenset(axis for axes in old for axis in axes)
    variance = variance | (varying(source._data if isinstance(source, NamedArray) else source) - before)

    cut = frozenset(axis for axes in new for axis in axes) - before
    if isinstance(source, NamedArray) and was_cast(source, cut):
        cut = frozenset()

    def moved() -> Any:
        early = frozenset(axis for axis in variance - before - cut if not isinstance(axis, LoopAxis))
        return cast_data(relayout(cast(source, early), old, new, before & variance), variance)

    return remembered(source, ("read", old, new, variance), moved) if isinstance(source, NamedArray) else moved()


def transpose_to(x: NamedArray, dims: tuple[Hashable | None, ...]) -> NamedArray:
    """`x` with its named axes in the physical order of `dims`; positional axes keep theirs.

    Moves nothing between devices.
    """
    places = iter([i for i, dim in enumerate(x._dims) if dim is None])
    order = [next(places) if dim is None else x._dims.index(dim) for dim in dims]
    if order == list(range(len(order))):
        return x
    result: NamedArray = wrap(lax.transpose(x._data, order), dims)
    return result
