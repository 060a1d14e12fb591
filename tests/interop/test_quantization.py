"""Quantized tensors: MXFP4 and 8-bit floats against formulas in NumPy, in every placement, and what is read of them."""

import itertools
import math
import subprocess
import sys

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from namedax.errors import ArgumentError, ArgumentTypeError, CheckpointError
from namedax.interop import from_state_dict, load_safetensors, quantization, state_dict_report, to_state_dict
from tests.harness import environment_without_devices
from tests.interop.test_layer_kinds import KINDS, mesh_of
from tests.interop.test_state_dicts import bits

RNG = np.random.default_rng(0)
FLOAT8 = ml_dtypes.float8_e4m3fn


# --- formulas -------------------------------------------------------------------------------------


def fp4(code):
    """A float of 4 bits: a sign, an exponent of 2 bits with the bias 1, and a mantissa of 1 bit."""
    sign, exponent, mantissa = code >> 3, code >> 1 & 3, code & 1
    return (-1) ** sign * ((1 + mantissa / 2) * 2.0 ** (exponent - 1) if exponent else mantissa / 2)


def fp8(code):
    """A float of 8 bits: a sign, an exponent of 4 bits with the bias 7, and a mantissa of 3 bits."""
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    return (-1) ** sign * ((1 + mantissa / 8) * 2.0 ** (exponent - 7) if exponent else mantissa / 8 * 2.0**-6)


FP4 = np.asarray([fp4(code) if code != 8 else -0.0 for code in range(16)])
FP8 = np.asarray([fp8(code) if code != 128 else -0.0 for code in range(256)])


def cast(values, dtype):
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(dtype)


def of_mxfp4(blocks, scales, dtype=ml_dtypes.bfloat16):
    """Return the axes x, k, n, by float64, in which all products are exact."""
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:3], 32)
    values = FP4[codes] * 2.0 ** (scales.astype(float) - 127)[..., None]
    return cast(values.reshape(*blocks.shape[:2], -1).transpose(0, 2, 1), dtype)


def of_float8(values, scales, block=(128, 128), dtype=ml_dtypes.bfloat16):
    """Multiply in float32, one element after the other."""
    out = np.empty(values.shape, np.float32)
    for *lead, row, column in np.ndindex(*values.shape):
        scale = scales[(*lead, row // block[0], column // block[1])].astype(np.float32)
        out[(*lead, row, column)] = FP8[values[(*lead, row, column)].view(np.uint8)].astype(np.float32) * scale
    return cast(out, dtype)


def blocks_of(x, n, groups):
    return RNG.integers(0, 256, (x, n, groups, 16), np.uint8), RNG.integers(115, 135, (x, n, groups), np.uint8)


def float8_of(*shape):
    codes = RNG.integers(0, 256, shape, np.uint8)
    codes[codes & 127 == 127] = 5  # no NaN
    return codes.view(FLOAT8)


def scales_of(*shape):
    return (RNG.lognormal(size=shape) / 1000).astype(np.float32)


def loaded(state, spec, resources, kind, tmp_path, **options):
    """Load a state in memory and from a file."""
    mesh = mesh_of(resources, kind)
    safetensors.numpy.save_file(state, tmp_path / "m.safetensors")
    yield from_state_dict(state, spec, resources, mesh, **options)
    yield load_safetensors(tmp_path / "m.safetensors", spec, resources, mesh, **options)


PLACEMENTS = [None, {"experts": "x", "hidden": "y"}, {"embed": "x", "hidden": "y"}, {"embed": ("x", "y")}, {"layers": "y"}]
MXFP4 = {
    "layers.{layers:1..}.gate_up": ("{part:gate,up}", "x e (f part) -> {layers, experts=x, embed=e, hidden=f}"),
    "layers.{layers:1..}.down": ("down", "x f e -> {layers, experts=x, hidden=f, embed=e}"),
    "layers.{layers:1..}.bias": ("bias", "x e -> {layers, experts=x, embed=e}"),
}


@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("resources", PLACEMENTS, ids=str)
def test_experts_as_in_gpt_oss(resources, kind, tmp_path, monkeypatch):
    monkeypatch.setattr("namedax.interop.tensors._DEQUANTIZED", 3000)  # several parts of each block
    state, full = {}, {}
    for i in (1, 2):
        for name, shape in {"gate_up": (4, 64, 2), "down": (4, 64, 1)}.items():
            blocks, scales = blocks_of(*shape)
            state |= {f"layers.{i}.{name}_blocks": blocks, f"layers.{i}.{name}_scales": scales}
            full[f"layers.{i}.{name}"] = of_mxfp4(blocks, scales)
        state[f"layers.{i}.bias"] = full[f"layers.{i}.bias"] = RNG.normal(size=(4, 64)).astype(np.float32)
    want = from_state_dict(full, MXFP4)
    for tree in loaded(state, MXFP4, resources, kind, tmp_path, quantization="mxfp4"):
        assert {name: bits(one) for name, one in tree.items()} == {name: bits(one) for name, one in want.items()}
    assert tree["gate"].dtype == jnp.bfloat16
    # Saving writes the tensors without quantization.
    assert {key: bits(one) for key, one in to_state_dict(tree, MXFP4).items()} == {key: bits(one) for key, one in full.items()}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float16"])
def test_every_byte_with_every_exponent(dtype):
    blocks = np.broadcast_to(np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16), (1, 256, 16, 16))
    scales = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, :, None], (1, 256, 16))
    state = {"w_blocks": blocks, "w_scales": scales}
    tree = from_state_dict(state, {"w": ("w", "x k n -> {x, k, n}")}, quantization="mxfp4", dtype=dtype)
    assert bits(tree["w"]) == bits(of_mxfp4(blocks, scales, dtype))


