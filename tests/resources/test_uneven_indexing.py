"""Reading, writing and moving by index along names whose last blocks are padding: as in jnp for the real size, and padding writes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import Placement, array, check, together

ONE = Placement("one", (8,), (("a", "x"),))
BOTH = Placement("both", (3, 2), (("a", "x"), ("b", "y")), "explicit")
PAIR = Placement("pair", (2, 3), (("a", ("y", "x")),))
full = pytest.mark.fast(0)


def outside(n):
    """Indices in and out of range, from either end; those of padding too."""
    return make.array(np.array([0, n - 1, -1, -n, n, n + 1, -n - 1, 3 * n, 4 * n + 5, -5 * n]))


def reads(n):
    """Named, plain and out_axes of what reads along `a` of size `n`, of `x{a, b}`, `w{b}` and `s{a}[2n]`."""
    at, order = outside(n), make.array(np.random.default_rng(n).permutation(n))
    some = make.array(np.random.default_rng(n + 1).integers(-n - 1, n + 2, (n,)))
    own, pairs, b = nx.named(order, ["a"]), jnp.stack([order, order[::-1]] * 2, 1), nx.named(order % 4, ["a"])
    found = {
        "own": (lambda x, w, s: nx.take(x, own, "a"), lambda x, w, s: x[order], ["a", "b"]),
        "own-truth": (
            lambda x, w, s: nx.take(x > 1, nx.named(some, ["a"]), "a") * x,
            lambda x, w, s: jnp.take(x > 1, some, 0, mode="fill", fill_value=True) * x,
            ["a", "b"],
        ),
        "along": (
            lambda x, w, s: nx.take_along_axis(x, nx.named(pairs, ["a", "b"]), axis="a"),
            lambda x, w, s: jnp.take_along_axis(x, pairs, 0),
            ["a", "b"],
        ),
        "of-a-table": (lambda x, w, s: nx.take(w, b, "b") * x, lambda x, w, s: w[order % 4][:, None] * x, ["a", "b"]),
        "of-each": (lambda x, w, s: x["b", b], lambda x, w, s: x[jnp.arange(n), order % 4], ["a"]),
        "integers": (lambda x, w, s: x["a", n - 1] + x["a", -n], lambda x, w, s: x[n - 1] + x[0], ["b"]),
        "index-both": (lambda x, w, s: x[{"a": own, "b": 2}], lambda x, w, s: x[order, 2], ["a"]),
        "one-hot": (
            lambda x, w, s: nx.nn.one_hot(at, axis="a") * 2.0,
            lambda x, w, s: jax.nn.one_hot(at, n) * 2.0,
            [None, "a"],
        ),
        "pgather": (
            lambda x, w, s: nx.lax.pgather(nx.where(x > 1, 7, 3), 3 * at, ("a", "b")),
            lambda x, w, s: jnp.take(jnp.where(x > 1, 7, 3).reshape(-1), 3 * at, mode="fill"),
            [None],
        ),
        "pgather-own": (lambda x, w, s: nx.lax.pgather(x, own, "a"), lambda x, w, s: x[order], ["a", "b"]),
        "reversed": (lambda x, w, s: x["a", ::-1], lambda x, w, s: x[::-1], ["a", "b"]),
    }
    for mode in ("fill", "clip", "wrap"):
        found[f"take-{mode}"] = (
            lambda x, w, s, mode=mode: nx.take(x, at, "a", mode=mode, fill_value=2.0),
            lambda x, w, s, mode=mode: jnp.take(x, at, 0, mode=mode, fill_value=2.0),
            [None, "b"],
        )
    for mode in ("fill", "clip", None):
        found[f"get-{mode}"] = (
            lambda x, w, s, mode=mode: x.at["a", at].get(mode=mode, fill_value=2.0 if mode == "fill" else None),
            lambda x, w, s, mode=mode: x.at[at].get(mode=mode, fill_value=2.0 if mode == "fill" else None),
            [None, "b"],
        )
    return found


def log_of(named, plain):
    """A program whose gradient of `w` is NaN where padding is no copy of the last entry, which is positive."""
    return lambda x, w, s: nx.sum(w * nx.log(named(x)), "a"), lambda x, w, s: (w * jnp.log(plain(x))).sum(0), ["b"]


def writes(n):
    """The same for what writes along `a`."""
    at, order = outside(n), make.array(np.random.default_rng(n).permutation(n))
    some = make.array(np.random.default_rng(n + 1).integers(-n - 1, n + 2, (n,)))
    own, b, each = nx.named(order, ["a"]), nx.named(order % 4, ["a"]), (jnp.arange(n), order % 4)
    last = jnp.arange(n)[:, None] == n - 1
    return {
        "set": (lambda x, w, s: x.at["a", n - 1].set(w), lambda x, w, s: x.at[n - 1].set(w), ["a", "b"]),
        "add": (lambda x, w, s: x.at["a", at].add(w), lambda x, w, s: x.at[at].add(w), ["a", "b"]),
        "multiply": (lambda x, w, s: x.at["a", -1].multiply(w), lambda x, w, s: x.at[-1].multiply(w), ["a", "b"]),
        "divide-clipped": (
            lambda x, w, s: x.at["a", 4 * n + jnp.arange(1)].divide(w, mode="clip"),
            lambda x, w, s: x.at[n - 1].divide(w),
            ["a", "b"],
        ),
        "max": (lambda x, w, s: x.at["a", n // 2 :].max(w), lambda x, w, s: x.at[n // 2 :].max(w), ["a", "b"]),
        "min": (lambda x, w, s: x.at["a", ::2, "b", 1].min(0.5), lambda x, w, s: x.at[::2, 1].min(0.5), ["a", "b"]),
        "apply": (lambda x, w, s: x.at["a", -1].apply(jnp.log1p), lambda x, w, s: x.at[-1].set(jnp.log1p(x[-1])), ["a", "b"]),
        "own-set": (lambda x, w, s: x.at[{"a": own}].set(x * w), lambda x, w, s: x.at[order].set(x * w), ["a", "b"]),
        "own-add": (
            lambda x, w, s: x.at[{"a": nx.named(some, ["a"])}].add(x * w),
            lambda x, w, s: x.at[some].add(x * w),
            ["a", "b"],
        ),
        "of-each": (
            lambda x, w, s: w.at["b", b].add(3.0),
            lambda x, w, s: (0 * x + w).at[each].add(3.0),
            ["a", "b"],
        ),
        "reversed": (lambda x, w, s: x.at["a", ::-1].set(x * w), lambda x, w, s: x.at[::-1].set(x * w), ["a", "b"]),
        "mask": (
            lambda x, w, s: x.at["a", nx.named(order > n // 2, ["a"])].set(w),
            lambda x, w, s: jnp.where((order > n // 2)[:, None], w, x),
            ["a", "b"],
        ),
        "log-set": log_of(
            lambda x: (x - 99.0 * nx.nn.one_hot(n - 1, axis="a")).at["a", n - 1].set(2.0),
            lambda x: (x - 99.0 * last).at[n - 1].set(2.0),
        ),
        "log-reversed": log_of(lambda x: x["a", ::-1], lambda x: x[::-1]),
    }


def moves(n):
    """The same for collectives that keep the name."""
    order = [int(i) for i in np.random.default_rng(n).permutation(n)]
    shift = [(i, (i + 2) % n) for i in range(n)]
    return {
        "pshuffle": (lambda x, w, s: nx.lax.pshuffle(x, "a", order), lambda x, w, s: x[jnp.array(order)], ["a", "b"]),
        "shift": (lambda x, w, s: nx.lax.ppermute(x, "a", shift), lambda x, w, s: jnp.roll(x, 2, 0), ["a", "b"]),
        "some": (
            lambda x, w, s: nx.lax.ppermute(x, "a", shift[n // 2 :]),
            lambda x, w, s: jnp.roll(x.at[: n // 2].set(0), 2, 0),
            ["a", "b"],
        ),
        "two": (
            lambda x, w, s: nx.lax.pshuffle(x, ("b", "a"), [*range(4 * n)][::-1]),
            lambda x, w, s: x.T.reshape(-1)[::-1].reshape(4, n).T,
            ["a", "b"],
        ),
        "pbroadcast": (lambda x, w, s: nx.lax.pbroadcast(x, "a", n // 2), lambda x, w, s: 0 * x + x[n // 2], ["a", "b"]),
        "exchange": (
            lambda x, w, s: nx.lax.all_to_all(s, "a", 0, 0, tiled=True),
            lambda x, w, s: s.reshape(n, n, 2).swapaxes(0, 1).reshape(n, 2 * n),
            ["a", None],
        ),
        "scatter": (
            lambda x, w, s: nx.lax.psum_scatter(s, "a", tiled=True),
            lambda x, w, s: s.sum(0).reshape(n, 2),
            ["a", None],
        ),
        "scatter-alone": (
            lambda x, w, s: nx.lax.psum_scatter(nx.positional(w, ["b"])[:1] * jnp.arange(1.0, n + 1), "a"),
            lambda x, w, s: n * w[0] * jnp.arange(1.0, n + 1),
            ["a"],
        ),
        "log": log_of(lambda x: nx.lax.pshuffle(x, "a", order), lambda x: x[jnp.array(order)]),
    }


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("family", [reads, writes, moves])
@pytest.mark.parametrize(
    ("placement", "n"),
    [
        (ONE, 10),
        *(pytest.param(*case, marks=full) for case in ((ONE, 1), (ONE, 7), (ONE, 9), (BOTH, 7), (PAIR, 10), (PAIR, 4))),
    ],
    ids=str,
)
def test_along_a_name_with_padding(placement, n, family):
    named, plain, out_axes = together(family(n))
    args = jnp.exp(array(n, 4)), jnp.exp(array(4)), array(n, 2 * n)
    check(named, plain, args, (["a", "b"], ["b"], ["a", None]), out_axes, placement, tol=1e-4)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize(
    "resources",
    [
        {"a": "x", "part": "x"},
        *(pytest.param(r, marks=full) for r in ({"a": "x", "part": "y"}, {"a": ("y", "x")}, {"part": "x"})),
    ],
    ids=str,
)
def test_parts(resources):
    programs = {
        f"{start}:{stop}:{step}": (
            lambda x, at=slice(start, stop, step): nx.slice(x, {"a": at}, out_axis={"a": "part"}),
            lambda x, at=slice(start, stop, step): x[at],
            ["part", "b"],
        )
        for start, stop, step in [(3, 7, 1), (6, 10, 1), (1, 9, 2), (9, 1, -2), (0, 4, 1)]
    }
    named, plain, out_axes = together(programs)
    placement = Placement("parts", (3, 2), tuple(resources.items()))
    check(named, plain, (array(10, 4),), (["a", "b"],), out_axes, placement, axis_sizes={"part": 4})


def sent(fun, *args, axes=(["a", "b"],), placement=ONE):
    f = nx.xmap(fun, axes, [], **placement.options)
    return [(c.kind, c.bytes) for c in nx.hlo.collectives(jax.jit(f).lower(*args).compile())]


def test_what_is_sent():
    order = nx.named(jnp.array([3, 1]), ["k"])
    programs = {
        "take": (lambda x: nx.take(x, order, "a") ** 2, [("all-reduce", 2 * 4 * 4)]),
        "update": (lambda x: x.at["a", 8].set(0.0).at["a", :5].add(1.0) ** 2, [("all-reduce", 4)]),
    }
    for named, want in programs.values():
        found = sent(lambda x, named=named: nx.sum(named(x), axis=...), array(10, 4))
        assert found == want
    # Rows go where they are asked for; one more is that which padding repeats.
    flip = lambda x: nx.sum(nx.log(x["a", ::-1]) * nx.arange(axis="a"), ("a", "b"))  # noqa: E731
    assert sum(n for _, n in sent(flip, array(10, 4))) <= sum(n for _, n in sent(flip, array(16, 4))) + 4 * 4


@full
def test_a_table_of_50257_words_and_a_last_batch_of_any_size():
    table, ids = array(50257, 3), make.array(np.array([0, 50256, 31000, 50256, -1, 7, 50257]))
    words = Placement("words", (8,), (("word", "x"),))
    batch = Placement("batch", (4, 2), (("token", "x"), ("word", "y")))

    def loss(table, ids):
        return nx.sum(nx.take(table, ids, "word", mode="clip") ** 2 * (1.0 + nx.arange(axis="token")), "token")

    def plain(table, ids):
        return (jnp.take(table, ids, 0, mode="clip") ** 2 * jnp.arange(1.0, 8.0)[:, None]).sum(0)

    for placement in (words, batch):
        check(loss, plain, (table, ids), (["word", "k"], ["token"]), ["k"], placement)
    f = nx.xmap(lambda *args: nx.sum(loss(*args), "k"), (["word", "k"], ["token"]), [], **words.options)
    assert [c.bytes for c in nx.hlo.collectives(jax.jit(f).lower(table, ids).compile())] == [7 * 3 * 4]
