"""The worked problems of `examples/`: values and gradients against NumPy and `jnp`, and the communication that they ask for."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from tests.harness import array

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "worked_problems"))
import problem_1
import problem_2
import problem_3
import problem_4
from figures import make_mesh

MESH = make_mesh(4, 2)
SMALL = {"problem_1": {"s": 64, "d": 8}, "problem_2": {"s": 32, "d": 8, "f": 6, "experts": 4}}


def sent(f, *args):
    return hlo.summary(jax.jit(f).lower(*args).compile())


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("problem", [problem_1, problem_2, problem_3, problem_4], ids=lambda problem: problem.__name__)
def test_it_prints_its_figures(problem, capsys):
    problem.main(**SMALL.get(problem.__name__, {"b": 16, "d": 32, "f": 64}))
    lines = capsys.readouterr().out.splitlines()
    assert sum("collectives of one device" in line for line in lines) in (2, 4, 6)
    assert any("by name" in line or "dispatched" in line for line in lines)


# --- 1: every shard by itself -------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("options", [{}, {"partitioning": "auto"}], ids=["manual", "auto"])
def test_shards_by_themselves(options):
    a = array(48, 6)
    shards = np.asarray(a).reshape(4, 12, 6)
    means, rolled = (problem_1.mapped(f, MESH, **options) for f in (problem_1.means, problem_1.rolled))
    np.testing.assert_allclose(means(a), shards.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rolled(a), (np.roll(shards, 3, 1) - shards).reshape(48, 6), rtol=1e-6)
    np.testing.assert_allclose(problem_1.plain_means(a, 4), shards.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(problem_1.plain_rolled(a, 4), rolled(a), rtol=1e-6)
    for f in (means, rolled):
        assert sent(f, a) == {}
        assert sent(jax.grad(lambda a, f=f: jnp.sum(f(a) ** 2)), a) == {}


# --- 2: a mixture of experts ----------------------------------------------------------------------------------------------------


def experts(w, a, b):
    """`[s, f]`, one token after the other."""
    w, a = np.asarray(w), np.asarray(a)
    return np.stack([np.mean([a[i] @ w[e] for e in chosen], 0) for i, chosen in enumerate(np.asarray(b))])


def dense(w, a, b):
    """The same in `jnp`, for its gradient: all experts for all tokens."""
    return jnp.einsum("sd,edf,sce->sf", a, w, jax.nn.one_hot(b, len(w))) / b.shape[1]


CHOICES = {
    "one": lambda rng: rng.integers(0, 8, (32, 1)),
    "several": lambda rng: rng.random((32, 8)).argsort(1)[:, :3],
    "all tokens one expert": lambda rng: np.full((32, 1), 5),
    "one expert twice": lambda rng: np.stack([np.arange(32) % 8] * 2, 1),
}
FORMS = {
    "local": lambda: problem_2.unmapped(),
    "partitioned": lambda: problem_2.partitioned(MESH),
    "gathered": lambda: problem_2.mapped(problem_2.gathered, MESH),
    "dispatched": lambda: problem_2.mapped(problem_2.dispatched, MESH),
}


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("choice", CHOICES)
def test_experts(choice, form):
    w, a, b = array(8, 6, 4), array(32, 6), jnp.asarray(CHOICES[choice](np.random.default_rng(0)), jnp.int32)
    f, weights = FORMS[form](), array(32, 4, seed=3)
    want = experts(w, a, b)
    np.testing.assert_allclose(f(w, a, b), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dense(w, a, b), want, rtol=1e-4, atol=1e-5)
    have = jax.jit(jax.grad(lambda w, a: jnp.sum(f(w, a, b) * weights), (0, 1)))(w, a)
    for h, g in zip(have, jax.jit(jax.grad(lambda w, a: jnp.sum(dense(w, a, b) * weights), (0, 1)))(w, a), strict=True):
        np.testing.assert_allclose(h, g, rtol=1e-4, atol=1e-4)


@pytest.mark.fast(0)
def test_what_experts_send_and_keep():
    """Sizes [e, d, f] = [16, 32, 48], 512 tokens, two choices; X has 4 devices and Y has 2."""
    e, d, f, s, k = 16, 32, 48, 512, 2
    args = problem_2.arguments(MESH, s, d, f, e, k)
    compiled = {form: jax.jit(FORMS[form]()).lower(*args).compile() for form in FORMS}
    kept = {form: program.memory_analysis().temp_size_in_bytes for form, program in compiled.items()}
    buffer = 4 * e * (s * k) * d
    # On one device: the buffer and its results, far from a matrix for every token.
    assert kept["local"] < 4 * s * k * d * f / 2
    # The tokens of all, twice: their features along Y, then they themselves along X; and who chose whom. Then the sum of the results.
    found = [(c.kind, c.group_size) for c in hlo.collectives(compiled["gathered"])]
    assert sorted(found) == [("all-gather", 2), ("all-gather", 4), ("all-gather", 4), ("reduce-scatter", 4)]
    # To the experts and back in each round; of the tokens only the features that are on other devices are gathered.
    found = [(c.kind, c.group_size, c.in_loop) for c in hlo.collectives(compiled["dispatched"])]
    assert sorted(found) == [
        ("all-gather", 2, False),
        ("all-reduce", 4, False),
        ("all-to-all", 4, True),
        ("all-to-all", 4, True),
    ]
    # A round has room for an even load: the tokens of a device, sent and received, and the results. The buffer of all is larger.
    assert kept["dispatched"] < buffer / 4 / 4 < kept["gathered"]
    assert "all-gather" in hlo.summary(compiled["partitioned"])


# --- 3 and 4: collective matmul -------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("overlap", [False, True, "bidirectional"])
@pytest.mark.parametrize("name", problem_3.PROGRAMS)
def test_collective_matmul(name, overlap):
    mesh = make_mesh(2, 4)
    args = problem_3.arguments(name, mesh, 8, 16, 32)
    f, plain = problem_3.mapped(name, mesh, overlap), problem_3.PLAIN[name]
    argnums = tuple(range(len(args)))
    want = plain(*(jnp.asarray(np.asarray(arg)) for arg in args))
    np.testing.assert_allclose(f(*args), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(problem_3.partitioned(name, mesh)(*args), want, rtol=1e-4, atol=1e-5)
    have = jax.jit(jax.grad(lambda *args: jnp.sum(jnp.sin(f(*args))), argnums))(*args)
    for h, g in zip(have, jax.jit(jax.grad(lambda *args: jnp.sum(jnp.sin(plain(*args))), argnums))(*args), strict=True):
        np.testing.assert_allclose(h, g, rtol=1e-4, atol=1e-4)
    kinds = {key.removesuffix(" in a loop") for key in sent(f, *args)}
    plainly = {"all-reduce": {"all-reduce"}, "reduce-scatter": {"reduce-scatter"}, "block": {"all-gather", "reduce-scatter"}}
    assert kinds == ({"collective-permute"} if overlap else plainly[name])
    # Backwards the same, and the sum over the batch, which is on X.
    gradient = jax.jit(jax.grad(lambda *args: jnp.sum(f(*args) ** 2), argnums)).lower(*args).compile()
    if overlap:
        assert {c.kind for c in hlo.collectives(gradient) if c.group_size == 4} == {"collective-permute"}


def test_the_same_program_on_no_mesh():
    for name, (function, in_axes, out_axes, _) in problem_3.PROGRAMS.items():
        args = [np.asarray(arg) for arg in problem_3.arguments(name, make_mesh(2, 4), 8, 16, 32)]
        np.testing.assert_allclose(
            nx.xmap(function, in_axes, out_axes)(*args), problem_3.PLAIN[name](*args), rtol=1e-4, atol=1e-5
        )
