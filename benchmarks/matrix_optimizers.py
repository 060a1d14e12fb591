"""A step of Muon in three programs: by names, by hand with `shard_map`, and `optax.contrib.muon` with XLA's partitioner.

    python benchmarks/matrix_optimizers.py              # the table of docs/performance.md
    python benchmarks/matrix_optimizers.py --width 128  # smaller matrices

All programs compute the same update of stacked matrices, sharded in the same way. By hand, an
all-to-all gives every device whole matrices of some layers, and another one returns the blocks. One
matrix has no layers to distribute: there the program by hand gathers it, or adds products of the
blocks in every step of the iteration. The table has the collectives, the bytes that one device
sends, and the time relative to the program by hand. The programs alternate.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from timing import interleaved

import namedax as nx

HAND, NAMED, OUTSIDE, OPTAX = "by hand", "namedax in xmap", "namedax in jit", "optax in jit"
A, B, C = 3.4445, -4.7750, 2.0315
BETA = 0.95


@dataclasses.dataclass(frozen=True)
class Case:
    """Matrices, their sharding, and the iteration by hand.

    Attributes:
      title: the row of the table.
      shape: layers, rows and columns; one layer is a matrix without layers.
      mesh: the sizes of the mesh axes `x` and `y`.
      axes: the mesh axis of rows and that of columns.
      by_hand: returns orthogonalized blocks.
    """

    title: str
    shape: tuple[int, int, int]
    mesh: tuple[int, ...]
    axes: tuple[str | None, str | None]
    by_hand: Callable[[jax.Array], jax.Array]


def steps(x: jax.Array, product: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Five steps of the iteration."""
    for _ in range(5):
        a = product(x)
        x = A * x + (B * a + C * a @ a) @ x
    return x


def product(x: jax.Array) -> jax.Array:
    """The product of whole matrices with themselves."""
    return x @ x.swapaxes(-1, -2)


def normalized(x: jax.Array) -> jax.Array:
    """Whole matrices of norm one."""
    return x / (jnp.linalg.norm(x, axis=(-2, -1), keepdims=True) + 1e-8)


def distributed_columns(block: jax.Array) -> jax.Array:
    """Each device gets whole matrices of some layers."""
    whole = lax.all_to_all(block, "x", 0, 2, tiled=True)
    return lax.all_to_all(steps(normalized(whole), product), "x", 2, 0, tiled=True)


def distributed_both(block: jax.Array) -> jax.Array:
    """The same for rows over `x` and columns over `y`."""
    whole = lax.all_to_all(block, "x", 0, 1, tiled=True)
    whole = lax.all_to_all(whole, "y", 0, 2, tiled=True)
    whole = lax.all_to_all(steps(normalized(whole), product), "y", 2, 0, tiled=True)
    return lax.all_to_all(whole, "x", 1, 0, tiled=True)


def gathered(block: jax.Array) -> jax.Array:
    """Each device computes the whole matrix, and keeps its columns."""
    size = block.shape[2]
    whole = steps(normalized(lax.all_gather(block, "x", axis=2, tiled=True)), product)
    return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * size, size, 2)


def summed(block: jax.Array) -> jax.Array:
    """The products of the blocks are added in every step."""
    norm = jnp.sqrt(lax.psum(jnp.sum(block**2, (1, 2), keepdims=True), "x"))
    return steps(block / (norm + 1e-8), lambda x: lax.psum(product(x), "x"))


def cases(width: int) -> list[Case]:
    """The rows of the table."""
    return [
        Case(
            "8 matrices, columns sharded",
            (8, width, 4 * width),
            (8,),
            (None, "x"),
            distributed_columns,
        ),
        Case(
            "8 matrices, rows and columns sharded",
            (8, width, 4 * width),
            (4, 2),
            ("x", "y"),
            distributed_both,
        ),
        Case(
            "1 square matrix, columns sharded",
            (1, 2 * width, 2 * width),
            (8,),
            (None, "x"),
            gathered,
        ),
        Case("1 wide matrix, columns sharded", (1, width, 16 * width), (8,), (None, "x"), summed),
    ]


