"""`nx.debug.check`: one error with the axis names and the first index, in every layout. The oracle is NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.errors import ArgumentTypeError, CheckFailedError

VALUES = np.arange(30, dtype=np.float32).reshape(10, 3)
LAYOUTS = [
    {},
    {"batch": "data"},  # uneven: 10 over 4 devices
    {"k": "model"},
    {"batch": ("data", "model"), "k": ()},
    {"batch": nx.SerialLoop(5)},
]


def x():
    return nx.named(jnp.asarray(VALUES), ["batch", "k"])


def plain(v, limit):
    nx.debug.check(v < limit, "v is small")
    return nx.sum(v * v, ...)


def scan(v, limit):
    def step(c, row):
        nx.debug.check(row < limit, "v is small")
        return c + nx.sum(row * row, "k"), None

    return nx.scan(step, jnp.zeros(()), v, axis="batch")[0]


def branch(v, limit):
    return nx.cond(nx.sum(v, ...) > 0, lambda v: plain(v, limit), lambda v: nx.sum(v, ...), v)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("partitioning", ["manual", "auto"])
def test_layouts(layout, kind, partitioning):
    layout = {name: axes for name, axes in layout.items() if axes != ()}
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)
    f = nx.xmap(lambda v: plain(v, 20), axis_resources=layout, mesh=mesh, partitioning=partitioning)
    g = nx.xmap(lambda v: plain(v, 30), axis_resources=layout, mesh=mesh, partitioning=partitioning)
    with pytest.raises(CheckFailedError, match=r"debug.check: v is small: 10 of 30 elements of bool.* are False") as error:
        with nx.debug.checks():
            f(x())
    assert error.value.index == {"batch": 6, "k": 2}
    with nx.debug.checks():
        np.testing.assert_allclose(g(x()), (VALUES**2).sum())
    f(x())  # without the context nothing is checked


def fori_loop(v, limit):
    def step(i, c):
        row = v["batch", i]
        nx.debug.check(row < limit, "v is small")
        return c + nx.sum(row * row, "k")

    return nx.fori_loop(0, 10, step, jnp.zeros(()))


def while_loop(v, limit):
    def step(carry):
        i, c = carry
        nx.debug.check(c < limit * 60, "the sum is small")
        return i + 1, c + nx.sum(v["batch", i] ** 2, "k")

    return nx.while_loop(lambda carry: carry[0] < 10, step, (0, jnp.zeros(())))[1]


def mapped_rows(v, limit):
    def row(r):
        nx.debug.check(r < limit, "v is small")
        return nx.sum(r * r, "k")

    return nx.sum(nx.vmap(row, "batch")(v), "batch")


def checkpoint(v, limit):
    return jax.checkpoint(lambda v: plain(v, limit))(v)


def jitted(v, limit):
    return jax.jit(lambda v: plain(v, limit))(v)


def mapped_again(v, limit):
    return nx.xmap(lambda v: plain(v, limit))(v)


FORMS = [plain, scan, branch, fori_loop, mapped_rows, checkpoint, jitted, mapped_again]
LOOPS = (scan, fori_loop)


@pytest.mark.full(9)
@pytest.mark.parametrize("form", [*FORMS, while_loop])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.grad, lambda f: jax.jit(jax.grad(f))])
def test_forms_and_transformations(form, transform):
    if form is while_loop:  # JAX has no gradient of it
        transform = {jax.grad: lambda f: f}.get(transform, jax.jit)
    with pytest.raises(CheckFailedError) as error:
        with nx.debug.checks():
            transform(lambda v: form(v, 20))(x())
    assert error.value.index == ({"k": 2} if form in LOOPS else {} if form is while_loop else {"batch": 6, "k": 2})
    with nx.debug.checks():
        transform(lambda v: form(v, 200))(x())


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if () not in layout.values()], ids=str)
@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("with_gradient", [False, True])
def test_forms_in_layouts(form, layout, with_gradient):
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def f(limit):
        g = nx.xmap(lambda v: form(v, limit), axis_resources=layout, mesh=mesh)
        return jax.grad(g) if with_gradient else g

    with pytest.raises(CheckFailedError, match="v is small") as error:
        with nx.debug.checks():
            f(20)(x())
    assert error.value.index == ({"k": 2} if form in LOOPS else {"batch": 6, "k": 2})
    with nx.debug.checks():
        result = f(200)(x())
    want = nx.named(2 * jnp.asarray(VALUES), ["batch", "k"]) if with_gradient else (VALUES**2).sum()
    np.testing.assert_allclose(
        *(nx.positional(v, ["batch", "k"]) if isinstance(v, nx.NamedArray) else v for v in (result, want))
    )


def test_of_a_batch_of_jax():
    def f(v):
        nx.debug.check(v < 20, "v is small")
        return nx.sum(v * v, ...)

    rows = nx.named(jnp.asarray(VALUES), [None, "k"])
    with pytest.raises(CheckFailedError, match="v is small") as error:
        with nx.debug.checks():
            jax.vmap(f)(rows)
    assert 6 in error.value.index.values()
    assert error.value.index["k"] == 2


def test_off_costs_nothing():
    plainly = str(jax.make_jaxpr(lambda v: nx.sum(v * v, ...))(x()))

    def f(v):
        nx.debug.check(True, "m")
        return nx.sum(v * v, ...)

    assert str(jax.make_jaxpr(f)(x())) == plainly
    with nx.debug.checks(), nx.debug.checks(False):
        nx.debug.check(False, "m")
    with nx.debug.checks():
        assert str(jax.make_jaxpr(f)(x())) != plainly


def test_eager_and_wrong_arguments():
    with nx.debug.checks():
        with pytest.raises(CheckFailedError, match=r"debug.check: m: it is False"):
            nx.debug.check(False, "m")
        with pytest.raises(CheckFailedError, match="position 1: 0"):
            nx.debug.check(jnp.array([[False]]), "m")
    with pytest.raises(ArgumentTypeError, match="the predicate must be a boolean array, got f32"):
        nx.debug.check(x(), "m")
    with pytest.raises(ArgumentTypeError, match="the message must be a string"):
        nx.debug.check(x() > 0, 3)
