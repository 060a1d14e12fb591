"""Programs are traced once, compiled once and always the same; and lowered for machines that are not there.

A body counts how often Python runs it. As a program, this file compiles a corpus of mapped functions with a persistent cache.
"""

import functools
import gc
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.distributed import bytes_per_device
from namedax.errors import MeshError
from tests import make
from tests.harness import make_mesh, said

ROOT = Path(__file__).parents[2]
IN_AXES = (["batch", "k"], ["k", "out"])
RESOURCES = {"batch": "x", "out": "y"}
X = make.asarray(np.random.default_rng(0).normal(size=(8, 4)), float)
W = make.asarray(np.random.default_rng(1).normal(size=(4, 6)), float)
WANT = np.sum((np.asarray(X) @ np.asarray(W)) ** 2, 0)


class Counted:
    """A body, a sum of squares over `batch`, that counts its traces."""

    def __init__(self):
        self.traces = 0

    def __call__(self, x, w):
        self.traces += 1
        return nx.sum(nx.dot(x, w, "k") ** 2, "batch")

    def since(self):
        """The number of traces since the last call of this method."""
        traces, self.traces = self.traces, 0
        return traces


@pytest.fixture
def body():
    return Counted()


@pytest.fixture(params=["auto", "explicit"])
def mesh(request):
    return make_mesh((4, 2), request.param)


@pytest.fixture
def compiled():
    """The number of programs that XLA compiled since the last call."""
    events = []

    def listen(event, seconds, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(event)

    def since():
        count = len(events)
        events.clear()
        return count

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield since
    jax.monitoring.unregister_event_duration_listener(listen)


def wrap(body, mesh, **options):
    options = {"axis_resources": RESOURCES, "mesh": mesh, **options}
    return nx.xmap(body, IN_AXES, ["out"], **options)


# --- traced once ----------------------------------------------------------------------------------------------------


def test_equal_calls_trace_and_compile_once(body, mesh, compiled):
    f = wrap(body, mesh)
    np.testing.assert_allclose(f(X, W), WANT, rtol=1e-5)
    assert body.since() == 1
    assert compiled() > 0
    for x in (X, X + 0, np.asarray(X)):
        np.testing.assert_allclose(f(x, W), WANT, rtol=1e-5)
    compiled()  # `X + 0`
    np.testing.assert_allclose(f(X, W), WANT, rtol=1e-5)
    assert (body.since(), compiled()) == (0, 0)


@pytest.mark.fast(0)
def test_wrapping_again_traces_nothing(body, mesh, compiled):
    wrap(body, mesh)(X, W)
    assert body.since() == 1
    compiled()
    same = [
        wrap(body, mesh),
        wrap(body, jax.sharding.Mesh(mesh.devices.copy(), mesh.axis_names, axis_types=mesh.axis_types)),
        wrap(body, mesh, axis_resources={"out": ("y",), "batch": "x"}),  # in another order, written in another way
        nx.xmap(body, [["batch", "k"], ["k", "out"]], ["out"], axis_resources=RESOURCES, mesh=mesh),
        nx.xmap(body, out_axes=["out"], in_axes=IN_AXES, axis_resources=RESOURCES, mesh=mesh, donate_argnums=()),
    ]
    for f in same:
        f(X, W)
        gc.collect()
    assert (body.since(), compiled()) == (0, 0)


@pytest.mark.fast(0)
def test_what_differs_is_traced_once_more(body, mesh, compiled):
    variants = {
        "as it is": (wrap(body, mesh), X, W),
        "another shape": (wrap(body, mesh), jnp.concatenate([X, X]), W),
        "another type": (wrap(body, mesh), X.astype(jnp.bfloat16), W),
        "another assignment": (wrap(body, mesh, axis_resources={"batch": "x"}), X, W),
        "the mesh axes the other way": (wrap(body, mesh, axis_resources={"batch": ("y", "x")}), X, W),
        "another mesh": (wrap(body, make_mesh((8, 1))), X, W),
        "nothing mapped": (wrap(body, mesh, axis_resources={}), X, W),
        "other names": (nx.xmap(body, (["batch", "k"], ["k", "o"]), ["o"], axis_resources={"batch": "x"}, mesh=mesh), X, W),
        "the partitioner's": (wrap(body, mesh, partitioning="auto"), X, W),
        "in steps": (wrap(body, mesh, axis_resources={"batch": ("x", nx.SerialLoop(2))}), X, W),
    }
    for f, x, w in variants.values():
        f(x, w)
    counts = {}
    body.since()
    compiled()
    for label, (f, x, w) in variants.items():
        f(x, w)
        counts[label] = (body.since(), compiled())
    assert counts == dict.fromkeys(variants, (0, 0))  # each has its place in the cache, whatever was called between


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("change", "traces"),
    [
        ({}, 0),
        ({"axis_resources": {"batch": "x"}}, 1),
        ({"axis_resources": {"batch": ("x", "y")}}, 1),
        ({"axis_resources": {}}, 1),
        ({"partitioning": "auto"}, 1),
        ({"axis_resources": {"batch": ("x", nx.SerialLoop(2)), "out": "y"}}, 1),
        ({"mesh": make_mesh((2, 4)), "axis_resources": {"batch": "x"}}, 1),
    ],
    ids=str,
)
def test_another_option_is_one_more_trace(body, change, traces):
    mesh = make_mesh((4, 2))
    wrap(body, mesh)(X, W)
    body.since()
    for _ in range(2):
        np.testing.assert_allclose(wrap(body, **{"mesh": mesh, **change})(X, W), WANT, rtol=1e-5)
    assert body.since() == traces


