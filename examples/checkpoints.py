"""Continue training under another layout, from a checkpoint with axis names and without a mesh.

A small network is trained under one layout for half of its steps and saved. Each other layout
restores it on its own mesh and trains the other half. The losses equal those of an uninterrupted
training. Eight devices, simulated on the CPU:

    python examples/checkpoints.py
"""

import argparse
import tempfile
from pathlib import Path

import jax
import numpy as np
import optax

import namedax as nx

# ------------------------------------------------------------------------------------------------
# The model, and its layouts: a mesh, and a map from axes of the model to mesh axes.

SIZES = {"batch": 32, "inputs": 12, "hidden": 16, "classes": 4}
LAYOUTS = {
    "one device": ((1,), {}),
    "data": ((8,), {"batch": "x"}),
    "data + model": ((4, 2), {"batch": "x", "hidden": "y"}),
    "both over all": ((2, 4), {"batch": ("x", "y")}),
    "inputs + steps": ((2,), {"inputs": "x", "batch": nx.SerialLoop(4)}),
}


def loss(params, images, labels):
    hidden = nx.nn.relu(nx.dot(images, params["w1"], "inputs"))
    scores = nx.dot(hidden, params["w2"], "hidden")
    logp = scores - nx.logsumexp(scores, "classes")
    return -nx.mean(nx.sum(nx.nn.one_hot(labels, axis="classes") * logp, "classes"), "batch")


def init():
    """The state of a training: parameters, the optimizer state, and the key of the data."""
    key1, key2, data = jax.random.split(jax.random.key(0), 3)
    params = {
        "w1": (
            0.3
            * nx.random.normal(
                key1, named_shape={"inputs": SIZES["inputs"], "hidden": SIZES["hidden"]}
            )
        ),
        "w2": (
            0.3
            * nx.random.normal(
                key2, named_shape={"hidden": SIZES["hidden"], "classes": SIZES["classes"]}
            )
        ),
    }
    return {"params": params, "state": OPTIMIZER.init(params), "data": data}


OPTIMIZER = optax.adam(0.05)


def batch(key):
    images = nx.random.normal(key, named_shape={"batch": SIZES["batch"], "inputs": SIZES["inputs"]})
    return images, nx.argmax(images["inputs", : SIZES["classes"]], "inputs")


# ------------------------------------------------------------------------------------------------
# Training.


def mesh_of(layout):
    shape, _ = LAYOUTS[layout]
    return jax.make_mesh(
        shape, ("x", "y")[: len(shape)], axis_types=(jax.sharding.AxisType.Auto,) * len(shape)
    )


def train(training, layout, steps):
    """Continue `training` for these steps; return the new state and the losses."""
    mapped = nx.xmap(loss, axis_resources=LAYOUTS[layout][1], mesh=mesh_of(layout))

    @jax.jit
    def step(training):
        params, key = training["params"], jax.random.split(training["data"])
        value, grads = jax.value_and_grad(mapped)(params, *batch(key[0]))
        updates, state = OPTIMIZER.update(grads, training["state"], params)
        return {
            "params": optax.apply_updates(params, updates),
            "state": state,
            "data": key[1],
        }, value

    losses = []
    for _ in range(steps):
        training, value = step(training)
        losses.append(float(value))
    return training, losses


def resources(layout):
    """The sharding of the parameters, as in the mapped function."""
    return {"axis_resources": LAYOUTS[layout][1], "mesh": mesh_of(layout)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12, help="of each training (%(default)s)")
    parser.add_argument(
        "--layout", default="data + model", choices=LAYOUTS, help="of the first half (%(default)s)"
    )
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    half = options.steps // 2

    _, whole = train(nx.shard(init(), **resources(options.layout)), options.layout, options.steps)
    training, losses = train(nx.shard(init(), **resources(options.layout)), options.layout, half)
    folder = Path(tempfile.mkdtemp()) / "half"
    nx.checkpoints.save(folder, training)
    print(f"{options.layout}: {LAYOUTS[options.layout][1]}")
    print("    never interrupted  " + " ".join(f"{value:.6f}" for value in whole))
    print("    saved:")
    for path, sizes in nx.checkpoints.names(folder).items():
        if path.startswith("params"):
            print(f"        {path} {sizes}")

    types = jax.eval_shape(
        init
    )  # the structure and the axis names; independent of the layout of the first half
    for layout in LAYOUTS:
        restored = nx.checkpoints.restore(folder, types, **resources(layout))
        _, more = train(restored, layout, options.steps - half)
        print(f"{layout}: {LAYOUTS[layout][1]}, w1 on {restored['params']['w1'].sharding.spec}")
        print("    goes on            " + " ".join(f"{value:.6f}" for value in losses + more))
        np.testing.assert_allclose(
            losses + more, whole, rtol=1e-5
        )  # other layouts sum in another order

    wrong = {
        **types,
        "params": {**types["params"], "w1": nx.rename(init()["params"]["w1"], {"hidden": "hiden"})},
    }
    try:
        nx.checkpoints.restore(folder, wrong, **resources("data"))
    except nx.errors.CheckpointError as error:
        print("a wrong name:\n    " + str(error).splitlines()[1].strip())


if __name__ == "__main__":
    main()
