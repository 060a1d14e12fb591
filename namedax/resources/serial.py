"""`SerialLoop`: execution of an axis in steps, to save memory.

In parsed `axis_resources` a loop is an axis with its own name (`LoopAxis`), like a mesh axis. It
comes after the mesh axes, because its steps divide the block of one device.
`namedax.programs.serial.stepping` executes the steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax import lax
from jax.core import ShapedArray

from namedax.core.name_scopes import running_operation
from namedax.core.region import ambient
from namedax.core.variance import UntrackedAxis
from namedax.errors import PipelineError, SerialLoopError, format_value, show_names
from namedax.messages.call_errors import checks_signature

__all__ = [
    "LoopAxis",
    "MicrobatchAxis",
    "SerialLoop",
    "count_along",
    "index_along",
    "loops_of",
    "moves_entries",
    "on_devices",
    "reject_loops",
    "reject_microbatches",
    "serial_loop",
    "stages_among",
    "with_loops",
]


Keep = Literal["parts", "whole"]


def _check_keep(what: str, keep: object) -> Keep:
    if keep not in ("parts", "whole"):
        raise SerialLoopError(f"{what}: keep must be 'parts' or 'whole', got {format_value(keep)}.")
    return "parts" if keep == "parts" else "whole"


def _check_steps(what: str, steps: object) -> int:
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
        raise SerialLoopError(
            f"{what}: steps must be a positive integer, got {format_value(steps)}."
        )
    return int(steps)


@dataclasses.dataclass(frozen=True)
class SerialLoop:
    """A sequential loop in `axis_resources`, which executes the axis in `steps` steps.

    The loop divides the memory of values along the axis by about `steps`, and reductions over the
    axis accumulate over the steps. Results do not change. With `{"batch": ("data", SerialLoop(8))}`
    a training step accumulates gradients. Each device computes an eighth of its examples at a time,
    and the gradients are reduced over `data` once, after the loop. Only sharded parameters (FSDP)
    are gathered, and their gradients scattered, in every step, which needs less memory; see `keep`.

    A value that depends on all examples, such as the mean in a batch norm, takes an additional pass
    of the loop. Each pass recomputes its inputs. The gradient also recomputes, and stores no
    residuals of the steps. Differentiate a mapped function with loops in reverse mode (`jax.grad`,
    `jax.vjp`, any number of times). Forward mode is not supported.

    A `SerialLoop` is the only resource of an axis, or the last one in a tuple with mesh axes. The
    loop then divides each device's block.

    Args:
      steps: the number of steps. If it does not divide the size of the axis, the last steps are
        short or empty.
      keep: the storage of sharded parameters (FSDP) and their gradients between steps. Default:
        `"parts"`. `"parts"`: each step gathers the parameters that it reads, and reduce-scatters
        its gradients, which accumulate as blocks. The loop sends `steps` times the bytes of a
        program without a loop. It stores one block of every parameter and gradient per device.
        `"whole"`: parameters gathered outside of a scan are gathered once, before the loop. Full
        gradients accumulate, and one reduce-scatter after the loop shards them. Gradients send the
        bytes of one step, but every device stores them in full. Layers in a scan are gathered in
        every step in both cases.

    Raises:
      SerialLoopError: `steps` is not a positive integer, or `keep` is neither `"parts"` nor
        `"whole"`.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> def loss(w, x):
    ...     return nx.mean(nx.dot(x, w, "k") ** 2, "batch")
    >>> f = nx.xmap(loss, in_axes=(["k"], ["batch", "k"]), out_axes=[],
    ...             axis_resources={"batch": nx.SerialLoop(4)})
    >>> jax.grad(f)(jnp.ones(3), jnp.ones((8, 3)))
    Array([6., 6., 6.], dtype=float32)
    """

    steps: int
    keep: Keep = "parts"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _check_steps("SerialLoop", self.steps))
        _check_keep("SerialLoop", self.keep)

    def __repr__(self) -> str:
        return (
            f"SerialLoop({self.steps})"
            if self.keep == "parts"
            else f"SerialLoop({self.steps}, keep={self.keep!r})"
        )


class LoopAxis(str):
    """The axis of a loop in parsed `axis_resources`, with its steps and its `keep`.

    The name is the string itself; `steps` and `keep` are those of `SerialLoop`.
    """

    __slots__ = ("keep", "steps")
    steps: int
    keep: Keep

    def __new__(cls, name: str, steps: int, keep: Keep = "parts") -> LoopAxis:
        """Create the axis `name` of `steps` steps."""
        axis = super().__new__(cls, name)
        axis.steps, axis.keep = steps, keep
        return axis

    def __reduce__(self) -> tuple[Any, ...]:
        return (LoopAxis, (str(self), self.steps, self.keep))


def loop_axis(name: Hashable, loop: SerialLoop) -> LoopAxis:
    """Return the axis of a loop that only the axis `name` uses."""
    return LoopAxis(f"{loop!r} of {name!r}", loop.steps, loop.keep)


_context = jax.make_user_context(())


@checks_signature
@contextlib.contextmanager
def serial_loop(name: str, steps: int, keep: Keep = "parts") -> Iterator[None]:
    """Define a loop that `axis_resources` can use like a mesh axis within this context.

    See `SerialLoop`.

    You can map several axes to one loop, as to one mesh axis, if no value has two of them. Without
    the context, the same `axis_resources` need a mesh axis of that name. So a loop can replace a
    mesh axis.

    Args:
      name: the name of the loop in `axis_resources`.
      steps: the number of steps.
      keep: as for `SerialLoop`. Default: `"parts"`.

    Returns:
      A context manager.

    Raises:
      SerialLoopError: `steps` is not a positive integer, `keep` is neither `"parts"` nor `"whole"`,
        or a surrounding loop has the same name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> f = nx.xmap(lambda x: nx.sum(x, "batch"), in_axes=["batch"], out_axes=[],
    ...             axis_resources={"batch": "l"})
    >>> with nx.serial_loop("l", 4):
    ...     f(jnp.arange(8.0))
    Array(28., dtype=float32)
    """
    if not isinstance(name, str):
        raise SerialLoopError(f"serial_loop: the name of a loop must be a string, got {name!r}.")
    if name in dict(_context.value):
        raise SerialLoopError(
            f"serial_loop: a surrounding loop has the name {name!r} already. Choose another name."
        )
    with _context(
        (
            *_context.value,
            (name, (_check_steps("serial_loop", steps), _check_keep("serial_loop", keep))),
        )
    ):
        yield


Assignment = Mapping[Hashable, tuple[str, ...]]


def with_loops(assignment: Assignment) -> dict[Hashable, tuple[str, ...]]:
    """Replace the names of loops in parsed `axis_resources` by loops of `serial_loop`.

    The loops are those of the surrounding contexts.

    Raises:
      SerialLoopError: a loop is not the last resource of its axis, or an axis has two loops.
    """
    named = dict(_context.value)
    resolved: dict[Hashable, tuple[str, ...]] = {}
    for name, axes in assignment.items():
        resolved[name] = axes = tuple(
            LoopAxis(axis, *named[axis]) if axis in named else axis for axis in axes
        )
        if any(isinstance(axis, LoopAxis) for axis in axes[:-1]):
            raise SerialLoopError(
                f"xmap: axis_resources maps {name!r} to {axes}, but a loop divides the block of one"
                " device and must come last, at most once. Put the mesh axes first."
            )
    return resolved


def on_devices(assignment: Assignment) -> dict[Hashable, tuple[str, ...]]:
    """Remove the loops from parsed `axis_resources`, which leaves the mesh axes."""
    found = {
        name: tuple(axis for axis in axes if not isinstance(axis, LoopAxis))
        for name, axes in assignment.items()
    }
    return {name: axes for name, axes in found.items() if axes}


def loops_of(assignment: Assignment) -> dict[str, int]:
    """Return the number of steps of every loop in parsed `axis_resources`, by its `LoopAxis`."""
    return {
        axis: axis.steps
        for axes in assignment.values()
        for axis in axes
        if isinstance(axis, LoopAxis)
    }


# --- the microbatch axis of a pipeline, of which a device has one microbatch at a time ----
# Like the axis of a `SerialLoop` it divides the block of one device, so it comes last in a
# placement. It is not a mesh axis, and JAX's types do not track it. The index of the current
# microbatch is a value in the jaxpr, and the offset of a block along the axis follows from it.
# Positions and random numbers are therefore the same as for the full axis. An operation that needs
# other microbatches raises an error.


_fresh = itertools.count()


class MicrobatchAxis(LoopAxis, UntrackedAxis):
    """The microbatches of an axis, with the index of the current one.

    Each instance has a unique name, so that cached programs are not shared between pipelines.
    """

    __slots__ = ("name", "number", "stages")
    name: Hashable
    number: Any
    stages: frozenset[str]

    def __new__(
        cls,
        name: Hashable,
        count: int,
        number: jax.Array | None = None,
        stages: frozenset[str] = frozenset(),
    ) -> MicrobatchAxis:
        """Create the microbatch axis of the axis `name`.

        Args:
          name: the name of the axis.
          count: the number of microbatches.
          number: the index of the current microbatch; `None` after the pipeline has been traced.
            Default: `None`.
          stages: the mesh axes of the pipeline's stages. Each stage processes a different
            microbatch. Default: none.
        """
        axis: Any = super().__new__(cls, f"microbatches of {name!r} ({next(_fresh)})", count)
        axis.name, axis.number, axis.stages = name, number, stages
        found: MicrobatchAxis = axis
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return (MicrobatchAxis, (self.name, self.steps, None, self.stages))


def reject_microbatches(axes: Sequence[str]) -> None:
    """Raise an error if one of `axes` is a microbatch axis.

    Operations that need all elements along `axes` call this.

    Raises:
      PipelineError: one of `axes` is a microbatch axis.
    """
    for axis in axes:
        if isinstance(axis, MicrobatchAxis):
            raise PipelineError(
                f"pipeline: the function reduces or communicates over {axis.name!r}, but each call"
                f" gets one of {axis.steps} microbatches of that axis. Return a value per element"
                f" with outputs=True and reduce {axis.name!r} after the pipeline; or compute the"
                " value before the pipeline and pass it as an input."
            )


def stages_among(placements: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the stage mesh axes of all microbatch axes in the placements.

    Every value in a layer of these pipelines may vary over them.
    """
    found = (
        axis.stages for axes in placements for axis in axes if isinstance(axis, MicrobatchAxis)
    )
    return frozenset[str]().union(*found)


