"""Pictures: what they say is what JAX's shardings say, and every word can be read. Oracles are `sharding.devices_indices_map` and NumPy.

Contents are compared, not pixels: rectangles, the texts on them, captions; and no text covers another one or leaves the sheet.
"""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisResourceError,
    MeshError,
    PlacementConflictError,
)
from namedax.hlo import KINDS
from namedax.insight.analysis.records import Collective, Operation, PipelineRun
from namedax.insight.drawing.canvas import svg
from namedax.insight.drawing.front import draw_front
from namedax.insight.drawing.timeline import draw_pipeline, draw_timeline
from namedax.insight.drawing.traffic import draw_collectives
from namedax.ops.loops.pipeline_timetable import Schedule
from tests import make
from tests.harness import Lazily, environment_without_devices, make_mesh
from tests.harness import said as said_by

backend_agg, mpl_colors = Lazily("matplotlib.backends.backend_agg"), Lazily("matplotlib.colors")
mpl_figure, patches = Lazily("matplotlib.figure"), Lazily("matplotlib.patches")
MESH = make_mesh((4, 2))
CUBE = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(jax.sharding.AxisType.Auto,) * 3)


def struct(names, *sizes, dtype="float32"):
    """The type of a named array."""
    return jax.eval_shape(lambda: nx.named(jax.numpy.zeros(sizes, dtype), names))


def texts(figure):
    return [text for axes in figure.axes for text in axes.texts if text.get_text()]


def said(figure):
    """Everything that is written, in the order of drawing."""
    return [text.get_text() for text in texts(figure)]


def below_the_title(figure):
    """The sentences about the whole picture."""
    return " ".join(text.get_text() for text in texts(figure) if text.get_fontsize() == 8.5)


def shapes(figure, kind="Rectangle"):
    kind = getattr(patches, kind)
    return [
        artist for axes in figure.axes for artist in axes.get_children() if type(artist) is kind and artist is not axes.patch
    ]


def devices(label):
    """The numbers that a label lists."""
    label = " ".join(label.split())
    if match := re.fullmatch(r"(\d+), (\d+), … (\d+)", label):
        first, second, last = map(int, match.groups())
        return set(range(first, last + 1, second - first))
    ends = [list(map(int, piece.split("–"))) for piece in label.split(", ")]
    return {number for first, *last in ends for number in range(first, (last or [first])[0] + 1)}


def labeled(figure):
    """Every labeled rectangle, line by line: (its upper left corner, the devices that it names, its color)."""
    found = []
    for text in texts(figure):
        at = [r for r in shapes(figure) if r.axes is text.axes and centre(r) == pytest.approx(text.get_position())]
        if at:
            (block,) = {(round(r.get_x(), 4), round(r.get_y(), 4)): r for r in at}.values()
            found.append(
                (
                    (round(block.get_y(), 4), round(block.get_x(), 4)),
                    devices(text.get_text()),
                    mpl_colors.to_rgb(block.get_facecolor()),
                )
            )
    return sorted(found, key=lambda each: each[0])


def centre(rectangle):
    return (rectangle.get_x() + rectangle.get_width() / 2, rectangle.get_y() + rectangle.get_height() / 2)


def holders(sharding, shape):
    """By JAX: the devices of every block, in row-major order."""
    blocks = {}
    for device, index in sharding.devices_indices_map(shape).items():
        blocks.setdefault(tuple(part.indices(n)[0] for part, n in zip(index, shape, strict=True)), set()).add(device.id)
    return [blocks[start] for start in sorted(blocks)]


def assert_readable(figure, smallest=7):
    """No text covers another one, none leaves the sheet, none is too small."""
    renderer = backend_agg.FigureCanvasAgg(figure).get_renderer()
    if any(axes.axison for axes in figure.axes):
        figure.draw(renderer)
    shown = texts(figure)
    for axes in figure.axes:
        if axes.axison:
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
                shown += [tick.label1 for tick in ticks if tick.label1.get_text()]
            shown += [label for label in (axes.xaxis.label, axes.yaxis.label) if label.get_text()]
    boxes = np.array([text.get_window_extent(renderer).extents for text in shown])
    low, high = boxes[:, :2], boxes[:, 2:]
    assert (low >= -1).all()
    assert (high <= np.array(figure.bbox.size) + 1).all(), [
        t.get_text() for t in np.array(shown)[(high > figure.bbox.size).any(1)]
    ]
    overlap = np.minimum(high[:, None], high[None]) - np.maximum(low[:, None], low[None])
    both = np.argwhere(np.triu((overlap > 1).all(-1), 1))
    assert [(shown[i].get_text(), shown[j].get_text()) for i, j in both] == []
    assert min(text.get_fontsize() for text in shown) >= smallest


# --- arrays that are somewhere ------------------------------------------------------------------------------------------

SPECS = [
    (MESH, P("x", "y"), (8, 4)),
    (MESH, P("y", "x"), (8, 4)),
    (MESH, P(None, "y"), (8, 4)),
    (MESH, P(("x", "y"), None), (8, 4)),
    (MESH, P(("y", "x")), (8,)),
    (MESH, P(), (8, 4)),
    (MESH, P(), ()),
    (MESH, P("x"), (8, 0)),
    (Mesh(MESH.devices[::-1].T, ("y", "x")), P("x", "y"), (8, 4)),  # devices in another order
    (CUBE, P("z", ("x", "y")), (4, 4)),
    (CUBE, P("y", None), (4, 4)),
]


