"""`nx.nn.grouped_dot` in every placement of tokens, groups and features, against every token's own weights."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.errors import (
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PlacementConflictError,
    PositionalAxisError,
)
from namedax.ops.ragged import grouped
from tests import make
from tests.harness import Placement, array, make_mesh

TOKENS, GROUPS = 16, 8
X, W = array(TOKENS, 6, seed=1), array(GROUPS, 6, 10, seed=2)
HEADED = array(TOKENS, 2, 6, seed=3), array(2, 6, GROUPS, 10, seed=4)
IDS = make.array([3, 3, 7, 0, 9, 1, 3, 3, -2, 3, 6, 7, 7, 0, 4, 3], "int32")  # two of nobody; groups 2 and 5 are empty
ORDERED = make.array(sorted(8 if i < 0 or i > 7 else i for i in np.asarray(IDS)), "int32")

KINDS = [
    ("tokens-one-each", (4, 2), (("token", ("x", "y")),)),
    ("tokens", (4, 2), (("token", "x"), ("out", "y"))),
    ("groups", (4, 2), (("expert", "x"), ("embed", "y"))),
    ("apart", (4, 2), (("token", "x"), ("expert", "y"))),
    ("same", (4, 2), (("token", "x"), ("expert", "x"))),
    ("same-on-two", (4, 2), (("token", ("x", "y")), ("expert", ("y", "x")))),
    ("partly", (4, 2), (("token", "x"), ("expert", ("x", "y")))),
    ("head", (4, 2), (("head", "y"), ("token", "x"), ("expert", "x"))),
]
PLACEMENTS = [
    Placement("unmapped", None, ()),
    *(Placement(*kind) for kind in KINDS),
    *(Placement(*kind, "explicit") for kind in KINDS if kind[0] in ("apart", "same")),
]


def named(x, w, headed_x, headed_w, ids, ordered):
    dot = functools.partial(nx.nn.grouped_dot, group="expert")
    return (
        dot(x, w, "embed", groups=ids),
        dot(x, w, "embed", groups=ordered),
        dot(headed_x, headed_w, ("embed",), groups=ids),
        dot(headed_x, w, "embed", groups=ids),
    )


@jax.jit
def oracle(x, w, headed_x, headed_w, ids, ordered):
    def chosen(w, ids):
        return jnp.where((ids >= 0)[:, *[None] * (w.ndim - 1)], w.at[ids].get(mode="fill", fill_value=0), 0)

    return (
        jnp.einsum("tk,tko->to", x, chosen(w, ids)),
        jnp.einsum("tk,tko->to", x, chosen(w, ordered)),
        jnp.einsum("thk,thko->tho", headed_x, chosen(headed_w.transpose(2, 0, 1, 3), ids)),
        jnp.einsum("thk,tko->tho", headed_x, chosen(w, ids)),
    )


AXES = (
    ["token", "embed"],
    ["expert", "embed", "out"],
    ["token", "head", "embed"],
    ["head", "embed", "expert", "out"],
    ["token"],
    ["token"],
)
OUT = (["token", "out"], ["token", "out"], ["token", "head", "out"], ["token", "head", "out"])


def scalar(f):
    def total(*floats):
        results = f(*floats, IDS, ORDERED)
        return sum(jnp.sum(r * array(*r.shape, seed=i)) for i, r in enumerate(results)), results

    return jax.jit(jax.value_and_grad(total, (0, 1, 2, 3), has_aux=True))


@functools.cache
def wanted():
    return scalar(oracle)(X, W, *HEADED)


def same(have, want, tol=2e-5):
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), w, rtol=tol, atol=tol), have, want)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_every_token_meets_the_weights_of_its_group(placement):
    fun = nx.xmap(named, AXES, OUT, **placement.options)
    with placement.context():
        have = scalar(fun)(*map(np.asarray, (X, W, *HEADED)))
    same(have, wanted(), 1e-4)


def emulated(operand, output, input_offsets, send_sizes, output_offsets, recv_sizes, *, axis_name):
    """`jax.lax.ragged_all_to_all` by its documentation, for CPUs, which have none: everything is gathered and each row asked for."""
    me = jax.lax.axis_index(axis_name)
    every = [jax.lax.all_gather(a, axis_name) for a in (operand, input_offsets, send_sizes, output_offsets)]
    rows = jnp.arange(output.shape[0])
    for source in range(jax.lax.axis_size(axis_name)):
        data, start, size, to = (a[source] for a in every)
        start, size, to = start[me], size[me], to[me]
        here = (rows >= to) & (rows < to + jnp.minimum(size, recv_sizes[source]))
        taken = jnp.take(data, rows - to + start, axis=0, mode="clip")
        output = jnp.where(here.reshape(-1, *[1] * (output.ndim - 1)), taken, output)
    return output


def test_tokens_travel_to_their_groups_where_devices_have_the_collective(monkeypatch):
    """The offsets and sizes are right, both ways and in the gradient: for tokens that are evenly spread, all of one group, or of none."""
    monkeypatch.setattr(grouped, "supports_ragged_all_to_all", lambda platform: True)
    monkeypatch.setattr(jax.lax, "ragged_all_to_all", emulated)
    w = array(GROUPS, 6, 30, seed=2)  # more weights than tokens

    def named(x, w, ids):
        return nx.nn.grouped_dot(x, w, "embed", groups=ids, group="expert")

    def plain(x, w, ids):
        chosen = jnp.where((ids >= 0) & (ids < 8), ids, -1)
        return jnp.where((chosen >= 0)[:, None], jnp.einsum("tk,tko->to", x, w[chosen]), 0)

    def total(f):
        return jax.jit(jax.value_and_grad(lambda x, w, ids: jnp.sum(f(x, w, ids) * array(16, 30)), (0, 1)))

    mapped = nx.xmap(
        named, (AXES[0], AXES[1], ["token"]), OUT[0], mesh=make_mesh((4, 2)), axis_resources={"token": "x", "expert": "x"}
    )
    have, want = total(mapped), total(plain)
    for ids in (IDS, ORDERED, make.array(np.full(16, 5), "int32"), make.array(np.full(16, -1), "int32")):
        same(have(X, w, ids), want(X, w, ids), 1e-4)


BYTES = 4
COSTS = [
    ({"token": "x"}, 10, [], [("all-reduce", 8 * 6 * 10)]),
    ({"expert": "x"}, 10, [("all-reduce", 16 * 10)], [("all-reduce", 16 * 6), ("all-reduce", 16 * 10)]),
    ({"token": "x", "expert": "y"}, 10, [("all-reduce", 4 * 10)], None),
    ({"token": "x", "expert": "x"}, 1, [("all-gather", 8 * 6)], [("all-gather", 8 * 6), ("reduce-scatter", 8 * 6)]),
    ({"token": "x", "expert": "x"}, 64, [("all-gather", 16), ("all-gather", 16 * 6), ("reduce-scatter", 16 * 64)], None),
]


@pytest.mark.full(0)
@pytest.mark.fast(2)
@pytest.mark.parametrize(("resources", "width", "want", "gradient"), COSTS)
def test_what_is_sent(resources, width, want, gradient):
    def named(x, w, ids):
        return nx.nn.grouped_dot(x, w, "embed", groups=ids, group="expert")

    fun = nx.xmap(named, (AXES[0], AXES[1], ["token"]), OUT[0], mesh=make_mesh((4, 2)), axis_resources=resources)
    args = X, array(8, 6, width), IDS
    have = hlo.collectives(fun.lower(*args).compile())
    assert sorted((c.kind, c.bytes) for c in have) == sorted((kind, BYTES * n) for kind, n in want)
    if gradient is not None:
        step = jax.jit(jax.grad(lambda *args: jnp.sum(fun(*args) ** 2), (0, 1)))
        have = hlo.collectives(step.lower(*args).compile())
        assert sorted((c.kind, c.bytes) for c in have) == sorted((kind, BYTES * n) for kind, n in gradient)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_the_rows_of_a_ragged_have_weights_of_their_own():
    lengths = (3, 0, 6, 4)
    x, w = array(16, 6, seed=7).at[13:].set(jnp.nan), array(4, 6, 5, seed=8)

    def named(x, w, lengths):
        r = nx.Ragged(x, lengths, tokens="token", rows="expert")
        return r.dot(w, "embed").sum()

    axes = (["token", "embed"], ["expert", "embed", "out"], ["expert"])
    fun = nx.xmap(named, axes, ["expert", "out"], mesh=make_mesh((4, 2)), axis_resources={"token": "x"})
    value, gradients = jax.value_and_grad(lambda x, w: jnp.sum(fun(x, w, make.array(lengths)) * array(4, 5)), (0, 1))(x, w)
    starts = np.cumsum((0, *lengths))

    def plain(x, w):
        sums = [jnp.sum(x[a : a + n], 0) @ w[i] for i, (a, n) in enumerate(zip(starts, lengths, strict=False))]
        return jnp.sum(jnp.stack(sums) * array(4, 5))

    same((value, gradients), jax.value_and_grad(plain, (0, 1))(x, w), 1e-4)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_vectorised_over_any_operand_and_twice():
    ids = nx.named(IDS, ["token"])

    def f(x, w):
        x, w = nx.named(x, ["token", "embed"]), nx.named(w, ["expert", "embed", "out"])
        return nx.nn.grouped_dot(x, w, "embed", groups=ids, group="expert").data

    def gradient(x, w):
        return jax.grad(lambda w: jnp.sum(jnp.sin(f(x, w))))(w)

    xs, ws = jnp.stack([X, 2 * X]), jnp.stack([W, W - 1, 3 * W])
    have = jax.jit(jax.vmap(jax.vmap(gradient, (None, 0)), (0, None)))(xs, ws)
    want = jnp.stack([jnp.stack([gradient(x, w) for w in ws]) for x in xs])
    same(have, want, 1e-4)
    curvature = jax.jacrev(jax.grad(lambda x: jnp.sum(f(x, W) ** 2)))(X)
    chosen = np.where((np.asarray(IDS) >= 0) & (np.asarray(IDS) < 8), IDS, -1)
    square = np.where((chosen >= 0)[:, None, None], 2 * np.einsum("tko,tlo->tkl", W[chosen], W[chosen]), 0)
    same(np.einsum("tktl->tkl", curvature), square, 1e-3)


def mistake(
    x=("token", "embed"), w=("expert", "embed", "out"), groups=("token",), axis="embed", group="expert", dtype=int, **sizes
):
    sizes = {"token": 4, "embed": 3, "expert": 2, "out": 5, None: 1, "d": 2} | sizes
    arrays = [nx.named(make.zeros([sizes[n] for n in names]), list(names)) for names in (x, w)]
    ids = nx.named(make.zeros([sizes[n] for n in groups], dtype), list(groups))
    return nx.nn.grouped_dot(*arrays, axis, groups=ids, group=group)


MISTAKES = [
    ({"axis": "embd"}, AxisNotFoundError, "grouped_dot: no axis 'embd' in x, .* Did you mean 'embed'"),
    ({"w": ("expert", "out")}, AxisNotFoundError, "no axis 'embed' in w"),
    ({"group": "experts"}, AxisNotFoundError, "no axis 'experts' in w"),
    ({"groups": ("d",)}, AxisNotFoundError, "no axis 'd' in x"),
    (
        {"x": ("token", "embed", "expert")},
        AxisNameError,
        "group='expert' names the groups of the weights, but x, .* also has this axis",
    ),
    ({"groups": ("token", "embed")}, AxisNameError, "has the contracted axis 'embed', but a token has one group"),
    ({"x": ("token", "embed", None)}, PositionalAxisError, "x, .* must have named axes only"),
    ({"dtype": float}, ArgumentTypeError, "groups must contain integers, got f32"),
]


@pytest.mark.parametrize(("changes", "error", "message"), MISTAKES)
def test_mistakes(changes, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        mistake(**changes)


def test_sizes_and_placements_that_do_not_fit():
    x, w = nx.named(X, ["token", "embed"]), nx.named(W[:, :5], ["expert", "embed", "out"])
    with pytest.raises(AxisSizeError, match=r"axis 'embed' has size 6 in .* and 5 in"):
        nx.nn.grouped_dot(x, w, "embed", groups=nx.named(IDS, ["token"]), group="expert")
    fun = nx.xmap(
        lambda x, w, ids: nx.nn.grouped_dot(x, w, "embed", groups=ids, group="expert"),
        mesh=make_mesh((2, 2)),
        axis_resources={"token": "x", "out": "x"},
    )
    with pytest.raises(PlacementConflictError, match="'token' and 'out'"):
        fun(x, nx.named(W, ["expert", "embed", "out"]), nx.named(IDS, ["token"]))


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_batches_of_rows_have_weights_of_their_own():
    """Rows are in order in every batch, and not over all of them."""
    x, lengths = array(2, 6, 3, seed=3), np.array([[1, 0, 4], [2, 3, 1]])
    r = nx.Ragged(
        nx.named(x, ["batch", "token", "embed"]), nx.named(make.asarray(lengths), ["batch", "doc"]), tokens="token", rows="doc"
    )
    w = array(3, 3, 4, seed=4)
    have = nx.positional(r.dot(nx.named(w, ["doc", "embed", "out"]), "embed").sum(), ["batch", "doc", "out"])
    for i, row in enumerate(lengths):
        starts = np.cumsum((0, *row))
        for j, n in enumerate(row):
            np.testing.assert_allclose(have[i, j], x[i, starts[j] : starts[j] + n].sum(0) @ w[j], rtol=1e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32"])
def test_numbers_of_groups_of_any_type(dtype):
    """Of a type that cannot hold the number of groups, too; and numbers that are beyond all of another type are of no group."""
    x, w = nx.named(X[:3], ["token", "embed"]), nx.named(array(300, 6, 2, seed=5), ["expert", "embed", "out"])
    ids = make.array(np.array([3, 120, np.iinfo(dtype).max]), dtype)
    have = nx.nn.grouped_dot(x, w, "embed", groups=nx.named(ids, ["token"]), group="expert").data
    for t, number in enumerate(np.asarray(ids).tolist()):
        want = X[t] @ w.data[number] if number < 300 else np.zeros(2)
        np.testing.assert_allclose(have[t], want, rtol=1e-4, atol=1e-5)


UNEVEN = [
    {"token": ("x", "y"), "group": ("x", "y")},
    {"token": ("x", "z"), "group": "y"},
    {"token": "x", "group": "y", "k": "z"},
    {"token": "y", "group": ("x", "y"), "out": "z"},
]


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", UNEVEN, ids=str)
def test_nothing_has_to_divide(resources):
    """10 tokens, 5 groups and 3 features over 2 and 4 devices; some tokens are of no group, one of them by the next number."""
    x, w, groups = array(10, 3, seed=1), array(5, 3, 3, seed=2), np.array([0, 4, 2, -1, 3, 5, 1, 1, 4, 0])
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), (jax.sharding.AxisType.Auto,) * 3)
    scale = array(10, 3, seed=3)

    def named(x, w):
        ids = nx.named(make.array(groups), ["token"])
        return nx.nn.grouped_dot(x, w, "k", groups=ids, group="group")

    mapped = nx.xmap(named, (["token", "k"], ["group", "k", "out"]), ["token", "out"], mesh=mesh, axis_resources=resources)

    def plain(x, w):
        is_own = groups[:, None] == np.arange(5)
        return jnp.einsum("tk,gko,tg->to", x, w, is_own.astype(float))

    have, want = (
        jax.jit(jax.value_and_grad(lambda x, w, f=f: jnp.sum(f(x, w) * scale), (0, 1)))(x, w) for f in (mapped, plain)
    )
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), w, rtol=2e-4, atol=2e-5), have, want)
