"""Shared code of the models: configuration files, random parameters, layouts and loops over layers.

The models are plain functions over axis names. An axis that is stored with one sharding and used
with another has two names: parameters are stored over `embed_fsdp` and read as `embed`, and
positions are named `pos_sp` between the layers. Without `axis_resources` this is only a renaming.
An encoder has positions `source`, named `source_sp` between its layers `source_layers`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

import namedax as nx
from namedax.errors import CheckpointError, UnsupportedArgumentError
from namedax.interop import lora
from namedax.interop.adapters import places as places
from namedax.interop.entries import parse_spec

Params = dict[str, Any]
Spec = Mapping[str, tuple[str, str]]
C = TypeVar("C")

# --- configuration files --------------------------------------------------------------------------

_ORIGINAL = "original_max_position_embeddings"
# Entries of config.json that do not change the function: of training, generation and tokenizers.
IGNORED = frozenset(
    "_attn_implementation _name_or_path _sliding_window_pattern activation_dropout architectures"
    " attention_dropout attn_implementation auto_map begin_suppress_tokens bos_token_id"
    " cache_implementation classifier_dropout decoder_start_token_id dropout dtype eos_token_id"
    " forced_decoder_ids init_std initializer_factor initializer_range is_encoder_decoder"
    " max_length max_position_embeddings max_window_layers model_type pad_token_id pretraining_tp"
    " quantization_config router_jitter_noise suppress_tokens task_specific_params torch_dtype"
    " transformers_version use_cache".split()
)


def read_config(
    path: str | os.PathLike[str],
    fields: Mapping[str, str],
    fixed: Mapping[str, Iterable[Any]] = {},
    ignored: Iterable[str] = (),
    entries: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Read a `config.json`, as published beside a checkpoint.

    In files of multimodal models it reads the part `text_config`, with an entry `multimodal`.

    Args:
      path: the file, or the directory that has it.
      fields: the field of each entry. Entries without a value (`null`) are left out.
      fixed: entries that the model supports with these values only.
      ignored: further entries that do not change the function.
      entries: the part of the file to read, if it has been read already.

    Returns:
      The values by field. `rope_theta`, `rope_scaling` and `rope_parameters` become `theta` and
      `scaling`, with the entries beside them that a scaling needs (`nx.nn.rope_scaling`).

    Raises:
      CheckpointError: an entry is unknown, or has a value that the model does not support.
      ArgumentError: the scaling of rotary positions lacks an entry, or has an invalid one.
    """
    path = pathlib.Path(path)
    path = path / "config.json" if path.is_dir() else path
    entries = dict(json.loads(path.read_text()) if entries is None else entries)
    if "text_config" in entries:
        entries = {**entries["text_config"], "multimodal": True}
    rope = entries.get("rope_parameters") or {}
    if not any(isinstance(value, dict) for value in rope.values()):  # not one per type of layer
        scaling = nx.nn.rope_scaling(entries)
        if scaling is not None:
            entries["rope_theta"] = scaling.pop("rope_theta", entries.get("rope_theta"))
            entries["rope_scaling"] = scaling or None
        for entry in ("rope_parameters", "partial_rotary_factor", _ORIGINAL):
            entries.pop(entry, None)
    known = {"rope_theta": "theta", "rope_scaling": "scaling", **fields}
    if unknown := sorted(entries.keys() - known.keys() - fixed.keys() - IGNORED - {*ignored}):
        raise CheckpointError(
            f"models.load: {path} has entries that the model does not know:"
            f" {', '.join(map(repr, unknown))}. Add them to the fields of Config, or to `ignored`"
            " if they do not change the function."
        )
    for entry, allowed in fixed.items():
        if entry in entries and entries[entry] not in (allowed := [*allowed]):
            raise CheckpointError(
                f"models.load: {path} has {entry}={entries[entry]!r}; this model supports only"
                f" {' or '.join(map(repr, allowed))}."
            )
    return {
        known[entry]: value
        for entry, value in entries.items()
        if entry in known and value is not None
    }


