"""Linear attention and the gated delta rule against their recurrences, position by position."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.hlo import collectives
from tests import make
from tests.harness import PARTITIONER, PLACEMENTS, Placement, array, check, make_mesh

linear, delta = nx.nn.linear_attention, nx.nn.gated_delta_rule
E = nx.errors
NAMES = {"axis": "a", "features": "d"}

# Positions a (8), heads b (4), features d (5) and e (6).
Q, K, V = (np.asarray(x) for x in (array(8, 4, 5), array(8, 5, seed=1), array(8, 4, 6, seed=2)))
STATE = np.asarray(array(4, 5, 6, seed=3))
BETA, BY_HEAD, BY_FEATURE = (abs(np.asarray(array(*shape, seed=4))) / 2 for shape in ((8, 4), (8, 4), (8, 5)))
SEGMENTS = np.array([2, 2, 5, -1, -1, 5, 2, 2])
AXES = {
    "query": ["a", "b", "d"], "key": ["a", "d"], "value": ["a", "b", "e"], "state": ["b", "d", "e"], "beta": ["a", "b"],
    "by_head": ["a", "b"], "by_feature": ["a", "d"], "constant": ["b"], "segments": ["a"],
}  # fmt: skip
ARRAYS = {
    "query": Q, "key": K / 2, "value": V, "state": STATE, "beta": BETA, "by_head": -BY_HEAD, "by_feature": -BY_FEATURE,
    "constant": -BY_HEAD[0], "segments": SEGMENTS,
}  # fmt: skip
ARRAYS = {name: make.array(value) for name, value in ARRAYS.items()}
OUT = ["a", "b", "e"], ["b", "d", "e"]
# The operands of each kind, beside query, key and value.
KINDS = {
    "plain": (),
    "by head": ("by_head", "state"),
    "by feature": ("by_feature", "segments"),
    "constant": ("constant", "state", "segments"),
    "delta": ("beta",),
    "delta by head": ("beta", "by_head", "state", "segments"),
    "delta by feature": ("beta", "by_feature", "state"),
}


def recurrence(xp, query, key, value, state=None, beta=None, segments=None, scale=1.0, **decay):
    """query[t, b, d], key[t, d], value[t, b, e]: one position after another."""
    (decay,) = decay.values() or (None,)
    size, heads = query.shape[:2]
    state = xp.zeros((heads, key.shape[-1], value.shape[-1])) if state is None else state
    results, last = [], None
    for t in range(size):
        if segments is not None and (number := segments[t]) < 0:
            results.append(0 * value[t])
            continue
        if segments is not None:
            state, last = (state if last in (None, number) else 0 * state), number
        if decay is not None:
            rate = decay if decay.ndim == 1 else decay[t]
            state = state * xp.exp(rate[:, None, None] if len(rate) == heads else rate[None, :, None])
        change = value[t]
        if beta is not None:
            change = beta[t][:, None] * (value[t] - xp.einsum("d,bde->be", key[t], state))
        state = state + key[t][None, :, None] * change[:, None, :]
        results.append(scale * xp.einsum("bd,bde->be", query[t], state))
    return xp.stack(results), state


def given(kind, arrays=ARRAYS):
    names = ["query", "key", "value", *KINDS[kind]]
    return names, [arrays[name] for name in names]


def by_name(kind, **options):
    names, _ = given(kind)

    def body(*args):
        operands = dict(zip(names, args, strict=True))
        decay = [operands.pop(name) for name in ("by_head", "by_feature", "constant") if name in operands]
        operands |= {"decay": decay[0]} if decay else {}
        more = {"scale": 0.5, "return_state": True, "chunk_size": 3} | options
        return (delta if "beta" in operands else linear)(**operands, **more, **NAMES)

    return body


def oracle(kind):
    names, _ = given(kind)

    def run(*args):
        operands = dict(zip(names, args, strict=True))
        operands |= {"segments": SEGMENTS} if "segments" in operands else {}
        return recurrence(jnp, **operands, scale=0.5)

    return jax.jit(run)


def check_kind(kind, placement, **options):
    names, args = given(kind)
    check(by_name(kind, **options), oracle(kind), args, tuple(AXES[name] for name in names), OUT, placement, tol=5e-5)


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("placement", [*PLACEMENTS, PARTITIONER[0], PARTITIONER[3]], ids=str)
def test_values_and_gradients(placement, kind):
    check_kind(kind, placement)


# Mesh axes of other names, sizes that do not divide, and steps.
LAYOUTS = {
    "values and positions": Placement("", (4, 2), (("e", "y"), ("a", "x"))),
    "features": Placement("", (4, 2), (("d", "x"),), "explicit"),
    "features and positions": Placement("", (4, 2), (("a", "x"), ("d", "y"))),
    "uneven positions": Placement("", (3,), (("a", "x"),), "explicit"),
    "blocks of padding": Placement("", (5,), (("a", "x"),)),
    "uneven heads": Placement("", (3,), (("b", "x"),)),
    "steps and positions": Placement("", (2,), (("a", ("x", nx.SerialLoop(2))),)),
    "steps of heads": Placement("", None, (("b", nx.SerialLoop(2)),)),
    "global shapes, heads": Placement("", (4, 2), (("b", "x"),), partitioning="global"),
    "global shapes, positions": Placement("", (4, 2), (("a", "x"), ("e", "y")), partitioning="global"),
}


@pytest.mark.full(2)
@pytest.mark.fast(0)
@pytest.mark.parametrize("kind", ["by feature", "delta by head"])
@pytest.mark.parametrize("label", LAYOUTS)
def test_layouts(label, kind):
    check_kind(kind, LAYOUTS[label])


LONG = {
    name: np.random.default_rng(i).normal(size=shape)
    for i, (name, shape) in enumerate({"query": (83, 4, 5), "key": (83, 5), "value": (83, 4, 6), "state": (4, 5, 6)}.items())
}
LONG["key"] /= np.linalg.norm(LONG["key"], axis=-1, keepdims=True)
LONG |= {"beta": np.random.default_rng(5).random((83, 4)), "by_head": -3 * np.random.default_rng(6).random((83, 4)) ** 4}
LONG |= {"by_feature": np.where(np.arange(83)[:, None] % 9 == 4, -np.inf, -9 * np.random.default_rng(7).random((83, 5)) ** 2)}
LONG |= {"segments": np.repeat([3, 3, -1, 4, 5, -1, 5, 7, 7], 10)[:83], "constant": np.array([-0.1, -1.0, -9.0, 0.0])}


@pytest.mark.fast(2)
@pytest.mark.full(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk_size", [1, 5, 32, 200])
def test_chunks(kind, chunk_size):
    """Several chunks of several blocks, against NumPy's float64. A decay of minus infinity starts anew."""
    names, args = given(kind, LONG)
    want = recurrence(np, **dict(zip(names, args, strict=True)), scale=0.5)
    named = [
        nx.named(jnp.asarray(x, None if name == "segments" else jnp.float32), AXES[name])
        for name, x in zip(names, args, strict=True)
    ]
    have = by_name(kind, chunk_size=chunk_size)(*named)
    for x, y, axes in zip(have, want, OUT, strict=True):
        np.testing.assert_allclose(nx.positional(x, axes), y, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["constant", "delta by head"])
