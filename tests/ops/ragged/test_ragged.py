"""`nx.Ragged` in every placement of tokens and rows, against loops over rows."""

import functools
import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    NamedAxesLeftError,
    PositionalAxisError,
)
from namedax.hlo import collectives
from tests import make
from tests.harness import Lazily, Placement, array, make_mesh

optax = Lazily("optax")

LENGTHS = (3, 0, 5, 1, 0, 2, 2, 0)  # of eight documents, three of which are empty; rows cross the devices
SIZE = 16  # of which three are unused
DATA = make.array(np.where(np.arange(SIZE)[:, None] < sum(LENGTHS), array(SIZE, 3, seed=4), np.nan))
SCALE = array(8, seed=5)

KINDS = [
    ("tokens-one-each", (8,), (("token", "x"),)),
    ("tokens", (4, 2), (("token", "x"),)),
    ("docs", (4, 2), (("doc", "x"),)),
    ("same", (4, 2), (("token", "x"), ("doc", "x"))),
    ("crossed", (2, 4), (("token", "x"), ("doc", "y"))),
    ("on-two", (4, 2), (("token", ("x", "y")), ("doc", "y"))),
]
PLACEMENTS = [
    Placement("unmapped", None, ()),
    *(Placement(*kind) for kind in KINDS),
    *(Placement(*kind, "explicit") for kind in KINDS if kind[0] in ("tokens", "same", "crossed")),
    pytest.param(Placement("uneven", (3, 2), (("token", "x"), ("doc", "x"))), marks=pytest.mark.fast(0)),
]
placed = pytest.mark.parametrize("placement", PLACEMENTS, ids=str)


def rows_of(values, lengths=LENGTHS):
    starts = np.cumsum([0, *lengths])
    return [values[a:b] for a, b in itertools.pairwise(starts)]


def joined(rows):
    """The rows one after the other, and what stands behind them: the last token."""
    whole = jnp.concatenate(rows)
    return jnp.concatenate([whole, jnp.broadcast_to(whole[-1:], (SIZE - len(whole), *whole.shape[1:]))])


def reductions(r):
    return {
        "sum": r.sum(),
        "mean": r.mean(),
        "var": r.var(),
        "max": r.max(),
        "min": r.min(),
        "logsumexp": r.logsumexp(),
        "any": (r > 1).any(),
        "all": (r > -1).all(),
        "first": r.pick(0),
        "last": r.pick(-1, fill_value=0),
        "padded": nx.rename(r.padded("column", 4, fill=7), {"embed": "e"}),
        "softmax": r.softmax().values,
        "log_softmax": r.log_softmax().values,
        "spread": (r * r.sum() + 1).values,
        "picked": r.take(nx.named(make.array([6, 2, 0, 1, -3, 9, 4, 3], "int32"), ["doc"])).values,
    }


@jax.jit
def oracle(values, scale):
    rows = [row * s for row, s in zip(rows_of(values), scale, strict=True)]
    empty = jnp.full(3, jnp.nan)
    of = lambda f: jnp.stack([f(row) for row in rows])  # noqa: E731
    taken = [rows[i] if 0 <= i < 8 else rows[1] for i in (6, 2, 0, 1, 5, 9, 4, 3)]
    return {
        "sum": of(lambda row: row.sum(0)),
        "mean": of(lambda row: row.mean(0)),
        "var": of(lambda row: row.var(0)),
        "max": of(lambda row: row.max(0, initial=-jnp.inf)),
        "min": of(lambda row: row.min(0, initial=jnp.inf)),
        "logsumexp": of(lambda row: jax.nn.logsumexp(row, 0) if len(row) else -jnp.inf * jnp.ones(3)),
        "any": of(lambda row: (row > 1).any(0)),
        "all": of(lambda row: (row > -1).all(0)),
        "first": of(lambda row: row[0] if len(row) else empty),
        "last": of(lambda row: row[-1] if len(row) else jnp.zeros(3)),
        "padded": of(lambda row: jnp.concatenate([row[:4], jnp.full((4 - len(row[:4]), 3), 7.0)])),
        "softmax": joined([jax.nn.softmax(row, 0) for row in rows]),
        "log_softmax": joined([jax.nn.log_softmax(row, 0) for row in rows]),
        "spread": joined([row * row.sum(0) + 1 for row in rows]),
        "picked": joined(taken),
    }


