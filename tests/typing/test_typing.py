"""`namedax.typing`: array types as annotations, and `checked`.

The judge of what matches is `accepts` below, a matcher by brute force: it tries every assignment of the size variables.
"""

# ruff: noqa: F722, F821 - to ruff a string in square brackets of an annotation is a forward reference

import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import pickle
import subprocess
import sys
import types
import typing
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar, Union

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import namedax as nx
from namedax import typing as nt
from namedax.errors import ArrayTypeError, AxisNameError, NamedaxError
from namedax.typing import (
    any_,
    check,
    checked,
    element_type,
    f32,
    f64,
    floating,
    i32,
    integer,
    key,
    matches,
    number,
)
from tests import make
from tests.harness import FEW, array, said
from tests.harness import check as check_program

X64 = jax.config.jax_enable_x64
REAL = "f64" if X64 else "f32"
real = f64 if X64 else f32
whole = nt.i64 if X64 else i32


def zeros(shape=(), dtype="float32", **names):
    return nx.NamedArray(make.zeros((*names.values(), *shape), dtype), (*names, *(None,) * len(shape)))


def fails(call, *parts):
    with pytest.raises(ArrayTypeError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value), (part, str(caught.value))
    return said(caught.value)


# --- annotations ----------------------------------------------------------------------------------------------------

SOURCES = {
    "f32[(5,), {'batch': 20}]": lambda: f32[(5,), {"batch": 20}],
    "f32[('n',), {'batch', 'k'}]": lambda: f32["n", {"batch", "k"}],
    "f32[{'batch': 'b', 'k': 7}]": lambda: f32[{"batch": "b", "k": 7}],
    "f32[3, 'n']": lambda: f32[3, "n"],
    "f32[2, 3]": lambda: f32[(2, 3)],
    "f32[5]": lambda: f32[(5,)],
    "f32[()]": lambda: f32[()],
    "f32[...]": lambda: f32[..., {}],
    "f32[None]": lambda: f32[None],
    "f32[..., {'batch'}]": lambda: f32[..., {"batch"}],
    "f32[('n', ..., 3), {'k', ...}]": lambda: f32["n", ..., 3, {"k", ...}],
    "f32[{'batch': 20, 'k': None, ...: ...}]": lambda: f32[{"batch": 20, ...: ..., "k": None}],
    "f32[(None,), {...}]": lambda: f32[(None,), {...}],
    "f32[{('layer', 0): 2}]": lambda: f32[(), {("layer", 0): 2}],
    "floating[{'b', ('layer', 0)}]": lambda: floating[frozenset({"b", ("layer", 0)})],
    "element_type('float8_e4m3fn')[3]": lambda: element_type(ml_dtypes.float8_e4m3fn)[np.int64(3)],
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_text_is_the_source(source):
    made = SOURCES[source]()
    assert repr(made) == source
    again = eval(source, vars(nt))
    assert again == made
    assert hash(again) == hash(made)
    assert repr(again) == source
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)


def test_annotations_that_say_the_same_are_equal():
    assert f32[(5,), {"a": 2, "b": 3}] == f32[5, {"b": 3, "a": 2}] == f32[(5,), {"b": 3, "a": 2}]
    assert hash(f32[{"a": 2, "b": 3}]) == hash(f32[{"b": 3, "a": 2}])
    assert f32[(5,), {}] == f32[5] == f32[(5,)] == f32[5, set()] == f32[(5,), {}]
    assert f32[{"a": None}] == f32[{"a"}]
    assert f32[{"a", ...}] == f32[{"a": None, ...: ...}]
    different = [
        f32[5],
        f32["n"],
        f32[None],
        f32[...],
        i32[5],
        f32[5, {"n"}],
        f32[5, {"n": 5}],
        f32[5, {"n": "n"}],
        f32[5, {...}],
    ]
    assert len(set(different)) == len(different)
    assert f32[5] != "f32[5]"
    assert f32 == pickle.loads(pickle.dumps(f32))
    assert f32 != nt.f16
    assert len({f32, element_type("float32")}) == 1
    assert pickle.loads(pickle.dumps(element_type("int4"))) == element_type("int4")
    with pytest.raises(AttributeError, match="cannot assign to field 'shape'"):
        f32[5].shape = (3,)


