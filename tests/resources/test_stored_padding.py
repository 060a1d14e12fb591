"""Arrays that are stored padded, outside of mapped functions: the values, gradients and types of whole arrays, without gathers."""

import contextlib
import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from tests.harness import Lazily
from tests.operations import OPERATIONS

optax = Lazily("optax")
RNG = np.random.default_rng(0)
W, X = (RNG.normal(size=shape).astype(np.float32) for shape in ((13, 6), (7, 6)))
A = (np.linspace(0.1, 2.0, 32).reshape(8, 4) ** 2).astype(np.float32)


def mesh_of(shape=(4, 2), explicit=False):
    kind = AxisType.Explicit if explicit else AxisType.Auto
    names = ("x", "y")[: len(shape)]
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(shape), devices=jax.devices()[: int(np.prod(shape))])


def at_rest(x, names, resources, mesh):
    return nx.shard(nx.named(x, names), resources, mesh, padded=True)


def values(x):
    """The values of an array, without padding, by NumPy alone."""
    if not isinstance(x, nx.NamedArray):
        return np.asarray(x)
    return np.asarray(x.data)[tuple(slice(None) if d is None else slice(x.named_shape[d]) for d in x.dims)]


def padding(x):
    """The sum of the absolute values of the padding."""
    whole = np.abs(np.asarray(x.data, np.float64))
    return whole.sum() - np.abs(values(x).astype(np.float64)).sum()


# --- the type -------------------------------------------------------------------------------------------------------


def test_the_type_has_the_true_size():
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh_of())
    assert dict(x.named_shape) == {"v": 13, "k": 6}
    assert x.nbytes == 13 * 6 * 4
    assert x.dims == ("v", "k")
    assert x.data.shape == (16, 6)
    assert x.sharding.spec[0] == "x"
    assert x.data.addressable_shards[0].data.shape == (4, 6)
    assert repr(x).startswith("NamedArray(f32[]{v:13@x, k:6}")
    assert "13" in x._repr_html_()
    assert padding(x) == 0
    np.testing.assert_array_equal(values(x), W)
    for other in (
        copy.copy(x),
        copy.deepcopy(x),
        x.copy(),
        pickle.loads(pickle.dumps(x)),
        x.astype("float32"),
        nx.named(x, [...]),
    ):
        assert dict(other.named_shape) == dict(x.named_shape)
        np.testing.assert_array_equal(values(other), W)


def test_sizes_that_divide_and_names_that_are_not_mapped_are_stored_as_ever():
    x = at_rest(W[:12], ["v", "k"], {"v": "x"}, mesh_of())
    assert x.data.shape == (12, 6)
    assert jax.tree.structure(x) == jax.tree.structure(nx.named(W, ["v", "k"]))


@pytest.mark.fast(0)
def test_structures_differ_by_true_size_and_layout():
    same, other = (at_rest(np.ones((n, 6), np.float32), ["v", "k"], {"v": "x"}, mesh_of()) for n in (13, 14))
    assert same.data.shape == other.data.shape
    assert jax.tree.structure(same) != jax.tree.structure(other)
    assert jax.tree.structure(same) == jax.tree.structure(at_rest(X[[0] * 13], ["v", "k"], {"v": "x"}, mesh_of(explicit=True)))
    f = jax.jit(lambda x: nx.sum(nx.ones_like(x) + 0 * x, "v"))  # the size decides, and is no value
    assert values(f(same))[0] == 13
    assert values(f(other))[0] == 14


def test_another_layout_gathers_or_moves():
    mesh = mesh_of()
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh)
    for y in (
        nx.shard(x, {}, mesh),
        nx.shard(x, {"v": "x"}, mesh, padded=False),
        nx.shard(x, {}),
        nx.shard(x, {"k": "y"}, mesh),
    ):
        assert y.data.shape == (13, 6)
        np.testing.assert_array_equal(np.asarray(y.data), W)
    y = nx.shard(x, {"v": "y"}, mesh, padded=True)
    assert y.data.shape == (14, 6)
    assert padding(y) == 0
    np.testing.assert_array_equal(values(y), W)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("in_context", [False, True])
