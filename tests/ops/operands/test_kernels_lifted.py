"""Kernels that know nothing of names, lifted by `nmap`: Pallas, loops of JAX, callbacks. The oracle is `jax.vmap`, or `jnp`.

Pallas runs in its interpreter.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.ode import odeint
from jax.scipy.sparse.linalg import cg

import namedax as nx
from namedax import hlo
from tests.harness import FEW, array, check, make_mesh

SHARDED = {"axis_resources": {"a": "x"}, "mesh": make_mesh((4, 2))}


# --- Pallas ---------------------------------------------------------------------------------------------------------


def _rms_norm(x_ref, scale_ref, out_ref):
    x = x_ref[...]
    out_ref[...] = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale_ref[...]


def rms_norm(x, scale):
    """In rows of two blocks of a grid; `out_shape` says nothing about a mesh."""
    rows, width = x.shape
    return pl.pallas_call(
        _rms_norm,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(2,),
        in_specs=[pl.BlockSpec((rows // 2, width), lambda i: (i, 0)), pl.BlockSpec((width,), lambda i: (0,))],
        out_specs=pl.BlockSpec((rows // 2, width), lambda i: (i, 0)),
        interpret=True,
    )(x, scale)


def plain_rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


@jax.custom_vjp
def differentiable(x, scale):
    return rms_norm(x, scale)


def _backward(kept, cotangent):
    return jax.vjp(plain_rms_norm, *kept)[1](cotangent)


differentiable.defvjp(lambda x, scale: (rms_norm(x, scale), (x, scale)), _backward)


def _product(x_ref, y_ref, out_ref):
    out_ref[...] = x_ref[...] @ y_ref[...]


def matmul(x, y):
    out = jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)
    return pl.pallas_call(_product, out_shape=out, interpret=True)(x, y)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_pallas(placement):
    """A batch over two names, and parameters that lack both: their gradient is summed over them."""
    vectorised = jax.vmap(jax.vmap(plain_rms_norm, (0, None)), (0, None))
    args = array(8, 4, 2, 6), array(6, seed=1)
    check(nx.nmap(differentiable), vectorised, args, (["a", "b", None, None], [None]), ["a", "b", None, None], placement)


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_pallas_of_two_names(placement):
    x, y = array(8, 2, 3), array(3, 4, 5, seed=1)
    f = nx.xmap(nx.nmap(matmul), (["a", None, None], [None, "b", None]), ["a", None, "b", None], **placement.options)
    with placement.context():
        have = f(x, y)
    np.testing.assert_allclose(have, jnp.einsum("aij,jbk->aibk", x, y), rtol=1e-5, atol=1e-5)


def test_pallas_sends_nothing():
    f = nx.xmap(nx.nmap(rms_norm), (["a", None, None], [None]), ["a", None, None], **SHARDED)
    assert hlo.summary(f.lower(array(8, 2, 6), array(6)).compile()) == {}


# --- loops ----------------------------------------------------------------------------------------------------------


def leaky_sum(x, decay):  # the carry begins as a constant, which no device can tell from another's
    return lax.scan(lambda c, row: (decay * c + jnp.sin(row), c * row), 0.0, x)


def newton(x, _):
    def step(state):
        return state[0] + 1, state[1] - (state[1] ** 2 - jnp.sum(x * x)) / (2 * state[1])

    return lax.while_loop(lambda state: (state[0] < 20) & (jnp.abs(state[1] ** 2 - jnp.sum(x * x)) > 1e-4), step, (0, 1.0))


def decaying(y, rate):
    return odeint(lambda y, t, rate: -rate * y * y, 1 + y * y, jnp.linspace(0.0, 0.5, 3), rate)[-1]


def solve(b, ridge):
    matrix = jnp.diag(2 + ridge * ridge + jnp.arange(3.0)) + 0.5
    return cg(lambda v: matrix @ v, b, maxiter=20, tol=1e-7)[0]


LOOPS = {
    "scan": (leaky_sum, True, (["a"], ["a", None])),
    "while_loop": (newton, False, (["a"], ["a"])),
    "odeint": (decaying, True, ["a", None]),
    "cg": (solve, True, ["a", None]),
}


# The solvers take seconds to compile.
SLOW = {"odeint": ["two-mesh-axes"], "cg": ["one-each", "both"]}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("loop", "placement"), [(loop, p) for loop in LOOPS for p in FEW if p.label in SLOW.get(loop, [p.label])], ids=str
)
def test_loops(loop, placement):
    kernel, grad, out_axes = LOOPS[loop]
    options = {"axis_sizes": {"b": 4}} if "b" in dict(placement.resources) else {}
    oracle = jax.vmap(kernel, (0, None))
    args = array(8, 3), jnp.float32(0.7)
    check(nx.nmap(kernel), oracle, args, (["a", None], []), out_axes, placement, grad=grad, tol=1e-4, **options)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_second_derivatives_and_integers():
    def kernel(x, n, flag):
        total, rows = lax.scan(lambda c, row: (c * row + n, c), 1.0, x)
        return total, rows, n + 1, flag

    def plain(x):
        return jnp.sum(jax.vmap(lambda x: kernel(x, 2, True)[0])(x) ** 2)

    f = nx.xmap(lambda x: nx.nmap(kernel)(x, 2, True), ["a", None], (["a"], ["a", None], ["a"], ["a"]), **SHARDED)
    x = array(8, 3)
    _, rows, counts, flags = f(x)
    np.testing.assert_allclose(rows[:, 0], 1.0)
    assert (counts.tolist(), flags.tolist(), counts.dtype) == ([3] * 8, [True] * 8, jnp.result_type(2))

    def hessian_vector(f):
        return jax.grad(lambda x: jnp.vdot(jax.grad(f)(x), jnp.cos(x)))(x)

    np.testing.assert_allclose(hessian_vector(lambda x: jnp.sum(f(x)[0] ** 2)), hessian_vector(plain), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jax.vmap(f)(x[None])[0][0], f(x)[0], rtol=1e-6)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("number", [2.0, 3, True])
def test_gradient_beside_a_python_number(number):
    """Which is the same on all devices, whatever its derivative is, in a loop that JAX's checker refuses."""

    def horner(p, x):
        return lax.fori_loop(0, 3, lambda i, y: y * x + p[i], 0.0)

    x = array(8, 3)
    f = nx.xmap(lambda p: nx.nmap(horner)(p, number), ["a", None], ["a"], **SHARDED)
    np.testing.assert_allclose(f(x), jax.vmap(lambda p: horner(p, number))(x), rtol=1e-5)
    powers = np.array([float(number) ** 2, float(number), 1.0], np.float32)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(f(x) ** 2))(x), 2 * (x @ powers)[:, None] * powers, rtol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"a": ("x", "y")}], ids=str)
