"""The array: one `jax.Array` whose dimensions may have names.

A `NamedArray` holds `data` and `dims`, one entry of `dims` per dimension of `data`: an axis name, or `None` for a positional
axis. It is immutable, and a pytree with one leaf. The operators and methods come from `namedax.namespaces.operators`; this module
knows only what an array *is*.

As a pytree an array remembers its dims from the first named one on. Whatever stands before is positional, however many
dimensions that are. That is why a transform that adds or strips a leading positional dimension (`jax.vmap`, `lax.scan`)
works on an array without knowing of it.
"""

from __future__ import annotations

import ast
import copy
import functools
import math
import numbers
import urllib.parse
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.extend.core import get_opaque_trace_state
from jax.sharding import NamedSharding

from namedax.core.region import Placements, Region, ambient, note_left, placements_to_note
from namedax.errors import AxisNameError, NamedAxesLeftError, PositionalAxisError

__all__ = [
    "Dims",
    "NamedArray",
    "check_dims",
    "dims_of",
    "is_global",
    "is_name",
    "make",
    "make_in_region",
    "origin_of",
    "positions",
    "type_text",
]

Dims = tuple[Hashable | None, ...]


def is_name(value: Any) -> bool:
    """Whether `value` can be an axis name: any hashable but integers, `None` and `...`.

    >>> is_name("batch"), is_name(("layer", 0)), is_name(0), is_name(None)
    (True, True, False, False)
    """
    if isinstance(value, str):
        return True
    if value is None or isinstance(value, (int, np.integer, EllipsisType, slice)):
        return False
    if isinstance(value, (numbers.Number, np.bool_)):
        number = complex(value)  # type: ignore[arg-type]
        return number.imag != 0 or not number.real.is_integer()  # to a dict, 2.0 is 2
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_dims(dims: Dims, op: str) -> Dims:
    """Returns `dims` as a tuple; raises if an entry is no name, or if a name appears twice."""
    dims = tuple(dims)
    seen = set()
    for dim in dims:
        if dim is None:
            continue
        if not is_name(dim):
            raise AxisNameError(
                f"{op}: {dim!r} is no axis name; names are any hashable values but integers, None and '...'. "
                "Write None for a positional axis."
            )
        if dim in seen:
            raise AxisNameError(
                f"{op}: axis {dim!r} appears twice in {dims}; one array has an axis at most once. Rename one of them."
            )
        seen.add(dim)
    return dims


@functools.lru_cache(maxsize=4096)
def _tail(dims: Dims) -> Dims:
    for i, dim in enumerate(dims):
        if dim is not None:
            return dims[i:]
    return ()


class _ArrayType(type):
    # JAX's functions say of an argument that they do not take which type it has, and this is the only place where one can say more.
    def __repr__(cls) -> str:
        return f"<class 'namedax.{cls.__name__}', which JAX's own functions do not take: call nx.numpy's, or nx.nmap(function)>"


