"""What broke `jax.experimental.maps.xmap` and its heirs: every case once, in every kind of placement.

Each test compares with plain `jnp` on whole arrays. No two axes have the same size where their order could be confused, except
where the confusion is the test.
"""

from __future__ import annotations

import contextlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import AxisSizeError, NamedAxesLeftError, PositionalAxisError
from tests import make
from tests.harness import FEW, PARTITIONER, Placement, array, check, make_mesh

# Unmapped; one entry per device; blocks over Explicit axes; two names; one name over two mesh axes; XLA's partitioner.
PLACED = [*FEW, next(p for p in PARTITIONER if p.label == "both")]
placements = pytest.mark.parametrize("placement", PLACED, ids=str)
some_placements = pytest.mark.parametrize(
    "placement", [p for p in PLACED if p.label not in ("one-each", "two-mesh-axes")], ids=str
)
BLOCKS = next(p for p in FEW if p.label == "blocks")

A, B = array(8, 3, seed=1), array(4, 3, seed=2)
IN = (["a", "c"], ["b", "c"])


def close(have, want, tol=2e-5):
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=tol, atol=tol), have, want)


def only(placement, *names):
    """The placement with the names that a program has; an entry for another name would be an error."""
    resources = tuple(entry for entry in placement.resources if entry[0] in names)
    return Placement(placement.label, placement.shape if resources else None, resources, placement.kind, placement.partitioning)


# --- a name used inside of an inner jit, a loop body, a constant -----------------------------------------------------


@pytest.mark.fast(1)
@placements
def test_a_name_in_an_inner_jit(placement):
    @jax.jit
    def over_b(v):
        return nx.sum(nx.sin(v), "b")

    def body(x, y):
        scores = jax.jit(lambda u: nx.dot(u, y, "c"))(x)  # closes over a value of the body
        return nx.max(scores, "a") + over_b(scores) * nx.lax.psum(1, "b")

    def oracle(x, y):
        scores = x @ y.T
        return jnp.max(scores, 0)[None] + jnp.sum(jnp.sin(scores), 1)[:, None] * 4

    check(body, oracle, (A, B), IN, ["a", "b"], placement)


def test_one_jitted_helper_under_two_assignments():
    # The blocks have one shape: 8 over four devices, and 4 over two.
    @jax.jit
    def helper(v):
        return v / nx.sum(v, "a") + nx.arange("a") * nx.axis_size("a")

    mesh = make_mesh((4, 2))
    for n, axis in ((8, "x"), (4, "y"), (8, "x")):
        x = make.arange(1.0, n + 1)
        have = nx.xmap(helper, ["a"], ["a"], axis_resources={"a": axis}, mesh=mesh)(x)
        close(have, x / x.sum() + n * np.arange(n))


@pytest.mark.fast(0)
@some_placements
def test_a_name_in_a_scan(placement):
    # The carry varies with `a`, what is scanned over does not; the results lack `a`.
    def body(x, rows):
        def step(carry, row):
            carry = carry * 0.5 + row * nx.max(carry, "a")
            return carry, nx.sum(carry, "a")

        return lax.scan(step, x, rows)

    def oracle(x, rows):
        def step(carry, row):
            carry = carry * 0.5 + row * jnp.max(carry)
            return carry, jnp.sum(carry)

        return lax.scan(step, x, rows)

    check(body, oracle, (A[:, 0], array(5)), (["a"], [None]), (["a"], [None]), only(placement, "a"))


@pytest.mark.fast(1)
@some_placements
def test_a_name_in_a_fori_loop(placement):
    def body(x):
        return lax.fori_loop(0, 3, lambda i, v: v + i * nx.nn.softmax(v, "a") * nx.sum(v, "a"), x)

    def oracle(x):
        for i in range(3):
            x = x + i * jax.nn.softmax(x, 0) * jnp.sum(x, 0)
        return x

    check(body, oracle, (A,), (["a", None],), ["a", None], only(placement, "a"))


