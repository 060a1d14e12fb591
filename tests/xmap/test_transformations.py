"""JAX's transformations of mapped functions and of functions in mapped bodies, singly and stacked, under every kind of placement.

The oracle is the same transformation of the program that `jnp` computes on positional arrays.
"""

import functools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import io_callback
from jax.experimental.ode import odeint
from jax.scipy.sparse.linalg import cg
from jax.test_util import check_grads

import namedax as nx
from namedax import hlo
from namedax.errors import AxisNameError, MeshError
from tests import make
from tests.harness import FEW, array, check, make_mesh

NAMES = ["a", "b"]
X, V = (make.array(np.asarray(array(8, 4, seed=seed)) / 2) for seed in (0, 1))
SHARDED = {"axis_resources": {"a": "x"}, "mesh": make_mesh((4, 2))}


def close(have, want, tol=1e-4):
    assert jax.tree.structure(have) == jax.tree.structure(want)
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=tol, atol=tol), have, want)


# --- the programs: of x{a,b}, by name and by position; the names of the result ----------------------------------------------


def reductions(x):
    return nx.var(x, "a") * nx.max(x, "a") + nx.logsumexp(x * x, "a", where=x > -0.5) + nx.mean(nx.std(x, "b"), "a")


def plain_reductions(x):
    return jnp.var(x, 0) * jnp.max(x, 0) + jax.nn.logsumexp(x * x, 0, where=x > -0.5) + jnp.mean(jnp.std(x, 1))


def attention(x):  # the keys are read under a name that is not sharded: one gather
    keys = nx.tanh(nx.rename(x, {"a": "key"}))
    weights = nx.nn.softmax(nx.dot(x, keys, "b"), "key")
    return nx.einsum("{a,key},{key,b}->{a,b}", weights, keys)


def plain_attention(x):
    keys = jnp.tanh(x)
    return jax.nn.softmax(x @ keys.T) @ keys


def recurrence(x):
    carry, rows = nx.scan(lambda c, row: (nx.sin(c * row + nx.mean(row, "a")), c * 2), 0.3, x, axis="b")
    return nx.nn.log_softmax(carry, "a") + nx.sum(rows, "b")


def plain_recurrence(x):
    carry, rows = jax.lax.scan(lambda c, row: (jnp.sin(c * row + jnp.mean(row)), c * 2), jnp.full(8, 0.3), x.T)
    return jax.nn.log_softmax(carry) + rows.sum(0)


PROGRAMS = {
    "reductions": (reductions, plain_reductions, ["b"]),
    "attention": (attention, plain_attention, ["a", "b"]),
    "recurrence": (recurrence, plain_recurrence, ["a"]),
}
DOTS = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
CASES = [(program, p) for program in PROGRAMS for p in FEW if p.label != "blocks" or program == "attention"]


def scalar(f):
    return lambda x: jnp.sum(jnp.sin(f(x)) * jnp.arange(1, 1 + f(x).size).reshape(f(x).shape))


# Each takes a function of one array, and an array and a tangent of its shape.
OUTSIDE = {
    "value_and_grad": lambda f, x, v: jax.value_and_grad(scalar(f))(x),
    "vjp": lambda f, x, v: (lambda out, pull: pull(jnp.cos(out)))(*jax.vjp(f, x)),
    "jvp": lambda f, x, v: jax.jvp(f, (x,), (v,)),
    "linearize": lambda f, x, v: [jax.linearize(f, x)[1](v)],
    "grad of checkpoint": lambda f, x, v: jax.grad(scalar(jax.checkpoint(f, policy=DOTS)))(x),
    "vmap": lambda f, x, v: jax.vmap(f, in_axes=2, out_axes=1)(jnp.stack([x, v], 2)),
    "vmap of grad": lambda f, x, v: jax.vmap(jax.grad(scalar(f)))(jnp.stack([x, v])),
    "grad of vmap": lambda f, x, v: jax.grad(lambda xs: jnp.sum(jax.vmap(f)(xs) ** 2))(jnp.stack([x, v])),
    "hessian-vector product": lambda f, x, v: jax.jvp(jax.grad(scalar(f)), (x,), (v,)),
    "grad of jvp": lambda f, x, v: jax.grad(lambda x: jax.jvp(scalar(f), (x,), (v,))[1])(x),
    "grad of grad": lambda f, x, v: jax.grad(lambda x: jnp.vdot(jax.grad(scalar(f))(x), v))(x),
    "scan of grad": lambda f, x, v: jax.lax.scan(lambda x, _: (x - 0.1 * jax.grad(scalar(f))(x), None), x, None, length=2)[0],
}


