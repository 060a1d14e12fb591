"""The finding of `nx.explain` about a mesh axis whose devices all compute the same, and its absence for good layouts."""

import inspect

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx

LAYERS, BATCH, POS, EMBED, HEADS, KEY, MLP = 3, 128, 64, 512, 8, 64, 2048


def mesh_of(kind=AxisType.Auto, **sizes):
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(kind,) * len(sizes))


def types(dtype="float32", **sizes):
    """A named array without data."""
    return jax.eval_shape(lambda: nx.zeros(named_shape=sizes, dtype=dtype))


def line_of(text, function):
    lines, first = inspect.getsourcelines(function)
    return f"test_repetition.py:{next(first + i for i, line in enumerate(lines) if text in line)}"


def repeated(f, *args):
    return [text for text in nx.explain(f, *args).findings if "devices" in text]


def layer(h, p):
    up = nx.nn.gelu(nx.einsum("{pos,embed},{embed:embed_fsdp,mlp}->{pos,mlp}", h, p["up"]))
    return h + nx.einsum("{pos,mlp},{mlp,embed:embed_fsdp}->{pos,embed}", up, p["down"])


def scanned(params, x, layer=layer):
    h, _ = nx.scan(lambda h, p: (layer(h, p), None), x, params, axis="layers")
    return nx.mean(nx.square(h), ("batch", "pos", "embed"))


def unrolled(params, x):
    for i in range(LAYERS):
        x = layer(x, {name: p["layers", i] for name, p in params.items()})
    return nx.mean(nx.square(x), ("batch", "pos", "embed"))


def folded(params, x):
    h = nx.fold(layer, x, params, axis="layers", remat="full")
    return nx.mean(nx.square(h), ("batch", "pos", "embed"))


def prefetched(params, x):
    h = nx.fold(layer, x, params, axis="layers", prefetch=1)
    return nx.mean(nx.square(h), ("batch", "pos", "embed"))


def piped(params, x):
    h = nx.pipeline(layer, x, params, microbatches=4)
    return nx.mean(nx.square(h), ("batch", "pos", "embed"))


PARAMS = {
    "up": types(layers=LAYERS, embed_fsdp=EMBED, mlp=MLP),
    "down": types(layers=LAYERS, mlp=MLP, embed_fsdp=EMBED),
}
STAGES = {
    "up": types(layers=4, embed_fsdp=EMBED, mlp=MLP),
    "down": types(layers=4, mlp=MLP, embed_fsdp=EMBED),
}
X = types(batch=BATCH, pos=POS, embed=EMBED)
FORMS = {
    "forward": lambda loss, **options: nx.xmap(loss, **options),
    "gradient inside": lambda loss, **options: nx.xmap(jax.value_and_grad(loss), **options),
    "gradient outside": lambda loss, **options: jax.jit(jax.value_and_grad(nx.xmap(loss, **options))),
    "recomputed": lambda loss, **options: nx.xmap(jax.grad(jax.checkpoint(loss)), **options),
}
LOOPS = {"scan": scanned, "python": unrolled, "fold": folded, "prefetch": prefetched}
FORGOTTEN = {"embed_fsdp": "data", "mlp": "model"}


@pytest.mark.fast(1)
@pytest.mark.full(7)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("form", FORMS)
def test_a_forgotten_batch(form, loop, kind):
    mesh = mesh_of(kind, data=4, model=2)
    (finding,) = repeated(FORMS[form](LOOPS[loop], axis_resources=FORGOTTEN, mesh=mesh), PARAMS, X)
    up, down = (line_of(text, layer) for text in ("{embed:embed_fsdp,mlp}", "->{pos,embed}"))
    start, _, rest = finding.partition(", most of it at ")
    assert start == "All 4 devices along the mesh axis 'data' repeat 100 % of the FLOPs of the mapped functions"
    lines, _, rest = rest.partition(": ")
    assert lines.replace(up, "").replace(down, "") == " and "  # no line with few FLOPs
    assert rest == (
        "the operands there are equal on these devices. Map a name of these operands to 'data' in axis_resources, "
        "such as 'batch' or 'pos'."
    )
    right = FORMS[form](LOOPS[loop], axis_resources=FORGOTTEN | {"batch": "data"}, mesh=mesh)
    assert repeated(right, PARAMS, X) == []


