"""The colors of pictures: one for each device, and one for each kind of step."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["FAINT", "GREY", "INK", "OTHERS", "PALETTE", "PAPER", "RULE", "DeviceColours", "colours_of_kinds", "ink_on"]

Colour = tuple[float, float, float]


def _rgb(text: str) -> Colour:
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


INK, GREY, FAINT, RULE, PAPER = _rgb("#22272E"), _rgb("#5F6770"), _rgb("#A9AFB7"), _rgb("#D5DAE0"), (1.0, 1.0, 1.0)

#: Blue, orange, red, teal, green, yellow, purple, pink.
PALETTE = tuple(map(_rgb, ("#4E79A7", "#F28E2B", "#E15759", "#76B7B2", "#59A14F", "#D9B433", "#B07AA1", "#F58F98")))

_LIGHTEST = 0.58


class DeviceColours:
    """A color for each device, by its number. With more than eight devices, neighbors are shades of one hue.

    Args:
      ids: the numbers of all devices.

    >>> colours = DeviceColours(range(64))
    >>> len({colours[number] for number in range(64)})
    64
    """

    def __init__(self, ids: Iterable[int]):
        self._ranks = {number: rank for rank, number in enumerate(sorted(set(ids)))}

    def __len__(self) -> int:
        return len(self._ranks)

    def __getitem__(self, number: int) -> Colour:
        shades = -(-len(self) // len(PALETTE))
        hue, shade = divmod(self._ranks[number], shades)
        return _lighter(PALETTE[hue], _LIGHTEST * shade / max(shades - 1, 1))


def _lighter(colour: Colour, by: float) -> Colour:
    red, green, blue = (part + by * (1 - part) for part in colour)
    return red, green, blue


def ink_on(colour: Colour) -> Colour:
    """Return white or dark, the more readable one on a color."""
    red, green, blue = colour
    return PAPER if 0.299 * red + 0.587 * green + 0.114 * blue < 0.62 else INK


# A kind of collective has the same color in every picture; `namedax.hlo` has the kinds.
_COLLECTIVES = {
    "all-reduce": PALETTE[2],
    "all-gather": PALETTE[1],
    "reduce-scatter": PALETTE[6],
    "all-to-all": PALETTE[4],
    "ragged-all-to-all": _rgb("#2F6B3A"),
    "collective-permute": PALETTE[5],
    "collective-broadcast": _rgb("#9C6B4E"),
}
_OPERATIONS = (PALETTE[0], PALETTE[3], _rgb("#34495E"), _rgb("#9AC0E0"), _rgb("#2E7F78"))
#: The color of kinds without their own color.
OTHERS = FAINT


def colours_of_kinds(kinds: Iterable[str]) -> dict[str, Colour]:
    """Return a color for each kind of step; operations get theirs in order, and those after the first five share one.

    >>> list(colours_of_kinds(["dot_general", "all-reduce"])) == ["dot_general", "all-reduce"]
    True
    """
    operations = iter(_OPERATIONS)
    return {kind: _COLLECTIVES[kind] if kind in _COLLECTIVES else next(operations, OTHERS) for kind in dict.fromkeys(kinds)}
