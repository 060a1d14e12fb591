"""The programs of peers.py with DTensor of PyTorch, for docs/about/comparison.md.

    python benchmarks/peers_torch.py [--rounds 40]

Eight processes on one machine communicate by gloo, as the eight simulated devices of peers.py do by XLA. The bytes are the payload of
one device: its input of an all-reduce, its output of an all-gather. Times are multiples of plain torch tensors in the same run, on a mesh
of one process, so no communication is in them (`pip install namedax[peers]`).
"""

from __future__ import annotations

import argparse
import collections
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from timing import interleaved
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode  # torch has no public name for it

SIZES = {"batch": 64, "embed": 32, "hidden": 48, "out": 16}
AXES = {
    "x": ("batch", "embed"),
    "up": ("embed", "hidden"),
    "down": ("hidden", "out"),
    "bias": ("hidden",),
}
MESH_AXES = ("data", "model")
PLACES = {"batch": "data", "hidden": "model"}


class Counted(TorchDispatchMode):
    """Record the collectives of DTensor, each with the payload of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[int]] = collections.defaultdict(list)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # DTensor runs it on blocks, which come here again
        result = function(*args, **(kwargs or {}))
        library, name, *_ = str(function).split(".")  # _c10d_functional.all_reduce.default
        if library == "_c10d_functional" and "wait" not in name and "wrap" not in name:
            payload = result if "gather" in name else args[0]
            self.found[name].append(payload.numel() * payload.element_size())
        return result


def values() -> dict[str, torch.Tensor]:
    def wave(axes: tuple[str, ...]) -> torch.Tensor:
        shape = [SIZES[axis] for axis in axes]
        return torch.sin(1.0 + torch.arange(float(torch.Size(shape).numel()))).reshape(shape)

    return {name: wave(axes) for name, axes in AXES.items()}


def loss(a: dict[str, torch.Tensor]) -> torch.Tensor:
    hidden = torch.tanh(a["x"] @ a["up"] + a["bias"])
    return torch.mean((hidden @ a["down"]) ** 2)


def placements(axes: tuple[str, ...]) -> list[Shard | Replicate]:
    named = {PLACES[axis]: Shard(i) for i, axis in enumerate(axes) if axis in PLACES}
    return [named.get(mesh_axis, Replicate()) for mesh_axis in MESH_AXES]


def communication(rank: int, folder: str) -> None:
    """The collectives of value and gradient, batch over 4 processes and hidden units over 2."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/8", rank=rank, world_size=8)
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=MESH_AXES)
    plain = values()
    a = {name: distribute_tensor(plain[name], mesh, placements(AXES[name])) for name in AXES}
    operands = [a[name].requires_grad_() for name in AXES]
    with Counted() as counted:
        value = loss(a)
        gradients = torch.autograd.grad(value, operands)
        value = value.full_tensor()  # the sum over processes is postponed until it is asked for
        placed = [
            g.redistribute(mesh, w.placements) for g, w in zip(gradients, operands, strict=True)
        ]
    want = values()
    expected = torch.autograd.grad(
        loss({name: value.requires_grad_() for name, value in want.items()}),
        [want[name] for name in AXES],
    )
    for have, right in zip(placed, expected, strict=True):
        assert torch.allclose(have.full_tensor(), right, rtol=1e-4, atol=1e-6)
    if rank == 0:
        print("value and gradient, batch on 4 processes and hidden units on 2: communication")
        for kind, sizes in counted.found.items():
            print(f"   {kind}: {len(sizes)}, {sum(sizes) / 1024:.1f} KiB {sizes}")
        print(flush=True)
    dist.destroy_process_group()


def uneven(rank: int, folder: str) -> None:
    """A batch of 10 rows over 4 processes: the rows of each process."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/4", rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("data",))
    block = distribute_tensor(torch.arange(10.0), mesh, [Shard(0)])
    rows = [torch.zeros(1) for _ in range(4)]
    dist.all_gather(rows, torch.tensor([float(block.to_local().numel())]))
    assert block.sum().full_tensor() == 45
    if rank == 0:
        print("10 rows over 4 processes:", [int(row) for row in rows], flush=True)
    dist.destroy_process_group()


def show(title: str, seconds: dict[str, float]) -> None:
    base = seconds["torch"]
    print(f"{title} (torch: {1e6 * base:.0f} us)")
    print("   " + ", ".join(f"{n} {s / base:.2f}" for n, s in seconds.items() if n != "torch"))


def calls(rounds: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/1", rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=MESH_AXES)
    plain = values()
    sharded = {name: distribute_tensor(plain[name], mesh, placements(AXES[name])) for name in AXES}
    operations: dict[str, Callable[[dict[str, Any]], Any]] = {
        "add": lambda a: a["up"] + a["bias"],
        "mean": lambda a: torch.mean(a["x"], dim=0),
        "dot": lambda a: a["x"] @ a["up"],
        "loss": loss,
    }
    for name, run in operations.items():
        turns = {
            kind: lambda run=run, a=a: run(a)
            for kind, a in {"torch": plain, "torch again": plain, "DTensor": sharded}.items()
        }
        show(f"eager {name}", interleaved(turns, rounds=rounds, calls=20, clock=time.thread_time))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40, help="rounds (%(default)s)")
    rounds = parser.parse_args().rounds
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    start = time.perf_counter()
    print(f"torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(communication, (folder,), nprocs=8)
        mp.spawn(uneven, (folder,), nprocs=4)
        calls(rounds, folder)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
