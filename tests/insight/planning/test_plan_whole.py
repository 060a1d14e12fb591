"""`nx.plan` for functions that call several mapped functions, each of which may have its own layout."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import machines

S = jax.ShapeDtypeStruct


def abstract(**sizes):
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes))


def encode(w, x):
    return nx.fold(lambda x, w: nx.tanh(nx.rename(nx.dot(x, w, "in"), {"hidden": "in"})), x, w, axis="layers")


def decode(w, h):
    logits = nx.dot(h, w, "hidden")
    return nx.mean(nx.logsumexp(logits, "out") - nx.mean(logits, "out"), "batch")


encoder = nx.xmap(encode, (["layers", "in", "hidden"], ["batch", "in"]), ["batch", "in"])
decoder = nx.xmap(decode, (["hidden", "out"], ["batch", "hidden"]), [])


def loss(weights, x):
    return decoder(weights[1], encoder(weights[0], x))


def step(weights, x):
    return jax.value_and_grad(loss)(weights, x)


def types(batch, hidden, out, layers=4):
    return (S((layers, hidden, hidden), "float32"), S((hidden, out), "float32")), S((batch, hidden), "float32")


def planned(sizes, f=step, **options):
    options = {"mesh": abstract(x=8), "machine": machines.v5p, "progress": False, **options}
    return nx.plan(f, *types(*sizes), **options)


# A deep encoder, which is fast with a sharded batch, and a large vocabulary, whose weights should not be reduced.
LARGE = (8192, 1024, 65536, 16)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_different_layouts_are_chosen_where_resharding_pays():
    plan = planned(LARGE)
    assert plan.layouts["encode"] == {"batch": "x"}
    assert plan.layouts["decode"] == {"out": "x"}
    assert "encode: {'batch': 'x'}, decode: {'out': 'x'}" in " ".join(str(plan).split())
    best = plan.candidates[0]
    same = min(one.time for one in plan.candidates if not one.is_split)
    assert best.time < 0.9 * same
    assert any("With one layout for all mapped functions" in sentence for sentence in plan.advice)
    with pytest.raises(nx.errors.PlanError, match=r"Plan.best: the 2 mapped functions of step have different layouts"):
        plan.best  # noqa: B018
    # By hand: activations are gathered on entry, and their gradients are scattered or sliced.
    hand = {"encode": {"batch": "x"}, "decode": {"out": "x"}}
    mesh = abstract(x=8)
    one = nx.xmap(
        encode, (["layers", "in", "hidden"], ["batch", "in"]), ["batch", "in"], axis_resources=hand["encode"], mesh=mesh
    )
    two = nx.xmap(decode, (["hidden", "out"], ["batch", "hidden"]), [], axis_resources=hand["decode"], mesh=mesh)
    report = nx.explain(lambda weights, x: jax.value_and_grad(lambda w: two(w[1], one(w[0], x)))(weights), *types(*LARGE))
    plain = next(one for one in plan.candidates if one.layouts == hand and not one.options)
    assert (report.time(machines.v5p), report.memory.peak) == (plain.time, plain.peak)
    assert ("all-gather", 4 * 8192 * 1024) in [(c.kind, c.bytes) for c in best.report.collectives]


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_one_layout_is_chosen_where_resharding_does_not_pay():
    plan = planned((65536, 128, 64, 4))
    assert plan.layouts == {"encode": {"batch": "x"}, "decode": {"batch": "x"}}
    assert plan.best == {"batch": "x"}
    assert "One layout for all mapped functions is as fast as any that was tried for each." in plan.advice


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_apply_runs_each_function_in_its_layout():
    plan = planned(LARGE)
    mesh = jax.make_mesh((8,), ("x",))
    values = np.random.default_rng(0)
    args = jax.tree.map(lambda t: jnp.asarray(values.normal(size=t.shape), "float32"), types(16, 8, 24, 2))
    for f in (step, jax.jit(step)):
        g = plan.apply(f, mesh)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), g(*args), f(*args))
        assert "all_gather" in str(jax.make_jaxpr(g)(*args)) or "psum" in str(jax.make_jaxpr(g)(*args))
        assert "psum" not in str(jax.make_jaxpr(f)(*args))


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_what_is_counted_between_functions_is_what_the_compiler_sends():
    mesh = jax.make_mesh((8,), ("x",))
    for sizes in ((64, 16, 1024, 2), (512, 64, 16, 2)):
        plan = planned(sizes, mesh=mesh)
        for one in plan.candidates[:6]:
            layouts = one.layouts
            f = plan.apply(step, mesh) if one is plan.candidates[0] else None
            if f is None:
                e = nx.xmap(
                    encode,
                    (["layers", "in", "hidden"], ["batch", "in"]),
                    ["batch", "in"],
                    axis_resources=layouts["encode"],
                    mesh=mesh,
                )
                d = nx.xmap(decode, (["hidden", "out"], ["batch", "hidden"]), [], axis_resources=layouts["decode"], mesh=mesh)

                def f(weights, x, e=e, d=d):
                    return jax.value_and_grad(lambda w: d(w[1], e(w[0], x)))(weights)

            report = nx.explain(f, *types(*sizes), compile=True)
            ours, theirs = Counter(), Counter()
            for each in one.report.collectives:
                ours[each.kind] += each.bytes * each.trips
            for each in report.compiled.collectives:
                theirs[each.kind] += each.bytes
            if any(each.trips > 1 for each in one.report.collectives):
                continue  # the compiler's text has one collective for a loop
            assert ours == theirs, layouts


def test_a_training_step_with_its_optimizer_outside():
    """One mapped function, and an optimizer of raw JAX: the memory of its state counts."""
    mapped = nx.xmap(
        jax.value_and_grad(lambda w, x: decode(w, x)), (["hidden", "out"], ["batch", "hidden"]), ([], ["hidden", "out"])
    )

    @jax.jit
    def train(w, m, x):
        value, g = mapped(w, x)
        m = 0.9 * m + g
        return value, w - 0.1 * m, m

    w, x = S((512, 4096), "float32"), S((65536, 512), "float32")
    options = {"mesh": abstract(x=8), "machine": machines.v5p, "progress": False}
    plan, alone = nx.plan(train, w, w, x, **options), nx.plan(mapped, w, x, **options)
    assert plan.best == alone.best == {"out": "x"}
    assert list(plan.layouts.values()) == [plan.best]
    # The state is added to the gradient, so it is stored in parts like it.
    arguments = (one.candidates[0].report.memory.arguments for one in (plan, alone))
    assert next(arguments) == next(arguments) + 4 * 512 * 4096 // 8


def test_two_functions_of_one_name_are_told_apart():
    def make(scale):
        def stage(x):
            return nx.sum(x * scale, "a")

        def other(x):
            return nx.mean(x, "b")

        other.__name__ = "stage"
        return nx.xmap(stage, ["a", "b"], ["b"]), nx.xmap(other, ["b"], [])

    one, two = make(2.0)
    plan = nx.plan(lambda x: two(one(x)), S((64, 64), "float32"), mesh=abstract(x=8), machine=machines.v5p, progress=False)
    first = make.__code__.co_firstlineno
    assert list(plan.layouts) == [f"stage:{first + 1}", f"stage:{first + 4}"]


@pytest.mark.fast(0)
def test_errors():
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"plan: the first argument must be .*; <lambda> does not\. Map the"):
        nx.plan(lambda x: x + 1, 1.0, mesh=abstract(x=8), machine=machines.v5p)
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"<lambda> does not\. It raised ZeroDivisionError before that\."):
        nx.plan(lambda x: 1 // 0, 1.0, mesh=abstract(x=8), machine=machines.v5p)
    with pytest.raises(nx.errors.ArgumentError, match=r"plan: verify=2 times a mapped function, but step is not mapped"):
        planned((64, 16, 64), verify=2)
    with pytest.raises(nx.errors.PlanError, match=r"plan: none of \d+ layouts of step on x=8 fits"):
        planned((64, 16, 64), memory=1000, loops={})


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_why_counts_the_arguments_of_several_layouts():
    plan = planned(LARGE)
    assert plan.candidates[0].is_split
    why = plan.why({"batch": "x"})
    rows = {change.what: (change.best, change.other) for change in why.memory}
    # The intermediate values are no arguments, and the layout of each function counts.
    memory = [one.report.memory.arguments for one in (why.best, why.candidate)]
    assert list(rows.get("arguments", ())) == memory
    assert not any(what.startswith("argument ") for what in rows)
    more = why.candidate.peak - why.best.peak
    assert sum(other - best for best, other in rows.values()) == more
    assert sum(line.difference for line in why.lines) == pytest.approx(why.candidate.time - why.best.time)
