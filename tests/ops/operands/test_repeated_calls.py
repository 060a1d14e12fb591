"""Repeated eager calls with the same functions: they trace and compile nothing, keep no memory, and never take the program of another function.

`jax.lax` is the model: a function is known by its identity, so that closures of other values are other functions, and a function is not traced again
when a value that it reads changes.
"""

import functools
import gc
import tracemalloc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make

X = nx.named(make.array(np.arange(32.0).reshape(8, 4) / 7), ["t", "k"])
C = nx.named(make.array([0.5, 1.0, 2.0, 4.0]), ["k"])
V = nx.named(make.array(np.arange(12.0).reshape(4, 3)), ["k", None])
INDICES = nx.named(make.array([2, 0, 1, 2]), ["k"])
KEY = make.key(3)
TRUE, ONE = make.array(True), make.array(1)


def up(a):
    return a + 1


def down(a):
    return a - 2


def double(a):
    return 2 * a


def add(a, b):
    return a + b


def step(carry, entry):
    return carry + entry, carry * entry


def indexed(i, carry):
    return carry + i


def is_small(carry):
    return nx.all(carry < 9, "k")


def each_is_small(carry):
    return carry < 9


def scaled(weight, tokens):
    return weight * tokens


BRANCHES = [up, down]
RAGGED = make.array(np.arange(12.0).reshape(2, 3, 2))
RAGGED_DIMENSIONS = jax.lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
HE_NORMAL = nx.nn.initializers.he_normal(in_axis="i", out_axis="o")
TOKENS = nx.named(X.data, ["t", "f"])
WEIGHTS = nx.named(make.array([1.0, 2.0]), ["expert"])


@functools.cache
def routing():
    return nx.nn.top_k_routing(nx.named(X.data[:, :2], ["t", "expert"]), "expert", 1)


MAPPED, LIFTED = nx.vmap(double, "t", "t"), nx.nmap(jnp.cumsum)

