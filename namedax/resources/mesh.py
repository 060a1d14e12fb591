"""Mesh resolution, and resharding of arrays onto the mesh.

On a mesh with Auto axes, XLA reshards arguments of another sharding. On a mesh with Explicit axes
the sharding is part of a value's type, and the value must be resharded before it enters
`jax.shard_map`. Over mesh axes that shard none of its axes it is replicated.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeGuard

import jax
from jax import lax
from jax.extend.core import get_opaque_trace_state
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from namedax.core.memory_kinds import DEVICE, PINNED_HOST, to_host
from namedax.core.names import AxisName, PyTree
from namedax.errors import MeshError, format_value

__all__ = [
    "abstract_mesh",
    "any_mesh",
    "auto_mesh",
    "check_device_order",
    "concrete_mesh",
    "current_mesh",
    "device_order",
    "devices_text",
    "enter_mesh",
    "entry_of",
    "explicit_axes_of",
    "explicit_specs",
    "group_specs",
    "has_explicit_axes",
    "in_trace",
    "is_eager",
    "is_foreign",
    "is_placed",
    "is_tracked",
    "is_tracked_on",
    "mesh_for",
    "mesh_of_types",
    "mesh_with_devices",
    "must_enter",
    "needs_type",
    "on_ambient_mesh",
    "put",
    "replicated",
    "resolve_mesh",
    "retyped",
    "to_specs",
    "unmapped_mesh",
    "use_mesh",
    "with_auto_axes",
    "with_axes_at",
    "with_one_sharding",
    "without_devices",
    "without_mesh",
    "without_types",
]

#: The remedy in messages about a missing mesh. JAX keeps the older context, `with mesh:`, apart
#: from the mesh of `jax.set_mesh`.
HOW_TO_GIVE_A_MESH = (
    "Pass mesh=jax.make_mesh(...), or set a mesh with jax.set_mesh(mesh); `with mesh:` does not set"
    " one."
)


def current_mesh() -> AbstractMesh | None:
    """Return the mesh of the surrounding `jax.set_mesh` as an abstract mesh, or `None`."""
    mesh = jax.sharding.get_abstract_mesh()
    return None if mesh.empty else mesh


def check_mesh(mesh: object, op: str) -> None:
    """Check that the argument `mesh` is a mesh or `None`.

    Raises:
      MeshError: it is neither.
    """
    if mesh is not None and not isinstance(mesh, (Mesh, AbstractMesh)):
        raise MeshError(
            f"{op}: mesh={format_value(mesh)} is not a mesh. Pass mesh=jax.make_mesh(shape,"
            " axis_names), or a jax.sharding.AbstractMesh to lower without devices."
        )


def resolve_mesh(mesh: Mesh | AbstractMesh | None, op: str = "xmap") -> tuple[Any, bool]:
    """Return the mesh to use for the argument `mesh`, and True if `jax.set_mesh` set it.

    If both meshes have the same axes, the result is the surrounding one. JAX allows no other mesh
    there, and its axis types determine how types track shardings.

    Raises:
      MeshError: the two meshes have different axes.
    """
    check_mesh(mesh, op)
    context = current_mesh()
    if mesh is None or context is None:
        return (mesh, False) if context is None else (context, True)
    if dict(mesh.shape) == dict(context.shape) and mesh.axis_names == context.axis_names:
        return context, True
    raise MeshError(
        f"{op}: mesh= has the axes {dict(mesh.shape)}, but the mesh of the surrounding jax.set_mesh"
        f" has {dict(context.shape)}; JAX allows one mesh at a time. Omit mesh=, or call the"
        " function under jax.set_mesh of its own mesh."
    )


def concrete_mesh(mesh: Mesh | AbstractMesh | None) -> Mesh | None:
    """Return `mesh` or the mesh of `jax.set_mesh`, if it has devices; else `None`.

    Under `jax.jit` the mesh of `jax.set_mesh` counts as one without devices.

    See `resolve_mesh`.
    """
    if mesh is None or current_mesh() is not None:
        try:
            mesh = jax.sharding.get_mesh()
        except ValueError:  # "can only be used outside of jax.jit"
            return None
    return mesh if isinstance(mesh, Mesh) and not mesh.empty else None


def mesh_with_devices(mesh: Mesh | AbstractMesh | None, op: str) -> Mesh:
    """Return `concrete_mesh(mesh)`, which must exist.

    Raises:
      MeshError: there is no mesh with devices.
    """
    found = concrete_mesh(mesh)
    if found is not None:
        return found
    if isinstance(mesh, Mesh) and mesh.abstract_mesh == current_mesh():
        return mesh  # under `jax.jit` in the context of the same mesh
    if mesh is not None and not isinstance(mesh, Mesh):
        raise MeshError(
            f"{op}: the mesh {dict(mesh.shape)} is an AbstractMesh, which has no devices. Pass"
            " mesh=jax.make_mesh(...), or use nx.interop.abstract if types are enough."
        )
    raise MeshError(_no_mesh(op))


def any_mesh(mesh: Any, op: str) -> Any:
    """Return the mesh to use for the argument `mesh`, with devices if possible.

    Raises:
      MeshError: there is no mesh, or its axes differ from the axes of the mesh of `jax.set_mesh`.
    """
    found = resolve_mesh(mesh, op)[0]
    if found is None:
        raise MeshError(_no_mesh(op))
    return concrete_mesh(mesh) or found


def _no_mesh(op: str) -> str:
    return f"{op}: there is no mesh. {HOW_TO_GIVE_A_MESH}"


def without_devices(
    mesh: Mesh | AbstractMesh | None, datas: Iterable[object]
) -> Mesh | AbstractMesh | None:
    """Return `mesh` or the current mesh, if the devices are not determined.

    Neither the mesh nor a value on an equal mesh determines them.

    Return `None` if the devices are determined, and inside a trace, where JAX does not expose the
    mesh.
    """
    if isinstance(mesh, Mesh):
        return None
    try:
        context = jax.sharding.get_mesh()
    except ValueError:  # "can only be used outside of jax.jit"
        return None
    mesh = current_mesh() if mesh is None else mesh
    if mesh is None or not context.empty:
        return None
    for data in datas:
        sharding = getattr(data, "sharding", None)
        known = sharding.mesh if isinstance(sharding, NamedSharding) else None
        if (
            isinstance(known, Mesh)
            and known.axis_names == mesh.axis_names
            and dict(known.shape) == dict(mesh.shape)
        ):
            return None
    return mesh


def mesh_for(mesh: Any, datas: Iterable[object]) -> Any:
    """Return `mesh` with axis types for the values.

    They are Explicit if one of their types mentions Explicit axes, else Auto.

    JAX tracks shardings in types under `jax.set_mesh`, or if a value has such a type. Otherwise a
    caller cannot use a result with such a type; for example, JAX rejects eager gradients of it. If
    a value has such a type, its gradient must have it too.
    """
    if current_mesh() is not None:
        return mesh
    tracking = _tracked_mesh(datas)
    if tracking is None:
        return auto_mesh(mesh) if has_explicit_axes(mesh) else mesh
    same = tracking.axis_names == mesh.axis_names and dict(tracking.shape) == dict(mesh.shape)
    return tracking if same and not has_explicit_axes(mesh) else mesh


def use_mesh(
    mesh: Mesh | AbstractMesh | None, from_context: bool
) -> AbstractContextManager[object]:
    """Return a context in which JAX's sharding functions use `mesh` while tracing."""
    if from_context or mesh is None:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(abstract_mesh(mesh))


