"""Integers as arguments: shifts, indices, counts and positions, from whatever they come, and what is not an integer.

The oracles are NumPy's functions.
"""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisResourceError,
    PositionalAxisError,
)
from tests import make
from tests.harness import make_mesh, said

X = np.random.default_rng(3).normal(size=(8, 12, 5)).astype("float32")
N = nx.named(make.asarray(X), ["a", "b", None])
PLACES = [{}, {"a": "x"}, {"a": "x", "b": "y"}]


def values(x, names=("a", "b", ...)):
    return np.asarray(nx.positional(x, list(names)) if isinstance(x, nx.NamedArray) else x)


def mapped(resources, function, *args, kind="auto"):
    return nx.xmap(function, axis_resources=resources, mesh=make_mesh((4, 2), kind))(*args)


# --- one for every axis ---------------------------------------------------------------------------------------------

SEQUENCES = [
    tuple,
    list,
    np.array,
    jnp.array,
    lambda v: np.array(v, np.int8),
    lambda v: tuple(map(np.array, v)),
    lambda v: list(map(jnp.int32, v)),
]


@pytest.mark.full(3)
@pytest.mark.fast(3)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_shifts(sequence):
    shifts = (3, -2)
    want = np.roll(X, shifts, (0, 1))
    for resources in PLACES if sequence in (tuple, jnp.array) else PLACES[:1]:
        have = mapped(resources, lambda x: nx.roll(x, sequence(shifts), ("a", "b")), N)
        np.testing.assert_array_equal(values(have), want)
    traced = jax.jit(lambda x, s: nx.roll(x, s, ("a", "b")))(N, jnp.asarray(shifts))
    np.testing.assert_array_equal(values(traced), want)
    np.testing.assert_array_equal(nx.numpy.roll(jnp.asarray(X), sequence(shifts), (0, 1)), want)
    np.testing.assert_array_equal(values(nx.roll(N, sequence((1, 2, 3)), ("a", 0, "b"))), np.roll(X, (1, 2, 3), (0, 2, 1)))
    np.testing.assert_array_equal(nx.numpy.roll(jnp.asarray(X), sequence(shifts)), np.roll(X, shifts))


@pytest.mark.fast(0)
def test_the_gradient_through_shifts_in_an_array():
    c = np.random.default_rng(4).normal(size=X.shape).astype("float32")
    weights = nx.named(jnp.asarray(c), ["a", "b", None])
    for resources in PLACES:
        loss = nx.xmap(
            lambda x, w: nx.sum(nx.roll(x, jnp.array([1, 5]), ("a", "b")) * w, ("a", "b", 0)),
            axis_resources=resources,
            mesh=make_mesh((4, 2)),
        )
        np.testing.assert_allclose(values(jax.grad(loss)(N, weights)), np.roll(c, (-1, -5), (0, 1)), rtol=1e-6)


def test_single_shifts():
    for shift in (2, np.int16(2), np.array(2), jnp.array(2), [2], np.array([2]), make.array([2])):
        np.testing.assert_array_equal(values(nx.roll(N, shift, "a")), np.roll(X, 2, 0))
        np.testing.assert_array_equal(values(nx.roll(N, shift, ("a", "b"))), np.roll(X, (2, 2), (0, 1)))
        np.testing.assert_array_equal(values(mapped({"a": "x"}, lambda x, s=shift: nx.roll(x, s, "a"), N)), np.roll(X, 2, 0))
    each = nx.named(make.arange(8), ["a"])
    want = np.stack([np.roll(X[i], i, 1) for i in range(8)])
    np.testing.assert_array_equal(values(nx.roll(N, each, 0)), want)


