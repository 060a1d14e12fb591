"""Sums over mesh axes that are postponed: values, gradients, and what is sent, against programs that an expert writes by hand."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import subjaxprs
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import SerialLoop, hlo
from namedax.programs.postpone_psum import postponing
from tests import make

POS, K, E, F = 16, 8, 12, 4  # floats have 4 bytes
REDUCE, GATHER, SCATTER = "all-reduce", "all-gather", "reduce-scatter"


def mesh_of(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("m", "d"), axis_types=(kind,) * 2)


def operands():
    x, w, z = (np.random.default_rng(i).normal(size=shape) for i, shape in enumerate([(POS, K), (K, E), (POS, E)]))
    axes = ["pos", "k"], ["k", "e"], ["pos", "e"]
    return tuple(nx.named(jnp.asarray(value, jnp.float32), names) for value, names in zip((x, w, z), axes, strict=True))


def dot(x, w):
    return nx.dot(x, w, "k")


def part(x):
    return nx.rename(x, {"pos": "part"})


TO_SP = {"pos": "pos_sp"}
NORMAL = POS * E * F

# Each: the function of named arrays, the same in jnp, names to mesh axes, and what is sent forwards, and with the gradient of a function
# of the result, differentiated in the body: {kind: (count, bytes)}.
PROGRAMS = {
    "added": (
        lambda x, w, z: dot(x, w) + dot(nx.sin(x), w),
        lambda x, w, z: x @ w + jnp.sin(x) @ w,
        {"k": "m"},
        {REDUCE: (1, NORMAL)},
        {REDUCE: (1, NORMAL)},
    ),
    "added to a residual": (
        lambda x, w, z: z + dot(x, w) - dot(nx.sin(x), w),
        lambda x, w, z: z + x @ w - jnp.sin(x) @ w,
        {"k": "m"},
        {REDUCE: (1, NORMAL)},
        {REDUCE: (1, NORMAL)},
    ),
    "scaled, and subtracted from one": (
        lambda x, w, z: z - dot(x, w) / 4 - (2 * nx.sum(nx.sin(x), "k") - z) + z,
        lambda x, w, z: z - x @ w / 4 - (2 * jnp.sin(x).sum(1, keepdims=True) - z) + z,
        {"k": "m"},
        {
            REDUCE: (1, NORMAL + POS * F)
        },  # each sum is scaled by itself: `p / 4` of a summand may be finite where the sum is not
        {REDUCE: (1, NORMAL + POS * F)},
    ),
    "broadcast, and added when that is larger than both": (
        lambda x, w, z: z + nx.sum(nx.sin(x), "k") + nx.sum(x, "k") * nx.arange(E, axis="e"),
        lambda x, w, z: z + jnp.sin(x).sum(1, keepdims=True) + x.sum(1, keepdims=True) * jnp.arange(E),
        {"k": "m"},
        {REDUCE: (1, 2 * POS * F)},
        {REDUCE: (1, 2 * POS * F)},
    ),
    "contracted with what is the same everywhere": (
        lambda x, w, z: nx.dot(dot(x, w), nx.rename(z, {"pos": "n"})[{"n": slice(0, 2)}], "e"),
        lambda x, w, z: (x @ w) @ z[:2].T,
        {"k": "m"},
        {REDUCE: (1, NORMAL)},  # a product of a summand may overflow where that of the sum does not
        {REDUCE: (1, NORMAL)},
    ),
    "looked up": (
        lambda x, w, z: nx.take(dot(x, w), nx.named(jnp.array([3, 1, 3]), ["n"]), "pos"),
        lambda x, w, z: (x @ w)[jnp.array([3, 1, 3])],
        {"k": "m"},
        {REDUCE: (1, 3 * E * F)},
        {REDUCE: (1, 3 * E * F)},
    ),
    "a slice": (
        lambda x, w, z: part(dot(x, w))["part", 2:5],
        lambda x, w, z: (x @ w)[2:5],
        {"k": "m"},
        {REDUCE: (1, 3 * E * F)},
        {REDUCE: (1, 3 * E * F)},
    ),
    "an entry of a sum with a residual": (
        lambda x, w, z: (z + dot(x, w))["pos", 3],
        lambda x, w, z: (z + x @ w)[3],
        {"k": "m"},
        {REDUCE: (1, E * F)},
        {REDUCE: (1, E * F)},
    ),
    "renamed onto the reduced mesh axis": (
        lambda x, w, z: nx.rename(dot(x, w), TO_SP),
        lambda x, w, z: x @ w,
        {"k": "m", "pos_sp": "m"},
        {SCATTER: (1, NORMAL)},
        {SCATTER: (1, NORMAL), GATHER: (1, NORMAL)},
    ),
    "renamed with a residual": (
        lambda x, w, z: nx.rename(z + dot(x, w) / 2, TO_SP),
        lambda x, w, z: z + x @ w / 2,
        {"k": "m", "pos_sp": "m"},
        {SCATTER: (1, NORMAL)},
        {SCATTER: (1, NORMAL), GATHER: (1, NORMAL)},
    ),
    "reduced over two mesh axes, renamed onto one": (
        lambda x, w, z: nx.rename(dot(x, w), TO_SP),
        lambda x, w, z: x @ w,
        {"k": ("d", "m"), "pos_sp": "m"},
        {SCATTER: (1, NORMAL), REDUCE: (1, NORMAL // 4)},
        {SCATTER: (1, NORMAL), REDUCE: (1, NORMAL // 4), GATHER: (1, NORMAL)},
    ),
    "renamed onto two mesh axes": (
        lambda x, w, z: nx.rename(dot(x, w), TO_SP),
        lambda x, w, z: x @ w,
        {"k": ("d", "m"), "pos_sp": ("d", "m")},
        {SCATTER: (1, NORMAL)},
        {SCATTER: (1, NORMAL), GATHER: (1, NORMAL)},
    ),
    "reduced over two mesh axes, two names renamed onto them": (
        lambda x, w, z: nx.rename(dot(x, w), {"pos": "pos_sp", "e": "e_sp"}),
        lambda x, w, z: x @ w,
        {"k": ("d", "m"), "pos_sp": "m", "e_sp": "d"},
        {SCATTER: (2, NORMAL + NORMAL // 4)},
        {SCATTER: (2, NORMAL + NORMAL // 4), GATHER: (2, NORMAL + NORMAL // 4)},
    ),
    "a cut alone": (
        lambda x, w, z: nx.rename(nx.sin(z), TO_SP),
        lambda x, w, z: jnp.sin(z),
        {"pos_sp": "m"},
        {},
        {GATHER: (1, NORMAL)},
    ),
    "a sum that is used again": (
        lambda x, w, z: (lambda s: z + s + dot(nx.sin(x), w) * s)(dot(x, w)),
        lambda x, w, z: z + x @ w + (jnp.sin(x) @ w) * (x @ w),
        {"k": "m"},
        {REDUCE: (1, 2 * NORMAL)},
        {REDUCE: (1, 2 * NORMAL)},
    ),
}


def loss_of(function, *args):
    y = function(*args)
    return nx.sum(nx.sin(y), y.dims) + 0.0 if isinstance(y, nx.NamedArray) else jnp.sum(jnp.sin(y))


def sent(compiled):
    return dict(hlo.summary(compiled))


ON_EXPLICIT = (
    "added to a residual",
    "a slice",
    "renamed with a residual",
    "reduced over two mesh axes, two names renamed onto them",
)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("label", "kind"),
    [(label, AxisType.Auto) for label in PROGRAMS] + [(label, AxisType.Explicit) for label in ON_EXPLICIT],
)
def test_values_gradients_and_bytes(label, kind):
    named, plain, resources, forwards, both = PROGRAMS[label]
    args, options = operands(), {"axis_resources": resources, "mesh": mesh_of(kind)}
    raw = [arg.data for arg in args]
    f = nx.xmap(named, **options)
    np.testing.assert_allclose(f(*args).data, plain(*raw), rtol=1e-4, atol=1e-5)
    want = jax.jit(jax.grad(functools.partial(loss_of, plain), (0, 1, 2)))(*raw)
    inside = nx.xmap(jax.grad(functools.partial(loss_of, named), (0, 1, 2)), **options)
    outside = jax.jit(jax.grad(nx.xmap(functools.partial(loss_of, named), **options), (0, 1, 2)))
    for grads in (inside, outside):
        for have, like, expected in zip(grads(*args), args, want, strict=True):
            np.testing.assert_allclose(nx.order_like(have, like).data, expected, rtol=1e-4, atol=1e-4)
    if kind == AxisType.Auto:
        assert sent(f.lower(*args).compile()) == forwards
        have = sent(inside.lower(*args).compile())
        # The operands' gradients: only what has names on the mesh is not summed up again.
        assert {kind: cost for kind, cost in have.items() if kind != REDUCE or REDUCE in both} == both


def parallel_block(x, w1, w2):
    """Two branches that read the same, reduced over the same mesh axis, and are added to what they read."""
    one = nx.dot(nx.nn.relu(nx.dot(x, w1, "e")), w2, "k")
    two = nx.dot(nx.sin(nx.dot(x, w1, "e")), w2, "k")
    return x + one + two


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("remat", [False, True], ids=["", "checkpoint"])
def test_within_scan_and_checkpoint(remat):
    def body(x, w1, w2):
        layer = jax.checkpoint(parallel_block) if remat else parallel_block
        return nx.mean(nx.scan(lambda c, _: (layer(c, w1, w2), None), x, None, length=3)[0] ** 2, ("pos", "e"))

    def by_hand(x, w1, w2):
        def layer(x, _):
            v = lax.pcast(x, "m", to="varying")  # once, so that the gradient is summed once
            one, two = jax.nn.relu(v @ w1) @ w2, jnp.sin(v @ w1) @ w2
            return x + lax.psum(one + two, "m"), None

        return jnp.mean(lax.scan(jax.checkpoint(layer) if remat else layer, x, None, length=3)[0] ** 2)

    _, w, x = operands()
    w1 = nx.rearrange(w, "{k, e} -> {e, k}") / 3
    mesh = mesh_of()
    specs = (P(), P(None, "m"), P("m"))
    hand = jax.shard_map(by_hand, mesh=mesh, in_specs=specs, out_specs=P())
    options = {"axis_resources": {"k": "m"}, "mesh": mesh}
    raw = (x.data, w1.data, w.data)
    want = jax.jit(jax.value_and_grad(hand, (0, 1, 2))).lower(*raw).compile()
    inside_by_hand = jax.shard_map(jax.value_and_grad(by_hand, (0, 1, 2)), mesh=mesh, in_specs=specs, out_specs=(P(), specs))
    inside_want = jax.jit(inside_by_hand).lower(*raw).compile()
    inside = nx.xmap(jax.value_and_grad(body, (0, 1, 2)), **options).lower(x, w1, w).compile()
    outside = jax.jit(jax.value_and_grad(nx.xmap(body, **options), (0, 1, 2))).lower(x, w1, w).compile()
    assert sent(inside) == sent(inside_want)
    assert sent(outside) == sent(want)
    value, grads = want(*raw)
    for have_value, have in (inside(x, w1, w), outside(x, w1, w)):
        np.testing.assert_allclose(have_value, value, rtol=1e-5)
        for a, like, b in zip(have, (x, w1, w), grads, strict=True):
            np.testing.assert_allclose(nx.order_like(a, like).data, b, rtol=1e-4, atol=1e-6)


# --- the pass alone, on programs of any kind ---------------------------------------------------------------------------------


def both_ways(body, in_specs, out_specs, *args):
    """The results and the collectives of a body as it is, and with its sums postponed."""
    results = []
    for form in (body, postponing(body)):
        compiled = jax.jit(jax.shard_map(form, mesh=mesh_of(), in_specs=in_specs, out_specs=out_specs)).lower(*args).compile()
        results.append((jax.tree.map(np.asarray, compiled(*args)), sent(compiled)))
    (want, before), (have, after) = results
    jax.tree.map(lambda h, w: np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-6), have, want)
    return before, after


A = make.asarray(np.random.default_rng(7).normal(size=(16, 8)), jnp.float32)
HALF = (P(None, "m"),)  # blocks of 16 x 2


def test_what_is_not_linear_stays_as_it_is():
    def body(a):
        s, t = lax.psum(a, "m"), lax.psum(jnp.sin(a), "m")
        return s * t + lax.pmax(a, "m"), s[:2] + jnp.exp(t[:2]) * s[2:4]

    before, after = both_ways(body, HALF, P(), A)
    assert before == after


def test_integers_and_sums_over_other_axes_are_not_added_first():
    def body(a):
        b = lax.pcast(a, "d", to="varying") * (1 + lax.axis_index("d"))
        n = lax.psum(jnp.int32(10 * a), "m") - lax.psum(jnp.int32(a), "m")
        return lax.psum(b, ("m", "d")) + lax.psum(a, "m"), n

    before, after = both_ways(body, HALF, P(), A)
    assert before[REDUCE][1] - after[REDUCE][1] == 16 * 2 * F  # of the integers


def test_integers_are_divided_when_they_have_been_added_up():
    def body(a):
        return lax.div(lax.psum(jnp.int32(10 * a), "m"), jnp.int32(4))[:2]

    before, after = both_ways(body, HALF, P(), A)
    assert before == {REDUCE: (1, 16 * 2 * F)}
    assert after == {REDUCE: (1, 2 * 2 * F)}


CUT = {
    "a slice": lambda v: v[3:5],
    "a block of the device": lambda v: lax.dynamic_slice_in_dim(v, 4 * lax.axis_index("m"), 4),
    "a row, turned": lambda v: v[::-1].T[:, 3:5],
}
SCALED = {
    "product": lambda v, s: v * s,
    "product with a constant": lambda v, s: v * 2048,
    "quotient": lambda v, s: v / s,
    "quotient, and a residual on both sides": lambda v, s: s - (v + s) / s * 3 + 2,
    "dividend": lambda v, s: s / v,  # no scaling of the sum: only a block of the device is taken before it
}


@pytest.mark.fast(1)
@pytest.mark.parametrize("scaled", SCALED)
@pytest.mark.parametrize("cut", CUT)
def test_what_is_cut_is_scaled_after_the_sum_to_the_last_bit(cut, scaled):
    """Infinities, NaN and what overflows in the summands: each element is computed by the operations that are written."""
    special = np.array([0, -0.0, np.inf, np.nan, 1, 40, 60000, 1e-7], np.float16)
    a = np.zeros((16, 8), np.float16)
    a[:, 0], a[:, 2] = np.resize(special, 16), np.resize([-39, 1, 39, 0, np.inf, 1], 16)
    s = np.resize(np.roll(special, 3), (16, 2))
    spec = P("m") if cut == "a block of the device" else P()

    def body(a, s):
        return CUT[cut](SCALED[scaled](lax.psum(a, "m"), s))

    def run(form):
        mapped = jax.shard_map(form, mesh=mesh_of(), in_specs=(*HALF, P()), out_specs=spec)
        compiled = jax.jit(mapped).lower(jnp.asarray(a), jnp.asarray(s)).compile()
        return np.asarray(compiled(a, s)), sent(compiled)

    (want, before), (have, after) = run(body), run(postponing(body))
    np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(np.signbit(have), np.signbit(want))
    moved = {kind: cost[1] / (4 if kind == SCATTER else 1) for kind, cost in after.items()}
    assert (moved != {REDUCE: before[REDUCE][1]}) == (scaled != "dividend" or cut == "a block of the device")


def test_a_wider_type_may_make_fewer_elements_more_bytes():
    def body(a):
        s = lax.psum(a.astype(jnp.bfloat16), "m")  # 16 x 2
        return jnp.einsum("sf,gs->gf", s, jnp.ones((10, 16), jnp.bfloat16), preferred_element_type=jnp.float32)

    closed = jax.make_jaxpr(jax.shard_map(postponing(body), mesh=mesh_of(), in_specs=HALF, out_specs=P()))(A)

    def sums(jaxpr):
        yield from (eqn for eqn in jaxpr.eqns if eqn.primitive.name.startswith("psum"))
        for inner in subjaxprs(jaxpr):
            yield from sums(inner)

    (found,) = sums(closed.jaxpr)
    assert found.outvars[0].aval.dtype == jnp.bfloat16


def test_blocks_along_two_dimensions_over_one_mesh_axis():
    """Only one of them can be scattered."""
    a = make.asarray(np.random.default_rng(8).normal(size=(16, 16)), jnp.float32)

    def body(a):
        s = jnp.sin(lax.psum(a, "m")) + jnp.ones((16, 1), jnp.float32)  # 16 x 4
        first = lax.dynamic_slice_in_dim(s, 4 * lax.axis_index("m"), 4, 0)
        return lax.dynamic_slice_in_dim(jnp.cos(first), lax.axis_index("m"), 1, 1)

    before, after = both_ways(body, HALF, P("m"), a)
    assert before == {REDUCE: (1, 16 * 4 * F)}
    assert set(after) == {SCATTER}


def test_slices_at_traced_places():
    def body(a, i):
        s = lax.psum(a, "m")
        return lax.dynamic_slice_in_dim(s, i, 4)

    _, after = both_ways(body, (*HALF, P()), P(), A, jnp.int32(5))
    assert after == {REDUCE: (1, 4 * 2 * F)}


def test_a_slice_at_a_place_that_differs_from_device_to_device_is_no_block():
    def body(a):
        s = lax.pcast(lax.psum(a, "m"), "m", to="varying")
        other = lax.dynamic_slice_in_dim(s, 4 * (3 - lax.axis_index("m")), 4)
        small = lax.dynamic_slice_in_dim(s, 4 * lax.axis_index("m"), 2)
        return other, small

    before, after = both_ways(body, HALF, P("m"), A)
    assert before == after == {REDUCE: (1, 16 * 2 * F)}


def test_blocks_of_a_sum_are_a_reduce_scatter_and_a_sum_of_blocks_among_zeros_is_a_gather():
    def body(a):
        s = lax.pcast(lax.psum(a, ("m",)), "m", to="varying")
        block = lax.dynamic_slice_in_dim(s, 4 * lax.axis_index("m"), 4)
        among = lax.dynamic_update_slice_in_dim(jnp.zeros((16, 2)), jnp.sin(block), 4 * lax.axis_index("m"), 0)
        return block, lax.psum(among, "m")

    before, after = both_ways(body, HALF, (P("m"), P()), A)
    assert before == {REDUCE: (2, 2 * 16 * 2 * F)}
    assert after == {SCATTER: (1, 16 * 2 * F), GATHER: (1, 16 * 2 * F)}


def test_among_other_values_it_is_no_gather():
    def body(a):
        among = lax.dynamic_update_slice_in_dim(jnp.ones((16, 2)), a[:4], 4 * lax.axis_index("m"), 0)
        over = lax.dynamic_update_slice_in_dim(jnp.zeros((16, 2)), a[:5], 3 * lax.axis_index("m"), 0)
        return lax.psum(among, "m"), lax.psum(over, "m")

    before, after = both_ways(body, HALF, P(), A)
    assert before == after


def test_a_sum_of_a_sum_is_one():
    def body(a):
        b = lax.pcast(a, "d", to="varying") * (1 + lax.axis_index("d"))
        return lax.psum(lax.psum(b, "m").T, "d")

    before, after = both_ways(body, HALF, P(), A)
    assert before[REDUCE] == (2, 2 * 16 * 2 * F)
    assert after == {REDUCE: (1, 16 * 2 * F)}


def test_a_number_that_is_added_on_the_way_gets_the_shape_of_the_sum():
    """It has none of its own in a traced program, and what comes after may cut it, turn it or add it up."""
    mesh = jax.make_mesh((8,), ("m",), axis_types=(AxisType.Auto,))
    x, w = make.arange(128.0).reshape(16, 8) / 7, make.arange(64.0).reshape(8, 8) / 5

    def body(x, w):
        y = nx.dot(x, w, "hidden") * 2 + 1
        return nx.rename(y, {"batch": "part"})

    f = nx.xmap(body, axis_resources={"hidden": "m", "part": "m"}, mesh=mesh)
    args = nx.named(x, ["batch", "hidden"]), nx.named(w, ["hidden", "out"])
    np.testing.assert_allclose(nx.positional(f(*args), ["part", "out"]), x @ w * 2 + 1, rtol=1e-5)
    assert set(hlo.summary(jax.jit(f).lower(*args).compile())) == {"reduce-scatter"}


def test_side_effects_stay_and_happen_once():
    seen = []

    def body(a):
        s = lax.psum(a, "m")
        jax.debug.callback(lambda v: seen.append(float(v)), jnp.float32(3.0))
        return s[:2]

    jax.block_until_ready(jax.jit(jax.shard_map(postponing(body), mesh=mesh_of(), in_specs=HALF, out_specs=P()))(A))
    jax.effects_barrier()
    assert len(seen) in (1, 8)  # by device or once, as JAX does it
    assert set(seen) == {3.0}


def test_a_sum_goes_past_what_is_exchanged_along_other_axes_and_read_and_added_up_by_index():
    def body(a, w):
        b = lax.pcast(a, "d", to="varying") * (1 + lax.axis_index("d"))
        s = lax.psum(b, "m")  # 16 x 2
        exchanged = lax.all_to_all(s, "d", 0, 0, tiled=True)
        read = exchanged.at[jnp.array([[3, 1], [99, 2]])].get(mode="fill", fill_value=0)  # 2 x 2 x 2
        added = jnp.zeros((3, 2)).at[jnp.array([[0, 1], [1, 1]])].add(read, mode="drop")
        return jnp.einsum("rf,rg->fg", added, w[:3, :4])

    before, after = both_ways(body, (*HALF, P()), P("d"), A, A)
    assert before == {REDUCE: (1, 16 * 2 * F), "all-to-all": (1, 16 * 2 * F)}
    assert after == {REDUCE: (1, 3 * 2 * F), "all-to-all": (1, 16 * 2 * F)}


def test_tangents_of_integers():
    @jax.custom_jvp
    def scaled(x, i):
        return x * i

    scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0] * primals[1]))

    def body(x, w):
        return jax.grad(lambda x: nx.sum(dot(scaled(x, 3), w), ("pos", "e")))(x)

    x, w, _ = operands()
    f = nx.xmap(body, axis_resources={"k": "m"}, mesh=mesh_of())
    np.testing.assert_allclose(f(x, w).data, jnp.broadcast_to(3 * w.data.sum(1), x.data.shape), rtol=1e-5)


def test_steps_in_time():
    """The passes of a SerialLoop profit too: the sum over devices is a reduce-scatter, after the loop or of each step's share."""
    x, w, _ = operands()

    def body(x, w):
        return nx.rename(dot(x, w), {"e": "e_m"})

    for keep, kind in {"whole": SCATTER, "parts": f"{SCATTER} in a loop"}.items():
        f = nx.xmap(body, axis_resources={"k": ("m", SerialLoop(2, keep=keep)), "e_m": "m"}, mesh=mesh_of())
        np.testing.assert_allclose(f(x, w).data, x.data @ w.data, rtol=1e-4, atol=1e-5)
        assert sent(f.lower(x, w).compile()) == {kind: (1, NORMAL)}
        assert math.prod(f(x, w).named_shape.values()) == POS * E