def abstract_mesh(mesh: Mesh | AbstractMesh) -> AbstractMesh:
    """Return a mesh without its devices."""
    return mesh.abstract_mesh if isinstance(mesh, Mesh) else mesh


def mesh_of_types(datas: Iterable[object]) -> AbstractContextManager[object]:
    """Return a context manager that makes the mesh in the types of values the current one.

    It has Explicit axes. A current mesh is kept.

    New values, such as the initial zeros of a loop, then have types on that mesh. JAX does not
    combine values of other types with them.

    Raises:
      MeshError: the values are on different devices.
    """
    datas = list(datas)
    tracking = _tracked_mesh(datas)
    if tracking is not None:
        # In such a context JAX does not compare the devices of operands: JAX 0.10 ends the process.
        check_device_order(datas)
    return use_mesh(tracking, current_mesh() is not None)


def without_mesh() -> AbstractContextManager[object]:
    """Return a context without a mesh, to create constants and to change the mesh."""
    return jax.sharding.use_abstract_mesh(AbstractMesh((), ()))


def has_explicit_axes(mesh: Mesh | AbstractMesh) -> bool:
    """Return True if an axis of the mesh is Explicit."""
    return bool(_explicit_axes(mesh))


def _explicit_axes(mesh: Mesh | AbstractMesh) -> frozenset[str]:
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return frozenset(axis for axis, kind in kinds if kind == AxisType.Explicit)


