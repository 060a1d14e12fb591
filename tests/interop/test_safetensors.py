"""Files of safetensors: against the library's own functions, in every placement, sharded and damaged, and the memory of loading."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, AxisResourceError, CheckpointError
from namedax.interop import load_safetensors, save_safetensors, state_dict_report, to_state_dict
from tests.harness import environment_without_devices, said
from tests.interop.test_state_dicts import FLOATS, SIZES, SPEC, bits, state_dict

ROOT = Path(__file__).parents[2]
ONE = {"w": ("w", "a b -> {b, a}")}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(state_dict(), path)
    return path


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit], ids=str)
@pytest.mark.parametrize(
    "resources",
    [None, {}, {"kv_heads": "y", "embed_fsdp": "x"}, {"key": "y", "vocab": "x"}, {"embed_fsdp": ("x", "y")}],
    ids=str,
)
def test_a_file_in_every_placement(resources, kind, file, tmp_path):
    mesh = None if resources is None else jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))
    stored = safetensors.numpy.load_file(file)
    tree = load_safetensors(file, SPEC, resources, mesh, sizes=SIZES)
    query = np.stack([stored[f"layers.{i}.q.weight"].T.reshape(4, 2, 3, 2) for i in range(3)])
    assert bits(tree["layers"]["query"]) == bits(query)
    if resources is not None:
        want = nx.shard(tree, resources, mesh, padded=False)
        for have, other in zip(jax.tree.leaves(tree), jax.tree.leaves(want), strict=True):
            assert have.sharding == other.sharding
            for shard, another in zip(have.addressable_shards, other.addressable_shards, strict=True):
                assert bits(shard.data) == bits(another.data)
    save_safetensors(tree, SPEC, tmp_path / "new" / "again.safetensors")
    again = safetensors.numpy.load_file(tmp_path / "new" / "again.safetensors")
    assert {key: bits(tensor) for key, tensor in again.items()} == {key: bits(tensor) for key, tensor in stored.items()}
    assert os.listdir(tmp_path / "new") == ["again.safetensors"]


@pytest.mark.parametrize("name", [*FLOATS, "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "complex64"])
def test_a_round_trip_keeps_every_bit(name, tmp_path):
    dtype = jnp.dtype(name)
    # All bytes: NaN with payloads, infinities, both zeros.
    raw = (
        np.random.default_rng(1).integers(0, 2 if name == "bool" else 256, (64, 8 * dtype.itemsize), dtype=np.uint8).view(dtype)
    )
    raw[0] = np.asarray(-0.0 if dtype.kind not in "biu" else 0).astype(dtype)
    odd = np.ones(3, np.uint8)  # the values behind it are not aligned
    spec = ONE | {"odd": ("odd", "k -> {k}"), "none": ("none", "a b -> {a, b}"), "scalar": ("scalar", "->")}
    tree = nx.interop.from_state_dict({"w": raw, "odd": odd, "none": raw[:0], "scalar": raw[3, 4]}, spec)
    path = tmp_path / "m.safetensors"
    save_safetensors(tree, spec, path)
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    back = load_safetensors(path, spec, {"a": "x", "b": "y"}, mesh)
    for have, want in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        assert bits(have) == bits(want)
    assert bits(to_state_dict(back, spec)["w"]) == bits(raw)


def test_unaligned_tensors(tmp_path):
    header = {"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}
    header["w"] = {"dtype": "F32", "shape": [2, 1], "data_offsets": [3, 11]}
    text = json.dumps(header)
    data = np.asarray([[1.5], [-2.5]], np.float32)
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + b"abc" + data.tobytes())
    assert bits(load_safetensors(path, ONE, ignore="a")["w"]) == bits(data.T)


def shards(tmp_path):
    tree = nx.interop.from_state_dict(state_dict(), SPEC, sizes=SIZES)
    save_safetensors(tree, SPEC, tmp_path / "model.safetensors", max_shard_bytes=250)
    return tree


def test_sharded_files_with_an_index(tmp_path):
    tree = shards(tmp_path)
    names = sorted(os.listdir(tmp_path))
    assert names == [*(f"model-0000{i}-of-00004.safetensors" for i in range(1, 5)), "model.safetensors.index.json"]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 4 * (7 * 4 + 3 * 12 * 4 + 3 * 4)}
    for key, name in index["weight_map"].items():
        assert key in safetensors.numpy.load_file(tmp_path / name)
    files = [str(tmp_path / name) for name in names[:-1]]
    for paths in (tmp_path, tmp_path / "model.safetensors.index.json", files, tuple(files)):
        back = load_safetensors(paths, SPEC, {"embed_fsdp": "x"}, jax.make_mesh((4,), ("x",)), sizes=SIZES)
        assert all(bits(have) == bits(want) for have, want in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True))
    with safetensors.safe_open(files[0], framework="np") as opened:
        assert opened.metadata() == {"format": "pt"}  # which Transformers requires


def test_files_that_fit_into_one_have_no_index(tmp_path):
    tree = {"w": nx.named(jnp.ones((3, 2)), ["b", "a"])}
    save_safetensors(tree, ONE, str(tmp_path / "m.safetensors"), max_shard_bytes=24)
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_tied_keys_in_files(tmp_path, file):
    head = {"head.weight": ("head", "vocab e -> {embed_fsdp=e, vocab}")}
    tied = {"head.weight": "embed.weight"}
    tree = load_safetensors(file, SPEC | head, sizes=SIZES, tied=tied)
    save_safetensors(tree, SPEC | head, tmp_path / "tied.safetensors", tied=tied)
    assert "head.weight" not in safetensors.numpy.load_file(tmp_path / "tied.safetensors")
    save_safetensors(tree, SPEC | head, tmp_path / "both.safetensors")
    assert "head" not in load_safetensors(tmp_path / "both.safetensors", SPEC, sizes=SIZES, tied=tied)
    state = safetensors.numpy.load_file(tmp_path / "both.safetensors")
    state["head.weight"][6, 3] += 1
    safetensors.numpy.save_file(state, tmp_path / "other.safetensors")
    with pytest.raises(
        CheckpointError, match=r"load_safetensors: 'head.weight' is tied to 'embed.weight', but their values differ"
    ):
        load_safetensors(tmp_path / "other.safetensors", SPEC, sizes=SIZES, tied=tied)


def test_problems_are_found_by_the_headers(tmp_path):
    state = state_dict()
    del state["layers.1.norm.weight"]
    safetensors.numpy.save_file(state, tmp_path / "m.safetensors")
    with pytest.raises(
        CheckpointError, match=r"load_safetensors: spec does not match the files.\n  missing: 'layers.1.norm.weight', "
    ):
        load_safetensors(tmp_path, SPEC, sizes=SIZES)


def test_dtype_casts_blocks(file):
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    tree = load_safetensors(file, SPEC, {"vocab": "x", "embed_fsdp": "y"}, mesh, sizes=SIZES, dtype=jnp.bfloat16)
    stored = safetensors.numpy.load_file(file)["embed.weight"]
    assert bits(tree["embed"]) == bits(stored.astype(jnp.bfloat16))


def test_the_report_of_files(file):
    report = state_dict_report(file, SPEC, sizes=SIZES)
    assert "layers.{0-2}.q.weight  f32[12,4]  (kv:2 g:3 d:2) e:4\n    -> layers/query  f32[]{layers:3, embed_fsdp:4" in str(
        report
    )


def broken_length(path):
    data = path.read_bytes()
    path.write_bytes((1 << 40).to_bytes(8, "little") + data[8:])


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"12345"),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:123"),
    "length": broken_length,
    "header": lambda path: path.write_bytes(path.read_bytes().replace(b'"shape"', b'"sharp"')),
    "offsets": lambda path: path.write_bytes(path.read_bytes().replace(b"[7,4]", b"[9,4]")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files(damage, file):
    DAMAGE[damage](file)
    with pytest.raises(
        CheckpointError, match=r"load_safetensors: .*model.safetensors is damaged, or not a file of safetensors \(.*\). Copy or"
    ):
        load_safetensors(file, SPEC, sizes=SIZES)


def test_files_that_are_missing(tmp_path, file):
    with pytest.raises(
        CheckpointError, match=r"none.safetensors cannot be read: No such file or directory. Pass a file '\*.safetensors'"
    ):
        load_safetensors(tmp_path / "none.safetensors", SPEC)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        CheckpointError, match=r"the folder .*empty has no file '\*.safetensors'. Pass the folder of a checkpoint"
    ):
        load_safetensors(tmp_path / "empty", SPEC)
    with pytest.raises(ArgumentError, match=r"the list of paths is empty. Pass at least one file"):
        load_safetensors([], SPEC)
    with pytest.raises(ArgumentTypeError, match=r"the path is 3, of type int. Pass a path, or a list of paths"):
        load_safetensors(3, SPEC)
    (tmp_path / "copy.safetensors").write_bytes(file.read_bytes())
    message = (
        r"'embed.weight' is in .*model.safetensors and in .*copy.safetensors. Pass the files of one checkpoint, or its index"
    )
    with pytest.raises(CheckpointError, match=message):
        load_safetensors([file, tmp_path / "copy.safetensors"], SPEC)


def test_indices_that_do_not_match(tmp_path):
    shards(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    text = index.read_text()
    weights = json.loads(text)
    weights["weight_map"]["layers.0.q.weight"] = "model-00001-of-00004.safetensors"
    index.write_text(json.dumps(weights))
    with pytest.raises(
        CheckpointError, match=r"lists 'layers.0.q.weight' in 'model-00001-of-00004.safetensors', which does not have it \(1"
    ):
        load_safetensors(tmp_path, SPEC, sizes=SIZES)
    for wrong in ("{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 3}}'):
        index.write_text(wrong)
        with pytest.raises(
            CheckpointError, match=r"index.json is not the index of a checkpoint: it has no 'weight_map' from keys"
        ):
            load_safetensors(tmp_path, SPEC, sizes=SIZES)
    index.write_text(text)
    os.remove(tmp_path / "model-00002-of-00004.safetensors")
    with pytest.raises(CheckpointError, match=r"model-00002-of-00004.safetensors cannot be read: No such file"):
        load_safetensors(tmp_path, SPEC, sizes=SIZES)
    safetensors.numpy.save_file(state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"has more than one checkpoint, \['model.safetensors.index.json', 'model.safetensors'\]"
    ):
        load_safetensors(tmp_path, SPEC, sizes=SIZES)


def one_file(folder, name):
    """An index with one file name, and the file if the name is a string."""
    folder.mkdir()
    (folder / "m.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    tree = {"w": nx.named(jnp.arange(6.0).reshape(3, 2), ["b", "a"])}
    return lambda path: save_safetensors(tree, ONE, path)


@pytest.mark.parametrize(
    "name", ["model..safetensors", "..model.safetensors", "more/..w/model.safetensors", "./model.safetensors"]
)
def test_an_index_names_files_below_its_folder(name, tmp_path, monkeypatch):
    one_file(tmp_path / "here", name)(tmp_path / "here" / name)
    monkeypatch.chdir(tmp_path / "here")
    for path in (tmp_path / "here", "m.safetensors.index.json", "."):
        assert load_safetensors(path, ONE)["w"].sum(["a", "b"]) == 15


def test_a_file_below_a_folder_may_be_a_link(tmp_path):
    one_file(tmp_path / "here", "w.safetensors")(tmp_path / "blobs" / "0.safetensors")
    (tmp_path / "here" / "w.safetensors").symlink_to(tmp_path / "blobs" / "0.safetensors")
    assert load_safetensors(tmp_path / "here", ONE)["w"].sum(["a", "b"]) == 15


ELSEWHERE = {
    "parent": "../there/w.safetensors",
    "parent in the middle": "more/../../there/w.safetensors",
    "absolute": "{there}/w.safetensors",
    "absolute in the folder": "{here}/w.safetensors",
    "double slash": "/{there}/w.safetensors",
    "link": "linked/w.safetensors",
    "link below": "more/linked/w.safetensors",
    "drive": "C:w.safetensors",
    "drive and root": "C:/w.safetensors",
    "backslash": "more\\w.safetensors",
    "share": "//server/share/w.safetensors",
    "empty": "",
    "folder": ".",
    "zero": "w\0.safetensors",
    "half of a pair": "w\ud800.safetensors",
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_an_index_that_names_a_file_elsewhere(case, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    name = ELSEWHERE[case].format(here=here, there=there)
    save = one_file(here, name)
    (here / "more").mkdir()
    for folder in (here, there, here / "more"):
        save(folder / "w.safetensors")
    (here / "linked").symlink_to(there)
    (here / "more" / "linked").symlink_to(there)
    os.remove(here / "w.safetensors")
    with pytest.raises(CheckpointError) as error:
        load_safetensors(here, ONE)
    assert said(error.value) == (
        f"load_safetensors: {here}/m.safetensors.index.json contains the file name {name!r}, which is not below the folder {here}. Use a file "
        "name, or a relative path without '..' whose folders are not links to other places."
    )


def known_to_safetensors(path):
    """The element types that the installed library reads; its message lists them."""
    text = json.dumps({"w": {"dtype": "none", "shape": [1], "data_offsets": [0, 1]}})
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + b"a")
    with pytest.raises(safetensors.SafetensorError) as error, safetensors.safe_open(path, framework="np"):
        pass
    return set(re.findall(r"`(\w+)`", str(error.value))) - {"none"}


def test_every_element_type_of_the_installed_library(tmp_path):
    path = tmp_path / "m.safetensors"
    by_name = {"BOOL": "bool", "F16": "float16", "BF16": "bfloat16", "C64": "complex64"}
    by_name |= {f"{letter}{n}": f"{kind}int{n}" for letter, kind in (("I", ""), ("U", "u")) for n in (8, 16, 32, 64)}
    by_name |= {f"F{n}": f"float{n}" for n in (32, 64)}
    by_name |= {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"}
    by_name |= {"F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}
    packed = {"F4", "F6_E2M3", "F6_E3M2"}
    known = known_to_safetensors(path)
    assert known <= by_name.keys() | packed
    for name in sorted(known):
        size = jnp.dtype(by_name.get(name, "uint8")).itemsize
        raw = np.arange(1, 25 * size, dtype=np.uint8)[: 24 * size] & (1 if name == "BOOL" else 255)
        entry = {"dtype": name, "shape": [4, 6], "data_offsets": [0, 24 * size]}
        if name in packed:
            raw = raw[: {"F4": 12}.get(name, 18)]
            entry["data_offsets"] = [0, len(raw)]
        text = json.dumps({"w": entry})
        path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + raw.tobytes())
        if name in packed:
            with pytest.raises(
                CheckpointError, match=rf"the dtype {name}, which is not supported. The supported ones are BOOL, "
            ):
                load_safetensors(path, ONE)
            continue
        with jax.enable_x64(size == 8):
            tree = load_safetensors(path, ONE)
            assert tree["w"].dtype == by_name[name]
            assert bits(tree["w"]) == bits(raw.view(by_name[name]).reshape(4, 6).T)
            save_safetensors(tree, ONE, path)
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        assert header["w"]["dtype"] == name
        assert data.endswith(raw.tobytes())


def test_dtypes_that_the_format_or_jax_lacks(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(
        CheckpointError,
        match=r"save_safetensors: 'w', i4\[2,3\], has a dtype that cannot be written .* Cast it \(astype\) to bfloat16,",
    ):
        save_safetensors({"w": nx.named(jnp.ones((3, 2), jnp.int4), ["b", "a"])}, ONE, path)
    text = json.dumps({"w": {"dtype": "F4", "shape": [2, 2], "data_offsets": [0, 2]}})
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + b"ab")
    with pytest.raises(
        CheckpointError, match=r"'w' in .*m.safetensors has the dtype F4, which is not supported. The supported ones are BOOL"
    ):
        load_safetensors(path, ONE)


def test_wrong_arguments_of_saving(tmp_path):
    tree = {"w": nx.named(jnp.ones((3, 2)), ["b", "a"])}
    with pytest.raises(ArgumentError, match=r"path is 'model.bin', which does not end with '.safetensors'. Add the suffix"):
        save_safetensors(tree, ONE, "model.bin")
    with pytest.raises(ArgumentTypeError, match=r"path is 3, not a path"):
        save_safetensors(tree, ONE, 3)
    for wrong in (0, True, 2.5):
        with pytest.raises(ArgumentError, match=r"max_shard_bytes must be a positive integer, got"):
            save_safetensors(tree, ONE, tmp_path / "m.safetensors", max_shard_bytes=wrong)
    with pytest.raises(CheckpointError, match=r"save_safetensors: spec does not match the tree"):
        save_safetensors({}, ONE, tmp_path / "m.safetensors")
    mesh = jax.make_mesh((4,), ("x",))
    with pytest.raises(AxisResourceError, match=r"save_safetensors: this function cannot be called inside a mapped function"):
        nx.xmap(lambda x: save_safetensors({}, {}, "m.safetensors"), ["b"], [], axis_resources={"b": "x"}, mesh=mesh)(
            jnp.ones(4)
        )
    assert os.listdir(tmp_path) == []


def test_an_interrupted_call_leaves_the_older_file(tmp_path, file, monkeypatch):
    before = file.read_bytes()
    tree = load_safetensors(file, SPEC, sizes=SIZES)
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match=r"disk full"):
        save_safetensors(tree, SPEC, file)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_without_the_library(monkeypatch, file):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    message = r"{}: safetensors is not installed. Install it with `pip install safetensors`, or namedax\[safetensors\]"
    with pytest.raises(ImportError, match=message.format("load_safetensors")):
        load_safetensors(file, SPEC)
    with pytest.raises(ImportError, match=message.format("save_safetensors")):
        save_safetensors({}, {}, file)


def test_a_file_may_be_overwritten_by_what_was_loaded_from_it(file):
    tree = load_safetensors(file, SPEC, sizes=SIZES)
    before = safetensors.numpy.load_file(file)
    save_safetensors(tree, SPEC, file)
    after = safetensors.numpy.load_file(file)
    assert all(bits(before[key]) == bits(after[key]) for key in before)


SCRIPT = """
import sys, threading
import jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
import safetensors.numpy
import namedax as nx
path, layers, hidden, name = sys.argv[1:]
mesh = jax.make_mesh((8,), ("x",))
jax.block_until_ready(nx.shard(nx.named(jax.numpy.ones((8, 8)), ["hidden", "k"]), {"hidden": "x"}, mesh))
spec = {
    "layers.{layers}.up": ("up", "(heads key) e -> {layers, embed=e, heads, key}"),
    "layers.{layers}.down": ("down", "e (heads key) -> {layers, heads, key, embed=e}"),
}

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.0005):
        peak = max(peak, resident())
