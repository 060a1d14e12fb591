"""Parser of einsum specifications with braces, which produces a small frozen plan.

Each positional axis has one letter, and axis names are in braces: `"n{b,k},{k,m}->n{b,m}"`. In an
operand, `{new:old}` reads its axis `old` under the name `new` (two axes under one name: the
diagonal). In the result, it writes the axis `old` under the name `new`. `...` denotes the
positional axes without a letter.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable
from typing import NoReturn

from namedax.core.name_scopes import Renaming
from namedax.core.names import escaped
from namedax.core.records import Record
from namedax.errors import EinsumError

__all__ = ["ELLIPSIS", "EinsumSpec", "Term", "parse_einsum"]

ELLIPSIS = "..."


class Term(Record):
    """One operand, or the result.

    Attributes:
      letters: the positional axes in order, letters and at most one `"..."`.
      names: pairs `(label, axis)`. In an operand, the specification calls its axis `axis` by the
        name `label`. In the result, the axis that the specification calls `axis` has the name
        `label`.
      text: the source text of the term.
      at: the offset of the term in the specification.
      letters_at: the offset of each of `letters`.
      names_at: the offset of each of `names`.
    """

    letters: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    text: str
    at: int
    letters_at: tuple[int, ...]
    names_at: tuple[int, ...]


class EinsumSpec(Record):
    """A parsed specification; `result` is `None` in the implicit form (without an arrow)."""

    operands: tuple[Term, ...]
    result: Term | None
    text: str

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The operands and the result."""
        return self.operands if self.result is None else (*self.operands, self.result)

    @functools.cached_property
    def renamings(self) -> tuple[Renaming, ...]:
        """The axes that are read or written under another name."""
        pairs = [pair for term in self.terms for pair in term.names]
        return tuple([Renaming(new, old) for new, old in pairs if new != old])

    @functools.cached_property
    def mentioned(self) -> tuple[Hashable, ...]:
        """Return the summed names and the renamings, for the scope of the operation."""
        labels = [label for term in self.operands for label, _ in term.names]
        kept = (
            {axis for _, axis in self.result.names}
            if self.result
            else {name for name in labels if labels.count(name) == 1}
        )
        summed = [name for name in labels if name not in kept]
        return tuple(dict.fromkeys([*summed, *self.renamings]))

    def renamed(self, number: Callable[[Hashable], Hashable]) -> EinsumSpec:
        """Replace every name by `number(name)`, and drop the text of the specification."""

        def of(term: Term) -> Term:
            names = tuple((number(label), number(axis)) for label, axis in term.names)
            letters_at, names_at = (0,) * len(term.letters), (0,) * len(names)
            return Term(term.letters, names, "", 0, letters_at, names_at)  # type: ignore[arg-type]

        result = None if self.result is None else of(self.result)
        return EinsumSpec(tuple(map(of, self.operands)), result, "")

    def point(self, at: int) -> str:
        """Format the specification with a caret under offset `at`, to end a message."""
        return f"\n  {self.text}\n  {' ' * at}^"


@functools.lru_cache(maxsize=2048)
def parse_einsum(text: str) -> EinsumSpec:
    """Parse a specification.

    Raises:
      EinsumError: it is malformed; the message has a caret under the error.

    >>> from namedax.ops.contraction.spec import parse_einsum
    >>> spec = parse_einsum("n{b,k},{k,m:j}->n{b,m}")
    >>> spec.operands[1].names, spec.result.letters
    ((('k', 'k'), ('m', 'j')), ('n',))
    >>> parse_einsum("n{b,k->n{b}")
    Traceback (most recent call last):
    namedax.errors.EinsumError: einsum: this brace is never closed.
      n{b,k->n{b}
       ^
    [NX016]
    """
    if escaped(text) != text:
        raise EinsumError(f"einsum: {text!a} is not valid Unicode. Use other axis names.")
    return _Parser(text).parse()


_TOKEN = re.compile(r"->|\.\.\.|\S")


class _Parser:
    """A parser of one specification.

    Attributes:
      text: the specification.
      tokens: its arrows, `...` and other characters without white space, each with its offset; the
        last one is empty.
      index: the number of tokens that have been read.
    """

    def __init__(self, text: str):
        self.text = text
        self.tokens = [(match[0], match.start()) for match in _TOKEN.finditer(text)]
        self.tokens.append(("", len(text)))
        self.index = 0

    def fail(self, why: str, at: int | None = None) -> NoReturn:
        spec = EinsumSpec((), None, self.text)
        raise EinsumError(
            f"einsum: {why}{spec.point(self.tokens[self.index][1] if at is None else at)}"
        )

    def parse(self) -> EinsumSpec:
        operands = [self.term()]
        result = None
        while token := self.tokens[self.index][0]:
            if token == ",":
                self.index += 1
                operands.append(self.term())
            elif token == "->":
                self.index += 1
                result = self.term(is_result=True)
                if self.tokens[self.index][0]:
                    self.fail(
                        "the specification must end here. Write one result, without a comma or a"
                        " second arrow."
                    )
            else:
                self.fail(
                    f"{token!r} has no meaning here. Write one letter per positional axis, names in"
                    " braces, commas between operands, and '->' before the result."
                )
        return EinsumSpec(tuple(operands), result, self.text)

    def term(self, is_result: bool = False) -> Term:
        start = self.tokens[self.index][1]
        letters: list[str] = []
        letters_at: list[int] = []
        names: list[tuple[str, str]] = []
        names_at: list[int] = []
        while True:
            token, at = self.tokens[self.index]
            if token == "{":
                self.braces(names, names_at, "result" if is_result else "operand")
                continue
            if token == ELLIPSIS:
                if ELLIPSIS in letters:
                    self.fail("a term has a second '...'. Write at most one.")
            elif not token.isalpha():
                break
            elif is_result and token in letters:
                self.fail(
                    f"letter {token!r} appears twice in the result. Use a separate letter for each"
                    " axis."
                )
            letters.append(token)
            letters_at.append(at)
            self.index += 1
        text = self.text[start:at].strip()
        return Term(tuple(letters), tuple(names), text, start, tuple(letters_at), tuple(names_at))

    def braces(self, names: list[tuple[str, str]], names_at: list[int], where: str) -> None:
        opened = self.tokens[self.index][1]
        self.index += 1
        if self.tokens[self.index][0] == "}":
            self.index += 1
            return
        char = ","
        while char == ",":
            begin = self.tokens[self.index][1]
            label = axis = self.name(opened)
            if self.tokens[self.index][0] == ":":
                self.index += 1
                axis = self.name(opened)
            for other_label, other_axis in names:
                if other_label == label and (where == "result" or other_axis == axis):
                    hint = (
                        ""
                        if where == "result"
                        else " For the diagonal over two axes, write {a, a:b}."
                    )
                    self.fail(f"name {label!r} appears twice in one {where}.{hint}", begin)
                if other_axis == axis:
                    verb = "written" if where == "result" else "read"
                    self.fail(f"axis {axis!r} is {verb} twice in one {where}.", begin)
            names.append((label, axis))
            names_at.append(begin)
            char = self.tokens[self.index][0]
            if char not in (",", "}"):
                self.fail("expected ',' or '}' after a name.")
            self.index += 1

    def name(self, opened: int) -> str:
        start = self.tokens[self.index][1]
        while (token := self.tokens[self.index][0]) not in ("}", ",", ":"):
            if token in ("", "->", "{"):
                self.fail("this brace is never closed.", opened)
            self.index += 1
        name = self.text[start : self.tokens[self.index][1]].strip()
        if not name:
            self.fail("expected an axis name here.")
        return name
