"""Type aliases of names, shapes and placements; those of arrays are in `annotations`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import jax
import jax.typing

__all__ = ["AxisName", "DType", "Dims", "Mesh", "MeshAxes", "PyTree", "Shape"]

#: An axis name: any hashable value except integers, `None` and `...`.
AxisName: TypeAlias = Hashable
#: The axis of each dimension of an array: a name, or `None` for a positional axis.
Dims: TypeAlias = tuple[Hashable | None, ...]
#: A dtype, or anything that JAX accepts as one.
DType: TypeAlias = jax.typing.DTypeLike
#: A mesh, with or without devices.
Mesh: TypeAlias = jax.sharding.Mesh | jax.sharding.AbstractMesh
#: Names of mesh axes, the major one first.
MeshAxes: TypeAlias = tuple[str, ...]
#: A tree of containers that JAX knows, whose leaves are arrays or other values.
PyTree: TypeAlias = Any
#: The sizes of positional axes; an integer stands for one axis.
Shape: TypeAlias = int | Sequence[int]
