# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The operators and methods of `NamedArray`, as a type checker sees them. There is no such module when a program runs."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from namedax.core.annotations import Array, ArrayLike, Axis
from namedax.core.array import NamedArray
from namedax.ops.indexing.updates import At

class Methods:
    def __add__(self, other: ArrayLike, /) -> NamedArray: ...
    def __radd__(self, other: ArrayLike, /) -> NamedArray: ...
    def __sub__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rsub__(self, other: ArrayLike, /) -> NamedArray: ...
    def __mul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rmul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __truediv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rtruediv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __floordiv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rfloordiv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __mod__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rmod__(self, other: ArrayLike, /) -> NamedArray: ...
    def __pow__(self, exponent: ArrayLike, /) -> NamedArray: ...
    def __rpow__(self, other: ArrayLike, /) -> NamedArray: ...
    def __and__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rand__(self, other: ArrayLike, /) -> NamedArray: ...
    def __or__(self, other: ArrayLike, /) -> NamedArray: ...
    def __ror__(self, other: ArrayLike, /) -> NamedArray: ...
    def __xor__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rxor__(self, other: ArrayLike, /) -> NamedArray: ...
    def __lshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rlshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rrshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __eq__(self, other: object, /) -> NamedArray: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> NamedArray: ...  # type: ignore[override]
    def __lt__(self, other: ArrayLike, /) -> NamedArray: ...
    def __le__(self, other: ArrayLike, /) -> NamedArray: ...
    def __gt__(self, other: ArrayLike, /) -> NamedArray: ...
    def __ge__(self, other: ArrayLike, /) -> NamedArray: ...
    def __neg__(self) -> NamedArray: ...
    def __pos__(self) -> NamedArray: ...
    def __abs__(self) -> NamedArray: ...
    def __invert__(self) -> NamedArray: ...
    def __divmod__(self, other: ArrayLike, /) -> tuple[NamedArray, NamedArray]: ...
    def __rdivmod__(self, other: ArrayLike, /) -> tuple[NamedArray, NamedArray]: ...
    def __round__(self, ndigits: int | None = None, /) -> NamedArray: ...
    def __matmul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rmatmul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __iter__(self) -> Iterator[NamedArray]: ...
    def astype(self, dtype: Any) -> NamedArray:
        """The values as another element type."""
    @property
    def at(self) -> At:
        """`x.at`: entries of `x`, to be read with a mode or to be changed, as `jax.Array.at`, but by name."""
    def copy(self) -> NamedArray:
        """A copy of the array."""
    def dot(
        self,
        y: ArrayLike,
        axis: Axis,
        *,
        precision: Any = None,
        preferred_element_type: Any = None,
        overlap: Any = None,
    ) -> Array:
        """Contraction of two arrays over the given names; all other axes are broadcast.

        `nx.numpy.dot` is another function: it contracts positions, the last axis of one with the last but one of the other, and names are
        batch axes.

        Args:
          x: a named array.
          y: a named array.
          axis: a name, or a tuple of names, that both arrays have.
          precision: as in `jax.lax.dot_general`.
          preferred_element_type: the type to accumulate in and to return; by default that of the
            operands.
          overlap: as in `einsum`; useful where an operand's axis must move to meet the other operand.

        Returns:
          An array with all names of both but the contracted ones. At most one operand has positional axes, or those of both are
          equal and meet elementwise; for outer products of positional axes use `einsum`.

        Over a sharded name: one all-reduce of the result.

        Raises:
          AxisNotFoundError: an operand lacks a name.
          AxisNameError: a name is given twice.
          AxisSizeError: a name has two sizes.
          PositionalAxisError: both operands have positional axes, of different shapes.
          PlacementConflictError: two names on one mesh axis meet.
        """
    def rename(self, names: Mapping[Hashable, Hashable] | None = None, /, **more: Hashable) -> NamedArray:
        """`nx.rename` of this array: `x.rename({"old": "new"})` or `x.rename(old="new")`."""
    def repeat(
        self,
        repeats: Any,
        axis: Axis = None,
        *,
        total_repeat_length: int | None = None,
        out_axis: Hashable | None = None,
        **sizes: int,
    ) -> Array:
        """Repeats an array along new axes, by a pattern, or its entries along an axis that it has.

        With a pattern, `repeat(x, "{k} -> {batch, k}", batch=3)`, it rearranges, and repeats the array along the axes that stand on the right
        only, as einops does. With a number, `repeat(x, 2, "k")`, it is `nx.numpy.repeat`. So is the method `x.repeat`.

        Args:
          x: an array, named or not.
          repeats: a pattern as in `rearrange`, whose right side may have sizes: `"h w -> h (w 2)"`; or how often each entry is there: a number,
            or an integer array with one for each.
          axis: without a pattern: a position or a name; `None`: the flattened positional axes. It must be given where all axes have names.
          total_repeat_length: as in `nx.numpy.repeat`.
          out_axis: as in `nx.numpy.repeat`: the name of the axis in the result.
          **sizes: with a pattern: as in `rearrange`; a new name takes its size from the mapped function if it is not given.

        Returns:
          The repeated array. Along a sharded new axis every device makes its own block, and nothing is sent. Entries along an axis: see
          `nx.numpy.repeat`.

        Raises:
          RearrangeError: as in `rearrange`, or a new axis has no size.
          ArgumentTypeError: sizes are given without a pattern.
        """
    def round(self, decimals: int = 0) -> NamedArray:
        """The values rounded to `decimals` decimals."""
    def squeeze(self, axis: Axis = None) -> Array:
        """Removes axes of size 1.

        Args:
          a: an array, named or not.
          axis: a name, a position, or a tuple of both; `None`: all positional axes of size 1. It must be given where all axes have names.

        Returns:
          The array without these axes. Moves nothing.

        Raises:
          AxisNotFoundError: the array lacks a name.
          AxisSizeError: an axis has a different size.
        """
    def take(
        self, indices: ArrayLike, axis: Axis = None, *, mode: str | None = None, fill_value: ArrayLike | None = None,
    ) -> Array:
        """Entries of `x` along one axis.

        Args:
          x: an array, named or not.
          indices: integers, named or not; axes that `x` has too are batch axes. They may have the axis that is read; the result
            then has it as `indices` does.
          axis: a name, or a position among the positional axes of `x`; `None`: all positional axes as one. It
            must be given where all axes have names.
          mode: what an index out of range gives: `"fill"` or `None` (NaN, or the least integer, or `fill_value`), `"clip"` or
            `"wrap"`. Negative indices count from the end, but not with `"clip"`.
          fill_value: what to fill with.

        Returns:
          The axes of `x` without `axis`, and those of `indices`. Positional axes of `indices` stand where a positional `axis`
          stood, and in front of the others if `axis` is a name.

        Over a sharded name: one all-reduce of the result; the table is not moved, nor is its gradient. If `indices` has that axis,
        one all-gather of the indices and one reduce-scatter of what all of them ask for.

        Raises:
          AxisNotFoundError: `x` lacks the name.
          AxisSizeError: an axis has two sizes.
          PlacementConflictError: `indices` has another axis on the mesh axis that `axis` is on.
        """
    @property
    def T(self) -> NamedArray:
        """The positional axes in reverse order."""
    @property
    def mT(self) -> NamedArray:
        """The last two positional axes swapped."""
    @property
    def real(self) -> NamedArray:
        """The real part."""
    @property
    def imag(self) -> NamedArray:
        """The imaginary part."""
    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> NamedArray:
        """Clip array values to a specified range.

        The named version of `jnp.clip`, with the same arguments. Arrays may have named axes: positional axes broadcast by position, named
        axes by name, and the result has the names of all of them. Moves no data between devices.
        """
    def conj(self) -> NamedArray:
        """Alias of :func:`jax.numpy.conjugate`

        The named version of `jnp.conj`, with the same arguments. Arrays may have named axes: positional axes broadcast by position, named
        axes by name, and the result has the names of all of them. Moves no data between devices.
        """
    def conjugate(self) -> NamedArray:
        """Return element-wise complex-conjugate of the input.

        The named version of `jnp.conjugate`, with the same arguments. Arrays may have named axes: positional axes broadcast by position, named
        axes by name, and the result has the names of all of them. Moves no data between devices.
        """
    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        promote_integers: bool = True,
    ) -> Array:
        """Sum over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a position, a name, or a tuple of both; `...` means all axes, `None` all positional ones. For an array that has
            names and no positional axis it must be given.
          dtype: element type of the result, as in `jnp.sum`.
          keepdims: whether reduced positional axes stay, with size 1. Reduced names always go.
          initial: a number to begin with.
          where: a boolean array, named or not; elements where it is false are left out.
          promote_integers: whether narrow integers are added up as `int`, as in `jnp.sum`.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no name remains.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def mean(
        self, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, where: ArrayLike | None = None,
    ) -> Array:
        """Mean over positional and named axes. Arguments as for `sum`."""
    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        mean: Any = None,
        correction: float | None = None,
    ) -> Array:
        """The variance over positional and named axes together.

        Args:
          x: an array, named or not.
          axis: a position, a name, or a tuple of both; `None` means all positional axes, `...` all axes.
          dtype: element type of the result.
          ddof: what is subtracted from the count.
          keepdims: whether reduced positional axes stay, with size 1.
          where: a boolean array, named or not; elements where it is false are left out.
          mean: the mean, if it is known already: an array that broadcasts with `x`, as `nx.mean(x, axis, keepdims=True)` does. The
            deviations from it are squared, whatever it is.
          correction: the array API's word for `ddof`.

        Returns:
          An array with the remaining axes. Over a sharded name: two all-reduces, or one if `mean` is given.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          ArgumentError: `ddof` and `correction` are both given.
        """
    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        mean: Any = None,
        correction: float | None = None,
    ) -> Array:
        """The standard deviation over positional and named axes together. Arguments and costs as for `var`."""
    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        promote_integers: bool = True,
    ) -> Array:
        """Product over positional and named axes. Arguments as for `sum`.

        Over a sharded name the partial products, one per device, are gathered: XLA has no all-reduce for products.
        """
    def max(
        self,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Maximum over positional and named axes. NaN wins; ties share the gradient equally, as in `jnp`, sharded or not.

        Args beyond those of `sum`:
          initial: a scalar that takes part in the maximum; needed with `where`.
        """
    def min(
        self,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Minimum over positional and named axes; see `max`."""
    def any(self, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike | None = None) -> Array:
        """Whether any element is true, over positional and named axes. Arguments as for `sum`."""
    def all(self, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike | None = None) -> Array:
        """Whether all elements are true, over positional and named axes. Arguments as for `sum`."""
    def argmax(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Index of the first maximum along an axis, a position or a name (`None`: in the flattened positional axes).

        Along several axes, a tuple, the index counts row-major in the order given; `...` is one axis here, since names have no order to
        count by. Along a sharded name the index counts in the whole axis, not in the block.
        """
    def argmin(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Index of the first minimum along one axis; see `argmax`."""
    def ptp(self, axis: Axis = None, *, keepdims: bool = False) -> Array:
        """Maximum minus minimum. Arguments as for `nx.max`, costs those of both."""
    def cumsum(self, axis: Axis = None, dtype: Any = None, *, reverse: bool = False) -> NamedArray:
        """Cumulative sum along one axis.

        Args:
          x: an array, named or not.
          axis: a position or a name; `None` means the flattened positional axes, as in `jnp.cumsum`. It must be given where all axes have names.
          dtype: element type of the result, as in `jnp.cumsum`.
          reverse: whether to begin at the end of the axis.

        Returns:
          An array with the axes of `x`.

        Along a sharded name: one all-gather of the sums of the blocks, one entry per device and row. The gradient, a cumulative sum
        from the other end, adds one reduce-scatter of the same size.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          PositionalAxisError: `axis` is not one axis, or out of range.
        """
    def cumprod(self, axis: Axis = None, dtype: Any = None, *, reverse: bool = False) -> NamedArray:
        """Cumulative product along one axis; arguments and costs as for `cumsum`."""
    def sort(
        self, axis: Axis = -1, *, kind: None = None, order: None = None, stable: bool = True, descending: bool = False,
    ) -> NamedArray:
        """The values in ascending order along one axis, NaN last.

        Args:
          x: an array, named or not.
          axis: a position or a name; `None` means the flattened positional axes, as in `jnp.sort`.
          kind: not supported, as in `jnp.sort`.
          order: not supported, as in `jnp.sort`.
          stable: as in `jnp.sort`: whether ties keep their order, which shows in the gradient only.
          descending: whether to begin with the largest (and with NaN).

        Returns:
          An array with the axes of `x`.

        Along a sharded name: a sorting network over the devices, with 1, 3, 6 collective-permutes of the block over 2, 4, 8
        devices; the axis is never gathered. With a gradient the indices travel too, and the gradient sends the blocks back in as
        many. (16-bit floats travel as 32 bits where the axis has more than 1,022 entries, or 126 for `bfloat16`.)

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          PositionalAxisError: `axis` is not one axis, or out of range.
        """
    def argsort(
        self,
        axis: Axis = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
        dtype: Any = None,
    ) -> NamedArray:
        """The indices that sort along one axis; ties in their order, NaN last.

        Args:
          x: an array, named or not.
          axis: a position or a name; `None` means the flattened positional axes, as in `jnp.argsort`.
          kind: not supported, as in `jnp.argsort`.
          order: not supported, as in `jnp.argsort`.
          stable: as in `jnp.argsort`; along a sharded name the order is stable anyway.
          descending: whether to begin with the largest (and with NaN); ties are in their order then too.
          dtype: element type of the indices.

        Returns:
          Integers with the axes of `x`. Along a sharded name they count in the whole axis.

        Sharded: as for `sort`, of the values and as many indices.
        """
    def reshape(self, *args: Any, order: str = 'C', out_sharding: Any = None) -> NamedArray:
        """`jax.Array.reshape` over the positional axes; names are batch axes.

        Return a reshaped copy of an array.
        """
    def ravel(self, order: str = 'C', *, out_sharding: Any = None) -> NamedArray:
        """`jax.Array.ravel` over the positional axes; names are batch axes.

        Flatten array into a 1-dimensional shape.
        """
    def flatten(self, order: str = 'C', *, out_sharding: Any = None) -> NamedArray:
        """`jax.Array.flatten` over the positional axes; names are batch axes."""
    def swapaxes(self, axis1: Axis, axis2: Axis) -> NamedArray:
        """`jax.Array.swapaxes` over the positional axes; names are batch axes.

        Swap two axes of an array.
        """
    def transpose(self, *args: Any) -> NamedArray:
        """`jax.Array.transpose` over the positional axes; names are batch axes.

        Return a transposed version of an N-dimensional array.
        """
    def diagonal(self, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> NamedArray:
        """`jax.Array.diagonal` over the positional axes; names are batch axes.

        Returns the specified diagonal of an array.
        """
    def trace(
        self, offset: int | ArrayLike = 0, axis1: Axis = 0, axis2: Axis = 1, dtype: Any = None, out: None = None,
    ) -> NamedArray:
        """`jax.Array.trace` over the positional axes; names are batch axes.

        Calculate sum of the diagonal of input along the given axes.
        """
