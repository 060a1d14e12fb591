"""`summary`: a table of a tree of arrays, with types, placements and bytes.

Subtrees that differ only in a number of their path, such as layers, are one group.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.array import NamedArray, is_named, make
from namedax.core.display import type_text
from namedax.core.memory_kinds import PINNED_HOST
from namedax.core.names import Mesh, PyTree
from namedax.core.records import Record
from namedax.core.text_tables import aligned, shortened
from namedax.errors import format_value
from namedax.hlo import size_text
from namedax.insight.analysis.page import details, enclosed, escaped, html_table
from namedax.insight.drawing.arrangement import (
    Holding,
    given_layout,
    holding_of,
    uneven_axes,
    unused_names,
)
from namedax.insight.drawing.canvas import count_of
from namedax.messages.call_errors import checks_signature
from namedax.resources.assignment import Assignment

__all__ = ["Summary", "SummaryRow", "summary"]


@dataclasses.dataclass(frozen=True)
class SummaryRow:
    """One leaf of a tree.

    Attributes:
      path: its path in the tree, with dots.
      type: its type with the mesh axes of each axis, such as `bf16[]{embed:4096@data, mlp:11008}`;
        the text of a leaf that is not an array.
      size: its number of elements.
      bytes: its bytes in all, each block counted once.
      bytes_per_device: the bytes of its largest block; `None` if it is on no device.
      in_host_memory: True if the array is in the memory of the host.
      is_array: False for another leaf.
    """

    path: str
    type: str
    size: int
    bytes: int
    bytes_per_device: int | None
    in_host_memory: bool = False
    is_array: bool = True


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """The arrays of a tree with their types, placements and bytes; prints as a table.

    Attributes:
      rows: one `SummaryRow` for each leaf, in the order of the tree.
      mesh: the axes and sizes of the mesh, empty if the arrays are not all on one mesh.
      devices: the number of devices that store an array.
      size: the number of elements of all arrays.
      bytes: the bytes of all arrays, each block counted once.
      bytes_per_device: the bytes of arrays in the memory of the device that stores most.
      findings: sentences about axes that do not divide over their mesh axes, and about names of the
        layout that no array has.
    """

    rows: tuple[SummaryRow, ...]
    mesh: Mapping[str, int]
    devices: int
    size: int
    bytes: int
    bytes_per_device: int
    findings: tuple[str, ...]
    _items: tuple[_Item, ...] = dataclasses.field(compare=False)

    def __repr__(self) -> str:
        lines = aligned(self._columns([_TITLES, *_text_rows(self._items)]), left={0, 1})
        return "\n".join([self._head(), "", *lines, *(f"- {text}" for text in self.findings)])

    def _repr_html_(self) -> str:
        findings = "".join(f"<li>{escaped(text)}</li>" for text in self.findings)
        return enclosed(
            [
                f"<p><b>{escaped(self._head())}</b></p>",
                *self._html_parts(self._items),
                f"<ul>{findings}</ul>" if findings else "",
            ]
        )

    def _columns(self, rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return the rows of a table without the bytes on devices if no array is on one."""
        return [row if self.devices else row[:-1] for row in rows]

    def _html_parts(self, items: Sequence[_Item]) -> Iterator[str]:
        """Return tables of consecutive rows, and groups that the reader opens."""
        for is_group, some in itertools.groupby(items, lambda item: isinstance(item, _Group)):
            if is_group:
                for item in some:
                    (head,) = self._columns([_row_of(item)])
                    words = ", ".join(filter(None, head))
                    body = "".join(self._html_parts(item.items)) if isinstance(item, _Group) else ""
                    yield details(words, body, is_open=False)
            else:
                rows = self._columns([_TITLES, *_text_rows(some)])
                yield html_table(rows, left={0, 1})

    def _head(self) -> str:
        arrays = [row for row in self.rows if row.is_array]
        parts = [
            count_of(len(arrays), "array"),
            count_of(self.size, "element"),
            f"{size_text(self.bytes)} in all",
        ]
        host = sum(row.bytes for row in arrays if row.in_host_memory)
        if self.devices:
            mesh = ", ".join(f"{axis}={size}" for axis, size in self.mesh.items())
            parts.append(
                f"{size_text(self.bytes_per_device)} on"
                f" {'each of ' if self.devices > 1 else ''}{count_of(self.devices, 'device')}"
                + (f" ({mesh})" if mesh else "")
            )
        if host:
            parts.append(f"{size_text(host)} in the memory of the host")
        unplaced = sum(row.bytes_per_device is None for row in arrays)
        if unplaced and self.devices:
            parts.append(f"{count_of(unplaced, 'array')} on no device")
        return ", ".join(parts)


