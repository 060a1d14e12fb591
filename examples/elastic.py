"""Elastic training: half of the devices leave, and the training goes on with the same losses.

A small network trains on eight devices, simulated on the CPU, with parameters and the state of the
optimizer sharded over `data` and `model`. Then only four devices remain. `nx.plan` chooses the
layout for these. Two ways lead there:

- The devices are given back (planned): `nx.transfer` moves the training state to the other four,
  from device to device and in bounded memory.
- The devices fail (not planned): `nx.transfer` lists the arrays that no remaining device has
  completely, and `nx.checkpoints.restore` reads the last checkpoint in the new layout. Where each
  half of the mesh has a copy, the transfer works without a checkpoint.

The losses equal those of an uninterrupted training:

    python examples/elastic.py
"""

import argparse
import tempfile
from pathlib import Path

import jax
import numpy as np
import optax
from jax.sharding import AxisType

import namedax as nx

SIZES = {"batch": 64, "inputs": 16, "hidden": 64, "classes": 8}
BEFORE = {"batch": "data", "inputs": "data", "hidden": "model"}
COPIES = {"batch": "data", "hidden": "model"}  # each half of the mesh has all parameters
OPTIMIZER = optax.adam(0.02)
# A machine for which so small a network is worth sharding.
SLOW = nx.machines.Machine(
    flops={"float32": 1e9},
    memory=1e6,
    bandwidth=1e9,
    links={...: nx.machines.Link(1e9, 1e-6, "switch")},
    name="a slow machine",
)


def loss(params, images, labels):
    # The batch and the stored rows of `w1` share a mesh axis, so `inputs` is renamed for the
    # product: parameters are gathered where they are used.
    w1 = nx.rename(params["w1"], {"inputs": "pixels"})
    hidden = nx.nn.relu(nx.dot(images, w1, "pixels"))
    scores = nx.dot(hidden, params["w2"], "hidden")
    logp = scores - nx.logsumexp(scores, "classes")
    return -nx.mean(nx.sum(nx.nn.one_hot(labels, axis="classes") * logp, "classes"), "batch")


def init():
    """Return the state of a training: parameters, the optimizer state, and the key of the data."""
    key1, key2, data = jax.random.split(jax.random.key(0), 3)
    w1 = {"inputs": SIZES["inputs"], "hidden": SIZES["hidden"]}
    w2 = {"hidden": SIZES["hidden"], "classes": SIZES["classes"]}
    params = {
        "w1": 0.2 * nx.random.normal(key1, named_shape=w1),
        "w2": 0.2 * nx.random.normal(key2, named_shape=w2),
    }
    return {"params": params, "state": OPTIMIZER.init(params), "data": data}


def batch(key):
    sizes = {"batch": SIZES["batch"], "pixels": SIZES["inputs"]}
    images = nx.random.normal(key, named_shape=sizes)
    return images, nx.argmax(images["pixels", : SIZES["classes"]], "pixels")


def mesh_of(sizes, devices):
    """Return a mesh of these devices."""
    shape, axes = tuple(sizes.values()), tuple(sizes)
    return jax.make_mesh(shape, axes, axis_types=(AxisType.Auto,) * len(axes), devices=devices)


def train(training, layout, steps):
    """Continue `training` for these steps; return the new state and the losses."""
    mesh, axis_resources = layout
    mapped = nx.xmap(jax.value_and_grad(loss), axis_resources=axis_resources, mesh=mesh)

    @jax.jit
    def step(training):
        params, key = training["params"], jax.random.split(training["data"])
        value, grads = mapped(params, *batch(key[0]))
        updates, state = OPTIMIZER.update(grads, training["state"], params)
        new = {"params": optax.apply_updates(params, updates), "state": state, "data": key[1]}
        return nx.shard(new, axis_resources, mesh), value

    losses = []
    for _ in range(steps):
        training, value = step(training)
        losses.append(float(value))
    return training, losses


def plan_for(devices):
    """Choose the layout of a training step on these devices, and its mesh."""
    f = nx.xmap(jax.value_and_grad(loss), axis_resources=COPIES, mesh=None)
    types = jax.eval_shape(lambda: (init()["params"], *batch(jax.random.key(0))))
    mesh = mesh_of({"data": 2, "model": 2}, devices)
    plan = nx.plan(f, *types, mesh=mesh, machine=SLOW, progress=False)
    return mesh, plan.best


def show(name, losses):
    print(f"    {name:24} " + " ".join(f"{value:.6f}" for value in losses))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12, help="of each training (%(default)s)")
    parser.add_argument(
        "--memory", type=int, default=4096, help="bytes in flight on a device (%(default)s)"
    )
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    half, rest = options.steps // 2, options.steps - options.steps // 2

    devices = jax.devices()
    large = mesh_of({"data": 4, "model": 2}, devices)
    before = (large, BEFORE)
    types = jax.eval_shape(init)

    _, whole = train(nx.shard(init(), BEFORE, large), before, options.steps)
    print("Eight devices, never interrupted:")
    show("", whole)

    after = plan_for(devices[4:])
    print(f"The plan for the four that remain: {after[1]}")

    # Planned: all devices still work. The first half is freed as its arrays move.
    training, losses = train(nx.shard(init(), BEFORE, large), before, half)
    folder = Path(tempfile.mkdtemp()) / "half"
    nx.checkpoints.save(folder, training)
    move = nx.transfer(types, before, after, memory=options.memory, donate=True)
    print(move)
    _, more = train(move(training), after, rest)
    show("transferred", losses + more)
    np.testing.assert_allclose(losses + more, whole, rtol=1e-5)

    # A failure: the data of the first four devices are lost.
    broken = nx.transfer(types, before, after, lost=devices[:4])
    print(f"After a failure, {len(broken.missing)} of {broken.arrays} arrays are incomplete.")
    mesh, axis_resources = after
    restored = nx.checkpoints.restore(folder, types, axis_resources=axis_resources, mesh=mesh)
    _, more = train(restored, after, rest)
    show("restored", losses + more)
    np.testing.assert_allclose(losses + more, whole, rtol=1e-5)

    # With a copy in each half of the mesh, the other half has everything.
    before = (large, COPIES)
    training, losses = train(nx.shard(init(), COPIES, large), before, half)
    move = nx.transfer(types, before, after, lost=devices[:4])
    assert not move.missing
    _, more = train(move(training), after, rest)
    show("from the other copy", losses + more)
    np.testing.assert_allclose(losses + more, whole, rtol=1e-5)
    print("The losses agree.")


if __name__ == "__main__":
    main()