@pytest.mark.parametrize("explicit", [False, True])
def test_gradients_through_the_placement(explicit, in_context):
    mesh = mesh_of(explicit=explicit)
    gradient = jax.jit(jax.grad(lambda x: nx.sum(1 / nx.shard(x, {"v": "x"}, mesh, padded=True), ...)))
    for x in (nx.named(W, ["v", "k"]), nx.shard(nx.named(W, ["v", "k"]), {"k": "y"}, mesh)):
        with jax.set_mesh(mesh) if in_context else contextlib.nullcontext():
            np.testing.assert_allclose(values(gradient(x)), -1 / W**2, rtol=1e-5)


def test_random_keys():
    keys = nx.named(jax.random.split(jax.random.key(0), 5), ["v"])
    mesh = mesh_of((4,))
    x = nx.shard(keys, {"v": "x"}, mesh, padded=True)
    draw = nx.xmap(lambda k: nx.random.uniform(k, named_shape={"k": 3}), axis_resources={"v": "x"}, mesh=mesh)
    np.testing.assert_array_equal(values(draw(x)), values(nx.xmap(lambda k: nx.random.uniform(k, named_shape={"k": 3}))(keys)))


# --- mapped functions -----------------------------------------------------------------------------------------------


def loss(w, x):
    logits = nx.nn.log_softmax(nx.dot(x, w, "k"), "v")
    return -nx.mean(nx.sum(logits**2, "v"), "b"), nx.exp(w)


def plain_loss(w, x):
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ w.T) ** 2, 1)), jnp.exp(w)


@functools.cache
def expected():
    (value, exp), gradients = jax.value_and_grad(plain_loss, argnums=(0, 1), has_aux=True)(W, X)
    return [np.asarray(a) for a in (value, exp, *gradients)]


