"""Mixtures of experts against a loop over tokens in NumPy, their gradients against dense `jnp`, and what they send by hand."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisResourceError,
    AxisSizeError,
    PlacementConflictError,
)
from namedax.hlo import summary
from tests import make
from tests.harness import FEW, PARTITIONER, Placement, array, check, make_mesh

EMBED, HIDDEN, OUT = 6, 4, 5
PARAMS = (["expert", "embed", "hidden"], ["expert", "hidden", "out"], ["expert", "out"])


def expert(params, x):
    """Two layers, the second with a bias: an empty slot has a result too."""
    w, v, b = params
    return nx.dot(nx.tanh(nx.dot(x, w, "embed")), v, "hidden") + b


def plain_expert(params, x):
    """All experts of all tokens: the result is `[..., expert, out]`."""
    w, v, b = params
    return jnp.einsum("...eh,eho->...eo", jnp.tanh(jnp.einsum("...d,edh->...eh", x, w)), v) + b


def parameters(experts):
    return array(experts, EMBED, HIDDEN, seed=1), array(experts, HIDDEN, OUT, seed=2), array(experts, OUT, seed=3)


def kept(index, capacity):
    """Which choices `[groups, tokens, k]` are within the capacity: a loop over choices, then tokens."""
    result = np.ones(index.shape, bool)
    for g, group in enumerate(np.asarray(index)):
        used = {}
        for k in range(index.shape[2]):
            for t in range(index.shape[1]):
                e = int(group[t, k])
                result[g, t, k] = capacity is None or used.get(e, 0) < capacity
                used[e] = used.get(e, 0) + 1
    return result


def dense(index, mask):
    """The oracle: all experts on all tokens, `[..., embed]`, masked by what was chosen, `[..., k]`, and by what was kept."""

    def mixture(w, v, b, x, logits):
        p = jax.nn.softmax(logits)
        weight = jnp.take_along_axis(p, index, -1)
        weight = weight / weight.sum(-1, keepdims=True)
        share = jnp.sum(jnp.where(mask, weight, 0)[..., None] * jax.nn.one_hot(index, logits.shape[-1]), -2)
        return jnp.einsum("...eo,...e->...o", plain_expert((w, v, b), x), share)

    return mixture


def mixture(w, v, b, x, logits, *, k=2, tokens="a", **options):
    routing = nx.nn.top_k_routing(logits, "route", k)
    return nx.nn.mixture_of_experts(expert, (w, v, b), x, routing, tokens=tokens, **options)


def on(label, shape, kind="auto", **resources):
    return Placement(label, shape, tuple(resources.items()), kind)


WHERE = [
    *(p for p in FEW if p.label in ("unmapped", "one-each", "both")),  # the others are much like some of these
    on("own", (4, 2), b="x", expert="y"),
    on("exchanged", (4, 2), b="x", expert="x"),
    on("exchanged", (4, 2), "explicit", b="x", expert="x", hidden="y"),
    on("exchanged-and-own", (4, 2), b="x", expert=("x", "y")),
    on("own-and-exchanged", (4, 2), "explicit", b="x", expert=("y", "x")),
    on("exchanged-in-part", (2, 2), b=("y", "x"), expert="x"),
    on("both-exchanged", (2, 2), b=("x", "y"), expert=("y", "x")),
    on("tokens", (4, 2), a="x", expert="x"),
    on("tokens-and-groups", (4, 2), a="x", b="y", expert=("y", "x")),
    on("tokens-elsewhere", (4, 2), a=("y", "x"), expert="y"),
    on("features", (4, 2), embed="y", b="x", expert="x"),
    on("in-time", (2, 2), b=("x", nx.SerialLoop(2)), expert=("x", nx.SerialLoop(2))),
    *(p for p in PARTITIONER if str(p) == "both-auto-partitioner"),
]


@pytest.mark.full(1)
@pytest.mark.fast(2)
@pytest.mark.parametrize("placement", WHERE, ids=str)
def test_placements(placement):
    logits = 2 * array(4, 8, 8, seed=5)
    args = (*parameters(8), array(4, 8, EMBED, seed=4), logits)
    index = jax.lax.top_k(logits, 2)[1]

    def both(make):
        # With a capacity that drops some, and in rounds of which there are several.
        return lambda *args: {capacity: make(capacity)(*args) for capacity in ("some", "all")}

    named = both(lambda capacity: functools.partial(mixture, **({"capacity": 3} if capacity == "some" else {"chunk": 2})))
    plain = both(lambda capacity: dense(index, kept(index, 3 if capacity == "some" else None)))
    axes = (*PARAMS, ["b", "a", "embed"], ["b", "a", "route"])
    check(named, plain, args, axes, ["b", "a", "out"], placement)


UNEVEN = [
    on("tokens", (3,), a="x"),
    *(
        pytest.param(p, marks=pytest.mark.fast(0))
        for p in (
            on("groups-and-experts", (8,), b="x", expert="x"),
            on("tokens-and-experts", (3, 2), "explicit", a="x", expert=("y", "x")),
            on("both", (2, 3), a="x", b="y", expert="y"),
            on("own", (3,), expert="x"),
            on("features", (2, 4), a="x", embed="y", out="y", expert="x"),
        )
    ),
]


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("placement", UNEVEN, ids=str)
def test_sizes_that_do_not_divide(placement):
    """Seven tokens, five groups and four experts: padding chooses nobody, takes no slot, and counts for nobody's capacity."""
    logits = 2 * array(5, 7, 4, seed=5)
    args = (*parameters(4), array(5, 7, EMBED, seed=4), logits)
    index = jax.lax.top_k(logits, 2)[1]

    def named(*args):
        parts = [mixture(*args, capacity=3), mixture(*args, chunk=2)]
        # Were padding zero, or anything but copies of a token, the gradient of what is multiplied would be NaN.
        return [*parts, nx.sum(nx.max(args[0], axis=...) * nx.log(nx.sum(parts[1] ** 2, "out")), ("a", "b"))]

    def plain(*args):
        parts = [dense(index, kept(index, capacity))(*args) for capacity in (3, None)]
        return [*parts, jnp.sum(jnp.max(args[0]) * jnp.log(jnp.sum(parts[1] ** 2, -1)))]

    axes = (*PARAMS, ["b", "a", "embed"], ["b", "a", "route"])
    check(named, plain, args, axes, [["b", "a", "out"], ["b", "a", "out"], []], placement)


