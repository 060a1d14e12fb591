"""Execution of a pipeline on devices: its schedule, and the loop over the ticks.

Each device has its block of the layers, in `rounds` groups. In a tick it applies one group to one
microbatch and sends the result to the next device. With several rounds, the last device sends to
the first. The work is numbered: in tick `t`, stage `s` does work `t - s`. The schedule maps this
number to a microbatch and a round. Before its first and after its last work a stage is idle. An
idle stage computes with its current data, which never reach a result; a `gate` keeps them out of
the gradient.

Within a microbatch the axis `over` has one more resource (`namedax.resources.serial`). So
positions and random numbers refer to the complete axis, and an operation that mixes microbatches
raises at its call. Hidden mixing, such as a sum that JAX adds in a derivative, needs another check.
It traces one layer in which only the elements of that axis vary over the mesh axes of the stages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from namedax.core.annotations import AnyArray
from namedax.core.array import dims_of, make_in_region
from namedax.core.names import Dims, PyTree
from namedax.core.padded_sharding import Uneven, block_size, plain
from namedax.core.records import Record
from namedax.core.region import Region, ambient, enter
from namedax.core.reshape import as_one
from namedax.core.user_code import call_user_code
from namedax.core.variance import cast, cast_data, varying
from namedax.errors import AxisNameError, PipelineError, PlacementConflictError
from namedax.messages.jax_errors import ErrorKind, unbound_axis
from namedax.ops.loops.carries import ValueType
from namedax.ops.loops.control_flow import from_device, scan_entries
from namedax.ops.loops.pipeline_timetable import Schedule
from namedax.ops.loops.remat import Remat, recomputed
from namedax.ops.operands.along_axes import Entries
from namedax.ops.operands.broadcasting import as_block, make_result, to_local
from namedax.ops.operands.pytree import array_of, data_of, flatten, names_of
from namedax.primitives.record import Kind, is_inexact
from namedax.primitives.table import TABLE
from namedax.programs.evaluator import collective_axes, summed_axes
from namedax.programs.loop_casts import apart_from_constants
from namedax.resources import communication as comm
from namedax.resources.communication import sliced
from namedax.resources.padding import padded, unpadded
from namedax.resources.padding_masks import constant_padding
from namedax.resources.row_moves import move_rows
from namedax.resources.serial import LoopAxis, MicrobatchAxis, reject_microbatches

__all__ = ["PRIMITIVE", "Fitted", "Parts", "Pipeline", "gate"]


OP = "pipeline"
Value = TypeVar("Value")
_Tangent: TypeAlias = jax.Array | ad.Zero
#: The carries of a stage, and the results of the microbatches that it has finished.
_State: TypeAlias = tuple[list[AnyArray], list[AnyArray]]


def _constant(data: jax.Array) -> jax.Array:
    """Stop the gradient of `data`."""
    return lax.stop_gradient(data) if is_inexact(data) else data


class Pipeline:
    """One pipeline in a mapped body.

    Args:
      layer: takes the carry and the inputs of one layer, returns the next carry and a result.
      x: the initial carry.
      entries: the inputs of the layers, with the layers of this device as their first axis, round
        by round.
      names: the axis names of the layers.
      over: the axis that is split into microbatches.
      schedule: the schedule.
      remat: the values of a stage to recompute for the gradient.
    """

    def __init__(
        self,
        layer: Callable[..., PyTree],
        x: PyTree,
        entries: Entries,
        names: Sequence[Hashable],
        over: Hashable,
        schedule: Schedule,
        remat: Remat | None,
    ):
        region = ambient()
        assert region is not None
        self.layer = layer
        self.entries = entries
        self.names = names
        self.over = over
        self.schedule = schedule
        self.remat = remat
        self.region: Region = region
        self.axes = entries.placement
        leaves, self.tree = flatten(x)
        self.x: list[Any] = [as_block(leaf, OP) for leaf in leaves]
        self.inputs: list[Any] = [
            array_of(data, (None, *dims))
            for data, dims in zip(entries.datas, entries.dims.values(), strict=True)
        ]
        self.layers = entries.datas[0].shape[0] // schedule.rounds
        self.parts = Parts(
            region, over, schedule.microbatches, (*self.x, *self.inputs, *entries.fixed.values())
        )
        self.x = [self.parts.fitted(leaf) for leaf in self.x]
        self.inputs = [self.parts.fitted(leaf) for leaf in self.inputs]
        self.fixed = {i: self.parts.fitted(leaf) for i, leaf in entries.fixed.items()}

    @contextlib.contextmanager
    def microbatch(self, number: jax.Array) -> Iterator[None]:
        """Enter the region of microbatch `number`."""
        outer = self.region
        axis = MicrobatchAxis(self.over, self.schedule.microbatches, number, frozenset(self.axes))
        resources = {**outer.resources, self.over: (*outer.place(self.over), axis)}
        region = Region(
            outer.sizes,
            resources,
            outer.mesh,
            outer.mode,
            (OP, outer),
            outer.overlap,
            outer.left_out,
            outer.slow_axes,
        )
        with enter(region):
            try:
                yield
            except NameError as error:  # raised by a collective that treats this as a mesh axis
                if ErrorKind.UNBOUND_AXIS.matches(error) and axis in unbound_axis(error):
                    reject_microbatches((axis,))
                raise
            finally:
                axis.number = None
                outer.seen.update(region.seen)

    def run(self) -> tuple[PyTree, PyTree]:
        """Return the last carry, and the results of this device's layers, along the first axis."""
        stage = comm.block_index(self.axes)
        with self.microbatch(jnp.zeros((), jnp.int32)):
            (state, done), results = self._ticks(stage)
            leaves, tree = flatten(results)
            self._check_names([dims_of(leaf) for leaf in (*leaves, *done)])
            self._check(state)
        is_last = stage == self.schedule.stages - 1
        last = [self._collected(data_of(leaf), dims_of(leaf), is_last) for leaf in done]
        return self.tree.unflatten(last), tree.unflatten(
            [self._of_layers(data_of(leaf), dims_of(leaf), stage) for leaf in leaves]
        )

    def _ticks(self, stage: jax.Array) -> tuple[_State, PyTree]:
        """Run the forward pass, in the region of a microbatch."""
        ticks = Entries(OP, jnp.arange(self.schedule.ticks), 0)
        begun = [self.parts.in_microbatch(leaf) for leaf in self.x]
        state = [
            array_of(_constant(cast(leaf, frozenset(self.axes))), dims_of(leaf)) for leaf in begun
        ]
        done = [self._allocate(leaf) for leaf in state]

        def tick(carry: _State, t: jax.Array) -> tuple[_State, PyTree]:
            return self._tick(stage, t, *carry)

        with jax.named_scope(self.schedule.scope_name):
            return scan_entries(ticks, tick, (state, done), ticks.datas, None, False, 1)

    def _allocate(self, leaf: AnyArray) -> AnyArray:
        """Allocate the results of all microbatches, which are the first axis."""
        data = lax.broadcast(_constant(data_of(leaf)), (self.schedule.microbatches,))
        return array_of(data, (None, *dims_of(leaf)))

    def _tick(
        self, stage: jax.Array, t: jax.Array, state: Sequence[AnyArray], done: Sequence[AnyArray]
    ) -> tuple[_State, PyTree]:
        schedule = self.schedule
        number = t - stage
        works = (number >= 0) & (number < schedule.works)
        microbatch, round_number = schedule.work(jnp.clip(number, 0, schedule.works - 1))
        begins = (stage == 0) & (round_number == 0)
        ends = (stage == schedule.stages - 1) & (round_number == schedule.rounds - 1)
        with self.microbatch(microbatch):
            taken = [
                self._carry_of(leaf, begun, begins)
                for leaf, begun in zip(state, self.x, strict=True)
            ]
        after, results = self._stage(taken, microbatch, round_number, works)
        kept = []
        for leaf, room in zip(after, done, strict=True):
            held, data = ValueType.of(room), data_of(room)
            if not set(dims_of(leaf)) <= set(held.dims) or varying(data_of(leaf)) - held.axes:
                kept.append(
                    self._allocate(leaf)
                )  # the carry has gained names, so this will be traced again
                continue
            new = held.replace(dims=held.dims[1:], shape=held.shape[1:], spec=held.spec[1:]).fit(
                leaf
            )
            before = lax.dynamic_index_in_dim(data, microbatch, 0, keepdims=False)
            data = lax.dynamic_update_index_in_dim(
                data, jnp.where(works & ends, new, before), microbatch, 0
            )
            kept.append(array_of(data, held.dims))
        sent = [array_of(self._send(data_of(leaf)), dims_of(leaf)) for leaf in after]
        return (sent, kept), results

    def _carry_of(self, leaf: AnyArray, begun: AnyArray | Fitted, begins: jax.Array) -> AnyArray:
        """Return a stage's carry: a microbatch of `x` if its work begins, or the received carry."""
        data, kind = data_of(leaf), ValueType.of(leaf)
        first = kind.fit(self.parts.in_microbatch(begun))
        return array_of(
            jnp.where(
                begins, first.astype(data.dtype) if first.dtype != data.dtype else first, data
            ),
            kind.dims,
        )

    def _send(self, data: jax.Array) -> jax.Array:
        if comm.is_keys(data):
            return comm.over_words(self._send, data)
        return comm.ppermute(data, self.axes, self.schedule.pairs)

    def _stage(
        self,
        state: Sequence[AnyArray],
        microbatch: jax.Array,
        round_number: jax.Array | int,
        works: jax.Array,
    ) -> tuple[list[AnyArray], PyTree]:
        """Apply a stage's group of layers to a microbatch."""
        noted: list[PyTree] = []

        def run(
            microbatch: jax.Array, round_number: jax.Array | int, *datas: jax.Array
        ) -> list[jax.Array]:
            with self.microbatch(microbatch):
                carry = [
                    array_of(data, dims_of(leaf)) for data, leaf in zip(datas, state, strict=True)
                ]
                entries, of_group = self._group(round_number)
                last, results = scan_entries(
                    entries, self.layer, self.tree.unflatten(carry), of_group, self.layers, False, 1
                )
                groups = [flatten(last)[0], flatten(results)[0]]
                noted[:] = [[dims_of(leaf) for leaf in group] for group in groups] + [
                    flatten(results)[1]
                ]
                return [data_of(leaf) for group in groups for leaf in group]

        given = (microbatch, round_number, *(gate(data_of(leaf), works) for leaf in state))
        closed = jax.make_jaxpr(run)(*given)
        shared = collective_axes(closed.jaxpr) & frozenset(self.axes)
        if shared:
            raise PipelineError(
                f"{OP}: the function communicates along mesh axis {min(shared)!r}, over which"
                f" {self.entries.axis!r} is sharded: it reduces or gathers an axis that is mapped"
                " to it. Rename that axis before the pipeline to a name with another sharding, or"
                " change axis_resources."
            )
        again, operands = apart_from_constants(
            closed, lambda value: gate(value, works), frozenset(self.axes)
        )
        datas = self._kept(again)(operands, *given)
        of_carry, of_results, tree = noted
        arrays = [
            array_of(data, dims) for data, dims in zip(datas, (*of_carry, *of_results), strict=True)
        ]
        return arrays[: len(of_carry)], tree.unflatten(arrays[len(of_carry) :])

    def _kept(self, stage: Callable[..., list[jax.Array]]) -> Callable[..., list[jax.Array]]:
        """Wrap `stage` so that it keeps the right residuals."""
        again = recomputed(OP, stage, self.remat)
        if again is not stage:
            return again
        if self.schedule.rounds == 1:
            return stage
        shapes = {data.shape for data in self.entries.datas}

        def is_kept(primitive: Primitive, *avals: jax.core.ShapedArray, **params: object) -> bool:
            # The weights of the round are slices of the weights of all rounds; they would be kept
            # once per tick.
            known = TABLE.get(primitive.name)
            return known is None or known.kind != Kind.SLICE or avals[0].shape not in shapes

        return jax.checkpoint(stage, policy=is_kept, prevent_cse=False)

    def _group(self, round_number: jax.Array | int) -> tuple[Entries, list[jax.Array]]:
        """Return the inputs of the layers of one round, sliced to the current microbatch."""
        entries = Entries(OP, (), 0)
        entries.tree, entries.dims = self.entries.tree, self.entries.dims
        entries.fixed = {i: self.parts.in_microbatch(leaf) for i, leaf in self.fixed.items()}
        datas = [data_of(self.parts.in_microbatch(leaf)) for leaf in self.inputs]
        if self.schedule.rounds > 1:
            datas = [
                lax.dynamic_slice_in_dim(data, round_number * self.layers, self.layers, 0)
                for data in datas
            ]
        return entries, datas

    def _collected(self, data: jax.Array, dims: Dims, is_last: jax.Array) -> AnyArray:
        """Return the result of all microbatches, which the last stage has, on all stages."""
        dims = dims[1:]
        if self.over in dims:
            at = dims.index(self.over)
            data = self.parts.restored(self._joined(data, at), at)
        else:  # the same for all microbatches
            data = data[0]
        return make_result(from_device(data, is_last, self.axes), dims)

    def _joined(self, data: jax.Array, at: int) -> jax.Array:
        """Join the microbatches of the first axis; `at` is the index of their axis after it."""
        data = jnp.moveaxis(data, 0, at)
        return as_one(data, at)

    def _of_layers(self, data: jax.Array, dims: Dims, stage: jax.Array) -> AnyArray:
        """Select the results of this device's layers from those of all ticks, with idle ones."""
        data = lax.dynamic_slice_in_dim(cast_data(data, self.axes), stage, self.schedule.works, 0)
        data = self.schedule.in_order(data)  # rounds, microbatches, layers of a group, and so on
        dims = dims[2:]
        if self.over in dims:
            at = 2 + dims.index(self.over)
            data = self.parts.restored(self._joined(jnp.moveaxis(data, 1, 0), at), at)
        else:
            data = data[:, 0]
        return array_of(as_one(data, 0), (None, *dims))

    def _check_names(self, dims: Sequence[Dims]) -> None:
        for name in dict.fromkeys(name for each in dims for name in names_of(each)):
            if name in self.names:
                raise AxisNameError(
                    f"{OP}: the function's result for one layer has the axis {name!r}, from a value"
                    " in its carry or its closure. Pass that value as an input, or rename its"
                    " axis."
                )
            shared = set(self.region.place(name)) & set(self.axes)
            if shared:
                raise PlacementConflictError(
                    f"{OP}: the function's result has an axis {name!r} on mesh axis"
                    f" {min(shared)!r}, over which {self.entries.axis!r} is sharded. Rename it"
                    " before the pipeline to a name with another sharding, or change"
                    " axis_resources."
                )

    def _check(self, state: Sequence[AnyArray]) -> None:
        """Raise if a layer mixes stages or microbatches.

        This traces one layer in which only the elements of the split axis vary over the mesh axes
        of the stages. A sum over these mesh axes mixes them. A result that varies without having
        the axis depends on its microbatch.
        """
        names = [dims_of(leaf) for leaf in state]

        def alike(value: jax.Array, dims: Dims) -> jax.Array:
            """Return zeros that vary over these mesh axes only if they have the split axis."""
            shape, dtype, axes = value.shape, value.dtype, varying(value)
            axes = axes | set(self.axes) if self.over in dims else axes - set(self.axes)
            if comm.is_keys(value):
                like = jax.random.key_data(value)
                return jax.random.wrap_key_data(
                    cast_data(jnp.zeros(like.shape, like.dtype), axes),
                    impl=jax.random.key_impl(value),
                )
            return cast_data(jnp.zeros(shape, dtype), axes)

        def run() -> list[jax.Array]:
            with self.microbatch(cast_data(jnp.zeros((), jnp.int32), self.axes)):
                carry = [
                    array_of(alike(data_of(leaf), dims), dims)
                    for leaf, dims in zip(state, names, strict=True)
                ]
                entries, _ = self._group(0)
                inputs = [data_of(self.parts.in_microbatch(array))[0] for array in self.inputs]
                of_layer = [
                    alike(data, dims)
                    for data, dims in zip(inputs, entries.dims.values(), strict=True)
                ]
                leaves = flatten(
                    call_user_code(self.layer, self.tree.unflatten(carry), entries.value(of_layer))
                )[0]
                leaves = [as_block(leaf, OP) for leaf in leaves]
                found[:] = [
                    dims_of(leaf)
                    for leaf in leaves
                    if self.over not in dims_of(leaf) and varying(data_of(leaf)) & set(self.axes)
                ]
                return [data_of(leaf) for leaf in leaves]

        found: list[Dims] = []
        closed = jax.make_jaxpr(run)()
        if not summed_axes(closed.jaxpr).isdisjoint(self.axes):
            raise PipelineError(
                f"{OP}: the function differentiates with respect to a value without {self.over!r}."
                " That derivative sums over all microbatches, but the function sees one of"
                f" {self.schedule.microbatches} microbatches. Give this value the axis"
                f" {self.over!r}, or take the derivative outside."
            )
        if found:
            raise PipelineError(
                f"{OP}: the function's result with axes {names_of(found[0])} lacks {self.over!r}"
                " but depends on the microbatch: it is computed from a block (x.data), not by"
                f" operations over names. Return one value per element, and reduce {self.over!r}"
                " afterwards."
            )


