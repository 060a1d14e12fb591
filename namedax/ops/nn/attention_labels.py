"""Labels of the dimensions of attention, and contractions of blocks by label."""

from __future__ import annotations

import enum
import functools
from collections.abc import Hashable

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.names import DType
from namedax.core.variance import cast_alike

__all__ = [
    "FEATURES",
    "GROUP",
    "KEY",
    "KEY_HEADS",
    "QUERY",
    "Label",
    "Labels",
    "Role",
    "broadcast",
    "einsum",
    "expand",
    "sum_to",
]


class Role(enum.Enum):
    """Labels of dimensions with a role in attention.

    Other labels are names, or integers from the right for positional axes.
    """

    QUERY = "query positions"
    KEY = "key positions"
    FEATURES = "features"
    KEY_HEADS = "key heads"
    GROUP = "query heads of one key head"


Label = Hashable
Labels = tuple[Label, ...]

QUERY, KEY, FEATURES, KEY_HEADS, GROUP = Role


def _letter(label: Label, known: dict[Label, str]) -> str:
    return known.setdefault(
        label, chr(ord("a") + len(known)) if len(known) < 26 else chr(ord("A") + len(known) - 26)
    )


def einsum(
    a: jax.Array, a_labels: Labels, b: jax.Array, b_labels: Labels, out: Labels, dtype: DType
) -> jax.Array:
    """Contract two blocks to the labels `out`, accumulated in `dtype`."""
    a, b = cast_alike([a, b])
    plan = _plan(a_labels, a.shape, b_labels, b.shape, out)
    if plan is None:
        known: dict[Label, str] = {}
        left, right, result = (
            "".join(_letter(label, known) for label in labels)
            for labels in (a_labels, b_labels, out)
        )
        return jnp.einsum(f"{left},{right}->{result}", a, b, preferred_element_type=dtype)
    is_swapped, dimensions, order = plan
    product = lax.dot_general(
        *((b, a) if is_swapped else (a, b)), dimensions, preferred_element_type=dtype
    )
    return product if order is None else lax.transpose(product, order)


@functools.lru_cache(maxsize=4096)
def _plan(
    a: Labels, a_shape: tuple[int, ...], b: Labels, b_shape: tuple[int, ...], out: Labels
) -> tuple[bool, lax.DotDimensionNumbers, tuple[int, ...] | None] | None:
    """Plan a contraction as one `dot_general`; `jnp.einsum` takes ten times as long to trace.

    Returns:
      `True` if the operands are exchanged, the dimension numbers, and the transposition of the
      result, or `None` for none. If one operand is summed by itself, or has an axis of size 1 that
      broadcasts, it returns only `None`.
    """
    sizes = dict(zip(b, b_shape, strict=True))
    if any(sizes.get(label, n) != n for label, n in zip(a, a_shape, strict=True)) or any(
        label not in out for label in set(a) ^ set(b)
    ):
        return None
    summed = [label for label in a if label not in out]
    batch = [label for label in out if label in a and label in b]

    def without_pairs(labels: Labels) -> list[Label]:
        return [label for label in labels if label not in batch and label not in summed]

    is_swapped = (*batch, *without_pairs(a), *without_pairs(b)) != out
    first, second = (b, a) if is_swapped else (a, b)
    found = [*batch, *without_pairs(first), *without_pairs(second)]
    order = tuple(map(found.index, out))

    def dims_in_both(labels: list[Label]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(map(first.index, labels)), tuple(map(second.index, labels))

    return (
        is_swapped,
        (dims_in_both(summed), dims_in_both(batch)),
        None if order == tuple(range(len(order))) else order,
    )


def expand(data: jax.Array, labels: Labels, to: Labels) -> jax.Array:
    """Transpose and expand `data` to the dimensions `to`; missing ones have size 1."""
    order = sorted(range(len(labels)), key=lambda i: to.index(labels[i]))
    data = lax.transpose(data, order)
    return lax.expand_dims(data, [i for i, label in enumerate(to) if label not in labels])


def broadcast(data: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Broadcast `data` to a shape as `jnp.broadcast_to` does, aligned at the last dimensions."""
    if data.shape == shape:
        return data
    first = len(shape) - data.ndim
    kept = [i for i, n in enumerate(data.shape) if n == shape[first + i]]
    lacking = [i for i, n in enumerate(data.shape) if n != shape[first + i]]
    return lax.broadcast_in_dim(
        lax.squeeze(data, lacking) if lacking else data, shape, [first + i for i in kept]
    )


def sum_to(data: jax.Array, labels: Labels, to: Labels) -> jax.Array:
    """Sum over the dimensions of `labels` that `to` lacks, and transpose to the order of `to`."""
    data = jnp.sum(data, [i for i, label in enumerate(labels) if label not in to])
    left = [label for label in labels if label in to]
    return lax.transpose(data, [left.index(label) for label in to])
