"""A training on one process or on many: the same script, the same numbers.

Every process loads its part of each batch, all together train a small network under an assignment, and a checkpoint of one
assignment goes on under another. Eight devices in one process, and in two, simulated on the CPU:

    python examples/distributed.py

    python examples/distributed.py --devices 4 --processes 2 --process 0 --coordinator 127.0.0.1:9911 &
    python examples/distributed.py --devices 4 --processes 2 --process 1 --coordinator 127.0.0.1:9911

With `--cluster` JAX asks the cluster's scheduler who takes part; see docs/guides/distributed.md.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
import optax

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The model, and the layouts. Neither knows of processes.

SIZES = {"batch": 32, "inputs": 12, "hidden": 16, "classes": 4}

# A mesh, and which axis of the model lives on which axis of the mesh. The first mesh axis crosses processes. Where it is "model",
# every process needs the whole batch, and a part of each parameter.
ASSIGNMENTS = {
    "data": ({"data": 8}, {"batch": "data"}),
    "data + model": ({"data": 4, "model": 2}, {"batch": "data", "hidden": "model"}),
    "model across": ({"model": 4, "data": 2}, {"batch": "data", "hidden": "model"}),
    "accumulated": ({"data": 4, "model": 2}, {"batch": ("data", nx.SerialLoop(2)), "hidden": "model"}),
}


def loss(params, images, labels):
    hidden = nx.nn.relu(nx.dot(images, params["w1"], "inputs"))
    scores = nx.dot(hidden, params["w2"], "hidden")
    logp = scores - nx.logsumexp(scores, "classes")
    return -nx.mean(nx.sum(nx.nn.one_hot(labels, axis="classes") * logp, "classes"), "batch")


def init():
    key1, key2 = jax.random.split(jax.random.key(0))
    shape1 = {"inputs": SIZES["inputs"], "hidden": SIZES["hidden"]}
    shape2 = {"hidden": SIZES["hidden"], "classes": SIZES["classes"]}
    return {
        "w1": 0.3 * nx.random.normal(key1, named_shape=shape1),
        "w2": 0.3 * nx.random.normal(key2, named_shape=shape2),
    }


# ------------------------------------------------------------------------------------------------
# Input: a process reads its entries of a batch, and no others.


def read(step, entries):
    """These entries of a batch, as if from a file: each entry has numbers of its own, whoever reads it."""
    rows = [np.random.default_rng((step, int(entry))) for entry in entries]
    images = np.stack([row.normal(size=SIZES["inputs"]) for row in rows]).astype(np.float32)
    return images, (images[:, : SIZES["classes"]].argmax(1)).astype(np.int32)


def batch(step, axis_resources, mesh):
    mine = nx.process_entries("batch", SIZES["batch"], axis_resources, mesh)
    return nx.from_process_local(
        read(step, mine), (["batch", "inputs"], ["batch"]), axis_resources, mesh, global_sizes={"batch": SIZES["batch"]}
    )


# ------------------------------------------------------------------------------------------------
# Training.


def make_mesh(sizes):
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def train(title, params, state, optimizer, steps):
    """Trains for these steps; returns parameters, optimizer state and losses."""
    sizes, axis_resources = ASSIGNMENTS[title]
    mesh = make_mesh(sizes)
    mapped = nx.xmap(loss, axis_resources=axis_resources, mesh=mesh)

    @jax.jit
    def update(params, state, images, labels):
        value, grads = jax.value_and_grad(mapped)(params, images, labels)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for step in steps:
        params, state, value = update(params, state, *batch(step, axis_resources, mesh))
        losses.append(float(value))  # a replicated value is on every process
    return params, state, losses


def run(title, steps, folder=None):
    """Trains under one assignment; half-way, if there is a folder, a checkpoint moves to the next one."""
    sizes, axis_resources = ASSIGNMENTS[title]
    optimizer = optax.adam(0.05)
    params = nx.shard(init(), axis_resources, make_mesh(sizes))
    state = nx.shard(optimizer.init(params), axis_resources, make_mesh(sizes))
    say(f"{title}: {axis_resources} on {sizes}")
    for name, array in params.items():
        say(f"    {name}: {dict(array.named_shape)}, {array.sharding.spec}")
    half = steps // 2 if folder else steps
    params, state, losses = train(title, params, state, optimizer, range(half))
    if folder:
        titles = list(ASSIGNMENTS)
        title = titles[(titles.index(title) + 1) % len(titles)]
        params, state = move(folder, (params, state), title)
        say(f"    restored under {title!r}")
        params, state, more = train(title, params, state, optimizer, range(half, steps))
        losses += more
    say("    losses " + " ".join(f"{value:.6f}" for value in losses))
    return params, np.array(losses)


def move(folder, tree, title):
    """Saves a tree, and restores it under another assignment. Every process writes and reads its part."""
    sizes, axis_resources = ASSIGNMENTS[title]
    nx.checkpoints.save(folder, tree)
    return nx.checkpoints.restore(folder, tree, axis_resources=axis_resources, mesh=make_mesh(sizes))


def say(text):
    if jax.process_index() == 0:
        print(text, flush=True)


def connect(options):
    """Joins the other processes. This comes first: afterwards `jax.devices()` are those of all."""
    if options.cluster:
        jax.distributed.initialize()
        return
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", options.devices)
    if options.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            options.coordinator, options.processes, options.process, coordinator_bind_address=options.coordinator
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cluster", action="store_true", help="the devices and processes that JAX finds, 8 devices together")
    parser.add_argument("--devices", type=int, default=8, help="of each process, simulated (%(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="their number (%(default)s)")
    parser.add_argument("--process", type=int, default=0, help="which one this is (%(default)s)")
    parser.add_argument("--coordinator", help="address and port of process 0, for all the same")
    parser.add_argument("--assignment", default="all", choices=["all", *ASSIGNMENTS], help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=6, help="of each training (%(default)s)")
    parser.add_argument("--checkpoint", type=Path, help="a new folder that all processes see: save and restore half-way")
    parser.add_argument("--save", type=Path, help="an .npz file that process 0 writes losses and parameters to")
    options = parser.parse_args()

    connect(options)
    say(f"{jax.process_count()} processes, {jax.local_device_count()} devices each")
    results = {}
    for title in ASSIGNMENTS if options.assignment == "all" else [options.assignment]:
        folder = options.checkpoint and options.checkpoint / title.replace(" ", "_")
        params, losses = run(title, options.steps, folder)
        assert losses[-1] < losses[0], losses
        results[f"{title}/losses"] = losses
        whole = nx.shard(params, {}, params["w1"].sharding.mesh)  # no process has all of a sharded array
        results |= {f"{title}/{name}": np.asarray(array.data) for name, array in whole.items()}
    if options.save and jax.process_index() == 0:
        np.savez(options.save, **results)


if __name__ == "__main__":
    main()
