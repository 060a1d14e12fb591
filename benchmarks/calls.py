"""The cost of calling a mapped function, as a multiple of the same `jax.jit(jax.shard_map(...))` on arrays without names.

python benchmarks/calls.py [--arrays 1 20 200 2000] [--calls 4000]

The benchmark measures processor time of the calling thread, because the devices of a CPU share its
cores. Every call is timed separately and alternating, after the previous one has finished, and the
table compares medians. The program adds one to every array. *Node* is the hand-written program with
each array in an empty class that is registered as a pytree in Python. It measures JAX's own cost of
two Python calls per array. *Jit of named* is a plain `jax.jit` of the function of named arrays, in
which XLA keeps the sharding. *Noise* is the hand-written program against itself, compiled twice.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from timing import interleaved

import namedax as nx


class Node:
    """An array in a pytree node."""

    __slots__ = ("data",)

    def __init__(self, _: None, children: tuple[Any]):
        (self.data,) = children


jax.tree_util.register_pytree_node(Node, lambda node: ((node.data,), None), Node)


def within_jit(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function called by another compiled function."""
    return jax.jit(lambda xs: function(xs))


def bound(function: Callable[[Any], Any], xs: Any) -> Callable[[], Any]:
    """A call of the function with its arguments bound."""
    return lambda: function(xs)


def measure(count: int, mesh: Mesh, calls: int) -> None:
    """Print the rows for `count` arrays."""
    plain = [jax.device_put(jnp.ones((8, 2)), NamedSharding(mesh, P("x"))) for _ in range(count)]
    named = [nx.named(x, ["b", "k"]) for x in plain]
    nodes = [Node(None, (x,)) for x in plain]

    def by_hand() -> Any:
        return jax.jit(
            jax.shard_map(
                lambda xs: [x + 1.0 for x in xs], mesh=mesh, in_specs=P("x"), out_specs=P("x")
            )
        )

    def boxed(xs: list[Node]) -> list[Node]:
        add = jax.shard_map(
            lambda xs: [x + 1.0 for x in xs], mesh=mesh, in_specs=P("x"), out_specs=P("x")
        )
        return [Node(None, (x,)) for x in add([x.data for x in xs])]

    options: dict[str, Any] = {"axis_resources": {"b": "x"}, "mesh": mesh}
    programs = {
        "hand": (by_hand(), plain),
        "noise": (by_hand(), plain),
        "node": (jax.jit(boxed), nodes),
        "jit": (jax.jit(lambda xs: [x + 1.0 for x in xs]), named),
        "plain": (
            nx.xmap(lambda xs: [x + 1.0 for x in xs], (["b", "k"],), ["b", "k"], **options),
            plain,
        ),
        "named": (nx.xmap(lambda xs: [x + 1.0 for x in xs], **options), named),
    }
    axes = "Explicit" if AxisType.Explicit in mesh.axis_types else "Auto"
    for form in ("direct", "under jax.jit"):
        rivals = {
            label: bound(f if form == "direct" else within_jit(f), xs)
            for label, (f, xs) in programs.items()
        }
        times = interleaved(rivals, rounds=max(20, calls // count), clock=time.thread_time)
        ratios = " | ".join(
            f"{times[label] / times['hand']:.2f}"
            for label in ("noise", "node", "jit", "plain", "named")
        )
        print(
            f"| {count:,} | {axes} | {form} | {times['hand'] * 1e6:,.0f} | {ratios} |", flush=True
        )


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arrays", type=int, nargs="+", default=[1, 20, 200, 2000])
    parser.add_argument(
        "--calls",
        type=int,
        default=4000,
        help="calls of each program, divided by the number of arrays",
    )
    options = parser.parse_args()
    print(
        "| arrays | mesh | call | by hand, µs | noise | node | jit of named | namedax, plain arrays |"
        " namedax, named arrays |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for count in options.arrays:
        for kind in (AxisType.Auto, AxisType.Explicit):
            measure(count, jax.make_mesh((8,), ("x",), axis_types=(kind,)), options.calls)


if __name__ == "__main__":
    main()