def test_parts_with_a_state(kind):
    """A sequence in parts, the last of which are single positions with and without their axis."""
    names, args = given(kind)
    named = {name: nx.named(x, AXES[name]) for name, x in zip(names, args, strict=True)}
    want, last = by_name(kind)(*named.values())
    results = []
    for part in (slice(0, 5), slice(5, 6), slice(6, 7), 7):
        operands = {name: x["a", part] if "a" in x.dims else x for name, x in named.items()}
        y, named["state"] = by_name(kind)(*operands.values())
        assert y.dims == (("a", "b", "e") if isinstance(part, slice) else ("b", "e"))
        results.append(y if isinstance(part, slice) else nx.named(y.data[None], ["a", "b", "e"]))
        if "segments" in named and part == slice(5, 6):
            named["segments"] = named["segments"] * 0  # the first sequence of a part continues the state
            named["state"] = named["state"] * 0
    np.testing.assert_allclose(nx.concatenate(results, "a").data, want.data, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(named["state"].data, last.data, rtol=1e-4, atol=1e-5)


def on_devices(q, k, v, beta, decay):
    """The delta rule by hand, in a body of `jax.shard_map` over four blocks of positions: maps of states go one device on, then two."""
    values, identity = jnp.zeros((4, 5, 6)), jnp.broadcast_to(jnp.eye(5), (4, 5, 5))
    values, identity = (jax.lax.pcast(x, "x", to="varying") for x in (values, identity))
    _, added = recurrence(jnp, q, k, v, values, beta, decay=decay)
    _, factor = recurrence(jnp, q, k, jnp.zeros((*v.shape[:2], 5)), identity, beta, decay=decay)
    one, two = ([(i, i + n) for i in range(4 - n)] for n in (1, 2))
    added_before, factor_before = (jax.lax.ppermute(x, "x", one) for x in (added, factor))  # zeros on the first device
    earlier = jax.lax.ppermute(factor @ added_before + added, "x", two)
    state = factor_before @ earlier + added_before
    return recurrence(jnp, q, k, v, state, beta, decay=decay)[0]


@pytest.mark.fast(0)
def test_only_states_are_sent():
    mesh = make_mesh((4,))
    args = [ARRAYS[name] for name in ("query", "key", "value", "beta", "by_head")]
    spec = jax.sharding.PartitionSpec("x")
    by_hand = jax.shard_map(on_devices, mesh=mesh, in_specs=spec, out_specs=spec)
    axes = tuple(AXES[name] for name in ("query", "key", "value", "beta", "by_head"))
    body = lambda q, k, v, beta, decay: delta(q, k, v, beta=beta, decay=decay, **NAMES)  # noqa: E731
    named = nx.xmap(body, axes, OUT[0], axis_resources={"a": "x"}, mesh=mesh)

    def sent(f):
        gradients = jax.jit(jax.value_and_grad(lambda *args: jnp.sum(jnp.sin(f(*args))), (0, 1, 2, 3, 4)))
        compiled = gradients.lower(*args).compile()
        found = collectives(compiled)
        return compiled(*args), sorted((one.kind, one.bytes) for one in found if one.bytes > 8)

    (want, have), (by_hand, by_name) = zip(sent(by_hand), sent(named), strict=True)
    matrix, state = (4 * 5 * n * Q.dtype.itemsize for n in (5, 6))  # of four heads
    # The matrices of the last round are not used.
    assert by_name == by_hand == [("collective-permute", size) for size in 2 * [matrix] + 4 * [state]]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4), have, want)


