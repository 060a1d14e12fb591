"""Named arrays with other libraries, each of which is the real one: optax, equinox, flax, orbax, NumPy, xarray, treescope, IPython.

The oracle is the library on arrays without names.
"""

import builtins
import contextlib
import functools
import html.parser
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.core import display
from namedax.errors import (
    ArgumentTypeError,
    AxisMappingError,
    AxisNameError,
    AxisNotFoundError,
    AxisResourceError,
    AxisSizeError,
    MeshError,
    NamedAxesLeftError,
    PlacementConflictError,
    PositionalAxisError,
    RawBlockError,
)
from namedax.interop import abstract, from_xarray, global_norm, to_xarray
from tests import make
from tests.harness import FEW, Lazily, array, make_mesh, said

eqx, optax, contrib = Lazily("equinox"), Lazily("optax"), Lazily("optax.contrib")
linen, nnx = Lazily("flax.linen"), Lazily("flax.nnx")
ocp, treescope, xarray = Lazily("orbax.checkpoint"), Lazily("treescope"), Lazily("xarray")
formatters = Lazily("IPython.core.formatters")

BOTH = {"a": "x", "b": "y"}


def is_named(leaf):
    return isinstance(leaf, nx.NamedArray)


def plain(tree):
    """Every named array as its data."""
    return jax.tree.map(lambda leaf: leaf.data if is_named(leaf) else leaf, tree, is_leaf=is_named)


def close(have, want, tol=2e-5):
    """Leaf by leaf; raw leaves, because an optimiser may keep data that does not fit its dims."""
    have, want = jax.tree.leaves(have), jax.tree.leaves(want)
    assert len(have) == len(want) > 0
    for h, w in zip(have, want, strict=True):
        assert h.dtype == w.dtype
        if jnp.issubdtype(h.dtype, jax.dtypes.prng_key):
            h, w = jax.random.key_data(h), jax.random.key_data(w)
        np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=tol, atol=tol)


# --- optax ----------------------------------------------------------------------------------------------------------


def parameters(seed=0):
    return {
        "w": nx.named(array(8, 4, seed=seed), ["a", "b"]),
        "layers": [nx.named(array(4, 8, 3, seed=seed), ["b", "a", None])],
        "plain": array(3, seed=seed),
    }


def not_a_vector(params):
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def schedule():
    return optax.warmup_cosine_decay_schedule(0.01, 0.1, 2, 6)


ELEMENTWISE = {
    "sgd": lambda: optax.sgd(0.1),
    "momentum": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: optax.adam(0.1),
    "adamw of matrices": lambda: optax.adamw(0.1, weight_decay=0.1, mask=not_a_vector),
    "lion": lambda: optax.lion(0.1),
    "rmsprop": lambda: optax.rmsprop(0.1),
    "adagrad": lambda: optax.adagrad(0.1),
    "schedule": lambda: optax.chain(optax.clip(0.5), optax.adam(schedule())),
    "masked": lambda: optax.masked(optax.adam(0.1), {"w": True, "layers": False, "plain": True}),
    "labels": lambda: optax.multi_transform(
        {"fast": optax.adam(0.1), "slow": optax.sgd(0.01)}, {"w": "fast", "layers": ["slow"], "plain": "slow"}
    ),
    "every second step": lambda: optax.MultiSteps(optax.adam(0.1), 2).gradient_transformation(),
    "average": lambda: optax.chain(optax.ema(0.9), optax.scale(-0.1)),
    "schedule-free": lambda: contrib.schedule_free_sgd(0.1),
}
WHOLE = {
    "clipped": lambda: optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.1)),
    "adaptive clipping": lambda: optax.chain(optax.adaptive_grad_clip(0.01), optax.sgd(0.1)),
    "adafactor": lambda: optax.adafactor(0.1, min_dim_size_to_factor=4),
    "lamb": lambda: optax.lamb(0.1),
    "lars": lambda: optax.lars(0.1),
    "sm3": lambda: optax.sm3(0.1),
    "muon": lambda: contrib.muon(0.1),
    "if finite": lambda: optax.apply_if_finite(optax.adam(0.1), 3),
    "prodigy": lambda: contrib.prodigy(0.1),
}
IN_BODIES = ["momentum", "adamw of matrices", "lion", "labels", "every second step"]
# Costly to compile, so not all. JAX refuses some of the others on Explicit axes, with or without names.
ON_EXPLICIT_AXES = ["clipped", "adafactor", "lamb"]


def steps(optimizer, params, gradients):
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


@pytest.mark.full(1)
@pytest.mark.fast(2)
@pytest.mark.parametrize("name", [*ELEMENTWISE, *WHOLE])
def test_optimizers_on_whole_arrays(name):
    """Outside of mapped functions an optimiser is right, wherever the arrays live, and keeps names and placement."""
    optimizer = {**ELEMENTWISE, **WHOLE}[name]()
    run = jax.jit(lambda params, gradients: steps(optimizer, params, gradients))
    params, gradients = parameters(), [parameters(1), parameters(2)]
    want = run(plain(params), plain(gradients))
    close(run(params, gradients), want)
    if name in ELEMENTWISE:  # placed in the bodies below
        return
    for kind in ("auto", "explicit") if name in ON_EXPLICIT_AXES else ("auto",):
        mesh = make_mesh((4, 2), kind)
        with jax.set_mesh(mesh) if kind == "explicit" else contextlib.nullcontext():
            have = run(*nx.shard((params, gradients), BOTH, mesh))
        close(have, want)
        assert have[0]["w"].dims == ("a", "b")
        assert have[0]["w"].sharding.spec == P("x", "y")
        assert have[0]["layers"][0].sharding.spec[:2] == ("y", "x")


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_line_search():
    """L-BFGS evaluates the loss itself, a mapped one."""
    params, x = {"w": nx.named(array(8), ["a"])}, nx.named(array(4, 8) / 4, ["b", "a"])
    mapped = nx.xmap(
        lambda p, x: nx.sum(nx.square(nx.dot(x, p["w"], "a") - 1.0), "b"), axis_resources=BOTH, mesh=make_mesh((4, 2))
    )

    def run(loss, params):
        optimizer = optax.lbfgs()
        value, gradient = jax.value_and_grad(loss)(params)
        updates, _ = optimizer.update(gradient, optimizer.init(params), params, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(params, updates)

    want = jax.jit(lambda params: run(lambda p: jnp.sum((x.data @ p["w"] - 1.0) ** 2), params))(plain(params))
    close(jax.jit(lambda params: run(lambda p: mapped(p, x), params))(params), want, tol=1e-3)


def loss(params, x):
    hidden = nx.tanh(nx.dot(x, params["w"], "a"))
    out = nx.sum(nx.dot(hidden, params["layers"][0], "b"), "a")
    return nx.mean(nx.sum(out * params["plain"], 0) ** 2, "n")


def plain_loss(params, x):
    out = jnp.einsum("nb,bac,c->n", jnp.tanh(x @ params["w"]), *params["layers"], params["plain"])
    return jnp.mean(out**2)


def train(loss, optimizer, params, x):
    @jax.jit
    def step(params, state, x):
        value, gradient = jax.value_and_grad(loss)(params, x)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    state = optimizer.init(params)
    for _ in range(2):
        params, state, _ = step(params, state, x)
    return params, state


def clipped_adamw():
    return optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(0.05))


@functools.cache
def trained_without_names():
    return train(plain_loss, clipped_adamw(), plain(parameters()), array(6, 8))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_training_with_the_gradient_of_a_mapped_loss(placement):
    params, x = parameters(), nx.named(array(6, 8), ["n", "a"])
    with placement.context():
        if placement.shape is not None:
            params, x = nx.shard((params, x), dict(placement.resources), placement.options["mesh"])
        have = train(nx.xmap(loss, **placement.options), clipped_adamw(), params, x)
    close(have, trained_without_names(), tol=1e-4)
    assert have[0]["w"].sharding.is_equivalent_to(params["w"].sharding, 2)


