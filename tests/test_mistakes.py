"""The likeliest mistakes with the most used functions: each is an error of namedax that names the axes and says what to write.

Whole messages are compared. Where a function of JAX refuses the positional axes that it sees, its own words stand in the message; there
only ours are compared.
"""

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisNotFoundError,
    AxisSizeError,
    MeshError,
    NamedaxError,
    PositionalAxisError,
)
from tests import make
from tests.harness import array, make_mesh, said

MESH = make_mesh((8,))
K = nx.named(array(4, 4), ["n", "m"])
X = nx.named(array(4, 6), ["q", "k"])
T = nx.named(array(8), ["t"])
KEY = jax.random.key(0)


def message(call, kind):
    """The text of the error that a call raises, of this very class."""
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    return said(error.value)


def in_body(body, *args, resources=None):
    return lambda: nx.xmap(body, axis_resources=resources, mesh=MESH)(*args)


# --- functions of positions: names are batch axes ------------------------------------------------------------------


# As a shape that is wrong since JAX 0.12, and before as a permutation that is none.
OF_CHOLESKY = PositionalAxisError if jax.__version_info__ >= (0, 12) else ArgumentTypeError
SAW_X = "it saw f32[] of f32[]{q:4, k:6}. Give the axes that it is to act on positions first, as by nx.positional(x, ['q', 'k']), and names"


@pytest.mark.parametrize(
    ("call", "kind", "name"),
    [
        (lambda: nx.numpy.linalg.cholesky(X), OF_CHOLESKY, "cholesky"),
        (lambda: nx.numpy.linalg.inv(X), PositionalAxisError, "inv"),
        (lambda: nx.numpy.linalg.solve(X, 1.0), PositionalAxisError, "solve"),
        (lambda: nx.numpy.reshape(X, (24,)), ArgumentTypeError, "reshape"),
        (lambda: nx.numpy.correlate(X, jnp.ones(2)), PositionalAxisError, "correlate"),
        (lambda: X.reshape(2, -1), ArgumentTypeError, "reshape"),
        (lambda: X.mT, PositionalAxisError, "matrix_transpose"),
        (lambda: X @ jnp.ones((4, 3)), PositionalAxisError, "matmul"),
        (lambda: jnp.ones((4, 3)) @ X, PositionalAxisError, "matmul"),
        (lambda: X[jnp.array(0)], PositionalAxisError, "getitem"),
        (lambda: X.at[0].set(1.0), PositionalAxisError, "at[...].set"),
    ],
)
def test_a_function_of_positions_says_what_it_saw(call, kind, name):
    text = message(call, kind)
    assert text.startswith(f"{name}: ")
    assert f"Here {name} acts on positional axes, and names are batch axes: {SAW_X}" in text


@pytest.mark.parametrize("resources", [{}, {"t": "x"}])
def test_so_does_one_in_a_body(resources):
    text = message(in_body(lambda t: nx.numpy.linalg.inv(t), T, resources=resources), PositionalAxisError)
    assert "it saw f32[] of f32[]{t:8" in text


def test_a_users_own_function_keeps_its_error_and_gets_a_note():
    def own(x):
        raise ValueError("too small")

    with pytest.raises(ValueError, match="too small") as error:
        nx.nmap(own)(X)
    assert not isinstance(error.value, NamedaxError)
    (note,) = (note for note in error.value.__notes__ if note.startswith("namedax"))
    assert note.startswith(f"namedax: own acts on positional axes, and names are batch axes: {SAW_X}")


def test_arrays_without_names_keep_the_words_of_jax():
    with pytest.raises(ValueError, match="must have shape") as error:
        nx.numpy.linalg.inv(make.ones(3))
    assert not isinstance(error.value, NamedaxError)


@pytest.mark.parametrize("function", [jnp.sin, jnp.sum, lambda x: jnp.dot(x, x)])
def test_a_named_array_in_a_function_of_jax(function):
    with pytest.raises(TypeError, match=r"do not take: call nx\.numpy's, or nx\.nmap\(function\)"):
        function(X)


OPTION = "is an option of the program; give one value that is known when the function is traced, not an array or a list."


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nx.sum(X, "k", keepdims=[True]), "sum: keepdims=[True] "),
        (lambda: nx.max(X, "k", keepdims=jnp.array([True])), "max: keepdims=Array([ True], dtype=bool) "),
        (lambda: nx.mean(X, "k", dtype=[1]), "mean: dtype=[1] "),
        (lambda: nx.var(X, "k", ddof=[1]), "var: ddof=[1] "),
        (lambda: nx.cumsum(X, "k", reverse=[1]), "cumsum: reverse=[1] "),
    ],
)
def test_options_of_the_program(call, text):
    assert message(call, ArgumentTypeError) == text + OPTION


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: nx.pad(X, "k"), ArgumentTypeError, "pad: pad_width='k' is a name; write how much, as in {'k': (1, 2)}."),
        (
            lambda: nx.pad(X, {"k": 1}, mode="foo"),
            ArgumentError,
            "pad: mode='foo' is not a mode of jnp.pad; these are constant, edge, empty, linear_ramp, maximum, mean, median, minimum, "
            "reflect, symmetric, wrap.",
        ),
        (
            lambda: nx.nn.one_hot(jnp.array(1), 1.5, axis="c"),
            ArgumentTypeError,
            "one_hot: num_classes=1.5 must be an integer from 0, known when the function is traced.",
        ),
        (
            lambda: nx.nn.one_hot(nx.named(jnp.arange(3), ["q"]), -1),
            ArgumentError,
            "one_hot: num_classes=-1 must be an integer from 0, known when the function is traced.",
        ),
        (lambda: X["z", 0], AxisNotFoundError, "getitem: no axis 'z' in f32[]{q:4, k:6}; its named axes are 'q', 'k'."),
        (
            lambda: X.at["z", 0].set(1),
            AxisNotFoundError,
            "at[...].set: no axis 'z' in f32[]{q:4, k:6}; its named axes are 'q', 'k'.",
        ),
    ],
)
def test_other_mistakes(call, kind, text):
    assert message(call, kind) == text


