"""Low-rank adapters: against NumPy and PEFT, in every layout; training, batches of adapters, and the files of PEFT.

`golden/lora.npz` has the logits of a model of PyTorch with an adapter of PEFT (`tools/golden.py lora`).
"""

import dataclasses
import functools
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from jax.sharding import AxisType

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNameError, AxisNotFoundError, AxisSizeError, CheckpointError
from namedax.interop import lora
from namedax.models import common
from tests.harness import Lazily, said
from tests.models.loading import golden
from tests.models.test_models import batch_of, model_of, params_of
from tests.models.weights import make

optax = Lazily("optax")

SIZES = {"layers": 2, "embed": 8, "heads": 4, "key": 3, "hidden": 16, "batch": 8, "vocab": 5}
AXES = {
    "query": ("layers", "embed", "heads", "key"),
    "out": ("layers", "heads", "key", "embed"),
    "up": ("layers", "embed", "hidden"),
    "down": ("layers", "hidden", "embed"),
    "norm": ("layers", "embed"),
}
TARGETS = {"layers/query": "embed", "layers/out": ("heads", "key"), "layers/[u]p": "embed", "layers/down": "hidden"}
LAYOUTS = {
    "unmapped": (None, {}),
    "dp": ({"x": 8}, {"batch": "x"}),
    "tp": ({"x": 4}, {"heads": "x", "hidden": "x"}),
    "fsdp": ({"x": 4}, {"batch": "x", "embed_fsdp": "x"}),
    "tp and rank": ({"x": 2, "y": 2}, {"heads": "x", "hidden": "x", "rank": "y"}),
    "fsdp and tp": ({"x": 2, "y": 2}, {"batch": "x", "embed_fsdp": "x", "heads": "y", "hidden": "y"}),
}


def values(key, *names, scale=0.4):
    shape = [SIZES[name] for name in names]
    return np.random.default_rng([*key.encode()]).normal(0, scale, shape).astype(np.float32)


def model_params():
    """Parameters as dictionaries of named arrays; `embed_fsdp` is the stored name of `embed`."""
    stored = {"embed": "embed_fsdp"}
    layers = {k: nx.named(values(k, *axes), [stored.get(a, a) for a in axes]) for k, axes in AXES.items()}
    return {"layers": layers, "table": nx.named(values("table", "vocab", "embed"), ["vocab", "embed_fsdp"])}


def adapters_of(params, named_shape=None, **options):
    """Adapters whose `b` is not zero."""
    targets = {k: "embed_fsdp" if v == "embed" else v for k, v in TARGETS.items()} | {"table": "embed_fsdp"}
    options = {"rank": 2, "alpha": 3, "batch": "layers"} | options
    made = lora.init(params, jax.random.key(0), targets, named_shape=named_shape, **options)
    keys = iter(jax.random.split(jax.random.key(1), len(made)))
    return {
        place: dataclasses.replace(one, b=0.4 * nx.random.normal(next(keys), named_shape=one.b.named_shape))
        for place, one in made.items()
    }


def is_named(leaf):
    return isinstance(leaf, nx.NamedArray)


def gathered(leaf):
    return nx.rename(leaf, {"embed_fsdp": "embed"}) if is_named(leaf) and "embed_fsdp" in leaf.named_shape else leaf


def forward(params, x):
    """A small model: attention without a softmax, a feed-forward network, and a tied output layer."""

    def read(x, w, axis):
        return lora.einsum(f"{{embed}}, {{embed:embed_fsdp, {axis}}} -> {{{axis}}}", x, w)

    def layer(x, p):
        x = x * gathered(p["norm"])
        h = nx.tanh(read(x, p["query"], "heads, key"))
        x = x + lora.einsum("{heads, key}, {heads, key, embed:embed_fsdp} -> {embed}", h, p["out"])
        h = nx.nn.relu(read(x, p["up"], "hidden"))
        down = jax.tree.map(gathered, p["down"], is_leaf=is_named)  # the weight, its adapter, and keys without axes
        return x + lora.dot(h, down, "hidden")

    x = nx.fold(layer, x, params["layers"], axis="layers")
    return lora.einsum("{embed}, {vocab, embed:embed_fsdp} -> {vocab}", x, params["table"])


def loss(params, x):
    return nx.mean(forward(params, x) ** 2, ("batch", "vocab"))


def inputs():
    return nx.named(values("x", "batch", "embed"), ["batch", "embed"])


def merged_by_numpy(params, adapters):
    """The same parameters, with every update as a product of two matrices."""
    result = {"layers": {}}
    for name in AXES:
        data = np.asarray(params["layers"][name].data)
        if f"layers/{name}" in adapters:
            one = adapters[f"layers/{name}"]
            n = 2 if name == "out" else 1  # inputs
            a = np.asarray(one.a.data).reshape(2, math.prod(data.shape[1 : 1 + n]), -1)
            b = np.asarray(one.b.data).reshape(2, a.shape[-1], -1)
            data = data + one.scale * (a @ b).reshape(data.shape)
        result["layers"][name] = data
    a, b = (np.asarray(part.data) for part in (adapters["table"].a, adapters["table"].b))
    result["table"] = np.asarray(params["table"].data) + adapters["table"].scale * (a @ b).T
    return result