before = resident()
thread = threading.Thread(target=watch, daemon=True)
thread.start()
tree = nx.interop.load_safetensors(path, spec, {name: "x"}, mesh, sizes={"heads": 16})
done.set()
thread.join()
size = sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
print("bytes", max(peak, resident()) - before - size, size)
stored = safetensors.numpy.load_file(path)
for i in range(int(layers)):
    up, down = (np.asarray(tree[kind].data[i]).reshape(int(hidden), -1) for kind in ("up", "down"))
    assert (up == stored[f"layers.{i}.up"].T).all() and (down.reshape(-1, int(hidden)) == stored[f"layers.{i}.down"].T).all()
"""


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", ["heads", "embed"])
def test_loading_takes_about_one_block_beside_the_result(name, tmp_path):
    """A block of an array of 64 MiB on eight devices has 8 MiB. Whole arrays, or whole files in memory, would be 64 MiB and more."""
    layers, hidden = 4, 2048
    state = {f"layers.{i}.{kind}": np.full((hidden, hidden), i, np.float32) for i in range(layers) for kind in ("up", "down")}
    safetensors.numpy.save_file(state, tmp_path / "m.safetensors")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "m.safetensors"), str(layers), str(hidden), name]
    output = subprocess.run(command, env=environment_without_devices(), capture_output=True, text=True, check=True)
    beside, size = map(int, output.stdout.split()[1:])
    assert size == 2 * layers * hidden * hidden * 4
    assert beside < 40 * 2**20


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit], ids=str)
def test_the_mesh_of_set_mesh(kind, file, tmp_path):
    with jax.set_mesh(jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))):
        tree = load_safetensors(file, SPEC, {"embed_fsdp": "x", "kv_heads": "y"}, sizes=SIZES)
        plain = load_safetensors(file, SPEC, sizes=SIZES)
        assert tree["layers"]["query"].sharding.spec == jax.P(None, "x", "y", None, None)
        save_safetensors(tree, SPEC, tmp_path / "a.safetensors")
        save_safetensors(plain, SPEC, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


TWO_PROCESSES = """
import sys
import jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]))
import safetensors.numpy
from jax.experimental import multihost_utils
import namedax as nx
from tests.interop.test_state_dicts import SIZES, SPEC
path, folder = sys.argv[3:]
stored = safetensors.numpy.load_file(path)
for kind in (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))
    for resources in ({"embed_fsdp": "x", "kv_heads": "y"}, {"embed_fsdp": "y"}, {}):
        tree = nx.interop.load_safetensors(path, SPEC, resources, mesh, sizes=SIZES)
        nx.interop.save_safetensors(tree, SPEC, f"{folder}/out.safetensors")
        again = safetensors.numpy.load_file(f"{folder}/out.safetensors")
        assert {key: again[key].tobytes() for key in again} == {key: stored[key].tobytes() for key in stored}
        multihost_utils.sync_global_devices(str(resources) + str(kind))
print("done")
"""


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_two_processes_load_and_save_one_file(file, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", TWO_PROCESSES, str(port)]
    running = [
        subprocess.Popen(
            [*command, str(number), str(file), str(tmp_path)],
            env=environment_without_devices() | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=200)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert all(output.rstrip().endswith("done") for output in outputs), outputs


def test_arrays_that_do_not_fit_into_a_device(file, monkeypatch):
    """CPUs do not report their memory, so the test reports it for them."""
    monkeypatch.setattr("namedax.interop.tensors.free_bytes", lambda device: 100)
    mesh = jax.make_mesh((2,), ("x",))
    with pytest.raises(CheckpointError) as error:
        load_safetensors(file, SPEC, {"kv_heads": "x"}, mesh, sizes=SIZES)
    text = str(error.value)
    assert text.startswith("load_safetensors: the arrays take ")
    assert "which has 100 B of free memory. The largest block is " in text
    assert "Shard more axes in axis_resources, use more devices, or pass dtype=jnp.bfloat16." in text
    monkeypatch.setattr("namedax.interop.tensors.free_bytes", lambda device: 2**30)
    assert load_safetensors(file, SPEC, {"kv_heads": "x"}, mesh, sizes=SIZES)
