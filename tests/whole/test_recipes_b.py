"""Recipes of docs/recipes: their programs send what the best program sends that a person writes by hand.

A test takes the program from the page. Its bytes are those of the compiled program, and those that the page states. The oracle is a hand-written
`shard_map`, or for the data loader one process. What a page says of JAX without names is tested too.
"""

import ast
import functools
import json
import pathlib
import sys
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests.harness import Lazily
from tests.house import page_runner
from tests.xmap.test_distributed import run_two

optax = Lazily("optax")
ROOT = pathlib.Path(__file__).parents[2]


def blocks(page):
    """The Python blocks of a page."""
    return page_runner.blocks((ROOT / "docs" / "recipes" / f"{page}.md").read_text())


@functools.cache
def program(page, *numbers):
    """What the first block of a page defines, or the blocks with these numbers."""
    scope = {}
    for number in numbers or (0,):
        exec(blocks(page)[number], scope)
    return scope


def totals(compiled):
    """The bytes of each kind of collective; XLA may merge collectives of one kind."""
    found = Counter()
    for collective in nx.hlo.collectives(compiled):
        found[collective.kind] += collective.bytes
    return dict(found)


def compiled(f, *args):
    return totals(jax.jit(f).lower(*args).compile())


def reported(f, *args):
    return {kind: size for kind, (_, size) in nx.explain(f, *args).summary().items()}


def stated(page, expression):
    """The comment behind an expression of a page, as a value."""
    line = next(line for block in blocks(page) for line in block.splitlines() if line.startswith(f"{expression}  # "))
    return {kind: size for kind, (_, size) in ast.literal_eval(line.split("  # ")[1]).items()}


def broadcast(in_specs, args):
    return in_specs if isinstance(in_specs, tuple) and not isinstance(in_specs, P) else (in_specs,) * len(args)


def by_hand(body, mesh, in_specs, out_specs, *args):
    """The result of a `shard_map` and the bytes that it sends."""
    args = jax.tree.map(lambda a, spec: jax.device_put(a, NamedSharding(mesh, spec)), args, broadcast(in_specs, args))
    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False))
    return f(*args), totals(f.lower(*args).compile())


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def check(page, expression, f, args, hand):
    """A named program sends what its page states, what it is reported to send, and what is sent by hand."""
    have = compiled(f, *args)
    assert have == hand
    assert reported(f, *args) == have
    if expression:
        assert stated(page, expression) == have


# --- per-example gradients --------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_per_example_gradients():
    page = program("per_example_gradients")
    up, down, pixels, classes = random(64, 32) / 4, random(32, 10) / 4, random(128, 64), np.arange(128) % 10

    def body(up, down, pixels, classes):
        def loss(w, x, label):
            return -jax.nn.log_softmax(jnp.tanh(x @ w[0]) @ w[1])[label]

        g = jax.vmap(jax.grad(loss), (None, 0, 0))((up, down), pixels, classes)
        norms = jnp.sqrt(sum((one**2).sum((1, 2)) for one in g))
        scale = jnp.minimum(1, page["CLIP"] / norms)
        return lax.psum([jnp.einsum("b,bij->ij", scale, one) for one in g], "data"), norms

    mesh, batch = page["mesh"], P("data")
    ((g_up, _), norms), hand = by_hand(body, mesh, (P(), P(), batch, batch), (P(), batch), up, down, pixels, classes)
    params = {"up": nx.named(up, ["pixel", "hidden"]), "down": nx.named(down, ["hidden", "class"])}
    args = params, nx.named(pixels, ["batch", "pixel"]), nx.named(classes, ["batch"])
    have, have_norms = page["f"](*args)
    np.testing.assert_allclose(have["up"].data, g_up, atol=1e-4)
    np.testing.assert_allclose(have_norms.data, norms, rtol=1e-4)
    check("per_example_gradients", "report.summary()", page["f"], args, hand)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_per_example_gradients_with_stored_parameters():
    page = program("per_example_gradients", *range(7))
    args = page["stored"], page["images"], page["labels"]
    want = {"all-gather": 4 * 64 * 32, "reduce-scatter": 4 * 64 * 32, "all-reduce": 4 * 32 * 10}
    check("per_example_gradients", None, page["g"], args, want)
    assert nx.allclose(nx.rename(page["g"](*args)[0]["up"], pixel_fsdp="pixel"), page["sums"]["up"], atol=1e-4)


