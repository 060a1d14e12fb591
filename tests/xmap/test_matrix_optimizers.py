"""Muon, Adafactor and Shampoo over named rows and columns.

The oracles are optax on the matrices of the batch, one by one, and Shampoo of the papers in NumPy with 64 bits.
"""

import contextlib
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    AxisSizeError,
    PositionalAxisError,
    RawBlockError,
)
from namedax.interop import adafactor, muon, scale_by_muon, scale_by_shampoo, shampoo
from tests.harness import FEW, Lazily, array, make_mesh

optax, contrib = Lazily("optax"), Lazily("optax.contrib")

SIDES = {"rows": "a", "columns": {"b", "h"}}
ORDERS = {"w": ["a", "b"], "turned": ["b", "a"], "layers": ["l", "b", "h", "a", None], "scale": ["a"], "other": []}
SHAPES = {"w": (8, 4), "turned": (4, 8), "layers": (5, 4, 2, 8, 3), "scale": (8,), "other": (3,)}


def parameters(seed=0, dtype=jnp.float32):
    arrays = {name: array(*shape, seed=seed).astype(dtype) for name, shape in SHAPES.items()}
    return {name: nx.named(x, ORDERS[name]) if ORDERS[name] else x for name, x in arrays.items()}


def matrices(tree):
    """Every matrix of the batches as an array of its own, rows first; and the parameters that are none."""
    data = {name: np.asarray(leaf.data if isinstance(leaf, nx.NamedArray) else leaf) for name, leaf in tree.items()}
    layers = data["layers"]
    return {
        "w": data["w"],
        "turned": data["turned"].T,
        **{f"layer {i} {j}": layers[i, ..., j].reshape(8, 8).T for i, j in itertools.product(range(5), range(3))},
        "scale": data["scale"],
        "other": data["other"],
    }


def steps(optimizer, params, gradients):
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params, state


GRADIENTS = [parameters(1), parameters(2)]


def oracle_of(optimizer):
    """The new parameters of optax, which gets every matrix as a parameter of its own."""
    gradients = [matrices(gradient) for gradient in GRADIENTS]
    return jax.jit(lambda params: steps(optimizer, params, gradients)[0])(matrices(parameters()))


OPTIMIZERS = {
    "muon": (muon(0.1, **SIDES, weight_decay=0.1), lambda: contrib.muon(0.1, weight_decay=0.1, adam_weight_decay=0.0)),
    "adafactor": (
        adafactor(0.1, **SIDES, min_dim_size_to_factor=4, momentum=0.9, weight_decay_rate=0.01),
        lambda: optax.adafactor(0.1, min_dim_size_to_factor=4, momentum=0.9, weight_decay_rate=0.01),
    ),
}


def adam_without_nesterov(oracle):
    """optax's Muon has Adam with Nesterov momentum for vectors, and this one has AdamW."""
    want = dict(oracle)
    vectors = {"scale", "other"}

    def select(tree):
        return {name: leaf for name, leaf in matrices(tree).items() if name in vectors}

    return want | steps(optax.adamw(0.1, weight_decay=0.0), select(parameters()), [select(g) for g in GRADIENTS])[0]


@functools.cache
def oracle(name):
    want = oracle_of(OPTIMIZERS[name][1]())
    return adam_without_nesterov(want) if name == "muon" else want


def close(have, want, tol=2e-5):
    have = matrices(have)
    assert have.keys() == want.keys()
    for name in have:
        np.testing.assert_allclose(have[name], want[name], rtol=tol, atol=tol, err_msg=name)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", FEW, ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optax_on_matrices(name, placement):
    optimizer = OPTIMIZERS[name][0]
    with placement.context():
        program = nx.xmap(functools.partial(steps, optimizer), **placement.options)
        params, _ = program(parameters(), GRADIENTS)
    close(params, oracle(name))
    assert params["layers"].dims == ("l", "b", "h", "a", None)


