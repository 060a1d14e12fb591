"""Principal component analysis by name: `pca`."""

from __future__ import annotations

from typing import Any, NamedTuple

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import as_array
from namedax.core.display import type_text
from namedax.core.element_types import as_inexact
from namedax.core.names import AxisName
from namedax.errors import AxisNotFoundError, AxisSizeError, show_names
from namedax.ops.elementwise import FUNCTIONS
from namedax.ops.linalg.decompositions import svd
from namedax.ops.linalg.factors import masked_elements
from namedax.ops.linalg.matrix import (
    check_mode,
    matrix_names,
    matrix_of,
    names_of_call,
    names_of_dims,
)
from namedax.ops.operands.operation import operation
from namedax.ops.reduction.reductions import REDUCTIONS

__all__ = ["PCAResult", "pca"]


class PCAResult(NamedTuple):
    """Principal components; in geosciences the empirical orthogonal functions (EOFs).

    Attributes:
      components: the components (EOFs), orthonormal, with the axis of the modes and the columns.
      scores: the scores (principal component time series), with the rows and the axis of the modes.
      explained_variance: the variance of each score, in descending order.
      explained_variance_ratio: the same, as a fraction of the total variance.
      singular_values: the singular values of the centered matrix.
      mean: the mean over the rows, with the columns.
    """

    components: AnyArray
    scores: AnyArray
    explained_variance: AnyArray
    explained_variance_ratio: AnyArray
    singular_values: AnyArray
    mean: AnyArray


@operation(names_of_call, name="linalg.pca", on_blocks=True, scope=True)
def pca(
    x: ArrayLike,
    rows: AxisSpec,
    columns: AxisSpec,
    *,
    mode: AxisName = "mode",
    modes: int | None = None,
    weights: ArrayLike | None = None,
    where: ArrayLike | None = None,
    key: ArrayLike | None = None,
    oversampling: int = 10,
    iterations: int = 4,
) -> PCAResult:
    """Compute principal components: center over the rows, weight the columns, and decompose.

    Args:
      x: an array with named axes. All axes but the rows and the columns are batch axes.
      rows: the axis name of the samples, such as `"time"`, or a tuple of names.
      columns: the axis name of the features, or a tuple of names such as `("lat", "lon")`.
      mode: the name of the new axis; by default `"mode"`.
      modes: the number of leading modes; by default all.
      weights: the weight of each column in the variance, with axes of the columns, such as the
        cosine of the latitude. The deviations from the mean are multiplied by its square root. By
        default 1.
      where: a mask with axes of `x`. Elements where it is False count neither in the mean nor in
        the deviations. At a masked column the mean is NaN, and components of modes with variance
        are 0 up to rounding. By default all elements; then NaN in one element makes the results
        NaN. `where=~nx.isnan(x)` skips NaN.
      key: a random key, for the randomized algorithm of `nx.linalg.svd`; by default exact.
      oversampling: with `key`, the number of modes that are computed in addition; by default 10.
      iterations: with `key`, the number of power iterations; by default 4.

    Returns:
      `components`, `scores`, `explained_variance`, `explained_variance_ratio`, `singular_values`
      and `mean`, as in scikit-learn. The variance divides by the number of rows minus one. The sum
      of `scores * components` is `sqrt(weights) * (x - mean)`. Signs are those of `nx.linalg.svd`.

    Communication: that of `nx.linalg.svd`. If the rows are sharded, one all-reduce of the mean, and
    with any sharding one of the total variance.

    Raises:
      AxisNameError: `rows`, `columns` or `mode` is no name, or two of them are equal.
      AxisNotFoundError: `x` lacks an axis, or the weights have another axis than the columns.
      AxisSizeError: there are fewer than two rows, or no columns.
      ArgumentError: `modes` is not an integer in range, or `key` is given without `modes`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]), ["time", "space"])
    >>> result = nx.linalg.pca(x, "time", "space", modes=1)
    >>> result.explained_variance.data.tolist(), result.mean.data.tolist()
    ([20.0...], [3.0, 6.0])
    """
    op = "linalg.pca"
    names = matrix_names(op, x, rows, columns)
    check_mode(op, mode, names_of_dims(x))
    x = as_inexact(as_array(x, op))
    size = matrix_of(op, x, rows, columns).rows.size
    if size < 2:
        raise AxisSizeError(
            f"{op}: {type_text(x)} has 1 row ({show_names(names[0])}), and a variance needs two."
            " Exchange rows and columns, or pass other axes as rows."
        )
    mean: Any = REDUCTIONS["mean"](x, names[0], where=where)
    deviations: Any = masked_elements(op, x - mean, where)
    if weights is not None:
        if more := [dim for dim in names_of_dims(weights) if dim not in names[1]]:
            raise AxisNotFoundError(
                f"{op}: weights= is {type_text(weights)}, and its axes {show_names(more)} are not"
                f" among the columns {show_names(names[1])}. A weight belongs to a column."
            )
        deviations = deviations * FUNCTIONS["sqrt"](weights)
    u, s, vh = svd(
        deviations,
        names[0],
        names[1],
        mode=mode,
        modes=modes,
        key=key,
        oversampling=oversampling,
        iterations=iterations,
    )
    variance = s * s / (size - 1)
    squares = FUNCTIONS["real"](deviations * FUNCTIONS["conj"](deviations))
    total = REDUCTIONS["sum"](squares, (*names[0], *names[1])) / (size - 1)
    return PCAResult(vh, u * s, variance, variance / total, s, mean)