@pytest.mark.parametrize("x", [make.ones((16, 4)), make.ones((8, 4), "bfloat16")], ids=["shape", "type"])
def test_another_type_is_one_more_trace(body, mesh, x):
    f = wrap(body, mesh)
    f(X, W)
    body.since()
    for _ in range(2):
        f(x, W)
        f(X, W)
    assert body.since() == 1


def test_other_names_are_one_more_trace(body):
    mesh = make_mesh((4, 2))
    for _ in range(2):
        for out in ("out", "o"):
            f = nx.xmap(body, (["batch", "k"], ["k", out]), [out], axis_resources={"batch": "x"}, mesh=mesh)
            np.testing.assert_allclose(f(X, W), WANT, rtol=1e-5)
    assert body.since() == 2


def test_named_arguments_and_results(body, mesh, compiled):
    """Where the results' axes are not given the body is traced once all the same, and not again."""
    x, w = nx.named(X, IN_AXES[0]), nx.named(W, IN_AXES[1])
    for _ in range(3):
        result = nx.xmap(body, axis_resources=RESOURCES, mesh=mesh)(x, w)
    np.testing.assert_allclose(result.data, WANT, rtol=1e-5)
    assert body.since() == 1
    compiled()
    nx.xmap(body, axis_resources=RESOURCES, mesh=mesh)(nx.named(X, {0: "batch", 1: "k"}), w)
    assert (body.since(), compiled()) == (0, 0)


@pytest.mark.fast(0)
def test_where_the_arrays_live_counts_as_it_does_for_jax(mesh):
    """A placed array is another type to `jax.jit`, once; so it is here."""

    def traces(f, body):
        f(X, W)
        counts = []
        for _ in range(2):
            body.since()
            f(jax.device_put(X, NamedSharding(mesh, P("x", None))), W)
            counts.append(body.since())
        return counts

    class Plain(Counted):
        def __call__(self, x, w):
            self.traces += 1
            return jnp.sum((x @ w) ** 2, 0)

    body, plain = Counted(), Plain()
    assert traces(wrap(body, mesh), body) == traces(jax.jit(plain), plain) == [1, 0]


