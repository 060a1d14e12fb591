"""Collectives in narrow formats (`wire=`). The oracles are unmapped `jnp` programs, with bounds of the rounding computed by NumPy, and a
NumPy version of the encoding.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import namedax as nx
from namedax import hlo
from tests.harness import array, make_mesh

FORMATS = ["bf16", "float8_e4m3", "int8"]
RELATIVE = {"bf16": 2**-8, "float8_e4m3": 2**-4, "int8": 0.0}
LIMIT = {"float8_e4m3": 448, "int8": 127}
TINY = float(np.finfo(np.float32).tiny)
READ = "{batch,embed},{embed:embed_fsdp,hidden}->{batch,hidden}"


def in_blocks(values, block=128):
    """The values of one device as rows of blocks, the last ones zeros."""
    flat = np.asarray(values, np.float64).ravel()
    count = -(-flat.size // block)
    each = -(-flat.size // count)
    return np.pad(flat, (0, count * each - flat.size)).reshape(count, each)


def bound(values, wire):
    """The largest error of every element of one device's block."""
    values = np.asarray(values, np.float64)
    if wire == "bf16":
        return np.abs(values) * 2**-8 + TINY
    rows = in_blocks(values)
    step = np.maximum(np.abs(rows).max(-1, keepdims=True) / LIMIT[wire], TINY) * (1 + 1e-5)
    each = step / 2 if wire == "int8" else np.maximum(np.abs(rows) * 2**-4, step * 2**-10)
    return np.broadcast_to(each, rows.shape).ravel()[: values.size].reshape(values.shape) * (1 + 1e-5) + np.abs(values) * 1e-6


def bounds(values, wire, blocks):
    """`bound` of each of the blocks of the first dimension."""
    return np.concatenate([bound(block, wire) for block in np.split(np.asarray(values), blocks)])


def whole(w, wire, resources=None, shape=(8,), kind="auto", names=("a", "b"), new="c"):
    mesh = make_mesh(shape, kind)
    f = nx.xmap(
        lambda w: nx.rename(w, {names[0]: new}, wire=wire),
        in_axes=list(names),
        out_axes=[new, *names[1:]],
        axis_resources=resources or {"a": "x"},
        mesh=mesh,
    )
    return np.asarray(f(w))


# --- rounding -------------------------------------------------------------------------------------

_gathers = {}


def gather_once(wire):
    if wire not in _gathers:
        mesh = jax.make_mesh((4,), ("x",), devices=jax.devices()[:4])
        _gathers[wire] = nx.xmap(
            lambda w: nx.rename(w, a="c", wire=wire),
            in_axes=["a", "b"],
            out_axes=["c", "b"],
            axis_resources={"a": "x"},
            mesh=mesh,
        )
    return _gathers[wire]


@pytest.mark.fast(0)
@pytest.mark.parametrize("wire", FORMATS)
@settings(max_examples=25, deadline=None)
@given(
    elements=st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40),
    exponents=st.lists(st.integers(-44, 33), min_size=4, max_size=4),
)
def test_errors_are_within_the_bound(wire, elements, exponents):
    w = np.resize(np.asarray(elements, np.float32), (4, 200))  # 200 elements: two blocks of 100
    w = w * np.float32(10.0) ** np.asarray(exponents, np.float32)[:, None]
    w = np.where(np.abs(w) < TINY, 0, w).astype(np.float32)
    got = np.asarray(gather_once(wire)(jnp.asarray(w)), np.float64)
    assert np.all(np.abs(got - w) <= bounds(w, wire, 4))
    np.testing.assert_array_equal(got[w == 0], 0)


@pytest.mark.parametrize("wire", FORMATS)
def test_the_largest_and_smallest_numbers_stay_finite(wire):
    info = np.finfo(np.float32)
    largest = info.max if wire != "bf16" else 3.3e38  # beyond bfloat16's largest number, a cast gives infinity
    w = np.array([[largest, -largest], [info.tiny, 0.0], [-0.0, 0.0], [3 * info.tiny, -info.tiny]], np.float32)
    got = np.asarray(gather_once(wire)(jnp.asarray(np.tile(w, (1, 3)))))
    assert np.all(np.isfinite(got))
    assert np.all(np.abs(got[0] - np.tile(w[0], 3)) <= largest * 2**-7)
    assert np.all(np.abs(got[1:]) <= 4 * info.tiny)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("wire", FORMATS)
