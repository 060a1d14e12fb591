"""The option `remat` of loops: recompute a step in the backward pass instead of storing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import jax

from namedax.errors import ArgumentError, did_you_mean, format_value
from namedax.primitives.recomputation import saves_all_but_gathers

__all__ = ["REMAT_CHOICES", "Remat", "policy_of", "recomputed"]

R = TypeVar("R")

#: A policy of `jax.checkpoint_policies`.
Policy: TypeAlias = Callable[..., Any]
Remat: TypeAlias = bool | Literal["none", "full", "dots", "gathers"] | Policy

_TEXTS = ("none", "full", "dots", "gathers")

#: The values that `nx.plan` tries.
REMAT_CHOICES: tuple[dict[str, Any], ...] = (
    {"remat": "full"},
    {"remat": "dots"},
    {"remat": "gathers"},
)


def policy_of(op: str, remat: object) -> tuple[bool, Policy | None]:
    """Return whether to recompute, and the policy of `jax.checkpoint`.

    Raises:
      ArgumentError: `remat` is unknown.
    """
    if remat is None or remat is False or remat == "none":
        return False, None
    if remat is True or remat == "full":
        return True, None
    if remat == "dots":
        return True, jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    if remat == "gathers":
        return True, saves_all_but_gathers
    if callable(remat):
        return True, remat
    hint = did_you_mean(remat, _TEXTS) if isinstance(remat, str) else ""
    raise ArgumentError(
        f"{op}: remat={format_value(remat)} must be 'none', 'full', 'dots', 'gathers', a boolean,"
        f" or a policy of jax.checkpoint_policies.{hint} Pass remat='full' to recompute a step for"
        " the gradient."
    )


def recomputed(op: str, f: Callable[..., R], remat: Remat | None) -> Callable[..., R]:
    """Wrap the function of a step in `jax.checkpoint`, as the option `remat` requires."""
    is_on, policy = policy_of(op, remat)
    return jax.checkpoint(f, policy=policy) if is_on else f
