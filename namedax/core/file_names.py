"""Names of files that other files contain, such as an index of a checkpoint."""

from __future__ import annotations

import ntpath
import os
from pathlib import PurePosixPath

from namedax.errors import CheckpointError, format_value

__all__ = ["checked_path", "path_below"]


def path_below(folder: str, name: object) -> str | None:
    """Return the path of a file below a folder; `None` if the name can refer to another place.

    A name is a file name, or a relative path whose parts are separated by `/`. Links to folders are
    resolved. The file itself may be a link, as in the cache of Hugging Face.

    >>> from namedax.core.file_names import path_below
    >>> path_below("weights", "model..safetensors"), path_below("weights", "..")
    ('weights/model..safetensors', None)
    """
    if not isinstance(name, str) or {"\\", "\0"} & {*name} or ntpath.splitdrive(name)[0]:
        return None
    parts = PurePosixPath(name).parts
    if not parts or parts[0].startswith("/") or ".." in parts:
        return None
    path = os.path.join(folder, *parts)
    try:
        os.fsencode(path)
        root, parent = os.path.realpath(folder), os.path.realpath(os.path.dirname(path))
    except ValueError:  # a character that paths cannot have
        return None
    return path if parent == root or parent.startswith(os.path.join(root, "")) else None


def checked_path(folder: str, name: object, file: str, op: str) -> str:
    """Return the path of a file below a folder, for a name that another file contains.

    Args:
      folder: the folder.
      name: the name.
      file: the path of the file that contains the name.
      op: the operation.

    Raises:
      CheckpointError: the name can refer to another place, as in `path_below`.
    """
    path = path_below(folder, name)
    if path is None:
        raise CheckpointError(
            f"{op}: {file} contains the file name {format_value(name)}, which is not below the"
            f" folder {folder or os.curdir}. Use a file name, or a relative path without '..' whose"
            " folders are not links to other places."
        )
    return path
