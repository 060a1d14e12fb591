"""Laws 1 and 6, and what an array is.

Law 1: positional axes broadcast by position, named axes by name, never one with the other; a result's named shape is the
union of its operands'; the physical order has no meaning. Law 6: where nothing named is left, a plain `jax.Array` comes back.

The oracle of a binary operation is NumPy's or `jnp`'s own, applied to operands whose axes were put in a common order by hand.
"""

import ast
import copy
import html
import inspect
import itertools
import operator
import pickle
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import namedax as nx
from namedax import NamedArray
from namedax.errors import AxisNameError, AxisSizeError, NamedAxesLeftError, PositionalAxisError
from tests import make
from tests.harness import array, make_mesh, said

FLOAT = make.zeros(()).dtype
INT = make.zeros((), int).dtype
SIZES = {"a": 3, "b": 2, "c": 4}

quick = hypothesis.settings(max_examples=25, deadline=None, derandomize=True)


def by_hand(x, order):
    """The NumPy data of `x`, its named axes in `order` (size 1 where it lacks one), then its positional axes."""
    if not isinstance(x, nx.NamedArray):
        return np.asarray(x)[(np.newaxis,) * len(order) + (...,)]
    data = np.asarray(x.data)
    names = [name for name in order if name in x.dims]
    positional = [i for i, dim in enumerate(x.dims) if dim is None]
    data = data.transpose([x.dims.index(name) for name in names] + positional)
    missing = tuple(i for i, name in enumerate(order) if name not in names)
    return np.expand_dims(data, missing)


def pad_positional(data, named, rank):
    """Size-1 axes in front of the positional axes, so that there are `rank` of them."""
    return data.reshape(data.shape[:named] + (1,) * (rank - (data.ndim - named)) + data.shape[named:])


def result_by_hand(function, order, *operands):
    """`function` of the operands by NumPy broadcasting, named axes in `order` in front."""
    rank = max(np.ndim(x) if not isinstance(x, nx.NamedArray) else x.ndim for x in operands)
    return function(*(pad_positional(by_hand(x, order), len(order), rank) for x in operands))


def check(have, function, *operands):
    """`have` is `function` of the operands, broadcast by name."""
    order = list(dict.fromkeys(dim for x in operands if isinstance(x, nx.NamedArray) for dim in x.dims if dim is not None))
    want = result_by_hand(function, order, *operands)
    if order:
        assert isinstance(have, nx.NamedArray)
        assert set(have.named_shape) == set(order)
    np.testing.assert_allclose(np.asarray(nx.positional(have, [*order, ...])), want, rtol=1e-5, atol=1e-6)


# --- construction ---------------------------------------------------------------------------------------------------


def test_what_an_array_says_of_itself():
    x = nx.named(make.zeros((5, 20, 7, 2), jnp.int16), {1: "batch", 2: "k"})
    assert x.dims == (None, "batch", "k", None)
    assert (x.shape, x.ndim, x.size) == ((5, 2), 2, 10)
    assert x.named_shape == {"batch": 20, "k": 7}
    assert (x.dtype, x.itemsize, x.nbytes) == (np.int16, 2, 5 * 20 * 7 * 2 * 2)
    assert isinstance(x.data, jax.Array)
    assert x.data.shape == (5, 20, 7, 2)
    assert not x.weak_type
    assert x.sharding == x.data.sharding


def test_sizes_are_of_positional_axes_only():
    x = nx.named(make.zeros((5, 20)), ["batch", "k"])
    assert (x.shape, x.ndim, x.size, x.nbytes) == ((), 0, 1, 100 * FLOAT.itemsize)


def test_named_shape_can_not_be_written():
    with pytest.raises(TypeError):
        nx.named(make.zeros(3), ["a"]).named_shape["a"] = 4


def test_weak_type_is_that_of_the_data():
    assert nx.NamedArray(jnp.asarray(1.0), ()).weak_type
    x = jax.jit(lambda: jnp.broadcast_to(2.0, (3,)))()
    assert nx.NamedArray(x, ("a",)).weak_type == x.weak_type


@pytest.mark.parametrize("data", [[1, 2, 3], np.arange(3.0), range(3)])
def test_the_constructor_takes_what_jnp_takes(data):
    x = nx.NamedArray(data, ("a",))
    assert isinstance(x.data, jax.Array)
    assert x.dtype == jnp.asarray(data).dtype
    np.testing.assert_array_equal(x.data, np.asarray(data))


def test_dims_may_be_any_sequence():
    assert nx.NamedArray(jnp.zeros((2, 3)), ["a", None]).dims == ("a", None)


@pytest.mark.parametrize("name", ["a", ("layer", 0), b"a", 0.5, frozenset({"a"}), len, object()])
def test_any_hashable_is_a_name(name):
    x = nx.named(make.arange(3.0), [name])
    assert x.named_shape == {name: 3}
    assert float(nx.sum(x, (name,))) == 3.0
    check(x * nx.named(make.arange(2.0), ["b"]), np.multiply, x, nx.named(make.arange(2.0), ["b"]))


