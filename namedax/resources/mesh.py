"""Which mesh applies, and bringing arrays onto it.

On a mesh with Auto axes XLA moves what arrives with another sharding. On one with Explicit axes the sharding is part of a
value's type, and must be changed before it enters `jax.shard_map`; over mesh axes on which none of its names lives it is
replicated.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from namedax.errors import MeshError, format_value

__all__ = [
    "any_mesh",
    "auto_mesh",
    "concrete_mesh",
    "current_mesh",
    "enter_mesh",
    "entry_of",
    "explicit_specs",
    "group_specs",
    "has_explicit_axes",
    "is_foreign",
    "is_placed",
    "is_tracked",
    "is_tracked_on",
    "mesh_for",
    "mesh_of_types",
    "mesh_with_devices",
    "must_enter",
    "put",
    "replicated",
    "resolve_mesh",
    "to_specs",
    "use_mesh",
    "without_devices",
    "without_mesh",
    "without_types",
]

#: What messages say where there is none. JAX keeps the context of old, `with mesh:`, apart from the mesh that is set.
HOW_TO_GIVE_A_MESH = (
    "Give one as mesh=jax.make_mesh(...), or set one around the call with jax.set_mesh(mesh); `with mesh:` sets none."
)


def current_mesh() -> Any:
    """The mesh of the surrounding `jax.set_mesh`, as an abstract mesh, or `None`."""
    mesh = jax.sharding.get_abstract_mesh()
    return None if mesh.empty else mesh


def check_mesh(mesh: Any, op: str) -> None:
    """Raises `MeshError` if what is given as `mesh=` is neither `None` nor a mesh."""
    if mesh is not None and not isinstance(mesh, (Mesh, AbstractMesh)):
        raise MeshError(
            f"{op}: mesh={format_value(mesh)} is not a mesh; write mesh=jax.make_mesh(shape, axis_names), or a jax.sharding.AbstractMesh to lower "
            "for devices that are not there."
        )


def resolve_mesh(mesh: Any, op: str = "xmap") -> tuple[Any, bool]:
    """The mesh to use for the argument `mesh`, and whether it is that of the surrounding `jax.set_mesh`.

    If two meshes have one shape, the surrounding one is used: JAX allows no other, and it says how its types track shardings.

    Raises:
      MeshError: the two have different axes.
    """
    check_mesh(mesh, op)
    context = current_mesh()
    if mesh is None or context is None:
        return (mesh, False) if context is None else (context, True)
    if dict(mesh.shape) == dict(context.shape) and mesh.axis_names == context.axis_names:
        return context, True
    raise MeshError(
        f"{op}: the mesh given as mesh= has the axes {dict(mesh.shape)}, but that of the surrounding jax.set_mesh has "
        f"{dict(context.shape)}; JAX allows one mesh at a time. Leave out mesh=, or call the function under jax.set_mesh of "
        "its own mesh."
    )


def concrete_mesh(mesh: Any) -> Mesh | None:
    """`mesh` or that of the surrounding `jax.set_mesh`, if it has devices; `None` under `jax.jit`. See `resolve_mesh`."""
    if mesh is None or current_mesh() is not None:
        try:
            mesh = jax.sharding.get_mesh()
        except ValueError:  # "can only be used outside of jax.jit"
            return None
    return mesh if isinstance(mesh, Mesh) and not mesh.empty else None


def mesh_with_devices(mesh: Any, op: str) -> Mesh:
    """`concrete_mesh(mesh)`.

    Raises:
      MeshError: there is none.
    """
    found = concrete_mesh(mesh)
    if found is not None:
        return found
    if mesh is not None and not isinstance(mesh, Mesh):
        raise MeshError(
            f"{op}: the mesh {dict(mesh.shape)} is an AbstractMesh, which has no devices for arrays to live on. Give one as "
            "mesh=jax.make_mesh(...); where types are enough, use nx.interop.abstract."
        )
    raise MeshError(_no_mesh(op))


def any_mesh(mesh: Any, op: str) -> Any:
    """The mesh to use for the argument `mesh`, with devices if there are some, and otherwise an abstract one.

    Raises:
      MeshError: there is none, or it has other axes than that of `jax.set_mesh`.
    """
    found = resolve_mesh(mesh, op)[0]
    if found is None:
        raise MeshError(_no_mesh(op))
    return concrete_mesh(mesh) or found


def _no_mesh(op: str) -> str:
    return f"{op}: there is no mesh. {HOW_TO_GIVE_A_MESH}"


def without_devices(mesh: Any, datas: Iterable[Any]) -> Any:
    """`mesh` or that of the context, if neither it nor a value on such a mesh says which devices it stands for.

    `None` where one does, and under a trace, where JAX does not tell.
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
        if isinstance(known, Mesh) and known.axis_names == mesh.axis_names and dict(known.shape) == dict(mesh.shape):
            return None
    return mesh


