"""The public functions: save a tree of arrays to a folder, and restore it under any layout."""

from __future__ import annotations

import functools
import json
import math
import operator
import os
from collections.abc import Hashable, Mapping
from types import ModuleType
from typing import Any

import jax

from namedax.checkpoints.integrity import (
    is_local,
    new_identifier,
    recover,
    replacing,
    verify,
    write_checksums,
)
from namedax.checkpoints.reading import (
    Reading,
    Wanted,
    check,
    placed_value,
    stored_request,
    wanted_leaf,
)
from namedax.checkpoints.trees import (
    Path,
    Stored,
    Value,
    check_tree,
    leaves_of,
    nested,
    path_text,
    rebuilt,
    split,
    stored_leaves,
)
from namedax.checkpoints.written_names import Json
from namedax.core.array import is_named
from namedax.core.file_names import checked_path
from namedax.core.names import Mesh, PyTree
from namedax.core.region import ambient
from namedax.distributed import placement as placement_of
from namedax.errors import ArgumentError, AxisResourceError, CheckpointError, format_value
from namedax.messages.call_errors import checks_signature
from namedax.messages.jax_errors import ErrorKind
from namedax.messages.layout_names import check_layout_names
from namedax.resources.assignment import Assignment, parse_resources
from namedax.resources.mesh import concrete_mesh
from namedax.resources.processes import all_devices, compare, spans_processes

__all__ = ["names", "restore", "save", "save_args", "types"]

# The key in orbax's metadata. Since version 2 there are an identifier and checksums.
_KEY, _VERSION = "namedax", 2
# Orbax compresses into memory, and writes a file when it is full: 2 GiB by default. With smaller
# files, it writes while it compresses, and several threads compute the checksums.
_FILE_BYTES, _MAX_FILE_BYTES, _FILES = 1 << 25, 1 << 31, 256


def _orbax(op: str) -> ModuleType:
    try:
        import orbax.checkpoint
    except ImportError as error:
        raise ImportError(
            f"{op}: orbax is not installed. Install it with `pip install orbax-checkpoint`, or"
            " namedax[checkpoints]."
        ) from error
    module: ModuleType = orbax.checkpoint
    return module


