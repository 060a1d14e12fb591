"""A tiny transformer under the layouts in which large models are trained: the matrix of `test_training_layouts.py`.

The model is written twice: over names, and in plain `jnp`, which is the oracle.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

import namedax as nx

LAYERS = 2
# All different, but where the model wants them equal; every one divides over the mesh axes below.
SIZES = {"embed": 8, "heads": 2, "key": 6, "mlp": 12, "vocab": 10, "pos": 4, "batch": 16}
HEADS = {"heads": "model", "mlp": "model", "vocab": "model"}
PARAMETERS = {
    "embed": ("vocab", "embed_st"),
    "norm": (None, "embed"),
    "query": (None, "embed_st", "heads", "key"),
    "pair": (None, "embed_st", "heads", "key"),
    "value": (None, "embed_st", "heads", "key"),
    "out": (None, "heads", "key", "embed_st"),
    "up": (None, "embed_st", "mlp"),
    "down": (None, "mlp", "embed_st"),
    "unembed": ("embed_st", "vocab"),
}
# A mesh, and where the names live. The batch has the mesh axes that are named first, and then the loop.
LAYOUTS: dict[str, tuple[dict[str, int], tuple[str, ...], dict[str, Any]]] = {
    "dp": ({"data": 2}, ("data",), {}),
    "tp": ({"model": 2}, (), HEADS),
    "dp+tp": ({"data": 2, "model": 2}, ("data",), HEADS),
    "fsdp": ({"data": 4}, ("data",), {"embed_st": "data"}),
    "fsdp+tp": ({"data": 2, "model": 2}, ("data",), {"embed_st": "data", **HEADS}),
    "fsdp+tp+sp": ({"data": 2, "model": 2}, ("data",), {"embed_st": "data", "pos_sp": "model", **HEADS}),
    "fsdp on two": ({"data": 2, "more": 2}, ("data", "more"), {"embed_st": ("data", "more")}),
    "hybrid fsdp": ({"replica": 2, "data": 2}, ("replica", "data"), {"embed_st": "data"}),
    "ring+tp": ({"context": 2, "model": 2}, (), {"pos": "context", "pos_sp": "context", **HEADS}),
    "ring+fsdp": ({"context": 2, "data": 2}, ("data",), {"pos": "context", "pos_sp": "context", "embed_st": "data"}),
}
# Nothing divides: 2 heads and 10 words over 4 devices, 16 sequences and 8 features over 3, 4 positions over 3.
UNEVEN_LAYOUTS: dict[str, tuple[dict[str, int], tuple[str, ...], dict[str, Any]]] = {
    "uneven dp": ({"data": 3}, ("data",), {}),
    "uneven tp": ({"model": 4}, (), HEADS),
    "uneven fsdp": ({"data": 3}, ("data",), {"embed_st": "data"}),
    "uneven fsdp+tp+sp": ({"data": 2, "model": 3}, ("data",), {"embed_st": "data", "pos_sp": "model", **HEADS}),
    "uneven ring+fsdp": ({"context": 3, "data": 2}, ("data",), {"pos": "context", "pos_sp": "context", "embed_st": "data"}),
}
# The layers are stages: those of `nx.pipeline`, with two microbatches.
PIPELINES: dict[str, tuple[dict[str, int], tuple[str, ...], dict[str, Any]]] = {
    "pp": ({"pipe": 2}, (), {"layers": "pipe"}),
    "pp+dp": ({"pipe": 2, "data": 2}, ("data",), {"layers": "pipe"}),
    "pp+tp": ({"pipe": 2, "model": 2}, (), {"layers": "pipe", **HEADS}),
    "pp+fsdp": ({"pipe": 2, "data": 2}, ("data",), {"layers": "pipe", "embed_st": "data"}),
    "pp+fsdp+tp+sp": (
        {"pipe": 2, "data": 2, "model": 2},
        ("data",),
        {"layers": "pipe", "embed_st": "data", "pos_sp": "model", **HEADS},
    ),
}
STEPS = (1, 2, 4)
MODES = ("plain", "loss", "layers", "overlap")
PARTITIONINGS = ("manual", "auto")
WHERE = ("inside", "outside")
LOOPS = ("scan", "fold", "python")


@dataclasses.dataclass(frozen=True)
class Case:
    """One layout, accumulated over a number of steps, and how its gradient is taken."""

    layout: str
    steps: int = 1
    mode: str = "plain"
    partitioning: str = "manual"
    where: str = "inside"
    loop: str = "scan"

    def __str__(self) -> str:
        return "-".join(map(str, dataclasses.astuple(self))).replace(" ", "_")

    @property
    def _layout(self) -> tuple[dict[str, int], tuple[str, ...], dict[str, Any]]:
        return (LAYOUTS | UNEVEN_LAYOUTS | PIPELINES)[self.layout]

    @property
    def resources(self) -> dict[str, Any]:
        """What `axis_resources` is."""
        _, batch, rest = self._layout
        entry = (*batch, *((nx.SerialLoop(self.steps),) if self.steps > 1 else ()))
        return {**rest, **({"batch": entry} if entry else {})}

    @property
    def mesh(self) -> jax.sharding.Mesh:
        """The mesh."""
        shape = self._layout[0]
        devices = jax.devices()[: math.prod(shape.values())]
        return jax.make_mesh(tuple(shape.values()), tuple(shape), (AxisType.Auto,) * len(shape), devices=devices)


def everything() -> Iterator[Case]:
    """The whole matrix; its gradients are taken inside and outside of the body by turns."""
    turns = itertools.cycle(WHERE)
    for layout in LAYOUTS:
        for steps in STEPS:
            for mode in MODES:
                for partitioning in PARTITIONINGS:
                    if not (mode == "overlap" and partitioning == "auto"):  # there XLA chooses
                        yield Case(layout, steps, mode, partitioning, next(turns))


# --- over names -----------------------------------------------------------------------------------------------------

READ = "{{batch,pos:pos_sp,embed}},{{embed:embed_st,{0}}}->{{batch,pos,{0}}}"
WRITE = "{{batch,pos,{0}}},{{{0},embed:embed_st}}->{{batch,pos_sp:pos,embed}}"


def layer(x: Any, p: Any) -> Any:
    """One layer."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm"])
    query, key, value = (nx.einsum(READ.format("heads,key"), h, p[name]) for name in ("query", "pair", "value"))
    attended = nx.nn.dot_product_attention(query, key, value, axis="pos", features="key", is_causal=True)
    x = x + nx.einsum(WRITE.format("heads,key"), attended, p["out"])
    up = nx.einsum(READ.format("mlp"), nx.nn.rms_norm(x, "embed"), p["up"])
    return x + nx.einsum(WRITE.format("mlp"), nx.nn.gelu(up), p["down"])


