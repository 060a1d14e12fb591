"""Law 1 for elementwise functions: positional axes meet by position, named ones by name; law 2: placements change nothing."""

import functools
import inspect
import logging
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check

# --- Every elementwise function -------------------------------------------------------------------


def ufuncs(operands):
    """NumPy's universal functions of one result that JAX has."""
    found = ((name, getattr(np, name)) for name in dir(np) if hasattr(jnp, name))
    plain = [(name, f) for name, f in found if isinstance(f, np.ufunc) and f.signature is None]
    return [name for name, f in plain if (f.nin, f.nout) == (operands, 1)]


UNARY = [*ufuncs(1), *"angle around i0 imag iscomplex isneginf isposinf isreal nan_to_num real round sinc".split()]
BINARY = [*ufuncs(2), "isclose"]

LARGE = "acosh arccosh log log10 log2 log1p sqrt reciprocal".split()
SMALL = "acos arccos asin arcsin atanh arctanh".split()
BITS = "bitwise_count bitwise_invert bitwise_not invert bitwise_and bitwise_or bitwise_xor gcd lcm".split()
SHIFTS = "bitwise_left_shift bitwise_right_shift left_shift right_shift".split()
COMPLEX = "angle conj conjugate imag real iscomplex isreal".split()
TRUTH = "logical_not logical_and logical_or logical_xor".split()
SPECIAL = "isfinite isinf isnan isneginf isposinf nan_to_num signbit maximum minimum fmax fmin isclose".split()


def values(name, *shape, seed):
    """Values in the domain of the function `name`."""
    x = array(*shape, seed=seed)
    if name in LARGE or "power" in name or name == "pow":
        return 1.25 + jnp.abs(x)
    if name in SMALL:
        return jnp.tanh(x)
    if name in BITS:
        return array(*shape, seed=seed, kind="int")
    if name in SHIFTS:
        return jnp.abs(array(*shape, seed=seed, kind="int"))
    if name == "ldexp" and seed:
        return array(*shape, seed=seed, kind="int")
    if name in COMPLEX:
        return x + 1j * jnp.where(x > 0, array(*shape, seed=seed + 9), 0)
    if name in TRUTH:
        return array(*shape, seed=seed, kind="ties")
    if name in SPECIAL:
        return x.at[0].set(jnp.nan).at[1].set(jnp.inf).at[2].set(-jnp.inf)
    return x


def assert_same(have, want, **tolerance):
    assert isinstance(have, jax.Array)
    assert have.dtype == want.dtype
    tolerance = tolerance or {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(np.asarray(have), np.asarray(want), **tolerance)


@functools.cache
def wanted():
    """What `jnp` gives for every function, from one program."""
    unary = {name: (values(name, 4, 2, 3, seed=0),) for name in UNARY}
    binary = {name: (values(name, 4, 2, 3, seed=0)[..., None], values(name, 3, 5, seed=1)) for name in BINARY}
    arguments = unary | binary
    return jax.jit(lambda: {name: getattr(jnp, name)(*args) for name, args in arguments.items()})()


@pytest.mark.fast(31)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    x = values(name, 4, 2, 3, seed=0)
    y = getattr(nx.numpy, name)(nx.named(x, ["b", None, "c"]))
    assert y.dims == ("b", None, "c")
    assert_same(y.data, wanted()[name])


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    x, y = values(name, 4, 2, 3, seed=0), values(name, 3, 5, seed=1)
    z = getattr(nx.numpy, name)(nx.named(x, ["b", None, "c"]), nx.named(y, ["c", "a"]))
    assert z.shape == (2,)
    assert_same(nx.positional(z, ["b", None, "c", "a"]), wanted()[name])


def test_these_are_all_elementwise_functions():
    documented = {
        name for name in dir(nx.numpy) if f"The named version of `jnp.{name}`" in (getattr(nx.numpy, name).__doc__ or "")
    }
    assert documented == {*UNARY, *BINARY, "clip"}
    assert len(documented) > 109


# --- Broadcasting and operands --------------------------------------------------------------------


def test_a_name_that_both_have_is_one_axis_in_any_order():
    x, y = array(4, 4), array(4, 4, seed=1)  # a square, whose two axes must not be confused
    z = nx.subtract(nx.named(x, ["b", "k"]), nx.named(y, ["k", "b"]))
    assert_same(nx.positional(z, ["b", "k"]), x - y.T)


def test_positional_axes_meet_from_the_right_whatever_names_stand_between():
    x, y = array(2, 4, 3), array(5, 1, 3, seed=1)
    z = nx.multiply(nx.named(x, [None, "b", None]), nx.named(y, ["a", None, None]))
    assert z.shape == (2, 3)
    assert_same(nx.positional(z, ["a", "b", None, None]), x.transpose(1, 0, 2) * y[:, None])


def test_an_array_without_names_is_just_an_array():
    x, y = array(4, 3), array(3, seed=1)
    for have, want in ((nx.sin(x), jnp.sin(x)), (nx.add(x, y), x + y), (nx.clip(x, max=y), jnp.clip(x, max=y))):
        assert_same(have, want)


def test_operands_without_names():
    x = array(4, 3)
    named = nx.named(x, ["b", None])
    row = np.arange(3.0, dtype=x.dtype)
    for operand in (2, 2.5, np.float32(0.5), jnp.asarray(1.5), row):
        assert_same(nx.add(named, operand).data, jnp.add(x, operand))
        assert_same(nx.subtract(operand, named).data, jnp.subtract(operand, x))


def test_weak_types_give_way():
    half = nx.named(make.ones(4, jnp.bfloat16), ["b"])
    assert nx.add(half, 1.5).dtype == jnp.bfloat16
    assert nx.maximum(0.0, half).dtype == jnp.bfloat16
    assert nx.add(nx.named(jnp.arange(4), ["b"]), 1.5).dtype == jnp.add(jnp.arange(4), 1.5).dtype


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: nx.add(x, nx.named(jnp.ones(3), ["b"])), nx.errors.AxisSizeError, ["add", "'b'", "size 4", "size 3"]),
        (lambda x: nx.add(x, jnp.ones((2, 5))), nx.errors.PositionalAxisError, ["add", "size 3", "size 5"]),
        (lambda x: nx.sin(x, x), TypeError, []),
        (lambda x: nx.clip(x, min=0.0, minimum=1.0), TypeError, ["minimum"]),
        (lambda x: nx.round(x, 2, decimals=2), TypeError, ["decimals"]),
        (lambda x: nx.where(x > 0), nx.errors.NamedAxesLeftError, ["where", "require condition, x and y"]),
        (lambda x: nx.add(x, "b"), TypeError, []),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(4, 3), ["b", None]))
    assert all(word in str(raised.value) for word in words), raised.value


