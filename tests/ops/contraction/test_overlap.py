"""Contractions around a ring: values and gradients of the plain form, collective-permutes only, and no operand as a whole.

Oracles are `jnp`, and for the costs what the plain form sends.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal, jaxprs_in_params
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import ArgumentError
from namedax.hlo import collectives
from namedax.primitives.calls import HIGH
from namedax.primitives.equations import jaxpr_of
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
    "of many axes": (
        "...{g,b,k,l},{g,k:kf,l,m}->...{g,b,m}",
        ([None, "g", "b", "k", "l"], ["g", "kf", "l", "m"]),
        ["g", "b", "m", None],
        ("b", "kf"),
        "igbkl,gklm->gbmi",
    ),
    "reduced": ("{b,k},{k,m}->{b,m}", (["b", "k"], ["k", "m"]), ["b", "m"], ("k",), "bk,km->bm"),
    "reduced batch": ("{b,k,m},{b,k}->{b,m}", (["b", "k", "m"], ["b", "k"]), ["b", "m"], ("k",), "bkm,bk->bm"),
    "with positions": (
        "i{b,k},{k:kf}j->ij{b}",
        ([None, "b", "k"], ["kf", None]),
        ["b", None, None],
        ("b", "kf"),
        "ibk,kj->bij",
    ),
}
SIZES = {"b": 8, "k": 16, "m": 8, "p": 8, "g": 2, "i": 2, "j": 3, "l": 3}


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


# These differ in how blocks are cut; the others in what else is there.
FORMS = ("contracted", "free", "batch", "scattered", "reduced")
PLACES = [(YX, "auto", "bidirectional"), (X, "auto", True), (XY, "explicit", True)]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("case", "axes", "kind", "overlap"),
    [(case, *place) for case in CASES for place in (PLACES if case in FORMS else PLACES[:1])],
    ids=str,
)
def test_values_and_gradients(case, axes, kind, overlap):
    equation = CASES[case][-1]
    with jax.set_mesh(make_mesh((4, 2), kind)):
        check(mapped(case, overlap, axes, kind), equation, operands(equation))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("n", "overlap"), [(1, True), (2, True), (2, "bidirectional"), (3, "bidirectional"), (5, True), (5, "bidirectional")]
)
def test_rings_of_any_length(n, overlap):
    mesh = jax.make_mesh((n,), ("x",), devices=jax.devices()[:n], axis_types=(jax.sharding.AxisType.Auto,))
    for case in ("contracted", "free", "scattered", "reduced"):
        spec, in_axes, out_axes, names, equation = CASES[case]
        args = [array(*(30 for _ in term), seed=i) for i, term in enumerate(equation.split("->")[0].split(","))]
        f = nx.xmap(lambda x, y, spec=spec: nx.einsum(spec, x, y, overlap=overlap), in_axes, out_axes,
                    axis_resources=dict.fromkeys(names, "x"), mesh=mesh)  # fmt: skip
        check(f, equation, args)


@functools.cache
def sent(case, overlap, axes):
    """What a contraction sends, and what its gradient does."""
    args = operands(CASES[case][-1])
    f = mapped(case, overlap, axes)
    grad = jax.grad(lambda *xs: jnp.sum(jnp.sin(f(*xs))), argnums=(0, 1))
    return [collectives(jax.jit(g).lower(*args).compile()) for g in (f, grad)]


@pytest.mark.full(1)
@pytest.mark.fast(2)
@pytest.mark.parametrize(
    ("case", "overlap"),
    [
        (case, overlap)
        for overlap in BOTH
        for case in CASES
        if not case.startswith("reduced") and (overlap is True or case in FORMS)
    ],
)
def test_costs(case, overlap):
    for plain, ring in zip(sent(case, False, X), sent(case, overlap, X), strict=True):
        assert {c.kind for c in plain} <= {"all-gather", "reduce-scatter"}
        assert {c.kind for c in ring} == {"collective-permute"}
    # All blocks but one's own: the bytes of an all-gather or a reduce-scatter on a ring. What is in the loop is sent in every step.
    (plain, _), (ring, _) = sent(case, False, X), sent(case, overlap, X)
    once = [c.bytes for c in ring if not c.in_loop]
    steps = 3 - len(once)
    assert sum(once) + steps * sum(c.bytes for c in ring if c.in_loop) == sum(c.wire_bytes for c in plain)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("case", "overlap", "axes"),
    [
        ("reduced", True, X),
        ("reduced", "bidirectional", XY),
        ("reduced batch", True, XY),
        ("reduced batch", "bidirectional", X),
    ],
)
def test_costs_of_a_sum_that_all_have(case, overlap, axes):
    """A reduce-scatter and an all-gather around the ring: the bytes of an all-reduce on a ring. The gradient sends nothing more."""
    plain, ring = sent(case, False, axes), sent(case, overlap, axes)
    assert [c.kind for c in plain[0]] == ["all-reduce"]
    for found in ring:
        assert {c.kind for c in found} == {"collective-permute"}
    assert sorted(map(str, ring[0])) == sorted(map(str, ring[1]))
    n = 4 if axes == X else 8
    if overlap is True:  # in two loops, and the last one of the first half
        once, steps = [[c.bytes for c in ring[0] if c.in_loop is looped] for looped in (False, True)]
        assert len(once) == 1
        assert len(steps) == 2
        assert once[0] + (n - 2) * steps[0] + (n - 1) * steps[1] == plain[0][0].wire_bytes
    else:
        assert len({c.bytes for c in ring[0]}) == 1
        assert 2 * (n - 1) * ring[0][0].bytes == plain[0][0].wire_bytes


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("overlap", BOTH)
def test_a_sum_that_all_have_is_the_same_for_all(overlap):
    """To the last bit: each block is added up once, and then sent to everyone. JAX's checker is not asked."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    f = nx.xmap(lambda x, w: nx.dot(x, w, "k", overlap=overlap), (["b", "k"], ["k", "m"]), ["b", "m"],
                axis_resources={"k": "x"}, mesh=mesh)  # fmt: skip
    x, w = array(16, 64) * 1e3, array(64, 24, seed=1)
    shards = [np.asarray(shard.data) for shard in f(x, w).addressable_shards]
    assert len(shards) == 8
    assert all((shard == shards[0]).all() for shard in shards)
    want = jax.shard_map(lambda x, w: jax.lax.psum(x @ w, "x"), mesh=mesh, in_specs=(P(None, "x"), P("x")), out_specs=P())
    np.testing.assert_allclose(shards[0], want(x, w), rtol=1e-4, atol=1e-1)