def by_numpy(params, x):
    for i in range(SIZES["layers"]):
        p = {name: data[i] for name, data in params["layers"].items()}
        x = x * p["norm"]
        x = x + np.einsum("bhk,hke->be", np.tanh(np.einsum("be,ehk->bhk", x, p["query"])), p["out"])
        x = x + np.maximum(x @ p["up"], 0) @ p["down"]
    return x @ params["table"].T


def close(have, want, tolerance=2e-5):
    for one, other in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), tolerance, tolerance)


@functools.cache
def reference_gradient():
    params, x = model_params(), inputs()
    return jax.jit(jax.grad(lambda adapters: loss(lora.merge(params, adapters), x)))(adapters_of(params))


def placed(layout, kind, *trees):
    axes, resources = LAYOUTS[layout]
    if axes is None:
        return None, resources, trees
    devices = jax.devices()[: math.prod(axes.values())]
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType[kind],) * len(axes), devices=devices)
    return mesh, resources, nx.shard(trees, resources, mesh)


# --- initialization -----------------------------------------------------------------------------------------------------


def test_initialization():
    params = model_params()
    made = lora.init(
        params, jax.random.key(0), {"layers/query": "embed_fsdp", "*/out": ("heads", "key")}, rank=64, batch="layers"
    )
    assert sorted(made) == ["layers/out", "layers/query"]
    query, out = made["layers/query"], made["layers/out"]
    assert dict(query.a.named_shape) == {"layers": 2, "embed_fsdp": 8, "rank": 64}
    assert dict(query.b.named_shape) == {"layers": 2, "rank": 64, "heads": 4, "key": 3}
    assert dict(out.a.named_shape) == {"layers": 2, "heads": 4, "key": 3, "rank": 64}
    assert (query.rank, query.scale, query.alpha) == (64, 1, 64)
    for one, fan_in in ((query, 8), (out, 12)):  # torch.nn.init.kaiming_uniform_(a=sqrt(5))
        a, bound = np.asarray(one.a.data), fan_in**-0.5
        assert 0.98 * bound < abs(a).max() <= bound
        assert abs(a.std() - bound / 3**0.5) < 0.02
        assert not np.asarray(one.b.data).any()
    close(forward(lora.merge(params, made), inputs()).data, forward(params, inputs()).data, 0)
    alone = lora.init(params, jax.random.key(0), {"layers/out": ("key", "heads")}, rank=64, batch={"layers"})
    np.testing.assert_array_equal(alone["layers/out"].a.data, out.a.data)
    assert not np.array_equal(query.a.data[0], query.a.data[1])
    stable = lora.init(params, jax.random.key(0), {"table": "embed_fsdp"}, rank=4, batch=(), alpha=6, rank_stabilized=True)
    assert stable["table"].scale == 3.0
    short = lora.init(params, jax.random.key(0), {"table": "embed_fsdp"}, rank=4, batch=(), dtype="bfloat16", axis="r")
    assert {part.dtype for part in (short["table"].a, short["table"].b)} == {jnp.dtype(jnp.bfloat16)}
    assert "r" in short["table"].a.named_shape


def test_initialization_in_a_body():
    params = model_params()
    mesh, resources, (sharded,) = placed("tp", "Auto", params)

    def make(params):
        return lora.init(params, jax.random.key(0), {"layers/query": "embed_fsdp"}, rank=2, batch="layers")

    in_body = nx.xmap(make, axis_resources=resources, mesh=mesh)(sharded)
    close(in_body, make(params), 0)


# --- merged and attached ------------------------------------------------------------------------------------------------


EACH = [
    ("unmapped", "Auto"),
    ("dp", "Explicit"),
    ("tp", "Auto"),
    ("fsdp", "Explicit"),
    ("tp and rank", "Auto"),
    ("fsdp and tp", "Explicit"),
]


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("layout", "kind"), EACH)
def test_every_layout_equals_numpy(layout, kind):
    """Values of both, and gradients of attached adapters; those of merged ones are those of the test of training."""
    params, x = model_params(), inputs()
    adapters = adapters_of(params)
    want = merged_by_numpy(params, adapters)
    logits = by_numpy(want, np.asarray(x.data))
    mesh, resources, trees = placed(layout, kind, params, adapters, x)
    outside = lora.merge(*trees[:2])
    for name, data in want["layers"].items():
        np.testing.assert_allclose(outside["layers"][name].data, data, 1e-5, 1e-5)
    assert outside["layers"]["query"].sharding.is_equivalent_to(trees[0]["layers"]["query"].sharding, 4) or mesh is None
    reference = reference_gradient()

    def run(params, adapters, x):
        gradient = jax.grad(lambda adapters: loss(lora.attach(params, adapters), x))(adapters)
        return [forward(put(params, adapters), x) for put in (lora.merge, lora.attach)], gradient

    found, gradient = nx.xmap(run, axis_resources=resources, mesh=mesh)(*trees)
    for one in found:
        close(nx.positional(one, ["batch", "vocab"]), logits)
    close(nx.order_like(gradient, reference), reference)