@pytest.mark.parametrize(
    ("pattern", "resources"),
    [
        ("x (a b) n -> {x, b, a, n}", {"b": ("x", "y")}),  # single elements of a group of 32
        ("x (a b) n -> {x, b, a, n}", {"a": "x"}),
        ("x (k part) n -> {x, k, n}", {"k": ("x", "y")}),
        ("x (part k) n -> {n, x, k}", {"k": "x", "n": "y"}),
        ("(x part) k n -> {k, nx=(n x)}", {"nx": ("x", "y")}),
    ],
)
def test_blocks_that_are_not_ranges(pattern, resources, monkeypatch):
    monkeypatch.setattr("namedax.interop.tensors._DEQUANTIZED", 300)
    blocks, scales = blocks_of(4, 24, 2)
    spec = {"w": ("{part:one,two}" if "part" in pattern else "one", pattern)}
    options = {"sizes": {"b": 8}} if "b" in pattern else {}
    tree = from_state_dict(
        {"w_blocks": blocks, "w_scales": scales}, spec, resources, mesh_of({}, KINDS[0]), quantization="mxfp4", **options
    )
    want = from_state_dict({"w": of_mxfp4(blocks, scales)}, spec, **options)
    assert {name: bits(one) for name, one in tree.items()} == {name: bits(one) for name, one in want.items()}


FP8_SPEC = {
    "layers.{sparse:1..}.experts.{experts}.up.weight": ("up", "f e -> {layers=sparse, experts, embed=e, hidden=f}"),
    "norm": ("norm", "e -> {embed=e}"),
}


