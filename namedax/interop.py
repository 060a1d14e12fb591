"""Between named arrays and other libraries: xarray, checkpointers, optimisers, Flax.

Most libraries need nothing: a named array is a pytree with one leaf. This module has what a pytree cannot say. xarray has
names of its own; a checkpointer wants to know where restored arrays are to live; and an optimiser that computes a norm inside
of a mapped body must compute that of whole arrays, not of blocks. Flax has names of its own, on parameters, and rules that place them.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray, dims_of, is_named, make
from namedax.core.call_errors import checks_signature
from namedax.core.display import type_text
from namedax.core.element_types import as_jax
from namedax.core.names import Dims, check_dims
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
from namedax.operands.pytree_leaves import data_of
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


# --- xarray ---------------------------------------------------------------------------------------------------------


def _xarray(op: str) -> Any:
    try:
        import xarray
    except ImportError as error:
        raise ImportError(f"{op}: xarray is not installed. Install it with `pip install xarray`.") from error
    return xarray


@checks_signature
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
            f"to_xarray: dims={format_value(names)} has {len(names)} names for the {count} positional axes of {type_text(x)}; xarray names every "
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


@checks_signature
def from_xarray(array: Any, positional: Sequence[Hashable] = ()) -> Any:
    """A named array with the values and dimensions of an `xarray.DataArray`, or a dict of them from an `xarray.Dataset`.

    Coordinates, attributes and the array's own name are dropped. Values get JAX's element types: 64 bits become 32 unless
    `jax_enable_x64` is set, and integers that do not fit are an error.

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
      ArgumentError: integers do not fit into 32 bits, and 64-bit types are off (as for the milliseconds of a date).
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
    data = as_jax("from_xarray", array.values)
    return to_local(make(data, dims), "from_xarray", ambient()) if any(dim is not None for dim in dims) else data


# --- checkpointers --------------------------------------------------------------------------------------------------


@checks_signature
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


@checks_signature
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
        block = to_local(leaf, "global_norm", region)
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


@checks_signature
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


# --- Flax -----------------------------------------------------------------------------------------------------------

_Places = dict[Hashable, tuple[str, ...]]


@checks_signature
def from_logical_rules(rules: Iterable[tuple[Hashable, Any]], *arrays: Any) -> dict[Hashable, Any]:
    """`axis_resources` of logical axis rules, as Flax and MaxText write them.

    Such rules are read once for each array: the first rule for one of its names wins whose mesh axes none of its other names has taken, so
    a second rule for the same name is its second choice. In namedax a name lives in one place. Say which names meet in one array, and
    every array is placed as Flax would place it, or it is an error; say nothing, and each name takes its first rule.

    Args:
      rules: pairs of a name and a mesh axis, a tuple of mesh axes, or `None` (not spread), in order of precedence.
      *arrays: what has the names that meet: pytrees of named arrays, of their types, or of parameters with Flax's metadata; and lists of
        names, for arrays that are born in the body, such as `["batch", "mlp"]`.

    Returns:
      A dict for `axis_resources`, without names that are not spread; where `arrays` are given, of the names that they have.

    Raises:
      AxisResourceError: the rules are malformed; or they place one name differently in two of the arrays.

    >>> rules = [("batch", ("data", "fsdp")), ("embed", "fsdp"), ("mlp", "tensor"), ("heads", "tensor"), ("norm", None)]
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
                first, second = (f"lives on {show_names(a)}" if a else "is not spread" for a in (before, axes))
                raise AxisResourceError(
                    f"from_logical_rules: by these rules axis {name!r} {first} in the array of {show_names(where)}, and {second} in that of "
                    f"{show_names(names)}; in axis_resources a name lives in one place. Give it another name in one of the two arrays (an "
                    "einsum reads {new:old}, nx.rename renames), and a rule for that."
                )
    return {name: axes[0] if len(axes) == 1 else axes for name, (axes, _) in places.items() if axes}


def _checked_rule(rule: Any) -> tuple[Hashable, tuple[str, ...]]:
    if isinstance(rule, (tuple, list)) and len(rule) == 2:
        name, axes = rule
        axes = () if axes is None else (axes,) if isinstance(axes, str) else axes
        if isinstance(axes, (tuple, list)) and all(isinstance(axis, str) for axis in axes):
            return name, tuple(axes)
    raise AxisResourceError(
        f"from_logical_rules: {rule!r} is not a rule. A rule is a pair of a name and a mesh axis, a tuple of mesh axes, or None."
    )


def _placed(names: Dims, rules: Iterable[tuple[Hashable, tuple[str, ...]]]) -> _Places:
    """Where the names of one array live by rules in order of precedence: a mesh axis is taken once."""
    places: _Places = {name: () for name in names if name is not None}
    decided: set[Hashable] = set()
    for name, axes in rules:
        taken = {axis for other in places.values() for axis in other}
        if name in places and name not in decided and not taken & set(axes):
            places[name] = axes
            decided.add(name)
    return places


def _is_list_of_names(tree: Any) -> bool:
    return isinstance(tree, (list, tuple)) and bool(tree) and all(isinstance(x, str) or x is None or x is ... for x in tree)


def _names_in(tree: Any) -> list[Dims]:
    """The names of every array of a tree, each array's together."""
    found = []
    for leaf in jax.tree.leaves(tree, is_leaf=lambda x: is_named(x) or _is_boxed(x) or _is_list_of_names(x)):
        dims: Dims | None = leaf.dims if isinstance(leaf, NamedArray) else _names_of_box(leaf) if _is_boxed(leaf) else None
        dims = tuple(leaf) if _is_list_of_names(leaf) else dims
        found.append(tuple(dim for dim in dims or () if dim is not None and dim is not ...))
    return [names for names in dict.fromkeys(found) if names]


