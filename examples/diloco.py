"""DiLoCo: replicas train alone for many steps, and exchange their parameters once.

    python examples/diloco.py

Two groups of four devices stand for two data centers: the mesh axis `dcn` is slow, and `ici` is
fast. Each group trains a replica of the parameters with AdamW. The replicas are an axis `replica`
of parameters, optimizer state and batches, which is mapped to `dcn`. So the inner steps communicate
over `ici` only. Every `--every` steps an outer optimizer (SGD with Nesterov momentum) takes the mean
change of the replicas as a gradient. Every device sends its quarter of the parameters: the renaming
to the axis `cut` shards them over `ici`.

The script compares the loss with synchronous training on the same examples, whose gradients are
reduced in two levels, and prints the bytes over `dcn` for each step from `nx.explain`. It saves a
picture of the curves. Method: Douillard et al., "DiLoCo: Distributed Low-Communication Training of
Language Models", 2023.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import optax
from matplotlib.figure import Figure

import namedax as nx

REPLICAS, BATCH = 2, 128
SIZES = {"inputs": 32, "hidden": 256, "classes": 16}
PARAMETERS = {"w1": ("inputs", "hidden"), "b1": ("hidden",), "w2": ("hidden", "classes")}
INNER = optax.adamw(3e-3, weight_decay=1e-3)
OUTER = optax.sgd(0.7, momentum=0.6, nesterov=True)

Tree = Any


# --- the model and its data -----------------------------------------------------------------------


def initial(seed: int) -> Tree:
    """Random parameters."""
    keys = jax.random.split(jax.random.key(seed), len(PARAMETERS))
    return {
        name: nx.random.normal(key, named_shape={axis: SIZES[axis] for axis in axes})
        * SIZES[axes[0]] ** -0.5
        for key, (name, axes) in zip(keys, PARAMETERS.items(), strict=True)
    }


def logits_of(params: Tree, x: Any) -> Any:
    """A network of two layers."""
    hidden = nx.nn.gelu(nx.dot(x, params["w1"], "inputs") + params["b1"])
    return nx.dot(hidden, params["w2"], "hidden")


def loss(params: Tree, x: Any, labels: Any) -> Any:
    """The mean loss over the batch."""
    logits = logits_of(params, x)
    return nx.mean(nx.nn.softmax_cross_entropy(logits, labels, axis="classes"), "batch")


def batches(steps: int) -> tuple[Any, Any]:
    """Examples that a random network labels: for each step and replica a new batch."""
    shape = {"step": steps, "replica": REPLICAS, "batch": BATCH, "inputs": SIZES["inputs"]}
    x = nx.random.normal(jax.random.key(7), named_shape=shape)
    return x, nx.argmax(logits_of(initial(8), x), "classes")


# --- training -------------------------------------------------------------------------------------


def apply(optimizer: Any, gradients: Tree, state: Tree, params: Tree) -> tuple[Tree, Tree]:
    """One step of an optimizer, element by element."""
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state


def synchronous_step(params: Tree, state: Tree, x: Any, labels: Any) -> tuple[Tree, Tree, Any]:
    """A step of AdamW on the batches of all replicas."""

    def mean_loss(params: Tree) -> Any:
        return nx.mean(loss(params, x, labels), "replica")

    value, gradients = jax.value_and_grad(mean_loss)(params)
    return *apply(INNER, gradients, state, params), value


def inner_step(params: Tree, state: Tree, x: Any, labels: Any) -> tuple[Tree, Tree, Any]:
    """A step of AdamW of each replica on its batch."""

    def sum_of_losses(params: Tree) -> tuple[Any, Any]:
        losses = loss(params, x, labels)
        # Each replica has its own parameters, so its gradient is that of its own loss.
        return nx.sum(losses, "replica"), losses

    gradients, losses = jax.grad(sum_of_losses, has_aux=True)(params)
    return *apply(INNER, gradients, state, params), losses


def outer_step(local: Tree, anchor: Tree, state: Tree) -> tuple[Tree, Tree, Tree]:
    """A step of SGD with the mean change of the replicas, which then all begin there."""
    # `anchor` and `state` have the axis "cut", so each device sends its part over the slow axis.
    cut = nx.rename(local, hidden="cut")
    change = {name: anchor[name] - nx.mean(cut[name], "replica") for name in anchor}
    anchor, state = apply(OUTER, change, state, anchor)
    whole = nx.rename(anchor, cut="hidden")
    return {name: whole[name] + nx.zeros_like(local[name]) for name in local}, anchor, state


RESOURCES = {"replica": "dcn", "batch": "ici", "cut": "ici"}
Report = Any


def programs(mesh: Any) -> dict[str, Callable[..., Any]]:
    """The mapped functions: only the layouts and `slow_axes` mention the mesh."""
    data = {name: RESOURCES[name] for name in ("replica", "batch")}
    outer = {name: RESOURCES[name] for name in ("replica", "cut")}
    sync = functools.partial(nx.xmap, synchronous_step, axis_resources=data, mesh=mesh)
    return {
        "one level": sync(),
        "two levels": sync(slow_axes={"dcn": 0}),
        "inner": nx.xmap(inner_step, axis_resources=data, mesh=mesh),
        "outer": nx.xmap(outer_step, axis_resources=outer, mesh=mesh),
    }


def over_dcn(report: Report, smallest: int = 64) -> int:
    """The bytes over the slow axis, without losses of a few bytes."""
    return sum(
        one.bytes * one.trips
        for one in report.collectives
        if "dcn" in one.mesh_axes and one.bytes > smallest
    )


def per_step(data: tuple[Any, Any]) -> Iterator[tuple[Any, ...]]:
    """The batches of each step."""
    for i in range(data[0].named_shape["step"]):
        yield tuple(array[{"step": i}] for array in data)


def train_synchronously(step: Callable[..., Any], data: tuple[Any, Any]) -> tuple[list[float], int]:
    """The losses, and the bytes over the slow axis for each step."""
    params = initial(0)
    state = INNER.init(params)
    losses: list[float] = []
    sent = 0
    for batch in per_step(data):
        if not losses:
            sent = over_dcn(nx.explain(step, params, state, *batch))
        params, state, value = step(params, state, *batch)
        losses.append(float(value))
    return losses, sent


def train_diloco(
    inner: Callable[..., Any], outer: Callable[..., Any], data: tuple[Any, Any], every: int
) -> tuple[list[float], float]:
    """The mean losses of the replicas, and the bytes over the slow axis for each step."""
    params = initial(0)
    anchor = nx.rename(params, hidden="cut")
    outer_state = OUTER.init(anchor)
    replica = nx.zeros((), named_shape={"replica": REPLICAS})
    local = {name: param + replica for name, param in params.items()}
    state = INNER.init(local)
    losses: list[float] = []
    sent = 0.0
    for i, batch in enumerate(per_step(data)):
        if not i:
            sent = over_dcn(nx.explain(inner, local, state, *batch))
            sent += over_dcn(nx.explain(outer, local, anchor, outer_state)) / every
        local, state, values = inner(local, state, *batch)
        losses.append(float(np.mean(values.data)))
        if (i + 1) % every == 0:
            local, anchor, outer_state = outer(local, anchor, outer_state)
    return losses, sent


# --- the comparison -------------------------------------------------------------------------------


def smooth(losses: list[float]) -> np.ndarray:
    """Means of ten steps."""
    count = max(1, min(10, len(losses)))
    return np.convolve(losses, np.ones(count) / count, "valid")


def draw(curves: dict[str, tuple[list[float], float]], out: pathlib.Path) -> None:
    """Save the loss curves."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    ax = figure.add_subplot()
    for (label, (losses, sent)), color in zip(curves.items(), ("#3b6fb6", "#d9772b"), strict=True):
        ax.plot(
            smooth(losses), label=f"{label}: {sent / 1024:.1f} KiB over dcn a step", color=color
        )
    ax.set(xlabel="step", ylabel="loss, mean of ten steps")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(
        out, bbox_inches="tight", metadata={"Date": None} if out.suffix == ".svg" else None
    )
    print(f"The picture is in {out}.")


