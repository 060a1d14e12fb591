"""`rename`, which also reshards: a name with a different sharding is another layout."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.name_scopes import Renaming
from namedax.core.names import Dims, MeshAxes, PyTree, check_dims, is_name
from namedax.core.region import Region, ambient
from namedax.core.variance import (
    cast,
    cast_data,
    remembered,
    share_block,
    varying,
    was_cast,
    with_varying_forms,
)
from namedax.errors import (
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    format_value,
    raise_not_found,
)
from namedax.ops.operands.broadcasting import make_result, to_local
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import data_of, names_of
from namedax.resources.layout import Layout, relayout
from namedax.resources.serial import LoopAxis
from namedax.resources.wire import Wire, WireFormat, check_narrow, parse_wire

__all__ = ["check_new_name", "move", "read", "rename", "transpose_to"]


Tree = TypeVar("Tree")


def _renamings(
    x: PyTree, names: Any = None, /, *, wire: object = None, **more: Hashable
) -> list[Renaming]:
    """Return the renamings, for the scope of the operation."""
    return [Renaming(new, old) for old, new in {**(names or {}), **more}.items()]


@operation(_renamings, explicit=Explicit.AS_JAX, scope=True)
def rename(
    x: Tree,
    names: Mapping[Hashable, Hashable] | None = None,
    /,
    *,
    wire: WireFormat | Wire | None = None,
    **more: Hashable,
) -> Tree:
    """Rename axes, all at once; if their shardings differ, this reshards.

    Args:
      x: a named array, or a pytree of arrays (such as parameters). Each array is renamed by the
        names that it has; an array without any of them is unchanged.
      names: new names by old ones, by default none.
      wire: the number format in which the blocks are sent: `"bf16"`, `"float8_e4m3"` or `"int8"`
        for the forward pass, or an `nx.Wire` for both directions. Default: the dtype of the array.
        Values are rounded within the bounds of `nx.Wire`, only where they are sent.
      **more: the same by keyword, for names that are identifiers: `nx.rename(x, batch="sample")`.

    Returns:
      The same values under the new names.

    Communication: for each array, none if an axis keeps its sharding, or if it changes from
    unmapped to mapped, because every device keeps its block. From mapped to unmapped, one
    all-gather of the axis. If one axis leaves mesh axes that another one takes, one all-to-all for
    both. One collective-permute if two axes swap mesh axes of equal size, or if one axis takes its
    mesh axes in another order. From one mesh axis to another, a collective-permute of a slice and
    an all-gather of the rest. In general, the steps that send the fewest bytes
    (`namedax.resources.layout`).

    The gradient of an all-gather is a reduce-scatter if the result was combined with values that
    vary over the mesh axis, and otherwise costs nothing. The gradient of a slice is an all-gather.
    The others are their own gradients. With `wire` each collective sends a payload and its scales,
    a reduce-scatter becomes an all-to-all, and there is reverse mode only.

    Raises:
      ArgumentError: `wire` is not a format.
      ArgumentTypeError: with `wire`, an array that is renamed is not real floating-point.
      AxisNotFoundError: `x` lacks an old name; for a pytree, all of its arrays lack it.
      AxisNameError: a new name is not an axis name, or two axes would have one name. Also if a
        `Ragged` or a `Routing` in the tree stores an old name.
      AxisSizeError: a new name has a different size in the mapped function, or does not divide over
        its mesh axes.
      PlacementConflictError: two of the resulting names are sharded over one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> w = nx.named(jnp.ones((2, 3)), ["a", "b"])
    >>> nx.rename(w, {"a": "b", "b": "a"}).dims
    ('b', 'a')
    >>> params = nx.rename({"w": w, "scale": nx.ones(named_shape={"b": 3})}, a="c")
    >>> params["w"].dims, params["scale"].dims
    (('c', 'b'), ('b',))
    """
    names = _new_names(names, more)
    formats = parse_wire("rename", wire, _HINT) if wire is not None else None
    if is_named(x):
        return _rename_array("rename", x, names, formats)
    return _rename_tree(x, names, formats)


_HINT = " To rename an axis 'wire', write nx.rename(x, {'wire': ...})."


def _rename_tree(tree: Tree, names: Mapping[Any, Hashable], wire: Wire | None) -> Tree:
    """Rename the arrays of a pytree that have one of the names; some array must have each name."""

    def is_array(node: object) -> bool:
        kept = [name for name in getattr(node, "_names_kept", ()) if name in names]
        if kept:
            raise AxisNameError(
                f"rename: a {type(node).__name__} in the tree stores the name {kept[0]!r} as a"
                f" static field, which cannot be renamed. Build another {type(node).__name__} from"
                " renamed arrays, or leave that name out of names."
            )
        return is_named(node)

    leaves, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_array)
    arrays = [leaf for _, leaf in leaves if is_named(leaf)]
    known = dict.fromkeys(dim for array in arrays for dim in dims_of(array) if dim is not None)
    for old in names:
        if old not in known:
            what = (
                type_text(tree)
                if jax.tree_util.all_leaves([tree])
                else f"a tree of {len(arrays)} named arrays"
            )
            raise_not_found("rename", old, what, known, _reversal_hint(names, known))
    results = []
    for path, leaf in leaves:
        own = (
            {old: new for old, new in names.items() if old in dims_of(leaf)}
            if is_named(leaf)
            else None
        )
        results.append(
            _rename_array(f"rename, x{jax.tree_util.keystr(path)}", leaf, own, wire)
            if own
            else leaf
        )
    return jax.tree.unflatten(structure, results)


def _reversal_hint(names: Mapping[Any, Hashable], known: Iterable[Hashable]) -> str:
    """Suggest the reversed mapping if only the new names exist; else return an empty string."""
    if any(old in known for old in names) or not all(new in known for new in names.values()):
        return ""
    return (
        "The old name precedes the new one: write"
        f" {format_value({new: old for old, new in names.items()})}."
    )


def _rename_array(op: str, x: Any, names: Mapping[Any, Hashable], wire: Wire | None) -> Any:
    if wire is not None:
        check_narrow(op, x, wire)
    region = ambient()
    dims = dims_of(x)
    for old, new in names.items():
        if old not in dims or old is None:
            own = names_of(dims)
            raise_not_found(op, old, type_text(x), own, _reversal_hint(names, own))
        if not is_name(new):
            raise AxisNameError(
                f"{op}: {new!r} is not an axis name. To make {old!r} positional,"
                f" write nx.untag(x, [{old!r}])."
            )
    renamed = check_dims(tuple(d if d is None else names.get(d, d) for d in dims), op)
    if renamed == dims:
        return x
    x = to_local(x, op, region)
    if region is None:
        return make_result(x._data, renamed)
    for dim, new_dim, n in zip(dims, renamed, x._data.shape, strict=True):
        if dim is not None and dim != new_dim:
            check_new_name(op, "become", dim, new_dim, region.global_size(dim, n), region)
    region.check_placement(op, names_of(renamed))
    if not region.manual:
        return make_result(x._data, renamed)
    old_layout = region.layout(dims)
    new_layout = region.layout(renamed)
    if old_layout == new_layout:
        return share_block(make_result(x._data, renamed), x)
    return move(x, old_layout, new_layout, renamed, wire=wire)


def _new_names(names: object, more: Mapping[str, Hashable]) -> Mapping[Any, Hashable]:
    if names is None:
        return more
    if not isinstance(names, Mapping):
        raise ArgumentTypeError(
            f"rename: names={format_value(names)} is not a mapping. Write nx.rename(x, {{'old':"
            " 'new'}) or nx.rename(x, old='new')."
        )
    if any(map(is_named, names.values())):
        raise ArgumentTypeError(
            "rename: names is a tree of arrays, which must be the first argument. Write"
            " nx.rename(tree, {'old': 'new'})."
        )
    twice = [old for old in names if old in more]
    if twice:
        raise AxisNameError(
            f"rename: axis {twice[0]!r} is given twice, in the mapping and by keyword. Give it one"
            " new name."
        )
    return {**names, **more}


def check_new_name(
    op: str, verb: str, old: Hashable, new: Hashable, size: int, region: Region
) -> None:
    """Raise if an axis of global size `size` cannot have the name `new` in this region."""
    known = region.sizes.get(new)
    if known is not None and known != size:
        raise AxisSizeError(
            f"{op}: axis {old!r} of size {size} cannot {verb} {new!r}, which has size {known} in"
            " this mapped function; a name has one size. Choose another name."
        )
    region.note(new, region.block_size(new, size, op, supports_padding=True))


def move(
    source: AnyArray,
    old: Sequence[MeshAxes],
    new: Sequence[MeshAxes],
    dims: Dims,
    finish: Callable[[Any], Any] = lambda data: data,
    wire: Wire | None = None,
) -> AnyArray:
    """Reshard the local block `source`, and return it as an array with `dims`.

    If the array is later combined with values that vary over the gathered mesh axes, the transpose
    of the gather is a reduce-scatter. If it is returned, the transpose is a slice.

    Args:
      source: the local block, or the named array that contains it.
      old: the current sharding of every dimension.
      new: the new sharding of every dimension.
      dims: the dims of the result.
      finish: a function for the data without communication, by default the identity.
      wire: the number formats of the collectives, by default the dtype of the array.
    """
    old, new = tuple(old), tuple(new)
    if old == new:  # `make_result` casts it to the mesh axes of its names
        return make_result(finish(data_of(source)), dims)
    before = frozenset(axis for axes in old for axis in axes)
    gathered = before - {axis for axes in new for axis in axes}

    def form(wanted: frozenset[str]) -> jax.Array:
        return finish(
            read(
                source,
                old,
                new,
                frozenset(axis for axes in new for axis in axes) | wanted,
                wire,
            )
        )

    if not gathered or all(dim is None for dim in dims):
        return make_result(form(frozenset()), dims)
    region = ambient()
    if region is not None:
        region.seen.update(names_of(dims))
    return with_varying_forms(dims, form)


def read(
    source: AnyArray,
    old: Layout,
    new: Layout,
    variance: frozenset[str],
    wire: Wire | None = None,
) -> jax.Array:
    """Reshard the local block `source`, and make it vary over `variance` and its own mesh axes.

    An axis that is gathered for values that vary over the same mesh axes is gathered to varying.
    Its gradient is then one reduce-scatter. Over other mesh axes it is cast before the gather, so
    that the gradient is reduced after the reduce-scatter, when it is small. Over the axis of a loop
    it is cast after the gather, so that there is one reduce-scatter, after the loop. An axis that
    is sliced into blocks is not cast, and its gradient is one all-gather. The exception is an axis
    that was cast already, for which the gradient is reduced in any case. A named array caches the
    result, so that a parameter that is read twice is gathered once, and its gradient is reduced
    once.

    Args:
      source: the local block, or the named array that contains it.
      old: the current sharding of every dimension.
      new: the new sharding of every dimension.
      variance: the mesh axes over which the result must vary, including the mesh axes of `new`.
      wire: the number formats of the collectives, by default the dtype of the array.
    """
    before = frozenset(axis for axes in old for axis in axes)
    variance = variance | (varying(data_of(source)) - before)

    cut = frozenset(axis for axes in new for axis in axes) - before
    if isinstance(source, NamedArray) and was_cast(source, cut):
        cut = frozenset()

    def moved() -> jax.Array:
        early = frozenset(
            axis for axis in variance - before - cut if not isinstance(axis, LoopAxis)
        )
        return cast_data(relayout(cast(source, early), old, new, before & variance, wire), variance)

    key = ("read", old, new, variance)
    return (
        remembered(source, key if wire is None else (*key, wire), moved)
        if isinstance(source, NamedArray)
        else moved()
    )


def transpose_to(x: NamedArray, dims: tuple[Hashable | None, ...]) -> NamedArray:
    """Transpose the named axes of `x` to the physical order of `dims`.

    Positional axes keep their order. No communication.
    """
    places = iter([i for i, dim in enumerate(x._dims) if dim is None])
    order = [next(places) if dim is None else x._dims.index(dim) for dim in dims]
    if order == list(range(len(order))):
        return x
    result: NamedArray = make_result(lax.transpose(x._data, order), dims)
    return result