COMMON = ("value_and_grad", "grad", "vmap", "hessian-vector product")


def some(table, program):
    """What all programs undergo, and a third of the rest."""
    rest = [label for label in table if label not in COMMON]
    return [label for label in table if label in COMMON] + rest[list(PROGRAMS).index(program) :: 3]


def outside(f, program):
    return jax.jit(lambda x, v: {label: OUTSIDE[label](f, x, v) for label in some(OUTSIDE, program)})


@functools.cache
def wanted(program):
    return outside(PROGRAMS[program][1], program)(X, V)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("program", "placement"), CASES, ids=str)
def test_outside(program, placement):
    named, _, out_axes = PROGRAMS[program]
    f = nx.xmap(named, NAMES, out_axes, **placement.options)
    with placement.context():
        have = outside(f, program)(X, V)
    close(have, wanted(program))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_jacobians_and_hessian(placement):
    @functools.partial(jax.jit, static_argnums=0)
    def all_of(f, x):
        return jax.jacfwd(f)(x), jax.jacrev(f)(x), jax.hessian(scalar(f))(x)

    options = {**placement.options, "axis_sizes": {"b": 4} if "b" in dict(placement.resources) else None}
    f = nx.xmap(lambda x: nx.tanh(x) * nx.nn.softmax(x, "a"), ["a"], ["a"], **options)
    with placement.context():
        have = all_of(f, X[:, 0])
    close(have, all_of(lambda x: jnp.tanh(x) * jax.nn.softmax(x), X[:, 0]))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_not_compiled(placement):
    """One transformation after the other, each dispatched by itself."""
    f = nx.xmap(lambda x: nx.nn.softmax(nx.tanh(x), "a"), NAMES, NAMES, **placement.options)

    def plain(x):
        return jax.nn.softmax(jnp.tanh(x), 0)

    with placement.context():
        have = [jax.grad(scalar(f))(X), jax.jvp(f, (X,), (V,)), jax.vjp(f, X)[1](V), jax.linearize(f, X)[1](V)]
        shapes = jax.eval_shape(f, X), jax.eval_shape(jax.grad(scalar(f)), X)
        jaxpr = jax.make_jaxpr(jax.grad(scalar(f)))(X)
    want = [
        jax.jit(jax.grad(scalar(plain)))(X),
        jax.jvp(plain, (X,), (V,)),
        jax.vjp(plain, X)[1](V),
        jax.linearize(plain, X)[1](V),
    ]
    close(have, want)
    assert [(s.shape, s.dtype) for s in shapes] == [(X.shape, X.dtype)] * 2
    assert [v.aval.shape for v in (*jaxpr.jaxpr.invars, *jaxpr.jaxpr.outvars)] == [X.shape] * 2


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("program", "placement"), list(zip(["attention", "recurrence"] * 3, FEW, strict=False)), ids=str)
def test_check_grads(program, placement):
    """To second order, in both modes, against finite differences of the mapped function itself."""
    named, _, out_axes = PROGRAMS[program]
    f = nx.xmap(named, NAMES, out_axes, **placement.options)
    with placement.context():
        check_grads(f, (X,), order=2, eps=1e-2, rtol=0.05, atol=0.05)


# --- inside of the body ---------------------------------------------------------------------------------------------


def by_name(f, names):
    """The scalar of `scalar`, in a body."""

    shape = [{"a": 8, "b": 4}[name] for name in names]
    weights = jnp.arange(1.0, 1 + np.prod(shape)).reshape(shape)

    def total(x):
        return nx.sum(nx.sin(f(x)) * nx.named(weights, names), tuple(names))

    return total