def local_layers(path: str | os.PathLike[str], types: Iterable[str]) -> tuple[bool, ...]:
    """Return whether each layer has a sliding window, by the entry `layer_types` of a file.

    Raises:
      CheckpointError: a layer has neither a sliding window nor full attention.
    """
    if other := {*types} - {"sliding_attention", "full_attention"}:
        raise CheckpointError(
            f"models.load: {path} has layer_types {', '.join(sorted(other))}, which this model"
            " does not support."
        )
    return tuple(kind == "sliding_attention" for kind in types)


def make_config(cls: type[C], path: str | os.PathLike[str], values: Mapping[str, Any]) -> C:
    """Make the dataclass, or name the entries that the file lacks."""
    missing = [
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.name not in values
    ]
    if missing:
        raise CheckpointError(
            f"models.load: {path} has no entry for {', '.join(missing)} of {cls.__name__}. Use a"
            " complete config.json, as published beside the weights."
        )
    return cls(**values)


def ignored_keys(config: Any) -> list[str]:
    """Return the keys of a checkpoint that the models do not read.

    These are computed tensors, the output layer that some tied checkpoints repeat, the images of a
    multimodal model, and those that the configuration names.
    """
    tied = ["*lm_head.weight"] if getattr(config, "tied", False) else []
    images = ["*vision_tower.*", "*multi_modal_projector.*"]
    images = images if getattr(config, "multimodal", False) else []
    return ["*.inv_freq", *tied, *images, *getattr(config, "ignored", [])]


# --- parameters -----------------------------------------------------------------------------------


def biased(key: str, place: str, weight: str, bias: str) -> dict[str, tuple[str, str]]:
    """Return the entries of a layer that has a weight and a bias, for a SPEC."""
    return {f"{key}.weight": (place, weight), f"{key}.bias": (f"{place}_bias", bias)}


def init(
    spec: Spec,
    sizes: Mapping[str, int],
    key: jax.Array,
    dtype: Any = jnp.float32,
    norm: float = 1.0,
) -> Params:
    """Return random parameters with the axes of `spec`.

    Matrices are normal with the variance `1 / fan_in`, where the inputs are all dimensions of the
    stored tensor of a layer or an expert but the first. Scales of norms are `norm`, by default 1,
    and other vectors 0.
    """
    params: Params = {}
    for number, entry in enumerate(parse_spec(spec, None, "models.init")):
        names = {label: str(term.name) for term in entry.right for label in term.axes}
        shape = {name: sizes[name] for name in map(str, entry.dims)}
        tensor = [term for term in entry.left if [names.get(a) for a in term.axes] != ["expert"]]
        part = None if entry.part is None else entry.part.label
        inputs = [label for term in tensor[1:] for label in term.axes if label != part]
        place = entry.place_text
        if inputs:
            scale = 1 / math.sqrt(math.prod(sizes[names[label]] for label in inputs))
            drawn = nx.random.normal(jax.random.fold_in(key, number), named_shape=shape) * scale
        else:
            is_norm = "norm" in place and not place.endswith("bias")
            drawn = nx.full((), norm if is_norm else 0.0, named_shape=shape)
        array = nx.positional(drawn, list(shape)).astype(dtype)
        put(params, place, nx.named(array, list(shape)))
    return params


def put(tree: Params, place: str, value: Any) -> None:
    """Set `tree["a"]["b"]` for the place `"a/b"`."""
    *parents, last = place.split("/")
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[last] = value


# --- loops ----------------------------------------------------------------------------------------


