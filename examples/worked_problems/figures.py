"""Print the time, the collectives and the memory of each program, on eight simulated devices.

The devices are threads of one CPU that share its cores and its memory. A time is the total cost of
a program on all of them, and does not predict overlap on an accelerator. Collectives and memory
come from the compiled program.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from namedax import hlo


def make_mesh(x: int, y: int) -> jax.sharding.Mesh:
    """The mesh of the problems, with the axes `X` and `Y`."""
    return jax.make_mesh((x, y), ("X", "Y"), axis_types=(AxisType.Auto,) * 2)


def place(mesh: jax.sharding.Mesh, array: Any, *spec: str | None) -> jax.Array:
    """An array on the mesh."""
    placed: jax.Array = jax.device_put(array, NamedSharding(mesh, PartitionSpec(*spec)))
    return placed


def table(title: str, programs: Mapping[str, Any], args: Sequence[Any], rounds: int = 10) -> None:
    """Print a row per program: the minimum time of a few alternating runs, and the memory and collectives of its compiled form."""
    compiled = {
        label: jax.jit(program).lower(*args).compile() for label, program in programs.items()
    }
    times = dict.fromkeys(programs, float("inf"))
    for _ in range(rounds):
        for label, run in compiled.items():
            start = time.perf_counter()
            jax.block_until_ready(run(*args))
            times[label] = min(times[label], time.perf_counter() - start)
    print(f"\n{title}\n{'':<30}{'ms':>8}{'speed':>7}{'MiB':>8}  collectives of one device")
    first = next(iter(times.values()))
    for label, run in compiled.items():
        memory = run.memory_analysis().temp_size_in_bytes / 2**20
        print(
            f"{label:<30}{1e3 * times[label]:>8.2f}{first / times[label]:>7.2f}{memory:>8.2f} "
            f" {hlo.summary(run)}",
            flush=True,
        )