LAYOUTS = {
    "one axis": {"v": "x"},
    "two axes": {"v": ("x", "y")},
    "both names": {"v": "x", "b": "y"},
    "also an even one": {"v": "x", "k": "y"},
    "steps of another name": {"v": "x", "b": nx.SerialLoop(3)},
    "steps of a padded name": {"v": "x", "b": ("y", nx.SerialLoop(2))},
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("explicit", [False, pytest.param(True, marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("remat", [False, pytest.param(True, marks=pytest.mark.fast(0))])
@pytest.mark.parametrize(
    "layout", ["both names", *(pytest.param(k, marks=pytest.mark.fast(0)) for k in LAYOUTS if k != "both names")]
)
def test_values_and_gradients(layout, remat, explicit):
    mesh, resources = mesh_of(explicit=explicit), LAYOUTS[layout]
    on_mesh = {k: tuple(a for a in (v if isinstance(v, tuple) else (v,)) if isinstance(a, str)) for k, v in resources.items()}
    w, x = at_rest(W, ["v", "k"], {n: on_mesh[n] for n in "vk" if n in on_mesh}, mesh), nx.named(X, ["b", "k"])
    x = nx.shard([x], on_mesh, mesh, padded=True)[0]
    f = nx.xmap(jax.checkpoint(loss) if remat else loss, axis_resources=resources, mesh=mesh)
    (value, exp), gradients = jax.jit(jax.value_and_grad(f, argnums=(0, 1), has_aux=True))(w, x)
    for have, want in zip((value, exp, *gradients), expected(), strict=True):
        np.testing.assert_allclose(values(have), want, rtol=1e-4, atol=1e-5)
    assert exp.data.shape == gradients[0].data.shape == w.data.shape == (16, 6)
    assert padding(exp) == padding(gradients[0]) == 0
    assert jax.tree.structure(gradients[0]) == jax.tree.structure(w)


@pytest.mark.fast(0)
def test_whatever_the_padding_is_nothing_depends_on_it():
    mesh = mesh_of((8,))  # 10 over 8: three devices have padding only
    x = at_rest(A.reshape(-1)[:10], ["v"], {"v": "x"}, mesh)
    dirty = jax.tree.map(lambda data: jnp.where(jnp.arange(16) < 10, data, jnp.nan), x)
    f = nx.xmap(lambda x: nx.sum(nx.log(x) ** 2, "v"), axis_resources={"v": "x"}, mesh=mesh)
    want = (np.log(A.reshape(-1)[:10]) ** 2).sum()
    for y in (x, dirty):
        value, gradient = jax.value_and_grad(f)(y)
        np.testing.assert_allclose(value, want, rtol=1e-5)
        np.testing.assert_allclose(values(gradient), 2 * np.log(values(x)) / values(x), rtol=1e-5)
        assert padding(gradient) == 0
        assert padding(y * 2) == 0
    np.testing.assert_allclose(nx.sum(dirty, "v"), values(x).sum(), rtol=1e-6)


def test_a_report_of_an_array_that_is_gathered_before_the_call():
    """XLA's partitioner gathers it, and keeps the sharding of the other dimensions."""
    mesh = mesh_of((4, 2))
    x = at_rest(np.ones((10, 8), np.float32), ["v", "k"], {"v": "x", "k": "y"}, mesh)
    f = nx.xmap(lambda x: nx.sum(x, "v"), axis_resources={"k": "y"}, mesh=mesh)
    report = nx.explain(f, x, compile=True)
    assert [c.kind for c in report.compiled.collectives] == ["all-gather"]
    assert report.memory.arguments == report.compiled.memory["arguments"] == 3 * 4 * 4
    assert any("arrays have sharding constraints (test_stored_padding.py:" in text for text in report.findings)


def test_arguments_and_results_send_nothing_and_are_donated():
    mesh = mesh_of((8,))
    update = nx.xmap(lambda w: w - 0.5 * w, axis_resources={"v": "x"}, mesh=mesh, donate_argnums=0)
    table = at_rest(np.ones((57, 4), np.float32), ["v", "k"], {"v": "x"}, mesh)
    compiled = update.lower(table).compile()
    assert not list(nx.hlo.collectives(compiled))
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 8 * 4 * 4
    assert not nx.explain(update, table).collectives
    halved = update(table)
    assert table.data.is_deleted()
    assert halved.data.shape == (64, 4)
    assert padding(halved) == 0
    np.testing.assert_array_equal(values(halved), np.full((57, 4), 0.5, np.float32))
    whole = nx.shard(nx.named(np.ones((57, 4), np.float32), ["v", "k"]), {"v": "x"}, mesh, padded=False)
    before = update.lower(whole).compile()
    assert [c.kind for c in nx.hlo.collectives(before)] == ["all-gather"]
    assert before.memory_analysis().argument_size_in_bytes == 57 * 4 * 4


@pytest.mark.fast(0)
def test_a_mapped_function_with_another_layout_gets_the_true_size():
    mesh = mesh_of()
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh)
    for resources in ({"k": "x"}, {"v": "y"}, {"v": nx.SerialLoop(2)}, {}):
        f = nx.xmap(lambda x: nx.sum(x, "v"), axis_resources=resources, mesh=mesh)
        np.testing.assert_allclose(values(f(x)), W.sum(0), rtol=1e-5)
    auto = nx.xmap(lambda x: nx.cumsum(x, "v"), axis_resources={"v": "x"}, mesh=mesh, partitioning="auto")
    np.testing.assert_allclose(values(auto(x)), W.cumsum(0), rtol=1e-4, atol=1e-5)
    placed = nx.xmap(lambda x: 2 * x, None, ["k", "v"], axis_resources={"v": "x"}, mesh=mesh)
    np.testing.assert_array_equal(np.asarray(placed(x)), 2 * W.T)


@pytest.mark.fast(0)
def test_positional_axes_are_stacked_in_front():
    mesh = mesh_of()
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh)
    stack = jax.tree.map(lambda data: jnp.stack([data, 2 * data]), x)
    assert stack.shape == (2,)
    assert dict(stack.named_shape) == {"v": 13, "k": 6}
    f = nx.xmap(lambda x: nx.logsumexp(x, "v"), axis_resources={"v": "x"}, mesh=mesh)
    want = np.asarray(jax.nn.logsumexp(np.stack([W, 2 * W]), 1))
    for run in (
        f,
        jax.vmap(f),
        lambda s: jax.lax.scan(lambda c, e: (c, f(e)), 0, s)[1],
        jax.vmap(lambda e: nx.logsumexp(e, "v")),
    ):
        np.testing.assert_allclose(values(jax.jit(run)(stack)), want, rtol=1e-5)


@pytest.mark.fast(0)
def test_arrays_of_another_mesh_move():
    x = at_rest(W, ["v", "k"], {"v": ("x", "y")}, mesh_of())
    for shape, size in (((8,), 16), ((4,), 16), ((3,), 13)):
        f = nx.xmap(lambda x: 1 / x, axis_resources={"v": "x"}, mesh=mesh_of(shape))
        y = f(x)
        np.testing.assert_allclose(values(y), 1 / W, rtol=1e-5)
        assert padding(y) == 0
        assert y.data.shape == (size, 6)
        if shape == (8,):
            gradient = jax.grad(lambda a, f=f: nx.sum(f(a), ...))(x)
            np.testing.assert_allclose(values(gradient), -1 / W**2, rtol=1e-5)


def test_exported_functions():
    mesh = mesh_of()
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh)
    f = jax.jit(nx.xmap(lambda x: nx.sum(x**2, "v"), axis_resources={"v": "x"}, mesh=mesh))
    loaded = jax.export.deserialize(jax.export.export(f)(x).serialize())
    np.testing.assert_allclose(values(loaded.call(x)), (W**2).sum(0), rtol=1e-5)


# --- operations outside of mapped functions -------------------------------------------------------------------------

ON_FUNCTIONS, UNEVEN = {"scan", "fold"}, {"split_axis"}
IN_BODIES = {"where", "segment_sum"}  # of an axis whose size only a body has
OUTSIDE = [label for label in OPERATIONS if label not in IN_BODIES]


@pytest.mark.full(5)
@pytest.mark.fast(2)
@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("explicit", [False, pytest.param(True, marks=pytest.mark.fast(0))])
@pytest.mark.parametrize(
    "label",
    [
        "sum",
        "softmax",
        "sort",
        *(pytest.param(k, marks=pytest.mark.fast(0)) for k in OUTSIDE if k not in ("sum", "softmax", "sort")),
    ],
)
def test_every_operation_is_right_or_raises(label, explicit, traced):
    named, plain, axes = OPERATIONS[label]
    x = at_rest(A, ["a", "b"], {"a": "x"}, mesh_of((3,), explicit))
    assert x.data.shape == (9, 4)
    run = jax.jit(named) if traced else named
    try:
        have = run(x)
    except nx.errors.StoredPaddingError:
        assert label in ON_FUNCTIONS
        return
    except nx.errors.UnevenAxisError:
        assert label in UNEVEN
        return
    assert label not in ON_FUNCTIONS
    want, found = np.asarray(plain(jnp.asarray(A))), values(have)
    dims = list(have.dims) if isinstance(have, nx.NamedArray) else [None] * found.ndim
    have = np.transpose(found, [dims.index(axis) for axis in axes])
    np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-6)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("count", [5, pytest.param(None, marks=pytest.mark.fast(0))])
