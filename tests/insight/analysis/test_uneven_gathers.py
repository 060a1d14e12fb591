"""The gathers of axes that do not divide: `nx.explain` names their lines, and counts the bytes of the compiled program."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import namedax as nx
from tests.harness import array

TEN = nx.named(array(10, 3), ["a", "b"])


def mesh_of(kind):
    return jax.make_mesh((4,), ("x",), axis_types=(kind,))


def double(x):
    return nx.sin(x) * 2


def collectives_of(compiled):
    """Of each collective of a compiled program the kind, and the elements of its result."""
    found = re.findall(
        r"= \(?f32\[([\d,]*)\]\S* (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(", compiled
    )
    return sorted((kind, int(np.prod([int(n) for n in shape.split(",") if n]))) for shape, kind in found)


def line_of(text, function):
    lines, first = inspect.getsourcelines(function)
    return next(first + i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_the_gather_of_a_result_has_the_line_and_the_bytes_of_the_compiled_program(kind):
    mapped = nx.xmap(double, axis_resources={"a": "x"}, mesh=mesh_of(kind))

    def step(x):
        return mapped(x)  # the call

    for f, line in [
        (mapped, line_of("def double", double)),
        (step, line_of("# the call", step)),
        (jax.jit(step), line_of("# the call", step)),
    ]:
        report = nx.explain(f, TEN)
        (gather,) = report.collectives
        assert gather.source == f"test_uneven_gathers.py:{line}"
        assert f"test_uneven_gathers.py:{line}" in str(report)
        assert (gather.kind, gather.mesh_axes, gather.names, gather.bytes) == ("all-gather", ("x",), ("a",), 12 * 3 * 4)
        assert collectives_of((f if hasattr(f, "lower") else jax.jit(f)).lower(TEN).compile().as_text()) == [("all-gather", 36)]
    assert mapped(TEN).sharding.is_fully_replicated
    np.testing.assert_allclose(mapped(TEN).data, 2 * np.sin(TEN.data), rtol=1e-6)


def test_a_gradient_of_such_a_result_names_the_line_too():
    mapped = nx.xmap(double, axis_resources={"a": "x"}, mesh=mesh_of(AxisType.Auto))

    def step(x):
        return jax.grad(lambda x: jnp.sum(mapped(x).data ** 2))(x)  # the call

    report = nx.explain(step, TEN)
    assert {c.kind for c in report.collectives} == {"all-gather"}
    assert {c.source for c in report.collectives} == {f"test_uneven_gathers.py:{line_of('# the call', step)}"}
    found = collectives_of(jax.jit(step).lower(TEN).compile().as_text())
    assert sorted((c.kind, c.bytes // 4) for c in report.collectives) == found


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_nothing_is_gathered_if_the_array_is_stored_padded(kind):
    mesh = mesh_of(kind)
    mapped = nx.xmap(double, axis_resources={"a": "x"}, mesh=mesh)
    stored = nx.shard(TEN, {"a": "x"}, mesh, padded=True)
    assert nx.explain(mapped, stored).collectives == ()
    assert collectives_of(mapped.lower(stored).compile().as_text()) == []
    assert "a:10@x" in repr(mapped(stored))


@pytest.mark.parametrize("size", [6, 10, 13])
def test_shard_stores_an_axis_that_does_not_divide_whole(size):
    mesh = mesh_of(AxisType.Auto)
    x = nx.named(array(size, 3), ["a", "b"])
    whole = nx.shard(x, {"a": "x"}, mesh, padded=False)
    assert whole.sharding.spec == PartitionSpec(None, None)
    padded = nx.shard(x, {"a": "x"}, mesh, padded=True)
    assert f"a:{size}@x" in repr(padded)
