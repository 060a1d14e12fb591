"""Renaming is resharding: the values stay, what moves is what the docstring says, and the gradients cost their transposes."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.resources.layout import Cut, Exchange, Gather, Permute, plan
from tests.harness import PARTITIONER, PLACEMENTS, array, check, make_mesh, said

GATHER, EXCHANGE, PERMUTE = "all-gather", "all-to-all", "collective-permute"
REDUCE, SCATTER = "all-reduce", "reduce-scatter"

# Both sizes divide over both mesh axes together, and no block has two equal sizes.
VALUE = np.random.default_rng(0).normal(size=(16, 24, 3)).astype(np.float32)
ONE_AXIS = [None, "x", "y", ("x", "y"), ("y", "x")]


def moved(names, resources, mesh, out_axes=("c", "d")):
    """A function that renames the first two axes, and what it communicates."""
    f = nx.xmap(
        lambda v: nx.rename(v, names),
        {0: "a", 1: "b"},
        dict(enumerate(out_axes)),
        axis_resources={name: axes for name, axes in resources.items() if axes},
        mesh=mesh,
    )
    return f, dict(hlo.summary(f.lower(VALUE).compile()))


# --- one axis: every pair of placements --------------------------------------------------------------

BYTES = VALUE.nbytes
M, N = 4, 2  # the sizes of x and y

# Of an axis that goes from one placement to another; what is missing here sends nothing.
COSTS = {
    ("x", None): {GATHER: (1, BYTES)},
    ("y", None): {GATHER: (1, BYTES)},
    (("x", "y"), None): {GATHER: (1, BYTES)},
    (("y", "x"), None): {GATHER: (1, BYTES)},
    # Each device permutes one of the eight parts, and gathers those that make up its new block.
    ("x", "y"): {PERMUTE: (1, BYTES // 8), GATHER: (1, BYTES // N)},
    ("y", "x"): {PERMUTE: (1, BYTES // 8), GATHER: (1, BYTES // M)},
    (("x", "y"), "y"): {PERMUTE: (1, BYTES // 8), GATHER: (1, BYTES // N)},
    (("y", "x"), "x"): {PERMUTE: (1, BYTES // 8), GATHER: (1, BYTES // M)},
    (("x", "y"), "x"): {GATHER: (1, BYTES // M)},
    (("y", "x"), "y"): {GATHER: (1, BYTES // N)},
    ("x", ("y", "x")): {PERMUTE: (1, BYTES // 8)},
    ("y", ("x", "y")): {PERMUTE: (1, BYTES // 8)},
    (("x", "y"), ("y", "x")): {PERMUTE: (1, BYTES // 8)},
    (("y", "x"), ("x", "y")): {PERMUTE: (1, BYTES // 8)},
}


@pytest.mark.fast(1)
@pytest.mark.parametrize("old", ONE_AXIS, ids=str)
def test_one_axis(old):
    mesh = make_mesh((M, N))
    for new in ONE_AXIS:
        f, sent = moved({"a": "c"}, {"a": old, "c": new}, mesh, ("c", "b"))
        assert sent == COSTS.get((old, new), {}), (old, new)
        np.testing.assert_array_equal(f(VALUE), VALUE, err_msg=f"{old} to {new}")


@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize(("old", "new"), [(None, "x"), ("x", None), ("x", "x")], ids=str)
def test_one_mesh_axis(old, new, kind):
    f, sent = moved({"a": "c"}, {"a": old, "c": new}, make_mesh((8,), kind), ("c", "b"))
    assert sent == ({GATHER: (1, BYTES)} if new is None else {})
    np.testing.assert_array_equal(f(VALUE), VALUE)


# --- two axes ----------------------------------------------------------------------------------------

TWO_AXES = {
    # One axis leaves what the other goes onto: one exchange for both.
    "exchange": ("x", None, None, "x", {EXCHANGE: (1, BYTES // M)}),
    "exchange-of-two": (("x", "y"), None, None, ("x", "y"), {EXCHANGE: (1, BYTES // 8)}),
    "exchange-beside-another": ("x", "y", None, ("y", "x"), {EXCHANGE: (1, BYTES // 8)}),
    # A part of the mesh axes changes the dimension.
    "exchange-of-the-minor": (("x", "y"), None, "x", "y", {EXCHANGE: (1, BYTES // 8)}),
    # The exchange comes first, while the blocks are small.
    "exchange-then-gather": (("x", "y"), None, None, "x", {EXCHANGE: (1, BYTES // 8), GATHER: (1, BYTES // M)}),
    "cut-then-exchange": ("x", None, None, ("x", "y"), {EXCHANGE: (1, BYTES // 8)}),
    # Mesh axes of unequal sizes change places by way of one dimension that has both.
    "swap": ("x", "y", "y", "x", {EXCHANGE: (3, 3 * BYTES // 8)}),
    "both-gathered": ("x", "y", None, None, {GATHER: (2, BYTES + BYTES // M)}),
    "both-cut": (None, None, "y", "x", {}),
}


@pytest.mark.parametrize("name", TWO_AXES)
def test_two_axes(name):
    a, b, c, d, expected = TWO_AXES[name]
    f, sent = moved({"a": "c", "b": "d"}, {"a": a, "b": b, "c": c, "d": d}, make_mesh((M, N)))
    np.testing.assert_array_equal(f(VALUE), VALUE)
    assert sent == expected


def test_swap_of_names():
    """On mesh axes of equal size blocks trade places in one permute; with the names, nothing moves."""
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(jax.sharding.AxisType.Auto,) * 3)
    resources = {"a": "x", "b": "y", "c": "y", "d": "x"}
    f, sent = moved({"a": "c", "b": "d"}, resources, mesh)
    np.testing.assert_array_equal(f(VALUE), VALUE)
    assert sent == {PERMUTE: (1, BYTES // 4)}
    resources = {"a": "x", "b": "y", "c": "x", "d": "y"}
    f, sent = moved({"a": "c", "b": "d"}, resources, mesh)
    np.testing.assert_array_equal(f(VALUE), VALUE)
    assert sent == {}


def test_three_mesh_axes():
    """Layouts that permute devices in more than pairs."""
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(jax.sharding.AxisType.Auto,) * 3)
    ways = [
        (("z", "x", "y"), None, ("y", "z", "x"), None),
        (("y", "z"), "x", ("z", "x"), "y"),
        ("z", ("y", "x"), "x", ("z", "y")),
        (("z", "y"), "x", "y", ("x", "z")),
    ]
    for a, b, c, d in ways:
        f, sent = moved({"a": "c", "b": "d"}, {"a": a, "b": b, "c": c, "d": d}, mesh)
        np.testing.assert_array_equal(f(VALUE), VALUE, err_msg=f"{a}, {b} to {c}, {d}")
        assert sent


def test_physical_order():
    """Positional axes between the names, and names in another order, change neither values nor costs."""
    mesh = make_mesh((M, N))
    value = np.moveaxis(VALUE, 2, 1)
    f = nx.xmap(
        lambda v: nx.rename(v, {"a": "c", "b": "d"}),
        ["a", None, "b"],
        ["d", "c", None],
        axis_resources={"a": "x", "d": "x"},
        mesh=mesh,
    )
    np.testing.assert_array_equal(f(value), VALUE.transpose(1, 0, 2))
    assert hlo.summary(f.lower(value).compile()) == {EXCHANGE: (1, BYTES // M)}


@pytest.mark.fast(0)
def test_all_ways_keep_the_values():
    """Every layout of two axes on two mesh axes, to every other."""
    layouts = [(a, b) for a, b in itertools.product(ONE_AXIS, ONE_AXIS) if set(a or ()).isdisjoint(b or ())]
    mesh = make_mesh((2, 4))
    for old in layouts[::3]:
        resources = {"a": old[0], "b": old[1]}
        for i, new in enumerate(layouts):
            resources |= {f"c{i}": new[0], f"d{i}": new[1]}
        results = nx.xmap(
            lambda v: [nx.rename(v, {"a": f"c{i}", "b": f"d{i}"}) for i in range(len(layouts))],
            {0: "a", 1: "b"},
            [{0: f"c{i}", 1: f"d{i}"} for i in range(len(layouts))],
            axis_resources={name: axes for name, axes in resources.items() if axes},
            mesh=mesh,
        )(VALUE)
        for new, result in zip(layouts, results, strict=True):
            np.testing.assert_array_equal(result, VALUE, err_msg=f"{old} to {new}")


def test_blocks_that_do_not_divide_further():
    """Four entries lie on four devices; they cannot be cut in eight, so they are gathered and then cut."""
    value = VALUE[:4]
    f = nx.xmap(
        lambda v: nx.rename(v, {"a": "c"}), ["a", ...], ["c", ...], axis_resources={"a": "x", "c": "y"}, mesh=make_mesh((M, N))
    )
    np.testing.assert_array_equal(f(value), value)
    assert hlo.summary(f.lower(value).compile()) == {GATHER: (1, value.nbytes)}


# --- the plan ----------------------------------------------------------------------------------------


def test_plan():
    sizes = (("x", 2), ("y", 2), ("z", 3))
    assert plan((6, 5), (("x",), ()), (("x",), ()), sizes) == ()
    assert plan((6, 12), (("x",), ()), ((), ("x",)), sizes) == (Exchange(0, 1, ("x",)),)
    assert plan((6, 12), (("x", "z"), ()), (("x",), ()), sizes) == (Gather(0, ("z",)),)
    assert plan((6, 12), ((), ()), ((), ("z",)), sizes) == (Cut(1, ("z",)),)
    # Device (i, j) of x and y holds block (i, j), and gets block (j, i).
    swap = Permute(("x", "y"), ((0, 0), (1, 2), (2, 1), (3, 3)))
    assert plan((5, 7), (("x",), ("y",)), (("y",), ("x",)), sizes) == (swap,)


def test_plan_of_empty_blocks():
    assert plan((0, 4), (("x",), ()), ((), ("x",)), (("x", 2),))


# --- gradients ---------------------------------------------------------------------------------------

BACKWARD = {
    "gathered": ("x", None, {REDUCE: 0, SCATTER: 0, GATHER: 0}),
    "cut": (None, "x", {GATHER: BYTES}),
    "permuted": (("x", "y"), ("y", "x"), {PERMUTE: BYTES // 8}),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_transpose(name):
    """What the transpose of a rename sends by itself: it is linear, so the forward pass is not needed for it."""
    old, new, expected = BACKWARD[name]
    f, _ = moved({"a": "c"}, {"a": old, "c": new}, make_mesh((M, N)), ("c", "b"))
    transpose = jax.jit(lambda ct: jax.linear_transpose(f, VALUE)(ct)[0])
    ct = VALUE + 1
    np.testing.assert_array_equal(transpose(ct), ct)
    sent = {kind: size for kind, (_, size) in hlo.summary(transpose.lower(ct).compile()).items()}
    assert sent == {kind: size for kind, size in expected.items() if size}


@pytest.mark.fast(0)
def test_gradient_in_every_placement():
    mesh = make_mesh((2, 4))
    weights = np.random.default_rng(1).normal(size=VALUE.shape).astype(np.float32)
    pairs = [("x", "y"), (("x", "y"), "y"), ("y", ("x", "y")), (None, ("y", "x")), (("x", "y"), None)]
    for old, new in pairs:
        resources = {name: axes for name, axes in (("a", old), ("c", new)) if axes}
        f = nx.xmap(lambda v: nx.sin(nx.rename(v, {"a": "c"})), ["a", ...], ["c", ...], axis_resources=resources, mesh=mesh)
        gradient = jax.jit(jax.grad(lambda v, f=f: jnp.sum(f(v) * weights)))
        np.testing.assert_allclose(gradient(VALUE), np.cos(VALUE) * weights, rtol=1e-5, atol=1e-6, err_msg=f"{old} to {new}")


def test_forward_mode_and_vmap():
    options = {"axis_resources": {"a": "x", "d": "x"}, "mesh": make_mesh((M, N))}
    f = nx.xmap(lambda v: nx.rename(v, {"a": "c", "b": "d"}) ** 2, {0: "a", 1: "b"}, {0: "c", 1: "d"}, **options)
    primal, tangent = jax.jit(lambda v: jax.jvp(f, (v,), (v + 1,)))(VALUE)
    np.testing.assert_allclose(primal, VALUE**2, rtol=1e-6)
    np.testing.assert_allclose(tangent, 2 * VALUE * (VALUE + 1), rtol=1e-6)
    stacked = np.stack([VALUE, VALUE + 1])
    np.testing.assert_allclose(jax.vmap(f)(stacked), stacked**2, rtol=1e-6)


# --- unmapped, and mistakes --------------------------------------------------------------------------


def test_names_only():
    x = nx.named(jnp.asarray(VALUE), ["a", "b", None])
    y = nx.rename(x, {"a": "b", "b": "a"})
    assert y.dims == ("b", "a", None)
    np.testing.assert_array_equal(y.data, VALUE)
    assert nx.rename(x, {}) is x
    assert nx.rename(x, {"a": "a"}) is x
    assert nx.rename(x, {"a": ("layer", 0)}).dims == (("layer", 0), "b", None)


MISTAKES = {
    "unknown": (
        {"bacth": "c"},
        nx.errors.AxisNotFoundError,
        "rename: no axis 'bacth' in f32[3]{batch:16, b:24}; its named axes are 'batch', 'b'. Did you mean 'batch'?",
    ),
    "positional": (
        {"batch": 0},
        nx.errors.AxisNameError,
        "rename: 0 is not an axis name. To make 'batch' positional, write nx.untag(x, ['batch']).",
    ),
    "twice": (
        {"batch": "b"},
        nx.errors.AxisNameError,
        "rename: axis 'b' appears twice in ('b', 'b', None); one array has an axis at most once. Rename one of them.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    names, error, message = MISTAKES[name]
    with pytest.raises(error) as caught:
        nx.rename(nx.named(jnp.asarray(VALUE), ["batch", "b", None]), names)
    assert said(caught.value) == message


def test_size_is_that_of_the_mapped_function():
    """With resources and without, since resources never change meaning."""
    for options in ({}, {"axis_resources": {"b": "x"}, "mesh": make_mesh((8,))}):
        f = nx.xmap(lambda v: nx.rename(v, {"a": "b"}), ["a", ...], ["b", ...], axis_sizes={"b": 24}, **options)
        with pytest.raises(nx.errors.AxisSizeError) as caught:
            f(VALUE)
        assert said(caught.value) == (
            "rename: axis 'a' of size 16 cannot become 'b', which has size 24 in this mapped function; a name has one size. "
            "Choose another name."
        )


def test_size_does_not_divide():
    f = nx.xmap(lambda v: nx.rename(v, {"a": "c"}), ["a", ...], ["c", ...], axis_resources={"c": "x"}, mesh=make_mesh((8,)))
    np.testing.assert_array_equal(f(VALUE[:12]), VALUE[:12])


def test_conflict():
    f = nx.xmap(
        lambda v: nx.sum(nx.rename(v, {"a": "c"}), ("b", "c")),
        ["a", "b", None],
        {},
        axis_resources={"b": "x", "c": "x"},
        mesh=make_mesh((8,)),
    )
    with pytest.raises(nx.errors.PlacementConflictError) as caught:
        f(VALUE)
    assert said(caught.value) == (
        "rename: axes 'c' and 'b' meet in one value, but both are mapped to mesh axis 'x', which can hold only one of them. "
        "Rename one of them to an axis that is not on 'x' first (nx.rename, or {new:old} in einsum: this communicates), or "
        "change axis_resources."
    )


# --- trees -------------------------------------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A user's structure of parameters."""

    weight: object
    others: list


