"""The option `remat` of loops: recompute a step in the backward pass instead of storing it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import jax

from namedax.core.array import is_named
from namedax.core.memory_kinds import is_on_host, on_device
from namedax.core.names import PyTree
from namedax.errors import ArgumentError, did_you_mean, format_value
from namedax.ops.operands.pytree import stored_leaf
from namedax.primitives.recomputation import saves_all_but_copies, saves_all_but_gathers

__all__ = ["REMAT_CHOICES", "Remat", "has_host_arrays", "policy_of", "recomputed"]

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


def has_host_arrays(xs: PyTree) -> bool:
    """Return True if an array of a pytree is in the memory of the host."""
    return any(is_on_host(stored_leaf(leaf)) for leaf in jax.tree.leaves(xs, is_leaf=is_named))


def recomputed(
    op: str, f: Callable[..., R], remat: Remat | None, copies: bool = False
) -> Callable[..., R]:
    """Wrap the function of a step in `jax.checkpoint`, as the option `remat` requires.

    Args:
      op: the operation, for messages.
      f: the function, of the carry and of the slices of a step.
      remat: the option.
      copies: True if slices are in the memory of the host. They are copied to the device in each
        step, and again in the backward pass, which would store the copies of all steps otherwise.
        Default: False.
    """
    is_on, policy = policy_of(op, remat)
    if copies:
        f = _of_copies(f)
        is_on, policy = True, policy if is_on else saves_all_but_copies
    return jax.checkpoint(f, policy=policy) if is_on else f


def _of_copies(f: Callable[..., R]) -> Callable[..., R]:
    @functools.wraps(f)
    def of_copies(carry: PyTree, slices: PyTree) -> R:
        return f(carry, jax.tree.map(on_device, slices, is_leaf=is_named))

    return of_copies
