"""`SerialLoop`: time as a resource. An axis that is mapped to it is executed in steps, to save memory.

In an assignment a loop is an axis like those of the mesh, with a name of its own (`LoopAxis`); it comes after them, since the
entries of one device are what its steps divide. How the steps are executed is the business of `namedax.programs.serial.stepping`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Literal

import jax
import numpy as np

from namedax.core.call_errors import checks_signature
from namedax.errors import SerialLoopError, format_value

__all__ = ["LoopAxis", "SerialLoop", "loops_of", "on_devices", "serial_loop", "with_loops"]


Keep = Literal["parts", "whole"]


def _check_keep(what: str, keep: Any) -> Keep:
    if keep not in ("parts", "whole"):
        raise SerialLoopError(f"{what}: keep={format_value(keep)} is neither 'parts' nor 'whole'.")
    return "parts" if keep == "parts" else "whole"


def _check_steps(what: str, steps: Any) -> int:
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
        raise SerialLoopError(f"{what}: the number of steps is {format_value(steps)}; it is an integer from 1.")
    return int(steps)


@dataclasses.dataclass(frozen=True)
class SerialLoop:
    """A resource for `axis_resources`: the axis is executed in `steps` steps, one after the other.

    The memory of what is computed along the axis falls by about that factor, and reductions over the axis add up over the
    steps. Results do not change. With `{"batch": ("data", SerialLoop(8))}` a training step accumulates gradients: each device
    computes an eighth of its examples at a time, and the gradients are reduced over `data` once, after the loop. Only what is stored
    in parts on several devices (FSDP) is gathered, and its gradient scattered, in every step, which needs less memory; see `keep`.

    What is needed of all examples at once, such as the mean that a batch norm subtracts, is computed in a pass of its own: the
    loop runs once for each such value, and computes again what it needs. The same holds for the gradient, which keeps nothing
    that a step computed. A mapped function with loops can be differentiated in reverse mode (`jax.grad`, `jax.vjp`, any number
    of times), not in forward mode.

    It stands alone, or last in a tuple with mesh axes; the loop then divides each device's part.

    Args:
      steps: the number of steps. They need not divide the size of the axis: the last ones are then short, or empty.
      keep: what is kept from step to step of parameters that are stored in parts on several devices (FSDP), and of their gradients.
        `"parts"`: each step gathers what it reads and scatters its share of the gradient, whose parts are added up. A step sends
        what it sends without a loop, so a loop sends `steps` times the bytes; it keeps one part of every parameter and gradient.
        `"whole"`: what is gathered outside of a scan is gathered once, before the loop, whole gradients are added up, and they are
        scattered once, after it. The gradients send what one step does, and whole ones stay in memory on every device. Layers in
        a scan gather in every step in any case.

    Raises:
      SerialLoopError: `steps` is not an integer from 1, or `keep` is something else.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> def loss(w, x):
    ...     return nx.mean(nx.dot(x, w, "k") ** 2, "batch")
    >>> f = nx.xmap(loss, in_axes=(["k"], ["batch", "k"]), out_axes=[], axis_resources={"batch": nx.SerialLoop(4)})
    >>> jax.grad(f)(jnp.ones(3), jnp.ones((8, 3)))
    Array([6., 6., 6.], dtype=float32)
    """

    steps: int
    keep: Keep = "parts"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _check_steps("SerialLoop", self.steps))
        _check_keep("SerialLoop", self.keep)

    def __repr__(self) -> str:
        return f"SerialLoop({self.steps})" if self.keep == "parts" else f"SerialLoop({self.steps}, keep={self.keep!r})"


class LoopAxis(str):
    """The axis of a loop in an assignment: its name, the number of its steps, and what is kept from one to the next."""

    __slots__ = ("keep", "steps")
    steps: int
    keep: Keep

    def __new__(cls, name: str, steps: int, keep: Keep = "parts") -> LoopAxis:
        """The axis `name` of `steps` steps."""
        axis = super().__new__(cls, name)
        axis.steps, axis.keep = steps, keep
        return axis

    def __reduce__(self) -> Any:
        return (LoopAxis, (str(self), self.steps, self.keep))


def loop_axis(name: Hashable, loop: SerialLoop) -> LoopAxis:
    """The axis of a loop that the name alone uses."""
    return LoopAxis(f"{loop!r} of {name!r}", loop.steps, loop.keep)


_context = jax.make_user_context(())


@checks_signature
@contextlib.contextmanager
def serial_loop(name: str, steps: int, keep: Keep = "parts") -> Iterator[None]:
    """Within this context `name` is a resource like a mesh axis, a loop of `steps` steps. See `SerialLoop`.

    Several names can be mapped to one loop, as to one mesh axis, if no value has two of them. Without the context the same
    assignment needs a mesh axis of that name, so that one can put a loop in place of a mesh axis.

    Args:
      name: what `axis_resources` calls the loop.
      steps: the number of steps.
      keep: as for `SerialLoop`.

    Raises:
      SerialLoopError: `steps` is not an integer from 1, `keep` is something else, or the name is taken by another loop.

    >>> import jax.numpy as jnp, namedax as nx
    >>> f = nx.xmap(lambda x: nx.sum(x, "batch"), in_axes=["batch"], out_axes=[], axis_resources={"batch": "l"})
    >>> with nx.serial_loop("l", 4):
    ...     f(jnp.arange(8.0))
    Array(28., dtype=float32)
    """
    if not isinstance(name, str):
        raise SerialLoopError(f"serial_loop: {name!r} is not a name of a resource; write a string, as for a mesh axis.")
    if name in dict(_context.value):
        raise SerialLoopError(f"serial_loop: there is a loop {name!r} already, around this one. Choose another name.")
    with _context((*_context.value, (name, (_check_steps("serial_loop", steps), _check_keep("serial_loop", keep))))):
        yield


Assignment = Mapping[Hashable, tuple[str, ...]]


def with_loops(assignment: Assignment) -> dict[Hashable, tuple[str, ...]]:
    """The assignment with the loops of the surrounding `serial_loop` contexts in place of their names.

    Raises:
      SerialLoopError: a loop is not the last entry for its name, or there are two.
    """
    named = dict(_context.value)
    resolved: dict[Hashable, tuple[str, ...]] = {}
    for name, axes in assignment.items():
        resolved[name] = axes = tuple(LoopAxis(axis, *named[axis]) if axis in named else axis for axis in axes)
        if any(isinstance(axis, LoopAxis) for axis in axes[:-1]):
            raise SerialLoopError(
                f"xmap: axis_resources maps {name!r} to {axes}; a loop divides what one device has, so there is one at most, and it "
                "is the last entry. Put the mesh axes first."
            )
    return resolved


def on_devices(assignment: Assignment) -> dict[Hashable, tuple[str, ...]]:
    """The assignment without loops: where values live."""
    found = {name: tuple(axis for axis in axes if not isinstance(axis, LoopAxis)) for name, axes in assignment.items()}
    return {name: axes for name, axes in found.items() if axes}


def loops_of(assignment: Assignment) -> dict[str, int]:
    """The number of steps of every loop in the assignment, by its `LoopAxis`."""
    return {axis: axis.steps for axes in assignment.values() for axis in axes if isinstance(axis, LoopAxis)}
