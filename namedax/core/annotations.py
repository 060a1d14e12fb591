"""Type annotations of arguments and results.

A result without named axes is a plain `jax.Array` (law 6), so most results are an `AnyArray`,
which is either. A function that keeps all names of its arguments returns `LikeArguments`: a
`NamedArray` if one of its arrays is one. Python and mypy treat the two as the same type. The stubs
(`tools/stubs.py`) turn the second into overloads. Type checkers of other code read
`annotations.pyi`, where a result has the attributes of both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import jax
import jax.typing

from namedax.core.array import NamedArray

__all__ = ["AnyArray", "ArrayLike", "AxisSpec", "EitherArray", "LikeArguments"]

#: A result: a `NamedArray`, or a plain array if no named axis is left.
AnyArray: TypeAlias = NamedArray | jax.Array
#: An argument that is an array, named or not.
EitherArray: TypeAlias = NamedArray | jax.Array
#: A result that has all names of the array arguments.
LikeArguments: TypeAlias = NamedArray | jax.Array
#: An operand: a `NamedArray`, or anything that JAX accepts as an array.
ArrayLike: TypeAlias = NamedArray | jax.typing.ArrayLike
#: A position, an axis name, a sequence or set of both, `None` for all positional axes, or `...` for
#: all axes.
AxisSpec: TypeAlias = Hashable | Sequence[Hashable] | AbstractSet[Hashable] | ValuesView[Hashable]
