"""What an eager operation remembers of a call, so that the next one costs no more than `jnp`'s: nothing that could make it another result.

The functions compile one program for all names and all places; what they take the second time is what they took the first time.
"""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import AxisSizeError, NamedaxError, PositionalAxisError
from tests import make
from tests.harness import make_mesh

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)

# Each with axes `a` and `b`, at a place that differs from call to call; and the same in NumPy or jnp.
OPERATIONS = {
    "arithmetic": (lambda x, a, b, i: 1 - x * 2.0 + x / (x + 9), lambda x, i: 1 - x * 2.0 + x / (x + 9)),
    "unary": (lambda x, a, b, i: nx.exp(-abs(x)), lambda x, i: np.exp(-abs(x))),
    "where": (lambda x, a, b, i: nx.where(x > 0, x, 0.5), lambda x, i: np.where(x > 0, x, 0.5)),
    "comparison": (lambda x, a, b, i: (x >= 0) == (x < 1), lambda x, i: (x >= 0) == (x < 1)),
    "sum": (lambda x, a, b, i: nx.sum(x, a), lambda x, i: x.sum(0)),
    "method": (lambda x, a, b, i: x.max(axis=b), lambda x, i: x.max(1)),
    "several": (lambda x, a, b, i: nx.mean(x, (b, a)), lambda x, i: x.mean()),
    "broadcasting": (lambda x, a, b, i: x - nx.min(x, a), lambda x, i: x - x.min(0)),
    "einsum": (lambda x, a, b, i: nx.einsum(f"{{{a},{b}}},{{{a}x:{a},{b}}}->{{{a},{a}x}}", x, x), lambda x, i: x @ x.T),
    "dot": (lambda x, a, b, i: nx.dot(x, x, b), lambda x, i: (x * x).sum(1)),
    "integer": (lambda x, a, b, i: x[b, i], lambda x, i: x[:, i]),
    "integers": (lambda x, a, b, i: x[{a: -1 - i, b: i}], lambda x, i: x[-1 - i, i]),
    "slice": (lambda x, a, b, i: x[b, i : i + 3], lambda x, i: x[:, i : i + 3]),
    "slice and integer": (lambda x, a, b, i: x[b, i : i + 2, a, i], lambda x, i: x[i, i : i + 2]),
    "by position": (lambda x, a, b, i: nx.named(nx.positional(x, [b, a]), [None, a])[i], lambda x, i: x[:, i]),
    "a slice by position": (
        lambda x, a, b, i: nx.named(nx.positional(x, [a, b]), [a, None])[..., i : i + 3],
        lambda x, i: x[:, i : i + 3],
    ),
    "array": (lambda x, a, b, i: x[b, nx.named(np.array([2, i]), ["pick"])], lambda x, i: x.T[[2, i]]),
    "array and integer": (lambda x, a, b, i: x[{a: i, b: nx.named(np.array([2, i]), ["pick"])}], lambda x, i: x[i, [2, i]]),
    "take": (lambda x, a, b, i: nx.take(x, nx.named(np.array([i, 1]), ["pick"]), a), lambda x, i: x[[i, 1]]),
    "sort": (lambda x, a, b, i: nx.sort(x, b), lambda x, i: np.sort(x, 1)),
    "cumsum": (lambda x, a, b, i: nx.cumsum(x, b), lambda x, i: np.cumsum(x, 1)),
    "softmax": (lambda x, a, b, i: nx.nn.softmax(x, b), lambda x, i: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "rename": (lambda x, a, b, i: nx.rename(x, {a: b, b: a}) + 0, lambda x, i: x),
    "rearrange": (lambda x, a, b, i: nx.rearrange(x, f"{{{a},{b}}} -> {{{a}z=({b} {a})}}"), lambda x, i: x.T.ravel()),
}


def values(result):
    return np.asarray(result.data if isinstance(result, nx.NamedArray) else result)


@pytest.fixture
def compilations():
    seen = []

    def listen(event, duration, **more):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)

    def since():
        count = len(seen)
        seen.clear()
        return count

    yield since
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.fast(11)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_other_names_and_places_compile_nothing(operation, compilations):
    call, want = OPERATIONS[operation]
    # Names that no other test uses: the second equal call of several kernels compiles a program.
    for n, (a, b) in enumerate([("one", "two"), ("one", "two"), ("three", "four"), ("two", "one"), ("five", 7.25)]):
        if operation in ("einsum", "rearrange", "broadcasting") and not isinstance(b, str):
            continue
        for i in range(3):
            x = nx.named(jnp.asarray(X), [a, b])
            if n == i == 0:
                call(x, a, b, i)
            compilations()
            result = call(x, a, b, i)
            assert compilations() == 0, (a, b, i)
            np.testing.assert_allclose(values(result), want(X, i), rtol=2e-5, atol=1e-6)