@pytest.mark.parametrize("name", [0, -1, True, np.int32(3), np.True_, 2.0, ..., [1], {}, slice(0, 2), np.zeros(2)])
def test_invalid_axis_names(name):
    shown = "..." if name is ... else "f64[2]" if isinstance(name, np.ndarray) else repr(name)
    with pytest.raises(AxisNameError) as error:
        nx.NamedArray(make.zeros((2, 3)), (name, "b"))
    assert said(error.value) == (
        f"NamedArray: {shown} is not an axis name; a name is any hashable value except integers, None and '...'. Write None "
        "for a positional axis."
    )


def test_a_name_twice_is_refused():
    with pytest.raises(AxisNameError) as error:
        nx.NamedArray(make.zeros((2, 3, 2)), ("a", None, "a"))
    assert said(error.value) == (
        "NamedArray: axis 'a' appears twice in ('a', None, 'a'); one array has an axis at most once. Rename one of them."
    )


def test_dims_have_one_entry_per_dimension():
    with pytest.raises(PositionalAxisError) as error:
        nx.NamedArray(make.zeros((2, 3)), ("a",))
    assert said(error.value) == (
        "NamedArray: dims ('a',) has 1 entries for data of shape (2, 3); it needs one entry per dimension, None for a "
        "positional one."
    )


def test_the_data_of_an_array_is_no_named_array():
    with pytest.raises(NamedAxesLeftError, match=r"NamedArray: data is a named array already, f\d\d\[\]\{a:3\}. Use nx.rename"):
        nx.NamedArray(nx.named(make.zeros(3), ["a"]), ("b",))


def test_an_array_is_immutable():
    x = nx.named(make.zeros(3), ["a"])
    for name in ("data", "_data", "dims", "new"):
        with pytest.raises(
            AttributeError, match=f"NamedArray is immutable: '{name}' cannot be set. Make a new array with nx.named."
        ):
            setattr(x, name, 1)
        with pytest.raises(AttributeError, match=f"NamedArray is immutable: '{name}' cannot be deleted."):
            delattr(x, name)
    with pytest.raises(TypeError):
        x[0] = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


# --- repr -----------------------------------------------------------------------------------------------------------

F = {4: "f32", 8: "f64"}[FLOAT.itemsize]


def test_repr():
    x = nx.named(make.arange(6, dtype=jnp.int8).reshape(2, 3), ["batch", None])
    assert repr(x) == "NamedArray(i8[3]{batch:2}, dims=(batch, _),\n[[0, 1, 2],\n [3, 4, 5]])"


def test_repr_of_many_values_is_a_summary():
    x = nx.named(make.arange(35.0).reshape(5, 7) / 8, [None, "k"])
    assert repr(x) == (
        f"NamedArray({F}[5]{{k:7}}, dims=(_, k),\n"
        "[[0.   , 0.125, ..., 0.625, 0.75 ],\n"
        " [0.875, 1.   , ..., 1.5  , 1.625],\n"
        " ...,\n"
        " [2.625, 2.75 , ..., 3.25 , 3.375],\n"
        " [3.5  , 3.625, ..., 4.125, 4.25 ]])"
    )


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("bool", "bool"),
        ("uint8", "u8"),
        ("bfloat16", "bf16"),
        ("complex64", "c64"),
        ("float8_e4m3fn", "float8_e4m3fn"),
        ("int4", "i4"),
    ],
)
def test_the_element_type_in_repr(dtype, text):
    assert repr(nx.NamedArray(jnp.zeros(1, dtype), ("k",))).startswith(f"NamedArray({text}[]{{k:1}}, dims=(k),\n")


def test_repr_shows_where_an_array_lies():
    mesh = make_mesh((4, 2))
    x = nx.named(make.zeros((8, 2, 3, 2), jnp.int32), ["batch", "h", "k", None])

    def placed(*spec):
        text = repr(nx.NamedArray(jax.device_put(x.data, NamedSharding(mesh, PartitionSpec(*spec))), x.dims))
        return text.partition(", dims")[0]

    assert placed("x") == "NamedArray(i32[2]{batch:8@x, h:2, k:3}"
    assert placed("x", "y") == "NamedArray(i32[2]{batch:8@x, h:2@y, k:3}"
    assert placed(("x", "y")) == "NamedArray(i32[2]{batch:8@(x,y), h:2, k:3}"
    assert placed(None, None, None, "y") == "NamedArray(i32[2@y]{batch:8, h:2, k:3}"
    assert repr(nx.shard(x, {"batch": ("y", "x")}, mesh)).startswith(
        "NamedArray(i32[2]{batch:8@(y,x), h:2, k:3}, dims=(batch, h, k, _),\n"
    )


