"""Laws 3 and 5 for what communicates: collectives mean the same in every placement, and no reduction sends more than it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax import lax
from tests import make
from tests.harness import FEW, PARTITIONER, PLACEMENTS, array, check, together

# --- What collectives mean ------------------------------------------------------------------------
# label: (named, positional, out_axes); x is {b, a}[3], y is {b}.

PROGRAM = {
    "psum": (lambda x, y: lax.psum(x, "a"), lambda x, y: x.sum(1), ["b", None]),
    "psum of names": (lambda x, y: lax.psum(x, ("a", "b")), lambda x, y: x.sum((0, 1)), [None]),
    "psum without the name": (lambda x, y: lax.psum(y, "a"), lambda x, y: 8 * y, ["b"]),
    "psum of a name that is there and one that is not": (lambda x, y: lax.psum(y, ("a", "b")), lambda x, y: 8 * y.sum(), []),
    "pmean": (lambda x, y: lax.pmean(x, "a"), lambda x, y: x.mean(1), ["b", None]),
    "pmax": (lambda x, y: lax.pmax(x, ("b", "a")), lambda x, y: x.max((0, 1)), [None]),
    "pmin": (lambda x, y: lax.pmin(x, "b"), lambda x, y: x.min(0), ["a", None]),
    "pmax without the name": (lambda x, y: lax.pmax(y, "a"), lambda x, y: y, ["b"]),
    "pmean without the name": (lambda x, y: lax.pmean(y, ("a", "b")), lambda x, y: y.mean(), []),
    "all_gather": (lambda x, y: lax.all_gather(x, "a"), lambda x, y: x, ["b", None, None]),
    "all_gather behind": (lambda x, y: lax.all_gather(x, "a", axis=-1), lambda x, y: x.transpose(0, 2, 1), ["b", None, None]),
    "all_gather tiled": (lambda x, y: lax.all_gather(x, "a", tiled=True), lambda x, y: x.reshape(4, 24), ["b", None]),
    "all_gather of names": (
        lambda x, y: lax.all_gather(x, ("a", "b")),
        lambda x, y: x.swapaxes(0, 1).reshape(32, 3),
        [None, None],
    ),
    "all_gather without the name": (
        lambda x, y: lax.all_gather(y, "a"),
        lambda x, y: jnp.broadcast_to(y[:, None], (4, 8)),
        ["b", None],
    ),
    "all_gather that meets its own axis": (
        lambda x, y: nx.sum(lax.all_gather(x, "a") * x, ("b", 1)),
        lambda x, y: jnp.einsum("bgk,bak->ag", x, x),
        ["a", None],
    ),
    "axis_index": (lambda x, y: x * lax.axis_index("a"), lambda x, y: x * jnp.arange(8)[:, None], ["b", "a", None]),
    "axis_index of names": (
        lambda x, y: lax.axis_index(("b", "a")),
        lambda x, y: jnp.arange(32, dtype=jnp.int32).reshape(4, 8),
        ["b", "a"],
    ),
    "axis_index of names, the other way": (
        lambda x, y: lax.axis_index(("a", "b")),
        lambda x, y: jnp.arange(32, dtype=jnp.int32).reshape(8, 4).T,
        ["b", "a"],
    ),
    "axis_size": (lambda x, y: y / lax.axis_size(("a", "b")), lambda x, y: y / 32, ["b"]),
}
TOGETHER = together(PROGRAM)


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("placement", [*PLACEMENTS, PARTITIONER[3]], ids=str)
def test_placements(placement):
    named, plain, out_axes = TOGETHER
    grad = placement.kind == "auto" or placement in FEW
    check(named, plain, (array(4, 8, 3), array(4, seed=1)), (["b", "a", None], ["b"]), out_axes, placement, grad=grad)


@pytest.mark.parametrize("placement", FEW[:2], ids=str)
def test_sizes_are_python_integers_and_trees_are_trees(placement):
    def body(x):
        assert type(lax.psum(1, "a")) is type(lax.axis_size("a")) is int
        assert (lax.psum(1, "a"), lax.psum(3, ("a", "b")), lax.axis_size(("b", "a")), lax.axis_size(())) == (8, 96, 32, 1)
        tree = lax.psum({"x": x, "rest": (2, [x > 0, None])}, "a")
        assert tree["rest"][0] == 16
        assert tree["rest"][1][1] is None
        narrow = lax.psum(x.astype("int8"), "a")
        assert narrow.dtype == jnp.int8  # as in JAX, where a collective keeps the type
        return tree["x"], tree["rest"][1][0]

    x = array(4, 8)
    total, positive = nx.xmap(body, (["b", "a"],), ["b"], **placement.options)(x)
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-5)
    assert positive.dtype == jnp.int32
    assert positive.tolist() == (x > 0).sum(1).tolist()


def test_outside_of_mapped_functions():
    x = nx.named(array(4, 3), ["b", None])
    np.testing.assert_array_equal(lax.psum(x, "b"), nx.sum(x, "b"))
    assert lax.all_gather(x, "b").shape == (4, 3)
    with pytest.raises(nx.errors.AxisNotFoundError, match="no mapped function is being traced"):
        lax.axis_size("b")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: lax.psum(x, "aa"), nx.errors.AxisNotFoundError, ["psum: axis 'aa' has no size", "Did you mean 'a'?"]),
        (lambda x: lax.pmax(x, "k"), nx.errors.AxisNotFoundError, ["pmax", "'k'"]),
        (lambda x: lax.axis_index("k"), nx.errors.AxisNotFoundError, ["axis_index", "'k'", "axis_sizes"]),
        (lambda x: lax.all_gather(x, "k"), nx.errors.AxisNotFoundError, ["all_gather", "'k'"]),
        (lambda x: lax.psum(x, 0), nx.errors.AxisNotFoundError, ["psum: 0 is not an axis name"]),
        (lambda x: lax.psum(nx.sum(x, "a"), ("a", "a")), nx.errors.AxisNameError, ["psum", "not all different"]),
        (lambda x: lax.all_gather(x, "a", axis=2), nx.errors.PositionalAxisError, ["all_gather: axis=2 is out of range"]),
        (lambda x: lax.all_gather(x, "a", axis=1, tiled=True), nx.errors.PositionalAxisError, ["axis=1 is out of range"]),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error) as raised:
        nx.xmap(call, (["b", "a", None],))(array(4, 8, 3))
    assert all(word in str(raised.value) for word in words), raised.value


# --- What is sent ---------------------------------------------------------------------------------
# x is f32{a:16, b:5}, with a on eight devices: a result over a has 20 bytes.

REDUCE, GATHER, SCATTER = "all-reduce", "all-gather", "reduce-scatter"


def sent(body, out_axes, grad=False):
    """The collectives of the compiled program, as (kind, bytes); with `grad`, of its value and gradient."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    f = nx.xmap(body, (["a", "b"],), out_axes, axis_resources={"a": "x"}, mesh=mesh)
    program = jax.value_and_grad(lambda x: jnp.sum(jnp.sin(f(x)))) if grad else f
    x = jax.ShapeDtypeStruct((16, 5), jnp.float32)
    collectives = nx.hlo.collectives(jax.jit(program).lower(x).compile())
    assert all(c.group_size == 8 for c in collectives)
    return [(c.kind, c.bytes) for c in collectives]


