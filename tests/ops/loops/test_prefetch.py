"""`prefetch=1` of `fold` and `scan`: gathers one step ahead, and gradients reduced one step later."""

from __future__ import annotations

import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx

FSDP = {"batch": "x", "embed_fsdp": "x"}
WEIGHTS = {"up": ["layer", "embed_fsdp", "hidden"], "down": ["layer", "hidden", "embed_fsdp"], "bias": ["layer", "embed"]}
DATA = ["batch", "embed"]


def arrays(layers=4, batch=8, embed=16, hidden=6):
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape) / 3, "float32")

    weights = {"up": normal(layers, embed, hidden), "down": normal(layers, hidden, embed), "bias": normal(layers, embed)}
    return weights, normal(batch, embed)


def layer(x, w):
    h = nx.tanh(nx.einsum("{embed}, {embed:embed_fsdp} -> {}", x, w["up"]))
    return x + nx.einsum("{hidden}, {hidden, embed:embed_fsdp} -> {embed}", h, w["down"]) * w["bias"]


def renamed(x, w):
    up, down = (nx.rename(w[name], {"embed_fsdp": "embed"}) for name in ("up", "down"))
    h = nx.tanh(nx.dot(x, up, "embed"))
    return x + nx.dot(h, down, "hidden") * w["bias"]


def by_hand(w, x, reverse=False):
    order = range(len(w["up"]))
    for i in reversed(order) if reverse else order:
        x = x + jnp.tanh(x @ w["up"][i]) @ w["down"][i] * w["bias"][i]
    return x


def mapped(function, resources, mesh, outs=("batch", "embed"), **options):
    return nx.xmap(function, (WEIGHTS, DATA), list(outs), axis_resources=resources, mesh=mesh, **options)


def fold_of(step=layer, **options):
    return lambda w, x: nx.fold(step, x, w, axis="layer", prefetch=1, **options)


def close(one, two, tolerance=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance), one, two)


def loss(function):
    return lambda w, x: jnp.sum(jnp.sin(function(w, x)) * jnp.arange(1.0, 1 + x.shape[-1]))


def is_right(function, w, x, oracle=by_hand):
    close(jax.jit(function)(w, x), oracle(w, x))
    close(*(jax.jit(jax.grad(loss(f), (0, 1)))(w, x) for f in (function, oracle)), 2e-4)


def mesh_of(shape, kind=AxisType.Auto):
    axes = ("x", "y")[: len(shape)]
    return jax.make_mesh(shape, axes, (kind,) * len(shape), devices=jax.devices()[: int(np.prod(shape))])


# Shape of the mesh, resources, sizes. The last axes do not divide.
LAYOUTS = [
    ((8,), FSDP, {}),
    ((4,), FSDP, {"layers": 2, "embed": 8}),
    ((2, 4), {"batch": ("x", "y"), "embed_fsdp": ("x", "y")}, {}),
    ((2, 4), {"batch": ("x", "y"), "embed_fsdp": "y"}, {"layers": 3}),
    ((2, 4), {"batch": "x", "embed_fsdp": "x", "hidden": "y"}, {"hidden": 8}),
    ((4,), FSDP, {"embed": 10, "batch": 6}),
    ((4,), {"batch": "x", "embed_fsdp": "x", "layer": "x"}, {"layers": 8}),
    ((4,), {"batch": "x"}, {}),
]


OTHERS = [
    pytest.param(*one, marks=[pytest.mark.fast(0), pytest.mark.full(0)] if i in (0, 2, 3, 6) else pytest.mark.fast(0))
    for i, one in enumerate(LAYOUTS[1:])
]


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize(("shape", "resources", "sizes"), [LAYOUTS[0], *OTHERS])
def test_values_and_gradients_are_those_of_the_unmapped_program(shape, resources, sizes):
    if "layer" in resources:  # the names of one array need separate mesh axes
        resources = {"batch": "x", "layer": "x"}
    w, x = arrays(**sizes)
    for step in (layer, renamed):
        is_right(mapped(fold_of(step), resources, mesh_of(shape)), w, x)


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("shape", "resources", "sizes"), [LAYOUTS[0], LAYOUTS[4], LAYOUTS[5]])
def test_on_explicit_meshes(shape, resources, sizes):
    w, x = arrays(**sizes)
    mesh = mesh_of(shape, AxisType.Explicit)
    is_right(mapped(fold_of(), resources, mesh), w, x)
    with jax.set_mesh(mesh):
        is_right(mapped(fold_of(renamed), resources, None), w, x)


