"""`remat=` of `fold`, `scan` and `pipeline`: the gradient recomputes a step, as with `jax.checkpoint` by hand."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx

DOTS = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
WEIGHTS, DATA = ["layer", "embed_fsdp", "hidden"], ["batch", "embed"]
VALUES = [("full", {}), (True, {}), ("dots", {"policy": DOTS}), (DOTS, {"policy": DOTS})]
LAYOUTS = [
    ((8,), {"batch": "x", "embed_fsdp": "x"}),
    ((2, 4), {"batch": "x", "hidden": "y"}),
    ((8,), {"batch": ("x", nx.SerialLoop(2))}),
    ((4,), {"batch": "x", "embed_fsdp": "x", "hidden": nx.SerialLoop(2)}),
]


def layer(x, w):
    h = nx.tanh(nx.einsum("{embed}, {embed:embed_fsdp} -> {}", x, w))
    return x + nx.sin(nx.einsum("{hidden}, {hidden, embed:embed_fsdp} -> {embed}", h, w))


def arrays(layers=3, batch=16, embed=8, hidden=8):
    rng = np.random.default_rng(0)
    shapes = (layers, embed, hidden), (batch, embed)
    return [jnp.asarray(rng.normal(size=shape) / 3, "float32") for shape in shapes]


def loss_of(step=layer, loop="fold", **options):
    def loss(w, x):
        if loop == "scan":
            y, sums = nx.scan(lambda c, u: (step(c, u), nx.sum(c, ...)), x, w, axis="layer", **options)
            return nx.mean(nx.sin(y), ...) + nx.mean(sums, "layer")
        return nx.mean(nx.sin(nx.fold(step, x, w, axis="layer", **options)), ...)

    return jax.value_and_grad(loss, (0, 1))


def mapped(function, shape=(1,), resources=None):
    axes = ("x", "y")[: len(shape)]
    mesh = jax.make_mesh(shape, axes, devices=jax.devices()[: int(np.prod(shape))])
    options = {"axis_resources": resources, "mesh": mesh} if resources else {}
    return nx.xmap(function, (WEIGHTS, DATA), ([], (WEIGHTS, DATA)), **options)


def by_hand(w, x):
    y = x
    for u in w:
        y = y + jnp.sin(jnp.tanh(y @ u) @ u.T)
    return jnp.mean(jnp.sin(y))


def program(function, *args):
    """The traced program, without addresses."""
    return re.sub(r"0x[0-9a-f]+|<function[^>]*>|name=\S+", "", str(jax.make_jaxpr(function)(*args)))


@pytest.mark.parametrize(("value", "options"), VALUES)
def test_the_program_is_that_of_checkpoint_by_hand(value, options):
    args = arrays()
    ours = program(mapped(loss_of(remat=value)), *args)
    assert ours == program(mapped(loss_of(jax.checkpoint(layer, **options))), *args)
    assert ours != program(mapped(loss_of()), *args)


def test_none_and_false_store_everything():
    args = arrays()
    for value in (None, False, "none"):
        assert program(mapped(loss_of(remat=value)), *args) == program(mapped(loss_of()), *args)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("loop", ["fold", pytest.param("scan", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize(
    ("shape", "resources"), [LAYOUTS[0], *(pytest.param(*one, marks=pytest.mark.fast(0)) for one in LAYOUTS[1:])]
)
def test_gradients_are_exact_in_all_layouts(shape, resources, loop):
    w, x = arrays()
    want = jax.value_and_grad(by_hand, (0, 1))(w, x)
    for options in ({"remat": "full"}, {"remat": "dots"}, {"remat": "gathers"}, {"remat": "full", "prefetch": 1}):
        got = mapped(loss_of(loop=loop, **options), shape, resources)(w, x)
        plain = mapped(loss_of(loop=loop), shape, resources)(w, x)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, plain)
        if loop == "fold":
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), got, want)


@pytest.mark.parametrize("loop", ["fold", "scan"])
def test_gathers_are_not_stored(loop):
    """The gathered parameters of all layers take most of the memory; only they are computed again."""
    types = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 256, 256), (8, 256))]

    def measured(value):
        step = mapped(loss_of(loop=loop, remat=value), (8,), {"batch": "x", "embed_fsdp": "x"})
        compiled = step.lower(*types).compile()
        gathers = sum(one.wire_bytes for one in nx.explain(step, *types).collectives if one.kind == "all-gather")
        return compiled.memory_analysis().temp_size_in_bytes, compiled.cost_analysis()["flops"], gathers

    stored, flops, gathers = measured("none")
    again = measured("gathers")
    assert again[0] < 0.5 * stored
    assert again[1] == pytest.approx(flops, rel=0.01)
    assert again[2] > gathers
    assert again[2] == measured("full")[2]
    assert measured("full")[1] > 1.1 * flops


@pytest.mark.fast(0)
def test_peaks_follow_the_compiler():
    """With few activations stored, explain and XLA's memory analysis both decrease, and agree within a quarter."""
    types = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((12, 64, 512), (2048, 64))]
    for shape, resources in (((1,), None), ((4,), {"batch": "x"})):
        peaks = []
        for value in ("none", "dots", "full"):
            report = nx.explain(mapped(loss_of(remat=value), shape, resources), *types, compile=True)
            sizes = report.compiled.memory
            measured = sizes["arguments"] + sizes["results"] + sizes["temporary"]
            assert report.memory.peak == pytest.approx(measured, rel=0.25)
            peaks.append((measured, report.memory.peak))
        for ours in (0, 1):
            none, dots, full = (peak[ours] for peak in peaks)
            assert full < 0.7 * dots
            assert dots < none


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_the_policy_of_a_pipeline():
    args = arrays(layers=4)

    def run(**options):
        def loss(w, x):
            return nx.mean(nx.sin(nx.pipeline(layer, x, w, axis="layer", **options)), ...)

        return mapped(jax.value_and_grad(loss, (0, 1)), (4,), {"layer": "x"})

    plain = run()(*args)
    for value in ("full", "dots", "gathers", DOTS):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), run(remat=value)(*args), plain)
    texts = {value: program(run(remat=value), *args) for value in (None, "full", "dots", True)}
    assert texts["full"] == texts[True]
    assert len(set(texts.values())) == 3


@pytest.mark.parametrize("loop", [nx.fold, nx.scan, nx.pipeline])
def test_an_unknown_value_is_rejected(loop):
    x = nx.named(jnp.ones((2, 3)), ["layers", "batch"])
    options = {} if loop is nx.pipeline else {"axis": "layers"}
    message = rf"{loop.__name__}: remat='ful' must be 'none', 'full', 'dots', 'gathers', a boolean, or a policy .*'full'"
    with pytest.raises(nx.errors.ArgumentError, match=message):
        loop(lambda c, u: c + u, x["layers", 0], x, remat="ful", **options)
