# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.fft`: `jax.scipy.fft` for named arrays."""

from collections.abc import Hashable, Mapping, Sequence

from namedax.core.annotations import Array, Axis

def dct(
    x: Array,
    type: int = 2,
    n: int | None = None,
    axis: Axis = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> Array:
    """Computes the discrete cosine transform of the input"""
def dctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Axis = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> Array:
    """Computes the multidimensional discrete cosine transform of the input"""
def idct(
    x: Array,
    type: int = 2,
    n: int | None = None,
    axis: Axis = -1,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> Array:
    """Computes the inverse discrete cosine transform of the input"""
def idctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Axis = None,
    norm: str | None = None,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> Array:
    """Computes the multidimensional inverse discrete cosine transform of the input"""