OUT = {key: ["doc", "embed"] for key in ("sum", "mean", "var", "max", "min", "logsumexp", "any", "all", "first", "last")} | {
    "padded": ["doc", "column", "e"],
    **{key: ["token", "embed"] for key in ("softmax", "log_softmax", "spread", "picked")},
}


def scalar(f):
    """A projection of all that has a gradient, of real tokens and rows that are not empty."""

    def total(values, scale):
        results, sum_ = f(values, scale), 0.0
        for i, (name, leaf) in enumerate(sorted(results.items())):
            if leaf.dtype == bool:
                continue
            kept = np.ones(leaf.shape, bool)
            if OUT[name][0] == "token":
                kept[sum(LENGTHS) :] = False
            else:
                kept[np.array(LENGTHS) == 0] = False
            sum_ += jnp.sum(jnp.where(kept, leaf, 0) * array(*leaf.shape, seed=20 + i))
        return sum_, results

    return total


@functools.cache
def wanted():
    (_, results), gradients = jax.jit(jax.value_and_grad(scalar(oracle), (0, 1), has_aux=True))(DATA, SCALE)
    return results, gradients


def body(values, lengths, scale):
    r = nx.Ragged(values, lengths, tokens="token", rows="doc")
    return reductions(r * scale)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@placed
def test_rows_in_every_placement(placement):
    fun = nx.xmap(body, in_axes=(["token", "embed"], ["doc"], ["doc"]), out_axes=OUT, **placement.options)
    lengths = make.asarray(np.array(LENGTHS, np.int32))
    gradients = jax.value_and_grad(scalar(lambda values, scale: fun(values, lengths, scale)), (0, 1), has_aux=True)
    with placement.context():
        (_, have), have_gradients = jax.jit(gradients)(np.asarray(DATA), np.asarray(SCALE))
    want, want_gradients = wanted()
    for name, value in want.items():
        np.testing.assert_allclose(np.asarray(have[name]), np.asarray(value), rtol=2e-5, atol=2e-5, err_msg=name)
    for h, w in zip(have_gradients, want_gradients, strict=True):
        np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=4e-4, atol=4e-4)


def ragged(size=SIZE, dtype=float):
    values = np.arange(3.0 * size).reshape(size, 3) / 7
    return nx.Ragged(
        nx.named(make.array(values, dtype), ["token", "embed"]),
        nx.named(make.array(LENGTHS), ["doc"]),
        tokens="token",
        rows="doc",
    )


