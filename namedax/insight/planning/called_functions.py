"""Layouts for the mapped functions that a function calls."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from namedax.core.names import Mesh, PyTree
from namedax.insight.planning.candidates import Variant
from namedax.insight.planning.program import remapped
from namedax.ops.operands.open_options import choosing
from namedax.xmap.mapped_function import Xmapped
from namedax.xmap.replaced_layouts import replacing

__all__ = ["Code", "Replacement", "applied_each", "code_of", "labelled", "with_layouts"]

#: The name, the file and the line of a mapped function, which identify it.
Code = tuple[str, str, int]


def code_of(f: Xmapped) -> Code:
    """Return the name, the file and the line of a mapped function."""
    body: Any = f._fun
    while isinstance(body, functools.partial):
        body = body.func
    code = getattr(inspect.unwrap(body), "__code__", None)
    return (
        (f._name, code.co_filename, code.co_firstlineno) if code is not None else (f._name, "", 0)
    )


def labelled(codes: Sequence[Code]) -> dict[Code, str]:
    """Return a label for each mapped function: its name, with its line if two have one name."""
    names = [name for name, *_ in codes]
    return {
        code: code[0] if names.count(code[0]) == 1 else f"{code[0]}:{code[2]}" for code in codes
    }


class Replacement:
    """Replace mapped functions while a function that calls them is traced.

    Args:
      form: returns a function with another layout, or `None` to keep it.
    """

    def __init__(self, form: Callable[[Xmapped, tuple[Any, ...], dict[str, Any]], Xmapped | None]):
        self._form = form
        self._made: weakref.WeakSet[Xmapped] = weakref.WeakSet()

    def __call__(self, f: Xmapped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Xmapped | None:
        """Return a function with another layout, or `None` to keep it."""
        if f in self._made:
            return None
        form = self._form(f, args, kwargs)
        if form is not None:
            self._made.add(form)
        return form


def with_layouts(variant: Variant, mesh: Mesh) -> Replacement:
    """Return the replacement by the layouts of a variant."""

    def form(f: Xmapped, args: object, kwargs: object) -> Xmapped | None:
        name, _, line = code_of(f)
        layout = variant.layouts.get(name, variant.layouts.get(f"{name}:{line}"))
        if layout is None:
            return None
        others = {"donate_argnums": f._options.donate_argnums, "jit": f._options.jit}
        return remapped(f, f._fun, layout, mesh, variant.settings, **others)

    return Replacement(form)


def applied_each(f: Callable[..., PyTree], variant: Variant, mesh: Mesh) -> Callable[..., PyTree]:
    """Return a function that calls `f` with a layout for each mapped function that it calls."""
    replacement = with_layouts(variant, mesh)

    @functools.wraps(f)
    def with_plan(*args: PyTree, **kwargs: PyTree) -> PyTree:
        with replacing(replacement), choosing(variant.options, variant.files):
            return f(*args, **kwargs)

    return with_plan
