"""`draw`: which device holds which block of which array."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from namedax.core.array import is_named
from namedax.core.call_errors import checks_signature
from namedax.core.region import ambient
from namedax.drawing.arrangement import MOST_BLOCKS
from namedax.drawing.blocks import Holding, Layout, holding_of
from namedax.drawing.canvas import canvas_on, height_of, lines_of, new_canvas, require_matplotlib
from namedax.drawing.colours import GREY, INK, DeviceColours
from namedax.drawing.panels import Panel, draw_panel, fill, mesh_panel, panel_of
from namedax.drawing.words import count_of
from namedax.errors import ArgumentError, ArgumentTypeError, AxisResourceError, show_names
from namedax.resources.assignment import Assignment, check_mesh_axes, parse_resources
from namedax.resources.mesh import any_mesh
from namedax.resources.serial import on_devices, with_loops

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_MOST_PANELS = 12
_PAGE, _NARROWEST, _MARGIN, _GAP = 12.5, 5.5, 0.25, 0.4  # inches


@checks_signature
def draw(x: Any, axis_resources: Mapping[Hashable, Any] | None = None, mesh: Any = None, *, ax: Axes | None = None) -> Figure:
    """Draws which device holds which block of which array.

    Each array is a panel with its blocks in rows and columns. A colour is a device, whose number the block says; a block that several devices
    hold is a stack, and says all of them. The captions name each axis with its size and the mesh axes that it lives on (`batch: 128 over x=4`);
    with `axis_resources` they name a size that does not divide, too. Blocks are drawn one by one up to 64; of more the first ones and the last of
    each axis are, and the picture says so.

    Args:
      x: an array, named or not, or a pytree of arrays; or their types (`jax.ShapeDtypeStruct`, as from `jax.eval_shape`). Of a tree each
        array has a panel with its path, up to 12; the picture says how many are left out.
      axis_resources: as in `xmap`: draw where the arrays would live. Names that no array has do not matter, nor does a `SerialLoop`. Default:
        draw where they live now.
      mesh: for `axis_resources`: a mesh, possibly an `AbstractMesh` of devices that are not there, which are numbered in its order; default:
        that of `jax.set_mesh`.
      ax: matplotlib axes to fill with the blocks of one array, without captions, as a part of a figure of your own. Labels that do not fit
        are shortened to a count, or left out.

    Returns:
      A `matplotlib.figure.Figure`, which notebooks show as SVG; `figure.savefig("blocks.png")` saves it. It is not one of pyplot's, so it
      need not be closed. With `ax` the figure of these axes.

    Raises:
      ArgumentError: there is no array in `x`; or an array is on no device, and `axis_resources` is not given.
      ArgumentTypeError: something in `x` is not an array; or `ax` is given for several arrays.
      AxisResourceError: `axis_resources` is malformed, `mesh` is given without it, or this is inside of a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis.
      PlacementConflictError: two names of one array are on one mesh axis.
      ImportError: matplotlib is not installed (`pip install namedax[draw]`).

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> w = nx.shard(nx.named(jnp.ones((8, 6)), ["batch", "k"]), {"batch": "x"}, mesh)
    >>> figure = nx.draw(w)
    >>> plan = nx.draw({"w": w}, {"batch": "x", "k": "y"}, jax.sharding.AbstractMesh((8, 3), ("x", "y")))
    """
    require_matplotlib("draw")
    place = _place(axis_resources, mesh)
    paths = jax.tree_util.tree_flatten_with_path(x, is_leaf=is_named)[0]
    if not paths:
        raise ArgumentError(f"draw: there is no array in {x!r}; give an array, or a tree of arrays or of their types.")
    held = [holding_of(leaf, jax.tree_util.keystr(path, simple=True, separator="."), place) for path, leaf in paths]
    if ax is not None:
        if len(held) > 1:
            raise ArgumentTypeError(f"draw: ax= takes one array, and this is a tree of {len(held)}; draw them one by one.")
        canvas = canvas_on(ax)
        fill(canvas, held[0], _colours(held))
        return canvas.figure
    return _figure(held, _unused(axis_resources, [leaf for _, leaf in paths]))


def _place(axis_resources: Mapping[Hashable, Any] | None, mesh: Any) -> tuple[Assignment, Any] | None:
    """The assignment and mesh by which arrays are placed, or `None` where they are drawn as they are."""
    if axis_resources is None:
        if mesh is not None:
            raise AxisResourceError(
                "draw: mesh= is given without axis_resources, and arrays are drawn where they live. Give both to draw where they would live; "
                "axis_resources={} replicates them."
            )
        return None
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError("draw: says where arrays live outside of mapped functions; call it before the mapped function.")
    assignment = on_devices(with_loops(parse_resources(axis_resources, "draw")))  # time is not a place
    mesh = any_mesh(mesh, "draw")
    check_mesh_axes(assignment, mesh, "draw")
    return assignment, mesh


def _unused(axis_resources: Mapping[Hashable, Any] | None, leaves: Sequence[Any]) -> str:
    """A sentence about names that no array has, which may be misspelt."""
    names = {dim for leaf in leaves if is_named(leaf) for dim in leaf.dims}
    unused = [name for name in axis_resources or () if name not in names]
    return f"No array here has the axis {show_names(unused)}." if unused else ""


def _colours(held: Sequence[Holding]) -> DeviceColours:
    """A colour for each device, the same in all panels: for those of every mesh, and of every array that is on none."""
    grids = [layout.grid for layout in {each.layout for each in held} if layout is not None]
    grids += [each.holders for each in held if each.layout is None]
    return DeviceColours(np.concatenate([grid.ravel() for grid in grids]).tolist())


# --- the page ---------------------------------------------------------------------------------------------------------


def _figure(held: Sequence[Holding], note: str) -> Figure:
    layouts = {each.layout for each in held}
    layout = next(iter(layouts)) if len(layouts) == 1 else None
    colours = _colours(held)
    chosen = _chosen(held)
    panels = [mesh_panel(layout)] if layout is not None and layout.grid.size > 1 else []
    panels += [panel_of(each) for each in chosen]
    places, width, height = _flow(panels)
    width = max(width, _NARROWEST)
    title, sentences = _heading(held, chosen, layout, len(colours), panels, note)
    above = lines_of(title, width, 12, "bold")
    below = lines_of(" ".join(sentences), width, 8.5)
    head = len(above) * height_of(12) + len(below) * height_of(8.5) + 0.2
    canvas = new_canvas(width + 2 * _MARGIN, height + head + 2 * _MARGIN, "draw")
    y = canvas.paragraph(_MARGIN, _MARGIN, title, width, 12, INK, weight="bold")
    canvas.paragraph(_MARGIN, y, " ".join(sentences), width, 8.5, GREY)
    for panel, (left, top) in zip(panels, places, strict=True):
        draw_panel(canvas, panel, _MARGIN + left, _MARGIN + head + top, colours)
    return canvas.figure


def _chosen(held: Sequence[Holding]) -> list[Holding]:
    """The arrays that have a panel: all, or of too many the first of those that lie alike, the largest first if need be."""
    if len(held) <= _MOST_PANELS:
        return list(held)
    kinds: dict[Any, int] = {}
    for i, each in enumerate(held):
        kinds.setdefault((each.type, each.dims, each.layout), i)
    first = sorted(kinds.values(), key=lambda i: -held[i].bytes)[:_MOST_PANELS]
    rest = [i for i in range(len(held)) if i not in first][: _MOST_PANELS - len(first)]
    return [held[i] for i in sorted({*first, *rest})]


def _heading(
    held: Sequence[Holding], chosen: Sequence[Holding], layout: Layout | None, devices: int, panels: Sequence[Panel], note: str
) -> tuple[str, list[str]]:
    """The title, and the sentences below it."""
    title = f"{count_of(len(held), 'array')} on {count_of(devices, 'device')}"
    if layout is not None:
        title += f", mesh {', '.join(f'{axis}={size}' for axis, size in layout.axes)}"
    stack = "; a stack is a block that several devices hold." if any(each.holders.shape[-1] > 1 for each in chosen) else "."
    sentences = ["The numbers are those of devices, and each has a colour" + stack]
    if layout is not None and not layout.platform and devices > 1:
        sentences.append("The mesh is abstract: its devices are numbered in order.")
    if any(panel.how.left_out for panel in panels):
        sentences.append(
            f"With more than {MOST_BLOCKS} devices blocks are not drawn one by one: of each axis the first ones and the last are here."
        )
    if len(chosen) < len(held):
        kinds = {(each.type, each.dims, each.layout) for each in chosen}
        alike = sum((each.type, each.dims, each.layout) in kinds for each in held) - len(chosen)
        left = len(held) - len(chosen)
        sentences.append(
            f"{count_of(left, 'array')} {'is' if left == 1 else 'are'} left out, {alike} of them just like one that is here."
        )
    return title, sentences + ([note] if note else [])


def _flow(panels: Sequence[Panel]) -> tuple[list[tuple[float, float]], float, float]:
    """Places for panels, in lines of a page, and the size of all."""
    places, x, y, lowest, widest = [], 0.0, 0.0, 0.0, 0.0
    for panel in panels:
        if x and x + panel.width > _PAGE:
            x, y = 0.0, lowest + _GAP
        places.append((x, y))
        lowest = max(lowest, y + panel.height)
        widest = max(widest, x + panel.width)
        x += panel.width + _GAP
    return places, widest, lowest
