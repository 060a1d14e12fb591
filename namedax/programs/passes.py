"""The passes over traced jaxprs, and the names by which `xmap` enables them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from namedax.errors import ArgumentError, did_you_mean

__all__ = ["LATE_SUMS", "LOOP_CASTS", "PASSES", "SERIAL_STEPS", "Pass", "skipped_passes"]

Pass = Literal["late_sums", "loop_casts", "serial_steps"]
PASSES: tuple[Pass, ...] = get_args(Pass)
LATE_SUMS, LOOP_CASTS, SERIAL_STEPS = PASSES


def skipped_passes(passes: Sequence[Any]) -> frozenset[str]:
    """Return the passes that are missing from the `passes` argument of `xmap`.

    Raises:
      ArgumentError: an element is not a pass.
    """
    if isinstance(passes, str) or not isinstance(passes, Iterable):
        raise ArgumentError(
            f"xmap: passes={passes!r} must be a tuple of pass names. Choose from {_listed()}."
        )
    for name in (passes := tuple(passes)):
        if name not in PASSES:
            hint = did_you_mean(name, PASSES) if isinstance(name, str) else ""
            raise ArgumentError(
                f"xmap: passes={passes!r} contains {name!r}, which is not a pass. Choose from"
                f" {_listed()}.{hint}"
            )
    return frozenset(PASSES).difference(passes)


def _listed() -> str:
    return ", ".join(map(repr, PASSES))
