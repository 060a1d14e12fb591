"""Show a model: its axes, the communication of a training step, and the layouts of `nx.plan`.

    python -m namedax.models explain llama --layout fsdp+tp
    python -m namedax.models plan FOLDER --chips 8 64 --machine h100

Nothing is computed. Parameters are types of the size that is published, and the step is that of
`train`, with AdamW and in bfloat16.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import namedax as nx
from namedax.core.text_tables import aligned
from namedax.models import common, train
from namedax.models.architectures import Model, module_of, open_model
from namedax.models.arguments import add_layout, add_model, layout_and_axes

MACHINES = [
    name
    for name in nx.machines.__all__
    if isinstance(getattr(nx.machines, name), nx.machines.Machine)
]

#: A published size of each model: its name, its folder, its configuration, and a chip's inputs.
PUBLISHED: dict[str, tuple[str, str, dict[str, Any], dict[str, int]]] = {
    "llama": (
        "Llama 3 8B",
        "Meta-Llama-3-8B",
        {"vocab": 128256, "embed": 4096, "hidden": 14336, "layers": 32, "heads": 32, "kv_heads": 8,
         "key": 128, "theta": 500_000.0},
        {"batch": 1, "pos": 4096},
    ),
    "mixtral": (
        "Qwen3 30B-A3B",
        "Qwen3-30B-A3B",
        {"vocab": 151936, "embed": 2048, "hidden": 768, "layers": 48, "heads": 32, "kv_heads": 4,
         "key": 128, "theta": 1_000_000.0, "qk_norm": True, "experts": 128, "chosen": 8,
         "balance": 0.001},
        {"batch": 1, "pos": 4096},
    ),
    "gpt_oss": (
        "GPT-OSS 20B",
        "gpt-oss-20b",
        {"vocab": 201088, "embed": 2880, "hidden": 2880, "layers": 24, "heads": 64, "kv_heads": 8,
         "key": 64, "theta": 150_000.0, "experts": 32, "chosen": 4,
         "scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": False,
                     "original_max_position_embeddings": 4096}},
        {"batch": 1, "pos": 4096},
    ),
    "deepseek": (
        "DeepSeek V3",
        "DeepSeek-V3",
        {"vocab": 129280, "embed": 7168, "dense_hidden": 18432, "hidden": 2048, "layers": 58,
         "kv_heads": 128, "scaling": {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0,
         "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}},
        {"batch": 1, "pos": 4096},
    ),
    "gemma": (
        "Gemma 3 4B",
        "gemma-3-4b-pt",
        {"embed": 2560, "hidden": 10240, "layers": 34, "heads": 8, "kv_heads": 4, "window": 1024,
         "scaling": {"rope_type": "linear", "factor": 8.0}},
        {"batch": 1, "pos": 4096},
    ),
    "t5": (
        "T5 1.1 XL",
        "t5-v1_1-xl",
        {"vocab": 32128, "embed": 2048, "hidden": 5120, "source_layers": 24, "layers": 24,
         "kv_heads": 32, "key": 64, "gated": True, "tied": False},
        {"batch": 16, "pos": 128, "source": 512},
    ),
    "whisper": (
        "Whisper large-v3",
        "whisper-large-v3",
        {"vocab": 51866, "embed": 1280, "hidden": 5120, "layers": 32, "source_layers": 32,
         "kv_heads": 20, "key": 64, "mel": 128},
        {"batch": 8, "pos": 448},
    ),
    "vit": (
        "ViT-Large/16",
        "vit-large-patch16-224",
        {"embed": 1024, "hidden": 4096, "layers": 24, "heads": 16, "classes": 1000, "image": 224,
         "patch": 16},
        {"batch": 64},
    ),
    "dit": (
        "DiT-XL/2",
        "DiT-XL-2-256/transformer",
        {"heads": 16, "key": 72, "layers": 28, "image": 32, "patch": 2, "channels": 4,
         "outputs": 2},
        {"batch": 64},
    ),
    "qwen2_vl": (
        "Qwen2-VL 2B",
        "Qwen2-VL-2B-Instruct",
        {"vocab": 151936, "embed": 1536, "hidden": 8960, "layers": 28, "heads": 12, "kv_heads": 2,
         "scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "tied": True,
         "image_embed": 1280, "image_heads": 16, "source_layers": 32},
        {"batch": 1, "pos": 4096, "image": 2, "row": 896, "column": 896},
    ),
    "mamba": (
        "Mamba 2 2.7B",
        "mamba2-2.7b-hf",
        {"vocab": 50288, "embed": 2560, "layers": 64, "heads": 80, "key": 64, "state": 128,
         "tied": True},
        {"batch": 1, "pos": 4096},
    ),
    "qwen3_next": (
        "Qwen3-Next 80B-A3B",
        "Qwen3-Next-80B-A3B-Instruct",
        {"vocab": 151936, "embed": 2048, "hidden": 512, "shared_hidden": 512, "layers": 12,
         "heads": 16, "kv_heads": 2, "key": 256, "theta": 10_000_000.0, "experts": 512,
         "scaling": {"rope_type": "default", "partial_rotary_factor": 0.25}, "chosen": 10,
         "balance": 0.001, "state_heads": 16, "value_heads": 32, "feature": 128, "value": 128},
        {"batch": 4, "pos": 4096},
    ),
}  # fmt: skip
#: The meshes of the chips that are planned, as the torus of the machine has them.
MESHES = {4: (2, 2), 8: (4, 2), 16: (4, 4), 64: (8, 8), 256: (16, 16)}
#: The names that `nx.plan` may map, and the number of layouts that it tries.
NAMES = (
    "batch embed_fsdp embed_expert image_embed_fsdp query_fsdp latent_fsdp expert hidden"
    " dense_hidden shared_hidden kv_heads state_heads vocab pos_sp source_sp"
).split()
HEADS = {"kv_heads": "group"}
TRIES = 24
#: What is planned: the numbers of chips, the number of layouts that are tried, and names with a
#: given place. Models that fit on no 8 chips have more chips, or fewer layouts if a step is large.
PLANNED: dict[str, tuple[list[int], int, dict[str, Any]]] = {
    "deepseek": (
        [256],
        4,
        dict.fromkeys(("batch", "expert", "embed_fsdp", "query_fsdp", "latent_fsdp"), ("x", "y")),
    ),
    "qwen3_next": ([64, 256], TRIES, {}),
}


def batch_types(config: Any, sizes: Mapping[str, int], chips: int) -> dict[str, Any]:
    """Return the types of a batch, whose number of rows grows with the chips."""
    rows = {"batch": sizes["batch"] * chips}

    def make(dtype: Any, **axes: int) -> Any:
        return jax.eval_shape(lambda: nx.zeros(named_shape=rows | axes, dtype=dtype))

    if hasattr(config, "image"):
        image = {"channel": config.channels, "row": config.image, "column": config.image}
        batch = {"images": make(jnp.bfloat16, **image), "labels": make(jnp.int32)}
        more = {"noise": batch["images"], "times": batch["labels"]}
        return batch | (more if hasattr(config, "times") else {})
    tokens = make(jnp.int32, pos=sizes["pos"])
    batch = {"tokens": tokens, "targets": tokens}
    if hasattr(config, "mel"):
        batch["features"] = make(jnp.bfloat16, mel=config.mel, frame=2 * config.source)
    elif "image" in sizes:
        image = {name: sizes[name] for name in ("image", "row", "column")}
        batch["images"] = make(jnp.bfloat16, channel=config.channels, **image)
    elif "source" in sizes:
        batch["inputs"] = make(jnp.int32, source=sizes["source"])
    return batch


class Step:
    """A training step of a published size, and the types of its arguments."""

    def __init__(self, source: str):
        """Take an architecture at its published size, or the folder of a checkpoint."""
        if source in PUBLISHED:
            self.title, _, fields, self.inputs = PUBLISHED[source]
            module = module_of(source)
            self.model = Model(source, module, module.Config(**fields))
        else:
            self.model = open_model(source)
            self.title = pathlib.Path(source).name
            self.inputs = PUBLISHED[self.model.architecture][3]
        self.module, self.config = self.model.module, self.model.config
        self.options = train.parse(["--bf16"])
        self.optimizer, _ = train.make_optimizer(self.options, self.config)
        self.params = jax.eval_shape(lambda: self.module.init(self.config, jax.random.key(0)))
        self.count = sum(leaf.size for leaf in jax.tree.leaves(self.params))

    def arguments(self, chips: int) -> tuple[Any, ...]:
        """Return the types of the parameters, the state of the optimizer and the batch."""
        state = {
            "params": self.params,
            "optimizer": jax.eval_shape(self.optimizer.init, self.params),
            "step": jax.ShapeDtypeStruct((), jnp.int32),
        }
        return {}, state, batch_types(self.config, self.inputs, chips)

    def names(self, chips: int) -> dict[str, int]:
        """Return the axis names of the arguments, and of the positions between the layers."""
        names = dict(self.config.sizes())
        for leaf in self.arguments(chips)[2].values():
            names |= leaf.named_shape
        names |= {f"{name}_sp": names[name] for name in ("pos", "source") if name in names}
        return {name: size for name, size in names.items() if size > 1}

    def mapped(self, mesh: Any, resources: Mapping[str, Any]) -> Any:
        """Return the step under a layout."""
        microbatches = 2 if "layers" in resources else 0
        config = dataclasses.replace(self.config, microbatches=microbatches)
        model = dataclasses.replace(self.model, config=config)
        job = train.Job(model, mesh, dict(resources), self.options)
        return train.make_step(job, self.optimizer)


def parameters(step: Step) -> str:
    """List the parameters with their axes."""
    rows = [
        (place, ", ".join(f"{name}: {size}" for name, size in leaf.named_shape.items()))
        for place, leaf in common.places(step.params)
    ]
    title = f"{step.title}: {step.count / 1e9:.2f} billion parameters"
    return "\n".join([title, "", *aligned(rows)])


def communication(step: Step, layout: str, axes: dict[str, int] | None = None) -> str:
    """Summarize `nx.explain` of a step in a layout, as `layout_and_axes` reads it."""
    known = common.axis_names(step.config)
    axes, resources = layout_and_axes(layout, axes, common.LAYOUTS, known)
    chips = math.prod(axes.values())
    mesh = jax.sharding.AbstractMesh(tuple(axes.values()), tuple(axes)) if axes else None
    names = step.names(chips)
    if "kv_heads" not in names:  # one group of heads
        resources = {HEADS.get(name, name): entry for name, entry in resources.items()}
    resources = {name: entry for name, entry in resources.items() if name in names}
    report = nx.explain(step.mapped(mesh, resources), *step.arguments(chips))
    groups: dict[tuple[str, ...], tuple[int, int]] = {}
    for one in report.collectives:
        key = one.kind, ", ".join(one.mesh_axes), ", ".join(one.names), one.phase
        count, size = groups.get(key, (0, 0))
        groups[key] = count + one.trips, size + one.wire_bytes * one.trips
    rows = sorted(groups.items(), key=lambda item: -item[1][1])
    table = [
        (amount(size), str(count), kind, over, names, phase)
        for (kind, over, names, phase), (count, size) in rows
        if size > report.wire_bytes / 1000
    ]
    where = ", ".join(f"{axis}={size}" for axis, size in axes.items()) or "one device"
    return "\n".join([
        textwrap.fill(f"A step under {layout!r} on {where}: {resources}", 100),
        f"computes {report.flops / 1e12:.0f} TFLOP, sends {amount(report.wire_bytes)}, holds"
        f" {amount(report.memory.peak)} at its peak",
        "",
        *aligned([("sends", "times", "collective", "over", "of", "phase"), *table]),
    ])  # fmt: skip


def amount(size: float) -> str:
    """Return a number of bytes as text."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:.1f} MiB"


