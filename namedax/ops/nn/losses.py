"""Cross-entropy by name, also over classes that are sharded: the vocabulary of a language model. In `nx.nn`.

No device ever has the logits of all classes. Each computes with those that it has, and what is sent is one number per token for the
maximum, and two for the sums: of the exponentials, and of the logit of the label, to which one device contributes. (Of the latter only one
in all, where the loss is then averaged.) The gradient, `softmax - target` on every device for its own classes, needs nothing that was
not sent before.

Source: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019, section 3.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact, common_type
from namedax.core.names import is_name
from namedax.core.records import Record
from namedax.core.region import ambient
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisSizeError, PositionalAxisError, format_value
from namedax.operands import kernels
from namedax.operands.axes import axis_key, resolve_axis
from namedax.operands.broadcasting import align_ranks, to_local
from namedax.operands.nmap import explain_type_errors
from namedax.operands.operation import operation
from namedax.ops.reduction.site import reduction_site
from namedax.resources import communication as comm

__all__ = ["FUNCTIONS", "softmax_cross_entropy"]

_OP = "softmax_cross_entropy"


@operation()
def softmax_cross_entropy(
    logits: Any, labels: Any, axis: Any = -1, *, z_loss: float = 0.0, label_smoothing: float = 0.0, where: Any = None
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

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), ["token", "vocab"])
    >>> labels = nx.named(jnp.array([0, 2]), ["token"])
    >>> [round(float(x), 3) for x in nx.positional(nx.nn.softmax_cross_entropy(logits, labels, "vocab"), ["token"])]
    [0.24, 1.099]
    """
    axis = axis_key(_OP, axis)
    if isinstance(axis, tuple):
        if len(axis) != 1:
            raise PositionalAxisError(
                f"{_OP}: axis={format_value(axis)} must be one axis, a position or a name, since a label is one number. "
                f"If the tuple is the name, write axis=({format_value(axis)},)."
            )
        (axis,) = axis
    z = _number("z_loss", z_loss, lambda z: z >= 0, "at least 0")
    smoothing = _number("label_smoothing", label_smoothing, lambda s: 0 <= s < 1, "at least 0 and below 1")
    operands = (logits, labels) if where is None else (logits, labels, where)
    with explain_type_errors:
        return kernels.run(_OP, _by_name, (axis,), (z, smoothing), *operands)


def _number(name: str, value: Any, allowed: Callable[[float], bool], rule: str) -> float:
    if not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"{_OP}: {name}={format_value(value)} must be a number; it is a constant of the program.")
    if not allowed(float(value)):
        raise ArgumentError(f"{_OP}: {name}={format_value(value)} is out of range; it is {rule}.")
    return float(value)


def _by_name(op: str, axes: tuple[Any], z: float, smoothing: float, logits: Any, labels: Any, mask: Any = None) -> Any:
    region = ambient()
    (axis,) = axes
    logits, labels = (_array(to_local(array, _OP, region)) for array in (logits, labels))
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ArgumentTypeError(
            f"{_OP}: the labels are {type_text(labels)}, but a label is an integer, the index of a class. For a distribution over "
            f"classes write -nx.sum(target * nx.nn.log_softmax(logits, {format_value(axis)}), {format_value(axis)})."
        )
    mask = None if mask is None else _array(to_local(mask, _OP, region))
    if mask is not None and mask.dtype != jnp.bool_:
        raise ArgumentTypeError(f"{_OP}: where is {type_text(mask)}, but it must be boolean; write where=weight != 0.")
    if jnp.issubdtype(logits.dtype, jnp.complexfloating):
        raise ArgumentTypeError(f"{_OP}: the logits {type_text(logits)} are complex, and complex numbers have no order.")
    (place,) = resolve_axis(_OP, logits, axis)
    if not is_name(axis):
        # From here on counted from the right, as positional axes meet.
        dims = dims_of(logits)
        axis = dims[:place].count(None) - dims.count(None)
        labels = _with_axis(labels, axis)
    elif axis in dims_of(labels):
        raise AxisNameError(
            f"{_OP}: the labels {type_text(labels)} have the axis {format_value(axis)}, which they count along; a label is one integer per token. "
            f"If they are one-hot, write nx.argmax(labels, {format_value(axis)})."
        )
    by_class = mask is not None and (not is_name(axis) or axis in dims_of(mask))
    (data, label, *masks), dims, shape = align_ranks(_OP, logits, labels, *(() if mask is None else (mask,)))
    data = _whole(data, shape)
    site = reduction_site(_OP, make_in_region(data, dims), axis, supports_padding=True)
    (dim,) = site.axes
    if not data.shape[dim]:
        raise AxisSizeError(
            f"{_OP}: axis {format_value(axis)} of {type_text(logits)} has size 0; without classes there is no loss."
        )
    # Labels and a mask of tokens are the same along the classes.
    tokens = (*shape[:dim], 1, *shape[dim + 1 :])
    label = _whole(label.astype(common_type(label.dtype, jnp.int32)), tokens)
    masks = [_whole(mask, shape if by_class else tokens) for mask in masks]
    loss = _CrossEntropy(dim, site.mesh_axes, site.count, z, smoothing, by_class)
    result = loss(as_inexact(site.data), label, masks[0] if masks else None, site.real())
    return site.finish(lax.squeeze(result, (dim,)))


def _whole(data: Any, shape: tuple[int, ...]) -> Any:
    return data if data.shape == shape else jnp.broadcast_to(data, shape)


def _array(value: Any) -> Any:
    return value if isinstance(value, (NamedArray, jax.Array)) else jnp.asarray(value)


