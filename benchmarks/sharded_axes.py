"""Functions that need a sharded axis complete: bytes and times beside programs by hand and gathers.

    python benchmarks/sharded_axes.py
    python benchmarks/sharded_axes.py --rows 16 --columns 4096

With a free axis, by hand is `all_to_all`, the `jnp` function, and `all_to_all` back. Without one,
the alternative is a gather of the axis on every device.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from timing import interleaved

import namedax as nx

MESH = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
BY_NAME: dict[str, Callable[[Any], Any]] = {
    "sort": lambda v: nx.sort(v, "k"),
    "argsort": lambda v: nx.argsort(v, "k"),
    "partition": lambda v: nx.partition(v, 7, "k"),
    "fft": lambda v: nx.numpy.fft.fft(v, axis="k"),
}
PLAIN: dict[str, Callable[[Any], Any]] = {
    "sort": lambda v: jnp.sort(v, -1),
    "argsort": lambda v: jnp.argsort(v, -1),
    "partition": lambda v: jnp.partition(v, 7, -1),
    "fft": lambda v: jnp.fft.fft(v, axis=-1),
}


def on_blocks(body: Callable[[Any], Any], spec: P) -> Callable[..., Any]:
    """Compile a body on blocks, by hand."""
    return jax.jit(jax.shard_map(body, mesh=MESH, in_specs=spec, out_specs=spec))


def exchanged(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Run a function between two exchanges, by hand."""

    def body(block: Any) -> Any:
        complete = lax.all_to_all(block, "x", 0, 1, tiled=True)
        return lax.all_to_all(function(complete), "x", 1, 0, tiled=True)

    return on_blocks(body, P(None, "x"))


def gathered(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Run a function on every device, on the gathered axis, by hand."""

    def body(block: Any) -> Any:
        whole = function(lax.all_gather(block, "x", axis=0, tiled=True))
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * len(block), len(block))

    return on_blocks(body, P("x"))


def mapped(name: str, dims: list[str]) -> Callable[..., Any]:
    """Compile a function by name."""
    return jax.jit(nx.xmap(BY_NAME[name], dims, dims, axis_resources={"k": "x"}, mesh=MESH))


def compare(title: str, functions: dict[str, Callable[..., Any]], x: Any) -> None:
    """Print bytes, temporary memory and time of each function."""
    times = interleaved({name: lambda f=f: f(x) for name, f in functions.items()}, rounds=7)
    cells = []
    for name, function in functions.items():
        compiled = function.lower(x).compile()
        sent = sum(one.wire_bytes for one in nx.hlo.collectives(compiled))
        memory = compiled.memory_analysis().temp_size_in_bytes
        cells.append(f"{name} {sent:>11,.0f} B {memory / 1e6:7.2f} MB {times[name] * 1e3:7.1f} ms")
    print(f"{title:>22}: " + " | ".join(cells), flush=True)


def main() -> None:
    """Compare with and without a free axis."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--columns", type=int, default=16384)
    options = parser.parse_args()
    data = np.random.default_rng(0).normal(size=(options.rows, options.columns))
    x = jax.device_put(jnp.asarray(data, jnp.float32), NamedSharding(MESH, P(None, "x")))
    for name in BY_NAME:
        rivals = {"by name": mapped(name, ["r", "k"]), "by hand": exchanged(PLAIN[name])}
        compare(f"{name}, a free axis", rivals, x)
    flat = jax.device_put(x.ravel(), NamedSharding(MESH, P("x")))
    for name in ("sort", "argsort"):
        rivals = {"by name": mapped(name, ["k"]), "gathered": gathered(PLAIN[name])}
        compare(f"{name}, one axis", rivals, flat)


if __name__ == "__main__":
    main()
