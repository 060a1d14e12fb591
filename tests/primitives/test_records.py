"""The records of JAX's primitives, against the JAX that is installed.

Every assumption that a pass over programs makes is tried on a program that is traced here. A release of JAX that breaks one fails the test
of that one, with a sentence that says which.
"""

import ast
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, subjaxprs
from jax.extend.core import Primitive as JaxPrimitive
from jax.extend.core import primitives as public
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from namedax.core.placement_marks import PLACED, mark_placement
from namedax.core.user_code import LEAF
from namedax.primitives import costs
from namedax.primitives import equations as primitives
from namedax.primitives import recomputation as remat
from namedax.primitives.blocks import parts_of
from namedax.primitives.calls import HIGH
from namedax.primitives.record import Kind, Primitive
from namedax.primitives.table import TABLE
from namedax.programs.evaluator import collective_axes, has_reverse_rules
from namedax.programs.psum_plan import linear_groups
from namedax.resources.communication import PRIMITIVE, own_block
from namedax.resources.padding import MASK_COTANGENT, ZERO_COTANGENT, mask_cotangent, zero_cotangent
from namedax.resources.two_level import PRIMITIVE as TWO_LEVEL
from namedax.resources.two_level import steps
from tests import make
from tests.harness import HIGH_FLAGS, flags_on, flags_set

ROOT = pathlib.Path(primitives.__file__).parents[1]
AXES = ("x", "y")
OWN = {PRIMITIVE.name, TWO_LEVEL.name, MASK_COTANGENT.name, ZERO_COTANGENT.name, LEAF.name, PLACED.name}


def broken(name, what):
    return f"JAX {jax.__version__} breaks what namedax.primitives says of {name!r}: {what}"


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in subjaxprs(jaxpr.replace(eqns=[eqn])):
            yield from equations(inner)


def numbers(*shape, dtype=jnp.float32, seed=0):
    """Small integers, which are added up exactly."""
    return make.asarray(np.random.default_rng((seed, *shape)).integers(-4, 5, shape), dtype)


V, M, X = numbers(6), numbers(3, 6), numbers(8, 8)
NEXT, POSITIVE = make.array(np.asarray(M) + 1), make.array(np.asarray(M) > 0)
PLACE = make.array([[4], [1], [4]])


def mesh():
    return jax.make_mesh((4, 2), AXES, axis_types=(AxisType.Auto,) * 2)


def mapped(function, out_specs):
    """A function of blocks, `(2, 8)` of `(8, 8)` along x, over a mesh of eight devices."""
    return jax.shard_map(function, mesh=mesh(), in_specs=P("x"), out_specs=out_specs)


# The dimension numbers of `v[i]` and of `v.at[i].add(u)` for a vector and indices of shape (n, 1).
TAKE = lax.GatherDimensionNumbers((), (0,), (0,))
ADD = lax.ScatterDimensionNumbers((), (0,), (0,))


def take(v, i, **options):
    return lax.gather(v, i, TAKE, (1,), **options)


