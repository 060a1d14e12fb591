"""The collectives that keep the name, against `jax.vmap(axis_name=...)` with JAX's own, and the bytes that they send."""

import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax import hlo
from namedax.errors import AxisNameError, AxisNotFoundError, AxisSizeError, PlacementConflictError, PositionalAxisError
from namedax.lax import all_to_all, pbroadcast, pdot, pgather, ppermute, pshuffle, psum_scatter
from namedax.resources.row_moves import plan_rows, rows_of_blocks
from tests import make
from tests.harness import FEW, PLACEMENTS, Placement, array, check, make_mesh

MIXED = [3, 0, 6, 1, 7, 2, 5, 4]
SPARSE = [(0, 5), (1, 0), (5, 1), (7, 2), (3, 3)]
SHIFT = [(i, i + 3) for i in range(5)]
SWAP = [2, 3, 0, 1, 6, 7, 4, 5]
PAIRS_OF_BOTH = [(i, (5 * i + 7) % 32) for i in range(32) if i % 7]


def moved(x, pairs):
    """The first axis permuted; zeros where nothing arrives."""
    return jnp.zeros_like(x).at[jnp.array([t for _, t in pairs])].set(x[jnp.array([s for s, _ in pairs])])


def over_instances(f, *in_axes):
    """`jax.vmap` over `a`, then `b`, which stand in front."""
    inner = jax.vmap(f, in_axes=[axes[1] for axes in in_axes], axis_name="b", axis_size=4)
    return jax.vmap(inner, in_axes=[axes[0] for axes in in_axes], axis_name="a", axis_size=8)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_scatter_and_exchange(placement):
    x, only_b = array(8, 4, 8, 3, seed=1), array(4, 8, 4, seed=2)

    def program(lax):
        def body(x, z):
            return (
                lax.psum_scatter(x, "a"),
                lax.psum_scatter(x, "b", scatter_dimension=0, tiled=True),
                lax.all_to_all(x, "a", 0, 1),
                lax.all_to_all(x, "b", 0, 1, tiled=True),
                # values that lack the name
                lax.psum_scatter(z, "a", scatter_dimension=0),
                lax.all_to_all(z, "a", 0, 1),
                lax.all_to_all(z, "b", 1, 0),
            )

        return body

    def theirs(x, z):  # JAX 0.10's all_to_all does not take values that are the same in all instances
        return over_instances(program(jax.lax), (0, 0), (0, 0))(x, jnp.broadcast_to(z, (8, *z.shape)))

    ours = program(types.SimpleNamespace(psum_scatter=psum_scatter, all_to_all=all_to_all))
    out = ["a", "b", ...]
    check(ours, theirs, (x, only_b), (["a", "b", ...], ["b", ...]), out, placement, axis_sizes={"a": 8})


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_over_two_names(placement):
    x = array(8, 4, 32, 2, seed=3)

    def ours(x):
        return (
            psum_scatter(x, ("a", "b")),
            psum_scatter(x, ("b", "a"), tiled=True),
            all_to_all(x, ("a", "b"), 0, 1),
            all_to_all(x, ("b", "a"), 0, 1, tiled=True),
            ppermute(x, ("a", "b"), PAIRS_OF_BOTH),
            pbroadcast(x, ("b", "a"), 13),
        )

    def oracle(x):
        total = x.sum((0, 1))
        turned = x.swapaxes(0, 1).reshape(32, 32, 2)
        flat = x.reshape(32, 32, 2)
        exchanged = turned.swapaxes(0, 1).reshape(4, 8, 1, 64)
        return (
            total.reshape(8, 4, 2),
            total.reshape(4, 8, 1, 2).swapaxes(0, 1),
            flat.transpose(1, 2, 0).reshape(8, 4, 2, 32),
            exchanged.swapaxes(0, 1),
            moved(flat, PAIRS_OF_BOTH).reshape(x.shape),
            jnp.broadcast_to(turned[13], x.shape),
        )

    check(ours, oracle, (x,), ["a", "b", ...], ["a", "b", ...], placement)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_permutations(placement):
    x, only_b = array(8, 4, 3, seed=4), array(4, 2, seed=5)

    def ours(x, z):
        return (
            ppermute(x, "a", SPARSE),
            ppermute(x, "a", SHIFT),
            ppermute(x, "b", [(i, (i + 1) % 4) for i in range(4)]),
            pshuffle(x, "a", MIXED),
            pshuffle(x, "a", SWAP),
            pshuffle(x, "b", [3, 2, 1, 0]),
            pbroadcast(x, "a", 5),
            pbroadcast(x, "b", 2),
            ppermute(z, "a", SPARSE),
            pshuffle(z, "a", MIXED),
            pbroadcast(z, "a", 1),
        )

    def pick(x, source):
        return x[jnp.array([source] * x.shape[0])]

    def theirs(x, z):
        def by_vmap(x, z):
            return (
                jax.lax.ppermute(x, "b", [(i, (i + 1) % 4) for i in range(4)]),
                jax.lax.pshuffle(x, "a", MIXED),
                jax.lax.pshuffle(x, "a", SWAP),
                jax.lax.pshuffle(x, "b", [3, 2, 1, 0]),
            )

        there = jnp.array([any(t == i for _, t in SPARSE) for i in range(8)])
        repeated = jnp.broadcast_to(z, (8, *z.shape))
        return (
            moved(x, SPARSE),  # jax.vmap takes whole permutations only
            moved(x, SHIFT),
            *over_instances(by_vmap, (0, 0), (None, 0))(x, z),
            pick(x, 5),
            pick(x.swapaxes(0, 1), 2).swapaxes(0, 1),
            jnp.where(there[:, None, None], repeated, 0),
            repeated,
            repeated,
        )

    out = tuple([["a", "b", ...]] * 11)
    check(ours, theirs, (x, only_b), (["a", "b", ...], ["b", ...]), out, placement, axis_sizes={"a": 8})


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [p for p in FEW if "b" not in dict(p.resources)], ids=str)
def test_integers_truth_values_and_trees(placement):
    n, t = array(8, 8, kind="int"), array(8, 8, kind="bool")

    def ours(n, t):
        both = {"n": n, "t": t}
        return ppermute(both, "a", SPARSE), pbroadcast(both, "a", 6), psum_scatter(both, "a"), all_to_all(both, "a", 0, 0)

    def oracle(n, t):
        def of(v):
            return moved(v, SPARSE), jnp.broadcast_to(v[6], v.shape), v.sum(0), v.swapaxes(0, 1)

        return tuple({"n": one, "t": other} for one, other in zip(of(n), of(t), strict=True))

    check(ours, oracle, (n, t), ["a", ...], ["a", ...], placement, grad=False)


