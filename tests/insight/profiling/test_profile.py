"""`nx.profile`: measured times by line and operation. Traces written by hand have times that are divided by hand."""

import dataclasses
import functools
import json
import pathlib
import sys
import time
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, MeshError
from namedax.insight.analysis.records import Collective, Operation
from namedax.insight.profiling.events import STEP
from namedax.insight.profiling.instructions import parse
from namedax.insight.profiling.profiler import join
from tests.harness import said

MACHINE = nx.machines.Machine(
    flops={"float32": 1e10}, memory=1e9, bandwidth=1e10, links={...: nx.machines.Link(1e9, 1e-5, "switch")}, name="mine"
)
HERE = pathlib.Path(__file__).name
US = 1e-6


def mesh_of(**sizes):
    count = int(np.prod(list(sizes.values())))
    kinds = (jax.sharding.AxisType.Auto,) * len(sizes)
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), kinds, devices=jax.devices()[:count])


# --- traces written by hand -----------------------------------------------------------------------------------------------------

# Two devices. A loop of two steps with a fusion of a product and a tanh, and an all-reduce of its result; then a copy of XLA's own.
TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=2

FileNames
1 "/home/me/model.py"
2 "{jax}"

FunctionNames
1 "f"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=12 end_line=12 column=0 end_column=0}}
2 {{file_name_id=1 function_name_id=1 line=20 end_line=20 column=0 end_column=0}}
3 {{file_name_id=2 function_name_id=1 line=7 end_line=7 column=0 end_column=0}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=1}}
3 {{file_location_id=3 parent_frame_id=2}}

%fused (p0: f32[8,4], p1: f32[4,4]) -> f32[8,4] {{
  %p0 = f32[8,4]{{1,0}} parameter(0)
  %p1 = f32[4,4]{{1,0}} parameter(1)
  %dot.1 = f32[8,4]{{1,0}} dot(%p0, %p1), lhs_contracting_dims={{1}}, metadata={{op_name="f/nx.dot{{k}}/dot_general" stack_frame_id=3}}
  ROOT %tanh.1 = f32[8,4]{{1,0}} tanh(%dot.1), metadata={{op_name="jit(f)/nx.xmap{{b:x}}/transpose(jvp(nx.tanh{{}}))/tanh" stack_frame_id=2}}
}}

