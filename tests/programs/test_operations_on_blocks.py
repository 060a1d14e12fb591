"""Operations with an algorithm for blocks, in bodies that are traced on global shapes: they send what they send in a body on blocks."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import array, make_mesh

SEGMENTS = np.array([2, 0, 1, 1, 0, 2, 2, 0])

# Functions of an array with the axes a (8), b (4) and c (3).
OPERATIONS = {
    "sort": lambda x: nx.sort(x, "a"),
    "argsort": lambda x: x * nx.argsort(x, "a"),
    "top_k": lambda x: nx.top_k(x, 3, axis="a", out_axis="k").values,
    "median": lambda x: nx.median(x, "a"),
    "quantile": lambda x: nx.quantile(x, 0.3, "b"),
    "roll": lambda x: nx.roll(x, 1, "a"),
    "roll by a NumPy array": lambda x: nx.roll(x, np.array([3, -1]), ("a", "b")),
    "shift": lambda x: nx.shift(x, 1, "b"),
    "halo": lambda x: nx.halo(x, "a", mode="wrap", out_axis="w"),
    "diff": lambda x: nx.diff(x, axis="a", out_axis="d"),
    "cumsum": lambda x: nx.cumsum(x, "a"),
    "cumprod": lambda x: nx.cumprod(x, "b"),
    "cummax": lambda x: nx.lax.cummax(x, "a"),
    "var": lambda x: nx.var(x, "a"),
    "prod": lambda x: nx.prod(x, "a"),
    "max": lambda x: nx.max(x, ("a", "b")),
    "argmax": lambda x: x * nx.argmax(x, "a"),
    "flip": lambda x: nx.flip(x, "a"),
    "segment_max": lambda x: nx.segment_max(x, nx.named(SEGMENTS, ["a"]), 3, axis="a", out_axis="s"),
    "an element": lambda x: x["a", 5],
    "at[...].set": lambda x: x.at["a", 2:5].set(0.5),
    "avg_pool": lambda x: nx.nn.avg_pool(x, {"a": 3}, strides={"a": 1}, padding="SAME"),
}


def total(f):
    return lambda x: nx.sum(nx.sin(f(nx.cos(x))), ...)


def collectives(f, x, resources, mesh, partitioning):
    """The kinds, shapes and numbers of collectives in the compiled program."""
    mapped = nx.xmap(f, axis_resources=resources, mesh=mesh, partitioning=partitioning)
    return collections.Counter(map(str, nx.hlo.collectives(mapped.lower(x).compile())))


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("resources", [{"a": "x", "b": "y"}, {"a": ("x", "y")}, {"b": "x"}], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_values_gradients_and_collectives(name, resources, kind):
    mesh, f = make_mesh((2, 2), kind), OPERATIONS[name]
    x = nx.named(array(8, 4, 3), ["a", "b", "c"])
    for g in (f, jax.grad(total(f)), lambda x: nx.scan(lambda c, k: (c, jax.checkpoint(f)(c * k)), x, jnp.arange(2.0))[1]):
        expected = g(x)
        result = nx.xmap(g, axis_resources=resources, mesh=mesh, partitioning="global")(x)
        np.testing.assert_allclose(nx.order_like(result, expected).data, expected.data, rtol=1e-5, atol=1e-5)
        sent = [collectives(g, x, resources, mesh, partitioning) for partitioning in ("manual", "global")]
        assert sent[0] == sent[1]
    outside = jax.jit(jax.grad(lambda x: total(nx.xmap(f, axis_resources=resources, mesh=mesh, partitioning="global"))(x)))
    np.testing.assert_allclose(outside(x).data, jax.grad(total(f))(x).data, rtol=1e-5, atol=1e-5)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("resources", [{"a": "x", "z": "y"}, {"b": "y", "z": "x"}, {"z": ("x", "y")}], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_beside_names_that_only_other_arrays_have(name, resources, kind):
    """The operation runs over all mesh axes of the body: JAX combines no values of bodies over different ones."""
    x, z = nx.named(array(8, 4, 3), ["a", "b", "c"]), nx.named(array(4, seed=1), ["z"])

    def step(x, z):
        y = OPERATIONS[name](x) * nx.sum(z, "z")
        return y, jax.grad(lambda x: nx.sum(nx.sin(OPERATIONS[name](x)) * nx.roll(x, 1, "a") * nx.max(z, "z"), ...))(x)

    result = nx.xmap(step, axis_resources=resources, mesh=make_mesh((2, 2), kind), partitioning="global")(x, z)
    for have, want in zip(result, step(x, z), strict=True):
        np.testing.assert_allclose(nx.order_like(have, want).data, want.data, rtol=1e-4, atol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{"a": "x"}, {"b": "y"}], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_beside_an_explicit_mesh_axis_that_is_not_mapped(name, resources):
    """The types in the body have no Explicit axes: it sends what it sends on a mesh of Auto axes."""
    x, scale = nx.named(array(8, 4, 3), ["a", "b", "c"]), nx.named(array(4, seed=1), ["b"])

    def gradient(scale):  # it closes over an array that is sharded over an Explicit axis
        return jax.grad(total(lambda x: jax.checkpoint(OPERATIONS[name])(x * scale)))

    expected, sent = gradient(scale)(x), []
    for kind in ("auto", "explicit"):
        mesh = make_mesh((2, 2), kind)
        with jax.set_mesh(mesh):
            placed = nx.shard(scale, {"b": "y"}, mesh)
            f = nx.xmap(gradient(placed), axis_resources=resources, partitioning="global")
            compiled = jax.jit(f).lower(x).compile()
            np.testing.assert_allclose(nx.order_like(compiled(x), expected).data, expected.data, rtol=1e-4, atol=1e-5)
        sent.append(collections.Counter(map(str, nx.hlo.collectives(compiled))))
    assert sent[0] == sent[1]


@pytest.mark.parametrize("outer", ["manual", "global"])
def test_in_a_mapped_function_beside_an_explicit_mesh_axis(outer):
    x, mesh, options = nx.named(array(4, 4), ["a", "b"]), make_mesh((2, 2), "explicit"), {"axis_resources": {"a": "x"}}

    def body(x):
        return nx.roll(x, 1, "a") * nx.max(x, "a")

    def loss(x):
        return nx.sum(nx.sin(nx.xmap(body, partitioning="global", **options)(x)), ...)

    expected = jax.grad(lambda x: nx.sum(nx.sin(body(x)), ...))(x)
    with jax.set_mesh(mesh):
        for gradient in (
            nx.xmap(jax.grad(loss), partitioning=outer, **options),
            jax.grad(nx.xmap(loss, partitioning=outer, **options)),
        ):
            np.testing.assert_allclose(jax.jit(gradient)(x).data, expected.data, rtol=1e-5, atol=1e-6)


SEVERAL = {
    "a maximum of maxima": lambda x: nx.max(nx.max(x, "a"), "b"),
    "an element of an element": lambda x: x["a", -1]["b", 1],
    "two axes": lambda x: nx.flip(x, ("a", "b")),
    "at[...].apply": lambda x: x.at["a", 1:4].apply(lambda v: nx.sin(v) * 2),
}


@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(1))])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_operations_and_axes(name, kind):
    x = nx.named(array(8, 4, 3), ["a", "b", "c"])
    f = nx.xmap(SEVERAL[name], axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((2, 2), kind), partitioning="global")
    np.testing.assert_allclose(f(x).data, SEVERAL[name](x).data, rtol=1e-6)


def test_what_does_not_support_padding_runs_on_global_shapes():
    x = nx.named(array(7, 4), ["a", "b"])

    def body(x):
        return nx.roll(x, nx.argmax(x["b", 0], "a"), "a")

    f = nx.xmap(body, axis_resources={"a": "x"}, mesh=make_mesh((2, 2)), partitioning="global")
    np.testing.assert_array_equal(f(x).data, body(x).data)


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "resources",
    [{"a": "x", "b": nx.SerialLoop(2)}, {"a": ("x", nx.SerialLoop(2))}, {"a": "x", "z": ("y", nx.SerialLoop(2))}],
    ids=str,
)
def test_beside_and_along_loops(resources):
    x, z = nx.named(array(8, 4, 3), ["a", "b", "c"]), nx.named(array(4, seed=1), ["z"])

    def gradient(x, z):
        return jax.grad(lambda x: nx.sum(nx.cumsum(nx.sin(x), "a") * nx.cumsum(x * x, "b") * nx.sum(z, "z"), ...))(x)

    result = nx.xmap(gradient, axis_resources=resources, mesh=make_mesh((2, 2)), partitioning="global")(x, z)
    np.testing.assert_allclose(result.data, gradient(x, z).data, rtol=1e-5, atol=1e-5)


@pytest.mark.full(8)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.fast(0)
def test_sizes_that_do_not_divide(name):
    if name == "segment_max":
        pytest.skip("the segments are those of eight elements")
    x = nx.named(array(7, 5, 3), ["a", "b", "c"])
    gradient = jax.grad(total(OPERATIONS[name]))
    resources = {"a": "x", "b": "y"}
    result = nx.xmap(gradient, axis_resources=resources, mesh=make_mesh((2, 2)), partitioning="global")(x)
    np.testing.assert_allclose(result.data, gradient(x).data, rtol=1e-5, atol=1e-5)


# --- functions of the user ------------------------------------------------------------------------

OPERANDS = {
    "tokens": ((8, 4), ["token", "embed"]),
    "weights": ((4, 4, 6), ["expert", "embed", "out"]),
    "router": ((4, 4), ["embed", "route"]),
    "scale": ((4, 6), ["expert", "out"]),
}


def with_data(x, data):
    return nx.NamedArray(data, x.dims)


def of_the_data(w, x):
    """A function of JAX that mixes elements, and reads the sizes, of global arrays."""
    y = nx.dot(x, w, "embed")
    at = y.dims.index("expert")
    shape = [y.data.shape[at] if i == at else 1 for i in range(y.data.ndim)]
    return with_data(y, jnp.sort(y.data, y.dims.index("out")) * jnp.arange(1.0, shape[at] + 1).reshape(shape) / w.data.shape[0])


@jax.custom_vjp
def halved(v):
    return v / 2


halved.defvjp(lambda v: (v / 2, v.shape), lambda shape, ct: (ct / 2,))


def of_loops_and_rules(w, x):
    """Functions of JAX whose constants, carries and branches have the types of the operands."""
    y = nx.dot(x, w, "embed")
    scale = jax.lax.scan(lambda c, v: (c + v.mean(), None), 0.0, w.data)[0]
    scale = jax.lax.cond(scale > 0, lambda s: s * 2, lambda s: 1.0, scale)
    return with_data(y, halved(jax.nn.relu(y.data)) * scale + jnp.arange(y.data.shape[0], dtype=np.float32)[:, None, None])


EXPERTS = {
    "of loops and rules": lambda scale: of_loops_and_rules,
    "of named arrays": lambda scale: lambda w, x: nx.tanh(nx.dot(x, w, "embed")),
    "with a closed-over array": lambda scale: lambda w, x: nx.dot(x, w, "embed") * scale,
    "of the data": lambda scale: of_the_data,
}


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "resources", [{"token": "x", "expert": "x"}, {"expert": "x", "out": "y"}, {"token": ("x", "y"), "expert": "y"}], ids=str
)
@pytest.mark.parametrize("capacity", [None, 4])
@pytest.mark.parametrize("name", EXPERTS)
def test_experts_get_global_arrays(name, capacity, resources):
    def loss(x, w, router, scale):
        routing = nx.nn.top_k_routing(nx.dot(x, router, "embed"), "route", 2)
        y = nx.nn.mixture_of_experts(EXPERTS[name](scale), w, x, routing, tokens="token", capacity=capacity)
        return nx.sum(y * y, ...)

    operands = [nx.named(array(*shape, seed=seed), names) for seed, (shape, names) in enumerate(OPERANDS.values())]
    step = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
    result = nx.xmap(step, axis_resources=resources, mesh=make_mesh((2, 2)), partitioning="global")(*operands)
    for have, want in zip(jax.tree.leaves(result), jax.tree.leaves(step(*operands)), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)


def test_an_expert_prints_once(capfd):
    def body(x, w, router):
        def expert(w, x):
            jax.debug.print("expert {}", nx.sum(w, ...))
            return nx.dot(x, w, "embed")

        routing = nx.nn.top_k_routing(nx.dot(x, router, "embed"), "route", 2)
        return nx.nn.mixture_of_experts(expert, w, x, routing, tokens="token", capacity=4)

    operands = [nx.named(array(*shape), names) for shape, names in list(OPERANDS.values())[:3]]
    f = nx.xmap(body, axis_resources={"token": "x", "expert": "x"}, mesh=make_mesh((2, 2)), partitioning="global")
    jax.block_until_ready(f(*operands))
    jax.effects_barrier()
    assert capfd.readouterr().out.count("expert") == 1


def layer(w, x):
    return nx.tanh(nx.rename(nx.dot(x, w, "c"), {"d": "c"}))


def layer_of_data(w, x):
    """It scales by the size of a global array."""
    y = layer(w, x)
    return with_data(y, y.data / w.data.shape[0])


def layer_that_gathers(w, x):
    """It sorts by JAX, which gathers the axis of the microbatches: a pipeline of blocks cannot."""
    y = layer(w, x)
    return with_data(y, y.data + jnp.sort(y.data, y.dims.index("c")))


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("layer", [layer, layer_of_data, layer_that_gathers])
@pytest.mark.parametrize("resources", [{"layers": "x", "batch": "y"}, {"layers": ("x", "y")}], ids=str)
def test_layers_of_pipelines_get_global_arrays(layer, resources):
    w, x = nx.named(array(4, 3, 3), ["layers", "c", "d"]), nx.named(array(8, 3), ["batch", "c"])

    def loss(w, x):
        return nx.sum(nx.pipeline(layer, x, w, over="batch", microbatches=4) ** 2, ...)

    step = jax.value_and_grad(loss, argnums=(0, 1))
    mapped = nx.xmap(step, axis_resources=resources, mesh=make_mesh((2, 2)), partitioning="global")
    for have, want in zip(jax.tree.leaves(mapped(w, x)), jax.tree.leaves(step(w, x)), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)
    if layer is not layer_that_gathers:
        kinds = {c.kind for c in nx.hlo.collectives(mapped.lower(w, x).compile())}
        assert "collective-permute" in kinds
        assert "all-gather" not in kinds
