"""Mixtral and Qwen3-MoE: Llama's attention, and a mixture of experts in every layer.

A router chooses a few experts for each token, and no token is dropped. Experts are stored over
`expert` and `embed_expert`. With `batch` and `expert` on one mesh axis, all-to-alls send the tokens
to their experts (expert parallelism). Sources: Jiang et al., "Mixtral of experts", 2024; Yang et
al., "Qwen3 technical report", 2025; Fedus et al., "Switch transformers", 2021, for the balance.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax

import namedax as nx
from namedax.models import common, llama
from namedax.models.common import Params, read


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(llama.Config):
    """Sizes. Every token has the `chosen` best of `experts`; `hidden` is that of one."""

    experts: int
    chosen: int = 2
    normalize: bool = True  # the weights of the chosen experts sum to 1
    balance: float = 0.0  # the factor of the loss that balances the experts

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        values["qk_norm"] = values.pop("type") == "qwen3_moe"
        hidden = values.pop("expert hidden", None)
        if values["qk_norm"]:  # its intermediate_size is that of layers without experts
            values |= {"hidden": hidden, "normalize": values.get("normalize", False)}
        values.setdefault("kv_heads", values["heads"])
        values.setdefault("key", values["embed"] // values["heads"])
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        experts = {"expert": self.experts, "route": self.experts, "embed_expert": self.embed}
        return super().sizes() | experts


TINY = Config(
    vocab=256, embed=64, hidden=64, layers=2, heads=4, kv_heads=2, key=16, theta=100.0,
    experts=4, balance=0.01,
)  # fmt: skip
ENTRIES = {
    **{entry: field for entry, field in llama.ENTRIES.items() if entry != "layer_types"},
    "moe_intermediate_size": "expert hidden",
    "norm_topk_prob": "normalize",
    "num_experts": "experts",
    "num_experts_per_tok": "chosen",
    "num_local_experts": "experts",
    "router_aux_loss_coef": "balance",
}
FIXED = llama.FIXED | {
    "model_type": ["mixtral", "qwen3_moe"],
    "decoder_sparse_step": [1],  # experts in every layer
    "mlp_only_layers": [[]],
}
IGNORED = ("output_router_logits",)

_MIXTRAL = "model.layers.{layers}.block_sparse_moe."
_QWEN = "model.layers.{layers}.mlp."
_ROUTER = ("layers/router", "route e -> {layers, embed_fsdp=e, route}")
_GATE, _UP = (
    (f"layers/{name}", "hidden e -> {layers, expert, embed_expert=e, hidden}")
    for name in ("gate", "up")
)
_DOWN = ("layers/down", "e hidden -> {layers, expert, hidden, embed_expert=e}")
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    **{key: entry for key, entry in llama.SPEC.items() if ".mlp." not in key},
    f"{_MIXTRAL}gate.weight": _ROUTER,
    f"{_MIXTRAL}experts.{{expert}}.w1.weight": _GATE,
    f"{_MIXTRAL}experts.{{expert}}.w3.weight": _UP,
    f"{_MIXTRAL}experts.{{expert}}.w2.weight": _DOWN,
    f"{_QWEN}gate.weight": _ROUTER,
    f"{_QWEN}experts.{{expert}}.gate_proj.weight": _GATE,
    f"{_QWEN}experts.{{expert}}.up_proj.weight": _UP,
    f"{_QWEN}experts.{{expert}}.down_proj.weight": _DOWN,
}


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has."""
    other = _MIXTRAL if config.qk_norm else _QWEN
    absent = {"unembed"} if config.tied else set()
    absent |= set() if config.qk_norm else {"layers/query_norm", "layers/key_norm"}
    return {
        key: entry
        for key, entry in SPEC.items()
        if entry[0] not in absent and not key.startswith(other)
    }


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters."""
    return common.init(spec(config), config.sizes(), key)


init_cache = common.init_cache


def expert(p: Params, x: nx.NamedArray) -> nx.NamedArray:
    """SwiGLU (Shazeer, 2020), of every expert on its slots."""
    gate, up = (nx.dot(x, p[name], "embed") for name in ("gate", "up"))
    return nx.dot(nx.nn.silu(gate) * up, p["down"], "hidden")


def mixture(h: nx.NamedArray, p: Params, config: Config) -> tuple[nx.NamedArray, nx.nn.Routing]:
    """Return the weighted results of the chosen experts, and the routing."""
    logits = read(h, p["router"], "route")
    routing = nx.nn.top_k_routing(logits, "route", config.chosen, normalize=config.normalize)
    weights = {name: p[name] for name in ("gate", "up", "down")}
    return common.mixture(expert, weights, h, routing), routing


def feed_forward(x: nx.NamedArray, p: Params, config: Config) -> tuple[nx.NamedArray, Any]:
    """Add the weighted results of the chosen experts; also return the routing."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm2"], epsilon=config.epsilon)
    y, routing = mixture(nx.rename(h, {"pos_sp": "pos"}), p, config)
    return x + y, routing


def balance_loss(routing: nx.nn.Routing) -> Any:
    """Measure the imbalance of experts over all tokens and layers: `chosen` if there is none."""
    over = [name for name in routing.probabilities.named_shape if name != "route"]
    return nx.nn.load_balancing_loss(routing, over, normalization="mixtral")


def forward(
    params: Params, tokens: nx.NamedArray, config: Config, *, cache: Any = None, **rows: Any
) -> Any:
    """Return the logits of the next token at every position, as `llama.forward`."""
    logits, output = route(params, tokens, config, cache=cache, **rows)
    return logits if cache is None else (logits, output)


def route(
    params: Params,
    tokens: nx.NamedArray,
    config: Config,
    *,
    cache: Any = None,
    dropout_key: Any = None,
    **rows: Any,
) -> tuple[nx.NamedArray, Any]:
    """Return the logits, and the next cache or the routing of all tokens and layers."""

    def layer(x: nx.NamedArray, p: Params, part: Any = None) -> tuple[nx.NamedArray, Any]:
        x, part = llama.attention(x, p, config, part, rows)
        x, routing = feed_forward(x, p, config)
        return x, routing if part is None else part

    x = common.embedding(params["embed"], tokens)
    x, output = common.apply_layers(layer, x, params["layers"], config, dropout_key, cache=cache)
    return common.logits(x, params, config, cache, rows.get("lengths")), output


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats, and the loss of the balance."""
    more = {name: batch.get(name) for name in ("positions", "segments", "dropout_key")}
    logits, routing = route(params, batch["tokens"], config, **more)
    value = common.cross_entropy(logits, batch)
    return value + config.balance * balance_loss(routing) if config.balance else value
