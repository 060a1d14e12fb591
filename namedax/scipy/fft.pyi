# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.fft`: `jax.scipy.fft` for named arrays."""

from collections.abc import Hashable, Mapping, Sequence

from namedax.core.annotations import AnyArray, AxisSpec, EitherArray

def dct(
    x: EitherArray,
    type: int = 2,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Computes the discrete cosine transform of the input."""
def dctn(
    x: EitherArray,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: AxisSpec = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Computes the multidimensional discrete cosine transform of the input."""
def idct(
    x: EitherArray,
    type: int = 2,
    n: int | None = None,
    axis: AxisSpec = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Computes the inverse discrete cosine transform of the input."""
def idctn(
    x: EitherArray,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: AxisSpec = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Computes the multidimensional inverse discrete cosine transform of the input."""
