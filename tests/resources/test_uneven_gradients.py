"""The gradient of padding is zero, whatever a user gives as a cotangent: to `jax.vjp` in the body, or by a rule of his own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import Placement

U, W = make.array([1.0, 2.0, 3.0]), make.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
LAYOUTS = [
    Placement("blocks", (4, 2), (("i", "x"),)),
    Placement("chunks", (2,), (("i", "x"),), "explicit"),
    Placement("two-mesh-axes", (4, 2), (("i", ("y", "x")),), "explicit"),
    Placement("beside", (2, 2), (("i", "x"), ("k", "y"))),
    Placement("steps", None, (("i", nx.SerialLoop(2)),)),
    Placement("steps-of-devices", (2,), (("i", ("x", nx.SerialLoop(2))),)),
]
# Few programs on every run, all of them and their gradients in the full suite.
SOME = ("itself", "gauss-newton", "transposed", "contraction", "plus-nx", "plus-jax", "plus-nmap", "lacks-nmap", "roll")
EACH = [
    pytest.param(p, labels, marks=[pytest.mark.fast(0)] * (labels is None), id=f"{p}-{'all' if labels is None else 'some'}")
    for p, labels in [(LAYOUTS[0], SOME), *((p, None) for p in LAYOUTS)]
]


def pulled(f, at, cotangent):
    return jax.vjp(f, at)[1](cotangent)[0]


def gauss_newton(f, at):
    return pulled(f, at, jax.jvp(f, (at,), (1.0,))[1])


def loops(f, x):
    return jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


def transposed(f, cotangent):
    return jax.linear_transpose(f, 0.5)(cotangent)[0]


def derivatives(xp, u, w, dot, total):
    """What the body computes of the gradients of values that lack the name, with cotangents that are not zero in padding."""

    def waves(k):
        return xp.sin(k * u)

    linear = jax.linearize(waves, 0.5)[1]
    contracted = jax.vjp(lambda v: dot(w, v), w[0] if xp is jnp else w[{"i": 0}])
    return {
        "itself": jax.vjp(lambda k: k * u, 2.0)[1](2.0 * u)[0],
        "ones": pulled(lambda k: k * u, 2.0, xp.ones_like(u)),
        "constant": pulled(lambda k: k + xp.zeros_like(u), 2.0, u + 1),
        "tree": jax.vjp(lambda k: {"a": k * u, "b": total(k * u)}, 2.0)[1]({"a": u + 1, "b": jnp.float32(3)})[0],
        "cumsum": pulled(lambda k: xp.cumsum(k * u, "i" if xp is nx else 0), 2.0, u + 1),
        "gauss-newton": gauss_newton(waves, 0.5),
        "transposed": transposed(lambda k: k * u, u * u + 1),
        "linearized": transposed(linear, u + 1),
        "checkpoint": pulled(jax.checkpoint(waves), 0.5, u + 1),
        "jit": pulled(jax.jit(waves), 0.5, u + 1),
        "loop": pulled(lambda k: loops(lambda c: k * c, u), 0.5, u + 1),
        "hessian": jax.grad(lambda k: pulled(waves, k, xp.cos(k * u) + 1))(0.5),
        "hessian-of-cotangent": jax.grad(lambda k: total(pulled(lambda v: v * v * k, u, k * u + 1)))(0.5),
        "contraction": total(contracted[1](contracted[0] + 1)[0]) if xp is jnp else nx.sum(contracted[1](contracted[0] + 1)[0], "k"),
    }  # fmt: skip


def named_derivatives(u, w):
    return derivatives(nx, u, w, lambda w, v: nx.dot(w, v, "k"), lambda v: nx.sum(v, "i"))


def plain_derivatives(u, w):
    return derivatives(jnp, u, w, jnp.dot, jnp.sum)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize(("placement", "labels"), EACH)
def test_cotangents_that_the_body_computes(placement, labels):
    def some(u, w):
        found = named_derivatives(u, w)
        return found if labels is None else {label: found[label] for label in labels if label in found}

    f = nx.xmap(some, (["i"], ["i", "k"]), [], **placement.options)
    with placement.context():
        values = f(U, W)
    expected = plain_derivatives(U, W)
    for label, value in values.items():
        np.testing.assert_allclose(value, expected[label], 1e-5, err_msg=label)
    if labels is not None:
        return
    g = nx.xmap(lambda u, w: sum(named_derivatives(u, w).values()), (["i"], ["i", "k"]), [], **placement.options)
    with placement.context():
        gradient = jax.jit(jax.grad(g, (0, 1)))(U, W)
    expected = jax.grad(lambda u, w: sum(plain_derivatives(u, w).values()), (0, 1))(U, W)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4), gradient, expected)


# Rules that do not map zero to zero: of a cotangent, of the residual, and in `nx` and `jnp`.
RULES = {
    "plus": lambda xp, r, g: g + 1.0,
    "ones": lambda xp, r, g: xp.ones_like(g),
    "where": lambda xp, r, g: xp.where(g > 1.5, g, 1.0),
    "sign": lambda xp, r, g: xp.sign(g - 1.5),
    "clip": lambda xp, r, g: xp.clip(g, 1.5, 2.5),
    "residual": lambda xp, r, g: r,
}
OVER_THE_NAME = {
    "roll": (lambda g: nx.roll(g, -1, "i"), lambda g: jnp.roll(g, -1)),
    "sum": (lambda g: nx.sum(g, "i"), lambda g: jnp.broadcast_to(jnp.sum(g), g.shape)),
    "cumsum": (lambda g: nx.cumsum(g + 1, "i"), lambda g: jnp.cumsum(g + 1)),
}


def ruled(kind, rule):
    f = kind(lambda v: v * 1)
    f.defvjp(lambda v: (v * 1, v), rule)
    return f


def losses():
    """Pairs of losses of `(k, u)`, in names and without."""
    pairs = {}
    for label, rule in RULES.items():
        plain = ruled(jax.custom_vjp, lambda r, g, rule=rule: (rule(jnp, r, g),))
        variants = {
            "nx": ruled(nx.custom_vjp, lambda r, g, rule=rule: (rule(nx, r, g),)),
            "jax": ruled(jax.custom_vjp, lambda r, g, rule=rule: (rule(nx, r, g),)),
            "nmap": nx.nmap(plain),
        }
        for kind, f in variants.items():
            pairs[f"{label}-{kind}"] = f, plain
    for label, (named, plain) in OVER_THE_NAME.items():
        f = ruled(nx.custom_vjp, lambda r, g, named=named: (named(g),))
        pairs[label] = f, ruled(jax.custom_vjp, lambda r, g, plain=plain: (plain(g),))
    found = {
        label: (lambda k, u, f=f: nx.sum(f(k * u) * u, "i"), lambda k, u, p=plain: jnp.sum(p(k * u) * u))
        for label, (f, plain) in pairs.items()
    }

    both = jax.custom_vjp(lambda w, v: w * v)
    both.defvjp(lambda w, v: (w * v, (w, v)), lambda r, g: (g * r[1] + 1, g * r[0] + 1))
    found["lacks-nmap"] = (
        lambda k, u: nx.sum(nx.nmap(both)(k, u) * u, "i"),
        lambda k, u: jnp.sum(jax.vmap(both, (None, 0))(k, u) * u),
    )
    return found


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize(("placement", "labels"), EACH)
def test_rules_that_do_not_map_zero_to_zero(placement, labels, inside):
    pairs = {
        label: pair
        for label, pair in losses().items()
        if (labels is None or label in labels)
        and not (label == "roll" and "steps" in placement.label)  # a loop's steps do not have each other's entries
    }
    options = dict(placement.options, axis_resources={"i": placement.options["axis_resources"]["i"]})

    def total(u, k, which):
        return sum(pair[which](k * (i + 1), u) for i, pair in enumerate(pairs.values()))

    def apart(u, k, which):
        return {label: jax.grad(pair[which])(k, u) for label, pair in pairs.items()}

    expected = apart(U, 0.5, 1)
    if inside:
        f = nx.xmap(lambda u: apart(u, 0.5, 0), (["i"],), [], **options)
        with placement.context():
            values = f(U)
        for label in pairs:
            np.testing.assert_allclose(values[label], expected[label], 1e-5, err_msg=label)
        return
    f = nx.xmap(lambda u, k: total(u, k, 0), (["i"], []), [], **options)
    with placement.context():
        gradient = jax.jit(jax.grad(f, (0, 1)))(U, 0.5)
    expected = jax.grad(lambda u, k: total(u, k, 1), (0, 1))(U, 0.5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), gradient, expected)


MOVES = {
    "roll": (lambda v: nx.roll(v, 1, "i"), lambda v: jnp.roll(v, 1)),
    "flip": (lambda v: nx.flip(v, "i"), jnp.flip),
    "cumsum": (lambda v: nx.cumsum(v, "i"), jnp.cumsum),
    "take": (lambda v: v[{"i": nx.named(make.array([2, 0, 5]), ["i"])}], lambda v: v[make.array([2, 0, 5])]),
}


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize(
    "label", ["roll", *(pytest.param(label, marks=pytest.mark.fast(0)) for label in MOVES if label != "roll")]
)
def test_tangents_that_move_along_the_axis(label):
    named, plain = MOVES[label]
    f, g = nx.custom_jvp(lambda v: named(nx.sin(v))), lambda v: plain(jnp.sin(v))
    f.defjvp(lambda p, t: (named(nx.sin(p[0])), named(nx.cos(p[0]) * t[0])))
    mapped = nx.xmap(f, ["i"], ["i"], **LAYOUTS[0].options)
    ours, theirs = ((lambda a, h=h: jnp.sum(h(a) * U)) for h in (mapped, g))
    np.testing.assert_allclose(jax.grad(ours)(U), jax.grad(theirs)(U), 1e-6)
    np.testing.assert_allclose(jax.jvp(mapped, (U,), (U,))[1], jax.jvp(g, (U,), (U,))[1], 1e-6)


def test_it_costs_nothing_where_sizes_divide():
    def body(u):
        return jax.vjp(lambda k: k * u, 2.0)[1](2.0 * u)[0]

    def masks(size):
        f = nx.xmap(body, (["i"],), [], **LAYOUTS[0].options)
        return str(jax.make_jaxpr(f)(jnp.ones(size))).count("mask_cotangent")

    assert masks(3)
    assert not masks(8)
