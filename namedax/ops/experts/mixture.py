"""A mixture of experts: send every token to its experts, and sum the weighted results.

`namedax.ops.experts.routing` chooses the experts. This module sorts tokens into the *slots* of
their experts, by indices and without a mask of tokens by experts. The slots are sent to the devices
that have the experts (`namedax.ops.experts.slots`). There the experts' function is applied to an
array of slots with the axes `{axis, slot}` and the features, and the results are sent back.

**Communication** follows from the mesh axes of the experts:

- No mesh axes: none.
- Mesh axes along which the tokens are replicated ("model"): each device takes the slots of its own
  experts, and one all-reduce sums the results. No token is sent.
- Mesh axes of groups of tokens: one all-to-all of the slots there and one back, and the same two in
  the gradient. The batch and the experts may both be on "data", which is expert parallelism.
- Both kinds, for experts on several mesh axes.

**Capacity** (Lepikhin et al. 2020, "GShard"): each expert has a fixed number of slots for each
group of tokens, and excess tokens are dropped. The choice of dropped tokens depends on logical
indices only. If capacity is counted along a sharded axis, one all-gather of counts gives each
device the number of preceding tokens. A reduce-scatter then fills the slots from all devices that
have some of their tokens, and an all-gather returns the results.

**Sizes that do not divide.** Padding of the tokens chooses no expert, takes no slot and is not
counted. Its result repeats the last token's result, by one all-reduce. No token chooses padding of
the experts.

**Without capacity** no token is dropped: the experts' function is applied in rounds until every
token is processed (`namedax.ops.experts.rounds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

from namedax.core.annotations import AnyArray, ArrayLike, EitherArray
from namedax.core.array import NamedArray, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import common_type
from namedax.core.name_scopes import theirs
from namedax.core.names import Dims, MeshAxes, PyTree, is_name
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import Region, ambient, enter
from namedax.core.user_code import call_user_code
from namedax.core.variance import cast, cast_data, varying, varying_of
from namedax.errors import (
    ArgumentError,
    AxisNameError,
    AxisNotFoundError,
    AxisResourceError,
    AxisSizeError,
    PipelineError,
    format_value,
    raise_not_found,
    show_names,
)
from namedax.ops.experts.rounds import Rounds, loop_collective_axes
from namedax.ops.experts.routing import Routing, check_routing
from namedax.ops.experts.slots import Exchange, Slots, rank_among_equals, rank_in_groups
from namedax.ops.operands.broadcasting import as_block, make_result, to_local
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import array_of, flatten, names_of
from namedax.primitives.equations import cast_axes
from namedax.resources import communication as comm
from namedax.resources.padding import padded_size
from namedax.resources.padding_masks import masked, refilled
from namedax.resources.serial import LoopAxis, MicrobatchAxis

__all__ = ["FUNCTIONS", "mixture_of_experts"]

_OP = "mixture_of_experts"


@operation(
    lambda *_, tokens=None, axis="expert", **__: (tokens, axis),
    scope=True,
    arrays=("params", "x", "routing"),
    on_blocks=True,
)
def mixture_of_experts(
    expert: Callable[[PyTree, NamedArray], EitherArray],
    params: PyTree,
    x: ArrayLike,
    routing: Routing,
    *,
    tokens: Hashable | Sequence[Hashable],
    axis: Hashable = "expert",
    slot: Hashable = "slot",
    capacity: int | None = None,
    chunk: int | None = None,
) -> AnyArray:
    """Apply the chosen experts to every token, and sum their results with the routing weights.

    Args:
      expert: `expert(params, x)`, a function over named axes. Its `x` has the axes `axis`, `slot`
        and the features, and lists all tokens that chose an expert. It returns an array with
        `axis`, `slot` and any features. It must process every slot independently. Empty slots
        contain zeros and their results are ignored, but, as always in JAX, the derivative there
        must be finite.
      params: a pytree for `expert`. Arrays with `axis` have one slice per expert.
      x: a named array.
      routing: the experts that every token chooses; see `top_k_routing`.
      tokens: the axis name of the tokens, or a tuple of names. Other axes that `x` and the routing
        share (a batch) are groups of tokens. Axes of `x` alone are features, including positional
        axes.
      axis: the axis name of the experts, by default `"expert"`. It differs from the router's axis,
        because it may be sharded over the mesh axis of the groups or tokens.
      slot: the axis name of the slots, by default `"slot"`. It must not appear in `axis_resources`:
        slots are sharded over the mesh axes of the groups, except the mesh axes of the experts.
      capacity: the number of slots of an expert for each group, or `None` (default) to drop no
        token. Excess tokens are dropped and give zero. First choices precede second choices, then
        tokens follow in their order, row-major over `tokens`.
      chunk: without capacity, the number of slots of an expert on a device in one round; by default
        the number for an even load.

    Returns:
      An array with the axes of `x`, except that its features are the features of the experts'
      results. It has their dtype.

    Communication: it depends on the mesh axes of the experts; parameters are not moved. Without
    mesh axes, none. Over mesh axes along which the tokens are replicated, one all-reduce of the
    results. Over mesh axes of groups of tokens, one all-to-all of the slots and one back, and the
    same two in the gradient. If `capacity` is counted along a sharded axis, also an all-gather of
    the counts; a reduce-scatter fills the slots, and an all-gather returns the results.

    Without capacity the derivative is of first order and in reverse mode only; arrays that `expert`
    closes over have gradients too.

    Raises:
      AxisNotFoundError: `x` or the routing lacks an axis, or the result of `expert` lacks `axis` or
        `slot`.
      AxisNameError: `axis` or `slot` is not an axis name, or is an axis of `x`, or the result of
        `expert` has a token axis.
      AxisSizeError: `x` and the routing, or `params` and the routing, disagree about a size.
      UnevenAxisError: the experts do not divide over their mesh axes, and no argument of the mapped
        function has `axis`.
      PipelineError: in an `nx.pipeline`, the microbatches do not divide the tokens of a device.
      AxisResourceError: `axis_resources` contains `slot` or the axis of the choices.
      ArgumentError: `capacity` or `chunk` is not a positive integer, or both are given.
      PlacementConflictError: a feature is sharded over a mesh axis of the experts.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> x = nx.random.normal(jax.random.key(0), named_shape={"token": 6, "embed": 4})
    >>> w = nx.random.normal(jax.random.key(1), named_shape={"expert": 3, "embed": 4, "out": 5})
    >>> router = nx.random.normal(jax.random.key(2), named_shape={"embed": 4, "route": 3})
    >>> routing = nx.nn.top_k_routing(nx.dot(x, router, "embed"), "route", 2)
    >>> expert = lambda w, x: nx.dot(x, w, "embed")
    >>> y = nx.nn.mixture_of_experts(expert, w, x, routing, tokens="token")
    >>> y.dims
    ('token', 'out')
    """
    check_routing(_OP, routing)
    _check_counts(capacity, chunk)
    names = _Names.of(x, routing, tokens, axis, slot)
    mixture = _Mixture(expert, params, x, routing, names)
    return (
        mixture.within_capacity(int(capacity)) if capacity is not None else mixture.in_rounds(chunk)
    )


# --- names and sizes ------------------------------------------------------------------------------


def _check_counts(capacity: object, chunk: object) -> None:
    for what, count in (("capacity", capacity), ("chunk", chunk)):
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1
        ):
            raise ArgumentError(
                f"{_OP}: {what} must be a positive integer (a number of slots) or None, got"
                f" {format_value(count)}."
            )
    if capacity is not None and chunk is not None:
        raise ArgumentError(
            f"{_OP}: capacity={capacity} excludes chunk={chunk}, because a capacity needs no"
            " rounds. Leave out one of the two."
        )


class _Names(Record):
    """The axis names of a mixture, by purpose; `dims` are the named axes of `x`."""

    groups: tuple[Hashable, ...]
    tokens: tuple[Hashable, ...]
    features: tuple[Hashable, ...]
    dims: tuple[Hashable, ...]
    axis: Hashable
    slot: Hashable

    @classmethod
    def of(
        cls,
        x: ArrayLike,
        routing: Routing,
        tokens: Hashable | Sequence[Hashable],
        axis: Hashable,
        slot: Hashable,
    ) -> _Names:
        tokens = tuple(tokens) if isinstance(tokens, (tuple, list)) else (tokens,)
        own = names_of(dims_of(x))
        routed = [dim for dim in dims_of(routing.index) if dim != routing.choice]
        if not tokens or len(set(tokens)) < len(tokens):
            raise AxisNameError(
                f"{_OP}: tokens must be an axis name or a tuple of different names, got"
                f" {format_value(tokens)}."
            )
        for name in tokens:
            if name not in own:
                raise_not_found(_OP, name, type_text(x), own, "tokens= names the axes to route.")
            if name not in routed:
                index = f"routing.index, {type_text(routing.index)}"
                raise_not_found(_OP, name, index, routed, "Every token chooses its experts.")
        for name in routed:
            if name not in own:
                remedy = "The routing has this axis. Broadcast x, or reduce the logits."
                raise_not_found(_OP, name, type_text(x), own, remedy)
        for what, name in (("axis", axis), ("slot", slot)):
            if not is_name(name) or name in own or name == routing.choice:
                raise AxisNameError(
                    f"{_OP}: {what}={name!r} must be the name of an axis that {type_text(x)} does"
                    f" not have; only the experts' function has it. Pass another name as {what}=,"
                    " or rename the axis of x."
                )
        if axis == slot:
            raise AxisNameError(
                f"{_OP}: axis and slot are both {format_value(axis)}. Use different names for the"
                " experts and their slots."
            )
        groups = tuple(dim for dim in own if dim in routed and dim not in tokens)
        features = tuple(dim for dim in own if dim not in routed)
        return cls(groups, tokens, features, own, axis, slot)


class _Mixture:
    """One call: the operands as blocks of this device, with their axes in one order."""

    def __init__(
        self,
        expert: Callable[[PyTree, NamedArray], EitherArray],
        params: PyTree,
        x: ArrayLike,
        routing: Routing,
        names: _Names,
    ):
        self.expert, self.names, self.experts = theirs(expert), names, routing.experts
        self.region = region = ambient()
        self.leaves, self.tree = flatten(params)
        self.leaves = [as_block(leaf, _OP) if _is_array(leaf) else leaf for leaf in self.leaves]
        blocks: list[NamedArray] = [
            to_local(array, _OP, region) for array in (x, routing.index, routing.weight)
        ]
        x, named_index, named_weight = blocks
        self._check_sizes(x, named_index, routing)
        self._check_placements(routing)
        order = (*names.groups, *names.tokens)
        self.feature_dims: Dims = (*names.features, *(None,) * dims_of(x).count(None))
        self.axes_of_experts = self.place((names.axis,))
        place = self.place_of(names.axis)
        self.all_experts = padded_size(place) if isinstance(place, Uneven) else self.experts
        # A token is on the devices of its experts. A value that does not vary there is cast once,
        # and its gradient summed once. Over mesh axes of the features only `x` varies: the experts'
        # function contracts them.
        common = (
            varying(named_index._data)
            | varying(named_weight._data)
            | frozenset(self.axes_of_experts)
            | frozenset(self.place(order))
        )
        data = _ordered(cast(x, common), x._dims, order)
        self.block_sizes = data.shape[: len(order)]
        self.group_count = math.prod(self.block_sizes[: len(names.groups)])
        self.token_count = math.prod(self.block_sizes[len(names.groups) :])
        self.feature_shape = data.shape[len(order) :]
        self.rows = data.reshape(self.group_count * self.token_count, math.prod(self.feature_shape))
        arranged = (routing.choice, *order)
        index, weight = (_ordered(cast(a, common), a._dims, arranged) for a in blocks[1:])
        self.choices = index.shape[0]
        index = index.astype(common_type(index.dtype, jnp.int32))
        for i, name in enumerate(order, 1):
            index = masked(index, i, self.place_of(name), self.experts)  # padding chooses no expert
        if self.all_experts != self.experts:
            index = jnp.where(index < self.experts, index, self.all_experts)
        self.index = index.reshape(
            self.choices, self.group_count, *index.shape[1 + len(names.groups) :]
        )
        self.weight = weight.reshape(self.choices, -1)

    def place(self, names: Sequence[Hashable]) -> MeshAxes:
        """Return the mesh axes over which these axes are sharded."""
        region = self.region
        return (
            () if region is None else tuple(axis for name in names for axis in region.place(name))
        )

    def place_of(self, name: Hashable) -> MeshAxes:
        """Return the mesh axes over which one axis is sharded, with its padding."""
        return () if self.region is None else self.region.place(name)

    # --- checks -----------------------------------------------------------------------------------

    def _check_sizes(self, x: NamedArray, index: NamedArray, routing: Routing) -> None:
        for name, n in index.named_shape.items():
            if name != routing.choice and x.named_shape[name] != n:
                raise AxisSizeError(
                    f"{_OP}: axis {name!r} has size {x.named_shape[name]} in {type_text(x)} and {n}"
                    f" in routing.index, {type_text(index)}; a name has one size. Rename one of the"
                    " two axes."
                )
        axis = self.names.axis
        for leaf in self.leaves:
            if isinstance(leaf, NamedArray):
                count = leaf.named_shape.get(axis, self.experts)
                self._check_count(count, f"a parameter, {type_text(leaf)}")
        if self.region is not None:
            self._check_count(self.region.sizes.get(axis, self.experts), "this mapped function")
            self.region.block_size(axis, self.experts, _OP, supports_padding=True)

    def _check_count(self, count: int, where: str) -> None:
        if count != self.experts:
            raise AxisSizeError(
                f"{_OP}: axis {format_value(self.names.axis)} has size {count} in {where}, but the"
                f" routing has {self.experts} experts. Make the router's axis as long as the"
                " experts' axis, or pass the experts' axis name as axis=."
            )

    def _check_placements(self, routing: Routing) -> None:
        names, region = self.names, self.region
        if region is None:
            return
        region.seen.update((names.axis, names.slot))
        for what, name in (("slot", names.slot), ("choice", routing.choice)):
            if name in region.resources:
                raise AxisResourceError(
                    f"{_OP}: axis_resources maps the {what} axis {name!r} to mesh axes"
                    f" {region.resources[name]}. This axis cannot be mapped: slots have the"
                    " sharding of the token groups, and choices are not sharded. Remove the entry."
                )
        region.check_placement(_OP, (names.axis, *names.features))
        for name in (*names.groups, *names.tokens):
            self._check_microbatches(name, region.place(name))

    def _check_microbatches(self, name: Hashable, place: MeshAxes) -> None:
        """Raise if microbatches of a pipeline have padding, which the experts cannot leave out."""
        if not isinstance(place, Uneven):
            return
        for axis in place:
            if isinstance(axis, MicrobatchAxis):
                devices = self.region.mesh_axis_size(place[:-1]) if self.region else 1
                raise PipelineError(
                    f"{_OP}: axis {name!r} of size {place.size} over {devices} devices does not"
                    f" divide into {axis.steps} microbatches of a pipeline. Pass a number of"
                    " microbatches to nx.pipeline that divides the elements of a device, or pad"
                    f" {name!r} to a multiple of {devices * axis.steps}."
                )

    # --- the experts' function --------------------------------------------------------------------

    def _within(self, placement: MeshAxes, slots: int) -> Region | None:
        """Return the region of the experts' function, with slots sharded as the token groups."""
        region, slot = self.region, self.names.slot
        if region is None or not placement:
            return region
        devices = region.mesh_axis_size(placement)
        if not region.manual and slots % devices:
            return region  # XLA's partitioner would treat it only as a hint
        sizes = {**region.sizes, slot: slots * devices if region.manual else slots}
        resources = {**region.resources, slot: placement}
        options = (region.overlap, region.left_out, region.slow_axes)
        return Region(sizes, resources, region.mesh, region.mode, (_OP, region), *options)

    def _apply(
        self, data: jax.Array, leaves: Sequence[object], placement: MeshAxes
    ) -> tuple[jax.Array, Dims]:
        """Apply the experts to slots `[experts, slots, *features]`.

        Return the results in the same order, and the dims of their features.
        """
        axis, slot, outer = self.names.axis, self.names.slot, self.region
        region = self._within(placement, data.shape[1])
        with enter(region):
            result = call_user_code(
                self.expert,
                self.tree.unflatten(leaves),
                make_result(data, (axis, slot, *self.feature_dims)),
            )
            result = to_local(result, _OP, region)
        if outer is not None and region is not None and region is not outer:
            outer.seen.update(region.seen)
        dims = dims_of(result)
        for name in (axis, slot):
            if name not in dims:
                raise AxisNotFoundError(
                    f"{_OP}: the result of the experts' function, {type_text(result)}, has no axis"
                    f" {name!r}. Keep {format_value(axis)} and {format_value(slot)}: every slot of"
                    " every expert has a result."
                )
        taken = [name for name in (*self.names.groups, *self.names.tokens) if name in dims]
        if taken:
            raise AxisNameError(
                f"{_OP}: the result of the experts' function, {type_text(result)}, has"
                f" {show_names(taken)}, an axis of the tokens. Slots mix tokens of all groups: pass"
                " per-token values as features of x, or rename the axis."
            )
        return _ordered(result._data, dims, (axis, slot)), tuple(
            dim for dim in dims if dim not in (axis, slot)
        )

    def _finish(self, rows: jax.Array, shape: Sequence[int], dims: Dims) -> AnyArray:
        """Convert rows of all tokens to the result, with the names in their order in `x`."""
        names = self.names
        have = (*names.groups, *names.tokens, *dims)
        data = rows.reshape(*self.block_sizes, *shape)
        for i, name in enumerate((*names.groups, *names.tokens)):
            data = refilled(data, i, self.place_of(name))
        order = [have.index(dim) for dim in names.dims if dim in have]
        order += [i for i in range(len(have)) if i not in order]
        if self.region is not None:
            self.region.check_placement(_OP, (dim for dim in have if dim is not None))
        return make_result(lax.transpose(data, order), tuple(have[i] for i in order))

    # --- with a capacity --------------------------------------------------------------------------

    def within_capacity(self, capacity: int) -> AnyArray:
        """Compute with `capacity` slots for every expert and group, and drop excess tokens."""
        names = self.names
        exchange = self._exchange(self.place(names.groups), self.place(names.tokens))
        rank = rank_in_groups(
            self.index, self.experts, [self.place_of(name) for name in names.tokens]
        )
        groups, tokens = self.group_count, self.token_count
        # Slots that are scattered over mesh axes divide over them.
        size = -(-capacity // exchange.cut_size) * exchange.cut_size
        number = exchange.number(self.index).reshape(self.choices, groups, tokens)
        rank = rank.reshape(number.shape)
        group = lax.broadcasted_iota(number.dtype, number.shape, 1)
        place = (number * groups + group) * size + rank
        empty = exchange.count * groups * size
        place = jnp.where((number < exchange.count) & (rank < capacity), place, empty).reshape(
            self.choices, -1
        )
        slots = Slots.of(place, exchange.count, groups * size)
        data = exchange.send(slots.fill(self.rows))
        result, dims = self._apply(
            data.reshape(*data.shape[:2], *self.feature_shape), self.leaves, self.place_of_slots()
        )
        shape = result.shape[2:]
        results = exchange.back(result.reshape(*result.shape[:2], math.prod(shape)))
        rows = comm.psum(slots.add_up(results, self.weight), exchange.own)
        return self._finish(rows.astype(result.dtype), shape, dims)

    def place_of_slots(self) -> MeshAxes:
        """Return the mesh axes of groups and tokens that do not shard the experts."""
        names, region = self.names, self.region
        if region is None:
            return ()
        axes = [
            axis
            for name in (*names.groups, *names.tokens)
            for axis in region.resources.get(name, ())
        ]
        return tuple(axis for axis in axes if axis not in region.resources.get(names.axis, ()))

    def _exchange(self, groups: MeshAxes, tokens: MeshAxes) -> Exchange:
        of_experts, region = self.axes_of_experts, self.region
        if region is None or not (of_experts or tokens):
            return Exchange(self.experts)
        cut = tuple(axis for axis in tokens if axis not in of_experts)
        return Exchange(
            self.all_experts,
            tuple((axis, region.mesh_axis_size((axis,))) for axis in of_experts),
            tuple(axis for axis in of_experts if axis not in groups + tokens),
            tuple(axis for axis in of_experts if axis in groups),
            tuple(axis for axis in of_experts if axis in tokens),
            cut,
            region.mesh_axis_size(cut),
        )

    # --- without a capacity -----------------------------------------------------------------------

    def in_rounds(self, chunk: int | None) -> AnyArray:
        """Compute in rounds of a fixed number of slots, until every token is processed."""
        names = self.names
        exchange = self._exchange((*self.place(names.groups), *self.place(names.tokens)), ())
        number = exchange.number(self.index).reshape(-1)
        rank, counts = rank_among_equals(number[None], exchange.count)
        number, rank = number.reshape(self.choices, -1), rank.reshape(self.choices, -1)
        size = max(-(-number.size // self.experts), 1) if chunk is None else int(chunk)
        placement = self.place_of_slots()
        where = frozenset(
            placement if self.region is not None and self.region.manual else ()
        ) | set(self.axes_of_experts)

        arrays = [i for i, leaf in enumerate(self.leaves) if _is_array(leaf)]
        datas = [cast(self.leaves[i], where) for i in arrays]
        noted: list[tuple[tuple[int, ...], Dims]] = []

        def apply(data: jax.Array, *datas: jax.Array) -> jax.Array:
            leaves = list(self.leaves)
            for i, value in zip(arrays, datas, strict=True):
                leaves[i] = array_of(value, dims_of(leaves[i]))
            result, dims = self._apply(
                data.reshape(*data.shape[:2], *self.feature_shape), leaves, placement
            )
            noted[:] = [(result.shape[2:], dims)]
            return result.reshape(*result.shape[:2], math.prod(result.shape[2:]))

        traced: list[ClosedJaxpr] = []

        def trace(rows: jax.Array, number: jax.Array) -> tuple[()]:
            # Builds the slots of a round for their type only.
            slots = Slots.of(number, exchange.count, size)
            traced.append(jax.make_jaxpr(apply)(exchange.send(slots.fill(rows)), *datas))
            return ()

        jax.eval_shape(trace, self.rows, number)
        if axes := _cast_axes_of_slots(traced[-1].jaxpr):
            # Cast the tokens before the rounds: the gradient is summed once, and over tokens.
            self.rows = cast_data(self.rows, axes)
            jax.eval_shape(trace, self.rows, number)
        closed = traced[-1]
        shape, dims = noted[-1]
        weight = cast_data(self.weight, varying_of(closed.out_avals[0]))
        rounds = -(-jnp.max(counts) // size)
        together = varying(rounds) & (loop_collective_axes(closed, where) | set(exchange.exchanged))
        rounds = comm.pmax(
            rounds, tuple(sorted(axis for axis in together if not isinstance(axis, LoopAxis)))
        )
        rows = Rounds(exchange, closed.jaxpr, size)(
            self.rows, weight, number, rank, rounds, closed.consts, datas
        )
        return self._finish(comm.psum(rows, exchange.own), shape, dims)


def _cast_axes_of_slots(jaxpr: Jaxpr) -> frozenset[str]:
    """Return the mesh axes over which the experts' function casts its slots before any other use.

    They are those of sharded hidden features, over which the function sums its results.
    """
    slots = jaxpr.invars[0]
    casts = {cast_axes(eqn) for eqn in jaxpr.eqns if slots in eqn.invars}
    axes = casts.pop() if len(casts) == 1 and slots not in jaxpr.outvars else frozenset[str]()
    return frozenset(axis for axis in axes if not isinstance(axis, LoopAxis))


def _is_array(leaf: object) -> bool:
    """Return True if a leaf is an array; Python numbers pass to the function unchanged."""
    return isinstance(leaf, (NamedArray, jax.Array, np.ndarray, np.generic))


def _ordered(data: jax.Array, dims: Dims, first: Sequence[Hashable]) -> jax.Array:
    """Transpose `data` to these names, then its other names, then its positional axes."""
    order = [dims.index(name) for name in first]
    order += [i for i, dim in enumerate(dims) if i not in order and dim is not None]
    order += [i for i, dim in enumerate(dims) if dim is None]
    return lax.transpose(data, order)


FUNCTIONS: dict[str, Callable[..., AnyArray]] = {"mixture_of_experts": mixture_of_experts}
