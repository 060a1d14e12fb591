"""`dot_product_attention`: attention over named axes, also along a sharded sequence.

If the keys are not sharded (nothing is mapped, or only batch and heads are), attention is two
contractions with a softmax between them. It does not communicate. Two shardings of the sequence are
different:

**Query and key positions on the same mesh axes** (self-attention over a sharded sequence): a ring.
Every device keeps its queries. The blocks of keys and values go around the ring in n - 1 steps. In
each step every device computes with the block that it has. Scores exist for one block at a time,
because a softmax does not need all of its terms at once. The sums of the exponentials and of the
weighted values are relative to the largest score so far. They are rescaled when a larger one
appears (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"). The backward pass
saves the result and one number per row, the logarithm of its sum. It computes the scores of each
block again (Dao et al. 2022, "FlashAttention") in a second ring. The gradients of a block travel
with it in that ring (Liu et al. 2023, "Ring Attention with Blockwise Transformers"). Each of the n
blocks of keys is sent n - 1 times in the forward pass. The backward pass repeats this and sends the
gradient n - 1 times, as float32. Key heads that several query heads share are sent once. Blocks
that causality or the window masks completely are not computed, but the ring waits for the devices
that do compute. With `is_causal` the last device computes n blocks, and the first computes one.
With `balance="zigzag"` all devices compute the same number, see `attention_zigzag`.

**Key positions on mesh axes that do not shard query positions** (decoding with a sharded cache):
every device attends to its own keys. One all-reduce combines the largest scores, and one combines
the sums and weighted values.

The ring has no forward mode: `jax.jvp` of it raises JAX's error about `custom_vjp`. Reverse mode
works to any order. The second derivative differentiates the backward ring automatically, and needs
its memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import inexact_type
from namedax.core.name_scopes import Scope
from namedax.core.names import DType, MeshAxes
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.region import Region, ambient
from namedax.core.reshape import as_one
from namedax.core.strict_broadcasting import without
from namedax.core.variance import cast, varying
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    PlacementConflictError,
    format_value,
)
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.indexing.slicing import slice as slice_axes
from namedax.ops.nn.attention_blocks import BlockAttention
from namedax.ops.nn.attention_fused import FusedAttention, check_implementation
from namedax.ops.nn.attention_labels import FEATURES, KEY, KEY_HEADS, QUERY, Label, Labels, Role
from namedax.ops.nn.attention_operands import (
    OPERATION,
    Blocks,
    Names,
    Operand,
    check_names,
    checked_part,
    how_to_share,
    raise_missing_axis,
    split_heads,
)
from namedax.ops.nn.attention_positional import checked_cap, without_names
from namedax.ops.nn.attention_zigzag import ZigzagAttention, can_balance
from namedax.ops.operands import kernels
from namedax.ops.operands.broadcasting import as_block, make_result
from namedax.ops.operands.open_options import open_call
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of
from namedax.resources.padding import padded, padded_size
from namedax.resources.padding_masks import masked

__all__ = ["FUNCTIONS", "dot_product_attention"]

#: The range of the features of the key that are the values.
OfKey = tuple[int, int | None]


def _axes_on_blocks(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *_: object,
    axis: Hashable | None = None,
    implementation: str | None = None,
    **__: object,
) -> Hashable:
    """Return the axes for which attention needs blocks: the fused kernel needs them for all."""
    if axis is None or implementation != "cudnn":
        return axis
    return tuple({dim: None for x in (query, key, value) for dim in dims_of(x) if dim is not None})


@operation(_axes_on_blocks, name="dot_product_attention", on_blocks=True)
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike | Mapping[Hashable, slice],
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    axis: Hashable | None = None,
    features: Hashable | None = None,
    key_axis: Hashable | None = None,
    heads: Hashable | None = None,
    key_heads: Hashable | None = None,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    soft_cap: float | None = None,
    segments: ArrayLike | None = None,
    key_segments: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: bool = False,
    balance: Literal["zigzag"] | None = None,
) -> Any:
    """Average values over the key positions, weighted by the softmax of the scores.

    The scores are `scale * query . key + bias`; with `soft_cap`, the product is limited before the
    bias is added: `soft_cap * tanh(scale * query . key / soft_cap) + bias`. Without `axis` this is
    `jax.nn.dot_product_attention` on the positional axes, and named axes are batch axes. With
    `axis` all axes are found by name. Axes that no argument mentions (batch, heads) are batch axes.
    If `key` and `value` lack a batch axis of `query`, its instances share them. So heads that share
    keys only need a separate name: `query{batch, pos, kv_heads, group, d}` aligns with `key{batch,
    pos, kv_heads, d}`.

    Args:
      query: a named array with `axis` and `features`.
      key: a named array with `axis` (self-attention) or `key_axis`, and `features`.
      value: a named array with the positions of `key`. Its axes that no other array has (`features`
        among them) become axes of the result. Or a part of the features of `key`, with a new name,
        such as `{"latent": slice(0, 512)}`, as in multi-head latent attention: then only the key
        goes around a ring. The same holds if `value` is `key`.
      bias: an array to add to the scores, by default `None`. Its key positions have the name
        `key_axis`.
      mask: a boolean array, true where a query may attend to a key, by default `None`. Its key
        positions have the name `key_axis`. If it lacks `key_axis`, an axis that no other array has
        is an error.
      axis: the axis name of the query positions; by default `None`, for positional axes.
      features: the axis name over which `query` and `key` are contracted. By default `None`, for
        positional axes.
      key_axis: the axis name of the key positions in `bias` and `mask`; by default `"key_" + axis`.
        It also applies to `key` and `value` if they lack `axis`.
      heads: the axis name of the query heads, with `key_heads`; by default `None`. Their number is
        a multiple of the key heads, and consecutive ones share a key head, as in
        `jax.nn.dot_product_attention`.
      key_heads: the axis name of the heads of `key` and `value` in that case. Mapped like `heads`,
        or not mapped. By default `None`.
      scale: a number; by default one over the root of the size of `features`.
      is_causal: if `True`, a query attends only to keys at its own position and before; by default
        `False`.
      query_seq_lengths: integers, named by batch axes, by default `None`: results of queries from
        that position on are 0.
      key_value_seq_lengths: integers, named by batch axes, by default `None`: keys from that
        position on are masked.
      local_window_size: the number of positions that a query sees to the left and to the right, by
        default all; one integer applies to both sides.
      soft_cap: a positive number, by default `None`: scores before bias and masks are limited to
        this absolute value, as in Gemma 2.
      segments: integers with `axis`, and any batch axes, by default `None`: the number of the
        packed sequence of each position. A query attends to the keys of its own sequence. A
        negative number belongs to no sequence: such a key is masked, and such a query has the
        result 0.
      key_segments: the same for the keys, by their positions; by default `segments`, if `key` has
        `axis`.
      sinks: floating-point numbers, named by batch axes of `query` such as the heads, by default
        `None`: one more score in the softmax of each row, whose value is 0, as in GPT-OSS. So the
        weights of the keys sum to less than 1. `scale`, `soft_cap` and masks do not apply to it.
      implementation: without `axis`, as in JAX. With `axis`, `None` (the default) and `"xla"` are
        the algorithms of namedax, and `"cudnn"` is JAX's fused kernel on the block of each device,
        see below.
      return_residual: if `True`, also return the logarithm of the sum of the exponentials of each
        row of scores, with the sink. By default `False`. `nx.nn.combine_attention` combines such
        pairs. Without `axis`, as in JAX.
      balance: `"zigzag"` gives every device of a ring an equal share of a causal mask, by default
        `None`; `nx.plan` then also tries `"zigzag"`. It never changes the result, and has no effect
        without a ring. It requires `is_causal` (or a window of no positions to the right) and as
        many keys as queries.

    Returns:
      An array with the axes of `query`, the axes of `value` in place of `features`, and the batch
      axes of the others. The softmax is computed in float32 (or float64), and the result has the
      dtype of the operands. A query that may attend to no key has the result 0, whereas JAX's
      function returns the mean of the masked values. With `return_residual` a pair: this array, and
      float32 (or float64) numbers with its axes except those of `value`. They are minus infinity
      for a query that may attend to no key, without a sink. Both have gradients.

    `implementation="cudnn"` never stores the scores. It requires a GPU, operands of float16 or
    bfloat16, values with as many features as keys, and unmapped key positions and features; with
    `is_causal`, which allows a window, also unmapped query positions and as many keys as queries.
    It supports no bias, mask, lengths, segments, sinks, residual or soft cap. It has no forward
    mode and no second derivative.

    Packed sequences may have any lengths and cross devices: the segments of keys go around the ring
    with them. Blocks that have no sequence in common are not computed. `is_causal` and a window
    count within a sequence, which must have consecutive positions. See `nx.Ragged`.

    Communication: see the docstring of the module, also for the limits of derivatives. A sharded
    sequence is never gathered. The axis `key_axis` of a `bias` or `mask` is unmapped, or mapped
    like the positions of `key`. Mapped like these, it goes around the ring with the keys. With
    `features` sharded the scores take one all-reduce, and with axes of `value` alone sharded the
    gradient does. A `value` that is a part of sharded features sends these, or the features of the
    result, if that is smaller. With `balance="zigzag"` every device of the ring exchanges one block
    of each sharded operand and of the result for the chunks of its share, in two permutes of half a
    block each. The backward pass exchanges their gradients. Positions stay in order outside. Sinks
    send nothing, and neither does the residual, except for its exchange with `balance="zigzag"`.

    Raises:
      AxisNotFoundError: an array lacks an axis.
      AxisNameError: two names that must differ are equal, or `bias` or `mask` has another name for
        the key positions, or `sinks` has an axis that is no batch axis of `query`, or the name of a
        part of the key is an axis of another array.
      AxisSizeError: an axis has two sizes, the heads are not a multiple of the key heads, or
        `balance` is combined with different numbers of queries and keys.
      PlacementConflictError: two axes of one value are sharded over one mesh axis, or `balance` is
        combined with queries and keys that share only a part of their mesh axes, or
        `implementation="cudnn"` with sharded keys.
      ArgumentError: `soft_cap` is not a positive number; or only the queries have segments although
        the keys have another axis, or segments there are combined with `is_causal` or a window; or
        `balance` is unknown or the attention is not causal; or `implementation` is unknown, or
        `"cudnn"` without a GPU or with an option that it does not support.
      ArgumentTypeError: `implementation="cudnn"` has operands of another dtype, or `sinks` are not
        floating-point numbers.

    >>> import jax.numpy as jnp, namedax as nx
    >>> q = nx.named(jnp.ones((6, 4, 8)), ["pos", "head", "d"])
    >>> kv = nx.named(jnp.ones((6, 8)), ["pos", "d"])  # one for all heads
    >>> nx.nn.dot_product_attention(q, kv, kv, axis="pos", features="d", is_causal=True).dims
    ('pos', 'head', 'd')
    >>> memory = nx.named(jnp.ones((10, 8)), ["source", "d"])
    >>> names = {"axis": "pos", "key_axis": "source", "features": "d"}
    >>> nx.nn.dot_product_attention(q, memory, memory, **names).dims
    ('pos', 'head', 'd')
    """
    given = locals()
    if axis is None:
        return without_names(given)
    names = Names.of(axis, features, key_axis, heads, key_heads, query, key)
    region = ambient()
    of_key: OfKey | None = None
    if isinstance(value, Mapping):
        name, of_key = _checked_part(value, names, (query, key, bias, mask, sinks))
        index, renamed = {features: slice(*of_key)}, {features: name}
        if _is_smaller_later(query, key, of_key, names, region):
            # Only the features of a few results are sent, instead of those of the keys.
            found = dot_product_attention(**given | {"value": key})
            cut = functools.partial(slice_axes, index=index, out_axis=renamed)
            return (cut(found[0]), found[1]) if return_residual else cut(found)
        value = slice_axes(key, index, out_axis=renamed)
    elif value is key:
        of_key = 0, None
    if region is not None:
        # The name of the key positions may occur only in bias and mask, which may be missing.
        names.renamed(region.noted)
    if implementation is not None:
        check_implementation(implementation)
    window = _window(local_window_size)
    _check_balance(balance, is_causal, window)
    balance = balance or _open_balance(names, is_causal or (window is not None and not window[1]))
    soft_cap = checked_cap(soft_cap)
    if not isinstance(scale, (int, float, type(None))):  # an array may need a gradient
        query = apply_elementwise(OPERATION, jnp.multiply, query, scale)
        scale = 1.0
    optional = {
        "bias": bias,
        "mask": mask,
        "query_lengths": query_seq_lengths,
        "key_lengths": key_value_seq_lengths,
        "sinks": sinks,
    }
    optional |= _segments(names, segments, key_segments, is_causal or window is not None)
    operands: dict[str, Any] = {"query": query, "key": key, "value": value}
    operands |= {name: array for name, array in optional.items() if array is not None}
    is_fused = implementation == "cudnn"
    options = (scale, is_causal, window, soft_cap, balance is not None, is_fused, of_key)
    static = (tuple(operands), *options)
    if not return_residual:
        run = functools.partial(kernels.run, only_axes=True)
        return run(OPERATION, _attend_by_name, names, static, *operands.values())
    with Scope(kernels.scope_of(_attend_by_name, (OPERATION, names), tuple(operands.values()))):
        # A kernel has one result.
        attend = _compiled if region is None else _attend
        return without(attend, operands, names, True, *options)


def _attend_by_name(
    op: str,
    names: Names,
    given: tuple[str, ...],
    scale: float | None,
    is_causal: bool,
    window: tuple[int, int] | None,
    soft_cap: float | None,
    is_balanced: bool,
    is_fused: bool,
    of_key: OfKey | None,
    *operands: AnyArray,
) -> AnyArray:
    blocks = dict(zip(given, operands, strict=True))
    options = (scale, is_causal, window, soft_cap, is_balanced, is_fused, of_key)
    return _attend(blocks, names, False, *options)[0]


def _checked_part(
    value: Mapping[Hashable, slice], names: Names, others: Iterable[ArrayLike | None]
) -> tuple[Hashable, OfKey]:
    """Return the name of values that are a part of the key, and their range of its features.

    Raises:
      ArgumentError: the mapping is not one name with a range of features.
      AxisNameError: another array has the name.
    """
    name, part = checked_part(OPERATION, value, "an array, or ", repr(names.features))
    for array in others:
        if array is not None and name != names.features and name in dims_of(array):
            raise AxisNameError(
                f"{OPERATION}: value={format_value(value)} names the values like an axis of"
                f" {type_text(array)}. Choose a new name."
            )
    return name, part


def _is_smaller_later(
    query: ArrayLike, key: ArrayLike, of_key: OfKey, names: Names, region: Region | None
) -> bool:
    """Return True if features are sharded, and the results are smaller than this part of the key.

    The features of `query` are those of the results before they are sliced.
    """
    if region is None or not region.manual or not region.place(names.features):
        return False
    if not isinstance(query, NamedArray) or not isinstance(key, NamedArray):
        return False
    results, keys = (math.prod((*x.named_shape.values(), *x.shape)) for x in (query, key))
    count = key.named_shape.get(names.features, 0)
    return results * count <= keys * len(range(*slice(*of_key).indices(count)))


def _window(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    left, right = (size, size) if isinstance(size, (int, np.integer)) else size
    if left < 0 or right < 0:
        raise ArgumentError(
            f"{OPERATION}: local_window_size must be at least 0 on both sides, got"
            f" {format_value(size)}."
        )
    return int(left), int(right)


def _check_balance(balance: str | None, is_causal: bool, window: tuple[int, int] | None) -> None:
    if balance is None:
        return
    if balance != "zigzag":
        raise ArgumentError(
            f"{OPERATION}: balance must be 'zigzag' or None, got {format_value(balance)}."
        )
    if not is_causal and (window is None or window[1] > 0):
        raise ArgumentError(
            f"{OPERATION}: balance='zigzag' divides the work of a causal mask, but is_causal is"
            " False. Pass is_causal=True, or leave out balance=: without a causal mask every device"
            " of a ring has the same work."
        )


def _open_balance(names: Names, is_causal: bool) -> Literal["zigzag"] | None:
    """Return the value of `balance` that `nx.plan` chooses for a call that does not pass it."""
    region = ambient()
    if not is_causal or region is None or not region.manual:
        return None
    own, key = names.query, names.own_key
    if not region.place(own) or region.place(own) != region.place(key):
        return None  # there is no ring
    if own != key and (own not in region.sizes or region.sizes[own] != region.sizes.get(key)):
        return None
    call = open_call("nx.nn.dot_product_attention", balance=None)
    call.offer("balance", [{"balance": "zigzag"}])
    return "zigzag" if call.values["balance"] else None


def _segments(
    names: Names, segments: ArrayLike | None, key_segments: ArrayLike | None, is_local: bool
) -> dict[str, ArrayLike | None]:
    """Return the segments of queries and of keys: both, or neither."""
    if segments is None and key_segments is None:
        return {"query_segments": None, "key_segments": None}
    same = names.own_key == names.query
    missing = "segments" if segments is None else "key_segments"
    if segments is None or (key_segments is None and not same):
        raise ArgumentError(
            f"{OPERATION}: {missing}= is missing: the queries are along {names.query!r} and the"
            f" keys along {names.own_key!r}, and both need segments."
        )
    if is_local and not same:
        raise ArgumentError(
            f"{OPERATION}: is_causal= and local_window_size= compare the positions of"
            f" {names.query!r} and {names.own_key!r}, which count through all segments; positions"
            " along different axes are not comparable. Leave them out, and pass mask= for the keys"
            " that a query may attend to."
        )
    key_segments = segments if key_segments is None else key_segments
    for which, array, own in (
        ("segments", segments, names.query),
        ("key_segments", key_segments, names.own_key),
    ):
        if own not in dims_of(array):
            raise_missing_axis(which, own, array, "Every position needs a segment.")
        if not jnp.issubdtype(jnp.result_type(array), jnp.integer):
            raise ArgumentTypeError(
                f"{OPERATION}: {which} must contain integers, got {type_text(array)}."
            )
        for other in (names.features, names.key, names.query, names.own_key):
            if other != own and other in dims_of(array):
                raise AxisNameError(
                    f"{OPERATION}: {which}, {type_text(array)}, has the axis {other!r}, but a"
                    " position has one segment. Rename it."
                )
    return {"query_segments": segments, "key_segments": key_segments}


# --- from names to blocks -------------------------------------------------------------------------


def _attend(
    arrays: Blocks,
    names: Names,
    residual: bool,
    scale: float | None,
    is_causal: bool,
    window: tuple[int, int] | None,
    soft_cap: float | None,
    is_balanced: bool,
    is_fused: bool,
    of_key: OfKey | None,
) -> tuple[AnyArray, ...]:
    region = ambient()
    blocks = {which: as_block(array, OPERATION) for which, array in arrays.items()}
    check_names(blocks, names)
    manual = region is not None and region.manual

    def place(name: Hashable) -> MeshAxes:
        return region.place(name) if manual and region is not None else ()

    operands = {which: _label(which, block, names) for which, block in blocks.items()}
    scores = dict.fromkeys(
        label
        for which, operand in operands.items()
        if which != "value"
        for label in operand.labels
        if not isinstance(label, Role)
    )
    carried = tuple(
        label
        for label in operands["value"].labels
        if not isinstance(label, Role) and label not in scores
    )
    key_place, query_place = place(names.own_key), place(names.query)
    if region is not None and region.resources:
        _check_placement(region, names, scores, carried)

    carried_axes = tuple(a for label in carried if not isinstance(label, int) for a in place(label))
    feature_axes = place(names.features)
    moving, whole = _key_layouts(blocks, names, key_place, place)
    common: frozenset[str] = frozenset()
    if manual:
        common = _cast_together(
            blocks, operands, query_place, key_place, feature_axes, carried_axes
        )
    _check_sizes(blocks, operands, region)
    dtype = _to_common_type(operands)
    size = _size_along(operands["query"], FEATURES)
    if region is not None:
        size = region.global_size(names.features, size)
    if names.heads is not None:
        split_heads(operands, names, place(names.heads), place(names.key_heads), blocks)
    _leave_out_padding(operands, key_place, feature_axes, whole)

    kind: type[BlockAttention] = FusedAttention if is_fused else BlockAttention
    if is_balanced and not is_fused:  # the fused kernel has no ring
        sizes = _size_along(operands["query"], QUERY), _size_along(operands["key"], KEY)
        if can_balance(names, sizes, region, query_place, key_place):
            kind = ZigzagAttention
    plan = kind(
        labels={which: operand.labels for which, operand in operands.items()},
        shapes={which: operand.data.shape for which, operand in operands.items()},
        carried=carried,
        query_place=plain(query_place),
        key_place=plain(key_place),
        feature_axes=feature_axes,
        carried_axes=carried_axes,
        variance=common,
        moving=moving,
        whole=whole,
        # Without features, scores are 0.
        scale=1 / math.sqrt(max(size, 1)) if scale is None else scale,
        is_causal=is_causal,
        window=window,
        soft_cap=soft_cap,
        dtype=dtype,
        queries=query_place.size if isinstance(query_place, Uneven) else None,
        keys=key_place.size if isinstance(key_place, Uneven) else None,
        value_in_key=_value_in_key(of_key, operands, names.features, place),
        residual=residual,
    )
    if isinstance(plan, FusedAttention):
        plan.check(names)
    found = plan.run({which: operand.data for which, operand in operands.items()})
    like = operands["query"].labels
    part = plan.value_in_key if plan.sums_all and not plan.rest else None
    return tuple(
        _finish(data, labels, like, names, part)
        for data, labels in zip(found, (plan.result, plan.rows)[: len(found)], strict=True)
    )


_compiled = jax.jit(_attend, static_argnums=tuple(range(1, 10)), inline=True)


def _value_in_key(
    of_key: OfKey | None,
    operands: Mapping[str, Operand],
    features: Hashable,
    place: Callable[[Hashable], MeshAxes],
) -> tuple[Label, int, int] | None:
    """Return the label and the range of the values among the features of the block of the key.

    It is `None` if the block of the key may lack some, because its features are sharded.
    """
    if of_key is None:
        return None
    start, stop = of_key
    (label,) = (each for each in operands["value"].labels if each not in operands["key"].labels)
    is_complete = label == features and start == 0 and stop is None
    if not is_complete and (place(features) or place(label)):
        return None
    count = _size_along(operands["key"], FEATURES)
    return label, min(start, count), count if stop is None else min(stop, count)


def _size_along(operand: Operand, label: Label) -> int:
    return operand.data.shape[operand.labels.index(label)]


def _leave_out_padding(
    operands: Mapping[str, Operand],
    key_place: MeshAxes,
    feature_axes: MeshAxes,
    whole: Iterable[str],
) -> None:
    """Zero the padding of contracted axes, and pad operands with all keys like the keys."""
    for which, label, place in (
        *((which, KEY, key_place) for which in ("key", "value")),
        *((which, FEATURES, feature_axes) for which in ("query", "key")),
    ):
        operand = operands[which]
        operand.data = masked(operand.data, operand.labels.index(label), place, 0)
    for which in whole:
        if isinstance(key_place, Uneven):
            operand = operands[which]
            operand.data = padded(operand.data, operand.labels.index(KEY), padded_size(key_place))


def _cast_together(
    blocks: Blocks,
    operands: Mapping[str, Operand],
    query_place: MeshAxes,
    key_place: MeshAxes,
    feature_axes: MeshAxes,
    carried_axes: MeshAxes,
) -> frozenset[str]:
    """Cast the operands to one variance, and return it.

    Query, key and value also vary over the mesh axes of their own axes. Sinks are not cast over
    those of the keys alone: the sums of rows, to which they are added, do not vary over these.
    """
    used = frozenset(a for block in blocks.values() for a in varying(data_of(block)))
    common = (used | {*query_place, *key_place}) - set(feature_axes) - set(carried_axes)
    alone = set(key_place).difference(query_place)
    more = {"query": feature_axes, "key": feature_axes, "value": carried_axes}
    for which, block in blocks.items():
        wanted = common.union(more.get(which, ()))
        operands[which].data = cast(block, wanted - alone if which == "sinks" else wanted)
    return common


def _to_common_type(operands: Mapping[str, Operand]) -> DType:
    """Convert queries, keys and values to their common floating-point dtype, and return it."""
    common = jnp.result_type(*(operands[which].data for which in ("query", "key", "value")))
    dtype = jnp.dtype(common if jnp.issubdtype(common, jnp.inexact) else inexact_type(common))
    for which in ("query", "key", "value"):
        operands[which].data = operands[which].data.astype(dtype)
    return dtype


def _finish(
    data: jax.Array, labels: Labels, like: Labels, names: Names, part: tuple[Label, int, int] | None
) -> AnyArray:
    """Order the dimensions as in the query, join the heads again, and name the named axes.

    If the result has all features, leave out those that are no values.
    """
    carried = [label for label in labels if label not in like]
    order: list[Label] = []
    for label in like:
        order.extend(carried if label is FEATURES else [label])
    slots = [i for i, label in enumerate(order) if isinstance(label, int)]
    for i, number in zip(slots, sorted(x for x in order if isinstance(x, int)), strict=True):
        order[i] = number
    data = lax.transpose(data, [labels.index(label) for label in order])
    if part is not None and part[0] in order:
        data = lax.slice_in_dim(data, part[1], part[2], axis=order.index(part[0]))
    if KEY_HEADS in order:
        i = order.index(KEY_HEADS)
        data = as_one(data, i)
        order[i : i + 2] = [names.heads]
    return make_result(
        data, tuple(names.query if d is QUERY else None if isinstance(d, int) else d for d in order)
    )


def _label(which: str, block: AnyArray, names: Names) -> Operand:
    dims = dims_of(block)
    numbers = iter(range(-dims.count(None), 0))
    labels = tuple(next(numbers) if dim is None else names.role(which, dim) for dim in dims)
    return Operand(data_of(block), labels)


def _check_placement(
    region: Region, names: Names, scores: Iterable[Label], carried: Labels
) -> None:
    """Check that only the two kinds of positions, or of heads, share a mesh axis."""
    batch = [label for label in scores if not isinstance(label, int)]
    one_head = [] if names.heads is None or names.heads in batch else [names.heads]
    for positions in (names.query, names.own_key):
        region.check_placement(OPERATION, [*batch, *one_head, positions, names.features])
    region.check_placement(
        OPERATION, [*batch, *one_head, names.query, *(n for n in carried if not isinstance(n, int))]
    )


def _check_sizes(blocks: Blocks, operands: Mapping[str, Operand], region: Region | None) -> None:
    """Raise if a label has two sizes.

    Positional axes of size 1 that are larger in another operand are dropped.
    """
    known: dict[Label, tuple[str, int]] = {}
    for which, operand in operands.items():
        for dim, label, n in zip(
            dims_of(blocks[which]), operand.labels, operand.data.shape, strict=True
        ):
            size = n if dim is None or region is None else region.global_size(dim, n)
            first, other = known.setdefault(label, (which, size))
            if isinstance(label, int) and 1 in (size, other):
                known[label] = (which if size > other else first, max(size, other))
            elif size != other:
                what = f"positional axis {label}" if isinstance(label, int) else f"axis {dim!r}"
                raise AxisSizeError(
                    f"{OPERATION}: {what} has size {size} in {which}, {type_text(blocks[which])},"
                    f" and size {other} in {first}, {type_text(blocks[first])}. These must be"
                    " equal; if they are different axes, rename one."
                )
    for operand in operands.values():
        ones = [
            i
            for i, (label, n) in enumerate(zip(operand.labels, operand.data.shape, strict=True))
            if isinstance(label, int) and n == 1 and known[label][1] != 1
        ]
        if ones:
            operand.data = lax.squeeze(operand.data, ones)
            operand.labels = tuple(label for i, label in enumerate(operand.labels) if i not in ones)


def _key_layouts(
    blocks: Blocks, names: Names, key_place: MeshAxes, place: Callable[[Hashable], MeshAxes]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the operands with this device's block of keys, and the operands with all keys.

    Operands with all keys are masks and biases with unmapped keys, although the keys of `key` are
    sharded.
    """
    moving, whole = {"key_segments"} & set(blocks), set()
    for which in ("bias", "mask"):
        if which not in blocks or names.key not in dims_of(blocks[which]):
            continue
        own = place(names.key)
        if own == key_place:
            moving.add(which)
        elif not own:
            whole.add(which)
        else:
            where = f"mesh axes {key_place}" if key_place else "no mesh axis"
            raise PlacementConflictError(
                f"{OPERATION}: {which}, {type_text(blocks[which])}, has its key positions"
                f" {names.key!r} sharded over mesh axes {own}, but key has {names.own_key!r}"
                f" sharded over {where}. Map {names.key!r} to the same mesh axes, or leave it"
                f" unmapped in axis_resources.{how_to_share(own)}"
            )
    return frozenset(moving), frozenset(whole)


FUNCTIONS: dict[str, Callable[..., AnyArray]] = {"dot_product_attention": dot_product_attention}
