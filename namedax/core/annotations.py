"""What functions take and return, as annotations say it.

A result without any name is a plain `jax.Array` (law 6), so most results are an `Array`, which is either. Where all names of the arguments
stay, a function says `LikeArguments`: a `NamedArray` if one of its arrays is one. To Python and to mypy the two are the same; the stubs
(`tools/stubs.py`) make overloads of the second.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import jax
import jax.typing

from namedax.core.array import NamedArray

__all__ = ["Array", "ArrayLike", "Axis", "LikeArguments"]

#: A result: named, or plain where no name is left.
Array: TypeAlias = NamedArray | jax.Array
#: A result that has all names of the array arguments.
LikeArguments: TypeAlias = NamedArray | jax.Array
#: An operand: named, or whatever JAX takes for an array.
ArrayLike: TypeAlias = NamedArray | jax.typing.ArrayLike
#: A position, a name, a sequence or set of both, `None` for all positional axes, `...` for all axes.
Axis: TypeAlias = Hashable | Sequence[Hashable] | AbstractSet[Hashable] | ValuesView[Hashable]
