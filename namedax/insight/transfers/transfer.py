"""The public function `transfer`, which plans the move of a tree, and its result.

`Transfer` has the figures of the plan (bytes, rounds, links and findings), prints them, and moves a
tree.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax
import numpy as np

from namedax.core.names import PyTree
from namedax.core.region import ambient
from namedax.core.text_tables import aligned, columns, seconds_text
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisResourceError,
    MeshError,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.hlo import size_text
from namedax.insight.analysis.page import enclosed, escaped, html_table
from namedax.insight.transfers.layouts import Devices, Layout, check_names, leaves_of, parse_layout
from namedax.insight.transfers.plans import Plan, plan_of
from namedax.insight.transfers.rounds import Kind, Part
from namedax.insight.transfers.running import programs, run
from namedax.insight.transfers.traffic import Load, axes_of
from namedax.machines import Machine
from namedax.machines.links import positive
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names

__all__ = ["transfer"]


@checks_signature
def transfer(
    types: PyTree,
    from_layout: Layout | None,
    to_layout: Layout,
    *,
    memory: float | None = None,
    machine: Machine | None = None,
    donate: bool = False,
    padded: bool = False,
    disjoint: bool = False,
    lost: Iterable[Any] = (),
) -> Transfer:
    """Plan the move of a tree of arrays from one layout to another, and return the function.

    The meshes may have different devices, sizes, shapes, axis names and axis types: from a trainer
    to a server, or to the devices that remain after a failure. Nothing is compiled or moved until
    the result is called, so both meshes may be abstract.

    A device receives only what it needs and does not have. The arrays move in rounds: the slices
    that a device sends in a round and the pieces that it receives stay within `memory`. Large
    arrays move in several rounds.

    If both meshes have the same devices in the same order, a round is one program of XLA, unless
    that program sends more than the plan. Otherwise each piece is copied from device to device.
    With several processes, only the first case is supported, and every process must make the call.

    Args:
      types: the tree: arrays, named or not, or their types (from `jax.eval_shape`). Arrays without
        named axes are replicated. Names that an array lacks are ignored, and so is a `SerialLoop`.
      from_layout: a pair of a mesh and `axis_resources`, or `None` for the shardings of the arrays
        in `types`.
      to_layout: a pair of a mesh and `axis_resources`.
      memory: the limit in bytes for the slices and received pieces on a device. Default: as much as
        the largest array has if it moves in one round.
      machine: a machine of `nx.machines`, for estimates of seconds. Default: `None`.
      donate: whether the arrays may be freed as they move, so that the tree is in memory about
        once. The old tree cannot be used afterwards. Default: False.
      padded: whether axes that do not divide are stored padded in both layouts, as in `nx.shard`.
        Default: False, such axes are replicated.
      disjoint: for abstract meshes, whether they have different devices. Default: False: devices
        are numbered by their position in each mesh, so the smaller mesh consists of the first
        devices of the larger one.
      lost: devices that no longer have their data, or their numbers if a mesh is abstract.
        `Transfer.missing` lists the arrays that cannot be moved. Default: none.

    Returns:
      A `Transfer`, which prints as a table. Call it with the tree to get the tree in the new
      layout.

    Raises:
      ArgumentTypeError: a layout is not a pair of a mesh and `axis_resources`, or a leaf is not an
        array.
      ArgumentError: `memory` is too small, or another argument is invalid.
      AxisNotFoundError: the tree is one array that lacks a name, or no array has a named axis.
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: a mesh lacks a mesh axis, or does not fit on the machine.
      PlacementConflictError: two names of one array are on one mesh axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> train = jax.make_mesh((4, 2), ("data", "model"))
    >>> serve = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    >>> w = nx.named(jnp.arange(48.0).reshape(8, 6), ["inputs", "hidden"])
    >>> w = nx.shard(w, {"inputs": "data", "hidden": "model"}, train)
    >>> move = nx.transfer(w, (train, {"inputs": "data", "hidden": "model"}),
    ...                    (serve, {"hidden": "x"}))
    >>> move.moved, move.kept
    (144, 48)
    >>> move(w).sharding.spec
    P(None, 'x')
    """
    if (surrounding := ambient()) is not None and surrounding.resources:
        raise AxisResourceError(
            "transfer: this function cannot be called inside a mapped function. Call it before or"
            " after the mapped function."
        )
    if memory is not None:
        positive("transfer", "memory", memory, "bytes")
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentTypeError(
            f"transfer: machine={format_value(machine)} is not a machine. Pass one of nx.machines,"
            " such as nx.machines.v5p."
        )
    source = None if from_layout is None else parse_layout(from_layout, "from_layout")
    target = parse_layout(to_layout, "to_layout")
    leaves, tree = leaves_of(types, source, target, padded)
    check_names(types, leaves, {"from_layout": source, "to_layout": target})
    for what, layout in (("from_layout", from_layout), ("to_layout", to_layout)):
        if layout is not None:
            dims = (dim for leaf in leaves for dim in leaf.dims)
            check_layout_names(f"transfer, {what}", layout[1], dims)
    if source is not None:
        devices = Devices.of_sides(source, target, disjoint)
    else:
        if not target.concrete:
            raise MeshError(
                "transfer: from_layout=None means the shardings of the arrays, but the mesh of"
                " to_layout is abstract. Pass a mesh with devices."
            )
        devices = Devices.of_shardings([leaf.source.sharding for leaf in leaves], target)
    gone = _numbers(lost, devices)
    plan = plan_of(leaves, tree, source, target, devices, gone, machine, memory, donate)
    return _result_of(plan, machine, padded)


def _numbers(lost: Iterable[Any], devices: Devices) -> np.ndarray:
    """Return by device whether its data are lost.

    Raises:
      ArgumentError: a lost device is in no layout.
    """
    number = {device: i for i, device in enumerate(devices.labels)}
    gone = np.zeros(devices.total, bool)
    for device in lost:
        if device not in number:
            raise ArgumentError(
                f"transfer: lost= has {format_value(device)}, which is in neither layout. Pass"
                " devices of the source mesh, or their numbers if a mesh is abstract."
            )
        gone[number[device]] = True
    return gone


# --- the figures of a plan ------------------------------------------------------------------------


_LARGE = 1 << 20  # smaller arrays have no findings


def _result_of(plan: Plan, machine: Machine | None, padded: bool) -> Transfer:
    """Return the result for a plan."""
    labels = plan.devices.labels
    pairs = _pairs(plan)
    senders, receivers, sizes = pairs
    axes: dict[tuple[str, ...], int] = {}
    if plan.source is not None and plan.devices.source is not None:
        axes = axes_of(plan.source.sizes, plan.devices.source, len(labels), pairs)
    steps, links = _steps(plan)
    moved = [int(kind.bytes.sum()) for kind in plan.kinds]
    kept = sum(
        int(kind.pieces.sizes[kind.pieces.kept].sum()) * kind.itemsize for kind in plan.kinds
    )
    pieces = zip(plan.leaves, plan.kinds, strict=True)
    missing = tuple(leaf.path for leaf, kind in pieces if kind.pieces.lost)
    seconds = None if machine is None else sum(step.seconds or 0.0 for step in steps)
    peak = max((step.peak for step in steps), default=0)
    return Transfer(
        source=None if plan.source is None else plan.source.sizes,
        target=plan.target.sizes,
        arrays=len(plan.leaves),
        size=sum(leaf.nbytes for leaf in plan.leaves),
        moved=sum(moved),
        kept=kept,
        steps=steps,
        links=links,
        mesh_axes=axes,
        peak=peak,
        memory=plan.memory,
        seconds=seconds,
        missing=missing,
        findings=tuple(_findings(plan, machine, padded, peak, missing)),
        _pairs={
            (labels[s], labels[r]): n
            for s, r, n in zip(senders.tolist(), receivers.tolist(), sizes.tolist(), strict=True)
        },
        _leaves={leaf.path: n for leaf, n in zip(plan.leaves, moved, strict=True)},
        _run=functools.partial(run, plan),
        _programs=functools.partial(programs, plan),
    )


def _by_kind(plan: Plan) -> list[tuple[Kind, int]]:
    """Return the kinds, each with the number of its arrays."""
    counts: dict[int, int] = {}
    for kind in plan.kinds:
        counts[id(kind)] = counts.get(id(kind), 0) + 1
    first = {id(kind): kind for kind in plan.kinds}
    return [(kind, counts[key]) for key, kind in first.items()]


def _pairs(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the senders, the receivers and the bytes of all pairs that communicate."""
    count = plan.devices.total
    keys, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for kind, arrays in _by_kind(plan):
        keys.append(kind.pieces.senders * count + kind.pieces.receivers)
        sizes.append(kind.bytes * arrays)
    found, at = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, at.reshape(-1), np.concatenate(sizes))
    return found // max(count, 1), found % max(count, 1), total


