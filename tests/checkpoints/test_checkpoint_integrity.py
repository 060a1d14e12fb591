"""Damaged, truncated and foreign checkpoints, programs that are killed while they save, and several that save to one folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib

import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.checkpoints import files, integrity
from namedax.errors import CheckpointError
from tests.checkpoints.test_checkpoints import CHECKSUMS, edited, same, with_new_checksum
from tests.harness import array, make_mesh, said

OLD = {"w": nx.named(array(8, 6), ["inputs", "hidden"]), "b": nx.named(array(6), ["hidden"]), "step": 7}
NEW = {"w": nx.named(array(8, 6, seed=3), ["inputs", "hidden"]), "b": nx.named(array(6, seed=4), ["hidden"]), "step": 8}


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "step"
    nx.checkpoints.save(folder, OLD)
    assert {path.name for path in folder.parent.iterdir()} == {"step"}  # nothing is left beside it
    return folder


def test_every_flipped_bit_is_an_error_or_harmless(good, tmp_path):
    shutil.copytree(good, tmp_path / "step")
    rng = np.random.default_rng(0)
    mesh = make_mesh((4, 2))
    for file in files_of(tmp_path / "step"):
        right = file.read_bytes()
        for turn in range(4):
            at, bit = int(rng.integers(max(len(right), 1))), int(rng.integers(8))
            if not right:
                continue
            wrong = bytearray(right)
            wrong[at] ^= 1 << bit
            file.write_bytes(wrong)
            options = {} if turn % 2 else {"axis_resources": {"hidden": "y"}, "mesh": mesh}
            like = OLD if turn > 1 else None
            with pytest.raises(CheckpointError, match=r"^restore: "):
                nx.checkpoints.restore(tmp_path / "step", like, **options)
        file.write_bytes(right)
    same(nx.checkpoints.restore(tmp_path / "step"), OLD)


def test_files_that_are_missing_or_short(good, tmp_path):
    for file in files_of(good):
        for change in ("missing", "short", "empty"):
            folder = tmp_path / change
            shutil.copytree(good, folder)
            damaged = folder / file.relative_to(good)
            if change == "missing":
                damaged.unlink()
            else:
                damaged.write_bytes(file.read_bytes()[: -1 if change == "short" else 0])
            if damaged.exists() and damaged.stat().st_size == file.stat().st_size:
                shutil.rmtree(folder)
                continue  # a file that is empty anyway
            with pytest.raises(CheckpointError) as info:
                nx.checkpoints.restore(folder)
            text = said(info.value)
            assert text.startswith("restore: ")
            if file.name not in (CHECKSUMS, "_METADATA"):
                words = "is missing" if change == "missing" else "differs in size from the written file"
                name = file.relative_to(good).as_posix()
                assert text == f"restore: the checkpoint in {folder} is damaged: {name} {words}. Restore another checkpoint."
            shutil.rmtree(folder)


def test_parts_of_two_checkpoints_do_not_go_together(good, tmp_path):
    nx.checkpoints.save(tmp_path / "other", NEW)
    shutil.copytree(good, tmp_path / "mixed")
    shutil.copy(tmp_path / "other" / "_METADATA", tmp_path / "mixed" / "_METADATA")
    with pytest.raises(CheckpointError, match="_METADATA differs in"):
        nx.checkpoints.names(tmp_path / "mixed")
    with_new_checksum(tmp_path / "mixed", "_METADATA")
    with pytest.raises(CheckpointError, match="is incomplete: its list of checksums belongs to another checkpoint"):
        nx.checkpoints.restore(tmp_path / "mixed")
    os.remove(tmp_path / "mixed" / CHECKSUMS)
    with pytest.raises(CheckpointError, match="is incomplete: its list of checksums is missing"):
        nx.checkpoints.restore(tmp_path / "mixed")


def test_a_checkpoint_of_the_first_version_is_read(good, tmp_path):
    shutil.copytree(good, tmp_path / "step")
    os.remove(tmp_path / "step" / CHECKSUMS)

    def first(text):
        entry = json.loads(text)
        return json.dumps({"version": 1, "tree": entry["tree"]})

    edited(tmp_path / "step", first)
    same(nx.checkpoints.restore(tmp_path / "step"), OLD)


METADATA = {
    "not JSON": lambda text: "{",
    "a list": lambda text: "[1, 2]",
    "null": lambda text: "null",
    "a number": lambda text: "7",
    "nothing": lambda text: "",
    "an empty object": lambda text: "{}",
    "of somebody else": lambda text: json.dumps({"tree_metadata": {}, "custom_metadata": {"theirs": 1}}),
}
# A change of the JSON of namedax, and the field that the message names.
FIELDS = {
    "version": (lambda e: e.update(version="x"), "namedax.version"),
    "no version": (lambda e: e.pop("version"), "namedax.version"),
    "no tree": (lambda e: e.pop("tree"), "the tree itself"),
    "a tree of text": (lambda e: e.update(tree="abc"), "the tree itself"),
    "no kind": (lambda e: e["tree"].update(dict=[["w", {}]]), "for w"),
    "a shape of text": (lambda e: child(e, "w").update(shape="8"), "the shape of w"),
    "a negative size": (lambda e: child(e, "w").update(shape=[-8, 6]), "the shape of w"),
    "more dims": (lambda e: child(e, "w").update(dims=["a", "b", "c"]), "the dims of w"),
    "a dim of numbers": (lambda e: child(e, "w").update(dims=[{"x": 1}, "b"]), "in place of a name"),
    "a dtype of nobody": (lambda e: child(e, "w").update(dtype="float31"), "the dtype of w"),
    "no dtype": (lambda e: child(e, "w").pop("dtype"), "the dtype of w"),
    "pairs of one": (lambda e: e["tree"].update(dict=[["w"]]), "a key of the tree itself"),
    "another size": (lambda e: child(e, "w").update(shape=[8, 7]), "w"),
    "another dtype": (lambda e: child(e, "w").update(dtype="int32"), "w"),
}


def child(entry, name):
    return dict(entry["tree"]["dict"])[name]


@pytest.mark.parametrize("case", METADATA)
@pytest.mark.parametrize("has_checksums", [True, False])
def test_damaged_metadata(good, tmp_path, case, has_checksums):
    shutil.copytree(good, tmp_path / "step")
    file = tmp_path / "step" / "_METADATA"
    file.write_text(METADATA[case](file.read_text()))
    if has_checksums:
        with_new_checksum(tmp_path / "step", "_METADATA")
    else:
        os.remove(tmp_path / "step" / CHECKSUMS)
    for call in (nx.checkpoints.restore, nx.checkpoints.names, nx.checkpoints.types):
        with pytest.raises(CheckpointError) as info:
            call(tmp_path / "step")
        assert str(tmp_path / "step") in str(info.value)


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_the_metadata(good, tmp_path, field):
    shutil.copytree(good, tmp_path / "step")
    change, words = FIELDS[field]

    def damaged(text):
        entry = json.loads(text)
        change(entry)
        return json.dumps(entry)

    edited(tmp_path / "step", damaged)
    for like in (None, OLD):
        for options in ({}, {"axis_resources": {"hidden": "y"}, "mesh": make_mesh((4, 2))}):
            with pytest.raises(CheckpointError) as info:
                nx.checkpoints.restore(tmp_path / "step", like, **options)
            assert words in str(info.value), info.value


def test_several_files_of_data(tmp_path, monkeypatch):
    """Smaller files than orbax's: blocks remain complete, each file has its CRC-32, and damage of each is found."""
    tree = {f"w{i}": nx.shard(nx.named(array(64, 32, seed=i), ["a", "b"]), {"a": "x"}, make_mesh((8,))) for i in range(4)}
    tree["prime"] = nx.named(array(97, 89), ["c", "d"])  # 34,532 bytes; orbax would split it into 97 rows
    monkeypatch.setattr(files, "_FILE_BYTES", 1 << 12)
    nx.checkpoints.save(tmp_path / "step", tree)
    listed = json.loads(json.loads((tmp_path / "step" / CHECKSUMS).read_text())["list"])["files"]
    written = [path for path in files_of(tmp_path / "step") if path.name != CHECKSUMS]
    assert listed == {
        path.relative_to(tmp_path / "step").as_posix(): [path.stat().st_size, zlib.crc32(path.read_bytes())] for path in written
    }
    blocks = json.loads((tmp_path / "step" / "array_metadatas" / "process_0").read_text())["array_metadatas"]
    assert len(blocks) == 5
    assert all(block["array_metadata"]["chunk_shape"] == block["array_metadata"]["write_shape"] for block in blocks)
    data = [path for path in written if path.parent.parent.name == "ocdbt.process_0" and path.stat().st_size > 1 << 12]
    assert len(data) > 1
    same(nx.checkpoints.restore(tmp_path / "step", axis_resources={"b": "x"}, mesh=make_mesh((8,))), tree)
    for path in data:
        right = path.read_bytes()
        path.write_bytes(right[:-9] + bytes([right[-9] ^ 1]) + right[-8:])
        name = path.relative_to(tmp_path / "step").as_posix()
        with pytest.raises(CheckpointError, match=f"is damaged: {name} differs in checksum from the written file"):
            nx.checkpoints.restore(tmp_path / "step")
        path.write_bytes(right)