# --- ensembles --------------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_ensembles():
    page = program("ensembles", 0, 1)
    state = page["params"], page["rates"], page["x"], page["y"]
    assert compiled(page["start"], page["keys"]) == compiled(page["train"], *state) == {}
    assert reported(page["start"], page["keys"]) == reported(page["train"], *state) == {}
    inference = nx.xmap(
        lambda p, x: (nx.mean(page["predict"](p, x), "member"), nx.var(page["predict"](p, x), "member")), **page["layout"]
    )

    def body(w, v, x):
        y = jnp.einsum("mbh,mh->mb", jnp.tanh(jnp.einsum("bf,mfh->mbh", x, w)), v)
        mean = lax.psum(y.sum(0), "device") / 1024
        return mean, lax.psum(((y - mean) ** 2).sum(0), "device") / 1024

    members = P("device")
    plain = (np.asarray(page["params"][name].data) for name in "wv")
    x = np.asarray(nx.positional(page["x"], ["batch", "feature"]))
    (mean, variance), hand = by_hand(body, page["mesh"], (members, members, P()), (P(), P()), *plain, x)
    have = inference(page["params"], page["x"])
    np.testing.assert_allclose(have[0].data, mean, atol=1e-5)
    np.testing.assert_allclose(have[1].data, variance, rtol=1e-3)
    check("ensembles", "nx.explain(inference, params, x).summary()", inference, (page["params"], page["x"]), hand)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_ensembles_with_an_optimizer_and_their_own_batches():
    page = program("ensembles", 0, 1)
    params, rates, x, y = (page[name] for name in ("params", "rates", "x", "y"))

    def step(p, state, rate, x, y):
        value, g = jax.value_and_grad(lambda p: nx.mean((page["predict"](p, x) - y) ** 2, "batch"))(p)
        updates, state = optax.adam(1.0).update(g, state, p)
        return {name: p[name] + rate * updates[name] for name in p}, state, value

    state = nx.xmap(nx.vmap(optax.adam(1.0).init, "member"), **page["layout"])(params)
    x, y = (nx.stack([a * (1 + i / 1024) for i in range(2)], axis="pair") for a in (x, y))
    of_member = nx.named(np.arange(1024) % 2, ["member"])
    x, y = (nx.take(a, of_member, "pair") for a in (x, y))
    train = nx.xmap(nx.vmap(step, "member"), **page["layout"])
    args = params, state, rates, x, y
    assert compiled(train, *args) == reported(train, *args) == {}
    new, _, losses = train(*args)
    xs = np.asarray(nx.positional(x, ["member", "batch", "feature"]))
    ys = np.asarray(nx.positional(y, ["member", "batch"]))
    for i in (0, 1, 1023):
        w, v = (params[name].data[i] for name in "wv")

        def loss(p, i=i):
            return jnp.mean((jnp.tanh(xs[i] @ p[0]) @ p[1] - ys[i]) ** 2)

        value, g = jax.value_and_grad(loss)((w, v))
        updates, _ = optax.adam(1.0).update(g, optax.adam(1.0).init((w, v)))
        np.testing.assert_allclose(losses.data[i], value, rtol=1e-4)
        np.testing.assert_allclose(new["w"].data[i], w + rates.data[i] * updates[0], atol=1e-4)


# --- halo exchange ----------------------------------------------------------------------------------------------------


def borders(x, axis, mesh_axis, n, wraps):
    """The last line of the previous block and the first line of the next one, by two permutes."""
    ahead = [(i, (i + 1) % n) for i in range(n if wraps else n - 1)]
    last, first = (lax.slice_in_dim(x, at, at + 1, axis=axis) for at in (x.shape[axis] - 1, 0))
    before = lax.ppermute(last, mesh_axis, ahead)
    after = lax.ppermute(first, mesh_axis, [(b, a) for a, b in ahead])
    return jnp.concatenate([before, x, after], axis)