# Each call takes the same functions at every time.
CALLS = {
    "scan": lambda: nx.scan(step, C, X, axis="t"),
    "scan in reverse": lambda: nx.scan(step, C, X, axis="t", reverse=True),
    "lax.scan": lambda: nx.lax.scan(step, C, X, axis="t"),
    "fold": lambda: nx.fold(add, C, X, axis="t"),
    "map": lambda: nx.map(double, X, axis="t"),
    "associative_scan": lambda: nx.associative_scan(add, X, axis="t"),
    "cond": lambda: nx.cond(TRUE, up, down, C),
    "cond of a bool": lambda: nx.cond(True, up, down, C),
    "cond by name": lambda: nx.cond(C > 1, up, down, C),
    "lax.cond": lambda: nx.lax.cond(TRUE, up, down, C),
    "switch": lambda: nx.switch(ONE, BRANCHES, C),
    "switch of an integer": lambda: nx.switch(1, BRANCHES, C),
    "switch by name": lambda: nx.switch(INDICES, BRANCHES, C),
    "while_loop": lambda: nx.while_loop(is_small, up, C),
    "while_loop by name": lambda: nx.while_loop(each_is_small, up, C),
    "fori_loop": lambda: nx.fori_loop(0, 3, indexed, C),
    "nmap": lambda: nx.nmap(double)(C),
    "nmap over names": lambda: LIFTED(V),
    "vmap": lambda: nx.vmap(double, "t", "t")(X),
    "vmap made once": lambda: MAPPED(X),
    "lax.tanh": lambda: nx.lax.tanh(X),
    "lax.add": lambda: nx.lax.add(X, X),
    "lax.top_k": lambda: nx.lax.top_k(X, 2, axis="k"),
    "numpy.cumsum": lambda: nx.numpy.cumsum(X, "t"),
    "numpy.polyval": lambda: nx.numpy.polyval(jnp.array([1.0, 2.0]), X),
    "numpy.fft.fft": lambda: nx.numpy.fft.fft(X, axis="t"),
    "numpy.linalg.norm": lambda: nx.numpy.linalg.norm(V, axis=0),
    "scipy.special.erf": lambda: nx.scipy.special.erf(X),
    "scipy.stats.norm.logpdf": lambda: nx.scipy.stats.norm.logpdf(X),
    "random.normal": lambda: nx.random.normal(KEY, named_shape={"k": 4}),
    "random.permutation": lambda: nx.random.permutation(KEY, X, axis="t"),
    "random.categorical": lambda: nx.random.categorical(KEY, X, axis="k"),
    "arange": lambda: nx.arange(5, axis="n"),
    "linspace": lambda: nx.linspace(0.0, 1.0, 5, axis="n"),
    "zeros": lambda: nx.zeros(named_shape={"n": 5}),
    "zeros_like": lambda: nx.zeros_like(X),
    "full": lambda: nx.full((), 2.0, named_shape={"n": 5}),
    "nn.one_hot": lambda: nx.nn.one_hot(INDICES, 5, axis="n"),
    "numpy.eye": lambda: nx.numpy.eye(3, dtype=int),
    "numpy.tril_indices": lambda: nx.numpy.tril_indices(4),
    "numpy.hanning": lambda: nx.numpy.hanning(5),
    "numpy.fft.fftfreq": lambda: nx.numpy.fft.fftfreq(6, axis="f"),
    "lax.broadcasted_iota": lambda: nx.lax.broadcasted_iota(jnp.int32, (2, 3), 1),
    "lax.ragged_dot_general": lambda: nx.lax.ragged_dot_general(V, RAGGED, jnp.array([1, 2]), RAGGED_DIMENSIONS),
    "diff": lambda: nx.diff(X, axis="t", out_axis="d"),
    "quantile": lambda: nx.quantile(X, 0.3, axis="t"),
    "positional": lambda: nx.positional(X, ["k", "t"]),
    "take": lambda: nx.take(X, INDICES, "k"),
    "stack": lambda: nx.stack([X, X], "n"),
    "sort": lambda: nx.sort(X, "t"),
    "nanmean": lambda: nx.nanmean(X, "t"),
    "gradient": lambda: nx.gradient(X, axis="t"),
    "lax.erf": lambda: nx.lax.erf(X),
    "initializers.he_normal": lambda: HE_NORMAL(KEY, named_shape={"i": 3, "o": 4}),
    "nn.binary_cross_entropy": lambda: nx.nn.binary_cross_entropy(X, X > 1),
    "nn.standardize": lambda: nx.nn.standardize(X, "t"),
    "random.split": lambda: nx.random.split(KEY, named_shape={"k": 4}),
    "pipeline": lambda: nx.pipeline(add, C, X, axis="t", over="k"),
    "mixture_of_experts": lambda: nx.nn.mixture_of_experts(scaled, WEIGHTS, TOKENS, routing(), tokens="t"),
}
# The numbers of a call are operands of several kernels, so that a program could be for one call only.
WITH_NUMBERS = {
    "nonzero": lambda n: nx.nonzero(X > 1, axis="t", size=n, out_axis="found"),
    "prefix_mask": lambda n: nx.nn.prefix_mask({"q": 4, "k": 4}, n, axis=("q", "k")),
    "alibi_bias": lambda n: nx.nn.alibi_bias({"h": 2, "q": n, "k": 4}, axis=("h", "q", "k")),
}
# The calls that take functions, of a function `f` of one array.
WITH_FUNCTIONS = {
    "scan": lambda f: nx.scan(step_of(f), C, X, axis="t")[0],
    "fold": lambda f: nx.fold(fold_of(f), C, X, axis="t"),
    "map": lambda f: nx.map(f, X, axis="t"),
    "associative_scan": lambda f: nx.associative_scan(lambda a, b: f(a + b), X, axis="t"),
    "cond": lambda f: nx.cond(TRUE, f, down, C),
    "cond by name": lambda f: nx.cond(C > 1, f, down, C),
    "switch": lambda f: nx.switch(ONE, [down, f], C),
    "while_loop": lambda f: nx.while_loop(is_small, lambda c: f(c) + 1, C),
    "fori_loop": lambda f: nx.fori_loop(0, 3, lambda i, c: f(c) + i, C),
    "nmap": lambda f: nx.nmap(f)(C),
    "vmap": lambda f: nx.vmap(f, "t", "t")(X),
}


def step_of(f):
    return lambda carry, entry: (carry + f(entry), carry)


def fold_of(f):
    return lambda carry, entry: carry + f(entry)


@pytest.fixture
def events():
    """The names of what JAX traces, lowers and compiles."""
    seen = []

    def listen(name, duration, **_):
        if "compil" in name or "trac" in name:
            seen.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def repeat(call, times):
    for _ in range(times):
        result = call()
    jax.block_until_ready(result)


@pytest.mark.full(4)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_traces_and_compiles_nothing(name, events):
    repeat(CALLS[name], 2)
    events.clear()
    repeat(CALLS[name], 1)
    assert events == []


