"""Private training (DP-SGD): clip the gradient of each example, sum the gradients, and add noise.

    python examples/dp_sgd.py

Per-example gradients usually need a rewritten network. Here `nx.vmap` over `batch` turns `jax.grad`
into one gradient per example. The norms, the clipping and the sum are over named axes. Each device
stores the gradients of its own examples only; in steps (`SerialLoop`) it stores those of one step.
The noise is the same under every layout. With noise multiplier 1 and clipping at 1 this is Abadi et
al., "Deep learning with differential privacy", 2016. To compute the privacy budget of a run, use an
accounting library.
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
from sklearn.datasets import load_digits

import namedax as nx

EXAMPLES, CLIP, NOISE, RATE = 512, 1.0, 1.0, 2.0
ASSIGNMENTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "one device": ({}, {}),
    "batch": ({"x": 8}, {"batch": "x"}),
    "hidden": ({"x": 8}, {"hidden": "x"}),
    "batch + hidden": ({"x": 4, "y": 2}, {"batch": "x", "hidden": "y"}),
    "batch in steps": ({"x": 2}, {"batch": ("x", nx.SerialLoop(8))}),
}
AXES = {"up": ("pixel", "hidden"), "down": ("hidden", "class")}
Params = dict[str, Any]


def initial() -> Params:
    """A network of one hidden layer."""
    keys = jax.random.split(jax.random.key(0))
    sizes = {"pixel": 64, "hidden": 64, "class": 10}
    drawn = [
        nx.random.normal(k, named_shape={axis: sizes[axis] for axis in axes})
        for k, axes in zip(keys, AXES.values(), strict=True)
    ]
    return {name: x / 8 for name, x in zip(AXES, drawn, strict=True)}


def loss(params: Params, image: Any, label: Any) -> Any:
    """The loss of one example or of many, with the axis names of the arguments."""
    hidden = nx.tanh(nx.dot(image, params["up"], "pixel"))
    return nx.nn.softmax_cross_entropy(
        nx.dot(hidden, params["down"], "hidden"), label, axis="class"
    )


def clipped(params: Params, image: Any, label: Any) -> tuple[Any, Params]:
    """The loss of one example, and its gradient clipped to the norm `CLIP`."""
    value, gradient = jax.value_and_grad(loss)(params, image, label)
    scale = nx.minimum(1.0, CLIP / nx.interop.global_norm(gradient))
    return value, {name: g * scale for name, g in gradient.items()}


def step(state: tuple[Params, Any], images: Any, labels: Any) -> tuple[tuple[Params, Any], Any]:
    """One step of DP-SGD."""
    params, key = state
    key, *noise = jax.random.split(key, 1 + len(params))
    losses, gradients = nx.vmap(clipped, (None, "batch", "batch"))(params, images, labels)

    def private(key: Any, name: str) -> Any:
        sizes = dict.fromkeys(AXES[name])  # None: the size of this axis
        return nx.sum(gradients[name], "batch") + NOISE * CLIP * nx.random.normal(
            key, named_shape=sizes
        )

    new = {
        name: params[name] - RATE / EXAMPLES * private(k, name)
        for k, name in zip(noise, AXES, strict=True)
    }
    return (new, key), nx.mean(losses, "batch")


def main() -> None:
    """Train under every layout, compare and draw."""
    chosen = options(__doc__, "dp_sgd", steps=60)
    digits = load_digits()
    images = nx.named(np.float32(digits.data / 16), ["example", "pixel"])
    labels = nx.named(digits.target, ["example"])
    drawn = np.random.default_rng(0).integers(0, len(digits.target), (chosen.steps, EXAMPLES))
    batches = [
        tuple(nx.take(a, nx.named(rows, ["batch"]), "example") for a in (images, labels))
        for rows in drawn
    ]

    def one(resources: Mapping[str, Any], mesh: Any) -> Any:
        return train(
            nx.xmap(step, axis_resources=resources, mesh=mesh),
            (initial(), jax.random.key(1)),
            batches,
        )

    runs = run_all(ASSIGNMENTS, one)
    check(runs, 1e-4)
    params, _ = runs["one device"].result
    scores = nx.dot(nx.tanh(nx.dot(images, params["up"], "pixel")), params["down"], "hidden")
    right = float(nx.mean(nx.argmax(scores, "class") == labels, "example"))
    print(f"{right:.1%} of the digits are classified correctly after {chosen.steps} private steps.")
    figure = Figure(figsize=(6, 3.6))
    draw_curves(figure.subplots(), runs)
    save(figure, chosen.out)


if __name__ == "__main__":
    main()
