"""The entries of a `spec`, which maps key patterns of a state dict to places of a tree.

An entry has a key pattern, a place and an einops pattern. This module parses them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from namedax.core.names import Dims
from namedax.core.records import Record
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    RearrangeError,
    did_you_mean,
    format_value,
)
from namedax.ops.shape.patterns import ELLIPSIS, Term, parse_pattern

__all__ = [
    "Entry",
    "Numbers",
    "NumbersByLabel",
    "Part",
    "Sizes",
    "Spec",
    "Tied",
    "parse_spec",
    "parse_tied",
]

Spec = Mapping[str, tuple[str, str]]
Sizes = Mapping[str, int]
Tied = Mapping[str, str]
NumbersByLabel = Mapping[str, Sequence[int]]

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"([0-9]*)\.\.([0-9]*)(?::([0-9]+))?")


class Numbers(NamedTuple):
    """The numbers at one label of a key pattern.

    Attributes:
      text: the range as written, or an empty string.
      start: the first number.
      step: the difference of two numbers.
      values: all numbers in ascending order, or `None` if the range has no end.
    """

    text: str = ""
    start: int = 0
    step: int = 1
    values: tuple[int, ...] | None = None

    def __contains__(self, number: object) -> bool:
        if self.values is not None:
            return number in self.values
        assert isinstance(number, int)
        return number >= self.start and (number - self.start) % self.step == 0

    def below(self, top: int) -> tuple[int, ...]:
        """Return the numbers below `top`; all of them if the range has an end."""
        return tuple(range(self.start, top, self.step)) if self.values is None else self.values

    def first(self, count: int) -> tuple[int, ...]:
        """Return the first numbers; all of them if the range has an end."""
        return self.below(self.start + count * self.step)


class Part(NamedTuple):
    """One index of an axis of a tensor, which has its own place."""

    label: str
    at: int
    names: tuple[str, ...]  # of all indices

    @property
    def name(self) -> str:
        """Return the name of this part."""
        return self.names[self.at]


class Entry(Record):
    """One parsed entry of a spec, or one of its parts."""

    key: str  # the key pattern as written
    template: str  # the key pattern without ranges
    place: tuple[str, ...]
    written_place: str  # with the names of all parts
    pattern: str
    numbers: tuple[str, ...]  # the labels of the numbers in the key
    ranges: tuple[Numbers, ...]  # of each label
    left: tuple[Term, ...]  # the axes of a tensor
    right: tuple[Term, ...]  # the axes of the named array
    part: Part | None = None

    @property
    def place_text(self) -> str:
        """Return the place as text, such as `layers/query`."""
        return "/".join(self.place)

    @property
    def dims(self) -> Dims:
        """Return the dims of the named array."""
        return tuple(term.name for term in self.right)

    def in_order(self, order: Sequence[int]) -> Entry:
        """Return the entry with another order of the axes of the named array."""
        return self.replace(right=tuple(self.right[axis] for axis in order))

    def key_of(self, numbers: Sequence[int]) -> str:
        """Return the key of one tensor."""
        values = dict(zip(self.numbers, numbers, strict=True))
        return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), self.template)

    @property
    def regex(self) -> re.Pattern[str]:
        """Return an expression with one group for each label of `numbers`.

        It ignores ranges.
        """
        parts, at, seen = [], 0, set()
        for match in _PLACEHOLDER.finditer(self.template):
            parts.append(re.escape(self.template[at : match.start()]))
            group = f"n{self.numbers.index(match[1])}"
            parts.append(f"(?P={group})" if group in seen else f"(?P<{group}>0|[1-9][0-9]*)")
            seen.add(group)
            at = match.end()
        return re.compile("".join(parts) + re.escape(self.template[at:]))

    def has_numbers(self, numbers: Sequence[int]) -> bool:
        """Return True if the ranges contain these numbers."""
        return all(number in of for number, of in zip(numbers, self.ranges, strict=True))

    @property
    def tensor_labels(self) -> list[Hashable]:
        """Return the labels of a tensor, in order."""
        return [label for term in self.left for label in term.axes]

    @property
    def part_labels(self) -> list[Hashable]:
        """Return the labels of the part of a tensor that belongs to the named array, in order."""
        split = None if self.part is None else self.part.label
        return [label for label in self.tensor_labels if label != split]

    def prefix(self, label: str) -> str:
        """Return the key pattern up to the number of `label`.

        Entries with the same prefix have the same numbers there.
        """
        return self.template[: self.template.index(f"{{{label}}}")]

    def text_of(self, texts: Sequence[str]) -> str:
        """Return the key pattern with these texts in place of numbers."""
        of = dict(zip(self.numbers, texts, strict=True))
        return _PLACEHOLDER.sub(lambda match: of[match[1]], self.template)


# --- parsing --------------------------------------------------------------------------------------


def parse_spec(spec: Spec, numbers: NumbersByLabel | None, op: str) -> list[Entry]:
    """Parse a spec, and check that its entries do not contradict each other.

    Entries without numbers are not in the result.

    Args:
      spec: the spec.
      numbers: the numbers of labels without a range.
      op: the operation, for messages.

    Raises:
      ArgumentTypeError: the spec, an entry or `numbers` has the wrong type.
      ArgumentError: a key pattern, a place or `numbers` is malformed, or two places overlap.
      RearrangeError: a pattern is malformed; the message has a caret under the error.
    """
    if not isinstance(spec, Mapping):
        raise ArgumentTypeError(f"{op}: spec is {format_value(spec)}, not a dict. {_EXAMPLE}")
    given = _given_numbers(numbers, op)
    entries = [
        entry for key, value in spec.items() for entry in _parse_entry(key, value, given, op)
    ]
    _check_given(given, entries, op)
    places: dict[tuple[str, ...], str] = {}
    for entry in entries:
        if entry.place in places:
            raise ArgumentError(
                f"{op}: spec has the place {entry.place_text!r} twice, for"
                f" {places[entry.place]!r} and {entry.key!r}. Give each key its own place."
            )
        places[entry.place] = entry.key
    for entry in entries:
        for length in range(1, len(entry.place)):
            if entry.place[:length] in places:
                raise ArgumentError(
                    f"{op}: spec has an array at {'/'.join(entry.place[:length])!r}, for"
                    f" {places[entry.place[:length]]!r}, and one inside of it at"
                    f" {entry.place_text!r}, for {entry.key!r}. Rename one of the places."
                )
    return [e for e in entries if all(of.values is None or of.values for of in e.ranges)]


_EXAMPLE = 'Write {"embed.weight": ("embed", "v e -> {vocab=v, embed=e}")}.'


def _given_numbers(numbers: NumbersByLabel | None, op: str) -> dict[str, Numbers]:
    """Return `numbers=` by label."""
    if numbers is None:
        return {}
    if not isinstance(numbers, Mapping):
        raise ArgumentTypeError(
            f"{op}: numbers is {format_value(numbers)}, not a dict of lists. Write"
            ' numbers={"sparse": [3, 4, 5]}.'
        )
    found = {}
    for label, given in numbers.items():
        what = f"{op}: numbers[{label!r}]"
        values = given.tolist() if isinstance(given, np.ndarray) else given
        if not isinstance(values, (list, tuple, range)) or not all(
            isinstance(one, (int, np.integer)) and not isinstance(one, bool) and one >= 0
            for one in values
        ):
            raise ArgumentTypeError(
                f"{what} is {format_value(given)}, not a list of numbers. Pass integers from 0."
            )
        found[label] = Numbers(f"numbers[{label!r}]", values=_ascending(map(int, values), what))
    return found


def _ascending(values: Iterable[int], what: str) -> tuple[int, ...]:
    ordered = sorted(values)
    twice = next((one for one, other in itertools.pairwise(ordered) if one == other), None)
    if twice is not None:
        raise ArgumentError(f"{what} has the number {twice} twice. Write each number once.")
    return tuple(ordered)


def _check_given(given: Mapping[str, Numbers], entries: Sequence[Entry], op: str) -> None:
    """Check that each label of `numbers=` is in a key."""
    labels = dict.fromkeys(label for entry in entries for label in entry.numbers)
    for label in given:
        if label not in labels:
            raise ArgumentError(
                f"{op}: numbers has {label!r}, but no key of spec has {{{label}}}."
                f"{did_you_mean(label, labels)} Remove it, or write it in a key."
            )


def _parse_range(text: str, label: str, what: str) -> Numbers:
    """Parse the range of a label, such as `3..` or `0,3,7`."""
    if re.fullmatch(r"[0-9]+(,[0-9]+)*", text):
        return Numbers(text, values=_ascending(map(int, text.split(",")), what))
    match = _RANGE.fullmatch(text)
    is_reversed = match is not None and match[2] and int(match[2]) < int(match[1] or 0)
    if match is None or text == ".." or match[3] == "0" or is_reversed:
        raise ArgumentError(
            f"{what} has the range {text!r}, which is not valid. Write {{{label}:3..}},"
            f" {{{label}:..3}} (0, 1, 2), {{{label}:1..24:2}} (1, 3, ..., 23) or {{{label}:0,3,7}}."
        )
    start, step = int(match[1] or 0), int(match[3] or 1)
    values = tuple(range(start, int(match[2]), step)) if match[2] else None
    return Numbers(text, start, step, values)


def _parse_key(key: str, given: Mapping[str, Numbers], op: str) -> tuple[str, dict[str, Numbers]]:
    """Return a key pattern without ranges, and the ranges of its labels."""
    ranges: dict[str, Numbers] = {}
    what = f"{op}: the key pattern {key!r}"
    for content in _PLACEHOLDER.findall(key):
        label, colon, text = content.partition(":")
        if not label.isidentifier():
            break
        if not colon:
            ranges.setdefault(label, given.get(label, Numbers()))
            continue
        parsed = _parse_range(text, label, what)
        if label in given or ranges.get(label, parsed) != parsed:
            where = "numbers= has others" if label in given else "has another one"
            raise ArgumentError(
                f"{what} has the range {text!r} of {label!r}, but {where}. Write the numbers once."
            )
        ranges[label] = parsed
    else:
        if not re.search(r"[{}]", _PLACEHOLDER.sub("", key)):
            return re.sub(r"\{(\w+):[^{}]*\}", r"{\1}", key), ranges
    raise ArgumentError(
        f"{what} has braces that are not a name. Write a name for each number, such as"
        " 'layers.{layers}.weight'."
    )


def _parse_place(place: str, what: str) -> dict[str, Part | None]:
    """Return the parts of a tensor by their places."""
    found = _PLACEHOLDER.findall(place)
    label, _, text = found[0].partition(":") if found else ("", "", "")
    names = tuple(text.split(","))
    if len(found) > 1 or re.search(r"[{}]", _PLACEHOLDER.sub("", place)):
        valid = False
    else:
        valid = not found or (label.isidentifier() and len({*names} - {""}) == len(names) > 1)
    if not valid:
        raise ArgumentError(
            f"{what} has the place {place!r} with braces that are not a label and names. For a"
            " tensor with two parts along its axis 'part', write 'layers/{part:gate,up}'."
        )
    if not found:
        return {place: None}
    return {
        _PLACEHOLDER.sub(name, place): Part(label, index, names) for index, name in enumerate(names)
    }


def _parse_entry(
    key: object, value: object, given: Mapping[str, Numbers], op: str
) -> Iterator[Entry]:
    """Yield the entries of a key: one for each place."""
    if not isinstance(key, str):
        raise ArgumentTypeError(f"{op}: spec has the key {format_value(key)}, not a string.")
    if (
        not isinstance(value, (tuple, list))
        or len(value) != 2
        or not all(isinstance(part, str) for part in value)
    ):
        raise ArgumentTypeError(
            f"{op}: spec[{key!r}] is {format_value(value)}, not a place and a pattern. {_EXAMPLE}"
        )
    template, ranges = _parse_key(key, given, op)
    written, pattern = value
    what = f"{op}: spec[{key!r}]"
    for place, part in _parse_place(written, what).items():
        path = tuple(place.split("/"))
        if not all(path):
            raise ArgumentError(
                f"{what} has the place {place!r} with an empty part. Write names with '/' between"
                " them, such as 'layers/query'."
            )
        parsed = parse_pattern(what, pattern, "tensor")
        entry = Entry(
            key,
            template,
            path,
            written,
            pattern,
            tuple(ranges),
            tuple(ranges.values()),
            parsed.left,
            parsed.right,
            part,
        )
        _check_labels(entry, what)
        yield entry


def _check_labels(entry: Entry, op: str) -> None:
    """Check that both sides have the same labels; the right side has those of the key too."""
    left = {label for term in entry.left for label in term.axes}
    right = {label for term in entry.right for label in term.axes}
    arrow = entry.pattern.index("->")

    def fail(why: str, label: Hashable, is_left: bool) -> NoReturn:
        start, end = (0, arrow) if is_left else (arrow + 2, len(entry.pattern))
        found = re.compile(rf"(?<!\w){re.escape(str(label))}(?!\w)(?!\s*=)").search(
            entry.pattern, start, end
        )
        at = start if found is None else found.start()
        raise RearrangeError(f"{op}: {why}\n  {entry.pattern}\n  {' ' * at}^")

    for is_left, terms in ((True, entry.left), (False, entry.right)):
        if any(ELLIPSIS in term.axes for term in terms):
            fail("'...' is not supported. Write every axis of the tensor.", ELLIPSIS, is_left)
    for term in entry.left:
        if term.name is not None:
            at = entry.pattern.index("{")
            raise RearrangeError(
                f"{op}: a tensor of a state dict has no named axes. Write braces on the right"
                f" only.\n  {entry.pattern}\n  {' ' * at}^"
            )
    for label in entry.numbers:
        if label in left:
            fail(
                f"{label!r} is a number in the key, and not an axis of the tensor. Write it on the"
                " right only.",
                label,
                True,
            )
        if label not in right:
            at = len(entry.pattern)
            raise RearrangeError(
                f"{op}: the key has the number {label!r}, which the right side lacks. Add the axis"
                f" along which its tensors are stacked.\n  {entry.pattern}\n  {' ' * at}^"
            )
    split = {entry.part.label} if entry.part else set()
    for label in split:
        if label not in left:
            fail(f"the place has parts along {label!r}, which the left side lacks.", label, True)
        if label in right:
            fail(
                f"{label!r} is split over places, and is not an axis of the named arrays. Write it"
                " on the left only.",
                label,
                False,
            )
    for extra in sorted(right - left - set(entry.numbers), key=str):
        hint = did_you_mean(extra, [one for one in left - right if isinstance(one, str)])
        fail(
            f"axis {extra!r} is neither on the left nor a number in the key.{hint} Write"
            f" {{{extra}}} in the key to stack tensors.",
            extra,
            False,
        )
    for extra in sorted(left - right - split, key=str):
        fail(f"axis {extra!r} appears on the left only. Add it to the right side.", extra, True)


def parse_tied(tied: Tied | None, op: str) -> dict[str, str]:
    """Return, for each tied key, the key at the end of its chain.

    Raises:
      ArgumentTypeError: it is not a dict of keys.
      ArgumentError: keys are tied in a circle.
    """
    if tied is None:
        return {}
    if not isinstance(tied, Mapping) or not all(
        isinstance(text, str) for pair in tied.items() for text in pair
    ):
        raise ArgumentTypeError(
            f"{op}: tied is {format_value(tied)}, not a dict from keys to keys. Write"
            ' tied={"lm_head.weight": "model.embed_tokens.weight"}.'
        )
    found = {}
    for key in tied:
        source, seen = tied[key], [key]
        while source in tied and source not in seen:
            seen.append(source)
            source = tied[source]
        if source in seen:
            raise ArgumentError(
                f"{op}: tied has a circle, {' -> '.join(map(repr, [*seen, source]))}. Tie each key"
                " to a key of the state dict."
            )
        found[key] = source
    return found
