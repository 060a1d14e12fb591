"""Renaming axes, which is how data moves: a name with a different placement is another layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax import lax

from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.name_scopes import Renaming
from namedax.core.names import Dims, check_dims, is_name
from namedax.core.region import Region, ambient
from namedax.core.variance import cast, cast_data, remembered, share_memory, varying, was_cast, with_varying_forms
from namedax.errors import ArgumentTypeError, AxisNameError, AxisSizeError, format_value, raise_not_found
from namedax.operands.broadcasting import make_result, to_local
from namedax.operands.operation import Explicit, operation
from namedax.resources.layout import Axes, Layout, relayout
from namedax.resources.serial import LoopAxis

__all__ = ["check_new_name", "move", "read", "rename", "transpose_to"]


Tree = TypeVar("Tree")


def _renamings(x: Any, names: Any = None, /, **more: Hashable) -> list[Renaming]:
    """What stands in the scope of the operation."""
    return [Renaming(new, old) for old, new in {**(names or {}), **more}.items()]


@operation(_renamings, explicit=Explicit.AS_JAX, scope=True)
def rename(x: Tree, names: Mapping[Hashable, Hashable] | None = None, /, **more: Hashable) -> Tree:
    """Gives axes other names, all at once; where the placements differ, this is resharding.

    Args:
      x: a named array, or a pytree of arrays (parameters, say): each of them is renamed by the names that it has, and stays as it is if
        it has none of them.
      names: new names by old ones.
      **more: the same by keyword, for names that are identifiers: `nx.rename(x, batch="sample")`.

    Returns:
      The same values under the new names. What moves, of each array: where an axis gets the placement that it had,
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
      AxisNotFoundError: `x` lacks an old name; of a pytree, all of its arrays do.
      AxisNameError: a new name is not an axis name, two axes would have one name, or a `Ragged` or a `Routing` in the tree keeps an old name.
      AxisSizeError: a new name has a different size in the mapped function, or does not divide over its
        mesh axes.
      PlacementConflictError: two of the resulting names are on one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> w = nx.named(jnp.ones((2, 3)), ["a", "b"])
    >>> nx.rename(w, {"a": "b", "b": "a"}).dims
    ('b', 'a')
    >>> params = nx.rename({"w": w, "scale": nx.ones(named_shape={"b": 3})}, a="c")
    >>> params["w"].dims, params["scale"].dims
    (('c', 'b'), ('b',))
    """
    names = _new_names(names, more)
    return _rename_array("rename", x, names) if is_named(x) else _rename_tree(x, names)


def _rename_tree(tree: Any, names: Mapping[Any, Hashable]) -> Any:
    """A pytree with all of its arrays renamed that have one of the names. Each name must be one of an array."""

    def is_array(node: Any) -> bool:
        kept = [name for name in getattr(node, "_names_kept", ()) if name in names]
        if kept:
            raise AxisNameError(
                f"rename: a {type(node).__name__} of the tree keeps the name {kept[0]!r} beside its arrays, where it cannot be renamed. Make another "
                f"{type(node).__name__} of renamed arrays, or leave that name out of names."
            )
        return is_named(node)

    leaves, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_array)
    arrays = [leaf for _, leaf in leaves if is_named(leaf)]
    known = dict.fromkeys(dim for array in arrays for dim in dims_of(array) if dim is not None)
    for old in names:
        if old not in known:
            what = type_text(tree) if jax.tree_util.all_leaves([tree]) else f"a tree of {len(arrays)} named arrays"
            raise_not_found("rename", old, what, known, _turned(names, known))
    results = []
    for path, leaf in leaves:
        own = {old: new for old, new in names.items() if old in dims_of(leaf)} if is_named(leaf) else None
        results.append(_rename_array(f"rename, x{jax.tree_util.keystr(path)}", leaf, own) if own else leaf)
    return jax.tree.unflatten(structure, results)


def _turned(names: Mapping[Any, Hashable], known: Iterable[Hashable]) -> str:
    """What was meant where the new names are those that there are, and the old ones are not; else nothing."""
    if any(old in known for old in names) or not all(new in known for new in names.values()):
        return ""
    return f"The old name comes first: write {format_value({new: old for old, new in names.items()})}."


def _rename_array(op: str, x: Any, names: Mapping[Any, Hashable]) -> Any:
    region = ambient()
    dims = dims_of(x)
    for old, new in names.items():
        if old not in dims or old is None:
            own = [d for d in dims if d is not None]
            raise_not_found(op, old, type_text(x), own, _turned(names, own))
        if not is_name(new):
            raise AxisNameError(f"{op}: {new!r} is not an axis name. To make {old!r} positional, use nx.positional.")
    renamed = check_dims(tuple(d if d is None else names.get(d, d) for d in dims), op)
    if renamed == dims:
        return x
    x = to_local(x, op, region)
    if region is None:
        return make_result(x._data, renamed)
    for dim, new_dim, n in zip(dims, renamed, x._data.shape, strict=True):
        if dim is not None and dim != new_dim:
            check_new_name(op, "become", dim, new_dim, region.global_size(dim, n), region)
    region.check_placement(op, (dim for dim in renamed if dim is not None))
    if not region.manual:
        return make_result(x._data, renamed)
    old_layout = [() if dim is None else region.place(dim) for dim in dims]
    new_layout = [() if dim is None else region.place(dim) for dim in renamed]
    if old_layout == new_layout:
        return share_memory(make_result(x._data, renamed), x)
    return move(x, old_layout, new_layout, renamed)


def _new_names(names: Any, more: Mapping[str, Hashable]) -> Mapping[Any, Hashable]:
    if names is None:
        return more
    if not isinstance(names, Mapping):
        raise ArgumentTypeError(
            f"rename: names={format_value(names)} is not a mapping; write nx.rename(x, {{'old': 'new'}}) or nx.rename(x, old='new')."
        )
    if any(map(is_named, names.values())):
        raise ArgumentTypeError(
            "rename: the names are a tree of arrays, which comes first; write nx.rename(tree, {'old': 'new'})."
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
    region.note(new, region.block_size(new, size, op, supports_padding=True))


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
        return make_result(form(frozenset()), dims)
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
    result: NamedArray = make_result(lax.transpose(x._data, order), dims)
    return result
