"""The layer of Qwen3-Next with a gated delta rule (Yang, Kautz and Hatamizadeh, 2024) over names.

The state is a matrix {feature, value} for each head of values. The heads of `share` have one head
of `state_heads` for queries and keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

import namedax as nx
from namedax.models import convolution
from namedax.models.common import Params, read, write
from namedax.models.gemma import norm

# The parts of the axis `convolved`.
_HEAD = ("state_heads", "feature")
PARTS = {"query": _HEAD, "key": _HEAD, "value": ("state_heads", "share", "value")}


def init_state(config: Any, batch: int, dtype: Any) -> Params:
    """Return a state of zeros for every group, and the inputs of the convolution before."""
    sizes = config.sizes() | {"batch": batch, "past": config.tap - 1}
    axes = {part: ("past", *PARTS[part]) for part in PARTS}
    axes["state"] = ("state_heads", "share", "feature", "value")

    def zeros(part: str) -> Any:
        shape = {name: sizes[name] for name in ("layers", "batch", *axes[part])}
        return nx.zeros((), jnp.float32 if part == "state" else dtype, named_shape=shape)

    return {part: zeros(part) for part in axes}


def mixer(
    x: nx.NamedArray, p: Params, config: Any, cache: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Convolve queries, keys and values, apply the gated delta rule and the gate."""
    h = norm(x, p["norm1"], config)
    share = config.value_heads // config.state_heads
    ends = list(itertools.accumulate([config.feature, config.feature, share * config.value]))
    names = ["feature", "feature", "values", "values"]
    *parts, gate = nx.split(
        read(h, p["in"], "state_heads, projected"), ends, "projected", out_axis=names
    )
    parts[2], gate = (
        nx.split_axis(one, "values", {"share": share, "value": config.value})
        for one in (parts[2], gate)
    )
    sizes, new = config.sizes(), {}
    shapes = {part: {name: sizes[name] for name in axes} for part, axes in PARTS.items()}
    taps = convolution.split(p["taps"], "convolved", shapes)
    for number, name in enumerate(PARTS):
        past = None if cache is None else cache[name]
        y, new[name] = convolution.convolve(parts[number], taps[name], past, rows)
        parts[number] = nx.nn.silu(y).astype(jnp.float32)
    query, key, value = parts
    query, key = (array / nx.sqrt(nx.sum(array**2, "feature") + 1e-6) for array in (query, key))
    rates = read(h, p["rates"], "state_heads, both, share").astype(jnp.float32)
    beta, dt = nx.nn.sigmoid(rates["both", 0]), nx.nn.softplus(rates["both", 1] + p["dt_bias"])
    if rows.get("lengths") is not None:  # padding does not change the state
        is_token = nx.arange(dt.named_shape["pos"], axis="pos") < rows["lengths"]
        beta, dt = (nx.where(is_token, array, 0.0) for array in (beta, dt))
    y, new["state"] = nx.nn.gated_delta_rule(
        query, key, value, features="feature", beta=beta, decay=-nx.exp(p["rate"]) * dt,
        state=None if cache is None else cache["state"], segments=rows.get("segments"),
        scale=config.feature**-0.5, return_state=True,
    )  # fmt: skip
    y = nx.nn.rms_norm(y, "value", scale=p["gate_norm"], epsilon=config.epsilon)
    y = (y * nx.nn.silu(gate.astype(jnp.float32))).astype(x.dtype)
    x = x + write(y, p["out"], "state_heads, share, value")
    return x, None if cache is None else new
