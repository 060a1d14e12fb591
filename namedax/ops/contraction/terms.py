"""The records of a contraction: its description, its dtypes and placements, and its terms.

Every dimension of every operand has a label: an axis name, or an integer for a positional axis.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray
from namedax.core.element_types import accumulation_type, common_type, to_type, widened_type
from namedax.core.names import Dims, DType, Label, Labels, MeshAxes
from namedax.core.region import Region
from namedax.core.variance import cast, varying
from namedax.ops.contraction.rings import Overlap
from namedax.ops.shape.rename import read
from namedax.resources import communication as comm
from namedax.resources.layout import Layout
from namedax.resources.wire import Wire

__all__ = ["Contraction", "Plan", "Term", "Types", "chain", "dot_dimensions", "lone_labels"]


class Contraction(NamedTuple):
    """The description of one contraction.

    Attributes:
      op: the operation, for messages.
      dims: the dims of every operand.
      labels: the labels of the dimensions of every operand.
      kept: the labels of the result, before `writes` renames them.
      letters: the positional labels of the result, in order.
      writes: the new name of each axis that the result renames.
      precision: the precision of `dot_general`.
      dtype: the dtype to accumulate in and to return, or `None`.
      overlap: overlaps the transfer of blocks around a ring with computation; by default (`None`)
        the setting of the region.
      wire: the number formats of gathers and reduce-scatters; by default the dtype of the data.
        There are no rings then.
    """

    op: str
    dims: tuple[Dims, ...]
    labels: tuple[Labels, ...]
    kept: frozenset[Label]
    letters: tuple[int, ...]
    writes: Mapping[Label, Label]
    precision: lax.PrecisionLike
    dtype: DType | None
    overlap: Overlap | None = None
    wire: Wire | None = None


@functools.lru_cache(maxsize=4096)
def lone_labels(labels: tuple[Labels, ...], kept: frozenset[Label]) -> tuple[frozenset[Label], ...]:
    """Return the labels of each operand that no other operand and not the result has."""
    return tuple(
        [
            frozenset(own) - kept - frozenset(chain(labels[:i] + labels[i + 1 :]))
            for i, own in enumerate(labels)
        ]
    )


@functools.lru_cache(maxsize=4096)
def dot_dimensions(
    a: Labels, b: Labels, needed: frozenset[Label]
) -> tuple[lax.DotDimensionNumbers, Labels, Labels]:
    """Return dimension numbers of `dot_general`, labels of its result, and summed labels."""
    both = [label for label in a if label in b]
    batch = [label for label in both if label in needed]
    summed = [label for label in both if label not in needed]
    free = [label for label in a + b if label not in both]
    contract = tuple(map(a.index, summed)), tuple(map(b.index, summed))
    batched = tuple(map(a.index, batch)), tuple(map(b.index, batch))
    return (contract, batched), tuple(batch + free), tuple(summed)


#: Iterates over the elements of all parts.
chain = itertools.chain.from_iterable


# --- dtypes ---------------------------------------------------------------------------------------

# For arrays of one of these dtypes, none of them weak, the common dtype is that dtype under every
# configuration.
_FLOATS = frozenset(map(jnp.dtype, ("bfloat16", "float16", "float32", "complex64")))


class Types(NamedTuple):
    """The dtypes of a contraction.

    Attributes:
      common: the dtype of the operands. As in `jnp.einsum`, all are converted to it before the
        first product. It is wide enough for sums.
      is_weak: True if the result is weakly typed.
      result: the dtype of the result.
      preferred: the `preferred_element_type` of products, or `None`.
      accumulate: the dtype of sums and elementwise products.
    """

    common: np.dtype
    is_weak: bool
    result: np.dtype
    preferred: np.dtype | None
    accumulate: np.dtype

    @classmethod
    def of(cls, op: str, dtype: DType | None, datas: Sequence[jax.Array]) -> Types:
        """Return the dtypes for operands and the argument `preferred_element_type`."""
        common, is_weak = datas[0].dtype, False
        if common not in _FLOATS or {(x.dtype, x.weak_type) for x in datas} != {(common, False)}:
            common = jnp.result_type(*datas)
            is_weak = all(x.weak_type or _kind(x.dtype) < _kind(common) for x in datas)
        elif dtype is None:
            return cls(common, False, common, None, common)
        preferred = None if dtype is None else jnp.dtype(dtype)
        # The sums of narrow types run in a wider type; the result is rounded once.
        result = common if preferred is None else preferred
        common = widened_type(op, common)
        if accumulation_type(result) != result:
            preferred = None
        if preferred is not None and common_type(common, preferred) == preferred:
            return cls(common, is_weak, result, preferred, preferred)
        return cls(common, is_weak, result, preferred, common)

    def alike(self, *datas: jax.Array) -> list[jax.Array]:
        """Convert operands to their common dtype."""
        datas = tuple(to_type(data, accumulation_type(data.dtype)) for data in datas)
        dtype = common_type(self.common, *datas)
        return [
            data if data.dtype == dtype else lax.convert_element_type(data, dtype) for data in datas
        ]


def _kind(dtype: DType) -> int:
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return [jnp.issubdtype(dtype, kind) for kind in kinds].index(True)


# --- terms ----------------------------------------------------------------------------------------


class Term(NamedTuple):
    """An operand, or the contraction of several.

    Attributes:
      source: the data. It is the original named array until an operation changes it, because that
        array caches its casts and reshardings.
      labels: one per dimension.
      places: the current sharding of every dimension; reading the term changes it to the sharding
        of its label.
      pending: the mesh axes over which the data has still to be summed.
      no_ring: the reason why a requested ring is not used; it appears in programs, and so in
        reports.
    """

    source: AnyArray
    labels: Labels
    places: Layout
    pending: MeshAxes
    no_ring: str

    @property
    def data(self) -> jax.Array:
        """Return the data without names."""
        return self.source._data if isinstance(self.source, NamedArray) else self.source

    def with_data(self, data: AnyArray, labels: Labels, places: Layout) -> Term:
        """Replace the data."""
        return Term(data, labels, places, self.pending, self.no_ring)

    def without(self, dims: Iterable[int], data: jax.Array) -> Term:
        """Replace the data by `data`, which lacks the dimensions `dims`."""
        gone = set(dims)
        kept = [i for i in range(len(self.labels)) if i not in gone]
        labels = tuple(self.labels[i] for i in kept)
        return self.with_data(data, labels, tuple(self.places[i] for i in kept))

    def without_repeats(self) -> Term:
        """Take the diagonal over every letter or name that appears twice."""
        term = self
        for label in dict.fromkeys(self.labels):
            while term.labels.count(label) > 1:
                term = term._diagonal(label)
        return term

    def _diagonal(self, label: Label) -> Term:
        """Take the diagonal over the first two dimensions with this label.

        The result has the sharding of the first of the two axes that is sharded, and the other axis
        is sliced to that block. If both are sharded, the second is gathered first.
        """
        first = self.labels.index(label)
        second = self.labels.index(label, first + 1)
        if not self.places[first]:
            first, second = second, first
        data, place = self.data, self.places[first]
        if self.places[second]:  # complete, without padding
            data = comm.all_gather(data, second, self.places[second], "invarying")
        if place:
            data = comm.cut(data, second, place)
        data = jnp.diagonal(data, axis1=first, axis2=second)
        rest = self.without((first, second), data)
        return self.with_data(data, (*rest.labels, label), (*rest.places, place))

    def in_order(self, labels: Iterable[Label]) -> Term:
        """Transpose the data to the order of `labels`, which may contain others."""
        order = [self.labels.index(label) for label in labels if label in self.labels]
        data = self.source if order == sorted(order) else lax.transpose(self.data, order)
        places = tuple(self.places[i] for i in order)
        return self.with_data(data, tuple(self.labels[i] for i in order), places)


# --- placement ------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """The dtypes and placements of a contraction in a region.

    Attributes:
      given: the contraction.
      region: the ambient region, or `None`.
      types: the dtypes.
      places: the sharding of every sharded label.
      may_conflict: False if no two labels are sharded over one mesh axis.
      postponed: the mesh axes over which a sum waits to become a reduce-scatter of the result.
      overlap: the setting of rings; `False` if there are none.
    """

    given: Contraction
    region: Region | None
    types: Types
    places: Mapping[Label, MeshAxes]
    may_conflict: bool
    postponed: frozenset[str]
    overlap: Overlap

    def place(self, label: Label) -> MeshAxes:
        """Return the sharding of a label, which is empty for a positional label."""
        return self.places.get(label, ())

    def layout(self, labels: Labels) -> Layout:
        """Return the sharding of every label."""
        return tuple([self.places.get(label, ()) for label in labels])

    def written(self, label: Label) -> Label:
        """Return the label with which the result is written."""
        return self.given.writes.get(label, label)

    def blocks(self, axes: MeshAxes) -> int:
        """Return the number of blocks of an axis that is sharded over mesh axes."""
        return 1 if self.region is None else self.region.mesh_axis_size(axes)

    def check_placement(self, labels: Iterable[Label | None]) -> None:
        """Raise if two axes of one value are sharded over the same mesh axis."""
        if self.region is not None:
            self.region.check_placement(self.given.op, labels)

    def reduce(self, data: jax.Array, mesh_axes: MeshAxes) -> tuple[jax.Array, MeshAxes]:
        """Sum over mesh axes, and return those for which the sum waits."""
        if not mesh_axes:
            return data, ()
        if data.dtype == jnp.bool_:  # booleans have no sum
            return comm.pmax(data, mesh_axes), ()
        now = tuple([axis for axis in mesh_axes if axis not in self.postponed])
        waiting = tuple([axis for axis in mesh_axes if axis in self.postponed])
        return comm.psum(data, now) if now else data, waiting

    def variance(self, *terms: Term) -> frozenset[str]:
        """Return the mesh axes over which one of the terms varies after it is read."""
        axes: set[str] = set()
        for term in terms:
            axes |= varying(term.data) - frozenset(chain(term.places))
            axes.update(chain(self.layout(term.labels)))
        return frozenset(axes)

    def read(self, term: Term, variance: frozenset[str], goal: Layout | None = None) -> jax.Array:
        """Reshard the data of a term to the sharding of its labels, or to `goal`.

        The result is cast to varying over `variance`.
        """
        if goal is None:
            goal = self.layout(term.labels)
        if goal == term.places:
            return cast(term.source, variance)
        return read(term.source, term.places, goal, variance, self.given.wire)

    def sizes(self, term: Term) -> list[int]:
        """Return the local size of every dimension of a term after it is read."""
        sizes = zip(term.data.shape, term.places, self.layout(term.labels), strict=True)
        return [n * self.blocks(old) // self.blocks(new) for n, old, new in sizes]
