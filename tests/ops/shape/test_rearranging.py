"""split_axis, merge_axes, rearrange, reduce, repeat: against jnp and einops, in every placement, and what they send."""

import dataclasses
import re

import einops
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import merge_axes, rearrange, reduce, repeat, split_axis
from namedax.errors import AxisNameError, AxisNotFoundError, AxisSizeError, PlacementConflictError, RearrangeError
from namedax.hlo import summary
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh, said

SOME = [p for p in PLACEMENTS[:8] if p.label not in ("blocks", "b-blocks")] + [p for p in FEW if p.kind == "explicit"]


def also(placement, names):
    """The placement with more names, each where another one is."""
    known = dict(placement.resources)
    more = tuple((new, known[old]) for new, old in names.items() if old in known)
    return dataclasses.replace(placement, resources=placement.resources + more)


def change(x):
    return (
        split_axis(x, "a", {"major": 4, "minor": None}),
        merge_axes(x, ("a", "b"), "ab"),
        merge_axes(x, ("b", "a"), "ab"),
        rearrange(x, "{a=(p q)} c -> {q} (p c)", p=4),
        rearrange(x, "{a, b=(p q)} c -> {b=(q p), A=a, c}", p=2),
        reduce(x, "{a=(p q), b} ... -> {p} ...", "mean", q=2),
        reduce(x, "{a, b} c -> c {b}", "max"),
        reduce(x, "{a, b=(r 2)} c -> {r=(r 1)}", nx.logsumexp),
        repeat(x, "{a, b} c -> {b, d, A=(a 2)} c", d=2),
    )


def change_oracle(x):
    return (
        x.reshape(4, 2, 4, 3),
        x.reshape(32, 3),
        x.transpose(1, 0, 2).reshape(32, 3),
        einops.rearrange(x, "(p q) b c -> q b (p c)", p=4),
        einops.rearrange(x, "a (p q) c -> (q p) a c", p=2),
        x.reshape(4, 2, 4, 3).mean((1, 2)),
        x.max(0).T,
        jax.scipy.special.logsumexp(x.reshape(8, 2, 2, 3), (0, 2, 3)),
        jnp.broadcast_to(jnp.repeat(x, 2, 0), (2, 16, 4, 3)).transpose(2, 0, 1, 3),
    )


CHANGED = (
    ["major", "minor", "b", None],
    ["ab", None],
    ["ab", None],
    ["q", "b", None],
    ["b", "A", "c"],
    ["p", None],
    [None, "b"],
    ["r"],
    ["b", "d", "A", None],
)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", SOME + PARTITIONER[:1], ids=str)
def test_rearranging(placement):
    # Names of the result are where the shards are, or elsewhere, or nowhere.
    new = {"A": "a", "ab": "a"} if placement.label != "both" else {"A": "a", "p": "a", "r": "b"}
    check(change, change_oracle, (array(8, 4, 3),), (["a", "b", None],), CHANGED, also(placement, new))


@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW[2:4], ids=str)
def test_names_and_positions(placement):
    def body(x, y):
        whole = rearrange(x, "{a} c -> (a c)")
        return rearrange(whole, "(a c) -> {c} {a=a}", a=8), rearrange(y, "{b} (a d) -> {a, b=b} d", d=2), nx.sum(whole * 2)

    def oracle(x, y):
        return x, y.reshape(4, 8, 2).transpose(1, 0, 2), 2 * x.sum()

    check(body, oracle, (array(8, 3), array(4, 16)), (["a", None], ["b", None]), (["a", "c"], ["a", "b", None], []), placement)


# --- what is sent ---------------------------------------------------------------------------------------------------

ITEM = make.zeros(()).dtype.itemsize
SENT = {  # a float[4, 32] of pos and embed, embed on x (4 devices), pos perhaps on y (2 devices)
    "split": ("{embed=(h k)} -> {h, k}", {"h": "x"}, {}),
    "split over two mesh axes": ("{embed=(h k)} -> {h, k}", {"embed": ("x", "y"), "h": "x", "k": "y"}, {}),
    "split and back": ("{embed=(h k)} -> {embed=(h k)}", {}, {}),
    "merge with an unmapped name": ("{embed, pos} -> {both=(embed pos)}", {"both": "x"}, {}),
    "merge of two": ("{embed, pos} -> {both=(embed pos)}", {"embed": ("x", "y"), "both": ("x", "y")}, {}),
    "the minor part": ("{embed=(h k)} -> {h, k}", {"k": "x"}, {"all-to-all": (1, 32 * ITEM)}),
    "the wrong order": ("{embed, pos} -> {both=(pos embed)}", {"both": "x"}, {"all-to-all": (1, 32 * ITEM)}),
    "a transposition": ("{embed=(h k)} -> {embed=(k h)}", {}, {"all-to-all": (1, 32 * ITEM)}),
    "no resources": ("{embed=(h k)} -> {h, k}", {}, {"all-gather": (1, 128 * ITEM)}),
    "to positions": ("{embed} -> embed", {}, {"all-gather": (1, 128 * ITEM)}),
    "to the mesh": ("{pos} -> {q=pos}", {"embed": None, "q": "x"}, {}),
}