@pytest.mark.fast(0)
def test_steps_uneven_ranks_and_the_partitioner():
    """A rank of 3 over two devices is padded, the batch is split into steps, and XLA partitions the same program."""
    params, x = model_params(), inputs()
    adapters = adapters_of(params, rank=3)

    def total(adapters, params, x):
        return loss(lora.attach(params, adapters), x)

    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[:4])
    resources = {"batch": ("x", nx.SerialLoop(2)), "rank": "y"}
    nx.testing.assert_resources_do_not_matter(total, adapters, params, x, axis_resources=resources, mesh=mesh)


@pytest.mark.parametrize(
    "names", ["embed", ("heads", "key"), ("layers", "embed"), "heads", ("key", "embed", "heads"), ()], ids=str
)
def test_any_axes_are_contracted(names):
    """Inputs, outputs (a transposed weight), some of either, and batch axes."""
    w = nx.named(values("query", *AXES["query"]), list(AXES["query"]))
    adapters = lora.init({"w": w}, jax.random.key(0), {"w": "embed"}, rank=2, batch="layers")
    one = dataclasses.replace(adapters["w"], b=nx.random.normal(jax.random.key(1), named_shape=adapters["w"].b.named_shape))
    x = nx.named(values("y", "batch", *AXES["query"]), ["batch", *AXES["query"]])
    want = nx.dot(x, lora.merge({"w": w}, {"w": one})["w"], names)
    have = lora.dot(x, lora.attach({"w": w}, {"w": one})["w"], names)
    close(nx.order_like(have, want), want, 1e-4)


@pytest.mark.fast(0)
def test_dtypes():
    """The result has the dtype of the weight and the activation; the sum of short floats is rounded once."""
    w = nx.named(jnp.asarray(values("table", "vocab", "embed"), jnp.bfloat16), ["vocab", "embed"])
    adapters = lora.init({"w": w}, jax.random.key(0), {"w": "embed"}, rank=2, batch=())
    one = dataclasses.replace(adapters["w"], b=nx.random.normal(jax.random.key(1), named_shape={"rank": 2, "vocab": 5}))
    merged = lora.merge({"w": w}, {"w": one})["w"]
    want = np.asarray(w.data, np.float32) + np.einsum("er,rv->ve", one.a.data, one.b.data)
    np.testing.assert_array_equal(merged.data, np.asarray(want.astype(jnp.bfloat16)))
    x = nx.named(jnp.asarray(values("x", "batch", "embed"), jnp.bfloat16), ["batch", "embed"])
    with jax.numpy_dtype_promotion("strict"):
        have = lora.dot(x, lora.Adapted(w, one), "embed")
        also = lora.einsum("{embed}, {vocab, embed} -> {vocab}", x, lora.Adapted(w, one))
    assert have.dtype == also.dtype == merged.dtype == jnp.bfloat16
    close(have.data.astype(jnp.float32), also.data.astype(jnp.float32), 1e-2)


def test_the_low_rank_path_is_cheap():
    """Never the product of `a` and `b`: in tensor parallelism, a row-parallel weight adds an all-reduce of the size of the rank."""
    sizes = {"hidden": 256, "embed": 256}
    w = nx.zeros(named_shape=sizes)
    adapters = lora.init({"w": w}, jax.random.key(0), {"w": "hidden"}, rank=4, batch=())
    x = nx.zeros(named_shape={"batch": 64, "hidden": 256})
    mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])

    def apply(f):
        return nx.xmap(f, axis_resources={"hidden": "x"}, mesh=mesh)

    attached = apply(lambda x, w, adapters: lora.dot(x, lora.attach({"w": w}, adapters)["w"], "hidden"))
    nx.testing.assert_collectives(attached, (x, w, adapters), {"all-reduce": (2, 64 * 256 * 4 + 64 * 4 * 4)})
    base = nx.explain(apply(lambda x, w: nx.dot(x, w, "hidden")), x, w)
    report = nx.explain(attached, x, w, adapters)
    assert report.flops - base.flops < 0.15 * base.flops  # 2 * 64 * 4 * (64 + 256) operations, and the sum
    gradient = jax.grad(lambda adapters, x, w: nx.mean(lora.dot(x, lora.attach({"w": w}, adapters)["w"], "hidden") ** 2, ...))
    dp = nx.xmap(gradient, axis_resources={"batch": "x"}, mesh=mesh)  # the gradients are reduced at the size of the adapters
    nx.testing.assert_collectives(dp, (adapters, x, w), {"all-reduce": (2, 2 * 4 * 256 * 4)})
    fsdp = nx.xmap(lambda w, adapters: lora.merge({"w": w}, adapters), axis_resources={"hidden": "x"}, mesh=mesh)
    nx.testing.assert_collectives(fsdp, (w, adapters), {})


# --- dropout ------------------------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_dropout_is_of_the_input_of_the_low_rank_path():
    w = nx.named(values("up", "embed", "hidden"), ["embed", "hidden"])
    made = lora.init({"w": w}, jax.random.key(0), {"w": "embed"}, rank=2, batch=(), dropout=0.25)
    one = dataclasses.replace(made["w"], b=nx.random.normal(jax.random.key(1), named_shape={"rank": 2, "hidden": 16}))
    x = inputs()
    w_dropped = lora.attach({"w": w}, {"w": one}, jax.random.key(2))["w"]
    have = lora.dot(x, w_dropped, "embed") - nx.dot(x, w, "embed")
    kept = nx.nn.dropout(x, w_dropped.key, 0.25)
    assert 0 < (np.asarray(kept.data) == 0).mean() < 0.5
    close(have.data, np.asarray(kept.data) @ np.asarray(one.a.data) @ np.asarray(one.b.data))
    also = lora.einsum("{embed}, {embed, hidden} -> {hidden}", x, w_dropped) - nx.dot(x, w, "embed")
    close(also.data, have.data)
    calm = lora.attach({"w": w}, {"w": one})["w"]
    close(lora.dot(x, calm, "embed").data, nx.dot(x, lora.merge({"w": w}, {"w": one})["w"], "embed").data)


