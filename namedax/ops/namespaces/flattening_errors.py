"""Reject arrays without positional axes in functions of JAX that act on all positional axes.

Named axes are batch axes. Without an axis argument, such a function would act on each element
separately: it would return the array unchanged, or one result per element.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from namedax.core.array import NamedArray
from namedax.core.display import type_text
from namedax.errors import PositionalAxisError, show_names
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.operands.axes import is_flat, names_alone, reject_order

__all__ = ["rejects_flattening"]

_JOINED = (
    "nx.concatenate([x, y], axis) along a name that they have, or nx.stack([x, y], 'new') along a"
    " new one"
)
_ALONG = "nx.{op} along that axis as a position, nx.untag(x, [{last!r}])"
_POSITIONS = "nx.{op} of an array with positional axes, such as nx.untag(x, [{last!r}])"
_BY_AXIS, _BY_AXES = "nx.{op}(x, axis={last!r})", "nx.{op}(x, axes=({last!r},))"
_CONVOLVED = "nx.convolve(x, nx.untag(y, [{last!r}]), axis={last!r})"
_ONE_ANSWER = "nx.{op}(x, y) for one answer over all axes"
_PRODUCT = "x * nx.rename(y, {{{last!r}: 'other'}}) for all products of two arrays"
_FOURIER = "fftn ifftn rfftn irfftn fftshift ifftshift"
# What to write for named axes, by the path of the function below `jax`; `None` stands for the array
# with its axes in an explicit order.
_INSTEAD: dict[str, str | None] = {
    f"{module}.{name}": instead
    for module, instead, names in (
        ("numpy", None, "ravel reshape resize diagflat packbits"),
        ("numpy", _PRODUCT, "outer kron"),
        ("numpy", _JOINED, "hstack vstack dstack column_stack block"),
        ("numpy", _ALONG, "poly roots histogram_bin_edges"),
        ("numpy", _ONE_ANSWER, "allclose array_equal array_equiv"),
        ("numpy", "nx.numpy.insert(arr, obj, values, axis={last!r})", "insert"),
        ("numpy", "nx.numpy.delete(arr, obj, axis={last!r})", "delete"),
        ("numpy", "nx.diff(x, axis={last!r})", "ediff1d"),
        ("numpy.fft", _BY_AXES, _FOURIER),
        ("numpy.linalg", _POSITIONS, "matrix_rank"),
        ("scipy.fft", _BY_AXES, "dctn idctn"),
        ("scipy.linalg", _POSITIONS, "block_diag circulant convolution_matrix fiedler"),
        ("scipy.linalg", _POSITIONS, "fiedler_companion leslie toeplitz"),
        ("scipy.signal", _CONVOLVED, "convolve fftconvolve"),
        ("scipy.signal", _POSITIONS, "correlate"),
        ("scipy.stats", _BY_AXIS, "mode rankdata"),
    )
    for name in names.split()
}
# The index of the axis argument, if there is one, and its name.
_AXIS_AT = {
    **{f"numpy.fft.{name}": (1 if "shift" in name else 2, "axes") for name in _FOURIER.split()},
    **dict.fromkeys(("scipy.fft.dctn", "scipy.fft.idctn"), (3, "axes")),
    "numpy.insert": (3, "axis"),
    "numpy.delete": (2, "axis"),
    "numpy.packbits": (1, "axis"),
    "scipy.stats.mode": (1, "axis"),
    "scipy.stats.rankdata": (sys.maxsize, "axis"),
}
# Functions of several arrays, or of a sequence of them; the others act on the first argument.
_OF_SEVERAL = {path for path, text in _INSTEAD.items() if text in (_PRODUCT, _JOINED, _ONE_ANSWER)}
_OF_SEVERAL.add("scipy.linalg.block_diag")


def rejects_flattening(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """Make a function reject arrays whose axes are all named, if it is listed above.

    `path` is its name below `jax`, such as `numpy.ravel`.
    """
    if path not in _INSTEAD:
        return function
    instead, name = _INSTEAD[path], path.rpartition(".")[2]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = (*args, *kwargs.values())
            given = given if path in _OF_SEVERAL else given[:1]
            arrays = [x for x in jax.tree.leaves(given, is_leaf=_is_array) if _is_array(x)]
            named = [x for x in arrays if names_alone(x)]
            if named and all(x.ndim == 0 for x in arrays) and not _gives_axes(path, args, kwargs):
                if instead is None:
                    return reject_order(name, named[0])
                names = names_alone(named[0])
                op = name if instead == _ONE_ANSWER else path
                raise PositionalAxisError(
                    f"{name}: {name} acts on positional axes, and {type_text(named[0])} has names"
                    f" only, {show_names(names)}. Write {instead.format(op=op, last=names[-1])}."
                )
            return function(*args, **kwargs)
        except Exception as error:
            shorten_eager(error)
            raise

    return checked


def _is_array(x: object) -> bool:
    return isinstance(x, (NamedArray, jax.Array, np.ndarray))


def _gives_axes(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if a call gives an axis, or for `reshape` a shape without -1."""
    if path == "numpy.reshape":
        return not is_flat((*args[1:2], kwargs.get("shape", ())))
    if path not in _AXIS_AT:
        return False
    index, parameter = _AXIS_AT[path]
    return (args[index] if len(args) > index else kwargs.get(parameter)) is not None
