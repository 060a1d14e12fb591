"""Words of other libraries: an attribute that an array does not have says what it is called here."""

import ast
import builtins
import copy
import pickle
import re
import traceback
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArrayAttributeError
from namedax.messages import hints, migration_hints
from tests import make
from tests.harness import Lazily, array, make_mesh, said

optax, xarray = Lazily("optax"), Lazily("xarray")
X = nx.named(array(4, 6), ["q", "k"])
IDS = nx.named(make.array([0, 0, 3, 1, 1, 0]), ["k"])
OF_XARRAY = "sel isel loc values coords sizes indexes swap_dims rolling groupby fillna to_numpy assign_coords expand_dims broadcast_like stack"
OF_XARRAY_TOO = "weighted to_netcdf to_zarr"
OF_HALIAX = "axes array resolve_axis axis_size rearrange broadcast_axis broadcast_to flatten_axes unflatten_axis updated_slice unbind scalar"
OF_PENZAI = "tag untag unwrap order_as order_like tag_prefix untag_prefix positional_shape data_array canonicalize check_valid"
OF_COORDAX = "coordinate coord_fields named_axes named_dims to_xarray"
OF_TENSORS = (
    "new_zeros new_ones new_full new_empty new_tensor view_as reshape_as movedim swapdims nelement ndimension is_floating_point"
)
OF_TENSORS_TOO = "tensor_split take_along_dim masked_select index_add scatter_reduce kthvalue std_mean logcumsumexp histc addmm addcmul lerp dist"
OF_TENSORS_ALSO = (
    "eq mul neg clamp_min frac sgn inverse logdet matrix_exp bernoulli multinomial short byte is_cuda pin_memory register_hook"
)
OF_SAME_LIBRARIES = "equals sortby idxmax thin coarsen differentiate integrate combine_first reindex_like set_index groupby_bins chunks vmap shift"
OF_TENSORFLOW = "get_shape set_shape assign assign_add gather_nd"
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


@pytest.mark.fast(74)
@pytest.mark.parametrize(
    "word",
    " ".join(
        [
            *(
                OF_XARRAY,
                OF_XARRAY_TOO,
                OF_HALIAX,
                OF_PENZAI,
                OF_COORDAX,
                OF_PYTORCH,
                OF_NUMPY,
                OF_PANDAS,
                OF_DTENSOR,
                IN_PLACE,
            ),
            *(OF_TENSORS, OF_TENSORS_TOO, OF_TENSORS_ALSO, OF_SAME_LIBRARIES, OF_TENSORFLOW),
        ]
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
        ("inv", "nx.numpy.linalg.inv(nx.untag(x, ['q', 'k']))"),
        ("inverse", "nx.numpy.linalg.inv(nx.untag(x, ['q', 'k']))"),
        ("new_zeros", "nx.zeros(named_shape={'new': 8}, dtype=x.dtype)"),
        ("scatter_add", "x.at['k', 3].add(value), which makes a new array"),
        ("masked_fill_", "x = nx.where(mask, value, x)"),
        ("round_", "x = nx.round(x)"),
        ("mul_", "x = x * y: arrays are immutable, and operations return new ones"),
        ("shift", "nx.shift(x, offset, axis='k')"),
        ("erfinv", "nx.scipy.special.erfinv(x)"),
        ("clamp", "nx.clip(x, low, high)"),
        ("repeat_interleave", "nx.repeat(x, 2, axis='k')"),
    ],
)
def test_what_is_to_be_written(word, written):
    assert missing(word) == f"{word}: f32[]{{q:4, k:6}} has no attribute {word!r}. Write {written}."


def test_the_table_has_words_that_arrays_lack_and_functions_that_there_are():
    for word in migration_hints.ATTRIBUTES:
        assert not hasattr(nx.NamedArray, word), word
        text = hints.what_to_write(nx, word, ("q", "k"))
        for path in re.findall(r"\bnx((?:\.\w+)+)", text):
            found = nx
            for part in path[1:].split("."):
                found = getattr(found, part)
        for attribute in re.findall(r"\bx\.(\w+)", text):
            assert hasattr(X, attribute), text