def test_dropout_is_equal_in_every_layout():
    params, x = model_params(), inputs()
    adapters = adapters_of(params, dropout=0.5)

    def both(params, adapters, x, key):
        return jax.value_and_grad(lambda a: loss(lora.attach(params, a, key), x))(adapters)

    key = jax.random.key(7)
    want, other = (jax.jit(both)(params, adapters, x, jax.random.key(seed)) for seed in (7, 8))
    assert abs(want[0] - other[0]) > 1e-3
    keys = lora.attach(params, adapters, key)["layers"]["up"].key  # one for each layer
    assert dict(keys.named_shape) == {"layers": 2}
    mesh, resources, trees = placed("fsdp and tp", "Explicit", params, adapters, x)
    have = nx.xmap(both, axis_resources=resources, mesh=mesh)(*trees, key)
    close(nx.order_like(have, want), want)


# --- a batch of adapters ------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", ["unmapped", "dp and tp", "adapters"])
def test_each_request_has_its_own_adapter(layout):
    params, x = model_params(), inputs()
    many = adapters_of(params, named_shape={"adapter": 4})
    index = nx.named(jnp.array([3, 0, 0, 1, 2, 3, 1, 0]), ["batch"])
    alone = jax.jit(lambda i, x: forward(lora.merge(params, lora.select(many, "adapter", i)), x))
    want = np.stack([alone(i, x["batch", row]).data for row, i in enumerate(index.data)])
    extra = {
        "dp and tp": ({"x": 2, "y": 2}, {"batch": "x", "heads": "y", "hidden": "y"}),
        "adapters": ({"x": 4}, {"adapter": "x"}),
    }
    axes, resources = (LAYOUTS | extra)[layout]
    mesh = None if axes is None else jax.make_mesh(tuple(axes.values()), tuple(axes), devices=jax.devices()[:4])

    def serve(params, many, x, index, put):
        return forward(put(params, lora.select(many, "adapter", index)), x)

    for put in (lora.attach, lora.merge):
        found = nx.xmap(lambda *args, put=put: serve(*args, put), axis_resources=resources, mesh=mesh)(params, many, x, index)
        close(nx.positional(found, ["batch", "vocab"]), want, 1e-4)
    all_of_them = jax.jit(lambda x: forward(lora.attach(params, many), x))(x)  # every request with every adapter
    close(nx.positional(all_of_them, ["adapter", "batch", "vocab"])[index.data, np.arange(8)], want, 1e-4)


def test_adapters_are_stacked():
    params = model_params()
    one, two = (lora.init(params, jax.random.key(i), {"layers/up": "embed_fsdp"}, rank=2, batch="layers") for i in range(2))
    many = lora.stack([one, two], "adapter")
    close(lora.select(many, "adapter", 1), two, 0)
    with pytest.raises(ArgumentError, match=r"^lora.stack: the list of adapters is empty. Pass at least one dict."):
        lora.stack([])
    with pytest.raises(
        ArgumentError, match=r"lora.stack: of the adapters 0 and 1, only one has 'layers/up'. Stack adapters of the same"
    ):
        lora.stack([one, {}])
    other = {"layers/up": dataclasses.replace(two["layers/up"], alpha=7)}
    with pytest.raises(
        ArgumentError,
        match=r"lora.stack: 'layers/up' has \{'rank': 2, 'scale': 3.5.* in adapter 1, and \{'rank': 2, 'scale': 1",
    ):
        lora.stack([one, other])
    with pytest.raises(AxisNameError, match=r"rank"):
        lora.stack([one, two], "rank")
    with pytest.raises(AxisNotFoundError, match=r"adapter"):
        lora.select(one, "adapter", 0)


# --- training -----------------------------------------------------------------------------------------------------------


def number_of_bytes(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree) if hasattr(leaf, "nbytes"))


@pytest.mark.fast(0)
@pytest.mark.parametrize(("layout", "kind"), [("tp", "Auto"), ("fsdp", "Explicit")])
def test_training_of_adapters_only(layout, kind):
    params, x = model_params(), inputs()
    optimizer = optax.adam(0.05)

    def step(params, adapters, state, x):
        value, gradients = jax.value_and_grad(lambda a: loss(lora.merge(params, a), x))(adapters)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(adapters, updates), state, value, gradients

    def trained(step, params, adapters, x):
        state, losses, all_gradients = optimizer.init(adapters), [], []
        assert number_of_bytes(state) == 2 * number_of_bytes(adapters) + 4
        for _ in range(4):
            adapters, state, value, gradients = step(params, adapters, state, x)
            losses.append(float(value))
            all_gradients.append(gradients)
        return losses, all_gradients[0], adapters

    targets = {"layers/query": "embed_fsdp", "layers/up": "embed_fsdp"}
    adapters = lora.init(params, jax.random.key(0), targets, rank=1, batch="layers")
    assert number_of_bytes(adapters) == 2 * 4 * ((8 + 12) + (8 + 16))
    assert number_of_bytes(params) == 3808
    want = trained(jax.jit(step), params, adapters, x)
    assert want[0][-1] < 0.9 * want[0][0]
    mesh, resources, trees = placed(layout, kind, params, adapters, x)
    have = trained(nx.xmap(step, axis_resources=resources, mesh=mesh), *trees)
    close(have[0], want[0], 1e-5)
    close(nx.order_like(have[1], want[1]), want[1])
    close(nx.order_like(have[2], want[2]), want[2], 1e-3)  # Adam divides small gradients by their sizes