class NamedArray(metaclass=_ArrayType):
    """An array some of whose axes have names. Immutable.

    Make one with `nx.named`, or let `nx.xmap` make it from the arguments of your function. This constructor is the raw
    form: inside a mapped body `data` is the block of this device.

    Args:
      data: a `jax.Array`, or anything that `jnp.asarray` takes.
      dims: one entry per dimension of `data`: an axis name, or `None` for a positional axis.

    Raises:
      AxisNameError: an entry of `dims` is no name, or a name appears twice.
      PositionalAxisError: `dims` and `data` have different lengths.
      PlacementConflictError: in a mapped body, two of the names are on one mesh axis.

    >>> x = NamedArray(jnp.arange(6.0).reshape(2, 3), ("batch", None))
    >>> x.shape, x.ndim, x.size, dict(x.named_shape)
    ((3,), 1, 3, {'batch': 2})
    """

    __slots__ = ("__weakref__", "_casts", "_data", "_dims")
    __array_ufunc__ = None  # NumPy's operators leave the work to ours
    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise, as it is for jax.Array

    _data: Any
    _dims: Dims
    _casts: dict[Hashable, Any] | None

    def __init__(self, data: Any, dims: Dims):
        if isinstance(data, NamedArray):
            raise NamedAxesLeftError(
                f"NamedArray: data is a named array already, {type_text(data)}. Use nx.rename, or nx.named to name its "
                "positional axes."
            )
        data = data if isinstance(data, jax.Array) else jnp.asarray(data)
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
        _set_casts(self, _new_memory())

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"NamedArray is immutable: {name!r} can not be set. Make a new array with nx.named.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"NamedArray is immutable: {name!r} can not be deleted.")

    def __reduce__(self) -> Any:
        return (NamedArray, (self._data, self._dims))

    def __copy__(self) -> NamedArray:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> NamedArray:
        return make_in_region(copy.deepcopy(self._data, memo), self._dims)

    # --- operators and methods, as static checkers see them; `namedax.namespaces.operators` installs them --------------------------
    # A result without names is a plain `jax.Array`. So what may lose its last name is `Any`; what keeps all is a `NamedArray`.

    # ruff: disable[D102] (their docstrings are with the functions)
    if TYPE_CHECKING:

        def __add__(self, other: Any, /) -> NamedArray: ...
        def __radd__(self, other: Any, /) -> NamedArray: ...
        def __sub__(self, other: Any, /) -> NamedArray: ...
        def __rsub__(self, other: Any, /) -> NamedArray: ...
        def __mul__(self, other: Any, /) -> NamedArray: ...
        def __rmul__(self, other: Any, /) -> NamedArray: ...
        def __truediv__(self, other: Any, /) -> NamedArray: ...
        def __rtruediv__(self, other: Any, /) -> NamedArray: ...
        def __floordiv__(self, other: Any, /) -> NamedArray: ...
        def __rfloordiv__(self, other: Any, /) -> NamedArray: ...
        def __mod__(self, other: Any, /) -> NamedArray: ...
        def __rmod__(self, other: Any, /) -> NamedArray: ...
        def __divmod__(self, other: Any, /) -> tuple[NamedArray, NamedArray]: ...
        def __rdivmod__(self, other: Any, /) -> tuple[NamedArray, NamedArray]: ...
        def __pow__(self, other: Any, /) -> NamedArray: ...
        def __rpow__(self, other: Any, /) -> NamedArray: ...
        def __matmul__(self, other: Any, /) -> NamedArray: ...
        def __rmatmul__(self, other: Any, /) -> NamedArray: ...
        def __and__(self, other: Any, /) -> NamedArray: ...
        def __rand__(self, other: Any, /) -> NamedArray: ...
        def __or__(self, other: Any, /) -> NamedArray: ...
        def __ror__(self, other: Any, /) -> NamedArray: ...
        def __xor__(self, other: Any, /) -> NamedArray: ...
        def __rxor__(self, other: Any, /) -> NamedArray: ...
        def __lshift__(self, other: Any, /) -> NamedArray: ...
        def __rlshift__(self, other: Any, /) -> NamedArray: ...
        def __rshift__(self, other: Any, /) -> NamedArray: ...
        def __rrshift__(self, other: Any, /) -> NamedArray: ...
        def __eq__(self, other: Any, /) -> NamedArray: ...  # type: ignore[override]
        def __ne__(self, other: Any, /) -> NamedArray: ...  # type: ignore[override]
        def __lt__(self, other: Any, /) -> NamedArray: ...
        def __le__(self, other: Any, /) -> NamedArray: ...
        def __gt__(self, other: Any, /) -> NamedArray: ...
        def __ge__(self, other: Any, /) -> NamedArray: ...
        def __neg__(self) -> NamedArray: ...
        def __pos__(self) -> NamedArray: ...
        def __abs__(self) -> NamedArray: ...
        def __invert__(self) -> NamedArray: ...
        def __round__(self, ndigits: int | None = None, /) -> NamedArray: ...
        def __getitem__(self, index: Any, /) -> Any: ...
        def __iter__(self) -> Iterator[NamedArray]: ...
        def astype(self, dtype: Any) -> NamedArray: ...
        def copy(self) -> NamedArray: ...
        def rename(self, names: Mapping[Hashable, Hashable] | None = None, /, **more: Hashable) -> NamedArray: ...
        def round(self, decimals: int = 0) -> NamedArray: ...
        def clip(self, min: Any = None, max: Any = None) -> NamedArray: ...
        def conj(self) -> NamedArray: ...
        def conjugate(self) -> NamedArray: ...
        def cumsum(self, axis: Any, **options: Any) -> NamedArray: ...
        def cumprod(self, axis: Any, **options: Any) -> NamedArray: ...
        def sort(self, axis: Any = -1, **options: Any) -> NamedArray: ...
        def argsort(self, axis: Any = -1, **options: Any) -> NamedArray: ...
        def reshape(self, *shape: Any, **options: Any) -> NamedArray: ...
        def ravel(self, **options: Any) -> NamedArray: ...
        def flatten(self, **options: Any) -> NamedArray: ...
        def squeeze(self, axis: Any = None) -> NamedArray: ...
        def swapaxes(self, axis1: int, axis2: int) -> NamedArray: ...
        def transpose(self, *axes: Any) -> NamedArray: ...
        def repeat(self, repeats: Any, axis: int | None = None, **options: Any) -> NamedArray: ...
        def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> NamedArray: ...
        def trace(self, *args: Any, **options: Any) -> NamedArray: ...
        def take(self, indices: Any, axis: Any = None, **options: Any) -> Any: ...
        def dot(self, other: Any, axis: Any, **options: Any) -> Any: ...
        def sum(self, axis: Any = None, **options: Any) -> Any: ...
        def mean(self, axis: Any = None, **options: Any) -> Any: ...
        def var(self, axis: Any = None, **options: Any) -> Any: ...
        def std(self, axis: Any = None, **options: Any) -> Any: ...
        def prod(self, axis: Any = None, **options: Any) -> Any: ...
        def max(self, axis: Any = None, **options: Any) -> Any: ...
        def min(self, axis: Any = None, **options: Any) -> Any: ...
        def ptp(self, axis: Any = None, **options: Any) -> Any: ...
        def any(self, axis: Any = None, **options: Any) -> Any: ...
        def all(self, axis: Any = None, **options: Any) -> Any: ...
        def argmax(self, axis: Any = None, **options: Any) -> Any: ...
        def argmin(self, axis: Any = None, **options: Any) -> Any: ...
        @property
        def at(self) -> Any: ...
        @property
        def T(self) -> NamedArray: ...
        @property
        def mT(self) -> NamedArray: ...
        @property
        def real(self) -> NamedArray: ...
        @property
        def imag(self) -> NamedArray: ...
    # ruff: enable[D102]

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
        """Sizes of the positional axes."""
        dims = positions(self, "shape")
        return tuple(n for n, dim in zip(self._data.shape, dims, strict=True) if dim is None)

    @property
    def ndim(self) -> int:
        """The number of positional axes."""
        return self._dims.count(None)

    @property
    def size(self) -> int:
        """The product of the sizes of the positional axes."""
        return math.prod(self.shape)

    @property
    def named_shape(self) -> Mapping[Hashable, int]:
        """Global size of every named axis, also inside of a mapped body."""
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

    def _nameless(self, what: str) -> Any:
        if _tail(self._dims):
            names = ", ".join(repr(dim) for dim in self._dims if dim is not None)
            raise NamedAxesLeftError(
                f"{what}: {type_text(self)} still has named axes, and {what} needs an array without names. Reduce them, or "
                f"give them positions with nx.positional(x, [{names}, ...])."
            )
        return self._data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._nameless("np.asarray"), dtype=dtype, copy=copy)

    def __bool__(self) -> bool:
        return bool(self._nameless("bool()"))

    def __int__(self) -> int:
        return int(self._nameless("int()"))

    def __float__(self) -> float:
        return float(self._nameless("float()"))

    def __complex__(self) -> complex:
        return complex(self._nameless("complex()"))

    def __index__(self) -> int:
        index: int = self._nameless("index()").__index__()
        return index

    def item(self) -> Any:
        """The single element of an array without names, as a Python scalar."""
        return self._nameless("item()").item()

    def tolist(self) -> Any:
        """The elements of an array without names, as nested lists of Python scalars."""
        return self._nameless("tolist()").tolist()

    def __contains__(self, value: Any) -> bool:
        return value in self._nameless("in")

    def __len__(self) -> int:
        if not self.shape:
            raise PositionalAxisError(f"len(): {type_text(self)} has no positional axis; see x.named_shape for the others.")
        return self.shape[0]

    def block_until_ready(self) -> NamedArray:
        """Waits until the values are computed, and returns the array."""
        self._data.block_until_ready()
        return self

    def __repr__(self) -> str:
        data = self._data
        if isinstance(data, jax.core.Tracer) or not isinstance(data, jax.Array):
            return f"NamedArray({type_text(self)})"
        if data.is_deleted():
            return f"NamedArray({type_text(self)}, deleted)"
        if not data.is_fully_addressable:
            return f"NamedArray({type_text(self)}, values on other processes)"
        if jnp.issubdtype(data.dtype, jax.dtypes.extended):  # random keys, which NumPy does not know
            data = jax.random.key_data(data)
        values = np.array2string(np.asarray(data), threshold=24, edgeitems=2, precision=4, separator=", ")
        dims = ", ".join("_" if dim is None else str(dim) for dim in self._dims)
        return f"NamedArray({type_text(self)}, dims=({dims}),\n{values})"

    # --- as notebooks show it (`namedax.core.display`) -------------------------------------------------------------------

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        from namedax.core import display

        display.pretty(self, printer, cycle)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        # A property, so that treescope, which looks at the class and has a rendering of its own, does not show this one too.
        from namedax.core import display

        return lambda: display.to_html(self)

    def __treescope_repr__(self, path: str | None, subtree_renderer: Any) -> Any:
        from namedax.core import display

        return display.treescope_rendering(self, path, subtree_renderer)

    def __treescope_ndarray_adapter__(self) -> Any:
        from namedax.core import display

        return display.treescope_adapter()