%body (s: (s32[], f32[8,4], f32[4,4])) -> (s32[], f32[8,4], f32[4,4]) {{
  %s = (s32[], f32[8,4]{{1,0}}, f32[4,4]{{1,0}}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[8,4]{{1,0}} get-tuple-element(%s), index=1
  %w = f32[4,4]{{1,0}} get-tuple-element(%s), index=2
  %fusion.1 = f32[8,4]{{1,0}} fusion(%x, %w), kind=kLoop, calls=%fused
  %sum.1 = f32[8,4]{{1,0}} all-reduce{start}(%fusion.1), replica_groups={{{{0,1}}}}, metadata={{op_name="f/nx.sum{{b}}/psum" stack_frame_id=2}}
  ROOT %t = (s32[], f32[8,4]{{1,0}}, f32[4,4]{{1,0}}) tuple(%i, %sum.1, %w)
}}

ENTRY %main (a: f32[8,4], b: f32[4,4]) -> f32[8,4] {{
  %a = f32[8,4]{{1,0}} parameter(0)
  %b = f32[4,4]{{1,0}} parameter(1)
  %c = s32[] constant(0)
  %t0 = (s32[], f32[8,4]{{1,0}}, f32[4,4]{{1,0}}) tuple(%c, %a, %b)
  %while.1 = (s32[], f32[8,4], f32[4,4]) while(%t0), condition=%cond, body=%body, metadata={{op_name="f/nx.scan{{}}/while" stack_frame_id=2}}
  %y = f32[8,4]{{1,0}} get-tuple-element(%while.1), index=1
  ROOT %copy.1 = f32[8,4]{{1,0}} copy(%y)
}}
"""


def text(start=""):
    return TEXT.format(jax=jax.__file__, start=start)


def operation(kind, names, source, phase="forward", flops=0.0, moved=0, op="nx.dot", trips=2, dtype="float32"):
    return Operation(kind, names, flops, moved, trips, dtype, op, source, phase)


def report(steps=()):
    given = steps or (
        operation("dot_general", ("k",), "model.py:12", flops=3e4),
        operation("tanh", (), "model.py:20", "gradient", moved=10_000, op="nx.tanh"),
        Collective("all-reduce", ("x",), 2, ("b",), 128, 128, 2, "float32", "nx.sum", "model.py:20", "forward"),
    )
    memory = nx.explain(jax.jit(jnp.sin), jnp.ones(3)).memory
    files = {"model.py": "/home/me/model.py"}
    from namedax.insight.analysis.report import Report

    return Report("f", {"x": 2}, {"b": ("x",)}, tuple(given), memory, files=files)


def event(name, start, length, **stats):
    return SimpleNamespace(name=name, start_ns=start * 1e3, duration_ns=length * 1e3, stats=list(stats.items()))


def line(name, *events):
    return SimpleNamespace(name=name, events=events)


def plane(name, *lines):
    return SimpleNamespace(name=name, lines=lines)


def gpu_trace():
    """Microseconds. Device 1 begins the second all-reduce 10 later than device 0, which waits for it."""

    def kernels(fusions, sums):
        compute = [event("loop_fusion_kernel", start, 40, hlo_op="fusion.1", hlo_module="jit_f") for start in fusions]
        sent = [event("ncclAllReduce", start, length, hlo_op="sum.1", hlo_module="jit_f") for start, length in sums]
        other = event("other_kernel", 300, 90, hlo_op="fusion.1", hlo_module="jit_other")
        return line("Stream #7(Compute)", *compute, other), line("Stream #8(NCCL)", *sent)

    ends = event("copy", 200, 6, hlo_op="copy.1", hlo_module="jit_f")
    # XProf's lines and the host's launches repeat what the streams have.
    module = line("XLA Ops", event("fusion.1", 0, 999, hlo_op="fusion.1", hlo_module="jit_f"))
    host = line("python", event(STEP, 0, 250), event("fusion.1", 0, 3, hlo_op="fusion.1", hlo_module="jit_f", device_ordinal=0))
    return SimpleNamespace(
        planes=[
            plane("/host:CPU", host),
            plane("/device:GPU:0", *kernels([0, 60], [(40, 20), (100, 30)]), line("Stream #9(Memcpy)", ends), module),
            plane("/device:GPU:1", *kernels([0, 70], [(40, 20), (110, 20)]), line("Stream #9(Memcpy)", ends), module),
        ]
    )


@pytest.mark.parametrize("start", ["", "-start"])
def test_a_trace_of_two_gpus_is_divided_by_hand(start):
    profile = join(report(), text(start), gpu_trace(), MACHINE)
    assert profile.devices == 2
    assert not profile.is_shared
    # From 0 to 206, on each device: 80 in fusions, 40 in sums, 6 in the copy. Device 0 waits for 10, and both idle for the rest.
    assert profile.measured == pytest.approx(206 * US)
    assert profile.busy == pytest.approx((80 + 40 + 6) * US)
    assert profile.waiting == pytest.approx(10 / 2 * US)
    assert profile.idle == pytest.approx((206 - 126 - 5) * US)
    # The fusion is divided in proportion to the predicted times: 3e4 / 1e10 = 3 us for the product, 1 us for the tanh.
    rows = profile.by("operation")
    assert rows["nx.dot"].measured == pytest.approx(60 * US)
    assert rows["nx.tanh"].measured == pytest.approx(20 * US)
    assert rows["nx.sum"].measured == pytest.approx(40 * US)
    assert rows["nx.dot"].predicted == pytest.approx(6 * US)
    assert rows["nx.dot"].ratio == pytest.approx(0.1)
    assert rows["nx.dot"].trips == 2
    # The copy by XLA belongs to the loop whose result it copies.
    assert rows["nx.scan"].measured == pytest.approx(6 * US)
    assert profile.inferred == pytest.approx(6 * US)
    assert profile.coverage == 1
    # A frame of JAX is no line of the user: the next frame is.
    lines = profile.by("line")
    assert {name: row.measured / US for name, row in lines.items()} == {
        "model.py:12": pytest.approx(60),
        "model.py:20": pytest.approx(66),
    }
    assert profile.by("phase")["gradient"].measured == pytest.approx(20 * US)
    assert profile.by("name")["b"].measured == pytest.approx(40 * US)
    assert profile.by("kind")["all-reduce"].trips == 2


def cpu_trace():
    """Two simulated devices on one core. The product goes on in another thread until the event that marks its end."""

    def fusion(start, length, device, key):
        stats = {"hlo_op": "fusion.1", "hlo_module": "jit_f", "device_ordinal": device, "_p": key, "run_id": 1}
        return event("fusion.1", start, length, **stats)

    def sums(start, length, device, key):
        stats = {"hlo_op": "sum.1", "hlo_module": "jit_f", "device_ordinal": device, "_p": key, "run_id": 1}
        return event("sum.1", start, length, **stats)

    loop = [
        event("while.1", 0, 2, hlo_op="while.1", hlo_module="jit_f", device_ordinal=device, _p=90 + device) for device in (0, 1)
    ]
    return SimpleNamespace(
        planes=[
            plane(
                "/host:CPU",
                line("python", event(STEP, 0, 120)),
                line("a", loop[0], fusion(0, 5, 0, 1), event("end: fusion.1", 30, 0.1, _c=1), sums(30, 50, 0, 3)),
                line("b", loop[1], fusion(30, 30, 1, 2), event("end: fusion.1", 60, 0.1, _c=2), sums(60, 20, 1, 4)),
                line("c", event("end: while.1", 100, 0.1, _c=90), event("end: while.1", 100, 0.1, _c=91)),
                line("d", event("ThreadpoolListener::Record", 5, 0), event("Rendezvous", 30, 50)),
            )
        ]
    )


def test_simulated_devices_share_the_time_of_the_machine():
    profile = join(report(), text(), cpu_trace(), MACHINE)
    assert profile.is_shared
    assert profile.devices == 2
    # From 0 to 100: 60 in fusions, one device after the other; 20 in the sum; and 20 in which only the loop runs.
    assert profile.measured == pytest.approx(100 * US)
    kinds = {name: row.measured / US for name, row in profile.by("kind").items()}
    assert kinds == {
        "dot_general": pytest.approx(45),
        "tanh": pytest.approx(15),
        "all-reduce": pytest.approx(20),
        "while": pytest.approx(20),
    }
    assert profile.waiting == 0  # device 0 waits for device 1, which computes at this time
    assert profile.by("kind")["all-reduce"].trips == 1


def test_steps_are_told_apart_by_the_events_of_the_host():
    events = [
        event("k", start, length, hlo_op="fusion.1", hlo_module="jit_f") for start, length in ((0, 10), (100, 30), (200, 20))
    ]
    steps = line("python", *(event(STEP, start, 90) for start in (0, 100, 200)))
    data = SimpleNamespace(planes=[plane("/host:CPU", steps), plane("/device:GPU:0", line("Stream #1", *events))])
    profile = join(report(), text(), data, MACHINE)
    assert profile.walls == pytest.approx([10 * US, 30 * US, 20 * US])
    assert profile.measured == pytest.approx(20 * US)
    assert profile.busy == pytest.approx(20 * US)
    assert profile.by("operation")["nx.dot"].trips == 1


def test_the_time_is_that_of_steps_without_a_trace():
    profile = join(report(), text(), gpu_trace(), MACHINE, None, (110 * US, 103 * US, 90 * US))
    assert profile.measured == pytest.approx(103 * US)
    # All parts are half as long as in the trace, which took 206.
    assert profile.by("operation")["nx.dot"].measured == pytest.approx(30 * US)
    assert profile.busy + profile.waiting + profile.idle == pytest.approx(103 * US)
    slower = join(report(), text(), gpu_trace(), MACHINE, None, (500 * US,))  # with the time to call the program
    assert slower.measured == pytest.approx(206 * US)


def test_instructions_on_tpus_are_named_by_their_text():
    ops = line(
        "XLA Ops",
        event("%fusion.1 = f32[8,4]{1,0:T(8,128)} fusion(%x, %w)", 0, 40),
        event("%copy.1 = f32[8,4] copy(%y)", 40, 10),
    )
    modules = line("XLA Modules", event("jit_f(123)", 0, 60))
    data = SimpleNamespace(planes=[plane("/device:TPU:0", modules, ops)])
    profile = join(report(), text(), data, MACHINE)
    assert {name: row.measured / US for name, row in profile.by("operation").items() if row.measured} == {
        "nx.dot": pytest.approx(30),
        "nx.tanh": pytest.approx(10),
        "nx.scan": pytest.approx(10),
    }


def test_unknown_instructions_are_shown():
    events = line(
        "Stream #1",
        event("k", 0, 30, hlo_op="fusion.1", hlo_module="jit_f"),
        event("k", 30, 10, hlo_op="gone.7", hlo_module="jit_f"),
    )
    data = SimpleNamespace(planes=[plane("/device:GPU:0", events)])
    profile = join(report(), text(), data, MACHINE)
    assert profile.unattributed == pytest.approx(10 * US)
    assert profile.coverage == pytest.approx(0.75)
    assert "75.0% of it attributed" in str(profile)
    assert "unknown     10.0 µs" in str(profile)


@pytest.mark.parametrize(
    "groups",
    [
        "replica_groups={{0,2},{1,3}}",
        "replica_groups=[2,2]<=[2,2]T(1,0)",
        "replica_groups=mesh['x'=2,'y'=2] {'x'}",
        "source_target_pairs={{0,2},{2,0},{1,3},{3,1}}",
    ],
)
def test_the_devices_of_a_collective(groups):
    head = "HloModule m, num_partitions=4\n\nENTRY %e (a: f32[2]) -> f32[2] {\n  %a = f32[2] parameter(0)\n"
    program = parse(f"{head}  ROOT %r = f32[2] all-reduce(%a), {groups}\n}}\n")
    assert set(program.groups(program.instructions["r"])) == {frozenset({0, 2}), frozenset({1, 3})}


# --- the fit --------------------------------------------------------------------------------------------------------------------


def synthetic(steps, true):
    """A profile in which every step takes as long as on the machine `true`, and no instruction is shared."""
    base = join(report(), text(), gpu_trace(), MACHINE)
    given = report(steps)
    from namedax.insight.profiling.joining import part_of_step
    from namedax.insight.profiling.profile import Measured

    seconds = [true.time_of(step, given.mesh) for step in steps]
    measured = tuple(
        Measured(f"i{i}", part_of_step(step), one, step.trips) for i, (step, one) in enumerate(zip(steps, seconds, strict=True))
    )
    predicted = MACHINE.time(given.steps, given.mesh)
    return dataclasses.replace(
        base,
        report=given,
        predicted=predicted,
        walls=(sum(seconds),),
        untraced=(),
        instructions=measured,
        waiting=0.0,
        idle=0.0,
        tracks=(),
    )


def sums(payload, i, trips=3):
    return Collective("all-reduce", ("x",), 2, ("b",), payload, payload, trips, "float32", "nx.sum", f"model.py:{i}", "forward")


def test_a_fit_finds_the_machine_that_made_the_times():
    true = nx.machines.Machine(
        flops={"float32": 3e9, "bfloat16": 2e12},
        memory=1e9,
        bandwidth=2e9,
        launch=2e-5,
        links={"x": nx.machines.Link(7e7, 3e-4, "switch")},
    )
    steps = (
        operation("dot_general", ("k",), "model.py:1", flops=1e9, moved=1000),
        operation("dot_general", ("k",), "model.py:2", flops=3e8, moved=1000),
        operation("add", (), "model.py:3", flops=1e5, moved=10**8),
        operation("add", (), "model.py:4", flops=1e3, moved=10_000, trips=50_000),
        sums(10**8, 5),
        sums(100, 6, 5000),
    )
    profile = synthetic(steps, true)
    assert profile.ratio < 0.5
    fitted = profile.fit()
    assert fitted.peak("float32") == pytest.approx(3e9, rel=0.02)
    assert fitted.bandwidth == pytest.approx(2e9, rel=0.02)
    assert fitted.launch == pytest.approx(2e-5, rel=0.02)
    assert fitted.links["x"].bandwidth == pytest.approx(7e7, rel=0.02)
    assert fitted.links["x"].latency == pytest.approx(3e-4, rel=0.05)
    assert fitted.name == "mine, fitted"
    after = profile.with_machine(fitted)
    assert after.ratio == pytest.approx(1, rel=0.01)
    assert after.by("line")["model.py:5"].ratio == pytest.approx(1, rel=0.02)


def test_a_fit_leaves_figures_that_no_step_depends_on():
    true = dataclasses.replace(MACHINE, flops={"float32": 1e9})
    profile = synthetic((operation("dot_general", ("k",), "model.py:1", flops=1e9, moved=10),), true)
    machine = dataclasses.replace(MACHINE, flops={"float32": 1e10, "int8": 5e10})
    fitted = profile.with_machine(machine).fit()
    assert fitted.peak("float32") == pytest.approx(1e9, rel=0.01)
    assert fitted.peak("int8") == 5e10
    assert fitted.bandwidth == pytest.approx(MACHINE.bandwidth, rel=0.01)
    assert fitted.links == MACHINE.links


def mixed(dtype="bfloat16"):
    """Steps that depend on every figure of a machine with one link."""
    return (
        operation("dot_general", ("k",), "model.py:1", flops=1e15, moved=1000, dtype=dtype),
        operation("dot_general", ("k",), "model.py:2", flops=3e14, moved=1000, dtype=dtype),
        operation("add", (), "model.py:3", flops=1e5, moved=10**13),
        operation("add", (), "model.py:4", flops=1e3, moved=10_000, trips=50_000),
        sums(10**10, 5),
        sums(100, 6, 5000),
    )


@pytest.mark.parametrize("name", ["a100", "h100", "b200", "mi300x", "v5e", "v5p", "tpu7x"])
def test_a_fit_that_begins_with_the_true_machine_predicts_the_same(name):
    machine = getattr(nx.machines, name)
    profile = synthetic(mixed(), machine).with_machine(machine)
    assert profile.ratio == pytest.approx(1)
    fitted = profile.fit()
    for step in profile.report.steps:
        assert fitted.time_of(step, {"x": 2}) == pytest.approx(machine.time_of(step, {"x": 2}), rel=1e-3)
    assert fitted.peak("bfloat16") == pytest.approx(machine.rate("bfloat16"), rel=1e-3)


@pytest.mark.parametrize("efficiency", [0.8, {"bfloat16": 0.8, "int8": 0.5}])
def test_a_fitted_machine_has_the_figures_that_were_reached(efficiency):
    # Half of the arithmetic, a third of the memory bandwidth, a quarter of the link, at other starts.
    h100 = dataclasses.replace(nx.machines.h100, efficiency=efficiency, memory_efficiency=0.9, launch=1e-6)
    true = nx.machines.Machine(
        flops={"bfloat16": 400e12},
        memory=80e9,
        bandwidth=1.1e12,
        launch=3e-6,
        links={"x": nx.machines.Link(1.1e11, 2e-5, "switch", start=5e-5)},
    )
    fitted = synthetic(mixed(), true).with_machine(h100).fit()
    assert fitted.peak("bfloat16") == pytest.approx(400e12, rel=1e-2)
    assert fitted.rate("bfloat16") == fitted.peak("bfloat16")
    assert (fitted.bandwidth, fitted.memory_efficiency) == (pytest.approx(1.1e12, rel=1e-2), 1)
    assert fitted.launch == pytest.approx(3e-6, rel=1e-2)
    assert fitted.links["x"].bandwidth_at(1e9) == pytest.approx(1.1e11, rel=1e-2)
    # An all-reduce of two devices is two rounds and one start; the times have only the sum.
    assert 2 * fitted.links["x"].latency + fitted.links["x"].start == pytest.approx(9e-5, rel=1e-2)
    # Dtypes that no step has keep their peak and their efficiency.
    assert fitted.peak("int8") == h100.peak("int8")
    assert fitted.rate("int8") == h100.rate("int8")
    assert fitted.sources[:-1] == h100.sources


def test_a_fit_keeps_the_fractions_of_a_link_by_size():
    true = nx.machines.a100.with_links({"x": dataclasses.replace(nx.machines.NVLINK3, bandwidth=1e11)})
    steps = tuple(sums(10**power, power) for power in range(4, 11))
    fitted = synthetic(steps, true).with_machine(nx.machines.a100).fit()
    for step in steps:
        assert fitted.time_of(step, {"x": 2}) == pytest.approx(true.time_of(step, {"x": 2}), rel=1e-2)
    assert fitted.links["x"].bandwidth == pytest.approx(0.78e11, rel=1e-2)


def test_a_fit_of_a_link_of_several_levels():
    # Sixteen GPUs, on two nodes.
    wide = dataclasses.replace(sums(10**9, 5), group_size=16)
    small = dataclasses.replace(sums(10**3, 6), group_size=16)
    fitted = profile_over(16, (wide, small), nx.machines.h100).fit()
    for step in (wide, small):
        assert fitted.time_of(step, {"x": 16}) == pytest.approx(nx.machines.h100.time_of(step, {"x": 16}), rel=1e-2)


def profile_over(size, steps, machine):
    base = synthetic((sums(1, 1),), MACHINE)
    given = dataclasses.replace(report(steps), mesh={"x": size})
    from namedax.insight.profiling.joining import part_of_step
    from namedax.insight.profiling.profile import Measured

    seconds = [machine.time_of(step, given.mesh) for step in steps]
    measured = tuple(
        Measured(f"i{i}", part_of_step(step), one, 1) for i, (step, one) in enumerate(zip(steps, seconds, strict=True))
    )
    return dataclasses.replace(base, report=given, walls=(sum(seconds),), instructions=measured).with_machine(machine)


# --- programs that run here -----------------------------------------------------------------------------------------------------


@functools.cache
def network():
    mesh = mesh_of(x=4, y=2)

    def loss(w1, w2, x):
        def layer(h, _):
            h = nx.dot(h, w1, "d")
            h = nx.rename(nx.dot(h, w2, "f"), {"e": "d"})
            return nx.tanh(h), None

        h, _ = nx.scan(layer, x, None, length=3)
        return nx.mean(nx.square(h), ["b", "d"])

    f = nx.xmap(
        jax.value_and_grad(loss, argnums=(0, 1)),
        in_axes=(["d", "f"], ["f", "e"], ["b", "d"]),
        out_axes=({}, (["d", "f"], ["f", "e"])),
        axis_resources={"b": "x", "f": "y"},
        mesh=mesh,
    )
    return f, (jnp.ones((128, 96)), jnp.ones((96, 128)), jnp.ones((256, 128)))


@pytest.fixture
def _names_as_for_users():
    before = jax.config.jax_include_full_tracebacks_in_locations
    jax.config.update("jax_include_full_tracebacks_in_locations", True)
    yield
    jax.config.update("jax_include_full_tracebacks_in_locations", before)


@functools.cache
def profiled():
    f, args = network()
    began = time.perf_counter()
    profile = nx.profile(f, *args, steps=3, machine=MACHINE)
    return profile, time.perf_counter() - began


def test_a_network_is_measured_line_by_line():
    profile, seconds = profiled()
    assert profile.devices == 8
    assert profile.coverage >= 0.9
    # Nothing counts eight times: the parts of a step make up the step, and the steps were shorter than the call.
    assert profile.busy + profile.waiting + profile.idle == pytest.approx(profile.measured)
    assert sum(profile.walls) + sum(profile.untraced) < seconds
    kinds, lines = profile.by("kind"), profile.by("line")
    assert kinds["dot_general"].measured > 0
    # Three layers have two products each, and four in the gradient; one device runs each once a step.
    products = [one for one in profile.instructions if one.part is not None and one.part.kind == "dot_general"]
    assert sum(one.trips for one in products) == 3 * (2 + 4)
    assert {one.part.phase for one in products} == {"forward", "gradient"}
    assert {one.part.names for one in products} == {("d",), ("f",)}
    # The lines of operations are those of the report, in both phases.
    expected = set(profile.report.by("line"))
    named = {one.part.source for one in profile.instructions if one.part.operation in ("nx.dot", "nx.tanh", "nx.mean")}
    assert named <= expected
    assert all(name.startswith((HERE, "?")) for name in lines)
    sent = profile.by("operation")
    assert sent["nx.dot"].predicted > 0
    assert {one.part.names for one in profile.instructions if one.part.kind == "all-reduce"} == {("b",), ("f",)}


@pytest.mark.usefixtures("_names_as_for_users")
def test_scopes_and_lines_come_from_tracebacks_too():
    f, args = network.__wrapped__()
    profile = nx.profile(f, *args, steps=1, machine=MACHINE)
    named = {one.part.source for one in profile.instructions if one.part.operation in ("nx.dot", "nx.tanh", "nx.mean")}
    assert len(named) == 4
    assert named <= set(profile.report.by("line"))
    products = [one.part.names for one in profile.instructions if one.part.kind == "dot_general"]
    assert set(products) == {("d",), ("f",)}


def test_a_profile_prints_and_converts():
    profile, _ = profiled()
    shown = str(profile)
    assert max(map(len, shown.splitlines())) <= 100
    assert "Lines, longest first" in shown
    assert "nx.dot" in shown
    assert f"{profile.coverage:.1%} of it attributed" in shown
    assert "on mine" in shown
    values = json.loads(json.dumps(profile.to_dict()))
    assert values["measured"] == profile.measured
    assert values["operation"]["nx.dot"]["measured"] == profile.by("operation")["nx.dot"].measured
    assert "<table>" in profile._repr_html_()
    with pytest.raises(ArgumentError) as caught:
        profile.by("size")
    assert said(caught.value) == "Profile.by: 'size' is not a key. Choose from 'line', 'name', 'operation', 'kind', 'phase'."


def test_a_fit_is_nearer_to_a_real_step():
    profile, _ = profiled()
    # A machine that is a hundred times too fast.
    fast = dataclasses.replace(
        MACHINE, flops={"float32": 1e12}, bandwidth=1e12, links={...: nx.machines.Link(1e11, 1e-7, "switch")}
    )
    before = profile.with_machine(fast)
    assert before.ratio < 0.5
    after = before.with_machine(before.fit())
    assert 1 / 1.5 < after.ratio < 1.5


def test_arguments_may_be_donated_static_types_and_unused():
    mesh = mesh_of(x=8)
    f = nx.xmap(
        lambda x, w: nx.dot(x, w, "k"),
        in_axes=(["b", "k"], ["k", "h"]),
        out_axes=["b", "h"],
        axis_resources={"b": "x"},
        mesh=mesh,
    )

    @functools.partial(jax.jit, donate_argnums=0, static_argnames="factor")
    def step(x, w, unused, factor):
        return x + factor * f(x, w)

    x = jnp.ones((64, 64))
    profile = nx.profile(step, x, jax.ShapeDtypeStruct((64, 64), "float32"), jnp.ones(3), factor=2, steps=2, machine=MACHINE)
    assert len(profile.walls) == 2
    assert profile.by("operation")["nx.dot"].measured > 0
    assert float(x.sum()) == 64 * 64  # the argument of the caller is not consumed


def test_instructions_of_a_function_with_a_declared_cost_are_its_step():
    def kernel(a):
        b = jnp.dot(a, a)
        return jnp.tanh(b)

    known = nx.machines.cost(kernel, flops=1e6, bytes=1e5)
    profile = nx.profile(jax.jit(lambda a: known(a) + jnp.sum(a)), jnp.ones((64, 64)), steps=2, machine=MACHINE)
    kinds = profile.by("kind")
    assert kinds["kernel"].measured > 0
    assert kinds["kernel"].predicted == pytest.approx(1e6 / 1e10)
    assert not {"dot_general", "tanh"} & set(kinds)
    gradient = nx.profile(jax.jit(jax.grad(lambda a: jnp.sum(known(a)))), jnp.ones((64, 64)), steps=2, machine=MACHINE)
    row = gradient.by("kind")["kernel"]
    assert row.measured > 0
    assert row.predicted == pytest.approx(3e6 / 1e10)
    assert "dot_general" not in gradient.by("kind")


def test_within_another_trace_it_is_an_error(tmp_path):
    f = jax.jit(jnp.sin)
    with jax.profiler.trace(tmp_path):
        with pytest.raises(ArgumentError, match=r"^profile: JAX's profiler did not start: .* Call nx\.profile outside of"):
            nx.profile(f, jnp.ones(8), steps=1, machine=MACHINE)
    assert nx.profile(f, jnp.ones(8), steps=1, machine=MACHINE).measured > 0


def test_errors():
    f, args = network()
    with pytest.raises(ArgumentTypeError) as caught:
        nx.profile(jnp.ones(3))
    assert said(caught.value) == (
        "profile: the first argument must be the function to run; got ArrayImpl. Write nx.profile(f, *args), not nx.profile(f(*args))."
    )
    for steps in (0, True, 2.0):
        with pytest.raises(ArgumentError) as caught:
            nx.profile(f, *args, steps=steps)
        assert (
            said(caught.value)
            == f"profile: steps={steps!r} must be a positive integer, the number of measured steps. Write steps=5."
        )
    with pytest.raises(ArgumentTypeError) as caught:
        nx.profile(f, *args, machine="h100")
    assert said(caught.value) == (
        "profile: machine must be a machine, such as nx.machines.h100; got str. Without machine=, the devices are measured."
    )
    with pytest.raises(
        ArgumentTypeError, match=r"profile: loss does not take these arguments: missing a required argument: 'w2'\."
    ):
        nx.profile(f, args[0])
    abstract = jax.sharding.AbstractMesh((4, 2), ("x", "y"))
    g = nx.xmap(lambda x: nx.sum(x, "b"), in_axes=["b", "k"], axis_resources={"b": "x"}, mesh=abstract)
    for form in (g, jax.jit(g)):
        with pytest.raises(MeshError) as caught:
            nx.profile(form, jnp.ones((8, 4)), machine=MACHINE)
        assert said(caught.value) == (
            "profile: the mesh {'x': 4, 'y': 2} is an AbstractMesh, which has no devices to run on. Pass mesh=jax.make_mesh(...) to nx.xmap,"
            " or use nx.explain and report.time(machine)."
        )
    empty = SimpleNamespace(planes=[plane("/host:CPU", line("python", event(STEP, 0, 9)))])
    with pytest.raises(ArgumentError) as caught:
        join(report(), text(), empty, MACHINE)
    assert said(caught.value) == (
        "profile: the trace has no instruction of 'jit_f', so the program does not compute anything, or the backend records no instructions."
        " Profile a function that computes on the devices."
    )


# --- Perfetto -------------------------------------------------------------------------------------------------------------------


def check_trace(path):
    """Check a file against the trace-event format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    assert events
    processes = {one["pid"]: one["args"]["name"] for one in events if one["ph"] == "M" and one["name"] == "process_name"}
    threads = {
        (one["pid"], one["tid"]): one["args"]["name"] for one in events if one["ph"] == "M" and one["name"] == "thread_name"
    }
    bars = [one for one in events if one["ph"] == "X"]
    for one in bars:
        assert one.keys() == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}
        assert one["ts"] >= 0
        assert one["dur"] > 0
        assert (one["pid"], one["tid"]) in threads
    # The slices of a track are nested or do not overlap.
    for key in threads:
        waiting = []
        for one in sorted((one for one in bars if (one["pid"], one["tid"]) == key), key=lambda one: (one["ts"], -one["dur"])):
            while waiting and waiting[-1] <= one["ts"] + 1e-6:
                waiting.pop()
            assert not waiting or one["ts"] + one["dur"] <= waiting[-1] + 1e-6
            waiting.append(one["ts"] + one["dur"])
    arrows = {}
    for one in events:
        if one["ph"] in "sf":
            inside = [bar for bar in bars if (bar["pid"], bar["tid"]) == (one["pid"], one["tid"])]
            assert any(bar["ts"] <= one["ts"] <= bar["ts"] + bar["dur"] for bar in inside)
            arrows.setdefault(one["id"], []).append((one["ph"], one["name"], one["cat"], one["pid"]))
    for ends in arrows.values():
        assert sorted(end[0] for end in ends) == ["f", "s"]
        assert len({end[1:3] for end in ends}) == 1
    return processes, threads, bars, arrows


