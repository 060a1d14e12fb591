"""`rope_scaling` and the frequencies of rotary positions, with the scalings of published models.

A scaling divides frequencies, so that a model applies to longer sequences than those of its
training. The types and entries are those of `config.json` of Hugging Face.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.records import Record
from namedax.errors import ArgumentError, ArgumentTypeError, did_you_mean, format_value

__all__ = [
    "Frequencies",
    "Items",
    "Sections",
    "checked_number",
    "checked_scaling",
    "checked_sections",
    "frequencies",
    "needs_length",
    "rope_scaling",
]

#: The entries of a scaling, sorted, in a form that can be hashed.
Items = tuple[tuple[str, Any], ...]
#: The numbers of pairs of the components of positions, and whether they alternate.
Sections = tuple[tuple[int, ...], bool]

_ORIGINAL = "original_max_position_embeddings"
_LISTS = ("short_factor", "long_factor")
_OTHERS = ("rope_type", "type", "truncate", "mrope_section", "mrope_interleaved", *_LISTS)
_COMMON = (
    *("rope_type", "type", "rope_theta", "partial_rotary_factor"),
    *("mrope_section", "mrope_interleaved"),
)
#: The required and the optional entries of each type of scaling.
_ENTRIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": ((), ()),
    "mrope": (("mrope_section",), ()),
    "linear": (("factor",), ()),
    "proportional": ((), ("factor",)),
    "dynamic": (("factor", _ORIGINAL), ()),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL), ()),
    "yarn": (
        ("factor", _ORIGINAL),
        ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"),
    ),
    "longrope": ((*_LISTS, _ORIGINAL), ("factor", "attention_factor")),
}


def rope_scaling(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the scaling of rotary positions from a configuration of Hugging Face, and check it.

    Args:
      config: the entries of a `config.json`; of a multimodal model, those of its `text_config`. The
        scaling is the entry `rope_parameters` or `rope_scaling`. If each type of layer has its own,
        pass the configuration with one of them: `config | {"rope_parameters": one}`.

    Returns:
      The entries for `scaling=` of `nx.nn.rope`, or `None` if there are none. They include the
      entries that a file has beside them: `partial_rotary_factor`,
      `original_max_position_embeddings`, and `max_position_embeddings` as the original length of
      `"dynamic"`, or in proportion to the original length as a missing `factor` of `"yarn"` and
      `"longrope"`.

    Communication: none.

    Raises:
      ArgumentError: an entry is missing, unknown or invalid, or each type of layer has a scaling.
      ArgumentTypeError: the scaling is not a mapping.

    >>> import namedax as nx
    >>> config = {"rope_scaling": {"type": "dynamic", "factor": 2.0}}
    >>> config["max_position_embeddings"] = 4096
    >>> nx.nn.rope_scaling(config)["original_max_position_embeddings"]
    4096
    """
    op = "rope_scaling"
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            f"{op}: the scaling must be a mapping, got {format_value(given)}. Pass the entries of"
            " config.json."
        )
    nested = [key for key, value in given.items() if isinstance(value, Mapping)]
    if nested:
        raise ArgumentError(
            f"{op}: rope_parameters has one scaling for each type of layer:"
            f" {', '.join(map(repr, nested))}. Read one at a time: config | {{'rope_parameters':"
            f" config['rope_parameters'][{nested[0]!r}]}}."
        )
    scaling = dict(given)
    if (share := config.get("partial_rotary_factor")) is not None:
        scaling.setdefault("partial_rotary_factor", share)
    if not scaling:
        return None
    if not {"rope_type", "type"} & set(scaling) and not set(scaling).difference(_COMMON):
        scaling["rope_type"] = "default"
    names = [key for key in ("rope_type", "type") if key in scaling]
    if any(scaling[key] == "su" for key in names):  # the first name of LongRoPE
        scaling |= dict.fromkeys(names, "longrope")
    kind = next((scaling[key] for key in names), None)
    longest, original = config.get("max_position_embeddings"), config.get(_ORIGINAL)
    if kind == "dynamic":
        original = longest
    if kind in ("dynamic", "llama3", "yarn", "longrope") and original is not None:
        scaling[_ORIGINAL] = original
    original = scaling.get(_ORIGINAL)
    lacks_factor = kind in ("yarn", "longrope") and scaling.get("factor") is None
    if lacks_factor and longest is not None and original is not None:
        scaling["factor"] = longest / original
    theta = scaling.get("rope_theta", config.get("rope_theta"))
    checked_scaling(op, scaling, 10000.0 if theta is None else float(theta))
    return scaling


