"""What users of NumPy write in their first hour: whole messages, and that what they say runs."""

import inspect
import math
import operator

import jax
import numpy as np
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisMappingError,
    AxisNotFoundError,
    EinsumError,
    NamedaxError,
    NamedAxesLeftError,
    PositionalAxisError,
)
from tests import make
from tests.harness import array, said

A = np.asarray(array(3, 4))
X = nx.named(make.array(A), ["station", "day"])
V = nx.named(make.arange(4.0), ["day"])
KEY = make.key(0)
OF_X = "f32[]{station:3, day:4}"
MAPPING = (
    "is not an axis mapping. Write a dict from positions to names ({0: 'batch'}), a list with one entry per axis (['batch', None]), or a list "
    "that ends with '...' (['batch', ...])."
)


def message(call, kind):
    """The text of the error that a call raises, of this very class."""
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    return said(error.value)


# --- Python's own functions ------------------------------------------------------------------------------------------

IN_TURN = (
    " Write for i in range(x.named_shape['station']): x['station', i]; in place of the built-in sum, max, min, any and all nx.sum(x, 'station') "
    "and so on; for other libraries, matplotlib's functions too, nx.positional(x, ['station', 'day'])."
)


def unpacked():
    a, b, c = X
    return a, b, c


@pytest.mark.parametrize(
    "call", [lambda: list(X), lambda: sum(X), lambda: max(X), lambda: any(X), lambda: zip(X, X, strict=True), unpacked]
)
def test_an_order_of_names(call):
    text = f"iteration: {OF_X} has no positional axis to iterate over; names have no order."
    assert message(call, PositionalAxisError) == text + IN_TURN


def test_a_length():
    text = f"len(): {OF_X} has no positional axis; x.named_shape has the sizes of the others."
    assert message(lambda: len(X), PositionalAxisError) == text + IN_TURN
    assert message(lambda: iter(nx.NamedArray(1.0, ())), PositionalAxisError).endswith("names have no order.")


TRUTH = (
    "bool()",
    "Write nx.all(c, ...) or nx.any(c, ...) for one boolean, or elementwise (0 < x) & (x < 1), ~c, nx.where(c, x, y), nx.minimum(x, y).",
)
NUMBER = "Write x['station', 0, 'day', 0] for one element or nx.mean(x, ...) for the mean of all"
A_NUMBER = f"{NUMBER}; instead of math.sqrt(x) write nx.sqrt(x)."
DECIMALS = f"to round the array, {NUMBER.removeprefix('Write ')}."


@pytest.mark.parametrize(
    ("call", "what", "remedy"),
    [
        (lambda: 1 if X else 0, *TRUTH),
        (lambda: 0 < X < 1, *TRUTH),
        (lambda: X and V, *TRUTH),
        (lambda: not X, *TRUTH),
        (lambda: min(X, X), *TRUTH),
        (lambda: float(X), "float()", A_NUMBER),
        (lambda: math.sqrt(X), "float()", A_NUMBER),
        (lambda: complex(X), "complex()", A_NUMBER),
        (lambda: int(X), "int()", A_NUMBER),
        (lambda: range(X), "index()", A_NUMBER),
        (lambda: X.item(), "item()", A_NUMBER),
        (lambda: X.tolist(), "tolist()", "Reduce them, or give them positions with nx.positional(x, ['station', 'day', ...])."),
        (lambda: "day" in X, "in", "Write 'day' in x.named_shape for the name of an axis."),
        (
            lambda: 1 in X,
            "in",
            "Write nx.any(x == value, ...) for an element, or name in x.named_shape for the name of an axis.",
        ),
        (lambda: f"{X:.3f}", "format()", f"Write x.round(3) {DECIMALS}"),
        (lambda: format(X, "d"), "format()", f"Write x.round(2) {DECIMALS}"),
    ],
)
def test_conversion_to_one_number_rejects_named_axes(call, what, remedy):
    text = message(call, NamedAxesLeftError).replace("bool[]", "f32[]")
    assert text == f"{what}: {OF_X} still has named axes, and {what} needs an array without names. {remedy}"