def test_an_update_outside_sends_only_the_norm():
    """XLA's partitioner adds the squares up on the devices that hold them."""
    optimizer = optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.1))
    params, gradient = nx.shard((parameters(), parameters(1)), BOTH, make_mesh((4, 2)))
    compiled = jax.jit(optimizer.update).lower(gradient, optimizer.init(params), params).compile()
    sent = nx.hlo.collectives(compiled)
    assert {one.kind for one in sent} == {"all-reduce"}
    assert all(one.bytes <= 16 for one in sent), sent


def updated(params, states, gradients):
    results = {}
    for name, state in states.items():
        new = params
        for gradient in gradients:
            updates, state = ELEMENTWISE[name]().update(gradient, state, new)
            new = optax.apply_updates(new, updates)
        results[name] = new, state
    return results


@functools.cache
def before_and_after():
    params, gradients = parameters(), [parameters(1), parameters(2)]
    states = {name: ELEMENTWISE[name]().init(params) for name in IN_BODIES}
    arguments = params, states, gradients
    return arguments, jax.jit(updated)(*map(plain, arguments))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_elementwise_optimizers_in_a_mapped_body(placement):
    arguments, want = before_and_after()
    with placement.context():
        close(nx.xmap(updated, **placement.options)(*arguments), want)


def test_an_optimizer_that_sees_whole_arrays_sees_blocks_in_a_mapped_body():
    """What docs/guides/interoperation.md warns of: raw leaves in a body are blocks, each of which would be clipped by its own norm."""
    clip = optax.clip_by_global_norm(1.0)
    gradient = array(8, 3)

    def update(gradient):
        return clip.update(gradient, clip.init(gradient))[0]

    clipped = nx.xmap(update, ["a", None], ["a", None], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    with pytest.raises(
        RawBlockError, match=r"update \(.*\): a function of JAX takes the sum of all elements .* nx.interop.clip_by_global_norm"
    ):
        clipped(gradient)
    # Where the norm reaches a value without the name, the result differs from device to device, and that is an error.
    norm = nx.xmap(optax.tree.norm, ["a", None], [], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    with pytest.raises(NamedAxesLeftError, match=r"varies over the mesh axes \['x'\]"):
        norm(gradient)
    finite = optax.apply_if_finite(optax.sgd(0.1), 3)
    named = nx.named(gradient, ["a", None])
    with pytest.raises(NamedAxesLeftError, match=r"varies over the mesh axes \['x'\]"):
        nx.xmap(finite.update, axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))(named, finite.init(named))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_global_norm(placement):
    tree = parameters()
    clip = nx.interop.clip_by_global_norm(0.3)

    def body(tree):
        return global_norm(tree), clip.update(tree, clip.init(tree))[0]

    def gradient(norm):
        return jax.jit(jax.grad(lambda tree: norm(tree) ** 3))

    reference = optax.clip_by_global_norm(0.3)
    want = optax.tree.norm(plain(tree)), reference.update(plain(tree), reference.init(None))[0]
    with placement.context():
        close(nx.xmap(body, **placement.options)(tree), want)
        have = gradient(nx.xmap(global_norm, **placement.options))(tree)
    close(have, gradient(optax.tree.norm)(plain(tree)), tol=1e-4)


def test_global_norm_of_other_types():
    z = array(4, 3) + 1j * array(4, 3, seed=2)
    half = array(5).astype(jnp.bfloat16)
    have = global_norm([nx.named(z, ["b", None]), half])
    assert have.dtype == optax.tree.norm([z, half]).dtype == jnp.float32
    np.testing.assert_allclose(have, optax.tree.norm([z, half]), rtol=1e-2)
    assert float(global_norm({})) == 0.0


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_clipping_as_optax_does():
    for tree in (
        parameters(),
        {"w": nx.named(array(8).astype(jnp.bfloat16), ["a"])},
        {"w": make.zeros(3)},
        {"w": make.array([jnp.inf, 1.0])},
    ):
        for most in (0.1, jnp.asarray(1e3), 2):
            want, _ = optax.clip_by_global_norm(most).update(plain(tree), optax.EmptyState())
            clip = optax.chain(nx.interop.clip_by_global_norm(most), optax.scale(-1.0))
            have, _ = clip.update(tree, clip.init(tree))
            for h, w in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
                assert h.dtype == w.dtype
                np.testing.assert_allclose(-h.astype(float), w.astype(float), rtol=1e-2 if w.dtype == jnp.bfloat16 else 1e-5)
    mapped = nx.xmap(
        lambda tree: nx.interop.clip_by_global_norm(0.1).update(tree, optax.EmptyState())[0],
        axis_resources=BOTH,
        mesh=make_mesh((4, 2)),
    )
    sent = nx.hlo.collectives(mapped.lower(parameters()).compile())
    assert {(one.kind, one.bytes) for one in sent} <= {("all-reduce", 4), ("all-reduce", 8)}, sent
    steps = {"a": "x", "b": nx.SerialLoop(2)}
    nx.testing.assert_resources_do_not_matter(mapped, parameters(), axis_resources=steps)


@pytest.mark.fast(0)
def test_what_global_norm_sends():
    mapped = nx.xmap(global_norm, axis_resources=BOTH, mesh=make_mesh((4, 2)))
    sent = nx.hlo.collectives(mapped.lower(parameters()).compile())
    assert [one.kind for one in sent] == ["all-reduce"] * len(sent)
    assert len(sent) <= 2, sent  # one for the arrays over (x, y), one for those over x
    closed_over = parameters()
    have = nx.xmap(lambda x: nx.sum(x, "a") * global_norm(closed_over), ["a"], [], axis_resources=BOTH, mesh=make_mesh((4, 2)))(
        array(8)
    )
    np.testing.assert_allclose(have, array(8).sum() * optax.tree.norm(plain(closed_over)), rtol=1e-5)


# --- equinox --------------------------------------------------------------------------------------------------------


def attention(key):
    module = eqx.nn.MultiheadAttention(2, 6, key=key)
    return lambda x: module(x, x, x)


MODULES = {
    "mlp": (lambda key: eqx.nn.MLP(3, 2, 5, 1, key=key), (3,)),
    "linear": (lambda key: eqx.nn.Linear(3, 4, key=key), (3,)),
    "layer norm": (lambda key: eqx.nn.LayerNorm(3), (3,)),
    "convolution": (lambda key: eqx.nn.Conv1d(3, 4, 3, key=key), (3, 6)),
    "attention": (attention, (4, 6)),
}


def module_and_shape(name):
    make, shape = MODULES[name]
    return make(jax.random.key(0)), shape


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", sorted(MODULES))
def test_equinox_modules_through_nmap(name):
    module, shape = module_and_shape(name)
    x = array(8, 4, *shape)
    have = nx.nmap(module)(nx.named(x, ["a", "b", ...]))
    assert have.dims[:2] == ("a", "b")
    np.testing.assert_allclose(have.data, jax.vmap(jax.vmap(module))(x), rtol=1e-5, atol=1e-6)


def mlp_loss(module, x):
    return nx.mean(nx.nmap(module)(x) ** 2, ("a", "b")).sum()


def plain_mlp_loss(module, x):
    return jnp.mean(jax.vmap(jax.vmap(module))(x) ** 2, (0, 1)).sum()


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_equinox_gradients(placement):
    """Weights without names are replicated: their gradient is that of the whole batch, taken outside or inside of the body."""
    module, _ = module_and_shape("mlp")
    x = array(8, 4, 3)
    named = nx.named(x, ["a", "b", ...])
    want = eqx.filter(eqx.filter_grad(plain_mlp_loss)(module, x), eqx.is_array)
    arrays, rest = eqx.partition(module, eqx.is_array)

    def body(arrays, x):
        return mlp_loss(eqx.combine(arrays, rest), x)

    with placement.context():
        close(jax.jit(jax.grad(nx.xmap(body, **placement.options)))(arrays, named), want)
        close(nx.xmap(jax.grad(body), **placement.options)(arrays, named), want)
        close(
            eqx.filter_jit(eqx.filter_grad(lambda m, x: nx.xmap(lambda x: mlp_loss(m, x), **placement.options)(x)))(
                module, named
            ),
            want,
        )


@pytest.mark.fast(0)
def test_equinox_modules_of_named_arrays():
    class Layer(eqx.Module):
        weight: nx.NamedArray
        bias: nx.NamedArray
        label: str = eqx.field(static=True)

        def __call__(self, x):
            return nx.nn.relu(nx.dot(x, self.weight, "c") + self.bias)

    layer = Layer(nx.named(array(3, 8), ["c", "a"]), nx.named(array(8), ["a"]), "first")
    x = nx.named(array(4, 3), ["b", "c"])

    def total(layer, x):
        return nx.sum(layer(x), ("a", "b"))

    def plain_total(weight, bias):
        return jnp.sum(jax.nn.relu(x.data @ weight + bias))

    assert eqx.filter_jit(layer)(x).dims == ("b", "a")
    gradient = eqx.filter_jit(eqx.filter_grad(total))(layer, x)
    want = jax.jit(jax.grad(plain_total, (0, 1)))(layer.weight.data, layer.bias.data)
    assert (gradient.weight.dims, gradient.bias.dims, gradient.label) == (("c", "a"), ("a",), "first")
    close(gradient, want)
    mapped = nx.xmap(total, axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((4, 2)))
    close(jax.grad(mapped)(layer, x), want)

    arrays, rest = eqx.partition(layer, eqx.is_array)
    assert rest.weight.data is None
    assert eqx.tree_equal(eqx.combine(arrays, rest), layer)
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, layer)
    file.seek(0)
    again = eqx.tree_deserialise_leaves(file, jax.tree.map(jnp.zeros_like, layer))
    assert again.weight.dims == ("c", "a")
    assert eqx.tree_equal(again, layer)
    moved = eqx.tree_at(lambda layer: layer.bias, layer, nx.named(make.zeros(8), ["a"]))
    assert moved.bias.dims == ("a",)
    assert not moved.bias.data.any()
    assert "f32[]{c:3, a:8}" in repr(layer)


