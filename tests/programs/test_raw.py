"""Functions of JAX on the blocks of a body: raw collectives and raw reductions are refused where they can be seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests import make
from tests.harness import Lazily, array, make_mesh

optax = Lazily("optax")

pytestmark = pytest.mark.usefixtures("tracebacks_as_for_users")

X = array(8, 4)


def on_leaf(function):
    """A body that applies `function` to the leaf of its argument, as `jax.tree.map` does."""
    return lambda a: jax.tree.map(function, a)


def mapped(body, resources=None, mesh=None, **options):
    """The mesh axes have the names of the axes."""
    mesh = mesh or jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    return nx.xmap(
        body, ["a", "b"], ["a", "b"], axis_resources={"a": "a"} if resources is None else resources, mesh=mesh, **options
    )


COLLECTIVES = {
    "psum": lambda a: lax.psum(a, "a"),
    "pmean": lambda a: lax.pmean(a, "a"),
    "pmax": lambda a: lax.pmax(a, "a"),
    "pmin": lambda a: lax.pmin(a, "a"),
    "ppermute": lambda a: lax.ppermute(a, "a", [(0, 1)]),
    "pshuffle": lambda a: lax.pshuffle(a, "a", [1, 2, 3, 0]),
    "axis_index": lambda a: a * lax.axis_index("a"),
    "all_gather": on_leaf(lambda leaf: lax.all_gather(leaf, "a", to="invarying")[0]),
    "psum_scatter": on_leaf(lambda leaf: lax.psum_scatter(jnp.tile(leaf, (4, 1)), "a", tiled=True)),
    "all_to_all": on_leaf(lambda leaf: lax.all_to_all(jnp.tile(leaf, (2, 1)), "a", 0, 0, tiled=True)[:2]),
    "pbroadcast": lambda a: a + lax.pbroadcast(a.data, "a", 0)[0, 0],
}
WITHIN = {
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "grad": lambda f: jax.grad(lambda a: nx.sum(f(a) ** 2, ("a", "b"))),
    "scan": lambda f: lambda a: lax.scan(lambda c, _: (c + f(a), None), a, None, length=2)[0],
    "cond": lambda f: lambda a: lax.cond(True, lambda a: a + f(a), lambda a: a * 2, a),
    "nx.scan": lambda f: lambda a: nx.scan(lambda c, _: (c + f(a), None), a, length=2)[0],
    "nested": lambda f: lambda a: nx.xmap(f, axis_resources={})(a),
    "nested, another mesh axis": lambda f: lambda a: nx.xmap(f, axis_resources={"b": "b"})(a),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_raw_collectives_say_nx_lax(name):
    with pytest.raises(
        nx.errors.RawBlockError, match=rf"jax.lax.{name}: in the body of <lambda> \(test_raw.py:\d+\) .* Use nx.lax.{name} "
    ):
        mapped(COLLECTIVES[name])(X)


@pytest.mark.parametrize("name", ["psum", "pmean", "axis_index", "ppermute", "all_gather"])
@pytest.mark.parametrize(
    "options",
    [
        {"resources": {"a": "x"}, "mesh": make_mesh((4, 2))},  # whatever the mesh axes are called
        {"resources": {}},
        {"partitioning": "auto"},
        {"jit": False},
        {"resources": {}, "jit": False},
        {"resources": {"a": nx.SerialLoop(2)}},
        {"resources": {"a": ("a", nx.SerialLoop(2))}},
        {"resources": {"b": "a"}},  # the mesh axis of another name
    ],
    ids=str,
)
def test_raw_collectives_under_every_assignment(name, options):
    with pytest.raises(nx.errors.RawBlockError, match=rf"jax.lax.{name}: .* Use nx.lax.{name} with an axis name"):
        mapped(COLLECTIVES[name], **options)(X)


if hasattr(lax, "psum_scatter_start"):  # JAX 0.12

    @pytest.mark.parametrize("options", [{}, {"resources": {}}, {"resources": {"a": nx.SerialLoop(2)}}], ids=str)
    def test_raw_asynchronous_collectives(options):
        def body(leaf):
            return jnp.repeat(lax.psum_scatter_start(leaf, "a", tiled=True).done(), 4, 0)

        with pytest.raises(
            nx.errors.RawBlockError, match=r"jax.lax.psum_scatter_start: .* Use nx.lax.psum_scatter with an axis name"
        ):
            mapped(on_leaf(body), **options)(np.ones((16, 4), np.float32))


@pytest.mark.parametrize("within", WITHIN.values(), ids=WITHIN)
def test_raw_collectives_within_transformations(within):
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(kind,) * 2)
        with pytest.raises(nx.errors.RawBlockError, match=r"jax.lax.pmean: .* Use nx.lax.pmean"):
            mapped(within(COLLECTIVES["pmean"]), mesh=mesh)(X)


def test_a_raw_sum_comes_before_the_axes_that_it_leaves():
    options = {"axis_resources": {"a": "a"}, "mesh": jax.make_mesh((4, 2), ("a", "b"))}
    with pytest.raises(
        nx.errors.RawBlockError,
        match=r"jax.lax.psum: .* nx.NamedArray\(nx.nmap\(function, collectives=True\)\(x.data\), x.dims\)",
    ):
        nx.xmap(lambda a: lax.psum(a, "a"), ["a"], [], **options)(X[:, 0])
    with pytest.raises(nx.errors.NamedAxesLeftError, match="still has the axes 'a'"):
        nx.xmap(lambda a: a * nx.sum(a, "a"), ["a"], [], **options)(X[:, 0])


@pytest.mark.parametrize("axis", ["i", "a", "b"])  # no mesh axis, one over which the value varies, one that is not in use
def test_casts_in_a_body_are_not_needed(axis):
    for cast in (lambda a: lax.pcast(a, axis, to="varying"), on_leaf(lambda leaf: lax.pcast(leaf, axis, to="varying"))):
        with pytest.raises(
            nx.errors.RawBlockError, match=r"jax.lax.pcast: in the body of .* no cast is needed, .* Remove the cast"
        ):
            mapped(cast)(X)


def test_collectives_that_are_deliberate():
    mean = nx.nmap(lambda leaf: lax.pmean(leaf, "a") + lax.axis_index("a"), collectives=True)

    def body(a):
        return nx.NamedArray(mean(a.data), a.dims)

    blocks = np.asarray(X).reshape(4, 2, 4)
    want = (blocks.mean(0) + np.arange(4)[:, None, None]).reshape(8, 4)
    np.testing.assert_allclose(mapped(body)(X), want, rtol=1e-5)
    np.testing.assert_allclose(mapped(jax.checkpoint(lambda a: jax.jit(body)(a)))(X), want, rtol=1e-5)
    weights = array(8, 4, seed=1)
    have = jax.grad(lambda x: jnp.sum(mapped(body)(x) * weights))(X)
    np.testing.assert_allclose(have, np.tile(np.asarray(weights).reshape(4, 2, 4).mean(0), (4, 1)), rtol=1e-4, atol=1e-6)
    # Over the mesh axis of a name that it is lifted over, entries would mix.
    with pytest.raises(nx.errors.PlacementConflictError, match="communicates along these"):
        mapped(lambda a: nx.nmap(lambda row: lax.pmean(row, "a"), collectives=True)(a))(X)
    with pytest.raises(nx.errors.ArgumentTypeError, match="nmap: collectives=1 is neither True nor False"):
        nx.nmap(jnp.sin, collectives=1)


def test_a_shard_map_in_a_body_has_collectives_of_its_own():
    def body(a):
        total = jax.shard_map(lambda row: lax.psum(row.sum(), "b"), in_specs=P("b"), out_specs=P(), axis_names={"b"})
        return a - nx.nmap(total)(nx.untag(a, ["b"]))

    np.testing.assert_allclose(mapped(body)(X), X - X.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


REDUCTIONS = {
    "the maximum": on_leaf(lambda leaf: leaf / jnp.max(leaf)),
    "the minimum": on_leaf(lambda leaf: leaf - jnp.min(leaf)),
    "the sum": on_leaf(lambda leaf: leaf / jnp.linalg.norm(leaf)),
    "the sum of all": on_leaf(lambda leaf: leaf - jnp.mean(leaf)),
    "the product": on_leaf(lambda leaf: leaf * jnp.prod(leaf)),
    "a boolean": on_leaf(lambda leaf: leaf * jnp.all(jnp.isfinite(leaf))),
    "an inner product": on_leaf(lambda leaf: leaf * jnp.vdot(leaf, leaf)),
    "the index of the maximum": on_leaf(lambda leaf: leaf * jnp.argmax(leaf)),
}
SOLVERS = {
    "optax": lambda a: optax.clip_by_global_norm(1.0).update({"w": a}, None)[0]["w"],
    "cg": lambda a: jax.scipy.sparse.linalg.cg(lambda v: 2 * v, a)[0],
    "jit": jax.jit(REDUCTIONS["the maximum"]),
    "jit twice": jax.jit(lambda a: jax.jit(REDUCTIONS["the maximum"])(a) * 2),
    "checkpoint": jax.checkpoint(REDUCTIONS["the sum"]),
    "grad": jax.grad(lambda a: nx.sum(REDUCTIONS["the sum"](a), ("a", "b"))),
    "vmap": lambda a: jax.vmap(lambda s: s * REDUCTIONS["the maximum"](a), out_axes=0)(jnp.ones(2))[0],
    "nested": lambda a: nx.xmap(REDUCTIONS["the maximum"], axis_resources={})(a),
}


@pytest.mark.full(4)
@pytest.mark.fast(1)
@pytest.mark.parametrize("what", REDUCTIONS)
def test_raw_reductions_of_a_block_are_refused(what):
    message = rf"<lambda> \(test_raw.py:\d+\): a function of JAX takes {what.removesuffix(' of all')} of all elements .* of the axes 'a', .*nx.sum"
    for options in ({}, {"resources": {"a": ("b", "a")}}, {"resources": {"a": nx.SerialLoop(2)}}, {"jit": False}):
        with pytest.raises(nx.errors.RawBlockError, match=message):
            mapped(REDUCTIONS[what], **options)(X)
    unmapped = mapped(REDUCTIONS[what], {})(X)
    np.testing.assert_allclose(mapped(REDUCTIONS[what], {}, jit=False)(X), unmapped, rtol=1e-5)


@pytest.mark.parametrize("body", SOLVERS.values(), ids=SOLVERS)
def test_raw_reductions_in_what_a_body_calls_are_refused(body):
    with pytest.raises(nx.errors.RawBlockError, match=r"of all elements .* 'a', .*assert_resources_do_not_matter"):
        mapped(body)(X)


def raw(a):
    return jax.tree.map(lambda leaf: leaf * 0 + jnp.sum(leaf), a)


def with_rule(kind, function=lambda a: a * 2, **rule):
    """A function with a rule of its own for its derivatives: `jvp`, or `fwd` and `bwd`."""
    f = kind(function)
    if "jvp" in rule:
        f.defjvp(rule["jvp"])
    else:
        f.defvjp(rule.get("fwd", lambda a: (a * 2, None)), rule.get("bwd", lambda _, ct: (ct * 2,)))
    return f


def slope(f):
    """The gradient within the body."""
    return jax.grad(lambda a: nx.sum(f(a) ** 2, ("a", "b")))


COPIES = {"k": 3}
IN_CONTROL_FLOW = {
    "cond": lambda a: nx.cond(nx.sum(a, ("a", "b")) > 0, raw, lambda a: a, a),
    "cond by name": lambda a: nx.cond(a > 0, raw, lambda a: a, a),
    "switch": lambda a: nx.switch(jnp.int32(1), [lambda a: a, raw], a),
    "scan": lambda a: nx.scan(lambda c, _: (raw(c), None), a, length=2)[0],
    "scan along another": lambda a: nx.scan(lambda c, e: (c, raw(a * e)), 0.0, nx.ones(named_shape=COPIES), axis="k")[1][
        "k", 0
    ],
    "fold": lambda a: nx.fold(lambda c, _: raw(c), a, length=2),
    "fori_loop": lambda a: nx.fori_loop(0, 2, lambda i, c: raw(c), a),
    "while_loop": lambda a: nx.while_loop(lambda c: nx.sum(c, ("a", "b")) < 100, lambda c: raw(c) + 1, a),
    "while_loop's condition": lambda a: nx.while_loop(lambda c: nx.sum(raw(c), ("a", "b")) < 9, lambda c: c + 1, a),
    "vmap": lambda a: nx.sum(nx.vmap(raw, "k")(a * nx.ones(named_shape=COPIES)), "k"),
    "vmap, of what it closes over": lambda a: nx.sum(nx.vmap(lambda e: raw(a) * e, "k")(nx.ones(named_shape=COPIES)), "k"),
    "vmap, beside its axis": lambda a: nx.vmap(raw, "b")(a),
    "map, beside its axis": lambda a: nx.lax.map(raw, a, axis="b"),
    "custom_vjp": with_rule(nx.custom_vjp, raw),
    "custom_jvp": with_rule(nx.custom_jvp, raw, jvp=lambda a, da: (a[0], da[0])),
    "fwd": slope(with_rule(nx.custom_vjp, fwd=lambda a: (raw(a), None))),
    "bwd": slope(with_rule(nx.custom_vjp, bwd=lambda _, ct: (raw(ct),))),
    "jvp": slope(with_rule(nx.custom_jvp, jvp=lambda a, da: (raw(a[0]), da[0]))),
    "bwd of JAX": slope(with_rule(jax.custom_vjp, bwd=lambda _, ct: (raw(ct),))),
    "jvp of JAX": slope(with_rule(jax.custom_jvp, jvp=lambda a, da: (raw(a[0]), da[0]))),
}


@pytest.mark.fast(3)
@pytest.mark.parametrize("body", IN_CONTROL_FLOW.values(), ids=IN_CONTROL_FLOW)
def test_raw_reductions_in_control_flow_and_rules_are_refused(body):
    with pytest.raises(
        nx.errors.RawBlockError, match=r" \(test_raw.py:\d+\): a function of JAX takes the sum of all elements .* 'a', "
    ):
        mapped(body)(X)


RULES_AFTER = {
    "fwd": (nx.custom_vjp, {"fwd": lambda a: (raw(a), None)}, "custom_vjp <lambda>"),
    "bwd": (nx.custom_vjp, {"bwd": lambda _, ct: (raw(ct),)}, "custom_vjp <lambda>"),
    "jvp": (nx.custom_jvp, {"jvp": lambda a, da: (raw(a[0]), da[0])}, "custom_jvp <lambda>"),
}


@pytest.mark.parametrize("case", RULES_AFTER.values(), ids=RULES_AFTER)
def test_raw_reductions_in_rules_that_are_traced_after_the_body(case):
    kind, rule, who = case
    with pytest.raises(
        nx.errors.RawBlockError, match=rf"^{who} \(test_raw.py:\d+\): a function of JAX takes the sum of all elements"
    ):
        jax.grad(lambda x: jnp.sum(mapped(with_rule(kind, **rule))(x)))(X)


@pytest.mark.parametrize(
    "collective", [lambda a: a * lax.axis_index("a"), on_leaf(lambda leaf: lax.psum(leaf, "a") + leaf * 0)]
)
@pytest.mark.parametrize("place", ["in the body", "after it", "in the body, of JAX"])
def test_raw_collectives_in_rules(collective, place):
    f = with_rule(jax.custom_vjp if "JAX" in place else nx.custom_vjp, bwd=lambda _, ct: (collective(ct),))
    take = (lambda x: mapped(slope(f))(x)) if "body" in place else jax.grad(lambda x: jnp.sum(mapped(f)(x)))
    with pytest.raises(nx.errors.RawBlockError, match=r"jax.lax.\w+: in the body of .* \(test_raw.py:\d+\) .* Use nx.lax"):
        take(X)


@pytest.mark.fast(0)
def test_functions_of_leaves_that_act_entry_by_entry_pass():
    def step(c):
        return nx.cond(nx.sum(c, ("a", "b")) > 0, on_leaf(lambda leaf: jnp.where(leaf > 0, leaf, -leaf) * 0.5), lambda c: c, c)

    clip = with_rule(nx.custom_vjp, bwd=lambda _, ct: (jax.tree.map(lambda leaf: jnp.clip(leaf, -1, 1), ct),))

    def body(a):
        rows = nx.vmap(on_leaf(lambda row: row / jnp.linalg.norm(row)), "a")(nx.untag(a, ["b"]))  # entries, which are whole
        each = nx.vmap(on_leaf(jnp.sin), "b")(nx.fori_loop(0, 2, lambda i, c: step(c), a)) + slope(clip)(a)
        return each * nx.named(rows, ["b", ...]) if "b" not in rows.dims else each * rows

    def loss(resources):
        return lambda x: jnp.sum(mapped(body, resources)(x) ** 2)

    for have, want in zip(jax.value_and_grad(loss({"a": "a"}))(X), jax.value_and_grad(loss({}))(X), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_what_is_no_raw_reduction():
    """Reductions of entries, of positional arrays, of what namedax lifts, and sums that JAX makes of broadcasts."""
    scales = make.arange(1.0, 4.0)

    def body(a):
        scaled = jax.tree.map(lambda leaf: leaf * jnp.sum(scales) / jnp.max(scales), a)
        total = nx.nmap(lambda row: row / jnp.sqrt(jnp.sum(row**2)))(nx.untag(a, ["b"]))
        each = nx.map(lambda row: row * jnp.vdot(row, row), nx.untag(a, ["b"]), axis="a")
        rows = jax.vmap(lambda row: row / jnp.linalg.norm(row))(a.data)
        slope = jax.grad(lambda s: nx.sum(nx.sin(jax.tree.map(lambda leaf: leaf * s, a)), ("a", "b")))(0.5)
        return (
            (scaled * slope + nx.NamedArray(rows, a.dims))
            * nx.sum(total, 0)
            * nx.sum(each, 0)
            * nx.max(nx.lax.pmean(a, "a"), "b")
        )

    def oracle(x):
        total = (x / jnp.linalg.norm(x, axis=1, keepdims=True)).sum(1, keepdims=True)
        each = (x * (x**2).sum(1, keepdims=True)).sum(1, keepdims=True)
        slope = jnp.sum(jnp.cos(x * 0.5) * x)
        return (x * 2 * slope + x / jnp.linalg.norm(x, axis=1, keepdims=True)) * total * each * x.mean(0).max()

    for resources in ({"a": "a"}, {}, {"a": ("b", "a")}):
        np.testing.assert_allclose(mapped(body, resources)(X), oracle(X), rtol=1e-4)
    have = jax.grad(lambda x: jnp.sum(mapped(body)(x)))(X)
    np.testing.assert_allclose(have, jax.jit(jax.grad(lambda x: jnp.sum(oracle(x))))(X), rtol=1e-3, atol=1e-4)


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_what_a_nested_function_takes_from_around_and_hands_to_jax(kind):
    """In JAX it belongs to the mesh axes around. Operations of namedax take it."""
    mesh, x = make_mesh((4, 2), kind), np.arange(8.0, dtype=np.float32)

    def total(operation, axes):
        def body(v):
            mean = nx.mean(v, "a")  # has no names

            def inner(v, w=mean):
                return operation(w) * v

            mapped = nx.xmap(inner, axes, ["j"], axis_resources={"j": "y"}, mesh=mesh)
            return nx.sum(mapped(x, *[mean] * (len(axes) - 1)))

        return nx.xmap(body, ["a"], [], axis_resources={"a": "x"}, mesh=mesh)(x)

    with pytest.raises(nx.errors.RawBlockError, match=r"inner .* passes an array of the outer function, .* to JAX \(sin\)"):
        total(jnp.sin, (["j"],))
    want = np.sin(x.mean()) * x.sum()
    np.testing.assert_allclose(total(nx.sin, (["j"],)), want, rtol=1e-5)
    np.testing.assert_allclose(total(jnp.sin, (["j"], [])), want, rtol=1e-5)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_arrays_like_a_block_on_a_mesh_with_an_axis_that_is_not_mapped(kind):
    """JAX asserts that the type of such an array does not vary, where an axis of the mesh is left to the compiler."""
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(kind,) * 3)
    optimizer = optax.adafactor(0.1, min_dim_size_to_factor=4)

    def body(a):
        return optimizer.update({"w": a}, optimizer.init({"w": a}), {"w": a})[0]["w"]

    message = (
        r"^jax.numpy.zeros_like: in the body of .* with an axis that no name is mapped to, .* such as optax.adafactor, needs global "
        r"arrays: call it outside the body, or use nx\.interop\.adafactor\. .* use nx.zeros_like\."
    )
    for f in (body, on_leaf(lambda leaf: leaf + jnp.zeros_like(jax.eval_shape(lambda leaf: leaf.sum(0), leaf)))):
        with pytest.raises(nx.errors.RawBlockError, match=message):
            mapped(f, {"a": "x"}, mesh)(X)


def test_programs_share_one_object_for_each_mesh_axis():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def axes_of(factor):
        mapped = nx.xmap(lambda x: nx.sum(x, "a") * factor, (["a", "b"],), ["b"], axis_resources={"a": "x"}, mesh=mesh)
        found, waiting = [], [mapped.trace(np.ones((8, 4), np.float32)).jaxpr.jaxpr]
        while waiting:
            for equation in waiting.pop().eqns:
                found += [axis for axis in equation.params.get("axes", ()) if isinstance(axis, str)]
                inner = [getattr(value, "jaxpr", value) for value in equation.params.values()]
                waiting += [value for value in inner if hasattr(value, "eqns")]
        return found

    found = [axis for factor in (2.0, 3.0, 4.0) for axis in axes_of(factor)]
    assert len(found) == 3
    assert len({id(axis) for axis in found}) == 1
