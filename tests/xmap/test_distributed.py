"""Many processes: the same numbers as one, from input to checkpoint.

Two processes of four devices each are started here, on this machine, and four of two. As a program, this file is one of them.
"""

import argparse
import contextlib
import importlib.util
import inspect
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.distributed import bytes_per_device
from namedax.errors import AxisMappingError, AxisResourceError, AxisSizeError, MeshError, PlacementConflictError
from tests import make
from tests.harness import environment_without_devices, said

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "distributed.py"
ASSIGNMENTS = ("data", "data + model", "model across", "accumulated")

# --- starting processes ---------------------------------------------------------------------------------------------


def start(script, *arguments, log):
    """One process, whose output goes to `log`; its environment has no trace of this process's devices."""
    command, environment = [sys.executable, str(script), *map(str, arguments)], environment_without_devices()
    return subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def outputs_of(commands, timeout=240):
    """Runs commands side by side and returns their return codes and outputs; when one fails or time is up, all end."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [open(Path(folder) / str(i), "w+", encoding="utf-8") for i in range(len(commands))]
        running = [start(*command, log=log) for command, log in zip(commands, logs, strict=True)]
        try:
            end = time.monotonic() + timeout
            while any(process.poll() is None for process in running):
                if any(process.poll() for process in running) or time.monotonic() > end:
                    break
                time.sleep(0.05)
        finally:
            for process in running:
                process.kill()
            codes = [process.wait() for process in running]
        texts = []
        for log in logs:
            log.seek(0)
            texts.append(log.read())
            log.close()
        return codes, texts


def run_two(script, *arguments):
    """Two processes that know each other, and what they print."""
    return run_together(2, script, *arguments)


def run_together(processes, script, *arguments):
    """Processes with eight devices together, and what they print."""
    for _ in range(3):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        options = ("--devices", 8 // processes, "--processes", processes, "--coordinator", address)
        codes, texts = outputs_of([(script, *arguments, *options, "--process", number) for number in range(processes)])
        taken = any(sign in text for text in texts for sign in ("already in use", "Failed to add port"))
        if not any(codes) or not taken:  # or else someone was quicker to take the port
            break
    assert not any(codes), "\n\n".join(text[-4000:] for text in texts)
    return texts


# --- the example: one process and two give the same numbers -----------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What `examples/distributed.py` prints and computes, by the number of processes."""
    folder = tmp_path_factory.mktemp("trained")
    common = ("--steps", 4, "--checkpoint")
    two = run_two(EXAMPLE, *common, folder / "checkpoint of two", "--save", folder / "two.npz")
    codes, one = outputs_of([(EXAMPLE, *common, folder / "checkpoint of one", "--save", folder / "one.npz")])
    assert codes == [0], one[0][-4000:]
    runs = ((1, "one", one), (2, "two", two))
    return {n: (texts, dict(np.load(folder / f"{name}.npz")), folder / f"checkpoint of {name}") for n, name, texts in runs}


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("title", ASSIGNMENTS)
def test_two_processes_give_the_numbers_of_one(trained, title):
    one, two = trained[1][1], trained[2][1]
    assert list(one) == list(two)
    assert [key.removeprefix(f"{title}/") for key in one if key.startswith(f"{title}/")] == ["losses", "w1", "w2"]
    for name in ("losses", "w1", "w2"):
        have, want = two[f"{title}/{name}"], one[f"{title}/{name}"]
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())
        np.testing.assert_allclose(have, one[f"data/{name}"], rtol=1e-5, atol=1e-5 * np.abs(want).max())


def adam(gradient, rate=0.05):
    """optax.adam by hand, from its paper."""
    first, second, count = 0.0, 0.0, 0

    def step(parameters, *data):
        nonlocal first, second, count
        value, slope = gradient(parameters, *data)
        count += 1
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        return parameters - rate * (first / (1 - 0.9**count)) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8), value

    return step


