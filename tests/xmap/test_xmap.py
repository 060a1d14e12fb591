"""`xmap`: its whole signature, on every kind of mesh, and how it composes with JAX's transformations.

One small program serves most tests: `product`, which contracts the axis `k` of two matrices of unequal sizes.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import expm_frechet
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import hlo
from namedax.errors import (
    AxisMappingError,
    AxisResourceError,
    AxisSizeError,
    MeshError,
    NamedAxesLeftError,
    PlacementConflictError,
)
from tests import make
from tests.harness import array

KINDS = {
    "auto": (AxisType.Auto, AxisType.Auto),
    "explicit": (AxisType.Explicit, AxisType.Explicit),
    "mixed": (AxisType.Auto, AxisType.Explicit),
}
X, Y = array(8, 3, seed=1), array(4, 3, seed=2)
WANT = np.asarray(X) @ np.asarray(Y).T
IN = (["a", "k"], ["b", "k"])
OUT = ["a", "b"]
RESOURCES = {"a": "x", "b": "y"}


def product(x, y):
    return nx.dot(x, y, "k")


def make_mesh(kind="auto", shape=(4, 2), names=("x", "y")):
    return jax.make_mesh(shape, names, axis_types=(*KINDS[kind], AxisType.Auto)[: len(shape)])


def mapped(fun=product, in_axes=IN, out_axes=OUT, kind="auto", resources=RESOURCES, **options):
    return nx.xmap(fun, in_axes, out_axes, axis_resources=resources, mesh=make_mesh(kind), **options)


def close(have, want, tol=2e-5):
    jax.tree.map(lambda h, w: np.testing.assert_allclose(np.asarray(h), np.asarray(w), rtol=tol, atol=tol), have, want)


# Where a mapped function can run: nothing mapped, every kind of mesh as an argument or around the call, and XLA's partitioner.
MODES = [
    "unmapped",
    *(f"{kind}-{by}" for kind in KINDS for by in ("argument", "context")),
    "auto-partitioner",
    "explicit-partitioner",
]
FEW_MODES = ["unmapped", "auto-argument", "explicit-context", "mixed-context", "explicit-partitioner"]


@contextlib.contextmanager
def wrapped(mode, fun=product, in_axes=IN, out_axes=OUT, resources=RESOURCES, **options):
    """`xmap(fun)` in a mode of `MODES`."""
    kind, _, by = mode.partition("-")
    if kind == "unmapped":
        yield nx.xmap(fun, in_axes, out_axes, **options)
        return
    mesh = make_mesh(kind)
    partitioning = "auto" if by == "partitioner" else "manual"
    options |= {"axis_resources": resources, "partitioning": partitioning}
    if by == "context":
        with jax.set_mesh(mesh):
            yield nx.xmap(fun, in_axes, out_axes, **options)
    else:
        yield nx.xmap(fun, in_axes, out_axes, mesh=mesh, **options)


# --- the tutorial's examples ----------------------------------------------------------------------------------------


def test_a_name_comes_in_at_one_position_and_goes_out_at_another():
    def my_func(x):
        assert x.shape == (5,)
        assert dict(x.named_shape) == {"batch": 20}
        return x

    x = array(20, 5)
    close(nx.xmap(my_func, in_axes={0: "batch"}, out_axes={1: "batch"})(x), x.T)


def test_a_function_of_jax_is_vectorised_over_all_names():
    function = functools.partial(expm_frechet, compute_expm=False)
    first, second = array(8, 2, 2) / 4, array(4, 2, 2, seed=3) / 4
    in_axes = (["a", ...], ["b", ...])
    every_pair = mapped(function, in_axes, ["a", "b", ...])(first, second)
    close(every_pair, jax.jit(jax.vmap(jax.vmap(function, (None, 0)), (0, None)))(first, second))
    pairs = nx.xmap(jnp.vdot, ["p", ...], ["p"])(first[:4], second)
    close(pairs, jnp.sum(first[:4] * second, (1, 2)))


def test_names_broadcast_by_name_and_positions_by_position():
    def named_broadcasting(x, y, z):
        i = x + y
        j = y + z
        assert i.shape == (2, 3, 1)
        assert dict(i.named_shape) == {"a": 2, "b": 3}
        return i + j

    x, y, z = array(2, 2, 1, 1), array(3, 1, 3, 1, seed=1), array(5, 1, 1, 5, seed=2)
    f = nx.xmap(named_broadcasting, (["a", ...], ["b", ...], ["c", ...]), ["a", "b", "c", ...])
    have = f(x, y, z)
    assert have.shape == (2, 3, 5, 2, 3, 5)
    a, b, c = x[:, None, None], y[None, :, None], z[None, None, :]
    close(have, a + b + (b + c))


def test_names_and_positions_reduce_together():
    def reduce(x, y):
        return nx.sum(x + y, axis=(0, "x", "y"))

    x, y = array(2), array(5, 4)
    close(nx.xmap(reduce, ({0: "x"}, {1: "y"}), {})(x, y), jnp.sum(x[:, None, None] + y))


def test_the_list_of_in_axes_is_a_container():
    def contract(x, y):
        return nx.einsum("n{b,k},{k,m}->n{b,m}", x, y)

    x, y = array(4, 5, 7), array(7, 3)
    f = nx.xmap(contract, in_axes=[{0: "b", 2: "k"}, ["k", "m", ...]], out_axes={0: "b", 2: "m"})
    close(f(x, y), jnp.einsum("bnk,km->bnm", x, y))


@pytest.mark.fast(3)
@pytest.mark.parametrize("mode", MODES)
def test_vdot_over_left_and_right_is_a_matrix_product(mode):
    resources = {"left": "x", "right": "y"}
    with wrapped(mode, jnp.vdot, ({0: "left"}, {1: "right"}), ["left", "right"], resources) as f:
        have = f(X, Y.T)
    close(have, WANT)
    if mode != "unmapped":
        assert have.sharding.spec == P("x", "y")


@pytest.mark.fast(3)
@pytest.mark.parametrize("mode", MODES[1:])
def test_two_names_on_one_mesh_axis_that_never_meet(mode):
    def sum_two_args(x, y):
        return nx.sum(x, "a") + nx.sum(y, "b")

    with wrapped(mode, sum_two_args, (["a", ...], ["b", ...]), [...], {"a": "x", "b": "x"}) as f:
        close(f(jnp.arange(4.0), jnp.arange(12.0)), 6.0 + 66.0)


@pytest.mark.parametrize(
    ("fun", "in_axes", "out_axes", "where"),
    [
        (lambda x, y: nx.sum(x * y, "b"), (["a"], ["b"]), ["a"], "multiply: axes 'a' and 'b' meet"),
        (lambda x, y: x, (["a", "b"], []), ["a", "b"], "xmap, argument 'x': axes 'a' and 'b' meet"),
        (lambda x, y: x, (["a"], ["b"]), ["a", "b"], "xmap, out_axes \\['a', 'b'\\]: axes 'a' and 'b' meet"),
    ],
)
@pytest.mark.parametrize("partitioning", ["manual", "auto"])
def test_two_names_on_one_mesh_axis_that_meet(fun, in_axes, out_axes, where, partitioning):
    f = mapped(fun, in_axes, out_axes, resources={"a": "x", "b": "x"}, partitioning=partitioning)
    args = [make.ones((4,) * len(axes)) for axes in in_axes]
    with pytest.raises(PlacementConflictError, match=f"{where} in one value, but both are mapped to mesh axis 'x'"):
        f(*args)


# --- arguments ------------------------------------------------------------------------------------------------------


def test_one_mapping_serves_all_arguments_and_keywords():
    def f(x, y, *, z):
        return nx.sum(x * y + z, "a")

    a, b, c = array(8, 3, seed=1), array(8, 3, seed=2), array(8, 3, seed=3)
    have = mapped(f, ["a", ...], [...], resources={"a": "x"})(a, b, z=c)
    close(have, jnp.sum(a * b + c, 0))


def test_keywords_in_a_dict_behind_the_positional_mappings():
    f = mapped(lambda x, *, y, z: product(x, y) + z, (["a", "k"], {"y": ["b", "k"], "z": ["a"]}))
    close(f(X, z=X[:, 0], y=Y), WANT + X[:, :1])


def test_keywords_that_are_not_given_need_no_mapping():
    def f(x, y=None):
        return nx.sum(x, "k") if y is None else product(x, y)

    g = mapped(f, (["a", "k"], {"y": ["b", "k"]}), None, resources={"a": "x"})
    close(g(X).data, X.sum(1))
    close(nx.positional(g(X, y=Y), OUT), WANT)


def test_keywords_by_parameter():
    f = mapped()
    close(f(X, y=Y), WANT)
    close(f(y=Y, x=X), WANT)


def test_keywords_by_parameter_before_a_dict_of_keywords():
    f = mapped(lambda x, y, *, z: product(x, y) + z, (*IN, {"z": ["a"]}))
    close(f(X, y=Y, z=X[:, 0]), WANT + X[:, :1])


def test_keywords_only():
    for in_axes in (({"x": IN[0], "y": IN[1]},), {"x": IN[0], "y": IN[1]}):
        close(mapped(lambda *, x, y: product(x, y), in_axes)(y=Y, x=X), WANT)


def test_keywords_that_are_named_arrays_need_no_mapping():
    f = mapped(lambda x, *, y: product(x, y), (["a", "k"],))
    close(f(X, y=nx.named(Y, ["b", "k"])), WANT)


def test_a_dict_argument_given_by_keyword():
    f = mapped(lambda x, params: product(x, params["w"]), (["a", "k"], {"w": ["b", "k"]}))
    close(f(X, params={"w": Y}), WANT)
    close(f(X, {"w": Y}), WANT)


def test_a_keyword_without_a_mapping():
    def f(x, *, z):
        return x + z

    with pytest.raises(AxisMappingError, match="in_axes has no axis mapping for the keyword argument 'z' of f"):
        nx.xmap(f, (["a"],), ["a"])(X[:, 0], z=X[:, 0])


def test_too_few_and_too_many_arguments():
    with pytest.raises(AxisMappingError, match="in_axes has length 2, but product was called with 1 positional arguments"):
        nx.xmap(product, IN, OUT)(X)
    with pytest.raises(AxisMappingError, match="in_axes has length 2, but product was called with 3 positional arguments"):
        nx.xmap(product, IN, OUT)(X, Y, Y)


def test_containers_of_arguments():
    def f(tree, pair):
        return {"m": nx.dot(tree["u"], pair[1], "k"), "rest": (pair[0], tree["v"])}

    in_axes = ({"u": ["a", "k"], "v": [None]}, (["k"], ["b", "k"]))
    out_axes = {"m": ["b", "a"], "rest": (["k"], [...])}
    have = mapped(f, in_axes, out_axes)({"u": X, "v": X[0]}, (Y[0], Y))
    close(have, {"m": WANT.T, "rest": (Y[0], X[0])})
    assert have["m"].sharding.spec == P("y", "x")


def test_a_prefix_serves_a_whole_tree():
    def f(tree):
        return jax.tree.map(lambda v: nx.sum(v, "k"), tree, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))

    have = mapped(f, (["a", "k"],), ["a"], resources={"a": "x"})({"p": X, "q": [2 * X]})
    close(have, {"p": X.sum(1), "q": [2 * X.sum(1)]})


def test_mappings_that_are_no_prefix():
    with pytest.raises(
        AxisMappingError, match=r"in_axes\[0\] is a tuple of length 2, but argument 't' is a dict with the keys 'u', 'v'"
    ):
        mapped(lambda t: t, ((["a"], ["b"]),), None)({"u": X, "v": Y})


@pytest.mark.parametrize("in_axes", [(), {}, None])
@pytest.mark.parametrize("mode", FEW_MODES)
def test_a_body_without_arguments(in_axes, mode):
    with wrapped(mode, lambda: nx.arange("a"), in_axes, ["a"], {"a": "x"}, axis_sizes={"a": 8}) as f:
        close(f(), np.arange(8))


def test_rank_assertions():
    with pytest.raises(AxisMappingError, match=r"\['a', 'k'\] asserts 2 axes, but argument 'x', f\w+\[8\], has 1"):
        nx.xmap(product, IN, OUT)(X[:, 0], Y)
    with pytest.raises(
        AxisMappingError, match=r"\['a'\] asserts 1 axes, but the result, f\w+\[2\]\{a:8\}, with its names has 2"
    ):
        nx.xmap(lambda x: x, (["a", None],), ["a"])(X[:, :2])
    close(nx.xmap(lambda x: x, (["a", ...],), ["a", ...])(X), X)


def test_numpy_arrays_and_python_scalars():
    f = mapped(lambda x, s: x * s, (["a", None], {}), ["a", None], resources={"a": "x"})
    have = f(np.asarray(X), 2.5)
    assert have.dtype == X.dtype
    close(have, 2.5 * X)
    assert f(X.astype("bfloat16"), 2.5).dtype == jnp.bfloat16  # a Python scalar gives way
    eager = nx.xmap(lambda x: x, (["a", None],), ["a", None], jit=False)(np.arange(6.0).reshape(2, 3))
    assert isinstance(eager, jax.Array)
    assert eager.dtype == jnp.arange(1.0).dtype


# --- sizes ----------------------------------------------------------------------------------------------------------


def test_axis_sizes_give_names_that_no_argument_has():
    f = mapped(lambda x: x, (["a"],), ["b", "a"], axis_sizes={"b": 4})
    close(f(X[:, 0]), np.broadcast_to(X[:, 0], (4, 8)))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"b": [3]}, r"axis_sizes gives 'b' the size \[3\]; a size must be a nonnegative integer"),
        ({"b": True}, "axis_sizes gives 'b' the size True"),
        ({"b": -1}, "axis_sizes gives 'b' the size -1"),
        ({0: 3}, "axis_sizes has the key 0, which is not an axis name"),
        (3, "axis_sizes is 3, not a dict. Write a dict"),
    ],
)
def test_sizes_that_are_none(sizes, message):
    with pytest.raises(AxisSizeError, match=message):
        nx.xmap(lambda x: x, (["a"],), ["a"], axis_sizes=sizes)(X[:, 0])


def test_sizes_that_disagree():
    with pytest.raises(
        AxisSizeError,
        match=r"axis 'k' has size 3 in argument 'x' of shape \(8, 3\), and size 2 in argument 'y' of shape \(4, 2\)",
    ):
        nx.xmap(product, IN, OUT)(X, Y[:, :2])
    with pytest.raises(AxisSizeError, match=r"axis 'a' has size 5 in axis_sizes, and size 8 in argument 'x'"):
        nx.xmap(product, IN, OUT, axis_sizes={"a": 5})(X, Y)


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.fast(3)
@pytest.mark.parametrize("mode", MODES)
def test_named_arrays_in_and_out(mode):
    def f(x, y):
        return {"m": nx.dot(x, y, "k"), "s": (nx.sum(x, ("a", "k")), 2.0)}

    with wrapped(mode, f, None, None) as g:
        have = g(nx.named(X, ["a", "k"]), nx.named(Y.T, ["k", "b"]))
    assert dict(have["m"].named_shape) == {"a": 8, "b": 4}
    close(nx.positional(have["m"], OUT), WANT)
    assert isinstance(have["s"][0], jax.Array)
    close(have["s"], (X.sum(), 2.0))
    if mode != "unmapped":
        assert have["m"].sharding.spec == P(*(RESOURCES[dim] for dim in have["m"].dims))


def test_mixed_named_and_placed():
    def f(x, y):
        return product(x, y), x, nx.sum(y, "b")

    have = mapped(f, (["a", "k"], None), (["b", "a"], None, ["k"]))(X, nx.named(Y, ["b", "k"]))
    close((have[0], have[1].data, have[2]), (WANT.T, X, Y.sum(0)))
    assert [leaf.sharding.spec for leaf in have] == [P("y", "x"), P("x"), P()]


def test_a_named_array_that_is_mapped_gets_more_names():
    x = nx.named(array(3, 8, 2), [None, "a", None])
    have = mapped(lambda x: x * 2, (["k", None],), ["a", "k", None], resources={"a": "x"})(x)
    close(have, 2 * jnp.moveaxis(x.data, 1, 0))


@pytest.mark.fast(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_result_is_broadcast_along_a_placed_name_that_it_lacks(mode):
    with wrapped(mode, lambda x, y: (nx.sum(x, ("a", "k")), nx.sum(x, "k"), 1.0), out_axes=OUT) as f:
        have = f(X, Y)
    rows = X.sum(1)
    close(have, (jnp.full((8, 4), X.sum()), jnp.broadcast_to(rows[:, None], (8, 4)), jnp.ones((8, 4))))
    if mode != "unmapped":
        assert {leaf.sharding.spec for leaf in have} == {P("x", "y")}


def test_a_name_that_is_placed_but_has_no_size():
    with pytest.raises(AxisMappingError, match=r"\['c'\] places 'c', but the result, .* has no such axis, and it has no size"):
        nx.xmap(lambda x: nx.sum(x, "a"), (["a"],), ["c"])(X[:, 0])


@pytest.mark.parametrize("mode", ["unmapped", "auto-argument", "auto-partitioner"])
def test_a_name_that_is_left(mode):
    with wrapped(mode, lambda x, y: {"p": (x, product(x, y))}, out_axes={"p": (["a", "k"], ["a"])}) as f:
        with pytest.raises(
            NamedAxesLeftError, match=r"the result\['p'\]\[1\], .* still has the axes 'b', which \['a'\] does not place"
        ):
            f(X, Y)


def test_a_local_block_can_not_leave():
    for body in (lambda x: x.data, lambda x: jnp.sum(x.data)):
        with pytest.raises(NamedAxesLeftError, match=r"varies over the mesh axes \['x'\]"):
            mapped(body, (["a"],), [...], resources={"a": "x"})(X[:, 0])


# --- options --------------------------------------------------------------------------------------------------------


def scaled(x, how, y):
    return product(x, y) * {"once": 1.0, "twice": 2.0}[how]


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("static_argnums", [1, -2, (1,), [-2]])
@pytest.mark.parametrize("jit", [True, False])
def test_static_arguments(static_argnums, jit):
    f = mapped(scaled, static_argnums=static_argnums, jit=jit)
    close(f(X, "twice", Y), 2 * WANT)
    close(f(X, "once", Y), WANT)
    close(f(X, "twice", y=Y), 2 * WANT)
    close(f(X, how="twice", y=Y), 2 * WANT)


def test_static_arguments_of_variadic_functions():
    close(nx.xmap(lambda *args: scaled(*args), IN, OUT, static_argnums=-2)(X, "twice", Y), 2 * WANT)


@pytest.mark.parametrize("donate_argnums", [1, -1])
def test_donated_arguments(donate_argnums):
    f = nx.xmap(
        lambda n, x: x * n, (["a", None],), ["a", None],
        axis_resources={"a": "x"}, mesh=make_mesh(), static_argnums=0, donate_argnums=donate_argnums,
    )  # fmt: skip
    x = jax.device_put(X, NamedSharding(make_mesh(), P("x")))
    x = x + 0  # a buffer of its own
    close(f(3, x), 3 * X)
    assert x.is_deleted()
    assert not X.is_deleted()
    text = f.lower(3, X).as_text()
    assert "jax.buffer_donor" in text or "tf.aliasing_output" in text


@pytest.mark.parametrize("mode", FEW_MODES)
def test_lowering_ahead_of_time(mode):
    with wrapped(mode) as f:
        result = f.eval_shape(X, Y)
        assert (result.shape, result.dtype) == ((8, 4), X.dtype)
        abstract = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in (X, Y)]
        if mode == "unmapped":
            close(f.lower(*abstract).compile()(X, Y), WANT)
        else:
            f.lower(*abstract).compile()
        assert f.trace(X, Y).out_info.shape == (8, 4)
        if mode != "unmapped":
            assert not hlo.collectives(f.lower(X, Y).compile())  # a body without reductions over mapped names


def test_lowering_with_named_structures():
    f = mapped(in_axes=None, out_axes=None)
    x, y = (
        jax.tree.map(lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype), nx.named(v, axes))
        for v, axes in zip((X, Y), IN, strict=True)
    )
    have = f.eval_shape(x, y)
    assert have.dims == ("a", "b")
    assert have.data.shape == (8, 4)
    f.lower(x, y).compile()


def test_lowering_for_arrays_that_live_elsewhere():
    mapped().lower(jax.device_put(X, jax.devices()[3]), Y).compile()
    mapped(jit=False).lower(X, Y).compile()


def test_eager_values_are_concrete_where_nothing_is_mapped():
    seen = []

    def f(x, y):
        seen.append(isinstance(x.data, jax.core.Tracer))
        return product(x, y)

    close(nx.xmap(f, IN, OUT, jit=False)(X, Y), WANT)
    assert seen == [False]
    close(mapped(f, jit=False)(X, Y), WANT)
    assert seen[1:] == [True]  # inside of jax.shard_map a body is always traced


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    ("kind", "partitioning"), [("auto", "manual"), ("explicit", "manual"), ("mixed", "manual"), ("explicit", "auto")]
)
def test_eager_and_mapped(kind, partitioning):
    have = mapped(kind=kind, partitioning=partitioning, jit=False)(X, Y)
    close(have, WANT)
    assert have.sharding.spec == P("x", "y")
    one = mapped(
        lambda x, y: nx.sum(product(x, y), "a"),
        out_axes=["b"],
        kind=kind,
        partitioning=partitioning,
        jit=False,
        resources={"a": "x"},
    )
    close(jax.grad(lambda x: jnp.sum(one(x, Y) ** 2))(X), 2 * WANT.sum(0) @ Y * jnp.ones((8, 1)))


# --- wrapping -------------------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
def test_wrapping_again_compiles_nothing():
    traced = []

    def f(x, y):
        traced.append(1)
        return product(x, y)

    for _ in range(3):
        close(mapped(f)(X, Y), WANT)
        gc.collect()  # the wrapper is gone, but not what it compiled
    assert len(traced) == 1
    mapped(f, resources={"a": "x"})(X, Y)
    assert len(traced) == 2


@pytest.mark.fast(0)
def test_a_partial_application_that_is_kept_is_compiled_once():
    traced = []

    def f(scale, x, y, *, shift):
        traced.append(1)
        return product(x, y) * scale + shift

    kept = functools.partial(f, 2.0, shift=1.0)
    for _ in range(3):
        close(mapped(kept)(X, Y), 2 * WANT + 1)
        gc.collect()
    assert len(traced) == 1
    assert mapped(kept) is mapped(kept)
    other = functools.partial(f, 2.0, shift=1.0)  # to jax.jit, too, another function
    assert mapped(kept) is not mapped(other)


class Scaled:
    """Something with a setting that can change, used as a method and as an argument of a partial application."""

    def __init__(self, w):
        self.w = w

    def apply(self, x):
        return nx.numpy.sin(x) * self.w

    def __call__(self, x):
        return self.apply(x)


class ScaledByValue(Scaled):
    """The same, with a hash and equality that go by the setting."""

    def __hash__(self):
        return hash(self.w)

    def __eq__(self, other):
        return isinstance(other, ScaledByValue) and self.w == other.w


def apply(config, x):
    return nx.numpy.sin(x) * config.w


def apply_dict(x, *, config):
    return nx.numpy.sin(x) * config["w"]


def set_w(config, w):
    if isinstance(config, dict):
        config["w"] = w
    else:
        config.w = w


STALE = {
    "method": (Scaled, lambda o: o.apply),
    "call method": (Scaled, lambda o: o.__call__),
    "partial": (Scaled, lambda o: functools.partial(apply, o)),
    "partial of a dict": (lambda w: {"w": w}, lambda o: functools.partial(apply_dict, config=o)),
    "partial of a value": (Scaled, lambda o: functools.partial(lambda w, x: nx.sin(x) * w, o.w)),
    "partial of a method": (Scaled, lambda o: functools.partial(o.apply)),
    "partial of a partial": (Scaled, lambda o: functools.partial(functools.partial(apply, o))),
    "tree_util.Partial": (Scaled, lambda o: jax.tree_util.Partial(apply, o)),
    "partial of one that is equal": (ScaledByValue, lambda o: functools.partial(apply, o)),
    "method of one that is equal": (ScaledByValue, lambda o: o.apply),
    "callable with a hash of its own": (ScaledByValue, lambda o: o),
    "lifted method": (Scaled, lambda o: nx.nmap(lambda x, f=o.apply: f(x))),
    "lambda": (Scaled, lambda o: lambda x: o.apply(x)),
    "jit of a method": (Scaled, lambda o: jax.jit(o.apply)),
    "wrapped method": (Scaled, lambda o: functools.wraps(o.apply)(lambda x: o.apply(x))),
}


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("make", "function"), STALE.values(), ids=STALE)
@pytest.mark.parametrize("options", [{}, {"axis_resources": {"a": "x"}, "mesh": make_mesh()}], ids=["unmapped", "mapped"])
def test_what_may_have_changed_is_traced_again(make, function, options):
    config = make(2.0)
    x = array(8)
    wrappers = []  # also where the ones before are still in use
    for w in (2.0, 5.0, -3.0):
        set_w(config, w)
        f = nx.xmap(function(config), ["a"], ["a"], **options)
        wrappers.append(f)
        close(f(x), w * np.sin(x))
        close(jax.grad(lambda x, f=f: f(x).sum())(x), w * np.cos(x))


def test_what_jax_takes_for_the_same_function_is_the_same():
    scaled = Scaled(2.0)
    kept = scaled.apply
    for fun in (scaled, kept):
        assert nx.xmap(fun, ["a"], ["a"]) is nx.xmap(fun, ["a"], ["a"])
    unhashable = type("Unhashable", (Scaled,), {"__eq__": lambda self, other: True, "__hash__": None})(2.0)
    close(nx.xmap(unhashable, ["a"], ["a"])(array(8)), 2 * np.sin(array(8)))
    unhashable.w = 3.0
    close(nx.xmap(unhashable, ["a"], ["a"])(array(8)), 3 * np.sin(array(8)))


def test_mappings_that_change_after_wrapping():
    def f(x):
        return nx.sum(x, "a")

    axes, out = ["a", "b"], ["b"]
    first = nx.xmap(f, (axes,), out)
    axes[:], out[:] = ["b", "a"], []
    x = array(8, 4)
    close(first(x), x.sum(0))
    close(nx.xmap(f, (["a", "b"],), ["b"])(x), x.sum(0))


def test_partial_applications_to_equal_values_of_other_types_are_others():
    def f(scale, x):
        return x * scale

    flagged = [nx.xmap(functools.partial(add_if_bool, flag), ["a"], ["a"])(make.zeros(2))[0] for flag in (1, True)]
    assert flagged == [0, 1]
    x = make.arange(4)
    dtypes = [nx.xmap(functools.partial(f, scale), ["a"], ["a"])(x).dtype for scale in (1, 1.0, True)]
    assert dtypes == [(x * scale).dtype for scale in (1, 1.0, True)]
    signs = [float(nx.xmap(functools.partial(jnp.copysign, 1.0), [], [])(zero)) for zero in (0.0, -0.0)]
    assert signs == [1.0, -1.0]
    signs = [float(nx.xmap(functools.partial(copy_sign, sign=zero), [], [])(2.0)) for zero in (0.0, -0.0)]
    assert signs == [2.0, -2.0]


def add_if_bool(flag, x):
    return x + int(isinstance(flag, bool))


def copy_sign(x, sign):
    return nx.copysign(x, sign)


def test_partial_applications_to_arrays():
    def f(scale, x, y, shift):
        return product(x, y) * scale + shift

    g = mapped(functools.partial(f, jnp.float32(2), shift=make.arange(5.0)), out_axes=["a", "b", None])
    close(g(X, Y), 2 * WANT[..., None] + np.arange(5.0))


def test_methods():
    class Model:
        def __init__(self, scale):
            self.scale = scale
            self.traced = 0

        def apply(self, x, y):
            self.traced += 1
            return product(x, y) * self.scale

        @functools.partial(nx.xmap, in_axes=IN, out_axes=OUT, static_argnums=0, axis_resources=RESOURCES, mesh=make_mesh())
        def decorated(self, x, y):
            """Doc."""
            return product(x, y) * self.scale

    two, three = Model(2.0), Model(3.0)
    apply = two.apply
    for _ in range(3):
        close(mapped(apply)(X, Y), 2 * WANT)
    assert two.traced == 1
    close(mapped(three.apply)(X, Y), 3 * WANT)
    close(two.decorated(X, Y), 2 * WANT)
    close(three.decorated(X, y=Y), 3 * WANT)
    assert two.decorated == two.decorated
    assert Model.decorated.__doc__ == "Doc."


def test_a_wrapper_keeps_the_function_s_identity():
    @functools.partial(nx.xmap, in_axes=IN, out_axes=OUT)
    def decorated(x, y):
        """Doc."""
        return product(x, y)

    assert (decorated.__name__, decorated.__doc__, decorated.__module__) == ("decorated", "Doc.", __name__)
    assert list(inspect.signature(decorated).parameters) == ["x", "y"]
    assert repr(decorated) == "<xmap of decorated with axis_resources={}>"
    close(decorated(X, Y), WANT)


@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, RESOURCES])
def test_a_function_that_nobody_needs_is_collected(resources):
    big = make.arange(8.0)

    def f(x, y):
        return product(x, y) + nx.named(big, ["a"])

    watch = weakref.ref(f)
    for _ in range(2):
        mapped(f, resources=resources)(X, Y)
    del f
    gc.collect()
    assert watch() is None


def test_what_is_no_function_and_no_partitioning():
    with pytest.raises(AxisMappingError, match="fun must be a function, got 3"):
        nx.xmap(3)
    with pytest.raises(AxisResourceError, match="partitioning must be 'manual', 'global' or 'auto', got 'hand'"):
        nx.xmap(product, partitioning="hand")


# --- resources and meshes -------------------------------------------------------------------------------------------


@pytest.mark.fast(2)
@pytest.mark.parametrize("mode", ["auto-argument", "explicit-context", "mixed-argument", "auto-partitioner"])
@pytest.mark.parametrize(
    "resources", [{"a": "x"}, {"a": ("x", "y")}, {"a": ("y", "x")}, {"b": "y", "k": None}, {"a": "y", "b": "x"}]
)
def test_results_are_placed(mode, resources):
    with wrapped(mode, resources=resources) as f:
        have = f(X, Y)
    close(have, WANT)
    assert have.sharding.is_equivalent_to(NamedSharding(make_mesh(), P(resources.get("a"), resources.get("b"))), 2)


def test_the_order_of_mesh_axes_is_major_first():
    mesh = make_mesh()
    devices = {}
    for axes in (("x", "y"), ("y", "x")):
        have = nx.xmap(lambda x: x, ["a"], ["a"], axis_resources={"a": axes}, mesh=mesh)(make.arange(8.0))
        devices[axes] = [shard.device.id for shard in sorted(have.addressable_shards, key=lambda shard: shard.index[0].start)]
    ids = np.vectorize(lambda device: device.id)(mesh.devices)
    assert devices == {("x", "y"): ids.ravel().tolist(), ("y", "x"): ids.T.ravel().tolist()}


def test_mesh_errors():
    with pytest.raises(MeshError, match="maps 'a' to mesh axes \\('x',\\), but there is no mesh"):
        nx.xmap(product, IN, OUT, axis_resources={"a": "x"})(X, Y)
    with pytest.raises(
        MeshError, match=r"maps 'a' to mesh axis 'xs', which the mesh does not have; its axes are 'x', 'y' .* Did you mean 'x'"
    ):
        mapped(resources={"a": "xs"})(X, Y)


def test_a_name_that_nobody_has():
    for resources in ({"a": "x", "bb": "y"}, {"bb": "x"}):
        with pytest.raises(
            AxisResourceError,
            match=r"axis_resources maps 'bb' to .* but no value in product has an axis 'bb'.* Did you mean 'b'",
        ):
            mapped(resources=resources)(X, Y)


@pytest.mark.fast(1)
@pytest.mark.parametrize("around", list(KINDS))
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_mesh_argument_under_set_mesh_of_other_axis_types(around, kind):
    f = mapped(kind=kind)
    with jax.set_mesh(make_mesh(around)):
        close(f(X, Y), WANT)
        close(jax.jit(jax.grad(lambda x: jnp.sum(f(x, Y))))(X), jnp.broadcast_to(Y.sum(0), X.shape))


def test_a_mesh_argument_under_set_mesh_of_other_axes():
    with jax.set_mesh(jax.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))):
        with pytest.raises(
            MeshError, match=r"has the axes \{'x': 4, 'y': 2\}, but the mesh of the surrounding jax.set_mesh has \{'z': 8\}"
        ):
            mapped()(X, Y)


ARRIVALS = {
    "other-spec": lambda: NamedSharding(make_mesh(), P("y")),
    "other-spec-two": lambda: NamedSharding(make_mesh(), P(None)),
    "explicit": lambda: NamedSharding(make_mesh("explicit"), P("y")),
    "mixed": lambda: NamedSharding(make_mesh("mixed"), P("x")),
    "other-mesh": lambda: NamedSharding(Mesh(np.array(jax.devices()[::-1]).reshape(2, 4), ("p", "q")), P("p")),
    "other-order": lambda: NamedSharding(Mesh(make_mesh().devices.T, ("y", "x")), P("x")),
    "fewer-devices": lambda: NamedSharding(Mesh(np.array(jax.devices()[2:4]), ("x",)), P("x")),
    "one-device": lambda: jax.devices()[3],
}


@pytest.mark.fast(0)
@pytest.mark.parametrize("arrival", list(ARRIVALS))
@pytest.mark.parametrize("kind", list(KINDS))
def test_arguments_that_arrive_sharded_otherwise(arrival, kind):
    f = mapped(kind=kind)
    sharding = ARRIVALS[arrival]()
    for x, y in ((jax.device_put(X, sharding), Y), (X, jax.device_put(Y, sharding))):
        have = f(x, y)
        close(have, WANT)
        assert have.sharding.spec == P("x", "y")
        assert have.sharding.mesh.shape == {"x": 4, "y": 2}
    named = mapped(in_axes=None, kind=kind)
    close(named(nx.named(jax.device_put(X, sharding), ["a", "k"]), nx.named(Y, ["b", "k"])), WANT)


def test_a_committed_argument_beside_a_differentiated_one():
    y = jax.device_put(Y, jax.devices()[3])
    close(jax.grad(lambda x: jnp.sum(mapped()(x, y)))(X), jnp.broadcast_to(Y.sum(0), X.shape))


def test_a_committed_argument_of_a_transformation_says_what_to_do():
    x = jax.device_put(X, jax.devices()[3])
    with pytest.raises(nx.errors.MeshError, match="Reshard it onto the mesh first"):
        jax.grad(lambda x: jnp.sum(mapped()(x, Y)))(x)


# --- the same devices in another order ------------------------------------------------------------------------------


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", list(KINDS))
def test_arguments_on_the_same_devices_in_another_order(kind):
    """A mapped function moves them onto its mesh; without a mesh, and in operations outside of it, the order is an error."""
    mesh = make_mesh(kind, (4, 2))
    other = Mesh(mesh.devices.ravel()[::-1].reshape(4, 2), ("x", "y"), axis_types=mesh.axis_types)
    x, y = (nx.shard(nx.named(X, ["a", "k"]), {"a": "x"}, mesh=m) for m in (mesh, other))
    want, summed = 2 * X, lambda x, y: x + y
    for m in (mesh, other):
        for options in ({}, {"jit": False}, {"partitioning": "auto"}, {"partitioning": "global"}):
            f = nx.xmap(summed, out_axes=["a", "k"], axis_resources={"a": "x"}, mesh=m, **options)
            close(f(x, y), want)
    forwards, backwards = r"\[0, 1, 2, 3, 4, 5, 6, 7\]", r"\[7, 6, 5, 4, 3, 2, 1, 0\]"
    orders = rf"{forwards}.*{backwards};.*nx.shard\("
    for f in (nx.xmap(summed), nx.xmap(summed, jit=False), nx.xmap(summed, axis_resources={"a": nx.SerialLoop(2)}, jit=False)):
        with pytest.raises(
            nx.errors.MeshError, match=f"^(xmap: one argument is on the devices|add: f32.* is on the devices) {orders}"
        ):
            f(x, y)
    for operation, name in ((summed, "add"), (nx.maximum, "maximum")):
        with pytest.raises(nx.errors.MeshError, match=f"^{name}: f32.* is on the devices {orders}") as caught:
            operation(x, y)
        assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(nx.errors.MeshError, match=f"^cond: f32.* is on the devices {orders}"):
        nx.cond(True, summed, lambda x, y: x - y, x, y)
    with pytest.raises(nx.errors.MeshError, match=r"^fori_loop: its arrays are on different devices, or on the same devices"):
        nx.fori_loop(0, 2, lambda i, x: x + y, x)
    with (
        jax.set_mesh(other),
        pytest.raises(nx.errors.MeshError, match=f"^multiply: the mesh of jax.set_mesh is .* {backwards} and"),
    ):
        x * 2
    with pytest.raises(nx.errors.MeshError, match=r"^xmap: .* cannot reshard an argument .* the same devices in another order"):
        jax.grad(lambda x: nx.sum(nx.xmap(summed, axis_resources={"a": "x"}, mesh=mesh)(x, y), ("a", "k")))(y)
    with pytest.raises(nx.errors.MeshError, match=r"^add: its arrays are on different devices, or on the same devices"):
        jax.grad(lambda x: nx.sum(x + y, ("a", "k")))(x)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_gradients_of_explicit_arguments_for_an_auto_mesh(wrap):
    x = jax.device_put(X, NamedSharding(make_mesh("explicit"), P("y")))
    with jax.set_mesh(make_mesh("explicit")):
        have = wrap(jax.grad(lambda x: jnp.sum(mapped()(x, Y))))(x)
    close(have, jnp.broadcast_to(Y.sum(0), X.shape))
    assert have.sharding.spec == P("y", None)


# --- partial meshes -------------------------------------------------------------------------------------------------


def partial_mesh(kind):
    return make_mesh(kind, (2, 2, 2), ("x", "y", "z"))


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", list(KINDS))
def test_mesh_axes_that_nothing_is_mapped_to(kind):
    mesh = partial_mesh(kind)
    f = nx.xmap(lambda x, y: nx.sum(nx.sin(product(x, y)), "a"), IN, ["b"], axis_resources={"a": "x"}, mesh=mesh)
    y = jax.device_put(Y, NamedSharding(mesh, P("y", None)))
    close(f(X, y), jnp.sin(WANT).sum(0))
    want = jax.jit(jax.grad(lambda x, y: jnp.sum(jnp.sin(x @ y.T)), argnums=(0, 1)))(X, Y)
    close(jax.jit(jax.grad(lambda x, y: jnp.sum(f(x, y)), argnums=(0, 1)))(X, y), want)
    named = nx.xmap(product, IN, None, axis_resources={"a": "x"}, mesh=mesh)(X, y)
    close(nx.positional(named, OUT), WANT)


def test_an_argument_sharded_over_an_unmapped_mesh_axis_stays_so():
    mesh = partial_mesh("auto")
    y = jax.device_put(Y, NamedSharding(mesh, P("y")))
    f = nx.xmap(lambda x, y: nx.sin(product(x, y)), IN, OUT, axis_resources={"a": "x"}, mesh=mesh)
    assert f(X, y).sharding.spec == P("x", "y")
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    assert not hlo.collectives(f.lower(x, y).compile())
    total = nx.xmap(lambda x, y: nx.sum(nx.sin(product(x, y)), "a"), IN, ["b"], axis_resources={"a": "x"}, mesh=mesh)
    assert total(x, y).sharding.spec == P("y")
    (collective,) = hlo.collectives(total.lower(x, y).compile())
    assert (collective.kind, collective.bytes) == ("all-reduce", 2 * Y.dtype.itemsize)


# --- composition ----------------------------------------------------------------------------------------------------


def nonlinear(x, y):
    return nx.sin(product(x, y)) * nx.max(x, "k")


def plain(x, y):
    return jnp.sin(x @ y.T) * jnp.max(x, 1, keepdims=True)


def scalar(f):
    return lambda *args: jnp.sum(f(*args) ** 2)


TRANSFORMS = {
    "grad": lambda f: jax.grad(scalar(f), argnums=(0, 1)),
    "jit-grad": lambda f: jax.jit(jax.value_and_grad(scalar(f), argnums=(0, 1))),
    "vmap": lambda f: lambda x, y: jax.vmap(f, (0, None), 1)(jnp.stack([x, 2 * x]), y),
    "vmap-grad": lambda f: lambda x, y: jax.vmap(jax.grad(scalar(f)), (None, 0))(x, jnp.stack([y, 2 * y])),
    "jvp": lambda f: lambda x, y: jax.jvp(f, (x, y), (jnp.cos(x), jnp.sin(y))),
    "checkpoint": lambda f: jax.grad(scalar(jax.checkpoint(f)), argnums=(0, 1)),
}


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize("transform", list(TRANSFORMS))
@pytest.mark.parametrize("mode", ["auto-argument", "explicit-context", "explicit-partitioner"])
def test_transformations_outside(transform, mode):
    with wrapped(mode, nonlinear) as f:
        have = TRANSFORMS[transform](f)(X, Y)
    close(have, jax.jit(TRANSFORMS[transform](plain))(X, Y))


@pytest.mark.fast(0)
@pytest.mark.parametrize("mode", ["auto-argument", "explicit-context"])
def test_hessian(mode):
    def f(x):
        return nx.sum(nx.sin(nx.dot(x, x, "k")) * nx.logsumexp(x, "a"), ("a", "k"))

    with wrapped(mode, f, (["a", "k"],), [], {"a": "x"}) as g:
        have = jax.jit(jax.hessian(g))(X)
    want = jax.jit(jax.hessian(lambda x: jnp.sum(jnp.sin(jnp.sum(x * x, 1))[:, None] * jax.nn.logsumexp(x, 0))))(X)
    close(have, want, 1e-4)


@pytest.mark.full(2)
@pytest.mark.fast(2)
@pytest.mark.parametrize("mode", MODES)
def test_gradients_inside_are_those_of_the_whole_program(mode):
    def step(x, y):
        return jax.value_and_grad(lambda x, y: nx.sum(nonlinear(x, y) ** 2, ("a", "b")), argnums=(0, 1))(x, y)

    with wrapped(mode, step, IN, ([], IN)) as f:
        have = f(X, Y)
    close(have, jax.jit(jax.value_and_grad(scalar(plain), argnums=(0, 1)))(X, Y))
    if mode != "unmapped":
        specs = [tuple(leaf.sharding.spec) for leaf in jax.tree.leaves(have)]
        assert [spec[:1] for spec in specs] == [(), ("x",), ("y",)]


@pytest.mark.fast(1)
@pytest.mark.parametrize("mode", ["unmapped", "auto-argument", "explicit-context", "auto-partitioner"])
def test_transformations_inside(mode):
    def f(x, y):
        return jax.jit(jax.checkpoint(nonlinear))(x, y) + jax.jvp(lambda y: nonlinear(x, y), (y,), (nx.cos(y),))[1]

    def want(x, y):
        return plain(x, y) + jax.jvp(lambda y: plain(x, y), (y,), (jnp.cos(y),))[1]

    with wrapped(mode, f) as g:
        have = jax.jit(jax.value_and_grad(scalar(g), argnums=1))(X, Y)
    close(have, jax.jit(jax.value_and_grad(scalar(want), argnums=1))(X, Y), 1e-4)


# --- the second opinion ---------------------------------------------------------------------------------------------


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("kind", "resources"),
    [("auto", RESOURCES), ("explicit", RESOURCES), ("mixed", {"k": "x", "a": "y"}), ("auto", {"a": ("y", "x")})],
)
def test_the_partitioner_agrees(kind, resources):
    def f(x, y):
        logits = product(x, y)
        return nx.nn.log_softmax(logits, "b"), nx.rename(logits, {"a": "rows"}), nx.mean(x, ("a", "k"))

    out_axes = (OUT, ["b", "rows"], ["a"])
    both = [
        mapped(f, IN, out_axes, kind=kind, resources=resources, partitioning=p)(_in_fours(X), _in_fours(Y))
        for p in ("manual", "auto")
    ]
    close(*both)
    assert [leaf.sharding.spec for leaf in both[0]] == [leaf.sharding.spec for leaf in both[1]]


def _in_fours(x):
    """The matrix with four columns, so that `k` divides over four devices."""
    return jnp.concatenate([x, x[:, :1] ** 2], 1)


HELD = [
    ((6, 10), P("z"), {"a": "x"}),
    ((6, 10), P(None, "z"), {"b": "x"}),
    ((6, 10), P("y", "z"), {"a": "x"}),
    ((12, 10), P(("z", "y")), {"a": "x"}),
    ((4, 6), P(("z", "y")), {"a": ("x", "y")}),
    ((6, 10), P("x", "y"), {"a": "z", "b": "x"}),
    ((12, 10), P("z", "y"), {"a": ("x", nx.SerialLoop(3))}),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("shape", "spec", "resources"), HELD, ids=str)
def test_explicit_axes_that_nobody_maps_and_that_no_longer_divide(shape, spec, resources):
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit,) * 3)
    plain = array(*shape)
    x = jax.device_put(plain, NamedSharding(mesh, spec))
    f = nx.xmap(lambda x: nx.sin(x) * nx.sum(x, "a"), ["a", "b"], ["a", "b"], axis_resources=resources, mesh=mesh)

    def want(x):
        return jnp.sin(x) * x.sum(0)

    close(f(x), want(plain))
    close(jax.jit(lambda x: f(x + 0))(x), want(plain))
    with jax.set_mesh(mesh):
        close(f(x), want(plain))
        result, pull = jax.vjp(f, x)
        weights = array(*shape, seed=3)
        close(
            pull(jax.device_put(weights, NamedSharding(mesh, jax.typeof(result).sharding.spec)))[0],
            jax.vjp(want, plain)[1](weights)[0],
            tol=1e-4,
        )


def test_an_inner_function_on_explicit_axes_that_no_longer_divide():
    mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit,) * 3)
    x = jax.device_put(array(6, 10), NamedSharding(mesh, P(None, "z")))

    def body(x):
        return nx.xmap(lambda x: x / nx.sum(x**2, "b"), ["b"], ["b"], axis_resources={"b": "y"})(x)

    with jax.set_mesh(mesh):
        f = nx.xmap(body, ["a", None], ["a", None], axis_resources={"a": "x"})
        close(f(x), array(6, 10) / (array(6, 10) ** 2).sum(1, keepdims=True))


# What the operations are given says `z`, and neither an operand nor a result has it, or only for a while.
WITHIN_AN_OPERATION = {
    "read by einsum": lambda a: nx.einsum("{z:k,d},{k,d}->{}", a, a),
    "read by einsum, of both": lambda a: nx.einsum("{z:k,d},{z:k,d}->{}", a, a),
    "written by einsum": lambda a: nx.sum(nx.einsum("{k,d}->{z:k}", a), "z"),
    "part in rearrange": lambda a: nx.sum(nx.rearrange(a, "{k=(z part)} -> {whole=(part z)}", part=1), ("whole", "d")),
    "part in reduce": lambda a: nx.sum(nx.reduce(a, "{k=(z part)} -> ", "max", part=1), "d"),
    "key positions": lambda a: nx.sum(nx.nn.dot_product_attention(a, a, a, axis="k", key_axis="z", features="d"), ("k", "d")),
    "segments": lambda a: nx.sum(nx.segment_sum(a, 7 - nx.arange(8, axis="k"), 8, axis="k", out_axis="z"), ("z", "d")),
    "new axis": lambda a: nx.sum(a, ("k", "d")) * nx.sum(nx.arange(8, axis="z"), "z"),
    "classes": lambda a: nx.sum(a * nx.sum(nx.nn.one_hot(nx.arange(8, axis="k"), 8, axis="z"), "z"), ("k", "d")),
    "scan": lambda a: nx.scan(lambda total, row: (total + nx.sum(row, "d"), None), 0.0, a.rename(k="z"), axis="z")[0],
}


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", WITHIN_AN_OPERATION)
def test_a_name_that_occurs_within_an_operation_only_may_have_a_size_and_a_place(case):
    x, mesh = array(8, 6), make_mesh()
    want = nx.xmap(WITHIN_AN_OPERATION[case], ["k", "d"], [])(x)
    for sizes, resources in (({"z": 8}, {}), ({"z": 8}, {"z": "x"}), ({}, {"z": "x"}), ({"z": 8}, {"d": "y"})):
        f = nx.xmap(WITHIN_AN_OPERATION[case], ["k", "d"], [], axis_sizes=sizes, axis_resources=resources, mesh=mesh)
        np.testing.assert_allclose(f(x), want, rtol=1e-5, err_msg=f"{sizes}, {resources}")


@pytest.mark.parametrize("resources", [{}, {"d": "y"}])
def test_a_name_that_einsum_reads_has_the_size_it_was_given(resources):
    f = nx.xmap(
        lambda a: nx.einsum("{z:k,d},{k,d}->{}", a, a),
        ["k", "d"],
        [],
        axis_sizes={"z": 4},
        axis_resources=resources,
        mesh=make_mesh(),
    )
    with pytest.raises(AxisSizeError, match="axis 'k' of size 8 cannot be read as 'z', which has size 4"):
        f(array(8, 6))


def test_a_number_that_went_through_checkpoint_is_a_result():
    def loss(x):
        y = jax.checkpoint(lambda x: [0.5])(x)
        return nx.sum(x**2, "a"), y

    x = make.arange(3.0)
    (value, (half,)), gradient = nx.xmap(jax.value_and_grad(loss, has_aux=True), ["a"], (([], [[]]), ["a"]))(x)
    assert (value, half) == (5, 0.5)
    np.testing.assert_array_equal(gradient, 2 * x)
    assert nx.xmap(lambda x: jax.checkpoint(lambda x: 0.5)(x), ["a"], ["a"])(x).tolist() == [0.5] * 3


NO_ENTRIES = [
    ({"a": "x"}, "auto"),
    ({"a": ("x", "y")}, "explicit"),
    ({"a": "x", "k": "y"}, "auto"),
    ({"a": nx.SerialLoop(2)}, "auto"),
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("resources", "kind"), NO_ENTRIES, ids=str)
def test_contractions_of_a_mapped_name_without_entries(resources, kind):
    """XLA compiles no `jax.shard_map` of arrays all of which are empty, and a gradient of them is one."""

    def body(x, segments):
        scores = nx.einsum("{a,k},{b:a,k}->{a,b}", x, x)
        attended = nx.dot(nx.nn.softmax(scores, "b"), x.rename(a="b"), "b")
        picked = nx.dot(nx.nn.one_hot(segments, 3, axis="s"), attended, "a")
        return nx.dot(x, x.rename(k="m"), "a"), picked, attended

    axes = (["k", "m"], ["s", "k"], ["a", "k"])
    f = nx.xmap(body, (["a", "k"], ["a"]), axes, axis_resources=resources, mesh=make_mesh(kind))
    x, segments = jnp.zeros((0, 4)), jnp.zeros(0, int)
    product, picked, attended = f(x, segments)
    np.testing.assert_array_equal(product, np.zeros((4, 4)))
    np.testing.assert_array_equal(picked, np.zeros((3, 4)))
    assert attended.shape == x.shape
    assert jax.grad(lambda x: sum(jnp.sum(jnp.sin(y)) for y in f(x, segments)))(x).shape == x.shape


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_positions_without_entries_beside_a_mapped_name(kind):
    f = nx.xmap(
        lambda x: nx.nmap(lambda row: row @ row)(x), ["a", None], ["a"], axis_resources={"a": "x"}, mesh=make_mesh(kind)
    )
    np.testing.assert_array_equal(f(jnp.zeros((8, 0))), np.zeros(8))
    assert jax.grad(lambda x: jnp.sum(f(x)))(jnp.zeros((8, 0))).shape == (8, 0)