# The function of a step, and the function around the mapped function and around its body.
WRAPPED = [
    (jax.checkpoint(renamed), jax.checkpoint),
    *(
        pytest.param(step, around, marks=pytest.mark.full(0))
        for step in (layer, jax.checkpoint(layer), jax.jit(renamed))
        for around in (lambda f: f, jax.checkpoint)
    ),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("step", "around"), WRAPPED, ids=range(len(WRAPPED)))
def test_under_checkpoint_and_jit(step, around):
    w, x = arrays()
    is_right(around(mapped(fold_of(step, unroll=2), FSDP, mesh_of((4,)))), w, x)
    is_right(mapped(around(fold_of(step)), FSDP, mesh_of((4,))), w, x)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_scan_from_the_end_with_results():
    w, x = arrays(5)

    def scanned(w, x):
        def step(x, w):
            x = layer(x, w)
            return x, (nx.sum(x, "embed"), nx.sum(w["up"], ("embed_fsdp", "hidden")))

        last, (sums, sizes) = nx.scan(step, x, w, axis="layer", reverse=True, prefetch=1)
        return last + nx.sum(sums * nx.sum(sums * sizes, "layer"), "layer") / 1000

    def oracle(w, x):
        order, sums = range(5), []
        for i in reversed(order):
            x = x + jnp.tanh(x @ w["up"][i]) @ w["down"][i] * w["bias"][i]
            sums = [x.sum(-1), *sums]
        sums, sizes = jnp.stack(sums), w["up"].sum((1, 2))
        return x + (sums * (sums * sizes[:, None]).sum(0)).sum(0)[:, None] / 1000

    is_right(mapped(scanned, FSDP, mesh_of((4,))), w, x, oracle)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_closed_over_values_have_gradients():
    w, x = arrays()

    def closing(w, x):
        scale, shift = nx.mean(w["up"], ...), nx.rename(w["up"]["layer", 0]["hidden", 0], {"embed_fsdp": "embed"})

        def step(x, w):
            up = nx.rename(w["up"] * scale, {"embed_fsdp": "embed"})
            down = nx.rename(w["down"], {"embed_fsdp": "embed"})
            return x * scale + nx.dot(nx.tanh(nx.dot(x, up, "embed")), down, "hidden") * shift

        return nx.fold(step, x, w, axis="layer", prefetch=1)

    def oracle(w, x):
        scale, shift = w["up"].mean(), w["up"][0, :, 0]
        for up, down in zip(w["up"], w["down"], strict=True):
            x = x * scale + jnp.tanh(x @ (up * scale)) @ down * shift
        return x

    is_right(mapped(closing, FSDP, mesh_of((4,))), w, x, oracle)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_inside_of_a_serial_loop_and_a_loop():
    w, x = arrays(batch=16)
    loop = {"batch": ("x", nx.SerialLoop(2)), "embed_fsdp": "x"}
    is_right(mapped(fold_of(), loop, mesh_of((4,))), w, x)

    def twice(w, x):
        return nx.fori_loop(0, 2, lambda _, x: nx.fold(layer, x, w, axis="layer", prefetch=1), x)

    close(jax.jit(mapped(twice, FSDP, mesh_of((4,))))(w, x), by_hand(w, by_hand(w, x)))


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_loop_in_a_loop():
    w, x = arrays(6)

    def nested(w, x):
        outer = {name: nx.rearrange(a, "{layer=(o i)} -> {o, i}", o=3, i=2) for name, a in w.items()}
        return nx.fold(lambda x, w: nx.fold(layer, x, w, axis="i", prefetch=1), x, outer, axis="o", prefetch=1)

    is_right(mapped(nested, FSDP, mesh_of((4,))), w, x)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_gradient_in_the_body_of_the_mapped_function():
    w, x = arrays()

    def inside(w, x):
        def total(w):
            y = nx.fold(layer, x, w, axis="layer", prefetch=1)
            return nx.sum(nx.sin(y) * y, ...)

        return jax.grad(total)(w)

    def oracle(w, x):
        return jax.grad(lambda w: jnp.sum(jnp.sin(by_hand(w, x)) * by_hand(w, x)))(w)

    f = nx.xmap(inside, (WEIGHTS, DATA), WEIGHTS, axis_resources=FSDP, mesh=mesh_of((4,)))
    close(jax.jit(f)(w, x), oracle(w, x), 2e-4)
    second = (jax.jit(jax.grad(lambda x, g=g: jnp.sum(g(w, x)["up"] ** 2)))(x) for g in (f, oracle))
    close(*second, 2e-2)


