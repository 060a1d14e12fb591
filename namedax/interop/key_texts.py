"""Keys and paths in messages, with the ranges of their numbers."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Sequence

__all__ = ["collapsed", "listed", "text_of_numbers"]

_NUMBER = re.compile(r"(?:(?<=^)|(?<=\.))[0-9]+(?=\.|$)")


def collapsed(keys: Iterable[str]) -> list[str]:
    """Return keys with ranges in place of numbers, in their order.

    >>> from namedax.interop.key_texts import collapsed
    >>> collapsed(["a.0.w", "a.1.w", "a.3.w", "b"])
    ['a.{0-1,3}.w', 'b']
    """
    groups: dict[str, list[tuple[int, ...]]] = {}
    for key in keys:
        numbers = tuple(int(match[0]) for match in _NUMBER.finditer(key))
        groups.setdefault(_NUMBER.sub("{}", key), []).append(numbers)
    result = []
    for template, found in groups.items():
        columns = [sorted(set(column)) for column in zip(*found, strict=True)]
        if len(set(found)) != math.prod(map(len, columns)):
            result += [_filled(template, map(str, numbers)) for numbers in found]
        else:
            result.append(_filled(template, map(text_of_numbers, columns)))
    return result


def _filled(template: str, texts: Iterable[str]) -> str:
    supply = iter(texts)
    return re.sub(r"\{\}", lambda _: next(supply), template)


def text_of_numbers(numbers: Sequence[int]) -> str:
    """Return the text of ascending integers, such as `{0-1,3}`.

    A dash includes the last number. In a spec, `{layers:0..2}` excludes it.

    >>> from namedax.interop.key_texts import text_of_numbers
    >>> text_of_numbers([0, 1, 3]), text_of_numbers([2])
    ('{0-1,3}', '2')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return texts[0] if len(numbers) == 1 else f"{{{','.join(texts)}}}"


def listed(keys: Collection[str], most: int = 4) -> str:
    """Return the first keys as text, by default 4, and the number of the others."""
    shown = ", ".join(map(repr, itertools.islice(keys, most)))
    return f"{shown} and {len(keys) - most} more" if len(keys) > most else shown