@pytest.mark.parametrize(("mesh", "spec", "shape"), SPECS, ids=str)
def test_blocks_are_where_jax_says(mesh, spec, shape):
    x = jax.device_put(make.ones(shape), NamedSharding(mesh, spec))
    for drawn in (x, nx.NamedArray(x, ("a", "b")[: len(shape)]), jax.ShapeDtypeStruct(shape, "float32", sharding=x.sharding)):
        figure = nx.draw(drawn)
        found = labeled(figure)
        want = holders(x.sharding, shape)
        assert [each[1] for each in found] == want
        assert len(shapes(figure)) == sum(map(len, want))  # a rectangle for each device: copies are stacked
        assert len(shapes(figure, "Ellipse")) == mesh.size
    assert_readable(figure)


def test_a_device_has_one_color_everywhere():
    tree = {"a": jax.device_put(make.ones((8, 4)), NamedSharding(MESH, P("x", "y")))}
    tree["b"] = jax.device_put(make.ones((8, 4)), NamedSharding(MESH, P(("y", "x"))))
    figure = nx.draw(tree)
    colors = {}
    for _, ids, color in labeled(figure):
        colors.setdefault(ids.pop(), set()).add(color)
    assert [len(colors[device]) for device in range(8)] == [1] * 8
    assert len(set().union(*colors.values())) == 8
    assert {mpl_colors.to_rgb(place.get_facecolor()) for place in shapes(figure, "Ellipse")} == set().union(*colors.values())


def test_other_shardings_than_by_name():
    figure = nx.draw(make.ones((3, 4)))
    assert [each[1] for each in labeled(figure)] == [{0}]
    assert {"1 array on 1 device", "f32[3,4]", "48 B", "↓ position 0: 3", "→ position 1: 4"} <= set(said(figure))
    sharding = NamedSharding(MESH, P("x", "y"))

    class ByIndices(jax.sharding.Sharding):
        """One that says nothing of a mesh."""

        def check_compatible_aval(self, shape):
            pass

        def devices_indices_map(self, shape):
            return sharding.devices_indices_map(shape)

    figure = nx.draw(jax.ShapeDtypeStruct((8, 4), "float32", sharding=ByIndices()))
    assert [each[1] for each in labeled(figure)] == holders(sharding, (8, 4))
    assert {"1 array on 8 devices", "↓ position 0: 8 in 4 parts", "→ position 1: 4 in 2 parts"} <= set(said(figure))
    assert not shapes(figure, "Ellipse")


def test_captions():
    x = nx.named(make.ones((8, 3, 128)), ["batch", None, ("layer", 0)])
    figure = nx.draw(nx.shard(x, {"batch": "x"}, MESH))
    assert said(figure)[0] == "1 array on 8 devices, mesh x=4, y=2"
    assert (
        below_the_title(figure)
        == "Numbers are device ids, with one color for each device; a stack is a block on several devices."
    )
    wanted = ["f32[3]{batch:8@x, ('layer', 0):128}", "12.0 KiB, 3.0 KiB a device", "↓ batch: 8 over x=4", "   position 0: 3"]
    wanted += ["→ ('layer', 0): 128", "copies over y=2"]
    start = said(figure).index(wanted[0])
    assert said(figure)[start : start + len(wanted)] == wanted
    assert said(figure)[start - 3 - 8 : start - 8] == ["mesh", "↓ x: 4", "→ y: 2"]
    assert_readable(figure)


def test_captions_give_the_reason_for_copies():
    x = struct(["vocab", "k", "batch"], 50257, 6, 16)
    figure = nx.draw(x, {"vocab": "x", "k": "z", "batch": "y"}, AbstractMesh((8, 2, 4), ("x", "y", "z")))
    written = " | ".join(said(figure))
    assert "vocab: 50,257 does not divide over x=8" in written
    assert "k: 6 does not divide over z=4" in written
    assert "batch: 16 over y=2" in written
    assert "copies over x=8, z=4" in written
    written = " | ".join(said(nx.draw(x, {"batch": ("x", "y", "z")}, AbstractMesh((8, 2, 4), ("x", "y", "z")))))
    assert "batch: 16 does not divide over x=8, y=2, z=4" in written
    assert "vocab: 50,257 |" in written
    # Of an array that is there only the sharding is known.
    assert "divide" not in " ".join(said(nx.draw(nx.shard(nx.named(np.ones(6), ["a"]), {"a": "x"}, MESH, padded=False))))


def test_values_that_are_yet_to_be_added_up_are_no_copies():
    x = jax.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(make_mesh((4, 2), "explicit"), P("x", unreduced={"y"})))
    named = jax.tree.unflatten(jax.tree.structure(struct(["a"], 8)), [x])
    assert repr(named) == "NamedArray(f32[]{a:8@x})"
    assert "partial sums over y=2" in said(nx.draw(x))
    assert "partial sums over y=2" in said(nx.draw(named))
    assert not [text for text in said(nx.draw(x)) if "copies" in text]


def test_characters_have_no_special_meaning():
    assert "$x^2$_{: 8" in " ".join(said(nx.draw(nx.named(make.ones(8), ["$x^2$_{"]))))
    svg(nx.draw(nx.named(make.ones(8), ["$x^2$_{<&>"])))


