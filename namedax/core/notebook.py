"""Names of notebook cells.

The kernel names each cell by a hash, which means nothing to a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import ascii_uppercase

__all__ = ["cell_names"]

_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]\d+\.py$")


def cell_names(paths: Iterable[str]) -> dict[str, str]:
    """Return names for the files that are notebook cells, in order of first occurrence.

    >>> cell_names(["/tmp/ipykernel_41/97.py", "model.py"]), cell_names(["/tmp/ipykernel_41/97.py", "/tmp/ipykernel_41/12.py"])
    ({'/tmp/ipykernel_41/97.py': 'cell'}, {'/tmp/ipykernel_41/97.py': 'cell A', '/tmp/ipykernel_41/12.py': 'cell B'})
    """
    found = [path for path in dict.fromkeys(paths) if _CELL.search(path)]
    if len(found) == 1:
        return {found[0]: "cell"}
    return {path: f"cell {_letters(number)}" for number, path in enumerate(found)}


def _letters(number: int) -> str:
    """Return the letters of a number: A, B, ..., Z, AA, AB, ..."""
    before, last = divmod(number, len(ascii_uppercase))
    return (_letters(before - 1) if before else "") + ascii_uppercase[last]