_set_data: Callable[[NamedArray, Any], None] = vars(NamedArray)["_data"].__set__
_set_dims: Callable[[NamedArray, Dims], None] = vars(NamedArray)["_dims"].__set__
_set_casts: Callable[[NamedArray, Any], None] = vars(NamedArray)["_casts"].__set__


def _new_memory() -> dict[Hashable, Any] | None:
    region = ambient()
    return {"trace": get_opaque_trace_state(), "region": region} if region is not None and region.manual else None


def origin_of(array: NamedArray) -> Region | None:
    """The region in which `array` was made, of whose names its data are blocks; `None` where they are whole (`is_global`)."""
    return None if array._casts is None else array._casts["region"]


def is_global(array: NamedArray) -> bool:
    """Whether the data of `array` is whole: it was made outside of every mapped body with local blocks."""
    return array._casts is None


def make(data: Any, dims: Dims) -> NamedArray:
    """A `NamedArray` of global data, without any check; `dims` must be a valid tuple."""
    array = object.__new__(NamedArray)
    _set_data(array, data)
    _set_dims(array, dims)
    _set_casts(array, None)
    return array


def make_in_region(data: Any, dims: Dims) -> NamedArray:
    """Like `make`, but inside of a mapped body `data` is the block of this device.

    There the array can also remember other forms of its data (`namedax.core.variance`).

    It remembers them for the trace that it was made in, and for no other: a form that was computed in an inner trace would
    outlive it.
    """
    array = make(data, dims)
    _set_casts(array, _new_memory())
    return array


