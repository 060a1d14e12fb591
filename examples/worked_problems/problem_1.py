"""Problem 1: compute something for every shard of an array, without communication.

    python examples/worked_problems/problem_1.py

A shard is an ordinary axis. Split `s` into `shard`, which keeps its mesh axis, and `within`, which
is local to a device. An operation over `within` then applies to each shard, on any mesh, and
without one.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from figures import make_mesh, place, table
from jax.sharding import NamedSharding, PartitionSpec

import namedax as nx

RESOURCES = {"s": "X", "shard": "X", "d": "Y"}


def means(a: nx.NamedArray) -> nx.NamedArray:
    """The mean over each shard: `{s, d}` to `{shard, d}`."""
    return nx.mean(nx.split_axis(a, "s", ["shard", "within"]), "within")


def rolled(a: nx.NamedArray, shift: int = 3) -> nx.NamedArray:
    """`roll(x, shift) - x` within each shard: `{s, d}` as before."""
    x = nx.split_axis(a, "s", ["shard", "within"])
    return nx.rearrange(nx.roll(x, shift, "within") - x, "{shard, within} -> {s=(shard within)}")


OUT_AXES = {means: ["shard", "d"], rolled: ["s", "d"]}


def mapped(function: Any, mesh: Any, **options: Any) -> Any:
    """One of the two functions over positional arrays `[s, d]`, with the shards on `X`."""
    sizes = {"shard": mesh.shape["X"]}
    return nx.xmap(
        function,
        ["s", "d"],
        OUT_AXES[function],
        axis_sizes=sizes,
        axis_resources=RESOURCES,
        mesh=mesh,
        **options,
    )


def plain_means(a: jax.Array, shards: int) -> jax.Array:
    """`means` without names."""
    return a.reshape(shards, -1, a.shape[1]).mean(1)


def plain_rolled(a: jax.Array, shards: int, shift: int = 3) -> jax.Array:
    """`rolled` without names."""
    x = a.reshape(shards, -1, a.shape[1])
    return (jnp.roll(x, shift, 1) - x).reshape(a.shape)


def main(s: int = 4096, d: int = 1024) -> None:
    """Print the table."""
    mesh = make_mesh(4, 2)
    a = place(mesh, jnp.arange(s * d).reshape(s, d) % 97 / 97, "X", "Y")
    out = NamedSharding(mesh, PartitionSpec("X", "Y"))
    for title, function, plain in (
        ("1. the mean of each shard", means, plain_means),
        ("2. roll(x, 3) - x within each shard", rolled, plain_rolled),
    ):
        programs = {
            "jax.jit": jax.jit(lambda a, plain=plain: plain(a, mesh.shape["X"]), out_shardings=out),
            "by name": mapped(function, mesh),
            "by name, partitioned by XLA": mapped(function, mesh, partitioning="auto"),
        }
        table(title, programs, [a])


if __name__ == "__main__":
    main()