def test_checkpoints_of_adapters(tmp_path):
    adapters = adapters_of(model_params())
    nx.checkpoints.save(tmp_path / "a", adapters)
    close(nx.checkpoints.restore(tmp_path / "a", adapters), adapters, 0)


# --- files of PEFT ------------------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parent / "golden" / "lora.npz"


def golden_files(folder):
    """Write the adapter of PEFT whose logits are in the golden file, and return its tensors."""
    with np.load(GOLDEN) as found:
        state = {str(k): make(str(k), tuple(s)) for k, s in zip(found["keys"], json.loads(str(found["shapes"])), strict=True)}
        (folder / "adapter_config.json").write_text(str(found["config"]))
        safetensors.numpy.save_file(state, folder / "adapter_model.safetensors")
        return state, found["logits"]


@pytest.mark.fast(0)
@pytest.mark.parametrize(("title", "kind"), [("one device", AxisType.Auto), ("fsdp+tp+sp", AxisType.Explicit)])
def test_a_model_with_an_adapter_of_peft(title, kind, tmp_path):
    """Merged and not, the logits of PyTorch."""
    _, logits = golden_files(tmp_path)
    module, config = model_of("llama3")
    mesh, resources = common.layout(title, common.axis_names(config), kind)
    spec, tokens = module.spec(config), batch_of("llama3")["tokens"]
    adapters = lora.load(tmp_path, spec, resources if mesh else None, mesh, sizes=config.sizes())
    assert abs(logits - golden("llama3")["logits"]).max() > 1
    for put in (lora.merge, lora.attach):
        model = nx.xmap(lambda p, a, t, put=put: module.forward(put(p, a), t, config), axis_resources=resources, mesh=mesh)
        found = nx.positional(model(params_of("llama3"), adapters, tokens), ["batch", "pos", "vocab"])
        np.testing.assert_allclose(found, logits, 2e-5, 2e-5)


def test_a_round_trip_of_files(tmp_path):
    state, _ = golden_files(tmp_path)
    module, config = model_of("llama3")
    spec, sizes = module.spec(config), config.sizes()
    adapters = lora.load(tmp_path, spec, sizes=sizes)
    assert {place: (one.axis, one.rank, one.alpha) for place, one in adapters.items()} == {
        "layers/query": ("rank", 4, 1),
        "layers/value": ("rank", 4, 1),
        "layers/out": ("rank_2", 2, 1),
        "layers/down": ("rank", 4, 0.5),
        "unembed": ("rank", 4, 1),
    }
    assert {one.rank_stabilized for one in adapters.values()} == {True}
    assert {one.dropout for one in adapters.values()} == {0.1}
    lora.save(adapters, spec, tmp_path / "new", sizes=sizes, base_model="a/b")
    written = safetensors.numpy.load_file(tmp_path / "new" / "adapter_model.safetensors")
    assert {k: (v.shape, v.tobytes()) for k, v in written.items()} == {k: (v.shape, v.tobytes()) for k, v in state.items()}
    config_of = json.loads((tmp_path / "new" / "adapter_config.json").read_text())
    assert config_of == {
        "alpha_pattern": {r"^model\.layers\.\d+\.mlp\.down_proj": 0.5},
        "base_model_name_or_path": "a/b",
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": 1,
        "lora_dropout": 0.1,
        "peft_type": "LORA",
        "r": 4,
        "rank_pattern": {r"^model\.layers\.\d+\.self_attn\.o_proj": 2},
        "target_modules": ["q_proj", "v_proj", "o_proj", "down_proj", "lm_head"],
        "task_type": "CAUSAL_LM",
        "use_rslora": True,
    }
    again = lora.load(tmp_path / "new", spec, sizes=sizes)
    assert jax.tree.structure(again) == jax.tree.structure(adapters)
    close(again, adapters, 0)


SPEC = {
    "blocks.{layers}.up.weight": ("layers/up", "hidden e -> {layers, embed=e, hidden}"),
    "blocks.{layers}.out.weight": ("layers/out", "embed (heads key) -> {layers, heads, key, embed}"),
    "blocks.{layers}.norm.weight": ("layers/norm", "embed -> {layers, embed}"),
    "other.up.weight": ("other", "hidden embed -> {embed, hidden}"),
}
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["blocks.0.up", "out"], "bias": "none"}
CONFIG["target_modules"] = ["out"]


