"""Shared code of the gallery: run one program under several layouts on eight simulated devices, compare, time and draw.

Import this module before JAX, because it sets the number of devices.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"{os.getenv('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import argparse
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import namedax as nx

# A mesh (axes and sizes), and `axis_resources`.
Assignments = Mapping[str, tuple[Mapping[str, int], Mapping[str, Any]]]
OUT = pathlib.Path(__file__).parent / "out"


class Run(NamedTuple):
    """The results of one layout: its numbers, which must not depend on it, the median time and the communication of a step."""

    numbers: np.ndarray
    milliseconds: float
    sends: str
    result: Any


def mesh_of(axes: Mapping[str, int]) -> jax.sharding.Mesh | None:
    """A mesh of these axes and sizes; None without axes."""
    count = int(np.prod(list(axes.values()), dtype=int))
    return (
        jax.make_mesh(tuple(axes.values()), tuple(axes), devices=jax.devices()[:count])
        if axes
        else None
    )


def train(step: Callable[..., Any], state: Any, batches: Iterable[tuple[Any, ...]]) -> Run:
    """Run the jitted `step(state, *batch) -> (state, loss)` over the batches; the numbers are the losses, and the result the last state."""
    compiled, losses, seconds = None, [], []
    for batch in batches:
        compiled = compiled or jax.jit(step).lower(state, *batch).compile()
        start = time.perf_counter()
        state, loss = jax.block_until_ready(compiled(state, *batch))
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
    assert compiled is not None, "there is no batch"
    return Run(
        np.array(losses), 1000 * float(np.median(seconds)), str(nx.hlo.summary(compiled)), state
    )


def measure(function: Callable[..., Any], *args: Any, repeats: int = 5) -> Run:
    """Run a jitted function several times; the numbers are the leaves of its result."""
    compiled = jax.jit(function).lower(*args).compile()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = jax.block_until_ready(compiled(*args))
        seconds.append(time.perf_counter() - start)
    leaves = [np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(result)]
    return Run(
        np.concatenate(leaves),
        1000 * float(np.median(seconds)),
        str(nx.hlo.summary(compiled)),
        result,
    )


def simulate(
    run: Callable[..., Any],
    args: tuple[Any, ...],
    step: Callable[..., Any],
    step_args: tuple[Any, ...],
    steps: int,
) -> Run:
    """Run all steps of a simulation as one program, once; `nx.explain` reports the communication of one step without compiling it."""
    compiled = jax.jit(run).lower(*args).compile()
    start = time.perf_counter()
    result = jax.block_until_ready(compiled(*args))
    milliseconds = 1000 * (time.perf_counter() - start) / steps
    result = jax.tree.map(np.asarray, result)  # gathered on the host, for pictures
    leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(result)]
    sent = nx.explain(step, *step_args).summary()
    sends = ", ".join(
        f"{count} {kind} ({nx.hlo.size_text(size)})" for kind, (count, size) in sent.items()
    )
    return Run(np.concatenate(leaves), milliseconds, sends or "none", result)


def run_all(
    assignments: Assignments, one: Callable[[Mapping[str, Any], Any], Run]
) -> dict[str, Run]:
    """Run `one(axis_resources, mesh)` under every layout; print a line for each."""
    runs = {}
    row = "{:<22} {:>10}  {}".format
    print(row("assignment", "ms a step", "a step sends"))
    for title, (axes, resources) in assignments.items():
        runs[title] = run = one(resources, mesh_of(axes))
        print(row(title, f"{run.milliseconds:.2f}", run.sends), flush=True)
    return runs


def check(runs: Mapping[str, Run], tolerance: float) -> None:
    """Print the relative difference of the numbers between layouts, and raise if it exceeds `tolerance`."""
    first = next(iter(runs.values())).numbers
    scale = float(np.max(np.abs(first)))
    worst = max(float(np.max(np.abs(run.numbers - first))) for run in runs.values()) / scale
    assert worst < tolerance, (
        f"the assignments differ by a relative {worst:.1e}, which is more than rounding"
    )
    print(
        f"\nThe numbers of {len(runs)} assignments agree to a relative {worst:.1e} (rounding may"
        f" cause {tolerance:.1e})."
    )


def draw_curves(ax: Axes, runs: Mapping[str, Run], what: str = "loss") -> None:
    """Draw the numbers of all runs as curves; the first is the widest."""
    for i, (title, run) in enumerate(runs.items()):
        ax.plot(run.numbers, label=title, linewidth=max(11 - 2 * i, 1.2), solid_capstyle="butt")
    ax.set(xlabel="step", title=f"{what}: {len(runs)} equal curves")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)


def sheet(title: str, subtitle: str, width: float, height: float) -> Figure:
    """A figure in inches, with a title and room below it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.75 / height))  # type: ignore[union-attr]
    figure.text(
        0.15 / width, 1 - 0.15 / height, title, size=15, weight="bold", color="#22272E", va="top"
    )
    figure.text(0.15 / width, 1 - 0.45 / height, subtitle, size=9.5, color="#6B737D", va="top")
    return figure


def save(figure: Figure, out: pathlib.Path) -> None:
    """Save a picture and print its path."""
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=200, bbox_inches="tight")
    print(f"The picture is in {os.path.relpath(out)}.")


def options(doc: str, name: str, steps: int) -> argparse.Namespace:
    """The options of every example: the number of steps, and the path of the picture."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=steps, help="number of steps (%(default)s)")
    parser.add_argument(
        "--out", type=pathlib.Path, default=OUT / f"{name}.png", help="path of the picture"
    )
    return parser.parse_args()