@some_placements
def test_a_name_in_the_condition_and_the_body_of_a_while_loop(placement):
    def body(x):
        return lax.while_loop(lambda v: nx.sum(v, "a") < 100.0, lambda v: v * 2 + nx.max(v, "a"), nx.abs(x))

    def oracle(x):
        x = jnp.abs(x)
        while jnp.sum(x) < 100.0:
            x = x * 2 + jnp.max(x)
        return x

    check(body, oracle, (A[:, 0],), (["a"],), ["a"], only(placement, "a"), grad=False)


@pytest.mark.full(3)
@pytest.mark.fast(1)
@some_placements
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_name_in_a_cond(placement, sign):
    def body(x):
        picked = lax.cond(nx.sum(x, "a") * sign > 0, lambda v: v * nx.sum(v, "a"), lambda v: v - nx.max(v, "a"), x)
        # One branch is a constant, which has to become what the other one is.
        return picked, lax.cond(nx.max(x, "a") * sign > 0, lambda v: nx.sum(v * v, "a"), lambda v: jnp.zeros((), v.dtype), x)

    def oracle(x):
        return (
            x * jnp.sum(x) if jnp.sum(x) * sign > 0 else x - jnp.max(x),
            jnp.sum(x * x) if jnp.max(x) * sign > 0 else jnp.zeros((), x.dtype),
        )

    mapped = nx.xmap(body, (["a"],), (["a"], []), **only(placement, "a").options)
    with placement.context():
        close(mapped(A[:, 0]), oracle(A[:, 0]))


@pytest.mark.fast(0)
@some_placements
def test_a_name_in_a_constant(placement):
    def body(x):
        position = nx.arange("a", dtype=x.dtype)
        return jax.jit(lambda: position * 2)() + x, nx.nn.one_hot(nx.arange("a") % 3, 3, axis="c")

    def oracle(x):
        return jnp.arange(8, dtype=x.dtype) * 2 + x, jax.nn.one_hot(jnp.arange(8) % 3, 3)

    mapped = nx.xmap(body, (["a"],), (["a"], ["a", "c"]), **only(placement, "a").options)
    with placement.context():
        close(mapped(A[:, 0]), oracle(A[:, 0]))


# --- constants and carries that need a cast to device-varying ---------------------------------------------------------


@pytest.mark.fast(1)
@some_placements
def test_carries_that_start_as_constants(placement):
    # JAX compares the types of a carry, which here begin with the same names; what varies over devices is not the user's
    # business.
    def body(x):
        def step(carry, _):
            total, count, running = carry
            return (total + nx.sum(x, "a"), count + 1, running + x), nx.max(running, "a")

        zeros = nx.named(jnp.zeros(8, x.dtype), ["a"])
        return lax.scan(step, (jnp.zeros((), x.dtype), 0, zeros), None, length=3)

    def oracle(x):
        history = jnp.stack([jnp.max(x * i) for i in range(3)])
        return (3 * jnp.sum(x), jnp.asarray(3), 3 * x), history

    check(body, oracle, (A[:, 0],), (["a"],), (([], [], ["a"]), [None]), only(placement, "a"))


@some_placements
def test_constants_of_every_making(placement):
    def body(x):
        named = nx.named(np.arange(8.0, dtype=x.dtype), ["a"])
        zeros = x * 0
        return (
            x + named + nx.arange("a") + 1 + jnp.ones((), x.dtype) + np.float32(2) + zeros,
            nx.where(x > 0, x, 0.0),
            nx.maximum(x, zeros),
        )

    def oracle(x):
        return x + 2 * jnp.arange(8, dtype=x.dtype) + 4, jnp.where(x > 0, x, 0.0), jnp.maximum(x, 0)

    check(body, oracle, (A[:, 0],), (["a"],), ["a"], only(placement, "a"), grad=False)


def test_a_carry_that_gains_a_name_is_refused_by_jax_with_both_types():
    # Raw JAX control flow compares structures; a loop of namedax would broadcast the carry.
    def body(x):
        return lax.scan(lambda carry, _: (carry + x, None), jnp.zeros(()), None, length=2)[0]

    with pytest.raises(TypeError, match="carry"):
        nx.xmap(body, (["a"],), ["a"], **BLOCKS.options)(A[:, 0])


