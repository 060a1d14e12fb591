"""Models of published architectures, written over axis names.

- `load` reads a checkpoint by its `config.json`; `architectures` has it, and which module reads
  each type of model. `common` is what the models share: configuration files, random parameters,
  layers, losses and layouts.
- Each architecture is a module that reads as a paper: `llama` (also Mistral and Qwen3), `mixtral`
  (also Qwen3-MoE), `gpt_oss`, `deepseek` with `deepseek_config`, `gemma`, `mamba` with `mamba_keys`
  and `convolution`, `qwen3_next` with `delta_net` and `qwen3_next_keys`, `t5` with `t5_config`,
  `whisper` with `whisper_keys`, `vit`, `dit` with `dit_config`, and `qwen2_vl` with
  `qwen2_vl_config` and `qwen2_vl_vision`.
- `generate` continues prompts, `train` trains on `data`, and `show` explains and plans a training
  step at its real size without weights. `command` with `arguments` is `python -m namedax.models`,
  which `__main__` runs.

Only `architectures` and `common` are imported with the package.
"""

from namedax.models.architectures import Model as Model
from namedax.models.architectures import load as load

__all__ = ["Model", "load"]
