"""The face: a tree of arrays to a folder, and back under any layout."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Hashable, Mapping
from typing import Any

import jax

from namedax.checkpoints.fitting import Wanted, as_stored, check, wanted_leaf
from namedax.checkpoints.integrity import is_local, new_identifier, recover, replacing, verify, write_checksums
from namedax.checkpoints.reading import Reading, placed_value
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
from namedax.core.array import is_named
from namedax.core.call_errors import checks_signature
from namedax.core.region import ambient
from namedax.distributed import placement as placement_of
from namedax.errors import ArgumentError, AxisResourceError, CheckpointError, format_value
from namedax.resources.assignment import Assignment, parse_resources
from namedax.resources.mesh import concrete_mesh
from namedax.resources.processes import all_devices, compare, spans_processes

__all__ = ["names", "restore", "save", "save_args", "types"]

_KEY, _VERSION = "namedax", 2  # of orbax's metadata; since 2 it has an identifier, and `save` writes checksums


def _orbax(op: str) -> Any:
    try:
        import orbax.checkpoint
    except ImportError as error:
        raise ImportError(
            f"{op}: orbax is not installed. Install it with `pip install orbax-checkpoint`, or namedax[checkpoints]."
        ) from error
    return orbax.checkpoint


def _folder(path: Any) -> str:
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def _compare_processes(op: str, folder: str, options: str) -> None:
    """Raise `CheckpointError` if another process uses another folder or other options."""
    if jax.process_count() > 1 and spans_processes(all_devices()):
        compare(op, {"folder": folder, "options": options}, all_devices(), CheckpointError, once=False)


def _refuse_inside(op: str) -> None:
    surrounding = ambient()
    if surrounding is not None:
        raise AxisResourceError(
            f"{op}: works outside of mapped functions, where arrays are whole; call it before or after the mapped function."
        )


# --- writing --------------------------------------------------------------------------------------------------------


@checks_signature
def save(path: Any, tree: Any, *, overwrite: bool = False) -> None:
    """Writes a tree of arrays to a new folder, with the names of their axes. When it returns, all is written.

    Every process of a program calls it, with a folder that all of them see, and writes its own blocks. What is written says nothing
    about meshes that matters to `restore`.

    The checkpoint is written beside the folder (`step.saving`) and renamed when it is complete: a program that is killed, or a full disk,
    leaves what was there before. A list of checksums is written with it, by which `restore` finds damaged files.

    Args:
      path: the folder, or an address that orbax knows (`gs://...`), where there are neither checksums nor the renaming.
      tree: a pytree of arrays, named or not, keys of random numbers, and numbers and strings of Python.
      overwrite: if True, a folder that is there is replaced, when the new one is complete. Default: False, it is an error.

    Raises:
      CheckpointError: a leaf or a name cannot be stored, the folder is there already, another program is saving to it, or the
        processes give different folders.
      AxisResourceError: this is inside of a mapped function.
      ImportError: orbax is not installed.

    >>> import tempfile, jax.numpy as jnp, namedax as nx
    >>> folder = tempfile.mkdtemp() + "/step"
    >>> nx.checkpoints.save(folder, {"w": nx.named(jnp.ones((2, 3)), ["inputs", "hidden"]), "step": 7})
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
    with replacing(folder, overwrite, "save") as new:
        _write(ocp, new, arguments, overwrite=False)
        write_checksums(new, identifier)


def _write(ocp: Any, folder: str, arguments: Any, overwrite: bool) -> None:
    with ocp.PyTreeCheckpointer() as checkpointer:
        try:
            checkpointer.save(folder, arguments, force=overwrite)
        except ValueError as error:
            if "already exists" not in str(error):
                raise
            raise CheckpointError(f"save: {folder} exists already. Save to another folder, or give overwrite=True.") from None


@checks_signature
def save_args(tree: Any) -> Any:
    """What orbax's own checkpointers take for a tree, so that they write what `save` writes.

    For what they do besides: write in the background (`AsyncCheckpointer`), keep the newest (`CheckpointManager`), put several things
    into one checkpoint (`orbax.checkpoint.args.Composite`). `restore` takes the folder of a step, or of one thing in it.

    Args:
      tree: as in `save`.

    Returns:
      An `orbax.checkpoint.args.PyTreeSave`.

    Raises:
      CheckpointError, AxisResourceError, ImportError: as `save`.

    >>> import tempfile, jax.numpy as jnp, orbax.checkpoint as ocp, namedax as nx
    >>> folder = tempfile.mkdtemp()
    >>> with ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=2)) as manager:
    ...     saved = manager.save(7, args=nx.checkpoints.save_args({"w": nx.named(jnp.ones(3), ["k"])}))
    >>> nx.checkpoints.names(folder + "/7")
    {'w': {'k': 3}}
    """
    return _save_args(_orbax("save_args"), tree, "save_args", {})


def _save_args(ocp: Any, tree: Any, op: str, more: Mapping[str, str]) -> Any:
    _refuse_inside(op)
    arrays, text = split(tree, op)
    # Orbax does not write an empty tree.
    item = nested(arrays) or {"nothing": {}}
    return ocp.args.PyTreeSave(item, custom_metadata={_KEY: {"version": _VERSION, "tree": text, **more}})