# --- where arrays would be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", [MESH, CUBE, MESH.abstract_mesh], ids=["2-D", "3-D", "abstract"])
@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"b": "x", "a": "y"}, {"b": ("y", "x")}], ids=str)
def test_an_assignment_is_drawn_as_shard_places(mesh, resources):
    x = nx.named(make.ones((8, 8)), ["a", "b"])
    real = MESH if mesh is MESH.abstract_mesh else mesh
    want = [each[1:] for each in labeled(nx.draw(nx.shard(x, resources, real, padded=False)))]
    assert [each[1:] for each in labeled(nx.draw(x, resources, mesh))] == want
    assert [each[1:] for each in labeled(nx.draw(struct(["a", "b"], 8, 8), resources, mesh))] == want


def test_the_mesh_of_the_context():
    x = struct(["a"], 8)
    want = said(nx.draw(x, {"a": "x"}, MESH))
    with jax.set_mesh(MESH):
        assert said(nx.draw(x, {"a": "x"})) == want
    with jax.sharding.use_abstract_mesh(MESH.abstract_mesh):
        assert "The mesh is abstract: its devices are numbered in order." in below_the_title(nx.draw(x, {"a": "x"}))


def test_three_sharded_dimensions_are_several_sheets():
    mesh = AbstractMesh((2, 2, 2), ("x", "y", "z"))
    figure = nx.draw(struct(["a", "b", "c", "d"], 8, 6, 4, 2), {"a": "x", "b": "y", "d": "z"}, mesh)
    assert [text for text in said(figure) if re.match("[abcd] ", text)] == ["d 0", "d 1"]
    assert {"↓ a: 8 over x=2", "→ b: 6 over y=2", "   c: 4", "▤ d: 2 over z=2"} <= set(said(figure))
    left, right = {0, 2, 4, 6}, {1, 3, 5, 7}
    blocks = sorted(labeled(figure), key=lambda each: each[0][1])
    assert [set().union(*(each[1] for each in half)) for half in (blocks[:4], blocks[4:])] == [left, right]


