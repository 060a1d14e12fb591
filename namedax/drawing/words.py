"""Text in pictures: lists of devices, times, and lines that are broken or shortened to a width."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

__all__ = ["broken", "count_of", "devices_text", "shortened", "time_text", "time_unit"]

_LONGEST_LIST = 130  # characters: 32 devices of up to 64


def devices_text(ids: Sequence[int]) -> str:
    """Return the numbers of devices in the shortest exact form; for many devices, the ends and the count.

    >>> devices_text([0, 1]), devices_text(range(8)), devices_text(range(0, 64, 4)), devices_text([0, 1, 2, 8, 9, 10])
    ('0, 1', '0–7', '0, 4, … 60', '0–2, 8–10')
    """
    ids = sorted(ids)
    steps = {b - a for a, b in itertools.pairwise(ids)}
    if len(ids) > 4 and len(steps) == 1 and steps != {1}:
        return f"{ids[0]}, {ids[1]}, … {ids[-1]}"
    pieces: list[str] = []
    for first, last in _runs(ids):
        pieces += [f"{first}–{last}"] if last - first > 1 else [str(number) for number in range(first, last + 1)]
    text = ", ".join(pieces)
    return text if len(text) <= _LONGEST_LIST else f"{pieces[0]}, {pieces[1]}, … {pieces[-1]} ({len(ids):,})"


def _runs(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last of every run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in ids:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def count_of(number: int, what: str) -> str:
    """Return a number of things, in English.

    >>> count_of(1, "device"), count_of(4096, "device")
    ('1 device', '4,096 devices')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the most readable unit for a time, and its size in seconds."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return unit, size
    return "ns", 1e-9


def time_text(seconds: float) -> str:
    """Return a time as readable text.

    >>> time_text(0.0000123), time_text(1.5), time_text(0.0), time_text(0.31)
    ('12.3 µs', '1.50 s', '0 ns', '310 ms')
    """
    unit, size = time_unit(seconds)
    value = seconds / size
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(value) + 1e-9))
    return f"{value:,.{digits}f} {unit}"


def broken(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """Break a text at its spaces into lines no wider than `width`, unless a single word is wider."""
    lines: list[str] = []
    for word in text.split():
        if lines and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def shortened(text: str, width: float, measure: Callable[[str], float]) -> str:
    """Shorten a text at its beginning as needed: the end of a path is the most informative part."""
    if measure(text) <= width:
        return text
    first = next((i for i in range(1, len(text)) if measure("…" + text[i:]) <= width), len(text))
    return "…" + text[first:]
