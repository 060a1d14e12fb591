"""The ambient region: the axis names, their sizes, and their mesh axes.

While the body of an `xmap` is traced, one `Region` is ambient. It is stored in a context made by
`jax.make_user_context`, which is part of JAX's cache keys. A `jit`-ed helper that is called under
two layouts is traced once for each, and never reuses the wrong program. Outside every body the
region is `None`, and all names are vectorized.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import operator
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, NoReturn, TypeVar, TypeVarTuple

import jax
from jax.sharding import AxisType

from namedax.core.closure_capture import ClosureCapture
from namedax.core.names import Mesh, PyTree, check_name
from namedax.core.padded_sharding import Uneven, block_size, dividing_sizes
from namedax.core.records import Record
from namedax.errors import AxisResourceError, PlacementConflictError, UnevenAxisError, show_names
from namedax.messages import tracebacks

__all__ = [
    "MANUAL",
    "HiddenAxis",
    "Placements",
    "Region",
    "TraceState",
    "active_regions",
    "ambient",
    "check_region_lives",
    "check_regions_live",
    "enter",
    "escaped_blocks",
    "hiding",
    "place_of",
    "placements_after",
    "record_escape",
    "vectorized_axes",
    "vmapped_by",
    "without_region",
]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")
Mode = Literal["manual", "global", "auto"]
MANUAL: Mode = "manual"


class _Seen:
    """The names that occur while one of several equal regions is traced.

    A `jit`-ed helper that was traced in one of them is not traced again in another, so they share
    the names that it used.
    """

    __slots__ = ("__weakref__", "names")

    def __init__(self) -> None:
        self.names: set[Hashable] = set()


class TraceState:
    """The facts that are found while a body is traced.

    A region is immutable and points to this object.

    Attributes:
      looked_at: dims and shapes of arrays that agree with the region.
      numbers: a trace, and the constants that have been cast to varying in it.
      closure: values of enclosing functions that the body uses.
      has_gathered: True if an array of the body has been gathered, and so has another form.
    """

    __slots__ = ("_born", "_counts", "closure", "has_gathered", "looked_at", "numbers")

    def __init__(self) -> None:
        self.looked_at: set[Hashable] = set()
        self.numbers: tuple[Any, dict[Hashable, Any]] | None = None
        self.closure = ClosureCapture()
        self.has_gathered = False
        # Sizes of the names that the body creates; `None` for a name that has had several sizes.
        self._born: dict[Hashable, int | None] = {}
        self._counts: dict[Hashable, int] = {}

    def note_size(self, name: Hashable, size: int) -> None:
        """Record the global size of a name that the body has created."""
        if self._born.setdefault(name, size) != size:
            self._born[name] = None

    def size_of(self, name: Hashable) -> int | None:
        """Return the global size of a name that the body created; `None` if it is not unique."""
        return self._born.get(name)

    def note_looked_at(self, key: Hashable) -> None:
        """Record that arrays of these dims and this shape agree with the region."""
        if len(self.looked_at) >= _MOST_LOOKED_AT:
            self.looked_at.clear()
        self.looked_at.add(key)

    def count(self, key: Hashable) -> int:
        """Return the number of calls of `times` with `key` so far."""
        return self._counts.get(key, 0)

    def times(self, key: Hashable) -> int:
        """Return the number of calls of this method with `key`, this call included."""
        if len(self._counts) >= _MOST_LOOKED_AT:
            self._counts.clear()
        self._counts[key] = count = self._counts.get(key, 0) + 1
        return count


# JAX's caches keep a region, and so its record, as long as they keep the helper.
_seen_by_key: weakref.WeakValueDictionary[Hashable, _Seen] = weakref.WeakValueDictionary()

_MOST_LOOKED_AT = 1024


class Region(frozenset[_Seen]):
    """The names of one mapped region: immutable and hashable.

    Facts found while tracing are in `state`.

    JAX hashes and compares the region in every lookup. It is a set of one record that all equal
    regions share, so this calls no Python function.

    Attributes:
      sizes: global size of every name that exists when the body begins.
      resources: mesh axes of every mapped name, major first. A name without an entry is vectorized.
      mesh: the mesh (concrete or abstract), or `None` when nothing is mapped.
      mode: `"manual"`: the body runs under `jax.shard_map` and operates on local blocks. `"auto"`:
        it operates on global arrays, and XLA's partitioner gets a sharding constraint on every
        named value. `"global"`: it is traced on global arrays, with a mark on every named value for
        the partitioner of namedax.
      program: a hashable token of the mapped program; regions of different programs are different.
      overlap: the default of contractions for overlapping communication with computation.
      left_out: the disabled passes over traced programs.
      slow_axes: the slow mesh axes, each with the smallest payload for two-level collectives.
      depth: the number of nested mapped functions, this one included.
      given: names that a nested mapped function defines itself: those of positional axes of its
        arguments, and those in axis_sizes.
      manual: True if values are local blocks (`jax.shard_map`), at least along some names.
      uneven: names whose last blocks are padding.
      placements: the items of `resources`.
      places: the mesh axes over which blocks are sharded, by name; an `Uneven` if the last blocks
        have padding. Empty if values are not blocks.
      seen: names on any value while the body is traced, shared by equal regions; `xmap` reads it
        when the body has ended.
      state: the facts that are found while the body is traced.
    """

    __slots__ = (
        "_mesh_sizes",
        "depth",
        "given",
        "left_out",
        "manual",
        "mesh",
        "mode",
        "overlap",
        "placements",
        "places",
        "program",
        "resources",
        "seen",
        "sizes",
        "slow_axes",
        "state",
        "uneven",
    )

    sizes: dict[Hashable, int]
    resources: dict[Hashable, tuple[str, ...]]
    mesh: Any  # a `Mesh`; `None` where nothing is mapped
    mode: Mode
    program: Hashable
    overlap: Any
    left_out: frozenset[str]
    slow_axes: tuple[tuple[str, int], ...]
    depth: int
    given: frozenset[Hashable]
    manual: bool
    uneven: frozenset[Hashable]
    placements: Placements
    places: dict[Hashable, tuple[str, ...]]
    seen: set[Hashable]
    state: TraceState
    _mesh_sizes: dict[str, int]

    def __new__(
        cls,
        sizes: Mapping[Hashable, int],
        resources: Mapping[Hashable, tuple[str, ...]],
        mesh: Mesh | None,
        mode: Mode,
        program: Hashable,
        overlap: Any = False,
        left_out: frozenset[str] = frozenset(),
        slow_axes: tuple[tuple[str, int], ...] = (),
        depth: int = 1,
        given: frozenset[Hashable] = frozenset(),
        seen: set[Hashable] | None = None,
    ) -> Region:
        """Make a region, equal to all others with the same names, mesh, program and options."""
        placements: Placements = frozenset(resources.items())
        options = (overlap, left_out, slow_axes)
        key = (frozenset(sizes.items()), placements, mesh, mode, program, options)
        record = _seen_by_key.setdefault(key, _Seen())
        self = super().__new__(cls, (record,))
        write = functools.partial(object.__setattr__, self)
        write("sizes", dict(sizes))
        write("resources", dict(resources))
        write("mesh", mesh)
        write("mode", mode)
        write("program", program)
        write("overlap", overlap)
        write("left_out", left_out)
        write("slow_axes", slow_axes)
        write("depth", depth)
        write("given", given)
        write("manual", mode == MANUAL and bool(resources))
        write("placements", placements)
        write("seen", record.names if seen is None else seen)
        write("state", TraceState())
        write("_mesh_sizes", dict(mesh.shape) if mesh is not None else {})
        places = dict(resources) if mode == MANUAL else {}
        for name, axes in places.items():
            if axes and name in sizes and self._remainder(name):
                places[name] = Uneven(axes, sizes[name])
        write("places", places)
        write("uneven", frozenset(n for n, axes in places.items() if isinstance(axes, Uneven)))
        return self

    def __init__(self, *args: object, **kwargs: object):
        """Do nothing: `__new__` has set the attributes."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Region: {name} cannot be set; a region is immutable.")

    def on_mesh(self, mesh: Mesh) -> Region:
        """Return this region on another mesh, for XLA's partitioner; it shares `seen`."""
        return Region(self.sizes, self.resources, mesh, "auto", self.program, seen=self.seen)

    def on_global_shapes(self) -> Region:
        """Return this region for a trace on global shapes; it shares `seen` and the closure."""
        region = Region(
            self.sizes,
            self.resources,
            self.mesh,
            "global",
            self.program,
            self.overlap,
            self.left_out,
            depth=self.depth,
            given=self.given,
            seen=self.seen,
        )
        region.state.closure = self.state.closure
        return region

    def with_resources(self, resources: Mapping[Hashable, tuple[str, ...]]) -> Region:
        """Return this region with other mesh axes of its names; it shares `seen`."""
        return Region(
            self.sizes,
            resources,
            self.mesh,
            self.mode,
            self.program,
            self.overlap,
            self.left_out,
            self.slow_axes,
            self.depth,
            self.given,
            self.seen,
        )

    def mesh_axis_hint(self, name: Hashable) -> str:
        """Return a remedy if `name` is a mesh axis: the axis names sharded over it.

        The result is empty if `name` is not a mesh axis.
        """
        if name not in self._mesh_sizes or name in self.sizes or name in self.resources:
            return ""
        sharded = [other for other, axes in self.resources.items() if name in axes]
        if sharded:
            return (
                f"{name!r} is a mesh axis, over which {show_names(sharded)}"
                f" {'is' if len(sharded) == 1 else 'are'} sharded. Write"
                f" {' or '.join(map(repr, sharded))}."
            )
        return (
            f"{name!r} is a mesh axis, over which no name is sharded. Write an axis name, and map"
            " it in axis_resources of xmap."
        )

    def placement(self, name: Hashable, op: str | None = None) -> tuple[str, ...]:
        """Return the mesh axes over which `name` is sharded, major first; empty if not sharded.

        An operation that mixes elements calls this, which declares that it does not support
        padding.

        Raises:
          UnevenAxisError: the last blocks are padding.
        """
        if name in self.uneven:
            self._reject_padding(op, name, self.sizes[name])
        return self.places.get(name, ())

    def place(self, name: Hashable) -> tuple[str, ...]:
        """Return the mesh axes of `name` for an operation that supports padding.

        The result is an `Uneven` if the last blocks have padding.
        """
        return self.places.get(name, ())

    def layout(self, dims: Iterable[Hashable | None]) -> tuple[tuple[str, ...], ...]:
        """Return `place` of each dimension; `()` for a positional one."""
        return tuple([self.places.get(dim, ()) for dim in dims])

    def _reject(
        self,
        op: str | None,
        name: Hashable,
        size: int,
        rule: str,
        remedy: str,
        found_size: tuple[Hashable, int] | None = None,
    ) -> NoReturn:
        mesh_axes = tuple(self.resources[name])
        of_loop = any(type(axis) is not str for axis in mesh_axes)
        parts, fewer = ("blocks", "devices or steps") if of_loop else ("devices", "devices")
        text = (
            f"axis {name!r} of size {size} does not divide over mesh axes {mesh_axes},"
            f" {self.mesh_axis_size(mesh_axes)} {parts} in total{rule}. {remedy}, or map {name!r}"
            f" to fewer {fewer} in axis_resources."
        )
        raise UnevenAxisError(text if op is None else f"{op}: {text}").about(
            axis=name, operation=op, found_size=found_size
        )

    def _remainder(self, name: Hashable) -> int:
        size, devices = self.sizes[name], self.mesh_axis_size(self.resources[name])
        rest = size % devices
        if not isinstance(size, int) and not isinstance(rest, int):  # symbolic shapes
            self._reject(
                "xmap",
                name,
                size,
                ", for some values of its symbols",
                "Export it with a size that divides, such as"
                f" jax.export.symbolic_shape('{devices}*n')",
            )
        return rest

    def _reject_padding(self, op: str | None, name: Hashable, size: int) -> NoReturn:
        below, above = dividing_sizes(size, devices := self.mesh_axis_size(self.resources[name]))
        self._reject(
            op,
            name,
            size,
            f", so the last blocks, of size {block_size(size, devices)}, contain padding, and this"
            " operation does not support padded axes",
            "Use a size that divides, such as"
            f" {above if below == above else f'{below} or {above}'}",
        )

    def mesh_axis_size(self, mesh_axes: Iterable[str]) -> int:
        """Return the number of devices along `mesh_axes` together."""
        sizes = self._mesh_sizes
        counts: list[Any] = [
            sizes[axis] if axis in sizes else getattr(axis, "steps")  # noqa: B009
            for axis in mesh_axes
        ]
        return math.prod(counts)

    def blocks(self, name: Hashable) -> int:
        """Return the number of blocks of `name`."""
        return self.mesh_axis_size(self.placement(name))

    def global_size(self, name: Hashable, block: int) -> int:
        """Return the global size of `name` for `block` elements on one device."""
        known = self.sizes.get(name)
        return known if known is not None else block * self.blocks(name)

    def note(self, name: Hashable, block: int) -> None:
        """Record that a value in the body has `name`, with `block` elements on one device."""
        self.seen.add(name)
        if name not in self.sizes:
            check_name(name, "a mapped function")
            self.state.note_size(name, block * self.blocks(name))

    def noted(self, name: Hashable) -> Hashable:
        """Return `name`, and record that it occurs in the body.

        It may occur only as an argument of an operation.
        """
        self.seen.add(name)
        return name

    def size_of(self, name: Hashable) -> int | None:
        """Return the global size of `name`, or `None` if there is no unique size.

        The size comes from an argument, from `axis_sizes`, or from the body that created the name.
        """
        return self.sizes[name] if name in self.sizes else self.state.size_of(name)

    def found_size(self, name: Hashable) -> tuple[Hashable, int] | None:
        """Return `name` with the size that the body has given it, or `None` if it has not."""
        size = None if name in self.sizes else self.state.size_of(name)
        return None if size is None else (name, size)

    def block_size(self, name: Hashable, size: int, op: str, supports_padding: bool = False) -> int:
        """Return the number of elements of `name` on one device, for the global size `size`.

        Args:
          name: the axis.
          size: its global size.
          op: the operation, for messages.
          supports_padding: True if the operation supports padding in the last blocks; default:
            False.

        Raises:
          UnevenAxisError: the last blocks have padding that the operation does not support. Or the
            region has no size for the name; then the error has the size, and the call begins again.
        """
        devices = self.mesh_axis_size(self.resources.get(name, ()))
        if size % devices == 0 or self.mode == "global":
            return size // devices if self.mode == MANUAL else size
        if name in self.uneven and size == self.sizes[name]:
            if not supports_padding:
                self._reject_padding(op, name, size)
            return block_size(size, devices)
        # XLA's partitioner supports no padding, but does not shard an axis of such a size
        is_new = (supports_padding or self.mode != MANUAL) and name not in self.sizes
        remedy = f"Use a size that is a multiple of {devices}"
        self._reject(op, name, size, "", remedy, (name, size) if is_new else None)

    def check_placement(self, op: str, names: Iterable[Hashable], remedy: str = "") -> None:
        """Raise if two of `names` are sharded over one mesh axis.

        One value cannot have both.
        """
        owner: dict[str, Hashable] = {}
        for name in names:
            for mesh_axis in self.resources.get(name, ()):
                if mesh_axis in owner and owner[mesh_axis] != name:
                    raise PlacementConflictError(
                        f"{op}: axes {owner[mesh_axis]!r} and {name!r} meet in one value, but both"
                        f" are mapped to mesh axis {mesh_axis!r}, which can hold only one of them. "
                        + (remedy or _rename_first(mesh_axis))
                    ).about(axes=(owner[mesh_axis], name), mesh_axis=mesh_axis, operation=op)
                owner[mesh_axis] = name