def test_arithmetic_and_methods(count):
    mesh = mesh_of()
    x, whole = at_rest(W, ["v", "k"], {"v": "x"}, mesh), nx.named(W, ["v", "k"])
    bias = nx.named(W[:, 0], ["v"])
    runs = (
        lambda a: a + 1,
        lambda a: 1 / (2 + a**2),
        lambda a: a * whole,
        lambda a: whole - a,
        lambda a: a + bias,
        lambda a: a * a.mean("v"),
        lambda a: nx.numpy.multiply(a, 2),
        lambda a: nx.where(a > 0, a, 0.0),
        lambda a: a.at["v", 12].set(0.0),
        lambda a: a["v", 3:9],
        lambda a: a["v", 12],
        lambda a: nx.positional(a, ["k", "v"]),
        lambda a: nx.stack([a, a], axis="q"),
        lambda a: nx.concatenate([a, a], "v"),
        lambda a: nx.rename(a, {"v": "u"}),
        lambda a: nx.transpose(a, ["k", "v"]),
        lambda a: jax.grad(lambda b: nx.sum(nx.log(2 + b**2), ...))(a),
    )
    for run in runs[:count]:
        have, want = run(x), run(whole)
        np.testing.assert_allclose(values(have), np.asarray(want.data if isinstance(want, nx.NamedArray) else want), rtol=1e-5)
        if isinstance(have, nx.NamedArray):
            assert dict(have.named_shape) == dict(want.named_shape)
            assert padding(have) == 0
    assert (x + 1).data.shape == (16, 6)
    assert nx.size(x, ...) == 78


