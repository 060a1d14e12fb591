"""State dicts in memory: the mapping by `spec` against einops, tensors of other libraries, ties, and every error."""

import re

import einops
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisResourceError,
    CheckpointError,
    MeshError,
    PlacementConflictError,
    RearrangeError,
)
from namedax.interop import from_state_dict, state_dict_report, to_state_dict

QUERY = "(kv g d) e -> {layers, embed_fsdp=e, kv_heads=kv, group=g, key=d}"
SPEC = {
    "embed.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    "layers.{layers}.q.weight": ("layers/query", QUERY),
    "layers.{layers}.norm.weight": ("layers/norm", "e -> {layers, embed=e}"),
}
SIZES = {"kv_heads": 2, "group": 3, "key": 2, "layers": 3, "unused": 9}
RNG = np.random.default_rng(0)


def values(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def state_dict():
    state = {"embed.weight": values(7, 4)}
    for i in range(3):
        state[f"layers.{i}.q.weight"] = values(12, 4)
        state[f"layers.{i}.norm.weight"] = values(4)
    return state


def bits(array):
    array = np.asarray(array.data if isinstance(array, nx.NamedArray) else array)
    return array.dtype, array.shape, array.tobytes()


@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit], ids=str)
@pytest.mark.parametrize(
    "resources",
    [
        None,
        {},
        {"kv_heads": "y", "embed_fsdp": "x"},
        {"key": "y", "group": "x", "vocab": "y"},  # the group does not divide over x, nor the vocabulary over y
        {"embed_fsdp": ("x", "y")},
        {"layers": nx.SerialLoop(3), "embed": "x"},
    ],
    ids=str,
)
def test_stacked_layers_and_split_heads_in_every_placement(resources, kind):
    state = state_dict()
    mesh = None if resources is None else jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))
    tree = from_state_dict(state, SPEC, resources, mesh, sizes=SIZES)
    query = np.stack([state[f"layers.{i}.q.weight"] for i in range(3)])
    query = einops.rearrange(query, "l (kv g d) e -> l e kv g d", kv=2, g=3)
    assert tree["layers"]["query"].dims == ("layers", "embed_fsdp", "kv_heads", "group", "key")
    assert bits(tree["layers"]["query"]) == bits(query)
    assert bits(tree["embed"]) == bits(state["embed.weight"])
    assert bits(tree["layers"]["norm"]) == bits(np.stack([state[f"layers.{i}.norm.weight"] for i in range(3)]))
    if resources is not None:
        want = nx.shard(tree, resources, mesh, padded=False)
        assert all(
            have.sharding == other.sharding for have, other in zip(jax.tree.leaves(tree), jax.tree.leaves(want), strict=True)
        )
    back = to_state_dict(tree, SPEC)
    assert list(back) == ["embed.weight", *(f"layers.{i}.{kind}.weight" for kind in ("q", "norm") for i in range(3))]
    assert {key: bits(tensor) for key, tensor in back.items()} == {key: bits(tensor) for key, tensor in state.items()}


LETTERS = "abcdef"


@st.composite
def cases(draw):
    """Return a key pattern, sides of an einops pattern, braces of the right side, sizes, and the axes of a mesh."""
    letters = draw(st.permutations(LETTERS))[: draw(st.integers(0, 6))]
    numbers = [name for name in ("layers", "experts") if draw(st.booleans())]
    sizes = {name: draw(st.integers(1, 4)) for name in (*letters, *numbers)}

    def grouped(names):
        groups, names = [], list(names)
        while names:
            count = draw(st.sampled_from([1, 1, 2, 3]))
            groups.append(names[:count])
            names = names[count:]
        return groups

    left = grouped(letters)
    left.insert(draw(st.integers(0, len(left))), ["1"]) if draw(st.booleans()) else None
    right = grouped(draw(st.permutations([*letters, *numbers])))
    names = [f"n{i}" if draw(st.booleans()) or len(group) > 1 else group[0] for i, group in enumerate(right)]
    taken = draw(st.permutations(["x", "y", ("x", "y")]))
    some = draw(st.permutations(names))[: draw(st.integers(0, 2))]
    resources = dict(zip(some, taken, strict=False))
    if "x" in resources.values() and ("x", "y") in resources.values():
        resources = {name: axes for name, axes in resources.items() if isinstance(axes, tuple)}
    if "y" in resources.values() and ("x", "y") in resources.values():
        resources = {name: axes for name, axes in resources.items() if isinstance(axes, tuple)}
    return numbers, left, right, names, sizes, resources


