"""Collectives over a fast and a slow mesh axis run in two levels: `slow_axes` of `xmap`, against programs by hand."""

import collections
import dataclasses
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.resources import two_level
from tests.harness import array

BOTH = ("dcn", "ici")
AXES = {2: ("dcn",), 4: ("ici",), 8: BOTH}  # by the number of devices
KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}
NOW = {"dcn": 0}


def mesh(kind="auto", axes=BOTH):
    sizes = {"dcn": 2, "ici": 4}
    return jax.make_mesh([sizes[axis] for axis in axes], axes, axis_types=(KINDS[kind],) * 2)


def sent(compiled):
    """The bytes of a compiled program by kind and mesh axes."""
    found = collections.Counter()
    for one in nx.hlo.collectives(compiled):
        found[one.kind, AXES[one.group_size]] += one.bytes * one.trips
    return dict(found)


def explained(f, *args):
    found = collections.Counter()
    for one in nx.explain(f, *args).collectives:
        found[one.kind, one.mesh_axes] += one.bytes * one.trips
    return dict(found)


def by_hand(x, axes=BOTH):
    """A sum over both axes of blocks of `x`, whose first dimension divides by four."""
    part = lax.psum_scatter(x, "ici", scatter_dimension=0, tiled=True)
    return lax.all_gather(lax.psum(part, "dcn"), "ici", axis=0, tiled=True, to="invarying")


W, X = array(12, 5), array(16, 12, seed=1)


def loss(w, x):
    return nx.sum(nx.sin(nx.dot(x, w, "k")), ["batch", "out"])


def want(w, x):
    return jnp.sum(jnp.sin(x @ w))


OPTIONS = {"in_axes": (["k", "out"], ["batch", "k"]), "axis_resources": {"batch": BOTH}}


def near(got, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), got, expected)


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_are_reduced_in_two_levels_as_by_hand(kind, inside):
    place = mesh(kind)
    if inside:
        f = nx.xmap(jax.value_and_grad(loss), **OPTIONS, out_axes=({}, ["k", "out"]), mesh=place, slow_axes=NOW)
    else:
        f = jax.value_and_grad(nx.xmap(loss, **OPTIONS, out_axes={}, mesh=place, slow_axes=NOW))

    def hand(w, x):
        value, gradient = jax.value_and_grad(want)(lax.pcast(w, BOTH, to="varying"), x)
        return lax.psum(value, BOTH), by_hand(gradient)

    theirs = jax.shard_map(hand, mesh=mesh(), in_specs=(P(), P(BOTH)), out_specs=P())
    near(f(W, X), jax.value_and_grad(want)(W, X))
    ours, theirs = sent(jax.jit(f).lower(W, X).compile()), sent(jax.jit(theirs).lower(W, X).compile())
    assert ours == theirs == explained(jax.jit(f), W, X)
    assert ours[("all-reduce", ("dcn",))] == W.nbytes // 4
    assert ours[("reduce-scatter", ("ici",))] == ours[("all-gather", ("ici",))] == W.nbytes


def test_bytes_per_mesh_axis_are_in_the_report():
    f = nx.xmap(jax.grad(loss), **OPTIONS, out_axes=["k", "out"], mesh=mesh(), slow_axes=NOW)
    flat = nx.xmap(jax.grad(loss), **OPTIONS, out_axes=["k", "out"], mesh=mesh())
    axes = nx.explain(f, W, X).by("mesh_axis")
    assert axes["dcn"].bytes == W.nbytes // 4
    assert axes["ici"].bytes == 2 * W.nbytes
    assert nx.explain(flat, W, X).by("mesh_axis")["dcn"].bytes == W.nbytes
    assert {(one.operation, one.phase, one.names) for one in nx.explain(f, W, X).collectives} == {
        ("nx.dot", "gradient", ("batch",))
    }


