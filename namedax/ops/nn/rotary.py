"""`rope`: rotary position embeddings along a named axis of features.

Two features form a pair, which is rotated by an angle in proportion to the position. The frequency
of the rotation decreases from pair to pair. So the product of a query and a key depends on the
difference of their positions.

If the axis of the features is not sharded, or each pair is within one block, nothing is sent.
Otherwise each device receives the other features of its pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
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
    format_value,
    raise_not_found,
)
from namedax.ops.indexing.getitem import getitem
from namedax.ops.nn.rotary_scaling import (
    Items,
    Sections,
    checked_number,
    checked_scaling,
    checked_sections,
    frequencies,
    needs_length,
    rope_scaling,
)
from namedax.ops.operands.broadcasting import align_ranks, make_result
from namedax.ops.operands.one_axis import Along, along, run
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import names_of
from namedax.ops.reduction.extrema import max as max_over
from namedax.resources import communication as comm
from namedax.resources.row_moves import along_dim

__all__ = ["FUNCTIONS", "rope"]

_OP = "rope"
_PAIRINGS = ("halves", "interleaved")
#: Cosines and sines.
Turns = tuple[jax.Array, jax.Array]


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
    sections: Mapping[Hashable, Sequence[int]] | None = None,
    sections_interleaved: bool = False,
    length: ArrayLike | None = None,
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
        of Hugging Face, by default `None`; `nx.nn.rope_scaling` reads it from a file. Its
        `rope_type` (or `type`) is one of:

        - `"default"`, or `"mrope"` (`mrope_section`);
        - `"linear"` (`factor`);
        - `"proportional"` (optionally `factor` = 1): `partial_rotary_factor` is then the share of
          pairs with a frequency, among all features;
        - `"dynamic"` (`factor`, `original_max_position_embeddings`): the base grows with `length`;
        - `"llama3"` (`factor`, `low_freq_factor`, `high_freq_factor`,
          `original_max_position_embeddings`);
        - `"yarn"` (`factor`, `original_max_position_embeddings`, and optionally `beta_fast` = 32,
          `beta_slow` = 1, `attention_factor`, `mscale`, `mscale_all_dim`, `truncate` = true);
        - `"longrope"` (`short_factor`, `long_factor`, `original_max_position_embeddings`, and
          `factor` or `attention_factor`): a divisor for every pair, by `length`.

        If it has `rope_theta`, `partial_rotary_factor`, `mrope_section` or `mrope_interleaved`,
        they must agree with `base`, `size`, `sections` and `sections_interleaved`.
      pairing: `"halves"` (default) pairs feature `i` with feature `i + size / 2`, as `rotate_half`
        in Hugging Face's models (Llama, Gemma, GPT-NeoX). `"interleaved"` pairs features `2 * i`
        and `2 * i + 1`, as RoFormer, GPT-J and Llama's own checkpoints.
      size: the number of features to rotate, from the first one on; by default the share
        `partial_rotary_factor` of `scaling`, or all. The others are unchanged.
      sections: for positions with several components, such as time, height and width: the axis name
        of the components, with the number of pairs that each one rotates, `{"component": [16, 24,
        24]}` (`mrope_section`). `positions` has this axis. By default `None`.
      sections_interleaved: if `False` (default), consecutive pairs form a section, as in Qwen2-VL.
        If `True`, the components alternate, and the first one has the rest, as in Qwen3-VL.
      length: an integer, or integers whose axes align with `x`: the length of the sequences, for
        `"dynamic"` and `"longrope"`. By default one more than the largest of all positions. Other
        types do not depend on it. Rotate all keys of a sequence for one length; if they are in a
        cache, pass its final length.

    Returns:
      An array with the axes of `x` and of `positions` (except the components), and the dtype of
      `x`. Angles and rotations are computed in float32 (or float64, if `x` has it).

    Communication: none, unless `axis` is sharded. Then one collective-permute or all-to-all sends
    the features whose pairs are on other devices, at most a block; with `"interleaved"` and an even
    number of features per device none. With `"dynamic"` or `"longrope"` and no `length`, an
    all-reduce of one number, if an axis of `positions` is sharded.

    Sources: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023; Ding et al., "LongRoPE", 2024;
    Wang et al., "Qwen2-VL", 2024.

    Raises:
      AxisNotFoundError: `x` lacks the axis, or `positions` the axis of the components.
      AxisNameError: `positions` or `length` has the axis, or `x` the axis of the components.
      AxisSizeError: `size` is not an even number from 2 to the size of the axis, or the sections
        are not those of the components or have another number of pairs.
      ArgumentTypeError: `positions` or `length` does not contain integers, or `x` does not contain
        floating-point numbers.
      ArgumentError: `scaling` has an unknown type, or an unknown, missing or invalid entry, or
        entries that do not agree with the arguments; or `sections` is no list of positive integers.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((3, 4)), ["pos", "key"])
    >>> rotated = nx.nn.rope(x, nx.arange(3, axis="pos"), "key")
    >>> [round(float(n), 3) for n in rotated["pos", 1].data]  # cos 1 - sin 1, ...
    [-0.301, 0.99, 1.382, 1.01]
    >>> grid = nx.named(jnp.array([[0, 0, 1], [0, 1, 0]]), ["component", "pos"])  # of pixels
    >>> nx.nn.rope(x, grid, "key", sections={"component": [1, 1]}).dims
    ('pos', 'key')
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
    _check_integers(
        "positions", positions, axis, "Pass nx.arange(axis='pos') or another array of token"
    )
    base = checked_number(_OP, "base", base)
    items = checked_scaling(_OP, scaling, base)
    axis_of_components, counts = _checked_components(sections, positions, x)
    chosen = checked_sections(_OP, counts, sections_interleaved, items)
    operands: list[ArrayLike] = [positions]
    if chosen is not None:
        operands = [getitem(positions, {axis_of_components: i}) for i in range(len(chosen[0]))]
    has_length = needs_length(items)
    if has_length:
        if length is None:
            length = max_over(positions, axis=..., initial=-1) + 1
        _check_integers("length", length, axis, "Pass the number of")
        operands.append(length)
    static = (base, items, pairing, size, chosen, has_length)
    return run(_OP, _rotate, axis, static, x, *operands)


def _rotate(
    op: str,
    axis: Hashable,
    base: float,
    scaling: Items,
    pairing: str,
    size: int | None,
    sections: Sections | None,
    has_length: bool,
    x: ArrayLike,
    *operands: ArrayLike,
) -> AnyArray:
    plan = along(op, x, axis, supports_padding=True)
    size = _checked_size(plan, size, dict(scaling))
    if sections is not None and 2 * sum(sections[0]) != size:
        raise AxisSizeError(
            f"{op}: sections {list(sections[0])} have {sum(sections[0])} pairs, but {size // 2}"
            f" pairs of {size} features {axis!r} are rotated. Make these equal."
        )
    turning = frequencies(op, size, base, scaling, sections)
    (data, *aligned), dims, _ = align_ranks(op, x, *operands)
    dim = dims.index(axis)
    wide = common_type(data.dtype, jnp.float32)
    positions = [jnp.asarray(array).astype(wide) for array in aligned]
    length = positions.pop() if has_length else None

    def turns(of_features: Callable[[np.ndarray], jax.Array | np.ndarray]) -> Turns:
        """Return cosines and sines of the angles, scaled, with frequencies along `dim`."""

        def put(row: np.ndarray) -> jax.Array:
            return along_dim(jnp.asarray(of_features(row), wide), dim, data.ndim)

        angles = turning.angles(positions, length, put)
        return jnp.cos(angles) * turning.factor, jnp.sin(angles) * turning.factor

    if not plan.old:
        return make_result(_of_pairs(data, dim, size, pairing, turns(lambda row: row)), dims)
    partner, sign = _partners(plan.size, size, pairing)
    block = data.shape[dim]
    if pairing == "interleaved" and block % 2 == 0 and not isinstance(plan.old, Uneven):
        swapped = jnp.flip(data.reshape(*data.shape[:dim], -1, 2, *data.shape[dim + 1 :]), dim + 1)
        other = swapped.reshape(data.shape)
    else:
        moved = plan.remap(None, partner, 0, lambda value: jnp.take(value, partner, plan.dim))
        other = align_ranks(op, moved, *operands)[0][0]
    index = jnp.minimum(
        comm.block_index(plain(plan.old)) * block + jnp.arange(block), plan.size - 1
    )

    def of_features(row: np.ndarray) -> jax.Array:
        every = np.tile(row, 2) if pairing == "halves" else np.repeat(row, 2)
        return jnp.asarray(np.pad(every, (0, plan.size - len(every))))[index]

    cosine, sine = turns(of_features)
    signs = along_dim(jnp.asarray(sign, wide)[index], dim, data.ndim)
    turned = (data * cosine + other * (sine * signs)).astype(data.dtype)
    return make_result(jnp.where(signs == 0, data, turned), dims)


def _of_pairs(
    data: jax.Array,
    dim: int,
    size: int,
    pairing: str,
    turns: Turns,
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


def _partners(total: int, size: int, pairing: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the partner, and the sign of the partner, of every feature.

    Features from `size` on have the sign 0.
    """
    feature = np.arange(size)
    if pairing == "halves":
        partner, is_first = (feature + size // 2) % size, feature < size // 2
    else:
        partner, is_first = feature ^ 1, feature % 2 == 0
    return (
        np.concatenate([partner, np.arange(size, total)]),
        np.pad(np.where(is_first, -1, 1), (0, total - size)),
    )


# --- checks ---------------------------------------------------------------------------------------


def _check_integers(what: str, array: ArrayLike, axis: Hashable, remedy: str) -> None:
    """Raise if an array does not contain integers, or has the axis of the features."""
    if not jnp.issubdtype(jnp.result_type(array), jnp.integer):
        raise ArgumentTypeError(
            f"{_OP}: {what} must contain integers, got {type_text(array)}. {remedy} positions."
        )
    if axis is not None and axis in dims_of(array):
        raise AxisNameError(
            f"{_OP}: {what}, {type_text(array)}, has the axis {axis!r} of the features."
            " Rename one of the two axes."
        )


def _checked_components(
    sections: Mapping[Hashable, Sequence[int]] | None, positions: ArrayLike, x: ArrayLike
) -> tuple[Hashable, Sequence[int] | None]:
    """Return the axis of the components of positions, and the numbers of pairs; `None` for none."""
    if sections is None:
        return None, None
    if not isinstance(sections, Mapping) or len(sections) != 1:
        raise ArgumentError(
            f"{_OP}: sections={format_value(sections)} must be one axis name of positions with the"
            " number of pairs of each component, such as {'component': [16, 24, 24]}."
        )
    ((name, counts),) = sections.items()
    if name is None or name not in dims_of(positions):
        names = names_of(dims_of(positions))
        extra = "It has the components of positions that sections= names."
        raise_not_found(_OP, name, f"positions, {type_text(positions)}", names, extra)
    if name in dims_of(x):
        raise AxisNameError(
            f"{_OP}: x, {type_text(x)}, has the axis {name!r} of the components of positions."
            " Rename one of the two axes."
        )
    size = positions.named_shape[name]  # type: ignore[union-attr]
    if isinstance(counts, (list, tuple)) and len(counts) != size:
        raise AxisSizeError(
            f"{_OP}: axis {name!r} of positions has size {size}, but sections="
            f"{format_value(dict(sections))} has {len(counts)} components. Make these equal."
        )
    return name, counts


def _checked_size(plan: Along, size: int | None, scaling: Mapping[str, Any]) -> int:
    """Return the number of features to rotate.

    Raises:
      AxisSizeError: it is not even, or larger than the axis.
      ArgumentError: `scaling` has another one.
    """
    share = scaling.get("partial_rotary_factor")
    if scaling.get("rope_type") == "proportional":
        share = None  # among the pairs of all features
    wanted = size
    if wanted is None:
        wanted = plan.size if share is None else int(plan.size * share)
    is_integer = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
    if not is_integer or wanted % 2 or not 2 <= wanted <= plan.size:
        what = f"axis {plan.name!r} has size" if size is None else "size is"
        if size is None and share is not None:
            what = f"with partial_rotary_factor={format_value(share)} of scaling, size is"
        raise AxisSizeError(
            f"{_OP}: {what} {format_value(wanted)}, but pairs of features need an even number from"
            f" 2 to {plan.size}, the size of {plan.name!r}. Pass size=, the number of features to"
            " rotate."
        )
    if share is not None and int(plan.size * share) != wanted:
        raise ArgumentError(
            f"{_OP}: scaling has partial_rotary_factor={format_value(share)}, but"
            f" {wanted} of {plan.size} features {plan.name!r} are rotated. Pass"
            f" size={int(plan.size * share)}."
        )
    return int(wanted)


FUNCTIONS: dict[str, Callable[..., Any]] = {"rope": rope, "rope_scaling": rope_scaling}
