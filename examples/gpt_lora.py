"""Pretrain a small GPT on the standard library's sources, then train low-rank adapters (LoRA) on uppercase text, and sample.

    python examples/gpt_lora.py

LoRA (`nx.interop.lora`) adds two thin matrices to every adapted matrix. They share the axis `rank`.
The other parameters are frozen. The adapters are trained under several layouts. With tensor
parallelism, the rank is replicated, and heads and hidden units are sharded. With FSDP, the
parameters are stored in shards. The samples are the same under all layouts. LoRA is Hu et al.,
"LoRA: low-rank adaptation of large language models", 2021.
"""

from __future__ import annotations

import pathlib
import sysconfig
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax
from gallery import (
    Run,
    check,
    draw_curves,
    options,
    run_all,
    save,
    train,
)  # isort: skip - sets the number of devices
from matplotlib.figure import Figure

import namedax as nx
from namedax.interop import lora

SIZES = {
    "vocab": 128,
    "embed": 64,
    "stored": 64,
    "head": 4,
    "key": 16,
    "hidden": 256,
    "pos": 48,
    "layer": 2,
}
BATCH, PRETRAINING, RANK = 32, 150, 4
SPREAD = {"head": "model", "hidden": "model"}
ASSIGNMENTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "one device": ({}, {}),
    "data parallel": ({"data": 8}, {"batch": "data"}),
    "tensor parallel": ({"model": 4}, SPREAD),
    "both": ({"data": 2, "model": 4}, {"batch": "data", **SPREAD}),
    "parameters in parts": ({"data": 4}, {"batch": "data", "stored": "data"}),
}
# The matrices of a layer: input axes and output axes. `stored` is the storage name of `embed`.
MATRICES = {
    "query": (("stored",), ("head", "key")),
    "keys": (("stored",), ("head", "key")),
    "values": (("stored",), ("head", "key")),
    "out": (("head", "key"), ("stored",)),
    "up": (("stored",), ("hidden",)),
    "down": (("hidden",), ("stored",)),
}
Params = dict[str, Any]


def normal(key: Any, *names: str, scale: float = 1.0) -> Any:
    """Random numbers along named axes."""
    return scale * nx.random.normal(key, named_shape={name: SIZES[name] for name in names})


def fan(names: tuple[str, ...]) -> float:
    """One over the root of the number of terms in a product."""
    return float(np.prod([SIZES[name] for name in names])) ** -0.5


def initial() -> Params:
    """The parameters of the model; layers are stacked along a named axis."""
    keys = iter(jax.random.split(jax.random.key(0), 9))
    layers = {
        name: normal(next(keys), "layer", *a, *b, scale=fan(a)) for name, (a, b) in MATRICES.items()
    }
    return {
        "words": normal(next(keys), "vocab", "stored", scale=0.5),
        "positions": normal(next(keys), "pos", "stored", scale=0.5),
        "layers": layers,
    }


def adapters(params: Params) -> dict[str, lora.Adapter]:
    """Two thin matrices for each matrix of a layer; the second is zero, so that at first nothing changes."""
    targets = {f"layers/{name}": inputs for name, (inputs, _) in MATRICES.items()}
    return lora.init(params, jax.random.key(1), targets, rank=RANK, batch="layer")


def read(w: Any) -> Any:
    """Rename `stored` to `embed`, which gathers a sharded matrix, and the matrices of its adapter."""

    def one(w: Any) -> Any:
        return nx.rename(w, {"stored": "embed"}) if "stored" in w.named_shape else w

    return jax.tree.map(one, w, is_leaf=lambda w: isinstance(w, nx.NamedArray))


def product(x: Any, p: Params, name: str) -> Any:
    """The product with a matrix, and with its adapter if it has one."""
    names = tuple("embed" if n == "stored" else n for n in MATRICES[name][0])
    return lora.dot(x, read(p[name]), names)


def layer(x: Any, p: Params) -> Any:
    """Attention and a feed-forward network."""
    h = nx.nn.rms_norm(x, "embed")
    query, key, value = (product(h, p, name) for name in ("query", "keys", "values"))
    seen = nx.nn.dot_product_attention(
        query, key, nx.rename(value, {"key": "feature"}), axis="pos", features="key", is_causal=True
    )
    x = x + product(nx.rename(seen, {"feature": "key"}), p, "out")
    return x + product(nx.nn.gelu(product(nx.nn.rms_norm(x, "embed"), p, "up")), p, "down")


def logits(p: Params, tokens: Any) -> Any:
    """The logits of the next token."""
    words = read(p["words"])
    x = nx.take(words, tokens, "vocab") + read(p["positions"])
    x = nx.fold(layer, x, p["layers"], axis="layer")
    return nx.dot(nx.nn.rms_norm(x, "embed"), words, "embed")


