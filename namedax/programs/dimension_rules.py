"""Rules for the dimensions of blocks: one rule for each primitive.

A rule takes an equation and the sharding of each operand. It returns the sharding of each result,
and the mesh axes along which the equation mixes or draws elements. A sharding has one set of mesh
axes for each dimension, or is `None` if no dimension is known to be sharded. Loops, calls and
branches are left to the pass (`namedax.programs.block_dimensions`), which inspects their jaxprs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from jax.extend.core import JaxprEqn

from namedax.core.user_code import LEAF
from namedax.programs.primitives import CALL_OF_PYTHON, TABLE, Atom, Kind, aval_of, axes_of
from namedax.resources.communication import PRIMITIVE
from namedax.resources.padding import MASK_COTANGENT, ZERO_COTANGENT

__all__ = [
    *("CALLBACKS", "ELEMENTWISE", "MARK", "NONE", "RULES", "SHARDING", "Mixed", "Rule", "Sharding"),
    *("differs_along", "draws_numbers", "moved_axes", "place_before", "reshaped", "united"),
]

Sharding = tuple[frozenset[str], ...]
Mixed = frozenset[str]
Known = Sequence[Sharding | None]
Rule = Callable[[JaxprEqn, Known], tuple[Sequence[Sharding | None], Mixed]]

NONE: Mixed = frozenset()

# Callbacks run once on every device with its block, by design.
CALLBACKS = frozenset({"debug_callback", "debug_print", "io_callback", CALL_OF_PYTHON})

# The primitive that marks leaves (`namedax.core.user_code`).
MARK = LEAF.name

# Each element of a result is computed from the elements of the operands at the same index, or from
# scalars.
ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp
    clz complex conj convert_element_type copy cos cosh device_put digamma div eq eq_to erf erf_inv
    erfc exp exp2 expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to
    lgamma log log1p log2 logistic lt lt_to max min mul name ne neg nextafter not one_minus_square
    or polygamma population_count pow random_clone random_fold_in random_gamma random_gamma_grad
    real reduce_precision regularized_incomplete_beta rem round rsqrt select_n sharding_constraint
    shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient
    sub tan tanh threefry2x32 pvary xor zeta
    """.split()
) | {MASK_COTANGENT.name, ZERO_COTANGENT.name, LEAF.name}


def united(known: Known, ndim: int) -> tuple[Sharding | None, Mixed]:
    """Unify the shardings of the operands of an elementwise operation.

    Return the sharding, and the mesh axes that would shard two dimensions.
    """
    found: Sharding | None = None
    for sharding in known:
        if sharding is None or len(sharding) != ndim or sharding == found:
            continue
        found = (
            sharding
            if found is None
            else tuple(a | b for a, b in zip(found, sharding, strict=True))
        )
    return found, NONE if found is None else _twice(found)


def _twice(sharding: Sharding) -> Mixed:
    seen, twice = NONE, NONE
    for axes in sharding:
        twice |= seen & axes
        seen |= axes
    return twice


def _of(sharding: Sharding, dimensions: Sequence[int]) -> Mixed:
    return NONE.union(*(sharding[i] for i in dimensions))


def _trimmed(sharding: Sequence[frozenset[str]]) -> Sharding | None:
    return tuple(sharding) if any(sharding) else None


def _shape(var: Atom) -> tuple[int, ...]:
    shape: tuple[int, ...] = aval_of(var).shape
    return shape