@pytest.mark.parametrize(
    ("op", "call", "what", "kind"),
    [
        ("multiply", lambda: X * [1, 2, 3], "[1, 2, 3]", "list"),
        ("multiply", lambda: [1, 2, 3] * X, "[1, 2, 3]", "list"),
        ("add", lambda: operator.add(X, (1, 2)), "(1, 2)", "tuple"),
        ("add", lambda: operator.add([1], X), "[1]", "list"),
        ("power", lambda: X ** [2], "[2]", "list"),
        ("matmul", lambda: X @ [2], "[2]", "list"),
        ("equal", lambda: X == [1, 2], "[1, 2]", "list"),  # which was False
        ("not_equal", lambda: X != {1}, "{1}", "set"),
    ],
)
def test_a_list_is_no_operand(op, call, what, kind):
    made = "..." if kind == "set" else what
    assert message(call, ArgumentTypeError) == (
        f"{op}: the operands are {OF_X} and {what}, and a {kind} is not an array. Make an array of it, and name its axes: "
        f"nx.named(np.array({made}), ['day'])."
    )
    assert (X == None, X == "day", X != None) == (False, False, True)  # noqa: E711 - as for an array of JAX


# --- the wrong way round ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [X, {"a": X}])
def test_names_turned_round(x):
    assert message(lambda: nx.rename(x, {"d": "day", "s": "station"}), AxisNotFoundError).endswith(
        "its named axes are 'station', 'day'. The old name precedes the new one: write {'day': 'd', 'station': 's'}."
    )
    for names in ({"d": "day", "station": "s"}, {"d": "e"}):
        assert "precedes the new one" not in message(lambda names=names: nx.rename(x, names), AxisNotFoundError)


@pytest.mark.parametrize("axes", [{"station": 0, "day": 1}, {"day": 1, "station": 0}, {"station": 3, "day": 4}])
def test_positions_behind_names(axes):
    for op, call in (
        ("named", lambda: nx.named(A, axes)),
        ("positional", lambda: nx.positional(X, axes)),
        ("xmap, in_axes", lambda: nx.xmap(nx.sin, axes)),
        ("xmap, in_axes", lambda: nx.xmap(nx.sin, (axes,))),
        ("xmap, out_axes", lambda: nx.xmap(nx.sin, ["station", "day"], axes)),
    ):
        text = message(call, AxisMappingError)
        assert text.startswith(f"{op}: ")
        assert text.endswith(f"{MAPPING} Positions come first: did you mean {{0: 'station', 1: 'day'}}?")


# --- arrays without names, and what they become -------------------------------------------------------------------------

