"""The arguments of a call as named arrays, and the sizes of their axes."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import (
    NamedArray,
    dims_of,
    get_data,
    is_named,
    make,
    padding_of,
    placeholder_remedy,
    positions,
    stored_data,
)
from namedax.core.axis_mappings import is_mapping
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY
from namedax.core.names import Dims
from namedax.core.padded_sharding import StoredPadding
from namedax.core.records import Record
from namedax.core.region import Region, ambient
from namedax.errors import AxisMappingError, AxisSizeError, format_value
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.shape.conversion import attach_names, leaves_with_mappings
from namedax.xmap.options import Mapped

__all__ = [
    "Argument",
    "attached_names",
    "carried_names",
    "collect_sizes",
    "dynamic_arguments",
    "join_arguments",
    "name_arguments",
    "static_indices",
]


class Argument(Record, frozen=False):
    """One array among the arguments: its leaf, data, dims by the axis mapping, and path.

    The data is global. Within a surrounding mapped function, it is a block along the named axes of
    the leaf. `padding` is that of data that is stored padded. `stored` are the names along which
    the body takes the stored blocks; the other ones have been sliced to their true size.
    """

    leaf: Any
    data: Any
    dims: Dims
    path: tuple[Any, ...]
    names: tuple[str, ...]
    padding: StoredPadding | None = None
    stored: frozenset[Hashable] = frozenset()

    @property
    def what(self) -> str:
        """Describe the argument for messages."""
        return _describe(self.path, self.names)


def _describe(path: Sequence[Any], names: Sequence[str]) -> str:
    """Describe the argument at a path of `(args, kwargs)`; `names` are the parameters."""
    group, first, *rest = path
    label = (
        names[first.idx]
        if group.idx == 0 and first.idx < len(names)
        else getattr(first, "key", None)
    )
    return (
        f"argument {label!r}" if label is not None else f"argument {first.idx}"
    ) + jax.tree_util.keystr(tuple(rest))


def static_indices(mapped: Mapped, count: int) -> frozenset[int]:
    """Return the positions of the static arguments among `count` positional arguments."""
    return frozenset(i % count for i in mapped._options.static_argnums if -count <= i < count)


def dynamic_arguments(
    mapped: Mapped, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that are not static."""
    static = static_indices(mapped, len(args))
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in static)
    return dynamic, {
        name: value for name, value in kwargs.items() if name not in mapped._static_names
    }


def join_arguments(
    mapped: Mapped,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: tuple[Sequence[Any], Mapping[str, Any]],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace the dynamic arguments in `args` and `kwargs`.

    The new ones, `dynamic`, have the structure from `dynamic_arguments`.
    """
    static = static_indices(mapped, len(args))
    supply = iter(dynamic[0])
    return tuple(arg if i in static else next(supply) for i, arg in enumerate(args)), {
        **kwargs,
        **dynamic[1],
    }


def _dynamic_parameters(mapped: Mapped) -> tuple[str, ...]:
    return tuple(name for name in mapped._parameters or () if name not in mapped._static_names)


def _mappings_for(mapped: Mapped, count: int, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the mappings of the arguments as a prefix of `(args, kwargs)`.

    There are `count` positional arguments.
    """
    in_axes = mapped._options.in_axes
    if in_axes is None or is_mapping(in_axes):
        return (in_axes,) * count, dict.fromkeys(kwargs, in_axes)
    if isinstance(in_axes, dict) and not count:
        in_axes = (in_axes,)
    if not isinstance(in_axes, tuple):
        raise AxisMappingError(
            f"xmap: in_axes is {format_value(in_axes)}. Write one axis mapping for all arguments,"
            " or a tuple with one mapping per argument."
        )
    names = _dynamic_parameters(mapped)
    # A dict with string keys at the end contains the mappings of keyword arguments, unless it is
    # the mapping of a dict argument.
    last = in_axes[-1] if in_axes else None
    by_keyword: Mapping[str, Any] = {}
    if isinstance(last, dict) and not is_mapping(last) and count < len(in_axes):
        if not kwargs or any(name in last for name in kwargs) or len(names) < len(in_axes):
            in_axes, by_keyword = in_axes[:-1], last
    found = {}
    for name, value in kwargs.items():
        if name in by_keyword:
            found[name] = by_keyword[name]
        elif name in names and count <= names.index(name) < len(in_axes):
            found[name] = in_axes[names.index(name)]
        elif all(map(is_named, jax.tree.leaves(value, is_leaf=is_named))):
            found[name] = None
        else:
            raise AxisMappingError(
                f"xmap: in_axes has no axis mapping for the keyword argument {name!r} of"
                f" {mapped._name}. Put a dict from keywords to mappings after the positional ones,"
                f" such as {{{name!r}: ['batch', ...]}}, or pass a named array."
            )
    if count > len(in_axes) or (count < len(in_axes) and len(in_axes) - count > len(found)):
        raise AxisMappingError(
            f"xmap: in_axes has length {len(in_axes)}, but {mapped._name} was called with {count}"
            " positional arguments (without static ones). Write one axis mapping per argument, or"
            " a single one for all."
        )
    return in_axes[:count], found


def name_arguments(
    mapped: Mapped, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Argument], jax.tree_util.PyTreeDef]:
    """Return the arrays in the dynamic arguments with their dims, and the tree structure."""
    dynamic, names = dynamic_arguments(mapped, args, kwargs), _dynamic_parameters(mapped)
    mappings = (
        None
        if mapped._options.in_axes is None
        else _mappings_for(mapped, len(dynamic[0]), dynamic[1])
    )
    leaves, tree = leaves_with_mappings(
        dynamic,
        mappings,
        "xmap, in_axes",
        (
            lambda path: f"in_axes{jax.tree_util.keystr(path[1:])}",
            lambda path: _describe(path, names) if path else "the arguments",
        ),
    )
    region, arguments = ambient(), list[Argument]()
    for leaf, mapping, path in leaves:
        if isinstance(leaf, NUMPY):
            leaf = jnp.asarray(leaf)
        padding = None
        if type(leaf) is NamedArray:
            try:
                get_data(leaf)
            except AttributeError:
                padding = padding_of(leaf)
        if padding is not None and (region is None or not region.resources):
            # The stored data, whose padded sizes `enter_stored` replaces by the true ones.
            data, dims = attach_names(
                make(stored_data(leaf), leaf._dims),
                mapping,
                "xmap",
                functools.partial(_text_of, leaf, path, names),
            )
            arguments.append(Argument(leaf, data, dims, path, names, padding))
            continue
        if region is not None:
            leaf = to_local(leaf, "xmap", region)
        if mapping is None:
            data, dims = (
                (leaf._data, leaf._dims) if type(leaf) is NamedArray else (leaf, dims_of(leaf))
            )
        else:
            data, dims = attach_names(
                leaf, mapping, "xmap", functools.partial(_text_of, leaf, path, names)
            )
        arguments.append(Argument(leaf, data, dims, path, names))
    return arguments, tree