# --- Keywords, and arguments that are not operands -------------------------------------------------


def test_clip_takes_limits_by_position_and_keyword_named_or_not():
    x, low, high = array(4, 3), -jnp.abs(array(3)), jnp.abs(array(4))
    named = nx.named(x, ["b", "c"])
    wanted = jnp.clip(x, low, high[:, None])
    low, high = nx.named(low, ["c"]), nx.named(high, ["b"])
    assert_same(nx.clip(named, low, high).data, wanted)
    assert_same(nx.clip(named, max=high, min=low).data, wanted)
    assert_same(nx.clip(named, low, max=high).data, wanted)
    assert_same(named.clip(low, max=high).data, wanted)
    assert_same(nx.clip(named, max=0.5).data, jnp.clip(x, max=0.5))
    assert_same(nx.clip(named, None, 0.5).data, jnp.clip(x, None, 0.5))
    assert_same(nx.clip(named, 0, None).data, jnp.clip(x, 0, None))
    assert_same(nx.clip(x, min=-0.5, max=0.5), jnp.clip(x, -0.5, 0.5))
    gained = nx.clip(nx.named(x[:, 0], ["b"]), min=low)
    assert set(gained.dims) == {"b", "c"}


def test_arguments_that_choose_what_is_computed():
    x = 10 * array(4, 3).at[0].set(jnp.nan).at[1, 1].set(jnp.inf)
    named = nx.named(x, ["b", "c"])
    for decimals in (-1, 0, 1, 2):
        assert_same(nx.round(named, decimals).data, jnp.round(x, decimals))
        assert_same(nx.round(named, decimals=decimals).data, jnp.round(x, decimals))
        assert_same(nx.numpy.around(named, decimals).data, jnp.round(x, decimals))
    assert_same(nx.nan_to_num(named, nan=-1.0, posinf=7.0).data, jnp.nan_to_num(x, nan=-1.0, posinf=7.0))
    assert_same(nx.nan_to_num(named, True, 3.0).data, jnp.nan_to_num(x, True, 3.0))
    fill = nx.named(make.arange(4.0), ["b"])
    assert_same(nx.nan_to_num(named, nan=fill).data, jnp.nan_to_num(x, nan=jnp.arange(4.0)[:, None]))
    for equal_nan in (False, True):
        want = jnp.isclose(x, x, 1e-3, 0.0, equal_nan)
        assert_same(nx.isclose(named, named, 1e-3, 0.0, equal_nan).data, want)
        assert_same(nx.isclose(named, named, rtol=1e-3, equal_nan=equal_nan).data, want)
    z = array(4, 3) + 1j * array(4, 3, seed=1)
    assert_same(nx.angle(nx.named(z, ["b", "c"]), True).data, jnp.angle(z, True), rtol=1e-5)


