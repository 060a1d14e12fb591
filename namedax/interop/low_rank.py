"""Contractions with weights that may have adapters: `lora.dot` and `lora.einsum`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.element_types import common_type, to_type
from namedax.core.names import DType
from namedax.errors import ArgumentError, ArgumentTypeError, format_value, show_dtype
from namedax.interop.adapters import Adapted, Adapter
from namedax.messages.call_errors import checks_signature
from namedax.ops.contraction import einsum as contractions
from namedax.ops.contraction.rings import Overlap
from namedax.ops.contraction.spec import Term, parse_einsum
from namedax.ops.nn.normalization import dropout
from namedax.ops.operands.along_axes import entries_of
from namedax.resources.wire import Wire, WireFormat

__all__ = ["dot", "einsum", "scaled_sum"]


@checks_signature
def dot(
    x: ArrayLike,
    w: Any,
    axis: AxisSpec,
    *,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    overlap: Overlap | None = None,
) -> AnyArray:
    """Contract an activation with a weight that may have an adapter.

    For a weight of `attach`, the result is `dot(x, weight) + scale * dot(dot(x, a), b)`. Dropout
    applies to `x` in the second term. Without an adapter this is `nx.dot`.

    Communication: that of `nx.dot`. If the contracted axis is sharded, the low-rank path adds an
    all-reduce of `dot(x, a)`, which has the rank in place of the outputs.

    Args:
      x: a named array.
      w: a named array, or a `lora.Adapted`.
      axis: an axis name, or a tuple of names, that both have.
      precision: as in `nx.dot`; by default `None`.
      preferred_element_type: as in `nx.dot`; by default the dtype of the operands.
      overlap: as in `nx.dot`, for the weight only; by default the setting of `xmap`.

    Returns:
      As `nx.dot` of the weight, with its dtype. Further axes of the adapter are axes of the result.

    Raises:
      ArgumentError: `x` has the rank axis of the adapter.
      AxisNotFoundError: an operand lacks an axis.
      AxisSizeError: an axis has two sizes.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((6, 8)), ["embed", "hidden"])}
    >>> adapters = lora.init(params, jax.random.key(0), {"up": "embed"}, rank=2, batch=())
    >>> x = nx.named(jnp.ones((5, 6)), ["batch", "embed"])
    >>> have = lora.dot(x, lora.attach(params, adapters)["up"], "embed")
    >>> bool(nx.allclose(have, nx.dot(x, params["up"], "embed")))
    True
    """
    types: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    if not isinstance(w, Adapted):
        return contractions.dot(x, w, axis, overlap=overlap, **types)
    base = contractions.dot(x, w.weight, axis, overlap=overlap, **types)
    adapter = w.adapter
    _check_rank("lora.dot", adapter, [x])
    names = entries_of(axis)
    x, a, b = _one_type(_dropped(x, w), adapter)
    # Usually the contracted axes are those of `a`. A transposed weight, such as an embedding that
    # is also the output layer, contracts those of `b`.
    sides = [[n for n in names if n not in other.named_shape] for other in (b, a)]
    first, second, early = (a, b, sides[0]) if sides[0] else (b, a, sides[1])
    late = (*(name for name in names if name not in early), adapter.axis)
    low = contractions.dot(contractions.dot(x, first, tuple(early), **types), second, late, **types)
    return scaled_sum(base, low, adapter.scale)


@checks_signature
def einsum(
    spec: str,
    *operands: Any,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    overlap: Overlap | None = None,
    wire: WireFormat | Wire | None = None,
) -> AnyArray:
    """Contract arrays, of which one is a weight that may have an adapter.

    For a weight of `attach`, the second term contracts its `a` and `b` in place of the weight, in
    the cheapest order. Axes that the specification reads or writes under other names are also read
    and written so in `a` and `b`. Dropout applies to the other operand in the second term. Without
    adapters this is `nx.einsum`.

    Communication: as in `nx.einsum`, for the weight and for the two arrays of the adapter.

    Args:
      spec: as in `nx.einsum`, with a result after an arrow.
      *operands: named arrays, of which one may be a `lora.Adapted`.
      precision: as in `nx.einsum`; by default `None`.
      preferred_element_type: as in `nx.einsum`; by default the dtype of the operands.
      overlap: as in `nx.einsum`, for weights only; by default the setting of `xmap`.
      wire: as in `nx.einsum`, for weights only; by default the dtype of the data.

    Returns:
      As `nx.einsum` of the weight, with its dtype. Further axes of the adapter are axes of the
      result.

    Raises:
      ArgumentError: two operands have adapters, the specification has no arrow, another operand has
        the rank axis of the adapter, or there is dropout and more than one other operand.
      ArgumentTypeError: the specification is not a string.
      EinsumError: the specification is malformed or does not fit the operands.
      AxisNotFoundError: an operand lacks an axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((6, 8)), ["embed_fsdp", "hidden"])}
    >>> adapters = lora.init(params, jax.random.key(0), {"up": "embed_fsdp"}, rank=2, batch=())
    >>> x = nx.named(jnp.ones((5, 6)), ["batch", "embed"])
    >>> spec = "{embed}, {embed:embed_fsdp, hidden} -> {hidden}"
    >>> lora.einsum(spec, x, lora.attach(params, adapters)["up"]).dims
    ('batch', 'hidden')
    """
    op = "lora.einsum"
    types: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    adapted = [i for i, one in enumerate(operands) if isinstance(one, Adapted)]
    plain = [one.weight if isinstance(one, Adapted) else one for one in operands]
    base = contractions.einsum(spec, *plain, overlap=overlap, wire=wire, **types)
    if not adapted:
        return base
    at, others = adapted[0], [one for one in operands if not isinstance(one, Adapted)]
    if not isinstance(spec, str):
        raise ArgumentTypeError(
            f"{op}: the specification must be a string if operand {at} has an adapter, got"
            f" {format_value(spec)}. Write '{{embed}}, {{embed, hidden}} -> {{hidden}}'."
        )
    parsed = parse_einsum(spec)
    if len(adapted) > 1:
        raise ArgumentError(
            f"{op}: {spec!r} has {len(adapted)} operands with adapters. Contract them one after the"
            " other."
        )
    if parsed.result is None:
        raise ArgumentError(
            f"{op}: {spec!r} has no '->', and operand {at} has an adapter. Write the result after"
            " an arrow."
        )
    w = operands[at]
    adapter = w.adapter
    _check_rank(op, adapter, others, [label for term in parsed.operands for label, _ in term.names])
    if w.key is not None and len(others) != 1:
        raise ArgumentError(
            f"{op}: dropout applies to the other operand, but {spec!r} has {len(others)} other"
            " operands. Contract two of them at a time."
        )
    dtype = common_type(*(one.dtype for one in (*others, adapter.a, adapter.b)))
    others = [to_type(_dropped(one, w), dtype) for one in others]
    parts = [to_type(part, dtype) for part in (adapter.a, adapter.b)]
    terms = [term.text for i, term in enumerate(parsed.operands) if i != at]
    terms += [_part_text(parsed.operands[at], part, adapter.axis) for part in parts]
    low_spec = f"{','.join(terms)}->{parsed.result.text}"
    low = contractions.einsum(low_spec, *others, *parts, **types)
    return scaled_sum(base, low, adapter.scale)


def _part_text(term: Term, part: NamedArray, axis: Hashable) -> str:
    """Return the operand `part` of a specification in which `term` is the weight."""
    pairs = [(label, name) for label, name in term.names if name in part.named_shape]
    return "{" + ",".join(f"{label}:{name}" for label, name in [*pairs, (axis, axis)]) + "}"


def _check_rank(
    op: str, adapter: Adapter, others: Sequence[Any], labels: Sequence[Hashable] = ()
) -> None:
    """Check that the rank axis means the rank only: an equal axis of an operand would align."""
    for other in others:
        names = [dim for dim in dims_of(other) if dim is not None] if is_named(other) else []
        if adapter.axis in [*names, *labels]:
            raise ArgumentError(
                f"{op}: the name of the rank axis, {adapter.axis!r}, is also an axis of another"
                f" operand, {type_text(other)}. Rename that axis with nx.rename, or make adapters"
                " with another axis=."
            )


def _dropped(x: Any, w: Adapted) -> Any:
    return x if w.key is None else dropout(x, w.key, w.adapter.dropout)


def _one_type(x: Any, adapter: Adapter) -> tuple[Any, NamedArray, NamedArray]:
    """Cast an array and the arrays of an adapter to their common dtype."""
    dtype = common_type(x.dtype, adapter.a.dtype, adapter.b.dtype)
    return to_type(x, dtype), to_type(adapter.a, dtype), to_type(adapter.b, dtype)


def scaled_sum(base: Any, low: Any, scale: float) -> Any:
    """Return `base + scale * low` with the dtype of `base`.

    Raises:
      ArgumentTypeError: this dtype is not floating-point.
    """
    dtype = common_type(base.dtype, low.dtype)
    if not jnp.issubdtype(base.dtype, jnp.inexact):
        raise ArgumentTypeError(
            f"lora: the weight has the dtype {show_dtype(base.dtype)}, but only floating-point"
            " weights have adapters. Convert it with astype."
        )
    return to_type(to_type(base, dtype) + scale * to_type(low, dtype), base.dtype)
