"""What JAX and libraries beside it do in surprising ways, and what the same program by name does (docs/about/jax_behavior.md).

Each test has the program of a row of that page that no other test has. The oracle is NumPy, or `jnp` on one device.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import namedax as nx
from namedax.errors import ArgumentTypeError, CheckpointError, SerialLoopError
from tests import make
from tests.harness import Lazily, Placement, array, make_mesh

xarray = Lazily("xarray")

NAN = np.array([[1, np.nan], [3, 2], [np.nan, 0], [4, 5], [1, 1], [2, 2], [0, 3], [7, 8]], np.float32)
RUNS = [
    Placement("unmapped", None, ()),
    Placement("one-each", (8,), (("a", "x"),)),
    Placement("blocks", (4, 2), (("a", "x"),), "explicit"),
    Placement("two-mesh-axes", (4, 2), (("a", ("y", "x")),)),
    Placement("steps", None, (("a", nx.SerialLoop(4)),)),
    Placement("both", (2, 2), (("a", ("x", nx.SerialLoop(2))),)),
]
ON_DEVICES = [p for p in RUNS if "SerialLoop" not in str(p.resources)]
everywhere = pytest.mark.parametrize("placement", RUNS, ids=str)
on_devices = pytest.mark.parametrize("placement", ON_DEVICES, ids=str)
kinds = pytest.mark.parametrize("kind", ["auto", "explicit"])


def same(have, want, **tolerance):
    """Compare trees of named arrays, in the order of their names, with plain arrays."""
    for key, result in want.items():
        got = have[key]
        if isinstance(got, nx.NamedArray):
            got = nx.positional(got, [*sorted(got.named_shape), ...])
        np.testing.assert_allclose(np.asarray(got).astype(np.float64), result, err_msg=key, **tolerance)


def mapped(body, placement, *args):
    return nx.xmap(body, **placement.options)(*args)


def placed(kind, *arrays):
    mesh = make_mesh((4,), kind)
    return [nx.shard(x, {"a": "x"}, mesh) for x in arrays]


# --- extrema ----------------------------------------------------------------------------------------------------------


def extrema(x):
    return {"max": nx.max(x, "a"), "min": nx.numpy.min(x, "a"), "method": x.max("a"), "argmax": nx.argmax(x, "a")}


EXTREMA = {"max": [np.nan] * 2, "min": [np.nan] * 2, "method": [np.nan] * 2, "argmax": [2, 0]}


@pytest.mark.fast(2)
@pytest.mark.full(2)
@on_devices
def test_collective_extrema_keep_nan(placement):
    x = nx.named(make.asarray(NAN), ["a", "b"])
    have = mapped(lambda x: extrema(x) | {"pmax": nx.lax.pmax(x, "a"), "pmin": nx.lax.pmin(x, "a")}, placement, x)
    same(have, EXTREMA | {"pmax": [np.nan] * 2, "pmin": [np.nan] * 2})


@pytest.mark.fast(1)
@kinds
def test_extrema_of_placed_arrays_keep_nan(kind):
    (x,) = placed(kind, nx.named(make.asarray(NAN), ["a", "b"]))
    for f in (extrema, jax.jit(extrema)):
        same(f(x), EXTREMA)


GROUPS = [[0, 3], [1, 2], [4, 7], [5, 6]]


@pytest.mark.fast(1)
@pytest.mark.full(1)
@on_devices
def test_collectives_in_groups_differ_from_group_to_group(placement):
    x, w = array(8), np.arange(8.0)
    want = {op: np.empty(8) for op in ("max", "min", "sum")}
    for op, result in want.items():
        for group in GROUPS:
            result[group] = getattr(np, op)(np.asarray(x)[group])

    def body(x):
        return {op: getattr(nx.lax, f"p{op}")(x, "a", axis_index_groups=GROUPS) for op in want}

    def loss(x):
        return nx.sum(nx.lax.pmax(x, "a", axis_index_groups=GROUPS) * nx.named(make.asarray(w), ["a"]), "a")

    x = nx.named(x, ["a"])
    have = mapped(lambda x: body(x) | {"gradient": jax.grad(loss)(x)}, placement, x)
    slope = np.zeros(8)
    for group in GROUPS:
        slope[group[int(np.argmax(np.asarray(x.data)[group]))]] = w[group].sum()
    same(have, want | {"gradient": slope}, rtol=1e-5)


# --- loops and branches -----------------------------------------------------------------------------------------------

P_ = np.array([1.0, -1, 1, 1, -2, 1, 3, -1], np.float32)
BRANCHES = {
    "cond": lambda p, w: nx.cond(p > 0, lambda w: w * 2, lambda w: w * 3, w),
    "switch": lambda p, w: nx.switch((p > 0).astype(int), [lambda w: w * 3, lambda w: w * 2], w),
    "constants": lambda p, w: nx.cond(p > 0, lambda: 2.0, lambda: 3.0) * w,
    "lifted": lambda p, w: nx.nmap(lambda p: jax.lax.cond(p > 0, lambda w: w * 2, lambda w: w * 3, w))(p),
}


@pytest.mark.fast(2)
@pytest.mark.full(2)
@everywhere
def test_the_gradient_of_an_operand_of_branches_that_differ(placement):
    w, want = jnp.float32(3.0), float((P_ * np.where(P_ > 0, 2, 3)).sum())
    p = nx.named(make.asarray(P_), ["a"])

    def losses(p, w):
        return {name: nx.sum(p * f(p, w), "a") for name, f in BRANCHES.items()}

    def total(p, w):
        return sum(losses(p, w).values())

    same(mapped(losses, placement, p, w), dict.fromkeys(BRANCHES, 3 * want), rtol=1e-6)
    assert float(mapped(jax.grad(total, 1), placement, p, w)) == pytest.approx(4 * want)
    assert float(jax.grad(nx.xmap(total, **placement.options), 1)(p, w)) == pytest.approx(4 * want)


BOUND = np.array([0.0, 3, 1, 5, 2, 2, 4, 1], np.float32)


def counted(n):
    return nx.while_loop(lambda c: c < n, lambda c: c + 1, 0.0)


def loops(n):
    of_jax = functools.partial(jax.lax.while_loop, body_fun=lambda c: c + 1.0, init_val=0.0)
    return {
        "bound": counted(n),
        "carry": nx.while_loop(lambda c: c < 5, lambda c: c + 1, n),
        "vmap": nx.vmap(counted, "a")(n),
        "lifted": nx.nmap(lambda n: of_jax(lambda c: c < n))(n),
    }


LOOPS = {"bound": BOUND, "carry": np.full(8, 5.0), "vmap": BOUND, "lifted": BOUND}


@pytest.mark.fast(1)
@pytest.mark.full(2)
@everywhere
def test_loops_whose_bounds_differ(placement):
    same(mapped(loops, placement, nx.named(make.asarray(BOUND), ["a"])), LOOPS)


@pytest.mark.fast(1)
@kinds
def test_loops_over_placed_bounds(kind):
    (n,) = placed(kind, nx.named(make.asarray(BOUND), ["a"]))
    same(loops(n), LOOPS)


# --- foreign calls ----------------------------------------------------------------------------------------------------

L, N, T = (np.uint8(ord(letter)) for letter in "LNT")


@pytest.fixture
def lapack():
    """JAX loads its kernels of LAPACK with the first program that needs one."""
    jax.block_until_ready(jnp.linalg.cholesky(jnp.eye(2)))


def strsm(like, w, b, transposed=False):
    """The solution of a lower triangular system, by the kernel of LAPACK on CPUs; `like` is the type of the result for that of `b`."""
    columns = (1, 0)  # the layout of LAPACK
    kernel = jax.ffi.ffi_call(
        "lapack_strsm_ffi",
        like(b),
        vmap_method="broadcast_all",
        input_layouts=[columns, columns],
        output_layouts=columns,
        input_output_aliases={1: 0},
    )
    return kernel(w, b, side=L, uplo=L, trans_x=T if transposed else N, diag=N)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def triangular(like, w, b):
    return strsm(like, w, b)


def triangular_backward(like, saved, cotangent):
    w, x = saved
    b = strsm(like, w, cotangent, transposed=True)
    return -jnp.tril(b @ x.T), b


triangular.defvjp(lambda like, w, b: (x := strsm(like, w, b), (w, x)), triangular_backward)


def shape_of(b):
    return jax.ShapeDtypeStruct(b.shape, b.dtype)


def foreign_sum(like, w, matrices, b):
    """The sum over systems with one matrix, and with one each, times what varies."""

    def element(w, m, b):
        return jnp.sum(triangular(like, w, b) * b + triangular(like, m, b) * b)

    return nx.sum(nx.nmap(element)(w, matrices, b), "a")


@pytest.mark.fast(2)
@pytest.mark.full(3)
@pytest.mark.parametrize("like", [shape_of, jax.typeof])
@everywhere
def test_foreign_calls(placement, like, lapack):
    """They are executed, with the gradient of their rule; in steps, results must have the type of an operand."""
    lower = np.tril(np.asarray(array(9, 3, 3))) + 3 * np.eye(3, dtype=np.float32)
    args = make.asarray(lower[8]), nx.named(make.asarray(lower[:8]), ["a", ...]), nx.named(array(8, 3, 2, seed=1), ["a", ...])

    def plain(w, matrices, b):
        solve = functools.partial(jax.scipy.linalg.solve_triangular, lower=True)
        return jnp.sum(jax.vmap(lambda m, b: solve(w, b) * b + solve(m, b) * b)(matrices, b))

    plain_args = [jnp.asarray(x.data if isinstance(x, nx.NamedArray) else x) for x in args]
    value, gradients = jax.value_and_grad(plain, (0, 1, 2))(*plain_args)
    want = {str(i): g for i, g in enumerate(gradients)} | {"value": value}
    loss = functools.partial(foreign_sum, like)

    def outside(*args):
        return jax.value_and_grad(nx.xmap(loss, **placement.options), (0, 1, 2))(*args)

    def inside(*args):
        return mapped(jax.value_and_grad(loss, (0, 1, 2)), placement, *args)

    if "SerialLoop" in str(placement.resources) and like is shape_of:
        forward = nx.nmap(lambda w, b: jnp.sum(strsm(like, w, b) * b))
        have = mapped(lambda w, b: nx.sum(forward(w, b), "a"), placement, args[1], args[2])
        x = np.linalg.solve(lower[:8], plain_args[2])
        np.testing.assert_allclose(have, np.sum(x * plain_args[2]), rtol=1e-5)
        with pytest.raises(SerialLoopError, match="cannot be executed in steps"):
            outside(*args)
        return
    with placement.context():
        for run in (outside, inside):
            value, gradients = run(*args)
            same({str(i): g for i, g in enumerate(gradients)} | {"value": value}, want, rtol=1e-4, atol=1e-5)


# --- Explicit axes ----------------------------------------------------------------------------------------------------


def matrices():
    m = np.asarray(array(8, 3, 3))
    return m @ m.transpose(0, 2, 1) + np.eye(3, dtype=np.float32)


@pytest.mark.fast(1)
@kinds
def test_stacks_of_matrices(kind):
    m, la = matrices(), nx.numpy.linalg
    (x,) = placed(kind, nx.named(make.asarray(m), ["a", None, None]))
    want = {"inv": np.linalg.inv(m), "cholesky": np.linalg.cholesky(m), "svdvals": np.linalg.svd(m)[1], "det": np.linalg.det(m)}
    f = nx.xmap(lambda x: {name: getattr(la, name)(x) for name in want}, axis_resources={"a": "x"}, mesh=make_mesh((4,), kind))
    for have in ({name: getattr(la, name)(x) for name in want}, f(x)):
        same(have, want, rtol=2e-3, atol=1e-4)


@pytest.mark.fast(1)
@kinds
def test_along_a_sharded_axis(kind):
    v = np.asarray(array(8, 3))
    (x,) = placed(kind, nx.named(make.asarray(v), ["a", "b"]))
    have = {
        "fft": nx.abs(nx.numpy.fft.fft(x, axis="a")),
        "flip": nx.flip(x, "a"),
        "every second": x["a", ::2],
        "first": x["a", :3],
        "cumsum": nx.cumsum(x, "a"),
        "sort": nx.sort(x, "a"),
        "roll": nx.roll(x, 3, "a"),
    }
    want = {
        "fft": np.abs(np.fft.fft(v, axis=0)),
        "flip": v[::-1],
        "every second": v[::2],
        "first": v[:3],
        "cumsum": v.cumsum(0),
        "sort": np.sort(v, 0),
        "roll": np.roll(v, 3, 0),
    }
    same(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(1)
@kinds
def test_tangents_and_cotangents_with_another_sharding(kind):
    """In a body a cast is made; outside, JAX compares the types."""
    v, mesh = array(8), make_mesh((4,), kind)
    (x,) = placed(kind, nx.named(v, ["a"]))
    w = jnp.float32(0.5)

    def body(x, w):
        def waves(w):
            return nx.sin(w * x)

        return {
            "jvp": jax.jvp(waves, (w,), (jnp.float32(1.0),))[1],
            "linearize": jax.linearize(waves, w)[1](jnp.float32(1.0)),
            "vjp": jax.vjp(waves, w)[1](nx.ones_like(x))[0],
        }

    slope = np.cos(0.5 * v) * np.asarray(v)
    want = {"jvp": slope, "linearize": slope, "vjp": slope.sum()}
    same(nx.xmap(body, axis_resources={"a": "x"}, mesh=mesh)(x, w), want, rtol=1e-5)
    same(body(x, w), want, rtol=1e-5)
    f = nx.xmap(nx.sin, axis_resources={"a": "x"}, mesh=mesh)
    tangent = nx.shard(nx.ones_like(nx.named(v, ["a"])), {}, mesh)
    np.testing.assert_allclose(jax.jvp(f, (x,), (tangent,))[1].data, np.cos(v), rtol=1e-5)
    moved = nx.shard(tangent, {"a": "x"}, mesh)
    np.testing.assert_allclose(jax.linearize(f, x)[1](moved).data, np.cos(v), rtol=1e-5)
    np.testing.assert_allclose(jax.vjp(f, x)[1](moved)[0].data, np.cos(v), rtol=1e-5)


@pytest.mark.fast(1)
@kinds
def test_a_donated_argument_on_one_device_is_kept(kind):
    """It is copied to the mesh, and the copy is donated."""
    f = nx.xmap(lambda x: 2 * x, axis_resources={"a": "x"}, mesh=make_mesh((4,), kind), donate_argnums=0)
    x = nx.named(array(8), ["a"])
    want = 2 * np.asarray(x.data)
    for _ in range(2):
        np.testing.assert_array_equal(f(x).data, want)
    assert not x.data.is_deleted()
    (y,) = placed(kind, nx.named(array(8) + 0, ["a"]))
    np.testing.assert_array_equal(f(y).data, want)
    assert y.data.is_deleted()


# --- few bits ---------------------------------------------------------------------------------------------------------

FEW_BITS = np.array([7.6, 8, 100, -100, np.nan, np.inf, -np.inf, -0.5], np.float32)


@pytest.mark.fast(1)
@pytest.mark.full(1)
@everywhere
def test_casts_and_means_of_four_bits(placement):
    x = nx.named(make.asarray(FEW_BITS), ["a"])
    n = nx.named(jnp.asarray([7, 6, 5, 7, 7, 6, 5, 7], "int4"), ["a"])

    def body(x, n):
        return {
            "cast": x.astype("int4").astype("float32"),
            "mean": nx.mean(n, "a"),
            "sum": nx.sum(n, "a"),
            "max": nx.max(n, "a").astype(int),
        }

    want = {"cast": [7, 7, 7, -8, 0, 7, -8, 0], "mean": 6.25, "sum": 50, "max": 7}
    same(mapped(body, placement, x, n), want)


# --- optimizers -------------------------------------------------------------------------------------------------------


def training(optimizer, params):
    gradients = jax.tree.map(lambda p: nx.ones_like(p).astype("float32"), params)

    def step(carry, _):
        params, state = carry
        updates, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), None

    return nx.scan(step, (params, optimizer.init(params)), None, length=3)[0]


@pytest.mark.fast(1)
@kinds
def test_moments_of_adam_keep_one_dtype(kind):
    """With parameters in bfloat16 and gradients in float32 the first moment changes; the error says which."""
    (w,) = placed(kind, nx.named(jnp.ones((8, 2), "bfloat16"), ["a", "b"]))
    with pytest.raises(
        ArgumentTypeError,
        match=r"scan: the carry\[1\]\[0\]\.mu\['w'\].* as bfloat16 and comes out as float32.*Start with float32",
    ):
        training(optax.adam(0.1), {"w": w})
    params, state = training(optax.adam(0.1, mu_dtype="float32"), {"w": w})
    assert (params["w"].dtype, state[0].mu["w"].dtype) == (jnp.bfloat16, jnp.float32)
    params, _ = training(optax.adam(0.1), {"w": w.astype("float32")})  # as `python -m namedax.models train` does
    np.testing.assert_allclose(params["w"].data, 0.7, rtol=1e-4)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.fast(1)
@kinds
def test_checkpoints_keep_what_other_formats_change(kind, tmp_path):
    (x,) = placed(kind, nx.named(array(8, 3), ["a", "b"]))
    tree = {"layers": {0: x, 1: nx.named(jnp.zeros((0, 3)), ["c", "b"])}, "eight": x.astype("float8_e4m3fn"), "rate": 2.5}
    nx.checkpoints.save(tmp_path / "step", tree)
    for have in (nx.checkpoints.restore(tmp_path / "step"), nx.checkpoints.restore(tmp_path / "step", tree)):
        assert list(have["layers"]) == [0, 1]
        assert have["layers"][1].named_shape == {"c": 0, "b": 3}
        assert have["eight"].dtype == jnp.float8_e4m3fn
        assert have["rate"] == 2.5
        np.testing.assert_array_equal(have["layers"][0].data, x.data)
        np.testing.assert_array_equal(have["eight"].astype("float32").data, tree["eight"].astype("float32").data)
    with pytest.raises(CheckpointError, match="rate"):
        nx.checkpoints.restore(tmp_path / "step", tree | {"rate": 0})


def test_reductions_of_bfloat16_from_xarray():
    data = xarray.DataArray(np.asarray(jnp.arange(6.0, dtype="bfloat16").reshape(2, 3)), dims=("time", "place"))
    x = nx.interop.from_xarray(data)
    np.testing.assert_array_equal(nx.mean(x, "time").astype("float32").data, [1.5, 2.5, 3.5])
    assert float(nx.max(x, ("time", "place"))) == 5


# --- programs of findings/ --------------------------------------------------------------------------------------------


@pytest.mark.fast(1)
@kinds
def test_branches_of_elements_beside_a_sharded_axis(kind):
    v, mesh = np.arange(-8.0, 8.0, dtype=np.float32).reshape(4, 4), make_mesh((4,), kind)
    x = nx.shard(nx.named(make.asarray(v), ["row", "a"]), {"a": "x"}, mesh)

    def body(x):
        return nx.cond(nx.sum(x, "a") > 0, lambda q: q * 2, lambda q: -q, x)

    want = np.where(v.sum(1, keepdims=True) > 0, 2 * v, -v)
    for have in (body(x), nx.xmap(body, axis_resources={"a": "x"}, mesh=mesh)(x)):
        np.testing.assert_array_equal(nx.positional(have, ["row", "a"]), want)


@pytest.mark.fast(1)
@kinds
def test_scatters_beside_an_unmapped_mesh_axis(kind):
    x, mesh = nx.named(array(8, 4), ["a", "b"]), make_mesh((2, 2), kind)

    def body(x):
        return jax.grad(lambda x: nx.sum(nx.sin(nx.rename(x, {"a": "whole"})), ("whole", "b")))(x)

    have = nx.xmap(body, axis_resources={"a": "x"}, mesh=mesh)(x)
    np.testing.assert_allclose(have.data, np.cos(x.data), rtol=1e-5)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@kinds
def test_samplers_searches_and_polynomials_of_sharded_parameters(kind):
    key, mesh = jax.random.key(0), make_mesh((4, 2), kind)
    v = np.linspace(0.1, 0.9, 8, dtype=np.float32)
    x = nx.named(make.asarray(v), ["a"])

    def body(x):
        return {
            "gamma": nx.random.gamma(key, 1 + x),
            "poisson": nx.random.poisson(key, 3 * x).astype("float32"),
            "digitize": nx.numpy.digitize(x, jnp.array([0.25, 0.5])).astype("float32"),
            "interp": nx.numpy.interp(x, jnp.array([0.0, 1.0]), jnp.array([0.0, 2.0])),
            "erf": nx.nmap(jax.grad(jax.lax.erf))(x),
        }

    want = {name: nx.positional(value, ["a"]) for name, value in body(x).items()}
    np.testing.assert_array_equal(want["digitize"], np.digitize(v, [0.25, 0.5]))
    np.testing.assert_allclose(want["interp"], 2 * v, rtol=1e-5)
    np.testing.assert_allclose(want["erf"], 2 / np.sqrt(np.pi) * np.exp(-(v**2)), rtol=1e-5)
    same(nx.xmap(body, axis_resources={"a": "x"}, mesh=mesh)(x), want, rtol=1e-5)
    same(body(nx.shard(x, {"a": "x"}, mesh)), want, rtol=1e-5)


@pytest.mark.fast(1)
@kinds
def test_segments_and_products_on_a_mesh(kind):
    mesh = make_mesh((4,), kind)
    (x,) = placed(kind, nx.named(jnp.asarray([1, 2, -1, 0.5, 1, 2, -1, 0.5], "float8_e4m3fn"), ["a"]))
    segments = nx.named(jnp.array([0, 0, 1, 1] * 2), ["a"])
    np.testing.assert_array_equal(nx.segment_max(x, segments, 2, axis="a", out_axis="s").astype("float32").data, [2.0, 0.5])
    (empty,) = placed(kind, nx.named(jnp.ones((8, 0)), ["a", "none"]))
    f = nx.xmap(lambda v: nx.prod(v, "none"), axis_resources={"a": "x"}, mesh=mesh)
    with jax.set_mesh(mesh):
        value, pull = jax.vjp(f, empty)
        np.testing.assert_array_equal(value.data, np.ones(8))
        assert pull(value)[0].named_shape == {"a": 8, "none": 0}
        # Operands that are not sharded.
        tokens, weights = nx.named(jnp.ones((3, 1)), ["t", "k"]), nx.named(jnp.ones((2, 1, 2)), ["e", "k", "out"])
        dot = nx.nn.grouped_dot(tokens, weights, "k", groups=nx.named(jnp.array([0, 1, 1]), ["t"]), group="e")
        np.testing.assert_array_equal(dot.data, np.ones((3, 2)))
        assert float(jax.value_and_grad(lambda v: nx.sum(v * v, "a"))(nx.named(jnp.arange(8.0), ["a"]))[0]) == 140


@pytest.mark.fast(1)
@pytest.mark.full(1)
@on_devices
def test_the_gradient_of_cumlogsumexp_at_minus_infinity(placement):
    v = np.array([-np.inf, -np.inf, 1.0, -np.inf, -np.inf, 2.0, -np.inf, -np.inf], np.float32)
    f = jax.grad(lambda x: nx.cumlogsumexp(x, "a")["a", -1])
    have = mapped(f, placement, nx.named(make.asarray(v), ["a"]))
    np.testing.assert_allclose(have.data, jax.nn.softmax(v), rtol=1e-5)
