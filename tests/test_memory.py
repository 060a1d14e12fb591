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
        for name, value in vars(module).items():
            for label, member in [(name, value), *(vars(value).items() if isinstance(value, type) else ())]:
                if hasattr(member, "cache_info") and str(getattr(member, "__module__", "")).startswith("namedax"):
                    found[f"{module.__name__}.{name}.{label}"] = member
    return found


def containers():
    """The tables that are not caches, by their names: containers of modules, and those within objects of a class of ours."""
    found = {}
    kinds = (dict, list, set, weakref.WeakValueDictionary, weakref.WeakKeyDictionary, weakref.WeakSet)
    for module in modules():
        for name, value in vars(module).items():
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_what_a_called_function_closes_over_is_collected(kind):
    class Big:
        """What a function closes over."""

    mesh, watched = make_mesh((8,), kind), []
    x = jax.device_put(array(8), NamedSharding(mesh, P("x")))

    def use(i):
        big = Big()
        big.number = float(i)
        f = nx.xmap(lambda x: big.number * x, ["b"], ["b"], axis_resources={"b": "x"}, mesh=mesh)
        for _ in range(2):
            np.testing.assert_allclose(f(x), i * np.asarray(x), rtol=1e-6)
        with jax.set_mesh(mesh):  # without which JAX differentiates nothing on Explicit axes
            np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(f(x)))(x), np.full(8, i), rtol=1e-6)
        watched.extend([weakref.ref(big), weakref.ref(f)])

    for i in range(5):
        use(i)
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)
