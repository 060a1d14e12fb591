"""Time as a resource: an axis that is executed in steps gives what it gives otherwise, and takes less memory.

Oracles are `jnp` and hand-written gradients; costs are read from the compiled program.
"""

import cProfile
import functools
import pickle
import re

import jax
import jax.experimental.pallas
import jax.experimental.xla_metadata
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax import SerialLoop, serial_loop
from namedax.errors import AxisResourceError, AxisSizeError, PlacementConflictError, SerialLoopError
from namedax.hlo import collectives, summary
from namedax.nn import relu
from namedax.programs.serial.stepping import run_in_steps
from tests import make
from tests.harness import Placement, array, check, make_mesh, said, together

LOOP = SerialLoop
_KINDS = [
    ("steps", None, (("a", LOOP(4)),)),
    ("one-each", None, (("a", LOOP(8)),)),
    ("one-step", None, (("a", LOOP(1)),)),
    ("devices-and-steps", (4, 2), (("a", ("x", LOOP(2))),)),
    ("two-mesh-axes", (2, 2), (("a", ("y", "x", LOOP(2))),)),
    ("another-on-devices", (4, 2), (("a", ("x", LOOP(2))), ("b", "y"))),
    ("steps-beside-devices", (4, 2), (("a", LOOP(4)), ("b", "x"))),
    ("two-loops", (4, 2), (("a", ("x", LOOP(2))), ("b", ("y", LOOP(2))))),
]
PLACEMENTS = [
    Placement(label, shape, resources, kind)
    for kind in ("auto", "explicit")
    for label, shape, resources in _KINDS
    if shape or kind == "auto"
]
SOME = [p for p in PLACEMENTS if str(p) in ("steps-auto", "devices-and-steps-explicit", "two-loops-auto")]

X = array(8, 4, 3)
W = array(3, 5, seed=1)


def positions(x, w):
    return jnp.einsum("abc,cd->abd", x, w)


# Named program and positional oracle over x: [a, b, c] and w: [c, d], with the axes of the result.
PROGRAMS = {
    "elementwise": (lambda x, w: nx.sin(x) * 2, lambda x, w: jnp.sin(x) * 2, ["a", "b", "c"]),
    "result where the axis comes last": (lambda x, w: nx.tanh(x), lambda x, w: jnp.tanh(x).transpose(2, 1, 0), ["c", "b", "a"]),
    "sum": (lambda x, w: nx.sum(x**2, "a"), lambda x, w: (x**2).sum(0), ["b", "c"]),
    "sum of both": (lambda x, w: nx.sum(nx.sin(x), ("a", "b")), lambda x, w: jnp.sin(x).sum((0, 1)), ["c"]),
    "mean": (lambda x, w: nx.mean(x, "a") * 3, lambda x, w: x.mean(0) * 3, ["b", "c"]),
    "max": (lambda x, w: nx.max(x, "a"), lambda x, w: x.max(0), ["b", "c"]),
    "min": (lambda x, w: nx.min(x * x, "a"), lambda x, w: (x * x).min(0), ["b", "c"]),
    "prod": (lambda x, w: nx.prod(x, "a"), lambda x, w: x.prod(0), ["b", "c"]),
    "logsumexp": (lambda x, w: nx.logsumexp(x, "a"), lambda x, w: jax.nn.logsumexp(x, 0), ["b", "c"]),
    "var": (lambda x, w: nx.var(x, "a"), lambda x, w: x.var(0), ["b", "c"]),
    "norm": (lambda x, w: nx.numpy.linalg.norm(x, axis="a"), lambda x, w: jnp.sqrt((x**2).sum(0)), ["b", "c"]),
    "argmax": (lambda x, w: nx.argmax(x, "a"), lambda x, w: x.argmax(0), ["b", "c"]),
    "any": (lambda x, w: nx.any(x > 1, "a"), lambda x, w: (x > 1).any(0), ["b", "c"]),
    "psum": (lambda x, w: nx.lax.psum(x, "a"), lambda x, w: x.sum(0), ["b", "c"]),
    "psum of what lacks the name": (lambda x, w: nx.lax.psum(w, "a"), lambda x, w: 8 * w, ["c", "d"]),
    "contraction": (
        lambda x, w: nx.dot(x, x.rename(c="e"), "a"),
        lambda x, w: jnp.einsum("abc,abe->bce", x, x),
        ["b", "c", "e"],
    ),
    "matmul": (lambda x, w: nx.dot(x, w, "c"), positions, ["a", "b", "d"]),
    "deviations": (lambda x, w: x - nx.mean(x, "a"), lambda x, w: x - x.mean(0), ["a", "b", "c"]),
    "softmax": (lambda x, w: nx.nn.softmax(x, "a"), lambda x, w: jax.nn.softmax(x, 0), ["a", "b", "c"]),
    "batch norm": (
        lambda x, w: (x - nx.mean(x, "a")) / nx.sqrt(nx.var(x, "a") + 0.1),
        lambda x, w: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 0.1),
        ["a", "b", "c"],
    ),
    "gathered": (
        lambda x, w: nx.sum(nx.dot(x, nx.rename(x, {"a": "e"}), "c") ** 2, "e"),
        lambda x, w: (jnp.einsum("abc,ebc->aeb", x, x) ** 2).sum(1),
        ["a", "b"],
    ),
    "an entry of each row": (  # whose gradient is a scatter, which has a program of its own for two scalars
        lambda x, w: x[{"c": nx.argmax(x, "c")}] * 2,
        lambda x, w: x.max(2) * 2,
        ["a", "b"],
    ),
    "mask of steps": (
        lambda x, w: nx.where(nx.arange(8, axis="a") < 5, x, 0.0),
        lambda x, w: jnp.where((jnp.arange(8) < 5)[:, None, None], x, 0.0),
        ["a", "b", "c"],
    ),
    "what lacks the name": (lambda x, w: nx.sin(w) * 2, lambda x, w: jnp.sin(w) * 2, ["c", "d"]),
    "broadcast": (lambda x, w: nx.sum(w, "d"), lambda x, w: jnp.broadcast_to(w.sum(1), (8, 3)), ["a", "c"]),
    "scan of layers": (
        lambda x, w: (
            jax.lax.scan(lambda h, v: (nx.tanh(h * v), nx.mean(h * v, "c")), x, nx.positional(w, ["d", "c"]))[0]
            if not isinstance(w, nx.NamedArray)
            else jax.lax.scan(lambda h, v: (nx.tanh(h * v), None), x, nx.named(nx.positional(w, ["d", "c"]), [None, "c"]))[0]
        ),
        lambda x, w: functools.reduce(lambda h, v: jnp.tanh(h * v), w.T, x),
        ["a", "b", "c"],
    ),
    "cond and while": (
        lambda x, w: jax.lax.cond(
            nx.sum(w, ("c", "d")) > -1e9,
            lambda v: jax.lax.fori_loop(0, 3, lambda _, u: nx.sin(u), v),
            lambda v: v,
            x,
        ),
        lambda x, w: jnp.sin(jnp.sin(jnp.sin(x))),
        ["a", "b", "c"],
    ),
    "checkpoint": (
        lambda x, w: jax.checkpoint(lambda x, w: nx.sum(relu(nx.dot(x, w, "c")) ** 2, "d"))(x, w),
        lambda x, w: (jax.nn.relu(positions(x, w)) ** 2).sum(-1),
        ["a", "b"],
    ),
}


