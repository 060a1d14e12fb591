"""The hints of one package, which messages get by `errors.hints`."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from namedax.errors import Hints
from namedax.hints.migration import namesake, what_to_write
from namedax.hints.numpy_functions import replacement
from namedax.hints.signatures import usage

__all__ = ["hints_of"]


def hints_of(package: ModuleType) -> Hints:
    """The hints about the public functions of `package`, which is `namedax`."""
    return Hints(
        usage=partial(usage, package),
        attribute=partial(what_to_write, package),
        namesake=partial(namesake, package),
        numpy_function=partial(replacement, package),
    )
