"""`nx.transfer`: what it moves, in which rounds, and what comes out.

The oracle of the bytes is brute force: for each device the set of elements that it needs and does not have.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNotFoundError,
    AxisResourceError,
    MeshError,
    PlacementConflictError,
)
from tests.harness import Lazily

optax = Lazily("optax")
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit


def is_named(x):
    return isinstance(x, nx.NamedArray)


def mesh_of(shape, axes, devices=None, kind=AUTO):
    devices = jax.devices()[: int(np.prod(shape))] if devices is None else devices
    return Mesh(np.array(devices).reshape(shape), axes, axis_types=(kind,) * len(shape))


def array(dtype="float32", **sizes):
    """A named array with different values, in a buffer of its own."""
    shape = tuple(sizes.values())
    return nx.named(jnp.asarray(np.arange(np.prod(shape)).reshape(shape) % 251, dtype), list(sizes))


def sharded(tree, layout, **options):
    """The tree in a layout, in buffers of its own."""
    mesh, axis_resources = layout
    return nx.shard(jax.tree.map(jnp.array, tree), axis_resources, mesh, **{"padded": False} | options)


def needed(source, target, shape, itemsize):
    """The bytes that devices need and do not have, from the sets of indices of two shardings."""
    total = 0
    have = source.sharding.devices_indices_map(source.shape)
    for device, index in target.sharding.devices_indices_map(target.shape).items():
        mine = np.zeros(target.shape, bool)
        mine[index] = True
        mine = mine[tuple(slice(n) for n in shape)]
        if device in have:
            there = np.zeros(source.shape, bool)
            there[have[device]] = True
            mine = mine & ~there[tuple(slice(n) for n in shape)]
        total += int(mine.sum()) * itemsize
    return total


def leaves(tree):
    return jax.tree.leaves(tree, is_leaf=is_named)


def minimum(source, target):
    total = 0
    for a, b in zip(leaves(source), leaves(target), strict=True):
        sizes = a.named_shape if is_named(a) else {}
        dims = a.dims if is_named(a) else (None,) * a.ndim
        a, b = (x.data if is_named(x) else x for x in (a, b))
        shape = [sizes.get(dim, n) for dim, n in zip(dims, a.shape, strict=True)]
        total += needed(a, b, shape, a.dtype.itemsize)
    return total


def assert_same(new, wanted):
    """The same structure, shardings and values."""
    assert jax.tree.structure(new) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(wanted), strict=True):
        assert a.sharding == b.sharding
        assert a.dtype == b.dtype
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def check(tree, before, after, **options):
    """Move a tree, and compare it with `nx.shard` and with the minimal bytes."""
    padded = {"padded": options.get("padded", False)}
    source, target = sharded(tree, before, **padded), sharded(tree, after, **padded)
    least = minimum(source, target)
    move = nx.transfer(jax.eval_shape(lambda: tree), before, after, **options)
    assert move.moved == least == sum(move.bytes.values()) == sum(step.bytes for step in move.steps)
    if "memory" in options:
        assert all(step.in_flight <= options["memory"] for step in move.steps)
    new = move(source)
    assert_same(new, target)
    return move, source, new


def tree():
    return {"w": array(a=8, b=6), "v": array(b=6, c=4), "norm": array(b=6), "count": jnp.int32(3)}


LAYOUTS = {
    "columns": lambda: (mesh_of((8,), ("x",)), {"a": "x"}),
    "both": lambda: (mesh_of((4, 2), ("p", "q")), {"a": "p", "b": "q"}),
    "other order": lambda: (mesh_of((2, 4), ("p", "q"), jax.devices()[::-1]), {"b": "p", "a": "q"}),
    "half": lambda: (mesh_of((2, 2), ("p", "q")), {"b": "p", "c": "q"}),
    "other half": lambda: (mesh_of((4,), ("x",), jax.devices()[4:]), {"a": "x"}),
    "one": lambda: (mesh_of((1,), ("x",), jax.devices()[3:4]), {}),
    "replicated": lambda: (mesh_of((8,), ("x",)), {}),
    "explicit": lambda: (mesh_of((2, 2, 2), ("p", "q", "r"), kind=EXPLICIT), {"a": ("p", "q"), "b": "r"}),
}
PAIRS = [
    ("columns", "both"),
    ("both", "half"),
    pytest.param("half", "explicit", marks=pytest.mark.fast(0)),
    ("columns", "other half"),
    ("explicit", "other order"),
    ("other half", "half"),
    ("one", "columns"),
    ("replicated", "both"),
    ("both", "replicated"),
    ("explicit", "one"),
    pytest.param("other order", "columns", marks=pytest.mark.fast(0)),
]


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_it_moves_what_is_needed_and_gives_what_shard_gives(before, after):
    check(tree(), LAYOUTS[before](), LAYOUTS[after]())


@pytest.mark.fast(0)
@pytest.mark.parametrize("memory", [pytest.param(24, marks=pytest.mark.fast(0)), 100])
def test_pieces_in_flight_stay_within_the_memory(memory):
    move, *_ = check(tree(), LAYOUTS["columns"](), LAYOUTS["half"](), memory=memory)
    assert len(move.steps) > 1


@pytest.mark.parametrize("donate", [False, True])
def test_one_device_on_an_explicit_axis(donate):
    one = mesh_of((1,), ("x",), jax.devices()[2:3], EXPLICIT), {"b": "x"}
    check({"w": array(a=8, b=6)}, one, LAYOUTS["other half"](), memory=40, donate=donate)
    check({"w": array(a=8, b=6)}, LAYOUTS["other half"](), one, memory=40, donate=donate)


def test_a_large_array_is_cut_into_slices():
    tree = {"w": array(a=64, b=32)}  # 1 KiB on each device
    before = mesh_of((8,), ("x",)), {"a": "x"}
    after = mesh_of((1,), ("x",), jax.devices()[:1]), {}
    move, *_ = check(tree, before, after, memory=300)
    # 7 KiB arrive at one device, at most 300 bytes at once.
    assert len(move.steps) >= 7 * 1024 / 300
    assert {step.leaves for step in move.steps} == {("['w']",)}
    # Its new block of 8 KiB, its old one of 1 KiB, and what is in flight.
    assert 9 * 1024 < move.peak <= 9 * 1024 + 300


def test_too_little_memory_is_an_error_with_the_least_that_works():
    before, after = LAYOUTS["columns"](), LAYOUTS["half"]()
    message = r"transfer: memory=3 is less than one row of a piece of an array: with it, a device has (\d+) bytes in flight. Pass memory=\d+"
    with pytest.raises(ArgumentError, match=message) as caught:
        nx.transfer(tree(), before, after, memory=3)
    least = int(str(caught.value).partition("memory=")[2].split("memory=")[1].split()[0])
    check(tree(), before, after, memory=least)


def test_a_device_that_has_what_it_needs_receives_nothing():
    # Four devices keep their rows and receive those of their neighbors.
    before = mesh_of((8,), ("x",)), {"a": "x"}
    after = mesh_of((4,), ("x",)), {"a": "x"}
    move, *_ = check({"w": array(a=8, b=6)}, before, after)
    d = jax.devices()
    row = 6 * 4
    assert move.bytes == {
        (d[1], d[0]): row,
        (d[2], d[1]): row,
        (d[3], d[1]): row,
        (d[4], d[2]): row,
        (d[5], d[2]): row,
        (d[6], d[3]): row,
        (d[7], d[3]): row,
    }
    assert (move.moved, move.kept) == (7 * row, row)
    assert move.by("receiver") == {d[1]: 2 * row, d[2]: 2 * row, d[3]: 2 * row, d[0]: row}
    assert set(move.by("sender").values()) == {row}
    assert move.by("leaf") == {"['w']": 7 * row}


def test_the_pieces_of_a_replicated_array_come_from_all_its_copies():
    before = mesh_of((4,), ("x",)), {}
    after = mesh_of((4,), ("x",), jax.devices()[4:]), {}
    move, *_ = check({"w": array(a=8)}, before, after)
    assert set(move.by("sender").values()) == set(move.by("receiver").values()) == {32}


def test_bytes_by_mesh_axes():
    # The columns of `q` change within a row of the mesh, and then rows.
    before = mesh_of((4, 2), ("p", "q")), {"a": "p"}
    move = nx.transfer(tree(), before, (before[0], {}))
    assert set(move.mesh_axes) == {("p",)}
    move = nx.transfer(tree(), before, LAYOUTS["other half"]())
    assert sum(move.mesh_axes.values()) == move.moved
    move = nx.transfer(tree(), (mesh_of((4,), ("x",)), {"a": "x"}), LAYOUTS["other half"]())
    assert list(move.mesh_axes) == [("outside",)]


# --- programs of XLA ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ({"a": "p"}, {"b": "p"}, {"all-to-all"}),
        ({"a": ("p", "q")}, {"a": ("q", "p")}, {"collective-permute"}),
        ({"a": "p"}, {}, {"all-gather"}),
        ({}, {"a": "p"}, set()),
    ],
)
def test_the_program_sends_no_more_than_the_plan(before, after, kinds):
    mesh = mesh_of((4, 2), ("p", "q"))
    x = {"w": array(a=64, b=32)}
    move, *_ = check(x, (mesh, before), (mesh, after))
    (program,) = move.programs()
    if not kinds:
        assert move.moved == 0
        assert program is None
        return
    found = nx.hlo.collectives(program)
    assert {c.kind for c in found} == kinds
    assert sum(c.wire_bytes for c in found) <= max(move.by("receiver").values())


def test_other_devices_need_no_program():
    move = nx.transfer(tree(), LAYOUTS["columns"](), LAYOUTS["half"]())
    assert move.programs() == (None,) * len(move.steps)


# --- leaves of all kinds --------------------------------------------------------------------------

DTYPES = ["bfloat16", "float16", "int8", "uint4", "int4", "bool", "float8_e4m3fn", "float8_e5m2", "complex64"]


@pytest.mark.fast(0)
def test_narrow_dtypes():
    arrays = {dtype: array(a=8, b=4, dtype=dtype) for dtype in ("bfloat16", "int4")}
    check(arrays, LAYOUTS["columns"](), LAYOUTS["half"]())


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("memory", [None, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype, memory):
    options = {} if memory is None else {"memory": memory}
    check({"w": array(a=8, b=4, dtype=dtype)}, LAYOUTS["columns"](), LAYOUTS["half"](), **options)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("after", ["both", "half"])
def test_keys_scalars_none_and_empty_arrays(after):
    tree = {
        "keys": nx.named(jax.random.split(jax.random.key(7), 8), ["a"]),
        "key": jax.random.key(1),
        "count": jnp.zeros((), jnp.int32),
        "plain": jnp.arange(5.0),
        "none": None,
        "empty": array(a=0, b=6),
        "both": nx.named(jnp.arange(96.0).reshape(8, 2, 6), ["a", None, "b"]),
    }
    check(tree, LAYOUTS["columns"](), LAYOUTS[after]())


def test_the_state_of_an_optimizer():
    params = {"w": array(a=8, b=6), "v": array(b=6, c=4)}
    training = {"params": params, "state": optax.adam(0.1).init(params)}
    check(training, LAYOUTS["columns"](), LAYOUTS["other half"]())
    # A count that JAX may still put anywhere is no error.
    before, after = LAYOUTS["columns"](), LAYOUTS["half"]()
    source = {"w": sharded(params["w"], before), "count": jnp.zeros((), jnp.int32), "step": 3}
    new = nx.transfer(jax.eval_shape(lambda: source), before, after)(source)
    assert new["step"].sharding == new["count"].sharding == NamedSharding(after[0], PartitionSpec())
    assert int(new["step"]) == 3


@pytest.mark.parametrize("memory", [None, pytest.param(30, marks=pytest.mark.fast(0))])
def test_uneven_sizes_are_stored_padded(memory):
    tree = {"w": array(a=10, b=3), "v": array(b=3)}
    before = mesh_of((4,), ("x",)), {"a": "x"}
    after = mesh_of((2, 4), ("p", "q")), {"a": "q", "b": "p"}
    options = {} if memory is None else {"memory": memory}
    _, _, new = check(tree, before, after, padded=True, **options)
    assert new["w"].data.shape == (12, 4)
    # Without padding, such an axis is replicated.
    move, *_ = check(tree, before, after)
    assert any("'b' of size 3, 'a' of size 10. Pass padded=True" in text for text in move.findings)


def test_donated_arrays_are_freed_and_the_others_stay():
    before, after = LAYOUTS["columns"](), LAYOUTS["half"]()
    _, source, _ = check(tree(), before, after)
    assert not any(x.is_deleted() for x in jax.tree.leaves(source))
    np.testing.assert_array_equal(np.asarray(source["w"].data), np.asarray(tree()["w"].data))
    _, source, _ = check(tree(), before, after, donate=True)
    assert all(x.is_deleted() for x in jax.tree.leaves(source))
    _, source, _ = check(tree(), before, (before[0], {"b": "x"}), donate=True)
    assert all(x.is_deleted() for x in jax.tree.leaves(source))


def test_donated_arrays_cannot_move_twice():
    before, after = LAYOUTS["columns"](), LAYOUTS["other half"]()
    move = nx.transfer(array(a=8, b=6), before, after, donate=True)
    source = sharded(array(a=8, b=6), before)
    move(source)
    with pytest.raises(ArgumentError, match=r"^transfer: the array was donated and is deleted\. Use the tree that the first"):
        move(source)


def test_numpy_arrays_have_the_dtype_that_jax_gives_them():
    tree = {"w": array(a=8), "v": np.arange(3.0), "n": np.int64(3)}
    move = nx.transfer(tree, LAYOUTS["columns"](), LAYOUTS["one"]())
    new = move({**tree, "w": sharded(tree["w"], LAYOUTS["columns"]())})
    assert (new["v"].dtype, new["n"].dtype) == (jnp.float32, jnp.int32)
    np.testing.assert_array_equal(new["v"], [0, 1, 2])
    with pytest.raises(ArgumentTypeError, match=r"is i32\[\]\{a:8\}, but the plan is for f32\[\]\{a:8\}\. Make a plan"):
        move({**tree, "w": array("int32", a=8)})


def test_an_array_that_is_in_the_tree_twice():
    before, after = LAYOUTS["columns"](), LAYOUTS["half"]()
    w = array(a=8, b=6)
    source = sharded(w, before)
    new = nx.transfer({"x": w, "y": w}, before, after, donate=True)({"x": source, "y": source})
    assert_same(new, sharded({"x": w, "y": w}, after))
    assert source.data.is_deleted()


def test_the_result_does_not_share_memory_with_the_arrays():
    before = LAYOUTS["columns"]()
    source = sharded(tree(), before)
    move = nx.transfer(source, before, before)
    assert move.moved == 0
    assert "Every device has what it needs, so nothing moves." in move.findings
    new = move(source)
    for x in jax.tree.leaves(source):
        x.delete()
    assert_same(new, sharded(tree(), before))


def test_donated_arrays_that_stay():
    before = LAYOUTS["columns"]()
    source = sharded(tree(), before)
    move = nx.transfer(source, before, before, donate=True)
    # Blocks that stay are in memory once: 2 of `w`, and the others are replicated.
    assert move.peak == (6 + 24 + 6 + 1) * 4
    assert_same(move(source), sharded(tree(), before))


def test_the_shardings_of_the_arrays_are_a_layout():
    after = LAYOUTS["half"]()
    source = {
        "w": sharded(tree(), LAYOUTS["columns"]())["w"],
        "v": sharded(tree(), LAYOUTS["other half"]())["v"],
        "count": jax.device_put(jnp.int32(3), jax.devices()[6]),
    }
    move = nx.transfer(source, None, after)
    target = sharded(source, after)
    assert move.moved == minimum(source, target)
    assert_same(move(source), target)


def test_under_another_mesh():
    before, after = LAYOUTS["explicit"](), LAYOUTS["half"]()
    source, target = sharded(tree(), before), sharded(tree(), after)
    for mesh in (before[0], after[0], mesh_of((2,), ("other",))):
        with jax.set_mesh(mesh):
            assert_same(nx.transfer(source, before, after)(source), target)


def test_loops_are_no_devices():
    before = mesh_of((8,), ("x",)), {"a": ("x", nx.SerialLoop(2)), "b": nx.SerialLoop(3)}
    check(tree(), before, LAYOUTS["half"]())


# --- lost devices ---------------------------------------------------------------------------------


def test_what_remaining_devices_have_survives():
    devices = jax.devices()
    mesh = mesh_of((2, 4), ("data", "model"))
    after = mesh_of((4,), ("model",), devices[4:]), {"b": "model"}
    tree = {"w": array(a=8, b=8), "moment": array(a=8, b=4)}
    # Sharded over `model` only, each half of the mesh has everything.
    before = mesh, {"b": "model"}
    move = nx.transfer(tree, before, after, lost=devices[:4])
    assert move.missing == ()
    assert not set(devices[:4]) & set(move.by("sender"))
    assert_same(move(sharded(tree, before)), sharded(tree, after))
    # Sharded over `data` too, the lost half had its own rows.
    before = mesh, {"b": "model", "a": "data"}
    move = nx.transfer(tree, before, after, lost=devices[:4])
    assert move.missing == ("['moment']", "['w']")
    assert any("Restore what is lost with nx.checkpoints.restore" in text for text in move.findings)
    with pytest.raises(ArgumentError, match=r"no remaining device has all of \['moment'\] and 1 more"):
        move(sharded(tree, before))


# --- abstract meshes, machines --------------------------------------------------------------------


def weights(layers):
    return {f"layer{i}": jax.eval_shape(lambda: array(embed=512, hidden=2048, dtype="bfloat16")) for i in range(layers)}


def test_figures_without_devices():
    train = AbstractMesh((32, 16), ("data", "model")), {"embed": "data", "hidden": "model"}
    serve = AbstractMesh((256,), ("model",)), {"hidden": "model"}
    move = nx.transfer(weights(3), train, serve, machine=nx.machines.v5p)
    # Of 256 devices, each needs 8 columns of 512 rows, and has 16 rows of them if they are in its
    # own block: columns 128 (i % 16) to 128 (i % 16 + 1), among which are 8 i to 8 (i + 1).
    own = sum(8 * i // 128 == i % 16 for i in range(256))
    assert move.moved == 3 * 2 * 8 * (256 * 512 - own * 16)
    assert move.kept == 3 * 2 * 8 * own * 16
    assert max(move.by("receiver").values()) == 3 * 2 * 8 * 512
    # Each device of the trainer sends its block of 16 x 128 to 16 devices, a part to each.
    assert max(move.by("sender").values()) == 3 * 2 * 16 * 128
    with pytest.raises(MeshError, match="is an AbstractMesh without devices"):
        move({})


def test_seconds_over_the_network_between_two_meshes():
    train = AbstractMesh((4, 4), ("data", "model")), {"embed": "data", "hidden": "model"}
    serve = AbstractMesh((8,), ("model",)), {"hidden": "model"}
    move = nx.transfer(weights(1), train, serve, machine=nx.machines.v5p, disjoint=True)
    size = 512 * 2048 * 2
    assert move.moved == size
    (link,) = [link for link in move.links if link.bytes]
    assert link.name == "switch 6.25 GB/s: between the meshes"
    assert (link.bytes, link.most_received, link.most_sent) == (size, size // 8, size // 16)
    assert move.seconds == pytest.approx(size / 8 / 6.25e9 + 1e-5)


def test_seconds_within_and_between_nodes():
    # Nodes of 8. A row of the mesh is a node; columns move between nodes, rows within one.
    mesh = AbstractMesh((4, 8), ("node", "gpu"))
    types = {"w": jax.eval_shape(lambda: array(a=64, b=64))}
    within = nx.transfer(types, (mesh, {"a": "gpu"}), (mesh, {"b": "gpu"}), machine=nx.machines.h100)
    size = 64 * 64 * 4 // 8
    assert [(link.name, link.bytes) for link in within.links if link.bytes] == [("switch 450 GB/s: gpu", 32 * size * 7 // 8)]
    assert within.seconds == pytest.approx(size * 7 / 8 / 450e9 + 1e-6)
    between = nx.transfer(types, (mesh, {"a": "node"}), (mesh, {"b": "node"}), machine=nx.machines.h100)
    size = 64 * 64 * 4 // 4
    assert [(link.name, link.bytes) for link in between.links if link.bytes] == [("switch 50 GB/s: node", 32 * size * 3 // 4)]
    assert between.seconds == pytest.approx(size * 3 / 4 / 50e9 + 5e-6)


def test_seconds_on_a_ring_are_those_of_an_all_to_all():
    mesh = AbstractMesh((16,), ("x",))
    types = {"w": jax.eval_shape(lambda: array(a=1024, b=1024))}
    move = nx.transfer(types, (mesh, {"a": "x"}), (mesh, {"b": "x"}), machine=nx.machines.v5e)
    payload = 1024 * 1024 * 4 / 16
    # Blocks for the others travel n / 4 hops on average; v5e has 90 GB/s along an axis.
    assert move.seconds == pytest.approx(16 / 4 * payload / 90e9 + 8 * 1e-6, rel=1e-6)


def test_seconds_on_a_ring_are_those_of_an_all_gather():
    mesh = AbstractMesh((16,), ("x",))
    types = {"w": jax.eval_shape(lambda: array(a=1024, b=1024))}
    move = nx.transfer(types, (mesh, {"a": "x"}), (mesh, {}), machine=nx.machines.v5e)
    # 15 / 16 of the result over 90 GB/s, and half of the ring as latency.
    assert move.seconds == pytest.approx(15 / 16 * 1024 * 1024 * 4 / 90e9 + 8 * 1e-6, rel=0.01)


def test_it_prefers_a_sender_on_the_same_node():
    mesh = AbstractMesh((2, 8), ("node", "gpu"))
    types = {"w": jax.eval_shape(lambda: array(a=64))}
    move = nx.transfer(types, (mesh, {"a": "gpu"}), (mesh, {}), machine=nx.machines.h100)
    assert all(sender // 8 == receiver // 8 for sender, receiver in move.bytes)


def test_it_prints_and_is_json():
    train = AbstractMesh((4, 2), ("data", "model")), {"embed": "data", "hidden": "model", "hiden": "data", "batch": "data"}
    serve = AbstractMesh((2, 2), ("copy", "model")), {"hidden": "model"}
    move = nx.transfer(weights(2), train, serve, machine=nx.machines.v5p)
    text = str(move)
    assert text.startswith("Transfer of 2 arrays, 4.0 MiB, from data=4, model=2 (8 devices) to copy=2, model=2 (4 devices)")
    for word in ("moved", "kept", "peak", "link", "mesh axes", "round", "data"):
        assert word in text
    unused = [text for text in move.findings if text.startswith("No array has")]
    assert unused == ["No array has the axis 'hiden' of from_layout. Did you mean 'hidden'?"]
    assert max(map(len, text.splitlines())) <= 100
    assert repr(move) == text
    assert json.loads(json.dumps(move.to_dict()))["moved"] == move.moved
    assert "<table>" in move._repr_html_()
    again = "first move to a layout that also shards over 'copy'"
    assert not any(again in text for text in move.findings)
    other = nx.transfer(weights(2), train, serve, disjoint=True)
    assert any(again in text for text in other.findings)
    with pytest.raises(ArgumentError, match=r"Transfer.by: 'leafs' is not a key. Choose from 'leaf'.*Did you mean 'leaf'"):
        move.by("leafs")


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES = [
    (lambda b, a: nx.transfer(tree(), b[0], a), ArgumentTypeError, "from_layout=.* is not a layout. Pass a pair"),
    (lambda b, a: nx.transfer(tree(), b, a[::-1]), ArgumentTypeError, "to_layout begins with .*, which is not a mesh"),
    (lambda b, a: nx.transfer(tree(), b, (a[0], {"a": "z"})), MeshError, "transfer, to_layout: .* to mesh axis 'z'"),
    (lambda b, a: nx.transfer(tree(), b, (a[0], {"a": 3})), AxisResourceError, "transfer, to_layout: "),
    (lambda b, a: nx.transfer(tree(), b, (a[0], {"b": "p", "c": "p"})), PlacementConflictError, r"transfer, \['v'\]"),
    (lambda b, a: nx.transfer(tree()["v"], b, a), AxisNotFoundError, "transfer, from_layout: .*'a'"),
    (lambda b, a: nx.transfer({"w": jnp.ones(3)}, b, a), AxisNotFoundError, "no array of the tree has a named axis"),
    (lambda b, a: nx.transfer({"w": "text"}, b, a), ArgumentTypeError, r"\['w'\] is 'text', of type str, not an array"),
    (lambda b, a: nx.transfer(tree(), b, a, memory=-1), ArgumentError, "transfer: memory=-1 must be a positive"),
    (lambda b, a: nx.transfer(tree(), b, a, machine="v5p"), ArgumentTypeError, "transfer: machine='v5p' is not a machine"),
    (lambda b, a: nx.transfer(tree(), b, a, disjoint=True), ArgumentError, "disjoint=True is for abstract meshes"),
    (lambda b, a: nx.transfer(tree(), b, a, lost=[99]), ArgumentError, "lost= has 99, which is in neither layout"),
    (lambda b, a: nx.transfer(jax.eval_shape(tree), None, a), ArgumentTypeError, "from_layout=None means the shardings"),
    (
        lambda b, a: nx.transfer(tree(), b, a)({"w": tree()["w"]}),
        ArgumentTypeError,
        r"the plan\['v'\] is missing from the tree",
    ),
    (lambda b, a: nx.transfer(tree(), b, a)(sharded(tree(), a)), MeshError, "is not in the source layout"),
    (lambda b, a: jax.jit(nx.transfer(tree(), b, a))(tree()), ArgumentTypeError, "is traced"),
    (
        lambda b, a: nx.transfer({"w": array(a=8, b=6)}, b, a)({"w": array(a=8, b=6, dtype="int32")}),
        ArgumentTypeError,
        r"\['w'\] is i32\[\]\{a:8, b:6\}, but the plan is for f32\[\]\{a:8, b:6\}",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_mistakes(call, error, message):
    before, after = LAYOUTS["columns"](), LAYOUTS["half"]()
    with pytest.raises(error, match=message):
        call(before, after)


def test_it_runs_outside_of_mapped_functions():
    before, after = LAYOUTS["columns"](), LAYOUTS["half"]()

    def body(x):
        nx.transfer(tree(), before, after)
        return x

    with pytest.raises(AxisResourceError, match="cannot be called inside a mapped function"):
        nx.xmap(body, in_axes=["a"], out_axes=["a"], axis_resources={"a": "x"}, mesh=before[0])(jnp.ones(8))


# --- random trees, meshes and layouts -------------------------------------------------------------

SHAPES = [(1,), (2,), (4,), (8,), (2, 2), (4, 2), (2, 4), (2, 2, 2)]
NAMES = ("a", "b", "c")


@st.composite
def layouts(draw, axes):
    shape = draw(st.sampled_from(SHAPES))
    order = draw(st.permutations(jax.devices()))
    devices = draw(st.sampled_from([jax.devices(), jax.devices()[::-1], order]))[: int(np.prod(shape))]
    mesh = mesh_of(shape, axes[: len(shape)], devices, draw(st.sampled_from([AUTO, EXPLICIT])))
    resources = {}
    for axis in draw(st.permutations(mesh.axis_names)):
        name = draw(st.sampled_from([*NAMES, None]))
        if name is not None:
            resources[name] = (*resources.get(name, ()), axis)
    return mesh, resources


@st.composite
def trees(draw):
    found = {}
    for i in range(draw(st.integers(1, 3))):
        dims = draw(st.permutations(NAMES))[: draw(st.integers(0, 3))]
        sizes = {dim: draw(st.sampled_from([1, 3, 4, 6, 8, 16])) for dim in dims}
        found[f"w{i}"] = array(dtype=draw(st.sampled_from(["float32", "bfloat16", "int8"])), **sizes)
    return {**found, "named": array(a=2), "plain": jnp.arange(3.0)}


def random_case(tree, before, after, options):
    least = options.pop("memory", None)
    if least is not None:
        try:
            nx.transfer(tree, before, after, **options, memory=least)
        except ArgumentError as error:  # it says how much is enough
            least = int(str(error).partition(" bytes in flight")[0].split()[-1])
        options["memory"] = least
    check(tree, before, after, **options)


OPTIONS = st.fixed_dictionaries(
    {}, optional={"memory": st.sampled_from([16, 60, 500]), "donate": st.booleans(), "padded": st.booleans()}
)
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@pytest.mark.full(0)
@pytest.mark.fast(0)
@given(trees(), layouts(("x", "y", "z")), layouts(("p", "q", "r")), OPTIONS)
@settings(max_examples=60, **QUIET)
def test_random_trees(tree, before, after, options):
    random_case(tree, before, after, options)
