"""Law 1, where names begin and end: axis notation, `named` and `positional`, `shard`, and `nmap`.

Law 2 for them too: in a mapped body they cut and gather, and the values are the same in every placement.
"""

import functools
import inspect
import pickle
import string

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import namedax as nx
from namedax.core.axis_mappings import is_mapping, parse_mapping
from namedax.errors import (
    AxisMappingError,
    AxisNameError,
    AxisResourceError,
    AxisSizeError,
    MeshError,
    NamedAxesLeftError,
    PlacementConflictError,
    UnevenAxisError,
)
from namedax.ops.operands.nmap import belongs_to_jax
from tests import make
from tests.harness import FEW, PLACEMENTS, array, check, make_mesh, said

quick = hypothesis.settings(max_examples=40, deadline=None, derandomize=True)


def message(function, *args, **kwargs):
    """The text of the error that a call raises, and its type."""
    with pytest.raises(Exception) as error:  # noqa: PT011  the callers compare the type
        function(*args, **kwargs)
    return type(error.value), said(error.value)


# --- the notation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapping", "dims"),
    [
        ({}, (None, None, None)),
        ({0: "a"}, ("a", None, None)),
        ({2: "a", 0: "b"}, ("b", None, "a")),
        ({np.int64(1): "a"}, (None, "a", None)),
        (["a", None, "b"], ("a", None, "b")),
        ([None, None, None], (None, None, None)),
        (["a", ...], ("a", None, None)),
        ([None, "a", ...], (None, "a", None)),
        ([...], (None, None, None)),
        (["a", "b", "c", ...], ("a", "b", "c")),
        ([("layer", 0), ...], (("layer", 0), None, None)),
        ({1: ("layer", 0)}, (None, ("layer", 0), None)),
    ],
    ids=repr,
)
def test_mappings(mapping, dims):
    x = array(2, 3, 4)
    result = nx.named(x, mapping)
    if any(dims):
        assert result.dims == dims
        assert result.data is x
    else:
        assert result is x
    assert is_mapping(mapping)


def test_containers_are_no_mappings():
    for value in (("a",), [["a"], ["b"]], [{0: "a"}], {"x": ["a"]}, "a", 3, None, [["a"], None]):
        assert not is_mapping(value)


def test_a_parsed_mapping_is_a_mapping():
    parsed = parse_mapping(["a", ...], "test")
    assert is_mapping(parsed)
    assert parse_mapping(parsed, "test") is parsed
    assert parsed == parse_mapping(["a", ...], "another")
    assert nx.named(array(3, 2), parsed).dims == ("a", None)


MALFORMED = {
    "a string": (
        "batch",
        "'batch' is not an axis mapping. Write a dict from positions to names ({0: 'batch'}), a list with one entry per axis "
        "(['batch', None]), or a list that ends with '...' (['batch', ...]). Did you mean ['batch']?",
    ),
    "a number": (
        3,
        "3 is not an axis mapping. Write a dict from positions to names ({0: 'batch'}), a list with one entry per axis "
        "(['batch', None]), or a list that ends with '...' (['batch', ...]).",
    ),
    "a negative position": (
        {-1: "a"},
        "position -1 in the axis mapping {-1: 'a'} is negative; the rank that it would count from depends on where the "
        "mapping is used. Count from the front, from 0.",
    ),
    "a boolean position": (
        {True: "a"},
        "key True in the axis mapping {True: 'a'} is not a position; keys are integers from 0.",
    ),
    "keys of two kinds": (
        {0: "a", "x": "b"},
        "key 'x' in the axis mapping {0: 'a', 'x': 'b'} is not a position; keys are integers from 0.",
    ),
    "a number for a name": (
        {0: 1},
        "1 in the axis mapping {0: 1} is not an axis name; a name is any hashable value except integers, None and '...'.",
    ),
    "None for a name": (
        {0: None},
        "None in the axis mapping {0: None} is not an axis name; a name is any hashable value except integers, None and '...'.",
    ),
    "a number in a list": (
        ["a", 1],
        "1 in the axis mapping ['a', 1] is not an axis name; a name is any hashable value except integers, None and '...'.",
    ),
    "a name twice in a list": (
        ["a", "b", "a"],
        "axis 'a' appears twice in the axis mapping ['a', 'b', 'a']; an array has an axis at most once.",
    ),
    "a name twice in a dict": (
        {0: "a", 1: "a"},
        "axis 'a' appears twice in the axis mapping {0: 'a', 1: 'a'}; an array has an axis at most once.",
    ),
    "... before the end": (
        [..., "a"],
        "'...' is not the last entry of the axis mapping [..., 'a']. Write it at the end, as in ['batch', ...].",
    ),
    "... twice": (
        ["a", ..., ...],
        "'...' is not the last entry of the axis mapping ['a', ..., ...]. Write it at the end, as in ['batch', ...].",
    ),
}


