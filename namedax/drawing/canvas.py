"""A canvas: a matplotlib figure measured in inches from its upper left corner.

Text is measured before it is placed, so that the drawing has room for its labels. Matplotlib is imported when a canvas is made.
Figures are made without pyplot, so that none stays open and the user's settings do not change. The user's settings do not
affect the drawing either.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from namedax.drawing.colours import GREY, INK, PAPER, Colour
from namedax.drawing.words import broken

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Canvas", "height_of", "new_canvas", "svg", "text_height", "text_width"]

FONT = "DejaVu Sans"  # included in matplotlib
_DPI = 120


def require_matplotlib(op: str) -> None:
    """Raise an `ImportError` with install instructions if matplotlib is missing."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{op}: matplotlib is not installed. Install it with `pip install namedax[draw]`.") from error


@functools.cache
def _picture_class() -> Any:
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that notebooks show as SVG, without further setup of matplotlib."""

        def _repr_svg_(self) -> str:
            return svg(self)

    return Picture


@functools.lru_cache(maxsize=64)
def _fonts(size: float, weight: str) -> Any:
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

    def rectangle(self, x: float, y: float, width: float, height: float, colour: Colour, **style: Any) -> None:
        """Draw a filled rectangle with its upper left corner at (x, y)."""
        from matplotlib.patches import Rectangle

        self.axes.add_artist(
            Rectangle((x, y), width, height, facecolor=colour, **{"edgecolor": PAPER, "linewidth": 0.5, **style})
        )

    def ellipse(self, x: float, y: float, width: float, height: float, colour: Colour) -> None:
        """Draw a filled ellipse in the rectangle with its upper left corner at (x, y)."""
        from matplotlib.patches import Ellipse

        middle = x + width / 2, y + height / 2
        self.axes.add_artist(Ellipse(middle, width, height, facecolor=colour, edgecolor=PAPER, linewidth=0.5))

    def line(self, xs: Sequence[float], ys: Sequence[float], colour: Colour, width: float = 0.8, **style: Any) -> None:
        """Draw a line through points, behind everything else."""
        self.axes.plot(xs, ys, color=colour, linewidth=width, solid_capstyle="butt", zorder=0.5, **style)

    def text(self, x: float, y: float, text: str, size: float = 8, colour: Colour = INK, **style: Any) -> None:
        """Draw a text from (x, y) to the right and downwards, unless `ha` and `va` differ; no character has a special meaning."""
        weight = style.pop("weight", "normal")
        write(self.axes, x, y, text, fontproperties=_fonts(size, weight), color=colour, **{"va": "top", "ha": "left", **style})

    def paragraph(
        self, x: float, y: float, text: str, width: float, size: float = 8, colour: Colour = GREY, **style: Any
    ) -> float:
        """Draw a text broken into lines of a width, and return its lower end."""
        for line in lines_of(text, width, size, style.get("weight", "normal")):
            self.text(x, y, line, size, colour, **style)
            y += height_of(size)
        return y


def write(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Draw text on axes; no character has a special meaning."""
    axes.text(x, y, text, parse_math=False, usetex=False, **style)


def style_of(size: float, weight: str = "normal") -> Any:
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
        figure: Figure = _picture_class()(figsize=(width, height), dpi=_DPI, facecolor=PAPER, edgecolor=PAPER)
        return Canvas(figure.add_axes((0, 0, 1, 1)), width, height)


def canvas_on(axes: Axes) -> Canvas:
    """Return a canvas on existing axes, with their size on paper."""
    box = axes.get_window_extent()
    dpi = axes.figure.dpi
    return Canvas(axes, box.width / dpi, box.height / dpi)


def plot_axes(canvas: Canvas, x: float, y: float, width: float, height: float) -> Axes:
    """Return axes with their own scale on a part of a canvas, at (x, y) downwards from its upper left corner."""
    place = (x / canvas.width, 1 - (y + height) / canvas.height, width / canvas.width, height / canvas.height)
    with _default_settings():
        axes: Axes = canvas.figure.add_axes(place)
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set(color=GREY, linewidth=0.8)
    axes.tick_params(which="both", colors=GREY, direction="out", length=3, width=0.8, pad=3.5)
    axes.tick_params(which="both", top=False, right=False, labelsize=8, labelfontfamily=FONT)
    axes.grid(False, which="both")
    return axes


def _default_settings() -> Any:
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
        figure.savefig(text, format="svg", facecolor=figure.get_facecolor(), metadata={"Date": None})
    # On a narrower page the picture shrinks as a whole.
    return re.sub(r"^.*?<svg\b", '<svg style="max-width:100%;height:auto"', text.getvalue(), count=1, flags=re.DOTALL)
