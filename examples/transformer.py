"""Train a language model on the standard library's sources, byte by byte, under any layout.

    python examples/transformer.py --layout fsdp+tp+sp python examples/transformer.py --layout all
    --steps 20     # compares the loss curves python examples/transformer.py --layout pp+dp
    # layers in a pipeline of two stages python examples/transformer.py --layout ep
    # expert parallelism over the devices of the batch python examples/transformer.py --plan v5e
    # the layout from nx.plan for eight such chips

The model in `transformer_model.py` is independent of the mesh. A layout is a mesh and a dictionary.
optax trains the model. The script writes an orbax checkpoint at the end, and `--resume` continues
from it under any layout.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import pathlib
import sysconfig
import time
from typing import Any

os.environ["XLA_FLAGS"] = f"{os.getenv('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from transformer_model import Config, init, loss, sample

import namedax as nx
from namedax import SerialLoop

MACHINES = [
    name
    for name in nx.machines.__all__
    if isinstance(getattr(nx.machines, name), nx.machines.Machine)
]
HEADS = {"kv_heads": "model", "hidden": "model", "vocab": "model"}
# A mesh (axes and sizes), and `axis_resources`.
LAYOUTS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "single": ({}, {}),
    "dp": ({"data": 8}, {"batch": "data"}),
    "tp": ({"model": 4}, HEADS),
    "dp+tp": ({"data": 2, "model": 4}, {"batch": "data", **HEADS}),
    "fsdp": ({"data": 8}, {"batch": "data", "embed_fsdp": "data"}),
    "fsdp+tp+sp": (
        {"data": 2, "model": 4},
        {"batch": "data", "embed_fsdp": "data", "pos_sp": "model", **HEADS},
    ),
    "accumulation": ({"data": 2}, {"batch": ("data", SerialLoop(4))}),
    "tp+accumulation": ({"model": 4}, {"batch": SerialLoop(4), **HEADS}),
    "fsdp+accumulation": ({"data": 4}, {"batch": ("data", SerialLoop(4)), "embed_fsdp": "data"}),
    "fsdp+tp+sp+accumulation": (
        {"data": 2, "model": 4},
        {"batch": ("data", SerialLoop(4)), "embed_fsdp": "data", "pos_sp": "model", **HEADS},
    ),
    "ring": ({"context": 4, "data": 2}, {"batch": "data", "pos": "context", "pos_sp": "context"}),
    "pp": ({"pipe": 2}, {"layers": "pipe"}),
    "pp+dp": ({"pipe": 2, "data": 4}, {"layers": "pipe", "batch": "data"}),
    "pp+tp": ({"pipe": 2, "model": 4}, {"layers": "pipe", **HEADS}),
    "pp+fsdp": ({"pipe": 2, "data": 4}, {"layers": "pipe", "batch": "data", "embed_fsdp": "data"}),
    "pp+fsdp+tp+sp": (
        {"pipe": 2, "data": 2, "model": 2},
        {"layers": "pipe", "batch": "data", "embed_fsdp": "data", "pos_sp": "model", **HEADS},
    ),
    "single+moe": ({}, {}),
    "ep": ({"data": 8}, {"batch": "data", "expert": "data"}),
    "pp+ep": ({"pipe": 2, "data": 4}, {"layers": "pipe", "batch": "data", "expert": "data"}),
    "ep+tp": ({"data": 4, "model": 2}, {"batch": "data", "expert": "data", **HEADS}),
}
# Layouts of a mixture of experts, and the default number of experts. --experts adds experts to the
# other layouts.
MIXTURES, EXPERTS = ("single+moe", "ep", "pp+ep", "ep+tp"), 8
# Layouts with a pipeline of layers, and the default number of microbatches per device
# (--microbatches).
PIPELINES, MICROBATCHES = (
    tuple(name for name, (_, resources) in LAYOUTS.items() if "layers" in resources),
    4,
)


def corpus() -> np.ndarray:
    """Bytes of the standard library's sources."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    return np.frombuffer(
        b"\n".join(path.read_bytes() for path in sorted(folder.glob("*.py"))), np.uint8
    )


def batch_of(
    text: np.ndarray, step: int, size: int, length: int
) -> tuple[nx.NamedArray, nx.NamedArray]:
    """The tokens of a step and the next tokens; the same for every layout and every run."""
    starts = np.random.default_rng(step).integers(0, len(text) - length - 1, size)
    rows = np.stack([text[start : start + length + 1] for start in starts]).astype(np.int32)
    return nx.named(jnp.asarray(rows[:, :-1]), ["batch", "pos"]), nx.named(
        jnp.asarray(rows[:, 1:]), ["batch", "pos"]
    )


def planned(
    machine: str, options: argparse.Namespace, config: Config
) -> tuple[dict[str, int], dict[str, Any]]:
    """The mesh of eight devices and the layout from `nx.plan` for a machine, from types alone."""
    params = jax.eval_shape(functools.partial(init, config), jax.random.key(0))
    tokens = jax.eval_shape(
        lambda: nx.named(jnp.zeros((options.batch, config.pos), jnp.int32), ["batch", "pos"])
    )
    step = nx.xmap(jax.value_and_grad(functools.partial(loss, config=config)))
    plan = nx.plan(
        step,
        params,
        tokens,
        tokens,
        mesh=8,
        machine=getattr(nx.machines, machine),
        tries=24,
        progress=False,
    )
    print(f"the plan for 8 {machine}: {plan.best} on {plan.mesh}")
    return dict(plan.mesh), dict(plan.best)


