"""Law 2 for element types: a weak type, that of Python's numbers, is kept in every placement where it is kept in one.

It gives way to what it meets, so that the element type of what becomes of a result would depend on `axis_resources` otherwise. Whether a result is
weakly typed is compared with what is said here, which is what JAX says of the same in positions.
"""

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from tests.harness import make_mesh


def weak(x):
    """Python's numbers along the axes of `x`, as a mask of scores is made."""
    return nx.where(x > 1, 1.0, 0.0)


# The operation, and whether its result is weakly typed.
BODIES = {
    "a number": (lambda x: 1.0, True),
    "where": (weak, True),
    "full": (lambda x: nx.full((), 1.0, named_shape=x.named_shape), True),
    "sum": (lambda x: nx.sum(weak(x), "k"), False),
    "any": (lambda x: nx.where(nx.any(x > 1, "k"), 1.0, 0.0), True),
    "rename": (lambda x: nx.rename(weak(x), {"k": "z"}), True),
    "getitem": (lambda x: weak(x)["k", 2], True),
    "take": (lambda x: nx.take(weak(x), jnp.array([2, 1]), "k"), True),
    "take_along_axis": (lambda x: nx.take_along_axis(weak(x), jnp.array([2, 1]), "k"), True),
    "at": (lambda x: weak(x).at["k", 2].set(5.0), True),
    "dot": (lambda x: nx.dot(weak(x), weak(x), "k"), True),
    "einsum": (lambda x: nx.einsum("{k},{k}->", weak(x), weak(x)), True),
    "sort": (lambda x: nx.sort(weak(x), "k"), True),
    "top_k": (lambda x: nx.top_k(weak(x), 2, axis="k", out_axis="t").values, True),
    "places of top_k": (lambda x: nx.top_k(weak(x), 2, axis="k", out_axis="t").indices, False),
    "max_with_index": (lambda x: nx.max_with_index(weak(x), "k")[0], True),
    "shift": (lambda x: nx.shift(weak(x), 1, "k"), True),
    "roll": (lambda x: nx.roll(weak(x), 1, "k"), True),
    "halo": (lambda x: nx.halo(weak(x), "k"), True),
    "cummax": (lambda x: nx.cummax(weak(x), "k"), True),
    "cumlogsumexp": (lambda x: nx.cumlogsumexp(weak(x), "k"), True),
    "pbroadcast": (lambda x: nx.lax.pbroadcast(weak(x), "k", 1), True),
    "fold": (lambda x: nx.fold(lambda c, y: c + weak(y), 0.0, x, axis="k"), True),
    "scan": (lambda x: nx.scan(lambda c, y: (c, c), 0.0, x, axis="k")[1], True),
    "gradient": (lambda x: jax.grad(lambda s: nx.sum(s * weak(x), "k"))(2.0), True),
    "cg": (lambda x: nx.scipy.sparse.linalg.cg(lambda v: 2 * v, weak(x))[0], True),
}
PLACEMENTS = {
    "unmapped": (8, {}),
    "blocks": (8, {"axis_resources": {"k": "x"}}),
    "uneven": (6, {"axis_resources": {"k": "x"}}),
    "steps": (8, {"axis_resources": {"k": nx.SerialLoop(2)}}),
    "steps of blocks": (8, {"axis_resources": {"k": ("x", nx.SerialLoop(2))}}),
}
MOVES = {"sort", "roll", "shift", "halo"}  # entries from step to step, which is refused
DIVIDES = {"cg"}  # likewise, sizes that do not


@pytest.mark.full(42)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("body", BODIES)
def test_weak_types_do_not_depend_on_the_placement(body, placement):
    if ("steps" in placement and body in MOVES) or (placement == "uneven" and body in DIVIDES):
        return
    function, is_weak = BODIES[body]
    size, options = PLACEMENTS[placement]
    mapped = nx.xmap(lambda x: [(y, y * jnp.bfloat16(1)) for y in [function(x)]], mesh=make_mesh((4, 2)), **options)
    ((types, met),) = jax.eval_shape(mapped, nx.named(jnp.arange(size, dtype="float16"), ["k"]))
    kind = jnp.int32 if "places" in body else jnp.float32
    assert (types.dtype, types.weak_type) == (kind, is_weak)
    assert met.dtype == (jnp.bfloat16 if is_weak or kind == jnp.int32 else jnp.float32)


@pytest.mark.fast(0)
def test_the_values_of_weak_results():
    x = nx.named(jnp.arange(8.0), ["k"])
    mesh = make_mesh((4, 2))
    for resources in ({}, {"k": "x"}, {"k": nx.SerialLoop(2)}):
        mapped = nx.xmap(
            lambda x: (nx.dot(weak(x), weak(x), "k"), nx.cummax(weak(x), "k")), axis_resources=resources, mesh=mesh
        )
        total, largest = mapped(x)
        assert float(total) == 6.0
        assert largest.data.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
        grad = jax.grad(lambda x, f=mapped: jnp.sum(f(x)[0] * nx.sum(x, "k")))(x)
        assert grad.data.tolist() == [6.0] * 8
