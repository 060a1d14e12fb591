"""The golden files, as named arrays."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.weights import make

GOLDEN = Path(__file__).parent / "golden"


@functools.cache
def golden(case: str) -> dict[str, Any]:
    """Return the arrays of a golden file; a missing file is an error."""
    with np.load(GOLDEN / f"{case}.npz") as file:
        return {name: file[name] for name in file.files}


@functools.cache
def state(case: str) -> dict[str, np.ndarray]:
    """Return the state dict of the tiny model, by the keys of a published checkpoint."""
    found = golden(case)
    shapes = json.loads(str(found["shapes"]))
    return {str(key): make(str(key), tuple(shape)) for key, shape in zip(found["keys"], shapes, strict=True)}


def write_config(case: str, folder: Path) -> Path:
    """Write the `config.json` of a case, and return its path."""
    path = folder / "config.json"
    path.write_text(str(golden(case)["config"]))
    return path