def mesh_for(mesh: Any, datas: Iterable[Any]) -> Any:
    """`mesh` with the axis types that suit the values: Explicit if one of their types mentions such axes, or else Auto.

    JAX tracks shardings in types where a value arrives with such a type, or under `jax.set_mesh`. Where it does not track any,
    a result with such a type would be of no use to the caller: JAX refuses eager gradients of it, for one. And where a value
    has such a type, its gradient must have it too.
    """
    if current_mesh() is not None:
        return mesh
    tracking = _tracked_mesh(datas)
    if tracking is None:
        return auto_mesh(mesh) if has_explicit_axes(mesh) else mesh
    same = tracking.axis_names == mesh.axis_names and dict(tracking.shape) == dict(mesh.shape)
    return tracking if same and not has_explicit_axes(mesh) else mesh


def use_mesh(mesh: Any, from_context: bool) -> Any:
    """A context manager that makes `mesh` the one that JAX's sharding functions see while tracing."""
    if from_context:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(mesh.abstract_mesh if isinstance(mesh, Mesh) else mesh)


def mesh_of_types(datas: Iterable[Any]) -> Any:
    """A context manager that makes the mesh that the types of some values mention the current one, where there is none.

    Values that are made alongside, such as the zeros that a loop fills, then have types of that mesh; JAX does not let others
    meet them.
    """
    tracking = _tracked_mesh(datas)
    return use_mesh(tracking, tracking is None or current_mesh() is not None)


def without_mesh() -> Any:
    """A context manager without a mesh: for constants, which have nothing to do with one, and on the way from one mesh to another."""
    return jax.sharding.use_abstract_mesh(AbstractMesh((), ()))


def has_explicit_axes(mesh: Any) -> bool:
    """Whether some axis of the mesh is Explicit."""
    return bool(_explicit_axes(mesh))


def _explicit_axes(mesh: Any) -> frozenset[str]:
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return frozenset(axis for axis, kind in kinds if kind == AxisType.Explicit)


def auto_mesh(mesh: Any) -> Any:
    """The same devices with every axis Auto."""
    kinds = (AxisType.Auto,) * len(mesh.axis_names)
    if isinstance(mesh, Mesh):
        return Mesh(mesh.devices, mesh.axis_names, axis_types=kinds)
    return mesh.update(axis_types=kinds)


def to_specs(datas: Sequence[Any], specs: Sequence[PartitionSpec], mesh: Any) -> list[Any]:
    """The values resharded to these specs, where the sharding is part of their type (Explicit axes); others as they are.

    `mesh` is `None` for that of `jax.set_mesh`.

    Explicit axes that a spec does not mention hold whole copies afterwards: no name lives there, and what JAX does with
    values whose types still mentioned them would depend on where an argument comes from.
    """
    target = current_mesh() if mesh is None else mesh
    explicit = _explicit_axes(target)
    if not explicit:
        return list(datas)
    of_types = target if mesh is None else mesh.abstract_mesh
    known: dict[tuple[int, int], PartitionSpec] = {}
    results = []
    for data, spec in zip(datas, specs, strict=True):
        key = (id(spec), data.ndim)  # neighbours have the same spec
        wanted = known[key] if key in known else known.setdefault(key, _explicit_spec(spec, data.ndim, explicit))
        if isinstance(data, jax.core.Tracer):  # an array may be on other devices of a mesh that looks the same
            sharding = jax.typeof(data).sharding
            if sharding.spec == wanted and sharding.mesh == of_types:
                results.append(data)
                continue
        results.append(jax.reshard(data, wanted if mesh is None else NamedSharding(mesh, wanted)))
    return results