@pytest.mark.fast(2)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("resources", PLACEMENTS, ids=str)
def test_experts_as_in_deepseek(resources, kind, tmp_path, monkeypatch):
    monkeypatch.setattr("namedax.interop.tensors._DEQUANTIZED", 1000)
    state = {"norm": RNG.normal(size=72).astype(np.float32)}
    full = dict(state)
    how = {"quant_method": "fp8", "weight_block_size": [16, 32], "activation_scheme": "dynamic"}
    for i, j in itertools.product((1, 2), range(4)):
        key = f"layers.{i}.experts.{j}.up.weight"
        values, scales = float8_of(40, 72), scales_of(3, 3)  # the last blocks have 8 rows and 8 columns
        state |= {key: values, f"{key}_scale_inv": scales}
        full[key] = of_float8(values, scales, (16, 32))
    want = from_state_dict(full, FP8_SPEC)
    for tree in loaded(state, FP8_SPEC, resources, kind, tmp_path, quantization=how):
        assert {name: bits(one) for name, one in tree.items()} == {name: bits(one) for name, one in want.items()}
    assert {key: bits(one) for key, one in to_state_dict(tree, FP8_SPEC).items()} == {
        key: bits(one) for key, one in full.items()
    }


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
@pytest.mark.parametrize("of_scales", ["float32", "bfloat16"])
def test_blocks_of_128_by_128(of_scales, dtype):
    values, scales = float8_of(2, 130, 129), scales_of(2, 2, 2).astype(of_scales)
    tree = from_state_dict(
        {"w": values, "w_scale_inv": scales}, {"w": ("w", "x a b -> {x, b, a}")}, quantization="fp8", dtype=dtype
    )
    assert bits(tree["w"]) == bits(of_float8(values, scales, dtype=dtype or ml_dtypes.bfloat16).transpose(0, 2, 1))


def test_some_of_the_stacked_tensors_are_quantized():
    values, scales = float8_of(6, 4), scales_of(1, 1)
    plain = RNG.normal(size=(6, 4)).astype(ml_dtypes.bfloat16)
    state = {"w.0": plain, "w.1": values, "w.1_scale_inv": scales}
    spec = {"w.{i}": ("w", "a b -> {i, a, b}")}
    tree = from_state_dict(state, spec, quantization="fp8")
    assert bits(tree["w"]) == bits(np.stack([plain, of_float8(values, scales)]))
    assert str(state_dict_report(state, spec, quantization="fp8")).startswith("w.{0-1}  bf16[6,4], quantized  a:6 b:4\n")
    assert "quantized" not in str(state_dict_report({"w.0": plain}, spec, quantization="fp8"))


def test_tied_tensors():
    values, scales = float8_of(6, 4), scales_of(1, 1)
    state = {"a": values, "a_scale_inv": scales}
    spec, tied = {"a": ("a", "m n -> {m, n}")}, {"b": "a"}
    tree = from_state_dict(state, spec | {"b": ("b", "m n -> {n, m}")}, tied=tied, quantization="fp8")
    assert bits(tree["b"]) == bits(of_float8(values, scales).T)
    copy = state | {"b": values.copy(), "b_scale_inv": scales.copy()}
    assert from_state_dict(copy, spec, tied=tied, quantization="fp8").keys() == {"a"}
    for other in ({"b_scale_inv": scales * 2}, {"b": -values}):
        with pytest.raises(CheckpointError, match=r"'b' is tied to 'a', but their values differ"):
            from_state_dict(copy | other, spec, tied=tied, quantization="fp8")
    plain = state | {"b": of_float8(values, scales)}
    with pytest.raises(CheckpointError, match=r"'b' is tied to 'a', but their values differ"):
        from_state_dict(plain, spec, tied=tied, quantization="fp8")


@pytest.mark.parametrize("resources", [{"x": "x", "k": "y"}, {"k": ("x", "y")}, {"n": "x"}], ids=str)
@pytest.mark.parametrize("method", ["mxfp4", "fp8"])
def test_each_element_is_dequantized_once(method, resources, monkeypatch):
    counts = []
    kind = {"mxfp4": quantization._Mxfp4, "fp8": quantization._Float8}[method]
    take = kind.take

    def counted(self, index, dtype):
        counts.append(math.prod(map(len, index)))
        return take(self, index, dtype)

    monkeypatch.setattr(kind, "take", counted)
    monkeypatch.setattr("namedax.interop.tensors._DEQUANTIZED", 128)
    blocks, scales = blocks_of(4, 16, 2)
    state = {"w_blocks": blocks, "w_scales": scales}
    if method == "fp8":
        state = {"w": float8_of(4, 64, 16), "w_scale_inv": scales_of(4, 1, 1)}
    from_state_dict(state, {"w": ("w", "x k n -> {x, k, n}")}, resources, mesh_of({}, KINDS[0]), quantization=method)
    assert sum(counts) == 4 * 64 * 16
    assert max(counts) <= 128
    counts.clear()
    # Two parts of one tensor.
    from_state_dict(state, {"w": ("{p:a,b}", "x k (n p) -> {x, k, n}")}, quantization=method)
    assert sum(counts) == 4 * 64 * 16


