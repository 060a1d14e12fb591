"""namedax.models.qwen2_vl: positions as their definition, images in prompts with a cache, and prompts without images."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.models import generate, qwen2_vl
from tests.models.loading import golden
from tests.models.test_models import ILLUSTRATIONS, TOLERANCE, batch_of, model_of, params_of

CASE, NEW, PROMPT = "qwen2_vl", 6, 16
TEXTS = np.array([2, 6])  # the rows without images
AXES = ["batch", "component", "pos"]


def positions_of(row, sizes, token):
    """The positions of a sequence, one token after the other; and those of the token after it."""
    found, start, i = [], 0, 0
    while i < len(row):
        if row[i] != token:
            found.append([start] * 3)
            start, i = start + 1, i + 1
            continue
        grid = list(np.ndindex(*sizes))
        found += [[start + part for part in place] for place in grid]
        start, i = start + max(sizes), i + len(grid)
    return np.array(found).T, start


@pytest.mark.parametrize("sizes", [(2, 2, 1), (1, 1, 4), (1, 2, 2)], ids=str)
@pytest.mark.parametrize("token", ["image_token", "video_token"])
def test_positions_are_those_of_the_definition(sizes, token):
    config = model_of(CASE)[1]
    tokens = np.where(golden(CASE)["tokens"] == config.image_token, getattr(config, token), golden(CASE)["tokens"])
    named = nx.named(tokens, ["batch", "pos"])
    found, _ = qwen2_vl.places(named, sizes, config)
    images = nx.zeros(named_shape={"frame": 2 * sizes[0], "row": 4 * sizes[1], "column": 4 * sizes[2]})
    shifts = nx.positional(qwen2_vl.shift(named, images, config), ["batch"])
    for row, have, shift in zip(tokens, nx.positional(found, AXES), shifts, strict=True):
        want, after = positions_of(row, sizes, getattr(config, token))
        np.testing.assert_array_equal(have, want)
        assert PROMPT + shift == after


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("title", generate.LAYOUTS)
def test_images_are_continued_as_by_pytorch(title):
    """One program reads prompts with images, and another one adds the most likely token."""
    config, batch, params = model_of(CASE)[1], batch_of(CASE), params_of(CASE)
    mesh, resources = generate.layout(title)
    known = {*config.sizes(), "batch", "cache"}
    resources = {name: entry for name, entry in resources.items() if name in known}
    mapped = functools.partial(nx.xmap, axis_resources=resources, axis_sizes={"cache": PROMPT + NEW}, mesh=mesh)

    @mapped
    def read(params, tokens, images):
        cache = qwen2_vl.init_cache(config, tokens.named_shape["batch"], PROMPT + NEW)
        logits, cache = qwen2_vl.forward(params, tokens, config, images=images, cache=cache)
        return nx.argmax(logits, "vocab"), cache, qwen2_vl.shift(tokens, images, config)

    @mapped
    def add(params, token, cache, shift):
        logits, cache = qwen2_vl.forward(params, nx.expand_dims(token, "pos"), config, cache=cache, shift=shift)
        return nx.argmax(logits, "vocab"), cache, shift

    state = read(params, batch["tokens"], batch["images"])
    found = [state[0]]
    for _ in range(NEW - 1):
        state = add(params, *state)
        found.append(state[0])
    found = np.stack([nx.positional(token, ["batch"]) for token in found], 1)
    np.testing.assert_array_equal(found, golden(CASE)["greedy"])


@pytest.mark.fast(0)
def test_images_follow_a_prompt_that_has_been_read():
    """The positions of the second of two images begin after those of the first one."""
    (module, config), found, row = model_of(CASE), golden(CASE), 5
    tokens, images = found["tokens"][[row]], found["images"][[row]]
    start = np.flatnonzero(tokens[0] == config.image_token)[4]  # of the second one
    parts = [nx.named(part, ["batch", "pos"]) for part in np.split(tokens, [start], 1)]
    first, second = (nx.named(images[:, [i]], ILLUSTRATIONS) for i in range(2))
    read = nx.xmap(functools.partial(module.forward, config=config))
    cache, shift = module.init_cache(config, 1, PROMPT), module.shift(parts[0], first, config)
    _, cache = read(params_of(CASE), parts[0], images=first, cache=cache)
    logits, _ = read(params_of(CASE), parts[1], images=second, cache=cache, shift=shift)
    np.testing.assert_allclose(nx.positional(logits, ["batch", "vocab"]), found["logits"][[row], -1], **TOLERANCE)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("title", ["one device", "batch+heads"])
def test_prompts_without_images_need_none(title):
    module, config = model_of(CASE)
    tokens = golden(CASE)["tokens"][TEXTS]
    logits = nx.positional(
        module.forward(params_of(CASE), nx.named(tokens, ["batch", "pos"]), config), ["batch", "pos", "vocab"]
    )
    np.testing.assert_allclose(logits, golden(CASE)["logits"][TEXTS], **TOLERANCE)
    mesh, resources = generate.layout(title)
    generator = generate.Generator(module, config, PROMPT + NEW, resources, mesh)
    found = generator(params_of(CASE), tokens.tolist(), NEW, jax.random.key(0))
    np.testing.assert_array_equal(found, golden(CASE)["greedy"][TEXTS])


def test_a_still_image_is_shown_in_all_frames():
    batch, config = batch_of(CASE), model_of(CASE)[1]
    image = nx.slice(batch["images"], {"image": slice(1), "frame": slice(1)}, out_axis={"image": "image", "frame": "frame"})
    twice = nx.concatenate([image, image], "frame")
    still = image["frame", 0]
    encode = nx.xmap(lambda images: qwen2_vl.encode(params_of(CASE)["image"], images, config))
    have, want = (nx.positional(encode(images), ["batch", "image", "time", "cell", "embed"]) for images in (still, twice))
    np.testing.assert_allclose(have, want, **TOLERANCE)


def test_image_tokens_without_an_image_are_nan():
    """A row with more image tokens than cells has no number for them, and does not repeat a cell."""
    batch, (module, config) = batch_of(CASE), model_of(CASE)
    images = nx.slice(batch["images"], {"image": slice(1)}, out_axis={"image": "image"})
    forward = nx.xmap(lambda params, tokens, images: module.forward(params, tokens, config, images=images))
    logits = forward(params_of(CASE), batch["tokens"], images)
    is_nan = jnp.isnan(nx.positional(nx.sum(logits, ("pos", "vocab")), ["batch"]))
    np.testing.assert_array_equal(is_nan, [True, False, False, True, False, True, False, False])
