"""Control flow that all steps of a loop in time execute together.

A scan that needs a reduction over the loop's axis in every iteration cannot run within the loop:
each iteration would have to wait for all steps. Such a scan runs around the loop: in each
iteration, the loop runs as often as the iteration needs. A branch and a while loop work in the same
way, as long as all steps take the same path. Values that differ from step to step, and are carried
from iteration to iteration, are stored for all steps at once, stacked along a leading axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import lax

from namedax.core.variance import cast_alike, cast_data, varying, varying_of
from namedax.errors import SerialLoopError
from namedax.primitives.equations import Scan, While
from namedax.primitives.record import Kind
from namedax.programs.serial.nodes import Body, Node

__all__ = ["STACKED", "Part", "prepare", "run", "stacked", "while_loop"]

# In place of the dimension that the loop's axis shards: a leading axis, with one element for every
# step.
STACKED = -1
# The dimension in which a value has the parts of all steps; `None` for a value that is the same in
# every step.
Dim = int | None


class Part(Protocol):
    """A body that is executed in steps."""

    in_dims: list[Dim]
    out_dims: list[Dim]

    def run(self, *blocks: jax.Array) -> list[jax.Array]:
        """Map blocks of all steps to results of all steps."""

    def differing(self) -> list[bool]:
        """Return, for each result, whether it differs from step to step."""


Make = Callable[[Body, list[Dim], list[Dim]], Part]


def prepare(node: Node, axis: str, dims: Sequence[Dim], make: Make) -> list[bool]:
    """Plan the bodies of a node in steps.

    Set `node.parts`, and return for each result whether it differs from step to step.

    Args:
      node: a scan, a while loop or a branch.
      axis: the axis of the loop.
      dims: the dims of the operands.
      make: plans a body for operands with these dims; results with a dim must be stacked.

    Raises:
      SerialLoopError: steps would take different paths.
    """
    if node.kind == Kind.BRANCH:
        if dims[0] is not None:
            raise _disagreement(axis, "the predicate of a branch differs")
        parts = [make(body, list(dims[1:]), [None] * len(node.outputs)) for body in node.bodies]
        differ = [any(column) for column in zip(*(part.differing() for part in parts), strict=True)]
        node.parts = [make(body, list(dims[1:]), _dims(differ)) for body in node.bodies]
        return differ
    if node.kind == Kind.SCAN:
        scan = Scan.of(node.eqn)
        consts, carries = scan.consts, scan.carries
        # The scanned operands lack their first dimension in the body.
        xs = [
            STACKED if dim == 0 else dim - 1 if dim is not None and dim > 0 else dim
            for dim in dims[consts + carries :]
        ]
        return _until_stable(node, dims[:consts], dims[consts : consts + carries], xs, make)
    loop, (condition, _) = While.of(node.eqn), node.bodies
    first, second = loop.condition_consts, loop.body_consts
    if loop.ndim:
        raise _disagreement(
            axis, "the condition of a while loop is batched by jax.vmap, and differs"
        )
    differ = _until_stable(node, dims[first : first + second], dims[first + second :], [], make)
    test = make(condition, [*dims[:first], *_dims(differ)], [None])
    if any(test.differing()):
        raise _disagreement(axis, "the condition of a while loop differs")
    node.parts = [test, *node.parts]
    return differ


def _until_stable(
    node: Node, consts: Sequence[Dim], start: Sequence[Dim], xs: Sequence[Dim], make: Make
) -> list[bool]:
    """Plan a loop's body; a carry differs from step to step if it starts or is returned so."""
    body, carried = node.bodies[-1], [dim is not None for dim in start]
    while True:
        dims = [*consts, *_dims(carried), *xs]
        differ = make(body, dims, [None] * len(body.outputs)).differing()
        grown = [a or b for a, b in zip(carried, differ, strict=False)]
        if grown == carried:
            break
        carried = grown
    differ = [*carried, *differ[len(carried) :]]
    node.parts = [make(body, dims, _dims(differ))]
    return differ


def _dims(differ: Sequence[bool]) -> list[Dim]:
    return [STACKED if one else None for one in differ]


def _disagreement(axis: str, what: str) -> SerialLoopError:
    return SerialLoopError(
        f"SerialLoop: {what} from step to step of {axis}, but a reduction or collective over that"
        " axis is inside, which all steps must execute together. Move the reduction outside,"
        " reduce the condition over the axis first (nx.any), or remove the SerialLoop from"
        " axis_resources."
    )