def count_along(axes: Sequence[str]) -> int:
    """Return the number of blocks along `axes`."""
    count = 1
    for axis in axes:
        count *= axis.steps if isinstance(axis, MicrobatchAxis) else lax.axis_size(axis)
    return count


def index_along(axes: Sequence[str]) -> jax.Array:
    """Return the row-major index of the current block along `axes`."""
    devices = tuple(axis for axis in axes if not isinstance(axis, MicrobatchAxis))
    if len(devices) == len(axes):
        return lax.axis_index(devices)
    (axis,) = (axis for axis in axes if isinstance(axis, MicrobatchAxis))
    if axis.number is None:
        raise PipelineError(
            f"pipeline: a differentiation rule needs the offset of a microbatch of {axis.name!r}"
            " after the pipeline has been traced. Compute values that depend on positions in the"
            " function itself, or pass them as inputs."
        )
    return lax.axis_index(devices) * axis.steps + axis.number if devices else axis.number


# --- errors for operations that steps do not support ----------------------------------------------


def reject_loops(axes: Sequence[str], data: jax.Array) -> None:
    """Raise an error if one of `axes` is the axis of a loop.

    Collectives that move blocks along `axes` call this.

    Raises:
      PipelineError: one of `axes` is a microbatch axis.
      SerialLoopError: one of `axes` is the axis of a loop. The message names the operation that the
        body calls.
    """
    reject_microbatches(axes)
    loop = next((axis for axis in axes if isinstance(axis, LoopAxis)), None)
    if loop is None:
        return
    region = ambient()
    names = [
        name
        for name, held in (region.resources if region is not None else {}).items()
        if loop in held
    ]
    sizes = [region.sizes[name] for name in names if region is not None and name in region.sizes]
    held = (
        f"{show_names(names)}{f' of size {sizes[0]}' if len(sizes) == 1 == len(names) else ''}"
        if names
        else "of a loop"
    )
    what = running_operation() or "an operation in the body"
    raise SerialLoopError(
        moves_entries(what, f"the axis {held}", f"{loop} executes in {loop.steps} steps", data)
    )


def moves_entries(what: str, axis: str, how: str, data: jax.Array | ShapedArray) -> str:
    """Return the error message for an operation that moves elements along such an axis.

    The axis is executed in steps.

    Args:
      what: the operation.
      axis: the axis, as the object of "along".
      how: the verb phrase for its execution, such as "l executes in 4 steps".
      data: the block, for its shape and dtype.
    """
    return (
        f"{what}: the operation moves elements along {axis}, which {how}; a step cannot access the"
        f" data of other steps (here, blocks of {data.dtype}{list(data.shape)}). Rename the axis to"
        " a name without a loop first, which gathers it, and rename the result back; or remove the"
        " SerialLoop from axis_resources, or execute another axis in steps."
    )
