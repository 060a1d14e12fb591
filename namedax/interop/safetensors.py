"""Named arrays in files of the format safetensors, in which models are published.

A file is 8 bytes with the length of the header, the header as JSON, and the values of all tensors.
Headers are mapped into memory, and files are written tensor by tensor. The library `safetensors`
validates files. Its arrays of NumPy lack the short floats of JAX, so this module reads and writes
the values itself.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import tempfile
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from namedax.core.file_names import checked_path
from namedax.core.names import DType, Mesh, PyTree
from namedax.errors import ArgumentError, ArgumentTypeError, CheckpointError, format_value
from namedax.interop.entries import (
    NumbersByLabel,
    Sizes,
    Spec,
    Tied,
    parse_spec,
    parse_tied,
)
from namedax.interop.quantization import QuantizationConfig, dequantized, parse_quantization
from namedax.interop.specs import Header, make_plans, place_arrays
from namedax.interop.state_dicts import Outgoing, check_tied, ignored_patterns, outgoing, target_of
from namedax.interop.tensors import check_memory, placed
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names

__all__ = ["TensorFiles", "load_safetensors", "save_safetensors"]

_SUFFIX, _INDEX = ".safetensors", ".safetensors.index.json"

# The format also has F4, F6_E2M3 and F6_E3M2, of which several elements share a byte. It does not
# define their order.
_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
_DTYPES = {name: np.dtype(jnp.dtype(dtype)) for name, dtype in _NAMES.items()}
_BY_DTYPE = {dtype: name for name, dtype in _DTYPES.items()}

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@checks_signature
def load_safetensors(
    path_or_paths: Paths,
    spec: Spec,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    *,
    sizes: Sizes | None = None,
    numbers: NumbersByLabel | None = None,
    tied: Tied | None = None,
    ignore: str | Sequence[str] = (),
    dtype: DType | None = None,
    quantization: QuantizationConfig | None = None,
) -> dict[str, Any]:
    """Load a checkpoint of the format safetensors as a tree of named arrays.

    All keys, shapes and sizes are checked by the headers of the files, before any value is read.
    Then each device reads its own block of each array. Beside the result, the host needs memory for
    one block. Blocks that several devices of a process have are read once. Each process reads only
    the blocks of its own devices. Quantized tensors are dequantized a few MiB at a time.

    Shapes cannot show a wrong order, for example of heads and their elements. To check a spec, read
    `state_dict_report`.

    Args:
      path_or_paths: a file, several files, an index (`*.safetensors.index.json`), or a folder with
        one checkpoint.
      spec: a dict from key patterns to pairs `(place, pattern)`, as in `from_state_dict`.
      axis_resources: as in `nx.shard`. An axis that does not divide over its mesh axes is
        replicated. Default: the arrays are not sharded.
      mesh: a mesh. Default: the mesh of `jax.set_mesh` if `axis_resources` is given.
      sizes: sizes by label or by axis name, as in `from_state_dict`. Default: none.
      numbers: the numbers of labels in keys, as in `from_state_dict`. Default: none.
      tied: a dict from keys to the keys of equal tensors, as in `from_state_dict`. Default: none.
      ignore: patterns of keys that may be left over, such as `"*.inv_freq"`. Default: none.
      dtype: the dtype of floating-point tensors. Default: the stored one.
      quantization: the method of quantized tensors, as in `from_state_dict`. Default: none.

    Returns:
      A tree of nested dicts with named arrays.

    Raises:
      CheckpointError: a file is missing or damaged, keys are missing or left over, shapes or sizes
        do not match, or the blocks exceed the free memory of a device. The message has every key.
      RearrangeError: a pattern is malformed. The message has a caret under the error.
      ArgumentError: a key pattern, a place, `numbers`, `tied`, `dtype` or `quantization` is
        malformed.
      ArgumentTypeError: `path_or_paths` or `spec` has an invalid type.
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: there is no mesh, or it lacks a mesh axis or devices.
      PlacementConflictError: two axes of one array are sharded over one mesh axis.
      ImportError: safetensors is not installed.

    >>> import jax, numpy as np, safetensors.numpy, tempfile, namedax as nx
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> safetensors.numpy.save_file({"q.weight": np.ones((8, 5), np.float32)}, path)
    >>> spec = {"q.weight": ("query", "(heads key) e -> {embed=e, heads, key}")}
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> params = nx.interop.load_safetensors(path, spec, {"heads": "x"}, mesh, sizes={"heads": 4})
    >>> params["query"].dims, params["query"].sharding.spec
    (('embed', 'heads', 'key'), P(None, 'x', None))
    """
    op = "load_safetensors"
    target = target_of(axis_resources, mesh, op)
    entries, ties = parse_spec(spec, numbers, op), parse_tied(tied, op)
    patterns = ignored_patterns(ignore, op)
    method = parse_quantization(quantization, op)
    files = TensorFiles(path_or_paths, op)
    tensors = dequantized(files.headers, method, patterns)
    matched = make_plans(
        tensors.headers,
        entries,
        op,
        sizes=sizes,
        tied=ties,
        ignore=patterns,
        dtype=dtype,
        stored_problems=tensors.problems,
        where="the files",
    )
    check_layout_names(op, axis_resources, (d for p in matched.plans for d in p.entry.dims))
    check_memory(matched.plans, target, op)
    reader = tensors.reader(files)
    for key, source in matched.copies.items():
        check_tied(key, source, reader.read(key), reader.read(source), op)
        reader.release(key)
        reader.release(source)
    return place_arrays(matched.plans, (placed(plan, reader, target, op) for plan in matched.plans))


@checks_signature
def save_safetensors(
    tree: PyTree,
    spec: Spec,
    path: str | os.PathLike[str],
    *,
    sizes: Sizes | None = None,
    numbers: NumbersByLabel | None = None,
    tied: Tied | None = None,
    max_shard_bytes: int | None = None,
) -> None:
    """Save a tree of named arrays in the format safetensors, the inverse of `load_safetensors`.

    Loading the file with the same spec gives equal bits. Files get their names when all of them are
    complete, so an interrupted call leaves an older file unchanged. With several processes, the
    first one writes.

    Communication: every array is gathered on the host, one tensor at a time. If other processes
    have blocks of it, that is an all-gather of each tensor.

    Args:
      tree: a pytree with an array at each place of `spec`. The order of its axes does not matter.
      spec: as in `from_state_dict`.
      path: the path of the file, which ends with `.safetensors`.
      sizes: sizes of labels, as in `to_state_dict`. Default: none.
      numbers: the numbers of labels in keys, as in `from_state_dict`. Default: none.
      tied: a dict from keys to the keys of equal tensors. A tied key is not written. If `spec` has
        it, both arrays must have equal bits. Default: none.
      max_shard_bytes: the maximum size of one file. If the tensors are larger, the files are
        `name-00001-of-00002.safetensors` and so on, with the index `name.safetensors.index.json`. A
        tensor is never split. Default: one file.

    Raises:
      CheckpointError: the tree lacks a place or has others, an array has other axes or sizes than
        its pattern, or the format lacks its dtype.
      RearrangeError: a pattern is malformed. The message has a caret under the error.
      ArgumentError: the path has another suffix, or a key pattern, a place, `tied` or
        `max_shard_bytes` is invalid.
      ArgumentTypeError: `spec` has an invalid type, or a leaf is traced or not an array.
      AxisResourceError: the call is inside a mapped function.
      ImportError: safetensors is not installed.

    >>> import jax.numpy as jnp, namedax as nx, safetensors.numpy, tempfile
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> tree = {"query": nx.named(jnp.ones((5, 3, 2)), ["embed", "heads", "key"])}
    >>> spec = {"q.weight": ("query", "(heads key) e -> {embed=e, heads, key}")}
    >>> nx.interop.save_safetensors(tree, spec, path)
    >>> safetensors.numpy.load_file(path)["q.weight"].shape
    (6, 5)
    """
    op = "save_safetensors"
    _library(op)
    target_of(None, None, op)
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(f"{op}: path is {format_value(path)}, not a path. Pass a string.")
    text = os.fspath(path)
    if not text.endswith(".safetensors"):
        raise ArgumentError(
            f"{op}: path is {text!r}, which does not end with '.safetensors'. Add the suffix."
        )
    if max_shard_bytes is not None and (
        isinstance(max_shard_bytes, bool)
        or not isinstance(max_shard_bytes, int)
        or max_shard_bytes < 1
    ):
        raise ArgumentError(
            f"{op}: max_shard_bytes must be a positive integer, got"
            f" {format_value(max_shard_bytes)}. Pass a number of bytes, such as 5 * 10**9."
        )
    tensors = outgoing(tree, spec, sizes, numbers, tied, op)
    _check_dtypes(tensors, op)
    _write(tensors, text, max_shard_bytes, jax.process_index() == 0, op)
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(f"namedax {op} {text}")


def _library(op: str) -> ModuleType:
    """Import safetensors.

    Raises:
      ImportError: it is not installed.
    """
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            f"{op}: safetensors is not installed. Install it with `pip install safetensors`, or"
            " namedax[safetensors]."
        ) from error
    module: ModuleType = safetensors
    return module


# --- reading --------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    header: Header
    path: str
    offset: int  # in the file


class TensorFiles:
    """The tensors of files, which are read when they are needed."""

    def __init__(self, paths: Paths, op: str):
        """Read the headers of all files.

        Raises:
          CheckpointError: a file is missing or damaged, or two files have the same key.
          ImportError: safetensors is not installed.
        """
        library = _library(op)
        self.op = op
        self.stored: dict[str, _Stored] = {}
        self._maps: dict[str, mmap.mmap] = {}
        files, indices = _find(paths, op)
        for path in files:
            for key, stored in _read_header(path, library, op).items():
                if key in self.stored:
                    raise CheckpointError(
                        f"{op}: {key!r} is in {self.stored[key].path} and in {path}. Pass the files"
                        " of one checkpoint, or its index."
                    )
                self.stored[key] = stored
        for index, weights in indices.items():
            _check_index(index, weights, self.stored, op)
        self.headers = {key: stored.header for key, stored in self.stored.items()}

    def read(self, key: str) -> np.ndarray:
        """Return a view of a tensor in its file."""
        (shape, dtype), path, offset = self.stored[key]
        count = math.prod(shape)
        if not count:
            return np.empty(shape, dtype)
        if path not in self._maps:
            with _opened(path, self.op) as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._maps[path], dtype, count, offset).reshape(shape)

    def release(self, key: str) -> None:
        """Let the operating system reclaim the pages of a tensor."""
        header, path, offset = self.stored[key]
        length = math.prod(header.shape) * header.dtype.itemsize
        if path in self._maps and length and hasattr(mmap, "MADV_DONTNEED"):
            start = offset - offset % mmap.PAGESIZE
            self._maps[path].madvise(mmap.MADV_DONTNEED, start, offset + length - start)


def _opened(path: str, op: str) -> Any:
    try:
        return open(path, "rb")
    except OSError as error:
        raise CheckpointError(
            f"{op}: {path} cannot be read: {error.strerror}. Pass a file {'*' + _SUFFIX!r}, an"
            f" index {'*' + _INDEX!r}, or a folder."
        ) from None


def _find(paths: Paths, op: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Return the files, and the files of the keys of each index by its path."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(given, (list, tuple)) or not all(
        isinstance(path, (str, os.PathLike)) for path in given
    ):
        raise ArgumentTypeError(
            f"{op}: the path is {format_value(paths)}, of type {type(paths).__name__}. Pass a path,"
            " or a list of paths."
        )
    if not given:
        raise ArgumentError(f"{op}: the list of paths is empty. Pass at least one file.")
    files: dict[str, None] = {}
    indices: dict[str, dict[str, str]] = {}
    for path in (os.fspath(path) for path in given):
        for found in _of_folder(path, op) if os.path.isdir(path) else [path]:
            if not found.endswith(_INDEX):
                files[found] = None
                continue
            weights = indices[found] = _read_index(found, op)
            files.update(dict.fromkeys(sorted({*weights.values()})))
    return [*files], indices


def _of_folder(folder: str, op: str) -> list[str]:
    """Return the index in a folder, or else its files."""
    names = sorted(os.listdir(folder))
    indices = [name for name in names if name.endswith(_INDEX)]
    files = [name for name in names if name.endswith(_SUFFIX)]
    if not files and not indices:
        raise CheckpointError(
            f"{op}: the folder {folder} has no file {'*' + _SUFFIX!r}. Pass the folder of a"
            " checkpoint, or its files."
        )
    single = [name for name in files if name.removesuffix(_SUFFIX) + _INDEX in indices]
    if len(indices) > 1 or single:
        raise CheckpointError(
            f"{op}: the folder {folder} has more than one checkpoint, {indices + single}. Pass the"
            " path of one of them."
        )
    return [os.path.join(folder, name) for name in indices or files]


def _read_index(path: str, op: str) -> dict[str, str]:
    """Return the paths of files by the keys that an index has in them."""
    with _opened(path, op) as file:
        text = file.read()
    try:
        weights = json.loads(text)["weight_map"]
        assert isinstance(weights, dict)
        assert all(isinstance(name, str) for name in weights.values())
    except (ValueError, KeyError, TypeError, AssertionError):
        raise CheckpointError(
            f"{op}: {path} is not the index of a checkpoint: it has no 'weight_map' from keys to"
            " files. Copy it again."
        ) from None
    folder = os.path.dirname(path)
    paths = {name: checked_path(folder, name, path, op) for name in {*weights.values()}}
    return {key: paths[name] for key, name in weights.items()}


def _check_index(
    path: str, weights: Mapping[str, str], stored: Mapping[str, _Stored], op: str
) -> None:
    absent = [key for key, file in weights.items() if key not in stored or stored[key].path != file]
    if absent:
        name = os.path.relpath(weights[absent[0]], os.path.dirname(path) or os.curdir)
        raise CheckpointError(
            f"{op}: {path} lists {absent[0]!r} in {name!r}, which does not have it"
            f" ({len(absent)} such keys). Copy the files of one checkpoint again."
        )


def _read_header(path: str, library: ModuleType, op: str) -> dict[str, _Stored]:
    with _opened(path, op) as file:
        try:
            # It checks that the header is well-formed, and that the tensors fill the file.
            with library.safe_open(path, framework="np"):
                pass
        except library.SafetensorError as error:
            raise CheckpointError(
                f"{op}: {path} is damaged, or not a file of safetensors ({error}). Copy or download"
                " it again."
            ) from None
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
    entries.pop("__metadata__", None)
    found = {}
    for key, entry in entries.items():
        if entry["dtype"] not in _DTYPES:
            raise CheckpointError(
                f"{op}: {key!r} in {path} has the dtype {entry['dtype']}, which is not supported."
                f" The supported ones are {', '.join(_DTYPES)}. Convert the file to one of these."
            )
        header = Header(tuple(entry["shape"]), _DTYPES[entry["dtype"]])
        found[key] = _Stored(header, path, 8 + length + entry["data_offsets"][0])
    return found


# --- writing --------------------------------------------------------------------------------------


def _check_dtypes(tensors: Mapping[str, Outgoing], op: str) -> None:
    """Check that the dtypes of all tensors can be written.

    Raises:
      CheckpointError: one cannot.
    """
    for key, tensor in tensors.items():
        if tensor.header.dtype not in _BY_DTYPE:
            raise CheckpointError(
                f"{op}: {key!r}, {tensor.header.text}, has a dtype that cannot be written to files"
                f" of safetensors. Cast it (astype) to {', '.join(sorted(_NAMES.values()))}."
            )


def _bytes(header: Header) -> int:
    return math.prod(header.shape) * header.dtype.itemsize


def _write(
    tensors: Mapping[str, Outgoing], path: str, max_shard_bytes: int | None, writes: bool, op: str
) -> None:
    """Gather tensors one by one, and write them to files.

    Files have temporary names until all of them are complete.

    Args:
      tensors: the tensors by their keys.
      path: the path of the file, and of its shards without the suffix.
      max_shard_bytes: the maximum size of the tensors in one file.
      writes: False on processes that only take part in gathering.
      op: the operation.
    """
    shards = _shards(tensors, max_shard_bytes)
    stem = path.removesuffix(_SUFFIX)
    paths = [path]
    if len(shards) > 1:
        paths = [f"{stem}-{i + 1:05d}-of-{len(shards):05d}{_SUFFIX}" for i in range(len(shards))]
    if not writes:
        for shard in shards:
            for key in shard:
                tensors[key].gather()
        return
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    library = _library(op)
    with tempfile.TemporaryDirectory(prefix=".namedax-", dir=folder) as temporary:
        done = []
        for shard, final in zip(shards, paths, strict=True):
            part = os.path.join(temporary, os.path.basename(final))
            _write_file(part, {key: tensors[key] for key in shard})
            _read_header(part, library, op)
            done.append((part, final))
        if len(shards) > 1:
            part = os.path.join(temporary, "index")
            _write_index(part, tensors, shards, paths)
            done.append((part, stem + _INDEX))
        for part, final in done:
            os.replace(part, final)


def _shards(tensors: Mapping[str, Outgoing], limit: int | None) -> list[list[str]]:
    """Distribute keys over files, in order. A tensor beyond the limit has its own file."""
    if limit is None:
        return [[*tensors]]
    shards: list[list[str]] = [[]]
    total = 0
    for key, tensor in tensors.items():
        size = _bytes(tensor.header)
        if shards[-1] and total + size > limit:
            shards.append([])
            total = 0
        shards[-1].append(key)
        total += size
    return shards


def _write_file(path: str, tensors: Mapping[str, Outgoing]) -> None:
    # Wide dtypes come first, so that every tensor is aligned.
    ordered = sorted(tensors, key=lambda key: (-tensors[key].header.dtype.itemsize, key))
    # "pt" declares the axis order of PyTorch, which Transformers requires.
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for key in ordered:
        header = tensors[key].header
        end = offset + _bytes(header)
        entries[key] = {
            "dtype": _BY_DTYPE[header.dtype],
            "shape": header.shape,
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for key in ordered:
            file.write(tensors[key].gather().reshape(-1).view(np.uint8).data)
        file.flush()
        os.fsync(file.fileno())


def _write_index(
    path: str,
    tensors: Mapping[str, Outgoing],
    shards: Iterable[Iterable[str]],
    paths: Iterable[str],
) -> None:
    total = sum(_bytes(tensor.header) for tensor in tensors.values())
    weights = {
        key: os.path.basename(final)
        for shard, final in zip(shards, paths, strict=True)
        for key in shard
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weights}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
