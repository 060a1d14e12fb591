"""Porting is an import swap: the functions of the five namespaces have JAX's parameters, in JAX's order, with JAX's defaults."""

import functools
import importlib
import inspect
import pickle
import pkgutil
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, AxisNotFoundError, NamedAxesLeftError, UnsupportedArgumentError
from tests import make
from tests.harness import array, make_mesh

EMPTY = inspect.Parameter.empty

# JAX's signature does not hold, and why.
EXCEPTIONS = {
    "random.split": "num=2 is JAX's default; with named_shape= alone there is to be no positional axis",
}


def modules():
    for root in ("numpy", "lax", "nn", "random", "scipy"):
        module = importlib.import_module(f"jax.{root}")
        yield root, module
        for info in pkgutil.walk_packages(getattr(module, "__path__", ()), f"jax.{root}."):
            if not info.name.rpartition(".")[2].startswith("_"):
                yield info.name.removeprefix("jax."), importlib.import_module(info.name)


MODULES = dict(modules())


def public(module):
    """The public names of a module but its submodules, and those that JAX warns of because it is about to drop them."""
    found = []
    for name in dir(module):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            value = None if name.startswith("_") else getattr(module, name)
        if value is not None and not isinstance(value, types.ModuleType) and not said:
            found.append(name)
    return found


def ours(path):
    return functools.reduce(getattr, path.split("."), nx)


def differences(theirs, own):
    """What of JAX's signature does not hold for `own`; parameters more, by keyword, are its own affair, and so is a default more."""
    wanted, have = inspect.signature(theirs).parameters, inspect.signature(own).parameters
    if list(wanted) != [name for name in have if name in wanted]:
        yield f"{list(wanted)} is not {list(have)}"
        return
    for name, parameter in wanted.items():
        if have[name].kind != parameter.kind:
            yield f"{name}: {have[name].kind}"
        default = have[name].default
        same = default is parameter.default or (type(default) is type(parameter.default) and default == parameter.default)
        if not same and parameter.default is not EMPTY:
            yield f"{name}={default}, not {parameter.default}"
    for name in set(have) - set(wanted):
        if have[name].kind is not inspect.Parameter.KEYWORD_ONLY or have[name].default is EMPTY:
            yield f"{name} is more, and not by keyword"


@pytest.mark.parametrize("space", MODULES)
def test_signatures(space):
    wrong = {}
    for name in public(MODULES[space]):
        theirs = getattr(MODULES[space], name)
        own = getattr(ours(space), name)
        if not callable(theirs) or isinstance(theirs, type) or own is theirs:
            continue
        try:
            inspect.signature(theirs)
        except (TypeError, ValueError):
            continue
        found = list(differences(theirs, own))
        if found and f"{space}.{name}" not in EXCEPTIONS:
            wrong[f"{space}.{name}"] = found
    assert wrong == {}


def test_exceptions_are_not_stale():
    for path in EXCEPTIONS:
        space, _, name = path.rpartition(".")
        assert list(differences(getattr(MODULES[space], name), ours(path))), path


X = array(4, 3, 5)


def named():
    return nx.named(X, ["a", "b", None])


WITH_A_MASK = make.array(np.asarray(X) > -0.4)
CALLS = {  # what a call that ported code writes means over names: JAX's words and JAX's order
    "numpy.sum": ((("a",), {"dtype": jnp.float32, "keepdims": False, "initial": 2.0, "promote_integers": False}), 0),
    "numpy.max": ((("a", None, False), {"initial": 0.5}), 0),
    "numpy.mean": ((("a", None, None, False), {}), 0),
    "numpy.var": ((("a", None, None, 1, False), {}), 0),
    "numpy.std": ((("a",), {"correction": 1.5}), 0),
    "numpy.nanvar": ((("a", None, None, 0, False), {"mean": 0.25}), 0),
    "numpy.argmax": ((("a", None, None), {}), 0),
    "numpy.count_nonzero": ((("a", False), {}), 0),
    "numpy.median": ((("a", None, False), {}), 0),
    "numpy.quantile": (((0.3, "a", None, False, "lower", False), {}), 0),
    "numpy.cumsum": ((("a", None, None), {}), 0),
    "numpy.take": ((([2, 0], "b", None, "clip", False, False), {}), 1),
    "numpy.sort": ((("b",), {"descending": True}), 1),
    "nn.softmax": ((("a", WITH_A_MASK), {}), 0),
    "nn.log_softmax": ((("a", None), {}), 0),
    "nn.logsumexp": ((("a", None, False, False, WITH_A_MASK), {}), 0),
    "scipy.special.softmax": (((), {"axis": "b"}), 1),
    "scipy.special.logsumexp": ((("b",), {"b": make.array(np.asarray(X) + 0.5), "return_sign": True}), 1),
}