def code_of(text, known):
    """The longest beginning of a text that is code of known names; `None` if there is none."""
    for end in [len(text), *(i for i in range(len(text) - 1, 0, -1) if text[i] in " ,:;")]:
        if text[end - 1] == ",":
            continue
        try:
            tree = ast.parse(text[:end])
        except SyntaxError:
            continue
        nodes = list(ast.walk(tree))
        own = {node.arg for node in nodes if isinstance(node, ast.arg)}
        read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        if isinstance(tree.body[0], (ast.Expr, ast.Assign)) and read - own <= known:
            return text[:end]
    return None


def codes_of(text):
    """The code in a hint: in each of its parts at the beginning, or after what introduces it."""
    known = {*dir(builtins), *variables("")}
    found = []
    for part in re.split(r", or |; | with |, and |(?<=\)) or ", text):
        places = [part, *(part[i.end() :] for i in re.finditer(r": |as in ", part))]
        found.append(next((code for place in places if (code := code_of(place, known)) is not None), None))
    return [code for code in found if code is not None]


# Hints without code that runs alone.
ENGLISH = ("no_grad", "inference_mode", "enable_grad", "fsdp")


def variables(code):
    """The variables of the code of hints."""
    x, square = nx.named(array(8, 6), ["b", "k"]), nx.named(jnp.eye(6) + array(6, 6) / 9, ["b", "k"])
    if "untag(x, ['b', 'k'])" in code or "diagonal" in code:
        x = square
    if "'rows'" in code:
        x = nx.named(array(6, 6), ["rows", "columns"])
    if "x.item()" in code:
        x = nx.sum(x, ...)
    if "nx.named(x" in code:
        x = array(6, 2)
    image, kernel = (
        nx.named(array(2, 4, 6, 8), ["b", "height", "width", "channel"]),
        nx.named(array(3, 3, 8, 5), [None, None, "channel", "out"]),
    )
    pos = nx.named(array(4, 6), ["pos", "key"])
    k, b = nx.named(array(6), ["k"]), nx.named(jnp.arange(8), ["b"])
    return {
        **{
            "nx": nx,
            "jax": jax,
            "jnp": jnp,
            "np": np,
            "x": x,
            "y": 0.5 * x + 0.1,
            "z": k,
            "c": x > 0,
            "mask": x > 0,
            "key": jax.random.key(0),
        },
        **{
            "value": 0.5,
            "low": 0.1,
            "high": 0.9,
            "dtype": "float32",
            "i": 2,
            "idx": nx.named(jnp.array([0, 3]), ["i"]),
            "w": k,
            "offset": 1,
        },
        **{
            "ids": nx.named(jnp.array([0, 0, 3, 1, 1, 0]), ["k"]),
            "coordinates": array(6),
            "label": 0.5,
            "array": array(8, 6),
            "arrays": [x],
        },
        **{
            "function": nx.sin,
            "f": nx.sin,
            "loss": lambda x: nx.sum(x, ...),
            "axis_resources": {"b": "x"},
            "mesh": make_mesh((4, 2)),
        },
        **{
            "plt": types.SimpleNamespace(plot=np.asarray),
            "image": image,
            "kernel": kernel,
            "query": pos,
            "value_": pos,
            "scale": k,
            "slope": 0.1,
        },
        **{
            "weight": nx.named(array(6, 3), ["inputs", "m"]),
            "weights": nx.named(array(6, 3), ["k", "m"]),
            "bias": 1.0,
            "radius": 2.0,
        },
        **{
            "table": nx.named(array(4, 3), ["vocab", "embed"]),
            "boundaries": nx.named(jnp.arange(5.0), ["i"]),
            "lengths": b,
            "targets": x,
        },
        **{
            "logits": nx.named(array(8, 5), ["b", "classes"]),
            "labels": b % 5,
            "cell": lambda c, row: (c + row, c),
            "state": k,
            "tree": {"w": k},
        },
        **{"spec": {"w": ("w", "k -> {k}")}, "optax": optax, "data_array": None},
    }


def texts():
    """Every text of the tables, with one of its words."""
    found = {hints.what_to_write(nx, word, ("b", "k")): word for word in migration_hints.ATTRIBUTES}
    return found | {hints.at_face(word): word for word in migration_hints.FUNCTIONS}