def test_every_permutation_of_blocks():
    """The planner, executed by NumPy: random maps, whole and partial, over one and two axes, in any blocks."""
    rng = np.random.default_rng(0)
    for trial in range(150):
        sizes, blocks = [((12,), (3,)), ((12,), (1,)), ((12,), (12,)), ((6, 4), (3, 2)), ((16,), (4,)), ((4, 8), (4, 1))][
            trial % 6
        ]
        n = int(np.prod(sizes))
        sources = rng.permutation(n) if trial % 4 else (np.arange(n) + trial) % n
        if trial % 3 == 0:
            sources = np.where(rng.random(n) < 0.4, -1, sources)
        counts = tuple(s // b for s, b in zip(sizes, blocks, strict=True))
        plan = plan_rows(rows_of_blocks(tuple(int(s) for s in sources), sizes, blocks, counts), math.prod(blocks), True)
        x = rng.normal(size=sizes)
        cut = x.reshape([part for pair in zip(counts, blocks, strict=True) for part in pair])
        k = len(sizes)
        order = [*range(0, 2 * k, 2), *range(1, 2 * k, 2)]
        local = cut.transpose(order).reshape(np.prod(counts), np.prod(blocks))
        pieces = []
        devices = np.arange(len(local))
        for message in plan.messages:
            if message.pairs is None:
                sent = local[devices[:, None], message.rows].reshape(len(local), len(local), -1)
                pieces.append(sent.swapaxes(0, 1).reshape(len(local), -1))
                continue
            assert len({s for s, _ in message.pairs}) == len({t for _, t in message.pairs}) == len(message.pairs)
            arrived = np.zeros((len(local), message.rows.shape[1]))
            for s, t in message.pairs:
                arrived[t] = local[s, message.rows[s]]
            pieces.append(arrived)
        pieces.insert(plan.before, local)
        have = np.where(plan.read < 0, 0, np.concatenate(pieces, 1)[devices[:, None], plan.read])
        want = np.where(sources < 0, 0, x.reshape(-1)[sources]).reshape(sizes)
        want = want.reshape(cut.shape).transpose(order).reshape(local.shape)
        np.testing.assert_array_equal(have, want)


CYCLE = [(i, (i + 5) % 16) for i in range(16)]
ORDERS = [("y", "x"), ("y", "z", "x")]
MOVING = {
    "ppermute": (lambda x: nx.lax.ppermute(x, "a", CYCLE), lambda x: np.roll(x, 5, 0)),
    "partial ppermute": (
        lambda x: nx.lax.ppermute(x, "a", CYCLE[3:9]),
        lambda x: np.roll(np.pad(x[3:9], [(3, 7), (0, 0)]), 5, 0),
    ),
    "pshuffle": (lambda x: nx.lax.pshuffle(x, "a", [t for _, t in CYCLE]), lambda x: np.roll(x, -5, 0)),
    "roll": (lambda x: nx.roll(x, 7, "a"), lambda x: np.roll(x, 7, 0)),
    "flip": (lambda x: nx.flip(x, "a"), lambda x: np.flip(x, 0)),
    "cumsum": (lambda x: nx.cumsum(x, "a"), lambda x: np.cumsum(x, 0)),
    "sort": (lambda x: nx.sort(x, "a"), lambda x: np.sort(x, 0)),
    "rename": (lambda x: nx.rename(nx.rename(x, {"a": "c"}) * 1, {"c": "a"}), lambda x: x),
}


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("axes", ORDERS, ids="".join)
def test_mesh_axes_in_another_order_than_the_mesh(axes, kind):
    """JAX counts the devices of a permute in the order of the mesh, or rejects another order; names have the order of their axes."""
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(getattr(AxisType, kind),) * 3)
    x = np.asarray(array(16, 3))
    resources = {"a": axes, "c": tuple(sorted(axes))}

    def body(x):
        return [ours(x) for ours, _ in MOVING.values()]

    f = nx.xmap(body, (["a", None],), ["a", None], axis_resources=resources, mesh=mesh)
    for name, have, want in zip(MOVING, f(x), [theirs(x) for _, theirs in MOVING.values()], strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.fast(0)
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids="".join)
@pytest.mark.parametrize("resources", [{"a": "y", "b": "x"}, {"a": ("z", "x"), "b": "y"}], ids=str)
def test_two_names_and_their_gradient_in_another_order_than_the_mesh(names, resources):
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)
    x, weight = np.asarray(array(4, 4)), np.asarray(array(4, 4, seed=1))

    def by_hand(x, shift):  # over the indices of both names, the first one major
        order = (0, 1) if names == ("a", "b") else (1, 0)
        return np.roll(x.transpose(order).ravel(), shift).reshape(4, 4).transpose(order)

    f = nx.xmap(lambda x: nx.lax.ppermute(x, names, CYCLE), (["a", "b"],), ["a", "b"], axis_resources=resources, mesh=mesh)
    np.testing.assert_array_equal(f(x), by_hand(x, 5))
    gradient = jax.grad(lambda x: jnp.sum(f(x) * weight))(x)
    np.testing.assert_allclose(gradient, by_hand(weight, -5))


