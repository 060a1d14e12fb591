"""Parsing einsum specifications with braces into a small frozen plan.

One letter stands for each positional axis, names stand in braces: `"n{b,k},{k,m}->n{b,m}"`. In an operand `{new:old}` reads its
axis `old` under the name `new`; in the result it writes the axis `old` under the name `new`. `...` stands for the positional
axes that no letter speaks of.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NoReturn

from namedax.errors import EinsumError

__all__ = ["EinsumSpec", "Term", "parse_einsum"]

ELLIPSIS = "..."


@dataclasses.dataclass(frozen=True)
class Term:
    """One operand, or the result.

    Attributes:
      letters: the positional axes in order, letters and at most one `"..."`.
      names: pairs `(label, axis)`. In an operand: its axis `axis` is called `label` in the specification. In the result:
        what the specification calls `axis` is called `label` in the result.
      text: the term as it was written.
    """

    letters: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    text: str


@dataclasses.dataclass(frozen=True)
class EinsumSpec:
    """A parsed specification; `result` is `None` in the implicit form (without an arrow)."""

    operands: tuple[Term, ...]
    result: Term | None
    text: str


@functools.lru_cache(maxsize=2048)
def parse_einsum(text: str) -> EinsumSpec:
    """Parses a specification.

    Raises:
      EinsumError: it is malformed; the message has a caret under the spot.

    >>> spec = parse_einsum("n{b,k},{k,m:j}->n{b,m}")
    >>> spec.operands[1].names, spec.result.letters
    ((('k', 'k'), ('m', 'j')), ('n',))
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str):
        self.text = text
        self.at = 0

    def fail(self, why: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        raise EinsumError(f"einsum: {why}\n  {self.text}\n  {' ' * place}^")

    def skip_blanks(self) -> str:
        """Skips white space and returns the next character, or the empty string at the end."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def parse(self) -> EinsumSpec:
        operands = [self.term()]
        result = None
        while char := self.skip_blanks():
            if char == ",":
                self.at += 1
                operands.append(self.term())
            elif self.text.startswith("->", self.at):
                self.at += 2
                result = self.term(is_result=True)
                if self.skip_blanks():
                    self.fail("the result ends here; there is one result, without a comma or a second arrow.")
            else:
                self.fail(
                    f"{char!r} has no meaning here. Write one letter per positional axis, names in braces, commas between operands, and "
                    "'->' before the result."
                )
        return EinsumSpec(tuple(operands), result, self.text)

    def term(self, is_result: bool = False) -> Term:
        start = self.at
        letters: list[str] = []
        names: list[tuple[str, str]] = []
        while char := self.skip_blanks():
            if char.isalpha():
                if is_result and char in letters:
                    self.fail(f"letter {char!r} appears twice in the result; each of its axes has a letter of its own.")
                letters.append(char)
                self.at += 1
            elif self.text.startswith(ELLIPSIS, self.at):
                if ELLIPSIS in letters:
                    self.fail("a second '...' in one term; there can be one.")
                letters.append(ELLIPSIS)
                self.at += 3
            elif char == "{":
                self.braces(names, is_result)
            else:
                break
        return Term(tuple(letters), tuple(names), self.text[start : self.at].strip())

    def braces(self, names: list[tuple[str, str]], is_result: bool) -> None:
        opened = self.at
        self.at += 1
        if self.skip_blanks() == "}":
            self.at += 1
            return
        while True:
            begin = self.at
            label = self.name(opened)
            axis = label
            if self.skip_blanks() == ":":
                self.at += 1
                axis = self.name(opened)
            for other_label, other_axis in names:
                if other_label == label:
                    self.fail(f"name {label!r} appears twice in one {'result' if is_result else 'operand'}.", begin)
                if other_axis == axis:
                    self.fail(
                        f"axis {axis!r} is {'written' if is_result else 'read'} twice in one {'result' if is_result else 'operand'}.", begin
                    )
            names.append((label, axis))
            char = self.skip_blanks()
            if char not in (",", "}") or not char:
                self.fail("expected ',' or '}' after a name." if char else "this brace is never closed.", None if char else opened)
            self.at += 1
            if char == "}":
                return

    def name(self, opened: int) -> str:
        self.skip_blanks()
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in "{},:>":
            self.at += 1
        if self.at >= len(self.text):
            self.fail("this brace is never closed.", opened)
        name = self.text[start : self.at].strip()
        if not name:
            self.fail("expected an axis name here.")
        return name