def side(groups):
    return " ".join(group[0] if len(group) == 1 else f"({' '.join(group)})" for group in groups)


@pytest.mark.full(0)
@pytest.mark.fast(0)
@settings(max_examples=200, deadline=None)
@given(cases())
def test_random_specs_agree_with_einops(case):
    numbers, left, right, names, sizes, resources = case
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    key = ".".join(["w", *(f"{{{name}}}" for name in numbers)])
    inside = ", ".join(name if group == [name] else f"{name}={side([group])}" for name, group in zip(names, right, strict=True))
    spec = {key: ("a/b", f"{side(left)} -> {{{inside}}}")}
    shape = [int(np.prod([sizes.get(name, 1) for name in group])) for group in left]
    counts = [sizes[name] for name in numbers]
    every = RNG.integers(0, 1 << 30, (*counts, *shape), dtype=np.int32)
    state = {key.format(**dict(zip(numbers, index, strict=True))): every[index] for index in np.ndindex(*counts)}
    letters = {name: size for name, size in sizes.items() if name not in numbers}
    want = einops.rearrange(every, f"{' '.join(numbers)} {side(left)} -> {side(right)}", **sizes)
    for placement in ((), (resources, mesh)):
        tree = from_state_dict(state, spec, *placement, sizes=letters)
        have = tree["a"]["b"]
        assert tuple(getattr(have, "dims", ())) == tuple(names)
        assert bits(have) == bits(want)
        back = to_state_dict(tree, spec, sizes=sizes)
        assert {name: bits(tensor) for name, tensor in back.items()} == {name: bits(one) for name, one in state.items()}


def test_positional_axes_on_the_right():
    state = {"conv": values(5, 3, 2, 4)}
    tree = from_state_dict(state, {"conv": ("conv", "o i h w -> h w {in=i, out=o}")})
    assert tree["conv"].dims == (None, None, "in", "out")
    assert bits(tree["conv"]) == bits(state["conv"].transpose(2, 3, 1, 0))
    plain = from_state_dict(state, {"conv": ("conv", "o i h w -> w h i o")})
    assert isinstance(plain["conv"], jax.Array)
    assert plain["conv"].shape == (4, 2, 3, 5)
    assert bits(to_state_dict(tree, {"conv": ("conv", "o i h w -> h w {in=i, out=o}")})["conv"]) == bits(state["conv"])


def test_the_order_of_the_axes_of_a_leaf_does_not_matter():
    state = state_dict()
    tree = from_state_dict(state, SPEC, sizes=SIZES)
    query = tree["layers"]["query"]
    tree["layers"]["query"] = nx.named(
        nx.positional(query, ["key", "layers", "embed_fsdp", "group", "kv_heads"]),
        ["key", "layers", "embed_fsdp", "group", "kv_heads"],
    )
    tree["embed"] = np.asarray(tree["embed"].data)
    with pytest.raises(CheckpointError, match=r"'embed', f32\[7,4\], for 'embed.weight': the pattern .* has the named axes"):
        to_state_dict(tree, SPEC)
    tree["embed"] = nx.named(tree["embed"], ["vocab", "embed_fsdp"])
    assert all(bits(tensor) == bits(state[key]) for key, tensor in to_state_dict(tree, SPEC).items())


FLOATS = ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


