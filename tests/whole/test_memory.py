"""What the library remembers is bounded, and nothing of a program outlives its function.

The tables are found by looking: every module's caches, and its dicts, lists and sets. A table that is added later is found, too.
"""

import functools
import gc
import inspect
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests.harness import array, make_mesh

MANY = 10_000


def modules():
    return [module for name, module in sorted(sys.modules.items()) if name.split(".")[0] == "namedax"]


def caches():
    """The caches of all functions and methods, by their names."""
    found = {}
    for module in modules():
        for name, value in list(vars(module).items()):
            for label, member in [(name, value), *(vars(value).items() if isinstance(value, type) else ())]:
                if hasattr(member, "cache_info") and str(getattr(member, "__module__", "")).startswith("namedax"):
                    found[f"{module.__name__}.{name}.{label}"] = member
    return found


def containers():
    """The tables that are not caches, by their names: containers of modules, and those within objects of a class of ours."""
    found = {}
    kinds = (dict, list, set, weakref.WeakValueDictionary, weakref.WeakKeyDictionary, weakref.WeakSet)
    for module in modules():
        for name, value in list(vars(module).items()):
            if name.startswith("__") or isinstance(value, type):
                continue
            members = getattr(value, "__dict__", {}) if type(value).__module__.startswith("namedax") else {}
            for label, member in [("", value), *members.items()]:
                if isinstance(member, kinds):
                    found[f"{module.__name__}.{name}.{label}"] = (value, label)
    return found


def size_of(table):
    inner = list(table.values()) if hasattr(table, "values") else list(table)
    return len(table) + sum(len(entry) for entry in inner if isinstance(entry, (dict, list, set)))


def sizes():
    # An object may put another container in the place of one.
    return {key: size_of(getattr(value, label) if label else value) for key, (value, label) in containers().items()}


def test_every_cache_has_a_bound():
    assert len(caches()) > 10
    unbounded = {name: cache for name, cache in caches().items() if cache.cache_parameters()["maxsize"] is None}
    # One entry is a bound.
    assert [name for name, cache in unbounded.items() if inspect.signature(cache).parameters] == []


def names(begin, count):
    x = jnp.arange(3.0)
    for i in range(begin, begin + count):
        a = nx.named(x, [f"name {i}"])
        result = nx.sum(a + a, f"name {i}")
    np.testing.assert_allclose(result, 6.0)


def _body(x):
    return x


def wraps(begin, count):
    for i in range(begin, begin + count):
        if i % 10 == 0:
            nx.xmap(functools.partial(_body), axis_sizes={f"name {i}": 2})
        nx.xmap(_body, axis_sizes={f"name {i}": 2})


def calls(begin, count):
    mesh = make_mesh((8,))
    f = _mapped(mesh)
    xs = [jax.device_put(array(8), NamedSharding(mesh, P("x"))) for _ in range(20)]
    for i in range(begin, begin + count):
        f(xs[i % 20])


@functools.cache
def _mapped(mesh):
    return nx.xmap(lambda x: 2.0 * x, ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh)


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("use", [names, wraps, calls])
def test_tables_do_not_grow(use):
    # More than any table holds, and then some more: what has a bound has reached it.
    use(0, MANY)
    gc.collect()
    before = sizes()
    use(MANY, 1000)
    gc.collect()
    grown = {name: (before.get(name, 0), size) for name, size in sizes().items() if size > before.get(name, 0)}
    # The two generations of a table take turns.
    bounds = {name: 2 * value.size for name, (value, label) in containers().items() if label in ("young", "old")}
    assert {name: sizes for name, sizes in grown.items() if sizes[1] > bounds.get(name, 0)} == {}
    assert {
        name for name, cache in caches().items() if cache.cache_info().currsize > (cache.cache_parameters()["maxsize"] or 1)
    } == set()


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_shardings_that_are_new_in_every_call_do_not_pile_up():
    # Each is remembered with the wrapper, up to a bound; what is not remembered is compared again.
    mesh = make_mesh((8,))
    f = _mapped(mesh)
    x = jax.device_put(array(8), NamedSharding(mesh, P("x")))
    shards = [shard.data for shard in x.addressable_shards]
    shardings = [NamedSharding(mesh, P("x")) for _ in range(MANY)]
    unheld = sys.getrefcount(shardings[0])
    for sharding in shardings:
        result = f(jax.make_array_from_single_device_arrays(x.shape, sharding, shards))
    np.testing.assert_allclose(result, 2.0 * np.asarray(x))
    del sharding
    gc.collect()
    held = [sys.getrefcount(shardings[i]) > unheld for i in range(MANY)]
    assert held[-1]
    assert sum(held) <= 8192


