"""A machine with `overlap=True`: two streams, and what waits for what, worked out by hand."""

import dataclasses
import itertools
import xml.etree.ElementTree

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import namedax as nx
from namedax.insight.analysis.records import Collective, Operation
from namedax.machines import Link, Machine

quick = settings(max_examples=50, deadline=None, derandomize=True)
# A millisecond for each 1e9 operations, and for each 1e6 bytes sent.
ON = Machine({"float32": 1e12}, 16e9, 1e30, {...: Link(1e9, 0.0, "switch")}, overlap=True)
ONE = dataclasses.replace(ON, overlap=False)


def send(number, ms, needs=(), **more):
    size = int(ms * 1e6)
    record = Collective("collective-permute", ("x",), 2, (), size, size, 1, "float32", "nx.dot", "model.py:1", "forward")
    return dataclasses.replace(record, number=number, needs=needs, **more)


def use(number, ms, needs=(), **more):
    record = Operation("dot_general", (), ms * 1e9, 0, 1, "float32", "nx.dot", "model.py:2", "forward")
    return dataclasses.replace(record, number=number, needs=needs, **more)


def ms(*steps, on=ON):
    return on.time(steps).total * 1e3


def test_a_collective_is_hidden_by_what_does_not_need_it():
    assert ms(send(1, 2), use(2, 3)) == pytest.approx(3)
    assert ms(send(1, 2), use(2, 3, (1,))) == pytest.approx(5)
    assert ms(use(1, 3), send(2, 2, (1,)), use(3, 4), use(4, 1, (2,))) == pytest.approx(8)
    assert ms(use(1, 3), send(2, 5, (1,)), use(3, 4), use(4, 1, (2,))) == pytest.approx(9)
    # The second one waits for the first one on the stream, not for the products.
    assert ms(send(1, 2), send(2, 2), use(3, 3, (1,)), use(4, 3, (2,))) == pytest.approx(8)
    assert ms(send(1, 2), use(2, 3), on=ONE) == pytest.approx(5)


def test_steps_that_are_missing_are_not_waited_for():
    assert ms(use(7, 3, (1, 2))) == pytest.approx(3)


def loop(*steps, n=10):
    return [dataclasses.replace(step, loops=((1, n),), trips=n) for step in steps]


def test_a_gather_of_weights_is_prefetched_in_a_loop():
    gather, product = send(1, 2, is_free=True), use(2, 3, (1,))
    # The first gather is not hidden.
    assert ms(*loop(gather, product)) == pytest.approx(2 + 10 * 3)
    slow = send(1, 5, is_free=True)
    assert ms(*loop(slow, product)) == pytest.approx(5 + 9 * 5 + 3)
    assert ms(*loop(send(1, 2), product)) == pytest.approx(10 * 5)
    assert ms(*loop(gather, product), on=ONE) == pytest.approx(10 * 5)


def test_what_a_program_prefetches_is_hidden_in_every_iteration():
    ahead, product = send(1, 2, is_free=True, is_ahead=True), use(2, 3, (1,))
    assert ms(*loop(ahead, product)) == pytest.approx(10 * 3)
    slow, gather = send(1, 4, is_free=True, is_ahead=True), send(3, 1, is_free=True)
    assert ms(*loop(slow, product, gather)) == pytest.approx(1 + 9 * 5 + 4)


def test_a_loop_with_collectives_is_waited_for():
    inside = loop(send(1, 2), use(2, 3, (1,)))
    assert ms(*inside, send(3, 4), use(4, 4)) == pytest.approx(50 + 4)
    # One without hides a collective that it does not need.
    assert ms(send(1, 4), *loop(use(2, 3))) == pytest.approx(30)
    assert ms(send(1, 4), *loop(use(2, 3, (1,)))) == pytest.approx(34)


def gathered():
    """Weights in blocks that each layer gathers."""
    mesh = jax.sharding.AbstractMesh((4,), ("data",))

    def body(x, w):
        def layer(x, w):
            w = nx.rename(w, {"in_block": "in"})
            return nx.rename(nx.tanh(nx.dot(x, w, "in")), {"out": "in"}), None

        return nx.scan(layer, x, w, axis="layer")[0]

    axes = (["batch", "in"], ["layer", "in_block", "out"])
    f = nx.xmap(body, axes, ["batch", "in"], axis_resources={"batch": "data", "in_block": "data"}, mesh=mesh)
    return f, jax.ShapeDtypeStruct((64, 256), "float32"), jax.ShapeDtypeStruct((6, 256, 256), "float32")


