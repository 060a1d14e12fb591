"""The function `pipeline`: a fold over layers, in which each device keeps its layers.

Unmapped, it is the fold. This module has the public function; `pipeline_schedule` executes it on
devices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray
from namedax.core.array import NamedArray, dims_of
from namedax.core.names import Dims, PyTree, is_name
from namedax.core.region import ambient
from namedax.core.user_code import call_user_code
from namedax.errors import (
    ArgumentError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    PipelineError,
    PlacementConflictError,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.ops.loops.control_flow import pair_of, scan_along
from namedax.ops.loops.pipeline_alternation import AlternatingPipeline
from namedax.ops.loops.pipeline_schedule import Pipeline
from namedax.ops.loops.pipeline_timetable import SCHEDULES, Schedule
from namedax.ops.loops.remat import REMAT_CHOICES, Remat, policy_of, recomputed
from namedax.ops.operands.along_axes import Entries
from namedax.ops.operands.broadcasting import as_block, make_result
from namedax.ops.operands.open_options import OpenCall, open_call
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of, flatten, names_of
from namedax.resources.row_moves import move_rows
from namedax.resources.serial import LoopAxis

__all__ = ["pipeline"]

OP = "pipeline"
#: The default number of microbatches for each stage.
_PER_STAGE = 4
#: Numbers of microbatches for each stage that `nx.plan` tries in addition.
_MICROBATCHES = (1, 2, 8, 16)
#: Schedules that `nx.plan` tries in addition.
_SCHEDULES: tuple[dict[str, Any], ...] = (
    {"schedule": "1f1b"},
    {"schedule": "zero_bubble"},
    {"schedule": "gpipe", "interleave": 2},
    {"schedule": "interleaved", "interleave": 2},
)


@operation(
    lambda layer, x, params=None, *, axis="layers", over="batch", **kwargs: (axis, over),
    calls_functions=True,
    arrays=("x", "params"),
    on_blocks=True,
)
def pipeline(
    layer: Callable[[PyTree, PyTree], PyTree],
    x: PyTree,
    params: PyTree,
    *,
    axis: Hashable = "layers",
    over: Hashable = "batch",
    microbatches: int | None = None,
    interleave: int | None = None,
    schedule: Literal["gpipe", "1f1b", "interleaved", "zero_bubble"] | None = None,
    remat: Remat | None = None,
    outputs: bool = False,
) -> PyTree:
    """Apply layers in sequence, like `fold`, as a pipeline if `axis` is mapped to a mesh axis.

    Args:
      layer: takes the carry and the inputs of one layer, and returns the next carry; with
        `outputs`, a pair of it and a result.
      x: the initial carry, a pytree. As in `fold`, it may gain axes.
      params: the inputs of the layers, a pytree: weights, and other inputs of a layer. Arrays with
        `axis` are split into layers; arrays without it are the same for all layers. Arrays with
        `over`, such as a mask for each example, are split into microbatches with `x`, and so are
        arrays that `layer` closes over.
      axis: the axis name of the layers, by default `"layers"`, or a tuple of names.
      over: the axis that is split into microbatches, by default `"batch"`. It may be mapped too;
        then each device splits its own block.
      microbatches: the number of microbatches; it need not divide the size of `over`. With more
        microbatches the idle share is smaller, and so are the matrix products of a layer. By
        default four for each stage; `nx.plan` then chooses it, and `schedule`, `interleave` and
        `remat` too if these are not given.
      interleave: the number of groups of layers on a device, by default 1, or 2 for the schedule
        `"interleaved"`. With several, a device processes a microbatch several times, with fewer
        layers each, and is idle for a shorter time.
      schedule: the order of forward and backward passes, by default `"gpipe"`: all forward passes,
        then all backward passes. `"1f1b"`: the backward pass of a microbatch begins as soon as its
        forward pass has ended. `"interleaved"`: the same with several groups of layers on a device.
        `"zero_bubble"`: also computes the gradients of the weights later, in ticks in which a stage
        is otherwise idle.
      remat: the values of a stage to recompute for the gradient, as in `nx.fold`, by default
        `"none"`. With `"full"` or `True` a device keeps only the inputs of its stage, once per
        microbatch. Unmapped, this applies to each layer. The schedules except `"gpipe"` always
        recompute all.
      outputs: if `True`, `layer` also returns results; by default `False`.

    Returns:
      The last carry; with `outputs`, a pair of it and the results of all layers, which have `axis`.
      Both have the same sharding as without the pipeline.

    If `axis` is sharded over `S` devices, these are the stages. There are `microbatches *
    interleave + S - 1` ticks. In a tick a stage applies one group of its layers to one microbatch
    and sends the result on. In `S - 1` ticks it is idle.

    Communication: one collective-permute of a microbatch per tick. After the last tick the last
    stage sends the result to the others, by one all-reduce of the carry. Weights are not moved, and
    their gradient is reduced over other mesh axes (such as the mesh axis of `over`) once, after all
    ticks. Weights that are stored in shards, as in FSDP, are gathered in every tick.

    The schedules except `"gpipe"` store nothing in the forward pass. Their backward pass computes
    the forward pass again, and stores the inputs of a stage for at most `2 * S - 1` microbatches,
    independent of `microbatches`. It has a collective-permute of a microbatch in each direction per
    tick, in `microbatches * interleave + S * interleave + S - 2` ticks; `"zero_bubble"` may need
    `S - 1` more. They have no forward-mode derivative.

    With `interleave` the layers of a device are not adjacent. Weights that are stored in layer
    order therefore move before the first tick, and their gradients after the last. Two names avoid
    this: `axis=("rounds", "layers")` with only `"layers"` mapped folds over both axes. The first
    name is the outer loop, and a device has its layers of every round.

    Within `layer`, axes have their global sizes, and positions and random numbers refer to the
    complete axis `over`. `layer` must not mix elements of `over`, because it never has all of them.
    To take a mean over it, return one value per element and reduce after the pipeline. With
    `partitioning="auto"`, or if `axis` is on a `SerialLoop`, this is the fold.

    Raises:
      AxisNotFoundError: no array of `params` has `axis`, or none has `over`.
      AxisNameError: `axis` or `over` is not an axis name, or a result already has `axis`.
      ArgumentError: `microbatches` or `interleave` is not a positive integer, `schedule` or
        `remat` is unknown, or it is `"interleaved"` with one group of layers on a device.
      AxisSizeError: the layers do not divide into groups.
      PipelineError: `layer` mixes elements of `over`, or there are several groups and the stages do
        not divide the microbatches.
      PlacementConflictError: `over`, or an axis of the carry, is mapped to the mesh axis of the
        layers.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> def layer(x, w):
    ...     return nx.tanh(nx.rename(nx.dot(x, w, "in"), {"out": "in"}))
    >>> w = nx.named(jnp.ones((4, 3, 3)) / 9, ["layers", "in", "out"])
    >>> x = nx.named(jnp.arange(24.0).reshape(8, 3), ["batch", "in"])
    >>> mesh = jax.make_mesh((1,), ("pipe",))
    >>> f = nx.xmap(lambda x, w: nx.pipeline(layer, x, w, microbatches=4),
    ...             axis_resources={"layers": "pipe"}, mesh=mesh)
    >>> bool(nx.all(nx.abs(f(x, w) - nx.fold(layer, x, w, axis="layers")) < 1e-6, ("batch", "in")))
    True
    """
    names = axis if isinstance(axis, (tuple, list)) else (axis,)
    call = open_call(
        "nx.pipeline",
        microbatches=microbatches,
        schedule=schedule,
        interleave=interleave,
        remat=remat,
    )
    options = call.values
    policy_of(OP, options["remat"])  # raises if it is unknown
    plan = Schedule(1, *_numbers(options, len(names)))
    for what, name in (*(("axis", name) for name in names), ("over", over)):
        if not is_name(name):
            raise AxisNameError(f"{OP}: {what} must be an axis name, got {format_value(name)}.")

    def step(carry: PyTree, inputs: PyTree) -> tuple[PyTree, PyTree]:
        result = call_user_code(layer, carry, inputs)
        return pair_of(OP, result) if outputs else (result, None)

    last, results = _run(
        step,
        x,
        params,
        tuple(names),
        over,
        plan,
        call,
    )
    return (last, results) if outputs else last


def _numbers(options: Mapping[str, Any], axes: int) -> tuple[int, int, str]:
    """Return the groups of layers, the microbatches (0 for the default), and the schedule."""
    schedule = "gpipe" if options["schedule"] is None else options["schedule"]
    if schedule not in SCHEDULES:
        raise ArgumentError(
            f"{OP}: schedule must be one of {', '.join(map(repr, SCHEDULES))}, got"
            f" {format_value(schedule)}.{did_you_mean(schedule, SCHEDULES)}"
        )
    interleave, microbatches = options["interleave"], options["microbatches"]
    if interleave is None:
        interleave = 2 if schedule == "interleaved" and axes == 1 else 1
    for what, number in (("microbatches", microbatches), ("interleave", interleave)):
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
            raise ArgumentError(
                f"{OP}: {what} must be a positive integer, got {format_value(number)}."
            )
    return int(interleave), int(microbatches or 0), schedule


def _run(
    step: Callable[..., PyTree],
    x: PyTree,
    params: PyTree,
    names: tuple[Hashable, ...],
    over: Hashable,
    schedule: Schedule,
    call: OpenCall,
) -> tuple[PyTree, PyTree]:
    for name in names:
        Entries(OP, params, name, supports_padding=True)  # raises if an axis is missing
    _check_over(x, params, over)
    region = ambient()
    mapped = [name for name in names if region is not None and region.place(name)]
    if (
        region is None
        or not mapped
        or any(isinstance(axis, LoopAxis) for name in mapped for axis in region.place(name))
    ):
        call.offer("remat", REMAT_CHOICES)
        return _fold(recomputed(OP, step, call.values["remat"]), x, params, names)
    if len(mapped) > 1:
        raise PlacementConflictError(
            f"{OP}: {mapped[0]!r} and {mapped[1]!r} are both mapped, but the layers of a pipeline"
            " are sharded along one of their axes, over one or several mesh axes. Remove one of"
            " the entries in axis_resources."
        )
    layers = _Layers(names, mapped[0], params, schedule.rounds)
    _offer(call, layers.stages)
    count = schedule.microbatches or _PER_STAGE * layers.stages
    schedule = schedule.replace(stages=layers.stages, rounds=layers.rounds, microbatches=count)
    _check_schedule(schedule, layers, over)
    kind = Pipeline if schedule.name == "gpipe" else AlternatingPipeline
    last, results = kind(step, x, layers.entries, names, over, schedule, call.values["remat"]).run()
    leaves, tree = flatten(results)
    return last, tree.unflatten(
        [layers.result(data_of(leaf), dims_of(leaf)[1:]) for leaf in leaves]
    )


def _offer(call: OpenCall, stages: int) -> None:
    """Offer other numbers of microbatches and other schedules, in a trace of `nx.plan`."""
    call.offer("microbatches", [{"microbatches": stages * each} for each in _MICROBATCHES])
    call.offer("schedule", _SCHEDULES)
    if call.values["schedule"] in (None, "gpipe"):
        call.offer("remat", REMAT_CHOICES)


def _fold(
    step: Callable[..., PyTree], x: PyTree, params: PyTree, names: tuple[Hashable, ...]
) -> tuple[PyTree, PyTree]:
    name, *rest = names
    along = functools.partial(_fold, step, names=tuple(rest)) if rest else step
    return scan_along(OP, along, x, params, None, False, 1, name)


def _check_over(x: PyTree, params: PyTree, over: Hashable) -> None:
    leaves = [as_block(leaf, OP) for leaf in flatten((x, params))[0]]
    known = dict.fromkeys(name for leaf in leaves for name in names_of(dims_of(leaf)))
    if over not in known:
        raise AxisNotFoundError(
            f"{OP}: neither x nor params has an axis {over!r} to split into microbatches; their"
            f" names are {show_names(known)}.{did_you_mean(over, known)} Pass the name of the batch"
            " axis as over=."
        )


def _check_schedule(schedule: Schedule, layers: _Layers, over: Hashable) -> None:
    region = ambient()
    assert region is not None
    shared = set(region.place(over)) & set(layers.placement)
    if shared:
        raise PlacementConflictError(
            f"{OP}: {over!r} and {layers.name!r} are both mapped to mesh axis {min(shared)!r}, but"
            f" every stage of a pipeline processes all elements. Map {over!r} to another mesh axis."
        )
    if schedule.name == "interleaved" and schedule.rounds == 1:
        raise ArgumentError(
            f"{OP}: schedule='interleaved' needs several groups of layers of {layers.name!r} on"
            f" each of {schedule.stages} stages, got 1. Pass interleave=2, or use schedule='1f1b'."
        )
    if schedule.rounds > 1 and schedule.microbatches % schedule.stages:
        raise PipelineError(
            f"{OP}: {schedule.microbatches} microbatches over {schedule.stages} stages with"
            f" {schedule.rounds} groups of layers each: the number of microbatches must be a"
            f" multiple of {schedule.stages}. Use a multiple of {schedule.stages} microbatches, or"
            " interleave=1."
        )


def _block_sizes(leaves: Sequence[AnyArray]) -> dict[Hashable, int]:
    """Return the local size of each named axis."""
    return {
        dim: n
        for leaf in leaves
        if isinstance(leaf, NamedArray)
        for dim, n in zip(leaf.dims, leaf.data.shape, strict=True)
        if dim is not None
    }


class _Layers:
    """The inputs of the layers of one device, round by round, and their results.

    Args:
      names: the axis names of the layers, outermost first.
      name: the mapped axis. The axes before it are rounds; the axes after it are within a stage.
      params: the inputs.
      interleave: the number of groups per device for layers along a single axis, which are stored
        in layer order.
    """

    def __init__(
        self, names: tuple[Hashable, ...], name: Hashable, params: PyTree, interleave: int
    ):
        region = ambient()
        assert region is not None
        self.names, self.name, self.placement = names, name, region.placement(name, OP)
        self.stages = region.blocks(name)
        leaves, tree = flatten(params)
        blocks = [as_block(leaf, OP) for leaf in leaves]
        known = _block_sizes(blocks)
        self.sizes = [known[each] for each in names]
        self.rounds = math.prod(self.sizes[: names.index(name)])
        self.interleave = interleave
        if interleave > 1:
            if len(names) > 1:
                raise ArgumentError(
                    f"{OP}: interleave={interleave} conflicts with axis={names!r}, which already"
                    " defines the rounds. Leave out interleave=."
                )
            if self.sizes[0] % interleave:
                raise AxisSizeError(
                    f"{OP}: axis {name!r} of size {region.global_size(name, self.sizes[0])} over"
                    f" {self.stages} stages: the {self.sizes[0]} layers of each do not divide into"
                    f" interleave={interleave} groups. Use a divisor of {self.sizes[0]}."
                )
            self.rounds = interleave
        entries = Entries(OP, (), 0)
        entries.axis, entries.tree, entries.placement = name, tree, self.placement
        for i, block in enumerate(blocks):
            if not set(names) & set(dims_of(block)):
                entries.fixed[i] = block
                continue
            entries.datas.append(self._in_execution_order(block))
            entries.dims[i] = tuple(dim for dim in block.dims if dim not in names)
        self.entries = entries

    def _in_execution_order(self, block: NamedArray) -> jax.Array:
        """Move the layers of this device to the front, in their order of execution."""
        own = [dim for dim in self.names if dim in block.dims]
        data = jnp.moveaxis(block.data, [block.dims.index(dim) for dim in own], range(len(own)))
        rest = data.shape[len(own) :]
        if len(own) < len(self.names):  # the same for all layers along an axis
            data = data.reshape(
                (
                    *(
                        n if dim in own else 1
                        for dim, n in zip(self.names, self.sizes, strict=True)
                    ),
                    *rest,
                )
            )
            data = jnp.broadcast_to(data, (*self.sizes, *rest))
        data = data.reshape((-1, *rest))
        return move_rows(data, 0, self.placement, self._order()) if self.interleave > 1 else data

    def _order(self) -> np.ndarray:
        """Return the layers of every device: in each group, one of `stages` consecutive groups."""
        rows = np.arange(self.stages * self.sizes[0]).reshape(self.interleave, self.stages, -1)
        return np.moveaxis(rows, 1, 0).reshape(self.stages, -1)

    def result(self, data: jax.Array, dims: Dims) -> AnyArray:
        """Convert a result of this device's layers, the first dimension, to the original order."""
        if self.interleave > 1:
            data = move_rows(
                data, 0, self.placement, np.argsort(self._order().ravel()).reshape(self.stages, -1)
            )
        region = ambient()
        assert region is not None
        region.check_placement(OP, (*self.names, *names_of(dims)))
        return make_result(data.reshape((*self.sizes, *data.shape[1:])), (*self.names, *dims))
