# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.nn`: `jax.nn` for named arrays."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, overload

import jax
import jax.typing
from jax.nn import get_scaled_dot_general_config as get_scaled_dot_general_config  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, EitherArray
from namedax.core.array import NamedArray
from namedax.core.names import DType, PyTree
from namedax.core.results import PlainArray
from namedax.ops.nn.kv_cache import KVCache as KVCache
from namedax.ops.nn.normalization import Moments as Moments
from namedax.ops.experts.routing import Routing as Routing
from namedax.nn import initializers as initializers

def alibi_bias(
    named_shape: Mapping[Hashable, int | None],
    *,
    axis: Sequence[Hashable] = ('head', 'query', 'key'),
    offset: ArrayLike = 0,
    dtype: DType | None = None,
) -> AnyArray:
    """Build the bias of attention with linear biases (ALiBi).

    The scores decrease with the distance of key and query.

    Args:
      named_shape: the sizes of the head, query and key axes by name; `None` takes the size in the
        mapped function.
      axis: the names of the head, query and key axes, in this order; by default `("head", "query",
        "key")`. Required for other names.
      offset: as in `causal_mask`; by default 0.
      dtype: the dtype; by default the default float.

    Returns:
      An array with the three axes, `-slope[head] * |query + offset - key|`. For a power of two as
      the number of heads, the slopes are the powers of two from `2**(-8 / heads)` to `2**-8`. For
      other numbers, they are the slopes of the next smaller power, followed by every second slope
      of the next larger one.

    Communication: none.

    Raises:
      AxisNotFoundError: an axis has no size.
      ArgumentError: `axis` does not name the three axes.
    """
@overload
def avg_pool(
    x: NamedArray,
    window: Mapping[Hashable, int],
    *,
    strides: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    padding: str | Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]] = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    count_include_pad: bool = True,
) -> NamedArray:
    """Average over windows of named axes."""
@overload
def avg_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    padding: str | Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]] = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    count_include_pad: bool = True,
) -> AnyArray:
    """Average over windows of named axes.

    Args:
      x: a named array. Axes without a window are batch axes.
      window: the size of the window for every pooled axis, `{"h": 2, "w": 2}`.
      strides: the distance between windows: one number for all axes, a sequence, or a dict; by
        default the size of the window, so that windows tile the axis.
      padding: `"VALID"` (default; windows within the axis), `"SAME"` (the result has `ceil(size /
        stride)` elements), or a pair `(before, after)` for each axis, also in a dict.
        Padding is zero.
      count_include_pad: if `True` (default), windows that include padding are divided by their size. If `False`, they are
        divided by the number of their elements within the axis.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` for one axis; by default
        `None`. Required in a mapped function for axes that change their size.

    Returns:
      An array of floats. The gradient is the same as for `jax.lax.reduce_window`.

    Communication: along a sharded axis each device receives the boundary rows that its windows
    reach, by collective-permutes. If windows tile the blocks, there is none. Nothing is gathered,
    except an axis with an `out_axis` name that is not sharded over its mesh axes.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: no window fits, or an axis of the result has a different size in the mapped
        function or does not divide over its mesh axes.
      ArgumentTypeError: the window is not a mapping.
    """
def batch_norm(
    x: ArrayLike,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    var: ArrayLike | None = None,
    epsilon: float = 1e-05,
    where: ArrayLike | None = None,
) -> tuple[AnyArray, Moments]:
    """Normalize to mean 0 and variance 1 over `axis`, and return the moments too.

    In training the moments are computed from `x`, over the complete axis even if it is sharded. You
    keep a moving average of them (`update_moments`). In inference you pass that average. The
    function has no state.

    Args:
      x: an array, named or not.
      axis: the axes to normalize over: a positional axis, an axis name, or a tuple of both, such as
        `("batch", "row", "column")`.
      scale: an array that broadcasts by name, applied after the normalization; by default `None`.
      bias: an array that broadcasts by name, by default `None`.
      mean: the mean to use instead of the mean of `x`, with `var`; by default `None`.
      var: the variance to use instead of the variance of `x`, with `mean`; by default `None`.
      epsilon: the number added to the variance, by default 1e-5.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the moments.

    Returns:
      The normalized values, with the dtype of `x`, and the `Moments` used, without `axis` and in
      float32 (or float64).

    Communication: over a sharded axis, two all-reduces of the size of the mean; the gradient adds
    one. None if the moments are given.

    Raises:
      AxisNotFoundError: `x` lacks the axis; or `scale`, `bias`, `mean` or `var` is probably
        misspelled, as for `layer_norm`.
    """
def binary_cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    pos_weight: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Compute the elementwise cross-entropy of the sigmoid of `logits` with `labels`, in nats.

    Args:
      logits: an array, named or not.
      labels: probabilities, booleans or integers from 0 to 1; they broadcast by name.
      pos_weight: the weight of the positive class relative to the negative one, a number or an
        array that broadcasts; by default 1.
      where: a boolean array that broadcasts, by default `None`. Elements where it is false have
        loss 0 and no gradient, for any logits and labels.

    Returns:
      An array with the axes of all arguments. It has the dtype of the logits, or float32 for 16-bit
      logits: the loss is computed in at least 32 bits. It avoids the logarithm of a rounded
      probability, so that it is finite for all finite logits. Apply `nx.mean` over the axes to
      average.

    Communication: none.

    Raises:
      ArgumentTypeError: the logits are complex, or `where` is not boolean.
    """
def causal_mask(
    named_shape: Mapping[Hashable, int | None],
    *,
    axis: Sequence[Hashable] = ('query', 'key'),
    offset: ArrayLike = 0,
    window: int | None = None,
) -> AnyArray:
    """Build the mask for queries that only look back: true if `key <= query + offset`.

    Args:
      named_shape: the sizes of the query and key axes by name; `None` takes the size in the mapped
        function.
      axis: the names of the query axis and of the key axis, as in `nx.tril`; by default `("query",
        "key")`. Required for other names.
      offset: the number of keys before the first query, as in decoding with a cache. An integer, or
        a named array of them; by default 0.
      window: the number of keys that a query sees at most, including its own; by default all.

    Returns:
      A boolean array with the two axes, and the axes of `offset`.

    Communication: none.

    Raises:
      AxisNotFoundError: an axis has no size.
      ArgumentError: `axis` does not name both axes.
    """
@overload
def celu(x: NamedArray, alpha: ArrayLike = 1.0) -> NamedArray:
    """Continuously-differentiable exponential linear unit activation."""
@overload
def celu(x: jax.typing.ArrayLike, alpha: ArrayLike = 1.0) -> jax.Array:
    """Continuously-differentiable exponential linear unit activation."""
def combine_attention(
    parts: Sequence[tuple[ArrayLike, ArrayLike]],
) -> tuple[AnyArray, AnyArray]:
    """Combine attentions of the same queries to different keys.

    Every part is a pair of `nx.nn.dot_product_attention(..., return_residual=True)`: the result,
    and the logarithm of the sum of the exponentials of the scores. The combination is the pair of
    attention to the keys of all parts. So a loop over blocks of keys can carry one pair.

    Args:
      parts: the pairs. Their axes align by name. At most one of them has sinks.

    Returns:
      The result and the logarithm of the sum. A part whose logarithm is minus infinity has no
      weight. If this holds for all parts, the result is 0 and the logarithm minus infinity.

    Communication: none.

    Raises:
      ArgumentError: there are no parts.
      ArgumentTypeError: a part is not a pair of floating-point arrays.
      AxisNameError: a logarithm has an axis that its result lacks.
      AxisSizeError: an axis has two sizes.
    """
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike | Mapping[Hashable, slice],
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal['xla', 'cudnn'] | None = None,
    return_residual: bool = False,
    axis: Hashable | None = None,
    features: Hashable | None = None,
    key_axis: Hashable | None = None,
    heads: Hashable | None = None,
    key_heads: Hashable | None = None,
    soft_cap: float | None = None,
    segments: ArrayLike | None = None,
    key_segments: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    balance: Literal['zigzag'] | None = None,
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
      scale: a number; by default one over the root of the size of `features`.
      is_causal: if `True`, a query attends only to keys at its own position and before; by default
        `False`.
      query_seq_lengths: integers, named by batch axes, by default `None`: results of queries from
        that position on are 0.
      key_value_seq_lengths: integers, named by batch axes, by default `None`: keys from that
        position on are masked.
      local_window_size: the number of positions that a query sees to the left and to the right, by
        default all; one integer applies to both sides.
      implementation: without `axis`, as in JAX. With `axis`, `None` (the default) and `"xla"` are
        the algorithms of namedax, and `"cudnn"` is JAX's fused kernel on the block of each device,
        see below.
      return_residual: if `True`, also return the logarithm of the sum of the exponentials of each
        row of scores, with the sink. By default `False`. `nx.nn.combine_attention` combines such
        pairs. Without `axis`, as in JAX.
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
    """
