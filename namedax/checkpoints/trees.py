"""Split a tree into arrays by path, which orbax writes, and JSON for everything else.

The JSON has the tree's structure, and for each array its dtype and its dims, the axis names. It
also contains Python values and arrays without elements, which orbax does not support. Nothing is
ever unpickled, because classes are not stored. A named tuple or a dataclass is restored as a dict
of its fields, or as its class if `like` has it.

A path is the sequence of keys from the root to a leaf, joined by `/`; within a key, `/`, `.` and
`%` are percent-encoded.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from namedax.checkpoints.written_names import Json, identity, read_name, written_name
from namedax.core.array import NamedArray, is_named, make, padding_of, positions
from namedax.core.display import type_text
from namedax.core.names import Dims, PyTree
from namedax.errors import CheckpointError, format_value
from namedax.messages.tree_differences import children, key_of
from namedax.ops.operands.pytree import data_of
from namedax.resources.stored_padding import on_host

__all__ = [
    "PLAIN",
    "Path",
    "Stored",
    "Value",
    "check_tree",
    "is_key",
    "leaves_of",
    "nested",
    "path_text",
    "rebuilt",
    "split",
    "stored_leaves",
]

Path = tuple[str, ...]
PLAIN = (bool, int, float, complex, str)  # types of Python values that are stored in the metadata


class Stored(NamedTuple):
    """An array of a checkpoint, as described by its metadata.

    `dims` are written names, `None` for a positional axis.
    """

    shape: tuple[int, ...]
    dtype: Any
    dims: tuple[Json, ...]
    key: str | None  # the random-number generator of an array of keys
    host: bool  # it was a NumPy array

    @property
    def names(self) -> dict[str, int]:
        """The size of each name, by the name's identity."""
        return {
            identity(dim): n
            for dim, n in zip(self.dims, self.shape, strict=True)
            if dim is not None
        }

    @property
    def display_names(self) -> dict[str, str]:
        """The text of each name, by the name's identity."""
        return {identity(dim): _name_text(dim) for dim in self.dims if dim is not None}

    @property
    def positional(self) -> tuple[int, ...]:
        """The sizes of the positional axes."""
        return tuple(n for dim, n in zip(self.dims, self.shape, strict=True) if dim is None)

    @property
    def empty(self) -> bool:
        """True if there is no element to read: orbax does not write such an array."""
        return math.prod(self.shape) == 0

    def compare(self, data: jax.Array, path: Path, folder: str, op: str) -> None:
        """Compare an array that orbax found or read with the metadata.

        Raises:
          CheckpointError: its shape or dtype differs.
        """
        shape, dtype = self.shape, self.dtype
        if self.key is not None:
            words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
            shape, dtype = words.shape, words.dtype
        if tuple(data.shape) != tuple(shape) or np.dtype(data.dtype) != np.dtype(dtype):
            raise CheckpointError(
                f"{op}: the files in {folder} contain {data.dtype}{list(data.shape)} for"
                f" {path_text(path)}, but the metadata has {np.dtype(dtype)}{list(shape)}: one of"
                " them is damaged. Restore another checkpoint."
            )

    def read_dims(self, op: str) -> Dims:
        """Return the names, and `None` for positional axes."""
        return tuple(None if dim is None else read_name(dim, op) for dim in self.dims)

    def type(self, op: str) -> NamedArray | jax.ShapeDtypeStruct:
        """Return the array without values."""
        return _as_array(jax.ShapeDtypeStruct(self.shape, self.dtype), self.read_dims(op))

    @property
    def text(self) -> str:
        """The type, in the format of `repr` of an array."""
        dims = tuple(None if dim is None else _name_text(dim) for dim in self.dims)
        return type_text(_as_array(jax.ShapeDtypeStruct(self.shape, self.dtype), dims))


class Value(NamedTuple):
    """A Python value in a checkpoint."""

    value: Any

    @property
    def text(self) -> str:
        """The text for messages."""
        return f"the {type(self.value).__name__} {self.value!r}"


