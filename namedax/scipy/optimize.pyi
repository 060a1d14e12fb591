# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.optimize`: `jax.scipy.optimize` for named arrays.

Named axes are batch axes: there is one minimization per index along them. The function to minimize
takes positional arrays.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.scipy.optimize import OptimizeResults as OptimizeResults  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import EitherArray

def minimize(
    fun: Callable[..., Any],
    x0: EitherArray,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> jax.scipy.optimize.OptimizeResults:
    """Minimization of scalar function of one or more variables."""
