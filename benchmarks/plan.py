"""The accuracy of `nx.plan`: predicted and measured times of many layouts, and their rank correlation.

    python benchmarks/plan.py                 # the transformer of the examples on eight simulated
    devices python benchmarks/plan.py --layouts 40 --mesh data=4,model=2

The machine is the present one, by `nx.machines.measure`. Eight simulated devices share the cores of
one processor, so times differ from those of eight devices. The benchmark compares their order.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import jax
import jax.numpy as jnp
import numpy as np
from transformer_model import Config, init, loss

import namedax as nx


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values share a rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


def rank_correlation(one: list[float], other: list[float]) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(ranks(np.array(one)), ranks(np.array(other)))[0, 1])


def main() -> None:
    """Plan, measure, and print both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mesh", default="data=2,model=4")
    parser.add_argument("--layouts", type=int, default=32, help="number of measured layouts")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    shape = {
        axis: int(size) for axis, size in (part.split("=") for part in options.mesh.split(","))
    }
    mesh = jax.make_mesh(
        tuple(shape.values()), tuple(shape), (jax.sharding.AxisType.Auto,) * len(shape)
    )
    config = Config(layers=options.layers)
    params = jax.eval_shape(functools.partial(init, config), jax.random.key(0))
    tokens = jax.eval_shape(
        lambda: nx.named(jnp.zeros((options.batch, config.pos), jnp.int32), ["batch", "pos"])
    )
    f = nx.xmap(jax.value_and_grad(functools.partial(loss, config=config)))
    began = time.perf_counter()
    machine = nx.machines.measure(mesh)
    print(f"measured the machine in {time.perf_counter() - began:.0f} s: {machine}\n")
    # Trace more layouts than are measured, so that the comparison includes slow ones.
    plan = nx.plan(
        f,
        params,
        tokens,
        tokens,
        mesh=mesh,
        machine=machine,
        tries=4 * options.layouts,
        verify=options.layouts,
    )
    timed = [
        (c.time, c.measured, c.axis_resources) for c in plan.candidates if c.measured is not None
    ]
    print(f"{'predicted':>10} {'measured':>10}")
    for predicted, measured, resources in sorted(timed, key=lambda row: row[0]):
        print(f"{predicted * 1e3:7.1f} ms {measured * 1e3:7.1f} ms  {resources}")
    found = rank_correlation([row[0] for row in timed], [row[1] for row in timed])
    print(f"\nrank correlation over {len(timed)} layouts: {found:.2f}")


if __name__ == "__main__":
    main()
