"""Axis mappings: the notation for the names of the positional axes of an array.

A mapping is a dict `{0: "batch", 2: "k"}` from positions to names, or a list `["batch", None, "k"]`
with one entry per axis, which asserts the rank. A list `["batch", ...]` names the first axes only.
`nx.named`, `nx.positional`, and the `in_axes` and `out_axes` of `nx.xmap` take mappings and pytrees
of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping
from types import EllipsisType, NoneType
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from namedax.core.names import Dims, PyTree, check_name, is_name
from namedax.core.records import Record
from namedax.errors import AxisMappingError, format_value, split_names, usage

__all__ = ["AxisMapping", "What", "copied", "freeze", "is_mapping", "parse_mapping", "text_of"]

# The text for an array in messages, or a function that returns it: most arrays appear in no
# message.
What = str | Callable[[], str]


def text_of(what: What) -> str:
    """Return the text for an array in a message."""
    return what if isinstance(what, str) else what()


class AxisMapping(Record):
    """A parsed axis mapping.

    Attributes:
      names: pairs of a position (0 or more) and its axis name, by position.
      rank: the number of axes that the mapping asserts, or `None` if it names some axes only.
      text: the mapping as the user wrote it.
    """

    names: tuple[tuple[int, Hashable], ...]
    rank: int | None
    text: str

    def place(self, ndim: int, op: str, what: What) -> Dims:
        """Return the dims of an array of `ndim` dimensions; unnamed axes are `None`.

        Args:
          ndim: the number of dimensions that positions count.
          op: the operation, for messages.
          what: the array, for messages (`"argument 'x' of shape (3, 4)"`).

        Raises:
          AxisMappingError: the rank differs from the asserted one, or a position is out of range.
        """
        if self.rank is not None and self.rank != ndim:
            names = dict(self.names)
            entries: list[Hashable] = [names.get(i) for i in range(self.rank)]
            more = [None] * (ndim - self.rank)
            example = f": {format_value(entries + more)}" if more else ""
            first = f": {format_value([*entries, ...])}" if more else ""
            raise AxisMappingError(
                f"{op}: the axis mapping {self.text} asserts {self.rank} axes, but {text_of(what)}"
                f" has {ndim}. Write one entry per axis (None for one without a name){example}, or"
                f" end the list with '...' to name the first axes only{first}."
            )
        dims: list[Hashable | None] = [None] * ndim
        for position, name in self.names:
            if position >= ndim:
                raise AxisMappingError(
                    f"{op}: the axis mapping {self.text} puts {name!r} at position {position}, but"
                    f" {text_of(what)} has only {ndim} axes."
                )
            dims[position] = name
        return tuple(dims)


def is_mapping(value: object) -> bool:
    """Return True if `value` is one axis mapping, not a container of mappings or a mistake.

    >>> from namedax.core.axis_mappings import is_mapping
    >>> [is_mapping(v) for v in (["batch", ...], [], {0: "b"}, {})]
    [True, True, True, True]
    >>> [is_mapping(v) for v in ([["b"], ["c"]], {"x": ["b"]}, ("b",))]
    [False, False, False]
    """
    if isinstance(value, AxisMapping):
        return True
    # a dict with keys of both kinds is a mistake, which parsing reports
    if isinstance(value, dict):
        return not value or any(isinstance(key, (int, np.integer)) for key in value)
    if isinstance(value, list):
        return all(
            entry is None or entry is ... or is_name(entry) or isinstance(entry, int)
            for entry in value
        )
    return False


def parse_mapping(value: object, op: str, within: PyTree = None) -> AxisMapping:
    """Parse one axis mapping.

    Args:
      value: a dict from positions to names, or a list of names, `None` and at most one `...`, which
        must be last.
      op: the operation, for messages.
      within: the pytree of axis mappings that contains `value`, for messages.

    Raises:
      AxisMappingError: `value` has none of these forms, a position is negative, or a name appears
        twice.

    >>> from namedax.core.axis_mappings import parse_mapping
    >>> parse_mapping(["batch", None, "k"], "nx.named").names
    ((0, 'batch'), (2, 'k'))
    """
    if isinstance(value, AxisMapping):
        return value
    entries = value if isinstance(value, (list, Mapping)) else (value,)
    text = (
        repr(value).replace("Ellipsis", "...")
        if _USUAL.issuperset(map(type, entries))
        else format_value(value)
    )
    if isinstance(value, Mapping):
        pairs, rank = _from_dict(value, text, op)
    elif isinstance(value, list):
        pairs, rank = _from_list(value, text, op)
    else:
        raise AxisMappingError(
            f"{op}: {text} is not an axis mapping. Write a dict from positions to names ({{0:"
            " 'batch'}), a list with one entry per axis (['batch', None]), or a list that ends"
            f" with '...' (['batch', ...]).{_what_was_meant(value, op, within)}"
        )
    seen: set[Hashable] = set()
    for _, name in pairs:
        if name in seen:
            raise AxisMappingError(
                f"{op}: axis {name!r} appears twice in the axis mapping {text}; an array has an"
                " axis at most once."
            )
        seen.add(name)
    return AxisMapping(tuple(sorted(pairs, key=lambda pair: pair[0])), rank, text)


_USUAL = frozenset({str, int, NoneType, EllipsisType})


def _what_was_meant(value: object, op: str, within: PyTree) -> str:
    """Return a remedy for `value`, which is not an axis mapping, in the tree `within`; or ""."""
    if isinstance(value, PartitionSpec):
        axis = next((entry for entry in value if entry is not None), "x")
        return (
            f" A PartitionSpec has mesh axes. Write axis names here, and {{'name': {axis!r}}} in"
            " axis_resources."
        )
    if reversed_ := _reversed_mapping(value, within):
        return f" Positions come first: did you mean {reversed_!r}?"
    if (
        isinstance(within, dict)
        and op.startswith("xmap")
        and not any(isinstance(entry, (list, dict)) for entry in within.values())
    ):
        return f" Did you mean axis_resources={within!r}?"
    if (
        isinstance(within, tuple)
        and len(within) > 1
        and all(isinstance(entry, (str, int, EllipsisType)) or entry is None for entry in within)
    ):
        meant = [None if isinstance(entry, int) else entry for entry in within]
        return f" A tuple holds the mappings of several values. Did you mean {meant!r}?".replace(
            "Ellipsis", "..."
        )
    if hasattr(value, "dtype"):
        return usage(op)
    return f" Did you mean {split_names(value) or [value]!r}?" if isinstance(value, str) else ""


def _reversed_mapping(value: object, within: PyTree) -> dict[int, Hashable]:
    """Return a mapping from positions to names for a dict from names to positions or sizes.

    The dict is somewhere in `within` and contains `value`. The result is empty if there is no such
    dict.
    """
    if isinstance(within, (tuple, list)):
        return next(
            (reversed_ for entry in within if (reversed_ := _reversed_mapping(value, entry))), {}
        )
    if not isinstance(within, Mapping) or not all(
        is_name(name) and isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        for name, number in within.items()
    ):
        return {}
    if value not in within.values():
        return {}
    if sorted(within.values()) == list(range(len(within))):
        return dict(sorted((int(number), name) for name, number in within.items()))
    return dict(enumerate(within))


def _check_name(name: object, text: str, op: str) -> Hashable:
    if not is_name(name):
        raise AxisMappingError(
            f"{op}: {format_value(name)} in the axis mapping {text} is not an axis name; a name is"
            " any hashable value except integers, None and '...'."
        )
    check_name(name, op)
    return name


def _from_dict(
    value: Mapping[Any, Any], text: str, op: str
) -> tuple[list[tuple[int, Hashable]], None]:
    pairs = []
    for position, name in value.items():
        if isinstance(position, bool) or not isinstance(position, (int, np.integer)):
            raise AxisMappingError(
                f"{op}: key {format_value(position)} in the axis mapping {text} is not a position;"
                " keys are integers from 0."
            )
        if position < 0:
            raise AxisMappingError(
                f"{op}: position {position} in the axis mapping {text} is negative; the rank that"
                " it would count from depends on where the mapping is used. Count from the front,"
                " from 0."
            )
        pairs.append((int(position), _check_name(name, text, op)))
    return pairs, None


def _from_list(
    value: list[Any], text: str, op: str
) -> tuple[list[tuple[int, Hashable]], int | None]:
    if any(isinstance(entry, EllipsisType) for entry in value[:-1]):
        raise AxisMappingError(
            f"{op}: '...' is not the last entry of the axis mapping {text}. Write it at the end,"
            " as in ['batch', ...]."
        )
    prefix = bool(value) and value[-1] is ...
    entries = value[:-1] if prefix else value
    pairs = [(i, _check_name(name, text, op)) for i, name in enumerate(entries) if name is not None]
    return pairs, None if prefix else len(entries)


class _Frozen:
    """A pytree of axis mappings as a hashable value."""

    __slots__ = ("_key",)

    def __init__(self, key: Hashable):
        self._key = key

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._key == other._key


def freeze(axes: PyTree, what: str) -> Hashable:
    """Return a tree of axis mappings as a hashable value, equal to that of every equivalent tree.

    `what` is its name in messages.
    """

    def leaf(node: object) -> AxisMapping | None:
        return None if node is None else parse_mapping(node, f"xmap, {what}", axes)

    leaves, tree = jax.tree.flatten(axes, is_leaf=lambda node: node is None or is_mapping(node))
    return _Frozen((tuple(leaf(node) for node in leaves), tree))


def copied(axes: PyTree) -> PyTree:
    """Copy a tree of axis mappings.

    A list or dict that its owner changes later would not match the compiled program.
    """
    return jax.tree.map(
        lambda node: copy.copy(node) if is_mapping(node) else node, axes, is_leaf=is_mapping
    )
