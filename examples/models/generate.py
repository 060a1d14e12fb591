"""Continue prompts with a model, under any layout: prefill, then one token after the other.

    python examples/models/generate.py --layout tp --prompt "def main(" --prompt "import "
    python examples/models/generate.py --weights DIR --temperature 0.8 --top-p 0.9

The cache of keys and values is sharded by name: over heads, over the batch, or over its own
positions (the axis `cache`), which suits long contexts. Prompts may have different lengths: they
are padded on the right, and every row has its own position. The tokens do not depend on the layout,
whether they are the most likely ones or drawn.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import common
import data
import jax
import jax.numpy as jnp
import numpy as np
import train

import namedax as nx

#: The mesh axes, and the layout of the model and of its cache.
LAYOUTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "one device": ({}, {}),
    "batch": ({"data": 2}, {"batch": "data"}),
    "heads": ({"model": 2}, common.TENSOR),
    "batch+heads": ({"data": 2, "model": 2}, {"batch": "data", **common.TENSOR}),
    "uneven heads": ({"model": 3}, common.TENSOR),
    "cache": ({"context": 4}, {"cache": "context"}),
    "cache+heads": ({"context": 2, "model": 2}, {"cache": "context", **common.TENSOR}),
    "weights": ({"data": 2}, {"batch": "data", **common.FSDP}),
}
#: The number of most likely tokens that `top_p` considers before all others.
CANDIDATES = 128


# --- from logits to tokens ------------------------------------------------------------------------


def sample(
    logits: nx.NamedArray,
    key: jax.Array,
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Any:
    """Return a token for each row: the most likely one, or one that is drawn.

    Args:
      logits: an array with the axis `vocab`, which may be sharded.
      key: a random key.
      temperature: the logits are divided by it; 0 takes the most likely token.
      top_k: draw from this number of most likely tokens; 0 draws from all.
      top_p: draw from the most likely tokens whose probabilities sum to `top_p` (Holtzman et al.,
        2020, "The curious case of neural text degeneration").

    Communication: with `vocab` sharded, all-reduces of a few numbers for each row, and one
    all-gather of the `top_k` or `CANDIDATES` largest logits of each device. Only if the
    probabilities of the candidates sum to less than `top_p` in some row, all logits are sorted.
    """
    if not temperature:
        return nx.argmax(logits, "vocab").astype(jnp.int32)
    logits = logits.astype(jnp.float32) / temperature
    best, size = None, logits.named_shape["vocab"]
    if top_k or top_p < 1:
        best = nx.top_k(
            logits, top_k or min(CANDIDATES, size), axis="vocab", out_axis="choice"
        ).values
    if top_k:
        logits = nx.where(logits < nx.min(best, "choice"), -jnp.inf, logits)
    if top_p < 1:
        total = nx.nn.logsumexp(best, "choice") if top_k else nx.nn.logsumexp(logits, "vocab")

        def least(ordered: nx.NamedArray, axis: str) -> nx.NamedArray:
            probabilities = nx.exp(ordered - total)
            before = nx.cumsum(probabilities, axis) - probabilities
            return nx.min(nx.where(before < top_p, ordered, jnp.inf), axis)

        def least_of_all() -> nx.NamedArray:
            return least(nx.sort(logits, "vocab", descending=True), "vocab")

        if top_k or CANDIDATES >= size:
            limit = least(best, "choice")
        else:
            is_enough = nx.all(nx.sum(nx.exp(best - total), "choice") >= top_p, ...)
            limit = nx.cond(is_enough, lambda: least(best, "choice"), least_of_all)
        logits = nx.where(logits < limit, -jnp.inf, logits)
    return nx.random.categorical(key, logits, axis="vocab").astype(jnp.int32)


# --- generation -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PaddedHeads:
    """Pad the heads of a cache between two steps, so that they divide over the devices.

    A result with an uneven axis would be replicated, which takes an all-gather of the cache in every
    step. Padding takes no communication, except where a device has no head: then one head moves.
    """

    heads: int
    devices: int

    @property
    def spare(self) -> int:
        """The number of heads to add."""
        return -self.heads % self.devices

    def store(self, cache: Any) -> Any:
        """Replace the axis `kv_heads` by `stored_heads`."""
        width = {"kv_heads": (0, self.spare)}
        return self.change(cache, "kv_heads", lambda x: nx.pad(x, width, out_axis="stored_heads"))

    def load(self, cache: Any) -> Any:
        """Replace the axis `stored_heads` by `kv_heads`."""
        index, names = {"stored_heads": slice(self.heads)}, {"stored_heads": "kv_heads"}
        return self.change(cache, "stored_heads", lambda x: nx.slice(x, index, out_axis=names))

    def change(self, cache: Any, axis: str, change: Callable[[Any], Any]) -> Any:
        """Change the arrays with the axis, if there are heads to add."""
        if not self.spare:
            return cache
        return jax.tree.map(
            lambda x: change(x) if axis in x.named_shape else x,
            cache,
            is_leaf=lambda x: isinstance(x, nx.NamedArray),
        )


class Generator:
    """Two compiled programs: one reads the prompts, the other adds a token to every row.

    Args:
      module: a module of this folder, such as `llama`.
      config: its configuration.
      capacity: the largest number of tokens in a row, with its prompt.
      axis_resources: the layout.
      mesh: the mesh of the layout.
      **options: those of `sample`.
    """

    def __init__(
        self,
        module: Any,
        config: Any,
        capacity: int,
        axis_resources: Mapping[str, Any],
        mesh: Any = None,
        **options: Any,
    ):
        choose = functools.partial(sample, **options)
        place = axis_resources.get("kv_heads")
        padded = PaddedHeads(config.sizes()["kv_heads"], mesh.shape[place] if place else 1)

        def prefill(params: Any, tokens: Any, lengths: Any, key: Any) -> Any:
            cache = module.init_cache(config, tokens.named_shape["batch"], capacity)
            logits, cache = module.forward(params, tokens, config, cache=cache, lengths=lengths)
            return choose(logits, key), padded.store(cache)

        def step(params: Any, cache: Any, token: Any, key: Any) -> Any:
            tokens = nx.named(nx.expand_dims(token, 0), ["pos"])
            logits, cache = module.forward(params, tokens, config, cache=padded.load(cache))
            return choose(logits, key), padded.store(cache)

        empty = jax.eval_shape(lambda: module.init_cache(config, 1, capacity))
        arrays = jax.tree.leaves(empty, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))
        is_attention = any("cache" in array.named_shape for array in arrays)  # else a recurrence
        axis_sizes = {"cache": capacity} if is_attention else {}
        names = {*config.sizes(), "batch", *axis_sizes}
        resources = {name: entry for name, entry in axis_resources.items() if name in names}
        if padded.spare:
            resources["stored_heads"] = place
        mapped = {"axis_resources": resources, "mesh": mesh, "axis_sizes": axis_sizes}
        self.prefill = nx.xmap(prefill, **mapped)
        self.step = nx.xmap(step, donate_argnums=(1,), **mapped)  # updates the cache in place
        self.capacity = capacity

    def __call__(
        self, params: Any, prompts: Sequence[Sequence[int]], new: int, key: jax.Array
    ) -> np.ndarray:
        """Return `new` tokens for each prompt."""
        lengths = np.array([len(prompt) for prompt in prompts], np.int32)
        if lengths.max() + new > self.capacity:
            raise ValueError(
                f"the longest prompt has {lengths.max()} tokens; with {new} more they exceed the"
                f" capacity {self.capacity}. Make the generator with a larger capacity."
            )
        rows = np.zeros((len(prompts), lengths.max()), np.int32)
        for row, prompt in zip(rows, prompts, strict=True):
            row[: len(prompt)] = prompt
        tokens, lengths = nx.named((rows, lengths), (["batch", "pos"], ["batch"]))
        token, cache = self.prefill(params, tokens, lengths, jax.random.fold_in(key, 0))
        found = [token]
        for i in range(1, new):
            token, cache = self.step(params, cache, token, jax.random.fold_in(key, i))
            found.append(token)
        return np.stack([np.asarray(nx.positional(token, ["batch"])) for token in found], 1)


def layout(title: str, axis_types: Any = None) -> tuple[Any, dict[str, Any]]:
    """Return the mesh and `axis_resources` of a layout."""
    axes, resources = LAYOUTS[title]
    return common.make_mesh(axes, axis_types), resources


def main(argv: list[str] | None = None) -> list[str]:
    """Print the continuations of prompts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--model", choices=["llama", "mixtral", "gemma", "mamba"], default="llama")
    add("--weights", help="a folder with config.json and *.safetensors, instead of --model")
    add("--layout", choices=LAYOUTS, default="batch+heads", help="(%(default)s)")
    add("--prompt", action="append", help="a prompt; may be repeated")
    add("--new", type=int, default=40, help="tokens to add (%(default)s)")
    add("--temperature", type=float, default=0.0, help="0: the most likely token (%(default)s)")
    add("--top-k", type=int, default=0, help="draw from so many tokens; 0: all")
    add("--top-p", type=float, default=1.0, help="draw from this probability (%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    options = parser.parse_args(argv)
    module, config, tokenizer = train.read_model(options)
    mesh, resources = layout(options.layout)
    params = train.load(module, config, options.weights, resources, mesh, jax.random.key(0))
    prompts = options.prompt or ["def main(", "import ", "class Reader:\n    "]
    encoded = [data.encode(prompt.encode(), tokenizer, config.vocab) for prompt in prompts]
    generator = Generator(
        module, config, max(map(len, encoded)) + options.new, resources, mesh,
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p,
    )  # fmt: skip
    key = jax.random.key(options.seed)
    generator(params, encoded, min(options.new, 3), key)  # compile
    began = time.perf_counter()
    tokens = generator(params, encoded, options.new, key)
    seconds = time.perf_counter() - began
    texts = [data.decode(row, tokenizer) for row in tokens]
    for prompt, text in zip(prompts, texts, strict=True):
        print(f"{prompt}{text}\n---")
    print(f"{tokens.size / seconds:.0f} tokens/s under {options.layout!r}: {resources}")
    return texts


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    main()