MALFORMED = {
    "several in one string": (
        lambda: f32["n m"],
        "f32[...]: 'n m' is not the size of a positional axis; a size variable is one",
    ),
    "arithmetic": (lambda: f32[{"b": "n+1"}], "f32[...]: 'n+1' is not the size of axis 'b'; a size variable is one identifier"),
    "underscore": (lambda: f32["_"], "Write None for any size"),
    "bool": (lambda: f32[True], "f32[...]: True is not the size of a positional axis. Use an integer, a size variable"),
    "negative": (lambda: f32[-1], "f32[...]: -1 is not the size"),
    "fraction": (lambda: f32[2.0], "f32[...]: 2.0 is not the size"),
    "tuple as size": (lambda: f32[{"b": (3,)}], "(3,) is not the size of axis 'b'"),
    "two gaps": (lambda: f32[..., 3, ...], "... stands for any positional axes and may occur once"),
    "names in front": (lambda: f32[{"b"}, 3], "the named axes must come last, in one pair of braces; got ({'b'}, 3)"),
    "names twice": (lambda: f32[{"b"}, {"c"}], "the named axes must come last, in one pair of braces"),
    "two tuples": (lambda: f32[(3,), (4,)], "the sizes of the positional axes must be one tuple"),
    "list": (lambda: f32[[3]], "the sizes of the positional axes must be one tuple; got [3]"),
    "ellipsis with a size": (lambda: f32[{"b": 3, ...: 4}], "... as a name takes no size; got ...: 4"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed(case):
    make, text = MALFORMED[case]
    fails(make, text)


def test_malformed_names_and_dtypes():
    for annotate in (lambda: f32[{3}], lambda: f32[{3: 4}], lambda: f32[{None: 4}]):
        with pytest.raises(AxisNameError, match=r"is not an axis name; .* Write positional sizes before the braces"):
            annotate()
    fails(lambda: element_type("U3"), "element_type: JAX has no arrays of 'U3'. Pass a dtype such as jnp.float32 or 'float32'.")
    fails(lambda: element_type("nonsense"), "element_type: JAX has no arrays of 'nonsense'")
    assert issubclass(ArrayTypeError, NamedaxError)
    assert issubclass(ArrayTypeError, TypeError)


# --- element types --------------------------------------------------------------------------------------------------

NAMED = {
    "f16": np.float16, "bf16": jnp.bfloat16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "c64": np.complex64,
    "c128": np.complex128, "bool_": np.bool_,
}  # fmt: skip
KINDS = {
    "floating": jnp.floating, "complexfloating": jnp.complexfloating, "inexact": jnp.inexact, "integer": jnp.integer,
    "signedinteger": jnp.signedinteger, "unsignedinteger": jnp.unsignedinteger, "number": jnp.number, "any_": np.generic,
}  # fmt: skip
AVAILABLE = [name for name, own in NAMED.items() if jax.dtypes.canonicalize_dtype(own) == own]


def test_dtypes_and_kinds():
    dtypes = [*NAMED.values(), ml_dtypes.float8_e4m3fn, ml_dtypes.int4]
    for name, own in NAMED.items():
        element = getattr(nt, name)
        assert repr(element) == name
        assert element.dtype == np.dtype(own)
        assert [element.has(dtype) for dtype in dtypes] == [dtype is own for dtype in dtypes]
        assert name not in AVAILABLE or jnp.zeros(3, element).dtype == own
    for name, kind in KINDS.items():
        element = getattr(nt, name)
        assert [element.has(dtype) for dtype in dtypes] == [bool(jnp.issubdtype(dtype, kind)) for dtype in dtypes], name
        assert not hasattr(element, "dtype")
        assert not any(element.has(dtype) for dtype in ("U3", "O", "M8[s]"))


def test_the_text_of_a_type_agrees_with_arrays():
    for name in NAMED:
        if name in AVAILABLE and name != "bool_":
            x = jnp.zeros((5, 3), NAMED[name])
            assert repr(getattr(nt, name)[5, 3]).replace(" ", "") in repr(nx.NamedArray(x[..., None], (None, None, "k")))


def test_python_numbers_follow_weak_types():
    # As in JAX, a Python number takes the type of what it meets, if that type is wide enough.
    for value in (True, 2, 2.0, 2j):
        under_jit = []
        jax.jit(lambda v: under_jit.extend(matches(v, getattr(nt, name)[()]) for name in AVAILABLE))(value)  # noqa: B023
        for name, same in zip(AVAILABLE, under_jit, strict=True):
            own = NAMED[name]
            want = name == "bool_" if isinstance(value, bool) else jnp.result_type(value, jnp.zeros((), own)) == own
            assert matches(value, getattr(nt, name)[()]) == same == want, (value, name)
            assert not matches(value, getattr(nt, name)[3])
    assert [matches(v, floating[()]) for v in (True, 1, 1.0, 1j)] == [False, True, True, False]
    assert [matches(v, integer[()]) for v in (True, 1, 1.0, 1j)] == [False, True, False, False]
    assert [matches(v, number[()]) for v in (True, 1, 1.0, 1j)] == [False, True, True, True]
    assert [matches(v, any_[()]) for v in (True, 1, 1.0, 1j)] == [True] * 4
    assert [matches(v, key[()]) for v in (True, 1, 1.0, 1j)] == [False] * 4
    assert matches(jnp.asarray(1.0), nt.bf16[()])
    assert not matches(jnp.asarray(1.0, "float32"), nt.bf16[()])
    assert matches(nx.named(jnp.full(3, 1.0), ["a"]), nt.f16[{"a"}])


def test_numpy_arrays_are_what_jax_reads():
    for dtype in ("float64", "float32", "int64", "uint64", "complex128", "bool"):
        wanted = element_type(jnp.asarray(np.zeros(3, dtype)).dtype)
        assert matches(np.zeros(3, dtype), wanted[3])
        assert matches(np.zeros((), dtype)[()], wanted[()])
    assert matches(np.float64(2.0), f64[()]) is X64
    assert not matches(np.array(["a"]), any_[1])
    assert not matches(np.array([None]), any_)
    if not X64:
        text = fails(lambda: check(np.zeros(3), f64[3]), "the NumPy array f64[3]", "which JAX reads as f32, not f64.")
        assert "64-bit types are disabled, so JAX has no f64. Set jax_enable_x64, or write a kind such as floating." in text


def test_keys():
    keys = nx.named(jax.random.split(jax.random.key(0), 5), ["batch"])
    assert matches(keys, key[{"batch": 5}])
    assert matches(jax.random.key(0), key[()])
    assert matches(keys, any_[{"batch"}])
    assert element_type(jax.random.key(0).dtype) == key
    fails(
        lambda: check(jax.random.PRNGKey(0), key[()]),
        "but is u32[2]. The dtype is u32, not key. It has 1 positional axis, not 0.",
        "Make random keys with jax.random.key.",
    )
    fails(lambda: check(jax.random.key(0), f32[()]), "is key<fry>[]. The dtype is key<fry>, not f32.")
    assert not matches(keys, number[{"batch"}])


def test_values_that_are_not_arrays():
    assert not any(matches(v, any_) for v in (None, "x", [1.0], (1.0,), {}, object(), f32))
    fails(lambda: check([1.0, 2.0], f32[2]), "is of type list of length 2. Make it an array first (jnp.asarray, nx.named).")
    fails(lambda: check(None, f32[2]), "is None. If None is allowed here, write f32[2] | None.")
    fails(lambda: check("x", f32[2]), "is the Python str 'x'.")
    fails(lambda: check(2.5, i32[()]), "is the Python float 2.5. The dtype is that of a Python float, not i32.")
    fails(lambda: check(object(), f32), "the value should be f32[..., {...}], but is of type object.")
    assert matches(jax.eval_shape(lambda: zeros((5,), batch=3)), f32[(5,), {"batch": 3}])
    assert matches(jax.ShapeDtypeStruct((5,), jnp.float32), f32[5])
    holes = jax.tree.unflatten(jax.tree.structure(zeros(batch=3)), [object()])
    assert not matches(holes, f32[{"batch"}])
    stripped = jax.tree.map(lambda leaf: leaf[0], zeros(batch=3))
    fails(lambda: check(stripped, f32[{"batch"}]), "f32[] with axes ('batch',) that do not fit")


# --- against brute force --------------------------------------------------------------------------------------------

VARIABLES = ("n", "m")
NAMES = ("a", "b", ("layer", 0))
sizes_ = st.one_of(st.integers(0, 3), st.sampled_from(VARIABLES), st.none())
patterns = st.tuples(
    st.lists(sizes_, max_size=3), st.none() | st.integers(0, 3), st.dictionaries(st.sampled_from(NAMES), sizes_), st.booleans()
)
shapes = st.tuples(st.lists(st.integers(0, 3), max_size=4), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)))