ROWS = 8 * 3 * 4  # bytes of one number for every row and feature
COSTS = [
    ("sum", {"token": "x"}, [("all-reduce", ROWS)]),
    ("sum", {"token": "x", "doc": "x"}, [("reduce-scatter", ROWS)]),
    ("sum", {"token": "x", "doc": "y"}, [("all-reduce", ROWS // 2)]),
    ("sum", {"doc": "x"}, []),
    ("softmax", {"token": "x", "doc": "x"}, [("all-reduce", ROWS)] * 2),
    ("logsumexp", {"token": "x"}, [("all-reduce", ROWS)] * 2),
    ("positions", {"token": "x"}, []),
    ("pick", {"token": "x", "doc": "x"}, [("all-gather", 8 * 4), ("reduce-scatter", ROWS)]),
]


@pytest.mark.fast(0)
@pytest.mark.parametrize(("method", "resources", "want"), COSTS)
def test_what_is_sent_is_of_rows_and_never_of_tokens(method, resources, want):
    def fun(r):
        found = getattr(r, method)
        return found(-1) if method == "pick" else found() if callable(found) else found

    mapped = nx.xmap(fun, mesh=make_mesh((4, 2)), axis_resources=resources)
    assert [(c.kind, c.bytes) for c in collectives(mapped.lower(ragged()).compile())] == want


@pytest.mark.fast(0)
def test_the_gradient_of_a_sum_sends_nothing_more():
    fun = nx.xmap(lambda r: r.sum(), mesh=make_mesh((4, 2)), axis_resources={"token": "x"})
    r = ragged()
    backward = jax.jit(jax.grad(lambda values: nx.sum(fun(r.replace(values)) ** 2, ...)))
    assert [c.kind for c in collectives(backward.lower(r.values).compile())] == ["all-reduce"]


# --- conversions ----------------------------------------------------------------------------------------------------------------


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "mesh_axes", [{}, {"token": "x"}, {"doc": "x"}, {"token": "x", "doc": "x"}, {"token": "x", "doc": "y"}], ids=str
)
def test_padded_arrays_with_a_mask(mesh_axes):
    x, mask = array(8, 3, seed=8), np.random.default_rng(3).random((8, 3)) < 0.6
    packing = nx.xmap(
        lambda x, mask: nx.Ragged.from_padded(x, rows="doc", column="column", tokens="token", mask=mask, size=24),
        in_axes=["doc", "column"],
        mesh=make_mesh((4, 2)) if mesh_axes else None,
        axis_resources=mesh_axes,
    )
    assert [row.tolist() for row in packing(x, mask).to_rows()] == [np.asarray(x)[i][mask[i]].tolist() for i in range(8)]


def test_lists_and_back():
    rows = [np.arange(6.0, dtype="float32").reshape(3, 2), [], np.ones((1, 2), "float32")]
    r = nx.Ragged.from_rows(rows, rows="doc", tokens="token", axes=["embed"], size=6)
    assert r.values.dims == ("token", "embed")
    assert r.count == 3
    assert [row.tolist() for row in r.to_rows()] == [rows[0].tolist(), [], rows[2].tolist()]
    assert r.values.data[4:].tolist() == [[1, 1], [1, 1]]  # the last token
    assert nx.positional(r.is_token, ["token"]).tolist() == [True] * 4 + [False] * 2
    assert nx.positional(r.positions, ["token"]).tolist() == [0, 1, 2, 0, 0, 0]
    assert nx.positional(r.starts, ["doc"]).tolist() == [0, 3, 3]
    padded = nx.rename(r.padded("column"), {"embed": "e"})
    again = nx.Ragged.from_padded(padded, rows="doc", column="column", tokens="token", lengths=r.lengths)
    assert [row.tolist() for row in again.to_rows()] == [row.tolist() for row in r.to_rows()]
    assert again.values.named_shape["token"] == 4


@pytest.mark.fast(0)
def test_batches_have_rows_of_their_own():
    values, lengths = array(2, 6, seed=1), np.array([[1, 4, 0], [0, 2, 3]], np.int32)
    r = nx.Ragged(
        nx.named(values, ["batch", "token"]), nx.named(make.asarray(lengths), ["batch", "doc"]), tokens="token", rows="doc"
    )
    want = [[float(np.sum(row)) for row in rows_of(np.asarray(values[i]), lengths[i])] for i in range(2)]
    np.testing.assert_allclose(nx.positional(r.sum(), ["batch", "doc"]), want, rtol=1e-5)
    exp = np.exp(np.asarray(values[1])[2:5])
    np.testing.assert_allclose(nx.positional(r.softmax().values, ["batch", "token"])[1, 2:5], exp / exp.sum(), rtol=1e-5)


# --- unused tokens ---------------------------------------------------------------------------------------------------------------


@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{}, {"token": "x"}], ids=str)
def test_unused_tokens_leave_no_trace_in_gradients_of_what_is_shared(resources):
    values = np.arange(1.0, 17, dtype="float32")
    values[13:] = [np.nan, 0, -np.inf]

    def loss(w, values, lengths):
        r = nx.Ragged(values, lengths, tokens="token", rows="doc")
        return nx.sum((r * w).map(nx.log).map(nx.sqrt).sum(), "doc")

    mapped = nx.xmap(
        loss, ([], ["token"], ["doc"]), [], mesh=make_mesh((4, 2)) if resources else None, axis_resources=resources
    )
    have = jax.grad(mapped)(2.0, values, make.array(LENGTHS))
    logs = np.log(2 * values[:13])
    np.testing.assert_allclose(have, np.sum(0.5 / np.sqrt(logs)) / 2, rtol=1e-5)


