# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.nn`: `jax.nn` for named arrays."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, overload

import jax
import jax.typing
from jax.nn import get_scaled_dot_general_config as get_scaled_dot_general_config  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import Array, ArrayLike, Axis
from namedax.core.array import NamedArray
from namedax.ops.nn.normalisation import Moments as Moments
from namedax.ops.experts.routing import Routing as Routing
from namedax.nn import initializers as initializers

@overload
def alibi_bias(
    named_shape: Mapping[Hashable, int],
    *,
    axis: Sequence[Hashable] = ('head', 'query', 'key'),
    offset: Any = 0,
    dtype: Any = None,
) -> NamedArray:
    """The bias of attention with linear biases (ALiBi): the further a key is from its query, the smaller the score."""
@overload
def alibi_bias(
    *, axis: Sequence[Hashable] = ('head', 'query', 'key'), offset: Any = 0, dtype: Any = None,
) -> jax.Array:
    """The bias of attention with linear biases (ALiBi): the further a key is from its query, the smaller the score.

    Args:
      named_shape: the sizes of the heads, of the queries and of the keys by name; `None` for that of the mapped function.
      axis: the names of the heads, of the queries and of the keys, in this order. To be given where they are not called so.
      offset: as in `causal_mask`.
      dtype: element type; default: the default float.

    Returns:
      An array with the three names, `-slope[head] * |query + offset - key|`. The slopes are powers of two for a number of heads that
      is a power of two, `2**(-8 / heads)` to `2**-8`; for other numbers those of the next smaller one, and every second of the next larger
      one. Sends nothing.

    Raises:
      AxisNotFoundError: a name has no size.
      ArgumentError: `axis` does not say of the three names what they are.
    """
@overload
def avg_pool(
    x: NamedArray,
    window: Mapping[Hashable, int],
    *,
    strides: Any = None,
    padding: Any = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    count_include_pad: bool = True,
) -> NamedArray:
    """The mean over windows of named axes."""
@overload
def avg_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: Any = None,
    padding: Any = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    count_include_pad: bool = True,
) -> Array:
    """The mean over windows of named axes.

    Args:
      x: a named array. Axes without a window are batch axes.
      window: the size of the window for every axis that is pooled over, `{"h": 2, "w": 2}`.
      strides: the distance between windows: one number for all axes, a sequence, or a dict; default: the window's size, so that
        windows tile the axis.
      padding: `"VALID"` (windows that lie within the axis), `"SAME"` (the result has `ceil(size / stride)` entries), or a pair
        `(before, after)` for each axis, also in a dict. Padding is zero.
      count_include_pad: whether windows that reach into the padding are divided by their size, or by what lies within the axis.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` where there is one axis; needed in a mapped function for those
        whose size changes.

    Returns:
      An array of floats. Along a sharded axis each device gets the rows at its boundary that its windows reach, by collective-permutes:
      none where windows tile the blocks. Nothing is gathered, except an axis whose `out_axis` name is not on its mesh axes. The
      gradient is `jax.lax.reduce_window`'s.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: no window fits; or in a mapped function a name has a different size than the result, or that does not
        divide over its mesh axes.
      ArgumentTypeError: the window is not a mapping.
    """
def batch_norm(
    x: Any,
    axis: Axis,
    *,
    scale: Any = None,
    bias: Any = None,
    mean: Any = None,
    var: Any = None,
    epsilon: float = 1e-05,
    where: Any = None,
) -> tuple[Array, Any]:
    """Values with mean 0 and variance 1 over `axis`, and the moments that they had.

    In training the moments are those of `x`, over the whole axis even where it is sharded, and you keep a moving average of them
    (`update_moments`). In inference you give that average. There is no state here.

    Args:
      x: an array, named or not.
      axis: what is normalised over: a position, a name, or a tuple of both, such as `("batch", "row", "column")`.
      scale: an array that broadcasts by name, after the normalisation.
      bias: an array that broadcasts by name, too.
      mean: the mean to use instead of that of `x`; together with `var`.
      var: the variance to use instead of that of `x`.
      epsilon: added to the variance.
      where: a boolean array, named or not; elements where it is false do not count in the moments.

    Returns:
      The normalised values, of the type of `x`, and the `Moments` that were used, without `axis` and in float32 (or float64).

    Over a sharded name: two all-reduces of the size of the mean; the gradient adds one. None where the moments are given.

    Raises:
      AxisNotFoundError: `x` lacks the name; or `scale`, `bias`, `mean` or `var` looks misspelt, as for `layer_norm`.
    """