@pytest.mark.fast(0)
def test_the_numbers_are_those_of_a_program_without_names(trained):
    from jax.flatten_util import ravel_pytree

    key1, key2 = jax.random.split(jax.random.key(0))
    start = {"w1": 0.3 * jax.random.normal(key1, (12, 16)), "w2": 0.3 * jax.random.normal(key2, (16, 4))}
    flat, unflatten = ravel_pytree(start)

    def loss(flat, images, labels):
        params = unflatten(flat)
        scores = jax.nn.relu(images @ params["w1"]) @ params["w2"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1))

    step = adam(jax.jit(jax.value_and_grad(loss)))
    losses = []
    for number in range(4):
        images = np.stack([np.random.default_rng((number, i)).normal(size=12) for i in range(32)]).astype(np.float32)
        flat, value = step(flat, images, images[:, :4].argmax(1))
        losses.append(float(value))
    have = trained[2][1]
    np.testing.assert_allclose(have["data + model/losses"], losses, rtol=1e-5)
    for name, want in unflatten(jnp.asarray(flat)).items():
        np.testing.assert_allclose(have[f"data + model/{name}"], want, rtol=1e-3, atol=1e-4)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_checkpoint_of_two_processes_is_one_of_one(trained):
    import optax

    spec = importlib.util.spec_from_file_location("distributed_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    params = example.init()
    types = (params, optax.adam(0.05).init(params))
    place = {"axis_resources": {"inputs": "data"}, "mesh": mesh_of((4, 2))}
    one, two = (nx.checkpoints.restore(trained[n][2] / "data_+_model", types, **place) for n in (1, 2))
    assert two[0]["w1"].sharding.spec == P("data", None)
    assert jax.tree.structure(one) == jax.tree.structure(two) == jax.tree.structure(types)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), one, two)
    assert np.abs(np.asarray(two[0]["w1"].data) - np.asarray(params["w1"].data)).max() > 0.01  # it was trained


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_only_the_first_process_prints(trained):
    first, second = trained[2][0]
    assert "2 processes, 4 devices each" in first
    assert "losses" not in second
    assert first.count("restored under") == trained[1][0][0].count("restored under") == len(ASSIGNMENTS)
    assert "w1: {'inputs': 12, 'hidden': 16}, P(None, 'model')" in first


# --- one process of two: what it checks ---------------------------------------------------------------------------------


def mesh_of(shape, axes=("data", "model"), kind=AxisType.Auto, order=None):
    """A mesh over all devices, process by process, or in another order."""
    devices = np.array(sorted(jax.devices(), key=lambda device: (device.process_index, device.id)))
    devices = devices if order is None else devices[list(order)]
    return Mesh(devices.reshape(shape), axes, axis_types=(kind,) * len(axes))


def check_blocks(array, want):
    """The blocks of an array that are here, against those of a whole NumPy array."""
    want = np.asarray(want)
    assert array.shape == want.shape, (array.shape, want.shape)
    for shard in array.addressable_shards:
        np.testing.assert_allclose(np.asarray(shard.data), want[shard.index], rtol=2e-6, atol=2e-6)


def message_of(function, *errors):
    try:
        function()
    except errors as error:
        return f"{type(error).__name__}: {said(error)}"
    raise AssertionError("no error")


WHOLE = np.random.default_rng(3).normal(size=(16, 6)).astype(np.float32)
INTERLEAVED = (0, 4, 1, 5, 2, 6, 3, 7)
LAYOUTS = {
    "batch across": (((4, 2), ("data", "model")), {"batch": "data", "k": "model"}),
    "k across": (((2, 4), ("model", "data")), {"batch": "data", "k": "model"}),
    "both mesh axes": (((4, 2), ("data", "model")), {"batch": ("data", "model")}),
    "both, reversed": (((4, 2), ("data", "model")), {"batch": ("model", "data")}),
    "one, within": (((2, 4), ("outer", "inner")), {"batch": "inner"}),
    "not mapped": (((8,), ("data",)), {}),
    "in steps": (((8,), ("data",)), {"batch": ("data", nx.SerialLoop(2))}),
    "interleaved": (((8,), ("data",), AxisType.Auto, INTERLEAVED), {"batch": "data"}),
    "explicit": (((4, 2), ("data", "model"), AxisType.Explicit), {"batch": "data", "k": "model"}),
}


def parts(mesh, resources):
    """The part of `WHOLE` that this process brings, when it knows nothing of the rest."""
    rows = nx.process_entries("batch", 16, resources, mesh)
    columns = nx.process_entries("k", 6, resources, mesh)
    known = np.full_like(WHOLE, np.nan)
    known[np.ix_(rows, columns)] = WHOLE[np.ix_(rows, columns)]
    return known[np.ix_(rows, columns)]


def placement(mesh, resources):
    """The sharding that each name has to have, written out."""

    def axes(entry):
        entry = entry if isinstance(entry, tuple) else (entry,)
        return tuple(axis for axis in entry if isinstance(axis, str)) or None

    return NamedSharding(mesh, P(axes(resources.get("batch")), axes(resources.get("k"))))