@pytest.mark.parametrize("name", [*FLOATS, "int8", "uint8", "int16", "uint32", "int32", "bool"])
def test_every_dtype_keeps_every_bit(name):
    dtype = jnp.dtype(name)
    raw = RNG.integers(0, 2 if name == "bool" else 256, (3, 4 * dtype.itemsize), dtype=np.uint8).view(dtype)
    spec = {"w": ("w", "a b -> {b, a}")}
    for tensor in (raw, jnp.asarray(raw)):
        tree = from_state_dict({"w": tensor}, spec)
        assert bits(tree["w"]) == bits(raw.T)
        assert bits(to_state_dict(tree, spec)["w"]) == bits(raw)


def test_dtype_casts_floats_only():
    state = {"w": np.asarray([1.001, 70000.0, np.nan], np.float32), "i": np.arange(3, dtype=np.int32)}
    spec = {"w": ("w", "a -> {a}"), "i": ("i", "a -> {a}")}
    tree = from_state_dict(state, spec, dtype="bfloat16")
    assert bits(tree["w"]) == bits(state["w"].astype(ml_dtypes.bfloat16))
    assert tree["i"].dtype == jnp.int32
    assert np.isinf(from_state_dict(state, spec, dtype=jnp.float16)["w"].data[1])
    quarter = from_state_dict({"w": state["w"][:1].astype(ml_dtypes.float8_e4m3fn)}, {"w": ("w", "a -> {a}")}, dtype="bfloat16")
    assert float(quarter["w"].data[0]) == 1.0
    with pytest.raises(ArgumentError, match=r"dtype is i32, but only tensors of floats are cast. Pass a floating-point dtype"):
        from_state_dict(state, spec, dtype=np.int32)


@pytest.mark.skipif(jax.config.jax_enable_x64, reason="64 bits are on")
def test_64_bits_are_not_cut_in_silence():
    state = {"w": np.ones(3), "i": np.arange(3)}
    spec = {"w": ("w", "a -> {a}"), "i": ("i", "a -> {a}")}
    with pytest.raises(
        CheckpointError, match=r"'w', f64\[3\]: JAX has no f64 .* Enable it, or pass dtype=.\n.*'i', i64\[3\]"
    ) as error:
        from_state_dict(state, spec)
    assert "Enable it.\nNothing was read" in str(error.value)
    assert from_state_dict({"w": state["w"]}, {"w": spec["w"]}, dtype="float32")["w"].dtype == jnp.float32


class Torch:
    """A tensor with those methods of PyTorch that are used. Short floats have no conversion to NumPy, and neither has a parameter."""

    def __init__(self, array, dtype, requires_grad=False):
        self.array, self.dtype, self.requires_grad = array, dtype, requires_grad

    shape = property(lambda self: self.array.shape)

    def detach(self):
        return Torch(self.array, self.dtype)

    def cpu(self):
        return self

    def new_zeros(self, count):
        return Torch(np.zeros(count, self.array.dtype), self.dtype)

    def short(self):
        return Torch(self.array.astype(np.int16), "torch.int16")

    def byte(self):
        return Torch(self.array.astype(np.uint8), "torch.uint8")

    def view(self, dtype):
        return Torch(self.array.view(dtype.removeprefix("torch.")), dtype)

    def numpy(self):
        if self.requires_grad or self.array.dtype.isbuiltin != 1:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


@pytest.mark.parametrize("name", FLOATS)
def test_tensors_of_pytorch(name):
    raw = RNG.integers(0, 256, (3, 4 * jnp.dtype(name).itemsize), dtype=np.uint8).view(jnp.dtype(name))
    state = {"w": Torch(raw, f"torch.{name}", requires_grad=True)}
    assert bits(from_state_dict(state, {"w": ("w", "a b -> {b, a}")})["w"]) == bits(raw.T)