def small_files(folder, drop=(), add=(), names=("out",), **changes):
    """Write an adapter of three layers."""
    shapes = {"out": ((2, 12), (8, 2)), "up": ((2, 8), (16, 2))}
    prefix = "base_model.model.blocks"
    state = {
        f"{prefix}.{i}.{name}.lora_{side}.weight": np.random.default_rng(i).normal(size=shape).astype(np.float32)
        for i in range(3)
        for name in names
        for side, shape in zip("AB", shapes[name], strict=True)
    }
    state |= {key: np.zeros((2, 3), np.float32) for key in add}
    for key in drop:
        del state[f"{prefix}.{key}"]
    folder.mkdir(exist_ok=True)
    safetensors.numpy.save_file(state, folder / "adapter_model.safetensors")
    config = {k: v for k, v in (CONFIG | changes).items() if v != "absent"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return state


def test_targets_that_end_equally_are_an_expression(tmp_path):
    small_files(tmp_path, names=("up", "out"), target_modules="blocks\\.[0-2]\\.(up|out)")
    adapters = lora.load(tmp_path, SPEC, sizes={"heads": 4})
    lora.save(adapters, SPEC, tmp_path / "new")
    config = json.loads((tmp_path / "new" / "adapter_config.json").read_text())
    assert config["target_modules"] == r"blocks\.\d+\.up|blocks\.\d+\.out"  # `other.up` has no adapter
    close(lora.load(tmp_path / "new", SPEC, sizes={"heads": 4}), adapters, 0)


def test_layers_in_ranges(tmp_path):
    """Ranges of numbers, in the key or in `numbers=`, may have other scales, and only one of them may have adapters."""
    state = small_files(tmp_path, names=("up",), target_modules=["up"], alpha_pattern={"blocks.0.up": 8})
    pattern = "hidden e -> {%s, embed=e, hidden}"
    head = {"blocks.{head:..1}.up.weight": ("head/up", pattern % "head")}
    for rest, numbers in (("rest:1..", None), ("rest", {"rest": [1, 2]})):
        spec = head | {f"blocks.{{{rest}}}.up.weight": ("rest/up", pattern % "rest")}
        adapters = lora.load(tmp_path, spec, numbers=numbers)
        assert {place: (one.alpha, one.a.named_shape.get("rest")) for place, one in adapters.items()} == {
            "head/up": (8, None),
            "rest/up": (4, 2),
        }
        last = state["base_model.model.blocks.2.up.lora_A.weight"]
        np.testing.assert_array_equal(nx.positional(adapters["rest/up"].a["rest", 1], ["rank", "embed"]), last)
        lora.save(adapters, spec, tmp_path / "new", numbers=numbers)
        config = json.loads((tmp_path / "new" / "adapter_config.json").read_text())
        assert config["target_modules"] == ["up"]
        assert (config["lora_alpha"], config["alpha_pattern"]) == (8, {r"^blocks\.(?:1|2)\.up": 4})
        again = lora.load(tmp_path / "new", spec, numbers=numbers)
        assert jax.tree.structure(again) == jax.tree.structure(adapters)
        close(again, adapters, 0)
        lora.save({"rest/up": adapters["rest/up"]}, spec, tmp_path / "one", numbers=numbers)
        config = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
        assert config["target_modules"] == r"blocks\.(?:1|2)\.up"
        assert [*lora.load(tmp_path / "one", spec, numbers=numbers)] == ["rest/up"]


def test_weights_that_are_stored_in_the_other_order(tmp_path):
    """`Conv1D` of GPT-2: the weight is `[in, out]`, and the arrays of the adapter are as ever."""
    state = small_files(tmp_path, fan_in_fan_out=True)
    spec = {"blocks.{layers}.out.weight": ("out", "(heads key) embed -> {layers, heads, key, embed}")}
    adapters = lora.load(tmp_path, spec, sizes={"heads": 4})
    plain = lora.load(tmp_path / ".." / tmp_path.name, spec, sizes={"heads": 4}, dtype="bfloat16")
    assert plain["out"].a.dtype == jnp.bfloat16
    delta = nx.dot(adapters["out"].a, adapters["out"].b, "rank")
    a, b = (state[f"base_model.model.blocks.1.out.lora_{side}.weight"] for side in "AB")
    close(nx.positional(delta["layers", 1], ["heads", "key", "embed"]).reshape(12, 8), (b @ a).T)
    lora.save(adapters, spec, tmp_path / "new", fan_in_fan_out=True)
    written = safetensors.numpy.load_file(tmp_path / "new" / "adapter_model.safetensors")
    assert {k: v.tobytes() for k, v in written.items()} == {k: v.tobytes() for k, v in state.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, r"has peft_type = 'LOHA', which is not supported. Only adapters of the type 'LORA'"),
        ({"use_dora": True}, r"has use_dora = True, which is not supported. Merge the adapter in PEFT \(merge_and_unload\)"),
        ({"bias": "all"}, r"has bias = 'all', which is not supported. Only adapters with bias='none'"),
        ({"modules_to_save": ["lm_head"]}, r"has modules_to_save = \['lm_head'\], which is not supported"),
        ({"init_lora_weights": "pissa"}, r"has init_lora_weights = 'pissa', .* changes the weights of the base model"),
        ({"new_entry": 3}, r"has new_entry = 3, which is not supported"),
        ({"r": "absent"}, r"has no entry 'r'. Copy it again."),
        ({"target_modules": ["out", "gate"]}, r"has 'gate', but spec has no matrix with the key '\*gate.weight'"),
        ({"alpha_pattern": {"blocks.1.out": 8}}, r"alpha_pattern .* gives 'blocks.0.out' the alpha 4, and 'blocks.1.out' 8"),
        ({"rank_pattern": {"out": 4}}, r"'blocks.0.out' has the rank 4 in adapter_config.json, but 2 in adapter_model"),
        ({"drop": ["1.out.lora_B.weight"]}, r"missing: 'base_model.model.blocks.1.out.lora_B.weight', for 'layers/out/b'"),
        ({"add": ["base_model.model.blocks.1.out.lora_magnitude_vector"]}, r"left over: '.*lora_magnitude_vector'"),
        ({"target_modules": ["other.up", "out"]}, r"missing: 'base_model.model.other.up.lora_A.weight', for 'other/a'"),
        ({"names": (), "target_modules": "x", "add": ["y"]}, r"has no adapter of a weight of spec. Its keys are 'y'"),
    ],
    ids=str,
)
def test_files_that_are_not_supported_or_incomplete(changes, message, tmp_path):
    small_files(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=rf"^(lora.load|load_safetensors): [\s\S]*{message}"):
        lora.load(tmp_path, SPEC, sizes={"heads": 4})


