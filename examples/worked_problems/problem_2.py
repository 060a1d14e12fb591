"""Problem 2: a mixture of experts, `Out[i] = W[B[i]] @ A[i]`; first on one device, then with tokens and experts on one mesh
axis.

    python examples/worked_problems/problem_2.py

Tokens are `{s, d}` and the experts' matrices `{e, d, f}`. `b` with `{s, choice}` has the experts of
each token. The results of its choices are averaged; parts 1 to 3 have a `choice` of size 1. Sharded
features of tokens are named `d_y`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from figures import make_mesh, place, table
from jax.sharding import NamedSharding, PartitionSpec

import namedax as nx

IN_AXES = (["e", "d", "f"], ["s", "d_y"], ["s", "choice"])
RESOURCES = {"s": "X", "e": "X", "d_y": "Y", "f": "Y"}


def local(w: nx.NamedArray, a: nx.NamedArray, b: nx.NamedArray, token: str = "s") -> nx.NamedArray:
    """1: tokens are sorted into a buffer `{e, slot, d}`; no array has the axes of tokens, `d` and `f`.

    All tokens can choose one expert, so each expert has one slot per choice. Its tokens are in the
    first slots. The other slots have tokens of the experts after it, and their results are not
    used.
    """
    experts, sizes = w.named_shape["e"], {name: b.named_shape[name] for name in (token, "choice")}
    chosen = nx.merge_axes(b, [token, "choice"], "t")
    order = nx.argsort(chosen, "t")
    slot = nx.arange(math.prod(sizes.values()), axis="slot")
    entry = nx.take(order, begin(chosen, experts, "e") + slot, "t", mode="clip")
    results = nx.dot(nx.take(a, entry // sizes["choice"], token), w, "d")

    place = nx.argsort(order, "t") - begin(chosen, experts, "number")[{"number": chosen}]
    out = nx.split_axis(results[{"e": chosen, "slot": place}], "t", sizes)
    averaged: nx.NamedArray = nx.mean(out, "choice")
    return averaged


def begin(chosen: nx.NamedArray, experts: int, axis: str) -> nx.NamedArray:
    """For every expert, the number of choices for the experts before it: the start of its tokens in sorted order."""
    count: nx.NamedArray = nx.sum(chosen < nx.arange(experts, axis=axis), "t")
    return count


def gathered(w: nx.NamedArray, a: nx.NamedArray, b: nx.NamedArray) -> nx.NamedArray:
    """3.1: every device gathers all tokens, and runs `local` for its own experts.

    Each device has results for the tokens of its experts. It keeps its own tokens of the sum over
    all devices.
    """
    everyone = nx.rename(a, {"s": "all", "d_y": "d"}), nx.rename(b, {"s": "all"})
    return nx.rename(local(w, *everyone, token="all"), {"all": "s"})


def dispatched(w: nx.NamedArray, a: nx.NamedArray, b: nx.NamedArray) -> nx.NamedArray:
    """3.2: all-to-alls carry tokens to their experts and back in rounds of few slots, until none is left. No array has the size of the buffer."""
    weight = nx.ones(named_shape=dict(b.named_shape), dtype=a.dtype) / b.named_shape["choice"]
    routing = nx.nn.Routing(index=b, weight=weight, probabilities=None, experts=w.named_shape["e"])
    a = nx.rename(a, {"d_y": "d"})
    out: nx.NamedArray = nx.nn.mixture_of_experts(
        lambda w, x: nx.dot(x, w, "d"), w, a, routing, tokens="s", axis="e"
    )
    return out


def unmapped() -> Any:
    """`local` over positional arrays `[e, d, f]`, `[s, d]` and `[s, choice]`."""
    return nx.xmap(local, (["e", "d", "f"], ["s", "d"], ["s", "choice"]), ["s", "f"])


def mapped(function: Any, mesh: Any) -> Any:
    """`gathered` or `dispatched` over the same arrays."""
    return nx.xmap(function, IN_AXES, ["s", "f"], axis_resources=RESOURCES, mesh=mesh)


def partitioned(mesh: Any) -> Any:
    """2: `local` partitioned by XLA, from the shardings of the arguments and of the result."""
    return jax.jit(unmapped(), out_shardings=NamedSharding(mesh, PartitionSpec("X", "Y")))


def arguments(mesh: Any, s: int, d: int, f: int, experts: int, choices: int) -> list[jax.Array]:
    """Random sharded arguments; the choices of a token are different experts."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(experts, d, f)).astype(np.float32) / np.float32(math.sqrt(d))
    a = rng.normal(size=(s, d)).astype(np.float32)
    b = rng.random((s, experts)).argsort(1)[:, :choices].astype(np.int32)
    specs = ("X", None, "Y"), ("X", "Y"), ("X",)
    return [place(mesh, array, *spec) for array, spec in zip((w, a, b), specs, strict=True)]


def main(s: int = 2048, d: int = 128, f: int = 256, experts: int = 16) -> None:
    """Print the table."""
    mesh = make_mesh(4, 2)
    for choices, title in (
        (1, "one expert for each token"),
        (2, "4. two experts for each token, averaged"),
    ):
        args = arguments(mesh, s, d, f, experts, choices)
        table(
            f"{title}, on one device",
            {"1. local": unmapped()},
            [jnp.asarray(np.asarray(array)) for array in args],
        )
        programs = {
            "2. local, partitioned by XLA": partitioned(mesh),
            "3.1 gathered": mapped(gathered, mesh),
            "3.2 dispatched": mapped(dispatched, mesh),
        }
        table(f"{title}, on X and Y", programs, args)


if __name__ == "__main__":
    main()