def test_static_numbers_of_what_is_not_checked(resources):
    """An axis stays a number where the checker is left out: JAX's checker refuses the ranks of values that differ from device to device."""
    x = array(9, 5)
    mesh = make_mesh((4, 2)) if resources else None

    def ranks(x):
        return nx.scipy.stats.rankdata(x, axis="b") * x

    f = nx.xmap(ranks, ["a", "b"], ["a", "b"], axis_resources=resources, mesh=mesh)
    of_jax = jax.scipy.stats.rankdata(x, axis=1)
    np.testing.assert_allclose(f(x), of_jax * x, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(f(x)))(x), of_jax, rtol=1e-6)


def test_gradient_inside_and_without_jit():
    def body(x, s):
        return jax.grad(lambda s: nx.sum(nx.nmap(leaky_sum)(x, s)[0], "a"))(s)

    x, s = array(8, 3), jnp.float32(0.7)
    want = jax.jit(jax.grad(lambda s: jax.vmap(leaky_sum, (0, None))(x, s)[0].sum()))(s)
    for jit in (True, False):
        have = nx.xmap(body, (["a", None], []), [], jit=jit, **SHARDED)(x, s)
        np.testing.assert_allclose(have, want, rtol=1e-5)


def test_what_is_not_checked_may_not_communicate():
    """Then JAX's own complaint stands, and not a wrong number."""
    x = array(8, 3)

    def with_collective(row):
        return leaky_sum(row, 0.5)[0] + lax.psum(row[0], "x")

    def with_block(x):
        return nx.nmap(lambda row: leaky_sum(row, 0.5)[0] + jnp.sum(x.data))(x)

    def with_index(row):
        return leaky_sum(row, 0.5)[0] * lax.axis_index("x")

    for body in (nx.nmap(with_collective), nx.nmap(with_index), with_block):
        with pytest.raises(TypeError, match="carry input and carry output must have equal types"):
            nx.xmap(body, ["a", None], ["a"], **SHARDED)(x)