@overload
def dropout(
    x: NamedArray,
    key: ArrayLike,
    rate: ArrayLike,
    *,
    shared: AxisSpec = (),
    deterministic: bool = False,
) -> NamedArray:
    """Set each element to zero with probability `rate`, and divide the others by `1 - rate`."""
@overload
def dropout(
    x: ArrayLike,
    key: NamedArray,
    rate: ArrayLike,
    *,
    shared: AxisSpec = (),
    deterministic: bool = False,
) -> NamedArray: ...
@overload
def dropout(
    x: ArrayLike,
    key: ArrayLike,
    rate: NamedArray,
    *,
    shared: AxisSpec = (),
    deterministic: bool = False,
) -> NamedArray: ...
@overload
def dropout(
    x: ArrayLike,
    key: ArrayLike,
    rate: ArrayLike,
    *,
    shared: AxisSpec = (),
    deterministic: bool = False,
) -> AnyArray:
    """Set each element to zero with probability `rate`, and divide the others by `1 - rate`.

    Source: Srivastava et al. 2014, "Dropout".

    Args:
      x: an array, named or not.
      key: a random key, or a named array of keys: one for each instance along its names.
      rate: the probability of a zero, at least 0 and less than 1; a number, or an array that
        broadcasts by name.
      shared: an axis name, a positional axis, or a tuple of both, along which elements are kept or
        dropped together; by default none.
      deterministic: if `True`, return `x` unchanged, as in inference; by default `False`.

    Returns:
      An array with the dtype and the axes of `x`. The choice of zeros is the same for every
      `axis_resources` and every physical order of `x`. The kept elements are the true elements of
      `nx.random.bernoulli(key, jnp.float32(1 - rate), x.shape, named_shape=...)`. Its named axes
      are the axes of `x` without the axes of `key` and the shared axes, in alphabetical order.
      Shared positional axes have size 1.

    Communication: none. In a mapped body every device draws for the complete array and keeps its
    block (see `nx.random`). To avoid this cost, pass one key for each instance of a mapped axis,
    `nx.random.split(key, named_shape={"batch": 128})`. Then a device draws for its own instances
    only.

    Raises:
      AxisNotFoundError: `x` lacks an axis of `shared`.
    """
@overload
def elu(x: NamedArray, alpha: ArrayLike = 1.0) -> NamedArray:
    """Exponential linear unit activation function."""
@overload
def elu(x: jax.typing.ArrayLike, alpha: ArrayLike = 1.0) -> jax.Array:
    """Exponential linear unit activation function."""
def gated_delta_rule(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    axis: Hashable = 'pos',
    features: Hashable = 'key',
    beta: ArrayLike,
    decay: ArrayLike | None = None,
    state: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    scale: ArrayLike = 1.0,
    chunk_size: int = 64,
    return_state: bool = False,
) -> Any:
    """Compute linear attention whose state is corrected by the delta rule.

    Every instance of the batch axes has a state, a matrix of the features of keys and of values. At
    a position t it decays, and then the value that it has for the key changes towards `value[t]`:

        state = exp(decay[t]) * state
        state = state + beta[t] * outer(key[t], value[t] - key[t] @ state)
        result[t] = scale * query[t] @ state

    This is the recurrence of Gated DeltaNet and Qwen3-Next (`decay` for each head), of Kimi Linear
    (for each feature) and of DeltaNet (no decay). Queries and keys are used as they are. For these
    models divide both by their Euclidean norm along `features` before; the scale is one over the
    root of the number of features. Axes align as in `nx.nn.linear_attention`.

    Args:
      query: a named array with `axis` and `features`.
      key: a named array with `axis` and `features`. The state grows without bounds if `beta` times
        the squared norm of a key is above 2.
      value: a named array with `axis`. Its axes that no other array but `state` has become axes of
        the result.
      axis: the axis name of the positions, by default `"pos"`.
      features: the axis name over which queries and keys are contracted, by default `"key"`.
      beta: the size of each update, usually from 0 to 1: a number or an array that broadcasts.
      decay: as in `nx.nn.linear_attention`, by default `None`.
      state: as in `nx.nn.linear_attention`, by default 0.
      segments: as in `nx.nn.linear_attention`, by default `None`.
      scale: a factor of the queries, a number or an array that broadcasts, by default 1.
      chunk_size: as in `nx.nn.linear_attention`, by default 64.
      return_state: if `True`, also return the state after the last position; by default `False`.

    Returns:
      As `nx.nn.linear_attention`.

    Communication: none, unless positions or features are sharded. Over positions on n devices
    ceil(log2(n)) permutes of two matrices, {features, value features} and {features, features}, and
    as many in the gradient; positions are never sent. `segments` add one number of each row.
    `return_state` adds one all-reduce of the state. Over sharded features one all-gather of each
    array that has them.

    Raises:
      AxisNotFoundError: an array lacks an axis.
      AxisNameError: `value`, `beta` or `segments` has the axis `features`, or `state` has `axis`.
      AxisSizeError: an axis has two sizes.
      PlacementConflictError: two axes of the arrays are sharded over one mesh axis.
      ArgumentError: `chunk_size` is not a positive integer.
      ArgumentTypeError: an array is not of floating-point numbers, or `segments` not of integers.

    Source: Yang, Kautz & Hatamizadeh 2024, "Gated Delta Networks: Improving Mamba2 with Delta
    Rule".
    """
