"""Law 7: errors name the names.

Every message of the core says the operation, the axes with their sizes, the rule that was broken, and what to write instead.
Messages are compared whole. Those of axis notation are in `test_axes`, those of arrays in `test_array`, those of other parts of
the package next to their operations.
"""

import collections
import re
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import errors
from namedax.errors import (
    AxisMappingError,
    AxisNameError,
    AxisNotFoundError,
    AxisResourceError,
    AxisSizeError,
    EinsumError,
    MeshError,
    NamedaxError,
    NamedAxesLeftError,
    PlacementConflictError,
    PositionalAxisError,
    UnevenAxisError,
    UnsupportedArgumentError,
)
from tests import make
from tests.harness import make_mesh, said

pytestmark = pytest.mark.usefixtures("tracebacks_as_for_users")

MESH = make_mesh((4, 2))
TYPE_ERRORS = ("NamedAxesLeftError", "ArgumentTypeError", "ArrayTypeError")  # as docs/errors.md says
A = nx.named(make.zeros((8, 3), jnp.int32), ["a", None])
B = nx.named(make.zeros((8, 4), jnp.int32), ["a", "b"])
C = nx.named(make.zeros(6, jnp.int32), ["a"])


def zeros(*shape):
    return make.zeros(shape, jnp.int32)


def xmap(body, in_axes, out_axes=None, resources=None, mesh=MESH, **options):
    return nx.xmap(body, in_axes, out_axes, axis_resources=resources, mesh=mesh, **options)


def fails(call, kind, text):
    """Calls, and compares the type and the whole text of the error."""
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    assert said(error.value) == text


def cases(table):
    """Parametrizes over a table of `id: (call, type, text)`."""
    return pytest.mark.parametrize(("call", "kind", "text"), table.values(), ids=table)


# --- the classes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", errors.__all__)
def test_every_class_is_a_built_in_one_too(name):
    kind = getattr(errors, name)
    built_in = {
        "ArrayAttributeError": AttributeError,
        "CheckFailedError": AssertionError,
        "UnevenAxisWarning": UserWarning,
        **dict.fromkeys(TYPE_ERRORS, TypeError),
    }.get(name, ValueError)
    assert issubclass(kind, NamedaxError) or issubclass(kind, Warning)
    assert kind is NamedaxError or issubclass(kind, built_in)
    assert kind.__doc__
    assert f"{name}`" in (Path(__file__).parents[2] / "docs" / "errors.md").read_text()


def test_every_class_is_public():
    defined = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert sorted(defined) == sorted(errors.__all__)


def test_an_axis_object_of_another_library_is_told_the_name():
    axis = collections.namedtuple("Axis", ["name", "size"])("a", 8)
    with pytest.raises(AxisNotFoundError, match=r"its named axes are 'a'\. Did you mean 'a'\?"):
        nx.sum(A, (axis,))


def test_suggestions():
    assert errors.did_you_mean("bacth", ["batch", "hidden"]) == " Did you mean 'batch'?"
    assert errors.did_you_mean(("layer", 1), [("layer", 0), "other"]) == " Did you mean ('layer', 0)?"
    assert errors.did_you_mean("q", ["batch", "hidden"]) == ""
    assert errors.did_you_mean("q", []) == ""


# --- sizes, names and positions of operands -----------------------------------------------------------------------------

OPERANDS = {
    "a name with two sizes": (
        lambda: B + C,
        AxisSizeError,
        "add: axis 'a' has size 8 in operand 0, i32[]{a:8, b:4}, and size 6 in operand 1, i32[]{a:6}; a name has one size. "
        "Rename one of the two axes: nx.rename(y, {'a': 'a2'}).",
    ),
    "by another operation": (
        lambda: nx.where(B > 0, C, 0),
        AxisSizeError,
        "where: axis 'a' has size 8 in operand 0, bool[]{a:8, b:4}, and size 6 in operand 1, i32[]{a:6}; a name has one size. "
        "Rename one of the two axes: nx.rename(y, {'a': 'a2'}).",
    ),
    "positions": (
        lambda: A - jnp.zeros((2, 5), jnp.int32),
        PositionalAxisError,
        "subtract: positional axis -1 has size 3 in operand 0, i32[3]{a:8}, and size 5 in operand 1, i32[2,5]; positional "
        "axes broadcast from the right, as in NumPy. Insert an axis (x[..., None]), or give the axis a name.",
    ),
    "where with one argument": (
        lambda: nx.where(B > 0),
        NamedAxesLeftError,
        "where: named arrays require condition, x and y, because the result shape of the one-argument form depends on data. Write "
        "nx.where(condition, x, 0), or nx.nonzero(condition, size=8, axis='a') for at most 8 positions.",
    ),
    "axes of nmap": (
        lambda: nx.nmap(jnp.add)(B, C),
        AxisSizeError,
        "nmap(add): axis 'a' has size 8 in one argument and size 6 in another; a name has one size. Rename one of the two "
        "axes: nx.rename(y, {'a': 'a2'}).",
    ),
}


@cases(OPERANDS)
def test_operands(call, kind, text):
    fails(call, kind, text)


