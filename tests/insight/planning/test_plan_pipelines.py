"""`nx.plan` chooses the options that an `nx.pipeline` leaves open."""

import jax
import pytest

import namedax as nx

SHAPES = jax.ShapeDtypeStruct((8, 1024, 1024), "float32"), jax.ShapeDtypeStruct((4096, 1024), "float32")
MESH = jax.sharding.AbstractMesh((4,), ("pipe",))


def mapped(**options):
    def loss(w, x):
        return nx.sum(nx.pipeline(layer, x, w, **options) ** 2, ("batch", "k"))

    def layer(x, w):
        return nx.tanh(nx.rename(nx.dot(x, w, "k"), {"o": "k"}))

    axes = (["layers", "k", "o"], ["batch", "k"])
    return nx.xmap(jax.value_and_grad(loss), axes, ([], axes[0]), axis_resources={"layers": "pipe"})


def planned(memory=None, **options):
    options = {"mesh": MESH, "machine": nx.machines.v5p, "names": ["layers"], "memory": memory, "progress": False}, options
    return nx.plan(mapped(**options[1]), *SHAPES, **options[0])


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_less_memory_needs_another_schedule():
    plan = planned(memory=100 << 20)
    assert plan.best == {"layers": "pipe"}
    assert plan.pipeline["schedule"] in ("1f1b", "zero_bubble")
    assert f"schedule={plan.pipeline['schedule']!r}" in str(plan)
    again = planned(memory=100 << 20, **plan.pipeline)
    assert (again.best, again.candidates[0].peak) == (plan.best, plan.candidates[0].peak)


@pytest.mark.fast(0)
def test_options_that_the_program_has_stay():
    assert all(one.pipeline.keys() <= {"schedule", "interleave", "remat"} for one in planned(microbatches=8).candidates)
    fixed = planned(microbatches=8, schedule="gpipe", interleave=1, remat=False)
    assert not any(one.pipeline for one in fixed.candidates)
