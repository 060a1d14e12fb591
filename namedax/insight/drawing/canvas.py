"""A canvas: a matplotlib figure measured in inches from its upper left corner.

Text is measured before it is placed, so that the drawing has room for its labels. The module also
has the colors of pictures, and lists and legends for text that is too long for its place.
Matplotlib is imported when a canvas is made. Figures are made without pyplot, so that none stays
open and the user's settings do not change. The user's settings do not affect the drawing either.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from namedax.core.records import Record
from namedax.insight.analysis.records import Collective, Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

__all__ = [
    "FAINT",
    "GRAY",
    "INK",
    "OTHERS",
    "PALETTE",
    "PAPER",
    "RULE",
    "Canvas",
    "DeviceColors",
    "Entry",
    "broken",
    "colors_of_kinds",
    "count_of",
    "devices_text",
    "draw_legend",
    "draw_list",
    "draw_marks",
    "height_of",
    "ink_on",
    "legend_height",
    "list_height",
    "new_canvas",
    "shortened",
    "step_text",
    "svg",
    "text_height",
    "text_width",
    "time_text",
    "time_unit",
]


# --- text in pictures: lists of devices, times, and lines that are broken or shortened to a width


_LONGEST_LIST = 130  # characters: 32 devices of up to 64


def devices_text(ids: Sequence[int]) -> str:
    """Return the numbers of devices in the shortest exact form, or the ends and the count.

    >>> from namedax.insight.drawing.canvas import devices_text
    >>> devices_text([0, 1]), devices_text(range(8)), devices_text(range(0, 64, 4))
    ('0, 1', '0–7', '0, 4, … 60')
    >>> devices_text([0, 1, 2, 8, 9, 10])
    '0–2, 8–10'
    """
    ids = sorted(ids)
    steps = {b - a for a, b in itertools.pairwise(ids)}
    if len(ids) > 4 and len(steps) == 1 and steps != {1}:
        return f"{ids[0]}, {ids[1]}, … {ids[-1]}"
    pieces: list[str] = []
    for first, last in _runs(ids):
        pieces += (
            [f"{first}–{last}"]
            if last - first > 1
            else [str(number) for number in range(first, last + 1)]
        )
    text = ", ".join(pieces)
    return (
        text
        if len(text) <= _LONGEST_LIST
        else f"{pieces[0]}, {pieces[1]}, … {pieces[-1]} ({len(ids):,})"
    )


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

    >>> from namedax.insight.drawing.canvas import count_of
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

    >>> from namedax.insight.drawing.canvas import time_text
    >>> time_text(0.0000123), time_text(1.5), time_text(0.0), time_text(0.31)
    ('12.3 µs', '1.50 s', '0 ns', '310 ms')
    """
    unit, size = time_unit(seconds)
    value = seconds / size
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(value) + 1e-9))
    return f"{value:,.{digits}f} {unit}"


