"""The array: one `jax.Array` whose dimensions may have names.

A `NamedArray` holds `data` and `dims`, one entry of `dims` per dimension of `data`: an axis name, or `None` for a positional
axis. It is immutable. This module knows only what an array *is*: how it shows itself is in `display`, that it is a pytree with
one leaf in `namedax.operands.pytree`, and its operators and methods come from `namedax.namespaces.operators`.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np
from jax.extend.core import get_opaque_trace_state

from namedax.core.display import Shown, index_text, type_text
from namedax.core.element_types import as_jax
from namedax.core.names import Dims, check_dims
from namedax.core.numpy_functions import call_of_numpy
from namedax.core.protocol_hints import for_a_format, for_a_number, for_membership, for_positions, for_truth, iteration_hint
from namedax.core.region import Region, active_regions, ambient, check_regions_live, escaped_blocks
from namedax.errors import (
    ArgumentTypeError,
    ArrayAttributeError,
    NamedAxesLeftError,
    PositionalAxisError,
    hints,
    refuse_names,
    shape_of,
    show_names,
)

__all__ = [
    "NamedArray",
    "Parts",
    "as_array",
    "dims_of",
    "is_global",
    "is_named",
    "make",
    "make_block",
    "make_blocks",
    "make_in_region",
    "origin_of",
    "positions",
    "refuse_assignment",
    "set_memory",
]


class _ArrayType(type):
    # JAX's functions say of an argument that they do not take which type it has, and this is the only place where one can say more.
    def __repr__(cls) -> str:
        return (
            f"<class 'namedax.{cls.__name__}', which JAX's own functions do not take: call nx.numpy's, or nx.nmap(function); and where trees differ "
            "in the order of names, nx.order_like(tree, like)>"
        )


if TYPE_CHECKING:
    # The operators and methods, which `namedax.namespaces.operators` hangs on the class: a stub without a module (`make stubs`).
    from namedax.core.methods import Methods
else:

    class Methods:
        __slots__ = ()


class Parts:
    """What an array holds. An array is made as one of these, whose parts can be set, and then becomes a `NamedArray`."""

    __slots__ = ("__weakref__", "_casts", "_data", "_dims", "_tail")

    _data: Any
    _dims: Dims
    _tail: Dims  # the dims from the first named one on, which a pytree keeps
    _casts: dict[Hashable, Any] | None


class NamedArray(Shown, Methods, Parts, metaclass=_ArrayType):
    """An array some of whose axes have names. Immutable.

    Make one with `nx.named`, or let `nx.xmap` make it from the arguments of your function. This constructor is the raw
    form: inside a mapped body `data` is the block of this device.

    Args:
      data: a `jax.Array`, or anything that `jnp.asarray` takes.
      dims: one entry per dimension of `data`: an axis name, or `None` for a positional axis.

    Raises:
      AxisNameError: an entry of `dims` is not a name, or a name appears twice.
      PositionalAxisError: `dims` and `data` have different lengths.
      PlacementConflictError: in a mapped body, two of the names are on one mesh axis.

    >>> import jax.numpy as jnp
    >>> x = NamedArray(jnp.arange(6.0).reshape(2, 3), ("batch", None))
    >>> x.shape, x.ndim, x.size, dict(x.named_shape)
    ((3,), 1, 3, {'batch': 2})
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's operators leave the work to ours
    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise, as it is for jax.Array

    def __init__(self, data: Any, dims: Dims):
        if isinstance(data, NamedArray):
            raise NamedAxesLeftError(
                f"NamedArray: data is a named array already, {type_text(data)}. Use nx.rename, or nx.named to name its "
                "positional axes."
            )
        data = data if isinstance(data, jax.Array) else as_jax("NamedArray", data)
        dims = check_dims(dims, "NamedArray")
        if len(dims) != data.ndim:
            raise PositionalAxisError(
                f"NamedArray: dims {dims} has {len(dims)} entries for data of shape {data.shape}; it needs one entry per "
                "dimension, None for a positional one."
            )
        if (region := ambient()) is not None:
            region.check_placement("NamedArray", (dim for dim in dims if dim is not None))
        _set_data(self, data)
        _set_dims(self, dims)
        set_memory(self, _new_memory(region))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # An array that comes out of a pytree counts its dimensions when somebody asks for its dims, and one that has never been in
            # a pytree looks for its tail when it gets into one.
            if name == "_dims":
                tail = _get_tail(self)
                # What JAX puts in the place of an array may have any shape, or none.
                shape = self._data.shape if isinstance(self._data, (jax.core.Tracer, jax.Array)) else shape_of(self._data) or ()
                _set_dims(self, (None,) * (len(shape) - len(tail)) + tail)
                return self._dims
            if name == "_tail":
                _set_tail(self, tail_of(_get_dims(self)))
                return self._tail
            if name == "encoding":
                # By this attribute xarray's operators recognize an operand with dims. They take all others by position, so that
                # `DataArray - x` would hold an outer difference. No later call could detect that, and an AttributeError would be swallowed.
                raise ArgumentTypeError(
                    f"encoding: {type_text(self)} is not an operand of xarray, whose operators would take it by position. Convert the "
                    "other operand first, nx.from_xarray(other), or this one with nx.to_xarray(x)."
                )
            if name.startswith("_"):  # protocols, for which many ask
                raise ArrayAttributeError(f"{name}: a NamedArray has no such attribute.", name=name, obj=self)
            names = self._names  # which an array that is not made yet lacks
            if hasattr(NamedArray, name):  # what its data lack: JAX puts other things into a tree than arrays
                raise ArrayAttributeError(f"{name}: {type_text(self)}: it holds no array.", name=name, obj=self)
            remedy = hints().attribute(name, names)
            instead = f"Write {remedy}." if remedy else f"Its named axes are {show_names(names)}; dir(x) lists what it has."
            try:
                text = type_text(self)
            except PositionalAxisError:  # its data do not fit, which is not what was asked
                text = "NamedArray"
            raise ArrayAttributeError(f"{name}: {text} has no attribute {name!r}. {instead}", name=name, obj=self)

        def __setitem__(self, index: Any, value: Any) -> None:
            # Not for type checkers, to which an array that has it can be changed.
            refuse_assignment(self, index, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ArrayAttributeError(f"setattr: NamedArray is immutable: {name!r} cannot be set. Make a new array with nx.named.")

    def __delattr__(self, name: str) -> None:
        raise ArrayAttributeError(f"delattr: NamedArray is immutable: {name!r} cannot be deleted.")

    def __reduce__(self) -> Any:
        return (NamedArray, (self._data, self._dims))

    def __copy__(self) -> NamedArray:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> NamedArray:
        return make_in_region(copy.deepcopy(self._data, memo), self._dims)

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def data(self) -> jax.Array:
        """The underlying `jax.Array`, in the physical order of `dims`. In a mapped body: the block of this device."""
        data: jax.Array = self._data
        return data

    @property
    def dims(self) -> Dims:
        """One entry per dimension of `data`: the axis name, or `None` for a positional axis."""
        return self._dims

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the positional axes; those of names are in `named_shape`."""
        dims = positions(self, "shape")
        return tuple(n for n, dim in zip(self._data.shape, dims, strict=True) if dim is None)

    @property
    def ndim(self) -> int:
        """The number of positional axes; `len(x.dims)` is that of all."""
        return self._dims.count(None)

    @property
    def size(self) -> int:
        """The product of the sizes of the positional axes; `nx.size(x, ...)` is that of all."""
        return math.prod(self.shape)

    @property
    def named_shape(self) -> Mapping[Hashable, int]:
        """Global size of every named axis, also inside of a mapped body."""
        return _SizesOfBlocks(self) if escaped_blocks else self._sizes

    @property
    def _sizes(self) -> Mapping[Hashable, int]:
        region = ambient()
        pairs = zip(positions(self, "named_shape"), self._data.shape, strict=True)
        if region is None or not region.manual or is_global(self):
            return MappingProxyType({dim: n for dim, n in pairs if dim is not None})
        return MappingProxyType({dim: region.global_size(dim, n) for dim, n in pairs if dim is not None})

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._data.dtype

    @property
    def weak_type(self) -> bool:
        """Whether the element type gives way to that of the other operand (as of a Python scalar)."""
        return getattr(self._data, "weak_type", False)  # arrays of random keys have no such type

    @property
    def nbytes(self) -> int:
        """Bytes of all elements over all axes, global sizes."""
        return int(self.dtype.itemsize) * self.size * math.prod(self.named_shape.values())

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def sharding(self) -> Any:
        """The sharding of `data`."""
        return self._data.sharding

    # --- as Python and NumPy see it ---------------------------------------------------------------------------------

    @property
    def _names(self) -> list[Hashable]:
        return [dim for dim in self._dims if dim is not None]

    def _nameless(self, what: str, remedy: Callable[[list[Hashable]], str] = for_positions) -> Any:
        """The data of an array without names, for what knows none; `remedy` says for its names what to write instead."""
        if names := self._names:
            raise NamedAxesLeftError(
                f"{what}: {type_text(self)} still has named axes, and {what} needs an array without names. {remedy(names)}"
            )
        return self._data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        also = " jnp.asarray and NumPy's functions ask for one too; those that take names are in nx and nx.numpy."
        return np.array(self._nameless("np.asarray", lambda names: for_positions(names) + also), dtype=dtype, copy=copy)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call_of_numpy(function, args, kwargs, NamedArray)

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
        return str(self) if not form else format(self._nameless("format()", functools.partial(for_a_format, form)), form)

    def item(self) -> Any:
        """The single element of an array without names, as a Python scalar."""
        return self._nameless("item()", for_a_number).item()

    def tolist(self) -> Any:
        """The elements of an array without names, as nested lists of Python scalars."""
        return self._nameless("tolist()").tolist()

    def __contains__(self, value: Any) -> bool:
        return value in self._nameless("in", functools.partial(for_membership, value))

    def __len__(self) -> int:
        if not self.shape:
            raise PositionalAxisError(
                f"len(): {type_text(self)} has no positional axis; x.named_shape has the sizes of the others.{iteration_hint(self._names)}"
            )
        return self.shape[0]

    def block_until_ready(self) -> NamedArray:
        """Waits until the values are computed, and returns the array."""
        self._data.block_until_ready()
        return self


def refuse_assignment(array: NamedArray, index: Any, value: Any) -> NoReturn:
    """Raises where entries are to be set in place, with the update that is meant.

    Raises:
      ArgumentTypeError: always.
    """
    parts = index if isinstance(index, tuple) else (index,)
    dims = array._dims
    if None not in dims and len(parts) <= len(dims) and all(isinstance(part, (int, slice)) for part in parts):
        parts = tuple(entry for pair in zip(dims, parts, strict=False) for entry in pair)
    where = repr(index) if isinstance(index, Mapping) else ", ".join(map(index_text, parts))
    what = repr(value) if isinstance(value, (bool, int, float, complex)) else "..."
    raise ArgumentTypeError(
        f"setitem: {type_text(array)} is immutable, and its entries cannot be set. Write x = x.at[{where}].set({what}), which makes a "
        "new array."
    )


class _SizesOfBlocks(Mapping[Hashable, int]):
    """The sizes of an array that may be a block which JAX has put together after its body: those of names that are mapped there are refused."""

    def __init__(self, array: NamedArray):
        self._data, self._sizes = array._data, array._sizes

    def __getitem__(self, name: Hashable) -> int:
        check_regions_live("named_shape", functools.partial(operator.eq, name), self._data)
        return self._sizes[name]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return repr(self._sizes)


_set_data: Callable[[NamedArray, Any], None] = vars(Parts)["_data"].__set__
_set_dims: Callable[[NamedArray, Dims], None] = vars(Parts)["_dims"].__set__
_set_tail: Callable[[NamedArray, Dims], None] = vars(Parts)["_tail"].__set__
_get_dims: Callable[[NamedArray], Dims] = vars(Parts)["_dims"].__get__
_get_tail: Callable[[NamedArray], Dims] = vars(Parts)["_tail"].__get__
set_memory: Callable[[NamedArray, Any], None] = vars(Parts)["_casts"].__set__


def _new_memory(region: Region | None) -> dict[Hashable, Any] | None:
    return {"trace": get_opaque_trace_state(), "region": region} if region is not None and region.manual else None


def origin_of(array: NamedArray) -> Region | None:
    """The region in which `array` was made, along whose names its data are blocks; `None` where they are whole (`is_global`)."""
    return None if array._casts is None else array._casts["region"]


def is_global(array: NamedArray) -> bool:
    """Whether the data of `array` is whole: it was made outside of every mapped body with local blocks."""
    return array._casts is None


def make(data: Any, dims: Dims) -> NamedArray:
    """A `NamedArray` of global data, without any check; `dims` must be a valid tuple."""
    parts: Any = Parts()
    parts._data = data
    parts._dims = dims
    parts._casts = None
    parts.__class__ = NamedArray
    array: NamedArray = parts
    return array


def make_block(data: Any, dims: Dims, region: Region) -> NamedArray:
    """`make_in_region` where `region` is ambient, whose values are blocks. Every result of an operation comes here, so it is written out."""
    parts: Any = Parts()
    parts._data = data
    parts._dims = dims
    parts._casts = {"trace": get_opaque_trace_state(), "region": region}
    parts.__class__ = NamedArray
    array: NamedArray = parts
    return array


def tail_of(dims: Dims) -> Dims:
    """Dims from the first named one on."""
    for i, dim in enumerate(dims):
        if dim is not None:
            return dims[i:]
    return ()


def make_in_region(data: Any, dims: Dims) -> NamedArray:
    """Like `make`, but inside of a mapped body `data` is the block of this device.

    There the array can also remember other forms of its data (`namedax.core.variance`).

    It remembers them for the trace that it was made in, and for no other: a form that was computed in an inner trace would
    outlive it.
    """
    array = make(data, dims)
    if active_regions:
        set_memory(array, _new_memory(ambient()))
    return array


def make_blocks(datas: Iterable[Any], all_dims: Iterable[Dims], region: Region) -> list[NamedArray]:
    """`make_in_region` for many at once, where `region` is ambient."""
    arrays = list(map(make, datas, all_dims))
    if region.manual:
        trace = get_opaque_trace_state()
        for array in arrays:
            set_memory(array, {"trace": trace, "region": region})
    return arrays


def dims_of(value: Any) -> Dims:
    """The dims of anything that can be an operand; an array without names has positional axes only.

    >>> dims_of(1.0), dims_of(np.zeros((2, 3))), dims_of(NamedArray([1, 2], ("k",)))
    ((), (None, None), ('k',))
    """
    if type(value) is NamedArray:
        return value._dims
    return (None,) * np.ndim(value)


def positions(array: NamedArray, op: str) -> Dims:
    """The dims of `array`, checked against its data: a raw JAX transform may have stripped a named axis, or put names inside."""
    if type(array._data) is NamedArray:
        raise PositionalAxisError(
            f"{op}: an array with axes {array._dims} holds a named array, {type_text(array._data)}, as its data. A function of trees "
            "(jax.tree.map) sees the data of each array without its names, and combined it with an array that has names. Give it "
            "is_leaf=lambda x: isinstance(x, nx.NamedArray), and it sees the named arrays."
        )
    if len(array._dims) != len(array._data.shape):
        raise PositionalAxisError(
            f"{op}: an array with axes {array._dims} holds data of shape {array._data.shape}. A raw JAX transform (jax.vmap, "
            "lax.scan, jax.tree.map) has removed an axis that has a name, or one that stands behind a named one. Move the "
            "positional axis to the front first, or use nx.nmap, which takes names."
        )
    return array._dims


def as_array(x: Any, op: str = "") -> Any:
    """`x` as an array: a named one as it is, all else as JAX has it. A name, which is none, is an error of `op`."""
    if type(x) is NamedArray:
        return x
    if isinstance(x, jax.Array):
        return x
    refuse_names(op or "an operation", x)
    return as_jax(op or "an operation", x)


#: Whether a leaf is a named array: `isinstance` as a function of the leaf, for `is_leaf` of tree functions, which ask it of every node.
is_named: Callable[[Any], bool] = NamedArray.__instancecheck__
