"""`nx.plan` chooses the options that a program leaves open: recomputation, prefetch, balance, steps and padding."""

import re
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import machines

S = jax.ShapeDtypeStruct
SLOW = machines.Machine(
    flops={"float32": 1e12}, memory=1e12, bandwidth=1e12, links={...: machines.Link(1e10, 1e-6, "switch")}, name="slow"
)
W, X = ["layers", "k", "o"], ["batch", "k"]


def abstract(**sizes):
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes))


def layer(x, w):
    return nx.tanh(nx.rename(nx.dot(x, w, "k"), {"o": "k"}))


def folded(w, x, **options):
    y = nx.fold(layer, x, w, axis="layers", **options)  # the line of the options
    return nx.sum(nx.square(y), ...)


LINE = folded.__code__.co_firstlineno + 1


def network(**options):
    def loss(w, x):
        return folded(w, x, **options)

    return nx.xmap(jax.value_and_grad(loss), (W, X), ([], W))


TYPES = S((8, 256, 256), "float32"), S((8192, 256), "float32")


def planned(memory=None, f=None, types=TYPES, **options):
    options = {"mesh": abstract(x=4), "machine": SLOW, "progress": False, "memory": memory, **options}
    return nx.plan(f or network(), *types, **options)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_faster_layout_that_fits_only_with_recomputation_is_chosen():
    free = planned()
    assert (free.best, free.options) == ({"batch": "x"}, {})
    limit = int(free.candidates[0].peak * 0.8)
    plan = planned(limit)
    label = f"test_plan_options.py:{LINE}"
    assert plan.best == {"batch": "x"}
    assert plan.options[label]["operation"] == "nx.fold"
    assert plan.options[label]["remat"] in ("full", "dots", "gathers")
    assert f"nx.fold(..., remat={plan.options[label]['remat']!r}) at {label}" in re.sub(r"\s+", " ", str(plan))
    # The program by hand has the same peak and time, and all layouts without it are larger or slower.
    hand = nx.explain(
        nx.xmap(
            jax.value_and_grad(lambda w, x: folded(w, x, remat=plan.options[label]["remat"])),
            (W, X),
            ([], W),
            axis_resources=plan.best,
            mesh=abstract(x=4),
        ),
        *TYPES,
    )
    assert (hand.memory.peak, hand.time(SLOW)) == (plan.candidates[0].peak, plan.candidates[0].time)
    with pytest.raises(nx.errors.PlanError, match=r"none of \d+ layouts"):
        planned(limit, network(remat="none", prefetch=0), loops={})


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_apply_runs_the_layout_and_the_options():
    f = network()
    w, x = (jnp.asarray(np.random.default_rng(0).normal(size=t.shape) / 16, "float32") for t in TYPES)
    plan = planned(int(planned().candidates[0].peak * 0.8), f)
    g = plan.apply(f)
    want = f(w, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), g(w, x), want)
    report = nx.explain(plan.apply(f, abstract(x=4)), *TYPES)
    assert (report.memory.peak, report.time(SLOW)) == (plan.candidates[0].peak, plan.candidates[0].time)
    assert "remat" in str(jax.make_jaxpr(g)(w, x))
    assert "remat" not in str(jax.make_jaxpr(f)(w, x))  # the options apply to the new function only
    with pytest.raises(nx.errors.MeshError, match=r"Plan.apply: the plan is for a mesh of x=4, but the mesh has"):
        plan.apply(f, abstract(x=8))
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"Plan.apply: the function must be made by nx.xmap"):
        plan.apply(folded)


# The file is none of the user's, as in `python -m namedax.models plan`.
WITHOUT_LINES = """
def loss(w, x):
    return nx.sum(nx.square(nx.fold(layer, x, w, axis="layers")), ...)
"""


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_call_without_a_line_of_user_code_has_no_line_in_the_table():
    code = {"nx": nx, "layer": layer}
    exec(compile(WITHOUT_LINES, "<frozen model>", "exec"), code)
    f = nx.xmap(jax.value_and_grad(code["loss"]), (W, X), ([], W))
    with ThreadPoolExecutor(1) as thread:  # without the frames of this test
        plan = thread.submit(planned, int(planned().candidates[0].peak * 0.8), f).result()
        (label,) = plan.options
        report = thread.submit(nx.explain, plan.apply(f, abstract(x=4)), *TYPES).result()
    assert label == "unknown line"
    assert re.search(r"with nx.fold\(..., [^)]*remat='full'\)\n", str(plan))
    assert ":0" not in str(plan)
    assert report.memory.peak == plan.candidates[0].peak  # the option applies to the call