# --- reductions -----------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "a name that the array lacks": (
        lambda: nx.sum(nx.named(zeros(2, 3), ["batch", "k"]), "bacth"),
        AxisNotFoundError,
        "sum: no axis 'bacth' in i32[]{batch:2, k:3}; its named axes are 'batch', 'k'. Did you mean 'batch'? Reduce over an "
        "axis that it has.",
    ),
    "in a mapped function": (
        lambda: xmap(lambda x: nx.sum(x, "bacth"), ["batch"], [], {"batch": "x"})(zeros(8)),
        AxisNotFoundError,
        "sum: no axis 'bacth' in i32[]{batch:8@x}; its named axes are 'batch'. Did you mean 'batch'? Reduce over an axis that it has; a "
        "collective (nx.lax.psum) also takes a value without the name.",
    ),
    "another operation": (
        lambda: nx.prod(B, "q"),
        AxisNotFoundError,
        "prod: no axis 'q' in i32[]{a:8, b:4}; its named axes are 'a', 'b'. Reduce over an axis that it has.",
    ),
    "a plain array": (
        lambda: nx.max(zeros(3), "a"),
        AxisNotFoundError,
        "max: no axis 'a' in i32[3]; it has no named axis. Name the axes of x first: nx.named(x, ['a']). Reduce over an axis that it has.",
    ),
    "one of several": (
        lambda: nx.mean(B, ("a", "q")),
        AxisNotFoundError,
        "mean: no axis 'q' in i32[]{a:8, b:4}; its named axes are 'a', 'b'. (A tuple in axis= is a sequence of axes; if the "
        "tuple is the name, write axis=(('a', 'q'),).)",
    ),
    "a position out of range": (
        lambda: nx.sum(A, 1),
        PositionalAxisError,
        "sum: positional axis 1 is out of range for i32[3]{a:8}, which has 1 positional axes. Write the name of the axis if "
        "it has one.",
    ),
    "a negative position out of range": (
        lambda: nx.sum(B, -1),
        PositionalAxisError,
        "sum: axis=-1 is a position, but i32[]{a:8, b:4} has only named axes. Pass axis='a' or axis='b'.",
    ),
    "an axis twice": (
        lambda: nx.sum(B, ("a", "a")),
        PositionalAxisError,
        "sum: axis 'a' is given twice in axis=('a', 'a') for i32[]{a:8, b:4}.",
    ),
    "a position twice": (
        lambda: nx.sum(A, (0, -1)),
        PositionalAxisError,
        "sum: axis -1 is given twice in axis=(0, -1) for i32[3]{a:8}.",
    ),
    "no axis": (
        lambda: nx.sum(B, True),
        PositionalAxisError,
        "sum: axis=True is neither a position nor a name nor a tuple of these.",
    ),
    "argmax over no axis": (
        lambda: nx.argmax(B, ()),
        PositionalAxisError,
        "argmax: axis=() must contain at least one positional or named axis.",
    ),
    "softmax": (
        lambda: nx.nn.softmax(B.astype(float), "classes"),
        AxisNotFoundError,
        f"softmax: no axis 'classes' in {'f64' if jax.config.jax_enable_x64 else 'f32'}[]{{a:8, b:4}}; its named axes are "
        f"'a', 'b'. Reduce over an "
        "axis that it has.",
    ),
}


@cases(REDUCTIONS)
def test_reductions(call, kind, text):
    fails(call, kind, text)


def test_a_maximum_that_may_be_of_nothing():
    with pytest.raises(
        ValueError, match=r"max: where= may exclude all elements, and the max of no elements is undefined\. Pass initial="
    ):
        nx.max(B, "a", where=B > 0)


# --- renaming, taking, making ---------------------------------------------------------------------------------------

