"""Run operations that JAX cannot run on Explicit mesh axes as mapped functions.

Outside of a mapped function, the `axis_resources` come from the types of the operands: each name
keeps the mesh axes over which it is sharded. So a sort, a gather or a contraction communicates as
in a mapped function, and the names of a result determine its sharding. There are three differences:

- An operation may change the size of a name (a slice, a padding). A mapped function allows one
  size per name, so each operand gets its own axis names, and the body renames them back. A name
  whose new size does not divide over its mesh axes is replicated in the operation and its result.
- If the shape of a result depends on values (indexing with a mask), the operands are gathered. They
  are also gathered for functions of the user (`nx.nmap`), which expect global arrays and may read
  them. Loops and branches run in JAX (`Explicit.AS_JAX`).
- Sharded positional axes are gathered.

Inside a mapped function, the results of inner mapped functions are sharded over Explicit axes that
the body does not map. If JAX has no rule for an operation on them, all operands are resharded to
one sharding per name. The names that the operation reduces, reorders or indexes are gathered.

In a body that is traced on global shapes, operations that are declared with `on_blocks` run as
mapped functions along sharded axes (`run_on_blocks`).

Operations on arrays that are stored padded (`nx.shard` with `padded=True`) take the same way on any
mesh, with the layout of the padded axes (`run_padded`). Those with functions of the user raise.

`ops/operands/dispatch` caches the compiled program of an eager call.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from namedax.core import explicit_fallback
from namedax.core.annotations import ArrayLike
from namedax.core.array import (
    NamedArray,
    dims_of,
    is_named,
    make,
    make_in_region,
    make_padded,
    padding_of,
)
from namedax.core.display import type_text
from namedax.core.explicit_fallback import VALUE_ERRORS, Explicit
from namedax.core.functions import LIBRARIES, packages_of
from namedax.core.names import Dims, Mesh, PyTree
from namedax.core.records import Record
from namedax.core.region import Region, ambient, without_region
from namedax.core.variance import under_automatic_casts
from namedax.errors import (
    AxisSizeError,
    MeshError,
    PipelineError,
    PlacementConflictError,
    PositionalAxisError,
    StoredPaddingError,
    UnevenAxisError,
    show_name,
)
from namedax.messages.layout_names import restate_conflict
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.nmap import Lifted, belongs_to_jax
from namedax.ops.shape.rename import rename
from namedax.resources.assignment import Assignment, partition_spec
from namedax.resources.mesh import (
    abstract_mesh,
    concrete_mesh,
    entry_of,
    is_tracked,
    replicated,
    unmapped_mesh,
    use_mesh,
)
from namedax.resources.serial import LoopAxis
from namedax.resources.stored_padding import without_padding
from namedax.xmap.global_bodies import on_global_shapes
from namedax.xmap.wrapper import xmap

__all__ = ["install"]


def install() -> None:
    """Make the functions of this module the fallbacks of operations."""
    explicit_fallback.install(
        run_mapped=run_mapped, run_padded=run_padded, run_on_blocks=run_on_blocks
    )


# --- a call ---------------------------------------------------------------------------------------


class _NotImplementedError(Exception):
    """A binary operator does not take its other operand, and has returned `NotImplemented`."""


class _Call(Record, frozen=False):
    """A call of an operation.

    Attributes:
      op: the name of the operation, for messages.
      function: the operation without the check for Explicit axes.
      leaves: the leaves of the arguments, including named arrays.
      tree: the structure of the arguments.
      positions: the indices of the operands among the leaves.
    """

    op: str
    function: Callable[..., Any]
    leaves: list[Any]
    tree: jax.tree_util.PyTreeDef
    positions: list[int]

    @property
    def operands(self) -> list[Any]:
        """The array operands."""
        return [self.leaves[i] for i in self.positions]

    def of(self, operands: Sequence[Any]) -> PyTree:
        """Run the operation on the given operands."""
        leaves = list(self.leaves)
        for i, operand in zip(self.positions, operands, strict=True):
            leaves[i] = operand
        args, kwargs = jax.tree.unflatten(self.tree, leaves)
        return self.function(*args, **kwargs)


def run_mapped(
    rule: Explicit,
    op: str,
    axes: Callable[[], Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[Any] | None:
    """Run an operation as a mapped function, and return its result in a tuple.

    Return `None` if the operation runs directly in JAX. Eager operations that may create constants
    run in the context of the mesh, which JAX requires.

    Args:
      rule: the declaration of the operation.
      op: the operation, for messages.
      axes: returns the axes that the operation reduces, reorders or indexes.
      function: the operation without this check. It has no side effects, so it can be called again.
      args: its positional arguments.
      kwargs: its keyword arguments.

    Raises:
      PlacementConflictError: the shardings of the operands contradict one another.
      MeshError: the operands are on two meshes.
    """
    region = ambient()
    in_body = region is not None and region.mode == "manual"
    if not in_body and (region is not None or _is_in_shard_map()):
        return None
    call = _call_of(op, function, args, kwargs)
    if in_body:  # a closed-over array gets its type in the body
        for i in call.positions:
            call.leaves[i] = to_local(call.leaves[i], op, region)
    is_mapped = explicit_fallback.needs_fallback(rule, axes, call.operands)
    if not is_mapped and (in_body or rule in (Explicit.AS_JAX, Explicit.ALIGNED)):
        return None
    if in_body:
        return (_in_body(call, rule, axes),)
    shardings, mesh = _shardings_of(call)
    if mesh is None:
        return None
    if is_mapped:
        return (_run(call, shardings, mesh),)
    with _mesh_context(mesh):  # for new constants
        return (function(*args, **kwargs),)


def _call_of(
    op: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> _Call:
    given = (
        [_flattenable(arg) for arg in args],
        {name: _flattenable(arg) for name, arg in kwargs.items()},
    )
    leaves, tree = jax.tree.flatten(
        given, is_leaf=lambda node: is_named(node) or _is_function(node)
    )
    return _Call(
        op, function, leaves, tree, [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
    )


def run_padded(
    op: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    error: StoredPaddingError,
) -> PyTree:
    """Run an operation on arrays that are stored padded, as a mapped function.

    The `axis_resources` are the layouts of the padded axes, and of axes on Explicit mesh axes.

    Args:
      op: the operation, for messages.
      function: the operation without its checks. It has no side effects, so it can be called again.
      args: its positional arguments.
      kwargs: its keyword arguments.
      error: the error that it raised where it would have read the padding.

    Raises:
      StoredPaddingError: the operation calls a function of the user, or needs values.
    """
    call = _call_of(op, function, args, kwargs)
    padded = [x for x in call.operands if isinstance(x, NamedArray) and padding_of(x) is not None]
    region = ambient()
    if not padded or (region is not None and region.resources) or _is_in_shard_map():
        raise error
    what = f"{op}: {error.args[0]}" if error.args else op
    if any(_is_function(leaf) and _is_of_user(leaf) for leaf in call.leaves):
        raise StoredPaddingError(
            f"{op}: {type_text(padded[0])} is stored padded, and {op} calls a function of yours,"
            " which would get its padding. Call it in a mapped function (nx.xmap), or gather the"
            " array first: nx.shard(x, {}, mesh)."
        ) from None
    shardings, mesh = _shardings_of(call)
    shardings += [(x, dict(padding_of(x).resources)) for x in padded]  # type: ignore[union-attr]
    mesh = _mesh_of_padded(op, padded, mesh)
    try:
        return _run(call, shardings, mesh, gathers=False)
    except Exception as failed:
        if not _needs_values(failed):
            raise
        raise StoredPaddingError(f"{what} The shape of its result depends on values.") from failed


def run_on_blocks(
    op: str,
    axes: Callable[[], Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[Any] | None:
    """Run an operation as a mapped function in a body that is traced on global shapes.

    The partitioner evaluates it on the blocks. Functions of the user that it calls are traced on
    global shapes, as the body is. Return `None` if the operation runs on global shapes too: in
    other bodies, if none of its axes is sharded, if a name has a `SerialLoop`, if the operation
    does not support padding, and if a stage of a pipeline would gather its microbatches. The
    arguments are those of `run_mapped`; `axes` returns the axes along which it exchanges elements.
    """
    region = ambient()
    if region is None or region.mode != "global":
        return None
    touched = axes()
    if touched is None or region.resources.keys().isdisjoint(touched):
        return None
    if any(isinstance(axis, LoopAxis) for at in region.resources.values() for axis in at):
        return None
    call = _call_of(op, function, args, kwargs)
    call.leaves = [
        on_global_shapes(leaf) if _is_function(leaf) and _is_of_user(leaf) else leaf
        for leaf in call.leaves
    ]
    # What is known when the body is traced stays so, such as the shifts of a roll.
    call.positions = [i for i in call.positions if not isinstance(call.leaves[i], np.ndarray)]
    names = {*touched, *(dim for x in call.operands for dim in dims_of(x))}
    resources = {name: at for name, at in region.resources.items() if name in names}
    others = _other_axes(region, resources)
    unused = [make(jnp.zeros(region.mesh_axis_size(at)), (name,)) for name, at in others.items()]
    mesh = unmapped_mesh(abstract_mesh(region.mesh))
    mapped = _mapped(call, {**resources, **others}, mesh, lambda given: call.of(given[0]))
    try:
        with use_mesh(mesh, from_context=False):
            return (without_region(mapped, [call.operands, unused]),)
    except (PipelineError, UnevenAxisError):
        return None


def _other_axes(region: Region, resources: Assignment) -> dict[Hashable, tuple[str, ...]]:
    """Return names of their own for the mesh axes of a region that `resources` leave out.

    An unused operand with these names maps a body over them too: JAX combines values of a body only
    with those of a body over the same mesh axes.
    """
    taken = {axis for at in resources.values() for axis in at}
    found: dict[Hashable, tuple[str, ...]] = {}
    for at in region.resources.values():
        if axes := tuple(axis for axis in at if axis not in taken):
            taken.update(axes)
            found[_UniqueName(axes, -1)] = axes
    return found


def _mesh_of_padded(op: str, padded: Sequence[NamedArray], mesh: Mesh | None) -> Mesh:
    """Return the mesh of arrays that are stored padded.

    It has devices if one of the arrays is concrete, or in the context of a mesh.

    Raises:
      MeshError: the arrays are on several meshes, or their data is on none.
    """
    shapes = {padding.mesh for x in padded if (padding := padding_of(x)) is not None}
    if len(shapes) > 1:
        raise MeshError(
            f"{op}: the operands are stored padded on the meshes"
            f" {' and '.join(str(dict(shape)) for shape in shapes)}; an operation runs on one mesh."
            " Place both on one mesh: nx.shard(x, axis_resources, mesh, padded=True)."
        )
    (shape,) = shapes
    known = next((p.devices for x in padded if (p := padding_of(x)) and p.devices), None)
    if mesh is not None and dict(mesh.shape) == dict(shape):
        return mesh if isinstance(mesh, jax.sharding.Mesh) or known is None else known
    for x in padded:
        sharding: Any = (
            None if isinstance(x.data, jax.core.Tracer) else getattr(x.data, "sharding", None)
        )
        if isinstance(sharding, NamedSharding) and dict(sharding.mesh.shape) == dict(shape):
            return sharding.mesh
    if not any(isinstance(x.data, jax.core.Tracer) for x in padded):
        raise MeshError(
            f"{op}: {type_text(padded[0])} is stored padded for the mesh {dict(shape)}, and its"
            " data is on other devices. Place it first: nx.shard(x, axis_resources, mesh,"
            " padded=True)."
        )
    for context in (concrete_mesh(None), jax.sharding.get_abstract_mesh(), known):
        if context is not None and dict(context.shape) == dict(shape):
            return context
    return jax.sharding.AbstractMesh(tuple(n for _, n in shape), tuple(axis for axis, _ in shape))


def _is_in_shard_map() -> bool:
    """Return True in a `jax.shard_map` of the user."""
    return AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types


def _in_body(call: _Call, rule: Explicit, axes: Callable[[], Any]) -> PyTree:
    """Run an operation in a body on results of inner mapped functions.

    These are sharded over mesh axes that the body does not map. Each name gets one sharding in all
    operands. A name that JAX cannot process while it is sharded is replicated.
    """
    resources: Assignment = {}
    taken: dict[str, Hashable] = {}
    touched: Any = (
        axes()
        if rule is Explicit.KEPT
        else ()
        if rule in (Explicit.AS_JAX, Explicit.ALIGNED)
        else None
    )
    for x in call.operands if touched is not None and touched is not ... else ():
        for name, mesh_axes in (
            explicit_fallback.sharding_by_name(x) if isinstance(x, NamedArray) else ()
        ):
            is_free = all(taken.setdefault(axis, name) == name for axis in mesh_axes)
            if name is not None and name not in touched and is_free:
                resources.setdefault(name, mesh_axes)

    def aligned(x: Any) -> Any:
        if not isinstance(x, NamedArray):
            return replicated(x) if is_tracked(x) else x
        return (
            make_in_region(jax.reshard(x._data, partition_spec(x._dims, resources)), x._dims)
            if is_tracked(x._data)
            else x
        )

    return call.of([aligned(x) for x in call.operands])


class _ByAxis(dict[Hashable, Any]):
    """A dict whose keys are names and positions, which JAX cannot sort.

    As a pytree it keeps the order of its keys, and is unflattened to a plain dict.
    """


def _values(by_axis: _ByAxis) -> tuple[tuple[Any, ...], tuple[Hashable, ...]]:
    return tuple(by_axis.values()), tuple(by_axis)


def _as_dict(axes: tuple[Hashable, ...], values: Iterable[Any]) -> Any:
    return dict(zip(axes, values, strict=True))


jax.tree_util.register_pytree_node(_ByAxis, _values, _as_dict)


def _flattenable(argument: object) -> object:
    return _ByAxis(argument) if type(argument) is dict else argument


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (NamedArray, jax.Array)) or (
        isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "OUS"
    )


def _shardings_of(call: _Call) -> tuple[list[tuple[NamedArray, Assignment]], Mesh | None]:
    """Return the named arrays that are sharded over Explicit axes, and their mesh.

    Each array comes with the mesh axes of its names. The mesh has devices if an operand is
    concrete. It is `None` if no named array has Explicit axes in its type.

    Raises:
      MeshError: the arrays are on two meshes.
    """
    found: list[tuple[NamedArray, Assignment]] = []
    mesh: Any = None
    abstract: Any = None
    for operand in call.operands:
        if not isinstance(operand, NamedArray) or not isinstance(operand.data, jax.Array):
            continue
        data = operand.data
        sharding = jax.typeof(data).sharding
        if (
            not isinstance(sharding, NamedSharding)
            or AxisType.Explicit not in sharding.mesh.axis_types
        ):
            continue
        abstract = abstract or sharding.mesh
        if sharding.mesh != abstract:
            raise MeshError(
                f"{call.op}: {type_text(operand)} is on the mesh {dict(sharding.mesh.shape)}, and"
                f" another operand on the mesh {dict(abstract.shape)}; an operation runs on one"
                " mesh. Place both on one mesh: nx.shard(x, axis_resources, mesh)."
            )
        if not isinstance(mesh, jax.sharding.Mesh):  # only concrete arrays determine its devices
            own_sharding = sharding if isinstance(data, jax.core.Tracer) else data.sharding
            mesh = own_sharding.mesh if isinstance(own_sharding, NamedSharding) else sharding.mesh
        padded = p.sizes if (p := padding_of(operand)) else ()  # types lack their Auto mesh axes
        sharded = {
            dim: axes
            for i, dim in enumerate(operand._dims)
            if dim is not None and dim not in padded and (axes := entry_of(sharding.spec, i))
        }
        if sharded:
            found.append((operand, sharded))
    return found, mesh


def _resources(call: _Call, shardings: Iterable[tuple[NamedArray, Assignment]]) -> Assignment:
    """Collect the mesh axes of each name from the shardings of the operands.

    Raises:
      PlacementConflictError: two operands shard one name differently.
    """
    resources: Assignment = {}
    owner: dict[Hashable, NamedArray] = {}
    for operand, sharded in shardings:
        for name, axes in sharded.items():
            if resources.setdefault(name, axes) != axes:
                padded = ", padded=True" if padding_of(owner[name]) or padding_of(operand) else ""
                raise PlacementConflictError(
                    f"{call.op}: axis {show_name(name)} is sharded over"
                    f" {_axes_text(resources[name])} in {type_text(owner[name])}, and over"
                    f" {_axes_text(axes)} in {type_text(operand)}; in one operation a name has one"
                    " sharding. Place one of the arrays as the other one is first: nx.shard(x,"
                    f" {{{show_name(name)}: {_entry_text(resources[name])}}}, mesh{padded})."
                ).about(axes=(name,))
            owner.setdefault(name, operand)
    return resources


def _axes_text(axes: tuple[str, ...]) -> str:
    return f"mesh axis {axes[0]!r}" if len(axes) == 1 else f"mesh axes {axes}"


def _entry_text(axes: tuple[str, ...]) -> str:
    return repr(axes[0] if len(axes) == 1 else axes)


def _is_function(value: object) -> bool:
    """Return True if an argument is a function."""
    return callable(value) and not isinstance(value, type)


def _is_of_user(function: object) -> bool:
    """Return True if a function is not from JAX, NumPy or this package.

    Other callables count as functions of the user, because they may contain one.
    """
    if isinstance(function, (Lifted, np.ufunc)) or belongs_to_jax(function):
        return False
    if not isinstance(function, (FunctionType, BuiltinFunctionType)):
        return True
    return not packages_of(function) - {""} <= LIBRARIES


# --- mapped functions -----------------------------------------------------------------------------


def _run(
    call: _Call,
    shardings: Iterable[tuple[NamedArray, Assignment]],
    mesh: Mesh,
    gathers: bool = True,
) -> Any:
    """Return the result of a call that JAX cannot run.

    Without `gathers`, an operation that needs values raises instead of gathering its operands.

    Raises:
      PlacementConflictError: one value has two names that are sharded over one mesh axis.
    """
    resources = _resources(call, shardings)
    operands = call.operands
    if resources and not any(_is_function(leaf) and _is_of_user(leaf) for leaf in call.leaves):
        try:
            return _mapped(call, resources, mesh)(operands)
        except _NotImplementedError:
            return NotImplemented
        except PlacementConflictError as error:
            raise restate_conflict(error, call.op) from None
        except AxisSizeError:
            return _run_with_unique_names(call, operands, resources, mesh)
        except Exception as error:
            if not gathers or not _needs_values(error):
                raise
    return _run_gathered(call, resources, mesh)


def _needs_values(error: BaseException) -> bool:
    """Return True if an operation cannot be part of a program because it reads values."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, VALUE_ERRORS) or (
            isinstance(cause, PositionalAxisError) and cause.depends_on_data
        ):
            return True
        cause = cause.__cause__
    return False


