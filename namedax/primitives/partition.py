"""Evaluation of one equation of a program on global shapes, on the blocks of devices.

`in_blocks` does it for every primitive, by what its record says. Each dimension of an operand has a
role: the dimension of the result with the same elements, a sum that it shares with other operands,
or none. Dimensions with a role stay sharded if all operands can agree; the largest operand decides.
Dimensions without one are gathered. Sums over sharded dimensions are completed by the record's
`combine`, after their padding has been replaced by its `identity`.

A primitive without a record gathers its operands, so it is right, and sends the most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jax.sharding import NamedSharding

from namedax.core.names import MeshAxes
from namedax.core.padded_sharding import Uneven, block_size, plain
from namedax.core.records import Record
from namedax.core.variance import cast_alike, cast_data
from namedax.primitives.dimensions import roles_by_marks
from namedax.primitives.equations import bind, facts, kind_of, placement_of
from namedax.primitives.record import Atom, Kind, Primitive, Roles, shape_of
from namedax.resources.layout import Layout, relayout
from namedax.resources.padding_masks import masked
from namedax.resources.serial import count_along

__all__ = [
    "Block",
    "block_shape",
    "gathered",
    "in_blocks",
    "in_layout",
    "placed",
    "replicated",
    "wanted_layouts",
]


class Block(Record):
    """A block of a global value.

    Attributes:
      value: the block; it varies over the mesh axes of the layout, and over no others.
      layout: the mesh axes of each dimension, major first; an `Uneven` has padding in last blocks.
    """

    value: Any
    layout: Layout


def placed(axes: MeshAxes, size: int) -> MeshAxes:
    """Return the placement of a dimension of `size` elements over mesh axes."""
    axes = plain(axes)
    return Uneven(axes, size) if axes and size % count_along(axes) else axes


def replicated(value: Any, ndim: int | None = None) -> Block:
    """Return a value that is the same on all devices, as its only block."""
    return Block(value, ((),) * (jnp.ndim(value) if ndim is None else ndim))


def in_layout(block: Block, layout: Sequence[MeshAxes]) -> Block:
    """Reshard a block; the mesh axes that it leaves are gathered."""
    layout = tuple(layout)
    if block.layout == layout:
        return block
    value = block.value
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):
        # Keys are sharded by their words.
        return Block(_keys_in_layout(value, block.layout, layout), layout)
    value = relayout(jnp.asarray(value), block.layout, layout)
    return Block(cast_data(value, [axis for axes in layout for axis in axes]), layout)


def _keys_in_layout(keys: jax.Array, old: Layout, new: Layout) -> jax.Array:
    words = relayout(jax.random.key_data(keys), (*old, ()), (*new, ()))
    words = cast_data(words, [axis for axes in new for axis in axes])
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(keys))


def gathered(block: Block, dims: Sequence[int] | None = None) -> Block:
    """Gather a block along some dimensions. Default: all."""
    kept = [() if dims is None or i in dims else axes for i, axes in enumerate(block.layout)]
    return in_layout(block, kept)


def block_shape(shape: Sequence[int], layout: Layout) -> tuple[int, ...]:
    """Return the shape of the blocks of a value."""
    return tuple(
        block_size(n, count_along(axes)) if axes else n
        for n, axes in zip(shape, layout, strict=True)
    )


def in_blocks(
    eqn: JaxprEqn, operands: Sequence[Block], wanted: Sequence[Layout | None]
) -> list[Block]:
    """Evaluate an equation on blocks.

    Args:
      eqn: the equation.
      operands: the blocks of its operands.
      wanted: for each result, the layout to which it is resharded next; `None` if it is unknown.
    """
    record = facts(eqn)
    is_sharded = any(axes for operand in operands for axes in operand.layout)
    if not is_sharded and record.of_blocks is None:
        return _whole(eqn, operands)
    for roles in _roles(eqn, record, [operand.layout for operand in operands]):
        results = by_roles(eqn, operands, roles, record, wanted)
        if results is not None:
            return results
    return _whole(eqn, operands)


def _whole(eqn: JaxprEqn, operands: Sequence[Block]) -> list[Block]:
    values = [gathered(operand).value for operand in operands]
    return [
        replicated(value, len(shape_of(var)))
        for value, var in zip(_bound(eqn, values), eqn.outvars, strict=True)
    ]


def _bound(eqn: JaxprEqn, values: Sequence[jax.Array]) -> list[jax.Array]:
    """Evaluate an equation without the shardings among its parameters, which global types have."""
    params = {name: None for name, value in eqn.params.items() if isinstance(value, NamedSharding)}
    return bind(eqn, values, **params)


# --- roles ----------------------------------------------------------------------------------------


def _roles(eqn: JaxprEqn, record: Primitive, layouts: Sequence[Layout]) -> Iterator[Roles]:
    """Yield the roles of the dimensions of all operands and results, the best ones first."""
    if record.roles is not None and (found := record.roles(eqn, layouts)) is not None:
        yield found
    shapes = [shape_of(var) for var in eqn.invars]
    outs = [shape_of(var) for var in eqn.outvars]
    if record.is_elementwise:
        out = outs[0]
        own: list[list[int | None]] = [
            [i if n == m else None for i, (n, m) in enumerate(zip(shape, out, strict=True))]
            if len(shape) == len(out)
            else [None] * len(shape)
            for shape in shapes
        ]
        yield own, [list(range(len(out)))] * len(outs)
    elif record.aligned is not None:
        aligned = record.aligned(eqn)
        own = [
            [dims.index(i) if i in dims else None for i in range(len(shape))]
            for dims, shape in zip(map(list, aligned), shapes, strict=True)
        ]
        count = len(aligned[0])
        for dims in record.contracted(eqn) if record.contracted is not None else ():
            for operand, dim in enumerate(dims):
                own[operand][dim] = count
            count += 1
        yield _of_equal_sizes((own, [list(range(len(aligned[0]))) for _ in outs]), shapes, outs)
    elif record.forward is not None:
        yield _of_equal_sizes(roles_by_marks(record.forward, eqn), shapes, outs)


def _of_equal_sizes(
    roles: Roles, shapes: Sequence[Sequence[int]], outs: Sequence[Sequence[int]]
) -> Roles:
    """Leave out roles of dimensions whose size in a result differs, as of windows and padding."""
    own, of_results = roles
    sizes: dict[int | None, set[int]] = {}
    for shape, dims in zip([*shapes, *outs], [*own, *of_results], strict=True):
        for n, role in zip(shape, dims, strict=True):
            sizes.setdefault(role, set()).add(n)
    kept = {role for role, found in sizes.items() if len(found) == 1}
    first, second = (
        [[role if role in kept else None for role in dims] for dims in part]
        for part in (own, of_results)
    )
    return first, second


def by_roles(
    eqn: JaxprEqn,
    operands: Sequence[Block],
    roles: Roles,
    record: Primitive,
    wanted: Sequence[Layout | None],
) -> list[Block] | None:
    """Evaluate an equation on blocks by the roles of dimensions.

    Return `None` if it takes whole operands: the shapes of its results are parameters.
    """
    own, of_results = roles
    agreed = _agreed(eqn, operands, roles, wanted)
    blocks = [
        in_layout(operand, [() if role is None else agreed.get(role, ()) for role in dims])
        for operand, dims in zip(operands, own, strict=True)
    ]
    kept = {role for dims in of_results for role in dims}
    sums = {role: axes for role, axes in agreed.items() if role not in kept}
    values = [block.value for block in blocks]
    if sums and record.identity is not None:
        values = [
            _masked(value, dims, sums, record) for value, dims in zip(values, own, strict=True)
        ]
    layouts = [
        tuple(
            () if role is None else placed(agreed.get(role, ()), n)
            for role, n in zip(dims, shape_of(var), strict=True)
        )
        for dims, var in zip(of_results, eqn.outvars, strict=True)
    ]
    shapes = [
        block_shape(shape_of(var), layout) for var, layout in zip(eqn.outvars, layouts, strict=True)
    ]
    results = _computed(eqn, values, shapes, record, sums, [block.layout for block in blocks])
    if results is None:
        return None
    varied = [[axis for axes in layout for axis in axes] for layout in layouts]
    return [
        Block(cast_data(value, axes) if axes else value, layout)
        for value, axes, layout in zip(results, varied, layouts, strict=True)
    ]


def _computed(
    eqn: JaxprEqn,
    values: Sequence[jax.Array],
    shapes: Sequence[tuple[int, ...]],
    record: Primitive,
    sums: Mapping[int, MeshAxes],
    own: Sequence[Layout],
) -> list[jax.Array] | None:
    if record.kind is not Kind.CAST and record.of_blocks is None:
        values = cast_alike(values)
    axes = tuple(axis for place in sums.values() for axis in place)
    try:
        if record.of_blocks is not None:
            results = [record.of_blocks(eqn, values, shapes[0], own)]
        elif callable(record.in_blocks):
            results = [record.in_blocks(eqn, values, shapes[0])]
        else:
            results = _bound(eqn, values)
    except (TypeError, ValueError):  # a parameter that the sizes of operands must agree with
        return None
    if any(value.shape != shape for value, shape in zip(results, shapes, strict=True)):
        return None
    if axes and record.of_blocks is None:
        assert record.combine is not None
        results = [record.combine(value, axes) for value in results]
    return results


def _masked(
    value: jax.Array, dims: Sequence[int | None], sums: Mapping[int, MeshAxes], record: Primitive
) -> jax.Array:
    for dim, role in enumerate(dims):
        if role is not None and isinstance(place := sums.get(role, ()), Uneven):
            assert record.identity is not None
            value = masked(value, dim, place, record.identity(value.dtype))
    return value


def _agreed(
    eqn: JaxprEqn, operands: Sequence[Block], roles: Roles, wanted: Sequence[Layout | None]
) -> dict[int, MeshAxes]:
    """Return the placement of each role.

    Placements that an operand has and a result is to have come first. Then the largest operand
    decides.
    """
    own, of_results = roles
    next_ones = {
        (role, plain(axes))
        for layout, dims in zip(wanted, of_results, strict=True)
        if layout is not None
        for axes, role in zip(layout, dims, strict=True)
        if axes and role is not None
    }
    agreed: dict[int, MeshAxes] = {}
    used = set[str]()
    sizes = [math.prod(shape_of(var)) for var in eqn.invars]
    order = sorted(range(len(operands)), key=lambda i: -sizes[i])
    placements = [
        (role, axes)
        for i in order
        for axes, role in zip(operands[i].layout, own[i], strict=True)
        if axes and role is not None
    ]
    for role, axes in sorted(
        placements, key=lambda pair: (pair[0], plain(pair[1])) not in next_ones
    ):
        if role not in agreed and used.isdisjoint(axes):
            agreed[role] = axes
            used.update(axes)
    return agreed


def wanted_layouts(jaxpr: Jaxpr) -> dict[Atom, Layout]:
    """Return the layouts to which variables are resharded next, as far as marks say so.

    A variable that is only used element by element has the layout that the result is to have.
    """
    found: dict[Atom, Layout] = {}
    for eqn in reversed(jaxpr.eqns):
        if kind_of(eqn) is Kind.PLACEMENT:
            found[eqn.invars[0]] = placement_of(eqn)
        elif len(eqn.outvars) == 1 and (layout := found.get(eqn.outvars[0])) is not None:
            record = facts(eqn)
            if record.is_elementwise or record.is_transposition:
                for var, dims in zip(eqn.invars, next(_roles(eqn, record, ()))[0], strict=True):
                    if not isinstance(var, Literal) and None not in dims:
                        found[var] = tuple(layout[dim] for dim in dims if dim is not None)
    return found
