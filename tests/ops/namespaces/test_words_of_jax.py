"""What users of JAX and NumPy write out of habit: who takes names, and where the words of old have gone."""

import functools
import inspect
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import namedax as nx
from namedax.errors import (
    ArgumentTypeError,
    AxisMappingError,
    AxisNotFoundError,
    MeshError,
    NamedaxError,
    NamedAxesLeftError,
    PositionalAxisError,
    RawBlockError,
    UnevenAxisError,
)
from tests import make
from tests.harness import array, make_mesh, said

MESH = make_mesh((4, 2))
X = nx.named(array(4, 6), ["q", "k"])
PLACES = [{}, {"q": "x"}]


def message(call, kind):
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    return said(error.value)


def in_body(body, resources=None, x=X):
    return nx.xmap(body, axis_resources=resources, mesh=MESH)(x)


def note(call, kind):
    """The note of namedax on an error of JAX."""
    with pytest.raises(kind) as error:
        call()
    assert not isinstance(error.value, NamedaxError)
    (found,) = (note for note in error.value.__notes__ if note.startswith("namedax"))
    return found


# --- names given to functions of JAX ----------------------------------------------------------------------------------


OWN = "JAX's own function got axis='q', an axis name, but it takes positional axes; it treats names as mesh axes. Use {}, which takes names."


@pytest.mark.parametrize(
    ("function", "ours"), [(jnp.sum, "nx.sum"), (jnp.max, "nx.max"), (jnp.mean, "nx.mean"), (jax.nn.softmax, "nx.nn.softmax")]
)
def test_an_axis_of_a_function_of_jax(function, ours):
    by_name = functools.partial(function, axis="q")
    name = function.__name__
    assert message(lambda: nx.nmap(by_name)(X), ArgumentTypeError) == f"{name}: {OWN.format(ours)}"
    assert message(lambda: nx.xmap(by_name, ["q", "k"], ["k"])(X.data), ArgumentTypeError) == f"{name}: {OWN.format(ours)}"
    for resources in PLACES:
        text = message(lambda resources=resources: in_body(lambda x: by_name(x.data), resources), RawBlockError)
        assert text == f"{name}: in the body of <lambda> {OWN.format(ours)}"


def test_a_collective_is_still_called_one():
    for resources in PLACES:
        text = message(lambda resources=resources: in_body(lambda x: lax.psum(x.data, "q"), resources), RawBlockError)
        assert text.startswith("jax.lax.psum: in the body of <lambda> it names 'q'")


@pytest.mark.parametrize("spec", ["{q,k}->{q}", "{q} {k} -> {q}", "ij->i"])
def test_the_einsum_of_jax_in_a_body(spec):
    for resources in PLACES:
        assert "nx.einsum takes names too, in braces, one pair of braces for each operand" in note(
            lambda resources=resources: in_body(lambda x: jnp.einsum(spec, x), resources), ValueError
        )


def test_hints_for_xeinsum():
    with pytest.raises(
        AttributeError,
        match=r"module 'namedax.lax' has no attribute 'xeinsum'; it is namedax.einsum, whose names stand in braces now",
    ):
        nx.lax.xeinsum  # noqa: B018 - the attribute is what is tried
    assert "JAX removed xeinsum together with xmap. Use nx.einsum, with names in braces." in note(
        lambda: in_body(lambda x: lax.xeinsum("{q,k}->{q}", x)), AttributeError
    )


def test_gradient_of_a_function_that_returns_named_axes():
    for resources in PLACES:
        text = note(lambda resources=resources: in_body(lambda x: jax.grad(lambda y: nx.sum(y, "k"))(x), resources), TypeError)
        left = "f32[]{q:4@x}" if resources else "f32[]{q:4}"
        assert text == (
            f"namedax: the differentiated function returns {left}, but a gradient needs a scalar. Reduce the remaining names in the "
            "function: nx.mean(loss, axis=...) reduces all of them."
        )


# --- values that are not known ----------------------------------------------------------------------------------------


def of_float(x):
    return float(nx.mean(x, ("q", "k")))


def of_if(x):
    return x if nx.mean(x, ("q", "k")) > 0 else -x


def of_numpy(x):
    return np.asarray(nx.sum(x, ("q", "k")))