ARRAY = np.arange(3.0, dtype="float32")
IDS = np.array([0, 1])
GIVEN = "no axis 'day' in {}; it has no named axis. Name the axes of {} first: nx.named({}, ['day'])."


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: X.at["day", 0].set(ARRAY),
            PositionalAxisError,
            f"at[...].set: the values f32[3] have 1 positional axes, but the elements to update, of {OF_X}, have 0. Name the axes of values first: "
            "nx.named(values, ['station']).",
        ),
        (
            lambda: X.at["day", 1:3].add(np.ones((2, 3), "float32")),
            PositionalAxisError,
            f"at[...].add: the values f32[2,3] have 2 positional axes, but the elements to update, of {OF_X}, have 0. Name the axes of values "
            "first: nx.named(values, ['day', 'station']).",
        ),
        (lambda: nx.concatenate([V, ARRAY], "day"), AxisNotFoundError, "concatenate: " + GIVEN.format("f32[3]", "x", "x")),
        (
            lambda: nx.segment_sum(X, np.array([0, 1, 0, 1]), 2, axis="day"),
            AxisNotFoundError,
            "segment_sum: " + GIVEN.format("the segment_ids i32[4]", "segment_ids", "segment_ids"),
        ),
        (
            lambda: nx.average(X, "day", weights=np.arange(4.0, dtype="float32")),
            PositionalAxisError,
            f"average: the weights, f32[4], do not fit {OF_X}. Their positional axes must be all positional axes of the array, or "
            "the ones in axis, in that order. Name the other axes. Name the axes of weights first: nx.named(weights, ['day']).",
        ),
        (
            lambda: nx.mean(X["day", IDS], "day"),
            AxisNotFoundError,
            "mean: no axis 'day' in f32[2]{station:3}; its named axes are 'station'. Name its positional axes first, "
            "nx.named(x, ['day']), or those of an index array, nx.named(ids, ['day']). Reduce over an axis that it has.",
        ),
        (
            lambda: nx.broadcast_to(V, {"station": 3}),
            ArgumentTypeError,
            "broadcast_to: shape={'station': 3} has axis names, but shape is for positional axes. Write nx.broadcast_to(x, "
            "named_shape={'station': 3}).",
        ),
        (
            lambda: nx.order_like(X, ["day", "station"]),
            ArgumentTypeError,
            "order_like: expected an array that defines the order, got ['day', 'station']. Write nx.order_like(x, y), or "
            "nx.positional(x, ['day', 'station']) for an array without names in this order.",
        ),
        (
            lambda: nx.xmap(nx.sin, (["batch", "k"],))(X),
            AxisMappingError,
            f"xmap: the axis mapping ['batch', 'k'] asserts 2 axes, but argument 'x', {OF_X}, has 0 positional axes, and the named axes "
            "'station', 'day'. A named array needs no mapping: leave out in_axes, or write None for this argument. To rename its axes, call "
            "nx.rename(x, {'station': 'batch', 'day': 'k'}) first.",
        ),
        (
            lambda: nx.xmap(nx.sin, ["day"])(X),
            AxisMappingError,
            f"xmap: the axis mapping ['day'] asserts 1 axes, but argument 'x', {OF_X}, has 0 positional axes, and the named axes 'station', "
            "'day'. A named array needs no mapping: leave out in_axes, or write None for this argument.",
        ),
        (
            lambda: nx.einsum("station day, day -> station", X, V),
            EinsumError,
            "einsum: 'station day, day -> station' has axis names without braces, but each letter is a positional axis. Write "
            "'{station, day}, {day} -> {station}'.",
        ),
        (
            lambda: X[["day", "station"]],
            PositionalAxisError,
            "getitem: the index ['day', 'station'] names an axis, but does not consist of pairs of a name and an index. Write x['day', 3], "
            "x['day', 3, 'station', 0:2], or a dict, x[{'day': 3, 0: idx}], which also accepts positional axes.",
        ),
        (
            lambda: X.at.__setitem__(("day", 0), 3),
            ArgumentTypeError,
            f"setitem: {OF_X} is immutable, and its elements cannot be set. Write x = x.at['day', 0].set(3), which makes a new array.",
        ),
    ],
)
def test_remedies_for_common_mistakes(call, kind, text):
    assert message(call, kind) == text


def test_the_remedies_run():
    np.testing.assert_array_equal(X.at["day", 0].set(nx.named(ARRAY, ["station"])).data[:, 0], ARRAY)
    named_ids = nx.named(IDS, ["day"])
    np.testing.assert_allclose(nx.mean(X["day", named_ids], "day").data, A[:, :2].mean(1), rtol=1e-6)
    np.testing.assert_allclose(nx.average(X, "day", weights=V).data, np.average(A, 1, np.arange(4)), rtol=1e-6)
    spec = "{station, day}, {day} -> {station}"
    np.testing.assert_allclose(nx.einsum(spec, X, V).data, A @ np.arange(4, dtype="float32"), rtol=1e-5)


@pytest.mark.parametrize("op", ["corrcoef", "cov"])
def test_two_arrays_of_one_variable(op):
    function, x, y = getattr(nx, op), X["station", 0], X["station", 1]
    remedy = f"Stack both, nx.{op}(nx.stack([x, y], 'variable'), axis='day', variables=('variable', 'variable2'))."
    assert (
        message(lambda: function(x, y, axis="day"), ArgumentError) == f"{op}: y= is only for the form without axis=. {remedy}"
    )
    assert message(lambda: function(x, y), PositionalAxisError) == (
        f"{op}: f32[]{{day:4}} has no positional axis, but two arrays must be variables over positional observations. {remedy}"
    )
    said_call = remedy.removeprefix("Stack both, ").removesuffix(".")
    np.testing.assert_allclose(eval(said_call, {"nx": nx, "x": x, "y": y}).data, getattr(np, op)(A[0], A[1]), rtol=1e-4)
    assert message(lambda: function(X, X, axis="day"), ArgumentError).endswith(
        "Join the variables of both arrays first, nx.concatenate."
    )


MASK = A > 0


