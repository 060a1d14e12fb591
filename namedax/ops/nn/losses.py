"""Cross-entropy over named axes, also over sharded classes.

An example of sharded classes is the vocabulary of a language model. No device ever has the logits
of all classes; each computes with its own. The communication is one number per token for the
maximum, and two for sums: of the exponentials, and of the logit of the label, which one device
contributes. (If the loss is then averaged, this sum is one number in total.) The gradient is
`softmax - target` on every device for its own classes, and needs no further communication.

Source: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
Parallelism", 2019, section 3.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact, common_type
from namedax.core.names import is_name
from namedax.core.records import Record
from namedax.core.strict_broadcasting import check_names, is_strict
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    format_value,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.operands import kernels
from namedax.ops.operands.axes import axis_key, resolve_axis
from namedax.ops.operands.broadcasting import align_ranks, as_block
from namedax.ops.operands.dispatch import in_program
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import array_of, data_of
from namedax.ops.reduction.plan import reduction_plan
from namedax.resources import communication as comm

__all__ = ["FUNCTIONS", "binary_cross_entropy", "softmax_cross_entropy"]


_OP = "softmax_cross_entropy"


@operation()
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

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), ["token", "vocab"])
    >>> labels = nx.named(jnp.array([0, 2]), ["token"])
    >>> loss = nx.nn.softmax_cross_entropy(logits, labels, "vocab")
    >>> [round(float(x), 3) for x in nx.positional(loss, ["token"])]
    [0.24, 1.099]
    """
    axis = axis_key(_OP, axis)
    if isinstance(axis, tuple):
        if len(axis) != 1:
            raise PositionalAxisError(
                f"{_OP}: axis={format_value(axis)} must be one positional or named axis, since a"
                " label is one number. If the tuple is the name, write"
                f" axis=({format_value(axis)},)."
            )
        (axis,) = axis
    z = _number("z_loss", z_loss, lambda z: z >= 0, "at least 0")
    smoothing = _number(
        "label_smoothing", label_smoothing, lambda s: 0 <= s < 1, "at least 0 and below 1"
    )
    operands = (logits, labels) if where is None else (logits, labels, where)
    return kernels.run(_OP, _by_name, (axis,), (z, smoothing), *operands)


def _number(name: str, value: object, allowed: Callable[[float], bool], rule: str) -> float:
    if not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"{_OP}: {name}={format_value(value)} must be a static number.")
    if not allowed(float(value)):
        raise ArgumentError(f"{_OP}: {name} must be {rule}, got {format_value(value)}.")
    return float(value)


def _by_name(
    op: str, axes: tuple[Hashable], z: float, smoothing: float, *operands: ArrayLike
) -> AnyArray:
    (axis,) = axes
    logits, labels, *rest = [as_block(array, _OP) for array in operands]
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ArgumentTypeError(
            f"{_OP}: the labels must be integers (indices of classes), got {type_text(labels)}. For"
            " a distribution over classes write -nx.sum(target * nx.nn.log_softmax(logits,"
            f" {format_value(axis)}), {format_value(axis)})."
        )
    mask = _checked_mask(_OP, rest[0]) if rest else None
    if jnp.issubdtype(logits.dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            f"{_OP}: the logits {type_text(logits)} are complex, and complex numbers have no order."
        )
    (place,) = resolve_axis(_OP, logits, axis)
    if not is_name(axis):
        # From here on counted from the right, as positional axes align.
        dims = dims_of(logits)
        axis = dims[:place].count(None) - dims.count(None)
        labels = _with_axis(labels, axis)
    elif axis in dims_of(labels):
        raise AxisNameError(
            f"{_OP}: the labels {type_text(labels)} have the axis {format_value(axis)}, the axis of"
            " the classes; a label is one integer per token. If they are one-hot, write"
            f" nx.argmax(labels, {format_value(axis)})."
        )
    by_class = mask is not None and (not is_name(axis) or axis in dims_of(mask))
    (data, label, *masks), dims, shape = align_ranks(
        _OP, logits, labels, *(() if mask is None else (mask,))
    )
    data = _whole(data, shape)
    plan = reduction_plan(_OP, make_in_region(data, dims), axis, supports_padding=True)
    (dim,) = plan.axes
    if not data.shape[dim]:
        raise AxisSizeError(
            f"{_OP}: axis {format_value(axis)} of {type_text(logits)} has size 0; without classes"
            " there is no loss."
        )
    # Labels and a mask of tokens are constant along the classes.
    tokens = (*shape[:dim], 1, *shape[dim + 1 :])
    label = _whole(label.astype(common_type(label.dtype, jnp.int32)), tokens)
    masks = [_whole(mask, shape if by_class else tokens) for mask in masks]
    loss = _CrossEntropy(dim, plan.mesh_axes, plan.count, z, smoothing, by_class)
    result = loss(as_inexact(plan.data), label, masks[0] if masks else None, plan.real())
    return plan.finish(lax.squeeze(result, (dim,)))