def loss(params: Any, tokens: Any, targets: Any, case: Case) -> Any:
    """Mean cross-entropy."""
    x = nx.take(nx.rename(params["embed"], {"embed_st": "embed"}), tokens, "vocab")
    x = nx.rename(x, {"pos": "pos_sp"})
    stacked = {name: p for name, p in params.items() if PARAMETERS[name][0] is None}
    step = jax.checkpoint(layer) if case.mode == "layers" else layer
    if case.loop == "scan":
        x, _ = nx.scan(lambda x, p: (step(x, p), None), x, stacked)
    elif case.loop == "pipeline":
        x = nx.pipeline(layer, x, stacked, microbatches=2, remat=case.mode == "layers")
    elif case.loop == "fold":
        x = nx.fold(step, x, stacked)
    else:
        for i in range(LAYERS):
            x = step(x, {name: p[i] for name, p in stacked.items()})
    logits = nx.einsum(READ.format("vocab"), nx.nn.rms_norm(x, "embed"), params["unembed"])
    return nx.mean(nx.nn.softmax_cross_entropy(logits, targets, "vocab"), ("batch", "pos"))


def mapped(case: Case) -> Any:
    """Loss and gradient of named parameters."""
    body = functools.partial(loss, case=case)
    if case.mode == "loss":
        body = jax.checkpoint(body)
    options = {
        "axis_resources": case.resources,
        "mesh": case.mesh,
        "partitioning": case.partitioning,
        "overlap": case.mode == "overlap",
    }
    if case.where == "inside":
        return nx.xmap(jax.value_and_grad(body), **options)
    return jax.jit(jax.value_and_grad(nx.xmap(body, **options)))


