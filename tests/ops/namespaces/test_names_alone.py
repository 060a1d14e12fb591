"""Operations without an axis reject arrays whose axes are all named, at the top level and in the namespaces that mirror JAX's."""

import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentTypeError, PositionalAxisError
from tests import make
from tests.harness import array, said

X = nx.named(array(4, 6), ["q", "k"])
T = nx.named(array(8), ["t"])
LABELS = nx.named(make.array(array(4, 6, kind="bool"), int), ["q", "k"])

WITHOUT_AXIS = {
    "cumsum": nx.cumsum,
    "cumprod": nx.cumprod,
    "nancumsum": nx.nancumsum,
    "nancumprod": nx.nancumprod,
    "flip": nx.flip,
    "roll": lambda x: nx.roll(x, 1),
    "squeeze": nx.squeeze,
    "repeat": lambda x: nx.repeat(x, 2),
    "take": lambda x: nx.take(x, 0),
    "append": lambda x: nx.append(x, x),
    "gradient": lambda x: nx.gradient(x, 0.5),
    "histogram": lambda x: nx.histogram(x, 3),
    "bincount": lambda x: nx.bincount(x, length=2),
    "unique": nx.unique,
}
METHODS = {
    "cumsum": lambda x: x.cumsum(),
    "cumprod": lambda x: x.cumprod(),
    "squeeze": lambda x: x.squeeze(),
    "repeat": lambda x: x.repeat(2),
    "take": lambda x: x.take(0),
}


@pytest.mark.parametrize(
    ("op", "call"), [*WITHOUT_AXIS.items(), *METHODS.items()], ids=[*WITHOUT_AXIS, *(f"x.{op}" for op in METHODS)]
)
def test_an_operation_along_an_axis_asks_for_it(op, call):
    with pytest.raises(PositionalAxisError) as error:
        call(LABELS)
    assert said(error.value) == (
        f"{op}: i32[]{{q:4, k:6}} has no positional axis, and without an axis {op} acts on those only. Pass an axis, such as "
        "axis='k'; choose from 'q', 'k'."
    )


@pytest.mark.parametrize(("op", "call"), WITHOUT_AXIS.items(), ids=WITHOUT_AXIS)
def test_so_it_does_in_a_body(op, call):
    with pytest.raises(PositionalAxisError, match=f"without an axis {op} acts on those only"):
        nx.xmap(call)(LABELS)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: nx.numpy.flip(x),
        lambda x: nx.numpy.flip(m=x),
        lambda x: nx.numpy.roll(x, 1),
        lambda x: nx.numpy.roll(x, 1, None),
        lambda x: nx.numpy.squeeze(x),
        lambda x: nx.numpy.take(x, 0),
        lambda x: nx.cumsum(x, None),
        lambda x: nx.flip(x, axis=None),
        lambda x: x.cumsum(axis=None),
    ],
)
def test_none_and_the_namespaces_of_jax_ask_for_it_too(call):
    with pytest.raises(PositionalAxisError, match=r"has no positional axis, and without an axis .* choose from 'q', 'k'"):
        call(LABELS)
    assert call(nx.untag(LABELS, ["k"])).ndim <= 1  # with a positional axis it is as in JAX


def test_a_width_without_names_in_the_namespace_of_jax():
    with pytest.raises(PositionalAxisError, match="a width without names applies to those only"):
        nx.numpy.pad(LABELS, 1)