def apply_layers(
    layer: Callable[..., tuple[Any, Any]],
    x: Any,
    stacked: Any,
    config: Any,
    dropout_key: jax.Array | None = None,
    axis: str = "layers",
    *,
    cache: Any = None,
) -> tuple[Any, Any]:
    """Apply `layer(x, parameters) -> (x, output)` along the axis `layers`, or another.

    With `config.microbatches` the layers are a pipeline. With `config.remat` a layer is recomputed
    in the backward pass, and only its input is a residual. With a key, elements of the update of
    each layer are dropped at the rate `config.dropout`.

    With a cache it is `layer(x, parameters, part) -> (x, part)`, and the next cache is returned.
    The loop carries the cache of all layers, and each layer writes into it.
    """
    if cache is not None:

        def with_cache(carry: Any, inputs: Any) -> tuple[Any, None]:
            x, cache = carry
            number, parameters = inputs
            x, part = layer(x, parameters, layer_of(cache, axis, number))
            return (x, with_layer(cache, axis, number, part)), None

        numbers = nx.arange(getattr(config, axis), axis=axis)
        return nx.scan(with_cache, (x, cache), (numbers, stacked), axis=axis)[0]

    step = layer
    if dropout_key is not None:
        keys = jax.random.split(dropout_key, getattr(config, axis))
        stacked = (stacked, nx.named(keys, [axis]))

        def step(x: Any, inputs: Any) -> tuple[Any, Any]:
            y, output = layer(x, inputs[0])
            return x + nx.nn.dropout(y - x, inputs[1], config.dropout), output

    step = jax.checkpoint(step) if config.remat else step
    if config.microbatches:
        return nx.pipeline(
            step, x, stacked, axis=axis, microbatches=config.microbatches, outputs=True
        )
    return nx.scan(step, x, stacked, axis=axis)


def layer_of(cache: Any, axis: str, number: Any) -> Any:
    """Return the cache of one layer: of keys and values, or dictionaries of states."""
    if isinstance(cache, nx.nn.KVCache):
        return cache.select(axis, number)
    if isinstance(cache, dict):
        return {name: layer_of(of, axis, number) for name, of in cache.items()}
    return cache[axis, number]


def with_layer(cache: Any, axis: str, number: Any, part: Any) -> Any:
    """Return the cache of all layers with the new cache of one layer."""
    if isinstance(cache, nx.nn.KVCache):
        return part.whole()
    if isinstance(cache, dict):
        return {name: with_layer(of, axis, number, part[name]) for name, of in cache.items()}
    return cache.at[axis, number].set(part, mode="clip")


def embedding(table: nx.NamedArray, tokens: Any, pos: str = "pos") -> Any:
    """Look up tokens in a table that is stored over `vocab` and `embed_fsdp`."""
    x = nx.take(nx.rename(table, {"embed_fsdp": "embed"}), tokens, "vocab")
    return nx.rename(x, {pos: f"{pos}_sp"})


def read(
    x: nx.NamedArray, weight: nx.NamedArray, out: str, pos: str = "pos", embed: str = "embed"
) -> nx.NamedArray:
    """Multiply the residual stream by a weight: gather `pos_sp` and `embed_fsdp`, contract `embed`.

    The pattern leaves unmentioned axes alone, such as `batch` or the axis of adapters. The weight
    may have an adapter (`lora.attach`).
    """
    at = f"{pos}, " if f"{pos}_sp" in x.named_shape else ""
    stream = f"{pos}:{pos}_sp, " if at else ""
    pattern = f"{{{stream}{embed}}}, {{{embed}:{embed}_fsdp, {out}}} -> {{{at}{out}}}"
    return lora.einsum(pattern, x, weight)


def write(
    x: nx.NamedArray, weight: nx.NamedArray, inner: str, pos: str = "pos", embed: str = "embed"
) -> nx.NamedArray:
    """Contract `inner`, and return to the residual stream, whose positions are `pos_sp`."""
    pattern = (
        f"{{{pos}, {inner}}}, {{{inner}, {embed}:{embed}_fsdp}} -> {{{pos}_sp:{pos}, {embed}}}"
    )
    return lora.einsum(pattern, x, weight)