def worker_input():
    """Parts of all layouts become the whole."""
    shapes = {}
    for label, (mesh, resources) in LAYOUTS.items():
        mesh = mesh_of(*mesh)
        part = parts(mesh, resources)
        shapes[label] = part.shape
        array = nx.from_process_local(part, ["batch", "k"], resources, mesh, {"batch": 16})
        assert dict(array.named_shape) == {"batch": 16, "k": 6}, label
        assert array.sharding.is_equivalent_to(placement(mesh, resources), 2), (label, array.sharding)
        check_blocks(array.data, WHOLE)
        check_blocks(nx.from_process_local(part, ["batch", "k"], resources, mesh).data, WHOLE)  # the size is inferred
        check_blocks(nx.from_process_local(WHOLE, ["batch", "k"], resources, mesh, {"batch": 16, "k": 6}).data, WHOLE)
        check_blocks(nx.shard(nx.named(WHOLE, ["batch", "k"]), resources, mesh).data, WHOLE)
    return shapes


def worker_trees():
    """Trees, positional axes, other types, and arrays without names."""
    mesh, resources = mesh_of((4, 2)), {"batch": "data"}
    rows = nx.process_entries("batch", 16, resources, mesh)
    numbers = np.arange(16)
    tree = {"x": WHOLE[rows], "y": numbers[rows], "flag": numbers[rows] % 3 == 0, "rate": np.float64(0.5)}
    have = nx.from_process_local(tree, {"x": {0: "batch"}, "y": ["batch"], "flag": ["batch"], "rate": []}, resources, mesh)
    assert have["x"].dims == ("batch", None)
    assert not isinstance(have["rate"], nx.NamedArray)
    assert float(have["rate"]) == 0.5
    check_blocks(have["x"].data, WHOLE)
    check_blocks(have["y"].data, numbers)
    check_blocks(have["flag"].data, numbers % 3 == 0)
    named = nx.from_process_local(nx.named(WHOLE[rows], ["batch", "k"]), None, resources, mesh)
    check_blocks(named.data, WHOLE)
    return {name: str(value.dtype) for name, value in have.items()}


def worker_programs():
    """Mapped functions that communicate between processes, with their gradients, against NumPy."""
    weights = np.random.default_rng(5).normal(size=(6, 8)).astype(np.float32)
    product = WHOLE @ weights

    def loss(x, w):
        return nx.mean(nx.sum(nx.dot(x, w, "k") ** 2, "out"), "batch")

    def several(x):
        old = nx.rename(x, {"batch": "old"})  # an all-gather
        return nx.sort(x, "batch"), nx.roll(x, 3, "batch"), nx.cumsum(x, "batch"), nx.max(x, "batch"), old

    for label in ("batch across", "k across", "both, reversed", "interleaved", "explicit"):
        mesh, resources = LAYOUTS[label]
        mesh = mesh_of(*mesh)
        with jax.set_mesh(mesh) if label == "explicit" else contextlib.nullcontext():
            x = nx.from_process_local(parts(mesh, resources), ["batch", "k"], resources, mesh)
            (w,) = nx.shard((nx.named(jnp.asarray(weights), ["k", "out"]),), resources, mesh)
            mapped = nx.xmap(loss, axis_resources=resources, mesh=mesh)
            value, (dx, dw) = jax.jit(jax.value_and_grad(mapped, argnums=(0, 1)))(x, w)
            np.testing.assert_allclose(float(value), np.mean(np.sum(product**2, 1)), rtol=1e-5)
            check_blocks(dx.data / 8, 2 * product @ weights.T / 16 / 8)
            check_blocks(dw.data / 8, 2 * WHOLE.T @ product / 16 / 8)
            if label in ("both, reversed", "explicit"):
                wants = np.sort(WHOLE, 0), np.roll(WHOLE, 3, 0), np.cumsum(WHOLE, 0), np.max(WHOLE, 0), WHOLE
                results = nx.xmap(several, axis_resources=resources, mesh=mesh)(x)
                for have, want in zip(results, wants, strict=True):
                    check_blocks(have.data, want)
    return label


