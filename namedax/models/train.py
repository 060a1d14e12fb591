"""Train a model, or fine-tune a published one, under any layout.

    python -m namedax.models train llama --layout fsdp+tp --steps 100   # random parameters
    python -m namedax.models train FOLDER --lora 8                      # a published checkpoint
    python -m namedax.models train llama --layout dp --resume           # under another layout

One dictionary chooses the layout: an item of `common.LAYOUTS`, or any other, with `--mesh`. A step
runs as one mapped function, with the loss, its gradient, clipping and the optimizer. Runs of
several processes take `--processes`, `--process` and `--coordinator`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

import namedax as nx
from namedax.interop import lora
from namedax.models import common, data
from namedax.models.architectures import Model, open_model, parameters
from namedax.models.arguments import add_layout, add_model, read_layout

SUMMARY = "Train a model, or fine-tune a published one, under any layout."
# Models in which packed documents do not see each other.
PACKED = ("llama", "mixtral", "gemma", "gpt_oss", "deepseek", "mamba", "qwen3_next")


@dataclasses.dataclass(frozen=True)
class Job:
    """A model and its layout."""

    model: Model
    mesh: Any
    axis_resources: dict[str, Any]
    options: argparse.Namespace

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self.model.config

    def init(self, key: jax.Array) -> common.Params:
        """Return parameters, from a checkpoint or random, in their layout."""
        return parameters(self.model, self.axis_resources, self.mesh, key)

    @property
    def stored(self) -> dict[str, Any]:
        """The layout of parameters: loops in time are for the batch."""
        return {
            name: entry
            for name, entry in self.axis_resources.items()
            if name in {*self.config.sizes(), "rank", "adapter"}
        }


# --- what is trained ------------------------------------------------------------------------------


def lora_init(params: common.Params, options: argparse.Namespace, key: jax.Array) -> Any:
    """Return adapters of rank `--lora` for every weight of the layers that reads or writes `embed`.

    With `--adapters n`, n adapters are trained at once: they have the axis `adapter`, which runs
    through the whole model like `batch`, and may be mapped to devices.
    """
    shapes = {f"layers/{place}": w.named_shape for place, w in common.places(params["layers"])}
    outer = {place: tuple(name for name in ROWS if name in s) for place, s in shapes.items()}
    targets = {place: names for place, names in outer.items() if names and len(shapes[place]) > 2}
    stacked = [name for name in ("layers", "expert") if any(name in shapes[p] for p in targets)]
    count = {"adapter": options.adapters} if options.adapters else {}
    return lora.init(
        params,
        key,
        targets,
        rank=options.lora,
        alpha=2 * options.lora,
        batch=stacked,
        named_shape=count,
    )


def cast(tree: Any, dtype: Any) -> Any:
    """Return the arrays with another dtype, except integers."""
    return jax.tree.map(
        lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
    )


def unpack(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Add positions and segments to rows of packed documents."""
    batch = dict(batch)
    lengths = batch.pop("lengths", None)
    if lengths is None:
        return batch
    rows = nx.Ragged(batch["tokens"], lengths, tokens="pos", rows="doc")
    return batch | {"positions": rows.positions, "segments": rows.segments, "mask": rows.is_token}


# --- the optimizer --------------------------------------------------------------------------------

ROWS = ("embed_fsdp", "embed_expert", "query_fsdp", "latent_fsdp")
COLUMNS = ("kv_heads", "group", "key", "hidden", "dense_hidden", "route")