# --- layouts in which nothing, or little, is repeated ---------------------------------------------------------------


def attention(w, x):
    """Attention and a product, with positions that may be sharded."""
    q, k, v = (nx.einsum("{pos,embed},{embed,heads,key}->{pos,heads,key}", x, w[name]) for name in "qkv")
    y = nx.nn.dot_product_attention(q, k, v, axis="pos", features="key", is_causal=True)
    return nx.mean(nx.square(nx.einsum("{pos,heads,key},{heads,key,embed}->{pos,embed}", y, w["o"])), ("batch", "pos", "embed"))


def adam(w, m, v, x):
    """A step whose optimizer may be sharded under a second name (ZeRO-1)."""
    value, g = jax.value_and_grad(scanned)(w, x)
    w, g = ({k: nx.rename(a, {"embed_fsdp": "embed_opt"}) for k, a in t.items()} for t in (w, g))
    m = {k: 0.9 * m[k] + 0.1 * g[k] for k in w}
    v = {k: 0.99 * v[k] + 0.01 * nx.square(g[k]) for k in w}
    w = {k: w[k] - 1e-3 * m[k] / (nx.sqrt(v[k]) + 1e-8) for k in w}
    return value, {k: nx.rename(a, {"embed_opt": "embed_fsdp"}) for k, a in w.items()}, m, v


def chances(keys):
    """An estimate from random numbers."""
    x = nx.random.normal(keys, named_shape={"draw": 1 << 22})
    return nx.mean(nx.exp(-nx.square(x)), ("sample", "draw"))


QKV = {name: types(embed=EMBED, heads=HEADS, key=KEY) for name in "qkvo"}
STATE = {"up": types(layers=LAYERS, embed_opt=EMBED, mlp=MLP), "down": types(layers=LAYERS, mlp=MLP, embed_opt=EMBED)}


def least_squares(x, y):
    """Normal equations: the small system is solved on each device."""
    gram = nx.positional(nx.einsum("{sample,k},{sample,l:k}->{k,l}", x, x), ["k", "l"])
    factor = jnp.linalg.cholesky(gram + jnp.eye(gram.shape[0]))
    right = nx.positional(nx.dot(x, y, "sample"), ["k"])
    return nx.named(jax.scipy.linalg.cho_solve((factor, True), right), ["k"])


def rows(w, x):
    """The batch is a name of the body only."""
    return nx.mean(nx.square(nx.dot(nx.rename(x, {"row": "batch"}), w, "embed")), ("batch", "mlp"))


def nested(w, x):
    """The batch is mapped by another function."""
    product = nx.xmap(lambda w, x: nx.dot(x, w, "embed"), axis_resources={"batch": "data"})
    return nx.mean(nx.square(product(w, x)), ("batch", "mlp"))