def auto_mesh(mesh: Mesh | AbstractMesh) -> Any:
    """Return a mesh of the same devices with every axis Auto."""
    kinds = (AxisType.Auto,) * len(mesh.axis_names)
    if isinstance(mesh, Mesh):
        return Mesh(mesh.devices, mesh.axis_names, axis_types=kinds)
    return mesh.update(axis_types=kinds)


def with_auto_axes(
    shard_map: Callable[..., Callable[..., PyTree]],
    mesh: Mesh | AbstractMesh,
    from_context: bool,
    mapped: Collection[str],
) -> Callable[..., Callable[..., PyTree]]:
    """Adapt `shard_map` to make the Explicit axes Auto that it does not map.

    JAX evaluates an equation only in the context of the mesh in its types, and does not cast
    between types with Explicit axes. So a body needs types without Explicit axes if its equations
    are traced in one context, and evaluated in another.

    Args:
      shard_map: `jax.shard_map` over some axes of the mesh in the context.
      mesh: the mesh in the types of the arguments. These are replicated over the axes that are not
        mapped, and so are the results.
      from_context: True if it is the mesh of `jax.set_mesh`.
      mapped: the mesh axes over which `shard_map` maps.
    """
    left = _explicit_axes(mesh).difference(mapped)
    types = zip(mesh.axis_names, mesh.axis_types, strict=True)
    kinds = tuple(AxisType.Auto if axis in left else kind for axis, kind in types)
    with_auto = abstract_mesh(mesh).update(axis_types=kinds)

    def entered(data: jax.Array) -> jax.Array:
        return jax.reshard(data, jax.typeof(data).sharding.spec)

    def mapping(body: Callable[..., PyTree], *, out_specs: PyTree, **options: object) -> Any:
        def run(*datas: PyTree) -> PyTree:
            with jax.sharding.use_abstract_mesh(with_auto):
                given = jax.tree.map(entered, datas)
                results = shard_map(body, out_specs=out_specs, **options)(*given)
            specs = explicit_specs(out_specs, mesh)  # tracing the body may fill a list of them
            return jax.reshard(
                results,
                specs
                if from_context
                else jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=_is_spec),
            )

        return run

    return mapping


def unmapped_mesh(mesh: AbstractMesh) -> AbstractMesh:
    """Return `mesh` without manual axes: the Explicit axes of the context, and others Auto."""
    explicit = _explicit_axes(jax.sharding.get_abstract_mesh())
    kinds = (AxisType.Explicit if axis in explicit else AxisType.Auto for axis in mesh.axis_names)
    return mesh.update(axis_types=tuple(kinds))