@pytest.mark.parametrize("body", [of_float, of_if, of_numpy])
@pytest.mark.parametrize("resources", [{}, {"q": "x"}, {"q": nx.SerialLoop(2)}])
@pytest.mark.parametrize("partitioning", ["manual", "auto"])
def test_a_value_that_is_not_known_is_said_to_be_the_users(body, resources, partitioning):
    f = nx.xmap(body, axis_resources=resources, mesh=MESH, partitioning=partitioning)
    with pytest.raises((jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)) as error:
        f(X)
    line = inspect.getsourcelines(body)[1]
    assert f"tracing the function {body.__name__} at {__file__}:{line} for" in str(error.value)
    assert "namedax/" not in str(error.value).replace(__file__, "")


def test_what_is_shown_does_not_keep_a_function():
    """JAX's programs outlive a function, which may close over large arrays."""
    import gc
    import weakref

    def f(x):
        return x + 1

    alive = weakref.ref(f)
    nx.xmap(f, axis_resources={"q": "x"}, mesh=MESH)(X)
    del f
    gc.collect()
    assert alive() is None


# --- meshes and loops of old ------------------------------------------------------------------------------------------


def test_with_mesh_sets_none():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with MESH:
            text = message(lambda: nx.xmap(nx.sin, axis_resources={"q": "x"})(X), MeshError)
            of_shard = message(lambda: nx.shard(X, {"q": "x"}), MeshError)
    given = "Pass mesh=jax.make_mesh(...), or set a mesh with jax.set_mesh(mesh); `with mesh:` does not set one."
    assert text == (
        f"xmap: axis_resources maps 'q' to mesh axes ('x',), but there is no mesh. {given} To execute 'x' as a loop, call within "
        "nx.serial_loop('x', steps)."
    )
    assert of_shard == f"shard: there is no mesh. {given}"


def test_a_loop_without_its_context():
    text = message(lambda: nx.xmap(nx.sin, axis_resources={"q": "steps"}, mesh=MESH)(X), MeshError)
    assert text.endswith(
        "its axes are 'x', 'y' with sizes (4, 2). To execute 'steps' as a loop, call within nx.serial_loop('steps', steps)."
    )
    with nx.serial_loop("steps", 2):
        assert nx.xmap(nx.sin, axis_resources={"q": "steps"}, mesh=MESH)(X).dims == ("q", "k")


def test_a_body_without_names_is_a_body():
    text = message(lambda: nx.xmap(lambda x: x + nx.lax.axis_index("z"), [], [])(jnp.ones(())), AxisNotFoundError)
    assert text.startswith("axis_index: axis 'z' has no size; no axis here has a name. Give")
    assert "no mapped function is being traced here" in message(lambda: nx.lax.axis_index("z"), AxisNotFoundError)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x + nx.arange(axis="a3"),
        lambda x: nx.nn.one_hot((x > 0).astype(int), axis="a3"),
        lambda x: nx.zeros(named_shape={"a3": None}),
    ],
)
def test_a_name_is_not_suggested_for_itself(make):
    for out_axes in (["q", "k", "a3"], None):
        with pytest.raises(AxisNotFoundError, match="axis 'a3' has no size here") as error:
            nx.xmap(make, ["q", "k"], out_axes)(X.data)
        assert "Did you mean" not in str(error.value)


# --- NumPy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "any", "all", "std", "var"])
def test_a_reduction_of_numpy(name):
    for call in (lambda: getattr(np, name)(X), lambda: getattr(np, name)(X, "k")):
        assert message(call, NamedAxesLeftError) == (
            f"np.{name}: f32[]{{q:4, k:6}} still has named axes, and NumPy's functions do not support names. Write nx.{name}(x, axis), "
            "where axis is one of 'q', 'k', or nx.positional(x, ['q', 'k']) for a positional array."
        )
    assert message(lambda: getattr(nx, name)(X, "k", out=None), ArgumentTypeError) == (
        f"{name}: f32[]{{q:4, k:6}} got out= from np.{name}, and NumPy's functions do not support names. Write nx.{name}(x, axis), where "
        "axis is one of 'q', 'k', a tuple of them, or ... for all."
    )


CONVERTING = [
    np.asarray,
    lambda x: np.array([x, x]),
    jnp.asarray,
    jnp.array,
]