INTEGERS = 5 * make.arange(1).dtype.itemsize  # of the default type

# label: (body, forwards, what the gradient adds)
COSTS = {
    "sum": (lambda x: nx.sum(x, "a"), [(REDUCE, 20)], []),
    "sum where": (lambda x: nx.sum(x, "a", where=x > 0), [(REDUCE, 20)], []),
    "psum": (lambda x: lax.psum(x, "a"), [(REDUCE, 20)], []),
    "mean": (lambda x: nx.mean(x, "a"), [(REDUCE, 20)], []),
    "mean where": (lambda x: nx.mean(x, "a", where=x > 0), [(REDUCE, 40)], []),  # with the count
    "var": (lambda x: nx.var(x, "a"), [(REDUCE, 20)] * 2, []),
    "std": (lambda x: nx.std(x, "a"), [(REDUCE, 20)] * 2, []),
    "logsumexp": (lambda x: nx.logsumexp(x, "a"), [(REDUCE, 20)] * 2, []),
    "prod": (lambda x: nx.prod(x, "a"), [(GATHER, 160)], []),
    "max": (lambda x: nx.max(x, "a"), [(REDUCE, 20)], [(REDUCE, 20)]),  # the number of ties
    "min": (lambda x: nx.min(x, "a"), [(REDUCE, 20)], [(REDUCE, 20)]),
    "any": (lambda x: nx.any(x > 0, "a"), [(REDUCE, 20)], None),
    "all": (lambda x: nx.all(x > 0, "a"), [(REDUCE, 20)], None),
    "count_nonzero": (lambda x: nx.count_nonzero(x, "a"), [(REDUCE, INTEGERS)], None),
    "argmax": (lambda x: nx.argmax(x, "a"), [(REDUCE, 20), (REDUCE, INTEGERS)], None),
    "argmin": (lambda x: nx.argmin(x, "a"), [(REDUCE, 20), (REDUCE, INTEGERS)], None),
}


