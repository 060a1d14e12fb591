"""The likeliest mistakes with the most used functions: each is an error of namedax that names the axes and says what to write.

Whole messages are compared. Where a function of JAX refuses the positional axes that it sees, its own words stand in the message; there
only ours are compared.
"""

import collections.abc
import copy
import pickle
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArrayAttributeError,
    AxisMappingError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    MeshError,
    NamedaxError,
    NamedAxesLeftError,
    PositionalAxisError,
)
from tests import make
from tests.harness import array, make_mesh, said

MESH = make_mesh((8,))
K = nx.named(array(4, 4), ["n", "m"])
X = nx.named(array(4, 6), ["q", "k"])
T = nx.named(array(8), ["t"])
KEY = make.key(0)


def message(call, kind):
    """The text of the error that a call raises, of this very class."""
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    return said(error.value)


def in_body(body, *args, resources=None):
    return lambda: nx.xmap(body, axis_resources=resources, mesh=MESH)(*args)


# --- functions of positions: names are batch axes ------------------------------------------------------------------


# As a shape that is wrong since JAX 0.12, and before as a permutation that is none.
OF_CHOLESKY = PositionalAxisError if jax.__version_info__ >= (0, 12) else ArgumentTypeError
GOT_X = "it got f32[] of f32[]{q:4, k:6}. Convert the axes that it acts on to positions first with nx.positional(x, ['q', 'k']), and name them"


@pytest.mark.parametrize(
    ("call", "kind", "name"),
    [
        (lambda: nx.numpy.linalg.cholesky(X), OF_CHOLESKY, "cholesky"),
        (lambda: nx.numpy.linalg.inv(X), PositionalAxisError, "inv"),
        (lambda: nx.numpy.linalg.solve(X, 1.0), PositionalAxisError, "solve"),
        (lambda: nx.numpy.reshape(X, (24,)), ArgumentTypeError, "reshape"),
        (lambda: nx.numpy.correlate(X, jnp.ones(2)), PositionalAxisError, "correlate"),
        (lambda: X.reshape(2, -1), ArgumentTypeError, "reshape"),
        (lambda: X.mT, PositionalAxisError, "matrix_transpose"),
        (lambda: X @ jnp.ones((4, 3)), PositionalAxisError, "matmul"),
        (lambda: jnp.ones((4, 3)) @ X, PositionalAxisError, "matmul"),
        (lambda: X[jnp.array(0)], PositionalAxisError, "getitem"),
    ],
)
def test_positional_functions_report_what_they_got(call, kind, name):
    text = message(call, kind)
    assert text.startswith(f"{name}: ")
    assert f"Here {name} acts on positional axes, and names are batch axes: {GOT_X}" in text


@pytest.mark.parametrize("resources", [{}, {"t": "x"}])
def test_positional_functions_in_a_body_report_what_they_got(resources):
    text = message(in_body(lambda t: nx.numpy.linalg.inv(t), T, resources=resources), PositionalAxisError)
    assert "it got f32[] of f32[]{t:8" in text


def test_a_users_own_function_keeps_its_error_and_gets_a_note():
    def own(x):
        raise ValueError("too small")

    with pytest.raises(ValueError, match="too small") as error:
        nx.nmap(own)(X)
    assert not isinstance(error.value, NamedaxError)
    (note,) = (note for note in error.value.__notes__ if note.startswith("namedax"))
    assert note.startswith(f"namedax: own acts on positional axes, and names are batch axes: {GOT_X}")


def test_arrays_without_names_keep_the_words_of_jax():
    with pytest.raises(ValueError, match="must have shape") as error:
        nx.numpy.linalg.inv(make.ones(3))
    assert not isinstance(error.value, NamedaxError)


@pytest.mark.parametrize(
    "function",
    [
        *(jnp.sin, jnp.sum, jax.nn.relu, jnp.linalg.norm),
        lambda x: jnp.dot(x, x),
        lambda x: jnp.concatenate([x, x]),
        lambda x: jnp.where(True, x, 0),
        lambda x: jax.lax.add(x, x),
        lambda x: jax.lax.cond(True, lambda: x, lambda: nx.rename(x, {"q": "z"})),
    ],
)
def test_a_named_array_in_a_function_of_jax(function):
    with pytest.raises(TypeError, match=r"do not take: call nx\.numpy's, or nx\.nmap\(function\)"):
        function(X)