def train(
    layout: str, options: argparse.Namespace, config: Config, text: np.ndarray
) -> tuple[list[float], Any]:
    """Losses of all steps, and the parameters."""
    import orbax.checkpoint as ocp  # here, because the layouts alone do not need this import

    shape, resources = LAYOUTS[layout]
    count = int(np.prod(list(shape.values()), dtype=int))
    kinds = (jax.sharding.AxisType.Auto,) * len(shape)
    mesh = (
        jax.make_mesh(tuple(shape.values()), tuple(shape), kinds, devices=jax.devices()[:count])
        if shape
        else None
    )
    optimizer = optax.adamw(
        optax.warmup_cosine_decay_schedule(0.0, 3e-3, 20, max(options.steps, 21)), weight_decay=0.01
    )
    gradient = nx.xmap(
        jax.value_and_grad(functools.partial(loss, config=config)),
        axis_resources=resources,
        mesh=mesh,
    )

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, state: Any, tokens: Any, targets: Any) -> Any:
        value, grads = gradient(params, tokens, targets)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    def begin() -> Any:
        params = init(config, jax.random.key(0))
        return {"params": params, "state": optimizer.init(params), "step": jnp.zeros((), int)}

    folder = (pathlib.Path(options.out) / "transformer").resolve()
    first, current = 0, None
    if options.resume and folder.exists():
        abstract = jax.eval_shape(begin)
        target = nx.interop.abstract(abstract, resources, mesh) if mesh is not None else abstract
        with ocp.StandardCheckpointer() as checkpointer:
            current = checkpointer.restore(folder, target)
        first = int(current["step"])
    if current is None:
        current = nx.shard(begin(), resources, mesh) if mesh is not None else begin()
    params, state = current["params"], current["state"]
    losses, began = [], time.perf_counter()
    for i in range(first, options.steps):
        params, state, value = step(params, state, *batch_of(text, i, options.batch, config.pos))
        losses.append(float(value))
        if i == first:
            began = time.perf_counter()  # without compilation
        speed = (i - first) * options.batch * config.pos / max(time.perf_counter() - began, 1e-9)
        done = 30 * (i + 1) // options.steps
        print(
            f"\r{layout:>13s} [{'#' * done:30s}] step {i + 1:4d} loss {losses[-1]:.4f} {speed:8.0f}"
            " tokens/s",
            end="",
            flush=True,
        )
    print()
    compiled = step.lower(params, state, *batch_of(text, 0, options.batch, config.pos)).compile()
    print(f"{'':13s} a step sends {nx.hlo.summary(compiled)}")
    if options.save:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(
                folder,
                {"params": params, "state": state, "step": jnp.asarray(options.steps)},
                force=True,
            )
    return losses, params


def picture(curves: dict[str, list[float]], path: pathlib.Path) -> None:
    """Plot the loss curves."""
    import matplotlib  # here, because only this needs it

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for layout, losses in curves.items():
        axes.plot(range(1, len(losses) + 1), losses, label=layout)
    axes.set(
        xlabel="step",
        ylabel="cross-entropy (nats per byte)",
        title="The standard library, byte by byte",
    )
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Train, save, draw and sample."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layout", choices=[*LAYOUTS, "all"], default="fsdp+tp+sp")
    parser.add_argument(
        "--plan",
        choices=MACHINES,
        help="use the layout from nx.plan for this machine",
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--pos", type=int, default=128, help="the length of a sequence")
    parser.add_argument(
        "--experts", type=int, default=0, help="experts per layer; 0: one feed-forward network"
    )
    parser.add_argument(
        "--microbatches",
        type=int,
        default=MICROBATCHES,
        help="microbatches of the local batch in a pipeline",
    )
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "out"))
    parser.add_argument(
        "--resume", action="store_true", help="continue from the checkpoint in --out"
    )
    parser.add_argument("--no-save", dest="save", action="store_false", help="write no checkpoint")
    parser.add_argument(
        "--prompt", default="def ", help="prompt for a sample at the end; empty: no sample"
    )
    options = parser.parse_args()
    text, out = corpus(), pathlib.Path(options.out)
    dense = dataclasses.replace(
        Config(layers=options.layers, pos=options.pos), experts=options.experts
    )
    mixture = dataclasses.replace(dense, experts=options.experts or EXPERTS)
    out.mkdir(parents=True, exist_ok=True)
    curves: dict[str, list[float]] = {}
    config, params = dense, None
    if options.plan:
        LAYOUTS["planned"], options.layout = (
            planned(options.plan, options, mixture if options.experts else dense),
            "planned",
        )
    for layout in LAYOUTS if options.layout == "all" else [options.layout]:
        config = mixture if layout in MIXTURES else dense
        config = dataclasses.replace(
            config, microbatches=options.microbatches if layout in PIPELINES else 0
        )
        curves[layout], params = train(layout, options, config, text)
    picture(curves, out / "transformer.png")
    for kind in (True, False):
        # The curves of one model are equal.
        same = [losses for layout, losses in curves.items() if (layout in MIXTURES) == kind]
        distance = max(
            (max(map(abs, np.subtract(losses, same[0])), default=0.0) for losses in same),
            default=0.0,
        )
        if len(same) > 1:
            model = "a mixture of experts" if kind or options.experts else "the dense model"
            print(
                f"the loss curves of {model} under {len(same)} layouts differ by at most"
                f" {distance:.2g}"
            )
    if options.prompt:
        params = jax.device_put(jax.tree.map(np.asarray, params), jax.devices()[0])
        prompt = jnp.asarray(np.frombuffer(options.prompt.encode(), np.uint8), jnp.int32)
        tokens = jax.jit(functools.partial(sample, config=config))(
            params, prompt, jax.random.key(1)
        )
        with contextlib.suppress(UnicodeEncodeError):
            print(bytes(np.asarray(tokens, np.uint8)).decode(errors="replace"))


if __name__ == "__main__":
    main()
