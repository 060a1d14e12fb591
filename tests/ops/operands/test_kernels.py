"""What is remembered of an operation: no names, nothing that compares equal but is not the same, and no more than a bounded number."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.core.recent import Recent
from namedax.errors import AxisNotFoundError, AxisSizeError, EinsumError, NamedaxError
from namedax.ops.operands import kernels
from tests import make

X = np.random.default_rng(0).normal(size=(3, 5))


@pytest.fixture
def compilations():
    """A function that says how many programs have been compiled since it was called last."""
    seen = [0]

    def listen(event, duration, **more):
        seen[0] += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(listen)

    def since():
        count, seen[0] = seen[0], 0
        return count

    yield since
    jax.monitoring.unregister_event_duration_listener(listen)


def resident():
    """The memory of this process, in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


COUNT = 10_000

# Each of a fresh pair of names, with the same in NumPy.
FRESH = {
    "sum": (lambda x, a, b: nx.sum(x, a), lambda x: x.sum(0)),
    "max with a mask": (lambda x, a, b: nx.max(x, b, where=x > 0, initial=-9.0), lambda x: np.where(x > 0, x, -9.0).max(1)),
    "add": (lambda x, a, b: nx.sum(x + nx.sum(x, b), b), lambda x: (x + x.sum(1)[:, None]).sum(1)),
    "einsum": (lambda x, a, b: nx.einsum(f"{{{a},{b}}},{{{a}x:{a},{b}}}->{{{a},{a}x}}", x, x), lambda x: x @ x.T),
    "dot": (lambda x, a, b: nx.dot(x, x, b), lambda x: (x * x).sum(1)),
    "rearrange": (lambda x, a, b: nx.rearrange(x, f"{{{a},{b}}} -> {{{a}z=({b} {a})}}"), lambda x: x.T.ravel()),
    "merge_axes": (lambda x, a, b: nx.merge_axes(x, (b, a), a + "m"), lambda x: x.T.ravel()),
    "sort": (lambda x, a, b: nx.sort(x, b, descending=True), lambda x: -np.sort(-x, 1)),
    "cumsum": (lambda x, a, b: nx.cumsum(x, a), lambda x: x.cumsum(0)),
    "roll": (lambda x, a, b: nx.roll(x, (1, 2), (a, b)), lambda x: np.roll(x, (1, 2), (0, 1))),
    "getitem": (lambda x, a, b: x[b, 1:4], lambda x: x[:, 1:4]),
    "at": (lambda x, a, b: x.at[a, 2].add(1.5), lambda x: x + 1.5 * (np.arange(3) == 2)[:, None]),
    "softmax": (lambda x, a, b: nx.nn.softmax(x, a), lambda x: np.exp(x) / np.exp(x).sum(0)),
    "layer_norm": (lambda x, a, b: nx.nn.rms_norm(x, b, epsilon=0.0), lambda x: x / np.sqrt((x * x).mean(1, keepdims=True))),
    "concatenate": (lambda x, a, b: nx.concatenate([x, 2 * x], b), lambda x: np.concatenate([x, 2 * x], 1)),
    "halo": (
        lambda x, a, b: nx.sum(nx.halo(x, b, 1, 0, out_axis=b + "h"), b + "h"),
        lambda x: x + np.pad(x, ((0, 0), (1, 0)))[:, :5],
    ),
}


def values(result):
    return np.asarray(result.data if isinstance(result, nx.NamedArray) else result)


@pytest.mark.fast(0)
def test_fresh_names_compile_nothing_and_take_no_memory(compilations):
    def fresh(i, operation):
        call, want = FRESH[operation]
        a, b = f"first{i}", f"second{i}"
        x = nx.named(data, [a, b])
        return call(x, a, b), want

    data = jnp.asarray(X)
    for operation in FRESH:
        result, want = fresh("", operation)
        np.testing.assert_allclose(values(result), want(X), rtol=1e-5, atol=1e-6, err_msg=operation)
    operations = list(FRESH)
    for i, operation in enumerate(operations):  # what JAX itself compiles at the second call
        fresh(i, operation)
    before, _ = resident(), compilations()
    for i in range(COUNT):
        operation = operations[i % len(operations)]
        result, want = fresh(i + 1000, operation)
        if i % 701 == 0:
            np.testing.assert_allclose(values(result), want(X), rtol=1e-5, atol=1e-6, err_msg=operation)
    assert compilations() == 0
    assert resident() - before < 100