@pytest.mark.full(2)
@pytest.mark.fast(1)
@pytest.mark.parametrize("function", [linear, delta])
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_placed_arrays_outside_of_bodies(function, kind):
    mesh, resources = make_mesh((3, 2), kind), {"a": "x", "b": "y"}
    more = {"beta": 0.5} if function is delta else {}
    named = {name: nx.named(ARRAYS[name], AXES[name]) for name in ("query", "key", "value", "by_head")}

    def placed(x):
        return nx.shard(x, {name: axis for name, axis in resources.items() if name in x.dims}, mesh, padded=True)

    def run(query, key, value, by_head):
        return nx.positional(function(query, key, value, decay=by_head, **more, **NAMES), OUT[0])

    have = run(**{name: placed(x) for name, x in named.items()})
    np.testing.assert_allclose(have, run(**named), rtol=1e-4, atol=1e-5)


def test_grouped_heads_positional_axes_and_scales():
    """Heads that share keys, a batch by position, and a scale by name."""
    q, k, scale = array(2, 8, 3, 5), array(8, 3, 5, seed=1) / 3, abs(array(3, seed=5))
    v = array(8, 3, 4, 6, seed=2)
    named = map(nx.named, (q, k, v), ([None, "a", "g", "d"], ["a", "g", "d"], ["a", "g", "b", "e"]))
    decay, scales = nx.named(-BY_HEAD, ["a", "b"]), nx.named(scale, ["g"])
    y = delta(*named, beta=0.5, decay=decay, scale=scales, **NAMES)
    assert y.shape == (2,)
    for i, j in ((0, 0), (1, 2)):
        query = np.broadcast_to(np.asarray(q)[i, :, j, None], (8, 4, 5))
        more = {"beta": np.full((8, 4), 0.5), "by_head": -np.asarray(BY_HEAD), "scale": float(scale[j])}
        want, _ = recurrence(np, query, np.asarray(k)[:, j], np.asarray(v)[:, j], **more)
        have = nx.positional(y["g", j], [None, "a", "b", "e"])[i]
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["by feature", "delta"])
def test_bfloat16(kind):
    """States, sums and the returned state are float32."""
    names, args = given(kind)
    low = [x.astype(jnp.bfloat16) if name in ("query", "key", "value") else x for name, x in zip(names, args, strict=True)]
    y, state = by_name(kind)(*(nx.named(x, AXES[name]) for name, x in zip(names, low, strict=True)))
    assert (y.dtype, state.dtype) == (jnp.bfloat16, jnp.float32)
    want, last = oracle(kind)(*(x.astype(args[0].dtype) if x.dtype == jnp.bfloat16 else x for x in low))
    np.testing.assert_allclose(y.data.astype(jnp.float32), want, rtol=0.01, atol=0.01)
    np.testing.assert_allclose(state.data, last, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [linear, delta])