@pytest.mark.fast(0)
def test_a_sum_that_is_not_sent_in_parts():
    """A vector, or a matrix of which no axis divides by the number of devices: one all-reduce."""
    for equation, sizes in (("bk,k->b", (8, 16)), ("bk,km->bm", (6, 16, 10))):
        b, k, *m = sizes
        args = [array(b, k), array(k, *m, seed=1)]
        names = (["b", "k"], ["k", "m"][: 1 + len(m)])
        f = nx.xmap(lambda x, y: nx.dot(x, y, "k"), names, ["b", "m"][: 1 + len(m)],
                    axis_resources={"k": "x"}, mesh=make_mesh((4, 2)), overlap=True)  # fmt: skip
        check(f, equation, args)
        assert [c.kind for c in collectives(f.lower(*args).compile())] == ["all-reduce"]


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_stored_on_two_mesh_axes():
    """One axis is gathered at once, the other goes around."""
    spec, in_axes, resources = "{b,k},{k:kf,m:mf}->{b,m}", (["b", "k"], ["kf", "mf"]), {"b": XY, "kf": "x", "mf": "y"}
    args = operands("bk,km->bm")
    for overlap in BOTH:
        f = nx.xmap(lambda x, y, overlap=overlap: nx.einsum(spec, x, y, overlap=overlap), in_axes, ["b", "m"],
                    axis_resources=resources, mesh=make_mesh((4, 2)))  # fmt: skip
        check(f, "bk,km->bm", args)
        assert {c.kind for c in collectives(f.lower(*args).compile())} == {"all-gather", "collective-permute"}
        grad = jax.jit(jax.grad(lambda *xs, f=f: jnp.sum(f(*xs) ** 2), argnums=(0, 1))).lower(*args).compile()
        assert {c.kind for c in collectives(grad)} == {"all-gather", "reduce-scatter", "collective-permute"}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("overlap", BOTH)
