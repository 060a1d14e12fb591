"""The axis names of attention, as given to `dot_product_attention`, and the role of each axis."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NoReturn

from namedax.core.annotations import ArrayLike
from namedax.core.array import dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.records import Record
from namedax.errors import AxisNameError, AxisNotFoundError, format_value, raise_not_found
from namedax.ops.nn.attention_blocks import FEATURES, KEY, KEY_HEADS, QUERY, Label
from namedax.ops.operands.pytree import names_of

__all__ = ["OPERATION", "Names", "raise_missing_axis"]

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


def raise_missing_axis(which: str, name: Hashable, array: ArrayLike, extra: str = "") -> NoReturn:
    """Raise an error because an operand lacks an axis."""
    raise_not_found(
        OPERATION, name, f"{which}, {type_text(array)}", names_of(dims_of(array)), extra
    )