OTHERS = {
    "layers in chunks": ((2,), {"l": "x"}),
    "uneven": ((3, 2), {"a": "x", "b": "y"}),
    "uneven layers": ((4, 2), {"l": "x", "h": "y"}),
    "two names of a side": ((2, 4), {"h": "x", "b": "y"}),
    "three mesh axes": ((2, 2, 2), {"a": "x", "b": "y", "h": "z"}),
    "reversed": ((4, 2), {"a": ("y", "x")}),
    "steps": ((2,), {"a": nx.SerialLoop(2), "b": "x"}),
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optax_on_matrices_in_other_layouts(name, case):
    shape, resources = OTHERS[case]
    mesh = jax.make_mesh(shape, ("x", "y", "z")[: len(shape)])
    program = nx.xmap(functools.partial(steps, OPTIMIZERS[name][0]), axis_resources=resources, mesh=mesh)
    close(program(parameters(), GRADIENTS)[0], oracle(name))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_outside_of_bodies(name, kind):
    """Global arrays under `jit`; on Explicit axes the types have the sharding."""
    mesh = make_mesh((4, 2), kind)
    with jax.set_mesh(mesh) if kind == "explicit" else contextlib.nullcontext():
        params, gradients = nx.shard((parameters(), GRADIENTS), {"a": "x", "b": "y"}, mesh)
        params, state = jax.jit(functools.partial(steps, OPTIMIZERS[name][0]))(params, gradients)
    close(params, oracle(name))
    assert params["w"].sharding.spec == P("x", "y")
    sharded = state.matrices[0].mu if name == "muon" else state[0].rows
    assert sharded["w"].sharding.spec[0] == "x"


def transposed(tree):
    """The same arrays in another storage order."""
    orders = {"w": ["b", "a"], "turned": ["a", "b"], "scale": ["a"], "layers": ["a", "h", None, "b", "l"]}
    return {
        name: nx.order_like(leaf, nx.named(jnp.zeros([1] * len(orders[name])), orders[name])) if name in orders else leaf
        for name, leaf in tree.items()
    }


@pytest.mark.fast(0)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_storage_order_does_not_matter(name):
    program = nx.xmap(
        functools.partial(steps, OPTIMIZERS[name][0]), axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((4, 2))
    )
    params, _ = program(transposed(parameters()), [transposed(gradient) for gradient in GRADIENTS])
    assert params["layers"].dims == ("a", "h", None, "b", "l")
    close(nx.order_like(params, parameters()), oracle(name))


SETTINGS = {
    "no Nesterov": {"nesterov": False},
    "adaptive": {"adaptive": True},
    "spectral": {"preconditioning": "spectral"},
    "aol": {"preconditioning": "aol"},
    "schatten": {"preconditioning": "schatten"},
    "coefficients per step": {
        "ns_coeffs": ((4.0848, -6.8946, 2.927), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037)),
        "ns_steps": 5,
    },
    "seven steps": {"ns_steps": 7},
    "dtype of the momentum": {"mu_dtype": jnp.bfloat16},
    "consistent": {"consistent_rms": 0.2},
    "schedule": {"learning_rate": optax.linear_schedule(0.1, 0.0, 4)},
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", ["gathered", "summed"])
@pytest.mark.parametrize("case", SETTINGS)
def test_settings_of_muon(case, layout):
    """Wide matrices, so that sums of products send the least."""
    options = {"learning_rate": 0.1} | SETTINGS[case]
    columns = 8 if layout == "gathered" else 64
    trees = [{"w": nx.named(array(4, columns, seed=seed), ["a", "b"])} for seed in range(3)]
    own = muon(rows="a", columns="b", **options)
    program = nx.xmap(functools.partial(steps, own), axis_resources={"b": "x", "a": "y"}, mesh=make_mesh((4, 2)))
    have, _ = program(trees[0], trees[1:])
    plain = [{"w": tree["w"].data} for tree in trees]
    want, _ = jax.jit(functools.partial(steps, optax.contrib.muon(**options)))(plain[0], plain[1:])
    tol = 2e-3 if "mu_dtype" in options else 3e-5
    np.testing.assert_allclose(have["w"].data, want["w"], rtol=tol, atol=tol)
    if layout == "summed":
        sent = nx.hlo.collectives(program.lower(trees[0], trees[1:]).compile())
        assert any(one.kind == "all-reduce" for one in sent)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_bfloat16():
    """The iteration runs in float32, so the result is that of float32 but for the rounding of the momentum and of the update."""
    params, gradients = parameters(0, jnp.bfloat16), [parameters(1, jnp.bfloat16)]
    optimizer = scale_by_muon(**SIDES)
    exact = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (params, gradients))
    want, _ = optimizer.update(exact[1][0], optimizer.init(exact[0]))
    program = nx.xmap(
        lambda p, g: optimizer.update(g, optimizer.init(p)), axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((4, 2))
    )
    have, state = program(params, gradients[0])
    assert have["w"].dtype == state.matrices.mu["w"].dtype == jnp.bfloat16
    for name, leaf in matrices(have).items():
        np.testing.assert_allclose(leaf.astype(float), matrices(want)[name], atol=0.03)


