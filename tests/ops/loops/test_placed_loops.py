"""Loops and branches on arrays on Explicit meshes, outside of mapped functions, against NumPy loops and unplaced arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import namedax as nx

B, K, T = 8, 4, 3

# v is {b, k}, w is {k}, t is {t, k}. label: (named, NumPy, dims of the results)


def fori(v, w, t):
    return nx.fori_loop(0, 3, lambda i, c: nx.tanh(c * w + v * (i + 1)), 0.0)


def np_fori(v, w, t):
    c = 0.0
    for i in range(3):
        c = np.tanh(c * w + v * (i + 1))
    return c


def fori_over_two(v, w, t):
    """One carry gains a name and its sharding from the other, two steps later."""

    def body(i, state):
        a, b, n = state
        return b * 0.5, a + v * w, n + 1

    return nx.fori_loop(0, 4, body, (0.0, w, 0))


def np_fori_over_two(v, w, t):
    a, b, n = np.zeros((B, K)), np.broadcast_to(w, (B, K)), 0
    for _ in range(4):
        a, b, n = b * 0.5, a + v * w, n + 1
    return a, b, n


def folded(v, w, t):
    return nx.fold(lambda c, x: c * 0.5 + x * v, w, t, axis="t")


def np_folded(v, w, t):
    c = np.broadcast_to(w, (B, K))
    for x in t:
        c = c * 0.5 + x * v
    return c


def scan_over_unplaced(v, w, t):
    return nx.scan(lambda c, x: (c + x * v, nx.sum(c * w, "k")), 0.0, t, axis="t")


def np_scan_over_unplaced(v, w, t):
    c, ys = np.zeros((B, K)), []
    for x in t:
        ys.append((c * w).sum(-1))
        c = c + x * v
    return c, np.stack(ys)


def scan_over_placed(v, w, t):
    """Over a sharded axis: the results have its sharding again."""
    return nx.scan(lambda c, x: (c * w + x, c - x), 1.0, v, axis="b", reverse=True)


def np_scan_over_placed(v, w, t):
    c, ys = np.ones(K), []
    for x in v[::-1]:
        ys.append(c - x)
        c = c * w + x
    return c, np.stack(ys[::-1])


def scan_losing(v, w, t):
    """The carry loses a sharded name, and is broadcast back."""
    return nx.scan(lambda c, x: (nx.mean(c, "b") * x, nx.sum(c, "b")), v, t, axis="t")


def np_scan_losing(v, w, t):
    c, ys = v, []
    for x in t:
        ys.append(c.sum(0))
        c = np.broadcast_to(c.mean(0) * x, (B, K))
    return c, np.stack(ys)


def scan_by_position(v, w, t):
    xs = nx.positional(t, ["t", "k"])
    return nx.scan(lambda c, x: (c + nx.named(x, ["k"]) * v, None), 0.0, xs)[0]


def np_scan_by_position(v, w, t):
    return np_scan_over_unplaced(v, w, t)[0]


def cond_true(v, w, t):
    return nx.cond(nx.sum(v, ["b", "k"]) > 3, lambda v: v * w, lambda v: 0.0, v)


def cond_false(v, w, t):
    return nx.cond(nx.sum(v, ["b", "k"]) < 3, lambda v: v * w, lambda v: w + 1, v)


def cond_by_name(v, w, t):
    return nx.cond(v > 0.2, lambda w: w * 2, lambda w: -1.0, w)


def switch(v, w, t):
    return nx.switch(jnp.asarray(1), [lambda v: w, lambda v: v * 2, lambda v: 0.0], v)


def switch_by_name(v, w, t):
    which = nx.numpy.astype(nx.round(nx.abs(v) * 2), int)
    return nx.switch(which, [lambda w: w, lambda w: v, lambda w: 7.0], w)


def np_switch_by_name(v, w, t):
    which = np.clip(np.round(np.abs(v) * 2).astype(int), 0, 2)
    return np.choose(which, [np.broadcast_to(w, v.shape), v, np.full(v.shape, 7.0)])


def while_common(v, w, t):
    return nx.while_loop(lambda c: nx.sum(c * c, ["b", "k"]) < 200, lambda c: c * 2 + w, v * 0 + 0.1)


def np_while_common(v, w, t):
    c = np.full((B, K), 0.1)
    while (c * c).sum() < 200:
        c = c * 2 + w
    return c


def while_by_name(v, w, t):
    return nx.while_loop(lambda c: c < v, lambda c: c + 0.25, -2.0)


def np_while_by_name(v, w, t):
    c = np.full((B, K), -2.0)
    while (c < v).any():
        c = np.where(c < v, c + 0.25, c)
    return c


def while_of_state(v, w, t):
    """Only one of the values has the names of the condition at the start."""
    return nx.while_loop(lambda s: s[0] < 2.0, lambda s: (s[0] + nx.abs(s[1]) + 0.5, s[1] * w, s[2] + 1), (v, 1.0, 0))


def np_while_of_state(v, w, t):
    a, b, n = v, np.ones((B, K)), np.zeros((B, K), int)
    while (go := a < 2.0).any():
        a, b, n = (
            np.where(go, a + np.abs(b) + 0.5, a),
            np.where(go, b * w, b),
            np.where(go, n + 1, n),
        )
    return a, b, n


def mapped(v, w, t):
    return nx.map(lambda row: (nx.cumsum(row * w, "k"), nx.sum(row, "k")), v, axis="b")


def np_mapped(v, w, t):
    return np.cumsum(v * w, -1), v.sum(-1)


def mapped_in_batches(v, w, t):
    return nx.map(lambda row: row * w + v, nx.rename(v, {"b": "c"}), axis="c", batch_size=4)


def np_mapped_in_batches(v, w, t):
    return v[:, None] * w + v[None]


def recurrence(v, w, t):
    return nx.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (v * w, v + 1), axis="b")


def np_recurrence(v, w, t):
    a, b = [(v * w)[0]], [v[0] + 1]
    for i in range(1, B):
        a.append(a[-1] * (v * w)[i])
        b.append(b[-1] * (v * w)[i] + v[i] + 1)
    return np.stack(a), np.stack(b)


def gaining_scan(v, w, t):
    """Over an unplaced axis, with a function that adds sharded names."""
    return nx.associative_scan(lambda a, b: a + b + 0.1 * v, t, axis="t", reverse=True)


def np_gaining_scan(v, w, t):
    c = np.broadcast_to(t[:, None], (T, B, K))
    one = c[1] + c[2] + 0.1 * v
    return np.stack([c[0] + one + 0.1 * v, one, c[2]])


def vectorized(v, w, t):
    return nx.vmap(lambda row: nx.fori_loop(0, 2, lambda i, c: c * w + row, 0.0), "b")(v)


def np_vectorized(v, w, t):
    return v * w + v


def gradients_of_examples(v, w, t):
    return nx.vmap(jax.grad(lambda w, row: nx.sum(nx.sin(w * row), "k")), (None, "b"))(w, v)


def np_gradients_of_examples(v, w, t):
    return np.cos(v * w) * v


def nested(v, w, t):
    def step(c, x):
        c = nx.cond(nx.sum(c, "k") > 0, lambda c: c + v, lambda c: c - x, c)
        return nx.fori_loop(0, 2, lambda i, c: c * 0.5 + x, c), nx.max(c, "b")

    return nx.scan(step, w * 0, t, axis="t")


def np_nested(v, w, t):
    c, ys = np.zeros((B, K)), []
    for x in t:
        c = np.where(c.sum(-1, keepdims=True) > 0, c + v, c - x)
        ys.append(c.max(0))
        for _ in range(2):
            c = c * 0.5 + x
    return c, np.stack(ys)


PROGRAMS = {
    "fori_loop": (fori, np_fori, "bk"),
    "fori_loop over two": (fori_over_two, np_fori_over_two, ("bk", "bk", "")),
    "fold": (folded, np_folded, "bk"),
    "scan over an unplaced axis": (scan_over_unplaced, np_scan_over_unplaced, ("bk", "tb")),
    "scan over a placed axis": (scan_over_placed, np_scan_over_placed, ("k", "bk")),
    "scan that loses a name": (scan_losing, np_scan_losing, ("bk", "tk")),
    "scan by position": (scan_by_position, np_scan_by_position, "bk"),
    "cond, true": (cond_true, lambda v, w, t: v * w if v.sum() > 3 else 0 * v, "bk"),
    "cond, false": (
        cond_false,
        lambda v, w, t: np.broadcast_to(v * w if v.sum() < 3 else w + 1, v.shape),
        "bk",
    ),
    "cond by name": (cond_by_name, lambda v, w, t: np.where(v > 0.2, w * 2, -1.0), "bk"),
    "switch": (switch, lambda v, w, t: v * 2, "bk"),
    "switch by name": (switch_by_name, np_switch_by_name, "bk"),
    "while_loop": (while_common, np_while_common, "bk"),
    "while_loop by name": (while_by_name, np_while_by_name, "bk"),
    "while_loop of a state": (while_of_state, np_while_of_state, ("bk", "bk", "bk")),
    "map": (mapped, np_mapped, ("bk", "b")),
    "map in batches": (mapped_in_batches, np_mapped_in_batches, "cbk"),
    "associative_scan": (recurrence, np_recurrence, ("bk", "bk")),
    "associative_scan that gains names": (gaining_scan, np_gaining_scan, "tbk"),
    "vmap": (vectorized, np_vectorized, "bk"),
    "vmap of grad": (gradients_of_examples, np_gradients_of_examples, "bk"),
    "nested": (nested, np_nested, ("bk", "tk")),
}
WITHOUT_GRADIENT = {"while_loop", "while_loop by name", "while_loop of a state"}

V = np.linspace(-1.0, 1.4, B * K, dtype=np.float32).reshape(B, K)[:, ::-1] ** 3 + 0.1
W = np.linspace(0.3, 1.1, K, dtype=np.float32)
TS = np.linspace(-0.8, 0.9, T * K, dtype=np.float32).reshape(T, K)

LAYOUTS = {
    "one axis": ((4,), ({"b": "x"}, {}, {})),
    "two axes": ((2, 2), ({"b": "x", "k": "y"}, {}, {"k": "y"})),
    "both on one name": ((2, 2), ({"b": ("y", "x")}, {}, {})),
    "the other name": ((4,), ({"k": "x"}, {}, {"k": "x"})),
}
MODES = {
    "eager": (False, False),
    "jit": (False, True),
    "eager, set_mesh": (True, False),
    "jit, set_mesh": (True, True),
}


def explicit_mesh(shape, kind=AxisType.Explicit):
    names = ("x", "y")[: len(shape)]
    devices = jax.devices()[: int(np.prod(shape))]
    return jax.make_mesh(shape, names, devices=devices, axis_types=(kind,) * len(names))


def arguments(layout):
    shape, places = LAYOUTS[layout]
    mesh = explicit_mesh(shape)
    arrays = [nx.named(jnp.asarray(a), list(d)) for a, d in ((V, "bk"), (W, "k"), (TS, "tk"))]
    return mesh, arrays, [nx.shard(a, p, mesh) if p else a for a, p in zip(arrays, places, strict=True)]


def in_mode(mode, mesh, function, *args):
    ambient, jit = MODES[mode]
    run = jax.jit(function) if jit else function
    if not ambient:
        return run(*args)
    with jax.set_mesh(mesh):
        return run(*args)


def numbers(results, dims):
    """The values in the order of NumPy's result."""
    several = isinstance(dims, tuple)
    pairs = zip(results, dims, strict=True) if several else [(results, dims)]
    return [np.asarray(nx.positional(r, list(d)) if isinstance(r, nx.NamedArray) else r) for r, d in pairs]


