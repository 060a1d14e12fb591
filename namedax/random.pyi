# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.random`: `jax.random` for named arrays.

In addition to its shape, every sampler takes the keyword argument `named_shape={"batch": 128}`. In
a mapped function, a size of `None` means the size of that axis in the function. Keys and parameters
can be named arrays. The random numbers depend neither on the mesh nor on `axis_resources`.
`namedax.ops.random.drawing` documents the numbers and the cost of a draw.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, overload

import jax
from jax.random import key_dtype as key_dtype  # type: ignore[attr-defined, unused-ignore]
from jax.random import random_gamma_p as random_gamma_p  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import AnyArray, ArrayLike, EitherArray
from namedax.core.array import NamedArray
from namedax.core.names import DType, PyTree

def PRNGKey(seed: ArrayLike, *, impl: str | Any | Hashable | None = None) -> AnyArray:
    """Create a legacy PRNG key given an integer seed."""
@overload
def ball(
    key: ArrayLike,
    d: int,
    p: float = 2,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample uniformly from the unit Lp ball."""
@overload
def ball(
    key: ArrayLike,
    d: int,
    p: float = 2,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample uniformly from the unit Lp ball."""
@overload
def bernoulli(
    key: ArrayLike,
    p: ArrayLike = 0.5,
    shape: Sequence[int] | None = None,
    mode: str = 'low',
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Bernoulli random values with given shape and mean."""
@overload
def bernoulli(
    key: ArrayLike,
    p: ArrayLike = 0.5,
    shape: Sequence[int] | None = None,
    mode: str = 'low',
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Bernoulli random values with given shape and mean."""
@overload
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Beta random values with given shape and float dtype."""
@overload
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Beta random values with given shape and float dtype."""
@overload
def binomial(
    key: EitherArray,
    n: ArrayLike,
    p: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Binomial random values with given shape and float dtype."""
@overload
def binomial(
    key: EitherArray,
    n: ArrayLike,
    p: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
) -> AnyArray:
    """Sample Binomial random values with given shape and float dtype."""
@overload
def bits(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample uniform bits in the form of unsigned integers."""
@overload
def bits(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample uniform bits in the form of unsigned integers."""
@overload
def categorical(
    key: EitherArray,
    logits: ArrayLike,
    axis: Any = -1,
    shape: Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: jax.sharding.Sharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Draw indices along an axis of `logits` with the probabilities `softmax(logits, axis)`."""
@overload
def categorical(
    key: EitherArray,
    logits: ArrayLike,
    axis: Any = -1,
    shape: Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: jax.sharding.Sharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Draw indices along an axis of `logits` with the probabilities `softmax(logits, axis)`.

    Args:
      key: a key, or a named array of keys.
      logits: unnormalized log probabilities, named or not.
      axis: the axis of the categories, named or positional; by default -1.
      shape: as in `jax.random.categorical`: the positional shape of the result, which ends with the
        shape of `logits` without `axis`; by default that shape.
      replace: if `True` (default), one instance can draw a category several times.
      mode: as in `jax.random.categorical`; by default `None`.
      named_shape: the sizes of additional axes to draw along; by default none.
      out_sharding: as in `jax.random.categorical`, for arrays without named axes; by default
        `None`.

    Returns:
      Integers with the axes of `named_shape` and of `logits`. The numbers equal
      `jax.random.categorical` for an array with the named axes in front and, if `axis` is a name,
      the categories last. The names of `named_shape` come first in the given order, then the
      others, sorted.

    Communication: every device adds its block of the noise to its block of the logits, and
    contributes its best category. Over sharded categories this costs two all-reduces of the result,
    otherwise nothing. Without replacement the logits are gathered.
    """
@overload
def cauchy(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Cauchy random values with given shape and float dtype."""
@overload
def cauchy(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Cauchy random values with given shape and float dtype."""
@overload
def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Chisquare random values with given shape and float dtype."""
@overload
def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Chisquare random values with given shape and float dtype."""
@overload
def choice(
    key: EitherArray,
    a: ArrayLike,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: Any = 0,
    mode: str | None = None,
    *,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Draw random elements of `a` along an axis, or random numbers below `a`."""
@overload
def choice(
    key: EitherArray,
    a: ArrayLike,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: Any = 0,
    mode: str | None = None,
) -> AnyArray:
    """Draw random elements of `a` along an axis, or random numbers below `a`.

    Args:
      key: a key, or a named array of keys.
      a: an array, named or not, or an integer.
      shape: the positional shape to draw, by default `()`. It replaces a positional `axis`, or
        precedes the positional axes of `a` if `axis` is a name.
      replace: if `True` (default), an element can be drawn several times.
      p: probabilities along `axis`, with that name or one positional axis; by default all equal.
      axis: a positional or named axis, by default 0.
      mode: as in `jax.random.choice`; by default `None`.
      named_shape: the sizes of the named axes to draw along, by default none. It may contain
        `axis`: a resampled axis.

    Returns:
      `a` at the indices `jax.random.choice(key, size, sizes + shape, replace, p)`. Axes of `a` in
      `named_shape` are batch axes.

    Communication: along a sharded axis every device reads its own elements, and one all-reduce of
    the result combines them. It is one reduce-scatter if `named_shape` contains the axis itself.
    `a` is not gathered, but `p` is.
    """
def clone(key: object) -> PyTree:
    """Clone a key for reuse."""
@overload
def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Dirichlet random values with given shape and float dtype."""
@overload
def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Dirichlet random values with given shape and float dtype."""
@overload
def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample from a double sided Maxwell distribution."""
@overload
def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
) -> AnyArray:
    """Sample from a double sided Maxwell distribution."""
@overload
def exponential(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Exponential random values with given shape and float dtype."""
@overload
def exponential(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Exponential random values with given shape and float dtype."""
@overload
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample F-distribution random values with given shape and float dtype."""
@overload
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample F-distribution random values with given shape and float dtype."""
def fold_in(key: ArrayLike, data: ArrayLike) -> AnyArray:
    """Folds in data to a PRNG key to form a new PRNG key."""
@overload
def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Gamma random values with given shape and float dtype."""
@overload
def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Gamma random values with given shape and float dtype."""
@overload
def generalized_normal(
    key: ArrayLike,
    p: float,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample from the generalized normal distribution."""
@overload
def generalized_normal(
    key: ArrayLike,
    p: float,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample from the generalized normal distribution."""
@overload
def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Geometric random values with given shape and float dtype."""
@overload
def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Geometric random values with given shape and float dtype."""
@overload
def gumbel(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    mode: str | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Gumbel random values with given shape and float dtype."""
@overload
def gumbel(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    mode: str | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Gumbel random values with given shape and float dtype."""
def key(
    seed: ArrayLike,
    *,
    impl: str | Any | Hashable | None = None,
    dtype: str | Any | None = None,
) -> AnyArray:
    """Create a pseudo-random number generator (PRNG) key given an integer seed."""
def key_data(keys: ArrayLike) -> AnyArray:
    """Recover the bits of key data underlying a PRNG key array."""
def key_impl(keys: EitherArray) -> Hashable:
    """Return the generator of `keys`, as `jax.random.key_impl` does.

    Args:
      keys: an array of keys, named or not.

    Communication: none.
    """
@overload
def laplace(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Laplace random values with given shape and float dtype."""
@overload
def laplace(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Laplace random values with given shape and float dtype."""
@overload
def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample log-gamma random values with given shape and float dtype."""
@overload
def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample log-gamma random values with given shape and float dtype."""
@overload
def logistic(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample logistic random values with given shape and float dtype."""
@overload
def logistic(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample logistic random values with given shape and float dtype."""
@overload
def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = ...,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample lognormal random values with given shape and float dtype."""
@overload
def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = ...,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample lognormal random values with given shape and float dtype."""
@overload
def maxwell(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample from a one sided Maxwell distribution."""
@overload
def maxwell(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample from a one sided Maxwell distribution."""
@overload
def multinomial(
    key: EitherArray,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    unroll: int | bool = 1,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample from a multinomial distribution."""
@overload
def multinomial(
    key: EitherArray,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    unroll: int | bool = 1,
) -> AnyArray:
    """Sample from a multinomial distribution."""
@overload
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    method: str = 'cholesky',
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample multivariate normal random values with given mean and covariance."""
@overload
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    method: str = 'cholesky',
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample multivariate normal random values with given mean and covariance."""
@overload
def normal(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample standard normal random values with given shape and float dtype."""
@overload
def normal(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample standard normal random values with given shape and float dtype."""
@overload
def orthogonal(
    key: ArrayLike,
    n: int,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    m: int | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample uniformly from the orthogonal group O(n)."""
@overload
def orthogonal(
    key: ArrayLike,
    n: int,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    m: int | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample uniformly from the orthogonal group O(n)."""
@overload
def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Pareto random values with given shape and float dtype."""
@overload
def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Pareto random values with given shape and float dtype."""
def permutation(
    key: EitherArray,
    x: ArrayLike,
    axis: Any = 0,
    independent: bool = False,
    *,
    out_sharding: jax.sharding.Sharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Permute `x` randomly along an axis.

    Args:
      key: a key, or a named array of keys: one permutation for each.
      x: an array, named or not, or an integer `n` for the numbers below `n`.
      axis: a positional or named axis, by default 0. For an integer `x`, a name becomes the axis of
        the result.
      independent: if `True`, every slice along `axis` is permuted independently, as in
        `jax.random.permutation`. The permuted array then has the named axes in front, sorted. By
        default `False`.
      out_sharding: as in `jax.random.permutation`, for arrays without named axes; by default
        `None`.

    Returns:
      An array of the same type. Unless `independent`, all instances have the same permutation,
      `jax.random.permutation(key, size)`.

    Communication: along a sharded axis the permutation is not known at compile time, so it costs
    one reduce-scatter of the complete axis. With `independent` the array is gathered.
    """
@overload
def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Poisson random values with given shape and integer dtype."""
@overload
def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Poisson random values with given shape and integer dtype."""
@overload
def rademacher(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample from a Rademacher distribution."""
@overload
def rademacher(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample from a Rademacher distribution."""
@overload
def randint(
    key: ArrayLike,
    shape: Sequence[int],
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample uniform random values in [minval, maxval) with given shape/dtype."""
@overload
def randint(
    key: ArrayLike,
    shape: Sequence[int],
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample uniform random values in [minval, maxval) with given shape/dtype."""
@overload
def rayleigh(
    key: ArrayLike,
    scale: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Rayleigh random values with given shape and float dtype."""
@overload
def rayleigh(
    key: ArrayLike,
    scale: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Rayleigh random values with given shape and float dtype."""
@overload
def split(
    key: EitherArray,
    num: int | Sequence[int] | None = None,
    *,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Split one key into new keys, along positional or named axes."""
@overload
def split(key: EitherArray, num: int | Sequence[int] | None = None) -> AnyArray:
    """Split one key into new keys, along positional or named axes.

    See `nx.split`.
    """
@overload
def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Student's t random values with given shape and float dtype."""
@overload
def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Student's t random values with given shape and float dtype."""
@overload
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Triangular random values with given shape and float dtype."""
@overload
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Triangular random values with given shape and float dtype."""
@overload
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample truncated standard normal random values with given shape and dtype."""
@overload
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample truncated standard normal random values with given shape and dtype."""
@overload
def uniform(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample uniform random values in [minval, maxval) with given shape/dtype."""
@overload
def uniform(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample uniform random values in [minval, maxval) with given shape/dtype."""
@overload
def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample Wald random values with given shape and float dtype."""
@overload
def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Sample Wald random values with given shape and float dtype."""
@overload
def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int],
) -> NamedArray:
    """Sample from a Weibull distribution."""
@overload
def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DType | None = None,
) -> AnyArray:
    """Sample from a Weibull distribution."""
def wrap_key_data(
    key_bits_array: EitherArray,
    *,
    impl: str | Any | Hashable | None = None,
    dtype: str | Any | None = None,
) -> PyTree:
    """Wrap an array of key data bits into a PRNG key array."""