def _steps(plan: Plan) -> tuple[tuple[Step, ...], tuple[LinkTraffic, ...]]:
    """Return the rounds and the links, with their bytes and times."""
    count, wires = plan.devices.total, plan.wires
    known: dict[Hashable, list[Load]] = {}

    def loads(i: int, part: Part) -> list[Load]:
        kind = plan.kinds[i]
        key = (id(kind), part)
        if key not in known:
            chosen = kind.part(part)
            size = np.prod(chosen.high - chosen.low, axis=1, dtype=np.int64) * kind.itemsize
            senders, receivers, parts = (
                x[chosen.pieces]
                for x in (kind.pieces.senders, kind.pieces.receivers, kind.pieces.parts)
            )
            known[key] = wires.loads(senders, receivers, parts, size, count)
        return known[key]

    steps, totals, times = [], [], [0.0] * len(wires.all)
    for one in plan.rounds:
        each = [Load.sum(of) for of in zip(*(loads(i, p) for i, p in one.parts), strict=True)]
        seconds = [
            load.seconds(wire, wires.devices) for load, wire in zip(each, wires.all, strict=True)
        ]
        times = [total + (s or 0.0) for total, s in zip(times, seconds, strict=True)]
        totals.append(each)
        sent, received = sum(load.sent for load in each), sum(load.received for load in each)
        steps.append(
            Step(
                leaves=tuple(dict.fromkeys(plan.leaves[i].path for i, _ in one.parts)),
                bytes=int(np.sum(received)),
                most=int(max(np.max(sent, initial=0), np.max(received, initial=0))),
                in_flight=int(one.in_flight.max(initial=0)),
                peak=int(one.peak.max(initial=0)),
                seconds=None if None in seconds else max((s or 0.0 for s in seconds), default=0.0),
            )
        )
    links = []
    for number, wire in enumerate(wires.all):
        if not totals:
            break
        load = Load.sum([each[number] for each in totals])
        links.append(
            LinkTraffic(
                wire.name,
                int(load.sent.sum()),
                int(load.sent.max(initial=0)),
                int(load.received.max(initial=0)),
                None if wire.link is None else times[number],
            )
        )
    return tuple(steps), tuple(links)