def layer_norm(
    x: nx.NamedArray, p: Params, name: str = "norm", epsilon: float = 1e-5, axis: str = "embed"
) -> Any:
    """LayerNorm (Ba et al., 2016) with the parameters `name` and `name_bias`."""
    return nx.nn.layer_norm(x, axis, scale=p[name], bias=p[f"{name}_bias"], epsilon=epsilon)


def gelu_layer(
    x: nx.NamedArray, p: Params, norm: str = "norm", epsilon: float = 1e-5, pos: str = "pos"
) -> nx.NamedArray:
    """Add two linear layers with the exact GELU (Hendrycks and Gimpel, 2016) between them."""
    h = read(layer_norm(x, p, norm, epsilon), p["up"], "hidden", pos) + p["up_bias"]
    h = nx.nn.gelu(h, approximate=False)
    return x + write(h, p["down"], "hidden", pos) + p["down_bias"]


def mixture(
    expert: Callable[[Params, nx.NamedArray], nx.NamedArray],
    weights: Params,
    h: nx.NamedArray,
    routing: nx.nn.Routing,
) -> nx.NamedArray:
    """Apply the chosen experts to every position, and sum their weighted results.

    Weights are stored over `embed_expert`, and have `up`. An axis of adapters is mapped.
    """
    weights = nx.rename(weights, {"embed_expert": "embed"})  # one gather for all rounds
    shared = weights["up"].named_shape.keys() - {"expert", "embed", "hidden"}  # axes of adapters
    tokens = [name for name in h.named_shape if name not in {"embed", *shared}]

    def mix(weights: Params, h: nx.NamedArray, routing: nx.nn.Routing) -> nx.NamedArray:
        return nx.nn.mixture_of_experts(expert, weights, h, routing, tokens=tokens)

    for name in shared:
        mix = nx.vmap(mix, name)
    return nx.rename(mix(weights, h, routing), {"pos": "pos_sp"})


# --- generation -----------------------------------------------------------------------------------


def init_cache(config: Any, batch: int, capacity: int, dtype: Any = jnp.float32) -> nx.nn.KVCache:
    """Return an empty cache for every layer, with the axis `cache` of earlier positions."""
    shape = {"layers": config.layers, "batch": batch, "kv_heads": config.kv_heads}
    shape |= {"cache": capacity, "key": config.key}
    return nx.nn.KVCache.init(shape, rows=("layers", "batch"), dtype=dtype)


def check_packed(cache: Any, segments: Any) -> None:
    """Raise if there are packed documents and a cache.

    Raises:
      UnsupportedArgumentError: there are both.
    """
    if cache is not None and segments is not None:
        raise UnsupportedArgumentError(
            "models: packed documents cannot continue the states of a cache. Use one document in a"
            " row, with `lengths`."
        )


def next_positions(x: nx.NamedArray, cache: Any, rows: Mapping[str, Any] = {}) -> Any:
    """Return the positions of new tokens: those in `rows`, from 0, or after those in the cache.

    Raises:
      UnsupportedArgumentError: there are packed documents and a cache.
    """
    check_packed(cache, rows.get("segments"))
    if (positions := rows.get("positions")) is not None:
        return positions
    size = x.named_shape["pos"]
    return nx.arange(size, axis="pos") if cache is None else cache.positions("pos", size)


def last_token(x: nx.NamedArray, lengths: Any) -> nx.NamedArray:
    """Return the residual stream at the last token of every row, without the axis of positions."""
    return x[{"pos_sp": x.named_shape["pos_sp"] - 1 if lengths is None else lengths - 1}]


def logits(x: nx.NamedArray, params: Params, config: Any, cache: Any, lengths: Any) -> Any:
    """Return the logits of the residual stream: of all tokens, or of the last one with a cache."""
    x = x if cache is None else last_token(x, lengths)
    x = nx.nn.rms_norm(x, "embed", scale=params["norm"], epsilon=config.epsilon)
    return read(x, params["embed" if config.tied else "unembed"], "vocab")


# --- losses ---------------------------------------------------------------------------------------