def main() -> None:
    """Train in both ways, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="number of steps (%(default)s)")
    parser.add_argument(
        "--every", type=int, default=20, help="steps between exchanges (%(default)s)"
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path(__file__).parent / "out" / "diloco.png",
        help="path of the picture",
    )
    given = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = jax.make_mesh((2, 4), ("dcn", "ici"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    data, mapped = batches(given.steps), programs(mesh)
    diloco = f"DiLoCo, every {given.every} steps"
    runs: dict[str, tuple[list[float], float]] = {
        "synchronous, one level": train_synchronously(mapped["one level"], data),
        "synchronous, two levels": train_synchronously(mapped["two levels"], data),
        diloco: train_diloco(mapped["inner"], mapped["outer"], data, given.every),
    }
    print(f"{'':26}{'bytes over dcn a step':>22}{'first loss':>12}{'last loss':>11}")
    for label, (losses, sent) in runs.items():
        print(f"{label:26}{sent:22,.0f}{losses[0]:12.4f}{smooth(losses)[-1]:11.4f}")
    one, two = (np.array(losses) for losses, _ in list(runs.values())[:2])
    np.testing.assert_allclose(one, two, rtol=2e-2)
    print("\nThe losses in one level and in two levels agree.")
    draw({label: run for label, run in runs.items() if not label.endswith("one level")}, given.out)


if __name__ == "__main__":
    main()
