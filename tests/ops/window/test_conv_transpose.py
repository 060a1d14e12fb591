"""Transposed convolution by name. The oracle is `jax.lax.conv_transpose`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from namedax.errors import AxisNotFoundError, AxisSizeError, PositionalAxisError
from tests.harness import FEW, PARTITIONER, array, check, make_mesh, together


def plain(x, k, strides, padding, dilation=(1, 1)):
    """x[a, b, c] over a and b, k[p, q, c, d], to [a, b, d]."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_transpose(x[None], k, strides, padding, rhs_dilation=dilation, dimension_numbers=numbers)[0]


AXES = {"kernel_axis": ("p", "q"), "features_in": "c", "features_out": "d"}


def program(strides, padding, dilation=1):
    def f(x, k):
        out = {"a": "A", "b": "B"}
        return nx.conv_transpose(
            x, k, ("a", "b"), strides=strides, padding=padding, kernel_dilation=dilation, out_axis=out, **AXES
        )

    return f


def own(strides, padding, dilation=(1, 1)):
    return lambda x, k: plain(x, k, strides, padding, dilation)


OUT = ["A", "B", "d"]
# x is {a: 8, b: 4, c: 3}, the kernel {p: 3, q: 2, c: 3, d: 5}; the result {A: 16, B: 8, d: 5}
PROGRAMS = {
    "same": (program(2, "SAME"), own((2, 2), "SAME"), OUT),
    "valid": (program(2, ((1, 2), (0, 2))), own((2, 2), ((1, 2), (0, 2))), OUT),
    "dilated": (program((2, 2), "SAME", (2, 3)), own((2, 2), "SAME", (2, 3)), OUT),
}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("placement", "more"),
    [
        (FEW[0], {}),
        (FEW[2], {"A": ("x", "y")}),
        (FEW[4], {"A": "x"}),
        (FEW[3], {"A": "x", "B": "y"}),
        (PARTITIONER[3], {"A": "x", "B": "y"}),
    ],
    ids=str,
)
def test_values_and_gradients(placement, more):
    from dataclasses import replace

    resources = (*placement.resources, *((k, v) for k, v in more.items()))
    named, oracle, out_axes = together(PROGRAMS)
    args = array(8, 4, 3), array(3, 2, 3, 5, seed=1)
    check(
        named,
        oracle,
        args,
        (["a", "b", "c"], ["p", "q", "c", "d"]),
        out_axes,
        replace(placement, resources=resources),
        tol=1e-4,
    )


@pytest.mark.fast(0)
def test_valid_and_other_strides():
    x, k = array(4, 8, 3), array(3, 2, 3, 5, seed=1)
    for strides, padding in (((3, 1), "VALID"), ((1, 4), "VALID"), ((3, 2), "SAME"), ((2, 5), ((4, 4), (7, 0)))):
        f = nx.xmap(program(strides, padding), (["a", "b", "c"], ["p", "q", "c", "d"]), OUT)
        np.testing.assert_allclose(f(x, k), plain(x, k, strides, padding), rtol=1e-4, atol=1e-4)
    depthwise = nx.conv_transpose(
        nx.named(x[:, 0], ["w", "c"]), nx.named(k[:, 0, :, 0], ["t", "c"]), "w", kernel_axis="t", strides=2
    )
    want = jnp.stack([plain(x[:, :1, i : i + 1], k[:, :1, i : i + 1, :1], (2, 1), "SAME")[:, 0, 0] for i in range(3)], 1)
    np.testing.assert_allclose(nx.positional(depthwise, ["w", "c"]), want, rtol=1e-4, atol=1e-5)


def test_it_sends_the_rows_at_the_boundary():
    def f(x, k):
        return nx.conv_transpose(x, k, ("w",), strides=2, out_axis={"w": "v"})

    mapped = nx.xmap(f, (["w"], [None]), ["v"], axis_resources={"w": "x", "v": "x"}, mesh=make_mesh((4, 2)))
    sent = hlo.collectives(mapped.lower(array(64), array(5)).compile())
    assert sent
    assert all(one.kind == "collective-permute" and one.bytes <= 8 for one in sent), sent


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, k: nx.conv_transpose(x, k, ("h",)), AxisNotFoundError, "conv_transpose: no axis 'h' in f32[]{w:8}"),
        (
            lambda x, k: nx.conv_transpose(x, k, ("w",), padding="FULL"),
            PositionalAxisError,
            "conv_transpose: padding must be 'SAME', 'VALID' or a pair",
        ),
        (lambda x, k: nx.conv_transpose(x, k, ("w",), padding=[(-9, -9)]), AxisSizeError, "leaves no element of axis 'w'"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        call(nx.named(array(8).astype(jnp.float32), ["w"]), array(3))
    assert words in str(raised.value), raised.value


def test_blocks_that_begin_between_two_entries_are_refused():
    f = nx.xmap(
        lambda x, k: nx.conv_transpose(x, k, ("w",), strides=2, padding=[(1, 0)], out_axis={"w": "v"}),
        (["w"], [None]),
        ["v"],
        axis_resources={"w": "x", "v": "x"},
        mesh=make_mesh((4, 2)),
    )
    with pytest.raises(
        AxisSizeError, match=r"axis 'v' of size 12 has blocks of 3 elements over mesh axes \('x',\), which is not a multiple of"
    ):
        f(array(8), array(5))
