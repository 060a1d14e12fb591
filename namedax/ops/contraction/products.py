"""`vecdot` and `tensordot` of `jax.numpy`, by name or position."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.types import DType
from namedax.operands.along_axes import along_axes, checks_axes, entries_of, names_in
from namedax.operands.pytree import data_of
from namedax.ops.contraction.einsum import dot
from namedax.ops.elementwise import FUNCTIONS as _ELEMENTWISE

__all__ = ["tensordot", "vecdot"]

_positional_vecdot = along_axes(jnp.vecdot, "vecdot", ("axis",))
_positional_tensordot = along_axes(jnp.tensordot, "tensordot", ("axes",))


@checks_axes
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: AxisSpec = -1,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Multiply vectors along one axis, the first one conjugated, as `jnp.vecdot`.

    Along a named axis it is `nx.dot`, with the same communication.

    Raises:
      AxisNotFoundError: an array lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.numpy.vecdot(x, x, axis="k")
    Array(5., dtype=float32)
    """
    options: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    if not names_in(axis):
        return _positional_vecdot(x1, x2, axis=axis, **options)
    conjugated = _ELEMENTWISE["conj"](x1) if jnp.iscomplexobj(data_of(x1)) else x1
    return dot(conjugated, x2, axis, **options)


@checks_axes
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: AxisSpec = 2,
    *,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Multiply two arrays and sum over axes, as `jnp.tensordot`.

    Over one or several named axes it is `nx.dot`, with the same communication.

    Raises:
      AxisNotFoundError: an array lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(3.0), ["k"])
    >>> nx.numpy.tensordot(x, x, "k")
    Array(5., dtype=float32)
    """
    options: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    names = names_in(axes)
    if not names or len(names) < len(entries_of(axes)):
        return _positional_tensordot(a, b, axes, **options)
    return dot(a, b, tuple(names), **options)
