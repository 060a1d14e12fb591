"""Words of other libraries: an attribute that an array does not have says what it is called here."""

import copy
import pickle
import re
import warnings

import jax
import jax.numpy as jnp
import pytest

import namedax as nx
from namedax import hints
from namedax.errors import ArrayAttributeError
from tests.harness import array, said

X = nx.named(array(4, 6), ["q", "k"])
IDS = nx.named(jnp.array([0, 0, 3, 1, 1, 0]), ["k"])
OF_XARRAY = "sel isel loc values coords sizes indexes swap_dims rolling groupby fillna to_numpy assign_coords expand_dims broadcast_like stack"
OF_XARRAY_TOO = "weighted to_netcdf to_zarr"
OF_HALIAX = "axes array resolve_axis axis_size rearrange broadcast_axis broadcast_to flatten_axes unflatten_axis updated_slice unbind scalar"
OF_PENZAI = "tag untag unwrap order_as order_like tag_prefix untag_prefix positional_shape data_array canonicalize check_valid"
OF_COORDAX = "coordinate coord_fields named_axes named_dims to_xarray"
OF_PYTORCH = "names refine_names align_to align_as rename_ unflatten unsqueeze permute view matmul numpy numel detach backward to cuda float long"
IN_PLACE = "clamp repeat_interleave add_ copy_ zero_"
OF_DTENSOR = "to_local full_tensor redistribute placements"
OF_PANDAS = "isnull notna iloc plot dropna head tail groupby resample apply to_pandas hist"
OF_NUMPY = "fill flip searchsorted partition where nonzero unique median percentile tril concatenate"


def missing(word, x=X):
    with pytest.raises(AttributeError) as error:
        getattr(x, word)
    assert type(error.value) is ArrayAttributeError
    assert (error.value.name, error.value.obj) == (word, x) if x is not X else error.value.name == word
    return said(error.value)


@pytest.mark.parametrize(
    "word",
    " ".join(
        [OF_XARRAY, OF_XARRAY_TOO, OF_HALIAX, OF_PENZAI, OF_COORDAX, OF_PYTORCH, OF_NUMPY, OF_PANDAS, OF_DTENSOR, IN_PLACE]
    ).split(),
)
def test_every_word_of_others_has_one_of_ours(word):
    assert missing(word).startswith(f"{word}: f32[]{{q:4, k:6}} has no attribute {word!r}. Write ")
    assert not hasattr(X, word)


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("isel", "x['k', 3], or x[{'k': idx}] with an array of indices"),
        (
            "sel",
            "x['k', i] with i = int(np.searchsorted(coordinates, label)): an array has names only, and its coordinates are an array of yours",
        ),
        ("weighted", "nx.average(x, 'k', weights=w)"),
        ("to_netcdf", "nx.to_xarray(x), which has that method, or nx.positional(x, ['q', 'k'])"),
        ("values", "np.asarray(nx.positional(x, ['q', 'k']))"),
        ("axes", "x.dims, or x.named_shape with the sizes"),
        ("array", "x.data, or nx.positional(x, ['q', 'k']), which gives the axes an order"),
        ("resolve_axis", "'k' in x.dims"),
        ("rearrange", "nx.rearrange(x, '{q, k} -> {k, q}'), or nx.positional(x, ['q', 'k'])"),
        ("untag", "nx.untag(x, ['k', ...]), or nx.positional(x, ['q', 'k']) for all"),
        ("exp", "nx.exp(x)"),
        ("softmax", "nx.nn.softmax(x, axis='k')"),
        ("where", "nx.where(c, x, y)"),
        ("searchsorted", "nx.searchsorted(x, v, axis='k')"),
        ("maximum", "nx.maximum(x, y)"),
        ("quantile", "nx.quantile(x, q, axis='k')"),
        ("iloc", "x['k', 3], or x[{'k': idx}] with an array of indices"),
        ("plot", "plt.plot(nx.positional(x, ['q', 'k'])) and its like: other libraries know positions"),
        ("head", "x['k', :5]"),
        ("inv", "nx.numpy.linalg.inv(x)"),
        ("clamp", "nx.clip(x, low, high)"),
        ("repeat_interleave", "nx.repeat(x, 2, axis='k')"),
    ],
)
def test_what_is_to_be_written(word, written):
    assert missing(word) == f"{word}: f32[]{{q:4, k:6}} has no attribute {word!r}. Write {written}."


def test_the_table_has_words_that_arrays_lack_and_functions_that_there_are():
    for word in hints._ATTRIBUTES:
        assert not hasattr(nx.NamedArray, word), word
        text = hints.what_to_write(nx, word, ("q", "k"))
        for path in re.findall(r"\bnx((?:\.\w+)+)", text):
            found = nx
            for part in path[1:].split("."):
                found = getattr(found, part)
        for attribute in re.findall(r"\bx\.(\w+)", text):
            assert hasattr(X, attribute), text