MAKING_POSITIONS = {
    **{name: getattr(nx.numpy, name) for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    "repeat": lambda x: nx.numpy.repeat(x, 2),
    "append": lambda x: nx.numpy.append(x, x),
    "bincount": lambda x: nx.numpy.bincount(x, length=2),
    "histogram": lambda x: nx.numpy.histogram(x, 3),
}


@pytest.mark.parametrize("op", MAKING_POSITIONS)
def test_in_the_namespaces_of_jax_no_position_is_made_of_nothing(op):
    with pytest.raises(PositionalAxisError) as error:
        MAKING_POSITIONS[op](LABELS)
    assert said(error.value).startswith(
        f"{op}: i32[]{{q:4, k:6}} has no positional axis, and without an axis {op} acts on those only."
    )


JOINED = "nx.concatenate([x, y], axis) along a name that they have, or nx.stack([x, y], 'new') along a new one."
OTHERS = {
    "outer": (lambda x: nx.numpy.outer(x, x), "x * nx.rename(y, {'k': 'other'}) for all products of two arrays."),
    "kron": (lambda x: nx.numpy.kron(x, b=x), "x * nx.rename(y, {'k': 'other'}) for all products of two arrays."),
    "hstack": (lambda x: nx.numpy.hstack([x, x]), JOINED),
    "vstack": (lambda x: nx.numpy.vstack((x, x)), JOINED),
    "insert": (lambda x: nx.numpy.insert(x, 0, 1.0), "nx.numpy.insert(arr, obj, values, axis='k')."),
    "delete": (lambda x: nx.numpy.delete(x, 0), "nx.numpy.delete(arr, obj, axis='k')."),
    "ediff1d": (nx.numpy.ediff1d, "nx.diff(x, axis='k')."),
    "poly": (nx.numpy.poly, "nx.numpy.poly along that axis as a position, nx.untag(x, ['k'])."),
}


@pytest.mark.fast(4)
@pytest.mark.parametrize("op", OTHERS)
def test_nor_is_it_by_others(op):
    call, remedy = OTHERS[op]
    with pytest.raises(PositionalAxisError) as error:
        call(X)
    assert (
        said(error.value)
        == f"{op}: {op} acts on positional axes, and f32[]{{q:4, k:6}} has names only, 'q', 'k'. Write {remedy}"
    )
    assert call(nx.untag(X, ["k"])).ndim >= 1  # where there is a position it is as in JAX


TWO = nx.named(array(4, 6), ["q", "k"])
ALL_AXES = {
    "numpy.allclose": (nx.numpy.allclose, "nx.allclose(x, y) for one answer over all axes."),
    "numpy.array_equal": (nx.numpy.array_equal, "nx.array_equal(x, y) for one answer over all axes."),
    "numpy.array_equiv": (nx.numpy.array_equiv, "nx.array_equiv(x, y) for one answer over all axes."),
    "numpy.fft.fftn": (lambda x, y: nx.numpy.fft.fftn(x), "nx.numpy.fft.fftn(x, axes=('k',))."),
    "numpy.fft.irfftn": (lambda x, y: nx.numpy.fft.irfftn(x, axes=None), "nx.numpy.fft.irfftn(x, axes=('k',))."),
    "numpy.fft.fftshift": (lambda x, y: nx.numpy.fft.fftshift(x=x), "nx.numpy.fft.fftshift(x, axes=('k',))."),
    "scipy.fft.dctn": (lambda x, y: nx.scipy.fft.dctn(x), "nx.scipy.fft.dctn(x, axes=('k',))."),
    "scipy.signal.convolve": (nx.scipy.signal.convolve, "nx.convolve(x, nx.untag(y, ['k']), axis='k')."),
    "scipy.stats.mode": (lambda x, y: nx.scipy.stats.mode(x), "nx.scipy.stats.mode(x, axis='k')."),
    "scipy.stats.rankdata": (lambda x, y: nx.scipy.stats.rankdata(x), "nx.scipy.stats.rankdata(x, axis='k')."),
    "scipy.linalg.toeplitz": (
        lambda x, y: nx.scipy.linalg.toeplitz(x),
        "nx.scipy.linalg.toeplitz of an array with positional axes, such as nx.untag(x, ['k']).",
    ),
    "numpy.linalg.matrix_rank": (
        lambda x, y: nx.numpy.linalg.matrix_rank(x),
        "nx.numpy.linalg.matrix_rank of an array with positional axes, such as nx.untag(x, ['k']).",
    ),
}


@pytest.mark.full(4)
@pytest.mark.fast(0)
@pytest.mark.parametrize("place", ALL_AXES)
def test_functions_of_all_positional_axes(place):
    call, remedy = ALL_AXES[place]
    op = place.rpartition(".")[2]
    with pytest.raises(PositionalAxisError) as error:
        call(X, TWO)
    text = f"{op}: {op} acts on positional axes, and f32[]{{q:4, k:6}} has names only, 'q', 'k'. Write {remedy}"
    assert said(error.value) == text
    code = remedy.removesuffix(".").removesuffix(" for one answer over all axes")
    if " of an array " not in code:
        eval(code, {"nx": nx, "x": X, "y": TWO})
    if place.startswith("numpy.a"):  # a number has no positional axis either
        for other in (0.0, jnp.zeros(())):
            with pytest.raises(PositionalAxisError, match="acts on positional axes"):
                call(X, other)
    inside = nx.nmap(lambda x, y: call(x, y))(nx.untag(X, ["q", "k"]), nx.untag(TWO, ["q", "k"]))  # sees plain arrays
    assert inside is not None


def test_what_says_its_axes_is_as_before():
    assert nx.numpy.reshape(X, (1, 1)).shape == (1, 1)
    assert nx.numpy.delete(X, 0, axis="k").named_shape == {"q": 4, "k": 5}
    assert nx.numpy.hstack([X, np.ones(3)]).shape == (4,)
    for flat in (nx.numpy.ravel, lambda x: nx.numpy.reshape(x, -1), lambda x: nx.numpy.reshape(x, shape=(1, -1))):
        with pytest.raises(PositionalAxisError, match=r"nothing to (ravel|reshape)\. Write nx\.merge_axes"):
            flat(X)
    bits = nx.named(np.arange(16).reshape(2, 8) % 3 > 0, ["q", "k"])
    for packed in (nx.numpy.packbits(bits, axis="k"), nx.numpy.packbits(bits, "k")):
        np.testing.assert_array_equal(nx.positional(packed, ["q", "k"]), np.packbits(bits.data, axis=1))


@pytest.mark.fast(0)
def test_by_name_and_by_position_all_is_as_before():
    x = nx.named(array(4, 6), ["q", ...])
    np.testing.assert_array_equal(nx.flip(X, ...).data, X.data[::-1, ::-1])
    np.testing.assert_array_equal(nx.flip(x).data, x.data[:, ::-1])
    np.testing.assert_allclose(nx.cumsum(x).data, np.cumsum(x.data, 1), rtol=1e-5)
    np.testing.assert_allclose(nx.gradient(X, 0.5, axis="k").data, np.gradient(X.data, 0.5, axis=1), rtol=1e-5)
    assert nx.repeat(X, "{q, k} -> {q, k, n}", n=2).named_shape == {"q": 4, "k": 6, "n": 2}
    assert nx.expand_dims(X, "one").squeeze("one").named_shape == {"q": 4, "k": 6}


def test_a_width_without_names():
    with pytest.raises(PositionalAxisError) as error:
        nx.pad(X, 1)
    assert said(error.value) == (
        "pad: f32[]{q:4, k:6} has no positional axis, and a width without names applies to those only. Write the names with it, as in "
        "pad_width={'k': (1, 2)}; it has 'q', 'k'."
    )
    assert nx.pad(X, {"k": 1}).named_shape == {"q": 4, "k": 8}
    assert nx.pad(X, pad_width={"k": 1}).named_shape == {"q": 4, "k": 8}


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("reshape", lambda x: x.reshape(-1)),
        ("reshape", lambda x: x.reshape((1, -1))),
        ("ravel", lambda x: x.ravel()),
        ("ravel", lambda x: x.ravel("F")),
        ("flatten", lambda x: x.flatten()),
    ],
)
def test_named_axes_are_not_flattened(op, call):
    with pytest.raises(PositionalAxisError) as error:
        call(X)
    assert said(error.value) == (
        f"{op}: f32[]{{q:4, k:6}} has no positional axis, and names have no order, so there is nothing to {op}. Write "
        "nx.merge_axes(x, ('q', 'k'), 'flat') for one named axis, or nx.positional(x, ['q', 'k']) for a positional array."
    )
    with pytest.raises(
        PositionalAxisError, match=r"nothing to \w+\. Write nx\.positional\(x, \['t'\]\) for a positional array"
    ):
        call(T)


def test_positions_of_size_one_may_be_asked_for():
    assert X.reshape(1, 1).shape == (1, 1)
    assert X.reshape(()).shape == ()


def test_sizes_of_all_axes():
    assert (X.size, X.shape, X.ndim) == (1, (), 0)
    assert (nx.size(X, ...), dict(X.named_shape), len(X.dims)) == (24, {"q": 4, "k": 6}, 2)


@pytest.mark.parametrize("join", [nx.concatenate, nx.numpy.concatenate])
def test_two_axes_as_separate_arguments_of_concatenate(join):
    """As the argument after the axis, "q" would be the 64-bit integers."""
    with pytest.raises(ArgumentTypeError) as error:
        join([X, X], "k", "q")
    assert said(error.value) == (
        "concatenate: 'k', 'q' are separate arguments, but one argument takes all axes of f32[]{q:4, k:6}. Write axis=('k', 'q')."
    )
    assert join([X, X], "k", "float16").dtype == "float16"
