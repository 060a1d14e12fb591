"""The namespace `nx.scipy.stats`: `jax.scipy.stats` for named arrays, with a namespace per distribution."""

import pkgutil as _pkgutil
import sys as _sys
import types as _types

import jax.scipy.stats as _module

from namedax.namespaces.lifting import Namespace as _Namespace
from namedax.namespaces.registry import STATS as _OWN

_DISTRIBUTIONS = tuple(info.name for info in _pkgutil.iter_modules(_module.__path__) if not info.name.startswith("_"))


def _distribution(name: str) -> _types.ModuleType:
    shown = _types.ModuleType(f"{__name__}.{name}", f"`jax.scipy.stats.{name}` for named arrays.")
    space = _Namespace(shown.__name__, getattr(_module, name))
    vars(shown).update(__getattr__=space.get, __dir__=space.names)
    _sys.modules[shown.__name__] = shown
    return shown


_space = _Namespace(__name__, _module, _OWN, submodules=_DISTRIBUTIONS)
__getattr__, __dir__ = _space.get, _space.names
globals().update({_name: _distribution(_name) for _name in _DISTRIBUTIONS})
