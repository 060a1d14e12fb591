"""What cannot be done in steps, refused in the user's words: the operation that the body calls, the axis, and the remedy."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import jax

from namedax.core.region import ambient
from namedax.errors import SerialLoopError, show_names
from namedax.resources.microbatches import refuse_microbatches
from namedax.resources.serial import LoopAxis

__all__ = ["called_operation", "moves_entries", "refuse_loops"]


def refuse_loops(axes: Sequence[str], data: Any) -> None:
    """Refuses to send blocks along `axes` if one of them is a loop's.

    Raises:
      SerialLoopError: one is; of the operation that the body calls, at the line that calls it.
    """
    refuse_microbatches(axes)
    loop = next((axis for axis in axes if isinstance(axis, LoopAxis)), None)
    if loop is None:
        return
    region = ambient()
    names = [name for name, held in (region.resources if region is not None else {}).items() if loop in held]
    sizes = [region.sizes[name] for name in names if region is not None and name in region.sizes]
    held = f"{show_names(names)}{f' of size {sizes[0]}' if len(sizes) == 1 == len(names) else ''}" if names else "of a loop"
    what = called_operation() or "an operation in the body"
    raise SerialLoopError(moves_entries(what, f"the axis {held}", f"{loop} executes in {loop.steps} steps", data))


def moves_entries(what: str, axis: str, how: str, data: Any) -> str:
    """The message: `what` moves entries along `axis`, which `how`."""
    return (
        f"{what} moves entries along {axis}, which {how}, one after the other; so no step has entries of the others "
        f"(here, blocks of {data.dtype}{list(data.shape)}). Rename the axis to a name without a loop first, which gathers it, and rename the "
        "result back; or remove the SerialLoop from axis_resources, or execute another axis in steps."
    )


def called_operation() -> str | None:
    """The function of this package that the body calls, as users write it (`nx.roll`); `None` where the body does not call one."""
    found = [_public_name(frame.f_code) for frame in _frames_in_body()]
    return next((name for name in reversed(found) if name is not None), None)


def _directory(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


_PACKAGE = os.path.dirname(_directory(__file__)[:-1]) + os.sep
_JAX, _STANDARD = _directory(jax.__file__), sysconfig.get_paths()["stdlib"] + os.sep
# Where users find functions.
_NAMESPACES = ("lax", "nn", "numpy", "scipy", "random", "image", "interop")


def _frames_in_body() -> Iterator[FrameType]:
    """The frames of this package within the operation that the body calls, the innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if file.startswith(_PACKAGE):
            if (file, function) == (_PACKAGE + "xmap.py", "function"):  # calls the function that was mapped
                return
            yield frame
        elif not file.startswith(_JAX) and (not file.startswith(_STANDARD) or "site-packages" in file):
            return
        frame = frame.f_back


def _public_name(code: CodeType) -> str | None:
    """How users call the function with this code, if it is, or stands behind, one of theirs."""
    package, name = sys.modules["namedax"], code.co_name
    for method, function in vars(package.NamedArray).items():
        if _code_of(function) is code and not hasattr(package, name):
            return "x[...]" if method == "__getitem__" else f"x.{method}"
    places = [m for m in sys.modules if m == "namedax" or (m.startswith("namedax.") and m.split(".")[1] in _NAMESPACES)]
    for place in sorted(places, key=lambda place: (place.count("."), place)):
        if not name.startswith("_") and callable(getattr(sys.modules[place], name, None)):
            return f"{place}.{name}".replace("namedax", "nx", 1)
    return None


def _code_of(function: Any) -> Any:
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