def _name_text(dim: object) -> str:
    """Return the text of a written name, without importing anything."""
    if isinstance(dim, dict) and "enum" in dim:
        return str(dim["enum"])
    try:
        return str(read_name(dim, "restore"))
    except CheckpointError:
        return json.dumps(dim)


def _as_array(data: jax.ShapeDtypeStruct, dims: Dims) -> NamedArray | jax.ShapeDtypeStruct:
    return make(data, dims) if any(dim is not None for dim in dims) else data


def is_key(data: object) -> bool:
    """Return True if an array, or its type, has random keys."""
    return bool(jnp.issubdtype(getattr(data, "dtype", np.dtype(bool)), jax.dtypes.prng_key))


# --- trees, one level at a time -------------------------------------------------------------------


def _children(node: object) -> list[tuple[Any, Any]] | None:
    """Return the keys and children of a node of a tree; `None` for a leaf."""
    found = None if is_named(node) else children(node)
    return None if found is None else [(key_of(entry), child) for entry, child in found]


def _written_key(key: Hashable, op: str) -> Json:
    return written_name(key, op, "a key of a dict")


def _part(written: Json) -> str:
    """Return a written key as a part of a path."""
    text = str(written) if isinstance(written, (str, int)) else identity(written)
    return "".join(_QUOTED.get(character, character) for character in text)


# Orbax joins keys with periods.
_QUOTED = {character: f"%{ord(character):02X}" for character in "%/."}


def path_text(path: Path) -> str:
    """Return a path as text, as in messages and in `names`.

    >>> from namedax.checkpoints.trees import path_text
    >>> path_text(("params", "w1"))
    'params/w1'
    """
    return "/".join(path)


def leaves_of(tree: PyTree, op: str) -> dict[Path, Any]:
    """Return the leaves of a tree by their paths, in the order of `jax.tree.leaves`."""
    found: dict[Path, Any] = {}

    def visit(node: object, path: Path) -> None:
        children = _children(node)
        if children is None:
            if path in found:
                raise CheckpointError(
                    f"{op}: two leaves of the tree have the same path, {path_text(path)}. Give them"
                    " different keys."
                )
            found[path] = node
        for key, child in children or ():
            visit(child, (*path, _part(_written_key(key, op))))

    visit(tree, ())
    return found


# --- writing --------------------------------------------------------------------------------------


def split(tree: PyTree, op: str) -> tuple[dict[Path, Any], Json]:
    """Return the arrays that orbax writes, by their paths, and the JSON of everything else."""
    leaves_of(tree, op)  # checks that paths are unique
    arrays: dict[Path, Any] = {}

    def visit(node: object, path: Path) -> Json:
        children = _children(node)
        if children is None:
            return _leaf(node, path, arrays, op)
        if node is None:
            return {"none": True}
        keys = [_written_key(key, op) for key, _ in children]
        inner = [
            visit(child, (*path, _part(key)))
            for key, (_, child) in zip(keys, children, strict=True)
        ]
        if type(node) in (list, tuple):
            return {type(node).__name__: inner}
        return {"dict": [[key, child] for key, child in zip(keys, inner, strict=True)]}

    return arrays, visit(tree, ())


def _leaf(leaf: object, path: Path, arrays: dict[Path, Any], op: str) -> Json:
    """Return the JSON of a leaf, and add its array to `arrays` if it has elements."""
    if isinstance(leaf, PLAIN) and type(leaf) in PLAIN:
        return {"value": _written_value(leaf)}
    what = f"{path_text(path)} of the tree" if path else "the tree"
    is_padded = False
    if isinstance(leaf, NamedArray) and padding_of(leaf) is not None:
        is_padded, leaf = True, on_host(leaf)  # files have true sizes
    data = _storable(leaf, what, op)
    entry: dict[str, Json] = {"shape": list(data.shape)}
    if isinstance(leaf, NamedArray):
        entry["dims"] = _written_dims(leaf, what, op)
    if not isinstance(data, jax.Array) and not is_padded:
        entry["host"] = True
    if is_key(data):
        entry["key"] = _generator_of(data, what, op)
    else:
        entry["dtype"] = np.dtype(data.dtype).name
    if math.prod(data.shape):
        # The global array, with the sizes of its names: not a block, and without padding of a
        # layout.
        arrays[path or ("",)] = _for_orbax(data)
    return entry