def plain(arguments, place):
    return jax.tree.map(
        lambda leaf: place if leaf in ("a", "b") else leaf, arguments, is_leaf=lambda leaf: isinstance(leaf, str)
    )


@pytest.mark.full(8)
@pytest.mark.fast(4)
@pytest.mark.parametrize("path", CALLS)
def test_calls_as_jax_has_them(path):
    (args, kwargs), place = CALLS[path]
    space, _, name = path.rpartition(".")
    theirs, own = getattr(MODULES[space], name), ours(path)

    def over_names(value):
        return jax.tree.map(lambda leaf: nx.named(leaf, ["a", "b", None]) if np.shape(leaf) == X.shape else leaf, value)

    swap = lambda leaf: place if isinstance(leaf, str) and leaf in ("a", "b") else leaf  # noqa: E731
    lists = lambda leaf: jnp.array(leaf) if isinstance(leaf, list) else leaf  # noqa: E731
    want = theirs(X, *map(lists, map(swap, args)), **{key: swap(value) for key, value in kwargs.items()})
    have = own(named(), *map(lists, over_names(list(args))), **over_names(kwargs))
    axes = {0: ["b", None], 1: ["a", None]}[place]
    for h, w in zip(
        jax.tree.leaves(have, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray)), jax.tree.leaves(want), strict=True
    ):
        full = ["a", "b", None] if w.ndim == 3 and "b" in h.dims and "a" in h.dims else axes
        if path == "numpy.take":
            full = ["a", None, None]
        np.testing.assert_allclose(nx.positional(h, full), w, rtol=2e-5, atol=1e-6)


@pytest.mark.fast(0)
def test_every_parameter_by_keyword():
    """Each with JAX's default, under JAX's word for the first one too; none of them changes anything."""
    for path, extra in [("numpy.sum", {}), ("numpy.var", {}), ("numpy.max", {}), ("numpy.argmin", {}), ("numpy.median", {}),
                        ("numpy.quantile", {"q": 0.25}), ("numpy.cumsum", {}), ("numpy.sort", {}), ("nn.logsumexp", {}),
                        ("numpy.average", {}), ("numpy.nanstd", {}), ("numpy.ptp", {})]:  # fmt: skip
        space, _, name = path.rpartition(".")
        parameters = inspect.signature(getattr(MODULES[space], name)).parameters
        defaults = {key: p.default for key, p in parameters.items() if p.default is not EMPTY}
        first = next(iter(parameters))
        have = ours(path)(**{first: named()}, **(defaults | extra | {"axis": "b"}))
        want = getattr(MODULES[space], name)(X, axis=1, **extra)
        axes = ["a", "b", None] if want.ndim == 3 else ["a", None]
        np.testing.assert_allclose(nx.positional(have, axes), want, rtol=2e-5, err_msg=path)


def test_out_is_refused_as_jax_refuses_it():
    with pytest.raises(NotImplementedError, match="out"):
        nx.numpy.sum(X, out=X)
    with pytest.raises(
        UnsupportedArgumentError, match=r"sum: out=.* is not supported for f32\[5\]\{a:4, b:3\}.*immutable"
    ) as info:
        nx.numpy.sum(named(), out=X)
    assert isinstance(info.value, NotImplementedError)
    with pytest.raises(UnsupportedArgumentError, match=r"zeros: device=.*nx\.shard"):
        nx.numpy.zeros(3, device=jax.devices()[0], named_shape={"a": 2})
    with pytest.raises(TypeError, match="sorted"):
        nx.numpy.sort(named(), sorted=True)


