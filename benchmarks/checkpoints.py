"""Time to save arrays with `nx.checkpoints.save`, compared with orbax's `PyTreeCheckpointer`.

    python benchmarks/checkpoints.py [--arrays 32] [--rounds 8] [--folder FOLDER]

Each array has 16 MiB of random float32, sharded over eight simulated devices. Both write to the
same file system in turn, after the earlier writes have reached the disk. namedax also writes, and
orbax does not, a checksum of each file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import numpy as np
import orbax.checkpoint as ocp

import namedax as nx


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--arrays", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--folder", help="on the file system to measure; default: a temporary one")
    options = parser.parse_args()
    rng, mesh = np.random.default_rng(0), jax.make_mesh((8,), ("x",))
    tree = {
        f"w{i}": nx.shard(
            nx.named(rng.random((1024, 4096), np.float32), ["in", "out"]), {"in": "x"}, mesh
        )
        for i in range(options.arrays)
    }
    plain = {name: x.data for name, x in tree.items()}

    def orbax(folder: str) -> None:
        with ocp.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(folder, ocp.args.PyTreeSave(plain))

    rivals = {"orbax": orbax, "namedax": lambda folder: nx.checkpoints.save(folder, tree)}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in rivals}
    with tempfile.TemporaryDirectory(dir=options.folder) as parent:
        folder = os.path.join(parent, "step")
        for round_ in range(options.rounds + 1):
            for name in list(rivals)[:: 1 if round_ % 2 else -1]:
                os.sync()
                begin, processor = time.perf_counter(), time.process_time()
                rivals[name](folder)
                times = time.perf_counter() - begin, time.process_time() - processor
                if round_:  # the first one imports and compiles
                    seconds[name].append(times)
                shutil.rmtree(folder)
    for name, times_ in seconds.items():
        ratios = [a[0] / b[0] for a, b in zip(seconds["orbax"], times_, strict=True)]
        elapsed, processor = (statistics.median(column) for column in zip(*times_, strict=True))
        print(
            f"{name:8} {elapsed:6.3f} s, of processor time {processor:6.3f} s;"
            f" rate / orbax {statistics.median(ratios):5.2f}"
        )


if __name__ == "__main__":
    main()