@pytest.mark.parametrize("shape", [(3, 5), (7,), (2, 4), (3, 8)])
def test_sizes_that_do_not_divide_are_padded(shape):
    names = ["p", "q"][: len(shape)]
    x = array(8, *shape)
    f = nx.xmap(
        lambda x: nx.sum(x, "b"), in_axes=["b", *names], out_axes=names, axis_resources={"b": BOTH}, mesh=mesh(), slow_axes=NOW
    )
    near(f(x), x.sum(0))
    size = x[0].nbytes
    padded = size if any(n % 4 == 0 for n in shape) else -(-size // 16) * 16
    assert sent(f.lower(x).compile()) == {
        ("reduce-scatter", ("ici",)): padded,
        ("all-reduce", ("dcn",)): padded // 4,
        ("all-gather", ("ici",)): padded,
    }


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("order", [BOTH, BOTH[::-1]])
@pytest.mark.parametrize("kind", KINDS)
def test_gathers_and_scatters_keep_the_order_of_elements(order, kind):
    x, y = array(8, 16), array(16, 3, seed=1)
    options = {"mesh": mesh(kind), "slow_axes": NOW}
    scatter = nx.xmap(
        lambda x: nx.rename(nx.sum(x, "b"), {"k": "cut"}),
        in_axes=["b", "k"],
        out_axes=["cut"],
        axis_resources={"b": order, "cut": order},
        **options,
    )
    near(scatter(x), x.sum(0))
    block = x[0].nbytes // 4
    assert sent(scatter.lower(x).compile()) == {("reduce-scatter", ("ici",)): x[0].nbytes, ("reduce-scatter", ("dcn",)): block}
    near(jax.grad(lambda x: jnp.sum(jnp.sin(scatter(x))))(x), jnp.broadcast_to(jnp.cos(x.sum(0)), x.shape))

    gather = nx.xmap(
        lambda y: nx.rename(y, {"k": "whole"}),
        in_axes=["k", None],
        out_axes=["whole", None],
        axis_resources={"k": order},
        **options,
    )
    near(gather(y), y)
    assert sent(gather.lower(y).compile()) == {("all-gather", ("dcn",)): y.nbytes // 4, ("all-gather", ("ici",)): y.nbytes}
    assert explained(gather, y) == sent(gather.lower(y).compile())
    near(jax.grad(lambda y: jnp.sum(jnp.sin(gather(y))))(y), jnp.cos(y))

    cut = nx.xmap(
        lambda y: nx.rename(y, {"k": "cut"}),
        in_axes=["k", None],
        out_axes=["cut", None],
        axis_resources={"cut": order},
        **options,
    )
    near(cut(y), y)
    near(jax.grad(lambda y: jnp.sum(jnp.sin(cut(y))))(y), jnp.cos(y))


@pytest.mark.parametrize("kind", KINDS)
def test_gathered_parameters_are_scattered_in_two_levels(kind):
    def fsdp(w, x):
        return nx.sum(nx.sin(nx.einsum("{k:fsdp,out},{batch,k}->{batch,out}", w, x)), ["batch", "out"])

    w = array(8, 5)
    x = array(16, 8, seed=1)
    f = nx.xmap(
        fsdp,
        in_axes=(["fsdp", "out"], ["batch", "k"]),
        out_axes={},
        axis_resources={"batch": BOTH, "fsdp": BOTH},
        mesh=mesh(kind),
        slow_axes=NOW,
    )
    g = jax.jit(jax.grad(f))
    near(g(w, x), jax.grad(want)(w, x))
    found = sent(g.lower(w, x).compile())
    assert found == explained(g, w, x)
    assert found[("all-gather", ("dcn",))] == found[("reduce-scatter", ("dcn",))] == w.nbytes // 4
    assert found[("all-gather", ("ici",))] == found[("reduce-scatter", ("ici",))] == w.nbytes


@pytest.mark.fast(2)
@pytest.mark.parametrize("wrap", ["checkpoint", "scan", "cond", "vmap", "loop", "second", "jvp"])
def test_two_levels_within_transformations(wrap):
    resources, body, f = dict(OPTIONS["axis_resources"]), loss, None
    if wrap == "checkpoint":
        body = jax.checkpoint(loss)
    if wrap == "loop":
        resources["batch"] = (*BOTH, nx.SerialLoop(2))
    if wrap == "scan":

        def body(w, x):
            return nx.scan(lambda c, _: (c + loss(w * (1 + 0 * c), x), None), 0.0, None, length=2)[0] / 2

    if wrap == "cond":

        def body(w, x):
            return nx.cond(nx.sum(x, ["batch", "k"]) < 1e9, loss, lambda w, x: loss(2 * w, x), w, x)

    f = nx.xmap(body, in_axes=OPTIONS["in_axes"], out_axes={}, axis_resources=resources, mesh=mesh(), slow_axes=NOW)
    if wrap == "vmap":
        ws = jnp.stack([W, 2 * W])
        near(jax.vmap(jax.grad(f), (0, None))(ws, X), jax.vmap(jax.grad(want), (0, None))(ws, X))
        return
    if wrap == "jvp":
        near(jax.jvp(f, (W, X), (W, X)), jax.jvp(want, (W, X), (W, X)))
        return
    if wrap == "second":
        near(jax.grad(lambda w: jnp.sum(jax.grad(f)(w, X) ** 2))(W), jax.grad(lambda w: jnp.sum(jax.grad(want)(w, X) ** 2))(W))
        return
    g = jax.jit(jax.value_and_grad(f))
    near(g(W, X), jax.value_and_grad(want)(W, X))
    found = sent(g.lower(W, X).compile())
    assert found[("all-reduce", ("dcn",))] <= 2 * W.nbytes // 4
    if wrap != "cond":  # the compiled program has both branches, the report the more expensive one
        assert found == explained(g, W, X)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS)
def test_prefetched_gathers_and_their_gradients(kind):
    layers, x = array(4, 8, 8), array(16, 8, seed=1)

    def loss(w, x):
        def layer(h, w):
            return h + nx.rename(nx.tanh(nx.dot(h, nx.rename(w, {"k_fsdp": "k"}), "k")), {"out": "k"})

        return nx.sum(nx.square(nx.fold(layer, x, w, axis="layers", prefetch=1)), ["batch", "k"])

    def want(w, x):
        for one in w:
            x = x + jnp.tanh(x @ one)
        return jnp.sum(jnp.square(x))

    in_axes, resources = (["layers", "k_fsdp", "out"], ["batch", "k"]), {"k_fsdp": BOTH, "batch": BOTH}
    f = nx.xmap(loss, in_axes, [], axis_resources=resources, mesh=mesh(kind), slow_axes=NOW)
    gradient = jax.jit(jax.grad(f))
    np.testing.assert_allclose(gradient(layers, x), jax.grad(want)(layers, x), rtol=1e-4, atol=1e-5)
    found = sent(gradient.lower(layers, x).compile())
    assert found == explained(gradient, layers, x)
    # One layer has 256 bytes, of which a quarter is sent over dcn. The last layer is not gathered again.
    for kind_, times in (("all-gather", 7), ("reduce-scatter", 4)):
        assert (found[kind_, ("dcn",)], found[kind_, ("ici",)]) == (times * 64, times * 256)


@pytest.mark.fast(0)
def test_bfloat16_integers_complex_and_empty_arrays():
    total = nx.xmap(
        lambda x: nx.sum(x, "b"), in_axes=["b", "k"], out_axes=["k"], axis_resources={"b": BOTH}, mesh=mesh(), slow_axes=NOW
    )
    for dtype in ("bfloat16", "int32", "complex64", "bool"):
        x = (array(16, 12) > 0).astype(dtype)
        assert np.array_equal(np.asarray(total(x)).astype(complex), np.asarray(x).astype(complex).sum(0))
    assert total(jnp.zeros((16, 0))).shape == (0,)


def test_small_payloads_and_ordinary_meshes_are_unchanged():
    def text(**options):
        f = nx.xmap(loss, **OPTIONS, out_axes={}, mesh=mesh(), **options)
        return jax.jit(jax.grad(f)).lower(W, X).as_text()

    assert text() == text(slow_axes=()) == text(slow_axes=["dcn"])  # 240 bytes, below 32 KiB
    assert text() == text(slow_axes={"dcn": W.nbytes + 1}) != text(slow_axes={"dcn": W.nbytes})
    assert text() == text(slow_axes={"dcn": 0, "ici": 0})  # no axis is fast


def test_options_are_part_of_the_cache_key():
    f = nx.xmap(loss, **OPTIONS, out_axes={}, mesh=mesh())
    assert nx.xmap(loss, **OPTIONS, out_axes={}, mesh=mesh()) is f
    assert nx.xmap(loss, **OPTIONS, out_axes={}, mesh=mesh(), slow_axes=NOW) is not f


def test_nested_mapped_functions():
    x = array(2, 4, 8)
    both = nx.xmap(
        lambda x: nx.xmap(
            lambda x: nx.sum(x, ["i", "j"]), in_axes=["i", None], out_axes=[None], axis_resources={"i": "ici"}, slow_axes=NOW
        )(x),
        in_axes=["j", None, None],
        out_axes=[None],
        axis_resources={"j": "dcn"},
        mesh=mesh(),
        slow_axes=NOW,
    )
    near(both(x), x.sum((0, 1)))


def test_closed_over_values():
    f = nx.xmap(
        lambda x: loss(nx.named(W, ["k", "out"]), x),
        in_axes=["batch", "k"],
        out_axes={},
        axis_resources={"batch": BOTH},
        mesh=mesh(),
        slow_axes=NOW,
    )
    near(f(X), want(W, X))

    def total(w):
        g = nx.xmap(
            lambda x: loss(nx.named(w, ["k", "out"]), x),
            in_axes=["batch", "k"],
            out_axes={},
            axis_resources={"batch": BOTH},
            mesh=mesh(),
            slow_axes=NOW,
        )
        return g(X)

    near(jax.jit(jax.grad(total))(W), jax.grad(want)(W, X))
    assert sent(jax.jit(jax.grad(total)).lower(W).compile())[("all-reduce", ("dcn",))] == W.nbytes // 4


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("dcn", nx.errors.ArgumentError, "slow_axes=('dcn',)"),
        (3, nx.errors.ArgumentError, "a tuple of mesh axes"),
        ([3], nx.errors.ArgumentError, "a tuple of mesh axes"),
        ({"dcn": -1}, nx.errors.ArgumentError, "nonnegative integer"),
        ({"dcn": True}, nx.errors.ArgumentError, "nonnegative integer"),
        (["dcm"], nx.errors.MeshError, "'dcm', but the mesh has 'dcn', 'ici'"),
    ],
)
def test_wrong_slow_axes(given, error, words):
    with pytest.raises(error) as raised:
        nx.xmap(loss, **OPTIONS, out_axes={}, mesh=mesh(), slow_axes=given)(W, X)
    assert words in str(raised.value)


