# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.ndimage`: `jax.scipy.ndimage` for named arrays."""

from collections.abc import Sequence

from namedax.core.annotations import ArrayLike
from namedax.core.names import PyTree

def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = 'constant',
    cval: ArrayLike = 0.0,
) -> PyTree:
    """Map the input array to new coordinates using interpolation."""