@pytest.mark.fast(0)
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_call_with_numbers_traces_and_compiles_nothing_after_some(name, events):
    call = WITH_NUMBERS[name]
    results = [call(n) for n in (2, 3)]
    repeat(lambda: call(2), 12)
    events.clear()
    again = [call(2), call(3)]
    np.testing.assert_array_equal(positional(again[0]), positional(results[0]))
    events.clear()
    repeat(lambda: call(2), 1)
    assert events == []
    np.testing.assert_array_equal(positional(again[1]), positional(results[1]))


def test_a_call_with_a_number_keeps_no_array():
    def calls():
        array = nx.named(jnp.ones((8, 4)), ["t", "k"])
        repeat(lambda: nx.max(array, "t", initial=0.25), 3)
        repeat(lambda: nx.shift(array, 1, "t", fill_value=2.5), 3)
        return weakref.ref(array.data)

    data = calls()
    gc.collect()
    assert data() is None


def test_an_initializer_of_another_zero_is_another_initializer():
    for value in (0.0, 0.0, 0.0, -0.0):
        have = nx.nn.initializers.constant(value)(KEY, named_shape={"k": 2})
        assert np.signbit(positional(have)).tolist() == [np.signbit(value)] * 2


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", CALLS)
def test_repeated_calls_keep_no_memory(name, events):
    call, number = CALLS[name], 1000
    repeat(call, 3)
    events.clear()
    repeat(call, 1)
    assert events == []  # or the others would take minutes
    gc.collect()
    tracemalloc.start()
    try:
        # The caches of JAX take entries of `nx.nmap`, which makes another function each time, up to their bounds of 4,096 entries. Tests
        # that ran before have filled them with entries that are not counted.
        repeat(call, 8000 if name == "nmap" else 1000)
        gc.collect()
        growth = []
        while len(growth) < 3:  # a table that doubles its size does so once, and a leak grows each time
            before = tracemalloc.get_traced_memory()[0]
            repeat(call, number)
            gc.collect()
            growth.append(tracemalloc.get_traced_memory()[0] - before)
            if growth[-1] < 16 * number:
                break
        assert min(growth) < 16 * number, growth
    finally:
        tracemalloc.stop()


@pytest.mark.full(4)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", WITH_FUNCTIONS)
def test_a_closure_of_another_value_is_another_function(name):
    def times(factor):
        return lambda a: a * factor

    call = WITH_FUNCTIONS[name]
    for factor in (3.0, -5.0, 7.0, 3.0):
        have = call(times(factor))
        want = jax.jit(lambda factor=factor: call(times(factor)))()  # traced anew
        np.testing.assert_allclose(positional(have), positional(want), rtol=1e-5)


@pytest.mark.full(10)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", WITH_FUNCTIONS)
def test_a_closure_over_arrays_gives_their_values(name):
    """Arrays of one type, in functions of one line: nothing but their values differs."""
    call, results = WITH_FUNCTIONS[name], []
    for shift in (1.0, 2.0):
        array = nx.named(shift * jnp.array([1.0, 0.5, 0.25, 0.125]), ["k"])
        if name == "nmap":
            array = shift
        results.append(positional(call(lambda a, array=array: a + array)))
    assert not np.allclose(*results)


# --- functions that change ---------------------------------------------------------------------------------------

FACTOR = 1.0


def global_times(a):
    return a * FACTOR


def stays(call, monkeypatch):
    """Return True for a function that reads a global, and for one that reads a closure, if its results stay the same when that changes."""
    cell = [1.0]

    def of_cell(a):
        return a * cell[0]

    found = []
    for f in (global_times, of_cell):
        results = []
        for factor in (1.0, 3.0):
            monkeypatch.setitem(globals(), "FACTOR", factor)
            cell[0] = factor
            results.append(positional(call(f)))
        found.append(np.array_equal(*results))
    return found


@functools.cache
def plus_one_of(f):
    return lambda c: f(c) + 1


@functools.cache
def indexed_of(f):
    return lambda i, c: f(c) + i


@functools.cache
def stable_step_of(f):
    return lambda carry, entry: (f(carry) + entry, carry)


def is_small_in_jax(carry):
    return jnp.all(carry < 9)