def loss(p: Params, tokens: Any, following: Any) -> Any:
    """The mean cross-entropy, in nats per character."""
    return nx.mean(
        nx.nn.softmax_cross_entropy(logits(p, tokens), following, "vocab"), ("batch", "pos")
    )


def adapted_loss(thin: Any, p: Params, tokens: Any, following: Any) -> Any:
    """The loss with adapters next to the matrices."""
    return loss(lora.attach(p, thin), tokens, following)


def write(p: Params, thin: Any, prompt: Any, key: Any) -> Any:
    """Sample a continuation of a prompt, one character at a time."""
    p = lora.merge(p, thin)

    def one(i: Any, tokens: Any) -> Any:
        scores = logits(p, tokens)["pos", i - 1]
        return tokens.at["pos", i].set(
            nx.random.categorical(jax.random.fold_in(key, i), 1.5 * scores, "vocab")
        )

    return nx.fori_loop(6, SIZES["pos"], one, prompt)


def corpus() -> np.ndarray:
    """The standard library's sources as characters below 128."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    return (
        np.frombuffer(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py"))), np.uint8)
        % 128
    )


def batches(text: np.ndarray, count: int, seed: int) -> list[tuple[Any, Any]]:
    """Sequences of the text, and the next characters."""
    starts = np.random.default_rng(seed).integers(0, len(text) - SIZES["pos"] - 1, (count, BATCH))
    rows = text[starts[..., None] + np.arange(SIZES["pos"] + 1)].astype(np.int32)
    return [
        (nx.named(r[:, :-1], ["batch", "pos"]), nx.named(r[:, 1:], ["batch", "pos"])) for r in rows
    ]


def shouting(text: np.ndarray) -> np.ndarray:
    """The same in capital letters."""
    return np.where((text >= ord("a")) & (text <= ord("z")), text - 32, text)


def readable(tokens: Any) -> str:
    """Characters as text, on one line."""
    return "".join(chr(int(t)) if int(t) >= 32 else " " for t in nx.positional(tokens, ["pos"]))


def main() -> None:
    """Pretrain the model, train the adapters under every layout, compare, sample and draw."""
    chosen = options(__doc__, "gpt_lora", steps=60)
    text, optimizer = corpus(), optax.adam(4e-3)

    def step(state: Any, tokens: Any, following: Any) -> Any:
        p, moments = state
        value, gradient = jax.value_and_grad(loss)(p, tokens, following)
        updates, moments = optimizer.update(gradient, moments)
        return (optax.apply_updates(p, updates), moments), value

    start, pretraining = initial(), batches(text, max(PRETRAINING * chosen.steps // 60, 2), 0)
    base, _ = train(step, (start, optimizer.init(start)), pretraining).result
    count = sum(w.size for w in jax.tree.leaves(adapters(base)))
    print(
        f"The model has learned the sources of the standard library. Now {count:,} numbers learn"
        " uppercase text:\n"
    )
    prompt = nx.named(
        np.resize(np.frombuffer(b"def __", np.uint8), SIZES["pos"]).astype(np.int32), ["pos"]
    )
    written: dict[str, str] = {
        "before": readable(jax.jit(lambda p: write(p, {}, prompt, jax.random.key(3)))(base))
    }

    def one(resources: Mapping[str, Any], mesh: Any) -> Run:
        gradient = nx.xmap(jax.value_and_grad(adapted_loss), axis_resources=resources, mesh=mesh)

        def adapt(state: Any, tokens: Any, following: Any) -> Any:
            thin, moments = state
            value, g = gradient(thin, base, tokens, following)
            updates, moments = optimizer.update(g, moments)
            return (optax.apply_updates(thin, updates), moments), value

        thin = adapters(base)
        run = train(adapt, (thin, optimizer.init(thin)), batches(shouting(text), chosen.steps, 1))
        sample = nx.xmap(
            write,
            axis_resources={name: axes for name, axes in resources.items() if name != "batch"},
            mesh=mesh,
        )
        written[str(resources)] = readable(sample(base, run.result[0], prompt, jax.random.key(3)))
        return run

    runs = run_all(ASSIGNMENTS, one)
    check(runs, 1e-3)
    assert len(set(written.values()) - {written["before"]}) == 1, written
    after = written[str({})]
    print(f"before: {written['before']}\nafter:  {after}")
    figure = Figure(figsize=(6, 4))
    ax = figure.subplots()
    draw_curves(ax, runs, "loss of shouted text")
    ax.text(
        0.02,
        -0.3,
        f"before: {written['before']}\nafter:   {after}",
        transform=ax.transAxes,
        family="monospace",
        fontsize=8,
    )
    save(figure, chosen.out)


if __name__ == "__main__":
    main()
