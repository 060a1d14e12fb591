"""`draw_collectives`: the bytes that a device sends over each mesh axis, with causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from namedax.core.names import MeshAxes
from namedax.errors import MeshError, did_you_mean, show_names
from namedax.hlo import KINDS, size_text
from namedax.insight.analysis.records import Collective
from namedax.insight.drawing.canvas import (
    GRAY,
    INK,
    PALETTE,
    RULE,
    Canvas,
    Color,
    Entry,
    colors_of_kinds,
    count_of,
    draw_legend,
    draw_list,
    height_of,
    legend_height,
    lines_of,
    list_height,
    new_canvas,
    step_text,
    text_width,
    time_text,
)
from namedax.machines.machine import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_collectives"]

_WIDTH, _MARGIN, _LEFT, _BAR = (
    10.5,
    0.25,
    2.1,
    0.22,
)  # in inches: the page, its margin, the names of mesh axes, and a bar
_MOST = 6  # the maximum number of causes of a mesh axis
_DOTS = 8


def draw_collectives(
    collectives: Sequence[Collective], mesh_shape: Mapping[str, int], machine: Machine | None = None
) -> Figure:
    """Draw the bytes that one device sends over each mesh axis, by kind, with the main causes.

    The length of a bar is the minimum number of bytes that a device sends on a ring, loops
    multiplied out. Collectives over several mesh axes at once have a separate bar.

    Args:
      collectives: the collectives of a report.
      mesh_shape: the size of every mesh axis.
      machine: an `nx.machines.Machine` for the time of each bar, one collective after the other;
        default: none.

    Returns:
      A figure, like that of `nx.draw`.

    Raises:
      MeshError: a collective uses a mesh axis that `mesh_shape` lacks; or the machine has no link
        for one.
      ImportError: matplotlib is not installed.

    >>> from namedax.insight.drawing.traffic import draw_collectives
    >>> figure = draw_collectives([], {"x": 4})
    """
    groups = _groups(collectives, mesh_shape)
    kinds = sorted({c.kind for c in collectives}, key=KINDS.index)
    colors = colors_of_kinds(kinds)
    total = sum(map(_sent, collectives))
    title = (
        f"A device sends {size_text(total)} on the wire"
        if total
        else "Nothing is sent between devices"
    )
    sentence = (
        f"Mesh {', '.join(f'{axis}={size}' for axis, size in mesh_shape.items())}."
        if mesh_shape
        else "There is no mesh."
    )
    if total:
        sentence += " The minimum bytes that a device sends on a ring, over all runs of loops."
        if machine is not None:
            sentence += f" Times are those of {machine.name}, one collective after the other."
    legend = [(_kind_text(kind, collectives), colors[kind]) for kind in kinds]
    rows = [(axes, group, _causes(group, colors)) for axes, group in groups.items()]
    inner = _WIDTH - 2 * _MARGIN
    head = (
        height_of(12)
        + len(lines_of(sentence, inner, 8.5)) * height_of(8.5)
        + legend_height(legend, inner)
        + 0.25
    )
    heights = [
        max(_BAR + 0.12 + list_height(causes, inner - _LEFT), 0.62) + 0.28 for _, _, causes in rows
    ]
    canvas = new_canvas(_WIDTH, 2 * _MARGIN + head + sum(heights), "draw_collectives")
    canvas.text(_MARGIN, _MARGIN, title, 12, INK, weight="bold")
    y = canvas.paragraph(_MARGIN, _MARGIN + height_of(12), sentence, inner, 8.5)
    draw_legend(canvas, _MARGIN, y + 0.1, inner, legend)
    y = _MARGIN + head
    largest = max((sum(map(_sent, group)) for _, group, _ in rows), default=0)
    for (axes, group, causes), height in zip(rows, heights, strict=True):
        canvas.line([_MARGIN, _WIDTH - _MARGIN], [y, y], RULE)
        share = sum(map(_sent, group)) / largest if largest else 0.0
        _draw_axes(canvas, y + 0.1, axes, mesh_shape, share)
        took = (
            ""
            if machine is None or not group
            else time_text(sum(machine.time_of(c, dict(mesh_shape)) for c in group))
        )
        _draw_bar(canvas, y + 0.1, group, colors, share, total, took)
        draw_list(
            canvas,
            _MARGIN + _LEFT - 0.24,
            y + 0.1 + _BAR + 0.08,
            inner - _LEFT + 0.24,
            causes,
            numbered=False,
        )
        y += height
    return canvas.figure


def _sent(collective: Collective) -> int:
    return collective.wire_bytes * collective.trips


def _groups(
    collectives: Sequence[Collective], mesh_shape: Mapping[str, int]
) -> dict[MeshAxes, list[Collective]]:
    """Group the collectives by their mesh axes; every mesh axis has a group, perhaps empty."""
    groups: dict[MeshAxes, list[Collective]] = {(axis,): [] for axis in mesh_shape}
    order = list(mesh_shape)
    for collective in collectives:
        for axis in collective.mesh_axes:
            if axis not in mesh_shape:
                raise MeshError(
                    f"draw_collectives: {collective.kind} uses mesh axis {axis!r}, which the mesh"
                    f" does not have. Choose from {show_names(order)}.{did_you_mean(axis, order)}"
                )
        axes = tuple(sorted(collective.mesh_axes, key=order.index))
        groups.setdefault(axes, []).append(collective)
    return groups


def _kind_text(kind: str, collectives: Sequence[Collective]) -> str:
    of_kind = [c for c in collectives if c.kind == kind]
    return f"{sum(c.trips for c in of_kind):,} {kind} ({size_text(sum(map(_sent, of_kind)))})"


def _causes(group: Sequence[Collective], colors: Mapping[str, Color]) -> list[Entry]:
    """Return the main causes, and a line about the others."""
    by: dict[tuple[str, str], list[Collective]] = {}
    for collective in group:
        by.setdefault((collective.kind, step_text(collective)), []).append(collective)
    causes = sorted(by.items(), key=lambda item: -sum(map(_sent, item[1])))
    shown = causes if len(causes) <= _MOST else causes[: _MOST - 1]
    entries = [Entry(text, colors[kind], _figures(these)) for (kind, text), these in shown]
    rest = [c for _, these in causes[len(shown) :] for c in these]
    if rest:
        entries.append(Entry(f"{len(causes) - len(shown):,} others", GRAY, _figures(rest)))
    return entries


def _figures(these: Sequence[Collective]) -> tuple[str, str]:
    times = sum(c.trips for c in these)
    return (count_of(times, "time"), size_text(sum(map(_sent, these))))


def _draw_axes(
    canvas: Canvas, y: float, axes: MeshAxes, mesh_shape: Mapping[str, int], share: float
) -> None:
    """Draw the mesh axes of a row: names, and devices on a line as thick as the bytes."""
    size = 1
    for axis in axes:
        size *= mesh_shape[axis]
    for line in lines_of(
        " × ".join(f"{axis}={mesh_shape[axis]}" for axis in axes), _LEFT - 0.3, 10, "bold"
    ):
        canvas.text(_MARGIN, y, line, 10, INK, weight="bold")
        y += height_of(10)
    dots = min(size, _DOTS)
    xs = [_MARGIN + 0.07 + 0.19 * i for i in range(dots)]
    middle = y + 0.12
    if share:
        canvas.line([xs[0], xs[-1]], [middle, middle], GRAY, 0.8 + 4.2 * share)
    for x in xs:
        canvas.ellipse(x - 0.06, middle - 0.06, 0.12, 0.12, PALETTE[0])
    if size > dots:
        canvas.text(xs[-1] + 0.12, middle, "…", 8, GRAY, va="center")


def _share_text(share: float) -> str:
    return "less than 1%" if 0 < share < 0.005 else f"{share:.0%}"


def _draw_bar(
    canvas: Canvas,
    y: float,
    group: Sequence[Collective],
    colors: Mapping[str, Color],
    share: float,
    total: int,
    took: str,
) -> None:
    """Draw the bytes by kind, and as text at the end of the bar."""
    sent = sum(map(_sent, group))
    words = (
        "nothing"
        if not sent
        else f"{size_text(sent)} ({_share_text(sent / total)})" + (f", {took}" if took else "")
    )
    x = _MARGIN + _LEFT
    longest = _WIDTH - 2 * _MARGIN - _LEFT - text_width("1023.9 GiB (100 %), 999 ms", 9) - 0.1
    for kind, color in colors.items():
        part = sum(_sent(c) for c in group if c.kind == kind)
        if part:
            width = max(longest * share * part / sent, 0.01)
            canvas.rectangle(x, y, width, _BAR, color, linewidth=0, gid=kind)
            x += width
    canvas.text(
        x + (0.1 if sent else 0.0), y + _BAR / 2, words, 9, INK if sent else GRAY, va="center"
    )
