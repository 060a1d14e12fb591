"""Operations on arrays that are sharded over Explicit mesh axes: where JAX has no rule for one, it runs as a mapped function.

`axis_resources` of that function are read from the types of the operands: each name keeps the mesh
axes over which it is sharded. So sorts, gathers and contractions are those of mapped functions,
which move blocks, and a result is cut as its names say. Three things are different outside:

- A name may change its size there (a slice, a padding), which it may not in a mapped function. Then
  each operand comes under names of its own, and gets the names of the operation in the body. A name
  whose new size does not divide over its mesh axes is whole in the operation, and in the result.
- What needs values, since the shape of its result depends on them (a read at a mask), gathers its
  operands. So does what calls functions of the user (a scan): these have been written for whole
  arrays, and may look at their data.
- Positional axes that are cut are gathered.

In a body, results of inner mapped functions are sharded over Explicit axes that the body does not
map. Where JAX has no rule for an operation on them, each name gets one sharding in all operands,
and the names that the operation goes over are gathered.

The program of an operation is kept for the types of its operands, so the next call compiles
nothing.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding

from namedax.core import explicit_fallback
from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray, dims_of, is_named, make, make_in_region
from namedax.core.display import type_text
from namedax.core.explicit_fallback import Explicit
from namedax.core.names import Dims
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import (
    AxisSizeError,
    MeshError,
    PlacementConflictError,
    PositionalAxisError,
    UnevenAxisError,
    show_name,
)
from namedax.operands.broadcasting import to_local
from namedax.operands.kernels import type_key
from namedax.operands.nmap import Lifted, Unchecked, belongs_to_jax
from namedax.ops.shape.rename import rename
from namedax.resources.assignment import Assignment, partition_spec
from namedax.resources.mesh import entry_of, is_tracked, replicated
from namedax.xmap.wrapper import xmap

__all__ = ["install"]


def install() -> None:
    """Make `run_mapped` the fallback of operations."""
    explicit_fallback.install(run_mapped)


# --- a call ---------------------------------------------------------------------------------------


class _Call(Record, frozen=False):
    """A call of an operation.

    Attributes:
      op: the operation, for messages.
      function: the operation without the check that led here.
      leaves: those of the arguments, named arrays among them.
      tree: the structure of the arguments.
      places: which of the leaves are operands.
    """

    op: str
    function: Callable[..., Any]
    leaves: list[Any]
    tree: Any
    places: list[int]

    @property
    def operands(self) -> list[Any]:
        """The arrays."""
        return [self.leaves[i] for i in self.places]

    def without_operands(self) -> _Call:
        """Return the same call without the operands, which programs must not keep alive."""
        leaves = [None if i in self.places else leaf for i, leaf in enumerate(self.leaves)]
        return _Call(self.op, self.function, leaves, self.tree, self.places)

    def of(self, operands: Sequence[Any]) -> Any:
        """Run the operation on these operands."""
        leaves = list(self.leaves)
        for i, operand in zip(self.places, operands, strict=True):
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
    """Run an operation as a mapped function; the arguments are those of `explicit_fallback.run_fallback`."""
    region = ambient()
    in_body = region is not None and region.mode == "manual"
    if not in_body and _is_elsewhere():
        return None
    given = (
        [_flattenable(arg) for arg in args],
        {name: _flattenable(arg) for name, arg in kwargs.items()},
    )
    leaves, tree = jax.tree.flatten(given, is_leaf=lambda node: is_named(node) or _is_called(node))
    call = _Call(
        op, function, leaves, tree, [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
    )
    if in_body:  # an array that the body closes over gets the type that it has in the body
        for i in call.places:
            call.leaves[i] = to_local(call.leaves[i], op, region)
    if not explicit_fallback.needs_fallback(rule, axes, call.operands):
        return (
            None
            if in_body or rule in (Explicit.AS_JAX, Explicit.ALIGNED)
            else _in_mesh(function, args, kwargs, call)
        )
    if in_body:
        return (_in_body(call, rule, axes),)
    places_of_names, mesh = _read_off(call)
    if mesh is None:
        return None
    key = _key(call, places_of_names, mesh)
    program = None if key is None else _programs.get(key)
    if program is not None:
        return (program(call.operands),)
    program, result = _find(call, _resources(call, places_of_names), mesh)
    if key is not None:
        _keep(key, program)
    return (result,)


def _in_mesh(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], call: _Call
) -> tuple[Any] | None:
    """Run an operation as JAX has it; the constants that it creates are on the mesh of its operands."""
    mesh = _read_off(call)[1]
    if mesh is None:
        return None
    with _set(mesh):
        return (function(*args, **kwargs),)


def _is_elsewhere() -> bool:
    """Return True in a region that is not manual, and in a `jax.shard_map` of the user."""
    return ambient() is not None or AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types


def _in_body(call: _Call, rule: Explicit, axes: Callable[[], Any]) -> Any:
    """Run an operation in a body on results of inner mapped functions, which are sharded over mesh axes that the body does not map.

    Each name is sharded alike in all operands, and a name that JAX cannot handle sharded is
    replicated.
    """
    places: Assignment = {}
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
                places.setdefault(name, mesh_axes)

    def aligned(x: ArrayLike) -> Any:
        if not isinstance(x, NamedArray):
            return replicated(x) if is_tracked(x) else x
        return (
            make_in_region(jax.reshard(x._data, partition_spec(x._dims, places)), x._dims)
            if is_tracked(x._data)
            else x
        )

    return call.of([aligned(x) for x in call.operands])


class _ByAxis(dict[Hashable, Any]):
    """A dict by names and positions, whose order counts, and by which JAX could not sort them.

    It is flattened to its values, and becomes a dict.
    """


def _values(by_axis: Any) -> tuple[tuple[Any, ...], tuple[Hashable, ...]]:
    return tuple(by_axis.values()), tuple(by_axis)


def _as_dict(axes: tuple[Hashable, ...], values: Iterable[Any]) -> Any:
    return dict(zip(axes, values, strict=True))


jax.tree_util.register_pytree_node(_ByAxis, _values, _as_dict)


def _flattenable(argument: object) -> Any:
    return _ByAxis(argument) if type(argument) is dict else argument


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (NamedArray, jax.Array)) or (
        isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "OUS"
    )


def _read_off(call: _Call) -> tuple[list[tuple[Any, Assignment]], Any]:
    """Return the named arrays that are sharded over Explicit axes, with the mesh axes of their names; and the mesh, with its devices if it is known.

    There is no mesh where no array has a name and a type that mentions Explicit axes.

    Raises:
      MeshError: the arrays lie on two meshes.
    """
    found: list[tuple[Any, Assignment]] = []
    mesh: Any = None
    abstract: Any = None
    for operand in call.operands:
        if not isinstance(operand, NamedArray) or not isinstance(operand._data, jax.Array):
            continue
        sharding = jax.typeof(operand._data).sharding
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
        if not isinstance(mesh, Mesh):  # concrete arrays say which devices it has
            lies = (
                sharding if isinstance(operand._data, jax.core.Tracer) else operand._data.sharding
            )
            mesh = lies.mesh if isinstance(lies, NamedSharding) else sharding.mesh
        places = {
            dim: axes
            for i, dim in enumerate(operand._dims)
            if dim is not None and (axes := entry_of(sharding.spec, i))
        }
        if places:
            found.append((operand, places))
    return found, mesh


def _resources(call: _Call, places_of_names: Iterable[tuple[Any, Assignment]]) -> Assignment:
    """Collect the mesh axes of each name from the shardings of the operands.

    Raises:
      PlacementConflictError: two operands shard one name differently.
    """
    resources: Assignment = {}
    owner: dict[Hashable, Any] = {}
    for operand, places in places_of_names:
        for name, axes in places.items():
            if resources.setdefault(name, axes) != axes:
                raise PlacementConflictError(
                    f"{call.op}: axis {show_name(name)} is sharded over"
                    f" {_axes_text(resources[name])} in {type_text(owner[name])}, and over"
                    f" {_axes_text(axes)} in {type_text(operand)}; in one operation a name has one"
                    " sharding. Place one of the arrays as the other one is first: nx.shard(x,"
                    f" {{{show_name(name)}: {_entry_text(resources[name])}}}, mesh)."
                ).about(axes=(name,))
            owner.setdefault(name, operand)
    return resources


def _axes_text(axes: tuple[str, ...]) -> str:
    return f"mesh axis {axes[0]!r}" if len(axes) == 1 else f"mesh axes {axes}"


def _entry_text(axes: tuple[str, ...]) -> str:
    return repr(axes[0] if len(axes) == 1 else axes)


# --- what is kept ---------------------------------------------------------------------------------


_Program = Callable[[list[Any]], Any]

_programs: dict[Hashable, _Program] = {}
_MOST = 512
_keeping = threading.RLock()


def _keep(key: Hashable, program: _Program) -> None:
    with _keeping:
        while len(_programs) >= _MOST:
            _programs.pop(next(iter(_programs)))
        _programs[key] = program


def _key(
    call: _Call, places_of_names: Iterable[tuple[Any, Assignment]], mesh: Mesh | None
) -> Hashable:
    """Return the key of a program; `None` if a later call may differ."""
    operands = set(call.places)
    known = [
        _identity(call.function),
        *(_identity(value) for i, value in enumerate(call.leaves) if i not in operands),
    ]
    if None in known:
        return None
    types = [
        (dims_of(x), np.shape(x._data if isinstance(x, NamedArray) else x)) for x in call.operands
    ]
    cut = [tuple(places.items()) for _, places in places_of_names]
    key = (tuple(known), tuple(types), tuple(cut), call.tree, tuple(call.places), mesh)
    try:
        hash(key)
    except TypeError:
        return None
    return (key, jax.sharding.get_abstract_mesh())


def _identity(value: object) -> Any:
    """Return the identity of an argument; `None` for functions of the user, which may read changed variables."""
    if isinstance(value, slice):
        return (slice, value.start, value.stop, value.step)
    if isinstance(value, Unchecked):
        return _identity(value.lifted)
    if isinstance(value, (Lifted, functools.partial)):
        parts = (
            (value.__wrapped__, value._op)
            if isinstance(value, Lifted)
            else (value.func, value.args, *value.keywords.items())
        )
        inner = [_identity(part) for part in parts]
        return None if None in inner else (type(value), *inner)
    if (
        _is_called(value)
        and not hasattr(value, "_operation")
        and "<" in getattr(value, "__qualname__", "<")
    ):  # <locals>, <lambda>
        return None
    if _is_called(value) and _is_of_user(value):
        return None
    return (type_key(value), value)


def _is_called(value: object) -> bool:
    """Return True if an argument is a function."""
    return callable(value) and not isinstance(value, type)


def _is_of_user(function: object) -> bool:
    """Return True if a function is not from JAX, NumPy or this package.

    Only functions have a module; other objects may hold any.
    """
    if isinstance(function, (Lifted, np.ufunc)) or belongs_to_jax(function):
        return False
    if not isinstance(function, (FunctionType, BuiltinFunctionType)):
        return True
    # A wrapper has the module of what it wraps.
    modules = (function.__module__, getattr(function, "__globals__", {}).get("__name__"))
    return any(
        (module or "numpy").partition(".")[0] not in ("jax", "jaxlib", "numpy", "namedax")
        for module in modules
    )


# --- the ways -------------------------------------------------------------------------------------


def _find(call: _Call, resources: Assignment, mesh: Mesh | None) -> tuple[_Program, Any]:
    """A program for a call that JAX has refused, and its result.

    Raises:
      PlacementConflictError: two names on one mesh axis meet.
    """
    operands, call = call.operands, call.without_operands()
    if resources and not any(_is_called(leaf) and _is_of_user(leaf) for leaf in call.leaves):
        try:
            program = _mapped(call, resources, mesh)
            return program, program(operands)
        except PlacementConflictError as error:
            raise _in_words_of_outside(error, call.op) from None
        except AxisSizeError:
            return _with_own_names(call, operands, resources, mesh)
        except Exception as error:
            if not _needs_values(error):
                raise
    program = functools.partial(_gathered, call, resources, mesh)
    return program, program(operands)


_OF_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def _needs_values(error: BaseException) -> bool:
    """Return True if an operation cannot be part of a program because it reads values."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _OF_VALUES) or (
            isinstance(cause, PositionalAxisError) and cause.depends_on_data
        ):
            return True
        cause = cause.__cause__
    return False


