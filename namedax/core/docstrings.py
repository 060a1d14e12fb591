"""Join docstrings from parts.

Python 3.13 has unindented the parts that were written as docstrings.
"""

from __future__ import annotations

import inspect

__all__ = ["joined"]


def joined(*parts: str | None) -> str:
    r"""Return one docstring of parts, each indented or not.

    >>> joined("The sum.\n\n    Of all.", "\n    Args:\n      x: an array.\n    ")
    'The sum.\n\nOf all.\n\nArgs:\n  x: an array.'
    """
    return "\n\n".join(inspect.cleandoc(part) for part in parts if part)
