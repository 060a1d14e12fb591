"""Collectives of a traced body over fast and slow mesh axes, replaced by two-level ones.

This is the last pass over a body, inside `jax.shard_map`: what other passes have decided is kept.
It also replaces casts to varying, because JAX makes the sums of gradients from them, later and
outside the body. Values do not change, except in the order of additions.

Rules of `jax.custom_vjp` and `jax.custom_jvp` are traced later, and keep their collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, JaxprEqn
from jax.extend.source_info_util import NameStack, user_context

from namedax.core.names import PyTree
from namedax.primitives import costs
from namedax.primitives.equations import (
    axes_of,
    dimension_of,
    facts,
    in_two_levels,
    is_in_groups,
    is_local,
    is_tiled,
    kind_of,
    sliced_dimension,
    with_jaxprs,
    with_operands,
)
from namedax.primitives.record import Kind, aval_of
from namedax.programs.evaluator import as_one_call, consts_to_inputs
from namedax.resources.two_level import SlowAxes, Step, split, steps

__all__ = ["mapped_in_two_levels", "with_two_levels"]


def mapped_in_two_levels(
    shard_map: Callable[..., Callable[..., PyTree]], slow_axes: SlowAxes
) -> Callable[..., Callable[..., PyTree]]:
    """Return `shard_map` for bodies that communicate in two levels, if there are slow axes.

    Args:
      shard_map: `jax.shard_map` with some options.
      slow_axes: those of the region of the body.
    """
    if not slow_axes:
        return shard_map
    return lambda body, **options: shard_map(_in_two_levels(body, dict(slow_axes)), **options)


def with_two_levels(jaxpr: Jaxpr, slow_axes: SlowAxes) -> Jaxpr:
    """Return an open jaxpr with its collectives in two levels."""
    return _Rewriter(dict(slow_axes)).jaxpr(jaxpr) if slow_axes else jaxpr


def _in_two_levels(
    body: Callable[..., PyTree], slow_axes: Mapping[str, int]
) -> Callable[..., PyTree]:
    """Wrap the body of a `jax.shard_map` to communicate in two levels.

    Args:
      body: a function of blocks, or of pytrees of them.
      slow_axes: the slow mesh axes, each with the smallest payload in bytes for which two levels
        are used.
    """

    def run(*values: PyTree) -> PyTree:
        leaves, structure = jax.tree.flatten(values)
        structures: list[jax.tree_util.PyTreeDef] = []

        def flat(*leaves: jax.Array) -> list[jax.Array]:
            results, tree = jax.tree.flatten(body(*jax.tree.unflatten(structure, leaves)))
            structures.append(tree)
            return results

        closed = jax.make_jaxpr(flat)(*leaves)
        jaxpr = _Rewriter(slow_axes).jaxpr(consts_to_inputs(closed.jaxpr))
        results = as_one_call(jaxpr, [*closed.consts, *leaves])
        return jax.tree.unflatten(structures[-1], results)

    return run


class _Rewriter:
    """The rewriting of a jaxpr and of the jaxprs that its equations run, each of them once."""

    def __init__(self, slow_axes: Mapping[str, int]):
        self._slow_axes = slow_axes
        self._known: dict[int, tuple[Jaxpr, Jaxpr]] = {}

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        """Return an open jaxpr with its collectives in two levels; itself if it has none."""
        if id(jaxpr) not in self._known:
            eqns = [new for eqn in jaxpr.eqns for new in self._eqns(eqn)]
            same = len(eqns) == len(jaxpr.eqns) and all(
                new is eqn for new, eqn in zip(eqns, jaxpr.eqns, strict=True)
            )
            self._known[id(jaxpr)] = jaxpr, jaxpr if same else jaxpr.replace(eqns=eqns)
        return self._known[id(jaxpr)][1]

    def _eqns(self, eqn: JaxprEqn) -> Iterable[JaxprEqn]:
        if is_local(eqn):
            return [eqn]
        kind = kind_of(eqn)
        if kind in (Kind.SUM, Kind.CAST, Kind.GATHER, Kind.SCATTER, Kind.OWN_BLOCK):
            return self._collective(eqn, kind)
        if kind == Kind.MAP:  # its own pass has replaced its collectives
            return [eqn]
        return [with_jaxprs(eqn, self.jaxpr)]

    @staticmethod
    def _pays(operand: ShapedArray, result: ShapedArray, smallest: int) -> bool:
        """Return True if two levels send less over the slow axes, and the payload is large."""
        payload = max(costs.size_in_bytes(operand), costs.size_in_bytes(result))
        is_number = jnp.issubdtype(operand.dtype, jnp.number)
        return bool(is_number and payload >= smallest and max(operand.size, result.size) > 1)

    def _collective(self, eqn: JaxprEqn, kind: Kind) -> list[JaxprEqn]:
        axes = axes_of(eqn)
        parts = split(axes, self._slow_axes)
        if parts is None or is_in_groups(eqn):
            return [eqn]
        fast, slow = parts
        # A sum whose result is still varying has no counterpart in steps.
        if kind == Kind.SUM and not facts(eqn).is_invariant:
            return [eqn]
        smallest = max(self._slow_axes[axis] for axis in slow)
        large = [
            self._pays(aval_of(operand), aval_of(result), smallest)
            for operand, result in zip(eqn.invars, eqn.outvars, strict=True)
        ]
        if not any(large):
            return [eqn]
        if kind in (Kind.GATHER, Kind.SCATTER) and not is_tiled(eqn):
            return [eqn]
        where = {}
        if kind in (Kind.GATHER, Kind.SCATTER):
            where = {"dim": dimension_of(eqn), "axes": axes}
        elif kind == Kind.OWN_BLOCK:
            where = dict(zip(("dim", "axes"), sliced_dimension(eqn), strict=True))
        found: list[JaxprEqn] = []
        rest = [i for i, is_large in enumerate(large) if not is_large]
        if rest:
            found.append(with_operands(eqn, rest))
        for i, is_large in enumerate(large):
            if is_large:
                with user_context(eqn.source_info.traceback, name_stack=NameStack()):
                    params = steps(aval_of(eqn.invars[i]), _step(eqn, kind), fast, slow, **where)
                found.append(in_two_levels(eqn, i, params))
        return found


def _step(eqn: JaxprEqn, kind: Kind) -> Step:
    if kind == Kind.GATHER:
        return "gathered_invariant" if facts(eqn).is_invariant else "gathered"
    found: dict[Kind, Step] = {
        Kind.SUM: "sum",
        Kind.CAST: "cast",
        Kind.SCATTER: "scattered",
        Kind.OWN_BLOCK: "block",
    }
    return found[kind]
