"""`passes=` of `xmap`: a pass over the traced program can be switched off, which changes what is sent or kept, and no result."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import SerialLoop, hlo
from namedax.errors import ArgumentError

PASSES = ("late_sums", "loop_casts", "serial_steps")
# Each pass left out, and all of them.
SETS = [tuple(name for name in PASSES if name != out) for out in PASSES] + [()]
B, E, H, LAYERS = 8, 4, 8, 3


def mesh():
    return jax.make_mesh((4, 2), ("d", "m"))


def loss(w, v, x):
    """Layers with a residual, whose weights a scan slices (`w`) and reads (`v`)."""

    def layer(h, w):
        hidden = nx.tanh(nx.dot(nx.rename(h, {"e": "k"}), nx.rename(w, {"e_st": "k"}), "k"))
        return h + nx.dot(hidden, nx.rename(v, {"e_st": "e"}), "h") - nx.mean(h, "b"), nx.sum(hidden, "h")

    last, sums = nx.scan(layer, x, w)
    return nx.mean(nx.sum(last**2, "e"), "b") + nx.mean(sums, ("b", 0))


def plain_loss(w, v, x):
    total = 0.0
    for one in w:
        hidden = jnp.tanh(x @ one)
        x = x + hidden @ v - x.mean(0)
        total += hidden.sum(1).mean() / LAYERS
    return (x**2).sum(1).mean() + total


def arguments():
    shapes = (LAYERS, E, H), (H, E), (B, E)
    return tuple(jnp.asarray(np.random.default_rng(i).normal(size=shape) / 3, jnp.float32) for i, shape in enumerate(shapes))


AXES = ([None, "e_st", "h"], ["h", "e_st"], ["b", "e"])
LAYOUTS = {
    "data": {"b": "d"},
    "data and tensors": {"b": "d", "h": "m"},
    "parameters in parts": {"b": "d", "e_st": "d", "h": "m"},
    "in steps": {"b": SerialLoop(4)},
    "in steps on devices": {"b": ("d", SerialLoop(2)), "h": "m"},
    "in steps, parameters in parts": {"b": ("d", SerialLoop(2)), "e_st": "d"},
    "layers in steps": {"h": SerialLoop(2), "b": "m"},
}


def mapped(resources, passes, inside):
    function = jax.value_and_grad(loss, (0, 1, 2)) if inside else loss
    out_axes = ([], AXES) if inside else []
    f = nx.xmap(function, AXES, out_axes, axis_resources=resources, mesh=mesh(), passes=passes)
    return f if inside else jax.value_and_grad(f, (0, 1, 2))


@functools.cache
def wanted():
    return jax.jit(jax.value_and_grad(plain_loss, (0, 1, 2)))(*arguments())


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("passes", SETS, ids=[*(f"without {name}" for name in PASSES), "without any"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_do_not_change(layout, passes, inside):
    have = jax.jit(mapped(LAYOUTS[layout], passes, inside))(*arguments())
    for one, other in zip(jax.tree.leaves(have), jax.tree.leaves(wanted()), strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def test_late_sums():
    def add(x, y):
        return nx.sum(x, "b") + nx.sum(nx.sin(y), "b")

    def sent(passes):
        f = nx.xmap(add, (["b", None], ["b", None]), [None], axis_resources={"b": "d"}, mesh=mesh(), passes=passes)
        return hlo.summary(f.lower(jnp.ones((B, E)), jnp.ones((B, E))).compile())["all-reduce"][1]

    assert sent(PASSES) == 4 * E
    assert sent(("loop_casts", "serial_steps")) == 8 * E
    assert sent(("late_sums",)) == sent(PASSES)


def test_loop_casts():
    def gradient(v, x):
        return nx.sum(nx.fori_loop(0, 5, lambda i, h: nx.tanh(h + nx.sin(v) * x), x), "b")

    def in_loops(passes):
        f = nx.xmap(gradient, ([None], ["b", None]), [None], axis_resources={"b": "d"}, mesh=mesh(), passes=passes)
        program = jax.jit(jax.grad(lambda v, x: f(v, x).sum())).lower(jnp.ones(E), jnp.ones((B, E))).compile()
        return [c.in_loop for c in hlo.collectives(program) if c.kind == "all-reduce"]

    assert not any(in_loops(PASSES))
    assert any(in_loops(("late_sums", "serial_steps")))


@pytest.mark.fast(0)
def test_serial_steps():
    """Without them the axis is executed at once; the name of a loop, too, needs no mesh axis."""

    def total(x):
        return nx.sum(nx.sin(x), "b")

    def program(passes, resource):
        f = nx.xmap(total, ["b", None], [None], axis_resources={"b": resource}, passes=passes)
        return f.lower(jnp.ones((B, E))).compile().as_text()

    for resource in (SerialLoop(4), "steps"):
        with nx.serial_loop("steps", 4):
            assert "while" in program(PASSES, resource)
            assert "while" not in program(("late_sums", "loop_casts"), resource)
            f = nx.xmap(total, ["b", None], [None], axis_resources={"b": resource}, passes=())
            np.testing.assert_allclose(
                f(jnp.ones((7, E))), np.full(E, 7 * np.sin(1)), rtol=1e-6
            )  # whatever the number of steps


def test_nested_functions_leave_out_what_either_does():
    def outer_passes(passes):
        inner = nx.xmap(
            lambda x: nx.sum(nx.sin(x), "b") + nx.sum(nx.cos(x), "b"), None, None, axis_resources={"b": "d"}, mesh=mesh()
        )
        f = nx.xmap(inner, ["b", None], [None], axis_resources={"b": "d"}, mesh=mesh(), passes=passes)
        return hlo.summary(f.lower(jnp.ones((B, E))).compile())["all-reduce"][1]

    assert outer_passes(PASSES) == 4 * E
    assert outer_passes(()) == 8 * E


def test_wrappers_with_other_passes_are_others():
    functions = [nx.xmap(loss, AXES, [], passes=passes) for passes in [PASSES, *SETS]]
    assert len(set(map(id, functions))) == 5
    assert all(nx.xmap(loss, AXES, [], passes=order) is functions[0] for order in itertools.permutations(PASSES))
    assert nx.xmap(loss, AXES, []) is functions[0]


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (
            "late_sums",
            r"xmap: passes='late_sums' must be a tuple of pass names\. Choose from 'late_sums', 'loop_casts', 'serial_steps'\.",
        ),
        (
            ("late_sum",),
            r"contains 'late_sum', which is not a pass\. Choose from 'late_sums', 'loop_casts', 'serial_steps'\. .*'late_sums'\?",
        ),
        ((3,), r"contains 3, which is not a pass"),
        (None, r"passes=None must be a tuple"),
    ],
)
def test_unknown_passes(passes, message):
    with pytest.raises(ArgumentError, match=message):
        nx.xmap(loss, AXES, [], passes=passes)