OPTION = "must be static, got [1]. Pass a Python value instead of an array or a list."


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nx.mean(X, "k", dtype=[1]), "mean: the option dtype "),
        (lambda: nx.var(X, "k", ddof=[1]), "var: the option ddof "),
        (lambda: nx.cumsum(X, "k", dtype=[1]), "cumsum: the option dtype "),
    ],
)
def test_options_of_the_program(call, text):
    assert message(call, ArgumentTypeError) == text + OPTION


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: nx.pad(X, "k"),
            ArgumentTypeError,
            "pad: pad_width='k' is an axis name. Write it with the width, nx.pad(x, {'k': (1, 2)}).",
        ),
        (
            lambda: nx.pad(X, "k", (1, 0)),
            ArgumentTypeError,
            "pad: pad_width='k' is an axis name. Write it with the width, nx.pad(x, {'k': (1, 0)}).",
        ),
        (
            lambda: nx.pad("k", X),
            ArgumentTypeError,
            "pad: expected an array, got 'k'. Write nx.pad(array, {name: (before, after)}, mode).",
        ),
        (
            lambda: nx.tile(X, "k"),
            ArgumentTypeError,
            "tile: expected a number or a dict of numbers, got 'k'. Write nx.tile(A, {name: times}).",
        ),
        (
            lambda: nx.roll(X, "k", 1),
            ArgumentTypeError,
            "roll: shift must be a static integer, got 'k'. Write nx.roll(a, shift, axis).",
        ),
        (
            lambda: nx.repeat(X, "k", 2),
            ArgumentTypeError,
            "repeat: expected a number of repetitions or a pattern, got 'k'. Write nx.repeat(x, repeats, axis).",
        ),
        (
            lambda: X.repeat("k"),
            ArgumentTypeError,
            "repeat: expected a number of repetitions or a pattern, got 'k'. Write nx.repeat(x, repeats, axis).",
        ),
        (
            lambda: nx.broadcast_to(X, "new"),
            ArgumentTypeError,
            "broadcast_to: shape='new' is an axis name. Write it with its size, nx.broadcast_to(x, named_shape={'new': size}).",
        ),
        (
            lambda: nx.rearrange(X, "k", 2),
            ArgumentTypeError,
            "rearrange: takes 2 positional arguments but 3 were given. Write nx.rearrange(x, pattern).",
        ),
        (
            lambda: nx.numpy.trapezoid("k", X),
            ArgumentTypeError,
            "trapezoid: expected an array, got 'k'. Write nx.trapezoid(y, x, dx, axis).",
        ),
        (
            lambda: nx.where("k", X),
            ArgumentTypeError,
            "where: expected an array, got 'k'. Write nx.where(condition, x, y, axis=...).",
        ),
        (
            lambda: nx.pad(X, {"k": 1}, mode="foo"),
            ArgumentError,
            "pad: mode must be a function or one of constant, edge, empty, linear_ramp, maximum, mean, median, minimum, "
            "reflect, symmetric, wrap, got 'foo'.",
        ),
        (
            lambda: nx.nn.one_hot(jnp.array(1), 1.5, axis="c"),
            ArgumentTypeError,
            "one_hot: num_classes must be a static integer of at least 0, got 1.5. Pass num_classes=2.",
        ),
        (
            lambda: nx.nn.one_hot(nx.named(jnp.arange(3), ["q"]), -1),
            ArgumentError,
            "one_hot: num_classes must be a static integer of at least 0, got -1.",
        ),
        (lambda: X["z", 0], AxisNotFoundError, "getitem: no axis 'z' in f32[]{q:4, k:6}; its named axes are 'q', 'k'."),
        (
            lambda: X.at["z", 0].set(1),
            AxisNotFoundError,
            "at[...].set: no axis 'z' in f32[]{q:4, k:6}; its named axes are 'q', 'k'.",
        ),
    ],
)
def test_other_mistakes(call, kind, text):
    assert message(call, kind) == text


@pytest.mark.parametrize("axis", [0, ["a"], ...])
def test_what_is_not_a_name_in_arange(axis):
    with pytest.raises(AxisNameError, match="arange"):
        nx.arange(3, axis=axis)