W = types(embed=EMBED, mlp=4 * MLP)
KEY_TYPE = jax.eval_shape(lambda: jax.random.key(0))
KEYS = jax.eval_shape(lambda: nx.named(jax.random.split(jax.random.key(0), 64), ["sample"]))
GRADIENT, OF_PIPE, OF_ATTENTION = map(jax.value_and_grad, (scanned, piped, attention))
BOTH = ("data", "model")
GOOD = {  # the function, its arguments, and the layout
    "data parallelism": (GRADIENT, (PARAMS, X), {"batch": BOTH}),
    "FSDP": (GRADIENT, (PARAMS, X), {"batch": BOTH, "embed_fsdp": BOTH}),
    "FSDP within replicas": (GRADIENT, (PARAMS, X), {"batch": BOTH, "embed_fsdp": "model"}),
    "tensor parallelism": (GRADIENT, (PARAMS, X), {"mlp": BOTH}),
    "FSDP and tensor parallelism": (GRADIENT, (PARAMS, X), {"batch": "data", "embed_fsdp": "data", "mlp": "model"}),
    "gradient accumulation": (
        GRADIENT,
        (PARAMS, X),
        {"batch": ("data", nx.SerialLoop(2)), "embed_fsdp": "data", "mlp": "model"},
    ),
    "sequence parallelism": (GRADIENT, (PARAMS, X), {"pos": "data", "embed_fsdp": "data", "mlp": "model"}),
    "a pipeline": (OF_PIPE, (STAGES, X), {"layers": "data", "mlp": "model"}),
    "a pipeline with FSDP": (OF_PIPE, (STAGES, X), {"layers": "data", "batch": "model", "embed_fsdp": "model"}),
    "a ring": (OF_ATTENTION, (QKV, X), {"pos": "data", "heads": "model"}),
    "a ring and data parallelism": (OF_ATTENTION, (QKV, X), {"pos": "data", "batch": "model"}),
    "ZeRO-1": (adam, (PARAMS, STATE, STATE, X), {"batch": BOTH, "embed_opt": BOTH}),
    "ZeRO-1 and tensor parallelism": (adam, (PARAMS, STATE, STATE, X), {"batch": "data", "embed_opt": "data", "mlp": "model"}),
    "a name for the blocks of the body": (rows, (W, types(row=4096, embed=EMBED)), {"batch": BOTH}),
    "a nested function": (nested, (W, types(batch=4096, embed=EMBED)), {"mlp": "model"}),
    "least squares": (least_squares, (types(sample=1024, k=2048), types(sample=1024)), {"sample": BOTH}),
    "random numbers": (chances, (KEYS,), {"sample": BOTH}),
}


@pytest.mark.fast(5)
@pytest.mark.parametrize(
    ("case", "kind"), [(case, (AxisType.Auto, AxisType.Explicit)[i % 2]) for i, case in enumerate(GOOD)], ids=str
)
def test_a_good_layout_repeats_nothing(case, kind):
    fun, args, layout = GOOD[case]
    report = nx.explain(nx.xmap(fun, axis_resources=layout, mesh=mesh_of(kind, data=4, model=2)), *args)
    assert report.flops > 2e9
    assert [text for text in report.findings if "devices" in text] == []


# --- which axis, which share, and which names -----------------------------------------------------------------------


def products(x, shared, split):
    """One product of which nothing is mapped but the batch, and one that is sharded."""
    return nx.dot(x, shared, "embed"), nx.dot(x, split, "embed")


@pytest.mark.parametrize("shared", [1024, 511, 513, 8192])
def test_the_share_of_the_flops(shared):
    """The sharded product has 2 * 4096 / 4 columns on each device."""
    x, w, v = types(batch=4096, embed=EMBED), types(embed=EMBED, out=shared), types(embed=EMBED, mlp=2048)
    f = nx.xmap(products, axis_resources={"batch": "data", "mlp": "model"}, mesh=mesh_of(data=2, model=4))
    share = shared / (shared + 512)
    found = repeated(f, x, w, v)
    assert len(found) == (share > 0.5)
    if found:
        line = line_of("return", products)
        assert f"All 4 devices along the mesh axis 'model' repeat {100 * share:.0f} % of the FLOPs" in found[0]
        assert f"most of it at {line}: the operands" in found[0]
        names = "'out' or 'batch'" if shared == 8192 else "'batch' or 'out'"  # those of the largest block first
        assert found[0].endswith(f" to 'model' in axis_resources, such as {names}.")


def test_the_names_of_data_come_first():
    def loss(shared, split, x):
        return sum(nx.mean(nx.square(product), ...) for product in products(x, shared, split))

    args = types(embed=EMBED, out=1 << 16), types(embed=EMBED, mlp=2048), types(batch=128, embed=EMBED)
    f = nx.xmap(jax.grad(loss, (0, 1)), axis_resources={"mlp": "model"}, mesh=mesh_of(model=4))
    (finding,) = repeated(f, *args)
    assert finding.endswith(" to 'model' in axis_resources, such as 'batch' or 'out'.")