def _in_words_of_outside(error: PlacementConflictError, op: str) -> PlacementConflictError:
    """Rewrite the error of a mapped function for a call outside of mapped functions."""
    if len(error.axes) != 2 or error.mesh_axis is None:
        return error
    one, other = map(show_name, error.axes)
    if error.operation is not None and not error.operation.startswith("xmap"):
        op = error.operation
    return PlacementConflictError(
        f"{op}: axes {one} and {other} would be in one value, but both are sharded over mesh axis"
        f" {error.mesh_axis!r}, which can hold only one of them. Place one of the arrays elsewhere"
        f" first, such as nx.shard(x, {{{one}: None}}, mesh), which gathers it."
    ).about(axes=error.axes, mesh_axis=error.mesh_axis, operation=op)


def _mapped(
    call: _Call, resources: Assignment, mesh: Mesh | None, body: Callable[..., Any] | None = None
) -> _Program:
    """The operation as a mapped function."""

    def operation(operands: list[Any]) -> Any:
        return call.of(operands)

    body = operation if body is None else body
    body.__name__ = body.__qualname__ = call.op
    mapped = xmap(body, axis_resources=resources, mesh=mesh)
    # Under a trace nothing can be moved from other devices, and nobody knows which devices there
    # are.
    run = mapped if isinstance(mesh, Mesh) else mapped._compiled_form()

    def program(operands: list[Any]) -> Any:
        return run(operands)

    # compiled programs live as long as this does
    program.mapped = mapped  # type: ignore[attr-defined]
    return program


