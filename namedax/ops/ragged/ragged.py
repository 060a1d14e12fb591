"""`Ragged`: rows of different lengths, concatenated without padding.

Names make this simple: tokens are one axis, rows are another, and an integer array over the tokens
contains the row of each token. Computations per token need no new operation, and computations per
row are segment reductions. Both support sharding.
"""

# Long: one class, a third of whose lines are docstrings.

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import sum_result_type
from namedax.core.names import DType
from namedax.core.region import ambient
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    format_value,
    raise_not_found,
)
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.nn.attention import dot_product_attention
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.ragged import packing
from namedax.ops.ragged.grouped import contract_by_group
from namedax.ops.ragged.rows import (
    checked_lengths,
    checked_rows,
    concrete_value,
    ends_of,
    every,
    fill_end,
    nan_if_cut,
    no_overflow,
    reduce_rows,
    replicate_rows,
    row_to_read,
    segments_of,
    spread,
)
from namedax.ops.shape.rename import rename
from namedax.resources.communication import sum_type

__all__ = ["Ragged"]

_exp, _log, _sqrt, _where, _isfinite, _square = (
    ELEMENTWISE[f] for f in ("exp", "log", "sqrt", "where", "isfinite", "square")
)
_maximum, _minimum = ELEMENTWISE["maximum"], ELEMENTWISE["minimum"]


F = TypeVar("F", bound=Callable[..., Any])


def _as_operation(function: F) -> F:
    """Register a method as an operation, so that its name appears in programs."""
    return operation(
        lambda self, *_, **__: (self.tokens, self.rows),
        name=f"Ragged.{function.__name__}",
        scope=True,
    )(function)


class _Type(type):
    # Errors of JAX about invalid arguments show the type of the argument.
    def __repr__(cls) -> str:
        return (
            f"<class 'namedax.{cls.__name__}', which functions of arrays do not accept: {_REMEDY}>"
        )


_REMEDY = (
    "call a function of single tokens with r.map(function), and reduce by row with a method, such"
    " as r.sum()"
)


_ARRAYS = ("values", "lengths", "segments", "is_cut")
_NAMES = ("tokens", "rows")


