"""The named array: one `jax.Array` whose dimensions may have names.

A `NamedArray` holds `data` and `dims`, one entry of `dims` per dimension of `data`: an axis name,
or `None` for a positional axis. It is immutable. This module defines only the array itself.
`display` formats it, `namedax.ops.operands.pytree` registers it as a pytree with one leaf, and
`namedax.ops.namespaces.operators` adds its operators and methods.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, final

import jax
import numpy as np
from jax.extend.core import get_opaque_trace_state

from namedax.core.display import Shown, index_text, type_text, without_padding
from namedax.core.element_types import as_jax
from namedax.core.names import Dims, DType, check_dims
from namedax.core.padded_sharding import PaddedTail, StoredPadding
from namedax.core.placement_marks import mark_names
from namedax.core.protocol_hints import (
    EmptyShape,
    call_of_numpy,
    call_of_ufunc,
    for_a_format,
    for_a_number,
    for_membership,
    for_positions,
    for_protocol,
    for_truth,
    iteration_hint,
    raise_unhashable,
)
from namedax.core.region import Region, active_regions, ambient, check_regions_live, escaped_blocks
from namedax.errors import (
    ArgumentTypeError,
    ArrayAttributeError,
    AxisSizeError,
    NamedAxesLeftError,
    PositionalAxisError,
    StoredPaddingError,
    hints,
    reject_names,
    shape_of,
    show_names,
)
from namedax.messages.tracebacks import shorten_eager

__all__ = [
    "NamedArray",
    "Parts",
    "as_array",
    "dims_of",
    "get_data",
    "is_global",
    "is_named",
    "make",
    "make_block",
    "make_blocks",
    "make_in_region",
    "make_padded",
    "origin_of",
    "padding_of",
    "placeholder_remedy",
    "positions",
    "reject_assignment",
    "set_block",
    "stored_data",
    "true_values",
]


class _ArrayType(type):
    # JAX's functions format the type of an argument that they reject (f-string or `str.format`).
    # Only this text can add a remedy. `repr`, `str` and `print` show the class as Python does.
    def __format__(cls, spec: str) -> str:
        text = (
            f"<class 'namedax.{cls.__name__}', which JAX's own functions do not take: call"
            " nx.numpy's, or nx.nmap(function); and where trees differ in the order of names,"
            " nx.order_like(tree, like), in names, nx.rename>"
        )
        return format(text, spec)


if TYPE_CHECKING:
    # `namedax.ops.namespaces.operators` adds the operators and methods to the class. For type
    # checkers they are in a stub without a module (`make stubs`).
    from namedax.core.methods import Methods
else:

    class Methods:
        __slots__ = ()


class BlockInfo:
    """The origin of an array that was made in a mapped body, and its cached forms.

    They are valid only in the trace that made the array. A form from an inner trace would escape
    that trace.

    Attributes:
      trace: the trace.
      region: the region; the data are blocks along its names.
      form: the varying form of a gathered array (`namedax.core.variance`), or `None`.
      casts: the data cast to varying over more mesh axes, by these axes.
      computed: results that operations have computed from the array, by operation and arguments.
    """

    __slots__ = ("casts", "computed", "form", "region", "trace")

    def __init__(self, trace: object, region: Region):
        self.trace, self.region = trace, region
        self.form: Any = None
        self.casts: dict[frozenset[str], jax.Array] = {}
        self.computed: dict[Hashable, Any] = {}


class Parts:
    """The fields of an array.

    A new array is a `Parts`, whose fields can be set, and then becomes a `NamedArray`.

    An array that is stored padded has `_stored` instead of `_data`, and its padding in `_tail`. So
    code without support for stored padding raises where it reads `_data`, and never reads padding.
    """

    __slots__ = ("__weakref__", "_block", "_data", "_dims", "_stored", "_tail")

    _data: Any  # a `jax.Array`; JAX may put any object in its place
    _stored: Any  # the padded `jax.Array` of an array that is stored padded
    _dims: Dims
    _tail: Dims  # the dims from the first named one on; a pytree keeps these
    _block: BlockInfo | None


@final
class NamedArray(Shown, Methods, Parts, metaclass=_ArrayType):
    """An array with named and positional axes. Immutable.

    Make one with `nx.named`, or let `nx.xmap` make it from the arguments of your function. This
    constructor is the raw form: inside a mapped body `data` is the block of this device.

    Args:
      data: a `jax.Array`, or anything that `jnp.asarray` takes.
      dims: one entry per dimension of `data`: an axis name, or `None` for a positional axis.

    Raises:
      AxisNameError: an entry of `dims` is not a name, or a name appears twice.
      PositionalAxisError: `dims` and `data` have different lengths.
      PlacementConflictError: in a mapped body, two of the names are on one mesh axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.NamedArray(jnp.arange(6.0).reshape(2, 3), ("batch", None))
    >>> x.shape, x.ndim, x.size, dict(x.named_shape)
    ((3,), 1, 3, {'batch': 2})
    """

    __slots__ = ()
    __hash__ = raise_unhashable  # `==` is elementwise

    def __init__(self, data: object, dims: Dims):
        if isinstance(data, NamedArray):
            raise NamedAxesLeftError(
                f"NamedArray: data is a named array already, {type_text(data)}. Use nx.rename, or"
                " nx.named to name its positional axes."
            )
        data = data if isinstance(data, jax.Array) else as_jax("NamedArray", data)
        dims = check_dims(dims, "NamedArray")
        if len(dims) != data.ndim:
            raise PositionalAxisError(
                f"NamedArray: dims {dims} has {len(dims)} entries for data of shape {data.shape};"
                " it needs one entry per dimension, None for a positional one."
            )
        if (region := ambient()) is not None:
            region.check_placement("NamedArray", (dim for dim in dims if dim is not None))
        _set_data(self, data)
        _set_dims(self, dims)
        set_block(self, _new_block(region))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # An array that comes out of a pytree computes its dims on first access. An array that
            # has never been in a pytree computes its tail when it enters one.
            if name == "_data":
                reject_stored_padding(self)
            if name == "_dims":
                tail = _get_tail(self)
                try:
                    data = get_data(self)
                except AttributeError:
                    data = self._stored
                # JAX may put an object of any shape, or of none, in the place of an array.
                shape = (
                    data.shape
                    if isinstance(data, (jax.core.Tracer, jax.Array))
                    else shape_of(data) or ()
                )
                _set_dims(self, (None,) * (len(shape) - len(tail)) + tail)
                return self._dims
            if name == "_tail":
                _set_tail(self, tail_of(_get_dims(self)))
                return self._tail
            if name == "encoding":
                # xarray's operators recognize an operand with dims by this attribute. They take all
                # others by position, so `DataArray - x` would be an outer difference. No later call
                # could detect that, and xarray would swallow an AttributeError.
                raise ArgumentTypeError(
                    f"encoding: {type_text(self)} is not an operand of xarray, whose operators"
                    " would take it by position. Convert the other operand first,"
                    " nx.from_xarray(other), or this one with nx.to_xarray(x)."
                )
            if name.startswith("_"):  # protocols, which many libraries probe
                text = for_protocol(name, self)
                raise ArrayAttributeError(text, name=name, obj=self)
            names = self._names  # absent from an array that is not complete yet
            # its data lack the attribute: JAX puts objects other than arrays into a tree
            if hasattr(NamedArray, name):
                raise ArrayAttributeError(
                    f"{name}: this NamedArray does not hold an array: {type_text(self)}.",
                    name=name,
                    obj=self,
                )
            remedy = hints().attribute(name, names)
            instead = (
                f"Write {remedy}."
                if remedy
                else f"Its named axes are {show_names(names)}; dir(x) lists what it has."
            )
            if name in names:
                instead = (
                    f"Write x.named_shape[{name!r}] for the size of the axis, or x[{name!r}, 0] for"
                    " an element along it."
                )
            try:
                text = type_text(self)
            except PositionalAxisError:  # its data do not fit, which is another error
                text = "NamedArray"
            raise ArrayAttributeError(
                f"{name}: {text} has no attribute {name!r}. {instead}", name=name, obj=self
            )

        def __setitem__(self, index: object, value: object) -> None:
            # Hidden from type checkers: a class with this method would count as mutable.
            reject_assignment(self, index, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise ArrayAttributeError(
            f"setattr: NamedArray is immutable: {name!r} cannot be set. Make a new array with"
            " nx.named."
        )

    def __delattr__(self, name: str) -> None:
        raise ArrayAttributeError(f"delattr: NamedArray is immutable: {name!r} cannot be deleted.")

    def __reduce__(self) -> tuple[type[NamedArray], tuple[jax.Array, Dims]]:
        data = self._data if padding_of(self) is None else jax.numpy.asarray(true_values(self))
        return (NamedArray, (data, self._dims))

    def __copy__(self) -> NamedArray:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> NamedArray:
        if (padding := padding_of(self)) is not None:
            return make_padded(copy.deepcopy(self._stored, memo), self._dims, padding)
        return make_in_region(copy.deepcopy(self._data, memo), self._dims)

    @property
    def data(self) -> jax.Array:
        """The underlying `jax.Array`, in the physical order of `dims`.

        In a mapped body it is the block of this device. If the array is stored padded (`nx.shard`
        with `padded=True`), it has the padded sizes, and padding at the end of these axes.
        """
        try:
            return get_data(self)
        except AttributeError:
            return self._stored

    @property
    def dims(self) -> Dims:
        """One entry per dimension of `data`: the axis name, or `None` for a positional axis."""
        return self._dims

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the positional axes; `named_shape` has those of the named axes."""
        dims = positions(self, "shape")
        try:
            shape = get_data(self).shape
        except AttributeError:
            shape = self.data.shape
        sizes = (n for n, dim in zip(shape, dims, strict=True) if dim is None)
        return tuple(sizes) or EmptyShape(dims)

    @property
    def ndim(self) -> int:
        """The number of positional axes; `len(x.dims)` counts all axes."""
        return self._dims.count(None)

    @property
    def size(self) -> int:
        """Product of the sizes of the positional axes; `nx.size(x, ...)` counts all elements."""
        return math.prod(self.shape)

    @property
    def named_shape(self) -> Mapping[Hashable, int]:
        """Global size of every named axis, inside a mapped body too."""
        return _SizesOfBlocks(self) if escaped_blocks else self._sizes

    @property
    def _sizes(self) -> Mapping[Hashable, int]:
        region = ambient()
        try:
            shape = get_data(self).shape
        except AttributeError:
            if padding_of(self) is not None:
                return _true_sizes(self)
            shape = self._data.shape  # without it, `__getattr__` raises the error
        pairs = zip(positions(self, "named_shape"), shape, strict=True)
        if region is None or not region.manual or is_global(self):
            return MappingProxyType({dim: n for dim, n in pairs if dim is not None})
        return MappingProxyType(
            {dim: region.global_size(dim, n) for dim, n in pairs if dim is not None}
        )

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the data."""
        try:
            return get_data(self).dtype
        except AttributeError:
            return self.data.dtype

    @property
    def weak_type(self) -> bool:
        """True if the dtype gives way to that of the other operand, as for a Python scalar."""
        return getattr(self.data, "weak_type", False)  # arrays of random keys have no weak type

    @property
    def nbytes(self) -> int:
        """Bytes of all elements over all axes, from global sizes."""
        return int(self.dtype.itemsize) * self.size * math.prod(self.named_shape.values())

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def sharding(self) -> jax.sharding.Sharding:
        """The sharding of `data`."""
        return self.data.sharding

    @property
    def _names(self) -> list[Hashable]:
        return [dim for dim in self._dims if dim is not None]

    def _nameless(
        self, what: str, remedy: Callable[[list[Hashable]], str] = for_positions
    ) -> jax.Array:
        """Return the data of an array without names, for functions that take no names.

        `remedy` returns the remedy of the error for the array's names.
        """
        if names := self._names:
            raise NamedAxesLeftError(
                f"{what}: {type_text(self)} still has named axes, and {what} needs an array without"
                f" names. {remedy(names)}"
            )
        return self._data

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray:
        also = (
            " jnp.asarray and NumPy's functions need one too; the functions of nx and nx.numpy take"
            " named arrays."
        )
        return np.array(
            self._nameless("np.asarray", lambda names: for_positions(names) + also),
            dtype=dtype,
            copy=copy,
        )

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Iterable[type],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        try:
            return call_of_numpy(function, args, kwargs, NamedArray)
        except Exception as error:
            shorten_eager(error)
            raise

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *args: object, **kwargs: object
    ) -> object:
        try:
            return call_of_ufunc(function, method, args, kwargs, NamedArray)
        except Exception as error:
            shorten_eager(error)
            raise

    def __bool__(self) -> bool:
        return bool(self._nameless("bool()", for_truth))

    def __int__(self) -> int:
        return int(self._nameless("int()", for_a_number))

    def __float__(self) -> float:
        return float(self._nameless("float()", for_a_number))

    def __complex__(self) -> complex:
        return complex(self._nameless("complex()", for_a_number))

    def __index__(self) -> int:
        index: int = self._nameless("index()", for_a_number).__index__()
        return index

    def __format__(self, form: str) -> str:
        return (
            str(self)
            if not form
            else format(self._nameless("format()", functools.partial(for_a_format, form)), form)
        )

    def item(self) -> Any:
        """Return the single element of an array without names as a Python scalar."""
        return self._nameless("item()", for_a_number).item()

    def tolist(self) -> Any:
        """Return the elements of an array without names as nested lists of Python scalars."""
        return self._nameless("tolist()").tolist()

    def __contains__(self, value: Any) -> bool:
        return value in self._nameless("in", functools.partial(for_membership, value))

    def __len__(self) -> int:
        if not self.shape:
            raise PositionalAxisError(
                f"len(): {type_text(self)} has no positional axis; x.named_shape has the sizes of"
                f" the others.{iteration_hint(self._names)}"
            )
        return self.shape[0]

    def block_until_ready(self) -> NamedArray:
        """Wait until the values are computed, and return the array."""
        self.data.block_until_ready()
        return self


def reject_assignment(array: NamedArray, index: object, value: object) -> NoReturn:
    """Raise the error for an in-place assignment; its remedy is the equivalent `.at[...]` update.

    Raises:
      ArgumentTypeError: always.
    """
    parts = index if isinstance(index, tuple) else (index,)
    dims = array._dims
    if (
        None not in dims
        and len(parts) <= len(dims)
        and all(isinstance(part, (int, slice)) for part in parts)
    ):
        parts = tuple(entry for pair in zip(dims, parts, strict=False) for entry in pair)
    where = repr(index) if isinstance(index, Mapping) else ", ".join(map(index_text, parts))
    what = repr(value) if isinstance(value, (bool, int, float, complex)) else "..."
    raise ArgumentTypeError(
        f"setitem: {type_text(array)} is immutable, and its elements cannot be set. Write x ="
        f" x.at[{where}].set({what}), which makes a new array."
    )


class _SizesOfBlocks(Mapping[Hashable, int]):
    """The sizes of an array that may be a block from a body that JAX has left.

    The size of a name that is mapped in that body raises an error.
    """

    def __init__(self, array: NamedArray):
        self._data, self._sizes = array.data, array._sizes

    def __getitem__(self, name: Hashable) -> int:
        check_regions_live("named_shape", functools.partial(operator.eq, name), self._data)
        return self._sizes[name]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return repr(self._sizes)


#: Return the data of an array; an `AttributeError` means that it is stored padded. This is no call
#: of a Python function.
get_data: Callable[[NamedArray], Any] = vars(Parts)["_data"].__get__
_set_data: Callable[[NamedArray, jax.Array], None] = vars(Parts)["_data"].__set__
_set_dims: Callable[[NamedArray, Dims], None] = vars(Parts)["_dims"].__set__
_set_tail: Callable[[NamedArray, Dims], None] = vars(Parts)["_tail"].__set__
_get_dims: Callable[[NamedArray], Dims] = vars(Parts)["_dims"].__get__
_get_tail: Callable[[NamedArray], Dims] = vars(Parts)["_tail"].__get__
set_block: Callable[[NamedArray, BlockInfo | None], None] = vars(Parts)["_block"].__set__


def _new_block(region: Region | None) -> BlockInfo | None:
    return (
        BlockInfo(get_opaque_trace_state(), region)
        if region is not None and region.manual
        else None
    )


def origin_of(array: NamedArray) -> Region | None:
    """Return the region in which `array` was made; its data are blocks along the region's names.

    The result is `None` if the data are global (`is_global`).
    """
    return None if array._block is None else array._block.region


def is_global(array: NamedArray) -> bool:
    """Return True if `array` has global data: it was made outside every body with local blocks."""
    return array._block is None


def make(data: object, dims: Dims) -> NamedArray:
    """Return a `NamedArray` of global data without any check; `dims` must be a valid tuple."""
    parts: Any = Parts()
    parts._data = data
    parts._dims = dims
    parts._block = None
    parts.__class__ = NamedArray
    array: NamedArray = parts
    return array


def make_padded(stored: Any, dims: Dims, padding: StoredPadding) -> NamedArray:
    """Return a `NamedArray` that is stored padded; `stored` has the padded sizes."""
    parts: Any = Parts()
    parts._stored = stored
    parts._dims = dims
    parts._tail = PaddedTail(tail_of(dims), padding)
    parts._block = None
    parts.__class__ = NamedArray
    array: NamedArray = parts
    return array


def padding_of(array: NamedArray) -> StoredPadding | None:
    """Return the padding of an array that is stored padded; `None` for every other array."""
    try:
        get_data(array)
    except AttributeError:
        padding: StoredPadding | None = getattr(array._tail, "padding", None)
        return padding
    return None


def stored_data(array: NamedArray) -> Any:
    """Return the data of an array as stored, with its padding if it is stored padded."""
    try:
        return get_data(array)
    except AttributeError:
        return array._stored


def _true_sizes(array: NamedArray) -> Mapping[Hashable, int]:
    """Return the true sizes of the named axes of an array that is stored padded.

    Raises:
      AxisSizeError: a function of trees has changed the size of a padded axis.
    """
    padding: Any = padding_of(array)
    sizes, padded = padding.sizes, padding.padded_sizes
    found = {}
    for dim, n in zip(positions(array, "named_shape"), array._stored.shape, strict=True):
        if dim in sizes and n != padded[dim]:
            raise AxisSizeError(
                f"named_shape: axis {dim!r} of size {sizes[dim]} is stored padded to"
                f" {padded[dim]} elements, and its data of shape {array._stored.shape} has {n}. A"
                " function of trees (jax.tree.map) sees the padded data of each array, and has"
                " changed its size. Pass is_leaf=lambda x: isinstance(x, nx.NamedArray), so that"
                " it sees the named arrays."
            )
        if dim is not None:
            found[dim] = sizes.get(dim, n)
    return MappingProxyType(found)


def true_values(array: NamedArray) -> np.ndarray:
    """Return the values of a concrete array that is stored padded, without padding."""
    return without_padding(array, np.asarray(array._stored))


def reject_stored_padding(array: NamedArray) -> NoReturn:
    """Raise the error for the data of an array that is stored padded, or for a missing field.

    Raises:
      StoredPaddingError: always, unless the array is not complete.
    """
    if not hasattr(array, "_stored"):
        raise ArrayAttributeError(
            "_data: a NamedArray has no such attribute.", name="_data", obj=array
        )
    padding: Any = padding_of(array)
    names = ", ".join(
        f"{name!r} (size {size}, stored as {padded})" for name, size, padded, _ in padding.axes
    )
    raise StoredPaddingError(
        f"NamedArray: {type_text(array)} is stored padded along {names}, and this operation cannot"
        " read it. Pass it as an argument to a mapped function (nx.xmap), or gather it first:"
        " nx.shard(x, {}, mesh)."
    )


def make_block(data: jax.Array | jax.ShapeDtypeStruct, dims: Dims, region: Region) -> NamedArray:
    """Return a `NamedArray` of a block, as `make_in_region` does where `region` is ambient.

    `region` must be a region whose values are blocks. Every result of an operation takes this path,
    so the code is inlined.
    """
    parts: Any = Parts()
    parts._data = data
    parts._dims = dims
    parts._block = BlockInfo(get_opaque_trace_state(), region)
    parts.__class__ = NamedArray
    array: NamedArray = parts
    return array


def tail_of(dims: Dims) -> Dims:
    """Return the dims from the first named one on."""
    for i, dim in enumerate(dims):
        if dim is not None:
            return dims[i:]
    return ()


def make_in_region(data: jax.Array | jax.ShapeDtypeStruct, dims: Dims) -> NamedArray:
    """Return a `NamedArray`; inside a mapped body, `data` is the block of this device.

    There the array can also cache other forms of its data (`namedax.core.variance`), in the trace
    that made it. A form from an inner trace would escape that trace.
    """
    if not active_regions:
        return make(data, dims)
    region = ambient()
    if region is not None and region.mode == "global":
        return make(mark_names(data, dims, region), dims)
    set_block(array := make(data, dims), _new_block(region))
    return array


def make_blocks(
    datas: Iterable[jax.Array], all_dims: Iterable[Dims], region: Region
) -> list[NamedArray]:
    """Return `NamedArray`s of sizes that agree with `region`, as `make_in_region` does in it."""
    arrays, trace = list(map(make, datas, all_dims)), get_opaque_trace_state()
    if region.manual:
        for array in arrays:
            set_block(array, BlockInfo(trace, region))
        region.state.looked_at.update([(array._dims, array._data.shape) for array in arrays])
    return arrays


def dims_of(value: Any) -> Dims:
    """Return the dims of any operand; an array without names has positional axes only.

    >>> import numpy as np, namedax as nx
    >>> from namedax.core.array import dims_of
    >>> dims_of(1.0), dims_of(np.zeros((2, 3))), dims_of(nx.NamedArray([1, 2], ("k",)))
    ((), (None, None), ('k',))
    """
    if type(value) is NamedArray:
        return value._dims
    return (None,) * np.ndim(value)


def placeholder_remedy(*shapes: tuple[int, ...]) -> str:
    """Return a sentence for arrays of shape `(1,)`, such as those in the state of Adafactor."""
    if (1,) not in shapes:
        return ""
    return (
        " (The state of optax.adafactor has such arrays, of shape (1,), in place of others; use"
        " nx.interop.adafactor.)"
    )


def positions(array: NamedArray, op: str) -> Dims:
    """Return the dims of `array`, checked against its data.

    A raw JAX transformation may have removed a named axis, or put a named array inside another one.
    """
    try:
        data = get_data(array)
    except AttributeError:
        data = array._stored
    if type(data) is NamedArray:
        raise PositionalAxisError(
            f"{op}: an array with axes {array._dims} holds a named array, {type_text(data)},"
            " as its data. A function of trees (jax.tree.map) sees the data of each array without"
            " its names, and combined it with a named array. Pass is_leaf=lambda x: isinstance(x,"
            " nx.NamedArray), so that it sees the named arrays."
        )
    shape = getattr(data, "shape", None)
    if shape is None:
        raise PositionalAxisError(
            f"{op}: an array with axes {array._dims} holds a {type(data).__name__} as its"
            " data. A function of trees, such as the state of optax.sm3 or of optax.masked, has put"
            " another object in place of the data. Call the optimizer outside of the mapped"
            " function, or use muon, shampoo or adafactor of nx.interop."
        )
    if len(array._dims) != len(shape):
        raise PositionalAxisError(
            f"{op}: an array with axes {array._dims} holds data of shape {shape}. A raw"
            " JAX transform (jax.vmap, lax.scan, jax.tree.map) has removed a named axis, or one"
            " behind a named axis. Move the positional axis to the front first, or use nx.nmap,"
            f" which takes names.{placeholder_remedy(shape)}"
        )
    return array._dims


def as_array(x: object, op: str = "") -> NamedArray | jax.Array:
    """Return `x` as an array: a named array unchanged, anything else as JAX converts it.

    An axis name is not an array and raises an error of `op`.
    """
    if type(x) is NamedArray:
        return x
    if isinstance(x, jax.Array):
        return x
    reject_names(op or "an operation", x)
    return as_jax(op or "an operation", x)


#: Return True if a leaf is a named array. Tree functions call it as `is_leaf` for every node, so it
#: is `isinstance` as a plain function of the leaf.
is_named: Callable[[object], bool] = NamedArray.__instancecheck__
