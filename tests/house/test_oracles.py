"""The oracles compute what the plain programs do, with the communication that they should have.

`on_paper` is the expert's analysis: for each assignment every collective, with the number of
float32 elements that it carries for one device. The compiled oracle has those and no others.
"""

import functools
import types
from collections import Counter

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding

from namedax import hlo
from tests.oracles import BLOCK, NETWORK, ORACLES, make_mesh

REDUCE, GATHER, SCATTER = "all-reduce", "all-gather", "reduce-scatter"
N = types.SimpleNamespace(**NETWORK.sizes)
B = types.SimpleNamespace(**BLOCK.sizes)
STREAM = B.batch * B.pos * B.embed
WEIGHT = B.embed * B.hidden


def on_paper(name, mesh, with_x):
    """The collectives of value and gradient, as (kind, elements, size of the group).

    Args:
      name: of the oracle.
      mesh: its axes' sizes count.
      with_x: whether the gradient with respect to the block's `x` is wanted too.
    """
    x, y, data, tensor = (mesh.shape.get(axis, 1) for axis in ("x", "y", "data", "tensor"))
    network_weights = N.inputs * N.hidden + N.hidden * N.classes
    match name:
        case "network/batch" | "network/batch-over-xy":  # the loss and the gradients in one
            return [(REDUCE, 1 + network_weights, x * y)]
        case "network/hidden":  # the logits
            return [(REDUCE, N.batch * N.classes, x)]
        case "network/batch+hidden":  # the logits; the loss and the gradients in one
            logits = N.batch // x * N.classes
            return [(REDUCE, logits, y), (REDUCE, 1 + network_weights // y, x)]
        case "network/inputs+hidden":  # the hidden layer; the logits
            return [(REDUCE, N.batch * N.hidden // y, x), (REDUCE, N.batch * N.classes, y)]
        case "block/dp":  # the loss and the gradients in one
            return [(REDUCE, 1 + 2 * WEIGHT, data)]
        case "block/tp":  # the output; the gradient of x
            return [(REDUCE, STREAM, tensor)] * (1 + with_x)
        case "block/dp+tp":  # both of these
            stream = [(REDUCE, STREAM // data, tensor)] * (1 + with_x)
            return [*stream, (REDUCE, 1 + 2 * WEIGHT // tensor, data)]
        case "block/fsdp":  # the weights; their gradients; the loss
            weights = [(GATHER, WEIGHT, data), (SCATTER, WEIGHT, data)] * 2
            return [*weights, (REDUCE, 1, data)]
        case "block/fsdp+tp":  # the same, and x and its output; their gradients
            weights = [(GATHER, WEIGHT // tensor, data), (SCATTER, WEIGHT // tensor, data)] * 2
            forward = [(GATHER, STREAM // data, tensor), (SCATTER, STREAM // data, tensor)]
            backward = forward if with_x else forward[:1]
            return [*weights, *forward, *backward, (REDUCE, 1, data * tensor)]
    raise AssertionError(name)


@functools.cache
def plain(model, argnums):
    """The value and gradients of the plain program on one device."""
    return jax.jit(jax.value_and_grad(model.loss, argnums))(*model.arguments())


#: Every oracle on its first mesh, with the gradient taken inside and outside of the body; some
#: again with the gradient of `x`, or on a mesh of another shape.
CASES = [
    *((name, 0, inside, False) for name in ORACLES for inside in (True, False)),
    *((name, 0, True, True) for name, oracle in ORACLES.items() if oracle.model is BLOCK),
    *((name, 1, False, False) for name, oracle in ORACLES.items() if len(oracle.mesh_axes) == 2),
]


@pytest.mark.full(5)
@pytest.mark.fast(2)
@pytest.mark.parametrize(("name", "shape", "inside", "with_x"), CASES)
def test_value_gradient_and_communication(name, shape, inside, with_x):
    oracle = ORACLES[name]
    mesh = oracle.meshes()[shape]
    argnums = (0, 1, 2) if with_x else (0, 1)
    step = jax.jit(oracle.value_and_grad(mesh, inside=inside, argnums=argnums))
    compiled = step.lower(*oracle.abstract(mesh)).compile()

    found = Counter((c.kind, c.bytes, c.group_size) for c in hlo.collectives(compiled))
    assert found == Counter((kind, 4 * n, size) for kind, n, size in on_paper(name, mesh, with_x))

    loss, grads = compiled(*oracle.place(mesh, oracle.arguments()))
    want_loss, want_grads = plain(oracle.model, argnums)
    np.testing.assert_allclose(loss, want_loss, rtol=1e-5)
    for grad, want, argnum in zip(grads, want_grads, argnums, strict=True):
        assert grad.dtype == np.float32
        np.testing.assert_allclose(grad, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
        stored = NamedSharding(mesh, oracle.in_specs[argnum])
        assert grad.sharding.is_equivalent_to(stored, grad.ndim)


@pytest.mark.parametrize("name", ["network/batch", "block/fsdp+tp"])
def test_loss_alone(name):
    oracle = ORACLES[name]
    mesh = oracle.meshes()[0]
    loss = jax.jit(oracle.loss(mesh))(*oracle.place(mesh, oracle.arguments()))
    np.testing.assert_allclose(loss, plain(oracle.model, (0, 1))[0], rtol=1e-5)


def test_idle_mesh_axis():
    oracle = ORACLES["block/dp"]
    mesh = make_mesh(data=4, tensor=2)
    step = jax.jit(oracle.value_and_grad(mesh, inside=True))
    (collective,) = hlo.collectives(step.lower(*oracle.abstract(mesh)).compile())
    assert (collective.bytes, collective.group_size) == (4 * (1 + 2 * WEIGHT), 4)


def test_resized():
    oracle = ORACLES["network/batch"].resized(batch=80, inputs=3)
    w1, _, images, labels = oracle.arguments()
    assert (w1.shape, images.shape, labels.shape) == ((3, N.hidden), (80, 3), (80,))
    mesh = oracle.meshes()[0]
    loss = jax.jit(oracle.loss(mesh))(*oracle.place(mesh, oracle.arguments()))
    np.testing.assert_allclose(loss, oracle.model.loss(*oracle.arguments()), rtol=1e-5)


@pytest.mark.parametrize("name", ORACLES)
def test_blocks_have_unequal_axes(name):
    """An axis that is as long as another could be taken for it, and no test would know."""
    oracle = ORACLES[name]
    for mesh in oracle.meshes():
        blocks = {
            dim: NamedSharding(mesh, spec).shard_shape(shape)[i]
            for dims, spec, shape in zip(oracle.stored.values(), oracle.in_specs, oracle.model.shapes.values(), strict=True)
            for i, dim in enumerate(dims)
        }
        sizes = {**oracle.model.sizes, **blocks}
        assert len(set(sizes.values())) == len(sizes)
