"""Einsum over positional and named axes computes what `jnp.einsum` does, in every placement, forwards and in gradient."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh, said

# --- in every placement ------------------------------------------------------------------------------
# `s` is an axis that is stored as `a` is; `d` and `e` are never mapped. In the oracles names are lower case, positional axes
# upper case.

CHOSEN = [placement for placement in PLACEMENTS if placement.kind == "auto" or placement in FEW]


def with_stored_axis(placement):
    """`s` where `a` is."""
    idle = placement.shape is not None and len(placement.shape) > len(placement.resources)
    if placement.kind == "explicit" and idle and jax.__version_info__ >= (0, 11):
        # JAX 0.12 cannot lower a reduce-scatter where a mesh axis is left Explicit.
        return placement
    stored = tuple(("s", axes) for name, axes in placement.resources if name == "a")
    return dataclasses.replace(placement, resources=placement.resources + stored)


X = array(8, 5, 4, seed=1)  # a N b
Y = array(4, 6, 3, seed=2)  # b M c
Z = array(5, 8, seed=3)  # N a
W = array(8, 6, 8, seed=4)  # a M d
S = array(3, 8, 5, seed=5)  # c s N
P = np.asarray(array(5, 6, seed=6))  # a NumPy array that the body closes over
AXES = (["a", None, "b"], ["b", None, "c"], [None, "a"], ["a", None, "d"], ["c", "s", None])


def several(x, y, z, w, s):
    return [
        nx.einsum("N{a,b}->{b}", x),
        nx.einsum("N{a,b},M{b,c}->MN{a,c}", x, y),
        # Names that are not mentioned are carried, those that both have as batch axes.
        nx.einsum("N,M->MN", x, y),
        # Every operand in another order; three and four operands, one of them positional.
        nx.einsum("N{a,b},M{b,c},N{a}->M{c}", x, y, z),
        nx.einsum("N{b,a},M{c,b},N{a},NM->{c,a}", x, y, z, P),
        # The same array twice, one axis under another name: scores of every pair.
        nx.einsum("N{a,b},M{p:a,b}->NM{a,p}", x, x),
        # What was summed over makes room for the result: a reduce-scatter where `a` is sharded.
        nx.einsum("N{a,b},M{a,d}->NM{b,s:d}", x, w),
        # Read as unsharded: an all-gather where `s` is sharded; or under the name that it is stored like.
        nx.einsum("N{a,b},N{e:s,c}->{a,b,e,c}", x, s),
        nx.einsum("N{a,b},N{a:s,c}->{b,c}", x, s),
        # `...`, and the implicit form.
        nx.einsum("...{a},...{a,b}->{b}...", z, x),
        nx.einsum("M{b,c},NM", y, P),
    ]


@jax.jit
def oracles(x, y, z, w, s):
    return [
        jnp.einsum("aNb->b", x),
        jnp.einsum("aNb,bMc->MNac", x, y),
        jnp.einsum("aNb,bMc->MNabc", x, y),
        jnp.einsum("aNb,bMc,Na->Mc", x, y, z),
        jnp.einsum("aNb,bMc,Na,NM->ca", x, y, z, P),
        jnp.einsum("aNb,pMb->NMap", x, x),
        jnp.einsum("aNb,aMd->NMbd", x, w),
        jnp.einsum("aNb,ceN->abec", x, s),
        jnp.einsum("aNb,caN->bc", x, s),
        jnp.einsum("Na,aNb->bN", z, x),
        jnp.einsum("bMc,NM->Nbc", y, P),
    ]


OUT_AXES = [
    ["b"],
    [None, None, "a", "c"],
    [None, None, "a", "b", "c"],
    [None, "c"],
    ["c", "a"],
    [None, None, "a", "p"],
    [None, None, "b", "s"],
    ["a", "b", "e", "c"],
    ["b", "c"],
    ["b", None],
    [None, "b", "c"],
]


@pytest.mark.fast(2)
@pytest.mark.full(0)
@pytest.mark.parametrize("placement", [*CHOSEN, PARTITIONER[3]], ids=str)
def test_in_every_placement(placement):
    check(several, oracles, (X, Y, Z, W, S), AXES, OUT_AXES, with_stored_axis(placement), tol=1e-4)


# Those with nothing but `a`.
ONLY_A = [placement for placement in FEW if set(dict(placement.resources)) <= {"a"}]


@pytest.mark.parametrize("placement", ONLY_A, ids=str)
def test_numbers_of_other_types(placement):
    """Integers are exact, truth values stay truth values, and types promote as in `jnp.einsum`, over all operands at once."""
    small = array(8, 5, seed=1, kind="int").astype(jnp.int8) * 10  # products overflow
    large = array(8, 4, seed=2, kind="int") * 1000
    truth = array(8, 5, seed=3, kind="bool")
    real = array(8, 4, seed=4).astype(jnp.bfloat16)

    def body(i, j, b, r):
        return [
            nx.einsum("N{a},M{a}->NM", i, j),
            nx.einsum("N{a},N{a},M{a}->M", i, i, j),
            nx.einsum("N{a}->N", i),
            nx.einsum("N{a},N{a}->N", i, i, preferred_element_type=jnp.int32),
            nx.einsum("N{a},N{a}->N{a}", i, i, preferred_element_type=jnp.int32),
            nx.einsum("N{a}->N", b),
            nx.einsum("N{a},P{a}->NP", b, b),
            nx.einsum("N{a},M{a}->NM{a}", b, r),
            nx.einsum("M{a},->M{a}", r, 3.0),
            nx.einsum(",->", 2, 3.0),
        ]

    def oracle(i, j, b, r):
        return [
            jnp.einsum("aN,aM->NM", i, j),
            jnp.einsum("aN,aN,aM->M", i, i, j),
            jnp.einsum("aN->N", i),
            jnp.einsum("aN,aN->N", i, i, preferred_element_type=jnp.int32),
            jnp.einsum("aN,aN->Na", i, i, preferred_element_type=jnp.int32),
            jnp.einsum("aN->N", b),
            jnp.einsum("aN,aP->NP", b, b),
            jnp.einsum("aN,aM->NMa", b, r),
            jnp.einsum("aM->Ma", r * 3.0),
            jnp.asarray(6.0),
        ]

    out_axes = [[...]] * 4 + [[None, "a"]] + [[...]] * 2 + [[None, None, "a"], [None, "a"], []]
    out_axes = [{} if axes == [...] else axes for axes in out_axes]
    check(body, oracle, (small, large, truth, real), ["a", None], out_axes, placement, grad=False)


@pytest.mark.fast(0)
def test_accumulation():
    """The type to accumulate in counts from the first sum on, sharded or not."""
    x = make.asarray(np.full((8, 4096), 1.0), jnp.bfloat16)
    for placement in ONLY_A:
        f = nx.xmap(lambda x: nx.einsum("N{a}->", x, preferred_element_type=jnp.float32), ["a", None], [], **placement.options)
        with placement.context():
            result = f(x)
        assert result.dtype == jnp.float32
        assert result == 8 * 4096
    assert nx.einsum("i,i->", x[0], x[0], preferred_element_type=jnp.float32) == 4096


def test_precision_reaches_dot_general():
    (eqn,) = equations(lambda x: nx.einsum("{a,k},{b,k}->{a,b}", x, nx.rename(x, {"a": "b"}), precision="highest"))
    assert set(eqn.params["precision"]) == {jax.lax.Precision.HIGHEST}
    (eqn,) = equations(lambda x: nx.dot(x, nx.rename(x, {"a": "b"}), "k", precision=jax.lax.Precision.HIGH))
    assert set(eqn.params["precision"]) == {jax.lax.Precision.HIGH}


@pytest.mark.fast(0)
def test_weak_types():
    """As `jnp.einsum`: weak with weak is weak, and gives way to the next operand."""
    weak, number = jnp.broadcast_to(2.0, (3,)), jnp.broadcast_to(3, (3,))
    strong = make.ones(3, jnp.bfloat16)
    assert weak.weak_type
    assert number.weak_type
    pairs = [(weak, weak), (weak, number), (weak, strong), (number, strong), (number, number)]
    for spec in ("i,i->", "i,i->i", "i,j->ij"):
        for operands in pairs:
            have, want = nx.einsum(spec, *operands), jnp.einsum(spec, *operands)
            assert (have.dtype, have.weak_type) == (want.dtype, want.weak_type), (spec, operands)
            np.testing.assert_array_equal(have, want)
    assert nx.einsum("i,->i", strong, 3.0).dtype == jnp.bfloat16


# --- positional einsum -------------------------------------------------------------------------------

POSITIONAL = [
    "ij->ji",
    "ii->i",
    "ii->",
    "ij->",
    "ij",
    "ba",
    "Ba",
    "ii,ij->j",
    "iij->ij",
    "iji->j",
    "ij,jk",
    "ij,kj->ik",
    "ij,ij->ij",
    "ij,ij->",
    "i,j->ji",
    "i,i,i->",
    "ij,jk,kl->il",
    "ij,jk,kl,lm->im",
    "ij,jk,ki->",
    "...ij,...jk->...ik",
    "i...,i...->...",
    "...,...->...",
    "...i->i...",
    "...ii->...i",
    "...,i->i...",
    "...ij,jk",
]


@pytest.mark.fast(10)
@pytest.mark.parametrize("spec", POSITIONAL)
def test_positional(spec):
    """Plain arrays, all sizes different; `...` stands for two axes, for one or two, for none or one, some of size 1."""
    sizes = dict(zip("ijklmabB", (2, 3, 4, 5, 6, 7, 8, 9), strict=True))
    for shapes in [[(1, 3), (2, 1)], [(2, 3), (3,)], [(), (2,)]]:
        operands = []
        for n, term in enumerate(spec.split("->")[0].split(",")):
            extra = shapes[n] if spec.count("...") > 1 else shapes[0]
            shape = [size for char in term.replace("...", "_") for size in (extra if char == "_" else (sizes[char],))]
            operands.append(array(*shape, seed=n))
        want = jnp.einsum(spec, *operands)
        np.testing.assert_allclose(nx.einsum(spec, *operands), want, rtol=1e-5, atol=1e-5)
        assert type(nx.einsum(spec, *operands)) is type(want)
        if "..." not in spec:
            break


def test_other_operands():
    """NumPy arrays, lists and Python numbers, by themselves and beside named arrays; empty axes."""
    x = nx.named(array(2, 3), ["a", None])
    np.testing.assert_allclose(nx.einsum("i{a},i->{a}", x, np.arange(3.0)).data, x.data @ np.arange(3.0), rtol=1e-6)
    np.testing.assert_allclose(nx.einsum("i{a},i->{a}", x, [0.0, 1.0, 2.0]).data, x.data @ np.arange(3.0), rtol=1e-6)
    np.testing.assert_allclose(nx.einsum("i{a},->i{a}", x, 2.0).data, 2 * x.data, rtol=1e-6)
    assert nx.einsum("i,i->", np.arange(3), np.arange(3)) == 5
    assert nx.einsum("ij,jk->ik", jnp.ones((2, 0)), jnp.ones((0, 3))).tolist() == [[0.0] * 3] * 2
    assert nx.einsum("ij,jk,kl->il", jnp.ones((2, 0)), jnp.ones((0, 3)), jnp.ones((3, 4))).tolist() == [[0.0] * 4] * 2
    # Names that are not strings cannot be mentioned, but are carried.
    y = nx.rename(x, {"a": ("layer", 0)})
    assert nx.einsum("i,i->", y, y).dims == (("layer", 0),)


def test_plain_arrays_come_back():
    x = nx.named(array(2, 3), ["a", "b"])
    assert isinstance(nx.einsum("{a,b}->", x), jax.Array)
    assert isinstance(nx.einsum("ij->i", x.data), jax.Array)


def test_physical_orders():
    """The order in which dims are stored never shows in a value, and letters stand as the result says."""
    x, y = array(2, 3, 4, 5), array(4, 2, 6, 7)
    want = jnp.einsum("aibj,bakl->jlabik", x, y)
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
        dims = tuple((("a", "i", "b", "j")[i] if i in (0, 2) else None) for i in order)
        # The letters of an operand follow its positional axes as they are stored.
        letters = "".join("ij"[i // 2] for i in order if i in (1, 3))
        shuffled = nx.named(x.transpose(order), list(dims))
        result = nx.einsum(f"{letters}{{a,b}},kl{{b,a}}->jl{{a,b}}ik", shuffled, nx.named(y, ["b", "a", None, None]))
        np.testing.assert_allclose(nx.positional(result, [None, None, "a", "b", ...]), want, rtol=1e-5, atol=1e-5)


# --- what it becomes ---------------------------------------------------------------------------------


def equations(f, *args, kind="dot_general"):
    """The equations of one primitive in the jaxpr of `f`, in inner jaxprs too."""
    x = nx.named(array(3, 4), ["a", "k"])
    found = []

    def visit(jaxpr):
        for eqn in jaxpr.eqns:
            found.extend([eqn] if eqn.primitive.name == kind else [])
            for value in eqn.params.values():
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    visit(inner)

    visit(jax.make_jaxpr(f)(*(args or (x,))).jaxpr)
    return found


BIG = nx.named(array(3, 5, 4), ["b", None, "k"])
WEIGHT = nx.named(array(4, 6), ["k", "m"])
BIAS = nx.named(array(6, 2), ["m", "n"])

# The specification, its operands, and how many times arrays are multiplied and transposed.
WORK = {
    "matrix": ("N{b,k},{k,m}->N{b,m}", (BIG, WEIGHT), 1, 0),
    "matrix-stored-transposed": ("{k,m},N{b,k}->N{b,m}", (WEIGHT, BIG), 1, 0),
    "batched": ("N{b,k},P{b,k}->{b}NP", (BIG, BIG), 1, 0),
    "over-all": ("N{b,k},N{b,k}->", (BIG, BIG), 1, 0),
    "renamed": ("N{b,k},M{c:b,k}->NM{b,c}", (BIG, BIG), 1, 0),
    "three": ("N{b,k},{k,m},{m,n}->N{b,n}", (BIG, WEIGHT, BIAS), 2, 0),
    "four": ("N{b,k},{k,m},{m,n},N->{b,n}", (BIG, WEIGHT, BIAS, array(5)), 3, 0),
    # What one operand alone has is summed before.
    "summed-before": ("N{b,k},{k,m}->N", (BIG, WEIGHT), 1, 0),
    # Letters in another order than they are stored: one transpose, of the result.
    "letters-turned": ("N{b,k},M{c:b,k}->MN{b,c}", (BIG, BIG), 1, 1),
}


@pytest.mark.parametrize("name", WORK)
def test_work(name):
    spec, operands, products, transposes = WORK[name]
    program = lambda *xs: nx.einsum(spec, *xs)  # noqa: E731
    assert len(equations(program, *operands)) == products
    assert len(equations(program, *operands, kind="transpose")) == transposes


def test_no_sum_is_a_multiplication():
    program = lambda x, w: nx.einsum("N{b,k},{k,m}->N{b,k,m}", x, w)  # noqa: E731
    assert len(equations(program, BIG, WEIGHT)) == 0
    assert len(equations(program, BIG, WEIGHT, kind="mul")) == 1


def test_the_order_of_three_is_the_cheapest():
    """A vector goes through two matrices; the matrices never meet."""
    a, b = nx.named(array(30, 40), ["i", "j"]), nx.named(array(40, 50), ["j", "k"])
    v = nx.named(array(50), ["k"])
    first, second = equations(lambda a, b, v: nx.einsum("{i,j},{j,k},{k}->{i}", a, b, v), a, b, v)
    assert (first.outvars[0].aval.shape, second.outvars[0].aval.shape) == ((40,), (30,))


# --- meetings that cannot be, and those that can be avoided -----------------------------------------


def mapped(body, in_axes, out_axes, resources, **options):
    return nx.xmap(body, in_axes, out_axes, axis_resources=resources, mesh=make_mesh((4, 2)), **options)


def conflict(op, first, second):
    return (
        f"{op}: axes {first!r} and {second!r} meet in one value, but both are mapped to mesh axis 'x', which can hold only one "
        "of them. Rename one of them to an axis that is not on 'x' first (nx.rename, or {new:old} in einsum: this "
        "communicates), or change axis_resources."
    )


# The specification, its operands with their names, and which names meet; `a` and `c` are on one mesh axis.
CONFLICTS = {
    "operands": ("{a,k},{k,c}->{a,c}", ["ak", "kc"], ("a", "c")),
    "summed-with-kept": ("{a,k},{a:d,c,k}->{c}", ["ak", "dck"], ("a", "c")),
    "kept-with-summed": ("{c,k},{c:d,a,k}->{a}", ["ck", "dak"], ("c", "a")),
    "read": ("{a,c:k}->{a,c}", ["ak"], ("a", "c")),
    "written": ("{a,k}->{c:k,a}", ["ak"], ("a", "c")),
    "carried": (",->", ["a", "c"], ("a", "c")),
}


@pytest.mark.parametrize("partitioning", ["manual", "auto"])
@pytest.mark.parametrize("name", CONFLICTS)
def test_two_names_on_one_mesh_axis(name, partitioning):
    spec, operands, names = CONFLICTS[name]
    f = mapped(
        lambda *xs: [nx.einsum(spec, *xs), nx.arange("c")][1:],
        tuple(map(list, operands)),
        [["c"]],
        {"a": "x", "c": "x"},
        axis_sizes={"c": 4},
        partitioning=partitioning,
    )
    with pytest.raises(nx.errors.PlacementConflictError) as caught:
        f(*(make.ones([4] * len(dims)) for dims in operands))
    assert said(caught.value) == conflict(f"einsum {spec!r}", *names)


def test_summed_before_it_meets():
    args = array(8, 4), array(8, 4)
    f = mapped(lambda p, q: nx.einsum("{a,k},{c,k}->{a,k}", p, q), (["a", "k"], ["c", "k"]), ["a", "k"], {"a": "x", "c": "x"})
    np.testing.assert_allclose(f(*args), jnp.einsum("ak,ck->ak", *args), rtol=1e-5, atol=1e-5)


def test_an_order_without_a_meeting_is_found():
    """The cheapest order makes `a` and `c` meet, on one mesh axis; another one sums over `a` before."""
    args = array(8, 2), array(8, 16), array(16, 4), array(4, 2)
    spec = "{i,a},{a,k},{k,c},{c,j}->{i,j}"
    in_axes = (["a", "i"], ["a", "k"], ["k", "c"], ["c", "j"])
    f = mapped(lambda p, q, r, s: nx.einsum(spec, p, q, r, s), in_axes, ["i", "j"], {"a": "x", "c": "x"})
    np.testing.assert_allclose(f(*args), jnp.einsum("ai,ak,kc,cj->ij", *args), rtol=1e-4, atol=1e-4)


def test_sums_over_one_mesh_axis_do_not_wait_for_each_other():
    """The product of two sums over `x`; if both waited for the reduce-scatter, it would be a sum of products."""
    args = array(8, 3), array(4, 8), array(8)
    f = mapped(
        lambda p, q, r: (
            nx.einsum("{a,i},{c,j}->{i,s:j}", p, q),
            nx.einsum("{a,i},{c,j},{a}->{i,s:j}", p, q, r),
            nx.einsum("{b:a,i},{c,j}->{i,s:j}", p, q),
        ),
        (["a", "i"], ["c", "j"], ["a"]),
        ["i", "s"],
        {"a": "x", "c": "x", "s": "x"},
    )
    want = (jnp.einsum("ai,cj->ij", *args[:2]), jnp.einsum("ai,cj,a->ij", *args), jnp.einsum("ai,cj->ij", *args[:2]))
    for have, wanted in zip(f(*args), want, strict=True):
        np.testing.assert_allclose(have, wanted, rtol=1e-4, atol=1e-4)


def test_gathered_beside_what_is_summed_away():
    """`p` is gathered over `x`, where other operands vary until they are summed: the result is the same on all devices."""
    args = array(8), array(8), array(8, 3)
    f = mapped(
        lambda k, q, p: nx.einsum("{a},{a},{p:s,i}->{p,i}", k, q, p),
        (["a"], ["a"], ["s", "i"]),
        ["p", "i"],
        {"a": "x", "s": "x"},
    )
    np.testing.assert_allclose(f(*args), jnp.einsum("a,a,si->si", *args), rtol=1e-4, atol=1e-4)


# --- sizes of new names ------------------------------------------------------------------------------

NEW_NAMES = {
    "read": (
        "{b:a,c}->{b,c}",
        "axis 'a' of size 8 cannot be read as 'b', which has size 12 in this mapped function; a name has one size. Choose "
        "another name.",
    ),
    "written": (
        "{a,c}->{b:a,c}",
        "axis 'a' of size 8 cannot be written as 'b', which has size 12 in this mapped function; a name has one size. Choose "
        "another name.",
    ),
}


@pytest.mark.parametrize("name", NEW_NAMES)
def test_new_names(name):
    spec, why = NEW_NAMES[name]
    f = mapped(lambda v: nx.einsum(spec, v), ["a", "c"], [], {"b": "x"}, axis_sizes={"b": 12})
    with pytest.raises(nx.errors.AxisSizeError) as caught:
        f(array(8, 6))
    assert said(caught.value) == f"einsum {spec!r}: {why}"


# --- random specifications ---------------------------------------------------------------------------

LETTERS = {"i": 2, "j": 3, "k": 5}
NAMES = {"a": 8, "b": 4, "c": 12, "d": 16}
MESH_AXES = [(), ("x",), ("y",), ("x", "y"), ("y", "x")]


@dataclasses.dataclass
class Case:
    """A specification with its operands' dims, and the same for `jnp.einsum`, where names are upper-case letters."""

    spec: str
    operands: list[tuple]  # dims of every operand
    shapes: list[tuple]
    plain: str
    out_dims: list
    read: list[frozenset]  # names of every operand as they are read, without those that are summed in it
    resources: dict

    def __repr__(self):
        return f"{self.spec!r} on {self.operands} with {self.resources}"