# --- through the public face: IEEE arithmetic -----------------------------------------------------------------------

HITS, TRIALS = np.zeros((8, 4), np.float32), np.array([0, 2, 4, 1], np.float32)
HITS[0] = 1
NARROW = np.zeros((8, 4), np.float16)
NARROW[0], NARROW[1] = 40, -39
FAR = (
    np.array([[3e38, 1], [-3e38, 2], [1, np.inf], [0, 3], [5, 4], [np.nan, 5], [0, -0.0], [1, 1]], np.float32).T.repeat(2, 0).T
)
EXACT = {  # the body over names, the same in NumPy, and its operands
    "rates, capped": (
        lambda x, y: nx.minimum(nx.sum(x, "a") / y + nx.sum(x, "a") / y, 10.0),
        lambda x, y: np.minimum(x.sum(0) / y + x.sum(0) / y, 10.0),
        (HITS, TRIALS),
    ),
    "rates, one read": (
        lambda x, y: (nx.sum(x, "a") / y)["b", 0],
        lambda x, y: (x.sum(0) / y)[0],
        (HITS, TRIALS),
    ),
    "rates, added up by a scan": (
        lambda x, y: nx.scan(lambda total, xy: (total + nx.sum(xy[0], "a") / xy[1], None), 0.0, (x, y), axis="b")[0],
        lambda x, y: (x.sum(0) / y).sum(),
        (HITS, TRIALS),
    ),
    "products, one read": (
        lambda x, y: (nx.sum(x, "a") * 2048)["b", 0],
        lambda x, y: (x.sum(0) * 2048)[0],
        (NARROW, TRIALS),
    ),
    "two products": (
        lambda x, y: nx.sum(x, "a") * 2048 + nx.sum(-x, "a") * 1024,
        lambda x, y: x.sum(0) * 2048 - x.sum(0) * 1024,
        (NARROW, TRIALS),
    ),
    "contracted with infinities": (
        lambda x, y: nx.dot(nx.sum(x, "a"), 1 / y, "b"),
        lambda x, y: x.sum(0) @ (1 / y),
        (HITS, TRIALS),
    ),
    "cast to a narrower type": (
        lambda x, y: nx.sum(x, "a").astype(jnp.float16)["b", 1] + nx.sum(x, "a").astype(jnp.float16)["b", 2],
        lambda x, y: x.sum(0).astype(np.float16)[1] + x.sum(0).astype(np.float16)[2],
        (np.concatenate([HITS[:4] * 1e5, HITS[:4] * -0.99e5]), TRIALS),
    ),
    "masked by zeros": (
        lambda x, y: nx.sum(x, "a") * (0 * y) + nx.sum(x, "a") * nx.floor(y / 4),
        lambda x, y: x.sum(0) * (0 * y) + x.sum(0) * np.floor(y / 4),
        (FAR, TRIALS),
    ),
    "added, subtracted and turned": (
        lambda x, y: -(nx.sum(x, "a") - y) + nx.sum(x, "a")["b", ::-1],
        lambda x, y: -(x.sum(0) - y) + x.sum(0)[::-1],
        (FAR / 8, TRIALS),
    ),
}
LAYOUTS = [({}, 1), ({"a": "x"}, 8), ({"a": "x"}, 4), ({"a": SerialLoop(4)}, 1), ({"a": ("x", SerialLoop(2))}, 2)]


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", EXACT)
def test_rewriting_creates_and_loses_no_infinity_or_nan(case):
    body, plain, (x, y) = EXACT[case]
    with np.errstate(all="ignore"):
        want = np.asarray(plain(x, y), np.float32)
    for number, (resources, devices) in enumerate(LAYOUTS):
        kind = (AxisType.Auto, AxisType.Explicit)[number % 2]
        mesh = jax.make_mesh((devices,), ("x",), axis_types=(kind,), devices=jax.devices()[:devices])
        f = nx.xmap(body, (["a", "b"], ["b"]), ["b"] if want.ndim else [], axis_resources=resources, mesh=mesh)
        np.testing.assert_allclose(np.asarray(f(x, y), np.float32), want, rtol=1e-3, err_msg=f"{resources}")