# --- findings -------------------------------------------------------------------------------------


def _findings(
    plan: Plan, machine: Machine | None, padded: bool, peak: int, missing: Sequence[str]
) -> Iterator[str]:
    if missing:
        yield (
            f"{_some(missing)}: no remaining device has all of it. Restore what is lost with"
            " nx.checkpoints.restore, on the mesh of to_layout."
        )
    if machine is not None and peak > machine.memory:
        yield (
            f"The peak of {size_text(peak)} is more than the {size_text(machine.memory)} of"
            f" {machine.name}. Pass a smaller memory=, or donate=True."
        )
    if not any(len(kind.pieces.parts) for kind in plan.kinds):
        yield "Every device has what it needs, so nothing moves."
    yield from _repeated(plan)
    yield from _unused(plan)
    yield from _replicated(plan, padded)


def _repeated(plan: Plan) -> Iterator[str]:
    """Yield a sentence if most bytes are the same data for several devices of another mesh."""
    if plan.devices.source is None or not set(plan.devices.target).isdisjoint(plan.devices.source):
        return
    moved = once = 0
    for kind, arrays in _by_kind(plan):
        moved += int(kind.bytes.sum()) * arrays
        sent = np.unique(kind.pieces.parts)
        once += int(kind.pieces.sizes[sent].sum()) * kind.itemsize * arrays
    used = {axis for leaf in plan.leaves for axes in leaf.target.spec for axis in axes}
    free = [axis for axis, n in plan.target.sizes.items() if n > 1 and axis not in used]
    if free and 2 * moved >= 3 * once and moved - once >= _LARGE:
        yield (
            f"{size_text(once)} move to several devices each, {size_text(moved)} together. If the"
            " link between the meshes is slow, first move to a layout that also shards over"
            f" {show_names(free)}, and then to this one on the target mesh."
        )