# --- what a user of NumPy writes ------------------------------------------------------------------------------------

W = nx.named(array(6, 3), ["k", "hidden"])
MAPPING = (
    "is not an axis mapping. Write a dict from positions to names ({0: 'batch'}), a list with one entry per axis (['batch', None]), or a list "
    "that ends with '...' (['batch', ...])."
)
PAIRS = "names an axis, but does not consist of pairs of a name and an index."
OPERANDS = "matmul acts on positional axes, and names are batch axes: it got f32[] of f32[]{q:4, k:6} and f32[] of"


def assign(x, index, value):
    x[index] = value


@pytest.mark.parametrize("product", [lambda x, y: x @ y, nx.numpy.matmul])
def test_a_matrix_product_of_names(product):
    text = message(lambda: product(X, W), PositionalAxisError)
    assert text.endswith(f"Here {OPERANDS} f32[]{{k:6, hidden:3}}. To contract their common axis write nx.dot(x, y, 'k').")
    text = message(lambda: product(X, X), PositionalAxisError)
    assert text.endswith("To contract a common axis write nx.dot(x, y, axis), with one of 'q', 'k'.")


@pytest.mark.parametrize("op", ["dot", "inner", "vdot"])
def test_positional_contractions_of_arrays_with_named_axes_only(op):
    product = getattr(nx.numpy, op)
    why = f"{op}: nx.numpy.{op} contracts positional axes, and neither f32[]{{q:4, k:6}} nor"
    assert message(lambda: product(X, W), PositionalAxisError) == (
        f"{why} f32[]{{k:6, hidden:3}} has one. To contract their common axis write nx.dot(x, y, 'k')."
    )
    assert message(lambda: product(a=X, b=X), PositionalAxisError) == (
        f"{why} f32[]{{q:4, k:6}} has one. To contract a common axis write nx.dot(x, y, axis), with one of 'q', 'k'."
    )
    other = nx.rename(X, {"q": "r", "k": "s"})
    assert message(lambda: product(X, other), PositionalAxisError) == (
        f"{why} f32[]{{r:4, s:6}} has one. To multiply them write x * y."
    )
    # What has a position, or no name, means what it does in JAX for each instance.
    rows = nx.named(jnp.ones((4, 6)), ["q", None])
    assert (nx.positional(product(rows, rows), ["q"]) == 6).all()
    assert (product(X, 2.0).data == 2 * X.data).all()


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "max", "min", "any", "all", "std", "var", "argmax", "ptp"])
@pytest.mark.parametrize("as_method", [True, False])
def test_axes_as_separate_arguments(op, as_method):
    call = getattr(X, op) if as_method else lambda *axes: getattr(nx, op)(X, *axes)
    assert message(lambda: call("q", "k"), ArgumentTypeError) == (
        f"{op}: 'q', 'k' are separate arguments, but one argument takes all axes of f32[]{{q:4, k:6}}. Write axis=('q', 'k')."
    )


@pytest.mark.parametrize("function", [nx.sum, nx.numpy.sum, nx.cumsum, nx.mean, nx.numpy.var])
def test_neither_an_axis_nor_a_dtype(function):
    text = f"{function.__name__}: {{!r}} follows the axis, but is neither an axis of f32[]{{{{q:4, k:6}}}} nor a dtype."
    assert message(lambda: function(X, "k", "flaot"), ArgumentTypeError) == (
        text.format("flaot") + " Did you mean 'float'? For several axes write axis=('k', 'flaot')."
    )
    assert message(lambda: function(X, "k", "qq"), ArgumentTypeError) == (
        text.format("qq") + " Did you mean 'q'? For several axes write axis=('k', 'qq')."
    )
    with pytest.raises(ArgumentTypeError, match="dtype='flaot' is not a dtype"):
        function(X.data, 0, "flaot")


def test_resources_in_the_place_of_mappings():
    text = f"xmap, in_axes: 'x' {MAPPING} Did you mean axis_resources={{'q': 'x'}}?"
    assert message(lambda: nx.xmap(nx.sin, {"q": "x"}, mesh=MESH), AxisMappingError) == text
    text = text.replace("in_axes", "out_axes")
    assert message(lambda: nx.xmap(nx.sin, ["q", ...], {"q": "x"}, mesh=MESH), AxisMappingError) == text