def test_keys_that_may_be_left_over(tmp_path):
    small_files(tmp_path, add=["base_model.model.head.base_layer.weight"])
    assert [*lora.load(tmp_path, SPEC, sizes={"heads": 4}, ignore="*.base_layer.weight")] == ["layers/out"]


def test_other_errors_of_files(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"lora.load: .*adapter_config.json cannot be read: No such file or directory. Pass the"
    ):
        lora.load(tmp_path, SPEC)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"lora.load: .*adapter_config.json is not JSON"):
        lora.load(tmp_path, SPEC)
    (tmp_path / "adapter_config.json").write_text("3")
    with pytest.raises(CheckpointError, match=r"lora.load: .*adapter_config.json is not a JSON object"):
        lora.load(tmp_path, SPEC)
    with pytest.raises(ArgumentTypeError, match=r"lora.load: path is 3, not a path. Pass the folder of the adapter."):
        lora.load(3, SPEC)
    small_files(tmp_path)
    with pytest.raises(ArgumentError, match=r"lora.load: 'layers/up' of spec already has the axis 'hidden'. Pass another name"):
        lora.load(tmp_path, SPEC, sizes={"heads": 4}, axis="hidden")
    with pytest.raises(ArgumentTypeError, match=r"lora.load: axis is 'a b', not a name for patterns. Pass axis='rank'."):
        lora.load(tmp_path, SPEC, axis="a b")
    mixed = {"blocks.{layers}.out.weight": ("out", "a b -> {layers, both=(a b)}")}
    with pytest.raises(
        ArgumentError, match=r"lora.load: 'blocks.\{layers\}.out.weight' of spec has the pattern .* labels of inputs and of out"
    ):
        lora.load(tmp_path, mixed)
    parts = {"blocks.{layers}.out.weight": ("{p:out,more}", "(p embed) (heads key) -> {layers, heads, key, embed}")}
    with pytest.raises(
        ArgumentError, match=r"lora.load: 'blocks.\{layers\}.out.weight' of spec is split over the places '\{p:out,more\}'"
    ):
        lora.load(tmp_path, parts, sizes={"heads": 4})
    adapters = lora.load(tmp_path, SPEC, sizes={"heads": 4})
    with pytest.raises(ArgumentError, match=r"lora.save: the dict of adapters is empty. Pass at least one adapter."):
        lora.save({}, SPEC, tmp_path)
    with pytest.raises(
        ArgumentError, match=r"lora.save: adapters has 'layers/out', which is not a matrix of spec. Choose from 'other'."
    ):
        lora.save(adapters, {"other.up.weight": SPEC["other.up.weight"]}, tmp_path)
    two = adapters | {"layers/up": dataclasses.replace(adapters["layers/out"], dropout=0.5)}
    with pytest.raises(
        ArgumentError, match=r"lora.save: 'layers/out' has dropout=0.0, and 'layers/up' dropout=0.5, but files of PEFT have"
    ):
        lora.save(two, SPEC, tmp_path)
    with pytest.raises(ArgumentTypeError, match=r"lora.save: adapters is \{'a': 3\}, not a dict from paths to adapters."):
        lora.save({"a": 3}, SPEC, tmp_path)


