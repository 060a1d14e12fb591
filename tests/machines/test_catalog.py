"""The machines of the catalog: gathers and products computed by hand from their data sheets, and public measurements."""

import dataclasses
import math
import pathlib
import subprocess
import sys

import pytest

import namedax as nx
from namedax.errors import MeshError
from namedax.insight.analysis.records import Collective, Operation

TPUS = ["v4", "v5e", "v5p", "v6e", "tpu7x"]
GPUS = ["a100", "h100", "h200", "b200", "gb200_nvl72", "mi300x"]
US = 1e-6


def collective(kind, axes, n, payload):
    return Collective(kind, axes, n, ("d",), payload, 0, 1, "float32", "nx.dot", "model.py:1", "forward")


def product(n, dtype, word):
    moved = 3 * n * n * word
    return Operation("dot_general", ("d",), 2.0 * n**3, moved, 1, dtype, "nx.dot", "model.py:1", "forward")


@pytest.mark.parametrize("name", TPUS + GPUS)
def test_entries(name):
    entry = getattr(nx.machines, name)
    assert entry.name == name
    assert entry.peak("bfloat16") > 1e14
    assert 10e9 < entry.memory < 200e9
    # A product becomes bound by arithmetic at some hundreds of operations for each byte, and a collective needs more still.
    assert 100 < entry.peak("bfloat16") / entry.bandwidth < 1000
    link = entry.links[...]
    assert link.bandwidth < entry.bandwidth
    assert link.beyond.bandwidth < link.bandwidth
    assert not entry.overlap
    assert entry.launch == 0
    assert entry.memory_efficiency == 1
    assert entry.sources
    assert all(text[0].islower() or text[0] == '"' for text in entry.sources)
    mesh = {"data": 512, "model": 8} if name != "gb200_nvl72" else {"data": 64, "model": 72}
    n = mesh["model"]
    everywhere = entry.time_of(collective("all-reduce", ("data", "model"), math.prod(mesh.values()), 10**9), mesh)
    assert entry.time_of(collective("all-reduce", ("model",), n, 10**9), mesh) > 1e9 / link.bandwidth
    assert everywhere > 1e9 / (2 * link.bandwidth)


@pytest.mark.parametrize(
    ("name", "dtype", "word", "per_second"),
    [
        ("v4", "bfloat16", 2, 275e12),
        ("v4", "int8", 1, 275e12),
        ("v5e", "int8", 1, 393e12),
        ("v5p", "bfloat16", 2, 459e12),
        ("v6e", "float32", 4, 918e12),
        ("v6e", "float8_e4m3fn", 1, 918e12),  # no rate of its own, as on the page of TPU7x
        ("tpu7x", "bfloat16", 2, 1153.5e12),  # half of a chip
        ("tpu7x", "float8_e5m2", 1, 2307e12),
        # NVIDIA's rates with sparsity, halved, and what the Open Book reached.
        ("a100", "bfloat16", 2, 624e12 / 2 * 271.2 / 312),
        ("a100", "float32", 4, 312e12 / 2),
        ("a100", "int8", 1, 1248e12 / 2),
        ("h100", "bfloat16", 2, 1979e12 / 2 * 794.5 / 989),
        ("h100", "float8_e4m3fn", 1, 3958e12 / 2 * 1402.6 / 1979),
        ("h200", "float8_e4m3fn", 1, 3958e12 / 2 * 1453.4 / 1979),
        ("b200", "bfloat16", 2, 4500e12 / 2 * 1745 / 2250),
        ("b200", "float8_e4m3fn", 1, 72e15 / 8 / 2 * 3432.5 / 4500),
        ("b200", "float4_e2m1fn", 1, 144e15 / 8 / 2),
        ("gb200_nvl72", "float16", 2, 10e15 / 2 / 2 * 1822 / 2500),
        ("gb200_nvl72", "float4_e2m1fn", 1, 40e15 / 2 / 2),
        ("gb200_nvl72", "int8", 1, 20e15 / 2 / 2),
        ("mi300x", "bfloat16", 2, 668.4e12),
        ("mi300x", "float8_e4m3fn", 1, 2614.9e12),
        ("mi300x", "float64", 8, 163.4e12),
    ],
)
def test_a_large_product(name, dtype, word, per_second):
    # 2 * 32768**3 operations; its three matrices of 2 to 8 GB take a few percent of that time.
    have = getattr(nx.machines, name).time_of(product(2**15, dtype, word))
    assert have == pytest.approx(2 * 2**45 / per_second, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "memory", "bandwidth"),
    [
        ("v4", 32 * 2**30, 1200e9),
        ("v5e", 16e9, 819e9),
        ("v5p", 95e9, 2765e9),
        ("v6e", 32e9, 1638e9),
        ("tpu7x", 96 * 2**30, 3690e9),
        ("a100", 80e9, 2039e9),
        ("h100", 80e9, 3.35e12),
        ("h200", 141e9, 4.8e12),
        ("b200", 1440e9 / 8, 64e12 / 8),
        ("gb200_nvl72", 186e9, 8e12),
        ("mi300x", 192e9, 5.3e12),
    ],
)
def test_memory(name, memory, bandwidth):
    entry = getattr(nx.machines, name)
    assert entry.memory == memory
    copied = Operation("add", ("d",), 0.0, 2 * 10**9, 1, "float32", "nx.add", "model.py:1", "forward")
    assert entry.time_of(copied) == pytest.approx(2e9 / bandwidth)


