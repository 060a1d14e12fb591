"""`Plan.why`: its figures are those of `nx.explain` of the same layout and of a sum by hand, and its reasons name what costs."""

import dataclasses

import jax
import pytest

import namedax as nx
from namedax import machines
from namedax.errors import ArgumentError, ArgumentTypeError, AxisResourceError, MeshError
from tests.harness import said
from tests.insight.planning.test_plan import SLOW, Config, abstract, mapped, network, shapes, transformer

ARGS = shapes(4096, 64, 128, 16)
MESH = abstract(x=8)


@pytest.fixture(scope="module")
def plan():
    return nx.plan(mapped(), *ARGS, mesh=MESH, machine=SLOW, memory=2e6)


def test_it_is_judged_as_the_search_does(plan):
    """Also a layout that was not a candidate."""
    only = nx.plan(mapped(), *ARGS, mesh=MESH, machine=SLOW, names=["batch"], memory=2e6)
    for each in (plan, only):
        why = each.why({"hidden": "x"})
        report = nx.explain(mapped(axis_resources={"hidden": "x"}, mesh=MESH), *ARGS)
        assert why.candidate.report.steps == report.steps
        assert why.candidate.time == report.time(SLOW)
        assert why.candidate.peak == report.memory.peak
        assert why.best is each.candidates[0]
        assert not why.is_best
        assert not why.error


def test_the_lines_add_up_and_name_what_costs(plan):
    why = plan.why({"hidden": "x"})
    best, other = why.best, why.candidate
    # Without overlap a step takes as long as its lines together, and every line as long as its steps.
    assert sum(change.other.total for change in why.lines) == pytest.approx(other.time)
    assert sum(change.best.total for change in why.lines) == pytest.approx(best.time)
    for change in why.lines:
        for times, report in ((change.best, best.report), (change.other, other.report)):
            steps = [step for step in report.steps if (step.source or "?") == change.line]
            assert times.total == pytest.approx(sum(SLOW.time_of(step, {"x": 8}) for step in steps))
            sent = [step for step in steps if hasattr(step, "wire_bytes")]
            assert times.communication == pytest.approx(sum(SLOW.time_of(step, {"x": 8}) for step in sent))
            assert sum(bytes_ for _, bytes_ in times.causes.values()) == sum(step.wire_bytes * step.trips for step in sent)
    differences = [abs(change.difference) for change in why.lines]
    assert differences == sorted(differences, reverse=True)
    # The second product sums over the hidden units: 4096 x 16 numbers, twice 7/8 of them on the wire.
    (cause, (seconds, sent)) = next(iter(why.lines[0].causes.items()))
    assert (cause.kind, cause.names, cause.mesh_axes) == ("all-reduce", ("hidden",), ("x",))
    assert sent == 2 * 7 * 4 * 4096 * 16 // 8
    assert seconds == pytest.approx(sent / 1e9 + 6e-6)
    assert why.lines[0].code.startswith("return nx.mean(nx.square(nx.dot(h, w2")
    assert "all-reduce for hidden over x +" in " ".join(str(why).split())
    assert "+448.0 KiB" in " ".join(str(why).split())


