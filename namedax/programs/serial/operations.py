"""The operations of one step, evaluated on the mesh without the loop's axis.

`evaluate` does so for a node, by the rule of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn
from jax.sharding import NamedSharding

from namedax.core.names import MeshAxes
from namedax.core.records import Record
from namedax.core.variance import cast_alike, cast_data, varying
from namedax.primitives.equations import Scan, While, barrier, bind, constraint
from namedax.primitives.record import Kind
from namedax.programs.serial.nodes import Added, Body, Node
from namedax.resources import communication as comm

__all__ = ["Step", "evaluate", "needs_index", "on_this_mesh"]


class Step(Record):
    """The step that evaluates a node.

    Attributes:
      axis: the axis of the loop.
      index: the index of the step, or `None` outside of the loop.
      call: evaluates a body.
      parameters: returns the parameters of an equation on the mesh in use.
    """

    axis: str
    index: Any
    call: Callable[[Body, Sequence[jax.Array]], list[jax.Array]]
    parameters: Callable[[JaxprEqn], dict[str, Any]]

    def without_loop(self, axes: Sequence[str]) -> MeshAxes:
        """Return the mesh axes of devices among `axes`."""
        return tuple(axis for axis in axes if axis != self.axis)

    def on_first(self, value: jax.Array, axes: Sequence[str]) -> jax.Array:
        """Return a summand that counts once: `value` in step 0 on device 0, zero elsewhere."""
        others, first = self.without_loop(axes), self.index == 0
        if others:
            first = first & (comm.block_index(others) == 0)
        value = jnp.asarray(value)
        return lax.select(
            *cast_alike([jnp.broadcast_to(first, value.shape), value, jnp.zeros_like(value)])
        )


def needs_index(node: Node, axis: str) -> bool:
    """Return True if a node needs the index of the step of the loop `axis`."""
    if node.kind == Kind.DEVICE_INDEX and axis in node.axes:
        return True
    # An operand that counts once does so in the first step.
    if node.counted_once or (node.kind == Kind.SCAN and node.postponed):
        return True
    return any(needs_index(inner, axis) for body in node.bodies for inner in body.nodes)


def evaluate(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    """Evaluate one operation in a step."""
    if node.counted_once:
        values = list(values)
        for i, axes in node.counted_once.items():
            values[i] = step.on_first(values[i], axes)
    return _RULES.get(node.kind, _bind)(node, values, step)


def _bind(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    # The summands of a postponed psum vary, but the psum did not.
    return bind(node.eqn, cast_alike(values), **step.parameters(node.eqn))


def _identity(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    axes = step.without_loop(node.postponed[0])
    return [cast_data(value, axes) for value in values]


def _cast(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    axes = step.without_loop(node.axes)
    return [cast_data(value, axes) for value in values]


def _barrier(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    return barrier(values)


def _each(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    elements = lax.map(lambda x: step.call(node.bodies[0], [x])[0], values[0])
    return [comm.psum(elements, node.postponed[0])]


def _device_index(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    return [step.index] if step.axis in node.axes else _bind(node, values, step)


def _constraint(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    sharding = on_this_mesh(constraint(node.eqn))
    return [values[0] if sharding is None else lax.with_sharding_constraint(values[0], sharding)]


def _scan(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    (body,), scan = node.bodies, Scan.of(node.eqn)
    consts, carries = scan.consts, scan.carries
    start = list(values[consts : consts + carries])
    for i, axes in node.postponed.items():
        if i < carries:
            start[i] = step.on_first(start[i], axes)

    def iterate(
        carry: list[jax.Array], xs: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        results = step.call(body, [*values[:consts], *carry, *xs])
        return results[:carries], results[carries:]

    last, stacked = lax.scan(iterate, start, list(values[consts + carries :]), **scan.options)
    return [*last, *stacked]


def _while(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    """Run `jax.lax.while_loop`, with a condition that `jax.vmap` may have batched.

    A condition with `ndim` leading dimensions is applied to each element separately.
    """
    loop, (condition, body) = While.of(node.eqn), node.bodies
    first, begin = loop.condition_consts, loop.condition_consts + loop.body_consts
    start = list(values[begin:])

    def test(carry: Sequence[jax.Array]) -> jax.Array:
        return step.call(condition, [*values[:first], *carry])[0]

    def iterate(carry: Sequence[jax.Array]) -> list[jax.Array]:
        return step.call(body, [*values[first:begin], *carry])

    def iterate_masked(carry: list[jax.Array]) -> list[jax.Array]:
        wanted, results = test(carry), list[jax.Array]()
        for new, old in zip(iterate(carry), carry, strict=True):
            mask = lax.broadcast_in_dim(wanted, new.shape, range(loop.ndim))
            results.append(lax.select(*cast_alike([mask, new, old])))
        return results

    if not loop.ndim:
        last: list[jax.Array] = lax.while_loop(test, iterate, start)
        return last
    axes = varying(test(start))
    start = [cast_data(jnp.asarray(value), axes) for value in start]
    last = lax.while_loop(lambda carry: jnp.any(test(carry)), iterate_masked, start)
    return last


def _branch(node: Node, values: Sequence[jax.Array], step: Step) -> Sequence[jax.Array]:
    branches = [lambda *operands, body=body: step.call(body, operands) for body in node.bodies]
    chosen: list[jax.Array] = lax.switch(jnp.asarray(values[0], jnp.int32), branches, *values[1:])
    return chosen


# The rules of kinds whose equation cannot be bound again as it is.
_RULES: dict[Kind | Added, Callable[[Node, Sequence[jax.Array], Step], Sequence[jax.Array]]] = {
    Added.IDENTITY: _identity,
    Added.BARRIER: _barrier,
    Added.EACH: _each,
    Kind.BARRIER: _barrier,
    Kind.CAST: _cast,
    Kind.DEVICE_INDEX: _device_index,
    Kind.CONSTRAINT: _constraint,
    Kind.SCAN: _scan,
    Kind.WHILE: _while,
    Kind.BRANCH: _branch,
}


def on_this_mesh(sharding: NamedSharding) -> NamedSharding | None:
    """Return a sharding on the mesh in use; `None` if it constrains nothing."""
    if all(entry is None for entry in sharding.spec.partitions):
        return None
    return NamedSharding(jax.sharding.get_abstract_mesh(), sharding.spec)
