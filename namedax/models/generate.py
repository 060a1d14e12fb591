"""Continue prompts with a model, under any layout: prefill, then one token after the other.

    python -m namedax.models generate llama --layout heads --prompt "def main(" --prompt "import "
    python -m namedax.models generate FOLDER --temperature 0.8 --top-p 0.9

The cache of keys and values is sharded by name: over heads, over the batch, or over its own
positions (the axis `cache`), which suits long contexts. Prompts may have different lengths: they
are padded on the right, and every row has its own position. The tokens do not depend on the layout,
whether they are the most likely ones or drawn.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from namedax.errors import ArgumentError
from namedax.models import common, data
from namedax.models.architectures import open_model, parameters
from namedax.models.arguments import add_layout, add_model, read_layout

SUMMARY = "Continue prompts with a model, under any layout."
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

    A result with an uneven axis would be replicated, by an all-gather of the cache in every call of
    a program. Padding takes no communication, except that one head moves to a device without heads.
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


def _arrays(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))


class Generator:
    """Two compiled programs: one reads prompts, the other adds tokens to all rows in a loop.

    The tokens of a row depend on its prompt, its number and the key, but not on other rows.

    Args:
      module: a module of this package, such as `llama`.
      config: its configuration.
      capacity: the largest number of tokens in a row, with its prompt.
      axis_resources: the layout.
      mesh: the mesh of the layout.
      stop: tokens after which a row ends.
      **options: those of `sample`.
    """

    def __init__(
        self,
        module: Any,
        config: Any,
        capacity: int,
        axis_resources: Mapping[str, Any],
        mesh: Any = None,
        *,
        stop: Collection[int] = (),
        **options: Any,
    ):
        self.module, self.config, self.capacity = module, config, capacity
        self.stop, self.options = tuple(stop), options
        place = axis_resources.get("kv_heads")
        types = jax.eval_shape(lambda: module.init_cache(config, 1, capacity))
        has_heads = any("kv_heads" in array.named_shape for array in _arrays(types))
        devices = mesh.shape[place] if place and has_heads else 1
        self.padded = PaddedHeads(config.sizes()["kv_heads"], devices)
        # Otherwise it is a recurrence.
        is_attention = any("cache" in array.named_shape for array in _arrays(types))
        axis_sizes = {"cache": capacity} if is_attention else {}
        names = {*config.sizes(), "batch", *axis_sizes}
        resources = {name: entry for name, entry in axis_resources.items() if name in names}
        if self.padded.spare:
            resources["stored_heads"] = place
        mapped = {"axis_resources": resources, "mesh": mesh, "axis_sizes": axis_sizes}
        self.prefill = nx.xmap(self._prefill, **mapped)

        @functools.cache
        def extend(size: int, until_one_ends: bool) -> Any:
            function = functools.partial(self._extend, size, until_one_ends)
            return nx.xmap(function, donate_argnums=(1,), **mapped)  # the cache in place

        self.extend = extend
        own = {name: entry for name, entry in resources.items() if name != "batch"}
        self.prefill_alone = nx.xmap(self._prefill, **{**mapped, "axis_resources": own})
        types = jax.eval_shape(lambda: self._empty(1))
        cached = {name for array in _arrays(types) for name in array.named_shape}
        own = {name: entry for name, entry in resources.items() if name in cached}
        of_cache = {**mapped, "axis_resources": own}
        self.enter = nx.xmap(_enter, donate_argnums=(0,), **of_cache)

        @functools.cache
        def empty(rows: int) -> Any:
            sizes = {**axis_sizes, "batch": rows}
            return nx.xmap(
                functools.partial(self._empty, rows), **{**of_cache, "axis_sizes": sizes}
            )

        self.empty = empty

    def _prefill(self, params: Any, tokens: Any, lengths: Any, keys: Any) -> Any:
        """Return the first token of each row, and the cache."""
        cache = self.module.init_cache(self.config, tokens.named_shape["batch"], self.capacity)
        logits, cache = self.module.forward(
            params, tokens, self.config, cache=cache, lengths=lengths
        )
        key = nx.random.fold_in(keys, 0)
        return sample(logits, key, **self.options), self.padded.store(cache)

    def _empty(self, rows: int) -> Any:
        return self.padded.store(self.module.init_cache(self.config, rows, self.capacity))

    def _extend(
        self, size: int, until_one_ends: bool, params: Any, cache: Any, token: Any, rows: Rows
    ) -> Any:
        """Add at most `size` tokens to every row that has not ended.

        Returns:
          The tokens with the axis `new`, their number, and the next `cache`, `token` and `rows`.
        """
        found = nx.zeros(named_shape={**token.named_shape, "new": size}, dtype=token.dtype)

        find = nx.min if until_one_ends else nx.max
        limit = nx.minimum(size, find(rows.left, ...))  # once, so that a step sends nothing for it

        def goes_on(carry: Any) -> Any:
            count, _, _, _, (_, left, _) = carry
            if not self.stop:
                return count < limit
            of_rows = nx.all if until_one_ends else nx.any
            return (count < limit) & of_rows(left > 0, ...)

        def add(carry: Any) -> Any:
            count, found, cache, token, (keys, left, added) = carry
            tokens = nx.named(nx.expand_dims(token, 0), ["pos"])
            logits, after = self.module.forward(params, tokens, self.config, cache=cache)
            chosen = sample(logits, nx.random.fold_in(keys, added), **self.options)
            goes = (left > 0).astype(left.dtype)
            token = nx.where(left > 0, chosen, token)
            ended = _is_any(token, self.stop)
            found = found.at["new", count].set(token)
            rows = Rows(keys, nx.where(ended, 0, left - goes), added + goes)
            return count + 1, found, _without_ended(after, cache, left), token, rows

        carry = (jnp.int32(0), found, self.padded.load(cache), token, rows)
        count, found, cache, token, rows = nx.while_loop(goes_on, add, carry)
        return found, count, self.padded.store(cache), token, rows

    def stream(
        self,
        params: Any,
        prompts: Sequence[Sequence[int]],
        new: int,
        key: jax.Array,
        chunk: int = 16,
    ) -> Iterator[np.ndarray]:
        """Yield the tokens of all rows, `chunk` at a time; an ended row repeats its last one.

        Raises:
          ArgumentError: a prompt is empty, or the capacity is too small.
        """
        lengths = self.check(prompts, new)
        tokens = np.zeros((len(prompts), max(lengths)), np.int32)
        for row, prompt in zip(tokens, prompts, strict=True):
            row[: len(prompt)] = prompt
        keys = nx.random.fold_in(key, nx.arange(len(prompts), axis="batch"))
        named = nx.named((tokens, np.array(lengths, np.int32)), (["batch", "pos"], ["batch"]))
        token, cache = self.prefill(params, *named, keys)
        first = np.asarray(nx.positional(token, ["batch"]))
        yield first[:, None]
        left = np.where(np.isin(first, self.stop), 0, new - 1).astype(np.int32)
        rows = Rows(keys, *nx.named((left, np.ones_like(left)), (["batch"], ["batch"])))
        done = 1
        while done < new:
            extend = self.extend(chunk, False)  # the last chunk ends early: no row has tokens left
            found, count, cache, token, rows = extend(params, cache, token, rows)
            columns = np.array(nx.positional(found, ["batch", "new"]))
            columns[:, int(count) :] = np.asarray(nx.positional(token, ["batch"]))[:, None]
            yield columns[:, : new - done]
            done += chunk

    def __call__(
        self, params: Any, prompts: Sequence[Sequence[int]], new: int, key: jax.Array
    ) -> np.ndarray:
        """Return `new` tokens for each prompt; a row that has ended repeats its last one."""
        return np.concatenate([*self.stream(params, prompts, new, key, max(new - 1, 1))], 1)

    def check(self, prompts: Sequence[Sequence[int]], new: int) -> list[int]:
        """Return the lengths of prompts, if `new` tokens more fit into a row."""
        lengths = [len(prompt) for prompt in prompts]
        if not all(lengths):
            raise ArgumentError("models.generate: a prompt has no token. Pass at least one token.")
        if max(lengths) + new > self.capacity:
            raise ArgumentError(
                f"models.generate: the longest prompt has {max(lengths)} tokens; with {new} more"
                f" they exceed the capacity {self.capacity}. Make the generator with a larger"
                " capacity."
            )
        return lengths


class Rows(NamedTuple):
    """The state of each row of the loop.

    It is its random key, the number of tokens that it may still add, and of those it has added.
    """

    keys: nx.NamedArray
    left: nx.NamedArray
    added: nx.NamedArray


def _is_any(token: nx.NamedArray, tokens: Collection[int]) -> nx.NamedArray:
    found = token < 0
    for each in tokens:
        found = found | (token == each)
    return found


def _without_ended(after: Any, before: Any, left: nx.NamedArray) -> Any:
    """Return the cache after a step, in which a row that had ended keeps its length."""

    def keep(after: Any, before: Any) -> Any:
        if not isinstance(after, nx.nn.KVCache):
            return after
        return dataclasses.replace(after, lengths=nx.where(left > 0, after.lengths, before.lengths))

    kinds = (nx.nn.KVCache, nx.NamedArray)
    return jax.tree.map(keep, after, before, is_leaf=lambda leaf: isinstance(leaf, kinds))


# --- continuous batching --------------------------------------------------------------------------


def _enter(state: tuple[Any, Any, Rows], own: tuple[Any, Any, Rows], row: Any) -> Any:
    """Put a request that is alone in its batch, named `request`, into a row of all of them."""

    def put(array: Any, new: Any) -> Any:
        return array.at["batch", row].set(new["request", 0])

    named = functools.partial(jax.tree.map, is_leaf=lambda x: isinstance(x, nx.NamedArray))
    return named(put, state, own)


class Batcher:
    """Requests of different lengths enter and leave the rows of one cache (continuous batching).

    The loop over all rows ends as soon as one of them has ended and a request waits. The prompt of
    that request is then read alone, and its cache replaces the row. The tokens of a request are
    those that a `Generator` returns for the row with the request's number: they do not depend on
    the other requests.

    Args:
      generator: the programs and the layout.
      rows: the number of rows, which the cache of the decoding loop has.
      chunk: the number of tokens after which new requests are looked for at the latest.
    """

    def __init__(self, generator: Generator, rows: int, chunk: int = 16):
        self.generator, self.rows, self.chunk = generator, rows, chunk
        self.waiting: collections.deque[tuple[int, Sequence[int], int]] = collections.deque()
        self.count = 0

    def submit(self, prompt: Sequence[int], new: int) -> int:
        """Add a request for `new` tokens, and return its number.

        Raises:
          ArgumentError: the prompt is empty, or the capacity is too small.
        """
        self.generator.check([prompt], new)
        self.waiting.append((self.count, prompt, new))
        self.count += 1
        return self.count - 1

    def run(self, params: Any, key: jax.Array) -> Iterator[tuple[int, np.ndarray, bool]]:
        """Yield the number of a request, tokens that are new, and whether it has ended.

        Requests may be submitted meanwhile. The iteration ends when none is left.
        """
        generator, rows = self.generator, nx.arange(self.rows, axis="batch", dtype=jnp.int32)
        state = (
            generator.empty(self.rows)(),
            0 * rows,
            Rows(nx.random.fold_in(key, rows), 0 * rows, 0 * rows),
        )
        requests: list[int | None] = [None] * self.rows
        while self.waiting or any(request is not None for request in requests):
            for row, request in enumerate(requests):
                if request is None and self.waiting:
                    number, prompt, new = self.waiting.popleft()
                    own, token = self._read(params, prompt, new, jax.random.fold_in(key, number))
                    is_last = not int(own[2].left.data[0])
                    if not is_last:
                        state = generator.enter(state, nx.rename(own, batch="request"), row)
                        requests[row] = number
                    yield number, token, is_last
            before = _counts(state[2].added)
            extend = generator.extend(self.chunk, bool(self.waiting))
            found, _, *after = extend(params, *state)
            state = (after[0], after[1], after[2])
            counts, left = _counts(state[2].added) - before, _counts(state[2].left)
            columns = np.asarray(nx.positional(found, ["batch", "new"]))
            for row, number in enumerate(requests):
                if number is not None:
                    requests[row] = number if left[row] else None
                    yield number, columns[row, : counts[row]], not left[row]

    def _read(
        self, params: Any, prompt: Sequence[int], new: int, key: jax.Array
    ) -> tuple[tuple[Any, Any, Rows], np.ndarray]:
        """Return the state of a request after its prompt, and its first token."""
        generator = self.generator
        size = min(max(8, 2 ** (len(prompt) - 1).bit_length()), generator.capacity)
        tokens = np.zeros((1, size), np.int32)
        tokens[0, : len(prompt)] = prompt
        lengths = np.array([len(prompt)], np.int32)
        keys = nx.expand_dims(nx.asarray(key), "batch")
        named = nx.named((tokens, lengths), (["batch", "pos"], ["batch"]))
        token, cache = generator.prefill_alone(params, *named, keys)
        first = np.asarray(nx.positional(token, ["batch"]))
        left = nx.named(np.where(np.isin(first, generator.stop), 0, new - 1), ["batch"])
        left = left.astype(jnp.int32)
        return (cache, token, Rows(keys, left, nx.ones_like(left))), first


def _counts(array: nx.NamedArray) -> np.ndarray:
    return np.asarray(nx.positional(array, ["batch"]))


def layout(title: str, axis_types: Any = None) -> tuple[Any, dict[str, Any]]:
    """Return the mesh and `axis_resources` of a layout."""
    axes, resources = LAYOUTS[title]
    return common.make_mesh(axes, axis_types), resources


# --- the command ----------------------------------------------------------------------------------


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m namedax.models generate", description=SUMMARY)
    add = parser.add_argument
    add_model(add)
    add_layout(add, LAYOUTS, "batch+heads")
    add("--prompt", action="append", help="a prompt; may be repeated")
    add("--new", type=int, default=40, help="tokens to add (%(default)s)")
    add("--temperature", type=float, default=0.0, help="0: the most likely token (%(default)s)")
    add("--top-k", type=int, default=0, help="draw from this number of most likely tokens; 0: all")
    add("--top-p", type=float, default=1.0, help="draw from this probability (%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[str]:
    """Print the continuations of prompts, a single one as its tokens come."""
    options = parse(argv)
    model = open_model(options.model)
    names = {*common.axis_names(model.config), "cache"}
    mesh, resources = read_layout(options, LAYOUTS, names)
    stored = {name: entry for name, entry in resources.items() if name in model.sizes}
    params = parameters(model, stored, mesh, jax.random.key(0))
    prompts = options.prompt or ["def main(", "import ", "class Reader:\n    "]
    vocab = model.config.vocab
    encoded = [data.encode(prompt.encode(), model.tokenizer, vocab).tolist() for prompt in prompts]
    generator = Generator(
        model.module, model.config, max(map(len, encoded)) + options.new, resources, mesh,
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p,
    )  # fmt: skip
    key, chunk = jax.random.key(options.seed), 16
    for _ in generator.stream(params, encoded, min(options.new, chunk + 1), key, chunk):
        pass  # compiles
    found, shown, began = [], "", time.perf_counter()
    for columns in generator.stream(params, encoded, options.new, key, chunk):
        found.append(columns)
        tokens = np.concatenate(found, 1)
        if len(prompts) == 1:
            text = prompts[0] + data.decode(tokens[0], model.tokenizer)
            print(text[len(shown) :], end="", flush=True)
            shown = text
        elif sys.stderr.isatty():
            bar = "#" * (30 * tokens.shape[1] // options.new)
            print(f"\r[{bar:30s}] {tokens.shape[1]} tokens", end="", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    texts = [data.decode(row, model.tokenizer) for row in tokens]
    print() if len(prompts) == 1 else print(
        *(f"{prompt}{text}\n---" for prompt, text in zip(prompts, texts, strict=True)), sep="\n"
    )
    print(f"{tokens.size / seconds:.0f} tokens/s under {options.layout!r}: {resources}")
    return texts