def _unused(plan: Plan) -> Iterator[str]:
    have = {dim for leaf in plan.leaves for dim in leaf.dims}
    sides = {"from_layout": plan.source, "to_layout": plan.target}
    for what, side in sides.items():
        for name in side.assignment if side else {}:
            # An axis of activations is in no array. A name that is similar to another is a typo.
            meant = "" if name in have else did_you_mean(name, have - {None})
            if meant:
                yield f"No array has the axis {name!r} of {what}.{meant}"


def _replicated(plan: Plan, padded: bool) -> Iterator[str]:
    """Yield a sentence on arrays that are replicated on all devices of the target mesh."""
    blocks = math.prod(plan.target.sizes.values())
    if blocks == 1:
        return
    whole = [leaf for leaf in plan.leaves if not any(leaf.target.spec) and leaf.nbytes >= _LARGE]
    if whole:
        size = sum(leaf.nbytes for leaf in whole)
        yield (
            f"{_some([leaf.path for leaf in whole])}, {size_text(size)}, is replicated on all"
            f" {blocks} devices of the target mesh."
        )
    uneven: dict[Any, int] = {}
    for leaf in plan.leaves:
        for dim, n, axes in zip(leaf.dims, leaf.shape, leaf.target.spec, strict=True):
            if dim in plan.target.assignment and not axes and n:
                uneven[dim] = n
    if uneven and not padded:
        names = ", ".join(f"{name!r} of size {n}" for name, n in uneven.items())
        yield (
            f"Replicated because the size does not divide over the mesh axes: {names}. Pass"
            " padded=True to store them padded."
        )


