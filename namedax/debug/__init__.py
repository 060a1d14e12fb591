"""Debugging by name: values, placements and types of named arrays in a program.

`printing` has `print` and `callback`, which show values while a program runs. `values` gathers
them, rebuilds them on the host, and calls Python once; `checks` has assertions on them.
`inspection` shows placements. `name_trace` shows the types of each source line, and `trace_text`
has the result. Read `printing` first.
"""

from namedax.debug.checks import check as check
from namedax.debug.checks import checks as checks
from namedax.debug.inspection import Placement as Placement
from namedax.debug.inspection import inspect_sharding as inspect_sharding
from namedax.debug.printing import callback as callback
from namedax.debug.printing import print as print
from namedax.debug.trace_text import NameTrace as NameTrace
from namedax.debug.trace_text import TracedLine as TracedLine

__all__ = [
    "NameTrace",
    "Placement",
    "TracedLine",
    "callback",
    "check",
    "checks",
    "inspect_sharding",
    "print",
]


def __dir__() -> list[str]:
    return __all__
