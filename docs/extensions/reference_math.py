r"""Formulas of JAX's docstrings as text: `\frac{1}{x^2 + 1}` becomes `1 / (x^2 + 1)`.

The site loads nothing from other hosts, so it has no program that sets formulas.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

__all__ = ["plain_formula", "plain_formulas"]

_SYMBOLS = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "Gamma": "Γ",
    "delta": "δ",
    "zeta": "ζ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "pi": "π",
    "psi": "ψ",
    "sigma": "σ",
    "Sigma": "Σ",
    "bmod": "mod",
    "cdot": "·",
    "dots": "...",
    "ge": "≥",
    "geq": "≥",
    "gg": "≫",
    "in": "∈",
    "infty": "∞",
    "int": "∫",
    "lceil": "⌈",
    "ldots": "...",
    "le": "≤",
    "leq": "≤",
    "lfloor": "⌊",
    "ll": "≪",
    "ne": "≠",
    "neg": "¬",
    "neq": "≠",
    "oplus": "⊕",
    "over": "/",
    "prod": "∏",
    "propto": "∝",
    "rceil": "⌉",
    "rfloor": "⌋",
    "sum": "∑",
    "times": "×",
    "to": "→",
    "vee": "∨",
    "wedge": "∧",
}
# Commands that only change how letters look.
_FONTS = ("mathrm", "mathit", "mathbf", "operatorname", "text", "rm")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_ARRAY = re.compile(r"\\left\\\{\s*\\begin\{array\}\{\w+\}(.*?)\\end\{array\}\s*\\right\.", re.S)
_INLINE = re.compile(r":math:`([^`]*)`")
_BLOCK = re.compile(r"(?m)^([ ]*)\.\. math::[ ]*(.*)\n((?:[ ]*\n|\1[ ]+\S.*\n?)*)")


def plain_formulas(text: str) -> str:
    """A docstring with its formulas as code: those in a line, and those in blocks of their own."""

    def block(match: re.Match[str]) -> str:
        indent, first, rest = match.groups()
        formula = plain_formula(f"{first}\n{textwrap.dedent(rest)}")
        if not formula:  # only the first paragraph of the docstring is shown
            return ""
        return f"{indent}.. code-block:: none\n\n{indent}   {formula}\n\n"

    text = _BLOCK.sub(block, text)
    return _INLINE.sub(lambda match: f"`{plain_formula(match[1])}`", text)


def plain_formula(tex: str) -> str:
    """A formula in one line, without commands of LaTeX."""
    tex = _ARRAY.sub(lambda match: f"\\{{ {_cases(match[1])} \\}}", tex)
    text = _converted(re.sub(r"\\(?:left|right)\b\.?", "", tex))
    return re.sub(r"(?<=[⌈⌊]) | (?=[⌉⌋])", "", " ".join(text.split()))


def _cases(rows: str) -> str:
    return "; ".join(" if ".join(row.split("&")) for row in rows.split(r"\\"))


def _converted(tex: str) -> str:
    result, at = "", 0
    while at < len(tex):
        if match := _COMMAND.match(tex, at):
            text, at = _command(match[1], tex, match.end())
            result += text
        elif tex[at] == "\\":
            result, at = result + tex[at + 1 : at + 2].replace(",", " "), at + 2
        elif tex[at] in "^_" and tex[at + 1 : at + 2] == "{":
            inner, end = _group(tex, at + 1)
            result, at = result + tex[at] + _wrapped(_converted(inner)), end
        elif tex[at] == "{":
            inner, at = _group(tex, at)
            result += _converted(inner)
        else:
            result, at = result + tex[at], at + 1
    return result


def _command(name: str, tex: str, at: int) -> tuple[str, int]:
    """The text of a command, and the place after it and its arguments."""
    if name in _FONTS:
        inner, at = _group(tex, at + len(tex[at:]) - len(tex[at:].lstrip()))
        return _converted(inner), at
    if name in _FUNCTIONS:
        index = ""
        if tex[at : at + 1] == "[":
            end = tex.index("]", at)
            index, at = tex[at + 1 : end], end + 1
        count, write = _FUNCTIONS[name]
        arguments = []
        for _ in range(count):
            inner, at = _group(tex, at)
            arguments.append(_converted(inner))
        text = write(index, *arguments)
        is_factor = name == "frac" and re.match(r"\w|\\|\(", tex[at:])
        return f"({text})" if is_factor else text, at
    return _SYMBOLS.get(name, name), at


def _fraction(_: str, a: str, b: str) -> str:
    return f"{_wrapped(a)} / {_wrapped(b)}"


_FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "frac": (2, _fraction),
    "sqrt": (1, lambda index, x: f"{'∛' if index == '3' else '√'}{_wrapped(x)}"),
    "binom": (2, lambda _, n, k: f"binom({n}, {k})"),
    "overline": (1, lambda _, x: f"conj({x})"),
}


def _wrapped(text: str) -> str:
    """A part of a formula in parentheses, unless it is one number or name."""
    return text if re.fullmatch(r"[A-Za-z0-9_]+!?|\w(?:_\w)?|∞|√\([^()]*\)", text) else f"({text})"


def _group(tex: str, at: int) -> tuple[str, int]:
    """What stands in braces at a place, or the one character there, and the place after it."""
    if tex[at : at + 1] != "{":
        return tex[at : at + 1], at + 1
    depth = 0
    for end in range(at, len(tex)):
        depth += {"{": 1, "}": -1}.get(tex[end], 0) * (tex[end - 1] != "\\")
        if depth == 0:
            return tex[at + 1 : end], end + 1
    return tex[at + 1 :], len(tex)
