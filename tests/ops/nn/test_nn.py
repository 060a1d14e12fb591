"""`nx.nn` is `jax.nn` over names: softmax over a sharded axis, and activations with their flags."""

import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests import make
from tests.harness import FEW, PLACEMENTS, array, check, make_mesh, together

# label: (named, positional, out_axes); x is {b, a}[3], m is a mask {a}.
PROGRAM = {
    "softmax": (lambda x, m: nx.nn.softmax(x, "a"), lambda x, m: jax.nn.softmax(x, 1), ["b", "a", None]),
    "softmax of names and a position": (
        lambda x, m: nx.nn.softmax(x, ("a", -1, "b")),
        lambda x, m: jax.nn.softmax(x, (0, 1, 2)),
        ["b", "a", None],
    ),
    "softmax of the last position": (lambda x, m: nx.nn.softmax(x), lambda x, m: jax.nn.softmax(x), ["b", "a", None]),
    "softmax where": (
        lambda x, m: nx.nn.softmax(x, ["a", 0], where=m),
        lambda x, m: jax.nn.softmax(x, (1, 2), where=m[None, :, None]),
        ["b", "a", None],
    ),
    "log_softmax": (lambda x, m: nx.nn.log_softmax(x, "b"), lambda x, m: jax.nn.log_softmax(x, 0), ["b", "a", None]),
    "log_softmax of names": (
        lambda x, m: nx.nn.log_softmax(x, ("b", "a")),
        lambda x, m: jax.nn.log_softmax(x, (0, 1)),
        ["b", "a", None],
    ),
    "log_softmax where": (  # what is masked is minus infinity, which a random projection cannot weigh
        lambda x, m: nx.where(m, nx.nn.log_softmax(x, "a", where=m), 0.0),
        lambda x, m: jnp.where(m[:, None], jax.nn.log_softmax(x, 1, where=m[None, :, None]), 0.0),
        ["b", "a", None],
    ),
    "gelu": (lambda x, m: nx.nn.gelu(x, approximate=True), lambda x, m: jax.nn.gelu(x, approximate=True), ["b", "a", None]),
    "exact gelu": (
        lambda x, m: nx.nn.gelu(x, approximate=False),
        lambda x, m: jax.nn.gelu(x, approximate=False),
        ["b", "a", None],
    ),
    "error functions": (
        lambda x, m: nx.scipy.special.erf(x) - 2 * nx.lax.erfc(x) + nx.scipy.special.ndtr(3 * x),
        lambda x, m: jax.lax.erf(x) - 2 * jax.lax.erfc(x) + jax.scipy.special.ndtr(3 * x),
        ["b", "a", None],
    ),
    "relu and silu": (
        lambda x, m: nx.nn.relu(x) + nx.nn.silu(x),
        lambda x, m: jax.nn.relu(x) + jax.nn.silu(x),
        ["b", "a", None],
    ),
}
TOGETHER = together(PROGRAM)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_placements(placement):
    named, plain, out_axes = TOGETHER
    args = (array(4, 8, 3), make.array([1, 0, 1, 1, 0, 1, 1, 0], bool))
    grad = placement.kind == "auto" or placement in FEW
    check(named, plain, args, (["b", "a", None], ["a"]), out_axes, placement, grad=grad)


ACTIVATIONS = (
    "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid "
    "silu soft_sign softplus sparse_plus sparse_sigmoid squareplus swish tanh"
).split()


