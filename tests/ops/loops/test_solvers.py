"""`nx.scipy.sparse.linalg`: Krylov solvers over pytrees of named arrays, under every assignment.

The oracles are `jnp.linalg.solve` of the dense matrix, and JAX's own solvers.
"""

import jax
import jax.numpy as jnp
import jax.scipy.sparse.linalg as jsl
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, NamedAxesLeftError, PositionalAxisError
from tests import make
from tests.harness import FEW, PARTITIONER, array, check, make_mesh

linalg = nx.scipy.sparse.linalg
SOLVERS = ["cg", "bicgstab", "gmres"]


def matrix(n, symmetric, seed=0):
    half = np.asarray(array(n, n, seed=seed)) / n
    return jnp.asarray(half @ half.T + np.eye(n) if symmetric else half + 2 * np.eye(n), jnp.float32)


def matvec(m, v, name="a", other="row"):
    """Over a name: the rows come out where the columns went in."""
    return nx.rename(nx.dot(m, v, name), {other: name})


def programs(solver, m, c, b):
    """Two arrays of unknowns: one along `a`, and one with positions along `b`, which the map couples."""

    def system(v):
        u, w = v["u"], v["w"]
        total = nx.sum(w, ("b", 0))
        return {"u": matvec(m, u) + 0.1 * total, "w": w * c + 0.1 * nx.sum(u, "a")}

    options = {"tol": 1e-7, "maxiter": 40} | ({"maxiter": 8, "restart": 12} if solver == "gmres" else {})
    x, _ = getattr(linalg, solver)(system, b, **options)
    return x


def oracle(m, c, b):
    n, shape = m.shape[0], b["w"].shape
    size = n + b["w"].size
    dense = jnp.zeros((size, size)).at[:n, :n].set(m).at[n:, n:].set(jnp.diag(jnp.broadcast_to(c[:, None], shape).ravel()))
    dense = dense.at[:n, n:].set(0.1).at[n:, :n].set(0.1)
    x = jnp.linalg.solve(dense, jnp.concatenate([b["u"], b["w"].ravel()]))
    return {"u": x[:n], "w": x[n:].reshape(shape)}


COVER = [("cg", FEW[1]), ("bicgstab", FEW[2]), ("gmres", FEW[0]), ("gmres", FEW[3]), ("cg", PARTITIONER[3])]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("solver", "placement"), COVER, ids=str)
def test_values_and_gradients(solver, placement):
    m, c = matrix(8, solver == "cg"), make.array([2.0, 1.5, 1.0, 3.0], jnp.float32)
    b = {"u": array(8), "w": array(4, 3, seed=4)}
    axes = (["row", "a"], ["b"], {"u": ["a"], "w": ["b", None]})
    resources = dict(placement.resources)

    def fun(m, c, b):
        return programs(solver, m, c, b)

    assert "row" not in resources  # the rows of the matrix are whole
    check(fun, oracle, (m, c, b), axes, {"u": ["a"], "w": ["b", None]}, placement, tol=2e-4, grad=False)
    mapped = nx.xmap(fun, axes, {"u": ["a"], "w": ["b", None]}, **placement.options)

    def loss(f):
        return lambda m, c, b: jnp.sum(jnp.sin(f(m, c, b)["u"])) + jnp.sum(f(m, c, b)["w"] ** 3)

    with placement.context():
        have = jax.jit(jax.grad(loss(mapped), (0, 1, 2)))(m, c, b)
    want = jax.jit(jax.grad(loss(oracle), (0, 1, 2)))(m, c, b)
    for h, w in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(h, w, rtol=2e-3, atol=2e-3)


def laplacian(x, name):
    return 2.5 * x - nx.shift(x, 1, name) - nx.shift(x, -1, name)


