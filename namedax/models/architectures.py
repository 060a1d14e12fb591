"""`load`: a published checkpoint, read by the module for its architecture."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pathlib
from collections.abc import Hashable, Mapping
from types import ModuleType
from typing import Any

import jax

import namedax as nx
from namedax.errors import (
    ArgumentTypeError,
    AxisResourceError,
    CheckpointError,
    did_you_mean,
    format_value,
    show_names,
)
from namedax.models import common

__all__ = [
    "ARCHITECTURES",
    "TYPES",
    "Model",
    "architecture_of",
    "load",
    "module_of",
    "open_model",
    "parameters",
]

#: The module that reads each `model_type` of a `config.json`, or `_class_name` of diffusers.
TYPES = {
    "DiTTransformer2DModel": "dit",
    "deepseek_v3": "deepseek",
    "gemma3": "gemma",
    "gemma3_text": "gemma",
    "gpt_oss": "gpt_oss",
    "llama": "llama",
    "mamba2": "mamba",
    "mistral": "llama",
    "mixtral": "mixtral",
    "qwen2_vl": "qwen2_vl",
    "qwen3": "llama",
    "qwen3_moe": "mixtral",
    "qwen3_next": "qwen3_next",
    "t5": "t5",
    "Transformer2DModel": "dit",
    "vit": "vit",
    "whisper": "whisper",
}
ARCHITECTURES = [*dict.fromkeys(TYPES.values())]


@dataclasses.dataclass(frozen=True)
class Model:
    """A model: the module with its functions, its configuration, and its parameters.

    Attributes:
      architecture: the name of the module in `namedax.models`, such as `"llama"`.
      module: the module, with `forward`, `loss`, `init` and, for decoders, `init_cache`.
      config: the configuration.
      params: the parameters, a tree of named arrays; `None` if they were not loaded.
      folder: the folder of the checkpoint, or `None` for a model with random parameters.
      report: the place and the axes of each key of the checkpoint, as text.
    """

    architecture: str
    module: ModuleType
    config: Any
    params: common.Params | None = dataclasses.field(default=None, repr=False)
    folder: pathlib.Path | None = None
    report: str = dataclasses.field(default="", repr=False)

    @property
    def spec(self) -> common.Spec:
        """The key of each tensor in a checkpoint, its place in the parameters, and its axes."""
        spec: common.Spec = self.module.spec(self.config)
        return spec

    @property
    def sizes(self) -> dict[str, int]:
        """The size of every axis of a parameter."""
        sizes: dict[str, int] = self.config.sizes()
        return sizes

    @property
    def tokenizer(self) -> pathlib.Path | None:
        """The file of the tokenizer, if the folder has one."""
        path = None if self.folder is None else self.folder / "tokenizer.json"
        return path if path is not None and path.exists() else None

    def forward(self, params: common.Params, *inputs: Any, **options: Any) -> Any:
        """Return what the module's `forward` returns with this configuration.

        Args:
          params: the parameters.
          *inputs: the other arguments before the configuration, such as tokens.
          **options: further arguments of the module's function.
        """
        return self.module.forward(params, *inputs, self.config, **options)

    def loss(self, params: common.Params, batch: Mapping[str, Any]) -> Any:
        """Return the loss of a batch, as a scalar.

        Args:
          params: the parameters.
          batch: the named arrays of a batch, such as `tokens` and `targets`.
        """
        return self.module.loss(params, batch, self.config)

    def layout_of_parameters(self, axis_resources: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the part of a layout that is for parameters; `batch`, for example, is not.

        Args:
          axis_resources: a layout.

        Raises:
          AxisResourceError: the model has no axis of a name.
        """
        known = common.axis_names(self.config)
        for name in axis_resources:
            if name not in known:
                hint = did_you_mean(name, known) if isinstance(name, str) else ""
                raise AxisResourceError(
                    f"models.load: axis_resources has the name {name!r}, but {self.architecture}"
                    f" has no such axis.{hint} Its axes are {show_names(sorted(known))}."
                )
        return {name: entry for name, entry in axis_resources.items() if name in self.sizes}

    def init(self, key: jax.Array) -> common.Params:
        """Return random parameters.

        Args:
          key: a random key.
        """
        params: common.Params = self.module.init(self.config, key)
        return params


def module_of(architecture: str) -> ModuleType:
    """Return the module of an architecture, such as `"llama"`."""
    return importlib.import_module(f"namedax.models.{architecture}")