def _leaf(array: NamedArray) -> Any:
    # What a body closes over is whole, or the block of a surrounding body; a copy that is made of leaves in the body could not be
    # told from a block of this one, so the leaf of such an array is its block.
    region = ambient()
    if region is not None and region.manual and origin_of(array) != region and isinstance(array._data, jax.Array):
        return _block_of[0](array, "the leaves of a pytree", region)._data
    return array._data


# How a body cuts an array to its block is an operation's business; `namedax.namespaces.operators.install` puts it here.
_block_of: list[Callable[..., NamedArray]] = []


def set_block_of(local_block: Callable[..., NamedArray]) -> None:
    """Says how an array that a body closes over is cut to its block."""
    _block_of[:] = [local_block]


class _Tail(tuple[Hashable | None, ...]):
    """The dims of an array that was taken apart in a mapped body, which notes where the body's names live.

    To JAX it is a tuple like others: what an array remembers makes no difference between structures.
    """

    placements: Placements


@functools.lru_cache(maxsize=4096)
def _noting(tail: Dims, placements: Placements) -> _Tail:
    noted = _Tail(tail)
    noted.placements = placements
    return noted


def _remembered_dims(array: NamedArray) -> Dims:
    tail = _tail(array._dims)
    placements = placements_to_note() if tail else None
    return tail if placements is None else _noting(tail, placements)


