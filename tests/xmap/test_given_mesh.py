"""The mesh on which results are: the given one, or its copy with Auto axes where JAX has no gradients on Explicit ones.

`jax.make_mesh` makes Explicit axes. JAX cannot start the eager gradient of a scalar whose type mentions them, without
`jax.set_mesh` (`test_jax_has_no_eager_gradient_on_explicit_axes`). So a program of arrays that are not placed runs on
Auto axes, unless `jax.set_mesh` says otherwise: the same traced program has to serve an eager gradient.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import namedax as nx
from tests.harness import Lazily, array

optax = Lazily("optax")

MESHES = {"1-D": ((4,), ("x",), {"batch": "x"}), "2-D": ((4, 2), ("x", "y"), {"batch": "x", "k": "y"})}
KINDS = {"Auto": AxisType.Auto, "Explicit": AxisType.Explicit}
SIZES = {"even": (8, 6), "uneven": (10, 6)}


def mesh_of(which, kind):
    shape, axes, _ = MESHES[which]
    return jax.make_mesh(shape, axes, axis_types=(KINDS[kind],) * len(shape))


def named(size, seed=0):
    return nx.named(array(*size) + seed, ["batch", "k"])


def mapped(function, which, mesh, **options):
    return nx.xmap(function, axis_resources=MESHES[which][2], mesh=mesh, **options)


def double(x):
    return nx.sin(x) * 2


def nested(x):
    return nx.xmap(double)(x) + 1


def on(array):
    return array.sharding.mesh.axis_types[0]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("which", MESHES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_placed", [False, True], ids=["unplaced", "placed"])
@pytest.mark.parametrize("body", [double, nested])
def test_under_set_mesh_all_results_and_gradients_are_on_the_given_mesh(which, kind, size, is_placed, body):
    mesh, x = mesh_of(which, kind), named(SIZES[size])
    f = mapped(body, which, mesh)
    want = np.asarray(body(x).data)
    with jax.set_mesh(mesh):
        y = nx.shard(x, MESHES[which][2], mesh, padded=False) if is_placed else x

        def loss(x):
            return jnp.mean(f(x).data * jnp.cos(x.data))

        for call in (f, jax.jit(f)):
            result = call(y)
            assert on(result) == KINDS[kind]
            np.testing.assert_allclose(result.data + call(x).data, 2 * want, rtol=1e-5)
            np.testing.assert_allclose((result + call(x)).data, 2 * want, rtol=1e-5)
        gradient = jax.grad(loss)(y)
        assert on(gradient) == KINDS[kind]
        slope = jax.grad(lambda x: jnp.mean(body(nx.named(x, ["batch", "k"])).data * jnp.cos(x)))(x.data)
        np.testing.assert_allclose(gradient.data, slope, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(gradient.data + f(y).data, slope + want, rtol=1e-4, atol=1e-6)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("which", MESHES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step_of_optax_under_set_mesh(which, kind):
    mesh, w, x = mesh_of(which, kind), named((8, 6)), named((8, 6), 1)
    f = mapped(lambda w, x: nx.sum((w * x - 1) ** 2, ("batch", "k")), which, mesh)
    optimizer = optax.adam(0.1)

    def step(w, state):
        updates, state = optimizer.update(jax.grad(f)(w, x), state, w)
        return optax.apply_updates(w, updates), state

    with jax.set_mesh(mesh):
        placed = nx.shard(w, MESHES[which][2], mesh, padded=False)
        state = optimizer.init(placed)
        eager, _ = step(placed, state)
        jitted, _ = jax.jit(step, donate_argnums=(0, 1))(placed, state)
    assert on(eager) == on(jitted) == KINDS[kind]
    by_hand = jax.grad(lambda w: jnp.sum((w * x.data - 1) ** 2))(w.data)
    update, _ = optimizer.update(by_hand, optimizer.init(w.data), w.data)
    for result in (eager, jitted):
        np.testing.assert_allclose(result.data, w.data + update, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("which", MESHES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_donated_argument_on_the_given_mesh(which, kind):
    mesh, x = mesh_of(which, kind), named((8, 6))
    f = mapped(double, which, mesh, donate_argnums=0)
    given = nx.shard(x, MESHES[which][2], mesh, padded=False)
    given = jax.tree.map(jnp.copy, given)
    result = f(given)
    assert on(result) == KINDS[kind]
    np.testing.assert_allclose(result.data, 2 * np.sin(x.data), rtol=1e-6)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("which", MESHES)
@pytest.mark.parametrize("kind", ["Explicit", pytest.param("Auto", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("size", SIZES)
def test_without_set_mesh_arrays_meet_by_name(which, kind, size):
    mesh, x = mesh_of(which, kind), named(SIZES[size])
    f = mapped(double, which, mesh)
    placed = nx.shard(x, MESHES[which][2], mesh, padded=False)
    want = 2 * np.sin(x.data)
    np.testing.assert_allclose((f(x) + f(placed)).data, 2 * want, rtol=1e-5)
    np.testing.assert_allclose((f(x) + placed).data, want + x.data, rtol=1e-5)
    np.testing.assert_allclose(
        (jax.grad(lambda x: nx.sum(f(x), ("batch", "k")))(x) * f(placed)).data, 2 * np.cos(x.data) * want, rtol=1e-5
    )


# Each of them fails in JAX if results of arrays that are not placed are on Explicit axes.
WITHOUT_SET_MESH = {
    "gradient of jnp's sum": lambda f, x, y: jax.grad(lambda x: jnp.sum(f(x).data))(x),
    "gradient over an eager result": lambda f, x, y: jax.grad(lambda x: jnp.sum(f(x * y).data))(x),
    "a target": lambda f, x, y: jax.grad(lambda x: jnp.sum((f(x).data - y.data) ** 2))(x),
    "a residual": lambda f, x, y: jax.grad(lambda x: jnp.sum((f(x).data - x.data) ** 2))(x),
    "gradient of jit": lambda f, x, y: jax.grad(jax.jit(lambda x: jnp.sum(f(x).data)))(x),
    "jit and eager": lambda f, x, y: jax.jit(f)(x).data + f(x).data,
    "gradient and result": lambda f, x, y: jax.grad(lambda x: jnp.sum(f(x).data))(x).data + f(x).data,
}


@pytest.mark.fast(6)
@pytest.mark.parametrize("program", WITHOUT_SET_MESH)
@pytest.mark.parametrize("kind", ["Explicit", pytest.param("Auto", marks=pytest.mark.fast(0))])
def test_without_set_mesh_programs_of_arrays_that_are_not_placed_run(program, kind):
    mesh, x = mesh_of("2-D", kind), named((8, 6))
    f = mapped(double, "2-D", mesh)
    result = WITHOUT_SET_MESH[program](f, x, f(x))
    want = WITHOUT_SET_MESH[program](double, x, double(x))
    np.testing.assert_allclose(*(getattr(r, "data", r) for r in (result, want)), rtol=1e-4, atol=1e-6)


@pytest.mark.fast(0)
@pytest.mark.parametrize("is_jitted", [False, True], ids=["eager", "jit"])
def test_jax_has_no_eager_gradient_on_explicit_axes(is_jitted):
    """The reason, in JAX alone. If this fails, such results can be on the given mesh (`mesh_for`)."""
    mesh = mesh_of("2-D", "Explicit")
    x = jax.device_put(array(8, 6), NamedSharding(mesh, PartitionSpec("x", "y")))

    def total(x):
        return jnp.sum(jnp.sin(x))

    gradient = jax.grad(jax.jit(total) if is_jitted else total)
    with pytest.raises(ValueError, match=r"jax\.set_mesh"):
        gradient(x)
    with jax.set_mesh(mesh):
        np.testing.assert_allclose(gradient(x), np.cos(x), rtol=1e-6)
