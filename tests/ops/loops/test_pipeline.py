"""`nx.pipeline`: values and gradients of the plain fold in `jnp`, what is sent and kept beside a pipeline by hand, and what is refused."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import SerialLoop as LOOP
from tests import make
from tests.harness import array

LAYERS, BATCH, WIDTH = 8, 16, 6
KEEP = 0.75


def mesh_of(kind=AxisType.Auto, **shape):
    devices = jax.devices()[: math.prod(shape.values())]
    return jax.make_mesh(tuple(shape.values()), tuple(shape), (kind,) * len(shape), devices=devices)


# --- everything that a layer may do ---------------------------------------------------------------------------------

W, SHIFT, GAIN, X, MASK = (
    make.array(np.asarray(array(LAYERS, WIDTH, WIDTH)) / 2),
    array(WIDTH),
    array(LAYERS),
    array(BATCH, WIDTH, seed=1),
    make.array(np.arange(BATCH) % 3 > 0),
)
KEYS = make.keys(LAYERS)


def oracle(w, shift, gain, x):
    """A stack of layers in plain `jnp`: dropout, a mask for each example, positions, a carry that is a tree, and results of every layer."""
    carried, counted, results = x, 0.0, []
    for i in range(LAYERS):
        kept = jax.random.bernoulli(KEYS[i], KEEP, (BATCH, WIDTH))
        h = jnp.tanh(carried @ w[i] + shift + 0.1 * jnp.arange(BATCH)[:, None])
        h = jnp.where(kept, h / KEEP, 0.0)
        results.append((jnp.sum(carried * h, 1), jnp.sum(w[i] ** 3)))
        carried = jnp.where(MASK[:, None], h, carried)
        counted = counted + gain[i] * jnp.sum(carried, 1)
    return carried, counted, *(jnp.stack(parts) for parts in zip(*results, strict=True))


def stacked(w, shift, gain, x, axis="layers", **options):
    """The same over names; the shift is closed over."""

    def layer(carry, p):
        x, counted = carry
        w, gain, mask, key = p
        h = nx.tanh(nx.einsum("{batch,k},{k,o}->{batch,k:o}", x, w) + shift + 0.1 * nx.arange(BATCH, axis="batch"))
        kept = nx.random.bernoulli(key, KEEP, named_shape={"batch": BATCH, "k": WIDTH})
        h = nx.where(kept, h / KEEP, 0.0)
        result = nx.sum(x * h, "k"), nx.sum(w**3, ("k", "o"))
        x = nx.where(mask, h, x)
        return (x, counted + gain * nx.sum(x, "k")), result

    names = axis if isinstance(axis, tuple) else (axis,)
    keys = nx.named(KEYS.reshape([n for n in w.named_shape.values() if n != WIDTH]), list(names))
    inputs = (w, gain, nx.named(MASK, ["batch"]), keys)
    (x, counted), (of_examples, of_weights) = nx.pipeline(layer, (x, 0.0), inputs, axis=axis, outputs=True, **options)
    return x, counted, of_examples, of_weights


OUT = (["batch", "k"], ["batch"], ["layers", "batch"], ["layers"])


def weighted(results):
    return sum(jnp.sum(r * (1 + jnp.cos(jnp.arange(r.size, dtype=r.dtype))).reshape(r.shape)) for r in results)


@functools.cache
def expected():
    def total(*args):
        results = oracle(*args)
        return weighted(results), results

    return jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3), has_aux=True))(W, SHIFT, GAIN, X)


PP = {"layers": "pipe"}
CASES = {
    "pp": ({"pipe": 4}, PP, {"microbatches": 4}, {}),
    "pp+dp+tp": (
        {"pipe": 2, "data": 2, "model": 2},
        {**PP, "batch": "data", "o": "model"},
        {"microbatches": 2, "remat": True},
        {},
    ),
    "interleaved": ({"pipe": 4, "data": 2}, {**PP, "batch": "data"}, {"microbatches": 4, "interleave": 2}, {}),
    "tp of what is contracted": ({"pipe": 2, "model": 2}, {**PP, "k": "model"}, {"microbatches": 8}, {}),
    "two mesh axes": ({"a": 2, "pipe": 2}, {"layers": ("pipe", "a")}, {"microbatches": 8, "remat": True, "interleave": 2}, {}),
    "one microbatch": ({"pipe": 8}, PP, {"microbatches": 1}, {}),
    "in steps": ({"pipe": 2, "data": 2}, {**PP, "batch": ("data", LOOP(2))}, {"microbatches": 2}, {}),
    "layers in steps": ({"data": 2}, {"layers": LOOP(2), "batch": "data"}, {"microbatches": 2}, {}),
    "partitioner": ({"pipe": 2, "data": 2}, {**PP, "batch": "data"}, {"microbatches": 2}, {"partitioning": "auto"}),
    "unmapped": ({"data": 2}, {"batch": "data"}, {"microbatches": 2, "interleave": 2, "remat": True}, {}),
}


# The others are the same mechanisms once more.
FIRST = (("pp", "auto"), ("pp+dp+tp", "explicit"))
FULL = (
    ("interleaved", "explicit"),
    *((case, "auto") for case in ("two mesh axes", "in steps", "partitioner")),
)


def marked(case, kind):
    marks = (
        []
        if (case, kind) in FIRST
        else [pytest.mark.fast(0)]
        if (case, kind) in FULL
        else [pytest.mark.fast(0), pytest.mark.full(0)]
    )
    return pytest.param(case, kind, marks=marks, id=f"{case}-{kind}")


def is_the_fold(f):
    """That the results of a mapped pipeline, and their gradients for all arguments, are those of the fold."""
    (_, want), want_grads = expected()

    def total(*args):
        results = f(*args)
        return weighted(results), results

    (_, have), grads = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3), has_aux=True))(W, SHIFT, GAIN, X)
    for a, b in zip((*have, *grads), (*want, *want_grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("case", "kind"), [marked(case, kind) for case in CASES for kind in ("auto", "explicit")])
def test_values_and_gradients_are_those_of_the_fold(case, kind):
    shape, resources, options, more = CASES[case]
    axes = (["layers", "k", "o"], ["k"], ["layers"], ["batch", "k"])
    mesh = mesh_of({"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind], **shape)
    f = nx.xmap(functools.partial(stacked, **options), axes, OUT, axis_resources=resources, mesh=mesh, **more)
    is_the_fold(f)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "place", [pytest.param({"rounds": "pipe"}, marks=pytest.mark.full(0)), {"layers": "pipe", "o": "model"}], ids=str
)
def test_rounds_may_have_a_name_of_their_own_and_nothing_of_the_weights_is_sent(place):
    (_, want), want_grads = expected()
    names, sizes = ("rounds", "layers"), (2, 4)
    axes = ([*names, "k", "o"], ["k"], list(names), ["batch", "k"])
    f = nx.xmap(
        functools.partial(stacked, axis=names, microbatches=4),
        axes,
        (*OUT[:2], [*names, "batch"], list(names)),
        axis_resources=place,
        mesh=mesh_of(pipe=2, model=2),
    )

    def total(w, shift, gain, x):
        of_all, counted, *of_layers = f(w.reshape(*sizes, *w.shape[1:]), shift, gain.reshape(sizes), x)
        results = (of_all, counted, *(r.reshape(-1, *r.shape[2:]) for r in of_layers))
        return weighted(results), results

    step = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3), has_aux=True)).lower(W, SHIFT, GAIN, X).compile()
    (_, have), grads = step(W, SHIFT, GAIN, X)
    for a, b in zip((*have, *grads), (*want, *want_grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    sent = [c for c in nx.hlo.collectives(step) if c.kind == "collective-permute"]
    assert sent
    assert all(c.in_loop for c in sent)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_gradients_inside():
    (_, want), want_grads = expected()
    axes = (["layers", "k", "o"], ["k"], ["layers"], ["batch", "k"])
    options = {"axis_resources": {**PP, "batch": "data"}, "mesh": mesh_of(pipe=2, data=2)}
    weights = [
        nx.named(1 + jnp.cos(jnp.arange(r.size, dtype=r.dtype)).reshape(r.shape), list(a))
        for r, a in zip(want, OUT, strict=True)
    ]

    def total(*args):
        return sum(nx.sum(r * v, ...) for r, v in zip(stacked(*args, microbatches=2, interleave=2), weights, strict=True))

    grads = nx.xmap(jax.grad(total, argnums=(0, 1, 2, 3)), axes, axes, **options)(W, SHIFT, GAIN, X)
    for a, b in zip(grads, want_grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


# --- beside a pipeline by hand --------------------------------------------------------------------------------------


def by_hand(w, x, stages, microbatches, rounds, remat):
    """In the body of a `jax.shard_map`; `w` is `[rounds, layers of a group, k, k]`."""
    stage, parts = lax.axis_index("pipe"), lax.pcast(x.reshape(microbatches, -1, WIDE), ("pipe",), to="varying")
    others = tuple(axis for axis in jax.typeof(x).manual_axis_type.varying)
    w = lax.pcast(w, others, to="varying") if others else w  # once, so that the gradient is reduced once

    def run(w, h, turn):
        group = lax.dynamic_index_in_dim(w, turn, 0, keepdims=False)
        return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), h, group)[0]

    run = jax.checkpoint(run) if remat else run

    def tick(carry, t):
        state, done = carry
        number = jnp.clip(t - stage, 0, microbatches * rounds - 1)
        works = (t >= stage) & (t - stage < microbatches * rounds)
        begun, rest = number // (stages * rounds), number % (stages * rounds)
        m, turn = (begun * stages + rest % stages, rest // stages) if rounds > 1 else (number, 0)
        h = jnp.where((stage == 0) & (turn == 0), lax.dynamic_index_in_dim(parts, m, 0, keepdims=False), state)
        h = run(w, h, turn)
        ends = works & (stage == stages - 1) & (turn == rounds - 1)
        before = lax.dynamic_index_in_dim(done, m, 0, keepdims=False)
        done = lax.dynamic_update_index_in_dim(done, jnp.where(ends, h, before), m, 0)
        to = stages if rounds > 1 else stages - 1
        return (lax.ppermute(h, "pipe", [(i, (i + 1) % stages) for i in range(to)]), done), None

    zeros = jnp.zeros_like(parts)
    (_, done), _ = lax.scan(tick, (zeros[0], zeros), jnp.arange(microbatches * rounds + stages - 1))
    return lax.psum(jnp.where(stage == stages - 1, done, 0), "pipe").reshape(x.shape)


WIDE, LONG = 32, 64


@pytest.mark.full(0)
@pytest.mark.parametrize(
    ("stages", "data", "microbatches", "rounds", "remat"),
    [
        (4, 1, 8, 1, False),
        pytest.param(4, 2, 8, 1, True, marks=[pytest.mark.fast(0), pytest.mark.full(0)]),
        pytest.param(2, 2, 4, 2, True, marks=[pytest.mark.fast(0), pytest.mark.full(0)]),
        pytest.param(2, 2, 4, 2, False, marks=pytest.mark.fast(0)),
    ],
)
def test_it_sends_and_keeps_what_a_pipeline_by_hand_does(stages, data, microbatches, rounds, remat):
    w, x, scale = array(rounds, LAYERS // rounds, WIDE, WIDE) / 5, array(LONG, WIDE), jnp.arange(WIDE)
    shape = {"pipe": stages, **({"data": data} if data > 1 else {})}
    mesh, batch = mesh_of(**shape), "data" if data > 1 else None
    specs = P(None, "pipe"), P(batch)

    def loss_by_hand(w, x):
        y = jnp.sum(by_hand(w, x, stages, microbatches, rounds, remat) ** 2 * scale)
        return lax.psum(y, batch) if batch else y

    def layer(x, w):
        return nx.tanh(nx.einsum("{batch,k},{k,o}->{batch,k:o}", x, w))

    def loss(w, x):
        y = nx.pipeline(layer, x, w, axis=("rounds", "layers"), microbatches=microbatches, remat=remat)
        return nx.sum(y**2 * nx.named(scale, ["k"]), ("batch", "k"))

    resources = {**PP, **({"batch": "data"} if batch else {})}
    f = nx.xmap(loss, (["rounds", "layers", "k", "o"], ["batch", "k"]), [], axis_resources=resources, mesh=mesh)
    args = [jax.device_put(a, jax.NamedSharding(mesh, spec)) for a, spec in zip((w, x), specs, strict=True)]
    hand = jax.shard_map(loss_by_hand, mesh=mesh, in_specs=specs, out_specs=P())
    ours, theirs = (jax.jit(jax.grad(g, argnums=(0, 1))).lower(*args).compile() for g in (f, hand))
    for a, b in zip(ours(*args), theirs(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    def sent(program):
        return sorted((c.kind, c.in_loop, c.bytes) for c in nx.hlo.collectives(program))

    assert sent(ours) == sent(theirs)
    # One microbatch in each direction, and nothing else in a tick; outside of the loop nothing is gathered.
    microbatch = 4 * WIDE * LONG // data // microbatches
    assert [(kind, size) for kind, in_loop, size in sent(ours) if in_loop] == [("collective-permute", microbatch)] * 2
    assert {kind for kind, in_loop, _ in sent(ours) if not in_loop} == {"all-reduce"}
    temporary = [program.memory_analysis().temp_size_in_bytes for program in (ours, theirs)]
    # By hand, as most would write it, each tick keeps the weights of its round for the gradient.
    assert temporary[0] <= (0.6 if rounds > 1 and not remat else 1.05) * temporary[1]
    # The bubble: as many ticks as the program has, less those in which a stage works.
    report = nx.explain(jax.grad(f), *args)
    (ticks,) = {c.trips for c in report.collectives if c.kind == "collective-permute"}
    (bubble,) = report.bubbles.values()
    assert bubble == (ticks - microbatches * rounds) / ticks == (stages - 1) / (microbatches * rounds + stages - 1)
    assert f"idles     {100 * bubble:.1f} %" in str(report)


@pytest.mark.fast(0)
def test_a_stage_that_is_computed_anew_keeps_the_boundaries_of_its_microbatches_only():
    w, x = array(LAYERS, WIDE, WIDE) / 5, array(LONG, WIDE)

    def layer(x, w):
        return nx.sin(nx.tanh(product(x, w)))

    def temporary(remat):
        def loss(w, x):
            return nx.sum(nx.pipeline(layer, x, w, microbatches=16, remat=remat) ** 2, ("batch", "k"))

        f = nx.xmap(loss, (["layers", "k", "o"], ["batch", "k"]), [], axis_resources=PP, mesh=mesh_of(pipe=2))
        return jax.jit(jax.grad(f)).lower(w, x).compile().memory_analysis().temp_size_in_bytes

    # Four layers keep two arrays each of what they compute, against one of the whole stage.
    one = 4 * LONG * WIDE
    assert temporary(False) - temporary(True) > 6 * one


@pytest.mark.fast(0)
def test_other_names_may_be_uneven():
    """Six entries over four devices."""
    w, x = array(4, 6, 6) / 2, array(8, 6)

    def layer(x, w):
        return nx.nn.softmax(nx.einsum("{batch,k},{k,o}->{batch,k:o}", x, w), "k") - x

    def plain(w, x):
        for p in w:
            x = jax.nn.softmax(x @ p) - x
        return jnp.sum(x**3)

    f = nx.xmap(
        lambda w, x: nx.sum(nx.pipeline(layer, x, w, microbatches=4) ** 3, ("batch", "k")),
        (["layers", "k", "o"], ["batch", "k"]),
        [],
        axis_resources={**PP, "k": "model"},
        mesh=mesh_of(pipe=2, model=4),
    )
    have, want = (jax.jit(jax.value_and_grad(g, argnums=(0, 1)))(w, x) for g in (f, plain))
    for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def uneven_layer(closed):
    """A layer whose slope is infinite at zero, with positions, random numbers, inputs of each example and what it closes over."""

    def layer(c, p):
        w, m, key = p
        h = nx.tanh(nx.rename(nx.dot(c, w, "k"), {"o": "k"})) * m + 0.01 * nx.arange(axis="batch")
        h = h + nx.log(nx.sum(h * h, "k")) * closed
        return nx.nn.dropout(h, key, 0.3), nx.sum(h**2, "k")

    return layer


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize(
    ("count", "mesh", "places", "options"),
    [
        (10, {"pipe": 2, "data": 4}, {"batch": "data"}, {"microbatches": 3}),
        *(
            pytest.param(*case, marks=pytest.mark.fast(0))
            for case in (
                (10, {"pipe": 4}, {}, {"microbatches": 4}),
                (1, {"pipe": 2, "data": 4}, {"batch": "data"}, {"microbatches": 2}),
                (9, {"pipe": 2, "data": 4}, {"batch": "data"}, {"microbatches": 1}),
                (13, {"pipe": 2, "data": 2}, {"batch": "data"}, {"microbatches": 4, "interleave": 2, "remat": True}),
                (10, {"pipe": 2, "data": 2}, {"batch": ("data", nx.SerialLoop(2))}, {"microbatches": 2}),
                (12, {"pipe": 2, "data": 2}, {"batch": ("data", nx.SerialLoop(2))}, {"microbatches": 2}),
            )
        ),
    ],
)
@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(0))])
def test_a_batch_that_does_not_divide(count, mesh, places, options, kind):
    """Nor does what devices have divide into microbatches: entries of the batch are in other blocks within the pipeline."""
    x, w, m = array(count, 3), array(4, 3, 3), array(count, seed=4) + 2.0
    closed, keys = array(count, seed=5), jax.random.split(jax.random.key(3), 4)
    layer = uneven_layer(nx.named(closed, ["batch"]))

    def run(x, w, m, keys):
        return nx.pipeline(layer, x, (w, m, keys), outputs=True, **options)

    ins, outs = (["batch", "k"], ["layers", "k", "o"], ["batch"], ["layers"]), (["batch", "k"], ["layers", "batch"])
    grid = mesh_of({"auto": AxisType.Auto, "explicit": AxisType.Explicit}[kind], **mesh)
    f = nx.xmap(run, ins, outs, axis_resources={"layers": "pipe", **places}, mesh=grid)

    def plain(x, w, m, keys):
        norms = []
        for i, key in enumerate(keys[j] for j in range(len(w))):
            h = jnp.tanh(x @ w[i]) * m[:, None] + 0.01 * jnp.arange(count)[:, None]
            h = h + jnp.log((h * h).sum(1, keepdims=True)) * closed[:, None]
            norms.append((h**2).sum(1))
            x = jnp.where(jax.random.bernoulli(key, 0.7, h.shape), h / 0.7, 0.0)
        return x, jnp.stack(norms)

    def loss(f):
        def both(*args):
            y, norms = f(*args, keys)
            return jnp.sum(jnp.sin(y)) + jnp.sum(jnp.cos(norms)), (y, norms)

        return jax.jit(jax.value_and_grad(both, argnums=(0, 1, 2), has_aux=True))

    for a, b in zip(jax.tree.leaves(loss(f)(x, w, m)), jax.tree.leaves(loss(plain)(x, w, m)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * (1 + np.abs(b).max()))


def test_layers_that_do_not_divide_are_a_fold_in_steps_and_refused_over_stages():
    w, x = array(3, 4, 4), array(6, 4)

    def mapped(**options):
        def loss(w, x):
            return nx.sum(nx.pipeline(product, x, w, microbatches=2) ** 2, ("batch", "k"))

        return nx.xmap(loss, (["layers", "k", "o"], ["batch", "k"]), [], **options)

    have, want = (
        jax.jit(jax.grad(f))(w, x)
        for f in (mapped(axis_resources={"layers": nx.SerialLoop(2)}), lambda w, x: jnp.sum((x @ w[0] @ w[1] @ w[2]) ** 2))
    )
    np.testing.assert_allclose(have, want, rtol=1e-4)
    with pytest.raises(nx.errors.UnevenAxisError, match="pipeline: axis 'layers' of size 3 does not divide"):
        jax.eval_shape(mapped(axis_resources=PP, mesh=mesh_of(pipe=2)), w, x)


# --- idle ticks -----------------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_what_idle_stages_compute_gets_nowhere():
    """Each layer is defined for what the one before gives, and for nothing else: elsewhere its value or its slope is infinite."""
    start, end = jnp.array([0.0, 5.0, 5.0, 5.0]), jnp.full(4, 5.1)
    x, scale = jnp.abs(array(8, 3)) + 0.1, array(3)

    def layer(x, p):
        start, end = p
        return nx.sqrt(x - start) * nx.named(scale, ["k"]) ** 2 + end

    def plain(start, end, x):
        for i in range(4):
            x = jnp.sqrt(x - start[i]) * scale**2 + end[i]
        return jnp.sum(x**2)

    def loss(start, end, x):
        return nx.sum(nx.pipeline(layer, x, (start, end), microbatches=2) ** 2, ("batch", "k"))

    f = nx.xmap(loss, (["layers"], ["layers"], ["batch", "k"]), [], axis_resources=PP, mesh=mesh_of(pipe=4))
    have, want = (jax.jit(jax.value_and_grad(g, argnums=(0, 1, 2)))(start, end, x) for g in (f, plain))
    for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


# --- what is refused ------------------------------------------------------------------------------------------------

MIXED = (
    "pipeline: the function reduces or communicates over 'batch', but each call gets one of 2 microbatches of that axis. Return a value "
    "per element with outputs=True and reduce 'batch' after the pipeline;"
)


def product(x, w):
    return nx.einsum("{batch,k},{k,o}->{batch,k:o}", x, w)


def step(x, w):
    return x + nx.sum(jax.vjp(lambda w: product(x, w), w)[1](x)[0], "o")


@pytest.mark.parametrize(
    ("layer", "options", "error", "text"),
    [
        (lambda x, w: x - nx.mean(x, "batch"), {}, nx.errors.PipelineError, MIXED),
        (lambda x, w: nx.roll(x, 1, "batch"), {}, nx.errors.PipelineError, MIXED),
        (lambda x, w: nx.sort(x, "batch"), {}, nx.errors.PipelineError, MIXED),
        (lambda x, w: x + x["batch", 3], {}, nx.errors.PipelineError, MIXED),
        (lambda x, w: nx.scan(lambda c, t: (c + t, c), 0.0, x, axis="batch")[1], {}, nx.errors.PipelineError, MIXED),
        (step, {}, nx.errors.PipelineError, "differentiates with respect to a value without 'batch'"),
        (lambda x, w: (x, jnp.cos(x.data).sum()), {"outputs": True}, nx.errors.PipelineError, "depends on the microbatch"),
        (lambda x, w: x + nx.sum(nx.named(jnp.arange(4.0), ["v"]), "v"), {}, nx.errors.PipelineError, "communicates along mesh axis 'pipe'"),
        (lambda x, w: (x, nx.named(jnp.arange(4.0), ["v"])), {"outputs": True}, nx.errors.PlacementConflictError, "an axis 'v' on mesh axis"),
        (lambda x, w: (x, nx.named(jnp.arange(8.0), ["layers"])), {"outputs": True}, nx.errors.AxisNameError, "for one layer has the axis 'layers'"),
        (lambda x, w: x, {"outputs": True}, nx.errors.ArgumentTypeError, "pipeline: the function must return a pair (carry, result), got NamedArray"),
        (lambda x, w: x, {"axis": "layer"}, nx.errors.AxisNotFoundError, "pipeline: no axis 'layer'"),
        (lambda x, w: x, {"axis": 0}, nx.errors.AxisNameError, "pipeline: axis must be an axis name, got 0."),
        (lambda x, w: x, {"over": "bach"}, nx.errors.AxisNotFoundError, "neither x nor params has an axis 'bach' to split"),
        (lambda x, w: x, {"microbatches": 0}, nx.errors.ArgumentError, "pipeline: microbatches must be a positive integer, got 0."),
        (lambda x, w: x, {"interleave": 1.5}, nx.errors.ArgumentError, "pipeline: interleave must be a positive integer, got 1.5."),
        (lambda x, w: x, {"interleave": 3}, nx.errors.AxisSizeError, "the 4 layers of each do not divide into interleave=3 groups"),
        (lambda x, w: x, {"interleave": 2, "microbatches": 1}, nx.errors.PipelineError, "Use a multiple of 2 microbatches"),
        (lambda x, w: x, {"axis": ("layers", "o"), "interleave": 2}, nx.errors.ArgumentError, "which already defines the rounds"),
        (lambda x, w: x, {"axis": ("layers", "k2")}, nx.errors.AxisNotFoundError, "pipeline: no axis 'k2'"),
    ],
)  # fmt: skip
def test_mistakes(layer, options, error, text):
    f = nx.xmap(
        lambda w, x: nx.pipeline(layer, x, w, **{"microbatches": 2, **options}),
        axis_resources={**PP, "batch": "data", "v": "pipe"},
        axis_sizes={"v": 4},
        mesh=mesh_of(pipe=2, data=2),
    )
    with pytest.raises(error) as caught:
        jax.eval_shape(f, nx.named(W, ["layers", "k", "o"]), nx.named(X, ["batch", "k"]))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({"layers": "pipe", "batch": "pipe"}, "'batch' and 'layers' are both mapped to mesh axis 'pipe'"),
        ({"layers": "pipe", "o": "data"}, "'layers' and 'o' are both mapped"),
    ],
)
def test_stages_are_somewhere_and_nothing_else_is(resources, text):
    axis = ("layers", "o") if "o" in resources else "layers"
    f = nx.xmap(
        lambda w, x: nx.pipeline(lambda x, w: x, x, w, axis=axis, microbatches=2),
        axis_resources=resources,
        mesh=mesh_of(pipe=2, data=2),
    )
    with pytest.raises(nx.errors.PlacementConflictError, match="pipeline: " + text):
        jax.eval_shape(f, nx.named(W, ["layers", "k", "o"]), nx.named(X, ["batch", "k"]))