EVERYWHERE = ("sum", "batch norm", "matmul")


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("name", EVERYWHERE)
def test_everywhere(name, placement):
    named, oracle, out = PROGRAMS[name]
    check(named, oracle, [X, W], (["a", "b", "c"], ["c", "d"]), out, placement, tol=5e-5)


# Each by itself in one placement, and several in one program in others, which is quicker.
ALONE = sorted(set(PROGRAMS).difference(EVERYWHERE))


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("name", ALONE)
def test_programs(name):
    placement = next(p for p in PLACEMENTS if str(p) == "devices-and-steps-auto")
    named, oracle, out = PROGRAMS[name]
    check(named, oracle, [X, W], (["a", "b", "c"], ["c", "d"]), out, placement, tol=5e-5)


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", SOME, ids=str)
@pytest.mark.parametrize("part", range(3))
def test_programs_in_one(part, placement):
    """Programs that share their steps."""
    named, oracle, out = together({name: PROGRAMS[name] for name in ALONE[part::3]})
    check(named, oracle, [X, W], (["a", "b", "c"], ["c", "d"]), out, placement, tol=5e-5)


# --- a training step ------------------------------------------------------------------------------------------------


def network(w1, w2, x, y):
    hidden = relu(nx.dot(x, w1, "inputs"))
    logp = nx.nn.log_softmax(nx.dot(hidden, w2, "hidden"), "classes")
    return -nx.mean(nx.sum(nx.nn.one_hot(y, axis="classes") * logp, "classes"), "batch")


AXES = (["inputs", "hidden"], ["hidden", "classes"], ["batch", "inputs"], ["batch"])
SIZES = {"inputs": 16, "hidden": 64, "classes": 8, "batch": 512}


def operands():
    rng = np.random.default_rng(0)
    w1 = jnp.asarray(rng.normal(size=(16, 64)) / 4, jnp.float32)
    w2 = jnp.asarray(rng.normal(size=(64, 8)) / 8, jnp.float32)
    return w1, w2, jnp.asarray(rng.normal(size=(512, 16)), jnp.float32), jnp.asarray(rng.integers(0, 8, 512))


def by_hand(w1, w2, x, y):
    logp = jax.nn.log_softmax(jax.nn.relu(x @ w1) @ w2)
    return -jnp.take_along_axis(logp, y[:, None], 1).mean()


def train_step(resources, where, mesh):
    options = {"axis_resources": resources, "mesh": mesh, "axis_sizes": {"classes": 8}}
    if where == "outside":
        f = nx.xmap(network, AXES, [], **options)
        return jax.jit(jax.value_and_grad(f, argnums=(0, 1)))
    inside = jax.value_and_grad(network, argnums=(0, 1))
    return jax.jit(nx.xmap(lambda *args: inside(*args), AXES, ([], (AXES[0], AXES[1])), **options))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("base", [(), ("x",), ("x", "y")], ids=str)
def test_gradient_accumulation(where, base):
    mesh = make_mesh((4, 2)) if base else None
    args = operands()
    want, want_grads = jax.value_and_grad(by_hand, argnums=(0, 1))(*args)
    plain = train_step({"batch": base}, where, mesh).lower(*args).compile()
    steps = train_step({"batch": (*base, LOOP(8))}, where, mesh).lower(*args).compile()
    loss, grads = steps(*args)
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    for have, grad in zip(grads, want_grads, strict=True):
        np.testing.assert_allclose(have, grad, rtol=1e-4, atol=1e-6)
    # One gradient all-reduce after the loop, as without it: the same bytes, none in a loop.
    assert summary(steps) == summary(plain)
    assert not any(found.in_loop for found in collectives(steps))
    # The temporaries of a step are an eighth; what does not grow with the batch stays.
    assert steps.memory_analysis().temp_size_in_bytes < plain.memory_analysis().temp_size_in_bytes / (4 if not base else 1.5)


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("batch", ["x", ("x", LOOP(4)), ("x", LOOP(4, keep="whole"))], ids=str)
def test_a_parameter_in_parts_is_gathered_and_its_gradient_scattered_in_every_step_or_once(batch, where):
    def loss(w, x):
        return nx.mean(nx.einsum("{b,k},{k:k_fsdp,m}->{b,m}", nx.tanh(x), w) ** 2, ("b", "m"))

    w, x, axes = array(8, 6), array(16, 8), (["k_fsdp", "m"], ["b", "k"])
    want = jax.jit(jax.grad(lambda w, x: jnp.mean((jnp.tanh(x) @ w) ** 2)))(w, x)
    options = {"axis_resources": {"b": batch, "k_fsdp": "x"}, "mesh": make_mesh((4, 2))}
    if where == "outside":
        step = jax.jit(jax.grad(nx.xmap(loss, axes, [], **options)))
    else:
        step = jax.jit(nx.xmap(lambda w, x: jax.grad(loss)(w, x), axes, axes[0], **options))
    compiled = step.lower(w, x).compile()
    np.testing.assert_allclose(compiled(w, x), want, rtol=1e-4, atol=1e-6)
    found = sorted((one.kind, one.in_loop, one.bytes) for one in collectives(compiled))
    in_loop = batch == ("x", LOOP(4))
    assert found == [("all-gather", in_loop, w.nbytes), ("reduce-scatter", in_loop, w.nbytes)]