# For every primitive of an own device: a function that is the primitive, and operands.
PLAIN = {
    "neg": (lax.neg, M),
    "rev": (lambda a: lax.rev(a, (1,)), M),
    "slice": (lambda a: lax.slice(a, (1, 2), (3, 5)), M),
    "cumsum": (lambda a: lax.cumsum(a, 1), M),
    "reduce_sum": (lambda a: lax.reduce_sum_p.bind(a, axes=(0,), out_sharding=None), M),
    "broadcast_in_dim": (lambda a: lax.broadcast_in_dim(a, (2, 3, 6), (1, 2)), M),
    "reshape": (lambda a: lax.reshape(a, (18,)), M),
    "transpose": (lambda a: lax.transpose(a, (1, 0)), M),
    "squeeze": (lambda a: lax.squeeze(a, (1,)), numbers(4, 1)),
    "copy": (lax.copy_p.bind, M),
    "convert_element_type": (lambda a: lax.convert_element_type(a, jnp.float32), make.array(M, "float16")),
    "add": (lax.add, M, NEXT),
    "add_any": (public.add_jaxvals_p.bind, M, NEXT),
    "sub": (lax.sub, M, NEXT),
    "concatenate": (lambda *xs: lax.concatenate(xs, 0), M, NEXT, make.array(np.asarray(M)[:1])),
    "pad": (lambda a, p: lax.pad(a, p, [(1, 0, 0), (0, 2, 1)]), M, numbers()),
    "dynamic_update_slice": (
        lambda a, b, i, j: lax.dynamic_update_slice(a, b, (i, j)),
        M,
        make.array(np.asarray(M)[:2, :3]),
        make.array(1, "int32"),
        make.array(2, "int32"),
    ),
    "select_n": (lax.select_n, POSITIVE, M, NEXT),
    "scatter-add": (lambda a, i, u: lax.scatter_add(a, i, u, ADD), V, PLACE, numbers(3, seed=1)),
    "mul": (lax.mul, make.array(M, int), make.array(NEXT, int)),
    "dot_general": (
        lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ()))),
        make.array(M, int),
        make.array(np.asarray(M).T, int),
    ),
    "div": (lax.div, make.array(4 * np.asarray(M)), make.array(np.full(M.shape, 2.0))),
    "dynamic_slice": (lambda a, i, j: lax.dynamic_slice(a, (i, j), (2, 3)), M, make.array(1, "int32"), make.array(2, "int32")),
    "gather": (take, V, PLACE),
    "reduce_prod": (lambda a: jnp.prod(a, 0), M),
    "reduce_max": (lambda a: jnp.max(a, 0), M),
    "reduce_min": (lambda a: jnp.min(a, 0), M),
    "reduce_and": (lambda a: jnp.all(a > 0, 0), M),
    "reduce_or": (lambda a: jnp.any(a > 0, 0), M),
    "reduce_xor": (lambda a: lax.reduce_xor(a, (0,)), make.array(M, int)),
    "argmax": (lambda a: lax.argmax(a, 0, jnp.int32), M),
    "argmin": (lambda a: lax.argmin(a, 0, jnp.int32), M),
    "iota": (lambda: lax.iota(jnp.int32, 3),),
    "name": (lambda a: checkpoint_name(a, "kept"), M),
    LEAF.name: (lambda a: LEAF.bind(a, mark=(("x",), ())), M),
    PLACED.name: (lambda a: mark_placement(a, (("x",), ())), M),
    "lt": (lax.lt, M, NEXT),
    "mask_cotangent": (mask_cotangent, M, POSITIVE),
    "zero_cotangent": (zero_cotangent, M),
    "fft": (jnp.fft.fft, M),
    "optimization_barrier": (lambda a, b: lax.optimization_barrier((a, b)), M, V),
    "sharding_constraint": (lambda a: lax.with_sharding_constraint(a, jax.NamedSharding(mesh(), P("x"))), X),
}


def casting(x):
    return lax.pcast(x, "y", to="varying")


# For every primitive that speaks of mesh axes: a function of blocks, the specs of what it gives, and the axes.
COLLECTIVES = {
    "pvary": (casting, P(AXES), ("y",)),
    "psum": (None, None, ("x",)),
    "psum_invariant": (lambda x: lax.psum(x, "x"), P(), ("x",)),
    "pmax": (lambda x: lax.pmax(x, "x"), P(), ("x",)),
    "pmin": (lambda x: lax.pmin(x, "x"), P(), ("x",)),
    "all_gather": (lambda x: lax.all_gather(x, "x", axis=1, tiled=True), P("x"), ("x",)),
    "all_gather_invariant": (lambda x: lax.all_gather(x, "x", axis=1, tiled=True, to="invarying"), P(), ("x",)),
    "reduce_scatter": (lambda x: lax.psum_scatter(x.T, "x", scatter_dimension=0, tiled=True), P("x"), ("x",)),
    "all_to_all": (lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), P("x"), ("x",)),
    "ppermute": (lambda x: lax.ppermute(x, "x", [(0, 1), (1, 2)]), P("x"), ("x",)),
    "axis_index": (lambda x: x[:1, :1] * 0 + lax.axis_index("x"), P("x"), ("x",)),
    "device_block": (
        lambda x: own_block(lax.all_gather(x, "x", axis=1, tiled=True, to="invarying"), 1, ("x",)),
        P("x"),
        ("x",),
    ),
}


@custom_partitioning
def partitioned(x):
    return jnp.sin(x)


partitioned.def_partition(infer_sharding_from_operands=lambda *_: None, partition=lambda *_: None, sharding_rule="i -> i")


def ruled(kind):
    if kind == "jvp":
        return jax.nn.relu
    if kind == "vjp":
        function = jax.custom_vjp(jnp.sin)
        function.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
        return function
    function = custom_vmap(jnp.sin)
    function.def_vmap(lambda size, batched, x: (jnp.sin(x), True))
    return function