# --- reading --------------------------------------------------------------------------------------------------------


def _metadata(ocp: Any, path: Any, op: str, every: bool = False) -> tuple[str, Any]:
    """The folder that holds the arrays, and the JSON of its tree; the checksums of its files, or of `every` one, are right."""
    from etils import epath  # orbax's own way to files

    folder = _folder(path)
    recover(folder)
    # A manager puts what is saved without a name of its own one folder deeper.
    found = next((f for f in (folder, f"{folder}/default") if (epath.Path(f) / "_METADATA").exists()), None)
    if found is None:
        raise CheckpointError(
            f"{op}: there is no checkpoint in {folder}. Give the folder of one step, which nx.checkpoints.save has written."
        )
    identifier = verify(found, op, every)
    try:
        with ocp.PyTreeCheckpointer() as checkpointer:
            metadata = checkpointer.metadata(found).item_metadata
            custom = metadata.custom_metadata or {}
    except Exception as error:  # whatever orbax raises where it reads something else than it has written
        raise CheckpointError(
            f"{op}: {found}/_METADATA cannot be read; it is damaged, or not a checkpoint's ({type(error).__name__}: {error}). Restore another "
            "checkpoint."
        ) from error
    if not isinstance(custom, Mapping) or _KEY not in custom:
        raise CheckpointError(
            f"{op}: the checkpoint in {found} has no names of axes: it was not written by nx.checkpoints. Restore it with orbax, into "
            "nx.interop.abstract(types, axis_resources, mesh), where types are those of the tree that was saved."
        )
    tree = _checked_tree(custom[_KEY], identifier, f"{found}/_METADATA", op)
    _compare(stored_leaves(tree, op), metadata.tree, found, op)
    return found, tree


def _compare(stored: Mapping[Path, Stored | Value], arrays: Any, folder: str, op: str) -> None:
    """Raises `CheckpointError` where the files of an array are missing, or have another size or dtype than the metadata says."""
    for where, have in stored.items():
        if isinstance(have, Stored) and not have.empty:
            have.compare(_found(arrays, where, folder, op), where, folder, op)


def _checked_tree(entry: Any, identifier: str | None, file: str, op: str) -> Any:
    """The JSON of the tree in a checkpoint's metadata."""
    version = entry.get("version") if isinstance(entry, Mapping) else None
    if type(version) is not int or version < 1:
        raise CheckpointError(
            f"{op}: the field {_KEY}.version of {file} is {format_value(version)}, which no namedax has written."
        )
    if version > _VERSION:
        raise CheckpointError(
            f"{op}: the checkpoint in {os.path.dirname(file)} is of version {version}, and this namedax reads up to {_VERSION}. Use a newer one."
        )
    if entry.get("id") != identifier:
        lost = (
            "its list of checksums is missing" if identifier is None else "its list of checksums belongs to another checkpoint"
        )
        raise CheckpointError(f"{op}: {file} is not complete: {lost}. Restore another checkpoint.")
    check_tree(entry.get("tree"), f"the field {_KEY}.tree of {file}", op)
    return entry["tree"]


