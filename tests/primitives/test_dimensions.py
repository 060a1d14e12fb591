"""How dimensions of results follow from those of operands, by evaluation: elements in another order, blocks, and equal elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from namedax.primitives import costs
from namedax.primitives.blocks import block_of, parts_of
from namedax.primitives.dimensions import by_alignment
from namedax.primitives.equations import bind, facts
from namedax.primitives.table import TABLE
from tests import make

A = make.asarray(np.random.default_rng(0).permutation(48).reshape(2, 4, 6), jnp.float32)
I = make.array(A, int)
ONE = make.array(1, "int32")
NARROW, NEXT, SMALL = (make.array(x) for x in (np.asarray(A)[:, :1], np.asarray(A) + 1, np.asarray(A) / 24))
INSERTED, LATER = make.array(np.asarray(NEXT)[:, :2]), make.array(np.asarray(NEXT)[:, 1:])
BATCHED = (((2,), (2,)), ((0,), (0,)))
WINDOW = ((1, 1, 3), (1, 1, 1), "VALID")

# For each primitive with aligned dimensions: functions that are the primitive, with operands.
PROGRAMS = {
    "broadcast_in_dim": [
        (lambda a: lax.broadcast_in_dim(a, (4, 2, 5, 6), (1, 0, 3)), A),
        (lambda a: lax.broadcast_in_dim(a, (2, 5, 6), (0, 1, 2)), NARROW),
    ],
    "reshape": [(lambda a: lax.reshape(a, (2, 2, 2, 6)), A), (lambda a: lax.reshape(a, (8, 1, 6)), A)],
    "transpose": [(lambda a: lax.transpose(a, (2, 0, 1)), A)],
    "squeeze": [(lambda a: lax.squeeze(a, (1,)), NARROW)],
    "rev": [(lambda a: lax.rev(a, (1,)), A)],
    "slice": [(lambda a: lax.slice(a, (0, 1, 0), (2, 3, 6), (1, 1, 1)), A)],
    "split": [(lambda a: lax.split(a, (2, 4), 2)[0], A)],
    "pad": [(lambda a: lax.pad(a, 0.0, ((0, 0, 0), (1, -1, 0), (0, 0, 1))), A)],
    "concatenate": [(lambda a, b: lax.concatenate([a, b], 1), A, NEXT)],
    "cumsum": [(lambda a: lax.cumsum(a, 1), A)],
    "cumprod": [(lambda a: lax.cumprod(a, 1), SMALL)],
    "cummax": [(lambda a: lax.cummax(a, 1), A)],
    "cummin": [(lambda a: lax.cummin(a, 1, reverse=True), A)],
    "cumlogsumexp": [(lambda a: lax.cumlogsumexp(a, 1), SMALL)],
    "reduce_sum": [(lambda a: lax.reduce_sum_p.bind(a, axes=(1,), out_sharding=None), A)],
    "reduce_prod": [(lambda a: jnp.prod(a, 1), SMALL)],
    "reduce_max": [(lambda a: jnp.max(a, 1), A)],
    "reduce_min": [(lambda a: jnp.min(a, (0, 1)), A)],
    "reduce_and": [(lambda a: jnp.all(a > 3, 1), A)],
    "reduce_or": [(lambda a: jnp.any(a > 3, 2), A)],
    "reduce_xor": [(lambda a: lax.reduce_xor(a, (1,)), I)],
    "argmax": [(lambda a: lax.argmax(a, 1, jnp.int32), A)],
    "argmin": [(lambda a: lax.argmin(a, 1, jnp.int32), A)],
    "reduce": [(lambda a: lax.reduce(a, 0.0, lambda x, y: x - y, (1,)), A)],
    "reduce_window_sum": [(lambda a: lax.reduce_window(a, 0.0, lax.add, *WINDOW), A)],
    "reduce_window_max": [(lambda a: lax.reduce_window(a, -jnp.inf, lax.max, *WINDOW), A)],
    "reduce_window_min": [(lambda a: lax.reduce_window(a, jnp.inf, lax.min, (1, 1, 1), (1, 2, 1), "VALID"), A)],
    "reduce_window": [(lambda a: lax.reduce_window(a, 0.0, lambda x, y: x + 2 * y, *WINDOW), A)],
    "sort": [(lambda a: lax.sort(a, dimension=1), A), (lambda a, b: lax.sort((a, b), dimension=1, num_keys=1)[1], A, NEXT)],
    "top_k": [(lambda a: lax.top_k(a, 2)[0], A)],
    "approx_top_k": [(lambda a: lax.approx_max_k(a, 2, reduction_dimension=1)[0], A)],
    "dot_general": [(lambda a, b: lax.dot_general(a, b, BATCHED), A, LATER)],
    "dynamic_slice": [(lambda a, i: lax.dynamic_slice(a, (0, i, 0), (2, 2, 6)), A, ONE)],
    "dynamic_update_slice": [(lambda a, b, i: lax.dynamic_update_slice(a, b, (0, i, 0)), A, INSERTED, ONE)],
    "iota": [(lambda: lax.broadcasted_iota(jnp.int32, (2, 4), 1),)],
    "bitcast_convert_type": [(lambda a: lax.bitcast_convert_type(a, jnp.int32), A)],
    "stack": [(lambda a, b: jnp.stack([a, b], 1), A, NEXT)],
    "unstack": [(lambda a: jnp.unstack(a, axis=1)[0], A)],
    "tile": [(lambda a: jnp.tile(a, (1, 2, 1)), A)],
}
# JAX makes these in other ways, in some versions.
NOT_MADE = {"empty", "empty2", "select_and_gather_add"}
SOMETIMES = {"stack", "unstack", "tile", "split"}


def equation(name, program):
    function, *operands = program
    jaxpr = jax.make_jaxpr(function)(*operands)
    while True:
        found = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == name]
        if found or not any("jaxpr" in eqn.params for eqn in jaxpr.eqns):
            break
        (jaxpr,) = (eqn.params["jaxpr"] for eqn in jaxpr.eqns if "jaxpr" in eqn.params)
    if not found and name in SOMETIMES:
        pytest.skip(f"JAX {jax.__version__} makes no {name} here")
    (eqn,) = found
    scalars = iter([v for v in operands if not np.ndim(v)])
    arrays = [v for v in operands if np.ndim(v)]
    values = [v > 3 if var.aval.dtype == bool else v for v, var in zip(arrays, eqn.invars, strict=False)]
    for var in eqn.invars[len(values) :]:
        values.append(jnp.asarray(var.val, var.aval.dtype) if hasattr(var, "val") else next(scalars, jnp.int32(0)))
    return eqn, values


CASES = [(name, i) for name, programs in PROGRAMS.items() for i in range(len(programs))]


def test_every_alignment_has_a_program():
    assert {name for name, record in TABLE.items() if record.aligned is not None} - NOT_MADE == set(PROGRAMS)


@pytest.mark.full(32)
@pytest.mark.fast(8)
@pytest.mark.parametrize(("name", "i"), CASES)
def test_elements_in_another_order(name, i):
    """Along aligned dimensions, operands in another order give the result in that order."""
    eqn, values = equation(name, PROGRAMS[name][i])
    aligned, record = facts(eqn).aligned(eqn), facts(eqn)
    assert len(aligned) == len(eqn.invars)
    want = bind(eqn, values)[0]
    tried = 0
    for place, n in enumerate(want.shape):
        own = [dims[place] for dims in aligned]
        if ... in own or all(dim is None for dim in own):
            continue
        order = np.random.default_rng(1).permutation(n)
        operands = [v if dim is None else jnp.take(v, order, dim) for v, dim in zip(values, own, strict=True)]
        np.testing.assert_allclose(bind(eqn, operands)[0], jnp.take(want, order, place), rtol=1e-5)
        tried += 1
    assert tried or record.draws


def test_a_permutation_of_numpy_integers():
    """JAX's own rules make some: no sharding is lost."""
    order = tuple(map(np.int64, (2, 0, 1)))
    (eqn,) = jax.make_jaxpr(lambda a: lax.transpose_p.bind(a, permutation=order))(A).eqns
    x, y, none = frozenset({"x"}), frozenset({"y"}), frozenset()
    assert by_alignment(facts(eqn).aligned(eqn), eqn, [(x, none, y)]) == ([(y, x, none)], none)


