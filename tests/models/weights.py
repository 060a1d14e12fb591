"""The weights of the tiny models: made from their keys, so that PyTorch and the tests have the same without a file.

`tools/golden.py` runs in an environment without JAX, so this module imports NumPy only.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np


def make(key: str, shape: tuple[int, ...], factors: Mapping[str, float] = {}) -> np.ndarray:
    """Return the tensor of a state dict: random numbers that depend on the key and the shape alone.

    They are multiplied by the factor whose text the key contains.
    """
    factor = next((factor for text, factor in factors.items() if text in key), None)
    if factor is not None:
        return np.float32(factor) * make(key, shape)
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    if key.endswith("A_log"):  # Mamba: decay rates from 1 to 4
        return np.log(rng.uniform(1, 4, shape)).astype(np.float32)
    values = rng.normal(size=shape)
    is_scale = "norm" in key.lower() and key.endswith("weight") and len(shape) == 1  # no layer within a norm, as in DiT
    if is_scale or key.endswith(".D"):
        return (1 + 0.2 * values).astype(np.float32)
    if len(shape) < 2:
        return (0.2 * values).astype(np.float32)
    if ".experts." in key and len(shape) == 3:  # GPT-OSS: experts, inputs, outputs
        return (values / math.sqrt(shape[1])).astype(np.float32)
    return (values / math.sqrt(math.prod(shape[1:]))).astype(np.float32)
