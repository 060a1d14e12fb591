"""Comparison of calls between processes: different calls end in an error, not in a hang.

As a program, this file is one of two processes of one device each.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, AxisSizeError, CheckpointError
from namedax.resources.processes import stable_text
from tests.harness import said

SIZE = {"axis_resources": {"a": "x"}}


def message_of(call, kind):
    """The message of the error of this class that a call raises."""
    try:
        call()
    except kind as error:
        return said(error)
    return "no error"


def mean(x):
    return nx.mean(x, "a")


def total(x, flag=True):
    return nx.sum(x if flag else x * 2, "a")


def calls(number, folder):
    """The calls that differ between process 0 and process 1, and what they raise."""
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    backwards = jax.sharding.Mesh(mesh.devices[::-1], ("x",))
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    axes, first = ["a", "b"], number == 0

    def mapped(f=mean, resources=None, mesh=mesh, **options):
        return nx.xmap(f, (axes,), ["b"], axis_resources=resources or {"a": "x"}, mesh=mesh, **options)

    resources = {"a": "x"} if first else {"b": "x"}
    part = x[:2] if first else x[2:]
    differing = {
        "axis_resources": lambda: mapped(resources=resources)(x),
        "unmapped": lambda: nx.xmap(mean, (axes,), ["b"], axis_resources=resources if first else {}, mesh=mesh)(x),
        "mesh": lambda: mapped(mesh=mesh if first else backwards)(x),
        "sizes": lambda: mapped()(x if first else x[:2]),
        "dtype": lambda: mapped()(x if first else x.astype(np.int32)),
        "function": lambda: mapped(mean if first else total)(x),
        "partitioning": lambda: mapped(partitioning="manual" if first else "auto")(x),
        "program": lambda: mapped(lambda x: nx.sum(x if first else x * 2, "a"))(x),
        "gradient": lambda: jax.grad(lambda x: mapped(resources=resources)(x).sum())(x),
    }
    report = {name: message_of(call, ArgumentError) for name, call in differing.items()}

    def bring(rows, resources):
        return lambda: nx.from_process_local(rows, axes, resources, mesh)

    report["parts"] = message_of(bring(part if first else part[:1], {"a": "x"}), AxisSizeError)
    report["parts, resources"] = message_of(bring(x if first else x[:, :3], {"a": "x"} if first else {"b": "x"}), AxisSizeError)
    # Equal calls pass, and are compared once.
    array = bring(part, {"a": "x"})()
    for f in (mapped(), mapped()):
        np.testing.assert_allclose(np.asarray(f(array.data).addressable_data(0)), x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(jax.jit(mapped())(array.data).addressable_data(0)), x.mean(0), rtol=1e-6)
    nx.checkpoints.save(folder / "same", {"x": array})
    report["save"] = message_of(lambda: nx.checkpoints.save(folder / f"save{number}", {"x": array}), CheckpointError)
    name = "same" if first else "other"
    report["restore"] = message_of(lambda: nx.checkpoints.restore(folder / name, mesh=mesh, **SIZE), CheckpointError)
    back = nx.checkpoints.restore(folder / "same", mesh=mesh, **SIZE)
    np.testing.assert_array_equal(np.asarray(back["x"].data.addressable_data(0)), part)
    # A process traces alone, and computes alone.
    if first:
        nx.explain(mapped(total), x)
        own = jax.sharding.Mesh(jax.local_devices(), ("x",))
        np.testing.assert_allclose(mapped(total, mesh=own)(x), x.sum(0))
        os.environ["NAMEDAX_COMPARE_PROCESSES"] = "1"
        start = time.monotonic()
        report["missing"] = message_of(lambda: mapped(total)(x), ArgumentError)
        assert 0.9 < time.monotonic() - start < 20
        os.environ["NAMEDAX_COMPARE_PROCESSES"] = "soon"
        report["variable"] = message_of(lambda: mapped(total)(x), ArgumentError)
        (folder / "done").touch()
    while not (folder / "done").exists():
        time.sleep(0.02)
    return report


def worker():
    parser = argparse.ArgumentParser()
    for name in ("devices", "processes", "process"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--coordinator")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 1)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = options.coordinator
    jax.distributed.initialize(address, options.processes, options.process, coordinator_bind_address=address)
    os.environ["NAMEDAX_COMPARE_PROCESSES"] = "60"
    report = calls(options.process, options.report)
    (options.report / str(options.process)).write_text(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)  # a shutdown waits for the gather that nobody answers


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    from tests.xmap.test_distributed import run_two

    folder = tmp_path_factory.mktemp("comparison")
    run_two(__file__, "--report", folder)
    return [json.loads((folder / str(number)).read_text()) for number in range(2)]


EXPECTED = {
    "axis_resources": "xmap of mean: the calls of the processes differ. axis_resources: {'a': ('x',)} in process 0; {'b': ('x',)} in process 1.",
    "unmapped": "xmap of mean: the calls of the processes differ. axis_resources: {'a': ('x',)} in process 0; {} in process 1.",
    "mesh": "over devices",
    "sizes": "arguments: ",
    "dtype": "arguments: ",
    "function": "function: mean at test_process_comparison.py:",
    "partitioning": "options: ",
    "program": "xmap of <lambda>: the calls of the processes differ. program: hash ",
    "gradient": "axis_resources: {'a': ('x',)} in process 0; {'b': ('x',)} in process 1.",
    "parts": "from_process_local: the calls of the processes differ. global arrays: {'': ('float32', (4, 6), ('a', 'b'))} in process 0; "
    "{'': ('float32', (2, 6), ('a', 'b'))} in process 1. Make the same call in every process; set NAMEDAX_COMPARE_PROCESSES=0 in every "
    "process to switch this comparison off.",
    "parts, resources": "axis_resources: {'a': ('x',)} in process 0; {'b': ('x',)} in process 1.",
    "save": "save: the calls of the processes differ. folder: ",
    "restore": "restore: the calls of the processes differ. folder: ",
}


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_different_calls_are_errors_in_every_process(reports):
    for name, text in EXPECTED.items():
        for report in reports:
            assert text in report[name], name
    assert reports[0]["parts"] == EXPECTED["parts"]


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_missing_process_is_an_error_within_the_time_limit(reports):
    assert reports[0]["missing"] == (
        "xmap of total: process 0 cannot compare its call with that of the other processes, [1]: they did not answer within 1 seconds. "
        "Make the same call in every process, or set NAMEDAX_COMPARE_PROCESSES in every process: to more seconds, or to 0 to switch the "
        "comparison off."
    )


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_malformed_time_limit_is_an_error(reports):
    assert reports[0]["variable"] == (
        "NAMEDAX_COMPARE_PROCESSES: the environment variable is 'soon'. Set it to the number of seconds to wait for other processes, or "
        "to 0 to switch the comparison off."
    )


def test_descriptions_are_the_same_in_every_process():
    assert stable_text({"b": {"y", "x"}, "a": (1,)}) == "{'a': (1,), 'b': {'x', 'y'}}"
    assert stable_text([object()]) == "[<object object at 0x...>]"
    assert stable_text(()) == "()"


if __name__ == "__main__":
    worker()