# --- any routing ----------------------------------------------------------------------------------------------------------------


def by_hand(index, weight, x, scale, capacity):
    """One expert multiplies, in a loop over choices and tokens."""
    result = np.zeros_like(x)
    for g in range(x.shape[0]):
        used = {}
        for k in range(index.shape[2]):
            for t in range(x.shape[1]):
                e = int(index[g, t, k])
                if not 0 <= e < len(scale):
                    continue
                used[e] = used.get(e, 0) + 1
                if capacity is None or used[e] <= capacity:
                    result[g, t] += weight[g, t, k] * scale[e] * x[g, t]
    return result


@pytest.mark.full(0)
@pytest.mark.fast(0)
@hypothesis.settings(max_examples=12, deadline=None, derandomize=True)
@hypothesis.given(st.data())
def test_any_routing_under_any_placement(data):
    draw = data.draw
    tokens, experts = draw(st.sampled_from([(4, 4), (8, 8), (4, 8), (3, 5)]))
    k, capacity = draw(st.integers(1, experts)), draw(st.none() | st.integers(1, tokens))
    chunk = draw(st.none() | st.integers(1, tokens)) if capacity is None else None
    # -1 and `experts` choose nobody, and a token may choose an expert twice.
    index = np.asarray(draw(st.lists(st.integers(-1, experts), min_size=4 * tokens * k, max_size=4 * tokens * k))).reshape(
        4, tokens, k
    )
    of_batch = draw(st.sampled_from([(), ("x",), ("y",), ("y", "x")]))
    of_tokens = draw(st.sampled_from([axes for axes in [(), ("x",), ("y",), ("x", "y")] if not {*axes} & {*of_batch}]))
    of_experts = draw(st.sampled_from([(), ("x",), ("y",), ("x", "y"), ("y", "x")]))
    resources = {"b": of_batch, "a": of_tokens, "expert": of_experts}
    x, weight, scale = (np.asarray(array(*shape, seed=7)) for shape in ((4, tokens, 3), (4, tokens, k), (experts,)))

    def body(index, weight, x, scale):
        routing = nx.nn.Routing(index, weight, None, experts)
        return nx.nn.mixture_of_experts(lambda w, x: w * x, scale, x, routing, tokens="a", capacity=capacity, chunk=chunk)

    names = ["b", "a", "choice"]
    f = nx.xmap(
        body, (names, names, ["b", "a", None], ["expert"]), ["b", "a", None], axis_resources=resources, mesh=make_mesh((2, 2))
    )
    np.testing.assert_allclose(f(index, weight, x, scale), by_hand(index, weight, x, scale, capacity), rtol=1e-5, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_tokens_of_two_names_are_counted_in_the_order_given():
    index, weight, x = np.zeros((2, 4, 4, 1), int), array(2, 4, 4, 1), array(2, 4, 4, 3)

    def body(tokens, index, weight, x, scale):
        routing = nx.nn.Routing(index, weight, None, 4)
        return nx.nn.mixture_of_experts(lambda w, x: w * x, scale, x, routing, tokens=tokens, capacity=6)

    names, scale = ["g", "p", "q", "choice"], array(4)
    in_order = ({}, {"q": "x"}, {"p": "y", "q": "x"})
    reversed_order = ({"p": "x"}, {"q": ("x", "y"), "expert": "x"})
    for tokens, order, placements in ((("p", "q"), (0, 1, 2, 3), in_order), (("q", "p"), (0, 2, 1, 3), reversed_order)):
        flat = [np.asarray(a).transpose(order).reshape(2, 16, -1) for a in (index, weight, x)]
        want = by_hand(*flat, scale, 6).reshape(2, 4, 4, 3).transpose(order)
        for resources in placements:
            f = nx.xmap(
                functools.partial(body, tokens),
                (names, names, ["g", "p", "q", None], ["expert"]),
                ["g", "p", "q", None],
                axis_resources=resources,
                mesh=make_mesh((2, 2)),
            )
            np.testing.assert_allclose(f(index, weight, x, scale), want, rtol=1e-5, atol=1e-5)


# --- what is differentiated, and where --------------------------------------------------------------------------------------------


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("capacity", [None, 8])
def test_in_a_scan_of_layers_that_are_computed_again(capacity):
    w, router, x = array(3, 4, EMBED, EMBED), array(3, EMBED, 4, seed=1), array(4, 8, EMBED, seed=2)

    def body(w, router, x):
        def layer(x, p):
            w, router = p
            routing = nx.nn.top_k_routing(nx.dot(x, router, "embed"), "route", 2)
            y = nx.nn.mixture_of_experts(
                lambda w, x: nx.rename(nx.dot(x, w, "embed"), {"out": "embed"}),
                w,
                nx.tanh(x),
                routing,
                tokens="a",
                capacity=capacity,
            )
            return x + y, nx.nn.load_balancing_loss(routing, ("b", "a"))

        x, losses = nx.scan(jax.checkpoint(layer), x, (w, router))
        return nx.sum(x * x, ("b", "a", "embed")) + nx.sum(losses)

    def plain(w, router, x):
        total = 0.0
        for i in range(3):
            p = jax.nn.softmax(x @ router[i])
            weight, index = jax.lax.top_k(p, 2)
            chosen = jax.nn.one_hot(index, 4)
            total = total + 4 * jnp.sum(chosen.mean((0, 1, 2)) * p.mean((0, 1)))
            share = jnp.sum((weight / weight.sum(-1, keepdims=True))[..., None] * chosen, -2)
            x = x + jnp.einsum("bad,edo,bae->bao", jnp.tanh(x), w[i], share)
        return jnp.sum(x * x) + total

    axes = ([None, "expert", "embed", "out"], [None, "embed", "route"], ["b", "a", "embed"])
    f = nx.xmap(
        jax.value_and_grad(body, (0, 1, 2)), axes, ([], axes), axis_resources={"b": "x", "expert": "x"}, mesh=make_mesh((4,))
    )
    value, have = f(w, router, x)
    want_value, want = jax.value_and_grad(plain, (0, 1, 2))(w, router, x)
    np.testing.assert_allclose(value, want_value, rtol=1e-5)
    for h, v in zip(have, want, strict=True):
        np.testing.assert_allclose(h, v, rtol=1e-3, atol=1e-3)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"b": "x", "expert": "x"}, {"b": "x", "expert": "y"}], ids=str)