def cross_entropy(logits: nx.NamedArray, batch: Mapping[str, Any], axis: str = "vocab") -> Any:
    """Return the mean cross-entropy in nats of `batch["targets"]`; `batch["mask"]` selects some."""
    losses = nx.nn.softmax_cross_entropy(logits, batch["targets"], axis)
    if batch.get("mask") is None:
        return nx.mean(losses, ...)
    mask = batch["mask"].astype(losses.dtype)
    return nx.sum(losses * mask, ...) / nx.sum(mask, ...)


# --- layouts --------------------------------------------------------------------------------------

# Experts have a stored name of their own: an array has `embed_fsdp`, or `expert` and
# `embed_expert`, so that experts may be on the mesh axis of the other stored parameters.
OTHERS = {"query_fsdp": "data", "latent_fsdp": "data"}  # of weights that neither read nor write it
FSDP = {"embed_fsdp": "data", "embed_expert": "data", "image_embed_fsdp": "data", **OTHERS}
TENSOR = dict.fromkeys(
    "kv_heads state_heads hidden dense_hidden shared_hidden vocab image_heads image_hidden".split(),
    "model",
)
ACCUMULATE = ("data", nx.SerialLoop(2))
RING = dict.fromkeys(("pos", "pos_sp", "source", "source_sp", "frame"), "context")
#: The mesh axes of eight devices or fewer, and where the axes of the model are sharded.
LAYOUTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "one device": ({}, {}),
    "dp": ({"data": 4}, {"batch": "data"}),
    "tp": ({"model": 2}, TENSOR),
    "dp+tp": ({"data": 2, "model": 2}, {"batch": "data", **TENSOR}),
    "fsdp": ({"data": 8}, {"batch": "data", **FSDP}),
    "fsdp+tp": ({"data": 4, "model": 2}, {"batch": "data", **FSDP, **TENSOR}),
    "fsdp+tp+sp": (
        {"data": 2, "model": 2},
        {"batch": "data", **FSDP, "pos_sp": "model", "source_sp": "model", **TENSOR},
    ),
    "fsdp, accumulated": ({"data": 2}, {"batch": ACCUMULATE, **FSDP}),
    "ring": ({"context": 4}, RING),
    "ring+fsdp": (
        {"context": 2, "data": 2},
        {"batch": "data", **FSDP, **RING},
    ),
    "uneven tp": ({"model": 3}, TENSOR),
    "pipeline+dp": (
        {"stage": 2, "data": 2},
        {"layers": "stage", "source_layers": "stage", "batch": "data"},
    ),
    "ep": ({"data": 4}, {"batch": "data", "expert": "data"}),
    "ep+fsdp": (
        {"data": 2, "model": 2},
        {"batch": "data", "expert": "data", "embed_fsdp": "data", **OTHERS, **TENSOR},
    ),
}


def axis_names(config: Any) -> set[str]:
    """Return the axis names of a model: of its parameters, and of its inputs."""
    return {*config.sizes(), "batch", "pos", "pos_sp", *getattr(config, "axes", ())}


def make_mesh(axes: Mapping[str, int], axis_types: Any = None) -> jax.sharding.Mesh | None:
    """Return a mesh of the first devices; `None` without axes."""
    if not axes:
        return None
    types = None if axis_types is None else (axis_types,) * len(axes)
    devices = jax.devices()[: math.prod(axes.values())]
    return jax.make_mesh(tuple(axes.values()), tuple(axes), types, devices=devices)


def layout(
    title: str, names: Iterable[str], axis_types: Any = None
) -> tuple[jax.sharding.Mesh | None, dict[str, Any]]:
    """Return the mesh and `axis_resources` of a layout, for a model that has these axis names.

    Entries of the layout for other names are left out.
    """
    axes, resources = LAYOUTS[title]
    names = {*names}
    chosen = {name: entry for name, entry in resources.items() if name in names}
    return make_mesh(axes, axis_types), chosen