def broken(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """Break a text at spaces into lines of at most `width`, unless a single word is wider."""
    lines: list[str] = []
    for word in text.split():
        if lines and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def shortened(text: str, width: float, measure: Callable[[str], float]) -> str:
    """Shorten a text at its end as needed, with an ellipsis."""
    if measure(text) <= width:
        return text
    last = next((i for i in range(len(text), 0, -1) if measure(text[:i] + "…") <= width), 0)
    return text[:last].rstrip() + "…"


# --- the colors of pictures: one for each device, and one for each kind of step -------------------


Color = tuple[float, float, float]


def _rgb(text: str) -> Color:
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


INK, GRAY, FAINT, RULE, PAPER = (
    _rgb("#22272E"),
    _rgb("#5F6770"),
    _rgb("#A9AFB7"),
    _rgb("#D5DAE0"),
    (1.0, 1.0, 1.0),
)

#: Blue, orange, red, teal, green, yellow, purple, pink.
PALETTE = tuple(
    map(
        _rgb,
        ("#4E79A7", "#F28E2B", "#E15759", "#76B7B2", "#59A14F", "#D9B433", "#B07AA1", "#F58F98"),
    )
)

_LIGHTEST = 0.58


class DeviceColors:
    """A color for each device, by its number.

    With more than eight devices, neighbors are shades of one hue.

    Args:
      ids: the numbers of all devices.

    >>> from namedax.insight.drawing.canvas import DeviceColors
    >>> colors = DeviceColors(range(64))
    >>> len({colors[number] for number in range(64)})
    64
    """

    def __init__(self, ids: Iterable[int]):
        self._ranks = {number: rank for rank, number in enumerate(sorted(set(ids)))}

    def __len__(self) -> int:
        return len(self._ranks)

    def __getitem__(self, number: int) -> Color:
        shades = -(-len(self) // len(PALETTE))
        hue, shade = divmod(self._ranks[number], shades)
        return _lighter(PALETTE[hue], _LIGHTEST * shade / max(shades - 1, 1))


def _lighter(color: Color, by: float) -> Color:
    red, green, blue = (part + by * (1 - part) for part in color)
    return red, green, blue


def ink_on(color: Color) -> Color:
    """Return white or dark, the more readable one on a color."""
    red, green, blue = color
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


def colors_of_kinds(kinds: Iterable[str]) -> dict[str, Color]:
    """Return a color for each kind of step.

    Operations get theirs in order, and those after the first five share one.

    >>> from namedax.insight.drawing.canvas import colors_of_kinds
    >>> list(colors_of_kinds(["dot_general", "all-reduce"])) == ["dot_general", "all-reduce"]
    True
    """
    operations = iter(_OPERATIONS)
    return {
        kind: _COLLECTIVES[kind] if kind in _COLLECTIVES else next(operations, OTHERS)
        for kind in dict.fromkeys(kinds)
    }


FONT = "DejaVu Sans"  # included in matplotlib
_DPI = 120


def require_matplotlib(op: str) -> None:
    """Raise an `ImportError` with install instructions if matplotlib is missing."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{op}: matplotlib is not installed. Install it with `pip install 'namedax[draw]'`."
        ) from error


@functools.cache
def _picture_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that notebooks show as SVG, without further setup of matplotlib."""

        def _repr_svg_(self) -> str:
            return svg(self)

    return Picture


@functools.lru_cache(maxsize=64)
def _fonts(size: float, weight: str) -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=[FONT], size=size, weight=weight)


@functools.lru_cache(4096)
def _measured(text: str, size: float, weight: str) -> tuple[float, float]:
    from matplotlib.textpath import TextToPath

    width, height, _ = TextToPath().get_text_width_height_descent(text, _fonts(size, weight), False)
    return width / 72, height / 72


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a text in inches, that of its widest line; `size` is in points."""
    return max((_measured(line, size, weight)[0] for line in text.split("\n")), default=0.0)


def text_height(text: str, size: float) -> float:
    """Return the height of the lines of a text, in inches."""
    return (text.count("\n") + 1) * height_of(size)


def height_of(size: float) -> float:
    """Return the height of a line of text, with the space to the next, in inches."""
    return 1.3 * size / 72


class Canvas:
    """A drawing area: axes whose units are inches, to the right and downwards.

    Args:
      axes: the axes, which are used only by this canvas.
      width: their width in inches.
      height: their height in inches.
    """

    def __init__(self, axes: Axes, width: float, height: float):
        axes.set_axis_off()
        axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes, self.width, self.height = axes, width, height

    @property
    def figure(self) -> Any:
        """The figure that contains the canvas."""
        return self.axes.figure

    def rectangle(
        self, x: float, y: float, width: float, height: float, color: Color, **style: Any
    ) -> None:
        """Draw a filled rectangle with its upper left corner at (x, y)."""
        from matplotlib.patches import Rectangle

        self.axes.add_artist(
            Rectangle(
                (x, y),
                width,
                height,
                facecolor=color,
                **{"edgecolor": PAPER, "linewidth": 0.5, **style},
            )
        )

    def ellipse(self, x: float, y: float, width: float, height: float, color: Color) -> None:
        """Draw a filled ellipse in the rectangle with its upper left corner at (x, y)."""
        from matplotlib.patches import Ellipse

        middle = x + width / 2, y + height / 2
        self.axes.add_artist(
            Ellipse(middle, width, height, facecolor=color, edgecolor=PAPER, linewidth=0.5)
        )

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        color: Color,
        width: float = 0.8,
        **style: Any,
    ) -> None:
        """Draw a line through points, behind everything else."""
        self.axes.plot(
            xs, ys, color=color, linewidth=width, solid_capstyle="butt", zorder=0.5, **style
        )

    def text(
        self, x: float, y: float, text: str, size: float = 8, color: Color = INK, **style: Any
    ) -> None:
        """Draw a text from (x, y) to the right and downwards, unless `ha` and `va` differ.

        No character has a special meaning.
        """
        weight = style.pop("weight", "normal")
        write(
            self.axes,
            x,
            y,
            text,
            fontproperties=_fonts(size, weight),
            color=color,
            **{"va": "top", "ha": "left", **style},
        )

    def paragraph(
        self,
        x: float,
        y: float,
        text: str,
        width: float,
        size: float = 8,
        color: Color = GRAY,
        **style: Any,
    ) -> float:
        """Draw a text broken into lines of a width, and return its lower end."""
        for line in lines_of(text, width, size, style.get("weight", "normal")):
            self.text(x, y, line, size, color, **style)
            y += height_of(size)
        return y


def write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Draw text on axes; no character has a special meaning."""
    axes.text(x, y, text, parse_math=False, usetex=False, **style)


def style_of(size: float, weight: str = "normal") -> FontProperties:
    """Return the font of labels that matplotlib places."""
    return _fonts(size, weight)


def lines_of(text: str, width: float, size: float, weight: str = "normal") -> list[str]:
    """Break a text into lines of at most `width` inches."""
    return broken(text, width, lambda line: text_width(line, size, weight))


def new_canvas(width: float, height: float, op: str) -> Canvas:
    """Return a canvas that is a complete new figure.

    Raises:
      ImportError: matplotlib is not installed.
    """
    require_matplotlib(op)
    with _default_settings():
        figure: Figure = _picture_class()(
            figsize=(width, height), dpi=_DPI, facecolor=PAPER, edgecolor=PAPER
        )
        return Canvas(figure.add_axes((0, 0, 1, 1)), width, height)


def canvas_on(axes: Axes) -> Canvas:
    """Return a canvas on existing axes, with their size on paper."""
    box = axes.get_window_extent()
    dpi = axes.figure.dpi
    return Canvas(axes, box.width / dpi, box.height / dpi)


def plot_axes(canvas: Canvas, x: float, y: float, width: float, height: float) -> Axes:
    """Return axes with their own scale on a part of a canvas.

    The part begins at (x, y) downwards from the upper left corner.
    """
    place = (
        x / canvas.width,
        1 - (y + height) / canvas.height,
        width / canvas.width,
        height / canvas.height,
    )
    with _default_settings():
        axes: Axes = canvas.figure.add_axes(place)
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set(color=GRAY, linewidth=0.8)
    axes.tick_params(which="both", colors=GRAY, direction="out", length=3, width=0.8, pad=3.5)
    axes.tick_params(which="both", top=False, right=False, labelsize=8, labelfontfamily=FONT)
    axes.grid(False, which="both")
    return axes


def _default_settings() -> contextlib.AbstractContextManager[None]:
    """Return a context in which matplotlib has its default settings and not the user's."""
    import matplotlib.style

    return matplotlib.style.context("default")


def svg(figure: Figure) -> str:
    """Return a figure as SVG text, from `<svg` on, for an HTML page.

    Raises:
      ImportError: matplotlib is not installed.
    """
    require_matplotlib("svg")
    import matplotlib

    text = io.StringIO()
    with (
        _default_settings(),
        matplotlib.rc_context({"svg.hashsalt": "namedax", "svg.fonttype": "path"}),
    ):  # deterministic output
        figure.savefig(
            text, format="svg", facecolor=figure.get_facecolor(), metadata={"Date": None}
        )
    # On a narrower page the picture shrinks as a whole.
    return re.sub(
        r"^.*?<svg\b",
        '<svg style="max-width:100%;height:auto"',
        text.getvalue(),
        count=1,
        flags=re.DOTALL,
    )


# --- lists, legends and numbers: for text that is too long for its place --------------------------


TEXT = 8.0
_FIGURE, _SQUARE = 0.95, 0.11  # the width of a column of figures, and of a colored square
_MARK = 0.2  # the minimum distance between numbers


class Entry(Record):
    """A line of a list: its text, its color, and figures in columns."""

    text: str
    color: Color
    figures: tuple[str, ...]


def step_text(step: Step) -> str:
    """Return the text of a step: its kind, its names, and its origin."""
    words = [step.kind]
    names = ", ".join(step.names)
    if step.operation:
        words.append(
            step.operation + (f" {{{names}}}" if names and "{" not in step.operation else "")
        )
    elif names:
        words.append(f"{{{names}}}")
    words += [f"arrival of {step.arrival}"] if isinstance(step, Collective) and step.arrival else []
    words += [step.source] if step.source else []
    words += ["gradient"] if step.phase == "gradient" else []
    return ", ".join(words)


def _lines(entry: Entry, width: float) -> list[str]:
    room = width - 0.5 - _FIGURE * len(entry.figures)
    lines = lines_of(entry.text, room, TEXT)
    return [shortened(line, room, lambda text: text_width(text, TEXT)) for line in lines]


def list_height(entries: Sequence[Entry], width: float) -> float:
    """Return the height of a list."""
    return sum(max(len(_lines(entry, width)), 1) for entry in entries) * height_of(TEXT)


def draw_list(
    canvas: Canvas,
    x: float,
    y: float,
    width: float,
    entries: Sequence[Entry],
    numbered: bool = True,
) -> float:
    """Draw a list, numbered from 1, and return its lower end."""
    for i, entry in enumerate(entries):
        if numbered:
            canvas.text(x + 0.16, y, str(i + 1), TEXT, INK, ha="right", weight="bold")
        canvas.rectangle(x + 0.24, y + 0.008, _SQUARE, _SQUARE, entry.color)
        for j, figure in enumerate(reversed(entry.figures)):
            canvas.text(x + width - _FIGURE * j, y, figure, TEXT, GRAY, ha="right")
        for line in _lines(entry, width):
            canvas.text(x + 0.42, y, line, TEXT)
            y += height_of(TEXT)
    return y


def _legend_places(entries: Sequence[tuple[str, Color]], width: float) -> list[tuple[float, float]]:
    places, x, y = [], 0.0, 0.0
    for text, _ in entries:
        wide = text_width(text, TEXT) + 0.36
        if x and x + wide > width:
            x, y = 0.0, y + height_of(TEXT) + 0.02
        places.append((x, y))
        x += wide
    return places


def legend_height(entries: Sequence[tuple[str, Color]], width: float) -> float:
    """Return the height of a legend."""
    return _legend_places(entries, width)[-1][1] + height_of(TEXT) if entries else 0.0


def draw_legend(
    canvas: Canvas, x: float, y: float, width: float, entries: Sequence[tuple[str, Color]]
) -> None:
    """Draw texts with their colors, side by side."""
    for (text, color), (right, down) in zip(entries, _legend_places(entries, width), strict=True):
        canvas.rectangle(x + right, y + down + 0.008, _SQUARE, _SQUARE, color)
        canvas.text(x + right + 0.17, y + down, text, TEXT)


def _spread(wanted: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions in order, near the wanted ones and at least `_MARK` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [0.0] * len(wanted)
    least = low
    for rank, i in enumerate(order):
        latest = high - _MARK * (len(order) - 1 - rank)
        places[i] = max(min(wanted[i], latest), least)
        least = places[i] + _MARK
    return places


def draw_marks(
    canvas: Canvas, points: Sequence[tuple[float, float]], y: float, low: float, high: float
) -> None:
    """Draw numbers from 1 at height `y` between `low` and `high`, with lines to their points."""
    for i, (place, (x, end)) in enumerate(
        zip(_spread([x for x, _ in points], low, high), points, strict=True)
    ):
        canvas.line([place, x, x], [y, y + 0.4 * (end - y), end], FAINT, 0.7)
        canvas.ellipse(place - 0.085, y - 0.085, 0.17, 0.17, INK)
        canvas.text(
            place, y, str(i + 1), 7, PAPER, ha="center", va="center_baseline", weight="bold"
        )