@pytest.mark.parametrize(
    ("name", "mesh", "wanted"),
    [
        # A gather of 1 GB along the last axis, within a pod or a node, and its latencies.
        ("v4", {"x": 8}, 7 / 8 * 1e9 / 90e9 + 4 * US),  # a ring, since 8 is a multiple of 4
        ("v4", {"x": 6}, 5 / 6 * 1e9 / 45e9 + 5 * US),  # a line
        ("v5e", {"x": 16}, 15 / 16 * 1e9 / 90e9 + 8 * US),
        ("v5p", {"x": 4}, 3 / 4 * 1e9 / 180e9 + 2 * US),
        ("v6e", {"x": 8}, 7 / 8 * 1e9 / 90e9 + 7 * US),  # closes at 16 only
        ("tpu7x", {"x": 2}, 1 / 2 * 1e9 / 600e9 + US),  # within a chip
        # Four chips, a ring with half of 200 GB/s for each device: 3/8 of it, while half of it is sent within a chip.
        ("tpu7x", {"x": 8}, 3 / 8 * 1e9 / 100e9 + 2 * US + US),
        ("a100", {"x": 8}, 7 / 8 * 1e9 / 300e9 / 0.7553 + (38 + 3) * US),  # a block of 125 MB, between 64 MiB and 2 GiB
        ("h200", {"x": 8}, 7 / 8 * 1e9 / 369e9 + (33 + 3) * US),
        ("b200", {"x": 8}, 7 / 8 * 1e9 / 684e9 + (33 + 3) * US),
        ("gb200_nvl72", {"x": 72}, 71 / 72 * 1e9 / 684e9 + (33 + 7) * US),
        # Two racks: each GPU fetches 1/144 from the other rack, at 50 GB/s, which takes less than what it gathers within.
        ("gb200_nvl72", {"x": 144}, 71 / 72 * 1e9 / 684e9 + (33 + 7 + 5) * US),
        # An eighth of it over each of seven links of 64 GB/s, at 0.7 of them.
        ("mi300x", {"x": 8}, 1 / 8 * 1e9 / (64e9 * 0.7) + 34 * US),
        ("mi300x", {"x": 2}, 1 / 2 * 1e9 / (64e9 * 0.7) + 34 * US),
        # Two nodes: 1/16 at 50 GB/s, less than the eighth within.
        ("mi300x", {"x": 16}, 1 / 8 * 1e9 / (64e9 * 0.7) + (34 + 5) * US),
    ],
)
def test_a_gather(name, mesh, wanted):
    have = getattr(nx.machines, name).time_of(collective("all-gather", ("x",), mesh["x"], 10**9), mesh)
    assert have == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "per_second"),
    [("v4", 6.25e9), ("v5e", 3.125e9), ("v5p", 6.25e9), ("v6e", 12.5e9), ("tpu7x", 6.25e9), ("a100", 25e9), ("b200", 50e9)],
)
def test_between_pods_and_nodes(name, per_second):
    entry = getattr(nx.machines, name)
    group = entry.links[...]
    inner = group.reach
    while group.beyond.reach is not None:
        group = group.beyond
        inner *= group.reach
    mesh = {"pod": 2, "x": inner}
    have = entry.time_of(collective("all-gather", ("pod",), 2, 10**9), mesh)
    assert have == pytest.approx(0.5e9 / per_second + group.beyond.latency + group.beyond.start)