@pytest.mark.fast(0)
@pytest.mark.parametrize(("name", "wraps"), [("f", True), ("g", False)])
def test_halo_exchange(name, wraps):
    page = program("halo_exchange")
    values = np.asarray(nx.positional(page["u"], ["row", "column"]))

    def body(u):
        rows, columns = borders(u, 0, "y", 4, wraps), borders(u, 1, "x", 2, wraps)
        return u + 0.2 * (rows[:-2] + rows[2:] + columns[:, :-2] + columns[:, 2:] - 4 * u)

    want, hand = by_hand(body, page["mesh"], P("y", "x"), P("y", "x"), values)
    np.testing.assert_allclose(page[name](page["u"]).data, want, atol=1e-6)
    check("halo_exchange", f"nx.explain({name}, u).summary()", page[name], (page["u"],), hand)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_stencils_with_corners_and_wide_ones():
    page = program("halo_exchange", 0, 1, 3, 4, 5, 6)
    check("halo_exchange", "nx.explain(nine, u).summary()", page["nine"], (page["u"],), {"collective-permute": 4 * 64})
    kernel = page["kernel"]
    # Two rows of 16 numbers, and one column of the 16 rows and the two corners.
    want = {"collective-permute": 2 * 64 + 4 * 18}
    check("halo_exchange", "nx.explain(zero, u, kernel).summary()", page["zero"], (page["u"], kernel), want)
    want = {"collective-permute": 2 * 2 * 64}
    args = page["u"], page["weights"]
    check("halo_exchange", "nx.explain(slope, u, weights).summary()", page["slope"], args, want)
    assert compiled(page["later"], page["u"]) == {"collective-permute": 4 * 64}  # in the loop


@pytest.mark.fast(0)
def test_what_the_page_of_stencils_says_of_gradients_and_of_two_halos():
    page = program("halo_exchange")
    backward = nx.xmap(jax.grad(lambda u: nx.sum(page["periodic"](u) ** 2, ...)), **page["blocks"])
    check("halo_exchange", None, backward, (page["u"],), {"collective-permute": 2 * 256})

    def windows(u):
        rows = nx.halo(u, "row", mode="wrap", out_axis="i")
        return nx.sum(nx.halo(rows, "column", mode="wrap", out_axis="j"), ("i", "j"))

    # Two rows, then three columns in each direction.
    check("halo_exchange", None, nx.xmap(windows, **page["blocks"]), (page["u"],), {"collective-permute": 2 * 64 + 6 * 64})


# --- nearest neighbors ------------------------------------------------------------------------------------------------


def distances(q, p):
    return (q**2).sum(1)[:, None] - 2 * q @ p.T + (p**2).sum(1)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_nearest_neighbors():
    page = program("nearest_neighbors", *range(6))
    q, p = (np.asarray(nx.positional(page[name], [axis, "k"])) for name, axis in (("queries", "query"), ("points", "point")))

    def body(q, p):
        values, index = lax.top_k(-distances(q, p), 5)
        index = index + lax.axis_index("x") * p.shape[0]
        values, index = (lax.all_gather(a, "x", axis=1, tiled=True) for a in (values, index))
        values, chosen = lax.top_k(values, 5)
        return -values, jnp.take_along_axis(index, chosen, 1)

    args = page["queries"], page["points"]
    (_, want), hand = by_hand(body, page["mesh"], (P(), P("x")), (P(), P()), q, p)
    np.testing.assert_array_equal(page["search"](*args)[1].data, want)
    check("nearest_neighbors", "report.summary()", page["search"], args, hand)
    assert nx.explain(page["search"], *args).wire_bytes == 7 * 32 * 5 * 8

    def own_results(q, p):
        values, index = lax.top_k(-distances(q, p), 5)
        index = index + lax.axis_index("x") * p.shape[0]
        values, index = (lax.all_to_all(a, "x", 0, 1, tiled=True) for a in (values, index))
        values, chosen = lax.top_k(values, 5)
        return -values, jnp.take_along_axis(index, chosen, 1)

    (_, also), hand = by_hand(own_results, page["mesh"], (P(), P("x")), (P("x"), P("x")), q, p)
    np.testing.assert_array_equal(also, want)
    check("nearest_neighbors", "nx.explain(own, queries, points).summary()", page["own"], args, hand)

    def every(q, p):
        return tuple(lax.all_gather(a, "x", axis=0, tiled=True) for a in own_results(q, p))

    (_, also), hand = by_hand(every, page["mesh"], (P(), P("x")), (P(), P()), q, p)
    np.testing.assert_array_equal(also, want)
    check("nearest_neighbors", None, page["every"], args, hand)
    assert hand == {"all-to-all": 1280, "all-gather": 1280}
    check("nearest_neighbors", None, page["of_points"], args, {"all-gather": 10240})
    in_loop = compiled(page["in_steps"], *args)  # a loop is in the text once
    assert 8 * in_loop["all-gather"] == reported(page["in_steps"], *args)["all-gather"] == 10240