def scanned_layers(ws, x):
    """The loss of layers whose weights are stored over `k_fsdp`; a named scan."""

    def layer(h, w):
        return nx.tanh(nx.einsum("{b,k},{k:k_fsdp,m}->{b,k:m}", h, w)), None

    h, _ = nx.scan(layer, x, ws)
    return nx.mean(h**2, ("b", "k"))


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("replicas", [(), ("y",)], ids=["fsdp", "hybrid"])
def test_gradients_of_scanned_layers_in_parts_are_scattered_in_every_step_or_once(replicas, where):
    def oracle(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
        return jnp.mean(x**2)

    ws, x, axes = array(3, 8, 8), array(32, 8), ([None, "k_fsdp", "m"], ["b", "k"])
    want, memory = jax.grad(oracle)(ws, x), []
    for keep, scatters in (("parts", 2), ("whole", 1)):
        resources = {"b": (*replicas, "x", LOOP(4, keep=keep)), "k_fsdp": "x"}
        options = {"axis_resources": resources, "mesh": make_mesh((4, 2))}
        if where == "outside":
            step = jax.jit(jax.grad(nx.xmap(scanned_layers, axes, [], **options)))
        else:
            step = jax.jit(nx.xmap(lambda ws, x: jax.grad(scanned_layers)(ws, x), axes, axes[0], **options))
        compiled = step.lower(ws, x).compile()
        np.testing.assert_allclose(compiled(ws, x), want, rtol=1e-4, atol=1e-6)
        (scatter,) = (found for found in collectives(compiled) if found.kind == "reduce-scatter")
        assert scatter.bytes == ws.nbytes / 3  # of one layer
        # Over the layers, and over the steps; what replicas add up are parts, once.
        text = compiled.as_text()
        assert loops_around(text, "reduce-scatter") == scatters
        sums = [found for found in collectives(compiled) if found.kind == "all-reduce" and found.bytes > 4]
        assert [found.bytes for found in sums] == ([ws.nbytes / 4] if replicas else [])
        memory.append(compiled.memory_analysis().temp_size_in_bytes)
    assert memory[0] < memory[1]


def loops_around(text, kind):
    """In how many loops within each other the first collective of a kind is, in a compiled program."""
    bodies, current = {}, ""
    for line in text.splitlines():
        if match := re.match(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            current = match[1]
        bodies.setdefault(current, []).append(line)
    inside = next(name for name, lines in bodies.items() if any(re.search(rf" {kind}(-start)?\(", line) for line in lines))
    depth = 0
    while True:
        callers = [
            (n, line)
            for n, lines in bodies.items()
            for line in lines
            if re.search(rf"=%?{re.escape(inside)}\b", line) and n != inside
        ]
        if not callers:
            return depth
        inside, line = callers[0]
        depth += " while(" in line


def test_memory_falls_by_about_the_number_of_steps():
    def temporaries(resources):
        f = nx.xmap(
            lambda x, w: nx.mean(nx.sum(nx.tanh(nx.dot(nx.tanh(nx.dot(x, w, "k")), w, "m")) ** 2, "k"), "batch"),
            (["batch", "k"], ["k", "m"]),
            [],
            axis_resources=resources,
        )
        shapes = jax.ShapeDtypeStruct((4096, 8), jnp.float32), jax.ShapeDtypeStruct((8, 128), jnp.float32)
        return jax.jit(jax.grad(f, argnums=1)).lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    whole = temporaries({})
    for steps in (4, 16):
        assert temporaries({"batch": LOOP(steps)}) < 1.25 * whole / steps


@pytest.mark.fast(0)
def test_a_scan_over_layers_sums_its_gradients_after_all_steps():
    def loss(ws, x):
        h, _ = jax.lax.scan(lambda h, w: (nx.tanh(nx.rename(nx.dot(h, w, "d"), {"e": "d"})), None), x, ws)
        return nx.mean(nx.sum(h**2, "d"), "batch")

    def oracle(ws, x):
        h, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)
        return jnp.mean(jnp.sum(h**2, 1))

    ws, x = array(3, 4, 4), array(16, 4)
    want = jax.jit(jax.grad(oracle))(ws, x)
    axes = ([None, "d", "e"], ["batch", "d"])
    options = {"axis_resources": {"batch": ("x", LOOP(4))}, "mesh": make_mesh((4, 2))}
    for step in (
        jax.jit(jax.grad(nx.xmap(loss, axes, [], **options))),
        jax.jit(nx.xmap(lambda ws, x: jax.grad(loss)(ws, x), axes, [None, "d", "e"], **options)),
    ):
        compiled = step.lower(ws, x).compile()
        np.testing.assert_allclose(compiled(ws, x), want, rtol=1e-4, atol=1e-6)
        (only,) = collectives(compiled)
        assert (only.kind, only.in_loop, only.bytes) == ("all-reduce", False, ws.nbytes)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"a": LOOP(4)}, {"a": ("x", LOOP(2))}, {"a": (("y", "x", LOOP(1)))}], ids=str)
def test_sums_that_a_scan_collects_with_weights_of_its_own(resources):
    # What the carry begins with is scaled in every iteration, like the sums.
    def body(x, start):
        def step(total, factor):
            return 0.5 * total + nx.sum(x, "a") * factor, total

        return jax.lax.scan(step, start, jnp.arange(1.0, 4.0))

    def oracle(x, start):
        totals = []
        for factor in (1.0, 2.0, 3.0):
            totals.append(start)
            start = 0.5 * start + x.sum() * factor
        return start, jnp.stack(totals)

    f = nx.xmap(body, (["a"], []), ([], [None]), axis_resources=resources, mesh=make_mesh((4, 2)))
    x, start = array(8), jnp.float32(7)
    jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-5), f(x, start), oracle(x, start))
    have = jax.grad(lambda *xs: f(*xs)[0] + jnp.sum(f(*xs)[1] ** 2), argnums=(0, 1))(x, start)
    want = jax.jit(jax.grad(lambda *xs: oracle(*xs)[0] + jnp.sum(oracle(*xs)[1] ** 2), argnums=(0, 1)))(x, start)
    jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-4), have, want)


def test_rounding_in_a_scan_waits_for_all_steps():
    def body(x):
        return jax.lax.scan(lambda c, _: (c + nx.sum(x, "a").astype(int), None), 0, None, length=2)[0]

    assert nx.xmap(body, ["a"], [], axis_resources={"a": LOOP(4)})(jnp.full(8, 0.4)) == 6


def test_a_weight_that_a_scan_uses_every_time():
    def loss(w, x):
        h, _ = jax.lax.scan(lambda h, _: (nx.tanh(h * w), None), x, None, length=3)
        return nx.sum(h, ("batch", "d"))

    def oracle(w, x):
        for _ in range(3):
            x = jnp.tanh(x * w)
        return x.sum()

    w, x = array(4), array(16, 4)
    want = jax.jit(jax.grad(oracle))(w, x)
    for resources in ({"batch": LOOP(4)}, {"batch": ("x", LOOP(2))}):
        options = {"axis_resources": resources, "mesh": make_mesh((4, 2))}
        inside = nx.xmap(lambda w, x: jax.grad(loss)(w, x), (["d"], ["batch", "d"]), ["d"], **options)
        np.testing.assert_allclose(inside(w, x), want, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(
            jax.grad(nx.xmap(loss, (["d"], ["batch", "d"]), [], **options))(w, x), want, rtol=1e-4, atol=1e-6
        )


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"batch": LOOP(4)}, {"batch": ("x", LOOP(2))}], ids=str)
def test_second_derivatives(resources):
    args = operands()
    f = nx.xmap(network, AXES, [], axis_resources=resources, mesh=make_mesh((4, 2)), axis_sizes={"classes": 8})

    def hvp(f):
        return jax.grad(lambda w: jnp.vdot(jax.grad(f)(w, *args[1:]), jnp.ones_like(w)))(args[0])

    np.testing.assert_allclose(hvp(f), hvp(by_hand), rtol=1e-3, atol=1e-4)


@pytest.mark.fast(0)
def test_the_gradient_of_a_loss_comes_with_its_value():
    # Counted in the compiled program: one loop, as in the program that takes the gradient in the body.
    args = operands()
    outside, inside = (train_step({"batch": LOOP(8)}, where, None).lower(*args).compile() for where in ("outside", "inside"))
    assert outside.as_text().count(" while(") == inside.as_text().count(" while(") == 1
    flops = [compiled.cost_analysis()["flops"] for compiled in (outside, inside)]
    assert flops[0] < 1.02 * flops[1]


