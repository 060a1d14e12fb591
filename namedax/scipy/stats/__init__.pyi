# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.stats`: `jax.scipy.stats` for named arrays, and its distributions."""

from typing import NamedTuple

from jax.scipy.stats import gaussian_kde as gaussian_kde  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.scipy.stats import bernoulli as bernoulli
from namedax.scipy.stats import beta as beta
from namedax.scipy.stats import betabinom as betabinom
from namedax.scipy.stats import binom as binom
from namedax.scipy.stats import cauchy as cauchy
from namedax.scipy.stats import chi2 as chi2
from namedax.scipy.stats import dirichlet as dirichlet
from namedax.scipy.stats import expon as expon
from namedax.scipy.stats import gamma as gamma
from namedax.scipy.stats import gennorm as gennorm
from namedax.scipy.stats import geom as geom
from namedax.scipy.stats import gumbel_l as gumbel_l
from namedax.scipy.stats import gumbel_r as gumbel_r
from namedax.scipy.stats import laplace as laplace
from namedax.scipy.stats import logistic as logistic
from namedax.scipy.stats import multinomial as multinomial
from namedax.scipy.stats import multivariate_normal as multivariate_normal
from namedax.scipy.stats import nbinom as nbinom
from namedax.scipy.stats import norm as norm
from namedax.scipy.stats import pareto as pareto
from namedax.scipy.stats import poisson as poisson
from namedax.scipy.stats import t as t
from namedax.scipy.stats import truncnorm as truncnorm
from namedax.scipy.stats import uniform as uniform
from namedax.scipy.stats import vonmises as vonmises
from namedax.scipy.stats import wrapcauchy as wrapcauchy

class _ModeResult(NamedTuple):
    mode: AnyArray
    count: AnyArray  # type: ignore[assignment]
def mode(
    a: ArrayLike, axis: AxisSpec = 0, nan_policy: str = 'propagate', keepdims: bool = False,
) -> _ModeResult:
    """Compute the mode (most common value) along an axis of an array."""
def rankdata(
    a: ArrayLike,
    method: str = 'average',
    *,
    axis: AxisSpec = None,
    nan_policy: str = 'propagate',
) -> AnyArray:
    """Compute the rank of data along an array axis."""
def sem(
    a: ArrayLike,
    axis: AxisSpec = 0,
    ddof: int = 1,
    nan_policy: str = 'propagate',
    *,
    keepdims: bool = False,
) -> AnyArray:
    """Compute the standard error of the mean, `std / sqrt(count)`, over positional or named axes.

    Args:
      a: an array, named or not.
      axis: a positional axis, an axis name, or a tuple of both; by default 0.
      ddof: the number that is subtracted from the count of elements, by default 1.
      nan_policy: `"propagate"` (default), or `"omit"` to exclude NaNs.
      keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.

    Communication: over sharded axes that of `nx.std`; with `nan_policy="omit"` that of `nx.nanstd`,
    and one all-reduce of the count.

    Raises:
      AxisNotFoundError: `a` lacks a name.
    """