def place_of(region: Region | None, dim: Hashable | None) -> tuple[str, ...]:
    """Return `region.place` of a dimension: `()` for a positional one, and without a region."""
    return () if region is None else region.places.get(dim, ())


def _rename_first(mesh_axis: str) -> str:
    return (
        f"Rename one of them to an axis that is not on {mesh_axis!r} first (nx.rename, or"
        " {new:old} in einsum: this communicates), or change axis_resources."
    )


_context = jax.make_user_context(None)
# The region, and the names that are hidden from functions called for single slices, each with the
# operation that hides it. Part of JAX's cache keys, as the region is.
_hidden = jax.make_user_context(None)
_within_kernel: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "within_kernel", default=False
)


# Empty if no thread is in a region or in a rule that is traced after one. Then `ambient()` is
# `None` everywhere and all arrays are global. Every call flattens and unflattens arrays, and a JAX
# context lookup takes longer than either.
active_regions: set[int] = set()


# Not empty while a thread has blocks that were rebuilt after their body.
escaped_blocks: set[int] = set()


#: Return the region that is being traced, or `None` outside every mapped body. Each operation calls
#: it several times, so no Python function wraps the read.
ambient: Callable[[], Region | None] = functools.partial(operator.attrgetter("value"), _context)


class HiddenAxis(Record):
    """The axis name of a `jax.vmap` over a name that the vectorized function does not see.

    Rules of batching read it. `place` has the mesh axes over which the name is sharded.
    """

    name: Hashable
    place: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: Hashable) -> HiddenAxis:
        """Return the axis of a name in the ambient region."""
        region = ambient()
        return cls(name, place_of(region, name))