# --- what is sent ---------------------------------------------------------------------------------------------------

BLOCKS = Placement("blocks", (4,), (("a", "x"),))
BOTH = Placement("both", (4, 2), (("a", "x"), ("b", "y")))


def sent(f, in_axes, out_axes, *args, placement=BLOCKS, grad=False):
    mapped = nx.xmap(f, in_axes, out_axes, **placement.options)
    if not grad:
        return hlo.summary(jax.jit(mapped).lower(*args).compile())
    backward = jax.jit(lambda cotangent, *args: jax.vjp(mapped, *args)[1](cotangent))
    return hlo.summary(backward.lower(jax.eval_shape(mapped, *args), *args).compile())


@pytest.mark.parametrize(
    ("perm", "count", "entries"),
    [
        ([(i, (i + 2) % 16) for i in range(16)], 1, 2),  # a shift of the boundary
        ([(i, i + 1) for i in range(15)], 1, 1),  # without wrapping round
        ([(i, (i + 4) % 16) for i in range(16)], 1, 4),  # whole blocks
        ([(i, (i + 7) % 16) for i in range(16)], 2, 4),  # a long shift: every entry once
        ([(i, 15 - i) for i in range(16)], 1, 4),  # a reversal
        ([(i, i ^ 1) for i in range(16)], 0, 0),  # within blocks
    ],
    ids=["shift", "open shift", "blocks", "long shift", "reversal", "local"],
)
@pytest.mark.parametrize("grad", [False, True])
def test_bytes_of_permutations(perm, count, entries, grad):
    x = array(16, 5)
    summary = sent(lambda x: ppermute(x, "a", perm), ["a", None], ["a", None], x, grad=grad)
    assert summary == ({"collective-permute": (count, entries * 5 * 4)} if count else {})


