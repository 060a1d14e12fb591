"""Interoperation with xarray, checkpointers, optimizers and Flax.

Most libraries need no conversion, because a named array is a pytree with one leaf. This module
handles the other cases. xarray has its own dimension names. A checkpointer needs the shardings of
restored arrays. An optimizer that computes a norm in a mapped body needs the norm of global arrays,
not of blocks. Flax has axis names on parameters, and rules that shard them.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, is_named, make
from namedax.core.call_errors import checks_signature
from namedax.core.display import type_text
from namedax.core.element_types import as_jax
from namedax.core.names import Dims, Mesh, PyTree, check_dims
from namedax.core.region import ambient
from namedax.errors import (
    AxisMappingError,
    AxisNameError,
    AxisResourceError,
    PositionalAxisError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.operands.broadcasting import to_local
from namedax.operands.pytree import data_of
from namedax.ops.shape.conversion import positional
from namedax.resources import communication as comm
from namedax.resources.assignment import check_mesh_axes, named_sharding, parse_resources
from namedax.resources.mesh import any_mesh
from namedax.resources.padding_masks import masked
from namedax.resources.serial import on_devices, with_loops

__all__ = [
    "abstract",
    "clip_by_global_norm",
    "from_flax",
    "from_logical_rules",
    "from_xarray",
    "global_norm",
    "to_flax",
    "to_xarray",
]


def __dir__() -> list[str]:
    return __all__


# --- xarray ---------------------------------------------------------------------------------------


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
) -> Any:
    """Convert an array to an `xarray.DataArray`, or a dict of arrays to an `xarray.Dataset`.

    The values are copied to this host, so a sharded array is gathered. Requires xarray.

    Args:
      x: an array, named or not, or a dict from variable names to arrays. Arrays must be concrete,
        so do not call it in a traced function.
      coords: coordinates, as in `xarray.DataArray`. For a dict they apply to all variables.
        Default: none.
      name: the name of the `DataArray`. Default: none.
      dims: names for the positional axes, in order. Default: `dim_0`, `dim_1`, ... For a dict, each
        variable uses the first names.

    Returns:
      A `DataArray` with dimensions in the order of `x.dims`, or a `Dataset`.

    Raises:
      AxisNameError: a positional axis would get the name of another axis.
      PositionalAxisError: the number of names in `dims` is not the number of positional axes.
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
                f"to_xarray: name={name!r} is given for a dict, whose keys {list(x)} name the"
                " variables. Omit name=."
            )
        variables = {
            key: (_xarray_dims(value, dims, prefix=True), np.asarray(data_of(value)))
            for key, value in x.items()
        }
        return xarray.Dataset(variables, coords=coords)
    return xarray.DataArray(
        np.asarray(data_of(x)), coords=coords, dims=_xarray_dims(x, dims), name=name
    )


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
    """Convert an `xarray.DataArray` to a named array, or a `Dataset` to a dict of named arrays.

    Coordinates, attributes and the name of the `DataArray` are dropped. Values get JAX dtypes: 64
    bits become 32 unless `jax_enable_x64` is set, and integers that do not fit raise an error.

    Args:
      array: a `DataArray` or a `Dataset`.
      positional: dimensions that become positional axes, such as `dim_0` from `to_xarray`. They
        keep the order of the `DataArray`. Default: none.

    Returns:
      A named array (a plain one if no named axis remains), or a dict from variable names to such
      arrays.

    Raises:
      AxisNameError: the name of a dimension is not a valid axis name. For example, xarray allows
        integers.
      AxisNotFoundError: `positional` contains a dimension that does not exist.
      AxisMappingError: the argument is neither a `DataArray` nor a `Dataset`.
      ArgumentError: integers do not fit into 32 bits, and 64-bit types are off (as for the
        milliseconds of a date).
      ImportError: xarray is not installed.

    >>> import xarray
    >>> from_xarray(xarray.DataArray([[1.0, 2.0]], dims=["city", "month"])).dims
    ('city', 'month')
    """
    xarray = _xarray("from_xarray")
    if not isinstance(array, (xarray.DataArray, xarray.Dataset)):
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
            name: _from_data_array(variable, positional)
            for name, variable in array.data_vars.items()
        }
    return _from_data_array(array, positional)


def _from_data_array(array: Any, positional: Sequence[Hashable]) -> AnyArray:
    dims = check_dims(
        tuple(None if dim in positional else dim for dim in array.dims), "from_xarray"
    )
    data = as_jax("from_xarray", array.values)
    return (
        to_local(make(data, dims), "from_xarray", ambient())
        if any(dim is not None for dim in dims)
        else data
    )


# --- checkpointers --------------------------------------------------------------------------------