def _flatten_with_keys(array: NamedArray) -> tuple[Any, Dims]:
    tail = _remembered_dims(array)
    return ((_key(tail), _leaf(array)),), tail


@functools.lru_cache(maxsize=4096)
def _key(tail: Dims) -> jax.tree_util.GetAttrKey:
    # The key says the physical order where there is one to say: a checkpoint keeps keys and shapes only, and axes of equal size
    # could be taken for one another. Quoted, because it may become the name of a file.
    order = ",".join("_" if dim is None else urllib.parse.quote(str(dim), safe="") for dim in tail)
    return jax.tree_util.GetAttrKey("data" if len(tail) < 2 else f"data{{{order}}}")


def _flatten(array: NamedArray) -> tuple[Any, Dims]:
    return (_leaf(array),), _remembered_dims(array)


def _unflatten(tail: Dims, children: Iterable[Any]) -> NamedArray:
    (data,) = children
    # JAX unflattens with placeholders too, and tree functions with whatever they return: no check belongs here.
    # An array whose data does not fit its dims is refused where it is used (`positions`).
    leading = getattr(data, "ndim", 0) - len(tail)
    array = make_in_region(data, (None,) * leading + tuple(tail))
    if type(tail) is _Tail and isinstance(data, jax.core.Tracer):
        note_left(array, tail.placements)
    return array


jax.tree_util.register_pytree_with_keys(NamedArray, _flatten_with_keys, _unflatten, _flatten)


# --- in exported functions (`jax.export`): the dims are written as a Python literal ----------------------------------


def _serialize_dims(tail: Dims) -> bytes:
    text = repr(tail)
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        read = None
    if read != tail or repr(read) != text:
        raise AxisNameError(
            f"export: an array with the axes {tail} can not be part of an exported function; there, names are strings, numbers, or "
            "tuples of these. Rename the axis (nx.rename)."
        )
    return text.encode()


def _deserialize_dims(data: bytes | bytearray) -> Dims:
    dims: Dims = ast.literal_eval(bytes(data).decode())
    return dims


export.register_pytree_node_serialization(
    NamedArray,
    serialized_name="namedax.NamedArray",
    serialize_auxdata=_serialize_dims,
    deserialize_auxdata=_deserialize_dims,
)