@pytest.mark.full(4)
@pytest.mark.fast(3)
@pytest.mark.parametrize("label", COSTS)
def test_costs_of_reductions(label):
    body, forwards, backwards = COSTS[label]
    assert sent(body, ["b"]) == forwards
    if backwards is not None:
        assert sent(body, ["b"], grad=True) == forwards + backwards


def test_an_unsharded_axis_costs_nothing():
    names = "sum mean prod var std max min any all count_nonzero logsumexp argmax argmin".split()
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    f = nx.xmap(
        lambda x: [getattr(nx, name)(x, "b") for name in names] + [nx.sum(nx.nn.softmax(x, "b") * lax.axis_index("a"), "b")],
        (["a", "b"],),
        ["a"],
        axis_resources={"a": "x"},
        mesh=mesh,
    )
    assert nx.hlo.summary(f.lower(array(16, 5)).compile()) == {}


@pytest.mark.parametrize("softmax", [nx.nn.softmax, nx.nn.log_softmax])
def test_costs_of_softmax(softmax):
    assert sent(lambda x: softmax(x, "a"), ["a", "b"]) == [(REDUCE, 20)] * 2
    # The gradient's all-reduce also carries the sum outside of 4 bytes.
    assert sent(lambda x: softmax(x, "a"), ["a", "b"], grad=True) == [(REDUCE, 20), (REDUCE, 20), (REDUCE, 24)]


def test_costs_of_all_gather():
    """Its transpose is a reduce-scatter where it meets a value that varies, and nothing where it stays replicated."""
    replicated = lambda x: lax.all_gather(x, "a")  # noqa: E731
    combined = lambda x: lax.all_gather(x, "a") * nx.sum(x, "b")  # noqa: E731
    assert sent(replicated, ["b", None]) == [(GATHER, 320)]
    assert sent(replicated, ["b", None], grad=True) == [(GATHER, 320)]
    assert sent(combined, ["a", "b", None]) == [(GATHER, 320)]
    kinds = [kind for kind, size in sent(combined, ["a", "b", None], grad=True) if size > 4]
    assert kinds == [GATHER, SCATTER]


def test_what_every_device_knows_is_not_sent():
    """A value that lacks the name is the same everywhere."""
    body = lambda x: lax.all_gather(nx.max(x, "b") * 0 + 1.0, "b")  # noqa: E731
    assert sent(body, ["a", None]) == []
    doubled = lambda x: lax.psum(nx.sum(x, "a"), "a")  # noqa: E731
    assert sent(doubled, ["b"]) == [(REDUCE, 20)]


