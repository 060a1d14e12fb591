"""`nx.machines.cost`: kernels whose cost is declared."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError
from tests import make
from tests.harness import said

FLOPS, BYTES = 1000.0, 100.0


def attend(q, k, v):
    return jax.nn.softmax(q @ k.T, -1) @ v


@jax.custom_vjp
def flash(q, k, v):
    return attend(q, k, v)


def backwards(residuals, cotangent):
    return jax.vjp(attend, *residuals)[1](cotangent)


flash.defvjp(lambda q, k, v: (attend(q, k, v), (q, k, v)), backwards)
declared = nx.machines.cost(attend, flops=FLOPS, bytes=BYTES)
declared_flash = nx.machines.cost(flash, flops=FLOPS, bytes=BYTES, gradient_flops=2500, gradient_bytes=300)
Q = make.array(np.random.default_rng(0).normal(size=(64, 8)))
SCORES = 64 * 64 * 4


def charged(f, *args):
    """Return the calls of kernels that a report lists: phase, operations, bytes, runs."""
    report = nx.explain(f, *args)
    return [(step.phase, step.flops, step.bytes, step.trips) for step in report.operations if step.kind in ("attend", "flash")]


def squares(f):
    return lambda q: jnp.sum(f(q * 2, q, q) ** 2)


FORWARD, GRADIENT = ("forward", 1000, 100, 1), ("gradient", 2000, 200, 1)


def test_a_call_is_one_operation():
    report = nx.explain(declared, Q, Q, Q)
    (step,) = report.operations
    assert (step.kind, step.flops, step.bytes, step.source) == ("attend", 1000, 100, step.source)
    assert report.memory.peak == 4 * Q.nbytes  # no scores
    assert nx.explain(attend, Q, Q, Q).memory.peak >= 4 * Q.nbytes + SCORES


def test_the_cost_may_follow_from_the_types_of_the_arguments():
    f = nx.machines.cost(attend, flops=lambda q, k, v: 2 * q.size * k.shape[0], bytes=lambda q, k, v: q.size * q.dtype.itemsize)
    assert charged(f, Q, Q, Q) == [("forward", 2 * 64 * 8 * 64, 64 * 8 * 4, 1)]
    keywords = nx.machines.cost(lambda x, *, w: x @ w, flops=lambda x, *, w: w.shape[1], bytes=0)
    assert nx.explain(lambda x: keywords(x, w=x.T), Q).flops == 64


def test_gradients_are_charged():
    assert charged(jax.grad(squares(declared)), Q) == [FORWARD, GRADIENT]
    assert charged(jax.grad(squares(declared_flash)), Q) == [FORWARD, ("gradient", 2500, 300, 1)]
    report = nx.explain(jax.grad(squares(declared_flash)), Q)
    assert report.memory.peak < SCORES + 2 * Q.nbytes
    assert sum(report.memory.kept.values()) < SCORES
    # In forward mode a call and its tangent count once.
    assert charged(lambda q: jax.jvp(squares(declared), (q,), (q,)), Q) == [FORWARD]


def test_a_backward_pass_may_have_its_own_cost():
    forward = nx.machines.cost(attend, flops=FLOPS, bytes=BYTES)
    backward = nx.machines.cost(backwards, flops=3, bytes=4)
    both = jax.custom_vjp(lambda q, k, v: forward(q, k, v))
    both.defvjp(lambda q, k, v: (forward(q, k, v), (q, k, v)), lambda residuals, cotangent: backward(residuals, cotangent))
    report = nx.explain(jax.grad(squares(both)), Q)
    named = [
        (step.kind, step.flops, step.bytes, step.phase) for step in report.operations if step.kind in ("attend", "backwards")
    ]
    assert named == [("attend", FLOPS, BYTES, "forward"), ("backwards", 3, 4, "gradient")]


def test_a_recomputation_is_charged():
    again = ("gradient", 1000, 100, 1)
    assert charged(jax.grad(squares(jax.checkpoint(declared))), Q) == [FORWARD, again, GRADIENT]


def test_calls_in_loops_and_in_functions_that_are_called_twice():
    def many(q):
        return jax.lax.scan(lambda c, _: (declared(c, c, c), None), q, None, length=5)[0]

    assert charged(many, Q) == [("forward", 1000, 100, 5)]
    assert charged(jax.grad(lambda q: jnp.sum(many(q))), Q) == [("forward", 1000, 100, 5), ("gradient", 2000, 200, 5)]
    layer = jax.jit(lambda q: declared(q, q, q))
    assert charged(lambda q: layer(layer(q)), Q) == [FORWARD, FORWARD]


def test_instances_are_counted():
    many = jnp.stack([Q] * 3)
    three, gradient = ("forward", 3000, 300, 1), ("gradient", 6000, 600, 1)
    assert charged(jax.vmap(declared), many, many, many) == [three]
    assert charged(jax.vmap(declared, (0, None, None)), many, Q, Q) == [three]
    assert charged(jax.vmap(jax.vmap(declared, (0, None, None)), (None, 0, 0)), many, many, many) == [("forward", 9000, 900, 1)]
    assert charged(jax.grad(squares(jax.vmap(declared))), many) == [three, gradient]


def mapped(kernel):
    def body(q, k, v):
        return nx.nmap(kernel)(q, k, v)

    axes = (["batch", "heads", ...],) * 3
    mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])
    return nx.xmap(body, axes, ["batch", "heads", ...], axis_resources={"batch": "x"}, mesh=mesh)


MANY = make.array(np.random.default_rng(1).normal(size=(8, 3, 16, 4)))


def test_the_blocks_of_a_device_are_charged():
    six = 8 // 4 * 3
    assert charged(mapped(declared), MANY, MANY, MANY) == [("forward", six * FLOPS, six * BYTES, 1)]
    f = jax.grad(lambda q: jnp.sum(mapped(declared_flash)(q, q, q) ** 2))
    assert charged(f, MANY) == [("forward", six * FLOPS, six * BYTES, 1), ("gradient", six * 2500, six * 300, 1)]


def test_named_arrays_are_arguments_too():
    plain = functools.partial(nx.nn.dot_product_attention, axis="pos", features="d", is_causal=True)
    f = nx.machines.cost(plain, flops=lambda q, k, v: q.data.size, bytes=BYTES)
    mesh = jax.sharding.AbstractMesh((4,), ("x",))
    layer = nx.xmap(f, (["batch", "pos", "d"],) * 3, ["batch", "pos", "d"], axis_resources={"batch": "x"}, mesh=mesh)
    x = jax.ShapeDtypeStruct((8, 32, 4), "float32")
    assert [(step.kind, step.flops) for step in nx.explain(layer, x, x, x).operations] == [
        ("dot_product_attention", 8 // 4 * 32 * 4)
    ]


def test_a_kernel_within_a_kernel_is_part_of_it():
    outer = nx.machines.cost(lambda q: declared(q, q, q) + 1, flops=7, bytes=5)
    (step,) = nx.explain(outer, Q).operations
    assert (step.flops, step.bytes) == (7, 5)


def test_collectives_within_a_kernel_are_listed():
    mesh = jax.sharding.AbstractMesh((4,), ("x",))
    total = nx.machines.cost(lambda x: nx.sum(x, "batch"), flops=1, bytes=1)
    f = nx.xmap(total, (["batch", "d"],), ["d"], axis_resources={"batch": "x"}, mesh=mesh)
    report = nx.explain(f, jax.ShapeDtypeStruct((8, 4), "float32"))
    assert report.summary() == {"all-reduce": (1, 16)}
    assert report.flops == 1


TABLE = make.array(np.random.default_rng(2).random((64, 64)) > 0.1)


def masked(q, k, v):
    """An attention with operations that JAX moves out of a loop."""
    scores, positions = q @ k.T, jnp.arange(len(q))
    scores = jnp.where(TABLE, jnp.where(positions[:, None] >= positions, scores, -1e30), -1e30)
    return jax.nn.softmax(scores, -1) @ v


def online(q, k, v):
    """An attention in blocks, whose loop saves stacked arrays for the gradient."""

    def step(carry, block):
        most, total, result = carry
        scores = q @ block[0].T
        new = jnp.maximum(most, scores.max(-1))
        weights, factor = jnp.exp(scores - new[:, None]), jnp.exp(most - new)
        return (new, total * factor + weights.sum(-1), result * factor[:, None] + weights @ block[1]), None

    zero = q[:, 0] * 0
    blocks = tuple(x.reshape(4, -1, x.shape[-1]) for x in (k, v))
    (_, total, result), _ = jax.lax.scan(step, (zero - 1e30, zero, q * 0), blocks)
    return result / total[:, None]


def chosen(q, k, v):
    return jax.lax.cond(q[0, 0] > 0, lambda: masked(q, k, v), lambda: online(q, k, v))


@pytest.mark.parametrize("kernel", [masked, online, pytest.param(chosen, marks=pytest.mark.fast(0))])
def test_every_run_is_charged_once(kernel):
    f = nx.machines.cost(kernel, flops=FLOPS, bytes=BYTES)

    def calls(g, *args):
        report = nx.explain(g, *args)
        steps = [step for step in report.operations if step.kind == kernel.__name__]
        return [(step.phase, step.flops, step.bytes, step.trips) for step in steps]

    def looped(f):
        return lambda q: jnp.sum(jax.lax.scan(lambda c, _: (f(c, c, c), None), q, None, length=5)[0])

    again, many = ("gradient", 1000, 100, 1), jnp.stack([Q] * 3)
    assert calls(jax.grad(squares(f)), Q) == [FORWARD, GRADIENT]
    assert calls(jax.grad(squares(jax.checkpoint(f))), Q) == [FORWARD, again, GRADIENT]
    assert calls(jax.grad(looped(f)), Q) == [("forward", 1000, 100, 5), ("gradient", 2000, 200, 5)]
    assert calls(jax.vmap(looped(f)), many) == [("forward", 3000, 300, 5)]
    assert calls(jax.grad(squares(jax.vmap(f))), many) == [("forward", 3000, 300, 1), ("gradient", 6000, 600, 1)]
    layer = jax.jit(lambda q: f(q, q, q))
    assert calls(jax.grad(lambda q: jnp.sum(layer(layer(q)))), Q) == [FORWARD, FORWARD, GRADIENT, GRADIENT]


PROGRAMS = {
    "call": lambda f: lambda q: f(q * 2, q, q),
    "gradient": lambda f: jax.grad(squares(f)),
    "checkpoint": lambda f: jax.grad(squares(jax.checkpoint(f))),
    "vmap": lambda f: jax.grad(lambda q: jnp.sum(jax.vmap(f, (0, None, None))(jnp.stack([q, q * 2]), q, q))),
    "scan": lambda f: jax.grad(lambda q: jnp.sum(jax.lax.scan(lambda c, _: (f(c, c, c), None), q, None, length=3)[0])),
}


def program_text(f, *args):
    """Return the compiled HLO without its metadata."""
    lines = jax.jit(f).lower(*args).compile().as_text().splitlines()
    keeps = [line for line in lines if line[:1] in ("%", " ", "}", "E")]
    text = "\n".join(re.sub(r', metadata=\{(?:[^"{}]|"[^"]*")*\}', "", line) for line in keeps)
    numbers = {}  # XLA makes the names of instructions from those of operations
    names = r"%[\w.\-]+|\b[A-Za-z_]\w*(?:\.\d+)+"
    return re.sub(names, lambda name: f"%{numbers.setdefault(name[0].removeprefix('%'), len(numbers))}", text)


@pytest.mark.full(3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.fast(0)] * (name != "gradient")) for name in PROGRAMS])
@pytest.mark.parametrize("kernel", [attend, flash], ids=["attend", "flash"])
def test_values_and_the_compiled_program_do_not_change(name, kernel):
    f, g = (PROGRAMS[name](one) for one in (nx.machines.cost(kernel, flops=1, bytes=1), kernel))
    np.testing.assert_array_equal(jax.jit(f)(Q), jax.jit(g)(Q))
    assert program_text(f, Q) == program_text(g, Q)


@pytest.mark.fast(0)
def test_the_compiled_program_of_a_mapped_function_does_not_change():
    gradients = [jax.grad(lambda q, f=f: jnp.sum(mapped(f)(q, q, q) ** 2)) for f in (declared, attend)]
    assert program_text(gradients[0], MANY) == program_text(gradients[1], MANY)
    np.testing.assert_array_equal(gradients[0](MANY), gradients[1](MANY))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: nx.machines.cost(3, flops=1, bytes=1),
            ArgumentTypeError,
            "cost: the first argument must be a function, got 3. Write nx.machines.cost(kernel, flops=..., bytes=...).",
        ),
        (
            lambda: nx.machines.cost(attend, flops="1", bytes=1),
            ArgumentTypeError,
            "cost: flops='1' is not a number. Pass a number, or a function of the arguments that returns one.",
        ),
        (
            lambda: nx.machines.cost(attend, flops=1, bytes=-1),
            ArgumentError,
            "cost: bytes=-1 must be zero or positive, and finite. Count the operations or bytes of one call.",
        ),
        (
            lambda: nx.machines.cost(attend, flops=lambda q, k, v: None, bytes=1)(Q, Q, Q),
            ArgumentTypeError,
            "cost: flops=None is not a number. Pass a number, or a function of the arguments that returns one.",
        ),
    ],
)
def test_messages(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert said(error.value) == message