MAKING = {
    "rename from nowhere": (
        lambda: nx.rename(B, {"aa": "c"}),
        AxisNotFoundError,
        "rename: no axis 'aa' in i32[]{a:8, b:4}; its named axes are 'a', 'b'. Did you mean 'a'?",
    ),
    "rename a plain array": (
        lambda: nx.rename(zeros(3), {"a": "c"}),
        AxisNotFoundError,
        "rename: no axis 'a' in i32[3]; it has no named axis. Name the axes of x first: nx.named(x, ['a']).",
    ),
    "rename to no name": (
        lambda: nx.rename(B, {"a": 0}),
        AxisNameError,
        "rename: 0 is not an axis name. To make 'a' positional, write nx.untag(x, ['a']).",
    ),
    "rename to a name that is there": (
        lambda: nx.rename(B, {"a": "b"}),
        AxisNameError,
        "rename: axis 'b' appears twice in ('b', 'b'); one array has an axis at most once. Rename one of them.",
    ),
    "take along a name that is missing": (
        lambda: nx.take(B, jnp.asarray([1]), "c"),
        AxisNotFoundError,
        "take: no axis 'c' in i32[]{a:8, b:4}; its named axes are 'a', 'b'.",
    ),
    "take along a position that is missing": (
        lambda: nx.take(A, jnp.asarray([1]), 1),
        PositionalAxisError,
        "take: positional axis 1 is out of range for i32[3]{a:8}, which has 1 positional axes. Write the name of the axis if "
        "it has one.",
    ),
    "take in an unknown mode": (
        lambda: nx.take(B, jnp.asarray([1]), "a", mode="bounce"),
        PositionalAxisError,
        "take: mode must be one of ('fill', 'clip', 'wrap'), got 'bounce'.",
    ),
    "arange without a size": (
        lambda: nx.arange(axis="k"),
        AxisNotFoundError,
        "arange: axis 'k' has no size here. Give a stop, or the size in axis_sizes of xmap.",
    ),
    "arange of a different size": (
        lambda: xmap(lambda x: x + nx.arange(5, axis="a"), ["a"], ["a"])(zeros(8)),
        AxisSizeError,
        "arange: the number of values is 5, but axis 'a' has size 8 in this mapped function; a name has one size.",
    ),
    "one_hot without a size": (
        lambda: nx.nn.one_hot(C, axis="classes"),
        AxisNotFoundError,
        "one_hot: axis 'classes' has no size here. Give num_classes, or the size in axis_sizes of xmap.",
    ),
    "one_hot of a different size": (
        lambda: xmap(lambda x: nx.nn.one_hot(x, 10, axis="b"), ["a"], None, axis_sizes={"b": 4})(zeros(8)),
        AxisSizeError,
        "one_hot: num_classes is 10, but axis 'b' has size 4 in this mapped function; a name has one size.",
    ),
    "one_hot along a name that is there": (
        lambda: nx.nn.one_hot(C, 6, axis="a"),
        AxisSizeError,
        "one_hot: the argument already has the new axis 'a'. Choose another name.",
    ),
    "one_hot along a position": (
        lambda: nx.nn.one_hot(C),
        AxisNotFoundError,
        "one_hot: a positional axis requires num_classes. Pass it; only a named axis can take its size from the mapped function.",
    ),
}


@cases(MAKING)
def test_renaming_taking_and_making(call, kind, text):
    fails(call, kind, text)


# --- contractions -----------------------------------------------------------------------------------------------------

X, W = nx.named(zeros(5, 8, 3), [None, "b", "k"]), nx.named(zeros(3, 4), ["k", "m"])

# Whole messages with their carets are in `test_einsum` and `test_einsum_spec`; here, what all of them have to say.
EINSUM = {
    "no specification": (lambda: nx.einsum(X, W), EinsumError, ["einsum: ", "string", "i32[5]{b:8, k:3}"]),
    "too few arrays": (
        lambda: nx.einsum("n{b,k},{k,m}->n{b,m}", X),
        EinsumError,
        ["'n{b,k},{k,m}->n{b,m}'", "2 operands", "1 array"],
    ),
    "too few letters": (
        lambda: nx.einsum("{b,k}->{b}", X),
        EinsumError,
        ["operand 0", "{b,k}", "0 letters", "i32[5]{b:8, k:3}", "1 positional ax", "'...'"],
    ),
    "a name that the operand lacks": (
        lambda: nx.einsum("n{b,k},{k,mm}->n{b,mm}", X, W),
        AxisNotFoundError,
        ["einsum: no axis 'mm' in operand 1", "i32[]{k:3, m:4}; its named axes are 'k', 'm'. Did you mean 'm'?"],
    ),
    "a name that is skipped": (
        lambda: nx.einsum("n{b},{k,m}->n{b,m}", X, W),
        EinsumError,
        ["'k'", "operand 0, i32[5]{b:8, k:3}", "skip", "ention it", "{other:k}"],
    ),
    "a letter from nowhere": (lambda: nx.einsum("n{b,k}->m{b,k}", X), EinsumError, ["letter 'm'", "the result", "no operand"]),
    "a name from nowhere": (
        lambda: nx.einsum("n{b,k}->n{b,kk}", X),
        EinsumError,
        ["name 'kk'", "the result", "no operand; the operands have the names 'b', 'k'. Did you mean 'k'?"],
    ),
    "an ellipsis that is lost": (lambda: nx.einsum("...{b,k}->{b}", X), EinsumError, ["'...'", "operand", "not in the result"]),
    "a letter with two sizes": (
        lambda: nx.einsum("n{b,k},n->{b,k}", X, zeros(6)),
        PositionalAxisError,
        ["einsum", "letter 'n' has size 5 in operand 0, i32[5]{b:8, k:3}, and size 6 in operand 1, i32[6]"],
    ),
    "a name with two sizes": (
        lambda: nx.einsum("n{b,k},{k:m}->n{b}", X, nx.named(zeros(4), ["m"])),
        AxisSizeError,
        [
            "einsum",
            "axis 'k' has size 3 in operand 0, i32[5]{b:8, k:3}, and size 4 in operand 1, i32[]{m:4}; a name has one size",
        ],
    ),
    "a character without meaning": (lambda: nx.einsum("n{b}+m", X, X), EinsumError, ["'+'", "\n  n{b}+m\n      ^"]),
    "an open brace": (lambda: nx.einsum("n{b,k", X), EinsumError, ["never closed", "\n  n{b,k\n   ^"]),
    "dot over a name that one lacks": (
        lambda: nx.dot(X, W, "m"),
        AxisNotFoundError,
        [
            "dot: no axis 'm' in i32[5]{b:8, k:3}; its named axes are 'b', 'k'. Name its positional axes first",
            "dot contracts names that both",
        ],
    ),
    "dot of positions": (
        lambda: nx.dot(X, nx.named(zeros(6, 3), [None, "k"]), "k"),
        PositionalAxisError,
        ["dot: ", "(5,) and (6,)", "i32[5]{b:8, k:3} and i32[6]{k:3}", "einsum"],
    ),
    "dot of two sizes": (
        lambda: nx.dot(X, nx.named(zeros(4), ["k"]), "k"),
        AxisSizeError,
        ["dot: axis 'k' has size 3 in operand 0, i32[5]{b:8, k:3}, and size 4 in operand 1, i32[]{k:4}; a name has one size"],
    ),
}


