"""Positional functions along named axes.

A named axis becomes a positional one for the call, replicated on every device, and gets its name
back in the result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.call_errors import bound as bound_arguments
from namedax.core.display import type_text
from namedax.core.functions import signature_of
from namedax.core.name_scopes import in_scope, is_worth_saying, scope_of_lifted
from namedax.core.region import ambient
from namedax.errors import AxisNameError, raise_not_found
from namedax.operands.axes import check_axes, is_axis_name, new_names
from namedax.operands.broadcasting import constrain_sharding, make_result, to_local
from namedax.operands.new_axis import new_axis_placement
from namedax.operands.nmap import nmap
from namedax.operands.operation import operation
from namedax.resources.layout import relayout

__all__ = ["along_axes", "to_front"]


def along_axes(
    function: Callable[..., Any], name: str, axis_parameters: tuple[str, ...], renames: bool = False
) -> Callable[..., Any]:
    """Let `function` take names as axes; other names are batch axes.

    A named axis becomes a positional one, in front of the others, in every array argument that has
    it. If a result has as many positional axes as the first array argument had, the front ones get
    their names back. If it has fewer, they are gone.

    Args:
      function: a function of positional arrays.
      name: the name of the function, for messages.
      axis_parameters: the parameters of the function that are axes.
      renames: add the keyword `out_axis`, which renames axes in the result; default: False.
    """
    signature = signature_of(function)
    positional = nmap(function)

    @operation(name=name)
    @functools.wraps(function)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        out_axis = kwargs.pop("out_axis", None) if renames else None
        bound = bound_arguments(name, signature(), args, kwargs)
        check_axes(name, bound.arguments, axis_parameters)
        wanted: list[Any] = []
        for parameter in axis_parameters:
            for entry in _entries(bound.arguments.get(parameter)):
                if is_axis_name(entry) and entry not in wanted:
                    wanted.append(entry)
        renamed = new_names(name, out_axis, wanted, "axis") if out_axis is not None else {}
        if not wanted:
            return positional(*args, **kwargs)
        first = next(
            (leaf for leaf in _arrays(bound.arguments) if isinstance(leaf, NamedArray)), None
        )
        for axis in wanted:
            if first is None or axis not in first.dims:
                raise_not_found(
                    name,
                    axis,
                    "the arguments" if first is None else type_text(first),
                    [] if first is None else [dim for dim in first.dims if dim is not None],
                )
        if is_worth_saying(_arrays(bound.arguments)):
            return in_scope(
                scope_of_lifted(lifted, tuple(wanted)), along, bound, wanted, first, renamed
            )
        return along(bound, wanted, first, renamed)

    def along(
        bound: Any, wanted: list[Any], first: Any, renamed: Mapping[Hashable, Hashable]
    ) -> Any:
        shift = len(wanted)
        for parameter in axis_parameters:
            if parameter in bound.arguments:
                bound.arguments[parameter] = _renumber(bound.arguments[parameter], wanted, shift)
        rank = first.ndim + shift
        bound.arguments = {
            key: jax.tree.map(
                lambda leaf: to_front(leaf, wanted, name),
                value,
                is_leaf=lambda leaf: isinstance(leaf, NamedArray),
            )
            for key, value in bound.arguments.items()
        }
        result = positional(*bound.args, **bound.kwargs)
        keepdims = bool(bound.arguments.get("keepdims", False))
        return jax.tree.map(
            lambda leaf: _from_front(
                leaf, wanted, rank, keepdims, name, renamed if renames else None
            ),
            result,
            is_leaf=lambda leaf: isinstance(leaf, NamedArray),
        )

    if renames:
        lifted.__signature__ = _with_out_axis(inspect.signature(function))  # type: ignore[attr-defined]
    return lifted


def _with_out_axis(signature: inspect.Signature) -> inspect.Signature:
    annotation = "Hashable | Mapping[Hashable, Hashable] | None"
    new = inspect.Parameter(
        "out_axis", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
    return signature.replace(parameters=[*signature.parameters.values(), new])


def _entries(axis: Any) -> tuple[Any, ...]:
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def _arrays(arguments: Mapping[str, Any]) -> list[Any]:
    leaves = jax.tree.leaves(
        list(arguments.values()), is_leaf=lambda leaf: isinstance(leaf, NamedArray)
    )
    return [leaf for leaf in leaves if isinstance(leaf, (NamedArray, jax.Array, np.ndarray))]


def _renumber(axis: Any, names: list[Any], shift: int) -> Any:
    """Replace names by the first positions, and shift nonnegative positions behind them."""

    def one(entry: Any) -> Any:
        if entry in names and not isinstance(entry, int):
            return names.index(entry)
        return entry + shift if isinstance(entry, (int, np.integer)) and entry >= 0 else entry

    if isinstance(axis, (tuple, list)):
        return type(axis)(one(entry) for entry in axis)
    return axis if axis is None else one(axis)


def to_front(leaf: Any, names: list[Any], op: str) -> Any:
    """Return a named array with the axes `names` as its first positional ones, replicated."""
    if not isinstance(leaf, NamedArray) or not any(name in leaf.dims for name in names):
        return leaf
    region = ambient()
    block = to_local(leaf, op, region)
    missing = [name for name in names if name not in block.dims]
    if missing:
        raise_not_found(
            op, missing[0], type_text(leaf), [dim for dim in leaf.dims if dim is not None]
        )
    data, dims = block.data, block.dims
    if region is not None and region.manual:
        old = [() if dim is None else region.place(dim) for dim in dims]
        new = [() if dim in names else place for dim, place in zip(dims, old, strict=True)]
        data = relayout(data, old, new) if old != new else data
    order = [dims.index(name) for name in names] + [
        i for i, dim in enumerate(dims) if dim not in names
    ]
    front = (None,) * len(names) + tuple(dims[i] for i in order[len(names) :])
    return make_in_region(constrain_sharding(lax.transpose(data, order), front), front)


def _from_front(
    leaf: Any,
    names: list[Any],
    rank: int,
    keepdims: bool,
    op: str,
    renamed: Mapping[Hashable, Hashable] | None,
) -> Any:
    """Name the first positional axes of a result again, if it has as many as the argument had.

    `renamed` has the new names of axes; `None` means that the function has no `out_axis`.
    """
    dims = dims_of(leaf)
    if dims.count(None) != rank:
        return leaf
    places = [i for i, dim in enumerate(dims) if dim is None][: len(names)]
    data = leaf.data if isinstance(leaf, NamedArray) else jnp.asarray(leaf)
    if keepdims and all(data.shape[i] == 1 for i in places):
        return make_result(
            lax.squeeze(data, places), tuple(dim for i, dim in enumerate(dims) if i not in places)
        )
    named = list(dims)
    for place, name in zip(places, names, strict=True):
        named[place] = name
    region = ambient()
    if region is not None:
        for place, name in zip(places, names, strict=True):
            size = region.sizes.get(name)
            if (
                size is not None
                and size != data.shape[place]
                and (renamed is None or name not in renamed)
            ):
                remedy = (
                    "Rename the axis of the argument first, to a name of its own: nx.rename(x,"
                    f" {{{name!r}: 'other'}})."
                    if renamed is None
                    else f"Give it another name in the result: out_axis={{{name!r}: 'other'}}."
                )
                raise AxisNameError(
                    f"{op}: the result has size {data.shape[place]} along {name!r}, which has size"
                    f" {size} in this mapped function; a name has one size. {remedy}"
                )
    if renamed:
        for place, name in zip(places, names, strict=True):
            named[place] = renamed.get(name, name)
        for place, name in zip(places, names, strict=True):
            if name in renamed:  # all at once, so that two axes can swap names
                new_axis_placement(
                    op, renamed[name], data.shape[place], (*named[:place], *named[place + 1 :])
                )
    if region is not None:
        if region.manual:
            old = [() if dim is None else region.place(dim) for dim in dims]
            new = [() if dim is None else region.place(dim) for dim in named]
            data = relayout(data, old, new) if old != new else data
    return make_result(data, tuple(named))
