"""`nx.summary`: types with placements, bytes in all and on each device, and groups of equal layers."""

import html
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import AxisResourceError, MeshError, PlacementConflictError

LAYOUT = {"embed": "data", "mlp": "model", "vocab": "model"}
MESH = jax.sharding.AbstractMesh((2, 2), ("data", "model"))


def types():
    def params():
        layer = {"w": nx.zeros(named_shape={"embed": 8, "mlp": 6}), "b": nx.zeros(named_shape={"mlp": 6})}
        return {"table": nx.zeros(named_shape={"vocab": 40, "embed": 8}), "layers": [layer] * 3}

    return jax.eval_shape(params)


def test_the_table_of_types_in_a_layout():
    table = nx.summary(types(), LAYOUT, MESH)
    assert str(table).splitlines() == [
        "7 arrays, 482 elements, 1.9 KiB in all, 500 B on each of 4 devices (data=2, model=2)",
        "",
        "path         type                                  in all  on each device",
        "layers.0..2  3 times                                648 B           180 B",
        "  b          f32[]{mlp:6@model}                      24 B            12 B",
        "  w          f32[]{embed:8@data, mlp:6@model}       192 B            48 B",
        "table        f32[]{vocab:40@model, embed:8@data}  1.2 KiB           320 B",
    ]
    row = table.rows[0]
    assert (row.path, row.type, row.size, row.bytes, row.bytes_per_device) == ("layers.0.b", "f32[]{mlp:6@model}", 6, 24, 12)
    assert (len(table.rows), table.mesh, table.devices) == (7, {"data": 2, "model": 2}, 4)
    assert (table.size, table.bytes, table.bytes_per_device, table.findings) == (482, 1928, 500, ())


def test_placed_arrays_have_the_table_of_their_layout():
    mesh = jax.make_mesh((2, 2), ("data", "model"), devices=jax.devices()[:4])
    placed = nx.shard(jax.tree.map(lambda t: jnp.zeros(t.shape, t.dtype), types()), LAYOUT, mesh)
    assert str(nx.summary(placed)) == str(nx.summary(types(), LAYOUT, mesh)) == str(nx.summary(types(), LAYOUT, MESH))
    held = dict.fromkeys(jax.devices()[:4], 0)
    for leaf in jax.tree.leaves(placed):
        for shard in leaf.addressable_shards:
            held[shard.device] += shard.data.nbytes
    assert set(held.values()) == {nx.summary(placed).bytes_per_device}


def test_without_devices_there_is_no_column_of_them():
    text = str(nx.summary(types()))
    assert "device" not in text
    assert re.search(r"layers\.0\.\.2 +3 times +648 B\n", text)
    some = str(nx.summary({"on": jnp.zeros(3), "off": np.zeros(2, np.float32)}))
    assert some.startswith("2 arrays, 5 elements, 20 B in all, 12 B on 1 device, 1 array on no device")


def test_positional_axes_scalars_keys_and_other_leaves():
    tree = {"x": np.ones((2, 3)), "key": jax.random.key(0), "f": np.tanh, "n": 3, "s": "text", "one": jnp.float32(1)}
    mesh = jax.make_mesh((4, 2), ("data", "model"))
    table = nx.summary(tree, {}, mesh)
    assert {row.path: row.type for row in table.rows} == {
        "x": "f32[2,3]",
        "key": "key<fry>[]",
        "f": "the function tanh",
        "n": "3",
        "s": "'text'",
        "one": "f32[]",
    }
    assert str(table).startswith("3 arrays, 8 elements, ")
    x = jax.device_put(jnp.zeros((8, 6)), jax.sharding.NamedSharding(mesh, jax.P("data", None)))
    (row,) = nx.summary(x).rows
    assert (row.path, row.type, row.bytes_per_device) == ("", "f32[8@data,6]", 48)


def test_groups():
    leaf, other = jnp.zeros(3), jnp.zeros(4)
    tree = {
        **{f"h_{i}": {"k": leaf if i < 10 else other} for i in range(13)},
        "single": [leaf] * 4,
        "nested": [[{"a": leaf}] * 2] * 3,
        "gap": {"l1": {"k": leaf}, "l3": {"k": leaf}},
        "mixed": [leaf, other, other],
    }
    paths = [
        line.split("  ")[0] if line[0] != " " else line.rstrip()[:9].rstrip() for line in str(nx.summary(tree)).splitlines()[3:]
    ]
    assert paths == [
        *("gap.l1.k", "gap.l3.k", "h_0..9", "  k", "h_10..12", "  k"),
        *("mixed.0", "mixed.1..2", "nested.0..2", "  0..1", "    a", "single.0..3"),
    ]
    assert re.search(r"single\.0\.\.3 +4 times f32\[3\] +48 B", str(nx.summary(tree)))
    assert nx.summary(tree).bytes == sum(x.nbytes for x in jax.tree.leaves(tree))