def test_infinities_and_nan_stay_visible(wire, bad):
    w = np.array(array(4, 200))
    w[1, 130], w[3, 0] = bad, bad
    got = np.asarray(gather_once(wire)(jnp.asarray(w)))
    if wire == "bf16":
        np.testing.assert_array_equal(got[~np.isfinite(w)], w[~np.isfinite(w)])
        assert np.all(np.isfinite(got[np.isfinite(w)]))
    else:  # the block of 100 elements is NaN, and no other
        expected = np.zeros((4, 200), bool)
        expected[1, 100:] = expected[3, :100] = True
        np.testing.assert_array_equal(np.isnan(got), expected)


def test_payload_is_what_numpy_computes():
    w = np.array(array(4, 200))
    rows = np.stack([in_blocks(row) for row in w]).astype(np.float32)
    scale = np.abs(rows).max(-1, keepdims=True) / np.float32(127)
    expected = (np.round(rows / scale) * scale).reshape(4, 200)
    np.testing.assert_allclose(np.asarray(gather_once("int8")(jnp.asarray(w))), expected, rtol=1e-6)


@pytest.mark.fast(0)
def test_float64_and_narrow_dtypes():
    small = array(4, 200).astype(jnp.bfloat16)
    np.testing.assert_array_equal(np.asarray(gather_once("bf16")(small)), np.asarray(small))  # sent as it is
    for wire in ("int8", "float8_e4m3"):
        got = gather_once(wire)(small)
        assert got.dtype == jnp.bfloat16
        w = np.asarray(small, np.float32)
        assert np.all(np.abs(np.asarray(got, np.float32) - w) <= bounds(w, wire, 4) + np.abs(w) * 2**-8)


# --- layouts, values and gradients ----------------------------------------------------------------

LAYOUTS = {
    "one-each": ((8,), "auto", 8, {"a": "x"}),
    "chunks": ((8,), "auto", 48, {"a": "x"}),
    "two-axes": ((4, 2), "auto", 16, {"a": ("x", "y")}),
    "reversed": ((4, 2), "auto", 16, {"a": ("y", "x")}),
    "of-two": ((4, 2), "auto", 16, {"a": "x", "b": "y"}),
    "explicit": ((8,), "explicit", 16, {"a": "x"}),
    "explicit-2d": ((4, 2), "explicit", 16, {"a": "x", "b": "y"}),
    "partly": ((4, 2), "auto", 8, {"a": "x"}),
    "partly-explicit": ((4, 2), "explicit", 8, {"a": "x"}),
    "uneven": ((8,), "auto", 19, {"a": "x"}),
    "uneven-other": ((4, 2), "auto", 16, {"a": "x", "b": "y"}),
    "exchange": ((4,), "auto", 16, {"a": "x", "d": "x"}),
    "permute": ((2, 2), "auto", 16, {"a": ("x", "y"), "c": ("y", "x")}),
}


@pytest.mark.fast(2)
@pytest.mark.full(3)
@pytest.mark.parametrize("wire", [*FORMATS, nx.Wire("int8", "bf16")])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rename_in_every_layout(layout, wire):
    shape, kind, size, resources = LAYOUTS[layout]
    forward = wire.forward if isinstance(wire, nx.Wire) else wire
    columns = 19 if layout == "uneven-other" else 16
    w, c = array(size, columns, seed=3), array(size, columns, seed=4)
    new = {"a": "c", "b": "d"} if layout == "exchange" else {"a": "c"}
    out = [new["a"], new.get("b", "b")]

    def f(w, c):
        return nx.rename(w, new, wire=wire) * c

    mesh = jax.make_mesh(shape, ("x", "y")[: len(shape)], devices=jax.devices()[: int(np.prod(shape))])
    if kind == "explicit":
        mesh = make_mesh(shape, kind)
    g = nx.xmap(f, in_axes=(["a", "b"], out), out_axes=out, axis_resources=resources, mesh=mesh)
    got, pull = jax.vjp(g, w, c)
    worst = np.abs(np.asarray(w)).max() * {"bf16": 2**-8, "float8_e4m3": 2**-4, "int8": 1.001 / 254}[forward]
    assert np.all(np.abs(np.asarray(got - w * c)) <= np.abs(np.asarray(c)) * worst)
    if forward == "int8":
        assert np.any(np.asarray(got) != np.asarray(w * c))
    ct = array(size, columns, seed=5)
    dw, dc = pull(ct)
    backward = np.abs(np.asarray(ct * c)).max() * 2**-8 if isinstance(wire, nx.Wire) else 1e-5
    assert np.all(np.abs(np.asarray(dw - ct * c)) <= backward)
    assert np.all(np.abs(np.asarray(dc - ct * w)) <= np.abs(np.asarray(ct)) * worst)