def collectives(x):
    """Every collective of `nx.lax` over an axis of size 8, of an array with a positional axis of size 8."""
    groups = {"axis_index_groups": [[0, 3, 5, 6], [1, 2, 4, 7]]}
    return {
        "psum": nx.lax.psum(x, "a"),
        "pmean": nx.lax.pmean(x, ("a", "b")),
        "pmax": nx.lax.pmax(x, "a"),
        "pmin": nx.lax.pmin(x, ("b", "a")),
        "all_gather": nx.lax.all_gather(x, "a"),
        "psum_scatter": nx.lax.psum_scatter(x, "a"),
        "all_to_all": nx.lax.all_to_all(x, "a", 0, 0),
        "ppermute": nx.lax.ppermute(x, "a", [(i, (i + 3) % 8) for i in range(7)]),
        "pshuffle": nx.lax.pshuffle(x, "a", [3, 1, 0, 2, 7, 6, 5, 4]),
        "pbroadcast": nx.lax.pbroadcast(x, "a", 5),
        "pswapaxes": nx.lax.pswapaxes(x, "a", 0),
        "pgather": nx.lax.pgather(x, jnp.array([1, 5, 2]), "a"),
        "axis_index": x * nx.lax.axis_index(("b", "a")),
        "groups": nx.lax.psum(x, "a", **groups),
        "gathered groups": nx.lax.all_gather(x, "a", **groups),
    }


def layer(x, w):
    return nx.tanh(nx.rename(nx.dot(x, w, "k"), {"out": "k"}))


SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble")


def pipelined(schedule, **options):
    return lambda x, w: {"y": nx.sum(nx.pipeline(layer, x, w, microbatches=4, schedule=schedule, **options) ** 2, "k")}


def with_gradients(f):
    """The values of a function with trees of named arrays, and the gradients of a function of all of them."""

    def total(*args):
        values = f(*args)
        return sum(jnp.sum(jnp.sin(leaf / 4)) for leaf in jax.tree.leaves(values)), values

    return jax.jit(jax.value_and_grad(total, argnums=range(len(inspect.signature(f).parameters)), has_aux=True))


def check_as_unmapped(f, args, resources, mesh):
    """A mapped function has the values and gradients of the unmapped one."""
    want = with_gradients(nx.xmap(f, axis_resources={}))(*args)
    have = with_gradients(nx.xmap(f, axis_resources=resources, mesh=mesh))(*nx.shard(args, resources, mesh))
    for found, wanted in zip(*map(jax.tree.leaves, (nx.order_like(have, want), want)), strict=True):
        check_blocks(found, wanted)


def worker_collectives():
    """Every collective, whose devices are neighbors in the mesh but not in their processes, forwards and backwards."""
    data = np.random.default_rng(6).normal(size=(8, 8, 2)).astype(np.float32)
    mesh = mesh_of((4, 2), ("x", "y"), order=INTERLEAVED)
    check_as_unmapped(collectives, (nx.named(jnp.asarray(data), [None, "a", "b"]),), {"a": "x", "b": "y"}, mesh)
    return "equal"


def check_pipeline(schedule, mesh):
    w = nx.named(jnp.asarray(np.random.default_rng(7).normal(size=(8, 4, 4)).astype(np.float32) / 3), ["layers", "k", "out"])
    x = nx.named(jnp.asarray(np.random.default_rng(8).normal(size=(16, 4)).astype(np.float32)), ["batch", "k"])
    options = {}
    if schedule == "interleaved":
        w, options = nx.split_axis(w, "layers", {"rounds": 2, "layers": 4}), {"axis": ("rounds", "layers")}
    check_as_unmapped(pipelined(schedule, **options), (x, w), {"layers": "stage", "batch": "data"}, mesh)
    return schedule


def worker_pipelines():
    """Stages on both processes: their devices run other branches in a tick."""
    return [check_pipeline(schedule, mesh_of((4, 2), ("stage", "data"))) for schedule in ("gpipe", "zero_bubble")]


