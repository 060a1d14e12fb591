# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The type of results without named axes, for type checkers.

The module does not exist at run time.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import jax

from namedax.core.methods import Methods
from namedax.core.names import Dims

# A result is a `NamedArray`, or a `jax.Array` if no named axis is left. Which one depends on axis
# names, which types do not have. With these attributes a checker accepts `nx.dot(x, y, "k").dims`.
class PlainArray(Methods, jax.Array):  # type: ignore[misc]
    """A `jax.Array` in place of a `NamedArray` without names, with the attributes of both."""

    @property
    def data(self) -> jax.Array: ...
    @property
    def dims(self) -> Dims: ...
    @property
    def named_shape(self) -> Mapping[Hashable, int]: ...
    def item(self, *args: int) -> Any: ...
    def tolist(self) -> Any: ...
