"""`KVCache`: the keys and values of earlier positions, for generation step by step.

Every row of a batch has its own number of filled slots. New positions are written at the end of
each row (`namedax.ops.nn.kv_slots`): only the device that has a slot writes it.
A donated cache is updated in place. Attention compares positions, so rows of different lengths
need no alignment, and the cache may be sharded by any of its names. If the values are a part of the
keys, only the keys are stored.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, as_array, dims_of
from namedax.core.display import type_text
from namedax.core.names import DType, is_name
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.collectives.reducing import global_index
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.nn.attention import dot_product_attention
from namedax.ops.nn.attention_operands import checked_part
from namedax.ops.nn.kv_slots import write_slots
from namedax.ops.operands import kernels
from namedax.ops.operands.new_axis import named_sizes, size_of
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of, names_of
from namedax.ops.shape.creation import zeros
from namedax.ops.shape.rename import rename

__all__ = ["FUNCTIONS", "KVCache"]

_where, _clip = ELEMENTWISE["where"], ELEMENTWISE["clip"]
F = TypeVar("F", bound=Callable[..., Any])


def _as_operation(function: F) -> F:
    """Register a method as an operation, so that its name appears in programs."""
    return operation(
        lambda self, *_, **__: (self.axis,), name=f"KVCache.{function.__name__}", scope=True
    )(function)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["index", "lengths", "starts"],
    meta_fields=["axis"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class _Selection:
    """A selected layer of a cache, with `lengths` and `starts` of all layers."""

    axis: Hashable
    index: AnyArray
    lengths: NamedArray
    starts: NamedArray


@dataclasses.dataclass(frozen=True, eq=False)
class KVCache:
    """Keys and values of earlier positions, as an immutable pytree of named arrays.

    `KVCache.init` makes an empty one. In every step, `append` writes the keys and values of new
    positions, and `attend` computes attention of the new queries to all positions so far:

        cache = cache.append(key, value, axis="pos")
        result = cache.attend(query, axis="pos", features="key")

    Axes that no method mentions (batch, heads) align by name. `axis_resources` determines the
    sharding: over the batch, the heads or the slots. Jit a step with the cache donated
    (`donate_argnums`), so that it is updated in place. Store the slots beside the features
    (`{"batch": 8, "kv_heads": 4, "cache": 4096, "key": 64}`): other orders give the same results,
    but attention may copy the cache to transpose it.

    **Rows of different lengths.** `lengths` has the names of the axes along which rows differ (the
    argument `rows` of `init`). A prompt that is padded at its right end is appended with its number
    of tokens as `lengths=`; the next token overwrites the padding.

    **Layers.** A cache may have an axis of layers, which `lengths` has too:
    `rows=("layers", "batch")`. Carry it through the loop over the layers, and use one of them:

        def layer(carry, inputs):
            x, cache = carry
            number, weights = inputs
            part = cache.select("layers", number).append(...)
            x = x + part.attend(...)
            return (x, part.whole()), None

    This writes the new positions only. `nx.scan` over the axis of a cache also gives its body the
    cache of one layer, but the loop collects these in a second cache.

    **Values that are a part of the keys.** In multi-head latent attention the values are the first
    features of the keys. Then the cache stores only the keys. Pass to `init` the part that
    `nx.nn.dot_product_attention` also takes as `value`, and no values to `append`:

        shape = {"batch": 8, "cache": 4096, "key": 576}
        cache = KVCache.init(shape, value={"latent": slice(0, 512)})
        cache = cache.append(key, axis="pos")
        result = cache.attend(query, axis="pos", features="key")  # has "latent" in place of "key"

    If all features are the values, the part is `{"latent": slice(None)}`.

    **Overflow.** Positions beyond the last slot are not written. If sizes or lengths are known,
    `append` raises. Otherwise the row is lost: `lengths` exceeds `capacity`, and `attend` returns
    NaN for the row.

    Attributes:
      keys: the keys, with the axis of the slots.
      values: the values, with the axis of the slots; `None` if they are a part of the keys.
      lengths: int32, the number of filled slots of each row, which is the position of its next
        token.
      starts: int32, `lengths` before the last `append`: the position of the row's first new query.
      axis: the axis name of the slots, by default `"cache"`.
      selection: the layer of `select`, by default `None`. `keys` and `values` then have all layers.
      part: the name of the values, and the first and the last of the features of the keys that they
        are; by default `None`, if values are stored.

    >>> import jax.numpy as jnp, namedax as nx
    >>> shape = {"batch": 2, "cache": 8, "key": 4}
    >>> cache = nx.nn.KVCache.init(shape, rows=["batch"])
    >>> prompt = nx.named(jnp.ones((2, 3, 4)), ["batch", "pos", "key"])
    >>> cache = cache.append(prompt, prompt, lengths=nx.named(jnp.array([3, 1]), ["batch"]))
    >>> cache.lengths.data.tolist(), cache.capacity
    ([3, 1], 8)
    >>> cache.attend(prompt).dims
    ('batch', 'pos', 'key')
    """

    keys: NamedArray
    values: NamedArray | None
    lengths: AnyArray
    starts: AnyArray
    axis: Hashable = "cache"
    selection: _Selection | None = None
    part: tuple[Hashable, int, int | None] | None = None

    @classmethod
    def init(
        cls,
        named_shape: Mapping[Hashable, int | None],
        *,
        axis: Hashable = "cache",
        rows: Sequence[Hashable] = (),
        dtype: DType = jnp.float32,
        value_shape: Mapping[Hashable, int | None] | None = None,
        value: Mapping[Hashable, slice] | None = None,
    ) -> KVCache:
        """Make an empty cache.

        Args:
          named_shape: the sizes of the keys by name, in storage order, with `axis`; `None` takes
            the size in the mapped function.
          axis: the axis name of the slots, by default `"cache"`.
          rows: the names of the axes of `named_shape` along which lengths differ, by default none.
            `append` adds those of its `lengths`; a loop over a cache needs them from the start.
          dtype: the dtype of keys and values, by default float32.
          value_shape: the sizes of the values, by default those of the keys.
          value: a part of the features of the keys, with a new name, such as `{"latent": slice(0,
            512)}`. Then these are the values, and only the keys are stored. By default `None`.

        Communication: none. In a mapped function, each device makes its own block.

        Raises:
          AxisNotFoundError: a shape lacks `axis`, or `named_shape` lacks one of `rows`.
          AxisSizeError: keys and values have different numbers of slots.
          ArgumentTypeError: `dtype` is not a floating-point dtype.
          ArgumentError: `value` is not one name with a range of features, or is combined with
            `value_shape`.
          AxisNameError: the name in `value` is an axis of `named_shape`.

        >>> import namedax as nx
        >>> cache = nx.nn.KVCache.init({"batch": 2, "cache": 8, "key": 4}, rows=["batch"])
        >>> cache.lengths.data.tolist()
        [0, 0]
        >>> nx.nn.KVCache.init({"cache": 8, "key": 576}, value={"latent": slice(0, 512)})
        KVCache(f32[]{cache:8, key:576}, {'latent': slice(0, 512)} of the keys, lengths i32[])
        """
        op = "KVCache.init"
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ArgumentTypeError(
                f"{op}: dtype must be a floating-point dtype, got {format_value(dtype)}. Pass"
                " dtype=jnp.bfloat16 or another one."
            )
        part = None if value is None else _checked_part(op, value, named_shape, value_shape)
        shapes = [named_shape, named_shape if value_shape is None else value_shape]
        for which, shape in zip(("named_shape", "value_shape"), shapes, strict=True):
            if axis not in shape:
                raise_not_found(
                    op, axis, f"{which}={format_value(dict(shape))}", shape, "It has the slots."
                )
        sizes = [named_sizes(op, shape) for shape in shapes]
        slots = [each[axis] for each in sizes]
        if slots[0] != slots[1]:
            raise AxisSizeError(
                f"{op}: axis {axis!r} has size {slots[0]} in named_shape, but {slots[1]} in"
                " value_shape. Keys and values have one slot per position; make these equal."
            )
        given = (rows,) if isinstance(rows, str) or not isinstance(rows, Iterable) else tuple(rows)
        for name in given:
            if name not in sizes[0] or name == axis:
                others = [other for other in sizes[0] if other != axis]
                raise_not_found(
                    op,
                    name,
                    f"named_shape={format_value(dict(named_shape))}",
                    others,
                    "rows= names the axes along which lengths differ.",
                )
        of_rows = {name: sizes[0][name] for name in given}
        # Two arrays: a buffer cannot be donated twice.
        lengths, starts = (zeros((), jnp.int32, named_shape=of_rows) for _ in range(2))
        keys: Any = zeros((), dtype, named_shape=sizes[0])
        values: Any = zeros((), dtype, named_shape=sizes[1]) if part is None else None
        return cls(keys, values, lengths, starts, axis, None, part)

    @property
    def capacity(self) -> int:
        """Return the number of slots."""
        return int(self.keys.named_shape[self.axis])

    @property
    def _names_kept(self) -> tuple[Hashable, ...]:
        # Static fields, so that `nx.rename` of a tree does not change them.
        return (self.axis,) if self.selection is None else (self.axis, self.selection.axis)

    @property
    def _part_text(self) -> str:
        """Return the part of the keys that are the values, as in `init`."""
        assert self.part is not None
        name, start, stop = self.part
        return f"{{{name!r}: slice({start}, {stop})}}"

    def __repr__(self) -> str:
        try:
            layer = "" if self.selection is None else f", one of {self.selection.axis!r}"
            values = f"{self._part_text} of the keys" if self.part else type_text(self.values)
            return (
                f"KVCache({type_text(self.keys)}, {values}, lengths"
                f" {type_text(self.lengths)}{layer})"
            )
        except Exception:  # the leaves of a pytree may be anything
            return f"KVCache({self.keys!r}, {self.values!r}, {self.lengths!r}, {self.starts!r})"

    @_as_operation
    def select(self, axis: Hashable, index: ArrayLike) -> KVCache:
        """Select one layer for `positions`, `append` and `attend`. Nothing is copied.

        Args:
          axis: an axis name of `lengths`, such as `"layers"`.
          index: an integer without axes, such as the number of a step of a loop.

        Returns:
          A cache whose methods read and write one layer. `whole` returns the cache of all layers.

        Communication: none. If `axis` is sharded, `attend` takes an all-reduce of the layer's keys
        and values, and only the device of the layer writes it.

        Raises:
          AxisNotFoundError: `lengths` lacks `axis`. Name it in `rows=` of `KVCache.init`.
          ArgumentTypeError: `index` is not an integer.
          ArgumentError: `index` has axes or is known to be out of range, or a layer is selected.

        >>> import jax.numpy as jnp, namedax as nx
        >>> cache = nx.nn.KVCache.init({"layers": 2, "cache": 3, "key": 1}, rows=["layers"])
        >>> x = nx.named(jnp.ones((1, 1)), ["pos", "key"])
        >>> cache = cache.select("layers", 1).append(x, x).whole()
        >>> cache.lengths.data.tolist(), cache.keys.data.ravel().tolist()
        ([0, 1], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
        """
        op = "KVCache.select"
        if self.selection is not None:
            raise ArgumentError(
                f"{op}: an index along {self.selection.axis!r} is selected already. Call"
                " cache.whole() first."
            )
        if not isinstance(self.lengths, NamedArray) or axis not in dims_of(self.lengths):
            raise_not_found(
                op,
                axis,
                f"lengths, {type_text(self.lengths)}",
                names_of(dims_of(self.lengths)),
                "Name the axis of the layers in rows= of KVCache.init.",
            )
        number: AnyArray = as_array(index, op)
        if not jnp.issubdtype(number.dtype, jnp.integer):
            raise ArgumentTypeError(
                f"{op}: index must be an integer, got {type_text(number)}. Pass the number of a"
                " layer."
            )
        if number.ndim or dims_of(number):
            raise ArgumentError(
                f"{op}: index must be one integer, got {type_text(number)}. Select in a loop over"
                f" {axis!r}."
            )
        known, size = _known(number), self.lengths.named_shape[axis]
        if known is not None and not 0 <= known < size:
            raise ArgumentError(
                f"{op}: index must be from 0 to {size - 1}, as axis {axis!r} has size {size}, got"
                f" {int(known)}."
            )
        selection = _Selection(axis, number, self.lengths, self.starts)  # type: ignore[arg-type]
        starts = as_array(self.starts, op)
        if axis in dims_of(starts):
            starts = starts[axis, number]
        lengths = self.lengths[axis, number]
        return dataclasses.replace(self, lengths=lengths, starts=starts, selection=selection)

    @_as_operation
    def whole(self) -> KVCache:
        """Return the cache of all layers, after `select`.

        Communication: none.

        Raises:
          ArgumentError: no layer is selected.
          AxisNameError: rows of the layer have different lengths, along an axis that is not in
            `rows=` of `KVCache.init`.

        >>> import namedax as nx
        >>> cache = nx.nn.KVCache.init({"layers": 2, "cache": 3, "key": 1}, rows=["layers"])
        >>> cache.select("layers", 1).whole().keys.dims
        ('layers', 'cache', 'key')
        """
        op, chosen = "KVCache.whole", self.selection
        if chosen is None:
            raise ArgumentError(f"{op}: no layer is selected. Use the cache as it is.")
        new = [name for name in dims_of(self.lengths) if name not in dims_of(chosen.lengths)]
        if new:
            raise AxisNameError(
                f"{op}: the lengths of the layer, {type_text(self.lengths)}, have the axes"
                f" {show_names(new)}, but those of the cache are {type_text(chosen.lengths)}. Name"
                " the axes in rows= of KVCache.init."
            )
        lengths, starts = (
            array.at[chosen.axis, chosen.index].set(one)
            for array, one in ((chosen.lengths, self.lengths), (chosen.starts, self.starts))
        )
        return dataclasses.replace(self, lengths=lengths, starts=starts, selection=None)

    @_as_operation
    def positions(self, axis: Hashable = "pos", size: int | None = None) -> NamedArray:
        """Return the positions of the next tokens, for example for `nx.nn.rope`.

        Args:
          axis: the axis name of the new positions, by default `"pos"`.
          size: their number; by default the size of `axis` in the mapped function.

        Returns:
          Integers with `axis` and the axes of `lengths`. Call it before `append`.

        Communication: none.

        Raises:
          AxisNotFoundError: `axis` has no size.

        >>> import namedax as nx
        >>> nx.nn.KVCache.init({"cache": 8, "key": 4}).positions(size=3).data.tolist()
        [0, 1, 2]
        """
        op = "KVCache.positions"
        self._check_new_axis(op, axis)
        result: NamedArray = global_index(op, axis, size_of(op, axis, size, "size=")) + self.lengths
        return result

    @_as_operation
    def append(
        self,
        key: ArrayLike,
        value: ArrayLike | None = None,
        axis: Hashable = "pos",
        lengths: ArrayLike | None = None,
    ) -> KVCache:
        """Write the keys and values of new positions at the end of each row.

        Args:
          key: the keys of the new positions, with `axis`; their other axes are axes of `keys`. An
            axis of `keys` that they lack is broadcast. They are converted to the dtype of `keys`.
          value: the values in the same way; `None` (default) if they are a part of the keys.
          axis: the axis name of the new positions, by default `"pos"`. Its size is 1 in decoding,
            and the length of the longest prompt in the first step.
          lengths: integers, the number of new tokens of each row (a scalar, or named by axes of
            `keys`); later positions of the row are padding and not written. By default all are
            tokens. Under a trace, a number is limited to the size of `axis`.

        Returns:
          The cache with the new positions.

        Communication: none, also if the axis of the slots is sharded. If `axis` is sharded, one
        all-gather of the new keys and values.

        Raises:
          AxisNotFoundError: `key` or `value` lacks `axis`.
          AxisNameError: it has another axis that the cache lacks, or `lengths` has.
          AxisSizeError: there are more positions than slots, or an axis has two sizes.
          ArgumentError: lengths are known, and a row exceeds the slots, or a number is negative or
            larger than the size of `axis`; or `value` is missing, or passed although the values
            are a part of the keys.
          ArgumentTypeError: `lengths` are not integers, or keys are not floating-point numbers.

        >>> import jax.numpy as jnp, namedax as nx
        >>> cache = nx.nn.KVCache.init({"cache": 4, "key": 1})
        >>> new = nx.named(jnp.array([[1.0], [2.0]]), ["pos", "key"])
        >>> cache.append(new, new).append(new, new).keys.data.ravel().tolist()
        [1.0, 2.0, 1.0, 2.0]
        """
        op = "KVCache.append"
        self._check_new_axis(op, axis)
        fresh = ("appended", axis)
        self._check_has_values(op, value)
        arrays, count = {}, 0
        for which, array in (("key", key), ("value", value)):
            if array is not None:
                count = self._check_new(op, which, array, getattr(self, f"{which}s"), axis)
                # Unmapped: every device sees all new positions.
                arrays[f"{which}s"] = rename(as_array(array, op), {axis: fresh})
        chosen = self.selection
        axes: tuple[Hashable, ...] = (self.axis, fresh)
        operands: list[AnyArray] = [self.lengths]
        if chosen is not None:
            axes = (*axes, chosen.axis)
            operands.append(chosen.index)
        if lengths is None:
            new: AnyArray = np.int32(count)  # type: ignore[assignment]
        else:
            new = _clip(self._checked_lengths(op, lengths, axis, count), 0, count)
            new = new.astype(jnp.int32)
            operands.append(new)
        total: AnyArray = self.lengths + new
        self._check_overflow(op, total)
        written: dict[str, Any] = {
            name: kernels.run(op, write_slots, axes, (), getattr(self, name), array, *operands)
            for name, array in arrays.items()
        }
        return dataclasses.replace(self, **written, lengths=total, starts=total - new)

    @_as_operation
    def attend(
        self,
        query: ArrayLike,
        axis: Hashable = "pos",
        features: Hashable = "key",
        *,
        is_causal: bool = True,
        bias: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        heads: Hashable | None = None,
        key_heads: Hashable | None = None,
        scale: ArrayLike | None = None,
        local_window_size: int | tuple[int, int] | None = None,
        soft_cap: float | None = None,
        sinks: ArrayLike | None = None,
    ) -> AnyArray:
        """Compute attention of the queries of the last `append` to the positions so far.

        Args:
          query: the queries of the positions that `append` has written last, with `axis` and
            `features`. The first one has the position `starts`.
          axis: the axis name of the query positions, by default `"pos"`.
          features: the axis name over which queries and keys are contracted, by default `"key"`.
          is_causal: if `True` (default), a query attends to the positions up to its own, and the
            result of padding is 0. If `False`, it attends to all filled slots (of an encoder).
          bias: as in `nx.nn.dot_product_attention`, by default `None`; the key positions have the
            name of the slots (`"cache"`).
          mask: booleans in the same way, by default `None`.
          heads: as in `nx.nn.dot_product_attention`, by default `None`.
          key_heads: as in `nx.nn.dot_product_attention`, by default `None`.
          scale: as in `nx.nn.dot_product_attention`, by default one over the root of the size of
            `features`.
          local_window_size: the number of positions that a query sees to the left and to the right
            (one integer, or two), by default all. They count within the row.
          soft_cap: as in `nx.nn.dot_product_attention`, by default `None`.
          sinks: as in `nx.nn.dot_product_attention`, by default `None`.

        Returns:
          As `nx.nn.dot_product_attention`. Rows that exceed the slots are NaN.

        Communication: none, unless the axis of the slots is sharded: then two all-reduces, of the
        largest scores, and of the sums and weighted values. With `features` sharded, the scores
        take one all-reduce. Values that are a part of sharded features are sent too, or the
        features of the result, if these are smaller.

        Raises:
          AxisNotFoundError: `query` lacks an axis.
          AxisNameError: `query` has the name of values that are a part of the keys.
          PlacementConflictError: `axis` is sharded over a mesh axis of the slots. Rename it to an
            unmapped name first.

        >>> import jax.numpy as jnp, namedax as nx
        >>> x = nx.named(jnp.array([[0.0], [2.0]]), ["pos", "key"])
        >>> cache = nx.nn.KVCache.init({"cache": 4, "key": 1}).append(x, x)
        >>> [round(float(y), 3) for y in cache.attend(x).data.ravel()]
        [0.0, 1.964]
        """
        op = "KVCache.attend"
        if not isinstance(query, NamedArray) or axis not in dims_of(query) or axis is None:
            raise_not_found(op, axis, f"query, {type_text(query)}", names_of(dims_of(query)))
        self._check_new_axis(op, axis)
        slots = global_index(op, self.axis, self.capacity)
        positions: AnyArray = self.starts + global_index(op, axis, query.named_shape[axis])
        allowed: AnyArray = slots < self.lengths
        if is_causal:
            allowed = (slots <= positions) & (positions < self.lengths)
        if local_window_size is not None:
            left, right = _window(op, local_window_size)
            allowed = allowed & (slots >= positions - left) & (slots <= positions + right)
        if mask is not None:
            allowed = allowed & mask
        keys: AnyArray = self.keys
        values: Any = self.values
        if self.selection is not None:
            at = (self.selection.axis, self.selection.index)
            keys, values = keys[at], None if values is None else values[at]
        if self.part is not None:
            name, start, stop = self.part
            values = {name: slice(start, stop)}
        result = dot_product_attention(
            *(query, keys, values, bias, allowed),
            axis=axis,
            features=features,
            key_axis=self.axis,
            heads=heads,
            key_heads=key_heads,
            scale=scale,
            soft_cap=soft_cap,
            sinks=sinks,
        )
        lost = np.asarray(np.nan, result.dtype)
        return _where(self.lengths > self.capacity, lost, result)

    # --- checks -----------------------------------------------------------------------------------

    def _check_has_values(self, op: str, value: ArrayLike | None) -> None:
        """Raise unless new values are passed if, and only if, the cache stores values."""
        if self.part is not None and value is not None:
            raise ArgumentError(
                f"{op}: value= is passed, but the cache stores only keys, and its values are"
                f" {self._part_text} of these. Leave out value=, or make the cache without value=."
            )
        if self.part is None and (value is None or isinstance(value, Mapping)):
            fact = "is missing" if value is None else f"is {format_value(value)}"
            raise ArgumentError(
                f"{op}: value {fact}, but the cache stores values, {type_text(self.values)}. Pass"
                " the new values. If they are a part of the keys, pass this part to KVCache.init,"
                " such as value={'latent': slice(0, 64)}."
            )

    def _check_new_axis(self, op: str, axis: Hashable) -> None:
        if not is_name(axis):
            raise PositionalAxisError(
                f"{op}: axis={format_value(axis)} is not an axis name. Name the axis of the new"
                " positions with nx.named first."
            )
        if axis in self.keys.dims:
            raise AxisNameError(
                f"{op}: axis={format_value(axis)} is an axis of the cache, {type_text(self.keys)}."
                " The new positions need another name than the slots."
            )

    def _names_of_new(self, stored: NamedArray) -> set[Hashable]:
        """Return the names that new keys or values may have beside the axis of positions."""
        chosen = () if self.selection is None else (self.selection.axis,)
        return {*stored.dims} - {self.axis, *chosen}

    def _check_new(
        self, op: str, which: str, array: ArrayLike, stored: NamedArray, axis: Hashable
    ) -> int:
        """Return the number of new positions of `array`, which must fit into `stored`."""
        if not isinstance(array, NamedArray) or axis not in dims_of(array):
            raise_not_found(op, axis, f"{which}, {type_text(array)}", names_of(dims_of(array)))
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ArgumentTypeError(
                f"{op}: {which} must contain floating-point numbers, got {type_text(array)}."
            )
        for what, each in ((which, array), ("the cache", stored)):
            if each.ndim:
                raise PositionalAxisError(
                    f"{op}: {what}, {type_text(each)}, has positional axes. Name them with"
                    " nx.named, or scan over them: one layer has one cache."
                )
        count: int = array.named_shape[axis]
        for name, size in array.named_shape.items():
            if name == axis:
                continue
            if name not in self._names_of_new(stored):
                raise AxisNameError(
                    f"{op}: {which}, {type_text(array)}, has the axis {name!r}, which the cache"
                    f" {type_text(stored)} lacks. Add it to named_shape in KVCache.init, or reduce"
                    " over it first."
                )
            if stored.named_shape[name] != size:
                raise AxisSizeError(
                    f"{op}: axis {name!r} has size {size} in {which}, {type_text(array)}, but"
                    f" {stored.named_shape[name]} in the cache, {type_text(stored)}."
                )
        if count > self.capacity:
            raise AxisSizeError(
                f"{op}: {count} positions {axis!r} do not fit into the {self.capacity} slots"
                f" {self.axis!r} of the cache. Make a larger one with KVCache.init."
            )
        return count

    def _checked_lengths(self, op: str, lengths: ArrayLike, axis: Hashable, count: int) -> AnyArray:
        array: AnyArray = as_array(lengths, op)
        if not jnp.issubdtype(array.dtype, jnp.integer):
            raise ArgumentTypeError(
                f"{op}: lengths must contain integers, got {type_text(array)}. They are the numbers"
                " of new tokens."
            )
        strange = [name for name in dims_of(array) if name not in self._names_of_new(self.keys)]
        if strange:
            what = f"the axes {show_names(strange)}" if None not in strange else "positional axes"
            raise AxisNameError(
                f"{op}: lengths, {type_text(array)}, has {what}, but a row has one length. Its axes"
                f" are axes of the cache, {type_text(self.keys)}, other than {self.axis!r}."
            )
        known = _known(array)
        if known is not None and known.size and not 0 <= known.min() <= known.max() <= count:
            raise ArgumentError(
                f"{op}: lengths must be from 0 to {count}, the size of {axis!r}, got"
                f" {int(known.min())} to {int(known.max())}."
            )
        return array

    def _check_overflow(self, op: str, total: AnyArray) -> None:
        known = _known(total)
        if known is not None and known.size and known.max() > self.capacity:
            raise ArgumentError(
                f"{op}: a row would have {int(known.max())} positions, but the cache has"
                f" {self.capacity} slots {self.axis!r}. Make a larger one with KVCache.init."
            )


jax.tree_util.register_dataclass(
    KVCache,
    data_fields=["keys", "values", "lengths", "starts", "selection"],
    meta_fields=["axis", "part"],
)


def _checked_part(
    op: str,
    value: Mapping[Hashable, slice],
    named_shape: Mapping[Hashable, int | None],
    value_shape: Mapping[Hashable, int | None] | None,
) -> tuple[Hashable, int, int | None]:
    """Return the name and the range of values that are a part of the keys."""
    if value_shape is not None:
        raise ArgumentError(
            f"{op}: value= and value_shape= are passed, but values that are a part of the keys are"
            " not stored. Leave out one of them."
        )
    name, (start, stop) = checked_part(op, value, "", "the features of the keys")
    if not is_name(name) or name in named_shape:
        raise AxisNameError(
            f"{op}: value={format_value(value)} needs a new axis name, which is not in"
            f" named_shape={format_value(dict(named_shape))}."
        )
    return name, start, stop


def _known(array: AnyArray) -> np.ndarray | None:
    """Return the values of an array, if they are known during tracing."""
    data = data_of(array)
    is_unknown = isinstance(data, jax.core.Tracer) or not getattr(
        data, "is_fully_addressable", True
    )
    return None if is_unknown else np.asarray(data)


def _window(op: str, size: int | tuple[int, int]) -> tuple[int, int]:
    left, right = (size, size) if isinstance(size, (int, np.integer)) else size
    if left < 0 or right < 0:
        raise ArgumentError(
            f"{op}: local_window_size must be at least 0 on both sides, got {format_value(size)}."
        )
    most = 1 << 30  # so that sums fit in 32 bits
    return min(int(left), most), min(int(right), most)


FUNCTIONS: dict[str, Callable[..., Any]] = {"KVCache": KVCache}
