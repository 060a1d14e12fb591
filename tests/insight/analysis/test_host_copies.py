"""Copies over the host link in reports, and their time on machines."""

import dataclasses
import json

import jax
import pytest

import namedax as nx
from tests.harness import array, make_mesh

RESOURCES = {"a": "x", "in": "y"}
BLOCK = 4 * 8 * 4  # bytes of one layer on one of two devices


def program(prefetch=0, **options):
    mesh = make_mesh((4, 2))
    (x,) = nx.shard([nx.named(array(4, 8, seed=2), ["a", "in"])], RESOURCES, mesh)
    (w,) = nx.shard([nx.named(array(3, 8, 8, seed=1), ["layer", "in", "out"])], RESOURCES, mesh, **options)

    def f(x, w):
        def layer(x, w):
            return nx.tanh(nx.rename(nx.dot(x, w, "in"), {"out": "in"}))

        return nx.sum(nx.fold(layer, x, w, axis="layer", prefetch=prefetch), ...)

    return nx.xmap(f, None, None, axis_resources=RESOURCES, mesh=mesh), x, w


@pytest.mark.fast(1)
@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_loop_copies_each_slice_in_both_passes(prefetch):
    f, x, w = program(prefetch, memory_kind="pinned_host")
    report = nx.explain(f, x, w)
    assert report.host_bytes == {"host to device": 3 * BLOCK, "device to host": 0}
    of_gradient = nx.explain(jax.grad(f, 1), x, w)
    assert of_gradient.host_bytes["host to device"] == (5 if prefetch else 6) * BLOCK  # the last layer is kept
    assert 3 * BLOCK <= of_gradient.host_bytes["device to host"] <= 3 * BLOCK + 4
    assert {step.is_ahead for step in report.host_copies} == ({False, True} if prefetch else {False})
    near = nx.explain(*program(prefetch))
    assert near.host_bytes == {"host to device": 0, "device to host": 0}
    assert report.summary() == near.summary()
    assert report.memory.host == near.memory.arguments - report.memory.arguments == 3 * BLOCK
    assert near.memory.peak - report.memory.peak == pytest.approx(2 * BLOCK, abs=BLOCK)


@pytest.mark.fast(1)
def test_reports_print_and_store_copies():
    f, x, w = program(memory_kind="pinned_host")
    report = nx.explain(f, x, w)
    assert "copies    384 B" in str(report)
    assert "from the host to the device, and 0 B back; the host stores 384 B of arguments" in str(report)
    assert nx.Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert report.by("kind")["host to device"].host_bytes == 3 * BLOCK


@pytest.mark.fast(1)
def test_machines_time_copies():
    f, x, w = program(memory_kind="pinned_host")
    report = nx.explain(f, x, w)
    fast, slow = (dataclasses.replace(nx.machines.h100, host_bandwidth=speed) for speed in (1e30, 1e3))
    assert report.time(slow) - report.time(fast) == pytest.approx(3 * BLOCK / 1e3)
    assert nx.machines.h100.host_bandwidth == 64e9
    assert "64 GB/s from and to the host" in str(nx.machines.h100)
    ahead = nx.explain(*program(1, memory_kind="pinned_host"))
    assert ahead.time(nx.machines.h100) <= report.time(nx.machines.h100)


@pytest.mark.fast(1)
def test_a_machine_without_a_host_link():
    report = nx.explain(*program(memory_kind="pinned_host"))
    machine = dataclasses.replace(nx.machines.h100, host_bandwidth=None)
    with pytest.raises(
        nx.errors.ArgumentError,
        match=r"copies arrays from the host to device at test_host_copies.py:\d+, and h100 has no host_band",
    ):
        report.time(machine)
    with pytest.raises(nx.errors.ArgumentError, match="host_bandwidth=0 must be a positive number"):
        dataclasses.replace(machine, host_bandwidth=0)
