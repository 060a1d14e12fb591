# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.numpy.fft`: `jax.numpy.fft` for named arrays."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, overload

import jax
import jax.typing

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray
from namedax.core.names import DType

def fft(
    a: ArrayLike,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a one-dimensional discrete Fourier transform along a given axis."""
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = (-2, -1),
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a two-dimensional discrete Fourier transform along given axes."""
def fftfreq(
    n: int,
    d: jax.typing.ArrayLike = 1.0,
    *,
    dtype: DType | None = None,
    device: Any | jax.sharding.Sharding | None = None,
    axis: Hashable | None = None,
) -> AnyArray:
    """Return the frequencies of `nx.numpy.fft.fft`, as `jnp.fft.fftfreq`, also along a named axis.

    Args:
      n: the number of samples.
      d: the distance of samples, by default 1.0.
      dtype: the dtype, by default as in `jnp.fft.fftfreq`.
      device: as in `jnp.fft.fftfreq`; by default `None`.
      axis: the name of the result's axis, by default `None`, a positional axis.

    Returns:
      An array with the one axis.

    Communication: none; every device keeps its block.

    Raises:
      AxisSizeError: the axis has a different size in the mapped function.
    """
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a multidimensional discrete Fourier transform along given axes."""
@overload
def fftshift(x: NamedArray, axes: AxisSpec = None) -> NamedArray:
    """Apply `jnp.fft.fftshift` along positional or named axes."""
@overload
def fftshift(x: ArrayLike, axes: AxisSpec = None) -> AnyArray:
    """Apply `jnp.fft.fftshift` along positional or named axes.

    Args:
      x: an array, named or not.
      axes: a positional axis, an axis name, or a tuple of both; by default `None`, all positional
        axes.

    Returns:
      An array of the same axes.

    Communication: along a sharded axis, that of `nx.roll`.

    Raises:
      AxisNotFoundError: `x` lacks a name.
    """
def hfft(
    a: ArrayLike,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a 1-D FFT of an array whose spectrum has Hermitian symmetry."""
def ifft(
    a: ArrayLike,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a one-dimensional inverse discrete Fourier transform."""
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = (-2, -1),
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a two-dimensional inverse discrete Fourier transform."""
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a multidimensional inverse discrete Fourier transform."""
@overload
def ifftshift(x: NamedArray, axes: AxisSpec = None) -> NamedArray:
    """Apply `jnp.fft.ifftshift` along positional or named axes."""
@overload
def ifftshift(x: ArrayLike, axes: AxisSpec = None) -> AnyArray:
    """Apply `jnp.fft.ifftshift` along positional or named axes.

    Args:
      x: an array, named or not.
      axes: a positional axis, an axis name, or a tuple of both; by default `None`, all positional
        axes.

    Returns:
      An array of the same axes.

    Communication: along a sharded axis, that of `nx.roll`.

    Raises:
      AxisNotFoundError: `x` lacks a name.
    """
def ihfft(
    a: ArrayLike,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a 1-D inverse FFT of an array whose spectrum has Hermitian-symmetry."""
def irfft(
    a: ArrayLike,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a real-valued one-dimensional inverse discrete Fourier transform."""
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = (-2, -1),
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a real-valued two-dimensional inverse discrete Fourier transform."""
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a real-valued multidimensional inverse discrete Fourier transform."""
def rfft(
    a: ArrayLike,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a one-dimensional discrete Fourier transform of a real-valued array."""
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = (-2, -1),
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a two-dimensional discrete Fourier transform of a real-valued array."""
def rfftfreq(
    n: int,
    d: jax.typing.ArrayLike = 1.0,
    *,
    dtype: DType | None = None,
    device: Any | jax.sharding.Sharding | None = None,
    axis: Hashable | None = None,
) -> AnyArray:
    """Return the frequencies of `nx.numpy.fft.rfft`, also along a named axis.

    Args:
      n: the number of samples.
      d: the distance of samples, by default 1.0.
      dtype: the dtype, by default as in `jnp.fft.rfftfreq`.
      device: as in `jnp.fft.rfftfreq`; by default `None`.
      axis: the name of the result's axis, by default `None`, a positional axis.

    Returns:
      An array with the one axis.

    Communication: none; every device keeps its block.

    Raises:
      AxisSizeError: the axis has a different size in the mapped function.
    """
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: AxisSpec = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Compute a multidimensional discrete Fourier transform of a real-valued array."""
