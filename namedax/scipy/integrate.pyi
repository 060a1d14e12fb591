# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.integrate`: `jax.scipy.integrate` for named arrays."""

from typing import Any

from namedax.core.annotations import Array, ArrayLike, Axis

def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: Axis = -1) -> Array:
    """The integral along one axis by the trapezoid rule.

    Args:
      y: values, named or not.
      x: where they are: an array with the axis, or a plain one with an entry for each of it; default: `dx` apart.
      dx: the distance between two values.
      axis: a position or a name.

    Over a sharded name: one all-reduce of the result; with `x`, also the row at the boundary of two blocks, for both `x` and
    `y`.

    Raises:
      AxisNotFoundError: `y` lacks the name.
      AxisSizeError: `x` has a different size.
    """
