"""Tables of the functions that have a named version, one module per package of JAX.

`numpy`, `lax`, `nn` and `scipy` have the tables; the functions here select from the public names of
a module. `namedax.ops.namespaces.lifting` lifts all other functions of JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from namedax.ops.namespaces.public_names import NAMES, NUMPY_ONLY, SECOND

__all__ = ["Functions", "only", "public_functions", "without"]

Functions = dict[str, Callable[..., Any]]


def public_functions(module: ModuleType) -> Functions:
    """Return the functions of a module that are public names of the package, by name.

    Those that are in `nx.numpy` only are included, and second names.
    """
    path = module.__name__.removeprefix("namedax.")
    names = f"{NAMES[path]} {NUMPY_ONLY.get(path, '')}".split()
    found = {name: getattr(module, name) for name in names}
    return found | {second: found[name] for second, name in SECOND.items() if name in found}


def only(functions: Functions, *names: str) -> Functions:
    """Return the functions with these names."""
    return {name: functions[name] for name in names}


def without(functions: Functions, *names: str) -> Functions:
    """Return the functions with other names."""
    return {name: function for name, function in functions.items() if name not in names}