# --- functions of single entries ------------------------------------------------------------------------------------

HIDING = {
    "vmap": lambda f: lambda v: nx.vmap(f, "i")(v),
    "nmap": lambda f: nx.nmap(f),
    "nmap of a jitted function": lambda f: nx.nmap(jax.jit(f)),
    "map": lambda f: lambda v: nx.map(f, v, axis="i"),
    "scan": lambda f: lambda v: nx.scan(lambda c, x: (c, f(x)), nx.zeros(()), v, axis="i")[1],
    "fold": lambda f: lambda v: v + nx.fold(lambda c, x: c + f(x), nx.zeros(()), v, axis="i"),
    "nmap within vmap over another axis": lambda f: lambda v: nx.vmap(lambda r: nx.nmap(f)(r), "j")(v),
}
REFUSED = {
    "psum": lambda x: nx.lax.psum(x, "i"),
    "pmean": lambda x: x - nx.lax.pmean(x, "i"),
    "pmax": lambda x: nx.lax.pmax(x, "i"),
    "all_gather": lambda x: nx.lax.all_gather(x, "i").sum(),
}


@pytest.mark.parametrize("resources", [{}, {"i": "x"}, {"i": ("x", "y")}, {"i": nx.SerialLoop(2)}], ids=str)
@pytest.mark.parametrize("how", HIDING)
@pytest.mark.parametrize("what", ["psum", "pmean"])
def test_a_name_that_is_taken_away_is_not_reduced(how, what, resources):
    """There a value lacks the name because it is one entry, and not because it is the same for all: the sum would be its size times it."""
    f = nx.xmap(HIDING[how](REFUSED[what]), axis_resources=resources, mesh=jax.make_mesh((4, 2), ("x", "y")))
    message = rf"{what}: \w+.* removes the axis 'i' here .* Call {what} outside of it"
    with pytest.raises(nx.errors.AxisNotFoundError, match=message):
        f(nx.named(make.array(np.arange(24.0).reshape(8, 3)), ["i", "j"]))


@pytest.mark.parametrize("what", REFUSED)
def test_nor_by_another_collective(what):
    with pytest.raises(nx.errors.AxisNotFoundError, match=f"{what}: vmap removes the axis 'i' here"):
        nx.xmap(HIDING["vmap"](REFUSED[what]))(nx.named(make.array(np.arange(8.0)), ["i"]))


def test_other_names_are_reduced_there_and_a_size_is_known():
    x = np.sin(np.arange(24.0)).reshape(8, 3)
    v = nx.named(make.array(x), ["i", "j"])
    over_j = nx.xmap(lambda v: nx.vmap(lambda r: nx.lax.psum(r, "j") / nx.lax.axis_size("i"), "i")(v))(v)
    np.testing.assert_allclose(nx.positional(over_j, ["i"]), x.sum(1) / 8, rtol=1e-5)
    helper = jax.jit(lambda v: nx.lax.psum(v, "i"))  # traced where the value is the same for all, and not where it is an entry
    f = nx.xmap(lambda v: helper(nx.ones(())) + nx.vmap(helper, "i")(v))
    with pytest.raises(nx.errors.AxisNotFoundError, match="vmap removes the axis 'i' here"):
        f(nx.named(make.array(x[:, 0]), ["i"]))
    assert float(nx.xmap(lambda v: helper(nx.ones(())) + 0 * nx.sum(v, "i"))(nx.named(make.array(x[:, 0]), ["i"]))) == 8


def test_a_jitted_function_of_a_module_without_a_name_is_not_of_jax():
    scope = {"jax": jax, "nx": nx}
    exec("f = jax.jit(lambda v: nx.lax.psum(v, 'i'))", scope)
    assert nx.xmap(scope["f"], in_axes=["i"], out_axes=[])(make.array(np.arange(8.0))) == 28