def test_what_does_not_fit_lists_the_memory(plan):
    why = plan.why({})
    report = nx.explain(mapped(), *ARGS)
    assert not why.candidate.fits
    # Every argument by hand: 4 bytes a number.
    memory = {change.what: (change.best, change.other) for change in why.memory}
    assert memory["argument images"] == (4 * 4096 * 64 // 8, 4 * 4096 * 64)
    assert memory["argument w1"] == (4 * 64 * 128, 4 * 64 * 128)
    arguments = [pair[1] for what, pair in memory.items() if what.startswith("argument ")]
    assert sum(arguments) == report.memory.arguments
    assert sum(pair[1] for pair in memory.values()) == report.memory.peak
    line, size = next(iter(report.memory.kept.items()))
    assert memory[f"residuals of {line}"][1] == size
    assert "other arguments" not in memory
    over = nx.hlo.size_text(report.memory.peak - 2_000_000)
    assert f"It does not fit: it needs {nx.hlo.size_text(report.memory.peak)} per device, {over} more than" in " ".join(
        str(why).split()
    )
    assert "1.0 MiB  argument images" in str(why)


def test_why_not_the_best(plan):
    why = plan.why(plan.best)
    assert why.is_best
    assert why.candidate is plan.candidates[0]
    assert not why.lines
    assert why.sentences[0].startswith("It is the best layout: ")
    assert plan.why({"batch": ("x",), "hidden": None}).is_best


def test_names_of_one_value_cannot_share_a_mesh_axis(plan):
    why = plan.why({"batch": "x", "hidden": "x"})
    assert why.candidate is None
    assert "axes 'batch' and 'hidden'" in why.error
    assert "both are mapped to mesh axis 'x'" in why.error
    text = " ".join(str(why).split())
    assert "The program does not allow it. dot: axes 'batch' and 'hidden'" in text


def test_sizes_that_do_not_divide_are_explained():
    plan = nx.plan(mapped(), *shapes(4096, 64, 30, 16), mesh=MESH, machine=SLOW)
    (sentence,) = plan.why({"hidden": "x"}).uneven
    assert sentence == (
        "The 30 elements of 'hidden' do not divide over 8 devices: each device computes a block of 4, 2 elements are padding."
    )
    assert "do not divide over 8 devices" in " ".join(str(plan.why({"hidden": "x"})).split())
    few = nx.plan(mapped(), *shapes(4096, 64, 9, 16), mesh=MESH, machine=SLOW)
    assert few.why({"hidden": "x"}).uneven[0].endswith("7 elements are padding, and 3 devices have only padding.")


def test_another_mesh_of_as_many_devices():
    plan = nx.plan(mapped(), *ARGS, mesh=8, machine=SLOW, names=["batch", "hidden"], tries=4)
    for mesh in ({"x": 2, "y": 4}, abstract(x=2, y=4)):
        why = plan.why({"batch": "x", "hidden": "y"}, mesh=mesh)
        assert why.mesh == {"x": 2, "y": 4}
        report = nx.explain(mapped(axis_resources={"batch": "x", "hidden": "y"}, mesh=abstract(x=2, y=4)), *ARGS)
        assert why.candidate.time == report.time(SLOW)
    assert "network on x=2, y=4 of slow" in str(why)


def test_steps_and_rings_are_compared_too():
    plan = nx.plan(mapped(), *ARGS, mesh=MESH, machine=SLOW, names=["batch"])
    why = plan.why({"batch": ("x", nx.SerialLoop(4))})
    assert why.candidate.axis_resources == {"batch": ("x", nx.SerialLoop(4))}
    with_ring = plan.why({"hidden": "x"}, overlap=True)
    assert with_ring.candidate.overlap is True
    hidden = [change for change in with_ring.lines if change.line == "overlap"]
    total = sum(change.other.total for change in with_ring.lines)
    assert total == pytest.approx(with_ring.candidate.time)
    for change in hidden:
        assert change.other.total <= 0
        assert change.reason.startswith("communication that overlaps")


def test_overlapping_communication_is_a_line_of_its_own():
    machine = dataclasses.replace(SLOW, overlap=True)
    plan = nx.plan(mapped(), *ARGS, mesh=MESH, machine=machine, names=["batch"])
    why = plan.why({"hidden": "x"})
    assert sum(change.other.total for change in why.lines) == pytest.approx(why.candidate.time)
    times = machine.time(why.candidate.report.steps, {"x": 8})
    if times.hidden:
        (change,) = (change for change in why.lines if change.line == "overlap")
        assert change.other.total == pytest.approx(-times.hidden)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_it_prints_in_a_hundred_columns_with_twelve_lines_at_most():
    config = Config(layers=2, embed=128, kv_heads=4, group=1, key=32, hidden=512, vocab=256, pos=64)
    f, args = transformer(config, 64)
    plan = nx.plan(f, *args, mesh=abstract(x=4, y=2), machine=machines.v5p, names=["batch", "hidden"], tries=3)
    why = plan.why({"hidden": ("x", "y")})
    text = str(why)
    assert max(map(len, text.splitlines())) <= 100
    rows = [line for line in text.split("\n\n")[2].splitlines()[1:] if line[:30].strip() and not line.startswith("…")]
    assert len(rows) <= 12
    memory = text.split("\n\n")[3].splitlines()
    assert len(memory) <= 13
    html = why._repr_html_()
    assert html.count("<table>") == 2
    assert "http" not in html
    assert repr(why) == text


def test_what_cannot_be_asked(plan):
    with pytest.raises(ArgumentError) as error:
        plan.why({"hiden": "x"})
    assert said(error.value) == (
        "Plan.why: the program has no axis 'hiden' to map. Choose from 'batch', 'hidden', 'inputs', 'outputs'. Did you mean 'hidden'?"
    )
    with pytest.raises(MeshError) as error:
        plan.why({"hidden": "y"})
    assert said(error.value) == (
        "Plan.why: axis_resources maps 'hidden' to 'y', but the mesh has the axes x=8. Choose one of them, or pass mesh=."
    )
    with pytest.raises(MeshError) as error:
        plan.why({"hidden": "x"}, mesh={"x": 4})
    assert said(error.value) == ("Plan.why: mesh={'x': 4} has 4 devices, but the plan is for 8. Pass sizes with the product 8.")
    with pytest.raises(ArgumentTypeError) as error:
        plan.why({"hidden": "x"}, mesh=8)
    assert said(error.value) == (
        "Plan.why: mesh=8 is neither a mesh nor a dict of the sizes of its axes. Pass a mesh, or sizes such as {'x': 8}."
    )
    with pytest.raises(AxisResourceError):
        plan.why("batch")


def test_a_faster_layout_than_the_best_is_said_to_be_one():
    """The search is told to look at one name only."""
    few = nx.plan(mapped(), *ARGS, mesh=MESH, machine=SLOW, names=["inputs"])
    why = few.why({"batch": "x"})
    assert why.candidate.time < why.best.time
    assert "less than the best layout" in why.sentences[0]
    assert "The search did not judge it. Call nx.plan with more tries= for a faster layout." in why.sentences


def test_a_plan_keeps_types_and_not_arrays():
    class Tracked(jax.Array):
        """Never made; the plan must not keep values."""

    arrays = [nx.named(jax.numpy.ones(leaf.data.shape), list(leaf.dims)) for leaf in ARGS]
    plan = nx.plan(mapped(), *arrays, mesh=MESH, machine=SLOW, names=["batch"], tries=2)
    leaves = jax.tree.leaves((plan.again.program.args, plan.again.program.kwargs))
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
    assert network.__name__ in str(plan)