def test_every_axis_along_which_work_is_repeated():
    layout = {"embed_fsdp": ("data", "model")}
    first, second = repeated(nx.xmap(scanned, axis_resources=layout, mesh=mesh_of(data=4, model=2)), PARAMS, X)
    assert first.startswith("All 4 devices along the mesh axis 'data' repeat")
    assert second.startswith("All 2 devices along the mesh axis 'model' repeat")


def test_an_axis_without_names_has_its_own_finding():
    (finding,) = repeated(nx.xmap(scanned, axis_resources={"batch": "data"}, mesh=mesh_of(data=4, model=2)), PARAMS, X)
    assert finding.startswith("No name is mapped to the mesh axis 'model': its 2 devices compute the same.")


def test_small_programs_are_not_reported():
    small = {"up": types(layers=LAYERS, embed_fsdp=64, mlp=128), "down": types(layers=LAYERS, mlp=128, embed_fsdp=64)}
    x = types(batch=64, pos=16, embed=64)
    f = nx.xmap(jax.grad(scanned), axis_resources={"embed_fsdp": "data"}, mesh=mesh_of(data=4))
    assert nx.explain(f, small, x).findings == ()


def test_random_numbers_of_one_key():
    def drawn(key):
        x = nx.random.normal(key, named_shape={"sample": 64, "draw": 1 << 20})
        return nx.mean(nx.exp(-nx.square(x)), ("sample", "draw"))

    (finding,) = repeated(nx.xmap(drawn, axis_resources={"sample": "data"}, mesh=mesh_of(data=8)), KEY_TYPE)
    assert f"most of it at {line_of('nx.random.normal', drawn)}: the operands" in finding
    assert finding.endswith("Split the key along an axis that is mapped to 'data': a device draws for its keys only.")


def test_arguments_without_names():
    """The remedy then has no names; arguments of `in_axes` have those of their mappings."""
    axes = ({"up": ["layers", "embed_fsdp", "mlp"], "down": ["layers", "mlp", "embed_fsdp"]}, ["batch", "pos", "embed"])
    f = nx.xmap(scanned, in_axes=axes, out_axes=[], axis_resources=FORGOTTEN, mesh=mesh_of(data=4, model=2))
    args = jax.tree.map(lambda array: array.data, (PARAMS, X), is_leaf=lambda x: isinstance(x, nx.NamedArray))
    (finding,) = repeated(f, *args)
    assert finding.endswith("to 'data' in axis_resources, such as 'batch' or 'pos'.")
    (finding,) = repeated(jax.jit(lambda *args: f(*args)), *args)
    assert finding.endswith("Map a name of these operands to 'data' in axis_resources.")


# --- several mapped functions, loops and conditions -----------------------------------------------------------------


def updated(state, g):
    return {name: 0.9 * m + 0.1 * nx.rename(g[name], {"embed_fsdp": "embed_opt"}) for name, m in state.items()}


def two_functions(mesh, **layout):
    gradient = nx.xmap(jax.grad(scanned), axis_resources={"mlp": "model", **layout}, mesh=mesh)
    update = nx.xmap(updated, axis_resources={"embed_opt": "data", "mlp": "model"}, mesh=mesh)
    return jax.jit(lambda w, state, x: update(state, gradient(w, x)))


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_an_axis_for_the_optimizer_alone(kind):
    """The function that computes the gradient leaves the axis to the partitioner."""
    mesh = mesh_of(kind, data=4, model=2)
    (finding,) = repeated(two_functions(mesh), PARAMS, STATE, X)
    assert finding.startswith("All 4 devices along the mesh axis 'data' repeat 100 %")
    assert repeated(two_functions(mesh, batch="data"), PARAMS, STATE, X) == []
    (finding,) = repeated(
        nx.xmap(adam, axis_resources={"embed_opt": "data", "mlp": "model"}, mesh=mesh), PARAMS, STATE, STATE, X
    )
    assert finding.endswith("such as 'batch', 'pos' or 'embed'.")