@st.composite
def cases(draw, least_operands=1):
    everything = {**LETTERS, **NAMES}
    count = draw(st.integers(least_operands, 3))
    carried = draw(st.sets(st.sampled_from("cd"), max_size=1))
    labels = [draw(st.lists(st.sampled_from("ijkabcd"), min_size=least_operands - 1, max_size=4)) for _ in range(count)]
    # A name stands once in an operand, a letter may stand twice.
    labels = [[v for n, v in enumerate(ls) if v in LETTERS or v not in ls[:n]] for ls in labels]
    present = sorted({v for ls in labels for v in ls})
    kept = [v for v in present if v in carried or draw(st.booleans())]
    kept = draw(st.permutations(kept))
    resources, spec_terms, dims, read = {}, [], [], []
    for n, ls in enumerate(labels):
        letters, names, own, seen = "", [], [], set()
        for v in ls:
            if v in LETTERS:
                letters, own = letters + v, [*own, None]
                continue
            stored = v
            if v not in carried and draw(st.integers(0, 2)) == 0:
                stored = f"{v}{n}"
            names += [v if stored == v else f"{v}:{stored}"] if v not in carried else []
            own.append(stored)
            seen.add(v)
        others = {v for m, other in enumerate(labels) if m != n for v in other} | set(kept)
        read.append(frozenset(seen & others))
        spec_terms.append(f"{letters}{{{','.join(draw(st.permutations(names)))}}}")
        dims.append(tuple(own))
    out_names, out_dims = [], []
    for v in kept:
        if v in LETTERS:
            out_dims.append(None)
            continue
        new = v if v in carried or draw(st.integers(0, 2)) else f"{v}_out"
        out_names += [v if new == v else f"{new}:{v}"] if v not in carried else []
        out_dims.append(new)
    spec = ",".join(spec_terms) + "->" + "".join(v for v in kept if v in LETTERS) + f"{{{','.join(out_names)}}}"
    for name in sorted({d for own in (*dims, out_dims) for d in own if d} | {v for ls in labels for v in ls if v in NAMES}):
        axes = draw(st.sampled_from(MESH_AXES))
        if axes:
            resources[name] = axes
    shapes = [tuple(everything[v] for v in ls) for ls in labels]
    plain = ",".join("".join(ls) for ls in labels) + "->" + "".join(kept)
    return Case(spec, dims, shapes, plain, out_dims, read, resources)


