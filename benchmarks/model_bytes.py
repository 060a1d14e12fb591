"""The bytes of a training step of every model of `namedax.models`, against a step by hand.

    python benchmarks/model_bytes.py                                      # every model and layout
    python benchmarks/model_bytes.py --models llama vit --layouts ring    # some of them
    python benchmarks/model_bytes.py --markdown                           # the table of docs/performance.md

The step is the loss and its gradient at the configuration `TINY`, with eight sequences, under the
layouts `tp`, `fsdp`, `ring` and `ep` of `namedax.models.common`. Collectives are those of the
compiled program, those of a loop once for each iteration.

The step by hand is a formula (`by_hand`): the payload of each kind of collective, as an expert
derives it from the configuration. Layers are recomputed in the backward pass, as in the models. For
Llama and Mixtral, `compiled_by_hand` is a program besides: that of `transformer_by_hand.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import transformer_by_hand as hand

import namedax as nx
from namedax.models import common, show
from namedax.models.architectures import ARCHITECTURES, module_of

LAYOUTS = ("tp", "fsdp", "ring", "ep")
EXPERTS = ("mixtral", "deepseek", "gpt_oss")
BATCH, POS, SOURCE = 8, 24, 40
#: The sizes of inputs that the configuration does not have.
INPUTS = {"t5": {"source": SOURCE}, "qwen2_vl": {"image": 1, "row": 16, "column": 16}}
#: Layers of two kinds are branches of a condition, and half of the layers run each.
BRANCHES = ("gemma", "gpt_oss")

Payload = Mapping[str, float]
SHORT = {
    "all-reduce": "AR",
    "all-gather": "AG",
    "reduce-scatter": "RS",
    "all-to-all": "AA",
    "collective-permute": "CP",
}


# --- namedax ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """A model under a layout, and the types of its arguments."""

    model: str
    layout: str

    @property
    def module(self) -> Any:
        """The module of the model."""
        return module_of(self.model)

    @property
    def config(self) -> Any:
        """Its smallest configuration, with a matrix of logits where the program by hand has one."""
        tiny = self.module.TINY
        return dataclasses.replace(tiny, tied=False) if self.model == "llama" else tiny

    @functools.cached_property
    def batch(self) -> dict[str, Any]:
        """The types of eight sequences or images, in float32."""
        sizes = {"batch": 1, "pos": POS} | INPUTS.get(self.model, {})

        def wide(x: Any) -> Any:
            is_float = jnp.issubdtype(x.dtype, jnp.floating)
            return jax.ShapeDtypeStruct(x.shape, jnp.float32 if is_float else x.dtype)

        return jax.tree.map(wide, show.batch_types(self.config, sizes, BATCH))

    @functools.cached_property
    def params(self) -> Any:
        """The types of the parameters."""
        return jax.eval_shape(lambda: self.module.init(self.config, jax.random.key(0)))

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """The size of every axis name of the parameters and inputs."""
        sizes = dict(self.config.sizes()) | {"batch": BATCH}
        for leaf in self.batch.values():
            sizes |= leaf.named_shape
        sizes.setdefault("pos", sizes.get("pos_sp", 0))
        if self.model == "qwen2_vl":  # patches of an image
            sizes["source"] = sizes["row"] * sizes["column"] // self.config.patch**2
        return sizes

    @property
    def axes(self) -> dict[str, int]:
        """The mesh axes of the layout."""
        return common.LAYOUTS[self.layout][0]

    @property
    def resources(self) -> dict[str, Any]:
        """The layout, for the axis names that the model has."""
        names = {*self.sizes, *(f"{name}_sp" for name in self.sizes)}
        return common.layout(self.layout, names)[1]

    @property
    def devices(self) -> int:
        """The number of devices."""
        return math.prod(self.axes.values())

    def compiled(self) -> jax.stages.Compiled:
        """The compiled step."""
        module, config = self.module, self.config

        def step(params: Any, batch: Any) -> Any:
            return jax.value_and_grad(module.loss)(params, batch, config)

        mesh, sizes = common.make_mesh(self.axes), config.sizes()
        f = nx.xmap(step, axis_resources=self.resources, axis_sizes=sizes, mesh=mesh)
        return f.lower(self.params, self.batch).compile()


@dataclasses.dataclass(frozen=True)
class Sent:
    """The number of collectives of each kind, their payload, and the bytes that a device sends."""

    counts: Mapping[str, float]
    payload: Payload
    wire: float

    @classmethod
    def of(cls, compiled: jax.stages.Compiled, branches: bool = False) -> Sent:
        """Those of a compiled program. The permutes of attention in two branches count once."""
        counts, payload, wire = Counter[str](), Counter[str](), 0.0
        for one in nx.hlo.collectives(compiled):
            share = 0.5 if branches and one.kind == "collective-permute" else 1
            times = one.trips * share
            counts[one.kind] += times  # type: ignore[assignment]
            payload[one.kind] += times * one.bytes  # type: ignore[assignment]
            wire += times * one.wire_bytes
        return cls(counts, payload, wire)

    def __str__(self) -> str:
        order = [kind for kind in SHORT if self.payload.get(kind)]
        parts = [
            f"{self.counts[kind]:.0f} {SHORT[kind]} ({size_text(self.payload[kind])})"
            for kind in order
        ]
        return ", ".join(parts) or "none"


def measured(case: Case) -> Sent:
    """The collectives of the compiled step."""
    return Sent.of(case.compiled(), case.model in BRANCHES and case.layout == "ring")


def elements(array: nx.NamedArray) -> int:
    """The number of elements of an array of named axes."""
    return math.prod(array.named_shape.values())


def wire_bytes(payload: Payload, devices: int) -> float:
    """The bytes that a device sends on a ring, as `nx.hlo.Collective.wire_bytes`."""
    rounds = {"all-reduce": 2 * (devices - 1) / devices, "collective-permute": 1}
    return sum(rounds.get(kind, (devices - 1) / devices) * n for kind, n in payload.items())


def size_text(size: float) -> str:
    """A number of bytes as text."""
    return f"{size / 1024:.1f} KiB" if size >= 100 else f"{size:.0f} B"


# --- by hand ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Stack:
    """One loop over layers.

    Attributes:
      layers: the axis of the layers.
      pos: the axis of the positions.
      sums: the all-reduces of the residual stream under tensor parallelism in a layer: of the
        forward pass, again where the backward pass needs a sum that it recomputes, and of its
        cotangents.
      attends: the axes of the keys of each attention.
      embed: the axis of the residual stream.
    """

    layers: str = "layers"
    pos: str = "pos"
    sums: tuple[int, int, int] = (2, 1, 2)
    attends: tuple[str, ...] = ("pos",)
    embed: str = "embed"


ENCODER = Stack("source_layers", "source", attends=("source",))
DECODER = Stack(sums=(3, 2, 3), attends=("pos", "source"))
#: The loops of each model, in the order of their layers; one like Llama's for the others.
STACKS: dict[str, tuple[Stack, ...]] = {
    # The norm after each block needs the block's sum.
    "gemma": (Stack(sums=(2, 2, 2)),),
    # Attention sums the cotangents of two narrow vectors instead (`tensor`).
    "deepseek": (Stack("dense_layers", sums=(2, 1, 1)), Stack(sums=(2, 1, 1))),
    "t5": (ENCODER, DECODER),
    "whisper": (ENCODER, DECODER),
    # The gradient of a factor needs the sum that it multiplies.
    "dit": (Stack(sums=(2, 2, 2)),),
    "mamba": (Stack(sums=(1, 0, 1), attends=()),),
    "qwen2_vl": (dataclasses.replace(ENCODER, embed="image_embed"), Stack()),
}


class Hand:
    """The payload of a step by hand, in bytes of float32 and int32."""

    def __init__(self, case: Case):
        self.case, self.sizes, self.config = case, case.sizes, case.config
        self.devices = case.devices
        self.stacks = STACKS.get(case.model, (Stack(),))
        self.loops = {stack.layers for stack in self.stacks}
        self.leaves = dict(common.places(case.params))
        if case.model == "deepseek":  # only chooses, without a gradient
            del self.leaves["layers/router_bias"]
        self.has_words = "vocab" in self.sizes
        self.payload = Counter[str]()
        getattr(self, {"tp": "tensor"}.get(case.layout, case.layout))()

    def add(self, kind: str, *sizes: float) -> None:
        """Add a collective of an array of these sizes."""
        self.payload[kind] += 4 * math.prod(sizes)  # type: ignore[assignment]

    def size(self, *names: str) -> int:
        """The product of the sizes of axes."""
        return math.prod(self.sizes[name] for name in names)

    def block(self, name: str) -> int:
        """The number of positions of a device, with padding."""
        return -(-self.sizes[name] // self.devices)

    def place(self, leaf: Any) -> bool:
        """Return True if a parameter is sharded; of equal blocks, as outside of the step."""
        names = [name for name in leaf.named_shape if name in self.case.resources]
        return any(self.sizes[name] % self.devices == 0 for name in names)

    def loss(self) -> None:
        """Sum the loss over devices that have other tokens, and what balances the experts."""
        self.add("all-reduce", 1)
        if getattr(self.config, "balance", 0):
            self.add("all-reduce", 2, self.sizes["expert"])

    def gradients(self, without: tuple[str, ...] = ()) -> None:
        """Sum the gradients of the parameters that every device has, once."""
        for place, leaf in self.leaves.items():
            if not self.place(leaf) and not place.startswith(without):
                is_read = place == "positions" and self.case.layout == "fsdp"  # for the tokens only
                size = self.size("pos", "embed") if is_read else elements(leaf)
                self.add("all-reduce", size)

    # --- tensor parallelism

    def tensor(self) -> None:
        """Sum the outputs of the blocks, and the cotangents of their inputs."""
        size, tokens = self.size, self.sizes["batch"] * self.sizes["pos"]
        for stack in self.stacks:
            rows = size("batch", stack.pos, stack.embed)
            self.add("all-reduce", size(stack.layers), sum(stack.sums), rows)
        if self.has_words:  # the rows of the table, the loss, and the cotangent of the readout
            for pos in ["pos", "source"] if self.case.model == "t5" else ["pos"]:
                self.add("all-reduce", size("batch", pos, "embed"))
            self.add("all-reduce", tokens)  # the largest logits
            self.add("all-reduce", tokens + 1)  # their sums, and the sum of the targets' logits
            self.add("all-reduce", tokens, size("embed"))
        if ENCODER in self.stacks:  # the cotangents of the memory, summed over layers first
            self.add("all-reduce", size("batch", "source", "embed"))
        if self.case.model in EXPERTS:  # the gradient of the weights of the choices
            self.add("all-reduce", size("layers"), tokens, self.config.chosen)
        if self.case.model == "deepseek":  # the cotangents of the low-rank queries and keys
            narrow = self.config.query_rank + self.config.latent + self.config.rope
            self.add("all-reduce", sum(size(one) for one in self.loops), tokens, narrow)
        if self.case.model == "gemma":  # the scales of the norms of queries and keys
            self.add("all-reduce", 2, size("layers", "key"))
        if (
            self.case.model == "mamba"
        ):  # one matrix is for heads and has no axis of heads: gradients
            for name in ("in", "taps", "taps_bias"):
                self.add("all-gather", elements(self.leaves[f"layers/{name}"]))

    # --- FSDP

    def fsdp(self) -> None:
        """Gather each weight, in loops also in the backward pass, and scatter its gradient."""
        for leaf in self.leaves.values():
            if self.place(leaf):
                in_loop = not self.loops.isdisjoint(leaf.named_shape)
                self.add("all-gather", 2 if in_loop else 1, elements(leaf))
                self.add("reduce-scatter", elements(leaf))
        if self.case.model == "dit":  # the last layer embeds times and classes as the first one
            for name in ("time1", "time2", "label"):
                for kind in ("all-gather", "reduce-scatter"):
                    self.add(kind, elements(self.leaves[f"layers/{name}"]) / self.sizes["layers"])
        # The sum of all positions' gradients is known from that of each position.
        self.gradients(("first", "patches_bias") if self.case.model == "vit" else ())
        self.loss()

    # --- context parallelism

    def ring(self) -> None:
        """Permute keys and values around the ring, again in the backward pass, with gradients."""
        size, model = self.size, self.case.model
        for stack in self.stacks:
            for keys in stack.attends:
                rows = size("batch", stack.layers) * self.block(keys)
                # Forwards, recomputed, and backwards with the gradients: four times.
                self.add("collective-permute", 4, self.devices - 1, rows, self.width(stack))
        if model == "mamba":
            self.recurrence()
        if model == "whisper":  # the frame before and after a block, and before a pair of frames
            self.add("collective-permute", 2, size("batch", "mel"))
            self.add("collective-permute", 2, size("batch", "channel"))
        replicated: tuple[str, ...] = ()
        if model == "vit":  # each device has the output of the first position; positions are uneven
            replicated = ("classify", "norm", "positions")
            self.add("all-reduce", size("batch", "embed"))
            self.add("all-gather", self.devices * self.block("pos"), size("embed"))
        if model == "dit":  # cotangents of shifts, scales and factors are smaller than the weights
            replicated = ("layers/time", "layers/label", "layers/modulate", "modulate")
            self.add("all-reduce", 6 * size("layers") + 2, size("batch", "embed"))
        if model == "qwen2_vl":
            # Every device merges all patches: gathered, and the cotangents of cells are summed.
            replicated = ("image/merge", "image/project")
            cells = size("source") // self.config.merge**2
            self.add("all-gather", size("batch", "source", "image_embed"))
            self.add("all-reduce", size("batch", "embed"), cells)
            self.add("all-gather", self.devices, size("batch"))  # the numbers of tokens of images
        self.gradients(replicated)
        if model != "vit":
            self.loss()

    def width(self, stack: Stack) -> int:
        """The features of a key and its value."""
        if self.case.model == "deepseek":  # the value is a part of the key
            return int(self.config.latent + self.config.rope)
        if stack.embed == "image_embed":
            return 2 * self.size("image_heads", "image_key")
        return 2 * self.size("kv_heads", "key")

    def recurrence(self) -> None:
        """Permute the inputs of the convolution before a block, and states in a scan over devices.

        Each forwards, recomputed, and backwards.
        """
        size, config = self.size, self.config
        convolved = size("kv_heads") * (size("group", "key") + 2 * size("state"))
        self.add("collective-permute", 3, size("layers", "batch"), config.tap - 1, convolved)
        rounds, heads = (
            math.ceil(math.log2(self.devices)),
            size("layers", "batch", "kv_heads", "group"),
        )
        self.add("collective-permute", 3, rounds, heads, size("key", "state"))
        self.add("collective-permute", 3, rounds - 1, heads)  # decays, for the next round

    # --- expert parallelism

    def ep(self) -> None:
        """Send tokens to their experts and back.

        There again, with the cotangents and the weights of the choices, and back. The load is even.
        """
        tokens = self.size("batch", "pos") // self.devices
        choices = self.size("layers") * tokens * self.config.chosen
        self.add("all-to-all", choices, 5 * self.size("embed") + 2)
        self.gradients()
        self.loss()


def by_hand(case: Case) -> Payload:
    """The payload of each kind of collective of a step by hand, by its formula."""
    return Hand(case).payload


def compiled_by_hand(case: Case) -> jax.stages.Compiled | None:
    """The compiled step of `transformer_by_hand.py` with these sizes, for Llama and Mixtral."""
    if case.model not in ("llama", "mixtral"):
        return None
    layers, embed, heads, group, key, hidden, vocab = (
        case.sizes[name]
        for name in ("layers", "embed", "kv_heads", "group", "key", "hidden", "vocab")
    )
    shapes: dict[str, Any] = {
        "query": (embed, heads, group, key),
        **dict.fromkeys(("key", "value"), (embed, heads, key)),
        "out": (heads, group, key, embed),
        **dict.fromkeys(("gate", "up"), (embed, hidden)),
        "down": (hidden, embed),
        **dict.fromkeys(("norm1", "norm2"), (embed,)),
    }
    mixture = None
    if case.model == "mixtral":
        experts, chosen = case.sizes["expert"], case.config.chosen
        mixture = hand.Mixture(experts, chosen, POS * chosen // experts)
        shapes |= {name: (experts, *shapes[name]) for name in ("gate", "up", "down")}
        shapes["router"] = (embed, experts)
    shapes = {name: (layers, *shape) for name, shape in shapes.items()}
    tree = {"embed": (vocab, embed), "norm": (embed,), "unembed": (embed, vocab), "layers": shapes}
    layout = {
        "tp": hand.Layout(model="model", mixture=mixture),
        "fsdp": hand.Layout(data="data", fsdp=True, mixture=mixture),
        "ring": hand.Layout(context="context", mixture=mixture),
        "ep": hand.Layout(data="data", spread=True, mixture=mixture),
    }[case.layout]
    params = jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )
    tokens = jax.ShapeDtypeStruct((BATCH, POS), jnp.int32)
    step = hand.mapped(layout, common.make_mesh(case.axes, jax.sharding.AxisType.Auto))
    return step.lower(params, tokens, tokens).compile()


# --- the table --------------------------------------------------------------------------------------


def cases(models: list[str], layouts: list[str]) -> Iterator[Case]:
    """The models under their layouts."""
    for model in models:
        for layout in layouts:
            if layout != "ep" or model in EXPERTS:
                yield Case(model, layout)


def row(case: Case) -> list[str]:
    """The model, its layout, and the collectives and bytes of both."""
    sent, program = measured(case), compiled_by_hand(case)
    wire = wire_bytes(by_hand(case), case.devices)
    known = "" if program is None else size_text(Sent.of(program).wire)
    sizes = (size_text(sent.wire), size_text(wire), known)
    return [case.model, case.layout, str(sent), *sizes, f"{sent.wire / wire:.2f}"]


HEADER = ["model", "layout", "namedax", "sent", "by hand", "program by hand", "ratio"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=sorted(ARCHITECTURES))
    parser.add_argument("--layouts", nargs="*", default=LAYOUTS)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if options.markdown:
        print("|", " | ".join(HEADER), "|")
        print("|", " | ".join(["---"] * len(HEADER)), "|")
    for case in cases(options.models, options.layouts):
        cells = row(case)
        print("| " + " | ".join(cells) + " |" if options.markdown else "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