@pytest.mark.parametrize(("call", "kind", "parts"), EINSUM.values(), ids=EINSUM)
def test_contractions(call, kind, parts):
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    for part in parts:
        assert part in str(error.value)


# --- collectives ------------------------------------------------------------------------------------------------------

COLLECTIVES = {
    "a position": (
        lambda: nx.lax.psum(B, 0),
        AxisNotFoundError,
        "psum: 0 is not an axis name; collectives operate on named axes.",
    ),
    "a name twice": (
        lambda: nx.lax.pmean(B, ("a", "a")),
        AxisNameError,
        "pmean: the names 'a', 'a' are not all different; a collective takes each name once.",
    ),
    "outside of a body": (
        lambda: nx.lax.axis_index("a"),
        AxisNotFoundError,
        "axis_index: axis 'a' has no size; no mapped function is being traced here. Give an argument that axis in in_axes, or "
        "its size in axis_sizes of xmap.",
    ),
    "a name that nobody has": (
        lambda: xmap(lambda x: nx.lax.psum(x, "bacth"), ["batch"], [])(zeros(8)),
        AxisNotFoundError,
        "psum: axis 'bacth' has no size; the names here are 'batch'. Did you mean 'batch'? Give an argument that axis in "
        "in_axes, or its size in axis_sizes of xmap.",
    ),
    "all_gather to nowhere": (
        lambda: nx.lax.all_gather(A, "a", axis=2),
        PositionalAxisError,
        "all_gather: axis=2 is out of range: i32[3]{a:8} has 1 positional axes, and the result has one more.",
    ),
    "all_gather along nothing": (
        lambda: nx.lax.all_gather(A, "a", axis=1, tiled=True),
        PositionalAxisError,
        "all_gather: axis=1 is out of range: i32[3]{a:8} has 1 positional axes.",
    ),
}


@cases(COLLECTIVES)
def test_collectives(call, kind, text):
    fails(call, kind, text)


# --- xmap: options ----------------------------------------------------------------------------------------------------


def body(x):
    return x


OPTIONS = {
    "no function": (
        lambda: nx.xmap(["a"], ["a"]),
        AxisMappingError,
        "xmap: fun must be a function, got ['a']. Pass the function itself, and call the result: nx.xmap(f)(x).",
    ),
    "partitioning": (
        lambda: xmap(body, ["a"], ["a"], partitioning="automatic"),
        AxisResourceError,
        "xmap: partitioning must be 'manual', 'global' or 'auto', got 'automatic'.",
    ),
    "axis_resources is no dictionary": (
        lambda: xmap(body, ["a"], ["a"], [("a", "x")]),
        AxisResourceError,
        "xmap: axis_resources is [('a', 'x')], not a dict. Write a dict from axis names to mesh axes, such as {'batch': 'x'} "
        "or {'batch': ('x', 'y')}.",
    ),
    "a position in axis_resources": (
        lambda: xmap(body, ["a"], ["a"], {0: "x"}),
        AxisResourceError,
        "xmap: axis_resources has the key 0, which is not an axis name. Write axis names as keys, such as {'batch': 'x'}.",
    ),
    "no mesh axis": (
        lambda: xmap(body, ["a"], ["a"], {"a": 0}),
        AxisResourceError,
        "xmap: axis_resources maps 'a' to 0, which is not a mesh axis. Write a mesh axis name, a SerialLoop, or a tuple of "
        "them, major first.",
    ),
    "a list of mesh axes": (
        lambda: xmap(body, ["a"], ["a"], {"a": ["x", "y"]}),
        AxisResourceError,
        "xmap: axis_resources maps 'a' to ['x', 'y'], which is not a mesh axis. Write a mesh axis name, a SerialLoop, or a "
        "tuple of them, major first.",
    ),
    "a mesh axis twice in one assignment": (
        lambda: xmap(body, ["a"], ["a"], {"a": ("x", "y", "x")}),
        AxisResourceError,
        "xmap: axis_resources maps 'a' to mesh axis 'x' twice (('x', 'y', 'x')). Remove one of the two.",
    ),
    "axis_sizes is no dictionary": (
        lambda: xmap(body, ["a"], ["a"], axis_sizes=[("a", 8)]),
        AxisSizeError,
        "xmap: axis_sizes is [('a', 8)], not a dict. Write a dict from axis names to sizes, such as {'batch': 128}.",
    ),
    "a position in axis_sizes": (
        lambda: xmap(body, ["a"], ["a"], axis_sizes={0: 8}),
        AxisSizeError,
        "xmap: axis_sizes has the key 0, which is not an axis name. Write axis names as keys, such as {'batch': 128}.",
    ),
    "no size": (
        lambda: xmap(body, ["a"], ["a"], axis_sizes={"a": 2.5}),
        AxisSizeError,
        "xmap: axis_sizes gives 'a' the size 2.5; a size must be a nonnegative integer.",
    ),
    "a negative size": (
        lambda: xmap(body, ["a"], ["a"], axis_sizes={"a": -1}),
        AxisSizeError,
        "xmap: axis_sizes gives 'a' the size -1; a size must be a nonnegative integer.",
    ),
    "in_axes is no mapping": (
        lambda: xmap(body, "a", ["a"])(zeros(8)),
        AxisMappingError,
        "xmap, in_axes: 'a' is not an axis mapping. Write a dict from positions to names ({0: 'batch'}), a list with one "
        "entry per axis (['batch', None]), or a list that ends with '...' (['batch', ...]). Did you mean ['a']?",
    ),
    "in_axes of a dictionary": (
        lambda: xmap(body, {"x": ["a"]}, ["a"])(zeros(8)),
        AxisMappingError,
        "xmap: in_axes is {'x': ['a']}. Write one axis mapping for all arguments, or a tuple with one mapping per argument.",
    ),
}


