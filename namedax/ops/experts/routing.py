"""Routing: the choice of experts for every token, and the losses that keep the choice balanced.

The router's logits have a separate axis ("route"), which is not the axis of the experts' parameters
("expert"). The experts may be sharded over the mesh axis of the batch, and two names of one mesh
axis cannot be in one array. `namedax.ops.experts.mixture` applies experts to tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Literal

import jax
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    NamedAxesLeftError,
    PositionalAxisError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.nn.activations import softmax
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.reductions import REDUCTIONS
from namedax.ops.shape.creation import one_hot
from namedax.ops.sorting.sorting import top_k

__all__ = ["FUNCTIONS", "Routing", "load_balancing_loss", "router_z_loss", "top_k_routing"]

_mean, _sum, _logsumexp = REDUCTIONS["mean"], REDUCTIONS["sum"], REDUCTIONS["logsumexp"]
_square = ELEMENTWISE["square"]


@dataclasses.dataclass(frozen=True)
class Routing:
    """The experts that every token chooses, as a pytree.

    `top_k_routing` makes one. Another router may make one from any indices and weights;
    `nx.nn.mixture_of_experts` needs only these.

    Attributes:
      index: the expert numbers, with the axes of the tokens and `choice`. A number out of range
        chooses no expert.
      weight: the weight of each expert's result, with the same axes.
      probabilities: the probabilities of all experts, with the axes of the tokens and `route`; for
        `load_balancing_loss`.
      experts: the number of experts.
      route: the axis name of the router's axis, by default `"route"`.
      choice: the axis name of a token's choices, best first, by default `"choice"`.
    """

    index: AnyArray
    weight: AnyArray
    probabilities: AnyArray
    experts: int
    route: Hashable = "route"
    choice: Hashable = "choice"

    @property
    def _names_kept(self) -> tuple[Hashable, ...]:
        # Static fields, so that `nx.rename` of a tree does not change them.
        return self.route, self.choice


jax.tree_util.register_dataclass(
    Routing,
    data_fields=["index", "weight", "probabilities"],
    meta_fields=["experts", "route", "choice"],
)


@operation(scope=True)
def top_k_routing(
    logits: ArrayLike,
    axis: Hashable,
    k: int,
    *,
    choice: Hashable = "choice",
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

    >>> import jax.numpy as jnp, namedax as nx
    >>> shares = jnp.array([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5]])
    >>> logits = nx.named(jnp.log(shares), ["token", "route"])
    >>> routing = nx.nn.top_k_routing(logits, "route", 2)
    >>> nx.positional(routing.index, ["token", "choice"]).tolist()
    [[1, 2], [0, 2]]
    >>> [round(float(w), 3) for w in nx.positional(routing.weight, ["token", "choice"])[0]]
    [0.667, 0.333]
    """
    op = "top_k_routing"
    dims = dims_of(logits)
    if not isinstance(logits, NamedArray) or axis not in dims or axis is None:
        raise_not_found(op, axis, type_text(logits), names_of(dims))
    if not is_name(choice) or choice in dims:
        raise AxisNameError(
            f"{op}: choice={format_value(choice)} must be the name of a new axis of"
            f" {type_text(logits)}. Pass another name as choice=."
        )
    experts = logits.named_shape[axis]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= experts:
        raise ArgumentError(
            f"{op}: k={format_value(k)} is not between 1 and {experts}, the size of axis"
            f" {format_value(axis)} in {type_text(logits)}."
        )
    probabilities = softmax(logits, axis)
    weight, index = top_k(probabilities, int(k), axis=axis, out_axis=choice)
    if normalize:
        weight = weight / _sum(weight, choice)
    return Routing(index, weight, probabilities, experts, axis, choice)


