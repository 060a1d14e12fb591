"""Law 2, in JAX's caches: the ambient region is part of every cache key, so no program is ever used under another assignment.

The helpers below see blocks of equal shapes under different assignments, or global arrays that have the shape of a block. Only
the region tells these calls apart.
"""

import gc
import pickle
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.core.region import Region, ambient, enter
from namedax.errors import AxisResourceError, AxisSizeError, PlacementConflictError, UnevenAxisError
from tests import make
from tests.harness import array, make_mesh, said

# Over `x`, a (16, 4) array whose first axis is sharded and a (4, 16) array whose second one is both have blocks of (4, 4).
MESH = make_mesh((4, 2))


def xmap(body, in_axes, out_axes, resources, mesh=MESH, **options):
    return nx.xmap(body, in_axes, out_axes, axis_resources=resources, mesh=mesh, **options)


# --- one helper, several assignments ----------------------------------------------------------------------------------


def test_one_helper_under_two_assignments_with_equal_local_shapes():
    traces = []

    @jax.jit
    def total(x):
        traces.append(x.data.shape)
        return nx.sum(x, "a")

    tall, wide = array(16, 4, seed=1), array(4, 16, seed=2)
    for _ in range(2):
        have = xmap(total, ["a", "b"], ["b"], {"a": "x"})(tall)
        np.testing.assert_allclose(have, tall.sum(0), rtol=1e-5)
        have = xmap(total, ["a", "b"], ["b"], {"b": "x"})(wide)
        np.testing.assert_allclose(have, wide.sum(0), rtol=1e-5)
    assert traces == [(4, 4), (4, 4)]  # the same local type, traced once for each assignment


def test_one_helper_inside_and_outside_of_bodies():
    traces = []

    @jax.jit
    def normalise(x):
        traces.append(dict(x.named_shape))
        return x / nx.sum(x, "a")

    x = array(8, seed=1) ** 2
    block = nx.named(x[:2], ["a"])
    for _ in range(2):
        # The global array has the shape of the block in the body.
        np.testing.assert_allclose(normalise(block).data, x[:2] / x[:2].sum(), rtol=1e-5)
        np.testing.assert_allclose(xmap(normalise, ["a"], ["a"], {"a": "x"})(x), x / x.sum(), rtol=1e-5)
        np.testing.assert_allclose(nx.xmap(normalise, ["a"], ["a"])(x[:2]), x[:2] / x[:2].sum(), rtol=1e-5)
        np.testing.assert_allclose(
            xmap(normalise, ["a"], ["a"], {"a": ("x", "y")})(jnp.tile(x, 2)), jnp.tile(x, 2) / x.sum() / 2, rtol=1e-5
        )
    assert traces == [{"a": 2}, {"a": 8}, {"a": 2}, {"a": 16}]


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": "x"}, {"a": "y"}),
        ({"a": ("x", "y")}, {"a": ("y", "x")}),
        ({"a": "x", "b": "y"}, {"b": "x", "a": "y"}),
    ],
)
def test_a_constant_in_an_inner_jit(first, second):
    index = jax.jit(lambda x: x * 0 + nx.lax.axis_index("a") * 10 + nx.arange(axis="b"))
    x = array(8, 8)
    want = np.arange(8)[:, None] * 10 + np.arange(8)
    for resources in (first, second, first):
        np.testing.assert_array_equal(xmap(index, ["a", "b"], ["a", "b"], resources)(x), want)


