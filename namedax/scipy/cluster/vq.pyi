# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.scipy.cluster.vq`: `jax.scipy.cluster.vq` for named arrays."""

from namedax.core.annotations import AnyArray, ArrayLike

def vq(
    obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True,
) -> tuple[AnyArray, AnyArray]:
    """Assign codes from a code book to a set of observations."""