def test_bytes_of_a_general_permutation():
    rng = np.random.default_rng(1)
    perm = [int(i) for i in rng.permutation(64)]
    summary = sent(lambda x: pshuffle(x, "a", perm), ["a"], ["a"], array(64))
    (kind,) = summary
    _, size = summary[kind]
    assert kind in ("all-to-all", "collective-permute")
    assert 4 * 10 <= size <= 4 * 2 * 16 * 2  # not more than a few blocks of 16 entries, and never all 64 of every device
    # Every second entry of the row to the front, the others behind: traffic as even as it can be.
    even = [*range(0, 64, 2), *range(1, 64, 2)]
    summary = sent(lambda x: pshuffle(x, "a", even), ["a"], ["a"], array(64))
    assert summary == {"collective-permute": (2, 4 * 16)}


@pytest.mark.fast(0)
def test_bytes_of_scatter_exchange_and_broadcast():
    x = array(16, 16, 5)
    block = 4 * 5 * 4 * 16
    for grad in (False, True):
        back = "all-gather" if grad else "reduce-scatter"
        assert sent(lambda x: psum_scatter(x, "a"), ["a", ...], ["a", ...], x, grad=grad) == {back: (1, 16 * 5 * 4)}
        assert sent(lambda x: all_to_all(x, "a", 0, 1), ["a", ...], ["a", ...], x, grad=grad) == {"all-to-all": (1, block)}
        assert sent(lambda x: pbroadcast(x, "a", 9), ["a", ...], ["a", ...], x, grad=grad) == {"all-reduce": (1, 16 * 5 * 4)}
    y = array(8, 4, 32)
    axes = ["a", "b", ...]
    assert sent(lambda x: psum_scatter(x, ("a", "b")), axes, axes, y, placement=BOTH) == {"reduce-scatter": (1, 32 * 4)}
    assert sent(lambda x: all_to_all(x, ("a", "b"), 0, 0), axes, axes, y, placement=BOTH) == {"all-to-all": (1, 4 * 32 * 4)}


def test_values_without_the_name_are_not_sent():
    def body(x):
        return psum_scatter(x, "a"), all_to_all(x, "a", 0, 0), ppermute(x, "a", [(0, 1)]), pbroadcast(x, "a", 3)

    mapped = nx.xmap(body, [None], ["a", ...], axis_sizes={"a": 8}, **BLOCKS.options)
    assert hlo.summary(jax.jit(mapped).lower(array(8)).compile()) == {}


# --- pgather and pdot -----------------------------------------------------------------------------------------------


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_pgather(placement):
    x, tokens, at = array(8, 4, 3, 2, seed=6), make.array([[1, -1], [7, 0], [3, 3]]), make.array([5, 9, -24, 2])
    own = make.array(
        [[1, 2, 3, 0], [7, 6, 5, 4], [0, 0, 0, 0], [1, 3, 5, 7], [2, 2, 6, 6], [4, 1, 4, 1], [0, 2, 4, 6], [5, 5, 5, 5]]
    )

    def ours(x, tokens, at, own):
        return (
            pgather(x, tokens, "a"),
            pgather(x, at, ("a", 0)),
            pgather(x, at % 8 * 4 + 3, ("a", "b")),
            pgather(x, at % 3, 0),
            pgather(x, own, "a"),  # its own names: one that is read, one that is shared
        )

    def oracle(x, tokens, at, own):
        return (
            jnp.einsum("tnbpq->btnpq", x[tokens]),
            jnp.moveaxis(x, 1, 2).reshape(24, 4, 2)[at].swapaxes(0, 1),
            x.reshape(32, 3, 2)[at % 8 * 4 + 3],
            x[:, :, at % 3],
            jnp.take_along_axis(x, own[:, :, None, None], 0),
        )

    in_axes = (["a", "b", ...], ["token", ...], [...], ["a", "b"])
    out_axes = (["b", "token", ...], ["b", ...], [...], ["a", "b", ...], ["a", "b", ...])
    check(ours, oracle, (x, tokens, at, own), in_axes, out_axes, placement)