@checks_signature
def names(path: Any) -> dict[str, dict[Hashable, int]]:
    """The names and sizes of the axes of every array in a checkpoint, without reading the arrays.

    Args:
      path: as in `restore`.

    Returns:
      By the path of each array in the tree, its keys joined by `/`: the named shape, in the physical order of what is stored.

    Raises:
      CheckpointError: there is no checkpoint, or none with names.
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
def types(path: Any) -> Any:
    """The tree that a checkpoint holds, with the type of each array (`jax.ShapeDtypeStruct`) in place of its values.

    What `jax.eval_shape` gives of the program that saved it: to look at, or to ask for a part of it with `restore(..., partial=True)`.
    Containers are dicts, lists and tuples: other classes come as the dict of their fields.

    Args:
      path: as in `restore`.

    Raises:
      CheckpointError: there is no checkpoint, or none with names.
      ImportError: orbax is not installed.

    >>> import tempfile, jax.numpy as jnp, namedax as nx
    >>> folder = tempfile.mkdtemp() + "/step"
    >>> nx.checkpoints.save(folder, {"w": nx.named(jnp.ones((2, 3)), ["inputs", "hidden"]), "step": 7})
    >>> nx.checkpoints.types(folder)
    {'step': 7, 'w': NamedArray(f32[]{inputs:2, hidden:3})}
    """
    _, tree = _metadata(_orbax("types"), path, "types")
    stored = stored_leaves(tree, "types")

    def one(where: Path) -> Any:
        have = stored[where]
        return have.value if isinstance(have, Value) else have.type("types")

    return rebuilt(tree, one, "types")


@checks_signature
def restore(
    path: Any,
    like: Any = None,
    *,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Any = None,
    partial: bool = False,
    verify_files: bool = True,
) -> Any:
    """Reads a tree of arrays from a folder, onto any mesh, under any assignment of names.

    Every process of a program calls it, and each device reads its own blocks. How many of them there are, how many there were when
    the checkpoint was saved, and which names were mapped then is no matter.

    Args:
      path: the folder that `save` wrote, or that of one step of an orbax `CheckpointManager`.
      like: a tree of arrays, or of their types (from `jax.eval_shape`, `nx.interop.abstract` or `types`), with the structure and the
        physical order of axes that the result is to have. Names, sizes and element types must be those that are stored. Default: the tree
        as it was saved; there a class (a named tuple, a dataclass) comes as the dict of its fields.
      axis_resources: as in `xmap`: where names are to live. Names that an array lacks do not matter here, nor does a `SerialLoop`. Default:
        where the arrays or types of `like` live; where they say nothing, where JAX puts a new array.
      mesh: a mesh; default: that of `jax.set_mesh`.
      partial: whether the checkpoint may hold arrays that `like` lacks.
      verify_files: if True, all files are read once to compare their checksums, each by one of the processes. With False, damage in the
        arrays themselves may be read as numbers.

    Returns:
      The tree. A NumPy array comes as one; so does a value of Python, or as an array where `like` has one.

    Raises:
      CheckpointError: there is no checkpoint, or it is damaged; or `like` asks for other arrays, names, sizes or element types than it
        holds, or the processes give different folders.
      AxisResourceError: `axis_resources` is malformed, or this is inside of a mapped function.
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
    _refuse_inside(op)
    if like is None and partial:
        raise ArgumentError(
            "restore: partial=True leaves out what like= lacks, and there is no like=. Say what to restore with like=."
        )
    _compare_processes(op, _folder(path), f"partial={partial!r}, verify_files={verify_files!r}")
    placement = _placement(axis_resources, mesh, op)
    folder, tree = _metadata(ocp, path, op, every=verify_files)
    stored = stored_leaves(tree, op)
    wanted: dict[Path, Wanted | Value]
    if like is None:
        wanted = {where: as_stored(have, op) for where, have in stored.items()}
    else:
        wanted = {where: wanted_leaf(leaf, where, op) for where, leaf in leaves_of(like, op).items()}
    check(stored, wanted, partial, folder, op)
    results = _read(ocp, folder, stored, wanted, placement)
    if like is None:
        return rebuilt(tree, results.__getitem__, op)
    return jax.tree.unflatten(jax.tree.structure(like, is_leaf=is_named), [results[where] for where in wanted])


def _found(read: Any, where: Path, folder: str, op: str, take: bool = False) -> Any:
    """Return what orbax has found for a path. With `take`, remove it from `read`, so that it is freed once a device has a copy."""
    *parents, last = where or ("",)
    try:
        parent = functools.reduce(operator.getitem, parents, read)
        data = parent.pop(last) if take else parent[last]
    except (KeyError, TypeError):
        data = None
    if not hasattr(data, "shape"):
        raise CheckpointError(
            f"{op}: the checkpoint in {folder} has no array for {path_text(where)}; files are missing. Restore another one."
        )
    return data


def _placement(axis_resources: Mapping[Hashable, Any] | None, mesh: Any, op: str) -> tuple[Assignment, Any] | None:
    """The assignment and mesh by which arrays are placed; `None` where nothing says so."""
    if mesh is None and (axis_resources is None or (not parse_resources(axis_resources, op) and concrete_mesh(mesh) is None)):
        return None
    return placement_of({} if axis_resources is None else axis_resources, mesh, op)


def _read(
    ocp: Any,
    folder: str,
    stored: Mapping[Path, Stored | Value],
    wanted: Mapping[Path, Wanted | Value],
    placement: tuple[Assignment, Any] | None,
) -> dict[Path, Any]:
    """The values that are asked for, by paths."""
    readings: dict[Path, Reading] = {}
    values: dict[Path, Any] = {}
    for where, want in wanted.items():
        have = stored[where]
        if isinstance(have, Value):
            values[where] = placed_value(have.value, want, placement)
        else:
            as_array = as_stored(have, "restore") if isinstance(want, Value) else want
            readings[where] = Reading.of(have, as_array, placement, where, "restore")  # type: ignore[arg-type]
    arguments = {where or ("",): reading.restore_args(ocp) for where, reading in readings.items() if not reading.stored.empty}
    read: Any = None
    if arguments:
        restore_args = nested(arguments)
        item = nested(dict.fromkeys(arguments, 0))
        try:
            with ocp.PyTreeCheckpointer() as checkpointer:
                read = checkpointer.restore(
                    folder, args=ocp.args.PyTreeRestore(item, restore_args=restore_args, partial_restore=True)
                )
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise CheckpointError(
                f"restore: the arrays in {folder} cannot be read; files are damaged or missing ({type(error).__name__}: {error!s:.300}). "
                "Restore another checkpoint."
            ) from error
    for where, reading in readings.items():
        data = None if reading.stored.empty else _found(read, where, folder, "restore", take=True)
        if data is not None:
            reading.stored.compare(data, where, folder, "restore")
        result, want = reading.finish(data), wanted[where]
        values[where] = type(want.value)(result.item()) if isinstance(want, Value) else result
    return values