def to_specs(
    datas: Sequence[jax.Array], specs: Sequence[PartitionSpec], mesh: Mesh | AbstractMesh | None
) -> list[jax.Array]:
    """Reshard values to partition specs over the Explicit axes of a mesh.

    Without Explicit axes, return them unchanged.

    Values are replicated over Explicit axes that a spec does not mention. If types still mentioned
    these axes, JAX's treatment of a value would depend on the origin of the argument.

    Args:
      datas: the values.
      specs: a partition spec for each value.
      mesh: the mesh; `None` for the mesh of `jax.set_mesh`.
    """
    target = current_mesh() if mesh is None else mesh
    assert target is not None
    explicit = _explicit_axes(target)
    if not explicit:
        return list(datas)
    of_types = target if mesh is None else mesh.abstract_mesh
    known: dict[tuple[int, int], PartitionSpec] = {}
    results: list[jax.Array] = []
    for data, spec in zip(datas, specs, strict=True):
        key = (id(spec), data.ndim)  # adjacent arguments share a spec
        wanted = (
            known[key]
            if key in known
            else known.setdefault(key, _explicit_spec(spec, data.ndim, explicit))
        )
        # A concrete array may be on other devices, of a mesh with equal axes.
        if isinstance(data, jax.core.Tracer):
            sharding = jax.typeof(data).sharding
            if sharding.spec == wanted and sharding.mesh == of_types:
                results.append(data)
                continue
        results.append(jax.reshard(data, wanted if mesh is None else NamedSharding(mesh, wanted)))
    return results


def _explicit_spec(spec: PartitionSpec, ndim: int, explicit: frozenset[str]) -> PartitionSpec:
    """Return a spec of `ndim` dimensions without Auto axes, which JAX's types do not mention."""
    return PartitionSpec(
        *(
            tuple(axis for axis in entry_of(spec, dim) if axis in explicit) or None
            for dim in range(ndim)
        )
    )


def put(data: jax.typing.ArrayLike, sharding: NamedSharding) -> jax.Array:
    """Reshard `data`, also under `jax.jit`.

    There, `jax.device_put` ignores the Auto axes of a mesh. A traced array is resharded in the
    memory of the device, and then copied to that of the host.
    """
    if isinstance(data, jax.core.Tracer) and sharding.memory_kind == PINNED_HOST:
        return to_host(put(data, sharding.with_memory_kind(DEVICE)))
    placed = jax.device_put(_summed(data), sharding)
    mesh = sharding.mesh
    explicit = _explicit_axes(mesh)
    if (
        not isinstance(placed, jax.core.Tracer)
        or len(explicit) == len(mesh.axis_names)
        or is_eager()
    ):
        return placed
    entries = (
        tuple(axis for axis in entry_of(sharding.spec, dim) if axis not in explicit)
        for dim in range(placed.ndim)
    )
    return lax.with_sharding_constraint(
        placed, NamedSharding(mesh, PartitionSpec(*(axes or None for axes in entries)))
    )


