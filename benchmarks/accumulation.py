"""Gradient accumulation: `SerialLoop` against a hand-written loop over microbatches under `jax.shard_map`.

    python benchmarks/accumulation.py

The hand-written program slices its local batch, sums the gradients of the microbatches in a
`lax.scan`, and all-reduces the sum once. For each number of steps: the collectives of both
programs, temporary memory, and the time of a compiled step, alternating in one run.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from timing import interleaved

import namedax as nx

BATCH, INPUTS, HIDDEN, CLASSES = 2048, 256, 512, 64


def loss(w1, w2, x, y):
    """Two layers, by name."""
    hidden = nx.nn.relu(nx.dot(x, w1, "inputs"))
    return nx.mean(nx.sum((nx.dot(hidden, w2, "hidden") - y) ** 2, "classes"), "batch")


def by_hand(mesh: jax.sharding.Mesh, steps: int):
    """The same step, hand-written by an expert."""

    def step(w1, w2, x, y):
        w1, w2 = lax.pcast((w1, w2), "data", to="varying")

        def part(w1, w2, x, y):
            return jnp.sum((jax.nn.relu(x @ w1) @ w2 - y) ** 2) / BATCH

        def microbatch(total, i):
            size = x.shape[0] // steps
            block = [lax.dynamic_slice_in_dim(a, i * size, size) for a in (x, y)]
            grads = jax.value_and_grad(part, argnums=(0, 1))(w1, w2, *block)
            return jax.tree.map(jnp.add, total, grads), None

        zeros = lax.pcast(
            (jnp.zeros(()), (jnp.zeros(w1.shape), jnp.zeros(w2.shape))), "data", to="varying"
        )
        total, _ = lax.scan(microbatch, zeros, jnp.arange(steps))
        return lax.psum(total, "data")

    specs = (P(), P(), P("data"), P("data"))
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=(P(), (P(), P()))))


def main() -> None:
    """Print one line per number of steps and kind of differentiation."""
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2], axis_types=(AxisType.Auto,))
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(INPUTS, HIDDEN), (HIDDEN, CLASSES), (BATCH, INPUTS), (BATCH, CLASSES)]
    args = [jax.random.normal(key, shape) / 16 for key, shape in zip(keys, shapes, strict=True)]
    args = [
        jax.device_put(a, NamedSharding(mesh, spec))
        for a, spec in zip(args, (P(), P(), P("data"), P("data")), strict=True)
    ]
    axes = (["inputs", "hidden"], ["hidden", "classes"], ["batch", "inputs"], ["batch", "classes"])
    print(f"jax {jax.__version__}, {mesh.size} devices")
    print(
        f"{'steps':>5s} {'gradient':8s} {'by hand':>26s} {'namedax':>26s} {'memory by hand':>14s}"
        f" {'namedax':>9s} {'time ratio':>10s}"
    )
    for steps in (1, 4, 16):
        options = {"axis_resources": {"batch": ("data", nx.SerialLoop(steps))}, "mesh": mesh}
        rivals = {
            "plain": by_hand(mesh, steps),
            "inside": nx.xmap(jax.value_and_grad(loss, (0, 1)), axes, ([], axes[:2]), **options),
            "outside": jax.jit(jax.value_and_grad(nx.xmap(loss, axes, [], **options), (0, 1))),
        }
        compiled = {name: f.lower(*args).compile() for name, f in rivals.items()}
        times = interleaved(
            {name: lambda f=f: f(*args) for name, f in compiled.items()}, rounds=20, calls=2
        )
        cost = {name: str(nx.hlo.summary(c)) for name, c in compiled.items()}
        memory = {
            name: c.memory_analysis().temp_size_in_bytes / 2**20 for name, c in compiled.items()
        }
        for name in ("inside", "outside"):
            print(
                f"{steps:5d} {name:8s} {cost['plain']:>26s} {cost[name]:>26s}"
                f" {memory['plain']:10.2f} MiB {memory[name]:5.2f} MiB"
                f" {times[name] / times['plain']:10.2f}"
            )


if __name__ == "__main__":
    main()
