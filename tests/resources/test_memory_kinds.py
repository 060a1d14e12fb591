"""Arrays in the memory of the host: results on the device, copies slice by slice in loops, and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import subjaxprs

import namedax as nx
from namedax.core import memory_kinds
from tests.harness import array, make_mesh
from tests.operations import OPERATIONS

RESOURCES = {"a": "x", "in": "y"}
HOST = {"memory_kind": "pinned_host"}


@pytest.fixture(autouse=True)
def no_host_arrays_before_or_after():
    """Each test finds a process that has seen none, and leaves one to tests that count function calls."""
    memory_kinds.host_seen.clear()
    yield
    memory_kinds.host_seen.clear()


def kinds(tree):
    return {leaf.sharding.memory_kind for leaf in jax.tree.leaves(tree)}


def close(tree, expected):
    for leaf, other in zip(jax.tree.leaves(tree), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(leaf), np.asarray(other), rtol=1e-5, atol=1e-5)


def on_device(tree, expected):
    assert kinds(tree) == {"device"}
    close(tree, expected)


@pytest.fixture(params=["auto", "explicit"])
def mesh(request):
    mesh = make_mesh((4, 2), request.param)
    with jax.set_mesh(mesh):
        yield mesh


def placed(mesh, *arrays, **options):
    return nx.shard(list(arrays), RESOURCES, mesh, **options)


def weights():
    return nx.named(array(3, 8, 8, seed=1) / 4, ["layer", "in", "out"])


def inputs():
    return nx.named(array(4, 8, seed=2), ["a", "in"])


def layer(x, w):
    return nx.tanh(nx.rename(nx.dot(x, w, "in"), {"out": "in"}))


def layers(x, w, **options):
    return nx.fold(layer, x, w, axis="layer", **options)


def in_jnp(x, w):
    for one in w:
        x = jnp.tanh(x @ one)
    return x


# --- placement ------------------------------------------------------------------------------------


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("padded", [False, True])
def test_arrays_keep_their_memory(mesh, padded):
    sizes = (7, 3) if padded else (8, 4)
    x = nx.named(array(*sizes), ["a", "b"])
    (stored,) = placed(mesh, x, padded=padded, **HOST)
    assert stored.sharding.memory_kind == "pinned_host"
    assert "f32<host>[]{a:" in repr(stored)
    assert kinds(placed(mesh, stored, padded=padded)) == {"device"}
    assert kinds(jax.tree.map(lambda leaf: leaf, stored)) == {"pinned_host"}
    close(nx.positional(stored, ["a", "b"]), array(*sizes))
    moved = jax.jit(lambda x: placed(mesh, placed(mesh, x, padded=padded)[0] * 2, padded=padded, **HOST))(stored)
    assert kinds(moved) == {"pinned_host"}
    assert moved[0].named_shape == x.named_shape
    on_device(nx.positional(moved[0], ["a", "b"]), 2 * array(*sizes))


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["pinned", "unpinned_host", 3])
def test_unknown_kinds(kind):
    mesh = make_mesh((4, 2))
    with pytest.raises(nx.errors.ArgumentError, match=r"shard: memory_kind=.* Choose from 'device', 'pinned_host', or omit it"):
        placed(mesh, inputs(), memory_kind=kind)


@pytest.mark.fast(1)
def test_not_with_narrow_formats():
    mesh = make_mesh((4, 2))
    with pytest.raises(nx.errors.ArgumentError, match="memory_kind='pinned_host' is given with wire="):
        placed(mesh, inputs(), wire="bf16", **HOST)


# --- operations -----------------------------------------------------------------------------------


@pytest.mark.full(6)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "operation", sorted(OPERATIONS.keys() - {"where", "segment_sum"})
)  # need the sizes of a mapped function
def test_results_of_operations_are_on_the_device(operation):
    named, plain, out_axes = OPERATIONS[operation]
    mesh = make_mesh((4, 2))
    data = array(8, 4)
    (x,) = nx.shard([nx.named(data, ["a", "b"])], {"a": "x"}, mesh, **HOST)
    for call in (named, named, jax.jit(named)):
        on_device(nx.positional(call(x), out_axes), plain(data))


@pytest.mark.fast(0)
def test_operands_in_both_memories(mesh):
    (near,), (far,) = placed(mesh, inputs()), placed(mesh, inputs(), **HOST)
    for f in (lambda a, b: a + b, lambda a, b: nx.numpy.hypot(b, a), lambda a, b: nx.where(a > 0, a, b)):
        for call in (f, f, jax.jit(f)):
            on_device(call(near, far), f(near, near))
            on_device(call(far, far), f(near, near))


# --- mapped functions -----------------------------------------------------------------------------


def mapped(f, mesh, **options):
    return nx.xmap(f, None, None, axis_resources=RESOURCES, mesh=mesh, **options)


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("options", [{}, {"partitioning": "global"}, {"partitioning": "auto"}, {"jit": False}], ids=str)
def test_results_of_mapped_functions_are_on_the_device(options):
    mesh = make_mesh((4, 2))
    w, x = placed(mesh, weights(), inputs(), **HOST)
    scale = nx.shard([jnp.arange(3.0)], {}, mesh, **HOST)[0]

    def f(w, x, scale):
        return w, layers(x, w), nx.sum(x * x, ...) + jnp.sin(scale).sum()

    results = mapped(f, mesh, **options)(w, x, scale)
    on_device(results, f(weights(), inputs(), jnp.arange(3.0)))


@pytest.mark.fast(1)
def test_an_array_that_is_used_twice_is_copied_once():
    mesh = make_mesh((4, 2))
    (x,) = placed(mesh, inputs(), **HOST)
    f = mapped(lambda x: nx.sum(x * x, ...) + nx.sum(nx.sin(x), ...), mesh)
    assert copies(jax.grad(f), x) == [((1, 4), False), ((1, 4), True)]
    close(jax.grad(f)(x), jax.grad(f)(placed(mesh, inputs())[0]))


# --- loops ----------------------------------------------------------------------------------------


def copies(f, *args):
    """The shapes of copies between the memories in a traced program, and whether they go to the host."""
    found = []

    def visit(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "device_put":
                before, after = (var.aval.memory_space for var in (eqn.invars[0], eqn.outvars[0]))
                found.extend([(eqn.outvars[0].aval.shape, after is jax.memory.Space.Host)] * (before is not after))
        for inner in subjaxprs(jaxpr):
            visit(inner)

    visit(jax.make_jaxpr(f)(*args).jaxpr)
    return found


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("options", [{}, {"prefetch": 1}, {"remat": "full"}, {"remat": "gathers", "prefetch": 1}], ids=str)
@pytest.mark.parametrize("wrapped", ["direct", "manual", "global", "steps"])
def test_loops_copy_one_slice_in_each_step(mesh, options, wrapped):
    (x,), (w,) = placed(mesh, inputs()), placed(mesh, weights(), **HOST)
    expected, pull = jax.vjp(in_jnp, array(4, 8, seed=2), array(3, 8, 8, seed=1) / 4)

    def run(x, w):
        return layers(x, w, **options)

    if wrapped == "steps":
        run = nx.xmap(run, None, None, axis_resources={**RESOURCES, "a": ("x", nx.SerialLoop(1)), "in": "y"}, mesh=mesh)
    elif wrapped != "direct":
        run = mapped(run, mesh, partitioning=wrapped)
    result, transpose = jax.vjp(jax.jit(run), x, w)
    on_device(nx.positional(result, ["a", "in"]), expected)
    of_x, of_w = transpose(result)
    assert kinds(of_x) == {"device"}
    assert kinds(of_w) == {"pinned_host"}  # the types of JAX require it
    close((nx.positional(of_x, ["a", "in"]), nx.positional(of_w, ["layer", "in", "out"])), pull(expected))
    shapes = {shape for shape, _ in copies(lambda x, w: jax.vjp(run, x, w)[1](result), x, w)}
    assert shapes <= {(8, 8), (4, 8), ()}, shapes


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{"a": nx.SerialLoop(2)}, {"a": ("x", nx.SerialLoop(2)), "in": "y"}], ids=str)
def test_the_gradient_of_an_argument_of_steps_is_where_the_argument_is(mesh, resources):
    plain = array(8, 8, seed=2)
    (stored,) = placed(mesh, nx.named(plain, ["a", "in"]), **HOST)
    f = nx.xmap(lambda x: nx.sort(x, "in") * nx.max(nx.sin(x), "a"), axis_resources=resources, mesh=mesh)
    value, gradient = jax.jit(jax.value_and_grad(lambda x: nx.sum(nx.sin(f(x)), ...)))(stored)
    want = jax.value_and_grad(lambda x: jnp.sum(jnp.sin(jnp.sort(x, 1) * jnp.sin(x).max(0))))(plain)
    assert kinds(gradient) == {"pinned_host"}
    close((value, nx.positional(gradient, ["a", "in"])), want)


@pytest.mark.fast(0)
def test_gradients_within_a_body_are_on_the_device():
    mesh = make_mesh((4, 2))
    (x,), (w,) = placed(mesh, inputs()), placed(mesh, weights(), **HOST)
    f = jax.grad(lambda w, x: nx.sum(layers(x, w), ...))
    on_device(mapped(f, mesh)(w, x), f(weights(), inputs()))


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("options", [{}, {"remat": "full"}, {"prefetch": 1}], ids=str)
def test_arrays_that_a_loop_closes_over_are_copied_before_it(mesh, options):
    def f(w, x, b, **options):
        return nx.sum(nx.fold(lambda x, w: layer(x, w) + b * b, x, w, axis="layer", **options), ...)

    arrays = weights(), inputs(), nx.named(array(8, seed=3), ["in"])
    stored = placed(mesh, *arrays, **HOST)
    expected = jax.grad(f, (0, 1, 2))(*arrays)
    for run in (f, mapped(f, mesh)):
        close(jax.jit(jax.grad(lambda *arrays, run=run: run(*arrays), (0, 1, 2)))(*stored), expected)
    program = jax.make_jaxpr(lambda *arrays: f(*arrays, **options))(*stored)
    assert str(program).count("device_put") == (4 if options.get("prefetch") and mesh.axis_types[0].name == "Auto" else 3)


@pytest.mark.fast(0)
def test_a_stack_with_another_order_is_copied_before_the_loop():
    mesh = make_mesh((4, 2))
    w = nx.named(jnp.moveaxis(array(3, 8, 8, seed=1) / 4, 0, 1), ["in", "layer", "out"])
    (w,), (x,) = placed(mesh, w, **HOST), placed(mesh, inputs())
    on_device(nx.positional(layers(x, w), ["a", "in"]), in_jnp(array(4, 8, seed=2), array(3, 8, 8, seed=1) / 4))
    assert copies(lambda w: layers(x, w), w) == [((8, 3, 8), False)]


# --- the state of an optimizer --------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_training_step_with_moments_in_the_memory_of_the_host(mesh):
    optax = pytest.importorskip("optax")
    adam = optax.adam(0.1)
    x, w = placed(mesh, inputs(), weights())

    def step(w, state, x, stored):
        gradient = jax.grad(lambda w: nx.sum(layers(x, w) ** 2, ...))(w)
        if stored:
            state = nx.shard(state, RESOURCES, mesh)
        updates, state = adam.update(gradient, state, w)
        w = optax.apply_updates(w, updates)
        return w, nx.shard(state, RESOURCES, mesh, **HOST) if stored else state

    state = nx.shard(adam.init(w), RESOURCES, mesh, **HOST)
    expected, plain = w, adam.init(w)
    run = jax.jit(step, static_argnums=3, donate_argnums=1)
    for _ in range(2):
        w, state = run(w, state, x, True)
        expected, plain = run(expected, plain, x, False)
        assert kinds(w) == {"device"}
        assert kinds(state) == {"pinned_host"}
    close((w, state), (expected, plain))


def closing_over_an_array_of_jax(kind):
    mesh = make_mesh((8,), kind)
    w = nx.named(jax.device_put(array(8), jax.NamedSharding(mesh, jax.P(), memory_kind="pinned_host")), ["k"])
    x = nx.named(array(16, 8, seed=2), ["b", "k"])
    return nx.xmap(lambda x: nx.dot(x * w, w, "k"), axis_resources={"b": "x"}, mesh=mesh)(x)


def test_a_body_may_close_over_an_array_that_jax_has_put_on_the_host():
    found = closing_over_an_array_of_jax("auto")
    w, x = np.asarray(array(8)), np.asarray(array(16, 8, seed=2))
    on_device(found, nx.named(jnp.asarray(x * w) @ w, ["b"]))


def test_on_explicit_axes_such_an_array_is_an_argument():
    with pytest.raises(
        nx.errors.MeshError,
        match=r"closes over an array in the memory of the host on Explicit axes, float32<host>.*Pass it as an argument",
    ):
        closing_over_an_array_of_jax("explicit")