SCRIPT = """
import sys, threading
import jax, numpy as np
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
import safetensors.numpy
import namedax as nx
path, name = sys.argv[1:]
mesh = jax.make_mesh((8,), ("x",))
jax.block_until_ready(nx.shard(nx.named(jax.numpy.ones((8, 8)), ["k", "n"]), {"k": "x"}, mesh))
spec = {"w": ("{part:a,b}", "x k (n part) -> {x, k, n}"), "v": ("v", "n k -> {k, n}")}

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
tree = nx.interop.load_safetensors(path + "/mxfp4", {"w": spec["w"]}, {name: "x"}, mesh, quantization="mxfp4")
tree |= nx.interop.load_safetensors(path + "/fp8", {"v": spec["v"]}, {name: "x"}, mesh, quantization="fp8")
done.set()
thread.join()
size = sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
print("bytes", max(peak, resident()) - before - size, size)
"""


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", ["k", "n"])
def test_dequantizing_takes_about_one_block_beside_the_result(name, tmp_path):
    """Blocks of the results have 2 and 4 MiB. The results have 96 MiB, and the files 52 MiB."""
    for method, state in {
        "mxfp4": {"w_blocks": np.full((2, 8192, 64, 16), 7, np.uint8), "w_scales": np.full((2, 8192, 64), 127, np.uint8)},
        "fp8": {"v": np.full((4096, 4096), 1, FLOAT8), "v_scale_inv": np.ones((32, 32), np.float32)},
    }.items():
        (tmp_path / method).mkdir()
        safetensors.numpy.save_file(state, tmp_path / method / "m.safetensors")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), name]
    output = subprocess.run(command, env=environment_without_devices(), capture_output=True, text=True, check=True)
    beside, size = map(int, output.stdout.split()[1:])
    assert size == 96 * 2**20
    assert beside < 32 * 2**20


# --- errors ---------------------------------------------------------------------------------------

W = {"w": ("w", "x k n -> {x, k, n}")}
BLOCKS, SCALES = blocks_of(2, 3, 1)


@pytest.mark.parametrize(
    ("state", "method", "message"),
    [
        ({"w_blocks": BLOCKS}, "mxfp4", r"'w_blocks', u8\[2,3,1,16\], has no scales, 'w_scales'."),
        ({"w_blocks": BLOCKS, "w_scales": SCALES[:1]}, "mxfp4", r"'w_scales', u8\[1,3,1\]: these blocks have scales of the type u8\[2,3,1\]"),
        ({"w_blocks": BLOCKS, "w_scales": SCALES.astype(np.float32)}, "mxfp4", r"have scales of the type u8\[2,3,1\]"),
        ({"w_blocks": BLOCKS[0], "w_scales": SCALES[0]}, "mxfp4", "blocks of mxfp4 are u8 with the axes experts, rows, groups and 16"),
        ({"w_blocks": BLOCKS[..., :8], "w_scales": SCALES}, "mxfp4", "blocks of mxfp4 are u8 with the axes experts, rows, groups and 16"),
        ({"w_blocks": BLOCKS.astype(np.int8), "w_scales": SCALES}, "mxfp4", "blocks of mxfp4 are u8"),
        ({"w_blocks": BLOCKS, "w_scales": SCALES, "w": BLOCKS}, "mxfp4", "'w' is stored without quantization, and as 'w_blocks'"),
        ({"w": float8_of(2, 3, 4)}, "fp8", r"'w', float8_e4m3fn\[2,3,4\], has no scales, 'w_scale_inv'"),
        ({"w": float8_of(2, 3, 4), "w_scale_inv": scales_of(2, 1)}, "fp8", r"floating-point scales of shape \[2, 1, 1\]"),
        ({"w": float8_of(2, 129, 4), "w_scale_inv": scales_of(2, 1, 1)}, "fp8", r"blocks of 128x128 values have .* \[2, 2, 1\]"),
        ({"w": float8_of(2, 3, 4), "w_scale_inv": np.ones((2, 1, 1), np.uint8)}, "fp8", r"floating-point scales"),
        ({"w": scales_of(2, 3, 4), "w_scale_inv": scales_of(2, 1, 1)}, "fp8", "values of fp8 are float8_e4m3fn with at least two axes"),
        ({"w": float8_of(4), "w_scale_inv": scales_of(1)}, "fp8", "values of fp8 are float8_e4m3fn with at least two axes"),
        ({"w_blocks": BLOCKS, "w_scales": SCALES}, None, "missing: 'w', .*left over: .* Pass quantization='mxfp4' to dequantize tensors."),
        ({"w": float8_of(2, 3, 4), "w_scale_inv": scales_of(2, 1, 1)}, None, "left over: 'w_scale_inv'.* Pass quantization='fp8' to"),
    ],
)  # fmt: skip
def test_quantized_tensors_that_are_not_valid(state, method, message):
    for convert in (from_state_dict, state_dict_report):
        with pytest.raises(CheckpointError, match=f"(?s){convert.__name__}: .*{message}"):
            convert(state, W, quantization=method)