@pytest.mark.parametrize("function", CONVERTING)
def test_conversion_to_numpy(function):
    assert message(lambda: function(X), NamedAxesLeftError) == (
        "np.asarray: f32[]{q:4, k:6} still has named axes, and np.asarray needs an array without names. Reduce them, or give them positions with "
        "nx.positional(x, ['q', 'k', ...]). jnp.asarray and NumPy's functions need one too; the functions of nx and nx.numpy take named arrays."
    )


def test_operators_of_numpy_and_arrays_without_names_are_as_before():
    x = nx.named(array(4, 6), ["q", ...])
    np.testing.assert_allclose(nx.positional(np.ones(6) + x, ["q", ...]), x.data + 1, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(nx.NamedArray(jnp.ones(3), (None,))), np.ones(3))


# --- arguments that a function does not have --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: nx.nn.layer_norm(X, "k", 1.0, 0.0),
            "layer_norm: takes 2 positional arguments but 4 were given. Write nx.nn.layer_norm(x, axis). It also takes the keywords scale=, "
            "bias=, epsilon=, where=.",
        ),
        (
            lambda: nx.nn.layer_norm(X, "k", gamma=1.0),
            "layer_norm: got an unexpected keyword argument 'gamma'. Write nx.nn.layer_norm(x, axis). It also takes the keywords scale=, bias=, "
            "epsilon=, where=. Did you mean scale=?",
        ),
        (
            lambda: nx.sort(X, "q", "k"),
            "sort: takes from 1 to 2 positional arguments but 3 were given. Write nx.sort(x, axis). It also takes the keywords kind=, order=, "
            "stable=, descending=.",
        ),
        (
            lambda: nx.nn.dropout(X, 0.5),
            "dropout: missing 1 required positional argument: 'rate'. Write nx.nn.dropout(x, key, rate). It also takes the keywords shared=, "
            "deterministic=.",
        ),
        (
            lambda: nx.split_axis(X, "k"),
            "split_axis: missing 1 required positional argument: 'sizes'. Write nx.split_axis(x, axis, sizes).",
        ),
        (lambda: nx.nn.relu(X, 1), "relu: too many positional arguments. Write nx.nn.relu(x)."),
        (
            lambda: nx.dot(X, X),
            "dot: missing 1 required positional argument: 'axis'. Write nx.dot(x, y, axis). It also takes the keywords precision=, "
            "preferred_element_type=, overlap=.",
        ),
        (
            lambda: nx.arange(3, out_axis="k"),
            "arange: got an unexpected keyword argument 'out_axis'. Write nx.arange(start, stop, step, axis=...). It also takes the "
            "keyword dtype=. Did you mean axis=?",
        ),
    ],
)
def test_arguments_that_do_not_match_the_signature(call, text):
    assert message(call, ArgumentTypeError) == text
    if "arange" not in text:
        with pytest.raises(ArgumentTypeError, match=re.escape(text.partition(". Write")[0])):
            nx.xmap(lambda: call(), (), None)()


@pytest.mark.parametrize("name", ["sum", "mean", "max", "var", "median", "cumsum", "flip", "logsumexp", "argmax"])
@pytest.mark.parametrize("word", ["dim", "axes"])
def test_migration_hints_for_the_axis(name, word):
    text = message(lambda: getattr(nx, name)(X, **{word: "k"}), ArgumentTypeError)
    assert text.startswith(f"{name}: got an unexpected keyword argument {word!r}. Write nx.{name}(")
    assert text.endswith("Did you mean axis=?")


def test_a_type_error_of_a_right_call_keeps_its_words():
    with pytest.raises(TypeError) as error:
        nx.sum(X, "k", keepdims=False, initial=object())
    assert "too many" not in str(error.value)
    assert "unexpected" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: nx.nn.softmax(X, "q", "k"),
            "softmax: expected an array, got 'k'. Write nx.nn.softmax(x, axis).",
        ),
        (
            lambda: X.rename("a"),
            "rename: names='a' is not a mapping. Write nx.rename(x, {'old': 'new'}) or nx.rename(x, old='new').",
        ),
    ],
)
def test_an_axis_in_another_place(call, text):
    assert message(call, ArgumentTypeError) == text


def test_a_word_that_is_an_axis_too():
    x = nx.named(array(4, 6, 3), ["a", "b", "fro"])
    np.testing.assert_allclose(nx.norm(x, "fro", ("a", "b")).data, np.linalg.norm(x.data, "fro", (0, 1)), rtol=1e-5)