def binary_cross_entropy(
    logits: ArrayLike, labels: ArrayLike, *, pos_weight: Any = None, where: ArrayLike | None = None,
) -> Array:
    """Cross-entropy of the sigmoid of `logits` with labels between 0 and 1, in nats, for every element.

    Args:
      logits: an array, named or not.
      labels: probabilities, truth values or integers; they broadcast by name.
      pos_weight: a number or an array that broadcasts: the weight of the positive class, relative to 1 for the negative one.
      where: a boolean array that broadcasts: where the loss counts. Elsewhere it is 0 and has no gradient, whatever logits and labels are.

    Returns:
      An array with the axes of all arguments; of the type of the logits, float32 for 16-bit ones: it is computed in at least 32 bits. No
      logarithm of a rounded probability is taken, so that it is finite for all finite logits. Take `nx.mean` over the axes that you
      mean. Sends nothing.

    Raises:
      ArgumentTypeError: the logits are complex, or `where` is not boolean.
    """
@overload
def causal_mask(
    named_shape: Mapping[Hashable, int],
    *,
    axis: Sequence[Hashable] = ('query', 'key'),
    offset: Any = 0,
    window: int | None = None,
) -> NamedArray:
    """Which keys a query sees if it only looks back: true where `key <= query + offset`."""
@overload
def causal_mask(
    *, axis: Sequence[Hashable] = ('query', 'key'), offset: Any = 0, window: int | None = None,
) -> jax.Array:
    """Which keys a query sees if it only looks back: true where `key <= query + offset`.

    Args:
      named_shape: the sizes of the queries and of the keys by name; `None` for that of the mapped function.
      axis: which of the names are the queries, and which the keys, as in `nx.tril`. To be given where they are not called so.
      offset: how many keys come before the first query, as in decoding with a cache. An integer, or a named array of them.
      window: how far a query looks back: the number of keys that it sees at most, its own included; default: all.

    Returns:
      A boolean array with the two names, and those of `offset`. Sends nothing.

    Raises:
      AxisNotFoundError: a name has no size.
      ArgumentError: `axis` does not say of both names what they are.
    """
@overload
def celu(x: NamedArray, alpha: ArrayLike = 1.0) -> NamedArray:
    """Continuously-differentiable exponential linear unit activation."""
@overload
def celu(x: jax.typing.ArrayLike, alpha: ArrayLike = 1.0) -> jax.Array:
    """Continuously-differentiable exponential linear unit activation."""
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
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
    segments: Any = None,
    key_segments: Any = None,
) -> Array:
    """Attention: values, weighted with the softmax of `scale * query . key + bias` over the key positions.

    Without `axis` this is `jax.nn.dot_product_attention` on the positional axes, and names are batch axes. With `axis` all axes
    are found by name. Names that no argument mentions (batch, heads) are batch axes, wherever they are: if `key` and
    `value` lack one that `query` has, its instances share them. So heads that share keys need only a name of their own:
    `query{batch, pos, kv_heads, group, d}` meets `key{batch, pos, kv_heads, d}`.

    Args:
      query: a named array with `axis` and `features`.
      key: a named array with `axis` (self-attention) or `key_axis`, and `features`.
      value: a named array with the positions of `key`. Names that nobody else has (`features` among them) are carried to the
        result.
      bias: an array that is added to the scores. It calls the key positions `key_axis`.
      mask: a boolean array, true where a query may attend to a key. It calls the key positions `key_axis`; a name that nobody else has is
        refused where `key_axis` is missing.
      axis: the name of the query positions.
      features: the name that `query` and `key` are contracted over.
      key_axis: the name of the key positions in `bias` and `mask`, and in `key` and `value` if they lack `axis`; by default
        `"key_" + axis`.
      heads: the name of the heads of the queries where these are a multiple of those of `key` and consecutive ones share, as in
        `jax.nn.dot_product_attention`; with `key_heads`.
      key_heads: the name of the heads of `key` and `value` then. Mapped like `heads`, or not mapped.
      scale: a number; by default one over the root of the size of `features`.
      is_causal: whether a query attends only to keys at its own position and before.
      query_seq_lengths: integers, named by batch axes: results of queries from that position on are 0.
      key_value_seq_lengths: integers, named by batch axes: keys from that position on are masked.
      local_window_size: how far a query sees to the left and to the right, in positions; one integer counts for both sides.
      segments: integers with `axis`, and any batch axes: which of several packed sequences a position is of. A query attends to the keys of
        its own. A negative number belongs to none: such a key is masked, and such a query has the result 0.
      key_segments: the same for the keys, by their positions; by default `segments`, where `key` has `axis`.
      implementation: without `axis`, as in JAX.
      return_residual: without `axis`, as in JAX.

    Returns:
      An array with the names of `query`, those of `value` in place of `features`, and the batch axes of the others. The
      softmax is computed in float32 (or float64), and the result has the type of the operands. A query that may attend to no
      key at all has the result 0, whereas JAX's function gives the mean of the values that are masked.

    Packed sequences may be of any lengths and cross devices: the segments of keys go round with them, blocks that have no sequence in common are
    not computed, and `is_causal` and a window count within a sequence, whose positions are one after the other. See `nx.Ragged`.

    A mapped sequence is never gathered; see the module's text for what is sent, and for what is known of derivatives. A `bias`
    or `mask` has the axis `key_axis` unmapped, or mapped as the positions of `key` are (then it goes round with the keys). With
    `features` mapped the scores take one all-reduce, and with names of `value` alone mapped the gradient does.

    Raises:
      AxisNotFoundError: an array lacks a name.
      AxisNameError: names that must differ do not, or `bias` or `mask` has another name for the key positions.
      AxisSizeError: a name has two sizes, or the heads are not a multiple of the key heads.
      PlacementConflictError: two names on one mesh axis meet.
      ArgumentError: segments of queries alone are given where keys have another axis, or with what counts positions there.
    """
