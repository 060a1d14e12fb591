"""Conversion from and to xarray, which has dimension names of its own."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, make
from namedax.core.display import type_text
from namedax.core.element_types import as_jax
from namedax.core.names import Dims, check_dims
from namedax.core.region import ambient
from namedax.errors import (
    AxisMappingError,
    AxisNameError,
    PositionalAxisError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.pytree import data_of
from namedax.resources.stored_padding import on_host

__all__ = ["from_xarray", "to_xarray"]


def _xarray(op: str) -> ModuleType:
    try:
        import xarray
    except ImportError as error:
        raise ImportError(
            f"{op}: xarray is not installed. Install it with `pip install xarray`."
        ) from error
    module: ModuleType = xarray
    return module


@checks_signature
def to_xarray(
    x: ArrayLike | Mapping[Hashable, ArrayLike],
    coords: Mapping[Any, Any] | None = None,
    name: Hashable | None = None,
    *,
    dims: Sequence[Hashable] | None = None,
    like: Any = None,
) -> Any:
    """Convert an array to an `xarray.DataArray`, or a dict of arrays to an `xarray.Dataset`.

    The values are copied to this host. Requires xarray.

    Args:
      x: an array, named or not, or a dict from variable names to arrays. Arrays must be concrete,
        so do not call it in a traced function.
      coords: coordinates, as in `xarray.DataArray`. For a dict they apply to all variables.
        Default: none. The `coords` of another `DataArray` or `Dataset` apply where they fit:
        coordinates along axes that `x` lacks are left out.
      name: the name of the `DataArray`. Default: none.
      dims: names for the positional axes, in order. Default: `dim_0`, `dim_1`, ... For a dict, each
        variable uses the first names.
      like: the `DataArray` or, for a dict, the `Dataset` from which the values were computed. Its
        attributes, its name and the coordinates along axes that `x` still has are kept; a variable
        has those of the variable of its name. `coords` and `name` take precedence. Default: none.

    Returns:
      A `DataArray` with dimensions in the order of `x.dims`, or a `Dataset`.

    Communication: a sharded array is gathered on this host.

    Raises:
      AxisNameError: a positional axis would get the name of another axis.
      PositionalAxisError: the number of names in `dims` is not the number of positional axes.
      AxisMappingError: `name` is given for a dict, or `like` is not of the kind of the result.
      ImportError: xarray is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0).reshape(2, 3), ["city", "month"])
    >>> temperature = nx.to_xarray(x, coords={"month": [1, 2, 3]}, name="temperature")
    >>> temperature.dims, temperature.sel(month=2).values.tolist()
    (('city', 'month'), [1.0, 4.0])
    """
    xarray = _xarray("to_xarray")
    if like is not None:
        kind = xarray.Dataset if isinstance(x, Mapping) else xarray.DataArray
        if not isinstance(like, kind):
            raise AxisMappingError(
                f"to_xarray: like= is of type {type(like).__name__}, and the result is a"
                f" {kind.__name__}. Pass the {kind.__name__} whose coordinates and attributes the"
                " result keeps."
            )
        coords = like.coords if coords is None else coords
    if isinstance(x, Mapping):
        if name is not None:
            raise AxisMappingError(
                f"to_xarray: name={name!r} is given for a dict, whose keys {list(x)} name the"
                " variables. Omit name=."
            )
        known = {} if like is None else like.data_vars
        variables = {
            key: (
                _xarray_dims(value, dims, prefix=True),
                _values(value),
                known[key].attrs if key in known else None,
            )
            for key, value in x.items()
        }
        found = {dim for of_variable, *_ in variables.values() for dim in of_variable}
        attributes = None if like is None else like.attrs
        return xarray.Dataset(variables, coords=_along(coords, found), attrs=attributes)
    named = _xarray_dims(x, dims)
    attributes, kept = (None, None) if like is None else (like.attrs, like.name)
    return xarray.DataArray(
        _values(x),
        coords=_along(coords, named),
        dims=named,
        name=kept if name is None else name,
        attrs=attributes,
    )


def _along(coords: Mapping[Any, Any] | None, dims: Collection[Hashable | None]) -> Any:
    """Leave out the coordinates of another object along other dimensions; a dict is unchanged."""
    if not isinstance(coords, _xarray("to_xarray").Coordinates):
        return coords
    other = [key for key, value in coords.items() if not set(value.dims) <= set(dims)]
    return coords.to_dataset().drop_vars(other).coords


def _values(x: ArrayLike) -> np.ndarray:
    return np.asarray(data_of(on_host(x) if isinstance(x, NamedArray) else x))


def _xarray_dims(x: ArrayLike, given: Sequence[Hashable] | None, prefix: bool = False) -> Dims:
    dims = dims_of(x)
    count = dims.count(None)
    names = [f"dim_{i}" for i in range(count)] if given is None else list(given)
    if len(names) < count or (len(names) > count and not prefix):
        raise PositionalAxisError(
            f"to_xarray: dims={format_value(names)} has {len(names)} names for the {count}"
            f" positional axes of {type_text(x)}; xarray names every axis. Pass one name per"
            " positional axis."
        )
    taken = [name for name in names[:count] if name in dims]
    if taken:
        raise AxisNameError(
            f"to_xarray: a positional axis of {type_text(x)} would get the name of its named axis"
            f" {show_names(taken)}. Pass other names for the positional axes in dims=."
        )
    positional = iter(names)
    return check_dims(tuple(next(positional) if dim is None else dim for dim in dims), "to_xarray")


@checks_signature
def from_xarray(
    array: object, positional: Sequence[Hashable] = ()
) -> AnyArray | dict[Hashable, AnyArray]:
    """Convert an array of xarray to a named array, or a `Dataset` to a dict of named arrays.

    Coordinates, attributes and the name of the `DataArray` are dropped. Values get JAX dtypes: 64
    bits become 32 unless `jax_enable_x64` is set, and integers that do not fit raise an error.

    Args:
      array: a `DataArray`, `Variable` or `NamedArray` of xarray, or a `Dataset`.
      positional: dimensions that become positional axes, such as `dim_0` from `to_xarray`. They
        keep the order of the array. Default: none.

    Returns:
      A named array (a plain one if no named axis remains), or a dict from variable names to such
      arrays.

    Raises:
      AxisNameError: the name of a dimension is not a valid axis name. For example, xarray allows
        integers.
      AxisNotFoundError: `positional` contains a dimension that does not exist.
      AxisMappingError: the argument is a `DataTree`, or has no names of xarray.
      ArgumentError: integers do not fit into 32 bits, and 64-bit types are off (as for the
        milliseconds of a date).
      ArgumentTypeError: the values are dates or strings, which JAX does not support.
      ImportError: xarray is not installed.

    >>> import xarray, namedax as nx
    >>> nx.from_xarray(xarray.DataArray([[1.0, 2.0]], dims=["city", "month"])).dims
    ('city', 'month')
    """
    xarray = _xarray("from_xarray")
    if isinstance(array, xarray.DataTree):
        raise AxisMappingError(
            f"from_xarray: a DataTree with the groups {[*array.groups]} has one Dataset per group."
            " Convert each of them: {node.path: nx.from_xarray(node.to_dataset()) for node in"
            " tree.subtree}."
        )
    # A Variable is a NamedArray of xarray.
    if not isinstance(array, (xarray.DataArray, xarray.Dataset, xarray.NamedArray)):
        raise AxisMappingError(
            "from_xarray: expected an xarray.DataArray or an xarray.Dataset, got a value of type"
            f" {type(array).__name__}. Use nx.named for arrays without names."
        )
    if isinstance(positional, str):
        positional = (positional,)
    for name in positional:
        if name not in array.dims:
            text = f"{type(array).__name__} of dimensions {dict(array.sizes)}"
            raise_not_found("from_xarray", name, text, array.dims, "It is listed in positional=.")
    if isinstance(array, xarray.Dataset):
        return {
            name: _from_data_array(variable, positional, f"from_xarray: variable {name!r}")
            for name, variable in array.data_vars.items()
        }
    return _from_data_array(array, positional, "from_xarray")


def _from_data_array(array: Any, positional: Sequence[Hashable], op: str) -> AnyArray:
    dims = check_dims(tuple(None if dim in positional else dim for dim in array.dims), op)
    data = as_jax(op, np.asarray(array.data))
    return (
        to_local(make(data, dims), "from_xarray", ambient())
        if any(dim is not None for dim in dims)
        else data
    )
