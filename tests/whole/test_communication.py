"""Law 5: no communication is wasted.

A named program sends, forwards and backwards, what the best program sends that a person writes by hand for the same layout:
the oracles' count and bytes of every kind of collective, or figures on paper where there is no oracle.
"""

import functools
from collections import Counter

import jax
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from tests.oracles import NETWORK, ORACLES, make_mesh

REDUCE, GATHER, SCATTER = "all-reduce", "all-gather", "reduce-scatter"
PERMUTE = "collective-permute"
FLOAT = 4  # bytes


# --- the models of the oracles, by name -------------------------------------------------------------


def network(w1, w2, images, labels):
    hidden = nx.nn.relu(nx.dot(images, w1, "inputs"))
    logits = nx.dot(hidden, w2, "hidden")
    logp = logits - nx.logsumexp(logits, "classes")
    target = nx.nn.one_hot(labels, axis="classes").astype(logp.dtype)
    return -nx.mean(nx.sum(target * logp, "classes"), "batch")


def block(w1, w2, x, target):
    """One body for every assignment: where a weight or a position is stored in parts, einsum reads and writes it so."""
    hidden = nx.einsum("{batch,pos:pos_sp,embed},{embed:embed_fsdp,hidden}->{batch,pos,hidden}", x, w1)
    out = nx.einsum("{batch,pos,hidden},{hidden,embed:embed_fsdp}->{batch,pos_sp:pos,embed}", nx.nn.gelu(hidden), w2)
    return nx.mean((x + out - target) ** 2, ("batch", "pos_sp", "embed"))


BLOCK_AXES = (["embed_fsdp", "hidden"], ["hidden", "embed_fsdp"], ["batch", "pos_sp", "embed"], ["batch", "pos_sp", "embed"])


def program(name):
    if ORACLES[name].model is NETWORK:
        return network, tuple(list(dims) for dims in NETWORK.dims.values())
    return block, BLOCK_AXES


def step(body, in_axes, argnums, resources, mesh, inside):
    """Value and gradient, differentiated in the mapped body or outside of it."""
    options = {"axis_resources": resources, "mesh": mesh}
    if not inside:
        return jax.jit(jax.value_and_grad(nx.xmap(body, in_axes, [], **options), argnums))
    out_axes = ([], tuple(in_axes[i] for i in argnums))
    return jax.jit(nx.xmap(jax.value_and_grad(body, argnums), in_axes, out_axes, **options))


def traffic(compiled):
    return Counter((c.kind, c.bytes, c.group_size) for c in hlo.collectives(compiled))


@functools.cache
def plain(model, argnums):
    return jax.jit(jax.value_and_grad(model.loss, argnums))(*model.arguments())


# The gradient is taken inside on the first mesh of an oracle, and outside on the last one; of the block with respect to x too.
CASES = [(name, inside) for name in ORACLES for inside in (True, False)]


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("name", "inside"), CASES, ids=lambda v: v if isinstance(v, str) else "inside" if v else "outside")
def test_as_the_oracle(name, inside):
    oracle = ORACLES[name]
    mesh = oracle.meshes()[0 if inside else -1]
    argnums = (0, 1) if oracle.model is NETWORK else (0, 1, 2)
    by_hand = jax.jit(oracle.value_and_grad(mesh, inside=inside, argnums=argnums)).lower(*oracle.abstract(mesh)).compile()
    body, in_axes = program(name)
    named = step(body, in_axes, argnums, dict(oracle.resources), mesh, inside).lower(*oracle.abstract(mesh)).compile()

    assert traffic(named) == traffic(by_hand)

    value, grads = named(*oracle.place(mesh, oracle.arguments()))
    want, want_grads = plain(oracle.model, argnums)
    np.testing.assert_allclose(value, want, rtol=1e-5)
    for grad, want in zip(grads, want_grads, strict=True):
        assert grad.dtype == np.float32
        np.testing.assert_allclose(grad, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_parameters_only():
    """Nobody asked for the gradient of x, so nothing is sent for it."""
    oracle = ORACLES["block/fsdp+tp"]
    mesh = oracle.meshes()[0]
    by_hand = jax.jit(oracle.value_and_grad(mesh, inside=True)).lower(*oracle.abstract(mesh)).compile()
    named = step(block, BLOCK_AXES, (0, 1), dict(oracle.resources), mesh, True).lower(*oracle.abstract(mesh)).compile()
    assert traffic(named) == traffic(by_hand)
    assert sum(traffic(named).values()) == 8


# --- programs without an oracle: the figures are those of an expert's analysis ---------------------

MESH = make_mesh(data=4, tensor=2)
SIZES = {"batch": 16, "seq": 6, "k": 24, "m": 40, "r": 8, "n": 56}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(16, 24)).astype(np.float32)
W = RNG.normal(size=(24, 40)).astype(np.float32)
A, B = (RNG.normal(size=shape).astype(np.float32) for shape in ((24, 8), (8, 56)))
SEQ = RNG.normal(size=(6, 16, 24)).astype(np.float32)
WEIGHT = FLOAT * W.size