def branching(x, decay):
    """A branch whose results vary differently, in a scan in a while loop, and a function with its own derivative."""

    def step(state):
        count, value = state
        value, _ = lax.scan(lambda c, row: (lax.cond(row > 0.5, lambda: decay * c, lambda: 1.5), None), value, x)
        return count + 1, value + jax.nn.gelu(decay) * jax.nn.softplus(x[0])

    return lax.while_loop(lambda state: state[0] < 2, step, (0, 1.0))[1]


IN_STEPS = {
    "scan": (lambda x, decay: leaky_sum(x, decay)[0], True),
    "while_loop": (lambda x, decay: newton(x, decay)[1], False),
    "fori_loop": (lambda x, decay: lax.fori_loop(0, 3, lambda i, y: y * decay + x[i], 0.0), True),
    "nested": (branching, False),
    "cumulative": (lambda x, decay: lax.associative_scan(jnp.add, x * decay)[-1], True),
}


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("where", [nx.SerialLoop(4), nx.SerialLoop(3), ("x", nx.SerialLoop(2))], ids=str)
@pytest.mark.parametrize("loop", IN_STEPS)
def test_loops_in_steps(loop, where):
    """A loop begins with a constant, and each element of the axis stops at its own time."""
    kernel, grad = IN_STEPS[loop]
    x, decay = array(8, 3, seed=5), jnp.float32(0.7)
    f = nx.xmap(nx.nmap(kernel), (["a", None], []), ["a"], axis_resources={"a": where}, mesh=make_mesh((2,)))
    want = jax.vmap(kernel, (0, None))
    np.testing.assert_allclose(f(x, decay), want(x, decay), rtol=1e-5, atol=1e-6)
    if grad:
        have = jax.grad(lambda x, decay: jnp.sum(f(x, decay) ** 2), (0, 1))(x, decay)
        for one, other in zip(have, jax.grad(lambda x, d: jnp.sum(want(x, d) ** 2), (0, 1))(x, decay), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_pallas_in_steps():
    """Its type says nothing about variance, and a `SerialLoop` needs it."""
    f = nx.xmap(nx.nmap(rms_norm), (["a", None, None], [None]), ["a", None, None], axis_resources={"a": nx.SerialLoop(4)})
    with pytest.raises(nx.errors.SerialLoopError) as error:
        f(array(8, 2, 6), array(6))
    assert "of 'a' cannot be executed in steps in a lifted function that JAX's checker" in str(error.value)
    assert "Map the axis to mesh axes only, or call the function outside of the mapped function." in str(error.value)


def total(row):
    return nx.sum(nx.named(row, ["b"]), "b")


def test_names_inside_a_lifted_function_do_not_mix_elements():
    x = array(8, 4)
    for resources in ({"a": "x"}, {"a": "x", "b": "y"}, {"b": "x"}):
        f = nx.xmap(nx.nmap(total), ["a", None], ["a"], axis_resources=resources, mesh=make_mesh((4, 2)))
        np.testing.assert_allclose(f(x), x.sum(1), rtol=1e-5)
    f = nx.xmap(nx.nmap(total), ["a", None], ["a"], axis_resources={"a": "x", "b": "x"}, mesh=make_mesh((4, 2)))
    with pytest.raises(
        nx.errors.PlacementConflictError, match=r"nmap\(total\): the names 'a' are sharded over mesh axes \['x'\], and the"
    ):
        f(x)


def test_mistakes_in_a_lifted_function_are_reported_as_they_are():
    x = array(8, 3)
    with pytest.raises(TypeError, match="dot_general requires contracting dimensions"):
        nx.xmap(nx.nmap(lambda row: row @ jnp.ones(4)), ["a", None], ["a"], **SHARDED)(x)
    body = nx.nmap(total)
    with pytest.raises(nx.errors.AxisSizeError, match="named: axis 'b' would have size 3"):
        nx.xmap(body, ["a", None], ["a"], axis_sizes={"b": 4}, **SHARDED)(x)


# --- callbacks ------------------------------------------------------------------------------------------------------


def on_host(x):
    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda x: np.sort(x, -1), kind, x, vmap_method="expand_dims")


