"""`dot` contracts the given names and broadcasts the rest, in every placement, forwards and in gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax import hlo
from tests import make
from tests.harness import FEW, array, check, make_mesh, said

# In the oracles names are lower case, and positional axes upper case.
X = array(5, 8, 4, seed=1)  # N a b
Y = array(4, 8, 3, seed=2)  # b a c
Z = array(3, 5, 4, seed=3)  # c N b
W = array(8, 3, seed=4)  # a c
AXES = ([None, "a", "b"], ["b", "a", "c"], ["c", None, "b"], ["a", "c"])


def several(x, y, z, w):
    return [
        nx.dot(x, y, "a"),  # `b` is a batch axis, the positional axis is carried
        nx.dot(y, x, ("b", "a")),  # several names, in any order
        nx.dot(x, z, "b"),  # equal positional shapes meet elementwise
        nx.dot(x, w, ["a"]),
        nx.dot(w, w, ("a", "c")),  # nothing is left
        nx.dot(x, w, ()),  # nothing is contracted
    ]


@jax.jit
def oracles(x, y, z, w):
    return [
        jnp.einsum("Nab,bac->bcN", x, y),
        jnp.einsum("Nab,bac->cN", x, y),
        jnp.einsum("Nab,cNb->acN", x, z),
        jnp.einsum("Nab,ac->bcN", x, w),
        jnp.einsum("ac,ac->", w, w),
        jnp.einsum("Nab,ac->abcN", x, w),
    ]


OUT_AXES = [["b", "c", None], ["c", None], ["a", "c", None], ["b", "c", None], [], ["a", "b", "c", None]]


@pytest.mark.full(1)
@pytest.mark.fast(3)
@pytest.mark.parametrize("placement", FEW, ids=str)
def test_in_every_placement(placement):
    check(several, oracles, (X, Y, Z, W), AXES, OUT_AXES, placement, tol=1e-4)


def test_communication():
    """One all-reduce of the result for all names together; none where the contracted name is whole."""
    mesh = make_mesh((4, 2))
    f = nx.xmap(
        lambda x, y: nx.dot(x, y, ("a", "b")), (AXES[0], AXES[1]), ["c", None], axis_resources={"a": "x", "b": "y"}, mesh=mesh
    )
    assert hlo.summary(f.lower(X, Y).compile()) == {"all-reduce": (1, X.dtype.itemsize * 3 * 5)}
    f = nx.xmap(lambda x, y: nx.dot(x, y, "b"), (AXES[0], AXES[1]), {0: "a", 1: "c"}, axis_resources={"a": "x"}, mesh=mesh)
    assert hlo.summary(f.lower(X, Y).compile()) == {}


def test_physical_orders():
    """Neither the order in which names are stored nor where positional axes stand among them shows in a value."""
    want = nx.positional(nx.dot(nx.named(X, AXES[0]), nx.named(Y, AXES[1]), "a"), ["b", "c", None])
    for order in ((2, 1, 0), (1, 0, 2), (0, 2, 1)):
        x = nx.named(X.transpose(order), [AXES[0][i] for i in order])
        y = nx.named(Y.transpose(order), [AXES[1][i] for i in order])
        np.testing.assert_allclose(nx.positional(nx.dot(x, y, "a"), ["b", "c", None]), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(nx.positional(nx.dot(y, x, "a"), ["b", "c", None]), want, rtol=1e-5, atol=1e-5)


def test_square():
    """Dimensions of one size are told apart by their names."""
    x, y = array(4, 4, seed=1), array(4, 4, seed=2)
    a, b = nx.named(x, ["i", "k"]), nx.named(y, ["k", "j"])
    np.testing.assert_allclose(nx.positional(nx.dot(a, b, "k"), ["i", "j"]), x @ y, rtol=1e-5, atol=1e-5)
    b = nx.named(y, ["j", "k"])
    np.testing.assert_allclose(nx.positional(nx.dot(a, b, "k"), ["i", "j"]), x @ y.T, rtol=1e-5, atol=1e-5)


def test_positional_axes_of_size_one():
    x, y = nx.named(array(1, 3, seed=1), [None, "k"]), nx.named(array(3, 1, seed=2), ["k", None])
    np.testing.assert_allclose(nx.dot(x, y, "k"), (x.data @ y.data)[0], rtol=1e-5)
    assert nx.dot(x, y, "k").shape == (1,)
    assert nx.dot(nx.named(array(3), ["k"]), y, "k").shape == (1,)


def test_types():
    i, f = nx.named(make.arange(3, dtype=jnp.int8), ["k"]), nx.named(make.ones(3, jnp.bfloat16), ["k"])
    assert nx.dot(i, f, "k").dtype == jnp.bfloat16
    assert nx.dot(i * 50, i * 50, "k", preferred_element_type=jnp.int32) == 12500
    assert nx.dot(f, f, "k", preferred_element_type=jnp.float32).dtype == jnp.float32


def test_in_a_body_with_concrete_values():
    f = nx.xmap(lambda x, w: nx.dot(x, w, "a"), (["a", "b"], ["a", "c"]), ["b", "c"], jit=False)
    np.testing.assert_allclose(f(Y[:, :, 0].T, W), Y[:, :, 0] @ W, rtol=1e-5, atol=1e-5)


# --- mistakes ----------------------------------------------------------------------------------------

A = nx.named(make.ones((2, 3), jnp.float32), ["batch", "inputs"])
B = nx.named(make.ones((3, 5), jnp.float32), ["inputs", "hidden"])

MISTAKES = {
    "not-in-the-first": (
        (B, A, "batch"),
        nx.errors.AxisNotFoundError,
        "dot: no axis 'batch' in f32[]{inputs:3, hidden:5}; its named axes are 'inputs', 'hidden'. dot contracts names that "
        "both arrays have. Write nx.dot(x, y, 'inputs').",
    ),
    "not-in-the-second": (
        (A, B, ("inputs", "batch")),
        nx.errors.AxisNotFoundError,
        "dot: no axis 'batch' in f32[]{inputs:3, hidden:5}; its named axes are 'inputs', 'hidden'. dot contracts names that "
        "both arrays have. Write nx.dot(x, y, 'inputs').",
    ),
    "misspelt": (
        (A, B, "input"),
        nx.errors.AxisNotFoundError,
        "dot: no axis 'input' in f32[]{batch:2, inputs:3}; its named axes are 'batch', 'inputs'. Did you mean 'inputs'? dot "
        "contracts names that both arrays have. Write nx.dot(x, y, 'inputs').",
    ),
    "plain-array": (
        (A, B.data, "inputs"),
        nx.errors.AxisNotFoundError,
        "dot: no axis 'inputs' in f32[3,5]; it has no named axis. dot contracts names that both arrays have. Name the axes "
        "of y first: nx.named(y, ['inputs', None]).",
    ),
    "position": (
        (A, B, 0),
        nx.errors.AxisNotFoundError,
        "dot: no axis 0 in f32[]{batch:2, inputs:3}; its named axes are 'batch', 'inputs'. dot contracts names that both "
        "arrays have. Write nx.dot(x, y, 'inputs').",
    ),
    "sizes": (
        (A, nx.named(make.ones((4, 5), jnp.float32), ["inputs", "hidden"]), "inputs"),
        nx.errors.AxisSizeError,
        "dot: axis 'inputs' has size 3 in operand 0, f32[]{batch:2, inputs:3}, and size 4 in operand 1, f32[]{inputs:4, "
        "hidden:5}; a name has one size. Rename one of the two.",
    ),
    "sizes-of-a-batch-axis": (
        (A, nx.named(make.ones((4, 3), jnp.float32), ["batch", "inputs"]), "inputs"),
        nx.errors.AxisSizeError,
        "dot: axis 'batch' has size 2 in operand 0, f32[]{batch:2, inputs:3}, and size 4 in operand 1, f32[]{batch:4, "
        "inputs:3}; a name has one size. Rename one of the two.",
    ),
    "positional-shapes": (
        (
            nx.named(make.ones((2, 3), jnp.float32), [None, "k"]),
            nx.named(make.ones((3, 4, 2), jnp.float32), ["k", None, None]),
            "k",
        ),
        nx.errors.PositionalAxisError,
        "dot: both operands have positional axes, of shapes (2,) and (4, 2) (f32[2]{k:3} and f32[4,2]{k:3}); they must be "
        "equal, or one operand must have none. For an outer product write einsum with a letter for each axis.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    args, error, message = MISTAKES[name]
    with pytest.raises(error) as caught:
        nx.dot(*args)
    assert said(caught.value) == message


def test_two_names_on_one_mesh_axis():
    f = nx.xmap(
        lambda x, w: nx.dot(x, w, "k"),
        (["a", "k"], ["k", "c"]),
        {0: "a"},
        axis_resources={"a": "x", "c": "x"},
        mesh=make_mesh((4, 2)),
    )
    with pytest.raises(nx.errors.PlacementConflictError) as caught:
        f(make.ones((8, 3)), make.ones((3, 4)))
    assert said(caught.value) == (
        "dot: axes 'a' and 'c' meet in one value, but both are mapped to mesh axis 'x', which can hold only one of them. "
        "Rename one of them to an axis that is not on 'x' first (nx.rename, or {new:old} in einsum: this communicates), or "
        "change axis_resources."
    )
