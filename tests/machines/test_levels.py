"""Collectives over several levels of links, over direct links, and with messages of different sizes: counted by brute force here."""

import dataclasses
import itertools
import math
import sys

import pytest

import namedax as nx
from namedax.insight.analysis.records import Collective
from namedax.machines import Link, Machine

US = 1e-6


def collective(kind, axes, n, payload):
    return Collective(kind, axes, n, ("d",), payload, 0, 1, "float32", "nx.dot", "model.py:1", "forward")


def seconds(links, kind, mesh, payload, axes=None):
    axes = tuple(mesh) if axes is None else axes
    on = Machine({"float32": 1e12}, 16e9, 1e11, links if isinstance(links, dict) else {...: links})
    return on.time_of(collective(kind, axes, math.prod(mesh[axis] for axis in axes), payload), mesh)


def sent_in_a_gather(sizes, order):
    """The blocks that one device sends over each level of an all-gather, by sets of blocks, one level after the other."""
    everyone = list(itertools.product(*map(range, sizes)))
    have = {device: {device} for device in everyone}
    sent = dict.fromkeys(order, 0)
    for level in order:
        before = {device: set(blocks) for device, blocks in have.items()}
        for device in everyone:
            others = [(*device[:level], i, *device[level + 1 :]) for i in range(sizes[level]) if i != device[level]]
            if device == everyone[0]:
                sent[level] = len(before[device]) * len(others)
            for other in others:
                assert not before[other] & have[device]  # nothing arrives twice
                have[device] |= before[other]
    assert all(blocks == set(everyone) for blocks in have.values())
    return sent


