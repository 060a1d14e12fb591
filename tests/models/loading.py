"""The golden files as named arrays, by einops: a second implementation of what `nx.interop.from_state_dict` does."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import einops
import jax.numpy as jnp
import numpy as np

import namedax as nx
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


def _entries(spec: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]) -> Any:
    """Yield keys, place, stacked axes, einops pattern, and axes of a tensor, for every entry."""
    for key, (place, pattern) in spec.items():
        left, _, right = (part.strip() for part in pattern.partition("->"))
        axes = [tuple(axis.split("=")) for axis in re.split(r"[, ]+", right.strip("{}").strip()) if axis]
        stacked = re.findall(r"{(\w+)}", key)
        pairs = [(axis[0], axis[-1]) for axis in axes]
        inner = [pair for pair in pairs if pair[0] not in stacked]
        letters = {letter: sizes[name] for name, letter in inner if re.search(rf"\(.*\b{letter}\b.*\)", left)}
        yield key, place, stacked, left, pairs, inner, letters


def named_state(case: str, spec: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the parameters of a case as named arrays."""
    tensors, params = dict(state(case)), {}
    for key, place, stacked, left, pairs, inner, letters in _entries(spec, sizes):
        shape = [sizes[name] for name in stacked]
        parts = []
        for index in np.ndindex(*shape):
            tensor = tensors.pop(key.format(**dict(zip(stacked, index, strict=True))))
            pattern = f"{left} -> {' '.join(letter for _, letter in inner)}"
            parts.append(einops.rearrange(tensor, pattern, **letters))
        array = np.stack(parts).reshape(*shape, *parts[0].shape)
        named = nx.named(jnp.asarray(array), [*stacked, *(name for name, _ in inner)])
        node = params
        *parents, last = place.split("/")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = nx.named(nx.positional(named, [name for name, _ in pairs]), [name for name, _ in pairs])
    assert not tensors, f"left over: {[*tensors]}"
    return params


def state_of(params: Any, spec: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Return the state dict of parameters, or of their gradients."""
    tensors = {}
    for key, place, stacked, left, _, inner, letters in _entries(spec, sizes):
        leaf = params
        for part in place.split("/"):
            leaf = leaf[part]
        array = np.asarray(nx.positional(leaf, [*stacked, *(name for name, _ in inner)]))
        for index in np.ndindex(*[sizes[name] for name in stacked]):
            pattern = f"{' '.join(letter for _, letter in inner)} -> {left}"
            name = key.format(**dict(zip(stacked, index, strict=True)))
            tensors[name] = einops.rearrange(array[index], pattern, **letters)
    return tensors