# --- the gate primitive ---------------------------------------------------------------------------
# In the idle ticks of a pipeline a stage computes values that are not used. The cotangents there
# are zero, but zero times an infinite derivative is NaN. A sum over ticks would add this NaN to the
# gradient of the weights. A `where` on the weights would prevent this. But it would make the
# weights depend on the tick, so that each tick kept a copy of them for the gradient. The value of a
# gate is the operand itself.


PRIMITIVE = Primitive("gate")


def gate(value: jax.Array, is_open: jax.Array) -> jax.Array:
    """Return `value` with a cotangent that is zero unless the boolean `is_open` holds."""
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return value
    return PRIMITIVE.bind(cast_data(value, varying(is_open)), is_open)


def _value(value: Value, is_open: object) -> Value:
    return value


def _derivative(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[_Tangent, _Tangent]
) -> tuple[jax.Array, _Tangent]:
    (value, is_open), (tangent, _) = primals, tangents
    # The primal passes without another gate: a gated primal would be kept for the gradient once per
    # tick.
    return value, tangent if isinstance(tangent, ad.Zero) else PRIMITIVE.bind(tangent, is_open)


def _transpose(
    cotangent: _Tangent, value: ad.UndefinedPrimal, is_open: jax.Array
) -> list[_Tangent | None]:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(value.aval), None]
    return [
        lax.select(
            jnp.broadcast_to(is_open, cotangent.shape), cotangent, jnp.zeros_like(cotangent)
        ),
        None,
    ]