XS, CS = jnp.asarray(nx.positional(X, ["t", "k"])), jnp.asarray(nx.positional(C, ["k"]))
# With the function itself handed over, as JAX knows it by its identity.
CHANGING = {
    "cond": (lambda f: nx.cond(TRUE, f, down, C), lambda f: jax.lax.cond(TRUE, f, down, CS)),
    "switch": (lambda f: nx.switch(ONE, [down, f], C), lambda f: jax.lax.switch(ONE, [down, f], CS)),
    "while_loop": (
        lambda f: nx.while_loop(is_small, plus_one_of(f), C),
        lambda f: jax.lax.while_loop(is_small_in_jax, plus_one_of(f), CS),
    ),
    "fori_loop": (
        lambda f: nx.fori_loop(0, 3, indexed_of(f), C),
        lambda f: jax.lax.fori_loop(0, 3, indexed_of(f), CS),
    ),
    "scan": (
        lambda f: nx.scan(stable_step_of(f), C, X, axis="t"),
        lambda f: jax.lax.scan(stable_step_of(f), CS, XS),
    ),
}


@pytest.mark.parametrize("name", CHANGING)
def test_a_function_whose_surroundings_change_behaves_as_under_jax(name, monkeypatch):
    named, plain = CHANGING[name]
    assert stays(named, monkeypatch) == stays(plain, monkeypatch)


# --- functions that are deleted -----------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", WITH_FUNCTIONS)
def test_functions_that_are_deleted_are_freed(name):
    """Within the bound of JAX's own caches, which `jax.clear_caches` empties."""
    references = []
    for factor in (1, 2, 3):  # 0 would loop without end
        f = make_times(factor)
        references.append(weakref.ref(f))
        WITH_FUNCTIONS[name](f)
        del f
    jax.clear_caches()
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def make_times(factor):
    def times(a):
        return a * factor

    return times


def positional(tree):
    """The first array of a result, its names in order."""
    leaf = jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))[0]
    if not isinstance(leaf, nx.NamedArray):
        return np.asarray(leaf)
    return np.asarray(nx.positional(leaf, [*sorted(leaf.named_shape), ...]))


def square(*dims):
    return nx.named(jnp.arange(9.0).reshape(3, 3) ** 2, list(dims))


def by_size(carry, entry):
    return carry + 1, (entry, -entry) if entry.shape == (1,) else entry


# Calls of one operation whose arguments differ in one way: none may get the program of another.
ALIKE = {
    "positional dimensions": [
        functools.partial(lambda n: nx.diff(nx.named(jnp.ones((*[2] * n, 4)), [*[None] * n, "k"]), axis="k"), n) for n in (1, 3, 0)
    ],
    "dims": [functools.partial(lambda dims: nx.diff(square(*dims), axis="t"), dims) for dims in [("t", "k"), ("k", "t"), ("t", None)]],
    "element types": [
        functools.partial(lambda dtype: nx.ptp(nx.named(jnp.arange(4, dtype=dtype), ["k"]), "k"), dtype) for dtype in ("float32", "int8", "bfloat16")
    ],
    "sizes": [functools.partial(lambda n: nx.diff(nx.named(jnp.arange(1.0 * n) ** 2, ["k"]), axis="k"), n) for n in (4, 5, 2)],
    "trees": [functools.partial(lambda dims: nx.top_k(square(*dims), 2, axis="t"), dims) for dims in [("t", "k"), ("k", "t")]],
    # The dims of the result depend on the size.
    "positional axes of size 1": [
        functools.partial(lambda n: nx.squeeze(nx.named(jnp.arange(4.0 * n).reshape(n, 4), [None, "k"])), n) for n in (1, 3)
    ],
    "trees of results": [functools.partial(lambda n: nx.scan(by_size, 0.0, nx.named(jnp.ones((5, n)), ["t", None]), axis="t"), n) for n in (1, 3)],
    "results that are one": [
        functools.partial(lambda n: nx.numpy.unwrap(nx.named(jnp.arange(1.0 * n), ["k"]), axis="k"), n) for n in (1, 4)
    ],
}  # fmt: skip


@pytest.mark.full(1)
@pytest.mark.fast(3)
@pytest.mark.parametrize("kind", ALIKE)
def test_calls_whose_arguments_differ_in_one_way_alternate(kind, events):
    """In whatever order they come and repeat, results have the dims, types and values of a call that is traced anew."""
    wants = [jax.jit(lambda call=call: call())() for call in ALIKE[kind]]
    for _ in range(4):
        for call, want in zip(ALIKE[kind], wants, strict=True):
            for _ in range(3):
                have = call()
                assert jax.tree.structure(have) == jax.tree.structure(want)
                for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
                    assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
                    np.testing.assert_array_equal(a, b)
    events.clear()
    for call in ALIKE[kind]:
        call()
    assert events == []