def run_hint(word, text):
    codes = codes_of(text)
    assert codes or word in ENGLISH, text
    for code in codes:
        scope = variables(code)
        if "data_array" in code and "from_xarray" in code:
            scope["data_array"] = xarray.DataArray(np.ones((2, 3)), dims=["b", "k"])
        if "from_state_dict" in code:
            scope["state"] = {"w": np.ones(6, np.float32)}
        if "attention(" in code:
            scope |= {"key": scope["query"], "value": scope["query"]}
        if "Linear" in word or "x, weight, 'inputs'" in code:
            scope["x"] = nx.named(array(2, 6), ["b", "inputs"])
        exec(f"result = {code}" if not re.match(r"\w+ = ", code) else code, scope)
        result = scope.get("result", scope["x"])
        assert not isinstance(result, types.FunctionType) or eval(f"callable({code})", scope)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("part", range(8))
def test_every_hint_of_the_tables_runs(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nx.checkpoints.save("here", {"x": X})
    for text, word in [*texts().items()][part::8]:
        run_hint(word, text)


IN_PLACE_WORDS = "relu_ round_ clip_ masked_fill_ unsqueeze_ scatter_ index_add_ exp_ neg_ eq_ clamp_ sigmoid_ softmax_ sqrt_"


@pytest.mark.fast(7)
@pytest.mark.parametrize("word", IN_PLACE_WORDS.split())
def test_methods_in_place_are_assignments(word):
    text = missing(word, nx.named(array(8, 6), ["b", "k"]))
    code = re.search(r"Write (x = .*)\.$", text)[1]
    scope = variables(code)
    exec(codes_of(code)[0], scope)
    assert isinstance(scope["x"], nx.NamedArray)


NAMESAKES = "abs acos add angle atan2 conj copysign cos cumsum erf erfinv exp expm1 fmod isnan lgamma log1p logit logsumexp maximum nan_to_num"


@pytest.mark.fast(0)
@pytest.mark.parametrize(
    "word", [*NAMESAKES.split(), *"pow quantile relu roll rsqrt sigmoid sign softmax tanh tile trunc xlogy".split()]
)
def test_methods_with_a_namesake_run(word):
    if hasattr(nx.NamedArray, word):
        return
    code = hints.what_to_write(nx, word, ("b", "k"))
    scope = variables(code) | {"x2": 0.5, "b": 0.5, "q": 0.5, "shift": 1, "reps": {"k": 2}}
    assert isinstance(eval(code, scope), nx.NamedArray)


MATRICES = "cholesky det eigh inv inverse logdet matrix_exp matrix_power pinverse qr slogdet svd"


@pytest.mark.full(11)
@pytest.mark.fast(0)
@pytest.mark.parametrize("word", MATRICES.split())
def test_functions_of_matrices_take_the_last_two_axes(word):
    many = nx.named(jnp.stack([jnp.eye(3) * 2, jnp.eye(3) * 3]), ["b", "rows", "columns"])
    code = hints.what_to_write(nx, word, many.dims)
    result = eval(code, {"nx": nx, "x": many, "n": 2})
    leaves = jax.tree.leaves(result, is_leaf=lambda leaf: isinstance(leaf, nx.NamedArray))
    assert all(leaf.named_shape == {"b": 2} for leaf in leaves)


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("segment_mean", ". Write nx.group_reduce(x, ids, 'k', 'mean', groups=12, out_axis='group')"),
        ("named_jit", ". Write nx.xmap(f, axis_resources={'b': 'x'}, mesh=mesh)"),
        ("Axis", ". Write names as strings, with sizes where arrays are made: nx.zeros(named_shape={'b': 8})"),
        ("groupby", ". Write nx.group_reduce(x, ids, 'k', 'mean', groups=12, out_axis='group')"),
        (
            "reshape",
            ". There is namedax.numpy.reshape and namedax.lax.reshape. Write nx.split_axis, nx.merge_axes or nx.rearrange, which take names",
        ),
        ("softmax", ". There is namedax.nn.softmax"),
        ("load_safetensors", ". There is namedax.interop.load_safetensors"),
        ("cat", ". Write nx.concatenate([x, y], 'k')"),
        ("randn", ". Write nx.random.normal(key, named_shape={'b': 8})"),
        ("no_grad", ". Write plain code: only jax.grad computes gradients"),
        ("Tensor", ". Write nx.named(array, ['b', 'k'])"),
        ("manual_seed", ". Write key = jax.random.key(0), the first argument of the functions of nx.random"),
        ("load", ". There is namedax.numpy.load. Write nx.checkpoints.restore('here')"),
        ("reduce_mean", ". Write nx.mean(x, 'k')"),
        ("cholesky", ". There is namedax.linalg.cholesky"),
        ("apply_ufunc", ". Write nx.nmap(function)(x)"),
        ("parse_shape", ". Write x.named_shape"),
        ("ds", ". Write x['k', 2:5]"),
        ("foo", ""),
        ("einsun", ". Did you mean namedax.einsum?"),
        ("sofmax", ". Did you mean namedax.nn.softmax?"),
        ("shrad", ". Did you mean namedax.shard?"),
        ("assert_no_gathers", ". Did you mean namedax.testing.assert_no_gather?"),
        ("AxisSizeError", ". There is namedax.errors.AxisSizeError"),
        ("UnevenAxisWarning", ". There is namedax.errors.UnevenAxisWarning"),
        ("AxisSizeEror", ". Did you mean namedax.errors.AxisSizeError?"),
    ],
)
def test_a_function_that_is_not_at_the_top(word, written):
    with pytest.raises(AttributeError) as error:
        getattr(nx, word)
    assert str(error.value) == f"module 'namedax' has no attribute {word!r}{written}"
    assert not set(migration_hints.FUNCTIONS) & set(nx.__all__)