@pytest.mark.parametrize("explicit", [False, True])
def test_operators_with_objects(explicit):
    padded = at_rest(W, ["v", "k"], {"v": "x"}, mesh_of(explicit=explicit))
    even = at_rest(W[:12], ["v", "k"], {"v": "x"}, mesh_of(explicit=explicit))
    for x in (padded, even):
        assert (x == None) is False  # noqa: E711
        assert (x != "x") is True
        assert x in [x]
        for run in (lambda x: x + None, lambda x: "s" - x, lambda x: x < object()):
            with pytest.raises(TypeError, match=r"unsupported operand type|not supported between"):
                run(x)


@pytest.mark.fast(0)
def test_arithmetic_of_equal_layouts_sends_nothing():
    x = at_rest(np.ones(57, np.float32), ["v"], {"v": "x"}, mesh_of((8,)))
    compiled = jax.jit(lambda a, b: nx.exp(a) * b + 1).lower(x, x).compile()
    assert not list(nx.hlo.collectives(compiled))


# --- optimizers and files -------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "adamw and the global norm": lambda: optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(1e-2, weight_decay=0.1)),
    "sgd": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "lamb": lambda: optax.lamb(1e-2),
    "lion": lambda: optax.lion(1e-3),
    "rmsprop": lambda: optax.rmsprop(1e-2),
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "name", ["adamw and the global norm", *(pytest.param(k, marks=pytest.mark.fast(0)) for k in list(OPTIMIZERS)[1:])]
)
def test_optimizers_of_raw_leaves(name):
    mesh, optimizer = mesh_of((8,)), OPTIMIZERS[name]()

    def trained(params, x, loss):
        def step(carry, _):
            params, state = carry
            updates, state = optimizer.update(jax.grad(loss)(params, x), state, params)
            return (optax.apply_updates(params, updates), state), optax.tree.norm(params)

        return jax.jit(lambda p: jax.lax.scan(step, (p, optimizer.init(p)), length=4))(params)

    mapped = nx.xmap(lambda p, x: loss(p["w"], x)[0], axis_resources={"v": "x"}, mesh=mesh)
    (have, _), norms = trained({"w": at_rest(W, ["v", "k"], {"v": "x"}, mesh)}, nx.named(X, ["b", "k"]), mapped)
    (want, _), plain_norms = trained({"w": jnp.asarray(W)}, X, lambda p, x: plain_loss(p["w"], x)[0])
    np.testing.assert_allclose(values(have["w"]), np.asarray(want["w"]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(norms, plain_norms, rtol=1e-5)
    assert have["w"].data.shape == (16, 6)
    assert padding(have["w"]) == 0


def test_checkpoints_have_true_sizes(tmp_path):
    mesh = mesh_of()
    tree = {"w": at_rest(W, ["v", "k"], {"v": "x"}, mesh), "step": 3}
    nx.checkpoints.save(tmp_path / "a", tree)
    assert nx.checkpoints.names(tmp_path / "a") == {"w": {"v": 13, "k": 6}}
    np.testing.assert_array_equal(np.asarray(nx.checkpoints.restore(tmp_path / "a")["w"].data), W)
    same = nx.checkpoints.restore(tmp_path / "a", like=tree)["w"]
    assert jax.tree.structure(same) == jax.tree.structure(tree["w"])
    assert same.sharding == tree["w"].sharding
    other = {"w": nx.shard(tree["w"], {"v": ("x", "y")}, mesh, padded=True), "step": 0}
    other = nx.checkpoints.restore(tmp_path / "a", like=other)["w"]
    assert other.data.shape == (16, 6)
    assert other.data.addressable_shards[0].data.shape == (2, 6)
    for restored in (same, other):
        np.testing.assert_array_equal(values(restored), W)
        assert padding(restored) == 0


def test_state_dicts_have_true_sizes():
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh_of())
    tensors = nx.interop.to_state_dict({"w": x}, {"table": ("w", "k v -> {v=v, k=k}")})
    np.testing.assert_array_equal(np.asarray(tensors["table"]), W.T)


# --- errors ---------------------------------------------------------------------------------------------------------


def test_functions_of_the_user_do_not_get_padding():
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh_of())
    for op, run in {
        "fold": lambda: nx.fold(lambda c, e: c + e, nx.zeros(()), x, axis="v"),
        "vmap": lambda: nx.vmap(lambda r: r * 2, "v")(x),
    }.items():
        with pytest.raises(nx.errors.StoredPaddingError, match=r"is stored padded.*nx\.shard\(x, \{\}, mesh\)") as caught:
            run()
        assert op in str(caught.value)