@pytest.mark.fast(4)
@pytest.mark.parametrize(("name", "i"), CASES)
def test_blocks(name, i, monkeypatch):
    """Blocks of the operands give the block of the result; what is needed whole says so."""
    eqn, values = equation(name, PROGRAMS[name][i])
    whole = bind(eqn, values)[0]
    monkeypatch.setattr("namedax.primitives.blocks.count_along", lambda axes: 2)
    monkeypatch.setattr("namedax.primitives.blocks.cast_alike", lambda values: values)
    tried = 0
    for place, n in enumerate(whole.shape):
        parts = parts_of(eqn, ((place, ("x",)),))
        if parts is None or n % 2:
            continue
        for half in range(2):
            blocks = []
            for value, part in zip(values, parts, strict=True):
                for dim, _ in part:
                    value = jnp.split(value, 2, dim)[half]
                blocks.append(value)
            block = block_of(eqn, blocks, ((place, ("x",)),))
            np.testing.assert_allclose(block, jnp.split(whole, 2, place)[half], rtol=1e-5)
            tried += 1
    assert tried or facts(eqn).in_blocks is None


@pytest.mark.fast(5)
@pytest.mark.parametrize(("name", "i"), CASES)
def test_equal_elements_stay_equal(name, i):
    eqn, values = equation(name, PROGRAMS[name][i])
    if costs.keeps_uniform(eqn):
        results = bind(eqn, [jnp.full_like(v, 3) for v in values])
        assert all((result == result.ravel()[0]).all() for result in results)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_moved_dimensions(name, i):
    """The sizes of the dimensions that a result has from its operand are those of the operand."""
    eqn, values = equation(name, PROGRAMS[name][i])
    moved = costs.moved_dimensions(eqn)
    for place, dim in enumerate(moved or ()):
        assert dim is None or values[0].shape[dim] == eqn.outvars[0].aval.shape[place]


@pytest.mark.parametrize("name", [name for name, record in TABLE.items() if record.is_idempotent])
def test_what_is_idempotent(name):
    for x in (A > 3, I):
        np.testing.assert_array_equal(getattr(lax, {"and": "bitwise_and", "or": "bitwise_or"}.get(name, name))(x, x), x)