def architecture_of(folder: str | os.PathLike[str]) -> str:
    """Return the architecture of a checkpoint by its `config.json`.

    It has a `model_type`, or a `_class_name` of diffusers.

    Raises:
      CheckpointError: there is no such file, or no module reads this type.
      ArgumentTypeError: it is not a path.
    """
    if not isinstance(folder, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"models.load: folder is {format_value(folder)}, not a path. Pass the folder of a"
            " checkpoint, with config.json and *.safetensors."
        )
    path = pathlib.Path(folder) / "config.json"
    if not path.exists():
        raise CheckpointError(
            f"models.load: there is no file {path}. Pass the folder of a checkpoint, with"
            " config.json and *.safetensors."
        )
    entries = json.loads(path.read_text())
    entry = "_class_name" if "_class_name" in entries else "model_type"
    kind = entries.get(entry)
    if kind not in TYPES:
        hint = did_you_mean(kind, TYPES) if isinstance(kind, str) else ""
        raise CheckpointError(
            f"models.load: {path} has {entry} {kind!r}, which no model reads.{hint} Choose from"
            f" {show_names(list(TYPES))}, or write the model: see the guide"
            " docs/guides/bring_your_own_architecture.md."
        )
    return TYPES[kind]


def open_model(source: str | os.PathLike[str]) -> Model:
    """Return a model without parameters.

    Args:
      source: the folder of a checkpoint, or an architecture, such as `"llama"`, for its smallest
        configuration `TINY`. A folder with this name is read instead.
    """
    if source in ARCHITECTURES and not (pathlib.Path(source) / "config.json").exists():
        module = module_of(str(source))
        return Model(str(source), module, module.TINY)
    return _of_folder(source)


def _of_folder(folder: str | os.PathLike[str]) -> Model:
    architecture = architecture_of(folder)
    module = module_of(architecture)
    return Model(architecture, module, module.Config.from_json(folder), folder=pathlib.Path(folder))


def load(
    folder: str | os.PathLike[str],
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Any = None,
    *,
    dtype: Any = None,
) -> Model:
    """Load a published checkpoint: its configuration, its architecture and its parameters.

    Everything that can be wrong is checked before any value is read: the architecture, every entry
    of the configuration, and every key, shape and size in the files. Then each device reads its own
    blocks, as in `nx.interop.load_safetensors`. Quantized tensors, by the entry
    `quantization_config`, are dequantized.

    Args:
      folder: a folder with `config.json` and `*.safetensors`, as published.
      axis_resources: the layout. Names that parameters lack, such as `batch`, may be among them.
        Default: the parameters are not sharded.
      mesh: a mesh. Default: that of `jax.set_mesh` if `axis_resources` is given.
      dtype: the dtype of floating-point parameters. Default: the stored one.

    Returns:
      A `Model` with `params`. Its `report` says which key went where.

    Raises:
      CheckpointError: no module reads the architecture; an entry of the configuration is unknown,
        missing, or has a value that the model does not support; a file is missing or damaged; or
        keys, shapes or sizes do not match.
      ArgumentError: the method of the `quantization_config` is not supported.
      AxisResourceError: the model has no axis of a name in `axis_resources`.
      ArgumentTypeError: `folder` is not a path.
      MeshError: there is no mesh, or it lacks a mesh axis or devices.
      ImportError: safetensors is not installed (`pip install 'namedax[safetensors]'`).

    >>> import jax, json, pathlib, tempfile, namedax as nx
    >>> from namedax.models import llama
    >>> folder, tiny = pathlib.Path(tempfile.mkdtemp()), llama.TINY
    >>> entries = {entry: getattr(tiny, field, "llama") for entry, field in llama.ENTRIES.items()}
    >>> entries |= {"rope_theta": tiny.theta, "layer_types": None}
    >>> _ = (folder / "config.json").write_text(json.dumps(entries))
    >>> params = llama.init(tiny, jax.random.key(0))
    >>> nx.interop.save_safetensors(params, llama.spec(tiny), folder / "model.safetensors")
    >>> model = nx.models.load(folder)
    >>> model.architecture, model.params["layers"]["up"].dims
    ('llama', ('layers', 'embed_fsdp', 'hidden'))
    """
    model = _of_folder(folder)
    spec, sizes = model.spec, model.sizes
    ignore = common.ignored_keys(model.config)
    layout = None if axis_resources is None else model.layout_of_parameters(axis_resources)
    entries = json.loads((pathlib.Path(folder) / "config.json").read_text())
    given = {"sizes": sizes, "ignore": ignore, "dtype": dtype}
    given["quantization"] = entries.get("quantization_config")
    report = nx.interop.state_dict_report(folder, spec, **given)
    params = nx.interop.load_safetensors(folder, spec, layout, mesh, **given)
    return dataclasses.replace(model, params=params, report=str(report))


def parameters(
    model: Model, layout: Mapping[Hashable, Any], mesh: Any, key: jax.Array
) -> common.Params:
    """Return parameters in their layout: those of the checkpoint, or random ones."""
    layout = {name: entry for name, entry in layout.items() if name in model.sizes}
    if model.folder is not None:
        loaded = load(model.folder, layout if mesh is not None else None, mesh).params
        assert loaded is not None
        return loaded
    params = model.init(key)
    return params if mesh is None else nx.shard(params, layout, mesh)