@cases(OPTIONS)
def test_options(call, kind, text):
    fails(call, kind, text)


# --- xmap: arguments, meshes, results ---------------------------------------------------------------------------------


def two(x, y):
    return x


MAPPED = {
    "sizes that disagree": (
        lambda: xmap(two, (["batch", None], [None, "batch"]), ["batch", None])(zeros(8, 3), zeros(3, 6)),
        AxisSizeError,
        "xmap: axis 'batch' has size 8 in argument 'x' of shape (8, 3), and size 6 in argument 'y' of shape (3, 6); a name "
        "has one size. Check the axis mappings in in_axes, or use two names.",
    ),
    "sizes that disagree in a tree": (
        lambda: xmap(two, ({"w": ["a"], "v": [["a"]]}, {}), {})({"w": zeros(3), "v": [zeros(4)]}, 1),
        AxisSizeError,
        "xmap: axis 'a' has size 4 in argument 'x'['v'][0] of shape (4,), and size 3 in argument 'x'['w'] of shape (3,); a "
        "name has one size. Check the axis mappings in in_axes, or use two names.",
    ),
    "axis_sizes that disagree": (
        lambda: xmap(body, ["a"], ["a"], axis_sizes={"a": 16})(zeros(8)),
        AxisSizeError,
        "xmap: axis 'a' has size 16 in axis_sizes, and size 8 in argument 'x' of shape (8,); a name has one size. Check the "
        "axis mappings in in_axes, or use two names.",
    ),
    "a name twice in one array": (
        lambda: xmap(body, {0: "a"}, None)(nx.named(zeros(8, 8), {1: "a"})),
        AxisNameError,
        "xmap: axis 'a' appears twice in ('a', 'a'); one array has an axis at most once. Rename one of them.",
    ),
    "a rank that is not asserted": (
        lambda: xmap(two, (["a"], ["b"]), None)(zeros(8), zeros(4, 4)),
        AxisMappingError,
        "xmap: the axis mapping ['b'] asserts 1 axes, but argument 'y', i32[4,4], has 2. Write one entry per axis (None for "
        "one without a name): ['b', None], or end the list with '...' to name the first axes only: ['b', ...].",
    ),
    "a rank of a result that is not asserted": (
        lambda: xmap(body, ["a", None], ["a"])(zeros(8, 3)),
        AxisMappingError,
        "xmap, out_axes: the axis mapping ['a'] asserts 1 axes, but the result, i32[3]{a:8}, with its names has 2. Write one "
        "entry per axis (None for one without a name): ['a', None], or end the list with '...' to name the first axes only: "
        "['a', ...].",
    ),
    "too few mappings": (
        lambda: xmap(two, (["a"],), None)(zeros(8), zeros(8)),
        AxisMappingError,
        "xmap: in_axes has length 1, but two was called with 2 positional arguments (without static ones). Write one axis "
        "mapping per argument, or a single one for all.",
    ),
    "too many mappings": (
        lambda: xmap(two, (["a"], ["a"], ["a"]), None)(zeros(8), zeros(8)),
        AxisMappingError,
        "xmap: in_axes has length 3, but two was called with 2 positional arguments (without static ones). Write one axis "
        "mapping per argument, or a single one for all.",
    ),
    "a keyword without a mapping": (
        lambda: xmap(lambda x, *, y: x, (["a"],), None)(zeros(8), y=zeros(8)),
        AxisMappingError,
        "xmap: in_axes has no axis mapping for the keyword argument 'y' of <lambda>. Put a dict from keywords to mappings "
        "after the positional ones, such as {'y': ['batch', ...]}, or pass a named array.",
    ),
    "a loop whose steps do not divide an axis": (
        lambda: xmap(lambda x: nx.split_axis(x, "a", {"p": 3, "q": 4}), ["a"], ["p", "q"], {"a": nx.SerialLoop(8)})(zeros(12)),
        UnevenAxisError,
        "nx.split_axis{a,p,q}: axis 'a' of size 12 does not divide over mesh axes (\"SerialLoop(8) of 'a'\",), 8 blocks in total, so the last "
        "blocks, of size 2, contain padding, and this operation does not support padded axes. Use a size that divides, such as 8 "
        "or 16, or map 'a' to fewer devices or steps in axis_resources.",
    ),
    "an unknown mesh axis": (
        lambda: xmap(body, ["a"], ["a"], {"a": "xx"})(zeros(8)),
        MeshError,
        "xmap: axis_resources maps 'a' to mesh axis 'xx', which the mesh does not have; its axes are 'x', 'y' with sizes (4, "
        "2). Did you mean 'x'?",
    ),
    "no mesh": (
        lambda: xmap(body, ["a"], ["a"], {"a": "x"}, mesh=None)(zeros(8)),
        MeshError,
        "xmap: axis_resources maps 'a' to mesh axes ('x',), but there is no mesh. Pass mesh=jax.make_mesh(...), or set a "
        "mesh with jax.set_mesh(mesh); `with mesh:` does not set one. To execute 'x' as a loop, call within "
        "nx.serial_loop('x', steps).",
    ),
    "resources for a name that nobody has": (
        lambda: xmap(body, ["batch"], ["batch"], {"bacth": "x"})(zeros(8)),
        AxisResourceError,
        "xmap: axis_resources maps 'bacth' to ('x',), but no value in body has an axis 'bacth'; the axes are 'batch'. Did "
        "you mean 'batch'? Correct the name, or remove it from axis_resources.",
    ),
    "a result with a name left": (
        lambda: xmap(lambda x: {"out": [x]}, ["a", "b"], {"out": [["a"]]})(zeros(8, 4)),
        NamedAxesLeftError,
        "xmap, out_axes: the result['out'][0], i32[]{a:8, b:4}, still has the axes 'b', which ['a'] does not place. Reduce "
        "them in the function, or place them in the mapping, as in ['a', 'b'].",
    ),
    "a result that lacks a name": (
        lambda: xmap(body, ["a"], ["a", "q"])(zeros(8)),
        AxisMappingError,
        "xmap, out_axes: ['a', 'q'] places 'q', but the result, i32[]{a:8}, has no such axis, and it has no size to broadcast "
        "to. Write ['a'], or give its size in axis_sizes.",
    ),
    "a local block that escapes": (
        lambda: xmap(lambda x: x.data, ["a"], [None], {"a": "x"})(zeros(8)),
        NamedAxesLeftError,
        "xmap: the result, i32[2], varies over the mesh axes ['x'], but none of its axes is sharded over them; it contains a "
        "local block (x.data) of a named array. Return the named array.",
    ),
    "an array of a different size that is closed over": (
        lambda: xmap(lambda x: x + C, ["a"], ["a"], {"a": "x"})(zeros(8)),
        AxisSizeError,
        "add: axis 'a' has size 6 in an array of shape (6,) with dims ('a',), but 'a' has size 8 in this mapped function; a "
        "name has one size. Rename one of the two axes.",
    ),
    "rename to a name of a different size": (
        lambda: xmap(lambda x, y: nx.rename(x, {"a": "b"}), (["a"], ["b"]), None, {"a": "x"})(zeros(8), zeros(4)),
        AxisSizeError,
        "rename: axis 'a' of size 8 cannot become 'b', which has size 4 in this mapped function; a name has one size. Choose "
        "another name.",
    ),
    "split into a name that does not divide": (
        lambda: xmap(lambda x: nx.split_axis(x, "b", {"c": 3, "d": 2}), ["a", "b"], None, {"a": "x", "c": "y"})(zeros(8, 6)),
        UnevenAxisError,
        "split_axis: axis 'c' of size 3 does not divide over mesh axes ('y',), 2 devices in total. Use a size that is a multiple "
        "of 2, or map 'c' to fewer devices in axis_resources.",
    ),
    "a branch on a named value": (
        lambda: xmap(lambda x: x if x > 0 else -x, ["a"], ["a"])(zeros(8)),
        NamedAxesLeftError,
        "bool(): bool[]{a:8} still has named axes, and bool() needs an array without names. Write nx.all(c, ...) or nx.any(c, ...) for one "
        "boolean, or elementwise (0 < x) & (x < 1), ~c, nx.where(c, x, y), nx.minimum(x, y).",
    ),
}