def test_values_are_copied():
    array = np.arange(1 << 16, dtype=np.float32)
    tree = from_state_dict({"w": array}, {"w": ("w", "a -> {a}")})
    array[:] = -1
    assert float(tree["w"].data[3]) == 3
    out = to_state_dict(tree, {"w": ("w", "a -> {a}")})["w"]
    out[:] = -2
    assert float(tree["w"].data[3]) == 3


def test_tied_keys():
    state = state_dict()
    head = {"head.weight": ("head", "vocab e -> {embed_fsdp=e, vocab}")}
    tied = {"head.weight": "embed.weight"}
    tree = from_state_dict(state, SPEC | head, sizes=SIZES, tied=tied)
    assert bits(tree["head"]) == bits(state["embed.weight"].T)
    assert set(to_state_dict(tree, SPEC | head, tied=tied)) == set(state)
    assert set(to_state_dict(tree, SPEC | head)) == {*state, "head.weight"}
    # Without an entry in the spec, an equal tensor may be left over.
    chain = {"head.weight": "other.weight", "other.weight": "embed.weight"}
    same = state | {"head.weight": state["embed.weight"].copy()}
    assert "head" not in from_state_dict(same, SPEC, sizes=SIZES, tied=chain)
    other = state | {"head.weight": -state["embed.weight"]}
    with pytest.raises(CheckpointError, match=r"'head.weight' is tied to 'embed.weight', but their values differ. Add 'head.w"):
        from_state_dict(other, SPEC, sizes=SIZES, tied=tied)
    with pytest.raises(
        CheckpointError, match=r"'head.weight', f32\[3,4\], is tied to 'embed.weight', f32\[7,4\]. Tied tensors"
    ):
        from_state_dict(state | {"head.weight": values(3, 4)}, SPEC, sizes=SIZES, tied=tied)
    # A key of the spec that is there is read.
    untied = from_state_dict(other, SPEC | head, sizes=SIZES, tied=tied)
    assert bits(untied["head"]) == bits(-state["embed.weight"].T)
    with pytest.raises(
        CheckpointError, match=r"to_state_dict: 'head.weight' is tied to 'embed.weight', but their values differ"
    ):
        to_state_dict(untied, SPEC | head, tied=tied)
    with pytest.raises(
        CheckpointError, match=r"'head.weight' is tied to 'embd.weight', which spec does not.*mean 'embed.weight'"
    ):
        to_state_dict(untied, SPEC | head, tied={"head.weight": "embd.weight"})
    with pytest.raises(CheckpointError, match=r"'head.weight', f32\[7,4\], is tied to 'layers.0.norm.weight', f32\[4\]"):
        to_state_dict(untied, SPEC | head, tied={"head.weight": "layers.0.norm.weight"})
    with pytest.raises(
        CheckpointError, match=r"missing: 'head.weight', for 'head'. Neither is 'embd' there, to which it is tied"
    ):
        from_state_dict(state, SPEC | head, sizes=SIZES, tied={"head.weight": "embd"})
    with pytest.raises(CheckpointError, match=r"'head.weight' is tied to 'embd', which is missing"):
        from_state_dict(same, SPEC, sizes=SIZES, tied={"head.weight": "embd"})
    with pytest.raises(ArgumentError, match=r"tied has a circle, 'a' -> 'b' -> 'a'. Tie each key"):
        from_state_dict(state, SPEC, tied={"a": "b", "b": "a"})
    with pytest.raises(ArgumentTypeError, match=r"tied is \['a'\], not a dict from keys to keys. Write tied="):
        from_state_dict(state, SPEC, tied=["a"])