def test_rows_longer_than_the_buffer_are_an_error_or_nan():
    r, longer = ragged(), nx.named(make.array([9, 9]), ["doc"])
    with pytest.raises(
        AxisSizeError, match=r"the rows 'doc' have 18 tokens in total, but axis 'token' has size 16\. Give a longer buffer"
    ):
        nx.Ragged(r.values, longer, tokens="token", rows="doc")
    cut = jax.jit(lambda lengths: nx.Ragged(r.values, lengths, tokens="token", rows="doc"))(longer)
    assert cut.lengths.data.tolist() == [9, 7]
    assert np.isnan(cut.values.data).all()
    assert (bool(cut.is_cut), bool(r.is_cut)) == (True, False)


NOT_NUMBERS = {
    **{kind: lambda r, kind=kind: getattr(r, kind)() for kind in ("sum", "mean", "var", "max", "min", "logsumexp", "prod")},
    "softmax": lambda r: r.softmax().sum(),
    "centred": lambda r: (r - r.sum()).max(),
    "taken": lambda r: r.take(nx.named(make.array([4, 3]), ["two"])).sum(),
    "padded": lambda r: nx.sum(r.padded("column", 3, fill=0), "column"),
    "picked": lambda r: r.pick(-1, fill_value=0.0),
    "others": lambda r: r.replace(nx.sin(nx.arange(8, axis="token", dtype=float))).sum(),
    "embedded": lambda r: r.replace(nx.arange(8, axis="token")).map(lambda i: nx.cos(0.1 * i)).sum(),
}


FITS, CUT = (
    (3, 2, 1, 1, 1, 0, 0, 0),
    (3, 2, 4, 2, 0, 0, 0, 0),
)  # the third row is cut, the fourth wholly, and the fifth is empty


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"token": "x", "doc": "x"}, {"doc": "y"}], ids=str)
def test_nothing_by_row_is_a_number_where_rows_are_cut(resources):
    options = {"mesh": make_mesh((4, 2)), "axis_resources": resources} if resources else {}
    kinds = ["sum", "max", "taken", "padded", "picked", "others", "embedded"] if resources else list(NOT_NUMBERS)

    def body(values, lengths):
        r = nx.Ragged(values, lengths, tokens="token", rows="doc")
        return {kind: NOT_NUMBERS[kind](r) for kind in kinds}, r.is_cut

    out = {kind: ["two"] if kind == "taken" else ["doc"] for kind in kinds}
    f = jax.jit(nx.xmap(body, (["token"], ["doc"]), (out, []), **options))
    values = make.array(np.arange(8.0) / 3)
    for lengths in (FITS, CUT):
        have, is_cut = f(values, make.array(lengths))
        assert bool(is_cut) == (lengths is CUT)
        for kind, row in have.items():
            of_rows = np.asarray(row)[:5]
            assert np.isnan(of_rows).all() if is_cut else np.isfinite(of_rows).all(), kind


@pytest.mark.fast(0)
def test_nor_is_a_gradient():
    kinds = [kind for kind in NOT_NUMBERS if kind != "prod"]  # which has none

    def sums(scale, lengths):
        values = nx.named(make.array(np.arange(8.0) / 3), ["token"]) * scale
        r = nx.Ragged(values, lengths, tokens="token", rows="doc")
        words = nx.Ragged(nx.arange(8, axis="token"), lengths, tokens="token", rows="doc")
        made = {
            kind: NOT_NUMBERS[kind](words.map(lambda i: nx.cos(0.1 * i * scale)) if kind == "embedded" else r) for kind in kinds
        }
        return {kind: nx.sum(x[x.dims[0], : 2 if kind == "taken" else 5], ...) for kind, x in made.items() if kind != "others"}

    gradients = jax.jit(jax.jacrev(sums))
    for lengths in (FITS, CUT):
        for kind, have in gradients(1.5, nx.named(make.array(lengths), ["doc"])).items():
            assert np.isnan(have) if lengths is CUT else np.isfinite(have), kind