def _mapped(
    call: _Call, resources: Assignment, mesh: Mesh, body: Callable[..., Any] | None = None
) -> Callable[[list[Any]], PyTree]:
    """Return the operation as a mapped function of its operands."""
    run_body = call.of if body is None else body

    def operation(operands: list[Any]) -> PyTree:
        try:
            result = run_body(operands)
        except UnevenAxisError as error:
            # A call does not begin again with this size: here its axis is not sharded instead.
            error.found_size = None
            raise
        if result is NotImplemented:
            raise _NotImplementedError
        return result

    operation.__name__ = operation.__qualname__ = call.op
    mapped = xmap(operation, axis_resources=resources, mesh=mesh)
    if isinstance(mesh, jax.sharding.Mesh):
        return mapped
    # In a trace the devices are unknown, and operands cannot be moved from other devices.
    return lambda operands: under_automatic_casts(mapped._jitted(), operands)


class _UniqueName(Record):
    """The axis name of a single operand."""

    name: Hashable
    operand: int

    def __repr__(self) -> str:
        return repr(self.name)

    def __str__(self) -> str:
        return str(self.name)


def _run_with_unique_names(
    call: _Call, operands: list[Any], resources: Assignment, mesh: Mesh
) -> PyTree:
    """Return the result of the mapped operation if a name has several sizes.

    Each operand gets its own axis names, and the body renames them back.
    """

    def operation(own: list[Any]) -> PyTree:
        names: list[dict[Hashable, Hashable]] = [
            {dim: dim.name for dim in dims_of(x) if isinstance(dim, _UniqueName)} for x in own
        ]
        return call.of([rename(x, new) if new else x for x, new in zip(own, names, strict=True)])

    renamed = [_with_unique_names(x, i) for i, x in enumerate(operands)]
    names = [dim for x in renamed for dim in dims_of(x) if isinstance(dim, _UniqueName)]
    unique: Assignment = {dim: resources[dim.name] for dim in names if dim.name in resources}
    kept = dict(resources)
    while True:
        try:
            return _mapped(call, {**unique, **kept}, mesh, operation)(renamed)
        except UnevenAxisError as error:
            if error.axis not in kept:
                raise
            del kept[error.axis]
        except AxisSizeError:
            # Raises the same error for unsharded arrays.
            jax.eval_shape(call.of, [_without_sharding(x) for x in operands])
            raise
        except PlacementConflictError as error:
            raise restate_conflict(error, call.op) from None


