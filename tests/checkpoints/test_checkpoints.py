"""Checkpoints by name: what is written under one layout is read under any other, and a wrong name is an error.

What is read is compared with the arrays that were written, in NumPy. Many processes are in `test_distributed`.
"""

import collections
import dataclasses
import enum
import json
import sys
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import (
    ArgumentError,
    AxisResourceError,
    CheckpointError,
    MeshError,
    PlacementConflictError,
)
from tests import make
from tests.harness import Lazily, array, make_mesh, said

ocp, optax, xarray = Lazily("orbax.checkpoint"), Lazily("optax"), Lazily("xarray")
CHECKSUMS = "namedax.checksums.json"


class Kind(enum.Enum):
    ROWS = 1
    COLUMNS = "columns"


class Text(enum.StrEnum):
    ROWS = "rows"


Pair = collections.namedtuple("Pair", "first second")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    weight: object
    rest: object


def is_named(leaf):
    return isinstance(leaf, nx.NamedArray)


def same(have, want):
    """The same tree, bit for bit, with the same names; where it lives does not matter."""
    have, want = (jax.tree.flatten(tree, is_leaf=is_named) for tree in (have, want))
    assert have[1] == want[1]
    for h, w in zip(have[0], want[0], strict=True):
        assert type(h) is type(w) or isinstance(h, jax.Array) is isinstance(w, jax.Array) is True, (h, w)
        if not hasattr(w, "dtype"):
            assert h == w
            continue
        h, w = (leaf.data if is_named(leaf) else leaf for leaf in (h, w))
        assert h.dtype == w.dtype
        if jnp.issubdtype(w.dtype, jax.dtypes.prng_key):
            h, w = jax.random.key_data(h), jax.random.key_data(w)
        assert np.asarray(h).tobytes() == np.asarray(w).tobytes()
        assert h.shape == w.shape


def weights():
    return {
        "w": nx.named(array(8, 4, 3), ["inputs", "hidden", None]),
        "layers": [nx.named(array(4, seed=1).astype(jnp.bfloat16), ["hidden"]), (array(3, seed=2), None)],
    }