def test_what_the_function_closes_over_has_its_gradient(resources):
    index, weight, x, w, c = (
        array(4, 8, 1, kind="int") % 4,
        array(4, 8, 1),
        array(4, 8, EMBED),
        array(4, EMBED),
        array(EMBED, seed=3),
    )

    def body(index, weight, x, w, c):
        def expert(w, x):
            return nx.sin(w * x) * c

        return nx.nn.mixture_of_experts(expert, w, x, nx.nn.Routing(index, weight, None, 4), tokens="a")

    def plain(weight, x, w, c):
        return weight * jnp.sin(w[index[..., 0]] * x) * c

    names = ["b", "a", "choice"]
    axes = (names, names, ["b", "a", "embed"], ["expert", "embed"], ["embed"])
    f = nx.xmap(body, axes, axes[2], axis_resources=resources, mesh=make_mesh((4, 2)))
    have = jax.grad(lambda *args: jnp.sum(jnp.cos(f(index, *args))), (0, 1, 2, 3))(weight, x, w, c)
    want = jax.jit(jax.grad(lambda *args: jnp.sum(jnp.cos(plain(*args))), (0, 1, 2, 3)))(weight, x, w, c)
    for h, v in zip(have, want, strict=True):
        np.testing.assert_allclose(h, v, rtol=1e-4, atol=1e-5)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("capacity", [None, 4])
