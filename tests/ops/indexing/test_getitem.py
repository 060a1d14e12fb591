"""Reading by name: `getitem` and `take_along_axis`, in every placement, against plain `jnp`."""

import itertools
from operator import attrgetter, getitem

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import take_along_axis
from namedax.errors import AxisNotFoundError, AxisSizeError, PlacementConflictError, PositionalAxisError
from namedax.hlo import collectives
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, make_mesh

at = attrgetter("at")

X = array(8, 4, 3, 5)  # a, b, c, and a positional axis
AXES = ["a", "b", "c", None]
PICK = make.array([2, -1, 1, 7, 2])  # along a; -1 is the last, and 2 is there twice
OWN = make.array([5, 0, 7, 7, 1, 2, 3, 6])
PER_B = make.array([7, 0, 3, 3])
WIDE = make.array([1, 11, -9, -2])  # two of them out of range
GRAD = ("one-each-auto", "both-explicit", "two-reversed-auto")
OUTER = make.array([[0, 2, 4], [3, 3, 1]])


def program(x, pick, own, per_b, wide):
    return (
        getitem(x, ("a", 3)),
        getitem(x, ("b", -1, "a", 2)),
        getitem(x, ("a", slice(None, None, -1), "b", slice(None))),
        getitem(x, {"a": nx.named(pick, ["pick"])}),
        getitem(x, {"a": own}),
        getitem(x, {"a": per_b, "c": 1}),
        getitem(x, {"a": nx.named(wide, ["pick"]), 0: jnp.array([1, 4, 0])}),
        getitem(x, {0: OUTER}),
        getitem(x, (slice(1, 4), None)),
        getitem(x, {"c": nx.named(jnp.array([2, 0]), ["n"]), "a": nx.named(pick, ["pick"]), 0: 2}),
    )


@jax.jit
def oracle(x, pick, own, per_b, wide):
    return (
        x[3],
        x[2, -1],
        x[::-1],
        x[pick],
        x[own],
        x[per_b, jnp.arange(4), 1],
        x[wide][..., jnp.array([1, 4, 0])],
        x[..., OUTER],
        x[..., 1:4, None],
        x[pick][:, :, jnp.array([2, 0]), 2],
    )


IN_AXES = (AXES, [None], ["a"], ["b"], [None])
OUT_AXES = (
    ["b", "c", None],
    ["c", None],
    AXES,
    ["pick", "b", "c", None],
    AXES,
    ["b", None],
    ["pick", "b", "c", None],
    ["a", "b", "c", None, None],
    ["a", "b", "c", None, None],
    ["pick", "b", "n"],
)


@pytest.mark.fast(1)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", [*PLACEMENTS, PARTITIONER[3]], ids=str)
def test_reads_as_jnp_does(placement):
    check(program, oracle, (X, PICK, OWN, PER_B, WIDE), IN_AXES, OUT_AXES, placement, grad=str(placement) in GRAD)


@pytest.mark.fast(3)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_modes(placement):
    def modes(x, wide):
        wide = nx.named(wide, ["pick"])
        return (
            at(x)[{"a": wide}].get(mode="fill", fill_value=-5.0),
            at(x)[{"a": wide}].get(mode="clip"),
            at(x)[{"a": wide, "c": nx.named(jnp.array([0, 1, 2, 4]), ["pick"])}].get(mode="fill", fill_value=0),
            at(x > 0)[{"a": wide}].get(mode="clip"),
            at(x)[1:3].get(mode="clip"),
        )

    @jax.jit
    def want(x, wide):
        return (
            x.at[wide].get(mode="fill", fill_value=-5.0),
            x.at[wide].get(mode="clip"),
            x.at[wide, :, jnp.array([0, 1, 2, 4])].get(mode="fill", fill_value=0),
            (x > 0)[wide],
            x[..., 1:3],
        )

    out = (["pick", "b", "c", None], ["pick", "b", "c", None], ["pick", "b", None], ["pick", "b", "c", None], AXES)
    check(modes, want, (X, WIDE), (AXES, [None]), out, placement, grad=False)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_take_along_axis(placement):
    order = jnp.argsort(X, 0)
    few = jnp.argsort(X, 3)[..., :2]

    def fun(x, order, few, row):
        return (
            take_along_axis(x, order, "a"),
            take_along_axis(x, few, 0),
            take_along_axis(x, row, "a"),
            take_along_axis(x, nx.named(jnp.array([[3], [1]]), ["pick", None]), "a", mode="clip"),
        )

    @jax.jit
    def want(x, order, few, row):
        return (
            jnp.take_along_axis(x, order, 0),
            jnp.take_along_axis(x, few, 3),
            jnp.take_along_axis(x, row[:, :, None, None], 0),
            x[jnp.array([3, 1])],
        )

    row = make.asarray(np.random.default_rng(3).integers(0, 8, (8, 4)))
    out = (AXES, AXES, AXES, ["pick", "b", "c", None])
    check(fun, want, (X, order, few, row), (AXES, AXES, AXES, ["a", "b"]), out, placement, grad=str(placement) in GRAD)


