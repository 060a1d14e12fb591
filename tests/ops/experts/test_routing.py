"""Routing and its losses against plain `jnp`, over names that are sharded or not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    NamedAxesLeftError,
    PositionalAxisError,
)
from namedax.hlo import summary
from tests import make
from tests.harness import FEW, Placement, array, check, make_mesh

FIELDS = ("index", "weight", "probabilities")


def named(logits, k=2, normalize=True):
    routing = nx.nn.top_k_routing(logits, "a", k, normalize=normalize)
    return {
        **{field: getattr(routing, field) for field in FIELDS},
        "balance": nx.nn.load_balancing_loss(routing, "b"),
        "z": nx.nn.router_z_loss(logits, "a", ("b", "c")),
    }


def plain(logits, k=2, normalize=True):
    """Of `[b, a, c]`, with the experts along `a`: the axes of `named`'s results are `[b, c, ...]`."""
    logits = logits.transpose(0, 2, 1)
    p = jax.nn.softmax(logits)
    weight, index = jax.lax.top_k(p, k)
    if normalize:
        weight = weight / weight.sum(-1, keepdims=True)
    share = jax.nn.one_hot(index, 8).mean((0, 2))
    return {
        "index": index,
        "weight": weight,
        "probabilities": p,
        "balance": 8 * jnp.sum(share * p.mean(0), -1),
        "z": jnp.mean(jax.nn.logsumexp(logits, -1) ** 2),
    }


OUT_AXES = {
    "index": ["b", "c", "choice"],
    "weight": ["b", "c", "choice"],
    "probabilities": ["b", "c", "a"],
    "balance": ["c"],
    "z": [],
}


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("placement", [*FEW, Placement("tokens", (4, 2), (("b", ("y",)), ("c", None)))], ids=str)
def test_placements(placement):
    check(named, plain, [array(4, 8, 3)], (["b", "a", "c"],), OUT_AXES, placement)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize(("k", "normalize"), [(1, True), (1, False), (8, False)])
def test_choices(k, normalize):
    logits = array(4, 8, 3)
    have = named(nx.named(logits, ["b", "a", "c"]), k, normalize)
    want = plain(logits, k, normalize)
    for name, axes in OUT_AXES.items():
        value = nx.positional(have[name], axes) if axes else have[name]
        np.testing.assert_allclose(value, want[name], rtol=1e-5, atol=1e-6)