# --- flax -----------------------------------------------------------------------------------------------------------


def linen_block():
    class Block(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.LayerNorm()(x + linen.Dense(3)(jax.nn.relu(linen.Dense(7)(x))))

    return Block()


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_linen(placement):
    block, x = linen_block(), array(8, 4, 3)
    params = jax.jit(block.init)(jax.random.key(0), x[0, 0])

    def body(params, x):
        return nx.mean(nx.nmap(lambda x: block.apply(params, x))(x)[0] ** 2, ("a", "b"))

    want = jax.jit(jax.grad(lambda params: jnp.mean(block.apply(params, x)[..., 0] ** 2)))(params)
    with placement.context():
        mapped = nx.xmap(body, **placement.options)
        close(jax.jit(jax.grad(mapped))(params, nx.named(x, ["a", "b", ...])), want)
    many = jax.jit(nx.nmap(block.apply))(params, nx.named(x, ["a", "b", ...]))
    assert many.dims == ("a", "b", None)
    np.testing.assert_allclose(many.data, block.apply(params, x), rtol=1e-5, atol=1e-6)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_nnx(placement):
    module, x = nnx.Linear(3, 5, rngs=nnx.Rngs(0)), array(8, 4, 3)
    graph, state = nnx.split(module)

    def body(state, x):
        module = nnx.merge(graph, state)
        return nx.mean(nx.nmap(lambda x: module(x))(x)[0] ** 2, ("a", "b"))

    want = jax.jit(jax.grad(lambda state: jnp.mean(nnx.merge(graph, state)(x)[..., 0] ** 2)))(state)
    with placement.context():
        close(jax.jit(jax.grad(nx.xmap(body, **placement.options)))(state, nx.named(x, ["a", "b", ...])), want)


def test_nnx_parameters_that_are_named_arrays():
    class NamedDense(nnx.Module):
        def __init__(self):
            self.weight = nnx.Param(nx.named(array(3, 8), ["c", "a"]))

        def __call__(self, x):
            return nx.dot(x, self.weight.get_value(), "c")

    x = nx.named(array(4, 3), ["b", "c"])

    @nnx.jit
    def gradient(module, x):
        return nnx.grad(lambda module: nx.sum(nx.square(module(x)), ("a", "b")))(module)

    have = gradient(NamedDense(), x)["weight"].get_value()
    assert have.dims == ("c", "a")
    want = jax.jit(jax.grad(lambda w: jnp.sum((x.data @ w) ** 2)))(array(3, 8))
    np.testing.assert_allclose(have.data, want, rtol=1e-5)


# --- orbax ----------------------------------------------------------------------------------------------------------


def checkpointed():
    params = parameters()
    optimizer = optax.adam(0.1)
    state = optimizer.update(parameters(1), optimizer.init(params), params)[1]
    return {"params": params, "state": state, "step": jnp.int32(7), "keys": nx.named(jnp.arange(4, dtype=jnp.bfloat16), ["b"])}


ASSIGNMENTS = [
    (((8,), {"a": "x"}, "auto"), ((4, 2), {"b": "x"}, "auto")),
    (((4, 2), {"a": "x", "b": "y"}, "auto"), ((2, 4), {"a": "x", "b": "y"}, "explicit")),
    (((4, 2), {"a": ("x", "y")}, "explicit"), ((4, 2), {"a": ("y", "x")}, "auto")),
    (((2,), {"b": "x"}, "auto"), ((8,), {}, "auto")),
]


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("saved", "restored"), ASSIGNMENTS)
def test_orbax_restores_under_another_assignment(saved, restored, tmp_path):
    tree = checkpointed()
    shape, resources, kind = saved
    placed = nx.shard(tree, resources, make_mesh(shape, kind), padded=False)
    shape, resources, kind = restored
    mesh = make_mesh(shape, kind)
    with ocp.StandardCheckpointer() as checkpointer:  # saves in the background
        checkpointer.save(tmp_path / "step", placed)
        checkpointer.wait_until_finished()
        target = abstract(jax.eval_shape(checkpointed), resources, mesh)
        have = checkpointer.restore(tmp_path / "step", target)
    want = nx.shard(tree, resources, mesh, padded=False)
    assert jax.tree.structure(have) == jax.tree.structure(want)
    close(have, want, tol=0)
    for h, w in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert h.sharding == w.sharding


def test_orbax_pytree_checkpointer_and_another_layout(tmp_path):
    mesh = make_mesh((4, 2))
    x = array(8, 4)
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "tree", {"w": nx.shard(nx.named(x, ["a", "b"]), {"a": "x"}, mesh)})
        target = abstract({"w": nx.named(x, ["a", "b"])}, {"b": "y"}, mesh)
        arguments = ocp.checkpoint_utils.construct_restore_args(target)
        have = checkpointer.restore(tmp_path / "tree", args=ocp.args.PyTreeRestore(target, restore_args=arguments))["w"]
    assert have.sharding.spec == P(None, "y")
    turned = nx.order_like(have, nx.named(x.T, ["b", "a"]))
    assert turned.dims == ("b", "a")
    np.testing.assert_array_equal(turned.data, x.T)


def test_orbax_refuses_axes_of_equal_size_that_changed_places(tmp_path):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "step", {"w": nx.named(array(4, 4), ["a", "b"])})
        checkpointer.wait_until_finished()
        with pytest.raises(ValueError, match=r"(?s)data{a,b}.*data{b,a}|data{b,a}.*data{a,b}"):
            checkpointer.restore(tmp_path / "step", abstract({"w": nx.named(array(4, 4), ["b", "a"])}, {}, make_mesh((2,))))