# Each takes the function, its scalar, an array and a tangent; what comes back has the axes of x, or of the result, or none.
INSIDE = {
    "grad": (lambda f, g, x, v: jax.grad(g)(x), NAMES),
    "value": (lambda f, g, x, v: jax.value_and_grad(g)(x)[0], []),
    "vjp": (lambda f, g, x, v: jax.vjp(f, x)[1](nx.cos(f(x)))[0], NAMES),
    "jvp": (lambda f, g, x, v: jax.jvp(f, (x,), (v,))[1], None),
    "linearize": (lambda f, g, x, v: jax.linearize(f, x)[1](v), None),
    "grad of checkpoint": (lambda f, g, x, v: jax.grad(jax.checkpoint(g, policy=DOTS))(x), NAMES),
    "jit of grad": (lambda f, g, x, v: jax.jit(jax.grad(jax.jit(g)))(x), NAMES),
    "hessian-vector product": (lambda f, g, x, v: jax.jvp(jax.grad(g), (x,), (v,))[1], NAMES),
    "grad of jvp": (lambda f, g, x, v: jax.grad(lambda x: jax.jvp(g, (x,), (v,))[1])(x), NAMES),
    "grad of grad": (lambda f, g, x, v: jax.grad(lambda x: nx.sum(jax.grad(g)(x) * v, NAMES))(x), NAMES),
    "scan of grad": (
        lambda f, g, x, v: jax.lax.scan(lambda x, _: (x - 0.1 * jax.grad(g)(x), None), x, None, length=2)[0],
        NAMES,
    ),
}
PLAIN_INSIDE = {
    "grad": lambda f, g, x, v: jax.grad(g)(x),
    "value": lambda f, g, x, v: g(x),
    "vjp": lambda f, g, x, v: jax.vjp(f, x)[1](jnp.cos(f(x)))[0],
    "jvp": lambda f, g, x, v: jax.jvp(f, (x,), (v,))[1],
    "linearize": lambda f, g, x, v: jax.jvp(f, (x,), (v,))[1],
    "grad of checkpoint": lambda f, g, x, v: jax.grad(g)(x),
    "jit of grad": lambda f, g, x, v: jax.grad(g)(x),
    "hessian-vector product": lambda f, g, x, v: jax.jvp(jax.grad(g), (x,), (v,))[1],
    "grad of jvp": lambda f, g, x, v: jax.jvp(jax.grad(g), (x,), (v,))[1],
    "grad of grad": lambda f, g, x, v: jax.jvp(jax.grad(g), (x,), (v,))[1],
    "scan of grad": lambda f, g, x, v: (lambda y: y - 0.1 * jax.grad(g)(y))(x - 0.1 * jax.grad(g)(x)),
}


@functools.cache
def wanted_inside(program):
    f, g = PROGRAMS[program][1], scalar(PROGRAMS[program][1])
    return jax.jit(lambda x, v: {label: PLAIN_INSIDE[label](f, g, x, v) for label in some(INSIDE, program)})(X, V)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("program", "placement"), CASES, ids=str)
def test_inside(program, placement):
    named, _, names = PROGRAMS[program]

    def body(x, v):
        return {label: INSIDE[label][0](named, by_name(named, names), x, v) for label in some(INSIDE, program)}

    out_axes = {label: names if INSIDE[label][1] is None else INSIDE[label][1] for label in some(INSIDE, program)}
    with placement.context():
        have = nx.xmap(body, NAMES, out_axes, **placement.options)(X, V)
    close(have, wanted_inside(program))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_transformed_inside_and_outside(placement):
    """A gradient outside of a body that takes steps along its own gradient."""

    def inner(x, w):
        return nx.sum(nx.logsumexp(x * w, "a"), "b")

    def body(x, w):
        w = w - 0.1 * jax.grad(inner, argnums=1)(x, w)
        return inner(x, w)

    def plain(x, w):
        def inner(w):
            return jnp.sum(jax.nn.logsumexp(x * w[None], 0))

        return inner(w - 0.1 * jax.grad(inner)(w))

    check(body, plain, (X, V[0]), (NAMES, ["b"]), [], placement)
    f = nx.xmap(body, (NAMES, ["b"]), [], **placement.options)
    with placement.context():
        have = jax.jit(jax.vmap(jax.grad(f), in_axes=(None, 0)))(X, V)
    close(have, jax.vmap(jax.grad(plain), in_axes=(None, 0))(X, V))


