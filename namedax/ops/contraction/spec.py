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
from typing import NamedTuple, NoReturn

from namedax.core.name_scopes import Renaming
from namedax.core.names import escaped
from namedax.errors import EinsumError

__all__ = ["ELLIPSIS", "EinsumSpec", "Term", "parse_einsum"]

ELLIPSIS = "..."


class Term(NamedTuple):
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


class EinsumSpec:
    """A parsed specification.

    Attributes:
      operands: the operands.
      result: the result; `None` in the implicit form (without an arrow).
      text: the source text.
      renamings: the axes that are read or written under another name.
      mentioned: the summed names and the renamings, for the scope of the operation.
    """

    __slots__ = ("mentioned", "operands", "renamings", "result", "text")

    def __init__(self, operands: tuple[Term, ...], result: Term | None, text: str):
        self.operands, self.result, self.text = operands, result, text
        labels = [label for term in operands for label, _ in term.names]
        terms, kept = operands, [name for name in labels if labels.count(name) == 1]
        if result is not None:
            terms, kept = (*operands, result), [axis for _, axis in result.names]
        pairs = [pair for term in terms for pair in term.names]
        self.renamings = [Renaming(new, old) for new, old in pairs if new != old]
        summed: list[Hashable] = [name for name in labels if name not in kept]
        self.mentioned = tuple(dict.fromkeys([*summed, *self.renamings]))

    def __eq__(self, other: object) -> bool:
        return type(other) is EinsumSpec and (self.text, self.operands, self.result) == (
            other.text,
            other.operands,
            other.result,
        )

    def __hash__(self) -> int:
        return hash(self.text)

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
    if not text.isascii() and escaped(text) != text:
        raise EinsumError(f"einsum: {text!a} is not valid Unicode. Use other axis names.")
    operands, result = [], None
    token, at = ",", -1
    while token == ",":
        term, token, at = _parse_term(text, at + 1)
        operands.append(term)
    if token == "->":
        result, token, at = _parse_term(text, at + 2, is_result=True)
        if token:
            _fail(
                text,
                "the specification must end here. Write one result, without a comma or a second"
                " arrow.",
                at,
            )
    elif token:
        _fail(
            text,
            f"{token!r} has no meaning here. Write one letter per positional axis, names in braces,"
            " commas between operands, and '->' before the result.",
            at,
        )
    return EinsumSpec(tuple(operands), result, text)


_TOKEN = re.compile(r"\s*(->|\.\.\.|\S|\Z)")
# The end of the names that follow a brace.
_END_OF_NAMES = re.compile(r"->|[{}]|\Z")


def _fail(text: str, why: str, at: int) -> NoReturn:
    raise EinsumError(f"einsum: {why}{EinsumSpec((), None, text).point(at)}")


def _parse_term(text: str, at: int, is_result: bool = False) -> tuple[Term, str, int]:
    """Parse one term from offset `at` on; return it with the token that follows, and its offset."""
    letters: list[str] = []
    letters_at: list[int] = []
    names: list[tuple[str, str]] = []
    names_at: list[int] = []
    start = -1
    while match := _TOKEN.match(text, at):
        token, at = match[1], match.start(1)
        start = at if start < 0 else start
        if token == "{":
            at = _parse_names(text, at, names, names_at, "result" if is_result else "operand")
            continue
        if token == ELLIPSIS:
            if ELLIPSIS in letters:
                _fail(text, "a term has a second '...'. Write at most one.", at)
        elif not token.isalpha():
            break
        elif is_result and token in letters:
            _fail(
                text,
                f"letter {token!r} appears twice in the result. Use a separate letter for each"
                " axis.",
                at,
            )
        letters.append(token)
        letters_at.append(at)
        at = match.end()
    source = text[start:at].strip()
    term = Term(tuple(letters), tuple(names), source, start, tuple(letters_at), tuple(names_at))
    return term, token, at


def _parse_names(
    text: str, opened: int, names: list[tuple[str, str]], names_at: list[int], where: str
) -> int:
    """Add the names after the brace at offset `opened`; return the offset after the next brace."""
    at = opened + 1
    end = _END_OF_NAMES.search(text, at)
    assert end is not None
    inside = text[at : end.start()]
    if end[0] == "}" and not inside.strip():
        return end.end()
    for part in inside.split(","):
        begin = at + len(part) - len(part.lstrip())
        fields = part.split(":")
        for field in fields[:2]:
            at += len(field)
            if at == end.start() and end[0] != "}":
                _fail(text, "this brace is never closed.", opened)
            if not field.strip():
                _fail(text, "expected an axis name here.", at)
            at += 1
        label, axis = fields[0].strip(), fields[:2][-1].strip()
        for other_label, other_axis in names:
            if other_label == label and (where == "result" or other_axis == axis):
                hint = (
                    "" if where == "result" else " For the diagonal over two axes, write {a, a:b}."
                )
                _fail(text, f"name {label!r} appears twice in one {where}.{hint}", begin)
            if other_axis == axis:
                verb = "written" if where == "result" else "read"
                _fail(text, f"axis {axis!r} is {verb} twice in one {where}.", begin)
        if len(fields) > 2:
            _fail(text, "expected ',' or '}' after a name.", at - 1)
        names.append((label, axis))
        names_at.append(begin)
    return at
