"""The causal convolution of Mamba 2 and Qwen3-Next over names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import namedax as nx
from namedax.models import common


def convolve(
    x: nx.NamedArray, taps: Any, past: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Convolve causally over positions, each feature by itself; sharded, this is a halo exchange.

    `past` has the inputs before the first position. The second result has those of the next one.
    `rows` has the `lengths` of prompts, or the `segments` of packed documents: the inputs of other
    documents are zeros.
    """
    size, reach = x.named_shape["pos"], taps.named_shape["tap"] - 1
    lengths, segments = rows.get("lengths"), rows.get("segments")
    common.check_packed(past, segments)
    if segments is not None:
        x, of = (nx.halo(array, "pos", reach, 0, out_axis="tap") for array in (x, segments))
        return nx.sum(nx.where(of == segments, x, 0) * taps, "tap"), None
    y = nx.conv(x, taps, "pos", kernel_axis="tap", padding=[(reach, 0)])
    if past is None:
        return y, None
    index = nx.arange(size, axis="pos") + nx.arange(reach + 1, axis="tap")
    y = y + nx.sum(nx.take(past, index, "past", mode="fill", fill_value=0) * taps, "tap")
    index = (size if lengths is None else lengths) + nx.arange(reach, axis="past")
    new = nx.take(x, nx.maximum(index - reach, 0), "pos")
    return y, nx.where(index < reach, nx.take(past, index, "past", mode="clip"), new)


def split(array: Any, axis: str, shapes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Split an axis into parts, and each part into axes; no part leaves its device."""
    ends = [*itertools.accumulate(math.prod(shape.values()) for shape in shapes.values())]
    arrays, found = nx.split(array, ends[:-1], axis, out_axis=[f"{axis} {p}" for p in shapes]), {}
    for (part, shape), one in zip(shapes.items(), arrays, strict=True):
        one = nx.split_axis(one, f"{axis} {part}", {f"all {name}": shape[name] for name in shape})
        found[part] = nx.rename(one, {f"all {name}": name for name in shape})
    return found