def test_an_inner_jit_in_loops_and_conditions():
    total = jax.jit(lambda x: nx.sum(x, "a"))

    def body(x):
        looped = jax.lax.fori_loop(0, 3, lambda i, c: c + total(x), 0 * total(x))
        chosen = jax.lax.cond(True, lambda: total(x) * 2, lambda: total(x))
        scanned, _ = jax.lax.scan(lambda c, _: (c + total(x), None), 0 * total(x), None, length=2)
        return looped, chosen, scanned

    x = array(16, 4)
    for resources in ({"a": "x"}, {"b": "x"}, {"a": "y", "b": "x"}):
        results = xmap(body, ["a", "b"], ["b"], resources)(x)
        for have, factor in zip(results, (3, 2, 2), strict=True):
            np.testing.assert_allclose(have, factor * x.sum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.fast(0)
def test_the_gradient_of_an_inner_jit():
    loss = jax.jit(lambda w, x: nx.sum(nx.tanh(w * x), ("a", "b")))
    w, x = array(4, seed=3), array(16, 4)
    want = jax.jit(jax.grad(lambda w: jnp.sum(jnp.tanh(w * x))))(w)
    for resources in ({"a": "x"}, {"b": "x"}, {"a": "x", "b": "y"}):
        inside = xmap(jax.grad(loss), (["b"], ["a", "b"]), ["b"], resources)(w, x)
        outside = jax.grad(xmap(loss, (["b"], ["a", "b"]), [], resources))(w, x)
        np.testing.assert_allclose(inside, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(outside, want, rtol=1e-4, atol=1e-5)


def test_manual_and_automatic_partitioning_do_not_share_programs():
    shapes = []

    @jax.jit
    def total(x):
        shapes.append(x.data.shape)
        return nx.sum(x, "a")

    x = array(16)
    for partitioning in ("manual", "auto", "manual"):
        f = xmap(total, ["a"], [], {"a": "x"}, partitioning=partitioning)
        np.testing.assert_allclose(f(x), x.sum(), rtol=1e-5)
    assert shapes == [(4,), (16,)]


@pytest.mark.fast(0)
def test_checkpointed_and_vmapped_helpers():
    total = jax.checkpoint(jax.jit(lambda x: nx.sum(nx.sin(x), "a")))
    x = array(3, 16)
    for resources in ({"a": "x"}, {"a": "y"}, {}):
        f = xmap(jax.vmap(total), [None, "a"], [None], resources)
        np.testing.assert_allclose(f(x), jnp.sin(x).sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.grad(lambda x, f=f: f(x).sum())(x), jnp.cos(x), rtol=1e-5, atol=1e-6)


# --- named_shape, sizes -----------------------------------------------------------------------------------------------


def test_named_shape_is_global_and_data_is_local():
    seen = []

    def body(x, v):
        seen.append((dict(x.named_shape), x.data.shape, x.shape, x.nbytes // x.itemsize))
        born = nx.rename(x, {"a": "c"})
        seen.append((dict(born.named_shape), born.data.shape))
        made = nx.named(v, ["d", ...])
        seen.append((dict(made.named_shape), made.data.shape))
        return nx.sum(born, "c") + nx.sum(made, "d")

    xmap(body, (["a", None], {}), [None], {"a": "x", "c": ("y", "x"), "d": "y"})(array(16, 3), array(6, 3))
    assert seen == [({"a": 16}, (4, 3), (3,), 48), ({"c": 16}, (2, 3)), ({"d": 6}, (3, 3))]


@pytest.mark.fast(1)
@pytest.mark.parametrize("partitioning", ["manual", "auto"])
def test_an_array_that_a_body_closes_over_is_global(partitioning):
    # `h` comes into the body with the array: no argument has it.
    w, seen = nx.named(array(8, 3, seed=1), ["h", "b"]), []

    def body(v):
        seen.append(dict(w.named_shape))
        squares = jax.tree.map(lambda w: w * w, w)
        helper = jax.jit(lambda w: nx.sum(w, "h"))
        scanned, _ = jax.lax.scan(lambda c, _: (c + nx.sum(w, "h"), None), v, None, length=2)
        gradient = jax.grad(lambda w: nx.sum(w**3, ("h", "b")))(w)
        return nx.sum(w, "h") * v, nx.sum(squares, "h") + v, helper(w) - v, scanned, w, gradient, nx.argmax(w, "h") + v

    d = w.data
    v = array(3, seed=2)
    names = ["h", "b"]
    f = xmap(body, ["b"], (["b"], ["b"], ["b"], ["b"], names, names, ["b"]), {"h": "x"}, partitioning=partitioning)
    wanted = (d.sum(0) * v, (d * d).sum(0) + v, d.sum(0) - v, v + 2 * d.sum(0), d, 3 * d**2, d.argmax(0) + v)
    for have, want in zip(f(v), wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    assert seen == [{"h": 8, "b": 3}]


@pytest.mark.parametrize("partitioning", ["manual", "auto"])
def test_an_array_that_a_body_closes_over_is_no_block(partitioning):
    # Its size is that of a block on this mesh, and it is not the size of the axis.
    w = nx.named(array(2), ["a"])
    with pytest.raises(AxisSizeError) as error:
        xmap(lambda x: x * w, ["a"], ["a"], {"a": "x"}, partitioning=partitioning)(array(8))
    assert "axis 'a' has size 2" in str(error.value)
    assert "size 8 in this mapped function" in str(error.value)


# --- strict names -----------------------------------------------------------------------------------------------------


def test_names_count_as_seen_when_an_inner_jit_is_found_in_the_cache():
    traces = []

    @jax.jit
    def helper(x):
        traces.append(x.dtype)
        return nx.sum(nx.rename(x, {"a": "inner"}) * 2, "inner")

    # The second argument makes JAX trace the body again, but not the helper.
    f = xmap(lambda x, y: helper(x) + nx.sum(y, "b"), (["a"], ["b"]), [], {"inner": "x"})
    x = array(8)
    np.testing.assert_allclose(f(x, jnp.ones(3)), 2 * x.sum() + 3, rtol=1e-5)
    np.testing.assert_allclose(f(x, jnp.ones(3, int)), 2 * x.sum() + 3, rtol=1e-5)
    np.testing.assert_allclose(f(x, jnp.ones(3, jnp.bfloat16)), 2 * x.sum() + 3, rtol=1e-5)
    assert len(traces) == 1


def test_a_name_that_no_value_has_stays_an_error():
    f = xmap(lambda x: x * 2, ["a"], ["a"], {"a": "x", "aa": "y"})
    for dtype in (float, int, float):
        with pytest.raises(
            AxisResourceError, match=r"maps 'aa' to .*, but no value in <lambda> has an axis 'aa'; the axes are 'a'."
        ):
            f(make.ones(8, dtype))


@pytest.mark.fast(0)
def test_records_of_names_go_with_their_regions():
    region = Region({"a": 8}, {}, None, "manual", "program")
    region.seen.add("b")
    assert Region({"a": 8}, {}, None, "manual", "program").seen == {"b"}
    assert Region({"a": 8}, {}, None, "manual", "another").seen == set()
    record = weakref.ref(region.seen)
    del region
    gc.collect()
    assert record() is None


# --- the region -------------------------------------------------------------------------------------------------------

REGIONS = [
    ({"a": 8}, {"a": ("x",)}, MESH, "manual", 1),
    ({"a": 16}, {"a": ("x",)}, MESH, "manual", 1),
    ({"b": 8}, {"a": ("x",)}, MESH, "manual", 1),
    ({"a": 8}, {"a": ("y",)}, MESH, "manual", 1),
    ({"a": 8}, {"a": ("x", "y")}, MESH, "manual", 1),
    ({"a": 8}, {"a": ("y", "x")}, MESH, "manual", 1),
    ({"a": 8}, {}, MESH, "manual", 1),
    ({"a": 8}, {"a": ("x",)}, make_mesh((2, 4)), "manual", 1),
    ({"a": 8}, {"a": ("x",)}, make_mesh((4, 2), "explicit"), "manual", 1),
    ({"a": 8}, {"a": ("x",)}, MESH, "auto", 1),
    ({"a": 8}, {"a": ("x",)}, MESH, "manual", 2),
]


def test_equal_regions_are_equal():
    for arguments in REGIONS:
        one, two = Region(*arguments), Region(*arguments)
        assert one == two
        assert hash(one) == hash(two)
        assert {one: 1}[two] == 1
    # The order of a dictionary does not matter.
    assert Region({"a": 8, "b": 4}, {}, None, "manual", 0) == Region({"b": 4, "a": 8}, {}, None, "manual", 0)


def test_different_regions_are_different():
    regions = [Region(*arguments) for arguments in REGIONS]
    for i, one in enumerate(regions):
        for j, two in enumerate(regions):
            assert (one == two) == (i == j), (REGIONS[i], REGIONS[j])
    assert regions[0] != "region"


def test_a_region_does_not_change_with_the_dictionaries_it_came_from():
    sizes, resources = {"a": 8}, {"a": ("x",)}
    region = Region(sizes, resources, MESH, "manual", 0)
    sizes["a"], resources["a"] = 16, ("y",)
    assert region.sizes == {"a": 8}
    assert region.resources == {"a": ("x",)}


def test_blocks():
    region = Region({"a": 16}, {"a": ("x", "y"), "b": ("y",)}, MESH, "manual", 0)
    assert region.manual
    assert (region.placement("a"), region.placement("b"), region.placement("c")) == (("x", "y"), ("y",), ())
    assert (region.blocks("a"), region.blocks("b"), region.blocks("c")) == (8, 2, 1)
    assert (region.block_size("a", 16, "op"), region.block_size("c", 7, "op")) == (2, 7)
    assert (region.global_size("a", 2), region.global_size("b", 3), region.global_size("c", 3)) == (16, 6, 3)
    auto = Region({"a": 16}, {"a": ("x", "y")}, MESH, "auto", 0)
    assert not auto.manual
    assert (auto.placement("a"), auto.blocks("a"), auto.block_size("a", 16, "op")) == ((), 1, 16)
    for either in (region, auto):
        with pytest.raises(AxisSizeError, match="op: axis 'a' of size 12 does not divide"):
            either.block_size("a", 12, "op")


def test_blocks_with_padding():
    region = Region({"a": 10, "b": 4}, {"a": ("x", "y"), "b": ("y",)}, MESH, "manual", 0)
    assert region.uneven == {"a"}
    assert (tuple(region.place("a")), region.place("a").size, region.place("b")) == (("x", "y"), 10, ("y",))
    assert (region.block_size("a", 10, "op", supports_padding=True), region.global_size("a", 2)) == (2, 10)
    for ask in (region.placement, region.blocks, lambda name: region.block_size(name, 10, "op")):
        with pytest.raises(UnevenAxisError, match="axis 'a' of size 10 does not divide"):
            ask("a")


def test_two_names_on_one_mesh_axis():
    region = Region({}, {"a": ("x",), "b": ("y", "x"), "c": ("y",)}, MESH, "manual", 0)
    region.check_placement("op", ["a", "c", "free", "a"])
    with pytest.raises(PlacementConflictError) as error:
        region.check_placement("op", ["a", "free", "b"])
    assert said(error.value) == (
        "op: axes 'a' and 'b' meet in one value, but both are mapped to mesh axis 'x', which can hold only one of them. "
        "Rename one of them to an axis that is not on 'x' first (nx.rename, or {new:old} in einsum: this communicates), or "
        "change axis_resources."
    )


# --- the context ------------------------------------------------------------------------------------------------------


def test_the_region_is_ambient_while_a_body_is_traced():
    assert ambient() is None
    seen = []
    xmap(lambda x: (seen.append(ambient()), x)[1], ["a"], ["a"], {"a": "x"})(array(8))
    nx.xmap(lambda x: (seen.append(ambient()), x)[1], ["a"], ["a"], jit=False)(array(8))
    assert ambient() is None
    assert (seen[0].sizes, seen[0].resources, seen[0].manual) == ({"a": 8}, {"a": ("x",)}, True)
    assert (seen[1].sizes, seen[1].resources, seen[1].manual) == ({"a": 8}, {}, False)


def test_the_region_ends_with_an_exception():
    def body(x):
        raise RuntimeError("body")

    for options in ({}, {"jit": False}):
        with pytest.raises(RuntimeError, match="body"):
            xmap(body, ["a"], ["a"], {"a": "x"}, **options)(array(8))
        assert ambient() is None


def test_contexts_nest():
    one, two = (Region({"a": n}, {}, None, "manual", 0) for n in (1, 2))
    with enter(one):
        with enter(two):
            assert ambient() is two
        assert ambient() is one
        with enter(None):
            assert ambient() is None
    assert ambient() is None


def test_threads_have_regions_of_their_own():
    total = jax.jit(lambda x: x / nx.sum(x, "a"))
    barrier, results, regions = threading.Barrier(4), {}, {}
    x = array(8) ** 2
    assignments = [{"a": "x"}, {"a": ("x", "y")}, {}, {"a": "y"}]

    def work(i):
        def body(x):
            barrier.wait(timeout=60)  # all four bodies are being traced now
            regions[i] = ambient().resources
            return total(x)

        barrier.wait(timeout=60)
        regions[i] = ambient()
        results[i] = xmap(body, ["a"], ["a"], assignments[i])(x)

    with enter(Region({"a": 1}, {}, None, "manual", 0)):  # not seen by the others
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert regions == {0: {"a": ("x",)}, 1: {"a": ("x", "y")}, 2: {}, 3: {"a": ("y",)}}
    for i in range(4):
        np.testing.assert_allclose(results[i], x / x.sum(), rtol=1e-5)


def test_an_array_made_in_a_body_can_be_used_after_it():
    kept = nx.xmap(lambda x: x * 2, ["a"], None, axis_resources={"a": "x"}, mesh=MESH)(array(8))
    assert kept.named_shape == {"a": 8}
    np.testing.assert_allclose(nx.sum(kept, "a"), 2 * array(8).sum(), rtol=1e-5)
    assert pickle.loads(pickle.dumps(kept)).named_shape == {"a": 8}
