"""Contractions around a ring: values and gradients of the plain form, collective-permutes only, and no operand as a whole.

Oracles are `jnp`, and for the costs what the plain form sends.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError
from namedax.hlo import collectives
from tests.harness import array, make_mesh

BOTH = [True, "bidirectional"]
X, XY, YX = "x", ("x", "y"), ("y", "x")
# What is gathered or scattered, over which mesh axes; `ring` stands for them in the assignment.
CASES = {
    "contracted": ("{b,k},{k:kf,m}->{b,m}", (["b", "k"], ["kf", "m"]), ["b", "m"], ("b", "kf"), "bk,km->bm"),
    "free": ("{b,k},{k,m:mf}->{b,m}", (["b", "k"], ["k", "mf"]), ["b", "m"], ("b", "mf"), "bk,km->bm"),
    "free, of the first": ("{p:ps,k},{k,m}->{p,m}", (["ps", "k"], ["k", "m"]), ["p", "m"], ("m", "ps"), "pk,km->pm"),
    "batch": ("{b,k,m},{k:kf,m}->{b,k}", (["b", "k", "m"], ["kf", "m"]), ["b", "k"], ("b", "kf"), "bkm,km->bk"),
    "scattered": ("{p,k},{k,m}->{ps:p,m}", (["p", "k"], ["k", "m"]), ["ps", "m"], ("k", "ps"), "pk,km->pm"),
    "scattered batch": ("{p,k},{p,k}->{ps:p}", (["p", "k"], ["p", "k"]), ["ps"], ("k", "ps"), "pk,pk->p"),
    "with positions": (
        "i{b,k},{k:kf}j->ij{b}",
        ([None, "b", "k"], ["kf", None]),
        ["b", None, None],
        ("b", "kf"),
        "ibk,kj->bij",
    ),
}
SIZES = {"b": 8, "k": 16, "m": 8, "p": 8, "i": 2, "j": 3}


def operands(equation, dtype=jnp.float32):
    return [array(*(SIZES[c] for c in term), seed=i).astype(dtype) for i, term in enumerate(equation.split("->")[0].split(","))]


def mapped(case, overlap, axes, kind="auto", default=False, shape=(4, 2)):
    spec, in_axes, out_axes, names, _ = CASES[case]
    options = {"axis_resources": dict.fromkeys(names, axes), "mesh": make_mesh(shape, kind)}
    if default:
        return nx.xmap(lambda x, y: nx.einsum(spec, x, y), in_axes, out_axes, overlap=overlap, **options)
    return nx.xmap(lambda x, y: nx.einsum(spec, x, y, overlap=overlap), in_axes, out_axes, **options)


def check(f, equation, args, tol=1e-4):
    want = jnp.einsum(equation, *args)
    weights = array(*want.shape, seed=9)
    np.testing.assert_allclose(f(*args), want, rtol=tol, atol=tol)
    have = jax.jit(jax.grad(lambda *xs: jnp.sum(f(*xs) * weights), argnums=(0, 1)))(*args)
    for h, w in zip(
        have, jax.grad(lambda *xs: jnp.sum(jnp.einsum(equation, *xs) * weights), argnums=(0, 1))(*args), strict=True
    ):
        np.testing.assert_allclose(h, w, rtol=tol, atol=tol)


@pytest.mark.parametrize(
    ("axes", "kind", "overlap"), [(X, "auto", True), (YX, "auto", "bidirectional"), (XY, "explicit", True)], ids=str
)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, axes, kind, overlap):
    equation = CASES[case][-1]
    with jax.set_mesh(make_mesh((4, 2), kind)):
        check(mapped(case, overlap, axes, kind), equation, operands(equation))


@pytest.mark.parametrize("overlap", BOTH)
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_rings_of_any_length(n, overlap):
    mesh = jax.make_mesh((n,), ("x",), devices=jax.devices()[:n], axis_types=(jax.sharding.AxisType.Auto,))
    for case in ("contracted", "free", "scattered"):
        spec, in_axes, out_axes, names, equation = CASES[case]
        args = [array(*(30 for _ in term), seed=i) for i, term in enumerate(equation.split("->")[0].split(","))]
        f = nx.xmap(lambda x, y, spec=spec: nx.einsum(spec, x, y, overlap=overlap), in_axes, out_axes,
                    axis_resources=dict.fromkeys(names, "x"), mesh=mesh)  # fmt: skip
        check(f, equation, args)


@pytest.mark.parametrize("overlap", BOTH)
@pytest.mark.parametrize("case", CASES)
def test_costs(case, overlap):
    equation = CASES[case][-1]
    args = operands(equation)

    def sent(overlap):
        f = mapped(case, overlap, "x")
        grad = jax.grad(lambda *xs: jnp.sum(jnp.sin(f(*xs))), argnums=(0, 1))
        return [collectives(jax.jit(g).lower(*args).compile()) for g in (f, grad)]

    for plain, ring in zip(sent(False), sent(overlap), strict=True):
        assert {c.kind for c in plain} <= {"all-gather", "reduce-scatter"}
        assert {c.kind for c in ring} == {"collective-permute"}
    # All blocks but one's own: the bytes of an all-gather or a reduce-scatter on a ring. What is in the loop is sent in every step.
    (plain, _), (ring, _) = sent(False), sent(overlap)
    once = [c.bytes for c in ring if not c.in_loop]
    steps = 3 - len(once)
    assert sum(once) + steps * sum(c.bytes for c in ring if c.in_loop) == sum(c.wire_bytes for c in plain)


@pytest.mark.parametrize("overlap", BOTH)
def test_the_gathered_operand_never_exists(overlap):
    # 8 MiB of weights in blocks of 1 MiB; a few blocks are on their way at a time.
    shapes = jax.ShapeDtypeStruct((8, 1024), jnp.float32), jax.ShapeDtypeStruct((1024, 2048), jnp.float32)
    mesh = make_mesh((8,))

    def temporaries(overlap):
        f = nx.xmap(
            lambda x, w: nx.einsum("{b,k},{k:kf,m}->{b,m}", x, w, overlap=overlap),
            (["b", "k"], ["kf", "m"]),
            ["b", "m"],
            axis_resources={"b": "x", "kf": "x"},
            mesh=mesh,
        )
        programs = f, jax.jit(jax.grad(lambda x, w: jnp.sum(f(x, w) ** 2), argnums=(0, 1)))
        return [g.lower(*shapes).compile().memory_analysis().temp_size_in_bytes for g in programs]

    plain, ring = temporaries(False), temporaries(overlap)
    assert plain[0] > 2**23
    for size in ring:
        assert size < 2**23 * 0.7


def test_the_default_of_a_mapped_function():
    equation = CASES["contracted"][-1]
    args = operands(equation)
    default = mapped("contracted", True, "x", default=True)
    check(default, equation, args)
    assert {c.kind for c in collectives(default.lower(*args).compile())} == {"collective-permute"}
    spec, in_axes, out_axes, names, _ = CASES["contracted"]
    options = {"axis_resources": dict.fromkeys(names, "x"), "mesh": make_mesh((4, 2))}
    off = nx.xmap(lambda x, y: nx.einsum(spec, x, y, overlap=False), in_axes, out_axes, overlap=True, **options)
    assert {c.kind for c in collectives(off.lower(*args).compile())} == {"all-gather"}


def test_where_there_is_nothing_to_overlap():
    # Unmapped, gathered to be returned, summed to be returned, of integers: the plain form.
    args = operands("bk,km->bm")
    spec, in_axes, out_axes, _, equation = CASES["contracted"]
    for resources in ({}, {"kf": "x"}, {"m": "x"}, {"b": "y", "kf": "x"}):
        f = nx.xmap(
            lambda x, y: nx.einsum(spec, x, y),
            in_axes,
            out_axes,
            axis_resources=resources,
            mesh=make_mesh((4, 2)),
            overlap=True,
        )
        check(f, equation, args)
    integers = [jnp.asarray(arg * 3, int) for arg in args]
    np.testing.assert_array_equal(mapped("contracted", True, "x")(*integers), jnp.einsum(equation, *integers))


@pytest.mark.parametrize("overlap", BOTH)
@pytest.mark.parametrize("case", ["contracted", "scattered"])
def test_sixteen_bits(case, overlap):
    equation = CASES[case][-1]
    args = operands(equation, jnp.bfloat16)
    have = mapped(case, overlap, "x")(*args)
    assert have.dtype == jnp.bfloat16
    np.testing.assert_allclose(
        have.astype(jnp.float32), jnp.einsum(equation, *(a.astype(jnp.float32) for a in args)), rtol=0.05, atol=0.1
    )
    spec, in_axes, out_axes, names, _ = CASES[case]
    wide = nx.xmap(lambda x, y: nx.einsum(spec, x, y, overlap=overlap, preferred_element_type=jnp.float32), in_axes, out_axes,
                   axis_resources=dict.fromkeys(names, "x"), mesh=make_mesh((4, 2)))  # fmt: skip
    have = wide(*args)
    assert have.dtype == jnp.float32
    np.testing.assert_allclose(have, jnp.einsum(equation, *args, preferred_element_type=jnp.float32), rtol=1e-2, atol=1e-2)


def test_within_a_scan_and_twice_differentiated():
    def body(w, x):
        def layer(h, w):
            return nx.tanh(nx.rename(nx.einsum("{b,k},{k:kf,m}->{b,m}", h, w, overlap=True), {"m": "k"})), None

        return jax.lax.scan(layer, x, w)[0]

    def oracle(w, x):
        for i in range(2):
            x = jnp.tanh(x @ w[i])
        return x

    f = nx.xmap(body, ([None, "kf", "m"], ["b", "k"]), ["b", "k"], axis_resources={"b": "x", "kf": "x"}, mesh=make_mesh((4, 2)))
    w, x = array(2, 8, 8), array(8, 8)

    def hvp(f):
        return jax.grad(lambda w: jnp.sum(jax.grad(lambda w: jnp.sum(f(w, x) ** 2))(w) ** 2))(w)

    np.testing.assert_allclose(f(w, x), oracle(w, x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda: hvp(f))(), hvp(oracle), rtol=1e-3, atol=1e-3)


def test_mistakes():
    for call in (
        lambda: nx.einsum("a,a->", array(3), array(3), overlap="both"),
        lambda: nx.dot(nx.named(array(3), ["a"]), nx.named(array(3), ["a"]), "a", overlap="both"),
        lambda: nx.xmap(lambda x: x, overlap="both"),
    ):
        with pytest.raises(ArgumentError, match="overlap='both' is none of True, False and 'bidirectional'"):
            call()
