"""Tensors with several parts, such as gate and up: interleaved and concatenated, in every placement, and their errors."""

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import namedax as nx
from namedax.errors import ArgumentError, CheckpointError, RearrangeError
from namedax.interop import from_state_dict, load_safetensors, save_safetensors, state_dict_report, to_state_dict
from tests.interop.test_layer_kinds import KINDS, mesh_of
from tests.interop.test_state_dicts import bits, values

KEY, PLACE = "layers.{layers:1..}.experts.gate_up", "experts/{part:gate,up}"
RIGHT = "-> {layers, experts=x, embed=e, hidden=f}"
# The left side, and the two parts of a tensor as GPT-OSS and Llama 4 read them.
LAYOUTS = {
    "interleaved": ("x e (f part)", lambda tensor: (tensor[..., ::2], tensor[..., 1::2])),
    "concatenated": ("x e (part f)", lambda tensor: np.split(tensor, 2, -1)),
    "first": ("(part x) e f", lambda tensor: np.split(tensor, 2, 0)),
    "alone": ("x part e f", lambda tensor: (tensor[:, 0], tensor[:, 1])),
}
SHAPES = {"first": (8, 8, 6), "alone": (4, 2, 8, 6)}


def case(name):
    left, parts = LAYOUTS[name]
    state = {f"layers.{i}.experts.gate_up": values(*SHAPES.get(name, (4, 8, 12))) for i in (1, 2)}
    both = [np.stack(pair) for pair in zip(*map(parts, state.values()), strict=True)]
    return state, {KEY: (PLACE, f"{left} {RIGHT}")}, both


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    "resources", [None, {"experts": "x", "hidden": "y"}, {"embed": ("x", "y")}, {"layers": "y", "hidden": "x"}], ids=str
)
@pytest.mark.parametrize("name", LAYOUTS)
def test_gate_and_up(name, resources, kind, tmp_path):
    mesh = mesh_of(resources, kind)
    state, spec, (gate, up) = case(name)
    safetensors.numpy.save_file(state, tmp_path / "m.safetensors")
    for tree in (
        from_state_dict(state, spec, resources, mesh),
        load_safetensors(tmp_path / "m.safetensors", spec, resources, mesh),
    ):
        assert bits(tree["experts"]["gate"]) == bits(gate)
        assert bits(tree["experts"]["up"]) == bits(up)
        assert tree["experts"]["up"].dims == ("layers", "experts", "embed", "hidden")
    back = to_state_dict(tree, spec)
    assert {key: bits(one) for key, one in back.items()} == {key: bits(one) for key, one in state.items()}
    save_safetensors(tree, spec, tmp_path / "again.safetensors")
    again = safetensors.numpy.load_file(tmp_path / "again.safetensors")
    assert {key: bits(one) for key, one in again.items()} == {key: bits(one) for key, one in state.items()}


def test_the_order_of_axes_of_one_part_does_not_matter():
    state, spec, _ = case("interleaved")
    tree = from_state_dict(state, spec)
    order = ["hidden", "layers", "embed", "experts"]
    tree["experts"]["up"] = nx.named(nx.positional(tree["experts"]["up"], order), order)
    assert {key: bits(one) for key, one in to_state_dict(tree, spec).items()} == {key: bits(one) for key, one in state.items()}


def test_three_parts_with_a_suffix():
    state = {"qkv.bias": values(2, 12)}
    tree = from_state_dict(
        state, {"qkv.bias": ("{qkv:query,key,value}_bias", "a (h qkv d) -> {a, heads=h, d}")}, sizes={"heads": 2}
    )
    for i, name in enumerate(("query", "key", "value")):
        assert bits(tree[f"{name}_bias"]) == bits(state["qkv.bias"].reshape(2, 2, 3, 2)[:, :, i])


def test_a_vector_of_two_and_tied_parts():
    spec = {"a": ("{part:x,y}", "part -> "), "b": ("{part:z,w}", "part -> ")}
    tree = from_state_dict({"a": np.arange(2, dtype=np.int32)}, spec, tied={"b": "a"})
    assert [int(tree[name]) for name in "xyzw"] == [0, 1, 0, 1]
    assert {key: one.tolist() for key, one in to_state_dict(tree, spec, tied={"b": "a"}).items()} == {"a": [0, 1]}