# --- what tells calls apart -------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_other_axes_and_options_are_other_calls():
    x = nx.named(jnp.asarray(X), ["a", "b"])
    y = nx.named(jnp.asarray(X.T.copy()), ["b", "a"])
    for _ in range(3):
        for axis, want in {"a": X.sum(0), "b": X.sum(1), ("a",): X.sum(0), ("a", "b"): X.sum(), (): X}.items():
            np.testing.assert_allclose(values(nx.sum(x, axis)), want, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(values(nx.sum(x, axis=axis)), want, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(values(x.sum(axis)), want, rtol=1e-4, atol=1e-5)
        assert nx.sum(y, "a").dims == ("b",)
        assert (x + y).dims == ("a", "b")
        assert (y + x).dims == ("b", "a")
        assert nx.std(x, "a", ddof=1).data[0] != nx.std(x, "a", ddof=0).data[0]
        assert nx.sum(x, "a", dtype=int).dtype != nx.sum(x, "a", dtype=float).dtype
        assert nx.mean(x > 0, "a").dtype == x.dtype
        np.testing.assert_allclose(values(nx.sort(x, "a", descending=True)), -np.sort(-X, 0))
        np.testing.assert_allclose(values(nx.sort(x, "a", descending=False)), np.sort(X, 0))
        np.testing.assert_allclose(values(nx.sort(x, "a")), np.sort(X, 0))
        np.testing.assert_array_equal(values(nx.max(x, "a", where=x < 0, initial=-9.0)), np.where(X < 0, X, -9).max(0))
        np.testing.assert_array_equal(values(nx.max(x, "a", initial=7.0)), np.full(6, 7.0))
        np.testing.assert_array_equal(values(nx.max(x, "a", initial=8.0)), np.full(6, 8.0))


def test_a_position_is_told_from_what_equals_it():
    x = nx.named(jnp.asarray(X)[:, :, None] * np.arange(1.0, 3.0, dtype=np.float32), [None, "b", None])
    for _ in range(3):
        np.testing.assert_allclose(values(nx.sum(x, 1)), X * 3, rtol=1e-5)
        np.testing.assert_allclose(values(nx.sum(x, (1, "b"))), X.sum(1) * 3, rtol=1e-4, atol=1e-5)
        for axis in (True, 1.0, np.True_, (True, "b"), (1.0, "b")):
            with pytest.raises(NamedaxError):
                nx.sum(x, axis)
        for axis in ([1], ["b", 1]):
            assert nx.sum(x, axis).ndim == 1


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_the_types_of_numbers_are_those_of_jax():
    for dtype in (jnp.bfloat16, jnp.int8, jnp.bool_, jnp.float32):
        data = jnp.asarray(X > 0).astype(dtype)
        x = nx.named(data, ["a", "b"])
        for _ in range(2):
            for number in (2, 2.5, True, 1j, -0.0, 0.0):
                for have, want in ((x + number, data + number), (number * x, number * data), (x == number, data == number)):
                    assert have.dtype == want.dtype
                    assert have.weak_type == want.weak_type
                    np.testing.assert_array_equal(np.signbit(values(have.real)), np.signbit(np.asarray(want.real)))
                    np.testing.assert_array_equal(values(have), np.asarray(want))
    weak = nx.named(jnp.asarray([1.0, 2.0]) * 1, ["k"]).astype(float)
    assert (nx.exp(weak) + nx.named(jnp.ones(2, jnp.bfloat16), ["k"])).dtype == (
        jnp.exp(weak.data) + jnp.ones(2, jnp.bfloat16)
    ).dtype


def test_configuration_is_that_of_the_call():
    x = nx.named(jnp.asarray(X), ["a", "b"])
    for _ in range(2):
        with jax.numpy_dtype_promotion("strict"), pytest.raises(Exception, match=r"(?i)promot"):
            x + nx.named(jnp.ones(4, jnp.int32), ["a"])
        (x + nx.named(jnp.ones(4, jnp.int32), ["a"]))
        with jax.default_matmul_precision("float32"):
            assert "HIGHEST" in str(jax.make_jaxpr(lambda x: nx.dot(x, x, "b").data)(x))
        assert "HIGHEST" not in str(jax.make_jaxpr(lambda x: nx.dot(x, x, "b").data)(x))
        with jax.debug_nans(True), pytest.raises(FloatingPointError):
            nx.log(-abs(x))
        assert np.isnan(values(nx.log(-abs(x)))).all()


def test_an_array_without_names_gives_a_plain_one():
    x = nx.NamedArray(jnp.asarray(X), (None, None))
    for _ in range(2):
        for result in (-x, nx.exp(x), x + x, x + 1, 1 + x, nx.where(x > 0, x, 0.0), nx.sum(x, 0)):
            assert not isinstance(result, nx.NamedArray)


# --- errors ---------------------------------------------------------------------------------------------------------


def test_errors_come_with_names_after_calls_that_were_right():
    x, y = nx.named(jnp.ones((2, 3)), ["apple", "pear"]), nx.named(jnp.ones((3, 2)), ["pear", "apple"])
    x + y, nx.dot(x, y, "pear"), nx.where(x > 0, x, y), nx.einsum("{apple,pear},{apple,pear}->{apple}", x, y)
    wrong = nx.named(jnp.ones((4, 2)), ["pear", "apple"])
    for call in (
        lambda: x + wrong,
        lambda: x < wrong,
        lambda: nx.dot(x, wrong, "pear"),
        lambda: nx.where(x > 0, x, wrong),
        lambda: nx.einsum("{apple,pear},{apple,pear}->{apple}", x, wrong),
    ):
        for _ in range(2):
            with pytest.raises(AxisSizeError, match=r"'pear' has size 3 .* size 4") as info:
                call()
            assert info.value.__context__ is None or info.value.__suppress_context__


def test_what_a_raw_transform_has_stripped_is_found_out():
    x = nx.named(jnp.asarray(X), ["a", "b"])
    stripped = jax.tree.map(lambda data: data[0], x)
    for call in (nx.exp, lambda x: -x, lambda x: x + 1, lambda x: x * x, lambda x: nx.sum(x, "b"), lambda x: nx.sort(x, "b")):
        call(x)
        for _ in range(2):
            with pytest.raises(PositionalAxisError, match="A raw JAX transform"):
                call(stripped)


# --- where names mean blocks ------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_nothing_that_was_remembered_is_used_in_a_body():
    """The body closes over arrays that are global there, and of which it must take its block."""
    x = nx.named(jnp.asarray(X), ["a", "b"])

    def everything(x):
        parts = (nx.exp(-x) + x * 2, nx.where(x > 0, x, 1.0), nx.cumsum(x, "a"), x - nx.max(x, "a"))
        return [nx.sum(part, "a") for part in parts] + [nx.dot(x, x, "a"), x["a", 1], x.mean("a")]

    want = everything(x)
    mesh = make_mesh((4, 2))
    for _ in range(2):
        f = nx.xmap(lambda z: [part + z for part in everything(x)], [], ["b"], axis_resources={"a": "x"}, mesh=mesh)
        for have, part in zip(f(0.0), want, strict=True):
            np.testing.assert_allclose(np.asarray(have), values(part), rtol=1e-4, atol=1e-5)
        for have, part in zip(everything(x), want, strict=True):
            np.testing.assert_array_equal(values(have), values(part))


def test_in_the_shard_map_of_somebody_else():
    mesh = make_mesh((4, 2))
    x = nx.named(jnp.asarray(X), ["a", "b"])
    nx.sum(x, "b"), nx.exp(x)

    def body(data):
        y = nx.named(data, ["a", "b"])
        return nx.sum(nx.exp(y), "b").data

    for _ in range(2):
        have = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(jnp.asarray(X))
        np.testing.assert_allclose(have, np.exp(X).sum(1), rtol=1e-5)


def test_while_another_thread_is_in_a_body():
    x = nx.named(jnp.asarray(X), ["a", "b"])
    inside, done = threading.Event(), threading.Event()

    def body(z):
        inside.set()
        assert done.wait(60)
        return nx.sum(nx.exp(z), "a")

    mesh = make_mesh((4, 2))
    results = []
    f = nx.xmap(body, ["a", "b"], ["b"], axis_resources={"a": "x"}, mesh=mesh)
    thread = threading.Thread(target=lambda: results.append(f(jnp.asarray(X))))
    thread.start()
    assert inside.wait(60)
    for _ in range(2):
        np.testing.assert_allclose(values(nx.sum(nx.exp(x), "a")), np.exp(X).sum(0), rtol=1e-5)
    done.set()
    thread.join()
    np.testing.assert_allclose(results[0], np.exp(X).sum(0), rtol=1e-5)


@pytest.mark.fast(0)
def test_under_transformations():
    x = nx.named(jnp.asarray(X), ["a", "b"])

    def f(x):
        return nx.sum(nx.where(x > 0, nx.exp(x), x["b", 1] * x), ("a", "b"))

    want = jax.grad(lambda x: jnp.sum(jnp.where(x > 0, jnp.exp(x), x[:, 1:2] * x)))(jnp.asarray(X))
    for transform in (lambda f: f, jax.jit):
        for _ in range(2):
            np.testing.assert_allclose(values(transform(jax.grad(f))(x)), want, rtol=1e-5)
            f(x)
    rows = jax.vmap(lambda data: nx.sum(nx.named(data, ["k"]) * 2, "k"))(jnp.asarray(X))
    np.testing.assert_allclose(rows, 2 * X.sum(1), rtol=1e-4, atol=1e-5)
    with jax.disable_jit():
        np.testing.assert_allclose(f(x), f(x), rtol=1e-6)


@pytest.mark.fast(0)
@pytest.mark.parametrize("data", [make.asarray(X), make.keys(4, 6)], ids=["numbers", "keys"])
def test_reads_at_numbers_out_of_range_are_refused_each_time(data):
    x = nx.named(data, ["a", "b"])
    for _ in range(2):
        assert x["a", 3].dims == ("b",)
        assert x["a", -4, "b", 0:0].named_shape == {"b": 0}
        assert x["b", 4:9, "a", ::-2].named_shape == {"a": 2, "b": 2}
        for i in (4, -5):
            with pytest.raises(AxisSizeError, match=f"index {i} is out of range for axis 'a' of size 4"):
                x["a", i]


@pytest.mark.fast(0)
def test_a_read_of_a_placed_array_stays_on_its_devices():
    """There the place is part of the program, and what is sent is that of a slice."""
    mesh = make_mesh((4, 2))
    x = nx.named(jax.device_put(jnp.asarray(X), jax.NamedSharding(mesh, P("x"))), ["a", "b"])
    for i in range(3):
        np.testing.assert_array_equal(values(x["b", i]), X[:, i])
        np.testing.assert_array_equal(values(x["a", i]), X[i])
        assert x["b", i].sharding.is_equivalent_to(jax.NamedSharding(mesh, P("x")), 1)