@pytest.mark.parametrize(
    ("axes", "meant"),
    [
        ("q", " Did you mean ['q']?"),
        (("q", "k"), " A tuple holds the mappings of several values. Did you mean ['q', 'k']?"),
        (("q", "k", 0), " A tuple holds the mappings of several values. Did you mean ['q', 'k', None]?"),
        (("q", ...), " A tuple holds the mappings of several values. Did you mean ['q', ...]?"),
        ((["q"], "k"), " Did you mean ['k']?"),
    ],
)
def test_a_mapping_that_is_no_list(axes, meant):
    wrong = "k" if axes == (["q"], "k") else "q"
    for op, call in (
        ("named", lambda: nx.named(X.data, axes)),
        ("positional", lambda: nx.positional(X, axes)),
        ("xmap, in_axes", lambda: nx.xmap(nx.sin, axes)),
        ("xmap, out_axes", lambda: nx.xmap(nx.sin, ["q", "k"], axes)),
    ):
        assert message(call, AxisMappingError) == f"{op}: {wrong!r} {MAPPING}{meant}"


def test_other_names_by_named():
    assert message(lambda: nx.named(X, ["q", "b"]), AxisMappingError) == (
        "named: the axis mapping ['q', 'b'] asserts 2 axes, but the array f32[]{q:4, k:6} has 0 positional axes, and the named axes 'q', 'k'. "
        "Rename its axes with nx.rename(x, {'k': 'b'})."
    )
    assert message(lambda: nx.named(X, ["q", "k", "b"]), AxisMappingError).startswith(
        "named: the axis mapping ['q', 'k', 'b'] asserts 3 axes, but the array f32[]{q:4, k:6} has 0. Write one entry per axis"
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: nx.dot(X, W.data, "k"),
            "f32[6,3]; it has no named axis. HINT Name the axes of y first: nx.named(y, ['k', None]).",
        ),
        (
            lambda: nx.dot(W.data.T, X, "k"),
            "f32[3,6]; it has no named axis. HINT Name the axes of x first: nx.named(x, [None, 'k']).",
        ),
        (
            lambda: nx.dot(X, array(6, 6), "k"),
            "f32[6,6]; it has no named axis. HINT Name the axes of y first: nx.named(y, ['k', ...]).",
        ),
        (lambda: nx.dot(X, 2.0, "k"), "f32[]; it has no named axis. HINT"),
        (lambda: nx.dot(X, W.rename(k="z"), "k"), "f32[]{z:6, hidden:3}; its named axes are 'z', 'hidden'. HINT"),
    ],
)
def test_a_product_with_an_array_without_names(call, text):
    assert message(call, AxisNotFoundError) == f"dot: no axis 'k' in {text}".replace(
        "HINT", "dot contracts names that both arrays have."
    )


@pytest.mark.parametrize(
    ("axes", "absent", "remedy"),
    [
        (["q", "hiden"], "; no axis here is named 'hiden'", "Did you mean 'hidden'? Write ['q', 'hidden']."),
        (["q"], "", "Reduce them in the function, or place them in the mapping, as in ['q', 'hidden']."),
        (
            ["q", "z"],
            "; no axis here is named 'z'",
            "Reduce them in the function, or place them in the mapping, as in ['q', 'hidden'].",
        ),
    ],
)
def test_a_name_misspelt_where_it_is_placed(axes, absent, remedy):
    y = nx.dot(X, W, "k")
    left = f"f32[]{{q:4, hidden:3}}, still has the axes 'hidden', which {axes} does not place{absent}. {remedy}"
    assert message(lambda: nx.positional(y, axes), NamedAxesLeftError) == f"positional: the array, {left}"
    f = nx.xmap(lambda x, w: nx.dot(x, w, "k"), (["q", "k"], ["k", "hidden"]), axes)
    assert message(lambda: f(X.data, W.data), NamedAxesLeftError) == f"xmap, out_axes: the result, {left}"