@pytest.mark.fast(11)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    x = array(4, 2, 3)
    function, plain = getattr(nx.nn, name), getattr(jax.nn, name)
    have = function(nx.named(x, ["b", None, "c"]))
    assert have.dims == ("b", None, "c")
    np.testing.assert_allclose(have.data, plain(x), rtol=1e-6, atol=1e-6)
    assert function.__name__ == function.__qualname__ == name
    assert inspect.signature(function) == inspect.signature(plain)
    assert f"The named version of `jax.nn.{name}`" in function.__doc__
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.fast(0)
def test_flags_and_parameters():
    x = array(4, 3)
    named = nx.named(x, ["b", "c"])
    for approximate in (True, False):
        want = jax.nn.gelu(x, approximate=approximate)
        np.testing.assert_allclose(nx.nn.gelu(named, approximate).data, want, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(nx.nn.gelu(named, approximate=approximate).data, want, rtol=1e-6, atol=1e-6)
    assert not np.allclose(nx.nn.gelu(named, True).data, nx.nn.gelu(named, False).data, rtol=0, atol=1e-6)
    slopes = nx.named(make.arange(3.0), ["c"])
    np.testing.assert_allclose(nx.nn.leaky_relu(named, slopes).data, jax.nn.leaky_relu(x, jnp.arange(3.0)), rtol=1e-6)
    np.testing.assert_allclose(nx.nn.elu(x=named, alpha=0.5).data, jax.nn.elu(x, 0.5), rtol=1e-6)
    with pytest.raises(TypeError, match="too many positional arguments"):
        nx.nn.relu(named, 3)
    with pytest.raises(TypeError, match="slope"):
        nx.nn.leaky_relu(named, slope=3)


def test_the_gradient_of_relu_at_zero_is_zero():
    slope = jax.grad(lambda x: nx.sum(nx.nn.relu(nx.named(x, ["b"])), "b"))(make.array([-1.0, 0.0, 2.0]))
    assert slope.tolist() == [0, 0, 1]


def test_softmax_of_integers_converts_them_first():
    x = array(4, 8, kind="int").astype(jnp.int8)
    np.testing.assert_allclose(
        nx.nn.softmax(nx.named(x, ["b", "a"]), "a").data, jax.nn.softmax(x.astype(jnp.float32), 1), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: nx.nn.softmax(x),
            nx.errors.PositionalAxisError,
            ["softmax: axis=-1 is a position", "Pass axis='b' or axis='a'."],
        ),
        (lambda x: nx.nn.log_softmax(x, "k"), nx.errors.AxisNotFoundError, ["log_softmax: no axis 'k'", "'b', 'a'"]),
        (lambda x: nx.nn.softmax(x, ("a", "a")), nx.errors.PositionalAxisError, ["softmax", "given twice"]),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(4, 8), ["b", "a"]))
    assert all(word in str(raised.value) for word in words), raised.value


ERRORS = {
    "gelu": (lambda x: nx.nn.gelu(x, approximate=False), lambda x: jax.nn.gelu(x, approximate=False)),
    "lax.erf": (nx.lax.erf, jax.lax.erf),
    "lax.erfc": (nx.lax.erfc, jax.lax.erfc),
    "special.erf": (nx.scipy.special.erf, jax.scipy.special.erf),
    "special.erfc": (nx.scipy.special.erfc, jax.scipy.special.erfc),
    "special.ndtr": (nx.scipy.special.ndtr, jax.scipy.special.ndtr),
}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("function", ERRORS)
def test_derivatives_of_error_functions_within_a_body(function):
    """JAX 0.12 cannot differentiate its own error functions of varying values (tests/xmap/test_coming_jax.py)."""
    named, plain = ERRORS[function]
    values = jnp.concatenate([jnp.linspace(-4.5, 4.5, 15), jnp.array([30.0])])

    def body(x):
        first = jax.grad(lambda x: nx.sum(named(x) * x, "a"))(x)
        second = jax.grad(lambda x: nx.sum(jax.grad(lambda x: nx.sum(named(x), "a"))(x), "a"))(x)
        return named(x), first, second

    outside = nx.xmap(lambda x: nx.sum(named(x) * x, "a"), ["a"], [], axis_resources={"a": "x"}, mesh=make_mesh((4,)))
    have = nx.xmap(body, ["a"], ["a"], axis_resources={"a": "x"}, mesh=make_mesh((4,)))(values)
    first = jax.grad(lambda x: jnp.sum(plain(x) * x))(values)
    second = jax.grad(lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(plain(x)))(x)))(values)
    for one, other in zip((*have, jax.grad(outside)(values)), (plain(values), first, second, first), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_error_functions_take_what_jax_takes():
    integers = nx.named(make.array([-1, 0, 2], int), ["a"])
    np.testing.assert_allclose(
        nx.scipy.special.erf(integers).data, jax.scipy.special.erf(make.array([-1, 0, 2], int)), rtol=1e-6
    )
    assert inspect.signature(nx.lax.erfc) == inspect.signature(jax.lax.erfc)
    half = nx.named(make.array([0.5, 2.0]).astype(jnp.bfloat16), ["a"])
    assert nx.nn.gelu(half, approximate=False).dtype == nx.lax.erf(half).dtype == jnp.bfloat16
