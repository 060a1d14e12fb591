"""Processor time of `nx.plan`, and of `nx.explain` relative to the trace of the same function.

    python benchmarks/plan_time.py                    # layers in a scan, and in a Python loop
    python benchmarks/plan_time.py --layers 64

The function is the value and gradient of residual layers with attention and a gated network, under
`jax.checkpoint`. Nothing is compiled. Traces and reports of new functions alternate; the ratio is
the median of the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

import namedax as nx

SIZES = {"embed": 256, "embed_fsdp": 256, "heads": 8, "key": 32, "hidden": 1024}
WEIGHTS = {
    "query": "embed_fsdp heads key",
    "key": "embed_fsdp heads key",
    "value": "embed_fsdp heads key",
    "out": "heads key embed_fsdp",
    "gate": "embed_fsdp hidden",
    "up": "embed_fsdp hidden",
    "down": "hidden embed_fsdp",
}
READ, WRITE = "{embed},{embed:embed_fsdp}->", "{{{0}}},{{{0},embed:embed_fsdp}}->{{embed}}"
MESH = jax.sharding.AbstractMesh((2, 4), ("x", "y"))
ROUNDS = 5

Params = dict[str, Any]


def layer(x: nx.NamedArray, p: Params) -> nx.NamedArray:
    """Attention, and a gated network."""
    query, key, value = (nx.einsum(READ, x, p[name]) for name in ("query", "key", "value"))
    seen = nx.nn.dot_product_attention(query, key, value, axis="pos", features="key")
    x = x + nx.einsum(WRITE.format("heads,key"), seen, p["out"])
    gate, up = (nx.einsum(READ, x, p[name]) for name in ("gate", "up"))
    return x + nx.einsum(WRITE.format("hidden"), nx.nn.silu(gate) * up, p["down"])


def scanned(layers: Params, x: nx.NamedArray) -> jax.Array:
    """The loss of layers that are stacked along a leading axis."""
    x, _ = nx.scan(lambda x, p: (jax.checkpoint(layer)(x, p), None), x, layers)
    return nx.mean(nx.square(x), ("batch", "pos", "embed"))


def unrolled(layers: list[Params], x: nx.NamedArray) -> jax.Array:
    """The loss of a list of layers."""
    for p in layers:
        x = jax.checkpoint(layer)(x, p)
    return nx.mean(nx.square(x), ("batch", "pos", "embed"))


def types(*names: str | None, stack: int = 1, **sizes: int) -> Any:
    """The type of a named array; `None` is the axis of the layers."""
    every = SIZES | sizes
    shape = [stack if name is None else every[name] for name in names]
    return jax.eval_shape(lambda: nx.named(jnp.zeros(shape), list(names)))


def program(count: int, is_unrolled: bool) -> tuple[Callable[..., Any], tuple[Any, Any]]:
    """A function, and the types of its arguments."""
    x = types("batch", "pos", "embed", batch=32, pos=128)
    one = {name: types(*axes.split()) for name, axes in WEIGHTS.items()}
    if is_unrolled:
        return jax.value_and_grad(unrolled), ([one] * count, x)
    stacked = {n: types(None, *axes.split(), stack=count) for n, axes in WEIGHTS.items()}
    return jax.value_and_grad(scanned), (stacked, x)


def seconds(run: Callable[..., Any], *args: Any) -> float:
    """Processor time of one call."""
    began = time.process_time()
    run(*args)
    return time.process_time() - began


def row(count: int, is_unrolled: bool, with_plan: bool) -> str:
    """The times of one program, as text."""
    f, args = program(count, is_unrolled)
    resources = {"batch": "x", "heads": "y", "hidden": "y"}

    def mapped() -> Any:
        return nx.xmap(lambda *args: f(*args), axis_resources=resources, mesh=MESH)

    nx.explain(mapped(), *args)
    rounds = [
        (seconds(mapped().trace, *args), seconds(nx.explain, mapped(), *args))
        for _ in range(ROUNDS)
    ]
    trace, report = map(statistics.median, zip(*rounds, strict=True))
    text = f"{'unrolled' if is_unrolled else 'scanned':8} {count:3} layers: trace {trace:5.2f} s,"
    text += f" report {report:5.2f} s, {statistics.median(b / a for a, b in rounds):.2f} times"
    if with_plan:
        began = time.process_time()
        plan = nx.plan(nx.xmap(f), *args, mesh=MESH, machine=nx.machines.v5p, progress=False)
        spent = time.process_time() - began
        text += f"; plan {spent:5.1f} s, {plan.traces} traces, {plan.best}"
    return text


def main() -> None:
    """Print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="*", default=[4, 16])
    parser.add_argument("--no-plan", action="store_true", help="time traces and reports only")
    options = parser.parse_args()
    for is_unrolled in (False, True):
        for count in options.layers:
            print(row(count, is_unrolled, not options.no_plan), flush=True)


if __name__ == "__main__":
    main()