def _without_sharding(operand: Any) -> NamedArray | jax.ShapeDtypeStruct:
    """Return the type of an operand without a sharding, and without stored padding."""
    if isinstance(operand, NamedArray) and padding_of(operand) is not None:
        stored = jax.ShapeDtypeStruct(operand._stored.shape, operand.dtype)
        padding: Any = padding_of(operand)
        return without_padding(make_padded(stored, operand._dims, padding))
    data = operand._data if isinstance(operand, NamedArray) else operand
    data = jax.ShapeDtypeStruct(np.shape(data), data.dtype)
    return make(data, operand._dims) if isinstance(operand, NamedArray) else data


def _with_unique_names(operand: ArrayLike, index: int) -> ArrayLike:
    if not isinstance(operand, NamedArray):
        return operand
    dims = tuple(None if dim is None else _UniqueName(dim, index) for dim in operand._dims)
    if (padding := padding_of(operand)) is not None:
        names: dict[Hashable, Hashable] = {name: _UniqueName(name, index) for name in padding.sizes}
        return make_padded(operand._stored, dims, padding.renamed(names))
    return make(operand._data, dims)


def _run_gathered(call: _Call, resources: Assignment, mesh: Mesh) -> PyTree:
    """Run the operation on gathered operands, and shard its result if the sizes divide."""
    gathered = [
        make(replicated(x._data), x._dims) if isinstance(x, NamedArray) else replicated(x)
        for x in call.operands
    ]

    def shard(leaf: object) -> object:
        if not isinstance(leaf, NamedArray):
            return leaf
        spec = _dividing_spec(leaf._dims, leaf._data.shape, resources, mesh)
        return make(jax.reshard(leaf._data, NamedSharding(mesh, spec)), leaf._dims)

    with _mesh_context(mesh):
        return jax.tree.map(shard, call.of(gathered), is_leaf=is_named)


def _mesh_context(mesh: Mesh) -> contextlib.AbstractContextManager[object]:
    """Return a context in which constants are created on the mesh."""
    if not jax.sharding.get_abstract_mesh().empty:
        return contextlib.nullcontext()
    with contextlib.suppress(ValueError):  # "can only be used outside of jax.jit"
        if isinstance(mesh, jax.sharding.Mesh) and jax.sharding.get_mesh().empty:
            return jax.set_mesh(mesh)
    return use_mesh(mesh, from_context=False)


def _dividing_spec(
    dims: Dims, shape: tuple[int, ...], resources: Assignment, mesh: Mesh
) -> PartitionSpec:
    """Return the partition spec of an array, without the names whose sizes do not divide.

    If two names would be on one mesh axis, the last one is: a stacked axis comes first, and its
    entries keep their sharding.
    """
    kept: list[Hashable] = [None] * len(dims)
    taken: set[str] = set()
    for i, (dim, n) in reversed(list(enumerate(zip(dims, shape, strict=True)))):
        axes = resources.get(dim, ())
        if n % math.prod(mesh.shape[axis] for axis in axes) == 0 and taken.isdisjoint(axes):
            kept[i] = dim
            taken.update(axes)
    return partition_spec(kept, resources)