def test_element_types(capacity):
    x, w = array(4, 8, EMBED, seed=1), array(4, EMBED, 3, seed=2)
    routing = nx.nn.top_k_routing(nx.named(array(4, 8, 4), ["b", "a", "route"]), "route", 2)
    half = (nx.named(a.astype(jnp.bfloat16), axes) for a, axes in ((w, ["expert", "embed", "out"]), (x, ["b", "a", "embed"])))
    apply = functools.partial(
        nx.nn.mixture_of_experts, lambda w, x: nx.dot(x, w, "embed"), routing=routing, tokens="a", capacity=capacity
    )
    y, pull = jax.vjp(lambda w, x: apply(w, x), *half)
    assert y.dtype == jnp.bfloat16
    want = apply(nx.named(w, ["expert", "embed", "out"]), nx.named(x, ["b", "a", "embed"]))
    np.testing.assert_allclose(y.data.astype(float), want.data, rtol=0.05, atol=0.05)
    assert [ct.dtype for ct in pull(y)] == [jnp.bfloat16, jnp.bfloat16]


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_tokens_may_be_integers():
    # The numbers of rows of a table.
    w = array(4, EMBED, 3, seed=2)
    routing = nx.nn.top_k_routing(nx.named(array(4, 8, 4), ["b", "a", "route"]), "route", 2)
    ids = nx.named(make.arange(32).reshape(4, 8) % EMBED, ["b", "a"])
    look = functools.partial(
        nx.nn.mixture_of_experts, lambda w, x: nx.take(w, x, "embed"), x=ids, routing=routing, tokens="a", capacity=8
    )
    names = ["b", "a", "out"]
    table = nx.named(w, ["expert", "embed", "out"])
    rounds = functools.partial(look, capacity=None)
    np.testing.assert_allclose(nx.positional(look(table), names), nx.positional(rounds(table), names), rtol=1e-5)
    grads = [jax.grad(lambda w, f=f: nx.sum(nx.sin(f(w)), names))(table) for f in (look, rounds)]
    np.testing.assert_allclose(*(nx.positional(g, ["expert", "embed", "out"]) for g in grads), rtol=1e-4, atol=1e-5)


# --- costs ------------------------------------------------------------------------------------------------------------------------


def by_shard_map(capacity, experts, mesh):
    """Expert parallelism by hand: groups `[batch, tokens, features]` and experts `[expert, ...]` over "x"."""

    def local(w, v, b, x, logits):
        groups, tokens, _ = x.shape
        p = jax.nn.softmax(logits)
        weight, index = jax.lax.top_k(p, 2)
        weight = weight / weight.sum(-1, keepdims=True)
        chosen = jax.nn.one_hot(index.transpose(0, 2, 1).reshape(groups, -1), experts, dtype=jnp.int32)
        rank = jnp.sum((jnp.cumsum(chosen, 1) - chosen) * chosen, -1).reshape(groups, 2, tokens).transpose(0, 2, 1)
        rank = jnp.where(rank < capacity, rank, capacity)
        g = jnp.arange(groups)[:, None, None]
        slots = jnp.zeros((experts, groups, capacity, x.shape[-1])) + 0 * x.sum()
        slots = slots.at[index, g, rank].set(jnp.broadcast_to(x[:, :, None], (*index.shape, x.shape[-1])), mode="drop")
        slots = jax.lax.all_to_all(slots, "x", 0, 1, tiled=True)
        hidden = jnp.tanh(jnp.einsum("egcd,edh->egch", slots, w))
        results = jnp.einsum("egch,eho->egco", hidden, v) + b[:, None, None]
        results = jax.lax.all_to_all(results, "x", 1, 0, tiled=True)
        rows = results.at[index, g, rank].get(mode="fill", fill_value=0)
        return jnp.sum(rows * weight[..., None], 2)

    return jax.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P("x"))