def test_slow_axes_under_the_partitioner():
    with pytest.raises(nx.errors.ArgumentError, match="has no effect with partitioning='auto'"):
        nx.xmap(loss, **OPTIONS, out_axes={}, mesh=mesh(), slow_axes=["dcn"], partitioning="auto")


@dataclasses.dataclass(frozen=True, eq=False)
class Devices:
    """A mesh whose devices belong to processes, and to slices if it is of TPUs."""

    processes: tuple[tuple[int, ...], ...]
    slices: tuple[tuple[int, ...], ...] | None = None
    axis_names = ("dcn", "ici")

    @property
    def devices(self):
        found = np.empty(np.shape(self.processes), object)
        for place, process in np.ndenumerate(self.processes):
            indices = {"process_index": process}
            if self.slices is not None:
                indices["slice_index"] = self.slices[place[0]][place[1]]
            found[place] = types.SimpleNamespace(**indices)
        return found

    @property
    def shape(self):
        return dict(zip(self.axis_names, np.shape(self.processes), strict=True))


@pytest.mark.parametrize(
    ("devices", "slow"),
    [
        (Devices(((0, 0), (1, 1))), ["dcn"]),
        (Devices(((0, 1), (0, 1))), ["ici"]),
        (Devices(((0, 0), (0, 0))), []),
        (Devices(((0, 1), (2, 3))), []),  # one process for each device: nothing is fast
        (Devices(((0, 1), (2, 3)), ((0, 0), (1, 1))), ["dcn"]),
        (Devices(((0, 0), (1, 1)), ((0, 0), (0, 0))), []),  # hosts of one slice
        (Devices(((0, 1),)), []),
    ],
)
def test_slow_axes_are_inferred_from_devices(devices, slow):
    assert [axis for axis, _ in two_level.inferred(devices)] == slow