def summed():
    """Contractions over a sharded axis: each layer waits for its all-reduce."""
    mesh = jax.sharding.AbstractMesh((4,), ("data",))

    def body(x, w, v):
        def layer(x, ws):
            hidden = nx.tanh(nx.dot(x, ws[0], "in"))
            return nx.rename(nx.dot(hidden, ws[1], "hidden"), {"out": "in"}), None

        return nx.scan(layer, x, (w, v), axis="layer")[0]

    axes = (["batch", "in"], ["layer", "in", "hidden"], ["layer", "hidden", "out"])
    f = nx.xmap(body, axes, ["batch", "in"], axis_resources={"hidden": "data"}, mesh=mesh)
    return f, jax.ShapeDtypeStruct((64, 256), "float32"), *[jax.ShapeDtypeStruct((6, 256, 256), "float32")] * 2


def collectives(f, *args):
    return [step for step in nx.explain(f, *args).collectives if step.trips > 1]


def test_gathers_of_weights_do_not_depend_on_the_carry():
    f, *args = gathered()
    assert [(step.kind, step.is_free) for step in collectives(f, *args)] == [("all-gather", True)]
    gradient = jax.grad(lambda x, w: jnp.sum(f(x, w) ** 2), 1)
    kinds = {(step.kind, step.is_free) for step in collectives(gradient, *args)}
    # The gradient of the weights is reduced and scattered, and no layer waits for that.
    assert kinds == {("all-gather", True), ("reduce-scatter", True)}


def test_sums_of_activations_depend_on_the_carry():
    f, *args = summed()
    assert [(step.kind, step.is_free) for step in collectives(f, *args)] == [("all-reduce", False)]


@pytest.mark.parametrize("program", [gathered(), summed()], ids=["gathered", "summed"])
def test_what_hides_in_programs(program):
    f, *args = program
    report = nx.explain(f, *args)
    machine = Machine({"float32": 1e12}, 16e9, 1e12, {...: Link(1e11, 0.0, "switch")}, overlap=True)
    times = machine.time(report.steps, report.mesh)
    computed = times.compute + times.memory
    if program[0] is f and len(args) == 2:
        assert times.total < computed + times.communication
        once = times.communication / 6
        assert times.total == pytest.approx(max(computed, times.communication * 5 / 6 + computed / 6) + once, rel=0.05)
    else:
        assert times.total == pytest.approx(computed + times.communication)


def test_times_in_a_notebook():
    report = nx.explain(lambda x: x @ x, jax.ShapeDtypeStruct((64, 64), "int8"))
    for times in (ON.time([send(1, 2), use(2, 3)]), ON.time(report.steps)):
        html = times._repr_html_()
        root = xml.etree.ElementTree.fromstring(f"<div>{html}</div>")
        cells = [[cell.text for cell in row] for row in root.iter("tr")]
        assert cells[-1][0] == "total"
        assert cells[-1][2] == "100 %"
        assert [item.text for item in root.iter("li")] == [f"assumed: {text}" for text in times.assumptions]
    first = ON.time([send(1, 2), use(2, 3)])._repr_html_()
    assert ">-2 ms<" in first
    assert ">3 ms<" in first
    assert "compute" not in ON.time([])._repr_html_()


@st.composite
def programs(draw):
    steps, numbers = [], itertools.count(1)

    def some(depth, path, trips):
        for _ in range(draw(st.integers(0, 5))):
            if depth < 2 and draw(st.integers(0, 3)) == 0:
                n = draw(st.integers(1, 6))
                some(depth + 1, (*path, (next(numbers), n)), trips * n)
                continue
            number = next(numbers)
            before = [step.number for step in steps]
            needs = tuple(draw(st.lists(st.sampled_from(before), max_size=3))) if before else ()
            make = send if draw(st.booleans()) else use
            step = make(number, draw(st.floats(0, 10)), needs, loops=path, trips=trips)
            if isinstance(step, Collective) and path and draw(st.booleans()):
                step = dataclasses.replace(step, is_free=True)
            steps.append(step)

    some(0, (), 1)
    return steps


@quick
@given(programs())
def test_the_total_is_between_the_longer_stream_and_both(steps):
    times = ON.time(steps)
    computed = times.compute + times.memory
    rounding = 1 + 1e-9
    assert max(computed, times.communication) <= times.total * rounding
    assert times.total <= (computed + times.communication) * rounding
    assert times.total <= ONE.time(steps).total * rounding
    assert times.total + times.hidden == pytest.approx(computed + times.communication)
    assert [one.step for one in times.schedule] == steps
    for kind in (Operation, Collective):
        mine = [one for one in times.schedule if isinstance(one.step, kind)]
        assert all(a.end <= b.start + 1e-9 for a, b in itertools.pairwise(mine))
    for one in times.schedule:
        assert -1e-9 <= one.start <= one.end <= times.total + 1e-9
        assert one.end - one.start == pytest.approx(ON.time_of(one.step), abs=1e-9)


@quick
@given(programs())
def test_steps_outside_of_loops_start_after_what_they_need(steps):
    ends = {one.step.number: one for one in ON.time(steps).schedule}
    for one in ends.values():
        for needed in one.step.needs:
            if not one.step.loops and not ends[needed].step.loops:
                assert ends[needed].end <= one.start + 1e-9