@overload
def dropout(x: NamedArray, key: Any, rate: Any, *, shared: Any = (), deterministic: bool = False) -> NamedArray:
    """Sets each element to zero with probability `rate`, and divides the others by `1 - rate` (Srivastava et al. 2014)."""
@overload
def dropout(x: ArrayLike, key: Any, rate: Any, *, shared: Any = (), deterministic: bool = False) -> Array:
    """Sets each element to zero with probability `rate`, and divides the others by `1 - rate` (Srivastava et al. 2014).

    Args:
      x: an array, named or not.
      key: a random key, or a named array of keys: one for each instance along its names.
      rate: the probability, at least 0 and less than 1; a number, or an array that broadcasts by name.
      shared: a name, a position, or a tuple of both, along which elements are kept or dropped together.
      deterministic: whether to return `x` as it is, as in inference.

    Returns:
      An array of the type and the axes of `x`. Which elements are zero is the same for every `axis_resources` and every physical
      order of `x`: kept are those where `nx.random.bernoulli(key, jnp.float32(1 - rate), x.shape, named_shape=...)` says so, with the names of `x`
      (but those of `key`) in alphabetical order, and with size 1 where they are shared.

    Sends nothing. In a mapped body every device draws for the whole array and keeps its block (see `nx.random`). Where that is too
    much, give one key for each instance of a mapped name, `nx.random.split(key, named_shape={"batch": 128})`; then a device draws for
    its own instances only.

    Raises:
      AxisNotFoundError: `x` lacks a name of `shared`.
    """
@overload
def elu(x: NamedArray, alpha: ArrayLike = 1.0) -> NamedArray:
    """Exponential linear unit activation function."""
@overload
def elu(x: jax.typing.ArrayLike, alpha: ArrayLike = 1.0) -> jax.Array:
    """Exponential linear unit activation function."""
@overload
def gelu(x: NamedArray, approximate: bool = True) -> NamedArray:
    """Gaussian error linear unit activation function."""
@overload
def gelu(x: jax.typing.ArrayLike, approximate: bool = True) -> jax.Array:
    """Gaussian error linear unit activation function."""
def glu(x: ArrayLike, axis: Axis = -1) -> Array:
    """Gated linear unit activation function."""
def grouped_dot(x: ArrayLike, w: Any, axis: Axis, *, groups: Any, group: Hashable) -> Array:
    """The contraction of every token with the weights of its group, by `jax.lax.ragged_dot`.

    `nx.dot(x, nx.take(w, groups, group), axis)`, without an array of weights for every token.

    Args:
      x: a named array: the tokens, with the names of `groups` and with `axis`.
      w: a named array: the weights, with `group` and with `axis`. Its other names are those of the result; one that `x` has too (heads) is
        a batch axis.
      axis: the names that are contracted, one or a tuple.
      groups: integers, with names of `x`: the group of every token. A number out of range is of no group: the result is zero there, and so is the
        gradient.
      group: the name of the groups in `w`.

    Returns:
      An array with the names of `x`, and those of `w` alone in place of `axis`.

    Sends, by the mesh axes of the groups:

    - none, whatever the placement of tokens: nothing, and in the gradient one reduction of the weights' gradient.
    - mesh axes on which every device has the tokens: one all-reduce of the result.
    - mesh axes of the tokens: the weights of all groups are gathered (and their gradient is reduce-scattered), or all tokens are, and their results
      reduce-scattered: what is less. Where the devices are GPUs or TPUs, tokens travel by `jax.lax.ragged_all_to_all`
      instead, each to the device of its group only; CPUs have no such collective.

    A sharded contracted name costs one all-reduce of the result. There is no forward mode; reverse mode is of any order.

    Raises:
      AxisNotFoundError: an array lacks a name.
      AxisNameError: a name is where it cannot be.
      AxisSizeError: a name has two sizes.
      ArgumentTypeError: the groups are not integers.
      PositionalAxisError: an array has positional axes.
      PlacementConflictError: names of the result are on one mesh axis.
    """