@pytest.mark.parametrize("sizes", [(4, 8), (2, 3), (3, 2, 4), (5, 1, 2)])
def test_a_gather_over_levels_is_as_slow_as_its_slowest_level(sizes):
    rates = (1e9, 7e9, 3e10)[: len(sizes)]
    links = {f"l{i}": Link(rate, 0.0, "switch") for i, rate in enumerate(rates)}
    mesh = {f"l{i}": size for i, size in enumerate(sizes)}
    block = 1e6
    wanted = min(
        max(count * block / rates[level] for level, count in sent_in_a_gather(sizes, order).items())
        for order in itertools.permutations(range(len(sizes)))
    )
    payload = block * math.prod(sizes)
    for kind, times in (("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2)):
        assert seconds(links, kind, mesh, payload) == pytest.approx(times * wanted)


def test_levels_work_at_the_same_time():
    # A thousand chunks go through two stations, one after the other: a chunk starts at the second when it has left the first and
    # the chunk before has left the second. A gather of 32 MB over 4 nodes (1 GB/s) of 8 (10 GB/s).
    chunks = 1000
    first, second = 3 * 1e6 / 1e9 / chunks, 7 * 4e6 / 1e10 / chunks
    out_of_first = out_of_second = 0.0
    for _ in range(chunks):
        out_of_first += first
        out_of_second = max(out_of_first, out_of_second) + second
    links = {"node": Link(1e9, 0.0, "switch"), "gpu": Link(1e10, 0.0, "switch")}
    have = seconds(links, "all-gather", {"node": 4, "gpu": 8}, 32e6)
    assert have == pytest.approx(out_of_second, rel=2e-3)
    assert have < 0.6 * chunks * (first + second)


def test_a_gigabyte_over_64_nodes_of_eight():
    link = Link(450e9, 1e-6, "switch", reach=8, beyond=Link(50e9, 5e-6, "switch"))
    have = seconds(link, "all-gather", {"data": 64, "model": 8}, 2**30)
    assert have == pytest.approx(63 / 512 * 2**30 / 50e9 + 6 * 5e-6 + 3e-6)
    assert round(have * 1e3, 1) == 2.7  # 2.64 ms and the latencies
    assert have < 63 / 512 * 2**30 / 50e9 + 34e-6
    # Within a node it would take 2.09 ms, which are hidden.
    assert have < 2e-3 + 7 / 8 * 2**30 / 450e9


@pytest.mark.parametrize(("x", "y"), [(2, 2), (2, 16), (4, 4), (4, 12), (16, 3)])
def test_two_axes_of_a_torus_share_a_gather_evenly(x, y):
    def loads(share):  # of a block of one byte for each device, received over the links of x and of y
        along_x = share * (x - 1) + (1 - share) * (x - 1) * y
        along_y = share * (y - 1) * x + (1 - share) * (y - 1)
        return along_x, along_y

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        along_x, along_y = loads(middle)
        low, high = (middle, high) if along_x > along_y else (low, middle)
    along_x, along_y = loads(low)
    assert along_x == pytest.approx(along_y)
    have = seconds(Link(1e9, 0.0), "all-gather", {"x": x, "y": y}, 1e6 * x * y)
    assert have == pytest.approx(along_x * 1e6 / 1e9)


# --- direct links: 7 links of 1 GB/s each ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        # A block for each other device, over its own link, at once.
        ("all-gather", lambda n: 1e6 / n / 1e9 + US),
        ("reduce-scatter", lambda n: 1e6 / n / 1e9 + US),
        ("all-reduce", lambda n: 2 * (1e6 / n / 1e9 + US)),
        ("all-to-all", lambda n: 1e6 / n / 1e9 + US),
        # One link.
        ("collective-permute", lambda n: 1e6 / 1e9 + US),
        # A part to each other device, which passes it on.
        ("collective-broadcast", lambda n: 1e6 / (n - 1) / 1e9 + min(2, n - 1) * US),
    ],
)
def test_direct_links(kind, wanted, n):
    link = Link(7e9, US, "direct", reach=8)
    assert seconds(link, kind, {"x": n}, 1e6) == pytest.approx(wanted(n))
    # The other axis has links of its own.
    assert seconds(link, kind, {"y": 8 // n, "x": n}, 1e6, ("x",)) == pytest.approx(wanted(n))
    if n == 8:
        assert seconds(link, kind, {"x": 2, "y": 4}, 1e6) == pytest.approx(wanted(n))


def test_a_collective_starts_once():
    slow, fast = Link(1e9, 1e-5, "switch", start=3e-5), Link(1e11, 1e-6, "switch", start=7e-6)
    for kind in nx.hlo.KINDS:
        with_start = seconds({"node": slow, "gpu": fast}, kind, {"node": 4, "gpu": 8}, 1e6)
        without = {axis: dataclasses.replace(link, start=0.0) for axis, link in (("node", slow), ("gpu", fast))}
        assert with_start - seconds(without, kind, {"node": 4, "gpu": 8}, 1e6) == pytest.approx(3e-5)
        assert seconds(slow, kind, {"x": 1}, 1e6) == 0
    # Two levels start three collectives, and one level starts one.
    on = Machine({"float32": 1e12}, 16e9, 1e11, {"node": slow, "gpu": fast})
    saved = 2 * (31 / 32 * 1e-9 - 7 / 8 * 1e-11 - 3 / 32 * 1e-9)  # seconds for a byte
    lost = (2 * 7e-6 + 3e-5) + (2 * 3 * 1e-6 + 2 * 2 * 1e-5) - 3e-5 - 2 * 5 * 1e-5  # less than nothing: fewer slow rounds
    assert lost < 0
    assert on.two_level_from("node", "gpu", {"node": 4, "gpu": 8}) == 0
    later = on.with_links({"gpu": dataclasses.replace(fast, start=1e-3)})
    wanted = (lost + 2 * (1e-3 - 7e-6)) / saved
    assert later.two_level_from("node", "gpu", {"node": 4, "gpu": 8}) == math.ceil(wanted)


# --- message sizes -------------------------------------------------------------------------------------------------------------

TABLE = ((1000, 0.1), (100_000, 1.0))


def test_the_fraction_between_two_sizes_is_a_power_of_the_size():
    link = Link(1e9, 0.0, "switch", by_size=TABLE)
    have = [link.bandwidth_at(size) / 1e9 for size in (1, 1000, 10_000, 100_000, 10**9)]
    assert have == pytest.approx([0.1, 0.1, math.sqrt(0.1), 1.0, 1.0])
    assert Link(1e9, 0.0).bandwidth_at(1) == 1e9
    assert len({link, Link(1e9, 0.0, "switch", by_size=list(TABLE))}) == 1  # lists are the same, and links are keys


@pytest.mark.parametrize(
    ("kind", "message", "sent"),
    [
        ("all-gather", 1 / 8, 7 / 8),
        ("reduce-scatter", 1 / 8, 7 / 8),
        ("all-reduce", 1 / 8, 14 / 8),
        ("all-to-all", 1 / 8, 7 / 8),
        ("collective-permute", 1, 1),
        ("collective-broadcast", 1, 1),
    ],
)
def test_a_message_is_a_block_or_the_whole(kind, message, sent):
    link = Link(1e9, 0.0, "switch", by_size=TABLE)
    for payload in (800, 10_000, 80_000, 10**7):
        reached = min(1.0, max(0.1, 0.1 * math.sqrt(payload * message / 1000)))
        assert seconds(link, kind, {"x": 8}, payload) == pytest.approx(payload * sent / (1e9 * reached))
        ring = dataclasses.replace(link, kind="ring")
        if kind == "all-gather":
            assert seconds(ring, kind, {"x": 8}, payload) == pytest.approx(payload * sent / (1e9 * reached))


def test_two_levels_with_tables():
    slow = Link(1e9, 1e-5, "switch", by_size=((2**10, 0.01), (2**20, 0.8)))
    fast = Link(1e11, 1e-6, "switch")
    on = Machine({"float32": 1e12}, 16e9, 1e11, {"dcn": slow, "ici": fast}, launch=1e-4)
    mesh = {"dcn": 2, "ici": 4}
    size = on.two_level_from("dcn", "ici", mesh)

    def reached(block):
        position = math.log(min(max(block, 2**10), 2**20) / 2**10) / math.log(2**10)
        return 1e9 * 0.01 * (0.8 / 0.01) ** position

    def gained(payload):
        flat = 2 * (7 / 8 * payload / reached(payload / 8) + 3 * 1e-5)
        split = 2 * (3 / 4 * payload / 1e11 + 2 * 1e-6) + 2 * (payload / 4 / 2 / reached(payload / 8) + 1e-5)
        return flat - split - 2 * 1e-4

    assert 0 < size < sys.maxsize
    assert gained(size) >= 0 > gained(size - 1)
    never = on.with_links({"dcn": dataclasses.replace(fast, by_size=((1, 1.0),))})
    assert never.two_level_from("dcn", "ici", mesh) == sys.maxsize
    always = dataclasses.replace(on, launch=0.0, links={"dcn": slow, "ici": dataclasses.replace(fast, latency=0.0)})
    assert always.two_level_from("dcn", "ici", mesh) == 0
