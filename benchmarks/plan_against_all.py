"""Compare `nx.plan` with the best of all layouts: the transformer of the examples on eight devices in three mesh axes.

    nice python benchmarks/plan_against_all.py            # half an hour of processor time
    python benchmarks/plan_against_all.py --sizes small

The benchmark traces all assignments of seven axis names to a mesh of 2 x 2 x 2: all names but
`embed`, which shares arrays with every other one, and the three parts of a head. It finds names
that cannot share a mesh axis by tracing each pair once. The three mesh axes are interchangeable. A
trace gives the time on every machine. Then `nx.plan` searches with the same names, for each machine
under several memory bounds. The traces are cached in a file, so that another run does not repeat
them.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import jax
import jax.numpy as jnp
from transformer_model import Config, init, loss

import namedax as nx

NAMES = ("batch", "embed_fsdp", "hidden", "kv_heads", "pos", "pos_sp", "vocab")
MESH = {"x": 2, "y": 2, "z": 2}
SIZES = {
    "small": (Config(), 16),
    "8 billion": (
        Config(
            layers=32, embed=4096, kv_heads=8, group=4, key=128, hidden=14336, vocab=32768, pos=4096
        ),
        8,
    ),
}
MACHINES = {
    "v5p": nx.machines.v5p,
    "v5p over a slow network": nx.machines.v5p.with_links(
        {...: nx.machines.Link(1e10, 1e-5, "switch")}
    ),
    "h100": nx.machines.h100,
}
# Memory bounds: fractions between the minimum memory of a layout and the memory of the fastest one.
BOUNDS = (1.0, 0.5, 0.2, 0.05)

Roles = tuple[tuple[str, ...], ...]
Judged = dict[str, float]


def resources(roles: Roles) -> dict[str, Any]:
    """The names of each mesh axis as `axis_resources`."""
    found = {
        name: tuple(axis for axis, role in zip(MESH, roles, strict=True) if name in role)
        for name in NAMES
    }
    return {name: axes for name, axes in found.items() if axes}


def judge(f: Any, args: Any, roles: Roles) -> Judged | None:
    """The time on each machine and the peak memory; None if the program rejects the layout."""
    mesh = jax.sharding.AbstractMesh(tuple(MESH.values()), tuple(MESH))
    try:
        report = nx.explain(
            nx.xmap(lambda *args: f(*args), axis_resources=resources(roles), mesh=mesh), *args
        )
    except (nx.errors.NamedaxError, ValueError):
        return None
    times = {name: report.time(machine) for name, machine in MACHINES.items()}
    return {**times, "peak": float(report.memory.peak)}


def all_roles(f: Any, args: Any) -> Iterator[Roles]:
    """All assignments in a shuffled order, up to permutations of the mesh axes."""
    apart = {
        pair for pair in itertools.combinations(NAMES, 2) if judge(f, args, (pair, (), ())) is None
    }
    sets = [
        chosen for count in range(len(NAMES) + 1) for chosen in itertools.combinations(NAMES, count)
    ]
    sets = [chosen for chosen in sets if apart.isdisjoint(itertools.combinations(chosen, 2))]
    found = list(itertools.combinations_with_replacement(sets, len(MESH)))
    random.Random(0).shuffle(found)
    yield from found


def enumerate_all(f: Any, args: Any, kept: Path, label: str) -> dict[str, Judged | None]:
    """The traced results of each assignment."""
    found: dict[str, Judged | None] = json.loads(kept.read_text()) if kept.exists() else {}
    began, before = time.process_time(), len(found)
    everything = list(all_roles(f, args))
    for number, roles in enumerate(everything):
        if str(roles) not in found:
            found[str(roles)] = judge(f, args, roles)
            if number % 100 == 99:
                kept.write_text(json.dumps(found))
                print(
                    f"\r{label}: {number + 1} of {len(everything)}",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
    kept.write_text(json.dumps(found))
    traced = sum(one is not None for one in found.values())
    print(
        f"{label}: {len(found)} assignments, of which {traced} can be traced; {len(found) - before}"
        f" traced now in {time.process_time() - began:.0f} s of processor time"
    )
    return found


def compare(f: Any, args: Any, found: dict[str, Judged | None]) -> None:
    """The result of the search and the best of all, for each machine and bound."""
    judged = [one for one in found.values() if one is not None]
    least = min(one["peak"] for one in judged)
    print(
        f"{'machine':24s} {'memory':>10} {'best of all':>12} {'planned':>10} {'worse':>7}"
        f" {'traces':>6} {'seconds':>7}"
    )
    for name, machine in MACHINES.items():
        fastest = min(judged, key=lambda one: one[name])
        for bound in BOUNDS:
            memory = least + bound * (fastest["peak"] - least)
            best = min(one[name] for one in judged if one["peak"] <= memory)
            began = time.process_time()
            mesh = jax.sharding.AbstractMesh(tuple(MESH.values()), tuple(MESH))
            plan = nx.plan(
                nx.xmap(f),
                *args,
                mesh=mesh,
                machine=machine,
                memory=memory,
                names=NAMES,
                progress=False,
            )
            spent = time.process_time() - began
            found_time = plan.candidates[0].time
            print(
                f"{name:24s} {memory / 2**20:6.0f} MiB {best * 1e3:9.3f} ms {found_time * 1e3:7.3f}"
                f" ms {found_time / best - 1:7.1%} {plan.traces:6d} {spent:7.1f}  {plan.best}",
                flush=True,
            )


def main() -> None:
    """Trace all, plan, and print both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", choices=SIZES, action="append", help="default: all")
    parser.add_argument(
        "--kept",
        type=Path,
        default=Path(__file__).parent / "out",
        help="the folder of cached traces",
    )
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    for label in options.sizes or SIZES:
        config, batch = SIZES[label]
        params = jax.eval_shape(functools.partial(init, config), jax.random.key(0))
        tokens = jax.eval_shape(
            lambda c=config, n=batch: nx.named(jnp.zeros((n, c.pos), jnp.int32), ["batch", "pos"])
        )
        f, args = (
            jax.value_and_grad(functools.partial(loss, config=config)),
            (
                params,
                tokens,
                tokens,
            ),
        )
        found = enumerate_all(
            f, args, options.kept / f"plan_against_all_{label.replace(' ', '_')}.json", label
        )
        compare(f, args, found)


if __name__ == "__main__":
    main()