def check_levels(mesh):
    """The kinds of the collectives of a gradient in two levels, with the number of processes in a group."""
    from namedax.insight.profiling.instructions import parse

    def loss(w, x):
        return nx.sum(nx.sin(nx.dot(x, w, "k")), ["batch", "out"])

    f = nx.xmap(jax.grad(loss), axis_resources={"batch": mesh.axis_names}, mesh=mesh, slow_axes={mesh.axis_names[0]: 0})
    w, x = nx.named(jnp.asarray(WHOLE[:6]), ["k", "out"]), nx.named(jnp.asarray(WHOLE), ["batch", "k"])
    w, x = nx.shard(w, {}, mesh), nx.shard(x, {"batch": mesh.axis_names}, mesh)
    compiled = jax.jit(f).lower(w, x).compile()
    check_blocks(compiled(w, x).data, WHOLE.T @ np.cos(WHOLE @ WHOLE[:6]))
    program, process = parse(compiled.as_text()), [device.process_index for device in mesh.devices.flat]
    found = [(one.opcode, program.groups(one)) for one in program.instructions.values() if "replica_groups" in one.attributes]
    return sorted((kind, *{len({process[i] for i in group}) for group in groups}) for kind, groups in found)


def worker_host_values():
    """Values that all processes have alike: arguments, closed-over arrays, random numbers."""
    mesh, resources = mesh_of((4, 2)), {"batch": "data", "k": "model"}
    table = nx.named(jnp.asarray(WHOLE), ["batch", "k"])
    f = nx.xmap(lambda x: nx.sum(x * table, ("batch", "k")), (["batch", "k"],), [], axis_resources=resources, mesh=mesh)
    for x in (WHOLE, jnp.asarray(WHOLE)):
        np.testing.assert_allclose(float(f(x)), np.sum(WHOLE**2), rtol=1e-5)
    noise = nx.xmap(
        lambda: nx.random.normal(jax.random.key(7), named_shape={"batch": 16}), axis_resources={"batch": "data"}, mesh=mesh
    )()
    check_blocks(noise.data, jax.random.normal(jax.random.key(7), (16,)))
    return noise.named_shape["batch"]


def worker_display():
    """What arrays show whose values are elsewhere, and what cannot be done with them."""
    mesh, resources = mesh_of((4, 2)), {"batch": "data", "k": "model"}
    array = nx.from_process_local(parts(mesh, resources), ["batch", "k"], resources, mesh)
    assert float(nx.sum(nx.shard(array, {}, mesh), ("batch", "k"))) == pytest.approx(float(WHOLE.sum()), rel=1e-4)
    return {
        "repr": repr(array),
        "html": "values on other processes" in array._repr_html_(),
        "replicated": repr(nx.shard(array, {}, mesh)),
        "asarray": message_of(lambda: np.asarray(nx.positional(array, ["batch", "k"])), RuntimeError),
    }


def worker_errors():
    """Mistakes that only many processes can make, or that look different with them."""
    mesh, resources = mesh_of((4, 2)), {"batch": "data"}
    uneven = mesh_of((8,), ("data",), order=(0, 1, 2, 4, 3, 5, 6, 7))
    shared = mesh_of((2, 2, 2), ("a", "b", "c"), order=(0, 1, 2, 4, 3, 5, 6, 7))  # the processes share one block of four

    def bring(rows, sizes=None, mesh=mesh):
        return lambda: nx.from_process_local(WHOLE[:rows], ["batch", "k"], resources, mesh, sizes)

    check_blocks(nx.from_process_local(parts(uneven, resources), ["batch", "k"], resources, uneven).data, WHOLE)
    mixed = {"batch": ("a", "b")}
    check_blocks(nx.from_process_local(WHOLE, ["batch", "k"], mixed, shared, {"batch": 16}).data, WHOLE)
    return {
        "odd": message_of(bring(7), AxisSizeError),
        "other": message_of(bring(6, {"batch": 16}), AxisSizeError),
        "unmapped": message_of(lambda: nx.from_process_local(WHOLE, ["batch", "k"], {}, mesh, {"k": 12}), AxisSizeError),
        "shared": message_of(lambda: nx.from_process_local(WHOLE, ["batch", "k"], mixed, shared), MeshError),
        "shared part": message_of(
            lambda: nx.from_process_local(WHOLE[:12], ["batch", "k"], mixed, shared, {"batch": 16}), AxisSizeError
        ),
        "global": message_of(lambda: nx.from_process_local(bring(8)(), None, resources, mesh), AxisMappingError),
        "differ": message_of(
            lambda: nx.shard(nx.named(WHOLE + jax.process_index(), ["batch", "k"]), resources, mesh), AssertionError
        )[:80],
    }


def checkpointed(mesh, resources):
    """A tree that is saved: arrays over the mesh, some of this process alone, and values of Python."""
    params = {"w": nx.named(WHOLE.reshape(16, 3, 2), ["rows", None, "columns"]), "b": nx.named(WHOLE[0, :2], ["columns"])}
    return {"params": nx.shard(params, resources, mesh), "step": jnp.int32(7), "host": np.arange(3), "rate": 0.5}