@pytest.mark.parametrize(("mapping", "text"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_mappings(mapping, text):
    x = nx.named(array(2, 3, 4), {})
    assert message(nx.named, x, mapping) == (AxisMappingError, f"named: {text}")
    assert message(nx.positional, x, mapping) == (AxisMappingError, f"positional: {text}")
    for op, call in (
        ("xmap, in_axes", lambda: nx.xmap(lambda x: x, mapping, ["a"])(x)),
        ("xmap, out_axes", lambda: nx.xmap(lambda x: x, ["a", ...], mapping)(x)),
    ):
        assert message(call) == (AxisMappingError, f"{op}: {text}")


def test_a_rank_is_asserted():
    x = make.zeros((2, 3), jnp.int32)
    rule = "Write one entry per axis (None for one without a name), or end the list with '...' to name the first axes only."
    with_code = (
        "Write one entry per axis (None for one without a name): ['a', None], or end the list with '...' to name the first axes "
        "only: ['a', ...]."
    )
    assert message(nx.named, x, ["a"]) == (
        AxisMappingError,
        f"named: the axis mapping ['a'] asserts 1 axes, but the array i32[2,3] has 2. {with_code}",
    )
    assert message(nx.named, x, ["a", None, "b"]) == (
        AxisMappingError,
        f"named: the axis mapping ['a', None, 'b'] asserts 3 axes, but the array i32[2,3] has 2. {rule}",
    )
    named = nx.named(x, ["a", None])
    assert message(nx.positional, named, ["a"]) == (
        AxisMappingError,
        f"positional: the axis mapping ['a'] asserts 1 axes, but the array, i32[3]{{a:2}}, with its names has 2. {with_code}",
    )


def test_a_list_of_numbers_is_not_an_array():
    for numbers, first in (([31, 28], "31"), ([[1.5, 2.5], [3.5, 4.5]], "1.5")):
        assert message(nx.named, numbers, ["month"]) == (
            AxisMappingError,
            f"named: the number {first} in a list, tuple or dict is a separate array without an axis that ['month'] could "
            "name. Convert all the numbers to one array first, with jnp.array or np.array.",
        )
    assert nx.named([3.0, make.zeros((2,))], [[], ["a"]])[1].dims == ("a",)  # a number that nothing is to name


def test_positions_out_of_range():
    x = make.zeros((2, 3), jnp.int32)
    assert message(nx.named, x, {2: "a"}) == (
        AxisMappingError,
        "named: the axis mapping {2: 'a'} puts 'a' at position 2, but the array i32[2,3] has only 2 axes.",
    )
    assert message(nx.named, x, ["a", "b", "c", ...]) == (
        AxisMappingError,
        "named: the axis mapping ['a', 'b', 'c', ...] puts 'c' at position 2, but the array i32[2,3] has only 2 axes.",
    )
    assert message(nx.positional, nx.named(x, ["a", None]), {2: "a"}) == (
        AxisMappingError,
        "positional: the axis mapping {2: 'a'} puts 'a' at position 2, but the array, i32[3]{a:2}, with its names has only 2 "
        "axes.",
    )


def test_a_position_has_one_name():
    assert message(nx.positional, nx.named(array(2, 3), ["a", "b"]), {0: "a", 1: "c", 2: "b"})[0] is AxisMappingError


# --- pytrees of mappings --------------------------------------------------------------------------------------------


def test_a_tree_of_mappings():
    tree = {"w": array(2, 3), "rest": [array(4), (array(5, 2),)], "none": None}
    axes = {"w": ["a", None], "rest": [["b"], ({1: "c"},)], "none": None}
    result = nx.named(tree, axes)
    assert result["w"].dims == ("a", None)
    assert result["rest"][0].dims == ("b",)
    assert result["rest"][1][0].dims == (None, "c")
    assert result["none"] is None
    back = nx.positional(result, axes)
    for have, want in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        np.testing.assert_array_equal(have, want)


def test_a_prefix_of_mappings():
    tree = {"x": [array(2, 3), array(2)], "y": (array(4, 2), array(4, 2, 2))}
    result = nx.named(tree, {"x": ["a", ...], "y": (["b", None], {2: "c"})})
    assert [leaf.dims for leaf in result["x"]] == [("a", None), ("a",)]
    assert [leaf.dims for leaf in result["y"]] == [("b", None), (None, None, "c")]
    result = nx.named([array(2, 3), (array(2), [array(2, 1)])], ["a", ...])
    assert [leaf.dims for leaf in jax.tree.leaves(result, is_leaf=lambda x: isinstance(x, nx.NamedArray))] == [
        ("a", None),
        ("a",),
        ("a", None),
    ]


def test_none_leaves_alone():
    x, y = nx.named([array(2), array(3)], [["a"], None])
    assert x.dims == ("a",)
    assert isinstance(y, jax.Array)


@pytest.mark.parametrize(
    ("tree", "axes", "difference"),
    [
        ({"x": array(2), "y": array(2)}, {"x": ["a"]}, "the tree['y'] is missing from axes."),
        ([array(2), array(2)], [["a"]], "axes is a list of length 1, but the tree is a list of length 2."),
        ((array(2),), [["a"]], "axes is a list of length 1, but the tree is a tuple of length 1."),
        (array(2), (["a"],), "axes is a tuple of length 1, but the tree is a single value."),
    ],
)
def test_mappings_that_are_no_prefix(tree, axes, difference):
    for op, function in (("named", nx.named), ("positional", nx.positional)):
        assert message(function, tree, axes) == (
            AxisMappingError,
            f"{op}: {difference} Write one axis mapping per value, or one for a whole container. A tuple, a list of lists or dicts, "
            "and a dict with string keys are containers.",
        )


# --- named ----------------------------------------------------------------------------------------------------------


def test_named_speaks_of_positions_of_a_named_array():
    x = nx.named(array(2, 3, 4), [None, "a", None])
    assert nx.named(x, ["b", None]).dims == ("b", "a", None)
    assert nx.named(x, {1: "c"}).dims == (None, "a", "c")
    assert message(nx.named, x, {0: "a"}) == (
        AxisNameError,
        "named: axis 'a' appears twice in ('a', 'a', None); one array has an axis at most once. Rename one of them.",
    )


@pytest.mark.parametrize("value", [[[1, 2], [3, 4]], np.arange(4.0).reshape(2, 2), ((1, 2), (3, 4))])
def test_named_takes_arrays_of_numpy(value):
    if isinstance(value, np.ndarray):
        assert nx.named(value, ["a", None]).dims == ("a", None)
    else:  # a list is a tree of numbers, as it is for JAX
        assert message(nx.named, value, ["a", None])[0] is AxisMappingError


def test_named_of_scalars():
    assert isinstance(nx.named(3.0, []), jax.Array)
    assert isinstance(nx.named(3.0, {}), jax.Array)


# --- positional -----------------------------------------------------------------------------------------------------


def test_positional_puts_names_where_they_are_asked():
    x = nx.named(array(2, 3, 4, 5), ["a", None, "b", None])
    data = np.asarray(x.data)
    np.testing.assert_array_equal(nx.positional(x, ["a", "b", ...]), data.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(nx.positional(x, {3: "a", 0: "b"}), data.transpose(2, 1, 3, 0))
    np.testing.assert_array_equal(nx.positional(x, [None, "b", None, "a"]), data.transpose(1, 2, 3, 0))
    assert nx.positional(x, ["a", None, "b", None]) is x.data


def test_positional_places_every_name():
    x = nx.named(make.zeros((2, 3), jnp.int32), ["a", "b"])
    assert message(nx.positional, x, ["b", ...]) == (
        NamedAxesLeftError,
        "positional: the array, i32[]{a:2, b:3}, still has the axes 'a', which ['b', ...] does not place. Reduce them in the "
        "function, or place them in the mapping, as in ['b', 'a'].",
    )
    assert message(nx.positional, x, {})[0] is NamedAxesLeftError
    assert message(nx.positional, x, ["a", "b", "c"]) == (
        AxisMappingError,
        "positional: ['a', 'b', 'c'] places 'c', but the array, i32[]{a:2, b:3}, has no such axis, and it has no size to "
        "broadcast to. Write ['a', 'b'], or give its size in axis_sizes.",
    )
    assert message(nx.positional, x, None) == (
        AxisMappingError,
        "positional: None is not an axis mapping here. Write a dict or a list of names.",
    )


def test_positional_of_plain_arrays():
    x = array(2, 3)
    assert nx.positional(x, {}) is x
    assert nx.positional(x, [...]) is x
    assert message(nx.positional, x, ["a", ...])[0] is AxisMappingError


@pytest.mark.fast(0)
@quick
@hypothesis.given(st.data())
def test_there_and_back(data):
    names = data.draw(st.lists(st.sampled_from(string.ascii_lowercase), unique=True, max_size=3))
    dims = data.draw(st.permutations([*names, *[None] * data.draw(st.integers(0, 2))]))
    x = np.arange(np.prod([i + 2 for i in range(len(dims))], dtype=int)).reshape([i + 2 for i in range(len(dims))])
    mapping = data.draw(st.sampled_from([list(dims), {i: dim for i, dim in enumerate(dims) if dim is not None}]))
    named = nx.named(x, mapping)
    assert (named.dims if isinstance(named, nx.NamedArray) else (None,) * named.ndim) == tuple(dims)
    np.testing.assert_array_equal(nx.positional(named, mapping), x)
    # Names in any other order, positional axes behind.
    order = data.draw(st.permutations(names))
    axes = [dims.index(name) for name in order] + [i for i, dim in enumerate(dims) if dim is None]
    np.testing.assert_array_equal(nx.positional(named, [*order, ...]), x.transpose(axes))


# --- in a mapped body -------------------------------------------------------------------------------------------------


@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_named_in_a_body(placement):
    # `v` and `w` are whole positional arrays that every instance sees; of a named one every device keeps its block.
    def body(x, v, w):
        return x * nx.named(v, ["a", None]) * nx.named(w, {0: "b"}) + nx.named(jnp.sum(v, 0), [None])

    def oracle(x, v, w):
        return x[:, None, None] * v[:, None] * w[:, None] + v.sum(0)

    check(body, oracle, (array(8), array(8, 3), array(4)), (["a"], {}, {}), ["a", "b", None], placement)


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_positional_in_a_body(placement):
    # Gathered, so that every instance sees the whole axis.
    def body(x, y):
        whole = nx.positional(x, [None, "a"])
        return whole[0, 1] * x, nx.positional(nx.sum(x * y, "b"), {1: "a"}), jnp.cumsum(whole, 1)

    def oracle(x, y):
        return x[1, 0] * x, (x * y.sum(1)[:, None]).T, jnp.cumsum(x.T, 1)

    args = (array(8, 3), array(8, 4, seed=1))
    check(body, oracle, args, (["a", None], ["a", "b"]), (["a", None], {}, {}), placement)


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_there_and_back_in_a_body(placement):
    def body(x):
        whole = nx.positional(x, ["b", None, "a"])
        return nx.named(whole, ["b", ...]), nx.named(whole[::-1], {2: "a"})

    def oracle(x):
        return x.transpose(1, 2, 0), x.transpose(1, 2, 0)[::-1]

    out_axes = (["b", None, None], [None, None, "a"])
    check(body, oracle, (array(8, 4, 3),), ["a", "b", None], out_axes, placement)


@pytest.mark.parametrize("placement", FEW, ids=str)
def test_a_name_is_broadcast_to_its_place(placement):
    def body(x):
        return nx.positional(nx.sum(x, "a"), ["a", "b"]), nx.sum(x, ("a", "b"))

    def oracle(x):
        return jnp.broadcast_to(x.sum(0), (8, 4)), jnp.broadcast_to(x.sum(), (4,))

    check(body, oracle, (array(8, 4),), ["a", "b"], ({}, ["b"]), placement)


@pytest.mark.parametrize("placement", FEW, ids=str)
def test_named_adds_a_name_to_an_array_that_a_body_closes_over(placement):
    w = nx.named(array(8, 4), ["a", None])

    def body(x):
        return x * nx.named(w, {0: "b"})

    check(body, lambda x: x[:, None] * w.data, (array(8, seed=1),), ["a"], ["a", "b"], placement)


def test_a_name_has_one_size_in_a_body():
    def body(x):
        return x + nx.named(jnp.zeros(6), ["a"])

    for options in ({}, {"axis_resources": {"a": "x"}, "mesh": make_mesh((4, 2))}):
        assert message(nx.xmap(body, ["a"], ["a"], **options), jnp.zeros(8)) == (
            AxisSizeError,
            "named: axis 'a' would have size 6, but it has size 8 in this mapped function; a name has one size, and a "
            "positional array is complete on every device. Choose another name.",
        )


def test_a_name_created_in_a_body_by_splitting_must_divide_over_its_mesh_axes():
    def body(x):
        return x * nx.sum(nx.split_axis(nx.named(jnp.arange(6.0), ["pair"]), "pair", {"born": 6, "one": 1}), ["born", "one"])

    f = nx.xmap(body, ["a"], ["a"], axis_resources={"born": "x"}, mesh=make_mesh((4, 2)))
    assert message(f, jnp.zeros(8)) == (
        UnevenAxisError,
        "split_axis: axis 'born' of size 6 does not divide over mesh axes ('x',), 4 devices in total. Use a size that is a "
        "multiple of 4, or map 'born' to fewer devices in axis_resources.",
    )


def test_two_names_on_one_mesh_axis_do_not_meet_in_named():
    f = nx.xmap(lambda x: nx.named(x, ["b"]), ["a", None], axis_resources={"a": "x", "b": "x"}, mesh=make_mesh((4, 2)))
    kind, text = message(f, make.zeros((8, 4)))
    assert kind is PlacementConflictError
    assert text.startswith("named: axes 'a' and 'b' meet in one value, but both are mapped to mesh axis 'x'")


# --- shard ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_shard(kind):
    mesh = make_mesh((4, 2), kind)
    tree = {"w": nx.named(array(8, 4, 2), ["a", None, "b"]), "v": array(3), "c": nx.named(array(3), ["c"])}
    placed = nx.shard(tree, {"a": "x", "b": "y", "nobody": "x"}, mesh)
    assert placed["w"].sharding.spec == PartitionSpec("x", None, "y")
    assert placed["w"].dims == tree["w"].dims
    assert placed["v"].sharding.is_fully_replicated
    assert placed["c"].sharding.is_fully_replicated
    for have, want in zip(jax.tree.leaves(placed), jax.tree.leaves(tree), strict=True):
        assert have.sharding.mesh == mesh
        np.testing.assert_array_equal(have, want)
    with jax.set_mesh(mesh):
        assert nx.shard(tree["w"], {"a": ("y", "x")}).sharding.spec == PartitionSpec(("y", "x"), None, None)


@pytest.mark.parametrize("kinds", ["auto", "explicit", "mixed"])
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"a": "y", "b": "x"}, {"a": ("y", "x")}], ids=str)
def test_shard_places_under_jit(resources, kinds):
    # A compiled program lets XLA choose, and jax.device_put says nothing to it over Auto axes.
    explicit, auto = AxisType.Explicit, AxisType.Auto
    types = {"auto": (auto, auto), "explicit": (explicit, explicit), "mixed": (auto, explicit)}[kinds]
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=types, devices=jax.devices()[:4])
    tree = {"w": nx.named(array(4, 3, 4), ["a", None, "b"]), "v": array(3)}
    for arrives in ({"a": "x", "b": "y"}, {}):
        given = nx.shard(tree, arrives, mesh)
        have, want = jax.jit(lambda tree: nx.shard(tree, resources, mesh))(given), nx.shard(given, resources, mesh)
        assert have["w"].sharding.is_equivalent_to(want["w"].sharding, 3)
        assert have["v"].sharding.is_fully_replicated
        np.testing.assert_array_equal(have["w"].data, tree["w"].data)