def test_two_words_for_one_thing():
    with pytest.raises(ArgumentError, match=r"var: ddof=1 and correction=2"):
        nx.numpy.var(named(), "a", ddof=1, correction=2)
    with pytest.raises(ArgumentError, match=r"cond: operand= is given along with 1 positional operands"):
        nx.lax.cond(True, lambda x: x, lambda x: x, 1.0, operand=2.0)
    with pytest.raises(ArgumentError, match=r"where: size=, fill_value=, axis="):
        nx.numpy.where(named() > 0, 1.0, 2.0, size=3)
    with pytest.raises(NamedAxesLeftError, match="where"):
        nx.numpy.where(named() > 0)
    with pytest.raises(AxisNotFoundError, match="'k'"):
        nx.numpy.sum(X, "k")


def test_operand():
    x = named()
    have = nx.lax.cond(nx.sum(x["b", 0]["a", 0]) > 1e6, lambda x: -x, lambda x: x["a", 1], operand=x)
    np.testing.assert_array_equal(nx.positional(have, ["a", "b", None])[2], X[1])
    assert nx.lax.switch(1, [lambda x: x is not None, lambda x: x is None], operand=None)


# --- what only some arguments reach -------------------------------------------------------------------------------------

PLACES = [((), {}), ((2,), {"a": "x"}), ((4, 2), {"a": "x", "k": "y"})]


def run(body, args, shape, resources, out):
    mesh = make_mesh(shape) if shape else None
    axes = [["a", "k", None] if arg.ndim == 3 else ["a", "k"] for arg in args]
    return nx.xmap(body, axes, out, axis_resources=resources, mesh=mesh)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("shape", "resources"), PLACES)