@pytest.mark.fast(0)
def test_within_jax_s_transformations(body, compiled):
    mesh = make_mesh((4, 2))
    f = wrap(body, mesh)
    f(X, W)
    assert body.since() == 1

    def total(x, w):
        return jnp.sum(f(x, w) + wrap(body, mesh)(2 * x, w))

    xs = jnp.stack([X, 2 * X, 3 * X])
    transformed = {
        "jit": jax.jit(f),
        "jit of two": jax.jit(total),
        "grad": jax.grad(total),
        "jit of grad": jax.jit(jax.grad(total)),
        "value_and_grad": jax.jit(jax.value_and_grad(total, argnums=(0, 1))),
        "vmap": lambda x, w: jax.vmap(f, (0, None))(xs, w),
        "jit of vmap": lambda x, w: jax.jit(jax.vmap(f, (0, None)))(xs, w),
        "remat": jax.jit(jax.grad(jax.checkpoint(total))),
        "jvp": lambda x, w: jax.jvp(lambda x: f(x, w), (x,), (x,)),
        "scan": jax.jit(lambda x, w: jax.lax.scan(lambda c, x: (c, f(x, w)), 0.0, xs)[1]),
    }
    counts = {}
    for label, g in transformed.items():
        g(X, W)
        counts[label] = body.since()
    assert counts == dict.fromkeys(transformed, 0)  # the trace of the first call serves them all
    compiled()
    for g in transformed.values():
        g(X, W)
    assert body.since() == 0
    np.testing.assert_allclose(jax.vmap(f, (0, None))(xs, W), [WANT, 4 * WANT, 9 * WANT], rtol=1e-5)


def test_a_second_step_of_training_compiles_nothing(body, mesh, compiled):
    f = nx.xmap(lambda x, w: nx.sum(body(x, w), "out"), IN_AXES, [], axis_resources=RESOURCES, mesh=mesh)

    @jax.jit
    def step(w, x):
        return w - 0.001 * jax.grad(f, argnums=1)(x, w)

    x, w = (jax.device_put(array, NamedSharding(mesh, P())) for array in (X, W))
    w = step(step(w, x), x)  # after the first step the parameters live where the program has put them
    body.since()
    compiled()
    for _ in range(3):
        w = step(w, x)
    assert (body.since(), compiled()) == (0, 0)


def test_a_jitted_helper_is_traced_once_in_a_region():
    traces = []

    @jax.jit
    def helper(x):
        traces.append(dict(x.named_shape))
        return nx.sum(x**2, "k")

    def one(x):
        return helper(x) + helper(2 * x)

    def other(x):
        return helper(x) * 3

    mesh = make_mesh((4, 2))
    first = nx.xmap(one, (["batch", "k"],), ["batch"], axis_resources={"batch": "x"}, mesh=mesh)
    second = nx.xmap(other, (["batch", "k"],), ["batch"], axis_resources={"batch": "x"}, mesh=mesh)
    third = nx.xmap(one, (["batch", "k"],), ["batch"], axis_resources={"batch": "y"}, mesh=mesh)
    counts = []
    for call in (first, first, second, second, third, first, third):
        call(X)
        counts.append(len(traces))
    assert counts == [1, 1, 2, 2, 3, 3, 3]  # once for each program and assignment
    for _ in range(2):
        helper(nx.named(X, ["batch", "k"]))
    assert len(traces) == 4  # and once outside of all
    assert traces == [{"batch": 8, "k": 4}] * 4


def test_nested_functions():
    outer_traces, inner_traces = [], []

    def inner(x):
        inner_traces.append(1)
        return nx.sum(x, "k")

    def outer(x):
        outer_traces.append(1)
        return nx.xmap(inner, axis_resources={"k": "y"})(x) + nx.xmap(inner, axis_resources={"k": "y"})(2 * x)

    mesh = make_mesh((4, 2))
    for _ in range(3):
        f = nx.xmap(outer, (["batch", "k"],), ["batch"], axis_resources={"batch": "x"}, mesh=mesh)
        np.testing.assert_allclose(f(X), 3 * np.sum(X, 1), rtol=1e-5)
    assert len(outer_traces) == 1
    assert len(inner_traces) == 1  # for both calls together


@pytest.mark.fast(0)
def test_loops_and_their_gradients(body):
    mesh = make_mesh((4, 2))
    f = wrap(body, mesh, axis_resources={"batch": ("x", nx.SerialLoop(2)), "out": "y"})
    gradient = jax.jit(jax.grad(lambda x, w: jnp.sum(f(x, w))))
    f(X, W)
    assert body.since() == 1  # not once for each step
    for _ in range(2):
        gradient(X, W)
        f(X, W)
        jax.grad(lambda x, w: jnp.sum(f(x, w)))(X, W)
    assert body.since() == 0