def _storable(leaf: object, what: str, op: str) -> jax.Array:
    """Return the data of a leaf if orbax can write them."""
    data = data_of(leaf)
    if isinstance(data, jax.core.Tracer):
        raise CheckpointError(
            f"{op}: {what}, {type_text(leaf)}, has no values while it is traced. Save outside"
            " traced and mapped functions."
        )
    array = isinstance(data, (jax.Array, np.ndarray, np.generic))
    if not array or not (
        is_key(data)
        or jnp.issubdtype(data.dtype, np.number)
        or jnp.issubdtype(data.dtype, np.bool_)
    ):
        remedy = (
            "Convert it with nx.from_xarray."
            if type(leaf).__module__.startswith("xarray.")
            else "Remove it, or convert it to an array of numbers."
        )
        raise CheckpointError(
            f"{op}: {what} is {format_value(leaf)}, of type {type(leaf).__name__}, which cannot be"
            " stored. A checkpoint can store arrays of numbers, and Python numbers and strings."
            f" {remedy}"
        )
    if not is_key(data) and not _has_files(np.dtype(data.dtype).name):
        raise CheckpointError(
            f"{op}: {what}, {type_text(leaf)}, has a dtype that orbax cannot store. Cast it"
            " (astype) to save it, and cast it back after restoring."
        )
    return data


@functools.lru_cache(maxsize=256)
def _has_files(dtype: str) -> bool:
    import tensorstore  # the library with which orbax writes

    try:
        tensorstore.dtype(dtype)
    except ValueError:
        return False
    return True


def _written_dims(array: NamedArray, what: str, op: str) -> list[Json]:
    dims = [
        None if dim is None else written_name(dim, op, f"an axis of {what}")
        for dim in positions(array, op)
    ]
    named = [identity(dim) for dim in dims if dim is not None]
    if len(set(named)) < len(named):
        raise CheckpointError(
            f"{op}: two axes of {what}, {type_text(array)}, are members of enumerations with equal"
            " names, which a checkpoint cannot distinguish. Rename one of them (nx.rename)."
        )
    return dims


def _generator_of(keys: jax.Array, what: str, op: str) -> str:
    kind = jax.random.key_impl(keys)
    if not isinstance(kind, str):
        raise CheckpointError(
            f"{op}: {what} has keys of the generator {kind!r}, which has no registered name. Save"
            " jax.random.key_data(keys) instead."
        )
    return kind


def _for_orbax(data: jax.Array) -> jax.Array | np.ndarray:
    if is_key(data):
        data = jax.random.key_data(data)
    if isinstance(data, jax.Array) and (jax.process_count() == 1 or not data.is_fully_addressable):
        return data
    # With several processes, each has its own equal copy, as for a Python value.
    return np.asarray(data)


def _written_value(value: bool | int | float | complex | str) -> Json:
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    return {"float": value.hex()} if isinstance(value, float) else value


def _read_value(data: object) -> object:
    match data:
        case {"float": str(text)}:
            return float.fromhex(text)
        case {"complex": [str(real), str(imaginary)]}:
            return complex(float.fromhex(real), float.fromhex(imaginary))
    return data


@functools.lru_cache(maxsize=64)
def _key_type(kind: str, op: str) -> np.dtype:
    try:
        return jax.eval_shape(lambda: jax.random.key(0, impl=kind)).dtype
    except ValueError as error:
        raise CheckpointError(
            f"{op}: the checkpoint has keys of the generator {kind!r}, which is not registered in"
            f" this program. Register it first. ({error})"
        ) from None


