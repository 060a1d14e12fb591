"""Evenly spaced numbers and frequencies along an axis, in blocks: `linspace`, `fftfreq`, `rfftfreq`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray
from namedax.core.names import is_name
from namedax.errors import ArgumentTypeError, format_value
from namedax.operands.nmap import Lifted
from namedax.operands.operation import Explicit, operation
from namedax.operands.pytree_leaves import data_of
from namedax.operands.sizes import size_of
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.shape.conversion import named

__all__ = ["FFT_FUNCTIONS", "fftfreq", "linspace", "rfftfreq"]


@operation(explicit=Explicit.AS_JAX)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: Any = 0,
    *,
    device: Any = None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Create evenly spaced numbers between two ends, along a new axis that may be named.

    Args:
      start: the first value: a number or an array, named or not.
      stop: the last value, or the excluded end; it broadcasts with `start` by name.
      num: the number of values, by default 50.
      endpoint: if `True` (default), `stop` is the last value.
      retstep: if `True`, the distance is returned too; by default `False`.
      dtype: the dtype, by default as in `jnp.linspace`.
      axis: the name of the new axis, or its index among the positional axes; by default 0.
      device: as in `jnp.linspace`, for a positional axis; by default `None`.

    Returns:
      The values, with the axes of `start` and `stop` and the new axis; with `retstep`, a pair of
      the values and the distance.

    Communication: none.

    Raises:
      AxisSizeError: `num` differs from the size of the axis in the mapped function.
      ArgumentTypeError: `num` is not an integer, or a device is given with a named axis.

    >>> import namedax as nx
    >>> nx.positional(nx.linspace(0.0, 1.0, 5, axis="k"), ["k"])
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    op = "linspace"
    if not is_name(axis):
        positional: Any = jnp.linspace
        options = {} if device is None else {"device": device}
        return Lifted(
            lambda a, b: positional(a, b, num, endpoint, retstep, dtype, axis, **options), op
        )(start, stop)
    if device is not None:
        raise ArgumentTypeError(
            f"{op}: device= is only for a positional axis. Shard the axis {format_value(axis)} with"
            " axis_resources."
        )
    if isinstance(num, bool) or not isinstance(num, (int, np.integer)) or num < 0:
        raise ArgumentTypeError(
            f"{op}: num, the number of values along {format_value(axis)}, must be a nonnegative"
            f" integer, got {format_value(num)}."
        )
    count = size_of(op, axis, int(num), "num")
    ends = [data_of(end) if hasattr(end, "dtype") else end for end in (start, stop)]
    kind = jax.eval_shape(
        lambda: jnp.linspace(jnp.zeros_like(ends[0]), jnp.zeros_like(ends[1]), 1)
    ).dtype
    out = kind if dtype is None else jnp.zeros((), dtype).dtype
    kind = out if jnp.issubdtype(out, jnp.inexact) else kind  # as JAX computes
    divisor = max(count - 1 if endpoint else count, 1)

    def values(a: Any, b: Any, i: Any) -> Any:
        a, b = (jnp.asarray(end, kind) for end in (a, b))
        part = i.astype(jnp.zeros((), kind).real.dtype) / divisor
        value = a * (1 - part) + b * part
        if endpoint and count > 1:
            value = jnp.where(i == count - 1, b, value)
        return (jnp.floor(value) if jnp.issubdtype(out, jnp.integer) else value).astype(out)

    result = apply_elementwise(op, values, start, stop, global_index(op, axis, count))
    if not retstep:
        return result
    steps = count - 1 if endpoint else count

    def distance(a: Any, b: Any) -> Any:
        return (
            (jnp.asarray(b, kind) - jnp.asarray(a, kind)) / steps
            if steps > 0
            else jnp.full(np.shape(a), jnp.nan, kind)
        )

    return result, apply_elementwise(op, distance, start, stop)


def _frequencies(op: str, n: Any, d: Any, dtype: Any, device: Any, axis: Any) -> Any:
    options = {} if device is None else {"device": device}
    values = getattr(jnp.fft, op)(n, d, dtype=dtype, **options)
    return values if axis is None else named(values, [axis])


def fftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None, axis: Any = None
) -> AnyArray:
    """Return the frequencies of `nx.numpy.fft.fft`, along a named axis if `axis` is given; otherwise as in `jnp.fft.fftfreq`.

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

    >>> import namedax as nx
    >>> nx.numpy.fft.fftfreq(4, axis="f").named_shape["f"]
    4
    """
    return _frequencies("fftfreq", n, d, dtype, device, axis)


def rfftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None, axis: Any = None
) -> AnyArray:
    """Return the frequencies of `nx.numpy.fft.rfft`, along a named axis if `axis` is given; see `fftfreq`.

    >>> import namedax as nx
    >>> nx.numpy.fft.rfftfreq(4, axis="f").named_shape["f"]
    3
    """
    return _frequencies("rfftfreq", n, d, dtype, device, axis)


FFT_FUNCTIONS: dict[str, Callable[..., Any]] = {"fftfreq": fftfreq, "rfftfreq": rfftfreq}