def test_an_argument_that_the_partitioner_shards():
    mesh = mesh_of(data=4, model=2)
    place = NamedSharding(mesh, P("data"))
    x = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), X)
    assert repeated(two_functions(mesh), PARAMS, STATE, x) == []

    def flipped(w, state, x):
        return two_functions(mesh)(w, state, nx.named(jnp.flip(x.data, 1) * 2, ["batch", "pos", "embed"]))

    assert repeated(jax.jit(flipped), PARAMS, STATE, x) == []


def test_data_that_is_gathered_on_entry():
    """It is sharded by the caller, but not in the function."""
    mesh = mesh_of(data=4, model=2)
    x = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, P("data"))), X)
    report = nx.explain(nx.xmap(scanned, axis_resources=FORGOTTEN, mesh=mesh), PARAMS, x)
    assert sum("it is gathered on entry" in text for text in report.findings) == 1
    assert sum("along the mesh axis 'data' repeat 100 %" in text for text in report.findings) == 1


def in_a_while_loop(params, x):
    def step(state):
        i, h = state
        return i + 1, layer(h, {name: p["layers", 0] for name, p in params.items()})

    return nx.mean(nx.while_loop(lambda state: state[0] < 3 + nx.max(state[1], ...), step, (0, x))[1], ...)


def in_a_branch(params, x):
    def heavy(x):
        return layer(x, {name: p["layers", 0] for name, p in params.items()})

    return nx.mean(nx.cond(nx.max(x, ...) > 0, heavy, lambda x: x, x), ...)


@pytest.mark.parametrize("loss", [in_a_while_loop, in_a_branch])
def test_loops_and_conditions(loss):
    mesh = mesh_of(data=4, model=2)
    (finding,) = repeated(nx.xmap(loss, axis_resources=FORGOTTEN, mesh=mesh), PARAMS, X)
    assert "along the mesh axis 'data' repeat 100 %" in finding
    assert repeated(nx.xmap(loss, axis_resources=FORGOTTEN | {"batch": "data"}, mesh=mesh), PARAMS, X) == []


def test_functions_with_a_declared_cost():
    kernel = nx.machines.cost(lambda h, p: jnp.tanh(h @ p), flops=1e9, bytes=1e6)

    def loss(p, x):
        return nx.mean(nx.nmap(kernel)(x, nx.rename(p, {"batch_fsdp": "other"})), ...)

    p = jax.eval_shape(lambda: nx.zeros((512, 512), named_shape={"batch_fsdp": 16}))
    x = jax.eval_shape(lambda: nx.zeros((512, 512), named_shape={"batch": 16}))
    stored = {"batch_fsdp": "data"}
    (finding,) = repeated(nx.xmap(loss, axis_resources=stored, mesh=mesh_of(data=4)), p, x)
    assert finding.startswith("All 4 devices along the mesh axis 'data' repeat 100 %")
    assert repeated(nx.xmap(loss, axis_resources=stored | {"batch": "data"}, mesh=mesh_of(data=4)), p, x) == []


# --- what makes values equal, and what does not ---------------------------------------------------------------------

# Functions of the block of a device, mapped by `jax.shard_map` itself.


def gathered(w):
    return lax.all_gather(w, "data").sum(0)


def heavy(x):
    return jnp.tanh(x @ x)


def index():
    return lax.axis_index("data")


def equal_steps(w):
    return lax.while_loop(
        lambda state: jnp.sum(state[1]) < 100, lambda state: (state[0] + 1, heavy(state[1])), (0, gathered(w))
    )[1]


def more_steps(w):
    x = gathered(w)
    return lax.while_loop(lambda state: state[0] <= index(), lambda state: (state[0] + 1, heavy(state[1])), (0, x))[1]


def more_steps_later(w):
    """The limit differs from the second step on."""
    x = gathered(w)
    limit = x[0, 0].astype(int)
    return lax.while_loop(
        lambda state: state[0] < state[1], lambda state: (state[0] + 1, limit + index(), heavy(state[2])), (0, limit, x)
    )[2]


def carried(w):
    """The second carry differs from the second step on, and the first one from the third."""

    def step(carry, _):
        first, second, third = carry
        return (heavy(first) + second, third, index() * 1.0), None

    x = gathered(w)
    return lax.scan(step, (x, 0 * x[0, 0], 0 * x[0, 0]), None, length=4)[0][0]