def test_beside_an_axis_in_time(overlap):
    """A body that is executed in steps: the first half of an all-reduce is a ring."""
    args = operands("bk,km->bm")
    for resources, kinds in (
        ({"k": "x", "b": ("y", nx.SerialLoop(2))}, {"collective-permute", "all-gather"}),
        ({"k": ("x", nx.SerialLoop(2))}, {"all-reduce"}),
    ):
        f = nx.xmap(lambda x, y: nx.dot(x, y, "k"), (["b", "k"], ["k", "m"]), ["b", "m"],
                    axis_resources=resources, mesh=make_mesh((4, 2)), overlap=overlap)  # fmt: skip
        check(f, "bk,km->bm", args)
        assert {c.kind for c in collectives(f.lower(*args).compile())} == kinds


@pytest.mark.fast(0)
def test_three_operands_and_no_compilation():
    """The sum of the smallest product is around the ring; the same where every operation runs by itself."""
    args = [array(8, 16), array(16, 4, seed=1), array(4, 12, seed=2)]

    def body(x, a, b):
        return nx.einsum("{b,k},{k,r},{r,m}->{b,m}", x, a, b, overlap=True)

    for jit in (True, False):
        f = nx.xmap(body, (["b", "k"], ["k", "r"], ["r", "m"]), ["b", "m"], jit=jit,
                    axis_resources={"k": "x", "m": "y"}, mesh=make_mesh((4, 2)))  # fmt: skip
        np.testing.assert_allclose(f(*args), args[0] @ args[1] @ args[2], rtol=1e-4, atol=1e-4)
    f = nx.xmap(body, (["b", "k"], ["k", "r"], ["r", "m"]), ["b", "m"], axis_resources={"k": "x"}, mesh=make_mesh((4, 2)))
    assert {(c.kind, c.bytes) for c in collectives(f.lower(*args).compile())} == {("collective-permute", 4 * 8 * 4 // 4)}


@pytest.mark.fast(0)
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


@pytest.mark.fast(1)
@pytest.mark.parametrize("overlap", BOTH)
@pytest.mark.parametrize("swapped", [False, True])
def test_an_operand_with_two_gathered_axes_meets_the_other_one(swapped, overlap):
    x, y = array(8, 6), array(6, 4, 2, seed=1)
    terms, in_axes, args = ["{i:if,k:kf}", "{k,b,c}"], (["if", "kf"], ["k", "b", "c"]), (x, y)
    if swapped:
        terms, in_axes, args = terms[::-1], in_axes[::-1], args[::-1]
    spec, options = f"{','.join(terms)}->{{i,b,c}}", {"axis_resources": {"if": "x", "kf": "y", "b": "x", "c": "y"}}
    f = nx.xmap(lambda *xs: nx.einsum(spec, *xs, overlap=overlap), in_axes, ["i", "b", "c"], mesh=make_mesh((4, 2)), **options)
    check(f, "kbc,ik->ibc" if swapped else "ik,kbc->ibc", args)
    kinds = {c.kind for c in collectives(f.lower(*args).compile())}
    assert kinds == {"all-gather", "collective-permute"}  # one of the two axes goes around


@pytest.mark.fast(0)
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


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("overlap", BOTH)
@pytest.mark.parametrize("case", ["contracted", "scattered", "reduced"])
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


@pytest.mark.full(1)
@pytest.mark.fast(0)
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


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_sum_that_all_have_within_a_scan_and_remat():
    """On a part of an Explicit mesh; and vectorised by JAX over all of it."""

    def body(w, x):
        def layer(h, w):
            return nx.rename(nx.tanh(nx.dot(h, w, "k", overlap=True)), {"m": "k"}), None

        return jax.lax.scan(jax.checkpoint(layer), x, w)[0]

    def oracle(w, x):
        for i in range(2):
            x = jnp.tanh(x @ w[i])
        return x

    mesh, w, x = make_mesh((4, 2), "explicit"), array(2, 8, 8), array(8, 8)
    f = nx.xmap(body, ([None, "k", "m"], ["b", "k"]), ["b", "k"], axis_resources={"k": "x"}, mesh=mesh)
    with jax.set_mesh(mesh):
        np.testing.assert_allclose(f(w, x), oracle(w, x), rtol=1e-5, atol=1e-5)
        have = jax.jit(jax.grad(lambda w: jnp.sum(f(w, x) ** 2)))(w)
        np.testing.assert_allclose(have, jax.jit(jax.grad(lambda w: jnp.sum(oracle(w, x) ** 2)))(w), rtol=1e-4, atol=1e-4)
    g = mapped("reduced", "bidirectional", X)
    args = operands("bk,km->bm")
    have = jax.vmap(g, (0, None))(jnp.stack([args[0], args[0] + 1]), args[1])
    np.testing.assert_allclose(have, jnp.stack([args[0], args[0] + 1]) @ args[1], rtol=1e-4, atol=1e-4)


def test_mistakes():
    for call in (
        lambda: nx.einsum("a,a->", array(3), array(3), overlap="both"),
        lambda: nx.dot(nx.named(array(3), ["a"]), nx.named(array(3), ["a"]), "a", overlap="both"),
        lambda: nx.xmap(lambda x: x, overlap="both"),
    ):
        with pytest.raises(ArgumentError, match="overlap must be True, False or 'bidirectional', got 'both'"):
            call()


def loops(jaxpr):
    """The bodies of all loops in a program."""
    for eqn in jaxpr.eqns:
        high = [jaxpr_of(eqn)] if eqn.primitive.name == HIGH else []  # with flags of JAX 0.12
        for inner in [*jaxprs_in_params(eqn.params), *high]:
            if eqn.primitive.name == "scan":
                yield inner
            yield from loops(inner)


def depends(jaxpr, on, of):
    """Whether, in a body, an operation called `of` takes what comes of one called `on`; and how many there are of each."""
    tainted, found, counts = set(), False, {on: 0, of: 0}
    for eqn in jaxpr.eqns:
        touched = any(not isinstance(var, Literal) and var in tainted for var in eqn.invars)
        name = eqn.primitive.name
        if name in counts:
            counts[name] += 1
        found = found or (touched and name == of)
        if touched or name == on:
            tainted.update(eqn.outvars)
    return found, counts[on], counts[of]


@pytest.mark.fast(3)
@pytest.mark.parametrize("overlap", BOTH)
@pytest.mark.parametrize("case", ["contracted", "free", "batch", "scattered", "reduced"])
def test_what_travels_does_not_wait(case, overlap):
    """In a step around the ring, what is computed needs nothing that arrives in it, and what is sent nothing that is computed."""
    equation = CASES[case][-1]
    f = mapped(case, overlap, XY)
    grad = jax.grad(lambda *xs: jnp.sum(f(*xs) ** 2), argnums=(0, 1))
    for g in (f, grad):
        bodies = list(loops(jax.make_jaxpr(g)(*operands(equation)).jaxpr))
        assert bodies
        computing = 0
        for body in bodies:
            waits, sent, computed = depends(body, "ppermute", "dot_general")
            late, _, _ = depends(body, "dot_general", "ppermute")
            assert sent == (1 if overlap is True else 2)
            computing += bool(computed)
            assert not waits
            assert not late
        assert computing
