"""Adjacent dimensions as one, of arrays without entries too."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["as_one"]


def as_one(data: Any, at: int, count: int = 2) -> Any:
    """`data` with `count` dimensions from `at` on as one.

    The size is said: to find it (`reshape(..., -1)`), JAX divides by the other sizes, of which one may be 0.
    """
    shape = data.shape
    return data.reshape((*shape[:at], math.prod(shape[at : at + count]), *shape[at + count :]))