def _batch(
    operands: Sequence[jax.Array], batched: Sequence[int | None]
) -> tuple[jax.Array, int | None]:
    (value, is_open), (at, per_entry) = operands, batched
    if per_entry is None:
        return PRIMITIVE.bind(value, is_open), at
    if at is None:
        value, at = jnp.broadcast_to(value, (is_open.shape[per_entry], *value.shape)), 0
    value, is_open = jnp.moveaxis(value, at, 0), jnp.moveaxis(is_open, per_entry, 0)
    return (
        jnp.where(is_open.reshape(-1, *[1] * (value.ndim - 1)), value, lax.stop_gradient(value)),
        0,
    )


PRIMITIVE.def_abstract_eval(_value)
PRIMITIVE.def_impl(_value)
ad.primitive_jvps[PRIMITIVE] = _derivative
ad.primitive_transposes[PRIMITIVE] = _transpose
batching.primitive_batchers[PRIMITIVE] = _batch
mlir.register_lowering(PRIMITIVE, mlir.lower_fun(_value, multiple_results=False))


# --- a batch that does not divide into microbatches -----------------------------------------------
# The microbatches of all devices are blocks of equal size, and the last ones may contain padding,
# as for any uneven axis. A device then needs as many elements as its microbatches have, which may
# exceed its block. Elements move to other devices before the first tick, and the results move back
# after the last. If everything divides, this does nothing.


