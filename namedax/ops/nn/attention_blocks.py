"""Attention on the blocks of one device, and around the ring of all devices.

The docstring of `attention` describes the communication.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.element_types import common_type
from namedax.core.names import DType, MeshAxes, PyTree
from namedax.core.variance import cast_data
from namedax.ops.nn.attention_labels import (
    FEATURES,
    KEY,
    QUERY,
    Label,
    Labels,
    Role,
    broadcast,
    einsum,
    expand,
    sum_to,
)
from namedax.resources import communication as comm

__all__ = [
    "Arrays",
    "BlockAttention",
    "Number",
    "Origin",
    "Results",
    "Saved",
    "State",
    "finite_rows",
]


Arrays = dict[str, jax.Array]
#: A number that may be known during tracing.
Number = jax.Array | np.int32
#: The positions of the first query and of the first key of a block.
Origin = tuple[Number, Number]
#: The largest score and the sum of exponentials of each row, and the result so far.
State = tuple[jax.Array, jax.Array, jax.Array]
#: The floating-point operands, the others, the result and the normalizer of each row.
Saved = tuple[Arrays, Arrays, jax.Array, jax.Array]
#: The result, and the normalizer of each row if it is wanted.
Results = tuple[jax.Array, ...]
S = TypeVar("S")


# --- blocks ---------------------------------------------------------------------------------------


@jax.custom_jvp
def _softmax(scores: jax.Array) -> jax.Array:
    """Compute the softmax over the last axis.

    Rows in which all scores are minus infinity are zeros. XLA fuses everything before the division
    into one loop, as it does without empty rows. The maximum starts at the least finite number, so
    that no later selection is needed. The divisor is at least one, because the largest score
    contributes one.
    """
    least = np.asarray(jnp.finfo(scores.dtype).min, scores.dtype)
    last = scores.ndim - 1
    terms = lax.exp(
        lax.sub(scores, lax.expand_dims(lax.reduce(scores, least, lax.max, (last,)), (last,)))
    )
    return lax.div(terms, lax.max(_row_sum(terms), terms.dtype.type(1)))


def _row_sum(data: jax.Array) -> jax.Array:
    return lax.expand_dims(lax.reduce_sum(data, (data.ndim - 1,)), (data.ndim - 1,))


@_softmax.defjvp
def _softmax_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    result = _softmax(*primals)
    product = lax.mul(result, tangents[0])
    return result, lax.sub(product, lax.mul(result, _row_sum(product)))


def _terms(scores: jax.Array, largest: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the exponentials relative to the largest score of each row, and their sum.

    The third result is the largest score, made finite. The largest score cancels in every quotient,
    so it is a constant in derivatives.
    """
    finite = finite_rows(lax.stop_gradient(largest))
    terms = lax.exp(lax.sub(scores, _column(finite)))
    return terms, lax.reduce_sum(terms, (terms.ndim - 1,)), finite


def _column(rows: jax.Array) -> jax.Array:
    """Expand numbers per row to a shape that broadcasts to the scores."""
    return lax.expand_dims(rows, (rows.ndim,))


def _like_result(rows: jax.Array, result: jax.Array) -> jax.Array:
    """Broadcast numbers per row of scores to the shape of the result."""
    return lax.broadcast_in_dim(rows, result.shape, range(rows.ndim))


def finite_rows(largest: jax.Array) -> jax.Array:
    """Replace minus infinity in the largest scores, for rows without scores, by zero."""
    return lax.select(
        lax.eq(largest, _number(-np.inf, largest)), lax.full_like(largest, 0), largest
    )


def _not_zero(total: jax.Array) -> jax.Array:
    return lax.select(lax.eq(total, _number(0, total)), lax.full_like(total, 1), total)


def _number(value: float, like: jax.Array) -> np.ndarray:
    return np.asarray(value, like.dtype)


def _largest(scores: jax.Array) -> jax.Array:
    """Return the largest score of each row, as a constant; minus infinity without scores."""
    return lax.reduce_max(lax.stop_gradient(scores), (scores.ndim - 1,))


def _both(a: jax.Array, b: jax.Array) -> jax.Array:
    return lax.bitwise_and(a, b) if a.shape == b.shape else jnp.logical_and(a, b)


def _position(number: int | jax.Array) -> Number:
    return (
        np.int32(number) if isinstance(number, int) else lax.convert_element_type(number, np.int32)
    )


