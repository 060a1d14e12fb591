"""`xmap` inside of `xmap`, inside of JAX's transformations and of `jax.shard_map`, and around them. Oracles are `jnp`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import (
    AxisNotFoundError,
    AxisResourceError,
    AxisSizeError,
    MeshError,
    NamedAxesLeftError,
    PlacementConflictError,
    SerialLoopError,
)
from namedax.hlo import summary
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh

X, Y = array(8, 4, 6), array(6, 5, seed=1)


def covariance(x):
    """A helper of one level: its names are its own, and the names of its caller are batch names."""
    inner = nx.xmap(lambda rows: nx.dot(rows, rows.rename(n="m"), "k"), (["k", "n"],), ["n", "m"])
    return inner(x)


INNER = {"k": None, "n": None}


@pytest.mark.parametrize("placement", [*PLACEMENTS, *PARTITIONER], ids=str)
def test_outer_names_are_batch_names(placement):
    def body(x):
        helper = nx.xmap(lambda x: nx.sum(x**2, "k"), (["k"],), [])
        return helper(x) + nx.sum(x)

    check(body, lambda x: (x**2).sum(2) + x.sum(2), [X], ["a", "b", None], ["a", "b"], placement)


@pytest.mark.parametrize("placement", FEW, ids=str)
def test_results_that_are_placed_and_carried(placement):
    def body(x, y):
        matmul = nx.xmap(lambda x, y: nx.dot(x, y, "k"), (["k"], ["k", "d"]), ["d"])
        result = matmul(x, y)
        assert result.shape == (5,)
        assert set(result.named_shape) == {"a", "b"}
        return nx.sum(result)

    check(body, lambda x, y: (x @ y).sum(-1), [X, Y], (["a", "b", None], [None, None]), ["a", "b"], placement)


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
@pytest.mark.parametrize("jit", [True, False])
def test_named_arrays_in_and_out(placement, jit):
    def body(x):
        inner = nx.xmap(lambda x, scale: {"y": x * scale, "total": nx.sum(x, "b")}, jit=jit)
        result = inner(x, 2.0)
        return result["y"] + result["total"]

    check(body, lambda x: 2 * x + x.sum(1, keepdims=True), [X], ["a", "b", None], ["a", "b", None], placement)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("inner", [{"k": "y"}, {"d": "y"}, {}], ids=str)
def test_inner_resources_on_other_mesh_axes(kind, inner):
    mesh = make_mesh((4, 2), kind)

    def body(x, y):
        matmul = nx.xmap(lambda x, y: nx.tanh(nx.dot(x, y, "k")), (["k"], ["k", "d"]), ["d"], axis_resources=inner)
        return matmul(x, y)

    y = array(6, 4, seed=1)
    f = nx.xmap(body, (["a", "b", None], [None, None]), ["a", "b", None], axis_resources={"a": "x"}, mesh=mesh)

    def loss(f):
        return lambda x, y: jnp.sum(jnp.sin(f(x, y)))

    with jax.set_mesh(mesh):
        np.testing.assert_allclose(jax.jit(f)(X, y), jnp.tanh(X @ y), rtol=2e-5, atol=2e-5)
        have = jax.jit(jax.grad(loss(f), argnums=(0, 1)))(X, y)
    for h, w in zip(have, jax.jit(jax.grad(loss(lambda x, y: jnp.tanh(x @ y)), argnums=(0, 1)))(X, y), strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-4)


def test_inner_resources_communicate_on_their_axis_alone():
    def body(x, y):
        return nx.xmap(lambda x, y: nx.dot(x, y, "k"), (["k"], ["k"]), [], axis_resources={"k": "y"})(x, y)

    f = nx.xmap(body, (["a", None], [None]), ["a"], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    compiled = jax.jit(f).lower(array(8, 6), array(6)).compile()
    np.testing.assert_allclose(compiled(array(8, 6), array(6)), array(8, 6) @ array(6), rtol=1e-5)
    assert summary(compiled) == {"all-reduce": (1, 8)}


AFTERWARDS = {
    "nothing": (lambda y, x: y, lambda y, x: y, "x"),
    "elementwise": (lambda y, x: y * 2 + x, lambda y, x: y * 2 + x, "x"),
    "two operands": (lambda y, x: nx.where(y > 0, y, x), lambda y, x: jnp.where(y > 0, y, x), "x"),
    "softmax": (lambda y, x: nx.nn.softmax(y, "b"), lambda y, x: jax.nn.softmax(y, 2), "x"),
    "loop": (
        lambda y, x: nx.fori_loop(0, 2, lambda i, c: c * 1.5 + y, x),
        lambda y, x: (x * 1.5 + y) * 1.5 + y,
        "x",
    ),
    # What JAX does not do along a sharded dimension is done on the whole one.
    "roll": (lambda y, x: nx.roll(y, 1, "b"), lambda y, x: jnp.roll(y, 1, 2), None),
    "sort": (lambda y, x: nx.sort(y, "b") * x, lambda y, x: jnp.sort(y, 2) * x, None),
    "update": (lambda y, x: y.at["b", 1].set(x["b", 2]), lambda y, x: y.at[..., 1].set(x[..., 2]), None),
    "outer product": (
        lambda y, x: nx.sum(y * nx.rename(y, {"b": "c"}), "c"),
        lambda y, x: y * y.sum(2, keepdims=True),
        None,
    ),
}


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("case", "outer", "kind"),
    [
        *((case, {"a": "y"}, "explicit") for case in AFTERWARDS),
        ("elementwise", {"a": "y"}, "auto"),
        *((case, {}, "explicit") for case in ("nothing", "two operands", "roll")),
    ],
    ids=str,
)
def test_a_result_of_an_inner_function_stays_where_its_names_are(case, outer, kind):
    use, oracle, placed = AFTERWARDS[case]
    mesh = make_mesh((2, 2), kind)
    x = array(2, 5, 4)

    def body(x):
        return use(nx.xmap(nx.sin, axis_resources={"b": "x"}, mesh=mesh)(x), x)

    f = nx.xmap(body, (["a", None, "b"],), ["a", None, "b"], axis_resources=outer, mesh=mesh)

    def loss(f):
        return lambda x: jnp.sum(jnp.cos(f(x)))

    with jax.set_mesh(mesh):
        have, gradient = jax.jit(f)(x), jax.jit(jax.grad(loss(f)))(x)
    np.testing.assert_allclose(have, oracle(jnp.sin(x), x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, jax.grad(loss(lambda x: oracle(jnp.sin(x), x)))(x), rtol=1e-4, atol=1e-5)
    if placed is not None:
        assert have.sharding.shard_shape(have.shape) == (1 if outer else 2, 5, 2)


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("outer", [{"a": "y"}, {}], ids=str)
def test_a_result_of_an_inner_function_is_not_gathered(outer, kind):
    mesh = make_mesh((2, 2), kind)

    def body(x):
        return nx.xmap(nx.sin, axis_resources={"b": "x"}, mesh=mesh)(x) * 2

    f = nx.xmap(body, axis_resources=outer, mesh=mesh)
    x = nx.named(array(2, 5, 4), ["a", None, "b"])
    with jax.set_mesh(mesh):
        sent = summary(jax.jit(f).lower(x).compile())
    # JAX before 0.12 lowers an outer function on Explicit axes with results that are replicated over the axes of the inner one.
    is_lowered_whole = outer and kind == "explicit" and jax.__version_info__ < (0, 12)
    assert sent == ({"all-gather": (1, 80)} if is_lowered_whole else {})
    placed = nx.shard(x, {**outer, "b": "x"}, mesh)
    result = f(placed)
    np.testing.assert_allclose(result.data, 2 * np.sin(x.data), rtol=1e-5)
    assert result.sharding.shard_shape(result.data.shape) == (1 if outer else 2, 5, 2)


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_an_inner_name_on_a_mesh_axis_that_is_taken(kind):
    # What does not vary over the axis is cut to blocks, and what is placed is gathered.
    def body(x, y):
        square = nx.xmap(lambda y: y**2, ["k"], ["k"], axis_resources={"k": "x"})
        return x * nx.sum(square(y))

    f = nx.xmap(body, (["a"], [None]), ["a"], axis_resources={"a": "x"}, mesh=make_mesh((4, 2), kind))
    x, y = array(8), array(4)
    np.testing.assert_allclose(f(x, y), x * (y**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda y: jnp.sum(f(x, y)))(y), 2 * y * x.sum(), rtol=1e-4)


def test_an_outer_name_gets_a_resource_inside():
    def body(x):
        inner = nx.xmap(lambda x: nx.sum(x**2, "b") + x, axis_resources={"b": "y"})
        return inner(x)

    f = nx.xmap(body, ["a", "b"], ["a", "b"], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    x = array(8, 4)
    np.testing.assert_allclose(f(x), (x**2).sum(1, keepdims=True) + x, rtol=1e-5)


@pytest.mark.fast(0)
def test_within_a_function_without_resources():
    mesh = make_mesh((4, 2))

    def body(x):
        inner = nx.xmap(lambda x: x / nx.sum(x, "k"), ["k"], ["k"], axis_resources={"k": "x"}, mesh=mesh)
        return inner(nx.exp(x))

    f = nx.xmap(body, ["a", None], ["a", None])
    x = array(3, 8)
    np.testing.assert_allclose(f(x), jax.nn.softmax(x, 1), rtol=1e-5)
    np.testing.assert_allclose(
        jax.grad(lambda x: f(x)[0, 2])(x), jax.jit(jax.grad(lambda x: jax.nn.softmax(x, 1)[0, 2]))(x), atol=1e-6
    )


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("partitioning", ["manual", "global"])
@pytest.mark.parametrize(
    ("outer", "inner"), [("y", "x"), ("z", "x"), ("z", "y"), ("y", ("x", "z")), (("x", "z"), "y"), ("x", "z")], ids=str
)
def test_an_inner_mesh_axis_may_come_before_an_outer_one(outer, inner, partitioning, kind):
    """In JAX since 0.11, XLA ends the process where `jax.shard_map` is nested so and maps only some of the axes of the mesh."""
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(kind,) * 3, devices=jax.devices()[:8])

    def softmax(x, w):
        e = nx.exp(x * w)
        return e / nx.sum(e, "b")

    def body(x, w):
        f = nx.xmap(softmax, axis_resources={"b": inner}, mesh=mesh, partitioning=partitioning)
        return f(x, w) * nx.sum(x, ("a", "b"))

    def oracle(x, w):
        return jax.nn.softmax(x * w, 1) * x.sum()

    f = nx.xmap(body, (["a", "b"], ["a"]), ["a", "b"], axis_resources={"a": outer}, mesh=mesh)
    x, w = array(4, 8), array(4)
    columns = w[:, None]
    with jax.set_mesh(mesh):
        have, gradient = jax.jit(f)(x, w), jax.jit(jax.grad(lambda x, w: jnp.sum(jnp.sin(f(x, w)))))(x, w)
    np.testing.assert_allclose(have, oracle(x, columns), rtol=1e-5)
    np.testing.assert_allclose(
        gradient, jax.grad(lambda x, w: jnp.sum(jnp.sin(oracle(x, w))))(x, columns), rtol=1e-4, atol=1e-6
    )


@pytest.mark.fast(0)
def test_three_levels():
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"))

    def innermost(x):
        return nx.xmap(lambda x: nx.sum(x, "c"), ["c"], [], axis_resources={"c": "z"})(x)

    def inner(x):
        return nx.xmap(lambda x: innermost(x) / nx.lax.psum(1, "b"), ["b", None], ["b"], axis_resources={"b": "y"})(x)

    f = nx.xmap(inner, ["a", None, None], ["a", None], axis_resources={"a": "x"}, mesh=mesh)
    x = array(4, 6, 8)
    np.testing.assert_allclose(f(x), x.sum(2) / 6, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: jnp.sum(f(x) ** 2)))(x), jnp.broadcast_to((x.sum(2) / 18)[..., None], x.shape),
                               rtol=1e-4, atol=1e-6)  # fmt: skip


def test_gradients_inside():
    def body(w, x):
        loss = nx.xmap(lambda w, x: nx.mean(nx.dot(x, w, "k") ** 2, "n"), (["k"], ["n", "k"]), [])
        return jax.grad(lambda w: nx.sum(loss(w, x), "a"))(w)

    f = nx.xmap(body, ([None], ["a", None, None]), [None], axis_resources={"a": "x"}, mesh=make_mesh((8,)))
    w, x = array(3), array(8, 4, 3)
    want = jax.jit(jax.grad(lambda w: jnp.sum(jnp.mean((x @ w) ** 2, 1))))(w)
    np.testing.assert_allclose(f(w, x), want, rtol=1e-5)


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_in_scan_and_vmap_within_the_body(placement):
    def body(x):
        normalise = nx.xmap(lambda x: x / (1 + nx.sum(x**2, "k")), ["k"], ["k"])
        x, _ = jax.lax.scan(lambda x, _: (normalise(x), None), x, None, length=2)
        return x

    def oracle(x):
        for _ in range(2):
            x = x / (1 + (x**2).sum(-1, keepdims=True))
        return x

    check(body, oracle, [X], ["a", "b", None], ["a", "b", None], placement)


# --- what comes from the body outside -------------------------------------------------------------------------------


def scaled(values, closed, factor):
    """Sums of closed-over values, through transformations that take arrays apart and put them together."""
    helper = jax.jit(lambda k, v: v * nx.sum(nx.sin(k), "k"))
    weighted = jax.checkpoint(lambda k: nx.sum(nx.sort(k, "k") * nx.arange(6.0, axis="k"), "k"))
    last, _ = nx.scan(lambda c, entry: (c + factor * entry, None), values * 0.0, closed, axis="k")
    return helper(closed, values) + weighted(closed) * values + last


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("outer", "inner", "shape", "partitioning"),
    [
        ({"a": "x"}, {"k": "y"}, (4, 2), "manual"),  # a mesh axis of its own
        ({"a": "x"}, {"k": "x"}, (2, 4), "manual"),  # one that is taken
        ({"a": "x", "unused": "y"}, {"k": "y"}, (4, 2), "manual"),  # one that the outer function uses, but for nothing here
        ({}, {"k": "x"}, (2, 4), "manual"),
        ({"a": "x", "k": "y"}, {}, (4, 2), "manual"),
        ({"a": "x"}, {"k": "x"}, (2, 4), "auto"),
    ],
    ids=str,
)
def test_an_inner_function_closes_over_values_of_the_outer_one(outer, inner, shape, partitioning):
    # What is whole outside is a block inside, where its name is mapped there only.
    mesh = make_mesh(shape)

    def body(x, w, _):
        closed = nx.named(w, ["k"]) * 2
        gives = nx.xmap(lambda v: scaled(v, closed, 3.0), axis_resources=inner, mesh=mesh)
        gives_named = nx.xmap(lambda v: (nx.cumsum(closed, "k"), v), axis_resources=inner, mesh=mesh)
        # Renamed inside, it shares what it remembers with the value outside.
        renamed = nx.xmap(lambda v: v * nx.sum(closed.rename(k="q") ** 2, "q"), axis_resources=inner, mesh=mesh)
        return gives(x) + nx.max(gives_named(x)[0], "k") + renamed(x)

    def oracle(x, w):
        k = 2 * w
        total = jnp.sum(jnp.sin(k)) + jnp.sum(jnp.sort(k) * jnp.arange(6.0)) + jnp.sum(k**2)
        return x * total + 3 * jnp.sum(k) + jnp.max(jnp.cumsum(k))

    options = {"axis_resources": outer, "mesh": mesh, "partitioning": partitioning, "axis_sizes": {"k": 6}}
    in_axes = (["a"], [None], ["unused"] if "unused" in outer else [None])
    f = nx.xmap(body, in_axes, ["a"], **options)
    x, w, unused = array(8), array(6, seed=1), array(4)
    np.testing.assert_allclose(f(x, w, unused), oracle(x, w), rtol=2e-5, atol=2e-5)

    def loss(f):
        return lambda x, w: jnp.sum(f(x, w) * jnp.arange(1.0, 9.0))

    have = jax.jit(jax.grad(loss(lambda x, w: f(x, w, unused)), (0, 1)))(x, w)
    for h, want in zip(have, jax.jit(jax.grad(loss(oracle), (0, 1)))(x, w), strict=True):
        np.testing.assert_allclose(h, want, rtol=1e-4, atol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("policy", [None, jax.checkpoint_policies.dots_saveable], ids=["nothing saved", "dots saved"])
@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ({"a": "x"}, {"k": "y"}),
        ({}, {"k": "y"}),
        ({"a": "x"}, {}),
        (None, {"k": "y"}),
        (None, {"a": "x", "k": "y"}),
        ({"a": ("x", "y")}, {}),
    ],
    ids=str,
)
def test_a_checkpoint_closes_over_values_from_around(outer, inner, policy):
    # On Explicit axes JAX does not bind, or not transpose, a checkpoint that closes over a value of a type of the mesh outside.
    mesh = make_mesh((4, 2), "explicit")

    def body(x, w):
        closed, total = nx.named(w, ["k"]) * 2, nx.sum(x, "a")

        def checkpointed(v):
            first = jax.checkpoint(lambda v: nx.sum(nx.sin(closed * v), "k"), policy=policy)
            second = jax.checkpoint(lambda v: v * nx.sum(nx.named(w, ["k"]), "k") + nx.sin(total), policy=policy)
            return second(first(v))

        return nx.xmap(jax.checkpoint(checkpointed, policy=policy), axis_resources=inner, mesh=mesh)(x)

    def mapped(x, w):
        if outer is None:
            return nx.positional(body(nx.named(x, ["a"]), w * 1.5), ["a"])
        options = {"axis_resources": outer, "axis_sizes": {"k": 6}, "mesh": mesh}
        return nx.xmap(body, (["a"], [None]), ["a"], **options)(x, w * 1.5)

    def oracle(x, w):
        w = w * 1.5
        return jnp.sin(2 * w * x[:, None]).sum(1) * w.sum() + jnp.sin(x.sum())

    x, w = array(8), array(6, seed=1)
    with jax.set_mesh(mesh):
        have = jax.jit(jax.value_and_grad(lambda x, w: jnp.sum(jnp.cos(mapped(x, w))), (0, 1)))(x, w)
    want = jax.jit(jax.value_and_grad(lambda x, w: jnp.sum(jnp.cos(oracle(x, w))), (0, 1)))(x, w)
    jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-4), have, want)


CLOSED_OVER = {
    "alone": (
        lambda v, closed, _: closed,
        ["k", "m", None],
        lambda v, w, g: jnp.broadcast_to(w, (4, *w.shape)).transpose(1, 2, 0),
    ),
    "with a sum": (lambda v, closed, _: closed * nx.sum(v, "i"), ["k", "m"], lambda v, w, g: w * v.sum()),
    "reduced": (
        lambda v, closed, _: nx.sum(nx.sin(closed), "k") * v,
        ["m", None],
        lambda v, w, g: jnp.sin(w).sum(0)[:, None] * v,
    ),
    "beside an array of the program": (
        lambda v, closed, given: closed * nx.sum(v * given, "i"),
        ["k", "m"],
        lambda v, w, g: w * (v * g).sum(),
    ),
    "in two levels": (
        lambda v, closed, _: nx.xmap(lambda u: u * nx.sum(closed, "m"))(nx.sum(v, "i")),
        ["k"],
        lambda v, w, g: v.sum() * w.sum(1),
    ),
    "in loops": (
        lambda v, closed, _: looped(closed, nx.sum(v, "i")),
        ["k", "m"],
        lambda v, w, g: w * (w * v.sum() + 3 * jnp.sin(w)),
    ),
}


def looped(closed, start):
    """Loops whose bodies give what is closed over, as the carry and beside it."""
    carry, _ = nx.scan(lambda c, _: (c + nx.sin(closed), None), closed * start, None, length=2)
    carry = nx.fori_loop(0, 1, lambda i, c: c + nx.sin(closed), carry)
    last, given = nx.scan(lambda c, _: (closed, closed), carry, None, length=2)
    return carry * (last + given[0] - given[1])


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("case", CLOSED_OVER)
def test_what_an_inner_region_closes_over_on_any_mesh(case, kind):
    # A mesh axis of its own makes the inner function a region of its own, which takes values of the outer one as arguments only.
    body, out_axes, oracle = CLOSED_OVER[case]
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(kind,) * 3, devices=jax.devices()[:8])
    w, v, given = array(2, 6), array(4, seed=1), array(4, seed=2)
    inner_out = ["i", ...] if case in ("alone", "reduced") else None

    def outer(w, v):
        named = nx.named(given, ["i"])
        options = {"axis_sizes": {"i": 4}, "axis_resources": {"i": "z"}, "mesh": mesh}
        return nx.xmap(lambda v: body(v, w, named), (["i"],), inner_out, **options)(v)

    f = nx.xmap(outer, (["k", "m"], [None]), out_axes, axis_resources={"k": "x", "m": "y"}, mesh=mesh)

    def loss(f):
        return lambda w, v: jnp.sum(jnp.sin(f(w, v)))

    wanted = oracle(v, w, given)
    gradients = jax.grad(loss(lambda w, v: oracle(v, w, given)), (0, 1))(w, v)
    with jax.set_mesh(mesh):
        np.testing.assert_allclose(f(w, v), wanted, rtol=2e-5, atol=2e-5)
        for have, want in zip(jax.jit(jax.grad(loss(f), (0, 1)))(w, v), gradients, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)


PAIR = nx.named(array(8, 4), ["a", "k"])
ON_ONE_AXIS = {
    # A result is broadcast along a name whose mesh axis is held by one that it has from outside.
    "result": (lambda v: inner_broadcast(v), ["a", None], r"xmap, out_axes \['k'\], the result: axes 'k' and 'a' meet"),
    "result, two levels": (
        lambda v: nx.xmap(inner_broadcast, [], [None])(v),
        ["a", None],
        r"xmap, out_axes \['k'\], the result: axes 'k' and 'a' meet",
    ),
    "one of several results": (
        lambda v: nx.xmap(lambda v: {"u": v, "w": v}, [], {"u": [], "w": ["k"]}, axis_sizes={"k": 4}, axis_resources={"k": "x"})(v)["w"],
        ["a", None],
        r"the result\['w'\]: axes 'k' and 'a' meet",
    ),
    "named result": (
        lambda v: nx.xmap(lambda v: nx.NamedArray(jnp.ones((2, 2)), ("a", "k")), axis_sizes={"k": 4}, axis_resources={"k": "x"})(v),
        ["a", "k"],
        "NamedArray: axes 'a' and 'k' meet",
    ),
    "argument": (
        lambda v: nx.xmap(lambda v: v, ["k"], ["k"], axis_resources={"k": "x"})(v * jnp.ones(4)),
        ["a", None],
        "xmap, argument 'v': axes 'a' and 'k' meet .* Map one of them to another mesh axis in axis_resources, or to none",
    ),
    "what is closed over": (
        lambda v: nx.xmap(lambda v: v * nx.sum(PAIR, "k"), axis_resources={"k": "x"})(v),
        ["a"],
        "sum, of an array that the mapped function closes over: axes 'a' and 'k' meet .* Rename one of them before, outside",
    ),
    "what is closed over, of the body outside": (
        lambda v: (lambda u: nx.xmap(lambda v: v * nx.sum(u, "k"), axis_resources={"k": "x"})(v))(PAIR * v),
        ["a"],
        "sum, of an array that the mapped function closes over: axes 'a' and 'k' meet",
    ),
    "what is closed over, in a tree": (
        lambda v: nx.xmap(lambda v: v * jax.tree.map(lambda leaf: leaf, PAIR), axis_resources={"k": "x"})(v),
        ["a", "k"],
        "axes 'a' and 'k' meet",
    ),
    "position": (
        lambda v: nx.xmap(
            lambda v: nx.sum(nx.positional(v, ["a", "k"])), axis_sizes={"k": 4}, axis_resources={"k": "x"}
        )(v),
        [],
        r"positional \['a', 'k'\], the array: axes 'k' and 'a' meet",
    ),
}  # fmt: skip


def inner_broadcast(v):
    return nx.xmap(lambda v: v, [], ["k"], axis_sizes={"k": 4}, axis_resources={"k": "x"})(v)


@pytest.mark.parametrize("partitioning", ["manual", "auto"])
@pytest.mark.parametrize(("body", "out_axes", "text"), ON_ONE_AXIS.values(), ids=ON_ONE_AXIS)
def test_two_names_on_one_mesh_axis_do_not_meet(body, out_axes, text, partitioning):
    mesh = make_mesh((4, 2))
    f = nx.xmap(body, ["a"], out_axes, axis_resources={"a": "x"}, mesh=mesh, partitioning=partitioning)
    with pytest.raises(PlacementConflictError, match=text):
        f(array(8))


@pytest.mark.fast(0)
def test_a_broadcast_result_on_a_mesh_axis_of_its_own():
    f = nx.xmap(lambda v: v, [], ["k"], axis_sizes={"k": 4}, axis_resources={"k": "y"})
    weights = make.arange(32.0).reshape(8, 4)
    for outer in ({"a": "x"}, {"a": ("x", nx.SerialLoop(2)), "k": "y"}):
        g = nx.xmap(lambda v: f(v), ["a"], ["a", None], axis_resources=outer, mesh=make_mesh((4, 2)))
        np.testing.assert_array_equal(g(array(8)), np.repeat(np.asarray(array(8))[:, None], 4, 1))
        np.testing.assert_array_equal(jax.grad(lambda v, g=g: jnp.sum(g(v) * weights))(array(8)), weights.sum(1))


# --- within JAX's own transformations -------------------------------------------------------------------------------


def softmax(resources, mesh=None):
    return nx.xmap(lambda x: nx.nn.softmax(x, "k"), ["k"], ["k"], axis_resources=resources, mesh=mesh)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"k": "x"}], ids=str)
def test_in_jit_vmap_and_scan(resources):
    f = softmax(resources, make_mesh((4, 2)))
    x = array(3, 8)
    want = jax.nn.softmax(x, 1)
    np.testing.assert_allclose(jax.jit(lambda x: f(x[0]))(x), want[0], rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(f)(x), want, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(f, in_axes=1, out_axes=1)(x.T), want.T, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(lambda x: f(x)[0])))(x), jax.vmap(jax.grad(lambda x: jax.nn.softmax(x)[0]))(x),
                               rtol=1e-4, atol=1e-6)  # fmt: skip
    np.testing.assert_allclose(jax.lax.scan(lambda c, x: (c, f(x)), 0, x)[1], want, rtol=1e-5)


def test_in_shard_map():
    mesh = make_mesh((4, 2))
    x = array(8, 6)

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    def outer(x):
        return softmax_rows(x)

    for resources in ({}, {"k": "y"}):
        softmax_rows = nx.xmap(lambda x: nx.nn.softmax(x, "k"), [None, "k"], [None, "k"], axis_resources=resources)
        np.testing.assert_allclose(jax.jit(outer)(x), jax.nn.softmax(x, 1), rtol=1e-5)


def test_around_shard_map():
    mesh = make_mesh((4, 2))

    def body(x):
        @functools.partial(jax.shard_map, in_specs=P(None, "y"), out_specs=P(), axis_names={"y"})
        def total(x):
            return jax.lax.psum(x.sum(1), "y")

        return nx.nmap(total)(x)

    f = nx.xmap(body, ["a", None, None], ["a", None], axis_resources={"a": "x"}, mesh=mesh)
    x = array(8, 3, 4)
    np.testing.assert_allclose(jax.jit(f)(x), x.sum(2), rtol=1e-5)


def test_steps_around_an_inner_function():
    def body(x):
        return nx.sum(nx.xmap(lambda x: nx.sum(x**2, "k"), ["k"], [])(x), "a")

    f = nx.xmap(body, ["a", None], [], axis_resources={"a": ("x", nx.SerialLoop(2))}, mesh=make_mesh((4,)))
    x = array(8, 3)
    np.testing.assert_allclose(f(x), (x**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(f)(x), 2 * x, rtol=1e-5)


# --- mistakes -------------------------------------------------------------------------------------------------------


def nested(inner, mesh=None, outer=None, shape=(8, 4)):
    outer = outer or {"a": "x"}
    return nx.xmap(inner, ["a", None], ["a", None], axis_resources=outer, mesh=mesh or make_mesh((4, 2)))(array(*shape))


def mapped(resources, mesh=None, in_axes=("k",), out_axes=("k",), f=lambda x: x, **options):
    return nx.xmap(f, list(in_axes), list(out_axes), axis_resources=resources, mesh=mesh, **options)


def closes_over_another_size(x):
    closed = nx.named(jnp.arange(2.0), ["k"]) + 1
    return x * mapped({"k": "y"}, in_axes=(), out_axes=(), f=lambda v: v * nx.sum(closed, "k"), axis_sizes={"k": 4})(1.0)


ERRORS = {
    "mesh axis": (
        lambda: nested(mapped({"k": "z"}, jax.make_mesh((2, 2), ("x", "z")))),
        MeshError,
        r"its mesh has the axis 'x' of size 2, which the surrounding mesh \{'x': 4, 'y': 2\} does not have",
    ),
    "mesh axis that is nowhere": (
        lambda: nested(mapped({"k": "z"})),
        MeshError,
        "maps 'k' to mesh axis 'z', which the mesh does not have; its axes are 'x', 'y'",
    ),
    "elsewhere": (
        lambda: nested(mapped({"a": "y"}, in_axes=(None,), out_axes=(None,))),
        AxisResourceError,
        r"maps 'a' to \('y',\), but the surrounding mapped function maps it to \('x',\)",
    ),
    "two kinds of mesh axes": (
        lambda: nested(mapped({"k": ("x", "y")})),
        AxisResourceError,
        r"but the surrounding mapped function uses only \['x'\] of them, and not \['y'\]",
    ),
    "meeting": (lambda: nested(mapped({"k": "x"})), PlacementConflictError, "'a' and 'k' meet in one value"),
    "loop": (lambda: nested(mapped({"k": nx.SerialLoop(2)})), SerialLoopError, "Put the SerialLoop into .* the outermost xmap"),
    "size": (
        lambda: nested(mapped({}, axis_sizes={"a": 5})),
        AxisSizeError,
        "axis 'a' has size 8 in the surrounding mapped function, and size 5 in axis_sizes",
    ),
    "size of what is closed over": (
        lambda: nested(closes_over_another_size, shape=(8, 2)),
        AxisSizeError,
        r"sum: axis 'k' has size 2 in an array that the mapped function closes over, of shape \(2,\) with dims \('k',\), but 'k' has "
        "size 4 in this mapped function",
    ),
    "loop outside": (
        lambda: nested(mapped({"k": "y"}), outer={"a": ("x", nx.SerialLoop(2))}),
        SerialLoopError,
        r"maps 'k' to mesh axes \('y',\), which that function does not use. Put 'k' into the axis_resources of the outermost xmap",
    ),
    "loop alone outside": (
        lambda: nested(mapped({"k": "y"}), outer={"a": nx.SerialLoop(2)}),
        SerialLoopError,
        "Put 'k' into the axis_res",
    ),
    "left": (
        lambda: nested(mapped({}, f=lambda x: x * nx.arange(3, axis="new"))),
        NamedAxesLeftError,
        "still has the axes 'new'",
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS.values(), ids=ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


# --- within a function of single entries -----------------------------------------------------------


ENTRIES = {
    "vmap": lambda f, x: nx.vmap(f, "b")(x),
    "map": lambda f, x: nx.map(f, x, axis="b"),
    "checkpoint": lambda f, x: nx.vmap(jax.checkpoint(f), "b")(x),
    "of an entry and another": lambda f, x: nx.vmap(lambda u: nx.vmap(f, "c")(u), "b")(x),
    "gradient": lambda f, x: nx.vmap(lambda u: jax.grad(lambda u: nx.sum(f(u) ** 2, ...))(u), "b")(x),
}
OF_B = [{}, {"b": "x", "a": "y"}, {"b": ("x", nx.SerialLoop(2))}]


@pytest.mark.full(4)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("how", "resources", "kind"),
    [
        *((how, resources, "auto") for how in ENTRIES for resources in OF_B),
        *(("vmap", resources, "explicit") for resources in OF_B[1:]),
    ],
    ids=str,
)
def test_a_mapped_function_of_single_entries(how, resources, kind):
    """Its results differ from device to device along the axis of which it sees one entry, and have no name that says so."""
    x, w = array(8, 6, 3), array(8, seed=1)

    def body(x, w):
        return ENTRIES[how](nx.xmap(lambda u: nx.cumsum(u * w, "a")), x)

    def expected(x):
        return jnp.cumsum(x * w[:, None, None], 0)

    of_all = jax.grad(lambda x: (expected(x) ** 2).sum()) if how == "gradient" else expected
    names = ["a", "b", "c"]
    mesh = make_mesh((4, 2), kind) if resources else None
    f = nx.xmap(body, (names, ["a"]), names, axis_resources=resources, mesh=mesh)
    np.testing.assert_allclose(f(x, w), of_all(x), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("resources", [{}, {"b": "x"}], ids=str)
def test_a_mapped_function_of_single_entries_does_not_see_the_others(resources):
    """A collective would take the entry for a value that is the same in all instances, and multiply it."""
    x = array(8, 6)
    mesh = make_mesh((4, 2)) if resources else None

    def run(helper):
        return nx.xmap(lambda x: nx.vmap(helper, "b")(x), ["a", "b"], ["a", "b"], axis_resources=resources, mesh=mesh)(x)

    with pytest.raises(AxisNotFoundError, match="psum: vmap removes the axis 'b' here"):
        run(nx.xmap(lambda u: nx.lax.psum(u, "b")))
    with pytest.raises(AxisNotFoundError, match="pmean: vmap removes the axis 'b' here"):
        run(nx.xmap(lambda u: nx.xmap(lambda v: nx.lax.pmean(v, "b"))(u)))
    # A helper that says itself what the name is means its own axis.
    np.testing.assert_allclose(run(nx.xmap(lambda u: nx.lax.psum(u, "b"), axis_sizes={"b": 6})), 6 * x, rtol=1e-6)
