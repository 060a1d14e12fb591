"""namedax: named-axis arrays for JAX.

Write a model over axis names. Decide afterwards, in one dictionary (`axis_resources`), over which
hardware each axis is sharded.

The table `namedax.ops.namespaces.public_names.NAMES` has every public name of this module.
`NamedArray` with its methods and `xmap` are imported with the package, other names on first access.
The namespaces that mirror JAX (`numpy`, `scipy`, `lax`, `nn`, `random`, `image`) take their names
from JAX. Stubs beside the modules describe all names to editors and type checkers; `make stubs`
writes them.
"""

import importlib as _importlib
import os as _os
import sys as _sys
import warnings as _warnings
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from jax.extend import source_info_util as _source_info_util

from namedax.core.array import NamedArray as NamedArray
from namedax.errors import hints as _hints
from namedax.errors import install_hints as _install_hints
from namedax.ops.namespaces.operators import install as _install
from namedax.ops.namespaces.public_names import DEPRECATED as _DEPRECATED
from namedax.ops.namespaces.public_names import DEPRECATED_UNTIL as _DEPRECATED_UNTIL
from namedax.ops.namespaces.public_names import homes as _homes
from namedax.xmap.explicit_axes import install as _install_explicit_axes
from namedax.xmap.wrapper import xmap as xmap

if (
    _TYPE_CHECKING
):  # for "go to definition" in editors; `make stubs` writes this module from the table
    from namedax.ops.namespaces.definitions import *  # noqa: F403

__version__ = "0.3.0"

_HOMES = _homes()
__all__ = list(_HOMES)


def __getattr__(name: str) -> _Any:
    if name in _DEPRECATED:
        _warnings.warn(
            f"{__name__}.{name} is deprecated, and an error in namedax {_DEPRECATED_UNTIL}. Write"
            f" {__name__}.{_DEPRECATED[name]}, or {__name__}.numpy.{name}.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(_importlib.import_module(f"{__name__}.numpy"), name)
    if name not in _HOMES:
        hint = _hints().function(name, __name__)
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{hint}",
            name=name,
            obj=None if hint else _sys.modules[__name__],  # for Python's own suggestion
        )
    if _HOMES[name] == __name__:
        value = _importlib.import_module(f"{__name__}.{name}")
    else:
        value = getattr(_importlib.import_module(_HOMES[name]), name)
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


_install()
_install_explicit_axes()
_install_hints(
    lambda: _importlib.import_module("namedax.messages.hints").hints_of(_sys.modules[__name__])
)

# A compiled program, a profile and JAX's own messages say the line of the model, not that of the
# library.
_source_info_util.register_exclusion(_os.path.dirname(__file__) + _os.sep)