def read(x, w):
    return nx.einsum("{batch,k},{k:k_stored,m}->{batch,m}", x, w)


def read_twice(w, x):
    return nx.mean(nx.sum(read(x, w) * nx.sin(read(x * x, w)), "m"), "batch")


def use_twice(w, x):
    return nx.mean(nx.sum(nx.dot(x, w, "k") * nx.sin(nx.dot(x * x, w, "k")), "m"), "batch")


def renamed_twice(w, x):
    return use_twice(nx.rename(nx.rename(w, {"k_stored": "k_read"}), {"k_read": "k"}), x)


def read_by_einsum(w, x):
    return use_twice(nx.einsum("{k:k_stored,m}->{k,m}", w), x)


def with_sequence(w, x):
    out = nx.einsum("{seq,batch,k},{k:k_stored,m}->{seq,batch,m}", x, w)
    return nx.mean(nx.sum(out**3, "m"), ("seq", "batch"))


FSDP = {"batch": "data", "k_stored": "data"}
GATHERED_ONCE = {(GATHER, WEIGHT, 4): 1, (SCATTER, WEIGHT, 4): 1}
HALF = {(GATHER, WEIGHT // 2, 4): 1, (SCATTER, WEIGHT // 2, 4): 1}

# The gradient of the first argument: body, names, arrays, assignment, and what it sends.
GRADIENTS = {
    "used-twice": (use_twice, (["k", "m"], ["batch", "k"]), (W, X), {"batch": "data"}, {(REDUCE, WEIGHT, 4): 1}),
    "used-twice-in-a-helper": (
        lambda w, x: jax.jit(use_twice)(w, x),
        (["k", "m"], ["batch", "k"]),
        (W, X),
        {"batch": "data"},
        {(REDUCE, WEIGHT, 4): 1},
    ),
    "read-twice": (read_twice, (["k_stored", "m"], ["batch", "k"]), (W, X), FSDP, GATHERED_ONCE),
    "read-twice-in-a-helper": (
        lambda w, x: jax.jit(read_twice)(w, x),
        (["k_stored", "m"], ["batch", "k"]),
        (W, X),
        FSDP,
        GATHERED_ONCE,
    ),
    "read-twice-with-tensor": (read_twice, (["k_stored", "m"], ["batch", "k"]), (W, X), {**FSDP, "m": "tensor"}, HALF),
    "renamed-then-used": (renamed_twice, (["k_stored", "m"], ["batch", "k"]), (W, X), FSDP, GATHERED_ONCE),
    "read-by-einsum-then-used": (read_by_einsum, (["k_stored", "m"], ["batch", "k"]), (W, X), FSDP, GATHERED_ONCE),
    # Over the mesh axis that does not store it, the gradient is reduced when it has been scattered, and is small.
    "stored-on-one-used-on-two": (
        with_sequence,
        (["k_stored", "m"], ["seq", "batch", "k"]),
        (W, SEQ),
        {**FSDP, "seq": "tensor"},
        {**GATHERED_ONCE, (REDUCE, WEIGHT // 4, 2): 1},
    ),
}


@pytest.mark.full(4)
@pytest.mark.fast(2)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_of_a_parameter(name):
    body, in_axes, args, resources, expected = GRADIENTS[name]
    f = jax.jit(nx.xmap(jax.grad(body), in_axes, in_axes[0], axis_resources=resources, mesh=MESH))
    assert traffic(f.lower(*args).compile()) == expected
    want = jax.jit(jax.grad(nx.xmap(body, in_axes, [])))(*args)
    np.testing.assert_allclose(f(*args), want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def lora(x, a, b):
    return nx.einsum("{batch,k},{k,r},{r,n}->{batch,n}", x, a, b)


def scattered(x, a, b):
    return nx.einsum("{batch,k},{k,r},{r,n}->{batch,n_stored:n}", x, a, b)


def alone(x):
    return nx.einsum("{batch,k:k_stored}->{batch}", x)


def two_partial_sums(x, a):
    return nx.einsum("{batch,k},{c:k,r}->{batch_stored:batch,r}", x, a)


# Forward programs: body, in_axes, out_axes, arrays, assignment, and what they send.
FORWARD = {
    # The sum over k of the smallest product, of batch and r.
    "three-operands": (
        lora,
        (["batch", "k"], ["k", "r"], ["r", "n"]),
        ["batch", "n"],
        (X, A, B),
        {"k": "data"},
        {(REDUCE, FLOAT * 16 * 8, 4): 1},
    ),
    # The sum waits until the result is written onto the mesh axis that it is over.
    "three-operands-scattered": (
        scattered,
        (["batch", "k"], ["k", "r"], ["r", "n"]),
        ["batch", "n_stored"],
        (X, A, B),
        {"k": "data", "n_stored": "data"},
        {(SCATTER, FLOAT * 16 * 56, 4): 1},
    ),
    # Each device sums what it has; to gather k first would send the whole of x.
    "summed-where-it-lies": (
        alone,
        (["batch", "k_stored"],),
        ["batch"],
        (X,),
        {"k_stored": "data"},
        {(REDUCE, FLOAT * 16, 4): 1},
    ),
    # Two sums over one mesh axis: the first must not wait for the second.
    "two-sums-on-one-mesh-axis": (
        two_partial_sums,
        (["batch", "k"], ["k", "r"]),
        ["batch_stored", "r"],
        (X, A),
        {"k": "data", "c": "data", "batch_stored": "data"},
        None,
    ),
    # A scatter onto a mesh axis that was reduced and one that was not: cut first, so that the smaller block is sent.
    "scattered-and-cut": (
        lambda x, w: nx.einsum("{batch,k},{k,m}->{batch,m_stored:m}", x, w),
        (["batch", "k"], ["k", "m"]),
        ["batch", "m_stored"],
        (X, W),
        {"k": "data", "m_stored": ("data", "tensor")},
        {(SCATTER, FLOAT * 16 * 40 // 2, 4): 1},
    ),
    "cut-and-scattered": (
        lambda x, w: nx.einsum("{batch,k},{k,m}->{batch,m_stored:m}", x, w),
        (["batch", "k"], ["k", "m"]),
        ["batch", "m_stored"],
        (X, W),
        {"k": "tensor", "m_stored": ("data", "tensor")},
        {(SCATTER, FLOAT * 16 * 40 // 4, 2): 1},
    ),
    "scattered-over-two": (
        lambda x, w: nx.einsum("{batch,k},{k,m}->{batch,m_stored:m}", x, w),
        (["batch", "k"], ["k", "m"]),
        ["batch", "m_stored"],
        (X, W),
        {"k": ("data", "tensor"), "m_stored": ("tensor", "data")},
        {(SCATTER, FLOAT * 16 * 40, 8): 1},
    ),
    # The result is written onto another mesh axis than it lies on, one of which was reduced: no all-reduce.
    "scattered-on-the-way": (
        lambda x, w: nx.einsum("{batch,k},{k,m}->{batch,m_stored:m}", x, w),
        (["batch", "k"], ["k", "m"]),
        ["batch", "m_stored"],
        (X, W),
        {"k": "tensor", "m": "data", "m_stored": "tensor"},
        {(SCATTER, FLOAT * 16 * 40 // 4, 2): 1, (PERMUTE, FLOAT * 16 * 40 // 8, 3): 1, (GATHER, FLOAT * 16 * 40 // 2, 4): 1},
    ),
    # What is not sharded and what only one operand shards sends nothing.
    "outer": (
        lambda x, w: nx.einsum("{batch,k},{l:k,m}->{batch,m,k,l}", x, w),
        (["batch", "k"], ["k", "m"]),
        ["batch", "m", "k", "l"],
        (X[:, :4], W[:4]),
        {"batch": "data", "m": "tensor"},
        {},
    ),
}


@pytest.mark.fast(4)
@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    body, in_axes, out_axes, args, resources, expected = FORWARD[name]
    f = nx.xmap(body, in_axes, out_axes, axis_resources=resources, mesh=MESH)
    want = nx.xmap(body, in_axes, out_axes)(*args)
    np.testing.assert_allclose(f(*args), want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    if expected is not None:
        assert traffic(f.lower(*args).compile()) == expected


def test_returned_as_replicated():
    """The transpose of a gather whose result counts as replicated is a slice: nothing is sent backwards."""
    f = nx.xmap(
        lambda w: nx.rename(w, {"k_stored": "k"}) ** 2,
        ["k_stored", "m"],
        ["k", "m"],
        axis_resources={"k_stored": "data"},
        mesh=MESH,
    )
    g = jax.jit(lambda w, ct: jax.vjp(f, w)[1](ct))
    assert traffic(g.lower(W, W).compile()) == {(GATHER, WEIGHT, 4): 1}
    np.testing.assert_allclose(g(W, W + 1)[0], 2 * W * (W + 1), rtol=1e-5)


# --- stacked parameters in parts, gathered before the loop over layers ----------------------------------------------------

LAYERS, EMBED, ROWS = 3, 16, 8
FSDP_LAYOUTS = {
    "batch and parts": ({"x": 8}, {"batch": "x", "embed_fsdp": "x"}),
    "parts over more": ({"x": 4, "y": 2}, {"batch": "x", "embed_fsdp": ("x", "y")}),
    "batch over more": ({"x": 4, "y": 2}, {"batch": ("x", "y"), "embed_fsdp": "x"}),
    "parts alone": ({"x": 8}, {"embed_fsdp": "x"}),
}


def a_layer(h, w):
    return nx.tanh(nx.rename(nx.dot(h, w, "embed"), {"out": "embed"}))


def renamed_before(w, x):
    w = nx.rename(w, {"embed_fsdp": "embed"})
    return nx.mean(nx.square(nx.fold(a_layer, x, w, axis="layer")), ("batch", "embed"))


def renamed_and_scaled_before(w, x):
    w = 2 * nx.rename(w, {"embed_fsdp": "embed"})
    return nx.mean(nx.square(nx.fold(a_layer, x, w, axis="layer")), ("batch", "embed"))


def renamed_before_and_remade(w, x):
    w = nx.rename(w, {"embed_fsdp": "embed"})
    return nx.mean(nx.square(nx.fold(jax.checkpoint(a_layer), x, w, axis="layer")), ("batch", "embed"))


def renamed_before_and_scanned_along_the_second_axis(w, x):
    w = nx.rename(w, {"embed_fsdp": "embed"})
    return nx.mean(nx.square(nx.scan(lambda h, w: (a_layer(h, w), None), x, w, axis="layer")[0]), ("batch", "embed"))


def stacked_by_hand(shape, resources, scale):
    """Each device gathers the stack once, and the gather's transpose scatters its gradient once."""
    mesh = make_mesh(**shape)
    parts, rows = (
        (axes,) if isinstance(axes, str) else tuple(axes) for axes in (resources["embed_fsdp"], resources.get("batch", ()))
    )
    P = jax.sharding.PartitionSpec

    def loss(w, x):
        apart = tuple(axis for axis in parts if axis not in rows)  # gathered first, and its gradient is the same on all of them
        over = tuple(axis for axis in rows if axis not in parts)
        w = jax.lax.pcast(w, over, to="varying") if over else w
        for axes, to in ((apart, "invarying"), (tuple(axis for axis in parts if axis in rows), "varying")):
            w = jax.lax.all_gather(w, axes, axis=1, tiled=True, to=to) if axes else w
        h, _ = jax.lax.scan(lambda h, w: (jax.numpy.tanh(h @ w), None), x, scale * w)
        total = (h**2).sum() / (ROWS * EMBED)
        return jax.lax.psum(total, rows) if rows else total

    return jax.shard_map(loss, mesh=mesh, in_specs=(P(None, parts or None), P(rows or None)), out_specs=P())


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("layout", FSDP_LAYOUTS)
@pytest.mark.parametrize(
    "body",
    [renamed_before, renamed_and_scaled_before, renamed_before_and_remade, renamed_before_and_scanned_along_the_second_axis],
)
def test_stacked_parameters_that_are_gathered_before_the_loop(body, layout, inside):
    shape, resources = FSDP_LAYOUTS[layout]
    w = np.linspace(-0.3, 0.4, LAYERS * EMBED * EMBED, dtype="float32").reshape(LAYERS, EMBED, EMBED)
    x = np.linspace(-1, 1, ROWS * EMBED, dtype="float32").reshape(ROWS, EMBED)
    scale = 2 if body is renamed_and_scaled_before else 1
    order = (1, 0, 2) if body is renamed_before_and_scanned_along_the_second_axis else (0, 1, 2)
    axes = ([["layer", "embed_fsdp", "out"][i] for i in order], ["batch", "embed"])
    f = step(body, axes, (0,), resources, make_mesh(**shape), inside)
    by_hand = jax.jit(jax.value_and_grad(stacked_by_hand(shape, resources, scale)))
    stored = w.transpose(order)
    total, (gradient,) = f(stored, x)
    want, wanted = by_hand(w, x)
    np.testing.assert_allclose(total, want, rtol=1e-5)
    np.testing.assert_allclose(np.transpose(gradient, order), wanted, rtol=1e-4, atol=1e-6)
    pairs = (f, stored), (by_hand, w)
    sent, best = (sum(c.wire_bytes * c.trips for c in hlo.collectives(g.lower(w, x).compile())) for g, w in pairs)
    assert sent <= best


# --- a mean, and the mean of a variance -----------------------------------------------------------------------------------

MEANS = {
    "mean, std": lambda x, m: (nx.mean(x, "batch"), nx.std(x, "batch")),
    "var, mean": lambda x, m: (nx.var(x, "batch"), nx.mean(x, "batch")),
    "kept": lambda x, m: (nx.mean(x, ("batch", 0), keepdims=True), nx.std(x, ("batch", 0))),
    "all": lambda x, m: (nx.mean(x, ...), nx.var(x, ...)),
    "masked": lambda x, m: (nx.mean(x, "batch", where=m), nx.std(x, "batch", where=m)),
    "standardised": lambda x, m: (x - nx.mean(x, "batch")) / nx.std(x, "batch", ddof=1),
}
BY_NUMPY = {
    "mean, std": lambda x, m: (x.mean(0), x.std(0)),
    "var, mean": lambda x, m: (x.var(0), x.mean(0)),
    "kept": lambda x, m: (x.mean((0, 1), keepdims=True)[0], x.std((0, 1))),
    "all": lambda x, m: (x.mean(), x.var()),
    "masked": lambda x, m: (x.mean(0, where=m), x.std(0, where=m)),
    "standardised": lambda x, m: (x - x.mean(0)) / x.std(0, ddof=1),
}


@pytest.mark.full(6)
@pytest.mark.fast(0)
@pytest.mark.parametrize("size", [16, 13])
@pytest.mark.parametrize("case", MEANS)
def test_a_mean_is_summed_once_for_itself_and_for_a_variance(case, size):
    x = np.random.default_rng(3).normal(2.0, 1.5, (size, 5)).astype("float32")
    mask = x > np.linspace(0, 1, 5, dtype="float32")
    axes = ["batch", None]
    f = jax.jit(nx.xmap(MEANS[case], axis_resources={"batch": ("x", "y")}, mesh=make_mesh(x=4, y=2)))
    args = nx.named(x, axes), nx.named(mask, axes)
    for have, want in zip(jax.tree.leaves(f(*args)), jax.tree.leaves(BY_NUMPY[case](x, mask)), strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-5, atol=1e-5)
    entries = {"kept": 1, "all": 1}.get(case, 5)
    counted = entries if case == "masked" else 0
    sent = [c for c in hlo.collectives(f.lower(*args).compile()) if c.kind == REDUCE]
    assert sum(c.count_of_operands for c in sent) == 2 + bool(counted)
    assert sum(c.bytes for c in sent) == FLOAT * (2 * entries + counted)
    assert nx.explain(f, *args).summary()[REDUCE] == (2 + bool(counted), FLOAT * (2 * entries + counted))
