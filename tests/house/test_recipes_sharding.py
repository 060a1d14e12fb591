"""The bytes in the recipes about sharding, against compiled programs, programs by hand and XLA's partitioner.

`test_docs.py` runs the pages and compares their values. Here their functions are compiled again: reports, compiled collectives and the best
program by hand must have the same kinds and bytes.
"""

import functools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import namedax as nx
from tests.harness import Lazily
from tests.house import page_runner

linen, spmd = Lazily("flax.linen"), Lazily("flax.core.spmd")
PAGES = Path(__file__).parents[2] / "docs" / "recipes"
P = PartitionSpec
pytestmark = pytest.mark.fast(0)


@functools.cache
def scope_of(name):
    """The names that the blocks of a recipe define; statements that raise on purpose are left out."""
    text = "\n".join(page_runner.blocks((PAGES / f"{name}.md").read_text()))
    lines = [line for line in text.splitlines() if not re.search(r"# \w+Error", line)]
    scope = {}
    exec("\n".join(lines), scope)
    return scope


@functools.cache
def auto_mesh():
    return jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))


def counted(compiled, trips=1):
    """{kind: (count, bytes)} of the text of a compiled program, with `trips` executions of its loops."""
    found = {}
    for one in nx.hlo.collectives(compiled):
        times = trips if one.in_loop else 1
        count, size = found.get(one.kind, (0, 0))
        found[one.kind] = (count + times, size + times * one.bytes)
    return found


def sends(f, *args, trips=1):
    """What a mapped function sends, by the compiled program; the report must have the same."""
    have = counted(f.lower(*args).compile(), trips)
    assert nx.explain(f, *args).summary() == have
    return have


def by_hand(body, in_specs, out_specs, *args, mesh=None):
    f = jax.shard_map(body, mesh=mesh or auto_mesh(), in_specs=in_specs, out_specs=out_specs)
    return counted(jax.jit(f).lower(*args).compile())


def partitioned(f, in_specs, out_specs, *args):
    """What XLA's partitioner sends for the same shardings."""

    def place(specs):
        return jax.tree.map(lambda s: NamedSharding(auto_mesh(), s), specs, is_leaf=lambda s: isinstance(s, P))

    return counted(jax.jit(f, in_shardings=place(in_specs), out_shardings=place(out_specs)).lower(*args).compile())


def mapped(f, in_axes, out_axes, **layout):
    return nx.xmap(f, in_axes, out_axes, axis_resources=layout, mesh=jax.make_mesh((8,), ("x",)))


def jax_version():
    return tuple(int(part) for part in jax.__version__.split(".")[:2])


def test_fft():
    page, axes = scope_of("fft_sharded_axis"), ["row", "col"]
    a = page["a"]
    assert a.nbytes == 65536
    assert sends(mapped(page["transform"], axes, axes, row="x"), a) == {}
    pencils = sends(mapped(page["transform"], axes, axes, col="x"), a)

    def hand(v):
        v = jnp.fft.fft(lax.all_to_all(v, "x", 0, 1, tiled=True), axis=1)
        return lax.all_to_all(v, "x", 1, 0, tiled=True)

    assert pencils == by_hand(hand, P(None, "x"), P(None, "x"), a) == {"all-to-all": (2, 16384)}
    half = sends(mapped(page["half"], axes, ["row_x", "all_col"], col="x", row_x="x"), a)
    assert half == {"all-to-all": (1, 8192)}
    assert sends(page["g"], page["signal"].reshape(64, 128)) == {"all-to-all": (1, 8192)}
    gathered = mapped(page["transform"], axes, axes, col="x")
    assert sends(gathered, a[:63]) == {"all-gather": (1, 64512)}
    assert "gathers col" in nx.explain(gathered, a[:63]).findings[0]
    with pytest.raises(AssertionError):
        nx.testing.assert_no_gather(gathered, (a[:63],), "col")


@pytest.mark.skipif(jax_version() not in ((0, 10), (0, 12)), reason="the page is about these versions of JAX")
def test_fft_in_jax():
    a = scope_of("fft_sharded_axis")["a"]

    def fft(v):
        return jnp.fft.fft(v, axis=1)

    gather = {"all-gather": (1, 65536)}
    assert partitioned(fft, P(None, "x"), P(None, "x"), a) == gather
    assert partitioned(fft, P("x", None), P("x", None), a) == (gather if jax_version() == (0, 10) else {})