@pytest.mark.fast(0)
def test_shard_under_jit_in_a_program():
    mesh = make_mesh((4, 2))
    x = nx.shard(nx.named(array(8, 4), ["a", "b"]), {"a": "x"}, mesh)

    def f(x):
        return nx.sum(nx.sin(nx.shard(x, {}, mesh)) * x.data[0, 0], ...)

    text = jax.jit(lambda x: nx.shard(x * 2, {}, mesh)).lower(x).compile().as_text()
    assert "all-gather" in text
    np.testing.assert_allclose(jax.jit(f)(x), np.sum(np.sin(x.data) * x.data[0, 0]), rtol=1e-5)
    have = jax.jit(jax.grad(lambda x: nx.sum(nx.sin(nx.shard(x, {"b": "y"}, mesh)), ...)))(x)
    np.testing.assert_allclose(have.data, np.cos(x.data), rtol=1e-5, atol=1e-6)
    have = jax.grad(lambda x: nx.sum(nx.sin(nx.shard(x, {"b": "y"}, mesh)), ...))(x)
    np.testing.assert_allclose(have.data, np.cos(x.data), rtol=1e-5, atol=1e-6)


def test_shard_says_what_is_wrong():
    mesh = make_mesh((4, 2))
    x = nx.named(make.zeros((6, 4), jnp.int32), ["a", "b"])
    assert message(nx.shard, x, {"a": "x"}) == (
        MeshError,
        "shard: there is no mesh. Pass mesh=jax.make_mesh(...), or set a mesh with jax.set_mesh(mesh); `with mesh:` does not "
        "set one.",
    )
    assert message(nx.shard, x, {"a": "z"}, mesh) == (
        MeshError,
        "shard: axis_resources maps 'a' to mesh axis 'z', which the mesh does not have; its axes are 'x', 'y' with sizes (4, "
        "2). Write {'a': 'x'}.",
    )
    kind, text = message(nx.shard, x, {"a": "y", "b": "y"}, mesh)
    assert kind is PlacementConflictError
    assert text.startswith("shard: axes 'a' and 'b' meet in one value, but both are mapped to mesh axis 'y'")
    f = nx.xmap(lambda x: nx.shard(x, {"a": "x"}, mesh), ["a"], ["a"], axis_resources={"a": "x"}, mesh=mesh)
    assert message(f, jnp.zeros(8)) == (
        AxisResourceError,
        "shard: arrays are sharded outside of mapped functions; inside, their axis names determine the sharding. Reshard an axis with "
        "nx.rename, or call nx.shard before the mapped function.",
    )


