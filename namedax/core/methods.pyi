# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The operators and methods of `NamedArray`, for type checkers. The module does not exist at run time."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Literal

import jax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.array import NamedArray
from namedax.core.names import DType
from namedax.ops.indexing.updates import At
from namedax.resources.wire import Wire

class Methods:
    def __add__(self, other: ArrayLike, /) -> NamedArray: ...
    def __sub__(self, other: ArrayLike, /) -> NamedArray: ...
    def __mul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __truediv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __floordiv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __mod__(self, other: ArrayLike, /) -> NamedArray: ...
    def __pow__(self, exponent: ArrayLike, /) -> NamedArray: ...
    def __and__(self, other: ArrayLike, /) -> NamedArray: ...
    def __or__(self, other: ArrayLike, /) -> NamedArray: ...
    def __xor__(self, other: ArrayLike, /) -> NamedArray: ...
    def __lshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __eq__(self, other: object, /) -> NamedArray: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> NamedArray: ...  # type: ignore[override]
    def __lt__(self, other: ArrayLike, /) -> NamedArray: ...
    def __le__(self, other: ArrayLike, /) -> NamedArray: ...
    def __gt__(self, other: ArrayLike, /) -> NamedArray: ...
    def __ge__(self, other: ArrayLike, /) -> NamedArray: ...
    def __radd__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rsub__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rmul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rtruediv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rfloordiv__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rmod__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rpow__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rand__(self, other: ArrayLike, /) -> NamedArray: ...
    def __ror__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rxor__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rlshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rrshift__(self, other: ArrayLike, /) -> NamedArray: ...
    def __neg__(self) -> NamedArray: ...
    def __pos__(self) -> NamedArray: ...
    def __abs__(self) -> NamedArray: ...
    def __invert__(self) -> NamedArray: ...
    def __divmod__(self, other: ArrayLike, /) -> tuple[NamedArray, NamedArray]: ...
    def __rdivmod__(self, other: Any, /) -> tuple[NamedArray, NamedArray]: ...
    def __round__(self, ndigits: int | None = None, /) -> NamedArray: ...
    def __matmul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __rmatmul__(self, other: ArrayLike, /) -> NamedArray: ...
    def __getitem__(self, index: object, /) -> AnyArray: ...
    def __iter__(self) -> Iterator[NamedArray]: ...
    def astype(self, dtype: DType) -> NamedArray:
        """Convert the values to the dtype `dtype`."""
    @property
    def at(self) -> At:
        """Select elements of `x` for a read with a mode or for an update, as `jax.Array.at`, by name."""
    def copy(self) -> NamedArray:
        """Copy the array."""
    def dot(
        self,
        y: ArrayLike,
        axis: AxisSpec,
        *,
        precision: jax.lax.PrecisionLike = None,
        preferred_element_type: DType | None = None,
        overlap: Literal[False, True, 'bidirectional'] | None = None,
    ) -> AnyArray:
        """Contract two arrays over the given named axes, and broadcast the other axes.

        `nx.numpy.dot` is another function. It contracts the last positional axis of one operand with
        the last but one of the other, and its named axes are batch axes.

        Args:
          x: a named array.
          y: a named array.
          axis: an axis name, or a tuple of names, that both arrays have.
          precision: as in `jax.lax.dot_general`; by default `None`.
          preferred_element_type: the dtype to accumulate in and to return; by default the dtype of the
            operands.
          overlap: as in `einsum`, by default the setting of `xmap`; useful if an operand must be
            resharded for the contraction.

        Returns:
          An array with all axes of both operands except the contracted ones. At most one operand has
          positional axes, or both have equal positional shapes, which multiply elementwise; for outer
          products of positional axes use `einsum`.

        Communication: over a sharded axis, one all-reduce of the result.

        Raises:
          AxisNotFoundError: an operand lacks an axis.
          AxisNameError: an axis is given twice.
          AxisSizeError: an axis has two sizes.
          PositionalAxisError: both operands have positional axes, of different shapes.
          PlacementConflictError: two axes of one value are sharded over one mesh axis.
        """
    def rename(
        self,
        names: Mapping[Hashable, Hashable] | None = None,
        /,
        *,
        wire: Literal['bf16', 'float8_e4m3', 'int8'] | Wire | None = None,
        **more: Hashable,
    ) -> NamedArray:
        """Rename axes: `x.rename({"old": "new"})` or `x.rename(old="new")`; see `nx.rename`."""
    def repeat(
        self,
        repeats: Any,
        axis: AxisSpec = None,
        *,
        total_repeat_length: int | None = None,
        out_axis: Hashable | None = None,
        **sizes: int,
    ) -> AnyArray:
        """Repeat an array along new axes, by a pattern, or its elements along an existing axis.

        With a pattern, `repeat(x, "{k} -> {batch, k}", batch=3)`, it rearranges the array as in einops.
        The array is repeated along the axes that appear on the right only. With a number, `repeat(x, 2,
        "k")`, it is `nx.numpy.repeat`, like the method `x.repeat`.

        Args:
          x: an array, named or not.
          repeats: a pattern as in `rearrange`, in which the right side may have sizes: `"h w -> h (w
            2)"`. Otherwise the number of repetitions of each element: a number, or an integer array
            with one for each.
          axis: without a pattern, a positional or named axis; `None` (default) flattens the positional
            axes. Required if every axis is named.
          total_repeat_length: as in `nx.numpy.repeat`; by default `None`.
          out_axis: as in `nx.numpy.repeat`: the name of the axis in the result; by default `None`.
          **sizes: with a pattern, as in `rearrange`; a new named axis takes its size from the mapped
            function by default.

        Returns:
          The repeated array.

        Communication: along a sharded new axis, none; every device makes its own block. For elements
        along an axis, see `nx.numpy.repeat`.

        Raises:
          RearrangeError: as in `rearrange`, or a new axis has no size.
          ArgumentTypeError: sizes are given without a pattern.
        """
    def round(self, decimals: int = 0) -> NamedArray:
        """Round the values to `decimals` decimals; by default 0."""
    def squeeze(self, axis: AxisSpec = None) -> AnyArray:
        """Remove axes of size 1.

        Args:
          a: an array, named or not.
          axis: an axis name, a positional axis, or a tuple of both; `None` (default) selects all
            positional axes of size 1. Required if every axis is named.

        Returns:
          The array without these axes.

        Communication: none.

        Raises:
          AxisNotFoundError: the array lacks a named axis.
          AxisSizeError: an axis has a different size.
        """
    def take(
        self,
        indices: ArrayLike,
        axis: AxisSpec = None,
        *,
        mode: str | None = None,
        fill_value: ArrayLike | None = None,
    ) -> AnyArray:
        """Take elements of `x` along one axis.

        Args:
          x: an array, named or not.
          indices: integers, named or not; axes that `x` has too are batch axes. They may have the
            indexed axis; the result then has it with their size.
          axis: an axis name, or a positional axis of `x`; `None` (default) flattens all positional
            axes. Required if every axis is named.
          mode: the result for an index out of range: `"fill"` or `None`, the default (NaN, or the least
            integer, or `fill_value`), `"clip"` or `"wrap"`. Negative indices count from the end, except
            with `"clip"`.
          fill_value: the fill value, by default `None`.

        Returns:
          The axes of `x` without `axis`, and the axes of `indices`. Positional axes of `indices`
          replace a positional `axis`, and come first if `axis` is a name.

        Communication: over a sharded axis, one all-reduce of the result; neither the table nor its
        gradient is moved. If `indices` has that axis, one all-gather of the indices and one
        reduce-scatter of the elements that all of them request.

        Raises:
          AxisNotFoundError: `x` lacks the axis.
          AxisSizeError: an axis has two sizes.
          PlacementConflictError: `indices` has another axis that is sharded over the mesh axis of
            `axis`.
        """
    @property
    def T(self) -> NamedArray:
        """Reverse the positional axes."""
    @property
    def mT(self) -> NamedArray:
        """Swap the last two positional axes."""
    @property
    def real(self) -> NamedArray:
        """Return the real part."""
    @property
    def imag(self) -> NamedArray:
        """Return the imaginary part."""
    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> NamedArray:
        """Clip array values to a specified range.

        The named version of `jnp.clip`, with the same arguments. Positional axes broadcast
        by position, and named axes by name.

        Args:
          arr: N-dimensional array to be clipped.
          min: optional minimum value of the clipped range; if ``None`` (default) then
            result will not be clipped to any minimum value. If specified, it should be
            broadcast-compatible with ``arr`` and ``max``.
          max: optional maximum value of the clipped range; if ``None`` (default) then
            result will not be clipped to any maximum value. If specified, it should be
            broadcast-compatible with ``arr`` and ``min``.

        Returns:
          An array containing values from ``arr``, with values smaller than ``min`` set
          to ``min``, and values larger than ``max`` set to ``max``.
          Wherever ``min`` is larger than ``max``, the value of ``max`` is returned.

          It has the names of all operands.

        Communication: none.
        """
    def conj(self) -> NamedArray:
        """Return element-wise complex-conjugate of the input.

        The named version of `jnp.conj`, with the same arguments. Positional axes broadcast
        by position, and named axes by name.

        Args:
          x: inpuat array or scalar.

        Returns:
          An array containing the complex-conjugate of ``x``.

          It has the names of all operands.

        Communication: none.
        """
    def conjugate(self) -> NamedArray:
        """Return element-wise complex-conjugate of the input.

        The named version of `jnp.conjugate`, with the same arguments. Positional axes broadcast
        by position, and named axes by name.

        Args:
          x: inpuat array or scalar.

        Returns:
          An array containing the complex-conjugate of ``x``.

          It has the names of all operands.

        Communication: none.
        """
    def sum(
        self,
        axis: AxisSpec = None,
        dtype: DType | None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        promote_integers: bool = True,
    ) -> AnyArray:
        """Sum over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          dtype: the dtype of the result, as in `jnp.sum`; by default `None`.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          initial: the initial value of the sum, by default `None`.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.
          promote_integers: if `True` (default), narrow integers are summed as `int`, as in `jnp.sum`.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no named axis remains.

        Communication: over a sharded axis, one all-reduce of the result. The gradient adds none.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def mean(
        self,
        axis: AxisSpec = None,
        dtype: DType | None = None,
        *,
        keepdims: bool = False,
        where: ArrayLike | None = None,
    ) -> AnyArray:
        """Average over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          dtype: the dtype of the result, as in `jnp.mean`; by default `None`.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no named axis remains.

        Communication: over a sharded axis, one all-reduce of the result; with `where`, it also counts
        the elements. The gradient adds none.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def var(
        self,
        axis: AxisSpec = None,
        dtype: DType | None = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> AnyArray:
        """Compute the variance over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          dtype: the dtype of the result, as in `jnp.var`; by default `None`.
          ddof: the number that is subtracted from the count of elements, by default 0.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.
          mean: the mean, if it is already known, by default `None`: an array that broadcasts with `x`,
            such as `nx.mean(x, axis, keepdims=True)`. Deviations are taken from it, whatever its value.
          correction: the array API's name for `ddof`, by default `None`.

        Returns:
          An array with the remaining axes.

        Communication: over a sharded axis two all-reduces, or one if `mean` is given.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          ArgumentError: `ddof` and `correction` are both given.
        """
    def std(
        self,
        axis: AxisSpec = None,
        dtype: DType | None = None,
        *,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> AnyArray:
        """Compute the standard deviation over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          dtype: the dtype of the result, as in `jnp.std`; by default `None`.
          ddof: the number that is subtracted from the count of elements, by default 0.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.
          mean: the mean, if it is already known, by default `None`; as for `nx.var`.
          correction: the array API's name for `ddof`, by default `None`.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no named axis remains.

        Communication: as for `nx.var`.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          ArgumentError: `ddof` and `correction` are both given.
        """
    def prod(
        self,
        axis: AxisSpec = None,
        dtype: DType | None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        promote_integers: bool = True,
    ) -> AnyArray:
        """Multiply over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          dtype: the dtype of the result, as in `jnp.prod`; by default `None`.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          initial: the initial value of the product, by default `None`.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.
          promote_integers: if `True` (default), narrow integers are multiplied as `int`, as in
            `jnp.prod`.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no named axis remains.

        Communication: over a sharded axis, one all-gather of the partial products, one per device,
        because XLA has no all-reduce for products.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def any(
        self, axis: AxisSpec = None, *, keepdims: bool = False, where: ArrayLike | None = None,
    ) -> AnyArray:
        """Return True if any element is true, over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.

        Returns:
          A boolean array with the remaining axes.

        Communication: over a sharded axis, one all-reduce of the result.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def all(
        self, axis: AxisSpec = None, *, keepdims: bool = False, where: ArrayLike | None = None,
    ) -> AnyArray:
        """Return True if all elements are true, over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.

        Returns:
          A boolean array with the remaining axes.

        Communication: over a sharded axis, one all-reduce of the result.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def max(
        self,
        axis: AxisSpec = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> AnyArray:
        """Take the maximum over positional and named axes.

        A NaN is the maximum. Ties share the gradient equally, as in `jnp`, sharded or not.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both, as for `sum`; by default `None`,
            all positional axes.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          initial: a scalar that takes part in the maximum, by default `None`; required with `where`.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no named axis remains.

        Communication: over a sharded axis, one all-reduce of the result. The gradient adds one, which
        counts the ties.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def min(
        self,
        axis: AxisSpec = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> AnyArray:
        """Take the minimum over positional and named axes.

        A NaN is the minimum. Ties share the gradient equally, as in `jnp`, sharded or not.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.
          initial: a scalar that takes part in the minimum, by default `None`; required with `where`.
          where: a boolean array, named or not, by default `None`; elements where it is false are
            excluded.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no named axis remains.

        Communication: as for `nx.max`.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def argmax(self, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
        """Return the index of the first maximum along a positional or named axis.

        Along a sharded axis the index refers to the complete axis, not to the block.

        Args:
          x: an array, named or not.
          axis: a positional or named axis; `None` (default) flattens the positional axes. Along several
            axes, a tuple, the index is row-major in the given order. `...` must stand for a single
            axis, since named axes have no order. Required if every axis is named.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.

        Returns:
          Integers with the remaining axes.

        Communication: over a sharded axis, two all-reduces of the size of the result.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def argmin(self, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
        """Return the index of the first minimum along a positional or named axis.

        Along a sharded axis the index refers to the complete axis, not to the block.

        Args:
          x: an array, named or not.
          axis: a positional or named axis; `None` (default) flattens the positional axes. Along several
            axes, a tuple, the index is row-major in the given order. `...` must stand for a single
            axis, since named axes have no order. Required if every axis is named.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.

        Returns:
          Integers with the remaining axes.

        Communication: as for `nx.argmax`.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def ptp(self, axis: AxisSpec = None, *, keepdims: bool = False) -> AnyArray:
        """Compute the maximum minus the minimum over positional and named axes.

        Args:
          x: an array, named or not.
          axis: a positional axis, an axis name, or a tuple of both; `...` selects all axes, `None`
            (default) all positional ones. Required if every axis is named.
          keepdims: if `True`, reduced positional axes remain with size 1; by default `False`. Reduced
            named axes are removed.

        Returns:
          An array with the remaining axes; a plain `jax.Array` if no named axis remains.

        Communication: over a sharded axis, one all-reduce for the maximum and one for the minimum; the
        gradient adds one for each.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
        """
    def cumsum(
        self, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
    ) -> NamedArray:
        """Compute the cumulative sum along one axis.

        Args:
          x: an array, named or not.
          axis: a positional or named axis; `None` (default) flattens the positional axes, as in
            `jnp.cumsum`. Required if every axis is named.
          dtype: the dtype of the result, as in `jnp.cumsum`; by default `None`.
          reverse: if `True`, accumulate from the end of the axis; by default `False`.

        Returns:
          An array with the axes of `x`.

        Communication: along a sharded axis, one all-gather of the sums of the blocks, one element per
        device and row. The gradient, a cumulative sum from the other end, adds one reduce-scatter of
        the same size.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          PositionalAxisError: `axis` is not a single axis, or is out of range.
        """
    def cumprod(
        self, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
    ) -> NamedArray:
        """Compute the cumulative product along one axis.

        Args:
          x: an array, named or not.
          axis: a positional or named axis; `None` (default) flattens the positional axes. Required if
            every axis is named.
          dtype: the dtype of the result, as in `jnp.cumprod`; by default `None`.
          reverse: if `True`, accumulate from the end of the axis; by default `False`.

        Returns:
          An array with the axes of `x`.

        Communication: as for `nx.cumsum`.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          PositionalAxisError: `axis` is not a single axis, or is out of range.
        """
    def sort(
        self,
        axis: AxisSpec = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> NamedArray:
        """Sort values in ascending order along one axis, NaN last.

        Args:
          x: an array, named or not.
          axis: a positional or named axis, by default -1; `None` flattens the positional axes, as in
            `jnp.sort`.
          kind: not supported, as in `jnp.sort`; by default `None`.
          order: not supported, as in `jnp.sort`; by default `None`.
          stable: if `True` (default), ties keep their order, as in `jnp.sort`; this affects only the
            gradient.
          descending: if `True`, sort from the largest (and NaN); by default `False`.

        Returns:
          An array with the axes of `x`.

        Communication: along a sharded axis, two all-to-alls of the block if the array has another axis
        whose block divides over the devices; the gradient sends the same. Otherwise columnsort: two
        all-to-alls and two collective-permutes of half a block. Two devices, short blocks and uneven
        ones take a sorting network, with 1, 3, 6 collective-permutes of the block over 2, 4, 8 devices.
        The axis is never gathered. With a gradient the indices are sent too, and the gradient sends the
        blocks back in the same steps. Floats of 16 bits are sent as 32 bits if the axis has more than
        1,022 elements, or 126 for `bfloat16`.

        Raises:
          AxisNotFoundError: `x` has no axis of that name.
          PositionalAxisError: `axis` is not a single axis, or is out of range.
        """
    def argsort(
        self,
        axis: AxisSpec = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
        dtype: DType | None = None,
    ) -> NamedArray:
        """Return the indices that sort along one axis; ties keep their order, NaN last.

        Args:
          x: an array, named or not.
          axis: a positional or named axis, by default -1; `None` flattens the positional axes, as in
            `jnp.argsort`.
          kind: not supported, as in `jnp.argsort`; by default `None`.
          order: not supported, as in `jnp.argsort`; by default `None`.
          stable: as in `jnp.argsort`, by default `True`; along a sharded axis the order is always
            stable.
          descending: if `True`, sort from the largest (and NaN), with ties still in order; by default
            `False`.
          dtype: the dtype of the indices, by default the default integer.

        Returns:
          Integers with the axes of `x`; along a sharded axis, global indices.

        Communication: as for `sort`. With a free axis the values are sent there and the indices back,
        without one both in each step.
        """
    def reshape(self, *args: Any, order: str = 'C', out_sharding: object = None) -> NamedArray:
        """`jax.Array.reshape` over the positional axes; names are batch axes.

        Return a reshaped copy of an array.
        """
    def ravel(self, order: str = 'C', *, out_sharding: object = None) -> NamedArray:
        """`jax.Array.ravel` over the positional axes; names are batch axes.

        Flatten array into a 1-dimensional shape.
        """
    def flatten(self, order: str = 'C', *, out_sharding: object = None) -> NamedArray:
        """`jax.Array.flatten` over the positional axes; names are batch axes."""
    def swapaxes(self, axis1: int, axis2: int) -> NamedArray:
        """`jax.Array.swapaxes` over the positional axes; names are batch axes.

        Swap two axes of an array.
        """
    def transpose(self, *args: Any) -> NamedArray:
        """`jax.Array.transpose` over the positional axes; names are batch axes.

        Return a transposed version of an N-dimensional array.
        """
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> NamedArray:
        """`jax.Array.diagonal` over the positional axes; names are batch axes.

        Returns the specified diagonal of an array.
        """
    def trace(
        self,
        offset: ArrayLike = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DType | None = None,
        out: None = None,
    ) -> NamedArray:
        """`jax.Array.trace` over the positional axes; names are batch axes.

        Calculate sum of the diagonal of input along the given axes.
        """
