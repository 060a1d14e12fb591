"""Adapters in the files of PEFT: `adapter_config.json` and `adapter_model.safetensors`.

The `spec` of the base model maps their keys to named axes. A weight of PyTorch is `[out, in]`. Its
entry gives the axes of `lora_A`, `[rank, in]`, and of `lora_B`, `[out, rank]`.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax

from namedax.core.array import NamedArray
from namedax.core.names import DType, Mesh
from namedax.core.records import Record
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckpointError,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.interop.adapters import Adapter, Adapters, check_adapters, check_number
from namedax.interop.entries import Entry, NumbersByLabel, Sizes, Spec, parse_spec
from namedax.interop.key_texts import collapsed
from namedax.interop.safetensors import TensorFiles, load_safetensors, save_safetensors
from namedax.messages.call_errors import checks_signature
from namedax.ops.shape.patterns import Term

__all__ = ["load", "save"]

_CONFIG, _TENSORS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX, _SUFFIX = "base_model.model.", ".weight"

# Entries of a configuration that do not change the function of adapters that are trained.
_IGNORED = frozenset(
    "auto_mapping base_model_name_or_path corda_config ensure_weight_tying ephemeral_gpu_offload"
    " eva_config inference_mode layers_pattern loftq_config lora_ga_config megatron_core"
    " peft_version qalora_group_size revision runtime_config task_type".split()
)
_READ = frozenset(
    "alpha_pattern bias exclude_modules fan_in_fan_out init_lora_weights layers_to_transform"
    " lora_alpha lora_dropout peft_type r rank_pattern target_modules use_rslora".split()
)
# Initializations that leave the weights of the base model unchanged.
_INITIALIZATIONS = (None, True, False, "gaussian", "eva", "orthogonal")


class _Config(Record):
    """A supported `adapter_config.json`."""

    rank: int
    alpha: float
    ranks: dict[str, int]
    alphas: dict[str, float]
    rank_stabilized: bool
    dropout: float
    fan_in_fan_out: bool
    required: tuple[str, ...]  # the ends of modules that have adapters

    def rank_of(self, module: str) -> int:
        return self.ranks.get(_matching(self.ranks, module), self.rank)

    def alpha_of(self, module: str) -> float:
        return self.alphas.get(_matching(self.alphas, module), self.alpha)


def _matching(patterns: Iterable[str], module: str) -> str:
    """Return the first pattern of a module, as PEFT matches them, or an empty string."""
    found = (one for one in patterns if re.match(rf"(.*\.)?({one})$", module))
    return next(found, "")


# --- reading --------------------------------------------------------------------------------------


@checks_signature
def load(
    path: str | os.PathLike[str],
    spec: Spec,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    *,
    sizes: Sizes | None = None,
    numbers: NumbersByLabel | None = None,
    ignore: str | Sequence[str] = (),
    dtype: DType | None = None,
    axis: str = "rank",
) -> dict[str, Adapter]:
    """Load the adapters that PEFT has saved, by the spec of the base model.

    Ranks and scales of single modules (`rank_pattern`, `alpha_pattern`), rank stabilization and
    `fan_in_fan_out` are supported. The layers that the spec stacks must have equal ranks and
    scales.

    A name has one size in a program. So weights with another rank than `r` of the configuration
    have the rank axis `rank_2`, for the rank 2.

    Args:
      path: the folder with `adapter_config.json` and `adapter_model.safetensors`.
      spec: the spec of the base model, as in `load_safetensors`.
      axis_resources: as in `nx.shard`. The rank axis may be in it. Default: no sharding.
      mesh: a mesh. Default: the mesh of `jax.set_mesh` if `axis_resources` is given.
      sizes: sizes by label or by axis name, as in `load_safetensors`. Default: none.
      numbers: the numbers of labels in keys, as in `load_safetensors`. Default: none.
      ignore: patterns of keys that may be left over, such as `"*.base_layer.weight"`. Default:
        none.
      dtype: the dtype of the adapters. Default: the stored one.
      axis: the name of the rank axis, by default `"rank"`.

    Returns:
      A dict from the place of each weight, such as `"layers/query"`, to its adapter.

    Raises:
      CheckpointError: a file is missing or damaged, keys are missing or left over, shapes do not
        match, the configuration has an entry that is not supported (such as DoRA, biases or
        `modules_to_save`), or stacked layers have different scales.
      ArgumentError: `axis` is an axis of a weight, or the spec mixes inputs and outputs of a
        weight.
      ArgumentTypeError: `path` or `axis` is not a string.

    >>> import jax, jax.numpy as jnp, namedax as nx, tempfile
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((3, 6, 8)), ["layers", "embed", "hidden"])}
    >>> spec = {"layers.{layers}.up.weight": ("up", "hidden embed -> {layers, embed, hidden}")}
    >>> adapters = lora.init(params, jax.random.key(0), {"up": "embed"}, rank=2, batch="layers")
    >>> folder = tempfile.mkdtemp()
    >>> lora.save(adapters, spec, folder)
    >>> lora.load(folder, spec)["up"].a.dims
    ('layers', 'embed', 'rank')
    """
    op = "lora.load"
    folder = _folder(op, path)
    config = _read_config(op, os.path.join(folder, _CONFIG))
    entries = parse_spec(spec, numbers, op)
    file = os.path.join(folder, _TENSORS)
    headers = TensorFiles(file, op).headers
    chosen = [entry for entry in entries if _is_adapted(entry, headers, config.required)]
    _check_required(op, folder, config.required, entries)
    if not chosen:
        raise CheckpointError(
            f"{op}: {file} has no adapter of a weight of spec. Its keys are"
            f" {', '.join(map(repr, collapsed(headers)[:4]))}. Pass the spec of the base model."
        )
    axes = [_axis_of(config, entry, axis) for entry in chosen]
    for each in axes:
        _check_axis(op, each, entries)
    tree = load_safetensors(
        file,
        _spec_of(op, dict(zip(chosen, axes, strict=True)), config.fan_in_fan_out),
        axis_resources,
        mesh,
        sizes=sizes,
        numbers=_numbers_of(numbers, chosen),
        ignore=ignore,
        dtype=dtype,
    )
    adapters = {}
    for entry, each in zip(chosen, axes, strict=True):
        node: Any = tree
        for part in entry.place:
            node = node[part]
        modules = [_module(entry, n) for n in itertools.product(*_numbers(entry, node["a"]))]
        alpha = _common_alpha(op, config, modules)
        adapter = Adapter(node["a"], node["b"], alpha, config.rank_stabilized, config.dropout, each)
        for module in modules:
            if config.rank_of(module) != adapter.rank:
                raise CheckpointError(
                    f"{op}: {module!r} has the rank {config.rank_of(module)} in {_CONFIG}, but"
                    f" {adapter.rank} in {_TENSORS}. Copy the files of one adapter again."
                )
        adapters[entry.place_text] = adapter
    return adapters


def _folder(op: str, path: object) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"{op}: path is {format_value(path)}, not a path. Pass the folder of the adapter."
        )
    return str(os.fspath(path))


def _read_config(op: str, path: str) -> _Config:
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
    except OSError as error:
        raise CheckpointError(
            f"{op}: {path} cannot be read: {error.strerror}. Pass the folder that PEFT has saved,"
            f" with {_CONFIG} and {_TENSORS}."
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{op}: {path} is not JSON ({error}). Copy it again.") from None
    if not isinstance(entries, dict):
        raise CheckpointError(f"{op}: {path} is not a JSON object. Copy it again.")
    _check_entries(op, path, entries)
    targets = entries.get("target_modules")
    is_partial = entries.get("exclude_modules") or entries.get("layers_to_transform") is not None
    try:
        return _Config(
            int(entries["r"]),
            check_number(op, "lora_alpha", entries["lora_alpha"]),
            dict(entries.get("rank_pattern") or {}),
            dict(entries.get("alpha_pattern") or {}),
            bool(entries.get("use_rslora")),
            float(entries.get("lora_dropout") or 0.0),
            bool(entries.get("fan_in_fan_out")),
            tuple(targets) if isinstance(targets, list) and not is_partial else (),
        )
    except KeyError as error:
        raise CheckpointError(
            f"{op}: {path} has no entry {error.args[0]!r}. Copy it again."
        ) from None


def _check_entries(op: str, path: str, entries: Mapping[str, Any]) -> None:
    """Check that a configuration has no entry that changes the function and is not supported."""

    def fail(entry: str, remedy: str) -> None:
        raise CheckpointError(
            f"{op}: {path} has {entry} = {format_value(entries.get(entry))}, which is not"
            f" supported. {remedy}"
        )

    if entries.get("peft_type") != "LORA":
        fail("peft_type", "Only adapters of the type 'LORA' can be loaded.")
    if entries.get("bias", "none") != "none":
        fail("bias", "Only adapters with bias='none' can be loaded.")
    if entries.get("init_lora_weights") not in _INITIALIZATIONS:
        fail(
            "init_lora_weights",
            "This initialization changes the weights of the base model. Convert the adapter with"
            " path_initial_model_for_weight_conversion of PEFT.",
        )
    for entry, value in entries.items():
        if entry not in _READ | _IGNORED and value not in (None, False, [], {}, ""):
            fail(entry, "Merge the adapter in PEFT (merge_and_unload), and load the result.")


def _check_axis(op: str, axis: object, entries: Sequence[Entry]) -> None:
    if not isinstance(axis, str) or not axis.isidentifier():
        raise ArgumentTypeError(
            f"{op}: axis is {format_value(axis)}, not a name for patterns. Pass axis='rank'."
        )
    taken = [entry for entry in entries if axis in entry.dims]
    if taken:
        raise ArgumentError(
            f"{op}: {taken[0].place_text!r} of spec already has the axis {axis!r}. Pass another"
            " name of the rank axis, such as axis='lora_rank'."
        )


def _axis_of(config: _Config, entry: Entry, axis: object) -> Any:
    """Return the name of the rank axis of an adapter: a name has one size in a program."""
    rank = config.rank_of(_first_module(entry))
    return axis if rank == config.rank or not isinstance(axis, str) else f"{axis}_{rank}"


def _module(entry: Entry, numbers: Sequence[int]) -> str:
    return entry.key_of(numbers).removesuffix(_SUFFIX)


def _first_module(entry: Entry) -> str:
    return _module(entry, [of.first(1)[0] for of in entry.ranges])


def _numbers(entry: Entry, array: NamedArray) -> list[tuple[int, ...]]:
    """Return the numbers of each label in the key of an array."""
    counts = [array.named_shape[_name_of(entry, label)] for label in entry.numbers]
    return [of.first(count) for of, count in zip(entry.ranges, counts, strict=True)]


def _numbers_of(numbers: NumbersByLabel | None, chosen: Sequence[Entry]) -> Any:
    """Return the numbers of the labels that the chosen entries have."""
    labels = {label for entry in chosen for label in entry.numbers}
    return {label: one for label, one in (numbers or {}).items() if label in labels} or None


def _is_matrix(entry: Entry) -> bool:
    return entry.key.endswith(_SUFFIX) and len(entry.left) == 2


def _ends_with(module: str, target: str) -> bool:
    return module == target or module.endswith(f".{target}")


def _is_adapted(entry: Entry, keys: Iterable[str], required: Sequence[str]) -> bool:
    """Return True if a file has adapters of a weight, or should have them."""
    if not _is_matrix(entry):
        return False
    if any(_ends_with(_first_module(entry), target) for target in required):
        return True
    for template in _keys(entry.template):
        regex = entry.replace(template=template).regex
        for key in keys:
            match = regex.fullmatch(key)
            if match is not None and entry.has_numbers([int(one) for one in match.groups()]):
                return True
    return False


def _check_required(
    op: str, folder: str, required: Sequence[str], entries: Sequence[Entry]
) -> None:
    """Check that each target of a configuration is a weight of the spec."""
    modules = [_first_module(entry) for entry in entries if _is_matrix(entry)]
    for target in required:
        # A target may have the number of a layer, so ranges of numbers match too.
        if not any(
            _ends_with(re.sub(r"\d+", "0", m), re.sub(r"\d+", "0", target)) for m in modules
        ):
            raise CheckpointError(
                f"{op}: target_modules of {os.path.join(folder, _CONFIG)} has {target!r}, but spec"
                f" has no matrix with the key '*{target}{_SUFFIX}'."
                f"{did_you_mean(target, [m.rpartition('.')[2] for m in modules])} Add it to spec."
            )


def _common_alpha(op: str, config: _Config, modules: Sequence[str]) -> float:
    """Return the alpha of stacked modules."""
    alphas = {module: config.alpha_of(module) for module in modules}
    first = alphas[modules[0]]
    other = next((module for module, alpha in alphas.items() if alpha != first), None)
    if other is not None:
        raise CheckpointError(
            f"{op}: alpha_pattern of {_CONFIG} gives {modules[0]!r} the alpha {first}, and"
            f" {other!r} {alphas[other]}, but spec stacks them. Write a spec with separate keys,"
            " or scale the adapter in PEFT."
        )
    return first


# --- specs of adapters ----------------------------------------------------------------------------


def _keys(key: str) -> tuple[str, str]:
    """Return the keys of the arrays of an adapter from the key of its weight."""
    module = _PREFIX + key.removesuffix(_SUFFIX)
    return f"{module}.lora_A{_SUFFIX}", f"{module}.lora_B{_SUFFIX}"


def _name_of(entry: Entry, label: Hashable) -> Hashable:
    return next(term.name for term in entry.right if term.axes == (label,))


def _spec_of(
    op: str, axes: Mapping[Entry, Any], fan_in_fan_out: bool
) -> dict[str, tuple[str, str]]:
    """Return the spec of adapters from the entries of their weights and their rank axes."""
    spec = {}
    for entry, axis in axes.items():
        if entry.part is not None:
            raise ArgumentError(
                f"{op}: {entry.key!r} of spec is split over the places {entry.written_place!r}, but"
                " its adapter has one array for all of them. Write an entry without parts."
            )
        outputs, inputs = reversed(entry.left) if fan_in_fan_out else entry.left
        rank = "lora_rank"
        while rank in {label for term in entry.right for label in term.axes}:
            rank += "_"
        stacked = [term for term in entry.right if {*term.axes} <= {*entry.numbers}]
        sides = []
        for side in (inputs, outputs):
            own = [t for t in entry.right if t not in stacked and {*t.axes} <= {*side.axes}]
            sides.append(own)
        if len(stacked) + sum(map(len, sides)) != len(entry.right) or None in entry.dims:
            raise ArgumentError(
                f"{op}: {entry.key!r} of spec has the pattern {entry.pattern!r}, in which an axis"
                " has no name, or has labels of inputs and of outputs. Give each axis labels of one"
                " side of the matrix only."
            )
        batch, own_inputs, own_outputs = (
            [_text(term) for term in terms] for terms in (stacked, *sides)
        )
        size = f"{axis}={rank}"
        key_a, key_b = _keys(entry.key)
        right_a = ", ".join([*batch, *own_inputs, size])
        right_b = ", ".join([*batch, size, *own_outputs])
        spec[key_a] = (f"{entry.place_text}/a", f"{rank} {_labels(inputs)} -> {{{right_a}}}")
        spec[key_b] = (f"{entry.place_text}/b", f"{_labels(outputs)} {rank} -> {{{right_b}}}")
    return spec


def _labels(term: Term) -> str:
    text = " ".join(map(str, term.axes))
    return text if len(term.axes) == 1 else f"({text})"


def _text(term: Term) -> str:
    return f"{term.name}={_labels(term)}"


# --- writing --------------------------------------------------------------------------------------


@checks_signature
def save(
    adapters: Adapters,
    spec: Spec,
    path: str | os.PathLike[str],
    *,
    sizes: Sizes | None = None,
    numbers: NumbersByLabel | None = None,
    fan_in_fan_out: bool = False,
    base_model: str | None = None,
    task_type: str | None = "CAUSAL_LM",
) -> None:
    """Save adapters in the files of PEFT, the inverse of `lora.load`.

    Loading them with the same spec gives equal bits, ranks and scales. PEFT loads them with
    `PeftModel.from_pretrained(model, path)`.

    Communication: as in `save_safetensors`.

    Args:
      adapters: a dict from places of the spec to adapters.
      spec: the spec of the base model, as in `load_safetensors`.
      path: the folder, which is created.
      sizes: sizes of labels, as in `save_safetensors`. Default: none.
      numbers: the numbers of labels in keys, as in `save_safetensors`. Default: none.
      fan_in_fan_out: if `True`, the weights of the base model are `[in, out]`, as in GPT-2; by
        default `False`.
      base_model: the name or path of the base model, for `base_model_name_or_path`. Default: none.
      task_type: the task, by default `"CAUSAL_LM"`.

    Raises:
      ArgumentError: there is no adapter, a place is not a matrix of the spec, or adapters have
        different dropout or rank stabilization.
      ArgumentTypeError: `path` is not a path, or `adapters` is not a dict of adapters.
      CheckpointError: an adapter has other axes than its weight in the spec.

    >>> import jax, jax.numpy as jnp, namedax as nx, os, tempfile
    >>> lora = nx.interop.lora
    >>> params = {"up": nx.named(jnp.ones((6, 8)), ["embed", "hidden"])}
    >>> adapters = lora.init(params, jax.random.key(0), {"up": "embed"}, rank=2, batch=())
    >>> folder = tempfile.mkdtemp()
    >>> lora.save(adapters, {"up.weight": ("up", "hidden embed -> {embed, hidden}")}, folder)
    >>> sorted(os.listdir(folder))
    ['adapter_config.json', 'adapter_model.safetensors']
    """
    op = "lora.save"
    folder = _folder(op, path)
    check_adapters(op, adapters)
    entries = parse_spec(spec, numbers, op)
    matrices = {entry.place_text: entry for entry in entries if _is_matrix(entry)}
    for place in adapters:
        if place not in matrices:
            raise ArgumentError(
                f"{op}: adapters has {place!r}, which is not a matrix of spec."
                f"{did_you_mean(place, matrices)} Choose from {show_names(matrices)}."
            )
    _check_settings(op, adapters)
    chosen = [matrices[place] for place in adapters]
    axes = {entry: adapters[entry.place_text].axis for entry in chosen}
    for axis in axes.values():
        _check_axis(op, axis, entries)
    tree: dict[str, Any] = {}
    for entry in chosen:
        adapter, node = adapters[entry.place_text], tree
        for part in entry.place:
            node = node.setdefault(part, {})
        node |= {"a": adapter.a, "b": adapter.b}
    config = _config_of(adapters, chosen, [*matrices.values()])
    config |= {
        "base_model_name_or_path": base_model,
        "fan_in_fan_out": bool(fan_in_fan_out),
        "task_type": task_type,
    }
    derived = _spec_of(op, axes, fan_in_fan_out)
    given = _numbers_of(numbers, chosen)
    save_safetensors(tree, derived, os.path.join(folder, _TENSORS), sizes=sizes, numbers=given)
    if jax.process_index() == 0:
        text = json.dumps(config, indent=2, sort_keys=True)
        part = os.path.join(folder, f".{_CONFIG}.part")
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, os.path.join(folder, _CONFIG))


def _check_settings(op: str, adapters: Adapters) -> None:
    """Check that one configuration can describe all adapters."""
    if not adapters:
        raise ArgumentError(f"{op}: the dict of adapters is empty. Pass at least one adapter.")
    place, first = next(iter(adapters.items()))
    for other, one in adapters.items():
        for what in ("dropout", "rank_stabilized"):
            if getattr(one, what) != getattr(first, what):
                raise ArgumentError(
                    f"{op}: {place!r} has {what}={getattr(first, what)!r}, and {other!r}"
                    f" {what}={getattr(one, what)!r}, but files of PEFT have one value. Make them"
                    " equal with dataclasses.replace."
                )


def _config_of(
    adapters: Adapters, chosen: Sequence[Entry], matrices: Sequence[Entry]
) -> dict[str, Any]:
    """Return the configuration of adapters, in which modules with other ranks have patterns."""
    common: list[Any] = []
    patterns: list[dict[str, Any]] = []
    for what in ("rank", "alpha"):
        values = {entry: getattr(adapters[entry.place_text], what) for entry in chosen}
        usual = collections.Counter(values.values()).most_common(1)[0][0]
        common.append(usual)
        patterns.append({f"^{_regex(one, adapters)}": v for one, v in values.items() if v != usual})
    first = adapters[chosen[0].place_text]
    return {
        "alpha_pattern": patterns[1],
        "bias": "none",
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": common[1],
        "lora_dropout": first.dropout,
        "peft_type": "LORA",
        "r": common[0],
        "rank_pattern": patterns[0],
        "target_modules": _targets(adapters, chosen, matrices),
        "use_rslora": first.rank_stabilized,
    }


def _regex(entry: Entry, adapters: Adapters) -> str:
    """Return a regular expression for the modules of an entry."""
    texts = []
    for of, numbers in zip(
        entry.ranges, _numbers(entry, adapters[entry.place_text].a), strict=True
    ):
        texts.append(rf"(?:{'|'.join(map(str, numbers))})" if of.text else r"\d+")
    of_label = dict(zip(entry.numbers, texts, strict=True))
    parts = re.split(r"\{([^{}]*)\}", entry.template.removesuffix(_SUFFIX))
    return "".join(of_label[p] if i % 2 else re.escape(p) for i, p in enumerate(parts))


def _targets(
    adapters: Adapters, chosen: Sequence[Entry], matrices: Sequence[Entry]
) -> list[str] | str:
    """Return the shortest ends of the modules that no other module has, or else one expression."""
    rest = [_first_module(one) for one in matrices if one not in chosen]
    targets: dict[str, None] = {}
    for entry in chosen:
        parts = re.split(r"\{[^{}]*\}\.?", entry.template.removesuffix(_SUFFIX))[-1].split(".")
        ends = [".".join(parts[start:]) for start in reversed(range(len(parts)))]
        free = [end for end in ends if end and not any(_ends_with(one, end) for one in rest)]
        if not free:
            return "|".join(_regex(one, adapters) for one in chosen)
        targets[free[0]] = None
    return [*targets]