@pytest.mark.parametrize("partitioning", ["manual", "auto"])
def test_repr_in_a_body_has_global_sizes(partitioning):
    texts = []

    def body(x, y):
        texts.extend(map(repr, (x, y, x + y, nx.sum(x, "batch"))))
        return x

    axes = ["batch", None, "k"]
    resources = {"batch": ("x", "y")}
    f = nx.xmap(body, (axes, ["k"]), axes, axis_resources=resources, mesh=make_mesh((4, 2)), partitioning=partitioning)
    f(make.zeros((16, 5, 3)), make.zeros(3))
    assert texts == [
        f"NamedArray({F}[5]{{batch:16@(x,y), k:3}})",
        f"NamedArray({F}[]{{k:3}})",
        f"NamedArray({F}[5]{{batch:16@(x,y), k:3}})",
        f"NamedArray({F}[5]{{k:3}})",
    ]


def test_repr_without_concrete_data():
    x = nx.named(make.zeros((2, 3), jnp.int32), ["a", None])
    texts = []
    jax.jit(lambda x: texts.append(repr(x)))(x)
    assert texts == ["NamedArray(i32[3]{a:2})"]
    assert repr(jax.eval_shape(lambda x: x, x)) == "NamedArray(i32[3]{a:2})"
    assert repr(jax.tree.map(lambda _: "leaf", x)) == "NamedArray('leaf', dims=(a, _))"
    keys = nx.named(jax.random.split(jax.random.key(0), 3), ["k"])
    assert repr(keys).startswith("NamedArray(key<fry>[]{k:3}, dims=(k),\n[[")
    x.data.delete()
    assert repr(x) == "NamedArray(i32[3]{a:2}, deleted)"


class Odd:
    """An object whose attributes and words fail."""

    dtype = None

    @property
    def shape(self):
        raise RuntimeError("no shape")

    def __repr__(self):
        raise RuntimeError("no words")


LEAVES = {
    "None": (lambda x: None, "None, dims=(a, _)"),
    "text": (lambda x: "leaf", "'leaf', dims=(a, _)"),
    "an object": (lambda x: Odd(), "a value of type Odd, dims=(a, _)"),
    "a class": (lambda x: np.float32, "the class float32, dims=(a, _)"),
    "a tuple": (lambda x: (1, 2), "(1, 2), dims=(a, _)"),
    "a named array": (lambda x: x, "i32[3]{a:2}, dims=(a, _)"),
    "a type of JAX": (lambda x: jax.ShapeDtypeStruct((2, 3), jnp.int32), "i32[3]{a:2}"),
    "another type": (lambda x: jax.ShapeDtypeStruct((2,), jnp.int32), "i32[2] with axes ('a', None) that do not fit"),
    "an argument": (lambda x: jax.tree.leaves(jax.jit(lambda x: x).lower(x).args_info)[0], "i32[3]{a:2}"),
}


@pytest.mark.parametrize("kind", LEAVES)
def test_repr_with_a_placeholder_as_data(kind):
    x = nx.named(make.zeros((2, 3), jnp.int32), ["a", None])
    leaf, text = LEAVES[kind]
    placeholder = jax.tree.unflatten(jax.tree.structure(x), [leaf(x)])

    assert repr(placeholder) == f"NamedArray({text})"
    assert nx.errors.format_value(placeholder) == text
    assert text.partition("[")[0] in html.unescape(placeholder._repr_html_())
    nx.xmap(lambda x: repr(placeholder) and x, axis_resources={"a": "x"}, mesh=make_mesh((2,)))(nx.named(jnp.zeros(2), ["a"]))


def test_named_shape_without_an_array():
    placeholder = jax.tree.map(lambda _: "leaf", nx.named(make.zeros(2), ["a"]))
    with pytest.raises(nx.errors.ArrayAttributeError) as raised:
        placeholder.named_shape  # noqa: B018
    assert said(raised.value) == "named_shape: this NamedArray does not hold an array: 'leaf', dims=(a)."


def test_what_is_lowered_shows_its_arguments():
    x = nx.named(make.zeros((5, 2, 3), jnp.int32), [None, "a", None])
    lowered = nx.xmap(lambda x: x).lower(x)
    assert repr(lowered.args_info) == "((NamedArray(i32[5,3]{a:2}),), {})"
    assert repr(lowered.out_info) == "NamedArray(i32[5,3]{a:2})"


# --- operators ------------------------------------------------------------------------------------------------------

ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITWISE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]

X = nx.named(make.array(np.asarray(array(3, 2, 5, seed=1)) ** 2 + 0.5), ["a", None, "b"])
OTHERS = {
    "Python float": 1.5,
    "Python int": 2,
    "Python bool": True,
    "NumPy scalar": np.float32(1.25),
    "NumPy 0-dim": np.asarray(1.25),
    "NumPy array": np.asarray([0.5, 2.0], np.float32),
    "jax array": make.asarray([[0.5, 2.0]]),
    "jax scalar": make.asarray(0.75),
    "named": nx.named(make.array(np.asarray(array(5, 4, seed=2)) ** 2 + 0.5), ["b", "c"]),
}