def test_loops_and_other_names_do_not_matter():
    figure = nx.draw(struct(["a"], 8), {"a": ("x", nx.SerialLoop(2)), "bacth": "y"}, MESH)
    assert [each[1] for each in labeled(figure)] == [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
    assert below_the_title(figure).endswith(" No array here has the axis 'bacth'.")


# --- trees --------------------------------------------------------------------------------------------------------------


def test_each_array_of_a_tree_has_a_panel():
    tree = {"layers": [{"w": struct(["a", "b"], 8, 4)}, {"w": struct(["b", "a"], 4, 8)}], "scale": 2.0}
    figure = nx.draw(tree, {"a": "x"}, MESH)
    assert said(figure)[0] == "3 arrays on 8 devices, mesh x=4, y=2"
    titles = [text.get_text() for text in texts(figure) if text.get_weight() == "bold" and text.get_fontsize() == 10]
    assert titles == ["mesh", "layers.0.w", "layers.1.w", "scale"]
    assert {"f32, 128 B, 32 B a device", "↓ a: 8 over x=4", "→ a: 8 over x=4"} <= set(said(figure))
    assert_readable(figure)


def test_too_many_arrays_are_left_out():
    tree = {f"layer{i:02}": {"w": struct(["a", "b"], 8, 4), "b": struct(["b"], 4)} for i in range(20)} | {
        "z": struct(["a"], 64)
    }
    figure = nx.draw(tree, {"a": "x"}, MESH)
    titles = [text.get_text() for text in texts(figure) if text.get_weight() == "bold" and text.get_fontsize() == 10]
    assert len(titles) == 13  # with the mesh
    assert {"layer00.w", "layer00.b", "z"} <= set(titles)
    assert "29 arrays are left out, 29 of them with the layout of one that is drawn." in below_the_title(figure)
    assert_readable(figure)


# --- sizes --------------------------------------------------------------------------------------------------------------

LARGE = {"vocab": 32768, "embed": 4096, "layer": 64, "mlp": 16384, "batch": 4096, "pos": 8192}
ARRAYS = {
    "tokens": struct(["batch", "pos"], LARGE["batch"], LARGE["pos"], dtype="int32"),
    "w": struct(["layer", "embed", "mlp"], *(LARGE[name] for name in ("layer", "embed", "mlp"))),
    "out_of_the_transformer_after_the_last_layer": struct(["embed", "vocab"], LARGE["embed"], LARGE["vocab"]),
    "norm": struct(["embed"], LARGE["embed"]),
}
MESHES = {
    "1": ((1,), {"batch": 0}),
    "8": ((8,), {"batch": 0, "mlp": 0, "vocab": 0}),
    "4x2": ((4, 2), {"batch": 0, "mlp": 1, "embed": 0}),
    "2x2x2": ((2, 2, 2), {"batch": (2, 0), "layer": 2, "embed": 0, "mlp": 1}),
    "64": ((64,), {"batch": 0, "mlp": 0, "embed": ()}),
    "8x8": ((8, 8), {"batch": 0, "vocab": 1, "mlp": 1, "embed": ()}),
    "4x4x4": ((4, 4, 4), {"batch": (0, 2), "layer": 0, "embed": 1, "mlp": 2}),
    "2x32": ((2, 32), {"pos": 1, "embed": 0, "vocab": 1}),
    "16x16": ((16, 16), {"batch": 0, "mlp": 1, "embed": 0, "vocab": 1}),
    "64x16x4": ((64, 16, 4), {"batch": (0, 1), "layer": 2, "embed": 0, "mlp": 1}),
    "65536": ((256, 256), {"batch": 0, "pos": 1, "mlp": 1}),
}


@pytest.mark.fast(0)
@pytest.mark.full(4)
@pytest.mark.parametrize(
    "size", [size if size in ("4x2", "8x8", "16x16") else pytest.param(size, marks=pytest.mark.fast(0)) for size in MESHES]
)
def test_everything_can_be_read(size):
    shape, resources = MESHES[size]
    axes = ("data", "expert", "model")[: len(shape)]
    places = {name: axes[of] if isinstance(of, int) else tuple(axes[i] for i in of) for name, of in resources.items()}
    figure = nx.draw(ARRAYS, places, AbstractMesh(shape, axes))
    assert_readable(figure)
    count = np.prod(shape)
    summary = "With more than 64 devices, only the first blocks and the last one of each axis are drawn."
    assert (summary in below_the_title(figure)) == (count > 64)
    assert max(figure.get_size_inches()) < 24
    if count <= 64:
        everywhere = {device for _, ids, _ in labeled(figure) for device in ids}
        assert everywhere == set(range(count))
        for name, x in ARRAYS.items():
            alone = labeled(nx.draw(x, places, AbstractMesh(shape, axes)))
            parts = [np.prod([shape[i] for i in np.atleast_1d(resources.get(dim, ())).astype(int)]) for dim in x.dims]
            assert len(alone) == np.prod(parts), name
            assert sum(len(ids) for _, ids, _ in alone) == count


@pytest.mark.parametrize("axis", "abcdef")
def test_up_to_64_devices_are_listed(axis):
    """Also where they make no range."""
    figure = nx.draw(struct(["i"], 8), {"i": axis}, AbstractMesh((2,) * 6, tuple("abcdef")))
    bit = 5 - "abcdef".index(axis)
    assert [ids for _, ids, _ in labeled(figure)] == [{n for n in range(64) if n >> bit & 1 == part} for part in (0, 1)]
    assert_readable(figure)


def test_of_more_devices_a_block_says_how_many():
    mesh = AbstractMesh((64, 2, 8, 2), ("a", "b", "c", "d"))
    words = said(nx.draw(struct(["i"], 8), {"i": "c"}, mesh))
    assert " ".join(words[-1].split()) == "14, 15, … 2047 (256)"


# --- as a part of another figure ----------------------------------------------------------------------------------------


def test_on_axes_of_ones_own():
    figure = mpl_figure.Figure(figsize=(6, 3))
    left, right = figure.subplots(1, 2)
    x = nx.shard(nx.named(make.ones((8, 4)), ["a", "b"]), {"a": "x"}, MESH)
    assert nx.draw(x, ax=left) is figure
    assert [each[1] for each in labeled(figure)] == [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
    assert right.axison
    assert not right.texts
    assert_readable(figure)


def test_labels_that_do_not_fit_are_counts_or_left_out():
    figure = mpl_figure.Figure(figsize=(2, 2))
    x = nx.shard(nx.named(make.ones((2, 2)), ["a", "b"]), {"a": "y"}, MESH)
    nx.draw(x, ax=figure.add_axes((0, 0, 0.25, 0.3)))
    assert said(figure) == ["×4", "×4"]
    nx.draw(x, ax=figure.add_axes((0.5, 0, 0.15, 0.15)))
    assert len(said(figure)) == 2


# --- what is sent ---------------------------------------------------------------------------------------------------------


def collective(kind, axes, wire, trips=1, names=("batch",), operation="nx.mean", source="model.py:3", phase="forward"):
    return Collective(kind, axes, 4, names, 2 * wire, wire, trips, "float32", operation, source, phase)


SENT = [
    collective("all-gather", ("x",), 3 * 2**20, 4, ("embed_fsdp",), "nx.einsum", "model.py:7"),
    collective("reduce-scatter", ("x",), 4 * 2**20, 1, ("embed_fsdp",), "nx.einsum", "model.py:7", "gradient"),
    collective("all-reduce", ("y",), 2**20, 2),
    collective("all-reduce", ("y",), 2**20, 2),
    collective("all-reduce", ("y", "x"), 2**10, 1, (), "", ""),
]


def lengths(figure):
    """The length of every bar, by its height on the page and its kind."""
    bars = [bar for bar in shapes(figure) if bar.get_gid() in KINDS]
    tops = sorted({bar.get_y() for bar in bars})
    return {(tops.index(bar.get_y()), bar.get_gid()): bar.get_width() for bar in bars}


def test_traffic():
    figure = draw_collectives(SENT, {"x": 4, "y": 2, "z": 1})
    words = said(figure)
    assert words[0] == "A device sends 20.0 MiB on the wire"
    for text in (
        "5 all-reduce (4.0 MiB)", "4 all-gather (12.0 MiB)", "1 reduce-scatter (4.0 MiB)", "x=4", "y=2", "z=1", "x=4 × y=2",
        "16.0 MiB (80%)", "4.0 MiB (20%)", "nothing", "1.0 KiB (less than 1%)",
    ):  # fmt: skip
        assert words.count(text) == 1, text
    start = words.index("all-gather, nx.einsum {embed_fsdp}, model.py:7")
    assert set(words[start - 2 : start]) == {"4 times", "12.0 MiB"}
    assert "reduce-scatter, nx.einsum {embed_fsdp}, model.py:7, gradient" in words
    assert words.count("all-reduce, nx.mean {batch}, model.py:3") == 1  # twice the same is said once
    assert "all-reduce" in words  # of which nothing is known
    long = lengths(figure)
    assert set(long) == {(0, "all-gather"), (0, "reduce-scatter"), (1, "all-reduce"), (2, "all-reduce")}
    assert long[0, "all-gather"] == pytest.approx(3 * long[0, "reduce-scatter"])
    assert long[1, "all-reduce"] == pytest.approx(long[0, "reduce-scatter"])
    assert_readable(figure)


def test_traffic_takes_time_on_a_machine():
    link = nx.machines.Link(1e9, 0.0, "switch")
    machine = nx.machines.Machine(flops={"float32": 1e12}, memory=16e9, bandwidth=1e11, links={...: link}, name="mine")
    figure = draw_collectives(SENT[:2], {"x": 4}, machine)
    seconds = sum(machine.time_of(each, {"x": 4}) for each in SENT[:2])
    assert f"16.0 MiB (100%), {1e3 * seconds:.1f} ms" in said(figure)
    assert "mine" in below_the_title(figure)
    assert_readable(figure)


def test_traffic_has_few_lines():
    many = [collective("all-to-all", ("x",), 2**i, 1, (f"n{i}",), "nx.rename", f"model.py:{i}") for i in range(20)]
    figure = draw_collectives(many, {"x": 64})
    rows = [text for text in said(figure) if "model.py" in text or "others" in text]
    assert rows == [*(f"all-to-all, nx.rename {{n{i}}}, model.py:{i}" for i in (19, 18, 17, 16, 15)), "15 others"]
    assert {"15 times", "32.0 KiB"} <= set(said(figure))
    assert_readable(figure)


def test_no_traffic():
    figure = draw_collectives([], {"x": 4})
    assert said(figure) == ["Nothing is sent between devices", "Mesh x=4.", "x=4", "nothing"]
    assert said(draw_collectives([], {})) == ["Nothing is sent between devices", "There is no mesh."]
    with pytest.raises(MeshError) as error:
        draw_collectives(SENT, {"xx": 4, "y": 2})
    assert said_by(error.value) == (
        "draw_collectives: all-gather uses mesh axis 'x', which the mesh does not have. Choose from 'xx', 'y'. Did you mean 'xx'?"
    )


# --- when -----------------------------------------------------------------------------------------------------------------


def operation(kind="dot_general", trips=1, source="model.py:9"):
    return Operation(kind, ("hidden",), 1e9, 1000, trips, "float32", "nx.dot", source, "forward")


def drawn_bars(figure):
    """What is drawn of each kind: (lane, start, end) in the unit of the picture."""
    (axes,) = (axes for axes in figure.axes if axes.axison)
    found = {}
    for bars in axes.collections:
        for path in bars.get_paths():
            (left, top), (right, _) = path.get_extents().get_points()
            found.setdefault(bars.get_gid(), []).append((int(top), left, right))
    return found


def test_timeline():
    figure = draw_timeline([(operation(trips=3), 0.0, 3e-3), (SENT[0], 2e-3, 6e-3), (operation("exp"), 6e-3, 8e-3)])
    bars = {kind: [tuple(np.round(bar, 9)) for bar in ones] for kind, ones in drawn_bars(figure).items()}
    assert bars == {"dot_general": [(0, 0, 3)], "exp": [(0, 6, 8)], "all-gather": [(1, 2, 6)]}
    words = said(figure)
    assert words[0] == "8.00 ms on one device"
    assert below_the_title(figure) == "Computing 5.00 ms (62%), communicating 4.00 ms (50%), 1.00 ms of them at the same time."
    assert {"all-gather 4.00 ms", "dot_general 3.00 ms", "exp 2.00 ms"} <= set(words)
    listed = [text for text in words if "model.py" in text]
    assert listed == [
        "dot_general, nx.dot {hidden}, model.py:9, ×3",
        "all-gather, nx.einsum {embed_fsdp}, model.py:7, ×4",
        "exp, nx.dot {hidden}, model.py:9",
    ]
    assert {"3.00 ms", "37.5%", "4.00 ms", "50.0%", "2.00 ms", "25.0%"} <= set(words)
    assert words.count("nx.dot {hidden}") == 2  # in the bars
    assert {label.get_text() for axes in figure.axes for label in axes.get_yticklabels()} >= {"computing", "communicating"}
    assert [axes.get_xlabel() for axes in figure.axes if axes.axison] == ["ms"]
    assert_readable(figure)


@pytest.mark.parametrize("count", [1, 40, 5000])
def test_thousands_of_steps(count):
    rng, now, steps = np.random.default_rng(count), 0.0, []
    for i in range(count):
        step = (
            operation(f"kind{rng.integers(12)}", source=f"model.py:{i}")
            if rng.random() < 0.7
            else SENT[rng.integers(len(SENT))]
        )
        steps.append((step, now, now + rng.random() ** 8 * 1e-4))
        now = steps[-1][2]
    figure = draw_timeline(steps)
    bars = [bar for ones in drawn_bars(figure).values() for bar in ones]
    assert len(bars) <= min(count, 2000)
    for lane, of_lane in enumerate((Operation, Collective)):
        took = sum(end - start for step, start, end in steps if isinstance(step, of_lane))
        shown = sum(right - left for at, left, right in bars if at == lane)
        scale = now / max(right for _, _, right in bars)
        assert took * 0.99 <= shown * scale <= took + now / 2
    assert ("are drawn together" in below_the_title(figure)) == (count > 1)
    assert_readable(figure)


def test_no_time():
    figure = draw_timeline([], title="An empty step")
    assert said(figure)[:2] == ["An empty step", "No step takes any time."]
    assert_readable(figure)
    with pytest.raises(ArgumentError) as error:
        draw_timeline([(operation(), 2.0, 1.0)])
    assert said_by(error.value) == (
        "draw_timeline: dot_general, nx.dot {hidden}, model.py:9 starts at 2.0 s but ends at 1.0 s. Pass (step, start, end) with start <= end."
    )


# --- what there is to choose from --------------------------------------------------------------------------------------------


def dots(figure):
    """The points of the plot, by their color, and the line that joins those on the front."""
    (axes,) = (axes for axes in figure.axes if axes.axison)
    line, *both = axes.lines[:3]
    return [sorted(zip(one.get_xdata(), one.get_ydata(), strict=True)) for one in (line, *both)]


def test_front():
    points = [(4e-3, 2 * 2**30, "{'batch': 'x'}", True), (2e-3, 4 * 2**30, "{}", True), (5e-3, 5 * 2**30, "bad", False)]
    figure = draw_front(points, memory=3 * 2**30)
    line, others, front = dots(figure)
    assert line == front == [(2.0, 4.0), (4.0, 2.0)]
    assert others == [(5.0, 5.0)]
    words = said(figure)
    assert words[0] == "3 candidates, 2 on the front"
    assert "The dashed line is the memory limit, 3.0 GiB." in below_the_title(figure)
    assert [text for text in words if text.startswith("{")] == ["{}", "{'batch': 'x'}"]  # from the fastest on
    assert {"2.00 ms", "4.0 GiB", "4.00 ms", "2.0 GiB"} <= set(words)
    assert words.index("bad") > words.index("The others, fastest first")
    assert "5.00 ms, 5.0 GiB" in words
    assert "limit 3.0 GiB" in words
    (axes,) = (axes for axes in figure.axes if axes.axison)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("memory per device (GiB)", "time of a step (ms)")
    assert_readable(figure)


def test_a_bound_is_drawn_and_a_limit_that_is_far_away_is_not():
    points = [(4e-3, 2.0**31, "a", True), (6e-3, 2.0**32, "b", False)]
    figure = draw_front(points, memory=2.0**36, bound=3e-3)
    assert "The memory limit, 64.0 GiB, is beyond the right edge." in below_the_title(figure)
    assert "No layout of the search can be faster than the dotted line, 3.00 ms." in below_the_title(figure)
    assert "lower bound 3.00 ms" in said(figure)
    (axes,) = (axes for axes in figure.axes if axes.axison)
    assert axes.get_xlim()[1] < 8
    assert axes.get_ylim()[0] < 3 < axes.get_ylim()[1]
    assert [list(line.get_ydata()) for line in axes.lines[3:]] == [[3.0, 3.0]]
    assert_readable(figure)


def test_the_label_of_a_low_bound_is_above_the_axis():
    figure = draw_front([(2.8, 2.0**31, "a", True), (7000.0, 2.0**40, "b", False)], bound=1.57)
    (label,) = (text for text in texts(figure) if text.get_text() == "lower bound 1.57 s")
    (axes,) = (axes for axes in figure.axes if axes.axison)
    assert label.get_window_extent().y0 > axes.get_window_extent().y0
    assert_readable(figure)


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.fast(0)), pytest.param(2, marks=pytest.mark.fast(0))])
def test_each_of_60_candidates_has_a_number_at_its_point(seed):
    rng = np.random.default_rng(seed)
    times = np.where(rng.random(60) < 0.5, rng.uniform(3, 3.5, 60), rng.uniform(3, 12, 60))
    sizes = np.where(rng.random(60) < 0.5, rng.uniform(5, 6, 60), rng.uniform(5, 40, 60)) * 2**30
    best = [not any((times < t) & (sizes < s)) for t, s in zip(times, sizes, strict=True)]
    labels = [str({f"name{j}": ("data", "model") for j in range(1 + i % 9)}) for i in range(60)]
    figure = draw_front([*zip(times, sizes, labels, best, strict=True)], memory=32e9, bound=2.9)
    assert_readable(figure)
    (axes,) = (axes for axes in figure.axes if axes.axison)
    order = sorted(range(60), key=lambda i: (not best[i], times[i], sizes[i]))
    numbers = {int(text.get_text()): text for text in texts(figure) if text.get_fontsize() == 7}
    assert sorted(numbers) == list(range(1, 61))
    figure.canvas.draw()
    places = axes.transData.transform([(sizes[i] / 2**30, times[i]) for i in order])
    for number, text in numbers.items():
        at = text.get_transform().transform(text.get_position())
        assert np.hypot(*(at - places[number - 1])) / figure.dpi < 1.3  # in inches
    words = said(figure)
    for label in set(labels):  # a long label keeps its beginning
        assert any(label == word or (word.endswith("…") and label.startswith(word[:-1])) for word in words)