def stacked(block: jax.Array, dim: Dim, steps: int) -> jax.Array:
    """Return a value of all steps with one leading element for each step."""
    if dim == STACKED:
        return block
    if dim is None:
        return jnp.broadcast_to(block, (steps, *jnp.shape(block)))
    shape = block.shape
    return jnp.moveaxis(
        block.reshape(*shape[:dim], steps, shape[dim] // steps, *shape[dim + 1 :]), dim, 0
    )


def while_loop(
    test: Callable[[Sequence[jax.Array]], jax.Array],
    body: Callable[[list[jax.Array]], list[jax.Array]],
    start: Sequence[jax.Array],
    ndim: int,
) -> list[jax.Array]:
    """Run `jax.lax.while_loop`, with a condition that `jax.vmap` may have batched.

    A condition with `ndim` leading dimensions is applied to each element separately.
    """
    if not ndim:
        last: list[jax.Array] = lax.while_loop(test, body, list(start))
        return last

    def step(carry: list[jax.Array]) -> list[jax.Array]:
        wanted, results = test(carry), list[jax.Array]()
        for new, old in zip(body(carry), carry, strict=True):
            mask = lax.broadcast_in_dim(wanted, new.shape, range(ndim))
            results.append(lax.select(*cast_alike([mask, new, old])))
        return results

    axes = varying(test(start))
    last = lax.while_loop(
        lambda carry: jnp.any(test(carry)),
        step,
        [cast_data(jnp.asarray(value), axes) for value in start],
    )
    return last


def run(
    node: Node, axis: str, steps: int, operands: Sequence[tuple[jax.Array, Dim]]
) -> list[jax.Array]:
    """Execute a prepared node; its results that differ from step to step are stacked.

    Args:
      node: the node.
      axis: the axis of the loop.
      steps: the number of steps.
      operands: values, each with its dim.
    """
    variances = [varying_of(var.aval) - {axis} for var in node.eqn.outvars]

    def alike(values: Sequence[jax.Array]) -> list[jax.Array]:
        return [
            cast_data(jnp.asarray(value), axes)
            for value, axes in zip(values, variances, strict=False)
        ]

    def given(part: Part, values: Sequence[tuple[jax.Array, Dim]], first: int) -> list[jax.Array]:
        """Return operands in the form of a body's inputs, from the input with index `first` on."""
        return [
            value if part.in_dims[i] != STACKED else stacked(value, dim, steps)
            for i, (value, dim) in enumerate(values, first)
        ]

    if node.kind == Kind.BRANCH:
        index, *others = operands
        branches = [lambda *values, part=part: alike(part.run(*values)) for part in node.parts]
        chosen: list[jax.Array] = lax.switch(
            jnp.asarray(index[0], jnp.int32), branches, *given(node.parts[0], others, 0)
        )
        return chosen
    if node.kind == Kind.WHILE:
        loop, (test, part) = While.of(node.eqn), node.parts
        first, second = loop.condition_consts, loop.body_consts
        for_test = given(test, operands[:first], 0)
        for_body = given(part, operands[first : first + second], 0)
        start = alike(given(part, operands[first + second :], second))
        return while_loop(
            lambda carry: test.run(*for_test, *carry)[0],
            lambda carry: alike(part.run(*for_body, *carry)),
            start,
            0,
        )
    return _scan(node, node.parts[0], steps, operands, given, alike)


def _scan(
    node: Node,
    part: Part,
    steps: int,
    operands: Sequence[tuple[jax.Array, Dim]],
    given: Callable[[Part, Sequence[tuple[jax.Array, Dim]], int], list[jax.Array]],
    alike: Callable[[Sequence[jax.Array]], list[jax.Array]],
) -> list[jax.Array]:
    scan = Scan.of(node.eqn)
    consts, carries = scan.consts, scan.carries
    for_all = given(part, operands[:consts], 0)
    start = alike(given(part, operands[consts : consts + carries], consts))
    xs = given(part, operands[consts + carries :], consts + carries)
    wanted = part.in_dims[consts + carries :]
    # In a stacked operand, the scanned dimension comes before the dimension of the steps.
    xs = [jnp.moveaxis(x, 0, 1) if dim == STACKED else x for x, dim in zip(xs, wanted, strict=True)]

    def iterate(
        carry: list[jax.Array], entries: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        results = part.run(*for_all, *carry, *entries)
        return alike(results[:carries]), results[carries:]

    last, results = lax.scan(iterate, start, xs, **scan.options)
    dims = part.out_dims[carries:]
    return [
        *last,
        *(
            jnp.moveaxis(y, 1, 0) if dim == STACKED else y
            for y, dim in zip(results, dims, strict=True)
        ),
    ]