@pytest.mark.parametrize(
    ("axes", "remedy"),
    [
        (["bathc"], "Did you mean 'batch'? Write [], or give its size in axis_sizes."),
        (["z"], "Write [], or give its size in axis_sizes."),
    ],
)
def test_a_name_of_out_axes_that_no_array_has(axes, remedy):
    f = nx.xmap(lambda x: nx.sum(x, ...), ["batch", "k"], axes)
    assert message(lambda: f(X.data), AxisMappingError) == (
        f"xmap, out_axes: {axes} places {axes[0]!r}, but the result, f32[], has no such axis, and it has no size to broadcast to. {remedy}"
    )


# --- protocols of Python and NumPy, through which a mistake arrives ---------------------------------------------------


@pytest.mark.parametrize(("index", "name"), [(0, "q"), (1, "k"), (-1, "k"), (7, "q")])
def test_an_index_of_the_shape_of_an_array_without_positional_axes(index, name):
    text = f"shape: x.shape[{index}] does not exist, since x has no positional axis; its named axes are 'q', 'k'. Write x.named_shape[{name!r}]."
    assert message(lambda: X.shape[index], PositionalAxisError) == text
    with pytest.raises(IndexError):  # as of a tuple
        X.shape[index]
    assert message(lambda: jax.jit(lambda x: x.shape[index])(X), PositionalAxisError) == text
    assert message(in_body(lambda x: x.shape[index], X, resources={"k": None}), PositionalAxisError) == text


def test_the_shape_is_the_empty_tuple_otherwise():
    shape = X.shape
    assert shape == ()
    assert hash(shape) == hash(())
    assert repr(shape) == "()"
    assert isinstance(shape, tuple)
    assert shape[:1] == (*shape,) == tuple(shape) == ()
    assert jnp.zeros(shape).shape == jax.ShapeDtypeStruct(shape, "float32").shape == ()
    assert type(copy.deepcopy(shape)) is type(pickle.loads(pickle.dumps(shape))) is tuple
    with pytest.raises(TypeError, match="tuple indices must be integers"):
        shape["q"]
    assert nx.named(array(4, 6), ["q", ...]).shape[0] == 6
    assert nx.named(array(4, 6), [...]).shape == (4, 6)


UNHASHABLE = (
    "hash: an array with the axes 'q', 'k' is unhashable, so it cannot be a static argument, a key of a dict or an element of a set. "
    "Pass it as an ordinary argument: remove it from static_argnums or static_argnames."
)


def test_a_named_array_as_a_static_argument():
    assert message(lambda: hash(X), ArgumentTypeError) == UNHASHABLE
    assert message(lambda: {X: 1}, ArgumentTypeError) == UNHASHABLE
    for call in (
        lambda: jax.jit(lambda n, x: n * x, static_argnums=1)(2.0, X),
        lambda: jax.jit(lambda n, x: n * x, static_argnames="x")(2.0, x=X),
    ):
        with pytest.raises(ValueError, match="Non-hashable static arguments") as error:
            call()
        assert UNHASHABLE in str(error.value)


def test_from_dlpack():
    text = "__dlpack__: a NamedArray has no such attribute. Write np.from_dlpack(nx.positional(x, ['q', 'k']))."
    assert message(lambda: np.from_dlpack(X), ArrayAttributeError) in (text, text.replace("__dlpack__", "__dlpack_device__"))
    np.testing.assert_array_equal(np.from_dlpack(nx.positional(X, ["q", "k"])), X.data)
    assert not hasattr(X, "__dlpack__")  # so that other libraries do not call it
    assert not hasattr(X, "__dlpack_device__")


def test_a_tree_of_shapes_is_no_error():
    tree = {"x": X, "t": T}
    assert (
        repr(jax.tree.map(lambda a: a.shape, tree)) == "{'t': NamedArray((8,), dims=(t)), 'x': NamedArray((4, 6), dims=(q, k))}"
    )
    assert repr(jax.tree.map(lambda a: str(a.dtype), X)) == "NamedArray('float32', dims=(q, k))"
    assert repr(jax.tree.map(lambda a: None, X)) == "NamedArray(None, dims=(q, k))"