def write(pattern):
    shape, gap, names, more = pattern
    shape = list(shape)
    if gap is not None:
        shape.insert(gap, ...)
    return f32[tuple(shape), {**names, ...: ...} if more else names]


def accepts(patterns, shapes):
    """Whether some values of the size variables make every pattern equal to its shape."""

    def same(want, have, values):
        return want is None or values.get(want, want) == have

    def one(pattern, shape, values):
        (sizes, gap, names, more), (have, named) = pattern, shape
        gap = None if gap is None else min(gap, len(sizes))
        fills = [[]] if gap is None else [[None] * k for k in range(5)]
        filled = [list(sizes) if gap is None else [*sizes[:gap], *fill, *sizes[gap:]] for fill in fills]
        return (
            any(len(f) == len(have) and all(same(w, h, values) for w, h in zip(f, have, strict=True)) for f in filled)
            and (set(names) == set(named) or (more and set(names) < set(named)))
            and all(same(names[name], named[name], values) for name in names)
        )

    return any(
        all(one(p, s, dict(zip(VARIABLES, values, strict=True))) for p, s in zip(patterns, shapes, strict=True))
        for values in itertools.product(range(4), repeat=len(VARIABLES))
    )


def spell(pattern, shape, values):
    """A shape that is close to a pattern, so that about half of the examples match."""
    (sizes, gap, names, more), (have, named) = pattern, shape
    have, named = list(have), dict(named)
    want = [values.get(s, 1 if s is None else s) for s in sizes]
    if gap is not None:
        want[min(gap, len(want)) : min(gap, len(want))] = have[:1]
    return want, {**(named if more else {}), **{name: values.get(s, 2 if s is None else s) for name, s in names.items()}}