def _some(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


# --- the result -----------------------------------------------------------------------------------


By: TypeAlias = Literal["leaf", "link", "mesh_axes", "pair", "receiver", "sender"]
_KEYS = ("leaf", "link", "mesh_axes", "pair", "receiver", "sender")
_ROWS = 8  # the most rows of a table in the text


@dataclasses.dataclass(frozen=True)
class Step:
    """One round of a transfer.

    Attributes:
      leaves: the paths of the arrays that move in it, or of which a part moves.
      bytes: the bytes that all devices receive together.
      most: the most bytes that one device sends or receives.
      in_flight: the most bytes of slices and received pieces on a device.
      peak: the most bytes on a device: blocks of both layouts, and the data in flight.
      seconds: the estimated time; `None` without a machine.
    """

    leaves: tuple[str, ...]
    bytes: int
    most: int
    in_flight: int
    peak: int
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class LinkTraffic:
    """The bytes over one kind of link.

    Attributes:
      name: the link: its kind, its bandwidth and its mesh axes. Without a machine, `"between
        devices"`, or `"within a process"` and `"between processes"`.
      bytes: the bytes that all devices send together.
      most_sent: the most bytes that one device sends.
      most_received: the most bytes that one device receives.
      seconds: the estimated time, over all rounds; `None` without a machine.
    """

    name: str
    bytes: int
    most_sent: int
    most_received: int
    seconds: float | None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Transfer:
    """A plan to move a tree of arrays to another layout, made by `nx.transfer`.

    It prints as a table. Call it with the tree: `new = move(tree)`.

    A device is identified by the device itself, or by its number if a mesh is abstract.

    Attributes:
      source: the sizes of the mesh axes before; `None` if the arrays have their own shardings.
      target: the sizes of the mesh axes after.
      arrays: the number of arrays.
      size: the bytes of the arrays, each counted once.
      moved: the bytes that devices receive together. It is the minimum: those that they need and
        do not have.
      kept: the bytes that devices need and have.
      steps: the rounds.
      links: the bytes over each kind of link.
      mesh_axes: the bytes by the axes of the source mesh along which sender and receiver differ;
        `("outside",)` for receivers outside of this mesh.
      peak: the most bytes on a device during the transfer.
      memory: the limit for the data in flight, in bytes; `None` if none was given.
      seconds: the estimated time; `None` without a machine.
      missing: with `lost=`, the paths of arrays of which no remaining device has some elements.
      findings: possible improvements, as sentences.
    """

    source: Mapping[str, int] | None
    target: Mapping[str, int]
    arrays: int
    size: int
    moved: int
    kept: int
    steps: tuple[Step, ...]
    links: tuple[LinkTraffic, ...]
    mesh_axes: Mapping[tuple[str, ...], int]
    peak: int
    memory: float | None
    seconds: float | None
    missing: tuple[str, ...]
    findings: tuple[str, ...]
    _pairs: Mapping[tuple[Any, Any], int]
    _leaves: Mapping[str, int]
    _run: Callable[[PyTree], PyTree]
    _programs: Callable[[], tuple[jax.stages.Compiled | None, ...]]

    @property
    def bytes(self) -> dict[tuple[Any, Any], int]:
        """The bytes by sending and receiving device."""
        return dict(self._pairs)

    def by(self, key: By) -> dict[Hashable, int]:
        """Return the bytes moved, by a key, the largest first.

        Args:
          key: `"leaf"` (the path of an array), `"link"`, `"mesh_axes"`, `"pair"` (sending and
            receiving device), `"sender"` or `"receiver"`.

        Raises:
          ArgumentError: the key is another one.
        """
        found: dict[Hashable, int] = {}
        if key == "leaf":
            found.update(self._leaves)
        elif key == "link":
            found.update({link.name: link.bytes for link in self.links})
        elif key == "mesh_axes":
            found.update(self.mesh_axes.items())
        elif key == "pair":
            found.update(self._pairs)
        elif key in ("sender", "receiver"):
            for pair, size in self._pairs.items():
                device = pair[key == "receiver"]
                found[device] = found.get(device, 0) + size
        else:
            raise ArgumentError(
                f"Transfer.by: {key!r} is not a key. Choose from"
                f" {', '.join(map(repr, _KEYS))}.{did_you_mean(key, _KEYS)}"
            )
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def programs(self) -> tuple[jax.stages.Compiled | None, ...]:
        """Compile the programs of XLA by which rounds run.

        Returns:
          For each round, the compiled program, or `None` if its arrays move piece by piece.
        """
        return self._programs()

    def __call__(self, tree: PyTree) -> PyTree:
        """Move a tree to the new layout.

        Args:
          tree: a tree with the types of the plan, in the source layout.

        Returns:
          The same values in the target layout, sharded as by `nx.shard`.

        Raises:
          ArgumentTypeError: the tree has another structure or other types, or is traced.
          MeshError: a mesh has no devices, or an array is not in the source layout.
          ArgumentError: elements are lost.
        """
        return self._run(tree)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a dict for JSON; devices are text."""
        return {
            "source": None if self.source is None else dict(self.source),
            "target": dict(self.target),
            "arrays": self.arrays,
            "size": self.size,
            "moved": self.moved,
            "kept": self.kept,
            "peak": self.peak,
            "memory": self.memory,
            "seconds": self.seconds,
            "steps": [dataclasses.asdict(step) for step in self.steps],
            "links": [dataclasses.asdict(link) for link in self.links],
            "mesh_axes": {",".join(axes): size for axes, size in self.mesh_axes.items()},
            "bytes": [[str(a), str(b), size] for (a, b), size in self._pairs.items()],
            "leaves": dict(self._leaves),
            "missing": list(self.missing),
            "findings": list(self.findings),
        }

    def __str__(self) -> str:
        lines = textwrap.wrap(_title(self), columns())
        for head, rows in _tables(self):
            left = {0, 2} if head[0] == "total" else {0}
            lines += ["", *aligned([head, *rows[:_ROWS]], left, indent="  ")]
            if len(rows) > _ROWS:
                lines.append(f"… and {len(rows) - _ROWS} more")
        for finding in self.findings:
            lines += [
                "",
                textwrap.fill(finding, columns(), initial_indent="- ", subsequent_indent="  "),
            ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escaped(_title(self))}</b></p>"]
        for head, rows in _tables(self):
            parts.append(html_table([head, *rows], {0, 2} if head[0] == "total" else {0}))
        items = "".join(f"<li>{escaped(finding)}</li>" for finding in self.findings)
        return enclosed([*parts, f"<ul>{items}</ul>" if items else ""])


Rows: TypeAlias = list[tuple[str, ...]]
Table: TypeAlias = tuple[tuple[str, ...], Rows]


def _mesh(sizes: Mapping[str, int] | None) -> str:
    if sizes is None:
        return "their shardings"
    count = math.prod(sizes.values())
    axes = ", ".join(f"{axis}={n}" for axis, n in sizes.items())
    return f"{axes} ({count} device{'s' * (count != 1)})"


def _title(move: Transfer) -> str:
    return (
        f"Transfer of {move.arrays} array{'s' * (move.arrays != 1)}, {size_text(move.size)}, from"
        f" {_mesh(move.source)} to {_mesh(move.target)}"
    )


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else seconds_text(seconds)


def _tables(move: Transfer) -> list[Table]:
    """Return the tables of a transfer, each as a head and rows."""
    sent, received = move.by("sender"), move.by("receiver")
    most = max([*sent.values(), *received.values()], default=0)
    in_flight = max((step.in_flight for step in move.steps), default=0)
    totals: Rows = [
        ("moved", size_text(move.moved), f"at most {size_text(most)} by one device"),
        ("kept", size_text(move.kept), "needed and already there"),
        ("peak", size_text(move.peak), f"per device, {size_text(in_flight)} of it in flight"),
    ]
    if move.seconds is not None:
        totals.append(("time", _seconds(move.seconds), "estimated"))
    tables: list[Table] = [(("total", "", ""), totals)]
    links: Rows = [
        (
            link.name,
            size_text(link.bytes),
            size_text(link.most_sent),
            size_text(link.most_received),
            _seconds(link.seconds),
        )
        for link in move.links
        if link.bytes
    ]
    if links:
        tables.append((("link", "bytes", "most sent", "most received", "time"), links))
    axes: Rows = [("+".join(axes), size_text(size)) for axes, size in move.mesh_axes.items()]
    if axes:
        tables.append((("mesh axes", "bytes"), axes))
    steps: Rows = [
        (
            f"{i}: {step.leaves[0] if len(step.leaves) == 1 else f'{len(step.leaves)} arrays'}",
            size_text(step.bytes),
            size_text(step.in_flight),
            size_text(step.peak),
            _seconds(step.seconds),
        )
        for i, step in enumerate(move.steps)
    ]
    tables.append((("round", "bytes", "in flight", "peak", "time"), steps))
    return tables