def _whole(data: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return data if data.shape == shape else jnp.broadcast_to(data, shape)


def _array(value: ArrayLike) -> AnyArray:
    return value if isinstance(value, (NamedArray, jax.Array)) else jnp.asarray(value)


def _checked_mask(op: str, mask: AnyArray) -> AnyArray:
    """Return a mask; raise if it is not boolean."""
    if mask.dtype != jnp.bool_:
        raise ArgumentTypeError(
            f"{op}: where is {type_text(mask)}, but it must be boolean. Write where=weight != 0."
        )
    return mask


def _with_axis(labels: AnyArray, axis: int) -> AnyArray:
    """Insert a positional axis of size 1 into `labels`, in place of the classes at `axis` < 0."""
    dims = dims_of(labels)
    places = [i for i, dim in enumerate(dims) if dim is None]
    behind = -axis - 1
    if len(places) < behind:
        return labels  # it broadcasts there without a new axis
    at = len(dims) if behind == 0 else places[len(places) - behind]
    data = lax.expand_dims(data_of(labels), (at,))
    return array_of(data, (*dims[:at], None, *dims[at:]))


def _masked(data: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Replace the elements outside of a mask by zeros."""
    return data if mask is None else jnp.where(mask, data, 0)


class _CrossEntropy(Record):
    """The loss on blocks.

    Labels and masks may vary over the mesh axes of the classes or not. The loss does not: they
    enter before the sums over these.

    Attributes:
      dim: the dimension of the classes.
      mesh_axes: the mesh axes of the classes.
      count: the number of classes on all devices.
      z: the factor of the squared log-sum-exp.
      smoothing: the share of the target that is divided over all classes.
      by_class: if `True`, the mask is over classes; otherwise it has size 1 along `dim`.
    """

    dim: int
    mesh_axes: tuple[str, ...]
    count: int
    z: float
    smoothing: float
    by_class: bool

    def __call__(
        self,
        data: jax.Array,
        label: jax.Array,
        mask: jax.Array | None,
        real: jax.Array | None = None,
    ) -> jax.Array:
        """Compute the loss of every token, with size 1 along `dim`.

        `real` masks padding classes; `None` (default) without padding.
        """
        data = data.astype(common_type(data.dtype, jnp.float32))
        if mask is not None:
            data = jnp.where(mask, data, -jnp.inf if self.by_class else 0)
        if real is not None:
            data = jnp.where(real, data, -jnp.inf)
        shift = comm.pmax(jnp.max(lax.stop_gradient(data), self.dim, keepdims=True), self.mesh_axes)
        shift = lax.select(lax.is_finite(shift), shift, lax.full_like(shift, 0))
        number = label.dtype.type
        first: jax.Array | np.bool_ = np.bool_(True)
        wrong = answers = lax.bitwise_or(
            lax.lt(label, number(0)), lax.ge(label, number(self.count))
        )
        if self.mesh_axes:
            device, own = comm.block_index(self.mesh_axes), data.shape[self.dim]
            place = lax.sub(label, lax.mul(device.astype(label.dtype), number(own)))
            first = lax.eq(device, device.dtype.type(0))
            here = lax.bitwise_and(lax.ge(place, number(0)), lax.lt(place, number(own)))
            label = lax.select(here, place, lax.full_like(place, -1))
            taken = lax.select(here, shift, lax.full_like(shift, 0))
            # A label that is not a class belongs to no device; the first device sets its loss.
            answers = lax.bitwise_and(wrong, first)
        else:
            taken = shift
        picked = lax.sub(self._pick(data, label, wrong), taken)
        picked = lax.select(answers, lax.full_like(picked, jnp.nan), picked)
        # Sum each array separately: XLA combines sums that run at the same time. The sum of the
        # picked logits enters the loss linearly, so it can be postponed until they are averaged
        # over tokens.
        shifted = lax.sub(data, shift)
        every = self._sum(self._over_classes(lax.exp(shifted)), mask, first)
        loss = lax.log(every)
        if self.z:
            loss = loss + self.z * jnp.square(loss + shift)
        selected = mask if self.by_class else None
        count = (
            self.count
            if selected is None
            else self._sum(self._over_classes(selected.astype(data.dtype)), mask)
        )
        if self.smoothing:
            shifted = _masked(shifted, real)
            total = self._over_classes(_masked(shifted, selected))
            picked = (1 - self.smoothing) * picked
            # With a constant weight, the logits of all classes join the sum that the label needs in
            # any case.
            if not self.by_class:
                picked = picked + self.smoothing / self.count * total
        loss = lax.sub(loss, self._sum(picked, mask))
        if self.smoothing and self.by_class:
            loss = loss - self.smoothing * self._sum(total, mask) / count
        return jnp.where(count > 0, loss, 0) if self.by_class else loss

    def _over_classes(self, data: jax.Array) -> jax.Array:
        return lax.expand_dims(lax.reduce_sum(data, (self.dim,)), (self.dim,))

    def _sum(
        self, data: jax.Array, mask: jax.Array | None, otherwise: jax.typing.ArrayLike = False
    ) -> jax.Array:
        """Sum one number per token over all devices, with `otherwise` for tokens that do not count.

        With 1 for the exponentials, and 0 for everything else, these tokens act as if they had one
        class with logit 0.
        """
        if mask is not None and not self.by_class:
            data = jnp.where(mask, data, jnp.asarray(otherwise, data.dtype))
        return comm.psum(data, self.mesh_axes)

    def _pick(self, data: jax.Array, place: jax.Array, wrong: jax.Array) -> jax.Array:
        """Read the logit of the class at `place`, or 0 for -1.

        The derivative is a comparison, which needs no memory.
        """
        dim = self.dim
        others = tuple(i for i in range(data.ndim) if i != dim)
        numbers = lax.GatherDimensionNumbers((), (dim,), (dim,), others, others)

        @jax.custom_jvp
        def pick(data: jax.Array, place: jax.Array, wrong: jax.Array) -> jax.Array:
            taken = lax.gather(
                data, lax.expand_dims(place, (place.ndim,)), numbers, (1,) * data.ndim, mode="clip"
            )
            return lax.select(lax.lt(place, place.dtype.type(0)), lax.full_like(taken, 0), taken)

        @pick.defjvp
        def _jvp(
            primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
        ) -> tuple[jax.Array, jax.Array]:
            data, place, wrong = primals
            hit = lax.eq(lax.broadcasted_iota(place.dtype, data.shape, dim), place)
            factor = hit.astype(data.dtype)
            factor = lax.select(
                jnp.broadcast_to(wrong, hit.shape), lax.full_like(factor, jnp.nan), factor
            )
            return pick(*primals), self._over_classes(lax.mul(factor, tangents[0]))

        return pick(data, place, wrong)


# --- two classes ----------------------------------------------------------------------------------


@checks_signature
@in_program
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

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.array([0.0, 2.0]), ["k"])
    >>> labels = nx.named(jnp.array([1, 0]), ["k"])
    >>> nx.positional(nx.nn.binary_cross_entropy(logits, labels), ["k"]).round(3)
    Array([0.693, 2.127], dtype=float32)
    """
    op = "binary_cross_entropy"
    logits, labels = _array(logits), _array(labels)
    if jnp.issubdtype(logits.dtype, jnp.complexfloating):
        raise ArgumentTypeError(
            f"{op}: the logits {type_text(logits)} are complex. Write logits.real."
        )
    if where is not None:
        where = _checked_mask(op, _array(where))
    extra = [(kind, x) for kind, x in (("weight", pos_weight), ("where", where)) if x is not None]
    if is_strict():
        check_names(op, (logits, labels, *(value for _, value in extra)))
    kinds = [kind for kind, _ in extra]

    def loss(x: jax.Array, y: jax.Array, *more: jax.typing.ArrayLike) -> jax.Array:
        given = dict(zip(kinds, more, strict=True))
        dtype = common_type(x.dtype, jnp.float32)
        x, y = x.astype(dtype), y.astype(dtype)
        if "where" in given:
            x, y = (jnp.where(given["where"], value, jnp.zeros((), dtype)) for value in (x, y))
        weight = jnp.asarray(given.get("weight", 1), dtype)
        result = -(weight * y * jax.nn.log_sigmoid(x) + (1 - y) * jax.nn.log_sigmoid(-x))
        return (
            jnp.where(given["where"], result, jnp.zeros((), dtype)) if "where" in given else result
        )

    return apply_elementwise(op, loss, logits, labels, *(value for _, value in extra))


FUNCTIONS: dict[str, Callable[..., AnyArray]] = {
    f.__name__: f for f in (binary_cross_entropy, softmax_cross_entropy)
}