@overload
def gelu(x: NamedArray, approximate: bool = True) -> NamedArray:
    """Gaussian error linear unit activation function."""
@overload
def gelu(x: PlainArray, approximate: bool = True) -> PlainArray: ...
@overload
def gelu(x: jax.typing.ArrayLike, approximate: bool = True) -> jax.Array:
    """Gaussian error linear unit activation function."""
def glu(x: ArrayLike, axis: AxisSpec = -1) -> AnyArray:
    """Gated linear unit activation function."""
def grouped_dot(
    x: ArrayLike, w: ArrayLike, axis: AxisSpec, *, groups: ArrayLike, group: Hashable,
) -> AnyArray:
    """Contract every token with the weights of its group, by `jax.lax.ragged_dot`.

    Equals `nx.dot(x, nx.take(w, groups, group), axis)`, without an array of weights for every
    token.

    Args:
      x: a named array: the tokens, with the axes of `groups` and with `axis`.
      w: a named array: the weights, with `group` and with `axis`. Its other axes are axes of the
        result; an axis that `x` has too (heads) is a batch axis.
      axis: the contracted axis names, one or a tuple.
      groups: integers, with axes of `x`: the group of every token. A number out of range belongs to
        no group: the result is zero there, and so is the gradient.
      group: the axis name of the groups in `w`.

    Returns:
      An array with the axes of `x`, and the axes of `w` alone in place of `axis`.

    Communication: it depends on the mesh axes of the groups.

    - No mesh axes, for any sharding of tokens: none, and in the gradient one reduction of the
      weights' gradient.
    - Mesh axes along which the tokens are replicated: one all-reduce of the result.
    - Mesh axes of the tokens: the cheaper of two ways. Either the weights of all groups are
      gathered, and their gradient is reduce-scattered. Or all tokens are gathered, and their
      results are reduce-scattered. On GPUs and TPUs, tokens are instead sent by
      `jax.lax.ragged_all_to_all`, each only to the device of its group; CPUs have no such
      collective.

    A sharded contracted axis costs one all-reduce of the result. There is no forward mode; reverse
    mode is of any order.

    Raises:
      AxisNotFoundError: an array lacks an axis.
      AxisNameError: an axis occurs in an array that must not have it.
      AxisSizeError: an axis has two sizes.
      ArgumentTypeError: the groups are not integers.
      PositionalAxisError: an array has positional axes.
      PlacementConflictError: two axes of the result are sharded over one mesh axis.
    """
@overload
def hard_sigmoid(x: NamedArray) -> NamedArray:
    """Hard Sigmoid activation function."""
