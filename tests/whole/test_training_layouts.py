"""Layouts in which large models are trained, with gradient accumulation and rematerialisation: values and gradients of plain `jnp`.

`make test` runs every choice, `make test-all` every two choices together, `make test-products` the whole matrix.
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import SerialLoop as LOOP
from tests.harness import array, make_mesh
from tests.training_layouts import Case, check, check_curve, everything

# Every layout of two kinds, both numbers of steps, every mode, inside and outside, and each way to write the loop over the layers.
COVERING = [
    Case("tp", 2, "layers", where="outside"),
    Case("fsdp", 2, "layers"),
    Case("fsdp+tp", 2, "overlap", where="outside"),
    Case("fsdp+tp+sp", 4, "loss"),
    Case("fsdp on two", 4, "plain", where="outside", loop="fold"),
    Case("hybrid fsdp", 2, "layers", loop="python"),
    Case("ring+tp", 4, "layers"),
    Case("ring+fsdp", 2, "layers", where="outside"),
    Case("fsdp+tp", 2, "layers", "auto"),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", COVERING, ids=str)
def test_loss_and_gradients_are_those_of_one_device(case):
    check(case)


UNEVEN = [
    Case("uneven fsdp+tp+sp", where="outside"),
    *(
        pytest.param(Case(*case), marks=pytest.mark.fast(0))
        for case in [
            ("uneven dp", 1, "layers"),
            ("uneven tp", 2, "plain", "manual", "outside"),
            ("uneven fsdp", 1, "layers", "manual", "inside", "fold"),
            ("uneven ring+fsdp", 2, "plain", "manual", "inside", "python"),
        ]
    ),
]


@pytest.mark.full(0)
@pytest.mark.parametrize("case", UNEVEN, ids=str)
def test_sizes_that_do_not_divide(case):
    check(case)


PIPELINED = [
    Case("pp+fsdp+tp+sp", 2, "layers", loop="pipeline"),
    *(
        pytest.param(Case(*case, loop="pipeline"), marks=pytest.mark.fast(0))
        for case in [
            ("pp", 2, "plain", "manual", "outside"),
            ("pp+dp", 1, "layers"),
            ("pp+tp", 1, "plain", "manual", "outside"),
            ("pp+fsdp", 1, "overlap"),
            ("pp+fsdp", 1, "loss", "auto"),
        ]
    ),
]


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("case", PIPELINED, ids=str)
def test_layers_over_devices(case):
    check(case)


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", ["pp", "pp+dp", "pp+tp", "pp+fsdp"])
def test_pipelines_learn_as_one_device_does(layout):
    check_curve(Case(layout, loop="pipeline"))


def choices(case):
    """Every two of the choices that make a case."""
    return set(itertools.combinations(dataclasses.asdict(case).items(), 2))


def matrix():
    """All of it; what is not needed for every two choices to occur together, here or in `COVERING`, is a product."""
    cases = {case: choices(case) for case in everything()}
    missing = set().union(*cases.values()) - set().union(*map(choices, COVERING))
    kept = set()
    while missing:
        best = max(cases, key=lambda case: len(cases[case] & missing))
        kept.add(best)
        missing -= cases[best]
    for case in cases:
        yield pytest.param(case, marks=[] if case in kept else pytest.mark.full(0), id=str(case))


def test_every_two_choices_occur_together():
    run = [p.values[0] for p in matrix() if not p.marks]
    assert set().union(*map(choices, [*run, *COVERING])) >= set().union(*map(choices, everything()))
    assert len(run) < 60


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", list(matrix()))
def test_the_whole_matrix(case):
    check(case)


# --- the mechanisms, one by one -------------------------------------------------------------------------------------


def layer(h, p):
    return nx.sin(nx.einsum("{b,k},{k,o}->{b,k:o}", h, p))


@jax.jit
def gradients_of_layers(x, w):
    """With plain `jnp`, of the loss below."""

    def loss(x, w):
        for p in w:
            x = jnp.sin(x @ p)
        return jnp.sum(x**2 * jnp.arange(4))

    return jax.grad(loss, argnums=(0, 1))(x, w)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("loop", ["fold", "scan", "python"])
@pytest.mark.parametrize(
    "resources", [{"o": "x", "b": LOOP(2)}, {"o": "x", "b": ("y", LOOP(4))}, {"k": "x", "b": LOOP(4)}], ids=str
)
def test_rematerialised_layers_of_which_each_device_has_a_part(loop, resources):
    def loss(x, w):
        one = jax.checkpoint(layer)
        if loop == "fold":
            x = nx.fold(one, x, w, axis="layer")
        elif loop == "scan":
            x, _ = nx.scan(lambda h, p: (one(h, p), None), x, w, axis="layer")
        else:
            for i in range(3):
                x = one(x, w["layer", i])
        return nx.sum(x**2 * nx.arange(4, axis="k"), ("b", "k"))

    args, axes = (array(16, 4), array(3, 4, 4)), (["b", "k"], ["layer", "k", "o"])
    options = {"axis_resources": resources, "mesh": make_mesh((2, 4))}
    want = gradients_of_layers(*args)
    inside = nx.xmap(lambda x, w: jax.grad(loss, argnums=(0, 1))(x, w), axes, axes, **options)(*args)
    outside = jax.grad(nx.xmap(loss, axes, [], **options), argnums=(0, 1))(*args)
    for have, grad in zip((*inside, *outside), (*want, *want), strict=True):
        np.testing.assert_allclose(have, grad, rtol=2e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_what_is_added_once_to_sums_in_a_scan_counts_once():
    # The gradient of a regulariser in each layer meets that of the examples, which is summed after all steps.
    def loss(w, x):
        def step(h, p):
            return nx.tanh(nx.einsum("{b,k},{k,o}->{b,k:o}", h, p)), nx.sum(p**3, ("k", "o"))

        h, penalties = jax.lax.scan(step, x, w)
        return nx.mean(nx.sum(h**2, "k"), "b") + jnp.sum(penalties)

    def oracle(w, x):
        penalty = jnp.sum(w**3)
        for p in w:
            x = jnp.tanh(x @ p)
        return jnp.mean(jnp.sum(x**2, 1)) + penalty

    w, x, axes = array(3, 4, 4), array(16, 4), ([None, "k", "o"], ["b", "k"])
    want = jax.jit(jax.grad(oracle))(w, x)
    for batch in (LOOP(4), ("x", LOOP(2))):
        options = {"axis_resources": {"b": batch}, "mesh": make_mesh((4, 2))}
        outside = jax.grad(nx.xmap(loss, axes, [], **options))(w, x)
        inside = nx.xmap(lambda w, x: jax.grad(loss)(w, x), axes, axes[0], **options)(w, x)
        np.testing.assert_allclose(outside, want, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(inside, want, rtol=1e-4, atol=1e-6)