def _summed(data: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
    """Sum `data` over the Explicit axes over which it is unreduced.

    `jax.device_put` rejects unreduced arrays.
    """
    if not isinstance(data, jax.Array):
        return data
    of_type = jax.typeof(data).sharding
    is_unreduced = isinstance(of_type, NamedSharding) and of_type.spec.unreduced
    return replicated(data) if is_unreduced else data


def group_specs(
    shard_map: Callable[..., Callable[..., PyTree]], specs: Sequence[PartitionSpec]
) -> Callable[..., Callable[..., PyTree]]:
    """Adapt `shard_map` to pass one spec for each run of adjacent arguments with equal specs.

    JAX processes every spec that it gets, so fewer specs trace faster.
    """
    counts = [(spec, len(list(group))) for spec, group in itertools.groupby(specs)]

    def mapping(body: Callable[..., PyTree], **options: object) -> Callable[..., PyTree]:
        def of_groups(*groups: Sequence[jax.Array]) -> PyTree:
            return body(*itertools.chain.from_iterable(groups))

        mapped = shard_map(of_groups, in_specs=tuple(spec for spec, _ in counts), **options)

        def run(*datas: jax.Array) -> PyTree:
            supply = iter(datas)
            return mapped(*(list(itertools.islice(supply, count)) for _, count in counts))

        return run

    return mapping


def replicated(data: jax.Array) -> jax.Array:
    """Replicate `data` over the Explicit axes that its type mentions."""
    if not is_tracked(data):
        return data
    sharding: Any = (
        jax.typeof(data).sharding if isinstance(data, jax.core.Tracer) else data.sharding
    )
    return jax.reshard(data, NamedSharding(sharding.mesh, PartitionSpec(*[None] * data.ndim)))


def explicit_axes_of(data: object, dim: int) -> tuple[str, ...]:
    """Return the Explicit mesh axes over which the type of `data` shards a dimension."""
    return entry_of(jax.typeof(data).sharding.spec, dim) if is_tracked(data) else ()


def with_axes_at(data: jax.Array, dim: int, axes: tuple[str, ...]) -> jax.Array:
    """Shard one dimension of `data` over Explicit axes of the mesh in its type, if they are free.

    Without axes it is gathered.
    """
    if not is_tracked(data) or explicit_axes_of(data, dim) == axes:
        return data
    sharding: Any = jax.typeof(data).sharding  # without the Auto axes of an array
    entries = [entry_of(sharding.spec, i) for i in range(data.ndim)]
    entries[dim] = axes
    used = [axis for entry in entries for axis in entry]
    if len(set(used)) < len(used):
        return data
    spec = PartitionSpec(*(entry or None for entry in entries))
    own: Any = sharding if isinstance(data, jax.core.Tracer) else data.sharding
    return jax.reshard(data, NamedSharding(own.mesh, spec))


def with_one_sharding(datas: Sequence[jax.Array]) -> list[jax.Array]:
    """Reshard arrays of equal rank to one sharding over Explicit mesh axes, as joins require.

    The first array that shards a dimension determines its mesh axes, if these are free.
    """
    tracked = [data for data in datas if is_tracked(data)]
    entries: dict[int, tuple[str, ...]] = {}
    for data in tracked:
        for i in range(data.ndim):
            axes = explicit_axes_of(data, i)
            if axes and not {*axes} & {axis for entry in entries.values() for axis in entry}:
                entries.setdefault(i, axes)
    if not entries:
        return list(datas)
    concrete: list[Any] = [data for data in tracked if not isinstance(data, jax.core.Tracer)]
    mesh = concrete[0].sharding.mesh if concrete else _mesh_of_type(tracked[0])
    spec = PartitionSpec(*(entries.get(i) for i in range(tracked[0].ndim)))
    sharding = NamedSharding(mesh, spec)
    return [data if _has_spec(data, spec) else jax.reshard(data, sharding) for data in datas]


def _has_spec(data: jax.Array, spec: PartitionSpec) -> bool:
    return is_tracked(data) and all(
        explicit_axes_of(data, i) == entry_of(spec, i) for i in range(data.ndim)
    )


def without_types(results: PyTree, mesh: Mesh | AbstractMesh | None) -> PyTree:
    """Copy scalar results of an eager call to Auto axes, so that `jax.grad` accepts them.

    The call is under a JAX transformation.

    If an argument is sharded over Explicit axes, the types of tracers mention the mesh. Without
    `jax.set_mesh` JAX then has no devices on which to start the gradient of a scalar. A copy on
    Auto axes has no such type. A scalar is on all devices, so the copy is also correct under
    `jax.vmap`.
    """
    numbers = [
        leaf
        for leaf in jax.tree.leaves(results)
        if isinstance(leaf, jax.core.Tracer) and leaf.ndim == 0
    ]
    if (
        not isinstance(mesh, Mesh)
        or current_mesh() is not None
        or _tracked_mesh(numbers) is None
        or not is_eager()
    ):
        return results
    target = NamedSharding(auto_mesh(mesh), PartitionSpec())
    # Under jax.vmap, JAX requires the source sharding, to which the gradient returns. Its mesh is
    # this one, unless the arguments selected a mesh with equal axes (`mesh_for`).
    source = {"src": NamedSharding(mesh, PartitionSpec())} if has_explicit_axes(mesh) else {}

    def one(leaf: jax.Array) -> jax.Array:
        return (
            jax.device_put(leaf, target, **source)
            if any(leaf is x for x in numbers) and is_tracked(leaf)
            else leaf
        )

    return jax.tree.map(one, results)


def in_trace() -> bool:
    """Return True under a transformation of JAX, such as `jax.jit` or `jax.grad`."""
    return get_opaque_trace_state() != _eager_state()


@functools.cache
def _eager_state() -> object:
    with jax.ensure_compile_time_eval():  # also if the first call is under a transformation
        return get_opaque_trace_state()


def is_eager() -> bool:
    """Return True if operations execute eagerly, and not under `jax.jit`.

    They may execute on tracers of `jax.grad` or `jax.vmap`.
    """
    return not isinstance(lax.full((), 0.0), jax.core.Tracer)


def must_enter(data: object, mesh: Mesh | AbstractMesh) -> bool:
    """Return True if a closed-over value needs another type in a body (see `enter_mesh`).

    The body is that of a `jax.shard_map`.

    JAX casts a value automatically if all axes of the mesh in its type are Auto.
    """
    return is_foreign(data, mesh) and bool(set(_mesh_of_type(data).axis_types) - {AxisType.Auto})


def is_foreign(data: object, mesh: Mesh | AbstractMesh) -> bool:
    """Return True if `data` has the type of a surrounding region, not of the one on `mesh`."""
    return _has_mesh(data) and bool(_mesh_of_type(data) != (current_mesh() or mesh))


def enter_mesh(data: jax.Array, mesh: Mesh | AbstractMesh) -> jax.Array:
    """Reshard a closed-over value to a type without the mesh axes of surrounding regions."""
    return jax.reshard(
        data, NamedSharding(current_mesh() or mesh, PartitionSpec(*[None] * data.ndim))
    )


def needs_type(data: object, mesh: Mesh | AbstractMesh) -> bool:
    """Return True if JAX does not combine an array with values on the mesh (`on_ambient_mesh`)."""
    if mesh.empty or not _has_mesh(data):
        return False
    known = _mesh_of_type(data)
    if known.axis_types == mesh.axis_types:
        if known.axis_names == mesh.axis_names and known.axis_sizes == mesh.axis_sizes:
            return False
    kinds = {*known.axis_types, *mesh.axis_types}
    return AxisType.Manual not in kinds and AxisType.Explicit in kinds


def on_ambient_mesh(data: jax.Array, op: str, mesh: Mesh | AbstractMesh | None = None) -> jax.Array:
    """Return an array with a type on the ambient mesh: same devices and spec, no data moves.

    Results of `nx.xmap(..., mesh=m)` on unplaced arguments are on an Auto copy of `m`, and JAX does
    not combine them with values on `m`. Arrays that are on no mesh, on the ambient one or on a mesh
    without Explicit axes under another such mesh are returned unchanged.

    The type of a traced value does not mention its sharding over Auto axes. So a tracer is
    replicated over the axes that are Auto in its type and Explicit in the ambient mesh.

    Args:
      data: the array.
      op: the operation, for messages.
      mesh: the ambient mesh; by default the mesh of `jax.set_mesh`. Without one, `data` is
        returned.

    Raises:
      MeshError: the array is on a mesh with other axes.
    """
    target = current_mesh() if mesh is None else mesh
    if target is None or not needs_type(data, target):
        return data
    known = _mesh_of_type(data)
    if known.axis_names != target.axis_names or known.axis_sizes != target.axis_sizes:
        raise MeshError(
            f"{op}: an array is on the mesh {dict(known.shape)}, but the mesh of the operation is"
            f" {dict(target.shape)}; an operation runs on one mesh. Place the array there first:"
            " nx.shard(x, axis_resources, mesh)."
        )
    if isinstance(data, jax.core.Tracer):
        spec = explicit_specs(jax.typeof(data).sharding.spec, target)
        return jax.reshard(data, NamedSharding(target, spec))
    own: Any = data.sharding
    devices = Mesh(own.mesh.devices, own.mesh.axis_names, axis_types=target.axis_types)
    with jax.ensure_compile_time_eval():  # in a trace the copy would be an equation
        return jax.device_put(data, NamedSharding(devices, own.spec))


def retyped(op: str, datas: Sequence[Any]) -> list[Any] | None:
    """Return values with types on one mesh, or `None` if they are already (see `on_ambient_mesh`).

    That is the mesh of `jax.set_mesh`, else the first one with Explicit axes in their types.
    """
    mesh = current_mesh() or _tracked_mesh(datas)
    if mesh is None or not any(needs_type(x, mesh) for x in datas):
        return None
    return [on_ambient_mesh(x, op, mesh) if isinstance(x, jax.Array) else x for x in datas]


def _mesh_of_type(data: object) -> AbstractMesh:
    return jax.typeof(data).sharding.mesh


def _has_mesh(data: object) -> bool:
    """Return True if the type of `data` mentions a mesh."""
    if not isinstance(data, jax.Array):
        return False
    sharding = jax.typeof(data).sharding
    return isinstance(sharding, NamedSharding) and not sharding.mesh.empty


def _tracked_mesh(datas: Iterable[object]) -> Mesh | AbstractMesh | None:
    """Return the first mesh with Explicit axes in the types of the values, or `None`."""
    last = None  # the last mesh without Explicit axes
    for data in datas:
        # `Tracer` comes first, because the check of a tracer against `jax.Array` runs Python code.
        sharding = (
            jax.typeof(data).sharding if isinstance(data, (jax.core.Tracer, jax.Array)) else None
        )
        if isinstance(sharding, NamedSharding) and sharding.mesh is not last:
            if is_tracked(data):
                return sharding.mesh
            last = sharding.mesh
    return None


def is_tracked_on(data: object, axis: AxisName) -> bool:
    """Return True if the type of `data` mentions a mesh in which `axis` is an Explicit axis."""
    return is_tracked(data) and axis in _explicit_axes(_mesh_of_type(data))


def is_tracked(data: object) -> TypeGuard[jax.Array]:
    """Return True if the type of `data` tracks its sharding over Explicit axes."""
    return _has_mesh(data) and has_explicit_axes(_mesh_of_type(data))


def explicit_specs(specs: PyTree, mesh: Mesh | AbstractMesh) -> PyTree:
    """Remove the Auto axes, which JAX's types do not mention, from a tree of partition specs."""
    explicit = _explicit_axes(mesh)

    def one(spec: PartitionSpec) -> PartitionSpec:
        return _explicit_spec(spec, len(spec), explicit)

    return jax.tree.map(one, specs, is_leaf=_is_spec)


def _is_spec(node: object) -> bool:
    return isinstance(node, PartitionSpec)


def entry_of(spec: PartitionSpec | Sequence[Any], dim: int) -> tuple[str, ...]:
    """Return the mesh axes over which a partition spec shards a dimension."""
    entry = spec[dim] if dim < len(spec) else None
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def is_placed(data: jax.Array, mesh: Mesh) -> bool:
    """Return True if a concrete array is uncommitted or already on `mesh`."""
    if not data.committed:
        return True
    sharding = data.sharding
    return isinstance(sharding, NamedSharding) and sharding.mesh == mesh


def device_order(data: object) -> tuple[int, ...] | None:
    """Return the ids of the devices of a committed array, in the order of its mesh.

    Return `None` for anything else: JAX moves uncommitted arrays itself, and a tracer has no
    devices.
    """
    if isinstance(data, jax.core.Tracer) or not isinstance(data, jax.Array) or not data.committed:
        return None
    own: Any = data.sharding
    devices = own.mesh.devices.flat if isinstance(own, NamedSharding) else own.device_set
    return tuple(device.id for device in devices)


def check_device_order(arguments: Iterable[object]) -> None:
    """Check that the arrays among the arguments of a mapped function without a mesh are on one.

    Raises:
      MeshError: they are on different devices, or on the same devices in different orders.
    """
    orders = [*dict.fromkeys(filter(None, map(device_order, arguments)))]
    if len(orders) > 1:
        raise MeshError(
            f"xmap: one argument is on the devices {devices_text(orders[0])} and another on the"
            f" devices {devices_text(orders[1])}; the order of devices is part of a mesh. Pass"
            " mesh=, or place all arguments on one mesh: nx.shard(x, axis_resources, mesh)."
        )


def devices_text(order: tuple[int, ...]) -> str:
    """Return the ids of devices for messages; of many, the first eight.

    >>> from namedax.resources.mesh import devices_text
    >>> devices_text((3, 2)), devices_text(tuple(range(512)))
    ('[3, 2]', '[0, 1, 2, 3, 4, 5, 6, 7, ...]')
    """
    return f"[{', '.join(map(str, order[:8]))}{', ...' if len(order) > 8 else ''}]"
