"""The transformer of `examples/`: loss and gradients under every layout against a model in plain `jnp`, and decoding against both."""

import dataclasses
import functools
import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import transformer
import transformer_model as model
from transformer import LAYOUTS, batch_of

CONFIG = model.Config(layers=2, embed=16, kv_heads=4, group=2, key=4, hidden=16, vocab=32, pos=16)
EXPERTS = dataclasses.replace(CONFIG, experts=8)


def rms_norm(x, scale):
    return x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6) * scale


def rotate(x, position):
    half = CONFIG.key // 2
    angle = position[:, None] * jnp.exp(-math.log(10_000.0) * jnp.arange(half) / half)
    angle = angle.reshape(angle.shape[0], *(1,) * (x.ndim - 3), half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)


def feed_forward(h, w):
    """One network for all tokens, or all experts on all tokens, weighted by what was chosen; and the load-balancing loss."""
    if "router" not in w:
        return (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], 0.0
    p = jax.nn.softmax(h @ w["router"])
    weight, index = jax.lax.top_k(p, EXPERTS.top_k)
    chosen = jax.nn.one_hot(index, EXPERTS.experts)
    share = jnp.sum((weight / weight.sum(-1, keepdims=True))[..., None] * chosen, -2)
    gate, up = (jnp.einsum("bpe,xeh->bpxh", h, w[name]) for name in ("gate", "up"))
    uneven = EXPERTS.experts * jnp.sum(chosen.mean((1, 2)) * p.mean(1), -1).mean()
    return jnp.einsum("bpxh,xhe,bpx->bpe", jax.nn.silu(gate) * up, w["down"], share), uneven


def plain_model(p, tokens):
    x, position, uneven = p["embed"][tokens], jnp.arange(tokens.shape[1]), 0.0
    for i in range(CONFIG.layers):
        w = jax.tree.map(lambda v, i=i: v[i], p["layers"])
        h = rms_norm(x, w["norm1"])
        q = rotate(jnp.einsum("bpe,ehgk->bphgk", h, w["query"]), position)
        k = rotate(jnp.einsum("bpe,ehk->bphk", h, w["key"]), position)
        scores = jnp.einsum("bphgk,bqhk->bhgpq", q, k) / math.sqrt(CONFIG.key)
        scores = jnp.where(position[:, None] >= position, scores, -jnp.inf)
        attended = jnp.einsum("bhgpq,bqhk->bphgk", jax.nn.softmax(scores), jnp.einsum("bpe,ehk->bphk", h, w["value"]))
        x = x + jnp.einsum("bphgk,hgke->bpe", attended, w["out"])
        y, of_layer = feed_forward(rms_norm(x, w["norm2"]), w)
        x, uneven = x + y, uneven + of_layer / CONFIG.layers
    return rms_norm(x, p["norm"]) @ p["unembed"], uneven


def plain_loss(p, tokens, targets):
    logits, uneven = plain_model(p, tokens)
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, targets[..., None], -1).mean() + 0.01 * uneven


@functools.cache
def expected(config, batch=8):
    params = model.init(config, jax.random.key(0))
    tokens, targets = batch_of(transformer.corpus() % 32, 0, batch, CONFIG.pos)
    if config.vocab > 256:  # words from all over the vocabulary, the last one among them
        tokens, targets = (nx.minimum(1622 * x, config.vocab - 1) for x in (tokens, targets))
    raw = jax.tree.map(lambda v: v.data, params, is_leaf=lambda v: isinstance(v, nx.NamedArray))
    return params, tokens, targets, jax.jit(jax.value_and_grad(plain_loss))(raw, tokens.data, targets.data)


# Those that test_by_hand.py compares with a plain model of its own are left to it: dense tp and accumulation, and ep+tp. With accumulation
# other layouts are those of test_training_layouts.py.
ELSEWHERE = ("tp", "accumulation", "tp+accumulation", "fsdp+accumulation")
DENSE = [layout for layout in LAYOUTS if layout not in (*transformer.MIXTURES, *ELSEWHERE)]
WITH_EXPERTS = ("ep", "fsdp+tp+sp", "accumulation", "pp+ep")
# What they do one by one is tested in test_pipeline.py.
RARELY = {"pp": True, "pp+dp": True, "pp+tp": True, "pp+fsdp": True, "pp+fsdp+tp+sp": False, "pp+ep": False}