def checkpointed_scan(x):
    """Of whose gradient JAX makes a call that is not compiled on its own."""
    function = jax.checkpoint(lambda v: lax.scan(lambda c, y: (jnp.sin(c) * jnp.cos(v[0]), None), v[0], v)[0])
    return jax.grad(function)(x)


def scan(x):
    first = x[0]
    return lax.scan(lambda c, y: (c + y * first, (c, 2 * y)), x[1], x)


def while_loop(x):
    end, more = x[1], x[2]
    return lax.while_loop(lambda c: c[0] < end, lambda c: c + more, x)


# For every primitive that runs programs: a function of one vector.
PROGRAMS = {
    "jit": jax.jit(jnp.sin),
    "closed_call": checkpointed_scan,
    "eval_jaxpr": checkpointed_scan,
    "custom_jvp_call": ruled("jvp"),
    "custom_vjp_call": ruled("vjp"),
    "custom_vmap_call": ruled("vmap"),
    "custom_partitioning": partitioned,
    "remat2": jax.checkpoint(jnp.sin),
    "custom_linear_solve": lambda x: lax.custom_linear_solve(lambda v: 2 * v, x, lambda matvec, b: b / 2, symmetric=True),
    "scan": scan,
    "while": while_loop,
    "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "shard_map": lambda x: mapped(jnp.sin, P("x"))(jnp.concatenate([x, x[:2]])),
    HIGH: lambda x: jnp.nonzero(x, size=3)[0],
    "two_level": lambda x: mapped(lambda v: TWO_LEVEL.bind(v, **steps(jax.typeof(v), "sum", ("y",), ("x",))), P())(X),
}
# It needs groups; nothing is known of it but its cost.
WITHOUT_PROGRAM = {"ragged_dot_general"}
# The same thing in two versions of JAX.
VERSIONS = {"closed_call": "eval_jaxpr", "eval_jaxpr": "closed_call"}


def traced(name):
    """A program in which the primitive stands."""
    if name in PLAIN:
        function, *operands = PLAIN[name]
        return jax.make_jaxpr(function)(*operands)
    if name == "psum":  # the one that JAX makes where variance is not checked
        function = jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh(), in_specs=P("x"), out_specs=P("x"), check_vma=False)
        return jax.make_jaxpr(function)(X)
    if name in COLLECTIVES:
        function, out_specs, _ = COLLECTIVES[name]
        return jax.make_jaxpr(mapped(function, out_specs))(X)
    return jax.make_jaxpr(PROGRAMS[name])(V)


def equation(name):
    """The equation of a primitive in its program."""
    found = [eqn for eqn in equations(traced(name).jaxpr) if eqn.primitive.name == name]
    assert found, broken(name, f"there is no such primitive in a program that had it, {traced(name)}.")
    return found[-1]


def current():
    """The entries of the table, those of other versions of JAX left out."""
    live = public.closed_call_p.name  # of what is called, but not compiled on its own
    absent = {HIGH} if jax.__version_info__ < (0, 12) else set()
    return [name for name in TABLE if name not in absent and (name not in VERSIONS or name == live or VERSIONS[name] != live)]


def test_every_entry_has_a_program():
    """Those of which more is known than that they are elementwise, how dimensions follow, and what they cost."""
    facts = ("kind", "parameters", "linear", "is_exact", "algebra", "moves", "repeats", "scales", "is_cheap", "takes")
    simple = Primitive()
    known = {name for name, record in TABLE.items() if any(getattr(record, f) != getattr(simple, f) for f in facts)}
    of_python = {name for name, record in TABLE.items() if record.shows_values or record.needs_all_axes}
    assert known - of_python - WITHOUT_PROGRAM <= {*PLAIN, *COLLECTIVES, *PROGRAMS} <= set(TABLE)


@pytest.mark.parametrize("name", [name for name in current() if name in {*PLAIN, *COLLECTIVES, *PROGRAMS}])
def test_names_and_parameters(name):
    eqn = equation(name)
    missing = [key for key in TABLE[name].parameters if key not in eqn.params]
    assert not missing, broken(name, f"it has the parameters {sorted(eqn.params)}, and not {missing}.")