@pytest.mark.full(22)
@pytest.mark.fast(3)
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS, ids=lambda op: op.__name__)
def test_operators(op, other):
    check(op(X, other), op, X, other)
    check(op(other, X), op, other, X)
    plain = other if not isinstance(other, nx.NamedArray) else other.data[0, 0]
    assert op(X, other).dtype == op(X.data[0, 0, 0], plain).dtype
    assert op(other, X).dtype == op(plain, X.data[0, 0, 0]).dtype


@pytest.mark.fast(8)
@pytest.mark.parametrize(
    "other", [3, np.int32(3), np.asarray([1, 2]), make.asarray([1, 2]), nx.named(make.asarray([1, 0, 3]), ["c"])]
)
@pytest.mark.parametrize("op", BITWISE, ids=lambda op: op.__name__)
def test_bitwise_operators(op, other):
    x = nx.named(make.asarray([[1, 6], [7, 4], [5, 9]]), ["a", None])
    check(op(x, other), op, x, other)
    check(op(other, x), op, other, x)


def test_logic_of_booleans():
    x = nx.named(make.asarray([True, False]), ["a"])
    y = nx.named(make.asarray([True, False]), ["b"])
    for op in (operator.and_, operator.or_, operator.xor):
        check(op(x, y), op, x, y)
        check(op(x, True), op, x, True)
        check(op(True, x), op, True, x)
    check(~x, operator.invert, x)


@pytest.mark.parametrize("op", [operator.neg, operator.pos, abs], ids=lambda op: op.__name__)
def test_unary_operators(op):
    check(op(X), op, X)


def test_invert():
    x = nx.named(make.asarray([[1, -6]]), ["a", None])
    check(~x, operator.invert, x)


@pytest.mark.fast(2)
@pytest.mark.parametrize("other", [0.7, np.float32(0.7), jax.device_put(0.7), nx.named(make.asarray([0.7, 0.2]), ["c"])])
def test_divmod(other):
    for i in (0, 1):
        check(divmod(X, other)[i], lambda x, y, i=i: np.divmod(x, y)[i], X, other)
        check(divmod(other, X)[i], lambda x, y, i=i: np.divmod(x, y)[i], other, X)


def test_round_is_that_of_jax():
    assert round(X).dtype == round(X.data).dtype
    check(round(X), lambda v: np.asarray(round(jnp.asarray(v))), X)
    check(round(X, 1), lambda v: np.round(v, 1), X)
    check(X.round(1), lambda v: np.round(v, 1), X)


@pytest.mark.fast(0)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, 2.0, np.float32(2)])
def test_powers_and_their_gradients_are_jnps(exponent):
    base = jnp.asarray([-1.5, 2.0, 3.0] if exponent != 0.5 else [1.5, 2.0, 3.0])
    x = nx.named(base, ["a"])
    np.testing.assert_array_equal((x**exponent).data, base**exponent)
    np.testing.assert_array_equal(
        jax.grad(lambda x: nx.sum(x**exponent, "a"))(x).data, jax.grad(lambda x: jnp.sum(x**exponent))(base)
    )
    if exponent in (0, 1, 2, 3):
        zero = nx.named(make.zeros(2), ["a"])
        np.testing.assert_array_equal(
            jax.grad(lambda x: nx.sum(x**exponent, "a"))(zero).data, jax.grad(lambda x: jnp.sum(x**exponent))(zero.data)
        )