def test_abstract():
    mesh = make_mesh((4, 2))
    tree = {"w": nx.named(array(8, 4), ["a", "b"]), "v": np.zeros((2, 3)), "step": 3, "none": None}
    types = abstract(tree, BOTH, mesh)
    assert repr(types["w"]) == "NamedArray(f32[]{a:8@x, b:4@y})"
    assert types["w"].named_shape == {"a": 8, "b": 4}
    assert types["w"].dims == ("a", "b")
    assert isinstance(types["w"].data, jax.ShapeDtypeStruct)
    want = nx.shard(tree, BOTH, mesh, padded=False)
    for have, placed in zip(jax.tree.leaves(types), jax.tree.leaves(want), strict=True):
        assert (have.shape, have.dtype, have.sharding) == (placed.shape, placed.dtype, placed.sharding)
    with jax.set_mesh(make_mesh((2, 4), "explicit")):
        assert abstract(tree["w"], {"b": "y"}).sharding.spec == P(None, "y")
    text = treescope.render_to_text(types)
    assert "<NamedArray f32[]{a:8@x, b:4@y}, no values>" in text
    assert "no values" in types["w"]._repr_html_()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: abstract(x, {"a": "x"}), MeshError, ["abstract: there is no mesh"]),
        (lambda x: abstract(x, {"a": "z"}, make_mesh((8,))), MeshError, ["abstract", "'z'"]),
        (lambda x: abstract(x, {"a": "x", "b": "x"}, make_mesh((2,))), PlacementConflictError, ["abstract: axes 'a' and 'b'"]),
        (
            lambda x: nx.xmap(lambda x: abstract(x, {}, None), axis_resources={"a": "x"}, mesh=make_mesh((8,)))(x),
            AxisResourceError,
            ["abstract", "before the mapped function"],
        ),
    ],
)
def test_mistakes_in_abstract(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(8, 4), ["a", "b"]))
    assert all(word in str(raised.value) for word in words), raised.value


# --- NumPy ----------------------------------------------------------------------------------------------------------


def test_numpy_takes_a_placed_array_through_positional():
    x = array(8, 4, 3)
    placed = nx.shard(nx.named(x, ["a", "b", None]), BOTH, make_mesh((4, 2)))
    np.testing.assert_array_equal(np.asarray(nx.positional(placed, ["b", None, "a"])), np.moveaxis(np.asarray(x), 0, 2))
    with pytest.raises(NamedAxesLeftError) as raised:
        np.asarray(placed)
    assert said(raised.value) == (
        "np.asarray: f32[3]{a:8@x, b:4@y} still has named axes, and np.asarray needs an array without names. Reduce them, or give "
        "them positions with nx.positional(x, ['a', 'b', ...])."
        " jnp.asarray and NumPy's functions need one too; the functions of nx and nx.numpy take named arrays."
    )


@pytest.mark.fast(2)
@pytest.mark.parametrize(
    "scalar", [np.float32(2), np.int8(2), np.float64(2.0), np.array(2.0, np.float32), np.arange(3.0, dtype=np.float32)]
)
def test_numpy_operands(scalar):
    x = array(4, 3)
    named = nx.named(x, ["b", None])
    for have, want in [(named * scalar, x * scalar), (scalar * named, scalar * x), (scalar - named, scalar - x)]:
        assert have.dims == ("b", None)
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have.data, want, rtol=1e-6)


def test_numpy_functions_reject_names():
    named = nx.named(array(4), ["b"])
    with pytest.raises(NamedAxesLeftError, match=r"np\.sin: .* Write nx\.sin\(x\)"):
        np.sin(named)
    with pytest.raises(NamedAxesLeftError, match="still has named axes"):
        np.linalg.norm(named)


@pytest.mark.parametrize("layout", [{"row": "x"}, {"row": ("x", "y")}, {"row": "y", "column": "x"}, {"column": "x"}, {}])
@pytest.mark.parametrize("dims", [["row", "column"], ["column", None], [None, "row"]])
def test_abstract_padded_types_are_those_of_shard(layout, dims):
    mesh = make_mesh((4, 2))
    tree = {"a": nx.named(array(10, 7), dims), "bias": array(3), "even": nx.named(array(8), ["row"])}
    want = nx.shard(tree, layout, mesh, padded=True)
    have = abstract(jax.eval_shape(lambda: tree), layout, mesh, padded=True)
    assert jax.tree.structure(have) == jax.tree.structure(want)
    for left, right in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        assert (left.shape, left.dtype, left.sharding) == (right.shape, right.dtype, right.sharding)
    assert dict(have["a"].named_shape) == dict(tree["a"].named_shape)


# --- xarray ---------------------------------------------------------------------------------------------------------


def test_to_xarray():
    x = array(8, 4, 3)
    placed = nx.shard(nx.named(x, ["a", None, "c"]), {"a": "x"}, make_mesh((4, 2)))
    have = to_xarray(placed, coords={"c": [10, 20, 30]}, name="speed")
    want = xarray.DataArray(np.asarray(x), dims=("a", "dim_0", "c"), coords={"c": [10, 20, 30]}, name="speed")
    xarray.testing.assert_identical(have, want)
    assert to_xarray(placed, dims=["k"]).dims == ("a", "k", "c")
    np.testing.assert_allclose(have.sel(c=20).mean("a"), np.asarray(x)[..., 1].mean(0), rtol=1e-6)
    xarray.testing.assert_identical(to_xarray(array(2, 3)), xarray.DataArray(np.asarray(array(2, 3)), dims=("dim_0", "dim_1")))
    assert to_xarray(nx.named(x.astype(jnp.bfloat16), ["a", "b", "c"])).dtype == jnp.bfloat16
    assert to_xarray(nx.named(array(2), [("layer", 0)])).dims == (("layer", 0),)
    assert to_xarray(3.0).dims == ()


def test_from_xarray():
    x = np.asarray(array(4, 3))
    source = xarray.DataArray(x, dims=("b", "c"), coords={"c": [10, 20, 30]}, attrs={"unit": "m"}, name="speed")
    have = from_xarray(source)
    assert have.dims == ("b", "c")
    assert isinstance(have.data, jax.Array)
    np.testing.assert_array_equal(have.data, x)
    assert from_xarray(source, positional=["c"]).dims == from_xarray(source, positional="c").dims == ("b", None)
    assert type(from_xarray(source, ("b", "c"))) is type(jnp.zeros(()))
    assert from_xarray(source, ("b", "c")).shape == (4, 3)
    assert from_xarray(source.T).dims == ("c", "b")
    np.testing.assert_array_equal((from_xarray(source.T) - have).data, 0)
    assert from_xarray(xarray.DataArray(np.arange(3), dims="c")).dtype == jnp.asarray(np.arange(3)).dtype
    assert from_xarray(xarray.DataArray(2.0)).shape == ()


@pytest.mark.parametrize("dims", [["a", None, "c"], ["a", "b", "c"], [None, ("layer", 0), None]])
def test_xarray_and_back(dims):
    x = nx.named(array(8, 4, 3), dims)
    made = to_xarray(x)
    again = from_xarray(made, [dim for dim in made.dims if isinstance(dim, str) and dim.startswith("dim_")])
    assert again.dims == x.dims
    np.testing.assert_array_equal(again.data, x.data)


def test_xarray_dataset():
    tree = {"w": nx.named(array(8, 4), ["a", "b"]), "bias": nx.named(array(4), ["b"]), "scalar": jnp.float32(2)}
    dataset = to_xarray(tree, coords={"b": [1, 2, 3, 4]})
    assert dict(dataset.sizes) == {"a": 8, "b": 4}
    assert set(dataset.data_vars) == set(tree)
    again = from_xarray(dataset)
    assert again["w"].dims == ("a", "b")
    assert again["bias"].dims == ("b",)
    close(again, tree, tol=0)
    assert from_xarray(dataset, positional=["a"])["w"].dims == (None, "b")
    assert to_xarray({"w": nx.named(array(8, 4), ["a", None])}, dims=["k", "l"])["w"].dims == ("a", "k")


