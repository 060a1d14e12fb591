"""`Ragged`: rows of different lengths, stored one after the other without padding.

Names make this simple: tokens are an axis, rows are another one, and which row a token is of is an array of integers over the tokens.
What is computed for every token needs no new operation, what is computed by row is a segment reduction, and both know how to be sharded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.region import ambient
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisSizeError, format_value, raise_not_found
from namedax.operands.broadcasting import to_local
from namedax.operands.operation import operation
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.indexing.take import take
from namedax.ops.nn.attention import dot_product_attention
from namedax.ops.ragged import packing
from namedax.ops.ragged.checks import check, checked_lengths, filled, uncut
from namedax.ops.ragged.grouped import contract_by_group
from namedax.ops.ragged.rows import at_rows, ends_of, every, known, reduce_rows, segments_of, spoiled, spread, whole
from namedax.ops.shape.rename import rename
from namedax.resources.communication import sum_type

__all__ = ["Ragged"]

_exp, _log, _sqrt, _where, _isfinite, _square = (ELEMENTWISE[f] for f in ("exp", "log", "sqrt", "where", "isfinite", "square"))
_maximum, _minimum = ELEMENTWISE["maximum"], ELEMENTWISE["minimum"]


def _said(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that says its name in programs, as an operation."""
    return operation(lambda self, *_, **__: (self.tokens, self.rows), name=f"Ragged.{function.__name__}", scope=True)(function)


class _Type(type):
    # JAX's functions say of an argument that they do not take which type it has.
    def __repr__(cls) -> str:
        return f"<class 'namedax.{cls.__name__}', which functions of arrays do not take: {_REMEDY}>"


_REMEDY = "call a function of single tokens with r.map(function), and reduce by row with a method, as r.sum()"