class _Own(Record):
    """The name of an axis of one operand only."""

    name: Hashable
    operand: int

    def __repr__(self) -> str:
        return repr(self.name)

    def __str__(self) -> str:
        return str(self.name)


def _with_own_names(
    call: _Call, operands: list[Any], resources: Assignment, mesh: Mesh | None
) -> tuple[_Program, Any]:
    """The same where a name has several sizes: the operands come under names of their own."""

    def operation(own: list[Any]) -> Any:
        names: list[dict[Hashable, Hashable]] = [
            {dim: dim.name for dim in dims_of(x) if isinstance(dim, _Own)} for x in own
        ]
        return call.of([rename(x, new) if new else x for x, new in zip(own, names, strict=True)])

    def arriving(operands: Sequence[Any]) -> list[Any]:
        return [_under_own_names(x, i) for i, x in enumerate(operands)]

    kept = dict(resources)
    while True:
        arrived = [dim for x in arriving(operands) for dim in dims_of(x) if isinstance(dim, _Own)]
        places: Assignment = {dim: resources[dim.name] for dim in arrived if dim.name in resources}
        mapped = _mapped(call, {**places, **kept}, mesh, functools.partial(operation))
        try:
            return _then(mapped, arriving), mapped(arriving(operands))
        except UnevenAxisError as error:
            if error.axis not in kept:
                raise
            del kept[error.axis]
        except AxisSizeError:
            jax.eval_shape(
                call.of, [_unplaced(x) for x in operands]
            )  # which raises the same in words of whole arrays
            raise
        except PlacementConflictError as error:
            raise _in_words_of_outside(error, call.op) from None