def _is_boxed(leaf: Any) -> bool:
    """Whether something holds an array beside the names of its axes; without Flax in the program nothing does."""
    linen, nnx = sys.modules.get("flax.core.meta"), sys.modules.get("flax.nnx")
    return (linen is not None and isinstance(leaf, linen.Partitioned)) or (nnx is not None and isinstance(leaf, nnx.Variable))


def _names_of_box(box: Any) -> Dims | None:
    if hasattr(box, "get_metadata"):
        metadata = box.get_metadata()
        names = metadata.get("out_sharding") or metadata.get("sharding_names")
    else:
        names = box.names
    return None if names is None else tuple(names)


@checks_signature
def from_flax(tree: Any) -> Any:
    """Parameters with Flax's names of axes as named arrays.

    Args:
      tree: a pytree with linen's `LogicallyPartitioned` or `Partitioned` boxes (from `nn.with_logical_partitioning`), or with `nnx.Variable`s
        that have sharding names (from `nnx.with_partitioning`), such as the state that `nnx.split` gives.

    Returns:
      The tree with a named array in place of each box or variable. An axis without a name is positional; an array without names, in a box,
      in a variable or bare, is a plain array.

    Raises:
      AxisMappingError: a box has more or fewer names than its array has axes.
      AxisNameError: a box has a name twice.

    >>> import flax.linen as nn, jax, jax.numpy as jnp
    >>> init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
    >>> variables = nn.Dense(3, kernel_init=init).init(jax.random.key(0), jnp.ones((2, 4)))
    >>> from_flax(variables)["params"]["kernel"].dims
    ('embed', 'mlp')
    """

    def one(path: Any, leaf: Any) -> Any:
        if not _is_boxed(leaf):
            return leaf
        value, names = leaf.get_value() if hasattr(leaf, "get_value") else leaf.value, _names_of_box(leaf)
        if names is None or isinstance(value, NamedArray):
            return value
        if len(names) != len(value.shape):
            raise AxisMappingError(
                f"from_flax: {jax.tree_util.keystr(path)} has the names {list(names)}, and its array the shape {tuple(value.shape)}. Give "
                "one name, or None, for each axis where the parameter is made."
            )
        return make(value, check_dims(names, "from_flax")) if any(name is not None for name in names) else value

    return jax.tree_util.tree_map_with_path(one, tree, is_leaf=_is_boxed)


@checks_signature
def to_flax(tree: Any, like: Any) -> Any:
    """Named arrays as parameters with Flax's names of axes: the way back from `from_flax`.

    Args:
      tree: what `from_flax` gave, perhaps with other values.
      like: a tree with boxes or variables, such as the one that `from_flax` was given; its values are not looked at.

    Returns:
      A tree as `like`, with the values of `tree`, their axes in the order of each box's names.

    Raises:
      NamedAxesLeftError: an array has a name that its box has not.
      AxisMappingError: it lacks one.

    >>> import flax.linen as nn, jax, jax.numpy as jnp
    >>> init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
    >>> variables = nn.Dense(3, kernel_init=init).init(jax.random.key(0), jnp.ones((2, 4)))
    >>> doubled = jax.tree.map(lambda x: x * 2, from_flax(variables))
    >>> to_flax(doubled, variables)["params"]["kernel"].value.shape
    (4, 3)
    """

    def one(box: Any, value: Any) -> Any:
        names = _names_of_box(box) if _is_boxed(box) else None
        value = positional(value, list(names) if names else [...]) if isinstance(value, NamedArray) else value
        if not _is_boxed(box):
            return value
        return box.replace(value) if hasattr(box, "get_metadata") else box.replace_boxed(value)

    return jax.tree.map(one, like, tree, is_leaf=_is_boxed)