@pytest.mark.fast(0)
@pytest.mark.parametrize("count", [1, 30])
def test_a_long_front(count):
    label = str({f"name{i}": ("data", "model") for i in range(6)})
    points = [(1e-3 * 1.3**i, 2**34 / 1.4**i, label, True) for i in range(count)]
    figure = draw_front([*points, (1.0, 2.0**36, "", False)])
    numbers = [text.get_text() for text in texts(figure) if text.get_fontsize() == 7]
    assert numbers == [str(i + 1) for i in range(count + 1)]
    assert_readable(figure)


def test_no_candidates():
    with pytest.raises(ArgumentError) as error:
        draw_front([])
    assert said_by(error.value) == "draw_front: there is no candidate to draw. Pass at least one point."


# --- sizes that do not divide -------------------------------------------------------------------------------------------


def padding_of(figure):
    """The hatched rectangles: their height and width."""
    return [(r.get_height(), r.get_width()) for r in shapes(figure) if r.get_gid() == "padding"]


def test_a_padded_block_is_hatched_and_the_reason_is_given():
    x = nx.named(make.ones((10, 6)), ["batch", "k"])
    stored = nx.shard(x, {"batch": "x"}, MESH, padded=True)
    figures = [
        nx.draw(stored),
        nx.draw(x, {"batch": "x"}, MESH, padded=True),
        nx.draw(stored, {"batch": "x"}, MESH, padded=True),
    ]
    for figure in figures:
        assert {"288 B, 72 B a device", "↓ batch: 10 over x=4, padded to 12"} <= set(said(figure))
        below = below_the_title(figure)
        assert "The 10 elements of batch do not divide over 4 devices: the blocks of 3 have 3, 3, 3, 1 elements" in below
        assert below.endswith("Hatched parts are padding.")
        assert [ids for _, ids, _ in labeled(figure)] == holders(NamedSharding(MESH, P("x")), (12, 6))
        # Two of the three rows of the last block.
        ((height, width),) = padding_of(figure)
        blocks = [r for r in shapes(figure) if r.get_width() == pytest.approx(width) and r.get_gid() is None]
        assert height == pytest.approx(blocks[0].get_height() * 2 / 3)
        assert_readable(figure)


