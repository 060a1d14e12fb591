"""Adapters in a tree of weights: merged with them, next to them, stacked and selected."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp

from namedax import random
from namedax.core.annotations import ArrayLike
from namedax.core.array import NamedArray, dims_of, is_named
from namedax.core.display import type_text
from namedax.core.element_types import common_type, to_type
from namedax.core.names import PyTree
from namedax.errors import ArgumentError, did_you_mean
from namedax.interop.adapters import Adapted, Adapter, Adapters, check_adapters, places
from namedax.interop.key_texts import listed
from namedax.interop.low_rank import scaled_sum
from namedax.messages.call_errors import checks_signature
from namedax.ops.contraction import einsum as contractions
from namedax.ops.indexing.getitem import getitem
from namedax.ops.shape.joining import stack as stack_arrays

__all__ = ["attach", "merge", "select", "stack"]


@checks_signature
def merge(params: PyTree, adapters: Adapters) -> Any:
    """Add adapters to the weights of a model.

    The code of the model does not change. Call `merge` in the loss to train adapters, and outside
    of it to export a model. It needs memory for the merged weights; `attach` does not. There is no
    dropout.

    Communication: none if the rank is not sharded. Otherwise one all-reduce of each merged weight.
    The gradients are reduced over devices at the merged weights, so they are as large as weights.
    With `attach` they are as large as the adapters.

    Args:
      params: a pytree of named arrays.
      adapters: a dict from paths of `params` to adapters.

    Returns:
      The tree with `weight + scale * nx.dot(a, b, "rank")` in place of each adapted weight. The
      sums are rounded once, to the dtype of the weight. A further axis of the adapter, such as
      `adapter`, is an axis of the merged weight.

    Raises:
      ArgumentError: a path is not in `params`, or an adapter does not have the axes of its weight.
      ArgumentTypeError: `adapters` is not a dict of adapters.
      AxisSizeError: sizes disagree.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((6, 8)), ["embed", "hidden"])}
    >>> adapters = lora.init(params, jax.random.key(0), {"up": "embed"}, rank=2, batch=())
    >>> lora.merge(params, adapters)["up"].dims
    ('embed', 'hidden')
    """

    def merged(weight: Any, adapter: Adapter, _: str) -> Any:
        # In float32 or wider: the products of short floats are rounded once, with the sum.
        a, b = (to_type(part, common_type(part.dtype, jnp.float32)) for part in _parts(adapter))
        return scaled_sum(weight, contractions.dot(a, b, adapter.axis), adapter.scale)

    return _replaced("lora.merge", params, adapters, merged)


@checks_signature
def attach(params: PyTree, adapters: Adapters, key: ArrayLike | None = None) -> Any:
    """Put adapters next to the weights of a model, without merging them.

    The model then calls `lora.dot` in place of `nx.dot`, or `lora.einsum` in place of `nx.einsum`.
    Both also accept weights without adapters.

    Args:
      params: a pytree of named arrays.
      adapters: a dict from paths of `params` to adapters.
      key: a random key for dropout, a new one in each training step. Default: no dropout, for
        inference. Each weight, and each element along its batch axes, gets a key of its own.

    Returns:
      The tree with a `lora.Adapted` in place of each adapted weight.

    Raises:
      ArgumentError: a path is not in `params`, or an adapter does not have the axes of its weight.
      ArgumentTypeError: `adapters` is not a dict of adapters.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((6, 8)), ["embed", "hidden"])}
    >>> adapters = lora.init(params, jax.random.key(0), {"up": "embed"}, rank=2, batch=())
    >>> x = nx.named(jnp.ones((5, 6)), ["batch", "embed"])
    >>> lora.dot(x, lora.attach(params, adapters)["up"], "embed").dims
    ('batch', 'hidden')
    """

    def attached(weight: Any, adapter: Adapter, place: str) -> Adapted:
        if key is None or not adapter.dropout:
            return Adapted(weight, adapter)
        own = jax.random.fold_in(key, zlib.crc32(place.encode()))  # type: ignore[arg-type]
        common = {
            name: size
            for name, size in weight.named_shape.items()
            if name in adapter.a.named_shape and name in adapter.b.named_shape
        }
        keys = random.split(own, named_shape=common) if common else own
        return Adapted(weight, adapter, keys)

    return _replaced("lora.attach", params, adapters, attached)


def _parts(adapter: Adapter) -> tuple[NamedArray, NamedArray]:
    return adapter.a, adapter.b


def _replaced(
    op: str, params: PyTree, adapters: Adapters, make: Callable[[Any, Adapter, str], Any]
) -> Any:
    """Replace the adapted weights of a tree."""
    check_adapters(op, adapters)
    structure: Any = jax.tree.structure(params, is_leaf=is_named)
    leaves = dict(places(params))
    for place, adapter in adapters.items():
        if place not in leaves:
            raise ArgumentError(
                f"{op}: adapters has the path {place!r}, which is not in params."
                f"{did_you_mean(place, leaves)} The paths are {listed(leaves, 8)}. Pass the tree"
                " from which the adapters were made."
            )
        weight = leaves[place]
        have = {*adapter.a.named_shape, *adapter.b.named_shape} - {adapter.axis}
        if not is_named(weight) or not {*dims_of(weight)} <= have:
            raise ArgumentError(
                f"{op}: the weight {place!r}, {type_text(weight)}, has other axes than its adapter"
                f" a, {type_text(adapter.a)}, and b, {type_text(adapter.b)}. Make adapters for"
                " this tree with lora.init."
            )
        leaves[place] = make(weight, adapter, place)
    return structure.unflatten(leaves.values())


@checks_signature
def stack(adapters: Sequence[Adapters], axis: Hashable = "adapter") -> dict[str, Adapter]:
    """Stack the adapters of several fine-tuned models along a new axis.

    Args:
      adapters: dicts of adapters of the same weights, with equal ranks and scales.
      axis: the name of the new axis, by default `"adapter"`.

    Returns:
      A dict of adapters with the new axis.

    Raises:
      ArgumentError: the list is empty, or the adapters have different paths, ranks or scales.
      ArgumentTypeError: an element is not a dict of adapters.
      AxisNameError: the adapters already have the axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((6, 8)), ["embed", "hidden"])}
    >>> one = lora.init(params, jax.random.key(0), {"up": "embed"}, rank=2, batch=())
    >>> two = lora.init(params, jax.random.key(1), {"up": "embed"}, rank=2, batch=())
    >>> lora.stack([one, two])["up"].a.named_shape["adapter"]
    2
    """
    op = "lora.stack"
    trees = [*adapters]
    if not trees:
        raise ArgumentError(f"{op}: the list of adapters is empty. Pass at least one dict.")
    for number, tree in enumerate(trees):
        check_adapters(op, tree)
        if {*tree} != {*trees[0]}:
            different = sorted({*tree} ^ {*trees[0]})
            raise ArgumentError(
                f"{op}: of the adapters 0 and {number}, only one has {listed(different, 8)}. Stack"
                " adapters of the same weights."
            )
        for place, one in tree.items():
            first = trees[0][place]
            settings, wanted = (
                {"rank": a.rank, "scale": a.scale, "dropout": a.dropout, "axis": a.axis}
                for a in (one, first)
            )
            if settings != wanted:
                raise ArgumentError(
                    f"{op}: {place!r} has {settings} in adapter {number}, and {wanted} in adapter"
                    " 0. Stack adapters of equal rank and scale."
                )
    return {
        place: dataclasses.replace(
            first,
            a=cast(NamedArray, stack_arrays([tree[place].a for tree in trees], axis)),
            b=cast(NamedArray, stack_arrays([tree[place].b for tree in trees], axis)),
        )
        for place, first in trees[0].items()
    }


@checks_signature
def select(adapters: Adapters, axis: Hashable, index: Any) -> dict[str, Adapter]:
    """Select adapters along an axis, for example one for each request of a batch.

    `attach` and `merge` accept the result. With `attach`, each request is multiplied by the two
    arrays of its own adapter, and all of them share the weight.

    Communication: that of indexing with `x[{axis: index}]`; none if `axis` is not sharded.

    Args:
      adapters: a dict of adapters with this axis.
      axis: the name of the axis, such as `"adapter"`.
      index: an integer, or a named array of integers, such as `i32[]{batch:8}`.

    Returns:
      A dict of adapters with the axes of `index` in place of `axis`.

    Raises:
      ArgumentTypeError: `adapters` is not a dict of adapters.
      AxisNotFoundError: an adapter lacks the axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((6, 8)), ["embed", "hidden"])}
    >>> many = lora.init(
    ...     params, jax.random.key(0), {"up": "embed"}, rank=2, batch=(), named_shape={"adapter": 3}
    ... )
    >>> requests = nx.named(jnp.array([2, 0, 2, 1]), ["batch"])
    >>> lora.select(many, "adapter", requests)["up"].b.dims
    ('batch', 'rank', 'hidden')
    """
    check_adapters("lora.select", adapters)
    return {
        place: dataclasses.replace(
            one,
            a=cast(NamedArray, getitem(one.a, {axis: index})),
            b=cast(NamedArray, getitem(one.b, {axis: index})),
        )
        for place, one in adapters.items()
    }
