"""Check that arguments are already on the mesh, and reshard them if they are not.

The check costs one sharding check per array. A sharding object is cached after its first check:
arrays of a training loop have the same few objects in every step. Only unknown ones are compared.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding, get_abstract_mesh

from namedax.core.array import NamedArray, is_named, make_in_region, stored_data
from namedax.core.element_types import NUMPY, check_numbers, native_order, reject_foreign
from namedax.core.memory_kinds import PINNED_HOST, is_on_host
from namedax.core.names import PyTree
from namedax.errors import MeshError, StoredPaddingError
from namedax.ops.operands.kernels import whole_types
from namedax.resources.assignment import check_mesh_axes, dividing, partition_spec
from namedax.resources.mesh import (
    auto_mesh,
    concrete_mesh,
    has_explicit_axes,
    is_placed,
    mesh_for,
    without_devices,
)
from namedax.resources.serial import on_devices, with_loops
from namedax.xmap.argument_blocks import with_data
from namedax.xmap.arguments import Argument, join_arguments, name_arguments
from namedax.xmap.explanations import no_devices
from namedax.xmap.options import Mapped

__all__ = ["PlacementCheck", "check_devices", "checked_values", "place_arguments"]

_MAX_KNOWN = 8192


def checked_values(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with NumPy's numbers in native byte order.

    The program gets arrays of JAX's dtypes. `PlacementCheck.are_placed` checks this too.

    Raises:
      ArgumentError: an argument has 64-bit numbers of NumPy that would change in the program.
    """
    is_native = True
    remaining: list[Any] = [*args, *kwargs.values()]
    for value in remaining:  # the loop appends the elements of containers
        kind = type(value)
        if kind is NamedArray or kind in whole_types:
            continue
        if kind is list or kind is tuple:
            remaining += value
        elif kind is dict:
            remaining += value.values()
        elif isinstance(value, NUMPY):
            check_numbers("xmap", value)
            is_native = is_native and value.dtype.isnative
        elif not isinstance(value, (jax.Array, int, float, complex)):
            remaining += _inside(value)
    if is_native:
        return args, kwargs
    return jax.tree.map(native_order, (args, kwargs), is_leaf=is_named)


def _inside(value: PyTree) -> list[Any]:
    """Return the leaves of a custom pytree node; empty for a number or a static argument."""
    reject_foreign("xmap", value)  # not a static argument: it is not hashable
    leaves = jax.tree.leaves(value)
    return [] if len(leaves) == 1 and leaves[0] is value else leaves


class _Known:
    """The shardings seen on one mesh, by id.

    They are kept alive, so that no other object gets the id.
    """

    __slots__ = ("mesh", "shardings")

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.shardings: dict[int, Any] = {}

    def learns(self, array: jax.Array) -> bool:
        """Return True if the array is on the mesh; cache its sharding if all its arrays are."""
        sharding = array.sharding
        if isinstance(sharding, SingleDeviceSharding):  # also the sharding of uncommitted arrays
            return not array.committed
        if not isinstance(sharding, NamedSharding) or sharding.mesh != self.mesh:
            return False
        if len(self.shardings) >= _MAX_KNOWN:
            self.shardings.clear()
        self.shardings[id(sharding)] = sharding
        return True