SHORT = {"rows": "a", "columns": "b"}
EVERY = {
    "muon": lambda: muon(0.1, **SHORT, weight_decay=0.1),
    "adaptive muon": lambda: scale_by_muon(**SHORT, adaptive=True, preconditioning="aol"),
    "adafactor": lambda: adafactor(0.1, **SHORT, min_dim_size_to_factor=0, momentum=0.9, dtype_momentum=None),
    "unfactored adafactor": lambda: adafactor(0.1, **SHORT, factored=False),
    "shampoo": lambda: shampoo(0.1, **SHORT),
    "shampoo without grafting": lambda: scale_by_shampoo(**SHORT, graft=None, eps=1e-12),
    "clip_by_global_norm": lambda: nx.interop.clip_by_global_norm(1.0),
}
DIMS = {"w": ["a", "b"], "none": ["a", "b"], "one": ["b", "a"], "layers": ["l", "b", "a"], "scale": ["b"]}
SIZE = {"w": (4, 6), "none": (0, 6), "one": (1, 1), "layers": (2, 6, 4), "scale": (6,), "other": (3,), "number": ()}
TYPES = ["bfloat16", "float16", "float32", "int32"]


def short(dtype, scale, seed):
    rng = np.random.default_rng(seed)
    arrays = {name: jnp.asarray(rng.standard_normal(shape) * scale).astype(dtype) for name, shape in SIZE.items()}
    # In a mapped body an axis has one size.
    renamed = {"none": {"a": "n", "b": "b"}, "one": {"a": "i", "b": "j"}}
    named = {name: nx.named(x, DIMS[name]) if name in DIMS else x for name, x in arrays.items()}
    return named, {name: nx.rename(x, renamed[name]) if name in renamed else x for name, x in named.items()}


def types_of(tree):
    return [(str(leaf.dtype), leaf.shape, leaf.weak_type) for leaf in map(jnp.asarray, jax.tree.leaves(tree))]


def run_short(optimizer, params, gradients):
    state = optimizer.init(params)
    before = types_of(state)
    for gradient in gradients:
        updates, state = optimizer.update(gradient, state, params)
        assert types_of(state) == before
    return updates, state


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize("scale", [300, 0])
@pytest.mark.parametrize("types", [*itertools.product(TYPES, TYPES)], ids="-".join)
@pytest.mark.parametrize("name", EVERY)
def test_states_keep_their_types_and_values_are_those_of_float32(name, types, scale):
    """Arrays without elements and with one, numbers, zero gradients, and gradients whose squares exceed float16."""
    optimizer = EVERY[name]()
    params, *gradients = (short(*each)[0] for each in ((types[0], 3, 0), (types[1], scale, 1), (types[1], scale, 2)))
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (params, gradients))
    wanted, _ = run_short(optimizer, *wide)
    updates, state = run_short(optimizer, params, gradients)
    for leaf in jax.tree.leaves((updates, state)):
        assert np.isfinite(np.asarray(leaf, float)).all()
    for have, want in zip(jax.tree.leaves(updates), jax.tree.leaves(wanted), strict=True):
        assert have.dtype == {"int32": "float32"}.get(types[1], types[1])
        np.testing.assert_allclose(np.asarray(have, float), want, atol=0.03 * max(0.01, np.abs(want).max(initial=0)))


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("types", [("bfloat16", "float32"), ("float16", "float16"), ("float32", "bfloat16")], ids="-".join)
@pytest.mark.parametrize("name", EVERY)
def test_short_types_in_a_mapped_body(name, types):
    optimizer = EVERY[name]()
    params, *gradients = (short(*each)[1] for each in ((types[0], 3, 0), (types[1], 300, 1), (types[1], 300, 2)))
    mapped = nx.xmap(functools.partial(run_short, optimizer), axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((2, 2)))
    for have, want in zip(
        jax.tree.leaves(mapped(params, gradients)), jax.tree.leaves(run_short(optimizer, params, gradients)), strict=True
    ):
        have, want = (np.asarray(each, float) for each in (have, want))
        assert np.isfinite(have).all()
        np.testing.assert_allclose(have, want, atol=0.03 * max(0.01, np.abs(want).max(initial=0)))