# --- FSDP: the gather of a parameter, and the reduce-scatter of its gradient -----------------------

FSDP = {"embed_fsdp": "x", "batch": "x"}
FSDP_2D = {"embed_fsdp": "x", "batch": ("x", "y")}
BOTH = {wire: nx.Wire(wire, wire) for wire in FORMATS}


def loss(wire, checkpoint=False):
    def of(w, x):
        def apply(w, x):
            return nx.einsum(READ, x, w, wire=wire)

        y = (jax.checkpoint(apply) if checkpoint else apply)(w, x)
        return nx.mean(nx.sum(y * y, "hidden"), "batch")

    return of


def fsdp_arrays(batch=16, embed=16, hidden=24):
    return array(embed, hidden, seed=1), array(batch, embed, seed=2)


def step(wire, mesh, resources=None, checkpoint=False):
    return nx.xmap(
        jax.value_and_grad(loss(wire, checkpoint)),
        in_axes=(["embed_fsdp", "hidden"], ["batch", "embed"]),
        out_axes=([], ["embed_fsdp", "hidden"]),
        axis_resources=resources or FSDP,
        mesh=mesh,
    )


def check_gradient(step, wire, w, x):
    """Compare with `jnp`, up to a relative error of the norm, a few times that of one element."""

    def plain(w, x):
        return jnp.mean(jnp.sum((x @ w) ** 2, -1))

    value, gradient = step(w, x)
    wanted, slope = jax.value_and_grad(plain)(w, x)
    tolerance = {"bf16": 2**-7, "float8_e4m3": 2**-3, "int8": 2**-5}[wire.forward]
    assert abs(float(value - wanted)) <= tolerance * abs(float(wanted))
    assert float(jnp.linalg.norm(gradient - slope)) <= tolerance * float(jnp.linalg.norm(slope))
    assert np.any(np.asarray(gradient) != np.asarray(slope))


FSDP_CASES = {
    "auto": ((8,), "auto", FSDP, 16, False),
    "2d": ((4, 2), "auto", FSDP_2D, 16, False),
    "explicit": ((8,), "explicit", FSDP, 16, False),
    "partly-explicit": ((4, 2), "explicit", FSDP, 16, False),
    "uneven": ((8,), "auto", FSDP, 19, False),
    "checkpoint": ((8,), "auto", FSDP, 16, True),
    "steps": ((8,), "auto", {"embed_fsdp": "x", "batch": ("x", nx.SerialLoop(2))}, 16, False),
    "kept": ((8,), "auto", {"embed_fsdp": "x", "batch": ("x", nx.SerialLoop(2, keep="whole"))}, 16, False),
}


@pytest.mark.fast(0)
@pytest.mark.full(2)
@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("case", FSDP_CASES)
def test_fsdp(case, wire):
    shape, kind, resources, embed, checkpoint = FSDP_CASES[case]
    w, x = fsdp_arrays(embed=embed)
    f = step(BOTH[wire], make_mesh(shape, kind), resources, checkpoint)
    check_gradient(f, BOTH[wire], w, x)