def make_optimizer(options: argparse.Namespace, config: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return an optimizer and its learning rate: warm-up, then a cosine to a tenth."""
    rate = optax.warmup_cosine_decay_schedule(
        0.0, options.rate, options.warmup, max(options.steps, options.warmup + 1), options.rate / 10
    )
    if options.optimizer == "muon":
        rows, columns = ([n for n in names if n in config.sizes()] for names in (ROWS, COLUMNS))
        rule = nx.interop.muon(rate, rows=rows, columns=columns)
    else:
        rule = optax.adamw(rate, weight_decay=options.decay)
    return optax.chain(nx.interop.clip_by_global_norm(options.clip), rule), rate


def make_step(job: Job, optimizer: Any) -> Callable[..., Any]:
    """Return the training step `(frozen, state, batch) -> (state, metrics)`, a mapped function.

    `state` has the trained parameters in float32. They are cast to the compute dtype before they
    are gathered. `frozen` has the parameters below adapters, or nothing.
    """
    options = job.options
    dtype = jnp.bfloat16 if options.bf16 else jnp.float32

    def loss(trained: Any, frozen: Any, batch: Any) -> Any:
        trained = cast(trained, dtype)
        params = lora.merge(cast(frozen, dtype), trained) if options.lora else trained
        return job.model.loss(params, batch).astype(jnp.float32)

    def step(frozen: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        batch = unpack(batch)
        if options.dropout:
            batch["dropout_key"] = jax.random.fold_in(jax.random.key(options.seed), state["step"])
        value, grads = jax.value_and_grad(loss)(state["params"], frozen, batch)
        updates, inner = optimizer.update(grads, state["optimizer"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        metrics = {"loss": value, "gradient": nx.interop.global_norm(grads)}
        return {"params": params, "optimizer": inner, "step": state["step"] + 1}, metrics

    return nx.xmap(step, axis_resources=job.axis_resources, mesh=job.mesh, donate_argnums=(1,))


# --- a run ----------------------------------------------------------------------------------------


def batches(job: Job) -> Callable[[int], dict[str, Any]]:
    """Return the batch of a step, as a function."""
    options, config = job.options, job.config
    size = options.batch

    def make(step: int, rows: Any) -> data.Arrays:
        if hasattr(config, "image"):
            found = data.digits(step, rows, size=config.image, channels=config.channels)
            if hasattr(config, "times"):
                noise = {"times": config.times, "absent": config.classes}
                found = data.noisy(found, step, rows, **noise)
            return found
        if hasattr(config, "mel"):
            mel, frames = config.mel, 2 * config.source
            return data.tones(text, step, rows, options.pos, mel=mel, frames=frames)
        if hasattr(config, "image_token"):
            return data.illustrated(text, step, rows, options.pos, config=config)
        kind = data.packed_rows if options.packed else data.text_rows
        kind = data.continuations if job.model.architecture == "t5" else kind
        return kind(text, step, rows, options.pos)

    vocab = getattr(config, "vocab", 256)
    text = data.encode(data.corpus()[: options.bytes], job.model.tokenizer, vocab)
    return lambda step: data.place(
        functools.partial(make, step), size, job.axis_resources, job.mesh
    )


def run(job: Job) -> list[dict[str, float]]:
    """Train, and return the metrics of every step."""
    options = job.options
    optimizer, rate = make_optimizer(options, job.config)

    def begin() -> tuple[Any, Any]:
        params, frozen = job.init(jax.random.key(options.seed)), {}
        if options.lora:
            frozen, params = params, lora_init(params, options, jax.random.key(options.seed + 1))
        return frozen, {"params": params, "optimizer": optimizer.init(params), "step": jnp.int32(0)}

    frozen, state = begin()
    if job.mesh is not None:
        state = nx.shard(state, job.stored, job.mesh)
    folder = pathlib.Path(options.out).resolve() / f"{job.model.architecture}.checkpoint"
    if options.resume and folder.exists():
        like = jax.eval_shape(lambda: state)
        state = nx.checkpoints.restore(
            folder, like, axis_resources=job.stored if job.mesh is not None else None, mesh=job.mesh
        )
    step, batch_of = make_step(job, optimizer), batches(job)
    first, history, began = int(state["step"]), [], time.perf_counter()
    for i in range(first, min(options.steps, options.until or options.steps)):
        state, metrics = step(frozen, state, batch_of(i))
        history.append({name: float(value) for name, value in metrics.items()})
        history[-1] |= {"step": i + 1, "rate": float(rate(i))}
        if i == first:
            began = time.perf_counter()  # without compilation
        report(options, history[-1], (i - first) / max(time.perf_counter() - began, 1e-9))
    if options.save:
        nx.checkpoints.save(folder, state, overwrite=True)
    if options.export:
        params = lora.merge(frozen, state["params"]) if options.lora else state["params"]
        nx.interop.save_safetensors(params, job.model.spec, options.export)
    return history


def report(options: argparse.Namespace, metrics: Mapping[str, float], speed: float) -> None:
    """Print a progress bar, and append the metrics to a file of JSON lines."""
    if jax.process_index():
        return
    step = int(metrics["step"])
    bar = "#" * (30 * step // options.steps)
    text = (
        f"[{bar:30s}] step {step:4d}  loss {metrics['loss']:.4f}  gradient"
        f" {metrics['gradient']:7.3f}  rate {metrics['rate']:.1e}"
        f"  {speed * options.batch * options.pos:8.0f} tokens/s"
    )
    last = step == options.steps
    if sys.stdout.isatty():
        print(f"\r{text}", end="\n" if last else "", flush=True)
    elif last or step % max(options.steps // 10, 1) == 0:
        print(text, flush=True)
    with (pathlib.Path(options.out) / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(metrics) + "\n")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m namedax.models train", description=SUMMARY)
    add = parser.add_argument
    add_model(add)
    add_layout(add, common.LAYOUTS, "fsdp+tp")
    add("--explicit", action="store_true", help="a mesh with Explicit axes")
    add("--steps", type=int, default=100, help="(%(default)s)")
    add("--until", type=int, default=0, help="stop after this step; --resume continues")
    add("--batch", type=int, default=16, help="sequences in a batch (%(default)s)")
    add("--pos", type=int, default=64, help="tokens in a sequence (%(default)s)")
    add("--accumulate", type=int, default=1, help="steps in time for the batch (%(default)s)")
    add("--packed", action="store_true", help="several documents in a sequence")
    add("--optimizer", choices=["adamw", "muon"], default="adamw", help="(%(default)s)")
    add("--rate", type=float, default=3e-3, help="the largest learning rate (%(default)s)")
    add("--warmup", type=int, default=10, help="steps of warm-up (%(default)s)")
    add("--decay", type=float, default=0.01, help="weight decay (%(default)s)")
    add("--clip", type=float, default=1.0, help="largest norm of a gradient (%(default)s)")
    add("--bf16", action="store_true", help="compute in bfloat16; parameters stay in float32")
    add("--remat", choices=["layer", "none"], default="layer", help="(%(default)s)")
    add("--dropout", type=float, default=0.0, help="rate of dropped updates (%(default)s)")
    add("--lora", type=int, default=0, help="train adapters of this rank only")
    add("--adapters", type=int, default=0, help="number of adapters that are trained at once")
    add("--microbatches", type=int, default=4, help="of a pipeline (%(default)s)")
    add("--bytes", type=int, default=2_000_000, help="bytes of text (%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    add("--out", default="out", help="folder of results (%(default)s)")
    add("--save", action="store_true", help="write a checkpoint at the end")
    add("--resume", action="store_true", help="continue from the checkpoint, under any layout")
    add("--export", help="write a *.safetensors file at the end")
    add("--processes", type=int, default=1, help="number of processes (%(default)s)")
    add("--process", type=int, default=0, help="index of this process (%(default)s)")
    add("--coordinator", help="address and port of process 0")
    return parser.parse_args(argv)


def make_job(options: argparse.Namespace) -> Job:
    """Read the configuration, and choose the layout."""
    model = open_model(options.model)
    if options.packed and model.architecture not in PACKED:
        raise SystemExit(f"--packed: choose from the models {', '.join(PACKED)}")
    types = jax.sharding.AxisType.Explicit if options.explicit else None
    names = {*common.axis_names(model.config), "rank", "adapter"}
    mesh, resources = read_layout(options, common.LAYOUTS, names, types)
    if options.accumulate > 1:
        entry = resources.get("batch", ())
        entry = entry if isinstance(entry, tuple) else (entry,)
        resources = {**resources, "batch": (*entry, nx.SerialLoop(options.accumulate))}
    config = dataclasses.replace(
        model.config,
        remat=options.remat == "layer",
        dropout=options.dropout,
        microbatches=options.microbatches if "layers" in resources else 0,
    )
    return Job(dataclasses.replace(model, config=config), mesh, resources, options)


def main(argv: list[str] | None = None) -> list[dict[str, float]]:
    """Train, and print the progress."""
    options = parse(argv)
    if options.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(options.coordinator, options.processes, options.process)
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    if not options.resume:
        with contextlib.suppress(FileNotFoundError):
            (pathlib.Path(options.out) / "metrics.jsonl").unlink()
    job = make_job(options)
    if not jax.process_index():
        print(
            f"{job.model.architecture}: {job.axis_resources} on {job.mesh and dict(job.mesh.shape)}"
        )
    return run(job)
