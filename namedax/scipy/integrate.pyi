# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.integrate`: `jax.scipy.integrate` for named arrays."""

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec

def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: AxisSpec = -1,
) -> AnyArray:
    """Integrate along one axis by the trapezoid rule.

    Args:
      y: values, named or not.
      x: the coordinates of the values: an array with the axis, or a plain one with one element for
        each of its elements. By default the spacing is `dx`.
      dx: the distance between two values, by default 1.0.
      axis: a positional or named axis, by default -1.

    Communication: over a sharded axis, one all-reduce of the result. With `x`, also the row at the
    boundary of two blocks, for both `x` and `y`.

    Raises:
      AxisNotFoundError: `y` lacks the axis.
      AxisSizeError: `x` has a different size.
    """