# --- slices of a sharded axis ---------------------------------------------------------------------------------------

SLICES = [
    slice(0, 4),
    slice(2, 6),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(7, None, -2),
    slice(1, 5, 1),
    slice(4, 4),
]


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("index", SLICES, ids=str)
def test_slices_of_a_sharded_axis_of_its_own_name(index):
    fun = nx.xmap(
        lambda x: getitem(nx.rename(x, {"a": "z"}), {"z": index, 0: slice(1, 3)}),
        (["a", "b", None],),
        ["z", "b", None],
        mesh=make_mesh((4, 2)),
        axis_resources={"a": "x", "z": "x", "b": "y"},
    )
    x = array(16, 4, 5)
    np.testing.assert_array_equal(fun(x), x[index, :, 1:3])
    weights = array(*x[index, :, 1:3].shape, seed=4)
    have = jax.grad(lambda x: jnp.sum(fun(x) * weights))(x)
    np.testing.assert_allclose(have, jax.jit(jax.grad(lambda x: jnp.sum(x[index, :, 1:3] * weights)))(x), rtol=1e-6)


@pytest.mark.parametrize("index", [slice(0, 4), slice(None, None, -2), slice(3, 1), slice(None), slice(-3, None)], ids=str)
def test_slices_outside_of_mapped_functions(index):
    x = nx.named(X, AXES)
    have = getitem(x, ("a", index, "c", slice(1, 3)))
    np.testing.assert_array_equal(nx.positional(have, AXES), X[index, :, 1:3])


def test_a_slice_meets_an_index_of_its_axis():
    x = array(16, 5)
    row = make.array([4, 0, 3, 1])

    def fun(x, row):
        return getitem(x.rename({"a": "z"}), {"z": slice(2, 10, 2), "k": row.rename({"row": "z"})})

    mapped = nx.xmap(fun, (["a", "k"], ["row"]), ["z"], mesh=make_mesh((4, 2)), axis_resources={"a": "x", "z": "x"})
    want = x[jnp.array([2, 4, 6, 8]), row]
    np.testing.assert_array_equal(mapped(x, row), want)
    have = getitem(nx.named(x, ["z", "k"]), {"z": slice(2, 10, 2), "k": nx.named(row, ["z"])})
    np.testing.assert_array_equal(nx.positional(have, ["z"]), want)


# --- what it costs --------------------------------------------------------------------------------------------------


def sent(fun, *args, in_axes, out_axes, grad=False):
    resources = {"a": "x", **({"z": "x"} if "z" in out_axes else {})}
    mapped = nx.xmap(fun, in_axes, out_axes, mesh=make_mesh((4, 2)), axis_resources=resources)
    function = jax.grad(lambda *args: jnp.sum(mapped(*args) ** 2)) if grad else mapped
    return [(c.kind, c.bytes) for c in collectives(jax.jit(function).lower(*args).compile())]


