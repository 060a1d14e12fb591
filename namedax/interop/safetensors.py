"""Named arrays in files of the format safetensors, in which models are published."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental import multihost_utils

from namedax.core.names import DType, Mesh, PyTree
from namedax.errors import ArgumentError, ArgumentTypeError, format_value
from namedax.interop.specs import (
    Sizes,
    Spec,
    Tied,
    make_plans,
    parse_spec,
    parse_tied,
    place_arrays,
)
from namedax.interop.state_dicts import check_tied, ignored_patterns, outgoing, target_of
from namedax.interop.tensor_files import Paths, TensorFiles, check_dtypes, safetensors, write
from namedax.interop.tensors import check_memory, placed
from namedax.messages.call_errors import checks_signature
from namedax.messages.layout_names import check_layout_names

__all__ = ["load_safetensors", "save_safetensors"]


@checks_signature
def load_safetensors(
    path_or_paths: Paths,
    spec: Spec,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    *,
    sizes: Sizes | None = None,
    tied: Tied | None = None,
    ignore: str | Sequence[str] = (),
    dtype: DType | None = None,
) -> dict[str, Any]:
    """Load a checkpoint of the format safetensors as a tree of named arrays.

    All keys, shapes and sizes are checked by the headers of the files, before any value is read.
    Then each device reads its own block of each array. Beside the result, the host needs memory for
    one block. Blocks that several devices of a process have are read once. Each process reads only
    the blocks of its own devices.

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
      tied: a dict from keys to the keys of equal tensors, as in `from_state_dict`. Default: none.
      ignore: patterns of keys that may be left over, such as `"*.inv_freq"`. Default: none.
      dtype: the dtype of floating-point tensors. Default: the stored one.

    Returns:
      A tree of nested dicts with named arrays.

    Raises:
      CheckpointError: a file is missing or damaged, keys are missing or left over, shapes or sizes
        do not match, or the blocks exceed the free memory of a device. The message has every key.
      RearrangeError: a pattern is malformed. The message has a caret under the error.
      ArgumentError: a key pattern, a place, `tied` or `dtype` is malformed.
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
    entries, ties = parse_spec(spec, op), parse_tied(tied, op)
    patterns = ignored_patterns(ignore, op)
    files = TensorFiles(path_or_paths, op)
    matched = make_plans(
        files.headers,
        entries,
        op,
        sizes=sizes,
        tied=ties,
        ignore=patterns,
        dtype=dtype,
        where="the files",
    )
    check_layout_names(op, axis_resources, (d for p in matched.plans for d in p.entry.dims))
    check_memory(matched.plans, target, op)
    for key, source in matched.copies.items():
        check_tied(key, source, files.read(key), files.read(source), op)
        files.release(key)
        files.release(source)
    return place_arrays(matched.plans, (placed(plan, files, target, op) for plan in matched.plans))


@checks_signature
def save_safetensors(
    tree: PyTree,
    spec: Spec,
    path: str | os.PathLike[str],
    *,
    sizes: Sizes | None = None,
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
    safetensors(op)
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
    tensors = outgoing(tree, spec, sizes, tied, op)
    check_dtypes(tensors, op)
    write(tensors, text, max_shard_bytes, jax.process_index() == 0, op)
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(f"namedax {op} {text}")