def reshaped(
    sharding: Sharding, before: Sequence[int], after: Sequence[int]
) -> tuple[Sharding | None, Mixed]:
    """Return the sharding after a reshape, and the mesh axes of merged or split dimensions.

    A sharded dimension must stay intact: merging or splitting it would mix the elements of one
    block.

    >>> from namedax.programs.dimension_rules import NONE, reshaped
    >>> x = frozenset({"x"})
    >>> reshaped((x, NONE), (2, 6), (2, 3, 2))[0] == (x, NONE, NONE)
    True
    >>> reshaped((x, NONE), (2, 6), (12,)) == (None, x)
    True
    """
    found, mixed = [NONE] * len(after), NONE
    if 0 in before:
        return None, NONE
    old = [i for i, n in enumerate(before) if n != 1]
    new = [i for i, n in enumerate(after) if n != 1]
    i = j = 0
    while i < len(old) and j < len(new):
        first, second = i + 1, j + 1
        m, n = before[old[i]], after[new[j]]
        while m != n:
            if m < n:
                m, first = m * before[old[first]], first + 1
            else:
                n, second = n * after[new[second]], second + 1
        if first == i + 1 and second == j + 1:
            found[new[j]] = sharding[old[i]]
        else:
            mixed |= _of(sharding, old[i:first])
        i, j = first, second
    for place in {math.prod(before[:i]) for i, n in enumerate(before) if n == 1 and sharding[i]}:
        ones = [i for i, n in enumerate(before) if n == 1 and math.prod(before[:i]) == place]
        others = [i for i, n in enumerate(after) if n == 1 and math.prod(after[:i]) == place]
        if not others:
            mixed |= _of(sharding, ones)
        elif len(ones) == len(others):
            for one, other in zip(ones, others, strict=True):
                found[other] = sharding[one]
    return _trimmed(found), mixed


# --- rules for one operand ------------------------------------------------------------------------


