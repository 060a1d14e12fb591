# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.special`: `jax.scipy.special` for named arrays."""

from typing import overload

import jax
import jax.typing

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, EitherArray
from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

def bernoulli(n: int) -> AnyArray:
    """Generate the first N Bernoulli numbers."""
@overload
def bessel_jn(z: NamedArray, *, v: int, n_iter: int = 50) -> NamedArray:
    """Bessel function of the first kind of integer order and real argument."""
@overload
def bessel_jn(z: PlainArray, *, v: int, n_iter: int = 50) -> PlainArray: ...
@overload
def bessel_jn(z: jax.typing.ArrayLike, *, v: int, n_iter: int = 50) -> jax.Array:
    """Bessel function of the first kind of integer order and real argument."""
@overload
def beta(a: NamedArray, b: ArrayLike) -> NamedArray:
    """The beta function."""
@overload
def beta(a: ArrayLike, b: NamedArray) -> NamedArray: ...
@overload
def beta(a: PlainArray, b: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def beta(a: jax.typing.ArrayLike, b: jax.typing.ArrayLike) -> jax.Array:
    """The beta function."""
@overload
def betainc(a: NamedArray, b: ArrayLike, x: ArrayLike) -> NamedArray:
    """The regularized incomplete beta function."""
@overload
def betainc(a: ArrayLike, b: NamedArray, x: ArrayLike) -> NamedArray: ...
@overload
def betainc(a: ArrayLike, b: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def betainc(a: PlainArray, b: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def betainc(
    a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, x: jax.typing.ArrayLike,
) -> jax.Array:
    """The regularized incomplete beta function."""
@overload
def betaln(a: NamedArray, b: ArrayLike) -> NamedArray:
    """Natural log of the absolute value of the beta function."""
@overload
def betaln(a: ArrayLike, b: NamedArray) -> NamedArray: ...
@overload
def betaln(a: PlainArray, b: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def betaln(a: jax.typing.ArrayLike, b: jax.typing.ArrayLike) -> jax.Array:
    """Natural log of the absolute value of the beta function."""
@overload
def boxcox(x: NamedArray, lmbda: ArrayLike) -> NamedArray:
    """Box-Cox power transformation."""
@overload
def boxcox(x: ArrayLike, lmbda: NamedArray) -> NamedArray: ...
@overload
def boxcox(x: PlainArray, lmbda: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def boxcox(x: jax.typing.ArrayLike, lmbda: jax.typing.ArrayLike) -> jax.Array:
    """Box-Cox power transformation."""
@overload
def boxcox1p(x: NamedArray, lmbda: ArrayLike) -> NamedArray:
    """Box-Cox transformation of ``1 + x``."""
@overload
def boxcox1p(x: ArrayLike, lmbda: NamedArray) -> NamedArray: ...
@overload
def boxcox1p(x: PlainArray, lmbda: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def boxcox1p(x: jax.typing.ArrayLike, lmbda: jax.typing.ArrayLike) -> jax.Array:
    """Box-Cox transformation of ``1 + x``."""
@overload
def comb(N: NamedArray, k: ArrayLike, *, repetition: bool = False) -> NamedArray:
    """The number of combinations of N things taken k at a time ("N choose k")."""
@overload
def comb(N: ArrayLike, k: NamedArray, *, repetition: bool = False) -> NamedArray: ...
@overload
def comb(N: PlainArray, k: jax.typing.ArrayLike, *, repetition: bool = False) -> PlainArray: ...
@overload
def comb(
    N: jax.typing.ArrayLike, k: jax.typing.ArrayLike, *, repetition: bool = False,
) -> jax.Array:
    """The number of combinations of N things taken k at a time ("N choose k")."""
@overload
def dawsn(x: NamedArray) -> NamedArray:
    """Dawson's integral."""
@overload
def dawsn(x: PlainArray) -> PlainArray: ...
@overload
def dawsn(x: jax.typing.ArrayLike) -> jax.Array:
    """Dawson's integral."""
@overload
def digamma(x: NamedArray) -> NamedArray:
    """The digamma function."""
@overload
def digamma(x: PlainArray) -> PlainArray: ...
@overload
def digamma(x: jax.typing.ArrayLike) -> jax.Array:
    """The digamma function."""
@overload
def entr(x: NamedArray) -> NamedArray:
    """The entropy function."""
@overload
def entr(x: PlainArray) -> PlainArray: ...
@overload
def entr(x: jax.typing.ArrayLike) -> jax.Array:
    """The entropy function."""
@overload
def erf(x: NamedArray) -> NamedArray:
    """The error function."""
@overload
def erf(x: PlainArray) -> PlainArray: ...
@overload
def erf(x: jax.typing.ArrayLike) -> jax.Array:
    """The error function."""
@overload
def erfc(x: NamedArray) -> NamedArray:
    """The complement of the error function."""
@overload
def erfc(x: PlainArray) -> PlainArray: ...
@overload
def erfc(x: jax.typing.ArrayLike) -> jax.Array:
    """The complement of the error function."""
@overload
def erfcx(x: NamedArray) -> NamedArray:
    """Scaled complementary error function."""
@overload
def erfcx(x: PlainArray) -> PlainArray: ...
@overload
def erfcx(x: jax.typing.ArrayLike) -> jax.Array:
    """Scaled complementary error function."""
@overload
def erfinv(x: NamedArray) -> NamedArray:
    """The inverse of the error function."""
@overload
def erfinv(x: PlainArray) -> PlainArray: ...
@overload
def erfinv(x: jax.typing.ArrayLike) -> jax.Array:
    """The inverse of the error function."""
@overload
def exp1(x: NamedArray) -> NamedArray:
    """Exponential integral function."""
@overload
def exp1(x: PlainArray) -> PlainArray: ...
@overload
def exp1(x: jax.typing.ArrayLike) -> jax.Array:
    """Exponential integral function."""
@overload
def expi(x: NamedArray) -> NamedArray:
    """Exponential integral function."""
@overload
def expi(x: PlainArray) -> PlainArray: ...
@overload
def expi(x: jax.typing.ArrayLike) -> jax.Array:
    """Exponential integral function."""
@overload
def expit(x: NamedArray) -> NamedArray:
    """The logistic sigmoid (expit) function."""
@overload
def expit(x: PlainArray) -> PlainArray: ...
@overload
def expit(x: jax.typing.ArrayLike) -> jax.Array:
    """The logistic sigmoid (expit) function."""
@overload
def expn(n: NamedArray, x: ArrayLike) -> NamedArray:
    """Generalized exponential integral function."""
@overload
def expn(n: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def expn(n: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def expn(n: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """Generalized exponential integral function."""
@overload
def factorial(n: NamedArray, exact: bool = False) -> NamedArray:
    """Factorial function."""
@overload
def factorial(n: PlainArray, exact: bool = False) -> PlainArray: ...
@overload
def factorial(n: jax.typing.ArrayLike, exact: bool = False) -> jax.Array:
    """Factorial function."""
def fresnel(x: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """The Fresnel integrals."""
@overload
def gamma(x: NamedArray) -> NamedArray:
    """The gamma function."""
@overload
def gamma(x: PlainArray) -> PlainArray: ...
@overload
def gamma(x: jax.typing.ArrayLike) -> jax.Array:
    """The gamma function."""
@overload
def gammainc(a: NamedArray, x: ArrayLike) -> NamedArray:
    """The regularized lower incomplete gamma function."""
@overload
def gammainc(a: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def gammainc(a: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def gammainc(a: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """The regularized lower incomplete gamma function."""
@overload
def gammaincc(a: NamedArray, x: ArrayLike) -> NamedArray:
    """The regularized upper incomplete gamma function."""
@overload
def gammaincc(a: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def gammaincc(a: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def gammaincc(a: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """The regularized upper incomplete gamma function."""
@overload
def gammaln(x: NamedArray) -> NamedArray:
    """Natural log of the absolute value of the gamma function."""
@overload
def gammaln(x: PlainArray) -> PlainArray: ...
@overload
def gammaln(x: jax.typing.ArrayLike) -> jax.Array:
    """Natural log of the absolute value of the gamma function."""
@overload
def gammasgn(x: NamedArray) -> NamedArray:
    """Sign of the gamma function."""
@overload
def gammasgn(x: PlainArray) -> PlainArray: ...
@overload
def gammasgn(x: jax.typing.ArrayLike) -> jax.Array:
    """Sign of the gamma function."""
@overload
def hyp1f1(a: NamedArray, b: ArrayLike, x: ArrayLike) -> NamedArray:
    """The 1F1 hypergeometric function."""
@overload
def hyp1f1(a: ArrayLike, b: NamedArray, x: ArrayLike) -> NamedArray: ...
@overload
def hyp1f1(a: ArrayLike, b: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def hyp1f1(a: PlainArray, b: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def hyp1f1(
    a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, x: jax.typing.ArrayLike,
) -> jax.Array:
    """The 1F1 hypergeometric function."""
@overload
def hyp2f1(a: NamedArray, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> NamedArray:
    """The 2F1 hypergeometric function."""
@overload
def hyp2f1(a: ArrayLike, b: NamedArray, c: ArrayLike, x: ArrayLike) -> NamedArray: ...
@overload
def hyp2f1(a: ArrayLike, b: ArrayLike, c: NamedArray, x: ArrayLike) -> NamedArray: ...
@overload
def hyp2f1(
    a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, c: jax.typing.ArrayLike, x: ArrayLike,
) -> jax.Array:
    """The 2F1 hypergeometric function."""
@overload
def i0(x: NamedArray) -> NamedArray:
    """Modified bessel function of zeroth order."""
@overload
def i0(x: PlainArray) -> PlainArray: ...
@overload
def i0(x: jax.typing.ArrayLike) -> jax.Array:
    """Modified bessel function of zeroth order."""
@overload
def i0e(x: NamedArray) -> NamedArray:
    """Exponentially scaled modified bessel function of zeroth order."""
@overload
def i0e(x: PlainArray) -> PlainArray: ...
@overload
def i0e(x: jax.typing.ArrayLike) -> jax.Array:
    """Exponentially scaled modified bessel function of zeroth order."""
@overload
def i1(x: NamedArray) -> NamedArray:
    """Modified bessel function of first order."""
@overload
def i1(x: PlainArray) -> PlainArray: ...
@overload
def i1(x: jax.typing.ArrayLike) -> jax.Array:
    """Modified bessel function of first order."""
@overload
def i1e(x: NamedArray) -> NamedArray:
    """Exponentially scaled modified bessel function of first order."""
@overload
def i1e(x: PlainArray) -> PlainArray: ...
@overload
def i1e(x: jax.typing.ArrayLike) -> jax.Array:
    """Exponentially scaled modified bessel function of first order."""
@overload
def kl_div(p: NamedArray, q: ArrayLike) -> NamedArray:
    """The Kullback-Leibler divergence."""
@overload
def kl_div(p: ArrayLike, q: NamedArray) -> NamedArray: ...
@overload
def kl_div(p: PlainArray, q: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def kl_div(p: jax.typing.ArrayLike, q: jax.typing.ArrayLike) -> jax.Array:
    """The Kullback-Leibler divergence."""
@overload
def log_ndtr(x: NamedArray, series_order: int = 3) -> NamedArray:
    """Log Normal distribution function."""
@overload
def log_ndtr(x: PlainArray, series_order: int = 3) -> PlainArray: ...
@overload
def log_ndtr(x: jax.typing.ArrayLike, series_order: int = 3) -> jax.Array:
    """Log Normal distribution function."""
def log_softmax(x: ArrayLike, /, *, axis: AxisSpec = None) -> AnyArray:
    """Compute the logarithm of `softmax` without overflow.

    Args:
      x: an array, named or not.
      axis: the axis or axes to normalize over, positional or named; `None` (default)
        selects all positional axes. Required if every axis is named.

    Returns:
      An array with the axes of `x`.

    Communication: as for `nx.nn.softmax`.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
    """
@overload
def loggamma(x: NamedArray) -> NamedArray:
    """Principal branch of the logarithm of the gamma function."""
@overload
def loggamma(x: PlainArray) -> PlainArray: ...
@overload
def loggamma(x: jax.typing.ArrayLike) -> jax.Array:
    """Principal branch of the logarithm of the gamma function."""
@overload
def logit(x: NamedArray) -> NamedArray:
    """The logit function."""
@overload
def logit(x: PlainArray) -> PlainArray: ...
@overload
def logit(x: jax.typing.ArrayLike) -> jax.Array:
    """The logit function."""
def logsumexp(
    a: ArrayLike,
    axis: AxisSpec = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Compute `log(sum(b * exp(x)))` over positional and named axes, without overflow.

    See `nx.logsumexp`.
    """
@overload
def multigammaln(a: NamedArray, d: ArrayLike) -> NamedArray:
    """The natural log of the multivariate gamma function."""
@overload
def multigammaln(a: ArrayLike, d: NamedArray) -> NamedArray: ...
@overload
def multigammaln(a: PlainArray, d: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def multigammaln(a: jax.typing.ArrayLike, d: jax.typing.ArrayLike) -> jax.Array:
    """The natural log of the multivariate gamma function."""
@overload
def ndtr(x: NamedArray) -> NamedArray:
    """Normal distribution function."""
@overload
def ndtr(x: PlainArray) -> PlainArray: ...
@overload
def ndtr(x: jax.typing.ArrayLike) -> jax.Array:
    """Normal distribution function."""
@overload
def ndtri(p: NamedArray) -> NamedArray:
    """The inverse of the CDF of the Normal distribution function."""
@overload
def ndtri(p: PlainArray) -> PlainArray: ...
@overload
def ndtri(p: jax.typing.ArrayLike) -> jax.Array:
    """The inverse of the CDF of the Normal distribution function."""
@overload
def owens_t(h: NamedArray, a: ArrayLike) -> NamedArray:
    """Owen's T function."""
@overload
def owens_t(h: ArrayLike, a: NamedArray) -> NamedArray: ...
@overload
def owens_t(h: PlainArray, a: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def owens_t(h: jax.typing.ArrayLike, a: jax.typing.ArrayLike) -> jax.Array:
    """Owen's T function."""
@overload
def poch(z: NamedArray, m: ArrayLike) -> NamedArray:
    """The Pochammer symbol."""
@overload
def poch(z: ArrayLike, m: NamedArray) -> NamedArray: ...
@overload
def poch(z: PlainArray, m: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def poch(z: jax.typing.ArrayLike, m: jax.typing.ArrayLike) -> jax.Array:
    """The Pochammer symbol."""
@overload
def polygamma(n: NamedArray, x: ArrayLike) -> NamedArray:
    """The polygamma function."""
@overload
def polygamma(n: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def polygamma(n: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def polygamma(n: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """The polygamma function."""
@overload
def rel_entr(p: NamedArray, q: ArrayLike) -> NamedArray:
    """The relative entropy function."""
@overload
def rel_entr(p: ArrayLike, q: NamedArray) -> NamedArray: ...
@overload
def rel_entr(p: PlainArray, q: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def rel_entr(p: jax.typing.ArrayLike, q: jax.typing.ArrayLike) -> jax.Array:
    """The relative entropy function."""
def sici(x: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Sine and cosine integrals."""
def softmax(x: ArrayLike, /, *, axis: AxisSpec = None) -> AnyArray:
    """Compute the softmax over an axis or a tuple of axes: the elements are positive and sum to 1.

    Args:
      x: an array, named or not.
      axis: the axis or axes to normalize over, positional or named; `None` (default)
        selects all positional axes. Required if every axis is named.

    Communication: over a sharded axis, two all-reduces of the reduced size, for the maximum and for
    the sum; the gradient adds one.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
    """
@overload
def spence(x: NamedArray) -> NamedArray:
    """Spence's function, also known as the dilogarithm for real values."""
@overload
def spence(x: PlainArray) -> PlainArray: ...
@overload
def spence(x: jax.Array) -> jax.Array:
    """Spence's function, also known as the dilogarithm for real values."""
@overload
def sph_harm_y(
    n: NamedArray,
    m: EitherArray,
    theta: EitherArray,
    phi: EitherArray,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> NamedArray:
    """Computes the spherical harmonics."""
@overload
def sph_harm_y(
    n: EitherArray,
    m: NamedArray,
    theta: EitherArray,
    phi: EitherArray,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> NamedArray: ...
@overload
def sph_harm_y(
    n: EitherArray,
    m: EitherArray,
    theta: NamedArray,
    phi: EitherArray,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> NamedArray: ...
@overload
def sph_harm_y(
    n: jax.Array,
    m: jax.Array,
    theta: jax.Array,
    phi: EitherArray,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> jax.Array:
    """Computes the spherical harmonics."""
@overload
def wofz(z: NamedArray) -> NamedArray:
    """Faddeeva function."""
@overload
def wofz(z: PlainArray) -> PlainArray: ...
@overload
def wofz(z: jax.typing.ArrayLike) -> jax.Array:
    """Faddeeva function."""
@overload
def xlog1py(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Compute x*log(1 + y), returning 0 for x=0."""
@overload
def xlog1py(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def xlog1py(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def xlog1py(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Compute x*log(1 + y), returning 0 for x=0."""
@overload
def xlogy(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Compute x*log(y), returning 0 for x=0."""
@overload
def xlogy(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def xlogy(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def xlogy(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Compute x*log(y), returning 0 for x=0."""
@overload
def zeta(x: NamedArray, q: ArrayLike | None = None) -> NamedArray:
    """The Hurwitz zeta function."""
@overload
def zeta(x: jax.typing.ArrayLike, q: ArrayLike | None = None) -> jax.Array:
    """The Hurwitz zeta function."""
