"""Marks on leaves that a pytree operation of JAX turned into a named array inside a mapped body.

Equal block sizes hide a transposition from the comparison of sizes. The mark is an equation in the
traced body. It returns its operand and records the mesh axes of each dimension. The inspection of
the body compares it with the sharding of the leaf.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

__all__ = ["LEAF", "Mark", "mark_for"]

Mark = tuple[tuple[str, ...], ...]


def mark_for(
    dims: Sequence[Hashable | None],
    sizes: Sequence[int],
    resources: Mapping[Hashable, Sequence[str]],
) -> Mark | None:
    """Return the mark for a leaf with these dims, or `None` if it needs none.

    It needs none if a different size would reveal every move of a sharded dimension.

    >>> mark_for(("a", "b"), (2, 2), {"a": ("x",)})
    (('x',), ())
    >>> mark_for(("a", "b"), (2, 3), {"a": ("x",)}) is None
    True
    """
    axes = tuple(tuple(sorted(resources.get(dim, ()))) for dim in dims)
    return (
        axes
        if any(own and sizes.count(size) > 1 for own, size in zip(axes, sizes, strict=True))
        else None
    )


def _batch(operands: Sequence[Any], batched: Sequence[int], mark: Mark) -> tuple[Any, int]:
    (data,), (at,) = operands, batched
    return LEAF.bind(data, mark=(*mark[:at], (), *mark[at:])), at


# An identity that is bound where the leaf becomes a named array. JAX's own `checkpoint_name` cannot
# be transposed, as the tangents of a rule must be.
LEAF = Primitive("named_leaf")
LEAF.def_abstract_eval(lambda data, mark: data)
LEAF.def_impl(lambda data, mark: data)
ad.deflinear2(LEAF, lambda cotangent, data, mark: [cotangent])
batching.primitive_batchers[LEAF] = _batch
mlir.register_lowering(LEAF, lambda _, data, mark: [data])