@pytest.mark.fast(0)
def test_apply_needs_the_devices():
    plan = nx.plan(network(), *TYPES, mesh=abstract(x=16), machine=SLOW, progress=False)
    with pytest.raises(nx.errors.MeshError, match=r"Plan.apply: the plan is for 16 devices, but JAX has 8"):
        plan.apply(network())


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_each_fold_has_its_own_choice():
    def loss(w, v, x):
        y = nx.fold(layer, x, w, axis="layers")
        return nx.sum(nx.square(nx.fold(layer, y, v, axis="rest")), ...)

    rest = ["rest", "k", "o"]
    f = nx.xmap(jax.value_and_grad(loss), (W, rest, X), ([], W))
    types = S((16, 256, 256), "float32"), S((2, 256, 256), "float32"), S((8192, 256), "float32")
    free = planned(f=f, types=types)
    plan = planned(int(free.candidates[0].peak * 0.85), f, types)
    assert plan.best == {"batch": "x"}
    first = loss.__code__.co_firstlineno + 1
    # To recompute the long fold suffices, and takes less time than to recompute both.
    both = [one for one in plan.candidates if len(one.options) == 2 and one.axis_resources == plan.best and one.fits]
    assert both
    assert all(one.time >= plan.candidates[0].time for one in both)
    assert list(plan.options) in ([f"test_plan_options.py:{first}"], [f"test_plan_options.py:{first + 1}"])


def test_gathers_of_layers_are_prefetched():
    """FSDP under memory pressure: the gathers of a layer can overlap with the layer before it."""

    def step(x, w):
        return nx.tanh(nx.einsum("{k}, {k:k_fsdp} {o} -> {k:o}", x, w))

    def loss(w, x):
        return nx.sum(nx.square(nx.fold(step, x, w, axis="layers")), ...)

    axes = ["layers", "k_fsdp", "o"]
    f = nx.xmap(jax.value_and_grad(loss), (axes, X), ([], axes))
    types = S((64, 1024, 1024), "float32"), S((4096, 1024), "float32")
    plan = planned(600 << 20, f, types, names=["batch", "k_fsdp"])
    assert plan.best == {"batch": "x", "k_fsdp": "x"}
    (options,) = plan.options.values()
    assert options["prefetch"] == 1
    same = [one for one in plan.candidates if one.axis_resources == plan.best and one.fits]
    assert {"remat": "full"} in [
        {k: v for k, v in call.items() if k == "remat"} for one in same for call in one.options.values()
    ]
    assert all(one.time > plan.candidates[0].time for one in same[1:])