# --- results --------------------------------------------------------------------------------------------------------


@placements
def test_an_array_without_the_name_beside_one_with_it(placement):
    def body(x, y):
        return nx.dot(x, y, "c"), nx.sum(x, ("a", "c")), nx.sum(y, "b"), 3.0, jnp.arange(2), {"x": x}

    def oracle(x, y):
        return x @ y.T, jnp.sum(x), jnp.sum(y, 0), jnp.asarray(3.0), jnp.arange(2), {"x": x.T}

    check(body, oracle, (A, B), IN, (["a", "b"], [], ["c"], [], [None], {"x": ["c", "a"]}), placement)


@placements
def test_keyword_arguments(placement):
    def body(x, *, y, scale=2.0):
        return nx.dot(x, y, "c") * scale

    mapped = nx.xmap(body, (IN[0], {"y": IN[1], "scale": []}), ["a", "b"], **placement.options)
    with placement.context():
        close(mapped(A, y=B), 2 * A @ B.T)
        close(mapped(A, scale=jnp.asarray(3.0), y=B), 3 * A @ B.T)


def test_a_reduction_in_a_body_never_returns_the_local_part():
    x = A[:, 0]

    def run(body, out_axes):
        return nx.xmap(body, (["a"],), out_axes, **BLOCKS.options)(x)

    close(run(lambda v: nx.sum(v, "a"), []), x.sum())
    close(run(lambda v: v.sum("a"), []), x.sum())
    close(run(lambda v: nx.lax.psum(v, "a"), []), x.sum())
    close(run(lambda v: nx.dot(v, v, "a"), []), (x * x).sum())
    with pytest.raises(PositionalAxisError):
        run(lambda v: nx.numpy.sum(v), ["a"])
    with pytest.raises(TypeError) as caught:
        run(lambda v: jnp.sum(v), [])
    assert any("nx.nmap" in note for note in caught.value.__notes__)
    with pytest.raises(NamedAxesLeftError):
        run(lambda v: jnp.sum(v.data), [])
    with pytest.raises(NamedAxesLeftError):
        run(lambda v: nx.positional(v, ["a"]).sum() + v.data.sum(), [])


# --- size one -------------------------------------------------------------------------------------------------------


def loss(x, y):
    scores = nx.dot(x, y, "c")
    rows = nx.rename(x, {"a": "rows"})
    return nx.nn.softmax(scores, "b"), nx.max(x, "a"), nx.argmax(y, "b"), nx.logsumexp(scores, ("a", "b")), rows


def positional_loss(x, y):
    scores = x @ y.T
    return jax.nn.softmax(scores, 1), jnp.max(x, 0), jnp.argmax(y, 0), jax.nn.logsumexp(scores), x


LOSS_OUT = (["a", "b"], ["c"], ["c"], [], ["rows", "c"])


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize(
    ("shape", "resources"),
    [
        ((1,), {"a": "x"}),
        ((8, 1), {"a": "x", "b": "y"}),
        ((1, 4), {"a": "x", "b": "y", "rows": "y"}),
        ((1, 4), {"c": "x", "b": "y"}),
        ((4, 1), {"a": ("x", "y"), "rows": ("y", "x")}),
    ],
)
def test_mesh_axes_of_size_one(shape, resources, kind):
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    mesh = Mesh(devices, ("x", "y")[: len(shape)], axis_types=(kind,) * len(shape))
    close(nx.xmap(loss, IN, LOSS_OUT, axis_resources=resources, mesh=mesh)(A, B), positional_loss(A, B))


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("shape", "resources"), [((1,), {"a": "x"}), ((4, 2), {"b": "x"}), ((1, 4), {"a": "x", "b": "y"}), (None, {})]
)
def test_names_of_size_one(shape, resources):
    x = A[:1]
    mesh = (
        None
        if shape is None
        else jax.make_mesh(
            shape,
            ("x", "y")[: len(shape)],
            axis_types=(AxisType.Auto,) * len(shape),
            devices=jax.devices()[: int(np.prod(shape))],
        )
    )
    mapped = nx.xmap(loss, IN, LOSS_OUT, axis_resources=resources, mesh=mesh)
    close(mapped(x, B), positional_loss(x, B))
    # Never broadcast like a positional axis of size one, and never left out.
    assert nx.xmap(lambda x, y: x * y, (["a"], ["b"]), ["a", "b"])(x[:, 0], B[:, 0]).shape == (1, 4)