@jax.tree_util.register_pytree_with_keys_class
class Ragged(metaclass=_Type):
    """Rows of different lengths, one after the other in one array without padding. Immutable; a pytree.

    Two names say all: `tokens`, the axis of the entries of all rows, and `rows`. Any other name of `values` belongs to every token
    (`embed`), and names that `lengths` has besides `rows` are batches, each with rows of its own.

    Why this form: `values` is a named array like any other, so that all functions of one token (`nx.dot(r.values, w, "embed")`) work on it
    as they are, and whether tokens are sharded is decided in `axis_resources`. Offsets alone would have to be searched by every operation;
    an array of segments, which travels with the tokens, is read where the token is. So a row may cross devices. And with
    the names of rows and tokens stored beside the data, an operand that has `rows` meets every token of its row: `r - r.mean()`.

    **Unused tokens.** The buffer may be longer than all rows together, so that programs are compiled once. The tokens behind the last row are of
    no row: `segments` is negative there. They hold a copy of the last real token, never zeros, so that a function of tokens is
    finite there with its derivative, if it is at the real ones. No reduction, softmax, attention or contraction by row counts them, and their
    gradient is zero. A reduction of `r.values` over `tokens` does count them: mask it with `r.is_token`, or say `r.sum()`.

    Args:
      values: a named array with `tokens`.
      lengths: integers, named by `rows`, and by batches.
      tokens: the name of the axis of all tokens.
      rows: the name of the rows.

    Along sharded `tokens` this sends one token, which fills the unused end; over sharded `rows` it gathers the lengths. Rows that are longer
    together than the buffer are an error where the lengths are known. Under a trace rows are cut then, and `is_cut` is true: all values, all
    reductions by row and their gradients are NaN, of rows that are cut wholly too, and what is made of integers (an embedding of words) by
    `replace` or `map`. Only integers and truth values themselves have no NaN: look at `is_cut`. A negative length counts as 0 under a trace.

    `jax.jit`, `jax.lax.scan`, `nx.xmap` and optax take it as any pytree. Lengths and segments are integers, so differentiate by the values,
    `jax.grad(lambda v: loss(r.replace(v)))(r.values)`, or with `allow_int=True`.

    Raises:
      AxisNameError: the names are not two names, or `values` has `rows`.
      AxisNotFoundError: `values` has no `tokens`, or `lengths` no `rows`, or `values` lacks a batch.
      AxisSizeError: the rows are longer than the buffer, or there is no row, or no token.
      ArgumentError: a length is negative.
      ArgumentTypeError: the lengths are not integers.

    >>> import jax.numpy as jnp, namedax as nx
    >>> r = nx.Ragged.from_rows([[1.0, 2.0, 3.0], [], [4.0, 5.0]], rows="doc", tokens="token", size=6)
    >>> r
    Ragged(f32[]{token:6}, 3 rows 'doc')
    >>> nx.positional(r.sum(), ["doc"]).tolist(), nx.positional((2 * r - r.sum()).values, ["token"]).tolist()
    ([6.0, 0.0, 9.0], [-4.0, -2.0, 0.0, -1.0, 1.0, 1.0])
    >>> [[round(float(p), 3) for p in row] for row in r.softmax().to_rows()]
    [[0.09, 0.245, 0.665], [], [0.269, 0.731]]
    """

    __slots__ = ("is_cut", "lengths", "rows", "segments", "tokens", "values")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise

    values: Any
    lengths: Any
    segments: Any
    is_cut: Any
    tokens: Hashable
    rows: Hashable

    def __init__(self, values: Any, lengths: Any, *, tokens: Hashable, rows: Hashable):
        op, region = "Ragged", ambient()
        values, lengths = (as_array(to_local(as_array(x), op, region)) for x in (values, lengths))
        check(op, values, lengths, tokens, rows)
        size = values.named_shape[tokens]
        lengths, is_full = checked_lengths(op, lengths, tokens, rows, size)
        segments = segments_of(op, lengths, rows, tokens, size)
        is_cut = uncut(lengths, rows) if is_full else None
        if not is_full:
            values, lengths, is_cut = filled(values, lengths, segments, tokens, rows, size)
        self._set(values, lengths, segments, is_cut, tokens, rows)

    def _set(self, values: Any, lengths: Any, segments: Any, is_cut: Any, tokens: Hashable, rows: Hashable) -> None:
        parts = {"values": values, "lengths": lengths, "segments": segments, "is_cut": is_cut, "tokens": tokens, "rows": rows}
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _made(cls, values: Any, like: Ragged, is_cut: Any = None) -> Ragged:
        made = object.__new__(cls)
        made._set(values, like.lengths, like.segments, like.is_cut if is_cut is None else is_cut, like.tokens, like.rows)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Ragged is immutable: {name!r} cannot be set. Make a new one with r.replace(values).")

    # --- a pytree ---------------------------------------------------------------------------------------------------------

    def tree_flatten_with_keys(self) -> Any:
        """The arrays, and the names."""
        key = jax.tree_util.GetAttrKey
        children = tuple((key(name), getattr(self, name)) for name in ("values", "lengths", "segments", "is_cut"))
        return children, (self.tokens, self.rows)

    @classmethod
    def tree_unflatten(cls, names: Any, children: Any) -> Ragged:
        """From the arrays and the names."""
        made = object.__new__(cls)
        made._set(*children, *names)
        return made

    @property
    def _names_kept(self) -> tuple[Hashable, ...]:
        # Beside the arrays, where `nx.rename` of a tree does not change them.
        return self.tokens, self.rows

    def __reduce__(self) -> Any:
        return Ragged.tree_unflatten, ((self.tokens, self.rows), (self.values, self.lengths, self.segments, self.is_cut))

    def __repr__(self) -> str:
        try:
            return f"Ragged({type_text(self.values)}, {self.lengths.named_shape[self.rows]} rows {self.rows!r})"
        except Exception:  # the leaves of a pytree may be anything
            return f"Ragged({self.values!r}, {self.lengths!r}, {self.segments!r}, {self.is_cut!r})"

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise ArgumentTypeError(f"Ragged: {self!r} is no array; {_REMEDY}. Its arrays are r.values, r.lengths and r.segments.")

    # --- conversions ------------------------------------------------------------------------------------------------------

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
        """Of a list of rows: lists, NumPy's or JAX's arrays, along whose first axis the tokens are.

        Args:
          arrays: the rows. They differ in the size of the first axis only; an empty list is an empty row.
          rows: the name of the rows.
          tokens: the name of the tokens.
          axes: names of the axes after the first, `None` for positional ones.
          size: how many tokens the buffer has; default: as many as the rows have, and at least one.

        Raises:
          AxisSizeError: the rows have more tokens than `size`, or there is no row.
          PositionalAxisError: the rows have different axes after the first.
        """
        values, lengths = packing.from_rows("Ragged.from_rows", arrays, rows, tokens, axes, size)
        return cls(values, lengths, tokens=tokens, rows=rows)

    @classmethod
    def from_padded(
        cls,
        x: Any,
        *,
        rows: Hashable,
        column: Hashable,
        tokens: Hashable,
        lengths: Any = None,
        mask: Any = None,
        size: int | None = None,
    ) -> Ragged:
        """Of an array in which every row is padded.

        Args:
          x: a named array with `rows` and `column`.
          rows: the name of the rows.
          column: the name of the positions within a row, of which the result has none.
          tokens: the name of the tokens.
          lengths: integers, named by `rows`: how many tokens each row has, at its beginning. Under a trace a length beyond the columns counts as
            their number.
          mask: or else truth values, named by `rows` and `column`: which entries are tokens. They keep their order.
          size: how many tokens the buffer has; default: those of `x`, whatever their number under a trace; fewer if lengths are known.

        Over sharded rows: one all-reduce of the tokens, or one reduce-scatter, if the tokens are on the mesh axis of the rows. Over a
        sharded `column` `x` is gathered.

        Raises:
          AxisNotFoundError: an array lacks a name.
          ArgumentError: there are lengths and a mask, or neither.
          AxisSizeError: there are more tokens than `size`.
        """
        values, lengths = packing.from_padded("Ragged.from_padded", x, rows, column, tokens, lengths, mask, size)
        return cls(values, lengths, tokens=tokens, rows=rows)

    @_said
    def padded(self, column: Hashable, size: int | None = None, *, fill: Any = 0) -> Any:
        """An array with `rows` and `column`, in which every row is padded at its end.

        Args:
          column: the name of the positions within a row.
          size: their number; default: that of the longest row, where it is known. Tokens beyond it are cut off.
          fill: what stands behind a row.

        Over sharded tokens: one all-reduce of the result, or one reduce-scatter, if the rows are on their mesh axis.

        Raises:
          AxisNameError: `column` is not a name, or a name of this.
          ArgumentError: `size` is not given, and the lengths are not known.
        """
        return packing.padded("Ragged.padded", self, column, size, fill)

    def to_rows(self) -> list[np.ndarray]:
        """The rows, each a NumPy array with the tokens along its first axis. Outside of programs, without batches.

        Raises:
          ArgumentError: the values are not known.
        """
        return packing.to_rows("Ragged.to_rows", self)

    # --- what tokens and rows have --------------------------------------------------------------------------------------

    @property
    def dtype(self) -> Any:
        """The element type of the values."""
        return self.values.dtype

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.lengths.named_shape[self.rows])

    @property
    def is_token(self) -> Any:
        """Whether a token is of a row, for all tokens. Sends nothing."""
        return self.segments >= 0

    @property
    def starts(self) -> Any:
        """The number of each row's first token. Over sharded rows one all-gather of the lengths."""
        return rename(ends_of(self.lengths, self.rows), {every(self.rows): self.rows}) - self.lengths

    @property
    def positions(self) -> Any:
        """The position of every token in its row, from 0. Over sharded rows one all-gather of the lengths."""
        starts = ends_of(self.lengths, self.rows) - whole(self.lengths, self.rows)
        first = take(starts, at_rows(self.segments), every(self.rows), mode="clip")
        return packing.index_of_tokens(self) - first

    @_said
    def spread(self, x: Any) -> Any:
        """What `x` has for each row, for every token: its `rows` become `tokens`. Over sharded rows one all-gather of `x`.

        Raises:
          AxisNotFoundError: `x` has no rows.
        """
        self._check_operand("Ragged.spread", x)
        if self.rows not in dims_of(x):
            raise_not_found("Ragged.spread", self.rows, type_text(x), [d for d in dims_of(x) if d is not None])
        return spread(x, self.segments, self.rows)

    # --- token by token --------------------------------------------------------------------------------------------------

    def replace(self, values: Any) -> Ragged:
        """The same rows with other values, which have `tokens`, in the same order.

        Raises:
          AxisNotFoundError: the values have no tokens.
          AxisSizeError: there are more or fewer of them.
        """
        op = "Ragged.replace"
        if isinstance(values, Ragged):
            raise ArgumentTypeError(f"{op}: the values are {format_value(values)}. Give its values: r.replace(other.values).")
        if self.tokens not in dims_of(values):
            raise_not_found(op, self.tokens, type_text(values), [d for d in dims_of(values) if d is not None])
        size, given = self.segments.named_shape[self.tokens], values.named_shape[self.tokens]
        if size != given:
            raise AxisSizeError(f"{op}: axis {self.tokens!r} has size {given} in {type_text(values)}, and {size} in {self!r}.")
        if self.rows in dims_of(values):
            raise AxisNameError(f"{op}: the values {type_text(values)} have the axis {self.rows!r} of the rows too. Rename it.")
        # Numbers of words could not be NaN where rows are cut; what is made of them can.
        is_first = not jnp.issubdtype(self.values.dtype, jnp.inexact)
        return self._made(spoiled(values, self.is_cut) if is_first else values, self)

    def map(self, function: Callable[..., Any], *others: Any) -> Ragged:
        """`function` of the values, and of others: what has `rows` meets every token of its row.

        Args:
          function: of named arrays; it acts on every token by itself. `r.map(nx.nn.gelu)`, or `r.map(lambda v: nx.dot(v, w, "embed"))`.
          others: a `Ragged` with the same rows, or arrays.

        Raises:
          ArgumentError: another `Ragged` may have other rows.
          AxisNotFoundError: the result has no tokens.
        """
        return self.replace(function(self.values, *(self._operand("Ragged.map", other) for other in others)))

    def astype(self, dtype: Any) -> Ragged:
        """With another element type."""
        return self.replace(self.values.astype(dtype))

    def _check_operand(self, op: str, x: Any) -> None:
        if self.rows in dims_of(x) and self.tokens in dims_of(x):
            raise AxisNameError(
                f"{op}: {type_text(x)} has both axes {self.rows!r} and {self.tokens!r}, but a token is of one row. Rename one of them."
            )

    def _operand(self, op: str, other: Any) -> Any:
        """What meets the values: numbers of rows are spread over their tokens."""
        if isinstance(other, Ragged):
            self._check_same_rows(op, other)
            return other.values
        self._check_operand(op, other)
        return spread(other, self.segments, self.rows) if self.rows in dims_of(other) else other

    def _check_same_rows(self, op: str, other: Ragged) -> None:
        names = [(r.tokens, r.rows) for r in (self, other)]
        if names[0] != names[1]:
            raise AxisNameError(
                f"{op}: {self!r} has tokens {self.tokens!r} and rows {self.rows!r}, and {other!r} has tokens {other.tokens!r} and rows "
                f"{other.rows!r}. Rename those of one."
            )
        if self.segments.data is other.segments.data:
            return
        mine, others = known(self.segments), known(other.segments)
        if mine is None or others is None:
            raise ArgumentError(
                f"{op}: {self!r} and {other!r} come from different places, and while the function is traced it is not known that their "
                "rows have the same lengths. If they do, say so: r.replace(other.values)."
            )
        if self.segments.dims != other.segments.dims or not np.array_equal(mine, others):
            raise ArgumentError(
                f"{op}: {self!r} and {other!r} have rows of different lengths, so that their tokens do not meet."
            )

    # --- row by row ------------------------------------------------------------------------------------------------------

    def _reduce(self, kind: str, values: Any, rows: Hashable | None = None) -> Any:
        """Over the tokens, in a type in which many may be added up, and then in that of `jnp`."""
        wide = dtype = values.dtype
        if kind in ("sum", "prod"):
            dtype = jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((1,), dtype)).dtype
            wide = sum_type(dtype)
        rows = self.rows if rows is None else rows
        reduced = reduce_rows(kind, values.astype(wide), self.segments, rows, self.tokens, self.count).astype(dtype)
        return spoiled(reduced, self.is_cut)

    def _numbers(self) -> Any:
        dtype = self.values.dtype
        if jnp.issubdtype(dtype, jnp.inexact):
            return self.values
        return self.values.astype(jnp.zeros((), float).dtype)

    @_said
    def sum(self) -> Any:
        """The sum of each row; 0 for an empty one. Over sharded tokens one reduction of one number per row.

        That is an all-reduce, or a reduce-scatter, if the rows are on the mesh axis of the tokens. So are all of these reductions.
        """
        return self._reduce("sum", self.values)

    @_said
    def mean(self) -> Any:
        """The mean of each row; NaN for an empty one, as in `jnp`."""
        values = self._numbers()
        return self._reduce("sum", values) / self.lengths.astype(values.dtype)

    @_said
    def var(self) -> Any:
        """The variance of each row, around its mean; NaN for an empty one. Two reductions."""
        values = self._numbers()
        every_row = every(self.rows)
        lengths = whole(self.lengths, self.rows).astype(values.dtype)
        mean = self._reduce("sum", values, every_row) / _maximum(lengths, 1)
        deviation = values - take(mean, at_rows(self.segments), every_row, mode="clip")
        square = _square(ELEMENTWISE["abs"](deviation)) if jnp.iscomplexobj(deviation.data) else _square(deviation)
        return self._reduce("sum", square) / self.lengths.astype(square.dtype)

    @_said
    def std(self) -> Any:
        """The standard deviation of each row; NaN for an empty one."""
        return _sqrt(self.var())

    @_said
    def max(self) -> Any:
        """The maximum of each row; of an empty one what `jax.ops.segment_max` gives: minus infinity, or the least integer."""
        return self._reduce("max", self.values)

    @_said
    def min(self) -> Any:
        """The minimum of each row; of an empty one infinity, or the largest integer."""
        return self._reduce("min", self.values)

    @_said
    def prod(self) -> Any:
        """The product of each row; 1 for an empty one. As `nx.segment_prod` it has no gradient."""
        return self._reduce("prod", self.values)

    @_said
    def any(self) -> Any:
        """Whether a value of each row is true; false for an empty one."""
        return self._reduce("sum", (self.values != 0).astype(jnp.int32)) > 0

    @_said
    def all(self) -> Any:
        """Whether all values of each row are true; true for an empty one."""
        return self._reduce("sum", (self.values == 0).astype(jnp.int32)) == 0

    def _shifted(self, values: Any) -> tuple[Any, Any]:
        """The exponentials relative to the maximum of every row, and that maximum (0 where it is not finite), for `every` row."""
        every_row = every(self.rows)
        largest = jax.lax.stop_gradient(self._reduce("max", jax.lax.stop_gradient(values), every_row))
        largest = _where(_isfinite(largest), largest, jnp.zeros((), values.dtype))
        return values - take(largest, at_rows(self.segments), every_row, mode="clip"), largest

    @_said
    def logsumexp(self) -> Any:
        """The logarithm of the sum of the exponentials of each row; minus infinity for an empty one. Two reductions."""
        shifted, largest = self._shifted(self._numbers())
        total = self._reduce("sum", _exp(shifted))
        largest = rename(largest, {every(self.rows): self.rows})
        is_zero = total == 0
        return _where(is_zero, -jnp.inf, _log(_where(is_zero, 1, total)) + largest)

    @_said
    def softmax(self) -> Ragged:
        """The softmax of each row. Over sharded tokens two reductions of one number per row."""
        shifted, _ = self._shifted(self._numbers())
        terms = _exp(shifted)
        every_row = every(self.rows)
        total = take(self._reduce("sum", terms, every_row), at_rows(self.segments), every_row, mode="clip")
        return self.replace(terms / total)

    @_said
    def log_softmax(self) -> Ragged:
        """The logarithm of the softmax of each row. Over sharded tokens two reductions of one number per row."""
        shifted, _ = self._shifted(self._numbers())
        every_row = every(self.rows)
        total = self._reduce("sum", _exp(shifted), every_row)
        total = _where(total == 0, 1, total)  # of rows that no token reads
        return self.replace(shifted - take(_log(total), at_rows(self.segments), every_row, mode="clip"))

    # --- networks --------------------------------------------------------------------------------------------------------

    @_said
    def dot(self, w: Any, axis: Any) -> Ragged:
        """The contraction of every token with `w` over names; if `w` has the rows, with the weights of its row.

        That is what experts without capacity do, when rows are experts: `nx.nn.grouped_dot`, which says what is sent.

        Args:
          w: a named array.
          axis: the names that are contracted, one or a tuple.
        """
        if self.rows not in dims_of(w):
            return self.replace(dot(self.values, w, axis))
        result = contract_by_group(self.values, w, axis, at_rows(self.segments), self.rows, True)
        return self.replace(result)

    @_said
    def attention(self, query: Any, key: Any, value: Any, *, features: Hashable, **options: Any) -> Ragged:
        """Attention within each row: a token attends to the tokens of its own row.

        Args:
          query: an array with the tokens and `features`, made of these values.
          key: the same, for the keys.
          value: an array with the tokens.
          features: the name that queries and keys are contracted over.
          **options: of `nx.nn.dot_product_attention`: `is_causal=True`, heads, a bias, a window.

        Returns:
          A `Ragged` of these rows.

        Over sharded tokens a ring, in which the numbers of the rows go round with the keys, and blocks without a row in common are not computed.
        """
        segments = {"segments": at_rows(self.segments), "key_segments": self.segments}
        return self.replace(
            dot_product_attention(query, key, value, axis=self.tokens, features=features, **segments, **options)
        )

    # --- reading ---------------------------------------------------------------------------------------------------------

    @_said
    def pick(self, position: Any, *, fill_value: Any = None) -> Any:
        """One token of each row: `r.pick(0)` the first, `r.pick(-1)` the last.

        Args:
          position: an integer, or integers by row, within the row; negative ones count from its end.
          fill_value: for a row that has no such token; default: as `nx.take`, NaN.

        Over sharded tokens: one all-reduce of a token for each row, or one reduce-scatter, if the rows are on their mesh axis.
        """
        return packing.pick("Ragged.pick", self, position, fill_value)

    @_said
    def take(self, index: Any, *, size: int | None = None) -> Ragged:
        """Some of the rows, in any order, or several times.

        Args:
          index: the numbers of the rows: integers with one positional axis, or with one name, which names the rows of the result. Negative
            ones count from the end; a number out of range makes an empty row.
          size: how many tokens the result has; default: as many as this has.

        Over sharded tokens they are exchanged: one all-gather of integers, and one reduce-scatter of all tokens.

        Raises:
          AxisSizeError: the rows have more tokens than `size`.
          PositionalAxisError: the index has not one axis.
          ArgumentTypeError: the index is not of integers.
        """
        values, lengths, rows = packing.take_rows("Ragged.take", self, index, size)
        taken = Ragged(values, lengths, tokens=self.tokens, rows=rows)
        return self._made(taken.values, taken, taken.is_cut | self.is_cut)


# --- operators -----------------------------------------------------------------------------------------------------------------

_BINARY = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift".split()
_COMPARE = "eq ne lt le gt ge".split()


def _binary(name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: Ragged, other: Any) -> Any:
        if not isinstance(other, (Ragged, NamedArray, jax.Array, np.ndarray, np.generic, int, float, complex)):
            return NotImplemented
        met = self._operand(f"Ragged {name.strip('_')}", other)
        return self.replace(function(met, self.values) if reflected else function(self.values, met))

    return method


def _unary(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)
    return lambda self: self.replace(function(self.values))


for _name in _BINARY:
    setattr(Ragged, f"__{_name.strip('_')}__", _binary(_name, False))
    setattr(Ragged, f"__r{_name.strip('_')}__", _binary(_name, True))
for _name in _COMPARE:
    setattr(Ragged, f"__{_name}__", _binary(_name, False))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Ragged, f"__{_name}__", _unary(_name))