def test_results_take_the_coordinates_of_the_data_set():
    values = np.asarray(array(4, 3))
    lat, area = [10.0, 20.0, 30.0], ("lat", [1.0, 2.0, 3.0])
    coords = {"time": [5, 6, 7, 8], "lat": lat, "area": area, "level": 2.0}
    source = xarray.DataArray(values, dims=("time", "lat"), coords=coords)
    x = from_xarray(source)
    for coordinates in (source.coords, source.to_dataset(name="t").coords):
        for have, want in [
            (to_xarray(x, coords=coordinates), source),
            (to_xarray(nx.sum(x, "lat"), coords=coordinates), source.sum("lat")),
            (to_xarray(nx.max(x, "time"), coords=coordinates), source.max("time")),
            (to_xarray(nx.sum(x, ("time", "lat")), coords=coordinates), source.sum()),
        ]:
            xarray.testing.assert_allclose(have, want)
            assert set(have.coords) == set(want.coords)
        have = to_xarray({"total": nx.sum(x, "lat")}, coords=coordinates)
        xarray.testing.assert_allclose(have, source.sum("lat").to_dataset(name="total"))
        assert set(have.coords) == {"time", "level"}
    places = source.stack(place=("time", "lat"))
    flat = nx.merge_axes(x, ("time", "lat"), "place")
    xarray.testing.assert_identical(to_xarray(flat, coords=places.coords), places)
    with pytest.raises(ValueError, match="latitude"):  # a dict is checked by xarray: no name is lost
        to_xarray(x, coords={"latitude": ("latitude", lat)})
    with pytest.raises(ValueError, match="lat"):  # and so is the size
        to_xarray(x["lat", :2], coords=source.coords)


def test_results_are_like_the_data_set():
    coords = {"time": [5, 6, 7, 8], "lat": ("lat", [10.0, 20.0, 30.0], {"units": "degrees_north"}), "level": 2.0}
    source = xarray.DataArray(np.asarray(array(4, 3)), dims=("time", "lat"), coords=coords, name="t", attrs={"units": "K"})
    x = nx.shard(from_xarray(source), {"time": "x"}, make_mesh((4,)))
    with xarray.set_options(keep_attrs=True):
        for have, want in [
            (to_xarray(x, like=source), source),
            (to_xarray(nx.max(x, "lat"), like=source), source.max("lat")),
            (to_xarray(x, like=source, name="s"), source.rename("s")),
        ]:
            xarray.testing.assert_identical(have, want)
        dataset = xarray.Dataset(
            {"t": source, "p": source.isel(lat=0, drop=True).assign_attrs(units="Pa")}, attrs={"source": "station"}
        )
        tree = from_xarray(dataset)
        xarray.testing.assert_identical(to_xarray(tree, like=dataset), dataset)
        tops = {key: nx.max(value, "time") for key, value in tree.items()}
        xarray.testing.assert_identical(to_xarray(tops, like=dataset), dataset.max("time"))
        new = to_xarray({"t": tree["t"], "sum": tree["t"] + tree["p"]}, like=dataset)
        assert new["t"].attrs == {"units": "K"}
        assert not new["sum"].attrs
    with pytest.raises(ValueError, match="lat"):  # labels of other elements would be wrong
        to_xarray(x["lat", :2], like=source)


@pytest.mark.parametrize("kind", ["Variable", "NamedArray", "IndexVariable", "DataArray"])
def test_from_xarray_of_every_array_with_names(kind):
    make = getattr(xarray, kind)
    values = np.arange(6, dtype=">i4").reshape(2, 3) if kind != "IndexVariable" else np.arange(3, dtype=">i4")
    dims = ("city", "month")[-values.ndim :]
    source = make(values, dims=dims) if kind == "DataArray" else make(dims, values)
    have = from_xarray(source)
    assert (have.dims, have.dtype) == (dims, jnp.int32)
    np.testing.assert_array_equal(have.data, values)
    assert from_xarray(source, ["month"]).shape == (3,)
    with pytest.raises(AxisNotFoundError, match=r"from_xarray: no axis 'mont' .* Did you mean 'month'"):
        from_xarray(source, ["mont"])


def test_a_tree_of_xarray_is_converted_by_group():
    tree = xarray.DataTree.from_dict({"/": xarray.Dataset({"t": ("a", [1.0, 2.0])}), "/k": xarray.Dataset({"u": ("b", [3.0])})})
    with pytest.raises(AxisMappingError) as error:
        from_xarray(tree)
    assert said(error.value) == (
        "from_xarray: a DataTree with the groups ['/', '/k'] has one Dataset per group. Convert each of them: {node.path: "
        "nx.from_xarray(node.to_dataset()) for node in tree.subtree}."
    )
    have = {node.path: nx.from_xarray(node.to_dataset()) for node in tree.subtree}
    assert float(nx.sum(have["/"]["t"], "a")) == 3
    assert have["/k"]["u"].dims == ("b",)


def test_from_xarray_names_the_variable_that_jax_does_not_support():
    stamps = np.array(["2001-01-01", "2001-01-03"], "datetime64[ns]")
    dataset = xarray.Dataset({"t": ("time", [1.0, 2.0]), "stamp": ("time", stamps)})
    with pytest.raises(ArgumentTypeError) as error:
        from_xarray(dataset)
    text = said(error.value)
    assert text.startswith(
        "from_xarray: variable 'stamp': the dtype datetime64[ns] of datetime64[ns][2] is not supported by JAX."
    )
    x = dataset.stamp
    assert "(x - x[0]) / np.timedelta64(1, 'D')" in text
    np.testing.assert_array_equal(from_xarray((x - x[0]) / np.timedelta64(1, "D")).data, [0, 2])
    with pytest.raises(ArgumentTypeError, match=r"Convert durations to numbers, for example x / np.timedelta64\(1, 'D'\)"):
        from_xarray(x - x[0])


def test_from_xarray_in_a_mapped_body():
    source = xarray.DataArray(np.asarray(array(8, 4)), dims=("a", "b"))
    mapped = nx.xmap(lambda x: nx.sum(x * from_xarray(source), "a"), ["a"], ["b"], axis_resources=BOTH, mesh=make_mesh((4, 2)))
    np.testing.assert_allclose(mapped(array(8)), array(8) @ array(8, 4), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: to_xarray(x, dims=["k", "l"]),
            PositionalAxisError,
            ["to_xarray: dims=['k', 'l'] has 2 names for the 1", "f32[4]{a:8}"],
        ),
        (lambda x: to_xarray(x, dims=["a"]), AxisNameError, ["to_xarray", "'a'", "dims="]),
        (
            lambda x: to_xarray(nx.rename(x, {"a": "dim_0"})),
            AxisNameError,
            ["to_xarray", "would get the name of its named axis 'dim_0'", "dims="],
        ),
        (lambda x: to_xarray({"x": x}, name="y"), AxisMappingError, ["to_xarray: name='y'", "['x']"]),
        (
            lambda x: to_xarray({"x": x}, like=to_xarray(x)),
            AxisMappingError,
            ["to_xarray: like= is of type DataArray", "the result is a Dataset", "Pass the Dataset"],
        ),
        (lambda x: from_xarray(x), AxisMappingError, ["from_xarray", "got a value of type NamedArray", "nx.named"]),
        (
            lambda x: from_xarray(to_xarray(x), ["dim_1"]),
            AxisNotFoundError,
            ["from_xarray: no axis 'dim_1'", "Did you mean 'dim_0'?"],
        ),
        (lambda x: from_xarray(xarray.DataArray(np.zeros(3), dims=[0])), AxisNameError, ["from_xarray: 0 is not an axis name"]),
        (lambda x: jax.jit(to_xarray)(x), jax.errors.TracerArrayConversionError, ["traced array"]),
    ],
)
def test_mistakes_with_xarray(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(8, 4), ["a", None]))
    assert all(word in str(raised.value) for word in words), raised.value


