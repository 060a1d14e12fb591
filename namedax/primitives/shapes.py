"""Records of primitives that move, repeat, select or create elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn

from namedax.primitives.dimensions import (
    NONE,
    across,
    independent,
    last,
    listed,
    reshaped,
    same_sizes,
    trimmed,
    without_roles,
)
from namedax.primitives.record import (
    Aligned,
    Fusion,
    Kind,
    Mixed,
    Primitive,
    Roles,
    Shardings,
    records,
    shape_of,
)

__all__ = ["RECORDS"]

_MARK = frozenset({""})


def _padded(eqn: JaxprEqn) -> Sequence[int]:
    return [i for i, sizes in enumerate(eqn.params["padding_config"]) if any(sizes)]


# --- alignments -----------------------------------------------------------------------------------


def _permuted(eqn: JaxprEqn) -> list[Aligned]:
    return [tuple(map(int, eqn.params["permutation"]))]


def _broadcast(eqn: JaxprEqn) -> list[Aligned]:
    before, after = shape_of(eqn.invars[0]), shape_of(eqn.outvars[0])
    given = {j: i for i, j in enumerate(eqn.params["broadcast_dimensions"])}
    dims: Aligned = [
        given[j] if j in given and before[given[j]] == n else None for j, n in enumerate(after)
    ]
    return [dims] + [(None,) * len(after)] * (len(eqn.invars) - 1)


def _stacked(eqn: JaxprEqn) -> list[Aligned]:
    axis, ndim = eqn.params["axis"], len(shape_of(eqn.invars[0]))
    return [[*range(axis), None, *range(axis, ndim)]] * len(eqn.invars)


def _reshaped(eqn: JaxprEqn) -> list[Aligned]:
    before, after = shape_of(eqn.invars[0]), shape_of(eqn.outvars[0])
    others: list[Aligned] = [(None,) * len(after)] * (len(eqn.invars) - 1)
    if others or eqn.params.get("dimensions") is not None:
        return [(...,) * len(after), *others]
    dims = []
    for place in range(len(after)):
        found, mixed = reshaped(tuple(_marked(place, len(after))), after, before)
        dims.append(... if mixed or found is None else found.index(_MARK))
    return [dims]


def _marked(place: int, ndim: int) -> list[frozenset[str]]:
    return [_MARK if i == place else NONE for i in range(ndim)]


def _reshaped_forward(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    if known[0] is None:
        return [None], NONE
    before = shape_of(eqn.invars[0])
    order = _order_of_reshape(eqn)
    sharding = tuple(known[0][i] for i in order)
    found, mixed = reshaped(sharding, [before[i] for i in order], shape_of(eqn.outvars[0]))
    return [found], mixed


def _order_of_reshape(eqn: JaxprEqn) -> Sequence[int]:
    """Return the order in which a reshape takes the dimensions of its operand.

    The derivative of a product is one with a transposition (JAX 0.10 to 0.12).
    """
    order = eqn.params.get("dimensions")
    return range(len(shape_of(eqn.invars[0]))) if order is None else order


def _bits(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    if known[0] is None:
        return [None], NONE
    more = len(shape_of(eqn.outvars[0])) - len(known[0])
    kept = known[0][: more if more < 0 else None]
    return [trimmed([*kept, *[NONE] * more])], known[0][-1] if more < 0 else NONE


def _of_bits(eqn: JaxprEqn) -> list[Aligned]:
    before, after = (len(shape_of(var)) for var in (eqn.invars[0], eqn.outvars[0]))
    return [range(after) if before == after else [...] * after]


def _drawn_along(eqn: JaxprEqn, dim: int) -> bool:
    return bool(eqn.params["dimension"] == dim)


def _roles_of_reshape(eqn: JaxprEqn, layouts: object) -> Roles:
    """Return roles in which the major dimension of a merged or split group stays sharded."""
    order, after = _order_of_reshape(eqn), shape_of(eqn.outvars[0])
    before = [shape_of(eqn.invars[0])[i] for i in order]
    own: list[int | None] = [None] * len(before)
    found: list[int | None] = [None] * len(after)
    if 0 not in before:
        i = j = 0
        while i < len(before) and j < len(after):
            if before[i] == 1 or after[j] == 1:
                one = before[i] == 1
                i, j = i + one, j + (not one)
                continue
            own[order[i]] = found[j] = i
            m, n, i, j = before[i], after[j], i + 1, j + 1
            while m != n:
                if m < n:
                    m, i = m * before[i], i + 1
                else:
                    n, j = n * after[j], j + 1
    others: list[list[int | None]] = [[None] * len(shape_of(var)) for var in eqn.invars[1:]]
    return [own, *others], [found]


def _reshaped_alone(
    eqn: JaxprEqn, values: Sequence[jax.Array], shape: Sequence[int], layouts: object
) -> jax.Array:
    own = np.shape(values[0])  # of a constant too, which is a number
    if math.prod(own) != math.prod(shape):
        raise ValueError(f"the elements of a block {own} are no block {tuple(shape)}")
    return _reshaped_block(eqn, values, shape)


# --- blocks ---------------------------------------------------------------------------------------


def _broadcast_block(eqn: JaxprEqn, values: Sequence[jax.Array], shape: Sequence[int]) -> jax.Array:
    return lax.broadcast_in_dim(values[0], shape, eqn.params["broadcast_dimensions"])


def _reshaped_block(eqn: JaxprEqn, values: Sequence[jax.Array], shape: Sequence[int]) -> jax.Array:
    return lax.reshape(values[0], shape, eqn.params.get("dimensions"))


def _slice_block(eqn: JaxprEqn, values: Sequence[jax.Array], shape: Sequence[int]) -> jax.Array:
    limits = [
        n if n != m else limit
        for n, m, limit in zip(
            shape, shape_of(eqn.outvars[0]), eqn.params["limit_indices"], strict=True
        )
    ]
    return lax.slice(values[0], eqn.params["start_indices"], limits, eqn.params["strides"])


_ONE, _BOTH, _EACH = ((0,),), ((0, 1),), ((0, ...),)
_MOVED = Primitive(fusion=Fusion.CHEAP, flops=0, in_blocks=True)
_VIEW = _MOVED.replace(fusion=Fusion.VIEW, linear=_ONE, moves=True)
_KEYS = Primitive(is_elementwise=True, in_blocks=True)

RECORDS: Mapping[str, Primitive] = {
    "broadcast_in_dim": _MOVED.replace(
        linear=_ONE, repeats=True, is_cheap=True, aligned=_broadcast, in_blocks=_broadcast_block
    ),
    "reshape": _VIEW.replace(
        aligned=_reshaped,
        forward=_reshaped_forward,
        in_blocks=_reshaped_block,
        roles=_roles_of_reshape,
        of_blocks=_reshaped_alone,
    ),
    "transpose": _MOVED.replace(linear=_ONE, moves=True, aligned=_permuted, is_transposition=True),
    "squeeze": _VIEW.replace(aligned=across(listed("dimensions"), keeps=False)),
    "rev": _MOVED.replace(linear=_ONE, selects=True, aligned=across(listed("dimensions"))),
    "slice": _MOVED.replace(
        linear=_ONE, selects=True, aligned=same_sizes(1), in_blocks=_slice_block
    ),
    "split": _MOVED.replace(selects=True, aligned=across(listed("axis")), in_blocks=None),
    "pad": _MOVED.replace(linear=_BOTH, aligned=across(_padded), joins=True),
    "concatenate": _MOVED.replace(
        linear=_EACH, aligned=across(listed("dimension")), joins=True, is_concatenation=True
    ),
    "stack": Primitive(aligned=_stacked),
    "unstack": Primitive(aligned=across(listed("axis"), keeps=False)),
    "tile": Primitive(aligned=same_sizes(1)),
    "bitcast_convert_type": Primitive(aligned=_of_bits, forward=_bits, fusion=Fusion.VIEW, flops=0),
    "iota": _MOVED.replace(
        is_cheap=True,
        aligned=independent,
        draws=True,
        differs_along=_drawn_along,
        in_blocks=None,
    ),
    **records("empty empty2", Primitive(aligned=independent)),
    "optimization_barrier": Primitive(Kind.BARRIER, forward=lambda eqn, known: (known, NONE)),
    # Random words and keys.
    "threefry2x32": _KEYS.replace(fusion=Fusion.CHEAP, flops=50.0),
    "random_bits": Primitive(forward=_bits, draws=True, fusion=Fusion.CHEAP, flops=50.0),
    # Its key is split over all elements of the other operand.
    "random_gamma": _KEYS.replace(draws=True, roles=without_roles),
    **records("random_clone random_fold_in random_gamma_grad", _KEYS),
    **records("random_seed random_split random_unwrap", Primitive(forward=_bits)),
    "random_wrap": Primitive(forward=last(lambda eqn: 1)),
}
