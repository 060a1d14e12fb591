"""`rope`: rotary position embeddings along a named axis of features.

Two features form a pair, which is rotated by an angle in proportion to the position. The frequency
of the rotation decreases from pair to pair. So the product of a query and a key depends on the
difference of their positions.

If the axis of the features is not sharded, or each pair is within one block, nothing is sent.
Otherwise each device receives the other features of its pairs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import dims_of
from namedax.core.display import type_text
from namedax.core.element_types import common_type
from namedax.core.padded_sharding import Uneven, plain
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    did_you_mean,
    format_value,
)
from namedax.ops.operands.broadcasting import align_ranks, make_result
from namedax.ops.operands.one_axis import Along, along, run
from namedax.ops.operands.operation import operation
from namedax.resources import communication as comm
from namedax.resources.row_moves import along_dim

__all__ = ["FUNCTIONS", "rope"]

_OP = "rope"
_PAIRINGS = ("halves", "interleaved")
_COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
#: The required and the optional entries of each type of scaling.
_ENTRIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": ((), ()),
    "linear": (("factor",), ()),
    "llama3": (
        ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
        (),
    ),
    "yarn": (
        ("factor", "original_max_position_embeddings"),
        ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"),
    ),
}

_Items = tuple[tuple[str, Any], ...]


@operation()
def rope(
    x: ArrayLike,
    positions: ArrayLike,
    axis: Hashable,
    *,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    pairing: Literal["halves", "interleaved"] = "halves",
    size: int | None = None,
) -> AnyArray:
    """Rotate pairs of features by angles in proportion to the position (RoPE).

    Pair `i` of `size / 2` pairs is rotated by `position * base**(-2 * i / size)`. Apply it to the
    queries and to the keys.

    Args:
      x: a named array of floating-point numbers with `axis`, such as queries or keys.
      positions: integers, a scalar or an array whose axes align by name with `x`: `nx.arange(axis=
        "pos")`, or `r.positions` of an `nx.Ragged`. Its axes that `x` lacks become axes of the
        result.
      axis: the axis name of the features of one head.
      base: the base of the frequencies, by default 10000.0 (`rope_theta` in configurations).
      scaling: a mapping with the entries of `rope_scaling` or `rope_parameters` in a `config.json`
        of Hugging Face, by default `None`. Its `rope_type` (or `type`) is `"default"`, `"linear"`
        (`factor`), `"llama3"` (`factor`, `low_freq_factor`, `high_freq_factor`,
        `original_max_position_embeddings`), or `"yarn"` (`factor`,
        `original_max_position_embeddings`, and optionally `beta_fast` = 32, `beta_slow` = 1,
        `attention_factor`, `mscale`, `mscale_all_dim`, `truncate` = true). If it has `rope_theta`
        or `partial_rotary_factor`, they must agree with `base` and `size`.
      pairing: `"halves"` (default) pairs feature `i` with feature `i + size / 2`, as `rotate_half`
        in Hugging Face's models (Llama, Gemma, GPT-NeoX). `"interleaved"` pairs features `2 * i`
        and `2 * i + 1`, as RoFormer, GPT-J and Llama's own checkpoints.
      size: the number of features to rotate, from the first one on; by default all. The others are
        unchanged.

    Returns:
      An array with the axes of `x` and of `positions`, and the dtype of `x`. Angles and rotations
      are computed in float32 (or float64, if `x` has it).

    Communication: none, unless `axis` is sharded. Then one collective-permute or all-to-all sends
    the features whose pairs are on other devices, at most a block; with `"interleaved"` and an even
    number of features per device none.

    Sources: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023.

    Raises:
      AxisNotFoundError: `x` lacks the axis.
      AxisNameError: `positions` has the axis.
      AxisSizeError: `size` is not an even number from 2 to the size of the axis.
      ArgumentTypeError: `positions` does not contain integers, or `x` does not contain
        floating-point numbers.
      ArgumentError: `scaling` has an unknown type, or an unknown, missing or invalid entry.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((3, 4)), ["pos", "key"])
    >>> rotated = nx.nn.rope(x, nx.arange(3, axis="pos"), "key")
    >>> [round(float(n), 3) for n in rotated["pos", 1].data]  # cos 1 - sin 1, ...
    [-0.301, 0.99, 1.382, 1.01]
    """
    if pairing not in _PAIRINGS:
        raise ArgumentError(
            f"{_OP}: pairing={format_value(pairing)} is unknown. Pass 'halves' (feature i with"
            " i + size / 2) or 'interleaved' (2 * i with 2 * i + 1)."
        )
    if not jnp.issubdtype(jnp.result_type(x), jnp.floating):
        raise ArgumentTypeError(
            f"{_OP}: x must contain floating-point numbers, got {type_text(x)}. Convert it with"
            " x.astype(jnp.float32)."
        )
    if not jnp.issubdtype(jnp.result_type(positions), jnp.integer):
        raise ArgumentTypeError(
            f"{_OP}: positions must contain integers, got {type_text(positions)}. Pass"
            " nx.arange(axis='pos') or another array of token positions."
        )
    if axis is not None and axis in dims_of(positions):
        raise AxisNameError(
            f"{_OP}: positions, {type_text(positions)}, has the axis {axis!r} of the features."
            " Rename one of the two axes."
        )
    base = _number("base", base)
    static = (base, _checked_scaling(scaling, base), pairing, size)
    return run(_OP, _rotate, axis, static, x, positions)


def _rotate(
    op: str,
    axis: Hashable,
    base: float,
    scaling: _Items,
    pairing: str,
    size: int | None,
    x: ArrayLike,
    positions: ArrayLike,
) -> AnyArray:
    plan = along(op, x, axis, supports_padding=True)
    size = _checked_size(plan, size, dict(scaling))
    frequencies, factor = _frequencies(size, base, scaling)
    (data, position), dims, _ = align_ranks(op, x, positions)
    dim = dims.index(axis)
    wide = common_type(data.dtype, jnp.float32)
    position = jnp.asarray(position).astype(wide)

    def turns(of_features: jax.typing.ArrayLike) -> tuple[jax.Array, jax.Array]:
        """Return cosines and sines of the angles, scaled, with frequencies along `dim`."""
        angles = position * along_dim(jnp.asarray(of_features, wide), dim, data.ndim)
        return jnp.cos(angles) * factor, jnp.sin(angles) * factor

    if not plan.old:
        return make_result(_of_pairs(data, dim, size, pairing, turns(frequencies)), dims)
    frequency, partner, sign = _of_features(plan.size, size, frequencies, pairing)
    block = data.shape[dim]
    if pairing == "interleaved" and block % 2 == 0 and not isinstance(plan.old, Uneven):
        swapped = jnp.flip(data.reshape(*data.shape[:dim], -1, 2, *data.shape[dim + 1 :]), dim + 1)
        other = swapped.reshape(data.shape)
    else:
        moved = plan.remap(None, partner, 0, lambda value: jnp.take(value, partner, plan.dim))
        other = align_ranks(op, moved, positions)[0][0]
    index = jnp.minimum(
        comm.block_index(plain(plan.old)) * block + jnp.arange(block), plan.size - 1
    )
    cosine, sine = turns(jnp.asarray(frequency)[index])
    signs = along_dim(jnp.asarray(sign, wide)[index], dim, data.ndim)
    turned = (data * cosine + other * (sine * signs)).astype(data.dtype)
    return make_result(jnp.where(signs == 0, data, turned), dims)


def _of_pairs(
    data: jax.Array,
    dim: int,
    size: int,
    pairing: str,
    turns: tuple[jax.Array, jax.Array],
) -> jax.Array:
    """Rotate the first `size` features of data in which dimension `dim` is not sharded."""
    cosine, sine = turns
    chosen = lax.slice_in_dim(data, 0, size, axis=dim)
    if pairing == "halves":
        first, second = jnp.split(chosen, 2, dim)
    else:
        pairs = chosen.reshape(*data.shape[:dim], size // 2, 2, *data.shape[dim + 1 :])
        first, second = (lax.index_in_dim(pairs, i, dim + 1, keepdims=False) for i in (0, 1))
    turned = [
        (first * cosine - second * sine).astype(data.dtype),
        (second * cosine + first * sine).astype(data.dtype),
    ]
    if pairing == "interleaved":
        joined = jnp.stack(turned, dim + 1)
        shape = joined.shape
        turned = [joined.reshape(*shape[:dim], size, *shape[dim + 2 :])]
    rest = lax.slice_in_dim(data, size, None, axis=dim)
    if rest.shape[dim]:
        shape = turned[0].shape
        rest = jnp.broadcast_to(rest, (*shape[:dim], rest.shape[dim], *shape[dim + 1 :]))
        turned.append(rest)
    return jnp.concatenate(turned, dim) if len(turned) > 1 else turned[0]


def _of_features(
    total: int, size: int, frequencies: np.ndarray, pairing: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the frequency, the partner, and the sign of the partner, of every feature.

    Features from `size` on have the sign 0.
    """
    feature = np.arange(size)
    if pairing == "halves":
        partner, is_first = (feature + size // 2) % size, feature < size // 2
        frequency = np.tile(frequencies, 2)
    else:
        partner, is_first = feature ^ 1, feature % 2 == 0
        frequency = np.repeat(frequencies, 2)
    rest = total - size
    return (
        np.pad(frequency, (0, rest)),
        np.concatenate([partner, np.arange(size, total)]),
        np.pad(np.where(is_first, -1, 1), (0, rest)),
    )


# --- frequencies ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _frequencies(size: int, base: float, scaling: _Items) -> tuple[np.ndarray, float]:
    """Return the angle per position of every pair, and the factor of cosines and sines."""
    given = dict(scaling)
    kind = given.get("rope_type", "default")
    plain_frequencies = base ** -(np.arange(0, size, 2) / size)
    if kind == "linear":
        return plain_frequencies / given["factor"], 1.0
    if kind == "llama3":
        return _llama3(plain_frequencies, given), 1.0
    if kind == "yarn":
        return _yarn(plain_frequencies, size, base, given)
    return plain_frequencies, 1.0


def _llama3(frequencies: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
    """Divide low frequencies by the factor, and interpolate between these and high frequencies.

    Source: Grattafiori et al., "The Llama 3 herd of models", 2024, and its published code.
    """
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    rotations = given["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    keep: np.ndarray = np.clip((rotations - low) / (high - low), 0, 1)
    return frequencies * (keep + (1 - keep) / given["factor"])


def _yarn(
    frequencies: np.ndarray, size: int, base: float, given: Mapping[str, Any]
) -> tuple[np.ndarray, float]:
    """Interpolate the frequencies of pairs that turn rarely, and scale the scores.

    Source: Peng et al., "YaRN", 2023, section 3.
    """
    factor, length = given["factor"], given["original_max_position_embeddings"]

    def pair(rotations: float) -> float:
        """Return the (fractional) pair that makes this number of rotations in the old length."""
        return size * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair(given.get("beta_fast") or 32), pair(given.get("beta_slow") or 1)
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    high += 0.001 if low == high else 0
    interpolated = np.clip((np.arange(size // 2) - low) / (high - low), 0, 1)

    def temperature(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    attention = given.get("attention_factor")
    if attention is None:
        scale, all_scale = given.get("mscale"), given.get("mscale_all_dim")
        attention = temperature(1)
        if scale and all_scale:
            attention = temperature(scale) / temperature(all_scale)
    return frequencies * (1 - interpolated + interpolated / factor), float(attention)


# --- checks ---------------------------------------------------------------------------------------


def _number(what: str, value: object) -> float:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not is_number or not 0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise ArgumentError(
            f"{_OP}: {what} must be a positive number, got {format_value(value)}. The default of"
            " base is 10000.0; configurations call it rope_theta."
            if what == "base"
            else f"{_OP}: {what} must be a positive number, got {format_value(value)}. Pass the"
            " entries of rope_scaling as config.json has them."
        )
    return float(value)  # type: ignore[arg-type]


def _checked_size(plan: Along, size: int | None, scaling: Mapping[str, Any]) -> int:
    """Return the number of features to rotate.

    Raises:
      AxisSizeError: it is not even, or larger than the axis.
      ArgumentError: `scaling` has another one.
    """
    wanted = plan.size if size is None else size
    is_integer = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
    if not is_integer or wanted % 2 or not 2 <= wanted <= plan.size:
        what = f"axis {plan.name!r} has size" if size is None else "size is"
        raise AxisSizeError(
            f"{_OP}: {what} {format_value(wanted)}, but pairs of features need an even number from"
            f" 2 to {plan.size}, the size of {plan.name!r}. Pass size=, the number of features to"
            " rotate."
        )
    share = scaling.get("partial_rotary_factor")
    if share is not None and int(plan.size * share) != wanted:
        raise ArgumentError(
            f"{_OP}: scaling has partial_rotary_factor={format_value(share)}, but"
            f" {wanted} of {plan.size} features {plan.name!r} are rotated. Pass"
            f" size={int(plan.size * share)}."
        )
    return int(wanted)


def _checked_scaling(scaling: Mapping[str, Any] | None, base: float) -> _Items:
    """Return the entries of `scaling`, sorted, with the type as `rope_type`.

    Raises:
      ArgumentTypeError: it is not a mapping.
      ArgumentError: its type or an entry is unknown, or an entry is missing or invalid.
    """
    if scaling is None:
        return ()
    if not isinstance(scaling, Mapping):
        raise ArgumentTypeError(
            f"{_OP}: scaling must be a mapping, got {format_value(scaling)}. Pass the entry"
            " rope_scaling or rope_parameters of config.json."
        )
    kinds = {scaling[key] for key in ("rope_type", "type") if key in scaling}
    kind = next(iter(kinds), None)
    if len(kinds) != 1 or kind not in _ENTRIES:
        given = format_value(kind) if len(kinds) == 1 else format_value(sorted(map(str, kinds)))
        fact = f"has the type {given}" if kinds else "has no entry 'rope_type'"
        raise ArgumentError(
            f"{_OP}: scaling {fact}. Pass one of {', '.join(map(repr, _ENTRIES))}; other types"
            " need frequencies that depend on the length of the input."
        )
    required, optional = _ENTRIES[str(kind)]
    missing = [entry for entry in required if scaling.get(entry) is None]
    if missing:
        raise ArgumentError(
            f"{_OP}: scaling of type {kind!r} lacks {', '.join(map(repr, missing))}. Pass"
            f" {', '.join(map(repr, required))}."
        )
    unknown = [entry for entry in scaling if entry not in (*_COMMON, *required, *optional)]
    if unknown:
        known = (*required, *optional)
        raise ArgumentError(
            f"{_OP}: scaling of type {kind!r} has the unknown entry"
            f" {format_value(unknown[0])}.{did_you_mean(unknown[0], known)} Its entries are"
            f" {', '.join(map(repr, ('rope_type', *known)))}."
        )
    for entry, value in scaling.items():
        if entry == "truncate" and not isinstance(value, (bool, type(None))):
            raise ArgumentError(
                f"{_OP}: scaling['truncate'] must be True or False, got {format_value(value)}."
            )
        if entry not in ("rope_type", "type", "truncate") and value is not None:
            _number(f"scaling[{entry!r}]", value)
    theta = scaling.get("rope_theta", base)
    if theta is not None and float(theta) != base:
        raise ArgumentError(
            f"{_OP}: scaling has rope_theta={format_value(theta)}, but base is {base}. Pass"
            f" base={format_value(theta)}."
        )
    if kind == "llama3" and not scaling["low_freq_factor"] < scaling["high_freq_factor"]:
        raise ArgumentError(
            f"{_OP}: scaling has low_freq_factor={format_value(scaling['low_freq_factor'])} and"
            f" high_freq_factor={format_value(scaling['high_freq_factor'])}. The first"
            " one must be less than the second."
        )
    entries = {key: value for key, value in scaling.items() if key != "type" and value is not None}
    return tuple(sorted((entries | {"rope_type": kind}).items()))


FUNCTIONS: dict[str, Callable[..., AnyArray]] = {"rope": rope}
