"""`draw`: a picture of the devices that store each block of each array."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from namedax.core.array import NamedArray, is_named
from namedax.core.names import Mesh, PyTree
from namedax.core.region import ambient
from namedax.errors import ArgumentError, ArgumentTypeError, AxisResourceError, show_names
from namedax.insight.drawing.arrangement import MOST_BLOCKS, Holding, Layout, holding_of
from namedax.insight.drawing.canvas import (
    GRAY,
    INK,
    DeviceColors,
    canvas_on,
    count_of,
    height_of,
    lines_of,
    new_canvas,
    require_matplotlib,
)
from namedax.insight.drawing.panels import Panel, draw_panel, fill, mesh_panel, panel_of
from namedax.messages.call_errors import checks_signature
from namedax.resources.assignment import Assignment, check_mesh_axes, parse_resources
from namedax.resources.mesh import any_mesh
from namedax.resources.serial import on_devices, with_loops

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_MOST_PANELS, _MOST_SIZES = 12, 8
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
    place = _place(axis_resources, mesh)
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
    return _figure(held, _unused(axis_resources, [leaf for _, leaf in paths]))


def _place(
    axis_resources: Mapping[Hashable, Any] | None, mesh: Mesh | None
) -> tuple[Assignment, Mesh] | None:
    """Return the layout and mesh that place arrays; `None` to draw their current sharding."""
    if axis_resources is None:
        if mesh is not None:
            raise AxisResourceError(
                "draw: mesh= is given without axis_resources, but arrays are drawn with their"
                " current sharding. Pass both to draw another layout; axis_resources={} replicates"
                " the arrays."
            )
        return None
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            "draw: it draws global arrays and cannot run in a mapped function. Call it before the"
            " mapped function."
        )
    assignment = on_devices(
        with_loops(parse_resources(axis_resources, "draw"))
    )  # loops have no devices
    mesh = any_mesh(mesh, "draw")
    check_mesh_axes(assignment, mesh, "draw")
    return assignment, mesh


def _unused(axis_resources: Mapping[Hashable, Any] | None, leaves: Sequence[object]) -> str:
    """Return a sentence about names that no array has, which may be misspelled."""
    names = {dim for leaf in leaves if isinstance(leaf, NamedArray) for dim in leaf.dims}
    unused = [name for name in axis_resources or () if name not in names]
    return f"No array here has the axis {show_names(unused)}." if unused else ""


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
    sentences += _uneven(chosen)
    if len(chosen) < len(held):
        kinds = {(each.type, each.dims, each.layout) for each in chosen}
        alike = sum((each.type, each.dims, each.layout) in kinds for each in held) - len(chosen)
        left = len(held) - len(chosen)
        sentences.append(
            f"{count_of(left, 'array')} {'is' if left == 1 else 'are'} left out, {alike} of them"
            " with the layout of one that is drawn."
        )
    return title, sentences + ([note] if note else [])


def _uneven(held: Sequence[Holding]) -> list[str]:
    """Return sentences about axes that do not divide: their blocks, and padding."""
    found = {}
    for dim in (dim for each in held for dim in each.dims):
        if dim.padding:
            block, true = dim.size // dim.parts, dim.size - dim.padding
            full, rest = divmod(true, block)
            sizes = [str(block)] * full + ([str(rest)] if rest else [])
            sizes += ["0"] * (dim.parts - len(sizes))
            if len(sizes) > _MOST_SIZES:
                sizes = [*sizes[:3], "…", *sizes[-2:]]
            blocks = ", ".join(sizes)
            found[dim.label] = (
                f"The {true:,} elements of {dim.label} do not divide over {dim.parts} devices: the"
                f" blocks of {block} have {blocks} elements, and padding."
            )
        elif dim.undivided:
            count = math.prod(n for _, n in dim.undivided)
            found[dim.label] = (
                f"The {dim.size:,} elements of {dim.label} do not divide over {count} devices, so"
                " all devices have all of them; with padded=True, they have padded blocks."
            )
    hatched = any(dim.padding for each in held for dim in each.dims)
    return [*found.values(), *(["Hatched parts are padding."] if hatched else [])]


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