@pytest.mark.fast(0)
def test_the_mesh_of_the_context_and_that_of_the_argument_share_no_trace(body, mesh):
    f = wrap(body, None)
    with jax.set_mesh(mesh):
        for _ in range(2):
            f(X, W)
        assert body.since() == 1
        for _ in range(2):
            wrap(body, mesh)(X, W)
        assert body.since() == 1
    for _ in range(2):
        wrap(body, mesh)(X, W)
    assert body.since() == 1


def test_static_arguments_and_partials():
    traces = []

    def power(x, n):
        traces.append(n)
        return nx.sum(x**n, "batch")

    mesh = make_mesh((4, 2))
    partials = {n: functools.partial(power, n=n) for n in (2, 3)}  # kept: to jax.jit, too, another one is another function
    for _ in range(2):
        for n in (2, 3):
            options = {"axis_resources": {"batch": "x"}, "mesh": mesh}
            nx.xmap(power, (["batch", "k"],), ["k"], static_argnums=1, **options)(X, n)
            nx.xmap(partials[n], (["batch", "k"],), ["k"], **options)(X)
    assert sorted(traces) == [2, 2, 3, 3]


# --- the same program always, so that a persistent cache finds it ------------------------------------------------------


def corpus():
    """Mapped functions with all kinds of communication, and gradients of some, with their arguments."""
    x = nx.named(jnp.arange(8.0 * 4 * 8).reshape(8, 4, 8) / 100, ["a", "b", "c"])
    table = nx.named(x.data[:, :, 0], ["a", "b"])
    programs = {
        "reductions": lambda x: (nx.sum(x, ("a", "b")), nx.mean(x, ("c", "a", "b")), nx.std(x, ("c", "a")), nx.max(x, "a")),
        "softmax": lambda x: nx.nn.softmax(x, ("a", "c")) + nx.logsumexp(x, ("c", "b")),
        "einsum": lambda x: nx.einsum("{a,b,c},{a2:a,b,c},{b,c}->{a,a2}", x, x, nx.sum(x, "a")),
        "scatter": lambda x: nx.einsum("{a,b,c},{q:a,b,c}->{q,c}", x, x),
        "outer": lambda x: nx.sum(x, ("a", "b")) * nx.sum(x, ("b", "c")) + nx.sum(x, ("a", "c")),
        "sort": lambda x: (nx.sort(x, "a"), nx.cumsum(x, "c"), nx.roll(x, 3, "a"), nx.flip(x, "c")),
        "rename": lambda x: nx.rename(x, {"a": "c", "c": "a"}) + x,
        "gather": lambda x: x[{"a": jnp.array([1, 5, 2])}],
        "updates": lambda x: x.at["a", 3].set(0.0).at[{"c": jnp.array([1, 5, 1])}].add(1.0),
        "closure": lambda x: x * table + nx.sum(x * table, ("a", "c")),
        "random": lambda x: x * nx.random.normal(jax.random.key(0), named_shape={"c": 8, "a": 8}),
        "tree": lambda x: {"u": nx.sum(x, "a"), "v": nx.sum(x, ("b", "c")), "w": x},
        "nested": lambda x: nx.xmap(lambda y: nx.sum(y, "c"), axis_resources={})(x),
        "numpy": jax.checkpoint(lambda x: nx.sum(nx.numpy.sin(x) ** 2, ("a", "c"))),
    }
    assignments = {
        "two names": ({"a": ("z", "x"), "b": "y"}, "auto"),
        "three names": ({"a": "x", "b": "y", "c": "z"}, "auto"),
        "explicit": ({"a": "x", "c": ("z", "y")}, "explicit"),
        "in steps": ({"a": ("x", nx.SerialLoop(2)), "c": ("z", "y")}, "auto"),
    }
    kinds = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}
    for placed, (resources, kind) in assignments.items():
        mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(kinds[kind],) * 3)
        for label, program in programs.items():
            if placed == "in steps" and label not in ("reductions", "softmax", "closure", "tree", "numpy"):
                continue
            mapped = nx.xmap(program, axis_resources=resources, mesh=mesh)
            yield f"{label}, {placed}", jax.jit(mapped), x
            if placed in ("two names", "in steps"):

                def total(x, mapped=mapped):
                    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(mapped(x)))

                yield f"gradient of {label}, {placed}", jax.jit(jax.grad(total)), x


