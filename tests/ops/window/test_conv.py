"""Convolution by name in every geometry. The oracle is `jax.lax.conv_general_dilated`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

import namedax as nx
from tests.harness import array, kept, make_mesh

NUMBERS = ("NHWC", "HWIO", "NHWC")
X_AXES, KERNEL_AXES = ["batch", "a", "b", "c"], ["p", "q", "c", "d"]
PAIRS = st.tuples(st.integers(-1, 4), st.integers(-1, 4))


def named(x, k, **geometry):
    axes = {"kernel_axis": ("p", "q"), "features_in": "c", "features_out": "d"}
    return nx.conv(x, k, ("a", "b"), out_axis={"a": "A", "b": "B"}, **axes, **geometry)


def plain(x, k, strides=(1, 1), padding="SAME", dilation=(1, 1)):
    return jax.lax.conv_general_dilated(x, k, strides, padding, rhs_dilation=dilation, dimension_numbers=NUMBERS)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    taps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.one_of(st.just("SAME"), st.just("VALID"), st.tuples(PAIRS, PAIRS)),
    along=st.sampled_from([None, "batch", "c", "d"]),
)
@example((1, 1), (4, 3), (1, 2), (2, 1), "SAME", None)  # the kernel reaches beyond the only row
@example((6, 5), (2, 2), (3, 2), (1, 1), ((0, 0), (2, -1)), "batch")  # rows are left over
def test_geometry(sizes, taps, strides, dilation, padding, along):
    """Values and gradients, with what is no window on the mesh or nothing."""
    if padding not in ("SAME", "VALID") and any(size + sum(pair) < 1 for size, pair in zip(sizes, padding, strict=True)):
        return  # nothing is left to convolve: JAX raises an error, and XLA may abort the process
    x, k = array(2, *sizes, 2), array(*taps, 2, 4, seed=1)
    want = jax.eval_shape(functools.partial(plain, strides=strides, padding=padding, dilation=dilation), x, k)
    if 0 in want.shape:
        return
    options = {} if along is None else {"axis_resources": {along: "x"}, "mesh": make_mesh((2,))}
    geometry = {"strides": strides, "padding": padding, "kernel_dilation": dilation}
    mapped = nx.xmap(functools.partial(named, **geometry), (X_AXES, KERNEL_AXES), ["batch", "A", "B", "d"], **options)
    by_hand = functools.partial(plain, strides=strides, padding=padding, dilation=dilation)

    def both(f):
        def run(x, k):
            y = f(x, k)
            return y, jax.grad(lambda x, k: jnp.sum(f(x, k) * jnp.cos(jnp.arange(y.size)).reshape(y.shape)), (0, 1))(x, k)

        return jax.jit(run)(x, k)

    for have, wanted in zip(jax.tree.leaves(both(mapped)), jax.tree.leaves(both(by_hand)), strict=True):
        np.testing.assert_allclose(have, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("resources", [{}, {"batch": "x"}, {"d": "y"}, {"batch": "x", "d": "y"}], ids=str)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_no_padded_copy_is_kept(resources, kind):
    """Where no window crosses devices, the convolution pads: the gradient needs the array and the kernel."""
    x, k = array(8, 6, 6, 4), array(3, 3, 4, 8, seed=1)
    mesh, out_axes = make_mesh((4, 2), kind), ["batch", "A", "B", "d"]
    mapped = nx.xmap(named, (X_AXES, KERNEL_AXES), out_axes, axis_resources=resources, mesh=mesh)
    *ins, out = [PartitionSpec(*map(resources.get, names)) for names in (X_AXES, KERNEL_AXES, out_axes)]
    assert kept(mapped, x, k) <= kept(jax.shard_map(plain, mesh=make_mesh((4, 2)), in_specs=tuple(ins), out_specs=out), x, k)


def test_no_more_operations_than_by_hand():
    x, k = array(2, 8, 8, 3), array(3, 3, 3, 4, seed=1)

    def names(jaxpr):
        for eqn in jaxpr.eqns:
            inner = [value for value in eqn.params.values() if hasattr(value, "jaxpr")]
            yield from (name for one in inner for name in names(one.jaxpr)) if inner else [eqn.primitive.name]

    mapped = nx.xmap(named, (X_AXES, KERNEL_AXES), ["batch", "A", "B", "d"])
    # XLA takes transposes of a convolution into its dimension numbers.
    assert [name for name in names(jax.make_jaxpr(mapped)(x, k).jaxpr) if name != "transpose"] == ["conv_general_dilated"]