def _explicit_spec(spec: PartitionSpec, ndim: int, explicit: frozenset[str]) -> PartitionSpec:
    """A spec for so many dimensions without the mesh axes that are Auto, which JAX's types do not mention."""
    return PartitionSpec(*(tuple(axis for axis in entry_of(spec, dim) if axis in explicit) or None for dim in range(ndim)))


def put(data: Any, sharding: NamedSharding) -> Any:
    """`data` with this sharding, also under `jax.jit`, where `jax.device_put` ignores the Auto axes of a mesh."""
    placed = jax.device_put(_summed(data), sharding)
    mesh = sharding.mesh
    explicit = _explicit_axes(mesh)
    if not isinstance(placed, jax.core.Tracer) or len(explicit) == len(mesh.axis_names) or _is_eager():
        return placed
    entries = (tuple(axis for axis in entry_of(sharding.spec, dim) if axis not in explicit) for dim in range(placed.ndim))
    return lax.with_sharding_constraint(placed, NamedSharding(mesh, PartitionSpec(*(axes or None for axes in entries))))


def _summed(data: Any) -> Any:
    """`data`, added up over the Explicit axes over which it is unreduced; `jax.device_put` does not take such an array."""
    of_type = jax.typeof(data).sharding if isinstance(data, jax.Array) else None
    return replicated(data) if isinstance(of_type, NamedSharding) and of_type.spec.unreduced else data


def group_specs(shard_map: Callable[..., Any], specs: Sequence[PartitionSpec]) -> Callable[..., Any]:
    """`shard_map` for functions of so many arrays, with one spec for all neighbours that have the same: JAX looks at each spec that it is given."""
    counts = [(spec, len(list(group))) for spec, group in itertools.groupby(specs)]

    def mapping(body: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        def of_groups(*groups: Sequence[Any]) -> Any:
            return body(*itertools.chain.from_iterable(groups))

        mapped = shard_map(of_groups, in_specs=tuple(spec for spec, _ in counts), **options)

        def run(*datas: Any) -> Any:
            supply = iter(datas)
            return mapped(*(list(itertools.islice(supply, count)) for _, count in counts))

        return run

    return mapping


def replicated(data: Any) -> Any:
    """`data` replicated over the Explicit axes that its type mentions."""
    if not is_tracked(data):
        return data
    sharding = data.sharding if not isinstance(data, jax.core.Tracer) else jax.typeof(data).sharding
    return jax.reshard(data, NamedSharding(sharding.mesh, PartitionSpec(*[None] * data.ndim)))


def without_types(results: Any, mesh: Any) -> Any:
    """Results of an eager call under a JAX transformation as `jax.grad` can take them: numbers whose types mention no mesh.

    Where an argument lies on Explicit axes, the types of tracers say so, and without `jax.set_mesh` JAX has no devices on which to begin
    the gradient of such a number. A copy to Auto axes has no such type; one number is on all devices, so that the copy is right under
    `jax.vmap` too.
    """
    numbers = [leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.core.Tracer) and leaf.ndim == 0]
    if not isinstance(mesh, Mesh) or current_mesh() is not None or _tracked_mesh(numbers) is None or not _is_eager():
        return results
    target = NamedSharding(auto_mesh(mesh), PartitionSpec())
    # Where it comes from, and its gradient goes, must be said under jax.vmap. It is this mesh, unless the arguments chose one that
    # looks like it (`mesh_for`).
    source = {"src": NamedSharding(mesh, PartitionSpec())} if has_explicit_axes(mesh) else {}

    def one(leaf: Any) -> Any:
        return jax.device_put(leaf, target, **source) if any(leaf is x for x in numbers) and is_tracked(leaf) else leaf

    return jax.tree.map(one, results)


