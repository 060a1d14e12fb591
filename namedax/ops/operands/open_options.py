"""Options that a program leaves open, and that `nx.plan` chooses for each call.

An option is open if the call does not pass it. Its default is `None`, which means the default
behavior, and no value of it changes results. In the context `choosing`, an operation takes the
chosen values of its open options, and offers other values that could be tried. A call is identified
by its operation and the line of user code.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax
from jax.extend.source_info_util import current

from namedax.core.functions import cell_names
from namedax.core.records import Record
from namedax.core.user_code import first_user_line

__all__ = ["NO_LINE", "Offers", "OpenCall", "Options", "Place", "choosing", "labels", "open_call"]

#: The text for calls without a line of user code.
NO_LINE = "unknown line"
#: Chosen values by line: `{"model.py:12": {"operation": "nx.fold", "prefetch": 1}}`.
Options = Mapping[str, Mapping[str, Any]]


class Place(Record):
    """The calls of one operation at one line of user code."""

    operation: str
    path: str
    line: int


class Offers:
    """The values that the calls of one trace offer for their open options.

    Attributes:
      groups: by call and group, values to try. Options of one group are chosen together.
    """

    def __init__(self) -> None:
        self.groups: dict[Place, dict[str, list[dict[str, Any]]]] = {}

    def add(self, place: Place, group: str, values: Mapping[str, Any]) -> None:
        """Add values to try for a group of options, unless they are known."""
        known = self.groups.setdefault(place, {}).setdefault(group, [])
        if values and dict(values) not in known:
            known.append(dict(values))


#: One chosen call: its file and line as text, the path of the file, its operation, and its options.
_Choice = tuple[str, str, str, tuple[tuple[str, Any], ...]]
# The chosen options. Part of JAX's cache keys, so that a `jit`-ed helper of the user is traced
# again for other options.
_chosen = jax.make_user_context(None)
_offers: ContextVar[Offers | None] = ContextVar("offers", default=None)


@contextlib.contextmanager
def choosing(options: Options, files: Mapping[str, str] | None = None) -> Iterator[Offers]:
    """Use options for the calls that are traced in this context, and collect their offers.

    Args:
      options: the options.
      files: paths by the text that stands for them in the keys of `options`, which distinguish
        notebook cells apart. Default: unknown.
    """
    chosen: tuple[_Choice, ...] = tuple(_choices(options, files or {}))
    offers = Offers()
    token = _offers.set(offers)
    try:
        with _chosen(chosen):
            yield offers
    finally:
        _offers.reset(token)


def _choices(options: Options, files: Mapping[str, str]) -> Iterator[_Choice]:
    for label, each in options.items():
        line = label.removesuffix(f" ({each['operation']})")
        path = files.get(line.rpartition(":")[0], "")
        values = tuple((name, value) for name, value in each.items() if name != "operation")
        yield line, path, str(each["operation"]), values


def labels(places: Sequence[Place], files: Mapping[str, str]) -> dict[Place, str]:
    """Return a text for each call, such as `model.py:12`.

    If several operations are called at one line, the text also has the operation. Calls without a
    line of user code, such as those of `python -m namedax.models plan`, have `NO_LINE`.

    Args:
      places: the calls.
      files: paths by their short names, as in `Report.files`.
    """
    texts = {path: text for text, path in files.items()}
    found = {
        place: f"{texts.get(place.path, os.path.basename(place.path))}:{place.line}"
        if place.path
        else NO_LINE
        for place in places
    }
    lines = list(found.values())
    return {
        place: text if lines.count(text) == 1 else f"{text} ({place.operation})"
        for place, text in found.items()
    }


def _is_at(label: str, path: str, place: Place) -> bool:
    if not place.path:
        return label == NO_LINE
    text, _, line = label.rpartition(":")
    if line != str(place.line):
        return False
    if cell_names([place.path]):
        # The letter of a cell depends on the cells of the report, which a trace does not know. The
        # folder depends on the process, and the name of the file on the code of the cell only.
        is_same = not path or os.path.basename(path) == os.path.basename(place.path)
        return text.startswith("cell") and is_same
    return place.path == text or place.path.endswith(os.sep + text)


def _place(operation: str) -> Place:
    """Return the innermost line of user code."""
    traceback = current().traceback
    frames: Sequence[Any] = () if traceback is None else traceback.frames
    found = first_user_line((frame.file_name, frame.line_num) for frame in frames)
    return Place(operation, *(found or ("", 0)))


class OpenCall:
    """The options of one call.

    Args:
      values: the options: given values, chosen values, or `None` for the default.
      left: the options that the call does not pass.
      place: the call, if options are being chosen.
    """

    def __init__(self, values: dict[str, Any], left: frozenset[str], place: Place | None):
        self.values, self.left, self._place = values, left, place

    def offer(self, group: str, alternatives: Sequence[Mapping[str, Any]]) -> None:
        """Offer values to try for a group of options.

        Options that the call passes are left out of them. Nothing is offered if it passes all.

        Args:
          group: the name of the group.
          alternatives: the values of each alternative. The defaults are tried too.
        """
        offers = _offers.get()
        if offers is not None and self._place is not None:
            for values in alternatives:
                is_open = {name: value for name, value in values.items() if name in self.left}
                if is_open:
                    offers.add(self._place, group, is_open)


def open_call(operation: str, **given: Any) -> OpenCall:
    """Return the options of a call, with the chosen values of those that it does not pass.

    Args:
      operation: the operation as users call it, such as `nx.fold`.
      **given: the options; `None` for those that the call does not pass.
    """
    chosen: tuple[_Choice, ...] | None = _chosen.value
    if chosen is None:
        return OpenCall(given, frozenset(), None)
    left = frozenset(name for name, value in given.items() if value is None)
    if not left:
        return OpenCall(given, left, None)
    place = _place(operation)
    values = dict(given)
    for label, path, of, options in chosen:
        if of == operation and _is_at(label, path, place):
            values |= {name: value for name, value in options if name in left}
    return OpenCall(values, left, place)