@cases(MAPPED)
def test_mapped_functions(call, kind, text):
    fails(call, kind, text)


def test_out_axes_that_are_no_prefix():
    with pytest.raises(AxisMappingError) as error:
        xmap(lambda x: {"x": x, "y": x}, ["a"], {"x": ["a"]})(zeros(8))
    assert str(error.value).startswith(
        "xmap, out_axes: the result['y'] is missing from out_axes. Write one axis mapping per value, or one for a whole container."
    )


def test_another_mesh_in_the_context():
    other = make_mesh((2, 4))
    with jax.set_mesh(other), pytest.raises(MeshError) as error:
        xmap(body, ["a"], ["a"], {"a": "x"})(zeros(8))
    assert str(error.value).startswith(
        "xmap: mesh= has the axes {'x': 4, 'y': 2}, but the mesh of the surrounding jax.set_mesh has {'x': 2, 'y': 4}; JAX "
        "allows one mesh at a time. Omit mesh=, or call the function under jax.set_mesh of its own mesh."
    )


# --- two names on one mesh axis ---------------------------------------------------------------------------------------

CONFLICTS = {
    "multiply": lambda x, y: x * y,
    "where": lambda x, y: nx.where(x > 0, y, 0),
    "dot": lambda x, y: nx.dot(x, y, "k"),
    "einsum '{a,k},{b,k}->{a,b}'": lambda x, y: nx.einsum("{a,k},{b,k}->{a,b}", x, y),
    "rename": lambda x, y: nx.rename(x, {"k": "b"}),
    "nmap(maximum)": lambda x, y: nx.nmap(jnp.maximum)(x, y),
    "take": lambda x, y: nx.take(x, (y * 0).astype(int), "k"),
}