# --- the physical order ---------------------------------------------------------------------------------------------


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_the_same_named_shape_in_every_physical_order():
    # Square on purpose: a wrong order would go unnoticed by shapes.
    x, y = array(4, 4, 4, seed=3), array(4, 4, 4, seed=4)
    names = ("a", "b", "c")

    def program(u, v):
        mask = nx.sum(v, "c") > 0
        return (
            u * v - u,
            nx.where(mask, u, v),
            nx.dot(u, v, "c"),
            nx.einsum("{a,b,c},{d:a,b,c}->{a,d}", u, v),
            nx.nn.softmax(u + 2 * v, "b"),
            nx.take(u, nx.argmax(v, "a"), "a"),
        )

    out_axes = ([*names], [*names], ["a", "b"], ["a", "d"], [*names], ["b", "c"])
    want = (
        x * y - x,
        jnp.where(jnp.sum(y, 2, keepdims=True) > 0, x, y),
        jnp.sum(x * y, 2),
        jnp.einsum("abc,dbc->ad", x, y),
        jax.nn.softmax(x + 2 * y, 1),
        x[jnp.argmax(y, 0), jnp.arange(4)[:, None], jnp.arange(4)],
    )
    mesh = make_mesh((4, 2))
    for order in itertools.permutations(range(3)):
        axes = [names[i] for i in order]
        turned = jnp.transpose(y, order)
        resources = {"a": "x", "b": "y"} if order[0] else {}
        close(nx.xmap(program, ([*names], axes), out_axes, axis_resources=resources, mesh=mesh)(x, turned), want)
    back = nx.xmap(lambda v, u: (u * v - u, nx.dot(u, v, "c")), (["c", "a", "b"], [*names]), (["b", "a", "c"], ["b", "a"]))
    close(back(jnp.transpose(y, (2, 0, 1)), x), (jnp.transpose(want[0], (1, 0, 2)), want[2].T))


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"i": "x"}, {"j": "x", "i": "y"}, {"j": ("x", "y")}])
def test_square_matrices(resources):
    x, y, v = array(8, 8, seed=5), array(8, 8, seed=6), array(8, seed=7)

    def program(x, y, v):
        return (
            nx.dot(x, v, "j"),
            nx.dot(x, nx.rename(v, {"j": "i"}), "i"),
            nx.einsum("{i,j},{k:i,j}->{i,k}", x, y),
            nx.rename(x, {"i": "j", "j": "i"}) - y,
            nx.max(x, "i"),
            nx.argmax(x, "j"),
            nx.sum(x * y, "i"),
        )

    def want(x, y, v):
        return x @ v, x.T @ v, x @ y.T, x.T - y, x.max(0), x.argmax(1), (x * y).sum(0)

    mapped = nx.xmap(
        program, (["i", "j"], ["i", "j"], ["j"]), (["i"], ["j"], ["i", "k"], ["i", "j"], ["j"], ["i"], ["j"]),
        axis_resources=resources, mesh=make_mesh((4, 2)),
    )  # fmt: skip
    close(mapped(x, y, v), want(x, y, v))
    close(mapped(x, x.T, v), want(x, x.T, v))


# --- closures -------------------------------------------------------------------------------------------------------

CLOSED = {"w": array(8, 3, seed=8), "v": array(3, 4, seed=9), "p": array(5, seed=10), "s": jax.device_put(1.5)}


def closing_body(w, v, p, s):
    """A body that closes over two named arrays, one in a different physical order, an unnamed array and a scalar."""
    rows, columns = nx.named(w, ["a", "c"]), nx.named(v, ["c", "b"])

    def body(x, y):
        return nx.dot(x * rows, y, "c") * s + nx.dot(rows, columns, "c") + nx.sum(nx.sin(p))

    return body