# --- layouts --------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "data": ((8,), {"inputs": "x"}, "auto"),
    "two": ((4, 2), {"inputs": "x", "hidden": "y"}, "auto"),
    "turned": ((2, 4), {"inputs": ("y", "x")}, "explicit"),
    "few": ((2,), {"hidden": "x", "nowhere": "x"}, "auto"),
    "in steps": ((4, 2), {"hidden": ("x", nx.SerialLoop(1)), "inputs": nx.SerialLoop(2)}, "explicit"),
    "nothing": ((4, 2), {}, "auto"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a checkpoint that was saved under each layout, with the state of an optimiser and keys; and the values."""
    params = weights()
    optimizer = optax.adam(0.1)
    state = optimizer.update(jax.tree.map(lambda leaf: leaf * 2, params), optimizer.init(params), params)[1]
    keys = jax.random.split(jax.random.key(3), 8)
    tree = {"params": params, "state": state, "keys": nx.named(keys, ["inputs"]), "step": jnp.int32(7), "rate": 0.5}
    folders = {}
    for label in ("data", "turned"):
        shape, resources, kind = LAYOUTS[label]
        folders[label] = tmp_path_factory.mktemp("saved") / label
        placed = nx.shard({**tree, "rate": None}, resources, make_mesh(shape, kind), padded=False)
        nx.checkpoints.save(folders[label], {**placed, "rate": 0.5})
    return folders, tree


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("source", ["data", "turned"])
@pytest.mark.parametrize("target", LAYOUTS)
def test_every_layout_reads_what_any_has_written(saved, source, target):
    folders, tree = saved
    shape, resources, kind = LAYOUTS[target]
    mesh = make_mesh(shape, kind)
    types = {**jax.eval_shape(lambda: {**tree, "rate": None}), "rate": 0.5}
    have = nx.checkpoints.restore(folders[source], types, axis_resources=resources, mesh=mesh)
    same(have, tree)
    want = nx.shard({**tree, "rate": None}, resources, mesh, padded=False)
    placed = zip(jax.tree.leaves({**have, "rate": None}), jax.tree.leaves(want), strict=True)
    assert all(h.sharding.is_equivalent_to(w.sharding, w.ndim) for h, w in placed)
    assert jax.typeof(have["params"]["w"].data) == jax.typeof(want["params"]["w"].data)
    # The physical order is as free as the layout: each device turns its own blocks.
    turned = {**types, "params": {**types["params"], "w": nx.named(array(3, 4, 8), [None, "hidden", "inputs"])}}
    have = nx.checkpoints.restore(folders[source], turned, axis_resources=resources, mesh=mesh)["params"]["w"]
    assert have.dims == (None, "hidden", "inputs")
    np.testing.assert_array_equal(np.asarray(have.data), np.asarray(tree["params"]["w"].data).transpose(2, 1, 0))
    assert have.sharding.is_equivalent_to(
        nx.shard({"w": turned["params"]["w"]}, resources, mesh, padded=False)["w"].sharding, 3
    )


@pytest.mark.fast(0)
def test_without_a_mesh_arrays_live_where_new_ones_do(saved):
    folders, tree = saved
    have = nx.checkpoints.restore(folders["data"], tree)
    same(have, tree)
    assert have["params"]["w"].data.sharding == jnp.ones(3).sharding
    assert not have["params"]["w"].data.committed  # so that it joins arrays of any mesh


def test_like_says_where_arrays_live(saved):
    folders, tree = saved
    mesh = make_mesh((4, 2))
    types = nx.interop.abstract(weights(), {"hidden": "y"}, mesh)
    types["w"] = nx.NamedArray(
        jax.device_put(jnp.zeros((4, 3, 8)), NamedSharding(mesh, P("y", None, "x"))), ("hidden", None, "inputs")
    )
    have = nx.checkpoints.restore(folders["data"], {"params": types}, partial=True)["params"]
    assert have["w"].sharding == types["w"].sharding
    assert have["layers"][0].sharding.spec == P("y")
    np.testing.assert_array_equal(np.asarray(have["w"].data), np.asarray(tree["params"]["w"].data).transpose(1, 2, 0))
    with jax.set_mesh(make_mesh((2, 4), "explicit")):
        have = nx.checkpoints.restore(folders["turned"], {"params": weights()}, axis_resources={"hidden": "y"}, partial=True)
        assert have["params"]["w"].sharding.spec == P(None, "y", None)


# --- trees ----------------------------------------------------------------------------------------------------------


def odd_tree():
    return {
        "pair": Pair(nx.named(array(2, 3), ["a", "b"]), None),
        "model": Model([], (jnp.zeros((0, 3)), nx.named(jnp.zeros((2, 0), jnp.int8), ["a", "none"]))),
        "keys": jax.random.split(jax.random.key(1), 3),
        "more keys": nx.named(jax.random.split(jax.random.key(1, impl="rbg"), (3, 2)), ["a", None]),
        "no keys": nx.named(jax.random.split(jax.random.key(1), 0), ["a"]),
        "values": [7, -1.5, float("inf"), True, 1 + 2j, "text", -(2**70)],
        "host": [np.float64(0.1), np.arange(3), np.array([[True, False]])],
        "a.b/c%": array(1),
        "a": {"b": array(2)},
        "": array(3),
        "numbers": {1: array(1), 2: {("q", 2): array(4), ("p", 2): array(5)}},
        "small": jnp.arange(4).astype(jnp.int4),
        "eight": array(3).astype(jnp.float8_e4m3fn),
        "wave": array(3) * 1j,
        "scalar": jnp.bfloat16(2),
    }


@pytest.mark.fast(0)
def test_trees_come_back_as_they_were(tmp_path):
    tree = odd_tree()
    nx.checkpoints.save(tmp_path / "step", tree)
    have = nx.checkpoints.restore(tmp_path / "step", tree)
    assert isinstance(have["host"][0], np.ndarray)
    have["host"][0] = have["host"][0][()]  # NumPy's scalars come as arrays
    same(have, tree)
    assert isinstance(have["pair"], Pair)
    # Without `like` classes are dicts of their fields, and all else is as it was.
    bare = nx.checkpoints.restore(tmp_path / "step")
    bare["host"][0] = bare["host"][0][()]
    assert (type(bare["pair"]), type(bare["model"]), type(bare["model"]["rest"])) == (dict, dict, tuple)
    same(bare, {**tree, "pair": tree["pair"]._asdict(), "model": vars(tree["model"])})
    assert nx.checkpoints.types(tmp_path / "step")["pair"]["first"].named_shape == {"a": 2, "b": 3}
    # What was saved again without its classes is restored into them.
    nx.checkpoints.save(tmp_path / "again", bare)
    assert isinstance(nx.checkpoints.restore(tmp_path / "again", tree)["model"], Model)


@pytest.mark.parametrize("tree", [{}, None, 3, make.zeros((0, 2)), array(3), nx.named(array(3), ["k"])], ids=str)
def test_the_smallest_trees(tree, tmp_path):
    nx.checkpoints.save(tmp_path / "step", tree)
    same(nx.checkpoints.restore(tmp_path / "step"), tree)


def test_values_of_python_are_arrays_where_arrays_are_asked_for(tmp_path):
    nx.checkpoints.save(tmp_path / "step", {"step": 7, "rate": jnp.float32(0.5)})
    mesh = make_mesh((4, 2))
    have = nx.checkpoints.restore(tmp_path / "step", {"step": jnp.int32(0), "rate": 1.0}, axis_resources={}, mesh=mesh)
    assert have["step"].sharding == NamedSharding(mesh, P())
    assert int(have["step"]) == 7
    assert type(have["rate"]) is float
    assert have["rate"] == 0.5


# --- names ----------------------------------------------------------------------------------------------------------

NAMES = [
    "batch",
    ("layer", 0, None, True),
    Kind.ROWS,
    Text.ROWS,
    0.5,
    1.5j,
    b"\x00k",
    frozenset({"a", ("b", 1)}),
    "",
    "a:1,{b}/\n",
]


def test_any_name_comes_back(tmp_path):
    tree = [nx.named(array(4, 2), [name, "other"]) for name in NAMES]
    nx.checkpoints.save(tmp_path / "step", tree)
    have = nx.checkpoints.restore(tmp_path / "step")
    assert [leaf.dims for leaf in have] == [leaf.dims for leaf in tree]
    assert [hash(leaf.dims) for leaf in have] == [hash(leaf.dims) for leaf in tree]
    names = nx.checkpoints.names(tmp_path / "step")
    assert names["2"] == {Kind.ROWS: 4, "other": 2}
    assert list(names) == [str(i) for i in range(len(NAMES))]
    same(nx.checkpoints.restore(tmp_path / "step", tree), tree)
    asked = [tree[0], nx.named(array(4, 2), [Text.ROWS, "other"])]
    with pytest.raises(CheckpointError, match=r"1 is stored as .* no axis <Text.ROWS: 'rows'> is stored there"):
        nx.checkpoints.restore(tmp_path / "step", asked, partial=True)


class Odd:
    def __repr__(self):
        return "Odd()"


@pytest.mark.parametrize("name", [Odd(), ("k", Odd()), float("nan"), frozenset({Odd()})], ids=str)
def test_names_that_cannot_be_stored_are_refused(name, tmp_path):
    with pytest.raises(CheckpointError) as info:
        nx.checkpoints.save(tmp_path / "step", {"w": nx.named(array(3), [name])})
    assert said(info.value) == (
        f"save: an axis of w of the tree is {name!r}, of type {type(name).__name__}, which cannot be stored. A checkpoint can store strings, "
        "numbers, bytes, members of enumerations, and tuples and frozensets of these. Rename it to one of these (nx.rename for an axis)."
    )
    assert not (tmp_path / "step").exists()


def edited(folder, change):
    """The metadata of a checkpoint, changed as text."""
    file = folder / "_METADATA"
    text = json.loads(file.read_text())
    text["custom_metadata"]["namedax"] = json.loads(change(json.dumps(text["custom_metadata"]["namedax"])))
    file.write_text(json.dumps(text))
    if (folder / CHECKSUMS).exists():
        with_new_checksum(folder, "_METADATA")


def with_new_checksum(folder, name):
    """Writes the list of checksums anew, as if the file had been written as it is now."""
    inner = json.loads(json.loads((folder / CHECKSUMS).read_text())["list"])
    inner["files"][name] = [(folder / name).stat().st_size, zlib.crc32((folder / name).read_bytes())]
    text = json.dumps(inner, sort_keys=True)
    (folder / CHECKSUMS).write_text(json.dumps({"list": text, "crc32": zlib.crc32(text.encode())}))


def test_reading_runs_no_code_that_a_checkpoint_names(tmp_path):
    tree = {"w": nx.named(array(3), [Kind.ROWS])}
    nx.checkpoints.save(tmp_path / "step", tree)
    for module, member in (("antigravity", "Kind.ROWS"), ("os", "path.sep"), (__name__, "Kind.mro"), (__name__, "Odd.ROWS")):
        edited(tmp_path / "step", lambda text, module=module: text.replace(json.dumps(__name__), json.dumps(module)))
        edited(tmp_path / "step", lambda text, member=member: text.replace('"Kind.ROWS"', json.dumps(member)))
        with pytest.raises(CheckpointError) as info:
            nx.checkpoints.restore(tmp_path / "step")
        assert said(info.value) == (
            f"restore: the checkpoint has the name {member} of an enumeration in module {module!r}, which this program has not imported, "
            "or which lacks it. Import the module first, or pass like= with the names to use."
        )
        edited(tmp_path / "step", lambda text, member=member: text.replace(json.dumps(member), '"Kind.ROWS"'))
        same(nx.checkpoints.restore(tmp_path / "step", tree), tree)  # only the name of its class counts
        edited(tmp_path / "step", lambda text, module=module: text.replace(json.dumps(module), json.dumps(__name__)))
    assert "antigravity" not in sys.modules


def test_the_list_of_checksums_names_files_below_the_folder(tmp_path):
    step, other = tmp_path / "step", tmp_path / "other"
    nx.checkpoints.save(step, {"w": nx.named(array(3), ["a"])})
    other.mkdir()
    (other / "file").write_text("harmless")
    (step / "linked").symlink_to(other)
    right = json.loads(json.loads((step / CHECKSUMS).read_text())["list"])
    for name in ("../other/file", f"{other}/file", "linked/file", "C:file", "d\\file"):
        text = json.dumps(right | {"files": right["files"] | {name: [8, zlib.crc32(b"harmless")]}})
        (step / CHECKSUMS).write_text(json.dumps({"list": text, "crc32": zlib.crc32(text.encode())}))
        for read in (nx.checkpoints.restore, nx.checkpoints.names, nx.checkpoints.types):
            with pytest.raises(CheckpointError) as info:
                read(step)
            assert said(info.value) == (
                f"{read.__name__}: {step}/{CHECKSUMS} contains the file name {name!r}, which is not below the folder {step}. Use a file name, or "
                "a relative path without '..' whose folders are not links to other places."
            )


def without_ocdbt(folder, tree):
    """A checkpoint in which every array has a folder."""
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False)) as checkpointer:
        checkpointer.save(folder, args=nx.checkpoints.save_args(tree))


@pytest.mark.parametrize("tree", [{"w": {"a/../b": array(3)}, "..": [array(2)]}, array(3)], ids=["names", "one array"])
def test_arrays_in_folders_of_their_own(tree, tmp_path):
    without_ocdbt(tmp_path / "step", tree)
    same(nx.checkpoints.restore(tmp_path / "step"), tree)


def test_metadata_name_folders_of_arrays_below_the_folder(tmp_path):
    step, other = tmp_path / "step", tmp_path / "other"
    without_ocdbt(step, {"w": array(3)})
    other.mkdir()
    (step / "linked").symlink_to(other)
    right = (step / "_METADATA").read_text()
    for name in ("../other/w", f"{other}/w", "linked/w"):
        (step / "_METADATA").write_text(right.replace('"key": "w"', f'"key": "{name}"'))
        with pytest.raises(CheckpointError) as info:
            nx.checkpoints.restore(step)
        assert f"_METADATA contains the file name {name!r}, which is not below the folder {step}. Use" in said(info.value)


# --- mistakes -------------------------------------------------------------------------------------------------------

STORED = {"w": nx.named(array(8, 6, 4), ["inputs", "hidden", None]), "b": nx.named(array(6), ["hidden"]), "step": 7}
REMEDY = (
    "\nArrays, names, sizes and dtypes must equal the saved ones; nx.checkpoints.names lists them. The order of axes, "
    "axis_resources and the mesh may differ. To change a name, restore with the stored name, and use nx.rename."
)
AS_STORED = "f32[4]{inputs:8, hidden:6}"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "step"
    nx.checkpoints.save(folder, STORED)
    return folder


def named(shape, names, dtype=jnp.float32):
    return nx.NamedArray(make.zeros(shape, dtype), names)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"w": named((8, 6, 4), ("inputs", "hiden", None))},
            f"w is stored as {AS_STORED} but requested as f32[4]{{inputs:8, hiden:6}}: no axis 'hiden' is stored there. "
            "Did you mean 'hidden'?",
        ),
        (
            {"w": named((8, 4), ("inputs", None))},
            f"w is stored as {AS_STORED} but requested as f32[4]{{inputs:8}}: it also has the axis 'hidden'.",
        ),
        (
            {"w": named((8, 12, 4), ("inputs", "hidden", None))},
            f"w is stored as {AS_STORED} but requested as f32[4]{{inputs:8, hidden:12}}: axis 'hidden' has size 6, not 12.",
        ),
        (
            {"w": named((8, 6, 5), ("inputs", "hidden", None))},
            f"w is stored as {AS_STORED} but requested as f32[5]{{inputs:8, hidden:6}}: its positional shape is (4,), not (5,).",
        ),
        (
            {"w": named((8, 6, 4), ("inputs", "hidden", None), jnp.bfloat16)},
            f"w is stored as {AS_STORED} but requested as bf16[4]{{inputs:8, hidden:6}}: its dtype is f32, not bf16. Restore it with "
            "the stored dtype, and cast it afterwards (astype).",
        ),
        (
            {"b": make.zeros(6)},
            "b is stored as f32[]{hidden:6} but requested as f32[6]: it also has the axis 'hidden'.",
        ),
        (
            {"step": 7.0, "b": 1.0},
            "step is stored as the int 7 but requested as the float 7.0: the Python types differ.\n"
            "  b is stored as f32[]{hidden:6} but requested as the float 1.0: a Python value matches only a scalar array of its kind "
            "of number.",
        ),
        ({"step": make.zeros(())}, "step is stored as the int 7 but requested as f32[]: a Python value matches only a scalar array of its "
         "kind of number."),
        ({"b": nx.NamedArray(make.zeros((6, 6)), (Kind.ROWS, enum.Enum("Kind", "ROWS", qualname="Kind").ROWS))}, "b is stored as f32[]{hidden:6} "
         "but requested as f32[]{Kind.ROWS:6, Kind.ROWS:6}: two requested names are members of enumerations with equal names, which a "
         "checkpoint cannot distinguish."),
        ({"bias": {"b": make.zeros(3)}}, "bias/b, f32[3], is requested but not stored."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(stored, change, text):
    with pytest.raises(CheckpointError) as info:
        nx.checkpoints.restore(stored, {**STORED, **change})
    lines = said(info.value).removesuffix(REMEDY)
    first, _, rest = lines.partition("\n  ")
    assert first == f"restore: like= does not match the checkpoint in {stored}."
    assert set(rest.split("\n  ")) == set(text.split("\n  "))


def test_what_is_missing_and_what_is_left_over_is_told(stored, tmp_path):
    with pytest.raises(CheckpointError) as info:
        nx.checkpoints.restore(stored, {"w": STORED["w"], "bb": STORED["b"]})
    assert said(info.value) == (
        f"restore: like= does not match the checkpoint in {stored}.\n"
        "  bb, f32[]{hidden:6}, is requested but not stored. Did you mean 'b'?\n"
        "  b, f32[]{hidden:6}, is stored but not requested. Pass partial=True to skip it.\n"
        "  step, the int 7, is stored but not requested. Pass partial=True to skip it." + REMEDY
    )
    same(nx.checkpoints.restore(stored, {"w": STORED["w"]}, partial=True), {"w": STORED["w"]})
    many = {str(i): 0 for i in range(20)}
    with pytest.raises(CheckpointError, match=r"\n  \.\.\. and 12 more\.\n") as info:
        nx.checkpoints.restore(stored, {**STORED, **many})
    assert str(info.value).count("is requested but not stored") == 8
    with pytest.raises(ArgumentError, match=r"^restore: partial=True skips the arrays that like= lacks, so it requires like="):
        nx.checkpoints.restore(stored, partial=True)


def test_where_arrays_cannot_live_is_told(stored):
    mesh = make_mesh((4, 2))

    def fails(kind, text, like=None, axis_resources=None, mesh=None):
        with pytest.raises(kind) as info:
            nx.checkpoints.restore(stored, like, axis_resources=axis_resources, mesh=mesh)
        assert str(info.value).startswith(text)

    fails(
        PlacementConflictError,
        "restore: axes 'inputs' and 'hidden' meet in one value",
        None,
        {"inputs": "y", "hidden": "y"},
        mesh,
    )
    fails(MeshError, "restore: there is no mesh.", None, {"hidden": "x"})
    fails(
        MeshError,
        "restore: axis_resources maps 'hidden' to mesh axis 'z', which the mesh does not have",
        None,
        {"hidden": "z"},
        mesh,
    )
    fails(MeshError, "restore: the mesh {'x': 4, 'y': 2} is an AbstractMesh", None, {}, mesh.abstract_mesh)
    types = nx.interop.abstract({**STORED, "step": None}, {"hidden": "y"}, mesh.abstract_mesh)
    fails(
        MeshError, "restore: b is requested on an AbstractMesh, {'x': 4, 'y': 2}, which has no devices.", {**types, "step": 7}
    )
    fails(AxisResourceError, "restore: axis_resources is 'x', not a dict. Write a dict", None, "x", mesh)
    fails(
        CheckpointError,
        "restore: step of like= is Odd(), of type Odd, not an array. Use an array, the type of one",
        {**STORED, "step": Odd()},
    )
    with pytest.raises(AxisResourceError, match=r"^restore: it needs global arrays and cannot run in a mapped function"):
        nx.xmap(lambda x: nx.checkpoints.restore(stored)["b"] + x)(nx.named(make.ones(6), ["hidden"]))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"f": [len]}, "f/0 of the tree is the function len, of type builtin_function_or_method, which cannot be stored"),
        ({"t": np.array(["x"])}, "t of the tree is <U1[1], of type ndarray, which cannot be stored"),
        ({"u": nx.named(make.ones(3, jnp.uint4), ["k"])}, "u of the tree, u4[]{k:3}, has a dtype that orbax cannot store."),
        ({Odd: 1}, f"a key of a dict is {Odd!r}, of type type, which cannot be stored"),
        ({"w": nx.NamedArray(make.ones((2, 2)), (Kind.ROWS, enum.Enum("Kind", "ROWS", qualname="Kind").ROWS))}, "two axes of w of the tree"),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_told(tree, text, tmp_path):
    with pytest.raises(CheckpointError) as info:
        nx.checkpoints.save(tmp_path / "step", tree)
    assert str(info.value).startswith(f"save: {text}")


def test_padded_types_restore_without_an_array(tmp_path):
    x = nx.named(array(10, 3), ["row", "column"])
    nx.checkpoints.save(tmp_path / "step", {"x": x})
    mesh = make_mesh((4, 2))
    like = nx.interop.abstract(nx.checkpoints.types(tmp_path / "step"), {"row": "x", "column": "y"}, mesh, padded=True)
    have = nx.checkpoints.restore(tmp_path / "step", like)["x"]
    assert dict(have.named_shape) == {"row": 10, "column": 3}
    want = np.zeros((12, 4), np.float32)
    want[:10, :3] = x.data
    np.testing.assert_array_equal(have.data, want)
    assert {shard.data.shape for shard in have.data.addressable_shards} == {(3, 2)}


def test_a_data_array_is_converted_before_it_is_saved(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"of type DataArray, which cannot be stored\..*Convert it with nx\.from_xarray\."
    ):
        nx.checkpoints.save(tmp_path / "step", {"t": xarray.DataArray([1.0, 2.0], dims="time")})


def test_values_that_are_not_there_are_told(tmp_path):
    with pytest.raises(
        CheckpointError, match=r"save: w of the tree, f32\[3\], has no values while it is traced. Save outside traced"
    ):
        jax.jit(lambda w: nx.checkpoints.save(tmp_path / "step", {"w": w}))(jnp.ones(3))
    with pytest.raises(AxisResourceError, match=r"^save: it needs global arrays and cannot run in a mapped function"):
        nx.xmap(lambda w: nx.checkpoints.save(tmp_path / "step", {"w": w}))(nx.named(jnp.ones(3), ["k"]))


@pytest.mark.skipif(jax.config.jax_enable_x64, reason="what JAX cannot hold without 64 bits")
def test_sixty_four_bits_that_jax_cannot_hold_are_told(tmp_path):
    nx.checkpoints.save(tmp_path / "step", {"n": np.arange(3)})
    with pytest.raises(CheckpointError, match=r"n is stored as i64\[3\] but requested as i32\[3\]: its dtype is i64, not i32"):
        nx.checkpoints.restore(tmp_path / "step", {"n": jnp.arange(3)})
    edited(tmp_path / "step", lambda text: text.replace(', "host": true', ""))  # as a program with 64 bits saves it
    with pytest.raises(
        CheckpointError, match=r"JAX has no i64 while jax_enable_x64 is disabled. Enable it, or put a NumPy array"
    ):
        nx.checkpoints.restore(tmp_path / "step")
    same(nx.checkpoints.restore(tmp_path / "step", {"n": np.zeros(3, np.int64)}), {"n": np.arange(3)})


# --- folders, and orbax ---------------------------------------------------------------------------------------------


def test_folders(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nx.checkpoints.save("step", {"w": array(3)})
    with pytest.raises(CheckpointError) as info:
        nx.checkpoints.save("step", {"w": array(3)})
    assert said(info.value) == f"save: {tmp_path}/step already exists. Save to another folder, or pass overwrite=True."
    nx.checkpoints.save("step", STORED, overwrite=True)
    same(nx.checkpoints.restore("step"), STORED)
    with pytest.raises(CheckpointError) as info:
        nx.checkpoints.names("nowhere")
    assert (
        said(info.value)
        == f"names: there is no checkpoint in {tmp_path}/nowhere. Pass the folder of one step, written by nx.checkpoints.save."
    )
    edited(tmp_path / "step", lambda text: text.replace('"version": 2', '"version": 3'))
    with pytest.raises(
        CheckpointError,
        match=r"^types: the checkpoint in .* has version 3, but this namedax reads versions up to 2. Use a newer namedax.",
    ):
        nx.checkpoints.types("step")


def test_orbax_writes_and_reads_the_same_files(tmp_path):
    tree = {"w": STORED["w"], "layers": [STORED["b"]], "step": 7}
    with ocp.CheckpointManager(tmp_path / "run", options=ocp.CheckpointManagerOptions(max_to_keep=1)) as manager:
        for step in (1, 2):
            manager.save(step, args=nx.checkpoints.save_args({**tree, "step": step}))
    assert not (tmp_path / "run" / "1").exists()
    same(nx.checkpoints.restore(tmp_path / "run" / "2", tree), {**tree, "step": 2})
    both = ocp.args.Composite(model=nx.checkpoints.save_args(tree), note=ocp.args.JsonSave({"loss": 0.5}))
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "both", both)
    same(nx.checkpoints.restore(tmp_path / "both" / "model"), tree)
    with ocp.PyTreeCheckpointer() as checkpointer:  # without namedax: dicts of plain arrays
        arguments = {"w": 0, "layers": {"0": ocp.RestoreArgs(restore_type=np.ndarray)}}
        arguments["w"] = arguments["layers"]["0"]
        have = checkpointer.restore(tmp_path / "both" / "model", restore_args=arguments)
        np.testing.assert_array_equal(have["layers"]["0"], STORED["b"].data)
        checkpointer.save(tmp_path / "direct", tree)
    with pytest.raises(
        CheckpointError,
        match=r"restore: the checkpoint in .* has no axis names, because it was not written by nx.checkpoints. Restore",
    ):
        nx.checkpoints.restore(tmp_path / "direct")


def test_without_orbax(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(ImportError, match=r"^save: orbax is not installed. Install it with `pip install orbax-checkpoint`"):
        nx.checkpoints.save(tmp_path / "step", {"w": array(3)})