@pytest.mark.fast(1)
@pytest.mark.parametrize("wire", FORMATS)
def test_differentiated_from_outside(wire):
    w, x = fsdp_arrays()
    f = nx.xmap(
        loss(BOTH[wire]),
        in_axes=(["embed_fsdp", "hidden"], ["batch", "embed"]),
        out_axes=[],
        axis_resources=FSDP,
        mesh=make_mesh((8,)),
    )
    check_gradient(jax.value_and_grad(f), BOTH[wire], w, x)


@pytest.mark.fast(1)
@pytest.mark.parametrize("wire", FORMATS)
def test_bytes_are_those_of_payload_and_scales(wire):
    w, x = fsdp_arrays(embed=64, hidden=64)  # 512 elements of a device: 4 blocks
    f = step(BOTH[wire], make_mesh((8,)))
    report = nx.explain(f, w, x)
    compiled = hlo.collectives(jax.jit(f).lower(w, x).compile())
    assert sorted((c.kind, c.bytes) for c in report.collectives) == sorted((c.kind, c.bytes) for c in compiled)
    payload = 64 * 64 * (2 if wire == "bf16" else 1)
    scales = [] if wire == "bf16" else [8 * 4 * 4]
    for kind in ("all-gather", "all-to-all"):
        assert sorted(c.bytes for c in compiled if c.kind == kind) == sorted([*scales, payload])
    assert not [c for c in compiled if c.kind == "reduce-scatter"]


def test_a_string_leaves_the_gradient_alone():
    w, x = fsdp_arrays()
    kinds = [c.kind for c in nx.explain(step("int8", make_mesh((8,))), w, x).collectives]
    assert kinds.count("all-gather") == 2
    assert kinds.count("reduce-scatter") == 1
    backward = [c.kind for c in nx.explain(step(nx.Wire(backward="int8"), make_mesh((8,))), w, x).collectives]
    assert backward.count("all-gather") == 1
    assert backward.count("all-to-all") == 2


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("size", [16, 19])
def test_reduce_scatter_of_a_result(size, wire):
    x, w = array(8, 24, seed=1), array(24, size, seed=2)

    def f(x, w):
        return nx.einsum("{i,k},{k,j}->{i,j_s:j}", x, w, wire=BOTH[wire])

    g = nx.xmap(
        f, in_axes=(["i", "k"], ["k", "j"]), out_axes=["i", "j_s"], axis_resources={"k": "x", "j_s": "x"}, mesh=make_mesh((8,))
    )
    # each device sends its summand, in 8 blocks of columns
    summands = np.einsum("ikd,kdj->kij", np.asarray(x).reshape(8, 8, 3), np.asarray(w).reshape(8, 3, size))
    got, pull = jax.vjp(g, x, w)
    worst = np.abs(summands).max() * {"bf16": 2**-8, "float8_e4m3": 2**-4, "int8": 1 / 254}[wire] * 8 * 1.001
    assert np.all(np.abs(np.asarray(got) - np.asarray(x @ w)) <= worst)
    kinds = {c.kind for c in nx.explain(g, x, w).collectives}
    assert "all-to-all" in kinds
    assert "reduce-scatter" not in kinds
    ct = array(8, size, seed=3)
    worst_ct = np.abs(np.asarray(ct)).max() * {"bf16": 2**-8, "float8_e4m3": 2**-4, "int8": 1.001 / 254}[wire]
    dx, dw = pull(ct)
    assert np.all(np.abs(np.asarray(dx - ct @ w.T)) <= np.abs(np.asarray(w)).sum(1) * worst_ct + 1e-4)
    assert np.all(np.abs(np.asarray(dw - x.T @ ct)) <= np.abs(np.asarray(x)).sum(0)[:, None] * worst_ct + 1e-4)


STEPS = {
    "gathered": {"a": ("x", nx.SerialLoop(4))},
    "in time only": {"a": nx.SerialLoop(4)},
    "onto a loop": {"a": ("x", nx.SerialLoop(4)), "c": nx.SerialLoop(3)},
    "beside a loop": {"a": "x", "b": ("y", nx.SerialLoop(2))},
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", STEPS)
def test_steps_with_padding(case):
    w = array(19, 6)
    f = nx.xmap(
        lambda w: nx.sum(nx.square(nx.rename(w, a="c", wire=nx.Wire("int8", "int8"))), "c"),
        in_axes=["a", "b"],
        out_axes=["b"],
        axis_resources=STEPS[case],
        mesh=jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4]),
    )
    got, pull = jax.vjp(f, w)
    step = float(jnp.abs(w).max()) / 127
    np.testing.assert_allclose(got, jnp.sum(w**2, 0), atol=19 * 4 * step)
    np.testing.assert_allclose(pull(jnp.ones(6))[0], 2 * w, atol=4 * step)