@jax.tree_util.register_pytree_with_keys_class
class Ragged(metaclass=_Type):
    """Rows of different lengths, concatenated in one array without padding: an immutable pytree.

    Two axis names define the structure: `tokens`, the axis of the tokens of all rows, and `rows`.
    Any other axis of `values` belongs to every token (`embed`), and further axes of `lengths` are
    batches with separate rows.

    `values` is an ordinary named array, so all functions of one token (`nx.dot(r.values, w,
    "embed")`) apply to it. `axis_resources` determines the sharding of tokens. Every operation
    would have to search offsets. Instead, an array of segments has the sharding of the tokens and
    is read in place. So a row may cross devices. The object stores the names of rows and tokens, so
    an operand with `rows` aligns with every token of its row: `r - r.mean()`.

    **Unused tokens.** The buffer may be longer than all rows in total, so that programs are
    compiled once. The tokens after the last row belong to no row: `segments` is negative there.
    They are copies of the last token of a row, never zeros. So a function and its derivative are
    finite there if they are finite for the tokens of rows. No reduction, softmax, attention or
    contraction by row counts them, and their gradient is zero. A reduction of `r.values` over
    `tokens` does count them: mask it with `r.is_token`, or use `r.sum()`.

    Args:
      values: a named array with `tokens`.
      lengths: integers, with the axis `rows`, and batch axes.
      tokens: the axis name of all tokens.
      rows: the axis name of the rows.

    Communication: along sharded `tokens`, one token, which fills the unused end; over sharded
    `rows`, an all-gather of the lengths.

    Rows that exceed the buffer in total are an error if the lengths are known. Under a trace rows
    are truncated instead, and `is_cut` is true. Then all values, all reductions by row and their
    gradients are NaN, also for rows that are lost completely. The same holds for the results of
    `replace` or `map` on integers (an embedding of words). Only integers and booleans themselves
    have no NaN: check `is_cut`. A negative length counts as 0 under a trace.

    `jax.jit`, `jax.lax.scan`, `nx.xmap` and optax accept it like any pytree. Lengths and segments
    are integers, so differentiate with respect to the values, `jax.grad(lambda v:
    loss(r.replace(v)))(r.values)`, or use `allow_int=True`.

    Raises:
      AxisNameError: the names are not two different axis names, or `values` has `rows`.
      AxisNotFoundError: `values` has no `tokens`, or `lengths` has no `rows`, or `values` lacks a
        batch axis.
      AxisSizeError: the rows exceed the buffer, or there is no row, or no token.
      ArgumentError: a length is negative.
      ArgumentTypeError: the lengths are not integers.

    >>> import jax.numpy as jnp, namedax as nx
    >>> rows = [[1.0, 2.0, 3.0], [], [4.0, 5.0]]
    >>> r = nx.Ragged.from_rows(rows, rows="doc", tokens="token", size=6)
    >>> r
    Ragged(f32[]{token:6}, 3 rows 'doc')
    >>> nx.positional(r.sum(), ["doc"]).tolist()
    [6.0, 0.0, 9.0]
    >>> nx.positional((2 * r - r.sum()).values, ["token"]).tolist()
    [-4.0, -2.0, 0.0, -1.0, 1.0, 1.0]
    >>> [[round(float(p), 3) for p in row] for row in r.softmax().to_rows()]
    [[0.09, 0.245, 0.665], [], [0.269, 0.731]]
    """

    __slots__ = ("is_cut", "lengths", "rows", "segments", "tokens", "values")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise

    values: NamedArray
    lengths: NamedArray
    segments: NamedArray
    is_cut: AnyArray
    tokens: Hashable
    rows: Hashable

    def __init__(self, values: ArrayLike, lengths: ArrayLike, *, tokens: Hashable, rows: Hashable):
        op, region = "Ragged", ambient()
        blocks = [as_array(to_local(as_array(x), op, region)) for x in (values, lengths)]
        data, counts = checked_rows(op, blocks[0], blocks[1], tokens, rows)
        size = data.named_shape[tokens]
        counts, is_full = checked_lengths(op, counts, tokens, rows, size)
        segments = segments_of(op, counts, rows, tokens, size)
        if is_full:
            is_cut = no_overflow(counts, rows)
        else:
            data, counts, is_cut = fill_end(data, counts, segments, tokens, rows, size)
        self._set(data, counts, segments, is_cut, tokens, rows)

    def _set(self, *parts: AnyArray | Hashable) -> None:
        for name, part in zip((*_ARRAYS, *_NAMES), parts, strict=True):
            object.__setattr__(self, name, part)

    @classmethod
    def _made(cls, values: NamedArray, like: Ragged, is_cut: AnyArray | None = None) -> Ragged:
        made = object.__new__(cls)
        is_cut = like.is_cut if is_cut is None else is_cut
        made._set(values, like.lengths, like.segments, is_cut, like.tokens, like.rows)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"Ragged is immutable: {name!r} cannot be set. Make a new one with r.replace(values)."
        )

    # --- a pytree ---------------------------------------------------------------------------------

    def tree_flatten_with_keys(
        self,
    ) -> tuple[tuple[tuple[jax.tree_util.GetAttrKey, AnyArray], ...], tuple[Hashable, Hashable]]:
        """Return the arrays, and the names."""
        key = jax.tree_util.GetAttrKey
        children = tuple((key(name), getattr(self, name)) for name in _ARRAYS)
        return children, self._names_kept

    @classmethod
    def tree_unflatten(
        cls,
        names: tuple[Hashable, Hashable],
        children: tuple[NamedArray, NamedArray, NamedArray, AnyArray],
    ) -> Ragged:
        """Build a `Ragged` from the arrays and the names."""
        made = object.__new__(cls)
        made._set(*children, *names)
        return made

    @property
    def _names_kept(self) -> tuple[Hashable, Hashable]:
        # Static fields, so that `nx.rename` of a tree does not change them.
        return self.tokens, self.rows

    def __reduce__(self) -> tuple[Callable[..., Ragged], tuple[Any, ...]]:
        children = tuple(getattr(self, name) for name in _ARRAYS)
        return Ragged.tree_unflatten, (self._names_kept, children)

    def __repr__(self) -> str:
        try:
            return (
                f"Ragged({type_text(self.values)}, {self.lengths.named_shape[self.rows]} rows"
                f" {self.rows!r})"
            )
        except Exception:  # the leaves of a pytree may be anything
            return f"Ragged({self.values!r}, {self.lengths!r}, {self.segments!r}, {self.is_cut!r})"

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise ArgumentTypeError(
            f"Ragged: {self!r} is not an array; {_REMEDY}. Its arrays are r.values, r.lengths and"
            " r.segments."
        )

    # --- conversions ------------------------------------------------------------------------------

    @classmethod
    def from_rows(
        cls,
        arrays: Sequence[Any],
        *,
        rows: Hashable,
        tokens: Hashable,
        axes: Sequence[Hashable | None] = (),
        size: int | None = None,
    ) -> Ragged:
        """Build a `Ragged` from a list of rows.

        The rows are lists, NumPy or JAX arrays, with the tokens along their first axis.

        Args:
          arrays: the rows. They differ in the size of the first axis only; an empty list is an
            empty row.
          rows: the axis name of the rows.
          tokens: the axis name of the tokens.
          axes: the names of the axes after the first, `None` for positional ones; by default all
            are positional.
          size: the number of tokens in the buffer; by default the number of tokens in the rows, and
            at least one.

        Raises:
          AxisSizeError: the rows have more tokens than `size`, or there is no row.
          PositionalAxisError: the rows have different axes after the first.
        """
        values, lengths = packing.from_rows("Ragged.from_rows", arrays, rows, tokens, axes, size)
        return cls(values, lengths, tokens=tokens, rows=rows)

    @classmethod
    def from_padded(
        cls,
        x: ArrayLike,
        *,
        rows: Hashable,
        column: Hashable,
        tokens: Hashable,
        lengths: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        size: int | None = None,
    ) -> Ragged:
        """Build a `Ragged` from an array in which every row is padded.

        Args:
          x: a named array with `rows` and `column`.
          rows: the axis name of the rows.
          column: the axis name of the positions within a row, which the result lacks.
          tokens: the axis name of the tokens.
          lengths: integers, with the axis `rows`: the number of tokens at the beginning of each
            row; by default `None`. Under a trace a length is limited to the number of columns.
          mask: alternatively booleans, with the axes `rows` and `column`, that mark the tokens; by
            default `None`. Tokens keep their order.
          size: the number of tokens in the buffer. By default the number of tokens if lengths are
            known, and the number of elements of `x` under a trace.

        Communication: over sharded rows, one all-reduce of the tokens, or one reduce-scatter if the
        tokens are sharded over the mesh axis of the rows. Over a sharded `column`, `x` is gathered.

        Raises:
          AxisNotFoundError: an array lacks an axis.
          ArgumentError: both lengths and a mask are given, or neither.
          AxisSizeError: there are more tokens than `size`.
        """
        values, lengths = packing.from_padded(
            "Ragged.from_padded", x, rows, column, tokens, lengths, mask, size
        )
        return cls(values, lengths, tokens=tokens, rows=rows)

    @_as_operation
    def padded(self, column: Hashable, size: int | None = None, *, fill: ArrayLike = 0) -> AnyArray:
        """Return an array with `rows` and `column`, in which every row is padded at its end.

        Args:
          column: the axis name of the positions within a row.
          size: the number of positions; by default the length of the longest row, if it is known.
            Tokens beyond it are dropped.
          fill: the padding value, by default 0.

        Communication: over sharded tokens, one all-reduce of the result, or one reduce-scatter if
        the rows are sharded over their mesh axis.

        Raises:
          AxisNameError: `column` is not an axis name, or is an axis of this `Ragged`.
          ArgumentError: `size` is not given, and the lengths are not known.
        """
        return packing.padded("Ragged.padded", self, column, size, fill)

    def to_rows(self) -> list[np.ndarray]:
        """Return the rows as NumPy arrays, with the tokens along their first axis.

        It works outside of traces, and without batches.

        Raises:
          ArgumentError: the values are not known.
        """
        return packing.to_rows("Ragged.to_rows", self)

    # --- properties of tokens and rows ------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the dtype of the values."""
        return self.values.dtype

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return int(self.lengths.named_shape[self.rows])

    @property
    def is_token(self) -> NamedArray:
        """Return a mask of the tokens that belong to a row, without communication."""
        return self.segments >= 0

    @property
    def starts(self) -> NamedArray:
        """Return the number of each row's first token.

        Communication: over sharded rows, one all-gather of the lengths.
        """
        return (
            rename(ends_of(self.lengths, self.rows), {every(self.rows): self.rows}) - self.lengths
        )

    @property
    def positions(self) -> NamedArray:
        """Return the position of every token in its row, from 0.

        Communication: over sharded rows, one all-gather of the lengths.
        """
        starts = ends_of(self.lengths, self.rows) - replicate_rows(self.lengths, self.rows)
        first = self._by_token(starts)
        return packing.index_of_tokens(self) - first

    @_as_operation
    def spread(self, x: ArrayLike) -> AnyArray:
        """Repeat `x` for each row over the tokens of the row: `rows` becomes `tokens`.

        Args:
          x: an array with `rows`.

        Communication: over sharded rows, one all-gather of `x`.

        Raises:
          AxisNotFoundError: `x` lacks `rows`.
        """
        self._check_operand("Ragged.spread", x)
        if not isinstance(x, NamedArray) or self.rows not in dims_of(x):
            raise_not_found("Ragged.spread", self.rows, type_text(x), names_of(dims_of(x)))
        return spread(x, self.segments, self.rows)

    # --- token by token ---------------------------------------------------------------------------

    def replace(self, values: AnyArray) -> Ragged:
        """Return the same rows with other values.

        Args:
          values: an array with `tokens`, in the same order.

        Raises:
          AxisNotFoundError: the values lack `tokens`.
          AxisSizeError: they have a different number of tokens.
        """
        op = "Ragged.replace"
        if isinstance(values, Ragged):
            raise ArgumentTypeError(
                f"{op}: the values must be an array, got {format_value(values)}. Pass its values:"
                " r.replace(other.values)."
            )
        if not isinstance(values, NamedArray) or self.tokens not in dims_of(values):
            raise_not_found(op, self.tokens, type_text(values), names_of(dims_of(values)))
        size, given = self.segments.named_shape[self.tokens], values.named_shape[self.tokens]
        if size != given:
            raise AxisSizeError(
                f"{op}: axis {self.tokens!r} has size {given} in {type_text(values)}, but {size} in"
                f" {self!r}."
            )
        if self.rows in dims_of(values):
            raise AxisNameError(
                f"{op}: the values {type_text(values)} also have the axis {self.rows!r} of the"
                " rows. Rename it."
            )
        # Integers, such as words, cannot be NaN for truncated rows; floats computed from them can.
        is_first = not jnp.issubdtype(self.values.dtype, jnp.inexact)
        return self._made(nan_if_cut(values, self.is_cut) if is_first else values, self)

    def map(self, function: Callable[..., AnyArray], *others: Ragged | ArrayLike) -> Ragged:
        """Apply `function` to the values and to other arrays.

        An array with `rows` aligns with every token of its row.

        Args:
          function: a function of named arrays that acts on every token independently, such as
            `r.map(nx.nn.gelu)` or `r.map(lambda v: nx.dot(v, w, "embed"))`.
          others: a `Ragged` with the same rows, or arrays.

        Raises:
          ArgumentError: another `Ragged` may have other rows.
          AxisNotFoundError: the result lacks `tokens`.
        """
        return self.replace(
            function(self.values, *(self._operand("Ragged.map", other) for other in others))
        )

    def astype(self, dtype: DType) -> Ragged:
        """Convert the values to another dtype.

        Args:
          dtype: the dtype of the result.
        """
        return self.replace(self.values.astype(dtype))

    def _check_operand(self, op: str, x: object) -> None:
        if self.rows in dims_of(x) and self.tokens in dims_of(x):
            raise AxisNameError(
                f"{op}: {type_text(x)} has both axes {self.rows!r} and {self.tokens!r}, but a token"
                " belongs to one row. Rename one of them."
            )

    def _operand(self, op: str, other: object) -> object:
        """Align an operand with the values: elements per row are repeated for their tokens."""
        if isinstance(other, Ragged):
            self._check_same_rows(op, other)
            return other.values
        self._check_operand(op, other)
        if isinstance(other, NamedArray) and self.rows in dims_of(other):
            return spread(other, self.segments, self.rows)
        return other

    def _check_same_rows(self, op: str, other: Ragged) -> None:
        names = [(r.tokens, r.rows) for r in (self, other)]
        if names[0] != names[1]:
            raise AxisNameError(
                f"{op}: {self!r} has tokens {self.tokens!r} and rows {self.rows!r}, but {other!r}"
                f" has tokens {other.tokens!r} and rows {other.rows!r}. Rename the axes of one of"
                " them."
            )
        if self.segments.data is other.segments.data:
            return
        mine, others = concrete_value(self.segments), concrete_value(other.segments)
        if mine is None or others is None:
            raise ArgumentError(
                f"{op}: {self!r} and {other!r} have separate lengths, which cannot be compared"
                " during tracing. If their rows have the same lengths, write"
                " r.replace(other.values)."
            )
        if self.segments.dims != other.segments.dims or not np.array_equal(mine, others):
            raise ArgumentError(
                f"{op}: {self!r} and {other!r} have rows of different lengths, so their tokens do"
                " not align."
            )

    # --- row by row -------------------------------------------------------------------------------

    def _reduce(self, kind: str, values: NamedArray, rows: Hashable | None = None) -> NamedArray:
        """Reduce over the tokens in a wide dtype, and convert the result to the dtype of `jnp`."""
        wide = dtype = values.dtype
        if kind in ("sum", "prod"):
            dtype = sum_result_type(dtype)
            wide = sum_type(dtype)
        rows = self.rows if rows is None else rows
        reduced = reduce_rows(
            kind, values.astype(wide), self.segments, rows, self.tokens, self.count
        ).astype(dtype)
        return nan_if_cut(reduced, self.is_cut)

    def _by_token(self, x: NamedArray) -> AnyArray:
        """Repeat the elements of `x` for `every` row for the tokens of the row."""
        return take(x, row_to_read(self.segments), every(self.rows), mode="clip")

    def _numbers(self) -> NamedArray:
        dtype = self.values.dtype
        if jnp.issubdtype(dtype, jnp.inexact):
            return self.values
        return self.values.astype(jnp.zeros((), float).dtype)

    @_as_operation
    def sum(self) -> NamedArray:
        """Sum each row; 0 for an empty one.

        Communication: over sharded tokens, one all-reduce of one number per row, or one
        reduce-scatter if the rows are sharded over the same mesh axis. The same holds for the other
        reductions.
        """
        return self._reduce("sum", self.values)

    @_as_operation
    def mean(self) -> NamedArray:
        """Average each row; NaN for an empty one, as in `jnp`."""
        values = self._numbers()
        return self._reduce("sum", values) / self.lengths.astype(values.dtype)

    @_as_operation
    def var(self) -> NamedArray:
        """Compute the variance of each row, with two reductions; NaN for an empty one."""
        values = self._numbers()
        every_row = every(self.rows)
        lengths = replicate_rows(self.lengths, self.rows).astype(values.dtype)
        mean = self._reduce("sum", values, every_row) / _maximum(lengths, 1)
        deviation = values - self._by_token(mean)
        square = (
            _square(ELEMENTWISE["abs"](deviation))
            if jnp.iscomplexobj(deviation.data)
            else _square(deviation)
        )
        return self._reduce("sum", square) / self.lengths.astype(square.dtype)

    @_as_operation
    def std(self) -> NamedArray:
        """Compute the standard deviation of each row; NaN for an empty one."""
        return _sqrt(self.var())

    @_as_operation
    def max(self) -> NamedArray:
        """Take the maximum of each row.

        An empty row gives minus infinity or the least integer, as in `jax.ops.segment_max`.
        """
        return self._reduce("max", self.values)

    @_as_operation
    def min(self) -> NamedArray:
        """Take the minimum of each row; an empty one gives infinity or the largest integer."""
        return self._reduce("min", self.values)

    @_as_operation
    def prod(self) -> NamedArray:
        """Multiply the values of each row; 1 for an empty one.

        As for `nx.segment_prod`, there is no gradient.
        """
        return self._reduce("prod", self.values)

    @_as_operation
    def any(self) -> NamedArray:
        """Return True for each row with a true value; False for an empty one."""
        return self._reduce("sum", (self.values != 0).astype(jnp.int32)) > 0

    @_as_operation
    def all(self) -> NamedArray:
        """Return True for each row with only true values; True for an empty one."""
        return self._reduce("sum", (self.values == 0).astype(jnp.int32)) == 0

    def _shifted(self, values: NamedArray) -> tuple[NamedArray, NamedArray]:
        """Subtract the maximum of each row; return it too, or 0 if it is not finite."""
        every_row = every(self.rows)
        largest = jax.lax.stop_gradient(
            self._reduce("max", jax.lax.stop_gradient(values), every_row)
        )
        largest = _where(_isfinite(largest), largest, jnp.zeros((), values.dtype))
        return values - self._by_token(largest), largest

    @_as_operation
    def logsumexp(self) -> NamedArray:
        """Compute the log-sum-exp of each row, minus infinity if it is empty; two reductions."""
        shifted, largest = self._shifted(self._numbers())
        total = self._reduce("sum", _exp(shifted))
        largest = rename(largest, {every(self.rows): self.rows})
        is_zero = total == 0
        return _where(is_zero, -jnp.inf, _log(_where(is_zero, 1, total)) + largest)

    @_as_operation
    def softmax(self) -> Ragged:
        """Compute the softmax of each row.

        Communication: over sharded tokens, two reductions of one number per row.
        """
        shifted, _ = self._shifted(self._numbers())
        terms = _exp(shifted)
        total = self._reduce("sum", terms, every(self.rows))
        return self.replace(terms / self._by_token(total))

    @_as_operation
    def log_softmax(self) -> Ragged:
        """Compute the logarithm of the softmax of each row.

        Communication: over sharded tokens, two reductions of one number per row.
        """
        shifted, _ = self._shifted(self._numbers())
        total = self._reduce("sum", _exp(shifted), every(self.rows))
        total = _where(total == 0, 1, total)  # for rows that no token reads
        return self.replace(shifted - self._by_token(_log(total)))

    # --- networks ---------------------------------------------------------------------------------

    @_as_operation
    def dot(self, w: ArrayLike, axis: AxisSpec) -> Ragged:
        """Contract every token with `w` over names.

        If `w` has the rows, a token is contracted with the weights of its row. This applies experts
        without capacity if rows are experts. For the communication see `nx.nn.grouped_dot`.

        Args:
          w: a named array.
          axis: the contracted axis names, one or a tuple.
        """
        if self.rows not in dims_of(w):
            return self.replace(dot(self.values, w, axis))
        result = contract_by_group(
            self.values, w, axis, row_to_read(self.segments), self.rows, True
        )
        return self.replace(result)

    @_as_operation
    def attention(
        self,
        query: ArrayLike,
        key: ArrayLike,
        value: ArrayLike,
        *,
        features: Hashable,
        **options: Any,
    ) -> Ragged:
        """Compute attention within each row: a token attends to the tokens of its own row.

        Args:
          query: an array with the tokens and `features`, computed from these values.
          key: the same, for the keys.
          value: an array with the tokens.
          features: the axis name over which queries and keys are contracted.
          **options: options of `nx.nn.dot_product_attention`: `is_causal=True`, heads, a bias, a
            window.

        Returns:
          A `Ragged` of these rows.

        Communication: over sharded tokens, a ring in which the row numbers travel with the keys.
        Blocks without a row in common are not computed.
        """
        return self.replace(
            dot_product_attention(
                query,
                key,
                value,
                axis=self.tokens,
                features=features,
                segments=row_to_read(self.segments),
                key_segments=self.segments,
                **options,
            )
        )

    # --- reading ----------------------------------------------------------------------------------

    @_as_operation
    def pick(self, position: ArrayLike, *, fill_value: ArrayLike | None = None) -> AnyArray:
        """Read one token of each row: `r.pick(0)` the first, `r.pick(-1)` the last.

        Args:
          position: an integer, or integers by row, within the row; negative ones count from its
            end.
          fill_value: the value for a row without such a token; by default NaN, as in `nx.take`.

        Communication: over sharded tokens, one all-reduce of a token for each row, or one
        reduce-scatter if the rows are sharded over their mesh axis.
        """
        return packing.pick("Ragged.pick", self, position, fill_value)

    @_as_operation
    def take(self, index: ArrayLike, *, size: int | None = None) -> Ragged:
        """Select some of the rows, in any order, possibly repeated.

        Args:
          index: the numbers of the rows: integers with one positional or named axis. A named axis
            becomes the axis of the rows in the result. Negative numbers count from the end; a
            number out of range gives an empty row.
          size: the number of tokens in the result; by default the number of tokens in this one.

        Communication: over sharded tokens, one all-gather of integers, and one reduce-scatter of
        all tokens.

        Raises:
          AxisSizeError: the rows have more tokens than `size`.
          PositionalAxisError: the index does not have exactly one axis.
          ArgumentTypeError: the index does not contain integers.
        """
        values, lengths, rows = packing.take_rows("Ragged.take", self, index, size)
        taken = Ragged(values, lengths, tokens=self.tokens, rows=rows)
        return self._made(taken.values, taken, taken.is_cut | self.is_cut)


# --- operators ------------------------------------------------------------------------------------

_BINARY = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift".split()
_COMPARE = "eq ne lt le gt ge".split()


def _binary(name: str, reflected: bool) -> Callable[[Ragged, object], Ragged]:
    function = getattr(operator, name)

    def method(self: Ragged, other: object) -> Ragged:
        if not isinstance(
            other, (Ragged, NamedArray, jax.Array, np.ndarray, np.generic, int, float, complex)
        ):
            return NotImplemented
        aligned = self._operand(f"Ragged {name.strip('_')}", other)
        return self.replace(
            function(aligned, self.values) if reflected else function(self.values, aligned)
        )

    return method


def _unary(name: str) -> Callable[[Ragged], Ragged]:
    function = getattr(operator, name)
    return lambda self: self.replace(function(self.values))


for _name in _BINARY:
    setattr(Ragged, f"__{_name.strip('_')}__", _binary(_name, False))
    setattr(Ragged, f"__r{_name.strip('_')}__", _binary(_name, True))
for _name in _COMPARE:
    setattr(Ragged, f"__{_name}__", _binary(_name, False))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Ragged, f"__{_name}__", _unary(_name))