@overload
def hard_sigmoid(x: PlainArray) -> PlainArray: ...
@overload
def hard_sigmoid(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard Sigmoid activation function."""
@overload
def hard_silu(x: NamedArray) -> NamedArray:
    """Hard SiLU (swish) activation function."""
@overload
def hard_silu(x: PlainArray) -> PlainArray: ...
@overload
def hard_silu(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard SiLU (swish) activation function."""
@overload
def hard_swish(x: NamedArray) -> NamedArray:
    """Hard SiLU (swish) activation function."""
@overload
def hard_swish(x: PlainArray) -> PlainArray: ...
@overload
def hard_swish(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard SiLU (swish) activation function."""
@overload
def hard_tanh(x: NamedArray) -> NamedArray:
    """Hard :math:`\\mathrm{tanh}` activation function."""
@overload
def hard_tanh(x: PlainArray) -> PlainArray: ...
@overload
def hard_tanh(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard :math:`\\mathrm{tanh}` activation function."""
@overload
def identity(x: NamedArray) -> NamedArray:
    """Identity activation function."""
@overload
def identity(x: PlainArray) -> PlainArray: ...
@overload
def identity(x: jax.typing.ArrayLike) -> jax.Array:
    """Identity activation function."""
@overload
def layer_norm(
    x: NamedArray,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-05,
    where: ArrayLike | None = None,
) -> NamedArray:
    """Normalize to mean 0 and variance 1 over `axis`, then multiply by `scale` and add `bias`."""
@overload
def layer_norm(
    x: ArrayLike,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-05,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Normalize to mean 0 and variance 1 over `axis`, then multiply by `scale` and add `bias`.

    Args:
      x: an array, named or not.
      axis: the axes to normalize over: a positional axis, an axis name, or a tuple of both.
      scale: an array that broadcasts by name, by default `None`; it may have the normalized axes.
      bias: an array that broadcasts by name, by default `None`.
      epsilon: the number added to the variance, by default 1e-5.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the statistics, but are normalized too.

    Returns:
      An array with the dtype and the axes of `x`, and the additional axes of `scale`, `bias` and
      `where`.

    Communication: over a sharded axis, two all-reduces of the size of the mean; the gradient adds
    one.

    Raises:
      AxisNotFoundError: `x` lacks the axis. Also if `scale` or `bias` is probably misspelled: it
        has no axis of `x`, or a name close to an axis of `x` that it lacks.
    """
@overload
def leaky_relu(x: NamedArray, negative_slope: ArrayLike = 0.01) -> NamedArray:
    """Leaky rectified linear unit activation function."""
@overload
def leaky_relu(x: jax.typing.ArrayLike, negative_slope: ArrayLike = 0.01) -> jax.Array:
    """Leaky rectified linear unit activation function."""
def linear_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    axis: Hashable = 'pos',
    features: Hashable = 'key',
    decay: ArrayLike | None = None,
    state: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    scale: ArrayLike = 1.0,
    chunk_size: int = 64,
    return_state: bool = False,
) -> Any:
    """Compute causal attention without a softmax, with a state that decays.

    Every instance of the batch axes has a state, a matrix of the features of keys and of values. A
    position t changes it, and then reads it:

        state = exp(decay[t]) * state + outer(key[t], value[t])
        result[t] = scale * query[t] @ state

    Mamba 2 (`decay` for each head), GLA (for each feature) and RetNet (constant) are of this form.
    Axes that no argument mentions (batch, heads) are batch axes, and broadcast by name. So heads
    that share queries and keys need a separate name: `key{batch, pos, groups, key}` and
    `value{batch, pos, groups, heads, value}`.

    Args:
      query: a named array with `axis` and `features`.
      key: a named array with `axis` and `features`.
      value: a named array with `axis`. Its axes that no other array but `state` has become axes of
        the result.
      axis: the axis name of the positions, by default `"pos"`.
      features: the axis name over which `query` and `key` are contracted, by default `"key"`.
      decay: the logarithm of the decay, a number or an array, by default `None` (no decay). It
        broadcasts by name: with `axis` for each position, with `features` for each feature. Minus
        infinity starts a new state.
      state: the state before the first position, with `features`, by default 0: the second result
        of an earlier call.
      segments: integers with `axis`, and any batch axes, by default `None`: the number of the
        packed sequence of each position. The positions of a sequence are consecutive. Each sequence
        begins with the state 0, except for the first one, which continues `state`. A position with
        a negative number belongs to no sequence: it does not change the state, and has the result
        0.
      scale: a factor of the queries, a number or an array that broadcasts, by default 1.
      chunk_size: the number of positions of a chunk, by default 64; above 16 it is rounded up to a
        multiple of 16. It changes time and memory, but not the result. Neither the positions nor
        the block of a device need to be a multiple of it.
      return_state: if `True`, also return the state after the last position; by default `False`.

    Returns:
      An array with the axes of `query`, the axes of `value` in place of `features`, and the batch
      axes of the others. It has the dtype of the operands. With `return_state` a pair: this array,
      and the state with these batch axes, `features` and the axes of `value`, of float32 (or
      float64). All computations are in this dtype.

    **Decoding.** With `state`, the arrays may have one position, or lack `axis`. A sequence in
    parts, each with the state of the part before, has the result of the complete sequence.

    Communication: none, unless positions or features are sharded. Over positions on n devices
    ceil(log2(n)) permutes of the state and of the total decay of each device, and as many in the
    gradient; positions are never sent. `segments` add one number of each row. `return_state` adds
    one all-reduce of the state. Over sharded features one all-reduce of the result.

    Raises:
      AxisNotFoundError: an array lacks an axis.
      AxisNameError: `value` has the axis `features`, `segments` has it, or `state` has `axis`.
      AxisSizeError: an axis has two sizes.
      PlacementConflictError: two axes of the arrays are sharded over one mesh axis.
      ArgumentError: `chunk_size` is not a positive integer.
      ArgumentTypeError: an array is not of floating-point numbers, or `segments` not of integers.

    Source: Dao & Gu 2024, "Transformers are SSMs: Generalized Models and Efficient Algorithms
    Through Structured State Space Duality".
    """
def load_balancing_loss(
    routing: Routing,
    over: AxisSpec,
    *,
    where: ArrayLike | None = None,
    normalization: Literal['switch', 'mixtral'] = 'switch',
) -> AnyArray:
    """Measure the imbalance of the choice of experts.

    The loss is 1 if all experts are chosen alike, up to their number if only one is chosen. It is
    `experts * sum_e f_e P_e`. `f_e` is the share of expert `e` in all choices, which is not
    differentiated, and `P_e` is its mean probability. Source: Fedus et al., "Switch transformers",
    2021, equations 4 to 6; there a token has one choice, here all of its choices count.

    Args:
      routing: the result of `top_k_routing`.
      over: the axis name of the tokens, or a tuple of names, over which to average. Other axes are
        kept: with `over="pos"` every sequence of a batch has its own loss (and a batch on a
        `SerialLoop` needs one pass).
      where: booleans with axes of the tokens, such as an attention mask, by default `None`: tokens
        where it is false do not count.
      normalization: `"switch"` (default) as above. `"mixtral"` multiplies by the number of choices
        per token: `f_e` is the mean number of choices of expert `e` per token, as in Hugging
        Face's `load_balancing_loss_func` of Mixtral and its successors.

    Returns:
      The loss, with the axes of the routing that are not in `over`.

    Hugging Face's models average over all layers before the product. For this, return the routing
    of each layer from `nx.scan`, and pass the axis of the layers in `over`:

        x, routing = nx.scan(layer, x, params, axis="layers")
        over = ("layers", "batch", "pos")
        loss = nx.nn.load_balancing_loss(routing, over, where=mask, normalization="mixtral")

    Communication: over sharded axes, an all-reduce of the shares and one of the means, with one
    number per expert each.

    Raises:
      AxisNotFoundError: the routing lacks an axis.
      ArgumentTypeError: `where` does not contain booleans.
      ArgumentError: `normalization` is unknown.
    """
@overload
def log1mexp(x: NamedArray) -> NamedArray:
    """Numerically stable calculation of :math:`\\log(1 - \\exp(-x))`."""
@overload
def log1mexp(x: PlainArray) -> PlainArray: ...
@overload
def log1mexp(x: jax.typing.ArrayLike) -> jax.Array:
    """Numerically stable calculation of :math:`\\log(1 - \\exp(-x))`."""
@overload
def log_sigmoid(x: NamedArray) -> NamedArray:
    """Log-sigmoid activation function."""
@overload
def log_sigmoid(x: PlainArray) -> PlainArray: ...
@overload
def log_sigmoid(x: jax.typing.ArrayLike) -> jax.Array:
    """Log-sigmoid activation function."""
@overload
def log_softmax(
    x: NamedArray, axis: AxisSpec = -1, where: ArrayLike | None = None,
) -> NamedArray:
    """Compute the logarithm of `softmax` without overflow."""
@overload
def log_softmax(x: ArrayLike, axis: AxisSpec = -1, where: ArrayLike | None = None) -> AnyArray:
    """Compute the logarithm of `softmax` without overflow.

    Args:
      x: an array, named or not.
      axis: the axis or axes to normalize over, positional or named; by default -1.
      where: a boolean array, named or not, by default `None`; elements where it is false are `-inf`
        and do not count.

    Returns:
      An array with the axes of `x`.

    Communication: as for `nx.nn.softmax`.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
    """
def logmeanexp(
    x: ArrayLike, axis: AxisSpec = None, where: ArrayLike | None = None, keepdims: bool = False,
) -> AnyArray:
    """Compute `log(mean(exp(x)))` over positional and named axes, without overflow.

    Args:
      x: an array, named or not.
      axis: the axes, as for `logsumexp`; by default `None`, all positional axes.
      where: a boolean array, named or not, by default `None`; elements where it is false are
        excluded.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.

    Communication: over sharded axes, two all-reduces, and a third one with `where`.

    Raises:
      AxisNotFoundError: `x` lacks a name.
    """
def logsumexp(
    a: ArrayLike,
    axis: AxisSpec = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute `log(sum(b * exp(x)))` over positional and named axes, without overflow.

    See `nx.logsumexp`.
    """
@overload
def max_pool(
    x: NamedArray,
    window: Mapping[Hashable, int],
    *,
    strides: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    padding: str | Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]] = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> NamedArray:
    """Take the maximum over windows of named axes."""
@overload
def max_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    padding: str | Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]] = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Take the maximum over windows of named axes.

    Args:
      x: a named array. Axes without a window are batch axes.
      window: the size of the window for every pooled axis, `{"h": 2, "w": 2}`.
      strides: the distance between windows: one number for all axes, a sequence, or a dict; by
        default the size of the window, so that windows tile the axis.
      padding: `"VALID"` (default; windows within the axis), `"SAME"` (the result has `ceil(size /
        stride)` elements), or a pair `(before, after)` for each axis, also in a dict.
        Padding is never selected.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` for one axis; by default
        `None`. Required in a mapped function for axes that change their size.

    Returns:
      An array of the same type. The gradient is the same as for `jax.lax.reduce_window`: among equal extrema the first one receives it.

    Communication: along a sharded axis each device receives the boundary rows that its windows
    reach, by collective-permutes. If windows tile the blocks, there is none. Nothing is gathered,
    except an axis with an `out_axis` name that is not sharded over its mesh axes.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: no window fits, or an axis of the result has a different size in the mapped
        function or does not divide over its mesh axes.
      ArgumentTypeError: the window is not a mapping.
    """
@overload
def min_pool(
    x: NamedArray,
    window: Mapping[Hashable, int],
    *,
    strides: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    padding: str | Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]] = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> NamedArray:
    """Take the minimum over windows of named axes."""
@overload
def min_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    padding: str | Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]] = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray:
    """Take the minimum over windows of named axes.

    Args:
      x: a named array. Axes without a window are batch axes.
      window: the size of the window for every pooled axis, `{"h": 2, "w": 2}`.
      strides: the distance between windows: one number for all axes, a sequence, or a dict; by
        default the size of the window, so that windows tile the axis.
      padding: `"VALID"` (default; windows within the axis), `"SAME"` (the result has `ceil(size /
        stride)` elements), or a pair `(before, after)` for each axis, also in a dict.
        Padding is never selected.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` for one axis; by default
        `None`. Required in a mapped function for axes that change their size.

    Returns:
      An array of the same type. The gradient is the same as for `jax.lax.reduce_window`: among equal extrema the first one receives it.

    Communication: along a sharded axis each device receives the boundary rows that its windows
    reach, by collective-permutes. If windows tile the blocks, there is none. Nothing is gathered,
    except an axis with an `out_axis` name that is not sharded over its mesh axes.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: no window fits, or an axis of the result has a different size in the mapped
        function or does not divide over its mesh axes.
      ArgumentTypeError: the window is not a mapping.
    """
@overload
def mish(x: NamedArray) -> NamedArray:
    """Mish activation function."""
@overload
def mish(x: PlainArray) -> PlainArray: ...
@overload
def mish(x: jax.typing.ArrayLike) -> jax.Array:
    """Mish activation function."""
def mixture_of_experts(
    expert: Callable[[PyTree, NamedArray], EitherArray],
    params: PyTree,
    x: ArrayLike,
    routing: Routing,
    *,
    tokens: Hashable | Sequence[Hashable],
    axis: Hashable = 'expert',
    slot: Hashable = 'slot',
    capacity: int | None = None,
    chunk: int | None = None,
) -> AnyArray:
    """Apply the chosen experts to every token, and sum their results with the routing weights.

    Args:
      expert: `expert(params, x)`, a function over named axes. Its `x` has the axes `axis`, `slot`
        and the features, and lists all tokens that chose an expert. It returns an array with
        `axis`, `slot` and any features. It must process every slot independently. Empty slots
        contain zeros and their results are ignored, but, as always in JAX, the derivative there
        must be finite.
      params: a pytree for `expert`. Arrays with `axis` have one slice per expert.
      x: a named array.
      routing: the experts that every token chooses; see `top_k_routing`.
      tokens: the axis name of the tokens, or a tuple of names. Other axes that `x` and the routing
        share (a batch) are groups of tokens. Axes of `x` alone are features, including positional
        axes.
      axis: the axis name of the experts, by default `"expert"`. It differs from the router's axis,
        because it may be sharded over the mesh axis of the groups or tokens.
      slot: the axis name of the slots, by default `"slot"`. It must not appear in `axis_resources`:
        slots are sharded over the mesh axes of the groups, except the mesh axes of the experts.
      capacity: the number of slots of an expert for each group, or `None` (default) to drop no
        token. Excess tokens are dropped and give zero. First choices precede second choices, then
        tokens follow in their order, row-major over `tokens`.
      chunk: without capacity, the number of slots of an expert on a device in one round; by default
        the number for an even load.

    Returns:
      An array with the axes of `x`, except that its features are the features of the experts'
      results. It has their dtype.

    Communication: it depends on the mesh axes of the experts; parameters are not moved. Without
    mesh axes, none. Over mesh axes along which the tokens are replicated, one all-reduce of the
    results. Over mesh axes of groups of tokens, one all-to-all of the slots and one back, and the
    same two in the gradient. If `capacity` is counted along a sharded axis, also an all-gather of
    the counts; a reduce-scatter fills the slots, and an all-gather returns the results.

    Without capacity the derivative is of first order and in reverse mode only; arrays that `expert`
    closes over have gradients too.

    Raises:
      AxisNotFoundError: `x` or the routing lacks an axis, or the result of `expert` lacks `axis` or
        `slot`.
      AxisNameError: `axis` or `slot` is not an axis name, or is an axis of `x`, or the result of
        `expert` has a token axis.
      AxisSizeError: `x` and the routing, or `params` and the routing, disagree about a size.
      UnevenAxisError: the experts do not divide over their mesh axes, and no argument of the mapped
        function has `axis`.
      PipelineError: in an `nx.pipeline`, the microbatches do not divide the tokens of a device.
      AxisResourceError: `axis_resources` contains `slot` or the axis of the choices.
      ArgumentError: `capacity` or `chunk` is not a positive integer, or both are given.
      PlacementConflictError: a feature is sharded over a mesh axis of the experts.
    """
def moments(x: ArrayLike, axis: AxisSpec, *, where: ArrayLike | None = None) -> Moments:
    """Compute mean and variance over `axis`, in float32 (or float64).

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count.

    Returns:
      The `Moments`, without `axis`.

    Communication: over a sharded axis, two all-reduces of the size of the mean; the gradient adds
    none.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
    """
def one_hot(
    x: ArrayLike,
    num_classes: int | None = None,
    *,
    dtype: DType | None = None,
    axis: Hashable = -1,
) -> AnyArray:
    """Encode integers as one-hot vectors along a new axis, which may be named.

    Args:
      x: an integer array, named or not.
      num_classes: the size of the new axis. Optional for a named axis, which takes its size in the
        mapped function. By default `None`.
      dtype: the dtype; by default the default float.
      axis: the name of the new axis, or its index among the positional axes of the result; by
        default -1.

    Returns:
      1 where the index along the new axis equals `x`, else 0; an `x` out of range gives zeros.

    Communication: none; a sharded new axis is never complete on one device.

    Raises:
      AxisNotFoundError: the new axis has no size.
      AxisSizeError: `num_classes` differs from the size of the axis in the mapped function.
    """
def prefix_mask(
    named_shape: Mapping[Hashable, int | None],
    prefix: ArrayLike,
    *,
    axis: Sequence[Hashable] = ('query', 'key'),
    offset: ArrayLike = 0,
) -> AnyArray:
    """Build the mask for sequences with a given prefix.

    A query sees the prefix and all keys up to its own position.

    Args:
      named_shape: as in `causal_mask`.
      axis: as in `causal_mask`; by default `("query", "key")`.
      prefix: the length of the prefix. An integer, or a named array of them, one for every element
        of a batch.
      offset: as in `causal_mask`; by default 0.

    Returns:
      A boolean array with the two axes, and the axes of `prefix` and `offset`.

    Communication: none.

    Raises:
      AxisNotFoundError: an axis has no size.
      ArgumentError: `axis` does not name both axes.
    """
def relative_position_bias(
    table: ArrayLike,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
    *,
    axis: Hashable,
    bidirectional: bool = True,
    max_distance: int = 128,
) -> AnyArray:
    """Read T5's relative position bias of every query and key from a table.

    Pass the result to `nx.nn.dot_product_attention` as `bias=`, with the key positions named as
    its `key_axis`.

    Args:
      table: the learned numbers, a named array with `axis` and others, such as the heads.
      query_positions: integers, with the axis of the query positions (and batch axes), such as
        `nx.arange(axis="pos")`.
      key_positions: integers, with the axis of the key positions (and batch axes), such as
        `nx.arange(64, axis="key_pos")`.
      axis: the axis name of the buckets in `table`; its size is their number.
      bidirectional: as in `nx.nn.relative_position_buckets`, by default `True`.
      max_distance: as in `nx.nn.relative_position_buckets`, by default 128.

    Returns:
      An array with the axes of `table` except `axis`, and those of both positions.

    Communication: none, unless `axis` is sharded; then as for `nx.take`. If positions are sharded,
    the gradient of `table` takes one all-reduce.

    Raises:
      AxisNotFoundError: `table` lacks the axis.
      AxisNameError: both positions have the same axes, so that keys and queries would be pairs.
      ArgumentTypeError: positions are not integers.
      ArgumentError: the table has too few buckets, or `max_distance` is too small.
    """
def relative_position_buckets(
    distance: ArrayLike, buckets: int, *, bidirectional: bool = True, max_distance: int = 128,
) -> AnyArray:
    """Assign distances of positions to buckets, as T5 does.

    Small distances have a bucket each. Buckets of larger distances grow logarithmically up to
    `max_distance`; the last bucket has all distances from there on.

    Args:
      distance: integers, the position of the key minus the position of the query.
      buckets: the number of buckets.
      bidirectional: if `True` (default), half of the buckets are for keys after the query, as in
        encoders. If `False`, as in decoders, these have bucket 0.
      max_distance: the distance from which on there is one bucket, by default 128.

    Returns:
      An int32 array with the axes of `distance`.

    Communication: none.

    Source: Raffel et al., "Exploring the limits of transfer learning", 2019, section 2.1, and its
    published code.

    Raises:
      ArgumentTypeError: `distance` does not contain integers.
      ArgumentError: `buckets` or `max_distance` is too small.
    """
@overload
def relu(x: NamedArray) -> NamedArray:
    """Rectified linear unit activation function."""
@overload
def relu(x: PlainArray) -> PlainArray: ...
@overload
def relu(x: jax.typing.ArrayLike) -> jax.Array:
    """Rectified linear unit activation function."""
@overload
def relu6(x: NamedArray) -> NamedArray:
    """Rectified Linear Unit 6 activation function."""
@overload
def relu6(x: PlainArray) -> PlainArray: ...
@overload
def relu6(x: jax.typing.ArrayLike) -> jax.Array:
    """Rectified Linear Unit 6 activation function."""
@overload
def rms_norm(
    x: NamedArray,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-06,
    where: ArrayLike | None = None,
) -> NamedArray:
    """Divide by the root mean square over `axis`, then multiply by `scale`."""
@overload
def rms_norm(
    x: ArrayLike,
    axis: AxisSpec,
    *,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-06,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Divide by the root mean square over `axis`, then multiply by `scale`.

    Args:
      x: an array, named or not.
      axis: the axes to normalize over: a positional axis, an axis name, or a tuple of both.
      scale: an array that broadcasts by name, by default `None`; it may have the normalized axes.
      epsilon: the number added to the mean square, by default 1e-6.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the statistics, but are normalized too.

    Returns:
      An array with the dtype and the axes of `x`, and the additional axes of `scale` and `where`.

    Communication: over a sharded axis, one all-reduce of the size of the mean; the gradient adds
    one.

    Raises:
      AxisNotFoundError: `x` lacks the axis, or `scale` is probably misspelled, as for
        `nx.nn.layer_norm`.
    """