@pytest.mark.full(1)
def test_shuffle():
    page = scope_of("shuffle_without_gather")
    key, inputs, rows, axes = page["key"], page["inputs"], page["rows"], page["axes"]
    assert sends(page["f"], key, inputs) == {}
    assert sends(page["g"], key, rows) == {"reduce-scatter": (1, 524288)}
    assert sends(page["h"], key, page["blocks"]) == {"all-to-all": (1, 65536)}
    along = mapped(page["shuffle"], ([], axes), axes, pos="x")
    assert sends(along, key, inputs) == {"reduce-scatter": (1, 786432)}
    np.testing.assert_array_equal(along(key, inputs), page["oracle"](key, inputs))

    def independent(key, x):
        return nx.random.permutation(key, x, "pos", independent=True)

    assert sends(mapped(independent, ([], axes), axes, batch="x"), key, inputs) == {"all-gather": (1, 786432)}
    # The cheap shuffle is the same in every layout, and keeps every row together.
    alone = nx.xmap(page["cheap"], ([], page["at"]), page["at"])
    have = page["h"](key, page["blocks"])
    np.testing.assert_array_equal(alone(key, page["blocks"]), have)

    def order(x):
        return sorted(row.tobytes() for row in np.asarray(x).reshape(-1, 16))

    assert order(have) == order(rows)
    by_origin = {row.tobytes(): i // 1024 for i, row in enumerate(rows)}
    for block in np.asarray(have):
        assert np.bincount([by_origin[row.tobytes()] for row in block]).tolist() == [128] * 8


@pytest.mark.full(0)
@pytest.mark.skipif(jax_version() not in ((0, 10), (0, 12)), reason="the page is about these versions of JAX")
def test_shuffle_in_jax():
    page = scope_of("shuffle_without_gather")
    key, inputs, rows = page["key"], page["inputs"], page["rows"]
    issue = jax.random.PRNGKey(0), jnp.zeros((24, 4096, 16))
    assert partitioned(page["oracle"], (P(), P("x")), P("x"), *issue) == {}
    along = partitioned(page["oracle"], (P(), P(None, "x")), P(None, "x"), key, inputs)
    assert along == {"all-gather": (1, 786432), "all-to-all": (3, 18432)}
    whole = partitioned(jax.random.permutation, (P(), P("x")), P("x"), key, rows)
    assert whole == {"all-gather": (1, 524288)}


@pytest.mark.full(1)
def test_overlapping_names():
    page = scope_of("overlapping_names")
    x, w = page["x"], nx.rename(page["w"], {"embed_fsdp": "embed"})
    mesh, project = page["mesh"], page["project"]

    def of(f, **layout):
        return nx.xmap(f, axis_resources=layout, mesh=mesh)

    assert sends(of(project, batch="x"), x, w) == {}
    rows = sends(of(project, embed="y"), x, w)
    arrays = (nx.positional(x, ["batch", "embed"]), nx.positional(w, ["embed", "embed_out"]))
    auto = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def hand(x, w):
        return lax.psum_scatter(x @ w, "y", scatter_dimension=1, tiled=True)

    assert rows == by_hand(hand, (P(None, "y"), P("y", None)), P(None, "y"), *arrays, mesh=auto)
    assert rows == {"reduce-scatter": (1, 8192)}
    assert sends(of(project, batch="x", embed_out="y"), x, w) == {"all-gather": (1, 2048)}
    assert sends(of(page["stored"], batch="x", embed_fsdp="x"), x, page["w"]) == {"all-gather": (1, 16384)}
    gradient = jax.grad(lambda w, x: nx.sum(page["stored"](x, w) ** 2, ("batch", "embed")))
    assert sends(of(gradient, batch="x", embed_fsdp="x"), page["w"], x) == {
        "all-gather": (1, 16384),
        "reduce-scatter": (1, 16384),
    }
    for layout in ({"embed": "x", "embed_out": "x"}, {"batch": "x", "embed_out": "x"}):
        with pytest.raises(nx.errors.PlacementConflictError):
            of(project, **layout)(x, w)


def test_silent_replication():
    page = scope_of("silent_replication")
    assert sends(page["f"], page["stored"]) == {"all-reduce": (2, 128)}
    assert page["stored"].data.addressable_shards[0].data.nbytes == 192
    replicated = page["replicated"]
    assert counted(page["in_jax"].lower().compile()) == {}
    assert {shard.data.nbytes for shard in replicated.data.addressable_shards} == {1088}
    assert page["f"](replicated).data.is_fully_replicated
    compiled = counted(jax.jit(page["f"]).lower(replicated).compile())
    assert compiled["all-gather"] == (1, 1536)
    (gather,) = (c for c in nx.explain(page["f"], replicated).collectives if c.kind == "all-gather")
    assert gather.names == ("vocab",)


@pytest.mark.full(1)
@pytest.mark.parametrize(("form", "hops"), [("ring", 7), ("ulysses", 0), ("both", 3)])
def test_context_parallelism(form, hops):
    page = scope_of("context_parallelism")
    f, args = page["forms"][form], (page["q"], page["k"], page["v"])
    ring = {"collective-permute": (2 * hops, 2 * hops * 8192)} if hops else {}
    turns = {} if form == "ring" else {"all-to-all": (4, 32768)}
    assert sends(f, *args, trips=hops) == {**turns, **ring}
    step = jax.grad(lambda q, k, v: jnp.sum(f(q, k, v).data ** 2), (0, 1, 2))
    compiled = nx.hlo.collectives(jax.jit(step).lower(*args).compile())
    permutes = [one.in_loop for one in compiled if one.kind == "collective-permute"]
    # The loop of the forward pass has two permutes, the one of the backward pass has four, and makes one turn less.
    assert (permutes.count(True), permutes.count(False)) == ((6, 4) if hops else (0, 0))
    ring = {"collective-permute": (6 * hops, 6 * hops * 8192)} if hops else {}
    turns = {} if form == "ring" else {"all-to-all": (8, 65536)}
    assert nx.explain(step, *args).summary() == {**turns, **ring}
    assert sum(one.bytes for one in compiled if one.kind == "all-to-all") == turns.get("all-to-all", (0, 0))[1]


@pytest.mark.full(1)
def test_sampling():
    page, spec = scope_of("sharded_top_k_and_sampling"), (P(), P(None, "x"))
    key, logits = page["key"], page["logits"]
    small = {"all-reduce": (2, 32)}
    assert sends(page["f"], key, logits) == small
    greedy = page["sharded"](lambda key, x: nx.argmax(x, "vocab"))
    assert sends(greedy, key, logits) == small
    np.testing.assert_array_equal(greedy(key, logits), np.argmax(logits, 1))

    def hand(x):
        best, ids = lax.top_k(x, 50)
        ids = ids + 4096 * lax.axis_index("x")
        best, ids = (lax.all_gather(y, "x", axis=1, tiled=True) for y in (best, ids))
        best, at = lax.top_k(best, 50)
        return lax.pmax(jnp.take_along_axis(ids, at, 1), "x")  # proves that it is replicated

    gathers = sends(page["g"], key, logits)
    assert gathers == {"all-gather": (2, 12800)}
    assert by_hand(hand, P(None, "x"), P(), logits)["all-gather"] == gathers["all-gather"]
    assert sends(page["h"], key, logits, trips=30) == {"all-reduce": (35, 560)}
    two = {"all-gather": (2, 256)}
    assert partitioned(lambda key, x: jnp.argmax(x, 1), spec, P(), key, logits) == two
    assert partitioned(jax.random.categorical, spec, P(), key, logits) == two
    whole = {"all-gather": (1, 524288)}
    assert partitioned(page["top_k_in_jax"], spec, P(), key, logits) == whole
    assert partitioned(lambda key, x: jnp.sort(x), spec, P(None, "x"), key, logits)["all-gather"] == whole["all-gather"]
    for seed in range(5):
        key = jax.random.key(seed)
        flat = logits / (1 + seed)
        np.testing.assert_array_equal(page["h"](key, flat), page["top_p_in_jax"](key, flat))


@pytest.mark.full(1)
def test_embeddings():
    page = scope_of("embedding_tables_by_rows")
    args, axes = (page["table"], page["ids"], page["target"]), page["axes"]
    rows = mapped(jax.grad(page["loss"]), axes, axes[0], vocab="x")
    both = mapped(jax.grad(page["sharded"]), axes, axes[0], vocab="x", token="x")
    assert sends(rows, *args) == {"all-reduce": (1, 32768)}
    assert sends(both, *args) == {"all-gather": (2, 33280), "reduce-scatter": (1, 32768)}
    assert sends(mapped(jax.grad(page["loss"]), axes, axes[0], embed="x"), *args) == {}

    def gathered(table, ids, target):
        rows = nx.take(nx.rename(table, {"vocab": "all_vocab"}), ids, "all_vocab")
        return nx.mean((rows - target) ** 2, ("token", "embed"))

    step = mapped(jax.grad(gathered), axes, axes[0], vocab="x", token="x")
    assert sends(step, *args) == {"all-gather": (1, 1 << 20), "reduce-scatter": (1, 1 << 20)}

    def lookup(table, ids):
        here = ids - len(table) * lax.axis_index("x")
        inside = (here >= 0) & (here < len(table))
        return jnp.where(inside[:, None], table[jnp.where(inside, here, 0)], 0.0)

    def by_rows(table, ids, target):
        return jax.grad(lambda t: jnp.mean((lax.psum(lookup(t, ids), "x") - target) ** 2))(table)

    def by_both(table, ids, target):
        ids = lax.all_gather(ids, "x", tiled=True)

        def read(t):
            return lax.psum_scatter(lookup(t, ids), "x", tiled=True)

        return jax.grad(lambda t: jnp.sum((read(t) - target) ** 2) / 8192)(table)

    table, one = P("x", None), P("x")
    assert by_hand(by_rows, (table, P(), P()), table, *args) == sends(rows, *args)
    assert by_hand(by_both, (table, one, one), table, *args) == sends(both, *args)
    forward = mapped(lambda t, i: nx.take(t, i, "vocab"), (axes[0], ["token"]), axes[2], vocab="x")
    assert partitioned(lambda t, i: t[i], (table, P()), P(), *args[:2]) == sends(forward, *args[:2])
    assert partitioned(lambda t, i: t[i], (table, one), one, *args[:2])["all-reduce"] == (1, 32768)


def test_maxtext_rules():
    page = scope_of("maxtext_logical_rules")
    x, w = page["x"], page["w"]
    have = sends(page["f"], x, w)
    auto = jax.make_mesh((2, 2, 2), ("fsdp", "fsdp_transpose", "tensor"), axis_types=(AxisType.Auto,) * 3)

    def hand(x, w):
        w = lax.all_gather(w, "fsdp", axis=0, tiled=True)
        return x @ lax.all_gather(w, "fsdp_transpose", axis=1, tiled=True)

    batch = ("fsdp", "fsdp_transpose")
    specs = (P(batch, None), P("fsdp", ("tensor", "fsdp_transpose")))
    assert have == by_hand(hand, specs, P(batch, "tensor"), x, w, mesh=auto) == {"all-gather": (2, 49152)}
    turned = {**page["layout"], "mlp": ("fsdp_transpose", "tensor")}
    g = nx.xmap(page["layer"], (page["inputs"], page["up"]), page["hidden"], axis_resources=turned, mesh=page["mesh"])
    assert sends(g, x, w) == {**have, "collective-permute": (1, 8192)}


def test_flax_resolves_the_conflict_silently():
    rules = [("embed", ("fsdp", "layers")), ("mlp", "fsdp")]
    assert linen.logical_to_mesh_axes(("embed", "mlp"), rules) == P(("fsdp", "layers"), None)
    twice = P(*spmd.from_sharding_rules(("embed", "mlp"), rules))
    assert twice == P(("fsdp", "layers"), "fsdp")
    mesh = jax.make_mesh((4, 2), ("fsdp", "layers"))
    with pytest.raises(Exception, match=r"(?i)duplicate"):
        NamedSharding(mesh, twice)
    rules = scope_of("maxtext_logical_rules")["rules"]
    assert linen.logical_to_mesh_axes(("batch", "mlp"), rules) == P(("fsdp", "fsdp_transpose"), None)


def test_the_index_lists_every_recipe():
    text = (PAGES / "index.md").read_text()
    pages = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "index")
    listed = sorted(re.findall(r"\]\((\w+)\.md\)", text))
    assert sorted(text.partition("toctree}")[2].split("```")[0].split("\n\n", 1)[1].split()) == listed
    assert set(pages) <= set(listed)
