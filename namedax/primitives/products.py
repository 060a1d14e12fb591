"""Records of contractions, convolutions, Fourier transforms and matrix factorizations."""

from __future__ import annotations

import math
from collections.abc import Mapping

from jax.extend.core import JaxprEqn

from namedax.core.element_types import additive_identity
from namedax.primitives.dimensions import (
    NONE,
    axes_of_dimensions,
    last,
    trimmed,
    twice,
)
from namedax.primitives.record import (
    Aligned,
    Kind,
    Mixed,
    Primitive,
    Roles,
    Shardings,
    aval_of,
    is_inexact,
    records,
    shape_of,
)
from namedax.resources import communication as comm

__all__ = ["RECORDS"]


def _contraction(eqn: JaxprEqn, operand: int) -> bool:
    before, after = aval_of(eqn.invars[operand]), aval_of(eqn.outvars[0])
    return bool(before.dtype == after.dtype) and not is_inexact(before)


def _of_dot_general(eqn: JaxprEqn) -> list[Aligned]:
    contracted, batches = eqn.params["dimension_numbers"]
    free = [
        [i for i in range(len(shape_of(var))) if i not in own and i not in batch]
        for var, own, batch in zip(eqn.invars, contracted, batches, strict=True)
    ]
    return [
        [*map(int, batches[0]), *free[0], *[None] * len(free[1])],
        [*map(int, batches[1]), *[None] * len(free[0]), *free[1]],
    ]


def _of_convolution(eqn: JaxprEqn, known: Shardings) -> tuple[Shardings, Mixed]:
    numbers, out = eqn.params["dimension_numbers"], [NONE] * len(shape_of(eqn.outvars[0]))
    mixed = NONE
    if (image := known[0]) is not None:
        batch = numbers.lhs_spec[0]
        mixed |= axes_of_dimensions(
            image,
            [i for i in range(len(image)) if i != batch or eqn.params["batch_group_count"] != 1],
        )
        out[numbers.out_spec[0]] = image[batch]
    if (kernel := known[1]) is not None:
        features = numbers.rhs_spec[0]
        mixed |= axes_of_dimensions(
            kernel,
            [
                i
                for i in range(len(kernel))
                if i != features or eqn.params["feature_group_count"] != 1
            ],
        )
        out[numbers.out_spec[1]] = kernel[features]
    return [trimmed(out)], mixed | twice(out)


def _roles_of_convolution(eqn: JaxprEqn, layouts: object) -> Roles:
    numbers, ndim = eqn.params["dimension_numbers"], len(shape_of(eqn.outvars[0]))
    image: list[int | None] = [None] * ndim
    kernel, out = list(image), list(image)
    if eqn.params["batch_group_count"] == 1:
        image[numbers.lhs_spec[0]] = out[numbers.out_spec[0]] = 0
    if eqn.params["feature_group_count"] == 1 and eqn.params["batch_group_count"] == 1:
        kernel[numbers.rhs_spec[0]] = out[numbers.out_spec[1]] = 1
        image[numbers.lhs_spec[1]] = kernel[numbers.rhs_spec[1]] = 2
    return [image, kernel], [out]


def _in_order(eqn: JaxprEqn) -> tuple[bool, bool]:
    # XLA multiplies by the transpose of a matrix in place, but copies an array of more dimensions.
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    x, y = (aval_of(var).ndim for var in eqn.invars)
    batch, n = len(left_batch), len(left)
    leads = tuple(range(batch))
    last = tuple(range(x - n, x)), tuple(range(y - n, y))
    is_left = tuple(left_batch) == leads and (x <= 2 or tuple(left) == last[0])
    return is_left, tuple(right_batch) == leads and tuple(right) in (
        last[1],
        tuple(range(batch, batch + n)),
    )


# --- costs ----------------------------------------------------------------------------------------


def _flops_of_dot(eqn: JaxprEqn) -> float:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    left = aval_of(eqn.invars[0]).shape
    return 2.0 * math.prod(aval_of(eqn.outvars[0]).shape) * math.prod(left[i] for i in contracted)


def _flops_of_ragged_dot(eqn: JaxprEqn) -> float:
    (contracted, _), _ = eqn.params["ragged_dot_dimension_numbers"].dot_dimension_numbers
    left = aval_of(eqn.invars[0]).shape
    free = math.prod(n for i, n in enumerate(left) if i not in contracted)
    return 2.0 * free * math.prod(left[i] for i in contracted) * aval_of(eqn.outvars[0]).shape[-1]


def _flops_of_convolution(eqn: JaxprEqn) -> float:
    spec = eqn.params["dimension_numbers"].rhs_spec  # features out, features in, then space
    kernel = aval_of(eqn.invars[1]).shape
    return (
        2.0
        * math.prod(aval_of(eqn.outvars[0]).shape)
        * kernel[spec[1]]
        * math.prod(kernel[i] for i in spec[2:])
    )


def _flops_of_transform(eqn: JaxprEqn) -> float:
    n = math.prod(eqn.params["fft_lengths"])
    sizes = [math.prod(shape_of(var)) for var in (eqn.invars[0], eqn.outvars[0])]
    return 5 * max(sizes) * math.log2(max(n, 2))


def _factorization(factor: float) -> Primitive:
    """Return the record of a factorization, with the leading term of the usual operation count."""

    def flops(eqn: JaxprEqn) -> float:
        *batch, m, n = aval_of(eqn.invars[0]).shape
        return math.prod(batch) * m * n * min(m, n) * factor

    return Primitive(forward=last(lambda eqn: 2), flops=flops, is_factorization=True)


def _flops_of_triangular_solve(eqn: JaxprEqn) -> float:
    *batch, m, n = aval_of(eqn.invars[0]).shape
    return math.prod(batch) * m * n * aval_of(eqn.invars[1]).shape[-1]


_EITHER = ((0,), (1,))

RECORDS: Mapping[str, Primitive] = {
    "dot_general": Primitive(
        linear=_EITHER,
        when=_contraction,
        takes="an inner product",
        aligned=_of_dot_general,
        contracted=lambda eqn: list(zip(*eqn.params["dimension_numbers"][0], strict=True)),
        combine=comm.psum,
        identity=additive_identity,
        in_blocks=True,
        flops=_flops_of_dot,
        is_contraction=True,
        in_order=_in_order,
    ),
    "ragged_dot_general": Primitive(Kind.UNKNOWN, flops=_flops_of_ragged_dot, is_contraction=True),
    "conv_general_dilated": Primitive(
        forward=_of_convolution,
        roles=_roles_of_convolution,
        combine=comm.psum,
        identity=additive_identity,
        flops=_flops_of_convolution,
        is_contraction=True,
    ),
    "fft": Primitive(
        Kind.TRANSFORM,
        forward=last(lambda eqn: len(eqn.params["fft_lengths"])),
        flops=_flops_of_transform,
    ),
    "cholesky": _factorization(1 / 3),
    "lu": _factorization(2 / 3),
    "eigh": _factorization(9.0),
    "svd": _factorization(22.0),
    **dict.fromkeys(("qr", "geqrf", "householder_product"), _factorization(4 / 3)),
    **records(
        "eig hessenberg schur tridiagonal tridiagonal_solve",
        Primitive(forward=last(lambda eqn: 2)),
    ),
    "triangular_solve": Primitive(forward=last(lambda eqn: 2), flops=_flops_of_triangular_solve),
    "lu_pivots_to_permutation": Primitive(forward=last(lambda eqn: 1)),
}
