"""NumPy's own functions, given an array with names: which function it was, and what to write."""

import numpy as np
import pytest

import namedax as nx
from namedax.errors import NamedAxesLeftError
from tests.harness import array, said

A = np.asarray(array(3, 4))
X = nx.named(A, ["station", "day"])


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
    with pytest.raises(TypeError, match="operand 'NamedArray' does not support ufuncs"):
        np.sin(X)