def check_checkpoints(folder):
    """Writes with the other process, and reads what both have written, and what one has: blocks that it does not have."""
    mesh = mesh_of((2, 4))
    tree = checkpointed(mesh, {"rows": "model", "columns": "data"})
    nx.checkpoints.save(folder / "of two", tree)
    like = {**tree, "params": {**tree["params"], "w": nx.named(np.zeros((2, 16, 3)), ["columns", "rows", None])}}
    like["params"]["w"] = jax.eval_shape(lambda w: w.astype(np.float32), like["params"]["w"])
    for name in ("of one", "of two"):
        have = nx.checkpoints.restore(folder / name, like, axis_resources={"rows": ("model", "data")}, mesh=mesh)
        check_blocks(have["params"]["w"].data, WHOLE.reshape(16, 3, 2).transpose(2, 0, 1))
        check_blocks(have["params"]["b"].data, WHOLE[0, :2])
        assert (int(have["step"]), have["host"].tolist(), have["rate"]) == (7, [0, 1, 2], 0.5)
    # Of a table that was written by one process, each process reads the half that it is to hold.
    before = bytes_of_files()
    table = nx.checkpoints.restore(folder / "table", axis_resources={"rows": ("data", "model")}, mesh=mesh)
    share = (bytes_of_files() - before) / table.nbytes
    check_blocks(table.data % 2**12, noise() % 2**12)
    return [nx.checkpoints.names(folder / "of two")["params/w"], str(have["params"]["w"].sharding.spec), share]


def noise():
    return np.random.default_rng(0).integers(0, 2**32, (512, 512), np.uint32)  # which does not compress


def bytes_of_files():
    """The bytes that this process has read from files, of those that orbax reads."""
    import tensorstore

    metrics = tensorstore.experimental_collect_matching_metrics("/tensorstore/kvstore/file/bytes_read")
    return sum(value["value"] for metric in metrics for value in metric["values"])


