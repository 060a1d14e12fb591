"""Attention on the blocks of one device, and around the ring of all (`attention` says what is sent)."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.element_types import common_type
from namedax.core.variance import cast_alike, cast_data
from namedax.resources import communication as comm

__all__ = ["FEATURES", "GROUP", "KEY", "KEY_HEADS", "QUERY", "Arrays", "Axes", "BlockAttention", "Label", "Labels", "Role"]


class Role(enum.Enum):
    """Labels of dimensions that have a part in attention; all others are labelled by name, positional ones from the right."""

    QUERY = "query positions"
    KEY = "key positions"
    FEATURES = "features"
    KEY_HEADS = "key heads"
    GROUP = "query heads of one key head"


Label = Hashable
Labels = tuple[Label, ...]
Axes = tuple[str, ...]
Arrays = dict[str, Any]

QUERY, KEY, FEATURES, KEY_HEADS, GROUP = Role


# --- blocks ---------------------------------------------------------------------------------------------------------


def _letter(label: Label, known: dict[Label, str]) -> str:
    return known.setdefault(label, chr(ord("a") + len(known)) if len(known) < 26 else chr(ord("A") + len(known) - 26))


def _einsum(a: Any, a_labels: Labels, b: Any, b_labels: Labels, out: Labels, dtype: Any) -> Any:
    """The contraction of two blocks to the labels `out`, accumulated in `dtype`."""
    known: dict[Label, str] = {}
    left, right, result = ("".join(_letter(label, known) for label in labels) for labels in (a_labels, b_labels, out))
    return jnp.einsum(f"{left},{right}->{result}", *cast_alike([a, b]), preferred_element_type=dtype)


def _expand(data: Any, labels: Labels, to: Labels) -> Any:
    """`data` with the dimensions `to`, of size 1 where it lacks one."""
    order = sorted(range(len(labels)), key=lambda i: to.index(labels[i]))
    data = lax.transpose(data, order)
    return lax.expand_dims(data, [i for i, label in enumerate(to) if label not in labels])


@jax.custom_jvp
def _softmax(scores: Any) -> Any:
    """Softmax over the last axis; zeros where all scores of a row are minus infinity.

    XLA turns all that comes before the division into one loop, as it does without rows that are empty: the maximum begins at the least
    finite number, so that it need not be chosen afterwards, and a sum of at least one, which the largest score contributes, divides.
    """
    least = np.asarray(jnp.finfo(scores.dtype).min, scores.dtype)
    last = scores.ndim - 1
    terms = lax.exp(lax.sub(scores, lax.expand_dims(lax.reduce(scores, least, lax.max, (last,)), (last,))))
    return lax.div(terms, lax.max(_row_sum(terms), terms.dtype.type(1)))


def _row_sum(data: Any) -> Any:
    return lax.expand_dims(lax.reduce_sum(data, (data.ndim - 1,)), (data.ndim - 1,))


@_softmax.defjvp
def _softmax_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    result = _softmax(*primals)
    product = lax.mul(result, tangents[0])
    return result, lax.sub(product, lax.mul(result, _row_sum(product)))


def _terms(scores: Any, largest: Any) -> tuple[Any, Any, Any]:
    """The exponentials relative to the largest score of each row, their sum, and the largest score (a finite number).

    The largest score cancels in every quotient, so it counts as a constant in derivatives.
    """
    largest = lax.stop_gradient(largest)
    finite = jnp.where(largest == -jnp.inf, 0, largest)
    terms = jnp.exp(scores - finite[..., None])
    return terms, jnp.sum(terms, -1), finite


def _not_zero(total: Any) -> Any:
    return jnp.where(total == 0, 1, total)


@dataclasses.dataclass(slots=True)
class BlockAttention:
    """One attention on blocks.

    Attributes:
      labels: of the dimensions of every operand.
      shapes: of every operand.
      carried: labels that only the value has.
      query_place: the mesh axes of the query positions.
      key_place: the mesh axes of the key positions.
      feature_axes: the mesh axes of the features.
      carried_axes: the mesh axes of `carried`.
      variance: the mesh axes over which the scores vary. Query and key vary over `feature_axes` too, and the value over
        `carried_axes`.
      moving: which of bias and mask hold the same key positions as the key.
      whole: which of them hold all, though the key does not.
      scale: what the scores are multiplied by.
      is_causal: whether keys behind a query are masked.
      window: how far a query sees to the left and to the right.
      dtype: of query, key, value and the result.
      queries: how many query positions there are, if the last blocks have padding.
      keys: how many key positions there are, likewise: no query sees padding.
    """

    labels: dict[str, Labels]
    shapes: dict[str, tuple[int, ...]]
    carried: Labels
    query_place: Axes
    key_place: Axes
    feature_axes: Axes
    carried_axes: Axes
    variance: frozenset[str]
    moving: frozenset[str]
    whole: frozenset[str]
    scale: float
    is_causal: bool
    window: tuple[int, int] | None
    dtype: Any
    queries: int | None = None
    keys: int | None = None
    ring: Axes = ()
    rest: Axes = ()
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
    def wide(self) -> Any:
        """The type of scores and sums."""
        return common_type(self.dtype, jnp.float32)

    @property
    def scores(self) -> Labels:
        """The labels of the scores."""
        return (*self.batch, QUERY, KEY)

    @property
    def result(self) -> Labels:
        """The labels of the result."""
        return (*self.batch, QUERY, *self.carried)

    def run(self, arrays: Arrays) -> Any:
        """Attention on the blocks of this device. The result has the labels `result`."""
        if self.steps == 1:
            return self._directly(arrays)
        floats = {which: data for which, data in arrays.items() if jnp.issubdtype(data.dtype, jnp.inexact)}
        others = {which: data for which, data in arrays.items() if which not in floats}

        @jax.custom_vjp
        def attend(floats: Arrays, others: Arrays) -> Any:
            return self._ring(floats | others)[0]

        def forward(floats: Arrays, others: Arrays) -> tuple[Any, Any]:
            result, normaliser = self._ring(floats | others)
            return result, (floats, others, result, normaliser)

        def backward(saved: Any, cotangent: Any) -> tuple[Arrays, None]:
            floats, others, result, normaliser = saved
            return self._ring_backwards(floats | others, tuple(floats), result, normaliser, cotangent), None

        attend.defvjp(forward, backward)
        return attend(floats, others)

    # --- scores of one block ---

    def _key_offset(self, step: Any) -> Any:
        """The position of the first key of the block that this device has after `step` steps of the ring."""
        if not self.key_place:
            return 0
        source: Any = (comm.block_index(self.ring) - step) % self.steps if self.ring else 0
        coordinates: dict[str, Any] = {axis: comm.block_index((axis,)) for axis in self.rest}
        for axis in reversed(self.ring):
            coordinates[axis] = source % lax.axis_size(axis)
            source = source // lax.axis_size(axis)
        index: Any = 0
        for axis in self.key_place:
            index = index * lax.axis_size(axis) + coordinates[axis]
        return index * self.sizes[KEY]

    def _query_offset(self) -> Any:
        return comm.block_index(self.query_place) * self.sizes[QUERY] if self.query_place else 0

    def _allowed(self, arrays: Arrays, first_key: Any) -> Any:
        """Where a query may attend to a key, of a shape that broadcasts to the scores; `None` if everywhere."""
        queries = (self._query_offset() + jnp.arange(self.sizes[QUERY]))[:, None]
        if self.queries is not None:  # padding repeats the last one
            queries = jnp.minimum(queries, self.queries - 1)
        keys = (first_key + jnp.arange(self.sizes[KEY]))[None, :]
        conditions = []
        if self.keys is not None:
            conditions.append(keys < self.keys)
        if self.is_causal:
            conditions.append(keys <= queries)
        if self.window is not None:
            conditions.append((queries <= keys + self.window[0]) & (queries >= keys - self.window[1]))
        for which, positions in (("query_lengths", queries), ("key_lengths", keys)):
            if which in arrays:
                conditions.append(positions < _expand(arrays[which], self.labels[which], self.scores))
        if "key_segments" in arrays:
            mine, theirs = (_expand(arrays[w], self.labels[w], self.scores) for w in ("query_segments", "key_segments"))
            conditions.append((mine == theirs) & (theirs >= 0))
        if "mask" in arrays:
            conditions.append(_expand(self._of_keys("mask", arrays, first_key), self.labels["mask"], self.scores))
        return functools.reduce(jnp.logical_and, conditions) if conditions else None

    def _of_keys(self, which: str, arrays: Arrays, first_key: Any) -> Any:
        """Bias or mask for the block of keys that begins at `first_key`."""
        if which not in self.whole:
            return arrays[which]
        dim = self.labels[which].index(KEY)
        return lax.dynamic_slice_in_dim(arrays[which], first_key, self.sizes[KEY], dim)

    def _scores(self, arrays: Arrays, first_key: Any) -> Any:
        """The scores of one block, of full size, minus infinity where they are masked."""
        query, key = self.labels["query"], self.labels["key"]
        labels = tuple(label for label in self.scores if label in query or label in key)
        scores = _einsum(arrays["query"], query, arrays["key"], key, labels, self.wide)
        if self.feature_axes:
            scores = comm.psum(scores, self.feature_axes)
        scores = _expand(lax.mul(scores, np.asarray(self.scale, self.wide)), labels, self.scores)
        if "bias" in arrays:
            bias = self._of_keys("bias", arrays, first_key)
            scores = scores + _expand(bias, self.labels["bias"], self.scores).astype(self.wide)
        allowed, shape = self._allowed(arrays, first_key), tuple(self.sizes[label] for label in self.scores)
        scores = jnp.broadcast_to(scores, shape)
        if allowed is not None:
            scores = lax.select(jnp.broadcast_to(allowed, shape), scores, lax.full_like(scores, -jnp.inf))
        return scores

    def _weigh(self, weights: Any, value: Any) -> Any:
        """The sum of values, weighted."""
        return _einsum(weights.astype(self.dtype), self.scores, value, self.labels["value"], self.result, self.wide)

    def _to_result(self, rows: Any) -> Any:
        """Numbers for each row of scores, of a shape that broadcasts to the result."""
        return lax.expand_dims(rows, range(rows.ndim, rows.ndim + len(self.carried)))

    # --- keys that stay where they are ---

    def _directly(self, arrays: Arrays) -> Any:
        scores = self._scores(arrays, self._key_offset(0))
        if not self.rest:
            return self._weigh(_softmax(scores), arrays["value"]).astype(self.dtype)
        # Every device has different keys: the largest score of all, then the sums of what all have relative to it.
        largest = comm.pmax(jnp.max(lax.stop_gradient(scores), -1, initial=-jnp.inf), self.rest)
        terms, total, _ = _terms(scores, largest)
        result, total = self._psum_both(self._weigh(terms, arrays["value"]), total)
        return (result / self._to_result(_not_zero(total))).astype(self.dtype)

    def _psum_both(self, result: Any, total: Any) -> tuple[Any, Any]:
        return comm.psum(result, self.rest), comm.psum(total, self.rest)

    # --- the ring ---

    def _split(self, arrays: Arrays) -> tuple[Arrays, Arrays]:
        """What goes round, and what stays."""
        moves = {"key", "value", *self.moving}
        return {w: a for w, a in arrays.items() if w in moves}, {w: a for w, a in arrays.items() if w not in moves}

    def _pass_on(self, tree: Any) -> Any:
        pairs = [(i, (i + 1) % self.steps) for i in range(self.steps)]
        return jax.tree.map(lambda data: comm.ppermute(data, self.ring, pairs), tree)

    def _unless_masked(self, arrays: Arrays, first_key: Any, compute: Callable[[Any], Any], state: Any) -> Any:
        """`compute(state)`, but `state` where causality, the window or the segments mask the whole block."""
        packed = "key_segments" in arrays
        if not (self.is_causal or self.window is not None or packed) or self.feature_axes or self.carried_axes:
            return compute(state)  # nothing may be skipped, or who skips would leave others alone in a collective
        first_query = self._query_offset()
        last_query, last_key = first_query + self.sizes[QUERY] - 1, first_key + self.sizes[KEY] - 1
        needed = first_key <= last_query if self.is_causal else True
        if self.window is not None:
            needed &= (first_query <= last_key + self.window[0]) & (last_query >= first_key - self.window[1])
        if packed:
            mine, theirs = arrays["query_segments"], arrays["key_segments"]
            first = jnp.min(theirs, where=theirs >= 0, initial=jnp.iinfo(theirs.dtype).max)
            needed &= (jnp.max(mine) >= first) & (jnp.min(mine) <= jnp.max(theirs))
        return lax.cond(needed, compute, lambda state: state, state)

    def _zeros(self, labels: Iterable[Label], more: Axes = (), fill: float = 0.0) -> Any:
        data = jnp.full([self.sizes[label] for label in labels], fill, self.wide)
        return cast_data(data, self.variance | frozenset(more))

    def _ring(self, arrays: Arrays) -> tuple[Any, Any]:
        """The result, and the logarithm of the sum of exponentials of each row."""
        moving, staying = self._split(arrays)

        def visit(state: Any, moving: Arrays, step: Any) -> Any:
            first_key = self._key_offset(step)

            def compute(state: Any) -> Any:
                largest, total, result = state
                scores = self._scores(moving | staying, first_key)
                new = jnp.maximum(largest, jnp.max(lax.stop_gradient(scores), -1, initial=-jnp.inf))
                terms, here, finite = _terms(scores, new)
                shrink = jnp.exp(largest - finite)
                result = result * self._to_result(shrink) + self._weigh(terms, moving["value"])
                return lax.stop_gradient(new), total * shrink + here, result

            return self._unless_masked(moving | staying, first_key, compute, state)

        def step(carry: Any, number: Any) -> tuple[Any, None]:
            moving, state = carry
            return (self._pass_on(moving), visit(state, moving, number)), None  # sent while it is worked on

        rows = (*self.batch, QUERY)
        state = (self._zeros(rows, fill=-jnp.inf), self._zeros(rows), self._zeros(self.result, self.carried_axes))
        (moving, state), _ = lax.scan(step, (moving, state), jnp.arange(self.steps - 1))
        largest, total, result = visit(state, moving, self.steps - 1)
        finite = jnp.where(largest == -jnp.inf, 0, largest)
        if self.rest:
            overall = comm.pmax(largest, self.rest)
            finite_overall = jnp.where(overall == -jnp.inf, 0, overall)
            shrink = jnp.exp(largest - finite_overall)
            result, total = self._psum_both(result * self._to_result(shrink), total * shrink)
            finite = finite_overall
        total = _not_zero(total)
        return (result / self._to_result(total)).astype(self.dtype), finite + jnp.log(total)

    def _ring_backwards(self, arrays: Arrays, wanted: tuple[str, ...], result: Any, normaliser: Any, cotangent: Any) -> Arrays:
        """The gradients of `wanted`. Those of what goes round go round with it, one step behind, and end at home."""
        moving, staying = self._split(arrays)
        labels = self.labels
        cotangent = cast_data(cotangent, self.variance | frozenset(self.carried_axes))
        product = cotangent.astype(self.wide) * result.astype(self.wide)
        mean = jnp.sum(product, range(product.ndim - len(self.carried), product.ndim))
        if self.carried_axes:
            mean = comm.psum(mean, self.carried_axes)
        mean, normaliser = (cast_data(rows, self.variance)[..., None] for rows in (mean, normaliser))

        def visit(held: Arrays, moving: Arrays, number: Any) -> tuple[Arrays, Arrays]:
            """Gradients of what stays, and what this device adds to those of the block."""
            first_key = self._key_offset(number)

            def compute(state: tuple[Arrays, Arrays]) -> tuple[Arrays, Arrays]:
                held, _ = state
                here = moving | staying
                weights = jnp.exp(self._scores(here, first_key) - normaliser)
                of_value = _einsum(weights.astype(self.dtype), self.scores, cotangent, self.result, labels["value"], self.wide)
                of_weights = _einsum(cotangent, self.result, here["value"], labels["value"], self.scores, self.wide)
                if self.carried_axes:
                    of_weights = comm.psum(of_weights, self.carried_axes)
                of_scores = weights * (of_weights - mean)
                scaled = (of_scores * jnp.asarray(self.scale, self.wide)).astype(self.dtype)
                of_query = _einsum(scaled, self.scores, here["key"], labels["key"], labels["query"], self.wide)
                of_key = _einsum(scaled, self.scores, here["query"], labels["query"], labels["key"], self.wide)
                held, added = {"query": held["query"] + of_query}, {"key": of_key, "value": of_value}
                if "bias" in here:
                    of_bias = self._of_bias(of_scores)
                    if "bias" in self.moving:
                        added["bias"] = of_bias
                    elif "bias" in self.whole:  # every block is met once
                        dim = labels["bias"].index(KEY)
                        held["bias"] = lax.dynamic_update_slice_in_dim(state[0]["bias"], of_bias, first_key, dim)
                    else:
                        held["bias"] = state[0]["bias"] + of_bias
                return held, added

            nothing = {which: jnp.zeros_like(data, self.wide) for which, data in moving.items() if which in wanted}
            held, added = self._unless_masked(moving | staying, first_key, compute, (held, nothing))
            return held, added

        def step(carry: Any, number: Any) -> tuple[Any, None]:
            moving, held, travelling = carry
            following = self._pass_on(moving)
            held, added = visit(held, moving, number)
            return (following, held, self._pass_on(jax.tree.map(jnp.add, travelling, added))), None

        held = {which: jnp.zeros_like(data, self.wide) for which, data in staying.items() if which in wanted}
        following = self._pass_on(moving)
        held, at_home = visit(held, moving, 0)
        travelling = {which: jnp.zeros_like(data, self.wide) for which, data in moving.items() if which in wanted}
        carry = (following, held, travelling)
        carry, _ = lax.scan(step, carry, jnp.arange(1, self.steps - 1))
        moving, held, travelling = carry
        held, added = visit(held, moving, self.steps - 1)
        travelling = self._pass_on(jax.tree.map(jnp.add, travelling, added))
        gradients = held | jax.tree.map(jnp.add, travelling, at_home)
        return {which: gradients[which].astype(arrays[which].dtype) for which in wanted}

    def _of_bias(self, of_scores: Any) -> Any:
        own = self.labels["bias"]
        data = jnp.sum(of_scores, [i for i, label in enumerate(self.scores) if label not in own])
        left = [label for label in self.scores if label in own]
        return lax.transpose(data, [left.index(label) for label in own])
