"""Train on one process or on many, with the same script and the same results.

Every process loads its part of each batch. Together they train a small network under a layout, and
a checkpoint of one layout continues under another. Eight devices in one process, and in two,
simulated on the CPU:

    python examples/distributed.py

    python examples/distributed.py --devices 4 --processes 2 --process 0 --coordinator
    127.0.0.1:9911 & python examples/distributed.py --devices 4 --processes 2 --process 1
    --coordinator 127.0.0.1:9911

With `--cluster` JAX finds the processes through the scheduler of the cluster; see
docs/guides/distributed.md.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
import optax

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The model, and the layouts. Both are independent of processes.

SIZES = {"batch": 32, "inputs": 12, "hidden": 16, "classes": 4}

# A mesh, and a map from axes of the model to mesh axes. The first mesh axis crosses processes. If
# it is "model", every process needs the complete batch, and a part of each parameter.
ASSIGNMENTS = {
    "data": ({"data": 8}, {"batch": "data"}),
    "data + model": ({"data": 4, "model": 2}, {"batch": "data", "hidden": "model"}),
    "model across": ({"model": 4, "data": 2}, {"batch": "data", "hidden": "model"}),
    "accumulated": (
        {"data": 4, "model": 2},
        {"batch": ("data", nx.SerialLoop(2)), "hidden": "model"},
    ),
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
# Input: a process reads only its elements of a batch.


def read(step, entries):
    """Read these elements of a batch, as if from a file.

    Each element has its own numbers, on any process.
    """
    rows = [np.random.default_rng((step, int(entry))) for entry in entries]
    images = np.stack([row.normal(size=SIZES["inputs"]) for row in rows]).astype(np.float32)
    return images, (images[:, : SIZES["classes"]].argmax(1)).astype(np.int32)


def batch(step, axis_resources, mesh):
    mine = nx.process_entries("batch", SIZES["batch"], axis_resources, mesh)
    return nx.from_process_local(
        read(step, mine),
        (["batch", "inputs"], ["batch"]),
        axis_resources,
        mesh,
        global_sizes={"batch": SIZES["batch"]},
    )


# ------------------------------------------------------------------------------------------------
# Training.


def make_mesh(sizes):
    return jax.make_mesh(
        tuple(sizes.values()), tuple(sizes), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes)
    )


def train(title, params, state, optimizer, steps):
    """Train for these steps; return parameters, optimizer state and losses."""
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
        losses.append(float(value))  # replicated: every process has it
    return params, state, losses


def run(title, steps, folder=None):
    """Train under one layout.

    Half-way, if there is a folder, a checkpoint passes to the next layout.
    """
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
    """Save a tree and restore it under another layout. Every process writes and reads its part."""
    sizes, axis_resources = ASSIGNMENTS[title]
    nx.checkpoints.save(folder, tree)
    return nx.checkpoints.restore(
        folder, tree, axis_resources=axis_resources, mesh=make_mesh(sizes)
    )


def say(text):
    if jax.process_index() == 0:
        print(text, flush=True)


def connect(options):
    """Join the other processes.

    Call this first: afterwards `jax.devices()` has the devices of all processes.
    """
    if options.cluster:
        jax.distributed.initialize()
        return
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", options.devices)
    if options.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            options.coordinator,
            options.processes,
            options.process,
            coordinator_bind_address=options.coordinator,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="use the processes that JAX finds, 8 devices in total",
    )
    parser.add_argument(
        "--devices", type=int, default=8, help="simulated devices of each process (%(default)s)"
    )
    parser.add_argument(
        "--processes", type=int, default=1, help="number of processes (%(default)s)"
    )
    parser.add_argument(
        "--process", type=int, default=0, help="index of this process (%(default)s)"
    )
    parser.add_argument("--coordinator", help="address and port of process 0, the same for all")
    parser.add_argument(
        "--assignment", default="all", choices=["all", *ASSIGNMENTS], help="(%(default)s)"
    )
    parser.add_argument("--steps", type=int, default=6, help="of each training (%(default)s)")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="a new folder that all processes share: save and restore half-way",
    )
    parser.add_argument(
        "--save", type=Path, help="an .npz file for the losses and parameters, written by process 0"
    )
    options = parser.parse_args()

    connect(options)
    say(f"{jax.process_count()} processes, {jax.local_device_count()} devices each")
    results = {}
    for title in ASSIGNMENTS if options.assignment == "all" else [options.assignment]:
        folder = options.checkpoint and options.checkpoint / title.replace(" ", "_")
        params, losses = run(title, options.steps, folder)
        assert losses[-1] < losses[0], losses
        results[f"{title}/losses"] = losses
        whole = nx.shard(
            params, {}, params["w1"].sharding.mesh
        )  # no process has a complete sharded array
        results |= {f"{title}/{name}": np.asarray(array.data) for name, array in whole.items()}
    if options.save and jax.process_index() == 0:
        np.savez(options.save, **results)


if __name__ == "__main__":
    main()