_COMPILED = ("reductions", "einsum", "softmax", "closure")  # compiling takes longer than lowering


def report(path):
    """Writes what this process lowers and compiles, and what the cache knows of it."""
    events = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    texts, cached = {}, {}
    for label, program, x in corpus():
        lowered = program.lower(x)
        texts[label] = hashlib.sha256(lowered.as_text().encode()).hexdigest()
        if label.removeprefix("gradient of ").startswith(_COMPILED):
            events.clear()
            lowered.compile()
            cached[label] = [events.count(f"/jax/compilation_cache/cache_{what}") for what in ("hits", "misses")]
    Path(path).write_text(json.dumps({"texts": texts, "cached": cached}))


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """The reports of two processes, one after the other, that hash strings differently and share a cache; and the cache's files."""
    folder = tmp_path_factory.mktemp("processes")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    environment |= {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    reports, files = [], []
    for seed in ("1", "2"):
        command = [sys.executable, __file__, str(folder / seed)]
        options = {"capture_output": True, "encoding": "utf-8", "timeout": 240}
        run = subprocess.run(command, env={**environment, "PYTHONHASHSEED": seed}, **options)
        assert run.returncode == 0, run.stderr[-4000:]
        reports.append(json.loads((folder / seed).read_text()))
        files.append(sorted(p.name for p in (folder / "cache").iterdir() if not p.name.endswith("-atime")))
    return reports, files


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_programs_do_not_depend_on_the_process(two_processes):
    (first, second), _ = two_processes
    assert len(first["texts"]) > 50
    assert [label for label in first["texts"] if first["texts"][label] != second["texts"][label]] == []
    assert len(set(first["texts"].values())) == len(first["texts"])  # and differ from one another


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_persistent_cache_knows_the_programs(two_processes):
    (first, second), (files, later) = two_processes
    assert len(first["cached"]) > 15
    assert first["cached"] == {label: [0, 1] for label in first["cached"]}  # a miss for each
    assert second["cached"] == {label: [1, 0] for label in first["cached"]}  # a hit for each
    assert len(files) >= len(first["cached"])
    assert files == later


# --- lowered for machines that are not there ----------------------------------------------------------------------------

KINDS = {"default": {}, "auto": {"axis_types": (AxisType.Auto,) * 2}, "explicit": {"axis_types": (AxisType.Explicit,) * 2}}
LARGE_AXES = (["inputs", "hidden"], ["hidden"], ["batch", "inputs"])
LARGE_SHAPES = ((512, 8192), (8192,), (65536, 512))
LARGE_RESOURCES = {"batch": "data", "hidden": "model"}
LARGE = tuple(jax.ShapeDtypeStruct(shape, "float32") for shape in LARGE_SHAPES)


def loss(w, v, x):
    return nx.mean(nx.dot(nx.nn.relu(nx.dot(x, w, "inputs")), v, "hidden") ** 2, "batch")


def large_mesh(kind="default", shape=(64, 64)):
    """A mesh of 4,096 devices that no one has here."""
    return AbstractMesh(shape, ("data", "model"), **KINDS[kind])


def large(mesh, **options):
    return nx.xmap(loss, LARGE_AXES, [], **{"axis_resources": LARGE_RESOURCES, "mesh": mesh, **options})


def named_types():
    """The arguments as named arrays without values."""
    return jax.eval_shape(lambda *arrays: tuple(nx.named(a, axes) for a, axes in zip(arrays, LARGE_AXES, strict=True)), *LARGE)


def check_large(lowered, placed=False):
    """The program is for 4,096 devices, with the blocks of one in the body, and all-reduces among 64 devices each."""
    text = lowered.as_text()
    assert '<["data"=64, "model"=64]>' in text
    assert "num_partitions = 4096" in text or not placed  # JAX counts the devices of arguments only
    assert "sdy.manual_computation" in text
    assert re.search(r"dot_general.*\(tensor<1024x512xf32>, tensor<512x128xf32>\) -> tensor<1024x128xf32>", text)
    groups = re.findall(r'"stablehlo.all_reduce".*?replica_groups = dense<[^>]*> : tensor<(\d+)x(\d+)xi64>', text)
    if "replica_groups = dense" in text:  # there are other ways to write them
        assert groups == [("64", "64")] * 2
    assert text.count("stablehlo.all_reduce") == 2
    assert not re.search("all_gather|all_to_all|reduce_scatter|collective_permute", text)


@pytest.mark.parametrize("kind", KINDS)
class TestAbstractMesh:
    def test_arguments_by_position(self, kind):
        check_large(large(large_mesh(kind)).lower(*LARGE))

    def test_named_arguments(self, kind):
        check_large(nx.xmap(loss, axis_resources=LARGE_RESOURCES, mesh=large_mesh(kind)).lower(*named_types()))

    def test_arguments_with_a_placement(self, kind):
        mesh = large_mesh(kind)
        types = nx.interop.abstract(named_types(), LARGE_RESOURCES, mesh)
        assert [repr(t) for t in types] == [
            "NamedArray(f32[]{inputs:512, hidden:8192@model})",
            "NamedArray(f32[]{hidden:8192@model})",
            "NamedArray(f32[]{batch:65536@data, inputs:512})",
        ]
        assert bytes_per_device(types) == 4 * (512 * 128 + 128 + 1024 * 512)
        lowered = nx.xmap(loss, axis_resources=LARGE_RESOURCES, mesh=mesh).lower(*types)
        check_large(lowered, placed=True)
        arguments = re.search(r"func.func public @main\((.*)\)", lowered.as_text())[1]
        assert re.findall(r"sdy.sharding<@mesh, (\[.*?\])>", arguments) == ['[{}, {"model"}]', '[{"model"}]', '[{"data"}, {}]']

    def test_trace_and_eval_shape(self, kind):
        f = large(large_mesh(kind))
        assert f.eval_shape(*LARGE).shape == ()
        assert f.trace(*LARGE).out_info.shape == ()
        assert "shard_map" in str(f.trace(*LARGE).jaxpr)

    @pytest.mark.parametrize("platform", ["cpu", "tpu", "cuda"])
    def test_for_another_platform(self, kind, platform):
        check_large(large(large_mesh(kind)).trace(*LARGE).lower(lowering_platforms=(platform,)))

    def test_gradients(self, kind):
        f = nx.xmap(loss, axis_resources=LARGE_RESOURCES, mesh=large_mesh(kind))
        types = nx.interop.abstract(named_types(), LARGE_RESOURCES, large_mesh(kind))
        lowered = jax.jit(jax.grad(f, argnums=(0, 1))).trace(*types).lower(lowering_platforms=("tpu",))
        text = lowered.as_text()
        assert "num_partitions = 4096" in text
        # Of the activations over the model axis, and of two parameters over the data axis; the loss itself is not asked for.
        assert text.count('"stablehlo.all_reduce"') == 3
        assert "tensor<512x128xf32>) -> tensor<512x128xf32>" in text

    @pytest.mark.fast(0)
    def test_accumulated_in_steps(self, kind):
        resources = {"batch": ("data", nx.SerialLoop(4)), "hidden": "model"}
        f = nx.xmap(loss, axis_resources=resources, mesh=large_mesh(kind))
        types = nx.interop.abstract(named_types(), resources, large_mesh(kind))
        text = f.lower(*types).as_text()
        assert "num_partitions = 4096" in text
        assert "stablehlo.while" in text
        assert re.search(r"dot_general.*\(tensor<256x512xf32>, tensor<512x128xf32>\)", text)
        text = jax.jit(jax.grad(f)).trace(*types).lower(lowering_platforms=("tpu",)).as_text()
        assert "num_partitions = 4096" in text
        assert "stablehlo.while" in text

    def test_the_partitioner_s_program(self, kind):
        text = large(large_mesh(kind), partitioning="auto").lower(*LARGE).as_text()
        assert '<["data"=64, "model"=64]>' in text
        assert "manual_computation" not in text
        assert re.search(r'sharding.*\[\{"data"[^]]*\}', text)

    def test_without_jit(self, kind):
        check_large(large(large_mesh(kind), jit=False).lower(*LARGE))

    @pytest.mark.fast(0)
    def test_the_mesh_of_the_context(self, kind):
        mesh = large_mesh(kind)
        f = nx.xmap(loss, LARGE_AXES, [], axis_resources=LARGE_RESOURCES)
        with jax.sharding.use_abstract_mesh(mesh):
            check_large(f.lower(*LARGE))
            check_large(f.trace(*LARGE).lower(lowering_platforms=("tpu",)))
            assert f.eval_shape(*LARGE).shape == ()
            gradient = jax.jit(jax.grad(f)).trace(*LARGE).lower(lowering_platforms=("tpu",))
            assert '<["data"=64, "model"=64]>' in gradient.as_text()
            types = nx.interop.abstract(named_types(), LARGE_RESOURCES)
        assert types[0].sharding.mesh == mesh

    def test_errors_come_while_it_is_lowered(self, kind):
        with pytest.raises(MeshError, match="'batch' to mesh axis 'dat', which the mesh does not have"):
            large(large_mesh(kind), axis_resources={"batch": "dat"}).lower(*LARGE)

    @pytest.mark.parametrize("options", [{}, {"jit": False}, {"partitioning": "auto"}], ids=str)
    def test_a_call_needs_devices(self, kind, options):
        arrays = [np.ones(shape, np.float32) for shape in ((4, 64), (64,), (64, 4))]
        message = (
            "xmap: the mesh of loss is an AbstractMesh {'data': 64, 'model': 64}, which has no devices to compute on. "
            "Inspect its program with loss.lower(...), .trace(...) or .eval_shape(...), or call it with "
            "mesh=jax.make_mesh(...) or with arrays on a mesh that has devices."
        )
        for args in (arrays, [jnp.asarray(array) for array in arrays]):
            with pytest.raises(MeshError) as info:
                large(large_mesh(kind), **options)(*args)
            assert said(info.value) == message
        if options:
            return
        with jax.sharding.use_abstract_mesh(large_mesh(kind)), pytest.raises(MeshError) as info:
            nx.xmap(loss, LARGE_AXES, [], axis_resources=LARGE_RESOURCES)(*arrays)
        assert said(info.value) == message
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError)) as info:  # an error of JAX's, with a note
            jax.grad(large(large_mesh(kind)))(*map(jnp.asarray, arrays))
        assert info.value.__notes__[:1] == ["namedax: " + message.removeprefix("xmap: ")]


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_the_program_for_an_abstract_mesh_is_that_for_the_real_one(kind):
    abstract = AbstractMesh((4, 2), ("x", "y"), **KINDS[kind])
    types = (jax.ShapeDtypeStruct((8, 4), X.dtype), jax.ShapeDtypeStruct((4, 6), X.dtype))
    body = Counted()
    have, want = (wrap(body, mesh).lower(*types).as_text() for mesh in (abstract, make_mesh((4, 2), kind)))
    assert have.replace("num_partitions = 1 ", "num_partitions = 8 ") == want  # the types have no placement


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_arrays_on_a_real_mesh_bring_the_devices(kind):
    mesh = make_mesh((4, 2), kind)
    f = wrap(Counted(), mesh.abstract_mesh)
    x = jax.device_put(X, NamedSharding(mesh, P("x", None)))
    np.testing.assert_allclose(f(x, W), WANT, rtol=1e-5)
    lowered = f.lower(x, W)
    np.testing.assert_allclose(lowered.compile()(x, W), WANT, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x, w: jnp.sum(f(x, w))))(x, W), 2 * X @ W @ W.T, rtol=1e-4)


def test_the_mesh_of_many_axes():
    mesh = AbstractMesh((8, 16, 32), ("a", "b", "c"))
    f = nx.xmap(lambda x: nx.sum(x, "n"), (["n", "m"],), ["m"], axis_resources={"n": ("a", "c"), "m": "b"}, mesh=mesh)
    text = f.lower(jax.ShapeDtypeStruct((1024, 64), "float32")).as_text()
    assert '<["a"=8, "b"=16, "c"=32]>' in text
    assert text.count('"stablehlo.all_reduce"') == 1
    if "replica_groups = dense" in text:
        assert re.findall(r"replica_groups = dense<[^>]*> : tensor<(\d+x\d+)xi64>", text) == ["16x256"]


if __name__ == "__main__":
    report(sys.argv[1])