def test_a_ring_of_causal_attention_is_balanced():
    def attention(q, k, v):
        q, k, v = (nx.rename(a, {"pos": "inner"}) for a in (q, k, v))
        y = nx.nn.dot_product_attention(q, k, v, axis="inner", features="key", is_causal=True)
        return nx.rename(y, {"inner": "pos"})

    x = jax.eval_shape(lambda: nx.named(jnp.zeros((4096, 64, 64)), ["pos", "heads", "key"]))
    quick = SLOW.with_links({"x": machines.Link(1e12, 1e-9, "switch")})
    plan = nx.plan(nx.xmap(attention), x, x, x, mesh=abstract(x=4), machine=quick, names=["pos", "inner"], progress=False)
    assert plan.best == {"pos": "x", "inner": "x"}
    line = attention.__code__.co_firstlineno + 2
    assert plan.options == {f"test_plan_options.py:{line}": {"operation": "nx.nn.dot_product_attention", "balance": "zigzag"}}
    other = nx.explain(nx.xmap(attention, axis_resources=plan.best, mesh=abstract(x=4)), x, x, x)
    assert plan.candidates[0].time < 0.8 * other.time(quick)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_steps_are_chosen_if_nothing_fits():
    free = planned(f=network(remat="none"), loops={})
    limit = int(0.3 * min(one.peak for one in free.candidates))
    with pytest.raises(nx.errors.PlanError, match=r"execute an axis in steps \(loops="):
        planned(limit, network(remat="none"), loops={})
    plan = planned(limit, network(remat="none"))
    loops = [a for axes in plan.best.values() if isinstance(axes, tuple) for a in axes if isinstance(a, nx.SerialLoop)]
    assert len(loops) == 1
    assert plan.candidates[0].peak <= limit
    # Half as many steps do not fit.
    fewer = {
        name: tuple(nx.SerialLoop(a.steps // 2) if isinstance(a, nx.SerialLoop) else a for a in axes)
        if isinstance(axes, tuple)
        else axes
        for name, axes in plan.best.items()
    }
    half = nx.xmap(network(remat="none").__wrapped__, (W, X), ([], W), axis_resources=fewer, mesh=abstract(x=4))
    assert nx.explain(half, *TYPES).memory.peak > limit


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_steps_on_request():
    assert not any("SerialLoop" in str(one) for one in planned().candidates)
    plan = planned(loops=...)
    assert any("SerialLoop" in str(one) for one in plan.front)
    with pytest.raises(nx.errors.ArgumentError, match=r"plan: loops=4 must map names .* loops=\.\.\. to choose"):
        planned(loops=4)


def vocabulary(vocab, batch=512, **options):
    """A large vocabulary: to shard it is fast, if its size divides or if it is stored padded."""

    def loss(w, x, labels):
        logits = nx.dot(x, w, "embed")
        picked = nx.sum(nx.where(nx.arange(axis="vocab") == labels, logits, 0.0), "vocab")
        return nx.mean(nx.logsumexp(logits, "vocab") - picked, ...)

    sizes = {"embed": 256, "vocab": vocab, "batch": batch}
    arrays = (["embed", "vocab"], "float32"), (["batch", "embed"], "float32"), (["batch"], "int32")
    types = jax.eval_shape(lambda: [nx.named(jnp.zeros([sizes[n] for n in d], t), d) for d, t in arrays])
    f = nx.xmap(jax.value_and_grad(loss))
    machine = nx.machines.v5p
    return nx.plan(f, *types, **{"mesh": abstract(x=8), "machine": machine, "progress": False, **options}), f, types


@pytest.mark.fast(0)
def test_padded_blocks_are_tried():
    plan, f, types = vocabulary(50257)
    assert plan.best == {"vocab": "x"}
    assert plan.candidates[0].padded == ("vocab",)
    assert "'vocab' stored padded" in str(plan)
    even, *_ = vocabulary(50264)
    assert even.best == plan.best
    assert even.candidates[0].padded == ()
    # Seven columns of padding are computed too, and masked.
    assert even.candidates[0].report.flops < plan.candidates[0].report.flops < 1.1 * even.candidates[0].report.flops
    off, *_ = vocabulary(50257, uneven=())
    assert "vocab" not in off.best
    assert off.candidates[0].time > 2 * plan.candidates[0].time
    assert any("uneven=['vocab'" in sentence for sentence in off.advice)
    assert plan.traces - off.traces <= 12
    # The same report as that of the program by hand, with its weights stored padded.
    mesh = jax.make_mesh((8,), ("x",))
    w, *rest = [jax.tree.map(lambda t: jnp.ones(t.shape, t.dtype), t) for t in types]
    args = nx.shard(w, plan.best, mesh, padded=True), *rest
    report = nx.explain(plan.apply(f, mesh), *args)
    assert (report.memory.peak, report.flops) == (plan.candidates[0].peak, plan.candidates[0].report.flops)
    assert plan.candidates[0].report.memory.arguments * 3 < off.candidates[0].report.memory.arguments


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_padded_arguments_are_measured():
    mesh = jax.make_mesh((8,), ("x",))
    types = vocabulary(1001, 8)[2]
    for arguments in (types, [jax.tree.map(lambda t: jnp.ones(t.shape, t.dtype), t) for t in types]):
        for where in (mesh, 8):
            f = vocabulary(1001, 8)[1]
            options = {"machine": SLOW, "names": ["vocab"], "uneven": ["vocab"], "progress": False, "verify": 6}
            plan = nx.plan(f, *arguments, mesh=where, **options)
            assert any(one.measured is not None for one in plan.candidates if one.padded)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_cells_of_a_notebook_have_separate_options():
    """Two folds at one line number of two cells, of which only the long one is recomputed."""
    cells = {}
    for cell, axis in ((97, "layers"), (12, "rest")):
        code = f"def run(x, w):\n    return nx.fold(layer, x, w, axis={axis!r})\n"
        scope = {"nx": nx, "layer": layer}
        exec(compile(code, f"/tmp/ipykernel_41/{cell}.py", "exec"), scope)
        cells[axis] = scope["run"]

    def loss(w, v, x):
        return nx.sum(nx.square(cells["rest"](cells["layers"](x, w), v)), ...)

    f = nx.xmap(jax.value_and_grad(loss), (W, ["rest", "k", "o"], X), ([], W))
    types = TYPES[0], S((4, 256, 256), "float32"), TYPES[1]
    limit = int(planned(f=f, types=types, fixed={"batch": "x"}).candidates[0].peak * 0.8)
    plan = planned(limit, f, types, fixed={"batch": "x"}, loops={})
    ((label, options),) = plan.options.items()
    assert label == "cell A:2"
    assert options.pop("remat") in ("full", "dots", "gathers")
    assert options == {"operation": "nx.fold"}
    best = plan.candidates[0]
    for each in (plan, nx.Plan.from_json(plan.to_json())):
        g = each.apply(f, abstract(x=4))
        assert str(jax.make_jaxpr(g)(*(jnp.zeros(t.shape) for t in types))).count("remat") == 1
        assert nx.explain(g, *types).memory.peak == best.peak
