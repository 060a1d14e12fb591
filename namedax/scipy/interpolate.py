"""The namespace `nx.scipy.interpolate`: `jax.scipy.interpolate` for named arrays."""

from __future__ import annotations

from typing import Any

import jax as _jax
import jax.numpy as _jnp
import jax.scipy as _jsp
import numpy as _np

from namedax.core.annotations import AnyArray as _AnyArray
from namedax.core.annotations import ArrayLike as _ArrayLike
from namedax.core.names import PyTree as _PyTree
from namedax.errors import ArgumentTypeError as _ArgumentTypeError
from namedax.errors import format_value as _shown
from namedax.ops.operands.axes import holds_names as _holds_names
from namedax.ops.operands.nmap import nmap as _nmap

__all__ = ["RegularGridInterpolator"]


def _make(*args: Any) -> Any:
    interpolator: Any = _jsp.interpolate.RegularGridInterpolator  # its annotations are incomplete
    return interpolator(*args)


class RegularGridInterpolator:
    """A `jax.scipy.interpolate.RegularGridInterpolator` for named arrays.

    Args:
      points: the coordinates along each axis of the grid.
      values: the values on the grid. Their first positional axes are the axes of the grid.
      method: `"linear"` or `"nearest"`. Default: `"linear"`.
      bounds_error: as in JAX, which supports `False` only. Default: `False`.
      fill_value: the value outside of the grid, or `None` to extrapolate. Default: NaN.

    Named axes are batch axes: the result has the named axes of the values, of the points and of the
    coordinates in the call.

    Communication: none.

    >>> import jax.numpy as jnp, namedax as nx
    >>> values = nx.named(jnp.array([[0.0, 1.0, 4.0], [0.0, 2.0, 8.0]]), ["run", None])
    >>> f = nx.scipy.interpolate.RegularGridInterpolator((jnp.arange(3.0),), values)
    >>> nx.positional(f(jnp.array([[0.5], [1.5]])), ["run", None])
    Array([[0.5, 2.5],
           [1. , 5. ]], dtype=float32)
    """

    def __init__(
        self,
        points: Any,
        values: _ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: float | None = _jnp.nan,
    ) -> None:
        if not isinstance(points, (list, tuple)) and _np.ndim(points) == 0:
            raise _ArgumentTypeError(
                "RegularGridInterpolator: points must be a list or tuple of arrays, one per axis"
                f" of the grid, got {_shown(points)}."
            )
        self._arrays = tuple(points), values
        self._options = method, bounds_error, fill_value
        if not _holds_names(self._arrays):
            _make(*self._arrays, *self._options)  # raises for invalid arguments

    def __call__(self, xi: _ArrayLike, method: str | None = None) -> _AnyArray:
        """Interpolate at `xi`, whose last positional axis has one coordinate per grid axis."""

        def interpolate(arrays: _PyTree, xi: _jax.Array) -> _jax.Array:
            return _make(*arrays, *self._options)(xi, method)

        return _nmap(interpolate)(self._arrays, xi)