@pytest.mark.fast(3)
@pytest.mark.full(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("label", PROGRAMS)
def test_values(label, layout, mode):
    named, by_numpy, dims = PROGRAMS[label]
    mesh, plain, placed = arguments(layout)
    wanted = by_numpy(V, W, TS)
    wanted = [np.asarray(a) for a in (wanted if isinstance(dims, tuple) else [wanted])]
    for results in (named(*plain), in_mode(mode, mesh, named, *placed)):
        for got, want in zip(numbers(results, dims), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def loss(named):
    def of(*args):
        total = 0.0
        for r in jax.tree.leaves(named(*args), is_leaf=lambda x: isinstance(x, nx.NamedArray)):
            if isinstance(r, nx.NamedArray) and jnp.issubdtype(r.dtype, jnp.floating):
                total = total + nx.sum(nx.sin(r), list(r.named_shape))
        return total

    return of


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("mode", ["jit", "eager, set_mesh", "jit, set_mesh"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("label", [label for label in PROGRAMS if label not in WITHOUT_GRADIENT])
def test_gradients(label, layout, mode):
    """Not eagerly without a mesh: JAX then has no devices for the cotangent of a scalar."""
    named, _, _ = PROGRAMS[label]
    mesh, plain, placed = arguments(layout)
    gradient = jax.grad(loss(named), argnums=(0, 1, 2))
    wanted = numbers(gradient(*plain), ("bk", "k", "tk"))
    got = numbers(in_mode(mode, mesh, gradient, *placed), ("bk", "k", "tk"))
    for g, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, want, rtol=3e-5, atol=3e-5)


# --- joins and reads --------------------------------------------------------------------------------------------------------

I = (np.arange(B) * 3) % T
J = (np.arange(B * K) * 7).reshape(B, K) % T

# v is {b, k}, w is {k}, t is {t, k}; i is {b}, j is {b, k}, both indices into t
JOINS = {
    "stack": (lambda v, w, t, i, j: nx.stack([w, v], "n"), np.stack([np.broadcast_to(W, V.shape), V]), "nbk"),
    "concatenate": (
        lambda v, w, t, i, j: nx.concatenate([v, w + 1], "k"),
        np.concatenate([V, np.broadcast_to(W + 1, V.shape)], 1),
        "bk",
    ),
    "read by one": (lambda v, w, t, i, j: t[{"t": i}], TS[I], "bk"),
    "read by two": (lambda v, w, t, i, j: t[{"t": nx.rename(j, {"k": "c"})}], TS[J], "bck"),
    "read at a shared name": (lambda v, w, t, i, j: t[{"t": j}], TS[J, np.arange(K)], "bk"),
    "take": (lambda v, w, t, i, j: nx.take(t, i, "t"), TS[I], "bk"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("label", JOINS)
def test_joins_and_reads(label, mode):
    """Placed arrays with unplaced ones, and unplaced tables at placed indices."""
    named, want, dims = JOINS[label]
    mesh, _, (v, w, t) = arguments("two axes")
    i = nx.shard(nx.named(jnp.asarray(I), ["b"]), {"b": "x"}, mesh)
    j = nx.shard(nx.named(jnp.asarray(J), ["b", "k"]), {"b": "x", "k": "y"}, mesh)
    t = nx.named(jnp.asarray(TS), ["t", "k"])
    got = in_mode(mode, mesh, named, v, w, t, i, j)
    np.testing.assert_allclose(np.asarray(nx.positional(got, list(dims))), want, rtol=1e-6)


# --- placements, closed-over arrays, errors ----------------------------------------------------------------------------------


@pytest.mark.fast(0)
@pytest.mark.parametrize("mode", MODES)
def test_results_keep_the_placement(mode):
    mesh, _, (v, w, t) = arguments("two axes")
    carry, sums = in_mode(mode, mesh, scan_over_placed, v, w, t)
    assert sums.sharding.spec == PartitionSpec(*({"b": "x", "k": "y"}[d] for d in sums.dims))
    assert carry.sharding.spec == PartitionSpec("y")
    looped = in_mode(mode, mesh, fori, v, w, t)
    assert looped.sharding.spec == PartitionSpec(*({"b": "x", "k": "y"}[d] for d in looped.dims))


def test_the_first_sharding_of_a_name_wins():
    mesh = explicit_mesh((4,))
    square = nx.shard(nx.named(jnp.asarray(V[:4] @ V.T[:, :4]), ["b", "c"]), {"b": "x"}, mesh)

    def turn(c):
        return nx.fori_loop(0, 3, lambda i, c: nx.rename(c, {"b": "c", "c": "b"}) * 0.5, c)

    want = (V[:4] @ V.T[:, :4]).T * 0.125
    for run in (turn, jax.jit(turn)):
        got = run(square)
        np.testing.assert_allclose(nx.positional(got, ["b", "c"]), want, rtol=1e-5)
        assert dict(zip(got.dims, got.sharding.spec, strict=True)) == {"b": "x", "c": None}


@pytest.mark.parametrize("mode", MODES)
def test_a_stacked_axis_leaves_the_mesh_axis_to_its_entries(mode):
    """The axis of the loop and an axis of its results are sharded over one mesh axis."""
    mesh = explicit_mesh((4,))
    rows, start = (nx.shard(nx.named(jnp.asarray(V[:4]), [d, "k"]), {d: "x"}, mesh) for d in ("t", "b"))
    loops = {
        "scan": lambda rows, start: nx.scan(lambda c, row: (c, c * row), start, rows, axis="t")[1],
        "map": lambda rows, start: nx.map(lambda row: start * row, rows, axis="t"),
        "vmap": lambda rows, start: nx.vmap(lambda row: start * row, "t")(rows),
    }
    for label, loop in loops.items():
        got = in_mode(mode, mesh, loop, rows, start)
        np.testing.assert_allclose(nx.positional(got, ["t", "b", "k"]), V[:4, None] * V[:4], rtol=1e-5, err_msg=label)
        assert dict(zip(got.dims, got.sharding.spec, strict=True)) == {"t": None, "b": "x", "k": None}, label


@pytest.mark.fast(0)
@pytest.mark.parametrize("mode", ["eager", "eager, set_mesh", "jit, set_mesh"])
def test_closed_over_arrays(mode):
    """No operand is placed: the mesh is found while the body is traced."""
    mesh, _, (v, _, _) = arguments("two axes")

    def run(start):
        return (
            nx.fori_loop(0, 3, lambda i, c: c * 0.5 + v, start),
            nx.cond(start > 0, lambda: v, lambda: start),
            nx.scan(lambda c, x: (c + v * x, None), start, jnp.arange(3.0))[0],
        )

    got = in_mode(mode, mesh, run, jnp.asarray(0.25))
    wanted = ((0.25 * 0.5 + V) * 0.5 + V) * 0.5 + V, V, 0.25 + V * 3
    for g, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(nx.positional(g, ["b", "k"]), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit", [False, True])
def test_a_closed_over_result_on_auto_axes(jit):
    """A branch may return a result of `nx.xmap(mesh=)`, which is on an Auto copy of the mesh."""
    mesh, (plain, _, _), (v, _, _) = arguments("one axis")
    result = nx.xmap(lambda a: a * 2, axis_resources={"b": "x"}, mesh=mesh)(plain)

    def run(v):
        return nx.switch(jnp.asarray(1), [lambda: v, lambda: result])

    with jax.set_mesh(mesh):
        got = (jax.jit(run) if jit else run)(v)
    np.testing.assert_allclose(nx.positional(got, ["b", "k"]), V * 2)


def test_two_meshes_raise():
    _, _, (v, _, _) = arguments("one axis")
    other = explicit_mesh((2, 2))
    u = nx.shard(nx.named(jnp.asarray(V), ["b", "k"]), {"k": "y"}, other)
    with pytest.raises(nx.errors.MeshError, match=r"is on the mesh|on one mesh"):
        nx.cond(True, lambda: v, lambda: u)
    result = nx.xmap(lambda a: a * 2, axis_resources={"b": "y"}, mesh=other)(nx.named(jnp.asarray(V), ["b", "k"]))
    with jax.set_mesh(explicit_mesh((4,))), pytest.raises(nx.errors.MeshError, match=r"nx\.shard"):
        nx.fori_loop(0, 2, lambda i, c: c, result)


EXPLICIT, AUTO = AxisType.Explicit, AxisType.Auto
ON_SOME = {
    "explicit": ((8,), (EXPLICIT,)),
    "explicit and auto": ((4, 2), (EXPLICIT, AUTO)),
    "auto and explicit": ((4, 2), (AUTO, EXPLICIT)),
}


def on_mesh(kind, layout):
    """An array of eight by eight, without and with a placement: a function of the names of the mesh axes."""
    shape, types = ON_SOME[kind]
    mesh = jax.make_mesh(shape, ("x", "y")[: len(shape)], axis_types=types)
    whole = nx.named(jnp.arange(64.0).reshape(8, 8) / 7, ["a", "b"])
    return whole, nx.shard(whole, {"kept": {"b": mesh.axis_names}, "scanned": {"a": mesh.axis_names}}[layout], mesh)


WIDE = {
    "fold of a number": lambda x: nx.fold(lambda c, v: c + v, np.float64(0.5), x, axis="a"),
    "fold of an array": lambda x: nx.fold(lambda c, v: c + v, np.zeros(()), x, axis="a"),
    "scan of several": lambda x: nx.scan(lambda c, v: ((c[0] + v, c[1] + 1), c[0]), (np.zeros(()), np.int64(3)), x, axis="a"),
    "map": lambda x: nx.map(lambda both: both[0] * both[1], (x, np.float64(2.5)), axis="a"),
}


@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", ["kept", "scanned"])
@pytest.mark.parametrize("kind", ON_SOME)
@pytest.mark.parametrize("name", WIDE)
def test_numbers_of_64_bits_of_numpy(name, kind, layout):
    whole, placed = on_mesh(kind, layout)
    for _ in range(2):
        for have, want in zip(jax.tree.leaves(WIDE[name](placed)), jax.tree.leaves(WIDE[name](whole)), strict=True):
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have, want, rtol=1e-6)


def test_integers_that_do_not_fit_are_an_error_of_the_loop():
    _, placed = on_mesh("explicit", "kept")
    for value in (0, 2**40, 1):
        call = lambda value=value: nx.fold(lambda c, v: c + nx.sum(v > 1, "b"), np.int64(value), placed, axis="a")  # noqa: E731
        if value > 2**31:
            with pytest.raises(nx.errors.ArgumentError, match="fold: the integer 1099511627776 does not fit"):
                call()
        else:
            assert int(call()) == value + 56


MISTAKES = {
    "a carry of another dtype": (
        lambda x: nx.fold(lambda c, v: c * 1 + v, True, x, axis="a"),
        nx.errors.ArgumentTypeError,
        "fold: the carry, .* goes into the body as bool and comes out as float32",
    ),
    "an axis that is not there": (
        lambda x: nx.scan(lambda c, v: (c, v), 0.0, x, axis="q"),
        nx.errors.AxisNotFoundError,
        "scan: .*'q'",
    ),
    "branches of two trees": (lambda x: nx.cond(True, lambda v: v, lambda v: (v, v), x), nx.errors.ArgumentTypeError, "cond: "),
    "an error of the user": (
        lambda x: nx.fold(lambda c, v: c + [][0], 0.0, x, axis="a"),
        IndexError,
        "list index out of range",
    ),
}


@pytest.mark.fast(3)
@pytest.mark.parametrize("kind", ON_SOME)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_those_of_arrays_without_placement(name, kind):
    call, error, message = MISTAKES[name]
    for x in on_mesh(kind, "kept"):
        with pytest.raises(error, match=message):
            call(x)
