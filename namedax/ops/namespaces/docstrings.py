"""Docstrings of functions that have the parameters of another function.

They are in Google's style: a line `Args:`, and an indented entry for each parameter.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping

__all__ = ["with_parameters"]

_ARGS = re.compile(r"^Args:\n((?:[ ]+\S.*(?:\n|\Z)|\n(?=[ ]))*)", re.MULTILINE)
_ENTRY = re.compile(r"^  (\*{0,2}\w+):", re.MULTILINE)
_NEXT_SECTION = re.compile(r"^(?:Returns|Communication|Raises)\b.*:|^>>> ", re.MULTILINE)


def with_parameters(
    doc: str,
    parameters: Iterable[str],
    renamed: Mapping[str, str],
    text_of: Callable[[str], str],
) -> str:
    r"""Return the docstring of a function for other parameters.

    Args:
      doc: the docstring, without indentation.
      parameters: the parameters, in their order; one that begins with an underscore is left out.
      renamed: the parameters that `doc` describes, by their new names.
      text_of: returns the description of a parameter that `doc` lacks.

    >>> from namedax.ops.namespaces.docstrings import with_parameters
    >>> doc = "Sum.\n\nArgs:\n  x: an array.\n\nRaises:\n  TypeError: `x` is a list."
    >>> print(with_parameters(doc, ["a", "out"], {"a": "x"}, "not supported: {}.".format))
    Sum.
    <BLANKLINE>
    Args:
      a: an array.
      out: not supported: out.
    <BLANKLINE>
    Raises:
      TypeError: `a` is a list.
    """
    entries = _entries(doc)
    text = "".join(
        _renamed_entry(entries[renamed[name]], renamed[name], name)
        if renamed.get(name) in entries
        else f"  {name}: {text_of(name)}\n"
        for name in parameters
        if not name.startswith("_")
    )
    doc = _with_args(doc, text)
    for name, old in renamed.items():
        if name != old:
            doc = doc.replace(f"`{old}`", f"`{name}`")
    return doc


def _entries(doc: str) -> dict[str, str]:
    """Return the entries of `Args:` by the parameter, each with its name and its lines."""
    match = _ARGS.search(doc)
    if match is None:
        return {}
    text = match[1].rstrip("\n") + "\n"
    starts = [entry.start() for entry in _ENTRY.finditer(text)]
    parts = [text[a:b] for a, b in itertools.pairwise([*starts, len(text)])]
    return {part.strip().partition(":")[0].lstrip("*"): part for part in parts}


def _renamed_entry(entry: str, old: str, name: str) -> str:
    return re.sub(rf"^(  \**){old}:", rf"\g<1>{name}:", entry)


def _with_args(doc: str, entries: str) -> str:
    """Return a docstring with the given entries in `Args:`, before the other sections."""
    section = f"Args:\n{entries}"
    if match := _ARGS.search(doc):
        rest = doc[match.end() :]
        return doc[: match.start()] + section + ("\n" if match[1].endswith("\n\n") else "") + rest
    following = _NEXT_SECTION.search(doc)
    if following is None:
        return f"{doc.rstrip()}\n\n{section}"
    return f"{doc[: following.start()]}{section}\n{doc[following.start() :]}"
