"""Laws 2, 3, 4 and 7 outside of mapped functions: operations on arrays that are cut over Explicit mesh axes, eagerly and under `jax.jit`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.core import explicit_fallback
from namedax.errors import AxisNotFoundError, AxisSizeError, MeshError, PlacementConflictError
from tests import make
from tests.harness import Placement, array, make_mesh, said
from tests.operations import OPERATIONS

X = array(8, 4)
NAMED_IDS = nx.named(make.array([5, 1, 1, 7, 0]), ["q"])
OWN = nx.named(make.array([3, 0, 2, 2]), ["b"])  # one of a for each b
GROUPS = nx.named(make.array([0, 1] * 4), ["a"])
MASK = np.asarray([True, False, True, True, False, False, True, True])

# As in tests/operations.py: x has the names a (8) and b (4); the same on an array, and the axes of the result.
MORE = {
    "elementwise": (lambda x: nx.where(x > 0, x, 2 * nx.sin(x)), lambda x: jnp.where(x > 0, x, 2 * jnp.sin(x)), ["a", "b"]),
    "slice": (lambda x: x[{"a": slice(1, 5)}], lambda x: x[1:5], ["a", "b"]),
    "slice of no size that divides": (lambda x: x[{"a": slice(1, 4), "b": 2}], lambda x: x[1:4, 2], ["a"]),
    "every other": (lambda x: x[{"a": slice(None, None, -2)}], lambda x: x[::-2], ["a", "b"]),
    "index at a name": (lambda x: x[{"a": NAMED_IDS}], lambda x: x[jnp.array([5, 1, 1, 7, 0])], ["q", "b"]),
    "index by instance": (lambda x: x[{"a": OWN}], lambda x: x[jnp.array([3, 0, 2, 2]), jnp.arange(4)], ["b"]),
    "traced index": (lambda x: x["a", nx.argmax(nx.arange(8)).astype(int)], lambda x: x[7], ["b"]),
    "at a name": (lambda x: x.at[{"a": OWN}].add(x["a", 3]), lambda x: x.at[jnp.array([3, 0, 2, 2]), jnp.arange(4)].add(x[3]), ["a", "b"]),
    "at a slice": (lambda x: x.at[{"a": slice(1, 4)}].set(0.5), lambda x: x.at[1:4].set(0.5), ["a", "b"]),
    "pad": (lambda x: nx.pad(x, {"a": (4, 4)}), lambda x: jnp.pad(x, ((4, 4), (0, 0))), ["a", "b"]),
    "pad to no size that divides": (lambda x: nx.pad(x, {"a": (1, 2)}), lambda x: jnp.pad(x, ((1, 2), (0, 0))), ["a", "b"]),
    "concatenate sizes": (lambda x: nx.concatenate([x, x[{"a": slice(0, 4)}]], "a"), lambda x: jnp.concatenate([x, x[:4]]), ["a", "b"]),
    "diff": (lambda x: nx.diff(x, axis="a"), lambda x: jnp.diff(x, axis=0), ["a", "b"]),
    "flip": (lambda x: nx.flip(x, "a"), lambda x: x[::-1], ["a", "b"]),
    "cummax": (lambda x: nx.cummax(x, "a", reverse=True), lambda x: jax.lax.cummax(x, 0, reverse=True), ["a", "b"]),
    "argmax": (lambda x: nx.argmax(x, ("a", "b")), lambda x: jnp.argmax(x), []),
    "argsort": (lambda x: nx.argsort(x, "a"), lambda x: jnp.argsort(x, 0), ["a", "b"]),
    "quantile": (lambda x: nx.quantile(x, 0.3, "a"), lambda x: jnp.quantile(x, 0.3, 0), ["b"]),
    "logsumexp": (lambda x: nx.logsumexp(x, "a"), lambda x: jax.nn.logsumexp(x, 0), ["b"]),
    "prod": (lambda x: nx.prod(x, "a"), lambda x: jnp.prod(x, 0), ["b"]),
    "take_along_axis": (
        lambda x: nx.take_along_axis(x, nx.argsort(x, "a"), "a"),
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, 0), 0),
        ["a", "b"],
    ),
    "outer": (lambda x: nx.einsum("{a,b},{c:a,b}->{a,c}", x, nx.sin(x)), lambda x: x @ jnp.sin(x).T, ["a", "c"]),
    "merge_axes": (lambda x: nx.merge_axes(x, ("b", "a"), "m"), lambda x: x.T.reshape(32), ["m"]),
    "positional": (lambda x: nx.positional(nx.sort(x, "a"), ["b", "a"]), lambda x: jnp.sort(x, 0).T, [None, None]),
    "vmap": (lambda x: nx.vmap(lambda e: nx.cumsum(e, "a"), "b")(x), lambda x: jnp.cumsum(x, 0), ["a", "b"]),
    "nmap": (lambda x: nx.nmap(jnp.sort)(nx.named(nx.positional(x, ["b", "a"]), ["b", None])), lambda x: jnp.sort(x, 0).T, ["b", None]),
    "numpy": (lambda x: nx.numpy.cumsum(x, axis="a"), lambda x: jnp.cumsum(x, 0), ["a", "b"]),
    "lax": (lambda x: nx.lax.cumprod(x, axis="a"), lambda x: jnp.cumprod(x, 0), ["a", "b"]),
    "method": (lambda x: x.cumsum("a").take(make.array([1, 6]), "a"), lambda x: jnp.cumsum(x, 0)[jnp.array([1, 6])], [None, "b"]),
    "zeros_like": (lambda x: x["a", 1] + nx.zeros_like(x["a", 0]), lambda x: x[1], ["b"]),
    "segment_sum": (
        lambda x: nx.segment_sum(x, GROUPS, 2, axis="a", out_axis="q"),
        lambda x: x.reshape(4, 2, 4).sum(0),
        ["q", "b"],
    ),
    "cross entropy": (
        lambda x: nx.nn.softmax_cross_entropy(x, OWN, "a"),
        lambda x: -jax.nn.log_softmax(x, 0)[jnp.array([3, 0, 2, 2]), jnp.arange(4)],
        ["b"],
    ),
}  # fmt: skip
IN_BODIES = ("where", "segment_sum")  # whose names have their sizes there only
TABLE = {name: row for name, row in OPERATIONS.items() if name not in IN_BODIES} | MORE
PLACEMENTS = [
    Placement("one-each", (8,), (("a", "x"),), "explicit"),
    Placement("both", (4, 2), (("a", "x"), ("b", "y")), "explicit"),
    Placement("b-only", (4, 2), (("b", "y"),), "explicit"),
    Placement("two-mesh-axes", (4, 2), (("a", ("x", "y")),), "explicit"),
]


def placed(placement, x=X, axes=("a", "b")):
    return nx.shard(nx.named(make.array(x), list(axes)), dict(placement.resources), placement.options["mesh"], padded=False)


def positions(leaf, axes):
    """The values with the axes in this order."""
    if not isinstance(leaf, nx.NamedArray):
        return np.asarray(leaf)
    free = iter([i for i, dim in enumerate(leaf.dims) if dim is None])
    return np.transpose(np.asarray(leaf.data), [next(free) if axis is None else leaf.dims.index(axis) for axis in axes])


@pytest.mark.full(96)
@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("how", ["eager", "jit", "gradient"])
@pytest.mark.parametrize("operation", TABLE)
def test_operation(operation, how, placement):
    named, plain, axes = TABLE[operation]
    x = placed(placement)
    if how != "gradient":
        have = positions((jax.jit(named) if how == "jit" else named)(x), axes)
        want = np.asarray(plain(X))
    else:
        whole = jax.eval_shape(plain, X)
        if not jnp.issubdtype(whole.dtype, jnp.floating):
            pytest.skip("has integers, and no gradient")
        weights = np.random.default_rng(5).normal(size=whole.shape).astype(whole.dtype)

        def loss(x):
            result = named(x)
            if not isinstance(result, nx.NamedArray):
                return jnp.sum(result * weights)
            return nx.sum(result * nx.named(weights, axes), axis=...)

        with placement.context():  # which JAX asks for where a gradient begins
            have = positions(jax.jit(jax.grad(loss))(x), ["a", "b"])
        want = np.asarray(jax.grad(lambda x: jnp.sum(plain(x) * weights))(X))
    assert have.dtype == want.dtype
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)


# --- where results lie, and what is sent -----------------------------------------------------------------------------------------


BOTH = PLACEMENTS[1]


@pytest.mark.parametrize(
    ("operation", "spec"),
    [
        (lambda x: nx.sort(x, "a"), ("x", "y")),
        (lambda x: x["a", 3], ("y",)),
        (lambda x: x[{"a": slice(2, 6)}], ("x", "y")),
        (lambda x: x[{"a": slice(1, 4)}], (None, "y")),  # which does not divide
        (lambda x: x[{"a": MASK}], (None, "y")),
        (lambda x: nx.dot(x, x, "a"), ("y",)),
    ],
)
def test_a_result_is_cut_as_its_names_say(operation, spec):
    assert tuple(operation(placed(BOTH)).sharding.spec) == spec


def test_nothing_is_gathered():
    """A contraction along a name that both operands have on a mesh axis is a sum, a sort moves blocks."""
    x = placed(PLACEMENTS[0])
    kinds = {}
    for name, f in {"dot": lambda x: nx.dot(x, x, "a"), "sort": lambda x: nx.sort(x, "a")}.items():
        kinds[name] = {c.kind for c in nx.hlo.collectives(jax.jit(f).lower(x).compile())}
    assert kinds == {"dot": {"all-reduce"}, "sort": {"collective-permute"}}


@pytest.mark.fast(0)
def test_the_order_of_a_dict_is_kept():
    """It is the order of the axes in a splitting, and names and positions have none by which JAX could sort them."""
    mesh = make_mesh((8,), "explicit")
    data = make.arange(48.0).reshape(16, 3)
    x = nx.shard(nx.named(data, ["k", None]), {"k": "x"}, mesh)
    for sizes in ({"p": 2, "q": 8}, {"q": 8, "p": 2}, {"q": 2, "p": 8}):
        want = data.reshape(*sizes.values(), 3)
        np.testing.assert_array_equal(nx.positional(nx.split_axis(x, "k", sizes), [*sizes, ...]), want)
    for _ in range(2):
        np.testing.assert_array_equal(nx.pad(x, {"k": (1, 2), 0: 1}).data, np.pad(data, [(1, 2), (1, 1)]))
        np.testing.assert_array_equal(x[{"k": make.asarray([3, 4]), 0: 1}], data[np.array([3, 4]), 1])


@pytest.mark.fast(0)
def test_a_shape_that_depends_on_values():
    """Eagerly operands are gathered; in a program it cannot be."""
    x = placed(BOTH)
    np.testing.assert_array_equal(positions(x[{"a": MASK}], ["a", "b"]), np.asarray(X)[MASK])
    have = nx.numpy.compress(MASK[:4], x, axis="b")
    np.testing.assert_array_equal(positions(have, ["a", "b"]), np.asarray(X)[:, MASK[:4]])
    with pytest.raises(ValueError, match="would depend on data"):
        jax.jit(lambda x, mask: x[{"a": mask}])(x, make.array(MASK))


def test_positional_axes_that_are_cut_are_gathered():
    x = nx.NamedArray(placed(BOTH).data, (None, "b"))
    np.testing.assert_allclose(positions(nx.sort(x, 0), [None, "b"]), np.sort(X, 0))
    x = nx.NamedArray(placed(PLACEMENTS[0]).data, (None, "b"))
    np.testing.assert_allclose(positions(x[3], ["b"]), X[3])


@pytest.mark.fast(0)
def test_within_transformations_of_jax():
    x = placed(PLACEMENTS[0])
    with PLACEMENTS[0].context():
        pair = nx.NamedArray(jnp.stack([x.data, 2 * x.data]), (None, "a", "b"))
        sorted_pair = jax.jit(jax.vmap(lambda x: nx.sort(x, "a")))(pair)
        np.testing.assert_allclose(np.asarray(sorted_pair.data), np.sort(np.stack([X, 2 * X]), 1))
        total = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + x["a", i], nx.zeros_like(x["a", 0])))(x)
        np.testing.assert_allclose(np.asarray(total.data), np.asarray(X[:3]).sum(0), rtol=1e-5)
        hessian = jax.jit(jax.grad(lambda x: nx.sum(jax.grad(lambda x: nx.sum(nx.cumsum(x, "a") ** 3, ...))(x), ...)))(x)
    want = jax.grad(lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(jnp.cumsum(x, 0) ** 3))(x)))(X)
    np.testing.assert_allclose(positions(hessian, ["a", "b"]), want, rtol=1e-4)


def test_what_is_no_operation_does_not_ask():
    """The report would be that of another program, whose operands are whole."""
    x = nx.shard(nx.named(make.arange(16.0), ["a"]), {"a": "x"}, make_mesh((8,), "explicit"))
    with pytest.raises(Exception, match="must be unsharded over the sorting dimension"):
        nx.explain(lambda x: jnp.sort(x.data), x)


def test_what_mapped_functions_return():
    """The notebook: parameters that a mapped function has trained are looked at outside of it."""
    mesh = BOTH.options["mesh"]
    grow = nx.xmap(lambda w: w * 2, axis_resources={"a": "x", "b": "y"}, mesh=mesh)
    w = grow(nx.named(X, ["a", "b"]))
    np.testing.assert_allclose(w["a", 3]["b", 1], 2 * X[3, 1], rtol=1e-6)
    np.testing.assert_allclose(positions(nx.top_k(w, 2, axis="a")[0], ["b", None]), np.sort(2 * X, 0)[:-3:-1].T, rtol=1e-6)


FACTORS = {"now": 1.0}


def scaled_sums(entry):
    return nx.cumsum(entry, "a") * FACTORS["now"]


def test_functions_of_the_user_see_global_arrays_with_their_sharding():
    """A function of JAX is right along other axes, and rejects a sharded one, as under `jax.jit`."""
    x = placed(PLACEMENTS[0])

    def sorted_by_hand(axis, i, c):
        return nx.NamedArray(jnp.sort(c.data, axis=c.dims.index(axis)), c.dims)

    have = nx.fori_loop(0, 1, functools.partial(sorted_by_hand, "b"), x)
    np.testing.assert_allclose(positions(have, ["a", "b"]), np.sort(X, 1))
    assert have.sharding.spec[have.dims.index("a")] == "x"
    with pytest.raises(Exception, match="unsharded over the sorting dimension"):
        nx.fori_loop(0, 1, functools.partial(sorted_by_hand, "a"), x)
    have = nx.nmap(jnp.cumsum)(nx.untag(x, ["a"]))
    np.testing.assert_allclose(positions(have, ["b", None]), np.cumsum(X, 0).T, rtol=1e-5)


def test_functions_of_the_user_are_called_each_time(monkeypatch):
    """What they read of the program around them may have changed."""
    x = placed(PLACEMENTS[0])
    for factor in (2.0, 3.0):
        monkeypatch.setitem(FACTORS, "now", factor)
        np.testing.assert_allclose(positions(nx.vmap(scaled_sums, "b")(x), ["a", "b"]), factor * np.cumsum(X, 0), rtol=1e-5)


# --- what cannot be --------------------------------------------------------------------------------------------------------------


def test_two_names_on_one_mesh_axis():
    mesh = make_mesh((8,), "explicit")
    x, y = (nx.shard(nx.named(make.ones(8), [name]), {name: "x"}, mesh) for name in "ac")
    for f in (lambda: nx.einsum("{a},{c}->{a,c}", x, y), lambda: x * y, lambda: nx.where(x > 0, x, y)):
        with pytest.raises(PlacementConflictError) as error:
            f()
        op, _, rest = said(error.value).partition(": axes ")
        assert op in ("einsum '{a},{c}->{a,c}'", "multiply", "where")
        assert rest == (
            "'a' and 'c' would be in one value, but both are sharded over mesh axis 'x', which can hold only one of them. Place one of the "
            "arrays elsewhere first, such as nx.shard(x, {'a': None}, mesh), which gathers it."
        )
    have = nx.einsum("{a},{c}->{a,c}", nx.shard(x, {"a": None}, mesh), y)  # as it says
    assert dict(have.named_shape) == {"a": 8, "c": 8}


def test_one_name_in_two_places():
    mesh = make_mesh((4, 2), "explicit")
    x, y = (nx.shard(nx.named(X, ["a", "b"]), {"a": axis}, mesh) for axis in "xy")
    with pytest.raises(PlacementConflictError) as error:
        x + y
    assert said(error.value) == (
        "add: axis 'a' is sharded over mesh axis 'x' in f32[]{a:8@x, b:4}, and over mesh axis 'y' in f32[]{a:8@y, b:4}; in one operation a name has "
        "one sharding. Place one of the arrays as the other one is first: nx.shard(x, {'a': 'x'}, mesh)."
    )
    np.testing.assert_allclose(positions(x + nx.shard(y, {"a": "x"}, mesh), ["a", "b"]), 2 * X)


def test_two_meshes():
    x, y = (nx.shard(nx.named(X, ["a", "b"]), {"a": "x"}, make_mesh(shape, "explicit")) for shape in ((8,), (4, 2)))
    with pytest.raises(MeshError) as error:
        nx.dot(x, y, "a")
    assert said(error.value) == (
        "dot: f32[]{a:8@x, b:4} is on the mesh {'x': 4, 'y': 2}, and another operand on the mesh {'x': 8}; an operation runs on one mesh. "
        "Place both on one mesh: nx.shard(x, axis_resources, mesh)."
    )


def test_mistakes_are_those_of_other_arrays():
    x = placed(PLACEMENTS[0])
    with pytest.raises(AxisNotFoundError, match="sort: no axis 'q' in"):
        nx.sort(x, "q")
    with pytest.raises(AxisSizeError, match="index 9 is out of range for axis 'a' of size 8"):
        x["a", 9]
    with pytest.raises(AxisSizeError) as error:
        nx.concatenate([x, x[{"b": slice(0, 2)}]], "a")
    with pytest.raises(AxisSizeError) as unplaced:
        nx.concatenate([nx.named(X, ["a", "b"]), nx.named(X[:, :2], ["a", "b"])], "a")
    assert said(error.value) == said(unplaced.value)
    with pytest.raises(ZeroDivisionError):
        nx.vmap(lambda e: nx.cumsum(e, "a") / (1 // 0), "b")(x)


# --- what it costs ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mapped(monkeypatch):
    """The operations that ran as mapped functions since the last call."""
    calls = []
    run = explicit_fallback.fallbacks.run_mapped

    def noting(rule, op, *more):
        done = run(rule, op, *more)
        if done is not None:
            calls.append(op)
        return done

    monkeypatch.setattr(explicit_fallback.fallbacks, "run_mapped", noting)

    def since():
        found = list(calls)
        calls.clear()
        return found

    return since


@pytest.mark.fast(0)
@pytest.mark.parametrize("where", ["nowhere", "auto"])
def test_arrays_on_no_explicit_mesh_run_as_jax_has_it(where, mapped):
    x = nx.named(X, ["a", "b"])
    if where == "auto":
        x = nx.shard(x, {"a": "x"}, make_mesh((8,), "auto"))
    (nx.sort(x, "a"), x["a", 3], nx.dot(x, x, "a"), x + nx.exp(x), x.at["a", 1].set(0))
    assert mapped() == []


def test_what_jax_has_rules_for_runs_as_jax_has_it(mapped):
    """Elementwise operations, reductions, and scans along axes that are not sharded."""
    x = placed(PLACEMENTS[0])
    (x + nx.exp(x), nx.sum(x, "a"), nx.mean(x, ...), nx.rename(x, a="c"), nx.max(x, "a"))
    assert mapped() == []


@pytest.mark.fast(0)
def test_the_second_call_compiles_nothing_and_traces_nothing():
    seen = []

    def listen(event, duration, **_):
        if event in ("/jax/core/compile/backend_compile_duration", "/jax/core/compile/jaxpr_trace_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        calls = (
            lambda x: nx.sort(x, "a"),
            lambda x: x["a", 3],
            lambda x: x[{"a": slice(1, 4)}],
            lambda x: x[{"a": NAMED_IDS}],
            lambda x: x.at["a", 1].set(0.0),
            lambda x: nx.dot(x, x, "a"),
            lambda x: nx.numpy.cumsum(x, axis="a"),
            lambda x: nx.flip(x, "a"),
        )
        for call in calls:
            for value in (X, X + 1):
                x = placed(PLACEMENTS[0], value)
                seen.clear()
                jax.block_until_ready(call(x))
            assert seen == []
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


# --- all operations ---------------------------------------------------------------------------------------------------------------

ALONG_AN_AXIS = """sum mean var std max min prod any all argmax argmin median quantile percentile nanmedian nanquantile cumsum cumprod cummax cummin
cumlogsumexp cumulative_sum sort argsort top_k partition argpartition lexsort take take_along_axis concatenate append stack roll flip pad repeat tile
diff gradient trapezoid unwrap convolve einsum dot tensordot searchsorted unique nonzero histogram bincount average cov corrcoef ptp split array_split
tril triu squeeze psum all_gather ppermute pdot""".split()
ONLY_HERE = """norm segment_sum segment_max max_with_index slice split_axis merge_axes rearrange reduce rename shift halo conv logsumexp scan fold
associative_scan map cond while_loop fori_loop positional""".split()


@pytest.mark.parametrize("face", ["", "numpy", "lax"])
def test_every_operation_asks(face):
    """A function that goes over axes and does not ask would show its user JAX's own words."""
    module = getattr(nx, face) if face else nx
    wanted = [name for name in (*ALONG_AN_AXIS, *(() if face else ONLY_HERE)) if name in module.__all__]
    assert len(wanted) > 15
    assert [name for name in wanted if not hasattr(getattr(module, name), "_operation")] == []