def test_meshes_of_gb200_need_whole_racks_or_64_of_their_gpus():
    with pytest.raises(
        MeshError, match="do not split into groups of 9, the number that gb200_nvl72 has left of the 72 devices"
    ):
        nx.machines.gb200_nvl72.layout({"data": 64, "model": 8})
    part = dataclasses.replace(nx.machines.NVLINK5_NVL72, reach=64)
    racks = nx.machines.gb200_nvl72.with_links({...: part})
    assert racks.layout({"data": 64, "model": 8})["data"] == ((8, part.beyond), (8, part))


# --- public measurements: "Machine Learning Engineering Open Book" (Stas Bekman), chapter on networks ------------------------------

KIB = 2**10
#: Microseconds of all-reduces among eight A100, by KiB.
A100 = {
    32: 43.83, 64: 46.80, 128: 51.76, 256: 61.38, 512: 80.40, 1024: 101.9, 2048: 101.4, 4096: 101.5, 8192: 133.5, 16384: 276.6,
    32768: 424.0, 65536: 684.6, 131072: 1327.6, 262144: 2420.6, 524288: 4218.4, 1048576: 8203.9, 4194304: 32136, 16777216: 127997,
}  # fmt: skip
#: Bytes per second that the same takes among eight H200 (payload divided by time), with reductions in the switch from 2 MiB on.
H200 = {
    32: 0.82e9, 64: 1.67e9, 128: 3.27e9, 256: 6.71e9, 512: 13.68e9, 1024: 22.82e9, 2048: 36.87e9, 4096: 61.23e9, 8192: 88.87e9,
    16384: 125.65e9, 32768: 157.62e9, 65536: 198.01e9, 131072: 229.67e9, 262144: 249.23e9, 524288: 257.31e9, 1048576: 264.90e9,
    4194304: 270.34e9, 16777216: 275.58e9,
}  # fmt: skip


def ratios(entry, measured):
    one = {size: entry.time_of(collective("all-reduce", ("x",), 8, size * KIB), {"x": 8}) for size in measured}
    return [one[size] / seconds for size, seconds in measured.items()]


def off(values):
    """The geometric mean of the factors by which predictions are wrong, and the largest."""
    logs = [abs(math.log(value)) for value in values]
    return round(math.exp(sum(logs) / len(logs)), 2), round(math.exp(max(logs)), 2)


def without_measurements(entry):
    link = dataclasses.replace(entry.links[...], start=0.0, by_size=())
    return entry.with_links({...: link})


def test_all_reduces_among_eight_gpus_by_size():
    a100 = {size: time * US for size, time in A100.items()}
    h200 = {size: size * KIB / rate for size, rate in H200.items()}
    assert off(ratios(without_measurements(nx.machines.a100), a100)) == (3.12, 8.88)
    assert off(ratios(nx.machines.a100, a100)) == (1.05, 1.2)
    assert off(ratios(without_measurements(nx.machines.h200), h200)) == (2.34, 6.52)
    assert off(ratios(nx.machines.h200, h200)) == (1.13, 1.31)


def test_an_all_reduce_of_four_nodes():
    # 4 GiB over 4 nodes of 8 H200, with 400 GB/s for each node: a bus bandwidth of 364.87 GB/s.
    measured = 2 * 31 / 32 * 2**32 / 364.87e9
    assert measured == pytest.approx(22.8e-3, rel=1e-3)
    have = nx.machines.h200.time_of(collective("all-reduce", ("node", "gpu"), 32, 2**32), {"node": 4, "gpu": 8})
    # Twice 7/8 within the nodes at 369 GB/s; meanwhile 3/32 between them at 50 GB/s, which takes less.
    assert have == pytest.approx(2 * 7 / 8 * 2**32 / 369e9, rel=5e-3)
    assert round(have / measured - 1, 2) == -0.1


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "program", [["examples/plan.py"], ["examples/transformer.py"], ["-m", "namedax.models", "plan"]], ids=" ".join
)
def test_programs_take_every_machine(program):
    options = {"cwd": pathlib.Path(__file__).parents[2], "capture_output": True, "text": True, "check": True}
    found = subprocess.run([sys.executable, *program, "--help"], **options)
    for name in TPUS + GPUS:
        assert name in found.stdout
