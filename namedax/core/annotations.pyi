# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The aliases of `annotations.py`, with results as type checkers of other code see them."""

from collections.abc import Hashable, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import jax
import jax.typing

from namedax.core.array import NamedArray
from namedax.core.results import PlainArray

#: A result: a `NamedArray`, or a plain array if no named axis is left.
AnyArray: TypeAlias = NamedArray | PlainArray
#: An argument that is an array, named or not.
EitherArray: TypeAlias = NamedArray | jax.Array
#: A result that has all names of the array arguments.
LikeArguments: TypeAlias = NamedArray | jax.Array
#: An operand: a `NamedArray`, or anything that JAX accepts as an array.
ArrayLike: TypeAlias = NamedArray | jax.typing.ArrayLike
#: A position, an axis name, a sequence or set of both, `None` for all positional axes, or `...` for
#: all axes.
AxisSpec: TypeAlias = Hashable | Sequence[Hashable] | AbstractSet[Hashable] | ValuesView[Hashable]