def dense_laplacian(n):
    return 2.5 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_iterates_are_those_of_jax(solver):
    """After a few steps, far from the solution, and with a preconditioner and a beginning."""
    b, x0, scale = array(8), array(8, seed=2), 1 + make.arange(8.0) / 4
    dense = jnp.asarray(dense_laplacian(8), jnp.float32) * scale[:, None] * scale
    named = [nx.named(v, ["a"]) for v in (b, x0, scale)]
    options = {"tol": 1e-6, "maxiter": 2} | ({"restart": 3} if solver == "gmres" else {})
    methods = [{}] if solver != "gmres" else [{"solve_method": "batched"}, {"solve_method": "incremental"}]
    for extra in methods:
        want, info = getattr(jsl, solver)(lambda v: dense @ v, b, x0, M=lambda v: v / scale**2, **options, **extra)

        def body(b, x0, scale, extra=extra):
            return getattr(linalg, solver)(
                lambda v: laplacian(v * scale, "a") * scale, b, x0, M=lambda v: v / scale**2, **options, **extra
            )

        for resources in ({"a": "x"},):
            have, code = nx.xmap(body, axis_resources=resources, mesh=make_mesh((4, 2)))(*named)
            np.testing.assert_allclose(have.data, want, rtol=2e-4, atol=2e-4)
            assert (code is None) == (info is None)
            assert code is None or int(code) == int(info)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_complex_systems():
    half = array(8, 8) + 1j * array(8, 8, seed=3)
    b = (array(8) + 1j * array(8, seed=5)).astype(jnp.complex64)
    hermitian, general = (
        (half @ half.conj().T / 8 + make.eye(8)).astype(jnp.complex64),
        (half / 8 + 2 * make.eye(8)).astype(jnp.complex64),
    )
    for solver in SOLVERS:
        m = hermitian if solver == "cg" else general
        f = nx.xmap(
            lambda m, b, solver=solver: getattr(linalg, solver)(lambda v: matvec(m, v), b, tol=1e-6)[0],
            (["row", "a"], ["a"]),
            ["a"],
            axis_resources={"a": "x"},
            mesh=make_mesh((4, 2)),
        )
        np.testing.assert_allclose(f(m, b), jnp.linalg.solve(m, b), rtol=1e-3, atol=1e-3)


def test_what_a_step_sends():
    """One all-reduce of a number an inner product, and the rows at the boundary that the map needs."""

    def f(b):
        return linalg.cg(lambda v: laplacian(v, "a"), b)[0]

    mapped = nx.xmap(f, ["a"], ["a"], axis_resources={"a": "x"}, mesh=make_mesh((8,)))
    sent = nx.hlo.collectives(mapped.lower(array(64)).compile())
    assert {one.kind for one in sent} == {"all-reduce", "collective-permute"}
    assert all(one.bytes <= 8 for one in sent), sent
    inside = [one for one in sent if one.in_loop and one.kind == "all-reduce"]
    assert len(inside) <= 3, inside