@pytest.mark.fast(0)
def test_loss_scaling_in_sixteen_bits():
    # The gradient of one is lost in float16; that of the scaled loss is not, and so must not be made from the former.
    f = nx.xmap(lambda w, x: nx.sum(x * (w * 1e-4), "a") * 1e-4, ([], ["a"]), [], axis_resources={"a": LOOP(2)})
    w, x = make.ones((), jnp.float16), jnp.full(2, 1e-3, jnp.float16)
    have = jax.grad(lambda w: f(w, x) * jnp.float16(2**14))(w)
    want = jax.jit(jax.grad(lambda w: jnp.sum(x * (w * 1e-4)) * 1e-4 * jnp.float16(2**14)))(w)
    assert want > 0
    np.testing.assert_allclose(have, want, rtol=0.05)


@pytest.mark.fast(0)
def test_only_what_is_asked_for_is_differentiated():
    w1, w2, x, y = operands()
    f = nx.xmap(network, AXES, [], axis_resources={"batch": LOOP(8)}, axis_sizes={"classes": 8})
    text = str(jax.make_jaxpr(jax.grad(f, argnums=1))(w1, w2, x, y))
    whole = str(jax.make_jaxpr(jax.grad(f, argnums=(0, 1, 2)))(w1, w2, x, y))
    assert text.count("dot_general") < whole.count("dot_general")
    _, pullback = jax.vjp(lambda w: (f(w, w2, x, y), w.sum()), w1)
    zero = pullback((make.zeros(()), make.ones(())))  # the loss has no cotangent but zero
    np.testing.assert_array_equal(zero[0], jnp.ones_like(w1))


# --- composition ----------------------------------------------------------------------------------------------------


def test_named_arrays_in_and_out():
    x = nx.named(X, ["a", "b", None])
    y = nx.xmap(lambda x: (nx.sum(x, "a"), x * 2), axis_resources={"a": LOOP(4)})(x)
    assert y[0].dims == ("b", None)
    assert y[1].dims == ("a", "b", None)
    np.testing.assert_allclose(y[0].data, X.sum(0), rtol=1e-5)
    np.testing.assert_array_equal(y[1].data, X * 2)


@pytest.mark.fast(0)
def test_without_jit_and_within_other_transformations():
    f = nx.xmap(lambda x: nx.sum(x**2, "a"), ["a"], [], axis_resources={"a": LOOP(4)}, jit=False)
    x = array(5, 8)
    np.testing.assert_allclose(f(x[0]), (x[0] ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(f)(x), (x**2).sum(1), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(f))(x), 2 * x, rtol=1e-5)
    np.testing.assert_allclose(jax.lax.map(f, x), (x**2).sum(1), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: jax.lax.scan(lambda c, x: (c + f(x), None), 0.0, x)[0])(x), 2 * x, rtol=1e-5)


def test_closed_over_values_have_gradients():
    def outer(w):
        return nx.xmap(lambda x: nx.sum(x * w, "a"), ["a"], [], axis_resources={"a": LOOP(4)})(jnp.arange(8.0))

    np.testing.assert_allclose(jax.grad(outer)(2.0), 28.0)
    named = nx.named(make.arange(8.0), ["a"])  # cut to the step that is executed
    f = nx.xmap(lambda x: x * named, ["a"], ["a"], axis_resources={"a": LOOP(4)})
    np.testing.assert_allclose(f(jnp.ones(8)), jnp.arange(8.0))


def test_rules_of_ones_own():
    @jax.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (double(x), None), lambda _, ct: (7 * ct,))
    f = nx.xmap(lambda x: nx.sum(double(x) ** 2, "a"), ["a"], [], axis_resources={"a": ("x", LOOP(2))}, mesh=make_mesh((4, 2)))
    x = array(8)
    np.testing.assert_allclose(jax.grad(f)(x), 7 * 4 * x, rtol=1e-5)


@pytest.mark.fast(0)
def test_random_numbers_are_the_same():
    def body(key, x):
        return x + nx.random.normal(key, named_shape={"a": 8})

    key = jax.random.key(3)
    results = [
        nx.xmap(body, ([], ["a"]), ["a"], axis_resources=resources, mesh=make_mesh((4, 2)))(key, make.zeros(8))
        for resources in ({}, {"a": LOOP(4)}, {"a": ("x", LOOP(2))})
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_sixteen_bits_add_up_in_thirty_two():
    x = jnp.full((2048, 1), 1, jnp.bfloat16)
    f = nx.xmap(lambda x: nx.lax.psum(x, "a"), ["a", None], [None], axis_resources={"a": LOOP(2048)})
    assert f(x).tolist() == [2048]  # in bfloat16 the sum would stop at 256


def test_weak_types_and_integers():
    f = nx.xmap(lambda x: (nx.sum(x, "a"), nx.max(x, "a"), x + 1), ["a"], ([], [], ["a"]), axis_resources={"a": LOOP(4)})
    total, largest, more = f(make.arange(8))
    assert (int(total), int(largest)) == (28, 7)
    np.testing.assert_array_equal(more, jnp.arange(1, 9))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"n": LOOP(2)}, {"n": ("x", LOOP(2))}], ids=str)
def test_solvers_beside_a_mesh_axis_that_nobody_maps(resources):
    a, b, axes = array(8, 3, 3) + 3 * make.eye(3), array(8, 3), (["n", None, None], ["n", None])
    options = {"axis_resources": resources, "mesh": make_mesh((2, 4))}
    solve = nx.nmap(jnp.linalg.solve)

    def plain(a, b):
        return jnp.linalg.solve(a, b[..., None])[..., 0]

    np.testing.assert_allclose(nx.xmap(solve, axes, ["n", None], **options)(a, b), plain(a, b), rtol=1e-4, atol=1e-5)
    f = nx.xmap(lambda a, b: nx.sum(solve(a, b) ** 2, ("n", 0)), axes, [], **options)
    np.testing.assert_allclose(
        jax.grad(f)(a, b), jax.jit(jax.grad(lambda a, b: jnp.sum(plain(a, b) ** 2)))(a, b), rtol=1e-3, atol=1e-5
    )


STEPS_AND_DEVICES = [{"a": "x", "b": LOOP(3)}, {"a": ("x", LOOP(2))}, {"a": LOOP(2), "b": "y"}]
GATHERING = {
    "cumsum": nx.cumsum,
    "cummax": nx.cummax,
    "logsumexp": nx.logsumexp,
    "products with all": lambda x, axis: nx.dot(nx.rename(x, {axis: "c"}), x, "b" if axis == "a" else "a"),
    "cumsum in a scan": lambda x, axis: nx.scan(
        lambda carry, k: (carry + k * nx.cumsum(x, axis), carry[axis, -1]), x, jnp.arange(3.0)
    )[1],
}


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", STEPS_AND_DEVICES, ids=str)
@pytest.mark.parametrize("axis", ["a", "b"])
@pytest.mark.parametrize("name", GATHERING)
def test_gathers_beside_an_explicit_mesh_axis_that_nobody_maps(name, axis, resources):
    """JAX 0.12 lowers no reduce-scatter there, into which it transposes a gather."""
    x = nx.named(jnp.cos(jnp.arange(24.0)).reshape(4, 6), ["a", "b"])

    def loss(x):
        y = GATHERING[name](x, axis)
        return nx.sum(y * y, ...)

    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    outside = jax.grad(nx.xmap(loss, axis_resources=resources, mesh=mesh))
    inside = nx.xmap(jax.grad(loss), axis_resources=resources, mesh=mesh)
    expected = jax.grad(loss)(x)
    with jax.set_mesh(mesh):
        for gradient in (outside, inside):
            np.testing.assert_allclose(jax.jit(gradient)(x).data, expected.data, rtol=1e-5, atol=1e-5)