def _folder(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def _compare_processes(op: str, folder: str, options: str) -> None:
    """Raise `CheckpointError` if another process uses another folder or other options."""
    if jax.process_count() > 1 and spans_processes(all_devices()):
        compare(
            op, {"folder": folder, "options": options}, all_devices(), CheckpointError, once=False
        )


def _reject_inside(op: str) -> None:
    surrounding = ambient()
    if surrounding is not None:
        raise AxisResourceError(
            f"{op}: it needs global arrays and cannot run in a mapped function. Call it before or"
            " after the mapped function."
        )


# --- writing --------------------------------------------------------------------------------------


@checks_signature
def save(path: str | os.PathLike[str], tree: PyTree, *, overwrite: bool = False) -> None:
    """Write a tree of arrays to a new folder, with the names of their axes.

    The call returns when everything is written.

    Every process of a program must call this function, with a folder that all processes can access,
    and writes its own blocks. The stored data do not depend on the mesh.

    The checkpoint is written next to the folder (`step.saving`) and renamed when it is complete. If
    the program is killed, or the disk is full, the previous contents remain. A list of checksums is
    written with it, which `restore` uses to detect damaged files.

    Args:
      path: the folder, or an address that orbax supports (`gs://...`). An address has neither
        checksums nor the renaming.
      tree: a pytree of arrays, named or not, random keys, and Python numbers and strings.
      overwrite: if True, replace an existing folder when the new one is complete. Default: False,
        an existing folder is an error.

    Raises:
      CheckpointError: a leaf or a name cannot be stored, the folder already exists, another program
        is saving to it, or the processes pass different folders.
      AxisResourceError: the call is inside a mapped function.
      ImportError: orbax is not installed.

    >>> import tempfile, jax.numpy as jnp, namedax as nx
    >>> folder = tempfile.mkdtemp() + "/step"
    >>> w = nx.named(jnp.ones((2, 3)), ["inputs", "hidden"])
    >>> nx.checkpoints.save(folder, {"w": w, "step": 7})
    >>> nx.checkpoints.restore(folder)["w"].dims
    ('inputs', 'hidden')
    """
    ocp, folder = _orbax("save"), _folder(path)
    _compare_processes("save", folder, f"overwrite={overwrite!r}")
    identifier = new_identifier()
    arguments = _save_args(ocp, tree, "save", {"id": identifier})
    if not is_local(folder):
        _write(ocp, folder, arguments, overwrite)
        return
    arguments.ocdbt_target_data_file_size = _file_bytes(arguments.item)
    with replacing(folder, overwrite, "save") as new:
        _write(ocp, new, arguments, overwrite=False)
        write_checksums(new, identifier)


def _file_bytes(arrays: PyTree) -> int | None:
    """Return the size at which orbax begins a new file; `None` for its default.

    It is the same in all processes. Orbax splits blocks larger than this size, and a block with
    prime sizes into single rows, so it is at least the size of the largest block.
    """
    total = largest = 0
    for x in jax.tree.leaves(arrays):
        block = x.sharding.shard_shape(x.shape) if isinstance(x, jax.Array) else x.shape
        total += math.prod(x.shape) * x.dtype.itemsize
        largest = max(largest, math.prod(block) * x.dtype.itemsize)
    size = max(_FILE_BYTES, largest, total // _FILES)
    return size if size < _MAX_FILE_BYTES else None


def _write(ocp: ModuleType, folder: str, arguments: object, overwrite: bool) -> None:
    with ocp.PyTreeCheckpointer() as checkpointer:
        try:
            checkpointer.save(folder, arguments, force=overwrite)
        except ValueError as error:
            if not ErrorKind.FOLDER_EXISTS.matches(error):
                raise
            raise CheckpointError(
                f"save: {folder} already exists. Save to another folder, or pass overwrite=True."
            ) from None


@checks_signature
def save_args(tree: PyTree) -> PyTree:
    """Return the arguments with which orbax's own checkpointers write the same data as `save`.

    Orbax's checkpointers have more features: they write in the background (`AsyncCheckpointer`),
    keep the newest checkpoints (`CheckpointManager`), or put several items into one checkpoint
    (`orbax.checkpoint.args.Composite`). `restore` takes the folder of a step, or of one item in it.

    Args:
      tree: as in `save`.

    Returns:
      An `orbax.checkpoint.args.PyTreeSave`.

    Raises:
      CheckpointError, AxisResourceError, ImportError: as `save`.

    >>> import tempfile, jax.numpy as jnp, orbax.checkpoint as ocp, namedax as nx
    >>> folder = tempfile.mkdtemp()
    >>> tree = {"w": nx.named(jnp.ones(3), ["k"])}
    >>> options = ocp.CheckpointManagerOptions(max_to_keep=2)
    >>> with ocp.CheckpointManager(folder, options=options) as manager:
    ...     saved = manager.save(7, args=nx.checkpoints.save_args(tree))
    >>> nx.checkpoints.names(folder + "/7")
    {'w': {'k': 3}}
    """
    return _save_args(_orbax("save_args"), tree, "save_args", {})


def _save_args(ocp: ModuleType, tree: PyTree, op: str, more: Mapping[str, str]) -> Any:
    _reject_inside(op)
    arrays, text = split(tree, op)
    # Orbax does not write an empty tree.
    item = nested(arrays) or {"nothing": {}}
    return ocp.args.PyTreeSave(
        item, custom_metadata={_KEY: {"version": _VERSION, "tree": text, **more}}
    )


# --- reading --------------------------------------------------------------------------------------


def _metadata(
    ocp: ModuleType, path: str | os.PathLike[str], op: str, every: bool = False
) -> tuple[str, Any]:
    """Check the metadata of a checkpoint, and return its folder and the JSON of its tree.

    With `every`, check all files.
    """
    from etils import epath  # orbax's file library

    folder = _folder(path)
    recover(folder)
    # A manager writes an item without a name one folder deeper.
    found = next(
        (f for f in (folder, f"{folder}/default") if (epath.Path(f) / "_METADATA").exists()), None
    )
    if found is None:
        raise CheckpointError(
            f"{op}: there is no checkpoint in {folder}. Pass the folder of one step, written by"
            " nx.checkpoints.save."
        )
    identifier = verify(found, op, every)
    try:
        text = (epath.Path(found) / "_METADATA").read_text()
        _check_folders(json.loads(text), found, op)
        with ocp.PyTreeCheckpointer() as checkpointer:
            metadata = checkpointer.metadata(found).item_metadata
            custom = metadata.custom_metadata or {}
    except CheckpointError:
        raise
    except Exception as error:  # orbax raises various errors for files that it did not write
        raise CheckpointError(
            f"{op}: {found}/_METADATA cannot be read: it is damaged, or does not belong to a"
            f" checkpoint ({type(error).__name__}: {error}). Restore another checkpoint."
        ) from error
    if not isinstance(custom, Mapping) or _KEY not in custom:
        raise CheckpointError(
            f"{op}: the checkpoint in {found} has no axis names, because it was not written by"
            " nx.checkpoints. Restore it with orbax, into nx.interop.abstract(types,"
            " axis_resources, mesh), with the types of the saved tree."
        )
    tree = _checked_tree(custom[_KEY], identifier, f"{found}/_METADATA", op)
    _compare(stored_leaves(tree, op), metadata.tree, found, op)
    return found, tree


def _check_folders(metadata: Mapping[str, Any], folder: str, op: str) -> None:
    """Check the names of the folders in which orbax looks for arrays.

    In the default format OCDBT arrays have no folders.

    Raises:
      CheckpointError: a name refers to another place.
    """
    if metadata.get("use_ocdbt") is True:
        return
    for entry in metadata["tree_metadata"].values():
        name = ".".join(str(part["key"]) for part in entry["key_metadata"])
        if name:  # a tree that is one array
            checked_path(folder, name, f"{folder}/_METADATA", op)


def _compare(stored: Mapping[Path, Stored | Value], arrays: object, folder: str, op: str) -> None:
    """Compare the arrays in the files with the metadata.

    Raises:
      CheckpointError: the files of an array are missing, or have another size or dtype.
    """
    for where, have in stored.items():
        if isinstance(have, Stored) and not have.empty:
            have.compare(_found(arrays, where, folder, op), where, folder, op)


def _checked_tree(entry: object, identifier: str | None, file: str, op: str) -> Json:
    """Return the JSON of the tree in a checkpoint's metadata, after checking it."""
    entry = entry if isinstance(entry, Mapping) else {}
    version = entry.get("version")
    if type(version) is not int or version < 1:
        raise CheckpointError(
            f"{op}: the field {_KEY}.version of {file} is {format_value(version)}, not a version of"
            " namedax. Restore another checkpoint."
        )
    if version > _VERSION:
        raise CheckpointError(
            f"{op}: the checkpoint in {os.path.dirname(file)} has version {version}, but this"
            f" namedax reads versions up to {_VERSION}. Use a newer namedax."
        )
    if entry.get("id") != identifier:
        lost = (
            "its list of checksums is missing"
            if identifier is None
            else "its list of checksums belongs to another checkpoint"
        )
        raise CheckpointError(f"{op}: {file} is incomplete: {lost}. Restore another checkpoint.")
    tree: Json = entry.get("tree")
    check_tree(tree, f"the field {_KEY}.tree of {file}", op)
    return tree


@checks_signature
def names(path: str | os.PathLike[str]) -> dict[str, dict[Hashable, int]]:
    """Return the named shape of every array in a checkpoint, without reading the arrays.

    Args:
      path: as in `restore`.

    Returns:
      A dict from the path of each array in the tree (its keys joined by `/`) to its named shape, in
      the stored physical order.

    Raises:
      CheckpointError: there is no checkpoint, or it has no axis names.
      ImportError: orbax is not installed.

    >>> import tempfile, jax.numpy as jnp, namedax as nx
    >>> folder = tempfile.mkdtemp() + "/step"
    >>> nx.checkpoints.save(folder, {"layers": [nx.named(jnp.ones((2, 3)), ["inputs", "hidden"])]})
    >>> nx.checkpoints.names(folder)
    {'layers/0': {'inputs': 2, 'hidden': 3}}
    """
    _, tree = _metadata(_orbax("names"), path, "names")
    found = {}
    for where, have in stored_leaves(tree, "names").items():
        if isinstance(have, Stored):
            pairs = zip(have.read_dims("names"), have.shape, strict=True)
            found[path_text(where)] = {dim: n for dim, n in pairs if dim is not None}
    return found


@checks_signature
def types(path: str | os.PathLike[str]) -> PyTree:
    """Return the tree of a checkpoint with the types of its arrays, without reading the arrays.

    Each type is a `jax.ShapeDtypeStruct`, in a named array if it has names. The result is
    like that of `jax.eval_shape` on the program that saved it. Use it to inspect the tree, or to
    restore a part of it with `restore(..., partial=True)`. To restore a NumPy array as one, put a
    NumPy array in place of its type. Containers are dicts, lists and tuples: other classes become
    the dict of their fields.

    Args:
      path: as in `restore`.

    Raises:
      CheckpointError: there is no checkpoint, or it has no axis names.
      ImportError: orbax is not installed.

    >>> import tempfile, jax.numpy as jnp, namedax as nx
    >>> folder = tempfile.mkdtemp() + "/step"
    >>> w = nx.named(jnp.ones((2, 3)), ["inputs", "hidden"])
    >>> nx.checkpoints.save(folder, {"w": w, "step": 7})
    >>> nx.checkpoints.types(folder)
    {'step': 7, 'w': NamedArray(f32[]{inputs:2, hidden:3})}
    """
    _, tree = _metadata(_orbax("types"), path, "types")
    stored = stored_leaves(tree, "types")

    def type_of(where: Path) -> object:
        have = stored[where]
        return have.value if isinstance(have, Value) else have.type("types")

    return rebuilt(tree, type_of, "types")


@checks_signature
def restore(
    path: str | os.PathLike[str],
    like: PyTree = None,
    *,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    partial: bool = False,
    verify_files: bool = True,
) -> PyTree:
    """Read a tree of arrays from a folder, onto any mesh, under any layout.

    Every process of a program must call this function, and each device reads its own blocks. The
    numbers of processes and devices and the mapped names may differ from those at the time of
    saving.

    Args:
      path: the folder that `save` wrote, or that of one step of an orbax `CheckpointManager`.
      like: a tree of arrays, or of their types (from `jax.eval_shape`, `nx.interop.abstract` or
        `types`), with the structure and the physical order of axes of the result. Names, sizes and
        dtypes must equal the stored ones. Default: the saved tree, in which a class (a named tuple,
        a dataclass) becomes the dict of its fields.
      axis_resources: the layout of the result, as in `xmap`. Names that an array lacks are ignored,
        and so is a `SerialLoop`. Default: the sharding of the arrays or types in `like`; without
        one, JAX's default placement.
      mesh: a mesh; default: that of `jax.set_mesh`.
      partial: if True, the checkpoint may contain arrays that `like` lacks. Default: False.
      verify_files: if True, each file is read once by one of the processes to compare its checksum.
        With False, damaged arrays may be returned as wrong numbers. Default: True.

    Returns:
      The tree. A NumPy array is restored as a NumPy array. A Python value is restored as itself, or
      as an array if `like` has one.

    Raises:
      CheckpointError: there is no checkpoint, or it is damaged; or its arrays, names, sizes or
        dtypes differ from those in `like`; or the processes pass different folders.
      AxisResourceError: `axis_resources` is malformed or has a misspelled axis name, or the call is
        inside a mapped function.
      MeshError: names are mapped and there is no mesh, or it lacks a mesh axis or devices.
      PlacementConflictError: two names of one array are on one mesh axis.
      ImportError: orbax is not installed.

    >>> import tempfile, jax, jax.numpy as jnp, namedax as nx
    >>> folder = tempfile.mkdtemp() + "/step"
    >>> nx.checkpoints.save(folder, {"w": nx.named(jnp.ones((8, 6)), ["inputs", "hidden"])})
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> nx.checkpoints.restore(folder, axis_resources={"hidden": "y"}, mesh=mesh)["w"].sharding.spec
    P(None, 'y')
    """
    op = "restore"
    ocp = _orbax(op)
    _reject_inside(op)
    if like is None and partial:
        raise ArgumentError(
            "restore: partial=True skips the arrays that like= lacks, so it requires like=. Pass"
            " the tree to restore as like=."
        )
    _compare_processes(op, _folder(path), f"partial={partial!r}, verify_files={verify_files!r}")
    placement = _placement(axis_resources, mesh, op)
    folder, tree = _metadata(ocp, path, op, every=verify_files)
    stored = stored_leaves(tree, op)
    wanted: dict[Path, Wanted | Value]
    if like is None:
        wanted = {
            where: have if isinstance(have, Value) else stored_request(have, op)
            for where, have in stored.items()
        }
    else:
        wanted = {
            where: wanted_leaf(leaf, where, op) for where, leaf in leaves_of(like, op).items()
        }
    check(stored, wanted, partial, folder, op)
    arrays = (want for want in wanted.values() if isinstance(want, Wanted))
    check_layout_names(op, axis_resources, (dim for want in arrays for dim in want.dims))
    results = _read(ocp, folder, stored, wanted, placement)
    if like is None:
        return rebuilt(tree, results.__getitem__, op)
    return jax.tree.unflatten(
        jax.tree.structure(like, is_leaf=is_named), [results[where] for where in wanted]
    )


def _found(read: PyTree, where: Path, folder: str, op: str, take: bool = False) -> jax.Array:
    """Return the array that orbax found for a path.

    With `take`, remove it from `read`, so that it is freed after its copy to a device.
    """
    *parents, last = where or ("",)
    try:
        parent = functools.reduce(operator.getitem, parents, read)
        data = parent.pop(last) if take else parent[last]
    except (KeyError, TypeError):
        data = None
    if not hasattr(data, "shape"):
        raise CheckpointError(
            f"{op}: the checkpoint in {folder} has no array for {path_text(where)}: files are"
            " missing. Restore another checkpoint."
        )
    return data


def _placement(
    axis_resources: Mapping[Hashable, Any] | None, mesh: Mesh | None, op: str
) -> tuple[Assignment, jax.sharding.Mesh] | None:
    """Return the layout and mesh by which arrays are placed; `None` if neither is given."""
    if mesh is None and (
        axis_resources is None
        or (not parse_resources(axis_resources, op) and concrete_mesh(mesh) is None)
    ):
        return None
    return placement_of({} if axis_resources is None else axis_resources, mesh, op)


def _read(
    ocp: ModuleType,
    folder: str,
    stored: Mapping[Path, Stored | Value],
    wanted: Mapping[Path, Wanted | Value],
    placement: tuple[Assignment, jax.sharding.Mesh] | None,
) -> dict[Path, Any]:
    """Return the requested values, by paths."""
    readings: dict[Path, Reading] = {}
    values: dict[Path, Any] = {}
    for where, want in wanted.items():
        have = stored[where]
        if isinstance(have, Value):
            values[where] = placed_value(have.value, want, placement)
        else:
            request = stored_request(have, "restore") if isinstance(want, Value) else want
            readings[where] = Reading.of(have, request, placement, where, "restore")
    arguments = {
        where or ("",): reading.restore_args(ocp)
        for where, reading in readings.items()
        if not reading.stored.empty
    }
    read: PyTree = None
    if arguments:
        restore_args = nested(arguments)
        item = nested(dict.fromkeys(arguments, 0))
        try:
            with ocp.PyTreeCheckpointer() as checkpointer:
                read = checkpointer.restore(
                    folder,
                    args=ocp.args.PyTreeRestore(
                        item, restore_args=restore_args, partial_restore=True
                    ),
                )
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise CheckpointError(
                f"restore: the arrays in {folder} cannot be read: files are damaged or missing"
                f" ({type(error).__name__}: {error!s:.300}). Restore another checkpoint."
            ) from error
    for where, reading in readings.items():
        data = None if reading.stored.empty else _found(read, where, folder, "restore", take=True)
        if data is not None:
            reading.stored.compare(data, where, folder, "restore")
        result, want = reading.finish(data), wanted[where]
        values[where] = type(want.value)(result.item()) if isinstance(want, Value) else result
    return values
