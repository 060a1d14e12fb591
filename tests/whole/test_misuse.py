"""Bad input through the public face ends in an error of namedax, never in Python's own words from a frame of namedax."""

import functools
import pathlib
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    AxisSizeError,
    EinsumError,
    NamedaxError,
    PositionalAxisError,
    RearrangeError,
)
from tests.misuse import Call, blamed_in_examples, calls, finding, public_functions, run, setting

FUNCTIONS = functools.cache(lambda: tuple(public_functions()))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Some functions write files."""
    monkeypatch.chdir(tmp_path)


def walk(count, part, parts, seed):
    """Call every function whose turn it is, and return what is found, as text."""
    found = []
    for name, function in FUNCTIONS():
        if zlib.crc32(name.encode()) % parts == part:
            found += [run(call) for call in calls(name, function, count, seed)]
    return "\n".join(f"{one.call.text}: {one.kind} at {one.where}: {one.message}" for one in found if one is not None)


def test_nonsense_is_refused_in_words():
    """One call of an eighth of the functions; the rest below."""
    assert walk(1, 0, 8, seed=1) == ""


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("part", range(8))
def test_nonsense_is_refused_in_words_everywhere(part, seed):
    assert walk(3, part, 8, seed=seed) == ""


def blamed(part, parts):
    """The valid calls whose arguments would be blamed, with the number of calls that were looked at."""
    looked_at = list(blamed_in_examples(part, parts))
    return len(looked_at), [one for one in looked_at if one[1]]


def test_no_argument_of_a_valid_call_is_blamed():
    """The examples of an eighth of the reference; the rest below."""
    count, found = blamed(0, 8)
    assert found == []
    assert count > 50


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_no_argument_of_any_example_is_blamed():
    count, found = blamed(0, 1)
    assert found == []
    assert count > 600


def test_the_walk_calls_what_is_public():
    names = {name for name, _ in FUNCTIONS()}
    assert len(names) > 1000
    assert {
        "nx.sum",
        "nx.lax.ppermute",
        "nx.nn.softmax",
        "nx.random.normal",
        "nx.checkpoints.save",
        "nx.NamedArray.__getitem__",
    } <= names


def test_the_walk_finds_a_planted_fault():
    source = "def f(x):\n    return x.nope\n"
    home = pathlib.Path(nx.__file__).parent / "planted.py"
    scope = {"__name__": "namedax.planted"}
    exec(compile(source, str(home), "exec"), scope)
    with pytest.raises(AttributeError) as caught:
        scope["f"](3)
    one = finding(Call("f", "", "f(3)"), caught.value)
    assert one is not None
    assert (one.where, one.kind) == ("namedax/planted.py:2 f", "AttributeError")


def test_the_walk_leaves_errors_in_words_and_errors_of_users_alone():
    assert run(Call("nx.sum", "", "nx.sum(x, 'nope')")) is None  # an error of namedax
    assert run(Call("nx.scan", "", "nx.scan(lambda c, y: {}[c], 0, x, axis='k')")) is None  # of the user's function
    assert run(Call("nx.sum", "", "nx.sum(x, 'k')")) is None  # no error


SPECIMENS = {
    "nx.gradient(x, axis=['k', 'k'])": (ArgumentError, "gradient: axis=['k', 'k'] contains 'k' twice. Pass each axis once."),
    "nx.gradient(x, axis=('k', 'k'))": (ArgumentError, "gradient: axis=('k', 'k') contains 'k' twice."),
    "nx.nmap('nope')": (ArgumentTypeError, "nmap: function='nope' is not a function. Write nx.nmap(function)."),
    "nx.vmap(3)": (ArgumentTypeError, "vmap: fun=3 is not a function. Write nx.vmap(fun, in_axes, out_axes)."),
    "nx.custom_jvp(None)": (ArgumentTypeError, "custom_jvp: fun=None is not a function."),
    "nx.custom_vjp(None)": (ArgumentTypeError, "custom_vjp: fun=None is not a function."),
    "nx.random.multinomial(jax.random.key(0), 10, x)": (
        PositionalAxisError,
        "multinomial: p=f32[]{k:4} has no positional axis, but its last positional axis must be the categories.",
    ),
    "nx.random.multinomial(jax.random.key(0), 10, 0.5, named_shape={'b': 4})": (
        PositionalAxisError,
        "multinomial: p=0.5 has no",
    ),
    "nx.random.normal(jax.random.key(0), len, named_shape={'b': 4})": (
        ArgumentTypeError,
        "normal: shape=the function len is not an integer",
    ),
    "nx.random.normal(jax.random.key(0), (2.5,), named_shape={'b': 4})": (
        ArgumentTypeError,
        "normal: shape=(2.5,) is not an integer",
    ),
    "nx.random.normal(jax.random.key(0), (-1,), named_shape={'b': 4})": (
        AxisSizeError,
        "normal: shape=(-1,) has a size below 0",
    ),
    "nx.random.split(jax.random.key(0), 2.5)": (ArgumentTypeError, "split: shape=2.5 is not an integer"),
    "nx.nn.initializers.ones(jax.random.key(0), 2.5)": (ArgumentTypeError, "ones: shape=2.5 is not an integer"),
    "nx.typing.check(x, None, 3)": (ArgumentTypeError, "check: sizes=3 is not a dict."),
    "nx.hlo.Summary(3)": (ArgumentTypeError, "Summary: 3 is not a list of collectives. Write nx.hlo.summary(compiled)."),
    "nx.hlo.Summary([3])": (ArgumentTypeError, "Summary: 3 is not an nx.hlo.Collective."),
    "nx.numpy.frompyfunc(x, 1, 1)": (ArgumentTypeError, "frompyfunc: func=f32[]{k:4} is not a function."),
    "nx.dot(x, x, {'a': 1})": (
        ArgumentTypeError,
        "dot: axis={'a': 1} is not an axis: a name, a position, or a list or tuple of these.",
    ),
    "nx.switch(x, None)": (ArgumentTypeError, "switch: branches=None is not a list or tuple of functions."),
    "nx.lax.ppermute(x, 'k', None)": (ArgumentTypeError, "ppermute: perm=None is not a list or tuple."),
    "nx.lax.pmax(x, 'k', axis_index_groups=3)": (
        ArgumentTypeError,
        "pmax: axis_index_groups=3 is not a list of lists of integers",
    ),
    "nx.checkpoints.save(None, x)": (ArgumentTypeError, "checkpoints.save: path=None is not a path."),
    "nx.checkpoints.restore(None)": (ArgumentTypeError, "checkpoints.restore: path=None is not a path."),
    "nx.checkpoints.names(None)": (ArgumentTypeError, "checkpoints.names: path=None is not a path."),
    "nx.sum(np.array([None, 'x']), 0)": (ArgumentTypeError, "sum: x=object[2] is not an array of numbers"),
    "nx.sin(np.array([None, 'x']))": (ArgumentTypeError, "sin: x=object[2] is not an array of numbers"),
    "nx.nn.gelu(np.array([None, 'x']))": (ArgumentTypeError, "gelu: x=object[2] is not an array of numbers"),
    "nx.sum(x, 'k', dtype='flaot')": (ArgumentTypeError, "sum: dtype='flaot' is not a dtype."),
    "nx.numpy.sort(x.data, [])": (
        ArgumentTypeError,
        "sort: axis=[] is not hashable, and a static argument must be. Pass a number, a string or a tuple.",
    ),
    "nx.lax.abs()": (ArgumentTypeError, "abs: missing 1 required positional argument: 'x'"),
    "nx.lax.pmax(x)": (ArgumentTypeError, "pmax: missing 1 required positional argument: 'axis_name'"),
    "nx.scan(3, 0, x, axis='k')": (ArgumentTypeError, "scan: f=3 is not a function."),
    "nx.testing.assert_collectives(len, (), 3)": (ArgumentTypeError, "assert_collectives: expected=3 is not a dict."),
    "nx.named(x.data, ['\\ud800'])": (AxisNameError, "named: the axis name '\\ud800' is not valid Unicode"),
    "nx.rename(x, {'k': '\\ud800'})": (AxisNameError, "rename: the axis name '\\ud800' is not valid Unicode"),
    "nx.stack([x, x], '\\ud800')": (AxisNameError, "stack: the axis name '\\ud800' is not valid Unicode"),
    "nx.ones(named_shape={'\\ud800': 3})": (AxisNameError, "ones: the axis name '\\ud800' is not valid Unicode"),
    "nx.xmap(lambda y: y, (['\\ud800'],), None)(x.data)": (
        AxisNameError,
        "xmap, in_axes: the axis name '\\ud800' is not valid Unicode",
    ),
    "nx.NamedArray(x.data, slice(None))": (
        AxisNameError,
        "NamedArray: dims=slice(None, None, None) is not a tuple of axis names. Write one entry per axis: dims=('batch', None).",
    ),
    "nx.NamedArray(x.data, None)": (AxisNameError, "NamedArray: dims=None is not a tuple of axis names."),
    "nx.fori_loop(0, 2.5, lambda i, c: c, x)": (
        ArgumentTypeError,
        "fori_loop: upper=2.5 is not an integer. Pass an integer, or a scalar array of integers.",
    ),
    "nx.fori_loop([1, 2], 3, lambda i, c: c, x)": (ArgumentTypeError, "fori_loop: lower=[1, 2] is not an integer."),
    "nx.fori_loop(float('nan'), 3, lambda i, c: c, x)": (ArgumentTypeError, "fori_loop: lower=nan is not an integer."),
    "nx.fori_loop('nope', 3, lambda i, c: c, x)": (ArgumentTypeError, "fori_loop: lower='nope' is not an integer."),
    "nx.fori_loop(0, jnp.arange(2), lambda i, c: c, x)": (ArgumentTypeError, "fori_loop: upper=i32[2] is not an integer."),
    "jax.jit(lambda n: nx.fori_loop(0, n, lambda i, c: c, x))(2.5)": (
        ArgumentTypeError,
        "fori_loop: upper=f32[] is not an integer.",
    ),
    "nx.fori_loop(np.int8(0), np.int32(3), lambda i, c: c, x)": (
        ArgumentTypeError,
        "fori_loop: lower has dtype int8, but upper has dtype int32. Convert one of them: jnp.asarray(upper, 'int8').",
    ),
    "nx.fori_loop(0, 3, lambda i, c: c, x, unroll=-1)": (
        ArgumentTypeError,
        "fori_loop: unroll=-1 is not True, False or a number of steps.",
    ),
    "nx.scan(lambda c, y: (c, y), x, x, axis='k', unroll='nope')": (
        ArgumentTypeError,
        "scan: unroll='nope' is not True, False or a number of steps.",
    ),
    "nx.vmap(lambda *args: 3, 'k')()": (ArgumentError, "vmap: there are no arrays in the mapped arguments. Pass at least one."),
    "nx.xmap(lambda y, n=1: y)(x, to=jnp.zeros((2, 0)))": (
        ArgumentTypeError,
        "<lambda>: got an unexpected keyword argument 'to'. The call <lambda>(f32[]{k:4}, to=f32[2,0]) must match the signature "
        "<lambda>(y, n=1).",
    ),
    "nx.xmap(lambda: 3)(x)": (ArgumentTypeError, "<lambda>: takes 0 positional arguments but 1 was given. The call <lambda>("),
    "nx.nmap(lambda y: y)(x, to=3)": (ArgumentTypeError, "<lambda>: got an unexpected keyword argument 'to'."),
    "nx.scan(lambda c: c, 0.0, x, axis='k')": (
        ArgumentTypeError,
        "<lambda>: takes 1 positional argument but 2 were given. The call <lambda>(f32[], f32[]) must match the signature <lambda>(c).",
    ),
    "nx.einsum('{k}->{\\ud800:k}', x)": (EinsumError, "einsum: '{k}->{\\ud800:k}' is not valid Unicode."),
    "nx.rearrange(x, '{k} -> {\\ud800=(k)}')": (RearrangeError, "rearrange: '{k} -> {\\ud800=(k)}' is not valid Unicode."),
}


@pytest.mark.parametrize("text", SPECIMENS, ids=ascii)
def test_specimens(text):
    kind, message = SPECIMENS[text]
    with pytest.raises(kind) as caught:
        eval(text, setting())
    assert type(caught.value) is kind
    assert str(caught.value).startswith(message)


class Restless:
    """Something whose hash is another one each time."""

    count = 0

    def __hash__(self):
        Restless.count += 1
        return Restless.count

    def __repr__(self):
        return "Restless()"


@pytest.mark.parametrize(
    "make",
    [
        lambda name: nx.named(jnp.ones(3), [name]),
        lambda name: nx.NamedArray(jnp.ones(3), (name,)),
        lambda name: nx.ones(named_shape={name: 3}),
        lambda name: nx.rename(nx.named(jnp.ones(3), ["k"]), {"k": name}),
        lambda name: nx.xmap(lambda x: x, ([name],), None)(jnp.ones(3)),
    ],
    ids=["named", "NamedArray", "ones", "rename", "xmap"],
)
def test_a_name_whose_hash_changes_is_refused(make):
    with pytest.raises(AxisNameError, match=r"the hash of the axis name Restless\(\) changes from call to call"):
        make(Restless())


def nested(count, function, **options):
    """A function within so many mapped ones."""
    for _ in range(count):
        function = nx.xmap(functools.partial(lambda inner, x: inner(x), function), **options)
    return function


@pytest.mark.parametrize("is_mapped", [False, True], ids=["unmapped", "mapped"])
def test_nested_functions_that_exceed_the_recursion_limit(is_mapped):
    options = {"axis_resources": {"k": "x"}, "mesh": jax.make_mesh((2,), ("x",))} if is_mapped else {}
    x = nx.named(np.arange(4.0, dtype=np.float32), ["k"])
    with pytest.raises(
        ArgumentError, match=r"at depth \d+ of nested mapped functions, which exceeds Python's recursion limit of \d+"
    ):
        nested(200, lambda x: x + 1, **options)(x)
    assert float(nx.sum(nested(15, lambda x: x + 1, **options)(x), "k")) == 10.0


def test_a_recursion_without_end_in_a_body_stays_an_error_of_the_body():
    def endless(x):
        return endless(x)

    with pytest.raises(RecursionError):
        nx.xmap(endless)(nx.named(np.ones(4, np.float32), ["k"]))


def calls_of(body):
    """Calls of namedax that call a function of the user."""
    x = nx.named(jnp.ones(4), ["k"])
    return (
        lambda: nx.nmap(body)(x),
        lambda: nx.scan(body, 0.0, x, axis="k"),
        lambda: nx.fori_loop(0, 3, body, x),
        lambda: nx.map(body, x, axis="k"),
        lambda: nx.vmap(body, "k")(x),
        lambda: nx.xmap(body)(x),
        lambda: nx.cond(True, body, body, x),
    )


def test_errors_of_functions_of_the_user_stay_as_they_are():
    def body(*args: int):
        return {}["missing"]

    for call in calls_of(body):
        with pytest.raises(KeyError, match="missing"):
            call()


def test_a_call_within_a_function_of_the_user_stays_an_error_of_python():
    def inner():
        return 0.0

    def body(*args: int):
        return inner(1)

    for call in calls_of(body):
        with pytest.raises(TypeError, match=r"inner\(\) takes 0 positional arguments but 1 was given") as caught:
            call()
        assert not isinstance(caught.value, NamedaxError)


def test_a_function_that_does_not_accept_its_arguments_is_named():
    def body(a, b, *, c):
        return a

    for call in calls_of(body):
        with pytest.raises(
            ArgumentTypeError, match=r"^body: .*missing.*\. The call body\(.*\) must match the signature body\(a, b, \*, c\)\."
        ):
            call()


def test_a_backward_rule_that_does_not_accept_its_arguments_is_named():
    @nx.custom_vjp
    def f(x):
        return x

    def bwd(residuals):
        return (residuals,)

    f.defvjp(lambda x: (x, x), bwd)
    with pytest.raises(ArgumentTypeError, match=r"^bwd: takes 1 positional argument but 2 were given\. The call bwd\("):
        jax.grad(lambda x: nx.sum(f(x), "k"))(nx.named(jnp.ones(4), ["k"]))