@pytest.mark.parametrize("name", ["muon", "adafactor", "shampoo"])
def test_a_step_compiles_once_and_is_a_body_of_scan(name):
    optimizer = EVERY[name]()
    params = {"w": nx.named(array(4, 6).astype(jnp.bfloat16), ["a", "b"])}
    gradients = {"w": nx.named(array(3, 4, 6), [None, "a", "b"])}

    def step(state, gradient):
        updates, state = optimizer.update(gradient, state, params)
        return state, updates

    state, _ = jax.lax.scan(step, optimizer.init(params), gradients)
    assert types_of(state) == types_of(optimizer.init(params))


@pytest.mark.fast(0)
def test_norms_of_short_types():
    for dtype in (jnp.float16, jnp.bfloat16, jnp.int8, jnp.uint16, jnp.float8_e4m3fn):
        x = jnp.asarray([100, 110, 120]).astype(dtype)
        have = nx.interop.global_norm({"w": nx.named(x, ["a"])})
        assert have.dtype == jnp.float32
        np.testing.assert_allclose(have, np.linalg.norm(np.asarray(x, np.float64)), rtol=1e-6)
    large = {"w": nx.named(jnp.full(5, 6e4, jnp.float16), ["a"])}
    np.testing.assert_allclose(nx.interop.global_norm(large), 6e4 * 5**0.5, rtol=1e-3)
    clipped, _ = nx.interop.clip_by_global_norm(1.0).update(large, optax.EmptyState())
    assert clipped["w"].dtype == jnp.float16
    np.testing.assert_allclose(clipped["w"].data, 5**-0.5, rtol=1e-3)


def exact(x, count=5):
    x = np.asarray(x, np.float64)
    x = x / np.linalg.norm(x)
    for _ in range(count):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


