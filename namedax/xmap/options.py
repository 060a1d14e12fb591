"""The options of one `xmap`, as an immutable record that makes the key of compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal, Protocol

from namedax.core.axis_mappings import freeze
from namedax.core.names import Mesh
from namedax.core.records import Record
from namedax.ops.contraction.rings import Overlap
from namedax.resources.assignment import Assignment
from namedax.resources.two_level import SlowAxes

__all__ = ["Mapped", "Partitioning", "XmapOptions"]

Partitioning = Literal["manual", "global", "auto"]


class XmapOptions(Record):
    """The options of `xmap`, checked and parsed.

    Attributes:
      in_axes: the axis mappings of the arguments, or `None`.
      out_axes: the axis mappings of the results, or `None`.
      axis_sizes: sizes of names that no argument has.
      axis_resources: the mesh axes of each mapped name, major first.
      mesh: the mesh, or `None` for that of the context.
      donate_argnums: positions of the arguments whose memory may be reused.
      static_argnums: positions of the arguments that are compiled in.
      partitioning: `"manual"` if the body is traced on blocks, `"global"` if it is traced on global
        shapes and partitioned by namedax, `"auto"` if XLA partitions it.
      overlap: the default of `overlap` for contractions.
      left_out: the skipped passes.
      slow_axes: the mesh axes that cross a slow network, each with the smallest payload for two
        levels; `None` if the devices of the mesh show them.
      jit: True if the program is compiled.
    """

    in_axes: Any
    out_axes: Any
    axis_sizes: dict[Hashable, int]
    axis_resources: Assignment
    mesh: Mesh | None
    donate_argnums: tuple[int, ...]
    static_argnums: tuple[int, ...]
    partitioning: Partitioning
    overlap: Overlap
    left_out: frozenset[str]
    slow_axes: SlowAxes | None
    jit: bool

    def key(self) -> Hashable:
        """Return a hashable value that is equal for equal options."""
        mappings = freeze(self.in_axes, "in_axes"), freeze(self.out_axes, "out_axes")
        dicts = frozenset(self.axis_sizes.items()), frozenset(self.axis_resources.items())
        options = (
            self.donate_argnums,
            self.static_argnums,
            self.partitioning,
            self.overlap,
            self.left_out,
            self.slow_axes,
            self.jit,
        )
        return (*mappings, *dicts, self.mesh, *options)


class Mapped(Protocol):
    """A mapped function, and the state that all of its wrappers share."""

    _fun: Callable[..., Any]
    _name: str
    _options: XmapOptions
    _parameters: tuple[str, ...] | None
    _static_names: frozenset[str]
    _shared: Any
    _used: frozenset[str]