class PlacementCheck:
    """The cache of the argument shardings of a mapped function.

    Args:
      mesh: the mesh that it was given, or `None`.
    """

    __slots__ = ("_given", "_now", "_takes_padded")

    def __init__(self, mesh: Mesh | AbstractMesh | None) -> None:
        self._given = mesh
        self._takes_padded = False  # True after the first argument that is stored padded
        # The context, the mesh of the context if there is one, and the known shardings of each mesh
        # on which the program may run. It is one tuple, replaced at once, since other threads
        # read it.
        self._now: tuple[Any, Any, tuple[_Known, ...]] = (None, None, ())

    def are_placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return True if no argument has to be moved, and check their values (`checked_values`).

        `False` means that this is unknown, for example under a trace.
        """
        context = get_abstract_mesh()
        known_context, mesh, kinds = self._now
        if context is not known_context or (
            mesh is not None and concrete_mesh(self._given) is not mesh
        ):
            kinds = self._begin(context)
        for known in kinds:
            shardings = known.shardings
            remaining: list[Any] = [*args, *kwargs.values()] if kwargs else list(args)
            try:
                for value in remaining:  # the loop appends the elements of containers
                    kind = type(value)
                    if kind is NamedArray:
                        # The attribute is faster than a call, and raises for stored padding.
                        value = stored_data(value) if self._takes_padded else value._data
                        kind = type(value)
                    if kind in whole_types:
                        if id(value.sharding) not in shardings and not known.learns(value):
                            break
                    elif kind is list or kind is tuple:
                        remaining += value
                    elif kind is dict:
                        remaining += value.values()
                    elif isinstance(value, jax.Array):
                        if isinstance(value, jax.core.Tracer) or not known.learns(value):
                            break
                        whole_types.add(kind)
                    elif isinstance(value, NUMPY):
                        check_numbers("xmap", value)
                        if not value.dtype.isnative:
                            return False
                    else:
                        remaining += _inside(value)
                else:
                    return True
            except StoredPaddingError:
                self._takes_padded = True
                return self.are_placed(args, kwargs)
        return False

    def _begin(self, context: AbstractMesh) -> tuple[_Known, ...]:
        mesh = self._given if context.empty else concrete_mesh(self._given)
        kinds: tuple[_Known, ...] = ()
        if mesh is None and not context.empty:
            return kinds  # under a trace, where JAX hides the mesh
        if isinstance(mesh, Mesh):
            kinds = (_Known(mesh),)
            if context.empty and has_explicit_axes(mesh):
                # JAX tracks the sharding over such axes for all of the arguments or for none.
                kinds = (*kinds, _Known(auto_mesh(mesh)))
        self._now = (context, None if context.empty else mesh, kinds)
        return kinds


def check_devices(mapped: Mapped, args: object, kwargs: object) -> None:
    """Raise a `MeshError` unless the mesh or an argument determines the devices."""
    mesh = without_devices(mapped._options.mesh, jax.tree.leaves((args, kwargs)))
    if mesh is not None:
        raise MeshError(f"xmap: {no_devices(mapped._name, mesh)}")


def place_arguments(
    mapped: Mapped, args: tuple[Any, ...], kwargs: dict[str, Any], only_type: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Reshard concrete arrays that are committed to another mesh or device onto the mesh.

    With `only_type` replace them by their type and sharding on the mesh, for lowering.
    """
    leaves = [leaf for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, jax.Array)]
    concrete = [leaf for leaf in leaves if not isinstance(leaf, jax.core.Tracer)]
    if not concrete:
        return args, kwargs
    mesh = concrete_mesh(mapped._options.mesh)
    if mesh is not None and has_explicit_axes(mesh):
        mesh = mesh_for(mesh, leaves)
    if mesh is None or all(is_placed(leaf, mesh) for leaf in concrete):
        return args, kwargs
    resources = on_devices(with_loops(mapped._options.axis_resources))
    check_mesh_axes(resources, mesh)

    def move(argument: Argument) -> object:
        data, leaf = argument.data, argument.leaf
        if (
            not isinstance(data, jax.Array)
            or isinstance(data, jax.core.Tracer)
            or is_placed(data, mesh)
        ):
            return leaf
        # JAX has no arrays with uneven blocks: an axis that does not divide enters unsharded.
        sizes = dict(zip(argument.dims, data.shape, strict=True))
        spec = partition_spec(argument.dims, dividing(resources, sizes, mesh))
        kind = PINNED_HOST if is_on_host(data) else None
        sharding = NamedSharding(mesh, spec, memory_kind=kind)
        if only_type:
            data = jax.ShapeDtypeStruct(
                data.shape, data.dtype, weak_type=data.weak_type, sharding=sharding
            )
        else:
            with jax.ensure_compile_time_eval():  # also under a trace of jax.grad
                data = jax.device_put(data, sharding)
        if not isinstance(leaf, NamedArray):
            return data
        padded = with_data(leaf, data)
        return make_in_region(data, leaf._dims) if padded is None else padded

    arguments, tree = name_arguments(mapped, args, kwargs)
    return join_arguments(
        mapped, args, kwargs, jax.tree.unflatten(tree, [move(argument) for argument in arguments])
    )
