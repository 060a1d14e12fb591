"""Law 2: resources never change meaning.

One small transformer block (embedding, attention, normalisation, a gated layer, cross-entropy) in many assignments on many
meshes: the loss, a table of predictions and every gradient equal those of the same block written in `jnp` over positions.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import namedax as nx
from tests import make
from tests.harness import array

SIZES = {"batch": 4, "pos": 6, "vocab": 16, "embed": 8, "heads": 2, "key": 12, "hidden": 20}
PARAMETERS = {
    "table": ["vocab", "embed"],
    "qkv": ["embed", "heads", None, "key"],
    "out": ["heads", "key", "embed"],
    "up": ["embed", "hidden"],
    "gate": ["hidden", "embed"],  # stored the other way round
    "down": ["hidden", "embed"],
    "scale": ["embed"],
}


def make_parameters():
    parameters = {}
    for seed, (name, axes) in enumerate(PARAMETERS.items()):
        shape = tuple(3 if axis is None else SIZES[axis] for axis in axes)
        parameters[name] = make.asarray(np.asarray(array(*shape, seed=seed)) / shape[0] ** 0.5)
    return parameters


PARAMS = make_parameters()
TOKENS = make.asarray(np.random.default_rng(0).integers(0, SIZES["vocab"], (4, 6)))
LABELS = make.asarray(np.random.default_rng(1).integers(0, SIZES["vocab"], (4, 6)))


def normalise(x, scale):
    centred = x - nx.mean(x, "embed")
    return centred / nx.sqrt(nx.var(x, "embed") + 1e-5) * scale


def block(params, tokens, labels):
    """The block by name: the mean loss, and the best token at every position."""
    x = nx.take(params["table"], tokens, "vocab")
    qkv = nx.einsum("{embed},{embed,heads,key}n->{heads,key}n", normalise(x, params["scale"]), params["qkv"])
    q, k, v = qkv[0], qkv[1], qkv[2]
    scores = nx.einsum("{pos,heads,key},{kpos:pos,heads,key}->{heads,pos,kpos}", q, k) / np.sqrt(SIZES["key"])
    allowed = nx.arange("pos") >= nx.arange(SIZES["pos"], axis="kpos")
    weights = nx.nn.softmax(nx.where(allowed, scores, -1e9), "kpos")
    mixed = nx.einsum("{heads,pos,kpos},{kpos:pos,heads,key}->{heads,pos,key}", weights, v)
    x = x + nx.dot(mixed, params["out"], ("heads", "key"))
    hidden = nx.nn.silu(nx.dot(x, params["up"], "embed")) * nx.dot(x, params["gate"], "embed")
    x = x + nx.dot(hidden, params["down"], "hidden")
    logits = nx.dot(x, params["table"], "embed")
    losses = nx.logsumexp(logits, "vocab") - nx.sum(logits * nx.nn.one_hot(labels, axis="vocab"), "vocab")
    return nx.mean(losses, ("batch", "pos")), nx.argmax(logits, "vocab")


def plain_block(params, tokens, labels):
    x = params["table"][tokens]
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    normal = (x - mean) / jnp.sqrt(var + 1e-5) * params["scale"]
    q, k, v = jnp.einsum("bpe,ehnk->nbphk", normal, params["qkv"])
    scores = jnp.einsum("bphk,bqhk->bhpq", q, k) / np.sqrt(SIZES["key"])
    allowed = jnp.arange(6)[:, None] >= jnp.arange(6)
    weights = jax.nn.softmax(jnp.where(allowed, scores, -1e9), -1)
    x = x + jnp.einsum("bhpq,bqhk,hke->bpe", weights, v, params["out"])
    hidden = jax.nn.silu(x @ params["up"]) * (x @ params["gate"].T)
    x = x + hidden @ params["down"]
    logits = x @ params["table"].T
    losses = jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return jnp.mean(losses), jnp.argmax(logits, -1)


@functools.cache
def wanted():
    return jax.jit(jax.value_and_grad(plain_block, has_aux=True))(PARAMS, TOKENS, LABELS)


@dataclasses.dataclass(frozen=True)
class Assignment:
    """Which names live where."""

    shape: tuple[int, ...]
    resources: tuple[tuple[str, str | tuple[str, ...]], ...]
    kind: str = "auto"
    partitioning: str = "manual"

    def __str__(self):
        entries = ",".join(f"{name}@{axes if isinstance(axes, str) else '+'.join(axes)}" for name, axes in self.resources)
        mesh = "x".join(map(str, self.shape))
        return f"{mesh}-{entries or 'none'}-{self.kind}" + ("" if self.partitioning == "manual" else "-partitioner")

    def mesh(self):
        axis_type = AxisType.Explicit if self.kind == "explicit" else AxisType.Auto
        devices = jax.devices()[: int(np.prod(self.shape))]
        return jax.make_mesh(
            self.shape, ("x", "y")[: len(self.shape)], axis_types=(axis_type,) * len(self.shape), devices=devices
        )


def assign(*shape, kind="auto", partitioning="manual", **resources):
    return Assignment(shape, tuple(resources.items()), kind, partitioning)


OUTSIDE = [
    assign(8),
    assign(8, vocab="x"),
    assign(4, 2, embed=("y", "x")),
    assign(4, 2, vocab=("x", "y"), hidden="x"),
    assign(2, 4, pos="x", embed="y"),
    assign(4, 2, kind="explicit", batch="x", embed="y"),
    assign(2, 4, partitioning="auto", kind="explicit", pos="x", vocab="y"),
]
INSIDE = [
    assign(4, 2, batch="x", hidden="y", heads="y", vocab="y"),
    assign(1, 4, heads="x", key="y"),
    assign(2, 2, batch=("x", "y")),
    assign(2, 4, kind="explicit", vocab="y", heads="x", hidden="x"),
]
IN = (PARAMETERS, ["batch", "pos"], ["batch", "pos"])


def close(have, want):
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=2e-4, atol=2e-5), have, want)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("assignment", OUTSIDE, ids=str)
def test_the_gradient_outside_of_the_body(assignment):
    mapped = nx.xmap(
        block,
        IN,
        ([], ["batch", "pos"]),
        axis_resources=dict(assignment.resources),
        mesh=assignment.mesh(),
        partitioning=assignment.partitioning,
    )
    have = jax.jit(jax.value_and_grad(mapped, has_aux=True))(PARAMS, TOKENS, LABELS)
    close(have, wanted())


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("assignment", INSIDE, ids=str)
def test_the_gradient_inside_of_the_body(assignment):
    step = jax.value_and_grad(block, has_aux=True)
    mapped = nx.xmap(
        step, IN, (([], ["batch", "pos"]), PARAMETERS),
        axis_resources=dict(assignment.resources), mesh=assignment.mesh(), partitioning=assignment.partitioning,
    )  # fmt: skip
    have = mapped(PARAMS, TOKENS, LABELS)
    close(have, wanted())
    for name, axes in PARAMETERS.items():  # a gradient lives where its parameter does
        spec = PartitionSpec(*(dict(assignment.resources).get(axis) for axis in axes))
        assert have[1][name].sharding.is_equivalent_to(NamedSharding(assignment.mesh(), spec), len(axes))


def test_the_order_of_devices_does_not_matter():
    devices = np.roll(np.array(jax.devices())[::-1], 3)
    mesh = jax.sharding.Mesh(devices.reshape(4, 2), ("x", "y"))
    f = nx.xmap(block, IN, ([], ["batch", "pos"]), axis_resources={"batch": "x", "vocab": "y"}, mesh=mesh)
    close(f(PARAMS, TOKENS, LABELS), wanted()[0])