@pytest.mark.fast(0)
def test_lifted_loops_in_which_each_entry_goes_on_by_itself():
    def double(v):
        return jax.lax.while_loop(lambda v: v < 100, lambda v: 2 * v, v)

    def solve(a, b):
        return jax.scipy.sparse.linalg.cg(lambda v: a @ v, b, tol=1e-6)[0]

    half = array(8, 3, 3)
    a, b = half @ half.mT + make.eye(3), array(8, 3)
    for resources in ({"n": LOOP(2)}, {"n": ("x", LOOP(2))}):
        f = nx.xmap(
            lambda a, b: (nx.nmap(double)(nx.exp(nx.sum(b, 0))), nx.nmap(solve)(a, b)),
            (["n", None, None], ["n", None]),
            (["n"], ["n", None]),
            axis_resources=resources,
            mesh=make_mesh((2, 4)),
        )
        doubled, solved = f(a, b)
        np.testing.assert_allclose(doubled, jax.vmap(double)(jnp.exp(b.sum(1))), rtol=1e-4)
        np.testing.assert_allclose(solved, jnp.linalg.solve(a, b[..., None])[..., 0], rtol=1e-2, atol=1e-3)


def test_effects_happen_once_a_step(capsys):
    def body(x):
        jax.debug.print("last {}", x.data[0, 2])
        return nx.sum(x, ("a", "c"))

    f = nx.xmap(body, ["a", "c"], [], axis_resources={"a": LOOP(2)})
    f(make.arange(6.0).reshape(2, 3)).block_until_ready()
    jax.effects_barrier()
    assert sorted(capsys.readouterr().out.split()) == ["2.0", "5.0", "last", "last"]


def test_effects_happen_once_a_step_also_where_the_axes_of_results_have_to_be_seen_first(capsys):
    def body(x):
        jax.debug.print("{}", x.data[0, 2])
        return nx.rename(x, {"c": "d"})

    jax.block_until_ready(
        nx.xmap(body, axis_resources={"a": LOOP(2)})(nx.named(make.arange(6.0).reshape(2, 3), ["a", "c"])).data
    )
    jax.effects_barrier()
    assert sorted(capsys.readouterr().out.split()) == ["2.0", "5.0"]


def test_the_second_opinion_ignores_time():
    f = nx.xmap(
        lambda x: nx.sum(x, "a"), ["a"], [], axis_resources={"a": ("x", LOOP(2))}, mesh=make_mesh((4,)), partitioning="auto"
    )
    np.testing.assert_allclose(f(jnp.arange(8.0)), 28)


def test_types_show_the_loop():
    seen = []
    f = nx.xmap(lambda x: (seen.append((repr(x), dict(x.named_shape))), x)[1], ["a"], ["a"], axis_resources={"a": ("x", LOOP(2))},
                mesh=make_mesh((4,)))  # fmt: skip
    f(make.zeros(8))
    assert seen[0] == ("NamedArray(f32[]{a:8@(x,SerialLoop(2) of 'a')})", {"a": 8}) or seen[0][1] == {"a": 8}


# --- loops by name --------------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_a_loop_in_the_place_of_a_mesh_axis():
    def f(x):
        return nx.sum(x**2, "a"), x * 2

    mapped = nx.xmap(f, ["a"], ([], ["a"]), axis_resources={"a": "l"})
    x = array(8)
    for steps in (2, 4):
        with serial_loop("l", steps):
            total, double = mapped(x)
            grad = jax.grad(lambda x: mapped(x)[0])(x)
        np.testing.assert_allclose(total, (x**2).sum(), rtol=1e-5)
        np.testing.assert_array_equal(double, 2 * x)
        np.testing.assert_allclose(grad, 2 * x, rtol=1e-6)
    with pytest.raises(nx.errors.MeshError, match="there is no mesh"):
        mapped(x)


def test_a_loop_is_part_of_the_key_of_a_compiled_program():
    mapped = nx.xmap(lambda x: nx.tanh(nx.dot(x, x, "k")), ["a", "k"], ["a"], axis_resources={"a": "l"})
    steps = jax.jit(mapped)
    x = jax.ShapeDtypeStruct((64, 4), jnp.float32)
    texts = []
    for n in (1, 4, 16):
        with serial_loop("l", n):
            texts.append(steps.lower(x).as_text())
    assert len(set(texts)) == 3


def test_two_names_on_one_loop_do_not_meet():
    with serial_loop("l", 2):
        f = nx.xmap(lambda x, y: (x * 2, y * 3), (["a"], ["b"]), (["a"], ["b"]), axis_resources={"a": "l", "b": "l"})
        have = f(make.arange(4.0), make.arange(6.0))
        np.testing.assert_array_equal(have[1], 3 * jnp.arange(6.0))
        with pytest.raises(PlacementConflictError, match="'a' and 'b' meet in one value"):
            nx.xmap(lambda x, y: x * y, (["a"], ["b"]), ["a", "b"], axis_resources={"a": "l", "b": "l"})(array(4), array(6))