@pytest.mark.fast(0)
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e8])
def test_sums_of_products_are_as_exact_as_steps_on_matrices(condition):
    """Three steps on a product and a new one. All five on one would be wrong by 1e-4 here."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (16, 128))
    x = (left * np.geomspace(1, 1 / condition, 16)) @ right[:16]
    leaf = {"w": nx.named(jnp.asarray(x, jnp.float32), ["a", "b"])}
    optimizer = scale_by_muon(rows="a", columns="b")
    program = nx.xmap(lambda g: optimizer.update(g, optimizer.init(g))[0], axis_resources={"b": "x"}, mesh=make_mesh((8,)))
    sent = nx.hlo.collectives(program.lower(leaf).compile())
    assert [(one.kind, one.bytes) for one in sent] == [("all-reduce", 16 * 16 * 4)] * 2
    np.testing.assert_allclose(program(leaf)["w"].data, exact(leaf["w"].data), atol=2e-5)


# --- communication ---------------------------------------------------------------------------------------------------

PROGRAMS = {
    "no side is sharded": ({"l": 8, "a": 4, "b": 8}, {"l": "x"}, []),
    # Each device gets one of eight layers, and sends the result back.
    "a batch": ({"l": 8, "a": 16, "b": 16}, {"b": "x"}, [("all-to-all", 8 * 16 * 2 * 4)] * 2),
    "a batch and two sides": ({"l": 8, "a": 16, "b": 16}, {"a": "x", "b": "y"}, [("all-to-all", 8 * 4 * 8 * 4)] * 2),
    "one matrix": ({"a": 16, "b": 16}, {"b": "x"}, [("all-gather", 16 * 16 * 4)]),
    # On gathered matrices every device would compute everything.
    "one large matrix": ({"a": 2048, "b": 2048}, {"b": "x"}, [("all-reduce", 2048 * 2048 * 4)] * 5),
    "one wide matrix": ({"a": 4, "b": 64}, {"b": "x"}, [("all-reduce", 4 * 4 * 4)] * 2),
    # Rows are exchanged for columns, and back.
    "one wide matrix, sharded rows": (
        {"a": 8, "b": 512},
        {"a": "x"},
        [("all-to-all", 512 * 4)] * 2 + [("all-reduce", 8 * 8 * 4)] * 2,
    ),
}


@pytest.mark.full(2)
@pytest.mark.fast(3)
@pytest.mark.parametrize("case", PROGRAMS)
def test_what_muon_sends(case):
    sizes, resources, want = PROGRAMS[case]
    mesh = make_mesh((4, 2) if "y" in resources.values() else (8,))
    leaf = {"w": nx.named(array(*sizes.values()), list(sizes))}
    optimizer = scale_by_muon(rows="a", columns="b")
    program = nx.xmap(lambda g, s: optimizer.update(g, s), axis_resources=resources, mesh=mesh)
    sent = nx.hlo.collectives(program.lower(leaf, optimizer.init(leaf)).compile())
    assert sorted((one.kind, one.bytes) for one in sent) == sorted(want)


def test_parameters_of_one_shape_share_collectives():
    tree = {name: nx.named(array(16, 16, seed=seed), ["a", "b"]) for seed, name in enumerate("abcdefgh")}
    optimizer = scale_by_muon(rows="a", columns="b")
    program = nx.xmap(lambda g, s: optimizer.update(g, s), axis_resources={"b": "x"}, mesh=make_mesh((8,)))
    sent = nx.hlo.collectives(program.lower(tree, optimizer.init(tree)).compile())
    assert [(one.kind, one.bytes) for one in sent] == [("all-to-all", 8 * 16 * 2 * 4)] * 2
    have, _ = program(tree, optimizer.init(tree))
    np.testing.assert_allclose(have["c"].data, exact(tree["c"].data), atol=2e-5)


@pytest.mark.fast(0)
def test_the_collectives_of_a_hand_written_step():
    """The same collectives, with the same bytes, as `shard_map` with a distributed batch."""
    mesh = make_mesh((8,))
    x = array(8, 16, 16)

    def by_hand(block):
        whole = jax.lax.all_to_all(block, "x", 0, 2, tiled=True)
        whole = whole / jnp.linalg.norm(whole, axis=(1, 2), keepdims=True)
        for _ in range(5):
            a = whole @ whole.swapaxes(1, 2)
            whole = 3.4445 * whole + (-4.7750 * a + 2.0315 * a @ a) @ whole
        return jax.lax.all_to_all(whole, "x", 2, 0, tiled=True)

    hand = jax.jit(jax.shard_map(by_hand, mesh=mesh, in_specs=P(None, None, "x"), out_specs=P(None, None, "x")))
    optimizer = scale_by_muon(rows="a", columns="b")
    leaf = {"w": nx.named(x, ["l", "a", "b"])}
    program = nx.xmap(lambda g: optimizer.update(g, optimizer.init(g))[0], axis_resources={"b": "x"}, mesh=mesh)
    np.testing.assert_allclose(program(leaf)["w"].data, hand(x), atol=2e-5)

    def sent(compiled):
        return [(one.kind, one.bytes) for one in nx.hlo.collectives(compiled)]

    assert sent(program.lower(leaf).compile()) == sent(hand.lower(x).compile())


# --- Shampoo ---------------------------------------------------------------------------------------------------------


def shampoo_of_the_papers(gradients, beta, eps, graft, update_every, block_size):
    """The last update of one matrix."""
    shape = gradients[0].shape
    left, right, square = np.zeros((shape[0],) * 2), np.zeros((shape[1],) * 2), 0
    used = [n <= block_size for n in shape]
    for t, g in enumerate(np.asarray(gradients, np.float64)):
        weight = 1 if beta == 1 else 1 - beta
        left, right = beta * left + weight * g @ g.T, beta * right + weight * g.T @ g
        if t % update_every == 0:
            roots = []
            for matrix, is_used in ((left, used[0]), (right, used[1])):
                values, vectors = np.linalg.eigh(matrix)
                values = np.maximum(values, 0) + eps * values[-1]
                roots.append(vectors * values ** (-0.5 / sum(used)) @ vectors.T if is_used else np.eye(len(matrix)))
        update = roots[0] @ g @ roots[1]
        square = 0.999 * square + 0.001 * g * g
        like = {"adam": g / (np.sqrt(square / (1 - 0.999 ** (t + 1))) + 1e-8), "sgd": g, None: update}[graft]
        update = update * np.linalg.norm(like) / np.linalg.norm(update)
    return update


SHAMPOO = {
    "averages": {"beta": 0.9, "graft": "adam", "update_every": 1, "block_size": 64},
    "sums": {"beta": 1.0, "graft": None, "update_every": 1, "block_size": 64},
    "every second step": {"beta": 0.9, "graft": "sgd", "update_every": 2, "block_size": 64},
    "one side": {"beta": 0.9, "graft": "sgd", "update_every": 1, "block_size": 4},
}


def run_shampoo(options, params, gradients):
    optimizer = scale_by_shampoo(**SIDES, eps=1e-2, **options)
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update(gradient, state, params)
    return updates, state


def check_shampoo(have, options):
    gradients = [matrices(gradient) for gradient in GRADIENTS]
    for name, leaf in matrices(have).items():
        if leaf.ndim == 2 and min(leaf.shape) <= options["block_size"]:
            want = shampoo_of_the_papers([g[name] for g in gradients], eps=1e-2, **options)
            np.testing.assert_allclose(leaf, want, rtol=1e-4, atol=5e-5, err_msg=name)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", FEW, ids=str)
@pytest.mark.parametrize("case", SHAMPOO)
def test_shampoo_of_the_papers(case, placement):
    options = SHAMPOO[case]
    with placement.context():
        program = nx.xmap(functools.partial(run_shampoo, options), **placement.options)
        have, state = program(parameters(), GRADIENTS)
    check_shampoo(have, options)
    assert set(state.matrices.statistics["turned"][1 if case == "one side" else 0].dims) == (
        {"b", "b'"} if case == "one side" else {"a", "a'"}
    )


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("case", ["uneven", "two names of a side", "steps", "auto", "explicit"])
def test_shampoo_in_other_layouts(case):
    options = SHAMPOO["every second step"]
    run = functools.partial(run_shampoo, options)
    if case in OTHERS:
        shape, resources = OTHERS[case]
        mesh = jax.make_mesh(shape, ("x", "y", "z")[: len(shape)])
        have, _ = nx.xmap(run, axis_resources=resources, mesh=mesh)(parameters(), GRADIENTS)
        return check_shampoo(have, options)
    mesh = make_mesh((4, 2), case)
    with jax.set_mesh(mesh) if case == "explicit" else contextlib.nullcontext():
        have, state = jax.jit(run)(*nx.shard((parameters(), GRADIENTS), {"a": "x", "b": "y"}, mesh))
    check_shampoo(have, options)
    assert state.matrices.statistics["w"][0].sharding.spec[0] == "x"


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_shampoo_with_momentum_and_weight_decay():
    optimizer = shampoo(0.1, **SIDES, momentum=0.5, weight_decay=0.1, eps=1e-2, graft="sgd")
    params, gradient = parameters(), GRADIENTS[0]
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    g = matrices(gradient)["w"]
    scaled = shampoo_of_the_papers([g], 0.999, 1e-2, "sgd", 1, 64)
    want = -0.1 * (0.5 * scaled + 0.1 * matrices(params)["w"])
    np.testing.assert_allclose(updates["w"].data, want, rtol=1e-3, atol=1e-4)


# --- names, fallbacks and errors -------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("make", [muon, adafactor, shampoo])
def test_the_fallback_gets_all_others(make):
    optimizer = make(0.1, **SIDES, fallback=optax.sgd(1.0))
    params, gradient = parameters(), GRADIENTS[0]
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    np.testing.assert_array_equal(updates["scale"].data, -gradient["scale"].data)
    np.testing.assert_array_equal(updates["other"], -gradient["other"])
    assert updates["w"].dims == ("a", "b")
    assert not np.allclose(updates["w"].data, -gradient["w"].data)


@pytest.mark.fast(0)
def test_other_rows_and_columns_for_one_parameter():
    def override(path, leaf):
        return {"w": ("b", "a"), "layers": ((), ())}.get(path[0].key)

    params, gradient = parameters(), GRADIENTS[0]
    optimizer = muon(0.1, **SIDES, override=override, fallback=optax.sgd(1.0))
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    reference = muon(0.1, rows="b", columns="a", fallback=optax.sgd(1.0))
    want, _ = reference.update(gradient, reference.init(params), params)
    np.testing.assert_allclose(updates["w"].data, want["w"].data, atol=1e-6)
    np.testing.assert_array_equal(updates["layers"].data, -gradient["layers"].data)


MISTAKES = [
    (
        lambda: muon(0.1, rows={"a", "b"}, columns={"b"}),
        ArgumentError,
        r"muon: the axis names 'b' are in rows and in columns\. Remove",
    ),
    (lambda: muon(0.1, rows=(), columns={"b"}), ArgumentError, r"muon: rows has no axis name\. Pass"),
    (
        lambda: shampoo(0.1, rows="q", columns="b").init(parameters()),
        AxisNotFoundError,
        r"shampoo: no parameter has the axis names 'q' of rows\. Choose from 'a', 'b', 'h', 'l'\.",
    ),
    (
        lambda: adafactor(0.1, rows="a", columns={"b", "q"}).init(parameters()),
        AxisNotFoundError,
        r"adafactor: no parameter has the axis names 'q' of columns",
    ),
    (
        lambda: muon(0.1, **SIDES, override=lambda path, leaf: ("a", "q")).init(parameters()),
        AxisNotFoundError,
        r"muon: override returned the names 'q' for \['layers'\]|muon: override returned the names",
    ),
    (
        lambda: muon(0.1, **SIDES, override=lambda path, leaf: "a").init(parameters()),
        ArgumentError,
        r"muon: override returned 'a' for \['layers'\]\. Return a pair",
    ),
    (lambda: muon(0.1, **SIDES, override=3), ArgumentTypeError, r"muon: override must be a function .* got 3\."),
    (
        lambda: muon(0.1, **SIDES, preconditioning="fro"),
        ArgumentError,
        r"muon: unknown preconditioning 'fro'\. Choose from 'frobenius'",
    ),
    (lambda: muon(0.1, **SIDES, ns_steps=0), ArgumentError, r"muon: ns_steps must be a positive integer, got 0"),
    (
        lambda: muon(0.1, **SIDES, ns_coeffs=(1.0, 2.0)),
        ArgumentError,
        r"muon: ns_coeffs must have three numbers, or three for each step, got",
    ),
    (
        lambda: shampoo(0.1, **SIDES, graft="lamb"),
        ArgumentError,
        r"shampoo: unknown graft 'lamb'\. Choose from 'adam', 'sgd', None",
    ),
    (lambda: shampoo(0.1, **SIDES, update_every=0), ArgumentError, r"shampoo: update_every must be a positive integer, got 0"),
    (
        lambda: adafactor(0.1, **SIDES).update(GRADIENTS[0], adafactor(0.1, **SIDES).init(parameters())),
        ArgumentError,
        r"adafactor: update has no parameters, and the scale of an update is that of its parameter\. Pass",
    ),
]


@pytest.mark.fast(7)
@pytest.mark.parametrize("case", range(len(MISTAKES)))
def test_mistakes(case):
    call, error, message = MISTAKES[case]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.fast(0)
def test_states_are_saved_and_restored_in_another_layout(tmp_path):
    optimizer = muon(0.1, **SIDES)
    mesh = make_mesh((4, 2))
    params = nx.shard(parameters(), {"a": "x", "b": "y"}, mesh)
    state = jax.jit(optimizer.init)(params)
    _, state = jax.jit(optimizer.update)(nx.shard(GRADIENTS[0], {"a": "x", "b": "y"}, mesh), state, params)
    nx.checkpoints.save(tmp_path / "state", state)
    back = nx.checkpoints.restore(tmp_path / "state", state, axis_resources={"a": "y"}, mesh=mesh)
    np.testing.assert_array_equal(back.matrices[0].mu["w"].data, state.matrices[0].mu["w"].data)
    assert back.matrices[0].mu["w"].sharding.spec[0] == "y"


# --- optax in a body -------------------------------------------------------------------------------------------------

IN_A_BODY = [
    (
        lambda: optax.sm3(0.1),
        PositionalAxisError,
        r"an array with axes \('w',\) holds a list as its data\. .* use muon, shampoo or adafactor of nx\.interop\.",
    ),
    (
        lambda: optax.scale_by_factored_rms(),
        PositionalAxisError,
        r"an array with axes \('a', 'b'\) holds data of shape \(1,\)\. .* use nx\.interop\.adafactor\.\)",
    ),
    (lambda: optax.adafactor(0.1), AxisSizeError, r"size 1 in argument .* of shape \(1,\); .* use nx\.interop\.adafactor\.\)"),
    (
        lambda: contrib.muon(0.1),
        PositionalAxisError,
        r"an array with axes \('a', 'b'\) holds a MaskedNode as its data\. .* use muon, shampoo or adafactor of nx\.interop\.",
    ),
    (lambda: optax.lamb(0.1), RawBlockError, r"takes the sum of all elements .* optax calls this function\. Use muon"),
]


@pytest.mark.parametrize("case", range(len(IN_A_BODY)))
def test_what_to_use_in_place_of_optax_in_a_body(case):
    make_optimizer, error, message = IN_A_BODY[case]
    optimizer = make_optimizer()
    tree = {"w": nx.named(array(8), ["w"]) if case == 0 else nx.named(array(8, 4), ["a", "b"])}
    if case == 2:
        tree["v"] = nx.named(array(8), ["a"])
    program = nx.xmap(
        lambda g, s, p: optimizer.update(g, s, p), axis_resources={"w": "x"} if case == 0 else {"a": "x"}, mesh=make_mesh((8,))
    )
    with pytest.raises(error, match=message):
        program(tree, optimizer.init(tree), tree)
    if case < 3:
        with pytest.raises((AxisSizeError, PositionalAxisError), match="adafactor"):
            nx.xmap(optimizer.init, axis_resources={"w": "x"} if case == 0 else {"a": "x"}, mesh=make_mesh((8,)))(tree)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"l": "x"}, {"a": "x"}, {"b": "x"}, {"a": "x", "b": "y"}], ids=str)
def test_optax_adds_updates_to_parameters_in_a_body(resources):
    """Matrices of a batch are distributed over devices and come back; the check of blocks must not take that for mixing."""
    params = {"w": nx.named(array(6, 8, 4), ["l", "a", "b"])}
    optimizer = scale_by_muon(rows="a", columns="b")

    def step(params):
        updates, _ = optimizer.update(params, optimizer.init(params), params)
        return optax.apply_updates(params, updates)

    have = nx.xmap(step, axis_resources=resources, mesh=make_mesh((2, 2)))(params)
    np.testing.assert_allclose(
        nx.positional(have["w"], ["l", "a", "b"]), nx.positional(step(params)["w"], ["l", "a", "b"]), atol=2e-5
    )