def _with_axis(labels: Any, axis: int) -> Any:
    """`labels` with a positional axis of size 1 in place of the classes, which are the positional axis `axis` (below zero)."""
    dims = dims_of(labels)
    places = [i for i, dim in enumerate(dims) if dim is None]
    behind = -axis - 1
    if len(places) < behind:
        return labels  # it broadcasts there anyway
    at = len(dims) if behind == 0 else places[len(places) - behind]
    data = lax.expand_dims(labels._data if isinstance(labels, NamedArray) else labels, (at,))
    return make_in_region(data, (*dims[:at], None, *dims[at:])) if isinstance(labels, NamedArray) else data


class _CrossEntropy(Record):
    """The loss on blocks.

    Labels and masks may vary over the mesh axes of the classes or not. The loss does not: they take part before the sums over these.

    Attributes:
      dim: the dimension of the classes.
      mesh_axes: the mesh axes that they are on.
      count: how many there are on all devices.
      z: the factor of the squared log-sum-exp.
      smoothing: the part of the target that all classes share.
      by_class: whether the mask is over classes; otherwise it has size 1 along `dim`.
    """

    dim: int
    mesh_axes: tuple[str, ...]
    count: int
    z: float
    smoothing: float
    by_class: bool

    def __call__(self, data: Any, label: Any, mask: Any, real: Any = None) -> Any:
        """The loss of every token, with size 1 along `dim`; `real` says which classes are no padding, `None` where all are."""
        data = data.astype(common_type(data.dtype, jnp.float32))
        if mask is not None:
            data = jnp.where(mask, data, -jnp.inf if self.by_class else 0)
        if real is not None:
            data = jnp.where(real, data, -jnp.inf)
        shift = comm.pmax(jnp.max(lax.stop_gradient(data), self.dim, keepdims=True), self.mesh_axes)
        shift = lax.select(lax.is_finite(shift), shift, lax.full_like(shift, 0))
        number = label.dtype.type
        first: Any = np.bool_(True)
        wrong = answers = lax.bitwise_or(lax.lt(label, number(0)), lax.ge(label, number(self.count)))
        if self.mesh_axes:
            device, own = comm.block_index(self.mesh_axes), data.shape[self.dim]
            place, first = (
                lax.sub(label, lax.mul(device.astype(label.dtype), number(own))),
                lax.eq(device, device.dtype.type(0)),
            )
            here = lax.bitwise_and(lax.ge(place, number(0)), lax.lt(place, number(own)))
            label, taken = lax.select(here, place, lax.full_like(place, -1)), lax.select(here, shift, lax.full_like(shift, 0))
            # A label that is not a class is nobody's; the first device answers for it.
            answers = lax.bitwise_and(wrong, first)
        else:
            taken = shift
        picked = lax.sub(self._pick(data, label, wrong), taken)
        picked = lax.select(answers, lax.full_like(picked, jnp.nan), picked)
        # Each sum alone: XLA puts those into one that are sent at the same time. That of the picked logits, which nothing is done to
        # but to add them up, may come later, when they are averaged over tokens.
        shifted = lax.sub(data, shift)
        every = self._sum(self._over_classes(lax.exp(shifted)), mask, first)
        loss = lax.log(every)
        if self.z:
            loss = loss + self.z * jnp.square(loss + shift)
        count = self._sum(self._over_classes(mask.astype(data.dtype)), mask) if self.by_class else self.count
        if self.smoothing:
            shifted = shifted if real is None else jnp.where(real, shifted, 0)
            total = self._over_classes(jnp.where(mask, shifted, 0) if self.by_class else shifted)
            picked = (1 - self.smoothing) * picked
            # With a constant weight the logits of all classes are part of the sum that the label needs anyway.
            if not self.by_class:
                picked = picked + self.smoothing / self.count * total
        loss = lax.sub(loss, self._sum(picked, mask))
        if self.smoothing and self.by_class:
            loss = loss - self.smoothing * self._sum(total, mask) / count
        return jnp.where(count > 0, loss, 0) if self.by_class else loss

    def _over_classes(self, data: Any) -> Any:
        return lax.expand_dims(lax.reduce_sum(data, (self.dim,)), (self.dim,))

    def _sum(self, data: Any, mask: Any, otherwise: Any = False) -> Any:
        """The sum over all devices of one number per token, but `otherwise` for tokens that do not count.

        With 1 for the exponentials, and 0 for everything else, these are tokens of one class, whose logit is 0.
        """
        if mask is not None and not self.by_class:
            data = jnp.where(mask, data, jnp.asarray(otherwise, data.dtype))
        return comm.psum(data, self.mesh_axes)

    def _pick(self, data: Any, place: Any, wrong: Any) -> Any:
        """The logit of the class at `place`, 0 if that is -1. Its derivative is a comparison, which takes no memory."""
        dim = self.dim
        others = tuple(i for i in range(data.ndim) if i != dim)
        numbers = lax.GatherDimensionNumbers((), (dim,), (dim,), others, others)

        @jax.custom_jvp
        def pick(data: Any, place: Any, wrong: Any) -> Any:
            taken = lax.gather(data, lax.expand_dims(place, (place.ndim,)), numbers, (1,) * data.ndim, mode="clip")
            return lax.select(lax.lt(place, place.dtype.type(0)), lax.full_like(taken, 0), taken)

        @pick.defjvp
        def _jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            data, place, wrong = primals
            hit = lax.eq(lax.broadcasted_iota(place.dtype, data.shape, dim), place)
            factor = hit.astype(data.dtype)
            factor = lax.select(jnp.broadcast_to(wrong, hit.shape), lax.full_like(factor, jnp.nan), factor)
            return pick(*primals), self._over_classes(lax.mul(factor, tangents[0]))

        return pick(data, place, wrong)


FUNCTIONS: dict[str, Callable[..., Any]] = {"softmax_cross_entropy": softmax_cross_entropy}