@pytest.mark.parametrize(
    ("x", "index", "value", "written"),
    [
        (X, 0, 1, "x.at['q', 0].set(1)"),
        (X, (0, slice(1, 3)), 1.5, "x.at['q', 0, 'k', 1:3].set(1.5)"),
        (X, ("k", 0), array(4), "x.at['k', 0].set(...)"),
        (X, {"k": 0}, 1, "x.at[{'k': 0}].set(1)"),
        (X, make.array(0), 1, "x.at[index].set(1)"),
        (X, nx.named(make.array(np.asarray(X.data) > 0), ["q", "k"]), 1, "x.at[mask].set(1)"),
        (nx.named(array(4, 6), ["q", ...]), (slice(None), 0), 1, "x.at[:, 0].set(1)"),
    ],
)
def test_an_assignment_to_elements(x, index, value, written):
    assert message(lambda: assign(x, index, value), ArgumentTypeError) == (
        f"setitem: {nx.core.display.type_text(x)} is immutable, and its elements cannot be set. Write x = {written}, which makes a new array."
    )


def test_an_array_is_not_taken_for_one_that_can_be_changed():
    assert not isinstance(X, collections.abc.MutableSequence | collections.abc.MutableMapping)
    text = message(lambda: random.Random(0).shuffle(nx.named(array(4), [...]) * nx.named(array(2), ["q"])), ArgumentTypeError)
    assert "is immutable" in text


@pytest.mark.parametrize("method", ["set", "add"])
def test_an_update_at_a_position_of_names(method):
    for index, written in ((0, "0"), (slice(1, 2), "2:5")):
        assert message(lambda index=index: getattr(X.at[index], method)(1.0), PositionalAxisError) == (
            f"at[...].{method}: f32[]{{q:4, k:6}} has no positional axis for the index {index!r}. Write the axis before its index, as in "
            f"x.at['q', {written}]."
        )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: X["k"],
            f"getitem: the index 'k' {PAIRS} Write x['k', 3], x['k', 3, 'q', 0:2], or a dict, x[{{'k': 3, 0: idx}}]",
        ),
        (
            lambda: W["hiden"],
            f"getitem: the index 'hiden' {PAIRS} Did you mean 'hidden'? Write x['hidden', 3], x['hidden', 3, 'k', 0:2], or a dict, "
            "x[{'hidden': 3, 0: idx}]",
        ),
        (lambda: T["t"], f"getitem: the index 't' {PAIRS} Write x['t', 3], or a dict, x[{{'t': 3, 0: idx}}]"),
        (
            lambda: X.at["k"].set(0),
            f"at[...].set: the index 'k' {PAIRS} Write x.at['k', 3], x.at['k', 3, 'q', 0:2], or a dict, x.at[{{'k': 3, 0: idx}}]",
        ),
    ],
)
def test_a_name_without_an_index(call, text):
    assert message(call, PositionalAxisError) == f"{text}, which also accepts positional axes."


def test_resources_the_wrong_way_round():
    call = in_body(lambda t: t, T, resources={"x": "t"})
    lacks = "xmap: axis_resources maps 'x' to mesh axis '{}', which the mesh does not have; its axes are 'x' with sizes (8,)."
    assert (
        message(call, MeshError)
        == f"{lacks.format('t')} The keys are axis names and the values are mesh axes. Did you mean {{'t': 'x'}}?"
    )
    loop = " To execute 'z' as a loop, call within nx.serial_loop('z', steps)."
    assert message(in_body(lambda t: t, T, resources={"x": "z"}), MeshError) == lacks.format("z") + loop


# --- sizes, shapes, keys, meshes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nx.zeros, nx.ones, nx.empty, lambda **kw: nx.full((), 1.0, **kw)])
@pytest.mark.parametrize(
    ("shape", "kind", "text"),
    [
        ("k", ArgumentTypeError, "named_shape='k' is not a mapping from names to sizes. Write named_shape={'batch': 128}."),
        (["k"], ArgumentTypeError, "named_shape=['k'] is not a mapping from names to sizes. Write named_shape={'batch': 128}."),
        (
            {"k": 1.5},
            AxisSizeError,
            "named_shape gives axis 'k' the size 1.5; a size must be a nonnegative integer, or None for the size in the mapped function.",
        ),
        (
            {"k": -1},
            AxisSizeError,
            "named_shape gives axis 'k' the size -1; a size must be a nonnegative integer, or None for the size in the mapped function.",
        ),
    ],
)
def test_named_shapes(make, shape, kind, text):
    assert message(lambda: make(named_shape=shape), kind).partition(": ")[2] == text