def test_every_problem_is_in_one_message_before_anything_is_read():
    class Unreadable(np.ndarray):
        def reshape(self, *shape):
            raise AssertionError("it was read")

    state = {key: tensor.view(Unreadable) for key, tensor in state_dict().items()}
    state["embedd.weight"] = state.pop("embed.weight")
    del state["layers.1.q.weight"]
    state["layers.2.norm.weight"] = values(5).view(Unreadable)
    for i in range(3):
        state[f"layers.{i}.rotary.inv_freq"] = values(2)
    with pytest.raises(CheckpointError) as error:
        from_state_dict(state, SPEC, sizes=SIZES)
    assert str(error.value).splitlines() == [
        "from_state_dict: spec does not match the state dict.",
        "  missing: 'embed.weight', for 'embed'. Did you mean 'embedd.weight'?",
        "  missing: 'layers.1.q.weight', for 'layers/query'. The keys have the numbers {0,2} of 'layers'. Numbers run from 0 without"
        " gaps, and sizes= has layers=3. For other numbers, write {other_layers:0,2}.",
        "  'layers.2.norm.weight' is f32[5], but 'layers.0.norm.weight' is f32[4]. Tensors that are stacked must have equal shapes"
        " and dtypes.",
        "  left over: 'embedd.weight', 'layers.{0-2}.rotary.inv_freq'. Add entries to spec, or allow keys with ignore=.",
        "Nothing was read or written. Correct spec= or sizes=.",
        "[NX014]",
    ]


def test_left_over_keys_can_be_ignored():
    state = state_dict() | {f"layers.{i}.rotary.inv_freq": np.ones(2) for i in range(3)}
    assert "layers" in from_state_dict(state, SPEC, sizes=SIZES, ignore="*.inv_freq")
    assert "layers" in from_state_dict(state, SPEC, sizes=SIZES, ignore=["*.0.rotary.*", "layers.[12].rotary*"])
    with pytest.raises(ArgumentTypeError, match=r"ignore is 3, not a list of patterns. Write ignore="):
        from_state_dict(state, SPEC, ignore=3)


