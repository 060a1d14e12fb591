"""A report of a state dict: where each tensor goes, and the names of its axes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from namedax.core.array import make
from namedax.core.display import type_text
from namedax.core.names import DType
from namedax.interop.entries import (
    NumbersByLabel,
    Sizes,
    Spec,
    Tied,
    parse_spec,
    parse_tied,
)
from namedax.interop.key_texts import collapsed
from namedax.interop.quantization import QuantizationConfig, dequantized, parse_quantization
from namedax.interop.safetensors import TensorFiles
from namedax.interop.specs import Plan, make_plans
from namedax.interop.state_dicts import ignored_patterns
from namedax.interop.tensors import header_of
from namedax.messages.call_errors import checks_signature

__all__ = ["StateDictReport", "StateDictRow", "state_dict_report"]


@dataclasses.dataclass(frozen=True)
class StateDictRow:
    """One entry of a spec with its tensors.

    Attributes:
      key: the key, with ranges for the numbers of stacked tensors.
      tensor: the type of each tensor, and whether it is stored quantized.
      axes: the axes of each tensor, with the sizes of their labels.
      place: the place in the tree.
      type: the type of the named array.
      tied: the keys of tied tensors that are read in place of `key`.
    """

    key: str
    tensor: str
    axes: str
    place: str
    type: str
    tied: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class StateDictReport:
    """A report of a state dict, as text by `str`.

    Attributes:
      rows: one row for each entry of the spec.
      copies: keys of tied tensors that the spec lacks, with the keys to which they are tied.
      ignored: keys that are left over.
    """

    rows: tuple[StateDictRow, ...]
    copies: Mapping[str, str]
    ignored: tuple[str, ...]

    def __str__(self) -> str:
        """Return two lines for each row: the tensor, and the named array."""
        lines = []
        for row in self.rows:
            tied = f", tied to {', '.join(row.tied)}" if row.tied else ""
            lines.append(f"{row.key}  {row.tensor}  {row.axes}".rstrip() + tied)
            lines.append(f"    -> {row.place}  {row.type}")
        lines += [f"{key}, tied to {source}" for key, source in self.copies.items()]
        lines += [f"{key}, ignored" for key in self.ignored]
        return "\n".join(lines)


@checks_signature
def state_dict_report(
    state_or_paths: Mapping[str, Any] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    spec: Spec,
    *,
    sizes: Sizes | None = None,
    numbers: NumbersByLabel | None = None,
    tied: Tied | None = None,
    ignore: str | Sequence[str] = (),
    dtype: DType | None = None,
    quantization: QuantizationConfig | None = None,
) -> StateDictReport:
    """Report the place and the axes of each tensor of a state dict.

    Shapes cannot show a wrong order, for example of heads and their elements, or of query heads and
    groups. Compare the report with the code of the model. It reads no values.

    Args:
      state_or_paths: a state dict as in `from_state_dict`, or paths as in `load_safetensors`.
      spec: a dict from key patterns to pairs `(place, pattern)`, as in `from_state_dict`.
      sizes: sizes by label or by axis name, as in `from_state_dict`. Default: none.
      numbers: the numbers of labels in keys, as in `from_state_dict`. Default: none.
      tied: a dict from keys to the keys of equal tensors, as in `from_state_dict`. Default: none.
      ignore: patterns of keys that may be left over. Default: none.
      dtype: the dtype of floating-point tensors. Default: the stored one.
      quantization: the method of quantized tensors, as in `from_state_dict`. Default: none.

    Returns:
      A report with one row for each entry of `spec`. `str(report)` is its text.

    Raises:
      CheckpointError: as in `load_safetensors`.
      RearrangeError: a pattern is malformed. The message has a caret under the error.
      ArgumentError: a key pattern, a place, `numbers`, `tied`, `dtype` or `quantization` is
        malformed.
      ArgumentTypeError: an argument or a tensor has an invalid type.
      ImportError: the tensors are in files, and safetensors is not installed.

    >>> import numpy as np, namedax as nx
    >>> state = {f"layers.{i}.q.weight": np.ones((6, 5), np.float32) for i in range(2)}
    >>> spec = {"layers.{layers}.q.weight": ("query", "(heads key) e -> {layers, e, heads, key}")}
    >>> print(nx.interop.state_dict_report(state, spec, sizes={"heads": 3}))
    layers.{0-1}.q.weight  f32[6,5]  (heads:3 key:2) e:5
        -> query  f32[]{layers:2, e:5, heads:3, key:2}
    """
    op = "state_dict_report"
    entries, ties = parse_spec(spec, numbers, op), parse_tied(tied, op)
    patterns = ignored_patterns(ignore, op)
    if isinstance(state_or_paths, Mapping):
        headers = {key: header_of(key, one, op) for key, one in state_or_paths.items()}
        where = "the state dict"
    else:
        headers, where = TensorFiles(state_or_paths, op).headers, "the files"
    tensors = dequantized(headers, parse_quantization(quantization, op), patterns)
    matched = make_plans(
        tensors.headers,
        entries,
        op,
        sizes=sizes,
        tied=ties,
        ignore=patterns,
        dtype=dtype,
        stored_problems=tensors.problems,
        where=where,
    )
    rows = []
    for plan in matched.plans:
        is_quantized = any(key in tensors.sources for key in plan.keys())
        rows.append(_row(plan, ", quantized" if is_quantized else ""))
    return StateDictReport(tuple(rows), matched.copies, tuple(collapsed(matched.ignored)))


def _row(plan: Plan, suffix: str) -> StateDictRow:
    entry = plan.entry
    axes = []
    for term in entry.left:
        texts = [f"{label}:{plan.sizes[label]}" for label in term.axes] or ["1"]
        if entry.part is not None and entry.part.label in term.axes:
            texts[term.axes.index(entry.part.label)] = f"{entry.part.label}={entry.part.name}"
        axes.append(texts[0] if len(texts) == 1 else f"({' '.join(texts)})")
    data = jax.ShapeDtypeStruct(plan.shape, plan.dtype)
    named = any(dim is not None for dim in entry.dims)
    return StateDictRow(
        plan.key_text,
        plan.header.text + suffix,
        " ".join(axes),
        entry.place_text,
        type_text(make(data, entry.dims) if named else data),
        tuple(collapsed(dict.fromkeys(plan.tied.values()))),
    )
