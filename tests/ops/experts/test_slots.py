"""The order in which choices fill the slots of experts, against a loop."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from namedax.ops.experts.slots import rank_among_equals


@pytest.mark.full(1)
@pytest.mark.fast(0)
@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
    st.sampled_from([(1, 1), (1, 9), (3, 8), (2, 0)]),
    st.integers(1, 12),
    st.sampled_from(["int32", "int8"]),
    st.integers(0, 99),
)
def test_ranks_and_counts(shape, experts, dtype, seed):
    """Numbers that are too narrow for an expert and a position together (of type int8 here) are sorted in another way."""
    index = np.random.default_rng(seed).integers(0, experts + 1, shape).astype(dtype)
    rank, counts = jax.jit(rank_among_equals, static_argnums=1)(jnp.asarray(index), experts)
    want = [[list(row[:i]).count(number) for i, number in enumerate(row)] for row in index]
    np.testing.assert_array_equal(rank, np.reshape(want, shape))
    np.testing.assert_array_equal(counts, [[list(row).count(number) for number in range(experts)] for row in index])
    assert rank.dtype == counts.dtype == dtype


@pytest.mark.parametrize(("number", "arrays"), [("int32", 1), ("int8", 2)])
def test_one_sort(number, arrays):
    """Of one array where an expert and a position go into one number, and else of two."""
    jaxpr = jax.make_jaxpr(rank_among_equals, static_argnums=1)(jnp.zeros((2, 16), number), 8)
    assert [len(eqn.invars) for eqn in jaxpr.eqns if eqn.primitive.name == "sort"] == [arrays]
