"""Patterns of einops with braces for names: `"{pos, embed=(heads key)} -> {pos, heads, key}"`.

Einops parses the text outside of braces; this module parses the braces.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NoReturn

from einops import EinopsError
from einops.parsing import ParsedExpression

from namedax.core.names import escaped
from namedax.core.records import Record
from namedax.errors import RearrangeError, did_you_mean

__all__ = ["ELLIPSIS", "Pattern", "Term", "parse_pattern"]


ELLIPSIS = "..."
_TOKEN = r"\.\.\.|[()]|[^\s()]+"


class Term(Record):
    """One axis of an array, as a product of elementary axes.

    Attributes:
      name: the axis name, or `None` for a positional axis.
      axes: the labels of its elementary axes, major first; `"..."` denotes any number of positional
        axes.
      is_ellipsis: `True` for a bare `...`, which represents any number of axes, not a single one.
    """

    name: Hashable | None
    axes: tuple[Hashable, ...]
    is_ellipsis: bool = False


class Pattern(Record):
    """A parsed pattern: the axes of the array and of the result, and sizes given as numbers."""

    left: tuple[Term, ...]
    right: tuple[Term, ...]
    numbers: tuple[tuple[Hashable, int], ...] = ()
    text: str = ""

    def __hash__(self) -> int:
        return hash(self.text)

    def with_sizes(self, sizes: Mapping[Hashable, int]) -> Pattern:
        """Add sizes of elementary axes to the pattern."""
        return self.replace(numbers=(*self.numbers, *sizes.items())) if sizes else self

    def renamed(self, number: Callable[[Hashable], Hashable]) -> Pattern:
        """Replace every name and every label by `number(label)`, and drop the text."""

        def of_label(label: Hashable) -> Hashable:
            return label if label == ELLIPSIS else number(label)

        def of(terms: tuple[Term, ...]) -> tuple[Term, ...]:
            return tuple(
                Term(
                    None if term.name is None else number(term.name),
                    tuple(map(of_label, term.axes)),
                    term.is_ellipsis,
                )
                for term in terms
            )

        left, right = of(self.left), of(self.right)
        return Pattern(left, right, tuple((of_label(label), n) for label, n in self.numbers))

    @functools.cached_property
    def left_labels(self) -> frozenset[Hashable]:
        """Return the elementary axes of the array."""
        return frozenset(label for term in self.left for label in term.axes)

    @functools.cached_property
    def right_labels(self) -> frozenset[Hashable]:
        """Return the elementary axes of the result."""
        return frozenset(label for term in self.right for label in term.axes)


@functools.lru_cache(maxsize=2048)
def parse_pattern(op: str, text: str, kind: str = "") -> Pattern:
    """Parse a pattern for one of `"rearrange"`, `"reduce"`, `"repeat"`, `"tensor"`.

    The labels of a `"tensor"`, a tensor of a state dict, may be on one side only. Its caller checks
    them.

    Args:
      op: the operation, for messages.
      text: the pattern.
      kind: the kind of the pattern. Default: `op`.

    Raises:
      RearrangeError: it is malformed; the message has a caret under the error.

    >>> from namedax.ops.shape.patterns import parse_pattern
    >>> pattern = parse_pattern("rearrange", "b h w -> b {pixels=(h w)}")
    >>> pattern.right[1].name, pattern.right[1].axes
    ('pixels', ('h', 'w'))
    """
    if escaped(text) != text:
        raise RearrangeError(f"{op}: {text!a} is not valid Unicode. Use other axis names.")
    return _Parser(op, text, kind or op).parse()


class _Parser:
    def __init__(self, op: str, text: str, kind: str):
        self.op, self.text, self.kind = op, text, kind
        self.numbers: list[tuple[Hashable, int]] = []

    def fail(self, why: str, at: int) -> NoReturn:
        raise RearrangeError(f"{self.op}: {why}\n  {self.text}\n  {' ' * at}^")

    def parse(self) -> Pattern:
        arrow = self.text.find("->")
        if arrow < 0:
            self.fail(
                "there is no '->'. Write the axes of the array, '->', and the axes of the result.",
                len(self.text),
            )
        second = self.text.find("->", arrow + 2)
        if second >= 0:
            self.fail("the pattern has a second '->'. Write exactly one.", second)
        left, left_at = self.side(0, arrow, is_left=True)
        right, right_at = self.side(arrow + 2, len(self.text), is_left=False)
        pattern = Pattern(tuple(left), tuple(right), tuple(self.numbers), self.text)
        if self.kind in ("rearrange", "reduce"):
            for label, at in right_at.items():
                if label not in left_at:
                    self.fail(self.unknown(label, left_at), at)
        if self.kind in ("rearrange", "repeat"):
            for label, at in left_at.items():
                if label not in right_at:
                    self.fail(
                        f"{self.show(label)} appears on the left only, but {self.op} drops no axis."
                        " Use reduce to drop an axis.",
                        at,
                    )
        return pattern

    @staticmethod
    def show(label: Hashable) -> str:
        return (
            "'...'"
            if label == ELLIPSIS
            else f"a size, {label[1]},"
            if isinstance(label, tuple)
            else f"axis {label!r}"
        )

    def unknown(self, label: Hashable, left: Mapping[Hashable, int]) -> str:
        hint = did_you_mean(label, left) if isinstance(label, str) else ""
        return (
            f"{self.show(label)} appears on the right only, but {self.op} adds only axes of size 1."
            f" Use repeat to add others.{hint}"
        )

    def side(self, start: int, end: int, is_left: bool) -> tuple[list[Term], dict[Hashable, int]]:
        """Parse one side; return its terms, and the offset of each of their labels in the text."""
        terms: list[Term] = []
        where: dict[Hashable, int] = {}
        names: set[Hashable] = set()
        at = start
        while at < end:
            opened = self.text.find("{", at, end)
            stop = end if opened < 0 else opened
            terms += self.positions(at, stop, where, is_left)
            if opened < 0:
                break
            closed = self.text.find("}", opened, end)
            if closed < 0:
                self.fail("this brace is never closed.", opened)
            at = opened + 1
            while self.text[at:closed].strip():
                comma = self.comma(at, closed)
                terms.append(self.named(at, comma, names, where, is_left))
                at = comma + 1
            at = closed + 1
        return terms, where

    def comma(self, start: int, end: int) -> int:
        found = self.text.find(",", start, end)
        return end if found < 0 else found

    def named(
        self, start: int, end: int, names: set[Hashable], where: dict[Hashable, int], is_left: bool
    ) -> Term:
        """Parse `name`, `name=axis` or `name=(axis axis)`."""
        equals = self.text.find("=", start, end)
        stop = end if equals < 0 else equals
        name = self.text[start:stop].strip()
        at = start + len(self.text[start:stop]) - len(self.text[start:stop].lstrip())
        if not name:
            self.fail("expected an axis name here.", min(at, len(self.text) - 1))
        if bad := re.search(r"[\s(){]", name):
            self.fail(
                f"{name!r} is not an axis name. Write commas between names, and name=(a b) for one"
                " made of several.",
                at + bad.start(),
            )
        if name in names:
            self.fail(f"name {name!r} appears twice on one side.", at)
        names.add(name)
        if equals < 0:
            self.note(name, at, where)
            return Term(name, (name,))
        terms = self.positions(equals + 1, end, where, is_left)
        if len(terms) != 1 or terms[0].is_ellipsis:
            self.fail(f"expected one axis after {name + '='!r}, or several in parentheses.", equals)
        return Term(name, terms[0].axes)

    def note(self, label: Hashable, at: int, where: dict[Hashable, int]) -> None:
        if label in where:
            self.fail(f"{self.show(label)} appears twice on one side.", at)
        where[label] = at

    def positions(
        self, start: int, end: int, where: dict[Hashable, int], is_left: bool
    ) -> list[Term]:
        """Parse positional text with einops, and add the position of errors."""
        group: int | None = None
        spots: list[int] = []
        for match in re.compile(_TOKEN).finditer(self.text, start, end):
            token, at = match[0], match.start()
            if token == "(":
                if group is not None:
                    self.fail("nested parentheses are not supported. Write one level.", at)
                group = at
            elif token == ")":
                if group is None:
                    self.fail("this parenthesis was never opened.", at)
                group = None
            elif token == ELLIPSIS:
                if group is not None and is_left:
                    self.fail("'...' may be in parentheses on the right only.", at)
                if ELLIPSIS in where or any(self.text.startswith(ELLIPSIS, spot) for spot in spots):
                    self.fail("one side has a second '...'. Write at most one.", at)
                spots.append(at)
            elif token.isdecimal():
                if int(token) != 1:
                    if self.kind in ("rearrange", "tensor") or (self.kind == "repeat") == is_left:
                        self.fail(
                            f"the size {token} is not valid here; only 1 can be dropped or"
                            " inserted. Name other axes.",
                            at,
                        )
                    spots.append(at)
            elif ParsedExpression.check_axis_name(token):
                spots.append(at)
            else:
                self.fail(
                    f"{token!r} is not an axis: write identifiers, '...', 1, parentheses, and names"
                    " in braces.",
                    at,
                )
        if group is not None:
            self.fail("this parenthesis is never closed.", group)
        try:
            composition = ParsedExpression(
                " ".join(re.compile(_TOKEN).findall(self.text, start, end)), allow_duplicates=True
            ).composition
        except EinopsError as error:
            self.fail(str(error), start)
        supply = iter(spots)
        return [self.term(entry, supply, where) for entry in composition]

    def term(
        self, entry: str | list[Any], supply: Iterator[int], where: dict[Hashable, int]
    ) -> Term:
        labels: list[Hashable] = []
        for axis in [entry] if isinstance(entry, str) else entry:
            at = next(supply)
            if not isinstance(
                axis, str
            ):  # an anonymous axis: a number, and a separate axis for each occurrence
                label: Hashable = ("size", int(axis.value), at)
                self.numbers.append((label, int(axis.value)))
            else:
                label = axis if axis.isidentifier() else ELLIPSIS
            self.note(label, at, where)
            labels.append(label)
        return Term(None, tuple(labels), isinstance(entry, str))
