"""The rounds of a mixture of experts without capacity, with a custom derivative.

Each round has a fixed number of slots, and the fullest expert determines the number of rounds.
The number of slots matches an even load, so that one or two rounds usually suffice. All devices
that communicate agree on the number of rounds, by one all-reduce of a number. The gradient runs the
rounds again and keeps no residuals of them. It sends the results' gradients to the experts along
with the tokens, in one all-to-all per round. It returns the tokens' gradients in another. Tokens
that are cast for sharded hidden features have another variance, so each all-to-all becomes two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from namedax.core.records import Record
from namedax.core.variance import cast_data, varying, varying_of
from namedax.ops.experts.slots import Exchange, Slots
from namedax.primitives.equations import axes_of, called, jaxprs_of, kind_of, open_jaxpr
from namedax.primitives.record import Kind
from namedax.programs.evaluator import collective_axes
from namedax.resources import communication as comm

__all__ = ["Rounds", "loop_collective_axes"]


T = TypeVar("T")
#: Rows, weights, numbers, ranks, the number of rounds, closed-over values and parameters.
Operands = tuple[
    jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, list[jax.Array], list[jax.Array]
]
#: The gradients of `Operands`.
Gradients = tuple[
    jax.Array | None, jax.Array, None, None, None, list[jax.Array | None], list[jax.Array | None]
]


def loop_collective_axes(closed: ClosedJaxpr, known: frozenset[str]) -> frozenset[str]:
    """Return the mesh axes along which a program or its derivative may communicate.

    The transpose of a cast is an all-reduce, and that of a slice of this device's block is an
    all-gather. Arguments already vary over `known`, so over these axes only closed-over values and
    constants are cast; constants and literals have no derivative.
    """
    casts = _all_axes_of(Kind.CAST, closed.jaxpr)
    if not any(
        jnp.issubdtype(const.dtype, jnp.inexact)
        for const in closed.consts
        if hasattr(const, "dtype")
    ):
        casts -= known
    return collective_axes(closed.jaxpr) | casts | _all_axes_of(Kind.OWN_BLOCK, closed.jaxpr)


def _all_axes_of(
    kind: Kind, jaxpr: Jaxpr, literals: frozenset[object] = frozenset()
) -> frozenset[str]:
    """Return the mesh axes of all equations of a kind that compute with more than literals."""
    found = frozenset[str]()
    for eqn in jaxpr.eqns:
        are_literals = [isinstance(x, Literal) or x in literals for x in eqn.invars]
        if all(are_literals) and not jaxprs_of(eqn):
            literals |= {*eqn.outvars}
        elif kind_of(eqn) is kind:
            found |= frozenset(axes_of(eqn))
        call = called(eqn)
        if call is None:
            for inner in jaxprs_of(eqn):
                found |= _all_axes_of(kind, open_jaxpr(inner))
        else:
            pairs = zip(call.invars, are_literals, strict=True)
            inside = frozenset[object](var for var, is_literal in pairs if is_literal)
            found |= _all_axes_of(kind, call, inside)
    return found


class Rounds(Record):
    """The rounds, with a derivative that runs them again.

    Attributes:
      exchange: the plan to send slots.
      jaxpr: the jaxpr of the experts' function, of slots and parameters; its constants are the
        closed-over values.
      size: the number of slots of every expert in one round.
    """

    exchange: Exchange
    jaxpr: Jaxpr
    size: int

    def __call__(
        self,
        rows: jax.Array,
        weight: jax.Array,
        number: jax.Array,
        rank: jax.Array,
        rounds: jax.Array,
        consts: Sequence[jax.Array],
        datas: Sequence[jax.Array],
    ) -> jax.Array:
        """Compute the weighted sums for all tokens.

        Args:
          rows: the tokens, `[tokens, features]`.
          weight: the weights of the choices, `[choices, tokens]`.
          number: the expert of every choice, as in `Exchange.number`.
          rank: the number of earlier choices of the same expert on this device.
          rounds: the number of rounds.
          consts: the values that the experts' function closes over.
          datas: the parameters.
        """
        call = jax.custom_vjp(self._forward)
        call.defvjp(self._save, self._backward)
        return call(rows, weight, number, rank, rounds, list(consts), list(datas))

    def _slots(self, number: jax.Array, rank: jax.Array, index: jax.Array) -> Slots:
        count, size = self.exchange.count, self.size
        within = rank - index * size
        here = (number < count) & (within >= 0) & (within < size)
        return Slots.of(jnp.where(here, number * size + within, count * size), count, size)

    def _loop(
        self,
        rounds: jax.Array,
        step: Callable[[jax.Array], T],
        finish: Callable[[jax.Array, jax.core.ShapedArray], jax.Array],
    ) -> T:
        """Sum `step(index)` over the rounds, then apply `finish(sum, type)`.

        The sums are accumulated in at least 32 bits.
        """
        start = jnp.zeros_like(rounds)
        closed, shapes = jax.make_jaxpr(step, return_shape=True)(start)
        types = jax.tree.unflatten(jax.tree.structure(shapes), closed.out_avals)
        zeros = jax.tree.map(
            lambda t: cast_data(jnp.zeros(t.shape, comm.sum_type(t.dtype)), varying_of(t)), types
        )

        def body(state: tuple[jax.Array, T]) -> tuple[jax.Array, T]:
            index, total = state
            return index + 1, jax.tree.map(
                lambda total, more: total + more.astype(total.dtype), total, step(index)
            )

        _, total = lax.while_loop(lambda state: state[0] < rounds, body, (start, zeros))
        return jax.tree.map(finish, total, types)

    def _run(
        self, consts: Sequence[jax.Array], slots: jax.Array, datas: Sequence[jax.Array]
    ) -> jax.Array:
        (result,) = jaxpr_as_fun(ClosedJaxpr(self.jaxpr, list(consts)))(slots, *datas)
        return result

    def _forward(self, *operands: *Operands) -> jax.Array:
        rows, weight, number, rank, rounds, consts, datas = operands
        # JAX declares an AbstractValue, but it is a ShapedArray.
        dtype = self.jaxpr.outvars[0].aval.dtype  # type: ignore[attr-defined]

        def step(index: jax.Array) -> jax.Array:
            slots = self._slots(number, rank, index)
            results = self._run(consts, self.exchange.send(slots.fill(rows)), datas)
            return slots.add_up(self.exchange.back(results), weight)

        return self._loop(rounds, step, lambda total, _: total.astype(dtype))

    def _save(self, *operands: *Operands) -> tuple[jax.Array, Operands]:
        return self._forward(*operands), operands

    def _backward(self, operands: Operands, cotangent: jax.Array) -> Gradients:
        rows, weight, number, rank, rounds, consts, datas = operands
        values, count = [*consts, *datas], len(consts)
        floats = [i for i, x in enumerate(values) if jnp.issubdtype(x.dtype, jnp.inexact)]
        has_row_gradient = jnp.issubdtype(rows.dtype, jnp.inexact)

        def step(index: jax.Array) -> tuple[jax.Array, list[jax.Array], list[jax.Array]]:
            slots = self._slots(number, rank, index)
            filled = [slots.fill(rows), slots.fill(cotangent), slots.fill_choices(weight)]
            received, cotangents, weights = _together(self.exchange.send, filled)

            def run(received: jax.Array, *inputs: jax.Array) -> jax.Array:
                every = list(values)
                for i, value in zip(floats, inputs, strict=True):
                    every[i] = value
                return self._run(every[:count], received, every[count:])

            inputs = [values[i] for i in floats]
            if has_row_gradient:
                results, pull = jax.vjp(run, received, *inputs)
            else:
                results, pull = jax.vjp(functools.partial(run, received), *inputs)
            of_results = (cotangents * weights).astype(results.dtype)
            pulled = list(pull(cast_data(of_results, varying(results))))
            of_weight = jnp.sum(_widened(results) * cotangents, 2, keepdims=True).astype(
                weight.dtype
            )
            returned = [of_weight, *([pulled.pop(0)] if has_row_gradient else [])]
            of_weight, *of_rows = map(slots.read, _together(self.exchange.back, returned))
            of_rows = [jnp.sum(_widened(value), 0).astype(rows.dtype) for value in of_rows]
            return of_weight[..., 0], of_rows, pulled

        of_weight, of_rows, rest = self._loop(
            rounds, step, lambda total, kind: total.astype(kind.dtype)
        )
        gradients: list[jax.Array | None] = [None] * len(values)
        for i, value in zip(floats, rest, strict=True):
            gradients[i] = value
        of_row = cast_data(of_rows[0], varying(rows)) if has_row_gradient else None
        of_weight = cast_data(of_weight, varying(weight))
        return of_row, of_weight, None, None, None, gradients[:count], gradients[count:]


def _widened(data: jax.Array) -> jax.Array:
    return data.astype(comm.sum_type(data.dtype))


def _together(
    move: Callable[[jax.Array], jax.Array], arrays: Sequence[jax.Array]
) -> list[jax.Array]:
    """Apply `move` to arrays that differ in their features only.

    Arrays of equal dtype and variance are combined into one.
    """
    moved: dict[int, jax.Array] = {}
    kinds = [(array.dtype, varying(array)) for array in arrays]
    for kind in dict.fromkeys(kinds):
        same = [i for i, other in enumerate(kinds) if other == kind]
        whole = move(jnp.concatenate([arrays[i] for i in same], 2))
        ends = [int(n) for n in np.cumsum([arrays[i].shape[2] for i in same])[:-1]]
        moved.update(zip(same, jnp.split(whole, ends, 2), strict=True))
    return [moved[i] for i in range(len(arrays))]