# --- named arrays as arguments of `jax.vmap`, and of `nx.vmap` --------------------------------------------------------


def test_vmap_over_positions_in_front():
    """JAX counts the dimensions of the data; all that stand in front of the first name are positions."""
    data = array(2, 5, 3)
    x = nx.named(data, [None, None, "k"])
    for i in (0, 1):
        have = jax.vmap(lambda row: nx.cumsum(row, "k") + row.shape[0], in_axes=i)(x)
        assert have.dims == (None, None, "k")
        np.testing.assert_allclose(have.data, jnp.cumsum(jnp.moveaxis(data, i, 0), 2) + data.shape[1 - i], rtol=1e-5)


@pytest.mark.parametrize("i", [1, -1])
def test_vmap_over_a_positional_axis_behind_a_named_axis(i):
    data = array(3, 5)
    x = nx.named(data, ["k", None])
    with pytest.raises(
        nx.errors.PositionalAxisError, match=r"A raw JAX transform .* has removed a named axis, or one behind a named axis"
    ):
        jax.vmap(lambda row: nx.sum(row, "k"), in_axes=i)(x)
    np.testing.assert_allclose(nx.vmap(lambda row: nx.sum(row, "k"), 0)(x), data.sum(0), rtol=1e-5)
    moved = nx.order_like(x, nx.named(data.T, [None, "k"]))
    np.testing.assert_allclose(jax.vmap(lambda row: nx.sum(row, "k"))(moved), data.sum(0), rtol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_gradients_of_single_examples(placement):
    """`nx.vmap` hides the batch from `jax.grad`, so that every example has a gradient of its own; sharded, nothing is sent."""

    def loss(w, row):
        return nx.logsumexp(nx.sin(w * row) * row, "c")

    def body(w, x):
        gradients = nx.vmap(jax.grad(loss, argnums=0), (None, "a"))(w, x)
        norms = nx.sqrt(nx.sum(gradients**2, "c"))
        return nx.mean(gradients / nx.maximum(norms, 1.0), "a"), gradients

    def plain(w, x):
        gradients = jax.vmap(jax.grad(lambda w, row: jax.nn.logsumexp(jnp.sin(w * row) * row)), (None, 0))(w, x)
        return jnp.mean(gradients / jnp.maximum(jnp.linalg.norm(gradients, axis=1, keepdims=True), 1), 0), gradients

    options = {"axis_sizes": {"b": 4}} if "b" in dict(placement.resources) else {}
    args = array(3), 2 * array(8, 3)
    check(body, plain, args, (["c"], ["a", "c"]), (["c"], ["a", "c"]), placement, **options)


def test_gradients_of_single_examples_send_nothing():
    f = nx.xmap(
        lambda w, x: nx.vmap(jax.grad(lambda w, row: nx.sum(nx.tanh(w * row), "c")), (None, "a"))(w, x),
        (["c"], ["a", "c"]),
        ["a", "c"],
        **SHARDED,
    )
    assert hlo.summary(f.lower(array(3), array(8, 3)).compile()) == {}


# --- implicit differentiation ---------------------------------------------------------------------------------------


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_custom_linear_solve(placement):
    """A system whose unknowns are sharded, solved by iteration; its gradient solves the transposed system."""

    def body(scale, b):
        def matvec(v):
            return (2 + scale * scale) * v + 0.05 * nx.sum(scale * v, "a")  # not symmetric, and couples all entries

        def transposed(v):
            return (2 + scale * scale) * v + 0.05 * scale * nx.sum(v, "a")

        def richardson(matvec, b):
            return nx.fori_loop(0, 60, lambda _, v: v + (b - matvec(v)) / 4, b * 0)

        return jax.lax.custom_linear_solve(
            matvec, b, richardson, transpose_solve=lambda _, b: richardson(transposed, b), symmetric=False
        )

    def plain(scale, b):
        return jnp.linalg.solve(jnp.diag(2 + scale * scale) + 0.05 * scale, b)

    options = {"axis_sizes": {"b": 4}} if "b" in dict(placement.resources) else {}
    check(body, plain, (jnp.tanh(array(8)), array(8, seed=1)), (["a"], ["a"]), ["a"], placement, tol=1e-4, **options)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_cg_and_odeint_around_a_mapped_function():
    """Solvers that know no names see arrays, and a mapped function for what is theirs to call."""
    matrix, b = array(8, 8) / 4, array(8, seed=1)

    def product(m, v):
        return 4 * v + nx.dot(m, nx.dot(m, v, "a"), "row")

    f = nx.xmap(product, (["row", "a"], ["a"]), ["a"], **SHARDED)

    def solution(matrix, b):
        return cg(lambda v: f(matrix, v), b, tol=1e-7, maxiter=50)[0]

    def plain(matrix, b):
        return jnp.linalg.solve(4 * jnp.eye(8) + matrix.T @ matrix, b)

    close(solution(matrix, b), plain(matrix, b))
    have = jax.grad(lambda m, b: jnp.sum(jnp.sin(solution(m, b))), argnums=(0, 1))(matrix, b)
    close(have, jax.jit(jax.grad(lambda m, b: jnp.sum(jnp.sin(plain(m, b))), argnums=(0, 1)))(matrix, b), 1e-3)

    rates = nx.xmap(lambda y, t: -y * nx.sum(y, "a") * (1 + t), (["a"], []), ["a"], **SHARDED)
    y0, times = make.arange(1.0, 9.0) / 36, jnp.linspace(0.0, 0.5, 3)

    def end(y0):
        return odeint(rates, y0, times)[-1]

    def exact(y0):  # the sum s obeys s' = -s**2 (1 + t)
        t = times[-1]
        return y0 / (1 + y0.sum() * (t + t * t / 2))

    close(end(y0), exact(y0))
    close(jax.grad(lambda y: jnp.sum(end(y) ** 2))(y0), jax.jit(jax.grad(lambda y: jnp.sum(exact(y) ** 2)))(y0), 1e-3)


# --- functions of positional arrays with rules of their own -----------------------------------------------------------


@jax.custom_vjp
def clipped(x):
    return jnp.cumsum(x)


clipped.defvjp(lambda x: (jnp.cumsum(x), None), lambda _, g: (jnp.clip(g, -0.3, 0.3),))


@jax.custom_jvp
def softened(x):
    return jnp.abs(x)


softened.defjvp(lambda primals, tangents: (softened(*primals), jnp.tanh(primals[0]) * tangents[0]))


@jax.custom_batching.custom_vmap
def doubled_in_batches(x):
    return jnp.sin(x)


@doubled_in_batches.def_vmap
def _(size, batched, x):
    return 2 * jnp.sin(x), batched[0]


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_rules_of_lifted_functions(placement):
    mapping, x = ["a", "b", None], array(8, 4, 3)
    for function in (clipped, softened):
        check(nx.nmap(function), jax.vmap(jax.vmap(function)), [x], mapping, mapping, placement)
    oracle = jax.vmap(jax.vmap(doubled_in_batches))
    check(nx.nmap(doubled_in_batches), oracle, [x], mapping, mapping, placement, grad=False)


# --- callbacks ------------------------------------------------------------------------------------------------------

WHOLE = [p for p in FEW if p.label != "blocks"]  # JAX has no callbacks where a mesh axis is left to the compiler


@pytest.mark.parametrize("placement", WHOLE, ids=str)
def test_callbacks(placement, capfd):
    """A callback runs on every device; what has no sharded name is the same on all."""
    seen, stored = [], []

    def store(value):
        stored.append(float(value))
        return np.float32(2 * value)

    def body(x):
        total = nx.sum(x, NAMES)
        jax.debug.callback(lambda value: seen.append(float(value)), total)
        jax.debug.print("the sum is {}", total)
        return x * io_callback(store, jax.ShapeDtypeStruct((), jnp.float32), total)

    with placement.context():
        have = nx.xmap(body, NAMES, NAMES, **placement.options)(X)
    jax.effects_barrier()
    total = float(X.sum())
    np.testing.assert_allclose(have, X * 2 * total, rtol=1e-4)
    devices = 1 if placement.shape is None else 8
    for values in (seen, stored):
        np.testing.assert_allclose(values, [total] * devices, rtol=1e-4)
    assert capfd.readouterr().out.count("the sum is") == devices


# --- jax.export -----------------------------------------------------------------------------------------------------


def exported(f, *args, **options):
    return export.deserialize(export.export(f)(*args).serialize(**options))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_export(kind):
    """Written and read again, the program runs on any mesh of as many devices."""
    mesh = make_mesh((4, 2), kind)
    f = nx.xmap(attention, NAMES, NAMES, axis_resources={"a": "x", "b": "y"}, mesh=mesh)
    x = jax.device_put(X, jax.sharding.NamedSharding(mesh, jax.P("x")))
    read = exported(f, x, vjp_order=2)
    assert read.nr_devices == 8
    close(read.call(x), plain_attention(X))
    close(read.vjp().call(x, jax.device_put(V, x.sharding))[0], jax.vjp(plain_attention, X)[1](V)[0])
    with jax.set_mesh(mesh):
        gradient = jax.grad(lambda x: jnp.sum(jnp.sin(read.call(x))))(x)
    close(gradient, jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(plain_attention(x)))))(X))