# --- frequencies ----------------------------------------------------------------------------------


class Frequencies(Record):
    """The frequencies of pairs of features.

    Attributes:
      components: the angle per position of every pair, for each component of the positions. It is 0
        for pairs that another component rotates.
      factor: the factor of cosines and sines.
      kind: the type of the scaling.
      growth: the factor of `"dynamic"`.
      original: the length up to which `components` apply, if they depend on the length.
      later: for longer sequences, the angle per position of every pair (`"longrope"`), or the
        exponents of the growth, by which it is divided (`"dynamic"`).
    """

    components: np.ndarray
    factor: float
    kind: str = "default"
    growth: float = 1.0
    original: float = 0.0
    later: np.ndarray | None = None

    def angles(
        self,
        positions: Sequence[jax.Array],
        length: jax.Array | None,
        along: Callable[[np.ndarray], jax.Array],
    ) -> jax.Array:
        """Return the angles at positions.

        Args:
          positions: each component of the positions.
          length: the length of the sequences, if the frequencies depend on it.
          along: a function that puts numbers of pairs along the dimension of the features.
        """
        rows = [along(row) for row in self.components]
        if self.later is not None:
            assert length is not None
            is_longer = length > self.original
            if self.kind == "longrope":
                later = [along(row) for row in np.where(self.components == 0, 0, self.later)]
                rows = [jnp.where(is_longer, b, a) for a, b in zip(rows, later, strict=True)]
            else:
                ratio = self.growth * (length / self.original - 1) + 1
                divisor = jnp.where(is_longer, ratio, 1) ** along(self.later)
                rows = [row / divisor for row in rows]
        terms = (position * row for position, row in zip(positions, rows, strict=True))
        return functools.reduce(jnp.add, terms)


def needs_length(scaling: Items) -> bool:
    """Return True if the frequencies depend on the length of the sequences."""
    return dict(scaling).get("rope_type") in ("dynamic", "longrope")