def test_blocks_of_padding_alone():
    figure = nx.draw(nx.named(make.ones((3, 8)), ["k", "out"]), {"k": ("x", "y")}, MESH, padded=True)
    assert "the blocks of 1 have 1, 1, 1, 0, 0, 0, 0, 0 elements" in below_the_title(figure)
    assert len(padding_of(figure)) == 5
    figure = nx.draw(struct(["a", "b"], 3, 7), {"a": "y", "b": "x"}, AbstractMesh((4, 2), ("x", "y")), padded=True)
    assert len(padding_of(figure)) == 2 + 4 - 1 + 1  # the last row, the last column, and both parts of the corner
    assert_readable(figure)


def test_without_padding_an_axis_that_does_not_divide_is_replicated():
    x = nx.named(make.ones((10, 6)), ["batch", "k"])
    for figure in (
        nx.draw(x, {"batch": "x"}, MESH),
        nx.draw(nx.shard(x, {"batch": "x"}, MESH, padded=True), {"batch": "x"}, MESH),
    ):
        assert not padding_of(figure)
        assert "so all devices have all of them; nx.shard(..., padded=True) stores padded blocks." in below_the_title(figure)
        assert "240 B" in said(figure)


def test_a_long_title_keeps_its_beginning():
    tree = {
        "encoder": {"a_block_with_a_very_long_name_of_its_own": {"projection_of_the_values": struct(["a"], 8)}},
        "b": struct(["a"], 4),
    }
    title = next(text for text in said(nx.draw(tree, {"a": "x"}, MESH)) if text.endswith("…"))
    assert "encoder.a_block_with_a_very_long_name_of_its_own.projection_of_the_values".startswith(title[:-1])