def renamed_tree(w, v, u):
    """A leaf with both names, one with the first, one with the second, one with neither, and things that are no arrays of names."""
    tree = {"layer": Layer(w, [v, None, 2.0]), "scale": u, "step": jnp.arange(3)}
    out = nx.rename(tree, {"a": "d", "d": "a"})
    assert out["layer"].others[1:] == [None, 2.0]
    assert out["step"] is tree["step"]
    return {"w": out["layer"].weight * w, "v": nx.sin(out["layer"].others[0]), "u": nx.dot(out["scale"], w, "a")}


@pytest.mark.parametrize("placement", PLACEMENTS + PARTITIONER, ids=str)
def test_tree(placement):
    """The values and the gradients are those of the leaves renamed one by one, wherever the names live."""
    args = array(8, 4, 8), array(8, 3, seed=1), array(8, seed=2)
    check(
        renamed_tree,
        lambda w, v, u: {"w": w * w.transpose(2, 1, 0), "v": jnp.sin(v), "u": jnp.einsum("a,abd->bd", u, w)},
        args,
        (["a", "b", "d"], ["a", "c"], ["d"]),
        {"w": ["a", "b", "d"], "v": ["d", "c"], "u": ["b", "d"]},
        placement,
    )


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("shape", [(8,), (4, 2)], ids=str)
def test_tree_sends_what_its_leaves_send(shape, kind):
    """Parameters that are stored in parts: one gather each, and one reduce-scatter in the gradient, which is taken in the body."""
    names = {"embed_fsdp": "embed", "out_fsdp": "out"}
    params = {
        "w": nx.named(jnp.asarray(VALUE[::-1]), ["out", "embed_fsdp", "k"]),
        "b": [nx.named(jnp.asarray(VALUE[:, 0, 0]), ["out_fsdp"]), nx.named(jnp.asarray(VALUE[0, 0]), ["k"])],
    }
    x = nx.named(jnp.asarray(VALUE), ["batch", "embed", "k"])

    def loss(rename, params, x):
        p = rename(params)
        y = nx.dot(x * p["b"][1], p["w"], ("embed", "k")) + p["b"][0]
        return nx.mean(nx.square(y), ("batch", "out"))

    def one_by_one(p):
        return {"w": nx.rename(p["w"], {"embed_fsdp": "embed"}), "b": [nx.rename(p["b"][0], {"out_fsdp": "out"}), p["b"][1]]}

    axes = tuple("xy"[: len(shape)])
    options = {"axis_resources": dict.fromkeys(["batch", "embed_fsdp", "out_fsdp"], axes), "mesh": make_mesh(shape, kind)}
    together, apart = (
        nx.xmap(jax.value_and_grad(lambda p, x, rename=rename: loss(rename, p, x)), **options)
        for rename in (lambda p: nx.rename(p, names), one_by_one)
    )
    sent = [nx.explain(f, params, x, compile=False).summary() for f in (together, apart)]
    assert sent[0] == sent[1]
    assert sent[0][GATHER][0] == sent[0][SCATTER][0] == 2
    plain = {"w": params["w"].data, "b": [b.data for b in params["b"]]}

    def oracle(p, x):
        y = jnp.einsum("nek,oek->no", x * p["b"][1], p["w"]) + p["b"][0]
        return jnp.mean(y**2)

    value, gradient = jax.value_and_grad(oracle)(plain, VALUE)
    have, found = jax.jit(together)(params, x)
    np.testing.assert_allclose(have, value, rtol=1e-5)
    jax.tree.map(
        lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-4), jax.tree.leaves(found), jax.tree.leaves(gradient)
    )


