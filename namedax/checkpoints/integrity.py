"""Checksums of the files of a checkpoint, and the replacement of one checkpoint by another.

A checkpoint is written next to its folder and renamed when it is complete. If a program is killed,
or the disk is full, either the old checkpoint or the new one remains. One file lists the size and
the CRC-32 of every other file. It has an identifier that the metadata has too, so that files of two
checkpoints cannot be mixed. The processes of a program share the work.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from namedax.core.file_names import checked_path
from namedax.errors import CheckpointError

__all__ = [
    "CHECKSUMS",
    "is_local",
    "new_identifier",
    "recover",
    "replacing",
    "verify",
    "write_checksums",
]

CHECKSUMS = "namedax.checksums.json"
_CHUNK = 1 << 18  # the number of bytes per read: they remain in the cache of a core
_THREADS = 8  # at most: reading and `zlib.crc32` release the interpreter's lock
_OLD, _NEW = ".replaced", ".saving"


def is_local(folder: str) -> bool:
    """Return True for a folder of the file system.

    An address such as `gs://...` has neither renaming nor checksums.
    """
    return "://" not in folder


def new_identifier() -> str:
    """Return an identifier that is the same in all processes of a program."""
    words = np.frombuffer(uuid.uuid4().bytes, np.uint32)
    if jax.process_count() > 1:
        words = np.asarray(multihost_utils.broadcast_one_to_all(words))
    return words.tobytes().hex()


# --- checksums ------------------------------------------------------------------------------------


def _files(folder: str) -> list[str]:
    """Return the files of a folder, relative to it, without the file of checksums."""
    found = (path for path in Path(folder).rglob("*") if path.is_file())
    return sorted(
        name for path in found if (name := path.relative_to(folder).as_posix()) != CHECKSUMS
    )


def _checksum(path: str) -> int:
    total, buffer = 0, memoryview(bytearray(_CHUNK))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total = zlib.crc32(buffer[:count], total)
    return total


def _shared(count: int, compute: Callable[[int], int]) -> list[int]:
    """Return `compute(i)` for each `i`, each computed by one process and broadcast to all.

    Several threads of a process compute at a time.
    """
    processes, me = jax.process_count(), jax.process_index()
    values = np.zeros(count, np.uint32)
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        values[me::processes] = list(pool.map(compute, range(me, count, processes)))
    if processes > 1 and count:
        values = np.asarray(multihost_utils.process_allgather(values)).sum(0, dtype=np.uint32)
    return [int(value) for value in values]


def _text(identifier: str, files: dict[str, list[int]]) -> str:
    return json.dumps({"version": 1, "id": identifier, "files": files}, sort_keys=True)


def write_checksums(folder: str, identifier: str) -> None:
    """Write the list of the files of a folder, with their sizes and checksums."""
    names = _files(folder)
    sums = _shared(len(names), lambda i: _checksum(os.path.join(folder, names[i])))
    if jax.process_index() == 0:
        files = {
            name: [os.path.getsize(os.path.join(folder, name)), one]
            for name, one in zip(names, sums, strict=True)
        }
        text = _text(identifier, files)
        with open(os.path.join(folder, CHECKSUMS), "w", encoding="utf-8") as file:
            json.dump({"list": text, "crc32": zlib.crc32(text.encode())}, file)
            file.flush()
            os.fsync(file.fileno())
    _barrier("checksums")


def _read_list(folder: str, op: str) -> tuple[str, dict[str, list[int]]]:
    """Return the identifier, and the sizes and checksums of the files."""
    path = os.path.join(folder, CHECKSUMS)
    try:
        with open(path, encoding="utf-8") as file:
            outer = json.load(file)
        text = outer["list"]
        if zlib.crc32(text.encode()) != outer["crc32"]:
            raise ValueError("its own checksum differs")
        inner = json.loads(text)
        identifier = str(inner["id"])
        files = {name: [int(size), int(one)] for name, (size, one) in inner["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{op}: {path} is damaged ({error}). Restore another checkpoint."
        ) from None
    for name in files:
        checked_path(folder, name, path, op)
    return identifier, files


def verify(folder: str, op: str, every: bool) -> str | None:
    """Return the identifier of an undamaged checkpoint; `None` for one without checksums.

    Args:
      folder: the folder of the checkpoint.
      op: the operation, for messages.
      every: if True, check all files, else only the metadata files at the top of the folder.

    Raises:
      CheckpointError: a file is missing, or its size or checksum differs.
    """
    if not is_local(folder) or not os.path.exists(os.path.join(folder, CHECKSUMS)):
        return None
    identifier, files = _read_list(folder, op)
    names = [name for name in files if every or "/" not in name]

    def state(i: int) -> int:
        path = os.path.join(folder, names[i])
        size, one = files[names[i]]
        if not os.path.isfile(path):
            return 1
        return 2 if os.path.getsize(path) != size else 3 if _checksum(path) != one else 0

    problems = (
        "",
        "is missing",
        "differs in size from the written file",
        "differs in checksum from the written file",
    )
    bad = [
        f"{name} {problems[found]}"
        for name, found in zip(names, _shared(len(names), state), strict=True)
        if found
    ]
    if bad:
        more = f", and {len(bad) - 3} more files are damaged" if len(bad) > 3 else ""
        raise CheckpointError(
            f"{op}: the checkpoint in {folder} is damaged: {', '.join(bad[:3])}{more}. Restore"
            " another checkpoint."
        )
    return identifier


# --- replacing ------------------------------------------------------------------------------------


def recover(folder: str) -> None:
    """Restore the old checkpoint if a program was killed between the two renames."""
    if is_local(folder) and not os.path.exists(folder) and os.path.isdir(folder + _OLD):
        with contextlib.suppress(OSError):  # another process has already renamed it
            os.rename(folder + _OLD, folder)


@contextlib.contextmanager
def replacing(folder: str, overwrite: bool, op: str) -> Iterator[str]:
    """Yield a folder to write to, and rename it to `folder` at the end.

    An error removes it.

    Raises:
      CheckpointError: `folder` exists and must not be overwritten, or another program is writing
        it.
    """
    new, old = folder + _NEW, folder + _OLD
    first = jax.process_index() == 0
    with _exclusive(folder, op) if first else contextlib.nullcontext():
        if first:
            recover(folder)
        _barrier("recovered")
        if os.path.lexists(folder) and not overwrite:
            raise CheckpointError(
                f"{op}: {folder} already exists. Save to another folder, or pass overwrite=True."
            )
        if first:
            shutil.rmtree(new, ignore_errors=True)  # left by a program that was killed
        _barrier("cleared")
        try:
            yield new
            _barrier("written")
        except BaseException:
            if first:
                shutil.rmtree(new, ignore_errors=True)
            raise
        if first:
            _remove(old)
            if os.path.lexists(folder):
                os.rename(folder, old)
            os.rename(new, folder)
            _remove(old)
        _barrier("renamed")


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)


@contextlib.contextmanager
def _exclusive(folder: str, op: str) -> Iterator[None]:
    """Hold a lock that is released when its process ends for any reason."""
    try:
        import fcntl
    except ImportError:  # the operating system lacks such locks
        yield
        return
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    path = os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}.lock")
    while True:
        file: Any = open(path, "w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise CheckpointError(
                f"{op}: another program, or another thread, is saving to {folder}. Wait until it"
                " ends, or save to another folder."
            ) from None
        with contextlib.suppress(OSError):
            # Otherwise the last owner has removed the file.
            if os.stat(path).st_ino == os.fstat(file.fileno()).st_ino:
                break
        file.close()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(path)
        file.close()


def _barrier(what: str) -> None:
    """Wait for the other processes."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(f"namedax.checkpoints.{what}")