@pytest.mark.parametrize("sequence", [tuple, list, np.array, jnp.array])
def test_widths_cuts_and_counts(sequence):
    np.testing.assert_array_equal(
        values(nx.pad(N, {"a": sequence((1, 2)), 0: sequence((0, 3))})), np.pad(X, ((1, 2), (0, 0), (0, 3)))
    )
    np.testing.assert_array_equal(values(nx.pad(N, {"a": sequence((2,))[0]})), np.pad(X, ((2, 2), (0, 0), (0, 0))))
    for have, want in zip(nx.split(N, sequence((2, 5)), "b"), np.split(X, (2, 5), 1), strict=True):
        np.testing.assert_array_equal(values(have), want)
    for have, want in zip(nx.split(N, sequence((3,))[0], "b"), np.split(X, 3, 1), strict=True):
        np.testing.assert_array_equal(values(have), want)
    for have, want in zip(nx.split(N, sequence((2, 3)), 0), np.split(X, (2, 3), 2), strict=True):
        np.testing.assert_array_equal(values(have), want)
    counts = [0, 2, 1, 1, 0, 3, 1, 2]
    np.testing.assert_array_equal(values(nx.numpy.repeat(N, sequence(counts), "a")), np.repeat(X, counts, 0))
    np.testing.assert_array_equal(values(nx.numpy.repeat(N, sequence((3,))[0], "a")), np.repeat(X, 3, 0))
    np.testing.assert_array_equal(values(nx.numpy.repeat(N, sequence([1, 0, 2, 1, 1]), 0)), np.repeat(X, [1, 0, 2, 1, 1], 2))
    np.testing.assert_array_equal(values(nx.numpy.tile(N, {"a": sequence((2,))[0]})), np.tile(X, (2, 1, 1)))


# --- indices of small types -----------------------------------------------------------------------------------------

LONG = np.random.default_rng(5).normal(size=(304, 2)).astype("float32")


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_indices_of_small_types(dtype, kind):
    numbers = np.array([5, 120, 0, 7, 99, 1, 2, 3] if dtype.startswith("u") else [-1, 120, -128, 0, -99, 5, -2, 1], dtype)
    at = numbers.astype(int)
    x = nx.named(jnp.asarray(LONG), ["n", None])
    flat = nx.named(jnp.asarray(LONG[:, 0]), ["n"])
    i, own = nx.named(jnp.asarray(numbers), ["q"]), nx.named(jnp.asarray(numbers), ["n"])
    hit = np.zeros(304, "float32")
    np.add.at(hit, at, np.arange(8, dtype="float32"))
    cases = {
        "take": (lambda x, i: nx.take(x, i, "n"), (x, i), LONG[at], ["q", None]),
        "take, clip": (lambda x, i: nx.take(x, i, "n", mode="clip"), (x, i), LONG[np.clip(at, 0, 303)], ["q", None]),
        "take, wrap": (lambda x, i: nx.take(x, i, "n", mode="wrap"), (x, i), LONG[at % 304], ["q", None]),
        "getitem": (lambda x, i: x["n", i], (x, i), LONG[at], ["q", None]),
        "take_along_axis": (lambda x, i: nx.take_along_axis(x, i, "n"), (flat, i), LONG[at, 0], ["q"]),
        "at": (lambda x, i: (0 * x).at["n", numbers].add(jnp.arange(8.0)), (flat, i), hit, ["n"]),
    }

    def together(given):
        return {name: function(*given[name]) for name, (function, *_) in cases.items()}

    given = {name: args for name, (_, args, *_) in cases.items()}
    for resources in ({"n": "x"}, {"n": "x", "q": "y"}):
        have = mapped(resources, together, given, kind=kind)
        for name, (*_, want, names) in cases.items():
            np.testing.assert_array_equal(values(have[name], names), want, err_msg=f"{name} {resources}")
    if kind == "auto":  # where nothing is mapped, along positions, and along the axis that is read
        for name, (function, args, want, names) in cases.items():
            np.testing.assert_array_equal(values(function(*args), names), want, err_msg=name)
        np.testing.assert_array_equal(values(nx.take(flat, own, "n"), ["n"]), LONG[at, 0])
        batch = nx.named(jnp.asarray(LONG.T), ["b", None])
        for have in (
            batch[jnp.asarray(numbers)],
            nx.take(batch, numbers, 0),
            nx.take_along_axis(batch, jnp.asarray(numbers), 0),
        ):
            np.testing.assert_array_equal(values(have, ["b", None]), LONG.T[:, at])
        np.testing.assert_array_equal(nx.take(jnp.asarray(LONG), numbers, 0), LONG[at])
        np.testing.assert_array_equal(
            values((0 * batch).at[numbers[:3]].set(1.0), ["b", None])[0], np.isin(np.arange(304), at[:3] % 304)
        )


# --- what is not an integer -----------------------------------------------------------------------------------------

K = nx.named(make.arange(8.0), ["k"])
T = nx.named(make.array(np.arange(16.0).reshape(8, 2)), ["k", "m"])

