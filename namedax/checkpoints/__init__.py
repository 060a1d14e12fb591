"""Checkpoints by name: written under one layout, read under any other. With orbax, the extra `namedax[checkpoints]`.

A checkpoint of orbax says shapes. One of these says which axes they are, in orbax's own metadata, so that another mesh, another assignment,
another number of processes and another physical order are no matter, and a wrong name is an error.

`written_names` writes an axis name as JSON, `trees` a tree of arrays; `fitting` says whether what is asked for is what is stored; `reading` brings
arrays to where they are to live; `integrity` writes and compares checksums, and
replaces one checkpoint by another; `files` has the face. Read `trees` first.
"""

from namedax.checkpoints.files import names as names
from namedax.checkpoints.files import restore as restore
from namedax.checkpoints.files import save as save
from namedax.checkpoints.files import save_args as save_args
from namedax.checkpoints.files import types as types

__all__ = ["names", "restore", "save", "save_args", "types"]


def __dir__() -> list[str]:
    return __all__