@pytest.mark.fast(11)
@pytest.mark.parametrize("name", [name for name in PLAIN if TABLE[name].linear])
def test_linear_operands(name):
    function, *operands = PLAIN[name]
    eqn = equation(name)
    assert len(eqn.invars) == len(operands), broken(name, f"it has {len(eqn.invars)} operands.")
    groups = list(linear_groups(eqn))
    assert len(groups) == len(TABLE[name].linear)
    for group in groups:
        more = [
            (numbers(*np.shape(value), seed=7) * 2).astype(value.dtype) if i in group else value
            for i, value in enumerate(operands)
        ]
        both = [value + more[i] if i in group else value for i, value in enumerate(operands)]
        same = np.allclose(function(*both), function(*operands) + function(*more))
        assert same, broken(name, f"it is not linear in its operands {sorted(group)} together.")


@pytest.mark.parametrize("name", [name for name in PLAIN if TABLE[name].linear])
def test_nothing_more_is_linear(name):
    """The other operands, and those of two groups together, are not: so the groups are of what JAX calls by that name."""
    function, *operands = PLAIN[name]
    groups = list(linear_groups(equation(name)))
    for i, value in enumerate(operands):
        if any(i in group for group in groups) or not jnp.issubdtype(value.dtype, jnp.floating):
            continue
        both = [value + 3 if k == i else other for k, other in enumerate(operands)]
        more = [jnp.full_like(value, 3) if k == i else other for k, other in enumerate(operands)]
        assert not np.allclose(function(*both), function(*operands) + function(*more))


INTS, BYTES = make.array([5, 3, 7], "int32"), make.array([5, 3, 7], "int8")
# Functions that are linear for some types or parameters, and for these are not.
NOT_LINEAR = {
    "name, that a user chose": (lambda a: checkpoint_name(a, "a"), V),
    "div": (lambda a: lax.div(a, jnp.full_like(a, 2)), INTS),
    "div, of floats": (lambda a: a / 2, V),
    "mul, of floats": (lambda a: a * 2048, V),
    "dot_general, of floats": (lambda a: lax.dot(a, a), V),
    "convert_element_type, to a narrower float": (lambda a: lax.convert_element_type(a, jnp.float16), V),
    "dot_general": (
        lambda a: lax.dot_general(a, a, (((0,), (0,)), ((), ())), preferred_element_type=jnp.int32),
        BYTES,
    ),
    "convert_element_type": (lambda a: lax.convert_element_type(a, jnp.int32), V),
    "convert_element_type, to truth values": (
        lambda a: lax.convert_element_type_p.bind(a, new_dtype=np.dtype(bool), weak_type=False, sharding=None),
        INTS,
    ),
    "convert_element_type, to a wider integer": (lambda a: lax.convert_element_type(a, jnp.int32), BYTES),
    "gather": (lambda a: take(a, PLACE, mode="fill", fill_value=7.0), V),
}


@pytest.mark.parametrize("case", NOT_LINEAR)
def test_what_is_not_linear_is_not_said_to_be(case):
    function, operand = NOT_LINEAR[case]
    (eqn,) = (eqn for eqn in jax.make_jaxpr(function)(operand).eqns if eqn.primitive.name == case.split(",")[0])
    assert list(linear_groups(eqn)) == []


@pytest.mark.parametrize(("mode", "fill"), [("fill", None), ("fill", 0.0), ("clip", None)])
def test_gathers_that_are_linear(mode, fill):
    (eqn,) = jax.make_jaxpr(lambda a: take(a, jnp.array([[9]]), mode=mode, fill_value=fill))(V).eqns[-1:]
    assert list(linear_groups(eqn)) == [{0}]
    a, b, both = (take(v, jnp.array([[9]]), mode=mode, fill_value=fill) for v in (V, V + 1, V + V + 1))
    np.testing.assert_array_equal(both, a + b, broken("gather", f"outside of its operand it is not linear in mode {mode!r}."))


# --- mesh axes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLLECTIVES)
def test_mesh_axes(name):
    eqn, axes = equation(name), COLLECTIVES[name][2]
    assert primitives.axes_of(eqn) == axes, broken(name, f"its parameters {eqn.params} do not say its mesh axes.")
    assert primitives.cast_axes(eqn) == (set(axes) if name == "pvary" else set())
    assert not primitives.has_side_effects(eqn), broken(
        name, f"it has the effects {eqn.effects}, which are no longer those of an axis."
    )
    assert not primitives.commutes(eqn)
    assert primitives.is_whole_sum(eqn) == (TABLE[name].kind == Kind.SUM)


