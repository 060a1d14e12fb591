"""Bodies traced on global shapes: functions of JAX on named arrays give the numbers of one device in every layout."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from tests.harness import Lazily, Placement, array, check, make_mesh

optax = Lazily("optax")

IDS = np.random.default_rng(1).integers(-9, 12, size=(8, 3))
SMALL = np.array([[0, 1], [2, 0]])


def definite(v):
    """A positive definite matrix of contractions over rows."""
    return v.T @ v / 4 + 3 * jnp.eye(v.shape[1], dtype=v.dtype)


@jax.custom_jvp
def squared(v):
    return v * v


@squared.defjvp
def squared_jvp(primals, tangents):
    (v,), (dv,) = primals, tangents
    return v * v, 3 * v * dv  # not the derivative, so a test fails if the rule is not used


@jax.custom_vjp
def centered(v):
    return v - v.mean(0)


centered.defvjp(lambda v: (v - v.mean(0), v), lambda v, ct: (ct * v.max() + v.sum(0),))

# Functions of the two-dimensional data of a named array. Both dimensions are at least 3.
FAMILIES = {
    "elementwise": {
        "sin": jnp.sin,
        "where": lambda v: jnp.where(v > 0, v, 0.1),
        "gelu": jax.nn.gelu,
        "erf": jax.scipy.special.erf,
        "clip": lambda v: jnp.clip(v, -0.5, 0.5),
        "broadcasting of a row": lambda v: v * v[:1],
        "integers": lambda v: (v * 3).astype(np.int32),
        "comparison": lambda v: v > v.T[0][:, None],
        "bfloat16": lambda v: v.astype(jnp.bfloat16).astype(np.float32),
        "bits": lambda v: lax.bitcast_convert_type(v.astype(np.float32), np.int32),
    },
    "reductions": {
        "sum": jnp.sum,
        "sum of rows": lambda v: jnp.sum(v, 0),
        "mean": lambda v: v.mean(1, keepdims=True),
        "product, whose derivative permutes in a reshape": lambda v: jnp.prod(v, 1),
        "var": lambda v: v.var(-1),
        "std": lambda v: v.std(0),
        "prod": lambda v: jnp.prod(v, 1),
        "any": lambda v: (v > 1).any(0),
        "all": lambda v: (v > -1).all(1),
        "norm": jnp.linalg.norm,
        "logsumexp": lambda v: jax.nn.logsumexp(v, 0),
        "softmax": lambda v: jax.nn.softmax(v, 1),
        "log_softmax": lambda v: jax.nn.log_softmax(v, 0),
        "standardize": lambda v: jax.nn.standardize(v, axis=0),
        "integers": lambda v: jnp.sum((v * 3).astype(np.int32), 0),
        "global norm": lambda v: v * jnp.minimum(1, 1 / jnp.sqrt(jnp.sum(v * v))),
    },
    "extrema": {
        "max": lambda v: v.max(-1),
        "max of minus infinity": lambda v: jnp.where(v > 9, v, -np.inf).max(0),
        "argmax of a reshape": lambda v: jnp.argmax(v.reshape(-1) * np.arange(v.size) ** 2),
        "min": lambda v: v.min(0),
        "argmax": lambda v: jnp.argmax(v, 1),
        "argmin": lambda v: jnp.argmin(v, 0),
        "argmax of all": jnp.argmax,
        "ties": lambda v: jnp.round(v).max(0),
        "ties of all": lambda v: jnp.maximum(v, 0.5).max(),
        "first of ties": lambda v: jnp.argmax(jnp.round(v), 0),
        "last of ties": lambda v: v.shape[1] - jnp.argmin(jnp.round(v)[:, ::-1], 1),
        "ptp": lambda v: jnp.ptp(v, 0),
        "argmax of -inf": lambda v: jnp.argmax(jnp.full_like(v, -np.inf), 0),
        "argmin of the largest": lambda v: jnp.argmin(jnp.full_like(v, 255, dtype=np.uint8), 0),
        "argmax of booleans": lambda v: jnp.argmax(v > 9, 0),
        "one_hot": lambda v: jax.nn.one_hot(jnp.argmax(v, 1), v.shape[1], dtype=v.dtype) @ v.T,
    },
    "cumulative": {
        "cumsum": lambda v: jnp.cumsum(v, 1),
        "cumsum from the end": lambda v: lax.cumsum(v, 0, reverse=True),
        "division by it": lambda v: v[:1] / lax.cumsum(jnp.abs(v) + 1, 0, reverse=True),
        "argmax of it": lambda v: jnp.argmax(lax.cumsum(-jnp.abs(v), 0, reverse=True), 0),
        "cumprod": lambda v: jnp.cumprod(v, 0),
        "cummax": lambda v: lax.cummax(v, 0),
        "cummax from the end": lambda v: lax.cummax(v, 1, reverse=True),
        "cumlogsumexp": lambda v: lax.cumlogsumexp(v, 0),
        "associative_scan": lambda v: lax.associative_scan(jnp.add, v, axis=0),
    },
    "contractions": {
        "of columns": lambda v: v @ v.T,
        "of rows": lambda v: v.T @ v,
        "vdot": lambda v: jnp.vdot(v, v),
        "einsum": lambda v: jnp.einsum("bk,bj,k->j", v, v, v[0]),
        "batched": lambda v: jnp.einsum("bk,bj->bkj", v, v),
        "products of pairs": lambda v: v[:, None, :] * v[None, :, :],
        "twice": lambda v: v @ (v.T @ v),
        "tensordot": lambda v: jnp.tensordot(v, v[:, :2], ((0,), (0,))),
        "kron": lambda v: jnp.kron(v, v[:2]),
        "power": lambda v: jnp.linalg.matrix_power(v @ v.T / 4, 3),
        "attention": lambda v: jax.nn.dot_product_attention(*[v[None, :, None, :]] * 3),
    },
    "windows": {
        "convolve": lambda v: jnp.convolve(v[0], v[1]),
        "padded window of one": lambda v: lax.reduce_window(v, 0.0, lax.add, (1, 2), (1, 1), ((0, 1), (0, 0))),
        "dilated window of one": lambda v: lax.reduce_window(v, -np.inf, lax.max, (1, 1), (1, 1), ((0, 0), (0, 0)), (2, 1)),
        "image": lambda v: lax.conv_general_dilated(v[None, None], jnp.ones((3, 1, 2, 2), v.dtype), (1, 1), "SAME"),
        "batch": lambda v: lax.conv_general_dilated(v[:, None], v[:2, None, :2], (1,), "VALID"),
        "channels": lambda v: lax.conv_general_dilated(v.T[None], v[:, :, None], (1,), "VALID"),
        "maximum": lambda v: lax.reduce_window(v, -np.inf, lax.max, (2, 1), (1, 1), "VALID"),
        "sum": lambda v: lax.reduce_window(v, 0.0, lax.add, (1, 2), (1, 2), "VALID"),
        "gradient": lambda v: jnp.gradient(v, axis=-1),
        "diff": lambda v: jnp.diff(v, axis=0),
    },
    "shapes": {
        "reshape": lambda v: v.reshape(-1),
        "reshape of all": lambda v: v.reshape(v.shape[::-1]),
        "new dimension": lambda v: v.reshape(v.shape[0], 1, -1),
        "transpose": lambda v: v.T,
        "concatenate": lambda v: jnp.concatenate([v, v * 2], 0),
        "concatenate columns": lambda v: jnp.concatenate([v[:, 1:], v * 2], 1),
        "stack": lambda v: jnp.stack([v, v * v], 1),
        "split": lambda v: jnp.split(v, [1], 0),
        "pad": lambda v: jnp.pad(v, ((1, 2), (0, 1))),
        "tile": lambda v: jnp.tile(v, (2, 1)),
        "repeat": lambda v: jnp.repeat(v, 2, 0),
        "roll": lambda v: jnp.roll(v, 1, -1),
        "flip": lambda v: jnp.flip(v, 0),
        "rev": lambda v: lax.rev(v, (0, 1)),
        "tril": jnp.tril,
        "diagonal": jnp.diagonal,
    },
    "slices": {
        "slice": lambda v: v[1:3, :2],
        "strides": lambda v: v[::2, 1::3],
        "dynamic_update_slice": lambda v: lax.dynamic_update_slice(v, v[:1] * 2, (1, 0)),
        "row": lambda v: v[1] + v[-1],
        "dynamic_slice": lambda v: lax.dynamic_slice(v, (1, 0), (2, v.shape[1])),
        "dynamic_slice past the end": lambda v: lax.dynamic_slice(v, (9, 1), (2, 2)),
        "computed row": lambda v: v[jnp.argmax(v[:, 0])],
        "row set": lambda v: v.at[1].set(0.5),
        "columns doubled": lambda v: v.at[:, 1:].multiply(2.0),
    },
    "indexing": {
        "fill": lambda v: jnp.take(v, IDS, axis=0, mode="fill", fill_value=5.0),
        "clip": lambda v: jnp.take(v, IDS, axis=0, mode="clip"),
        "wrap": lambda v: jnp.take(v, IDS, axis=1, mode="wrap"),
        "get": lambda v: v.at[IDS].get(mode="fill", fill_value=7.0),
        "columns": lambda v: v[:, SMALL],
        "integers": lambda v: (v * 10).astype(np.int32)[SMALL],
        "booleans": lambda v: (v > 0)[SMALL],
        "computed": lambda v: jnp.take(v, jnp.argmax(v, 1) % v.shape[0], axis=0),
        "take_along_axis": lambda v: jnp.take_along_axis(v, jnp.argsort(v, 0), 0),
        "pairs": lambda v: v[SMALL, SMALL.T],
        "vmap": lambda v: jax.vmap(lambda row, i: row[i])(v, jnp.arange(v.shape[0]) % 3),
        "gradient of a table": jax.grad(lambda v: jnp.sum(jnp.tanh(jnp.take(v, IDS % 3, axis=0)))),
    },
    "scatter": {
        "set": lambda v: v.at[np.array([0, 2])].set(1.0),
        "max": lambda v: v.at[np.array([0, 2])].max(0.5),
        "multiply": lambda v: v.at[:, np.array([0, 2])].multiply(2.0),
        "add": lambda v: v.at[np.array([0, 2, 0])].add(v[:3]),
        "add past the end": lambda v: v.at[np.array([0, 20, 1])].add(v[:3], mode="drop"),
        "into zeros": lambda v: jnp.zeros((5, v.shape[1]), v.dtype).at[np.arange(v.shape[0]) % 5].add(v),
        "segment_sum": lambda v: jax.ops.segment_sum(v, np.arange(v.shape[0]) % 3, 3),
        "segment_max": lambda v: jax.ops.segment_max(v, np.arange(v.shape[0]) % 3, 3),
        "bincount": lambda v: jnp.bincount(jnp.argmax(v, 1), length=9),
    },
    "sorting": {
        "sort": lambda v: jnp.sort(v, -1),
        "sort of rows": lambda v: jnp.sort(v, 0),
        "argsort": lambda v: jnp.argsort(v, 0),
        "stable": lambda v: jnp.argsort(jnp.round(v), 1),
        "with values": lambda v: lax.sort((v, v * v), dimension=0, num_keys=1),
        "top_k": lambda v: lax.top_k(v, 2),
        "median": lambda v: jnp.median(v, -1),
        "quantile": lambda v: jnp.quantile(v, 0.3, 0),
        "searchsorted": lambda v: jnp.searchsorted(jnp.sort(v[0]), v[1]),
        "unique": lambda v: jnp.unique(jnp.sign(v), size=3),
    },
    "statistics": {
        "cov": jnp.cov,
        "average": lambda v: jnp.average(v, 0, weights=np.arange(1.0, v.shape[0] + 1)),
        "nansum": lambda v: jnp.nansum(jnp.where(v > 1, np.nan, v), 0),
        "nanvar": lambda v: jnp.nanvar(v, 0),
        "count_nonzero": lambda v: jnp.count_nonzero(v > 0, 0),
        "histogram": lambda v: jnp.histogram(v, 5)[0],
        "interp": lambda v: jnp.interp(v[0], np.arange(3.0), np.array([0.0, 1.0, 3.0])),
    },
    "linear algebra": {
        "solve": lambda v: jnp.linalg.solve(definite(v), v.T),
        "inv": lambda v: jnp.linalg.inv(definite(v)),
        "slogdet": lambda v: jnp.linalg.slogdet(definite(v))[1],
        "cholesky": lambda v: jnp.linalg.cholesky(definite(v)),
        "qr": lambda v: jnp.abs(jnp.linalg.qr(definite(v))[1]),
        "svd": lambda v: jnp.linalg.svd(v, compute_uv=False),
        "eigh": lambda v: jnp.linalg.eigvalsh(definite(v)),
        "expm": lambda v: jax.scipy.linalg.expm(0.1 * v.T @ v),
        "cg": lambda v: jax.scipy.sparse.linalg.cg(definite(v), v[0])[0],
    },
    "Fourier": {
        "fft": lambda v: jnp.abs(jnp.fft.fft(v, axis=-1)),
        "fft of rows": lambda v: jnp.real(jnp.fft.fft(v, axis=0)),
        "rfft": lambda v: jnp.imag(jnp.fft.rfft(v, axis=0)),
        "inverse": lambda v: jnp.fft.irfft(jnp.fft.rfft(v), n=v.shape[1]),
        "complex": lambda v: jnp.abs(jnp.sum(v * jnp.exp(1j * v), 0)),
    },
    "control flow": {
        "scan over rows": lambda v: lax.scan(lambda c, row: (c + jnp.sum(row) * row, c.max()), v[0], v),
        "scan of products": lambda v: lax.scan(lambda c, _: (jnp.tanh(c @ (v.T @ v) * 0.1), c.sum()), v, None, length=3),
        "fori_loop": lambda v: lax.fori_loop(0, 3, lambda i, c: c * 0.9 + v.mean(0), v[0] * 0),
        "while_loop": lambda v: lax.while_loop(lambda c: jnp.sum(jnp.abs(c)) > 1, lambda c: c * 0.5, lax.stop_gradient(v)),
        "cond": lambda v: lax.cond(v.sum() > 0, lambda v: v.sum(0), lambda v: v[0], v),
        "switch": lambda v: lax.switch(jnp.argmax(v[:2, 0]), [lambda v: v, lambda v: v - v.mean(0)], v),
        "map": lambda v: lax.map(lambda row: row / jnp.sum(row * row), v),
        "scan of sums": lambda v: lax.scan(lambda c, _: (c + v.sum(0), None), jnp.zeros_like(v[0]), None, length=2)[0],
    },
    "calls": {
        "jit": lambda v: jax.jit(lambda v: v - v.mean(1, keepdims=True))(v),
        "checkpoint": jax.checkpoint(lambda v: jnp.sin(v) @ jnp.cos(v).T),
        "hessian": lambda v: jax.hessian(lambda row: jnp.sum(v @ row) ** 3)(v[0]),
        "vmap": lambda v: jax.vmap(lambda row: jnp.dot(row, v.sum(0)))(v),
        "vmap of columns": jax.vmap(lambda column: jnp.cumsum(column) * column.max(), 1, 1),
        "grad": jax.grad(lambda v: jnp.sum(jnp.tanh(v @ v.T) ** 2)),
        "jvp": lambda v: jax.jvp(lambda v: v / jnp.linalg.norm(v), (v,), (v * v,))[1],
        "second derivative": lambda v: jax.jvp(jax.grad(lambda v: jnp.sum(jnp.tanh(v) ** 3)), (v,), (v,))[1],
        "linearize": lambda v: jax.linearize(lambda v: v.T @ v, v)[1](v),
        "custom_jvp": lambda v: squared(v),
        "custom_vjp": lambda v: centered(v) ** 2,
        "stop_gradient": lambda v: v * lax.stop_gradient(v.max(0)),
    },
    "random numbers": {
        "normal": lambda v: v + jax.random.normal(jax.random.key(3), v.shape, v.dtype),
        "dropout": lambda v: v * jax.random.bernoulli(jax.random.key(1), 0.5, v.shape),
        "gamma": lambda v: jax.random.gamma(jax.random.key(0), jnp.abs(v) + 1),
        "dirichlet": lambda v: jax.random.dirichlet(jax.random.key(0), jnp.abs(v) + 1),
        "permutation": lambda v: jax.random.permutation(jax.random.key(2), v),
        "columns": lambda v: jax.random.permutation(jax.random.key(2), v, axis=1),
        "categorical": lambda v: jax.random.categorical(jax.random.key(4), v, axis=0),
        "keys": lambda v: jax.vmap(lambda k, row: row * jax.random.uniform(k))(
            jax.random.split(jax.random.key(0), v.shape[0]), v
        ),
    },
}
LAYOUTS = {
    "rows": {"rows": "x"},
    "columns": {"columns": "x"},
    "both": {"rows": "x", "columns": "y"},
    "rows of both": {"rows": ("x", "y")},
    "reversed": {"columns": ("y", "x")},
    "steps": {"rows": nx.SerialLoop(2)},
}
SHAPES = [(8, 8), (5, 6), (3, 7)]
SLOW = ("linear algebra", "contractions", "statistics", "control flow", "reductions")  # to compile


def placement(layout, kind="auto"):
    """A layout on a mesh of 4 × 2 devices."""
    return Placement(layout, (4, 2), tuple(LAYOUTS[layout].items()), kind, "global")


def mapped(body, resources, mesh=None, **options):
    return nx.xmap(body, axis_resources=resources, mesh=mesh or make_mesh((4, 2)), partitioning="global", **options)


def close(have, want, tol=1e-5):
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=tol, atol=tol), have, want)


def all_of(functions):
    return lambda v: {name: f(v) for name, f in functions.items()}


@pytest.mark.full(3)
@pytest.mark.fast(3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=[pytest.mark.fast(0)] if name in SLOW else []) for name in FAMILIES],
)
def test_functions_of_jax(family, layout, kind, shape):
    """Values, and gradients of a projection of all results, of the raw data of a named array."""
    f = all_of(FAMILIES[family])
    check(lambda x: f(x.data), f, [array(*shape)], ["rows", "columns"], None, placement(layout, kind))


NAMED = {
    "contraction": lambda x, w: nx.dot(x, w, "columns"),
    "softmax": lambda x, w: nx.nn.softmax(x, "rows"),
    "raw result with names": lambda x, w: nx.NamedArray(jnp.cumsum(x.data, 0) / x.data.shape[0], x.dims),
    "leaves": lambda x, w: jax.tree.map(lambda v: v / jnp.linalg.norm(v), x),
    "raw and named": lambda x, w: x * jnp.mean(x.data) + nx.mean(x, "rows"),
    "transposed": lambda x, w: nx.named(x.data.T @ x.data, ["columns", "others"]) * nx.sum(w, "hidden"),
    "nx.scan": lambda x, w: nx.scan(lambda c, row: (c + row, c * row), nx.sum(x, "rows") * 0, x, axis="rows"),
    "nx.vmap": lambda x, w: nx.vmap(lambda row: row - jnp.max(row.data), "rows")(x),
    "nx.cond": lambda x, w: nx.cond(nx.sum(x, ("rows", "columns")) > 0, lambda x: x * 2, lambda x: x - jnp.max(x.data), x),
}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_named_operations(layout, kind, shape):
    """Named results, of operations of namedax and of JAX."""
    x, w = array(*shape), array(shape[1], 5, seed=1)

    def oracle(x, w):
        total = jnp.cumsum(x, 0)
        return {
            "contraction": x @ w,
            "softmax": jax.nn.softmax(x, 0),
            "raw result with names": total / x.shape[0],
            "leaves": x / jnp.linalg.norm(x),
            "raw and named": x * x.mean() + x.mean(0),
            "transposed": x.T @ x * w.sum(1)[:, None],
            "nx.scan": (total[-1], (total - x) * x),
            "nx.vmap": x - x.max(1, keepdims=True),
            "nx.cond": jnp.where(x.sum() > 0, x * 2, x - x.max()),
        }

    rows = ["rows", "columns"]
    out_axes = {
        **dict.fromkeys(NAMED, rows),
        "contraction": ["rows", "hidden"],
        "transposed": ["columns", "others"],
        "nx.scan": (["columns"], rows),
    }
    check(lambda x, w: {name: f(x, w) for name, f in NAMED.items()}, oracle, [x, w], (rows, ["columns", "hidden"]), out_axes,
          placement(layout, kind))  # fmt: skip


# --- communication --------------------------------------------------------------------------------


def sent(f, *args):
    """The number of collectives of each kind."""
    return {kind: count for kind, (count, _) in nx.hlo.summary(jax.jit(f).lower(*args).compile()).items()}


X = nx.named(array(8, 16), ["rows", "columns"])
W = nx.named(array(16, 8, seed=1), ["columns", "hidden"])
SENT = {
    "elementwise": (lambda x: jax.tree.map(jnp.tanh, x) * 2 + x, {"rows": "x", "columns": "y"}, {}),
    "sum": (lambda x: jnp.sum(x.data), {"rows": "x"}, {"all-reduce": 1}),
    "sum over two mesh axes": (lambda x: jnp.sum(x.data), {"rows": "x", "columns": "y"}, {"all-reduce": 1}),
    "sum of columns": (lambda x: nx.named(jnp.sum(x.data, 1), ["rows"]), {"rows": "x"}, {}),
    "softmax": (lambda x: nx.NamedArray(jax.nn.softmax(x.data, 0), x.dims), {"rows": "x"}, {"all-reduce": 2}),
    "softmax of columns": (lambda x: nx.NamedArray(jax.nn.softmax(x.data, 1), x.dims), {"rows": "x"}, {}),
    "contraction": (lambda x: x.data @ W.data, {"columns": "x"}, {"all-reduce": 1}),
    "contraction of rows": (lambda x: nx.named(x.data @ W.data, ["rows", "hidden"]), {"rows": "x"}, {}),
    "contraction with a sharded result": (
        lambda x: nx.named(x.data @ W.data, ["rows", "hidden"]),
        {"columns": "x", "hidden": "x"},
        {"reduce-scatter": 1},
    ),
    "sum of what is scaled": (lambda x: jnp.sum(x.data * 2 + 1), {"rows": ("x", "y")}, {"all-reduce": 1}),
    "rows of a sharded table": (lambda x: jnp.take(x.data, SMALL, axis=0), {"rows": "x"}, {"all-reduce": 1}),
    "rows of sharded columns": (lambda x: nx.named(x.data[SMALL[0]], ["ids", "columns"]), {"columns": "x"}, {}),
    "gradient of sorted columns": (
        lambda x: nx.NamedArray(jax.grad(lambda v: jnp.sum(jnp.sin(jnp.sort(v, 1))))(x.data), x.dims),
        {"rows": "x"},
        {},
    ),
    "another order": (lambda x: nx.named(x.data.T, ["columns", "rows"]), {"rows": "x", "columns": "y"}, {}),
    "another layout": (lambda x: nx.named(x.data, ["others", "columns"]), {"rows": "x", "others": ()}, {"all-gather": 1}),
    "another dimension": (lambda x: nx.named(x.data, ["a", "b"]), {"rows": "x", "a": (), "b": "x"}, {"all-to-all": 1}),
    "loop": (
        lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x.data, None, length=3)[0].sum(),
        {"rows": "x"},
        {"all-reduce": 1},
    ),
}


@pytest.mark.full(6)
@pytest.mark.fast(5)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("name", SENT)
def test_collectives(name, kind):
    body, resources, want = SENT[name]
    assert sent(mapped(body, resources, make_mesh((4, 2), kind)), X) == want


@pytest.mark.fast(0)
def test_fully_sharded_parameters():
    """A parameter is stored sharded by another name: one all-gather, and one reduce-scatter for its gradient."""

    def loss(w, x):
        w = nx.rename(w, {"stored": "columns"})
        return jnp.mean(jnp.tanh(x.data @ w.data) ** 2)

    w, x = array(16, 8, seed=1), X.data
    f = mapped(loss, {"stored": "x", "rows": "x"}, in_axes=(["stored", "hidden"], ["rows", "columns"]))
    assert sent(f, w, x) == {"all-gather": 1, "all-reduce": 1}
    assert sent(jax.grad(f), w, x) == {"all-gather": 1, "reduce-scatter": 1}
    value, gradient = jax.jit(jax.value_and_grad(f))(w, x)
    close((value, gradient), jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w))


@pytest.mark.fast(0)
def test_data_parallel_gradients():
    """The gradient of replicated parameters is one all-reduce, inside of the body or outside."""

    def loss(w, x):
        return jnp.mean(jnp.tanh(x.data @ w.data) ** 2)

    options = {"in_axes": (["columns", "hidden"], ["rows", "columns"])}
    w, x = W.data, X.data
    want = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    for f in (jax.grad(mapped(loss, {"rows": "x"}, **options)), mapped(jax.grad(loss), {"rows": "x"}, **options)):
        assert sent(f, w, x) == {"all-reduce": 1}
        close(jax.tree.leaves(f(w, x))[0], want)


# --- functions of whole leaves --------------------------------------------------------------------


def params():
    return {"w": nx.named(array(5, 6), ["rows", "columns"]), "b": nx.named(array(6, seed=1), ["columns"])}


LEAVES = {
    "clip_by_global_norm": lambda p: optax.clip_by_global_norm(0.5).update(p, None)[0],
    "norm of all": optax.tree.norm,
    "adam": lambda p: optax.adam(0.1).update(p, optax.adam(0.1).init(p), p)[0],
    "mean": lambda p: jax.tree.map(lambda v: v - jnp.mean(v), p),
    "norm": lambda p: jax.tree.map(jnp.linalg.norm, jax.tree.leaves(p)),
    "ravel": lambda p: jnp.concatenate([v.ravel() for v in jax.tree.leaves(p)]),
    "all finite": lambda p: jnp.all(jnp.array([jnp.all(jnp.isfinite(v)) for v in jax.tree.leaves(p)])),
}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_of_leaves(layout, kind):
    """Optimizers and norms, which treat a leaf as the global array."""
    f = mapped(all_of(LEAVES), LAYOUTS[layout], make_mesh((4, 2), kind))
    close(jax.tree.leaves(f(params())), jax.tree.leaves(jax.jit(all_of(LEAVES))(jax.tree.map(lambda v: v, params()))))


# --- custom derivative rules ----------------------------------------------------------------------


def rule_of_named(kind):
    """`x - mean(x)` of a named array, with a derivative that is not its own."""

    def value(x):
        return x - nx.mean(x, "rows")

    f = kind(value)
    if kind in (jax.custom_jvp, nx.custom_jvp):
        f.defjvp(lambda primals, tangents: (value(primals[0]), tangents[0] * 3 + nx.sum(tangents[0], "rows")))
    else:
        f.defvjp(lambda x: (value(x), None), lambda _, ct: (ct * 3 + nx.sum(ct, "rows"),))
    return f


def with_statistics(v):
    """Two results; the second is an integer."""
    return v * v.sum(0), jnp.argmax(v, 0)


two_results = jax.custom_vjp(with_statistics)
two_results.defvjp(lambda v: (with_statistics(v), v), lambda v, cts: (cts[0] * v.max() + 1,))
static = jax.custom_vjp(lambda power, v: v**power, nondiff_argnums=(0,))
static.defvjp(lambda power, v: (v**power, v), lambda power, v, ct: (ct * power + v.mean(),))


@jax.custom_vjp
def ones(v):
    return jnp.sin(v)


# A cotangent of one, which padding has, too.
ones.defvjp(lambda v: (jnp.sin(v), None), lambda _, ct: (jnp.ones_like(ct),))


RULES = {
    "custom_jvp": lambda v: squared(v),
    "custom_vjp": lambda v: centered(v),
    "cotangents of padding": lambda v: ones(v * v[0] + v[:, :1]),
    "cotangents of padding, summed": lambda v: ones(v - v.mean(0)) * v.sum(1, keepdims=True),
    "rule of a rule": lambda v: squared(centered(v)),
    "sum": lambda v: squared(v).sum(0),
    "two results": lambda v: two_results(v)[0] + two_results(v)[1],
    "static": lambda v: static(3, v),
    "loop": lambda v: lax.scan(lambda c, _: (centered(squared(c) / 9), None), v, None, length=2)[0],
    "checkpoint": jax.checkpoint(lambda v: centered(squared(v))),
    "jit": lambda v: jax.jit(squared)(v),
    "gradient": jax.grad(lambda v: jnp.sum(centered(v) ** 2)),
    "jvp": lambda v: jax.jvp(squared, (v,), (v,))[1],
    "logsumexp": lambda v: jax.nn.logsumexp(v, 0) + jax.nn.relu(v).sum(0),
}


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_custom_rules_of_arrays(layout, kind, shape):
    """The rules see global arrays, and are not the derivatives of the functions."""
    f = all_of(RULES)
    check(lambda x: f(x.data), f, [array(*shape)], ["rows", "columns"], None, placement(layout, kind))


@pytest.mark.full(4)
@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp, nx.custom_jvp, nx.custom_vjp])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axes", ["auto", "explicit"])
def test_custom_rules_of_named_arrays(layout, kind, axes):
    rule, names = rule_of_named(kind), ["rows", "columns"]

    @jax.custom_vjp
    def oracle(v):
        return v - v.mean(0)

    oracle.defvjp(lambda v: (v - v.mean(0), None), lambda _, ct: (ct * 3 + ct.sum(0),))
    check(lambda x: rule(x * x), lambda v: oracle(v * v), [array(5, 6)], names, names, placement(layout, axes))


# --- errors ---------------------------------------------------------------------------------------


def bad_rule(kind):
    f = kind(lambda v: v * 2)
    if kind is jax.custom_jvp:
        f.defjvp(lambda primals, tangents: (primals[0] * 2, lax.psum(tangents[0], "x")))
    else:
        f.defvjp(lambda v: (v * 2, None), lambda _, ct: (lax.psum(ct, "x"),))
    return f


COLLECTIVES = {
    "psum": lambda v: lax.psum(v, "x"),
    "pmax": lambda v: lax.pmax(v, "x"),
    "axis_index": lambda v: v + lax.axis_index("x"),
    "all_gather": lambda v: lax.all_gather(v, "x"),
    "psum of another mesh axis": lambda v: lax.psum(v, "y"),
    "in jit": jax.jit(lambda v: lax.psum(v, "x")),
    "in a loop": lambda v: lax.fori_loop(0, 2, lambda i, v: lax.psum(v, "x"), v),
    "in a rule": jax.grad(lambda v: jnp.sum(bad_rule(jax.custom_vjp)(v))),
    "in a rule for jvp": jax.grad(lambda v: jnp.sum(bad_rule(jax.custom_jvp)(v))),
}


@pytest.mark.parametrize("body", COLLECTIVES.values(), ids=COLLECTIVES)
def test_raw_collectives_are_rejected(body):
    with pytest.raises(nx.errors.RawBlockError, match=r"jax\.lax\.\w+: in the body of <lambda>"):
        mapped(lambda x: body(x.data), {"rows": "x"})(X)


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp])
def test_raw_collectives_in_rules_that_jax_calls_later(kind):
    f = mapped(lambda x: bad_rule(kind)(x.data), {"rows": "x"})
    close(f(X), X.data * 2)
    with pytest.raises(nx.errors.RawBlockError, match=r"jax\.lax\.psum: in the body of <lambda>"):
        jax.grad(lambda x: jnp.sum(f(x)))(X)


@pytest.mark.parametrize("value", ["globally", None, True, 3])
def test_partitioning_is_one_of_three_strings(value):
    with pytest.raises(nx.errors.AxisResourceError, match="partitioning must be 'manual', 'global' or 'auto', got"):
        nx.xmap(lambda x: x, partitioning=value)


# --- arguments and transformations ----------------------------------------------------------------


def centered_body(x):
    """Each element relative to statistics of the global array."""
    return x * jnp.linalg.norm(x.data) - jnp.max(x.data, 0).mean()


def centered_oracle(v):
    return v * jnp.linalg.norm(v) - jnp.max(v, 0).mean()


LOOPS = {
    "steps": {"rows": nx.SerialLoop(2)},
    "steps of devices": {"rows": ("x", nx.SerialLoop(2))},
    "devices of steps": {"rows": nx.SerialLoop(2), "columns": "y"},
}


@pytest.mark.fast(0)
@pytest.mark.parametrize("name", LOOPS)
def test_serial_loops(name):
    """The body sees the global array, so the loop cannot take it in steps, and the values stay."""
    names = ["rows", "columns"]
    place = Placement(name, (4, 2), tuple(LOOPS[name].items()), "auto", "global")
    check(centered_body, centered_oracle, [array(8, 6)], names, names, place)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_no_mapped_axis(kind):
    names = ["rows", "columns"]
    check(centered_body, centered_oracle, [array(5, 6)], names, names, Placement("none", (4, 2), (), kind, "global"))


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"rows": "x"}, {"columns": "y"}, {"rows": "y", "columns": "x"}], ids=str)
def test_arguments_that_are_stored_padded(resources):
    mesh, v = make_mesh((4, 2)), array(5, 6)
    x = nx.shard(nx.named(v, ["rows", "columns"]), resources, mesh, padded=True)
    weights = array(5, 6, seed=2)

    def body(x):
        result = centered_body(x)
        return jnp.sum(result.data * weights), result

    (_, result), gradient = jax.jit(jax.value_and_grad(mapped(body, resources, mesh), has_aux=True))(x)
    close(nx.shard(result, {}, mesh).data, centered_oracle(v))
    close(nx.shard(gradient, {}, mesh).data, jax.grad(lambda v: jnp.sum(centered_oracle(v) * weights))(v), 1e-4)


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_values_that_a_body_closes_over(kind):
    """Arrays, named arrays, and values that are differentiated."""
    resources, mesh, v = {"rows": "x"}, make_mesh((4, 2), kind), array(8, 6)
    bias, scale = array(6, seed=1), array(8, 6, seed=2)

    def loss(scale, f=lambda body: mapped(body, resources, mesh)):
        x = nx.named(v, ["rows", "columns"])
        return f(lambda x: jnp.sum(jnp.tanh(x.data * scale + bias) @ x.data.T))(x)

    def plain(scale):
        return jnp.sum(jnp.tanh(v * scale + bias) @ v.T)

    close(jax.value_and_grad(loss)(scale), jax.value_and_grad(plain)(scale), 1e-4)
    named = nx.named(bias, ["columns"])
    have = mapped(lambda x: x + named * jnp.sum(x.data), resources, mesh)(nx.named(v, ["rows", "columns"]))
    close(have.data, v + bias * v.sum(), 1e-4)


BATCH, DIRECTION = array(3, 5, 6), array(5, 6, seed=3)
TRANSFORMATIONS = {
    "vmap": lambda f: jax.vmap(f)(BATCH),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(BATCH),
    "grad of vmap": lambda f: jax.grad(lambda batch: jnp.prod(jax.vmap(f)(batch)))(BATCH / 4),
    "jvp": lambda f: jax.jvp(f, (BATCH[0],), (DIRECTION,)),
    "jvp of grad": lambda f: jax.jvp(jax.grad(f), (BATCH[0],), (DIRECTION,)),
    "grad of grad": lambda f: jax.grad(lambda v: jnp.sum(jax.grad(f)(v) * DIRECTION))(BATCH[0]),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f))(BATCH[0]),
    "scan": lambda f: lax.scan(lambda total, v: (total + f(v), None), jnp.zeros((), BATCH.dtype), BATCH)[0],
}


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"rows": "x"}, {"rows": "x", "columns": "y"}], ids=str)
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations_of_mapped_functions(name, resources):
    """Transformations of JAX outside of the mapped function."""
    f = mapped(lambda x: jnp.mean(jnp.tanh(centered_body(x).data) ** 2), resources, in_axes=(["rows", "columns"],))
    have, want = (
        jax.jit(lambda g=g: TRANSFORMATIONS[name](g))() for g in (f, lambda v: jnp.mean(jnp.tanh(centered_oracle(v)) ** 2))
    )
    close(have, want, 1e-4)


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"n": "x"}, {"n": ("x", "y")}], ids=str)
def test_second_derivatives_are_those_of_the_rule(resources):
    """A rule that avoids a division by zero is differentiated itself; the function is not."""

    @jax.custom_jvp
    def length(v):
        return jnp.sqrt(jnp.sum(v * v))

    length.defjvp(lambda p, t: (length(*p), jnp.sum(p[0] * t[0]) / jnp.maximum(length(*p), 1e-6)))
    zeros = jnp.zeros(4)
    have = jax.hessian(lambda v: mapped(lambda x: length(x.data), resources)(nx.named(v, ["n"])) ** 2)(zeros)
    close(have, jax.hessian(lambda v: length(v) ** 2)(zeros))


def test_values_of_a_rule_are_those_of_its_primal_results():
    double = jax.custom_jvp(lambda v: v)
    double.defjvp(lambda p, t: (p[0] * 7, t[0]))
    f = mapped(lambda x: double(x.data), {"n": "x"}, in_axes=(["n"],))
    close(jax.jvp(f, (jnp.ones(8),), (jnp.ones(8),)), (7 * jnp.ones(8), jnp.ones(8)))


def test_elements_that_stop_separately():
    """`jax.vmap` of a while loop makes one whose condition is an array."""

    def halved(v):
        return jax.vmap(lambda row: lax.while_loop(lambda c: c > 1, lambda c: c * 0.5, row))(v)

    v = jnp.arange(8.0)
    close(mapped(lambda x: halved(x.data), {"n": "x"}, in_axes=(["n"],))(v), halved(v))


@pytest.mark.fast(1)
@pytest.mark.parametrize("dtype", ["uint32", "int8", "int32"])
@pytest.mark.parametrize("mode", ["clip", "fill", "wrap"])
def test_rows_out_of_bounds(dtype, mode):
    at = np.array([0, np.iinfo(dtype).max, np.iinfo(dtype).min, 3], dtype)
    v = jnp.arange(8.0)
    take = functools.partial(jnp.take, indices=jnp.asarray(at), mode=mode)
    close(mapped(lambda x: take(x.data), {"n": "x"}, in_axes=(["n"],))(v), take(v))


@pytest.mark.parametrize("resources", [{"n": "x"}, {"n": ("x", "y")}, {}], ids=str)
def test_printing_happens_once(resources, capfd):
    def body(x):
        jax.debug.print("sum {}", x.data.sum())
        nx.debug.print("named {}", x)
        return x

    mapped(body, resources)(nx.named(jnp.arange(8.0), ["n"]))
    jax.effects_barrier()
    assert capfd.readouterr().out.count("sum 28.0") == 1


def test_a_nested_function_maps_no_new_mesh_axes():
    def body(x):
        return nx.xmap(lambda y: nx.sum(y, "rows"), axis_resources={"columns": "y"})(x)

    with pytest.raises(nx.errors.AxisResourceError, match="partitioning='global', and maps axes over the mesh axes 'y'"):
        mapped(body, {"rows": "x"})(X)


def test_two_names_of_one_mesh_axis_do_not_meet():
    with pytest.raises(nx.errors.PlacementConflictError, match="axes 'a' and 'b' meet in one value"):
        mapped(lambda a, b: nx.multiply(a, b), {"a": "x", "b": "x"})(
            nx.ones(named_shape={"a": 8}), nx.ones(named_shape={"b": 8})
        )


@pytest.mark.fast(2)
@pytest.mark.parametrize("name", ["softmax", "logsumexp", "max", "a function"])
def test_reductions_of_other_dimensions_send_nothing(name):
    """Also by a function (`lax.reduce`), as in the softmax of namedax on CPUs."""
    functions = {
        "softmax": lambda x: nx.nn.softmax(x, "columns"),
        "logsumexp": lambda x: nx.logsumexp(x, "columns"),
        "max": lambda x: nx.max(x, "columns"),
        "a function": lambda x: lax.reduce(x.data, -np.inf, lax.max, (1,)).sum() * x,
    }
    f = mapped(functions[name], {"rows": "x"})
    assert not any("all-gather" in kind for kind in sent(f, X))
    assert not any("all-gather" in kind for kind in sent(jax.grad(lambda x: jnp.sum(f(x).data ** 2)), X))