def compiled(body, resources, out):
    resources = {name: axes for name, axes in ({"embed": "x"} | resources).items() if axes}
    f = nx.xmap(body, ["pos", "embed"], out, axis_resources=resources, mesh=make_mesh((4, 2)))
    return summary(f.lower(jnp.zeros((4, 32))).compile())


@pytest.mark.fast(4)
@pytest.mark.parametrize("case", SENT)
def test_only_what_is_needed_travels(case):
    pattern, resources, sent = SENT[case]
    sizes = {"h": 4} if "h" in pattern.split("->")[0] else {}
    names = re.findall(r"(\w+)(?:=[^,}]*)?[,}]", pattern.split("->")[1])
    out = [*([] if "pos" in pattern else ["pos"]), *names, ...]
    if case == "to the mesh":
        out = ["embed", "q"]
    assert compiled(lambda x: rearrange(x, pattern, **sizes), resources, out) == sent


def test_a_sum_that_is_wanted_where_it_was_reduced_is_scattered():
    sent = compiled(lambda x: reduce(x, "{embed, pos} -> {q=pos}", "mean"), {"q": "x"}, ["q"])
    assert sent == {"reduce-scatter": (1, 4 * ITEM)}
    assert compiled(lambda x: reduce(x, "{embed, pos} -> {pos}", "sum"), {}, ["pos"]) == {"all-reduce": (1, 4 * ITEM)}
    assert compiled(lambda x: reduce(x, "{embed=(h k)} -> {h}", "sum", h=4), {"h": "x"}, ["pos", "h"]) == {}


def test_the_gradient_of_a_gather_for_varying_use_is_one_reduce_scatter():
    def body(w, x):
        heads = rearrange(w, "{embed=(h k)} -> {h, k}", h=4)
        return nx.sum(nx.dot(x, heads, ("h", "k")), "batch")

    f = nx.xmap(body, (["embed"], ["batch", "h", "k"]), [], axis_resources={"embed": "x", "batch": "x"}, mesh=make_mesh((8,)))
    gradient = jax.jit(jax.grad(f))
    w, x = array(32), array(8, 4, 8)
    np.testing.assert_allclose(gradient(w, x), x.sum(0).reshape(32), rtol=1e-5, atol=1e-5)
    placed = jax.device_put(w, jax.sharding.NamedSharding(make_mesh((8,)), jax.sharding.PartitionSpec("x")))
    assert summary(gradient.lower(placed, x).compile()).get("reduce-scatter") == (1, 32 * ITEM)


# --- patterns -------------------------------------------------------------------------------------------------------


@st.composite
def patterns(draw):
    """An einops pattern over positions, sizes of its axes, and which terms of either side have names."""
    axes = draw(st.permutations("pqrst"))[: draw(st.integers(1, 5))]
    sizes = {axis: draw(st.integers(1, 3)) for axis in axes}

    def grouped(axes):
        terms = []
        rest = list(axes)
        while rest:
            n = draw(st.integers(1, len(rest)))
            terms.append(rest[:n])
            rest = rest[n:]
        return terms

    left, right = grouped(axes), grouped(draw(st.permutations(axes)))
    named = [[draw(st.booleans()) for _ in side] for side in (left, right)]
    return left, right, named, sizes


def text_of(terms, named, prefix):
    """One side with positions only, and with names; the mapping of its names."""

    def product(term):
        return term[0] if len(term) == 1 else f"({' '.join(term)})"

    names = [f"{prefix}{i}" if has_name else None for i, has_name in enumerate(named)]
    plain = " ".join(map(product, terms))
    braces = " ".join(product(t) if n is None else f"{{{n}={product(t)}}}" for t, n in zip(terms, names, strict=True))
    return plain, braces, names


