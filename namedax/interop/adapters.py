"""Low-rank adapters of weights: initialize them, merge them, or apply them next to the weights.

An adapter of a weight has two arrays: `a` with the input axes and the rank, `b` with the rank and
the output axes. Adapters are a tree of their own, a dict from the path of a weight to its adapter,
so gradients and optimizer states are those of adapters only.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import math
import numbers
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp

from namedax import random
from namedax.core.annotations import ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.element_types import to_type
from namedax.core.names import DType, PyTree, check_name
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    as_integer,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.interop.key_texts import listed
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.along_axes import entries_of
from namedax.ops.shape.creation import zeros

__all__ = [
    "Adapted",
    "Adapter",
    "Adapters",
    "check_adapters",
    "check_number",
    "init",
    "places",
]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["a", "b"],
    meta_fields=["alpha", "rank_stabilized", "dropout", "axis"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Adapter:
    """A low-rank update of one weight, as an immutable pytree of two named arrays.

    The update is `scale * nx.dot(a, b, axis)`. The contraction of an activation with `a` and then
    with `b` has far fewer operations than the contraction with their product.

    Attributes:
      a: the array of the inputs, `{*batch, *inputs, rank}`.
      b: the array of the outputs, `{*batch, rank, *outputs}`.
      alpha: the numerator of `scale`.
      rank_stabilized: if `True`, `scale` is `alpha / sqrt(rank)`, by default `alpha / rank`.
      dropout: the probability with which an element of the input is dropped, by default 0.
      axis: the name of the rank axis, by default `"rank"`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> a = nx.named(jnp.ones((6, 4)), ["embed", "rank"])
    >>> b = nx.named(jnp.ones((4, 8)), ["rank", "hidden"])
    >>> adapter = nx.interop.lora.Adapter(a, b, alpha=8.0, rank_stabilized=True)
    >>> adapter.rank, adapter.scale
    (4, 4.0)
    """

    a: NamedArray
    b: NamedArray
    alpha: float
    rank_stabilized: bool = False
    dropout: float = 0.0
    axis: Hashable = "rank"

    @property
    def rank(self) -> int:
        """The size of the rank axis."""
        return int(self.a.named_shape[self.axis])

    @property
    def scale(self) -> float:
        """The factor of the update."""
        return self.alpha / (math.sqrt(self.rank) if self.rank_stabilized else self.rank)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["weight", "adapter", "key"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True, eq=False)
class Adapted:
    """A weight with its adapter, for `lora.dot` and `lora.einsum`.

    `lora.attach` makes it. It is a pytree, so loops over layers slice it like a weight.

    Attributes:
      weight: the weight.
      adapter: the adapter.
      key: the random keys of dropout, by default `None` for no dropout.
    """

    weight: NamedArray
    adapter: Adapter
    key: Any = None


Adapters: TypeAlias = Mapping[str, Adapter]


# --- initialization -------------------------------------------------------------------------------


@checks_signature
def init(
    params: PyTree,
    key: ArrayLike,
    targets: Mapping[str, AxisSpec],
    *,
    rank: int,
    batch: AxisSpec,
    alpha: float | None = None,
    rank_stabilized: bool = False,
    dropout: float = 0.0,
    axis: Hashable = "rank",
    named_shape: Mapping[Hashable, int] | None = None,
    dtype: DType = jnp.float32,
) -> dict[str, Adapter]:
    """Make low-rank adapters for some of the weights of a model.

    `a` is drawn from the uniform distribution on `[-1, 1] / sqrt(fan_in)`, and `b` is zero, as in
    PEFT. So at first the adapted model equals the model. The numbers of an adapter depend on the
    key and the path of its weight only, not on the layout or on the other targets.

    Communication: none.

    Source: Hu et al. 2021, "LoRA: low-rank adaptation of large language models". Kalajdzievski
    2023, "A rank stabilization scaling factor for fine-tuning with LoRA".

    Args:
      params: a pytree of named arrays.
      key: a random key.
      targets: a dict from patterns of paths to the input axes of the weights, which the model
        contracts, such as `{"layers/query": "embed", "layers/out": ("heads", "key")}`. A pattern
        may have `*`, `?` and `[...]`, as in `fnmatch`. The first pattern that matches applies.
      rank: the size of the rank axis.
      batch: the axes along which the weights are stacked, such as `"layers"` or `("layers",
        "experts")`, or `()`. Each element has an adapter of its own. All other axes are outputs.
      alpha: the scale is `alpha / rank`. Default: `rank`.
      rank_stabilized: if `True`, the scale is `alpha / sqrt(rank)`; by default `False`.
      dropout: the probability with which `attach` drops an element of the input; by default 0.
      axis: the name of the rank axis, by default `"rank"`.
      named_shape: sizes of further batch axes, such as `{"adapter": 8}` for eight adapters of each
        weight. Default: none.
      dtype: the dtype of the adapters, by default float32.

    Returns:
      A dict from the path of each weight, such as `"layers/query"`, to its adapter, with
      `a{*batch, *inputs, rank}` and `b{*batch, rank, *outputs}`.

    Raises:
      ArgumentError: a pattern matches no weight, a weight has no outputs or has the rank axis, an
        axis is both an input and a batch axis, or a number is out of range.
      ArgumentTypeError: a weight is not a floating-point array with named axes only, or an argument
        has an invalid type.
      AxisNotFoundError: a weight lacks an input axis, or all of them lack a batch axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> params = {"up": nx.named(jnp.ones((3, 6, 8)), ["layers", "embed", "hidden"])}
    >>> adapters = nx.interop.lora.init(
    ...     params, jax.random.key(0), {"up": "embed"}, rank=2, batch="layers"
    ... )
    >>> adapters["up"].a.dims, adapters["up"].b.dims
    (('layers', 'embed', 'rank'), ('layers', 'rank', 'hidden'))
    """
    op = "lora.init"
    rank = as_integer(op, "rank", rank, 1)
    alpha = rank if alpha is None else check_number(op, "alpha", alpha)
    rate = check_number(op, "dropout", dropout)
    if not 0 <= rate < 1:
        raise ArgumentError(
            f"{op}: dropout, the probability of a zero, must be at least 0 and less than 1, got"
            f" {format_value(dropout)}."
        )
    check_name(axis, op)
    stacked, further = _names(batch), dict(named_shape or {})
    chosen = {
        place: (leaf, _sides(op, place, leaf, inputs, stacked, axis, further))
        for place, leaf, inputs in _chosen(op, params, targets)
    }
    found = {dim for leaf, _ in chosen.values() for dim in leaf.named_shape}
    if unknown := [name for name in stacked if name not in found]:
        raise AxisNotFoundError(
            f"{op}: no chosen weight has the axes {show_names(unknown)} of batch."
            f" Choose from {show_names(sorted(found, key=str))}."
        )
    adapters = {}
    for place, (leaf, (own, inputs, outputs)) in chosen.items():
        sizes = leaf.named_shape
        common = further | {name: sizes[name] for name in own}
        shape_a = common | {name: sizes[name] for name in inputs} | {axis: rank}
        shape_b = common | {axis: rank} | {name: sizes[name] for name in outputs}
        bound = math.prod(sizes[name] for name in inputs) ** -0.5
        own_key = jax.random.fold_in(key, zlib.crc32(place.encode()))  # type: ignore[arg-type]
        a = random.uniform(own_key, (), jnp.float32, -bound, bound, named_shape=shape_a)
        b = zeros((), dtype, named_shape=shape_b)
        adapters[place] = Adapter(
            to_type(a, jnp.dtype(dtype)),
            cast(NamedArray, b),
            alpha,
            bool(rank_stabilized),
            rate,
            axis,
        )
    return adapters


def check_number(op: str, what: str, value: object) -> float:
    """Return a real number.

    Raises:
      ArgumentTypeError: it is not a number of Python or NumPy.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(
            f"{op}: {what} must be a static number, got {format_value(value)}. Pass {what}=0.5, or"
            " another number of Python."
        )
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _names(names: AxisSpec) -> tuple[Hashable, ...]:
    if isinstance(names, (set, frozenset)):
        return tuple(sorted(names, key=str))
    return entries_of(names)