@pytest.mark.fast(0)
def test_equal_distances_have_their_order():
    page = program("nearest_neighbors")
    q, p = np.zeros((32, 16), np.float32), np.repeat(random(512, 16), 8, 0)
    have = page["search"](nx.named(q, ["query", "k"]), nx.named(p, ["point", "k"]))[1]
    want = np.argsort((p**2).sum(1), kind="stable")[:5]
    np.testing.assert_array_equal(have.data, np.tile(want, (32, 1)))


# --- rolling windows --------------------------------------------------------------------------------------------------


def rows_before(x, count, n=8):
    """The rows before a block: of the previous block, of the one before it, and so on."""
    found, block = [], x.shape[0]
    for step in range(1, -(-count // block) + 1):
        rows = x[-min(block, count - (step - 1) * block) :]
        found.insert(0, lax.ppermute(rows, "x", [(i, i + step) for i in range(n - step)]))
    return jnp.concatenate([*found, x])


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_rolling_windows():
    page = program("rolling_windows", 0, 1, 3, 4, 5)
    values, args = np.asarray(nx.positional(page["x"], ["time", "station"])), (page["x"],)

    def body(x, w):
        near, start = rows_before(x, w - 1), lax.axis_index("x") * x.shape[0]
        real = (jnp.arange(near.shape[0]) >= w - 1 - start)[:, None] & ~jnp.isnan(near)
        near = jnp.where(real, near, -jnp.inf)
        top = jnp.stack([near[i : i + x.shape[0]] for i in range(w)]).max(0)
        return jnp.where(top > -jnp.inf, top, jnp.nan)

    want, hand = by_hand(partial(body, w=5), page["mesh"], P("x"), P("x"), values)
    np.testing.assert_array_equal(page["top"](page["x"]).data, want)
    for name in ("mean", "top", "middle", "several"):
        check("rolling_windows", f"nx.explain({name}, x).summary()", page[name], args, hand)
    want, hand = by_hand(partial(body, w=20), page["mesh"], P("x"), P("x"), values)
    np.testing.assert_array_equal(page["far"](page["x"]).data, want)
    assert hand == {"collective-permute": 19 * 3 * 4}
    check("rolling_windows", "nx.explain(far, x).summary()", page["far"], args, hand)
    # The sums of eight blocks, and the 20 rows of cumulative sums that a shift by 20 moves, in blocks of eight rows.
    want = {"all-gather": 8 * 3 * 4, "collective-permute": 8 * 3 * 4}
    check("rolling_windows", "report.summary()", page["sums"], args, want)


# --- short-time Fourier transform -------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_short_time_fourier_transform():
    page = program("short_time_fourier_transform", 0, 4)
    size, stride = page["SIZE"], page["STRIDE"]
    values, args = np.asarray(nx.positional(page["x"], ["time", "channel"])), (page["x"],)

    def body(x):
        after = lax.ppermute(x[: size - stride], "x", [(i + 1, i) for i in range(7)])
        near = jnp.concatenate([x, after])
        frames = jnp.stack([near[i * stride :][:size] for i in range(x.shape[0] // stride)])
        return jnp.fft.rfft(frames * page["hann"].astype(np.float32)[:, None], axis=1)

    want, hand = by_hand(body, page["mesh"], P("x"), P("x"), values)
    np.testing.assert_allclose(nx.positional(page["y"], ["frame", "frequency", "channel"]), want, atol=1e-4)
    assert hand == {"collective-permute": 4 * 2 * (size - stride)}
    check("short_time_fourier_transform", "nx.explain(f, x).summary()", page["f"], args, hand)
    more = {"all-reduce": 4 * size, "collective-permute": 2 * 4 * 2 * (size - stride)}
    check("short_time_fourier_transform", "report.summary()", page["gradient"], (page["window"], *args, page["target"]), more)


# --- climatology ------------------------------------------------------------------------------------------------------


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_climatology():
    page = program("climatology", 0, 1, 3, 4, 5)
    args, month = (page["of_days"],), page["month"]
    assert compiled(page["space"], page["t"]) == reported(page["space"], page["t"]) == {}
    assert compiled(page["tails"], page["t"]) == {}

    def body(t, month):  # the days are padded
        known = ~jnp.isnan(t) & (month >= 0)[:, None, None]
        pair = jnp.stack([jnp.where(known, t, 0), known.astype(t.dtype)], 1)
        total = lax.psum(jax.ops.segment_sum(pair, jnp.where(month < 0, 12, month), 12), "x")
        mean = total[:, 0] / total[:, 1]
        return mean, t - mean[month]

    padded = np.pad(page["values"], [(0, 3), (0, 0), (0, 0)]), np.pad(month, (0, 3), constant_values=-1)
    (mean, anomaly), hand = by_hand(body, page["mesh"], (P("x"), P("x")), (P(), P("x")), *padded)
    have = page["time"](*args)
    np.testing.assert_allclose(have[0].data, mean, atol=1e-5)
    np.testing.assert_allclose(nx.positional(have[1], ["time", "lat", "lon"]), np.asarray(anomaly)[:1461], atol=1e-5)
    check("climatology", "nx.explain(time, of_days).summary()", page["time"], args, hand)
    half = {"all-reduce": 2 * 4 * 12 * 4 * 16}  # of the latitudes
    check("climatology", "nx.explain(both, placed).summary()", page["both"], (page["placed"],), half)
    check("climatology", "nx.explain(series, of_days).summary()", page["series"], args, {"all-reduce": 2 * 4 * 48 * 8 * 16})
    check("climatology", "nx.explain(daily, of_days).summary()", page["daily"], args, {"reduce-scatter": 2 * 4 * 368 * 8 * 16})


# --- what pages say of JAX without names ------------------------------------------------------------------------------


def plainly(f, kind, n, *args):
    """The bytes of a jitted function whose last `n` arguments are sharded along their first axis, or its error."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        specs = [P("x") if i >= len(args) - n else P() for i in range(len(args))]
        placed = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(args, specs, strict=True)]
        try:
            return compiled(f, *placed)
        except Exception as error:
            return type(error).__name__


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("f", "args", "n", "automatic", "explicit"),
    [
        (lambda q, p: lax.top_k(-distances(q, p), 5), (random(32, 16), random(4096, 16)), 1, {"all-gather": 524288}, "error"),
        (lambda x: x[jnp.arange(60)[:, None] + jnp.arange(5)].sum(1), (random(64, 3),), 1, {"all-reduce": 3600}, "error"),
        (lambda x: jnp.cumsum(x, 0), (random(64, 3),), 1, {"all-gather": 768}, "error"),
        (
            lambda x: lax.reduce_window(x, -np.inf, lax.max, (5, 1), (1, 1), ((4, 0), (0, 0))),
            (random(64, 3),),
            1,
            {"collective-permute": 48},
            {"collective-permute": 48},
        ),
        (
            lambda x: jax.scipy.signal.stft(x.T, nperseg=256, noverlap=192, boundary=None, padded=False)[2],
            (random(8192, 2),),
            1,
            {"all-gather": 65536},
            "error",
        ),
        (lambda u: jnp.roll(u, 1, 0), (random(64, 32),), 1, {"collective-permute": 128}, "error"),
        (
            lambda t, m: [jax.ops.segment_sum(x, m, 12) for x in (t, jnp.isnan(t).astype(t.dtype))],
            (random(1464, 8, 16), np.arange(1464) % 12),
            2,
            {"all-reduce": 12288},
            "error",
        ),
    ],
    ids=["nearest neighbors", "windows by indices", "cumulative sum", "reduce_window", "stft", "roll", "climatology"],
)
def test_jax_without_names(f, args, n, automatic, explicit):
    assert plainly(f, AxisType.Auto, n, *args) == automatic
    have = plainly(f, AxisType.Explicit, n, *args)
    assert isinstance(have, str) if explicit == "error" else have == explicit


@pytest.mark.fast(0)
def test_a_stencil_of_jnp_sends_its_borders_on_auto_axes():
    def periodic(u):
        return u + 0.2 * (sum(jnp.roll(u, shift, axis) for axis in (0, 1) for shift in (1, -1)) - 4 * u)

    mesh = jax.make_mesh((4, 2), ("y", "x"), axis_types=(AxisType.Auto,) * 2)
    u = jax.device_put(random(64, 32), NamedSharding(mesh, P("y", "x")))
    assert compiled(periodic, u) == stated("halo_exchange", "nx.explain(f, u).summary()") == {"collective-permute": 256}


# --- a data loader per process: this file is one of two processes -------------------------------------------------------

LAYOUTS = {
    "data": (((8,), ("data",)), {"batch": "data"}),
    "shared": (((2, 4), ("data", "model")), {"batch": "data"}),
    "across": (((2, 4), ("data", "model")), {"batch": "model"}),
}


def run_page(start=""):
    """Run the page of the loader with a `read` that records its rows; `start` connects this process with others."""
    scope, rows = {}, []
    first, train, _, _, layouts, files, *_ = blocks("data_loader_per_process")
    config = 'jax.config.update("jax_num_cpu_devices", 8)'
    assert config in first
    exec(first.replace(config, start), scope)
    read = scope["read"]

    def recorded(of):
        rows.append([int(row) for row in of])
        return read(of)

    scope["read"] = recorded
    exec(train, scope)
    losses = [float(value) for value in scope["losses"]]
    batches, rows[:] = list(rows), []
    x = scope["x"]
    blocks_here = [[shard.index[0].start, np.asarray(shard.data).tolist()] for shard in x.data.addressable_shards]
    entries = {}
    for label, (mesh, resources) in LAYOUTS.items():
        entries[label] = nx.process_entries("batch", 32, resources, jax.make_mesh(*mesh)).tolist()
    exec(layouts.split("nx.process_entries")[0] + files.split("\n\n\n")[0], scope)
    local = read(range(100 * jax.process_index(), 100 * jax.process_index() + 100)).astype(np.float32)
    own = list(scope["own_batches"](local, 0, 3))
    own_blocks = [np.asarray(shard.data).tolist() for batch in own for shard in batch.data.addressable_shards]
    return {"rows": batches, "losses": losses, "blocks": blocks_here, "entries": entries, "own": own_blocks}


def worker():
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    start = f"""
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", {options["--devices"]})
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize("{options["--coordinator"]}", {options["--processes"]}, {options["--process"]})
"""
    report = pathlib.Path(options["--report"]) / options["--process"]
    report.write_text(json.dumps(run_page(start)))


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_loader_of_two_processes_reads_each_row_once(tmp_path):
    run_two(__file__, "--report", tmp_path)
    two = [json.loads((tmp_path / str(number)).read_text()) for number in range(2)]
    one = run_page()
    for report in two:
        np.testing.assert_allclose(report["losses"], one["losses"], rtol=1e-5)
        assert [len(rows) for rows in report["rows"]] == [16] * 12
    assert [a + b for a, b in zip(two[0]["rows"], two[1]["rows"], strict=True)] == one["rows"]
    assert all(len({*rows}) == 32 for rows in one["rows"])
    assert sorted(two[0]["blocks"] + two[1]["blocks"]) == sorted(one["blocks"])  # the last global batch
    assert [report["entries"]["data"] for report in two] == [[*range(16)], [*range(16, 32)]]
    assert [report["entries"]["shared"] for report in two] == [[*range(16)], [*range(16, 32)]]
    assert [report["entries"]["across"] for report in two] == [[*range(32)]] * 2
    # Of its own files, each process brings its own rows, and none twice.
    for number, report in enumerate(two):
        mine = np.random.default_rng
        every = {tuple(np.float32(mine(row).normal(size=4)).tolist()) for row in range(100 * number, 100 * number + 100)}
        have = [tuple(row) for block in report["own"] for row in block]
        assert len(have) == len({*have}) == 48
        assert {*have} <= every


if __name__ == "__main__":
    worker()