BLOCKS = np.asarray(X).reshape(4, 2, 8)
# What every collective gives for the blocks of `X`, by hand: the results of the devices along x, one after the other.
BY_HAND = {
    "psum_invariant": (COLLECTIVES["psum_invariant"], BLOCKS.sum(0)),
    "pmax": (COLLECTIVES["pmax"], BLOCKS.max(0)),
    "pmin": (COLLECTIVES["pmin"], BLOCKS.min(0)),
    "all_gather": (COLLECTIVES["all_gather"], np.concatenate([np.concatenate(list(BLOCKS), 1)] * 4, 0)),
    "all_gather_invariant": (COLLECTIVES["all_gather_invariant"], np.concatenate(list(BLOCKS), 1)),
    "reduce_scatter": (
        (lambda x: lax.psum_scatter(x.T, "x", scatter_dimension=0, tiled=True), P("x"), ("x",)),
        BLOCKS.sum(0).T,
    ),
    "axis_index": (COLLECTIVES["axis_index"], np.arange(4)[:, None]),
    "device_block": (COLLECTIVES["device_block"], np.concatenate(list(BLOCKS), 0)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_what_collectives_give(name):
    (function, out_specs, _), wanted = BY_HAND[name]
    have = jax.jit(mapped(function, out_specs))(X)
    np.testing.assert_array_equal(have, wanted, broken(name, "it gives something else."))


@pytest.mark.fast(4)
@pytest.mark.parametrize("name", [name for name in COLLECTIVES if TABLE[name].linear and name != "psum"])
def test_collectives_are_linear(name):
    function, out_specs, _ = COLLECTIVES[name]
    run = jax.jit(mapped(function, out_specs))
    assert np.array_equal(run(X + 2 * X[::-1]), run(X) + run(2 * X[::-1])), broken(name, "it is not linear in the blocks.")


@pytest.mark.parametrize("name", [name for name in COLLECTIVES if name not in ("psum", "axis_index")])
def test_which_results_are_the_same_everywhere(name):
    eqn = equation(name)
    (result,) = (var.aval.manual_axis_type.varying for var in eqn.outvars)
    kind = TABLE[name].kind
    same = TABLE[name].is_invariant or kind in (Kind.MAXIMUM, Kind.MINIMUM)
    wanted = {"x", "y"} if kind == Kind.CAST else set() if same else {"x"}
    assert result == wanted, broken(name, f"its result varies over {set(result)}.")


def test_dimensions():
    gather, scatter = equation("all_gather"), equation("reduce_scatter")
    assert (primitives.dimension_of(gather), primitives.dimension_of(scatter)) == (1, 0)
    assert primitives.sliced_dimension(equation("device_block")) == (1, ("x",))
    assert primitives.is_tiled(gather)
    assert primitives.is_tiled(scatter)
    untiled = jax.make_jaxpr(mapped(lambda x: lax.all_gather(x, "x", axis=1), P("x")))(X).jaxpr
    (eqn,) = (eqn for eqn in equations(untiled) if eqn.primitive.name == "all_gather")
    assert not primitives.is_tiled(eqn)
    assert tuple(primitives.slice_sizes(equation("dynamic_slice"))) == (2, 3)
    assert primitives.constraint(equation("sharding_constraint")).spec == P("x")


# --- programs -------------------------------------------------------------------------------------------------------


def opened(program):
    """A program as a closed jaxpr."""
    return program if hasattr(program, "consts") else ClosedJaxpr(program, ())


def run(program, *operands):
    return jaxpr_as_fun(opened(program))(*operands)


CALLED = [name for name in current() if TABLE[name].kind in (Kind.CALL, Kind.RULE, Kind.REMAT)]


@pytest.mark.parametrize("name", CALLED)
def test_calls(name):
    eqn = equation(name)
    program = primitives.called_in_steps(eqn)
    if len(eqn.invars) == 1 and name != TWO_LEVEL.name:  # which runs in a mapped function only
        have, wanted = run(program, V)[0], jnp.sin(V) if name == "custom_partitioning" else PROGRAMS[name](V)
        assert np.allclose(have, wanted), broken(name, "it does not call its program once, with its operands.")
    taken, given = ([aval.shape for aval in avals] for avals in (opened(program).in_avals, opened(program).out_avals))
    shapes = [[var.aval.shape for var in variables] for variables in (eqn.invars, eqn.outvars)]
    assert [taken, given] == shapes, broken(name, f"its program takes {taken} and gives {given}, and it {shapes}.")
    has_rule = TABLE[name].kind == Kind.RULE
    assert (primitives.called(eqn) is None) == has_rule
    assert primitives.jaxprs_of(eqn), broken(name, "its program is not among its parameters.")
    assert not primitives.commutes(eqn)


def call_of(inline, size):
    def function(x):
        for _ in range(size):
            x = jnp.sin(x)
        return x

    jaxpr = jax.make_jaxpr(lambda x: jax.jit(function, inline=inline)(x))(V).jaxpr
    return [eqn for eqn in jaxpr.eqns if TABLE.get(eqn.primitive.name, TABLE["neg"]).kind == Kind.CALL]


def test_inlining():
    (large,), (small,) = call_of(False, 9), call_of(False, 2)
    assert not primitives.is_inlined(large, 8), broken("jit", "a call that is not to be inlined counts as one that is.")
    assert primitives.is_inlined(small, 8)
    assert all(primitives.is_inlined(eqn, 8) for eqn in call_of(True, 9)), broken("jit", "inline=True is not seen.")


def test_rematerialisation():
    jaxpr = jax.make_jaxpr(jax.grad(lambda x: jnp.sum(jnp.sin(jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x)))))(V).jaxpr
    (again,) = (eqn for eqn in equations(jaxpr) if TABLE.get(eqn.primitive.name, TABLE["neg"]).kind == Kind.REMAT)
    assert remat.is_remat_of_gradient(again), broken("remat2", "what is computed anew is not told from what is computed first.")
    first = equation("remat2")
    assert not remat.is_remat_of_gradient(first)
    other = jax.make_jaxpr(jnp.cos)(V)
    np.testing.assert_allclose(remat.remat_again(first, other.jaxpr, [V])[0], jnp.cos(V), rtol=1e-6)
    np.testing.assert_allclose(remat.remat_like(first, jnp.cos)(V), jnp.cos(V), rtol=1e-6)


@pytest.fixture(autouse=True)
def low_flags():
    """The older primitives, also where the flags of high primitives are switched on for all tests."""
    with flags_set(False, *HIGH_FLAGS["remat"], *HIGH_FLAGS["rules"]):
        yield


@pytest.fixture
def high_flags(low_flags):
    with flags_on(*HIGH_FLAGS["remat"], *HIGH_FLAGS["rules"]):
        yield


@pytest.mark.parametrize(
    ("name", "kind"), [("remat2", Kind.REMAT), ("custom_jvp_call", Kind.RULE), ("custom_vjp_call", Kind.RULE)]
)
def test_high_primitives_with_programs(name, kind, high_flags):
    function = {"remat2": jax.checkpoint(jnp.sin), "custom_jvp_call": ruled("jvp"), "custom_vjp_call": ruled("vjp")}[name]
    (eqn,) = jax.make_jaxpr(function)(V).jaxpr.eqns
    assert eqn.primitive.name == HIGH
    assert primitives.name_of(eqn) == name
    assert primitives.kind_of(eqn) == kind
    np.testing.assert_allclose(run(primitives.called_in_steps(eqn), V)[0], function(V), rtol=1e-6)
    assert (primitives.called(eqn) is None) == (kind == Kind.RULE)
    assert [len(program.eqns) for program in primitives.jaxprs_within(jax.make_jaxpr(function)(V).jaxpr)] == [1]
    assert primitives.jaxprs_of(eqn)
    assert not primitives.commutes(eqn)
    assert name != "custom_vjp_call" or has_reverse_rules(jax.make_jaxpr(function)(V).jaxpr)


def test_other_programs_in_high_rematerialisation(high_flags):
    (eqn,) = jax.make_jaxpr(jax.checkpoint(jnp.sin))(V).jaxpr.eqns
    other = jax.make_jaxpr(jnp.cos)(V).jaxpr
    for again in (remat.remat_like(eqn, jnp.cos), lambda v: remat.remat_again(eqn, other, [v])[0]):
        np.testing.assert_allclose(again(V), jnp.cos(V), rtol=1e-6)
        (made,) = jax.make_jaxpr(again)(V).jaxpr.eqns
        assert primitives.kind_of(made) == Kind.REMAT
        np.testing.assert_allclose(jax.grad(lambda v, again=again: again(v).sum())(V), -jnp.sin(V), rtol=1e-6)
    assert not remat.is_remat_of_gradient(eqn)


def test_names_in_high_rematerialisation(high_flags):
    (eqn,) = jax.make_jaxpr(lambda v: checkpoint_name(v, "kept"))(V).jaxpr.eqns
    assert eqn.primitive.name == HIGH
    assert primitives.name_of(eqn) == "name"
    (again,) = primitives.bind(eqn, [M])  # of another shape
    assert np.array_equal(again, M)


def test_high_primitives_of_one_kind_have_programs_of_their_own(high_flags):
    (one,), (other,) = (jax.make_jaxpr(lambda v: jnp.nonzero(v, size=3)[0])(v).jaxpr.eqns for v in (V, V[:4]))
    first, second = map(primitives.jaxpr_of, (one, other))
    assert primitives.jaxpr_of(one) is first
    assert [aval.shape for aval in second.in_avals] == [(4,)]


def test_linear_solves():
    eqn = equation("custom_linear_solve")
    program, operands = primitives.solve(eqn, [f"operand {i}" for i in range(len(eqn.invars))])
    assert operands == [f"operand {len(eqn.invars) - 1}"]
    np.testing.assert_allclose(run(program, V)[0], V / 2)
    matrix = numbers(6, 6, seed=5) + 20 * jnp.eye(6)
    jaxpr = jax.make_jaxpr(lambda a, b: jnp.linalg.solve(a, b))(matrix, V).jaxpr
    (eqn,) = (eqn for eqn in equations(jaxpr) if TABLE.get(eqn.primitive.name, TABLE["neg"]).kind == Kind.SOLVE)
    lu, _, permutation = lax.linalg.lu(matrix)
    program, operands = primitives.solve(eqn, [None] * len(eqn.invars))
    shapes = [aval.shape for aval in program.in_avals]
    assert shapes[0] == (6, 6), broken("custom_linear_solve", f"its solver takes operands of shapes {shapes}.")
    assert len(operands) == len(shapes)
    np.testing.assert_allclose(run(program, lu, permutation, V)[0], np.linalg.solve(matrix, V), rtol=1e-4)


def test_scans():
    scan = primitives.Scan.of(equation("scan"))
    assert (scan.consts, scan.carries) == (1, 1), broken("scan", "operands of which dimensions say what is carried are others.")
    assert dict(scan.options) == {"length": 6, "reverse": False, "unroll": 1}
    carry, *stacked = run(scan.body, jnp.float32(2), jnp.float32(3), jnp.float32(5))
    assert [*map(float, (carry, *stacked))] == [13, 3, 10], broken(
        "scan", "its body does not take constants, the carry and slices in this order."
    )
    assert scan.open_body is not None


def test_while_loops():
    loop = primitives.While.of(equation("while"))
    assert (loop.condition_consts, loop.body_consts, loop.ndim) == (1, 1, 0)
    assert bool(run(loop.condition, jnp.float32(3), jnp.full(6, 2.0))[0]), broken(
        "while", "its condition takes others than its consts."
    )
    np.testing.assert_array_equal(run(loop.body, jnp.float32(9), jnp.ones(6))[0], np.full(6, 10.0))
    batched = jax.make_jaxpr(jax.vmap(PROGRAMS["while"]))(M).jaxpr
    (eqn,) = (eqn for eqn in equations(batched) if TABLE.get(eqn.primitive.name, TABLE["neg"]).kind == Kind.WHILE)
    assert primitives.While.of(eqn).ndim == 1, broken("while", "under jax.vmap its condition has no dimension in front.")
    assert len(primitives.bodies_of(eqn)) == 2


def test_branches():
    bodies = primitives.bodies_of(equation("cond"))
    have = [run(body, V)[0] for body in bodies]
    np.testing.assert_allclose(
        have, [jnp.cos(V), jnp.sin(V)], rtol=1e-5, err_msg=broken("cond", "its branches are in another order.")
    )


def test_mapped_programs():
    program, in_specs, out_specs = primitives.mapped_jaxpr(equation("shard_map"))
    assert (in_specs, out_specs) == ((P("x"),), (P("x"),))
    assert [var.aval.shape for var in program.invars] == [(2,)]


# --- any equation ---------------------------------------------------------------------------------------------------


def test_side_effects():
    (eqn,) = jax.make_jaxpr(lambda x: jax.debug.print("{}", x))(V).eqns
    assert primitives.has_side_effects(eqn)
    assert not primitives.commutes(eqn)


def test_nothing_is_known_of_others():
    strange = JaxPrimitive("strange")
    strange.def_abstract_eval(lambda aval: aval)
    (eqn,) = jax.make_jaxpr(strange.bind)(V).eqns
    assert primitives.kind_of(eqn) == Kind.UNKNOWN
    assert list(linear_groups(eqn)) == []
    assert primitives.commutes(eqn)
    assert costs.flops_of(eqn) == V.size
    assert not costs.is_fused(eqn)
    assert parts_of(eqn, ((0, ("x",)),)) is None


def test_what_is_not_known_and_names_a_mesh_axis_is_left_alone():
    """In whatever parameter: it may communicate."""
    strange = JaxPrimitive("strange")
    strange.def_abstract_eval(lambda aval, **_: aval)

    def body(x):
        seen = jax.make_jaxpr(
            lambda v: [strange.bind(v, along=("x",)), strange.bind(v, mode="fast"), strange.bind(v, name="x")]
        )(x)
        assert [primitives.axes_of(eqn) for eqn in seen.eqns] == [("x",), (), ()]
        assert [primitives.commutes(eqn) for eqn in seen.eqns] == [False, True, True]
        assert collective_axes(seen.jaxpr) == {"x"}
        return x

    jax.make_jaxpr(mapped(body, P("x")))(X)


def test_barriers_keep_variance():
    def body(x):
        one, two = primitives.barrier([x, lax.psum(x, "x")])
        assert jax.typeof(one).manual_axis_type.varying == {"x"}
        assert jax.typeof(two).manual_axis_type.varying == set()
        return one, two

    jax.jit(mapped(body, (P("x"), P())))(X)


# --- what they cost -------------------------------------------------------------------------------------------------

# JAX does not list these among its public primitives, or only in some versions.
UNLISTED = {
    *"pvary reshard split stack unstack tile ragged_dot_general geqrf lu_pivots_to_permutation scatter-sub log2".split(),
    *"one_minus_square empty random_clone random_gamma_grad random_unwrap random_wrap optimization_barrier polynomial".split(),
    *OWN,
}


def test_records_are_of_primitives_that_exist():
    known = {getattr(public, name).name for name in dir(public) if name.endswith("_p")}
    of_python = {name for name, record in TABLE.items() if record.shows_values or record.needs_all_axes}
    for name in set(TABLE) - known - UNLISTED - of_python - {*COLLECTIVES, *PROGRAMS}:
        pytest.fail(f"JAX {jax.__version__} has no primitive {name!r}, of which namedax.primitives has a record.")


# --- nowhere else ---------------------------------------------------------------------------------------------------


def complaints(path, tree):
    """What a module other than the table does with primitives."""
    of_programs = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "jax.extend.core"]
    imported = {name.name for node in of_programs for name in node.names}
    looks_into_programs = "programs" in path.parts or not imported <= {"get_opaque_trace_state"}
    exported = {id(name) for node in tree.body if ast.unparse(node).startswith("__all__") for name in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("primitive", "params"):
            yield f"{path}:{node.lineno} looks at {ast.unparse(node)}"
        if isinstance(node, ast.Compare) and any(isinstance(n, ast.Attribute) and n.attr == "__name__" for n in ast.walk(node)):
            yield f"{path}:{node.lineno} compares a name, {ast.unparse(node)}"
        if (
            looks_into_programs
            and isinstance(node, ast.Constant)
            and node.value in TABLE
            and node.value not in OWN
            and id(node) not in exported
        ):
            yield f"{path}:{node.lineno} names the primitive {node.value!r}"
        words = node.value.split() if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
        if looks_into_programs and len(words) > 1 and sum(word in TABLE for word in words) > 0.8 * len(words):
            yield f"{path}:{node.lineno} names the primitives {node.value!r}"


@pytest.mark.fast(0)
def test_no_other_module_names_a_primitive():
    # Of models, `params` are parameters.
    sources = [path for path in sorted(ROOT.rglob("*.py")) if path.parent not in (ROOT / "primitives", ROOT / "models")]
    assert len(sources) > 100
    found = [line for path in sources for line in complaints(path.relative_to(ROOT), ast.parse(path.read_text()))]
    assert not found, "only namedax/primitives/ knows primitives: " + "; ".join(found)


def test_the_search_finds_what_it_looks_for():
    source = "from jax.extend.core import Var\nif eqn.primitive.name == 'psum' and type(x).__name__ == 'Jaxpr': eqn.params"
    source += "\nNAMES = 'pad concatenate gather'.split()"
    assert len(list(complaints(pathlib.Path("a.py"), ast.parse(source)))) == 5