@checks_signature
def abstract(
    tree: PyTree, axis_resources: Mapping[Hashable, Any], mesh: Mesh | None = None
) -> PyTree:
    """Return the types and shardings of a tree of arrays, into which a checkpointer restores.

    The result is the tree of `nx.shard(tree, axis_resources, mesh)` with a `jax.ShapeDtypeStruct`
    in place of every value, as from `jax.eval_shape`.

    Args:
      tree: a pytree of arrays, named or not, or of their types (from `jax.eval_shape`).
      axis_resources: as in `xmap`. Axis names that an array lacks, and `SerialLoop`s, have no
        effect here.
      mesh: a mesh, possibly an `AbstractMesh` without devices. Default: the mesh of `jax.set_mesh`.

    Returns:
      The tree with named arrays whose `data` is a `jax.ShapeDtypeStruct` with a sharding. An array
      without named axes becomes a replicated `jax.ShapeDtypeStruct`.

    Raises:
      AxisResourceError: `axis_resources` is malformed, or the call is inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis.
      PlacementConflictError: two axes of one array are sharded over one mesh axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> types = jax.eval_shape(lambda: {"w": nx.named(jnp.ones((8, 3)), ["batch", "k"])})
    >>> abstract(types, {"batch": "x"}, mesh)
    {'w': NamedArray(f32[]{batch:8@x, k:3})}
    """
    surrounding = ambient()
    if surrounding is not None and surrounding.resources:
        raise AxisResourceError(
            "abstract: this function cannot be called inside a mapped function. Call it before the"
            " mapped function."
        )
    # Loops do not affect the sharding.
    assignment = on_devices(with_loops(parse_resources(axis_resources, "abstract")))
    mesh = any_mesh(mesh, "abstract")
    check_mesh_axes(assignment, mesh, "abstract")

    def abstract_leaf(leaf: object) -> NamedArray | jax.ShapeDtypeStruct:
        data = data_of(leaf)
        dims = leaf.dims if isinstance(leaf, NamedArray) else (None,) * len(data.shape)
        sharding = named_sharding(dims, data.shape, assignment, mesh, "abstract")
        placed = jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=sharding)
        return make(placed, dims) if isinstance(leaf, NamedArray) else placed

    return jax.tree.map(
        abstract_leaf, jax.eval_shape(lambda leaves: leaves, tree), is_leaf=is_named
    )


# --- optimizers -----------------------------------------------------------------------------------


@checks_signature
def global_norm(tree: PyTree) -> jax.Array:
    """Compute the Euclidean norm over all elements of all arrays, also in a mapped body.

    The result equals `optax.global_norm` of the global arrays. In a mapped body, a function of raw
    leaves, such as optax's, gets only blocks. This function sums over the devices.

    Communication: one all-reduce of a scalar for all arrays with the same mesh axes.

    Args:
      tree: a pytree of arrays.

    Returns:
      A scalar of the arrays' common real dtype. Zero for a tree without arrays.

    >>> import jax.numpy as jnp, namedax as nx
    >>> float(global_norm({"w": nx.named(jnp.array([3.0, 0.0]), ["k"]), "b": jnp.array(4.0)}))
    5.0
    """
    region = ambient()
    totals: dict[frozenset[str], Any] = {}
    for leaf in jax.tree.leaves(tree, is_leaf=is_named):
        block = to_local(leaf, "global_norm", region)
        data, names = (
            jnp.asarray(data_of(block)),
            [dim for dim in dims_of(block) if dim is not None],
        )
        places = (
            {}
            if region is None or not region.manual
            else {name: region.place(name) for name in names}
        )
        for dim, name in enumerate(dims_of(block)):
            data = masked(data, dim, places.get(name, ()), 0)
        placed = [axis for axes in places.values() for axis in axes]
        square = jnp.sum(
            jnp.square(data.real) + jnp.square(data.imag)
            if jnp.iscomplexobj(data)
            else jnp.square(data)
        )
        axes = frozenset(placed)
        totals[axes] = totals[axes] + square if axes in totals else square
    sums = [comm.psum(total, tuple(sorted(axes))) for axes, total in totals.items()]
    return jnp.sqrt(sum(sums[1:], sums[0])) if sums else jnp.zeros(())