ROWS = make.zeros((16, 6))  # a block of 4 rows of 24 bytes on each device
COSTS = [
    (lambda x: getitem(x, {"a": slice(None), "k": 2}), ["a"], []),
    (lambda x: getitem(x, {"k": nx.named(jnp.array([1, 0]), ["pick"])}), ["a", "pick"], []),
    (lambda x: getitem(x, ("a", 3)), ["k"], [("all-reduce", 24)]),
    (lambda x: getitem(x, ("a", 3, "k", jnp.array([1, 4]))), [None], [("all-reduce", 8)]),
    (lambda x: getitem(x, ("a", nx.named(jnp.array([1, 0, 9]), ["pick"]))), ["pick", "k"], [("all-reduce", 72)]),
    (lambda x: getitem(x, ("a", slice(None, None, -1))), ["a", "k"], [("collective-permute", 96)]),
    (lambda x: getitem(x.rename({"a": "z"}), ("z", slice(None, None, 2))), ["z", "k"], []),
    (lambda x: getitem(x.rename({"a": "z"}), ("z", slice(None, None, -2))), ["z", "k"], [("collective-permute", 48)]),
    (lambda x: getitem(x.rename({"a": "z"}), ("z", slice(2, 6))), ["z", "k"], [("reduce-scatter", 96)]),
]


@pytest.mark.parametrize(("fun", "out_axes", "want"), COSTS)
def test_costs(fun, out_axes, want):
    assert sent(fun, ROWS, in_axes=(["a", "k"],), out_axes=out_axes) == want


def test_costs_of_an_index_with_the_axis_itself():
    have = sent(lambda x, i: getitem(x, {"a": i}), ROWS, make.arange(16), in_axes=(["a", "k"], ["a"]), out_axes=["a", "k"])
    assert sorted(have) == [("all-gather", 64), ("reduce-scatter", 384)]


def test_the_gradient_of_a_read_sends_nothing_more():
    fun, out_axes, want = COSTS[4]
    assert sent(fun, ROWS, in_axes=(["a", "k"],), out_axes=out_axes, grad=True) == want


# --- outside of mapped functions, and mistakes ----------------------------------------------------------------------


def test_positional_axes_of_index_arrays_stand_where_numpy_puts_them():
    x = nx.named(array(2, 3, 4, 5), [None, "b", None, None])
    data = np.asarray(x.data)
    i, j = make.array([[2, 0]]), make.array([[1], [1]])
    cases = [({1: i}, data[:, :, i].transpose(1, 0, 2, 3, 4)), ({0: j, 2: i}, data[j, :, :, i].transpose(2, 0, 1, 3))]
    for index, want in cases:
        np.testing.assert_array_equal(nx.positional(getitem(x, index), ["b", ...]), want)
    have = nx.positional(getitem(x, {1: i, 2: i}), ["b", ...])
    np.testing.assert_array_equal(have, data[:, :, i, i].transpose(1, 0, 2, 3))
    front = getitem(x, {"b": make.array([2, 0])})
    np.testing.assert_array_equal(front, data[:, jnp.array([2, 0])].transpose(1, 0, 2, 3))


def test_masks_whose_values_are_known():
    x = nx.named(X, AXES)
    mask = np.array([True, False, False, True, True, False, False, False])
    np.testing.assert_array_equal(nx.positional(getitem(x, {"a": mask}), AXES), X[mask])
    np.testing.assert_array_equal(nx.positional(getitem(x, {"a": nx.named(jnp.asarray(mask), ["a"])}), AXES), X[mask])


def test_an_index_without_names_gives_what_is_left():
    x = nx.named(X, AXES)
    assert type(getitem(x, ("a", 1, "b", 2, "c", 0))) is type(X)
    assert getitem(x, {}).dims == x.dims
    assert getitem(x, ("a", jnp.int32(3))).named_shape == {"b": 4, "c": 3}


