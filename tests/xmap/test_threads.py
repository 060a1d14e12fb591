"""Threads that wrap functions at the same time. Each test forces the interleaving by a barrier in code that namedax calls."""

import contextlib
import gc
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.ops.operands import kernels
from tests.harness import array, make_mesh


class Meeting:
    """A place where two threads wait for each other at each visit, until one of them does not come: it waits for a lock."""

    def __init__(self):
        self.barrier, self.visits = threading.Barrier(2), 0

    def __call__(self):
        self.visits += 1
        with contextlib.suppress(threading.BrokenBarrierError):
            self.barrier.wait(timeout=0.3)


def in_two_threads(work):
    """The results of `work(0)` and `work(1)`, each in a thread of its own."""
    results, errors = {}, []

    def run(i):
        try:
            results[i] = work(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    if errors:
        raise errors[0]
    return results[0], results[1]


class Slow:
    """A function whose name is read by two threads at once."""

    def __init__(self):
        self.meeting = Meeting()

    @property
    def __name__(self):
        self.meeting()
        return "slow"

    def __call__(self, x):
        return nx.sum(x * x, "a")


@pytest.mark.fast(1)
@pytest.mark.parametrize("jit", [True, False])
def test_threads_that_wrap_one_function_share_the_wrapper(jit):
    body, mesh = Slow(), make_mesh((4,))
    options = {"axis_resources": {"a": "x"}, "mesh": mesh, "jit": jit}
    wrappers = list(in_two_threads(lambda _: nx.xmap(body, ["a"], [], **options)))
    assert wrappers[0] is wrappers[1]
    assert body.meeting.visits > 1
    # A program compiled for both does not depend on the wrapper of one of them.
    x = array(8)
    for _ in range(2):
        wrapper = wrappers.pop()
        np.testing.assert_allclose(wrapper(x), (x**2).sum(), rtol=1e-5)
        np.testing.assert_allclose(wrapper(x[:4]), (x[:4] ** 2).sum(), rtol=1e-5)
        del wrapper
        gc.collect()


class SlowName:
    """An axis name whose hash is computed by two threads at once, when it is armed."""

    meeting = None

    def __hash__(self):
        if self.meeting is not None:
            self.meeting()
        return 7

    def __eq__(self, other):
        return self is other

    def __repr__(self):
        return "slow"


def test_threads_that_push_out_old_options():
    def body(x):
        return x * 2

    # The table is full, and the name of its oldest entry is hashed when two threads push it out.
    name = SlowName()
    kept = [nx.xmap(body, [name], [name]), *(nx.xmap(body, [f"a{i}"], [f"a{i}"]) for i in range(255))]
    name.meeting = Meeting()
    new = in_two_threads(lambda i: nx.xmap(body, [f"new {i}"], [f"new {i}"]))
    assert name.meeting.visits  # an old entry was pushed out
    name.meeting = None
    for wrapper in (*kept[:2], *new):
        np.testing.assert_array_equal(wrapper(jnp.arange(3.0)), [0, 2, 4])
    assert all(nx.xmap(body, [f"new {i}"], [f"new {i}"]) is new[i] for i in range(2))


def test_threads_that_number_names_at_once(monkeypatch):
    # Compiled operations know axes by numbers. Two threads that need more numbers than there are made one of them twice, so that a
    # later operation gave two axes of its result the same name.
    class Number(kernels._Number):
        meeting = Meeting()

        def __init__(self, index):
            self.meeting()
            super().__init__(index)

    monkeypatch.setattr(kernels, "_numbers", [])
    monkeypatch.setattr(kernels, "_Number", Number)
    x = [nx.named(jnp.ones((2,)), [name]) for name in "ab"]
    in_two_threads(lambda i: nx.sin(x[i]))
    y = nx.tan(nx.named(array(2, 3, 4), ["a", "b", "c"]))
    assert y.named_shape == {"a": 2, "b": 3, "c": 4}
    assert [number.index for number in kernels._numbers] == list(range(len(kernels._numbers)))
