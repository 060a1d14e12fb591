"""Draws the pictures of docs/guides/think_in_names.md, which are readable on a light and on a dark page.

    python -m tools.concept_pictures            # writes docs/static/axes.svg and docs/static/variance.svg
    python -m tools.concept_pictures --check    # fails if a file is not what the program draws now

The devices of each block are read off arrays that are placed, and the numbers on the devices are
computed by `jax.shard_map`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tools.pictures import LENGTH, MESH, MONO, SIZES, holders, labels, text

STATIC = Path(__file__).parents[1] / "docs" / "static"
LAYOUT: dict[Hashable, Any] = {"batch": "x", "hidden": "y"}
# The text is a grey that is read on white and on black; blocks are opaque, with ink of their own.
NEUTRAL, RULE, DARK, LIGHT = "#7d838c", "#9aa0a8", "#1b1f24", "#ffffff"
STRONG = ("#3b6fb6", "#b85f1c", "#3f8042", "#7d4f9a")
WEAK = ("#9dbce6", "#f0b788", "#a3d3a4", "#cfaee0")
REPLICATED = ("#57606a", "#aab1ba")


def axes_picture() -> str:
    """The axes of arrays, the mesh axes, the layout between them, and the blocks that follow."""
    parts = [*frame(456, 286, "Axis names, mesh axes, and the blocks of three arrays")]
    parts += [text(14, 22, "axes of arrays", 14, NEUTRAL), text(318, 22, "mesh axes", 14, NEUTRAL)]
    rows = {"batch": 50, "hidden": 84, "inputs": 118}
    for name, y in rows.items():
        parts += pill(14, y, name, 110)
        axis = LAYOUT.get(name)
        if axis:
            parts += [arrow(130, y, 312), *pill(318, y, f"{axis}: size {MESH[axis]}", 130)]
            parts.append(code(221, y - 7, f'"{name}": "{axis}"', "middle"))
        else:
            parts.append(text(136, y + 5, "no entry: every device has the full axis", 13, NEUTRAL))
    parts.append(text(14, 160, "the block of each array on devices 0 to 7", 14, NEUTRAL))
    x = 14.0
    for title, down, across in (
        ("images", "batch", "inputs"),
        ("w1", "inputs", "hidden"),
        ("hidden units", "batch", "hidden"),
    ):
        parts += [text(x, 184, title, 13, NEUTRAL), *placed(x, 192, (down, across))]
        x += 1.3 * LENGTH[across] + 70
    return "\n".join([*parts, "</svg>"]) + "\n"


def placed(left: float, top: float, axes: tuple[str, str]) -> Iterator[str]:
    """An array under `LAYOUT`: one opaque rectangle for each block, with its devices."""
    shape = (SIZES[axes[0]], SIZES[axes[1]])
    heights, widths = (scale * LENGTH[axis] for scale, axis in zip((1, 1.3), axes, strict=True))
    for (rows, columns), devices in holders(shape, axes, LAYOUT).items():
        y, x = top + rows[0] / shape[0] * heights, left + columns[0] / shape[1] * widths
        height = (rows[1] - rows[0]) / shape[0] * heights - 2
        width = (columns[1] - columns[0]) / shape[1] * widths - 2
        fill, ink = colours(devices)
        yield box(x, y, width, height, fill)
        for line, above in labels(devices):
            middle = y + height / 2 + 5 + above
            yield text(x + width / 2, middle, line, 13, ink, ' text-anchor="middle"')


def colours(devices: list[int]) -> tuple[str, str]:
    """Fill and ink: a colour for each position along x, weak for the second along y, grey for a column of the mesh."""
    rows = {device // MESH["y"] for device in devices}
    second = {device % MESH["y"] for device in devices} == {1}
    strong, weak = (REPLICATED[0], REPLICATED[1]) if len(rows) > 1 else both(min(rows))
    return (weak, DARK) if second else (strong, LIGHT)


def both(row: int) -> tuple[str, str]:
    """The strong and the weak colour of a position along x."""
    return STRONG[row], WEAK[row]


def variance_picture() -> str:
    """A sum over a sharded axis: blocks, local sums, and the result of the all-reduce."""
    blocks, local, total = sums()
    parts = [*frame(436, 222, "A sum over a sharded axis: varying blocks and sums, one result")]
    rows = (
        ("{batch:8@x}", "varying over x", blocks),
        ("local sum", "varying over x", local),
        ("all-reduce", "invariant over x", total),
    )
    for device in range(4):
        parts.append(text(182 + 68 * device, 20, f"device {device}", 13, NEUTRAL, MIDDLE))
    for number, (title, kind, values) in enumerate(rows):
        y = 32 + 70 * number
        parts += [text(14, y + 19, title, 14, NEUTRAL), text(14, y + 38, kind, 14, NEUTRAL)]
        for device, value in enumerate(values):
            fill = REPLICATED[0] if kind.startswith("invariant") else STRONG[device]
            parts.append(box(152 + 68 * device, y, 62, 44, fill))
            shown = " ".join(f"{v:g}" for v in np.ravel(value))
            parts.append(text(183 + 68 * device, y + 27, shown, 15, LIGHT, MIDDLE))
            if number < 2:
                parts.append(f'<path d="M{183 + 68 * device} {y + 48}v18" stroke="{RULE}"/>')
        if number == 1:
            parts.append(f'<path d="M183 {y + 58}h{68 * 3}" stroke="{RULE}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def sums() -> tuple[Any, Any, Any]:
    """The values on four devices: blocks of eight numbers, their sums, and the sum of all."""
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((4,), ("x",), axis_types=auto, devices=jax.devices()[:4])
    each = jax.P("x")

    def body(block: Any) -> Any:
        local = jnp.sum(block, keepdims=True)
        total = jax.lax.psum(local, "x")
        return block, local, total

    mapped = jax.shard_map(body, mesh=mesh, in_specs=each, out_specs=(each, each, jax.P()))
    found = mapped(jnp.arange(8.0))
    return tuple(
        [np.asarray(shard.data) for shard in sorted(array.addressable_shards, key=device_of)]
        for array in found
    )  # type: ignore[return-value]  # three arrays


def device_of(shard: Any) -> int:
    """The number of the device of a shard."""
    return int(shard.device.id)


MIDDLE = ' text-anchor="middle"'


def frame(width: int, height: int, title: str) -> Iterator[str]:
    """The opening of a picture without a ground."""
    size = f'viewBox="0 0 {width} {height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif">'
    yield f"<title>{title}</title>"


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A filled rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}"/>'


def pill(x: float, y: float, words: str, width: float) -> Iterator[str]:
    """An axis: its name in a rounded frame."""
    yield f'<rect x="{x:g}" y="{y - 13:g}" width="{width:g}" height="26" rx="13" fill="none" stroke="{RULE}" stroke-width="1.5"/>'
    yield code(x + width / 2, y + 5, words, "middle")


def code(x: float, y: float, words: str, anchor: str) -> str:
    """A piece of code."""
    return text(x, y, words, 13, NEUTRAL, f' font-family="{MONO}" text-anchor="{anchor}"')


def arrow(x: float, y: float, to: float) -> str:
    """A horizontal arrow."""
    return f'<path d="M{x:g} {y:g}H{to:g}m-6 -4l6 4l-6 4" fill="none" stroke="{RULE}" stroke-width="1.5"/>'


PICTURES: Mapping[str, Callable[[], str]] = {
    "axes.svg": axes_picture,
    "variance.svg": variance_picture,
}


def main() -> int:
    """Writes the pictures, or compares them with the files: 1 if one differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args().check
    old = []
    for name, draw in PICTURES.items():
        path, drawn = STATIC / name, draw()
        if not check:
            path.write_text(drawn, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != drawn:
            old.append(name)
    for name in old:
        print(f"{name} is not what tools/concept_pictures.py draws; run it", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
