"""Layers of several kinds: ranges of numbers in keys, from the key or from a configuration, and every error of them."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, CheckpointError
from namedax.interop import from_state_dict, load_safetensors, save_safetensors, state_dict_report, to_state_dict
from tests.interop.test_state_dicts import bits, values

KINDS = [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit]
PLACEMENTS = [None, {}, {"embed": "x", "hidden": "y"}, {"experts": "x", "layers": "y"}]
EXPERTS = 3


def mesh_of(resources, kind):
    return None if resources is None else jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))


@functools.cache
def published(sparse=(2, 3, 4, 5, 6, 7), layers=8):
    """A model with a norm in every layer, and experts in the layers `sparse` only."""
    state = {}
    for i in range(layers):
        state[f"layers.{i}.norm"] = values(8)
        if i not in sparse:
            state[f"layers.{i}.mlp.up"] = values(4, 8)
            continue
        for j in range(EXPERTS):
            state[f"layers.{i}.mlp.experts.{j}.up"] = values(4, 8)
    return state


def spec(dense, sparse):
    return {
        "layers.{layers}.norm": ("norm", "e -> {layers, embed=e}"),
        f"layers.{{{dense}}}.mlp.up": ("dense/up", f"f e -> {{layers={dense.split(':')[0]}, embed=e, hidden=f}}"),
        f"layers.{{{sparse}}}.mlp.experts.{{experts}}.up": (
            "sparse/up",
            f"f e -> {{layers={sparse.split(':')[0]}, experts, embed=e, hidden=f}}",
        ),
    }


def check(state, entries, dense, sparse, resources, kind, tmp_path, **options):
    """Load and save with these entries, in memory and by a file."""
    mesh = mesh_of(resources, kind)
    safetensors.numpy.save_file(state, tmp_path / "m.safetensors")
    want_dense = np.stack([state[f"layers.{i}.mlp.up"].T for i in dense])
    want_sparse = np.stack([[state[f"layers.{i}.mlp.experts.{j}.up"].T for j in range(EXPERTS)] for i in sparse])
    for tree in (
        from_state_dict(state, entries, resources, mesh, **options),
        load_safetensors(tmp_path / "m.safetensors", entries, resources, mesh, **options),
    ):
        assert bits(tree["dense"]["up"]) == bits(want_dense)
        assert bits(tree["sparse"]["up"]) == bits(want_sparse)
        assert dict(tree["sparse"]["up"].named_shape) == {"layers": len(sparse), "experts": EXPERTS, "embed": 8, "hidden": 4}
    back = to_state_dict(tree, entries, **options)
    assert {key: bits(one) for key, one in back.items()} == {key: bits(one) for key, one in state.items()}
    save_safetensors(tree, entries, tmp_path / "again.safetensors", **options)
    again = safetensors.numpy.load_file(tmp_path / "again.safetensors")
    assert {key: bits(one) for key, one in again.items()} == {key: bits(one) for key, one in state.items()}
    return tree


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("resources", PLACEMENTS, ids=str)
def test_the_first_layers_are_of_another_kind(resources, kind, tmp_path):
    entries = spec("layers:..2", "layers:2..")
    tree = check(published(), entries, [0, 1], [2, 3, 4, 5, 6, 7], resources, kind, tmp_path)
    if resources is not None:
        mesh = mesh_of(resources, kind)
        types = nx.interop.abstract(tree, resources, mesh)
        assert tree["sparse"]["up"].sharding == types["sparse"]["up"].data.sharding


ODD = (1, 3, 5, 7)
RANGES = {
    "to an end": ((2, 3, 4, 5, 6, 7), "a:0..2", "b:2..8"),
    "strides": (ODD, "a:0..:2", "b:1..:2"),
    "strides to an end": (ODD, "a:..8:2", "b:1..8:2"),
    "an end beyond a stride": (ODD, "a:..7:2", "b:1..:2"),
    "lists": ((1, 2, 5, 6), "a:0,3,4,7", "b:1,2,5,6"),
    "an unordered list": ((1, 2, 5, 6), "a:7,0,4,3", "b:6,1,2,5"),
    "one number": ((0, 1, 2, 3, 4, 5, 6), "a:7", "b:0..7"),
}


@pytest.mark.fast(4)
@pytest.mark.parametrize("case", RANGES)
def test_ranges(case, tmp_path):
    sparse, a, b = RANGES[case]
    dense = [i for i in range(8) if i not in sparse]
    check(published(sparse), spec(a, b), dense, list(sparse), None, KINDS[0], tmp_path)


@pytest.mark.fast(0)
@pytest.mark.parametrize("make", [list, np.asarray, lambda numbers: [*reversed(numbers)]], ids=["list", "array", "reversed"])
def test_numbers_of_a_configuration(make, tmp_path):
    sparse = (1, 2, 5, 6)
    kinds = ["sparse" if i in sparse else "dense" for i in range(8)]
    numbers = {kind: make([i for i, other in enumerate(kinds) if other == kind]) for kind in ("dense", "sparse")}
    check(
        published(sparse),
        spec("dense", "sparse"),
        [0, 3, 4, 7],
        list(sparse),
        {"hidden": "x"},
        KINDS[0],
        tmp_path,
        numbers=numbers,
    )


def test_a_kind_without_layers_has_no_place():
    everywhere = tuple(range(8))
    state = published(everywhere)
    for entries, numbers in (
        (spec("dense", "sparse"), {"dense": [], "sparse": range(8)}),
        (spec("dense:..0", "sparse"), None),
    ):
        tree = from_state_dict(state, entries, numbers=numbers)
        assert tree.keys() == {"norm", "sparse"}
        assert to_state_dict(tree, entries, numbers=numbers).keys() == state.keys()
        wrong = tree | {"dense": {"up": nx.named(jnp.ones(1), ["layers"])}}
        with pytest.raises(CheckpointError, match=r"the tree has 'dense/up', f32\[\]\{layers:1\}, which has no key"):
            to_state_dict(wrong, entries, numbers=numbers)


def test_layers_of_two_kinds_are_a_scan_over_pairs():
    state = published(ODD)
    tree = from_state_dict(state, spec("a:0..:2", "b:1..:2"))

    def pair(x, p):
        dense, sparse = p
        x = x + nx.dot(nx.dot(x, dense, "embed"), dense, "hidden")
        return x + nx.mean(nx.dot(nx.dot(x, sparse, "embed"), sparse, "hidden"), "experts"), None

    x = nx.named(jnp.arange(8.0) / 8, ["embed"])
    have, _ = nx.scan(pair, x, (tree["dense"]["up"], tree["sparse"]["up"]), axis="layers")
    want = np.arange(8) / 8
    for i in range(8):
        ups = [state[f"layers.{i}.mlp.experts.{j}.up"] for j in range(EXPERTS)] if i in ODD else [state[f"layers.{i}.mlp.up"]]
        want = want + np.mean([up.T @ (up @ want) for up in ups], 0)
    np.testing.assert_allclose(have.data, want, rtol=1e-5)


def test_the_report_has_the_numbers():
    text = str(state_dict_report(published(ODD), spec("a:0..:2", "b:1..:2")))
    assert "layers.{0-7}.norm  f32[8]  e:8\n    -> norm  f32[]{layers:8, embed:8}\n" in text
    assert "layers.{1,3,5,7}.mlp.experts.{0-2}.up  f32[4,8]  f:4 e:8\n    -> sparse/up  f32[]{layers:4, experts:3, " in text
    text = str(state_dict_report(published(), spec("dense", "b:2.."), numbers={"dense": [0, 1]}))
    assert "layers.{0-1}.mlp.up  " in text


def test_several_ranges_in_one_key():
    state = {f"a.{i}.b.{j}.{i}": values(2) for i in (1, 3) for j in (4, 5, 9)}
    entries = {"a.{i:1..:2}.b.{j:4,5,9}.{i}": ("w", "k -> {i, j, k}")}
    tree = from_state_dict(state, entries)
    assert bits(tree["w"]) == bits(np.stack([[state[f"a.{i}.b.{j}.{i}"] for j in (4, 5, 9)] for i in (1, 3)]))
    assert {key: bits(one) for key, one in to_state_dict(tree, entries).items()} == {
        key: bits(one) for key, one in state.items()
    }


# --- errors ---------------------------------------------------------------------------------------


def message(state, entries, **options):
    with pytest.raises(CheckpointError) as error:
        from_state_dict(state, entries, **options)
    return str(error.value)


GAPS = [
    ((2, 3, 4, 5, 6, 7), "{2-7}", "{sparse:2..}"),
    ((2, 3, 4, 5), "{2-5}", "{sparse:2..6}"),
    ((1, 3, 5, 7), "{1,3,5,7}", "{sparse:1..:2}"),
    ((1, 3, 5), "{1,3,5}", "{sparse:1..6:2}"),
    ((0, 2, 4, 6), "{0,2,4,6}", "{sparse:0..:2}"),
    ((3, 4, 7), "{3-4,7}", "{sparse:3,4,7}"),
    ((0, 3), "{0,3}", "{sparse:0,3}"),
    ((5,), "5", "{sparse:5..6}"),
]


@pytest.mark.parametrize(("sparse", "found", "form"), GAPS, ids=[form for *_, form in GAPS])
def test_a_gap_names_the_form_that_fits(sparse, found, form):
    state = {key: one for key, one in published(sparse).items() if "experts" in key or "norm" in key}
    every = {"layers.{sparse}.norm": ("norm", "e -> {sparse, embed=e}")}  # the numbers with this prefix end at 7
    entries = {"layers.{sparse}.mlp.experts.{experts}.up": ("up", "f e -> {sparse, experts, embed=e, hidden=f}")}
    text = message(state, every | entries)
    assert (
        f"The keys have the numbers {found} of 'sparse'. Numbers run from 0 without gaps. For other numbers, write {form}."
        in text
    )
    # The form that the message names is right.
    fitting = {key.replace("{sparse}", form): entry for key, entry in entries.items()}
    tree = from_state_dict(state, every | fitting)
    assert tree["up"].named_shape["sparse"] == len(sparse)


def test_a_gap_of_many_numbers_names_the_argument():
    numbers = [0, 1, *range(3, 12)]
    state = {f"w.{i}": values(2) for i in numbers}
    text = message(state, {"w.{i}": ("w", "k -> {i, k}")})
    assert "The keys have the numbers {0-1,3-11} of 'i'." in text
    assert "For other numbers, pass numbers={'i': [0, 1, 3, ...]}." in text
    assert from_state_dict(state, {"w.{i}": ("w", "k -> {i, k}")}, numbers={"i": numbers})


def test_sizes_of_another_kind():
    entries = {"layers.{layers}.mlp.experts.{experts}.up": ("up", "f e -> {layers, experts, embed=e, hidden=f}")}
    state = {key: one for key, one in published().items() if "experts" in key}
    text = message(state, entries, sizes={"layers": 8})
    assert "Numbers run from 0 without gaps, and sizes= has layers=8. For other numbers, write {other_layers:2..}." in text
    open_ended = {"layers.{layers:2..}.mlp.experts.{experts}.up": next(iter(entries.values()))}
    text = message(state, open_ended, sizes={"layers": 8})
    assert "missing: 'layers.{8-9}.mlp.experts.{0-2}.up', for 'up'." in text
    assert "The keys have the numbers {2-7} of 'layers'. sizes= has layers=8, so the last number is 9." in text
    assert from_state_dict(state, open_ended, sizes={"layers": 6})
    ended = {"layers.{layers:2..8}.mlp.experts.{experts}.up": next(iter(entries.values()))}
    assert "'layers' in sizes= has size 8, not layers=6" in message(state, ended, sizes={"layers": 8})


def test_numbers_that_the_files_lack(tmp_path):
    state = dict(published())
    text = message(state, spec("dense:..2", "sparse:2..10"))
    assert (
        "missing: 'layers.{8-9}.mlp.experts.{0-2}.up', for 'sparse/up'. The keys have the numbers {2-7} of 'sparse'.\n" in text
    )
    text = message(state, spec("dense", "sparse"), numbers={"dense": [0, 1, 9], "sparse": range(2, 8)})
    assert "missing: 'layers.9.mlp.up', for 'dense/up'. The keys have the numbers {0-1} of 'dense'.\n" in text
    del state["layers.4.mlp.experts.1.up"]
    safetensors.numpy.save_file(state, tmp_path / "m.safetensors")
    with pytest.raises(CheckpointError, match=r"missing: 'layers.4.mlp.experts.1.up', for 'sparse/up'.\nNothing"):
        load_safetensors(tmp_path, spec("dense:..2", "sparse:2.."))


def test_numbers_that_no_entry_covers():
    text = message(published(), spec("dense:..2", "sparse:3.."))
    assert (
        "left over: 'layers.2.mlp.experts.{0-2}.up', whose numbers are not in 'layers.{sparse:3..}.mlp.experts.{experts}.up'."
        " Extend the numbers, or add an entry for the others.\n" in text
    )
    text = message(published(), spec("dense", "sparse"), numbers={"dense": [0, 1], "sparse": [2, 3, 4]})
    assert (
        "left over: 'layers.{5-7}.mlp.experts.{0-2}.up', whose numbers are not in 'layers.{sparse}.mlp.experts.{experts}.up'"
        " with numbers['sparse']={2-4}. Extend" in text
    )
    tree = from_state_dict(published(), spec("dense:..2", "sparse:3.."), ignore="layers.2.mlp.*")
    assert tree["sparse"]["up"].named_shape["layers"] == 5


def test_entries_that_overlap():
    state = {f"w.{i}": values(2) for i in range(4)}
    entries = {"w.{a:..3}": ("a", "k -> {a, k}"), "w.{b:2..}": ("b", "k -> {b, k}")}
    text = message(state, entries)
    assert (
        "'w.2' matches 'w.{a:..3}' and 'w.{b:2..}'. Change the keys or their numbers, so that each key has one entry.\n" in text
    )
    tree = {"a": nx.named(jnp.ones((3, 2)), ["a", "k"]), "b": nx.named(jnp.ones((2, 2)), ["b", "k"])}
    with pytest.raises(CheckpointError, match=r"'b', .*, for 'w.\{b:2..\}': its key 'w.2' is that of another entry of spec"):
        to_state_dict(tree, entries)


def test_a_tree_with_another_number_of_layers():
    tree = {"w": nx.named(jnp.ones((3, 2)), ["i", "k"])}
    for entries, options in (
        ({"w.{i:0,3}": ("w", "k -> {i, k}")}, {}),
        ({"w.{i}": ("w", "k -> {i, k}")}, {"numbers": {"i": [0, 3]}}),
    ):
        with pytest.raises(CheckpointError, match=r"'w', .*: the number 'i' of keys has size 2, not i=3"):
            to_state_dict(tree, entries, **options)
    assert [*to_state_dict(tree, {"w.{i:5..:2}": ("w", "k -> {i, k}")})] == ["w.5", "w.7", "w.9"]


@pytest.mark.parametrize("text", ["", "3...", "a..", "..", "5..3", "3..:0", "3..:", "1,", "-1..", "3..5..7", "{3..}"])
def test_ranges_that_are_not_valid(text):
    valid = re.escape("Write {i:3..}, {i:..3} (0, 1, 2), {i:1..24:2} (1, 3, ..., 23) or {i:0,3,7}.")
    with pytest.raises(ArgumentError, match=f"has the range '.*', which is not valid. {valid}|has braces that are not a name"):
        from_state_dict({}, {f"w.{{i:{text}}}": ("w", "k -> {i, k}")})


@pytest.mark.parametrize(
    ("key", "numbers", "error", "text"),
    [
        ("w.{i:1,2,1}", None, ArgumentError, "the key pattern 'w.{i:1,2,1}' has the number 1 twice. Write each number once."),
        ("w.{i:1..}.{i:2..}", None, ArgumentError, "has the range '2..' of 'i', but has another one. Write the numbers once."),
        ("w.{i:1..}", {"i": [1]}, ArgumentError, "has the range '1..' of 'i', but numbers= has others. Write the numbers once."),
        ("w.{i}", {"i": [1, 1]}, ArgumentError, "numbers['i'] has the number 1 twice. Write each number once."),
        ("w.{i}", {"i": 3}, ArgumentTypeError, "numbers['i'] is 3, not a list of numbers. Pass integers from 0."),
        ("w.{i}", {"i": [-1]}, ArgumentTypeError, "numbers['i'] is [-1], not a list of numbers."),
        ("w.{i}", {"i": [True]}, ArgumentTypeError, "numbers['i'] is [True], not a list of numbers."),
        ("w.{i}", {"i": np.ones((2, 2), int)}, ArgumentTypeError, "not a list of numbers."),
        ("w.{i}", [1], ArgumentTypeError, "numbers is [1], not a dict of lists. Write numbers={\"sparse\": [3, 4, 5]}."),
        ("w.{layer}", {"layers": [1]}, ArgumentError, "numbers has 'layers', but no key of spec has {layers}. Did you mean 'layer'?"),
    ],
)  # fmt: skip
def test_wrong_numbers(key, numbers, error, text):
    label = re.findall(r"\{(\w+)", key)[0]
    entries = {key: ("w", f"k -> {{{label}, k}}")}
    for convert in (from_state_dict, to_state_dict, state_dict_report):
        with pytest.raises(error) as raised:
            convert({}, entries, numbers=numbers)
        assert text in str(raised.value)
        assert str(raised.value).startswith(convert.__name__)