@pytest.mark.full(1)
@pytest.mark.fast(0)
@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(patterns())
def test_any_pattern(drawn):
    left, right, named, sizes = drawn
    plain_left, left_text, left_names = text_of(left, named[0], "in")
    plain_right, right_text, right_names = text_of(right, named[1], "out")
    data = np.arange(np.prod(list(sizes.values()))).reshape([int(np.prod([sizes[a] for a in term])) for term in left])
    want = einops.rearrange(data, f"{plain_left} -> {plain_right}", **sizes)
    with nx_eager():
        have = rearrange(nx.named(jnp.asarray(data), left_names), f"{left_text} -> {right_text}", **sizes)
    assert np.array_equal(nx.positional(have, right_names), want)
    back = rearrange(have, f"{right_text} -> {left_text}", **sizes)
    assert np.array_equal(nx.positional(back, left_names), data)


def nx_eager():
    """Without compiling every pattern."""
    return jax.disable_jit()


EINOPS = [
    ("rearrange", (2, 3, 4), "b h w -> b w h", {}),
    ("rearrange", (2, 3, 4), "a ... -> ... a", {}),
    ("rearrange", (2, 3, 4), "a ... b -> (b ... a)", {}),
    ("rearrange", (2, 1, 4), "a 1 b -> 1 b () a", {}),
    ("rearrange", (6, 4), "(a b) (c d) -> (d a) (b c)", {"a": 2, "d": 2}),
    ("rearrange", (), "-> 1", {}),
    ("reduce", (2, 6, 4), "b (h 2) (w 2) -> b h w", {}),
    ("reduce", (2, 6, 4), "... a -> ...", {}),
    ("reduce", (2, 6, 4), "a b c ->", {}),
    ("repeat", (2, 3), "a b -> a 2 (b 3)", {}),
    ("repeat", (2, 3), "... -> n ...", {"n": 4}),
]


@pytest.mark.fast(0)
@pytest.mark.parametrize(("op", "shape", "pattern", "sizes"), EINOPS, ids=[case[2] for case in EINOPS])
def test_like_einops(op, shape, pattern, sizes):
    function, oracle = {"rearrange": rearrange, "reduce": reduce, "repeat": repeat}[op], getattr(einops, op)
    for reduction in ("sum", "mean", "max", "min", "prod") if op == "reduce" else ((),):
        extra = (reduction,) if op == "reduce" else ()
        np.testing.assert_allclose(
            function(array(*shape), pattern, *extra, **sizes), oracle(array(*shape), pattern, *extra, **sizes), rtol=1e-5
        )


def test_names_that_are_no_identifiers():
    x = nx.named(array(2, 3, 4), [("layer", 0), "d-ff", 1.5])
    assert rearrange(x, "{d-ff} -> {d-ff} 1").dims == (("layer", 0), 1.5, "d-ff", None)
    assert merge_axes(x, (1.5, ("layer", 0)), "m").named_shape["m"] == 8
    assert split_axis(x, 1.5, {("k", 1): 2, "r": 2}).dims == (("layer", 0), "d-ff", ("k", 1), "r")


def test_sizes_come_from_the_mapped_function():
    f = nx.xmap(lambda x, y: split_axis(x, "e", ["h", "k"]) + y, (["e"], ["h"]), ["h", "k"])
    np.testing.assert_array_equal(f(jnp.arange(12), jnp.zeros(3, int)), jnp.arange(12).reshape(3, 4))
    g = nx.xmap(lambda x: repeat(x, "{a} -> {a, n}"), ["a"], ["n", "a"], axis_sizes={"n": 2})
    np.testing.assert_array_equal(g(jnp.arange(3)), jnp.arange(6).reshape(2, 3) % 3)


X = nx.named(make.zeros((2, 12)), [None, "k"])
CARETS = [
    ("a", "there is no '->'", 1),
    ("a -> a -> a", "the pattern has a second '->'", 7),
    ("a {k -> a", "this brace is never closed", 2),
    ("a {k=(p (q))} -> a", "nested parentheses are not supported", 8),
    ("a) -> a", "this parenthesis was never opened", 1),
    ("(a -> a", "this parenthesis is never closed", 0),
    ("a -> a b", "axis 'b' appears on the right only", 7),
    ("a {k} -> a", "axis 'k' appears on the left only", 3),
    ("a a -> a", "axis 'a' appears twice on one side", 2),
    ("{k, k=b} -> b", "name 'k' appears twice on one side", 4),
    ("{k=} -> k", "expected one axis after 'k='", 2),
    ("{k l} -> k l", "'k l' is not an axis name", 2),
    ("{, k} -> k", "expected an axis name here", 1),
    ("a$ -> a", "'a$' is not an axis", 0),
    ("a 2 -> a", "the size 2 is not valid here", 2),
    ("(...) a -> a", "'...' may be in parentheses on the right only", 1),
    ("... a ... -> a", "one side has a second '...'", 6),
]