# --- pipelines ----------------------------------------------------------------------------------------------------------


def cells_of(figure):
    """The number of cells of each kind; a rectangle of idle cells counts by its width."""
    rectangles = [r for r in shapes(figure) if r.get_gid() is not None]
    width = min(r.get_width() for r in rectangles if r.get_gid() == "F")
    found = dict.fromkeys("FBW", 0) | {"idle": 0}
    for r in rectangles:
        found[r.get_gid()] += round(r.get_width() / width)
    return found


@pytest.mark.full(0)
@pytest.mark.parametrize(
    ("schedule", "rounds", "stages", "microbatches"),
    [
        ("gpipe", 1, 4, 8),
        ("1f1b", 1, 4, 8),
        ("interleaved", 2, 4, 8),
        ("zero_bubble", 1, 4, 8),
        *(
            pytest.param(name, rounds, 8, 64, marks=pytest.mark.fast(0))
            for name, rounds in (("1f1b", 1), ("interleaved", 2), ("zero_bubble", 1))
        ),
    ],
)
def test_a_pipeline_shows_all_work_and_the_bubble(schedule, rounds, stages, microbatches):
    run = PipelineRun.of(Schedule(stages, rounds, microbatches, schedule), ("forward", "gradient"))
    figure = draw_pipeline(run)
    cells, legend = cells_of(figure), 2  # the rectangle of the legend
    works = stages * rounds * microbatches
    assert cells["F"] == works * (1 if schedule == "gpipe" else 2)
    assert cells["B"] == works
    assert cells["W"] == (works if schedule == "zero_bubble" else 0)
    assert cells["idle"] == pytest.approx(stages * run.idle, abs=legend)
    assert said(figure)[0].endswith(f"{microbatches} microbatches, bubble {100 * run.idle / run.columns:.1f} %")
    assert {"stage 0", f"stage {stages - 1}", "Forward pass", "idle (bubble)"} <= set(said(figure))
    assert_readable(figure, smallest=5)


def test_a_pipeline_without_a_gradient_has_forward_passes_only():
    run = PipelineRun.of(Schedule(4, 1, 8, "1f1b"), ("forward",))
    figure = draw_pipeline(run)
    assert cells_of(figure)["B"] == 0
    assert cells_of(figure)["F"] == 32
    assert "backward pass" not in said(figure)


@pytest.mark.fast(0)
def test_a_very_long_pipeline_is_drawn_in_part():
    run = PipelineRun.of(Schedule(64, 1, 512, "1f1b"), ("forward", "gradient"))
    figure = draw_pipeline(run)
    assert below_the_title(figure).endswith("Only the first ticks and the last ones are drawn.")
    assert max(figure.get_size_inches()) < 45


