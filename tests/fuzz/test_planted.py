"""Faults that are planted in namedax, one in each thing that programs and layouts have beside operations: the fuzzer has to find them."""

from __future__ import annotations

import functools
import random
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from namedax.primitives import table
from tests.fuzz.generator import program as random_program
from tests.fuzz.layouts import Layout
from tests.fuzz.program import Argument
from tests.fuzz.runner import attempt, reference
from tests.fuzz.shrink import prune
from tests.fuzz.worker import report

FIRST = Argument(("a", "c"))
PROGRAMS = 4  # of which one has to show the fault


def over_size(size):
    """Sums along axes of this size are wrong."""

    def plant(patch):
        right = nx.sum

        def wrong(x: Any, axis: Any, **options: Any) -> Any:
            axes = axis if isinstance(axis, tuple) else (axis,)
            return right(x, axis, **options) + any(nx.named_shape(x).get(name) == size for name in axes)

        patch.setattr(nx, "sum", wrong)

    return plant


def without_initial(patch):
    """A maximum forgets from which value it was to begin."""
    right = nx.max
    patch.setattr(nx, "max", lambda x, axis, initial=None, **options: right(x, axis, initial=-99.0, **options))


def without_mask(patch):
    """A sum takes all entries."""
    right = nx.sum
    patch.setattr(nx, "sum", lambda x, axis, where=None, **options: right(x, axis, **options))


def first_of_ties(patch):
    """The gradient of a maximum goes to the first of equal entries."""
    right = nx.max
    patch.setattr(nx, "max", lambda x, axis, **options: right(x - 1e-5 * nx.arange(axis="a"), axis, **options))


def without_constant(patch):
    """What a backward rule gives for nothing is lost."""
    right = nx.custom_vjp

    class Linear:
        def __init__(self, f: Any):
            self._function = right(f)

        def defvjp(self, forward: Any, backward: Any) -> None:
            def rule(kept: Any, ct: Any) -> Any:
                return tuple(x - y for x, y in zip(backward(kept, ct), backward(kept, 0 * ct), strict=True))

            self._function.defvjp(forward, rule)

        def __call__(self, *args: Any) -> Any:
            return self._function(*args)

    patch.setattr(nx, "custom_vjp", Linear)


def steep(patch):
    """A derivative is twice what it is."""

    @jax.custom_jvp
    def wrong(data):
        return jnp.tanh(data)

    wrong.defjvp(lambda primals, tangents: (jnp.tanh(*primals), 2 * (1 - jnp.tanh(*primals) ** 2) * tangents[0]))
    patch.setattr(nx, "tanh", nx.nmap(wrong))


def outside(patch):
    """An operation is wrong outside of mapped functions."""
    right, mapped, inside = nx.tanh, nx.xmap, []

    def xmap(body: Any, *args: Any, **options: Any) -> Any:
        @functools.wraps(body)
        def run(*values: Any) -> Any:
            inside.append(True)
            try:
                return body(*values)
            finally:
                inside.pop()

        return mapped(run, *args, **options)

    patch.setattr(nx, "xmap", xmap)
    patch.setattr(nx, "tanh", lambda x: right(x) if inside else right(x) + 1)


def cut_elsewhere(patch):
    """Arguments that lie over several devices are read at wrong places."""
    mapped = nx.xmap

    def turned(x: Any) -> Any:
        return jnp.flip(x) if not isinstance(x, jax.core.Tracer) and not x.sharding.is_fully_replicated else x

    def xmap(*args: Any, **options: Any) -> Any:
        f = mapped(*args, **options)
        return lambda *values: f(*map(turned, values))

    patch.setattr(nx, "xmap", xmap)


def sums_past_scalings(patch):
    """A sum over devices is taken after a product or a quotient of floats, as if these were linear in IEEE arithmetic."""
    for name, groups in (("mul", ((0,), (1,))), ("div", ((0,),))):
        known = table.TABLE[name]
        patch.setitem(table.TABLE, name, known.replace(linear=groups, when=lambda eqn, operand: True, scales=()))


def under_another_mesh(patch):
    """What runs under a mesh whose axes come in another order is wrong."""
    right = nx.tanh
    patch.setattr(nx, "tanh", lambda x: right(x) + (jax.sharding.get_abstract_mesh().axis_names[:1] == ("y",)))


def layouts(gradient="none", **options):
    """Where the axis `a` divides, and where it and `c` do not."""
    resources = ((("a", ("x",)),), (("a", (3,)), ("c", ("x",))))
    return [Layout((("x", 4), ("y", 2)), entries, gradient=gradient, **options) for entries in resources]


TIED = Argument(("a", "c"), fill="ties")
COUNTS = [Argument(("a", "c")), Argument(("a", "c"), seed=1), Argument(("c",), "i32", "index")]
AFFINE = ("nx.custom_vjp_affine", "rule_over_names_affine")
PLANTED = {
    "no entry": (over_size(0), [Argument(("a", "e"))], ("sum",), layouts()),
    "one entry": (over_size(1), [Argument(("a", "o"))], ("sum",), layouts()),
    "an initial value": (without_initial, [TIED], ("max_where",), layouts()),
    "a mask": (without_mask, [TIED], ("sum_where",), layouts()),
    "ties": (first_of_ties, [TIED], ("max_where",), layouts("outside")),
    "rules outside": (without_constant, [FIRST, Argument(("a",), seed=1)], AFFINE, layouts("outside")),
    "rules inside": (without_constant, [FIRST, Argument(("a",), seed=1)], AFFINE, layouts("inside")),
    "cotangents outside": (steep, [FIRST], ("tanh",), layouts("vjp outside")),
    "cotangents inside": (steep, [FIRST], ("tanh",), layouts("vjp inside")),
    "eager": (outside, [FIRST], ("tanh", "sin"), layouts(after="eager")),
    "eager gradients": (outside, [FIRST], ("tanh", "sin"), layouts("outside", after="eager")),
    "under jit": (outside, [FIRST], ("tanh", "sin"), layouts("outside", after="jit")),
    "cut otherwise": (cut_elsewhere, [FIRST], ("tanh",), layouts(again="cut")),
    "another mesh": (cut_elsewhere, [FIRST], ("tanh",), layouts(again="mesh")),
    "sums past scalings": (sums_past_scalings, COUNTS, ("rates",), layouts()[:1]),
    "under another mesh": (under_another_mesh, [FIRST], ("tanh",), layouts(again="set_mesh")),
}


@pytest.mark.full(0)
@pytest.mark.fast(1)
@pytest.mark.parametrize("name", PLANTED)
def test_planted(name, monkeypatch):
    plant, given, only, where = PLANTED[name]
    for layout in where:
        found = 0
        for seed in range(PROGRAMS):
            program = random_program(random.Random(seed), 2, tuple(given), only)
            if not program.results:
                continue
            ref = reference(prune(program))
            assert not (outcome := attempt(ref, layout)).failed, report(ref.program, layout, outcome)
            with monkeypatch.context() as patch:
                plant(patch)
                found += attempt(ref, layout).failed
            if found:
                break
        assert found, layout
