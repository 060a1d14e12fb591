"""What `nx.lax` has around the collectives: groups, casts, barriers, and axes that are JAX's own. Oracles are NumPy and `jax.lax`."""

import functools

import jax
import jax.numpy as jnp
import jax.scipy.spatial.transform
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax import hlo
from namedax.errors import ArgumentError, ArgumentTypeError, AxisNotFoundError, PositionalAxisError, UnsupportedArgumentError
from tests import make
from tests.harness import array, make_mesh

UNEVEN = [[0, 3, 5], [1, 2], [4, 7, 6]]
PAIRS = [[0, 3], [1, 2], [4, 7], [6, 5]]
X = array(8, 3)
PLACES = [((), None), ((8,), "x"), ((2,), "x"), ((4, 2), ("y", "x"))]


def mapped(body, shape, place, out_axes, kind="auto"):
    resources = {} if place is None else {"i": place}
    return nx.xmap(body, ["i", None], out_axes, axis_resources=resources, mesh=make_mesh(shape, kind) if shape else None)


def by_hand(reduce, groups):
    def f(x):
        result = jnp.zeros_like(x)
        for group in groups:
            result = result.at[jnp.array(group)].set(reduce(x[jnp.array(group)], 0))
        return result

    return f


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("shape", "place"), PLACES)
def test_groups(shape, place):
    lax = nx.lax

    def body(x):
        return (
            lax.psum(x, "i", axis_index_groups=UNEVEN),
            lax.pmean(x, "i", axis_index_groups=UNEVEN),
            lax.pmax(x, "i", axis_index_groups=UNEVEN),
            lax.pmin(x, ["i"], axis_index_groups=PAIRS),
            lax.all_gather(x, "i", axis_index_groups=PAIRS, axis=1, to="varying"),
            lax.all_gather(x, "i", axis_index_groups=PAIRS, tiled=True),
            lax.psum(2, "i", axis_index_groups=UNEVEN),
            lax.psum(x > 0, "i", axis_index_groups=PAIRS),
        )

    def plain(x):
        partner = jnp.zeros((8, 2), int).at[jnp.array(PAIRS)].set(jnp.array(PAIRS)[:, None, :])
        sizes = jnp.zeros(8, int)
        for group in UNEVEN:
            sizes = sizes.at[jnp.array(group)].set(2 * len(group))
        return (
            by_hand(jnp.sum, UNEVEN)(x),
            by_hand(jnp.mean, UNEVEN)(x),
            by_hand(jnp.max, UNEVEN)(x),
            by_hand(jnp.min, PAIRS)(x),
            jnp.swapaxes(x[partner], 1, 2),
            x[partner].reshape(8, 6),
            sizes,
            by_hand(jnp.sum, PAIRS)((x > 0).astype(int)),
        )

    row = ["i", None]
    f = mapped(
        body, shape, place, (row, row, row, row, ["i", None, None], row, ["i"], row), "explicit" if shape == (4, 2) else "auto"
    )
    for have, want in zip(f(X), plain(X), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    weigh = lambda results: sum(jnp.sum(jnp.sin(r + i)) for i, r in enumerate(results[:6]))  # noqa: E731
    have = jax.grad(lambda x: weigh(f(x)))(X)
    np.testing.assert_allclose(have, jax.jit(jax.grad(lambda x: weigh(plain(x))))(X), rtol=1e-4, atol=1e-5)


def exchanged_by_hand(x):
    """For each instance: what `psum_scatter` leaves it of two positions, and of four; what `all_to_all` gives it of two, and of four."""
    scattered, in_parts, exchanged, tiled = ([None] * 8 for _ in range(4))
    for group in PAIRS:
        for rank, i in enumerate(group):
            total = sum(x[j] for j in group)
            scattered[i], in_parts[i] = total[rank], total[2 * rank : 2 * rank + 2]
            exchanged[i] = jnp.stack([x[j, rank] for j in group])
            tiled[i] = jnp.concatenate([x[j, 2 * rank : 2 * rank + 2] for j in group])
    return tuple(map(jnp.stack, (scattered, in_parts, exchanged, tiled)))


def weigh(results):
    return sum(jnp.sum(jnp.sin(r + i)) for i, r in enumerate(results))


@functools.cache
def wanted_of_exchanges():
    """Results, and the gradient of what they weigh."""
    both = jax.jit(lambda x: (exchanged_by_hand(x), jax.grad(lambda x: weigh(exchanged_by_hand(x)))(x)))
    return both(array(8, 4, seed=4))


@pytest.mark.full(1)
@pytest.mark.fast(1)
@pytest.mark.parametrize(("shape", "place"), PLACES)
def test_exchanges_within_groups(shape, place):
    x = array(8, 4, seed=4)
    wanted, wanted_gradient = wanted_of_exchanges()

    def body(x):
        options = {"axis_index_groups": PAIRS}
        return (
            nx.lax.psum_scatter(x[:2], "i", **options),
            nx.lax.psum_scatter(x, "i", tiled=True, **options),
            nx.lax.pswapaxes(x[:2], "i", 0, **options),
            nx.lax.all_to_all(x, "i", 0, 0, tiled=True, **options),
        )

    f = mapped(body, shape, place, (["i"], ["i", None], ["i", None], ["i", None]), "explicit" if shape == (4, 2) else "auto")
    for have, want in zip(f(x), wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    have = jax.jit(jax.grad(lambda x: weigh(f(x))))(x)
    np.testing.assert_allclose(have, wanted_gradient, rtol=1e-4, atol=1e-5)


def test_what_groups_send():
    mesh = make_mesh((4,))
    for body, out, want in [
        (lambda x: nx.lax.psum(x, "i", axis_index_groups=PAIRS), ["i", None], "all-reduce"),
        (lambda x: nx.lax.all_gather(x, "i", axis_index_groups=PAIRS), ["i", None, None], "all-gather"),
    ]:
        f = nx.xmap(body, ["i", None], out, axis_resources={"i": "x"}, mesh=mesh)
        assert [c.kind for c in hlo.collectives(f.lower(X).compile())] == [want]


@pytest.mark.parametrize(("shape", "place"), PLACES)
def test_swap_cast_and_barrier(shape, place):
    square = array(8, 8, seed=3)

    def body(x):
        swapped = nx.lax.pswapaxes(x, "i", 0)
        first, _ = nx.lax.optimization_barrier((swapped, nx.sum(x, "i")))
        return nx.lax.pcast(first, "i", to="varying"), nx.lax.pcast(nx.sum(x, 0), ("i",), to="varying")

    f = mapped(body, shape, place, (["i", None], ["i"]))
    np.testing.assert_array_equal(f(square)[0], square.T)
    np.testing.assert_allclose(f(square)[1], square.sum(1), rtol=1e-5)


def test_axes_of_jax():
    """In a user's own shard_map or vmap an import swap changes nothing; a mesh axis of a mapped function is no such axis."""
    mesh = make_mesh((4, 2))

    def body(lax):
        return lambda v: (
            lax.psum(v, "x") * lax.axis_index("y"),
            lax.all_gather(v, ("x", "y"), to="varying")[2:3] * lax.axis_size("x"),
        )

    def run(lax):
        return jax.shard_map(body(lax), mesh=mesh, in_specs=P(("x", "y")), out_specs=(P(("x", "y")), P(("x", "y"))))(
            jnp.arange(8.0)
        )

    for have, want in zip(run(nx.lax), run(jax.lax), strict=True):
        np.testing.assert_array_equal(have, want)
    have, want = (
        jax.vmap(lambda v, lax=lax: lax.pmax(v, axis_name="q") + lax.ppermute(v, "q", [(0, 2), (1, 0), (2, 1)]), axis_name="q")(
            make.arange(3.0)
        )
        for lax in (nx.lax, jax.lax)
    )
    np.testing.assert_array_equal(have, want)
    # Not on a mesh: there JAX itself stumbles over a vmap with a name in a shard_map.
    inner = nx.xmap(nx.nmap(jax.vmap(lambda v: v - nx.lax.pmean(v, "q"), axis_name="q")), ["i", None], ["i", None])
    np.testing.assert_allclose(inner(X), X - X.mean(1, keepdims=True), rtol=1e-5, atol=1e-6)
    with pytest.raises(AxisNotFoundError, match="'x'"):
        nx.xmap(lambda x: nx.lax.psum(jnp.ones(3), "x") + x, ["i", None], ["i", None], axis_resources={"i": "x"}, mesh=mesh)(X)


REFUSED = [
    (lambda x: nx.lax.pcast(x, "j", to="varying"), AxisNotFoundError, "pcast: axis 'j' has no size"),
    (
        lambda x: nx.lax.pcast(x, "i", to="unreduced"),
        UnsupportedArgumentError,
        "pcast: to='unreduced' is not supported for axis 'i'",
    ),
    (lambda x: nx.lax.all_gather(x, "i", to="reduced"), UnsupportedArgumentError, "all_gather: to='reduced'"),
    (lambda x: nx.lax.with_sharding_constraint(x, P()), ArgumentTypeError, r"with_sharding_constraint: .*\{i:8\}.*nx.shard"),
    (lambda x: nx.lax.rng_uniform(0.0, x, (3,)), ArgumentTypeError, "rng_uniform: .*nx.random.uniform"),
    (
        lambda x: nx.lax.psum(x, "i", axis_index_groups=[[0, 1]]),
        ArgumentError,
        "psum: axis_index_groups=.* axis 'i', 0 to 7, exactly once",
    ),
    (lambda x: nx.lax.all_gather(x, "i", axis_index_groups=UNEVEN), ArgumentError, "all_gather: .* must be of one size"),
    (
        lambda x: nx.lax.psum(x, ("i", "k"), axis_index_groups=PAIRS),
        UnsupportedArgumentError,
        "psum: axis_index_groups is for one name",
    ),
    (lambda x: nx.lax.all_to_all(x, "i", 0, 0, axis_index_groups=UNEVEN), ArgumentError, "all_to_all: .* must be of one size"),
    (
        lambda x: nx.lax.psum_scatter(x, "i", axis_index_groups=PAIRS, tiled=True),
        PositionalAxisError,
        r"psum_scatter: scatter_dimension=0 must be .* a multiple of 2, .* shape is \(3,\)",
    ),
]


if "psend" in dir(jax.lax):  # JAX 0.12 has deprecated it
    REFUSED += [
        (lambda x: nx.lax.psend(x, "i", [(0, 1)]), ArgumentTypeError, r"psend: .* f32\[3\]\{i:8\}.*nx.lax.ppermute"),
        (lambda x: nx.lax.precv(jax.lax.create_token(), X, "i", [(0, 1)]), ArgumentTypeError, "precv: .*a mapped function"),
    ]


if hasattr(jax.lax, "psum_scatter_start"):  # JAX 0.12
    REFUSED.append(
        (
            lambda x: nx.lax.psum_scatter_start(x, "i", tiled=True),
            ArgumentTypeError,
            r"psum_scatter_start: .* f32\[3\]\{i:8\}. Use nx.lax.psum_scatter, which",
        )
    )


@pytest.mark.parametrize(("body", "error", "message"), REFUSED, ids=[message[:24] for *_, message in REFUSED])
def test_refused_by_name(body, error, message):
    mesh = make_mesh((2,)) if "precv" in message else None
    with pytest.raises(error, match=message):
        nx.xmap(body, ["i", None], None, axis_resources={"i": "x"} if mesh else {}, mesh=mesh)(X)


# --- modules that hold more than functions --------------------------------------------------------------------------------


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("shape", "place"), PLACES[:3])
def test_rotations(shape, place):
    theirs, ours = jax.scipy.spatial.transform, nx.scipy.spatial.transform
    vector, turn = array(3, seed=1), theirs.Rotation.from_rotvec(array(3, seed=2))

    def body(x):
        rotation = ours.Rotation.from_rotvec(x)
        assert type(rotation) is ours.Rotation
        return rotation.apply(vector), (rotation * turn).inv().as_matrix(), rotation.as_euler("xyz"), rotation.magnitude()

    row = ["i", None]
    have = mapped(body, shape, place, (row, ["i", None, None], row, ["i"]))(X)
    rotation = theirs.Rotation.from_rotvec(X)
    want = rotation.apply(vector), (rotation * turn).inv().as_matrix(), rotation.as_euler("xyz"), rotation.magnitude()
    for h, w in zip(have, want, strict=True):
        np.testing.assert_allclose(h, w, rtol=1e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_interpolation_and_minimisation():
    grid, values, places = (
        (make.arange(4.0), make.array([0.0, 1.0, 3.0])),
        array(4, 3, 5),
        make.array([[0.5, 2.0], [2.5, 0.25]]),
    )
    theirs, ours = (m.scipy.interpolate.RegularGridInterpolator for m in (jax, nx))
    have = ours(grid, nx.named(values, [None, None, "c"]))(nx.named(places, ["n", None]))
    want = jnp.stack([theirs(grid, values[..., c])(places) for c in range(5)], 1)
    np.testing.assert_allclose(nx.positional(have, ["n", "c", None])[..., 0], want, rtol=1e-5)
    np.testing.assert_array_equal(ours(grid, values)(places, "nearest"), theirs(grid, values)(places, "nearest"))
    with pytest.raises(ValueError, match="point arrays"):
        ours(grid, values[0, 0])
    with pytest.raises(NotImplementedError, match="bounds_error"):
        ours(grid, values, bounds_error=True)

    def cost(x, target):
        return jnp.sum((x - target) ** 2 * jnp.array([1.0, 3.0]))

    targets = array(4, 2)
    found = nx.scipy.optimize.minimize(cost, make.zeros(2), (nx.named(targets, ["run", None]),), method="BFGS")
    np.testing.assert_allclose(nx.positional(found.x, ["run", None]), targets, atol=1e-3)