def test_integer_powers_are_static():
    x = array(4).at[0].set(0.0)
    named = nx.named(x, ["b"])
    for power in (nx.power, nx.numpy.pow):
        assert_same(power(named, 3).data, x**3)
        slope = jax.grad(lambda v: nx.sum(power(nx.named(v, ["b"]), 2), "b"))(x)  # noqa: B023
        assert_same(slope, 2 * x)  # at 0 too, where the general power has no gradient
    assert_same(nx.power(2, nx.named(jnp.arange(4), ["b"])).data, jnp.power(2, jnp.arange(4)))


def test_where():
    x, y = array(4, 3), array(3, seed=1)
    condition = array(4, kind="bool")
    want = jnp.where(condition[:, None], x, y)
    have = nx.where(nx.named(condition, ["b"]), nx.named(x, ["b", "c"]), nx.named(y, ["c"]))
    assert_same(nx.positional(have, ["b", "c"]), want)
    assert_same(nx.where(condition, 1.0, 0), jnp.where(condition, 1.0, 0))
    assert [list(i) for i in nx.where(condition)] == [list(i) for i in jnp.where(condition)]
    # The gradient of the branch that is not taken is zero, though it is not a number there.
    root = jax.grad(lambda v: nx.sum(nx.where(nx.named(v, ["b"]) > 0, nx.sqrt(nx.named(v, ["b"])), 0.0), "b"))
    assert_same(root(jnp.array([4.0, -4.0])), jnp.array([0.25, jnp.nan]))


# --- In every placement ---------------------------------------------------------------------------

# label: (named, positional, out_axes); x is {b, a}[3], y is {a}, w is positional [3]
CORE = {
    "chain": (
        lambda x, y, w: nx.tanh(nx.sin(x) * nx.exp(-(y**2))) ** 2,
        lambda x, y, w: jnp.tanh(jnp.sin(x) * jnp.exp(-(y[:, None] ** 2))) ** 2,
        ["b", "a", None],
    ),
    "the first operand has fewer names": (
        lambda x, y, w: nx.multiply(y, x),
        lambda x, y, w: (y[:, None] * x).transpose(1, 2, 0),
        ["a", None, "b"],
    ),
    "a positional operand": (lambda x, y, w: nx.multiply(w, x), lambda x, y, w: w * x, ["b", "a", None]),
    "outer": (lambda x, y, w: nx.hypot(y, w), lambda x, y, w: jnp.hypot(y[:, None], w), ["a", None]),
    "where": (
        lambda x, y, w: nx.where(y > 0, x, w),
        lambda x, y, w: jnp.where(y[:, None] > 0, x, w),
        ["b", "a", None],
    ),
    "clip": (
        lambda x, y, w: nx.clip(x, max=nx.abs(y), min=-w),
        lambda x, y, w: jnp.clip(x, max=jnp.abs(y)[:, None], min=-w),
        ["b", "a", None],
    ),
    "no name": (lambda x, y, w: nx.sin(w), lambda x, y, w: jnp.sin(w), [None]),
}
MORE = {
    "a number": (lambda x, y, w: nx.divide(1, 3 + nx.exp(y)), lambda x, y, w: 1 / (3 + jnp.exp(y)), ["a"]),
    "arctan2": (lambda x, y, w: nx.arctan2(x, y), lambda x, y, w: jnp.arctan2(x, y[:, None]), ["b", "a", None]),
    "maximum": (lambda x, y, w: nx.maximum(x, w), lambda x, y, w: jnp.maximum(x, w), ["b", "a", None]),
    "where a number": (
        lambda x, y, w: nx.where(x > w, 1.5, y),
        lambda x, y, w: jnp.where(x > w, 1.5, y[:, None]),
        ["b", "a", None],
    ),
    "clip to numbers": (lambda x, y, w: nx.clip(x, -0.5, 0.5), lambda x, y, w: jnp.clip(x, -0.5, 0.5), ["b", "a", None]),
    "nan_to_num": (
        lambda x, y, w: nx.nan_to_num(nx.log(x), nan=y),
        lambda x, y, w: jnp.nan_to_num(jnp.log(x), nan=y[:, None]),
        ["b", "a", None],
    ),
    "isclose": (lambda x, y, w: nx.isclose(x, y, 0.5), lambda x, y, w: jnp.isclose(x, y[:, None], 0.5), ["b", "a", None]),
    "bits": (
        lambda x, y, w: nx.bitwise_xor(x.astype("int32"), nx.floor(y).astype("int32")),
        lambda x, y, w: x.astype("int32") ^ jnp.floor(y).astype("int32")[:, None],
        ["b", "a", None],
    ),
    "round": (lambda x, y, w: nx.round(y, 1), lambda x, y, w: jnp.round(y, 1), ["a"]),
}


