"""Draws the picture of README and of the site's home page: one model under four layouts.

    python tools/pictures.py            # writes docs/static/layouts.svg
    python tools/pictures.py --check    # fails if that is not what the program draws now

The device of each block is read off arrays that are placed, and the communication of a training step
off `nx.explain`. No text of the picture is written by hand.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Hashable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp

import namedax as nx

PICTURE = Path(__file__).parents[1] / "docs" / "static" / "layouts.svg"
SIZES = {"batch": 32, "inputs": 64, "hidden": 128, "classes": 10}
LAYOUTS: tuple[dict[Hashable, Any], ...] = (
    {},
    {"batch": "x"},
    {"hidden": "y"},
    {"batch": "x", "hidden": "y"},
)
MESH = {"x": 4, "y": 2}

# In the picture's units: two cells in a row, which are read on a telephone of 400 pixels too.
WIDTH, CELL, ROW, TOP, EDGE = 560, 280, 204, 16, 14
LENGTH = {"batch": 88, "inputs": 44, "hidden": 82}
COLOURS = (
    "#3b6fb6",
    "#d9772b",
    "#4f9a51",
    "#8e62a8",
)  # one for each place along x; the second along y is lighter
INK, GREY, PAPER, RULE = "#22272e", "#57606a", "#ffffff", "#d0d7de"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def loss(params: Any, images: Any, labels: Any) -> Any:
    """The model of README."""
    hidden = nx.nn.relu(nx.dot(images, params["w1"], "inputs"))
    logits = nx.dot(hidden, params["w2"], "hidden")
    return nx.mean(nx.nn.softmax_cross_entropy(logits, labels, axis="classes"), "batch")


def picture() -> str:
    """The picture as SVG."""
    rows = (len(LAYOUTS) + 1) // 2
    height = TOP + rows * ROW + 10
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' font-family="system-ui, sans-serif" fill="{INK}">'
        ),
        "<title>One model under four layouts on a mesh of 4 by 2 devices</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="{PAPER}"/>',
    ]
    for number, resources in enumerate(LAYOUTS):
        parts += cell(CELL * (number % 2), TOP + ROW * (number // 2), resources)
    return "\n".join([*parts, "</svg>"]) + "\n"


def cell(left: float, top: float, resources: Mapping[Hashable, Any]) -> Iterator[str]:
    """One layout: its dictionary, the blocks of three arrays, and the communication of a step."""
    if top > TOP:
        yield f'<path d="M{left + EDGE} {top}h{CELL - 2 * EDGE}" stroke="{RULE}"/>'
    written = "{" + ", ".join(f'"{name}": "{axis}"' for name, axis in resources.items()) + "}"
    yield text(left + EDGE, top + 23, written, 14, INK, f' font-family="{MONO}" font-weight="600"')
    x, y = left + EDGE, top + 56
    for index, (title, down, across) in enumerate(
        (("images", "batch", "inputs"), ("w1", "inputs", "hidden"), ("hidden", "batch", "hidden"))
    ):
        if index:
            yield text(x - 11, y + 48, "·→"[index - 1], 20, GREY, ' text-anchor="middle"')
        yield text(x, y - 8, title, 14, GREY)
        yield from blocks(x, y, (down, across), resources)
        x += LENGTH[across] + 22
    yield text(left + EDGE, top + ROW - 36, sent(resources), 13, GREY)


def blocks(
    left: float, top: float, axes: tuple[str, str], resources: Mapping[Hashable, Any]
) -> Iterator[str]:
    """An array, each block in the color of the devices that store it."""
    shape = tuple(SIZES[axis] for axis in axes)
    scale = [LENGTH[axis] / SIZES[axis] for axis in axes]
    for (rows, columns), devices in holders(shape, axes, resources).items():
        y, x = top + rows[0] * scale[0], left + columns[0] * scale[1]
        height, width = (rows[1] - rows[0]) * scale[0], (columns[1] - columns[0]) * scale[1]
        fill, shade, ink = look(devices)
        yield (
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"'
            f' fill-opacity="{shade}" stroke="{PAPER}" stroke-width="2"/>'
        )
        for words, above in labels(devices):
            yield text(
                x + width / 2, y + height / 2 + 5 + above, words, 14, ink, ' text-anchor="middle"'
            )


def labels(devices: list[int]) -> list[tuple[str, int]]:
    """The numbers of devices in one line or two, each with its distance from the middle."""
    if len(devices) > 2 and devices == list(range(devices[0], devices[-1] + 1)):
        return [(f"{devices[0]}–{devices[-1]}", 0)]
    if len(devices) < 3:
        return [(" ".join(map(str, devices)), 0)]
    half = len(devices) // 2
    return [
        (" ".join(map(str, part)), above)
        for part, above in ((devices[:half], -8), (devices[half:], 8))
    ]


def holders(
    shape: tuple[int, ...], axes: tuple[str, str], resources: Mapping[Hashable, Any]
) -> dict[Any, list[int]]:
    """The devices that store each block of an array, by the limits of the block, read off a placed array."""
    if not resources:
        return {
            tuple((0, size) for size in shape): [0]
        }  # nothing is mapped, and one device does it all
    mesh = jax.make_mesh(tuple(MESH.values()), tuple(MESH))
    named = nx.named(jnp.zeros(shape), list(axes))
    placed = nx.shard(named, {axis: resources[axis] for axis in axes if axis in resources}, mesh)
    held: dict[Any, list[int]] = {}
    blocks: Mapping[Any, Any] = placed.sharding.devices_indices_map(shape)
    for device, index in blocks.items():
        held.setdefault(
            tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True)), []
        ).append(device.id)
    return {block: sorted(devices) for block, devices in held.items()}


def look(devices: list[int]) -> tuple[str, float, str]:
    """Color, strength and ink of a block: the color of a coordinate along x, weaker for the second along y, grey if replicated."""
    places = {device // MESH["y"] for device in devices}, {device % MESH["y"] for device in devices}
    second = places[1] == {1}
    if len(places[0]) == 1 and (len(places[1]) == 1 or len(devices) == MESH["y"]):
        return COLOURS[min(places[0])], 0.45 if second else 1, INK if second else PAPER
    return (
        GREY,
        0.15 if len(devices) == 8 else 0.45 if second else 0.8,
        INK if second or len(devices) == 8 else PAPER,
    )


def sent(resources: Mapping[Hashable, Any]) -> str:
    """The communication of a training step, as text."""
    mesh = jax.make_mesh(tuple(MESH.values()), tuple(MESH))
    ones = {
        name: nx.ones(named_shape={axis: SIZES[axis] for axis in axes})
        for name, axes in {"w1": ("inputs", "hidden"), "w2": ("hidden", "classes")}.items()
    }
    images, labels = (
        nx.ones(named_shape={"batch": SIZES["batch"], "inputs": SIZES["inputs"]}),
        nx.zeros((), int, named_shape={"batch": SIZES["batch"]}),
    )
    report = nx.explain(
        jax.grad(nx.xmap(loss, axis_resources=resources, mesh=mesh)), ones, images, labels
    )
    if not report.collectives:
        return "no communication"
    over: dict[tuple[str, ...], float] = {}
    for one in report.collectives:
        over[one.mesh_axes] = over.get(one.mesh_axes, 0) + one.bytes * one.trips
    (kind,) = {one.kind for one in report.collectives}
    return f"{kind}: " + ", ".join(
        f"{size / 1024:.1f} KiB on {''.join(axes)}" for axes, size in over.items()
    )


def text(x: float, y: float, words: str, size: int, colour: str, more: str = "") -> str:
    """A line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}"{more}>{escape(words)}</text>'
    )


def main() -> int:
    """Writes the picture, or compares it with what is there: 1 if it differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    drawn = picture()
    if parser.parse_args().check:
        if PICTURE.read_text(encoding="utf-8") != drawn:
            print(f"{PICTURE.name} is not what tools/pictures.py draws; run it", file=sys.stderr)
            return 1
        return 0
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