def test_without_xarray(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "xarray":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for function in (to_xarray, from_xarray):
        with pytest.raises(
            ImportError, match=f"{function.__name__}: xarray is not installed. Install it with `pip install xarray`."
        ):
            function(array(3))


# --- displays -------------------------------------------------------------------------------------------------------


def shown(value):
    """What IPython shows, as plain text and as HTML (whose tags are checked to be closed)."""
    bundle, _ = formatters.DisplayFormatter().format(value)

    stack = []

    class Checker(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            stack.append(tag)

        def handle_endtag(self, tag):
            assert stack.pop() == tag

    if "text/html" in bundle:
        Checker().feed(bundle["text/html"])
        assert not stack
    return bundle["text/plain"], bundle.get("text/html", "")


def drawn(value):
    """What treescope draws where it draws arrays of itself."""
    with treescope.active_autovisualizer.set_scoped(treescope.ArrayAutovisualizer()):
        return treescope.render_to_html(value, compressed=False)


def test_ipython():
    x = nx.shard(nx.named(make.arange(12.0).reshape(4, 3) / 2, ["<b>", None]), {"<b>": "x"}, make_mesh((2,)))
    text, page = shown(x)
    assert text == (
        "NamedArray(f32[3]{<b>:4@x}, dims=(<b>, _),\n  [[0. , 0.5, 1. ],\n   [1.5, 2. , 2.5],\n   [3. , 3.5, 4. ],\n   [4.5, 5. , 5.5]])"
    )
    assert "<code>NamedArray f32[3]{&lt;b&gt;:4@x}</code>" in page
    assert "<b>" not in page
    cells = "<td style='text-align:left'>"
    assert f"{cells}&lt;b&gt;</td>{cells}4</td>{cells}x</td>" in page
    assert f"{cells}position 0</td>{cells}3</td>{cells}whole</td>" in page
    assert "mean 2.75, std 1.726, from 0 to 5.5" in page
    assert "[4.5, 5. , 5.5]]</pre>" in page
    assert shown({"k": [x]})[0].startswith("{'k': [NamedArray(f32[3]{<b>:4@x}, dims=(<b>, _),\n    [[0. , 0.5, 1. ],\n")


@pytest.mark.parametrize(
    ("values", "summary"),
    [
        (make.array([True, False, True]), "2 of 3 true"),
        (make.array([3, -1, 2]), "from -1 to 3"),
        (make.array([1 + 2j, 3.0]), "mean 2+1j"),
        (make.array([1.0, jnp.nan, -jnp.inf, jnp.inf]), "mean 1, std 0, from 1 to 1, 1 NaN, 2 infinite"),
        (make.array([jnp.nan]), "1 NaN"),
        (make.array([3e38, 3e38]), "mean 3e+38"),
        (make.array([1, 2], jnp.bfloat16), "mean 1.5, std 0.5, from 1 to 2"),
        (make.zeros((0,)), "empty"),
        (make.keys(2), "2 elements"),
    ],
)
def test_summaries(values, summary):
    x = nx.named(values, ["c"])
    assert summary in shown(x)[1]
    assert summary in treescope.render_to_text({"x": x})
    if "3e+38" not in summary:  # treescope squares what it draws, of any array
        assert drawn(x)


def test_treescope():
    x = nx.shard(nx.named(array(8, 4), ["a", "b"]), BOTH, make_mesh((4, 2)))
    text = treescope.render_to_text({"w": x, "again": x})
    line = "NamedArray f32[]{a:8@x, b:4@y}, mean"
    assert text.count(line) == 2
    assert "Rich HTML" not in text
    assert "repeated" not in text.lower()
    assert f"{np.asarray(array(8, 4))[0, 0]:.4f}" in text
    page = drawn({"w": x, "odd": nx.named(make.ones((300, 2, 100)), ["<long>", None, ("layer", 0)])})
    assert "NamedArray f32[]{a:8@x, b:4@y}" in page
    assert "Sharded across" in page
    mask = nx.named(make.arange(8) < 4, ["a"])
    figure = treescope.render_array(x, rows=["b"], columns=["a"], valid_mask=mask)
    assert "a" in treescope.render_to_html(figure)
    treescope.render_array_sharding(x)
    with pytest.raises(NamedAxesLeftError, match="treescope, mask: bool"):
        treescope.render_array(x, valid_mask=nx.named(make.ones(3, bool), ["c"]))
    with pytest.raises(AxisSizeError, match=r"has size 3 along axis 'a', along which the array .* has size 8"):
        treescope.render_array(x, valid_mask=nx.named(make.ones(3, bool), ["a"]))


def test_a_mask_of_treescope_meets_the_array_by_name_and_from_the_right():
    adapter = display.treescope_adapter()
    x = nx.named(array(2, 3, 4), ["a", None, "b"])
    whole = (None, None, None)
    by_name = nx.named(make.arange(8).reshape(4, 2) < 3, ["b", "a"])
    _, shown = adapter.get_array_data_with_truncation(x, by_name, whole)
    np.testing.assert_array_equal(shown, np.broadcast_to((np.arange(8).reshape(4, 2) < 3).T[:, None, :], (2, 3, 4)))
    for positional in (np.arange(3) < 2, nx.named(np.arange(3)[:, None] < 2, [None, "b"])["b", 0]):
        _, shown = adapter.get_array_data_with_truncation(x, positional, whole)
        np.testing.assert_array_equal(shown, np.broadcast_to((np.arange(3) < 2)[None, :, None], (2, 3, 4)))


def test_treescope_adapter():
    adapter = display.treescope_adapter()
    x = nx.named(make.arange(60).reshape(20, 3), ["a", None])
    named, positional = adapter.get_axis_info_for_array_data(x)
    assert (named.axis_name, named.size) == ("a", 20)
    assert (positional.axis_logical_index, positional.size) == (0, 3)
    values, valid = adapter.get_array_data_with_truncation(x, nx.named(make.arange(20) != 1, ["a"]), (2, None))
    assert values.shape == valid.shape == (5, 3)
    np.testing.assert_array_equal(values[[0, 1, 3, 4]], np.arange(60).reshape(20, 3)[[0, 1, 18, 19]])
    assert valid.all(1).tolist() == [True, False, False, True, True]
    assert adapter.get_array_summary(x, fast=True) == "NamedArray i32[3]{a:20}"
    assert adapter.get_numpy_dtype(x) == np.int32
    sharded = nx.shard(x, {"a": "x"}, make_mesh((4,)))
    info = adapter.get_sharding_info_for_array_data(sharded)
    assert info.shard_shape == (5, 3)
    assert not info.fully_replicated
    assert len(info.device_index_to_shard_slices) == 4
    assert info.device_index_to_shard_slices[1] == (slice(5, 10), slice(None))


def test_displays_without_values(monkeypatch):
    seen = []

    def body(x):
        seen.append((shown(x), treescope.render_to_text([x]), drawn(x)))
        return x

    x = nx.named(array(8, 3), ["a", None])
    jax.jit(body)(x)
    nx.xmap(body, axis_resources={"a": "x"}, mesh=make_mesh((8,)))(x)
    jax.make_jaxpr(jax.vmap(lambda row: seen.append((shown(row), treescope.render_to_text([row]), drawn(row)))))(
        nx.named(array(3, 8), [None, "a"])
    )
    for (text, page), tree, _ in seen:
        assert text.startswith("NamedArray(f32[")
        assert "traced" in page
        assert "traced>" in tree
    assert seen[1][0][0] == "NamedArray(f32[3]{a:8@x})"
    assert ">x</td>" in seen[1][0][1]

    gone = nx.named(array(8) + 1, ["a"])
    gone.data.delete()
    assert shown(gone)[0] == "NamedArray(f32[]{a:8}, deleted)"
    assert "deleted" in shown(gone)[1]
    assert "<NamedArray f32[]{a:8}, deleted>" in treescope.render_to_text([gone])
    assert drawn(gone)

    large = nx.named(make.zeros(7), ["a"])
    monkeypatch.setattr(display, "_MOST_ELEMENTS", 6)
    assert "7 elements" in shown(large)[1]
    assert "<pre>" not in shown(large)[1]
    assert drawn(large)
    monkeypatch.setattr(type(large.data), "is_fully_addressable", property(lambda array: False))
    for page in (shown(large)[1], treescope.render_to_text([large])):
        assert "values on other processes" in page
    assert drawn(large)


def test_displays_of_data_that_do_not_fit_the_axes():
    broken = jax.tree.map(lambda leaf: leaf.sum(), nx.named(array(8), ["a"]))
    for text in (*shown(broken), treescope.render_to_text([broken]), drawn(broken)):
        assert "that do not fit" in text
    placeholder = jax.tree.map(lambda leaf: "label", nx.named(array(8), ["a"]))
    for text in (*shown(placeholder), treescope.render_to_text([placeholder]), drawn(placeholder)):
        assert "label" in text


# --- Flax: names of parameters, and rules -----------------------------------------------------------------------------------


def flax_places(names, rules):
    """Where Flax puts the axes of one array: its own function."""
    spec = linen.logical_to_mesh_axes(tuple(names), rules)
    one = {name: (axes,) if isinstance(axes, str) else axes for name, axes in zip(names, spec, strict=True) if axes}
    return {name: axes[0] if len(axes) == 1 else axes for name, axes in one.items()}


def test_rules_place_one_array_as_flax_does():
    random, axes = np.random.default_rng(3), ["x", "y", "z", None, ("x", "y"), ("y", "z"), ("w",)]
    second = 0
    for _ in range(400):
        names = list(random.permutation(list("abcdef"))[: random.integers(1, 6)])
        rules = [(str(random.choice(list("abcdefg"))), axes[random.integers(len(axes))]) for _ in range(random.integers(9))]
        have = nx.interop.from_logical_rules(rules, names)
        assert have == flax_places(names, rules), (names, rules)
        first = {}
        for name, place in rules:
            first.setdefault(name, place)
        second += any(first[name] != place and (place,) != first[name] for name, place in have.items())
    assert second > 10  # a second choice was taken often enough to be tested


def test_rules_for_many_arrays():
    rules = [
        ("batch", ["data", "fsdp"]),
        ("embed", "fsdp"),
        ("mlp", ("tensor",)),
        ("norm", None),
        ("heads", "tensor"),
        ("mlp", "data"),
    ]
    every = {"batch": ("data", "fsdp"), "embed": "fsdp", "mlp": "tensor", "heads": "tensor"}
    assert nx.interop.from_logical_rules(rules) == every
    types = jax.eval_shape(lambda: {"w": nx.zeros(named_shape={"embed": 2, "mlp": 3}), "b": nx.zeros(named_shape={"mlp": 3})})
    assert nx.interop.from_logical_rules(rules, types, ["batch", None, "mlp"]) == {
        "embed": "fsdp",
        "mlp": "tensor",
        "batch": ("data", "fsdp"),
    }
    assert nx.interop.from_logical_rules(rules, jnp.ones(3)) == {}


def test_rules_that_place_a_name_twice_are_refused():
    with pytest.raises(AxisResourceError) as caught:
        nx.interop.from_logical_rules([("batch", "x"), ("embed", "x")], ["embed", "mlp"], ["batch", "embed"])
    assert str(caught.value).startswith(
        "from_logical_rules: by these rules axis 'embed' is sharded over 'x' in the array of 'embed', 'mlp', and is "
        "replicated in the array of 'batch', 'embed'; in axis_resources an axis name has one sharding. Rename the axis in "
        "one of the two arrays (with nx.rename, or {new:old} in an einsum), and add a rule for the new name."
    )


def test_strict_rules_reject_an_axis_whose_mesh_axes_are_taken():
    rules = [("embed", ("fsdp", "layers")), ("mlp", "fsdp")]
    array = ["embed", "mlp"]
    assert nx.interop.from_logical_rules(rules, array) == {"embed": ("fsdp", "layers")}
    with pytest.raises(AxisResourceError) as caught:
        nx.interop.from_logical_rules(rules, array, strict=True)
    assert str(caught.value).startswith(
        "from_logical_rules: the rules shard axis 'mlp' over 'fsdp', but in the array of 'embed', 'mlp' axis 'embed' has taken "
        "'fsdp'. Change one of the two rules, add a rule with other mesh axes for 'mlp', or add ('mlp', None) to replicate it."
    )
    # Each of the remedies, and rules without a conflict.
    for more, place in [(("mlp", "tensor"), {"mlp": "tensor"}), (("mlp", None), {})]:
        have = nx.interop.from_logical_rules([*rules, more], array, strict=True)
        assert have == {"embed": ("fsdp", "layers"), **place}
    assert nx.interop.from_logical_rules(rules, ["embed"], ["mlp", "other"], strict=True) == {
        "embed": ("fsdp", "layers"),
        "mlp": "fsdp",
    }


@pytest.mark.parametrize("rule", ["batch", ("batch",), ("batch", 3), ("batch", ("x", 3))])
def test_malformed_rules_are_refused(rule):
    with pytest.raises(AxisResourceError) as caught:
        nx.interop.from_logical_rules([rule])
    assert f"{rule!r} is not a rule. Write pairs of an axis name and a mesh axis, a tuple of mesh axes, or None." in str(
        caught.value
    )


def boxed_dense():
    kernel = linen.with_logical_partitioning(linen.initializers.lecun_normal(), ("embed", "mlp"))
    bias = linen.with_partitioning(linen.initializers.normal(), ("mlp",))
    return linen.Dense(3, kernel_init=kernel, bias_init=bias)


def test_linen_parameters_become_named_and_go_back():
    dense, x = boxed_dense(), make.asarray(np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32))
    variables = dense.init(jax.random.key(0), x)
    p = nx.interop.from_flax(variables)["params"]
    assert p["kernel"].dims == ("embed", "mlp")
    assert p["bias"].dims == ("mlp",)
    have = nx.dot(nx.named(x, ["batch", "embed"]), p["kernel"], "embed") + p["bias"]
    np.testing.assert_allclose(nx.positional(have, ["batch", "mlp"]), dense.apply(variables, x), rtol=1e-5, atol=1e-6)
    assert nx.interop.from_logical_rules([("mlp", "y"), ("embed", "x")], variables) == {"embed": "x", "mlp": "y"}
    # Another order of storage comes back in that of the box, with its metadata.
    turned = {"params": {**p, "kernel": nx.named(p["kernel"].data.T, ["mlp", "embed"]) * 2}}
    back = nx.interop.to_flax(turned, variables)
    assert type(back["params"]["kernel"]) is linen.LogicallyPartitioned
    assert back["params"]["kernel"].names == ("embed", "mlp")
    np.testing.assert_array_equal(back["params"]["kernel"].value, 2 * variables["params"]["kernel"].value)
    assert jax.tree.structure(back) == jax.tree.structure(variables)


def test_nnx_states_become_named_and_go_back():
    with nnx.use_eager_sharding(False):
        linear = nnx.Linear(4, 3, kernel_metadata={"out_sharding": ("embed", "mlp")}, rngs=nnx.Rngs(0))
    graph, state = nnx.split(linear)
    p = nx.interop.from_flax(state)
    assert p["kernel"].dims == ("embed", "mlp")
    assert isinstance(p["bias"], jax.Array)
    x = make.asarray(np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32))
    merged = nnx.merge(graph, nx.interop.to_flax(jax.tree.map(lambda leaf: 2 * leaf, p), state))
    np.testing.assert_allclose(merged(x), 2 * linear(x), rtol=1e-5)