def test_tree_of_types_and_shared_leaves():
    w = nx.named(jnp.asarray(VALUE), ["a", "b", None])
    types = nx.rename(jax.eval_shape(lambda: {"w": w}), a="c")
    assert types["w"].dims == ("c", "b", None)
    kept = nx.rename({"w": w, "v": w["a", 0]}, {"a": "c"})
    assert (kept["w"].dims, kept["v"].dims) == (("c", "b", None), ("b", None))
    assert nx.rename({"w": w}, {})["w"] is w
    ragged = nx.Ragged.from_rows([[1.0, 2.0], [3.0]], rows="doc", tokens="token").map(
        lambda v: nx.ones(named_shape={"k": 2}) * v
    )
    assert dict(nx.rename([ragged, w], {"k": "z"})[0].values.named_shape) == {"token": 3, "z": 2}


TREE_MISTAKES = {
    "of-no-leaf": (
        {"bacth": "c"},
        nx.errors.AxisNotFoundError,
        "rename: no axis 'bacth' in a tree of 2 named arrays; its named axes are 'batch', 'b', 'k'. Did you mean 'batch'?",
    ),
    "twice": (
        {"k": "batch"},
        nx.errors.AxisNameError,
        "rename, x['w'][0]: axis 'batch' appears twice in ('batch', 'batch'); one array has an axis at most once. Rename one of them.",
    ),
    "kept": (
        {"token": "t"},
        nx.errors.AxisNameError,
        "rename: a Ragged in the tree stores the name 'token' as a static field, which cannot be renamed. Build another Ragged from renamed "
        "arrays, or leave that name out of names.",
    ),
}


