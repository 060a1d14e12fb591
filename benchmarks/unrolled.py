"""Tracing and lowering a transformer whose layers are a Python loop, by hand and by name.

    python benchmarks/unrolled.py --layers 4 16 64 --layout dp+tp
    python benchmarks/unrolled.py --jit     # `jax.jit` around the layer

The gradient is taken inside of the mapped function, or of it. Times are processor times of the
calling thread with cold caches, medians of alternating rounds, and the table has ratios to the
program by hand with the gradient inside. `text` is the length of the lowered program.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import check
import jax
import transformer_by_hand as hand
from jax.sharding import PartitionSpec as P

import namedax as nx

benchmark = check.transformer()

CONFIG = dataclasses.replace(
    benchmark.model.Config(
        layers=1, embed=32, kv_heads=4, group=2, key=8, hidden=64, vocab=64, pos=32
    ),
    remat=False,
)
COLUMNS = ("trace", "lower", "text")


@dataclasses.dataclass(frozen=True)
class Unrolled(hand.Layout):
    """A layout of parameters that are separate for each layer."""

    layers: int = 1

    def specs(self) -> Any:
        """The sharding of every parameter."""
        specs = super().specs()
        one = {name: P(*spec[1:]) for name, spec in specs["layers"].items()}
        return specs | {"layers": [one] * self.layers}


@contextlib.contextmanager
def loops_in_python(is_jitted: bool) -> Iterator[None]:
    """Let both models loop over a list of layers in Python."""

    def loop(step: Callable[..., Any], x: Any, layers: list[Any]) -> tuple[Any, None]:
        step = jax.jit(step) if is_jitted else step
        for p in layers:
            x, _ = step(x, p)
        return x, None

    class Namespace:
        def __init__(self, own: Any) -> None:
            self.own = own

        def __getattr__(self, name: str) -> Any:
            return loop if name == "scan" else getattr(self.own, name)

    before = hand.lax, benchmark.model.nx
    hand.lax, benchmark.model.nx = Namespace(hand.lax), Namespace(nx)
    try:
        yield
    finally:
        hand.lax, benchmark.model.nx = before


def separate(layers: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The parameters of each layer, all equal."""
    return [{name: x[0] for name, x in layers.items()}] * count


def programs(
    layout: str, layers: int
) -> dict[str, tuple[Callable[[], Callable[..., Any]], tuple[Any, ...]]]:
    """The four programs: functions that make one, and its arguments."""
    shape, resources = benchmark.LAYOUTS[layout]
    mesh = benchmark.mesh_of(shape)
    own = Unrolled(**dataclasses.asdict(hand.LAYOUTS[layout]) | {"remat": False, "layers": layers})
    params, tokens, targets = benchmark.arguments(CONFIG, 8)
    params["layers"] = separate(params["layers"], layers)
    batch = own.batch_spec()
    raw = hand.place(benchmark.unnamed(params), tokens, targets, own, mesh)
    named = params, *(nx.named(x, ["batch", "pos"]) for x in (tokens, targets))
    named = nx.shard(named, resources, mesh)
    options: dict[str, Any] = {"axis_resources": resources, "mesh": mesh}

    def by_hand_outside() -> Any:
        mapped = jax.shard_map(
            lambda *args: hand.loss(*args, own),
            mesh=mesh,
            in_specs=(own.specs(), batch, batch),
            out_specs=P(),
        )
        return jax.jit(jax.value_and_grad(mapped))

    def inside() -> Any:
        loss = functools.partial(benchmark.model.loss, config=CONFIG)
        return nx.xmap(jax.value_and_grad(loss), **options)

    def outside() -> Any:
        loss = functools.partial(benchmark.model.loss, config=CONFIG)
        return jax.jit(jax.value_and_grad(nx.xmap(loss, **options)))

    return {
        "by hand, inside": (lambda: hand.mapped(own, mesh), raw),
        "by hand, outside": (by_hand_outside, raw),
        "namedax, inside": (inside, named),
        "namedax, outside": (outside, named),
    }


def costs(make: Callable[[], Any], args: tuple[Any, ...]) -> tuple[float, float, int]:
    """Seconds of the trace and of the lowering, and the characters of the lowered program."""
    jax.clear_caches()
    gc.collect()
    begin = time.thread_time()
    traced = make().trace(*args)
    between = time.thread_time()
    lowered = traced.lower()
    end = time.thread_time()
    return between - begin, end - between, len(lowered.as_text())


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", nargs="*", type=int, default=[4, 16, 64])
    parser.add_argument("--layout", choices=list(benchmark.LAYOUTS), default="dp+tp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jit", action="store_true")
    options = parser.parse_args()
    print("| layers | program |", " | ".join(COLUMNS), "|\n|---|---|" + "---|" * len(COLUMNS))
    for layers in options.layers:
        with loops_in_python(options.jit):
            rivals = programs(options.layout, layers)
            for make, args in rivals.values():
                costs(make, args)  # names and modules are known in later rounds
            found: dict[str, list[Any]] = {name: [] for name in rivals}
            for round_ in range(options.rounds):
                for name in list(rivals) if round_ % 2 == 0 else reversed(list(rivals)):
                    found[name].append(costs(*rivals[name]))
        medians = {
            name: [statistics.median(column) for column in zip(*rows, strict=True)]
            for name, rows in found.items()
        }
        first = next(iter(medians.values()))
        for name, row in medians.items():
            shown = [f"{value / one:.2f}" for value, one in zip(row, first, strict=True)]
            if name == next(iter(medians)):
                shown = [f"{row[0] * 1e3:,.0f} ms", f"{row[1] * 1e3:,.0f} ms", f"{row[2]:,}"]
            print(f"| {layers} | {name} |", " | ".join(shown), "|", flush=True)


if __name__ == "__main__":
    main()