@pytest.mark.parametrize(
    ("index", "kind", "message"),
    [
        (
            ("batch", 3),
            AxisNotFoundError,
            "getitem: no axis 'batch' in f32[5]{a:8, b:4, c:3}; its named axes are 'a', 'b', 'c'.",
        ),
        (("a", 8), AxisSizeError, "getitem: index 8 is out of range for axis 'a' of size 8 in f32[5]{a:8, b:4, c:3}."),
        (("a",), PositionalAxisError, "does not consist of pairs of a name and an index"),
        ((0, "a", 3), PositionalAxisError, "x[{'a': 3, 0: idx}]"),
        (("a", 1, "a", 2), PositionalAxisError, "axis 'a' is given twice"),
        (("a", [1, 2]), PositionalAxisError, "[1, 2] is not an index for axis 'a'"),
        (("a", True), PositionalAxisError, "True is not an index for axis 'a'"),
        ({1: 0}, PositionalAxisError, "positional axis 1 is out of range"),
        (("a", nx.named(make.zeros(3, int), ["b"])), AxisSizeError, "axis 'b' has size 4 in the array"),
        (("a", make.array([0.5])), PositionalAxisError, "is not an index for axis 'a'"),
    ],
)
def test_mistakes(index, kind, message):
    with pytest.raises(kind) as error:
        getitem(nx.named(X, AXES), index)
    assert message in str(error.value).replace("f64", "f32")


def test_mistakes_in_mapped_functions():
    options = {"mesh": make_mesh((4, 2)), "axis_resources": {"a": "x", "t": "x"}}

    def run(fun, *args, in_axes):
        return nx.xmap(fun, in_axes, None, **options)(*args)

    with pytest.raises(
        AxisSizeError,
        match=r"would keep 3 of 8 elements.*nx\.slice\(x, .*out_axis=\{'b': 'part'\}\)\. To keep the name, slice x before the call",
    ):
        nx.xmap(lambda x: getitem(x, ("b", slice(0, 3))), (["b"],), None)(make.zeros(8))
    with pytest.raises(AxisSizeError, match="does not divide over mesh axes"):
        run(lambda x: getitem(x.rename({"a": "t"}), ("t", slice(0, 3))), make.zeros(8), in_axes=(["a"],))
    with pytest.raises(PlacementConflictError, match="'a' and 't' meet in one value"):
        run(lambda x, i: getitem(x, {"a": i}), make.zeros(8), make.zeros(4, int), in_axes=(["a"], ["t"]))
    with pytest.raises(PositionalAxisError, match=r"would depend on data.*nx.where\(mask, x, fill\)"):
        nx.xmap(lambda x: getitem(x, {"a": x > 0}), (["a"],), None)(make.zeros(8))
    with pytest.raises(PositionalAxisError, match=r"would depend on data.*nx.where\(mask, x, fill\)"):
        getitem(nx.named(X, AXES), nx.named(X, AXES) > 0)


POSITIONS = (
    0,
    -1,
    2,
    ...,
    slice(None),
    slice(1, 3),
    slice(None, None, 2),
    slice(-2, None),
    slice(3, 3),
    slice(4, 1, -1),
    slice(0, 99),
)


@pytest.mark.fast(0)
def test_integers_and_slices_by_position_are_those_of_numpy():
    """Outside of a traced program they have one program for all places; within one they are what jnp makes of them."""
    data = np.random.default_rng(0).normal(size=(8, 5, 6)).astype(np.float32)
    x = nx.named(jnp.asarray(data), ["a", None, None])
    indices = [
        *POSITIONS,
        *itertools.product(POSITIONS, POSITIONS),
        *itertools.product((1, ...), POSITIONS[3:5], (slice(2), -2)),
    ]
    for index in indices:
        parts = index if isinstance(index, tuple) else (index,)
        rest = 2 - sum(part is not ... for part in parts)
        if sum(part is ... for part in parts) > 1 or rest < 0:
            with pytest.raises((IndexError, ValueError)):
                x[index]
            continue
        want = data[(slice(None), *parts)]
        np.testing.assert_array_equal(nx.positional(x[index], ["a", ...]), want)
    np.testing.assert_array_equal(nx.positional(jax.jit(lambda x: x[-1, 1:3])(x), ["a", ...]), data[:, -1, 1:3])
