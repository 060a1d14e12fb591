"""Training steps of every model of `namedax.models` on 8, 64 and 256 simulated devices.

    python benchmarks/many_devices.py                                  # every model
    python benchmarks/many_devices.py --devices 8 64 --models llama    # one of them
    python benchmarks/many_devices.py --markdown                       # the table of
                                                                       # docs/performance.md

The step is the loss and its gradient at the configuration `TINY`, under FSDP and tensor
parallelism: a mesh `data` x `model` with two devices along `model`, and 128 sequences or images.
Parameters and batch are those of the first step of `python -m namedax.models train`.

Each row has the seconds of tracing, lowering and compiling with cold caches (processor time of all
threads), the number of collectives in the compiled program, and the largest difference from the
step on one device: of the loss, relative to it, and of a gradient, relative to the largest element
of its array (or to a thousandth of the largest gradient, if that is larger).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np

import namedax as nx
from namedax.models import train
from namedax.models.architectures import ARCHITECTURES

BATCH = 128  # sequences or images
MODEL = 2  # devices along the mesh axis `model`
HEADER = ["model", "devices", "trace", "lower", "compile", "collectives"]
HEADER += ["loss, difference", "gradient, difference"]


def step_of(name: str, devices: int) -> tuple[Any, Any, Any]:
    """The step of a model, its parameters, and the batch, on so many devices."""
    mesh = f"data={devices // MODEL},model={MODEL}"
    layout = ["--layout", "fsdp+tp", "--mesh", mesh] if devices > 1 else ["--layout", "one device"]
    sizes = ["--batch", str(BATCH), "--pos", "24", "--bytes", "50000"]
    job = train.make_job(train.parse([name, *layout, *sizes]))
    params = jax.jit(job.model.init)(jax.random.key(0))
    if job.mesh is not None:  # axes that do not divide are replicated here, and sharded in the step
        params = nx.shard(params, job.stored, job.mesh, padded=False)

    def step(params: Any, batch: Any) -> Any:
        return jax.value_and_grad(job.model.loss)(params, train.unpack(batch))

    mapped = nx.xmap(step, axis_resources=job.axis_resources, mesh=job.mesh)
    return mapped, params, train.batches(job)(0)


def size_of(x: Any) -> float:
    """The largest element of an array."""
    return float(np.abs(np.asarray(x.data if is_named(x) else x)).max())


def difference(have: Any, want: Any, floor: float = 0.0) -> float:
    """The largest difference of two arrays, relative to the largest element, or to `floor`."""
    if isinstance(want, nx.NamedArray):
        names = [*want.named_shape]
        have, want = nx.positional(have, names), nx.positional(want, names)
    have, want = np.asarray(have), np.asarray(want)
    return float(np.abs(have - want).max() / max(size_of(want), floor))


def is_named(x: Any) -> bool:
    """Return True for a named array."""
    return isinstance(x, nx.NamedArray)


def measure(name: str, devices: int, expected: Any) -> list[Any]:
    """The cells of one row after the number of devices, as numbers."""
    mapped, params, batch = step_of(name, devices)
    jax.clear_caches()
    times = [time.process_time()]
    traced = jax.jit(mapped).trace(params, batch)
    times.append(time.process_time())
    lowered = traced.lower()
    times.append(time.process_time())
    compiled = lowered.compile()
    times.append(time.process_time())
    loss, grads = compiled(params, batch)
    have, want = (jax.tree.leaves(tree, is_leaf=is_named) for tree in (grads, expected[1]))
    floor = 1e-3 * max(map(size_of, want))  # some gradients are zero up to rounding
    worst = max(difference(*pair, floor) for pair in zip(have, want, strict=True))
    count = len(nx.hlo.collectives(compiled))
    return [*np.diff(times), count, difference(loss, expected[0]), worst]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=sorted(ARCHITECTURES))
    parser.add_argument("--devices", nargs="*", type=int, default=[8, 64, 256])
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", max(options.devices))
    if options.markdown:
        print("|", " | ".join(HEADER), "|")
        print("|", " | ".join(["---"] * len(HEADER)), "|")
    for name in options.models:
        alone, params, batch = step_of(name, 1)
        expected = jax.device_get(jax.jit(alone)(params, batch))
        for devices in options.devices:
            *times, count, loss, worst = measure(name, devices, expected)
            cells = [name, str(devices), *(f"{seconds:.1f} s" for seconds in times)]
            cells += [str(count), f"{loss:.0e}", f"{worst:.0e}"]
            print(
                "| " + " | ".join(cells) + " |" if options.markdown else "  ".join(cells),
                flush=True,
            )


if __name__ == "__main__":
    main()