# --- in plain jnp ---------------------------------------------------------------------------------------------------


def plain_loss(params: Any, tokens: Any, targets: Any) -> Any:
    """The same on positional arrays."""

    def norm(x: Any) -> Any:
        return x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)

    x, position = params["embed"][tokens], jnp.arange(tokens.shape[1])
    for i in range(LAYERS):
        p = {name: value[i] for name, value in params.items() if PARAMETERS[name][0] is None}
        h = norm(x) * p["norm"]
        query, key, value = (jnp.einsum("bpe,ehk->bphk", h, p[name]) for name in ("query", "pair", "value"))
        scores = jnp.einsum("bphk,bqhk->bhpq", query, key) / math.sqrt(SIZES["key"])
        scores = jnp.where(position[:, None] >= position, scores, -jnp.inf)
        x = x + jnp.einsum("bhpq,bqhk,hke->bpe", jax.nn.softmax(scores), value, p["out"])
        x = x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]
    logp = jax.nn.log_softmax(norm(x) @ params["unembed"])
    return -jnp.take_along_axis(logp, targets[..., None], -1).mean()


@functools.cache
def expected() -> Any:
    """Named arguments, and what `jax.value_and_grad` of the plain loss gives."""
    rng = np.random.default_rng(0)

    def make(names: tuple[str | None, ...]) -> Any:
        shape = [LAYERS if name is None else SIZES[name.removesuffix("_st")] for name in names]
        return jnp.asarray(rng.normal(size=shape) * 0.5, jnp.float32)

    params = {name: make(names) for name, names in PARAMETERS.items()}
    tokens, targets = (jnp.asarray(rng.integers(0, SIZES["vocab"], (SIZES["batch"], SIZES["pos"]))) for _ in range(2))
    want = jax.jit(jax.value_and_grad(plain_loss))(params, tokens, targets)
    named = {name: nx.named(value, list(PARAMETERS[name])) for name, value in params.items()}
    return (named, nx.named(tokens, ["batch", "pos"]), nx.named(targets, ["batch", "pos"])), want


def check(case: Case) -> None:
    """Loss and gradients are those of plain `jnp`."""
    (params, *tokens), (want, want_grads) = expected()
    have, grads = mapped(case)(layers_named(params, case), *tokens)
    np.testing.assert_allclose(have, want, rtol=1e-5)
    for name, names in PARAMETERS.items():
        axes = ["layers" if axis is None and case.loop == "pipeline" else axis for axis in names]
        np.testing.assert_allclose(nx.positional(grads[name], axes), want_grads[name], rtol=2e-4, atol=2e-6, err_msg=name)


def check_curve(case: Case, steps: int = 4, rate: float = 0.5) -> None:
    """The losses of some steps of gradient descent are those of plain `jnp`."""
    (params, *tokens), (want, want_grads) = expected()
    plain = {name: nx.positional(p, list(PARAMETERS[name])) for name, p in params.items()}
    arrays = [nx.positional(t, ["batch", "pos"]) for t in tokens]
    params, step, plain_step = layers_named(params, case), mapped(case), jax.jit(jax.value_and_grad(plain_loss))
    curves: list[tuple[float, float]] = []
    for _ in range(steps):
        have, grads = step(params, *tokens)
        want, want_grads = plain_step(plain, *arrays)
        curves.append((float(have), float(want)))
        params = jax.tree.map(lambda p, g: p - rate * g, params, grads)
        plain = jax.tree.map(lambda p, g: p - rate * g, plain, want_grads)
    have_curve, want_curve = np.array(curves).T
    np.testing.assert_allclose(have_curve, want_curve, rtol=1e-4)
    assert want_curve[-1] < want_curve[0] - 0.1  # it learns


def layers_named(params: Any, case: Case) -> Any:
    """Parameters whose layers have a name, as pipelines need it."""
    if case.loop != "pipeline":
        return params
    return {name: nx.named(p, {0: "layers"}) if PARAMETERS[name][0] is None else p for name, p in params.items()}
