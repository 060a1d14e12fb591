"""The arrays of tests/make.py are those that jnp gives, and are made without compiling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import make

CASES = {
    "integers": lambda module: module.array([1, 2]),
    "floats": lambda module: module.asarray([[1.0, jnp.nan]]),
    "truth values": lambda module: module.array([True, False]),
    "of NumPy": lambda module: module.asarray(np.ones((2, 3)), jnp.bfloat16),
    "ones": lambda module: module.ones((2, 3)),
    "zeros": lambda module: module.zeros(3, int),
    "zeros of a named type": lambda module: module.zeros((), "bfloat16"),
    "arange": lambda module: module.arange(2, 9, 3),
    "arange of floats": lambda module: module.arange(1.0, 4.0),
    "arange of a type": lambda module: module.arange(3, dtype=jnp.int8),
    "eye": lambda module: module.eye(3),
}


@pytest.mark.parametrize("case", CASES)
def test_as_jnp(case):
    have, want = (CASES[case](module) for module in (make, jnp))
    assert (have.dtype, have.weak_type, have.sharding) == (want.dtype, want.weak_type, want.sharding)
    np.testing.assert_array_equal(have, want)


def test_nothing_is_compiled():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **about: compiled.append(about) if "backend_compile" in event else None
    )
    for case in CASES.values():
        jax.block_until_ready(case(make))
    assert compiled == []
    jax.jit(lambda x: x + 1.25)(make.ones(17))
    assert compiled  # it would have been seen