@contextlib.contextmanager
def hiding(op: str, names: Iterable[Hashable]) -> Iterator[None]:
    """Enter a context for a function of single slices along `names`.

    In it, a value that lacks one of the names may still differ between slices.
    """
    region, names = ambient(), tuple(names)
    if region is None or not names:
        yield
        return
    hidden = tuple((name, op, region.resources.get(name, ())) for name in names)
    with _hidden((region, (*_hidden_in(region), *hidden))):
        yield


def _hidden_in(region: Region) -> tuple[tuple[Hashable, str, tuple[str, ...]], ...]:
    value = _hidden.value
    return value[1] if value is not None and value[0] == region else ()


def hidden_axes(region: Region) -> frozenset[str]:
    """Return the mesh axes along which values in `region` vary without a name to show it.

    These are the mesh axes of names that are hidden from functions of single slices.
    """
    return frozenset(axis for _, _, axes in _hidden_in(region) for axis in axes)


def vectorized_axes(region: Region) -> frozenset[str]:
    """Return the mesh axes of hidden names over which the function of slices is vectorized.

    A function that `nx.map` calls is not: on each device it gets one element after another.
    """
    return frozenset(axis for _, op, axes in _hidden_in(region) if op != "map" for axis in axes)


def vmapped_by(name: Hashable) -> str | None:
    """Return the operation that hides a name of the region from the traced function, or `None`."""
    region = ambient()
    return (
        None
        if region is None
        else next((op for hidden, op, _ in _hidden_in(region) if hidden == name), None)
    )