def _unplaced(operand: Any) -> Any:
    """The type of an operand, as if it were on no mesh."""
    data = operand._data if isinstance(operand, NamedArray) else operand
    data = jax.ShapeDtypeStruct(np.shape(data), data.dtype)
    return make(data, operand._dims) if isinstance(operand, NamedArray) else data


def _then(program: _Program, before: Callable[[list[Any]], list[Any]]) -> _Program:
    return lambda operands: program(before(operands))


def _under_own_names(operand: ArrayLike, index: int) -> Any:
    if not isinstance(operand, NamedArray):
        return operand
    return make(
        operand._data, tuple(None if dim is None else _Own(dim, index) for dim in operand._dims)
    )


def _gathered(call: _Call, resources: Assignment, mesh: Any, operands: list[Any]) -> Any:
    """The operation on whole operands; its result is cut where its names and sizes allow it."""
    whole = [
        make(replicated(x._data), x._dims) if isinstance(x, NamedArray) else replicated(x)
        for x in operands
    ]

    def cut(leaf: Any) -> Any:
        if not isinstance(leaf, NamedArray):
            return leaf
        spec = _fitting(leaf._dims, leaf._data.shape, resources, mesh)
        return make(jax.reshard(leaf._data, NamedSharding(mesh, spec)), leaf._dims)

    with _set(mesh):
        return jax.tree.map(cut, call.of(whole), is_leaf=is_named)


def _set(mesh: Mesh | None) -> Any:
    """Return a context in which constants are created on the mesh."""
    if not jax.sharding.get_abstract_mesh().empty:
        return contextlib.nullcontext()
    try:
        return (
            jax.set_mesh(mesh)
            if isinstance(mesh, Mesh) and jax.sharding.get_mesh().empty
            else _abstract(mesh)
        )
    except ValueError:  # "can only be used outside of jax.jit"
        return _abstract(mesh)


def _abstract(mesh: Any) -> Any:
    return jax.sharding.use_abstract_mesh(mesh.abstract_mesh if isinstance(mesh, Mesh) else mesh)


def _fitting(dims: Dims, shape: tuple[int, ...], resources: Assignment, mesh: Any) -> Any:
    """The partition spec of an array, without the names that do not divide."""
    blocks = [math.prod(mesh.shape[axis] for axis in resources.get(dim, ())) for dim in dims]
    return partition_spec(
        [dim if n % k == 0 else None for dim, n, k in zip(dims, shape, blocks, strict=True)],
        resources,
    )