# --- control flow that all steps take together ----------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{"a": LOOP(4)}, {"a": ("x", LOOP(2))}, {"a": "y", "b": ("x", LOOP(2))}], ids=str)
def test_reductions_in_every_iteration(resources):
    def body(x, w):
        def norm(c):
            return (c - nx.mean(c, "a")) * w

        def step(c, factor):
            return nx.tanh(norm(c)) * factor, nx.sum(c, "b")

        scanned, sums = nx.scan(step, x, jnp.arange(1.0, 4.0))
        grown = jax.lax.while_loop(lambda c: nx.sum(nx.abs(c), ("a", "b")) < 99.0, lambda c: 2 * c + nx.max(c, "a"), x)
        chosen = jax.lax.cond(nx.sum(w, "b") > 0, norm, lambda c: c * nx.sum(c, "a"), x)
        other = jax.lax.cond(nx.sum(w, "b") < 0, norm, lambda c: c * nx.sum(c, "b"), x)
        powers = nx.fori_loop(0, 3, lambda i, v: v / nx.sqrt(nx.sum(v**2, "a")) + x * i, x)
        return scanned, sums, grown, chosen, other, powers

    def oracle(x, w):
        def norm(c):
            return (c - c.mean(0)) * w

        scanned, sums = x, []
        for factor in (1.0, 2.0, 3.0):
            sums.append(scanned.sum(1))
            scanned = jnp.tanh(norm(scanned)) * factor
        grown, powers = x, x
        while jnp.abs(grown).sum() < 99:
            grown = 2 * grown + grown.max(0)
        for i in range(3):
            powers = powers / jnp.sqrt((powers**2).sum(0)) + x * i
        return scanned, jnp.stack(sums), grown, norm(x), x * x.sum(1, keepdims=True), powers

    x, w = array(8, 4), 1 + 0.1 * array(4)  # of which the sum is positive
    axes = (["a", "b"], [None, "a"], ["a", "b"], ["a", "b"], ["a", "b"], ["a", "b"])
    f = nx.xmap(body, (["a", "b"], ["b"]), axes, axis_resources=resources, mesh=make_mesh((2, 4)))
    for have, want in zip(f(x, w), oracle(x, w), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize(
    "resources", [{"m": ("x", LOOP(3))}, {"m": LOOP(2), "b": ("x", LOOP(4))}, {"e": ("x", LOOP(2))}], ids=str
)
def test_layers_whose_hidden_units_are_computed_in_steps(resources, remat):
    def loss(x, w, v):
        def layer(h, p):
            hidden = nx.tanh(nx.dot(h, p[0], "e"))
            return h + nx.dot(hidden, p[1], "m"), nx.sum(hidden**2, "m")

        h, penalty = nx.scan(jax.checkpoint(layer) if remat else layer, x, (w, v))
        return nx.mean(nx.sum(h**2 * nx.arange(4, axis="e"), "e") + nx.sum(penalty, 0), "b")

    def oracle(x, w, v):
        penalty = 0.0
        for i in range(3):
            hidden = jnp.tanh(x @ w[i])
            x, penalty = x + hidden @ v[i], penalty + (hidden**2).sum(1)
        return jnp.mean((x**2 * jnp.arange(4)).sum(1) + penalty)

    args, axes = (array(8, 4), 0.5 * array(3, 4, 6), 0.5 * array(3, 6, 4)), (["b", "e"], [None, "e", "m"], [None, "m", "e"])
    options, want = {"axis_resources": resources, "mesh": make_mesh((2, 4))}, jax.grad(oracle, argnums=(0, 1, 2))(*args)
    outside = jax.grad(nx.xmap(loss, axes, [], **options), argnums=(0, 1, 2))(*args)
    inside = nx.xmap(lambda *xs: jax.grad(loss, argnums=(0, 1, 2))(*xs), axes, axes, **options)(*args)
    for have, grad in zip((*outside, *inside), (*want, *want), strict=True):
        np.testing.assert_allclose(have, grad, rtol=1e-4, atol=1e-5)


# --- several names at once, some of them on mesh axes and some on loops -----------------------------------------------

SEVERAL = (
    {"a": "x", "b": LOOP(2)},
    {"a": ("x", LOOP(3)), "b": ("y", LOOP(2))},
    {"a": LOOP(2), "b": LOOP(4), "c": "x"},
)


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", SEVERAL, ids=str)
def test_partial_results_are_gathered_over_mesh_axes_and_loops_together(resources):
    def body(x):
        return (
            nx.prod(x, ("a", "b")),
            nx.prod(x, ("b", "a")),
            nx.numpy.linalg.norm(x, ord=1, axis=("a", "b")),
            nx.sum(nx.lax.all_gather(x, ("b", "a")) * jnp.arange(48.0), 0),
            nx.sum(nx.cumprod(nx.cumprod(x, "b"), "a") ** 2, ("a", "b")),
            nx.sum(nx.top_k(x, 3, axis="b", out_axis="q")[0], ("q", "a")),
            nx.real(nx.max(x * (1 + 2j), ("b", "a"))),
        )

    def oracle(x):
        columns = x.transpose(1, 0, 2).reshape(48, 4)
        return (
            x.prod((0, 1)),
            x.prod((0, 1)),
            jnp.linalg.norm(x, ord=1, axis=(0, 1)),
            (columns * jnp.arange(48.0)[:, None]).sum(0),
            (jnp.cumprod(jnp.cumprod(x, 1), 0) ** 2).sum((0, 1)),
            jax.lax.top_k(jnp.moveaxis(x, 1, 2), 3)[0].sum((0, 2)),
            x.max((0, 1)),
        )

    x, axes, options = 1 + 0.3 * array(6, 8, 4), ["a", "b", "c"], {"axis_resources": resources, "mesh": make_mesh((2, 2))}
    f = nx.xmap(body, axes, (["c"],) * 7, **options)
    values, pullback = jax.vjp(f, x)
    want, want_pullback = jax.vjp(oracle, x)
    cotangents = tuple(array(4) * (i + 1) for i in range(7))
    for have, value in zip((*values, *pullback(cotangents)), (*want, *want_pullback(cotangents)), strict=True):
        np.testing.assert_allclose(have, value, rtol=1e-3, atol=1e-4)
    places = nx.xmap(lambda x: (nx.argmax(x, ("b", "a")), nx.argmin(x, ("a", "b"))), axes, ["c"], **options)(x)
    np.testing.assert_array_equal(places[0], x.transpose(1, 0, 2).reshape(48, 4).argmax(0))
    np.testing.assert_array_equal(places[1], x.reshape(48, 4).argmin(0))


@pytest.mark.fast(0)
def test_results_that_are_arguments_where_an_explicit_mesh_is_set():
    x = array(8, 3)
    f = nx.xmap(lambda x: (x, nx.roll(x, 8, "a")), ["a", None], ["a", None], axis_resources={"a": LOOP(4)})
    with jax.set_mesh(jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)):
        for have in (*f(x), *jax.jit(f)(x), jax.grad(lambda x: jnp.sum(f(x)[1] * x))(x) / 2):
            np.testing.assert_array_equal(have, x)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("axes", [("l", "x"), ("y", "l", "x"), ("x", "l")], ids=str)