@functools.lru_cache(maxsize=256)
def frequencies(
    op: str, size: int, base: float, scaling: Items, sections: Sections | None
) -> Frequencies:
    """Return the frequencies of `size / 2` pairs.

    Raises:
      ArgumentError: a list of factors has another number of pairs.
    """
    given = dict(scaling)
    kind = given.get("rope_type", "default")
    plain = base ** -(np.arange(0, size, 2) / size)
    factor, later, growth = 1.0, None, 1.0
    if kind == "linear":
        plain = plain / given["factor"]
    elif kind == "proportional":
        share, count = given.get("partial_rotary_factor", 1.0), np.arange(size // 2)
        plain = np.where(count < int(share * size // 2), plain, 0) / given.get("factor", 1.0)
    elif kind == "llama3":
        plain = _llama3(plain, given)
    elif kind == "yarn":
        plain, factor = _yarn(plain, size, base, given)
    elif kind == "dynamic":
        # The base is multiplied by the ratio of lengths to the power of size / (size - 2).
        later, growth = np.arange(0, size, 2) / max(size - 2, 1), given["factor"]
    elif kind == "longrope":
        for name in _LISTS:
            if len(given[name]) != size // 2:
                raise ArgumentError(
                    f"{op}: scaling[{name!r}] has {len(given[name])} numbers, but {size // 2} pairs"
                    f" of features are rotated. Pass size={2 * len(given[name])}, the number of"
                    " features to rotate."
                )
        plain, later = (plain / np.asarray(given[name]) for name in _LISTS)
        factor = _of_longrope(given)
    components = plain[None]
    if sections is not None:
        chosen = _component_of_pair(*sections)
        components = np.where(chosen == np.arange(len(sections[0]))[:, None], plain, 0)
    return Frequencies(components, factor, kind, growth, given.get(_ORIGINAL, 0.0), later)


def _component_of_pair(counts: tuple[int, ...], is_interleaved: bool) -> np.ndarray:
    """Return the component of the positions by which each pair is rotated.

    If they are interleaved, they alternate, and the first component has the rest.
    """
    if not is_interleaved:
        return np.repeat(np.arange(len(counts)), counts)
    chosen = np.zeros(sum(counts), int)
    for component, count in enumerate(counts[1:], start=1):
        chosen[component : count * len(counts) : len(counts)] = component
    return chosen


def _llama3(plain: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
    """Divide low frequencies by the factor, and interpolate between these and high frequencies.

    Source: Grattafiori et al., "The Llama 3 herd of models", 2024, and its published code.
    """
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    rotations = given[_ORIGINAL] * plain / (2 * np.pi)
    keep: np.ndarray = np.clip((rotations - low) / (high - low), 0, 1)
    return plain * (keep + (1 - keep) / given["factor"])


def _yarn(
    plain: np.ndarray, size: int, base: float, given: Mapping[str, Any]
) -> tuple[np.ndarray, float]:
    """Interpolate the frequencies of pairs that turn rarely, and scale the scores.

    Source: Peng et al., "YaRN", 2023, section 3.
    """
    factor, length = given["factor"], given[_ORIGINAL]

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
    return plain * (1 - interpolated + interpolated / factor), float(attention)


def _of_longrope(given: Mapping[str, Any]) -> float:
    """Return the factor of cosines and sines.

    Source: Ding et al., "LongRoPE", 2024, and the published code of Phi-3.
    """
    if given.get("attention_factor") is not None:
        return float(given["attention_factor"])
    factor = given["factor"]
    return math.sqrt(1 + math.log(factor) / math.log(given[_ORIGINAL])) if factor > 1 else 1.0


# --- checks ---------------------------------------------------------------------------------------


def checked_number(op: str, what: str, value: object) -> float:
    """Return a positive number.

    Raises:
      ArgumentError: it is none.
    """
    if not _is_positive(value):
        raise ArgumentError(
            f"{op}: {what} must be a positive number, got {format_value(value)}. The default of"
            " base is 10000.0; configurations call it rope_theta."
            if what == "base"
            else f"{op}: {what} must be a positive number, got {format_value(value)}. Pass the"
            " entries of rope_scaling as config.json has them."
        )
    return float(value)  # type: ignore[arg-type]


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    return is_number and not isinstance(value, bool) and 0 < float(value) < math.inf  # type: ignore[arg-type]


def checked_scaling(op: str, scaling: Mapping[str, Any] | None, base: float) -> Items:
    """Return the entries of `scaling`, sorted, with the type as `rope_type`.

    Raises:
      ArgumentTypeError: it is not a mapping.
      ArgumentError: its type or an entry is unknown, or an entry is missing or invalid.
    """
    if scaling is None:
        return ()
    if not isinstance(scaling, Mapping):
        raise ArgumentTypeError(
            f"{op}: scaling must be a mapping, got {format_value(scaling)}. Pass the entry"
            " rope_scaling or rope_parameters of config.json."
        )
    kind = _kind(op, scaling)
    _check_entries(op, kind, scaling)
    for entry, value in scaling.items():
        _check_entry(op, entry, value)
    theta = scaling.get("rope_theta", base)
    if theta is not None and float(theta) != base:
        raise ArgumentError(
            f"{op}: scaling has rope_theta={format_value(theta)}, but base is {base}. Pass"
            f" base={format_value(theta)}."
        )
    if kind == "llama3" and not scaling["low_freq_factor"] < scaling["high_freq_factor"]:
        raise ArgumentError(
            f"{op}: scaling has low_freq_factor={format_value(scaling['low_freq_factor'])} and"
            f" high_freq_factor={format_value(scaling['high_freq_factor'])}. The first"
            " one must be less than the second."
        )
    entries = {key: value for key, value in scaling.items() if key != "type" and value is not None}
    entries |= {"rope_type": kind}
    lists = {
        key: tuple(value) for key, value in entries.items() if isinstance(value, (list, tuple))
    }
    return tuple(sorted((entries | lists).items()))


def _kind(op: str, scaling: Mapping[str, Any]) -> str:
    """Return the type of a scaling.

    Raises:
      ArgumentError: it is missing or unknown, or there are two.
    """
    kinds = {scaling[key] for key in ("rope_type", "type") if key in scaling}
    if len(kinds) == 2 and kinds <= {"default", "mrope"}:  # of Qwen2.5-VL
        kinds = {"mrope"}
    kind = next(iter(kinds), None)
    if len(kinds) != 1 or kind not in _ENTRIES:
        given = format_value(kind) if len(kinds) == 1 else format_value(sorted(map(str, kinds)))
        fact = f"has the type {given}" if kinds else "has no entry 'rope_type'"
        raise ArgumentError(f"{op}: scaling {fact}. Pass one of {', '.join(map(repr, _ENTRIES))}.")
    return str(kind)


def _check_entries(op: str, kind: str, scaling: Mapping[str, Any]) -> None:
    """Raise if an entry of a scaling is missing or unknown."""
    required, optional = _ENTRIES[kind]
    missing = [entry for entry in required if scaling.get(entry) is None]
    if kind == "longrope" and all(scaling.get(entry) is None for entry in optional):
        missing.append("factor")
    if missing:
        hint = " Files may have lengths beside the scaling: pass nx.nn.rope_scaling(config)."
        raise ArgumentError(
            f"{op}: scaling of type {kind!r} lacks {', '.join(map(repr, missing))}. Pass"
            f" {', '.join(map(repr, dict.fromkeys((*required, *missing))))}."
            f"{hint if op == 'rope' else ''}"
        )
    unknown = [entry for entry in scaling if entry not in (*_COMMON, *required, *optional)]
    if unknown:
        known = (*required, *optional)
        raise ArgumentError(
            f"{op}: scaling of type {kind!r} has the unknown entry"
            f" {format_value(unknown[0])}.{did_you_mean(unknown[0], known)} Its entries are"
            f" {', '.join(map(repr, ('rope_type', *known)))}."
        )


def _check_entry(op: str, entry: str, value: object) -> None:
    """Raise if the value of an entry of a scaling is invalid."""
    if value is None:
        return
    if entry in ("truncate", "mrope_interleaved"):
        if not isinstance(value, bool):
            raise ArgumentError(
                f"{op}: scaling[{entry!r}] must be True or False, got {format_value(value)}."
            )
    elif entry in (*_LISTS, "mrope_section"):
        if not isinstance(value, (list, tuple)) or not all(map(_is_positive, value)):
            raise ArgumentError(
                f"{op}: scaling[{entry!r}] must be a list of positive numbers, got"
                f" {format_value(value)}. Pass the entries of rope_scaling as config.json has them."
            )
    elif entry not in _OTHERS:
        checked_number(op, f"scaling[{entry!r}]", value)


def checked_sections(
    op: str, counts: object, is_interleaved: bool, scaling: Items
) -> Sections | None:
    """Return the numbers of pairs of the components of positions, and whether they alternate.

    Args:
      op: the operation.
      counts: the numbers, or `None` if positions have no components.
      is_interleaved: whether they alternate.
      scaling: the checked scaling, whose entries must agree.

    Raises:
      ArgumentError: they are no positive integers, or cannot be interleaved, or the scaling has
        other ones.
    """
    entries = dict(scaling)
    wanted, alternate = entries.get("mrope_section"), entries.get("mrope_interleaved")
    if counts is None:
        if is_interleaved:
            raise ArgumentError(
                f"{op}: sections_interleaved=True requires sections=, the numbers of pairs of each"
                " component of positions."
            )
        if wanted is not None:
            raise ArgumentError(
                f"{op}: scaling has mrope_section={list(wanted)}, but sections is None. Pass"
                f" sections={{'component': {list(wanted)}}} with the axis name of the components of"
                " positions, or leave out this entry if a position is one number."
            )
        return None
    is_list = isinstance(counts, (list, tuple)) and len(counts) > 0
    if not is_list or not all(_is_positive(n) and n == int(n) for n in counts):  # type: ignore[attr-defined]
        raise ArgumentError(
            f"{op}: sections must have a list of positive integers, the numbers of pairs of each"
            f" component of positions, got {format_value(counts)}."
        )
    found = tuple(map(int, counts))  # type: ignore[call-overload]
    if wanted is not None and tuple(wanted) != found:
        raise ArgumentError(
            f"{op}: scaling has mrope_section={list(wanted)}, but sections has {list(found)}. Pass"
            " equal ones."
        )
    if alternate is not None and alternate != is_interleaved:
        raise ArgumentError(
            f"{op}: scaling has mrope_interleaved={alternate}, but sections_interleaved is"
            f" {is_interleaved}. Pass sections_interleaved={alternate}."
        )
    if is_interleaved:
        taken = np.bincount(_component_of_pair(found, True), minlength=len(found)).tolist()
        if taken != [*found]:
            raise ArgumentError(
                f"{op}: sections with {list(found)} pairs cannot be interleaved: alternating"
                f" components have {taken} pairs. Pass numbers that are almost equal."
            )
    return found, is_interleaved