def test_without_gathers_it_is_the_loop():
    w, x = arrays()
    for resources, mesh in (({}, None), ({"batch": "x"}, mesh_of((4,)))):
        texts = [
            re.sub("0x[0-9a-f]+", "", str(jax.make_jaxpr(mapped(f, resources, mesh))(w, x)))
            for f in (fold_of(), lambda w, x: nx.fold(layer, x, w, axis="layer"))
        ]
        assert texts[0].replace("<lambda>", "") == texts[1].replace("<lambda>", "")
    assert nx.fold(lambda x, w: x + w, 0.0, jnp.arange(3.0), prefetch=1) == 3


def test_errors():
    w, x = arrays()
    for wrong in (2, True, "1", -1):
        with pytest.raises(nx.errors.ArgumentError, match=r"fold: prefetch=.* must be 0 or 1. Pass prefetch=1"):
            nx.fold(lambda x, w: x, 0.0, jnp.ones(3), prefetch=wrong)
    f = mapped(fold_of(), FSDP, mesh_of((4,)))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: f(w, x), (x,), (x,))


# --- the compiled program -------------------------------------------------------------------------

INSTRUCTION = re.compile(r"^\s*(?:ROOT )?(%?[\w.-]+) = .*? ([a-z][\w-]*)\((.*?)\)(.*)$")


def bodies(text):
    """Return the instructions of the bodies of while loops: name to (kind, operands, attributes)."""
    parts = {}
    for part in re.split(r"\n(?=\S)", text):
        head = re.match(r"(?:ENTRY )?(%[\w.-]+) \(", part)
        if head:
            found = (INSTRUCTION.match(line) for line in part.splitlines()[1:])
            parts[head[1]] = {m[1]: (m[2], re.findall(r"%[\w.-]+", m[3]), m[4]) for m in found if m}
    names = re.findall(r"body=(%[\w.-]+)", text)
    return [parts[name] for name in names], parts


def dependences(text):
    """Return, for each loop with collectives, (kind, is a dot before it, is a dot after it) of each."""
    loops, parts = bodies(text)

    def computes(kind, attributes):
        called = re.findall(r"(?:calls|to_apply)=(%[\w.-]+)", attributes)
        return kind in ("dot", "custom-call", "tanh") or any(
            computes(k, a) for one in called for k, _, a in parts[one].values()
        )

    found = []
    for body in loops:

        def upwards(name, body=body):
            seen, waiting = set(), [name]
            while waiting:
                for operand in body[waiting.pop()][1]:
                    if operand in body and operand not in seen:
                        seen.add(operand)
                        waiting.append(operand)
            return seen

        dots = [name for name, (kind, _, attributes) in body.items() if computes(kind, attributes)]
        sent = [name for name, (kind, *_) in body.items() if kind in ("all-gather", "reduce-scatter", "all-reduce")]
        if sent:
            assert dots
            found.append(
                [
                    (body[one][0], any(dot in upwards(one) for dot in dots), any(one in upwards(dot) for dot in dots))
                    for one in sent
                ]
            )
    return found


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("step", [layer, pytest.param(renamed, marks=pytest.mark.fast(0))])
def test_no_computation_of_a_step_waits_for_a_collective(step):
    w, x = arrays()
    mesh = mesh_of((4,))
    ahead = jax.jit(jax.grad(loss(mapped(fold_of(step), FSDP, mesh)), (0, 1))).lower(w, x).compile().as_text()
    forward, backward = dependences(ahead)
    assert Counter(forward) == {("all-gather", False, False): 2}
    assert Counter(backward) == {("all-gather", False, False): 2, ("reduce-scatter", False, False): 2}
    plain = mapped(lambda w, x: nx.fold(step, x, w, axis="layer"), FSDP, mesh)
    waiting = dependences(jax.jit(jax.grad(loss(plain), (0, 1))).lower(w, x).compile().as_text())
    assert all(before or after for loop in waiting for _, before, after in loop)