@operation("over", scope=True)
def load_balancing_loss(
    routing: Routing,
    over: AxisSpec,
    *,
    where: ArrayLike | None = None,
    normalization: Literal["switch", "mixtral"] = "switch",
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

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(9 * jnp.eye(4), ["token", "route"])
    >>> round(float(nx.nn.load_balancing_loss(nx.nn.top_k_routing(logits, "route", 1), "token")), 3)
    1.0
    """
    op = "load_balancing_loss"
    check_routing(op, routing)
    names = over_names(op, over, routing.probabilities, routing.route)
    if normalization not in ("switch", "mixtral"):
        raise ArgumentError(
            f"{op}: normalization={format_value(normalization)} is unknown. Pass 'switch' (shares"
            " of all choices) or 'mixtral' (choices per token)."
        )
    if where is not None:
        _check_mask(op, where, routing)
    # If the router's axis is sharded, its numbers are global indices, and so is the one-hot axis.
    chosen = one_hot(routing.index, routing.experts, axis=routing.route)
    # Of integers, so it has no gradient.
    share = _mean(chosen, (*names, routing.choice), where=where)
    factor = routing.experts
    if normalization == "mixtral":
        index: NamedArray = routing.index  # type: ignore[assignment]  # checked above
        factor *= index.named_shape[routing.choice]
    mean = _mean(routing.probabilities, names, where=where)
    return factor * _sum(share * mean, routing.route)


def _check_mask(op: str, where: ArrayLike, routing: Routing) -> None:
    if np.result_type(where) != np.bool_:
        raise ArgumentTypeError(
            f"{op}: where must contain booleans, got {type_text(where)}. Pass mask > 0 or another"
            " comparison."
        )
    tokens = [dim for dim in names_of(dims_of(routing.probabilities)) if dim != routing.route]
    for name in dims_of(where):
        if name not in tokens:
            what = f"the routing of {type_text(routing.probabilities)}"
            raise_not_found(op, name, what, tokens, f"where, {type_text(where)}, has it.")


@operation(scope=True)
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

    >>> import jax.numpy as jnp, namedax as nx
    >>> logits = nx.named(jnp.zeros((3, 8)), ["token", "route"])
    >>> bool(jnp.isclose(nx.nn.router_z_loss(logits, "route", "token"), jnp.log(8) ** 2))
    True
    """
    op = "router_z_loss"
    if axis not in dims_of(logits) or axis is None:
        raise_not_found(op, axis, type_text(logits), names_of(dims_of(logits)))
    names = over_names(op, over, logits, axis)
    return _mean(_square(_logsumexp(logits, axis)), names)


def over_names(op: str, over: AxisSpec, array: ArrayLike, axis: Hashable) -> tuple[Hashable, ...]:
    """Return `over` as a tuple of axis names of `array`, which excludes `axis`."""
    names = tuple(over) if isinstance(over, (tuple, list)) else (over,)
    dims = dims_of(array)
    for name in names:
        if name not in dims or name is None or name == axis:
            candidates = [d for d in dims if d is not None and d != axis]
            remedy = f"over= names the axes of the tokens; {axis!r} is the router's axis."
            raise_not_found(op, name, type_text(array), candidates, remedy)
    return names


def check_routing(op: str, routing: object) -> None:
    """Raise if `routing` is not a `Routing`, or if its arrays do not fit together."""
    if not isinstance(routing, Routing):
        raise ArgumentTypeError(
            f"{op}: routing must be a Routing, got {type_text(routing)}. Pass the result of"
            " nx.nn.top_k_routing."
        )
    for what in ("index", "weight"):
        array = getattr(routing, what)
        dims = dims_of(array)
        if routing.choice not in dims:
            names = names_of(dims)
            raise_not_found(
                op,
                routing.choice,
                f"routing.{what}, {type_text(array)}",
                names,
                "It enumerates the choices of a token.",
            )
        if None in dims:
            raise PositionalAxisError(
                f"{op}: routing.{what} is {type_text(array)}, but must have named axes only. Name"
                " the others with nx.named."
            )
    if set(dims_of(routing.index)) != set(dims_of(routing.weight)):
        missing = set(dims_of(routing.index)) ^ set(dims_of(routing.weight))
        raise NamedAxesLeftError(
            f"{op}: routing.index is {type_text(routing.index)} and routing.weight"
            f" {type_text(routing.weight)}; they must have the same axis names, but only one has"
            f" {show_names(sorted(missing, key=str))}. Broadcast the other, or reduce over this"
            " axis."
        )
    if not np.issubdtype(routing.index.dtype, np.integer):
        raise ArgumentTypeError(
            f"{op}: routing.index must contain integers, got {type_text(routing.index)}."
        )


FUNCTIONS: dict[str, Callable[..., Routing | AnyArray]] = {
    f.__name__: f for f in (Routing, load_balancing_loss, router_z_loss, top_k_routing)
}