class Big:
    """What a function closes over."""

    def __init__(self, number):
        self.number = number


def scaled(big, mesh):
    """A mapped function of `big`."""
    return nx.xmap(lambda x: nx.sin(big.number * x), ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh)


def scaled_in_steps(big, mesh):
    """One whose batch is executed in steps, on every device; its loss has a gradient of its own."""
    places = {"b": ("x", nx.SerialLoop(2))}
    return nx.xmap(lambda x: nx.sum(nx.sin(big.number * x), "b"), ["b"], [], axis_resources=places, mesh=mesh)


def scaled_in_steps_twice(big, mesh):
    """One with two loops, and results that are joined."""
    places = {"b": ("x", nx.SerialLoop(2)), "k": nx.SerialLoop(3)}
    inner = nx.xmap(lambda x: nx.sin(big.number * x), ["b", "k"], ["b", "k"], axis_resources=places, mesh=mesh)
    return lambda x: inner(jnp.stack([x, x, x], 1))[:, 1]


def scaled_within(big, mesh):
    """One within another one, on the same mesh axis."""

    def body(x):
        return nx.xmap(lambda x: nx.sin(big.number * x))(x)

    return nx.xmap(body, ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh)


def scaled_within_on_new_axes(big, mesh):
    """One within another one that leaves it a mesh axis."""

    def body(x):
        inner = nx.xmap(lambda y: nx.sin(big.number * y), ["k"], ["k"], axis_resources={"k": "y"})
        return inner(nx.stack([x, x], 0))

    outer = nx.xmap(body, ["b"], [None, "b"], axis_resources={"b": "x"}, mesh=mesh)
    return lambda x: jnp.mean(outer(x), 0)  # sharded along what is averaged over


def scaled_in_jit(big, mesh):
    """One within a function that is compiled by JAX."""
    return jax.jit(scaled(big, mesh))


def scaled_by_the_partitioner(big, mesh):
    """One that XLA's partitioner places."""
    return nx.xmap(lambda x: nx.sin(big.number * x), ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh, partitioning="auto")


KINDS_OF_FUNCTIONS = [
    scaled,
    scaled_in_steps,
    scaled_in_steps_twice,
    scaled_within,
    scaled_within_on_new_axes,
    scaled_in_jit,
    scaled_by_the_partitioner,
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["auto", pytest.param("explicit", marks=pytest.mark.fast(0))])
@pytest.mark.parametrize("make_function", KINDS_OF_FUNCTIONS)
def test_what_a_called_function_closes_over_is_collected(make_function, kind):
    mesh = make_mesh((4, 2), kind)
    x = jax.device_put(array(8), NamedSharding(mesh, P("x")))
    watched = []

    def use(i):
        big = Big(float(i))
        f = make_function(big, mesh)
        expected = np.sin(i * np.asarray(x))
        for _ in range(2):
            np.testing.assert_allclose(jnp.sum(f(x)), expected.sum(), rtol=1e-5)
        with jax.set_mesh(mesh):  # without which JAX differentiates nothing on Explicit axes
            gradient = jax.grad(lambda x: jnp.sum(f(x)))(x)
        np.testing.assert_allclose(gradient, i * np.cos(i * np.asarray(x)), rtol=1e-4, atol=1e-5)
        watched.extend([weakref.ref(big), weakref.ref(f)])

    for i in range(1, 4):
        use(i)
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)


@pytest.mark.parametrize("places", [{"b": "x"}, {"b": ("x", nx.SerialLoop(2))}], ids=["mapped", "in-steps"])
def test_what_a_function_closes_over_that_cannot_be_traced_is_collected(places):
    mesh, watched = make_mesh((4, 2)), []

    def use():
        big = Big(2.0)
        watched.append(weakref.ref(big))

        def body(x):
            y = nx.xmap(lambda x: nx.sin(big.number * x))(x)
            return nx.sum(y, "c")

        f = nx.xmap(body, ["b"], [], axis_resources=places, mesh=mesh)
        watched.append(weakref.ref(f))
        for call in (f, jax.grad(f)):
            with pytest.raises(nx.errors.AxisNotFoundError):
                call(array(8))

    use()
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)