def test_tensors_without_scales_can_be_ignored():
    state = {"w_blocks": BLOCKS, "w_scales": SCALES, "other_blocks": BLOCKS}
    assert from_state_dict(state, W, quantization="mxfp4", ignore="other*")
    assert from_state_dict({"w": BLOCKS[..., 0], "v": float8_of(3)}, W, quantization="fp8", ignore="v")


def test_scales_are_not_ignored():
    """Without its scales, a cast would give wrong values."""
    state = {"w": float8_of(2, 3, 4), "w_scale_inv": scales_of(2, 1, 1), "v": float8_of(4, 4), "v_scale_inv": scales_of(1, 1)}
    message = (
        r"ignored: 'w_scale_inv', but the tensors with these scales are in spec. Pass quantization='fp8' to dequantize them"
    )
    with pytest.raises(CheckpointError, match=message):
        from_state_dict(state, W, ignore="*", dtype="bfloat16")
    assert from_state_dict(state, W, ignore="v*", quantization="fp8").keys() == {"w"}
    both = W | {"w_scale_inv": ("scale", "x k n -> {x, k, n}")}
    assert from_state_dict(state, both, ignore="v*")["w"].dtype == FLOAT8


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("fp4", ArgumentError, r"the method of quantization is 'fp4'. Did you mean 'mxfp4'\? The supported ones are 'mxfp4' and 'fp8'"),
        ({"quant_method": "awq"}, ArgumentError, "the method of quantization is 'awq'. The supported ones"),
        ({}, ArgumentError, "the method of quantization is None. The supported ones"),
        ({"quant_method": "fp8", "weight_block_size": None}, ArgumentError, "'weight_block_size' of quantization is None, not two sizes"),
        ({"quant_method": "fp8", "weight_block_size": [0, 1]}, ArgumentError, r".* is \[0, 1\], not two sizes. Only scales of blocks are"),
        (3, ArgumentTypeError, r"quantization is 3, not a string or a dict. Pass quantization=\"mxfp4\""),
    ],
)  # fmt: skip
def test_wrong_methods(value, error, message):
    for convert in (from_state_dict, state_dict_report):
        with pytest.raises(error, match=f"{convert.__name__}: {message}"):
            convert({}, {}, quantization=value)


def test_a_configuration_of_mxfp4():
    state = {"w_blocks": BLOCKS, "w_scales": SCALES}
    config = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.embed_tokens"]}
    assert bits(from_state_dict(state, W, quantization=config)["w"]) == bits(of_mxfp4(BLOCKS, SCALES))
