"""`nx.strict_broadcasting`: an elementwise result with more names than each operand is an error, wherever and however it is computed."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentTypeError, OuterProductError
from tests.harness import array, make_mesh

X, BIAS = array(2, 3, 4), array(4, seed=1)
LAYOUTS = {"blocks": ((2,), {"batch": "x"}), "both": ((2, 2), {"batch": "x", "embed": "y", "embed_fsdp": "y"})}


def x():
    return nx.named(X, ["batch", "pos", "embed"])


def bias(name="embed_fsdp"):
    return nx.named(BIAS, [name])


OPERATIONS = {
    "operator": lambda x, b: x + b,
    "reflected": lambda x, b: b - x,
    "comparison": lambda x, b: x >= b,
    "power": lambda x, b: abs(x) ** b,
    "function": nx.maximum,
    "divmod": lambda x, b: divmod(x, b),
    "where": lambda x, b: nx.where(b > 0, x, 0.0),
    "where, three": lambda x, b: nx.where(nx.rename(b, {"embed_fsdp": "batch_"}) > 0, x["pos", 0], 1.0),
    "clip": lambda x, b: nx.clip(x, b),
    "clip by keyword": lambda x, b: nx.clip(x, max=b),
    "method": lambda x, b: x.clip(b),
    "isclose": lambda x, b: nx.isclose(x, b, rtol=0.1),
    "activation": lambda x, b: nx.nn.leaky_relu(x, b),
    "loss": nx.nn.binary_cross_entropy,
    "special": lambda x, b: nx.scipy.special.xlogy(x, b),
    "lax": nx.lax.add,
    "select": lambda x, b: nx.numpy.select([x > 0], [b], 0.0),
}


@pytest.mark.full(4)
@pytest.mark.fast(7)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_outer_product_is_an_error_and_off_it_is_not(operation):
    f = OPERATIONS[operation]
    f(x(), bias())  # caches what it can
    f(x(), bias())
    for run in (f, jax.jit(f), jax.jit(lambda x, b: jax.jit(f)(x, b))):
        run(x(), bias())
        with nx.strict_broadcasting(), pytest.raises(OuterProductError, match="more than each operand has"):
            run(x(), bias())
        run(x(), bias())


@pytest.mark.full(5)
@pytest.mark.fast(6)
@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"where, three"}))
def test_the_names_of_one_operand_are_accepted(operation):
    f = OPERATIONS[operation]
    want = f(x(), bias("embed"))
    with nx.strict_broadcasting():
        got = jax.tree.map(np.asarray, jax.tree.leaves(f(x(), bias("embed"))))
    jax.tree.map(np.testing.assert_array_equal, got, jax.tree.map(np.asarray, jax.tree.leaves(want)))


@pytest.mark.fast(1)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_a_mapped_function_and_its_gradient(layout, kind):
    shape, resources = LAYOUTS[layout]
    if "embed_fsdp" in resources:  # one mesh axis cannot shard both names of one value
        resources = {"batch": "x", "embed": "y"}
    mesh = make_mesh(shape, kind)

    def loss(x, b):
        return nx.mean(nx.square(x + b), ...)

    f = nx.xmap(jax.value_and_grad(loss), axis_resources=resources, mesh=mesh)
    f(x(), bias())
    with nx.strict_broadcasting():
        with pytest.raises(OuterProductError, match=r"f32\[\]{embed_fsdp:4}"):
            f(x(), bias())
        value, gradient = f(x(), bias("embed"))
    want = jax.value_and_grad(lambda x, b: jnp.mean((x + b) ** 2))(X, BIAS)
    np.testing.assert_allclose(value, want[0], rtol=1e-5)
    np.testing.assert_allclose(nx.positional(gradient, ["batch", "pos", "embed"]), want[1], rtol=1e-4, atol=1e-6)
    f(x(), bias())


def test_within_the_body_only():
    def body(x, b):
        with nx.strict_broadcasting():
            return x + b

    mapped = nx.xmap(body, axis_resources={"batch": "x"}, mesh=make_mesh((2,)))
    with pytest.raises(OuterProductError):
        mapped(x(), bias())
    np.testing.assert_array_equal(nx.positional(mapped(x(), bias("embed")), ["batch", "pos", "embed"]), X + BIAS)


def test_explicit_mesh_axes_at_the_top_level():
    mesh = make_mesh((2,), "explicit")
    on = nx.shard(x(), {"batch": "x"}, mesh)
    for f in OPERATIONS.values():
        with nx.strict_broadcasting(), pytest.raises(OuterProductError):
            f(on, bias())


def test_a_helper_is_compiled_for_both_settings():
    traced = []

    @jax.jit
    def helper(x, b):
        traced.append(1)
        return x * b

    assert helper(x(), bias()).named_shape == {"batch": 2, "pos": 3, "embed": 4, "embed_fsdp": 4}
    with nx.strict_broadcasting():
        for _ in range(2):
            with pytest.raises(OuterProductError):
                helper(x(), bias())
        helper(x(), bias("embed"))
    before = len(traced)
    helper(x(), bias())
    assert len(traced) == before


def test_the_cache_of_eager_calls_in_both_directions():
    a, b = nx.ones(named_shape={"fresh_a": 2}), nx.ones(named_shape={"fresh_b": 2})
    with nx.strict_broadcasting():
        for _ in range(3):
            with pytest.raises(OuterProductError):
                a + b
            assert (a + a).dims == ("fresh_a",)
    for _ in range(3):
        assert (a + b).dims == ("fresh_a", "fresh_b")
    with nx.strict_broadcasting(), pytest.raises(OuterProductError):
        a + b


def test_functions_of_users_within_operations():
    def step(carry, row):
        return carry * row, None

    rows = nx.named(array(3, 2), [None, "b"])
    start = nx.ones(named_shape={"a": 2})
    nx.scan(step, nx.broadcast_to(start, named_shape={"b": 2}), rows)
    with nx.strict_broadcasting():
        with pytest.raises(OuterProductError, match="multiply"):
            nx.scan(step, start, rows)
        with pytest.raises(OuterProductError):
            nx.cond(True, lambda a: a * rows[0], lambda a: a * rows[1], start)
        with pytest.raises(OuterProductError):
            nx.vmap(lambda row: start * row["b", :])(rows)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_operations_that_form_an_outer_product_are_accepted():
    q = nx.named(array(2, 6, 4), ["batch", "pos", "key"])
    ids = nx.arange(3, axis="pos")
    lengths = nx.named(jnp.array([[2, 3], [4, 1]]), ["batch", "row"])

    def programs():
        return [
            nx.dot(nx.arange(2, axis="a"), nx.arange(3, axis="b"), ()),
            nx.einsum("{}, {} -> {}", nx.arange(2, axis="a"), nx.arange(3, axis="b")),
            nx.nn.one_hot(ids, axis="vocab", num_classes=5),
            nx.nn.dot_product_attention(q, q, q, axis="pos", features="key", is_causal=True),
            nx.nn.layer_norm(q, "key"),
            nx.nn.causal_mask({"query": 2, "key": 3}, window=2),
            nx.nn.prefix_mask({"query": 2, "key": 3}, nx.arange(2, axis="batch")),
            nx.nn.alibi_bias({"head": 4, "query": 2, "key": 3}),
            nx.Ragged(q, lengths, tokens="pos", rows="row").positions,
            nx.Ragged(q, lengths, tokens="pos", rows="row").spread(lengths),
            nx.take(nx.arange(4, axis="vocab") * nx.ones(()), ids, "vocab"),
            nx.nmap(jnp.add)(nx.arange(2, axis="a"), nx.arange(3, axis="b")),
            nx.broadcast_to(nx.arange(3, axis="pos"), named_shape={"seen": 4}) >= nx.arange(4, axis="seen"),
        ]

    want = programs()
    with nx.strict_broadcasting():
        got = programs()
    for a, b in zip(got, want, strict=True):
        assert a.dims == b.dims
        np.testing.assert_array_equal(a.data, b.data)


def test_as_a_decorator_and_switched_off_within():
    @nx.strict_broadcasting()
    def f(x, b):
        with nx.strict_broadcasting(False):
            x + b
        with nx.strict_broadcasting(enabled=True):
            return x + b

    for _ in range(2):
        with pytest.raises(OuterProductError):
            f(x(), bias())
    np.testing.assert_array_equal(nx.positional(f(x(), bias("embed")), ["batch", "pos", "embed"]), X + BIAS)
    with pytest.raises(ArgumentTypeError, match="strict_broadcasting: enabled='batch' is neither True nor False"):
        nx.strict_broadcasting("batch").__enter__()
    x() + bias()


def test_other_threads_are_not_affected():
    inside, done, results = threading.Event(), threading.Event(), []

    def other():
        inside.wait(10)
        results.append((x() + bias()).named_shape)
        try:
            with nx.strict_broadcasting():
                x() + bias()
        except OuterProductError:
            results.append("raised")
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with nx.strict_broadcasting():
        inside.set()
        assert done.wait(60)
        with pytest.raises(OuterProductError):
            x() + bias()
    thread.join()
    assert results == [{"batch": 2, "pos": 3, "embed": 4, "embed_fsdp": 4}, "raised"]


def test_the_message_has_types_names_and_remedies():
    with nx.strict_broadcasting():
        with pytest.raises(OuterProductError) as error:
            x() + bias()
        assert str(error.value) == (
            "add: the operands f32[]{batch:2, pos:3, embed:4} and f32[]{embed_fsdp:4} give a result with the axes 'batch', 'pos', "
            "'embed', 'embed_fsdp', more than each operand has, and nx.strict_broadcasting() rejects outer products. If 'embed_fsdp' "
            "and 'embed' are one axis, rename it: nx.rename(y, {'embed_fsdp': 'embed'}). For an intended outer product repeat an "
            "operand first: nx.broadcast_to(y, named_shape={'batch': 2, 'pos': 3, 'embed': 4}). [NX023]"
        )
        with pytest.raises(OuterProductError) as error:
            nx.arange(2, axis="pos") * nx.arange(3, axis="pair")
        assert str(error.value).endswith(
            "If two names are one axis, rename one of them with nx.rename. For an intended outer product write "
            'nx.einsum("{}, {} -> {}", x, y). [NX023]'
        )
        with pytest.raises(OuterProductError, match="rename one of them"):
            nx.arange(2, axis=("a", 1)) * nx.arange(3, axis=("a", 2))
        a, b, c = (nx.arange(2, axis=name) for name in "abc")
        pairs = [nx.dot(x, y, ()) for x, y in ((a, b), (b, c), (c, a))]
        with pytest.raises(OuterProductError, match="'a', 'b', 'c', more than each operand has"):
            nx.where(*pairs)