# --- after the end of a body -------------------------------------------------------------------


Placements = frozenset[tuple[Hashable, tuple[str, ...]]]


class _Blocks(dict[int, tuple["weakref.ref[object]", "Placements"]]):
    """Arrays that one thread has rebuilt after their body, by id.

    While there are any, it is an element of `active_regions` and `escaped_blocks`.
    """

    __slots__ = ()

    def note(self, array: object, placements: Placements) -> None:
        key = id(array)
        active_regions.add(id(self))
        escaped_blocks.add(id(self))
        self[key] = (weakref.ref(array, lambda _: self.forget(key)), placements)

    def forget(self, key: int) -> None:
        self.pop(key, None)
        if not self:
            self._deactivate()

    def forget_all(self) -> None:
        self.clear()
        self._deactivate()

    def _deactivate(self) -> None:
        active_regions.discard(id(self))
        escaped_blocks.discard(id(self))

    def __del__(self) -> None:
        self._deactivate()


class _Left(threading.local):
    """The live arrays that JAX has rebuilt after the body in which they were flattened.

    JAX keeps the arguments of a rule alive while it traces the rule. So while there is an entry, a
    rule is being traced, or an exception from one is still referenced.
    """

    def __init__(self) -> None:
        self.arrays = _Blocks()


_left = _Left()