WRONG_STATES = [
    (lambda s: s.pop("layers.0.q.weight"), {}, "missing: 'layers.0.q.weight'"),
    (lambda s: [s.pop(k) for k in list(s) if "q" in k], {}, r"missing: 'layers.\{0-2\}.q.weight'"),
    (lambda s: [s.pop(k) for k in list(s) if "layers" in k], {"layers": 0}, r"missing: 'layers.\{layers\}.q.weight'"),
    (lambda s: s.update({"layers.5.norm.weight": values(4)}), {}, r"missing: 'layers.\{3-5\}.q.weight'"),
    (lambda s: s.update({"layers.3.norm.weight": values(4)}), {"layers": 3}, "'layers.3.norm.weight' exceeds layers=3 of sizes="),
    (lambda s: None, {"layers": 5}, r"missing: 'layers.\{3-4\}.q.weight'"),
    (lambda s: s.update({"layers.00.norm.weight": values(4)}), {}, "left over: 'layers.0.norm.weight'"),
    (lambda s: s.update({"embed.weight": values(7)}), {}, r"'embed.weight', f32\[7\], pattern .*: the tensor has 1 axes, the pattern 2"),
    (lambda s: None, {"kv_heads": 5}, r"'layers.\{layers\}.q.weight', f32\[12,4\], .*: axis 0 of the tensor has size 12, not kv=5, g=3, d=2"),
    (lambda s: None, {"kv_heads": 5, "key": None}, "axis 0 of the tensor has size 12, which kv=5, g=3 does not divide"),
    (lambda s: None, {"key": 3}, "axis 0 of the tensor has size 12, not kv=2, g=3, d=3"),
    (lambda s: None, {"group": None, "key": None}, r"the sizes of 'g', 'd' do not follow from the shape. Pass sizes=\{'g': ...\}"),
    (lambda s: None, {"embed_fsdp": 8}, "axis 'embed_fsdp' in sizes= has size 8, not e=4"),
    (lambda s: None, {"g": 2}, "'g' in sizes= has size 2, not g=3"),
    (lambda s: s.update({"layers.1.norm.weight": np.ones(4, np.float16)}), {}, r"'layers.1.norm.weight' is f16\[4\], but 'layers.0.n"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sizes", "message"), WRONG_STATES, ids=[message[:40] for *_, message in WRONG_STATES])
def test_states_that_do_not_match(change, sizes, message):
    state = state_dict()
    change(state)
    merged = {name: size for name, size in ({**SIZES, "layers": None} | sizes).items() if size is not None}
    with pytest.raises(CheckpointError, match=message):
        from_state_dict(state, SPEC, sizes=merged)


def test_two_entries_with_one_key():
    spec = SPEC | {"layers.0.norm.weight": ("first", "e -> {embed=e}")}
    with pytest.raises(
        CheckpointError, match=r"'layers.0.norm.weight' matches 'layers.0.norm.weight' and 'layers.\{layers\}.norm"
    ):
        from_state_dict(state_dict(), spec, sizes=SIZES)


def test_many_problems_are_cut():
    spec = {f"w{i}": (f"w{i}", "a -> {a}") for i in range(12)}
    with pytest.raises(CheckpointError, match=r"missing: 'w7', for 'w7'.\n  ... and 4 more."):
        from_state_dict({}, spec)
    with pytest.raises(CheckpointError, match=r"left over: 'a', 'b', 'c', 'd' and 2 more"):
        from_state_dict(dict.fromkeys("abcdef", values(1)), {})


PATTERNS = [
    ("a b", "there is no '->'", 3),
    ("a b -> {a, b} -> {a}", "second '->'", 14),
    ("a b -> {a}", "axis 'b' appears on the left only. Add it to the right side.", 2),
    (
        "a -> {a, bb=b}",
        r"axis 'b' is neither on the left nor a number in the key. Write \{b\} in the key to stack tensors.",
        12,
    ),
    ("vocab -> {vocob}", r"axis 'vocob' is neither .* key. Did you mean 'vocab'\? Write", 10),
    ("a layers -> {a, layers}", "'layers' is a number in the key, and not an axis of the tensor", 2),
    ("a ... -> {a}", "'...' is not supported. Write every axis of the tensor.", 2),
    ("{a, b} -> {a, b}", "a tensor of a state dict has no named axes. Write braces on the right only.", 0),
    ("(a b -> {a, b}", "this parenthesis is never closed", 0),
    ("a 2 -> {a}", "the size 2 is not valid here", 2),
    ("a b -> {a, a=b}", "name 'a' appears twice", 11),
    ("a b -> {a, b", "this brace is never closed", 7),
]


@pytest.mark.parametrize(("pattern", "message", "at"), PATTERNS, ids=[pattern for pattern, *_ in PATTERNS])
def test_malformed_patterns_have_a_caret(pattern, message, at):
    key = "w.{layers}" if "layers" in pattern else "w"
    with pytest.raises(RearrangeError, match=message) as error:
        from_state_dict({}, {key: ("w", pattern)})
    first, second, caret, _ = str(error.value).split("\n")
    assert first.startswith(f"from_state_dict: spec[{key!r}]: ")
    assert (second, caret) == (f"  {pattern}", f"  {' ' * at}^")


def test_a_number_that_the_right_side_lacks():
    with pytest.raises(RearrangeError, match=r"the key has the number 'layers', which the right side lacks. Add the axis"):
        from_state_dict({}, {"w.{layers}": ("w", "a -> {a}")})


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ([("w", "a")], ArgumentTypeError, "spec is .*, not a dict. Write"),
        ({3: ("w", "a -> {a}")}, ArgumentTypeError, "spec has the key 3, not a string"),
        ({"w": "a -> {a}"}, ArgumentTypeError, r"spec\['w'\] is 'a -> {a}', not a place and a pattern. Write"),
        ({"w": ("w", "a -> {a}", 3)}, ArgumentTypeError, "not a place and a pattern"),
        ({"w.{0}": ("w", "a -> {a}")}, ArgumentError, r"the key pattern 'w.\{0\}' has braces that are not a name. Write a name"),
        ({"w.{a": ("w", "a -> {a}")}, ArgumentError, r"the key pattern 'w.\{a' has braces"),
        ({"w": ("a//b", "a -> {a}")}, ArgumentError, "the place 'a//b' with an empty part"),
        ({"w": ("a", "a -> {a}"), "v": ("a", "a -> {a}")}, ArgumentError, "spec has the place 'a' twice, for 'w' and 'v'"),
        ({"w": ("a", "a -> {a}"), "v": ("a/b", "a -> {a}")}, ArgumentError, "an array at 'a', for 'w', and one inside of it at 'a/b'"),
    ],
)  # fmt: skip
def test_malformed_specs(spec, error, message):
    for convert in (from_state_dict, to_state_dict, state_dict_report):
        with pytest.raises(error, match=f"{convert.__name__}: .*{message}"):
            convert({}, spec)