def test_a_predicted_schedule_for_perfetto(tmp_path):
    path = tmp_path / "step.json"
    report().to_perfetto(MACHINE, path)
    processes, threads, bars, arrows = check_trace(path)
    assert [*processes.values()] == ["device"]
    assert [*threads.values()] == ["computing", "communicating"]
    assert [(one["name"], one["cat"]) for one in bars] == [
        ("nx.dot{k}", "dot_general"),
        ("nx.tanh{}", "tanh"),
        ("nx.sum{b}", "all-reduce"),
    ]
    assert [(one["ts"], one["dur"]) for one in bars] == [
        pytest.approx((0, 6)),  # twice 3e4 operations at 1e10 a second
        pytest.approx((6, 2)),
        pytest.approx((8, 2 * 2 * (10 + 0.064))),  # twice; an all-reduce is two rounds of 10 us and 64 B at 1 GB/s
    ]
    assert bars[0]["args"]["line"] == "model.py:12"
    assert bars[2]["args"]["bytes"] == 128
    assert not arrows
    times = MACHINE.time(report().steps, {"x": 2})
    times.to_perfetto(path, devices=2)
    processes, threads, bars, _ = check_trace(path)
    assert [*processes.values()] == ["device 0", "device 1"]
    assert len(bars) == 6
    for devices in (0, True, 1.5):
        with pytest.raises(ArgumentError) as caught:
            times.to_perfetto(path, devices)
        assert said(caught.value) == f"Times.to_perfetto: devices={devices!r} must be a positive integer, such as 1."