def programs(case: Case) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The compiled programs with their arguments: gradient and momentum."""
    mesh = jax.make_mesh(case.mesh, ("x", "y")[: len(case.mesh)], (AxisType.Auto,) * len(case.mesh))
    rng = np.random.default_rng(0)
    spec = P(None, *case.axes)
    gradient, momentum = (
        jax.device_put(
            jnp.asarray(rng.normal(size=case.shape), jnp.float32), jax.NamedSharding(mesh, spec)
        )
        for _ in range(2)
    )
    resources = {
        name: axis for name, axis in zip(("rows", "columns"), case.axes, strict=True) if axis
    }

    def by_hand(gradient: jax.Array, momentum: jax.Array) -> tuple[jax.Array, jax.Array]:
        new = BETA * momentum + (1 - BETA) * gradient
        mixed = BETA * new / (1 - BETA**2) + (1 - BETA) * gradient / (1 - BETA)
        return case.by_hand(mixed), new

    hand = jax.jit(jax.shard_map(by_hand, mesh=mesh, in_specs=spec, out_specs=spec))

    own = nx.interop.scale_by_muon(rows="rows", columns="columns")
    named = [{"w": nx.named(x, ["layers", "rows", "columns"])} for x in (gradient, momentum)]
    state = optax.tree.set(own.init(named[0]), mu=named[1])
    in_body = jax.jit(nx.xmap(own.update, axis_resources=resources, mesh=mesh))

    dims = optax.contrib.MuonDimensionNumbers((1,), (2,))
    theirs = optax.contrib.scale_by_muon(weight_dimension_numbers={"w": dims})
    plain = optax.tree.set(theirs.init({"w": gradient}), mu={"w": momentum})
    return {
        HAND: (hand.lower(gradient, momentum).compile(), (gradient, momentum)),
        NAMED: (in_body.lower(named[0], state).compile(), (named[0], state)),
        OUTSIDE: (jax.jit(own.update).lower(named[0], state).compile(), (named[0], state)),
        OPTAX: (
            jax.jit(theirs.update).lower({"w": gradient}, plain).compile(),
            ({"w": gradient}, plain),
        ),
    }


def bytes_sent(compiled: Any) -> float:
    """The bytes that one device sends in the collectives of a program."""
    factors: Mapping[str, Callable[[int], float]] = {
        "all-reduce": lambda n: 2 * (n - 1) / n,
        "all-gather": lambda n: (n - 1) / n,
        "all-to-all": lambda n: (n - 1) / n,
        "reduce-scatter": lambda n: n - 1,
    }
    return sum(
        one.bytes * factors.get(one.kind, lambda n: 1.0)(one.group_size or 1) * (one.trips or 1)
        for one in nx.hlo.collectives(compiled)
    )


def collectives_text(compiled: Any) -> str:
    """The numbers of collectives by kind."""
    counts: Counter[str] = Counter()
    for one in nx.hlo.collectives(compiled):
        counts[one.kind] += one.trips or 1
    return ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())) or "none"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=256, help="rows of a matrix")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of every program")
    options = parser.parse_args()
    print("| matrices | program | collectives of a step | sent | time |\n|---|---|---|---|---|")
    for case in cases(options.width):
        compiled = programs(case)
        results = {name: run(*arguments) for name, (run, arguments) in compiled.items()}
        want = np.asarray(jax.tree.leaves(results[HAND])[0])
        for name, result in results.items():
            np.testing.assert_allclose(
                np.asarray(jax.tree.leaves(result[0])[0]), want, atol=1e-4, err_msg=name
            )
        seconds = interleaved(
            {
                name: functools.partial(run, *arguments)
                for name, (run, arguments) in compiled.items()
            },
            rounds=options.rounds,
        )
        for i, (name, (run, _)) in enumerate(compiled.items()):
            time = (
                f"{seconds[name] * 1e3:.1f} ms"
                if name == HAND
                else f"{seconds[name] / seconds[HAND]:.2f}"
            )
            title = case.title if i == 0 else ""
            print(
                f"| {title} | {name} | {collectives_text(run)} | {bytes_sent(run) / 2**20:.2f} MiB | {time} |"
            )


if __name__ == "__main__":
    main()
