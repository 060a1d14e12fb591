"""What JAX has announced as defaults of later versions. Oracles are the same programs in plain `jnp`, on whole arrays.

`jax_auto_pcast=False`: JAX no longer casts a value that is the same on all devices where it meets one that varies. namedax casts named arrays
explicitly, and traces and compiles mapped functions with the flag switched on. A function around them that is compiled by its caller, such as
`jax.jit(jax.grad(mapped))`, is compiled with the caller's flag: there JAX itself cannot lower the derivative of `tanh`, even where all is cast.

`jax_remat3`, `jax_custom_jvp3` and `jax_custom_vjp3`: JAX makes high primitives of `jax.checkpoint` and of functions with rules for their
derivatives. Each program sends what it sends without the flags.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import namedax as nx
from tests.harness import HIGH_FLAGS, array, flags_on, make_mesh

KINDS = ("auto", "explicit")


def relu_squared(x):
    return jnp.where(x > 0, x * x, 0.0)


LAYOUTS = {
    "one each": ((4,), {"a": "x"}),
    "chunks": ((2,), {"a": "x"}),
    "both": ((2, 2), {"a": "x", "b": "y"}),
    "steps": ((2,), {"a": ("x", nx.SerialLoop(2))}),
}
# Named and positional forms of one function of x {a: 4, b: 6} and w {b: 6, c: 3}.
PROGRAMS = {
    "constants": (lambda x, w: 2 * x + 1, lambda x, w: 2 * x + 1, ["a", "b"]),
    "gelu": (lambda x, w: nx.nn.gelu(x), lambda x, w: jax.nn.gelu(x), ["a", "b"]),
    "softmax": (lambda x, w: nx.nn.softmax(x, "a"), lambda x, w: jax.nn.softmax(x, 0), ["a", "b"]),
    "mean": (lambda x, w: x - nx.mean(x, "a"), lambda x, w: x - jnp.mean(x, 0), ["a", "b"]),
    "var": (lambda x, w: nx.var(x, "b"), lambda x, w: jnp.var(x, 1), ["a"]),
    "max": (lambda x, w: nx.max(x, "a"), lambda x, w: jnp.max(x, 0), ["b"]),
    "cumsum": (lambda x, w: nx.cumsum(x, "a"), lambda x, w: jnp.cumsum(x, 0), ["a", "b"]),
    "where": (lambda x, w: nx.where(x > 0, x, 0.0), lambda x, w: jnp.where(x > 0, x, 0.0), ["a", "b"]),
    "dot": (lambda x, w: nx.tanh(nx.dot(x, w, "b")), lambda x, w: jnp.tanh(x @ w), ["a", "c"]),
    "lifted": (lambda x, w: nx.nmap(relu_squared)(x), lambda x, w: relu_squared(x), ["a", "b"]),
}


def loss(y):
    return nx.sum(y * y, tuple(y.dims)) if isinstance(y, nx.NamedArray) else jnp.sum(y * y)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_without_automatic_casts(program, layout, kind):
    named, plain, dims = PROGRAMS[program]
    x, w = array(4, 6), array(6, 3, seed=1)
    shape, resources = LAYOUTS[layout]
    options = {"axis_resources": resources, "mesh": make_mesh(shape, kind=kind)}
    forward = nx.xmap(named, (["a", "b"], ["b", "c"]), dims, **options)
    backward = nx.xmap(lambda x, w: jax.grad(lambda x: loss(named(x, w)))(x), (["a", "b"], ["b", "c"]), ["a", "b"], **options)
    want, slopes = plain(x, w), jax.grad(lambda x: loss(plain(x, w)))(x)
    with jax.auto_pcast(False):
        np.testing.assert_allclose(forward(x, w), want, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(backward(x, w), slopes, rtol=2e-5, atol=2e-5)
        assert forward.eval_shape(x, w).shape == want.shape
        forward.lower(x, w).compile()


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_from_outside_without_automatic_casts(kind):
    x, w = array(4, 6), array(6, 3, seed=1)
    mapped = nx.xmap(
        lambda x, w: nx.sum(nx.dot(x, w, "b") ** 2, ("a", "c")) / nx.axis_size("a"),
        (["a", "b"], ["b", "c"]),
        [],
        axis_resources={"a": "x"},
        mesh=make_mesh((2,), kind=kind),
    )
    want = jax.grad(lambda x, w: jnp.sum((x @ w) ** 2) / 4, (0, 1))(x, w)
    with jax.auto_pcast(False):
        for have, wanted in zip(jax.jit(jax.grad(mapped, (0, 1)))(x, w), want, strict=True):
            np.testing.assert_allclose(have, wanted, rtol=2e-5, atol=2e-5)


def test_the_flag_of_the_caller_stays():
    seen = []

    def body(x):
        seen.append(jax.config.jax_auto_pcast)
        return x * 2

    mapped = nx.xmap(body, ["a"], ["a"], axis_resources={"a": "x"}, mesh=make_mesh((2,)))
    with jax.auto_pcast(False):
        mapped(jnp.ones(4))
        assert not jax.config.jax_auto_pcast
    assert seen == [True]


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="lists what the newest JAX cannot do")
def test_jax_cannot_lower_a_derivative_that_is_cast_throughout():
    """Once JAX can, remove the sentence about it from docs/guides/debugging.md, and this test."""

    def by_hand(x):
        with jax.auto_pcast(True):
            spec = jax.sharding.PartitionSpec("x")
            return jnp.sum(jax.shard_map(jnp.tanh, mesh=make_mesh((2,)), in_specs=spec, out_specs=spec)(x))

    with jax.auto_pcast(False):
        traced = jax.jit(jax.grad(by_hand)).trace(jnp.ones(4))
        with pytest.raises(ValueError, match="add requires varying manual axes to match"):
            traced.lower()


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="lists what the newest JAX cannot do")
@pytest.mark.parametrize(("function", "name"), [(jax.nn.relu, "select_n"), (lambda v: jnp.pad(v, 1), "pad"), (jnp.sort, "eq")])
def test_jax_cannot_transpose_or_lower_other_functions(function, name):
    """Once JAX can, remove this test, and run tests/without_auto_pcast.txt again."""

    def by_hand(x):
        with jax.auto_pcast(True):
            spec = jax.sharding.PartitionSpec("x")
            return jnp.sum(jax.shard_map(function, mesh=make_mesh((2,)), in_specs=spec, out_specs=spec)(x))

    with jax.auto_pcast(False), pytest.raises(ValueError, match=f"{name} requires varying manual axes to match"):
        jax.jit(by_hand).lower(jnp.ones(4)) if name == "eq" else jax.grad(by_hand)(jnp.ones(4))


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="lists what the newest JAX cannot do")
def test_jax_cannot_differentiate_erf():
    """Once JAX can, remove core/error_function.py, the section about it in docs/guides/debugging.md, and this test."""
    spec = jax.sharding.PartitionSpec("x")
    by_hand = jax.shard_map(jax.lax.erf, mesh=make_mesh((2,)), in_specs=spec, out_specs=spec)
    with pytest.raises(ValueError, match="polynomial requires varying manual axes to match"):
        jax.grad(lambda x: jnp.sum(by_hand(x)))(jnp.ones(4))


# --- high primitives ------------------------------------------------------------------------------------------------


@jax.custom_vjp
def reversed_rule(v):
    return jnp.sin(v)


# Twice the derivative, so that a rule that is lost changes the gradient.
reversed_rule.defvjp(lambda v: (jnp.sin(v), jnp.cos(v)), lambda cos, g: (2 * g * cos,))


@jax.custom_jvp
def forward_rule(v):
    return jnp.sin(v)


forward_rule.defjvp(lambda primals, tangents: (jnp.sin(*primals), 2 * jnp.cos(*primals) * tangents[0]))

KEEP = jax.checkpoint_policies.save_only_these_names("cosine")


def first_positive(v):
    return jnp.nonzero(v > 0, size=6)[0]


# Named and positional forms of one function of x {a: 8, b: 6}, and the dims of the result.
HIGH_PROGRAMS = {
    "checkpoint": (
        jax.checkpoint(lambda x: nx.sum(nx.sin(x), "a") * nx.sum(x, "a")),
        lambda x: jnp.sin(x).sum(0) * x.sum(0),
        ["b"],
    ),
    "policy": (
        jax.checkpoint(lambda x: nx.sum(nx.sin(checkpoint_name(nx.cos(x), "cosine")), "a"), policy=KEEP),
        lambda x: jnp.sin(jnp.cos(x)).sum(0),
        ["b"],
    ),
    "rule on leaves": (lambda x: nx.sum(jax.tree.map(reversed_rule, x), "a"), lambda x: reversed_rule(x).sum(0), ["b"]),
    "rule in nmap": (lambda x: nx.sum(nx.nmap(forward_rule)(x), "a"), lambda x: forward_rule(x).sum(0), ["b"]),
    "relu": (lambda x: nx.sum(nx.nn.relu(x), "a"), lambda x: jax.nn.relu(x).sum(0), ["b"]),
    "softmax": (lambda x: nx.nn.softmax(x, "a"), lambda x: jax.nn.softmax(x, 0), ["a", "b"]),
    "logsumexp": (lambda x: nx.nn.logsumexp(x, "a"), lambda x: jax.nn.logsumexp(x, 0), ["b"]),
    "nonzero": (
        lambda x: nx.sum(x * nx.named(nx.nmap(first_positive)(nx.untag(x, ["b"])), ["b"]), "a"),
        lambda x: (x * jax.vmap(first_positive)(x)).sum(0),
        ["b"],
    ),
    "layers": (
        lambda x: nx.fold(jax.checkpoint(lambda c, v: nx.sin(c) + v), x["b", 0], x, axis="b"),
        lambda x: jax.lax.scan(lambda c, v: (jnp.sin(c) + v, None), x[:, 0], x.T)[0],
        ["a"],
    ),
}
STEPS = {**LAYOUTS, "steps": ((2,), {"a": nx.SerialLoop(4)}), "chunks of steps": ((2,), {"a": ("x", nx.SerialLoop(2))})}


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("flags", HIGH_FLAGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", STEPS)
@pytest.mark.parametrize("program", HIGH_PROGRAMS)
def test_high_primitives(program, layout, kind, flags):
    named, plain, dims = HIGH_PROGRAMS[program]
    x = array(8, 6)
    want, slopes = plain(x), jax.grad(lambda x: loss(plain(x)))(x)
    shape, resources = STEPS[layout]

    def run():
        # Other functions, since JAX remembers what it has traced of equal ones.
        options = {"axis_resources": resources, "mesh": make_mesh(shape, kind=kind)}
        forward = nx.xmap(lambda x: named(x), (["a", "b"],), dims, **options)
        inside = nx.xmap(lambda x: jax.grad(lambda x: loss(named(x)))(x), (["a", "b"],), ["a", "b"], **options)
        outside = jax.grad(lambda x: loss(forward(x)))
        return [forward(x), inside(x), outside(x)], [nx.hlo.summary(f.lower(x).compile()) for f in (forward, inside)]

    _, before = run()
    with flags_on(*HIGH_FLAGS[flags]):
        found, sent = run()
    for have, wanted in zip(found, (want, slopes, slopes), strict=True):
        np.testing.assert_allclose(have, wanted, rtol=2e-5, atol=2e-5)
    assert sent == before