ON_X = {"axis_resources": {"i": "x"}, "mesh": MESH}


@pytest.mark.parametrize("op", ["psum", "all_gather", "axis_size"])
def test_a_mesh_axis_in_place_of_an_axis_name(op):
    body = getattr(nx.lax, op)
    text = message(
        lambda: nx.xmap(lambda v: body("x") if op == "axis_size" else body(v, "x"), ["i"], **ON_X)(make.arange(8)),
        AxisNotFoundError,
    )
    assert (
        text == f"{op}: axis 'x' has no size; the names here are 'i'. 'x' is a mesh axis, over which 'i' is sharded. Write 'i'."
    )


def test_a_mesh_axis_of_a_reduction():
    text = message(lambda: nx.xmap(lambda v: nx.sum(v, "x"), ["i"], **ON_X)(make.arange(8)), AxisNotFoundError)
    assert text.endswith("its named axes are 'i'. 'x' is a mesh axis, over which 'i' is sharded. Write 'i'.")
    text = message(lambda: nx.xmap(lambda v: nx.sum(v, "y"), ["i"], **ON_X)(make.arange(8)), AxisNotFoundError)
    assert text.endswith(
        "'y' is a mesh axis, over which no name is sharded. Write an axis name, and map it in axis_resources of xmap."
    )
    # A name that is called as a mesh axis is, where a value lacks it.
    named_y = {"in_axes": (["i"], ["y"]), "axis_resources": {"i": "x"}, "mesh": MESH}
    text = message(lambda: nx.xmap(lambda v, w: nx.sum(v, "y"), **named_y)(make.arange(8), make.arange(3)), AxisNotFoundError)
    assert "mesh axis" not in text


@pytest.mark.parametrize("which", ["in_axes", "out_axes"])
def test_a_partition_spec_for_an_axis_mapping(which):
    mappings = {"in_axes": ["i"], "out_axes": ["i"], which: jax.sharding.PartitionSpec(None, "x")}
    text = message(lambda: nx.xmap(nx.sin, **mappings, **ON_X)(make.arange(8)), AxisMappingError)
    assert text.startswith(f"xmap, {which}: ")
    assert text.endswith("A PartitionSpec has mesh axes. Write axis names here, and {'name': 'x'} in axis_resources.")


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        (
            "in_specs",
            "A PartitionSpec has mesh axes: write axis names in in_axes=, and their mesh axes in axis_resources={'name': 'x'}.",
        ),
        (
            "out_specs",
            "A PartitionSpec has mesh axes: write axis names in out_axes=, and their mesh axes in axis_resources={'name': 'x'}.",
        ),
        ("check_vma", "Replication is always checked; remove this option."),
        ("backend", "The mesh determines the devices: pass mesh=."),
        ("axis_name", "Write axis names in in_axes=, as in in_axes=['batch']."),
        ("axis_mapping", "Did you mean axis_resources=?"),
        ("donate_argnames", "Give the positions, donate_argnums=."),
    ],
)
def test_options_that_xmap_does_not_have(word, remedy):
    assert message(lambda: nx.xmap(nx.sin, **{word: None}), ArgumentTypeError) == (
        f"xmap: got an unexpected keyword argument {word!r}. Write nx.xmap(fun, in_axes, out_axes, axis_resources=...). {remedy}"
    )


def test_xmap_as_a_decorator_with_options():
    text = message(lambda: nx.xmap(in_axes=["i"]), ArgumentTypeError)
    assert text.endswith("As a decorator with options: @functools.partial(nx.xmap, in_axes=...).")


def test_vmap_without_its_axis():
    text = message(lambda: nx.vmap(nx.sin)(nx.named(make.arange(8), ["i"])), PositionalAxisError)
    assert text == "vmap: i32[]{i:8} has no positional axis. Pass in_axes= with the name of an axis."


