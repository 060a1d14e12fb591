"""A misspelled name of a layout, which would leave its axis replicated, raises wherever a layout places a tree."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import namedax as nx
from namedax.errors import AxisResourceError
from namedax.messages.layout_names import is_misspelling

# Pairs of a misspelled name and the name.
MISSPELLED = [
    ("kv_head", "kv_heads"),
    ("kv_heads", "kv_head"),
    ("head", "heads"),
    ("embed_fspd", "embed_fsdp"),
    ("embed_fdsp", "embed_fsdp"),
    ("embd_fsdp", "embed_fsdp"),
    ("hiden", "hidden"),
    ("hidden2_", "hidden2"),
    ("layer1s", "layers1"),
    ("bacth", "batch"),
    ("Batch", "batch"),
    ("kvHeads", "kv_heads"),
    ("kv-heads", "kv_heads"),
    ("key", "keys"),
    ("class", "classes"),
    ("vocabulery", "vocabulary"),
]

# Pairs of names that one program may have, of which one is not mapped.
DIFFERENT = [
    ("embed", "embed_fsdp"),
    ("embed_fsdp", "embed"),
    ("heads", "kv_heads"),
    ("q_heads", "kv_heads"),
    ("pos_q", "pos_k"),
    ("pos", "pos_sp"),
    ("x_pos", "y_pos"),
    ("k", "k2"),
    ("q", "k"),
    ("layer1", "layer2"),
    ("hidden1", "hidden2"),
    ("hidden", "hidden2"),
    ("batch", "patch"),
    ("batch", "match"),
    ("inputs", "outputs"),
    ("channels_in", "channels_out"),
    ("in", "inn"),
    ("lat", "lon"),
    ("row", "raw"),
    ("width", "height"),
    ("query", "key"),
    ("array", "ray"),
    ("a", "A"),
    ("ij", "ji"),
    (("a", "heads"), ("a", "head")),
]


@pytest.mark.parametrize(("name", "meant"), MISSPELLED, ids=str)
def test_one_slip_in_one_word_is_a_misspelling(name, meant):
    assert is_misspelling(name, meant)


@pytest.mark.parametrize(("name", "other"), DIFFERENT, ids=str)
def test_names_of_one_program_are_no_misspellings(name, other):
    assert not is_misspelling(name, other)
    assert not is_misspelling(other, name)
    assert not is_misspelling(name, name)


def mesh():
    return jax.make_mesh((4, 2), ("data", "model"))


def values():
    return np.arange(64, dtype=np.float32).reshape(8, 8)


def tree():
    return {"w": nx.named(jnp.asarray(values()), ["kv_heads", "embed_fsdp"]), "scale": jnp.ones(3)}


SPEC = {"w": ("w", "kv_heads embed_fsdp -> {kv_heads, embed_fsdp}")}


def load(tmp_path, layout):
    path = tmp_path / "w.safetensors"
    safetensors.numpy.save_file({"w": values()}, path)
    return nx.interop.load_safetensors(path, SPEC, layout, mesh())


def restore(tmp_path, layout, like=None):
    pytest.importorskip("orbax.checkpoint")
    folder = tmp_path / "step"
    nx.checkpoints.save(folder, tree())
    return nx.checkpoints.restore(folder, like, axis_resources=layout, mesh=mesh())


def of_processes(layout):
    axes = {"w": ["kv_heads", "embed_fsdp"], "scale": [None]}
    return nx.from_process_local({"w": values(), "scale": np.ones(3)}, axes, layout, mesh())


def moved(from_layout, to_layout):
    nx.transfer(tree(), None if from_layout is None else (mesh(), from_layout), (mesh(), to_layout))
    return nx.shard(tree(), to_layout, mesh())


# Functions that place a tree by a layout.
PLACING = {
    "shard": lambda tmp_path, layout: nx.shard(tree(), layout, mesh()),
    "shard, padded": lambda tmp_path, layout: nx.shard(tree(), layout, mesh(), padded=True),
    "abstract": lambda tmp_path, layout: nx.interop.abstract(tree(), layout, mesh()),
    "from_state_dict": lambda tmp_path, layout: nx.interop.from_state_dict({"w": values()}, SPEC, layout, mesh()),
    "load_safetensors": load,
    "restore": restore,
    "restore, like": lambda tmp_path, layout: restore(tmp_path, layout, tree()),
    "from_process_local": lambda tmp_path, layout: of_processes(layout),
    "transfer, to_layout": lambda tmp_path, layout: moved({}, layout),
    "transfer, from_layout": lambda tmp_path, layout: moved(layout, {}) and nx.shard(tree(), layout, mesh()),
}


@pytest.mark.parametrize("function", PLACING)
@pytest.mark.parametrize(
    ("layout", "name", "meant"),
    [
        ({"kv_head": "model"}, "kv_head", "kv_heads"),
        ({"kv_heads": "model", "embed_fspd": "data"}, "embed_fspd", "embed_fsdp"),
        ({"embed": "data", "KV_heads": ("model",)}, "KV_heads", "kv_heads"),
    ],
    ids=str,
)
def test_a_misspelled_name_raises_in_every_function_that_places_a_tree(function, layout, name, meant, tmp_path):
    with pytest.raises(AxisResourceError) as error:
        PLACING[function](tmp_path, layout)
    text = str(error.value)
    assert text.startswith(f"{function.removesuffix(', padded').removesuffix(', like')}: axis_resources maps {name!r}")
    assert f"{meant!r} is not mapped" in text
    assert f"Did you mean {meant!r}?" in text
    assert f"{{{meant!r}: None}} replicates it." in text


@pytest.mark.parametrize("function", PLACING)
def test_a_layout_may_map_names_that_the_tree_lacks(function, tmp_path):
    layout = {"kv_heads": "model", "embed": "data", "batch": "data", "pos_q": "model"}
    placed = PLACING[function](tmp_path, layout)
    assert placed["w"].data.sharding.spec == jax.sharding.PartitionSpec("model", None)


@pytest.mark.parametrize("function", PLACING)
@pytest.mark.parametrize("resources", ["model", None, ()], ids=str)
def test_a_close_name_is_valid_if_the_layout_has_both(function, resources, tmp_path):
    placed = PLACING[function](tmp_path, {"kv_head": "model", "kv_heads": resources})
    wanted = jax.sharding.PartitionSpec(resources or None, None)
    assert placed["w"].data.sharding.spec == wanted


def test_a_name_that_is_not_mapped_anywhere_is_no_mistake():
    placed = nx.shard(tree(), {"kv_head": None, "embed_fsdp": "data"}, mesh())
    assert placed["w"].sharding.spec == jax.sharding.PartitionSpec(None, "data")


def test_the_axis_of_process_entries():
    with pytest.raises(AxisResourceError, match=r"process_entries: axis_resources maps 'bacth'.*mean 'batch'"):
        nx.process_entries("batch", 8, {"bacth": "data"}, mesh())
    assert list(nx.process_entries("pos", 4, {"batch": "data"}, mesh())) == [0, 1, 2, 3]


def test_a_loop_with_a_misspelled_name():
    with pytest.raises(AxisResourceError, match="Did you mean 'kv_heads'"):
        nx.shard(tree(), {"kv_head": nx.SerialLoop(4)}, mesh())