def test_a_large_model_prints_one_line_for_each_kind_of_array():
    layer = {f"w{i}": nx.zeros(named_shape={"embed": 8, f"out{i}": 4 + i}) for i in b"abcdef"}
    tree = {"layers": [layer] * 16, "embed": nx.zeros(named_shape={"vocab": 64, "embed": 8})}
    assert len(jax.tree.leaves(tree)) == 97
    assert len(str(nx.summary(tree))) < 800


def test_html_has_groups_that_open():
    text = nx.summary({**types(), "<b>": jnp.zeros(2)}, LAYOUT, MESH)._repr_html_()
    assert "<details><summary>layers.0..2, 3 times, 648 B, 180 B</summary>" in text
    assert "&lt;b&gt;" in text
    assert "<b>&lt;" not in text
    plain = html.unescape(re.sub("<[^>]*>", " ", text))
    for words in ("f32[]{vocab:40@model, embed:8@data}", "on each device", "8 arrays"):
        assert words in plain


def test_arrays_in_the_memory_of_the_host_are_apart():
    mesh = jax.make_mesh((2, 2), ("data", "model"), devices=jax.devices()[:4])
    x, layout = nx.named(jnp.zeros((8, 6)), ["embed", "mlp"]), {"embed": "data", "mlp": "model"}
    table = nx.summary({"host": nx.shard(x, layout, mesh, memory_kind="pinned_host"), "device": nx.shard(x, layout, mesh)})
    assert [row.in_host_memory for row in table.rows] == [False, True]
    assert table.bytes_per_device == 48
    assert "192 B in the memory of the host" in str(table)


def test_arrays_that_are_stored_padded_have_their_padding_in_bytes():
    mesh = jax.make_mesh((4,), ("data",), devices=jax.devices()[:4])
    x = nx.shard(nx.named(jnp.zeros(6), ["embed"]), {"embed": "data"}, mesh, padded=True)
    (row,) = nx.summary(x).rows
    assert (row.size, row.bytes, row.bytes_per_device) == (6, 32, 8)


def test_findings_about_the_layout():
    found = nx.summary(types(), {"mlp": ("data", "model"), "bacth": "data"}, MESH).findings
    assert found == (
        "The 6 elements of mlp do not divide over 4 devices, so all devices have all of them; nx.shard(..., padded=True) stores padded blocks.",
        "No array here has the axis 'bacth'.",
    )


def test_under_jit_types_are_shown():
    texts = []

    @jax.jit
    def f(x):
        texts.append(str(nx.summary({"x": x})))
        return x

    f(nx.named(jnp.zeros((2, 3)), ["a", None]))
    assert texts[0].splitlines()[-1].split() == ["x", "f32[3]{a:2}", "24", "B"]


@pytest.mark.parametrize(
    ("error", "text", "layout", "mesh"),
    [
        (AxisResourceError, "summary: mesh= is given without axis_resources", None, MESH),
        (MeshError, "summary: ", {"embed": "data"}, None),
        (
            MeshError,
            "summary: axis_resources maps 'embed' to mesh axis 'dat', which the mesh does not have",
            {"embed": "dat"},
            MESH,
        ),
        (PlacementConflictError, "summary: axes 'embed' and 'mlp'", {"embed": "data", "mlp": "data"}, MESH),
    ],
)
def test_mistakes(error, text, layout, mesh):
    with pytest.raises(error, match=re.escape(text)):
        nx.summary(types(), layout, mesh)


def test_not_in_a_mapped_function():
    mesh = jax.make_mesh((4, 2), ("data", "model"))

    def body(x):
        nx.summary(x, {}, mesh)
        return x

    with pytest.raises(AxisResourceError, match=r"summary: it shows global arrays and cannot run in a mapped function"):
        nx.xmap(body, ["embed"], ["embed"], axis_resources={"embed": "data"}, mesh=mesh)(jnp.zeros(8))