def test_dims_come_back_with_their_names():
    x = nx.named(jnp.asarray(X), ["p", "q"])
    y = nx.named(jnp.asarray(X.T.copy()), [("q", 1), 2.5])
    assert (x + 1).dims == ("p", "q")
    assert nx.sum(y, (("q", 1),)).dims == (2.5,)
    assert nx.einsum("{p,q},{r:p,q}->{p,r}", x, x).dims == ("p", "r")
    # The same names in another order, or one that is shared, are another pattern.
    z = nx.named(jnp.asarray(X.T.copy()), ["q", "p"])
    np.testing.assert_allclose(values(x + z), 2 * X, rtol=1e-6)
    w = nx.named(jnp.asarray(X.T.copy()), ["q", "o"])
    np.testing.assert_allclose(np.asarray(nx.positional(x + w, ["p", "q", "o"])), X[:, :, None] + X.T[None], rtol=1e-6)


@pytest.mark.parametrize("warm", [False, True])
def test_errors_in_a_kernel_name_the_axes(warm):
    size = 7 if warm else 6
    x = nx.named(make.ones((size, 4)), ["apple", "pear"])
    if warm:
        nx.sum(x, "apple"), nx.einsum("{apple,pear}->{apple}", x), x + x
    with pytest.raises(AxisNotFoundError, match=r"sum: no axis 'peer' in f32\[\]\{apple:\d, pear:4\}.*Did you mean 'pear'"):
        nx.sum(x, "peer")
    with pytest.raises(AxisSizeError, match=r"add: axis 'pear' has size 4 in operand 0.*and size 3 in operand 1"):
        x + nx.named(make.ones(3), ["pear"])
    with pytest.raises(
        (AxisNotFoundError, EinsumError), match=r"no axis 'plum' in operand 0(?s:.*)\n  \{apple,plum\}->\{apple\}\n         \^"
    ):
        nx.einsum("{apple,plum}->{apple}", x)
    with pytest.raises(NamedaxError, match="'plum'"):
        nx.rearrange(x, "{apple,plum} -> {both=(apple plum)}")


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_what_compares_equal_is_not_the_same():
    x = nx.named(jnp.asarray(X)[:, :, None] * np.arange(1.0, 3.0), [None, "b", None])
    calls = {
        "sum": nx.sum, "mean": nx.mean, "max": nx.max, "argmax": nx.argmax, "median": nx.median, "sort": nx.sort, "argsort": nx.argsort,
        "cumsum": nx.cumsum, "flip": nx.flip, "softmax": nx.nn.softmax, "layer_norm": nx.nn.layer_norm,
        "quantile": lambda x, a: nx.quantile(x, 0.5, a), "roll": lambda x, a: nx.roll(x, 1, a), "shift": lambda x, a: nx.shift(x, 1, a),
        "stack": lambda x, a: nx.stack([x, x], a), "take": lambda x, a: nx.take(x, jnp.array([0]), a), "split": lambda x, a: nx.split(x, 1, a),
        "concatenate": lambda x, a: nx.concatenate([x, x], a), "diff": lambda x, a: nx.diff(x, 1, a),
        "repeat": lambda x, a: nx.numpy.repeat(x, 2, a), "append": lambda x, a: nx.numpy.append(x, x, a),
        "tuple": lambda x, a: nx.sum(x, ("b", a)), "getitem": lambda x, a: x[{a: 0}],
    }  # fmt: skip
    for name, call in calls.items():
        for hot in (False, True):
            if hot:
                call(x, 1)
            for axis in (True, 1.0, np.True_, np.float64(1)):
                with pytest.raises(NamedaxError):
                    pytest.fail(f"{name} takes axis={axis!r}: {call(x, axis)}")
    # Zeros of either sign are equal, too; and a mask or a flag may be 1.
    k = nx.named(make.array([1.0, 2.0]), ["k"])
    assert not np.signbit(values(nx.shift(k, 1, "k", fill_value=0.0)))[0]
    assert np.signbit(values(nx.shift(k, 1, "k", fill_value=-0.0)))[0]
    assert (k**2).dtype == k.dtype
    assert nx.sum(k, "k", dtype=int).dtype != nx.sum(k, "k", dtype=float).dtype


@pytest.mark.fast(0)
def test_kernels_that_fall_out_are_freed(monkeypatch):
    made = []
    compile_kernel = kernels._compile

    def recorded(*args):
        kernel = compile_kernel(*args)
        made.append(weakref.ref(kernel.call.__wrapped__))
        return kernel

    monkeypatch.setattr(kernels, "_compile", recorded)
    monkeypatch.setattr(kernels, "_kernels", Recent(3))
    monkeypatch.setattr(kernels, "_calls", Recent(50))
    x = nx.named(make.arange(4.0), ["k"])
    for i in range(12):
        np.testing.assert_array_equal(values(nx.shift(x, 1, "k", fill_value=float(i))), [i, 0, 1, 2])
        jax.jit(lambda x, i=i: nx.shift(x, 2, "k", fill_value=float(i)))(x)
    gc.collect()
    assert len(made) >= 12
    assert sum(ref() is not None for ref in made) <= 6
