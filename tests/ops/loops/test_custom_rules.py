"""`nx.custom_jvp` and `nx.custom_vjp`: rules that reduce over names, differentiated inside and outside of the mapped function."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import FEW, array, make_mesh


@nx.custom_vjp
def centred(x, w):
    """The gradient for `x` is centred, which `x * w` alone would not do; that for `w` is divided by the number of entries."""
    return x * w


def centred_fwd(x, w):
    return x * w, (x, w)


def centred_bwd(residuals, ct):
    x, w = residuals
    return ct * w - nx.mean(ct * w, "a"), nx.mean(nx.sum(ct * x, "b"), "a")


centred.defvjp(centred_fwd, centred_bwd)


@jax.custom_vjp
def plain_centred(x, w):
    return x * w


plain_centred.defvjp(
    lambda x, w: (x * w, (x, w)),
    lambda r, ct: (ct * r[1] - jnp.mean(ct * r[1], 0), jnp.mean(jnp.sum(ct * r[0], 1), 0)),
)


@nx.custom_jvp
def normalised(x, w):
    return x / nx.sum(x, "a") * w


@normalised.defjvp
def normalised_jvp(primals, tangents):  # not the derivative, so that one sees where it is used
    (x, w), (dx, dw) = primals, tangents
    return normalised(x, w), nx.named(jnp.ones(3), ["c"]) * 2 * dx / nx.sum(x * x, "a") + dw * nx.max(x, "a")


@jax.custom_jvp
def plain_normalised(x, w):
    return x / jnp.sum(x, 0) * w


@plain_normalised.defjvp
def plain_normalised_jvp(primals, tangents):
    (x, w), (dx, dw) = primals, tangents
    return plain_normalised(x, w), 2 * dx / jnp.sum(x * x, 0) + dw * jnp.max(x, 0)


def loss(f):
    return lambda x, w: nx.sum(nx.sin(f(x, w)), ("a", "b", "c"))


def plain_loss(f):
    return lambda x, w: jnp.sum(jnp.sin(f(x, w)))


def inputs():
    return jnp.abs(array(8, 4, 3)) + 0.1, array(3, seed=1)


AXES = (["a", "b", "c"], ["c"])
FORMS = {
    "outside": lambda f, options: jax.grad(nx.xmap(f, AXES, [], **options), (0, 1)),
    "inside": lambda f, options: nx.xmap(jax.grad(f, (0, 1)), AXES, AXES, **options),
    "linearized": lambda f, options: (
        lambda *args: jax.linear_transpose(jax.linearize(nx.xmap(f, AXES, [], **options), *args)[1], *args)(jnp.float32(1))
    ),
    "checkpoint": lambda f, options: jax.grad(nx.xmap(jax.checkpoint(f), AXES, [], **options), (0, 1)),
    "in a scan": lambda f, options: jax.grad(
        nx.xmap(lambda x, w: nx.scan(lambda t, _: (t + f(x, w), None), 0.0, length=1)[0], AXES, [], **options), (0, 1)
    ),
    "vmap": lambda f, options: (
        lambda x, w: jax.tree.map(
            lambda g: g[0],
            jax.vmap(jax.grad(nx.xmap(f, AXES, [], **options), (0, 1)), (0, None))(jnp.stack([x, x + 1]), w),
        )
    ),
}


LABELS = {"outside": [p.label for p in FEW], "inside": ["both", "two-mesh-axes"]}


def cases():
    """The main form in few placements, the others in fewer."""
    return [(form, p) for form in FORMS for p in FEW if p.label in LABELS.get(form, ["both"])]


@functools.cache
def gradients():
    return jax.jit(jax.grad(lambda *args: plain_loss(plain_centred)(*args) + plain_loss(plain_normalised)(*args), (0, 1)))(
        *inputs()
    )


@pytest.mark.full(3)
@pytest.mark.fast(3)
@pytest.mark.parametrize(("form", "placement"), cases(), ids=str)
def test_rules_reduce_over_names(form, placement):
    args = inputs()
    with placement.context():
        have = jax.jit(FORMS[form](lambda *args: loss(centred)(*args) + loss(normalised)(*args), placement.options))(*args)
    for h, w in zip(have, gradients(), strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-5)


def test_in_steps():
    args = inputs()
    options = {"axis_resources": {"a": ("x", nx.SerialLoop(2)), "b": "y"}, "mesh": make_mesh((4, 2))}
    want = jax.jit(jax.grad(plain_loss(plain_centred), (0, 1)))(*args)
    have = jax.grad(nx.xmap(loss(centred), AXES, [], **options), (0, 1))(*args)
    for h, w in zip(have, want, strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-5)


def test_the_rules_of_these_tests_are_not_the_derivatives():
    for plain in (plain_centred, plain_normalised):
        rule, derivative = (jax.jit(jax.grad(plain_loss(f), (0, 1)))(*inputs()) for f in (plain, plain.__wrapped__))
        assert not any(np.allclose(r, d, rtol=1e-2) for r, d in zip(rule, derivative, strict=True))


def test_the_function_itself_and_forward_mode():
    x, w = inputs()
    options = {"mesh": make_mesh((8,)), "axis_resources": {"a": "x"}}
    f = nx.xmap(normalised, AXES, ["a", "b", "c"], **options)
    np.testing.assert_allclose(f(x, w), plain_normalised(x, w), rtol=1e-5)
    have = jax.jvp(f, (x, w), (x, w))
    want = jax.jvp(plain_normalised, (x, w), (x, w))
    np.testing.assert_allclose(have[1], want[1], rtol=1e-5)
    eager = nx.xmap(normalised, AXES, ["a", "b", "c"], jit=False)
    np.testing.assert_allclose(jax.jvp(eager, (x, w), (x, w))[1], want[1], rtol=1e-5)
    assert normalised.__name__ == "normalised"
    assert repr(normalised).startswith("<custom_jvp of <function normalised")
    assert "is centred" in centred.__doc__
    assert list(inspect.signature(centred).parameters) == ["x", "w"]


def test_orders_and_missing_names_are_mended():
    @nx.custom_vjp
    def f(x, y):
        return x * y

    def bwd(residuals, ct):
        assert ct.dims == ("a", "b")
        return nx.named(jnp.ones((3, 2)), ["b", "a"]) * 2, 5.0  # another order; no names at all

    f.defvjp(lambda x, y: (y * x, (x, y)), bwd)
    x, y = nx.named(make.ones((2, 3)), ["a", "b"]), nx.named(make.ones((2, 3)), ["a", "b"])
    dx, dy = jax.grad(lambda x, y: nx.sum(f(x, y), ("a", "b")), (0, 1))(x, y)
    assert (dx.dims, dy.dims) == (("a", "b"), ("a", "b"))
    assert dx.data.tolist() == [[2.0] * 3] * 2
    assert dy.data.tolist() == [[5.0] * 3] * 2


def test_arguments_that_are_not_differentiated():
    @functools.partial(nx.custom_vjp, nondiff_argnums=(0, 2))
    def apply(function, x, factor=3, scale=1.0):
        return function(x) * factor * scale

    apply.defvjp(
        lambda function, x, factor, scale: (apply(function, x, factor, scale), x),
        lambda function, factor, x, ct: (ct * factor * 100, None),
    )
    x = nx.named(make.arange(3.0), ["k"])
    slope = jax.grad(lambda x: nx.sum(apply(nx.sin, x, scale=2.0), "k"))(x)
    np.testing.assert_allclose(slope.data, [300.0] * 3)

    @functools.partial(nx.custom_jvp, nondiff_argnums=0)
    def power(n, x):
        return x**n

    power.defjvp(lambda n, primals, tangents: (power(n, *primals), tangents[0] * n))
    np.testing.assert_allclose(jax.grad(lambda x: nx.sum(power(4, x), "k"))(x).data, [4.0] * 3)

    @nx.custom_jvp
    def product(x, y):
        return x * y

    product.defjvps(lambda dx, result, x, y: 7 * dx * y, None)
    dx, dy = jax.grad(lambda x, y: nx.sum(product(x, y), "k"), (0, 1))(x, x + 1)
    np.testing.assert_allclose(dx.data, [7.0, 14.0, 21.0])
    np.testing.assert_allclose(dy.data, [0.0] * 3)


def test_pytrees_integers_and_methods():
    class Model:
        @functools.partial(nx.custom_vjp, nondiff_argnums=(0,))
        def loss(self, params, labels):
            return nx.sum(params["w"] * labels, "k"), labels

        loss.defvjp(
            lambda self, params, labels: ((nx.sum(params["w"] * labels, "k"), labels), labels),
            lambda self, labels, cts: ({"w": cts[0] * labels * 10.0, "b": None}, None),
        )

    labels = nx.named(make.array([1, 2, 3]), ["k"])
    params = {"w": nx.named(make.ones(3), ["k"]), "b": make.ones(2)}
    grads = jax.grad(lambda p: Model().loss(p, labels)[0])(params)
    np.testing.assert_allclose(grads["w"].data, [10.0, 20.0, 30.0])
    np.testing.assert_allclose(grads["b"], [0.0, 0.0])


def test_an_array_that_the_body_closes_over():
    table = nx.named(make.arange(8.0), ["a"])
    f = nx.xmap(
        lambda w: nx.sum(centred(nx.named(jnp.ones((8, 2)), ["a", "b"]) * table, w) ** 2, ("a", "b")),
        ([],),
        [],
        mesh=make_mesh((8,)),
        axis_resources={"a": "x"},
    )
    xs = make.ones((8, 2)) * make.arange(8.0)[:, None]
    want = jax.jit(jax.grad(lambda w: jnp.sum(plain_centred(xs, w) ** 2)))(2.0)
    np.testing.assert_allclose(jax.grad(f)(2.0), want, rtol=1e-5)


def test_mistakes():
    x = nx.named(make.ones((2, 3)), ["a", "k"])
    w = nx.named(make.ones(3), ["k"])

    def gradient(bwd, fwd=lambda w, x: (w * x, (w, x))):
        f = nx.custom_vjp(lambda w, x: w * x)
        f.defvjp(fwd, bwd)
        return jax.grad(lambda w: nx.sum(f(w, x), ("a", "k")))(w)

    with pytest.raises(nx.errors.NamedAxesLeftError) as raised:
        gradient(lambda r, ct: (ct * r[1], None))
    assert "custom_vjp <lambda>: the cotangent of argument 0 is f32[]{a:2, k:3}, for f32[]{k:3}, which has no axis 'a'." in str(
        raised.value
    )
    assert "nx.sum(cotangent, 'a')" in str(raised.value)
    with pytest.raises(
        nx.errors.ArgumentTypeError, match="bwd must return a tuple of 2 cotangents, one for each argument, got 1"
    ):
        gradient(lambda r, ct: (nx.sum(ct * r[1], "a"),))
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"fwd returns NamedArray; return \(result, residuals\)"):
        gradient(lambda r, ct: (ct, ct), lambda w, x: w * x)
    with pytest.raises(nx.errors.PositionalAxisError, match="their positional axes must be the same"):
        gradient(lambda r, ct: (nx.sum(ct * r[1], "a") * jnp.ones(4), None))
    different = r"the cotangent of argument 0 is a single value, but argument 0 is a dict with the key 'w'\. The two must"
    with pytest.raises(nx.errors.ArgumentTypeError, match=different):
        gradient_of_dict(x)
    with pytest.raises(nx.errors.ArgumentError, match="custom_jvp sin: the function has no rule"):
        nx.custom_jvp(nx.sin)(x)
    with pytest.raises(nx.errors.ArgumentError, match="custom_vjp <lambda>: the function has no rule"):
        nx.custom_vjp(lambda x: x)(x)
    with pytest.raises(nx.errors.ArgumentError, match="'scale' is keyword-only"):
        keyword_only(x, scale=2)
    with pytest.raises(nx.errors.ArgumentError, match="defjvps does not support nondiff_argnums"):
        nx.custom_jvp(lambda n, x: x, nondiff_argnums=(0,)).defjvps(None)
    f = nx.custom_jvp(lambda x: nx.sum(x, "k"))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    with pytest.raises(
        nx.errors.NamedAxesLeftError, match=r"the tangent of the result is f32\[\]\{a:2, k:3\}.*nx.sum\(tangent, 'k'\)"
    ):
        jax.jvp(f, (x,), (x,))
    f.defjvp(lambda primals, tangents: f(*primals))
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"the rule returns NamedArray; return \(result, tangent\)"):
        jax.jvp(f, (x,), (x,))


def gradient_of_dict(x):
    f = nx.custom_vjp(lambda p: p["w"])
    f.defvjp(lambda p: (p["w"], None), lambda _, ct: (ct,))
    return jax.grad(lambda w: nx.sum(f({"w": w}), ("a", "k")))(x)


@nx.custom_vjp
def keyword_only(x, *, scale):
    return x * scale


keyword_only.defvjp(lambda x: (x, None), lambda _, ct: (ct,))


# --- rules of JAX's own, which are traced when the body has ended ----------------------------------------------------


def raw_vjp(bwd, fwd=None):
    f = jax.custom_vjp(lambda x: nx.sin(x))
    f.defvjp(fwd or (lambda x: (nx.sin(x), x)), bwd)
    return f


def raw_jvp(rule):
    f = jax.custom_jvp(lambda x: nx.sin(x))
    f.defjvp(rule)
    return f


RAW_RULES = {
    "forward": raw_vjp(lambda r, ct: (ct * r,), lambda x: (nx.sin(x), x / nx.sum(x, "a"))),
    "residual": raw_vjp(lambda x, ct: (ct * nx.sum(x, "a"),)),
    "computed residual": raw_vjp(lambda r, ct: (ct * nx.sum(r, "a"),), lambda x: (nx.sin(x), nx.cos(x) * 2)),
    "cotangent": raw_vjp(lambda _, ct: (ct - nx.mean(ct, "a"),), lambda x: (nx.sin(x), None)),
    "both names": raw_vjp(lambda x, ct: (ct * nx.max(x, ("b", "a")),)),
    "einsum": raw_vjp(lambda x, ct: (ct * nx.einsum("{a,b},{a,b}->{b}", x, x),)),
    "dot": raw_vjp(lambda x, ct: (ct * nx.dot(x, x, "a"),)),
    "helper": raw_vjp(lambda x, ct: (ct * jax.jit(lambda y: nx.sum(y * 2, "a"))(x + 1),)),
    "helper twice": raw_vjp(lambda x, ct: (ct * jax.jit(lambda y: jax.jit(lambda z: nx.sum(z, "a"))(y * 2))(x + 1),)),
    "loop": raw_vjp(lambda x, ct: (ct * jax.lax.scan(lambda c, _: (c * 1.0, nx.sum(c * x, "a")), x, None, length=2)[1][1],)),
    "branch": raw_vjp(lambda x, ct: (ct * jax.lax.cond(True, lambda: nx.sum(x * 1, "a"), lambda: nx.sum(x * 2, "a")),)),
    "jvp": raw_jvp(lambda x, dx: (nx.sin(x[0]), dx[0] * nx.sum(x[0], "a"))),
    "jvp of a tangent": raw_jvp(lambda x, dx: (nx.sin(x[0]), dx[0] - nx.mean(dx[0], "a"))),
}


@pytest.mark.full(4)
@pytest.mark.fast(1)
@pytest.mark.parametrize("rule", RAW_RULES.values(), ids=RAW_RULES)
def test_raw_rules_that_reduce_are_refused_where_the_body_has_ended(rule):
    x = array(8, 4)
    f = nx.xmap(rule, ["a", "b"], ["a", "b"], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    f(x)
    with pytest.raises(
        nx.errors.AxisResourceError, match="axis 'a' is mapped to mesh axis 'x' by a mapped function that has ended"
    ):
        jax.grad(lambda x: jnp.sum(f(x)))(x)
    # Where the body takes the gradient, the rule is a part of it; and where nothing is mapped, nothing is cut.
    inside = nx.xmap(jax.grad(lambda x: nx.sum(rule(x), ("a", "b"))), ["a", "b"], ["a", "b"], axis_resources={"a": "x"},
                     mesh=make_mesh((4, 2)))  # fmt: skip
    unmapped = jax.grad(lambda x: jnp.sum(nx.xmap(rule, ["a", "b"], ["a", "b"])(x)))
    np.testing.assert_allclose(inside(x), unmapped(x), rtol=1e-4, atol=1e-5)


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("resources", [{"a": ("x", nx.SerialLoop(2))}, {"a": nx.SerialLoop(2)}, {"a": ("y", "x")}], ids=str)
def test_raw_rules_are_refused_under_every_assignment(resources, kind):
    f = nx.xmap(RAW_RULES["residual"], ["a", "b"], ["a", "b"], axis_resources=resources, mesh=make_mesh((4, 2), kind))
    for transform in (jax.jit, jax.checkpoint, lambda g: lambda x: jax.vmap(g)(x[None])):
        with pytest.raises(nx.errors.AxisResourceError, match=r"axis 'a' is mapped .* has ended"):
            transform(jax.grad(lambda x: jnp.sum(f(x))))(array(8, 4))


MOVES = {
    "roll": lambda x: nx.roll(x, 1, "a"),
    "shift": lambda x: nx.shift(x, 1, "a"),
    "flip": lambda x: nx.flip(x, "a"),
    "halo": lambda x: nx.halo(x, "a", 1),
    "getitem": lambda x: x["a", 0],
    "set": lambda x: x.at["a", 0].set(7.0),
    "take": lambda x: nx.take(x, 0, "a"),
    "rename": lambda x: nx.rename(x, {"a": "c"}),
    "rearrange": lambda x: nx.rearrange(x, "{a=(c d)} -> {c, d}", c=2),
    "concatenate": lambda x: nx.concatenate([x, x], "a"),
    "positional": lambda x: nx.positional(x, ["a", "b"]),
    "untag": lambda x: nx.untag(x, ["a"]),
    "all_gather": lambda x: nx.lax.all_gather(x, "a"),
    "pbroadcast": lambda x: nx.lax.pbroadcast(x, "a", 0),
    "ppermute": lambda x: nx.lax.ppermute(x, "a", [(i, (i + 1) % 8) for i in range(8)]),
    "scan": lambda x: nx.scan(lambda c, e: (c + e, c), 0.0, x, axis="a"),
    "fold": lambda x: nx.fold(lambda c, e: c + e, 0.0, x, axis="a"),
    "associative_scan": lambda x: nx.lax.associative_scan(jnp.add, x, axis="a"),
    "gradient": lambda x: nx.gradient(x, axis="a"),
    "fft": lambda x: nx.numpy.fft.fft(x, axis="a"),
    "named_shape": lambda x: x / x.named_shape["a"],
    "add": lambda x: x + nx.arange(8, axis="a"),  # whose axis is whole
}


def moving(kind, move):
    """The gradient of a mapped function whose rule of JAX moves entries."""
    rules = {"vjp": raw_vjp(lambda x, ct: (move(ct),)), "jvp": raw_jvp(lambda x, dx: (nx.sin(x[0]), move(dx[0])))}
    f = nx.xmap(rules[kind], ["a", "b"], ["a", "b"], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    return jax.grad(lambda x: jnp.sum(f(x)))


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_raw_rules_that_move_entries_are_refused_where_the_body_has_ended(kind):
    for what, move in MOVES.items():
        message = rf"^{what}: axis 'a' is mapped to mesh axis 'x' .* has ended .* Use nx\.custom_vjp or nx\.custom_jvp"
        with pytest.raises(nx.errors.AxisResourceError, match=message):
            jax.make_jaxpr(moving(kind, move))(array(8, 4))


def test_raw_rules_that_act_on_every_entry():
    def pull(x, ct):
        assert x.named_shape["b"] == 4
        assert list(x.named_shape) == ["a", "b"]
        assert "a" in repr(x)
        rows = nx.roll(ct, 1, "b") * nx.einsum("{a,b},{a,b}->{a}", x, x) + nx.cumsum(x, "b") + x["b", 0]
        return (nx.where(rows > 1, rows, nx.nmap(jnp.tanh)(rows)) + nx.zeros_like(x) + nx.vmap(nx.sin, "a")(ct),)

    def slope(resources):
        f = nx.xmap(raw_vjp(pull), ["a", "b"], ["a", "b"], axis_resources=resources, mesh=make_mesh((4, 2)))
        return jax.grad(lambda x: jnp.sum(f(x) ** 2))(array(8, 4))

    np.testing.assert_allclose(slope({"a": "x"}), slope({}), rtol=1e-5)


@pytest.mark.fast(0)
def test_a_shard_map_of_one_s_own_may_use_the_same_names():
    # Whatever was mapped before, and whatever went wrong there, a block's axis is what its owner says.
    mesh, x = make_mesh((4, 2)), array(8, 4)
    kept = [
        nx.xmap(body, ["a", "b"], ["a", "b"], axis_resources={"a": "x"}, mesh=mesh)
        for body in (centred_once, *RAW_RULES.values())
    ]
    failures = []
    for f in kept[:3]:
        f(x)
        try:
            jax.grad(lambda x, f=f: jnp.sum(f(x)))(x)
        except nx.errors.AxisResourceError as error:
            failures.append(error)  # with all frames of the rule
    assert len(failures) == 2

    def block_sums(block):
        return nx.positional(
            nx.sum(nx.named(block, ["a", "b"]), "a") + nx.einsum("{a,b}->{b}", nx.named(block, ["a", "b"])), ["b"]
        )[None]

    want = 2 * np.asarray(x).reshape(4, 2, 4).sum(1)
    own = jax.shard_map(block_sums, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    np.testing.assert_allclose(own(x), want, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(own)(x), want, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(own(x)))(x), np.full((8, 4), 2.0))
    named = jax.shard_map(lambda x: nx.sum(x, "a").data[None], mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    np.testing.assert_allclose(named(nx.named(x, ["a", "b"])), want / 2, rtol=1e-5)


def centred_once(x):
    return x - nx.mean(x, "a")