def clashes(names, resources):
    used = [axis for name in set(names) for axis in resources.get(name, ())]
    return len(used) != len(set(used))


def compare(case, options, grad):
    args = [array(*shape, seed=n) for n, shape in enumerate(case.shapes)]
    f = nx.xmap(lambda *xs: nx.einsum(case.spec, *xs), tuple(map(list, case.operands)), case.out_dims, **options)
    g = lambda *xs: jnp.einsum(case.plain, *xs)  # noqa: E731
    want = g(*args)
    weights = array(*want.shape, seed=9)

    def both(f):
        value = lambda *xs: jnp.sum(f(*xs) * weights)  # noqa: E731
        return jax.jit(lambda *xs: (f(*xs), jax.grad(value, tuple(range(len(xs))))(*xs) if grad else ()))

    for have, wanted in zip(jax.tree.leaves(both(f)(*args)), jax.tree.leaves(both(g)(*args)), strict=True):
        assert have.dtype == wanted.dtype
        np.testing.assert_allclose(have, wanted, rtol=1e-3, atol=1e-3 * (1 + np.abs(wanted).max(initial=0)))


@pytest.mark.full(0)
@pytest.mark.fast(0)
@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(cases())
def test_random_specifications(case):
    compare(case, {}, grad=False)


@pytest.mark.fast(0)
@hypothesis.settings(max_examples=12, deadline=None, derandomize=True)
@hypothesis.given(cases(least_operands=2))
def test_random_specifications_and_assignments(case):
    resources = case.resources
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:4])
    hypothesis.assume(not any(clashes(dims, resources) for dims in (*case.operands, case.out_dims)))
    options = {"axis_resources": resources, "mesh": mesh}
    together = [clashes(a | b, resources) for a in case.read for b in case.read]
    if not any(together):
        compare(case, options, grad=True)
        return
    # Two names on one mesh axis: no value may ever have both.
    try:
        compare(case, options, grad=True)
    except nx.errors.PlacementConflictError as error:
        hypothesis.note(str(error))
    else:
        assert len(case.read) > 2