def _is_eager() -> bool:
    """Whether operations are executed as they are called, if on tracers of `jax.grad` or `jax.vmap`: not within `jax.jit`."""
    return not isinstance(lax.full((), 0.0), jax.core.Tracer)


def must_enter(data: Any, mesh: Any) -> bool:
    """Whether a value from outside must get another type before a body that `jax.shard_map` maps can use it (`enter_mesh`).

    JAX casts values by itself where all axes of the mesh that their type mentions are Auto.
    """
    return is_foreign(data, mesh) and bool(set(_mesh_of_type(data).axis_types) - {AxisType.Auto})


def is_foreign(data: Any, mesh: Any) -> bool:
    """Whether `data` has a type of a region around this one, which is of `mesh`."""
    return _has_mesh(data) and bool(_mesh_of_type(data) != (current_mesh() or mesh))


def enter_mesh(data: Any, mesh: Any) -> Any:
    """A value from outside with a type of this region, which does not say how it is sharded over mesh axes of the one outside."""
    return jax.reshard(data, NamedSharding(current_mesh() or mesh, PartitionSpec(*[None] * data.ndim)))


def _mesh_of_type(data: Any) -> Any:
    return jax.typeof(data).sharding.mesh


def _has_mesh(data: Any) -> bool:
    """Whether the type of `data` mentions a mesh."""
    if not isinstance(data, jax.Array):
        return False
    sharding = jax.typeof(data).sharding
    return isinstance(sharding, NamedSharding) and not sharding.mesh.empty


def _tracked_mesh(datas: Iterable[Any]) -> Any:
    """The mesh of whose Explicit axes the type of one of these speaks; `None` if there is not one."""
    last = None  # of which it is known that it is not
    for data in datas:
        # A tracer is asked first, of which Python would be asked whether it is an array.
        sharding = jax.typeof(data).sharding if isinstance(data, (jax.core.Tracer, jax.Array)) else None
        if isinstance(sharding, NamedSharding) and sharding.mesh is not last:
            if is_tracked(data):
                return sharding.mesh
            last = sharding.mesh
    return None


def is_tracked_on(data: Any, axis: Any) -> bool:
    """Whether the type of `data` speaks of a mesh with such an axis, that is Explicit."""
    return is_tracked(data) and axis in _explicit_axes(_mesh_of_type(data))


def is_tracked(data: Any) -> bool:
    """Whether the type of `data` says how Explicit axes shard it."""
    return _has_mesh(data) and has_explicit_axes(_mesh_of_type(data))


def explicit_specs(specs: Any, mesh: Any) -> Any:
    """A tree of partition specs without the mesh axes that are Auto, which JAX's types do not mention."""
    explicit = _explicit_axes(mesh)

    def one(spec: PartitionSpec) -> PartitionSpec:
        return _explicit_spec(spec, len(spec), explicit)

    return jax.tree.map(one, specs, is_leaf=lambda node: isinstance(node, PartitionSpec))


def entry_of(spec: PartitionSpec | Sequence[Any], dim: int) -> tuple[str, ...]:
    """The mesh axes over which a partition spec cuts a dimension."""
    entry = spec[dim] if dim < len(spec) else None
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def is_placed(data: Any, mesh: Mesh) -> bool:
    """Whether a concrete array may go into a program on `mesh` as it is: it is on that mesh, or on no device in particular."""
    if not data.committed:
        return True
    sharding = data.sharding
    return isinstance(sharding, NamedSharding) and sharding.mesh == mesh