def dims_of(value: Any) -> Dims:
    """The dims of anything that can be an operand; an array without names has positional axes only.

    >>> dims_of(1.0), dims_of(np.zeros((2, 3))), dims_of(NamedArray([1, 2], ("k",)))
    ((), (None, None), ('k',))
    """
    if type(value) is NamedArray:
        return value._dims
    return (None,) * np.ndim(value)


def positions(array: NamedArray, op: str) -> Dims:
    """The dims of `array`, checked against its data: a raw JAX transform may have stripped a named axis."""
    if len(array._dims) != array._data.ndim:
        raise PositionalAxisError(
            f"{op}: an array with axes {array._dims} holds data of shape {array._data.shape}. A raw JAX transform (jax.vmap, "
            "lax.scan, jax.tree.map) has removed an axis that has a name, or one that stands behind a named one. Move the "
            "positional axis to the front first, or use nx.nmap, which takes names."
        )
    return array._dims


_SHORT_KINDS = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


def _dtype_text(dtype: Any) -> str:
    name = str(dtype)
    stem = name.rstrip("0123456789")
    return _SHORT_KINDS[stem] + name[len(stem) :] if stem in _SHORT_KINDS and stem != name else name


def _mesh_axes_text(axes: tuple[str, ...]) -> str:
    return "" if not axes else "@" + (axes[0] if len(axes) == 1 else "(" + ",".join(axes) + ")")


def shown_placements(value: NamedArray) -> list[tuple[str, ...]]:
    """The mesh axes of every dimension as they are shown: by the region's assignment, or as the data are sharded."""
    data, dims, region = value._data, value._dims, ambient()
    if region is not None and region.resources:
        return [() if dim is None else region.resources.get(dim, ()) for dim in dims]
    sharding = None if isinstance(data, jax.core.Tracer) else getattr(data, "sharding", None)
    spec = tuple(sharding.spec) if isinstance(sharding, NamedSharding) else ()
    padded = spec + (None,) * (len(dims) - len(spec))
    return [() if not axes else (axes,) if isinstance(axes, str) else tuple(axes) for axes in padded]


def positional_type_text(value: NamedArray) -> str:
    """What a function sees that is vectorised over all names of the array: its element type and positional shape.

    >>> positional_type_text(NamedArray(jnp.zeros((5, 20)), (None, "batch")))
    'f32[5]'
    """
    return f"{_dtype_text(value.dtype)}[{','.join(map(str, value.shape))}]"


def type_text(value: Any) -> str:
    """The type of an array as `repr` shows it: element type, positional shape, named shape with the placement.

    >>> type_text(NamedArray(jnp.zeros((5, 20, 7)), (None, "batch", "k")))
    'f32[5]{batch:20, k:7}'
    """
    if not isinstance(value, NamedArray):
        # A Python number that went through jax.checkpoint has an element type and no shape.
        return f"{_dtype_text(value.dtype)}[{','.join(map(str, np.shape(value)))}]" if hasattr(value, "dtype") else repr(value)
    data, dims = value._data, value._dims
    if not hasattr(data, "shape") or len(data.shape) != len(dims):
        what = f"{_dtype_text(data.dtype)}[{','.join(map(str, data.shape))}]" if hasattr(data, "dtype") else repr(data)
        return f"{what} with the axes {dims}, which do not fit"
    specs = shown_placements(value)
    shape = ",".join(str(n) + _mesh_axes_text(s) for n, dim, s in zip(data.shape, dims, specs, strict=True) if dim is None)
    sizes = value.named_shape
    named = ", ".join(f"{dim}:{sizes[dim]}{_mesh_axes_text(s)}" for dim, s in zip(dims, specs, strict=True) if dim is not None)
    return f"{_dtype_text(value.dtype)}[{shape}]{{{named}}}"