def test_predicted_and_measured_side_by_side(tmp_path):
    path = tmp_path / "step.json"
    join(report(), text(), gpu_trace(), MACHINE).to_perfetto(path)
    processes, _, bars, arrows = check_trace(path)
    assert [*processes.values()] == ["predicted", "measured, device 0", "measured, device 1"]
    # Kernels of device 0: two fusions, two sums, one copy.
    first = {pid for pid, name in processes.items() if name == "measured, device 0"}
    assert [(one["name"], one["ts"], one["dur"]) for one in bars if one["pid"] in first and one["cat"] == "all-reduce"] == [
        ("nx.sum{b}", pytest.approx(40), pytest.approx(20)),
        ("nx.sum{b}", pytest.approx(100), pytest.approx(30)),
    ]
    assert {ends[0][1] for ends in arrows.values()} == {"nx.dot{k}", "nx.sum{b}"}
    profiled()[0].to_perfetto(path)
    processes, _, _, arrows = check_trace(path)
    assert len(processes) == 9
    assert len(arrows) > 5


# --- larger programs ------------------------------------------------------------------------------------------------------------


def ring():
    def attention(q, k, v):
        out = nx.nn.dot_product_attention(q, k, v, axis="pos", features="key", is_causal=True)
        return nx.mean(nx.square(out), ["batch", "pos", "heads", "key"])

    keys = jax.random.split(jax.random.key(0), 3)
    args = [nx.random.normal(key, named_shape={"batch": 1, "pos": 512, "heads": 2, "key": 16}) for key in keys]
    return nx.xmap(jax.grad(attention), axis_resources={"pos": "context"}, mesh=mesh_of(context=8)), args


