"""What a call costs beside that of plain JAX, in functions that Python calls; and that what a call has learned misleads no later one.

An argument's sharding is compared with the mesh when it comes for the first time, so each test calls with arrays that are in place
first, and with others afterwards.
"""

import collections
import contextlib
import dataclasses
import os
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import namedax as nx
from tests.harness import array, make_mesh

KINDS = pytest.mark.parametrize("kind", ["auto", "explicit"])
Pair = collections.namedtuple("Pair", ["first", "second"])
PACKAGE = os.path.dirname(nx.__file__) + os.sep  # a checkout may be called so too, with JAX in a .venv within it


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Fields:
    first: object
    second: object


def other_mesh(shape, axes, kind, devices=None):
    """A mesh of devices that another one has, too."""
    devices = np.array(jax.devices() if devices is None else devices).reshape(shape)
    return Mesh(devices, axes, axis_types=make_mesh((8,), kind).axis_types * len(axes))


def put(x, mesh, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def is_named(leaf):
    return isinstance(leaf, nx.NamedArray)


def python_calls(function):
    """How many functions written in Python a call of `function` calls."""
    function()
    function()
    counted = collections.Counter()

    def count(frame, event, _):
        if event == "call":
            counted[frame.f_code.co_filename, frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return counted


# --- cost -----------------------------------------------------------------------------------------------------------


@pytest.mark.fast(0)
@KINDS
@pytest.mark.parametrize("outer", [False, True], ids=["direct", "jit"])
def test_a_call_calls_two_functions_for_each_named_array(kind, outer):
    # JAX takes each array apart, and puts each result together. It calls none for an array without names.
    mesh = make_mesh((8,), kind)

    def count(n, names):
        x = put(array(8, 2), mesh, "x")
        xs = [nx.named(x, ["b", "k"]) if names else x for _ in range(n)]
        axes = () if names else ((["b", "k"],), ["b", "k"])
        f = nx.xmap(lambda xs: [x + 1.0 for x in xs], *axes, axis_resources={"b": "x"}, mesh=mesh)
        call = jax.jit(lambda xs: f(xs)) if outer else f
        return sum(n for (path, _), n in python_calls(lambda: call(xs)).items() if path.startswith(PACKAGE))

    assert count(30, True) - count(10, True) == 2 * 20
    assert count(30, False) == count(10, False)
    assert count(10, False) <= (0 if outer else 2)


# --- what is learned ------------------------------------------------------------------------------------------------

CONTAINERS = {
    "list": lambda x, y: [x, y],
    "tuple": lambda x, y: (x, y),
    "dict": lambda x, y: {"x": x, "y": y},
    "nested": lambda x, y: {"x": [{"y": (x,)}], "z": [[], y]},
    "namedtuple": Pair,
    "fields": Fields,
    "none": lambda x, y: [None, x, {"y": y}],
    "numpy": lambda x, y: [np.float32(0.0), x, 1.0, y],
}


@pytest.mark.fast(0)
@pytest.mark.parametrize("container", CONTAINERS)
def test_an_array_that_comes_from_elsewhere_later_is_moved(container):
    mesh = make_mesh((8,))
    x, y = array(8, 2), array(8, 2, seed=1)

    def body(tree, *, more):
        leaves = filter(is_named, jax.tree.leaves((tree, more), is_leaf=is_named))
        return sum(nx.sum(leaf, ("b", "k")) * (i + 1.0) for i, leaf in enumerate(leaves))

    f = nx.xmap(body, axis_resources={"b": "x"}, mesh=mesh)
    here, there = nx.named(put(y, mesh, "x"), ["b", "k"]), nx.named(jax.device_put(y, jax.devices()[3]), ["b", "k"])
    first = nx.named(put(x, mesh, "x"), ["b", "k"])
    for second, more in ((here, here), (here, here), (there, here), (here, there), (here, here), (there, there)):
        result = f(CONTAINERS[container](first, second), more=more)
        np.testing.assert_allclose(result, np.sum(x) + 2 * np.sum(y) + 3 * np.sum(y), rtol=1e-5)


@pytest.mark.fast(0)
@KINDS
def test_arrays_of_other_meshes_over_the_same_devices_are_moved(kind):
    # JAX would take them as they are, and compile a program that shards the result in another way, or end the process.
    mesh = make_mesh((2, 4), kind)
    x = array(8, 8)
    f = nx.xmap(lambda x: 2 * x, ["b", "k"], ["b", "k"], axis_resources={"b": "x"}, mesh=mesh)
    inside = [put(x, mesh, "x"), put(x, mesh, None, ("x", "y"))]
    outside = [
        put(x, other_mesh((2, 4), ("p", "q"), kind), "p", "q"),
        put(x, other_mesh((4, 2), ("x", "y"), kind), "x", "y"),
        put(x, other_mesh((8,), ("x",), kind), "x"),
        put(x, other_mesh((2, 4), ("x", "y"), kind, jax.devices()[::-1]), "x"),
        put(x, other_mesh((2,), ("x",), kind, jax.devices()[:2]), "x"),
        jax.device_put(x, jax.devices()[0]),
    ]
    for _ in range(2):
        for arrival in (*inside, *outside, *inside):
            result = f(arrival)
            np.testing.assert_allclose(result, 2 * x)
            assert (result.sharding.mesh.axis_names, tuple(result.sharding.spec)[:1]) == (("x", "y"), ("x",))


@pytest.mark.fast(0)
def test_arrays_that_are_stored_padded_and_others_in_turn():
    mesh, other = make_mesh((4,)), other_mesh((2, 2), ("y", "z"), "auto", jax.devices()[:4])
    f = nx.xmap(lambda xs: [nx.cumsum(x, "b") for x in xs], axis_resources={"b": "x"}, mesh=mesh)
    x, y = array(8, 2), array(6, 2, seed=1)
    near, far = (nx.named(put(x, m, m.axis_names[0]), ["b", "k"]) for m in (mesh, other))
    padded = nx.shard(nx.named(y, ["b", "k"]), {"b": "x"}, mesh, padded=True)
    moved = jax.device_put(padded, NamedSharding(other, P("y")))
    for given, want in ((near, x), (padded, y), (near, x), (far, x), (moved, y), (padded, y)):
        for _ in range(2):
            (have,) = f([given])
            np.testing.assert_allclose(np.asarray(have.data)[: len(want)], np.cumsum(want, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.fast(0)
@KINDS
def test_with_and_without_a_context(kind):
    mesh, x = make_mesh((2, 4), kind), array(8, 8)
    reversed_ = other_mesh((2, 4), ("x", "y"), kind, jax.devices()[::-1])
    given = nx.xmap(lambda x: 2 * x, ["b", "k"], ["b", "k"], axis_resources={"b": "x"}, mesh=mesh)
    around = nx.xmap(lambda x: 2 * x, ["b", "k"], ["b", "k"], axis_resources={"b": "x"})
    for context in (None, mesh, reversed_, mesh, None, reversed_):
        for f in (given, around) if context is not None else (given,):
            with jax.set_mesh(context) if context is not None else contextlib.nullcontext():
                for arrival in (put(x, mesh, "x"), put(x, reversed_, "x"), put(x, mesh, "x")):
                    result = f(arrival)
                    np.testing.assert_allclose(result, 2 * x)
                    assert result.sharding.mesh.devices.ravel()[0] == (context or mesh).devices.ravel()[0]


def test_tracked_and_untracked_arguments_together():
    explicit, auto = make_mesh((2, 4), "explicit"), make_mesh((2, 4), "auto")
    x, y = array(8, 8), array(8, 8, seed=1)
    axes = (["b", "k"], ["b", "k"])
    f = nx.xmap(lambda x, y: x + 2 * y, axes, ["b", "k"], axis_resources={"b": "x"}, mesh=explicit)
    tracked = []
    for meshes in ((auto, auto), (explicit, explicit), (auto, explicit), (explicit, auto), (auto, auto), (None, explicit)):
        args = (v if mesh is None else put(v, mesh, "x") for v, mesh in zip((x, y), meshes, strict=True))
        result = f(*args)
        np.testing.assert_allclose(result, x + 2 * y, rtol=1e-6)
        tracked.append("@x" in str(jax.typeof(result)))
    assert tracked == [False, True, True, True, False, True]


def test_a_donated_argument_is_donated_from_the_first_call_to_the_last():
    mesh = make_mesh((8,))
    f = nx.xmap(lambda x: 2 * x, axis_resources={"b": "x"}, mesh=mesh, donate_argnums=0)
    for _ in range(3):
        x = nx.named(put(array(8, 2), mesh, "x"), ["b", "k"])
        f(x)
        assert x.data.is_deleted()


def test_other_threads_in_a_body():
    # While one thread traces a body, another one takes arrays apart that are whole.
    mesh, x = make_mesh((8,)), nx.named(array(8, 2), ["b", "k"])
    inside, done = threading.Event(), threading.Event()
    seen = []

    def body(x):
        inside.set()
        assert done.wait(60)
        return nx.sum(x, "b")

    thread = threading.Thread(target=lambda: seen.append(nx.xmap(body, axis_resources={"b": "x"}, mesh=mesh)(x)))
    thread.start()
    assert inside.wait(60)
    try:
        leaves, tree = jax.tree.flatten([x])
        again = jax.tree.unflatten(tree, leaves)[0]
        assert (leaves[0].shape, again.named_shape, again.dims) == ((8, 2), {"b": 8, "k": 2}, ("b", "k"))
        np.testing.assert_allclose(nx.xmap(lambda x: 2 * x, axis_resources={"b": "x"}, mesh=mesh)(x).data, 2 * x.data)
    finally:
        done.set()
        thread.join()
    np.testing.assert_allclose(seen[0].data, np.sum(np.asarray(x.data), 0), rtol=1e-5)


def test_dims_are_counted_when_they_are_asked_for():
    x = nx.named(array(2, 3, 4), [None, "b", "k"])
    leaves, tree = jax.tree.flatten(x)
    for data, dims in ((leaves[0], (None, "b", "k")), (leaves[0][0], ("b", "k")), (leaves[0][None], (None, None, "b", "k"))):
        made = jax.tree.unflatten(tree, [data])
        assert jax.tree.structure(made) == tree  # before anybody has asked
        assert made.dims == dims
        assert jax.tree.structure(made) == tree
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = x.nothing
    assert not hasattr(object.__new__(nx.NamedArray), "dims")
    assert jnp.shape(leaves[0]) == (2, 3, 4)