@checks_signature
def summary(
    tree: PyTree,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
) -> Summary:
    """Describe the arrays of a tree in a table: types with placements, and bytes.

    Subtrees that differ only in a number of their path, such as `layers.0` to `layers.31`, are one
    group. Nothing is computed or moved.

    Args:
      tree: a pytree of arrays, named or not, or of their types (`jax.ShapeDtypeStruct`, as from
        `jax.eval_shape`). Other leaves are shown as text.
      axis_resources: the layout to show, as in `xmap`. Names that no array has are ignored, and so
        is a `SerialLoop`. Default: the current sharding.
      mesh: the mesh for `axis_resources`, which may be abstract. Default: that of `jax.set_mesh`.

    Returns:
      A `Summary`. It prints as a table, notebooks show it with groups that open, and its attributes
      have the figures.

    Raises:
      AxisResourceError: `axis_resources` is malformed, `mesh` is given without it, or the call is
        inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis.
      PlacementConflictError: two names of one array are on one mesh axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> layer = {"w": nx.named(jnp.ones((8, 6)), ["embed", "mlp"])}
    >>> params = {"layers": [layer] * 3, "scale": nx.named(jnp.ones(8), ["embed"])}
    >>> mesh = jax.sharding.AbstractMesh((2, 2), ("data", "model"))
    >>> print(nx.summary(params, {"embed": "data", "mlp": "model"}, mesh))
    4 arrays, 152 elements, 608 B in all, 160 B on each of 4 devices (data=2, model=2)
    <BLANKLINE>
    path         type                              in all  on each device
    layers.0..2  3 times                            576 B           144 B
      w          f32[]{embed:8@data, mlp:6@model}   192 B            48 B
    scale        f32[]{embed:8@data}                 32 B            16 B
    """
    place = given_layout("summary", axis_resources, mesh)
    flat = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_named)
    paths = [(_texts(keys), leaf) for keys, leaf in flat]
    leaves = [(texts, *_described(".".join(texts), leaf, place)) for texts, leaf in paths]
    held = [holding for _, _, holding in leaves if holding is not None]
    load: dict[int, int] = {}
    for _, row, holding in leaves:
        if holding is not None:
            each = 0 if row.in_host_memory else row.bytes_per_device or 0
            for device in np.unique(holding.holders).tolist():
                load[device] = load.get(device, 0) + each
    layouts = {holding.layout for holding in held}
    layout = layouts.pop() if len(layouts) == 1 else None
    unused = unused_names(axis_resources, [leaf for _, leaf in paths])
    rows = tuple(row for _, row, _ in leaves)
    return Summary(
        rows,
        {} if layout is None else layout.sizes,
        len(load),
        sum(row.size for row in rows),
        sum(row.bytes for row in rows),
        max(load.values(), default=0),
        (*uneven_axes(held), *([unused] if unused else [])),
        _folded([(keys, row) for keys, row, _ in leaves]),
    )


_TITLES = ("path", "type", "in all", "on each device")
_LONGEST = 60  # characters of a leaf that is not an array


def _texts(keys: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in keys)


def _described(
    path: str, leaf: Any, place: tuple[Assignment, Mesh] | None
) -> tuple[SummaryRow, Holding | None]:
    """Return the row of a leaf, and its placement on devices if it has one."""
    data = leaf.data if isinstance(leaf, NamedArray) else leaf
    if not hasattr(data, "dtype") or not hasattr(data, "shape"):
        text = shortened(format_value(leaf), _LONGEST)
        return SummaryRow(path, text, 0, 0, 0, is_array=False), None
    named = leaf if isinstance(leaf, NamedArray) else make(data, (None,) * len(data.shape))
    size = math.prod(named.named_shape.values()) * math.prod(named.shape)
    own = None if isinstance(data, jax.core.Tracer) else getattr(data, "sharding", None)
    if place is None and own is None:
        total = size * int(data.dtype.itemsize)
        return SummaryRow(path, _type_of(leaf), size, total, None), None
    if isinstance(data, np.ndarray):  # on devices, without 64 bits unless they are enabled
        data = leaf = jax.typeof(data)
    held = holding_of(leaf, path, place, op="summary")
    if place is not None:
        spec = PartitionSpec(*(tuple(axis for axis, _ in dim.mesh_axes) for dim in held.dims))
        shape = tuple(dim.size for dim in held.dims)
        placed: Any = jax.ShapeDtypeStruct(
            shape, data.dtype, sharding=NamedSharding(place[1], spec)
        )
        named = make(placed, named.dims)
    on_host = place is None and getattr(own, "memory_kind", None) == PINNED_HOST
    block = held.bytes // held.blocks
    return SummaryRow(path, _type_of(named), size, held.bytes, block, on_host), held


