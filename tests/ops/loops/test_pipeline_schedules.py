"""The schedules of `nx.pipeline`: values and gradients of the plain fold, and a pipeline by hand with the same bytes, ticks and memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests import make
from tests.harness import array
from tests.ops.loops.test_pipeline import (
    CASES,
    OUT,
    PP,
    W,
    X,
    is_the_fold,
    mesh_of,
    product,
    stacked,
)

KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}
FIRST = (("pp", "1f1b", "explicit"),)
FULL = (
    ("pp+dp+tp", "zero_bubble", "auto"),
    ("interleaved", "interleaved", "auto"),
    ("two mesh axes", "1f1b", "explicit"),
    ("in steps", "zero_bubble", "auto"),
    ("one microbatch", "1f1b", "auto"),
)


def marked(*case):
    marks = [] if case in FIRST else [pytest.mark.fast(0)] if case in FULL else [pytest.mark.fast(0), pytest.mark.full(0)]
    return pytest.param(*case, marks=marks, id="-".join(case))


@pytest.mark.full(1)
@pytest.mark.parametrize(
    ("case", "schedule", "kind"),
    [marked(case, schedule, kind) for case in CASES for schedule in ("1f1b", "interleaved", "zero_bubble") for kind in KINDS],
)
def test_values_and_gradients_are_those_of_the_fold(case, schedule, kind):
    shape, resources, options, more = CASES[case]
    stages = np.prod([shape[axis] for axis in np.ravel(resources.get("layers", "data")) if axis in shape], dtype=int)
    if schedule == "interleaved":
        options = {**options, "interleave": 1 if stages == 8 else 2, "microbatches": 8}
        schedule = "1f1b" if stages == 8 else schedule
    axes = (["layers", "k", "o"], ["k"], ["layers"], ["batch", "k"])
    body = functools.partial(stacked, schedule=schedule, **options)
    f = nx.xmap(body, axes, OUT, axis_resources=resources, mesh=mesh_of(KINDS[kind], **shape), **more)
    is_the_fold(f)


def layer(x, w):
    return nx.tanh(product(x, w))


def plain(w, x, closed):
    for p in w:
        x = jnp.tanh(x @ p) * closed[:, None]
    return jnp.sum(x**2 * jnp.arange(1.0, x.shape[1] + 1))


@pytest.mark.full(0)
@pytest.mark.parametrize(
    ("schedule", "rows", "microbatches", "shape", "remat"),
    [
        pytest.param("1f1b", 10, 3, {"pipe": 2, "data": 2}, False, marks=pytest.mark.fast(0)),
        ("1f1b", 7, 5, {"pipe": 4}, True),
        pytest.param("zero_bubble", 10, 4, {"pipe": 2, "data": 4}, False, marks=pytest.mark.fast(0)),
        pytest.param("interleaved", 11, 4, {"pipe": 2, "data": 2}, False, marks=pytest.mark.fast(0)),
        pytest.param("zero_bubble", 3, 5, {"pipe": 4}, False, marks=[pytest.mark.fast(0), pytest.mark.full(0)]),
    ],
)
def test_batches_and_microbatches_need_not_divide(schedule, rows, microbatches, shape, remat):
    """Also a closed-over value with the batch, the gradient within the body, and `jax.checkpoint` around the pipeline."""
    w, x, closed = array(4, 6, 6) / 2, array(rows, 6), 1 + jnp.arange(rows) / rows
    resources = {**PP, **({"batch": "data"} if "data" in shape else {})}

    def loss(w, x, closed):
        @jax.checkpoint
        def stack(w, x, closed):
            options = {"microbatches": microbatches, "schedule": schedule, "remat": remat}
            return nx.pipeline(lambda x, w: layer(x, w) * closed, x, w, **options)

        y = (stack if remat else stack.__wrapped__)(w, x, closed)
        return nx.sum(y**2 * nx.named(jnp.arange(1.0, 7.0), ["k"]), ("batch", "k"))

    axes = (["layers", "k", "o"], ["batch", "k"], ["batch"])
    g = nx.xmap(jax.grad(loss, argnums=(0, 1, 2)), axes, axes, axis_resources=resources, mesh=mesh_of(**shape))
    for a, b in zip(g(w, x, closed), jax.grad(plain, argnums=(0, 1, 2))(w, x, closed), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@nx.custom_vjp
def same(x):
    return x


same.defvjp(lambda x: (x, None), lambda _, ct: (ct + nx.roll(nx.roll(ct, 1, "pos"), -1, "pos"),))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("schedule", "is_rule"), [("1f1b", False), ("zero_bubble", False), ("1f1b", True), ("gpipe", True)])
def test_layers_may_permute_blocks(schedule, is_rule):
    """Then idle stages compute too, because a permutation concerns all devices. It may be in the rule of a derivative only."""
    w, x = array(4, 6, 6) / 3, array(8, 4, 6)

    def rolled(x, w):
        y = nx.rename(nx.dot(x, w, "k"), {"o": "k"})
        return x + nx.tanh(same(y) if is_rule else nx.roll(y, 1, "pos"))

    def loss(w, x):
        return nx.sum(nx.pipeline(rolled, x, w, microbatches=4, schedule=schedule) ** 2, ("batch", "pos", "k"))

    @jax.custom_vjp
    def twice(y):
        return y

    twice.defvjp(lambda y: (y, None), lambda _, ct: (2 * ct,))

    def plain(w, x):
        for p in w:
            x = x + jnp.tanh(twice(x @ p) if is_rule else jnp.roll(x @ p, 1, 1))
        return jnp.sum(x**2)

    axes = (["layers", "k", "o"], ["batch", "pos", "k"])
    f = nx.xmap(loss, axes, [], axis_resources={**PP, "pos": "model"}, mesh=mesh_of(pipe=4, model=2))
    have, want = (jax.jit(jax.value_and_grad(g, argnums=(0, 1)))(w, x) for g in (f, plain))
    for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4)


def mixture(schedule, microbatches, mesh):
    def layer(x, p):
        router, w = p
        routing = nx.nn.top_k_routing(nx.einsum("{batch,k},{k,route}->{batch,route}", x, router), "route", 2)

        def expert(w, x):
            return nx.clip(2.0 * nx.tanh(nx.rename(nx.dot(x, w, "k"), {"o": "k"})), -1.0, 1.0)  # literals have no derivative

        return x + nx.nn.mixture_of_experts(expert, w, x, routing, tokens="batch")

    def loss(router, w, x):
        return nx.sum(nx.pipeline(layer, x, (router, w), microbatches=microbatches, schedule=schedule) ** 2, ("batch", "k"))

    axes = (["layers", "k", "route"], ["layers", "expert", "k", "o"], ["batch", "k"])
    return nx.xmap(loss, axes, [], axis_resources={**PP, "batch": "data", "expert": "data"} if mesh else {}, mesh=mesh)


EXPERTS = [make.array(np.asarray(array(*shape)) / 3) for shape in ((2, 6, 4), (2, 4, 6, 6))] + [array(8, 6, seed=2)]


def test_experts_need_microbatches_that_divide():
    f = mixture("1f1b", 3, mesh_of(pipe=2, data=2))
    text = (
        "axis 'batch' of size 8 over 2 devices does not divide into 3 microbatches of a pipeline. Pass a number of microbatches"
    )
    with pytest.raises(nx.errors.PipelineError, match=text):
        jax.eval_shape(f, *EXPERTS)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_layers_may_have_experts():
    def plain(router, w, x):
        for r, experts in zip(router, w, strict=True):
            weight, index = jax.lax.top_k(jax.nn.softmax(x @ r), 2)
            every = jnp.clip(2 * jnp.tanh(jnp.einsum("bk,eko->beo", x, experts)), -1, 1)
            chosen = jnp.take_along_axis(every, index[:, :, None], 1)
            x = x + jnp.sum(weight[:, :, None] / jnp.sum(weight, 1)[:, None, None] * chosen, 1)
        return jnp.sum(x**2)

    f = mixture("1f1b", 2, mesh_of(pipe=2, data=2))
    have, want = (jax.jit(jax.value_and_grad(g, argnums=(0, 1, 2)))(*EXPERTS) for g in (f, plain))
    for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4)


# --- beside a pipeline by hand --------------------------------------------------------------------------------------

WIDE, STAGES, LAYERS = 32, 4, 8


def forward_by_hand(w, parts):
    """The forward pass; the activations of idle stages are not computed."""
    stage, count = lax.axis_index("pipe"), parts.shape[0]

    def tick(carry, t):
        state, done = carry
        m = jnp.clip(t - stage, 0, count - 1)
        works = (t >= stage) & (t - stage < count)
        h = jnp.where(stage == 0, parts[m], state)
        h = lax.cond(works, lambda: run_by_hand(w, h), lambda: jnp.zeros_like(h))
        done = done.at[jnp.where(works & (stage == STAGES - 1), m, count)].set(h)
        return (lax.ppermute(h, "pipe", [(i, i + 1) for i in range(STAGES - 1)]), done), None

    start = (jnp.zeros_like(parts[0]), jnp.zeros_like(parts, shape=(count + 1, *parts.shape[1:])))
    return lax.scan(tick, start, jnp.arange(count + STAGES - 1))[0][1][:-1]


def run_by_hand(w, h):
    return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), h, w)[0]


@jax.custom_vjp
def alternating_by_hand(w, parts):
    return forward_by_hand(w, parts)


def backward_by_hand(saved, ct):
    """1F1B: in tick `t` stage `s` computes the forward pass of `t - s`, and the backward pass of `t - 2 * (STAGES - 1) + s`."""
    w, parts = saved
    stage, count, slots = lax.axis_index("pipe"), parts.shape[0], 2 * STAGES - 1

    def tick(carry, t):
        act, back, stored, of_w, of_parts = carry
        m = t - stage
        works = (m >= 0) & (m < count)
        h = jnp.where(stage == 0, parts[jnp.clip(m, 0, count - 1)], act)
        after = lax.cond(works & (stage < STAGES - 1), lambda: run_by_hand(w, h), lambda: jnp.zeros_like(h))
        stored = stored.at[jnp.where(works, m % slots, slots)].set(h)
        m = t - 2 * (STAGES - 1) + stage
        works, at = (m >= 0) & (m < count), jnp.clip(m, 0, count - 1)
        back = jnp.where(stage == STAGES - 1, ct[at], back)

        def pull():
            more, of_h = jax.vjp(run_by_hand, w, stored[at % slots])[1](back)
            return of_w + more, of_h

        of_w, of_h = lax.cond(works, pull, lambda: (of_w, jnp.zeros_like(h)))
        of_parts = of_parts.at[jnp.where(works & (stage == 0), at, count)].set(of_h)
        act = lax.ppermute(after, "pipe", [(i, i + 1) for i in range(STAGES - 1)])
        back = lax.ppermute(of_h, "pipe", [(i + 1, i) for i in range(STAGES - 1)])
        return (act, back, stored, of_w, of_parts), None

    def rooms(n):
        return jnp.zeros_like(parts, shape=(n + 1, *parts.shape[1:]))

    zero = jnp.zeros_like(parts[0])
    start = (zero, zero, rooms(slots), jnp.zeros_like(w), rooms(count))
    *_, of_w, of_parts = lax.scan(tick, start, jnp.arange(count + 2 * (STAGES - 1)))[0]
    return of_w, of_parts[:-1]


alternating_by_hand.defvjp(lambda w, parts: (forward_by_hand(w, parts), (w, parts)), backward_by_hand)


def by_hand(w, x, microbatches):
    parts = lax.pcast(x.reshape(microbatches, -1, WIDE), ("pipe",), to="varying")
    done = alternating_by_hand(w, parts)
    y = lax.psum(jnp.where(lax.axis_index("pipe") == STAGES - 1, done, 0), "pipe").reshape(x.shape)
    return jnp.sum(y**2)


def compiled(schedule, microbatches, **options):
    w, x = array(LAYERS, WIDE, WIDE) / 5, array(16 * microbatches, WIDE)

    def loss(w, x):
        y = nx.pipeline(layer, x, w, microbatches=microbatches, schedule=schedule, **options)
        return nx.sum(y**2, ("batch", "k"))

    mesh = mesh_of(pipe=STAGES)
    f = nx.xmap(loss, (["layers", "k", "o"], ["batch", "k"]), [], axis_resources=PP, mesh=mesh)
    args = [jax.device_put(a, jax.NamedSharding(mesh, spec)) for a, spec in ((w, P("pipe")), (x, P()))]
    return f, args, jax.jit(jax.grad(f, argnums=(0, 1))).lower(*args).compile()


def sent(program):
    return sorted((c.kind, c.in_loop, c.bytes) for c in nx.hlo.collectives(program))


def test_1f1b_sends_and_stores_what_a_pipeline_by_hand_does():
    microbatches = 8
    f, args, ours = compiled("1f1b", microbatches)
    hand = jax.shard_map(
        functools.partial(by_hand, microbatches=microbatches),
        mesh=mesh_of(pipe=STAGES),
        in_specs=(P("pipe"), P()),
        out_specs=P(),
    )
    theirs = jax.jit(jax.grad(hand, argnums=(0, 1))).lower(*args).compile()
    for a, b in zip(ours(*args), theirs(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert sent(ours) == sent(theirs)
    temporary = [program.memory_analysis().temp_size_in_bytes for program in (ours, theirs)]
    assert temporary[0] <= 1.05 * temporary[1]
    # The trips of the two loops, and the idle columns of both.
    report = nx.explain(jax.grad(f, argnums=(0, 1)), *args)
    permutes = [c for c in report.collectives if c.kind == "collective-permute"]
    assert [(c.phase, c.trips) for c in permutes] == [("forward", 11), ("gradient", 14), ("gradient", 14)]
    assert {c.bytes for c in permutes} == {4 * 16 * WIDE}
    (run,) = report.pipelines.values()
    assert (run.schedule, run.stages, run.microbatches, run.stored) == ("1f1b", STAGES, microbatches, 2 * STAGES - 1)
    # A column is a forward or a backward pass: 11 forward passes, then 11 and 11 alternately, with three idle ones each.
    assert (run.columns, run.idle, run.bubble) == (33, 9, 3 / 11)
    assert f"idles     {100 * run.bubble:.1f} %" in str(report)
    assert "of the ticks of the 1f1b pipeline at test_pipeline_schedules.py" in str(report)
    assert "7 microbatches stored" in " ".join(str(report).split())
    memory = ours.memory_analysis()
    peak = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert 0.9 < report.memory.peak / peak < 1.6


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_the_memory_of_1f1b_does_not_grow_with_the_microbatches():
    """Apart from inputs, outputs and their gradients, of which each is as large as `x`."""

    def temporary(schedule, microbatches, **options):
        return compiled(schedule, microbatches, **options)[2].memory_analysis().temp_size_in_bytes

    microbatch = 4 * 16 * WIDE
    grown = temporary("1f1b", 16) - temporary("1f1b", 8)
    assert grown <= 4 * 8 * microbatch
    # What "gpipe" stores in the forward pass: two arrays of each layer, in every tick.
    assert temporary("gpipe", 16) - temporary("gpipe", 8) > 1.5 * grown


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("schedule", "stored"), [("1f1b", 7), ("zero_bubble", 7)])
def test_the_report_shows_bubble_and_storage(schedule, stored):
    f, args, _ = compiled(schedule, 16)
    report = nx.explain(jax.grad(f), *args)
    (run,) = report.pipelines.values()
    assert run.stored == stored
    # Forward: 19 columns with 3 idle. Then 38 with 6 idle, or 51 with 3 idle and the weight gradients apart.
    assert run.bubble == {"1f1b": 9 / 57, "zero_bubble": 6 / 70}[schedule]
    rows = run.cells()
    assert [row.count(None) for row in rows] == [6 if schedule == "1f1b" else 3] * STAGES
    assert rows[3][:4] == [None, None, None, ("F", "0")]
    assert report.draw(pipeline=True).axes
    assert report.draw(pipeline=next(iter(report.pipelines))).axes


def test_only_pipelines_are_drawn():
    report = nx.explain(nx.xmap(lambda x: x, ["k"], ["k"]), X[0])
    with pytest.raises(nx.errors.ArgumentError, match=r"no pipeline over devices\. Map the layers of an nx\.pipeline"):
        report.draw(pipeline=True)
    with pytest.raises(nx.errors.ArgumentError, match=r"no pipeline over devices at 'model\.py:3'"):
        report.draw(pipeline="model.py:3")


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
@pytest.mark.parametrize(("stages", "rounds", "microbatches"), [(4, 1, 8), (4, 1, 2), (3, 1, 7), (2, 3, 4), (1, 1, 3)])
def test_a_stage_works_after_its_neighbors(schedule, stages, rounds, microbatches):
    """Every work occurs once on every stage, after those that it depends on, and in a slot that is free."""
    from namedax.ops.loops.pipeline_timetable import timetable

    table, works = timetable(schedule, stages, rounds, microbatches), rounds * microbatches
    whens = []
    for each in (table.forward, table.backward, table.weights if schedule == "zero_bubble" else table.backward):
        assert all(sorted(column[column >= 0]) == list(range(works)) for column in each.T)
        whens.append(np.array([[list(column).index(n) for column in each.T] for n in range(works)]))
    forward, backward, last = whens
    assert (np.diff(forward, axis=1) >= 1).all()
    assert (np.diff(backward, axis=1) <= -1).all()
    assert (forward <= backward).all()
    assert (backward <= last).all()
    for stage in range(stages):
        held = {}
        for tick in range(table.ticks):
            if (n := int(table.forward[tick, stage])) >= 0:
                assert table.inputs[n, stage] not in held.values()
                held[n] = table.inputs[n, stage]
            held = {n: slot for n, slot in held.items() if last[n, stage] > tick}


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"schedule": "1f2b"}, nx.errors.ArgumentError, "schedule must be one of 'gpipe', '1f1b', 'interleaved', 'zero_bubble', got '1f2b'."),
        ({"schedule": "interleaved", "interleave": 1}, nx.errors.ArgumentError, "several groups of layers of 'layers' on each of 2 stages"),
        ({"schedule": "interleaved", "interleave": 3}, nx.errors.AxisSizeError, "the 4 layers of each do not divide into interleave=3 groups"),
        ({"schedule": "interleaved", "microbatches": 3}, nx.errors.PipelineError, "must be a multiple of 2"),
    ],
)  # fmt: skip
def test_mistakes(options, error, text):
    f = nx.xmap(
        lambda w, x: nx.pipeline(layer, x, w, **{"microbatches": 2, **options}),
        axis_resources=PP,
        mesh=mesh_of(pipe=2),
    )
    with pytest.raises(error) as caught:
        jax.eval_shape(f, nx.named(W, ["layers", "k", "o"]), nx.named(X, ["batch", "k"]))
    assert text in str(caught.value)
