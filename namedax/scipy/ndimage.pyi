# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.ndimage`: `jax.scipy.ndimage` for named arrays."""

from collections.abc import Sequence
from typing import Any

from namedax.core.annotations import ArrayLike

def map_coordinates(
    input: ArrayLike, coordinates: Sequence[Any], order: int, mode: str = 'constant', cval: ArrayLike = 0.0,
) -> Any:
    """Map the input array to new coordinates using interpolation."""
