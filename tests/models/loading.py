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
    shapes, factors = json.loads(str(found["shapes"])), json.loads(str(found.get("factors", "{}")))
    return {str(key): make(str(key), tuple(shape), factors) for key, shape in zip(found["keys"], shapes, strict=True)}


def write_config(case: str, folder: Path) -> Path:
    """Write the `config.json` of a case, and return its path."""
    path = folder / "config.json"
    path.write_text(str(golden(case)["config"]))
    return path


def _entries(spec: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]) -> Any:
    """Yield for every entry its places, its keys by index, the stacked axes, and einops patterns with their sizes.

    The parts of a tensor are its first axis "part", with one place each; other tensors have one part. A range such as
    `{layers:3..:4}` has the numbers 3, 7, 11, ...
    """
    for key, (place, pattern) in spec.items():
        left, _, right = (part.strip() for part in pattern.partition("->"))
        axes = [tuple(axis.split("=")) for axis in re.split(r"[, ]+", right.strip("{}").strip()) if axis]
        numbers = re.findall(r"{(\w+)(?::(\d*)\.\.\d*(?::(\d+))?)?}", key)
        stacked = [name for name, _, _ in numbers]
        template = re.sub(r":[\d.:]+}", "}", key)
        keys = {
            index: template.format(
                **{name: int(first or 0) + int(step or 1) * i for (name, first, step), i in zip(numbers, index, strict=True)}
            )
            for index in np.ndindex(*[sizes[name] for name in stacked])
        }
        pairs = [(axis[0], axis[-1]) for axis in axes]
        inner = [pair for pair in pairs if pair[0] not in stacked]
        letters = {letter: sizes[name] for name, letter in inner if re.search(rf"\(.*\b{letter}\b.*\)", left)}
        found = re.search(r"{part:(.*)}", place)
        names = found[1].split(",") if found else []
        letters |= {"part": len(names)} if names else {}
        places = [place.replace(found[0], name) for name in names] if found else [place]
        named = " ".join(letter for _, letter in inner)
        yield places, keys, stacked, (left, f"part {named}" if names else f"1 {named}"), pairs, inner, letters


def named_state(case: str, spec: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the parameters of a case as named arrays."""
    tensors, params = dict(state(case)), {}
    for places, keys, stacked, (left, right), pairs, inner, letters in _entries(spec, sizes):
        tensor = np.stack([einops.rearrange(tensors.pop(key), f"{left} -> {right}", **letters) for key in keys.values()], 1)
        for place, array in zip(places, tensor, strict=True):
            array = array.reshape(*[sizes[name] for name in stacked], *array.shape[1:])
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
    for places, keys, stacked, (left, right), _, inner, letters in _entries(spec, sizes):
        leaves = [functools.reduce(lambda node, name: node[name], place.split("/"), params) for place in places]
        arrays = [nx.positional(leaf, [*stacked, *(name for name, _ in inner)]) for leaf in leaves]
        for index, key in keys.items():
            parts = np.stack([np.asarray(array)[index] for array in arrays])
            tensors[key] = einops.rearrange(parts, f"{right} -> {left}", **letters)
    return tensors