# --- what cannot be drawn -----------------------------------------------------------------------------------------------


def test_messages():
    w = nx.named(make.ones((6, 4)), ["a", "b"])
    for call, kind, message in [
        (
            lambda: nx.draw({}),
            ArgumentError,
            "draw: {} contains no array. Pass an array, or a tree of arrays or of their types.",
        ),
        (
            lambda: nx.draw({"w": struct(["a"], 6)}),
            ArgumentError,
            "draw: the array w, f32[]{a:6}, is on no device, so the devices of its blocks are unknown. Pass a layout: "
            "nx.draw(x, axis_resources, mesh).",
        ),
        (
            lambda: jax.eval_shape(lambda x: nx.draw(x) and None, w),
            ArgumentError,
            "draw: the array, f32[]{a:6, b:4}, is being traced, so the devices of its blocks are unknown. Pass a layout: "
            "nx.draw(x, axis_resources, mesh).",
        ),
        (
            lambda: nx.draw({"w": w, "name": "adam"}),
            ArgumentTypeError,
            "draw: name is a str, not an array. Pass arrays, their types, or trees of them.",
        ),
        (
            lambda: nx.draw(w, {"a": "x"}),
            MeshError,
            "draw: there is no mesh. Pass mesh=jax.make_mesh(...), or set a mesh with jax.set_mesh(mesh); `with mesh:` does "
            "not set one.",
        ),
        (
            lambda: nx.draw(w, {"a": "xx"}, MESH),
            MeshError,
            "draw: axis_resources maps 'a' to mesh axis 'xx', which the mesh does not have; its axes are 'x', 'y' with sizes (4, 2). "
            "Did you mean 'x'?",
        ),
        (
            lambda: nx.draw(w, mesh=MESH),
            AxisResourceError,
            "draw: mesh= is given without axis_resources, but arrays are shown with their current sharding. Pass both to show another "
            "layout; axis_resources={} replicates the arrays.",
        ),
        (
            lambda: nx.draw(w, {"a": "y", "b": "y"}, MESH),
            PlacementConflictError,
            "draw: axes 'a' and 'b' meet in one value, but both are mapped to mesh axis 'y', which can hold only one of them. Rename one "
            "of them to an axis that is not on 'y' first (nx.rename, or {new:old} in einsum: this communicates), or change "
            "axis_resources.",
        ),
        (
            lambda: nx.draw([w, w], ax=mpl_figure.Figure().subplots()),
            ArgumentTypeError,
            "draw: ax= takes one array, but x is a tree of 2. Draw them one by one.",
        ),
        (
            lambda: nx.draw(jax.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(MESH, P(P.UNCONSTRAINED)))),
            ArgumentError,
            "draw: the array has 'position 0' sharded as UNCONSTRAINED, so the devices of its blocks are unknown. Pass a layout: "
            "nx.draw(x, axis_resources, mesh).",
        ),
        (
            lambda: nx.xmap(lambda x: nx.draw(x, {"b": "x"}, MESH) and x, axis_resources={"b": "x"}, mesh=MESH)(w),
            AxisResourceError,
            "draw: it shows global arrays and cannot run in a mapped function. Call it before the mapped function.",
        ),
    ]:
        with pytest.raises(kind) as error:
            call()
        assert type(error.value) is kind
        assert said_by(error.value) == message


@pytest.mark.fast(0)
def test_without_matplotlib():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import jax.numpy as jnp, namedax as nx\n"
        "try: nx.draw(jnp.ones(3))\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", program], env=environment_without_devices(), capture_output=True, text=True)
    assert run.stdout == "draw: matplotlib is not installed. Install it with `pip install 'namedax[draw]'`.\n", run.stderr


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_pyplot_is_not_touched():
    program = "import sys, jax.numpy as jnp, namedax as nx; nx.draw(jnp.ones(3))._repr_svg_(); print('matplotlib.pyplot' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], env=environment_without_devices(), capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr


def test_settings_do_not_matter():
    import matplotlib

    def pictures():
        yield svg(nx.draw(nx.named(make.ones(8), ["a"])))
        yield svg(draw_collectives(SENT, {"x": 4, "y": 2}))
        yield svg(draw_timeline([(operation(), 0.0, 1e-3), (SENT[0], 1e-3, 3e-3)]))
        yield svg(draw_front([(1e-3, 2**30, "{}", True)]))

    want = list(pictures())
    settings = {
        "font.size": 30,
        "font.family": "serif",
        "text.color": "red",
        "figure.facecolor": "black",
        "savefig.facecolor": "black",
    }
    settings |= {"axes.grid": True, "axes.facecolor": "black", "xtick.color": "red", "xtick.top": True, "axes.labelsize": 20}
    with matplotlib.rc_context(settings):
        before = dict(matplotlib.rcParams)
        assert list(pictures()) == want
        assert dict(matplotlib.rcParams) == before


def test_svg():
    figure = nx.draw(make.ones(3))
    text = svg(figure)
    assert text.startswith('<svg style="max-width:100%;height:auto" ')
    assert text.rstrip().endswith("</svg>")
    assert figure._repr_svg_() == text
    assert svg(nx.draw(make.ones(3))) == text


def test_notebooks_show_svg():
    """Whether or not they were told about matplotlib."""
    from IPython.core.formatters import DisplayFormatter

    figure = nx.draw(make.ones(3))
    shown, _ = DisplayFormatter().format(figure)
    assert shown["image/svg+xml"] == svg(figure)