def test_what_is_said_runs():
    """Where it is an expression of the array alone."""
    for word in (
        "axes",
        "sizes",
        "numel",
        "values",
        "unwrap",
        "untag",
        "swap_dims",
        "rearrange",
        "isel",
        "slice",
        "fillna",
        "amax",
        "unbind",
        "isnull",
        "notna",
        "dropna",
        "head",
        "tail",
        "groupby",
        "segment_mean",
        "nonzero",
        "unique",
        "median",
        "diff",
    ):
        text = hints.what_to_write(nx, word, ("q", "k"))
        code = re.split(r", or | for |, which |, x\.min|, of | and its like", text)[0]
        value = {"nx": nx, "x": X, "np": __import__("numpy"), "idx": jnp.array([0]), "ids": IDS, "mask": X > 0, "value": 0.0}
        assert eval(code, value) is not None, code


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("segment_mean", ". Write nx.segment_sum(x, ids, 12, axis='k') / nx.bincount(ids, axis='k', length=12)"),
        ("named_jit", ". Write nx.xmap(f, axis_resources={'b': 'x'}, mesh=mesh)"),
        ("Axis", ". Write names as strings, with sizes where arrays are made: nx.zeros(named_shape={'b': 8})"),
        ("groupby", ". Write nx.segment_sum(x, ids, 12, axis='k'), of the number of each entry's group, and its like"),
        (
            "reshape",
            ". There is namedax.numpy.reshape and namedax.lax.reshape. Write nx.split_axis, nx.merge_axes or nx.rearrange, which take names",
        ),
        ("softmax", ". There is namedax.nn.softmax"),
        ("load_safetensors", ". There is namedax.interop.load_safetensors"),
        ("cat", ". Write nx.concatenate([x, y], 'k')"),
        ("randn", ". Write nx.random.normal(key, named_shape={'b': 8})"),
        ("no_grad", ". Write plain code: only jax.grad computes gradients"),
        ("foo", ""),
    ],
)
def test_a_function_that_is_not_at_the_top(word, written):
    with pytest.raises(AttributeError) as error:
        getattr(nx, word)
    assert str(error.value) == f"module 'namedax' has no attribute {word!r}{written}"
    assert not set(hints._AT_FACE) & set(nx.__all__)


@pytest.mark.parametrize(
    ("space", "word", "written"),
    [
        (nx.nn, "Linear", ". Write nx.dot(x, weight, 'inputs') + bias"),
        (nx.nn, "cross_entropy", ". Write nx.nn.softmax_cross_entropy(logits, labels, 'classes')"),
        (nx.numpy, "cat", ". Write nx.concatenate([x, y], 'k')"),
        (nx.nn, "foo", ""),
    ],
)
def test_a_function_that_a_namespace_lacks(space, word, written):
    with pytest.raises(AttributeError) as error:
        getattr(space, word)
    assert str(error.value) == f"module '{space.__name__}' has no attribute {word!r}{written}"


def test_functions_of_pytorch_have_replacements_that_run():
    x, y = nx.named(array(4, 6), ["b", "k"]), nx.named(array(4, 6), ["b", "k"])
    values = {"nx": nx, "x": x, "y": y, "key": jax.random.key(0), "array": array(4, 6), "bias": 1.0}
    values |= {"weight": nx.named(array(6, 3), ["inputs", "m"]), "low": 0.0, "high": 1.0}
    values |= {"logits": nx.named(array(4, 6), ["b", "classes"]), "labels": nx.named(jnp.array([0, 5, 1, 2]), ["b"])}
    for word in ("cat", "tensor", "randn", "rand", "cross_entropy", "clamp", "repeat_interleave"):
        code = hints.at_face(word)
        assert eval(code, values) is not None, code
    assert eval(hints.at_face("repeat_interleave"), values).named_shape["k"] == 12
    assert float(nx.max(eval(hints.at_face("clamp"), values), ...)) <= 1.0
    q = nx.named(array(4, 6), ["pos", "key"])
    heads = eval(hints.at_face("scaled_dot_product_attention"), {"nx": nx, "query": q, "key": q, "value": q})
    assert set(heads.dims) == {"pos", "key"}
    table, ids = nx.named(array(4, 6), ["vocab", "k"]), nx.named(jnp.array([0, 3]), ["b"])
    assert set(eval(hints.at_face("Embedding"), {"nx": nx, "table": table, "ids": ids}).dims) == {"b", "k"}
    linear = {"nx": nx, "x": nx.named(array(2, 6), ["b", "inputs"]), "weight": values["weight"], "bias": 1.0}
    assert set(eval(hints.at_face("Linear"), linear).dims) == {"b", "m"}


def test_a_word_that_nobody_has():
    assert (
        missing("foo") == "foo: f32[]{q:4, k:6} has no attribute 'foo'. Its named axes are 'q', 'k'; dir(x) lists what it has."
    )
    assert missing("isel", nx.named(array(3), {})[None] * nx.named(array(2), ["t"])).endswith(
        "Write x['t', 3], or x[{'t': idx}] with an array of indices."
    )


@pytest.mark.parametrize("set_or_delete", [lambda x: setattr(x, "name", 1), lambda x: delattr(x, "dims")])
def test_an_attribute_that_cannot_be_set(set_or_delete):
    with pytest.raises(ArrayAttributeError, match="NamedArray is immutable"):
        set_or_delete(X)


def test_protocols_are_asked_for_as_of_any_object():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not any(hasattr(X, name) for name in ("__jax_array__", "_mesh", "aval", "unbox"))
    with pytest.raises(AttributeError) as error:
        X.__jax_array__  # noqa: B018 - the attribute is what is tried
    assert type(error.value) is ArrayAttributeError
    assert pickle.loads(pickle.dumps(X)).dims == copy.deepcopy(X).dims == X.dims


def test_an_array_whose_data_do_not_fit_is_still_asked():
    """Between a transform of JAX and the array that it makes of it, the data are anything."""
    leaf = jax.tree.map(lambda data: object(), X)
    assert not hasattr(leaf, "foo")
    inner = jax.tree.map(lambda data: X, X)
    assert not hasattr(inner, "foo")
