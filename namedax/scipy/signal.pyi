# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.signal`: `jax.scipy.signal` for named arrays."""

from collections.abc import Sequence
from typing import Literal, overload

import jax
import jax.typing

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, EitherArray
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

@overload
def convolve(
    in1: NamedArray,
    in2: EitherArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray:
    """Convolution of two N-dimensional arrays."""
@overload
def convolve(
    in1: EitherArray,
    in2: NamedArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def convolve(
    in1: PlainArray,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> PlainArray: ...
@overload
def convolve(
    in1: jax.Array,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> jax.Array:
    """Convolution of two N-dimensional arrays."""
@overload
def convolve2d(
    in1: NamedArray,
    in2: EitherArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray:
    """Convolution of two 2-dimensional arrays."""
@overload
def convolve2d(
    in1: EitherArray,
    in2: NamedArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def convolve2d(
    in1: PlainArray,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> PlainArray: ...
@overload
def convolve2d(
    in1: jax.Array,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> jax.Array:
    """Convolution of two 2-dimensional arrays."""
@overload
def correlate(
    in1: NamedArray,
    in2: EitherArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray:
    """Cross-correlation of two N-dimensional arrays."""
@overload
def correlate(
    in1: EitherArray,
    in2: NamedArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def correlate(
    in1: PlainArray,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> PlainArray: ...
@overload
def correlate(
    in1: jax.Array,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    method: str = 'auto',
    precision: jax.lax.PrecisionLike = None,
) -> jax.Array:
    """Cross-correlation of two N-dimensional arrays."""
@overload
def correlate2d(
    in1: NamedArray,
    in2: EitherArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray:
    """Cross-correlation of two 2-dimensional arrays."""
@overload
def correlate2d(
    in1: EitherArray,
    in2: NamedArray,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def correlate2d(
    in1: PlainArray,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> PlainArray: ...
@overload
def correlate2d(
    in1: jax.Array,
    in2: jax.Array,
    mode: Literal['full', 'same', 'valid'] = 'full',
    boundary: str = 'fill',
    fillvalue: float = 0,
    precision: jax.lax.PrecisionLike = None,
) -> jax.Array:
    """Cross-correlation of two 2-dimensional arrays."""
def csd(
    x: EitherArray,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: str = 'hann',
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str = 'constant',
    return_onesided: bool = True,
    scaling: str = 'density',
    axis: AxisSpec = -1,
    average: str = 'mean',
) -> tuple[AnyArray, AnyArray]:
    """Estimate cross power spectral density (CSD) using Welch's method."""
@overload
def detrend(
    data: NamedArray,
    axis: AxisSpec = -1,
    type: str = 'linear',
    bp: int | Sequence[int] | jax.typing.ArrayLike = 0,
    overwrite_data: None = None,
) -> NamedArray:
    """Subtract the mean or a straight line along one axis: `jax.scipy.signal.detrend`."""
@overload
def detrend(
    data: ArrayLike,
    axis: AxisSpec = -1,
    type: str = 'linear',
    bp: int | Sequence[int] | jax.typing.ArrayLike = 0,
    overwrite_data: None = None,
) -> AnyArray:
    """Subtract the mean or a straight line along one axis: `jax.scipy.signal.detrend`.

    Args:
      data: values, named or not.
      axis: a positional or named axis, by default -1.
      type: `"linear"` (default) subtracts the least-squares line, `"constant"` the mean.
      bp: the first elements of further lines, by default 0 for none; with more than one line a
        sharded axis is gathered.
      overwrite_data: as in JAX; by default `None`.

    Communication: over a sharded axis, one all-reduce of the size of the mean, or two for a line.

    Raises:
      AxisNotFoundError: `data` lacks the axis.
    """
def fftconvolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: Literal['full', 'same', 'valid'] = 'full',
    axes: AxisSpec = None,
) -> AnyArray:
    """Convolve two N-dimensional arrays using Fast Fourier Transform (FFT)."""
def istft(
    Zxx: EitherArray,
    fs: ArrayLike = 1.0,
    window: str = 'hann',
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[AnyArray, AnyArray]:
    """Perform the inverse short-time Fourier transform (ISTFT)."""
def stft(
    x: EitherArray,
    fs: ArrayLike = 1.0,
    window: str = 'hann',
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: bool = False,
    return_onesided: bool = True,
    boundary: str | None = 'zeros',
    padded: bool = True,
    axis: AxisSpec = -1,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Compute the short-time Fourier transform (STFT)."""
def welch(
    x: EitherArray,
    fs: ArrayLike = 1.0,
    window: str = 'hann',
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str = 'constant',
    return_onesided: bool = True,
    scaling: str = 'density',
    axis: AxisSpec = -1,
    average: str = 'mean',
) -> tuple[AnyArray, AnyArray]:
    """Estimate power spectral density (PSD) using Welch's method."""