@pytest.mark.parametrize("placement", [p for p in FEW if p.label != "blocks"], ids=str)  # JAX: no mesh axis without a name
def test_callbacks(placement):
    mapping = ["a", "b", None]
    check(nx.nmap(on_host), lambda x: jnp.sort(x, -1), [array(8, 4, 3)], mapping, mapping, placement, grad=False)


# --- results that JAX types as equal on all devices, though they are not --------------------------------------------


def doubled(x):
    return jax.pure_callback(lambda x: 2 * np.asarray(x), jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims")


@jax.custom_vjp
def of_two(w, x):
    return doubled(w * x)


of_two.defvjp(lambda w, x: (doubled(w * x), (w, x)), lambda r, ct: (2 * ct * r[1], 2 * ct * r[0]))


@jax.custom_vjp
def of_one(x):
    return doubled(x)


of_one.defvjp(lambda x: (doubled(x), None), lambda _, ct: (2 * ct,))


def counted(n):
    return lax.while_loop(lambda c: c < n, lambda c: c + 1.0, 0.0)


@jax.custom_vjp
def steps_times(w, n):
    return counted(n) * w


steps_times.defvjp(lambda w, n: (counted(n) * w, counted(n)), lambda count, ct: (ct * count, 0.0))

# Functions of an element and of a weight, and whether they can be executed in steps.
MISTYPED = {
    "loop": (lambda n, w: w * w * counted(n), True),
    "iterations": (lambda n, w: jnp.exp(-w * lax.fori_loop(0, n.astype(int), lambda i, c: c + 1.0, 0.0)), True),
    "loop in a scan": (lambda n, w: lax.scan(lambda c, y: (c * w + counted(n) * y, None), 0.0, jnp.arange(1.0, 4.0))[0], True),
    "loop in jit": (lambda n, w: jax.jit(lambda n: jax.checkpoint(lambda n: jnp.sin(w * counted(n)))(n))(n), True),
    "carry": (lambda n, w: lax.fori_loop(0, 3, lambda i, c: c * w + n, 0.0) * w, True),
    "callback": (lambda n, w: w * doubled(lax.stop_gradient(n)), False),
    "rule": (lambda n, w: of_two(w, n) * n, False),
    "rule of one argument": (lambda n, w: of_one(w) * n + of_one(n * w), False),
    "rule with a loop": (lambda n, w: steps_times(w, n) * n, False),
}


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("closes_over", [True, False])
@pytest.mark.parametrize("resources", [{"a": ("x", "y")}, {"a": nx.SerialLoop(4)}, {"a": ("x", nx.SerialLoop(2))}], ids=str)
def test_the_gradient_of_a_weight(resources, closes_over, kind):
    in_steps = "SerialLoop" in str(resources)
    functions = [f for f, steps in MISTYPED.values() if steps or not in_steps]
    n, w = jnp.array([0.0, 3, 1, 5, 2, 2, 4, 1]), jnp.linspace(0.5, 1.5, len(functions))

    def total(n, w):
        parts = [
            nx.nmap(lambda n, f=f, i=i: f(n, w[i]))(n) if closes_over else nx.nmap(f)(n, w[i]) for i, f in enumerate(functions)
        ]
        return nx.sum(sum(parts), "a")

    def plain(w):
        return sum(jax.vmap(f, (0, None))(n, w[i]).sum() for i, f in enumerate(functions))

    value, gradient = jax.value_and_grad(plain)(w)
    mesh = make_mesh((2, 2), kind)
    options = {"in_axes": (["a"], [None]), "axis_resources": resources, "mesh": mesh}
    f = nx.xmap(total, out_axes=[], **options)
    have = jax.value_and_grad(f, 1)(n, w)
    np.testing.assert_allclose(have[0], value, rtol=1e-5)
    np.testing.assert_allclose(have[1], gradient, rtol=1e-4)
    if closes_over:
        inside = nx.xmap(lambda n, w: jax.grad(total, 1)(n, w), out_axes=[None], **options)
        np.testing.assert_allclose(inside(n, w), gradient, rtol=1e-4)


def test_callbacks_in_a_rule_are_not_executed_in_steps():
    f = nx.xmap(nx.nmap(of_one), ["a"], ["a"], axis_resources={"a": nx.SerialLoop(4)})
    with pytest.raises(
        nx.errors.SerialLoopError, match=r"with a Pallas kernel, or with a callback in a derivative rule\. Map the axis"
    ):
        f(array(8))