def _text_of(leaf: object, path: Sequence[Any], names: Sequence[str]) -> str:
    return f"{_describe(path, names)}, {type_text(leaf)},"


def collect_sizes(
    arguments: Sequence[Argument], axis_sizes: Mapping[Hashable, int], outer: Region | None
) -> dict[Hashable, int]:
    """Collect axis sizes from the surrounding mapped function, the arguments and `axis_sizes`."""
    sizes: dict[Hashable, int] = {} if outer is None else dict(outer.sizes)
    origin: dict[Hashable, str | Argument] = dict.fromkeys(sizes, "the surrounding mapped function")
    for name, size in axis_sizes.items():
        if sizes.get(name, size) != size:
            raise AxisSizeError(
                f"xmap: axis {name!r} has size {sizes[name]} in {origin[name]}, and size {size} in"
                " axis_sizes; a name has one size. Use two names."
            )
        sizes[name], origin[name] = size, "axis_sizes"
    for argument in arguments:
        if not argument.dims:
            continue
        if type(argument.leaf) is NamedArray:
            positions(argument.leaf, f"xmap, {argument.what}")
        shape = (
            argument.data.shape
            if isinstance(argument.data, jax.core.Tracer)
            else np.shape(argument.data)
        )
        true_sizes = {} if argument.padding is None else argument.leaf.named_shape
        for dim, n in zip(argument.dims, shape, strict=True):
            if dim is None:
                continue
            n = true_sizes.get(dim, n)
            if outer is not None and dim in dims_of(argument.leaf):  # the data is a block
                n = outer.global_size(dim, n)
            if sizes.setdefault(dim, n) != n:
                first = origin[dim]
                where = (
                    first
                    if isinstance(first, str)
                    else f"{first.what} of shape {np.shape(first.data)}"
                )
                raise AxisSizeError(
                    f"xmap: axis {dim!r} has size {sizes[dim]} in {where}, and size {n} in"
                    f" {argument.what} of shape {shape}; a name has one size. Check the axis"
                    " mappings in in_axes, or use two names."
                    + placeholder_remedy(
                        shape, () if isinstance(first, str) else np.shape(first.data)
                    )
                )
            origin.setdefault(dim, argument)
    return sizes


def attached_names(arguments: Sequence[Argument]) -> frozenset[Hashable]:
    """Return the names that the axis mappings of a function attach to its arguments."""
    return frozenset(
        dim for argument in arguments for dim in argument.dims if dim not in dims_of(argument.leaf)
    )


def carried_names(outer: Region, arguments: Sequence[Argument]) -> frozenset[Hashable]:
    """Return the outer axis names that are batch axes of an inner mapped function.

    These are all of its axis names except the names that the axis mappings of the inner function
    attach.
    """
    return frozenset(outer.seen | outer.sizes.keys()) - attached_names(arguments)