def test_the_report_has_each_part():
    state, spec, _ = case("interleaved")
    assert str(state_dict_report(state, spec)) == "\n".join(
        [
            "layers.{1-2}.experts.gate_up  f32[4,8,12]  x:4 e:8 (f:6 part=gate)",
            "    -> experts/gate  f32[]{layers:2, experts:4, embed:8, hidden:6}",
            "layers.{1-2}.experts.gate_up  f32[4,8,12]  x:4 e:8 (f:6 part=up)",
            "    -> experts/up  f32[]{layers:2, experts:4, embed:8, hidden:6}",
        ]
    )


def test_states_that_do_not_match():
    _, spec, _ = case("interleaved")
    with pytest.raises(CheckpointError) as error:
        from_state_dict({"layers.1.experts.gate_up": values(4, 8, 5)}, spec)
    assert str(error.value).count("axis 2 of the tensor has size 5, which part=2 does not divide") == 1
    with pytest.raises(CheckpointError) as error:
        from_state_dict({}, spec)
    assert str(error.value).count("missing: 'layers.{layers}.experts.gate_up', for 'experts/{part:gate,up}'.\n") == 1
    alone = {"w": ("{part:a,b}", "part k -> {k}")}
    with pytest.raises(
        CheckpointError, match=r"axis 0 of the tensor has size 3, not part=2|number of parts 'a', 'b' has size 2, not"
    ):
        from_state_dict({"w": values(3, 4)}, alone)


def test_trees_that_do_not_match():
    spec = {"w": ("p/{part:a,b}", "k part -> {k}")}
    a, b = (nx.named(jnp.arange(n, dtype=jnp.float32), ["k"]) for n in (3, 4))
    with pytest.raises(
        CheckpointError,
        match=r"'p/b', f32\[\]\{k:4\}, for 'w': it differs from 'p/a', f32\[\]\{k:3\}. The parts of one tensor have equal",
    ):
        to_state_dict({"p": {"a": a, "b": b}}, spec)
    with pytest.raises(CheckpointError, match=r"it differs from 'p/a'"):
        to_state_dict({"p": {"a": a, "b": a.astype(jnp.bfloat16)}}, spec)
    with pytest.raises(CheckpointError, match=r"the tree has no array at 'p/b', for 'w'"):
        to_state_dict({"p": {"a": a}}, spec)


@pytest.mark.parametrize(
    ("place", "pattern", "error", "message"),
    [
        ("{part:a}", "part k -> {k}", ArgumentError, r"braces that are not a label and names. For a tensor .* 'layers/\{part:gate,up\}'"),
        ("{part}", "part k -> {k}", ArgumentError, "braces that are not a label and names"),
        ("{part:a,a}", "part k -> {k}", ArgumentError, "braces that are not a label and names"),
        ("{part:a,}", "part k -> {k}", ArgumentError, "braces that are not a label and names"),
        ("{1:a,b}", "part k -> {k}", ArgumentError, "braces that are not a label and names"),
        ("{p:a,b}/{q:c,d}", "p q k -> {k}", ArgumentError, "braces that are not a label and names"),
        ("{part:a,b", "part k -> {k}", ArgumentError, "braces that are not a label and names"),
        ("x/{part:a,b}/", "part k -> {k}", ArgumentError, "with an empty part"),
        ("{part:a,b}", "k -> {k}", RearrangeError, "the place has parts along 'part', which the left side lacks"),
        ("{part:a,b}", "part k -> {k, part}", RearrangeError, "'part' is split over places, and is not an axis"),
    ],
)  # fmt: skip
def test_malformed_places(place, pattern, error, message):
    for convert in (from_state_dict, to_state_dict, state_dict_report):
        with pytest.raises(error, match=message):
            convert({}, {"w": (place, pattern)})


def test_a_part_at_the_place_of_another_entry():
    with pytest.raises(ArgumentError, match=r"spec has the place 'p/b' twice, for 'v' and 'w'"):
        from_state_dict({}, {"v": ("p/b", "k -> {k}"), "w": ("p/{part:a,b}", "part k -> {k}")})
