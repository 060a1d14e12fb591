"""The fit of a link to measured times of collectives, which are computed by hand here."""

import math

import pytest

from namedax.machines import Link
from namedax.machines.measuring import fitted

SIZES = (2**11, 2**15, 2**19)
KINDS = ("all-gather", "all-reduce", "collective-permute")


def cases(n):
    return [(kind, m, m if kind == "collective-permute" else n * m) for m in SIZES for kind in KINDS]


def times(n, per_byte, latency, start):
    """Seconds through a switch, with the seconds for a byte by the size of a message."""
    out = []
    for kind, message, _ in cases(n):
        blocks = {"all-gather": n - 1, "all-reduce": 2 * (n - 1), "collective-permute": 1}[kind]
        rounds = {"all-gather": 1, "all-reduce": 2}.get(kind, 0) * math.ceil(math.log2(n)) or 1
        out.append(blocks * message * per_byte(message) + rounds * latency + start)
    return out


@pytest.mark.parametrize("n", [2, 8])
def test_bandwidth_latency_and_start(n):
    have = fitted(cases(n), times(n, lambda size: 1 / 3e9, 2e-6, 130e-6), n, "switch")
    assert have.bandwidth == pytest.approx(3e9)
    assert have.latency + have.start == pytest.approx(132e-6)  # with two devices, a permutation and a gather are alike
    if n == 8:
        assert (have.latency, have.start) == (pytest.approx(2e-6), pytest.approx(130e-6))
    assert have.by_size == ()


def test_fractions_by_size_where_they_fit_much_better():
    reached = dict(zip(SIZES, (2e8, 1e9, 4e9), strict=True))
    have = fitted(cases(8), times(8, lambda size: 1 / reached[size], 2e-6, 5e-6), 8, "switch")
    assert have.bandwidth == pytest.approx(4e9)
    assert [size for size, _ in have.by_size] == list(SIZES)
    assert [part for _, part in have.by_size] == pytest.approx([0.05, 0.25, 1.0])
    assert (have.latency, have.start) == (pytest.approx(2e-6), pytest.approx(5e-6))


def test_noise_does_not_make_a_table():
    noise = [1.1, 0.93, 1.02, 0.9, 1.08, 0.97, 1.05, 0.94, 1.01]
    measured = [one * factor for one, factor in zip(times(8, lambda size: 1e-9, 2e-6, 1e-4), noise, strict=True)]
    have = fitted(cases(8), measured, 8, "switch")
    assert have.by_size == ()
    assert have.bandwidth == pytest.approx(1e9, rel=0.15)
    assert have.start == pytest.approx(1e-4, rel=0.15)


def test_a_larger_message_is_never_faster():
    # Protocols may make one kind of message slow: a message of 2 KiB takes longer than one of 32 KiB.
    reached = dict(zip(SIZES, (1e7, 1e9, 4e9), strict=True))
    have = fitted(cases(8), times(8, lambda size: 1 / reached[size], 2e-6, 5e-6), 8, "switch")
    assert isinstance(have, Link)
    seconds = [size / have.bandwidth_at(size) for size in (2**10, *SIZES, 2**24)]
    assert seconds == sorted(seconds)
    # Three collectives of one size do not say more than three figures.
    few = fitted(cases(8)[:3], times(8, lambda size: 1e-9, 2e-6, 5e-6)[:3], 8, "switch")
    assert few.by_size == ()