def test_a_symbolic_size_that_may_not_divide():
    def exported(size):
        (n,) = jax.export.symbolic_shape(size)
        return jax.export.export(jax.jit(nx.xmap(lambda v: v * 2, ["i"], ["i"], **ON_X)))(
            jax.ShapeDtypeStruct((n,), jnp.float32)
        )

    assert str(exported("4*n").in_avals[0].shape) == "(4*n,)"
    assert message(lambda: exported("2*n"), UnevenAxisError) == (
        "xmap: axis 'i' of size 2*n does not divide over mesh axes ('x',), 4 devices in total, for some values of its symbols. Export it with a "
        "size that divides, such as jax.export.symbolic_shape('4*n'), or map 'i' to fewer devices in axis_resources."
    )


@pytest.mark.parametrize("lift", [nx.nmap, lambda f: f], ids=["lifted", "called"])
def test_a_shard_map_in_a_body(lift):
    def mapped(**options):
        specs = jax.sharding.PartitionSpec("y")
        inner = lift(jax.shard_map(lambda w: w * jax.lax.axis_index("y"), in_specs=specs, out_specs=specs, **options))
        return nx.xmap(lambda v: inner(make.ones(4)) * v, ["i"], ["i", None], **ON_X)(make.arange(8))

    with pytest.raises(ValueError, match="should match the mesh") as error:
        mapped(mesh=ON_X["mesh"])
    assert any("Leave mesh= out" in note and "axis_names={'y'}" in note for note in error.value.__notes__)
    np.testing.assert_array_equal(mapped(axis_names={"y"}), np.outer(np.arange(8), [0, 0, 1, 1]))


def test_indices_where_pairs_belong():
    v = nx.named(make.arange(3), ["i"])
    assert message(lambda: nx.lax.ppermute(v, "i", [1, 2, 0]), ArgumentTypeError) == (
        "ppermute: perm=[1, 2, 0] contains indices, but ppermute takes pairs (source, target). If instance i should "
        "receive the element of instance perm[i], "
        "write nx.lax.pshuffle(x, 'i', perm)."
    )


def test_axes_called_as_arguments_are():
    v = nx.named(make.arange(8), ["embed"])
    assert nx.rearrange(v, "{embed=(x pattern)} -> {x, pattern}", x=2).named_shape == {"x": 2, "pattern": 4}
    assert nx.reduce(v, "{embed=(x pattern)} -> {pattern}", "sum", x=2).named_shape == {"pattern": 4}


# --- solvers of other libraries: loops of JAX whose carry begins with constants ------------------------------------------


def _euler(field, y0, steps=3):
    """A solver as other libraries write it: it keeps its steps in a buffer of zeros."""
    saved = jax.tree.map(lambda a: jnp.zeros((steps, *a.shape), a.dtype), y0)

    def step(i, carry):
        y, saved = carry
        y = jax.tree.map(lambda a, b: a + 0.1 * b, y, field(y))
        return y, jax.tree.map(lambda s, a: s.at[i].set(a), saved, y)

    return jax.lax.fori_loop(0, steps, step, (y0, saved))[1]


def _first_or_zero(field, y0):
    return jax.lax.cond(True, lambda: field(y0), lambda: jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), y0))


@pytest.mark.parametrize("solver", [_euler, _first_or_zero])
def test_a_solver_of_another_library_in_a_body(solver):
    def body(y):
        return solver(lambda y: jax.tree.map(lambda a: -a, y), y)

    options = {"axis_resources": {"a": "x"}, "mesh": make_mesh((4,))}
    out = [None, "a"] if solver is _euler else ["a"]
    nx.xmap(body, (["a"],), out)(array(8))
    with pytest.raises(TypeError, match=r"pcast|manual ax[ie]s|varying") as caught:
        nx.xmap(body, (["a"],), out, **options)(array(8))
    notes = "".join(caught.value.__notes__)
    assert "Map the function that the solver calls" in notes
    assert "call the solver outside of the mapped function" in notes
    assert notes.count("Map the function") == 1


def test_a_solver_of_another_library_outside():
    y, decay = array(8), np.asarray([0.5, 2.0, 1.0, 3.0] * 2, np.float32)
    field = nx.xmap(
        lambda y, k: -k * y + nx.mean(y, "a"), (["a"], ["a"]), ["a"], axis_resources={"a": "x"}, mesh=make_mesh((4,))
    )
    have = jax.jit(lambda y: _euler(lambda y: field(y, decay), y))(y)
    want = np.asarray(y)
    for row in have:
        want = want + np.float32(0.1) * (-decay * want + want.mean())
        np.testing.assert_allclose(row, want, rtol=1e-5)