def costs(f, args):
    gradient = jax.grad(lambda *args: jnp.sum(jnp.sin(f(*args))), argnums=tuple(range(len(args))))
    return [summary(jax.jit(g).lower(*args).compile()) for g in (f, gradient)]


AXES = (*PARAMS, ["b", "a", "embed"], ["b", "a", "route"])


def example(batch=8, tokens=16, experts=8):
    return (*parameters(experts), array(batch, tokens, EMBED, seed=4), 2 * array(batch, tokens, experts, seed=5))


def mapped(resources, shape=(8,), **options):
    return nx.xmap(
        functools.partial(mixture, **options), AXES, ["b", "a", "out"], axis_resources=resources, mesh=make_mesh(shape)
    )


@pytest.mark.fast(0)
def test_expert_parallelism_sends_what_a_person_would():
    mesh = make_mesh((8,))
    args = example()
    hand = by_shard_map(3, 8, mesh)
    named = mapped({"b": "x", "expert": "x"}, capacity=3)
    np.testing.assert_allclose(named(*args), hand(*args), rtol=1e-5, atol=1e-5)
    sent = costs(named, args)
    assert sent == costs(hand, args)
    # The buffers of the tokens and of the results, there and back; the gradient sends theirs.
    buffers = 4 * 8 * 3 * (EMBED + OUT)
    assert sent == [{"all-to-all": (2, buffers)}, {"all-to-all": (4, 2 * buffers)}]


@pytest.mark.fast(0)
def test_rounds_send_one_all_to_all_there_and_one_back():
    # An even load of 16 tokens with 2 choices each on 8 experts: 4 slots. The gradient runs the rounds again, and sends there the
    # tokens, the results' gradients and the weights, and back the gradients of tokens and weights.
    forward, gradient = costs(mapped({"b": "x", "expert": "x"}), example())
    there, back = 4 * 8 * 4 * EMBED, 4 * 8 * 4 * OUT
    assert forward == {"all-reduce": (1, 4), "all-to-all in a loop": (2, there + back)}
    again = 4 * 8 * 4 * (EMBED + OUT + 1) + 4 * 8 * 4 * (EMBED + 1)
    assert gradient == {"all-reduce": (1, 4), "all-to-all in a loop": (4, there + back + again)}


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("capacity", [None, 3])
def test_what_other_placements_send(capacity):
    args = example()
    params, rows, result, weights = 4 * 8 * (EMBED * HIDDEN + HIDDEN * OUT + OUT), 4 * 16 * EMBED, 4 * 16 * OUT, 4 * 16 * 2
    # Whole experts: nothing forwards, the parameters' gradients backwards.
    assert costs(mapped({"b": "x"}, capacity=capacity), args) == [{}, {"all-reduce": (1, params)}]
    # Experts where all tokens are: the results, and the gradients of tokens and weights. Two entries of the batch on each of four.
    forward, gradient = costs(mapped({"b": "x", "expert": "y"}, (4, 2), capacity=capacity), args)
    assert forward == {"all-reduce": (1, 2 * result)}
    assert gradient.keys() == {"all-reduce"}
    assert gradient["all-reduce"][1] == 2 * (result + rows + weights) + params // 2
    if capacity is None:
        # Nobody has to know of tokens elsewhere.
        assert costs(mapped({"a": "x"}), args)[0] == {}
    else:
        forward = costs(mapped({"a": "x", "expert": "x"}, capacity=capacity), args)[0]
        slots = 4 * 8 * 8 * capacity
        assert forward == {"all-gather": (2, 4 * 8 * 8 * 2 * 8 + slots * OUT), "reduce-scatter": (1, slots * EMBED)}


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_hidden_features_sum_the_gradient_of_tokens_once():
    # A round sums its slots, 256 for 256 choices. The gradient runs the rounds again, and sums that of the 128 tokens after them.
    forward, gradient = costs(mapped({"hidden": "x"}), example())
    assert forward == {"all-reduce in a loop": (1, 4 * 256 * OUT)}
    assert gradient.pop("all-gather")  # the gradients of parameters, whose blocks are uneven
    assert gradient == {"all-reduce in a loop": (2, 2 * 4 * 256 * OUT), "all-reduce": (1, 4 * 128 * EMBED)}


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_rounds_need_no_memory_for_all_tokens_and_experts():
    tokens, experts, size = 4096, 64, 64
    types = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((experts, size, size), (tokens, size), (tokens, experts))]

    def body(w, x, logits):
        routing = nx.nn.top_k_routing(logits, "route", 2)
        y = nx.nn.mixture_of_experts(lambda w, x: nx.dot(x, w, "embed"), w, x, routing, tokens="a")
        return nx.sum(y * y, ("a", "out"))

    f = nx.xmap(body, (["expert", "embed", "out"], ["a", "embed"], ["a", "route"]), [])
    for g in (f, jax.jit(jax.grad(f, argnums=(0, 1, 2)))):
        assert g.lower(*types).compile().memory_analysis().temp_size_in_bytes < 4 * tokens * experts * size / 3


