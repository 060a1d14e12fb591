"""`Transfer`, the result of `nx.transfer`: its figures, and the function that moves a tree."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, TypeAlias

import jax

from namedax.core.names import PyTree
from namedax.core.text_tables import aligned, columns, seconds_text
from namedax.errors import ArgumentError, did_you_mean
from namedax.hlo import size_text
from namedax.insight.analysis.page import enclosed, escaped, html_table

__all__ = ["LinkTraffic", "Step", "Transfer"]

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