@pytest.mark.parametrize(
    ("space", "word", "written"),
    [
        (nx.nn, "Linear", ". Write nx.dot(x, weight, 'inputs') + bias"),
        (nx.nn, "cross_entropy", ". Write nx.nn.softmax_cross_entropy(logits, labels, 'classes')"),
        (nx.numpy, "cat", ". Write nx.concatenate([x, y], 'k')"),
        (nx.nn, "functional", ". Write nx.nn.relu(x): the functions are in nx.nn itself"),
        (
            nx.nn,
            "Module",
            ". Write a function of its parameters, as in lambda params, x: nx.dot(x, params['weight'], 'inputs') + params['bias']",
        ),
        (
            nx.nn,
            "Conv2d",
            ". Write nx.conv(image, kernel, ('height', 'width'), features_in='channel', features_out='out'), whose kernel has "
            "positional axes",
        ),
        (nx.nn, "ReLU", ". Write nx.nn.relu(x)"),
        (nx.nn, "mse_loss", ". Write nx.mean((x - y) ** 2, ...)"),
        (nx.nn, "pad", ". There is namedax.pad"),
        (nx.nn, "einsum", ". There is namedax.einsum"),
        (nx.numpy, "relu", ". There is namedax.nn.relu"),
        (nx.random, "randn", ". Write nx.random.normal(key, named_shape={'b': 8})"),
        (nx.nn, "foo", ""),
        (nx.nn, "sofmax", ". Did you mean namedax.nn.softmax?"),
        (nx.nn, "einsun", ". Did you mean namedax.einsum?"),
        (nx.numpy, "aragne", ". Did you mean namedax.numpy.arange?"),
    ],
)
def test_a_function_that_a_namespace_lacks(space, word, written):
    with pytest.raises(AttributeError) as error:
        getattr(space, word)
    assert str(error.value) == f"module '{space.__name__}' has no attribute {word!r}{written}"


def test_python_adds_no_suggestion_of_its_own():
    """It knows the names of one module only, and would add "Did you mean: 'fmax'?"."""
    for space, word in ((nx, "sofmax"), (nx, "einsun"), (nx.nn, "sofmax"), (nx.numpy, "relu")):
        with pytest.raises(AttributeError) as error:
            getattr(space, word)
        shown = "".join(traceback.format_exception(error.value))
        assert shown.endswith(f"AttributeError: {error.value}\n")
        assert error.value.name == word


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