def test_over_names_and_their_gradients(shape, resources):
    x, w, m = array(8, 4, 3, seed=1), array(8, 4, seed=2), array(8, 4, seed=3)
    outs = [["k", None], ["k", None], ["k", None], ["k", None], ["k", None], ["a"]]

    def body(x, w, m):
        value, sign = nx.nn.logsumexp(3 * x, "a", b=w, return_sign=True)
        mean = nx.mean(x, "a", keepdims=True)
        return (
            value,
            sign,
            nx.nn.logsumexp(x, ("a",), b=w * w, where=m > -1.0),
            nx.numpy.var(x, "a", mean=mean, correction=1),
            nx.numpy.nanstd(nx.where(x > 1.5, jnp.nan, x), "a", mean=0.5 * mean),
            nx.nn.logsumexp(x, (0, "k"), b=w),
        )

    def by_hand(x, w, m):
        value, sign = jax.nn.logsumexp(3 * x, 0, b=w[..., None], return_sign=True)
        mean = jnp.mean(x, 0)
        return (
            value,
            sign,
            jax.nn.logsumexp(x, 0, b=(w * w)[..., None], where=(m > -1.0)[..., None]),
            jnp.var(x, 0, correction=1),
            jnp.nanstd(jnp.where(x > 1.5, jnp.nan, x), 0, mean=0.5 * mean[None]),
            jax.nn.logsumexp(x, (1, 2), b=w[..., None]),
        )

    f = run(body, (x, w, m), shape, resources, tuple(outs))
    for have, want in zip(f(x, w, m), by_hand(x, w, m), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    weigh = lambda results: sum(jnp.nansum(jnp.sin(r + i)) for i, r in enumerate(results[:5]))  # noqa: E731
    have = jax.grad(lambda x: weigh(f(x, w, m)))(x)
    np.testing.assert_allclose(have, jax.jit(jax.grad(lambda x: weigh(by_hand(x, w, m))))(x), rtol=2e-3, atol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("shape", "resources"), PLACES)
def test_quantiles_with_weights(shape, resources):
    x, w = array(8, 4, 3, seed=1), jnp.abs(array(8, 4, seed=2)) + 0.1
    q = make.array([0.2, 0.7])

    def body(x, w):
        return nx.numpy.quantile(x, q, "a", method="inverted_cdf", weights=w), nx.numpy.percentile(
            x, 35, ("a", 0), method="inverted_cdf", keepdims=True
        )

    have = run(body, (x, w), shape, resources, ([None, "k", None], ["k", None]))(x, w)
    options = {"method": "inverted_cdf", "weights": jnp.broadcast_to(w[..., None], x.shape)}
    np.testing.assert_array_equal(have[0], jnp.quantile(x, q, 0, **options))
    np.testing.assert_array_equal(have[1][:, 0], jnp.percentile(x, 35, (0, 2), method="inverted_cdf"))


@pytest.mark.fast(0)
def test_take_along_axis_without_wrapping():
    x, index = array(4, 6), make.array([[1, -1, 7], [0, 5, -6], [2, -3, 3], [4, 4, -9]], jnp.int8)
    for mode in (None, "clip", "fill"):
        have = nx.numpy.take_along_axis(
            nx.named(x, ["b", "k"]), nx.named(index, ["b", "k"]), "k", mode=mode, wrap_negative_indices=False
        )
        want = jnp.take_along_axis(x, index, 1, mode=mode, wrap_negative_indices=False)
        np.testing.assert_array_equal(nx.positional(have, ["b", "k"]), want)


@pytest.mark.fast(0)
def test_where_with_one_argument():
    x = make.array([[0.0, 2.0, 3.0], [1.0, 0.0, 0.0]])
    (have,) = nx.numpy.where(nx.named(x, ["b", None]) > 0, size=2, fill_value=-1)
    np.testing.assert_array_equal(nx.positional(have, ["b", None]), [[1, 2], [0, -1]])
    np.testing.assert_array_equal(nx.numpy.where(x > 0)[1], jnp.where(x > 0)[1])


def test_einsum_with_lists():
    x, y = array(3, 4, 5), array(5, 2)
    have = nx.numpy.einsum(nx.named(x, ["b", None, None]), [0, 7], nx.named(y, [None, "m"]), [7], [0], optimize="optimal")
    np.testing.assert_allclose(nx.positional(have, ["b", "m", None]), jnp.einsum("bij,jm->bmi", x, y), rtol=1e-5, atol=1e-6)
    have = nx.numpy.einsum(nx.named(x, ["b", None, None]), [30, 2])
    np.testing.assert_array_equal(nx.positional(have, ["b", None, None]), jnp.swapaxes(x, 1, 2))
    np.testing.assert_allclose(nx.numpy.einsum(x, [0, 1, 2], y, [2, 3], [3, 0]), jnp.einsum("abc,cd->da", x, y), rtol=1e-5)


def test_asarray_keeps_names():
    x = named()
    assert nx.numpy.asarray(x) is x
    assert nx.numpy.asarray(x, jnp.float16).dtype == jnp.float16
    assert nx.numpy.array(x, ndmin=2).shape == (1, 5)
    assert nx.numpy.array([x, 2 * x]).dims == nx.stack([x, x]).dims
    np.testing.assert_array_equal(nx.positional(nx.numpy.array([[x], [x + 1]]), [None, None, "a", "b", None])[1, 0], X + 1)
    for f in (nx.numpy.copy, lambda x: nx.numpy.astype(x, jnp.float32)):
        np.testing.assert_array_equal(nx.positional(f(x), ["a", "b", None]), X)
    np.testing.assert_array_equal(nx.numpy.asarray([1, 2]), jnp.asarray([1, 2]))


def test_faces_can_be_pickled():
    for path in (
        "numpy.sum",
        "numpy.einsum",
        "lax.psum",
        "lax.cond",
        "nn.softmax",
        "scipy.special.logsumexp",
        "numpy.linalg.norm",
    ):
        function = ours(path)
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__module__.startswith("namedax.")


@pytest.mark.parametrize(
    "path", ["numpy.argwhere", "numpy.dot", "lax.abs", "zeros_like", "scipy.linalg.cho_solve", "lax.reduce_or"]
)
def test_lifted_faces_can_be_pickled(path):
    function = ours(path)
    assert pickle.loads(pickle.dumps(function)) is function
