# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.image`: `jax.image` for named arrays."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
from jax.image import ResizeMethod as ResizeMethod  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.names import PyTree, Shape

def resize(
    image: ArrayLike,
    shape: Shape | Mapping[Hashable, int],
    method: str | jax.image.ResizeMethod,
    antialias: bool = True,
    precision: jax.lax.PrecisionLike = ...,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Resize an array along named axes by interpolation, as `jax.image.resize`.

    Args:
      image: an array, named or not.
      shape: new sizes by name, `{"h": 64, "w": 64}`, with all other axes as batch axes. Or the
        positional shape, as in `jax.image.resize`, with named axes as batch axes.
      method: `"nearest"`, `"linear"`, `"cubic"`, `"lanczos3"` or `"lanczos5"`, as in
        `jax.image.resize`.
      antialias: if `True` (default), smooth if an axis shrinks.
      precision: the precision of the weighted sums, by default `lax.Precision.HIGHEST`.
      out_axis: with sizes by name, new names, `{"h": "h_out"}`, or `"h_out"` for one axis; by
        default `None`. Required in a mapped function for axes that change their size.

    Returns:
      The resized array, of floats (of the same dtype for `"nearest"`).

    Communication: along a sharded axis each device receives the rows next to its block that its
    elements need, by collective-permutes. An axis is gathered if its new name is not sharded over
    the same mesh axes.

    Raises:
      AxisNotFoundError: `image` lacks a named axis.
      AxisSizeError: an axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.
      ArgumentTypeError: `out_axis` is given with a positional shape.
    """
def scale_and_translate(
    image: object,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: object,
    translation: object,
    method: str | Any,
    antialias: bool = True,
    precision: object = ...,
) -> PyTree:
    """Apply a scale and translation to an image."""