def rope(
    x: ArrayLike,
    positions: ArrayLike,
    axis: Hashable,
    *,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    pairing: Literal['halves', 'interleaved'] = 'halves',
    size: int | None = None,
    sections: Mapping[Hashable, Sequence[int]] | None = None,
    sections_interleaved: bool = False,
    length: ArrayLike | None = None,
) -> AnyArray:
    """Rotate pairs of features by angles in proportion to the position (RoPE).

    Pair `i` of `size / 2` pairs is rotated by `position * base**(-2 * i / size)`. Apply it to the
    queries and to the keys.

    Args:
      x: a named array of floating-point numbers with `axis`, such as queries or keys.
      positions: integers, a scalar or an array whose axes align by name with `x`: `nx.arange(axis=
        "pos")`, or `r.positions` of an `nx.Ragged`. Its axes that `x` lacks become axes of the
        result.
      axis: the axis name of the features of one head.
      base: the base of the frequencies, by default 10000.0 (`rope_theta` in configurations).
      scaling: a mapping with the entries of `rope_scaling` or `rope_parameters` in a `config.json`
        of Hugging Face, by default `None`; `nx.nn.rope_scaling` reads it from a file. Its
        `rope_type` (or `type`) is one of:

        - `"default"`, or `"mrope"` (`mrope_section`);
        - `"linear"` (`factor`);
        - `"proportional"` (optionally `factor` = 1): `partial_rotary_factor` is then the share of
          pairs with a frequency, among all features;
        - `"dynamic"` (`factor`, `original_max_position_embeddings`): the base grows with `length`;
        - `"llama3"` (`factor`, `low_freq_factor`, `high_freq_factor`,
          `original_max_position_embeddings`);
        - `"yarn"` (`factor`, `original_max_position_embeddings`, and optionally `beta_fast` = 32,
          `beta_slow` = 1, `attention_factor`, `mscale`, `mscale_all_dim`, `truncate` = true);
        - `"longrope"` (`short_factor`, `long_factor`, `original_max_position_embeddings`, and
          `factor` or `attention_factor`): a divisor for every pair, by `length`.

        If it has `rope_theta`, `partial_rotary_factor`, `mrope_section` or `mrope_interleaved`,
        they must agree with `base`, `size`, `sections` and `sections_interleaved`.
      pairing: `"halves"` (default) pairs feature `i` with feature `i + size / 2`, as `rotate_half`
        in Hugging Face's models (Llama, Gemma, GPT-NeoX). `"interleaved"` pairs features `2 * i`
        and `2 * i + 1`, as RoFormer, GPT-J and Llama's own checkpoints.
      size: the number of features to rotate, from the first one on; by default the share
        `partial_rotary_factor` of `scaling`, or all. The others are unchanged.
      sections: for positions with several components, such as time, height and width: the axis name
        of the components, with the number of pairs that each one rotates, `{"component": [16, 24,
        24]}` (`mrope_section`). `positions` has this axis. By default `None`.
      sections_interleaved: if `False` (default), consecutive pairs form a section, as in Qwen2-VL.
        If `True`, the components alternate, and the first one has the rest, as in Qwen3-VL.
      length: an integer, or integers whose axes align with `x`: the length of the sequences, for
        `"dynamic"` and `"longrope"`. By default one more than the largest of all positions. Other
        types do not depend on it. Rotate all keys of a sequence for one length; if they are in a
        cache, pass its final length.

    Returns:
      An array with the axes of `x` and of `positions` (except the components), and the dtype of
      `x`. Angles and rotations are computed in float32 (or float64, if `x` has it).

    Communication: none, unless `axis` is sharded. Then one collective-permute or all-to-all sends
    the features whose pairs are on other devices, at most a block; with `"interleaved"` and an even
    number of features per device none. With `"dynamic"` or `"longrope"` and no `length`, an
    all-reduce of one number, if an axis of `positions` is sharded.

    Sources: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023; Ding et al., "LongRoPE", 2024;
    Wang et al., "Qwen2-VL", 2024.

    Raises:
      AxisNotFoundError: `x` lacks the axis, or `positions` the axis of the components.
      AxisNameError: `positions` or `length` has the axis, or `x` the axis of the components.
      AxisSizeError: `size` is not an even number from 2 to the size of the axis, or the sections
        are not those of the components or have another number of pairs.
      ArgumentTypeError: `positions` or `length` does not contain integers, or `x` does not contain
        floating-point numbers.
      ArgumentError: `scaling` has an unknown type, or an unknown, missing or invalid entry, or
        entries that do not agree with the arguments; or `sections` is no list of positive integers.
    """
