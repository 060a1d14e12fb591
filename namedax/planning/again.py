"""Judging one more layout after a search, by another trace."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from jax.sharding import AbstractMesh, AxisType

from namedax.core.records import Record
from namedax.ops.contraction.rings import Overlap
from namedax.planning.candidates import Candidate
from namedax.planning.meshes import Meshes
from namedax.planning.program import Program

__all__ = ["Again"]


class Again(Record):
    """A program and its meshes: what is needed to judge other layouts.

    It has the types of the arguments, and not their values.

    Attributes:
      program: the program.
      meshes: its meshes.
      memory: the memory limit of a device, in bytes.
    """

    program: Program
    meshes: Meshes
    memory: float

    def judged(
        self, axis_resources: Mapping[Hashable, Any], mesh: Mapping[str, int], overlap: Overlap
    ) -> Candidate:
        """Trace the program under a layout, and return the candidate.

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
        with self.meshes.context():
            report = self.program.explained(resources, abstract, overlap)
        times = machine.time(report.steps, mesh)
        return Candidate.of(resources, mesh, overlap, report, machine, times, self.memory)
