"""A U-Net with batch normalization that finds discs among squares and noise, with sharded images.

    python examples/unet.py

A convolution along a sharded axis permutes the boundary rows (a halo) and needs no other
communication. Batch normalization uses the mean and variance of the complete batch under every
layout. The layout alone selects data parallelism, spatial parallelism, or both. Images of half the
size have the axes `row_2` and `column_2`, because an axis name has one size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from gallery import (
    check,
    draw_curves,
    options,
    run_all,
    save,
    train,
)  # isort: skip - sets the number of devices
from matplotlib.figure import Figure

import namedax as nx

SIZE, BATCH, RATE, DECAY = 32, 16, 1.0, 0.9
# The channels before and after each convolution; an axis name has one size, so each number of
# channels has a name.
CHANNELS = {"grey": 1, "few": 8, "many": 16, "both": 16}
CONVOLUTIONS = {
    "in": ("grey", "few"),
    "down": ("few", "many"),
    "middle": ("many", "many"),
    "up": ("many", "few"),
    "out": ("both", "few"),
}
FINE, COARSE = ("row", "column"), ("row_2", "column_2")
ROWS, COLUMNS = ("row", "row_2"), ("column", "column_2")
ASSIGNMENTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "one device": ({}, {}),
    "batch": ({"x": 8}, {"batch": "x"}),
    "rows": ({"x": 4}, dict.fromkeys(ROWS, "x")),
    "batch + rows": ({"x": 4, "y": 2}, {"batch": "x", **dict.fromkeys(ROWS, "y")}),
    "rows + columns": (
        {"x": 2, "y": 4},
        {**dict.fromkeys(ROWS, "x"), **dict.fromkeys(COLUMNS, "y")},
    ),
}
Params = dict[str, Any]


def initial() -> tuple[Params, Params]:
    """Kernels of three by three pixels, the scale and offset of each normalization, and the running moments."""
    params, kept = {}, {}
    for key, (name, (before, after)) in zip(
        jax.random.split(jax.random.key(0), 6), CONVOLUTIONS.items(), strict=False
    ):
        kernel = nx.random.normal(
            key, (3, 3), named_shape={before: CHANNELS[before], f"{after}_out": CHANNELS[after]}
        )
        zeros = nx.zeros(named_shape={after: CHANNELS[after]})
        params[name] = {
            "kernel": kernel * (2 / 9 / CHANNELS[before]) ** 0.5,
            "scale": zeros + 1,
            "bias": zeros,
        }
        kept[name] = nx.nn.Moments(zeros, zeros + 1)
    params["last"] = nx.ones(named_shape={"few": CHANNELS["few"]}) / CHANNELS["few"]
    return params, kept


def network(p: Params, x: Any, kept: Params | None = None) -> tuple[Any, Params]:
    """The logit of a disc for every pixel, and the moments of the normalizations; if given, the moments `kept` are used instead."""
    moments: Params = {}

    def block(name: str, x: Any, space: tuple[str, str]) -> Any:
        before, after = CONVOLUTIONS[name]
        y = nx.conv(x, p[name]["kernel"], space, features_in=before, features_out=f"{after}_out")
        y = nx.rename(y, {f"{after}_out": after})
        given = {"mean": kept[name].mean, "var": kept[name].var} if kept else {}
        y, moments[name] = nx.nn.batch_norm(
            y, ("batch", *space), scale=p[name]["scale"], bias=p[name]["bias"], **given
        )
        return nx.nn.relu(y)

    fine = block("in", x, FINE)
    coarse = nx.nn.max_pool(
        fine, dict.fromkeys(FINE, 2), out_axis=dict(zip(FINE, COARSE, strict=True))
    )
    for name in ("down", "middle", "up"):
        coarse = block(name, coarse, COARSE)
    for small, large in zip(COARSE, FINE, strict=True):
        coarse = nx.repeat(coarse, 2, small, out_axis=large)
    fine = block("out", nx.concatenate([fine, coarse], "few", out_axis="both"), FINE)
    return nx.dot(fine, p["last"], "few") - 1.0, moments


def loss(p: Params, x: Any, disc: Any) -> tuple[Any, Params]:
    """The cross-entropy of every pixel."""
    logit, moments = network(p, x)
    return nx.mean(nx.nn.binary_cross_entropy(logit, disc), ("batch", *FINE)), moments


def step(state: tuple[Params, Params], x: Any, disc: Any) -> tuple[tuple[Params, Params], Any]:
    """One step of gradient descent."""
    p, kept = state
    (value, moments), gradient = jax.value_and_grad(loss, has_aux=True)(p, x, disc)
    kept = {name: nx.nn.update_moments(kept[name], moments[name], DECAY) for name in kept}
    return (jax.tree.map(lambda w, g: w - RATE * g, p, gradient), kept), value


def pictures(seed: int) -> tuple[Any, Any]:
    """Images with a disc, a square and noise, and the masks of the discs."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    size = (BATCH, 1, 1)
    centre, other = (rng.integers(5, SIZE - 5, (2, *size)) for _ in range(2))
    radius = rng.integers(3, 7, size)
    disc = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 <= radius**2
    square = np.maximum(abs(rows - other[0]), abs(columns - other[1])) <= rng.integers(2, 6, size)
    seen = np.where(square | disc, 1.0, 0.0) + 0.3 * rng.normal(size=(BATCH, SIZE, SIZE))
    return nx.named(seen[..., None].astype(np.float32), ["batch", *FINE, "grey"]), nx.named(
        disc.astype(np.float32), ["batch", *FINE]
    )


def main() -> None:
    """Train under every layout, compare, and draw the losses and the predictions for new images."""
    chosen = options(__doc__, "unet", steps=120)
    batches = [pictures(seed) for seed in range(chosen.steps)]

    def one(resources: Mapping[str, Any], mesh: Any) -> Any:
        return train(nx.xmap(step, axis_resources=resources, mesh=mesh), initial(), batches)

    runs = run_all(ASSIGNMENTS, one)
    check(runs, 1e-2)
    p, kept = runs["one device"].result
    x, disc = pictures(10_000)
    logit, _ = network(p, x, kept)
    right = float(nx.mean((logit > 0) == (disc > 0.5), ("batch", *FINE)))
    print(f"{right:.1%} of the pixels of new images are classified correctly.")
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right_part = figure.subfigures(1, 2, width_ratios=(3, 2))
    draw_curves(left.subplots(), runs)
    for column, entry in zip(right_part.subplots(3, 3).T, range(3), strict=True):
        for ax, shown in zip(
            column,
            (
                x["batch", entry]["grey", 0],
                nx.nn.sigmoid(logit)["batch", entry],
                disc["batch", entry],
            ),
            strict=True,
        ):
            ax.imshow(nx.positional(shown, list(FINE)), cmap="Greys")
            ax.set(xticks=[], yticks=[])
    right_part.suptitle("seen, found, and there")
    save(figure, chosen.out)


if __name__ == "__main__":
    main()