@pytest.mark.parametrize("layers", [4, pytest.param(7, marks=pytest.mark.fast(0))])
def test_each_layer_is_gathered_once_in_each_pass(layers):
    w, x = arrays(layers)
    f = jax.grad(loss(mapped(fold_of(), FSDP, mesh_of((4,)))), (0, 1))
    # The last gather of the forward pass is the first of the backward pass.
    counts = {"all-gather": 2 * (2 * layers - 1), "reduce-scatter": 2 * layers}
    compiled = jax.jit(f).lower(w, x).compile()
    by_kind = Counter()
    for one in nx.hlo.collectives(compiled):
        by_kind[one.kind] += one.trips
    report = nx.explain(f, w, x)
    explained = {kind: count for kind, (count, _) in report.summary().items()}
    for kind, count in counts.items():
        assert by_kind[kind] == explained[kind] == count
    assert sum(one.trips * one.wire_bytes for one in nx.hlo.collectives(compiled)) == report.wire_bytes


@pytest.mark.fast(0)
def test_memory_and_time_are_estimated():
    w, x = arrays(8, 64, 64, 128)
    mesh, reports, temporary = mesh_of((8,)), [], []
    for prefetch in (0, 1):
        f = mapped(lambda w, x, p=prefetch: nx.fold(jax.checkpoint(layer), x, w, axis="layer", prefetch=p), FSDP, mesh)
        f = jax.grad(loss(f), (0, 1))
        memory = jax.jit(f).lower(w, x).compile().memory_analysis()
        temporary.append(memory.temp_size_in_bytes)
        held = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
        reports.append(nx.explain(f, w, x))
        assert reports[-1].memory.peak == pytest.approx(held, rel=0.2)
    gathered = 2 * 64 * 128 * 4
    assert temporary[1] - temporary[0] < 2.2 * gathered  # a layer, and the gradient of a layer
    for bandwidth, hides_all in ((1e12, True), (1e9, False)):
        machine = nx.machines.Machine(
            flops={"float32": 1e12}, memory=16e9, bandwidth=1e11, links={...: nx.machines.Link(bandwidth, 0.0, "switch")}
        )
        plain, ahead = (machine.time(report.steps, report.mesh) for report in reports)
        assert plain.hidden == 0
        loops = [step for step in reports[1].steps if step.loop]
        sent = sum(machine.time_of(step, reports[1].mesh) for step in loops if getattr(step, "is_ahead", False))
        computed = {
            n: sum(machine.time_of(s, reports[1].mesh) for s in loops if s.loop == n and not hasattr(s, "is_ahead"))
            for n in (1, 2)
        }
        assert ahead.hidden == pytest.approx(sent if hides_all else sum(computed.values()), rel=1e-6)


@pytest.mark.fast(0)
@pytest.mark.parametrize("what", ["the carry", pytest.param("the slice", marks=pytest.mark.fast(0))])
def test_callbacks_run_once_a_step(what):
    """A callback is no part of the gather, which has no carry."""
    w, x = arrays()
    seen = []

    def step(x, w):
        total = nx.sum(x, ("batch", "embed")) if what == "the carry" else nx.sum(w["bias"], "embed")
        jax.debug.callback(lambda value: seen.append(float(value)), total)
        return layer(x, w)

    f = mapped(fold_of(step), FSDP, mesh_of((4,)))
    close(jax.jit(f)(w, x), by_hand(w, x))
    jax.effects_barrier()
    expected = [float(by_hand({k: v[:i] for k, v in w.items()}, x).sum()) for i in range(4)]
    expected = expected if what == "the carry" else np.asarray(w["bias"].sum(1))
    np.testing.assert_allclose(sorted(seen), sorted(np.repeat(expected, 4)), rtol=1e-4)
