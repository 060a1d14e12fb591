"""`draw`: a picture of the devices that store each block of each array.

A panel is an array in its blocks, or a mesh in its devices, with captions. A block has the color of
its device and is labeled with it; a block on several devices is a stack. A panel is as large as its
labels require. If its size is given instead, labels that do not fit are shortened to a count, or
left out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from namedax.core.array import is_named
from namedax.core.names import Mesh, PyTree
from namedax.core.records import Record
from namedax.errors import ArgumentError, ArgumentTypeError
from namedax.hlo import size_text
from namedax.insight.drawing.arrangement import (
    MOST_BLOCKS,
    Arrangement,
    Dimension,
    Holding,
    Layout,
    Sheet,
    arrange,
    cells,
    given_layout,
    holding_of,
    uneven_axes,
    unused_names,
)
from namedax.insight.drawing.canvas import (
    GRAY,
    INK,
    PAPER,
    Canvas,
    Color,
    DeviceColors,
    canvas_on,
    count_of,
    devices_text,
    height_of,
    ink_on,
    lines_of,
    new_canvas,
    require_matplotlib,
    shortened,
    text_height,
    text_width,
)
from namedax.messages.call_errors import checks_signature

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_MOST_PANELS = 12
_PAGE, _NARROWEST, _MARGIN, _GAP = 12.5, 5.5, 0.25, 0.4  # in inches


@checks_signature
def draw(
    x: PyTree,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    *,
    ax: Axes | None = None,
    padded: bool = False,
) -> Figure:
    """Draw the blocks of arrays, with the devices that store each block.

    Each array is a panel with its blocks in rows and columns. Each device has a color, and each
    block is labeled with its device. A block on several devices is a stack, labeled with all of
    them. The captions have each axis with its size and the mesh axes that shard it (`batch: 128
    over x=4`). With `axis_resources`, the captions also mark sizes that do not divide. Up to 64
    blocks are drawn individually. For more blocks, only the first ones and the last of each axis
    are drawn, and the picture notes this.

    Args:
      x: an array, named or not, or a pytree of arrays; or their types (`jax.ShapeDtypeStruct`, as
        from `jax.eval_shape`). For a tree, each array has a panel with its path, up to 12; the
        picture notes the number of omitted arrays.
      axis_resources: the layout to draw, as in `xmap`. Names that no array has are ignored, and so
        is a `SerialLoop`. Default: draw the current sharding.
      mesh: the mesh for `axis_resources`. The devices of an `AbstractMesh` are numbered in its
        order. Default: that of `jax.set_mesh`.
      ax: matplotlib axes to fill with the blocks of one array, without captions, as part of another
        figure. Labels that do not fit are shortened to a count, or left out. Default: a new figure.
      padded: whether `axis_resources` shards an axis that does not divide over its mesh axes, in
        padded blocks, as in `nx.shard`. Padding is hatched. Default: False, such an axis is
        replicated. Arrays that are stored padded are always drawn with their padding.

    Returns:
      A `matplotlib.figure.Figure`, which notebooks show as SVG; `figure.savefig("blocks.png")`
      saves it. It is not managed by pyplot, so it need not be closed. With `ax`, the figure of
      these axes.

    Raises:
      ArgumentError: `x` contains no array; or an array is on no device, and `axis_resources` is not
        given.
      ArgumentTypeError: a leaf of `x` is not an array; or `ax` is given for several arrays.
      AxisResourceError: `axis_resources` is malformed, `mesh` is given without it, or the call is
        inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis.
      PlacementConflictError: two names of one array are on one mesh axis.
      ImportError: matplotlib is not installed (`pip install 'namedax[draw]'`).

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> w = nx.shard(nx.named(jnp.ones((8, 6)), ["batch", "k"]), {"batch": "x"}, mesh)
    >>> figure = nx.draw(w)
    >>> mesh = jax.sharding.AbstractMesh((8, 3), ("x", "y"))
    >>> plan = nx.draw({"w": w}, {"batch": "x", "k": "y"}, mesh)
    """
    require_matplotlib("draw")
    place = given_layout("draw", axis_resources, mesh)
    paths = jax.tree_util.tree_flatten_with_path(x, is_leaf=is_named)[0]
    if not paths:
        raise ArgumentError(
            f"draw: {x!r} contains no array. Pass an array, or a tree of arrays or of their types."
        )
    held = [
        holding_of(leaf, jax.tree_util.keystr(path, simple=True, separator="."), place, padded)
        for path, leaf in paths
    ]
    if ax is not None:
        if len(held) > 1:
            raise ArgumentTypeError(
                f"draw: ax= takes one array, but x is a tree of {len(held)}. Draw them one by one."
            )
        canvas = canvas_on(ax)
        fill(canvas, held[0], _colors(held))
        return canvas.figure
    return _figure(held, unused_names(axis_resources, [leaf for _, leaf in paths]))


def _colors(held: Sequence[Holding]) -> DeviceColors:
    """Return a color for each device, the same in all panels, also without a mesh."""
    grids = [layout.grid for layout in {each.layout for each in held} if layout is not None]
    grids += [each.holders for each in held if each.layout is None]
    return DeviceColors(np.concatenate([grid.ravel() for grid in grids]).tolist())


def _figure(held: Sequence[Holding], note: str) -> Figure:
    layouts = {each.layout for each in held}
    layout = next(iter(layouts)) if len(layouts) == 1 else None
    colors = _colors(held)
    chosen = _chosen(held)
    panels = [mesh_panel(layout)] if layout is not None and layout.grid.size > 1 else []
    panels += [panel_of(each) for each in chosen]
    places, width, height = _flow(panels)
    width = max(width, _NARROWEST)
    title, sentences = _heading(held, chosen, layout, len(colors), panels, note)
    above = lines_of(title, width, 12, "bold")
    below = lines_of(" ".join(sentences), width, 8.5)
    head = len(above) * height_of(12) + len(below) * height_of(8.5) + 0.2
    canvas = new_canvas(width + 2 * _MARGIN, height + head + 2 * _MARGIN, "draw")
    y = canvas.paragraph(_MARGIN, _MARGIN, title, width, 12, INK, weight="bold")
    canvas.paragraph(_MARGIN, y, " ".join(sentences), width, 8.5, GRAY)
    for panel, (left, top) in zip(panels, places, strict=True):
        draw_panel(canvas, panel, _MARGIN + left, _MARGIN + head + top, colors)
    return canvas.figure


def _chosen(held: Sequence[Holding]) -> list[Holding]:
    """Return the arrays that get a panel: all, or the largest of each layout."""
    if len(held) <= _MOST_PANELS:
        return list(held)
    kinds: dict[Any, int] = {}
    for i, each in enumerate(held):
        kinds.setdefault((each.type, each.dims, each.layout), i)
    first = sorted(kinds.values(), key=lambda i: -held[i].bytes)[:_MOST_PANELS]
    rest = [i for i in range(len(held)) if i not in first][: _MOST_PANELS - len(first)]
    return [held[i] for i in sorted({*first, *rest})]


def _heading(
    held: Sequence[Holding],
    chosen: Sequence[Holding],
    layout: Layout | None,
    devices: int,
    panels: Sequence[Panel],
    note: str,
) -> tuple[str, list[str]]:
    """Return the title, and the sentences below it."""
    title = f"{count_of(len(held), 'array')} on {count_of(devices, 'device')}"
    if layout is not None:
        title += f", mesh {', '.join(f'{axis}={size}' for axis, size in layout.axes)}"
    stack = (
        "; a stack is a block on several devices."
        if any(each.holders.shape[-1] > 1 for each in chosen)
        else "."
    )
    sentences = ["Numbers are device ids, with one color for each device" + stack]
    if layout is not None and not layout.platform and devices > 1:
        sentences.append("The mesh is abstract: its devices are numbered in order.")
    if any(panel.how.left_out for panel in panels):
        sentences.append(
            f"With more than {MOST_BLOCKS} devices, only the first blocks and the last one of each"
            " axis are drawn."
        )
    sentences += uneven_axes(chosen)
    if len(chosen) < len(held):
        kinds = {(each.type, each.dims, each.layout) for each in chosen}
        alike = sum((each.type, each.dims, each.layout) in kinds for each in held) - len(chosen)
        left = len(held) - len(chosen)
        sentences.append(
            f"{count_of(left, 'array')} {'is' if left == 1 else 'are'} left out, {alike} of them"
            " with the layout of one that is drawn."
        )
    return title, sentences + ([note] if note else [])


def _flow(panels: Sequence[Panel]) -> tuple[list[tuple[float, float]], float, float]:
    """Place panels in lines of a page, and return their positions and the total size."""
    places, x, y, lowest, widest = [], 0.0, 0.0, 0.0, 0.0
    for panel in panels:
        if x and x + panel.width > _PAGE:
            x, y = 0.0, lowest + _GAP
        places.append((x, y))
        lowest = max(lowest, y + panel.height)
        widest = max(widest, x + panel.width)
        x += panel.width + _GAP
    return places, widest, lowest


# --- panels ---------------------------------------------------------------------------------------


TITLE, TEXT = 10.0, 8.0
_SMALLEST = 6.0  # the smallest label size on given axes
_PAD, _SLIT, _SHIFT = (
    0.07,
    0.024,
    0.032,
)  # around a label, between blocks, and between the sheets of a stack
_DEEPEST = 8  # the maximum number of sheets in a stack
_OMITTED, _BETWEEN = 0.2, 0.22  # in place of omitted blocks, and between sheets
_WIDEST, _TITLE_WIDEST, _NARROWEST_LABEL = 6.0, 3.4, 0.6


class Cell(Record):
    """The size of the blocks of a panel, and the line width of their labels."""

    width: float
    height: float
    breaking: float


class Panel(Record):
    """The drawing of one array or mesh, and its size in inches."""

    held: Holding
    how: Arrangement
    captions: tuple[tuple[str, float, Color, str], ...]  # text, size, color, weight
    cell: Cell
    width: float
    height: float
    is_mesh: bool = False


def axis_text(dim: Dimension) -> str:
    """Return a dimension and its mesh axes as text.

    It is `batch: 128 over x=4`, or `batch: 130 does not divide over x=4`.
    """
    over = ", ".join(f"{axis}={size}" for axis, size in dim.mesh_axes)
    if over and dim.padding:
        true = dim.size - dim.padding
        return f"{dim.label}: {true:,} over {over}, padded to {dim.size:,}"
    if over:
        return f"{dim.label}: {dim.size:,} over {over}"
    if dim.undivided:
        devices = ", ".join(f"{axis}={size}" for axis, size in dim.undivided)
        return f"{dim.label}: {dim.size:,} does not divide over {devices}"
    return f"{dim.label}: {dim.size:,}" + (f" in {dim.parts:,} parts" if dim.parts > 1 else "")


def panel_of(held: Holding) -> Panel:
    """Return the panel of an array."""
    how = arrange(held.dims, held.holders.shape[-1])
    title = shortened(
        held.path or held.type, _TITLE_WIDEST, lambda text: text_width(text, TITLE, "bold")
    )
    captions = [(title, TITLE, INK, "bold")]
    each = held.bytes // max(held.blocks, 1)
    size = (
        f"{held.type.partition('[')[0]}, {size_text(held.bytes)}"
        if held.path
        else size_text(held.bytes)
    )
    captions.append(
        (size + (f", {size_text(each)} a device" if held.blocks > 1 else ""), TEXT, GRAY, "normal")
    )
    for i, dim in enumerate(held.dims):
        color = INK if dim.parts > 1 else GRAY
        captions.append((_mark(how, i) + axis_text(dim), TEXT, color, "normal"))
    for axes, words in ((held.copies, "copies over"), (held.sums, "partial sums over")):
        if axes:
            captions.append(
                (
                    f"{words} {', '.join(f'{axis}={size}' for axis, size in axes)}",
                    TEXT,
                    GRAY,
                    "normal",
                )
            )
    return _sized(held, how, tuple(captions), is_mesh=False)


def _mark(how: Arrangement, dim: int) -> str:
    """Return a mark for the direction of a dimension: rows, columns, sheets, or none."""
    return (
        "↓ "
        if dim == how.row
        else "→ "
        if dim == how.column
        else "▤ "
        if dim in how.across
        else "   "
    )


def mesh_panel(layout: Layout) -> Panel:
    """Return the panel of a mesh, with the position of each device."""
    dims = tuple(Dimension(axis, size, (), size) for axis, size in layout.axes)
    held = Holding("mesh", "", 0, dims, layout.grid[..., None], layout)
    how = arrange(dims)
    captions = [("mesh", TITLE, INK, "bold")]
    captions += [
        (f"{_mark(how, i)}{dim.label}: {dim.size:,}", TEXT, INK, "normal")
        for i, dim in enumerate(dims)
    ]
    return _sized(held, how, tuple(captions), is_mesh=True)


def _sized(
    held: Holding,
    how: Arrangement,
    captions: tuple[tuple[str, float, Color, str], ...],
    is_mesh: bool,
) -> Panel:
    cell = _cell(held, how, is_mesh)
    _, width, height = _places(how, cell)
    wide = max(width, *(text_width(text, size, weight) for text, size, _, weight in captions))
    return Panel(held, how, captions, cell, wide, _head(captions) + height, is_mesh)


def _head(captions: tuple[tuple[str, float, Color, str], ...]) -> float:
    return sum(height_of(size) for _, size, _, _ in captions) + 0.06


def _cell(held: Holding, how: Arrangement, is_mesh: bool) -> Cell:
    """Return blocks as large as their labels require and the shape of the array suggests."""
    labels = {devices_text(ids.tolist()) for _, _, ids in _shown_blocks(held, how)}
    stack = _SLIT + _SHIFT * (min(held.holders.shape[-1], _DEEPEST) - 1)
    rows, columns = (
        max(len(part) for part in parts)
        for parts in zip(*((s.rows, s.columns) for s in how.sheets), strict=True)
    )
    full_width, full_height = (0.26 * columns, 0.26 * rows) if is_mesh else _proportions(held, how)
    longest = max(text_width(label, TEXT, "bold") for label in labels)
    best: tuple[float, Cell] | None = None
    for lines in range(1, 7):
        breaking = max(1.15 * longest / lines, _NARROWEST_LABEL)
        texts = [_broken(label, breaking) for label in labels]
        width = max(
            full_width / columns, max(text_width(t, TEXT, "bold") for t in texts) + 2 * _PAD + stack
        )
        height = max(full_height / rows, max(text_height(t, TEXT) for t in texts) + 0.03 + stack)
        if is_mesh:
            width = height = max(width, height)
        cell = Cell(width, height, breaking)
        largest = max(width * columns / 1.5, height * rows)
        if best is None or largest < best[0] - 1e-9:
            best = largest, cell
    assert best is not None
    return best[1]


def _proportions(held: Holding, how: Arrangement) -> tuple[float, float]:
    """Return the size on paper of an array with short labels.

    Long arrays are longer, but not in full proportion.
    """
    if how.row is None:
        return 0.6, 0.45
    if how.column is None:
        return 0.6, 1.5
    down, right = (max(held.dims[i].size, 1) for i in (how.row, how.column))
    longer = min(max((right / down) ** 0.3, 0.6), 1.7) ** 0.5
    several = len(how.sheets) ** 0.5
    return 1.7 * longer / several, 1.5 / longer / several


def _shown_blocks(
    held: Holding, how: Arrangement
) -> list[tuple[Sheet, tuple[int, int], np.ndarray]]:
    """Return every drawn block: its sheet, its position there, and its devices."""
    return [
        (sheet, (i, j), held.holders[how.block(sheet, row, column, len(held.dims))])
        for sheet in how.sheets
        for i, j, row, column in cells(sheet)
        if row is not None and column is not None
    ]


def _edges(parts: tuple[int | None, ...], length: float) -> list[float]:
    """Return the edges of the rows or columns of a sheet."""
    edges = [0.0]
    for part in parts:
        edges.append(edges[-1] + (_OMITTED if part is None else length))
    return edges


def _places(how: Arrangement, cell: Cell) -> tuple[list[tuple[float, float]], float, float]:
    """Place the sheets of a panel side by side, and return their positions and total size."""
    label = height_of(TEXT) if len(how.sheets) > 1 else 0.0
    widths = [
        max(_edges(s.columns, cell.width)[-1], text_width(s.label, TEXT) if label else 0.0)
        for s in how.sheets
    ]
    lines = min(math.ceil((sum(widths) + _BETWEEN * (len(widths) - 1)) / _WIDEST), len(widths))
    in_line = math.ceil(len(widths) / lines)
    places, x, y, lowest, widest = [], 0.0, 0.0, 0.0, 0.0
    for i, (sheet, width) in enumerate(zip(how.sheets, widths, strict=True)):
        if i and i % in_line == 0:
            x, y = 0.0, lowest + 0.1
        places.append((x, y))
        lowest = max(lowest, y + label + _edges(sheet.rows, cell.height)[-1])
        widest = max(widest, x + width)
        x += width + _BETWEEN
    return places, widest, lowest


def draw_panel(canvas: Canvas, panel: Panel, x: float, y: float, colors: DeviceColors) -> None:
    """Draw a panel with its upper left corner at (x, y)."""
    for text, size, color, weight in panel.captions:
        canvas.text(x, y, text, size, color, weight=weight)
        y += height_of(size)
    y += 0.06
    places, _, _ = _places(panel.how, panel.cell)
    for sheet, (right, down) in zip(panel.how.sheets, places, strict=True):
        top = y + down
        if len(panel.how.sheets) > 1:
            canvas.text(x + right, top, sheet.label, TEXT, GRAY)
            top += height_of(TEXT)
        _draw_sheet(canvas, panel, sheet, x + right, top, colors)


def fill(canvas: Canvas, held: Holding, colors: DeviceColors) -> None:
    """Draw the blocks of an array over a whole canvas, without captions, sheets side by side."""
    how = arrange(held.dims, held.holders.shape[-1])
    width = (canvas.width + 0.08) / len(how.sheets)
    for i, sheet in enumerate(how.sheets):
        counts = [sum(part is not None for part in parts) for parts in (sheet.columns, sheet.rows)]
        gaps = [
            len(parts) - count
            for parts, count in zip((sheet.columns, sheet.rows), counts, strict=True)
        ]
        cell = Cell(
            (width - 0.08 - gaps[0] * _OMITTED) / counts[0],
            (canvas.height - gaps[1] * _OMITTED) / counts[1],
            0.0,
        )
        _draw_sheet(canvas, Panel(held, how, (), cell, 0, 0), sheet, i * width, 0.0, colors)


def _draw_sheet(
    canvas: Canvas, panel: Panel, sheet: Sheet, x: float, y: float, colors: DeviceColors
) -> None:
    rows, columns = _edges(sheet.rows, panel.cell.height), _edges(sheet.columns, panel.cell.width)
    middle = {"ha": "center", "va": "center"}
    for i, j, row, column in cells(sheet):
        if row is not None and column is not None:
            index = panel.how.block(sheet, row, column, len(panel.held.dims))
            ids = sorted(panel.held.holders[index].tolist())
            real = _real(panel, index)
            _draw_block(canvas, panel, x + columns[j], y + rows[i], ids, real, colors)
    for i, row in enumerate(sheet.rows):
        if row is None:
            canvas.text(x + columns[-1] / 2, y + rows[i] + _OMITTED / 2, "⋮", 10, GRAY, **middle)
    for j, column in enumerate(sheet.columns):
        if column is None:
            canvas.text(x + columns[j] + _OMITTED / 2, y + rows[-1] / 2, "⋯", 10, GRAY, **middle)


def _real(panel: Panel, index: tuple[int, ...]) -> tuple[float, float]:
    """Return the fractions of a block that are not padding, downwards and to the right."""
    found = [dim.real(part) for dim, part in zip(panel.held.dims, index, strict=True)]
    how = panel.how
    down, right = (1.0 if dim is None else found[dim] for dim in (how.row, how.column))
    if not all(found[i] for i in how.across):
        return 0.0, 0.0
    return down, right


def _draw_padding(
    canvas: Canvas, x: float, y: float, width: float, height: float, real: tuple[float, float]
) -> None:
    """Hatch the padding of a block, at its lower and right ends."""
    down, right = real
    style = {"alpha": 0.75, "edgecolor": GRAY, "linewidth": 0, "hatch": "//////", "gid": "padding"}
    if down < 1:
        canvas.rectangle(x, y + down * height, width, (1 - down) * height, PAPER, **style)
    if right < 1 and down:
        canvas.rectangle(x + right * width, y, (1 - right) * width, down * height, PAPER, **style)


def _draw_block(
    canvas: Canvas,
    panel: Panel,
    x: float,
    y: float,
    ids: list[int],
    real: tuple[float, float],
    colors: DeviceColors,
) -> None:
    """Draw a block, in front of the same block on other devices; `real` is not padding."""
    count = min(len(ids), _DEEPEST)
    sheets = [ids[round(i * (len(ids) - 1) / max(count - 1, 1))] for i in range(count)]
    behind = count - 1
    width = panel.cell.width - _SLIT - _SHIFT * behind
    height = panel.cell.height - _SLIT - _SHIFT * behind
    for depth in range(behind, -1, -1):
        left, top = x + _SHIFT * depth, y + _SHIFT * (behind - depth)
        shape = canvas.ellipse if panel.is_mesh else canvas.rectangle
        shape(left, top, width, height, colors[sheets[depth]])
    label, size = (
        _fitting(ids, width, height)
        if not panel.cell.breaking
        else (_broken(devices_text(ids), panel.cell.breaking), TEXT)
    )
    _draw_padding(canvas, x, y + _SHIFT * behind, width, height, real)
    if label:
        ink = ink_on(colors[sheets[0]]) if min(real) > 0.5 else INK
        style = {"ha": "center", "va": "center", "weight": "bold", "linespacing": 1.1}
        canvas.text(x + width / 2, y + _SHIFT * behind + height / 2, label, size, ink, **style)


def _broken(text: str, width: float, size: float = TEXT) -> str:
    """Break a label into as few lines as a width allows, of about equal length."""
    lines = lines_of(text, width, size, "bold")
    for part in (1.0, 1.1, 1.2, 1.4):
        evenly = lines_of(
            text, min(width, part * text_width(text, size, "bold") / len(lines)), size, "bold"
        )
        if len(evenly) == len(lines):
            return "\n".join(evenly)
    return "\n".join(lines)


def _fitting(ids: list[int], width: float, height: float) -> tuple[str, float]:
    """Return the label that fits into a block, and its size.

    The label has the devices, or else their number, or else nothing.
    """
    for text in (devices_text(ids), f"×{len(ids)}"):
        for size in (TEXT, 7.0, _SMALLEST):
            label = _broken(text, width - 0.02, size)
            if (
                text_width(label, size, "bold") <= width - 0.02
                and text_height(label, size) <= height + 0.02
            ):
                return label, size
    return "", TEXT
