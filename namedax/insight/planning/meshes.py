"""The mesh of a plan: the given mesh, or all meshes of a number of devices."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh

from namedax.core.records import Record
from namedax.errors import ArgumentError, MeshError
from namedax.machines import Machine, measure
from namedax.resources.mesh import any_mesh, without_mesh
from namedax.resources.serial import LoopAxis
from namedax.xmap.mapped_function import Xmapped

__all__ = ["Meshes", "Shape", "matching_mesh", "meshes_for", "near", "shapes_for", "the_shape"]


Sizes = tuple[int, ...]


class Shape(Record):
    """The sizes of the axes of a mesh, in order; size 1 stands for an absent axis.

    Attributes:
      sizes: the size of each axis.
      links: the link of each axis; axes of one size with equal links are interchangeable.
      others: the sizes of equivalent shapes, each with the order of its axes.
    """

    sizes: Sizes
    links: tuple[Hashable, ...]
    others: tuple[tuple[Sizes, tuple[int, ...]], ...] = ()

    def groups(self) -> list[list[int]]:
        """Return the groups of two or more interchangeable axes."""
        found: dict[Hashable, list[int]] = {}
        for i, axis in enumerate(zip(self.sizes, self.links, strict=True)):
            found.setdefault(axis, []).append(i)
        return [group for group in found.values() if len(group) > 1]

    def same(self) -> Iterator[tuple[Sizes, tuple[Sizes, tuple[int, ...]]]]:
        """Yield all sizes that this shape represents, each with the order of the axes."""
        yield self.sizes, (self.sizes, tuple(range(len(self.sizes))))
        for sizes, order in self.others:
            yield sizes, (self.sizes, order)


#: The names that are fixed on each mesh axis.
Fixed = Mapping[str, frozenset[Hashable]]


def the_shape(
    machine: Machine, axes: Sequence[str], sizes: Sizes, fixed: Fixed | None = None
) -> Shape:
    """Return the shape of these sizes; mesh axes with other fixed names are not interchangeable.

    Raises:
      MeshError: the machine has no link for a mesh axis, or the mesh does not fit on it.
    """
    over = machine.layout(dict(zip(axes, sizes, strict=True)))
    # Links that are known for several mesh axes together apply to these axes only.
    together = any(isinstance(key, tuple) for key in machine.links)
    links = [axis if together else repr(over[axis]) for axis in axes]
    pins = [tuple(sorted(map(repr, (fixed or {}).get(axis, ())))) for axis in axes]
    return Shape(sizes, tuple((link, *pinned) for link, pinned in zip(links, pins, strict=True)))


def shapes_for(
    machine: Machine,
    axes: Sequence[str],
    count: int,
    first: Sizes | None = None,
    fixed: Fixed | None = None,
) -> list[Shape]:
    """Return the shapes of `count` devices: `first`, then from many equal axes to few.

    Equivalent shapes are left out. Mesh axes with fixed names have several devices, if any shape
    allows it.

    Raises:
      MeshError: no shape fits on the machine.
    """
    found: dict[Hashable, Shape] = {}
    rejected: MeshError | None = None
    pinned = [i for i, axis in enumerate(axes) if (fixed or {}).get(axis)]
    every = list(_factorizations(count, len(axes)))
    useful = [sizes for sizes in every if all(sizes[i] > 1 for i in pinned)] or every
    for sizes in sorted(useful, key=lambda sizes: (sizes != first, *_order(sizes))):
        try:
            shape = the_shape(machine, axes, sizes, fixed)
        except MeshError as error:
            rejected = rejected or error
            continue
        kinds = list(zip(shape.sizes, shape.links, strict=True))
        key = tuple(sorted(kinds, key=repr))
        known = found.get(key)
        if known is None:
            found[key] = shape
        else:
            found[key] = known.replace(others=(*known.others, (sizes, _matched(known, kinds))))
    if not found:
        assert rejected is not None
        raise rejected
    return list(found.values())


def _matched(known: Shape, kinds: Sequence[tuple[int, Hashable]]) -> tuple[int, ...]:
    """Return, for each axis of a shape, the equivalent axis of another one."""
    left = dict(enumerate(kinds))
    order = []
    for axis in zip(known.sizes, known.links, strict=True):
        i = next(i for i, kind in left.items() if kind == axis)
        del left[i]
        order.append(i)
    return tuple(order)


def _order(sizes: Sizes) -> tuple[int, float, Sizes]:
    used = [n for n in sizes if n > 1]
    return -len(used), max(used, default=1) / min(used, default=1), tuple(-n for n in sizes)


def _factorizations(count: int, axes: int) -> Iterator[Sizes]:
    if axes == 1:
        yield (count,)
        return
    for n in (n for n in range(1, count + 1) if count % n == 0):
        for rest in _factorizations(count // n, axes - 1):
            yield (n, *rest)


def near(sizes: Sizes) -> Iterator[tuple[int, int, Sizes]]:
    """Yield the sizes with a prime factor of one axis moved to another, with these two axes."""
    for i, j in itertools.permutations(range(len(sizes)), 2):
        for factor in _primes(sizes[i]):
            moved = list(sizes)
            moved[i] //= factor
            moved[j] *= factor
            yield i, j, tuple(moved)


def _primes(count: int) -> Iterator[int]:
    for n in range(2, math.isqrt(count) + 1):
        if count % n == 0:
            yield n
            while count % n == 0:
                count //= n
    if count > 1:
        yield count


# Default names of mesh axes; there are at most this many.
_AXES = ("x", "y", "z")


class Meshes(Record):
    """The meshes of a plan.

    Attributes:
      axes: the names of the mesh axes.
      given: the mesh, or `None` if only a number of devices is given.
      count: the number of devices.
      machine: the machine of these devices.
      shapes: the sizes that the mesh axes may have.
    """

    axes: tuple[str, ...]
    given: Any
    count: int
    machine: Machine
    shapes: tuple[Shape, ...]

    @property
    def text(self) -> str:
        """The text for messages: `x=4, y=2`, or `8 devices`."""
        if self.given is None:
            return f"{self.count} devices" if self.count > 1 else "1 device"
        return ", ".join(f"{axis}={size}" for axis, size in self.given.shape.items())

    def abstract(self, sizes: Sizes) -> AbstractMesh:
        """Return the mesh of these sizes: the given one, or one with Auto axes like `concrete`.

        An `AbstractMesh` without `axis_types` has Auto axes on JAX 0.10 and Explicit ones on JAX
        0.12.
        """
        if self.given is not None:
            return self.given if isinstance(self.given, AbstractMesh) else self.given.abstract_mesh
        used = self._used(sizes)
        return AbstractMesh(
            tuple(used.values()), tuple(used), axis_types=(AxisType.Auto,) * len(used)
        )

    @contextlib.contextmanager
    def concrete(self, mesh: dict[str, int]) -> Iterator[Mesh]:
        """Make the same mesh with available devices; it may be used in this context."""
        if self.given is not None:
            yield self.given
            return
        kinds = (AxisType.Auto,) * len(mesh)
        made = jax.make_mesh(
            tuple(mesh.values()), tuple(mesh), kinds, devices=jax.devices()[: self.count]
        )
        with jax.set_mesh(made):
            yield made

    def _used(self, sizes: Sizes) -> dict[str, int]:
        return {axis: n for axis, n in zip(self.axes, sizes, strict=True) if n > 1}

    def context(self) -> contextlib.AbstractContextManager[object]:
        """Return the context in which functions are traced.

        It is that of the caller for a given mesh, and none for other meshes.
        """
        return contextlib.nullcontext() if self.given is not None else without_mesh()


def meshes_for(
    f: Xmapped,
    mesh: Mesh | AbstractMesh | int | None,
    machine: Machine | None,
    verify: int,
    fixed: Fixed | None = None,
) -> Meshes:
    """Return the meshes for the arguments `mesh=` and `machine=` and the function itself.

    `fixed` has the names that are fixed on mesh axes.

    Raises:
      ArgumentError: the number of devices is not positive, or required devices are not available.
      MeshError: there is no mesh, or the mesh does not fit on the machine.
    """
    if not isinstance(mesh, int) or isinstance(mesh, bool):
        given = any_mesh(f._options.mesh if mesh is None else mesh, "plan")
        sizes = tuple(given.shape.values())
        has_devices = isinstance(given, Mesh)
        _check(has_devices, f"the mesh {dict(given.shape)} is abstract", machine, verify)
        machine = machine or measure(given)
        axes = tuple(given.axis_names)
        shape = the_shape(machine, axes, sizes, fixed)
        return Meshes(axes, given, math.prod(sizes), machine, (shape,))
    if mesh < 1:
        raise ArgumentError(f"plan: mesh={mesh} is a number of devices and must be positive.")
    there = len(jax.devices()) if machine is None or verify else 0
    _check(there >= mesh, f"there are {there} devices, not {mesh}", machine, verify)
    if machine is None:
        machine = measure(Mesh(np.array(jax.devices()[:mesh]), ("all",)))
        machine = dataclasses.replace(
            machine, links={...: machine.links["all"]} if mesh > 1 else {}
        )
    axes = _axes(f, machine, tuple(fixed or ()))
    own = (
        tuple(f._options.mesh.shape.get(axis, 1) for axis in axes)
        if f._options.mesh is not None
        else None
    )
    return Meshes(axes, None, mesh, machine, tuple(shapes_for(machine, axes, mesh, own, fixed)))


def _check(has_devices: bool, why: str, machine: Machine | None, verify: int) -> None:
    if machine is None and not has_devices:
        raise ArgumentError(
            f"plan: no machine can be measured. {why[0].upper()}{why[1:]}. Pass machine=, such as"
            " machine=nx.machines.v5p."
        )
    if verify and not has_devices:
        raise ArgumentError(
            f"plan: verify={verify} times the best layouts, but {why}. Remove verify=."
        )


def _axes(f: Xmapped, machine: Machine, fixed: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the mesh axes.

    They are those of fixed names, those of the function, those of the machine, and then the default
    ones.
    """
    if f._options.mesh is not None:
        own = list(f._options.mesh.axis_names)
    else:
        own = [
            axis
            for axes in f._options.axis_resources.values()
            for axis in axes
            if not isinstance(axis, LoopAxis)
        ]
    named = [
        axis
        for key in machine.links
        for axis in (key if isinstance(key, tuple) else (key,))
        if isinstance(axis, str)
    ]
    usual = _AXES if ... in machine.links or not named else ()
    first = dict.fromkeys([*own, *fixed] if f._options.mesh is not None else [*fixed, *own])
    found = list(dict.fromkeys([*first, *named, *usual]))
    return tuple(found[: max(len(_AXES), len(first))])


def matching_mesh(f: object, sizes: Mapping[str, int]) -> Any:
    """Return a mesh of these sizes: that of a mapped function, or one of available devices.

    Raises:
      MeshError: there are too few devices.
    """
    own = f._options.mesh if isinstance(f, Xmapped) else None
    if own is not None and dict(own.shape) == dict(sizes):
        return own
    count, devices = math.prod(sizes.values()), jax.devices()
    if len(devices) < count:
        raise MeshError(
            f"Plan.apply: the plan is for {count} devices, but JAX has {len(devices)}. Pass a mesh"
            f" of the sizes {dict(sizes)} as mesh=, which may be an AbstractMesh."
        )
    kinds = (AxisType.Auto,) * len(sizes)
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), kinds, devices=devices[:count])
