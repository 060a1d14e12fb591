"""Law 2 for functions of JAX on the blocks of a body, dimension by dimension: along a sharded one entries are not combined."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax.primitives.table import names_with
from tests import make
from tests.harness import Lazily, array, make_mesh

optax = Lazily("optax")

ELEMENTWISE = names_with(lambda record: record.is_elementwise)
X, KEY = array(8, 4), make.key(0)
NUMBERS = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


def on_leaves(function):
    """A body that applies `function` to the leaf of its argument."""
    return lambda a: jax.tree.map(function, a)


def mapped(body, resources):
    return nx.xmap(body, ["a", "b"], ["a", "b"], axis_resources=resources, mesh=make_mesh((4, 2)))


def normal(leaf):
    return jax.random.normal(KEY, leaf.shape)


def rows_of(leaf):
    return leaf - leaf.mean(0)


# Each combines entries along the first dimension of a leaf, or gives each device the same numbers for its block.
ALONG_ROWS = {
    "normalization": lambda v: v / jnp.sum(v, 0, keepdims=True),
    "softmax": lambda v: jax.nn.softmax(v, 0),
    "variance": lambda v: v - jnp.var(v, axis=0),
    "argmax": lambda v: v * jnp.argmax(v, 0),
    "cumulative sum": lambda v: jnp.cumsum(v, 0),
    "sort": lambda v: jnp.sort(v, 0),
    "argsort": lambda v: v * jnp.argsort(v, 0),
    "median": lambda v: v - jnp.median(v, 0),
    "top_k": lambda v: v + lax.top_k(v.T, 1)[0].T,
    "contraction": lambda v: v @ (v.T @ v),
    "outer product": lambda v: (v @ v.T) @ v,
    "products of all pairs": lambda v: v + (v[:, :1] * v[:, 0]).sum(1, keepdims=True),
    "flip": lambda v: v[::-1],
    "roll": lambda v: jnp.roll(v, 1, 0),
    "first entry": lambda v: v + v[0],
    "slice": lambda v: v + v[:1],
    "last slice": lambda v: v + lax.dynamic_slice(v, (1, 0), (1, 4)),
    "indices": lambda v: v[jnp.arange(v.shape[0])[::-1]],
    "update": lambda v: v.at[0].set(0),
    "update of a slice": lambda v: lax.dynamic_update_slice(v, v[:1] * 0 + 1, (0, 0)),
    "reshape": lambda v: v.ravel().reshape(v.shape),
    "concatenation": lambda v: jnp.concatenate([v[:1], v[1:]]),
    "padding": lambda v: jnp.pad(v, ((1, 0), (0, 0)))[1:],
    "Fourier transform": lambda v: jnp.fft.fft(v, axis=0).real,
    "singular values": lambda v: v + jnp.linalg.svd(v, full_matrices=False)[1][0],
    "window": lambda v: lax.reduce_window(v, 0.0, lax.add, (2, 1), (1, 1), "SAME"),
    "associative scan": lambda v: lax.associative_scan(jnp.add, v),
    "scan over rows": lambda v: lax.scan(lambda c, row: (c + 1, row * c), 0.0, v)[1],
    "scan": lambda v: lax.scan(lambda c, _: (rows_of(c), None), v, None, length=2)[0],
    "scan of what grows": lambda v: lax.scan(lambda c, _: (c + jnp.cumsum(c, 0) + v, None), jnp.zeros_like(v), None, length=2)[
        0
    ],
    "while": lambda v: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jnp.cumsum(c[1], 0)), (0, v))[1],
    "condition of while": lambda v: lax.while_loop(lambda c: c.sum(0)[0] < 9, lambda c: c + 1, v),
    "fori_loop": lambda v: lax.fori_loop(0, 2, lambda i, c: rows_of(c), v),
    "cond": lambda v: lax.cond(True, rows_of, lambda v: v, v),
    "switch": lambda v: lax.switch(1, [lambda v: v, rows_of], v),
    "checkpoint": jax.checkpoint(rows_of),
    "jit": jax.jit(lambda v: jax.jit(rows_of)(v) * 2),
    "vmap": jax.vmap(rows_of, in_axes=1, out_axes=1),
    "noise": lambda v: v + normal(v),
    "noise alone": normal,
    "noise in a function": jax.jit(lambda v: v * jax.jit(normal)(v)),
    "noise in a loop": lambda v: lax.fori_loop(0, 2, lambda i, c: c + normal(v), v),
    "noise in a branch": lambda v: lax.cond(True, lambda v: v + normal(v), lambda v: v, v),
    "dropout": lambda v: jnp.where(jax.random.bernoulli(KEY, 0.5, v.shape), v, 0),
    "positions": lambda v: v * jnp.arange(v.shape[0])[:, None],
    "numbers of NumPy": lambda v: v + NUMBERS[: v.shape[0]],
    "numbers of NumPy in jit": jax.jit(lambda v: v + NUMBERS[: v.shape[0]]),
}
BODIES = {
    "data": lambda a: nx.NamedArray(rows_of(a.data), a.dims),
    "noise beside an operation": lambda a: a + on_leaves(normal)(a),
    "gradient": jax.grad(lambda a: nx.sum(on_leaves(lambda v: v / v.sum(0))(a) ** 2, ("a", "b"))),
    "after an operation": lambda a: on_leaves(rows_of)(nx.sin(a) * nx.mean(a, "a")),
    "after a renaming": lambda a: nx.rename(on_leaves(rows_of)(nx.rename(a, {"a": "c"})), {"c": "a"}),
    "nx.scan": lambda a: nx.scan(lambda c, _: (on_leaves(rows_of)(c), None), a, length=2)[0],
    "nx.cond": lambda a: nx.cond(nx.sum(a, ("a", "b")) > 0, on_leaves(rows_of), lambda a: a, a),
    "nested": lambda a: nx.xmap(on_leaves(rows_of), axis_resources={})(a),
    "nested, another mesh axis": lambda a: nx.xmap(on_leaves(rows_of), axis_resources={"b": "y"})(a),
}
COMBINING = {**{what: on_leaves(function) for what, function in ALONG_ROWS.items()}, **BODIES}


@pytest.mark.parametrize("what", COMBINING)
def test_entries_along_a_sharded_dimension_are_not_combined(what):
    message = (
        r"\(test_raw_dimensions.py:\d+\): a function of JAX \(\w+\) (combines elements along a|makes numbers in the shape of the block of "
        r"one device, for a) dimension .* sharded over the mesh axes 'x' \(the axes 'a'(, 'c')?\)\. .* would change with axis_resources\."
    )
    resources = {"a": "x", "c": "x"} if "renaming" in what else {"a": "x"}
    with pytest.raises(nx.errors.RawBlockError, match=message):
        mapped(COMBINING[what], resources)(X)


@pytest.mark.full(42)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{"a": nx.SerialLoop(4)}, {"a": ("y", nx.SerialLoop(2))}, {"a": "y"}], ids=str)
@pytest.mark.parametrize("what", ALONG_ROWS)
def test_entries_along_a_sharded_dimension_are_not_combined_in_other_layouts(what, resources):
    with pytest.raises(nx.errors.RawBlockError, match="would change with axis_resources"):
        mapped(COMBINING[what], resources)(X)


BY_ENTRY = {
    "elementwise": lambda v: jnp.where(v > 0, v, -v) * 0.5 + jnp.sin(v),
    "another dimension": lambda v: jax.nn.softmax(v, 1) + jnp.cumsum(v, 1) + v.mean(1, keepdims=True) + jnp.sort(v, 1)[:, ::-1],
    "there and back": lambda v: (v.T * 2).T + v.reshape(v.shape[0], 2, 2).sum(2).repeat(2, 1),
    "constants": lambda v: (
        v * jnp.ones_like(v) + jnp.zeros(v.shape) + jnp.full(v.shape, 2.0) + np.ones(v.shape) * np.arange(4.0)
    ),
    "numbers for columns": lambda v: v + jnp.arange(4.0) * jax.random.normal(KEY, (4,)),
    "matrices": lambda v: v @ jnp.ones((4, 4)),
    "vmap": jax.vmap(lambda row: row / jnp.linalg.norm(row)),
    "map": lambda v: lax.map(lambda row: row - row.mean(), v),
    "loops": lambda v: lax.scan(
        lambda c, _: (jnp.tanh(c) * 2, None), lax.fori_loop(0, 3, lambda i, c: c + i, v), None, length=2
    )[0],
    "table": lambda v: jnp.take(jnp.arange(4.0), (v > 0.5).astype(int)),
    "columns": lambda v: v[:, :1] + v.at[:, 1].set(0) + jnp.concatenate([v[:, 2:], v[:, :2]], 1),
    "shown": lambda v: (jax.debug.callback(lambda corner: None, v[0, 0]), v)[1],
    "reductions that are not used": lambda v: (v.sum(0), v)[1],
}
WHOLE = {
    "optimizer": lambda a: optax.adam(0.1).update({"w": a}, optax.adam(0.1).init({"w": a}), {"w": a})[0]["w"],
    "gradient": jax.grad(lambda a: nx.sum(on_leaves(lambda v: jnp.tanh(v * jnp.arange(4.0)))(a) ** 2, ("a", "b"))),
    "gathered": lambda a: a + nx.named(rows_of(nx.positional(a, ["a", "b"])), ["a", "b"]),
    "lifted": lambda a: nx.named(nx.nmap(rows_of)(nx.untag(a, ["a", "b"])), ["a", "b"]),
    "on purpose": lambda a: nx.NamedArray(nx.nmap(lambda v: v + 0 * v.mean(0), collectives=True)(a.data), a.dims),
}
LEFT_ALONE = {**{what: on_leaves(function) for what, function in BY_ENTRY.items()}, **WHOLE}


@pytest.mark.full(3)
@pytest.mark.fast(1)
@pytest.mark.parametrize("what", LEFT_ALONE)
def test_what_acts_along_other_dimensions_passes(what):
    want = mapped(LEFT_ALONE[what], {})(X)
    if what in BY_ENTRY:
        np.testing.assert_allclose(want, BY_ENTRY[what](X), rtol=1e-5, atol=1e-6)
    for resources in ({"a": "x"}, {"a": ("x", "y")}):
        np.testing.assert_allclose(mapped(LEFT_ALONE[what], resources)(X), want, rtol=1e-4, atol=1e-5)


def test_an_optimizer_that_reduces_rows():
    optimizer = optax.adafactor(0.1, min_dim_size_to_factor=2, clipping_threshold=None, multiply_by_parameter_scale=False)

    def body(a):
        return optimizer.update({"w": a}, optimizer.init({"w": a}), {"w": a})[0]["w"]

    with pytest.raises(nx.errors.RawBlockError, match="would change with axis_resources"):
        nx.xmap(body, ["a", "b"], ["a", "b"], axis_resources={"a": "x"}, mesh=make_mesh((4,)))(X)


def test_a_function_of_jax_that_is_not_known():
    """Elementwise or not: nothing is known of it."""
    with pytest.raises(
        nx.errors.RawBlockError, match=r"\(pure_callback\) that namedax has no rule for is applied along a dimension .* nx.nmap"
    ):
        mapped(on_leaves(lambda v: jax.pure_callback(np.sin, v, v)), {"a": "x"})(X)


@pytest.mark.fast(0)
@pytest.mark.parametrize("axis", ["a", "b"])
def test_gradients_from_outside_of_functions_that_pass(axis):
    body = LEFT_ALONE["another dimension" if axis == "a" else "elementwise"]
    loss = lambda resources: lambda x: jnp.sum(mapped(body, resources)(x) ** 2)  # noqa: E731
    have, want = (jax.grad(loss(resources))(X) for resources in ({axis: "x"}, {}))
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def operands(count):
    """Operands of some kinds, so that every elementwise function takes one of them."""
    rng = np.random.default_rng(0)
    floats = [rng.uniform(0.1, 0.9, (8, 3)).astype(np.float32) for _ in range(count)]
    return floats, [(10 * x).astype(np.int32) for x in floats], [x > 0.5 for x in floats], [x + 1j * x for x in floats]


def call(function, more, *args):
    return function(*args, *more)


MORE = {"integer_pow": (2,), "reduce_precision": (5, 10), "polynomial": ([1.0, 2.0],)}
# JAX leaves the second out where it changes nothing, calls the first in a program of its own, and draws the numbers of the last.
NOT_TRIED = {"clamp", "convert_element_type", "random_gamma_grad"}


@pytest.mark.full(14)
@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "name",
    sorted(name for name in names_with(lambda record: record.is_elementwise) - NOT_TRIED if callable(getattr(lax, name, None))),
)
def test_what_counts_as_elementwise_is(name):
    """Rows in another order give results in that order, for the function of JAX that is called like the primitive."""
    function = functools.partial(call, getattr(lax, name), MORE.get(name, ()))
    order, tried = np.random.default_rng(1).permutation(8), 0
    for count in (1, 2, 3):
        for args in operands(count):
            try:
                equation = jax.make_jaxpr(function)(*args).eqns[-1]
            except (TypeError, ValueError, AttributeError):
                continue
            if equation.primitive.name == name and equation.outvars[0].aval.shape == (8, 3):
                tried += 1
                have = function(*(x[order] for x in args))
                np.testing.assert_array_equal(have, np.asarray(function(*args))[order])
    assert tried


def test_an_uneven_axis():
    f = functools.partial(nx.xmap, in_axes=["a"], out_axes=["a"], axis_resources={"a": "x"}, mesh=make_mesh((4, 2)))
    np.testing.assert_allclose(f(on_leaves(lambda v: v * 2))(X[:7, 0]), X[:7, 0] * 2)
    with pytest.raises(nx.errors.RawBlockError, match="combines elements"):
        f(on_leaves(lambda v: jnp.cumsum(v)))(X[:7, 0])


# --- names that a function of leaves moves to other dimensions of a square block ------------------------------------


def transposed(a):
    return jax.tree.map(lambda v: v.T, a)


def looped(a):
    return nx.scan(lambda c, _: (transposed(c), None), a, length=3)[0]


MOVING = {
    "transposed": transposed,
    "used once more": lambda a: a * nx.sum(transposed(a), "b"),
    "einsum": on_leaves(lambda v: jnp.einsum("ij->ji", v)),
    "shape of before": on_leaves(lambda v: v.T.reshape(v.shape)),
    "in jit": jax.jit(transposed),
    "in checkpoint": jax.checkpoint(transposed),
    "in lax.scan": lambda a: lax.scan(lambda c, _: (transposed(c), None), a, None, length=3)[0],
    "in nx.scan": looped,
    "in while": lambda a: lax.fori_loop(0, 3, lambda i, c: transposed(c), a),
    "in a branch": lambda a: nx.cond(nx.sum(a, ("a", "b")) > 0, transposed, lambda a: a, a),
    "gradient": jax.grad(lambda a: nx.sum(transposed(a) * nx.sum(a * a, "b"), ("a", "b"))),
    "in front": lambda a: nx.named(on_leaves(lambda v: v.T)(nx.untag(a, ["b"])), {0: "b"}),
}
SQUARE = {"a": "x"}, {"a": nx.SerialLoop(4)}, {"a": ("y", nx.SerialLoop(2))}


@pytest.mark.parametrize(("what", "resources"), [(what, SQUARE[i % 3]) for i, what in enumerate(MOVING)], ids=str)
def test_names_of_a_square_block_do_not_move(what, resources):
    """The block has the shape (2, 2), so that sizes cannot contradict."""
    message = (
        r"jax.tree.unflatten: in .* \(test_raw_dimensions.py:\d+\) a function of leaves moves a dimension of a named array, whose block has "
        r"the shape \(2, 2\)\. The dimension that is sharded over the mesh axes .* is_leaf=lambda v: isinstance\(v, nx.NamedArray\)"
    )
    with pytest.raises(nx.errors.RawBlockError, match=message):
        mapped(MOVING[what], resources)(X[:, :2])


@pytest.mark.parametrize(
    "resources", [{"a": "x", "b": "y"}, {"a": "y", "b": "x"}, {"a": "x", "b": ("y", nx.SerialLoop(2))}], ids=str
)
def test_names_of_a_block_with_two_sharded_dimensions_do_not_move(resources):
    x = array(8, 8) if len(resources["b"]) == 2 else array(8, 4) if resources["a"] == "x" else array(4, 8)
    for body in (transposed, looped):
        with pytest.raises(nx.errors.RawBlockError, match="a function of leaves moves a dimension"):
            mapped(body, resources)(x)


@jax.custom_jvp
def squared(a):
    return a * a


@squared.defjvp
def _(primals, tangents):
    """The tangents are leaves that become named arrays, and JAX transposes what the rule does with them."""
    (a,), (da,) = primals, tangents
    return a * a, jax.tree.map(lambda v: 2 * v, da) * a


STAYING = {
    "rule": jax.grad(lambda a: nx.sum(squared(a) * nx.sum(a, "a"), ("a", "b"))),
    "vmap": lambda a: jax.vmap(lambda v: on_leaves(jnp.sin)(a * v))(jnp.arange(3.0))[1],
    "elementwise": on_leaves(lambda v: jnp.where(v > 0, v, -v) * 2),
    "there and back": on_leaves(lambda v: (v.T * 2).T),
    "renamed": lambda a: nx.rename(on_leaves(jnp.sin)(nx.rename(a, {"a": "c"})), {"c": "a"}),
    "transposed by name": lambda a: on_leaves(jnp.sin)(nx.transpose(a, ("b", "a"))),
    "rows": lambda a: lax.scan(lambda c, _: (c * nx.sum(c, "a") * 0.1, None), a, None, length=3)[0],
    "adam": lambda a: optax.adam(0.1).update({"w": a}, optax.adam(0.1).init({"w": a}), {"w": a})[0]["w"],
    "clip": lambda a: optax.clip(0.5).update(a, optax.clip(0.5).init(a))[0],
    "gradient": jax.grad(lambda a: nx.sum(on_leaves(jnp.tanh)(a) ** 2 * nx.mean(a, "a"), ("a", "b"))),
}


@pytest.mark.full(3)
@pytest.mark.fast(0)
@pytest.mark.parametrize("what", STAYING)
def test_leaves_of_a_square_block_that_keep_their_dimensions(what):
    want = mapped(STAYING[what], {})(X[:, :2])
    for resources in ({"a": "x"}, {"a": nx.SerialLoop(4)}):
        np.testing.assert_allclose(mapped(STAYING[what], resources)(X[:, :2]), want, rtol=1e-4, atol=1e-5)


# --- names that exchange their mesh axes: a permute of the blocks between devices ------------------------------------

CYCLES = {"swap of two": ("ab", "ab"), "cycle of three": ("abc", "abc"), "swap of two of three": ("abc", "ac")}


def cycled(names):
    """A body that gives each name to the next dimension."""
    return lambda a: nx.rename(a, dict(zip(names, names[1:] + names[:1], strict=True)))


def cube(names):
    """A named array of size 4 along each name, the mesh axis of each name, and a mesh with axes of size 2."""
    resources = dict(zip(names, "xyz", strict=False))
    mesh = jax.make_mesh((2,) * len(names), tuple(resources.values()), axis_types=(jax.sharding.AxisType.Auto,) * len(names))
    return nx.named(array(*[4] * len(names)), list(names)), resources, mesh


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("what", CYCLES)
def test_leaves_of_a_block_whose_names_exchange_their_mesh_axes(what):
    names, moved = CYCLES[what]
    x, resources, mesh = cube(names)

    def loss(x):
        renamed = cycled(moved)(x)
        return nx.sum(x * renamed * nx.sin(renamed), tuple(names)), renamed

    def body(x):
        (value, renamed), gradient = jax.value_and_grad(loss, has_aux=True)(x)
        return on_leaves(jnp.sin)(renamed) * value, gradient, jax.checkpoint(cycled(moved))(x)

    f = nx.xmap(body, out_axes=[*names], axis_resources=resources, mesh=mesh)
    for have, want in zip(f(x), nx.xmap(body, out_axes=[*names])(x), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("what", CYCLES)
def test_names_of_a_block_do_not_move_after_an_exchange_of_their_mesh_axes(what):
    """The permute shards the first dimension over the mesh axis of another one, so that a transposition looks like the names of before."""
    names, moved = CYCLES[what]
    x, resources, mesh = cube(names)

    def body(a):
        return on_leaves(lambda v: jnp.swapaxes(v, 0, names.index(moved[-1])))(cycled(moved)(a))

    with pytest.raises(nx.errors.RawBlockError, match="a function of leaves moves a dimension"):
        nx.xmap(body, axis_resources=resources, mesh=mesh)(x)


def test_the_mesh_axes_of_dimensions_after_a_permute():
    x, resources, mesh = cube("abc")
    for dim, axis in enumerate("yx"):
        f = nx.xmap(
            lambda a, dim=dim: on_leaves(lambda v: jnp.cumsum(v, dim))(cycled("ab")(a)), axis_resources=resources, mesh=mesh
        )
        with pytest.raises(nx.errors.RawBlockError, match=f"sharded over the mesh axes '{axis}'"):
            f(x)


def test_a_square_block_costs_no_collective():
    """Gradients of two microbatches are added up before they are summed over devices, as those of a block of another shape are."""

    def body(w, x, y):
        grads = [jax.grad(lambda w, x: nx.sum(nx.sin(nx.dot(w, x, "k")) ** 2, ("b", "m")))(w, v) for v in (x, y)]
        return jax.tree.map(jnp.add, *grads)

    counts = []
    for size in (8, 12):
        in_axes = (["k", "m"], ["b", "k"], ["b", "k"])
        f = nx.xmap(body, in_axes, ["k", "m"], axis_resources={"k": "x", "b": "y"}, mesh=make_mesh((4, 2)))
        w, x = array(4 * size, 8), array(16, 4 * size)
        counts.append(nx.explain(f, w, x, x).summary()["all-reduce"][0])
    assert counts == [3, 3]


@pytest.mark.fast(1)
@pytest.mark.parametrize("options", [{"padding": ((1, -1),)}, {"padding": ((-1, 1),)}], ids=str)
def test_windows_of_one_element_with_padding(options):
    def window(v):
        return lax.reduce_window(v, 0.0, lax.add, (1,), (1,), **options)

    f = functools.partial(
        nx.xmap, on_leaves(window), in_axes=["a"], out_axes=["a"], axis_resources={"a": "x"}, mesh=make_mesh((4,))
    )
    v = jnp.arange(1.0, 9.0)
    with pytest.raises(nx.errors.RawBlockError, match="reduce_window"):
        f()(v)
    np.testing.assert_allclose(f(partitioning="global")(v), window(v))
