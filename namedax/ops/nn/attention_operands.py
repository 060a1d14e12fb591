"""The operands of attention: axis names with their roles, and the heads that share a key head.

The names are given to `dot_product_attention`. Query heads share key heads on the blocks of one
device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import dims_of
from namedax.core.display import type_text
from namedax.core.names import MeshAxes, is_name
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.records import Record
from namedax.core.variance import cast_data
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PlacementConflictError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.nn.attention_labels import FEATURES, GROUP, KEY, KEY_HEADS, QUERY, Label, Labels
from namedax.ops.operands.pytree import names_of
from namedax.resources import communication as comm
from namedax.resources.row_moves import move_rows
from namedax.resources.serial import LoopAxis

__all__ = [
    "OPERATION",
    "Blocks",
    "Names",
    "Operand",
    "check_names",
    "checked_part",
    "how_to_share",
    "raise_missing_axis",
    "split_heads",
]

#: The operands of attention by role.
Blocks = Mapping[str, AnyArray]


#: The name of the operation in messages.
OPERATION = "dot_product_attention"


class Names(Record):
    """The axis names of one attention.

    Attributes:
      query: the query positions.
      own_key: the key positions in key and value.
      key: the key positions in bias and mask.
      features: the contracted axis.
      heads: the heads of the query, if their number is a multiple of the key heads.
      key_heads: the heads of key and value.
    """

    query: Hashable
    own_key: Hashable
    key: Hashable
    features: Hashable
    heads: Hashable | None
    key_heads: Hashable | None

    @classmethod
    def of(
        cls,
        axis: Hashable,
        features: Hashable,
        key_axis: Hashable,
        heads: Hashable,
        key_heads: Hashable,
        query: ArrayLike,
        key: ArrayLike,
    ) -> Names:
        """Read the names from the arguments of `dot_product_attention`.

        Raises:
          AxisNameError: one is not an axis name, or two collide.
          AxisNotFoundError: `features` is missing, or `key` lacks its positions.
        """
        if features is None:
            raise AxisNotFoundError(
                f"{OPERATION}: axis={format_value(axis)} requires features=, the axis name over"
                " which query and key are contracted."
            )
        for parameter, name in (("axis", axis), ("features", features), ("key_axis", key_axis)):
            if name is not None and not is_name(name):
                raise AxisNameError(
                    f"{OPERATION}: {parameter}={format_value(name)} is not an axis name. Name the"
                    " positional axes first (nx.named), or leave out axis=, for attention over"
                    " positional axes."
                )
        if (heads is None) != (key_heads is None):
            raise AxisNameError(
                f"{OPERATION}: heads={format_value(heads)} and key_heads={format_value(key_heads)}"
                " must be passed together. Pass both, or neither."
            )
        if heads == key_heads:
            heads = key_heads = None  # an axis that all arrays have is a batch axis
        own = axis
        if axis not in dims_of(key):
            if key_axis is None or key_axis not in dims_of(key):
                raise_missing_axis(
                    "key",
                    axis if key_axis is None else key_axis,
                    key,
                    "Pass the axis name of its positions as key_axis=.",
                )
            own = key_axis
        elif key_axis is not None and key_axis in dims_of(key):
            raise AxisNameError(
                f"{OPERATION}: key, {type_text(key)}, has both axis={format_value(axis)} and "
                f"key_axis={format_value(key_axis)}; one of them must be its "
                "positions. Rename the other."
            )
        if key_axis is None:
            key_axis = f"key_{axis}" if isinstance(axis, str) else ("key", axis)
        distinct = [
            name for name in (axis, features, key_axis, heads, key_heads) if name is not None
        ]
        for i, name in enumerate(distinct):
            if name in distinct[:i]:
                raise AxisNameError(
                    f"{OPERATION}: {name!r} names two of axis, key_axis, features, heads and"
                    " key_heads."
                )
        if key_axis in dims_of(query):
            raise AxisNameError(
                f"{OPERATION}: query, {type_text(query)}, has the axis {key_axis!r}, which is the"
                " name of the key positions. Rename one of them, or choose another key_axis=."
            )
        return cls(axis, own, key_axis, features, heads, key_heads)

    def renamed(self, number: Callable[[Hashable], Hashable]) -> Names:
        """Replace every name by `number(name)`."""
        names = {name: getattr(self, name) for name in self._fields}
        return Names(**{key: None if name is None else number(name) for key, name in names.items()})

    def role(self, which: str, name: Hashable) -> Label:
        """Return the label of the axis `name` of an operand."""
        if which in ("key", "value", "key_segments"):
            if name == self.own_key:
                return KEY
            if name == self.features and which == "key":
                return FEATURES
        else:
            if name == self.query:
                return QUERY
            if name == self.key:
                return KEY
            if name == self.features and which == "query":
                return FEATURES
        return KEY_HEADS if name == self.key_heads and name is not None else name


def checked_part(
    op: str, value: object, otherwise: str, features: str
) -> tuple[Hashable, tuple[int, int | None]]:
    """Return the name and the range of values that are a part of the features of the key.

    Raises:
      ArgumentError: the mapping is not one name with a range of features.
    """
    items = [*value.items()] if isinstance(value, Mapping) else []
    name, part = items[0] if len(items) == 1 else (None, None)
    if not isinstance(part, slice) or not _is_range(part):
        raise ArgumentError(
            f"{op}: value={format_value(value)} must be {otherwise}one new axis name with a range"
            f" of {features}, such as {{'latent': slice(0, 64)}}."
        )
    start, stop = part.start or 0, part.stop
    if start < 0 or (stop is not None and stop < 0):
        raise ArgumentError(
            f"{op}: value={format_value(value)} has a negative index. Count the elements of"
            f" {features} from its start."
        )
    return name, (start, stop)


def _is_range(part: slice) -> bool:
    ends = (part.start, part.stop)
    return part.step in (None, 1) and all(
        isinstance(end, (int, np.integer, type(None))) for end in ends
    )


def raise_missing_axis(which: str, name: Hashable, array: ArrayLike, extra: str = "") -> NoReturn:
    """Raise an error because an operand lacks an axis."""
    raise_not_found(
        OPERATION, name, f"{which}, {type_text(array)}", names_of(dims_of(array)), extra
    )


def check_names(blocks: Blocks, names: Names) -> None:
    """Raise if an operand lacks an axis, or has one that its role excludes, or another dtype."""
    for which, needed in (
        ("query", names.query),
        ("query", names.features),
        ("key", names.features),
        ("value", names.own_key),
    ):
        if needed not in dims_of(blocks[which]):
            raise_missing_axis(which, needed, blocks[which])
    _check_key_positions(blocks, names)
    if "sinks" in blocks:
        _check_sinks(blocks["sinks"], blocks["query"], names)
    for which in ("bias", "mask", "query_lengths", "key_lengths"):
        if which not in blocks:
            continue
        block, lengths = blocks[which], which.endswith("lengths")
        label = {"query_lengths": "query_seq_lengths", "key_lengths": "key_value_seq_lengths"}.get(
            which, which
        )
        banned = (names.features, names.query, names.key) if lengths else (names.features,)
        for name in banned:
            if name in dims_of(block):
                reason = "it has batch axes only" if lengths else "scores have no features"
                raise AxisNameError(
                    f"{OPERATION}: {label}, {type_text(block)}, has the axis {name!r}, but"
                    f" {reason}. Rename it."
                )
        wanted = jnp.bool_ if which == "mask" else jnp.integer if lengths else jnp.floating
        if not jnp.issubdtype(block.dtype, wanted):
            kinds = {
                "mask": "booleans (use bias= to add numbers to the scores)",
                "bias": "floating-point numbers",
            }
            raise ArgumentTypeError(
                f"{OPERATION}: {label} must contain {kinds.get(which, 'integers')}, got"
                f" {type_text(block)}."
            )
    for which in ("key", "value"):
        if names.query != names.own_key and names.query in dims_of(blocks[which]):
            raise AxisNameError(
                f"{OPERATION}: {which}, {type_text(blocks[which])}, has the axis {names.query!r} of"
                f" the query positions, as well as {names.own_key!r}. Rename one of them."
            )
    if names.heads is not None:
        for which, needed in (
            ("query", names.heads),
            ("key", names.key_heads),
            ("value", names.key_heads),
        ):
            if needed not in dims_of(blocks[which]):
                raise_missing_axis(which, needed, blocks[which])
        for which, other in (
            ("query", names.key_heads),
            ("key", names.heads),
            ("value", names.heads),
        ):
            if other in dims_of(blocks[which]):
                raise AxisNameError(
                    f"{OPERATION}: {which}, {type_text(blocks[which])}, also has the axis"
                    f" {other!r}; heads={names.heads!r} names the heads of the query,"
                    f" key_heads={names.key_heads!r} the heads of key and value."
                )


def _check_sinks(sinks: AnyArray, query: AnyArray, names: Names) -> None:
    """Raise if sinks are not floating-point numbers with axes of one row of scores."""
    if not jnp.issubdtype(sinks.dtype, jnp.floating):
        raise ArgumentTypeError(
            f"{OPERATION}: sinks must contain floating-point numbers, got {type_text(sinks)}."
        )
    others = [dim for dim in dims_of(query) if dim not in (names.query, names.features)]
    for dim in dims_of(sinks):
        if dim is None and dims_of(sinks).count(None) > others.count(None):
            raise AxisNameError(
                f"{OPERATION}: sinks, {type_text(sinks)}, has more positional axes than query,"
                f" {type_text(query)}. Name them first, such as nx.named(sinks, ['heads'])."
            )
        if dim is not None and dim not in others:
            raise AxisNameError(
                f"{OPERATION}: sinks, {type_text(sinks)}, has the axis {dim!r}, but a sink has"
                f" batch axes of query only: {show_names(d for d in others if d is not None)}."
                " Rename it."
            )


def _check_key_positions(blocks: Blocks, names: Names) -> None:
    """Raise if a bias or a mask gives the key positions a name that no other array has.

    Such a name would add a batch axis.
    """
    others = {dim for which in ("query", "key", "value") for dim in dims_of(blocks[which])}
    for which in ("bias", "mask"):
        dims = dims_of(blocks[which]) if which in blocks else ()
        strange = [dim for dim in dims if dim is not None and dim not in others]
        if strange and names.query in dims and names.key not in dims:
            raise AxisNameError(
                f"{OPERATION}: {which}, {type_text(blocks[which])}, has the axis {strange[0]!r},"
                f" which query, key and value lack, but not {names.key!r}, the key positions in"
                f" {which}. If {strange[0]!r} names the key positions, write"
                f" key_axis={strange[0]!r}."
            )


class Operand(Record, frozen=False):
    """The block of an array, with a label for every dimension."""

    data: jax.Array
    labels: Labels


def split_heads(
    operands: dict[str, Operand],
    names: Names,
    place: MeshAxes,
    key_place: MeshAxes,
    blocks: Mapping[str, AnyArray],
) -> None:
    """Split the heads of queries and scores into key heads and groups that share one."""
    query, key = operands["query"], operands["key"]
    here = query.data.shape[query.labels.index(names.heads)]
    key_here = key.data.shape[key.labels.index(KEY_HEADS)]
    heads, key_heads = _size_of(here, place), _size_of(key_here, key_place)
    if not key_heads or heads % key_heads:
        raise AxisSizeError(
            f"{OPERATION}: query has {heads} heads {names.heads!r} and key has {key_heads} heads"
            f" {names.key_heads!r}; the heads of query must be a multiple"
            f" of the heads of key ({type_text(blocks['query'])}, {type_text(blocks['key'])})."
        )
    if key_place not in (place, ()):
        raise PlacementConflictError(
            f"{OPERATION}: the heads {names.heads!r} of the query are sharded over"
            f" {f'mesh axes {plain(place)}' if place else 'no mesh axis'}, but the heads"
            f" {names.key_heads!r} of the keys over mesh axes {plain(key_place)}. Map both to the"
            f" same mesh axes, or leave {names.key_heads!r} unmapped in"
            f" axis_resources.{how_to_share(key_place)}"
        )
    group = heads // key_heads
    is_uneven = isinstance(place, Uneven) or isinstance(key_place, Uneven)
    for operand in operands.values():
        if KEY_HEADS not in operand.labels or (place == key_place and here == key_here * group):
            continue
        at = operand.labels.index(KEY_HEADS)
        if is_uneven:
            operand.data = _heads_of_uneven_block(
                operand.data, at, here, group, place, key_place, key_heads
            )
        else:
            operand.data = _heads_of_block(operand.data, at, here, group, place)
    key_here = key.data.shape[key.labels.index(KEY_HEADS)]
    for operand in operands.values():
        if names.heads in operand.labels:
            i = operand.labels.index(names.heads)
            shape = operand.data.shape
            operand.data = operand.data.reshape(
                (*shape[:i], key_here, here // key_here, *shape[i + 1 :])
            )
            operand.labels = (*operand.labels[:i], KEY_HEADS, GROUP, *operand.labels[i + 1 :])


def how_to_share(place: MeshAxes) -> str:
    """Return the remedy for two names that should share a `SerialLoop`, if `place` has one."""
    loops = any(isinstance(axis, LoopAxis) for axis in place)
    return (
        " An nx.SerialLoop belongs to one name; nx.serial_loop lets two names share the steps."
        if loops
        else ""
    )


def _size_of(block: int, place: MeshAxes) -> int:
    return place.size if isinstance(place, Uneven) else block * math.prod(map(lax.axis_size, place))


def _heads_of_block(data: jax.Array, dim: int, here: int, group: int, place: MeshAxes) -> jax.Array:
    """Select the key heads that this device's `here` query heads use."""
    data = cast_data(data, place)
    first = comm.block_index(place) * here
    if (
        here % group and group % here
    ):  # a block begins within a group, and another key head begins within the block
        return jnp.take(
            data,
            (first + jnp.arange(here)) // group,
            axis=dim,
            indices_are_sorted=True,
            mode="clip",
        )
    return lax.dynamic_slice_in_dim(data, first // group, max(here // group, 1), dim)


def _heads_of_uneven_block(
    data: jax.Array,
    dim: int,
    here: int,
    group: int,
    place: MeshAxes,
    key_place: MeshAxes,
    key_heads: int,
) -> jax.Array:
    """Select the key heads if some blocks have padding.

    Padding uses the last real head. Sharded key heads are permuted.
    """
    devices = math.prod(map(lax.axis_size, place))
    # A block that ends within a group has one key head for each of the queries.
    stride = group if here % group == 0 else here if group % here == 0 else 1
    starts = np.arange(devices)[:, None] * here + np.arange(0, here, stride)
    wanted = np.minimum(starts // group, key_heads - 1)
    if key_place and not any(isinstance(axis, LoopAxis) for axis in key_place):
        return move_rows(data, dim, plain(key_place), wanted)
    if key_place:  # a step cannot access the heads of other steps
        data = comm.all_gather(data, dim, key_place, "varying")
    mine = lax.dynamic_index_in_dim(
        jnp.asarray(wanted), comm.block_index(plain(place)), 0, keepdims=False
    )
    return jnp.take(cast_data(data, place), mine, axis=dim, indices_are_sorted=True, mode="clip")
