"""Between named arrays and other libraries: xarray, checkpointers, optimisers.

Most libraries need nothing: a named array is a pytree with one leaf. This module has what a pytree cannot say. xarray has
names of its own; a checkpointer wants to know where restored arrays are to live; and an optimiser that computes a norm inside
of a mapped body must compute that of whole arrays, not of blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray, dims_of, is_named, make
from namedax.core.display import type_text
from namedax.core.names import Dims, check_dims
from namedax.core.region import ambient
from namedax.errors import (
    AxisMappingError,
    AxisNameError,
    AxisResourceError,
    PositionalAxisError,
    raise_not_found,
    show_names,
)
from namedax.operands.broadcasting import local_block
from namedax.operands.leaves import data_of
from namedax.resources import communication as comm
from namedax.resources.assignment import check_mesh_axes, named_sharding, parse_resources
from namedax.resources.mesh import any_mesh
from namedax.resources.real_entries import masked
from namedax.resources.serial import on_devices, with_loops

__all__ = ["abstract", "clip_by_global_norm", "from_xarray", "global_norm", "to_xarray"]


def __dir__() -> list[str]:
    return __all__


# --- xarray ---------------------------------------------------------------------------------------------------------


def _xarray(op: str) -> Any:
    try:
        import xarray
    except ImportError as error:
        raise ImportError(f"{op}: xarray is not installed. Install it with `pip install xarray`.") from error
    return xarray


def to_xarray(
    x: Any, coords: Mapping[Any, Any] | None = None, name: Hashable | None = None, *, dims: Sequence[Hashable] | None = None
) -> Any:
    """An `xarray.DataArray` with the values and names of an array, or an `xarray.Dataset` of a dict of them.

    The values are copied to this host, so a sharded array is gathered. Needs xarray.

    Args:
      x: an array, named or not, or a dict from names of variables to arrays. Not in a traced function: there are no values yet.
      coords: coordinates, as in `xarray.DataArray`. For a dict they belong to all variables together.
      name: the name of the `DataArray`.
      dims: names for the positional axes, in order; default: `dim_0`, `dim_1`, ... For a dict these are shared by all variables,
        each of which uses the first ones.

    Returns:
      A `DataArray` with the physical order of `x.dims`, or a `Dataset`.

    Raises:
      AxisNameError: an axis would have the name of another one.
      PositionalAxisError: `dims` has another number of names than the array has positional axes.
      AxisMappingError: `name` is given for a dict.
      ImportError: xarray is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(6.0).reshape(2, 3), ["city", "month"])
    >>> temperature = to_xarray(x, coords={"month": [1, 2, 3]}, name="temperature")
    >>> temperature.dims, temperature.sel(month=2).values.tolist()
    (('city', 'month'), [1.0, 4.0])
    """
    xarray = _xarray("to_xarray")
    if isinstance(x, Mapping):
        if name is not None:
            raise AxisMappingError(
                f"to_xarray: name={name!r} names one array; the keys {list(x)} name the variables of a dict."
            )
        variables = {key: (_xarray_dims(value, dims, prefix=True), np.asarray(data_of(value))) for key, value in x.items()}
        return xarray.Dataset(variables, coords=coords)
    return xarray.DataArray(np.asarray(data_of(x)), coords=coords, dims=_xarray_dims(x, dims), name=name)


def _xarray_dims(x: Any, given: Sequence[Hashable] | None, prefix: bool = False) -> Dims:
    dims = dims_of(x)
    count = dims.count(None)
    names = [f"dim_{i}" for i in range(count)] if given is None else list(given)
    if len(names) < count or (len(names) > count and not prefix):
        raise PositionalAxisError(
            f"to_xarray: dims={names!r} has {len(names)} names for the {count} positional axes of {type_text(x)}; xarray names every "
            "axis. Write one name per positional axis."
        )
    taken = [name for name in names[:count] if name in dims]
    if taken:
        raise AxisNameError(
            f"to_xarray: a positional axis of {type_text(x)} would be called {show_names(taken)}, as a named one is. Give other names "
            "for the positional axes in dims=."
        )
    positional = iter(names)
    return check_dims(tuple(next(positional) if dim is None else dim for dim in dims), "to_xarray")


def from_xarray(array: Any, positional: Sequence[Hashable] = ()) -> Any:
    """A named array with the values and dimensions of an `xarray.DataArray`, or a dict of them from an `xarray.Dataset`.

    Coordinates, attributes and the array's own name are dropped. Values get JAX's element types: 64 bits become 32 unless
    `jax_enable_x64` is set.

    Args:
      array: a `DataArray` or a `Dataset`.
      positional: dimensions that become positional axes, such as the `dim_0` that `to_xarray` made of one. Their order is that
        of the `DataArray`.

    Returns:
      A named array (a plain one if no name is left), or a dict from names of variables to them.

    Raises:
      AxisNameError: a dimension has no name that an axis can have (xarray allows integers).
      AxisNotFoundError: `positional` mentions a dimension that is not there.
      AxisMappingError: the argument is neither a `DataArray` nor a `Dataset`.
      ImportError: xarray is not installed.

    >>> import xarray
    >>> from_xarray(xarray.DataArray([[1.0, 2.0]], dims=["city", "month"])).dims
    ('city', 'month')
    """
    xarray = _xarray("from_xarray")
    if not isinstance(array, (xarray.DataArray, xarray.Dataset)):
        raise AxisMappingError(
            f"from_xarray: takes an xarray.DataArray or an xarray.Dataset, not a {type(array).__name__}. Use nx.named for arrays "
            "without names."
        )
    if isinstance(positional, str):
        positional = (positional,)
    for name in positional:
        if name not in array.dims:
            text = f"{type(array).__name__} of dimensions {dict(array.sizes)}"
            raise_not_found("from_xarray", name, text, array.dims, "It is listed in positional=.")
    if isinstance(array, xarray.Dataset):
        return {name: _from_data_array(variable, positional) for name, variable in array.data_vars.items()}
    return _from_data_array(array, positional)


def _from_data_array(array: Any, positional: Sequence[Hashable]) -> Any:
    dims = check_dims(tuple(None if dim in positional else dim for dim in array.dims), "from_xarray")
    data = jnp.asarray(array.values)
    return local_block(make(data, dims), "from_xarray", ambient()) if any(dim is not None for dim in dims) else data


# --- checkpointers --------------------------------------------------------------------------------------------------


def abstract(tree: Any, axis_resources: Mapping[Hashable, Any], mesh: Any = None) -> Any:
    """Types of arrays with a placement: what a checkpointer restores into.

    The result is to `nx.shard(tree, axis_resources, mesh)` what `jax.eval_shape` is to a function: the same tree, with
    a `jax.ShapeDtypeStruct` in place of every value.

    Args:
      tree: a pytree of arrays, named or not, or of their types (from `jax.eval_shape`).
      axis_resources: as in `xmap`; names that an array lacks do not matter here, nor does a `SerialLoop`.
      mesh: a mesh, possibly an `AbstractMesh` of devices that are not there; default: that of `jax.set_mesh`.

    Returns:
      The tree with named arrays whose `data` is a `jax.ShapeDtypeStruct` with a sharding, and `jax.ShapeDtypeStruct`s,
      replicated, for arrays without names.

    Raises:
      AxisResourceError: `axis_resources` is malformed, or this is inside of a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis.
      PlacementConflictError: two names of one array are on one mesh axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> types = jax.eval_shape(lambda: {"w": nx.named(jnp.ones((8, 3)), ["batch", "k"])})
    >>> abstract(types, {"batch": "x"}, mesh)
    {'w': NamedArray(f32[]{batch:8@x, k:3})}
    """
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            "abstract: says where arrays live outside of mapped functions; call it before the mapped function."
        )
    assignment = on_devices(with_loops(parse_resources(axis_resources, "abstract")))  # time is not a place
    mesh = any_mesh(mesh, "abstract")
    check_mesh_axes(assignment, mesh, "abstract")

    def one(leaf: Any) -> Any:
        data = data_of(leaf)
        dims = leaf.dims if isinstance(leaf, NamedArray) else (None,) * len(data.shape)
        sharding = named_sharding(dims, data.shape, assignment, mesh, "abstract")
        placed = jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=sharding)
        return make(placed, dims) if isinstance(leaf, NamedArray) else placed

    return jax.tree.map(one, jax.eval_shape(lambda leaves: leaves, tree), is_leaf=is_named)


# --- optimisers -----------------------------------------------------------------------------------------------------


def global_norm(tree: Any) -> jax.Array:
    """The Euclidean norm of all elements of all arrays together, over names and positions, in a mapped body too.

    The same number as `optax.global_norm` of the whole arrays. In a mapped body a function of raw leaves, as optax's is, sees
    only blocks; this one adds up what the devices have: one all-reduce of a scalar for all arrays with the same mesh axes.

    Args:
      tree: a pytree of arrays.

    Returns:
      A scalar, of the arrays' common real type. Zero for a tree without arrays.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(global_norm({"w": nx.named(jnp.array([3.0, 0.0]), ["k"]), "b": jnp.array(4.0)}))
    5.0
    """
    region = ambient()
    totals: dict[frozenset[str], Any] = {}
    for leaf in jax.tree.leaves(tree, is_leaf=is_named):
        block = local_block(leaf, "global_norm", region)
        data, names = jnp.asarray(data_of(block)), [dim for dim in dims_of(block) if dim is not None]
        places = {} if region is None or not region.manual else {name: region.place(name) for name in names}
        for dim, name in enumerate(dims_of(block)):
            data = masked(data, dim, places.get(name, ()), 0)
        placed = [axis for axes in places.values() for axis in axes]
        square = jnp.sum(jnp.square(data.real) + jnp.square(data.imag) if jnp.iscomplexobj(data) else jnp.square(data))
        axes = frozenset(placed)
        totals[axes] = totals[axes] + square if axes in totals else square
    sums = [comm.psum(total, tuple(sorted(axes))) for axes, total in totals.items()]
    return jnp.sqrt(sum(sums[1:], sums[0])) if sums else jnp.zeros(())


def clip_by_global_norm(max_norm: float) -> Any:
    """`optax.clip_by_global_norm` over names: updates are scaled down where their norm is larger than `max_norm`.

    A transformation of gradients as optax's, to be chained with others; outside of mapped functions it gives the same numbers as
    optax's own. In a mapped body it takes the norm over whole arrays (`global_norm`: one all-reduce of a scalar for all arrays with
    the same mesh axes), where optax's takes that of one device's blocks.

    Args:
      max_norm: the largest norm, a number or a scalar array.

    Returns:
      An `optax.GradientTransformation`, without a state. Updates keep their element types.

    Raises:
      ImportError: optax is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> clip = nx.interop.clip_by_global_norm(1.0)
    >>> updates = {"w": nx.named(jnp.array([3.0, 0.0]), ["k"]), "b": jnp.array(4.0)}
    >>> clipped, _ = clip.update(updates, clip.init(updates))
    >>> nx.positional(clipped["w"], ["k"]), clipped["b"]
    (Array([0.6, 0. ], dtype=float32), Array(0.8, dtype=float32))
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError("clip_by_global_norm: optax is not installed. Install it with `pip install optax`.") from error

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        norm = global_norm(updates)
        small = norm < max_norm
        factor = jnp.where(small, 1, max_norm / jnp.where(small, 1, norm))
        return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), updates, is_leaf=is_named), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
