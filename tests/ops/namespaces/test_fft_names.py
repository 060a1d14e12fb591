"""`out_axis` of `nx.numpy.fft` and `nx.scipy.fft`: the name of a transformed axis in the result. The oracles are NumPy and `jax.scipy`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, AxisNotFoundError, AxisSizeError, PositionalAxisError
from tests.harness import array, make_mesh

FFT = nx.numpy.fft
LAYOUTS = [{}, {"b": "x"}, {"t": "x"}, {"t": "x", "f": "x"}, {"f": "x"}]
# The size of the result along the transformed axis, of size 8, and the function.
ONE_AXIS = {
    "rfft": (5, lambda x, **k: FFT.rfft(x, **k), lambda x: jnp.fft.rfft(x, axis=0)),
    "irfft": (14, lambda x, **k: FFT.irfft(x, **k), lambda x: jnp.fft.irfft(x, axis=0)),
    "hfft": (14, lambda x, **k: FFT.hfft(x, **k), lambda x: jnp.fft.hfft(x, axis=0)),
    "ihfft": (5, lambda x, **k: FFT.ihfft(x, **k), lambda x: jnp.fft.ihfft(x, axis=0)),
    "fft": (6, lambda x, **k: FFT.fft(x, 6, **k), lambda x: jnp.fft.fft(x, 6, axis=0)),
    "ifft": (10, lambda x, **k: FFT.ifft(x, 10, **k), lambda x: jnp.fft.ifft(x, 10, axis=0)),
    "dct": (6, lambda x, **k: nx.scipy.fft.dct(x, n=6, **k), lambda x: jax.scipy.fft.dct(x, n=6, axis=0)),
    "idct": (6, lambda x, **k: nx.scipy.fft.idct(x, n=6, **k), lambda x: jax.scipy.fft.idct(x, n=6, axis=0)),
}


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", ONE_AXIS)
def test_out_axis_in_mapped_functions(name):
    size, transform, oracle = ONE_AXIS[name]
    x = array(8, 3, seed=2)
    want = oracle(x)
    assert want.shape == (size, 3)
    for i, layout in enumerate(LAYOUTS):
        if name != "rfft" and i not in (0, 3):
            continue
        mapped = nx.xmap(
            lambda x: transform(x, axis="t", out_axis="f"),
            (["t", "b"],),
            ["f", "b"],
            axis_sizes={"f": size},
            axis_resources=layout,
            mesh=make_mesh((4,)),
        )
        np.testing.assert_allclose(mapped(x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(0)
def test_gradient_of_a_renamed_transform():
    x = array(8, 3, seed=2)

    def energy(spectrum):
        return jnp.sum(jnp.abs(spectrum) ** 3)

    mapped = nx.xmap(
        lambda x: FFT.rfft(x, axis="t", out_axis="f"),
        (["t", "b"],),
        ["f", "b"],
        axis_resources={"t": "x"},
        mesh=make_mesh((4,)),
    )
    have, want = jax.grad(lambda x: energy(mapped(x)))(x), jax.grad(lambda x: energy(jnp.fft.rfft(x, axis=0)))(x)
    np.testing.assert_allclose(have, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn", "irfft2", "irfftn"])
def test_out_axis_of_several_axes(name):
    x = array(8, 3, 4, seed=2)
    named = nx.named(x, ["t", "b", "u"])
    have = getattr(FFT, name)(named, axes=("t", "u"), out_axis={"u": "k"})
    want = getattr(jnp.fft, name)(x, axes=(0, 2))
    np.testing.assert_allclose(nx.positional(have, ["t", "b", "k"]), want, rtol=1e-4, atol=1e-4)
    swapped = getattr(FFT, name)(named, axes=("t", "u"), out_axis={"u": "t", "t": "u"})
    np.testing.assert_allclose(nx.positional(swapped, ["u", "b", "t"]), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: FFT.rfft(x, axis="t", out_axis="b"), AxisSizeError, "rfft: the result already has an axis 'b'."),
        (lambda x: FFT.rfft(x, axis="t", out_axis=3), PositionalAxisError, "rfft: out_axis=3 is not a name"),
        (lambda x: FFT.rfft(x, axis="t", out_axis={"b": "q"}), AxisNotFoundError, "rfft: no axis 'b'"),
        (
            lambda x: FFT.fftn(x, axes=("t", "b"), out_axis="f"),
            ArgumentError,
            "fftn: out_axis='f' is one name, but axis has 2 named axes. Write a dict",
        ),
        (
            lambda x: FFT.rfft(x.data, axis=0, out_axis="f"),
            ArgumentError,
            "rfft: out_axis='f' is one name, but axis has 0 named axes. Leave it out",
        ),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as caught:
        call(nx.named(array(8, 3), ["t", "b"]))
    assert words in str(caught.value)


def test_the_message_offers_out_axis():
    with pytest.raises(
        AxisSizeError, match=r"rfft: the result has size 5 along 't', which has size 8 .* out_axis=\{'t': 'other'\}"
    ):
        nx.xmap(lambda x: FFT.rfft(x, axis="t"), (["t", "b"],), ["t", "b"])(array(8, 3))
