"""What users of NumPy write in their first hour: whole messages, and that what they say runs."""

import math
import operator

import numpy as np
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentTypeError,
    AxisMappingError,
    AxisNotFoundError,
    NamedAxesLeftError,
    PositionalAxisError,
)
from tests.harness import array, said

A = np.asarray(array(3, 4))
X = nx.named(A, ["station", "day"])
V = nx.named(np.arange(4.0, dtype="float32"), ["day"])
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
    "Write nx.all(c, ...) or nx.any(c, ...) for one truth value; entry by entry (0 < x) & (x < 1), ~c, nx.where(c, x, y), nx.minimum(x, y).",
)
NUMBER = "Write x['station', 0, 'day', 0] for one of its numbers, nx.mean(x, ...) for one of all"
A_NUMBER = f"{NUMBER}; the functions of math are nx.sqrt(x) and so on."
DECIMALS = f"for the array with so many decimals; {NUMBER.removeprefix('Write ')}."


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
        (lambda: 1 in X, "in", "Write nx.any(x == value, ...) for an entry, or name in x.named_shape for the name of an axis."),
        (lambda: f"{X:.3f}", "format()", f"Write x.round(3) {DECIMALS}"),
        (lambda: format(X, "d"), "format()", f"Write x.round(2) {DECIMALS}"),
    ],
)
def test_one_number_of_an_array_with_names(call, what, remedy):
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
        f"{op}: {what} stands beside {OF_X}, and a {kind} is no array. Make an array of it, and name its axes: "
        f"nx.named(np.array({made}), ['day'])."
    )
    assert (X == None, X == "day", X != None) == (False, False, True)  # noqa: E711 - as for an array of JAX


# --- the wrong way round ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [X, {"a": X}])
def test_names_turned_round(x):
    assert message(lambda: nx.rename(x, {"d": "day", "s": "station"}), AxisNotFoundError).endswith(
        "its named axes are 'station', 'day'. The old name comes first: write {'day': 'd', 'station': 's'}."
    )
    for names in ({"d": "day", "station": "s"}, {"d": "e"}):
        assert "comes first" not in message(lambda names=names: nx.rename(x, names), AxisNotFoundError)


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
