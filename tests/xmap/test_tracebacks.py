"""What a user sees of the frames between a call of a mapped function and the line of the body that failed."""

from __future__ import annotations

import contextlib
import gc
import traceback
import weakref

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from tests.harness import make_mesh

pytestmark = pytest.mark.usefixtures("tracebacks_as_for_users")

X = jnp.ones((8, 4))


def misspelt(x):
    return nx.sum(x, "kk")


def body(x):
    return misspelt(nx.sin(x))


def nested(x):
    return nx.xmap(body)(x)


def looped(x):
    return nx.scan(lambda total, row: (total + misspelt(row), None), 0.0, x, axis="batch")[0]


def own(x):
    try:
        raise KeyError("first")
    except KeyError as error:
        second = RuntimeError("second")
        second.add_note("a note")
        raise second from error


def mapped(fun, **options):
    options = {"axis_resources": {"k": "x"}, "mesh": make_mesh((2,))} | options
    return nx.xmap(fun, [["batch", "k"]], **options)


CALLS = {
    "eager": lambda f, x: f(x),
    "jit": lambda f, x: jax.jit(f)(x),
    "grad": lambda f, x: jax.grad(lambda x: jnp.sum(f(x)))(x),
    "jit of grad": lambda f, x: jax.jit(jax.grad(lambda x: jnp.sum(f(x))))(x),
}


def frames(error):
    """Of each frame its function, and whether it is one of namedax."""
    return [
        (frame.f_code.co_name, frame.f_globals["__name__"].startswith("namedax"))
        for frame, _ in traceback.walk_tb(error.__traceback__)
    ]


def raised(kind, call, fun, **options):
    with pytest.raises(kind) as caught:
        CALLS[call](mapped(fun, **options), X)
    return caught.value


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("fun", "users"), [(body, ["body"]), (nested, ["nested", "body"]), (looped, ["looped", "<lambda>"])])
def test_the_frames_are_the_users_and_the_last_of_namedax(call, fun, users):
    found = frames(raised(nx.errors.AxisNotFoundError, call, fun))
    assert [is_ours for _, is_ours in found] == [False] * (len(found) - 1) + [True]
    assert [name for name, _ in found[-2 - len(users) :]] == [*users, "misspelt", "raise_not_found"]


@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_the_user_is_left_as_it_is(call):
    error = raised(RuntimeError, call, own)
    assert not any(is_ours for _, is_ours in frames(error))
    assert frames(error)[-1][0] == "own"
    assert isinstance(error.__cause__, KeyError)
    assert frames(error.__cause__) == [("own", False)]
    assert error.__notes__[0] == "a note"


@pytest.mark.parametrize(
    "options", [{"axis_resources": None, "mesh": None}, {"axis_resources": None, "mesh": None, "jit": False}], ids=str
)
def test_unmapped_and_not_compiled(options):
    assert sum(is_ours for _, is_ours in frames(raised(nx.errors.AxisNotFoundError, "eager", body, **options))) == 1


def test_what_is_wrong_before_the_body_has_one_frame_of_namedax():
    error = raised(nx.errors.MeshError, "eager", body, axis_resources={"k": "nowhere"})
    assert [is_ours for _, is_ours in frames(error)][-2:] == [False, True]


def test_an_error_that_no_line_of_the_user_has_made_keeps_all_frames():
    with pytest.raises(ValueError, match=r"list\.remove") as caught:
        nx.xmap([].remove)(nx.named(X, ["batch", "k"]))
    assert sum(is_ours for _, is_ours in frames(caught.value)) > 3


def test_it_is_switched_off_as_jax_switches_off_its_own():
    jax.config.update("jax_traceback_filtering", "off")
    try:
        assert sum(is_ours for _, is_ours in frames(raised(nx.errors.AxisNotFoundError, "eager", body))) > 3
    finally:
        jax.config.update("jax_traceback_filtering", "auto")


class Large:
    """Stands for what a body holds."""


MISTAKES = {
    "not found": (misspelt, nx.errors.AxisNotFoundError),
    "placement": (lambda x: nx.rename(x, {"batch": "k2"}), nx.errors.PlacementConflictError),
    "uneven": (
        lambda x: x + nx.split_axis(nx.ones(named_shape={"odd": 3}), "odd", {"i": 3, "j": 1}),
        nx.errors.UnevenAxisError,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("filtering", ["auto", "off"])
def test_an_error_that_was_handled_keeps_nothing_alive(mistake, filtering):
    call, kind = MISTAKES[mistake]
    held = []

    def holds(x):
        large = Large()
        held.append(weakref.ref(large))
        return call(x)

    jax.config.update("jax_traceback_filtering", filtering)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(kind):
            mapped(holds, axis_resources={"k": "x", "k2": "x", "odd": "x"})(X)
        # the body runs again for the size of `odd`
        assert [reference() for reference in held] == [None] * (2 if mistake == "uneven" else 1)
    finally:
        gc.enable()
        jax.config.update("jax_traceback_filtering", "auto")
