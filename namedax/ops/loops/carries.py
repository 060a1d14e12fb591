"""Common types of values in loops and branches, and the carry of a loop, which can gain names.

A loop of JAX expects a carry of constant type. Here the initial carry may lack a name or a variance
that it has after one step. The body is traced, the initial carry is broadcast by name, and the body
is traced again, until nothing is gained. If the body loses a name, its result is broadcast back; if
it returns another physical order, its result is reordered.

Outside of mapped functions the type has a sharding over Explicit mesh axes, which is gained the
same way: the initial carry is resharded. A name that is sharded already keeps its mesh axes, and
the result of the body is resharded to them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.names import Dims, PyTree
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.variance import cast, varying
from namedax.errors import (
    ArgumentTypeError,
    AxisNotFoundError,
    AxisSizeError,
    MeshError,
    PositionalAxisError,
)
from namedax.messages.tree_differences import tree_differences
from namedax.ops.operands.broadcasting import as_block, make_result, merge_dims, of_real_entries
from namedax.ops.operands.pytree import array_of, data_of, flatten, names_of
from namedax.resources.mesh import entry_of, has_explicit_axes

__all__ = [
    "Carry",
    "Element",
    "Grow",
    "ValueType",
    "broadcast_to_dims",
    "check_placements",
    "fix_carry_type",
]

R = TypeVar("R")
#: One element of a `PartitionSpec`.
SpecEntry: TypeAlias = str | tuple[str, ...] | None


class ValueType(Record):
    """The dims, block shape, variance, and sharding on Explicit axes of a value.

    Without a sharding, `spec` is empty and `mesh` is `None`.
    """

    dims: Dims
    shape: tuple[int, ...]
    axes: frozenset[str]
    spec: tuple[SpecEntry, ...] = ()
    mesh: AbstractMesh | None = None

    @classmethod
    def of(cls, value: ArrayLike) -> ValueType:
        """Return the type of an array or of a Python number."""
        data = data_of(value)
        if not hasattr(data, "dtype"):
            return cls(dims_of(value), np.shape(data), frozenset())
        return cls(dims_of(value), np.shape(data), varying(data), *_explicit_spec(data))

    def bare(self) -> ValueType:
        """Return the type without a sharding."""
        return self.replace(spec=(), mesh=None)

    def element(self) -> ValueType:
        """Return the type of one element along the first axis."""
        return self.replace(dims=self.dims[1:], shape=self.shape[1:]).placed_as(self)

    def stacked(self, axis: Hashable, size: int) -> ValueType:
        """Return the type of `size` such values along a new first axis."""
        return ValueType((axis, *self.dims), (size, *self.shape), self.axes).placed_as(self)

    @property
    def positional(self) -> tuple[int, ...]:
        """Return the sizes of the positional axes."""
        return tuple(n for n, dim in zip(self.shape, self.dims, strict=True) if dim is None)

    @property
    def sizes(self) -> dict[Hashable, int]:
        """Return the block sizes of the named axes."""
        return {dim: n for n, dim in zip(self.shape, self.dims, strict=True) if dim is not None}

    def __str__(self) -> str:
        region = ambient()
        pairs = self.sizes.items()
        if region is not None:
            pairs = {name: region.global_size(name, n) for name, n in pairs}.items()
        positional = ",".join(map(str, self.positional))
        named = ", ".join(f"{name}:{n}" for name, n in pairs)
        return f"[{positional}]{{{named}}}"

    def join(self, other: ValueType, op: str, what: str, verb: tuple[str, str]) -> ValueType:
        """Return the smallest type to which both types broadcast.

        Raises:
          AxisSizeError: an axis has two sizes.
          PositionalAxisError: the positional axes differ.
          MeshError: the types are sharded on two meshes.
        """
        sizes = self.sizes
        for name, n in other.sizes.items():
            if sizes.setdefault(name, n) != n:
                raise AxisSizeError(
                    f"{op}: {what} {verb[0]} {self} and {verb[1]} {other}: axis {name!r} has two"
                    " sizes. Rename one of them."
                )
        if self.positional != other.positional:
            raise PositionalAxisError(
                f"{op}: {what} {verb[0]} {self} and {verb[1]} {other}: the positional axes must be"
                " the same. Only named axes broadcast; make the positional axes equal first."
            )
        axes = self.axes | other.axes
        dims, shape = self.dims, self.shape
        if not set(names_of(other.dims)) <= set(names_of(self.dims)):
            dims = merge_dims(other.dims, self.dims)
            positional = iter(self.positional)
            shape = tuple(next(positional) if dim is None else sizes[dim] for dim in dims)
        if None not in (self.mesh, other.mesh) and self.mesh != other.mesh:
            raise MeshError(
                f"{op}: {what} {verb[0]} {self} on the mesh {_mesh_text(self.mesh)}, and {verb[1]}"
                f" {other} on the mesh {_mesh_text(other.mesh)}; a value is on one mesh. Place both"
                " on one mesh: nx.shard(x, axis_resources, mesh)."
            )
        return ValueType(dims, shape, axes).placed_as(self, other)

    def placed_as(self, *types: ValueType) -> ValueType:
        """Return this type with the shardings of others; the first one that shards an axis wins."""
        placed: dict[Hashable, SpecEntry] = {}
        used: set[str] = set()
        for kind in types:
            for label, entry in kind.placed.items():
                mesh_axes = entry_of((entry,), 0)
                if label not in placed and used.isdisjoint(mesh_axes):
                    placed[label] = entry
                    used.update(mesh_axes)
        spec = tuple(placed.get(label) for label in _labels(self.dims))
        if not any(spec):
            return self.bare()
        mesh = next(kind.mesh for kind in types if kind.mesh is not None)
        return self.replace(spec=spec, mesh=mesh)

    @property
    def placed(self) -> dict[Hashable, SpecEntry]:
        """Return the elements of `spec` that are not `None`, by name or number of the axis."""
        pairs = zip(_labels(self.dims), self.spec, strict=True) if self.spec else ()
        return {label: entry for label, entry in pairs if entry is not None}

    def with_names_of(self, other: ValueType) -> ValueType:
        """Return this type with the names of another type in front, and with its mesh axes."""
        more = [name for name in names_of(other.dims) if name not in self.dims]
        shape = (*(other.sizes[name] for name in more), *self.shape)
        kind = ValueType((*more, *self.dims), shape, self.axes | other.axes)
        return kind.placed_as(self, other)

    def fit(self, value: ArrayLike) -> jax.Array:
        """Broadcast `value` to this type, which has all of its names, and return the data."""
        array = value if isinstance(value, (NamedArray, jax.Array)) else jnp.asarray(value)
        return self.spread(cast(array, self.axes), dims_of(array))

    def spread(self, data: jax.Array, dims: Dims) -> jax.Array:
        """Broadcast `data` with these dims to the type; it may lack the positional axes."""
        if dims != self.dims:
            data = of_real_entries(
                broadcast_to_dims(data, dims, self.dims, self.shape), self.dims, ambient()
            )
        if self.mesh is not None and _explicit_spec(data) != (self.spec, self.mesh):
            data = jax.reshard(data, NamedSharding(self.mesh, PartitionSpec(*self.spec)))
        return data


class Element(Record):
    """The dtype of a value; `weak` marks a dtype that yields to others, as for Python numbers."""

    dtype: np.dtype
    weak: bool

    @classmethod
    def of(cls, value: AnyArray) -> Element:
        """Return the dtype of an array."""
        return cls(value.dtype, bool(getattr(value, "weak_type", False)))  # keys have no weak type

    @classmethod
    def common(cls, elements: Sequence[Element]) -> Element | None:
        """Return the common dtype of these, or `None` if two strong dtypes differ."""
        strong = {element.dtype for element in elements if not element.weak}
        if len(strong) > 1:
            return None
        dtypes = {element.dtype for element in elements}
        if len(dtypes) == 1:
            return cls(dtypes.pop(), not strong)
        numbers = [np.zeros((), element.dtype).item() for element in elements if element.weak]
        return cls(jnp.result_type(*strong, *numbers), not strong)

    def convert(self, data: jax.Array) -> jax.Array:
        """Convert `data` to this dtype."""
        if data.dtype == self.dtype:
            return data
        return data + np.zeros((), self.dtype).item() if self.weak else data.astype(self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype}{' (weak)' if self.weak else ''}"


def _labels(dims: Dims) -> list[Hashable]:
    numbers = itertools.count()
    return [next(numbers) if dim is None else dim for dim in dims]


def _explicit_spec(data: jax.Array) -> tuple[tuple[SpecEntry, ...], AbstractMesh | None]:
    """Return the sharding in the type of `data` and its mesh, or `((), None)` without sharding."""
    sharding = getattr(jax.typeof(data), "sharding", None)
    if sharding is None or not has_explicit_axes(sharding.mesh):
        return (), None
    spec = (*sharding.spec.partitions, *(None,) * (np.ndim(data) - len(sharding.spec)))
    return (spec, sharding.mesh) if any(entry is not None for entry in spec) else ((), None)


def _mesh_text(mesh: AbstractMesh | None) -> str:
    return "" if mesh is None else str(dict(mesh.shape))


def broadcast_to_dims(
    data: jax.Array, dims: Dims, target: Dims, shape: tuple[int, ...]
) -> jax.Array:
    """Broadcast `data` to the dims `target`, a superset of `dims`.

    Positional axes are kept, or added if there are none.
    """
    free = iter([i for i, dim in enumerate(target) if dim is None])
    places = [next(free) if dim is None else target.index(dim) for dim in dims]
    order = sorted(range(len(places)), key=places.__getitem__)
    if order != list(range(len(order))):
        data = lax.transpose(data, order)
    return lax.broadcast_in_dim(data, shape, sorted(places))


def check_placements(op: str, types: Iterable[ValueType]) -> None:
    """Raise a `PlacementConflictError` if two names of one type are sharded over one mesh axis."""
    region = ambient()
    if region is not None:
        for kind in types:
            region.check_placement(op, names_of(kind.dims))


class Grow(Exception):
    """Raised while a body is traced, if values need other initial types; the caller handles it."""

    def __init__(self, types: Sequence[ValueType]):
        super().__init__("a loop's carry has gained names")
        self.types = tuple(types)


class Carry:
    """A loop's carry during the search for its type.

    It has a structure, an initial value, and the current types of the leaves.
    """

    def __init__(self, op: str, init: PyTree):
        self.op = op
        leaves, self.tree = flatten(init)
        self.leaves = [as_block(leaf, op) for leaf in leaves]
        self.types = [ValueType.of(leaf) for leaf in self.leaves]
        paths = jax.tree_util.tree_flatten_with_path(init, is_leaf=is_named)[0]
        self.texts = [f"the carry{jax.tree_util.keystr(path)}" for path, _ in paths]
        self._first = self.types
        self._elements: list[Element] = []

    def grow(self, types: Sequence[ValueType]) -> None:
        """Change the initial types of the carry.

        Raises:
          PlacementConflictError: two names of one type are sharded over one mesh axis.
        """
        check_placements(self.op, types)
        self.types = list(types)

    def start(self) -> list[jax.Array]:
        """Return the data of the initial value."""
        return [kind.fit(leaf) for kind, leaf in zip(self.types, self.leaves, strict=True)]

    def value(self, datas: Iterable[jax.Array]) -> PyTree:
        """Return the carry as an argument of the body."""
        datas = list(datas)
        self._elements = [Element.of(data) for data in datas]
        return self.tree.unflatten(
            [array_of(data, kind.dims) for data, kind in zip(datas, self.types, strict=True)]
        )

    def next(self, value: PyTree) -> list[jax.Array]:
        """Convert the result of the body to the type of the carry, and return its data.

        Raises:
          Grow: the initial carry needs more names.
          ArgumentTypeError: the structure or a dtype changes.
        """
        leaves, tree = flatten(value)
        if different := tree_differences(tree, self.tree, ("the returned carry{}", "the carry{}")):
            raise ArgumentTypeError(
                f"{self.op}: {different} The body must return the structure of the carry."
            )
        leaves = [as_block(leaf, self.op) for leaf in leaves]
        types = [
            kind.join(ValueType.of(leaf), self.op, what, ("goes into the body as", "comes out as"))
            for kind, leaf, what in zip(self.types, leaves, self.texts, strict=True)
        ]
        if types != self.types:
            raise Grow(types)
        return [
            self._converted(i, kind.fit(leaf))
            for i, (kind, leaf) in enumerate(zip(types, leaves, strict=True))
        ]

    def _converted(self, i: int, data: jax.Array) -> jax.Array:
        """Convert leaf `i` of the body's result to the dtype that the body accepted.

        Raises:
          ArgumentTypeError: two strong dtypes differ.
        """
        into, out = self._elements[i], Element.of(data)
        if into.weak:  # JAX starts the carry with the other dtype
            return data
        if Element.common([into, out]) != into:
            raise ArgumentTypeError(
                f"{self.op}: {self.texts[i]}, {self.types[i]}, goes into the body as {into} and"
                f" comes out as {out}; these must be the same. Start with {out.dtype}, or convert"
                f" the result of the body: .astype({into.dtype})."
            )
        return into.convert(data)

    @contextlib.contextmanager
    def explain_missing_axes(self) -> Iterator[None]:
        """Extend an error about a missing axis with the fact that the initial carry lacks it."""
        try:
            yield
        except AxisNotFoundError as error:
            if self.types == self._first and not error.is_explained and error.axis is not None:
                lacking = [
                    f"{what} as {kind}"
                    for what, kind in zip(self.texts, self.types, strict=True)
                    if error.axis not in kind.dims
                ]
                if lacking:
                    error.is_explained = True
                    error.args = (
                        (
                            f"{error.args[0]} {self.op} started with {', '.join(lacking)}. If the"
                            " body needs this axis in the carry, start with a value that has it,"
                            f" such as nx.zeros(named_shape={{{error.axis!r}: size}})."
                        ),
                    )
            raise

    def finish(self, datas: PyTree) -> PyTree:
        """Return the carry after the loop, from the data in its structure."""
        return self.tree.unflatten(
            [
                make_result(data, kind.dims)
                for data, kind in zip(self.tree.flatten_up_to(datas), self.types, strict=True)
            ]
        )


def fix_carry_type(grow: Callable[[Sequence[ValueType]], None], attempt: Callable[[], R]) -> R:
    """Run `attempt` until it no longer raises `Grow`; `grow` sets the requested initial types.

    Each time the types gain a name or a mesh axis, so this terminates.
    """
    while True:
        try:
            return attempt()
        except Grow as wanted:
            types = wanted.types
        grow(types)