def worker():
    parser = argparse.ArgumentParser()
    for name in ("devices", "processes", "process"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--coordinator")
    parser.add_argument("--report", type=Path)
    parser.add_argument(
        "--schedule", choices=SCHEDULES, help="run a pipeline, and collectives in two levels, instead of the checks"
    )
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", options.devices)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = options.coordinator
    jax.distributed.initialize(address, options.processes, options.process, coordinator_bind_address=address)
    assert jax.device_count() == 8
    if options.schedule:
        order = None if options.schedule in ("gpipe", "interleaved") else INTERLEAVED
        ran = check_pipeline(options.schedule, mesh_of((4, 2), ("stage", "data"), order=order))
        levels = check_levels(mesh_of((options.processes, -1), ("dcn", "ici")))
        (options.report / str(options.process)).write_text(json.dumps([ran, levels]))
        return
    checks = {name.removeprefix("worker_"): f for name, f in globals().items() if name.startswith("worker_")}
    report = {name: check() for name, check in checks.items()} | {"checkpoints": check_checkpoints(options.report)}
    (options.report / str(options.process)).write_text(json.dumps(report))


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What the checks of both processes returned."""
    folder = tmp_path_factory.mktemp("reports")
    nx.checkpoints.save(folder / "of one", checkpointed(mesh_of((8,), ("data",)), {"rows": "data"}))
    table = nx.shard(nx.named(noise(), ["rows", "columns"]), {"rows": "data"}, mesh_of((8,), ("data",)))
    nx.checkpoints.save(folder / "table", table)
    run_two(__file__, "--report", folder)
    return [json.loads((folder / str(number)).read_text()) | {"folder": folder} for number in range(2)]


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_every_process_brings_its_part_in_every_layout(reports):
    for report in reports:
        assert report["input"] == {
            "batch across": [8, 6],
            "k across": [16, 3],
            "both mesh axes": [8, 6],
            "both, reversed": [8, 6],
            "one, within": [16, 6],
            "not mapped": [16, 6],
            "in steps": [8, 6],
            "interleaved": [8, 6],
            "explicit": [8, 6],
        }


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_parts_of_trees(reports):
    for report in reports:
        assert report["trees"] == {"x": "float32", "y": "int32", "flag": "bool", "rate": "float32"}


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_programs_across_processes_ran(reports):
    assert [report["programs"] for report in reports] == ["explicit"] * 2  # the last layout
    assert [report["host_values"] for report in reports] == [16] * 2
    assert [report["collectives"] for report in reports] == ["equal"] * 2
    assert [report["pipelines"] for report in reports] == [["gpipe", "zero_bubble"]] * 2


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pipelines_and_two_levels_over_four_processes(schedule, tmp_path):
    """Each stage is a process, or a half of the stages is on two of them; the fast level of a collective stays within a process."""
    run_together(4, __file__, "--report", tmp_path, "--schedule", schedule)
    for number in range(4):
        ran, levels = json.loads((tmp_path / str(number)).read_text())
        assert ran == schedule
        assert levels == [["all-gather", 1], ["all-reduce", 4], ["reduce-scatter", 1]]


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_an_array_of_many_processes_shows_its_type(reports):
    for report in reports:
        assert report["display"]["repr"] == "NamedArray(f32[]{batch:16@data, k:6@model}, values on other processes)"
        assert report["display"]["html"]
        assert report["display"]["replicated"].startswith("NamedArray(f32[]{batch:16, k:6}")
        assert "spans non-addressable" in report["display"]["asarray"]


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_errors_of_a_process(reports):
    for report in reports:
        assert "passed to device_put is not the" in report["errors"].pop("differ")  # JAX's own
        assert report["errors"] == {
            "odd": "AxisSizeError: from_process_local: axis 'batch' of the array, f32[7,6], has local size 7 on this "
            "process, which holds 2 of its 4 blocks over mesh axes ('data',); the local size must be a multiple of 2. See "
            "nx.process_entries.",
            "other": "AxisSizeError: from_process_local: axis 'batch' of the array, f32[6,6], has local size 6; of the size "
            "16 in global_sizes, this process must pass 8 (2 of 4 blocks over mesh axes ('data',)), or all. See "
            "nx.process_entries.",
            "unmapped": "AxisSizeError: from_process_local: axis 'k' of the array, f32[16,6], has local size 6; of the size "
            "12 in global_sizes, this process must pass all. See nx.process_entries.",
            "shared": "MeshError: from_process_local: axis 'batch' of the array, f32[16,6], is sharded over mesh axes ('a', "
            "'b'), and some processes share only a part of its 4 blocks; the local size does not determine the global size. "
            "Pass its size in global_sizes, and the full axis as data.",
            "shared part": "AxisSizeError: from_process_local: axis 'batch' of the array, f32[12,6], has local size 12; of "
            "the size 16 in global_sizes, this process must pass all. See nx.process_entries.",
            "global": "AxisMappingError: from_process_local: the array, f32[]{batch:16@data, k:6}, is a multi-process array "
            "already. Pass the local data of this process; to reshard a global array, use nx.shard.",
        }


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_two_processes_read_what_one_has_written_and_one_what_two_have(reports):
    for report in reports:
        names, spec, share = report["checkpoints"]
        assert (names, spec) == ({"rows": 16, "columns": 2}, "P(None, ('model', 'data'), None)")
        assert 0.45 < share < 0.6  # the half of the table, and what says where it is
    mesh = mesh_of((2, 4))
    want = checkpointed(mesh, {"columns": "data"})
    have = nx.checkpoints.restore(reports[0]["folder"] / "of two", want, axis_resources={"columns": "data"}, mesh=mesh)
    assert have["params"]["w"].sharding.spec == P(None, None, "data")
    jax.tree.map(np.testing.assert_array_equal, have, want)


# --- one process ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", LAYOUTS)
def test_in_one_process_the_part_is_the_whole(label):
    mesh, resources = LAYOUTS[label]
    mesh = mesh_of(*mesh)
    np.testing.assert_array_equal(nx.process_entries("batch", 16, resources, mesh), np.arange(16))
    array = nx.from_process_local(WHOLE, ["batch", "k"], resources, mesh, {"k": 6})
    assert array.sharding.is_equivalent_to(placement(mesh, resources), 2)
    np.testing.assert_array_equal(np.asarray(array.data), WHOLE)


def test_the_mesh_of_the_context():
    with jax.set_mesh(mesh_of((4, 2), kind=AxisType.Explicit)):
        array = nx.from_process_local(WHOLE, ["batch", ...], {"batch": "data"})
        assert array.sharding.spec == P("data", None)
        assert nx.process_entries("batch", 16, {"batch": "data"}).size == 16


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda mesh: nx.from_process_local(WHOLE[:6], ["batch", "k"], {"batch": "data"}, mesh),
            AxisSizeError,
            "from_process_local: axis 'batch' of the array, f32[6,6], has local size 6 on this process, which holds 4 of its "
            "4 blocks over mesh axes ('data',); the local size must be a multiple of 4. See nx.process_entries.",
        ),
        (
            lambda mesh: nx.from_process_local(WHOLE, ["batch", "k"], {"batch": "data"}, mesh, {"batch": 18}),
            AxisSizeError,
            "from_process_local: axis 'batch' of size 18 does not divide over mesh axes ('data',), 4 devices in total. Use a "
            "size that is a multiple of 4, or map 'batch' to fewer devices in axis_resources.",
        ),
        (
            lambda mesh: nx.from_process_local(WHOLE, ["batch", "k"], {"batch": "data"}, mesh, {"bacth": 16}),
            AxisMappingError,
            "from_process_local: global_sizes gives 'bacth' the size 16, but no array has that axis; the axes are 'batch', "
            "'k'. Did you mean 'batch'?",
        ),
        (
            lambda mesh: nx.from_process_local({"x": WHOLE}, {"x": ["batch"]}, {"batch": "data"}, mesh),
            AxisMappingError,
            "from_process_local: the axis mapping ['batch'] asserts 1 axes, but the array['x'], f32[16,6] has 2.",
        ),
        (
            lambda mesh: nx.from_process_local(WHOLE, ["batch", "k"], {"batch": "data", "k": "data"}, mesh),
            PlacementConflictError,
            "from_process_local: axes 'batch' and 'k' meet in one value, but both are mapped to mesh axis 'data'",
        ),
        (
            lambda mesh: nx.from_process_local(WHOLE, ["batch", "k"], {"batch": "dat"}, mesh),
            MeshError,
            "from_process_local: axis_resources maps 'batch' to mesh axis 'dat', which the mesh does not have",
        ),
        (
            lambda mesh: nx.from_process_local(WHOLE, ["batch", "k"], {"batch": "data"}),
            MeshError,
            "from_process_local: there is no mesh. Pass mesh=jax.make_mesh(...), or set a mesh with jax.set_mesh(mesh); "
            "`with mesh:` does not set one.",
        ),
        (
            lambda mesh: nx.from_process_local(WHOLE, ["batch", "k"], {"batch": "data"}, mesh.abstract_mesh),
            MeshError,
            "from_process_local: the mesh {'data': 4, 'model': 2} is an AbstractMesh, which has no devices. Pass "
            "mesh=jax.make_mesh(...), or use nx.interop.abstract if types are enough.",
        ),
        (
            lambda mesh: nx.process_entries("batch", 18, {"batch": "data"}, mesh),
            AxisSizeError,
            "process_entries: axis 'batch' of size 18 does not divide over mesh axes ('data',)",
        ),
        (
            lambda mesh: nx.shard(nx.named(WHOLE, ["batch", "k"]), {"batch": "data"}, mesh.abstract_mesh),
            MeshError,
            "shard: the mesh {'data': 4, 'model': 2} is an AbstractMesh, which has no devices",
        ),
        (
            lambda mesh: nx.xmap(
                lambda x: nx.from_process_local(WHOLE, ["batch", "k"], {}, mesh) + x, axis_resources={"k": "data"}, mesh=mesh
            )(nx.named(jnp.ones(4), ["k"])),
            AxisResourceError,
            "from_process_local: this function cannot be called inside a mapped function. Call it before the mapped function.",
        ),
    ],
)
def test_error_messages(call, error, message):
    with pytest.raises(error) as info:
        call(mesh_of((4, 2)))
    assert str(info.value).startswith(message)


def test_bytes_per_device():
    mesh = mesh_of((4, 2))
    x = nx.named(make.ones((8, 6)), ["batch", "k"])
    assert bytes_per_device({"x": x, "n": np.zeros(3, np.int16), "s": 2.0}) == 8 * 6 * x.itemsize + 6 + x.itemsize
    assert bytes_per_device(nx.shard(x, {"batch": "data"}, mesh)) == 2 * 6 * x.itemsize
    assert bytes_per_device(nx.interop.abstract(x, {"batch": "data", "k": "model"}, mesh.abstract_mesh)) == 2 * 3 * x.itemsize
    assert bytes_per_device(()) == 0


if __name__ == "__main__":
    worker()