@pytest.mark.parametrize("partitioning", ["manual", "auto"])
@pytest.mark.parametrize("op", CONFLICTS)
def test_two_names_on_one_mesh_axis_meet(op, partitioning):
    # Which operation, which names, which mesh axis, and what to do about it.
    f = xmap(CONFLICTS[op], (["a", "k"], ["b", "k"]), None, {"a": ("x", "y"), "b": "x"}, partitioning=partitioning)
    fails(
        lambda: f(jnp.zeros((8, 4)), jnp.zeros((4, 4))),
        PlacementConflictError,
        f"{op}: axes 'a' and 'b' meet in one value, but both are mapped to mesh axis 'x', which can hold only one of them. "
        f"Rename one of them to "
        "an axis that is not on 'x' first (nx.rename, or {new:old} in einsum: this communicates), or change axis_resources.",
    )


def test_two_names_on_one_mesh_axis_in_one_argument():
    fails(
        lambda: xmap(body, ["a", "b"], ["a", "b"], {"a": "x", "b": "x"})(zeros(8, 4)),
        PlacementConflictError,
        "xmap, argument 'x': axes 'a' and 'b' meet in one value, but both are mapped to mesh axis 'x', which can hold only "
        "one of them. Map one of them to another mesh axis in axis_resources, or to none.",
    )


def test_two_names_on_one_mesh_axis_that_do_not_meet():
    f = xmap(lambda x, y: nx.sum(x, "a") + nx.sum(y, "b"), (["a"], ["b"]), [], {"a": "x", "b": "x"})
    assert int(f(jnp.arange(8), jnp.arange(4))) == 28 + 6


# --- a named array given to a function of positions ---------------------------------------------------------------------

NOTE = (
    "namedax: a function that takes positional arrays got a named array. Lift the function over the names with "
    "nx.nmap(function), or call its namesake in namedax (nx.numpy, nx.lax, nx.nn)."
)

GIVEN_TO_JAX = {
    "xmap": lambda: xmap(lambda x: jnp.linalg.norm(x), ["a", None], ["a"])(jnp.zeros((8, 3))),
    "xmap, sharded": lambda: xmap(lambda x: jnp.add(x, 1), ["a"], ["a"], {"a": "x"})(jnp.zeros(8)),
    "xmap, eager": lambda: xmap(lambda x: jax.lax.exp(x), ["a"], ["a"], jit=False)(jnp.zeros(8)),
    "xmap, deeper": lambda: xmap(lambda x: {"y": jax.nn.gelu(x * 2)}, ["a"], ["a"])(jnp.zeros(8)),
    "nmap": lambda: nx.nmap(lambda v: jnp.sin(nx.named(v, ["k"])))(nx.named(jnp.zeros((2, 3)), ["a", None])),
    "nmap of nothing named": lambda: nx.nmap(lambda: jnp.sin(A))(),
    "an operation": lambda: nx.numpy.apply_along_axis(lambda v: jnp.add(v, A), 0, nx.named(jnp.zeros((2, 3)), ["a", None])),
}


@pytest.mark.parametrize("call", GIVEN_TO_JAX.values(), ids=GIVEN_TO_JAX)
def test_a_named_array_given_to_jax(call):
    with pytest.raises(TypeError) as error:
        call()
    notes = [note for note in getattr(error.value, "__notes__", []) if note.startswith("namedax")]
    assert notes == [NOTE]
    assert "nx.nmap(function)" in "".join(traceback.format_exception(error.value))


def test_other_type_errors_have_no_such_note():
    with pytest.raises(TypeError, match="something else") as error:
        xmap(lambda x: (_ for _ in ()).throw(TypeError("something else")), ["a"], ["a"])(zeros(8))
    assert NOTE not in getattr(error.value, "__notes__", [])