def test_no_positions(function):
    q, k, v, state = (nx.named(ARRAYS[name], AXES[name]) for name in ("query", "key", "value", "state"))
    q, k, v = (x["a", :0] for x in (q, k, v))
    more = {"beta": 0.5} if function is delta else {}
    y, last = function(q, k, v, state=state, return_state=True, **more, **NAMES)
    assert y.named_shape == {"a": 0, "b": 4, "e": 6}
    np.testing.assert_array_equal(last.data, state.data)


MISTAKES = {
    "no positions in the key": ({"key": ("key", ["t", "d"])}, E.AxisNotFoundError, ["no axis 'a' in key", "'t', 'd'"]),
    "no positions": (
        {"query": ("query", ["t", "b", "d"]), "key": ("key", ["t", "d"]), "value": ("value", ["t", "b", "e"])},
        E.AxisNotFoundError,
        ["no axis 'a' in query", "For one position without this axis, pass state=."],
    ),
    "no features": ({"query": ("query", ["a", "b", "f"])}, E.AxisNotFoundError, ["no axis 'd' in query"]),
    "no features in the state": ({"state": ("state", ["b", "f", "e"])}, E.AxisNotFoundError, ["no axis 'd' in state"]),
    "features of the value": (
        {"value": ("query", ["a", "b", "d"])},
        E.AxisNameError,
        ["value, f32[]{a:8, b:4, d:5}, has the axis 'd'", "nx.rename(value, {'d': 'other'})"],
    ),
    "positions in the state": ({"state": ("query", ["a", "b", "d"])}, E.AxisNameError, ["state, f32", "has the axis 'a'"]),
    "features of segments": ({"segments": ("segments", ["d"])}, E.AxisNameError, ["segments, i32", "has the axis 'd'"]),
    "float segments": ({"segments": ("by_head", ["a", "b"])}, E.ArgumentTypeError, ["segments must contain integers, got f32"]),
    "booleans": (
        {"decay": (np.ones(8, bool), ["a"])},
        E.ArgumentTypeError,
        ["decay must contain floating-point numbers", "bool"],
    ),
    "sizes": (
        {"key": ("query", ["b", "a", "d"])},
        E.AxisSizeError,
        ["axis 'b' has size 4 in operand 0", "size 8 in operand 1"],
    ),
    "chunks": ({"chunk_size": 0}, E.ArgumentError, ["chunk_size must be a positive integer, got 0."]),
    "no name": ({"axis": 0}, E.AxisNameError, ["axis=0 is not an axis name"]),
    "one name": ({"features": "a"}, E.AxisNameError, ["axis= and features= are both 'a'"]),
}


@pytest.mark.parametrize("label", MISTAKES)
def test_mistakes(label):
    changes, error, words = MISTAKES[label]
    options = {name: (name, AXES[name]) for name in ("query", "key", "value")} | NAMES | changes
    for name, given in options.items():
        if isinstance(given, tuple):
            data = ARRAYS[given[0]] if isinstance(given[0], str) else jnp.asarray(given[0])
            options[name] = nx.named(data, given[1])
    for function, more in ((linear, {}), (delta, {"beta": 1.0})):
        with pytest.raises(error) as raised:
            function(**options, **more)
        text = str(raised.value).replace("f64", "f32").replace("i64", "i32")
        assert all(word in text for word in (function.__name__, *words)), text


@pytest.mark.parametrize("function", [linear, delta])
def test_two_axes_of_the_state_on_one_mesh_axis(function):
    more = {"beta": 0.5} if function is delta else {}
    body = lambda *args: function(*args, return_state=True, **more, **NAMES)  # noqa: E731
    axes = tuple(AXES[name] for name in ("query", "key", "value"))
    f = nx.xmap(body, axes, OUT, axis_resources={"d": "x", "e": "x"}, mesh=make_mesh((2,)))
    with pytest.raises(E.PlacementConflictError, match=r"'[de]'"):
        f(Q, K, V)