def places(tree: PyTree) -> Iterator[tuple[str, Any]]:
    """Yield the path and the leaf of each array of a tree."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_named):
        yield jax.tree_util.keystr(path, simple=True, separator="/"), leaf


def _chosen(
    op: str, params: PyTree, targets: Mapping[str, AxisSpec]
) -> Iterator[tuple[str, Any, tuple[Hashable, ...]]]:
    """Yield the path, the weight and the input axes of each target."""
    if not isinstance(targets, Mapping) or not all(isinstance(one, str) for one in targets):
        raise ArgumentTypeError(
            f"{op}: targets is {format_value(targets)}, not a dict from patterns to input axes."
            ' Write targets={"layers/query": "embed"}.'
        )
    leaves = dict(places(params))
    for pattern in targets:
        if not any(fnmatch.fnmatchcase(place, pattern) for place in leaves):
            raise ArgumentError(
                f"{op}: the pattern {pattern!r} of targets matches no path of params."
                f"{did_you_mean(pattern, leaves)} The paths are {listed(leaves, 8)}."
            )
    for place, leaf in leaves.items():
        for pattern, inputs in targets.items():
            if fnmatch.fnmatchcase(place, pattern):
                yield place, leaf, _names(inputs)
                break


def _sides(
    op: str,
    place: str,
    leaf: Any,
    inputs: Sequence[Hashable],
    batch: Sequence[Hashable],
    axis: Hashable,
    further: Mapping[Hashable, int],
) -> tuple[list[Hashable], list[Hashable], list[Hashable]]:
    """Return the batch axes, inputs and outputs of a weight, in the order of its dims."""
    dims = dims_of(leaf) if is_named(leaf) else (None,)
    if None in dims or not jnp.issubdtype(leaf.dtype, jnp.floating):
        text = type_text(leaf) if hasattr(leaf, "dtype") else format_value(leaf)
        raise ArgumentTypeError(
            f"{op}: {place!r} is {text}, not a floating-point array with named axes only. Name its"
            " axes with nx.named, or choose other weights in targets."
        )
    text = f"{place!r}, {type_text(leaf)},"
    if missing := [name for name in inputs if name not in dims]:
        raise AxisNotFoundError(
            f"{op}: {text} lacks the input axes {show_names(missing)} of targets."
            f"{did_you_mean(missing[0], dims)} Choose from {show_names(dims)}."
        )
    if both := [name for name in inputs if name in batch]:
        raise ArgumentError(
            f"{op}: the axes {show_names(both)} of {text} are inputs in targets, and are in batch."
            " Remove them from one of the two."
        )
    if taken := [name for name in (axis, *further) if name in dims]:
        raise ArgumentError(
            f"{op}: {text} already has {show_names(taken)}. Pass another name for the new axis,"
            ' such as axis="lora_rank".'
        )
    own = [name for name in dims if name in batch]
    outputs = [name for name in dims if name not in own and name not in inputs]
    if not inputs or not outputs:
        kind = "outputs" if inputs else "inputs"
        raise ArgumentError(
            f"{op}: {text} has no {kind}: its inputs are {show_names(inputs)}, and its batch axes"
            f" {show_names(own)}. Choose a part of its axes as inputs."
        )
    return own, [name for name in dims if name in inputs], outputs


def check_adapters(op: str, adapters: object) -> None:
    """Check that a dict has paths and adapters.

    Raises:
      ArgumentTypeError: it does not.
    """
    if not isinstance(adapters, Mapping) or not all(
        isinstance(place, str) and isinstance(one, Adapter) for place, one in adapters.items()
    ):
        raise ArgumentTypeError(
            f"{op}: adapters is {format_value(adapters)}, not a dict from paths to adapters. Pass"
            " the result of lora.init or lora.load."
        )
