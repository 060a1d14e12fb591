# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.image`: `jax.image` for named arrays."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from jax.image import ResizeMethod as ResizeMethod  # type: ignore[attr-defined, unused-ignore]

def resize(
    image: Any,
    shape: Any,
    method: Any,
    antialias: bool = True,
    precision: Any = ...,
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> Any:
    """Resizes an array along named axes, by interpolation, as `jax.image.resize` does.

    Args:
      image: an array, named or not.
      shape: new sizes by name, `{"h": 64, "w": 64}`: all other axes are batch axes. Or the positional shape, as in `jax.image.resize`;
        then names are batch axes.
      method: `"nearest"`, `"linear"`, `"cubic"`, `"lanczos3"` or `"lanczos5"`, as in `jax.image.resize`.
      antialias: whether to smooth where an axis gets smaller.
      precision: of the weighted sums.
      out_axis: with sizes by name, new names, `{"h": "h_out"}`, or `"h_out"` where there is one axis; needed in a mapped function
        for axes whose size changes.

    Returns:
      The resized array, of floats (of the same type for `"nearest"`). Along a sharded axis each device gets the rows next to
      its block that its entries need, by collective-permutes; an axis is gathered where its new name is not on the same mesh
      axes.

    Raises:
      AxisNotFoundError: `image` lacks a name.
      AxisSizeError: in a mapped function a name has a different size than the result, or that does not divide over its mesh
        axes.
      ArgumentTypeError: `out_axis` is given with a positional shape.
    """
def scale_and_translate(
    image: Any,
    shape: Any,
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: Any,
    antialias: bool = True,
    precision: Any = ...,
) -> Any:
    """Apply a scale and translation to an image."""