def test_matmul_is_over_positions():
    x = nx.named(array(3, 2, 5), ["a", None, None])
    y = nx.named(array(5, 3, 4), [None, "a", None])
    z = nx.named(array(5, 2), [None, "b"])
    want = np.einsum("aij,jak->aik", x.data, y.data)
    np.testing.assert_allclose(nx.positional(x @ y, ["a", ...]), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        nx.positional(x @ z, ["a", "b", ...]), np.einsum("aij,jb->abi", x.data, z.data), rtol=1e-5, atol=1e-6
    )
    for left, right in ((np.asarray(x.data[0]), y), (x.data[0], y)):
        np.testing.assert_allclose(
            nx.positional(left @ right, ["a", ...]), np.einsum("ij,jak->aik", left, y.data), rtol=1e-5, atol=1e-6
        )
    np.testing.assert_allclose(
        nx.positional(x @ np.ones((5, 4), np.float32), ["a", ...]), x.data @ np.ones((5, 4)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("other", ["text", [1.0, 2.0], None, object(), (1.0,)])
def test_other_objects_are_no_operands(other):
    for op in (operator.add, operator.pow, operator.matmul, operator.lt):
        with pytest.raises(TypeError):
            op(X, other)
        with pytest.raises(TypeError):
            op(other, X)
    for op, result in ((operator.eq, False), (operator.ne, True)):
        if isinstance(other, (list, tuple)):  # as of an array of JAX
            with pytest.raises(TypeError):
                op(X, other)
        else:
            assert op(X, other) is result


def test_a_foreign_class_may_answer():
    class Foreign:
        def __radd__(self, other):
            return "foreign"

    assert X + Foreign() == "foreign"


# --- broadcasting by name -------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_positions_meet_positions_and_names_meet_names():
    a = nx.named(array(2, 1, 3, seed=1), [None, None, "a"])
    b = nx.named(array(1, 4, seed=2), [None, "b"])
    c = nx.named(array(5, 4, 3, seed=3), [None, "b", "a"])
    assert (a + b).shape == (2, 1)
    assert (a + b).named_shape == {"a": 3, "b": 4}
    assert (a + c).shape == (2, 5)
    assert (a + c).named_shape == {"a": 3, "b": 4}
    for x, y in itertools.permutations((a, b, c), 2):
        check(x * y, np.multiply, x, y)


def test_a_position_is_no_name():
    named, positional = nx.named(array(3, seed=1), ["a"]), array(3, seed=2)
    outer = named - positional
    assert (outer.shape, outer.named_shape) == ((3,), {"a": 3})
    np.testing.assert_allclose(nx.positional(outer, ["a", None]), named.data[:, None] - positional, rtol=1e-6)


def test_a_named_axis_of_size_one_does_not_broadcast():
    with pytest.raises(AxisSizeError) as error:
        nx.named(make.ones((1, 2), jnp.int32), ["a", None]) + nx.named(make.ones(3, jnp.int32), ["a"])
    assert said(error.value) == (
        "add: axis 'a' has size 1 in operand 0, i32[2]{a:1}, and size 3 in operand 1, i32[]{a:3}; a name has one size. Rename "
        "one of the two axes: nx.rename(y, {'a': 'a2'})."
    )


def test_a_positional_axis_of_size_one_does():
    x, y = nx.named(array(1, 3), [None, "a"]), nx.named(array(3, 4), ["a", None])
    assert (x + y).shape == (4,)
    check(x + y, np.add, x, y)
    empty = nx.named(make.zeros((0, 3)), [None, "a"])
    assert (x + empty).shape == (0,)


def test_positional_axes_that_do_not_broadcast():
    with pytest.raises(PositionalAxisError) as error:
        nx.named(make.ones((2, 3), jnp.int32), [None, "a"]) * nx.named(make.ones((4, 3), jnp.int32), ["b", None])
    assert said(error.value) == (
        "multiply: positional axis -1 has size 2 in operand 0, i32[2]{a:3}, and size 3 in operand 1, i32[3]{b:4}; positional "
        "axes broadcast from the right, as in NumPy. Insert an axis (x[..., None]), or give the axis a name."
    )


def test_a_result_follows_its_first_operand():
    x = nx.named(array(3, 2, 4), ["a", None, "c"])
    assert (x + nx.named(array(4, 3), ["c", "a"])).dims == ("a", None, "c")
    assert (nx.named(array(4), ["c"]) + x).dims == ("a", None, "c")


@st.composite
def operands(draw, count):
    """Arrays with some of three names and up to two positional axes, in any physical order."""
    arrays = []
    for seed in range(count):
        dims = draw(st.lists(st.sampled_from(sorted(SIZES)), unique=True))
        shape = draw(st.sampled_from([(), (1,), (5,), (2, 5), (2, 1), (1, 5)]))
        for _ in shape:
            dims.insert(draw(st.integers(0, len(dims))), None)
        sizes = iter(shape)
        data = array(*(next(sizes) if dim is None else SIZES[dim] for dim in dims), seed=seed)
        arrays.append(nx.NamedArray(data, tuple(dims)) if set(dims) - {None} else data)
    return arrays


@pytest.mark.fast(0)
@quick
@hypothesis.given(operands(2))
def test_two_operands_in_any_order(xs):
    x, y = xs
    if isinstance(x, nx.NamedArray) or isinstance(y, nx.NamedArray):
        check(x - y, np.subtract, x, y)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@quick
@hypothesis.given(operands(3))
def test_three_operands_in_any_order(xs):
    if any(isinstance(x, nx.NamedArray) for x in xs):
        condition = xs[0] > 0
        check(nx.where(condition, xs[1], xs[2]), np.where, condition, xs[1], xs[2])


@pytest.mark.full(1)
@pytest.mark.fast(0)
@quick
@hypothesis.given(st.permutations(range(4)), st.permutations(range(4)))
def test_the_physical_order_has_no_meaning(first, second):
    names = ("a", "b", "c", None)
    x, y = array(3, 2, 4, 5, seed=1), array(3, 2, 4, 5, seed=2)

    def stored(data, order):
        return nx.NamedArray(jnp.transpose(data, order), tuple(names[i] for i in order))

    result = stored(x, first) - stored(y, second)
    np.testing.assert_array_equal(nx.positional(result, ["a", "b", "c", None]), x - y)
    total = nx.sum(stored(x, first) * stored(y, second), ("a", "c", 0))
    np.testing.assert_allclose(nx.positional(total, ["b"]), jnp.einsum("abcp,abcp->b", x, y), rtol=1e-4, atol=1e-5)


def test_square_axes_are_not_confused():
    x = nx.named(array(3, 3), ["a", "b"])
    y = nx.named(array(3, 3, seed=4), ["b", "a"])
    np.testing.assert_array_equal(nx.positional(x + y, ["a", "b"]), x.data + y.data.T)


# --- element types --------------------------------------------------------------------------------------------------

DTYPES = ["bool", "uint8", "int8", "int32", "bfloat16", "float16", "float32", "complex64"]


def element_type(function):
    """Element type, and whether it is weak, of what `function` returns; compiles nothing."""
    result = jax.eval_shape(function)
    return result.dtype, result.weak_type


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("left", DTYPES)
def test_element_types_are_jnps(left):
    x = nx.named(make.ones(2, left), ["a"])
    rights = [make.ones((), right) for right in DTYPES] + [True, 1, 1.0, 1j, np.int64(1), np.float64(1), np.ones(2)]
    for right in rights:
        for op in (operator.add, operator.mul, operator.truediv, operator.eq):
            assert element_type(lambda op=op, y=right: op(x, y)) == element_type(lambda op=op, y=right: op(x.data, y)), (
                op,
                right,
            )
            assert element_type(lambda op=op, y=right: op(y, x)) == element_type(lambda op=op, y=right: op(y, x.data)), (
                op,
                right,
            )


def test_weak_types_stay_weak():
    weak = jnp.broadcast_to(jnp.asarray(1.0), (3,))
    assert weak.weak_type
    x = nx.named(weak, ["a"])
    assert (x + 1).weak_type == (weak + 1).weak_type
    assert (x + jnp.ones(3, jnp.bfloat16)[0]).dtype == jnp.bfloat16
    assert jax.jit(lambda x: x * 2)(x).weak_type


def test_sixty_four_bits():
    with jax.enable_x64(True):
        x = nx.named(make.arange(3.0, dtype="float64"), ["a"])
        y = nx.named(make.arange(3, dtype="int32"), ["a"])
        assert (x + y).dtype == x.dtype == jnp.float64
        assert (y + np.int64(2)).dtype == jnp.int64
        assert (y + 2).dtype == jnp.int32
        assert repr(x) == "NamedArray(f64[]{a:3}, dims=(a),\n[0., 1., 2.])"
        assert float(nx.sum(x / 3, "a")) == 1.0


def test_astype():
    assert X.astype(jnp.int8).dtype == jnp.int8
    assert X.astype("bfloat16").dims == X.dims
    np.testing.assert_array_equal(X.astype(int).data, X.data.astype(int))


# --- as Python and NumPy see it -------------------------------------------------------------------------------------


def test_conversion_to_numpy_rejects_named_axes():
    x = nx.named(make.zeros((2, 3), jnp.int32), ["a", None])
    message = (
        "np.asarray: i32[3]{a:2} still has named axes, and np.asarray needs an array without names. Reduce them, or give them "
        "positions with nx.positional(x, ['a', ...])."
        " jnp.asarray and NumPy's functions need one too; the functions of nx and nx.numpy take named arrays."
    )
    for convert in (np.asarray, np.array, jnp.asarray):
        with pytest.raises(NamedAxesLeftError) as error:
            convert(x)
        assert said(error.value) == message


def test_an_array_without_names_converts():
    x = nx.NamedArray(jnp.asarray(3), ())
    assert (bool(x), int(x), float(x), complex(x), operator.index(x), x.item(), x.tolist()) == (True, 3, 3.0, 3 + 0j, 3, 3, 3)
    assert (f"{x:>3}", f"{nx.NamedArray(jnp.float32(0.5), ()):.2f}") == ("  3", "0.50")
    y = nx.NamedArray(make.arange(3), (None,))
    np.testing.assert_array_equal(np.asarray(y), [0, 1, 2])
    assert np.asarray(y, np.float16).dtype == np.float16
    assert y.tolist() == [0, 1, 2]
    assert 2 in y
    assert 5 not in y


def test_length_and_iteration_are_of_the_first_position():
    x = nx.named(array(3, 2, 4), ["a", None, None])
    assert len(x) == 2
    rows = list(x)
    assert [row.shape for row in rows] == [(4,), (4,)]
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(nx.positional(row, ["a", ...]), x.data[:, i])


def test_block_until_ready():
    assert X.block_until_ready() is X


# --- positional indexing --------------------------------------------------------------------------------------------

INDICES = [
    0,
    -1,
    np.int32(1),
    slice(1, None),
    slice(None, None, -1),
    None,
    ...,
    (),
    (..., 2),
    (0, slice(0, 3, 2)),
    (slice(None), None, 1),
    (None, ..., -1),
    np.asarray([1, 0, 1]),
    (np.asarray([1, 0]), np.asarray([2, 4])),
    (slice(None), make.asarray([[0, 4], [3, 3]])),
    np.asarray([True, False]),
    (slice(None), np.asarray([True, False, True, False, False])),
]


@pytest.mark.fast(4)
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_an_index_speaks_of_positions(index):
    x = nx.named(array(3, 2, 4, 5), ["a", None, "c", None])
    want = np.stack([np.stack([np.asarray(x.data)[i, :, j][index] for j in range(4)]) for i in range(3)])
    have = x[index]
    assert have.named_shape == {"a": 3, "c": 4}
    np.testing.assert_array_equal(nx.positional(have, ["a", "c", ...]), want)


def test_a_named_index_works_per_instance():
    x = nx.named(array(3, 6), ["a", None])
    i = nx.named(make.asarray([5, 0, 2]), ["a"])
    j = nx.named(make.asarray([[1, 4], [2, 2], [0, 3]]), ["a", "t"])
    data = np.asarray(x.data)
    np.testing.assert_array_equal(x[i].data, [data[0, 5], data[1, 0], data[2, 2]])
    np.testing.assert_array_equal(nx.positional(x[j], ["a", "t"]), np.take_along_axis(data, np.asarray(j.data), 1))
    new = nx.named(make.asarray([3, 1]), ["t"])
    np.testing.assert_array_equal(nx.positional(x[new], ["a", "t"]), data[:, [3, 1]])


def test_too_many_indices():
    with pytest.raises(PositionalAxisError, match="Too many indices: array is 1-dimensional, but 2 were indexed"):
        nx.named(make.zeros((2, 3)), ["a", None])[0, 0]


@pytest.mark.parametrize("use", [lambda y: y + 1, lambda y: nx.sum(y, "a"), lambda y: nx.dot(y, y, "a"), lambda y: y["a", 0]])
def test_a_tree_function_that_put_names_inside_of_an_array(use):
    x, rates = nx.named(make.zeros((2,)), ["a"]), nx.named(make.zeros((3,)), ["rate"])
    y = jax.tree.map(lambda leaf: leaf * rates, x)
    with pytest.raises(PositionalAxisError, match=r"holds a named array, f32\[2\]\{rate:3\}, as its data\. .*is_leaf=lambda"):
        use(y)


@pytest.mark.parametrize(("index", "text"), [(0, "0"), (slice(1, 2), "2:5"), ((..., np.int64(1)), "1")])
def test_a_position_where_all_axes_have_names(index, text):
    x = nx.named(make.zeros((2, 3)), ["a", "b"])
    with pytest.raises(PositionalAxisError, match=rf"has no positional axis for the index .* as in x\['a', {text}\]\."):
        x[index]
    assert x[...].dims == ("a", "b")
    assert x[None].shape == (1,)


# --- methods --------------------------------------------------------------------------------------------------------

REDUCTIONS = ["sum", "mean", "var", "std", "prod", "max", "min", "any", "all", "argmax", "argmin"]


@pytest.mark.fast(2)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_as_methods(name):
    x = nx.named(array(3, 2, 5), ["a", None, "b"])
    np.testing.assert_allclose(nx.positional(getattr(x, name)("b"), ["a", ...]), getattr(np, name)(x.data, 2), rtol=1e-5)
    np.testing.assert_allclose(nx.positional(getattr(x, name)(axis=0), ["a", "b"]), getattr(np, name)(x.data, 1), rtol=1e-5)
    np.testing.assert_allclose(nx.positional(getattr(x, name)(), ["a", "b"]), getattr(np, name)(x.data, 1), rtol=1e-5)


POSITIONAL = {
    "reshape": (lambda x: x.reshape(5, 2), lambda v: v.reshape(5, 2)),
    "reshape -1": (lambda x: x.reshape(-1), lambda v: v.reshape(-1)),
    "ravel": (lambda x: x.ravel(), np.ravel),
    "flatten": (lambda x: x.flatten(), np.ravel),
    "transpose": (lambda x: x.transpose(), np.transpose),
    "transpose axes": (lambda x: x.transpose(1, 0), np.transpose),
    "T": (lambda x: x.T, np.transpose),
    "mT": (lambda x: x.mT, np.transpose),
    "swapaxes": (lambda x: x.swapaxes(0, 1), np.transpose),
    "squeeze": (lambda x: x[:1].squeeze(0), lambda v: v[0]),
    "repeat": (lambda x: x.repeat(2, axis=1), lambda v: v.repeat(2, axis=1)),
    "diagonal": (lambda x: x.diagonal(), np.diagonal),
    "trace": (lambda x: x.trace(), np.trace),
    "take": (lambda x: x.take(jnp.asarray([3, 1]), 1), lambda v: v.take([3, 1], 1)),
    "clip": (lambda x: x.clip(-0.5, 0.5), lambda v: v.clip(-0.5, 0.5)),
    "conj": (lambda x: x.conj(), np.conj),
    "conjugate": (lambda x: x.conjugate(), np.conj),
    "real": (lambda x: x.real, np.real),
    "imag": (lambda x: x.imag, np.imag),
    "copy": (lambda x: x.copy(), np.copy),
}


@pytest.mark.fast(8)
@pytest.mark.parametrize("method", POSITIONAL.values(), ids=POSITIONAL)
def test_methods_speak_of_positions(method):
    have, want = method
    data = array(3, 2, 5) + 1j * array(3, 2, 5, seed=9) if want in (np.real, np.imag, np.conj) else array(3, 2, 5)
    x = nx.named(jnp.moveaxis(data, 0, 2), [None, None, "a"])
    np.testing.assert_allclose(nx.positional(have(x), ["a", ...]), np.stack([want(np.asarray(row)) for row in data]), rtol=1e-6)


def test_methods_by_name():
    x = nx.named(array(3, 2), ["a", "b"])
    assert x.rename({"a": "c"}).dims == ("c", "b")
    assert x.rename(a="c", b="a").dims == ("c", "a")
    np.testing.assert_allclose(x.dot(nx.named(array(3, 4), ["a", "c"]), "a").data, x.data.T @ array(3, 4), rtol=1e-5)
    np.testing.assert_array_equal(x.take(nx.named(jnp.asarray([2, 0]), ["t"]), "a").data, x.data[jnp.asarray([2, 0])])


def test_methods_have_names_and_docstrings():
    for name in [*REDUCTIONS, "astype", "reshape", "rename", "take", "dot", "copy", "round", "clip"]:
        method = getattr(nx.NamedArray, name)
        assert method.__name__ == name
        assert method.__qualname__ == f"NamedArray.{name}"
        assert method.__doc__


# --- law 6 ----------------------------------------------------------------------------------------------------------

NOTHING_NAMED_LEFT = {
    "sum": lambda x: nx.sum(x, ("a", "b")),
    "method": lambda x: x.max(("a", "b")),
    "argmax": lambda x: nx.argmax(nx.sum(x, "b"), "a"),
    "dot": lambda x: nx.dot(x, x, ("a", "b")),
    "einsum": lambda x: nx.einsum("n{a,b},m{a,b}->nm", x, x),
    "positional": lambda x: nx.positional(x, ["a", "b", ...]),
    "named with nothing": lambda x: nx.named(jnp.ones(3), {}),
    "elementwise": lambda x: nx.exp(nx.sum(x, ("a", "b"))),
    "take": lambda x: nx.take(nx.sum(x, "b"), 0, "a"),
    "all_gather": lambda x: nx.lax.all_gather(x, ("a", "b")),
}


@pytest.mark.fast(4)
@pytest.mark.parametrize("function", NOTHING_NAMED_LEFT.values(), ids=NOTHING_NAMED_LEFT)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_nothing_named_left_is_a_plain_array(function, compiled):
    x = nx.named(array(3, 2, 4), ["a", None, "b"])
    result = (jax.jit(function) if compiled else function)(x)
    assert isinstance(result, jax.Array)


def test_an_empty_array_of_names_becomes_plain():
    assert isinstance(nx.NamedArray(jnp.asarray(3.0), ()) + 1, jax.Array)


# --- copies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(protocol):
    x = nx.named(array(3, 2), ["a", None])
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.dims == x.dims
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.data, x.data)


@pytest.mark.parametrize(
    "data",
    [lambda: jnp.ones(2, jnp.bfloat16), lambda: jax.random.split(jax.random.key(3), 2), lambda: jnp.broadcast_to(2.0, (2,))],
)
def test_pickling_keeps_the_type(data):
    x = nx.NamedArray(data(), (("layer", 1),))
    y = pickle.loads(pickle.dumps(x))
    assert (y.dims, y.dtype, y.weak_type) == (x.dims, x.dtype, x.weak_type)


def test_copies():
    x = nx.shard(nx.named(array(8, 2), ["a", None]), {"a": "x"}, make_mesh((4, 2)))
    for y in (copy.copy(x), copy.deepcopy(x), x.copy()):
        assert (y.dims, y.sharding) == (x.dims, x.sharding)
        np.testing.assert_array_equal(y.data, x.data)
    deep = copy.deepcopy(x)
    assert deep.data is not x.data


def test_copies_of_traced_arrays():
    def total(x):
        return nx.sum(copy.copy(x) + copy.deepcopy(x) + x.copy(), "a")

    np.testing.assert_allclose(jax.grad(total)(nx.named(jnp.arange(3.0), ["a"])).data, 3.0)


def test_static_checkers_are_told_of_every_operator_and_method():
    source = Path(inspect.getfile(NamedArray))
    (body,) = (node.body for node in ast.parse(source.read_text()).body if getattr(node, "name", "") == "NamedArray")
    (stub,) = (
        node.body for node in ast.parse(source.with_name("methods.pyi").read_text()).body if isinstance(node, ast.ClassDef)
    )
    declared = {node.name for node in stub if isinstance(node, ast.FunctionDef)}
    written = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    attributes = {name for name, value in vars(NamedArray).items() if callable(value) or isinstance(value, property)}
    # `__getattr__` fills what an array has not needed yet; a checker that knew of it would accept every attribute. One that knew of
    # `__setitem__`, which only says what to write instead, would accept assignments to entries.
    assert attributes - written - {"__hash__", "__getattr__", "__setitem__"} == declared - written
