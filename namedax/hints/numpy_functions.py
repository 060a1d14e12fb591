"""Functions of NumPy that a named array was given to, and their replacements."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import ModuleType
from typing import Any

from namedax.errors import show_names
from namedax.hints.signatures import usage

__all__ = ["replacement"]

_FLAT = "nx.rearrange(x, pattern), or nx.merge_axes(x, {names}, 'flat') for one axis with a name"
_INSTEAD = {
    **dict.fromkeys(("reshape", "ravel"), _FLAT),
    **dict.fromkeys(
        ("transpose", "permute_dims", "matrix_transpose", "moveaxis", "rollaxis", "swapaxes"),
        "nx.rename(x, {{a: b, b: a}}) to exchange names, which have no order",
    ),
    **dict.fromkeys(
        ("hstack", "vstack", "dstack", "column_stack", "block", "append"),
        "nx.concatenate([x, y], axis) or nx.stack([x, y], axis)",
    ),
    **dict.fromkeys(
        ("inner", "vdot", "matmul", "outer", "tensordot", "vecdot"),
        "nx.dot(x, y, axis) or nx.einsum",
    ),
    "stack": "nx.stack([x, y], 'new')",
    "where": "nx.where(condition, x, y)",
    **dict.fromkeys(("save", "savez", "savez_compressed"), "nx.checkpoints.save(path, tree)"),
}


def replacement(package: ModuleType, name: str, space: str, names: Sequence[Hashable]) -> str:
    """The beginning of a sentence with code that replaces a function of NumPy; empty if there is no replacement.

    Args:
      package: the package, `namedax`.
      name: the function.
      space: its module, such as `numpy.linalg`.
      names: the axis names of the array.

    >>> import namedax as nx
    >>> replacement(nx, "mean", "numpy", ("k",))
    "Write nx.mean(x, axis), where axis is one of 'k', or"
    """
    if name in _INSTEAD:
        return f"Write {_INSTEAD[name].format(names=repr(tuple(names)))}, or"
    call = usage(package, name).strip().removesuffix(".")
    own: Any = package.numpy
    home = getattr(own, space.rpartition(".")[2], None) if "." in space else own
    if not call and name in dir(home or package):
        call = f"Write nx.numpy.{space.rpartition('.')[2]}.{name}"
    if not call:
        return ""
    where = f" where axis is one of {show_names(names)}," if "axis" in call else ""
    return f"{call},{where} or"