class Fitted(Record):
    """A block with the microbatches of its device, including padding."""

    data: jax.Array
    dims: Dims


class Parts:
    """The partition of the axis `over` into microbatches.

    Args:
      region: the region around the pipeline.
      over: the axis name.
      count: the number of microbatches.
      leaves: blocks, some of which have the axis.
    """

    def __init__(self, region: Region, over: Hashable, count: int, leaves: Iterable[AnyArray]):
        self.over, self.count, self.place = over, count, region.place(over)
        self.axes = plain(self.place)
        self.devices = region.mesh_axis_size(self.axes)
        self.block = next(
            (
                n
                for leaf in leaves
                for dim, n in zip(dims_of(leaf), data_of(leaf).shape, strict=True)
                if dim == over
            ),
            0,
        )
        self.size = region.global_size(over, self.block) if self.block else 0
        self.part = block_size(self.size, self.devices * count)
        self.is_even = self.size == self.part * self.devices * count

    def fitted(self, leaf: AnyArray) -> AnyArray | Fitted:
        """Extend a block to the microbatches of this device.

        Elements move to other devices, and copies of the last one fill the rest.
        """
        if self.is_even or self.over not in dims_of(leaf):
            return leaf
        at = dims_of(leaf).index(self.over)
        return Fitted(
            self._moved(data_of(leaf), at, self.block, self.part * self.count), dims_of(leaf)
        )

    def restored(self, data: jax.Array, at: int) -> jax.Array:
        """Reverse `fitted`: convert all microbatches of this device back to its block."""
        return data if self.is_even else self._moved(data, at, self.part * self.count, self.block)

    def in_microbatch(self, leaf: AnyArray | Fitted) -> AnyArray:
        """Return the elements of `leaf` in the current microbatch, as seen in its region."""
        region = ambient()
        if not isinstance(leaf, Fitted):
            return to_local(leaf, OP, region)
        assert region is not None
        return make_in_region(
            sliced(leaf.data, leaf.dims.index(self.over), region.resources[self.over][-1:]),
            leaf.dims,
        )

    def _moved(self, data: jax.Array, at: int, old: int, new: int) -> jax.Array:
        """Move `data` along dimension `at` from blocks of `old` elements to blocks of `new`."""
        if old == new:
            return data
        if not self.axes:
            return padded(data, at, new) if new > old else unpadded(data, at, new)
        if any(
            isinstance(axis, LoopAxis) for axis in self.axes
        ):  # a step cannot access the data of other steps
            whole = unpadded(comm.all_gather(data, at, self.axes, "varying"), at, self.size)
            moved = comm.cut(padded(whole, at, new * self.devices), at, self.axes)
        else:
            rows = np.minimum(np.arange(self.devices * new), self.size - 1).reshape(
                self.devices, new
            )
            moved = move_rows(data, at, self.axes, rows)
        return constant_padding(moved, at, Uneven(self.axes, self.size))