@pytest.mark.parametrize("name", TREE_MISTAKES)
def test_tree_mistakes(name):
    names, error, message = TREE_MISTAKES[name]
    tree = {"w": (nx.ones(named_shape={"batch": 2, "k": 3}),), "b": nx.ones(named_shape={"batch": 2, "b": 3}), "n": 3}
    if name == "kept":
        tree["r"] = nx.Ragged.from_rows([[1.0, 2.0], [3.0]], rows="doc", tokens="token")
    with pytest.raises(error) as caught:
        nx.rename(tree, names)
    assert said(caught.value) == message


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda x: nx.rename({"old": "new"}, {"w": x}),
            "names is a tree of arrays, which must be the first argument. Write nx.rename(tree, {'old': 'new'}).",
        ),
        (
            lambda x: nx.rename({"w": x}, x),
            "names=f32[]{k:3} is not a mapping. Write nx.rename(x, {'old': 'new'}) or nx.rename(x, old='new').",
        ),
        (lambda x: nx.rename({"w": x.data}, {"k": "z"}), "no axis 'k' in a tree of 0 named arrays; it has no named axis."),
        (
            lambda x: nx.rename(x.data, {"k": "z"}),
            "no axis 'k' in f32[3]; it has no named axis. Name the axes of x first: nx.named(x, ['k']).",
        ),
        (lambda x: x.rename("k"), "names='k' is not a mapping. Write nx.rename(x, {'old': 'new'}) or nx.rename(x, old='new')."),
    ],
)
def test_what_no_tree_is(wrong, message):
    with pytest.raises(nx.errors.NamedaxError) as caught:
        wrong(nx.ones(named_shape={"k": 3}))
    assert said(caught.value) == f"rename: {message}"
