"""Debugging by name: values and placements of whole named arrays, while a program runs.

`printing` has `print` and `callback`. `values` gathers the values of a program, and rebuilds them
on the host. `callbacks` has the primitive that calls Python once. Read `printing` first.
"""

from namedax.debug.printing import callback as callback
from namedax.debug.printing import print as print

__all__ = ["callback", "print"]


def __dir__() -> list[str]:
    return __all__