@pytest.mark.parametrize(
    ("call", "index", "remedy"),
    [
        (lambda: X[MASK], "bool[3,4]", "nx.where(nx.named(mask, ['station', 'day']), x, 0), which keeps the shape"),
        (lambda: X.at[MASK].set(0), "bool[3,4]", "x.at[nx.named(mask, ['station', 'day'])]"),
        (lambda: X[MASK[0]], "bool[4]", "the axis before the mask, as in x['day', mask]"),
        (lambda: X.at[MASK[:, 0]].add(1), "bool[3]", "the axis before the mask, as in x.at['station', mask]"),
        (lambda: X[IDS], "i32[2]", "the axis before its index, as in x['station', ids]"),
    ],
)
def test_an_array_that_says_no_axis(call, index, remedy):
    text = message(call, PositionalAxisError).split(": ", 1)[1].replace("i64", "i32")
    assert text == f"{OF_X} has no positional axis for the index {index}. Write {remedy}."
    np.testing.assert_array_equal(X.at[nx.named(MASK, ["station", "day"])].set(0).data, np.where(MASK, 0, A))
    np.testing.assert_array_equal(nx.positional(X["day", MASK[0]], ["station", "day"]), A[:, MASK[0]])


@pytest.mark.parametrize(
    ("call", "name", "remedy"),
    [
        (lambda: nx.searchsorted(V, X), "searchsorted", "nx.searchsorted(a, v, axis=...)"),
        (lambda: nx.random.permutation(KEY, V), "permutation", "nx.random.permutation(key, x, axis)"),
        (lambda: nx.numpy.tril(X), "tril", "nx.tril(m, k, axis=...)"),
        (lambda: nx.numpy.reshape(X, (12,)), "reshape", "nx.split_axis, nx.merge_axes or nx.rearrange"),
        (
            lambda: nx.broadcast_to(nx.named(A, [None, "day"]), (2, 2)),
            "broadcast_to",
            "nx.broadcast_to(x, named_shape={'new': 8})",
        ),
    ],
)
def test_a_lifted_function_says_its_name_and_what_takes_names(call, name, remedy):
    with pytest.raises((PositionalAxisError, ArgumentTypeError)) as error:
        call()
    text = said(error.value)
    assert text.startswith(f"{name}: ")
    assert f"Here {name} acts on positional axes" in text
    assert text.endswith(f"For axes with names write {remedy}.")


@pytest.mark.parametrize(
    ("values", "dtype", "remedy"),
    [
        (
            np.array(["2020-01-01"], "datetime64[D]"),
            "datetime64[D]",
            "Convert dates to numbers, for example (x - x[0]) / np.timedelta64(1, 'D').",
        ),
        (
            np.array([1], "timedelta64[ns]"),
            "timedelta64[ns]",
            "Convert durations to numbers, for example x / np.timedelta64(1, 'D').",
        ),
        (np.array(["a"]), "<U1", "Convert strings to indices: words, x = np.unique(x, return_inverse=True)."),
        (np.array([None]), "object", "Convert it to numbers first, for example with x.astype(float)."),
    ],
)
def test_dtypes_that_jax_does_not_support(values, dtype, remedy):
    text = message(lambda: nx.named(values, ["k"]), ArgumentTypeError)
    assert text == f"named: the dtype {dtype} of {dtype}[1] is not supported by JAX. {remedy}"


