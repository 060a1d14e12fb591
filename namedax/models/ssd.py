"""The layers of Mamba 2 over names: a causal convolution, and a recurrence.

Every head has a state, a matrix {key, state} that decays by a number and adds an outer product at
every position. Within chunks of positions this is a masked matrix product, as in attention.
Between chunks it is an associative scan, so positions may be sharded: a device needs whole chunks,
and receives one state of every other device. The function does not depend on the size of a chunk.
Source: Dao and Gu, "Transformers are SSMs", 2024.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

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


def recur(
    x: nx.NamedArray, log_decay: Any, b: Any, c: Any, state: Any, size_of_chunk: int
) -> tuple[nx.NamedArray, Any]:
    """Compute `state = exp(log_decay) * state + outer(x, b)` and `y = state @ c`."""
    size, chunk = x.named_shape["pos"], min(size_of_chunk, x.named_shape["pos"])

    def chunks(array: nx.NamedArray) -> nx.NamedArray:
        array = nx.pad(array, {"pos": (0, -size % chunk)}, out_axis="step")
        return nx.split_axis(array, "step", {"chunk": None, "offset": chunk})

    x, log_decay, b, c = map(chunks, (x, log_decay, b, c))
    # Within a chunk.
    total, last = nx.cumsum(log_decay, "offset"), nx.sum(log_decay, "offset")
    between = total - nx.rename(total, {"offset": "earlier"})
    causal = nx.arange(chunk, axis="offset") >= nx.arange(chunk, axis="earlier")
    scores = nx.einsum("{offset, state}, {earlier:offset, state} -> {offset, earlier}", c, b)
    scores = scores * nx.exp(nx.where(causal, between, -jnp.inf))
    y = nx.einsum("{offset, earlier}, {earlier:offset, key} -> {offset, key}", scores, x)
    # Between chunks.
    added = nx.einsum(
        "{offset}, {offset, state}, {offset, key} -> {state, key}", nx.exp(last - total), b, x
    )
    decays, states = nx.associative_scan(
        lambda first, second: (first[0] * second[0], first[1] * second[0] + second[1]),
        (nx.exp(last), added),
        axis="chunk",
    )
    before = nx.shift(states, 1, "chunk")
    if state is not None:
        states = states + decays * state
        before = before + nx.shift(decays, 1, "chunk", fill_value=1) * state
    y = y + nx.einsum(
        "{offset}, {offset, state}, {state, key} -> {offset, key}", nx.exp(total), c, before
    )
    y = nx.slice(
        nx.merge_axes(y, ("chunk", "offset"), "step"), {"step": slice(0, size)}, out_axis="pos"
    )
    return y, states["chunk", -1]