def _along(dimensions: Callable[[JaxprEqn], Sequence[int]], keeps: bool = True) -> Rule:
    """Make a rule for an equation that mixes along some dimensions, and keeps or drops these."""

    def rule(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
        sharding, mixed = united(known, len(_shape(eqn.invars[0])))
        if sharding is None:
            return [None] * len(eqn.outvars), NONE
        along = {int(i) for i in dimensions(eqn)}
        mixed |= _of(sharding, sorted(along))
        kept = [
            NONE if i in along else axes
            for i, axes in enumerate(sharding)
            if keeps or i not in along
        ]
        return [_trimmed(kept)] * len(eqn.outvars), mixed

    return rule


def _last(count: Callable[[JaxprEqn], int]) -> Rule:
    """Make a rule for an equation that mixes elements along the last dimensions only."""

    def rule(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
        front: list[frozenset[str]] = []
        mixed, number = NONE, count(eqn)
        for var, sharding in zip(eqn.invars, known, strict=True):
            if sharding is not None:
                before = len(_shape(var)) - number
                mixed |= _of(sharding, range(max(before, 0), len(sharding)))
                front += [NONE] * (before - len(front))
                front[:before] = [a | b for a, b in zip(front, sharding[:before], strict=False)]
        outs = [
            [*front[: len(_shape(out))], *[NONE] * (len(_shape(out)) - len(front))]
            for out in eqn.outvars
        ]
        return [_trimmed(out) for out in outs], mixed

    return rule


def _one(
    change: Callable[[JaxprEqn, Sharding], tuple[Sequence[frozenset[str]] | None, Mixed]],
) -> Rule:
    """Make a rule that depends on the first operand alone."""

    def rule(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
        if known[0] is None:
            return [None] * len(eqn.outvars), NONE
        found, mixed = change(eqn, known[0])
        return [None if found is None else _trimmed(found)] * len(eqn.outvars), mixed

    return rule


def _broadcast(eqn: JaxprEqn, sharding: Sharding) -> tuple[list[frozenset[str]], Mixed]:
    found, mixed = [NONE] * len(_shape(eqn.outvars[0])), NONE
    for i, j in enumerate(eqn.params["broadcast_dimensions"]):
        found[j] = sharding[i]
        if _shape(eqn.invars[0])[i] != _shape(eqn.outvars[0])[j]:
            mixed |= sharding[i]
    return found, mixed


def _where_sizes_differ(eqn: JaxprEqn, sharding: Sharding) -> tuple[Sharding, Mixed]:
    before, after = _shape(eqn.invars[0]), _shape(eqn.outvars[0])
    return sharding, _of(sharding, [i for i, n in enumerate(before) if n != after[i]])


def _bits(eqn: JaxprEqn, sharding: Sharding) -> tuple[Sequence[frozenset[str]], Mixed]:
    more = len(_shape(eqn.outvars[0])) - len(sharding)
    return (*sharding[: more if more < 0 else None], *[NONE] * more), (
        sharding[-1] if more < 0 else NONE
    )


def _windows(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    sizes, strides = eqn.params["window_dimensions"], eqn.params.get("window_strides", ())
    moved = [
        i
        for i, n in enumerate(sizes)
        if n != 1 or any(stride[i : i + 1] not in ((1,), ()) for stride in [tuple(strides)])
    ]
    return _along(lambda eqn: moved)(eqn, known)


# --- rules for several operands -------------------------------------------------------------------


def _dot_general(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    (contracted, batches) = eqn.params["dimension_numbers"]
    found = [NONE] * len(batches_of(eqn))
    mixed = NONE
    free: list[frozenset[str]] = []
    for var, sharding, own, batch in zip(eqn.invars, known, contracted, batches, strict=True):
        sharding = sharding if sharding is not None else (NONE,) * len(_shape(var))
        mixed |= _of(sharding, own)
        found = [axes | sharding[i] for axes, i in zip(found, batch, strict=True)]
        free += [axes for i, axes in enumerate(sharding) if i not in own and i not in batch]
    found += free
    return [_trimmed(found)], mixed | _twice(tuple(found))


def batches_of(eqn: JaxprEqn) -> Sequence[int]:
    """Return the dimensions of the first operand that are batch dimensions of a contraction."""
    first: Sequence[int] = eqn.params["dimension_numbers"][1][0]
    return first


def _convolution(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    numbers, out = eqn.params["dimension_numbers"], [NONE] * len(_shape(eqn.outvars[0]))
    mixed = NONE
    if (image := known[0]) is not None:
        batch = numbers.lhs_spec[0]
        mixed |= _of(
            image,
            [i for i in range(len(image)) if i != batch or eqn.params["batch_group_count"] != 1],
        )
        out[numbers.out_spec[0]] = image[batch]
    if (kernel := known[1]) is not None:
        features = numbers.rhs_spec[0]
        mixed |= _of(
            kernel,
            [
                i
                for i in range(len(kernel))
                if i != features or eqn.params["feature_group_count"] != 1
            ],
        )
        out[numbers.out_spec[1]] = kernel[features]
    return [_trimmed(out)], mixed | _twice(tuple(out))


def _gather(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    numbers, ndim = eqn.params["dimension_numbers"], len(_shape(eqn.outvars[0]))
    found, mixed = [NONE] * ndim, NONE
    batch = [i for i in range(ndim) if i not in numbers.offset_dims]
    batching = tuple(numbers.operand_batching_dims)
    of_indices = tuple(numbers.start_indices_batching_dims)
    if known[0] is not None:
        dropped = {*numbers.collapsed_slice_dims, *batching}
        windows = dict(
            zip(
                (i for i in range(len(known[0])) if i not in dropped),
                sorted(numbers.offset_dims),
                strict=True,
            )
        )
        for i, axes in enumerate(known[0]):
            if i in batching:
                found[batch[of_indices[batching.index(i)]]] |= axes
            elif i in windows and eqn.params["slice_sizes"][i] == _shape(eqn.invars[0])[i]:
                found[windows[i]] |= axes
            else:
                mixed |= axes
    if known[1] is not None:
        for i, axes in zip(batch, known[1][:-1], strict=True):
            found[i] |= axes
        mixed |= known[1][-1]
    return [_trimmed(found)], mixed | _twice(tuple(found))


def _scatter(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    numbers, (operand, _, updates) = eqn.params["dimension_numbers"], eqn.invars[:3]
    found, mixed = [NONE] * len(_shape(operand)), NONE
    batching = tuple(numbers.operand_batching_dims)
    of_indices = tuple(numbers.scatter_indices_batching_dims)
    kept = [
        i for i in range(len(found)) if i not in numbers.inserted_window_dims and i not in batching
    ]
    windows = dict(zip(sorted(numbers.update_window_dims), kept, strict=True))
    shapes = _shape(operand), _shape(updates)
    full = {i for j, i in windows.items() if shapes[1][j] == shapes[0][i]}
    for i, axes in enumerate(known[0] or ()):
        found[i] |= axes
        if i not in full and i not in batching:
            mixed |= axes
    scattered = [i for i in range(len(shapes[1])) if i not in numbers.update_window_dims]
    for i, axes in enumerate(known[2] or ()):
        if i in windows and windows[i] in full:
            found[windows[i]] |= axes
        elif i in scattered and scattered.index(i) in of_indices:
            found[batching[of_indices.index(scattered.index(i))]] |= axes
        else:
            mixed |= axes
    mixed |= (
        _of(known[1], [i for i in range(len(known[1])) if i not in of_indices])
        if known[1] is not None
        else NONE
    )
    return [_trimmed(found)], mixed | _twice(tuple(found))


def _update(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    shapes = _shape(eqn.invars[0]), _shape(eqn.invars[1])
    found, mixed = united(known[:2], len(shapes[0]))
    if found is not None:
        mixed |= _of(found, [i for i, n in enumerate(shapes[0]) if n != shapes[1][i]])
    return [found], mixed


def _each(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    return known, NONE


def _stack(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    found, mixed = united(known, len(_shape(eqn.invars[0])))
    i = eqn.params["axis"]
    return [None if found is None else (*found[:i], NONE, *found[i:])], mixed


def _nothing(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    return [None] * len(eqn.outvars), NONE


# --- rules for collectives ------------------------------------------------------------------------


def _without(sharding: Sharding, axes: Sequence[str]) -> list[frozenset[str]]:
    return [own.difference(axes) for own in sharding]


def _summed(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    axes = axes_of(eqn)
    return [None if own is None else _trimmed(_without(own, axes)) for own in known][
        : len(eqn.outvars)
    ], NONE


def _moved(dimension: Callable[[JaxprEqn], int], adds: bool) -> Rule:
    """Make a rule for a gather or a scatter.

    A gather makes a dimension complete. A scatter leaves each device its block of it.
    """

    def rule(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
        axes, i = axes_of(eqn), dimension(eqn)
        found = _without(known[0] or (NONE,) * len(_shape(eqn.invars[0])), axes)
        if not eqn.params.get("tiled", True):
            found = [*found[:i], *found[i + 1 :]] if adds else [*found[:i], NONE, *found[i:]]
        elif adds:
            found[i] |= frozenset(axes)
        return [_trimmed(found)] * len(eqn.outvars), NONE

    return rule


def _exchanged(eqn: JaxprEqn, known: Known) -> tuple[Sequence[Sharding | None], Mixed]:
    if "split_axis" not in eqn.params or not eqn.params.get("tiled"):
        return (known if "perm" in eqn.params else [None]), NONE
    if eqn.params["split_axis"] == eqn.params["concat_axis"]:
        return [None], NONE  # the dimension numbers the blocks of another one, which is not known
    axes = axes_of(eqn)
    found = _without(known[0] or (NONE,) * len(_shape(eqn.invars[0])), axes)
    found[eqn.params["split_axis"]] |= frozenset(axes)
    return [_trimmed(found)], NONE


_OF_KINDS: Mapping[Kind, Rule] = {
    Kind.SUM: _summed,
    Kind.MAXIMUM: _summed,
    Kind.MINIMUM: _summed,
    Kind.EXCHANGE: _exchanged,
    Kind.DEVICE_INDEX: _nothing,
    Kind.GATHER: _moved(lambda eqn: eqn.params["all_gather_dimension"], adds=False),
    Kind.SCATTER: _moved(lambda eqn: eqn.params["scatter_dimension"], adds=True),
    Kind.BARRIER: _each,
}

_REDUCTIONS = (
    "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor argmax"
    " argmin".split()
)
_WINDOWS = (
    "reduce_window reduce_window_sum reduce_window_max reduce_window_min"
    " select_and_gather_add".split()
)
_MATRICES = (
    "cholesky eig eigh geqrf householder_product hessenberg lu qr schur svd triangular_solve"
    " tridiagonal tridiagonal_solve".split()
)

RULES: Mapping[str, Rule] = {
    **{name: _OF_KINDS[known.kind] for name, known in TABLE.items() if known.kind in _OF_KINDS},
    PRIMITIVE.name: _moved(lambda eqn: eqn.params["dim"], adds=True),
    **dict.fromkeys(_REDUCTIONS, _along(lambda eqn: eqn.params["axes"], keeps=False)),
    **dict.fromkeys(
        "cumsum cumprod cummax cummin cumlogsumexp".split(),
        _along(lambda eqn: [eqn.params["axis"]]),
    ),
    "sort": _along(lambda eqn: [eqn.params["dimension"]]),
    "rev": _along(lambda eqn: eqn.params["dimensions"]),
    "concatenate": _along(lambda eqn: [eqn.params["dimension"]]),
    "split": _along(lambda eqn: [eqn.params["axis"]]),
    "top_k": _along(lambda eqn: [eqn.params.get("axis", len(_shape(eqn.invars[0])) - 1)]),
    "approx_top_k": _along(lambda eqn: [eqn.params["reduction_dimension"]]),
    **dict.fromkeys(_WINDOWS, _windows),
    **dict.fromkeys(_MATRICES, _last(lambda eqn: 2)),
    "stack": _stack,
    "unstack": _along(lambda eqn: [eqn.params["axis"]], keeps=False),
    "tile": _one(_where_sizes_differ),
    "reduce": _along(lambda eqn: eqn.params["dimensions"], keeps=False),
    "lu_pivots_to_permutation": _last(lambda eqn: 1),
    "fft": _last(lambda eqn: len(eqn.params["fft_lengths"])),
    "random_wrap": _last(lambda eqn: 1),
    **dict.fromkeys(
        ("random_bits", "random_unwrap", "random_split", "random_seed", "bitcast_convert_type"),
        _one(_bits),
    ),
    "broadcast_in_dim": _one(_broadcast),
    "reshape": _one(lambda eqn, own: reshaped(own, _shape(eqn.invars[0]), _shape(eqn.outvars[0]))),
    "transpose": _one(lambda eqn, own: ([own[i] for i in eqn.params["permutation"]], NONE)),
    "squeeze": _along(lambda eqn: eqn.params["dimensions"], keeps=False),
    **dict.fromkeys(("slice", "dynamic_slice"), _one(_where_sizes_differ)),
    "pad": _one(
        lambda eqn, own: (
            own,
            _of(own, [i for i, p in enumerate(eqn.params["padding_config"]) if any(p)]),
        )
    ),
    "dynamic_update_slice": _update,
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
    "gather": _gather,
    **dict.fromkeys(
        "scatter scatter-add scatter-sub scatter-mul scatter-min scatter-max".split(), _scatter
    ),
    **dict.fromkeys(("iota", "empty", "empty2", *CALLBACKS), _nothing),
}

# Primitives whose result may have a sharded dimension even if no operand has one.
SHARDING = frozenset(
    name
    for name, known in TABLE.items()
    if known.kind in (Kind.SCATTER, Kind.EXCHANGE, Kind.OWN_BLOCK)
)

# Primitives whose results have different elements along a dimension; other equations may give equal
# elements.
_DRAWS = frozenset({"random_bits", "random_gamma", "iota"})


def moved_axes(eqn: JaxprEqn, sharding: Sharding) -> Mixed:
    """Return the mesh axes that shard another dimension of a marked leaf than in its mark."""
    claimed = tuple(map(frozenset, eqn.params["mark"]))
    if claimed == sharding:
        return NONE
    gained = NONE.union(*(own - mark for own, mark in zip(sharding, claimed, strict=True)))
    lost = NONE.union(*(mark - own for own, mark in zip(sharding, claimed, strict=True)))
    return gained & lost


def draws_numbers(eqn: JaxprEqn) -> bool:
    """Return True if the result has different elements that come from no operand."""
    return eqn.primitive.name in _DRAWS


def differs_along(eqn: JaxprEqn, dim: int) -> bool:
    """Return True if numbers that an equation draws differ along a dimension."""
    return bool(eqn.params.get("dimension", dim) == dim)


def place_before(eqn: JaxprEqn, dim: int) -> tuple[Atom | None, int]:
    """Return the operand, and its dimension, whose elements a dimension of a result has.

    The operand is `None` if these elements are all the same number, or if their source is not
    known.
    """
    name = eqn.primitive.name
    if name == "broadcast_in_dim":
        places = tuple(eqn.params["broadcast_dimensions"])
        return (eqn.invars[0], places.index(dim)) if dim in places else (None, 0)
    if name == "transpose":
        return eqn.invars[0], eqn.params["permutation"][dim]
    if name == "bitcast_convert_type" and len(aval_of(eqn.invars[0]).shape) == len(
        aval_of(eqn.outvars[0]).shape
    ):
        return eqn.invars[0], dim
    if name in ("reshape", "squeeze"):
        before = aval_of(eqn.invars[0]).shape
        after = aval_of(eqn.outvars[0]).shape
        mark = frozenset({""})
        for i in range(len(before)):
            probe = tuple(mark if j == i else NONE for j in range(len(before)))
            if (found := reshaped(probe, before, after)[0]) is not None and found[dim]:
                return eqn.invars[0], i
    return None, 0