def closing_oracle(w, v, p, s):
    return ((A * w) @ B.T) * s + w @ v + jnp.sum(jnp.sin(p))


@pytest.mark.fast(0)
@placements
def test_a_body_that_closes_over_arrays(placement):
    mapped = nx.xmap(closing_body(**CLOSED), IN, ["a", "b"], **placement.options)
    want = closing_oracle(**CLOSED)
    with placement.context():
        close(mapped(A, B), want)
        close(jax.jit(mapped)(A, B), want)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@some_placements
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_gradients_through_a_closure(placement, wrap):
    def outer(closed):
        mapped = nx.xmap(closing_body(**closed), IN, ["a", "b"], **placement.options)
        return jnp.sum(jnp.sin(mapped(A, B)))

    with placement.context():
        have = wrap(jax.value_and_grad(outer))(CLOSED)
    close(have, jax.jit(jax.value_and_grad(lambda closed: jnp.sum(jnp.sin(closing_oracle(**closed)))))(CLOSED))


@pytest.mark.fast(0)
def test_gradients_through_a_closure_inside_of_the_body():
    w = nx.named(CLOSED["w"], ["a", "c"])

    def body(x, y):
        grads = jax.grad(lambda w, x: nx.sum(nx.sin(nx.dot(x * w, y, "c")), ("a", "b")), argnums=(0, 1))(w, x)
        return grads, nx.sum(w, ("a", "c"))

    want = jax.jit(jax.grad(lambda w, x: jnp.sum(jnp.sin((x * w) @ B.T)), argnums=(0, 1)))(w.data, A)
    for resources in ({"a": "x"}, {"a": "x", "b": "y"}, {"b": "x", "a": "y"}):
        mapped = nx.xmap(body, IN, ((["a", "c"], ["a", "c"]), []), axis_resources=resources, mesh=make_mesh((4, 2)))
        close(mapped(A, B), (want, w.data.sum()))


@pytest.mark.fast(0)
@pytest.mark.parametrize("spec", [P(), P("x"), P("y")], ids=str)
@pytest.mark.parametrize("by", ["argument", "context"])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_body_that_closes_over_arrays_sharded_over_auto_axes(spec, by, wrap):
    mesh = make_mesh((4, 2))
    closed = {**CLOSED, "w": jax.device_put(CLOSED["w"], NamedSharding(mesh, spec))}
    mapped = nx.xmap(
        closing_body(**closed), IN, ["a", "b"], axis_resources={"a": "x", "b": "y"}, mesh=mesh if by == "argument" else None
    )
    with jax.set_mesh(mesh) if by == "context" else contextlib.nullcontext():
        close(wrap(mapped)(A, B), closing_oracle(**CLOSED))


# JAX's shard_map takes no value from outside whose type speaks of Explicit axes.
EXPLICIT = [
    (kind, spec)
    for kind in ((AxisType.Explicit,) * 2, (AxisType.Auto, AxisType.Explicit))
    for spec in (P(), P("x"), P("y"))
    if kind[0] == AxisType.Explicit or spec != P("x")
]


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("kinds", "spec"), EXPLICIT)
@pytest.mark.parametrize("partitioning", ["manual", "auto"])
def test_a_body_that_closes_over_arrays_sharded_over_explicit_axes(kinds, spec, partitioning):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=kinds)
    sharded = {
        **CLOSED,
        "w": jax.device_put(CLOSED["w"], NamedSharding(mesh, spec)),
        "p": jax.device_put(CLOSED["p"], NamedSharding(mesh, P())),
    }
    with jax.set_mesh(mesh):
        mapped = nx.xmap(
            closing_body(**sharded), IN, ["a", "b"], axis_resources={"a": "x", "b": "y"}, partitioning=partitioning
        )
        close(mapped(A, B), closing_oracle(**CLOSED))

        def outer(w):  # as constants, and as values of an outer trace
            g = nx.xmap(
                closing_body(**{**sharded, "w": w}),
                IN,
                ["a", "b"],
                axis_resources={"a": "x", "b": "y"},
                partitioning=partitioning,
            )
            return jnp.sum(jnp.sin(g(A, B)))

        have = jax.jit(jax.grad(outer))(sharded["w"])
    close(have, jax.jit(jax.grad(lambda w: jnp.sum(jnp.sin(closing_oracle(**{**CLOSED, "w": w})))))(CLOSED["w"]))


