"""NumPy's own functions, given an array with names: which function it was, and what to write."""

import operator

import numpy as np
import pytest

import namedax as nx
from namedax.errors import NamedAxesLeftError
from tests import make
from tests.harness import array, said

A = np.asarray(array(3, 4))
X = nx.named(make.array(A), ["station", "day"])


FOR_POSITIONS = "nx.positional(x, ['station', 'day']) for a positional array."
ONE_OF = "where axis is one of 'station', 'day', or "
OF_NUMPY = {
    "median": (lambda: np.median(X), "nx.median(x, axis), " + ONE_OF),
    "array_equal": (lambda: np.array_equal(X, X), "nx.array_equal(a1, a2, equal_nan), or "),
    "allclose": (lambda: np.allclose(A, X), "nx.allclose(a, b), or "),
    "concatenate": (lambda: np.concatenate([X, X]), "nx.concatenate(arrays, axis), " + ONE_OF),
    "stack": (lambda: np.stack((X, X)), "nx.stack([x, y], 'new'), or "),
    "repeat": (lambda: np.repeat(X, 2), "nx.repeat(x, repeats, axis), " + ONE_OF),
    "flip": (lambda: np.flip(X), "nx.flip(m, axis), " + ONE_OF),
    "argmax": (lambda: np.argmax(X, axis=0), "nx.argmax(x, axis), " + ONE_OF),
    "where": (lambda: np.where(A > 0, A, X), "nx.where(condition, x, y), or "),
    "linalg.norm": (lambda: np.linalg.norm(X), "nx.norm(x, ord, axis), " + ONE_OF),
    "linalg.svd": (lambda: np.linalg.svd(X), "nx.numpy.linalg.svd, or "),
    "fft.fft": (lambda: np.fft.fft(X), "nx.numpy.fft.fft, or "),
    "reshape": (
        lambda: np.reshape(X, -1),
        "nx.rearrange(x, pattern), or nx.merge_axes(x, ('station', 'day'), 'flat') for one named axis, or ",
    ),
    "copyto": (lambda: np.copyto(A, X), ""),
}


@pytest.mark.parametrize("name", OF_NUMPY)
def test_numpy_functions_reject_named_axes(name):
    call, remedy = OF_NUMPY[name]
    with pytest.raises(NamedAxesLeftError) as error:
        call()
    assert said(error.value) == (
        f"np.{name}: f32[]{{station:3, day:4}} still has named axes, and NumPy's functions do not support names. Write {remedy}{FOR_POSITIONS}"
    )


def test_what_numpy_asks_of_an_array_with_names():
    assert (np.shape(X), np.ndim(X), np.size(X)) == ((), 0, 1)
    assert (np.result_type(X, np.float64), np.can_cast(X, "float64"), np.common_type(X)) == (np.float64, True, np.float32)
    assert (np.iscomplexobj(X), np.isrealobj(X)) == (False, True)
    np.testing.assert_array_equal(np.real(X).data, A)
    assert np.isreal(X).dims == np.imag(X).dims == X.dims


def test_functions_of_numpy_take_arrays_without_names():
    bare = nx.NamedArray(A, (None, None))
    assert np.median(bare) == np.median(A)
    assert np.array_equal(bare, A)
    np.testing.assert_array_equal(np.concatenate([bare, A]), np.concatenate([A, A]))
    np.testing.assert_array_equal(np.where(bare > 0, bare, 0.0), np.where(A > 0, A, 0.0))
    np.testing.assert_allclose(np.mean(bare, axis=0), np.mean(A, 0), rtol=1e-6)


UFUNCS = {
    "sin": (lambda: np.sin(X), "nx.sin(x), or ", ""),
    "add": (lambda: np.add(X, A), "nx.add(x, y), or ", ""),
    "maximum": (lambda: np.maximum(A, X), "nx.maximum(x, y), or ", ""),
    "add.reduce": (lambda: np.add.reduce(X), "nx.sum(x, axis), " + ONE_OF, ""),
    "frexp": (lambda: np.frexp(X), "nx.numpy.frexp(x), or ", ""),
    "spacing": (lambda: np.spacing(X), "nx.spacing(x), or ", ""),
    "add.outer": (lambda: np.add.outer(X, X), "", ""),
    "subtract": (lambda: operator.isub(A.copy(), X), "nx.subtract(x, y), or ", " The statement a += x becomes a = a + x."),
}


@pytest.mark.parametrize("name", UFUNCS)
def test_universal_functions_of_numpy_reject_named_axes(name):
    call, remedy, note = UFUNCS[name]
    with pytest.raises(NamedAxesLeftError) as error:
        call()
    assert said(error.value) == (
        f"np.{name}: f32[]{{station:3, day:4}} still has named axes, and NumPy's functions do not support names. "
        f"Write {remedy}{FOR_POSITIONS}{note}"
    )


OPERATORS = "add sub mul truediv floordiv mod pow lt le gt ge eq ne".split()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    "left", [np.float32(3), np.asarray(3.0, np.float32), np.ones((2, 1), np.float32) * 3], ids=["number", "0-d", "2-d"]
)
def test_operators_of_numpy_are_those_of_the_named_array(name, left):
    operate = getattr(operator, name)
    result = operate(left, X)
    assert type(result) is nx.NamedArray
    whole = nx.positional(result, ["station", "day", ...])
    wanted = operate(np.reshape(left, (*left.shape, 1, 1)), A)
    np.testing.assert_allclose(whole, np.moveaxis(wanted, (-2, -1), (0, 1)).reshape(whole.shape), rtol=1e-6)


def test_operators_on_integers_matrices_and_arrays_without_names():
    n, k = np.arange(12).reshape(3, 4), np.asarray([5])
    i = nx.named(n, ["station", "day"])
    for name in "and_ or_ xor lshift rshift".split():
        operate = getattr(operator, name)
        np.testing.assert_array_equal(nx.positional(operate(k, i), ["station", "day", ...])[..., 0], operate(k, n))
    quotient, rest = divmod(k, i + 1)
    np.testing.assert_array_equal(nx.positional(quotient, ["station", "day", ...])[..., 0], 5 // (n + 1))
    np.testing.assert_array_equal(nx.positional(rest, ["station", "day", ...])[..., 0], 5 % (n + 1))
    half = nx.named(A, ["station", None])
    np.testing.assert_allclose(
        nx.positional(np.ones((2, 4), np.float32) @ half, ["station", ...]), A @ np.ones((4, 2)), rtol=1e-6
    )
    bare = nx.NamedArray(A, (None, None))
    np.testing.assert_allclose(np.sin(bare), np.sin(A), rtol=1e-6)
    np.testing.assert_allclose(np.add.reduce(bare), A.sum(0), rtol=1e-6)