def test_pgather_never_gathers_the_array():
    x, idx = array(16, 1000), make.array([3, 15])
    summary = sent(lambda x, i: pgather(x, i, "a"), (["a", None], [None]), [...], x, idx)
    assert summary == {"all-reduce": (1, 2 * 1000 * 4)}
    own = make.arange(16)[::-1]
    summary = sent(lambda x, i: pgather(x, i, "a"), (["a", None], ["a"]), ["a", ...], x, own)
    assert summary == {"all-gather": (1, 16 * own.itemsize), "reduce-scatter": (1, 16 * 1000 * 4)}


def test_pgather_out_of_range():
    x = nx.named(make.arange(4.0), ["k"])
    np.testing.assert_array_equal(pgather(x, jnp.array([3, 4, -4, -5]), "k"), [3, np.nan, 0, np.nan])
    np.testing.assert_array_equal(pgather(x.astype(int), jnp.array([4]), "k"), [jnp.iinfo(jnp.arange(1).dtype).min])
    with pytest.raises(PositionalAxisError, match="indices must be integers"):
        pgather(x, make.array([0.5]), "k")


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_pdot(placement):
    x, y, z = array(8, 4, 5, 3, 2, seed=7), array(8, 2, 6, 3, seed=8), array(4, 3, seed=9)

    def ours(x, y, z):
        return (
            pdot(x, y, "a", pos_contract=((1,), (2,)), pos_batch=((2,), (0,))),
            pdot(x, z, ("a", "b"), pos_contract=((1,), (0,))),
            pdot(z, z, "a"),  # neither has it: once per instance
        )

    def oracle(x, y, z):
        return jnp.einsum("abpqr,arsq->brps", x, y), jnp.einsum("abpqr,bq->pr", x, z), 8 * jnp.einsum("bq,br->bqr", z, z)

    in_axes = (["a", "b", ...], ["a", ...], ["b", ...])
    check(ours, oracle, (x, y, z), in_axes, (["b", ...], [...], ["b", ...]), placement, tol=1e-4)


def test_pdot_sends_the_result_once():
    x, y = array(16, 5), array(16, 7)
    summary = sent(lambda x, y: pdot(x, y, "a"), (["a", None], ["a", None]), [...], x, y)
    assert summary == {"all-reduce": (1, 5 * 7 * 4)}


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_mistakes():
    x = nx.named(make.arange(24.0).reshape(4, 6), ["a", None])
    with pytest.raises(AxisNotFoundError, match="psum_scatter: axis 'c' has no size"):
        psum_scatter(x, "c")
    with pytest.raises(
        PositionalAxisError, match=r"scatter_dimension=0 has size 6; with tiled=False it must be equal to .* 'a', 4"
    ):
        psum_scatter(x, "a")
    with pytest.raises(PositionalAxisError, match="split_axis=0 has size 6; with tiled=True it must be a multiple of"):
        all_to_all(x, "a", 0, 0, tiled=True)
    with pytest.raises(PositionalAxisError, match="concat_axis=1 is not a positional axis: there are 1"):
        all_to_all(x, "a", 0, 1)
    with pytest.raises(AxisSizeError, match=r"the pair \(4, 0\) is out of range: the axis 'a' has size 4"):
        ppermute(x, "a", [(4, 0)])
    with pytest.raises(AxisSizeError, match=r"the source or the target of the pair \(0, 2\) appears in another pair"):
        ppermute(x, "a", [(0, 1), (0, 2)])
    with pytest.raises(AxisSizeError, match="appears in another pair"):
        ppermute(x, "a", [(0, 1), (2, 1)])
    with pytest.raises(AxisSizeError, match="is not a permutation of the 4 indices of the axis 'a'"):
        pshuffle(x, "a", [0, 1, 1, 2])
    with pytest.raises(AxisSizeError, match="source 4 is out of range"):
        pbroadcast(x, "a", 4)
    with pytest.raises(AxisNameError, match="not all different"):
        ppermute(x, ("a", "a"), [])
    with pytest.raises(PositionalAxisError, match="Pass the same number of each"):
        pdot(x, x, "a", pos_contract=((0,), ()))
    with pytest.raises(PositionalAxisError, match="out of range for operand 1"):
        pdot(x, x, "a", pos_contract=((0,), (1,)))


def test_two_names_on_one_mesh_axis():
    mesh = make_mesh((4,))
    options = {"mesh": mesh, "axis_resources": {"a": "x", "d": "x"}, "axis_sizes": {"d": 4}}
    with pytest.raises(PlacementConflictError, match="psum_scatter: axes 'd' and 'a' meet"):
        nx.xmap(lambda x: psum_scatter(x, "d"), ["a", ...], ["a", ...], **options)(array(8, 4))
