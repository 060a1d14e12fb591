"""Equal layers of an unrolled model are lowered once, and no value, collective or line depends on it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax import SerialLoop, hlo

B, E, H, LAYERS = 8, 8, 16, 10
AXES = ([{"up": ["e", "h"], "down": ["h", "e"], "scale": ["e"]}] * LAYERS, ["b", "e"])
LAYOUTS = {
    "data": ({"x": 8}, {"b": "x"}),
    "tensors": ({"x": 4}, {"h": "x"}),
    "both": ({"x": 4, "y": 2}, {"b": "x", "h": "y"}),
    "in steps": ({"x": 4}, {"b": ("x", SerialLoop(2))}),
}


def layer(x, p, factor=0.5):
    y = nx.nn.rms_norm(x, "e", scale=p["scale"])
    hidden = nx.nn.silu(nx.dot(y, p["up"], "e")) * factor
    return nx.nn.softmax(x + nx.dot(hidden, p["down"], "h"), "e")


def plain_layer(x, p, factor=0.5):
    y = x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * p["scale"]
    return jax.nn.softmax(x + (jax.nn.silu(y @ p["up"]) * factor) @ p["down"])


def repeated(params, x):
    for p in params:
        x = layer(x, p)
    return nx.mean(nx.sum(x**2, "e"), "b")


def plain_repeated(params, x):
    for p in params:
        x = plain_layer(x, p)
    return (x**2).sum(-1).mean()


def arguments(seed=0):
    random = np.random.default_rng(seed)
    shapes = {"up": (E, H), "down": (H, E), "scale": (E,)}
    params = [
        {key: jnp.asarray(random.normal(size=shape), jnp.float32) for key, shape in shapes.items()} for _ in range(LAYERS)
    ]
    return params, jnp.asarray(random.normal(size=(B, E)), jnp.float32)


def mesh_of(layout, kind="auto"):
    shape, _ = LAYOUTS[layout]
    return jax.make_mesh(tuple(shape.values()), tuple(shape), axis_types=(getattr(AxisType, kind.capitalize()),) * len(shape))


def mapped(f, layout, kind="auto", is_outside=False, layers=LAYERS):
    """Value and gradient, taken inside of the mapped function or of it."""
    axes = (AXES[0][:layers], AXES[1])
    map_ = functools.partial(nx.xmap, in_axes=axes, axis_resources=LAYOUTS[layout][1], mesh=mesh_of(layout, kind))
    if is_outside:
        return jax.jit(jax.value_and_grad(map_(f, out_axes=[]), (0, 1)))
    return map_(jax.value_and_grad(f, (0, 1)), out_axes=([], axes))


def check(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4 * np.abs(b).max())


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("is_outside", [False, True])
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_gradients(layout, kind, is_outside):
    args = arguments()
    check(mapped(repeated, layout, kind, is_outside)(*args), jax.value_and_grad(plain_repeated, (0, 1))(*args))


# Of a gradient inside of the body, two products of each layer stand between equal parts.
@pytest.mark.fast(0)
@pytest.mark.parametrize(("is_outside", "most"), [(False, 2), (True, 0)])
def test_a_layer_adds_calls_to_the_text_and_not_its_six_products(is_outside, most):
    def products(layers):
        params, x = arguments()
        f = mapped(repeated, "both", is_outside=is_outside, layers=layers)
        return f.lower(params[:layers], x).as_text().count("dot_general")

    assert products(LAYERS) - products(LAYERS - 3) <= 3 * most


@pytest.mark.fast(0)
def test_the_same_is_sent():
    sent = hlo.collectives(mapped(repeated, "tensors").lower(*arguments()).compile())
    # `x` after each layer, and its gradient before
    assert sum(one.bytes for one in sent if one.kind == "all-reduce") == 2 * LAYERS * B * E * 4


# Programs whose layers look alike and are not.


def with_other_numbers(layer, params, x):
    for i, p in enumerate(params):
        x = layer(x, p, 0.1 * (i % 3))
    return x


def with_signed_zeros(layer, params, x):
    for i, p in enumerate(params):
        x = layer(x, p, -0.0 if i % 2 else 0.0) * (-0.0 if i == LAYERS - 1 else 1.0)
    return x


def with_shared_parameters(layer, params, x):
    for p in params:
        x = layer(x, p) + 0.1 * layer(x, params[3])
    return x


def with_an_early_value(layer, params, x):
    first = None
    for p in params:
        x = layer(x, p) if first is None else layer(x, p) + first
        first = x if first is None else first
    return x


def with_all_values(layer, params, x):
    found = [x]
    for i, p in enumerate(params):
        found.append(layer(found[-1], p) + (found[-3] if i > 4 and i % 2 else 0))
    return sum(found[1:], start=found[0])


def with_swapped_operands(layer, params, x):
    y = x
    for i, p in enumerate(params):
        x, y = (layer(x, p) - y, x) if i % 2 else (y - layer(x, p), x)
    return x + y


def with_scopes(layer, params, x):
    for i, p in enumerate(params):
        with jax.named_scope(f"layer{i}"):
            x = layer(x, p)
    return x


ALIKE = [
    with_other_numbers,
    with_signed_zeros,
    with_shared_parameters,
    with_an_early_value,
    with_all_values,
    with_swapped_operands,
    with_scopes,
]


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("is_outside", [False, True])
@pytest.mark.parametrize("program", ALIKE)
def test_layers_that_look_alike(program, is_outside):
    args = arguments(1)

    def f(params, x):
        return nx.mean(nx.sum(nx.sin(program(layer, params, x)), "e"), "b")

    def plain(params, x):
        return jnp.sin(program(plain_layer, params, x)).sum(-1).mean()

    check(mapped(f, "both", is_outside=is_outside)(*args), jax.value_and_grad(plain, (0, 1))(*args))


@pytest.mark.fast(0)
@pytest.mark.parametrize("layers", [8, 9])
def test_runs_that_meet_within_a_layer(layers):
    """The last equations of one run are not the first ones of the next one."""

    def f(params, x):
        for p in params:
            x = x + nx.dot(nx.nn.relu(nx.dot(x, p["up"], "e")), p["down"], "h")
        return nx.mean(nx.square(x), ("b", "e"))

    def plain(params, x):
        for p in params:
            x = x + jax.nn.relu(x @ p["up"]) @ p["down"]
        return (x**2).mean()

    params, x = arguments()
    params = jax.tree.map(lambda w: w / 8, params[:layers])
    check(mapped(f, "both", layers=layers)(params, x), jax.value_and_grad(plain, (0, 1))(params, x))


def test_a_result_keeps_its_sign():
    f = nx.xmap(
        functools.partial(with_signed_zeros, layer), AXES, AXES[1], axis_resources=LAYOUTS["data"][1], mesh=mesh_of("data")
    )
    assert np.signbit(f(*arguments(1))).all()


def test_scopes_stay():
    def f(params, x):
        return nx.mean(nx.sum(with_scopes(layer, params, x), "e"), "b")

    text = mapped(f, "data").lower(*arguments()).as_text(debug_info=True)
    assert all(f"layer{i}" in text for i in range(LAYERS))


@pytest.mark.fast(0)
def test_what_is_printed_stays(capfd):
    def f(params, x):
        for p in params:
            x = layer(x, p)
            nx.debug.print("{}", nx.sum(x, ...))
        return nx.sum(x, ...)

    nx.xmap(f, AXES, [], axis_resources=LAYOUTS["data"][1], mesh=mesh_of("data"))(*arguments())
    jax.effects_barrier()
    assert len(capfd.readouterr().out.splitlines()) == LAYERS