def test_wrong_arguments():
    spec = {"w": ("w", "a -> {a}")}
    with pytest.raises(ArgumentTypeError, match=r"state is \[\], not a dict of tensors. Pass the state dict, such as"):
        from_state_dict([], spec)
    for tensor in ([1.0], "text", np.asarray(["a"]), np.zeros(2, "V2")):
        with pytest.raises(
            ArgumentTypeError, match=r"'w' is .*, of type .*, not a tensor of numbers. Pass arrays of NumPy or JAX"
        ):
            from_state_dict({"w": tensor}, spec)
    with pytest.raises(ArgumentTypeError, match=r"sizes is 3, not a dict of sizes"):
        from_state_dict({"w": values(3)}, spec, sizes=3)
    with pytest.raises(ArgumentTypeError, match=r"sizes\['a'\] is 2.5, not a size. Pass an integer"):
        from_state_dict({"w": values(3)}, spec, sizes={"a": 2.5})
    with pytest.raises(
        ArgumentTypeError, match=r"'w', f32\[3\], has no values while it is traced. Call from_state_dict outside"
    ):
        jax.jit(lambda w: from_state_dict({"w": w}, spec))(values(3))
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    two = {"w": ("w", "a b -> {a, b}")}
    with pytest.raises(PlacementConflictError, match=r"from_state_dict: "):
        from_state_dict({"w": values(4, 4)}, two, {"a": "x", "b": "x"}, mesh)
    with pytest.raises(MeshError, match=r"from_state_dict: there is no mesh"):
        from_state_dict({"w": values(4, 4)}, two, {"a": "x"})
    with pytest.raises(AxisResourceError, match=r"from_state_dict: this function cannot be called inside a mapped function"):
        nx.xmap(lambda x: from_state_dict({}, {}) or x, ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh)(values(4))