def nested(flat: Mapping[Path, Any]) -> dict[str, Any]:
    """Return a dict of dicts with values at these paths: the tree for orbax."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        inner = tree
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = value
    return tree


# --- reading --------------------------------------------------------------------------------------


def check_tree(node: object, field: str, op: str) -> None:
    """Check that a field of a checkpoint's metadata is the JSON of a tree.

    Raises:
      CheckpointError: it is not; the message has the invalid part.
    """

    def wrong(what: str, value: object) -> CheckpointError:
        return CheckpointError(
            f"{op}: {field} has {format_value(value)} for {what}: the file is damaged, or from a"
            " newer namedax. Restore another checkpoint."
        )

    def visit(node: object, path: Path) -> None:
        here = path_text(path) or "the tree itself"
        if (
            not isinstance(node, dict)
            or len({"none", "value", "shape", "dict", "list", "tuple"} & node.keys()) != 1
        ):
            raise wrong(here, node)
        if "shape" in node:
            _check_array(node, here, wrong, op)
        for kind in ("dict", "list", "tuple"):
            if kind in node and not isinstance(node[kind], list):
                raise wrong(here, node)
        for pair in node.get("dict", ()):
            if not isinstance(pair, list) or len(pair) != 2:
                raise wrong(f"a key of {here}", pair)
        for key, child in _inner(node):
            visit(child, (*path, _part(key)))

    visit(node, ())


def _check_array(
    entry: dict[str, Any], here: str, wrong: Callable[[str, Any], CheckpointError], op: str
) -> None:
    shape, dims = entry["shape"], entry.get("dims")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise wrong(f"the shape of {here}", shape)
    if dims is not None and (not isinstance(dims, list) or len(dims) != len(shape)):
        raise wrong(f"the dims of {here}", dims)
    for dim in dims or ():
        if dim is not None and not (isinstance(dim, dict) and "enum" in dim):
            read_name(dim, op)
    try:
        if "key" not in entry:
            jnp.dtype(entry["dtype"])
    except (KeyError, TypeError):
        raise wrong(f"the dtype of {here}", entry.get("dtype")) from None
    if "key" in entry and not isinstance(entry["key"], str):
        raise wrong(f"the key of {here}", entry["key"])


def _stored(entry: Mapping[str, Any], op: str) -> Stored | Value:
    if "value" in entry:
        return Value(_read_value(entry["value"]))
    shape, kind = tuple(entry["shape"]), entry.get("key")
    dtype = jnp.dtype(entry["dtype"]) if kind is None else _key_type(kind, op)
    return Stored(
        shape, dtype, tuple(entry.get("dims", (None,) * len(shape))), kind, bool(entry.get("host"))
    )


def _walk(node: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if "shape" in node or "value" in node:
        yield path, node
    for key, child in _inner(node):
        yield from _walk(child, (*path, _part(key)))


def _inner(node: Any) -> list[tuple[Any, Any]]:
    """Return the written keys and the children of a node."""
    if "dict" in node:
        return [(key, child) for key, child in node["dict"]]
    return list(enumerate(node.get("list", node.get("tuple", ()))))


def stored_leaves(tree: Json, op: str) -> dict[Path, Stored | Value]:
    """Return the leaves of a checkpoint, by paths, from the JSON of its tree."""
    return {path: _stored(entry, op) for path, entry in _walk(tree, ())}


def rebuilt(tree: Json, leaf: Callable[[Path], object], op: str) -> PyTree:
    """Return the tree of this JSON, with `leaf(path)` for each leaf."""

    def visit(node: Any, path: Path) -> PyTree:
        if "none" in node:
            return None
        if "shape" in node or "value" in node:
            return leaf(path)
        inner = [(key, visit(child, (*path, _part(key)))) for key, child in _inner(node)]
        if "dict" in node:
            return {read_name(key, op): child for key, child in inner}
        return (list if "list" in node else tuple)(child for _, child in inner)

    return visit(tree, ())