def ragged(w):
    x, numbers = gathered(w), jnp.arange(4)
    return heavy(lax.ragged_all_to_all(x, x, numbers, numbers * 0 + 1, numbers, numbers * 0 + 1, axis_name="data"))


def of_a_kernel(w):
    """A kernel that reads the device index."""

    def kernel(x, out):
        out[...] = x[...] * index()

    x = gathered(w)
    return heavy(pallas.pallas_call(kernel, out_shape=jax.typeof(x))(x))


EQUAL = {
    "a gather": lambda w: heavy(gathered(w)),
    "a sum": lambda w: heavy(lax.psum(w, "data")),
    "a maximum": lambda w: heavy(lax.pmax(w, "data")),
    "a minimum": lambda w: heavy(lax.pmin(w, "data")),
    "equal steps": equal_steps,
}
DIFFERENT = {
    "the block": heavy,
    "the device": lambda w: heavy(gathered(w) * index()),
    "a scatter": lambda w: heavy(lax.psum_scatter(jnp.concatenate([gathered(w)] * 4), "data", tiled=True)),
    "an exchange": lambda w: heavy(lax.all_to_all(gathered(w), "data", 0, 1, tiled=True).reshape(w.shape)),
    "a permute": lambda w: heavy(lax.ppermute(gathered(w), "data", [(0, 1), (1, 0)])),
    "a ragged exchange": ragged,
    "a carry": carried,
    "a branch": lambda w: lax.cond(index() == 0, heavy, jnp.tanh, gathered(w)),
    "more steps": more_steps,
    "more steps later": more_steps_later,
    "a callback": lambda w: heavy(jax.experimental.io_callback(lambda x: x, w, gathered(w))),
    "a kernel": of_a_kernel,
}


def findings_beside(raw, mesh, w):
    """Those of a program in which a name is mapped to the mesh axis, too."""
    named = nx.xmap(nx.sin, ["a"], ["a"], axis_resources={"a": "data"}, mesh=mesh)
    a = jax.ShapeDtypeStruct((8,), "float32")
    report = nx.explain(jax.jit(lambda w, a: (raw(w), named(a))), w, a)
    assert report.flops > 2e9
    return [text for text in report.findings if "repeat" in text]


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("case", EQUAL | DIFFERENT)
def test_values_that_are_equal_or_differ(case, checks):
    mesh = mesh_of(data=4)
    options = {"mesh": mesh, "in_specs": P("data"), "out_specs": P("data"), "check_vma": checks}
    raw = jax.shard_map((EQUAL | DIFFERENT)[case], **options)
    assert len(findings_beside(raw, mesh, jax.ShapeDtypeStruct((4096, 1024), "float32"))) == (case in EQUAL)


def test_sums_in_groups_differ():
    def groups(w):
        return heavy(lax.psum(w, "data", axis_index_groups=[[0, 1], [2, 3]]))

    mesh = mesh_of(data=4)
    raw = jax.shard_map(groups, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False)
    assert findings_beside(raw, mesh, jax.ShapeDtypeStruct((4096, 1024), "float32")) == []


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_blocks_that_the_partitioner_shards(kind):
    """A function may shard a value over a mesh axis over which it is not mapped."""
    mesh = mesh_of(kind, data=4, model=2)
    place = lax.with_sharding_constraint if kind == AxisType.Auto else jax.sharding.reshard

    def sharded(w):
        return heavy(place(w, P("data")))

    def found(body):
        options = {"axis_names": {"model"}, "in_specs": P("model"), "out_specs": P("model")}
        with jax.set_mesh(mesh):
            return findings_beside(jax.shard_map(body, **options), mesh, w)

    # JAX 0.12 takes only arguments that are sharded as in_specs says
    w = jax.ShapeDtypeStruct((2048, 1024), "float32", sharding=NamedSharding(mesh, P("model", None)))
    assert len(found(heavy)) == 1
    assert found(sharded) == []
