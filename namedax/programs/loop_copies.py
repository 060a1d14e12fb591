"""Copies from the memory of the host that are hoisted out of the body of a loop.

An operation in the body copies an array that the body closes over to the device. The array is the
same in every step, so it is copied once, before the loop. The arrays that a loop slices are copied
slice by slice, in their steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from namedax.core.memory_kinds import is_host_type
from namedax.primitives.equations import (
    called,
    is_copy_from_host,
    kind_of,
    reading,
    stand_ins,
)
from namedax.primitives.recomputation import with_jaxpr
from namedax.primitives.record import Atom, Kind

__all__ = ["with_constants_on_device"]


def with_constants_on_device(closed: ClosedJaxpr) -> ClosedJaxpr | None:
    """Return a jaxpr that takes copied constants in the memory of the device.

    The caller copies these constants: those whose variables have a type in the memory of the
    device. The result is `None` if no constant is copied.
    """
    on_host = {var for var in closed.jaxpr.constvars if is_host_type(var.aval)}
    if not on_host:
        return None
    taken: dict[Atom, Var] = {}
    changed = _without_copies(closed.jaxpr, on_host, taken)
    if not taken:
        return None
    used = _read_by(changed)
    pairs = []
    for var, const in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        if var in taken:
            pairs.append((taken[var], const))
        if var not in taken or var in used:
            pairs.append((var, const))
    jaxpr = changed.replace(constvars=[var for var, _ in pairs])
    return ClosedJaxpr(jaxpr, [const for _, const in pairs])


def _variables(atoms: Iterable[Atom]) -> set[Atom]:
    return {atom for atom in atoms if not isinstance(atom, Literal)}


def _read_by(jaxpr: Jaxpr) -> set[Atom]:
    return _variables([*jaxpr.outvars, *(var for eqn in jaxpr.eqns for var in eqn.invars)])


def _without_copies(jaxpr: Jaxpr, on_host: Set[Atom], taken: dict[Atom, Var]) -> Jaxpr:
    """Return a jaxpr without copies of some inputs, and note the variables of the copies.

    Args:
      jaxpr: the jaxpr.
      on_host: the inputs.
      taken: gets the variable of the copy of each copied input.
    """
    stands_for: dict[Atom, Var] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqn = reading(eqn, stands_for)
        operands = eqn.invars
        if on_host.isdisjoint(_variables(operands)):
            eqns.append(eqn)
        elif is_copy_from_host(eqn):
            stands_for[eqn.outvars[0]] = taken.setdefault(operands[0], eqn.outvars[0])
        elif kind_of(eqn) is Kind.REMAT and (inner := called(eqn)) is not None:
            outside: dict[Atom, Atom] = dict(zip(inner.invars, operands, strict=True))
            within: dict[Atom, Var] = {}
            held: set[Atom] = {var for var in inner.invars if outside[var] in on_host}
            changed = _without_copies(inner, held, within)
            if not within:
                eqns.append(eqn)
                continue
            kept = _read_by(changed) | (set(inner.invars) - set(within))
            operands = [outside[var] for var in inner.invars if var in kept]
            invars = [*(var for var in inner.invars if var in kept), *within.values()]
            more = [taken.setdefault(outside[var], Var(copy.aval)) for var, copy in within.items()]
            changed = changed.replace(invars=invars)
            eqns.append(with_jaxpr(eqn, changed, [*operands, *more], eqn.outvars))
        else:
            eqns.append(eqn)
    return jaxpr.replace(eqns=eqns, outvars=stand_ins(jaxpr.outvars, stands_for))