@functools.cache
def compiled(whole):
    """All entries as one named function, one compiled positional function, and its `out_axes`."""
    program = CORE | MORE if whole else CORE
    return (
        lambda *args: {label: named(*args) for label, (named, _, _) in program.items()},
        jax.jit(lambda *args: {label: plain(*args) for label, (_, plain, _) in program.items()}),
        {label: out_axes for label, (_, _, out_axes) in program.items()},
    )


@pytest.mark.parametrize("placement", [*PLACEMENTS, PARTITIONER[3]], ids=str)
def test_placements(placement):
    named, plain, out_axes = compiled(placement in FEW)
    args = (array(4, 8, 3), array(8, seed=1), array(3, seed=2))
    # Beside Auto axes, Explicit ones change how arguments arrive, and nothing in the body.
    grad = placement.kind == "auto" or placement in FEW
    check(named, plain, args, (["b", "a", None], ["a"], [None]), out_axes, placement, grad=grad)


# --- Wrappers keep their identity -----------------------------------------------------------------


@pytest.mark.fast(74)
@pytest.mark.parametrize("name", [*UNARY, *BINARY, "clip", "where"])
def test_identity(name):
    function = getattr(nx.numpy, name)
    assert name not in nx.__all__ or function is getattr(nx, name)
    assert function.__name__ == function.__qualname__ == name
    assert pickle.loads(pickle.dumps(function)) is function
    assert len(inspect.getdoc(function).splitlines()[0]) > 10
    if name != "where":
        assert inspect.signature(function) == inspect.signature(getattr(jnp, name))
        assert f"The named version of `jnp.{name}`" in function.__doc__


# --- Kernels --------------------------------------------------------------------------------------


def compilations(caplog, call):
    """The number of programs that XLA compiled during `call`."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.DEBUG, logger="jax"):
        jax.block_until_ready(call())
    return sum("Finished XLA compilation" in record.getMessage() for record in caplog.records)


def test_the_second_eager_call_compiles_nothing(caplog):
    x, y = nx.named(array(7, 3), ["b", None]), nx.named(array(7, 2, seed=1), ["b", "c"])
    calls = {
        "unary": lambda: nx.sinc(x),
        "binary": lambda: nx.logaddexp2(x, y),
        "scalar": lambda: nx.hypot(x, 2.5),
        "where": lambda: nx.where(x > 0, x, y),
        "keyword": lambda: nx.clip(x, min=y, max=0.5),
        "flag": lambda: nx.round(x, 2),
        "operator": lambda: -x / (1 + y**2),
        "activation": lambda: nx.nn.leaky_relu(x, 0.125),
        "reduction": lambda: nx.sum(x * y, ("b", "c"), where=x > 0),
        "initial": lambda: nx.max(x, "b", initial=0.25),
        "softmax": lambda: nx.nn.softmax(y, ("b", "c")),
        "argmax": lambda: nx.argmax(x, "b"),
    }
    for number in (0.5, 0.625):  # the program that stages the second and later numbers of a call
        nx.max(y, "b", initial=number)
    for label, call in calls.items():
        assert compilations(caplog, call) > 0, label
        assert compilations(caplog, call) == 0, label
    # Other values of a number are no other program.
    nx.clip(x, min=0.5)
    assert compilations(caplog, lambda: (nx.hypot(x, 3.5), nx.clip(x, min=0.75), nx.max(x, "b", initial=0.75))) == 0


def test_kernels_without_jit():
    x = array(4, 3)

    def program(v):
        v = nx.named(v, ["b", None])
        return nx.sum(nx.where(v > 0, nx.exp(v), 2 * v) ** 2, "b")

    with jax.disable_jit():
        eager = program(x)
        gradient = jax.grad(lambda v: jnp.sum(program(v)))(x)
    assert_same(eager, program(x))
    assert_same(gradient, jax.jit(jax.grad(lambda v: jnp.sum(program(v))))(x))


def test_debug_nans_points_at_the_operation():
    x = nx.named(make.array([1.0, -1.0]), ["b"])
    assert bool(jnp.isnan(nx.log(x).data[1]))
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError):
            nx.log(x)
        nx.exp(x)


def test_the_same_kernel_in_32_and_64_bits():
    for wide in (True, False, True):
        with jax.enable_x64(wide):
            x = nx.named(make.asarray([0.1, 0.2]), ["b"])
            assert nx.exp(x).dtype == nx.sum(nx.exp(x), "b").dtype == (jnp.float64 if wide else jnp.float32)
            third = nx.divide(nx.named(make.asarray([1, 1]), ["b"]), 3)
            assert abs(float(third.data[0]) - 1 / 3) < (1e-15 if wide else 1e-7)