def placements_after() -> Placements | None:
    """Return the mesh axes of the names of escaped blocks, or `None` if there are none.

    They are for arrays that are flattened where no region is ambient: in a rule that is traced
    after a body.
    """
    if not _left.arrays:
        return None
    # there are no blocks: the rule ended with an exception
    if AxisType.Manual not in jax.sharding.get_abstract_mesh().axis_types:
        _left.arrays.forget_all()
        return None
    return next(reversed(_left.arrays.values()))[1]


def record_escape(array: object, placements: Placements) -> None:
    """Record that `array`, a block from a region, was unflattened where no region is ambient."""
    if ambient() is not None or _within_kernel.get():
        return
    _left.arrays.note(array, placements)


def check_region_lives(op: str, name: Hashable, varying: frozenset[str]) -> None:
    """Raise if `op` reduces `name` outside every body and it belongs to a body that JAX has left.

    JAX traces a rule of `jax.custom_vjp` or `jax.custom_jvp` after the body has ended. There the
    block of a device would count as the whole axis. The rule's arguments were flattened in the
    body, and record the mesh axes of its names (`record_escape`).

    Args:
      op: the operation.
      name: an axis that it reduces.
      varying: the mesh axes over which the value varies from device to device; not empty.

    Raises:
      AxisResourceError: the name is mapped to one of these mesh axes there.
    """
    if not _left.arrays or _within_kernel.get():
        return
    axes = {
        axis
        for _, placements in _left.arrays.values()
        for of, axes in placements
        if of == name
        for axis in axes
    } & varying
    if axes:
        # the exception may outlive the rule, and keep its arguments alive
        _left.arrays.forget_all()
        raise AxisResourceError(
            f"{op}: axis {name!r} is mapped to mesh axis {min(axes)!r} by a mapped function that"
            " has ended before this is traced, as rules of jax.custom_vjp and jax.custom_jvp are."
            " Use nx.custom_vjp or nx.custom_jvp, whose rules run in that function."
        )