@pytest.mark.fast(0)
def test_plain_arrays_are_left_to_jax():
    m, b = matrix(5, symmetric=True), array(5).astype(jnp.float32)
    for solver in SOLVERS:
        want, _ = getattr(jsl, solver)(m, b)
        have, _ = getattr(linalg, solver)(m, b)
        np.testing.assert_array_equal(have, want)
    named = nx.named(jnp.stack([b, 2 * b]), ["n", None])
    have, _ = linalg.cg(m, named, tol=1e-6)  # a matrix acts on positions, the same for every entry of the name
    np.testing.assert_allclose(nx.positional(have, ["n", None])[1], jnp.linalg.solve(m, 2 * b), rtol=1e-3, atol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_resources_do_not_matter_for_derivatives_of_other_kinds():
    b, t = array(8).astype(jnp.float32), array(8, seed=1).astype(jnp.float32)
    f = nx.xmap(
        lambda s, b: linalg.cg(lambda v: laplacian(v, "a") + s * v, b, tol=1e-7)[0],
        ([], ["a"]),
        ["a"],
        axis_resources={"a": "x"},
        mesh=make_mesh((4, 2)),
    )

    def dense(s, b):
        return jnp.linalg.solve(jnp.asarray(dense_laplacian(8), jnp.float32) + s * jnp.eye(8), b)

    s = jnp.asarray(0.5, jnp.float32)
    for derivative in (
        lambda f: jax.grad(lambda s: jax.grad(lambda s: jnp.sum(jnp.sin(f(s, b))))(s))(s),
        lambda f: jax.vmap(f, (None, 0))(s, jnp.stack([b, t])),
        lambda f: jax.grad(lambda s: jnp.sum(jnp.sin(f(s, b))))(s),
    ):
        np.testing.assert_allclose(
            jax.jit(lambda derivative=derivative: derivative(f))(), derivative(dense), rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda b: linalg.cg(nx.named(jnp.eye(8), ["row", "a"]), b),
            AxisNameError,
            "A is the array f32[]{row:8, a:8}, which does not define the axis to contract",
        ),
        (
            lambda b: linalg.cg(lambda v: nx.named(jnp.eye(8), ["row", "a"]) * v, b),
            NamedAxesLeftError,
            "which has no axis 'row'",
        ),
        (
            lambda b: linalg.cg(lambda v: (v, v), b),
            ArgumentTypeError,
            "cg: the result of A is a tuple of length 2, but b is a single value",
        ),
        (
            lambda b: linalg.gmres(lambda v: v, b, solve_method="fast"),
            ArgumentError,
            "gmres: solve_method must be 'batched' or 'incremental', got 'fast'",
        ),
        (
            lambda b: linalg.cg(lambda v: v, b.astype(int)),
            ArgumentTypeError,
            "cg: the right-hand side i32[]{a:8} is not floating-point",
        ),
        (
            lambda b: linalg.cg(lambda v: v.astype(jnp.bfloat16), b),
            ArgumentTypeError,
            "is bf16[]{a:8}, but the right-hand side is f32[]{a:8}",
        ),
        (lambda b: linalg.bicgstab(jnp.ones((2, 3)), b), PositionalAxisError, "A must be a square matrix"),
        (lambda b: linalg.bicgstab(3, b), ArgumentTypeError, "bicgstab: A must be a function or a square matrix, got 3"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(make.arange(8, dtype=jnp.float32), ["a"]))
    assert words in str(raised.value), raised.value


# --- sizes that do not divide ---------------------------------------------------------------------------------------------


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("solver", "n", "devices"), [("cg", 10, 4), ("bicgstab", 5, 4), ("gmres", 9, 8)])
def test_uneven_axes(solver, n, devices):
    m, b = matrix(n, solver == "cg"), array(n, seed=4)
    options = {"tol": 1e-7, "maxiter": 40} | ({"maxiter": 8, "restart": 12} if solver == "gmres" else {})

    def body(m, b, x0):
        # The padding of what is divided by must stay finite.
        x, _ = getattr(linalg, solver)(lambda v: matvec(m, v), b, x0, M=lambda v: v / 2, **options)
        return x + nx.sum(1 / x, "a") / 100

    def want(m, b, x0):
        x = jnp.linalg.solve(m, b)
        return x + jnp.sum(1 / x) / 100

    mapped = nx.xmap(body, (["row", "a"], ["a"], ["a"]), ["a"], axis_resources={"a": "x"}, mesh=make_mesh((devices,)))
    np.testing.assert_allclose(mapped(m, b, b / 3), want(m, b, b), rtol=2e-4, atol=2e-4)
    have = jax.grad(lambda m, b: jnp.sum(jnp.sin(mapped(m, b, b * 0))), (0, 1))(m, b)
    close = jax.grad(lambda m, b: jnp.sum(jnp.sin(want(m, b, b))), (0, 1))(m, b)
    for one, other in zip(have, close, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


def test_uneven_axes_with_neighbors():
    # A map that reads neighbors, whose padding must not come in; two arrays with different names.
    n = 11
    b = {"u": array(n, seed=1), "w": array(6, 3, seed=2)}

    def system(v):
        u = v["u"]
        return {"u": 3 * u - nx.roll(u, 1, "a") - nx.roll(u, -1, "a"), "w": 2 * v["w"]}

    def body(u, w):
        return linalg.cg(system, {"u": u, "w": w}, tol=1e-7)[0]

    mapped = nx.xmap(
        body, (["a"], ["b", None]), {"u": ["a"], "w": ["b", None]}, axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((2, 4))
    )
    have = mapped(b["u"], b["w"])
    dense = 3 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0)
    np.testing.assert_allclose(have["u"], np.linalg.solve(dense, np.asarray(b["u"])), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(have["w"], b["w"] / 2, rtol=1e-5)