# --- nmap -----------------------------------------------------------------------------------------------------------


def summary(x, y, *, scale=1.0, mode="sum"):
    """Documented."""
    assert x.ndim == 1
    assert y.ndim == 2
    total = getattr(jnp, mode)(x * y, 1) * scale
    return {"total": total, "pair": (x[0], y), "count": 3}


def test_nmap_sees_positions_only():
    x = nx.named(array(3, 5), ["a", None])
    y = nx.named(array(2, 5, 4), [None, None, "b"])
    result = nx.nmap(summary)(x, y, scale=2.0, mode="max")
    assert result["total"].dims == ("a", "b", None)
    assert result["pair"][0].dims == ("a", "b")
    assert result["pair"][1].dims == ("a", "b", None, None)
    assert result["count"].named_shape == {"a": 3, "b": 4}
    want = np.max(np.asarray(x.data)[:, None, None] * np.asarray(y.data).transpose(2, 0, 1), 3) * 2.0
    np.testing.assert_allclose(result["total"].data, want, rtol=1e-6)
    np.testing.assert_array_equal(result["pair"][1].data, np.broadcast_to(y.data.transpose(2, 0, 1), (3, 4, 2, 5)))


def test_nmap_of_arguments_without_names():
    result = nx.nmap(summary)(array(5), np.ones((2, 5), np.float32))
    assert result["count"] == 3
    assert isinstance(result["total"], jax.Array)