NOT_INTEGERS = {
    "roll": (lambda v: nx.roll(K, v, "k"), "roll: shift must be a static integer, got {}."),
    "roll by several": (lambda v: nx.roll(T, (1, v), ("k", "m")), "roll: shift must be a static integer, got {}"),
    "roll, flattened": (lambda v: nx.roll(jnp.ones(3), v), "roll: shift must be a static integer, got {}"),
    "shift": (lambda v: nx.shift(K, v, "k"), "shift: offset must be a static integer, got {}"),
    "halo": (lambda v: nx.halo(K, "k", v), "halo: before must be a static integer of at least 0, got {}"),
    "pad": (lambda v: nx.pad(K, {"k": v}), "pad: the width before 'k' must be a static integer of at least 0, got {}"),
    "pad by a pair": (lambda v: nx.pad(K, {"k": (1, v)}), "pad: the width after 'k' must be a static integer of at least 0, got {}"),
    "diff": (lambda v: nx.diff(K, v, "k"), "diff: n must be a static integer of at least 0, got {}"),
    "split": (lambda v: nx.split(K, v, "k"), "split: indices_or_sections must be a static integer, got {}"),
    "split at": (lambda v: nx.split(K, [1, v], "k"), r"split: indices_or_sections[1] must be a static integer, got {}"),
    "split, positions": (lambda v: nx.split(jnp.ones(4), [v], 0), r"split: indices_or_sections[0] must be a static integer, got {}"),
    "tile": (lambda v: nx.tile(K, {"k": v}), "tile: reps['k'] must be a static integer of at least 0, got {}"),
    "repeat": (lambda v: nx.numpy.repeat(K, v, "k"), "repeat: repeats must be a static integer of at least 0, got {}"),
    "repeat, positions": (
        lambda v: nx.numpy.repeat(nx.named(jnp.ones((2, 3)), ["q", None]), v, 0),
        "repeat: repeats must be a static integer of at least 0, got {}",
    ),
    "top_k": (lambda v: nx.top_k(K, v, axis="k"), "top_k: k must be a static integer, got {}"),
    "partition": (lambda v: nx.numpy.partition(K, v, "k"), "partition: kth must be a static integer, got {}"),
    "bincount": (lambda v: nx.bincount(jnp.arange(3), length=v), "bincount: length must be a static integer of at least 0, got {}"),
    "histogram": (lambda v: nx.numpy.histogram(K, v, axis="k"), "histogram: bins must be a static integer of at least 1, got {}"),
    "segment_sum": (
        lambda v: nx.segment_sum(K, nx.named(jnp.arange(8), ["k"]), axis="k", num_segments=v, out_axis="s"),
        "segment_sum: num_segments must be a static integer of at least 0, got {}",
    ),
    "ppermute": (lambda v: nx.lax.ppermute(K, "k", [(v, 1)]), "ppermute: a source in perm must be a static integer, got {}"),
    "pshuffle": (lambda v: nx.lax.pshuffle(K, "k", [v, 1, 2]), "pshuffle: an element of perm must be a static integer, got {}"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_INTEGERS)
def test_what_is_not_an_integer(name):
    call, text = NOT_INTEGERS[name]
    for value in (1.5, 1.0, True, np.True_, np.float32(2)):
        with pytest.raises(ArgumentTypeError) as error:
            call(value)
        assert text.format(repr(value)) in str(error.value)


def test_integers_that_are_too_small():
    with pytest.raises(ArgumentError, match="segment_sum: num_segments must be a static integer of at least 0, got -1"):
        nx.segment_sum(K, nx.named(make.arange(8), ["k"]), axis="k", num_segments=-1, out_axis="s")
    with pytest.raises(ArgumentError, match="bincount: length must be a static integer of at least 0, got -1"):
        nx.bincount(make.arange(3), length=-1)
    with pytest.raises(ArgumentTypeError, match="roll: a shift must be one integer for each axis, got f32"):
        nx.roll(K, make.array([1.0]), "k")
    with pytest.raises(PositionalAxisError, match=r"roll: the shifts must be one integer for each axis, .* got i32\[1,1\]"):
        nx.roll(K, make.array([[1]]), "k")
    with pytest.raises(ArgumentTypeError, match="repeat: repeats must be integers, got"):
        nx.numpy.repeat(K, make.ones(8), "k")


# --- arguments that did nothing -------------------------------------------------------------------------------------


def test_an_axis_of_size_one_under_a_name_that_is_there():
    with pytest.raises(AxisNameError, match=r"expand_dims: .* already has the axis 'k'"):
        nx.lax.expand_dims(K, ("k",))
    assert nx.lax.expand_dims(K, ("new", 0)).dims == ("new", "k", None)
    assert nx.lax.expand_dims(jnp.ones((2, 3)), (1,)).shape == (2, 1, 3)


@pytest.mark.parametrize("resources", [{}, {"k": "x"}, {"k": "x", "q": "y"}, {"q": "x"}])
def test_no_differences_under_another_name(resources):
    have = mapped(resources, lambda k: nx.diff(k, 0, "k", out_axis="q"), K)
    assert have.dims == ("q",)
    np.testing.assert_array_equal(values(have, ["q"]), np.arange(8.0))
    np.testing.assert_array_equal(values(nx.diff(K, 0, "k"), ["k"]), np.arange(8.0))


def test_names_that_are_given_twice_or_nowhere():
    with pytest.raises(AxisNameError, match="dot: axis 'k' appears twice in axis="):
        nx.dot(T, T, ("k", "k"))
    mesh = make_mesh((4, 2))
    with pytest.raises(
        AxisNotFoundError, match=r"shard: no axis 'q' in f32\[\]\{k:8\}; its named axes are 'k'. Correct the name or remove"
    ):
        nx.shard(K, {"k": "x", "q": "y"}, mesh)
    assert nx.shard({"k": K}, {"k": "x", "q": "y"}, mesh)["k"].sharding.spec == jax.sharding.PartitionSpec("x")
    with pytest.raises(
        AxisResourceError,
        match=r"xmap: axis_sizes gives 'bacth' the size 4, but no value in .* has an axis 'bacth'.*Did you mean 'batch'",
    ):
        nx.xmap(lambda x: 2 * x, ["batch"], ["batch"], axis_sizes={"bacth": 4})(make.ones(4))
    asked = nx.xmap(lambda x: x * nx.lax.axis_size("b"), ["a"], ["a"], axis_sizes={"b": 4})(make.ones(2))
    np.testing.assert_array_equal(asked, [4, 4])


# --- numbers that JAX's types do not hold -------------------------------------------------------------------------------

I = nx.named(make.arange(3), ["k"])


def reflected(function):
    return lambda x, v: function(v, x)


OPERATORS = "add sub mul floordiv mod truediv pow eq ne lt le gt ge".split()
WITH_NUMBERS = {
    **{name: getattr(operator, name) for name in OPERATORS},
    **{f"{name} reflected": reflected(getattr(operator, name)) for name in OPERATORS},
    **{name: getattr(nx, name) for name in "add minimum equal arctan2".split()},
    "isclose": lambda x, v: nx.isclose(x, v, atol=1),
    "where": lambda x, v: nx.where(x > 0, x, v),
    "clip": lambda x, v: nx.clip(x, v, None),
    "clip by keyword": lambda x, v: nx.numpy.clip(x, max=v),
    "nan_to_num": lambda x, v: nx.nan_to_num(x, nan=v),
    "full": lambda x, v: nx.full((), v, named_shape={"k": 3}),
    "full of a type": lambda x, v: nx.full((), v, jnp.int32, named_shape={"k": 3}),
    "full_like": lambda x, v: nx.full_like(x, v),
    "at[...].set": lambda x, v: x.at["k", 0].set(v),
    "at[...].add": lambda x, v: x.at["k", 0].add(v),
    "at[...].get": lambda x, v: x.at["k", jnp.array([5])].get(mode="fill", fill_value=v),
    "take": lambda x, v: nx.take(x, jnp.array([5]), "k", mode="fill", fill_value=v),
    "take_along_axis": lambda x, v: nx.take_along_axis(x, jnp.array([5]), "k", mode="fill", fill_value=v),
    "pad": lambda x, v: nx.pad(x, {"k": (1, 1)}, constant_values=v),
    "shift": lambda x, v: nx.shift(x, 1, "k", v),
    "halo": lambda x, v: nx.halo(x, "k", 1, 1, mode="constant", fill_value=v, out_axis={"k": "w"}),
    "max": lambda x, v: nx.max(x, "k", initial=v),
    "dot": lambda x, v: nx.dot(x, nx.named(np.full(3, v), ["k"]), "k"),
    "lifted": lambda x, v: nx.nmap(jnp.add)(x, v),
    "jit": lambda x, v: jax.jit(lambda y: y + v)(x),
}
TOO_LARGE = {"int64": np.int64(2**40), "float64": np.float64(1e300)}


@pytest.mark.parametrize("op", WITH_NUMBERS)
def test_a_number_that_the_types_of_jax_do_not_hold(op):
    def of(value, x=I):
        with jax.enable_x64(False), pytest.raises(ArgumentError) as error:
            WITH_NUMBERS[op](x, value)
        assert "1099511627776" in str(error.value) or "beyond 3.4e+38" in str(error.value) or "i64[3]" in str(error.value)
        return said(error.value)

    text = of(TOO_LARGE["int64"])
    assert text.partition(": ")[0] in {op.split()[0], *_CALLED.get(op.split()[0], ())}
    of(TOO_LARGE["float64"], I.astype("float32"))
    if op not in ("pow", "dot"):  # as an exponent Python's integers are exact
        of(2**40)
    if op in ("add", "add reflected", "where", "take", "full", "at[...].set", "max", "lifted"):
        mapped = nx.xmap(lambda x: WITH_NUMBERS[op](x, TOO_LARGE["int64"]), axis_resources={"k": "x"}, mesh=make_mesh((1,)))
        with jax.enable_x64(False), pytest.raises(ArgumentError):
            mapped(I)


# What an operator is called as a function, and which function does the work of another.
_CALLED = {
    **{
        "sub": ["subtract"],
        "mul": ["multiply"],
        "floordiv": ["floor_divide"],
        "truediv": ["true_divide", "divide"],
        "pow": ["power"],
    },
    **{"eq": ["equal"], "ne": ["not_equal"], "lt": ["less", "greater"], "le": ["less_equal", "greater_equal"]},
    **{"gt": ["greater", "less"], "ge": ["greater_equal", "less_equal"], "mod": ["remainder"], "dot": ["named"]},
    **{"jit": ["add"], "lifted": ["nmap(add)"]},
}


def test_messages_for_numbers_out_of_range():
    with jax.enable_x64(False):
        wider = (
            "Enable 64-bit types with jax.config.update('jax_enable_x64', True), or change the dtype or the unit, for example with "
            "array.astype('float32')."
        )
        for call, text in (
            (
                lambda: I + np.int64(2**40),
                "add: the integer 1099511627776 does not fit; JAX holds integers from -2147483648 to 2147483647 while 64-bit types are "
                "off. " + wider,
            ),
            (
                lambda: I * 2**40,
                "multiply: 1099511627776 is out of range for int32, from -2147483648 to 2147483647 while 64-bit types are off. "
                + wider,
            ),
            (
                lambda: I * np.array([1.0, np.nan, -1e300])[:, None],
                "multiply: f64[3,1] has numbers beyond 3.4e+38, the largest that JAX holds while 64-bit types are off; it would become "
                "infinite. " + wider,
            ),
            (
                lambda: nx.full((), 300, jnp.uint8, named_shape={"k": 2}),
                "full: fill_value: 300 is out of range for uint8, from 0 to 255. Give the array a dtype that holds it.",
            ),
        ):
            with pytest.raises(ArgumentError) as error:
                call()
            assert said(error.value) == text


def test_numbers_that_the_types_of_jax_hold():
    largest = np.finfo(np.float32).max
    with jax.enable_x64(False):
        for value in (
            np.int64(7),
            np.uint64(7),
            np.float64(largest),
            np.float64(np.inf),
            np.float64(np.nan),
            np.complex128(1 + 1e30j),
        ):
            have = nx.positional(I.astype("float32") + value, ["k"])
            np.testing.assert_array_equal(have, jnp.arange(3, dtype="float32") + value)
        ends = np.array([np.inf, -np.inf, np.nan, 1.0])
        np.testing.assert_array_equal(nx.positional(nx.named(ends, ["k"]), ["k"]), ends.astype("float32"))
    with jax.enable_x64(True):
        wide = nx.named(jnp.arange(3), ["k"])
        np.testing.assert_array_equal((wide + np.int64(2**40)).data, np.arange(3) + 2**40)
        np.testing.assert_array_equal((wide * np.float64(1e300)).data, np.arange(3) * 1e300)