# --- mistakes ---------------------------------------------------------------------------------------------------------------------


def call(**changes):
    x = nx.named(array(4, 8, EMBED), ["b", "a", "embed"])
    logits = changes.pop("logits", nx.named(array(4, 8, 4), ["b", "a", "route"]))
    options = {"tokens": "a", "x": x, "params": nx.named(array(4, EMBED), ["expert", "embed"]), **changes}
    options.setdefault("routing", nx.nn.top_k_routing(logits, "route", 2))
    return nx.nn.mixture_of_experts(options.pop("expert", lambda w, x: w * x), options.pop("params"), **options)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (
            {"tokens": "pos"},
            AxisNotFoundError,
            ["no axis 'pos' in f32[]{b:4, a:8, embed:6}", "tokens= names the axes to route"],
        ),
        ({"tokens": "embed"}, AxisNotFoundError, ["no axis 'embed' in routing.index", "Every token chooses its experts"]),
        ({"tokens": ()}, AxisNameError, ["a tuple of different names, got ()"]),
        (
            {"logits": nx.named(array(4, 8, 2, 4), ["b", "a", "c", "route"])},
            AxisNotFoundError,
            ["no axis 'c' in f32", "Broadcast x"],
        ),
        (
            {"logits": nx.named(array(4, 2, 4), ["b", "a", "route"])},
            AxisSizeError,
            ["axis 'a' has size 8", "and 2 in routing.index"],
        ),
        (
            {"logits": nx.named(array(4, 8, 3), ["b", "a", "route"])},
            AxisSizeError,
            ["axis 'expert' has size 4", "has 3 experts"],
        ),
        ({"axis": "embed"}, AxisNameError, ["axis='embed'", "Pass another name as axis="]),
        ({"slot": "expert"}, AxisNameError, ["axis and slot are both 'expert'"]),
        ({"capacity": 0}, ArgumentError, ["capacity must be a positive integer", "got 0"]),
        ({"capacity": 2, "chunk": 2}, ArgumentError, ["capacity=2 excludes chunk=2", "Leave out one of the two"]),
        ({"routing": 3}, ArgumentTypeError, ["routing must be a Routing, got 3", "top_k_routing"]),
        ({"expert": lambda w, x: nx.sum(x, "slot")}, AxisNotFoundError, ["has no axis 'slot'", "Keep 'expert' and 'slot'"]),
        ({"expert": lambda w, x: x * nx.arange(8, axis="a")}, AxisNameError, ["has 'a', an axis of the tokens"]),
    ],
)
def test_mistakes(changes, error, words):
    for form in ({}, {"capacity": 2}) if not {"capacity", "chunk"} & changes.keys() else ({},):
        with pytest.raises(error) as raised:
            jax.eval_shape(lambda form=form: call(**changes, **form))
        assert all(word in str(raised.value) for word in ["mixture_of_experts", *words]), raised.value


@pytest.mark.parametrize(
    ("resources", "error", "words"),
    [
        ({"slot": "x"}, AxisResourceError, ["maps the slot axis 'slot' to mesh axes ('x',)", "Remove the entry"]),
        ({"choice": "x"}, AxisResourceError, ["maps the choice axis 'choice'", "choices are not sharded"]),
        ({"expert": "x", "embed": "x"}, PlacementConflictError, ["'expert' and 'embed' meet", "mesh axis 'x'"]),
    ],
    ids=str,
)
def test_placements_that_can_not_be(resources, error, words):
    f = nx.xmap(lambda: call(params=2.0), (), {}, axis_resources=resources, mesh=make_mesh((2, 2)))
    with pytest.raises(error) as raised:
        f()
    assert all(word in str(raised.value) for word in words), raised.value