def test_nmap_over_trees_keywords_and_other_things():
    def f(tree, flag, *, extra):
        assert flag is True
        assert extra["how"] == "text"
        return tree["x"] + extra["y"] + 1, flag

    x, y = nx.named(array(3), ["a"]), nx.named(array(4), ["b"])
    (total, flag), names = nx.nmap(f)({"x": x}, True, extra={"y": y, "how": "text"}), ["a", "b"]
    np.testing.assert_allclose(nx.positional(total, names), x.data[:, None] + y.data + 1, rtol=1e-6)
    assert flag.dtype == bool


def test_names_stand_in_the_order_of_the_arguments():
    x, y = nx.named(array(3, 4), ["b", "a"]), nx.named(array(2, 4), ["c", "a"])
    assert nx.nmap(jnp.add)(x, y).dims == ("b", "a", "c")
    assert nx.nmap(jnp.add)(y, x).dims == ("c", "a", "b")


def test_nmap_of_a_function_that_makes_names():
    x = nx.named(array(3, 5), ["a", None])
    result = nx.nmap(lambda row: (nx.named(row, ["k"]), nx.named(jnp.outer(row, row), [None, "k"])))(x)
    assert (result[0].dims, result[1].dims) == (("a", "k"), ("a", None, "k"))
    np.testing.assert_array_equal(result[0].data, x.data)
    np.testing.assert_allclose(result[1].data, x.data[:, :, None] * x.data[:, None, :], rtol=1e-6)
    assert message(nx.nmap(lambda row: nx.named(row, ["a"])), x) == (
        AxisNameError,
        "nmap(<lambda>): axis 'a' appears twice in ('a', 'a'); one array has an axis at most once. Rename one of them.",
    )


