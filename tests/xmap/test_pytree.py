"""Laws 3 and 6 under JAX's own transformations: an array is a pytree with one leaf, and no transformation has to know of it.

As a pytree an array remembers its dims from the first named one on, so a leading positional dimension may come and go.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import NamedArray
from namedax.errors import NamedAxesLeftError, PositionalAxisError
from namedax.typing import f32
from tests import make
from tests.harness import FEW, Lazily, array, make_mesh, said

optax = Lazily("optax")


def named(*dims, seed=0, **sizes):
    sizes = {"a": 3, "b": 2, "c": 4, None: 5, **sizes}
    return nx.NamedArray(array(*(sizes[dim] for dim in dims), seed=seed), dims)


def same(have, want):
    assert have.dims == want.dims
    np.testing.assert_array_equal(have.data, want.data)


# --- errors about leaves ----------------------------------------------------------------------------------------------


def tree_with(leaf):
    return {"layers": [{"w": named("a", "b", a=4)}, {"name": leaf}]}


LEAVES = {
    "string": ("adam", nx.errors.ArgumentTypeError, "'adam' "),
    "set": ({1}, nx.errors.ArgumentTypeError, "{1} is a set, not an array."),
    "strings": (
        np.array(["a"]),
        nx.errors.ArgumentTypeError,
        "the dtype <U1 of <U1[1] is not supported by JAX. Convert strings",
    ),
    "wide": (np.array([2**40]), nx.errors.ArgumentError, "the integers of i64[1]"),
}
OF_TREES = {"shard": lambda tree: nx.shard(tree, {"a": "x"}, make_mesh((2,))), "named": lambda tree: nx.named(tree, [...])}


@pytest.mark.parametrize("op", OF_TREES)
@pytest.mark.parametrize("case", LEAVES)
def test_errors_about_a_leaf_have_its_path(op, case):
    leaf, kind, fact = LEAVES[case]
    with pytest.raises(kind) as error:
        OF_TREES[op](tree_with(leaf))
    if op == "shard" and case in ("set", "strings"):
        fact = f"{'{1}' if case == 'set' else '<U1[1]'} is not an array that JAX supports."
    if op == "named" and case == "string":
        fact = "expected an array, got 'adam'."
    assert said(error.value).startswith(f"{op}, x['layers'][1]['name']: {fact}")
    with pytest.raises(kind) as error:
        nx.named(leaf, ["a"]) if case in ("strings", "wide") else nx.named([leaf], [["a"]])
    assert said(error.value).startswith("named: " if case in ("strings", "wide") else "named, x[0]: ")


def test_errors_about_the_axes_of_a_leaf_have_its_path():
    tree, mesh = tree_with(named("a", "c", a=4)), make_mesh((2,))
    with pytest.raises(nx.errors.PlacementConflictError) as error:
        nx.shard(tree, {"a": "x", "c": "x"}, mesh)
    assert said(error.value).startswith(
        "shard, x['layers'][1]['name']: axes 'a' and 'c' meet in one value, but both are mapped to mesh axis 'x'"
    )
    with pytest.raises(nx.errors.AxisMappingError) as error:
        nx.named([np.ones(3), np.ones((3, 2))], [["a"], ["a"]])
    assert said(error.value).startswith("named, x[1]: the axis mapping ['a'] asserts 1 axes, but the array f32[3,2] has 2.")
    with pytest.raises(NamedAxesLeftError) as error:
        nx.positional(tree, ["a", "b"])
    assert said(error.value).startswith(
        "positional, x['layers'][1]['name']: the array, f32[]{a:4, c:4}, still has the axes 'c'"
    )
    with pytest.raises(nx.errors.AxisNotFoundError) as error:
        nx.untag(tree, ["b", ...])
    assert said(error.value).startswith("untag, x['layers'][1]['name']: no axis 'b' in f32[]{a:4, c:4}")
    with pytest.raises(nx.errors.AxisSizeError) as error:
        nx.xmap(lambda y: nx.sum(y * nx.named({"w": np.ones(4)}, ["a"])["w"], "a"), axis_resources={"a": "x"}, mesh=mesh)(
            named("a", a=8)
        )
    assert said(error.value).startswith("named, x['w']: axis 'a' would have size 4, but it has size 8 in this mapped function")


# --- the tree -------------------------------------------------------------------------------------------------------


def test_one_leaf():
    x = named("a", None, "b")
    leaves, tree = jax.tree.flatten(x)
    (leaf,) = leaves
    assert leaf is x.data
    same(jax.tree.unflatten(tree, leaves), x)
    same(jax.tree.map(lambda v: v + 1, {"x": x})["x"], x + 1)


def test_the_key_of_the_leaf():
    tree = {"w": named("a"), "plain": array(2)}
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    assert paths == ["['plain']", "['w'].data"]
    assert jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(named("a"))[0][0][0], simple=True) == "data"


def test_the_key_of_the_leaf_says_the_order_where_there_is_one():
    # A checkpoint keeps keys and shapes: with one key, axes of equal size that changed places would be taken for one another.
    def key(*dims):
        return jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(named(*dims))[0][0][0], simple=True)

    assert key("a", "b") == "data{a,b}"
    assert key("b", "a") == "data{b,a}"
    assert key(None, "a", None, "b") == "data{a,_,b}"
    odd = NamedArray(make.zeros((1, 1)), ("a/b,c", ("x", 1)))
    assert (
        jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(odd)[0][0][0], simple=True)
        == "data{a%2Fb%2Cc,%28%27x%27%2C%201%29}"
    )


def test_trees_are_equal_where_dims_are():
    x = jax.tree.structure(named("a", "b"))
    assert x == jax.tree.structure(named("a", "b", seed=1))
    assert hash(x) == hash(jax.tree.structure(named("a", "b", a=7)))
    assert x != jax.tree.structure(named("b", "a"))
    assert x != jax.tree.structure(named("a", None))
    assert x != jax.tree.structure(named("a", "c"))
    # Leading positional dimensions do not count: transformations add and strip them.
    assert x == jax.tree.structure(named(None, None, "a", "b"))


def test_leaves_of_any_kind():
    x = named(None, "a")
    placeholders = jax.tree.map(lambda _: None, x)
    assert jax.tree.leaves(placeholders) == []
    assert jax.tree.map(lambda _: 0, x).data == 0
    struct = jax.eval_shape(lambda x: x * 2, x)
    assert (struct.shape, struct.named_shape, struct.dtype) == ((5,), {"a": 3}, x.dtype)
    assert jax.tree.all(jax.tree.map(lambda v: v.ndim == 2, x))


def test_is_leaf():
    x = named("a")
    (leaf,) = jax.tree.leaves([x], is_leaf=lambda v: isinstance(v, nx.NamedArray))
    assert leaf is x


# --- jit ------------------------------------------------------------------------------------------------------------


def test_jit_traces_once_for_equal_dims():
    traces = []

    @jax.jit
    def total(x):
        traces.append(x.dims)
        return nx.sum(x, "a")

    x, y = named("a", "b"), named("a", "b", seed=1)
    np.testing.assert_allclose(total(x).data, x.data.sum(0), rtol=1e-6)
    np.testing.assert_allclose(total(y).data, y.data.sum(0), rtol=1e-6)
    assert traces == [("a", "b")]
    # A square array with its names exchanged is another type.
    square = array(3, 3)
    first, second = (total(nx.named(square, dims)) for dims in (["a", "b"], ["b", "a"]))
    assert traces == [("a", "b"), ("a", "b"), ("b", "a")]
    np.testing.assert_allclose(first.data, square.sum(0), rtol=1e-6)
    np.testing.assert_allclose(second.data, square.sum(1), rtol=1e-6)


def test_a_named_array_is_no_static_argument():
    with pytest.raises((ValueError, TypeError), match=r"[Nn]on-hashable|unhashable"):
        jax.jit(lambda x: x, static_argnums=0)(named("a"))


def test_jit_returns_what_was_returned():
    x = named("a", None)
    result = jax.jit(lambda x: {"x": x, "y": (nx.sum(x, "a"), x + 1), "z": None})(x)
    same(result["x"], x)
    assert isinstance(result["y"][0], jax.Array)
    same(result["y"][1], x + 1)


def test_donation():
    x = named("a", None)
    want = np.asarray(x.data) + 1
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(y.data, want)
    assert x.data.is_deleted()


def test_concrete_values_are_needed_for_a_branch():
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(lambda x: 1 if nx.sum(x, "a") > 0 else 2)(named("a"))


# --- differentiation ------------------------------------------------------------------------------------------------


def oracle(x, y):
    return jnp.sum(jnp.tanh(x[:, :, None] * y.T[None]) ** 2)


def loss(x, y):
    return nx.sum(nx.tanh(x * y) ** 2, ("a", "b", "c"))


@pytest.mark.fast(0)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_gradients_have_the_axes_of_their_arguments(compiled):
    x, y = named("a", "b"), named("c", "b", seed=1)
    grad = jax.grad(loss, argnums=(0, 1))
    dx, dy = (jax.jit(grad) if compiled else grad)(x, y)
    assert (dx.dims, dy.dims) == (x.dims, y.dims)
    want = jax.jit(jax.grad(oracle, argnums=(0, 1)))(x.data, y.data)
    np.testing.assert_allclose(dx.data, want[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dy.data, want[1], rtol=1e-4, atol=1e-5)


def test_value_and_grad_with_aux():
    x, y = named("a", "b"), named("c", "b", seed=1)
    (value, aux), dx = jax.value_and_grad(lambda x: (loss(x, y), {"x": x}), has_aux=True)(x)
    np.testing.assert_allclose(value, oracle(x.data, y.data), rtol=1e-5)
    same(aux["x"], x)
    assert dx.dims == x.dims


def test_a_loss_with_names_left_has_no_gradient():
    with pytest.raises(TypeError, match="scalar"):
        jax.grad(lambda x: nx.sum(x, "a"))(named("a", "b"))


@pytest.mark.fast(0)
def test_jvp_vjp_and_linearize():
    x, v = named("a", "b"), named("a", "b", seed=1)
    f = nx.tanh
    value, tangent = jax.jvp(f, (x,), (v,))
    same(value, f(x))
    want = jax.jvp(jnp.tanh, (x.data,), (v.data,))[1]
    assert tangent.dims == x.dims
    np.testing.assert_allclose(tangent.data, want, rtol=1e-6)
    pulled = jax.vjp(f, x)[1](v)[0]
    np.testing.assert_allclose(pulled.data, want, rtol=1e-6)
    np.testing.assert_allclose(jax.linearize(f, x)[1](v).data, want, rtol=1e-6)
    twice = jax.grad(lambda x: nx.sum(jax.grad(lambda x: nx.sum(x**3, "a"))(x) ** 2, "a"))(named("a"))
    np.testing.assert_allclose(twice.data, 36 * named("a").data ** 3, rtol=1e-5)


def test_hessian_by_forward_over_reverse():
    x, v = named("a"), named("a", seed=1)
    product = jax.jvp(jax.grad(lambda x: nx.sum(nx.exp(x), "a")), (x,), (v,))[1]
    np.testing.assert_allclose(product.data, jnp.exp(x.data) * v.data, rtol=1e-6)


def test_checkpoint():
    x, y = named("a", "b"), named("c", "b", seed=1)
    for f in (jax.checkpoint(loss), jax.checkpoint(loss, policy=jax.checkpoint_policies.dots_saveable)):
        have = jax.grad(f)(x, y)
        np.testing.assert_allclose(have.data, jax.grad(loss)(x, y).data, rtol=1e-6)
        assert have.dims == x.dims


def test_custom_derivatives():
    @jax.custom_vjp
    def clipped(x):
        return x * 1

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (nx.clip(g, -1.0, 1.0) + 0 * x,))
    x = named("a", "b")
    grad = jax.grad(lambda x: nx.sum(clipped(x) * 5, ("a", "b")))(x)
    assert grad.dims == x.dims
    np.testing.assert_array_equal(grad.data, 1.0)

    @jax.custom_jvp
    def doubled(x):
        return x * 2

    doubled.defjvp(lambda primals, tangents: (doubled(*primals), tangents[0] * 7))
    grad = jax.grad(lambda x: nx.sum(doubled(x), ("a", "b")))(x)
    assert grad.dims == x.dims
    np.testing.assert_array_equal(grad.data, 7.0)


# --- leading positional dimensions come and go ------------------------------------------------------------------------


def test_vmap_strips_and_adds_a_leading_position():
    x = named(None, "a", "b")
    seen = []

    def row(x):
        seen.append((x.shape, dict(x.named_shape)))
        return nx.sum(x, "a"), x * 2, nx.sum(x, ("a", "b"))

    total, double, scalar = jax.vmap(row)(x)
    assert seen == [((), {"a": 3, "b": 2})]
    assert total.dims == (None, "b")
    same(double, x * 2)
    np.testing.assert_allclose(total.data, x.data.sum(1), rtol=1e-6)
    np.testing.assert_allclose(scalar, x.data.sum((1, 2)), rtol=1e-5)


def test_vmap_of_one_argument_and_of_many_leading_positions():
    x, y = named(None, None, "a"), named("b", "a")
    result = jax.vmap(jax.vmap(lambda x, y: x * y, in_axes=(0, None)), in_axes=(0, None))(x, y)
    assert (result.shape, result.named_shape) == ((5, 5), {"a": 3, "b": 2})
    np.testing.assert_allclose(nx.positional(result, {2: "a", 3: "b"}), x.data[..., None] * y.data.T, rtol=1e-6)


def test_vmap_of_an_array_that_begins_with_a_name_gives_every_instance_the_position():
    x = named("a")
    result = jax.vmap(lambda i: x * i)(make.arange(4.0))
    assert result.dims == (None, "a")
    np.testing.assert_allclose(result.data, jnp.arange(4.0)[:, None] * x.data, rtol=1e-6)


@pytest.mark.fast(0)
def test_grad_under_vmap():
    x, y = named(None, "a", "b"), named("c", "b", seed=1)
    have = jax.vmap(jax.grad(loss), in_axes=(0, None))(x, y)
    want = jnp.stack([*map(jax.jit(jax.grad(oracle)), x.data, [y.data] * len(x.data))])
    assert have.dims == (None, "a", "b")
    np.testing.assert_allclose(have.data, want, rtol=1e-4, atol=1e-5)


def test_scan_over_a_position_with_a_named_carry():
    xs, w = named(None, "b", "a"), named("a", "b", seed=3)

    def step(carry, x):
        # What is written as `x + carry` follows `x`; the carry has to keep its physical order.
        carry = nx.order_like(x * 0.5 + carry, carry)
        return carry, nx.sum(carry, "a")

    final, sums = jax.lax.scan(step, w, xs)
    carry, want = np.asarray(w.data), []
    for x in np.asarray(xs.data):
        carry = x.T * 0.5 + carry
        want.append(carry.sum(0))
    assert final.dims == ("a", "b")
    assert sums.dims == (None, "b")
    np.testing.assert_allclose(final.data, carry, rtol=1e-5)
    np.testing.assert_allclose(sums.data, np.stack(want), rtol=1e-5, atol=1e-6)


def test_scan_that_stacks_named_results():
    x = named("a", None)
    _, ys = jax.lax.scan(lambda c, i: (c, x * i), None, make.arange(4.0))
    assert (ys.dims, ys.shape) == ((None, "a", None), (4, 5))
    np.testing.assert_allclose(ys.data, jnp.arange(4.0)[:, None, None] * x.data, rtol=1e-6)


def test_gradient_through_scan():
    xs, w = named(None, "a"), named("a", seed=1)

    def f(w, xs):
        return nx.sum(jax.lax.scan(lambda c, x: (nx.tanh(c * x + w), None), w, xs)[0], "a")

    def want(w, xs):
        return jnp.sum(jax.lax.scan(lambda c, x: (jnp.tanh(c * x + w), None), w, xs)[0])

    have = jax.jit(jax.grad(f, argnums=(0, 1)))(w, xs)
    expected = jax.jit(jax.grad(want, argnums=(0, 1)))(w.data, xs.data)
    assert (have[0].dims, have[1].dims) == (w.dims, xs.dims)
    np.testing.assert_allclose(have[0].data, expected[0], rtol=1e-5)
    np.testing.assert_allclose(have[1].data, expected[1], rtol=1e-5)


def test_other_control_flow():
    x = named("a", "b")
    same(jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, x), x + 1)
    same(jax.lax.switch(1, [lambda x: x, lambda x: x * 2], x), x * 2)
    np.testing.assert_allclose(jax.lax.fori_loop(0, 3, lambda i, x: x * 2, x).data, x.data * 8, rtol=1e-6)
    final = jax.lax.while_loop(lambda x: nx.sum(x * x, ("a", "b")) < 100.0, lambda x: x * 2, x)
    assert float(nx.sum(final * final, ("a", "b"))) >= 100.0
    assert jax.lax.map(lambda x: nx.sum(x, "a"), named(None, "a", "b")).dims == (None, "b")


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (lambda x: jax.vmap(lambda x: x + 1)(x), "add: an array with axes ('a', 'b') holds data of shape (2,)."),
        (lambda x: jax.vmap(lambda x: nx.sum(x, "b"))(x), "sum: an array with axes ('a', 'b') holds data of shape (2,)."),
        (lambda x: jax.vmap(lambda x: x.shape)(x), "shape: an array with axes ('a', 'b') holds data of shape (2,)."),
        (
            lambda x: jax.vmap(lambda x: x.named_shape)(x),
            "named_shape: an array with axes ('a', 'b') holds data of shape (2,).",
        ),
        (
            lambda x: jax.lax.scan(lambda c, x: (c, nx.exp(x)), None, x),
            "exp: an array with axes ('a', 'b') holds data of shape (2,).",
        ),
        (lambda x: jax.tree.map(jnp.sum, x) + 1, "add: an array with axes ('a', 'b') holds data of shape ()."),
    ],
)
def test_a_named_axis_that_was_stripped_is_reported_where_the_array_is_used(transform, text):
    with pytest.raises(PositionalAxisError) as error:
        transform(named("a", "b"))
    assert said(error.value) == (
        f"{text} A raw JAX transform (jax.vmap, lax.scan, jax.tree.map) has removed a named axis, or one behind a named axis. "
        "Move the positional axis to the front first, or use nx.nmap, which takes names."
    )


# --- order_like -----------------------------------------------------------------------------------------------------


def test_order_like():
    x, y = named("b", None, "a", None), named("a", "b", None, None)
    z = nx.order_like(x, y)
    assert z.dims == ("a", "b", None, None)
    assert (z.shape, z.named_shape) == (x.shape, x.named_shape)
    np.testing.assert_array_equal(z.data, x.data.transpose(2, 0, 1, 3))
    assert nx.order_like(y, y) is y


def test_order_like_of_trees():
    tree = {"x": named("b", "a"), "y": [array(3), named("a", "b")]}
    like = {"x": named("a", "b"), "y": [array(7), named("a", "b")]}
    assert jax.tree.structure(nx.order_like(tree, like)) == jax.tree.structure(like)
    assert nx.order_like(tree, like)["y"][0] is tree["y"][0]


@pytest.mark.parametrize(
    ("dims", "like", "want"),
    [
        ((None, "b", "a"), ("a", "b"), (None, "a", "b")),
        (("b", None, None, "a"), ("a", None, "b"), (None, "a", None, "b")),
        (("b", "a"), ("a", None, "b"), ("a", "b")),
    ],
)
def test_order_like_with_other_positional_axes(dims, like, want):
    x = named(*dims)
    y = nx.order_like(x, named(*like))
    assert y.dims == want
    assert (y.shape, y.named_shape) == (x.shape, x.named_shape)
    names = ["a", "b", ...]
    np.testing.assert_array_equal(nx.positional(y, names), nx.positional(x, names))


def test_order_like_needs_the_same_names():
    with pytest.raises(NamedAxesLeftError) as error:
        nx.order_like(named("a", "b").astype(jnp.int32), named("a").astype(jnp.int32))
    assert said(error.value) == (
        "order_like: i32[]{a:3, b:2} cannot be ordered like i32[]{a:3}; they have different names. Broadcast or reduce first."
    )


# --- optimizers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_a_step_of_optax(name):
    optimizer = optax.sgd(0.1, momentum=0.9) if name == "sgd" else optax.adamw(0.1)
    params = {"w": named("a", "b"), "v": [named("c", "b", seed=1), array(2)]}
    plain = {"w": params["w"].data, "v": [params["v"][0].data, params["v"][1]]}

    def named_loss(p):
        return loss(p["w"], p["v"][0]) + jnp.sum(p["v"][1] ** 2)

    def plain_loss(p):
        return oracle(p["w"], p["v"][0]) + jnp.sum(p["v"][1] ** 2)

    def train(loss, params):
        @jax.jit
        def step(params, state):
            updates, state = optimizer.update(jax.grad(loss)(params), state, params)
            return optax.apply_updates(params, updates), state

        state = optimizer.init(params)
        for _ in range(3):
            params, state = step(params, state)
        return params

    have, want = train(named_loss, params), train(plain_loss, plain)
    assert (have["w"].dims, have["v"][0].dims) == (("a", "b"), ("c", "b"))
    np.testing.assert_allclose(have["w"].data, want["w"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(have["v"][0].data, want["v"][0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(have["v"][1], want["v"][1], rtol=1e-4, atol=1e-6)


# --- in mapped bodies -----------------------------------------------------------------------------------------------

SIZES = {"a": 8, "b": 4}


@pytest.mark.parametrize("placement", FEW, ids=str)
def test_transformations_inside_of_a_mapped_body(placement):
    def body(x, w):
        def step(carry, row):
            carry = nx.order_like(nx.tanh(row * w) + carry, carry)
            return carry, nx.sum(carry, "b")

        final, sums = jax.lax.scan(jax.checkpoint(step), w * 0.5, x)
        doubled = jax.vmap(lambda row: nx.mean(row * 2, "a"))(x)
        return final, sums, doubled, jax.jit(lambda x: jax.tree.map(jnp.sin, x))(w)

    def want(x, w):
        carry, sums = w * 0.5, []
        for row in x:
            carry = jnp.tanh(row * w) + carry
            sums.append(carry.sum(1))
        return carry, jnp.stack(sums), (x * 2).mean(1), jnp.sin(w)

    x, w = array(3, 8, 4), array(8, 4, seed=1)
    names = ["a", "b"]
    out_axes = (names, [None, "a"], [None, "b"], names)
    with placement.context():
        have = nx.xmap(body, ([None, *names], names), out_axes, **placement.options)(x, w)
    for h, expected in zip(have, want(x, w), strict=True):
        np.testing.assert_allclose(h, expected, rtol=1e-4, atol=1e-5)


def leaky_loss(w, x):
    read = nx.rename(w, {"a": "all"})  # gathered, where `a` is sharded: the array remembers a second form of its data
    return nx.sum(nx.tanh(read * x) * read * w, ("a", "all"))


def plain_loss(w, x):
    return jnp.sum(jnp.tanh(w[None, :] * x[:, None]) * w[None, :] * w[:, None])


MAPPED = {"axis_resources": {"a": "x"}, "mesh": make_mesh((4,))}


@pytest.mark.leaks
@pytest.mark.parametrize("out_axes", [["a"], None], ids=["placed", "named"])
def test_no_tracer_leaks_from_a_gradient_inside_of_a_body(out_axes):
    def body(w, x):
        gradient = jax.grad(jax.checkpoint(leaky_loss))(w, x)
        stepped, _ = jax.lax.scan(lambda c, _: (c - 0.1 * jax.grad(leaky_loss)(c, x), None), w, None, length=2)
        return gradient + stepped

    w, x = array(8, seed=1) / 4, array(8, seed=2) / 4
    with jax.check_tracer_leaks():
        have = nx.xmap(body, (["a"], ["a"]), out_axes, **MAPPED)(w, x)
    stepped = w
    for _ in range(2):
        stepped = stepped - 0.1 * jax.grad(plain_loss)(stepped, x)
    have = have if out_axes else nx.positional(have, ["a"])
    np.testing.assert_allclose(have, jax.jit(jax.grad(plain_loss))(w, x) + stepped, rtol=1e-4, atol=1e-5)


# Without jit, because JAX reports leaks of the gradient of any jit-ed jax.shard_map.
@pytest.mark.leaks
def test_no_tracer_leaks_from_a_gradient_outside_of_a_body():
    w, x = array(8, seed=1) / 4, array(8, seed=2) / 4
    with jax.check_tracer_leaks():
        have = jax.grad(nx.xmap(leaky_loss, ["a"], [], jit=False, **MAPPED))(w, x)
    np.testing.assert_allclose(have, jax.jit(jax.grad(plain_loss))(w, x), rtol=1e-4, atol=1e-5)


# --- data that do not fit the axes ----------------------------------------------------------------------------------

Named, Rows = f32[{"a", "b"}], f32[3, {"a", "b"}]
MOVES = {
    "a transposition": (lambda v: v.T, 8, 2),
    "a stack behind": (lambda v: jnp.stack([v, v, v], -1), 8, 2),
    "a slice": (lambda v: v[:1], 8, 1),
    "a repetition": (lambda v: jnp.repeat(v, 2, 0), 8, 16),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"b": "x"}], ids=str)
def test_functions_of_leaves_that_change_the_sizes_of_names_are_refused_in_a_body(move, resources):
    function, _, _ = move
    x = nx.named(array(8, 2), ["a", "b"])
    f = nx.xmap(lambda x: jax.tree.map(function, x), axis_resources=resources, mesh=make_mesh((2, 2)))
    message = (
        r"^jax.tree.unflatten: an array with the axes \('a', 'b'\) had data of shape \(\d, \d\) when .*: axis '[ab]' would have "
        r"size \d+ instead of \d+\. .* is_leaf=lambda v: isinstance\(v, nx.NamedArray\), .*nx.transpose"
    )
    with pytest.raises(nx.errors.AxisSizeError, match=message):
        f(x)
    with pytest.raises(nx.errors.AxisSizeError, match=message):
        jax.make_jaxpr(jax.grad(lambda x: nx.sum(f(x), ("a", "b"))))(x)


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_functions_of_leaves_that_change_the_sizes_of_names_are_refused_where_types_are_checked(move):
    function, before, after = move
    x = nx.named(array(8, 2), ["a", "b"])

    def moved(x: Named):
        return jax.tree.map(function, x)

    with pytest.raises(nx.errors.AxisSizeError, match=rf"'[ab]' would have size {after} instead of {before}"):
        nx.checked(moved)(x)
    jax.jit(moved)(x)  # elsewhere any data may be put into a tree


def test_functions_of_leaves_that_leave_the_sizes_of_names_as_they_are():
    """Positional axes may come, go and change, and anything else than an array may take the place of one."""
    x = nx.named(array(8, 2, 3), ["a", "b", None])

    def body(x: Rows):
        longer = jax.tree.map(lambda v: jnp.concatenate([v, v], -1), x)
        stacked = jax.tree.map(lambda v: jnp.stack([v, v]), x)
        rows = jax.vmap(lambda row: row * 2)(stacked)
        placeholder = jax.tree.map(lambda v: jax.ShapeDtypeStruct((5, 5, 5), v.dtype), x)
        return longer[..., :3] + nx.sum(rows, 0), placeholder.data.shape[0]

    f = nx.xmap(lambda x: body(x)[0], axis_resources={"a": "x"}, mesh=make_mesh((2, 2)))
    np.testing.assert_allclose(f(x).data, x.data * 5, rtol=1e-6)
    assert nx.checked(body)(x)[1] == 5
