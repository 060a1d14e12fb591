"""Misspelled axis names in layouts, and axes that a layout places on one mesh axis.

One layout places all arrays of a program, so it may map axis names that a tree does not have, such
as those of activations. A misspelled name would have no effect: the axis would stay replicated.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from namedax.errors import AxisResourceError, PlacementConflictError, format_value, show_name

__all__ = ["check_layout_names", "is_misspelling", "restate_conflict"]

# Similar words of one layout are less similar than this: `batch` and `patch`, `inputs` and
# `outputs`. One letter more or less, or another letter in a word of six, is at least as similar.
_LEAST_SIMILARITY = 0.83
_LEAST_SIMILARITY_OF_TRANSPOSED = 0.7
_SHORTEST = 3  # letters of a word that can be misspelled: `q` and `k`, `in` and `out` are words


def check_layout_names(
    op: str, axis_resources: Mapping[Hashable, Any] | None, names: Iterable[Hashable | None]
) -> None:
    """Check that a layout has no name that is probably a misspelled name of the tree.

    Such a name is mapped, occurs nowhere in the tree, and is similar to a name of the tree that
    does not occur in the layout.

    Args:
      op: the operation, for messages.
      axis_resources: the layout as the user wrote it, or `None`.
      names: the dims of all arrays of the tree, also repeated.

    Raises:
      AxisResourceError: the layout has such a name.
    """
    if not axis_resources:
        return
    have = dict.fromkeys(name for name in names if name is not None)
    free = [name for name in have if name not in axis_resources]
    if not free:
        return
    for name, resources in axis_resources.items():
        if name in have or resources is None or resources == ():
            continue
        for meant in free:
            if is_misspelling(name, meant):
                raise AxisResourceError(
                    f"{op}: axis_resources maps {format_value(name)}, but no array here has this"
                    f" axis, and {format_value(meant)} is not mapped, so it would be replicated."
                    f" Did you mean {format_value(meant)}? If both are axes of the program, map"
                    f" both; {{{format_value(meant)}: None}} replicates it."
                )


def is_misspelling(name: Hashable, meant: Hashable) -> bool:
    """Return True if `name` is probably a misspelling of `meant`.

    The names are equal apart from case and separators, or one word of them has another letter,
    one more or one less, or two exchanged ones. Names with other words, digits or short words are
    different axes.

    >>> from namedax.messages.layout_names import is_misspelling
    >>> is_misspelling("kv_head", "kv_heads"), is_misspelling("embed_fspd", "embed_fsdp")
    (True, True)
    >>> is_misspelling("embed", "embed_fsdp"), is_misspelling("pos_q", "pos_k")
    (False, False)
    """
    if not (isinstance(name, str) and isinstance(meant, str)) or name == meant:
        return False
    words, migration_hints = _words(name), _words(meant)
    if "".join(words) == "".join(migration_hints):
        return len("".join(words)) >= _SHORTEST
    if len(words) != len(migration_hints):
        return False
    different = [pair for pair in zip(words, migration_hints, strict=True) if pair[0] != pair[1]]
    return len(different) == 1 and _is_misspelled_word(*different[0])


def _words(name: str) -> list[str]:
    return re.split(r"[\W_]+", name.casefold())


def _is_misspelled_word(word: str, meant: str) -> bool:
    if min(len(word), len(meant)) < _SHORTEST or word[0] != meant[0]:
        return False
    if re.findall(r"\d", word) != re.findall(r"\d", meant):
        return False
    similarity = difflib.SequenceMatcher(None, word, meant).ratio()
    return similarity >= (
        _LEAST_SIMILARITY_OF_TRANSPOSED if sorted(word) == sorted(meant) else _LEAST_SIMILARITY
    )


def restate_conflict(error: PlacementConflictError, op: str) -> PlacementConflictError:
    """Rewrite the error of a mapped function for a call outside of mapped functions."""
    if len(error.axes) != 2 or error.mesh_axis is None:
        return error
    one, other = map(show_name, error.axes)
    if error.operation is not None and not error.operation.startswith("xmap"):
        op = error.operation
    return PlacementConflictError(
        f"{op}: axes {one} and {other} would be in one value, but both are sharded over mesh axis"
        f" {error.mesh_axis!r}, which can hold only one of them. Place one of the arrays elsewhere"
        f" first, such as nx.shard(x, {{{one}: None}}, mesh), which gathers it."
    ).about(axes=error.axes, mesh_axis=error.mesh_axis, operation=op)