@pytest.mark.parametrize(("pattern", "why", "at"), CARETS, ids=[case[0] for case in CARETS])
def test_a_caret_stands_under_the_mistake(pattern, why, at):
    with pytest.raises(RearrangeError) as error:
        rearrange(X, pattern)
    head, text, caret = said(error.value).split("\n")
    assert head.startswith(f"rearrange: {why}")
    assert text == f"  {pattern}"
    assert caret == "  " + " " * at + "^"


MISTAKES = [
    (lambda: rearrange(X, "a b -> a b"), RearrangeError, "has 2 positional axes, but f.* has 1"),
    (lambda: rearrange(X, "a {q} -> {q} a"), AxisNotFoundError, "rearrange: no axis 'q'"),
    (lambda: rearrange(X, "a {k=(p q)} -> {p, q} a"), RearrangeError, "'p', 'q' have no size in .*as in p=2"),
    (
        lambda: rearrange(X, "a {k=(p q)} -> {p, q} a", p=5),
        RearrangeError,
        "axis 'k' of size 12 in .* is not p=5 . q .unknown.",
    ),
    (lambda: rearrange(X, "a {k=(p q)} -> {p, q} a", p=5, q=2), RearrangeError, "is not p=5 . q=2"),
    (lambda: rearrange(X, "1 -> "), RearrangeError, "positional axis .* of size 2 in .* is not 1"),
    (lambda: rearrange(X, "a -> a", b=2), RearrangeError, "b=2 gives a size to an axis that is not"),
    (lambda: rearrange(X, "a -> a", a=2.0), RearrangeError, "the size a must be a nonnegative integer, got 2.0"),
    (lambda: rearrange(X, "a -> {k=a}"), RearrangeError, "would have the axis 'k' twice"),
    (lambda: rearrange(X, None), RearrangeError, "the pattern must be a string"),
    (lambda: reduce(X, "a -> ", "median_of"), RearrangeError, "there is no reduction 'median_of'"),
    (lambda: reduce(X, "a -> ", 3), RearrangeError, "the reduction must be a name"),
    (lambda: repeat(X, "a -> a b"), RearrangeError, "the new axis 'b' has no size"),
    (lambda: split_axis(X, "q", {"a": 3}), AxisNotFoundError, "split_axis: no axis 'q'"),
    (lambda: split_axis(X, "k", {"a": 3, "b": 5}), RearrangeError, "split_axis: axis 'k' of size 12 in .* is not a=3 . b=5"),
    (lambda: split_axis(X, "k", "ab"), RearrangeError, "a dict of sizes"),
    (lambda: split_axis(X, "k", {0: 12}), AxisNameError, "0 is not an axis name"),
    (lambda: merge_axes(X, ("k", "k"), "m"), AxisNameError, "appears twice"),
    (lambda: merge_axes(X, "k", "m"), RearrangeError, "the axes must be a tuple"),
    (lambda: merge_axes(X, (), "m"), RearrangeError, "there is no axis to merge"),
    (lambda: merge_axes(X, ("k",), 1), AxisNameError, "1 is not an axis name"),
]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_mistakes_in_a_mapped_function():
    mesh = make_mesh((4, 2))
    x = make.zeros((8, 4))

    def mapped(body, **resources):
        return nx.xmap(body, ["a", "b"], None, axis_resources={"a": "x"} | resources, mesh=mesh)(x)

    with pytest.raises(AxisSizeError, match="split_axis: axis 'b' would have size 2, but it has size 4"):
        mapped(lambda x: split_axis(nx.sum(x, "b"), "a", {"c": 4, "b": 2}))
    with pytest.raises(AxisSizeError, match="reduce: axis 'b' would have size 2, but it has size 4"):
        mapped(lambda x: reduce(x, "{b=(r 2)} -> {b=r}", "sum"))
    with pytest.raises(AxisSizeError, match="rearrange: axis 'c' of size 2 does not divide over mesh axes"):
        mapped(lambda x: rearrange(x, "{a=(c d)} -> {c, d}", c=2), c="x")
    with pytest.raises(PlacementConflictError, match="rearrange: axes 'a' and 'z' meet"):
        mapped(lambda x: rearrange(x, "{b} -> {z=b}"), z="x")
