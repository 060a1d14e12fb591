"""The judgment of one layout, by a trace of the program."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, AxisType

from namedax.core.records import Record
from namedax.insight.planning.candidates import Candidate, Settings, Variant
from namedax.insight.planning.meshes import Meshes
from namedax.insight.planning.program import Program
from namedax.insight.planning.whole import Whole
from namedax.machines import Times
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
        settings: Settings,
        options: Sequence[Options] = ({},),
        files: Mapping[str, str] | None = None,
    ) -> Candidate:
        """Trace the program under a layout, and return the best candidate.

        Args:
          axis_resources: the layout.
          mesh: the sizes of the mesh axes.
          settings: the other arguments of `nx.xmap`.
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
        variant = self.program.variant(dict(axis_resources), settings)
        with self.meshes.context():
            found = [
                self.judged_on(variant.replace(options=values, files=files), abstract)[0]
                for values in options
            ]
        return min(found, key=lambda one: (not one.fits, one.time))

    def judged_on(self, variant: Variant, mesh: AbstractMesh) -> tuple[Candidate, Times, Offers]:
        """Return the candidate of a variant, its times, and the offers of its calls."""
        machine, sizes = self.meshes.machine, dict(mesh.shape)
        with choosing(variant.options, variant.files) as offers:
            report = self.program.explained(variant, mesh)
        times = machine.time(report.steps, sizes)
        padded = self.program.padded(variant.axis_resources, mesh)
        one = Candidate.of(variant, sizes, report, machine, times, self.memory, padded)
        return one, times, offers
