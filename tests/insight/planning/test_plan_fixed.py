"""Names with a fixed mapping in `nx.plan`."""

import re

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from namedax import machines

SLOW = machines.Machine(
    flops={"float32": 1e12}, memory=1e12, bandwidth=1e12, links={...: machines.Link(1e9, 1e-6, "switch")}, name="slow"
)


def abstract(**sizes):
    """A mesh without devices."""
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes))


def loss(w1, w2, images):
    """Two layers with a loss."""
    h = nx.nn.relu(nx.dot(images, w1, "inputs"))
    return nx.mean(nx.square(nx.dot(h, w2, "hidden")), ["batch", "outputs"])


def program(**options):
    """The loss with its gradient."""
    return nx.xmap(jax.value_and_grad(loss, argnums=(0, 1)), **options)


def args(batch=1024, inputs=256, hidden=512, outputs=64):
    """The types of the arguments."""
    sizes = {"batch": batch, "inputs": inputs, "hidden": hidden, "outputs": outputs}
    shapes = (("inputs", "hidden"), ("hidden", "outputs"), ("batch", "inputs"))
    return [jax.eval_shape(lambda d=dims: nx.named(jnp.zeros([sizes[n] for n in d]), list(d))) for dims in shapes]


def has(resources, name, axes):
    """Return True if a layout maps a name to exactly these mesh axes."""
    entry = resources.get(name, ())
    return set(entry if isinstance(entry, tuple) else (entry,)) == set(axes)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("fixed", "axes"),
    [("y", {"y"}), (("x", "y"), {"x", "y"}), (("y",), {"y"}), (None, set()), ((), set())],
    ids=["one", "two", "tuple", "none", "empty"],
)
def test_every_layout_has_the_fixed_mapping(fixed, axes):
    plan = nx.plan(program(), *args(), mesh=abstract(x=4, y=2), machine=SLOW, fixed={"hidden": fixed}, tries=14)
    assert len(plan.candidates) > 3 or len(axes) == 2  # no other name can be beside it then
    for one in plan.candidates:
        assert has(one.axis_resources, "hidden", axes), one


@pytest.mark.fast(0)
def test_the_best_is_the_best_of_those_with_the_mapping():
    mesh = abstract(x=4, y=2)
    plan = nx.plan(program(), *args(), mesh=mesh, machine=SLOW, fixed={"outputs": "y"})
    times = []
    for batch in ((), ("x",), ("y",), ("x", "y")):
        for hidden in ((), ("x",)):
            for inputs in ((), ("x",), ("y",), ("x", "y")):
                resources = {"outputs": "y", "batch": batch, "hidden": hidden, "inputs": inputs}
                try:
                    f = program(axis_resources={n: a for n, a in resources.items() if a}, mesh=mesh)
                    times.append(nx.explain(f, *args()).time(SLOW))
                except nx.errors.NamedaxError:
                    continue
    assert plan.candidates[0].time <= min(times) * (1 + 1e-9)
    assert 0 < plan.bound <= min(times)
    assert plan.best["outputs"] == "y"


def test_interchangeable_mesh_axes_keep_their_fixed_names():
    mesh = abstract(data=2, model=2)
    plan = nx.plan(program(), *args(), mesh=mesh, machine=SLOW, fixed={"batch": "model"}, tries=12)
    assert all(has(one.axis_resources, "batch", {"model"}) for one in plan.candidates)
    assert any(has(one.axis_resources, "hidden", {"data"}) for one in plan.candidates)


def test_a_fixed_loop():
    plan = nx.plan(program(), *args(), mesh=abstract(x=4), machine=SLOW, fixed={"batch": ("x", nx.SerialLoop(4))}, tries=6)
    assert plan.best["batch"] == ("x", nx.SerialLoop(4))
    assert all(one.axis_resources["batch"] == ("x", nx.SerialLoop(4)) for one in plan.candidates)


def test_for_a_number_of_devices_mesh_axes_are_those_that_are_named():
    plan = nx.plan(program(), *args(), mesh=8, machine=SLOW, fixed={"batch": "data"}, tries=12)
    for one in plan.candidates:
        assert one.mesh["data"] > 1
        assert has(one.axis_resources, "batch", {"data"})
    assert len({tuple(one.mesh.items()) for one in plan.candidates}) > 1


def test_the_layout_of_the_function_gets_the_fixed_names():
    own = program(axis_resources={"batch": "x", "hidden": "y"}, mesh=abstract(x=4, y=2))
    plan = nx.plan(own, *args(), machine=SLOW, fixed={"batch": None}, tries=3)
    assert {"hidden": "y"} in [one.axis_resources for one in plan.candidates]
    assert not any("batch" in one.axis_resources for one in plan.candidates)


def test_a_fixed_name_may_be_uneven():
    plan = nx.plan(program(), *args(hidden=100), mesh=abstract(x=8), machine=SLOW, fixed={"hidden": "x"}, tries=4)
    assert plan.best["hidden"] == "x"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fixed": "batch"}, "plan: fixed='batch' must map names to mesh axes. Use fixed={'batch': 'x'}"),
        ({"fixed": {"bach": "x"}}, "plan: fixed= has 'bach', but the program has no axis 'bach'. Choose from 'batch'"),
        ({"fixed": {"batch": "z"}}, "plan: fixed= maps 'batch' to 'z', but the mesh axes are 'x', 'y'. Use one of these."),
        ({"fixed": {"batch": 3}}, "plan: fixed={'batch': 3} must be a mesh axis, an nx.SerialLoop, a tuple of mesh axes"),
        ({"fixed": {"batch": ("x", "x")}}, "plan: fixed={'batch': ('x', 'x')} has a mesh axis twice. List each one once."),
        (
            {"fixed": {"batch": "x"}, "names": ["hidden"]},
            "plan: fixed= maps 'batch', but names= does not contain it. Add 'batch' to names=, or remove it from fixed=.",
        ),
        (
            {"fixed": {"batch": "x"}, "loops": {"batch": [4]}},
            "plan: 'batch' is in fixed= and in loops=. Remove it from loops=, and fix its steps",
        ),
        (
            {"fixed": {"batch": "x", "inputs": "x"}},
            "plan: fixed= maps 'batch' and 'inputs' to 'x', but both occur in one value, whose axes need different mesh axes.",
        ),
        (
            {"fixed": {"batch": "x", "hidden": "x"}},
            "plan: fixed= maps 'batch' and 'hidden' to 'x', but both occur in one value",
        ),
        (
            {"fixed": {"outputs": "x"}, "outputs": 2},
            "plan: fixed= maps 'outputs' to 'x', which needs 4 elements, but it has size 2.",
        ),
    ],
    ids=["type", "name", "axis", "value", "twice", "names", "loops", "arguments", "inside", "size"],
)
def test_fixed_names_that_cannot_be(options, message):
    options = dict(options)
    arguments = args(outputs=options.pop("outputs", 64))
    with pytest.raises(nx.errors.ArgumentError, match=re.escape(message)):
        nx.plan(program(), *arguments, mesh=abstract(x=4, y=2), machine=SLOW, **options)