@pytest.mark.parametrize(
    ("shape", "count", "size"),
    [
        ((8, 1), 1, 1 << 25),
        ((1 << 13, 1 << 11), 1, 1 << 26),
        ((1 << 11, 1 << 11), 1024, 1 << 26),
        ((1 << 15, 1 << 14), 1, None),
    ],
    ids=["small", "a large block", "many", "above orbax's own"],
)
def test_size_of_a_file_of_data(shape, count, size):
    tree = {str(i): np.broadcast_to(np.float32(0), shape) for i in range(count)}
    assert files._file_bytes(tree) == size


# --- killed, full, and two at once ----------------------------------------------------------------------------------

PROGRAM = """
import os, sys
import numpy as np, namedax as nx
folder, stop = sys.argv[1:]
real = {name: getattr(os, name) for name in ("rename", "fsync")}
count = 0
def counted(name):
    def call(*args, **kwargs):
        global count
        count += 1
        if count == int(stop):
            os.kill(os.getpid(), 9)
        return real[name](*args, **kwargs)
    return call
for name in real:
    setattr(os, name, counted(name))
nx.checkpoints.save(folder, {"w": nx.named(np.full((8, 6), 2, np.float32), ["inputs", "hidden"])}, overwrite=True)
print("calls", count)
"""