# --- a pytree, and operators ---------------------------------------------------------------------------------------------------------


def test_jax_takes_it_as_a_pytree():
    r = ragged()
    gradient = jax.jit(jax.grad(lambda r: nx.sum((r * r).sum(), ...), allow_int=True))(r)
    np.testing.assert_allclose(gradient.values.data[:13], 2 * r.values.data[:13], rtol=1e-6)
    assert not np.asarray(gradient.values.data[13:]).any()
    sgd = optax.sgd(0.5)
    updates, _ = sgd.update(gradient.values, sgd.init(r.values))
    stepped = r.replace(optax.apply_updates(r.values, updates))
    np.testing.assert_allclose(stepped.values.data[:13], 0, atol=1e-6)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), r.values)
    total, _ = jax.lax.scan(lambda total, values: (total + r.replace(values).sum(), None), 0 * r.sum(), stacked)
    np.testing.assert_allclose(total.data, 3 * r.sum().data, rtol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(r)).max().data, r.max().data)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(r)]
    assert [path.split(".")[1] for path in paths] == ["values", "lengths", "segments", "is_cut"]


@pytest.mark.fast(0)
def test_operators():
    r = nx.Ragged.from_rows([[1, 2], [5]], rows="doc", tokens="token")
    have = [2 - r, r**2, r / r.sum(), -r, r % 2 == 1, 1 < r, r.map(nx.add, r), nx.named(make.array([10, 20]), ["doc"]) + r]
    want = [[1, 0, -3], [1, 4, 25], [1 / 3, 2 / 3, 1], [-1, -2, -5], [1, 0, 1], [0, 1, 1], [2, 4, 10], [11, 12, 25]]
    np.testing.assert_allclose([h.values.data for h in have], want, rtol=1e-6)
    assert repr(r) == "Ragged(i32[]{token:3}, 2 rows 'doc')"


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_types_of_results():
    r = nx.Ragged.from_rows([np.full(1000, 100, "int8"), []], rows="doc", tokens="token")
    assert r.sum().data.tolist() == [100000, 0]
    assert r.max().data.tolist() == [100, -128]
    one = r.map(lambda v: v * 0 + 1).astype("bfloat16")
    assert one.sum().data[0] == 1000
    assert one.sum().dtype == one.mean().dtype == one.softmax().dtype == jnp.bfloat16
    assert (one > 0).all().data.tolist() == [True, True]
    assert (one > 0).any().data.tolist() == [True, False]
    assert one.prod().data.tolist() == [1, 1]


@functools.cache
def of_any_lengths():
    def fun(values, lengths):
        r = nx.Ragged(values, lengths, tokens="token", rows="doc")
        return nx.stack([r.sum(), r.max(), r.pick(-1), r.softmax().sum()], axis="kind")

    return nx.xmap(fun, (["token"], ["doc"]), ["kind", "doc"], mesh=make_mesh((8,)), axis_resources={"token": "x"})


@pytest.mark.fast(0)
@given(lengths=strategies.lists(strategies.integers(0, 6), min_size=5, max_size=5).filter(lambda n: sum(n) <= SIZE))
@settings(max_examples=40, deadline=None)
def test_any_lengths(lengths):
    values = np.random.default_rng(7).normal(size=SIZE).astype("float32")
    have = np.asarray(of_any_lengths()(values, np.array(lengths, np.int32))).T
    for (total, largest, last, probability), row in zip(have, rows_of(values, lengths), strict=True):
        np.testing.assert_allclose(total, row.sum(), rtol=1e-4, atol=1e-5)
        assert largest == max(row, default=-np.inf)
        np.testing.assert_equal(last, row[-1] if len(row) else np.float32(np.nan))
        np.testing.assert_allclose(probability, len(row) > 0, atol=1e-5)