@pytest.mark.full(0)
@pytest.mark.fast(0)
@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(
    st.lists(st.tuples(patterns, shapes, st.booleans()), min_size=1, max_size=3),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_against_brute_force(cases, values):
    values = dict(zip(VARIABLES, values, strict=True))
    wants = [p for p, _, _ in cases]
    haves = [spell(p, s, values) if close else s for p, s, close in cases]
    types = [write(p) for p in wants]
    arrays = [
        nx.named(np.zeros((*named.values(), *shape), "float32"), [*named, *(None,) * len(shape)]) for shape, named in haves
    ]
    want = accepts(wants, haves)
    assert matches(tuple(arrays), tuple[tuple(types)]) == want

    def body(*args):
        return args

    body.__annotations__ = {"return": tuple[tuple(types)]}
    if want:
        checked(body)(*arrays)
    else:
        fails(lambda: checked(body)(*arrays), "body: the result")
    for made in types:
        again = eval(repr(made), vars(nt))
        assert again == made
        assert hash(again) == hash(made)


def test_brute_force_says_yes_and_no():
    assert accepts([(["n", 3], None, {"a": "n"}, False)], [([2, 3], {"a": 2})])
    assert not accepts([(["n", 3], None, {"a": "n"}, False)], [([2, 3], {"a": 1})])
    assert accepts([([3], 0, {}, True)], [([2, 3], {"a": 1})])
    assert not accepts([([3], 0, {}, False)], [([2, 3], {"a": 1})])


# --- checked --------------------------------------------------------------------------------------------------------


def test_arguments_however_they_are_given():
    @checked
    def f(a: f32[2], /, b: f32["n"], c: int = 0, d: f32["n"] | None = None, *rest: f32[3], e: f32[()] = 1.0, **more: f32["m"]):
        return c

    good = jnp.zeros(2, "float32"), four
    assert f(*good) == 0
    assert f(good[0], b=good[1], c=5, d=good[1]) == 5
    assert f(*good, 7, None, three, three, e=jnp.float32(2), x=four, y=four) == 7
    fails(lambda: f(good[1], good[1]), "f: argument a should be f32[2], but is f32[4]. Positional axis 0 has size 4, not 2.")
    fails(lambda: f(good[0], b=None), "f: argument b should be f32['n'], but is None.")
    fails(lambda: f(*good, 7, good[0]), "argument d should be f32['n'] | None", "size 2, but n = 4 from argument b.")
    fails(lambda: f(*good, d=good[0]), "argument d should be f32['n'] | None")
    fails(lambda: f(*good, 7, None, three, good[0]), "f: argument rest[1] should be f32[3], but is f32[2].")
    fails(lambda: f(*good, e=jnp.int32(1)), "f: argument e should be f32[()], but is i32[].")
    fails(lambda: f(*good, x=good[0], a=good[1]), "argument more['a'] should be f32['m']", "but m = 2 from argument more['x'].")
    for call in (lambda: f(), lambda: f(good[0]), lambda: f(*good, b=good[1])):
        with pytest.raises(TypeError, match=r"missing|multiple") as caught:  # Python's own
            call()
        assert not isinstance(caught.value, NamedaxError)


def test_defaults_are_values_too():
    @checked
    def f(x: f32["n"], mask: f32["n"] = None):
        return x

    f(three, three)
    fails(
        lambda: f(three),
        "f: argument mask should be f32['n'], but is None. If None is allowed here, write f32['n'] | None.",
    )


def test_a_size_variable_has_one_size_in_a_call():
    @checked
    def scores(
        q: f32["n", {"batch": "b"}], k: f32[{"batch": "b", "d": "n"}], flip: bool = False
    ) -> f32["n", "new", {"batch": "b"}]:
        out = zeros((3, 9), batch=q.named_shape["batch"])
        return nx.NamedArray(out.data[..., 0, None], ("batch", None, None)) if flip == "same" else out

    q, k = zeros((3,), batch=5), zeros(batch=5, d=3)
    assert scores(q, k).named_shape == {"batch": 5}
    assert scores(q, k, "same").shape == (3, 1)  # the next call binds anew
    assert fails(lambda: scores(q, zeros(batch=5, d=4))) == (
        "scores: argument k should be f32[{'batch': 'b', 'd': 'n'}], but is f32[]{batch:5, d:4}. Axis 'd' has size 4, but n = 3 from "
        "argument q. Pass another array, or write a size variable or None where the size may differ."
    )
    q4, k4 = zeros((4,), batch=5), zeros(batch=5, d=4)
    assert "the result should be f32[('n', 'new'), {'batch': 'b'}]" in fails(lambda: scores(q4, k4))
    fails(lambda: scores(q4, k4), "Positional axis 0 has size 3, but n = 4 from argument q.")
    fails(
        lambda: check(zeros((3,), batch=5), f32["n", {"batch": "n"}]),
        "Axis 'batch' has size 5, but n = 3 from its positional axis 0.",
    )
    fails(lambda: check(zeros(a=3, b=4), f32[{"a": "n", "b": "n"}]), "Axis 'b' has size 4, but n = 3 from its axis 'a'.")


def test_messages():
    x = zeros((5,), batch=8, k=3)

    def text(annotation, value=x):
        return fails(lambda: check(value, annotation)).removeprefix("check: the value should be ")

    assert text(f32[5, {"bacth", "k"}]) == (
        "f32[(5,), {'bacth', 'k'}], but is f32[5]{batch:8, k:3}. It lacks the axis 'bacth'. It has the axis 'batch', which the type "
        "lacks. Rename it with nx.rename(x, {'batch': 'bacth'}), or correct the type."
    )
    assert text(i32["n", {"batch", "k"}]) == (
        "i32[('n',), {'batch', 'k'}], but is f32[5]{batch:8, k:3}. The dtype is f32, not i32. Cast it with astype('int32'), or "
        "write another dtype in the type."
    )
    assert text(integer["n", {"batch", "k"}]).endswith("not integer. Cast it with astype, or write another dtype in the type.")
    assert text(f32[..., 2, 3, {...}]) == (
        "f32[(..., 2, 3), {...}], but is f32[5]{batch:8, k:3}. It has 1 positional axis, not at least 2. Reshape it, or write ... in "
        "the type for any number of positional axes."
    )
    assert text(f32[5, {"k"}]).endswith(
        "It has the axis 'batch', which the type lacks. Reduce the extra axes, or allow more names in the type "
        "with ... (as in {'name', ...})."
    )
    assert "(as in {'name': 3, ...: ...})." in text(f32[5, {"k": 3}])
    assert text(f32[5, {"k", "m", "batch", "p"}]).endswith(
        "It lacks the axes 'm', 'p'. Give it the axes 'm', 'p' (nx.named, nx.rename), or remove them from the type."
    )
    assert text(f32[5, 8, {"k"}]).endswith("Give names positions with nx.positional(x, ['batch', ...]).")
    assert text(f32[3, {"b"}], jnp.zeros((3, 4), "float32")) == (
        "f32[(3,), {'b'}], but is f32[3,4]. It has 2 positional axes, not 1. It lacks the axis 'b'. Name positional axes with "
        "nx.named: which of them is 'b'?"
    )
    assert "Rename it with nx.rename(x, {old: new})" in text(f32[5, {"u", "v"}])
    assert "Rename it with nx.rename(x, {'k': 'v'})" in text(f32[5, {"batch", "v"}])


@dataclasses.dataclass
class Options:
    size: int = 0


class Anything(typing.Protocol):
    def run(self): ...


class Pair(NamedTuple):
    w: f32["n"]
    b: f32["n"] | None = None
    step: int = 0


@dataclasses.dataclass
class Layer:
    weight: f32[{"in": "i", "out": "o"}]
    name: str = ""
    next: "Layer | None" = None
    hidden: dataclasses.InitVar[int] = 0


class Batch(TypedDict):
    image: f32["n"]
    label: NotRequired[i32["n"]]


@dataclasses.dataclass
class Plain:
    size: "Unknown"


three, four = make.zeros(3, "float32"), make.zeros(4, "float32")
ints = make.zeros(3, "int32")
Scalar = NewType("Scalar", f32[()])
T = TypeVar("T")

# annotation, values that match, values that do not, with a part of the message.
CONTAINERS = {
    "tuple": (
        tuple[f32["n"], f32["n"], int],
        [(three, three, 0), (four, four, "x")],
        [
            ((three, four, 0), "the value[1] should be f32['n'], but is f32[4]. Positional axis 0 has size 4, but n = 3 from the value[0]"),
            ((three, three), "should be tuple[f32['n'], f32['n'], int], but is of type tuple of length 2."),
            ([three, three, 0], "but is of type list of length 3."),
        ],
    ),
    "tuple of any length": (tuple[f32["n"], ...], [(), (three,), (three,) * 4], [((three, four), "the value[1]"), ([three], "list")]),
    "list": (list[f32["n"]], [[], [three, three]], [([three, four], "the value[1]"), ((three,), "but is of type tuple of length 1")]),
    "typing.List": (typing.List[f32["n"]], [[three]], [([ints], "the value[0]")]),  # noqa: UP006
    "Sequence": (Sequence[f32["n"]], [[three], (three,), deque([three])], [([ints], "the value[0]"), ({"a": three}, "Sequence[")]),
    "dict": (
        dict[str, list[f32["n"]]],
        [{}, {"a": [three], "b": [three]}],
        [({"a": [three], "b": [three, ints]}, "the value['b'][1] should be f32['n'], but is i32[3]"), ([three], "dict[str, list[f32['n']]]")],
    ),
    "Mapping": (Mapping[Any, f32["n"]], [{("a", 1): three}], [({("a", 1): ints}, "the value[('a', 1)]")]),
    "Optional": (Optional[f32["n"]], [None, three], [(ints, "should be f32['n'] | None, but is i32[3]. The dtype is i32")]),  # noqa: UP045
    "None first": (None | f32["n"], [None, three], [(ints, "but is i32[3]. The dtype is i32, not f32.")]),
    "union": (
        f32["n"] | i32[3] | str,
        [three, four, ints, "x"],
        [
            (make.zeros(4, "int32"), "For f32['n']: the dtype is i32, not f32. For i32[3]: positional axis 0 has size 4, not 3."),
            (3, "but is the Python int 3"),
        ],
    ),
    "union of element types": (f32 | i32, [three, ints, 2], [(make.zeros(2, bool), "For f32[..., {...}]: the dtype is bool, not f32.")]),
    "union with a container": (f32["n"] | tuple[f32["n"], ...], [three, (three,)], [((three, ints), "")]),
    "Union with a class": (Union[jax.Array, f32[{"a"}]], [ints, zeros(a=2)], [(zeros(b=2), "should be Array | f32[{'a'}], but is f32[]{b:2}")]),  # noqa: UP007
    "union with float": (f32["n"] | float, [three, 1.0, 1], [("x", ""), (1j, "")]),
    "union with a callable": (f32["n"] | Callable[[int], int], [three, len], [(ints, "")]),
    "union with a class without arrays": (f32["n"] | Options, [three, Options()], [(ints, "f32['n'] | Options"), (None, "")]),
    "union with classes with arrays": (
        Pair | Batch | None,
        [Pair(three), {"image": three}, None],
        [(Pair(ints), "For f32['n']: the dtype is i32"), ({"image": ints}, ""), (three, "")],
    ),
    "union with a protocol": (f32["n"] | Anything, [three, ints, None], []),
    "union with anything": (f32["n"] | Any, [three, ints, "x"], []),
    "union with a literal": (f32["n"] | Literal["x"], [three, ints, "x"], []),
    "Annotated": (Annotated[nx.NamedArray, f32["n", {"b"}]], [zeros((3,), b=2)], [(three, "It lacks the axis 'b'.")]),
    "Annotated in a union": (
        Annotated[jax.Array, f32["n"]] | None,
        [three, None],
        [(ints, "is i32[3]. The dtype is i32, not f32."), ("x", "")],
    ),
    "Annotated classes in a union": (f32["n"] | Annotated[int, "doc"], [three, 3], [(ints, "The dtype is i32"), ("x", "")]),
    "Annotated, others": (Annotated[jax.Array, "doc", [1], f32["n"], f32[3]], [three], [(four, "should be f32[3]"), (ints, "f32['n']")]),
    "Annotated inside": (Annotated[list[f32["n"]], "doc"], [[three]], [([ints], "the value[0]")]),
    "NewType": (Scalar, [1.0], [(three, "should be f32[()]")]),
    "NamedTuple": (
        Pair,
        [Pair(three), Pair(three, three, "x")],
        [
            (Pair(three, four), "the value.b should be f32['n'] | None, but is f32[4]. Positional axis 0 has size 4, but n = 3 from the value.w."),
            ((three, None, 0), "should be Pair, but is of type tuple of length 3."),
        ],
    ),
    "dataclass": (
        list[Layer],
        [[], [Layer(zeros(**{"in": 3, "out": 4}), 5, Layer(zeros(**{"in": 3, "out": 4})))]],
        [
            ([Layer(zeros(**{"in": 3, "out": 4}), "", Layer(zeros(**{"in": 3, "out": 5})))], "the value[0].next.weight should be f32[{'in': 'i',"),
            ([None], "the value[0] should be Layer, but is None."),
        ],
    ),
    "TypedDict": (
        Batch,
        [{"image": three}, {"image": three, "label": ints}],
        [
            ({"image": three, "label": three}, "the value['label'] should be i32['n']"),
            ({"label": ints}, "should be Batch, but is of type dict of length 1. It lacks the key 'image'."),
            ([three], "should be Batch"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTAINERS)
def test_containers(case):
    annotation, good, bad = CONTAINERS[case]
    for value in good:
        assert matches(value, annotation)
        assert check(value, annotation) is value
    for value, text in bad:
        fails(lambda value=value: check(value, annotation), text)

        @checked
        def f(x: annotation) -> annotation:
            return x

        fails(lambda value=value: f(value), "f: argument x")


def test_what_is_not_checked():
    for annotation in (int, str, Layer.__class__, Any, T, list[int], tuple[int, ...], dict[str, Any], Callable, jax.Array):
        assert all(matches(value, annotation) for value in (three, 1, None, "x", [1]))
    assert matches(3, Plain)  # a class of someone else, whose annotations cannot be read

    def f(x: int, y: jax.Array) -> "str":
        return x

    assert checked(f) is f
    fails(lambda: check(three, "f32[3]"), "check: the annotation 'f32[3]' is a string. Write it without quotes.")
    fails(lambda: check([three], list["f32[3]"]), "is a string.")


def test_the_first_alternative_that_fits_binds():
    pair = tuple[f32["n"] | f32["m", "n"], f32["n"]]
    assert matches((three, three), pair)
    assert matches((jnp.zeros((2, 3), "float32"), three), pair)
    assert not matches((three, four), pair)
    sizes = {}
    assert not matches((three, ints), tuple[f32["n"], f32["n"]], sizes)
    assert sizes == {}
    assert matches((jnp.zeros((2, 3), "float32"), three), pair, sizes)
    assert sizes == {"m": 2, "n": 3}
    assert not matches(four, f32["n"], sizes)
    fails(lambda: check(four, f32["n"], sizes), "Positional axis 0 has size 4, but n = 3 from `sizes`.")
    assert matches((three, ints), Union[tuple[f32["n"], f32["n"]], tuple[f32["n"], i32["n"]]])  # noqa: UP007
    # To Python these two are equal, but they bind in another order.
    one, other = Union[f32["n", ...], f32[..., "n"]], Union[f32[..., "n"], f32["n", ...]]  # noqa: UP007
    x = jnp.zeros((2, 3), "float32")
    assert one == other
    assert [matches((x, three), tuple[u, f32["n"]]) for u in (one, other)] == [False, True]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement")
def test_type_statements():
    scope = {"f32": f32}
    exec("type Row = f32['n']\ntype Tree = Row | list[Tree] | dict[str, Tree]", scope)
    assert matches([three, {"a": three, "b": [three]}], scope["Tree"])
    assert not matches([three, {"a": three, "b": [ints]}], scope["Tree"])
    assert not matches([three, {"a": three, "b": [four]}], scope["Tree"])


def test_variables_from_an_enumeration():
    class Sizes(enum.StrEnum):
        N = "n"

    assert f32[Sizes.N] == f32["n"]
    assert matches((three, three), tuple[f32[Sizes.N], f32["n"]])
    assert not matches((three, four), tuple[f32[Sizes.N], f32["n"]])


# --- how the function is seen ---------------------------------------------------------------------------------------


def test_identity_of_the_function():
    def f(x: f32["n"], *, y: "f32['n']" = 1.0) -> f32["n"]:
        """Doc."""
        return x

    f.mark = 3
    g = checked(f)
    assert (g.__name__, g.__doc__, g.__module__, g.__qualname__, g.mark) == (f.__name__, "Doc.", __name__, f.__qualname__, 3)
    assert g.__wrapped__ is f
    assert inspect.signature(g) == inspect.signature(f)
    assert checked(g)(three, y=three) is three
    assert pickle.loads(pickle.dumps(module_level)) is module_level


@checked
def module_level(x: f32["n"]) -> f32["n"]:
    return x


def test_methods():
    class Model:
        @checked
        def plain(self, x: f32["n"]) -> f32["n"]:
            return x

        @checked
        @staticmethod
        def static(x: f32["n"]):
            return x

        @staticmethod
        @checked
        def static_inside(x: f32["n"]):
            return x

        @checked
        @classmethod
        def of_class(cls, x: f32["n"]):
            return cls

        @property
        @checked
        def value(self) -> f32["n"]:
            return ints

        def __call__(self, x: f32["n"]):
            return x

        def unchecked(self, x: f32["n"]):
            return x

    model = Model()
    assert model.plain(three) is three
    assert Model.of_class(three) is Model
    for method in (model.plain, model.static, Model.static, model.static_inside, model.of_class, checked(model.unchecked)):
        fails(lambda method=method: method(ints), f"Model.{method.__name__}: argument x should be f32['n'], but is i32[3]")
    fails(lambda: model.value, "Model.value: the result should be f32['n']")
    assert checked(model)(three) is three
    fails(lambda: checked(model)(ints), "Model: argument x should be f32['n']")


def test_partial_functions():
    def f(a: int, x: f32["n"], y: f32["n"] = None):
        return y

    partial = checked(functools.partial(f, 1, y=three))
    assert partial(three) is three
    fails(lambda: partial(ints), "f: argument x should be")
    fails(
        lambda: partial(four),
        "f: argument y should be f32['n'], but is f32[3]. Positional axis 0 has size 3, but n = 4 from argument x",
    )


def test_what_checked_refuses():
    async def f(x: f32["n"]):
        return x

    fails(lambda: checked(f), "checked: f is a coroutine function")
    fails(lambda: checked(Layer), "checked: the argument must be a function; got <class", "For a class, decorate its methods.")
    fails(lambda: checked(3), "checked: the argument must be a function; got 3.")


STRINGS = """
from __future__ import annotations
import dataclasses
from typing import TYPE_CHECKING
import namedax.typing as nt
from namedax.typing import checked, f32
if TYPE_CHECKING:
    from nowhere import Images, Logger

@checked
def f(x: f32["n"], y: Later | None = None) -> f32["n", "n"]:
    return x[:, None] * x

@checked
def images(x: Images) -> f32[()]:
    return x

def factory(size, unused):
    Row = f32[size]

    @checked(localns=locals())
    def g(x: Row, y: nt.f32[size, {"b"}] | None = None) -> Row:
        return x

    return g

def late():
    @checked
    def g(x: Row) -> Row:
        return x

    Row = f32[3]
    return (lambda: Row), g

class Model:
    Row = f32[3]

    @checked
    def method(self, x: Row, other: Model | None = None) -> Row:
        return x

@dataclasses.dataclass
class Later:
    w: f32["n"]

@dataclasses.dataclass
class Unreadable:
    w: f32["n"]
    log: Logger

@dataclasses.dataclass
class Foreign:
    log: Logger

@checked
def foreign(a: Foreign, c: f32[()] = 1.0):
    return a

@checked
def unreadable(a: Unreadable, c: f32[()] = 1.0):
    return a
"""


def test_annotations_that_are_strings(monkeypatch):
    module = types.ModuleType("strings")
    monkeypatch.setitem(sys.modules, "strings", module)
    scope = vars(module)
    exec(STRINGS, scope)
    f, images = scope["f"], scope["images"]
    assert f(three).shape == (3, 3)
    assert f(three, scope["Later"](three)).shape == (3, 3)
    fails(lambda: f(three, scope["Later"](four)), "f: argument y.w should be f32['n'], but is f32[4].", "n = 3 from argument x")
    assert fails(lambda: images(three)) == (
        "checked: an annotation of images cannot be evaluated: NameError: name 'Images' is not defined. Import or define the "
        "name so that it exists at run time (not under TYPE_CHECKING), pass names of an enclosing function, as in "
        "@checked(localns=locals()), or remove the annotation."
    )
    g = scope["factory"](3, None)
    assert g(three, zeros((3,), b=2)) is three
    fails(lambda: g(four), "g: argument x should be f32[3]")
    fails(lambda: g(three, four), "argument y should be f32[(3,), {'b'}] | None")
    fails(lambda: scope["late"]()[1](three), "an annotation of g cannot be evaluated: NameError: name 'Row' is not defined")
    model = scope["Model"]()
    assert model.method(three, model) is three
    fails(lambda: model.method(four), "Model.method: argument x should be f32[3]")
    value = scope["Foreign"](None)
    assert scope["foreign"](value) is value
    fails(
        lambda: scope["unreadable"](scope["Unreadable"](three, None)),
        "the annotations of class Unreadable cannot be evaluated",
    )
    header = "from __future__ import annotations\nfrom namedax.typing import checked, f32\n@checked\n"
    fails(lambda: exec(header + "def f(x: f32['n m']): ...", {}), "f32[...]: 'n m' is not the size of a positional axis")
    fails(lambda: exec(header + "def f(x: (1, 2)): ...", {}), "checked: an annotation of f cannot be evaluated: TypeError")


def test_the_scope_of_the_caller_is_not_kept():
    import weakref

    class Local:
        pass

    def make():
        big, Row = Local(), f32[3]

        @checked(localns=locals())
        def f(x: "Row", y: "Later" = None):
            return x

        @checked(localns=locals())
        def g(x: "Row"):
            return x

        return f, g, weakref.ref(big)

    f, g, big = make()
    assert big() is None
    assert g(three) is three
    fails(lambda: g(four), "g: argument x should be f32[3]")
    fails(lambda: f(three), "name 'Later' is not defined")


# --- transformations ------------------------------------------------------------------------------------------------


def norm(x: real["n", {"a"}], w: real[{"a"}], steps: int = 2) -> tuple[real["n"], real[()]]:
    y = nx.sum(x * w, "a")
    for _ in range(steps):
        y = y * y
    return y, nx.mean(x * w, ("a", 0))


def test_no_operation_is_added():
    x, w = nx.named(array(5, 3), [None, "a"]), nx.named(array(3), ["a"])
    want = jax.make_jaxpr(norm, static_argnums=2)(x, w, 3)
    have = jax.make_jaxpr(checked(norm), static_argnums=2)(x, w, 3)
    assert str(have) == str(want)
    assert len(have.eqns) > 3


def test_under_transformations():
    f = checked(norm)
    x, w = nx.named(array(5, 3), [None, "a"]), nx.named(array(3, seed=1), ["a"])
    plain = np.asarray(x.data) * np.asarray(w.data)
    np.testing.assert_allclose(jax.jit(f)(x, w)[1], plain.mean(), rtol=1e-5)
    grad = jax.jit(jax.grad(lambda x, w: f(x, w)[1], argnums=1))(x, w)
    np.testing.assert_allclose(grad.data, np.asarray(x.data).mean(0) / 3, rtol=1e-5)
    calls = []

    @checked
    def row(v: real["m"], scale: real[()], named: real[{"a": "m"}] | None = None) -> real["m"]:
        calls.append(v.shape)
        return v * scale

    xs = array(5, 3)
    np.testing.assert_allclose(jax.vmap(row, (0, None))(xs, 2.0), 2 * np.asarray(xs), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(row, (0, 0)))(xs, array(5)), xs * array(5)[:, None], rtol=1e-6)
    np.testing.assert_allclose(jax.lax.map(lambda v: row(v, 1.0), xs), xs)
    assert set(calls) == {(3,)}
    fails(lambda: row(xs, 2.0), f"row: argument v should be {REAL}['m'], but is {REAL}[5,3]. It has 2 positional axes, not 1.")
    fails(lambda: jax.jit(row)(xs, 2.0), "It has 2 positional axes, not 1.")
    fails(lambda: jax.vmap(row, (0, None))(xs, xs), "argument scale should be")
    fails(lambda: jax.jit(row)(xs[0], 1.0, w[{"a": slice(2)}]), "Axis 'a' has size 2, but m = 3 from argument v.")
    # A leading positional axis of a named array comes and goes with vmap.
    both = nx.named(array(4, 5, 3), [None, None, "a"])
    assert jax.vmap(f, (0, None))(both, w)[0].shape == (4, 5)
    fails(lambda: f(both, w), "norm: argument x should be")


@pytest.mark.parametrize("placement", FEW, ids=str)
def test_in_mapped_bodies(placement):
    seen = []

    @checked
    def inner(x: real["n", {"a": "a", "b": None}]) -> real["n", {"b": 4}]:
        return nx.sum(x * x, "a")

    @checked
    def body(x: real[3, {"a": 8, "b": "b"}], y: real[{"b": "b", ...: ...}]) -> real["n", {"b": 4, "a": 8}]:
        seen.append(dict(x.named_shape))
        sizes = {}
        check(y, real[{"b": "b"}], sizes)
        assert sizes == {"b": 4}
        return x * inner(x) * y

    check_program(
        body,
        lambda x, y: x * (x * x).sum(0)[None] * y[None, :, None],
        (array(8, 4, 3), array(4)),
        (["a", "b", None], ["b"]),
        ["a", "b", None],
        placement,
    )
    assert all(names == {"a": 8, "b": 4} for names in seen)
    assert seen


def test_errors_in_mapped_bodies_show_the_placement():
    mesh = jax.make_mesh((4, 2), ("x", "y"))

    @checked
    def body(x: real[{"a": 4}]) -> real[{"a"}]:
        return x

    mapped = nx.xmap(body, ["a", None], ["a", None], axis_resources={"a": "x"}, mesh=mesh)
    fails(
        lambda: mapped(array(8, 3)),
        f"body: argument x should be {REAL}[{{'a': 4}}], but is {REAL}[3]{{a:8@x}}. It has 1 positional axis, not 0.",
        "Axis 'a' has size 8, not 4.",
    )


def test_nmap_and_programs_of_others():
    @checked
    def solve(a: real["n", "n"], b: real["n"]) -> real["n"]:
        return jnp.linalg.solve(a, b)

    a, b = nx.named(array(5, 3, 3), ["u", ...]), nx.named(array(4, 3), ["v", ...])
    assert nx.nmap(solve)(a, b).named_shape == {"u": 5, "v": 4}
    fails(
        lambda: nx.nmap(solve)(a, array(4)),
        "solve: argument b should be",
        "Positional axis 0 has size 4, but n = 3 from argument a",
    )

    @checked
    def keys(k: key[{"batch": "b"}], n: whole[()]) -> any_[{"batch": "b"}]:
        return k

    assert keys(nx.named(jax.random.split(jax.random.key(0), 3), ["batch"]), 3).named_shape == {"batch": 3}
    jitted = jax.jit(keys)
    assert jitted(nx.named(jax.random.split(jax.random.key(0), 3), ["batch"]), 3).named_shape == {"batch": 3}


# The names of this package as a static checker sees them, without the minute that it takes to read JAX.
STATIC = """
from typing import Annotated, Any, Callable, TypeVar, reveal_type
class NamedArray: ...
F = TypeVar("F", bound=Callable[..., Any])
def checked(fun: F) -> F: return fun
f32: Any = object()

n = "n"
Hidden = Annotated[NamedArray, f32["n", {"batch": 20, ...: ...}]]

@checked
def short(x: f32[(5,), {"batch": 20}], y: f32[n, {"batch", "k"}], z: f32[..., {"batch"}] | None, u: f32[()]) -> f32[n, ..., 3]:
    return reveal_type(x)

@checked
def long(x: Annotated[NamedArray, f32["n", {"batch", "k"}]], y: Hidden, k: int = 0) -> tuple[Hidden, Hidden]:
    return y, x

reveal_type(long)
"""


def test_static_checkers(tmp_path):
    hints = typing.get_type_hints(sys.modules[nt.ArrayType.__module__])  # where the element types are
    assert all(hints[name] is Any for name in (*NAMED, *KINDS, "key"))
    hints = typing.get_type_hints(typing.get_overloads(inspect.unwrap(checked))[0])
    assert hints["fun"] is hints["return"]
    assert isinstance(hints["fun"], TypeVar)
    (tmp_path / "program.py").write_text(STATIC)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path}",
        str(tmp_path / "program.py"),
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    reports = [line.partition(": ")[2] for line in lines if "program.py:" in line]
    assert reports == [
        'note: Revealed type is "Any"',
        'note: Revealed type is "def (x: program.NamedArray, y: program.NamedArray, k: int =) -> '
        'tuple[program.NamedArray, program.NamedArray]"',
    ]
