"""Checkpoints with axis names: written under one layout, read under any other.

They require orbax, the extra `namedax[checkpoints]`.

A checkpoint of orbax has shapes. A checkpoint of namedax also stores the axis names, in orbax's own
metadata. The mesh, the layout, the number of processes and the physical order of axes may therefore
differ on restore, and a wrong name is an error.

`written_names` converts an axis name to JSON, and `trees` a tree of arrays. `reading` checks the
requested tree against the stored one, and reads arrays with their target sharding.
`integrity` writes and compares checksums, and replaces one checkpoint by another. `files` has the
public functions. Read `trees` first.
"""

from namedax.checkpoints.files import names as names
from namedax.checkpoints.files import restore as restore
from namedax.checkpoints.files import save as save
from namedax.checkpoints.files import save_args as save_args
from namedax.checkpoints.files import types as types

__all__ = ["names", "restore", "save", "save_args", "types"]


def __dir__() -> list[str]:
    return __all__