def test_sizes_by_name_as_the_shape():
    assert message(lambda: nx.ones({"k": 3}), ArgumentTypeError) == (
        "ones: the shape is {'k': 3}, a mapping. Give sizes by name as nx.ones(named_shape={'k': 3}). The shape is for positional axes."
    )


def test_sizes_by_name_as_the_shape_of_a_sampler():
    assert message(lambda: nx.random.normal(KEY, {"a": 3}), ArgumentTypeError) == (
        "normal: the shape is {'a': 3}, a mapping. Give sizes by name as named_shape={'a': 3}. The shape is for positional axes."
    )


def test_samplers_say_which_arguments_they_take():
    assert message(lambda: nx.random.randint(KEY, named_shape={"q": 3}), ArgumentTypeError) == (
        "randint: missing a required argument: 'minval'. Write nx.random.randint(key, shape, minval, maxval, dtype, out_sharding), "
        "and named_shape={...} by keyword."
    )
    drawn = nx.random.randint(KEY, named_shape={"q": 3}, minval=2, maxval=9)  # the names are shape enough
    assert (nx.positional(drawn, ["q"]) == jax.random.randint(KEY, (3,), 2, 9)).all()


def test_something_else_in_the_place_of_a_key():
    assert message(lambda: nx.nn.dropout(X, 0.5, "k"), ArgumentTypeError) == (
        "dropout: the key is 0.5, which is not a random key; make one with jax.random.key(seed)."
    )


def test_something_else_in_the_place_of_a_mesh():
    assert message(lambda: nx.xmap(lambda x: x, mesh="m"), MeshError) == (
        "xmap: mesh='m' is not a mesh. Pass mesh=jax.make_mesh(shape, axis_names), or a jax.sharding.AbstractMesh to lower "
        "without devices."
    )


def test_sizes_of_names():
    assert (nx.size(X, ...), nx.size(X, "k"), nx.size(X, ("q", "k"))) == (24, 6, 24)
    text = message(lambda: nx.size(X, "kk"), AxisNotFoundError)
    assert text.startswith("size: no axis 'kk' in f32[]{q:4, k:6}; its named axes are 'q', 'k'. Did you mean 'k'?")
    assert in_body(lambda t: T * nx.size(t, "t"), T, resources={"t": "x"})().named_shape == {"t": 8}


def test_arange_up_to_a_stop():
    assert nx.arange(stop=6, axis="q").named_shape["q"] == 6


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"t": "x"}, {"t": "x", "u": "x"}])
def test_a_name_that_the_body_made_has_a_size(resources):
    def body(t):
        u = nx.rename(t, {"t": "u"})
        return u + nx.arange(axis="u"), u * nx.ones(named_shape={"u": None})

    added, multiplied = in_body(body, T, resources=resources)()
    assert (nx.positional(added, ["u"]) == T.data + jnp.arange(8)).all()
    assert (nx.positional(multiplied, ["u"]) == T.data).all()


def test_and_only_one():
    text = message(in_body(lambda t: (nx.arange(3, axis="q"), nx.arange(5, axis="q")), T), AxisSizeError)
    assert text == "arange: the number of values is 5, but axis 'q' has size 3 in this mapped function; a name has one size."
    text = message(in_body(lambda t: (nx.rename(t, {"t": "q"}), nx.zeros(named_shape={"q": 5})), T), AxisSizeError)
    assert text == "zeros: named_shape['q'] is 5, but axis 'q' has size 8 in this mapped function; a name has one size."


@pytest.mark.parametrize(
    "function", [nx.sum, nx.numpy.sum, nx.mean, nx.numpy.var, nx.cumsum, nx.numpy.cumprod, lambda x, *axes: x.sum(*axes)]
)
def test_a_name_that_is_also_a_dtype_is_an_axis(function):
    """As the argument after the axis, "h" would be the 16-bit integers."""
    x = nx.named(array(4, 6), ["b", "h"])
    text = message(lambda: function(x, "b", "h"), ArgumentTypeError)
    assert "'b', 'h' are separate arguments" in text
    assert "Write axis=('b', 'h')." in text
    assert function(x, "b", "float16").dtype == "float16"