def marked(layout, config):
    marks = [pytest.mark.fast(0), *([pytest.mark.full(0)] if RARELY[layout] else [])] if layout in RARELY else []
    return pytest.param(layout, config, marks=marks)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("layout", "config"),
    [
        *(marked(layout, CONFIG) for layout in DENSE),
        *(marked(layout, EXPERTS) for layout in WITH_EXPERTS),
    ],
    ids=lambda value: value if isinstance(value, str) else "experts" if value.experts else "dense",
)
def test_every_layout_gives_loss_and_gradients_of_the_plain_model(layout, config):
    check(layout, config, *LAYOUTS[layout])


# The words of GPT-2, the heads of its smallest, and a last batch of 13 sequences: over eight devices nothing divides.
UNEVEN = dataclasses.replace(CONFIG, kv_heads=12, group=1, vocab=50257)


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("layout", "shape"), [("tp", {"model": 8}), ("dp", {"data": 8}), ("fsdp+tp+sp", {"data": 2, "model": 4})], ids=str
)
def test_words_heads_and_a_last_batch_that_do_not_divide(layout, shape):
    check(layout, UNEVEN, shape, LAYOUTS[layout][1], batch=13)


def check(layout, config, shape, resources, batch=8):
    params, tokens, targets, (want, want_grads) = expected(config, batch)
    if layout in transformer.PIPELINES:
        config = dataclasses.replace(config, microbatches=2)
        params = {**params, "layers": {name: nx.named(p.data, ["layers", *p.dims[1:]]) for name, p in params["layers"].items()}}
    devices = jax.devices()[: math.prod(shape.values())]
    mesh = jax.make_mesh(tuple(shape.values()), tuple(shape), (jax.sharding.AxisType.Auto,) * len(shape), devices=devices)
    f = nx.xmap(
        jax.value_and_grad(functools.partial(model.loss, config=config)), axis_resources=resources, mesh=mesh if shape else None
    )
    loss, grads = f(params, tokens, targets)
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    is_named = {"is_leaf": lambda v: isinstance(v, nx.NamedArray)}
    for have, like, w in zip(
        jax.tree.leaves(grads, **is_named), jax.tree.leaves(params, **is_named), jax.tree.leaves(want_grads), strict=True
    ):
        np.testing.assert_allclose(nx.order_like(have, like).data, w, rtol=2e-3, atol=2e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("config", [CONFIG, EXPERTS], ids=["dense", "experts"])
def test_decoding_gives_the_logits_of_the_whole_sequence(config):
    params, tokens, *_ = expected(config)
    raw = jax.tree.map(lambda v: v.data, params, is_leaf=lambda v: isinstance(v, nx.NamedArray))
    want = plain_model(raw, tokens.data[:1])[0][0]

    def step(cache, position):
        token = nx.named(tokens.data[:1, position][:, None], ["batch", "pos"])
        logits, cache = model.decode(params, cache, token, position, config)
        return cache, nx.positional(logits["batch", 0], ["vocab"])

    _, have = jax.jit(lambda: jax.lax.scan(step, model.empty_cache(config, 1), jnp.arange(CONFIG.pos)))()
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)


@pytest.mark.fast(0)
def test_a_run_that_is_resumed_under_another_layout_goes_on_as_it_was(tmp_path, monkeypatch, capsys):
    def losses(layout, *arguments):
        seen = {}
        monkeypatch.setattr(transformer, "picture", lambda curves, path: seen.update(curves))
        monkeypatch.setattr(transformer, "Config", lambda **_: model.Config(2, 16, 4, 2, 4, 16, 256, 16))
        command = ["transformer.py", "--layout", layout, "--batch", "8", "--prompt", "", *arguments]
        monkeypatch.setattr(sys, "argv", command)
        transformer.main()
        return seen[layout]

    whole = losses("single", "--steps", "4", "--no-save", "--out", str(tmp_path / "a"))
    # The schedule of the learning rate is that of the whole run.
    losses("dp", "--steps", "2", "--out", str(tmp_path / "b"))
    rest = losses("fsdp+tp+sp", "--steps", "4", "--resume", "--no-save", "--out", str(tmp_path / "b"))
    np.testing.assert_allclose(rest, whole[2:], rtol=1e-3)
    assert "a step sends" in capsys.readouterr().out