@pytest.mark.parametrize("axis", [0, ["a"], ...])
def test_what_is_not_a_name_in_arange(axis):
    with pytest.raises(AxisNameError, match="arange"):
        nx.arange(3, axis=axis)


# --- sizes, shapes, keys, meshes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nx.zeros, nx.ones, nx.empty, lambda **kw: nx.full((), 1.0, **kw)])
@pytest.mark.parametrize(
    ("shape", "kind", "text"),
    [
        ("k", ArgumentTypeError, "named_shape='k' is not a mapping from names to sizes; write named_shape={'batch': 128}."),
        (["k"], ArgumentTypeError, "named_shape=['k'] is not a mapping from names to sizes; write named_shape={'batch': 128}."),
        (
            {"k": 1.5},
            AxisSizeError,
            "named_shape gives axis 'k' the size 1.5; a size is an integer from 0, or None for that of the mapped function.",
        ),
        (
            {"k": -1},
            AxisSizeError,
            "named_shape gives axis 'k' the size -1; a size is an integer from 0, or None for that of the mapped function.",
        ),
    ],
)
def test_named_shapes(make, shape, kind, text):
    assert message(lambda: make(named_shape=shape), kind).partition(": ")[2] == text


def test_sizes_by_name_in_the_place_of_the_shape():
    assert message(lambda: nx.ones({"k": 3}), ArgumentTypeError) == (
        "ones: the shape is {'k': 3}, a mapping; sizes by name are given as ones(named_shape={'k': 3}), and the shape is that of the "
        "positional axes."
    )


def test_sizes_by_name_in_the_place_of_a_samplers_shape():
    assert message(lambda: nx.random.normal(KEY, {"a": 3}), ArgumentTypeError) == (
        "normal: the shape is {'a': 3}, a mapping; sizes by name are given as named_shape={'a': 3}, and the shape is that of the positional "
        "axes."
    )


def test_samplers_say_which_arguments_they_take():
    assert message(lambda: nx.random.randint(KEY, named_shape={"q": 3}), ArgumentTypeError) == (
        "randint: missing a required argument: 'minval'. Write nx.random.randint(key, shape, minval, maxval, dtype, out_sharding), "
        "and named_shape={...} by keyword."
    )
    drawn = nx.random.randint(KEY, named_shape={"q": 3}, minval=2, maxval=9)  # the names are shape enough
    assert (nx.positional(drawn, ["q"]) == jax.random.randint(KEY, (3,), 2, 9)).all()


def test_something_else_in_the_place_of_a_key():
    assert message(lambda: nx.nn.dropout(X, 0.5, "k"), ArgumentTypeError) == (
        "dropout: the key is 0.5, which is not a random key; make one with jax.random.key(seed)."
    )


def test_something_else_in_the_place_of_a_mesh():
    assert message(lambda: nx.xmap(lambda x: x, mesh="m"), MeshError) == (
        "xmap: mesh='m' is not a mesh; write mesh=jax.make_mesh(shape, axis_names), or a jax.sharding.AbstractMesh to lower for "
        "devices that are not there."
    )


def test_sizes_of_names():
    assert (nx.size(X), nx.size(X, "k"), nx.size(X, ("q", "k"))) == (1, 6, 24)
    text = message(lambda: nx.size(X, "kk"), AxisNotFoundError)
    assert text.startswith("size: no axis 'kk' in f32[]{q:4, k:6}; its named axes are 'q', 'k'. Did you mean 'k'?")
    assert in_body(lambda t: T * nx.size(t, "t"), T, resources={"t": "x"})().named_shape == {"t": 8}


def test_arange_up_to_a_stop():
    assert nx.arange(stop=6, axis="q").named_shape["q"] == 6


@pytest.mark.parametrize("resources", [{}, {"t": "x"}, {"t": "x", "u": "x"}])
def test_a_name_that_the_body_made_has_a_size(resources):
    def body(t):
        u = nx.rename(t, {"t": "u"})
        return u + nx.arange(axis="u"), u * nx.ones(named_shape={"u": None})

    added, multiplied = in_body(body, T, resources=resources)()
    assert (nx.positional(added, ["u"]) == T.data + jnp.arange(8)).all()
    assert (nx.positional(multiplied, ["u"]) == T.data).all()


def test_and_only_one():
    text = message(in_body(lambda t: (nx.arange(3, axis="q"), nx.arange(5, axis="q")), T), AxisSizeError)
    assert text == "arange: the number of values is 5, but axis 'q' has size 3 in this mapped function; a name has one size."
    text = message(in_body(lambda t: (nx.rename(t, {"t": "q"}), nx.zeros(named_shape={"q": 5})), T), AxisSizeError)
    assert text == "zeros: named_shape['q'] is 5, but axis 'q' has size 8 in this mapped function; a name has one size."
