"""The causal convolution of Mamba 2 over names."""

from __future__ import annotations

from typing import Any

import namedax as nx


def convolve(x: nx.NamedArray, taps: Any, past: Any, lengths: Any) -> tuple[Any, Any]:
    """Convolve causally over positions, each feature by itself; sharded, this is a halo exchange.

    `past` has the inputs before the first position. The second result has those of the next one.
    """
    size, reach = x.named_shape["pos"], taps.named_shape["tap"] - 1
    y = nx.conv(x, taps, "pos", kernel_axis="tap", padding=[(reach, 0)])
    if past is None:
        return y, None
    index = nx.arange(size, axis="pos") + nx.arange(reach + 1, axis="tap")
    y = y + nx.sum(nx.take(past, index, "past", mode="fill", fill_value=0) * taps, "tap")
    index = (size if lengths is None else lengths) + nx.arange(reach, axis="past")
    new = nx.take(x, nx.maximum(index - reach, 0), "pos")
    return y, nx.where(index < reach, nx.take(past, index, "past", mode="clip"), new)