# --- errors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "targets", "options", "message"),
    [
        (ArgumentError, {"layers/qery": "embed_fsdp"}, {}, "'layers/qery' of targets matches no path of params. Did you mean 'layers/query'?"),
        (AxisNotFoundError, {"layers/up": "embed"}, {}, "'layers/up', f32[]{layers:2, embed_fsdp:8, hidden:16}, lacks the input axes 'embed'"),
        (AxisNotFoundError, {"layers/up": "hidden"}, {"batch": "expert"}, "no chosen weight has the axes 'expert' of batch."),
        (ArgumentError, {"layers/up": ("layers", "hidden")}, {}, "the axes 'layers' of 'layers/up'"),
        (ArgumentError, {"layers/norm": "embed_fsdp"}, {}, "'layers/norm', f32[]{layers:2, embed_fsdp:8}, has no outputs"),
        (ArgumentError, {"layers/norm": ()}, {}, "'layers/norm', f32[]{layers:2, embed_fsdp:8}, has no inputs"),
        (ArgumentError, {"layers/up": "hidden"}, {"axis": "embed_fsdp"}, "already has 'embed_fsdp'. Pass another name for the new axis"),
        (ArgumentError, {"layers/up": "hidden"}, {"dropout": 1.0}, "the probability of a zero, must be at least 0 and less than 1, got 1.0."),
        (ArgumentError, {"layers/up": "hidden"}, {"rank": 0}, "rank must be a static integer of at least 1, got 0."),
        (ArgumentTypeError, {"layers/up": "hidden"}, {"alpha": "a"}, "alpha must be a static number, got 'a'. Pass alpha=0.5"),
        (ArgumentTypeError, {"number": "hidden"}, {}, "'number' is i32[], not a floating-point array with named axes only."),
        (ArgumentTypeError, {"place": "k"}, {}, "'place' is f32[2]{k:3}, not a floating-point array with named axes only."),
        (ArgumentTypeError, ["layers/up"], {}, "targets is ['layers/up'], not a dict from patterns to input axes."),
    ],
)  # fmt: skip
def test_errors_of_init(error, targets, options, message):
    params = model_params() | {"number": jnp.int32(3), "place": nx.named(jnp.ones((2, 3)), [None, "k"])}
    with pytest.raises(error) as info:
        lora.init(params, jax.random.key(0), targets, **{"rank": 2, "batch": "layers"} | options)
    assert said(info.value).startswith("lora.init: ")
    assert message in said(info.value)


def test_errors_of_trees_and_contractions():
    params, x = model_params(), inputs()
    adapters = adapters_of(params)
    for put in (lora.merge, lora.attach):
        with pytest.raises(
            ArgumentTypeError, match=rf"^lora.{put.__name__}: adapters is 3, not a dict from paths to adapters."
        ):
            put(params, 3)
        with pytest.raises(
            ArgumentError, match=rf"lora.{put.__name__}: adapters has the path 'layers/u', which is not in params. Did you"
        ):
            put(params, {"layers/u": adapters["layers/up"]})
        with pytest.raises(
            ArgumentError, match=rf"lora.{put.__name__}: the weight 'layers/down', .* has other axes than its adapter a"
        ):
            put(params, {"layers/down": adapters["layers/query"]})
    other = {
        "layers/up": dataclasses.replace(adapters["layers/up"], b=nx.ones(named_shape={"layers": 2, "rank": 2, "hidden": 3}))
    }
    with pytest.raises(AxisSizeError, match=r"hidden"):
        lora.merge(params, other)
    whole = {"layers": {"up": params["layers"]["up"].astype(int)}}
    with pytest.raises(
        ArgumentTypeError, match=r"^lora: the weight has the dtype i32, but only floating-point weights have adapters."
    ):
        lora.merge(whole, {"layers/up": adapters["layers/up"]})
    up = lora.attach(params, adapters, jax.random.key(0))["layers"]["up"]
    ranked = nx.rename(x, {"batch": "rank", "embed": "embed_fsdp"})
    with pytest.raises(
        ArgumentError, match=r"^lora.dot: the name of the rank axis, 'rank', is also an axis of another operand, f32"
    ):
        lora.dot(ranked, up, "embed_fsdp")
    with pytest.raises(
        ArgumentError, match=r"^lora.einsum: the name of the rank axis, 'rank', is also an axis of another operand"
    ):
        lora.einsum("{embed_fsdp}, {embed_fsdp, hidden} -> {hidden}", ranked, up)
    with pytest.raises(ArgumentError, match=r"^lora.einsum: the name of the rank axis, 'rank', is also an axis"):
        lora.einsum("{rank:embed}, {rank:embed_fsdp, hidden} -> {hidden}", x, up)
    with pytest.raises(ArgumentError, match=r"^lora.einsum: .* has no '->', and operand 1 has an adapter. Write the result"):
        lora.einsum("{embed}, {embed:embed_fsdp, hidden}", x, up)
    with pytest.raises(
        ArgumentError, match=r"^lora.einsum: .* has 2 operands with adapters. Contract them one after the other."
    ):
        lora.einsum("{layers, hidden}, {layers, hidden} -> {layers}", up, up)
    dropped = dataclasses.replace(up, key=jax.random.key(0))
    with pytest.raises(
        ArgumentError, match=r"^lora.einsum: dropout applies to the other operand, but .* has 2 other operands. Contract"
    ):
        lora.einsum("{embed}, {embed:embed_fsdp, hidden}, {hidden} -> ", x, dropped, nx.ones(named_shape={"hidden": 16}))
    vector = lora.Adapted(jnp.ones(3), adapters["layers/up"])
    with pytest.raises(
        ArgumentTypeError, match=r"^lora.einsum: the specification must be a string if operand 1 has an adapter, got"
    ):
        lora.einsum(jnp.ones(3), [0], vector, [0])
    with pytest.raises(AxisNotFoundError, match=r"embd"):
        lora.dot(x, up, "embd")