@pytest.mark.parametrize("resources", [{"c": "x"}, {"c": ("y", "x")}], ids=["one", "reversed"])
def test_the_gradient_of_a_slice_is_a_narrow_gather(resources):
    w, c = array(16, 24, seed=1), array(16, 24, seed=2)
    f = nx.xmap(
        lambda w, c: nx.sum(nx.rename(w, a="c", wire=nx.Wire(backward="int8")) * c, ("b", "c")),
        in_axes=(["a", "b"], ["c", "b"]),
        out_axes=[],
        axis_resources=resources,
        mesh=make_mesh((4, 2)),
    )
    got, kinds = jax.grad(f)(w, c), [k.kind for k in nx.explain(jax.grad(f), w, c).collectives]
    assert kinds.count("all-gather") == 2
    blocks = 4 if resources["c"] == "x" else 8
    assert np.all(np.abs(np.asarray(got - c)) <= bounds(c, "int8", blocks))


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_under_vmap_and_twice_differentiated():
    w, x = fsdp_arrays()
    both = nx.Wire("int8", "int8")
    f = nx.xmap(
        loss(both),
        in_axes=(["embed_fsdp", "hidden"], ["batch", "embed"]),
        out_axes=[],
        axis_resources=FSDP,
        mesh=make_mesh((8,)),
    )
    many = jax.vmap(f)(jnp.stack([w, 2 * w]), jnp.stack([x, x]))
    np.testing.assert_allclose(many, [f(w, x), f(2 * w, x)], rtol=2e-2)
    product = jax.grad(lambda w: jnp.vdot(jax.grad(f)(w, x), w))(w)  # (H w) + gradient, of a quadratic: twice the gradient
    np.testing.assert_allclose(product, 2 * jax.grad(f)(w, x), atol=0.05 * float(jnp.abs(product).max()))


def test_padding_does_not_affect_scales():
    # Values grow along an axis of 10 elements over 4 devices, and so does its padding on the last device.
    def f(w):
        grown = w * nx.numpy.exp(4.0 * nx.arange(10, axis="a"))
        return nx.rename(grown, b="d", wire="int8")

    g = nx.xmap(f, in_axes=["a", "b"], out_axes=["a", "d"], axis_resources={"a": "x", "b": "y"}, mesh=make_mesh((4, 2)))
    got = np.asarray(g(jnp.ones((10, 64))))
    np.testing.assert_allclose(got[-1], np.exp(36.0) * np.ones(64), rtol=1e-2)


@pytest.mark.parametrize("wire", FORMATS)
def test_unmapped_programs_are_exact(wire):
    w, x = fsdp_arrays()
    arrays = nx.named(w, ["embed_fsdp", "hidden"]), nx.named(x, ["batch", "embed"])
    np.testing.assert_array_equal(
        nx.einsum(READ, arrays[1], arrays[0], wire=BOTH[wire]).data, nx.einsum(READ, *arrays[::-1]).data
    )
    np.testing.assert_array_equal(nx.rename(arrays[0], hidden="h", wire=wire).data, w)
    np.testing.assert_array_equal(arrays[0].rename(hidden="h", wire=wire).data, w)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("wire", [BOTH["bf16"], BOTH["int8"], nx.Wire("float8_e4m3", "int8")])