def test_the_loop_may_be_any_of_the_axes_of_a_collective(axes):
    def body(x):
        whole = jax.lax.all_gather(x, axes, axis=1, tiled=True)
        rows = jax.lax.all_gather(x, axes, axis=1)
        return whole, rows, jax.lax.psum_scatter(whole * x[0, 0], axes, scatter_dimension=1, tiled=True)

    x, spec = array(2, 24, 3), jax.P("y", ("x", "l"))
    mesh, devices = make_mesh((2, 2)), jax.make_mesh((2, 2, 2), ("x", "y", "l"), axis_types=(jax.sharding.AxisType.Auto,) * 3)
    want = jax.shard_map(body, mesh=devices, in_specs=spec, out_specs=spec)(x)
    have = run_in_steps(body, (x,), (spec,), spec, {"l": 2}, mesh, frozenset("xy"), functools.partial(jax.shard_map, mesh=mesh))
    for one, other in zip(have, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


# --- errors ---------------------------------------------------------------------------------------------------------


def mapped(f, resources=None, **options):
    return nx.xmap(f, ["a", None], ["a", None], axis_resources=resources or {"a": LOOP(4)}, **options)(array(8, 3))


MOVES = "^{}: the operation moves elements along the axis 'a' of size 8, which SerialLoop.4. of 'a' executes in 4 steps.*Rename the axis"
AXIS = "SerialLoop(4) of 'a'"

ERRORS = {
    "keep": (lambda: LOOP(2, keep="all"), SerialLoopError, r"SerialLoop: keep must be 'parts' or 'whole', got 'all'\."),
    "steps": (lambda: LOOP(0), SerialLoopError, r"SerialLoop: steps must be a positive integer, got 0\."),
    "order": (
        lambda: mapped(lambda x: x, {"a": (LOOP(2), "x")}, mesh=make_mesh((4,))),
        SerialLoopError,
        r"axis_resources maps 'a' to .*must come last, at most once\. Put the mesh axes first",
    ),
    "size": (
        lambda: mapped(lambda x: nx.split_axis(nx.named(jnp.arange(8.0), ["c"]), "c", {"b": 8, "d": 1}), {"b": LOOP(3)}),
        AxisSizeError,
        r"axis 'b' of size 8 does not divide over mesh axes \(.SerialLoop\(3\) of 'b'.,\), 3 blocks in total\. Use a size that is a multiple of 3, "
        "or map 'b' to fewer devices or steps in axis_resources",
    ),
    "roll": (
        lambda: mapped(lambda x: nx.roll(x, 1, "a")),
        SerialLoopError,
        r"^nx\.roll: the operation moves elements along the axis 'a' of size 8, which SerialLoop\(4\) of 'a' executes in 4 "
        r"steps; a step cannot access the data of other steps \(here, blocks of float32\[1, 3\]\)\. Rename the axis to a "
        r"name without a loop first, which gathers it, and rename the result back; or remove the SerialLoop from "
        r"axis_resources, or execute another axis in steps\.",
    ),
    "numpy": (lambda: mapped(lambda x: nx.numpy.flip(x, "a")), SerialLoopError, MOVES.format(r"nx\.flip")),
    "sort": (lambda: mapped(lambda x: nx.sort(x, "a")), SerialLoopError, MOVES.format(r"nx\.sort")),
    "quantile": (lambda: mapped(lambda x: x * nx.quantile(x, 0.3, "a")), SerialLoopError, MOVES.format(r"nx\.quantile")),
    "median": (lambda: mapped(lambda x: x * nx.median(x, "a")), SerialLoopError, MOVES.format(r"nx\.median")),
    "index": (lambda: mapped(lambda x: x["a", ::-1]), SerialLoopError, MOVES.format(r"x\[\.\.\.\]")),
    "conv": (
        lambda: mapped(lambda x: nx.conv(x, nx.named(array(3), [None]), ("a",))),
        SerialLoopError,
        MOVES.format(r"nx\.conv"),
    ),
    "attention": (
        lambda: mapped(lambda x: nx.nn.dot_product_attention(*[nx.named(x, ["d"])] * 3, axis="a", features="d")),
        SerialLoopError,
        MOVES.format(r"nx\.nn\.dot_product_attention"),
    ),
    "ppermute": (
        lambda: mapped(
            lambda x: nx.lax.ppermute(x, "a", [(i, (i + 3) % 8) for i in range(8)]), {"a": ("x", LOOP(2))}, mesh=make_mesh((2,))
        ),
        SerialLoopError,
        r"^nx\.lax\.ppermute: the operation moves elements along the axis 'a' of size 8, which SerialLoop\(2\) of 'a' executes in 2 steps",
    ),
    "inside": (
        lambda: mapped(lambda x: nx.scan(jax.checkpoint(lambda c, _: (nx.shift(c, 1, "a"), None)), x, jnp.arange(2))[0]),
        SerialLoopError,
        MOVES.format(r"nx\.shift"),
    ),
    "gradient": (
        lambda: mapped(jax.grad(lambda x: nx.sum(nx.cumsum(nx.roll(x, 1, "a"), "a"), ("a", 0)))),
        SerialLoopError,
        MOVES.format(r"nx\.roll"),
    ),
    "deliberate": (
        lambda: mapped(
            lambda x: x * nx.nmap(lambda y: jax.lax.ppermute(y, AXIS, [(0, 1), (1, 0)]), collectives=True)(jnp.arange(3.0))
        ),
        SerialLoopError,
        r"^jax\.lax\.ppermute: the operation moves elements along the axis of SerialLoop\(4\) of 'a', which is executed in 4 steps",
    ),
    "predicate": (
        lambda: mapped(
            lambda x: jax.lax.cond(nx.nmap(lambda v: v[0, 0] > 0)(x.data), lambda x: x - nx.mean(x, "a"), lambda x: x, x)
        ),
        SerialLoopError,
        r"the predicate of a branch differs from step to step of SerialLoop\(4\) of 'a'.*reduce the condition over the axis first",
    ),
    "condition": (
        lambda: mapped(
            lambda x: jax.lax.while_loop(
                lambda c: nx.nmap(lambda v: v[0, 0] < 9)(c.data), lambda c: c + nx.sum(x, "a") ** 2 + 1, x
            )
        ),
        SerialLoopError,
        r"the condition of a while loop differs from step to step of SerialLoop\(4\) of 'a'",
    ),
    "kernel": (
        lambda: mapped(
            nx.nmap(
                lambda x: jax.experimental.pallas.pallas_call(lambda i, o: None, out_shape=jax.typeof(x), interpret=True)(x)
            )
        ),
        SerialLoopError,
        r"pallas_call contains its own program, which cannot be executed in steps of SerialLoop\(4\) of 'a'\. Call it outside",
    ),
    "unused": (
        lambda: mapped(lambda x: x, {"a": LOOP(4), "z": LOOP(2)}),
        AxisResourceError,
        "axis_resources maps 'z'.*no value in .* has an axis 'z'",
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS.values(), ids=ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_loops_within_loops_of_one_name():
    with serial_loop("l", 2):
        with pytest.raises(SerialLoopError, match="a surrounding loop has the name 'l' already"):
            with serial_loop("l", 3):
                pass
    with pytest.raises(SerialLoopError, match="the name of a loop must be a string, got"):
        with serial_loop(3, 3):
            pass


def test_placing_knows_no_time():
    mesh = make_mesh((4,))
    x = nx.shard(nx.named(array(8), ["a"]), {"a": ("x", LOOP(2))}, mesh)
    assert x.sharding.spec == jax.P("x")
    assert pickle.loads(pickle.dumps(LOOP(3))) == LOOP(3)
    assert repr(LOOP(3)) == "SerialLoop(3)"
    assert repr(LOOP(3, keep="whole")) == "SerialLoop(3, keep='whole')" != repr(LOOP(3, keep="parts"))


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("resources", [{"b": nx.SerialLoop(2)}, {"b": ("x", nx.SerialLoop(2))}], ids=str)
@pytest.mark.parametrize("differentiate", [lambda f: lambda x: jax.jvp(f, (x,), (x,)), jax.jacfwd, jax.hessian])
def test_forward_mode_is_refused_in_words(resources, differentiate):
    def cubes(x):
        return nx.sum(x**3, "b")

    f = nx.xmap(cubes, ["b"], [], axis_resources=resources, mesh=make_mesh((4, 2)))
    x = make.arange(8.0)
    with pytest.raises(nx.errors.SerialLoopError) as error:
        differentiate(f)(x)
    assert said(error.value) == (
        "xmap: cubes maps 'b' to a SerialLoop, which supports reverse-mode differentiation only, any number of times: "
        "jax.grad, jax.vjp, jax.jacrev. For jax.jvp, jax.jacfwd, jax.linearize and jax.hessian remove the SerialLoop from "
        "axis_resources; jax.jacrev(jax.jacrev(f)) also computes a Hessian."
    )
    np.testing.assert_allclose(jax.jacrev(jax.jacrev(f))(x), np.diag(6 * np.arange(8.0)))


@pytest.mark.fast(0)
@pytest.mark.parametrize("sharded", [False, True])
def test_steps_under_an_explicit_mesh_whose_axes_nobody_maps(sharded):
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = make.arange(128.0).reshape(2, 64)
    here = jax.device_put(x, jax.NamedSharding(mesh, jax.P(None, "x"))) if sharded else x
    f = nx.xmap(
        lambda x: (nx.sin(x), nx.sum(x, "b")), (["b", "c"],), (["c", "b"], ["c"]), axis_resources={"b": LOOP(2)}, mesh=mesh
    )
    with jax.set_mesh(mesh):
        sines, sums = f(here)
    np.testing.assert_allclose(sines, np.sin(x).T, rtol=1e-5)
    np.testing.assert_allclose(sums, x.sum(0))


# What is done to a sum of integers in each iteration of a scan, and is not linear.
ROUNDED = {
    "halved": (jnp.int32, lambda s: lax.div(s, jnp.int32(2))),
    "a truth value": (jnp.int32, lambda s: s.astype(bool).astype(jnp.int32)),
    "widened when it has wrapped around": (jnp.int8, lambda s: s.astype(jnp.int32)),
    "narrowed, which is linear": (jnp.int32, lambda s: (1000 * s).astype(jnp.int8).astype(jnp.int32)),
}


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", ROUNDED)
def test_sums_of_integers_in_a_scan_are_taken_before_what_is_not_linear(case):
    dtype, then = ROUNDED[case]
    x = np.random.default_rng(1).integers(0, 99, (3, 8)).astype(dtype)

    def collect(x):
        return nx.scan(lambda c, row: (c + nx.nmap(then)(nx.lax.psum(row, "b")), None), jnp.zeros((), jnp.int32), x)[0]

    want = sum(int(then(jnp.asarray(row.sum(dtype=dtype)))) for row in x)
    for resource in (LOOP(4), LOOP(2), ("x", LOOP(2))):
        f = nx.xmap(collect, [None, "b"], [], axis_resources={"b": resource}, mesh=make_mesh((4, 2)))
        assert int(f(jnp.asarray(x))) == want


@pytest.mark.fast(0)
def test_the_gradient_of_a_rematerialised_scan():
    """What such a scan computes first is called by a primitive that has another name in each version of JAX."""

    def layer(h, m):
        return nx.rename(nx.tanh(nx.dot(h, m, "k")), {"m": "k"}), None

    def loss(ws, x):
        last = jax.checkpoint(lambda ws, x: nx.scan(layer, x, ws)[0])(ws, x)
        return nx.mean(nx.sum(last**2, "k"), "b")

    def plain(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
        return jnp.mean(jnp.sum(x**2, 1))

    ws, x = array(3, 4, 4), array(8, 4)
    for resource in (LOOP(4), ("x", LOOP(2))):
        f = nx.xmap(loss, ([None, "k", "m"], ["b", "k"]), [], axis_resources={"b": resource}, mesh=make_mesh((4, 2)))
        np.testing.assert_allclose(jax.jit(jax.grad(f))(ws, x), jax.jit(jax.grad(plain))(ws, x), rtol=1e-4, atol=1e-6)


# --- what is executed is written, not traced --------------------------------------------------------------------------------


def layers(w, x):
    """Layers in a scan, of which the gradients are sums over the steps, a branch and a while loop."""
    start = (x * 0.5, nx.sum(x, "batch") * 0)
    y, _ = nx.scan(lambda c, v: ((nx.tanh(c[0] * v), c[1] + nx.sum(c[0] * v, "batch")), None), start, w)
    y = nx.where(y[0] > 0, y[0], 2 * y[0]) + y[1]
    y = nx.nmap(lambda v: lax.cond(v > 0.1, jnp.sin, jnp.cos, v))(y)
    y = y + nx.nmap(
        lambda v: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 1.5), (0, lax.stop_gradient(v)))[1]
    )(y)
    y = y - nx.max(y, "batch") + nx.take(y, nx.argmax(y, "k"), "k")
    return nx.mean(nx.std(y, "batch") + nx.mean(y, "batch"), "k").astype(jnp.bfloat16)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", [None, "auto", "explicit"])
def test_the_program_that_is_executed_in_steps_has_types_that_are_right(kind):
    w, x = array(3, 4, seed=2), array(8, 4)
    options = {} if kind is None else {"mesh": make_mesh((2, 2), kind)}
    resources = {"batch": LOOP(4)} if kind is None else {"batch": ("x", LOOP(2)), "k": "y"}
    f = nx.xmap(layers, ([None, "k"], ["batch", "k"]), [], axis_resources=resources, **options)
    for function in (f, jax.grad(lambda *args: f(*args).astype(jnp.float32), (0, 1))):
        jax.extend.core.check_jaxpr(jax.make_jaxpr(function)(w, x).jaxpr)
    plain = nx.xmap(layers, ([None, "k"], ["batch", "k"]), [])
    np.testing.assert_allclose(np.float32(f(w, x)), np.float32(plain(w, x)), rtol=1e-2)


def test_what_equations_say_to_the_compiler_is_kept_in_steps():
    def body(x):
        with jax.experimental.xla_metadata.set_xla_metadata(colour="green"):
            y = nx.exp(x)
        return nx.sum(y, "batch")

    f = nx.xmap(body, ["batch"], [], axis_resources={"batch": LOOP(4)})
    assert "colour" in f.lower(jnp.arange(8.0)).as_text()
    np.testing.assert_allclose(f(jnp.arange(8.0)), jnp.exp(jnp.arange(8.0)).sum(), rtol=1e-6)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_an_equation_of_a_body_is_not_bound_again_in_steps():
    """Functions called for an operation more: what tracing it costs, and a fifth of that where it is executed in steps."""

    def entered(count, steps):
        def body(x):
            for i in range(count):
                x = nx.sin(x) if i % 2 else nx.tanh(x)
            return nx.sum(x, "batch")

        f = nx.xmap(body, ["batch"], [], axis_resources={"batch": LOOP(4)} if steps else {})
        profile = cProfile.Profile()
        jax.clear_caches()
        profile.runcall(f.trace, jnp.arange(8.0))
        return sum(entry.callcount for entry in profile.getstats())

    entered(4, True)
    in_steps, at_once = ((entered(100, steps) - entered(50, steps)) / 50 for steps in (True, False))
    assert in_steps < at_once + 150, (in_steps, at_once)
