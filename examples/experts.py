"""A mixture of experts that learns the kinds of its data: sixteen linear maps, learned by sixteen experts.

    python examples/experts.py

Every token belongs to one of sixteen unlabeled kinds, and each kind has its own linear map to
predict. A router assigns every token to two of sixteen experts. If experts and batch share a mesh
axis, all-to-alls carry tokens to their experts and back (one in each direction, expert
parallelism). On separate mesh axes, every device runs its experts on its tokens, and the results
are summed.
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

SIZES = {"embed": 16, "kind": 16, "expert": 16, "route": 16, "hidden": 32}
TOKENS, CAPACITY = {"batch": 16, "pos": 64}, 24
ASSIGNMENTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "one device": ({}, {}),
    "batch": ({"x": 8}, {"batch": "x"}),
    "experts with the batch": ({"x": 8}, {"batch": "x", "expert": "x"}),
    "experts on their own": ({"x": 2, "y": 4}, {"batch": "x", "expert": "y"}),
    "positions, experts": ({"x": 8}, {"pos": "x", "expert": "x"}),
    "hidden units": ({"x": 4, "y": 2}, {"batch": "x", "expert": "x", "hidden": "y"}),
}
Params = dict[str, Any]


def normal(key: Any, *names: str) -> Any:
    """Random numbers, scaled for a product over the second-last axis."""
    return (
        nx.random.normal(key, named_shape={name: SIZES[name] for name in names})
        / SIZES[names[-2]] ** 0.5
    )


def initial() -> Params:
    """The router, and two matrices per expert."""
    keys = jax.random.split(jax.random.key(1), 3)
    names = {
        "router": ("embed", "route"),
        "up": ("expert", "embed", "hidden"),
        "down": ("expert", "hidden", "embed"),
    }
    return {name: normal(key, *axes) for key, (name, axes) in zip(keys, names.items(), strict=True)}


def expert(p: Params, x: Any) -> Any:
    """Apply every expert to its slots, by name."""
    return nx.dot(nx.nn.gelu(nx.dot(x, p["up"], "embed")), p["down"], "hidden")


def route(p: Params, x: Any) -> Any:
    """Select two experts per token."""
    return nx.nn.top_k_routing(nx.dot(x, p["router"], "embed"), "route", 2)


def loss(p: Params, x: Any, wanted: Any) -> Any:
    """The squared error, plus a small penalty for uneven routing."""
    chosen = route(p, x)
    y = nx.nn.mixture_of_experts(
        expert, {"up": p["up"], "down": p["down"]}, x, chosen, tokens="pos", capacity=CAPACITY
    )
    uneven = nx.mean(nx.nn.load_balancing_loss(chosen, "pos"), "batch")
    return nx.mean(nx.square(y - wanted), ("batch", "pos", "embed")) + 0.01 * uneven


def step(state: tuple[Params, Params], x: Any, wanted: Any) -> tuple[tuple[Params, Params], Any]:
    """One step of gradient descent with momentum."""
    p, momentum = state
    value, gradient = jax.value_and_grad(loss)(p, x, wanted)
    momentum = {name: 0.9 * momentum[name] + g for name, g in gradient.items()}
    return ({name: p[name] - 0.5 * momentum[name] for name in p}, momentum), value


def data(steps: int) -> list[tuple[Any, Any, Any]]:
    """Tokens around the center of their kind, their targets, and the kind, which the model does not receive."""
    rng = np.random.default_rng(0)
    centres = nx.named(3 * rng.normal(size=(16, 16)).astype(np.float32), ["kind", "embed"])
    maps = nx.named(rng.normal(size=(16, 16, 16)).astype(np.float32) / 4, ["kind", "from", "embed"])
    out = []
    for _ in range(steps):
        kind = nx.named(rng.integers(0, 16, tuple(TOKENS.values())), list(TOKENS))
        noise = nx.named(
            rng.normal(size=(*TOKENS.values(), 16)).astype(np.float32), [*TOKENS, "embed"]
        )
        x = (nx.take(centres, kind, "kind") + noise) / 3
        out.append(
            (
                x,
                nx.dot(nx.rename(noise, {"embed": "from"}), nx.take(maps, kind, "kind"), "from"),
                kind,
            )
        )
    return out


def main() -> None:
    """Train under every layout, compare, and draw the losses and the routing."""
    chosen = options(__doc__, "experts", steps=100)
    batches = data(chosen.steps)

    def one(resources: Mapping[str, Any], mesh: Any) -> Any:
        start = initial()
        state = (start, {name: 0.0 * w for name, w in start.items()})
        return train(
            nx.xmap(step, axis_resources=resources, mesh=mesh),
            state,
            [(x, y) for x, y, _ in batches],
        )

    runs = run_all(ASSIGNMENTS, one)
    check(runs, 1e-3)
    (p, _), (x, _, kind) = runs["one device"].result, batches[-1]
    scores = nx.argmax(nx.dot(x, p["router"], "embed"), "route")
    served = nx.sum(
        nx.nn.one_hot(kind, axis="kind", num_classes=16)
        * nx.nn.one_hot(scores, axis="first", num_classes=16),
        ("batch", "pos"),
    )
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_curves(left, runs)
    right.imshow(nx.positional(served, ["kind", "first"]), cmap="magma_r")
    right.set(
        title="tokens of each kind by their first expert",
        xlabel="expert",
        ylabel="kind",
        xticks=range(0, 16, 3),
    )
    save(figure, chosen.out)


if __name__ == "__main__":
    main()