def _reach(window: tuple[int, int]) -> tuple[np.int32, np.int32]:
    """Return the reach of a query to both sides, limited so that sums fit in 32 bits."""
    left, right = (np.int32(min(reach, 1 << 30)) for reach in window)
    return left, right


@dataclasses.dataclass(slots=True)
class BlockAttention:
    """A plan for one attention on blocks.

    Attributes:
      labels: the labels of the dimensions of every operand.
      shapes: the shape of every operand.
      carried: labels that only the value has.
      query_place: the mesh axes of the query positions.
      key_place: the mesh axes of the key positions.
      feature_axes: the mesh axes of the features.
      carried_axes: the mesh axes of `carried`.
      variance: the mesh axes over which the scores vary. Query and key also vary over
        `feature_axes`, and the value over `carried_axes`.
      moving: the bias or mask with the same key positions as the key.
      whole: the bias or mask with all key positions, although the key is sharded.
      scale: the factor of the scores.
      is_causal: if `True`, keys after a query are masked.
      window: the reach of a query to the left and to the right.
      soft_cap: the limit of scores before bias and masks.
      dtype: the dtype of query, key, value and the result.
      queries: the number of query positions, if the last blocks have padding.
      keys: the number of key positions, if the last blocks have padding, which is masked.
      value_in_key: the label and the range of the values among the features of the key, if they are
        a part of it. Then the ring moves only the key.
      residual: if `True`, the logarithm of the sum of each row is a second result.
    """

    labels: dict[str, Labels]
    shapes: dict[str, tuple[int, ...]]
    carried: Labels
    query_place: MeshAxes
    key_place: MeshAxes
    feature_axes: MeshAxes
    carried_axes: MeshAxes
    variance: frozenset[str]
    moving: frozenset[str]
    whole: frozenset[str]
    scale: float
    is_causal: bool
    window: tuple[int, int] | None
    soft_cap: float | None
    dtype: DType
    queries: int | None = None
    keys: int | None = None
    value_in_key: tuple[Label, int, int] | None = None
    residual: bool = False
    ring: MeshAxes = ()
    rest: MeshAxes = ()
    steps: int = 1
    batch: Labels = ()
    sizes: dict[Label, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ring = tuple(axis for axis in self.key_place if axis in self.query_place)
        self.rest = tuple(axis for axis in self.key_place if axis not in self.query_place)
        self.steps = math.prod(map(lax.axis_size, self.ring))
        for which, labels in self.labels.items():
            for label, n in zip(labels, self.shapes[which], strict=True):
                if not (label is KEY and which in self.whole):
                    self.sizes[label] = n
        self.batch = tuple(
            dict.fromkeys(
                label
                for which, labels in self.labels.items()
                for label in labels
                if label not in (QUERY, KEY, FEATURES, *self.carried)
            )
        )

    @property
    def wide(self) -> DType:
        """Return the dtype of scores and sums."""
        return common_type(self.dtype, jnp.float32)

    @property
    def scores(self) -> Labels:
        """Return the labels of the scores."""
        return (*self.batch, QUERY, KEY)

    @property
    def rows(self) -> Labels:
        """Return the labels of numbers per row of scores."""
        return (*self.batch, QUERY)

    @property
    def result(self) -> Labels:
        """Return the labels of the result."""
        return (*self.batch, QUERY, *self.carried)

    def run(self, arrays: Arrays) -> Results:
        """Compute attention on the blocks of this device, with the labels `result` and `rows`."""
        if self.steps == 1:
            return self._directly(arrays)
        if self.value_in_key is not None:
            arrays = {which: data for which, data in arrays.items() if which != "value"}
        floats = {
            which: data for which, data in arrays.items() if jnp.issubdtype(data.dtype, jnp.inexact)
        }
        others = {which: data for which, data in arrays.items() if which not in floats}

        @jax.custom_vjp
        def attend(floats: Arrays, others: Arrays) -> Results:
            return self._around(floats, others)[0]

        def forward(floats: Arrays, others: Arrays) -> tuple[Results, Saved]:
            return self._around(floats, others)

        def backward(saved: Saved, cotangents: Results) -> tuple[Arrays, None]:
            return self._around_backwards(saved, cotangents), None

        attend.defvjp(forward, backward)
        return attend(floats, others)

    def _around(self, floats: Arrays, others: Arrays) -> tuple[Results, Saved]:
        """Return the results, and the values that the backward pass needs."""
        result, normalizer = self._ring(floats | others)
        results = (result, normalizer) if self.residual else (result,)
        return results, (floats, others, result, finite_rows(normalizer))

    def _around_backwards(self, saved: Saved, cotangents: Results) -> Arrays:
        """Compute the gradients of floating-point operands."""
        floats, others, result, normalizer = saved
        mean, cotangent = self._mean(result, cotangents)
        return self._ring_backwards(floats | others, tuple(floats), mean, normalizer, cotangent)

    # --- scores of one block ----------------------------------------------------------------------

    def _key_offset(self, step: int | jax.Array) -> Number:
        """Return the position of the first key in this device's block after `step` ring steps."""
        if not self.key_place:
            return np.int32(0)
        if not self.ring:
            return lax.mul(_position(comm.block_index(self.key_place)), np.int32(self.sizes[KEY]))
        source: Number = lax.sub(_position(comm.block_index(self.ring)), _position(step))
        source = lax.rem(lax.add(source, np.int32(self.steps)), np.int32(self.steps))
        if self.rest:
            source = self._among_all(source)
        return lax.mul(source, np.int32(self.sizes[KEY]))

    def _among_all(self, source: Number) -> Number:
        """Convert the number of a block in the ring to its number among the blocks of all keys."""
        coordinates: dict[str, Number] = {
            axis: _position(comm.block_index((axis,))) for axis in self.rest
        }
        for axis in reversed(self.ring):
            size = np.int32(lax.axis_size(axis))
            coordinates[axis], source = lax.rem(source, size), lax.div(source, size)
        index: Number = np.int32(0)
        for axis in self.key_place:
            index = lax.add(lax.mul(index, np.int32(lax.axis_size(axis))), coordinates[axis])
        return index

    def _query_offset(self) -> Number:
        if not self.query_place:
            return np.int32(0)
        return lax.mul(_position(comm.block_index(self.query_place)), np.int32(self.sizes[QUERY]))

    def _origin(self, step: int | jax.Array) -> Origin:
        return self._query_offset(), self._key_offset(step)

    def _positions(self, first: Number, label: Role, shape: tuple[int, int]) -> jax.Array:
        """Return the positions from `first` on, along the axis of queries or of keys."""
        positions = lax.broadcasted_iota(np.int32, shape, 0 if label is QUERY else 1)
        if isinstance(first, jax.Array):
            positions = lax.add(positions, first)
        if label is QUERY and self.queries is not None:  # padding repeats the last position
            positions = lax.min(positions, np.int32(self.queries - 1))
        return positions

    def _allowed(self, arrays: Arrays, origin: Origin) -> jax.Array | None:
        """Return a mask of the keys that each query may attend to, or `None` for all keys.

        It broadcasts to the scores.
        """
        shape, (first_query, first_key) = (self.sizes[QUERY], self.sizes[KEY]), origin
        conditions = []

        def of_scores(which: str) -> jax.Array:
            data = self._of_keys(which, arrays, first_key)
            return expand(data, self.labels[which], self.scores)

        if self.keys is not None or self.is_causal or self.window is not None:
            queries = self._positions(first_query, QUERY, shape)
            keys = self._positions(first_key, KEY, shape)
            if self.keys is not None:
                conditions.append(lax.lt(keys, np.int32(self.keys)))
            if self.is_causal:
                conditions.append(lax.le(keys, queries))
            if self.window is not None:
                left, right = _reach(self.window)
                conditions += [
                    lax.le(queries, lax.add(keys, left)),
                    lax.ge(queries, lax.sub(keys, right)),
                ]
        for which, label, first in (
            ("query_lengths", QUERY, first_query),
            ("key_lengths", KEY, first_key),
        ):
            if which in arrays:
                one = (self.sizes[QUERY], 1) if label is QUERY else (1, self.sizes[KEY])
                conditions.append(self._positions(first, label, one) < of_scores(which))
        if "key_segments" in arrays:
            mine, theirs = map(of_scores, ("query_segments", "key_segments"))
            conditions.append((mine == theirs) & (theirs >= 0))
        if "mask" in arrays:
            conditions.append(of_scores("mask"))
        return functools.reduce(_both, conditions) if conditions else None

    def _of_keys(self, which: str, arrays: Arrays, first_key: Number) -> jax.Array:
        """Return the bias or mask for the block of keys that begins at `first_key`."""
        if which not in self.whole:
            return arrays[which]
        dim = self.labels[which].index(KEY)
        return lax.dynamic_slice_in_dim(arrays[which], first_key, self.sizes[KEY], dim)

    def _scores(self, arrays: Arrays, origin: Origin) -> jax.Array:
        """Compute the scores of one block in full size, with minus infinity for masked keys."""
        return self._scores_and_slope(arrays, origin)[0]

    def _scores_and_slope(
        self, arrays: Arrays, origin: Origin
    ) -> tuple[jax.Array, jax.Array | None]:
        """Compute the scores of one block, and their derivative by the scores without a cap.

        The derivative is `None` if there is no cap.
        """
        query, key = self.labels["query"], self.labels["key"]
        labels = tuple(label for label in self.scores if label in query or label in key)
        scores = einsum(arrays["query"], query, arrays["key"], key, labels, self.wide)
        if self.feature_axes:
            scores = comm.psum(scores, self.feature_axes)
        scores = expand(lax.mul(scores, np.asarray(self.scale, self.wide)), labels, self.scores)
        slope = None
        if self.soft_cap is not None:
            share = lax.tanh(lax.div(scores, _number(self.soft_cap, scores)))
            scores = lax.mul(share, _number(self.soft_cap, share))
            slope = lax.sub(_number(1, share), lax.mul(share, share))
        if "bias" in arrays:
            bias = self._of_keys("bias", arrays, origin[1])
            scores = scores + expand(bias, self.labels["bias"], self.scores).astype(self.wide)
        allowed = self._allowed(arrays, origin)
        shape = tuple(self.sizes[label] for label in self.scores)
        scores = broadcast(scores, shape)
        if allowed is not None:
            scores = lax.select(broadcast(allowed, shape), scores, lax.full_like(scores, -np.inf))
        return scores, slope

    def _value(self, arrays: Arrays) -> jax.Array:
        """Return the block of the value, which may be a part of the block of the key."""
        return arrays["value"] if "value" in arrays else self._part_of_key(arrays["key"])

    def _part_of_key(self, key: jax.Array) -> jax.Array:
        assert self.value_in_key is not None
        label, start, stop = self.value_in_key
        part = lax.slice_in_dim(key, start, stop, axis=self.labels["key"].index(FEATURES))
        labels = [label if each is FEATURES else each for each in self.labels["key"]]
        return lax.transpose(part, [labels.index(each) for each in self.labels["value"]])

    def _of_moving(self, of_key: jax.Array, of_value: jax.Array, arrays: Arrays) -> Arrays:
        """Return the gradients of key and value, or of the key of which the value is a part."""
        if "value" in arrays:
            return {"key": of_key, "value": of_value}
        (back,) = jax.linear_transpose(self._part_of_key, of_key)(of_value)
        return {"key": lax.add(of_key, back)}

    def _weigh(self, weights: jax.Array, value: jax.Array) -> jax.Array:
        """Compute the weighted sum of values."""
        weights, labels = weights.astype(self.dtype), self.labels["value"]
        return einsum(weights, self.scores, value, labels, self.result, self.wide)

    # --- keys that are not moved ------------------------------------------------------------------

    @property
    def sums_all(self) -> bool:
        """Return True if all features of the keys are summed, and the result is sliced.

        A part of the key that is an operand of a contraction is copied. For one query per row of a
        cache, the sum of all features is smaller than this copy.
        """
        if self.value_in_key is None or self.steps > 1:
            return False
        count, part = self.sizes[FEATURES], self.value_in_key[2] - self.value_in_key[1]
        results, keys = (
            math.prod(self.sizes[label] for label in labels if label is not FEATURES)
            for labels in (self.rows, self.labels["key"])
        )
        return part < count <= 2 * part and results * count <= keys * part

    def _weigh_here(self, weights: jax.Array, arrays: Arrays) -> jax.Array:
        """Compute the weighted sum of values, or of all features of the keys of this device."""
        if not self.sums_all:
            return self._weigh(weights, self._value(arrays))
        assert self.value_in_key is not None
        label, start, stop = self.value_in_key
        labels = tuple(label if each is FEATURES else each for each in self.labels["key"])
        weights = weights.astype(self.dtype)
        result = einsum(weights, self.scores, arrays["key"], labels, self.result, self.wide)
        if not self.rest:
            return result  # sliced in another order of dimensions, for which XLA needs no copy
        return lax.slice_in_dim(result, start, stop, axis=self.result.index(label))

    def _directly(self, arrays: Arrays) -> Results:
        scores = self._scores(arrays, self._origin(0))
        if not self.rest and not self.residual and "sinks" not in arrays:
            return (self._weigh_here(_softmax(scores), arrays).astype(self.dtype),)
        largest = _largest(scores)
        if self.rest:
            # Every device has different keys: combine the largest scores, then the sums relative to
            # them.
            largest = comm.pmax(largest, self.rest)
        terms, total, _ = _terms(scores, largest)
        result = self._weigh_here(terms, arrays)
        if self.rest:
            result, total = self._psum_both(result, total)
        found = self._normalize((largest, total, result), arrays)
        return found if self.residual else found[:1]

    def _normalize(self, state: State, arrays: Arrays) -> tuple[jax.Array, jax.Array]:
        """Add the sinks to the sums, and divide by these.

        The second result is the logarithm of the sum of exponentials of each row, minus infinity if
        it has none.
        """
        largest, total, result = state
        if "sinks" in arrays:
            sinks = self._sinks(arrays, total)
            largest, before = lax.max(largest, lax.stop_gradient(sinks)), largest
            finite = finite_rows(largest)
            shrink = lax.exp(lax.sub(before, finite))
            total = lax.add(lax.mul(total, shrink), lax.exp(lax.sub(sinks, finite)))
            result = lax.mul(result, _like_result(shrink, result))
        is_empty = lax.eq(total, _number(0, total))
        total = _not_zero(total)
        normalizer = lax.add(finite_rows(largest), lax.log(total))
        normalizer = lax.select(is_empty, lax.full_like(normalizer, -np.inf), normalizer)
        return lax.div(result, _like_result(total, result)).astype(self.dtype), normalizer

    def _sinks(self, arrays: Arrays, rows: jax.Array) -> jax.Array:
        """Return the sink of each row."""
        sinks = expand(arrays["sinks"].astype(self.wide), self.labels["sinks"], self.rows)
        return broadcast(sinks, rows.shape)

    def _psum_both(self, result: jax.Array, total: jax.Array) -> tuple[jax.Array, jax.Array]:
        return comm.psum(result, self.rest), comm.psum(total, self.rest)

    # --- the ring ---------------------------------------------------------------------------------

    def _split(self, arrays: Arrays) -> tuple[Arrays, Arrays]:
        """Split the arrays into arrays that go around the ring and arrays that remain."""
        moving = {w: a for w, a in arrays.items() if w in ("key", "value", *self.moving)}
        return moving, {w: a for w, a in arrays.items() if w not in moving}

    def _pass_on(self, tree: PyTree) -> PyTree:
        pairs = [(i, (i + 1) % self.steps) for i in range(self.steps)]
        return jax.tree.map(lambda data: comm.ppermute(data, self.ring, pairs), tree)

    def _unless_masked(
        self, arrays: Arrays, origin: Origin, compute: Callable[[S], S], state: S
    ) -> S:
        """Return `compute(state)`, or `state` if the complete block is masked.

        Causality, the window or the segments can mask it.
        """
        if self.feature_axes or self.carried_axes:
            # No device may skip a block: the others would wait in a collective.
            return compute(state)
        conditions = self._may_attend(arrays, origin)
        if not conditions:
            return compute(state)
        return lax.cond(
            functools.reduce(lax.bitwise_and, conditions), compute, lambda state: state, state
        )

    def _may_attend(self, arrays: Arrays, origin: Origin) -> list[jax.Array]:
        """Return conditions that hold if a query of the block may attend to a key of it."""
        conditions = []
        if self.is_causal:
            last_query = lax.add(origin[0], np.int32(self.sizes[QUERY] - 1))
            conditions.append(lax.le(origin[1], last_query))
        return conditions + self._are_near(arrays, origin)

    def _are_near(self, arrays: Arrays, origin: Origin) -> list[jax.Array]:
        """Return the conditions of `_may_attend` for the window and the segments."""
        (first_query, first_key), conditions = origin, []
        if self.window is not None:
            left, right = _reach(self.window)
            last_query = lax.add(first_query, np.int32(self.sizes[QUERY] - 1))
            last_key = lax.add(first_key, np.int32(self.sizes[KEY] - 1))
            conditions += [
                lax.le(first_query, lax.add(last_key, left)),
                lax.ge(last_query, lax.sub(first_key, right)),
            ]
        if "key_segments" in arrays:
            mine, theirs = arrays["query_segments"], arrays["key_segments"]
            first = jnp.min(theirs, where=theirs >= 0, initial=jnp.iinfo(theirs.dtype).max)
            conditions += [jnp.max(mine) >= first, jnp.min(mine) <= jnp.max(theirs)]
        return conditions

    def _full(self, labels: Iterable[Label], more: MeshAxes = (), fill: float = 0.0) -> jax.Array:
        data = lax.full([self.sizes[label] for label in labels], fill, self.wide)
        return cast_data(data, self.variance | frozenset(more))

    def _start(self, arrays: Arrays) -> State:
        """Return the state before the first step."""
        return (
            self._full(self.rows, fill=-np.inf),
            self._full(self.rows),
            self._full(self.result, self.carried_axes),
        )

    def _visit(self, state: State, arrays: Arrays, step: int | jax.Array) -> State:
        """Attend to the keys of one ring step."""
        origin = self._origin(step)
        compute = functools.partial(self._attend_to_block, arrays, origin)
        return self._unless_masked(arrays, origin, compute, state)

    def _attend_to_block(self, arrays: Arrays, origin: Origin, state: State) -> State:
        largest, total, result = state
        scores = self._scores(arrays, origin)
        new = lax.max(largest, _largest(scores))
        terms, here, finite = _terms(scores, new)
        shrink = lax.exp(lax.sub(largest, finite))
        result = lax.add(
            lax.mul(result, _like_result(shrink, result)), self._weigh(terms, self._value(arrays))
        )
        return lax.stop_gradient(new), lax.add(lax.mul(total, shrink), here), result

    def _ring(self, arrays: Arrays) -> tuple[jax.Array, jax.Array]:
        """Return the result, and the logarithm of the sum of exponentials of each row."""
        moving, staying = self._split(arrays)

        def step(
            carry: tuple[Arrays, State], number: int | jax.Array
        ) -> tuple[tuple[Arrays, State], None]:
            moving, state = carry
            return (
                self._pass_on(moving),
                self._visit(state, moving | staying, number),
            ), None  # sent during the computation

        state = self._start(arrays)
        (moving, state), _ = lax.scan(step, (moving, state), lax.iota(np.int32, self.steps - 1))
        largest, total, result = self._visit(state, moving | staying, self.steps - 1)
        if self.rest:
            largest, before = comm.pmax(largest, self.rest), largest
            shrink = lax.exp(lax.sub(before, finite_rows(largest)))
            result, total = self._psum_both(
                lax.mul(result, _like_result(shrink, result)), lax.mul(total, shrink)
            )
        return self._normalize((largest, total, result), arrays)

    def _mean(self, result: jax.Array, cotangents: Results) -> tuple[jax.Array, jax.Array]:
        """Return the weighted mean of the weights' cotangents of each row, and the cotangent.

        A cotangent of the normalizer is subtracted from the mean: the derivatives of the normalizer
        by the scores are the weights.
        """
        own = self.variance.difference(self.rest)
        cotangent = cast_data(cotangents[0], own | frozenset(self.carried_axes))
        product = lax.mul(cotangent.astype(self.wide), result.astype(self.wide))
        mean = lax.reduce_sum(product, tuple(range(product.ndim - len(self.carried), product.ndim)))
        if self.carried_axes:
            mean = comm.psum(mean, self.carried_axes)
        if self.residual:
            mean = lax.sub(mean, cast_data(cotangents[1], own))
        return mean, cotangent

    def _visit_backwards(
        self, of_staying: Arrays, arrays: Arrays, wanted: tuple[str, ...], step: int | jax.Array
    ) -> tuple[Arrays, Arrays]:
        """Return the gradients of staying arrays, and what this device adds for the block."""
        origin, nothing = self._origin(step), self._zeros_like(self._split(arrays)[0], wanted)
        compute = functools.partial(self._gradients_of_block, arrays, origin)
        return self._unless_masked(arrays, origin, compute, (of_staying, nothing))

    def _gradients_of_block(
        self, arrays: Arrays, origin: Origin, state: tuple[Arrays, Arrays]
    ) -> tuple[Arrays, Arrays]:
        before, here = state[0], arrays
        labels, scores, wide = self.labels, self.scores, self.wide
        cotangent = here["cotangent"]
        found, slope = self._scores_and_slope(here, origin)
        weights = lax.exp(lax.sub(found, here["normalizer"]))
        narrow, value = weights.astype(self.dtype), labels["value"]
        of_value = einsum(narrow, scores, cotangent, self.result, value, wide)
        of_weights = einsum(cotangent, self.result, self._value(here), value, scores, wide)
        if self.carried_axes:
            of_weights = comm.psum(of_weights, self.carried_axes)
        of_scores = lax.mul(weights, lax.sub(of_weights, here["mean"]))
        scaled = lax.mul(of_scores, np.asarray(self.scale, self.wide))
        if slope is not None:
            scaled = lax.mul(scaled, broadcast(slope, scaled.shape))
        scaled = scaled.astype(self.dtype)
        query, key = labels["query"], labels["key"]
        of_query = einsum(scaled, scores, here["key"], key, query, wide)
        of_key = einsum(scaled, scores, here["query"], query, key, wide)
        of_staying = {"query": lax.add(before["query"], of_query)}
        added = self._of_moving(of_key, of_value, here)
        if "bias" in here:
            of_bias = sum_to(of_scores, scores, labels["bias"])
            if "bias" in self.moving:
                added["bias"] = of_bias
            elif "bias" in self.whole:
                of_staying["bias"] = self._put_bias(before["bias"], of_bias, origin[1])
            else:
                of_staying["bias"] = before["bias"] + of_bias
        return of_staying, added

    def _put_bias(self, before: jax.Array, of_bias: jax.Array, first_key: Number) -> jax.Array:
        """Put the gradient of one block into that of a bias with all keys.

        Every block is visited once.
        """
        dim = self.labels["bias"].index(KEY)
        return lax.dynamic_update_slice_in_dim(before, of_bias, first_key, dim)

    def _ring_backwards(
        self,
        arrays: Arrays,
        wanted: tuple[str, ...],
        mean: jax.Array,
        normalizer: jax.Array,
        cotangent: jax.Array,
    ) -> Arrays:
        """Compute the gradients of `wanted`.

        The gradients of moving arrays follow them by one step, and return to their device.
        """
        found: Arrays = {}
        if "sinks" in wanted:
            share = lax.exp(lax.sub(self._sinks(arrays, normalizer), normalizer))
            of_rows = lax.neg(lax.mul(share, mean))
            found["sinks"] = sum_to(of_rows, self.rows, self.labels["sinks"])
            wanted = tuple(which for which in wanted if which != "sinks")
        moving, staying = self._split(arrays)
        mean, normalizer = (_column(cast_data(rows, self.variance)) for rows in (mean, normalizer))
        cotangent = cast_data(cotangent, self.variance | frozenset(self.carried_axes))
        rows = {"mean": mean, "normalizer": normalizer, "cotangent": cotangent}

        def visit(
            of_staying: Arrays, moving: Arrays, number: int | jax.Array
        ) -> tuple[Arrays, Arrays]:
            return self._visit_backwards(of_staying, moving | staying | rows, wanted, number)

        def step(
            carry: tuple[Arrays, Arrays, Arrays], number: int | jax.Array
        ) -> tuple[tuple[Arrays, Arrays, Arrays], None]:
            moving, of_staying, of_moving = carry
            next_moving = self._pass_on(moving)
            of_staying, added = visit(of_staying, moving, number)
            of_moving = self._pass_on(jax.tree.map(lax.add, of_moving, added))
            return (next_moving, of_staying, of_moving), None

        of_staying = self._zeros_like(staying, wanted)
        next_moving = self._pass_on(moving)
        of_staying, added_first = visit(of_staying, moving, 0)
        carry = (next_moving, of_staying, self._zeros_like(moving, wanted))
        carry, _ = lax.scan(step, carry, lax.add(lax.iota(np.int32, self.steps - 2), np.int32(1)))
        moving, of_staying, of_moving = carry
        of_staying, added = visit(of_staying, moving, self.steps - 1)
        of_moving = self._pass_on(jax.tree.map(lax.add, of_moving, added))
        found |= of_staying | jax.tree.map(lax.add, of_moving, added_first)
        return {which: data.astype(arrays[which].dtype) for which, data in found.items()}

    def _zeros_like(self, arrays: Arrays, wanted: Iterable[str]) -> Arrays:
        return {
            which: lax.full_like(data, 0, self.wide)
            for which, data in arrays.items()
            if which in wanted
        }
