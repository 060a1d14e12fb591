"""The parallel scan `associative_scan`, also across devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import MeshAxes, PyTree
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.prefix_scan import prefix_scan
from namedax.core.user_code import call_user_code
from namedax.core.variance import cast_data
from namedax.errors import ArgumentError, ArgumentTypeError, PositionalAxisError
from namedax.messages.tree_differences import tree_differences
from namedax.ops.loops.carries import Grow, ValueType, check_placements, fix_carry_type
from namedax.ops.loops.control_flow import from_device
from namedax.ops.loops.vmap import run_hidden
from namedax.ops.operands.along_axes import Entries
from namedax.ops.operands.broadcasting import as_block, constrain_sharding, make_result
from namedax.ops.operands.operation import Explicit, operation
from namedax.ops.operands.pytree import array_of, flatten
from namedax.resources import communication as comm
from namedax.resources.padding_masks import is_real, real_blocks

__all__ = ["associative_scan", "before_this_device"]


@operation(explicit=Explicit.AS_JAX, calls_functions=True, arrays=("elems",), keeps_programs=False)
def associative_scan(
    fn: Callable[[PyTree, PyTree], PyTree], elems: PyTree, reverse: bool = False, axis: Hashable = 0
) -> PyTree:
    """Combine all elements up to each one with an associative function: `lax.associative_scan`.

    Args:
      fn: combines two pytrees of arrays, and returns a pytree of the same structure. Over a named
        axis its arguments are single elements, arrays without the axis. Over a positional axis they
        have that axis, with any length, as in JAX.
      elems: a pytree of arrays that all have the axis.
      reverse: if `True`, scan from the end; by default `False`.
      axis: an axis name or a positional axis, by default 0.

    Returns:
      Arrays like `elems`. Axes that `fn` adds are axes of all elements.

    Communication: along a sharded axis every device scans its own block. One all-gather per array,
    of one element per device, collects the totals of the blocks; these are combined and prepended.
    The gradient adds one reduce-scatter of the same size. `fn` must not communicate along the mesh
    axes of the axis. If the axis does not divide over these, `fn` does not receive padding. It
    receives two adjacent elements instead, which the first device sends to all if some device has
    fewer than two. Outside of a mapped function an axis that is sharded over Explicit mesh axes is
    gathered, and the results are sharded along it again.

    Raises:
      AxisNotFoundError: an array lacks the named axis.
      PositionalAxisError: an array lacks the positional axis.
      PlacementConflictError: the axis is sharded, and `fn` communicates along its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> decay = nx.named(jnp.full((4,), 0.5), ["time"])
    >>> x = nx.named(jnp.ones(4), ["time"])
    >>> def combine(a, b):  # of the recurrence h = decay * h + x
    ...     return a[0] * b[0], a[1] * b[0] + b[1]
    >>> nx.associative_scan(combine, (decay, x), axis="time")[1].data
    Array([1.   , 1.5  , 1.75 , 1.875], dtype=float32)
    """
    op = "associative_scan"
    if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool):
        return _associative_scan_by_position(fn, elems, reverse, int(axis))
    entries = Entries(op, elems, axis, every=True, supports_padding=True)
    if not entries.datas:
        raise ArgumentError(f"{op}: there are no arrays in elems. Pass at least one.")
    dims = [entries.dims[i] for i in range(len(entries.datas))]
    types = [
        ValueType.of(array_of(data, (axis, *d)))
        for data, d in zip(entries.datas, dims, strict=True)
    ]
    starts = list(zip(entries.datas, [kind.dims for kind in types], strict=True))

    def pairwise(*values: jax.Array) -> list[jax.Array]:
        """Apply `fn` to two elements, and convert the result to the current types."""
        a, b = (
            [array_of(v, kind.dims[1:]) for v, kind in zip(part, types, strict=True)]
            for part in (values[: len(types)], values[len(types) :])
        )
        leaves = _combined(op, fn, entries.tree, a, b)
        new = []
        for i, (kind, leaf) in enumerate(zip(types, leaves, strict=True)):
            joined = kind.element().join(
                ValueType.of(leaf),
                op,
                f"array {i} of elems",
                ("is passed as", "is returned as"),
            )
            if axis in joined.dims:
                entries.result(leaf, joined.dims)  # raises
            new.append(joined.stacked(axis, kind.shape[0]))
        if new != types:
            raise Grow(new)
        return [kind.element().fit(leaf) for kind, leaf in zip(types, leaves, strict=True)]

    combine = jax.vmap(pairwise)

    def local(*datas: jax.Array) -> list[jax.Array]:
        wholes = [(None, *kind.dims[1:]) for kind in types]
        datas = tuple(
            constrain_sharding(data, whole) for data, whole in zip(datas, wholes, strict=True)
        )
        results = prefix_scan(lambda a, b: combine(*a, *b), list(datas), reverse=reverse)
        return [
            constrain_sharding(data, whole) for data, whole in zip(results, wholes, strict=True)
        ]

    def over_devices(*datas: jax.Array) -> list[jax.Array]:
        before, after = datas[: len(types)], datas[len(types) :]
        prefixed = jax.vmap(pairwise, in_axes=(None,) * len(types) + (0,) * len(types))
        return prefixed(*before, *after)

    def attempt() -> list[jax.Array]:
        datas = [
            kind.fit(make_in_region(data, d)) for kind, (data, d) in zip(types, starts, strict=True)
        ]
        if not datas[0].shape[0]:
            return datas
        place = entries.placement
        if (
            datas[0].shape[0] == 1
        ):  # nothing is combined, but the result has the names that `fn` adds
            jax.eval_shape(combine, *datas, *datas)
        if isinstance(place, Uneven):
            return _scan_with_padding(op, axis, place, datas, combine, local, over_devices, reverse)
        blocks: list[Any] = run_hidden(op, axis, place, local, datas)
        if not place:
            return blocks
        return _continue_over_devices(op, entries, blocks, local, over_devices, reverse)

    results = fix_carry_type(_growing(op, types), attempt)
    return entries.tree.unflatten(
        [make_result(data, kind.dims) for data, kind in zip(results, types, strict=True)]
    )


def _combined(
    op: str,
    fn: Callable[[PyTree, PyTree], PyTree],
    tree: jax.tree_util.PyTreeDef,
    a: Sequence[AnyArray],
    b: Sequence[AnyArray],
) -> list[AnyArray]:
    """Apply `fn` to two pytrees with these leaves, and return the leaves of its result."""
    leaves, result_tree = flatten(call_user_code(fn, tree.unflatten(a), tree.unflatten(b)))
    labels = ("the result{} of the function", "its argument{}")
    if different := tree_differences(result_tree, tree, labels):
        raise ArgumentTypeError(f"{op}: {different} Return the structure of one argument.")
    return [as_block(leaf, op) for leaf in leaves]


def _growing(op: str, types: list[ValueType]) -> Callable[[Sequence[ValueType]], None]:
    """Return a function that replaces the contents of `types`."""

    def grow(new: Sequence[ValueType]) -> None:
        check_placements(op, new)
        types[:] = new

    return grow


def before_this_device(
    ends: Sequence[jax.Array],
    axes: MeshAxes,
    scan: Callable[..., list[jax.Array]],
    reverse: bool = False,
) -> tuple[jax.Array, list[jax.Array]]:
    """Combine one element of each device up to the device before this one.

    Args:
      ends: the element of this device: arrays with a leading dimension of size 1.
      axes: the mesh axes.
      scan: combines all elements up to each one, along the leading dimension.
      reverse: True to combine from the last device on; default: False.

    Returns:
      True if there is such a device, and the combination without the leading dimension. Without a
      device it is that of an arbitrary one, which is a regular value.

    Communication: one all-gather of each array.
    """
    gathered = [comm.all_gather(cast_data(data, axes), 0, axes, "varying") for data in ends]
    totals = scan(*gathered)
    devices = totals[0].shape[0]
    before = comm.block_index(axes) + (1 if reverse else -1)
    at = jnp.clip(before, 0, devices - 1)
    return (before >= 0) & (before < devices), [
        lax.dynamic_index_in_dim(total, at, 0, keepdims=False) for total in totals
    ]


def _continue_over_devices(
    op: str,
    entries: Entries,
    blocks: Sequence[jax.Array],
    local: Callable[..., list[jax.Array]],
    prefixed: Callable[..., list[jax.Array]],
    reverse: bool,
) -> list[jax.Array]:
    """Compute the scan of the complete axis from the scans of the blocks."""
    axes = entries.placement
    n = blocks[0].shape[0]
    last = slice(0, 1) if reverse else slice(n - 1, n)

    def scan(*gathered: jax.Array) -> list[jax.Array]:
        return run_hidden(op, entries.axis, axes, local, gathered)

    exists, prefix = before_this_device([data[last] for data in blocks], axes, scan, reverse)
    # The first block has no predecessor, and drops the result.
    combined = run_hidden(op, entries.axis, axes, prefixed, [*prefix, *blocks])
    return [jnp.where(exists, new, old) for new, old in zip(combined, blocks, strict=True)]


def _scan_with_padding(
    op: str,
    axis: Hashable,
    place: Uneven,
    datas: Sequence[jax.Array],
    combine: Callable[..., list[jax.Array]],
    local: Callable[..., list[jax.Array]],
    prefixed: Callable[..., list[jax.Array]],
    reverse: bool,
) -> list[jax.Array]:
    """Scan a complete axis that has padding in its last blocks.

    Padding acts as the neutral element, which is unknown: combined with padding, an element is
    unchanged. The computation in its place combines two elements of the axis. So neither a value
    nor a derivative is infinite there unless it is elsewhere.
    """
    count, block = len(datas), datas[0].shape[0]

    def of_block(real: jax.Array, *values: jax.Array) -> list[jax.Array]:
        pair, entries = (values[:count], values[count : 2 * count]), values[2 * count :]

        def where(mask: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
            return jnp.where(
                jnp.expand_dims(mask, tuple(range(1, max(jnp.ndim(a), jnp.ndim(b))))), a, b
            )

        def extended(a: Sequence[jax.Array], b: Sequence[jax.Array]) -> list[jax.Array]:
            (has_a, *a), (has_b, *b) = a, b
            both = has_a & has_b
            given = [
                where(both, x, one[None])
                for x, one in zip((*a, *b), (*pair[0], *pair[1]), strict=True)
            ]
            either = [where(has_a, x, y) for x, y in zip(a, b, strict=True)]
            return [
                has_a | has_b,
                *(where(both, x, y) for x, y in zip(combine(*given), either, strict=True)),
            ]

        found: list[Any] = prefix_scan(extended, [real, *entries], reverse=reverse)
        return found[1:]

    first, second = _neighbors(datas, place, reverse)
    blocks = run_hidden(
        op, axis, place, of_block, [is_real((block,), 0, place), *first, *second, *datas]
    )
    holders = real_blocks(place, block)
    if holders == 1:
        return list(blocks)
    at = slice(0, 1) if reverse else slice(block - 1, block)
    ends = [
        comm.all_gather(cast_data(data, place)[at], 0, plain(place), "varying")[:holders]
        for data in blocks
    ]
    totals = run_hidden(op, axis, place, local, ends)
    # A padding-only block, and the first one, repeat the combination of others. The first result is
    # dropped; at the end it is the last element.
    index = comm.block_index(plain(place))
    (least, most) = (0, holders - 2) if reverse else (1, holders - 1)
    number, is_own = jnp.clip(index, least, most), (index >= least) & (index <= most)
    before = [
        lax.dynamic_index_in_dim(total, number + (1 if reverse else -1), 0, keepdims=False)
        for total in totals
    ]
    others = [lax.dynamic_slice_in_dim(end, number, 1, 0) for end in ends]
    after = [
        jnp.where(is_own, data, jnp.broadcast_to(other, data.shape))
        for data, other in zip(blocks, others, strict=True)
    ]
    combined = run_hidden(op, axis, place, prefixed, [*before, *after])
    kept = index <= most if reverse else index >= least
    return [jnp.where(kept, new, old) for new, old in zip(combined, blocks, strict=True)]


def _neighbors(
    datas: Sequence[jax.Array], place: Uneven, reverse: bool
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Return two adjacent real elements in scan order.

    They are from each device's own block, if all blocks have two.
    """
    block, holders = datas[0].shape[0], real_blocks(place, datas[0].shape[0])
    rows = [lax.stop_gradient(data[:2]) for data in datas]
    if block > 1 and (
        holders < math.prod(map(lax.axis_size, place)) or place.size - (holders - 1) * block < 2
    ):
        mine = comm.block_index(plain(place)) == 0
        rows = [from_device(row, mine, plain(place)) for row in rows]
    pair = [row[0] for row in rows], [row[-1] for row in rows]
    return pair[::-1] if reverse else pair