# --- mistakes --------------------------------------------------------------------------------------------------------------------


def named(*shape, axes):
    return nx.named(make.zeros(shape), list(axes))


X, N = named(6, 2, axes=["token", "embed"]), nx.named(make.array([2, 3]), ["doc"])
M = make.zeros((1, 6, 1, 2))
Y = nx.rename(X, token="s")
attention = functools.partial(nx.nn.dot_product_attention, axis="token", features="embed")


@functools.cache
def of_lengths(*lengths):
    return nx.Ragged(X, nx.named(make.array(lengths or [2, 3]), ["doc"]), tokens="token", rows="doc")


@functools.cache
def segments():
    return of_lengths().segments


MISTAKES = [
    (
        lambda: nx.Ragged(X, N, tokens="tokens", rows="doc"),
        AxisNotFoundError,
        "Ragged: no axis 'tokens' in the values .* Did you mean 'token'",
    ),
    (lambda: nx.Ragged(X, N, tokens="token", rows="row"), AxisNotFoundError, "Ragged: no axis 'row' in the lengths"),
    (lambda: nx.Ragged(X, N, tokens="doc", rows="doc"), AxisNameError, "tokens and rows are both 'doc'"),
    (lambda: nx.Ragged(X, N, tokens=0, rows="doc"), AxisNameError, "tokens=0 is not an axis name"),
    (
        lambda: nx.Ragged(named(6, 2, axes=["token", "doc"]), N, tokens="token", rows="doc"),
        AxisNameError,
        "has the axis 'doc'. Only values have 'token'",
    ),
    (
        lambda: nx.Ragged(X, N * 1.0, tokens="token", rows="doc"),
        ArgumentTypeError,
        r"the lengths must be integers, got f32\[\]\{doc:2\}",
    ),
    (lambda: nx.Ragged(X, -N, tokens="token", rows="doc"), ArgumentError, "the length -3 of a row 'doc' is negative"),
    (
        lambda: nx.Ragged(X, N[{"doc": slice(0, 0)}], tokens="token", rows="doc"),
        AxisSizeError,
        "there is no row: axis 'doc' has size 0",
    ),
    (lambda: nx.Ragged(X[{"token": slice(0, 0)}], N, tokens="token", rows="doc"), AxisSizeError, "there is no token"),
    (
        lambda: nx.Ragged(X, nx.named(make.ones((3, 2), int), ["b", "doc"]), tokens="token", rows="doc"),
        AxisNotFoundError,
        "no axis 'b' in the values",
    ),
    (
        lambda: nx.Ragged(X, nx.named(make.ones((3, 2), int), [None, "doc"]), tokens="token", rows="doc"),
        PositionalAxisError,
        "must have named axes only",
    ),
    (lambda: nx.Ragged.from_rows([], rows="doc", tokens="t"), AxisSizeError, "there is no row"),
    (
        lambda: nx.Ragged.from_rows(make.ones(3), rows="doc", tokens="t"),
        ArgumentTypeError,
        "the rows must be a list of arrays, one for each row, got",
    ),
    (lambda: nx.Ragged.from_rows([1.0], rows="doc", tokens="t"), PositionalAxisError, "row 0 is a number"),
    (
        lambda: nx.Ragged.from_rows([X], rows="doc", tokens="t"),
        NamedAxesLeftError,
        "row 0 is .* Pass the names of these as axes=",
    ),
    (
        lambda: nx.Ragged.from_rows([np.ones((2, 3)), np.ones((2, 4))], rows="doc", tokens="t"),
        PositionalAxisError,
        "row 1 has shape",
    ),
    (lambda: nx.Ragged.from_rows([[1, 2]], rows="doc", tokens="t", size=1), AxisSizeError, "2 tokens in total, but size=1"),
    (
        lambda: nx.Ragged.from_padded(X, rows="token", column="embed", tokens="t"),
        ArgumentError,
        "pass either lengths= or mask=",
    ),
    (
        lambda: nx.Ragged.from_padded(X, rows="token", column="c", tokens="t", mask=X),
        AxisNotFoundError,
        "no axis 'c' in the array",
    ),
    (
        lambda: nx.Ragged.from_padded(X, rows="token", column="embed", tokens="t", mask=X),
        ArgumentTypeError,
        "the mask must be boolean, got",
    ),
    (
        lambda: nx.Ragged.from_padded(X, rows="token", column="embed", tokens="token", mask=X),
        AxisNameError,
        "must be the name of a new axis",
    ),
    (
        lambda: nx.Ragged.from_padded(X, rows="token", column="embed", tokens="t", lengths=nx.arange(6, axis="token")),
        AxisSizeError,
        "a row 'token' has length 5, but axis 'embed' has size 2",
    ),
    (lambda: of_lengths() + of_lengths(3, 2), ArgumentError, "have rows of different lengths"),
    (
        lambda: jax.jit(lambda r, s: r + s)(of_lengths(), of_lengths()),
        ArgumentError,
        r"have separate lengths.*r\.replace\(other\.values\)",
    ),
    (
        lambda: of_lengths() + nx.Ragged(X, nx.rename(N, doc="row"), tokens="token", rows="row"),
        AxisNameError,
        "Rename the axes of one of them",
    ),
    (
        lambda: of_lengths() + named(6, 2, axes=["token", "doc"]),
        AxisNameError,
        "has both axes 'doc' and 'token', but a token belongs to one row",
    ),
    (lambda: of_lengths().replace(of_lengths(3, 2)), ArgumentTypeError, r"r\.replace\(other\.values\)"),
    (lambda: of_lengths().replace(nx.sum(X, "token")), AxisNotFoundError, "Ragged.replace: no axis 'token'"),
    (lambda: of_lengths().replace(X[{"token": slice(0, 5)}]), AxisSizeError, "axis 'token' has size 5 in .*, but 6 in"),
    (lambda: of_lengths().replace(named(6, 2, axes=["token", "doc"])), AxisNameError, "also have the axis 'doc' of the rows"),
    (lambda: of_lengths().spread(X), AxisNotFoundError, "Ragged.spread: no axis 'doc'"),
    (lambda: of_lengths().padded("embed"), AxisNameError, "column='embed' must be the name of a new axis"),
    (lambda: jax.jit(lambda r: r.padded("c"))(of_lengths()), ArgumentError, r"is not known during tracing\. Pass size="),
    (lambda: jax.jit(lambda r: r.to_rows())(of_lengths()), ArgumentError, "are not known during tracing"),
    (lambda: of_lengths().pick(1.0), ArgumentTypeError, "the position must contain integers, got"),
    (lambda: of_lengths().pick(make.array([1])), PositionalAxisError, "must be a scalar, or have named axes only"),
    (lambda: of_lengths().take(1.5), ArgumentTypeError, "the index must contain integers, got"),
    (lambda: of_lengths().take(1), PositionalAxisError, "must have exactly one axis, positional or named"),
    (lambda: of_lengths().take([1, 1, 1]), AxisSizeError, "have 9 tokens in total, but size=6"),
    (lambda: attention(X, X, X, key_segments=segments()), ArgumentError, "segments= is missing: the queries are along 'token'"),
    (
        lambda: attention(X, Y, Y, segments=segments(), key_axis="s"),
        ArgumentError,
        "key_segments= is missing: .* and the keys along 's'",
    ),
    (
        lambda: attention(
            X, Y, Y, segments=segments(), key_segments=nx.rename(segments(), token="s"), key_axis="s", is_causal=True
        ),
        ArgumentError,
        "is_causal= and local_window_size= compare the positions of 'token' and 's'",
    ),
    (
        lambda: attention(X, X, X, segments=N),
        AxisNotFoundError,
        "no axis 'token' in segments, .* Every position needs a segment",
    ),
    (lambda: attention(X, X, X, segments=X[{"embed": 0}]), ArgumentTypeError, "segments must contain integers, got .*"),
    (lambda: attention(X, X, X, segments=X.astype(int)), AxisNameError, "has the axis 'embed', but a position has one segment"),
    (
        lambda: nx.nn.dot_product_attention(M, M, M, segments=segments()),
        AxisNotFoundError,
        r"segments=i32\[\]\{token:6\} requires axis=",
    ),
    (
        lambda: nx.exp(of_lengths()),
        ArgumentTypeError,
        r"is not an array; call a function of single tokens with r\.map\(function\)",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_it_is_immutable():
    with pytest.raises(AttributeError, match=r"Make a new one with r\.replace\(values\)"):
        of_lengths().values = X


# --- attention within rows -------------------------------------------------------------------------------------------------------


ATTENTION = [
    Placement("unmapped", None, ()),
    Placement("ring-one-each", (8,), (("token", "x"),)),
    Placement("ring", (4, 2), (("token", "x"), ("head", "y")), "explicit"),
    Placement("heads", (2, 4), (("head", "x"),)),
    Placement("two-mesh-axes", (4, 2), (("token", ("y", "x")),)),
]


def attended(q, k, v, causal, window):
    """[tokens, heads, features] of one row."""
    at = jnp.arange(len(q))
    scores = jnp.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
    seen = (at[:, None] >= at) if causal else (at[:, None] <= at + window)
    return jnp.einsum("hts,she->the", jax.nn.softmax(jnp.where(seen, scores, -1e30)), v)


def attend(lengths, q, k, v, segments):
    """Causal attention by the segments of a Ragged, and bidirectional attention with a window by any segments."""
    r = nx.Ragged(q, lengths, tokens="token", rows="doc")
    by_row = r.attention(q, k, v, features="d", is_causal=True).values
    names = {"axis": "token", "features": "d", "key_axis": "from"}
    windowed = nx.nn.dot_product_attention(q, k, v, segments=segments, local_window_size=(1, 16), **names)
    return by_row, windowed


@jax.jit
def attend_oracle(lengths, q, k, v, segments):
    rows = [attended(*row, True, 0) for row in zip(*map(rows_of, (q, k, v)), strict=True)]
    seen = (segments[:, None] == segments) & (segments >= 0) & (jnp.arange(SIZE)[:, None] <= jnp.arange(SIZE) + 1)
    scores = jnp.where(seen, jnp.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5, -1e30)
    weights = jnp.where(seen, jax.nn.softmax(scores), 0)
    return joined(rows), jnp.einsum("hts,she->the", weights, v)


MIXED = make.array([0, 2, 2, -1, 0, 1, 1, 5, 5, 5, -1, 2, 2, 2, 0, -1], "int32")  # of no Ragged: in any order


@pytest.mark.fast(3)
@pytest.mark.parametrize("placement", ATTENTION, ids=str)
def test_attention_within_rows(placement):
    names = ["token", "head", "d"]
    q, k, v = (array(SIZE, 4, n, seed=s) for n, s in ((5, 1), (5, 2), (6, 3)))
    fun = nx.xmap(
        attend,
        (["doc"], names, names, ["token", "head", "e"], ["token"]),
        (["token", "head", "e"],) * 2,
        **placement.options,
    )
    lengths = make.array(LENGTHS, "int32")

    def scalar(f):
        def total(q, k, v):
            by_row, windowed = f(lengths, q, k, v, MIXED)
            by_row = jnp.where(jnp.arange(SIZE)[:, None, None] < sum(LENGTHS), by_row, 0)
            return jnp.sum(by_row * array(*by_row.shape, seed=5)) + jnp.sum(windowed * array(*windowed.shape, seed=6)), (
                by_row,
                windowed,
            )

        return jax.jit(jax.value_and_grad(total, (0, 1, 2), has_aux=True))

    (_, want), want_gradients = scalar(attend_oracle)(q, k, v)
    with placement.context():
        (_, have), have_gradients = scalar(fun)(*map(np.asarray, (q, k, v)))
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), w, rtol=2e-5, atol=2e-5), have, want)
    jax.tree.map(
        lambda h, w: np.testing.assert_allclose(np.asarray(h), w, rtol=2e-4, atol=2e-4), have_gradients, want_gradients
    )
