"""Arrays that are stored padded, on meshes of every mix of axis types, in programs that know the mesh from no argument."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

import namedax as nx

AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
A = (np.linspace(0.1, 2.0, 30).reshape(10, 3) ** 2).astype(np.float32)
C = (np.linspace(-1.0, 2.0, 55).reshape(11, 5) ** 3).astype(np.float32)
ALL = ("a", "b")


def mesh_of(shape, kinds, first=0):
    count = int(np.prod(shape))
    return Mesh(np.array(jax.devices()[first : first + count]).reshape(shape), ("p", "q", "r")[: len(shape)], axis_types=kinds)


def stored(x, names, resources, mesh):
    return nx.shard(nx.named(x, names), resources, mesh, padded=True)


def values(x):
    """The values of an array, without padding, by NumPy alone."""
    if not isinstance(x, nx.NamedArray):
        return np.asarray(x)
    return np.asarray(x.data)[tuple(slice(None) if d is None else slice(x.named_shape[d]) for d in x.dims)]


def check(found, wanted):
    """Compare dicts of results; padding at rest is zero."""
    assert found.keys() == wanted.keys()
    for name, want in wanted.items():
        np.testing.assert_allclose(values(found[name]), want, rtol=2e-5, atol=1e-6, err_msg=name)
        if isinstance(found[name], nx.NamedArray):
            np.testing.assert_allclose(np.abs(np.asarray(found[name].data)).sum(), np.abs(want).sum(), rtol=2e-5, err_msg=name)


# --- results that depend on no argument ------------------------------------------------------------------------------


def loss(a):
    return nx.sum(3 * a + 1, ALL)


def independent(a):
    """Results whose values do not depend on those of `a`, so that `jax.jit` drops the argument."""
    scales = jnp.arange(3.0)
    return {
        "gradient": jax.grad(loss)(a),
        "part": jax.grad(lambda a: nx.sum(a["a", 1:4], ALL))(a),
        "in two steps": jax.grad(lambda a: nx.sum(nx.sum(a, "a") * 2, "b"))(a),
        "second": jax.grad(lambda a: loss(jax.grad(lambda a: nx.sum(a * a, ALL))(a)))(a),
        "checkpoint": jax.grad(jax.checkpoint(loss))(a),
        "inner jit": jax.jit(jax.grad(loss))(a),
        "loop": jax.grad(lambda a: loss(jax.lax.scan(lambda c, _: (c + c, None), a, None, length=3)[0]))(a),
        "zeros": nx.zeros_like(a),
        "ones": nx.exp(nx.zeros_like(nx.ones_like(a))),
        "raw zeros": nx.add(jax.tree.map(jnp.zeros_like, a), 2),
        "tangent": jax.jvp(lambda a: 2 * a, (nx.zeros_like(a),), (nx.ones_like(a),))[1],
        "cotangent": jax.vjp(lambda a: 2 * a, a)[1](nx.ones_like(a))[0],
        "forward over reverse": jax.jvp(jax.grad(loss), (a,), (nx.ones_like(a),))[1],
        "mapped": jax.vmap(lambda s: jax.grad(lambda a: nx.sum(a * s, ALL))(a))(scales),
        "branch": jax.lax.cond(scales[1] > 0, lambda: nx.zeros_like(a) + 5, lambda: nx.ones_like(a)),
        "number": nx.sum(nx.ones_like(a), ALL),
    }


ONES = np.ones_like(A)
INDEPENDENT = {
    "gradient": 3 * ONES,
    "part": np.where((np.arange(10) // 4 == 0) & (np.arange(10) > 0), 1.0, 0.0)[:, None] * ONES,
    "in two steps": 2 * ONES,
    "second": 6 * ONES,
    "checkpoint": 3 * ONES,
    "inner jit": 3 * ONES,
    "loop": 24 * ONES,
    "zeros": 0 * ONES,
    "ones": ONES,
    "raw zeros": 2 * ONES,
    "tangent": 2 * ONES,
    "cotangent": 2 * ONES,
    "forward over reverse": 0 * ONES,
    "mapped": np.arange(3.0)[:, None, None] * ONES,
    "branch": 5 * ONES,
    "number": 30.0,
}


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize(
    ("kinds", "resources"),
    [
        ((AUTO, AUTO), {"a": "p"}),
        pytest.param((AUTO, AUTO), {"a": ("p", "q")}, marks=pytest.mark.fast(0)),
        pytest.param((EXPLICIT, EXPLICIT), {"a": "p"}, marks=pytest.mark.fast(0)),
        pytest.param((AUTO, EXPLICIT), {"a": "p"}, marks=pytest.mark.fast(0)),
        ((AUTO, EXPLICIT), {"a": ("p", "q")}),
        pytest.param((EXPLICIT, AUTO), {"a": ("p", "q")}, marks=pytest.mark.fast(0)),
    ],
    ids=str,
)
def test_results_that_depend_on_no_argument(kinds, resources):
    a = stored(A, ["a", "b"], resources, mesh_of((4, 2), kinds))
    check(jax.jit(independent)(a), INDEPENDENT)
    zeros = jax.jit(nx.zeros_like)(a)
    assert zeros.sharding.device_set == a.sharding.device_set
    if AUTO not in kinds or EXPLICIT not in kinds:
        assert zeros.sharding.is_equivalent_to(a.sharding, 2)


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", [AUTO, EXPLICIT], ids=str)
def test_one_function_and_two_meshes_of_one_shape(kind):
    one, two = (stored(A, ["a", "b"], {"a": "p"}, mesh_of((4,), (kind,), first)) for first in (0, 4))
    gradient, plus = jax.jit(jax.grad(loss)), jax.jit(lambda a: a + 1)
    for a in (one, two, one, jax.device_put(one, two.sharding), two):
        for y, want in ((gradient(a), 3 * ONES), (plus(a), A + 1), (a + 1, A + 1)):
            np.testing.assert_allclose(values(y), want, rtol=1e-6)
            assert y.sharding.device_set == a.sharding.device_set
    assert jax.tree.structure(jax.device_put(one, two.sharding)) == jax.tree.structure(two) != jax.tree.structure(one)


@pytest.mark.fast(0)
def test_data_on_the_host_runs_on_the_mesh_of_its_layout():
    a = stored(A, ["a", "b"], {"a": "p"}, mesh_of((4,), (AUTO,), 2))
    host = jax.device_get(a)
    assert jax.tree.structure(host) == jax.tree.structure(a)
    for f, want in ((jax.grad(loss), 3 * ONES), (lambda a: a * 2, 2 * A)):
        y = jax.jit(f)(host)
        np.testing.assert_allclose(values(y), want, rtol=1e-6)
        assert y.sharding.device_set == a.sharding.device_set


def test_unknown_devices_are_equal_to_all():
    """Results of a mapped function under `jax.set_mesh` have the structure of the arguments."""
    mesh = mesh_of((4, 2), (AUTO, AUTO))
    a = stored(A, ["a", "b"], {"a": "p"}, mesh)

    @jax.jit
    def steps(a):
        def step(carry, _):
            return nx.xmap(lambda x: 2 * x, axis_resources={"a": "p"})(carry), None

        return jax.lax.scan(step, a, None, length=2)[0]

    with jax.set_mesh(mesh):
        y = steps(a)
    np.testing.assert_allclose(values(y), 4 * A, rtol=1e-6)
    assert jax.tree.structure(y) == jax.tree.structure(a)
    np.testing.assert_allclose(values(jax.tree.map(jnp.add, a, y)), 5 * A, rtol=1e-6)


# --- mixed axis types -------------------------------------------------------------------------------------------------


def operations(x, w):
    """Operations of every kind of communication along the padded axis."""
    return {
        "sum": nx.sum(x, "c"),
        "max": nx.max(x, "c"),
        "mean": nx.mean(x, ("c", "b")),
        "add": x + 1,
        "two": x * x,
        "softmax": nx.nn.softmax(x, "c"),
        "cumsum": nx.cumsum(x, "c"),
        "sort": nx.sort(x, "c"),
        "flip": nx.flip(x, "c"),
        "element": x["c", 10],
        "slice": x["c", 2:9],
        "dot": nx.dot(x, w, "c"),
        "kept": nx.dot(x, x, "b"),
        "positional": nx.positional(x, ["c", "b"]),
        "mapped": jax.grad(lambda x: nx.sum(nx.logsumexp(x, "c"), "b"))(x),
        "linear": jax.grad(lambda x: nx.sum(nx.dot(x, w, "c"), ("b", "d")))(x),
    }


W = (np.arange(22.0).reshape(11, 2) - 9).astype(np.float32)
EXP = np.exp(C - C.max(0))
OPERATIONS = {
    "sum": C.sum(0),
    "max": C.max(0),
    "mean": C.mean(),
    "add": C + 1,
    "two": C * C,
    "softmax": EXP / EXP.sum(0),
    "cumsum": C.cumsum(0),
    "sort": np.sort(C, 0),
    "flip": C[::-1],
    "element": C[10],
    "slice": C[2:9],
    "dot": C.T @ W,
    "kept": (C * C).sum(1),
    "positional": C,
    "mapped": EXP / EXP.sum(0),
    "linear": np.repeat(W.sum(1), 5).reshape(11, 5),
}
MIXED = [
    ((3, 2), (AUTO, EXPLICIT), {"c": ("p", "q")}),
    ((3, 2), (EXPLICIT, AUTO), {"c": ("p", "q")}),
    ((2, 3), (AUTO, EXPLICIT), {"c": ("q", "p")}),
    ((4, 2), (EXPLICIT, AUTO), {"c": "p", "b": "q"}),
    ((4, 2), (AUTO, EXPLICIT), {"c": "p", "b": "q"}),
    ((2, 2, 2), (AUTO, EXPLICIT, AUTO), {"c": ("p", "q", "r")}),
    ((2, 2, 2), (EXPLICIT, AUTO, EXPLICIT), {"c": ("r", "q"), "b": "p"}),
    ((2, 2, 2), (EXPLICIT, EXPLICIT, AUTO), {"c": "p", "b": ("r", "q")}),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("shape", "kinds", "resources"), MIXED, ids=str)
def test_mixed_axis_types(shape, kinds, resources):
    x, w = stored(C, ["c", "b"], resources, mesh_of(shape, kinds)), nx.named(W, ["c", "d"])
    check(jax.jit(operations)(x, w), OPERATIONS)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("shape", "kinds", "resources"), MIXED, ids=str)
def test_mixed_axis_types_eagerly(shape, kinds, resources):
    mesh = mesh_of(shape, kinds)
    x, w = stored(C, ["c", "b"], resources, mesh), nx.named(W, ["c", "d"])
    found = {"sum": nx.sum(x, "c"), "two": x * x, "dot": nx.dot(x, w, "c")}
    with jax.set_mesh(mesh):
        found["linear"] = jax.grad(lambda x: nx.sum(nx.dot(x, w, "c"), ("b", "d")))(x)
    check(found, {name: OPERATIONS[name] for name in found})
    moved, gathered = nx.shard(found["two"], {"c": "q"}, mesh, padded=True), nx.shard(x, {}, mesh)
    check({"moved": moved, "gathered": gathered}, {"moved": C * C, "gathered": C})


@pytest.mark.fast(0)
def test_an_explicit_major_axis_sends_what_auto_axes_send():
    def bytes_of(kinds):
        x = stored(C, ["c", "b"], {"c": ("p", "q")}, mesh_of((2, 2), kinds))
        compiled = jax.jit(lambda x: nx.sum(nx.exp(x) + x, "c")).lower(x).compile()
        return sorted((c.kind, c.bytes) for c in nx.hlo.collectives(compiled))

    assert bytes_of((EXPLICIT, AUTO)) == bytes_of((AUTO, AUTO)) == [("all-reduce", 20)]


@pytest.mark.fast(0)
def test_two_operands_with_one_layout_on_mixed_axes():
    mesh = mesh_of((3, 2), (AUTO, EXPLICIT))
    x = stored(C, ["c", "b"], {"c": ("p", "q")}, mesh)
    w = stored(W, ["c", "d"], {"c": ("p", "q")}, mesh)
    for run in (nx.dot, jax.jit(nx.dot, static_argnums=2)):
        np.testing.assert_allclose(values(run(x, w, "c")), C.T @ W, rtol=2e-5, atol=1e-6)
    other = stored(W, ["c", "d"], {"c": ("q", "p")}, mesh)
    with pytest.raises(
        nx.errors.PlacementConflictError,
        match=r"dot: axis 'c' is sharded over mesh axes \('p', 'q'\) .* over mesh axes \('q', 'p'\)",
    ):
        nx.dot(x, other, "c")