def test_parameters_whose_names_do_not_fit():
    wrong = linen.LogicallyPartitioned(jnp.ones((2, 3)), ("embed",))
    with pytest.raises(AxisMappingError) as caught:
        nx.interop.from_flax({"dense": wrong})
    assert "from_flax: ['dense'] has the names ['embed'] for an array of shape (2, 3). Pass one name, or None," in str(
        caught.value
    )
    right = linen.LogicallyPartitioned(jnp.ones((2, 3)), ("embed", None))
    assert nx.interop.from_flax(right).dims == ("embed", None)
    with pytest.raises(NamedAxesLeftError, match="mlp"):
        nx.interop.to_flax(nx.zeros(named_shape={"embed": 2, "mlp": 3}), linen.LogicallyPartitioned(jnp.ones(2), ("embed",)))
    with pytest.raises(AxisMappingError, match="places 'mlp'"):
        nx.interop.to_flax(nx.zeros(named_shape={"embed": 2}), linen.LogicallyPartitioned(jnp.ones((2, 3)), ("embed", "mlp")))


# --- arrays of other libraries as operands: their dims are not dropped --------------------------------------------------


def _temperature():
    return xarray.DataArray(np.arange(6.0, dtype=np.float32).reshape(2, 3), dims=["lon", "lat"])