def run(folder, stop):
    return subprocess.run([sys.executable, "-c", PROGRAM, str(folder), str(stop)], capture_output=True, text=True, timeout=120)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_program_that_is_killed_leaves_the_old_or_the_new(tmp_path):
    folder, old = tmp_path / "step", {"w": nx.named(jnp.ones((8, 6)), ["inputs", "hidden"])}
    done = run(tmp_path / "count", 0)
    assert done.returncode == 0, done.stderr
    calls = int(done.stdout.split()[-1])
    assert calls >= 2
    for stop in range(1, calls + 1):
        nx.checkpoints.save(folder, old, overwrite=True)
        assert run(folder, stop).returncode == -signal.SIGKILL
        have = np.asarray(nx.checkpoints.restore(folder)["w"].data)
        assert (have == 1).all() or (have == 2).all(), stop
    nx.checkpoints.save(folder, old, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"step", "count"}


def test_between_two_renames_the_old_one_is_found(tmp_path, monkeypatch):
    nx.checkpoints.save(tmp_path / "step", OLD)
    rename = os.rename

    def stops(source, target):
        rename(source, target)
        if str(target).endswith(".replaced"):
            raise KeyboardInterrupt

    monkeypatch.setattr(integrity.os, "rename", stops)
    with pytest.raises(KeyboardInterrupt):
        nx.checkpoints.save(tmp_path / "step", NEW, overwrite=True)
    monkeypatch.undo()
    assert not (tmp_path / "step").exists()
    same(nx.checkpoints.restore(tmp_path / "step"), OLD)
    nx.checkpoints.save(tmp_path / "step", NEW, overwrite=True)
    same(nx.checkpoints.restore(tmp_path / "step"), NEW)
    assert {path.name for path in tmp_path.iterdir()} == {"step"}


def test_a_full_disk_leaves_the_old_one(tmp_path, monkeypatch):
    nx.checkpoints.save(tmp_path / "step", OLD)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(integrity, "_checksum", full)
    with pytest.raises(OSError, match="No space left"):
        nx.checkpoints.save(tmp_path / "step", NEW, overwrite=True)
    monkeypatch.undo()
    same(nx.checkpoints.restore(tmp_path / "step"), OLD)
    assert {path.name for path in tmp_path.iterdir()} == {"step"}


def test_a_second_saver_is_rejected(tmp_path, monkeypatch):
    begun, go_on, checksum = threading.Event(), threading.Event(), integrity._checksum

    def slow(path):
        begun.set()
        go_on.wait(60)
        return checksum(path)

    monkeypatch.setattr(integrity, "_checksum", slow)
    first = threading.Thread(target=nx.checkpoints.save, args=(tmp_path / "step", OLD))
    first.start()
    assert begun.wait(60)
    for overwrite in (False, True):
        with pytest.raises(CheckpointError) as info:
            nx.checkpoints.save(tmp_path / "step", NEW, overwrite=overwrite)
        assert said(info.value) == (
            f"save: another program, or another thread, is saving to {tmp_path}/step. Wait until it ends, or save to another folder."
        )
    go_on.set()
    first.join(60)
    same(nx.checkpoints.restore(tmp_path / "step"), OLD)
    nx.checkpoints.save(tmp_path / "step", NEW, overwrite=True)
    same(nx.checkpoints.restore(tmp_path / "step"), NEW)


def test_many_savers_leave_one_checkpoint(tmp_path):
    nx.checkpoints.save(tmp_path / "step", OLD)
    results = []

    def saver(number):
        tree = {"w": nx.named(jnp.full((8, 6), number), ["inputs", "hidden"]), "step": number}
        for _ in range(3):
            try:
                nx.checkpoints.save(tmp_path / "step", tree, overwrite=True)
                results.append(number)
            except CheckpointError:
                time.sleep(0.01)

    threads = [threading.Thread(target=saver, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    have = nx.checkpoints.restore(tmp_path / "step")
    assert results
    assert (np.asarray(have["w"].data) == have["step"]).all()
    assert {path.name for path in tmp_path.iterdir()} == {"step"}
