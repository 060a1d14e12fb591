"""Training data that every machine has: the sources of Python's standard library.

A batch is a function of the step alone, and a process reads only its own rows, so a training is the
same under every layout and on any number of processes.
"""

from __future__ import annotations

import functools
import pathlib
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import namedax as nx

Arrays = dict[str, np.ndarray]
AXES = {
    "features": ["batch", "mel", "frame"],
    "images": ["batch", "channel", "row", "column"],
    "inputs": ["batch", "source"],
    "labels": ["batch"],
    "lengths": ["batch", "doc"],
    "mask": ["batch", "pos"],
    "noise": ["batch", "channel", "row", "column"],
    "targets": ["batch", "pos"],
    "times": ["batch"],
    "tokens": ["batch", "pos"],
}


def encode(text: bytes, tokenizer: pathlib.Path | None, vocab: int) -> np.ndarray:
    """Return the tokens of a text: bytes, or those of a `tokenizer.json` (needs `tokenizers`)."""
    if tokenizer is not None and tokenizer.exists():
        from tokenizers import Tokenizer  # only here: bytes need no library

        ids = Tokenizer.from_file(str(tokenizer)).encode(text.decode(errors="replace")).ids
        return np.array(ids, np.int32)
    return np.frombuffer(text, np.uint8).astype(np.int32) % vocab


def decode(tokens: np.ndarray, tokenizer: pathlib.Path | None) -> str:
    """Return the text of tokens."""
    if tokenizer is not None and tokenizer.exists():
        from tokenizers import Tokenizer  # only here: bytes need no library

        return str(Tokenizer.from_file(str(tokenizer)).decode([int(token) for token in tokens]))
    return bytes(int(token) % 256 for token in tokens).decode(errors="replace")


@functools.cache
def corpus() -> bytes:
    """Return the sources of the standard library."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    return b"\n".join(path.read_bytes() for path in sorted(folder.glob("*.py")))


def windows(text: np.ndarray, step: int, rows: Sequence[int], length: int) -> np.ndarray:
    """Return a part of the text for each row of the batch of a step."""
    starts = [np.random.default_rng((step, row)).integers(len(text) - length) for row in rows]
    return np.stack([text[start : start + length] for start in starts])


def text_rows(text: np.ndarray, step: int, rows: Sequence[int], length: int) -> Arrays:
    """Return tokens and the next tokens."""
    found = windows(text, step, rows, length + 1)
    return {"tokens": found[:, :-1], "targets": found[:, 1:]}


def packed_rows(text: np.ndarray, step: int, rows: Sequence[int], length: int) -> Arrays:
    """Return rows with four documents of different lengths; attention stays within them."""
    found = text_rows(text, step, rows, length)
    cuts = [np.sort(np.random.default_rng((step, row, 1)).integers(1, length, 3)) for row in rows]
    lengths = np.stack([np.diff([0, *cut, length]) for cut in cuts])
    return found | {"lengths": lengths.astype(np.int32)}


def continuations(text: np.ndarray, step: int, rows: Sequence[int], length: int) -> Arrays:
    """Return a part of the text for the encoder, and its continuation for the decoder."""
    found = windows(text, step, rows, 2 * length)
    rest = found[:, length - 1 :]
    return {"inputs": found[:, :length], "tokens": rest[:, :-1], "targets": rest[:, 1:]}


def tones(
    text: np.ndarray, step: int, rows: Sequence[int], length: int, *, mel: int, frames: int
) -> Arrays:
    """Return a spectrogram with a tone for every character, and the characters."""
    found = text_rows(text, step, rows, length)
    pitch = np.repeat(found["targets"], -(-frames // length), 1)[:, :frames]
    rng = np.random.default_rng((step, 2))
    noise = rng.normal(size=(max(rows) + 1, mel, frames))[list(rows)]
    phase = np.arange(mel)[:, None] * (1 + pitch[:, None, :]) / 16
    return found | {"features": (np.cos(phase) + 0.1 * noise).astype(np.float32)}


def digits(step: int, rows: Sequence[int], *, size: int, channels: int) -> Arrays:
    """Return handwritten digits of scikit-learn, enlarged to `size`, with their labels."""
    from sklearn.datasets import load_digits  # only here: text needs no library

    found = load_digits()
    picked = [np.random.default_rng((step, row)).integers(len(found.target)) for row in rows]
    images = np.kron(found.images[picked] / 8 - 1, np.ones((1, -(-size // 8), -(-size // 8))))
    images = np.repeat(images[:, None, :size, :size], channels, 1)
    return {"images": images.astype(np.float32), "labels": found.target[picked].astype(np.int32)}


def noisy(found: Arrays, step: int, rows: Sequence[int], *, times: int, absent: int) -> Arrays:
    """Add noise and times to images; a tenth of the labels becomes `absent`."""
    each = [np.random.default_rng((step, row, 3)) for row in rows]
    noise = np.stack([rng.normal(size=found["images"].shape[1:]) for rng in each])
    drawn = np.array([rng.integers(times) for rng in each], np.int32)
    dropped = np.array([rng.random() < 0.1 for rng in each])
    labels = np.where(dropped, absent, found["labels"]).astype(np.int32)
    return found | {"noise": noise.astype(np.float32), "times": drawn, "labels": labels}


def illustrated(
    text: np.ndarray, step: int, rows: Sequence[int], length: int, *, config: Any
) -> Arrays:
    """Return digits and texts, of which the first tokens are those of the image."""
    cell = config.merge * config.patch
    size = cell * -(-8 // cell)
    found = text_rows(text, step, rows, length)
    images = digits(step, rows, size=size, channels=config.channels)["images"]
    is_text = np.broadcast_to(np.arange(length) >= (size // cell) ** 2, found["tokens"].shape)
    tokens = np.where(is_text, found["tokens"], config.image_token).astype(np.int32)
    return found | {"tokens": tokens, "images": images, "mask": is_text}


def place(
    make: Callable[[Sequence[int]], Arrays],
    size: int,
    axis_resources: Mapping[str, Any],
    mesh: Any,
) -> dict[str, Any]:
    """Return a batch as named arrays: each process makes the rows that its devices hold."""
    if mesh is None:
        arrays = make(range(size))
        return {name: nx.named(array, AXES[name]) for name, array in arrays.items()}
    arrays = make([int(row) for row in nx.process_entries("batch", size, axis_resources, mesh)])
    axes = {name: AXES[name] for name in arrays}
    return nx.from_process_local(arrays, axes, axis_resources, mesh, global_sizes={"batch": size})