def test_nmap_checks_sizes():
    x, y = nx.named(array(3), ["a"]), nx.named(array(4), ["a"])
    assert message(nx.nmap(jnp.add), x, y) == (
        AxisSizeError,
        "nmap(add): axis 'a' has size 3 in one argument and size 4 in another; a name has one size. Rename one of the two "
        "axes: nx.rename(y, {'a': 'a2'}).",
    )


def test_nmap_under_transformations():
    x = nx.named(array(3, 5), ["a", None])
    f = nx.nmap(lambda v: jnp.cumsum(v) ** 2)
    want = jnp.cumsum(x.data, 1) ** 2
    np.testing.assert_allclose(jax.jit(f)(x).data, want, rtol=1e-5)
    grad = jax.grad(lambda x: nx.sum(f(x), ("a", 0)))(x)
    np.testing.assert_allclose(
        grad.data, jax.jit(jax.grad(lambda v: jnp.sum(jnp.cumsum(v, 1) ** 2)))(x.data), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(nx.nmap(f)(x).data, want, rtol=1e-5)


def test_a_lifted_function_keeps_its_identity():
    lifted = nx.nmap(summary)
    assert (lifted.__name__, lifted.__doc__, lifted.__module__) == ("summary", "Documented.", __name__)
    assert inspect.signature(lifted) == inspect.signature(summary)
    assert lifted.__wrapped__ is summary
    part = nx.nmap(functools.partial(summary, scale=2.0))
    assert (part.__name__, part.__doc__) == ("summary", "Documented.")
    assert "scale=2.0" in str(inspect.signature(part))
    assert nx.nmap(jnp.vdot).__name__ == "vdot"
    assert message(part, nx.named(array(3, 5), ["a", None]), nx.named(array(2), ["a"]))[1].startswith("nmap(summary): axis 'a'")


@pytest.mark.parametrize("function", [jnp.einsum, summary, functools.partial(jnp.sum, axis=0)])
def test_a_lifted_function_pickles(function):
    lifted = pickle.loads(pickle.dumps(nx.nmap(function)))
    assert lifted.__name__ == nx.nmap(function).__name__
    assert inspect.signature(lifted) == inspect.signature(function)


def test_a_lifted_function_is_a_method():
    class Model:
        scale = 3.0

        @nx.nmap
        def apply(self, x):
            return x[0] * self.scale

    x = nx.named(array(3, 5), ["a", None])
    np.testing.assert_allclose(Model().apply(x).data, x.data[:, 0] * 3.0, rtol=1e-6)


@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_nmap_in_a_body(placement):
    def body(x, y):
        return nx.nmap(lambda x, y, k: jnp.sort(x) * y + k)(x, y, jnp.arange(3.0))

    def oracle(x, y):
        return jnp.sort(x, 1)[:, None, :] * y[None, :, None] + jnp.arange(3.0)

    check(body, oracle, (array(8, 3), array(4, seed=1)), (["a", None], ["b"]), ["a", "b", None], placement)


def test_two_names_on_one_mesh_axis_do_not_meet_in_nmap():
    f = nx.xmap(nx.nmap(jnp.multiply), (["a"], ["b"]), axis_resources={"a": "x", "b": "x"}, mesh=make_mesh((4, 2)))
    kind, text = message(f, make.zeros(8), make.zeros(4))
    assert kind is PlacementConflictError
    assert text.startswith("nmap(multiply): axes 'a' and 'b' meet in one value")


# --- functions that belong to JAX are lifted without being asked ------------------------------------------------------


def user(x):
    return x


class User:
    def __call__(self, x):
        return x

    def method(self, x):
        return x


def wraps_jax():
    @functools.wraps(jnp.vdot)
    def wrapper(*args):
        return jnp.vdot(*args)

    return wrapper


JAX_FUNCTIONS = {
    "a function": jnp.vdot,
    "a ufunc": jnp.add,
    "not jit-ed": jnp.einsum,
    "of a module": jnp.linalg.solve,
    "with its own derivative": jax.nn.relu,
    "of jax.nn": jax.nn.logsumexp,
    "of jax.lax": jax.lax.dot_general,
    "of jax.random": jax.random.normal,
    "of jax.scipy": jax.scipy.special.erf,
    "jit": jax.jit(jnp.vdot),
    "vmap": jax.vmap(jnp.vdot),
    "value_and_grad": jax.value_and_grad(jnp.sum),
    "partial": functools.partial(jnp.einsum, "i,i->"),
    "partial of a partial": functools.partial(functools.partial(jnp.sum, axis=0), keepdims=True),
}
USER_FUNCTIONS = {
    "a function": user,
    "a lambda": lambda x: x,
    "an object": User(),
    "a method": User().method,
    "partial": functools.partial(user),
    "jit": jax.jit(user),
    "jit of a partial": jax.jit(functools.partial(user)),
    "jit of an object": jax.jit(User()),
    "grad": jax.grad(user),
    "value_and_grad": jax.value_and_grad(user),
    "vmap": jax.vmap(user),
    "checkpoint": jax.checkpoint(user),
    "custom_jvp": jax.custom_jvp(user),
    "custom_vjp": jax.custom_vjp(user),
    "jax's partial": jax.tree_util.Partial(user),
    "a wrapper of a function of jax": wraps_jax(),
    "a reduction": nx.sum,
    "an elementwise function": nx.exp,
    "an activation": nx.nn.relu,
    "a lifted function": nx.nmap(jnp.vdot),
    "a mapped function": nx.xmap(jnp.vdot, (["a"], ["a"]), ["a"]),
    "einsum": functools.partial(nx.einsum, "{a}->"),
    "of NumPy": np.add,
}


@pytest.mark.parametrize("function", JAX_FUNCTIONS.values(), ids=JAX_FUNCTIONS)
def test_functions_of_jax(function):
    assert belongs_to_jax(function)


@pytest.mark.parametrize("function", USER_FUNCTIONS.values(), ids=USER_FUNCTIONS)
def test_functions_of_users(function):
    assert not belongs_to_jax(function)


def test_the_outer_product_of_dot_products():
    x, y = array(8, 3), array(3, 4, seed=1)
    f = nx.xmap(
        jnp.vdot,
        in_axes=({0: "left"}, {1: "right"}),
        out_axes=["left", "right"],
        axis_resources={"left": "x", "right": "y"},
        mesh=make_mesh((4, 2)),
    )
    np.testing.assert_allclose(f(x, y), x @ y, rtol=1e-5, atol=1e-6)
    assert f(x, y).sharding.spec == PartitionSpec("x", "y")
    assert f.__name__ == "vdot"


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_other_functions_of_jax_as_bodies(placement):
    x, y = array(8, 3, 3), array(4, 3, seed=1)
    check(
        functools.partial(jnp.einsum, "ij,j->i"),
        lambda x, y: jnp.einsum("aij,bj->abi", x, y),
        (x, y),
        (["a", ...], ["b", ...]),
        ["a", "b", None],
        placement,
    )
    check(
        jnp.linalg.solve,
        lambda x, y: jnp.linalg.solve(x[:, None], y[None, ..., None])[..., 0],
        (x / 4 + 4 * make.eye(3), y),
        (["a", ...], ["b", ...]),
        ["a", "b", None],
        placement,
    )


def test_a_gradient_of_a_function_of_jax_as_a_body():
    f = nx.xmap(jax.value_and_grad(jnp.vdot), (["a", None], ["b", None]), (["a", "b"], ["a", "b", None]),
                axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((4, 2)))  # fmt: skip
    x, y = array(8, 3), array(4, 3, seed=1)
    value, grad = f(x, y)
    np.testing.assert_allclose(value, x @ y.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grad, np.broadcast_to(y, (8, 4, 3)), rtol=1e-6)


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_a_wrapper_of_user_code_sees_names(placement):
    def loss(x, y):
        return nx.sum(nx.tanh(x * y), ("a", "b"))

    def oracle(x, y):
        return jax.value_and_grad(lambda x: jnp.sum(jnp.tanh(x[:, None] * y)))(x)

    check(jax.value_and_grad(loss), oracle, (array(8), array(4, seed=1)), (["a"], ["b"]), ([], ["a"]), placement)
    check(
        functools.partial(nx.einsum, "{a},{b}->{b,a}"), jnp.outer, (array(8), array(4)), (["a"], ["b"]), ["a", "b"], placement
    )
