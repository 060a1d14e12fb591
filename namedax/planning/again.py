"""Judging one more layout after a search, by another trace."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, AxisType

from namedax.core.records import Record
from namedax.operands.open_options import Options, choosing
from namedax.ops.contraction.rings import Overlap
from namedax.planning.candidates import Candidate
from namedax.planning.meshes import Meshes
from namedax.planning.options import judged_with
from namedax.planning.program import Program
from namedax.planning.whole import Whole

__all__ = ["Again"]


class Again(Record):
    """A program and its meshes: what is needed to judge other layouts.

    It has the types of the arguments, and not their values.

    Attributes:
      program: the program.
      meshes: its meshes.
      memory: the memory limit of a device, in bytes.
    """

    program: Program | Whole
    meshes: Meshes
    memory: float

    def judged(
        self,
        axis_resources: Mapping[Hashable, Any],
        mesh: Mapping[str, int],
        overlap: Overlap,
        options: Sequence[Options] = ({},),
        files: Mapping[str, str] | None = None,
    ) -> Candidate:
        """Trace the program under a layout, and return the best candidate.

        Args:
          axis_resources: the layout.
          mesh: the sizes of the mesh axes.
          overlap: the value of `overlap` for `nx.xmap`.
          options: values of the options that the program leaves open, each of which is judged.
            Default: default values only.
          files: paths by the text that stands for them in `options`. Default: unknown.

        Raises:
          NamedaxError: the program does not allow this layout, or the mesh does not fit on the
            machine. `NotImplementedError`, `TypeError` and `ValueError` are possible too.
        """
        given = self.meshes.given
        abstract = None if given is None else self.meshes.abstract(())
        if abstract is None or dict(abstract.shape) != dict(mesh):
            kinds = (AxisType.Auto,) * len(mesh)
            abstract = AbstractMesh(tuple(mesh.values()), tuple(mesh), axis_types=kinds)
        resources, machine = dict(axis_resources), self.meshes.machine
        padded = self.program.padded(resources, abstract)
        layouts = self.program.layouts(resources) if isinstance(self.program, Whole) else {}
        found = []
        for values in options:
            with self.meshes.context(), choosing(values, files):
                report = self.program.explained(resources, abstract, overlap)
            times = machine.time(report.steps, mesh)
            one = Candidate.of(resources, mesh, overlap, report, machine, times, self.memory)
            found.append(judged_with(one, values, padded, layouts))
        return min(found, key=lambda one: (not one.fits, one.time))