def transformer(layout):
    examples = str(pathlib.Path(__file__).parents[3] / "examples")
    if examples not in sys.path:
        sys.path.insert(0, examples)
    from transformer_model import Config, init, loss

    heads = {"kv_heads": "model", "hidden": "model", "vocab": "model"}
    layouts = {
        "fsdp": ({"data": 8}, {"batch": "data", "embed_fsdp": "data"}),
        "fsdp+tp+sp": ({"data": 2, "model": 4}, {"batch": "data", "embed_fsdp": "data", "pos_sp": "model", **heads}),
    }
    sizes, resources = layouts[layout]
    config = Config(embed=64, kv_heads=4, group=1, key=16, hidden=128, vocab=256, layers=2, pos=32)
    f = nx.xmap(jax.value_and_grad(functools.partial(loss, config=config)), axis_resources=resources, mesh=mesh_of(**sizes))
    tokens = nx.named(jax.random.randint(jax.random.key(1), (16, 32), 0, 256), ["batch", "pos"])
    return f, (init(config, jax.random.key(0)), tokens, tokens)


def optimizer():
    f, (w1, w2, x) = network()

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(w1, w2, x):
        _, (g1, g2) = f(w1, w2, x)
        return w1 - 0.1 * g1, w2 - 0.1 * g2

    return step, (w1, w2, x)