def test_gradient_descent_converges(wire):
    target, x = array(16, 8, seed=7), array(32, 16, seed=8)
    y = x @ target

    def of(w, x, y):
        error = nx.einsum(READ, x, w, wire=wire) - y
        return nx.mean(nx.sum(error * error, "hidden"), "batch")

    f = nx.xmap(
        jax.value_and_grad(of),
        in_axes=(["embed_fsdp", "hidden"], ["batch", "embed"], ["batch", "hidden"]),
        out_axes=([], ["embed_fsdp", "hidden"]),
        axis_resources=FSDP,
        mesh=make_mesh((8,)),
    )
    w = jnp.zeros((16, 8))
    first, _ = f(w, x, y)
    for _ in range(60):
        value, gradient = f(w, x, y)
        w = w - 0.05 * gradient
    assert float(value) < 0.01 * float(first)


# --- shard ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_shard_gathers_in_a_narrow_format(kind):
    mesh = make_mesh((8,), kind)
    w = array(16, 24)
    x = nx.shard(nx.named(w, ["a", "b"]), {"a": "x"}, mesh)
    got = nx.shard(x, {}, mesh, wire="int8")
    assert got.sharding.is_fully_replicated
    assert np.all(np.abs(np.asarray(got.data - w)) <= bounds(w, "int8", 8))
    back = nx.shard(got, {"a": "x"}, mesh, wire="int8")  # nothing is sent, and nothing rounded
    np.testing.assert_array_equal(np.asarray(back.data), np.asarray(got.data))
    assert back.sharding.spec[0] == "x"


def test_shard_names_cases_without_collectives():
    mesh = make_mesh((8,))
    w = nx.named(array(16, 24), ["a", "b"])
    with pytest.raises(nx.errors.ArgumentError, match=r"is not placed on that mesh.* Place it without wire\."):
        nx.shard(w, {"a": "x"}, mesh, wire="int8")
    with pytest.raises(nx.errors.ArgumentError, match=r"is traced, .* use nx\.rename with wire"):
        jax.jit(lambda w: nx.shard(w, {"a": "x"}, mesh, wire="int8"))(w)
    with pytest.raises(nx.errors.ArgumentError, match=r"stored padded.* Omit wire, or omit padded=True"):
        nx.shard(nx.named(array(19, 24), ["a", "b"]), {"a": "x"}, mesh, padded=True, wire="int8")
    with pytest.raises(nx.errors.ArgumentError, match=r"has a format for gradients.* Pass wire='int8'"):
        nx.shard(w, {"a": "x"}, mesh, wire=BOTH["int8"])


# --- errors ---------------------------------------------------------------------------------------


def test_wrong_formats():
    w = nx.named(array(16, 24), ["a", "b"])
    with pytest.raises(
        nx.errors.ArgumentError, match=r"rename: wire must be 'bf16', 'float8_e4m3', 'int8' or nx\.Wire.*'int4'.*'wire': \.\.\."
    ):
        nx.rename(w, a="c", wire="int4")
    with pytest.raises(nx.errors.ArgumentError, match=r"Wire: backward must be .* or None, got 'fp8'"):
        nx.Wire(backward="fp8")
    with pytest.raises(nx.errors.ArgumentError, match=r"einsum: wire narrows .* renames no axis\. Write \{new:old\}"):
        nx.einsum("{a,b},{a,b}->{a}", w, w, wire="int8")
    with pytest.raises(nx.errors.ArgumentError, match=r"einsum: overlap=True .* Omit overlap or wire\."):
        nx.einsum("{a,b},{a,b}->{a}".replace("a,b}-", "c:a,b}-"), w, w, wire="int8", overlap=True)


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.bool_, jnp.complex64])
def test_only_floating_point_numbers_are_rounded(dtype):
    w = nx.named(jnp.ones((4, 6), dtype), ["a", "b"])
    remedy = "real and imaginary parts" if dtype == jnp.complex64 else r"x\.astype\(jnp\.float32\)"
    with pytest.raises(nx.errors.ArgumentTypeError, match=rf"rename: wire .* dtype {jnp.dtype(dtype)}\. .*{remedy}"):
        nx.rename(w, a="c", wire="int8")
    with pytest.raises(nx.errors.ArgumentTypeError, match=r"rename, x\['w'\]: wire"):
        nx.rename({"w": w}, a="c", wire="bf16")
    with pytest.raises(nx.errors.ArgumentTypeError, match="einsum: wire"):
        nx.einsum("{c:a,b}->{c,b}", w, wire="int8")