def _type_of(array: object) -> str:
    return type_text(array).removesuffix("{}")


# --- groups ---------------------------------------------------------------------------------------


class _Group(Record):
    """Equal subtrees whose paths differ in one number; the paths of `items` are relative."""

    path: str
    count: int
    items: tuple[Any, ...]


_Item: TypeAlias = "SummaryRow | _Group"


def _folded(leaves: Sequence[tuple[tuple[str, ...], SummaryRow]]) -> tuple[_Item, ...]:
    """Return rows with relative paths, and groups of equal subtrees with consecutive numbers."""
    items: list[_Item] = [dataclasses.replace(row, path="") for keys, row in leaves if not keys]
    children: dict[str, list[tuple[tuple[str, ...], SummaryRow]]] = {}
    for keys, row in leaves:
        if keys:
            children.setdefault(keys[0], []).append((keys[1:], row))
    runs: list[tuple[list[str], tuple[_Item, ...]]] = []
    for key in _by_number(children):
        contents = _folded(children[key])
        if runs and _follows(runs[-1][0][-1], key) and runs[-1][1] == contents:
            runs[-1][0].append(key)
        else:
            runs.append(([key], contents))
    for keys_of_run, contents in runs:
        first, last = keys_of_run[0], _number(keys_of_run[-1])[1]
        if len(keys_of_run) > 1:
            items.append(_Group(f"{first}..{last}", len(keys_of_run), contents))
        else:
            items += [_below(first, item) for item in contents]
    return tuple(items)


def _below(key: str, item: _Item) -> _Item:
    path = f"{key}.{item.path}".removesuffix(".")
    if isinstance(item, _Group):
        return item.replace(path=path)
    return dataclasses.replace(item, path=path)


def _number(key: str) -> tuple[str, int | None]:
    """Return the text before the number at the end of a key, and the number."""
    prefix, digits = re.fullmatch(r"(.*?)(\d*)", key, re.DOTALL).groups()  # type: ignore[union-attr]
    return prefix, int(digits) if digits else None


def _follows(key: str, after: str) -> bool:
    (prefix, number), (other, following) = _number(key), _number(after)
    return prefix == other and number is not None and following == number + 1


def _by_number(keys: Iterable[str]) -> list[str]:
    """Return keys with those that have equal prefixes together, in the order of their numbers."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for key in keys:
        prefix, number = _number(key)
        groups.setdefault((prefix, number is None), []).append(key)
    for group in groups.values():
        group.sort(key=lambda key: _number(key)[1] or 0)
    return [key for group in groups.values() for key in group]


def _total(item: _Item, of: Callable[[SummaryRow], int]) -> int:
    if isinstance(item, _Group):
        return item.count * sum(_total(each, of) for each in item.items)
    return of(item)


def _row_of(item: _Item) -> tuple[str, ...]:
    """Return the row of an item: its path, its type or number, and its bytes."""
    total = size_text(_total(item, lambda row: row.bytes))
    each = size_text(_total(item, lambda row: row.bytes_per_device or 0))
    if isinstance(item, _Group):
        single = _only_leaf(item)
        times = f"{item.count} times"
        return item.path, times if single is None else f"{times} {single.type}", total, each
    if not item.is_array:
        return item.path, item.type, "", ""
    return item.path, item.type, total, "" if item.bytes_per_device is None else each


def _only_leaf(group: _Group) -> SummaryRow | None:
    """Return the leaf of a group of leaves, which needs no row of its own."""
    first = group.items[0]
    is_leaf = len(group.items) == 1 and isinstance(first, SummaryRow) and not first.path
    return first if is_leaf else None


def _text_rows(items: Iterable[_Item], indent: str = "") -> Iterator[tuple[str, ...]]:
    """Return the rows of a table; those within groups are indented."""
    for item in items:
        path, *cells = _row_of(item)
        yield indent + path, *cells
        if isinstance(item, _Group) and _only_leaf(item) is None:
            yield from _text_rows(item.items, indent + "  ")