def planned(step: Step) -> tuple[list[int], int, dict[str, Any]]:
    """Return what is planned of a model, as in `PLANNED`."""
    return PLANNED.get(step.model.architecture, ([8, 256], TRIES, {}))


def plan(step: Step, chips: int, machine: Any, tries: int) -> str:
    """Report what `nx.plan` chooses for a number of chips."""
    shape = MESHES.get(chips, (chips,))
    mesh = jax.sharding.AbstractMesh(shape, ("x", "y")[: len(shape)])
    names = step.names(chips)
    chosen = [name if name in names else HEADS.get(name) for name in NAMES]
    try:
        found = nx.plan(
            step.mapped(None, {}), *step.arguments(chips), mesh=mesh, machine=machine,
            names=[name for name in chosen if name in names], tries=tries, progress=False,
            fixed=planned(step)[2] if len(shape) > 1 else None,
        )  # fmt: skip
    except nx.errors.PlanError as error:
        return textwrap.fill(str(error), 100)
    return str(found)


def explain(argv: Sequence[str] | None = None) -> None:
    """Print the parameters and the communication of a training step."""
    parser = argparse.ArgumentParser(
        "python -m namedax.models explain",
        description="List parameters and the communication of a training step at its real size.",
    )
    add_model(parser.add_argument)
    add_layout(parser.add_argument, common.LAYOUTS, "fsdp+tp")
    options = parser.parse_args(argv)
    step = Step(options.model)
    sent = communication(step, options.layout, options.mesh)
    print(parameters(step), sent, sep="\n\n", flush=True)


def plans(argv: Sequence[str] | None = None) -> None:
    """Print the layouts that `nx.plan` finds."""
    parser = argparse.ArgumentParser(
        "python -m namedax.models plan",
        description="Search for the fastest layouts of a training step at its real size.",
    )
    add = parser.add_argument
    add_model(add)
    add("--chips", type=int, nargs="*", help="(8 256; 64 256 for qwen3_next, 256 for deepseek)")
    add("--machine", choices=MACHINES, default="v5p", help="(%(default)s)")
    add("--tries", type=int, help="layouts to try (24, or 4 for deepseek)")
    options = parser.parse_args(argv)
    step, machine = Step(options.model), getattr(nx.machines, options.machine)
    chips_of, tries, _ = planned(step)
    for number, chips in enumerate(options.chips or chips_of):
        text = plan(step, chips, machine, options.tries or tries)
        print("\n" * (number > 0) + text, flush=True)
