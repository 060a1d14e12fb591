"""A mixture of experts by name: every token goes to the experts that it has chosen, and their results come back, weighted.

`namedax.ops.routing` chooses. Here tokens are sorted into the *slots* of their experts (indices, never a mask of tokens by experts), the
slots travel to the devices that have the experts, the experts' function is applied to an array of slots, `{axis, slot}` and the
features, and the results travel back.

**What is sent** follows from the mesh axes of the experts:

- none: nothing.
- mesh axes on which every device has the tokens ("model"): each device takes those slots that are its experts', and the results
  meet in one all-reduce. No token is sent.
- mesh axes of groups of tokens (the batch and the experts both on "data", which is expert parallelism): one all-to-all of the slots
  there and one back, and the same two in the gradient.
- both, for experts on several mesh axes.

**Capacity** (Lepikhin et al. 2020, "GShard"): each expert has a number of slots for each group of tokens, and tokens beyond it are
dropped. Which ones depends on logical indices only. Where capacity is counted along an axis that is itself sharded, one all-gather
of counts says on each device how many come before its tokens; the slots are filled by a reduce-scatter, from all devices that have
a part of them, and the results come back by an all-gather.

**Without capacity** no token is dropped. Slots are as many as an even load needs, and the experts' function is applied in rounds until
no token is left, most often once or twice. All devices that communicate agree on the number of rounds (one all-reduce of a number).
The gradient runs the rounds again: it keeps nothing of them. It sends the results' gradients to the experts along with the tokens, in
one all-to-all of every round, and those of the tokens back in another.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, subjaxprs

from namedax.array import Dims, NamedArray, dims_of, is_name, type_text
from namedax.environment import Region, ambient, enter
from namedax.errors import (
    ArgumentError,
    AxisNameError,
    AxisNotFoundError,
    AxisResourceError,
    AxisSizeError,
    raise_not_found,
    show_names,
)
from namedax.ops.align import local_block, wrap
from namedax.ops.leaves import array_of, flatten
from namedax.ops.lift import explain_type_errors
from namedax.ops.routing import Routing, check_routing
from namedax.ops.slots import Slots, rank_among_equals, rank_in_groups
from namedax.resources import communication as comm
from namedax.resources.programs import cast_axes, collective_axes
from namedax.resources.serial import LoopAxis
from namedax.resources.variance import cast, cast_data, varying, varying_of

__all__ = ["FUNCTIONS", "mixture_of_experts"]

_OP = "mixture_of_experts"

Axes = tuple[str, ...]


def mixture_of_experts(
    expert: Callable[[Any, Any], Any],
    params: Any,
    x: Any,
    routing: Routing,
    *,
    tokens: Any,
    axis: Hashable = "expert",
    slot: Hashable = "slot",
    capacity: int | None = None,
    chunk: int | None = None,
) -> Any:
    """The results of the experts that every token has chosen, added up with their weights.

    Args:
      expert: `expert(params, x)`, a function over names. Its `x` has the axes `axis`, `slot` and the features: all tokens that chose an
        expert, one after the other. It returns an array with `axis`, `slot` and any features. It acts on every slot by itself. Slots
        that are empty hold zeros, and what it makes of these is ignored (but, as ever in JAX, its derivative there must be finite).
      params: a pytree for `expert`. Arrays with `axis` have an entry for every expert.
      x: a named array.
      routing: which experts every token chooses; see `top_k_routing`.
      tokens: the name of the tokens, or a tuple of names. Other names that `x` and the routing share (a batch) are groups of tokens;
        names of `x` alone are features, positional axes too.
      axis: the name of the experts. It differs from the router's, because it may be on a mesh axis of the groups or tokens.
      slot: the name of the slots. It has no entry in `axis_resources`: slots are where the groups are, as far as the experts are not.
      capacity: how many slots an expert has for each group. Tokens beyond it are dropped (the result is zero for them): first choices
        go before second ones, then tokens in their order, row-major over `tokens`. `None`: no token is dropped.
      chunk: without capacity, how many slots an expert has on a device in one round; by default what an even load needs.

    Returns:
      An array with the names of `x`, but the features are those of the experts' results. It has their element type.

    Sends what the module's text says. Parameters are not moved. Without capacity the derivative is of reverse mode and first order;
    arrays that `expert` closes over have their gradients too.

    Raises:
      AxisNotFoundError: `x` or the routing lacks a name, or the result of `expert` lacks `axis` or `slot`.
      AxisNameError: `axis` or `slot` is no name, or a name of `x`, or the result of `expert` has a name of the tokens.
      AxisSizeError: `x` and the routing, or `params` and the routing, disagree about a size, or the experts do not divide over their
        mesh axes.
      AxisResourceError: `slot` or the axis of the choices is mapped.
      ArgumentError: `capacity` or `chunk` is no positive integer, or both are given.
      PlacementConflictError: a feature is on a mesh axis of the experts.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> x = nx.random.normal(jax.random.key(0), named_shape={"token": 6, "embed": 4})
    >>> w = nx.random.normal(jax.random.key(1), named_shape={"expert": 3, "embed": 4, "out": 5})
    >>> router = nx.random.normal(jax.random.key(2), named_shape={"embed": 4, "route": 3})
    >>> routing = nx.nn.top_k_routing(nx.dot(x, router, "embed"), "route", 2)
    >>> y = nx.nn.mixture_of_experts(lambda w, x: nx.dot(x, w, "embed"), w, x, routing, tokens="token")
    >>> y.dims
    ('token', 'out')
    """
    check_routing(_OP, routing)
    _check_counts(capacity, chunk)
    names = _Names.of(x, routing, tokens, axis, slot)
    with explain_type_errors:
        mixture = _Mixture(expert, params, x, routing, names)
        return mixture.within_capacity(int(capacity)) if capacity is not None else mixture.in_rounds(chunk)


# --- what is what -----------------------------------------------------------------------------------------------------------


def _check_counts(capacity: Any, chunk: Any) -> None:
    for what, count in (("capacity", capacity), ("chunk", chunk)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1):
            raise ArgumentError(f"{_OP}: {what}={count!r}; it is a number of slots, an integer from 1, or None.")
    if capacity is not None and chunk is not None:
        raise ArgumentError(
            f"{_OP}: capacity={capacity} and chunk={chunk}: with a capacity there are no rounds. Leave out one of the two."
        )


@dataclasses.dataclass(frozen=True)
class _Names:
    """The names of a mixture, by what they are for. `dims` are those of `x`, without the positional ones."""

    groups: tuple[Hashable, ...]
    tokens: tuple[Hashable, ...]
    features: tuple[Hashable, ...]
    dims: tuple[Hashable, ...]
    axis: Hashable
    slot: Hashable

    @classmethod
    def of(cls, x: Any, routing: Routing, tokens: Any, axis: Hashable, slot: Hashable) -> _Names:
        tokens = tuple(tokens) if isinstance(tokens, (tuple, list)) else (tokens,)
        own = [dim for dim in dims_of(x) if dim is not None]
        routed = [dim for dim in dims_of(routing.index) if dim != routing.choice]
        if not tokens or len(set(tokens)) < len(tokens):
            raise AxisNameError(f"{_OP}: tokens={tokens!r}; give the name of the tokens, or a tuple of different names.")
        for name in tokens:
            if name not in own:
                raise_not_found(_OP, name, type_text(x), own, "tokens= names the axes that are routed.")
            if name not in routed:
                raise_not_found(
                    _OP, name, f"routing.index, {type_text(routing.index)}", routed, "Every token chooses its experts."
                )
        for name in routed:
            if name not in own:
                raise_not_found(_OP, name, type_text(x), own, "The routing has this axis. Broadcast x, or reduce the logits.")
        for what, name in (("axis", axis), ("slot", slot)):
            if not is_name(name) or name in own or name == routing.choice:
                raise AxisNameError(
                    f"{_OP}: {what}={name!r} is to be the name of an axis that the experts see and {type_text(x)} does not have. Give "
                    f"another name as {what}=, or rename that of x."
                )
        if axis == slot:
            raise AxisNameError(f"{_OP}: axis and slot are both {axis!r}; the experts and their slots are two axes.")
        groups = tuple(dim for dim in own if dim in routed and dim not in tokens)
        features = tuple(dim for dim in own if dim not in routed)
        return cls(groups, tokens, features, tuple(own), axis, slot)


@dataclasses.dataclass(frozen=True)
class _Exchange:
    """How slots get from the devices that have the tokens to those that have the experts, and back.

    Attributes:
      experts: how many there are.
      sizes: the number of devices along each mesh axis of the experts, major first.
      own: those on which every device has the tokens: it takes the slots of its own experts.
      exchanged: those that groups of tokens are on: an all-to-all.
      summed: those that one group's tokens are on: devices fill different slots, which are added up.
      cut: mesh axes of one group's tokens that the experts are not on: the slots go onto them, when they are added up.
      cut_size: the number of devices along these.
    """

    experts: int
    sizes: tuple[tuple[str, int], ...] = ()
    own: Axes = ()
    exchanged: Axes = ()
    summed: Axes = ()
    cut: Axes = ()
    cut_size: int = 1

    def blocks(self, axes: Axes) -> int:
        """The number of devices along some of the mesh axes of the experts."""
        return math.prod(n for axis, n in self.sizes if axis in axes)

    @property
    def inner(self) -> int:
        """The number of experts of one device."""
        return self.experts // math.prod(n for _, n in self.sizes)

    @property
    def count(self) -> int:
        """The number of experts that one device has slots for, before anything is sent."""
        return self.experts // self.blocks(self.own)

    def number(self, index: Any) -> Any:
        """Where experts stand among those that this device has slots for; `count` for those that it has none for."""
        within, rest = index % self.inner, index // self.inner
        digits = {}
        for axis, n in reversed(self.sizes):
            digits[axis], rest = rest % n, rest // n
        at: Any = jnp.zeros_like(index)
        for axis, n in self.sizes:
            if axis in self.exchanged:
                at = at * n + digits[axis]
        for axis, n in self.sizes:
            if axis in self.summed:
                at = at * n + digits[axis]
        here = (index >= 0) & (index < self.experts)
        for axis in self.own:
            here &= digits[axis] == comm.block_index((axis,)).astype(index.dtype)
        return jnp.where(here, at * self.inner + within, self.count)

    def send(self, data: Any) -> Any:
        """Slots `[count, slots, features]` as `[inner, more slots, features]` where the experts are."""
        n, m = self.blocks(self.exchanged), self.blocks(self.summed)
        data = data.reshape(n, m, self.inner, *data.shape[1:])
        if self.summed:
            data = comm.psum_scatter(data, 1, self.summed)
        if self.cut:
            data = comm.psum_scatter(data, 3, self.cut)
        if self.exchanged:
            data = comm.all_to_all(data, 0, 3, self.exchanged)
        return data.reshape(data.shape[2:])

    def back(self, data: Any) -> Any:
        """The way back of `send`."""
        data = data[None, None]
        if self.exchanged:
            data = comm.all_to_all(data, 3, 0, self.exchanged)
        if self.cut:
            data = comm.all_gather(data, 3, self.cut, "varying")
        if self.summed:
            data = comm.all_gather(data, 1, self.summed, "varying")
        return data.reshape(self.count, *data.shape[3:])


class _Mixture:
    """One call: the operands as blocks of this device, in one order of their axes."""

    def __init__(self, expert: Callable[..., Any], params: Any, x: Any, routing: Routing, names: _Names):
        self.expert, self.names, self.experts = expert, names, routing.experts
        self.region = region = ambient()
        self.leaves, self.tree = flatten(params)
        self.leaves = [_array(local_block(leaf, _OP, region)) if _is_array(leaf) else leaf for leaf in self.leaves]
        x, index, weight = (_array(local_block(array, _OP, region)) for array in (x, routing.index, routing.weight))
        self._check_sizes(x, index, routing)
        self._check_placements(routing)
        order = (*names.groups, *names.tokens)
        self.feature_dims: Dims = (*names.features, *(None,) * dims_of(x).count(None))
        self.axes_of_experts = self.place((names.axis,))
        # A token is on the devices of its experts; what does not vary there is cast once, and its gradient added up once. Over mesh
        # axes of the features `x` alone varies: the experts' function contracts them.
        common = varying(index._data) | varying(weight._data) | frozenset(self.axes_of_experts) | frozenset(self.place(order))
        data = _ordered(cast(x, common), x._dims, order)
        self.block_sizes = data.shape[: len(order)]
        self.group_count = math.prod(self.block_sizes[: len(names.groups)])
        self.token_count = math.prod(self.block_sizes[len(names.groups) :])
        self.feature_shape = data.shape[len(order) :]
        self.rows = data.reshape(self.group_count * self.token_count, math.prod(self.feature_shape))
        arranged = (routing.choice, *order)
        index, weight = (_ordered(cast(a, common), a._dims, arranged) for a in (index, weight))
        self.choices = index.shape[0]
        index = index.astype(jnp.promote_types(index.dtype, jnp.int32))
        self.index = index.reshape(self.choices, self.group_count, *index.shape[1 + len(names.groups) :])
        self.weight = weight.reshape(self.choices, -1)

    def place(self, names: Sequence[Hashable]) -> Axes:
        """The mesh axes over which blocks of these names are spread."""
        region = self.region
        return () if region is None else tuple(axis for name in names for axis in region.placement(name))

    # --- checks -----------------------------------------------------------------------------------------------------------

    def _check_sizes(self, x: Any, index: Any, routing: Routing) -> None:
        for name, n in index.named_shape.items():
            if name != routing.choice and x.named_shape[name] != n:
                raise AxisSizeError(
                    f"{_OP}: axis {name!r} has size {x.named_shape[name]} in {type_text(x)} and {n} in routing.index, "
                    f"{type_text(index)}; a name has one size. Rename one of the two axes."
                )
        axis = self.names.axis
        for leaf in self.leaves:
            if isinstance(leaf, NamedArray) and leaf.named_shape.get(axis, self.experts) != self.experts:
                raise AxisSizeError(
                    f"{_OP}: axis {axis!r} has size {leaf.named_shape[axis]} in a parameter, {type_text(leaf)}, but the routing is to "
                    f"{self.experts} experts. Give the router as many entries as there are experts, or say with axis= what names these."
                )
        if self.region is not None:
            known = self.region.sizes.get(axis, self.experts)
            if known != self.experts:
                raise AxisSizeError(
                    f"{_OP}: axis {axis!r} has size {known} in this mapped function, but the routing is to {self.experts} experts. Give "
                    "the router as many entries as there are experts, or say with axis= what names these."
                )
            self.region.block_size(axis, self.experts, _OP)

    def _check_placements(self, routing: Routing) -> None:
        names, region = self.names, self.region
        if region is None:
            return
        region.seen.update((names.axis, names.slot))
        for what, name in (("slot", names.slot), ("choice", routing.choice)):
            if name in region.resources:
                raise AxisResourceError(
                    f"{_OP}: axis_resources maps the {what} axis {name!r} to mesh axes {region.resources[name]}. It can not be mapped: slots "
                    "are where the groups of tokens are, and a token's choices are together. Remove the entry."
                )
        region.check_placement(_OP, (names.axis, *names.features))

    # --- the experts' function ------------------------------------------------------------------------------------------

    def _within(self, placement: Axes, slots: int) -> Region | None:
        """The region that the experts' function sees: in it slots are where the groups of tokens are."""
        region, slot = self.region, self.names.slot
        if region is None or not placement:
            return region
        devices = region.mesh_axis_size(placement)
        if not region.manual and slots % devices:
            return region  # to XLA's partitioner it would be a hint only
        sizes = {**region.sizes, slot: slots * devices if region.manual else slots}
        resources = {**region.resources, slot: placement}
        return Region(sizes, resources, region.mesh, region.mode, (_OP, region), region.overlap)

    def _apply(self, data: Any, leaves: Sequence[Any], placement: Axes) -> tuple[Any, Dims]:
        """The experts' results for slots `[experts, slots, *features]`, in that order, and the dims of their features."""
        axis, slot, outer = self.names.axis, self.names.slot, self.region
        region = self._within(placement, data.shape[1])
        with enter(region):
            result = self.expert(self.tree.unflatten(leaves), wrap(data, (axis, slot, *self.feature_dims)))
            result = local_block(result, _OP, region)
        if outer is not None and region is not None and region is not outer:
            outer.seen.update(region.seen)
        dims = dims_of(result)
        for name in (axis, slot):
            if name not in dims:
                raise AxisNotFoundError(
                    f"{_OP}: the result of the experts' function, {type_text(result)}, has no axis {name!r}. It has a result for every slot "
                    f"of every expert: keep {axis!r} and {slot!r}."
                )
        taken = [name for name in (*self.names.groups, *self.names.tokens) if name in dims]
        if taken:
            raise AxisNameError(
                f"{_OP}: the result of the experts' function, {type_text(result)}, has {show_names(taken)}, which names the tokens. Slots hold "
                "tokens of all groups; give what belongs to a token as a feature of x, or rename the axis."
            )
        return _ordered(result._data, dims, (axis, slot)), tuple(dim for dim in dims if dim not in (axis, slot))

    def _finish(self, rows: Any, shape: Sequence[int], dims: Dims) -> Any:
        """Rows of all tokens as the result of the operation, with the names in the order in which `x` has them."""
        names = self.names
        have = (*names.groups, *names.tokens, *dims)
        data = rows.reshape(*self.block_sizes, *shape)
        order = [have.index(dim) for dim in names.dims if dim in have]
        order += [i for i in range(len(have)) if i not in order]
        if self.region is not None:
            self.region.check_placement(_OP, (dim for dim in have if dim is not None))
        return wrap(lax.transpose(data, order), tuple(have[i] for i in order))

    # --- with a capacity --------------------------------------------------------------------------------------------------

    def within_capacity(self, capacity: int) -> Any:
        """A fixed number of slots for every expert and group; tokens beyond it are dropped."""
        names = self.names
        exchange = self._exchange(self.place(names.groups), self.place(names.tokens))
        rank = rank_in_groups(self.index, self.experts, [self.place((name,)) for name in names.tokens])
        groups, tokens = self.group_count, self.token_count
        # Slots that go onto mesh axes divide over them.
        size = -(-capacity // exchange.cut_size) * exchange.cut_size
        number = exchange.number(self.index).reshape(self.choices, groups, tokens)
        rank = rank.reshape(number.shape)
        group = lax.broadcasted_iota(number.dtype, number.shape, 1)
        place = (number * groups + group) * size + rank
        empty = exchange.count * groups * size
        place = jnp.where((number < exchange.count) & (rank < capacity), place, empty).reshape(self.choices, -1)
        slots = Slots.of(place, exchange.count, groups * size)
        data = exchange.send(slots.fill(self.rows))
        result, dims = self._apply(data.reshape(*data.shape[:2], *self.feature_shape), self.leaves, self.place_of_slots())
        shape = result.shape[2:]
        results = exchange.back(result.reshape(*result.shape[:2], math.prod(shape)))
        rows = comm.psum(slots.add_up(results, self.weight), exchange.own)
        return self._finish(rows.astype(result.dtype), shape, dims)

    def place_of_slots(self) -> Axes:
        """The mesh axes of groups and tokens that the experts are not on."""
        names, region = self.names, self.region
        if region is None:
            return ()
        axes = [axis for name in (*names.groups, *names.tokens) for axis in region.resources.get(name, ())]
        return tuple(axis for axis in axes if axis not in region.resources.get(names.axis, ()))

    def _exchange(self, groups: Axes, tokens: Axes) -> _Exchange:
        of_experts, region = self.axes_of_experts, self.region
        if region is None or not (of_experts or tokens):
            return _Exchange(self.experts)
        cut = tuple(axis for axis in tokens if axis not in of_experts)
        return _Exchange(
            self.experts,
            tuple((axis, region.mesh_axis_size((axis,))) for axis in of_experts),
            tuple(axis for axis in of_experts if axis not in groups + tokens),
            tuple(axis for axis in of_experts if axis in groups),
            tuple(axis for axis in of_experts if axis in tokens),
            cut,
            region.mesh_axis_size(cut),
        )

    # --- without a capacity -----------------------------------------------------------------------------------------------

    def in_rounds(self, chunk: int | None) -> Any:
        """As many rounds of a fixed number of slots as it takes."""
        names = self.names
        exchange = self._exchange((*self.place(names.groups), *self.place(names.tokens)), ())
        number = exchange.number(self.index).reshape(-1)
        rank, counts = rank_among_equals(number[None], exchange.count)
        number, rank = number.reshape(self.choices, -1), rank.reshape(self.choices, -1)
        size = max(-(-number.size // self.experts), 1) if chunk is None else int(chunk)
        placement = self.place_of_slots()
        where = frozenset(placement if self.region is not None and self.region.manual else ()) | set(self.axes_of_experts)

        arrays = [i for i, leaf in enumerate(self.leaves) if _is_array(leaf)]
        datas = [cast(self.leaves[i], where) for i in arrays]
        noted: list[Any] = []

        def apply(data: Any, *datas: Any) -> Any:
            leaves = list(self.leaves)
            for i, value in zip(arrays, datas, strict=True):
                leaves[i] = array_of(value, dims_of(leaves[i]))
            result, dims = self._apply(data.reshape(*data.shape[:2], *self.feature_shape), leaves, placement)
            noted[:] = [result.shape[2:], dims]
            return result.reshape(*result.shape[:2], math.prod(result.shape[2:]))

        traced: list[ClosedJaxpr] = []

        def trace(rows: Any, number: Any) -> tuple[()]:
            # The slots of a round, for the sake of their type only.
            slots = Slots.of(number, exchange.count, size)
            traced.append(jax.make_jaxpr(apply)(exchange.send(slots.fill(rows)), *datas))
            return ()

        jax.eval_shape(trace, self.rows, number)
        closed = traced[-1]
        shape, dims = noted
        weight = cast_data(self.weight, varying_of(closed.out_avals[0]))
        rounds = -(-jnp.max(counts) // size)
        talking = _talking(closed, where) | set(exchange.exchanged)
        together = varying(rounds) & talking
        rounds = comm.pmax(rounds, tuple(sorted(axis for axis in together if not isinstance(axis, LoopAxis))))
        rows = _Rounds(exchange, closed.jaxpr, size)(self.rows, weight, number, rank, rounds, closed.consts, datas)
        return self._finish(comm.psum(rows, exchange.own), shape, dims)


def _is_array(leaf: Any) -> bool:
    """Whether a leaf of the parameters is an array; Python numbers go to the function as they are."""
    return isinstance(leaf, (NamedArray, jax.Array, np.ndarray, np.generic))


def _array(value: Any) -> Any:
    return value if isinstance(value, (NamedArray, jax.Array)) else jnp.asarray(value)


def _ordered(data: Any, dims: Dims, first: Sequence[Hashable]) -> Any:
    """`data` with these names in front, then its other names, then its positional axes."""
    order = [dims.index(name) for name in first]
    order += [i for i, dim in enumerate(dims) if i not in order and dim is not None]
    order += [i for i, dim in enumerate(dims) if dim is None]
    return lax.transpose(data, order)


# --- rounds ---------------------------------------------------------------------------------------------------------------------


def _talking(closed: ClosedJaxpr, known: frozenset[str]) -> frozenset[str]:
    """The mesh axes along which a program or its derivative may communicate.

    The transpose of a cast is an all-reduce. But arguments vary over `known` already, so that over these only what the program closes
    over is cast, and constants, which have no derivative.
    """
    casts = _all_casts(closed.jaxpr)
    if not any(jnp.issubdtype(const.dtype, jnp.inexact) for const in closed.consts if hasattr(const, "dtype")):
        casts -= known
    return collective_axes(closed.jaxpr) | casts


def _all_casts(jaxpr: Any) -> frozenset[str]:
    return frozenset[str]().union(*map(cast_axes, jaxpr.eqns), *map(_all_casts, subjaxprs(jaxpr)))


def _wide(dtype: Any) -> Any:
    return jnp.promote_types(dtype, jnp.float32) if jnp.issubdtype(dtype, jnp.floating) else dtype


@dataclasses.dataclass(frozen=True)
class _Rounds:
    """The rounds, with a derivative that runs them again.

    Attributes:
      exchange: how slots travel.
      jaxpr: the program of the experts' function, of slots and parameters; its constants are what the function closes over.
      size: slots of every expert in one round.
    """

    exchange: _Exchange
    jaxpr: Any
    size: int

    def __call__(
        self, rows: Any, weight: Any, number: Any, rank: Any, rounds: Any, consts: Sequence[Any], datas: Sequence[Any]
    ) -> Any:
        """The weighted sums for all tokens.

        Args:
          rows: the tokens, `[tokens, features]`.
          weight: of the choices, `[choices, tokens]`.
          number: the expert of every choice, as `_Exchange.number`.
          rank: how many of this device are before it.
          rounds: how many rounds it takes.
          consts: what the experts' function closes over.
          datas: the parameters.
        """
        call = jax.custom_vjp(self._forward)
        call.defvjp(self._save, self._backward)
        return call(rows, weight, number, rank, rounds, list(consts), list(datas))

    def _slots(self, number: Any, rank: Any, turn: Any) -> Slots:
        count, size = self.exchange.count, self.size
        within = rank - turn * size
        here = (number < count) & (within >= 0) & (within < size)
        return Slots.of(jnp.where(here, number * size + within, count * size), count, size)

    def _loop(self, rounds: Any, step: Callable[[Any], Any], finish: Callable[[Any, Any], Any]) -> Any:
        """The sum over the rounds of `step(turn)`, each added up in at least 32 bits, then `finish(sum, type)`."""
        start = jnp.zeros_like(rounds)
        closed, shapes = jax.make_jaxpr(step, return_shape=True)(start)
        types = jax.tree.unflatten(jax.tree.structure(shapes), closed.out_avals)
        zeros = jax.tree.map(lambda t: cast_data(jnp.zeros(t.shape, _wide(t.dtype)), varying_of(t)), types)

        def body(state: Any) -> Any:
            turn, total = state
            return turn + 1, jax.tree.map(lambda total, more: total + more.astype(total.dtype), total, step(turn))

        _, total = lax.while_loop(lambda state: state[0] < rounds, body, (start, zeros))
        return jax.tree.map(finish, total, types)

    def _run(self, consts: Any, slots: Any, datas: Any) -> Any:
        (result,) = jaxpr_as_fun(ClosedJaxpr(self.jaxpr, list(consts)))(slots, *datas)
        return result

    def _forward(self, rows: Any, weight: Any, number: Any, rank: Any, rounds: Any, consts: Any, datas: Any) -> Any:
        dtype = self.jaxpr.outvars[0].aval.dtype

        def step(turn: Any) -> Any:
            slots = self._slots(number, rank, turn)
            results = self._run(consts, self.exchange.send(slots.fill(rows)), datas)
            return slots.add_up(self.exchange.back(results), weight)

        return self._loop(rounds, step, lambda total, _: total.astype(dtype))

    def _save(self, *operands: Any) -> tuple[Any, Any]:
        return self._forward(*operands), operands

    def _backward(self, operands: Any, cotangent: Any) -> Any:
        rows, weight, number, rank, rounds, consts, datas = operands
        floats = [i for i, value in enumerate([*consts, *datas]) if jnp.issubdtype(value.dtype, jnp.inexact)]
        moves = jnp.issubdtype(rows.dtype, jnp.inexact)

        def step(turn: Any) -> Any:
            slots = self._slots(number, rank, turn)
            filled = [slots.fill(rows), slots.fill(cotangent), slots.fill_choices(weight)]
            arrived, wanted, counts = _together(self.exchange.send, filled)

            def of(arrived: Any, *values: Any) -> Any:
                every = [*consts, *datas]
                for i, value in zip(floats, values, strict=True):
                    every[i] = value
                return self._run(every[: len(consts)], arrived, every[len(consts) :])

            every = [*consts, *datas]
            if moves:
                results, pull = jax.vjp(of, arrived, *(every[i] for i in floats))
            else:
                results, pull = jax.vjp(lambda *values: of(arrived, *values), *(every[i] for i in floats))
            pulled = list(pull(cast_data((wanted * counts).astype(results.dtype), varying(results))))
            of_weight = jnp.sum(_widened(results) * wanted, 2, keepdims=True).astype(weight.dtype)
            returned = [of_weight, *([pulled.pop(0)] if moves else [])]
            of_weight, *of_rows = (slots.read(value) for value in _together(self.exchange.back, returned))
            return of_weight[..., 0], [jnp.sum(_widened(value), 0).astype(rows.dtype) for value in of_rows], pulled

        of_weight, of_rows, rest = self._loop(rounds, step, lambda total, kind: total.astype(kind.dtype))
        gradients: list[Any] = [None] * (len(consts) + len(datas))
        for i, value in zip(floats, rest, strict=True):
            gradients[i] = value
        of_row = cast_data(of_rows[0], varying(rows)) if moves else None
        of_weight = cast_data(of_weight, varying(weight))
        return of_row, of_weight, None, None, None, gradients[: len(consts)], gradients[len(consts) :]


def _widened(data: Any) -> Any:
    return data.astype(_wide(data.dtype))


def _together(move: Callable[[Any], Any], arrays: Sequence[Any]) -> list[Any]:
    """`move` of arrays that differ in their features only; those of one element type and variance travel as one."""
    moved: dict[int, Any] = {}
    kinds = [(array.dtype, varying(array)) for array in arrays]
    for kind in dict.fromkeys(kinds):
        same = [i for i, other in enumerate(kinds) if other == kind]
        whole = move(jnp.concatenate([arrays[i] for i in same], 2))
        ends = [int(n) for n in np.cumsum([arrays[i].shape[2] for i in same])[:-1]]
        moved.update(zip(same, jnp.split(whole, ends, 2), strict=True))
    return [moved[i] for i in range(len(arrays))]


#: The functions of `nx.nn`.
FUNCTIONS: dict[str, Callable[..., Any]] = {"mixture_of_experts": mixture_of_experts}
