"""Typical calls of the public functions, from their signatures."""

from __future__ import annotations

import inspect
from types import ModuleType

__all__ = ["usage"]


def usage(package: ModuleType, op: str) -> str:
    """Return a sentence with a typical call of a public function.

    It is empty if `op` is not a public function.

    >>> import namedax as nx
    >>> usage(nx, "take"), usage(nx, "softmax")
    (' Write nx.take(x, indices, axis).', ' Write nx.nn.softmax(x, axis).')
    >>> usage(nx, "top_k")
    ' Write nx.top_k(x, k, axis=...).'
    """
    spaces = ("", "nn.", "numpy.", "lax.", "random.") if op.isidentifier() else ()
    for space in spaces:
        home = getattr(package, space[:-1]) if space else package
        if op not in dir(home):
            continue
        try:
            parameters = list(inspect.signature(getattr(home, op)).parameters.values())
        except (TypeError, ValueError):
            return ""
        return f" Write nx.{space}{op}({', '.join(_arguments(parameters))})."
    return ""


# Parameters with an axis and an amount in one value.
_AMOUNTS = {"pad_width": "{name: (before, after)}", "reps": "{name: times}"}


def _arguments(parameters: list[inspect.Parameter]) -> list[str]:
    """Return the arguments of a typical call: the required ones, and the axis."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    axis = next(
        (
            p
            for p in parameters
            if p.name.startswith(("axis", "axes", "dimension")) and p.name != "axis_sizes"
        ),
        None,
    )
    by_place = [p for p in parameters if p.kind not in (keyword, inspect.Parameter.VAR_KEYWORD)]
    if axis is not None and axis.kind is not keyword:
        at = by_place.index(axis)
        return [
            _AMOUNTS.get(p.name, p.name)
            for i, p in enumerate(by_place)
            if i <= at or p.default is p.empty
        ]
    many = inspect.Parameter.VAR_POSITIONAL
    needed = [
        f"*{p.name}" if p.kind is many else _AMOUNTS.get(p.name, p.name)
        for p in by_place
        if p.default is p.empty or p.name == "xs" or len(by_place) <= 3
    ]
    return needed if axis is None else [*needed, f"{axis.name}=..."]
