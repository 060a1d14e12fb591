"""Files of the format safetensors: their headers, mapped into memory, and written tensor by tensor.

A file is 8 bytes with the length of the header, the header as JSON, and the values of all tensors.
The library `safetensors` validates files. Its arrays of NumPy lack the short floats of JAX, so this
module reads and writes the values itself.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from namedax.core.file_names import checked_path
from namedax.errors import ArgumentError, ArgumentTypeError, CheckpointError, format_value
from namedax.interop.specs import Header
from namedax.interop.state_dicts import Outgoing

__all__ = ["INDEX", "TensorFiles", "check_dtypes", "safetensors", "write"]

SUFFIX, INDEX = ".safetensors", ".safetensors.index.json"

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


def safetensors(op: str) -> ModuleType:
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
        library = safetensors(op)
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
            f"{op}: {path} cannot be read: {error.strerror}. Pass a file {'*' + SUFFIX!r}, an index"
            f" {'*' + INDEX!r}, or a folder."
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
            if not found.endswith(INDEX):
                files[found] = None
                continue
            weights = indices[found] = _read_index(found, op)
            files.update(dict.fromkeys(sorted({*weights.values()})))
    return [*files], indices


def _of_folder(folder: str, op: str) -> list[str]:
    """Return the index in a folder, or else its files."""
    names = sorted(os.listdir(folder))
    indices = [name for name in names if name.endswith(INDEX)]
    files = [name for name in names if name.endswith(SUFFIX)]
    if not files and not indices:
        raise CheckpointError(
            f"{op}: the folder {folder} has no file {'*' + SUFFIX!r}. Pass the folder of a"
            " checkpoint, or its files."
        )
    single = [name for name in files if name.removesuffix(SUFFIX) + INDEX in indices]
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


def check_dtypes(tensors: Mapping[str, Outgoing], op: str) -> None:
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


def write(
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
    stem = path.removesuffix(SUFFIX)
    paths = [path]
    if len(shards) > 1:
        paths = [f"{stem}-{i + 1:05d}-of-{len(shards):05d}{SUFFIX}" for i in range(len(shards))]
    if not writes:
        for shard in shards:
            for key in shard:
                tensors[key].gather()
        return
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    library = safetensors(op)
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
            done.append((part, stem + INDEX))
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
