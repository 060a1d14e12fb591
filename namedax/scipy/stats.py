"""The namespace `nx.scipy.stats`: `jax.scipy.stats` for named arrays, with a namespace per distribution."""

import pkgutil as _pkgutil
import sys as _sys
import types as _types
from typing import TYPE_CHECKING, Any

import jax.scipy.stats as _module

from namedax.namespaces.lifting import lift_namespace as _lift_namespace
from namedax.namespaces.registry import STATS as _OWN

globals().update(_lift_namespace(_module, _OWN, __name__))
for _name in (info.name for info in _pkgutil.iter_modules(_module.__path__)):
    _distribution = _types.ModuleType(f"{__name__}.{_name}", f"`jax.scipy.stats.{_name}` for named arrays.")
    _distribution.__dict__.update(_lift_namespace(getattr(_module, _name), {}, f"{__name__}.{_name}"))
    globals()[_name] = _sys.modules[_distribution.__name__] = _distribution
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