EXPORTED = {
    "another order of mesh axes": {"axis_resources": {"a": ("y", "x")}},
    "uneven": {"axis_resources": {"a": "x", "b": "y"}},
    "loop": {"axis_resources": {"a": ("x", nx.SerialLoop(2)), "b": "y"}},
    "auto": {"axis_resources": {"a": "x", "b": "y"}, "partitioning": "auto"},
}


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("another order of mesh axes", "auto"),
        ("loop", "explicit"),
        *(pytest.param(case, kind, marks=pytest.mark.fast(0)) for case in EXPORTED for kind in ("auto", "explicit")),
    ],
)
def test_exported_to_a_file_and_loaded(case, kind, tmp_path):
    """The loaded program runs without the function on a mesh with axes of these sizes, whatever they are called."""
    mesh, options = make_mesh((4, 2), kind), EXPORTED[case]
    data = array(8, 5 if case == "uneven" else 6)
    key = jax.random.key(3)

    def body(x, key):
        noise = nx.random.normal(key, named_shape={"a": 8})
        return nx.nn.softmax(x, "b") * nx.sum(x, "a") + noise, nx.max(x, ...)

    f = nx.xmap(body, (["a", "b"], []), (["a", "b"], []), mesh=mesh, **options)
    x, k = (jax.device_put(leaf, jax.sharding.NamedSharding(mesh, jax.P())) for leaf in (data, key))
    file = tmp_path / "program"
    file.write_bytes(export.export(jax.jit(f))(x, k).serialize())
    read = export.deserialize(bytearray(file.read_bytes()))
    noise = nx.random.normal(key, named_shape={"a": 8}).data[:, None]
    want = jax.nn.softmax(data, 1) * jnp.sum(data, 0) + noise, jnp.max(data)
    close(read.call(x, k), want)
    other = jax.make_mesh((4, 2), ("p", "q"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x, k = (jax.device_put(leaf, jax.sharding.NamedSharding(other, jax.P())) for leaf in (data, key))
    close(read.call(x, k), want)
    sent = hlo.summary(jax.jit(read.call).lower(x, k).compile())
    assert "all-reduce" in sent or "all-reduce in a loop" in sent


def test_export_of_an_unmapped_function():
    f = nx.xmap(attention, NAMES, NAMES)
    close(exported(f, X).call(X), plain_attention(X))
    gradient = exported(jax.jit(jax.grad(lambda x: jnp.sum(f(x) ** 2))), X).call(X)
    close(gradient, jax.jit(jax.grad(lambda x: jnp.sum(plain_attention(x) ** 2)))(X))


NESTED = ("layer", 0, ("k", 2.5))


@pytest.mark.parametrize("resources", [{}, {"a": "x"}], ids=str)
def test_export_of_named_arrays(resources):
    mesh = make_mesh((8,))
    data = array(2, 8, 3)
    x = nx.named(data, [None, "a", NESTED])
    if resources:
        x = nx.shard(x, resources, mesh)
    f = nx.xmap(lambda tree: {"sum": nx.sum(tree["x"], "a"), "all": tree["x"] * 2}, axis_resources=resources, mesh=mesh)
    have = exported(f, {"x": x}).call({"x": x})
    assert (have["sum"].dims, have["all"].dims) == ((None, NESTED), (None, "a", NESTED))
    assert isinstance(have["all"].dims[2][1], int)
    close([have["sum"].data, have["all"].data], [data.sum(1), data * 2])
    with pytest.raises(ValueError, match="same pytree structure"):
        exported(f, {"x": x}).call({"x": nx.rename(x, {"a": "other"})})


WITHOUT_NAMEDAX = """
import sys
sys.modules["namedax"] = None  # an import of it is an error
import jax
import numpy as np
mesh = jax.make_mesh((8,), ("p",))
*data, program = (open(path, "rb").read() for path in sys.argv[1:])
leaves = [jax.device_put(np.frombuffer(x, np.float32).reshape(8, -1), jax.NamedSharding(mesh, jax.P("p"))) for x in data]
total, gradient = jax.export.deserialize(bytearray(program)).call(*leaves)
print(float(total), np.asarray(gradient).tolist())
"""


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_program_of_plain_leaves_needs_no_namedax(tmp_path):
    """A process without namedax runs a step over 8 devices whose arguments are the leaves of its pytrees."""
    mesh = make_mesh((8,))
    tree = {name: nx.shard(nx.named(array(8, 3, seed=seed), ["a", "b"]), {"a": "x"}, mesh) for seed, name in enumerate("uv")}

    def loss(tree):
        return nx.sum(nx.nn.softmax(tree["u"], "a") * tree["v"], ("a", "b"))

    step = nx.xmap(jax.value_and_grad(loss), axis_resources={"a": "x"}, mesh=mesh)
    leaves, structure = jax.tree.flatten(tree)
    plain = jax.jit(lambda *leaves: jax.tree.leaves(step(jax.tree.unflatten(structure, leaves)))[:2])
    want = plain(*leaves)
    files = [tmp_path / name for name in ("u", "v", "program")]
    contents = *(np.asarray(leaf).tobytes() for leaf in leaves), export.export(plain)(*leaves).serialize()
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    command = [sys.executable, "-c", WITHOUT_NAMEDAX, *map(str, files)]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
    total, _, gradient = run.stdout.partition(" ")
    close((float(total), np.array(json.loads(gradient))), tuple(want))


def test_names_that_can_not_be_exported():
    class Name:
        pass

    name = Name()
    for bad in (name, frozenset({"k"})):
        x = nx.named(array(3), [bad])
        with pytest.raises(AxisNameError, match=r"export: an array with the axes .* names are strings, numbers, or tuples"):
            exported(jax.jit(lambda x: x * 2), x)


# --- communication: what an array computed from a gathered one costs in the gradient ----------------------------------

MODEL = make_mesh((4, 2))
FSDP = {"batch": "x", "k_f": "x"}
ROWS, WEIGHT, SCALE = array(16, 24), array(24, 40, seed=1), array(24, 40, seed=2)
BYTES = WEIGHT.nbytes
GATHERED = {"all-gather": (1, BYTES), "reduce-scatter": (1, BYTES)}


def gathered(w):
    return nx.rename(w, {"k_f": "k"})


def loss_of(w, x):
    return nx.mean(nx.sum(nx.dot(x, w, "k") ** 2, "m"), "batch")


FORMS = {
    "function": (lambda w, s, x: loss_of(nx.tanh(gathered(w)), x), (0,), GATHERED),
    "chain": (lambda w, s, x: loss_of((nx.tanh(gathered(w)) * 2 + 1).astype(jnp.float32), x), (0,), GATHERED),
    "of two": (lambda w, s, x: (lambda g: loss_of(nx.where(s > 0, g, nx.sin(g)), x))(gathered(w)), (0,), GATHERED),
    "used twice": (lambda w, s, x: (lambda t: loss_of(t, x) + loss_of(nx.sin(t), x))(nx.tanh(gathered(w))), (0,), GATHERED),
    # A factor that is the same on all devices has a small gradient of its own.
    "with a vector": (
        lambda w, s, x: loss_of(nx.tanh(gathered(w) * nx.mean(s, "k")), x),
        (0, 1),
        {**GATHERED, "all-reduce": (1, BYTES // 24)},
    ),
    # That of one as large would have to be reduced by itself, so that it is better to reduce the gradient of the result.
    "with a matrix": (
        lambda w, s, x: loss_of(gathered(w) * s, x),
        (0, 1),
        {"all-gather": (1, BYTES), "all-reduce": (1, BYTES)},
    ),
}


@pytest.mark.full(3)
@pytest.mark.fast(2)
@pytest.mark.parametrize("name", FORMS)
def test_a_function_of_a_gathered_array_is_reduced_and_scattered(name):
    body, argnums, expected = FORMS[name]
    in_axes, args = (["k_f", "m"], ["k", "m"], ["batch", "k"]), (WEIGHT, SCALE, ROWS)
    f = nx.xmap(jax.grad(body, argnums), in_axes, tuple(in_axes[i] for i in argnums), axis_resources=FSDP, mesh=MODEL)
    want = jax.jit(jax.grad(nx.xmap(body, in_axes, []), argnums))(*args)
    for have, expect in zip(f(*args), want, strict=True):
        np.testing.assert_allclose(have, expect, rtol=1e-4, atol=1e-4 * np.abs(expect).max())
    assert hlo.summary(f.lower(*args).compile()) == expected


def test_a_function_of_a_gathered_array_that_is_returned_sends_nothing_back():
    f = nx.xmap(lambda w: nx.tanh(gathered(w)), ["k_f", "m"], ["k", "m"], axis_resources={"k_f": "x"}, mesh=MODEL)
    backward = jax.jit(lambda w, g: jax.vjp(f, w)[1](g))
    assert hlo.summary(backward.lower(WEIGHT, WEIGHT).compile()) == {"all-gather": (1, BYTES)}
    np.testing.assert_allclose(backward(WEIGHT, WEIGHT)[0], jax.vjp(jnp.tanh, WEIGHT)[1](WEIGHT)[0], rtol=1e-4, atol=1e-5)


def test_shard_without_a_mesh():
    x = {"x": nx.named(X, NAMES), "y": X}
    assert nx.shard(x, {}) is x
    assert nx.shard(x, {"a": nx.SerialLoop(2)}) is x
    with pytest.raises(MeshError, match="shard: there is no mesh"):
        nx.shard(x, {"a": "x"})


# --- nothing outlives its trace -------------------------------------------------------------------------------------


def remembering(x):
    """Casts and gathers that arrays remember, in the traces of transformations that are inside of the body."""
    keys = nx.rename(x, {"a": "key"})  # remembers both forms of a gather
    scale = nx.mean(x, "a")  # and this one a cast

    def step(carry, _):
        carry = carry * scale + nx.mean(nx.tanh(keys) * carry, "key")
        return carry, nx.max_with_index(carry, "a").values

    scanned, largest = nx.scan(step, x, None, length=2)
    helped = jax.jit(lambda x: nx.nn.log_softmax(x * scale, "a") * nx.sum(keys, "key"))(x)
    again = jax.checkpoint(lambda x: nx.var(x * scale, "a") * nx.sum(nx.tanh(keys), "key"))(x)
    pushed = jax.jvp(lambda x: nx.nn.softmax(x * scale, "a"), (x,), (nx.sin(x) * scale,))[1]
    return nx.sum(scanned * scale + helped * again + pushed, ("a", "b")) + nx.sum(largest, (0, "b"))


@pytest.mark.leaks
def test_no_tracer_outlives_its_trace_inside():
    f = nx.xmap(jax.grad(remembering), NAMES, NAMES, **SHARDED)
    with jax.checking_leaks():
        have = f(X)
    close(have, jax.jit(jax.grad(nx.xmap(remembering, NAMES, [])))(X))


@pytest.mark.leaks
def test_no_tracer_outlives_its_trace_outside():
    """Without jit, because JAX reports leaks of the gradient of a compiled jax.shard_map; every operation takes its time then."""

    def body(x):
        scale = nx.mean(x, "a")
        helped = jax.jit(lambda x: nx.nn.softmax(x * scale, "a"))(x)
        return nx.sum(jax.checkpoint(lambda x: nx.var(x, "a") * scale)(helped * nx.rename(x, {"a": "key"})), "key")

    f = nx.xmap(body, ["a"], [], jit=False, axis_resources={"a": "x"}, mesh=make_mesh((4,)))
    with jax.checking_leaks():
        have = jax.grad(f)(X[:, 0])
    close(have, jax.jit(jax.grad(nx.xmap(body, ["a"], [])))(X[:, 0]))
