"""Law 5: what is computed from gathered parameters, by whatever means, has a gradient that is reduced no larger than by hand.

The hand-written program gathers a parameter in the form whose transpose is a reduce-scatter.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from tests.harness import make_mesh

K, D, B = 16, 24, 8
W = np.random.default_rng(0).normal(size=(K, D)).astype("float32")
X = np.random.default_rng(1).normal(size=(B, K)).astype("float32")
P = jax.sharding.PartitionSpec


def dot(x, w):
    return nx.dot(x, w, "k")


def in_a_loop(x, w):
    total, _ = nx.scan(lambda y, _: (y + dot(x, w), None), nx.zeros(named_shape={"b": B, "d": D}), None, length=3)
    return total / 3


def large(w):
    """More operations than are inlined."""
    for i in range(20):
        w = jnp.sin(w) + i * w
    return w


@jax.custom_jvp
def steep(w):
    return jnp.sin(w)


@steep.defjvp
def _(primals, tangents):
    return steep(*primals), 2 * jnp.cos(primals[0]) * tangents[0]  # twice the derivative, so that the rule shows


def on_both(x, w):
    return nx.cond(nx.sum(x, x.dims) > -1e9, lambda: dot(x, w), lambda: dot(2 * x, nx.tanh(w)))


def on_one(x, w):
    zeros = nx.zeros(named_shape={"b": B, "d": D})
    return nx.cond(nx.sum(w, w.dims) > -1e9, lambda w: dot(x, w), lambda w: zeros, w)


def before_in_branches(x, w):
    return dot(x, nx.cond(nx.sum(w, w.dims) > -1e9, lambda: nx.sin(w), lambda: nx.cos(w)))


def switched(x, w):
    return nx.switch(jnp.int32(1), [lambda: dot(x, nx.sin(w)), lambda: dot(x, w), lambda: dot(3 * x, w)])


def in_a_branch_in_a_loop(x, w):
    def step(y, _):
        return nx.cond(nx.sum(w, w.dims) > -1e9, lambda: y + dot(x, w), lambda: y), None

    return nx.scan(step, nx.zeros(named_shape={"b": B, "d": D}), None, length=2)[0] / 2


def in_parts(x, w):
    parts = nx.split(w, [4, 12], "d", out_axis=["d1", "d2", "d3"])
    return functools.reduce(lambda y, part: y * nx.sum(dot(x, part), part.dims[1]), parts, dot(x, parts[1]))


def in_parts_by_hand(x, w):
    parts = jnp.split(w, [4, 12], 1)
    return functools.reduce(lambda y, part: y * (x @ part).sum(1, keepdims=True), parts, x @ parts[1])


def in_groups(x, w):
    groups = nx.split_axis(w, "d", {"h": 4, "q": 6})
    return dot(x, groups["h", 0]) * dot(x, nx.sin(groups["h", 2]))


# label: (by name, of positions); y = x @ w but for what is done before.
USES = {
    "at once": (dot, lambda x, w: x @ w),
    "a helper that is compiled": (jax.jit(dot), lambda x, w: x @ w),
    "computed anew": (jax.checkpoint(dot), lambda x, w: x @ w),
    "computed anew in a helper": (jax.jit(jax.checkpoint(dot)), lambda x, w: x @ w),
    "in a loop": (in_a_loop, lambda x, w: x @ w),
    "before, in a helper": (lambda x, w: dot(x, jax.jit(lambda w: 2 * nx.tanh(w))(w)), lambda x, w: x @ (2 * jnp.tanh(w))),
    "before, in a large helper": (
        lambda x, w: dot(x, jax.jit(lambda w: nx.nmap(large)(w))(w)),
        lambda x, w: x @ large(w),
    ),
    "softmax": (lambda x, w: dot(x, nx.nn.softmax(w, "d")), lambda x, w: x @ jax.nn.softmax(w, 1)),
    "roll": (lambda x, w: dot(x, nx.roll(w, 2, "d")), lambda x, w: x @ jnp.roll(w, 2, 1)),
    "cumsum": (lambda x, w: dot(x, nx.cumsum(w, "k")), lambda x, w: x @ jnp.cumsum(w, 0)),
    "sort": (lambda x, w: dot(x, nx.sort(w, "d")), lambda x, w: x @ jnp.sort(w, 1)),
    "a mean alone": (lambda x, w: dot(x, nx.mean(w, "d")), lambda x, w: x @ w.mean(1)),
    "a row alone": (lambda x, w: dot(x, w["d", 3]), lambda x, w: x @ w[:, 3]),
    "divided by its sum": (lambda x, w: dot(x, w / (3 + nx.sum(w * w, "k"))), lambda x, w: x @ (w / (3 + (w * w).sum(0)))),
    "divided by its norm": (
        lambda x, w: dot(x, w / nx.sqrt(1 + nx.sum(w * w, "k"))),
        lambda x, w: x @ (w / jnp.sqrt(1 + (w * w).sum(0))),
    ),
    "its mean first": (
        lambda x, w: dot(x, nx.mean(w, "d") * nx.tanh(w)),
        lambda x, w: x @ (w.mean(1, keepdims=True) * jnp.tanh(w)),
    ),
    "in bfloat16": (
        lambda x, w: dot(x, jax.jit(lambda w: w.astype("bfloat16"))(w).astype("float32")),
        lambda x, w: x @ w.astype("bfloat16").astype("float32"),
    ),
    "softmax, in a helper": (
        lambda x, w: dot(x, jax.jit(lambda w: nx.nn.softmax(w, "d"))(w)),
        lambda x, w: x @ jax.nn.softmax(w, 1),
    ),
    "before, computed anew": (
        lambda x, w: dot(x, jax.checkpoint(lambda w: 2 * nx.tanh(w))(w)),
        lambda x, w: x @ (2 * jnp.tanh(w)),
    ),
    "before, in a helper computed anew": (
        lambda x, w: dot(x, jax.checkpoint(jax.jit(lambda w: 2 * nx.tanh(w)))(w)),
        lambda x, w: x @ (2 * jnp.tanh(w)),
    ),
    "a rule for its JVP": (lambda x, w: dot(x, nx.nmap(steep)(w)), lambda x, w: x @ steep(w)),
    "relu of JAX": (lambda x, w: dot(x, nx.nmap(jax.nn.relu)(w)), lambda x, w: x @ jax.nn.relu(w)),
    "in both branches": (on_both, lambda x, w: x @ w),
    "in one branch": (on_one, lambda x, w: x @ w),
    "in branches of JAX": (
        lambda x, w: jax.lax.cond(nx.sum(w, w.dims) > -1e9, lambda: dot(x, w), lambda: dot(2 * x, w)),
        lambda x, w: x @ w,
    ),
    "before, in branches": (before_in_branches, lambda x, w: x @ jnp.sin(w)),
    "in one of three branches": (switched, lambda x, w: x @ w),
    "in a branch in a loop": (in_a_branch_in_a_loop, lambda x, w: x @ w),
    "in parts": (in_parts, in_parts_by_hand),
    "in groups": (in_groups, lambda x, w: (x @ w[:, :6]) * (x @ jnp.sin(w[:, 12:18]))),
}
# A helper that combines elements across the blocks of one mesh axis: its gradient needs the sums over this axis first.
TWO_WAYS = ("softmax, in a helper",)
NEW = (
    "a rule for its JVP",
    "in both branches",
    "in parts",
    "softmax, in a helper",
    "before, computed anew",
    "in a branch in a loop",
)
FEW = ("computed anew", "softmax", "before, in a large helper", "its mean first")

# label: (mesh, resources, partition specs of w and x, mesh axes of the batch, (dimension, mesh axis) of the gathers)
LAYOUTS = {
    "one axis": ((8,), {"ks": "x", "b": "x"}, P("x"), P("x"), ("x",), [(0, "x")]),
    "batch over more": ((4, 2), {"ks": "x", "b": ("x", "y")}, P("x"), P(("x", "y")), ("x", "y"), [(0, "x")]),
    "in two dimensions": (
        (2, 4),
        {"ks": "x", "ds": "y", "b": ("x", "y")},
        P("x", "y"),
        P(("x", "y")),
        ("x", "y"),
        [(0, "x"), (1, "y")],
    ),
}
CASES = [
    pytest.param(
        use,
        layout,
        kind,
        inside,
        marks=()
        if (use in FEW and (layout, kind) in few)
        or (use in NEW and (layout, kind, inside) == ("batch over more", "explicit", True))
        else pytest.mark.fast(0),
    )
    for few in [{("one axis", "auto"), ("batch over more", "explicit"), ("in two dimensions", "auto")}]
    for use in USES
    for layout in LAYOUTS
    for kind in ("auto", "explicit")
    for inside in (False, True)
]


def loss_of(use):
    def loss(w, x):
        y = use(x, nx.rename(w, {old: new for old, new in (("ks", "k"), ("ds", "d")) if old in w.dims}))
        return nx.sum(y * y, y.dims)

    return loss


def by_hand(use, layout, kind):
    shape, _, w_spec, x_spec, batch, gathers = LAYOUTS[layout]

    def loss(w, x):
        early = tuple(axis for axis in batch if axis not in [axis for _, axis in gathers])
        w = jax.lax.pcast(w, early, to="varying") if early else w
        for dim, axis in gathers:
            w = jax.lax.all_gather(w, axis, axis=dim, tiled=True)
        return jax.lax.psum(jnp.sum(use(x, w) ** 2), batch)

    mapped = jax.shard_map(loss, mesh=make_mesh(shape, kind), in_specs=(w_spec, x_spec), out_specs=P())
    return jax.jit(jax.value_and_grad(mapped))


@functools.cache
def wanted(label):
    return jax.value_and_grad(lambda w: jnp.sum(USES[label][1](jnp.asarray(X), w) ** 2))(jnp.asarray(W))


def sent(function, *args):
    return sum(c.wire_bytes * c.trips for c in hlo.collectives(function.lower(*args).compile()))


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize(("use", "layout", "kind", "inside"), CASES)
def test_values_gradients_and_what_is_sent(use, layout, kind, inside):
    named, positional = USES[use]
    shape, resources, w_spec, x_spec, _, _ = LAYOUTS[layout]
    mesh = make_mesh(shape, kind)
    options = {"axis_resources": resources, "mesh": mesh}
    axes = (["ks", "ds" if "ds" in resources else "d"], ["b", "k"])
    if inside:
        f = jax.jit(nx.xmap(jax.value_and_grad(loss_of(named)), axes, ([], axes[0]), **options))
    else:
        f = jax.jit(jax.value_and_grad(nx.xmap(loss_of(named), axes, [], **options)))
    args = [jax.device_put(a, jax.NamedSharding(mesh, spec)) for a, spec in ((W, w_spec), (X, x_spec))]
    value, gradient = f(*args)
    want, wanted_gradient = wanted(use)
    np.testing.assert_allclose(value, want, rtol=2e-4)
    # In bfloat16 each device rounds its part of the gradient, as it does by hand.
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=2e-3, atol=0.1 if use == "in bfloat16" else 2e-3)
    flag = 4 * 2 if use in ("in both branches",) else 0  # the sum of x that decides
    if not (use in TWO_WAYS and layout == "in two dimensions" and inside):
        assert sent(f, *args) <= sent(by_hand(positional, layout, kind), *args) + flag


USED = ("before, in a helper", "a rule for its JVP", "in both branches", "in one branch", "in parts")


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("use", USED)
@pytest.mark.parametrize("count", [3, 5])
def test_values_where_sizes_do_not_divide(count, use, inside):
    mesh, axes = make_mesh((count,), "auto"), (["ks", "d"], ["b", "k"])
    options = {"axis_resources": {"ks": "x", "b": "x"}, "mesh": mesh}
    loss = loss_of(USES[use][0])
    if inside:
        f = jax.jit(nx.xmap(jax.value_and_grad(loss), axes, ([], axes[0]), **options))
    else:
        f = jax.jit(jax.value_and_grad(nx.xmap(loss, axes, [], **options)))
    for have, want in zip(f(W, X), wanted(use), strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("use", ["a rule for its JVP", pytest.param("in both branches", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("inside", [False, True])
def test_the_second_derivative(use, inside):
    """A rule is a rule in every order, and what is taken of a block has a gradient too."""
    mesh, axes = make_mesh((4,), "auto"), (["ks", "d"], ["b", "k"])
    options = {"axis_resources": {"ks": "x", "b": "x"}, "mesh": mesh}
    loss = loss_of(USES[use][0])
    mapped = nx.xmap(jax.grad(loss), axes, axes[0], **options) if inside else jax.grad(nx.xmap(loss, axes, [], **options))
    have = jax.jit(jax.grad(lambda w: jnp.sum(jnp.sin(mapped(w, X)))))(W)
    plain = jax.grad(lambda w: jnp.sum(USES[use][1](jnp.asarray(X), w) ** 2))
    want = jax.jit(jax.grad(lambda w: jnp.sum(jnp.sin(plain(w)))))(W)
    np.testing.assert_allclose(have, want, rtol=2e-3, atol=2e-2)


@pytest.mark.full(4)
@pytest.mark.fast(0)
@pytest.mark.parametrize("use", USED)
def test_bytes_are_those_that_explain_counts(use):
    mesh, axes = make_mesh((8,), "auto"), (["ks", "d"], ["b", "k"])
    f = nx.xmap(jax.value_and_grad(loss_of(USES[use][0])), axes, ([], axes[0]), axis_resources={"ks": "x", "b": "x"}, mesh=mesh)
    counted = {kind: bytes for kind, (_, bytes) in nx.explain(f, W, X).summary().items()}
    compiled = hlo.summary(jax.jit(f).lower(W, X).compile())
    assert counted == {kind: bytes for kind, (_, bytes) in compiled.items()}


@pytest.mark.full(2)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("use", ["softmax", "roll", *(pytest.param(use, marks=pytest.mark.fast(0)) for use in USED)])
def test_what_is_gathered_before_the_steps_of_a_loop_is_reduced_after_them(use, inside):
    """Each step would scatter its part of the gradient otherwise, which sends it as often as there are steps."""
    mesh, axes = make_mesh((2,), "auto"), (["ks", "d"], ["b", "k"])
    options = {"axis_resources": {"ks": "x", "b": ("x", nx.SerialLoop(4))}, "mesh": mesh}
    loss = loss_of(USES[use][0])
    if inside:
        f = jax.jit(nx.xmap(jax.value_and_grad(loss), axes, ([], axes[0]), **options))
    else:
        f = jax.jit(jax.value_and_grad(nx.xmap(loss, axes, [], **options)))
    value, gradient = f(W, X)
    want, wanted_gradient = wanted(use)
    np.testing.assert_allclose(value, want, rtol=2e-4)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=2e-3, atol=2e-3)
    gathered, reduced, total = W.nbytes // 2, W.nbytes, 4
    if use not in USED:  # each step gathers what these use
        assert sent(f, W, X) <= gathered + reduced + total
