"""Documents of different lengths, packed or padded: the same training, and the throughput of each.

    python examples/packing.py

The same small language model is trained on the same documents in two ways. In one, every document
is a row of a padded array with a mask. In the other, `nx.Ragged` packs several documents into each
of a few buffers, and attention stays within documents. The losses per token agree to rounding. The
table has the number of computed elements, and the real tokens per second. On eight simulated
devices the documents, the buffers, or the tokens of the buffers are sharded. In the last case
documents cross devices, and attention runs in a ring.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

import namedax as nx

VOCAB, LONGEST, DOCUMENTS, PACKS, BUFFER = 32, 128, 32, 8, 160
SIZES = {"vocab": VOCAB, "embed": 64, "head": 4, "key": 16, "hidden": 256, "position": LONGEST}
PARAMETERS = {
    "table": ("vocab", "embed"),
    "positions": ("position", "embed"),
    "query": ("embed", "head", "key"),
    "keys": ("embed", "head", "key"),
    "values": ("embed", "head", "key"),
    "out": ("head", "key", "embed"),
    "up": ("embed", "hidden"),
    "down": ("hidden", "embed"),
    "logits": ("embed", "vocab"),
}
Params = dict[str, Any]


# --- the model ------------------------------------------------------------------------------------------------------------------


def initial() -> Params:
    """Small random parameters."""
    keys = jax.random.split(jax.random.key(0), len(PARAMETERS))
    scales = {"table": 0.5, "positions": 0.5}
    return {
        name: (
            scales.get(name, 0.12)
            * nx.random.normal(key, named_shape={axis: SIZES[axis] for axis in axes})
        )
        for key, (name, axes) in zip(keys, PARAMETERS.items(), strict=True)
    }


def model(p: Params, tokens: Any, positions: Any, attend: Callable[..., Any]) -> Any:
    """The logits of the next token, for every token, independent of their arrangement."""
    x = nx.take(p["table"], tokens, "vocab") + nx.take(p["positions"], positions, "position")
    normal = nx.nn.rms_norm(x, "embed")
    query, key, value = (nx.dot(normal, p[name], "embed") for name in ("query", "keys", "values"))
    x = x + nx.dot(attend(query, key, value), p["out"], ("head", "key"))
    hidden = nx.nn.gelu(nx.dot(nx.nn.rms_norm(x, "embed"), p["up"], "embed"))
    return nx.dot(
        nx.nn.rms_norm(x + nx.dot(hidden, p["down"], "hidden"), "embed"), p["logits"], "embed"
    )


def packed_loss(p: Params, tokens: nx.Ragged, following: Any) -> Any:
    """The mean loss over all tokens of packed documents: `tokens` and their next tokens."""

    def attend(query: Any, key: Any, value: Any) -> Any:
        value = nx.rename(value, key="feature")
        return nx.rename(
            tokens.attention(query, key, value, features="key", is_causal=True).values,
            feature="key",
        )

    logits = model(p, tokens.values, tokens.positions, attend)
    losses = tokens.replace(nx.nn.softmax_cross_entropy(logits, following, "vocab"))
    return nx.sum(losses.sum(), ("pack", "doc")) / nx.sum(tokens.lengths, ("pack", "doc"))


def padded_loss(p: Params, tokens: Any, following: Any, lengths: Any) -> Any:
    """The same for documents that are rows of a padded array."""

    def attend(query: Any, key: Any, value: Any) -> Any:
        value = nx.rename(value, key="feature")
        seen = nx.nn.dot_product_attention(
            query, key, value, axis="column", features="key", is_causal=True
        )
        return nx.rename(seen, feature="key")

    column = nx.arange(LONGEST, axis="column")
    logits = model(p, tokens, column, attend)
    losses = nx.where(
        column < lengths, nx.nn.softmax_cross_entropy(logits, following, "vocab"), 0.0
    )
    return nx.sum(losses, ("doc", "column")) / nx.sum(lengths, "doc")


# --- documents ------------------------------------------------------------------------------------------------------------------


def batches(steps: int) -> Iterator[list[np.ndarray]]:
    """Documents with a constant stride between tokens, which the first two tokens reveal.

    Most are short.
    """
    rng = np.random.default_rng(0)
    for _ in range(steps):
        lengths = np.clip(rng.lognormal(3.0, 0.8, DOCUMENTS).astype(int), 2, LONGEST)
        while first_fit(lengths) is None:
            lengths[lengths.argmax()] //= 2
        first, stride = rng.integers(0, VOCAB, DOCUMENTS), rng.integers(1, 8, DOCUMENTS)
        yield [
            (a + d * np.arange(n + 1)) % VOCAB
            for a, d, n in zip(first, stride, lengths, strict=True)
        ]


def first_fit(lengths: np.ndarray) -> list[list[int]] | None:
    """Assign documents to buffers: the longest first, each into the first buffer with room; None if they do not fit."""
    packs, room = [[] for _ in range(PACKS)], [BUFFER] * PACKS
    for i in np.argsort(-lengths, kind="stable"):
        pack = next((n for n in range(PACKS) if room[n] >= lengths[i]), None)
        if pack is None:
            return None
        packs[pack].append(int(i))
        room[pack] -= lengths[i]
    return packs


def as_packed(documents: list[np.ndarray]) -> tuple[Any, Any]:
    """Buffers of tokens, and the next token of each."""
    sizes = np.array([len(document) - 1 for document in documents])
    tokens, following = (np.zeros((PACKS, BUFFER), np.int32) for _ in range(2))
    lengths = np.zeros((PACKS, DOCUMENTS), np.int32)
    for pack, held in enumerate(first_fit(sizes) or []):
        begin = 0
        for n, i in enumerate(held):
            lengths[pack, n], place = sizes[i], slice(begin, begin + sizes[i])
            tokens[pack, place], following[pack, place] = documents[i][:-1], documents[i][1:]
            begin += sizes[i]
    axes = ["pack", "token"]
    packed = nx.Ragged(
        nx.named(tokens, axes), nx.named(lengths, ["pack", "doc"]), tokens="token", rows="doc"
    )
    return packed, nx.named(following, axes)


def as_padded(documents: list[np.ndarray]) -> tuple[Any, Any, Any]:
    """One zero-padded row per document, and the lengths."""
    tokens, following = (np.zeros((DOCUMENTS, LONGEST), np.int32) for _ in range(2))
    for i, document in enumerate(documents):
        tokens[i, : len(document) - 1], following[i, : len(document) - 1] = (
            document[:-1],
            document[1:],
        )
    lengths = np.array([len(document) - 1 for document in documents], np.int32)
    axes = ["doc", "column"]
    return nx.named(tokens, axes), nx.named(following, axes), nx.named(lengths, ["doc"])


# --- training -------------------------------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """An arrangement of documents, and its layout."""

    label: str
    loss: Callable[..., Any]
    arrange: Callable[[list[np.ndarray]], tuple[Any, ...]]
    resources: dict[str, str]
    entries: int


WAYS = [
    Way("padded", padded_loss, as_padded, {}, DOCUMENTS * LONGEST),
    Way("packed", packed_loss, as_packed, {}, PACKS * BUFFER),
    Way("padded, documents on 8", padded_loss, as_padded, {"doc": "x"}, DOCUMENTS * LONGEST),
    Way("packed, buffers on 8", packed_loss, as_packed, {"pack": "x"}, PACKS * BUFFER),
    Way("packed, tokens on 8", packed_loss, as_packed, {"token": "x"}, PACKS * BUFFER),
]


def train(way: Way, steps: int) -> tuple[list[float], float]:
    """The losses, and the real tokens per second, without compilation."""
    mesh = jax.make_mesh((8,), ("x",)) if way.resources else None
    loss = nx.xmap(way.loss, axis_resources=way.resources, mesh=mesh)
    optimizer = optax.adam(3e-3)

    @jax.jit
    def step(params: Params, state: Any, *batch: Any) -> tuple[Params, Any, Any]:
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    params = initial()
    state = optimizer.init(params)
    arranged = [
        (way.arrange(documents), sum(len(d) - 1 for d in documents)) for documents in batches(steps)
    ]
    jax.block_until_ready(step(params, state, *arranged[0][0]))
    losses, tokens, begin = [], 0, time.perf_counter()
    for batch, count in arranged:
        params, state, value = step(params, state, *batch)
        losses.append(float(value))
        tokens += count
    return losses, tokens / (time.perf_counter() - begin)


def main() -> None:
    """Train in every way, print the table, and stop if losses differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument(
        "--ways", type=int, nargs="+", default=range(len(WAYS)), help="indices of the ways to run"
    )
    given = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    steps, ways = given.steps, [WAYS[i] for i in given.ways]
    real = sum(len(d) - 1 for documents in batches(steps) for d in documents) / steps
    print(f"{DOCUMENTS} documents a step, {real:.0f} tokens on average\n")
    print(f"{'':24}{'elements':>9}{'real':>7}{'tokens/s':>11}{'first loss':>12}{'last loss':>11}")
    curves = []
    for way in ways:
        losses, speed = train(way, steps)
        print(
            f"{way.label:24}{way.entries:9}{real / way.entries:7.0%}{speed:11,.0f}{losses[0]:12.4f}{losses[-1]:11.4f}"
        )
        curves.append(losses)
    for way, losses in zip(ways, curves, strict=True):
        np.testing.assert_allclose(losses, curves[0], rtol=2e-2, err_msg=way.label)
    print("\nthe losses per token agree")


if __name__ == "__main__":
    main()
