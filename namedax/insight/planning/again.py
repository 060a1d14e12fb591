"""The judgment of one layout, by a trace of the program."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, AxisType

from namedax.core.records import Record
from namedax.insight.planning.called_functions import Layouts
from namedax.insight.planning.candidates import Candidate
from namedax.insight.planning.meshes import Meshes
from namedax.insight.planning.options import judged_with
from namedax.insight.planning.program import Program
from namedax.insight.planning.whole import Whole
from namedax.machines import Times
from namedax.ops.contraction.rings import Overlap
from namedax.ops.operands.open_options import Offers, Options, choosing

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
        with self.meshes.context():
            found = [
                self.judged_on(axis_resources, abstract, overlap, values, files)[0]
                for values in options
            ]
        return min(found, key=lambda one: (not one.fits, one.time))

    def judged_on(
        self,
        axis_resources: Mapping[Hashable, Any],
        mesh: AbstractMesh,
        overlap: Overlap,
        options: Options,
        files: Mapping[str, str] | None = None,
        layouts: Layouts | None = None,
    ) -> tuple[Candidate, Times, Offers]:
        """Return the candidate of a layout with options, its times, and the offers of its calls.

        Args:
          axis_resources: the layout; empty for several layouts.
          mesh: the mesh.
          overlap: the value of `overlap` for `nx.xmap`.
          options: values of the options that the program leaves open.
          files: as in `judged`. Default: unknown.
          layouts: a layout for each mapped function of the program. Default: the same for all.
        """
        program, machine, resources = self.program, self.meshes.machine, dict(axis_resources)
        layouts = program.layouts(resources) if layouts is None else layouts
        with choosing(options, files) as offers:
            if isinstance(program, Whole):
                report = program.explained_each(layouts, mesh, overlap)
            else:
                report = program.explained(resources, mesh, overlap)
        sizes = dict(mesh.shape)
        times = machine.time(report.steps, sizes)
        one = Candidate.of(resources, sizes, overlap, report, machine, times, self.memory)
        padded = program.padded(resources, mesh)
        return judged_with(one, options, padded, layouts), times, offers