def test_numpy_given_a_named_array():
    with pytest.raises(NamedAxesLeftError, match=r"np\.sin: .* Write nx\.sin\(x\), or nx\.positional"):
        np.sin(A)
    # NumPy's operator for its own array on the left
    assert np.add(np.ones(3), A).dims == (np.ones(3) + A).dims == ("a", None)


# --- arguments of JAX that have no meaning here -------------------------------------------------------------------------

UNSUPPORTED = {
    "out": (
        lambda: nx.numpy.sum(B, "a", out=zeros(4)),
        UnsupportedArgumentError,
        "sum: out=ArrayImpl is not supported for i32[]{a:8, b:4}. Arrays are immutable, and JAX has no such argument either: take "
        "the result.",
    ),
    "device": (
        lambda: nx.zeros(3, named_shape={"a": 8}, device="cpu"),
        UnsupportedArgumentError,
        "zeros: device=cpu is not supported for named arrays. Shard the array over devices with "
        "nx.shard(x, axis_resources, mesh).",
    ),
    "an unreduced value": (
        lambda: xmap(lambda x: nx.lax.pcast(x, "a", to="unreduced"), ["a"], ["a"], {"a": "x"})(zeros(8)),
        UnsupportedArgumentError,
        "pcast: to='unreduced' is not supported for axis 'a': how values vary follows from their names. Leave the cast out, and reduce "
        "over the name (nx.lax.psum) where a sum is meant.",
    ),
    "groups over two names": (
        lambda: xmap(lambda x: nx.lax.psum(x, ("a", "b"), axis_index_groups=[[0, 1]]), ["a", "b"], [], {"a": "x"})(zeros(8, 2)),
        UnsupportedArgumentError,
        "psum: axis_index_groups is for one name, and there are 2, ('a', 'b'). Merge them first: nx.merge_axes.",
    ),
}


@cases(UNSUPPORTED)
def test_unsupported_arguments(call, kind, text):
    fails(call, kind, text)
    with pytest.raises(NotImplementedError):  # as JAX raises
        call()


# --- where it is reported -----------------------------------------------------------------------------------------------


def test_an_error_is_reported_at_the_line_that_made_it():
    def model(x, w):
        hidden = nx.dot(x, w, "inputs")
        return nx.sum(hidden, "hiden")  # the mistake

    f = xmap(model, (["batch", "inputs"], ["inputs", "hidden"]), None, {"batch": "x"})
    with pytest.raises(AxisNotFoundError) as error:
        f(jnp.zeros((8, 3)), jnp.zeros((3, 4)))
    lines = [frame.line for frame in traceback.extract_tb(error.value.__traceback__) if frame.filename == __file__]
    assert lines[-1].endswith("# the mistake")
    assert "Did you mean 'hidden'?" in str(error.value)
    assert "{batch:8@x, hidden:4}" in str(error.value)


def test_an_error_leaves_nothing_behind():
    # A call that fails is not remembered by the kernels, and the next one is right.
    good = nx.named(jnp.arange(8.0), ["a"])
    for _ in range(2):
        with pytest.raises(AxisSizeError):
            good + nx.named(jnp.arange(6.0), ["a"])
        np.testing.assert_array_equal((good + nx.named(jnp.ones(8), ["a"])).data, jnp.arange(8.0) + 1)


def test_every_message_begins_with_its_operation():
    messages = [
        (path.name, kind, text)
        for path in sorted(Path(nx.__file__).parent.rglob("*.py"))
        for kind, text in re.findall(r'raise (\w+Error)\(\s*f?"([^"]*)', path.read_text())
        if kind in errors.__all__
    ]
    assert len(messages) > 300
    operation = re.compile(r"\{what\}|(\{[^{}]*\}|[\w.])+(\(\)|\[\.\.\.\])?(, \w+)?:")
    assert [message for message in messages if not operation.match(message[2])] == []


def test_errors_of_a_region_name_the_operation():
    fails(
        lambda: xmap(lambda x: nx.merge_axes(x, ["a", "b"], "p"), ["a", "b"], ["p"], {"p": "x"})(jnp.zeros((3, 2))),
        UnevenAxisError,
        "merge_axes: axis 'p' of size 6 does not divide over mesh axes ('x',), 4 devices in total. Use a size that is a multiple of "
        "4, or map 'p' to fewer devices in axis_resources.",
    )


@pytest.fixture
def tracebacks():
    """Programs say where their operations come from, which conftest.py switches off."""
    before = jax.config.jax_include_full_tracebacks_in_locations
    jax.config.update("jax_include_full_tracebacks_in_locations", True)
    yield
    jax.config.update("jax_include_full_tracebacks_in_locations", before)


@pytest.mark.usefixtures("tracebacks")
def test_operations_are_said_to_be_where_the_model_is():
    """In the program's text, and so in profiles and in JAX's messages."""
    x = nx.named(jnp.ones((8, 3)), ["a", "k"])
    f = nx.xmap(lambda x: nx.sum(nx.dot(x, x, "k"), "a"), axis_resources={"a": "x"}, mesh=make_mesh((8,)))
    text = f.lower(x).as_text(debug_info=True)
    assert "test_errors.py" in text
    assert "namedax/ops/" not in text
    assert "namedax/xmap/wrapper.py" not in text
