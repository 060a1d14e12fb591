"""The function to plan: its names, and its trace under another layout."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import Jaxpr
from jax.sharding import AbstractMesh

from namedax.core.array import dims_of, is_named, make_padded, padding_of
from namedax.core.memory_kinds import is_on_host, type_like, type_on_host
from namedax.core.names import Mesh, PyTree
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.core.user_code import call_user_code
from namedax.insight.analysis.explain import explain
from namedax.insight.analysis.report import Report
from namedax.insight.analysis.sources import source_of
from namedax.insight.planning.candidates import Settings, Variant
from namedax.ops.contraction.order import ORDERED
from namedax.ops.operands.open_options import choosing
from namedax.ops.operands.pytree import data_of
from namedax.primitives import costs
from namedax.primitives.equations import jaxprs_within
from namedax.resources.assignment import Assignment, parse_resources
from namedax.resources.serial import LoopAxis
from namedax.resources.stored_padding import padding_for, store, without_padding
from namedax.xmap.arguments import static_indices
from namedax.xmap.mapped_function import Xmapped
from namedax.xmap.wrapper import xmap

__all__ = ["Census", "Held", "Program", "applied", "remapped", "types_of"]


class Held(Record):
    """An array among the arguments.

    Attributes:
      label: its text in messages.
      dims: its axes.
      bytes: its global size.
    """

    label: str
    dims: tuple[Hashable | None, ...]
    bytes: int


class Census(Record):
    """Facts about the names, from one trace with nothing mapped.

    Attributes:
      sizes: the size of every name, without the internal names of operations, which have no size or
        several.
      apart: pairs of names that occur together in an argument or a result.
      arguments: the arrays among the arguments.
      reordered: the lines, by number, with a contraction of more than two operands. Its order
        depends on the sizes of blocks.
    """

    sizes: dict[Hashable, int]
    apart: frozenset[frozenset[Hashable]]
    arguments: tuple[Held, ...]
    reordered: frozenset[int] = frozenset()

    def bytes_by_name(self) -> dict[Hashable, int]:
        """Return the bytes of the arguments that have each name."""
        found: dict[Hashable, int] = {}
        for held in self.arguments:
            for name in held.dims:
                found[name] = found.get(name, 0) + held.bytes
        return found


def remapped(
    f: Xmapped,
    body: Callable[..., PyTree],
    axis_resources: Mapping[Hashable, Any],
    mesh: Mesh | None,
    settings: Settings | None = None,
    **others: Any,
) -> Xmapped:
    """Map another body like `f`, with another layout.

    Args:
      f: the mapped function.
      body: the function to map.
      axis_resources: the layout.
      mesh: its mesh; unused if nothing is mapped.
      settings: the other arguments of `nx.xmap` that a plan chooses. Default: those of `f`.
      **others: further options of `nx.xmap`.
    """
    return xmap(
        body,
        f._options.in_axes,
        f._options.out_axes,
        axis_sizes=f._options.axis_sizes,
        axis_resources=axis_resources,
        mesh=mesh if axis_resources else None,
        static_argnums=f._options.static_argnums,
        **(Settings.of(f) if settings is None else settings).arguments(),
        slow_axes=None if f._options.slow_axes is None else dict(f._options.slow_axes),
        passes=f._passes,
        **others,
    )


def applied(f: Xmapped, variant: Variant, mesh: Mesh | None) -> Xmapped:
    """Return `f` under other choices."""
    body = f._fun

    @functools.wraps(body)
    def with_options(*args: PyTree, **kwargs: PyTree) -> PyTree:
        with choosing(variant.options, variant.files):
            return call_user_code(body, *args, **kwargs)

    return remapped(
        f,
        with_options if variant.options else body,
        variant.axis_resources,
        mesh,
        variant.settings,
        donate_argnums=f._options.donate_argnums,
        jit=f._options.jit,
    )


class Program:
    """A mapped function with arguments, to be traced under several layouts.

    Args:
      f: a function made by `nx.xmap`.
      args: its arguments; only the types of arrays matter.
      kwargs: its keyword arguments, with the same rule.
    """

    def __init__(self, f: Xmapped, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]):
        self._f = f
        static = static_indices(f, len(args))
        self.args = tuple(arg if i in static else types_of(arg) for i, arg in enumerate(args))
        self.kwargs = {
            name: value if name in f._static_names else types_of(value)
            for name, value in kwargs.items()
        }
        self.name = f._name

    def first(self) -> Xmapped:
        """Return the mapped function."""
        return self._f

    def under(
        self,
        axis_resources: Mapping[Hashable, Any],
        mesh: Mesh | None,
        settings: Settings | None = None,
    ) -> Xmapped:
        """Return the function under another layout.

        It is a new object, so that its cached traces are freed with it.
        """
        body = self._f._fun

        @functools.wraps(body)
        def again(*args: PyTree, **kwargs: PyTree) -> PyTree:
            return body(*args, **kwargs)

        return remapped(self._f, again, axis_resources, mesh, settings)

    def on_host(self, smallest: int) -> Program:
        """Return the program with arguments of this size or more in the memory of the host."""

        def one(leaf: PyTree) -> PyTree:
            if not isinstance(leaf, jax.ShapeDtypeStruct):
                return leaf
            moved = type_on_host(leaf, leaf.shape)
            return moved if costs.size_in_bytes(moved) >= smallest else leaf

        moved = copy.copy(self)
        moved.args, moved.kwargs = jax.tree.map(one, (self.args, self.kwargs))
        return moved

    def variant(self, axis_resources: Mapping[Hashable, Any], settings: Settings) -> Variant:
        """Return a layout as a variant."""
        return Variant(axis_resources, settings)

    def explained(self, variant: Variant, mesh: AbstractMesh) -> Report:
        """Return the report of `nx.explain` for a layout and settings."""
        args, kwargs = self.stored(self.args, self.kwargs, variant.axis_resources, mesh)
        form = self.under(variant.axis_resources, mesh, variant.settings)
        return explain(form, *args, **kwargs)

    def stored(
        self,
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree],
        axis_resources: Mapping[Hashable, Any],
        mesh: Mesh,
    ) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
        """Store named arrays padded, if the layout has uneven names.

        Arrays that get their names from `in_axes` cannot be stored padded.

        Args:
          args: arrays or types.
          kwargs: keyword arguments, with the same rule.
          axis_resources: the layout.
          mesh: its mesh.
        """
        assignment = {
            name: axes
            for name, axes in parse_resources(axis_resources).items()
            if not any(isinstance(axis, LoopAxis) for axis in axes)
        }
        static = static_indices(self._f, len(args))
        one = functools.partial(_stored, assignment=assignment, mesh=mesh)
        return (
            tuple(arg if i in static else one(arg) for i, arg in enumerate(args)),
            {
                name: value if name in self._f._static_names else one(value)
                for name, value in kwargs.items()
            },
        )

    def padded(self, axis_resources: Mapping[Hashable, Any], mesh: Mesh) -> tuple[Hashable, ...]:
        """Return the names that arguments have in padded blocks under a layout."""
        args, kwargs = self.stored(self.args, self.kwargs, axis_resources, mesh)
        found: dict[Hashable, None] = {}
        for leaf in jax.tree.leaves((args, kwargs), is_leaf=is_named):
            if is_named(leaf) and (padding := padding_of(leaf)) is not None:
                found.update(dict.fromkeys(padding.sizes))
        return tuple(found)

    def census(self) -> Census:
        """Trace the function with nothing mapped."""
        sizes: dict[Hashable, int] = {}
        apart: set[frozenset[Hashable]] = set()
        arguments: list[Held] = []
        body = self._f._fun

        @functools.wraps(body)
        def counted(*args: PyTree, **kwargs: PyTree) -> PyTree:
            result = body(*args, **kwargs)
            region = ambient()
            assert region is not None
            arguments.extend(_held(args, kwargs, self._f._parameters))
            for leaf in jax.tree.leaves((args, kwargs, result), is_leaf=is_named):
                names = [dim for dim in dims_of(leaf) if dim is not None]
                apart.update(map(frozenset, itertools.combinations(names, 2)))
            known = {name: region.size_of(name) for name in region.seen}
            sizes.update(
                (name, size) for name, size in known.items() if size is not None and size > 1
            )
            return result

        traced = remapped(self._f, counted, {}, None).trace(*self.args, **self.kwargs)
        reordered = frozenset(_reordered(traced.jaxpr.jaxpr))
        return Census(sizes, frozenset(apart), tuple(arguments), reordered)


def _reordered(jaxpr: Jaxpr) -> Iterator[int]:
    """Yield the lines of contractions whose order depends on sizes."""
    for eqn in jaxpr.eqns:
        if ORDERED in str(eqn.source_info.name_stack):
            yield source_of(eqn).line
    for inner in jaxprs_within(jaxpr):
        yield from _reordered(inner)


def _stored(tree: PyTree, assignment: Assignment, mesh: Mesh) -> PyTree:
    """Store the named arrays of a tree padded."""

    def one(leaf: PyTree) -> PyTree:
        if not is_named(leaf):
            return leaf
        padding = padding_for(leaf.dims, dict(leaf.named_shape), assignment, mesh)
        if padding is None:
            return leaf
        if not isinstance(leaf.data, jax.ShapeDtypeStruct):
            return store(without_padding(leaf).data, leaf.dims, assignment, mesh, "plan")
        sizes = padding.padded_sizes
        shape = tuple(sizes.get(dim, n) for dim, n in zip(leaf.dims, leaf.data.shape, strict=True))
        return make_padded(jax.ShapeDtypeStruct(shape, leaf.data.dtype), leaf.dims, padding)

    return jax.tree.map(one, tree, is_leaf=is_named)


def types_of(tree: PyTree) -> PyTree:
    """Convert arrays to their types, because their present sharding does not restrict the plan.

    Arrays in the memory of the host stay there.
    """

    def one(leaf: PyTree) -> PyTree:
        if is_on_host(leaf):
            return type_like(leaf, leaf.shape)
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
            return jax.ShapeDtypeStruct(
                leaf.shape, leaf.dtype, weak_type=bool(getattr(leaf, "weak_type", False))
            )
        return leaf

    return jax.tree.map(
        lambda leaf: without_padding(leaf) if is_named(leaf) else leaf,
        jax.tree.map(one, tree),
        is_leaf=is_named,
    )


def _held(
    args: Sequence[PyTree], kwargs: Mapping[str, PyTree], parameters: tuple[str, ...] | None
) -> Iterator[Held]:
    for path, leaf in jax.tree_util.tree_flatten_with_path((args, kwargs), is_leaf=is_named)[0]:
        group, first, *rest = path
        if group.idx == 1:
            name = str(first.key)
        else:
            name = (
                parameters[first.idx]
                if parameters and first.idx < len(parameters)
                else f"argument {first.idx}"
            )
        data = data_of(leaf)
        if hasattr(data, "dtype"):
            yield Held(
                f"{name}{jax.tree_util.keystr(tuple(rest))}",
                tuple(dims_of(leaf)),
                costs.size_in_bytes(data),
            )
