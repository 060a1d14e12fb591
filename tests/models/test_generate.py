"""namedax.models.generate: the tokens of PyTorch in every layout, and sampling as its definition in NumPy."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.models import generate
from tests.models.loading import golden
from tests.models.test_models import CASES, model_of, params_of

#: Decoders; the first two cases of a module are those with other attention.
DECODERS = [
    case
    for case, module in CASES.items()
    if module in ("llama", "mixtral", "gemma", "gpt_oss", "deepseek", "mamba", "qwen3_next")
]
NEW = 6


def prompts_of(case):
    found = golden(case)
    return [row[:length].tolist() for row, length in zip(found["tokens"], found["prompt_lengths"], strict=False)]


@functools.cache
def generator_of(case, title, axis_types=None, **options):
    module, config = model_of(case)
    mesh, resources = generate.layout(title, axis_types)
    return generate.Generator(module, config, 16, resources, mesh, **options)


def tokens_of(case, title, axis_types=None, **options):
    generator = generator_of(case, title, axis_types, **options)
    return generator(params_of(case), prompts_of(case), NEW, jax.random.key(1))


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("case", DECODERS)
def test_greedy_tokens_are_those_of_pytorch(case):
    np.testing.assert_array_equal(tokens_of(case, "one device"), golden(case)["greedy"])


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("axis_types", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("title", [title for title in generate.LAYOUTS if title != "one device"])
@pytest.mark.parametrize("case", DECODERS)
def test_greedy_tokens_do_not_depend_on_the_layout(case, title, axis_types):
    np.testing.assert_array_equal(tokens_of(case, title, axis_types), golden(case)["greedy"])


def rows_of(size):
    """The rows of a loop that begins."""
    numbers = nx.arange(size, axis="batch", dtype=np.int32)
    return generate.Rows(nx.random.fold_in(jax.random.key(0), numbers), 0 * numbers + 4, 0 * numbers + 1)


def compiled_loop(generator, params, cache, token):
    """The loop that adds tokens, compiled with a donated cache."""
    extend, size = generator.extend(4, False), token.named_shape["batch"]
    return jax.jit(extend, donate_argnums=1).lower(params, cache, token, rows_of(size)).compile()


SAMPLING = {"temperature": 0.7, "top_k": 9, "top_p": 0.8}


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("title", ["batch+heads", "uneven heads", "cache+heads"])
def test_drawn_tokens_do_not_depend_on_the_layout(title):
    expected = tokens_of("mistral", "one device", **SAMPLING)
    np.testing.assert_array_equal(tokens_of("mistral", title, **SAMPLING), expected)
    assert not np.array_equal(expected, golden("mistral")["greedy"])


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("title", ["one device", "batch+heads"])
def test_a_row_ends_at_a_stop_token(title):
    """Others go on; the loop ends with the last row, and the columns after it repeat the stop tokens."""
    found = golden("llama3")["greedy"]
    stop = int(found[2, 1])
    expected = found.copy()
    for row in expected:
        (ends,) = np.nonzero(row == stop)
        row[ends[0] if len(ends) else NEW :] = stop
    assert not np.array_equal(expected, found)
    module, config = model_of("llama3")
    mesh, resources = generate.layout(title)
    generator = generate.Generator(module, config, 16, resources, mesh, stop=[stop])
    params, prompts, key = params_of("llama3"), prompts_of("llama3"), jax.random.key(1)
    np.testing.assert_array_equal(generator(params, prompts, NEW, key), expected)
    chunks = [*generator.stream(params, prompts, NEW, key, 2)]
    assert [chunk.shape[1] for chunk in chunks] == [1, 2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(chunks, 1), expected)


REQUESTS = [([3, 5, 7], 6), ([1], 3), ([2, 9, 4, 4, 8, 1, 30], 1), ([11, 12], 9), ([20, 3, 3, 3], 4)]


def batched(case, title, axis_types=None, rows=2, **options):
    """The tokens of requests that share the rows of a cache, and those of each request alone."""
    module, config = model_of(case)
    mesh, resources = generate.layout(title, axis_types)
    generator = generate.Generator(module, config, 16, resources, mesh, stop=[31], **options)
    batcher, key, tokens = generate.Batcher(generator, rows, chunk=3), jax.random.key(1), {}
    numbers = [batcher.submit(prompt, new) for prompt, new in REQUESTS[:4]]
    for number, new, is_last in batcher.run(params_of(case), key):
        tokens.setdefault(number, []).extend(new.tolist())
        if is_last and len(numbers) < len(REQUESTS):
            numbers.append(batcher.submit(*REQUESTS[4]))  # meanwhile
    return [tokens[number] for number in numbers]


@functools.cache
def alone(case, options):
    """The tokens of each request on one device, beside copies of it."""
    module, config = model_of(case)
    generator = generate.Generator(module, config, 16, {}, stop=[31], **dict(options))
    found = []
    for number, (prompt, new) in enumerate(REQUESTS):
        # The key of a row is that of its number.
        chunks = generator.stream(params_of(case), [prompt] * (number + 1), new, jax.random.key(1), 3)
        row = np.concatenate([*chunks], 1)[number].tolist()
        found.append(row[: row.index(31) + 1] if 31 in row else row)
    return found


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("axis_types", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("options", [{}, SAMPLING], ids=["greedy", "drawn"])
@pytest.mark.parametrize("title", ["one device", "batch+heads", "uneven heads", "cache+heads", "weights"])
@pytest.mark.parametrize(
    "case",
    [
        "llama3",
        *(
            pytest.param(case, marks=[pytest.mark.fast(0), pytest.mark.full(0)])
            for case in ("gemma3", "mixtral", "mamba2", "deepseek_v3", "qwen3_next")
        ),
    ],
)
def test_requests_enter_and_leave_the_rows_of_a_cache(case, title, options, axis_types):
    assert batched(case, title, axis_types, **options) == alone(case, tuple(options.items()))


def kept(logits, temperature, top_k, top_p):
    """The tokens that may be drawn, by NumPy."""
    logits = logits / temperature
    order = np.argsort(-logits)
    allowed = order[: top_k or len(order)]
    weights = np.exp(logits[allowed] - logits.max())
    weights /= weights.sum()
    before = np.cumsum(weights) - weights
    return set(allowed[before < top_p].tolist())


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("top_k", "top_p", "candidates"),
    [(0, 1.0, 128), (3, 1.0, 128), (0, 0.6, 128), (5, 0.6, 128), (0, 0.6, 8), (0, 0.9, 2), (0, 0.999, 11)],
)
@pytest.mark.parametrize("resources", [{}, {"vocab": "x"}, {"vocab": "x", "row": "y"}], ids=["whole", "sharded", "both"])
def test_only_likely_tokens_are_drawn(monkeypatch, resources, top_k, top_p, candidates):
    monkeypatch.setattr(generate, "CANDIDATES", candidates)
    logits = np.random.default_rng(0).normal(size=12).astype(np.float32) * 2
    options = {"temperature": 0.9, "top_k": top_k, "top_p": top_p}

    def draw(logits, key):
        rows = logits + nx.zeros(named_shape={"row": 400})
        return generate.sample(rows, key, **options)

    mesh = jax.make_mesh((4, 2), ("x", "y"))
    drawn = nx.xmap(draw, axis_resources=resources, mesh=mesh)(nx.named(logits, ["vocab"]), jax.random.key(0))
    wanted = kept(logits, 0.9, top_k, top_p)
    found = set(np.asarray(nx.positional(drawn, ["row"])).tolist())
    assert found <= wanted
    # A token that is drawn less often than once in a hundred rows may be missing.
    weights = np.exp(logits / 0.9)
    total = sum(weights[token] for token in wanted)
    assert {token for token in wanted if weights[token] > 0.03 * total} <= found


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("case", "title"),
    [("llama3", "one device"), ("llama3", "batch+heads"), ("llama3", "cache"), ("mixtral", "heads"), ("gemma3", "one device")],
)
def test_a_step_updates_the_cache_in_place(case, title):
    """Beside the donated cache, a step needs the keys and values of one layer, and no second cache."""
    module, config = model_of(case)
    config = dataclasses.replace(config, layers=8)
    mesh, resources = generate.layout(title)
    generator = generate.Generator(module, config, 1024, resources, mesh)
    key, token = jax.random.key(0), nx.named(np.zeros(8, np.int32), ["batch"])
    params = jax.eval_shape(lambda: module.init(config, key))
    cache = jax.eval_shape(lambda: module.init_cache(config, 8, 1024))
    compiled = compiled_loop(generator, params, cache, token)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(cache))
    size //= 1 if mesh is None else mesh.size
    memory = compiled.memory_analysis()
    assert memory.alias_size_in_bytes >= size
    assert memory.temp_size_in_bytes < size / 4


@pytest.mark.fast(0)
def test_a_step_sends_only_what_it_must():
    """Two all-reduces in a layer, one for the embedding, and two for the token: no cache and no logits."""
    generator = generator_of("llama3", "heads")
    params = params_of("llama3")
    rows = nx.named((np.array(golden("llama3")["tokens"][:3, :4]), np.full(3, 4, np.int32)), (["batch", "pos"], ["batch"]))
    token, cache = generator.prefill(params, *rows, rows_of(3).keys)
    compiled = compiled_loop(generator, params, cache, token)
    config = model_of("llama3")[1]
    stream = 3 * config.embed * 4
    sent = [(one.kind, one.bytes, one.trips or 1) for one in nx.hlo.collectives(compiled)]
    assert {kind for kind, _, _ in sent} == {"all-reduce"}
    assert sum(trips for _, _, trips in sent) <= 2 * config.layers + 3
    assert sum(size * trips for _, size, trips in sent) <= stream * (2 * config.layers + 1) + 2 * 3 * 4


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("heads", [5, 8])
def test_uneven_heads_are_not_gathered(heads):
    """Over three devices; a result with an uneven axis would be replicated, so the cache has even heads."""
    module, config = model_of("llama3")
    config = dataclasses.replace(config, heads=2 * heads, kv_heads=heads)
    mesh, resources = generate.layout("uneven heads")
    generator = generate.Generator(module, config, 64, resources, mesh)
    key, token = jax.random.key(0), nx.named(np.zeros(2, np.int32), ["batch"])
    params = jax.eval_shape(lambda: module.init(config, key))
    tokens = jax.eval_shape(lambda: token + nx.zeros((), np.int32, named_shape={"pos": 4}))
    _, cache = jax.eval_shape(generator.prefill, params, tokens, token, rows_of(2).keys)
    compiled = compiled_loop(generator, params, cache, token)
    assert {one.kind for one in nx.hlo.collectives(compiled)} == {"all-reduce"}
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(cache)) // 3
    assert size <= compiled.memory_analysis().alias_size_in_bytes < 1.1 * size


def test_top_p_sorts_all_logits_only_in_a_branch():
    """Of a sharded vocabulary; only the candidates of each device are gathered in every step."""
    mesh = jax.make_mesh((4,), ("x",))
    draw = nx.xmap(lambda x, key: generate.sample(x, key, temperature=1.0, top_p=0.9), axis_resources={"vocab": "x"}, mesh=mesh)
    logits = jax.eval_shape(lambda: nx.zeros(named_shape={"row": 2, "vocab": 4096}))
    compiled = jax.jit(draw).lower(logits, jax.random.key(0)).compile()
    entry = compiled.as_text().partition("\nENTRY ")[2]
    assert " conditional(" in entry
    kinds = ("collective-permute", "all-to-all")
    assert not any(f" {kind}" in entry for kind in kinds)
    moved = [one.bytes for one in nx.hlo.collectives(compiled) if one.kind in kinds]
    assert max(moved) >= 2 * 1024 * 4  # in the branch: blocks of logits


def test_prompts_that_exceed_the_cache_are_an_error():
    generator = generator_of("llama3", "one device")
    with pytest.raises(ValueError, match="the longest prompt has 12 tokens; with 5 more they exceed the capacity 16"):
        generator(params_of("llama3"), [[1] * 12], 5, jax.random.key(0))