def rope_scaling(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the scaling of rotary positions from a configuration of Hugging Face, and check it.

    Args:
      config: the entries of a `config.json`; of a multimodal model, those of its `text_config`. The
        scaling is the entry `rope_parameters` or `rope_scaling`. If each type of layer has its own,
        pass the configuration with one of them: `config | {"rope_parameters": one}`.

    Returns:
      The entries for `scaling=` of `nx.nn.rope`, or `None` if there are none. They include the
      entries that a file has beside them: `partial_rotary_factor`,
      `original_max_position_embeddings`, and `max_position_embeddings` as the original length of
      `"dynamic"`, or in proportion to the original length as a missing `factor` of `"yarn"` and
      `"longrope"`.

    Communication: none.

    Raises:
      ArgumentError: an entry is missing, unknown or invalid, or each type of layer has a scaling.
      ArgumentTypeError: the scaling is not a mapping.
    """
def router_z_loss(logits: ArrayLike, axis: Hashable, over: AxisSpec) -> AnyArray:
    """Return the mean square of the router's log-partition, which keeps logits small.

    Args:
      logits: the router's scores, a named array with `axis`.
      axis: the name of the router's axis.
      over: the axis name of the tokens, or a tuple of names, over which to average; other axes are
        kept.

    Returns:
      The loss, with the axes of `logits` that are neither `axis` nor in `over`.

    Source: Zoph et al., "ST-MoE", 2022, equation 5.

    Communication: over sharded axes, one all-reduce of the result; along a sharded `axis` as for
    `nx.logsumexp`.

    Raises:
      AxisNotFoundError: `logits` lacks an axis.
    """
def scaled_dot_general(
    lhs: object,
    rhs: object,
    dimension_numbers: object,
    preferred_element_type: object = ...,
    configs: list[Any] | None = None,
    implementation: Literal['cudnn'] | None = None,
) -> PyTree:
    """Scaled dot general operation."""
@overload
def scaled_matmul(
    lhs: NamedArray,
    rhs: EitherArray,
    lhs_scales: EitherArray,
    rhs_scales: EitherArray,
    preferred_element_type: DType = ...,
) -> NamedArray:
    """Scaled matrix multiplication function."""
@overload
def scaled_matmul(
    lhs: EitherArray,
    rhs: NamedArray,
    lhs_scales: EitherArray,
    rhs_scales: EitherArray,
    preferred_element_type: DType = ...,
) -> NamedArray: ...
@overload
def scaled_matmul(
    lhs: EitherArray,
    rhs: EitherArray,
    lhs_scales: NamedArray,
    rhs_scales: EitherArray,
    preferred_element_type: DType = ...,
) -> NamedArray: ...
@overload
def scaled_matmul(
    lhs: jax.Array,
    rhs: jax.Array,
    lhs_scales: jax.Array,
    rhs_scales: EitherArray,
    preferred_element_type: DType = ...,
) -> jax.Array:
    """Scaled matrix multiplication function."""
@overload
def selu(x: NamedArray) -> NamedArray:
    """Scaled exponential linear unit activation."""
@overload
def selu(x: PlainArray) -> PlainArray: ...
@overload
def selu(x: jax.typing.ArrayLike) -> jax.Array:
    """Scaled exponential linear unit activation."""
@overload
def sigmoid(x: NamedArray) -> NamedArray:
    """Sigmoid activation function."""
@overload
def sigmoid(x: PlainArray) -> PlainArray: ...
@overload
def sigmoid(x: jax.typing.ArrayLike) -> jax.Array:
    """Sigmoid activation function."""
@overload
def silu(x: NamedArray) -> NamedArray:
    """SiLU (aka swish) activation function."""
@overload
def silu(x: PlainArray) -> PlainArray: ...
@overload
def silu(x: jax.typing.ArrayLike) -> jax.Array:
    """SiLU (aka swish) activation function."""
@overload
def soft_sign(x: NamedArray) -> NamedArray:
    """Soft-sign activation function."""
@overload
def soft_sign(x: PlainArray) -> PlainArray: ...
@overload
def soft_sign(x: jax.typing.ArrayLike) -> jax.Array:
    """Soft-sign activation function."""
@overload
def softmax(x: NamedArray, axis: AxisSpec = -1, where: ArrayLike | None = None) -> NamedArray:
    """Compute the softmax over an axis or a tuple of axes: the elements are positive and sum to 1."""
@overload
def softmax(x: ArrayLike, axis: AxisSpec = -1, where: ArrayLike | None = None) -> AnyArray:
    """Compute the softmax over an axis or a tuple of axes: the elements are positive and sum to 1.

    Args:
      x: an array, named or not.
      axis: the axis or axes to normalize over, positional or named; by default -1.
      where: a boolean array, named or not, by default `None`; elements where it is false are 0 and
        do not count.

    Communication: over a sharded axis, two all-reduces of the reduced size, for the maximum and for
    the sum; the gradient adds one.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
    """
def softmax_cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: AxisSpec = -1,
    *,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    where: ArrayLike | None = None,
) -> AnyArray:
    """Compute the cross-entropy of the softmax of `logits` with integer labels, in nats, per token.

    The loss is `logsumexp(logits) - logits[label]`.

    Args:
      logits: an array, named or not.
      labels: integers, named or not, without `axis`; they broadcast by name. A label below zero, or
        not below the size of the axis, is not a class: the loss of its token is NaN, and so is its
        gradient (unless `where` excludes the token). In particular -1 is not the last class.
      axis: the axis of the classes, named or positional; by default -1.
      z_loss: a number z, by default 0; adds `z * logsumexp(logits)**2` (Chowdhery et al. 2022,
        "PaLM", section 5).
      label_smoothing: a number s, at least 0 (default) and below 1. The target is `1 - s` for the
        label, plus `s` divided over all classes (Szegedy et al. 2016, "Rethinking the Inception
        Architecture").
      where: a boolean array that broadcasts by name, by default `None`. Without `axis` it selects
        tokens; with it, it selects classes (and can exclude the padding of a vocabulary). If no
        class is selected, the loss and the gradient are zero for any logits and labels.

    Returns:
      An array with the axes of `logits` except `axis`, and the additional axes of `labels` and
      `where`. It has the dtype of the logits, or float32 for 16-bit logits: the loss is computed in
      at least 32 bits. The gradient has the dtype of the logits.

    Communication: over a sharded axis, two all-reduces, with one number per token for the maximum
    and two for the sums. With `where` over the classes the sums take three numbers; for their mean
    over tokens, one. The gradient adds none, and the logits are not moved. With a `SerialLoop` on
    the axis, logits that the body computes exist for some of the classes at a time.

    Raises:
      AxisNotFoundError: `logits` lacks the axis.
      AxisNameError: `labels` have the axis of the classes.
      AxisSizeError: an axis has two sizes, or there are no classes.
      PlacementConflictError: `labels` have another axis that is sharded over the mesh axis of
        `axis`.
      ArgumentTypeError: the labels are not integers, or `where` is not boolean.
      ArgumentError: `z_loss` or `label_smoothing` is out of range.
    """
@overload
def softplus(x: NamedArray) -> NamedArray:
    """Softplus activation function."""
@overload
def softplus(x: PlainArray) -> PlainArray: ...
@overload
def softplus(x: jax.typing.ArrayLike) -> jax.Array:
    """Softplus activation function."""
@overload
def sparse_plus(x: NamedArray) -> NamedArray:
    """Sparse plus function."""
@overload
def sparse_plus(x: PlainArray) -> PlainArray: ...
@overload
def sparse_plus(x: jax.typing.ArrayLike) -> jax.Array:
    """Sparse plus function."""
@overload
def sparse_sigmoid(x: NamedArray) -> NamedArray:
    """Sparse sigmoid activation function."""
@overload
def sparse_sigmoid(x: PlainArray) -> PlainArray: ...
@overload
def sparse_sigmoid(x: jax.typing.ArrayLike) -> jax.Array:
    """Sparse sigmoid activation function."""
@overload
def squareplus(x: NamedArray, b: ArrayLike = 4) -> NamedArray:
    """Squareplus activation function."""
@overload
def squareplus(x: jax.typing.ArrayLike, b: ArrayLike = 4) -> jax.Array:
    """Squareplus activation function."""
@overload
def standardize(
    x: NamedArray,
    axis: AxisSpec = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-05,
    where: ArrayLike | None = None,
    *,
    algorithm: str = 'fast',
) -> NamedArray:
    """Normalize to mean 0 and variance 1 over `axis`: `jax.nn.standardize`, by name or position."""
@overload
def standardize(
    x: ArrayLike,
    axis: AxisSpec = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-05,
    where: ArrayLike | None = None,
    *,
    algorithm: str = 'fast',
) -> AnyArray:
    """Normalize to mean 0 and variance 1 over `axis`: `jax.nn.standardize`, by name or position.

    Args:
      x: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; by default -1.
      mean: the mean to use instead of the mean of `x`, by default `None`; it broadcasts by name.
      variance: the variance to use instead of the variance of `x`, by default `None`.
      epsilon: the number added to the variance, by default 1e-5.
      where: a boolean array, named or not, by default `None`; elements where it is false do not
        count in the statistics.
      algorithm: `"fast"` (default) computes the variance as the mean square minus the squared mean,
        as in JAX by default. `"stable"` computes it as the mean of squared deviations, as in
        `layer_norm`, and needs one more all-reduce.

    Returns:
      An array with the dtype of `x`. Unlike JAX, it keeps statistics of 16-bit values in float32
      throughout.

    Communication: over a sharded axis, one all-reduce (`"stable"`: two); the gradient adds one.
    None if mean and variance are given.
    """
@overload
def swish(x: NamedArray) -> NamedArray:
    """SiLU (aka swish) activation function."""
@overload
def swish(x: PlainArray) -> PlainArray: ...
@overload
def swish(x: jax.typing.ArrayLike) -> jax.Array:
    """SiLU (aka swish) activation function."""
@overload
def tanh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise hyperbolic tangent of input."""
@overload
def tanh(x: PlainArray, /) -> PlainArray: ...
@overload
def tanh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise hyperbolic tangent of input.

    See `nx.tanh`.
    """
def top_k_routing(
    logits: ArrayLike,
    axis: Hashable,
    k: int,
    *,
    choice: Hashable = 'choice',
    normalize: bool = True,
) -> Routing:
    """Choose the `k` best experts for every token, with a weight for each.

    Args:
      logits: the router's scores, a named array with `axis`.
      axis: the name of the router's axis, with one element per expert.
      k: the number of experts that a token chooses.
      choice: the name of the new axis of size `k`, by default `"choice"`.
      normalize: if `True` (default), the weights of a token sum to 1. If `False`, they are the
        probabilities (Fedus et al., 2021).

    Returns:
      A `Routing`: the numbers of the experts with the largest softmax over `axis`, and their
      weights, which have a gradient. Ties choose the lower number first.

    Communication: none, unless `axis` is sharded; then as for `nx.nn.softmax` and `nx.top_k`.

    Source: Shazeer et al., "Outrageously large neural networks: the sparsely-gated
    mixture-of-experts layer", 2017.

    Raises:
      AxisNotFoundError: `logits` lacks the axis.
      AxisNameError: `choice` is not an axis name, or `logits` already has it.
      ArgumentError: `k` is not between 1 and the number of experts.
    """
def update_moments(
    average: Moments, new: Moments, momentum: float | jax.Array = 0.9,
) -> Moments:
    """Update a moving average of moments, without gradients.

    Args:
      average: the average so far.
      new: the moments of this step, as `batch_norm` returns them.
      momentum: the weight of `average`, by default 0.9; `new` has the weight `1 - momentum`.

    Communication: none.
    """