PROGRAMS = {
    "ring": ring,
    "fsdp": functools.partial(transformer, "fsdp"),
    "fsdp+tp+sp": functools.partial(transformer, "fsdp+tp+sp"),
    "optimizer": optimizer,
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_time_of_larger_programs_is_attributed(program):
    f, args = PROGRAMS[program]()
    profile = nx.profile(f, *args, steps=2, machine=MACHINE)
    assert profile.devices == 8
    assert profile.coverage >= 0.9
    # Most of it by metadata of the instructions themselves, and on lines of the report.
    assert profile.inferred < 0.6 * profile.busy
    known = set(profile.report.by("line"))
    measured = {name: row.measured for name, row in profile.by("line").items()}
    assert sum(seconds for name, seconds in measured.items() if name in known) > 0.7 * profile.busy
    # Nearly every line with a prediction that matters was measured.
    predicted = {name: row.predicted for name, row in profile.by("line").items() if name != "?"}
    missing = sum(seconds for name, seconds in predicted.items() if not measured[name])
    assert missing < 0.1 * sum(predicted.values())
    # Collectives have the names and the lines of the report.
    sent = {(one.part.source, one.part.names) for one in profile.instructions if one.part and one.part.kind in nx.hlo.KINDS}
    assert sent <= {(one.source, one.names) for one in profile.report.collectives}