def test_an_array_from_outside_is_whole_whatever_its_size():
    # Two entries are what a device holds of `a`, but an array from outside is no block.
    two = nx.named(make.arange(2.0), ["a"])
    with pytest.raises(AxisSizeError, match=r"axis 'a' has size 2 .*'a' has size 8"):
        nx.xmap(lambda x: x + two, ["a"], ["a"], **BLOCKS.options)(A[:, 0])


def test_an_array_from_outside_may_bring_a_mapped_name():
    # The region knows no size of `z`, so the array itself has to say that it is whole.
    z = nx.named(make.arange(6.0), ["z"])
    x = A[:, 0]
    mapped = nx.xmap(
        lambda x: (x * z, nx.sum(x * z, ("a", "z"))), ["a"], None, axis_resources={"a": "x", "z": "y"}, mesh=make_mesh((4, 2))
    )
    table, total = mapped(x)
    assert dict(table.named_shape) == {"a": 8, "z": 6}
    close((nx.positional(table, ["a", "z"]), total), (x[:, None] * z.data, jnp.sum(x[:, None] * z.data)))


@pytest.mark.parametrize("how", ["reduction", "contraction"])
def test_a_raw_rule_that_reduces_where_the_mapped_function_has_ended_is_an_error(how):
    # It took the block of a device for the whole axis, and gave a wrong gradient.
    @jax.custom_vjp
    def centred(x):
        return x * 1

    def pull(_, ct):
        return (ct - (nx.mean(ct, "a") if how == "reduction" else nx.dot(ct, ct * 0 + 1, "a") / 8),)

    centred.defvjp(lambda x: (centred(x), None), pull)

    def loss(x):
        return nx.sum(centred(x) * nx.arange(8, axis="a"), "a")

    options = {"axis_resources": {"a": "x"}, "mesh": make_mesh((8,))}
    inside = nx.xmap(lambda x: jax.grad(loss)(x), ["a"], ["a"], **options)
    np.testing.assert_allclose(inside(jnp.ones(8)), np.arange(8) - 3.5)
    with pytest.raises(
        nx.errors.AxisResourceError, match=r"axis 'a' is mapped to mesh axis 'x' .* Use nx\.custom_vjp or nx\.custom_jvp"
    ):
        jax.grad(nx.xmap(loss, ["a"], [], **options))(make.ones(8))


@pytest.mark.full(1)
@pytest.mark.parametrize("partitioning", ["manual", "auto"])
@pytest.mark.parametrize("offset", [1, -1])
def test_the_gradient_of_a_shift_beside_an_array_that_is_cut(partitioning, offset):
    # Under XLA's partitioner it was wrong: a pad by a negative number, where the same array is also merged and cut.
    draw = np.random.default_rng(0).normal
    x, w1, w2 = (jnp.asarray(draw(size=shape), "float32") for shape in ((8, 2, 4), (8, 8), (8, 2, 4)))

    def loss(x):
        merged, moved = nx.scan(
            lambda c, v: (c, (nx.merge_axes(v, ("k", "b"), "m"), nx.shift(v, offset, "k"))), 0.0, x, axis="a"
        )[1]
        return nx.sum(merged * nx.named(w1, ["a", "m"]), ["a", "m"]) + nx.sum(
            moved * nx.named(w2, ["a", "k", "b"]), ["a", "k", "b"]
        )

    f = nx.xmap(loss, (["a", "k", "b"],), [], axis_resources={"m": "x"}, mesh=make_mesh((4,)), partitioning=partitioning)
    shifted = jnp.stack([w2[:, 1], jnp.zeros((8, 4))], 1) if offset == 1 else jnp.stack([jnp.zeros((8, 4)), w2[:, 0]], 1)
    close(jax.jit(jax.grad(f))(x), w1.reshape(8, 2, 4) + shifted)
