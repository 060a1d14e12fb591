"""What a user sees of the frames between a call of a mapped function and the line of the body that failed."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import traceback
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import make_mesh

pytestmark = pytest.mark.usefixtures("tracebacks_as_for_users")

X = make.ones((8, 4))


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


def test_what_is_wrong_before_the_body_has_at_most_two_of_namedax():
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


# --- outside of mapped functions ------------------------------------------------------------------

WRONG = [
    'nx.sum(x, "bacth")',
    'x.sum("bacth")',
    'nx.mean(x, "batch,k")',
    "nx.sum(x, 0)",
    "nx.sum(x)",
    'nx.sum(x, axes="k")',
    'nx.argmax(x, "q")',
    'nx.sort(x, "q")',
    'nx.quantile(x, 0.5, "batch", method="liner")',
    'nx.roll(x, 1.5, "batch")',
    'nx.rename(x, {"batch": "k"})',
    'x.rename({"q": "k"})',
    'nx.named(jnp.ones(3), ["a", "b"])',
    'nx.named(jnp.ones((2, 3)), "batch k")',
    'nx.positional(x, ["batch", "q"])',
    'nx.untag(x, ["q"])',
    "np.asarray(x)",
    "np.sin(x)",
    "float(x)",
    "x + odd",
    "x * odd",
    "x - odd",
    "odd @ x",
    "x < odd",
    'x["bacth", 0]',
    'x["batch", 9]',
    "x[0]",
    'x.at["q", 0].set(1.0)',
    "x.isel(k=3)",
    "x == x or x",
    "bool(x)",
    'nx.dot(x, x, "q")',
    "nx.einsum('{batch,k->{batch}', x)",
    "nx.einsum('{batch,k},{k,j}->{batch,j}', x, x)",
    'nx.rearrange(x, "{k=(group within)} -> {group, within}", group=4)',
    'nx.rearrange(x, "a b -> c")',
    'nx.stack([x, odd], "k")',
    'nx.split_axis(x, "k", {"a": 4, "b": 2})',
    'nx.take(x, odd, "q")',
    'nx.numpy.sum(x, axis="bacth")',
    'nx.numpy.mean(x, "batch", out=jnp.zeros(6))',
    "nx.numpy.dot(x, x)",
    "nx.numpy.ravel(x)",
    'nx.numpy.fft.fft(x, axis="q")',
    "nx.numpy.add(x)",
    'nx.lax.cumsum(x, axis="h")',
    "nx.lax.top_k(x, 3)",
    'nx.lax.axis_index("h")',
    'nx.nn.softmax(x, "z")',
    "nx.nn.gelu(x, True, 3)",
    'nx.nn.one_hot(x, 3, "batch")',
    'nx.random.normal(jax.random.key(0), named_shape=["a"])',
    'nx.random.permutation(jax.random.key(0), x, "q")',
    'nx.shard(x, {"f": "g"})',
    'nx.shard(x, {"batch": "nowhere"}, mesh)',
    "nx.plan(3)",
    "nx.explain(x)",
    'nx.xmap(jnp.sin, axis_resources={"batch": "x"})(x)',
    'nx.ones(named_shape={"a": -1})',
    'nx.arange(axis="pos")',
    'nx.scan(lambda c, row: (c, row), 0.0, x, axis="q")',
    'nx.vmap(lambda row: nx.sum(row, "zz"), "batch")(x)',
    'nx.convolve(x, odd, axis="q")',
    'nx.checkpoints.restore("/nonexistent/of/namedax", x)',
    'nx.typing.check(x, nx.typing.f32[{"batch"}])',
]


def eager_error(program):
    x, odd = nx.named(jnp.ones((8, 6)), ["batch", "k"]), nx.named(jnp.ones(5), ["k"])
    scope = {"__name__": "user", "nx": nx, "jnp": jnp, "np": np, "jax": jax, "x": x, "odd": odd, "mesh": make_mesh((2,))}
    with pytest.raises(nx.errors.NamedaxError) as caught:
        eval(program, scope)
    return caught.value


@pytest.mark.parametrize("program", WRONG)
def test_an_eager_error_shows_the_line_and_at_most_two_of_namedax(program):
    error = eager_error(program)
    assert sum(is_ours for _, is_ours in frames(error)) <= 2
    assert "<module>" in [name for name, _ in frames(error)[-4:]]
    # nothing is added by an error that led to this one
    text = "".join(traceback.format_exception(error))
    package = pathlib.Path(nx.__file__).parent  # the folder of a clone may have the same name
    assert text.count(f'File "{package}{os.sep}') <= 2


def test_the_frames_of_an_eager_error_are_shown_if_jax_shows_its_own():
    jax.config.update("jax_traceback_filtering", "off")
    try:
        assert sum(is_ours for _, is_ours in frames(eager_error('nx.sum(x, "bacth")'))) > 5
    finally:
        jax.config.update("jax_traceback_filtering", "auto")


def test_an_error_in_a_function_that_an_eager_operation_calls_shows_its_line():
    with pytest.raises(nx.errors.AxisNotFoundError) as caught:
        looped(nx.named(X, ["batch", "k"]))
    assert [name for name, is_ours in frames(caught.value) if not is_ours][-3:] == ["looped", "<lambda>", "misspelt"]
    assert sum(is_ours for _, is_ours in frames(caught.value)) == 1


def rooted(x):
    return nx.sqrt(x)


def roots(x):
    return nx.sum(rooted(x), ["batch", "k"])


@pytest.mark.fast(1)
@pytest.mark.parametrize("axis_type", ["Explicit", "Auto"])
@pytest.mark.parametrize("call", ["eager", "jit of grad"])
def test_debug_nans_points_at_the_line_of_a_mapped_function(call, axis_type):
    mesh = jax.make_mesh((2,), ("x",), (getattr(jax.sharding.AxisType, axis_type),), devices=jax.devices()[:2])
    f = mapped(roots, mesh=mesh)
    with jax.debug_nans(True):
        assert CALLS["eager"](f, X) == 32
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in sqrt") as info:
            CALLS[call](f, -X)
    functions = [frame.name for frame in traceback.extract_tb(info.tb) if frame.filename == __file__]
    assert functions[-2:] == ["roots", "rooted"]
    assert len(functions) < 6


def test_debug_nans_where_the_line_is_unknown():
    def on_blocks(x):  # it needs the mesh
        return nx.NamedArray(nx.nmap(lambda b: jnp.sqrt(b + jax.lax.axis_index("x") * 0.0), collectives=True)(x.data), x.dims)

    f = nx.xmap(on_blocks, axis_resources={"k": "x"}, mesh=make_mesh((2,)))
    with jax.debug_nans(True), pytest.raises(Exception, match="nan") as info:
        f(nx.named(-X, ["batch", "k"]))
    (note,) = [note for note in info.value.__notes__ if note.startswith("namedax: ")]
    assert note.startswith("namedax: on_blocks has a NaN or an infinity, and the line is unknown")
    assert note.endswith('nx.debug.print("{x}", x=x).')


def test_an_error_of_user_code_is_not_searched_for_nans():
    calls = []

    def failing(x):
        calls.append(x)
        raise FloatingPointError("mine")

    with pytest.raises(FloatingPointError, match="mine"):
        mapped(failing)(X)
    assert len(calls) == 1