SINGLE = {
    "diff": lambda axis: nx.diff(X, axis=axis),
    "diff to another name": lambda axis: nx.diff(X, 0, axis=axis, out_axis="other"),
    "concatenate": lambda axis: nx.concatenate([X, V], axis),
    "segment_sum": lambda axis: nx.segment_sum(X, nx.named(np.array([0, 1, 0, 1]), ["day"]), 2, axis=axis, out_axis="s"),
    "take_along_axis": lambda axis: nx.take_along_axis(X, nx.named(np.array([1, 0]), ["day"]), axis),
    "roll": lambda axis: nx.roll(X, 1, axis),
    "shift": lambda axis: nx.shift(X, 1, axis),
    "halo": lambda axis: nx.halo(X, axis, 1, 0),
    "repeat": lambda axis: nx.numpy.repeat(X, 2, axis),
    "split": lambda axis: nx.split(X, 2, axis),
    "convolve": lambda axis: nx.convolve(X, np.ones(2, "float32"), axis=axis),
    "permutation": lambda axis: nx.random.permutation(KEY, X, axis),
    "categorical": lambda axis: nx.random.categorical(KEY, X, axis),
    "sort": lambda axis: nx.sort(X, axis),
    "top_k": lambda axis: nx.top_k(X, 2, axis=axis),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_tuple_of_one_axis(name):
    for got, want in zip(*(jax.tree.leaves(SINGLE[name](axis)) for axis in (("day",), "day")), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_name_that_is_a_tuple_stays_one():
    x = nx.named(A, ["day", ("day",)])
    np.testing.assert_array_equal(nx.diff(x, axis=("day",)).data, np.diff(A, axis=1))


# --- calls that a function does not take --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: nx.named(A),
            "named: missing 1 required positional argument: 'axes'. Write nx.named(array, axes). Give the names as one list with an entry "
            "per axis: nx.named(array, ['batch', 'k']).",
        ),
        (
            lambda: nx.named(A, "station", "day"),
            "named: takes 2 positional arguments but 3 were given. Write nx.named(array, axes). Give the names as one list with an entry per axis: "
            "nx.named(array, ['station', 'day']).",
        ),
        (
            lambda: nx.zeros(day=3),
            "zeros: got an unexpected keyword argument 'day'. Write nx.zeros(shape, dtype). It also takes the keywords named_shape=, device=. "
            "Give sizes by name as one dict: named_shape={'day': 3}.",
        ),
        (lambda: nx.shift(V, 1), "shift: missing 1 required positional argument: 'axis'. Write nx.shift(x, offset, axis)."),
        (
            lambda: nx.nmap(nx.sin, "day"),
            "nmap: takes 1 positional argument but 2 were given. Write nx.nmap(function). It also takes the keyword collectives=.",
        ),
        (
            lambda: nx.minimum(X),
            "minimum: the function takes two arrays, got 1. Write nx.minimum(x, y). To reduce along an axis, write nx.min(x, axis).",
        ),
        (
            lambda: nx.explain(plus),
            "explain: plus does not take these arguments: missing a required argument: 'x'. Write nx.explain(plus, x, y), with arrays or their types "
            "(jax.ShapeDtypeStruct).",
        ),
        (
            lambda: nx.explain(plus, X, V, axis_resources={"day": "x"}, mesh=None),
            "explain: plus does not take these arguments: got an unexpected keyword argument 'axis_resources'. These are options of nx.xmap. "
            "Map the function first: nx.explain(nx.xmap(plus, axis_resources=..., mesh=...), ...).",
        ),
    ],
)
def test_calls_that_do_not_match_the_signature(call, text):
    assert message(call, ArgumentTypeError) == text


def plus(x, y):
    return x + y


def test_resources_by_another_word():
    text = message(lambda: nx.xmap(nx.sin, resources={}), ArgumentTypeError)
    assert text.startswith(
        "xmap: got an unexpected keyword argument 'resources'. Write nx.xmap(fun, in_axes, out_axes, axis_resources=...)."
    )
    assert text.endswith("Did you mean axis_resources=?")


OWN = [name for name in nx.__all__ if callable(getattr(nx, name)) and not isinstance(getattr(nx, name), type)]


def test_every_function_says_which_arguments_it_has():
    """Those of one array, which are called the most, and those that are JAX's for an array without names leave it to Python."""
    for name in OWN:
        function = getattr(nx, name)
        parameters = inspect.signature(function).parameters
        if name == "checked":  # which looks at its caller, and has no frame between
            continue
        if function.__module__ == "namedax.numpy" and len(parameters) == 1 and "args" not in parameters:
            continue
        with pytest.raises((TypeError, ValueError)) as error:
            function(word_that_none_has=1)
        assert isinstance(error.value, NamedaxError) or name in ("empty_like", "full_like", "ones_like", "zeros_like"), name


def test_trees_whose_names_are_in_another_order():
    other = nx.named(A.T, ["day", "station"])
    with pytest.raises(ValueError, match=r"where trees differ in the order of names, nx\.order_like\(tree, like\)"):
        jax.tree.map(lambda a, b: a - b, X, other)
    assert not nx.any(jax.tree.map(lambda a, b: a - b, X, nx.order_like(other, X)), ...)