@overload
def hard_sigmoid(x: NamedArray) -> NamedArray:
    """Hard Sigmoid activation function."""
@overload
def hard_sigmoid(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard Sigmoid activation function."""
@overload
def hard_silu(x: NamedArray) -> NamedArray:
    """Hard SiLU (swish) activation function"""
@overload
def hard_silu(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard SiLU (swish) activation function"""
@overload
def hard_swish(x: NamedArray) -> NamedArray:
    """Hard SiLU (swish) activation function"""
@overload
def hard_swish(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard SiLU (swish) activation function"""
@overload
def hard_tanh(x: NamedArray) -> NamedArray:
    """Hard :math:`\\mathrm{tanh}` activation function."""
@overload
def hard_tanh(x: jax.typing.ArrayLike) -> jax.Array:
    """Hard :math:`\\mathrm{tanh}` activation function."""
@overload
def identity(x: NamedArray) -> NamedArray:
    """Identity activation function."""
@overload
def identity(x: jax.typing.ArrayLike) -> jax.Array:
    """Identity activation function."""
@overload
def layer_norm(
    x: NamedArray,
    axis: Axis,
    *,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-05,
    where: ArrayLike | None = None,
) -> NamedArray:
    """Values with mean 0 and variance 1 over `axis`, then multiplied by `scale` and shifted by `bias`."""
@overload
def layer_norm(
    x: ArrayLike,
    axis: Axis,
    *,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-05,
    where: ArrayLike | None = None,
) -> Array:
    """Values with mean 0 and variance 1 over `axis`, then multiplied by `scale` and shifted by `bias`.

    Args:
      x: an array, named or not.
      axis: what is normalised over: a position, a name, or a tuple of both.
      scale: an array that broadcasts by name; it may have the axes that are normalised over.
      bias: an array that broadcasts by name, too.
      epsilon: added to the variance.
      where: a boolean array, named or not; elements where it is false do not count in the statistics (but are normalised too).

    Returns:
      An array of the type and the axes of `x`, and those that `scale`, `bias` and `where` have in addition.

    Over a sharded name: two all-reduces of the size of the mean; the gradient adds one.

    Raises:
      AxisNotFoundError: `x` lacks the name; or `scale` or `bias` looks misspelt: it has no axis of `x`, or a name close to one of `x`
        that it lacks.
    """
@overload
def leaky_relu(x: NamedArray, negative_slope: ArrayLike = 0.01) -> NamedArray:
    """Leaky rectified linear unit activation function."""
@overload
def leaky_relu(x: jax.typing.ArrayLike, negative_slope: ArrayLike = 0.01) -> jax.Array:
    """Leaky rectified linear unit activation function."""
def load_balancing_loss(routing: Any, over: Any) -> Array:
    """How unevenly the experts are chosen: 1 when all are chosen alike, up to their number when all tokens choose the same one.

    `experts * sum_e f_e P_e` with `f_e` the share of expert `e` in all choices, which is not differentiated, and `P_e` its mean
    probability (Fedus et al., "Switch transformers", 2021, equations 4 to 6; there a token has one choice, here all of them count).

    Args:
      routing: of `top_k_routing`.
      over: the name of the tokens, or a tuple of names, over which shares and means are taken. Others stay: with `over="pos"` every
        sequence of a batch has its own loss (and a batch on a `SerialLoop` needs one pass).

    Returns:
      The loss, with the names of the routing that are not in `over`.

    Over sharded names: an all-reduce of the shares and one of the means, one number per expert each.

    Raises:
      AxisNotFoundError: the routing lacks a name.
    """
@overload
def log1mexp(x: NamedArray) -> NamedArray:
    """Numerically stable calculation of :math:`\\log(1 - \\exp(-x))`."""
@overload
def log1mexp(x: jax.typing.ArrayLike) -> jax.Array:
    """Numerically stable calculation of :math:`\\log(1 - \\exp(-x))`."""
@overload
def log_sigmoid(x: NamedArray) -> NamedArray:
    """Log-sigmoid activation function."""
@overload
def log_sigmoid(x: jax.typing.ArrayLike) -> jax.Array:
    """Log-sigmoid activation function."""
@overload
def log_softmax(x: NamedArray, axis: Axis = -1, where: ArrayLike | None = None) -> NamedArray:
    """Logarithm of `softmax`, without overflow. Arguments and costs as there; where `where` is false the result is `-inf`."""
@overload
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Logarithm of `softmax`, without overflow. Arguments and costs as there; where `where` is false the result is `-inf`."""
def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """`log(mean(exp(x)))` without overflow: `jax.nn.logmeanexp`, by name or position.

    Over sharded names it costs what `nx.logsumexp` costs, and with `where` one all-reduce more.

    Raises:
      AxisNotFoundError: `x` lacks a name.
    """
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """`log(sum(b * exp(x)))` over positional and named axes, without overflow.

    See `nx.logsumexp`.
    """
@overload
def max_pool(
    x: NamedArray,
    window: Mapping[Hashable, int],
    *,
    strides: Any = None,
    padding: Any = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> NamedArray:
    """The maximum over windows of named axes."""
@overload
def max_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: Any = None,
    padding: Any = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> Array:
    """The maximum over windows of named axes.

    Args:
      x: a named array. Axes without a window are batch axes.
      window: the size of the window for every axis that is pooled over, `{"h": 2, "w": 2}`.
      strides: the distance between windows: one number for all axes, a sequence, or a dict; default: the window's size, so that
        windows tile the axis.
      padding: `"VALID"` (windows that lie within the axis), `"SAME"` (the result has `ceil(size / stride)` entries), or a pair
        `(before, after)` for each axis, also in a dict. Padding never wins.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` where there is one axis; needed in a mapped function for those
        whose size changes.

    Returns:
      An array of the same type. Along a sharded axis each device gets the rows at its boundary that its windows reach, by collective-permutes:
      none where windows tile the blocks. Nothing is gathered, except an axis whose `out_axis` name is not on its mesh axes. The
      gradient is `jax.lax.reduce_window`'s: of equal extrema the first one has it.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: no window fits; or in a mapped function a name has a different size than the result, or that does not
        divide over its mesh axes.
      ArgumentTypeError: the window is not a mapping.
    """
@overload
def min_pool(
    x: NamedArray,
    window: Mapping[Hashable, int],
    *,
    strides: Any = None,
    padding: Any = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> NamedArray:
    """The minimum over windows of named axes."""
@overload
def min_pool(
    x: ArrayLike,
    window: Mapping[Hashable, int],
    *,
    strides: Any = None,
    padding: Any = 'VALID',
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> Array:
    """The minimum over windows of named axes.

    Args:
      x: a named array. Axes without a window are batch axes.
      window: the size of the window for every axis that is pooled over, `{"h": 2, "w": 2}`.
      strides: the distance between windows: one number for all axes, a sequence, or a dict; default: the window's size, so that
        windows tile the axis.
      padding: `"VALID"` (windows that lie within the axis), `"SAME"` (the result has `ceil(size / stride)` entries), or a pair
        `(before, after)` for each axis, also in a dict. Padding never wins.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` where there is one axis; needed in a mapped function for those
        whose size changes.

    Returns:
      An array of the same type. Along a sharded axis each device gets the rows at its boundary that its windows reach, by collective-permutes:
      none where windows tile the blocks. Nothing is gathered, except an axis whose `out_axis` name is not on its mesh axes. The
      gradient is `jax.lax.reduce_window`'s: of equal extrema the first one has it.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      AxisSizeError: no window fits; or in a mapped function a name has a different size than the result, or that does not
        divide over its mesh axes.
      ArgumentTypeError: the window is not a mapping.
    """
@overload
def mish(x: NamedArray) -> NamedArray:
    """Mish activation function."""
@overload
def mish(x: jax.typing.ArrayLike) -> jax.Array:
    """Mish activation function."""
def mixture_of_experts(
    expert: Callable[[Any, Any], Any],
    params: Any,
    x: Any,
    routing: Any,
    *,
    tokens: Any,
    axis: Hashable = 'expert',
    slot: Hashable = 'slot',
    capacity: int | None = None,
    chunk: int | None = None,
) -> Any:
    """The results of the experts that every token has chosen, added up with their weights.

    Args:
      expert: `expert(params, x)`, a function over names. Its `x` has the axes `axis`, `slot` and the features: all tokens that
        chose an expert, one after the other. It returns an array with `axis`, `slot` and any features. It acts on every slot by
        itself. Slots that are empty hold zeros, and what it makes of these is ignored (but, as always in JAX, its derivative
        there must be finite).
      params: a pytree for `expert`. Arrays with `axis` have an entry for every expert.
      x: a named array.
      routing: which experts every token chooses; see `top_k_routing`.
      tokens: the name of the tokens, or a tuple of names. Other names that `x` and the routing share (a batch) are groups of tokens;
        names of `x` alone are features, positional axes too.
      axis: the name of the experts. It differs from the router's, because it may be on a mesh axis of the groups or tokens.
      slot: the name of the slots. It has no entry in `axis_resources`: slots are on
        the mesh axes of the groups that the experts are not on.
      capacity: how many slots an expert has for each group. Tokens beyond it are dropped (the result is zero for them): first choices
        go before second ones, then tokens in their order, row-major over `tokens`. `None`: no token is dropped.
      chunk: without capacity, how many slots an expert has on a device in one round; by default what an even load needs.

    Returns:
      An array with the names of `x`, but the features are those of the experts' results. It has their element type.

    Sends what the module's text says. Parameters are not moved. Without capacity the derivative is of reverse mode and first order;
    arrays that `expert` closes over have their gradients too.

    Raises:
      AxisNotFoundError: `x` or the routing lacks a name, or the result of `expert` lacks `axis` or `slot`.
      AxisNameError: `axis` or `slot` is not a name, or a name of `x`, or the result of `expert` has a name of the tokens.
      AxisSizeError: `x` and the routing, or `params` and the routing, disagree about a size.
      UnevenAxisError: the experts do not divide over their mesh axes, and the mapped function does not know `axis` when it begins.
      AxisResourceError: `slot` or the axis of the choices is mapped.
      ArgumentError: `capacity` or `chunk` is not a positive integer, or both are given.
      PlacementConflictError: a feature is on a mesh axis of the experts.
    """
def moments(x: Any, axis: Axis, *, where: Any = None) -> Any:
    """Mean and variance over `axis`, in float32 (or float64). Arguments as for `layer_norm`.

    Over a sharded name: two all-reduces of the size of the mean; the gradient adds none.
    """
def one_hot(x: ArrayLike, num_classes: int | None = None, *, dtype: Any = None, axis: Axis = -1) -> Array:
    """One-hot encoding along a new axis, which may have a name.

    Args:
      x: an integer array, named or not.
      num_classes: the size of the new axis. A name may leave it out: its size in the mapped function is used.
      axis: the name of the new axis, or its position among the positional axes of the result.
      dtype: element type; default: the default float.

    Returns:
      1 where the new axis's index equals `x`, else 0; an `x` out of range gives zeros. A sharded new axis is never whole on
      one device, and nothing is sent.

    Raises:
      AxisNotFoundError: the new axis has no size.
      AxisSizeError: `num_classes` is not the size that the name has.
    """
@overload
def prefix_mask(
    named_shape: Mapping[Hashable, int],
    prefix: Any,
    *,
    axis: Sequence[Hashable] = ('query', 'key'),
    offset: Any = 0,
) -> NamedArray:
    """Which keys a query sees of a sequence whose beginning is known: the keys of the prefix, and those that are not after it."""
@overload
def prefix_mask(prefix: Any, *, axis: Sequence[Hashable] = ('query', 'key'), offset: Any = 0) -> jax.Array:
    """Which keys a query sees of a sequence whose beginning is known: the keys of the prefix, and those that are not after it.

    Args:
      named_shape: as in `causal_mask`.
      axis: as in `causal_mask`.
      prefix: the length of the prefix. An integer, or a named array of them, one for every entry of a batch.
      offset: as in `causal_mask`.

    Returns:
      A boolean array with the two names, and those of `prefix` and `offset`. Sends nothing.

    Raises:
      AxisNotFoundError: a name has no size.
      ArgumentError: `axis` does not say of both names what they are.
    """
@overload
def relu(x: NamedArray) -> NamedArray:
    """Rectified linear unit activation function."""
@overload
def relu(x: jax.typing.ArrayLike) -> jax.Array:
    """Rectified linear unit activation function."""
@overload
def relu6(x: NamedArray) -> NamedArray:
    """Rectified Linear Unit 6 activation function."""
@overload
def relu6(x: jax.typing.ArrayLike) -> jax.Array:
    """Rectified Linear Unit 6 activation function."""
@overload
def rms_norm(
    x: NamedArray,
    axis: Axis,
    *,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-06,
    where: ArrayLike | None = None,
) -> NamedArray:
    """Values divided by the root of their mean square over `axis`, then multiplied by `scale`. Arguments as for `layer_norm`."""
@overload
def rms_norm(
    x: ArrayLike,
    axis: Axis,
    *,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-06,
    where: ArrayLike | None = None,
) -> Array:
    """Values divided by the root of their mean square over `axis`, then multiplied by `scale`. Arguments as for `layer_norm`.

    Over a sharded name: one all-reduce of the size of the mean; the gradient adds one.
    """
def router_z_loss(logits: ArrayLike, axis: Hashable, over: Any) -> Array:
    """The mean square of the router's log-partition, which keeps logits small (Zoph et al., "ST-MoE", 2022, equation 5).

    Args:
      logits: the router's scores, a named array with `axis`.
      axis: the name of the router's axis.
      over: the name of the tokens, or a tuple of names; others stay.

    Returns:
      The loss, with the names of `logits` that are neither `axis` nor in `over`.

    Over sharded names: one all-reduce of the result; along a sharded `axis` as `nx.logsumexp`.

    Raises:
      AxisNotFoundError: `logits` lacks a name.
    """
def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = ...,
    configs: list[Any] | None = None,
    implementation: Literal['cudnn'] | None = None,
) -> Any:
    """Scaled dot general operation."""
def scaled_matmul(
    lhs: Array, rhs: Array, lhs_scales: Array, rhs_scales: Array, preferred_element_type: Any = ...,
) -> Array:
    """Scaled matrix multiplication function."""
@overload
def selu(x: NamedArray) -> NamedArray:
    """Scaled exponential linear unit activation."""
@overload
def selu(x: jax.typing.ArrayLike) -> jax.Array:
    """Scaled exponential linear unit activation."""
@overload
def sigmoid(x: NamedArray) -> NamedArray:
    """Sigmoid activation function."""
@overload
def sigmoid(x: jax.typing.ArrayLike) -> jax.Array:
    """Sigmoid activation function."""
@overload
def silu(x: NamedArray) -> NamedArray:
    """SiLU (aka swish) activation function."""
@overload
def silu(x: jax.typing.ArrayLike) -> jax.Array:
    """SiLU (aka swish) activation function."""
@overload
def soft_sign(x: NamedArray) -> NamedArray:
    """Soft-sign activation function."""
@overload
def soft_sign(x: jax.typing.ArrayLike) -> jax.Array:
    """Soft-sign activation function."""
@overload
def softmax(x: NamedArray, axis: Axis = -1, where: ArrayLike | None = None) -> NamedArray:
    """Softmax over a position, a name, or a tuple of both: the entries are positive and add up to 1."""
@overload
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Softmax over a position, a name, or a tuple of both: the entries are positive and add up to 1.

    Args:
      x: an array, named or not.
      axis: what to normalise over.
      where: a boolean array, named or not; where it is false the result is 0 and the entry does not count.

    Over a sharded name: two all-reduces of the reduced size, for the maximum and for the sum; the gradient takes one more.

    Raises:
      AxisNotFoundError: `x` lacks the name.
    """
def softmax_cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: Axis = -1,
    *,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    where: ArrayLike | None = None,
) -> Array:
    """Cross-entropy of the softmax of `logits` with integer labels, in nats: `logsumexp(logits) - logits[label]`, per token.

    Args:
      logits: an array, named or not.
      labels: integers, named or not, without `axis`; they broadcast by name. A label below zero, or not below the size of the
        axis, is not a class: its token's loss is NaN, and so is its gradient (unless `where` leaves the token out). In
        particular -1 is not the last class.
      axis: the classes: a name or a position.
      z_loss: a number z; adds `z * logsumexp(logits)**2` (Chowdhery et al. 2022, "PaLM", section 5).
      label_smoothing: a number s, at least 0 and below 1: the target is `1 - s` for the label and `s` divided over all classes
        (Szegedy et al. 2016, "Rethinking the Inception Architecture").
      where: a boolean array that broadcasts by name. Without `axis` it says which tokens count, with it which classes (as those
        that only pad a vocabulary do not). Where no class counts, the loss and the gradient are zero, whatever logits and label are.

    Returns:
      An array with the axes of `logits` (and those that `labels` and `where` have in addition) but `axis`; of the type of the
      logits, float32 for 16-bit logits: it is computed in at least 32 bits. The gradient has the type of the logits.

    Over a sharded name: two all-reduces, one number per token for the maximum and two for the sums (with `where` over the classes three; for
    their mean over tokens one). The gradient adds none, and the logits are not moved. With a `SerialLoop` on the name, logits that are
    computed in the body are there for a part of the classes at a time.

    Raises:
      AxisNotFoundError: `logits` lacks the name.
      AxisNameError: `labels` have the axis that they count along.
      AxisSizeError: an axis has two sizes, or there are no classes.
      PlacementConflictError: `labels` have another axis on the mesh axis that `axis` is on.
      ArgumentTypeError: the labels are not integers, or `where` is not boolean.
      ArgumentError: `z_loss` or `label_smoothing` is out of range.
    """
@overload
def softplus(x: NamedArray) -> NamedArray:
    """Softplus activation function."""
@overload
def softplus(x: jax.typing.ArrayLike) -> jax.Array:
    """Softplus activation function."""
@overload
def sparse_plus(x: NamedArray) -> NamedArray:
    """Sparse plus function."""
@overload
def sparse_plus(x: jax.typing.ArrayLike) -> jax.Array:
    """Sparse plus function."""
@overload
def sparse_sigmoid(x: NamedArray) -> NamedArray:
    """Sparse sigmoid activation function."""
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
    axis: Axis = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-05,
    where: ArrayLike | None = None,
    *,
    algorithm: str = 'fast',
) -> NamedArray:
    """Values with mean 0 and variance 1 over `axis`: `jax.nn.standardize`, by name or position."""
@overload
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-05,
    where: ArrayLike | None = None,
    *,
    algorithm: str = 'fast',
) -> Array:
    """Values with mean 0 and variance 1 over `axis`: `jax.nn.standardize`, by name or position.

    Args:
      x: an array, named or not.
      axis: a position, a name, or a tuple of both.
      mean: the mean to use instead of that of `x`; it broadcasts by name.
      variance: the variance to use instead of that of `x`.
      epsilon: added to the variance.
      where: a boolean array, named or not; elements where it is false do not count in the statistics.
      algorithm: `"fast"`: the variance is the mean square minus the squared mean, as in JAX by default. `"stable"`: it is the
        mean of squared deviations, as in `layer_norm`, and takes one all-reduce more.

    Returns:
      An array of the type of `x`. Unlike JAX, statistics of 16-bit values are kept in float32 throughout.

    Over a sharded name: one all-reduce (`"stable"`: two); the gradient adds one. None where mean and variance are given.
    """
@overload
def swish(x: NamedArray) -> NamedArray:
    """SiLU (aka swish) activation function."""
@overload
def swish(x: jax.typing.ArrayLike) -> jax.Array:
    """SiLU (aka swish) activation function."""
@overload
def tanh(x: NamedArray, /) -> NamedArray:
    """Calculate element-wise hyperbolic tangent of input."""
@overload
def tanh(x: jax.typing.ArrayLike, /) -> jax.Array:
    """Calculate element-wise hyperbolic tangent of input.

    See `nx.tanh`.
    """
def top_k_routing(
    logits: Any, axis: Hashable, k: int, *, choice: Hashable = 'choice', normalize: bool = True,
) -> Any:
    """The `k` best experts of every token, and the weight of each.

    Args:
      logits: the router's scores, a named array with `axis`.
      axis: the name of the router's axis, one entry per expert.
      k: how many experts a token chooses.
      choice: the name of the new axis of size `k`.
      normalize: whether the weights of a token add up to 1. If not, they are the probabilities themselves (Fedus et al., 2021).

    Returns:
      A `Routing`: the numbers of the experts with the largest softmax over `axis`, the lower number first among equals, and
      their weights, which have a gradient.

    Sends nothing, unless `axis` is sharded: then as `nx.nn.softmax` and `nx.top_k` do.

    Source: Shazeer et al., "Outrageously large neural networks: the sparsely-gated mixture-of-experts layer", 2017.

    Raises:
      AxisNotFoundError: `logits` lacks the axis.
      AxisNameError: `choice` is not a name, or `logits` has it already.
      ArgumentError: `k` is not between 1 and the number of experts.
    """
def update_moments(average: Any, new: Any, momentum: Any = 0.9) -> Any:
    """The moving average of moments: `momentum * average + (1 - momentum) * new`. Nothing is differentiated through it."""
