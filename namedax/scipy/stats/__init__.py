"""The namespace `nx.scipy.stats`: `jax.scipy.stats` for named arrays, and its distributions."""

import importlib.util as _importlib
import pkgutil as _pkgutil
import sys as _sys
import types as _types

from namedax.ops.namespaces.lifting import Namespace as _Namespace
from namedax.ops.namespaces.registry.scipy import STATS as _OWN

# Only the location of the module; it is imported on first use of a function.
_spec = _importlib.find_spec("jax.scipy.stats")
_path = _spec.submodule_search_locations if _spec else None
_DISTRIBUTIONS = tuple(
    info.name for info in _pkgutil.iter_modules(_path or []) if not info.name.startswith("_")
)


def _distribution(name: str) -> _types.ModuleType:
    shown = _types.ModuleType(f"{__name__}.{name}", f"`jax.scipy.stats.{name}` for named arrays.")
    space = _Namespace(shown.__name__, f"jax.scipy.stats.{name}")
    vars(shown).update(__getattr__=space.get, __dir__=space.names)
    _sys.modules[shown.__name__] = shown
    return shown


_space = _Namespace(__name__, "jax.scipy.stats", _OWN, submodules=_DISTRIBUTIONS)
__getattr__, __dir__ = _space.get, _space.names
globals().update({_name: _distribution(_name) for _name in _DISTRIBUTIONS})
