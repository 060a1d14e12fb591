"""The run of a plan: the tree is compared with the plan, and moves round by round.

A round is a program of XLA, or moves arrays piece by piece. A sender then slices its block, the
slice is copied to the receiver, and written into the new block in place. Only pieces that a device
needs and does not have are copied, and all devices must belong to this process.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from namedax.core.array import NamedArray, is_named, make, make_padded, padding_of, stored_data
from namedax.core.display import type_text
from namedax.core.names import PyTree
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshError,
    format_value,
)
from namedax.insight.transfers.collectives import Program, compile_round, reshard
from namedax.insight.transfers.layouts import Boxes, Leaf, sharding_of
from namedax.insight.transfers.plans import Plan
from namedax.insight.transfers.rounds import Kind, Part, Round, Slices
from namedax.messages.tree_differences import tree_differences
from namedax.resources.communication import is_keys
from namedax.resources.processes import spans_processes
from namedax.resources.stored_padding import store

__all__ = ["programs", "run"]

_TOLERANCE = 1.02  # of bytes that a program of XLA may send more than the plan
_TEMPORARY = 1.5  # the same for its temporary memory, without a limit
_SMALL = 1 << 16  # bytes of temporary memory that are always allowed


# --- programs of XLA for rounds -------------------------------------------------------------------


def programs(plan: Plan) -> tuple[jax.stages.Compiled | None, ...]:
    """Return the compiled program of each round; `None` if its arrays move piece by piece."""
    _check_meshes(plan)
    with without_context():
        found = [_program(plan, i, one) for i, one in enumerate(plan.rounds)]
    return tuple(None if program is None else program.compiled for program in found)


def _program(plan: Plan, number: int, one: Round) -> Program | None:
    """Return the program of a round, compiled once; `None` if its arrays move piece by piece."""
    if number in plan.programs:
        return plan.programs[number]
    plan.programs[number] = None
    moving = _in_program(plan, one)
    if moving and _may_compile(plan, one):
        leaves = [plan.leaves[i] for i in moving]
        program = compile_round(
            [jax.ShapeDtypeStruct(leaf.source.shape, leaf.dtype) for leaf in leaves],
            [_source_sharding(plan, leaf) for leaf in leaves],
            [sharding_of(leaf.target, plan.target.mesh) for leaf in leaves],
        )
        if _several_processes(plan) or _is_as_planned(plan, one, moving, program):
            plan.programs[number] = program
    return plan.programs[number]


def _in_program(plan: Plan, one: Round) -> list[int]:
    """Return the arrays of a round that a program of XLA moves: those that communicate.

    If devices belong to several processes, these are all.
    """
    every = _several_processes(plan)
    return [i for i in one.opened if every or len(plan.kinds[i].pieces.parts)]


def _may_compile(plan: Plan, one: Round) -> bool:
    """Return True if a program of XLA can run a round."""
    source, target = plan.devices.source, plan.devices.target
    return (
        source is not None
        and len(source) == len(target)
        and bool((source == target).all())
        and not plan.gone.any()
        and all(part == Part() for _, part in one.parts)
        and all(plan.leaves[i].source.shape == plan.leaves[i].target.shape for i in one.opened)
    )


def _is_as_planned(plan: Plan, one: Round, moving: Sequence[int], program: Program) -> bool:
    received = np.zeros(plan.devices.total)
    for i in moving:
        kind = plan.kinds[i]
        received += np.bincount(kind.pieces.receivers, kind.bytes, minlength=len(received))
    in_flight = float(one.in_flight.max(initial=0))
    limit = plan.memory if plan.memory is not None else max(_SMALL, _TEMPORARY * in_flight)
    return program.wire_bytes <= _TOLERANCE * received.max() and program.temporary <= limit


def _source_sharding(plan: Plan, leaf: Leaf) -> NamedSharding:
    assert plan.source is not None
    return sharding_of(leaf.source, plan.source.mesh)


def _several_processes(plan: Plan) -> bool:
    if plan.source is not None and spans_processes(plan.source.mesh):
        return True
    return spans_processes(plan.target.mesh)


# --- checks ---------------------------------------------------------------------------------------


def _check_meshes(plan: Plan) -> None:
    """Check that the plan can run.

    Raises:
      MeshError: a mesh has no devices, or a device belongs to another process and the pieces must
        be copied one by one.
      ArgumentError: elements are lost.
    """
    for what, side in (("from_layout", plan.source), ("to_layout", plan.target)):
        if side is not None and not side.concrete:
            raise MeshError(
                f"transfer: the mesh of {what}, {side.sizes}, is an AbstractMesh without devices."
                " It is enough for the figures. Pass meshes from jax.make_mesh to move arrays."
            )
    lost = [
        leaf.path for leaf, kind in zip(plan.leaves, plan.kinds, strict=True) if kind.pieces.lost
    ]
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise ArgumentError(
            f"transfer: no remaining device has all of {lost[0]}{more}. Restore the tree with"
            " nx.checkpoints.restore(path, types, axis_resources=..., mesh=...), or transfer a tree"
            " without these arrays."
        )
    if _several_processes(plan) and not all(_may_compile(plan, one) for one in plan.rounds):
        raise MeshError(
            "transfer: the meshes have devices of several processes, and differ in their devices or"
            " in the order of these, or memory= cuts an array. Save the tree with"
            " nx.checkpoints.save, and restore it on the other mesh with nx.checkpoints.restore."
        )


def _arrays(plan: Plan, tree: PyTree) -> list[Any]:
    """Return the stored data of a tree that matches the plan.

    Raises:
      ArgumentTypeError: the structure, a type or the order of axes differs, or a leaf is traced.
      MeshError: an array is not in the source layout.
    """
    values, structure = jax.tree.flatten(tree, is_leaf=is_named)
    if different := tree_differences(structure, plan.tree, ("the tree{}", "the plan{}")):
        raise ArgumentTypeError(
            f"transfer: {different} Make a plan for this tree with nx.transfer."
        )
    return [_data(plan, leaf, value) for leaf, value in zip(plan.leaves, values, strict=True)]


def _data(plan: Plan, leaf: Leaf, value: Any) -> Any:
    named = isinstance(value, NamedArray)
    data = stored_data(value) if named else value
    if isinstance(data, jax.core.Tracer):
        raise ArgumentTypeError(
            f"transfer: {leaf.path} is traced. Call the function outside of jax.jit, or use"
            " nx.shard for one mesh inside of it."
        )
    if not isinstance(data, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
        raise ArgumentTypeError(
            f"transfer: {leaf.path} is {format_value(value)}, of type {type(value).__name__}, not"
            " an array. Pass the arrays themselves."
        )
    if not isinstance(data, jax.Array):
        data = jnp.asarray(data, leaf.dtype)
    if data.is_deleted():
        raise ArgumentError(
            f"transfer: {leaf.path} was donated and is deleted. Use the tree that the first call"
            " returned, or leave out donate=True."
        )
    dims = value.dims if named else (None,) * data.ndim
    sizes = value.named_shape if named else {}
    shape = tuple(sizes.get(dim, n) for dim, n in zip(dims, data.shape, strict=True))
    if (dims, shape, data.dtype) != (leaf.dims, leaf.shape, leaf.dtype):
        is_permuted = dims != leaf.dims and set(dims) == set(leaf.dims)
        order = " Use nx.order_like(tree, types)." if is_permuted else ""
        raise ArgumentTypeError(
            f"transfer: {leaf.path} is {type_text(value)}, but the plan is for {leaf.text}."
            f"{order or ' Make a plan for this tree with nx.transfer.'}"
        )
    # XLA chooses the sharding of an empty array.
    if data.committed and leaf.nbytes and not _in_layout(plan, leaf, value, data):
        raise MeshError(
            f"transfer: {leaf.path} is not in the source layout: its sharding is {data.sharding},"
            f" and its data have the shape {data.shape}. Place it with nx.shard(tree,"
            " axis_resources, mesh), or plan with from_layout=None, the shardings of the arrays."
        )
    return data


def _in_layout(plan: Plan, leaf: Leaf, value: Any, data: jax.Array) -> bool:
    """Return True if an array has the blocks of the source layout."""
    padding = padding_of(value) if isinstance(value, NamedArray) else None
    if data.shape != leaf.source.shape or padding != leaf.source.padding:
        return False
    expected = leaf.source.sharding or _source_sharding(plan, leaf)
    if data.sharding == expected or data.sharding.is_equivalent_to(expected, data.ndim):
        return True
    # Shardings of different classes may have the same blocks.
    return bool(
        data.sharding.devices_indices_map(data.shape) == expected.devices_indices_map(data.shape)
    )


# --- the run --------------------------------------------------------------------------------------


def run(plan: Plan, tree: PyTree) -> PyTree:
    """Move a tree; see `namedax.insight.transfers.transfer.Transfer`."""
    _check_meshes(plan)
    running = _Run(plan, _arrays(plan, tree))
    with without_context():
        for number, one in enumerate(plan.rounds):
            running.round(number, one)
    return jax.tree.unflatten(plan.tree, running.results)


class _Run:
    """The state of a run: the old arrays, the moves that have begun, and the new arrays."""

    def __init__(self, plan: Plan, datas: list[Any]):
        self.plan, self.datas = plan, datas
        self.uses = Counter(id(data) for data in datas)
        self.moves: dict[int, Move] = {}
        self.results: list[Any] = [None] * len(datas)

    def round(self, number: int, one: Round) -> None:
        """Run one round."""
        program = _program(self.plan, number, one)
        in_program = _in_program(self.plan, one) if program is not None else []
        if program is not None:
            self._reshard(program, in_program)
        opened = []
        for i in one.opened:
            if i in in_program:
                continue
            if not self.datas[i].committed or not self.datas[i].size:
                self._place(i)
                continue
            self.moves[i] = self._move(i)
            opened.append(self.moves[i])
        parts = [(self.moves[i], part) for i, part in one.parts if i in self.moves]
        closed = [i for i in one.closed if i in self.moves]
        results = run_round(parts, opened, [self.moves.pop(i) for i in closed])
        for i, data in zip(closed, results, strict=True):
            self._finish(i, data, free=True)

    def _move(self, i: int) -> Move:
        plan, leaf = self.plan, self.plan.leaves[i]
        sharding = sharding_of(leaf.target, plan.target.mesh)
        alone = plan.donate and self.uses[id(self.datas[i])] == 1
        boxes, labels = plan.boxes[i], plan.devices.labels
        return Move(plan.kinds[i], self.datas[i], leaf.target.shape, sharding, boxes, labels, alone)

    def _place(self, i: int) -> None:
        """Place an array that JAX may put on any device, or that is empty."""
        plan, leaf, data = self.plan, self.plan.leaves[i], self.datas[i]
        if not data.size and not is_keys(data):
            data = jnp.zeros(leaf.shape, leaf.dtype)  # XLA may have split it in other blocks
        if leaf.target.padding is not None:
            side = plan.target
            stored = store(data, leaf.dims, side.assignment, side.mesh, "transfer")
            self._finish(i, stored_data(stored), free=False)
            return
        sharding = sharding_of(leaf.target, plan.target.mesh)
        self._finish(i, jax.device_put(data, sharding), free=False)

    def _reshard(self, program: Program, at: Sequence[int]) -> None:
        plan = self.plan
        leaves = [plan.leaves[i] for i in at]
        sources = [_source_sharding(plan, leaf) for leaf in leaves]
        given = [
            data if data.committed else jax.device_put(data, sharding)
            for data, sharding in zip((self.datas[i] for i in at), sources, strict=True)
        ]
        targets = [sharding_of(leaf.target, plan.target.mesh) for leaf in leaves]
        results = jax.block_until_ready(reshard(program, given, sources, targets))
        for i, data in zip(at, results, strict=True):
            self._finish(i, data, free=self.datas[i].committed)

    def _finish(self, i: int, data: jax.Array, free: bool) -> None:
        """Store a new array, and free the old one if it may be freed."""
        leaf, old = self.plan.leaves[i], self.datas[i]
        if not leaf.named:
            self.results[i] = data
        elif leaf.target.padding is not None:
            self.results[i] = make_padded(data, leaf.dims, leaf.target.padding)
        else:
            self.results[i] = make(data, leaf.dims)
        self.datas[i] = None
        self.uses[id(old)] -= 1
        if free and self.plan.donate and not self.uses[id(old)] and not old.is_deleted():
            old.delete()


# --- piece by piece -------------------------------------------------------------------------------


def without_context() -> Any:
    """Return a context without a mesh: operations on one device fail in that of another mesh."""
    return jax.set_mesh(Mesh(np.empty((), dtype=object), ()))


@functools.partial(jax.jit, static_argnums=2)
def _cut(block: jax.Array, start: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    return lax.dynamic_slice(block, tuple(start), sizes)


@functools.partial(jax.jit, donate_argnums=0)
def _paste(block: jax.Array, piece: jax.Array, start: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(block, piece, tuple(start))


@functools.partial(jax.jit, static_argnums=4, donate_argnums=0)
def _carry(
    block: jax.Array, old: jax.Array, start: jax.Array, to: jax.Array, sizes: tuple[int, ...]
) -> jax.Array:
    """Write a part of an old block into a new one on the same device."""
    piece = lax.dynamic_slice(old, tuple(start), sizes)
    return lax.dynamic_update_slice(block, piece, tuple(to))


@functools.partial(jax.jit, donate_argnums=0)
def _take(block: jax.Array) -> jax.Array:
    """Return an array in the same memory, which outlives the old one."""
    return block


def _alone(block: jax.Array, device: Any) -> jax.Array:
    """Return a block without a mesh; that of a mesh of one Explicit axis has it in its type."""
    sharding = SingleDeviceSharding(device)
    return jax.make_array_from_single_device_arrays(block.shape, sharding, [block])


class Move:
    """The move of one array.

    Args:
      kind: its pieces.
      data: the array.
      shape: the stored shape of the result.
      sharding: the sharding of the result.
      boxes: its blocks before and after.
      labels: the device of each number.
      donate: True if the array may be freed.
    """

    def __init__(
        self,
        kind: Kind,
        data: jax.Array,
        shape: tuple[int, ...],
        sharding: NamedSharding,
        boxes: tuple[Boxes, Boxes],
        labels: Sequence[Any],
        donate: bool,
    ):
        number = {device: i for i, device in enumerate(labels)}
        self.kind, self.labels, self.donate = kind, labels, donate
        self.shape, self.sharding, self.dtype = shape, sharding, data.dtype
        self.source, self.target = boxes
        self._row = [{d: i for i, d in enumerate(box.devices.tolist())} for box in boxes]
        self._old = {number[s.device]: _alone(s.data, s.device) for s in data.addressable_shards}
        self._new: dict[int, jax.Array] = {}
        self._impl = str(jax.random.key_impl(data)) if is_keys(data) else None
        self.data: jax.Array | None = data

    def open(self) -> list[jax.Array]:
        """Write what devices keep into their new blocks."""
        pieces = self.kind.pieces
        in_place = set(pieces.in_place.tolist())
        for device, part in zip(pieces.kept_by.tolist(), pieces.kept.tolist(), strict=True):
            low, high = pieces.low[part], pieces.high[part]
            at = self._row[1][device]
            if device in in_place:
                if not self.donate:
                    self._new[device] = jnp.copy(self._old[device])
                continue
            start = (low - self.source.low[self._row[0][device]]).astype(np.int32)
            sizes = tuple((high - low).tolist())
            if (low == self.target.low[at]).all() and (high == self.target.high[at]).all():
                self._new[device] = _cut(self._old[device], start, sizes)
                continue
            to = (low - self.target.low[at]).astype(np.int32)
            self._new[device] = _carry(self._block(device), self._old[device], start, to, sizes)
        return list(self._new.values())

    def _block(self, device: int) -> jax.Array:
        """Return the new block of a device; it begins with zeros, which are also its padding."""
        if device not in self._new:
            at = self._row[1][device]
            shape = tuple((self.target.high[at] - self.target.low[at]).tolist())
            self._new[device] = self._zeros(shape, self.labels[device])
        return self._new[device]

    def _zeros(self, shape: tuple[int, ...], device: Any) -> jax.Array:
        if self._impl is None:
            return jnp.zeros(shape, self.dtype, device=device)
        words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, self.dtype))
        zeros = jnp.zeros(words.shape, words.dtype, device=device)
        return jax.device_put(jax.random.wrap_key_data(zeros, impl=self._impl), device)

    def slices(self, part: Part) -> tuple[Slices, list[jax.Array], list[Any]]:
        """Cut the slices of one part; return them with the devices that receive them."""
        pieces, chosen = self.kind.pieces, self.kind.part(part)
        cuts, devices = [], []
        for i, low, high, cut in zip(*chosen, strict=True):
            sender, receiver = int(pieces.senders[i]), int(pieces.receivers[i])
            block = self._old[sender]
            if cut or not pieces.whole[i]:
                start = (low - self.source.low[self._row[0][sender]]).astype(np.int32)
                block = _cut(block, start, tuple((high - low).tolist()))
            cuts.append(block)
            devices.append(self.labels[receiver])
        return chosen, cuts, devices

    def receive(self, chosen: Slices, arrived: Iterable[jax.Array]) -> None:
        """Write the slices that have arrived into the new blocks."""
        pieces = self.kind.pieces
        for i, low, cut, piece in zip(chosen.pieces, chosen.low, chosen.cut, arrived, strict=True):
            receiver = int(pieces.receivers[i])
            if pieces.direct[i] and not cut:
                self._new[receiver] = piece
                continue
            start = (low - self.target.low[self._row[1][receiver]]).astype(np.int32)
            self._new[receiver] = _paste(self._block(receiver), piece, start)

    def close(self) -> jax.Array:
        """Return the array in the new layout."""
        if self.donate:
            for device in self.kind.pieces.in_place.tolist():
                self._new[device] = _take(self._old[device])
        blocks = [self._block(device) for device in self.target.devices.tolist()]
        result = jax.make_array_from_single_device_arrays(self.shape, self.sharding, blocks)
        self._old, self._new = {}, {}
        return result


def run_round(
    parts: Iterable[tuple[Move, Part]], opened: Iterable[Move], closed: Iterable[Move]
) -> list[jax.Array]:
    """Run one round, and return the arrays of `closed`.

    It returns when all data have arrived, so that the slices are freed before the next round.
    """
    for move in opened:
        move.open()
    chosen = [(move, *move.slices(part)) for move, part in parts]
    cuts = [cut for _, _, some, _ in chosen for cut in some]
    devices = [device for *_, some in chosen for device in some]
    arrived = jax.device_put(cuts, devices) if cuts else []
    begin = 0
    for move, slices, some, _ in chosen:
        move.receive(slices, arrived[begin : begin + len(some)])
        begin += len(some)
    del cuts, chosen
    jax.block_until_ready(arrived)
    results = [move.close() for move in closed]
    jax.block_until_ready(results)
    return results
