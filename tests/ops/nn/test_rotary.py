"""Rotary position embeddings, against NumPy functions written from the papers."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisNotFoundError, AxisSizeError
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, Placement, array, check, make_mesh, said

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8, "beta_slow": 1}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 64}
LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0 + i / 16 for i in range(16)],
    "long_factor": [2.0 + i for i in range(16)],
    "original_max_position_embeddings": 64,
    "factor": 16.0,
}


def frequencies(size, base=10000.0, scaling=None, seen=0):
    """The angle per position of each pair, and the factor of the result, for a sequence of `seen` positions."""
    scaling = scaling or {}
    plain = [base ** (-2 * i / size) for i in range(size // 2)]
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor, length = scaling.get("factor"), scaling.get("original_max_position_embeddings")
    if kind == "dynamic":
        base *= (factor * max(seen, length) / length - (factor - 1)) ** (size / (size - 2))
        return np.array([base ** (-2 * i / size) for i in range(size // 2)]), 1.0
    if kind == "longrope":
        found = np.array(plain) / np.array(scaling["long_factor" if seen > length else "short_factor"])
        if "attention_factor" in scaling:
            return found, scaling["attention_factor"]
        return found, math.sqrt(1 + math.log(factor) / math.log(length))
    if kind == "proportional":
        turning = int(scaling.get("partial_rotary_factor", 1) * size // 2)
        return np.array([f / (factor or 1) * (i < turning) for i, f in enumerate(plain)]), 1.0
    if kind == "linear":
        return np.array([f / factor for f in plain]), 1.0
    if kind == "llama3":
        low, high, found = scaling["low_freq_factor"], scaling["high_freq_factor"], []
        for f in plain:
            wavelength = 2 * math.pi / f
            if wavelength < length / high:
                found.append(f)
            elif wavelength > length / low:
                found.append(f / factor)
            else:
                smooth = (length / wavelength - low) / (high - low)
                found.append((1 - smooth) * f / factor + smooth * f)
        return np.array(found), 1.0
    if kind == "yarn":

        def dimension(rotations):
            return size * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))

        low, high = dimension(scaling.get("beta_fast", 32)), dimension(scaling.get("beta_slow", 1))
        if scaling.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, size - 1)
        ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(size // 2)]
        found = [f / factor * r + f * (1 - r) for f, r in zip(plain, ramp, strict=True)]
        if scaling.get("attention_factor") is not None:
            return np.array(found), scaling["attention_factor"]
        if "mscale" in scaling:
            many, all_ = (0.1 * scaling[m] * math.log(factor) + 1 for m in ("mscale", "mscale_all_dim"))
            return np.array(found), many / all_
        return np.array(found), 0.1 * math.log(factor) + 1
    return np.array(plain), 1.0


def rotated(x, positions, *, base=10000.0, scaling=None, pairing="halves", size=None, seen=0):
    """The last axis of `x` is that of the features; `positions` broadcast to the others.

    They may be a list: of the position that rotates each pair.
    """
    size = size or x.shape[-1]
    of_pairs, factor = frequencies(size, base, scaling, seen)
    positions = jnp.stack(positions, -1) if isinstance(positions, list) else jnp.asarray(positions)[..., None]
    angles = positions * jnp.asarray(of_pairs)
    turn = factor * jnp.cos(angles), factor * jnp.sin(angles)
    at = np.arange(size // 2)
    i, j = (at, at + size // 2) if pairing == "halves" else (2 * at, 2 * at + 1)
    a, b = x[..., i], x[..., j]
    return x.at[..., i].set(a * turn[0] - b * turn[1]).at[..., j].set(b * turn[0] + a * turn[1])


MORE = [
    *PLACEMENTS,
    PARTITIONER[3],
    Placement("uneven", (3, 2), (("a", "x"), ("b", "y"))),
    Placement("uneven-and-empty", (5,), (("a", "x"),), "explicit"),
    Placement("steps-of-positions", (4, 2), (("b", nx.SerialLoop(2)), ("a", "x"))),
]
OPTIONS = [
    {},
    {"pairing": "interleaved", "base": 100.0},
    {"size": 6},
    {"pairing": "interleaved", "size": 4, "scaling": {"type": "linear", "factor": 2}},
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", MORE, ids=str)
def test_every_placement_of_features_and_of_positions(placement):
    """Features {a} and positions {b}; those of a batch {c} too, whose axis the queries lack."""

    def named(x, positions, more):
        one = [nx.nn.rope(x, positions, "a", **options) for options in OPTIONS]
        return *one, nx.nn.rope(x, more, "a"), nx.nn.rope(x, 3, "a")

    def oracle(x, positions, more):
        x = x.transpose(1, 0, 2)[:, None]  # b 1 e a
        one = [rotated(x, positions[:, None, None], **options)[:, 0] for options in OPTIONS]
        return *one, rotated(jnp.tile(x, (1, 3, 1, 1)), more.T[..., None]), rotated(x, 3)[:, 0]

    args = (array(5, 4, 8), jnp.array([0, 3, 7, 20]), jnp.arange(12).reshape(3, 4) * 2)
    axes = ["b", "e", "a"]
    check(
        named,
        jax.jit(oracle),
        args,
        (["e", "b", "a"], ["b"], ["c", "b"]),
        (*[axes] * 4, ["b", "c", "e", "a"], axes),
        placement,
    )


BLOCKS = {"sections": {"of": [1, 2, 1]}}
ALTERNATING = {"sections": {"of": (2, 1, 1)}, "sections_interleaved": True, "pairing": "interleaved"}
SHORT = {"type": "longrope", "short_factor": [1, 2, 3, 4], "long_factor": [5, 6, 7, 8], "factor": 2.0}
LENGTHS = np.array([40, 5, 9])


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", MORE, ids=str)
def test_every_placement_of_components_and_of_lengths(placement):
    """Features {a}, positions {b} with components {of}, and a length for each row {c}."""
    dynamic = {**DYNAMIC, "original_max_position_embeddings": 8}
    longrope = {**SHORT, "original_max_position_embeddings": 8}

    def named(x, positions, lengths):
        one = nx.nn.rope(x, positions, "a", **BLOCKS), nx.nn.rope(x, positions, "a", scaling=dynamic, **ALTERNATING)
        of_rows = nx.nn.rope(x, positions["of", 1], "a", scaling=longrope, length=lengths)
        return *one, of_rows, nx.nn.rope(x, positions, "a", scaling=longrope, **BLOCKS)

    def oracle(x, positions, lengths):
        x, (t, h, w) = x.transpose(1, 0, 2), positions[..., None]  # b e a
        one = rotated(x, [t, h, h, w]), rotated(x, [t, h, w, t], scaling=dynamic, pairing="interleaved", seen=22)
        of_rows = [rotated(x, h, scaling=longrope, seen=seen) for seen in LENGTHS]
        return *one, jnp.stack(of_rows), rotated(x, [t, h, h, w], scaling=longrope, seen=22)

    args = (array(5, 4, 8), jnp.array([[0, 3, 7, 20], [1, 2, 3, 4], [5, 0, 9, 21]]), jnp.asarray(LENGTHS))
    axes = ["b", "e", "a"]
    out = axes, axes, ["c", *axes], axes
    check(named, jax.jit(oracle), args, (["e", "b", "a"], ["of", "b"], ["c"]), out, placement)


def test_components_on_devices():
    """Their axis may be sharded; features need not be divided by sections."""
    positions = nx.named(jnp.arange(8).reshape(2, 4) * 3, ["of", "b"])
    x, options = nx.named(array(4, 8), ["b", "a"]), {"sections": {"of": [3, 1]}}
    want = nx.positional(nx.nn.rope(x, positions, "a", **options), ["b", "a"])
    f = nx.xmap(lambda x, p: nx.nn.rope(x, p, "a", **options), axis_resources={"of": "y", "a": "x"}, mesh=make_mesh((4, 2)))
    np.testing.assert_allclose(nx.positional(f(x, positions), ["b", "a"]), want, rtol=1e-5, atol=1e-6)


@pytest.mark.fast(8)
@pytest.mark.parametrize(
    "scaling",
    [
        DYNAMIC,
        {**DYNAMIC, "original_max_position_embeddings": 1000},
        LONGROPE,
        {**LONGROPE, "original_max_position_embeddings": 1000},
        {**LONGROPE, "attention_factor": 1.3, "factor": None},
        {"rope_type": "proportional", "partial_rotary_factor": 0.25, "factor": 8.0},
        {"rope_type": "proportional"},
        {"rope_type": "default", "rope_theta": 500.0},
        {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 1.0},
        LLAMA3,
        {**LLAMA3, "type": "llama3", "original_max_position_embeddings": 1000},
        YARN,
        {**YARN, "truncate": False, "attention_factor": None},
        {**YARN, "attention_factor": 0.7},
        {**YARN, "mscale": 1.0, "mscale_all_dim": 0.707},
        {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096},
    ],
)
def test_scalings_of_published_configurations(scaling):
    x, positions = array(40, 32), jnp.arange(40) * 5
    have = nx.nn.rope(nx.named(x, ["pos", "d"]), nx.named(positions, ["pos"]), "d", base=500.0, scaling=scaling)
    want = rotated(x, positions, base=500.0, scaling=scaling, seen=196)
    np.testing.assert_allclose(have.data, want, rtol=1e-4, atol=1e-4)
    for length in (10, 300):  # a step of generation, whose positions do not have the length
        have = nx.nn.rope(nx.named(x, ["pos", "d"]), 5, "d", base=500.0, scaling=scaling, length=length)
        want = rotated(x, 5, base=500.0, scaling=scaling, seen=length)
        np.testing.assert_allclose(have.data, want, rtol=1e-4, atol=1e-5)


def test_a_share_of_the_features():
    """`partial_rotary_factor`, of GLM, Phi and Qwen3-Next."""
    x, scaling = array(4, 12), {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}
    have = nx.nn.rope(nx.named(x, ["pos", "d"]), nx.named(make.arange(4), ["pos"]), "d", scaling=scaling)
    np.testing.assert_allclose(have.data, rotated(x, jnp.arange(4), scaling=scaling, size=6), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(have.data[:, 6:], x[:, 6:])


PHI = {"short_factor": [1.0], "long_factor": [2.0], "type": "longrope"}
READ = [
    ({"rope_theta": 1e4, "max_position_embeddings": 64}, None),
    ({"rope_scaling": None}, None),
    ({"rope_parameters": {"rope_theta": 1e6}}, {"rope_theta": 1e6, "rope_type": "default"}),
    ({"partial_rotary_factor": 0.5}, {"partial_rotary_factor": 0.5, "rope_type": "default"}),
    (
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 64},
        {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 64},
    ),
    (
        {
            "rope_scaling": PHI,
            "max_position_embeddings": 128,
            "original_max_position_embeddings": 8,
            "partial_rotary_factor": 0.75,
        },
        {**PHI, "original_max_position_embeddings": 8, "factor": 16.0, "partial_rotary_factor": 0.75},
    ),
    (
        {"rope_scaling": {**PHI, "type": "su"}, "max_position_embeddings": 128, "original_max_position_embeddings": 8},
        {**PHI, "original_max_position_embeddings": 8, "factor": 16.0},
    ),
    (
        {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "rope_theta": 1e6},
        {"type": "mrope", "mrope_section": [16, 24, 24]},
    ),
    (
        {"rope_scaling": {"rope_type": "default", "type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}},
        {"rope_type": "default", "type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True},
    ),
    ({"rope_scaling": {**YARN, "factor": None}, "max_position_embeddings": 256}, YARN),
]


@pytest.mark.parametrize(("config", "want"), READ)
def test_scalings_of_configurations(config, want):
    assert nx.nn.rope_scaling(config) == want


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"rope_scaling": {"type": "yarn", "factor": 4.0}, "max_position_embeddings": 256},
            ["rope_scaling: scaling of type 'yarn' lacks 'original_max_position_embeddings'"],
        ),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, ["type 'dynamic' lacks 'original_max_position_embeddings'"]),
        ({"rope_scaling": PHI | {"original_max_position_embeddings": 8}}, ["type 'longrope' lacks 'factor'"]),
        ({"rope_scaling": {"rope_type": "linear"}}, ["type 'linear' lacks 'factor'"]),
        ({"rope_scaling": {"factor": 2.0}}, ["scaling has no entry 'rope_type'"]),
        ({"rope_scaling": {"type": "ntk"}}, ["scaling has the type 'ntk'", "'longrope'"]),
        ({"rope_scaling": {"type": "mrope"}}, ["type 'mrope' lacks 'mrope_section'"]),
        ({"rope_scaling": {**PHI, "long_factor": [1.0, -1.0]}}, ["scaling of type 'longrope' lacks"]),
        (
            {"rope_scaling": {**LONGROPE, "long_factor": [1.0, -1.0]}},
            ["scaling['long_factor'] must be a list of positive numbers, got [1.0, -1.0]"],
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {}}},
            ["one scaling for each type of layer: 'full_attention'", "config['rope_parameters']['full_attention']"],
        ),
    ],
)
def test_configurations_that_lack_an_entry(config, words):
    with pytest.raises(ArgumentError) as info:
        nx.nn.rope_scaling(config)
    for word in words:
        assert word in said(info.value)
    with pytest.raises(ArgumentTypeError, match="the scaling must be a mapping"):
        nx.nn.rope_scaling({"rope_scaling": 2.0})


@pytest.mark.fast(0)
def test_narrow_dtypes_are_rotated_in_float32():
    x, positions = array(64, 8).astype(jnp.bfloat16), jnp.arange(64) * 100
    have = nx.nn.rope(nx.named(x, ["pos", "d"]), nx.named(positions, ["pos"]), "d")
    assert have.dtype == jnp.bfloat16
    want = rotated(x.astype(jnp.float32), positions).astype(jnp.bfloat16)
    np.testing.assert_allclose(have.data.astype(float), want.astype(float), rtol=1e-2, atol=1e-5)


@pytest.mark.fast(0)
def test_features_that_are_not_rotated_are_left_alone():
    x = jnp.array([[1.0, 2.0, jnp.inf, jnp.nan]])
    for resources in ({}, {"d": "x"}):
        f = nx.xmap(
            lambda x: nx.nn.rope(x, 3, "d", size=2), ["b", "d"], ["b", "d"], axis_resources=resources, mesh=make_mesh((4, 2))
        )
        np.testing.assert_allclose(f(x), rotated(x, 3, size=2), rtol=1e-6)


@pytest.mark.fast(0)
def test_rows_of_a_ragged_array_count_for_themselves():
    rows = nx.Ragged(nx.named(array(10, 4), ["token", "d"]), nx.named(jnp.array([3, 5]), ["row"]), tokens="token", rows="row")
    have = nx.nn.rope(rows.values, rows.positions, "d")
    positions = np.asarray(rows.positions.data)
    assert positions[:8].tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    np.testing.assert_allclose(have.data[:8], rotated(rows.values.data, positions)[:8], rtol=1e-5, atol=1e-6)


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("resources", "options", "kinds"),
    [
        ({"b": "x"}, {}, set()),
        ({"a": "x"}, {}, {"collective-permute"}),
        ({"a": "x"}, {"pairing": "interleaved"}, set()),
        ({"a": "x", "b": "y"}, {"pairing": "interleaved", "size": 4}, set()),
        ({"b": "x"}, {"scaling": DYNAMIC, "length": 100}, set()),
        ({"b": "x"}, {"scaling": DYNAMIC}, {"all-reduce"}),
    ],
)
def test_communication(resources, options, kinds):
    f = nx.xmap(
        lambda x: nx.nn.rope(x, nx.arange(axis="b"), "a", **options),
        ["b", "a"],
        ["b", "a"],
        axis_resources=resources,
        mesh=make_mesh((4, 2)),
    )
    found = hlo.collectives(jax.jit(f).lower(array(4, 8)).compile().as_text())
    assert {c.kind for c in found} == kinds
    block = 4 if "all-reduce" in kinds else 4 * 2 * 4  # the largest position, or one block
    assert sum(c.bytes for c in found) == (block if kinds else 0)


X = nx.named(array(4, 6), ["pos", "d"])
POSITIONS = nx.named(make.arange(4), ["pos"])
GRID = nx.named(make.array(np.zeros((2, 4), np.int32)), ["of", "pos"])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nx.nn.rope(X, POSITIONS, "key"), AxisNotFoundError, ["rope: no axis 'key'"]),
        (lambda: nx.nn.rope(X, nx.arange(6, axis="d"), "d"), AxisNameError, ["positions", "has the axis 'd' of the features"]),
        (lambda: nx.nn.rope(X, POSITIONS * 1.0, "d"), ArgumentTypeError, ["positions must contain integers", "f32[]{pos:4}"]),
        (lambda: nx.nn.rope(POSITIONS, 1, "pos"), ArgumentTypeError, ["x must contain floating-point numbers"]),
        (lambda: nx.nn.rope(X, POSITIONS, "d", pairing="half"), ArgumentError, ["pairing='half' is unknown", "'interleaved'"]),
        (lambda: nx.nn.rope(X, POSITIONS, "d", size=3), AxisSizeError, ["size is 3", "even number from 2 to 6"]),
        (lambda: nx.nn.rope(X, POSITIONS, "d", size=8), AxisSizeError, ["size is 8", "from 2 to 6, the size of 'd'"]),
        (lambda: nx.nn.rope(X["d", :5], POSITIONS, "d"), AxisSizeError, ["axis 'd' has size 5", "even number"]),
        (lambda: nx.nn.rope(X, POSITIONS, "d", base=0), ArgumentError, ["base must be a positive number, got 0", "rope_theta"]),
        (lambda: nx.nn.rope(X, POSITIONS, "d", scaling=8.0), ArgumentTypeError, ["scaling must be a mapping, got 8.0"]),
        (lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"factor": 2.0}), ArgumentError, ["has no entry 'rope_type'", "'yarn'"]),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"type": "ntk"}),
            ArgumentError,
            ["type 'ntk'", "'llama3'", "'longrope'"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"type": "yarn", "factor": 2.0}),
            ArgumentError,
            ["'yarn' lacks 'original_max_position_embeddings'", "pass nx.nn.rope_scaling(config)"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling=LONGROPE),
            ArgumentError,
            ["scaling['short_factor'] has 16 numbers, but 3 pairs", "size=32"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling=DYNAMIC, length=1.5),
            ArgumentTypeError,
            ["length must contain integers"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling=DYNAMIC, length=nx.arange(6, axis="d")),
            AxisNameError,
            ["length", "has the axis 'd' of the features"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", sections={"of": [1, 2]}),
            AxisNotFoundError,
            ["rope: no axis 'of'", "positions", "the components of positions"],
        ),
        (
            lambda: nx.nn.rope(X, GRID, "d", sections={"of": [1, 1]}),
            AxisSizeError,
            ["sections [1, 1] have 2 pairs, but 3 pairs of 6 features 'd'"],
        ),
        (
            lambda: nx.nn.rope(X, GRID, "d", sections={"of": [1, 1, 1]}),
            AxisSizeError,
            ["axis 'of' of positions has size 2", "has 3 components"],
        ),
        (
            lambda: nx.nn.rope(X, nx.rename(GRID, {"pos": "of", "of": "pos"}), "d", sections={"pos": [1, 2]}),
            AxisNameError,
            ["x, f32[]{pos:4, d:6}, has the axis 'pos' of the components"],
        ),
        (lambda: nx.nn.rope(X, GRID, "d", sections=[1, 2]), ArgumentError, ["sections=[1, 2] must be one axis name"]),
        (lambda: nx.nn.rope(X, GRID, "d", sections={"of": [1.5, 1.5]}), ArgumentError, ["a list of positive integers"]),
        (lambda: nx.nn.rope(X, GRID, "d", sections={"of": 3}), ArgumentError, ["a list of positive integers", "got 3"]),
        (
            lambda: nx.nn.rope(X, GRID, "d", sections={"of": [1, 2]}, sections_interleaved=True),
            ArgumentError,
            ["[1, 2] pairs cannot be interleaved", "[2, 1] pairs"],
        ),
        (lambda: nx.nn.rope(X, POSITIONS, "d", sections_interleaved=True), ArgumentError, ["requires sections="]),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"type": "mrope", "mrope_section": [1, 2]}),
            ArgumentError,
            ["mrope_section=[1, 2], but sections is None", "sections={'component': [1, 2]}"],
        ),
        (
            lambda: nx.nn.rope(X, GRID, "d", scaling={"type": "mrope", "mrope_section": [1, 2]}, sections={"of": [2, 1]}),
            ArgumentError,
            ["mrope_section=[1, 2], but sections has [2, 1]"],
        ),
        (
            lambda: nx.nn.rope(
                X, GRID, "d", scaling={"rope_type": "default", "mrope_interleaved": True}, sections={"of": [2, 1]}
            ),
            ArgumentError,
            ["mrope_interleaved=True, but sections_interleaved is False"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"rope_type": "default", "partial_rotary_factor": 0.5}),
            AxisSizeError,
            ["with partial_rotary_factor=0.5 of scaling, size is 3"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"type": "yarn", "rope_type": "linear", "factor": 2}),
            ArgumentError,
            ["type ['linear', 'yarn']"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}),
            ArgumentError,
            ["'llama3' lacks 'high_freq_factor', 'original_max_position_embeddings'"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={**YARN, "beta_fasst": 32}),
            ArgumentError,
            ["unknown entry 'beta_fasst'", "Did you mean", "'beta_fast'"],
        ),
        (lambda: nx.nn.rope(X, POSITIONS, "d", scaling={**YARN, "factor": -2.0}), ArgumentError, ["scaling['factor']", "-2.0"]),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={**YARN, "truncate": 3}),
            ArgumentError,
            ["scaling['truncate']", "got 3"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={"rope_type": "default", "rope_theta": 5e5}),
            ArgumentError,
            ["rope_theta=500000.0", "base is 10000.0", "base=500000.0"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", size=6, scaling={"rope_type": "default", "partial_rotary_factor": 0.34}),
            ArgumentError,
            ["partial_rotary_factor=0.34", "6 of 6 features", "size=2"],
        ),
        (
            lambda: nx.nn.rope(X, POSITIONS, "d", scaling={**LLAMA3, "low_freq_factor": 4.0}),
            ArgumentError,
            ["low_freq_factor=4.0", "must be less"],
        ),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as info:
        call()
    for word in words:
        assert word in said(info.value)