def test_of_equal_experts_the_lower_number_comes_first():
    logits = nx.named(make.array([[0.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]), ["token", "route"])
    for resources in ({}, {"route": "x"}, {"token": "x"}):
        f = nx.xmap(lambda x: nx.nn.top_k_routing(x, "route", 2).index, axis_resources=resources, mesh=make_mesh((2,)))
        assert nx.positional(f(logits), ["token", "choice"]).tolist() == [[1, 2], [0, 1]]


def test_a_routing_is_a_pytree():
    routing = nx.nn.top_k_routing(nx.named(array(4, 8), ["token", "route"]), "route", 3, choice="nth")
    assert (routing.experts, routing.route, routing.choice) == (8, "route", "nth")
    leaves, tree = jax.tree.flatten(routing)
    assert len(leaves) == 3
    again = jax.jit(lambda routing: jax.tree.map(lambda x: x, routing))(jax.tree.unflatten(tree, leaves))
    assert (again.experts, again.choice, again.weight.dims) == (8, "nth", ("token", "nth"))


@pytest.mark.fast(0)
def test_even_choices_cost_one_and_equal_ones_as_many_as_there_are():
    for rows, want in ((60 * make.eye(4), 1), (jnp.full((5, 4), -60.0).at[:, 2].set(0), 4)):
        routing = nx.nn.top_k_routing(nx.named(rows, ["token", "route"]), "route", 1)
        np.testing.assert_allclose(nx.nn.load_balancing_loss(routing, "token"), want, rtol=1e-5)


def mixtral(logits, k, mask=None):
    """A transcription of Hugging Face's `load_balancing_loss_func`: logits[layer, token, expert], one mask[token] for all layers."""
    _, tokens, experts = logits.shape
    mask = np.ones(tokens) if mask is None else mask
    choices, probabilities, rows = np.zeros(experts), np.zeros(experts), 0.0
    for layer in logits:
        weights = np.exp(layer - layer.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        chosen = np.argsort(-weights, -1, kind="stable")[:, :k]
        for token in range(tokens):
            for expert in chosen[token]:
                choices[expert] += mask[token]
        probabilities += (weights * mask[:, None]).sum(0)
        rows += mask.sum()
    return experts * ((choices / rows) * (probabilities / rows)).sum()


@pytest.mark.full(2)
@pytest.mark.fast(2)
@pytest.mark.parametrize("resources", [{}, {"b": "x"}, {"b": "y", "a": "x"}, {"route": "x"}, {"layers": "y"}], ids=str)
def test_the_normalization_of_mixtral(resources):
    """Over a batch {b, a} of tokens, jointly over layers, with and without an attention mask; padding may be on another device."""

    def body(logits, mask):
        routing = nx.nn.top_k_routing(logits, "route", 2)
        joint = functools.partial(nx.nn.load_balancing_loss, routing, ("layers", "b", "a"), normalization="mixtral")
        one = nx.nn.load_balancing_loss(routing, ("b", "a"), where=mask)
        return joint(), joint(where=mask), one

    logits, lengths = array(2, 4, 8, 4), np.array([8, 3, 5, 1])
    mask = np.arange(8) < lengths[:, None]
    f = nx.xmap(
        body,
        (["layers", "b", "a", "route"], ["b", "a"]),
        ([], [], ["layers"]),
        axis_resources=resources,
        mesh=make_mesh((4, 2)),
    )
    flat = np.asarray(logits, float).reshape(2, 32, 4)
    have = f(logits, jnp.asarray(mask))
    np.testing.assert_allclose(have[0], mixtral(flat, 2), rtol=1e-5)
    np.testing.assert_allclose(have[1], mixtral(flat, 2, mask.reshape(-1)), rtol=1e-5)
    np.testing.assert_allclose(have[2], [mixtral(layer[None], 2, mask.reshape(-1)) / 2 for layer in flat], rtol=1e-5)


def test_costs():
    def body(logits):
        routing = nx.nn.top_k_routing(logits, "route", 2)
        return nx.nn.load_balancing_loss(routing, ("b", "a"))

    f = nx.xmap(body, ["b", "a", "route"], [], axis_resources={"b": "x", "a": "y"}, mesh=make_mesh((4, 2)))
    logits = array(4, 8, 16)
    forward, gradient = (summary(g.lower(logits).compile()) for g in (f, jax.jit(jax.grad(f))))
    assert forward.keys() == gradient.keys() == {"all-reduce"}
    # The shares and the mean probabilities; the gradient needs the shares only.
    assert (forward["all-reduce"][1], gradient["all-reduce"][1]) == (2 * 4 * 16, 4 * 16)
    assert summary(nx.xmap(functools.partial(nx.nn.router_z_loss, axis="route", over="a"), ["b", "a", "route"], ["b"],
                   axis_resources={"b": "x"}, mesh=make_mesh((4, 2))).lower(logits).compile()) == {}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, r: nx.nn.top_k_routing(x, "expert", 2), AxisNotFoundError, ["top_k_routing: no axis 'expert'"]),
        (lambda x, r: nx.nn.top_k_routing(x, "route", 5), ArgumentError, ["k=5 is not between 1 and 4", "axis 'route'"]),
        (
            lambda x, r: nx.nn.top_k_routing(x, "route", 2, choice="token"),
            AxisNameError,
            ["choice='token'", "Pass another name"],
        ),
        (
            lambda x, r: nx.nn.load_balancing_loss(r, "batch"),
            AxisNotFoundError,
            ["load_balancing_loss: no axis 'batch'", "the tokens"],
        ),
        (
            lambda x, r: nx.nn.load_balancing_loss(r, "token", normalization="hf"),
            ArgumentError,
            ["normalization='hf' is unknown", "'mixtral'"],
        ),
        (
            lambda x, r: nx.nn.load_balancing_loss(r, "token", where=nx.ones(named_shape={"token": 3})),
            ArgumentTypeError,
            ["where must contain booleans"],
        ),
        (
            lambda x, r: nx.nn.load_balancing_loss(r, "token", where=nx.ones(named_shape={"row": 3}) > 0),
            AxisNotFoundError,
            ["no axis 'row' in the routing of", "has it"],
        ),
        (lambda x, r: nx.nn.load_balancing_loss(r, "route"), AxisNotFoundError, ["no axis 'route'", "is the router's axis"]),
        (
            lambda x, r: nx.nn.load_balancing_loss(x, "token"),
            ArgumentTypeError,
            ["routing must be a Routing, got f32", "nx.nn.top_k_routing"],
        ),
        (
            lambda x, r: nx.nn.router_z_loss(x, "rout", "token"),
            AxisNotFoundError,
            ["router_z_loss: no axis 'rout'", "Did you mean 'route'"],
        ),
        (lambda x, r: with_(r, index=r.weight), ArgumentTypeError, ["routing.index must contain integers, got f32"]),
        (
            lambda x, r: with_(r, weight=r.weight["choice", 0]),
            AxisNotFoundError,
            ["no axis 'choice' in routing.weight", "choices"],
        ),
        (
            lambda x, r: with_(r, weight=r.weight["token", 0]),
            NamedAxesLeftError,
            ["only one has 'token'", "Broadcast the other"],
        ),
        (
            lambda x, r: with_(r, index=r.index + jnp.zeros(2, int)),
            PositionalAxisError,
            ["routing.index is i32[2]", "named axes only"],
        ),
    ],
)
def test_mistakes(call, error, words):
    logits = nx.named(array(6, 4), ["token", "route"])
    with pytest.raises(error) as raised:
        call(logits, nx.nn.top_k_routing(logits, "route", 2))
    assert all(word in str(raised.value) for word in words), raised.value


def with_(routing, **changes):
    fields = {field: getattr(routing, field) for field in FIELDS} | changes
    return nx.nn.load_balancing_loss(nx.nn.Routing(**fields, experts=4), "token")
