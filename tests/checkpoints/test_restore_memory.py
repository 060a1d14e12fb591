"""Memory of restoring a checkpoint, beside what orbax needs for the same arrays in the same placement."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import namedax as nx
from tests.harness import environment_without_devices

SHAPE = (8, 1024, 4096)  # 128 MiB, in 8 arrays of which no axis divides by 3
SCRIPT = """
import sys, threading, time
import jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 3)
import orbax.checkpoint as ocp
import namedax as nx
library, layout, folder, names, rows, columns = sys.argv[1:]
shape, names = (int(rows), int(columns)), [f"w{i}" for i in range(int(names))]
mesh = jax.make_mesh((3,), ("x",))
jax.block_until_ready(nx.named(jax.numpy.ones(3), ["k"]))

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.001):
        peak = max(peak, resident())
before = resident()
thread = threading.Thread(target=watch, daemon=True)
thread.start()
if library == "orbax":
    args = ocp.RestoreArgs(restore_type=np.ndarray)
    if layout == "uneven":
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        args = ocp.ArrayRestoreArgs(sharding=sharding, global_shape=shape, dtype=np.float32)
    item, args = dict.fromkeys(names, 0), dict.fromkeys(names, args)
    options = ocp.args.PyTreeRestore(item, restore_args=args, partial_restore=True)
    tree = ocp.PyTreeCheckpointer().restore(folder, args=options)
elif layout == "uneven":
    tree = nx.checkpoints.restore(folder, axis_resources={"a": "x"}, mesh=mesh)
else:
    tree = nx.checkpoints.restore(folder)
jax.block_until_ready(jax.tree.leaves(tree))
done.set()
thread.join()
print("bytes", max(peak, resident()) - before)
"""


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", ["without a mesh", "uneven"])
def test_restoring_takes_at_most_one_and_a_half_arrays_beside_orbax(layout, tmp_path):
    count, rows, columns = SHAPE
    values = np.random.default_rng(0).random((rows, columns), np.float32)  # which do not compress
    tree = {f"w{i}": nx.named(jax.numpy.asarray(values + i), ["a", "b"]) for i in range(count)}
    nx.checkpoints.save(tmp_path / "step", tree)

    def peak(library):
        command = [sys.executable, "-c", SCRIPT, library, layout, str(tmp_path / "step"), *map(str, SHAPE)]
        output = subprocess.run(command, env=environment_without_devices(), capture_output=True, text=True, check=True)
        return int(output.stdout.split("bytes")[-1])

    beside = (peak("namedax") - peak("orbax")) / (count * values.nbytes)
    assert beside <= 1.5