def test_machines_know_when_two_levels_pay():
    machine = nx.machines.Machine(
        flops={"float32": 1e12},
        memory=1e9,
        bandwidth=1e11,
        links={"dcn": nx.machines.Link(1e9, 1e-5), "ici": nx.machines.Link(1e11, 2e-5)},
    )
    size = machine.two_level_from("dcn", "ici", {"dcn": 2, "ici": 4})
    # 2 (7/8 B / 1e9 + 4 1e-5) in one level; 2 (3/4 B / 1e11 + 2 2e-5) + 2 (1/2 B/4 / 1e9 + 1e-5) in two
    assert size == int(np.ceil((3e-5 * 2 - 2 * 4e-5 + 4e-5) / (2 * (7 / 8 - 3 / 400 - 1 / 8) / 1e9)))
    same = machine.with_links({"dcn": nx.machines.Link(1e11, 1e-6)})
    assert same.two_level_from("dcn", ("ici",), {"dcn": 2, "ici": 4}) == sys.maxsize
    assert machine.two_level_from("dcn", "ici", {"dcn": 1, "ici": 4}) == sys.maxsize
    with pytest.raises(nx.errors.MeshError, match="the mesh has"):
        machine.two_level_from("dcm", "ici", {"dcn": 2, "ici": 4})


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("slow", [{"a": 0}, {"b": 0}, {"c": 0}, {"a": 0, "c": 0}])
@pytest.mark.parametrize("kind", KINDS)
def test_three_axes_in_any_order(slow, kind):
    axes = ("c", "one", "a", "b")
    place = jax.make_mesh((2, 1, 2, 2), ("a", "one", "b", "c"), axis_types=(KINDS[kind],) * 4)

    def body(w, x):
        w = nx.rename(w, {"fsdp": "k"})
        hidden = nx.rename(nx.dot(x, w, "k"), {"out": "cut"})
        return nx.sum(nx.sin(nx.rename(hidden, {"cut": "out"})), ["batch", "out"])

    f = nx.xmap(
        lambda w, x: body(w, x), in_axes=(["fsdp", "out"], ["batch", "k"]), out_axes={},
        axis_resources={"fsdp": axes, "batch": axes}, mesh=place, slow_axes=slow,
    )  # fmt: skip
    w, x = array(8, 16), array(16, 8, seed=1)
    near(jax.jit(jax.value_and_grad(f))(w, x), jax.value_and_grad(want)(w, x))
    cut = nx.xmap(
        lambda x: nx.rename(nx.sum(x, "b"), {"k": "cut"}), in_axes=["b", "k"], out_axes=["cut"],
        axis_resources={"b": axes, "cut": axes}, mesh=place, slow_axes=slow,
    )  # fmt: skip
    near(jax.jit(cut)(x.T), x.T.sum(0))
    near(jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(cut(x)))))(x.T), jnp.broadcast_to(jnp.cos(x.T.sum(0)), x.T.shape))
