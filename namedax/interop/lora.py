"""Low-rank adapters (LoRA): train them, merge them, and exchange them with PEFT.

`init` makes adapters for chosen weights. `merge` adds them to the weights, in a loss or for export.
`attach` puts them next to the weights for `dot` and `einsum`, which add the low-rank path. `stack`
and `select` serve several adapters at once. `load` and `save` read and write the files of PEFT.
"""

from namedax.interop.adapted_trees import attach, merge, select, stack
from namedax.interop.adapters import Adapted, Adapter, init
from namedax.interop.low_rank import dot, einsum
from namedax.interop.peft import load, save

__all__ = [
    "Adapted",
    "Adapter",
    "attach",
    "dot",
    "einsum",
    "init",
    "load",
    "merge",
    "save",
    "select",
    "stack",
]


def __dir__() -> list[str]:
    return __all__