def _associative_scan_by_position(
    fn: Callable[[PyTree, PyTree], PyTree], elems: PyTree, reverse: bool, axis: int
) -> PyTree:
    """Scan over a positional axis, which `fn` sees."""
    op = "associative_scan"
    leaves, tree = flatten(elems)
    starts = [as_block(leaf, op) for leaf in leaves]
    for leaf in starts:
        rank = dims_of(leaf).count(None)
        if not -rank <= axis < rank:
            raise PositionalAxisError(
                f"{op}: positional axis {axis} is out of range for {type_text(leaf)}. Write the"
                " name of the axis."
            )
    types = [ValueType.of(leaf) for leaf in starts]

    def front(kind: ValueType) -> int:
        places = [i for i, dim in enumerate(kind.dims) if dim is None]
        return places[axis]

    def combine(a: Sequence[jax.Array], b: Sequence[jax.Array]) -> list[jax.Array]:
        # JAX slices the leading axis; `fn` sees it in its original position.
        def whole(datas: Sequence[jax.Array]) -> list[AnyArray]:
            return [
                array_of(jnp.moveaxis(data, 0, front(kind)), kind.dims)
                for data, kind in zip(datas, types, strict=True)
            ]

        new, out = [], []
        for i, (kind, data, leaf) in enumerate(
            zip(types, a, _combined(op, fn, tree, whole(a), whole(b)), strict=True)
        ):
            at = front(kind)
            shape = (*kind.shape[:at], data.shape[0], *kind.shape[at + 1 :])
            joined = kind.replace(shape=shape).join(
                ValueType.of(leaf),
                op,
                f"array {i} of elems",
                ("is passed as", "is returned as"),
            )
            place = front(joined)
            new.append(
                joined.replace(
                    shape=(*joined.shape[:place], kind.shape[at], *joined.shape[place + 1 :])
                )
            )
            out.append((joined, leaf))
        if new != types:
            raise Grow(new)
        return [jnp.moveaxis(kind.fit(leaf), front(kind), 0) for kind, leaf in out]

    def attempt() -> list[jax.Array]:
        datas = [
            jnp.moveaxis(kind.fit(leaf), front(kind), 0)
            for kind, leaf in zip(types, starts, strict=True)
        ]
        return list(prefix_scan(combine, datas, reverse=reverse)) if datas else []

    results = fix_carry_type(_growing(op, types), attempt)
    return tree.unflatten(
        [
            make_result(jnp.moveaxis(data, 0, front(kind)), kind.dims)
            for data, kind in zip(results, types, strict=True)
        ]
    )