@checks_signature
def clip_by_global_norm(max_norm: float) -> Any:
    """Return an `optax.clip_by_global_norm` for named arrays.

    It scales updates down if their norm exceeds `max_norm`. Chain the gradient transformation with
    others as in optax. Outside of mapped functions its results equal those of optax. In a mapped
    body it uses the norm of global arrays (`global_norm`), and optax the norm of one device's
    blocks.

    Communication: one all-reduce of a scalar for all arrays with the same mesh axes.

    Args:
      max_norm: the maximum norm, a number or a scalar array.

    Returns:
      An `optax.GradientTransformation` without state. Updates keep their dtypes.

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
        raise ImportError(
            "clip_by_global_norm: optax is not installed. Install it with `pip install optax`."
        ) from error

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[Any, Any]:
        norm = global_norm(updates)
        small = norm < max_norm
        factor = jnp.where(small, 1, max_norm / jnp.where(small, 1, norm))
        return (
            jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), updates, is_leaf=is_named),
            state,
        )

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


# --- Flax -----------------------------------------------------------------------------------------

_Places = dict[Hashable, tuple[str, ...]]


@checks_signature
def from_logical_rules(
    rules: Iterable[tuple[Hashable, Any]], *arrays: object
) -> dict[Hashable, Any]:
    """Convert logical axis rules, as in Flax and MaxText, to `axis_resources`.

    Flax applies the rules to each array separately. An axis takes its first rule whose mesh axes no
    other axis of the array has taken. A second rule for a name is its second choice. In namedax an
    axis name has one sharding. If you pass `arrays`, every array is sharded as in Flax, or the
    function raises an error. Without `arrays`, each axis name takes its first rule.

    Args:
      rules: pairs of an axis name and a mesh axis, a tuple of mesh axes, or `None` (replicated), in
        order of precedence.
      *arrays: pytrees of named arrays, of their types, or of parameters with Flax metadata. For
        arrays that the body creates, lists of axis names, such as `["batch", "mlp"]`. Default:
        none.

    Returns:
      A dict for `axis_resources`, without replicated axes. If `arrays` are given, it contains only
      their axis names.

    Raises:
      AxisResourceError: the rules are malformed, or they shard an axis differently in two of the
        arrays.

    >>> rules = [("batch", ("data", "fsdp")), ("embed", "fsdp"), ("norm", None)]
    >>> rules += [("mlp", "tensor"), ("heads", "tensor")]
    >>> from_logical_rules(rules)
    {'batch': ('data', 'fsdp'), 'embed': 'fsdp', 'mlp': 'tensor', 'heads': 'tensor'}
    >>> from_logical_rules(rules, ["batch", "mlp"], ["heads", "kv"])
    {'batch': ('data', 'fsdp'), 'mlp': 'tensor', 'heads': 'tensor'}
    """
    pairs = [_checked_rule(rule) for rule in rules]
    given = [names for tree in arrays for names in _names_in(tree)]
    groups = given if arrays else [(name,) for name in dict.fromkeys(name for name, _ in pairs)]
    places: dict[Hashable, tuple[tuple[str, ...], Dims]] = {}
    for names in groups:
        for name, axes in _placed(names, pairs).items():
            before, where = places.setdefault(name, (axes, names))
            if before != axes:
                first, second = (
                    f"is sharded over {show_names(a)}" if a else "is replicated"
                    for a in (before, axes)
                )
                raise AxisResourceError(
                    f"from_logical_rules: by these rules axis {name!r} {first} in the array of"
                    f" {show_names(where)}, and {second} in the array of {show_names(names)}; in"
                    " axis_resources an axis name has one sharding. Rename the axis in one of the"
                    " two arrays (with nx.rename, or {new:old} in an einsum), and add a rule for"
                    " the new name."
                )
    return {name: axes[0] if len(axes) == 1 else axes for name, (axes, _) in places.items() if axes}


def _checked_rule(rule: object) -> tuple[Hashable, tuple[str, ...]]:
    if isinstance(rule, (tuple, list)) and len(rule) == 2:
        name, axes = rule
        axes = () if axes is None else (axes,) if isinstance(axes, str) else axes
        if isinstance(axes, (tuple, list)) and all(isinstance(axis, str) for axis in axes):
            return name, tuple(axes)
    raise AxisResourceError(
        f"from_logical_rules: {rule!r} is not a rule. Write pairs of an axis name and a mesh axis,"
        " a tuple of mesh axes, or None."
    )


def _placed(names: Dims, rules: Iterable[tuple[Hashable, tuple[str, ...]]]) -> _Places:
    """Return the mesh axes of the axes of one array, by rules in order of precedence.

    Each mesh axis is used once.
    """
    places: _Places = {name: () for name in names if name is not None}
    decided: set[Hashable] = set()
    for name, axes in rules:
        taken = {axis for other in places.values() for axis in other}
        if name in places and name not in decided and not taken & set(axes):
            places[name] = axes
            decided.add(name)
    return places


def _is_list_of_names(tree: PyTree) -> bool:
    return (
        isinstance(tree, (list, tuple))
        and bool(tree)
        and all(isinstance(x, str) or x is None or x is ... for x in tree)
    )


def _names_in(tree: PyTree) -> list[Dims]:
    """Return the axis names of every array in a tree, one tuple per array."""
    found = []
    for leaf in jax.tree.leaves(
        tree, is_leaf=lambda x: is_named(x) or _is_boxed(x) or _is_list_of_names(x)
    ):
        dims: Dims | None = (
            leaf.dims
            if isinstance(leaf, NamedArray)
            else _names_of_box(leaf)
            if _is_boxed(leaf)
            else None
        )
        dims = tuple(leaf) if _is_list_of_names(leaf) else dims
        found.append(tuple(dim for dim in dims or () if dim is not None and dim is not ...))
    return [names for names in dict.fromkeys(found) if names]


def _is_boxed(leaf: object) -> bool:
    """Return True if a leaf is a Flax box or variable with axis names.

    Without an import of Flax the result is False.
    """
    linen, nnx = sys.modules.get("flax.core.meta"), sys.modules.get("flax.nnx")
    return (linen is not None and isinstance(leaf, linen.Partitioned)) or (
        nnx is not None and isinstance(leaf, nnx.Variable)
    )


def _names_of_box(box: Any) -> Dims | None:
    if hasattr(box, "get_metadata"):
        metadata = box.get_metadata()
        names = metadata.get("out_sharding") or metadata.get("sharding_names")
    else:
        names = box.names
    return None if names is None else tuple(names)


@checks_signature
def from_flax(tree: PyTree) -> PyTree:
    """Convert parameters with Flax axis names to named arrays.

    Args:
      tree: a pytree with linen's `LogicallyPartitioned` or `Partitioned` boxes (from
        `nn.with_logical_partitioning`). Or a pytree with `nnx.Variable`s that have sharding names
        (from `nnx.with_partitioning`), such as the state from `nnx.split`.

    Returns:
      The tree with a named array in place of each box or variable. An axis without a name is
      positional. An array without axis names becomes or stays a plain array.

    Raises:
      AxisMappingError: the number of names in a box is not the number of axes of its array.
      AxisNameError: a box contains a name twice.

    >>> import flax.linen as nn, jax, jax.numpy as jnp
    >>> init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
    >>> variables = nn.Dense(3, kernel_init=init).init(jax.random.key(0), jnp.ones((2, 4)))
    >>> from_flax(variables)["params"]["kernel"].dims
    ('embed', 'mlp')
    """

    def unbox(path: tuple[Any, ...], leaf: Any) -> Any:
        if not _is_boxed(leaf):
            return leaf
        value, names = (
            (leaf.get_value() if hasattr(leaf, "get_value") else leaf.value),
            _names_of_box(leaf),
        )
        if names is None or isinstance(value, NamedArray):
            return value
        if len(names) != len(value.shape):
            raise AxisMappingError(
                f"from_flax: {jax.tree_util.keystr(path)} has the names {list(names)} for an array"
                f" of shape {tuple(value.shape)}. Pass one name, or None, for each axis where the"
                " parameter is created."
            )
        return (
            make(value, check_dims(names, "from_flax"))
            if any(name is not None for name in names)
            else value
        )

    return jax.tree_util.tree_map_with_path(unbox, tree, is_leaf=_is_boxed)


@checks_signature
def to_flax(tree: PyTree, like: PyTree) -> PyTree:
    """Convert named arrays to parameters with Flax axis names, the inverse of `from_flax`.

    Args:
      tree: a tree from `from_flax`, possibly with other values.
      like: a tree with boxes or variables, such as the argument of `from_flax`. Its values are
        ignored.

    Returns:
      A tree like `like` with the values of `tree`, whose axes are in the order of each box's names.

    Raises:
      NamedAxesLeftError: an array has a named axis that its box does not have.
      AxisMappingError: an array lacks a named axis of its box.

    >>> import flax.linen as nn, jax, jax.numpy as jnp
    >>> init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
    >>> variables = nn.Dense(3, kernel_init=init).init(jax.random.key(0), jnp.ones((2, 4)))
    >>> doubled = jax.tree.map(lambda x: x * 2, from_flax(variables))
    >>> to_flax(doubled, variables)["params"]["kernel"].value.shape
    (4, 3)
    """

    def rebox(box: Any, value: object) -> Any:
        names = _names_of_box(box) if _is_boxed(box) else None
        value = (
            positional(value, list(names) if names else [...])
            if isinstance(value, NamedArray)
            else value
        )
        if not _is_boxed(box):
            return value
        return box.replace(value) if hasattr(box, "get_metadata") else box.replace_boxed(value)

    return jax.tree.map(rebox, like, tree, is_leaf=_is_boxed)