FOREIGN = {
    "x - da": lambda x, da: x - da,
    "da - x": lambda x, da: da - x,
    "da < x": lambda x, da: da < x,
    "variable * x": lambda x, da: da.variable * x,
    "x == variable": lambda x, da: x == da.variable,
    "dataset - x": lambda x, da: xarray.Dataset({"t": da}) - x,
    "x - dataset": lambda x, da: x - xarray.Dataset({"t": da}),
    "x * scalar": lambda x, da: x * da[0, 0],
    "x @ da": lambda x, da: x @ da,
    "add": lambda x, da: nx.add(x, da),
    "where": lambda x, da: nx.where(x > 1, da, x),
    "sin": lambda x, da: nx.sin(da),
    "mean": lambda x, da: nx.mean(da, "lon"),
    "mean by position": lambda x, da: nx.mean(da, 0),
    "numpy.mean": lambda x, da: nx.numpy.mean(da),
    "numpy.linalg.norm": lambda x, da: nx.numpy.linalg.norm(da),
    "numpy.zeros_like": lambda x, da: nx.numpy.zeros_like(da),
    "numpy.asarray": lambda x, da: nx.numpy.asarray(da),
    "numpy.array of a list": lambda x, da: nx.numpy.array([da, da]),
    "numpy.interp": lambda x, da: nx.numpy.interp(x, da[0], da[0]),
    "lax.add": lambda x, da: nx.lax.add(x, da),
    "dot": lambda x, da: nx.dot(x, da, "lon"),
    "einsum": lambda x, da: nx.einsum("{lon,lat},{lon,lat}->{}", x, da),
    "take": lambda x, da: nx.take(x, (da[0] > 0).astype(int), "lon"),
    "take_along_axis": lambda x, da: nx.take_along_axis(x, da.astype(int), "lon"),
    "getitem": lambda x, da: x["lon", (da[0] > 0).astype(int)],
    "at.set": lambda x, da: x.at["lon", 0].set(da[0]),
    "stack": lambda x, da: nx.stack([x, da], "q"),
    "rename": lambda x, da: nx.rename(da, {"lon": "a"}),
    "positional": lambda x, da: nx.positional(da, ["lon", "lat"]),
    "shard": lambda x, da: nx.shard(da, {"lon": "x"}, make_mesh((2,))),
    "NamedArray": lambda x, da: nx.NamedArray(da, ("lat", "lon")),
    "softmax": lambda x, da: nx.nn.softmax(da, "lon"),
    "nmap": lambda x, da: nx.nmap(jnp.add)(x, da),
    "scan": lambda x, da: nx.scan(lambda c, row: (c + row, c), x["lon", 0], da, "lon"),
    "lax.map": lambda x, da: nx.lax.map(lambda row: row, da),
    "xmap": lambda x, da: nx.xmap(lambda a: nx.sum(a, "lat"), (["lat", "lon"],), ["lon"])(da),
    "xmap in a tree": lambda x, da: nx.xmap(lambda a: a["t"], {"t": ["lat", "lon"]}, ["lat", "lon"])({"t": da}),
    "closed over": lambda x, da: nx.xmap(lambda a: a + da, (["lon", "lat"],), ["lon", "lat"])(x.data),
    "closed over, mapped": lambda x, da: nx.xmap(
        lambda a: a * da, (["lon", "lat"],), ["lon", "lat"], axis_resources={"lon": "x"}, mesh=make_mesh((2,))
    )(x.data),
}


@pytest.mark.parametrize("call", FOREIGN.values(), ids=FOREIGN)
def test_dims_of_xarray_are_not_dropped(call):
    da = _temperature()
    with pytest.raises(ArgumentTypeError, match=r"nx\.from_xarray\("):
        call(from_xarray(da), da)


def test_dims_of_xarray_message():
    da = _temperature()
    with pytest.raises(
        ArgumentTypeError,
        match=r"^mean: a DataArray with the dims 'lon', 'lat' is not converted implicitly, because its dims would",
    ):
        nx.mean(da, "lon")
    with pytest.raises(ArgumentTypeError, match=r"^sin: a Variable .* nx\.from_xarray\(x\)\."):
        nx.sin(da.variable)


@pytest.mark.parametrize("axes", [["lat", "lon"], {0: "a"}, ["lon", None], ["lon", ...]])
def test_named_compares_dims(axes):
    da = _temperature()
    with pytest.raises(AxisMappingError, match=r"^named: the array already has the dims 'lon', 'lat', .* nx\.from_xarray\(x\)"):
        nx.named(da, axes)
    with pytest.raises(AxisMappingError, match="gives its axes other names"):
        nx.named({"t": da}, {"t": axes})


def test_named_with_the_dims_of_xarray():
    da = _temperature()
    for axes in (["lon", "lat"], {0: "lon", 1: "lat"}):
        have = nx.named(da, axes)
        assert have.dims == ("lon", "lat")
        np.testing.assert_array_equal(have.data, da.values)


def test_array_with_dims_of_another_library():
    class Field:
        dims = ("x",)

        def __array__(self, dtype=None, copy=None):
            return np.ones(3, np.float32)

    with pytest.raises(ArgumentTypeError, match=r"^add: a Field with the dims 'x' .* nx\.named\(np\.asarray\(x\), \['x'\]\)\."):
        nx.named(jnp.ones(3), ["x"]) + Field()


@pytest.mark.parametrize(
    "leaf",
    ["relu", np.array(["a", "b"]), np.datetime64("2020-01-01"), jnp.sin, np.array([None, 1])],
    ids=["text", "texts", "date", "function", "objects"],
)
def test_shard_reports_the_path_of_a_leaf(leaf):
    tree = {"layers": [{"w": nx.named(jnp.ones((4, 2)), ["a", "b"]), "activation": leaf, "rate": 0.5, "none": None}]}
    with pytest.raises(
        ArgumentTypeError,
        match=r"^shard, x\['layers'\]\[0\]\['activation'\]: .* is not an array that JAX supports\. Remove",
    ):
        nx.shard(tree, {"a": "x"}, make_mesh((2,)))
    with pytest.raises(ArgumentTypeError, match=r"^shard: .* is not an array that JAX supports\. Pass an array, or a pytree"):
        nx.shard(leaf, {"a": "x"}, make_mesh((2,)))