def test_a_result_whose_shape_depends_on_values_raises():
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh_of())
    with pytest.raises(nx.errors.StoredPaddingError, match=r"getitem: .* stored padded along 'v' \(size 13, stored as 16\)"):
        x[x > 0]


def test_bodies_take_padded_arrays_as_arguments_only():
    mesh = mesh_of()
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh)
    f = nx.xmap(lambda b: nx.sum(x, "v") + nx.sum(b, "b"), axis_resources={"b": "y"}, mesh=mesh)
    with pytest.raises(nx.errors.StoredPaddingError, match=r"Pass it as an argument to a mapped function"):
        f(nx.named(X, ["b", "k"]))


def test_functions_of_leaves_that_change_the_size_raise():
    x = at_rest(W, ["v", "k"], {"v": "x"}, mesh_of())
    cut = jax.tree.map(lambda data: data[:13], x)
    for run in (lambda: cut.named_shape, lambda: nx.sum(cut, "v"), lambda: cut + 1):
        with pytest.raises(nx.errors.AxisSizeError, match=r"axis 'v' of size 13 is stored padded to 16 elements"):
            run()


def test_arrays_on_the_host_have_no_mesh():
    x = jax.device_get(at_rest(W, ["v", "k"], {"v": "x"}, mesh_of()))
    assert isinstance(x.data, np.ndarray)
    for run in (lambda: x + 1, lambda: nx.positional(x, ["v", "k"])):
        with pytest.raises(nx.errors.MeshError, match=r"its data is on other devices\. Place it first"):
            run()
    np.testing.assert_array_equal(values(nx.shard(x, {"v": "x"}, mesh_of(), padded=True) + 1), W + 1)


def test_two_meshes_and_two_layouts_raise():
    a, b = (at_rest(W, ["v", "k"], {"v": "x"}, mesh_of(shape)) for shape in ((4, 2), (8,)))
    with pytest.raises(nx.errors.MeshError, match="add: the operands are stored padded on the meshes"):
        a + b
    with pytest.raises(nx.errors.PlacementConflictError, match=r"sharded over mesh axis 'x'.*mesh, padded=True\)"):
        a + nx.shard(a, {"v": "y"}, mesh_of(), padded=True)
