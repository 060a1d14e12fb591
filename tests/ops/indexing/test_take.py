"""`take` reads along one axis, named or positional, as `jnp.take` does; a sharded table is never gathered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from tests import make
from tests.harness import FEW, PLACEMENTS, array, check, make_mesh, said

CHOSEN = [placement for placement in PLACEMENTS if placement.kind == "auto" or placement in FEW]

# The table is {a, b} with a positional axis; indices are of three kinds: inside, negative, and beyond both ends.
TABLE = array(8, 5, 4, seed=1)  # a N b
WHOLE = np.array([[3, 0, 7], [7, 1, 1]])
WILD = np.array([-1, -8, -9, 8, 100, 2])
BATCHED = np.random.default_rng(0).integers(0, 8, (4, 3))  # b c


def several(table, whole, wild, batched):
    wild = nx.named(wild, ["j"])
    return [
        nx.take(table, wild, "a", mode="clip"),
        nx.take(table, wild, "a", mode="wrap"),
        nx.take(table, wild, "a", fill_value=-2.5),
        nx.take(table, whole, "a"),  # two positional axes go to the front
        nx.take(table, batched, "a"),  # `b` is a batch axis of both
        nx.take(table, 6, "a"),
        nx.take(table, whole, 0, mode="clip"),  # a positional axis goes, and those of the indices come in its place
        nx.take(table, batched, -1, mode="wrap"),
    ]


@jax.jit
def oracles(table, whole, wild, batched):
    rows = jnp.moveaxis(table, 2, 0)  # b a N
    return [
        jnp.moveaxis(jnp.take(table, wild, 0, mode="clip"), 0, -1),  # N b j
        jnp.moveaxis(jnp.take(table, wild, 0, mode="wrap"), 0, -1),
        jnp.moveaxis(jnp.take(table, wild, 0, fill_value=-2.5), 0, -1),
        jnp.take(table, whole, 0),  # I J N b
        jax.vmap(lambda r, i: jnp.take(r, i, 0))(rows, batched),  # b c N
        table[6],
        jnp.take(table, whole, 1, mode="clip"),  # a I J b
        jax.vmap(lambda r, i: jnp.take(r, i, 1, mode="wrap"))(rows, batched),  # b a c
    ]


OUT_AXES = [[None, "b", "j"]] * 3 + [
    [None, None, None, "b"],
    ["b", "c", None],
    [None, "b"],
    ["a", None, None, "b"],
    ["b", "a", "c"],
]


@pytest.mark.fast(2)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", CHOSEN, ids=str)
def test_in_every_placement(placement):
    """Values are those of `jnp.take`, and so is the gradient with respect to the table."""
    check(several, oracles, (TABLE, WHOLE, WILD, BATCHED), (["a", None, "b"], {}, {}, ["b", "c"]), OUT_AXES, placement)


def test_what_is_filled_in():
    """NaN, the least or the greatest integer, or true; and sums over devices of other types are right."""
    tables = [
        array(8, 3),
        array(8, 3, kind="int"),
        array(8, 3, kind="int").astype(jnp.uint8),
        array(8, 3, kind="bool"),
        array(8, 3).astype(jnp.bfloat16),
        array(8, 3) * 1j,
    ]
    want = [jnp.take(table, WILD, 0) for table in tables]
    for placement in (FEW[0], FEW[1]):
        f = nx.xmap(lambda tables: [nx.take(t, WILD, "a") for t in tables], [["a", None]], {}, **placement.options)
        for have, wanted in zip(f(tables), want, strict=True):
            assert have.dtype == wanted.dtype
            np.testing.assert_array_equal(np.asarray(have, complex), np.asarray(wanted, complex))


@pytest.mark.fast(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int32"])
def test_small_indices(dtype):
    """The type of the indices may be too small for the size of the axis."""
    table = array(400, 2)
    index = np.array([0, 100, 127]).astype(dtype)
    f = nx.xmap(lambda t, i: nx.take(t, i, "v"), (["v", None], {}), {}, axis_resources={"v": "x"}, mesh=make_mesh((8,)))
    np.testing.assert_array_equal(f(table, index), table[index.astype(int)])
    if dtype == "int8":
        np.testing.assert_array_equal(f(table, -index[1:]), table[-index[1:].astype(int)])


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("label", ["unmapped", "one-each", "blocks", "two-reversed"])
def test_indices_with_the_axis_that_is_read(label):
    """A permutation of the axis, say: the result has the axis as the indices do."""
    (placement,) = (p for p in PLACEMENTS if p.label == label and p.kind == "auto")
    index = np.random.default_rng(1).integers(-9, 9, (8, 3))

    def body(table, index):
        return nx.take(table, index, "a", mode="wrap"), nx.take(table, nx.take(index, 0, 0), "a", mode="clip")

    def oracle(table, index):
        return jnp.take(table, index, 0, mode="wrap"), jnp.take(table, index[:, 0], 0, mode="clip")

    args = (TABLE, index)
    in_axes = (["a", None, "b"], ["a", None])
    check(body, oracle, args, in_axes, (["a", None, None, "b"], ["a", None, "b"]), placement)
    if label == "blocks":
        f = nx.xmap(lambda t, i: nx.take(t, i, "a"), in_axes, ["a", None, None, "b"], **placement.options)
        floats, integers = TABLE.dtype.itemsize, jnp.asarray(index).dtype.itemsize
        assert hlo.summary(f.lower(*args).compile()) == {
            "all-gather": (1, integers * index.size),
            "reduce-scatter": (1, floats * index.size * 20),
        }


# --- communication -----------------------------------------------------------------------------------

VOCAB = array(1600, 6)
TOKENS = np.random.default_rng(2).integers(0, 1600, (4, 10))
VOCAB_AXES = (["vocab", "embed"], ["batch", "pos"])
RESULT = VOCAB.dtype.itemsize * TOKENS.size * 6


def embedding(table, tokens):
    return nx.take(table, tokens, "vocab")


def test_a_sharded_vocabulary_stays_where_it_is():
    """One all-reduce of the result, and none of the table; backwards, every device adds up the rows that it has."""
    f = nx.xmap(embedding, VOCAB_AXES, ["batch", "pos", "embed"], axis_resources={"vocab": "x"}, mesh=make_mesh((8,)))
    assert hlo.summary(f.lower(VOCAB, TOKENS).compile()) == {"all-reduce": (1, RESULT)}

    loss = nx.xmap(
        jax.grad(lambda t, i: nx.sum(embedding(t, i) ** 3, ("batch", "pos", "embed"))),
        VOCAB_AXES,
        VOCAB_AXES[0],
        axis_resources={"vocab": "x"},
        mesh=make_mesh((8,)),
    )
    assert hlo.summary(loss.lower(VOCAB, TOKENS).compile()) == {"all-reduce": (1, RESULT)}
    want = jax.jit(jax.grad(lambda t: jnp.sum(t[TOKENS] ** 3)))(VOCAB)
    np.testing.assert_allclose(loss(VOCAB, TOKENS), want, rtol=1e-5, atol=1e-5)


def test_a_sharded_batch_reads_a_whole_table():
    """Forwards nothing is sent, and with a sharded vocabulary beside it only what a device's part of the batch reads."""
    options = {"mesh": make_mesh((4, 2))}
    f = nx.xmap(embedding, VOCAB_AXES, ["batch", "pos", "embed"], axis_resources={"batch": "x"}, **options)
    assert hlo.summary(f.lower(VOCAB, TOKENS).compile()) == {}
    f = nx.xmap(embedding, VOCAB_AXES, ["batch", "pos", "embed"], axis_resources={"batch": "x", "vocab": "y"}, **options)
    assert hlo.summary(f.lower(VOCAB, TOKENS).compile()) == {"all-reduce": (1, RESULT // 4)}
    np.testing.assert_array_equal(f(VOCAB, TOKENS), VOCAB[TOKENS])


# --- unmapped, and mistakes --------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_plain_arrays():
    np.testing.assert_array_equal(nx.take(TABLE, WHOLE, 0), jnp.take(TABLE, WHOLE, 0))
    np.testing.assert_array_equal(nx.take(TABLE, [0, 3]), jnp.take(TABLE, jnp.array([0, 3])))
    x = nx.named(TABLE, ["a", None, None])
    np.testing.assert_array_equal(nx.positional(nx.take(x, np.array([19, 2])), ["a", None]), TABLE.reshape(8, 20)[:, [19, 2]])
    np.testing.assert_array_equal(x.take(WHOLE, "a"), jnp.take(TABLE, WHOLE, 0))
    y = nx.rename(x, {"a": ("layer", 0)})
    np.testing.assert_array_equal(nx.take(y, 2, (("layer", 0),)), TABLE[2])


F32 = nx.named(make.ones((3, 5, 2), jnp.float32), ["vocab", None, "embed"])

MISTAKES = {
    "unknown": (
        (F32, 1, "vocabulary"),
        nx.errors.AxisNotFoundError,
        "take: no axis 'vocabulary' in f32[5]{vocab:3, embed:2}; its named axes are 'vocab', 'embed'. Did you mean 'vocab'?",
    ),
    "several": (
        (F32, 1, ("vocab", "embed")),
        nx.errors.PositionalAxisError,
        "take: axis=('vocab', 'embed') must be one positional or named axis. If the tuple is the name, write "
        "axis=(('vocab', 'embed'),).",
    ),
    "out-of-range": (
        (F32, 1, 1),
        nx.errors.PositionalAxisError,
        "take: positional axis 1 is out of range for f32[5]{vocab:3, embed:2}, which has 1 positional axes. Write the name of "
        "the axis if it has one.",
    ),
    "sizes": (
        (F32, nx.named(make.zeros(4, jnp.int32), ["embed"]), "vocab"),
        nx.errors.AxisSizeError,
        "take: axis 'embed' has two sizes, in f32[5]{vocab:3, embed:2} and in the indices i32[]{embed:4}; a name has one size. "
        "Rename one of the two axes.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    args, error, message = MISTAKES[name]
    with pytest.raises(error) as caught:
        nx.take(*args)
    assert said(caught.value) == message


def test_unknown_mode():
    with pytest.raises(nx.errors.PositionalAxisError) as caught:
        nx.take(F32, 1, "vocab", mode="raise")
    assert said(caught.value) == "take: mode must be one of ('fill', 'clip', 'wrap'), got 'raise'."


def test_indices_are_integers():
    """Sharded or not, other indices are refused."""
    for options in ({}, {"axis_resources": {"a": "x"}, "mesh": make_mesh((8,))}):
        f = nx.xmap(lambda t: nx.take(t, jnp.array([1.0, 2.0], jnp.float32), "a"), ["a", ...], {}, **options)
        with pytest.raises(nx.errors.PositionalAxisError) as caught:
            f(TABLE)
        assert said(caught.value) == "take: the indices are f32[2], but indices must be integers."


def test_two_names_on_one_mesh_axis():
    f = nx.xmap(embedding, VOCAB_AXES, {0: "batch"}, axis_resources={"vocab": "x", "batch": "x"}, mesh=make_mesh((4, 2)))
    with pytest.raises(nx.errors.PlacementConflictError) as caught:
        f(VOCAB, TOKENS)
    assert said(caught.value) == (
        "take: axes 'vocab' and 'batch' meet in one value, but both are mapped to mesh axis 'x', which can hold only one of "
        "them. Rename one of them to an axis that is not on 'x' first (nx.rename, or {new:old} in einsum: this communicates), "
        "or change axis_resources."
    )


# --- positional indexing -----------------------------------------------------------------------------


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW[:3], ids=str)
def test_positional_indexing(placement):
    """Slices and integers act on positional axes; a named index array is used per instance."""
    index = np.random.default_rng(5).integers(0, 5, (8, 4))

    def body(x, i):
        return x[1], x[1:4:2], x[..., None], x[i], x[jnp.array([2, 0])]

    def oracle(x, i):
        per_instance = jax.vmap(jax.vmap(lambda row, j: row[j], in_axes=(1, 0)))
        return x[:, 1], x[:, 1:4:2], x[:, :, None], per_instance(x, i), x[:, jnp.array([2, 0])]

    one, none = ["a", None, "b"], ["a", "b"]
    check(body, oracle, (TABLE, index), (one, none), (none, one, ["a", None, None, "b"], none, one), placement)
