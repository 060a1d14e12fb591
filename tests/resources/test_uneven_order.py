"""What orders or accumulates along a name that does not divide: real entries alone count, and keep their order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import Placement, array, check, together

THREE = Placement("three", (3,), (("a", "x"),))
FOUR = Placement("four", (4,), (("a", "x"),), "explicit")
# Blocks of 2, 2, 1 and nothing; of 2 five times and three devices without any; over two mesh axes, of 2, 2, 2, 1 and twice nothing.
SIZES = [
    (5, FOUR),
    *(
        pytest.param(*case, marks=pytest.mark.fast(0))
        for case in [
            (10, Placement("eight", (8,), (("a", "x"),))),
            (7, Placement("six", (3, 2), (("a", ("y", "x")),), "explicit")),
            (1, FOUR),
        ]
    ),
]


def sent(f, size):
    """The bytes that the function and its gradient send, over eight devices, of an array that is made where it is needed."""
    mapped = nx.xmap(
        lambda w: f(nx.sin(w * nx.arange(axis="a"))),
        [["b"]],
        ["b"],
        axis_sizes={"a": size},
        axis_resources={"a": "x"},
        mesh=jax.make_mesh((8,), ("x",)),
    )
    compiled = jax.jit(jax.grad(lambda w: mapped(w).sum())).lower(array(3)).compile()
    return sum(c.bytes for c in nx.hlo.collectives(compiled))


# --- cumulative operations ------------------------------------------------------------------------------------------


def scans(named, plain, **options):
    def backwards(a):
        return jnp.flip(plain(jnp.flip(a, 0), axis=0, **options), 0)

    return [
        (lambda v: named(v, "a", **options), lambda a: plain(a, axis=0, **options), ["a", "b"]),
        (lambda v: named(v, "a", reverse=True, **options), backwards, ["a", "b"]),
    ]


SCANS = {
    f"{f.__name__}-{i}": program
    for f, options in [
        (jnp.cumsum, {}),
        (jnp.cumprod, {}),
        (jnp.nancumsum, {}),
        (jax.lax.cummax, {}),
        (jax.lax.cummin, {}),
        (jax.lax.cumlogsumexp, {}),
    ]
    for i, program in enumerate(scans(getattr(nx, f.__name__, None) or getattr(nx.lax, f.__name__), f, **options))
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_cumulative_of_other_types_and_shared_values():
    x, w = array(5, 3, kind="int"), make.array(np.float32(0.5))
    more = {
        "bool": (lambda v, w: nx.cumsum(v > 0, "a"), lambda a, w: jnp.cumsum(a > 0, 0), ["a", "b"]),
        "all": (
            lambda v, w: nx.cumprod(v > -8, "a", reverse=True),
            lambda a, w: jnp.cumprod((a > -8)[::-1], 0)[::-1],
            ["a", "b"],
        ),
        "int": (
            lambda v, w: nx.cummax(nx.nmap(lambda i: i.astype(jnp.int8))(v), "a", reverse=True),
            lambda a, w: jax.lax.cummax(a.astype(jnp.int8), 0, reverse=True),
            ["a", "b"],
        ),
        # The logarithm of padding: the copies of the last real result have as good a slope as that.
        "log": (
            lambda v, w: nx.sum(nx.log(nx.cumsum(v * v + w, "a", reverse=True)), "a"),
            lambda a, w: jnp.log(jnp.cumsum((a * a + w)[::-1], 0)).sum(0),
            ["b"],
        ),
        # The product of the real entries is finite, and no larger one.
        "large": (
            lambda v, w: nx.sum(nx.cumprod(v * 0 + 1e8 * w, "a", reverse=True), "a") * 1e-35,
            lambda a, w: jnp.cumprod(a * 0 + 1e8 * w, 0).sum(0) * 1e-35,
            ["b"],
        ),
    }
    named, plain, out_axes = together(more)
    check(named, plain, (x, w), (["a", "b"], []), out_axes, FOUR, grad=False)
    for label in ("log", "large"):
        named, plain, out_axes = more[label]
        mapped = nx.xmap(named, (["a", "b"], []), out_axes, **FOUR.options)
        have, want = (jax.grad(lambda w, f=f: f(x, w).sum())(w) for f in (mapped, plain))
        np.testing.assert_allclose(have, want, rtol=1e-5)
        assert np.isfinite(want)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_cumulative_of_infinities_and_nan():
    x = make.array(
        np.array([[1.0, np.inf, -np.inf, np.nan, 3.0, -np.inf, -np.inf], [-np.inf] * 7, [2.0, np.inf, *[-1.0] * 4, np.nan]]).T
    )
    known = {label: program for label, program in SCANS.items() if "logsumexp" not in label}  # whose gradient is NaN in JAX
    named, plain, out_axes = together(known)
    check(named, plain, (x,), (["a", "b"],), out_axes, THREE, grad=False)
    mapped = nx.xmap(lambda v: nx.cummax(v, "a", reverse=True), (["a", "b"],), ["a", "b"], **THREE.options)
    have, want = (jax.grad(lambda x, f=f: f(x)[6].sum())(x) for f in (mapped, lambda a: jax.lax.cummax(a, 0, reverse=True)))
    np.testing.assert_array_equal(have, want)  # padding is no tie


def test_cumulative_sends_what_the_next_size_sends():
    def f(v):
        return nx.sum(nx.cumsum(nx.cummax(v, "a"), "a", reverse=True) * v, "a")

    assert 0 < sent(f, 10) <= sent(f, 16)


# --- order ----------------------------------------------------------------------------------------------------------

ENDS = make.array(np.float32([-9.0, -0.2, 0.3, 9.0]))


def selected(v, of):
    n = v.named_shape["a"]
    return {k: of(nx.top_k(v, k, axis="a")) for k in sorted({1, n // 2 + 1, n})}


def selected_plainly(a, of):
    n = a.shape[0]
    return {k: of(jax.lax.top_k(a.T, k)) for k in sorted({1, n // 2 + 1, n})}


def values(found):
    return found[0]


ORDER = {
    "sort": (lambda v: nx.sort(v, "a"), lambda a: jnp.sort(a, 0), ["a", "b"]),
    "sort-down": (lambda v: nx.sort(v, "a", descending=True), lambda a: jnp.sort(a, 0, descending=True), ["a", "b"]),
    "partition": (lambda v: nx.partition(v, 0, "a"), lambda a: jnp.partition(a, 0, 0), ["a", "b"]),
    "top_k": (lambda v: selected(v, values), lambda a: selected_plainly(a, values), ["b", None]),
}
INDICES = {
    "argsort": (lambda v: nx.argsort(v, "a"), lambda a: jnp.argsort(a, 0), ["a", "b"]),
    "argsort-down": (lambda v: nx.argsort(v, "a", descending=True), lambda a: jnp.argsort(a, 0, descending=True), ["a", "b"]),
    "lexsort": (lambda v: nx.lexsort((v, v > 0), "a"), lambda a: jnp.lexsort((a, a > 0), axis=0), ["a", "b"]),
    "top_k": (
        lambda v: selected(v, lambda found: found[1]),
        lambda a: selected_plainly(a, lambda found: found[1]),
        ["b", None],
    ),
}
QUANTILES = {
    "quantile": (lambda v: nx.quantile(v, ENDS / 18 + 0.5, "a"), lambda a: jnp.quantile(a, ENDS / 18 + 0.5, 0), [None, "b"]),
    "median": (lambda v: nx.median(v, ("b", "a")), lambda a: jnp.median(a), []),
    "nanmedian": (lambda v: nx.nanmedian(v, "a"), lambda a: jnp.nanmedian(a, 0), ["b"]),
}
COUNTS = {
    "searchsorted": (
        lambda v: nx.searchsorted(nx.sort(v, "a"), ENDS, "right", axis="a"),
        lambda a: jax.vmap(lambda row: jnp.searchsorted(row, ENDS, "right"))(jnp.sort(a, 0).T),
        ["b", None],
    ),
    "bincount": (
        lambda v: nx.bincount(nx.nmap(lambda x: jnp.round(x).astype(int))(v), v, length=2, axis="a"),
        lambda a: jax.vmap(lambda row: jnp.bincount(jnp.round(row).astype(int), row, length=2))(a.T),
        ["b", None],
    ),
    "histogram": (
        lambda v: nx.histogram(v, 4, axis="a")[0],
        lambda a: jax.vmap(lambda row: jnp.histogram(row, 4)[0])(a.T),
        ["b", None],
    ),
}


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize(("size", "placement"), SIZES, ids=str)
def test_values_and_gradients(size, placement):
    named, plain, out_axes = together(
        SCANS | ORDER | QUANTILES | COUNTS | {f"{label}-order": p for label, p in INDICES.items()}
    )
    check(named, plain, (array(size, 3),), (["a", "b"],), out_axes, placement)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_padding_is_behind_infinities_and_nan():
    below = -np.float32(np.nan)  # with its sign, which selection puts behind everything
    x = np.full((3, 10), -np.inf, np.float32)
    x[0, :9] = [np.inf, np.nan, 1.0, np.inf, -np.inf, np.nan, 1.0, 0.0, below]
    x[1, 3:5] = [below, 2.0]
    x[2] = [*[np.nan] * 9, 3.0]
    programs = (
        ORDER | INDICES | {k: QUANTILES[k] for k in ("quantile", "nanmedian")} | {k: COUNTS[k] for k in ("searchsorted",)}
    )
    named, plain, out_axes = together(programs)
    check(named, plain, (make.array(x.T),), (["a", "b"],), out_axes, THREE, grad=False)
    whole = np.array([[2**31 - 1] * 5 + [-(2**31)] * 5, [-(2**31)] * 10, [*range(9), -(2**31)]], np.int32)
    named, plain, out_axes = together({label: ORDER[label] for label in ("sort-down", "top_k")})
    check(named, plain, (make.array(whole.T),), (["a", "b"],), out_axes, THREE, grad=False)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_ties_of_ordered_entries_keep_their_order():
    named, plain, out_axes = together(
        {"sort": ORDER["sort"], "top_k": ORDER["top_k"]} | {f"{k}-order": p for k, p in INDICES.items()}
    )
    check(named, plain, (array(6, 3, kind="ties"),), (["a", "b"],), out_axes, FOUR)


def test_new_axes_that_do_not_divide():
    x = array(7, 3)
    programs = {
        "top_k": (
            lambda v: nx.top_k(v, 4, axis="a", out_axis="best").values,
            lambda a: jax.lax.top_k(a.T, 4)[0].T,
            ["best", "b"],
        ),
        "histogram": (
            lambda v: nx.histogram(v, 5, (-1.0, 1.0), weights=v, axis="a", out_axis="bin")[0] ** 2,
            lambda a: jax.vmap(lambda row: jnp.histogram(row, 5, (-1.0, 1.0), weights=row)[0])(a.T) ** 2,
            ["b", "bin"],
        ),
    }
    named, plain, out_axes = together(programs)
    placement = Placement("three", (3,), (("a", "x"), ("best", "x"), ("bin", "x")))
    check(named, plain, (x,), (["a", "b"],), out_axes, placement, axis_sizes={"best": 4, "bin": 5})
    best = Placement("best", (3,), (("a", "x"), ("best", "x")))
    f = nx.xmap(lambda v: nx.top_k(v, 4, axis="a", out_axis="best")[0], (["a", "b"],), ["best", "b"], **best.options)
    np.testing.assert_array_equal(f(x), jax.lax.top_k(x.T, 4)[0].T)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_sorting_sends_what_the_next_size_sends():
    def f(v):
        return nx.sum(nx.sort(v, "a") * v, "a")

    # Where devices have no real entry, the last one is sent to them besides.
    assert 0 < sent(f, 15) <= sent(f, 16)
    assert sent(f, 10) <= sent(f, 16) + 3 * 4


# --- segments, and what is found -------------------------------------------------------------------------------------

NUMBERS = np.array([3, 0, -1, 4, 9, 1, 3, 3, 4, 4], np.int32)  # 2 is empty, two are none


def segments(kind, x, **options):
    numbers = nx.named(jnp.sort(NUMBERS) if options else jnp.asarray(NUMBERS), ["a"])
    return getattr(nx, f"segment_{kind}")(x, numbers, 5, axis="a", out_axis="segment", **options)


def segments_plainly(kind, x, mode="drop", indices_are_sorted=False):
    numbers = np.clip(np.sort(NUMBERS), 0, 4) if mode == "clip" else NUMBERS
    return getattr(jax.ops, f"segment_{kind}")(x, jnp.asarray(numbers), 5)


SEGMENTS = {
    f"{kind}-{len(options)}": (
        lambda v, kind=kind, options=options: segments(kind, v, **options),
        lambda a, kind=kind, options=options: segments_plainly(kind, a, **options),
        ["segment", "b"],
    )
    for kind in ("sum", "max", "min", "prod")
    for options in ({}, {"mode": "clip", "indices_are_sorted": True})
}
WHERE = [
    Placement("same", (4,), (("a", "x"), ("segment", "x")), "explicit"),
    *(
        pytest.param(placement, marks=pytest.mark.fast(0))
        for placement in [
            Placement("entries", (8,), (("a", "x"),)),
            Placement("segments", (8,), (("segment", "x"),)),
            Placement("both", (3, 2), (("a", "x"), ("segment", "y"))),
            Placement("wider", (2, 4), (("a", "x"), ("segment", ("x", "y")))),
            Placement("narrower", (3, 2), (("a", ("x", "y")), ("segment", "x")), "explicit"),
        ]
    ),
]


@pytest.mark.full(0)
@pytest.mark.parametrize("placement", WHERE, ids=str)
def test_segments(placement):
    x = array(10, 3)
    known = {label: program for label, program in SEGMENTS.items() if "prod" not in label}  # which has no gradient
    named, plain, out_axes = together(known)
    check(named, plain, (x,), (["a", "b"],), out_axes, placement, axis_sizes={"segment": 5})
    named, plain, out_axes = together({label: program for label, program in SEGMENTS.items() if "prod" in label})
    check(named, plain, (x,), (["a", "b"],), out_axes, placement, grad=False, axis_sizes={"segment": 5})


@pytest.mark.fast(0)
def test_ties_within_segments():
    named, plain, out_axes = together({label: SEGMENTS[label] for label in ("max-0", "min-2")})
    check(named, plain, (array(10, 3, kind="ties"),), (["a", "b"],), out_axes, WHERE[0], axis_sizes={"segment": 5})


def test_what_is_found():
    x = array(5, 3, kind="ties")
    programs = {
        "nonzero": (
            lambda v: nx.nonzero(v, axis="a", size=4, out_axis="place", fill_value=-1)[0],
            lambda a: jax.vmap(lambda row: jnp.nonzero(row, size=4, fill_value=-1)[0])(a.T),
            ["b", "place"],
        ),
        "unique": (
            lambda v: nx.unique(v, True, True, True, "a", size=4, out_axis="place"),
            lambda a: jax.vmap(lambda row: jnp.unique(row, True, True, True, size=4))(a.T),
            (["b", "place"], ["b", "place"], ["b", "a"], ["b", "place"]),
        ),
    }
    named, plain, out_axes = together(programs)
    check(named, plain, (x,), (["a", "b"],), out_axes, FOUR, grad=False)