def test_trees_that_do_not_match():
    tree = from_state_dict(state_dict(), SPEC, sizes=SIZES)
    wrong = tree | {"embeds": tree["embed"]}
    del wrong["embed"]
    with pytest.raises(CheckpointError) as error:
        to_state_dict(wrong, SPEC)
    assert str(error.value).splitlines() == [
        "to_state_dict: spec does not match the tree.",
        "  the tree has no array at 'embed', for 'embed.weight'. Did you mean 'embeds'?",
        "  the tree has 'embeds', f32[]{vocab:7, embed_fsdp:4}, which has no key. Add an entry to spec, or remove the array from the"
        " tree.",
        "Nothing was read or written. Correct spec= or sizes=.",
        "[NX014]",
    ]
    renamed = tree | {"embed": nx.rename(tree["embed"], {"vocab": "words"})}
    message = r"'embed', f32\[\]\{words:7, embed_fsdp:4\}, for 'embed.weight': the pattern .* has the named axes 'vocab', 'embed_fsdp'"
    with pytest.raises(CheckpointError, match=message):
        to_state_dict(renamed, SPEC)
    with pytest.raises(CheckpointError, match=r"axis 'vocab' in sizes= has size 8, not vocab=7"):
        to_state_dict(tree, SPEC, sizes={"vocab": 8})
    with pytest.raises(ArgumentTypeError, match=r"'embed' of the tree, 3, is no array. Pass a tree of arrays"):
        to_state_dict(tree | {"embed": 3}, SPEC)
    with pytest.raises(ArgumentTypeError, match=r"'embed' of the tree, .*, has no values while it is traced"):
        jax.jit(lambda tree: to_state_dict(tree, SPEC))(tree)
    product = {"w": ("w", "a b -> {ab=(a b)}")}
    flat = {"w": nx.named(jnp.arange(6), ["ab"])}
    with pytest.raises(CheckpointError, match=r"the sizes of 'a', 'b' do not follow from the shape. Pass sizes="):
        to_state_dict(flat, product)
    assert to_state_dict(flat, product, sizes={"b": 3})["w"].shape == (2, 3)
    twice = {"w.{a}": ("w", "-> {a}"), "w.0": ("v", "->")}
    both = {"w": nx.named(jnp.arange(2), ["a"]), "v": jnp.zeros(())}
    with pytest.raises(CheckpointError, match=r"'v', f32.., for 'w.0': its key 'w.0' is that of another entry of spec"):
        to_state_dict(both, twice)


def test_a_tree_may_have_other_containers():
    tree = {"a": [nx.named(jnp.arange(3), ["k"]), jnp.ones(2)]}
    spec = {"x": ("a/0", "k -> {k}"), "y": ("a/1", "k -> k")}
    assert {key: tensor.tolist() for key, tensor in to_state_dict(tree, spec).items()} == {"x": [0, 1, 2], "y": [1, 1]}


def test_gradients_have_the_same_spec():
    state = state_dict()
    tree = from_state_dict(state, SPEC, sizes=SIZES)
    gradient = jax.grad(lambda tree: jnp.sum(tree["layers"]["query"].data ** 2))(tree)
    for key, tensor in to_state_dict(gradient, SPEC).items():
        np.testing.assert_allclose(tensor, 2 * state[key] if ".q." in key else np.zeros_like(state[key]))


def test_the_report_has_each_key_with_its_place():
    state = state_dict() | {f"layers.{i}.rotary.inv_freq": np.ones(2) for i in range(3)} | {"mask": np.ones((1, 2), np.int8)}
    spec = SPEC | {"head.weight": ("head", "vocab e -> {embed_fsdp=e, vocab}"), "mask": ("mask", "1 b -> b")}
    tied = {"head.weight": "embed.weight"}
    report = state_dict_report(state, spec, sizes=SIZES, tied=tied, ignore="*.inv_freq", dtype="bfloat16")
    assert str(report) == "\n".join(
        [
            "embed.weight  f32[7,4]  vocab:7 e:4",
            "    -> embed  bf16[]{vocab:7, embed_fsdp:4}",
            "layers.{0-2}.q.weight  f32[12,4]  (kv:2 g:3 d:2) e:4",
            "    -> layers/query  bf16[]{layers:3, embed_fsdp:4, kv_heads:2, group:3, key:2}",
            "layers.{0-2}.norm.weight  f32[4]  e:4",
            "    -> layers/norm  bf16[]{layers:3, embed:4}",
            "head.weight  f32[7,4]  vocab:7 e:4, tied to embed.weight",
            "    -> head  bf16[]{embed_fsdp:4, vocab:7}",
            "mask  i8[1,2]  1 b:2",
            "    -> mask  i8[2]",
            "layers.{0-2}.rotary.inv_freq, ignored",
        ]
    )
    assert report.rows[3].tied == ("embed.weight",)
    copies = state_dict_report(state | {"head.weight": state["embed.weight"]}, SPEC, sizes=SIZES, tied=tied, ignore="*[!t]")
    assert re.search("^head.weight, tied to embed.weight$", str(copies), re.MULTILINE)