def check_regions_live(op: str, is_over: Callable[[Hashable], bool], operands: PyTree) -> None:
    """Raise if an operation uses a name of a body that JAX has left.

    It calls `check_region_lives` for all of its names and operands.

    Args:
      op: the operation.
      is_over: returns True if the operation uses a name.
      operands: a pytree.

    Raises:
      AxisResourceError: the name is mapped there, and an operand is a block.
    """
    if ambient() is not None or (placements := placements_after()) is None:
        return
    names = [name for name, axes in placements if axes and is_over(name)]
    if names:
        tracers = [leaf for leaf in jax.tree.leaves(operands) if isinstance(leaf, jax.core.Tracer)]
        varying = frozenset[str]().union(
            *(jax.typeof(tracer).manual_axis_type.varying for tracer in tracers)
        )
        for name in names:
            check_region_lives(op, name, varying)


def without_region(function: Callable[[*Ts], R], *args: *Ts) -> R:
    """Return `function(*args)`, run without a region within a mapped body.

    Kernels do not depend on a region, so all regions share them.
    """
    token = _within_kernel.set(True)
    try:
        with _context(None):
            return function(*args)
    finally:
        _within_kernel.reset(token)


def enter(region: Region | None) -> AbstractContextManager[None]:
    """Return a context manager that makes `region` ambient."""
    return _context(None) if region is None else _inhabiting(region)


@contextlib.contextmanager
def _inhabiting(region: Region) -> Iterator[None]:
    token = object()
    active_regions.add(id(token))
    hidden = _hidden.value
    try:
        if hidden is None or hidden[0] == region or hidden[0] != ambient():
            with _context(region):
                yield
        # a mapped function nested in one of single slices; names that it defines itself are visible
        # again
        else:
            named = tuple(
                (None if name in region.given else name, op, axes) for name, op, axes in hidden[1]
            )
            with _hidden((region, named)), _context(region):
                yield
    finally:
        region.state.numbers = None  # JAX keeps the region alive
        active_regions.discard(id(token))


tracebacks.install(lambda: bool(active_regions) and ambient() is not None)
