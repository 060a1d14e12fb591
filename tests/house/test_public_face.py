"""The public names: one table and nothing else, the cost of their import, and the stubs for editors and type checkers."""

import ast
import importlib
import inspect
import json
import math
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentError, ArgumentTypeError, NamedaxError, UnsupportedArgumentError
from namedax.ops.elementwise import FUNCTIONS as ELEMENTWISE
from namedax.ops.namespaces import lifting, public_names
from tests import make
from tests.harness import Lazily, said

jedi = Lazily("jedi")

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "namedax"
MIRRORS = (
    "numpy numpy.linalg numpy.fft lax lax.linalg nn nn.initializers random image scipy.cluster.vq scipy.fft scipy.integrate scipy.linalg "
    "scipy.ndimage scipy.optimize scipy.signal scipy.sparse.linalg scipy.special scipy.stats scipy.stats.norm"
).split()


# --- one table, and nothing else ----------------------------------------------------------------------------------------


def public(module):
    return [name for name in dir(module) if not name.startswith("_")]


def test_every_public_name_is_once_in_the_table():
    listed = [name for names in public_names.NAMES.values() for name in names.split()]
    assert sorted(listed) == sorted(set(listed))
    assert sorted(listed) == sorted(nx.__all__) == sorted(public(nx))
    assert list(public_names.NAMES) == sorted(public_names.NAMES)
    assert all(names.split() == sorted(names.split()) for names in public_names.NAMES.values())


def test_every_public_name_is_imported_from_its_module():
    for name, module in public_names.homes().items():
        assert getattr(nx, name) is getattr(importlib.import_module(module), name), name


def test_no_second_table_of_public_names():
    """The file of the package takes its names from the table, so that a name is added in one place."""
    text = (PACKAGE / "__init__.py").read_text()
    assert len(text.splitlines()) < 100
    imported = {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported & set(nx.__all__) == {"NamedArray", "xmap"}


def test_own_functions_of_numpy_are_names_of_jax():
    """A new name in a row of the table does not become a name of `nx.numpy` by accident."""
    own = set(lifting.NAMESPACES[nx.numpy.__name__].own) - set(ELEMENTWISE)
    assert own <= set(dir(jax.numpy))


def test_modules_that_are_shown_are_faces():
    shown = {name for name in public(nx) if isinstance(getattr(nx, name), types.ModuleType)}
    assert shown == set(
        "checkpoints debug distributed errors hlo image interop lax linalg machines models nn numpy random scipy testing typing".split()
    )


@pytest.mark.parametrize("name", ["debug", "distributed", "hlo", "interop", "linalg", "machines", "testing", "typing"])
def test_faces_show_nothing_else(name):
    module = getattr(nx, name)
    assert public(module) == sorted(module.__all__)
    assert all(hasattr(module, shown) for shown in module.__all__)


@pytest.mark.parametrize("space", MIRRORS)
def test_namespaces_show_what_jax_shows(space):
    module, theirs = importlib.import_module(f"namedax.{space}"), importlib.import_module(f"jax.{space}")
    assert public(module) == sorted(module.__all__)
    assert not {"Any", "TYPE_CHECKING"} & set(public(module))
    wanted = {n for n in dir(theirs) if not n.startswith("_") and not isinstance(getattr(theirs, n), types.ModuleType)}
    assert wanted <= set(public(module))
    for name in public(module):
        assert getattr(module, name) is getattr(module, name), name


def test_a_name_that_is_not_there():
    for module in (nx, nx.numpy):
        with pytest.raises(AttributeError, match=rf"^module '{module.__name__}' has no attribute 'summ'") as info:
            _ = module.summ
        assert str(info.value).endswith(f". Did you mean {module.__name__}.sum?")
        assert (info.value.name, info.value.obj) == ("summ", None)  # without Python's own suggestion
        with pytest.raises(AttributeError) as info:
            _ = module.quux
        assert (info.value.name, info.value.obj) == ("quux", module)
    with pytest.raises(
        AttributeError, match=r"^module 'namedax' has no attribute 'triu_indices'\. There is namedax\.numpy\.triu_indices$"
    ):
        _ = nx.triu_indices
    with pytest.raises(ImportError, match=r"cannot import name 'summ' from 'namedax\.numpy'"):
        exec("from namedax.numpy import summ")
    scope = {}
    exec("from namedax.scipy.stats.norm import *", scope)
    assert scope["logpdf"] is nx.scipy.stats.norm.logpdf


@pytest.mark.parametrize("function", [nx.exp, nx.sum, nx.numpy.fft.fft, nx.random.normal, nx.nn.initializers.he_normal])
def test_functions_pickle_by_their_names(function):
    assert pickle.loads(pickle.dumps(function)) is function


# --- what importing costs -------------------------------------------------------------------------------------------------

PROGRAM = """
import inspect, json, sys
import jax, jax.numpy as jnp

asked, events = [], []
inspected = inspect.signature
def signature(*args, **kwargs):
    asked.append(sys._getframe(1).f_globals["__name__"])
    return inspected(*args, **kwargs)
inspect.signature = signature
jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **more: events.append(event))
del jnp.spacing
before = set(sys.modules)

import namedax as nx

seen = {"asked": list(asked), "events": list(events), "modules": sorted(set(sys.modules) - before)}

def touching_everything(x):
    count = len(events)
    spaces = [nx]
    for space in spaces:
        spaces += [part for part in (getattr(space, name) for name in dir(space)) if type(part) is type(nx) and part not in spaces]
    seen["spaces"] = [space.__name__ for space in spaces]
    seen["events of touching"] = events[count:]
    return nx.scipy.stats.norm.logpdf(x)

inside = jax.jit(touching_everything)(nx.named(jnp.zeros(2), ["k"]))
seen["touched in a trace"] = [*inside.data.tolist(), float(nx.scipy.stats.norm.logpdf(0.0))]
assert nx.exp(0.0) == 1.0 and nx.numpy.mean(nx.named(jnp.ones(3), ["k"]), "k") == 1.0
seen |= {"asked later": asked[len(seen["asked"]):], "events later": events[len(seen["events"]):]}
try:
    nx.spacing(1.0)
except nx.errors.UnsupportedArgumentError as error:
    seen["dropped"] = str(error)
print(json.dumps(seen))
"""

# What `import namedax` loads besides itself, and why.
LOADED = {
    "einops": "parses the patterns of rearrange",
    "jax.extend": "jaxprs, and register_exclusion, which must come before anything is traced; loads all of its parts",
    "jax.experimental.shard_map": "a part of these",
    "jax._src": "what JAX keeps these in",
}
# What of namedax is loaded: an array with its methods, and `xmap`. No namespace of JAX's, and none of the rooms that few programs enter.
OWN = (
    "core errors messages.call_errors messages.argument_kinds messages.jax_errors messages.layout_names messages.tracebacks "
    "messages.tree_differences primitives programs resources xmap ops.namespaces.operators ops.namespaces.public_names ops.operands "
    "ops.contraction ops.elementwise ops.indexing ops.linalg ops.reduction ops.shape ops.sorting ops.statistics"
).split()


@pytest.fixture(scope="module")
def start():
    """What a fresh process sees when it imports namedax, of a JAX without `jnp.spacing`."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return json.loads(said)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_importing_traces_and_compiles_nothing(start):
    assert start["events"] == []
    assert any("trace" in event for event in start["events later"])


def test_touching_a_name_traces_and_compiles_nothing(start):
    """In a trace, where what is made of arrays would be a tracer, and stay in the module."""
    assert start["events of touching"] == []
    assert {f"namedax.{space}" for space in MIRRORS} <= set(start["spaces"])


def test_importing_inspects_no_signature(start):
    assert [module for module in start["asked"] if module.startswith("namedax")] == []
    assert "namedax.ops.namespaces.mirror" in start["asked later"]


def test_importing_loads_little_else(start):
    def within(module, packages):
        return any(module == package or module.startswith(f"{package}.") for package in packages)

    rooms = [f"namedax.{room}" for room in OWN]
    parents = ["namedax", "namedax.messages", "namedax.ops.namespaces", "namedax.ops"]
    assert [m for m in start["modules"] if not within(m, [*rooms, *LOADED]) and m not in parents] == []
    assert not any("scipy" in module for module in start["modules"])


def test_what_is_first_touched_in_a_trace_is_right_after_it(start):
    assert start["touched in a trace"] == pytest.approx([-0.5 * math.log(2 * math.pi)] * 3)


def test_a_function_that_jax_has_dropped_is_missed_where_it_is_called(start):
    assert (
        start["dropped"]
        == f"spacing: JAX {jax.__version__} has no jnp.spacing. namedax only wraps functions that JAX has. [NX020]"
    )
    assert issubclass(UnsupportedArgumentError, NamedaxError)


# --- signatures ---------------------------------------------------------------------------------------------------------

PARAMETERS = {
    "zeros": ["shape", "dtype", "named_shape", "device"],
    "ones": ["shape", "dtype", "named_shape", "device"],
    "empty": ["shape", "dtype", "named_shape", "device"],
    "full": ["shape", "fill_value", "dtype", "named_shape", "device"],
    "var": ["x", "axis", "dtype", "ddof", "keepdims", "where", "mean", "correction"],
    "quantile": ["x", "q", "axis", "method", "keepdims", "weights"],
    "transpose": ["a", "axes"],
    "where": ["condition", "x", "y", "size", "fill_value", "axis", "out_axis"],
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_signatures_are_true(name):
    assert list(inspect.signature(getattr(nx, name)).parameters) == PARAMETERS[name]


def test_everything_has_a_docstring_and_its_name():
    for name in nx.__all__:
        value = getattr(nx, name)
        assert inspect.getdoc(value), name
        assert isinstance(value, types.ModuleType) or value.__name__ == name


# --- one word for one thing -----------------------------------------------------------------------------------------------


def words(function):
    return set(inspect.signature(function).parameters)


def test_axes_are_called_axis():
    """`axis` are axes of an operand, `out_axis` new names of a result, `axes` a whole axis mapping as in `in_axes`; the rest is JAX's."""
    mappings = {"named", "positional", "untag", "from_process_local"}
    of_jax = {"transpose", "permute_dims", "tensordot"}
    for name in nx.__all__:
        function = getattr(nx, name)
        if isinstance(function, types.FunctionType):
            assert "axes" not in words(function) or name in mappings | of_jax, name
            assert "axis_name" not in words(function), name
            assert "out_axes" not in words(function) or name in ("xmap", "vmap"), name
    for function in (nx.conv, nx.conv_transpose):
        assert {"axis", "kernel_axis", "out_axis"} <= words(function)
    assert "axis_name" in words(nx.lax.axis_size)  # JAX's word


X = nx.named(make.array(np.arange(12.0).reshape(2, 6)), ["b", "k"])


@pytest.mark.fast(3)
@pytest.mark.parametrize(
    "call",
    [
        lambda out: nx.pad(X, {"k": (1, 0)}, out_axis=out),
        lambda out: nx.tile(X, {"k": 2}, out_axis=out),
        lambda out: nx.slice(X, {"k": slice(1, 3)}, out_axis=out),
        lambda out: nx.nn.max_pool(X, {"k": 2}, out_axis=out),
        lambda out: nx.image.resize(X, {"k": 3}, "linear", out_axis=out),
        lambda out: nx.conv(X, jax.numpy.ones(3), "k", out_axis=out),
    ],
)
def test_out_axis_is_a_name_or_names_by_names(call):
    by_name, by_dict = call("new"), call({"k": "new"})
    assert set(by_name.dims) == {"b", "new"}
    assert by_name.dims == by_dict.dims
    assert (by_name.data == by_dict.data).all()


def test_one_out_axis_for_several_axes():
    with pytest.raises(ArgumentError) as info:
        nx.pad(X, {"b": (1, 0), "k": (1, 0)}, out_axis="new")
    assert said(info.value) == (
        "pad: out_axis='new' is one name, but pad_width={'b': (1, 0), 'k': (1, 0)} has 2 named axes. Write a dict, such as "
        "out_axis={'b': 'new'}."
    )


def test_repeat_is_one_function():
    for have in (nx.repeat(X, 2, "k"), X.repeat(2, "k"), nx.numpy.repeat(X, 2, "k"), nx.repeat(X, "{k} -> {k=(k 2)}")):
        assert (nx.positional(have, ["b", "k"]) == jax.numpy.repeat(nx.positional(X, ["b", "k"]), 2, 1)).all()
    assert X.repeat("{k} -> {axis, k}", axis=3).named_shape["axis"] == 3
    with pytest.raises(
        ArgumentTypeError, match=r"^repeat: 'batch' are sizes for a pattern, but repeats is 2\. Write a pattern, as in"
    ):
        nx.repeat(X, 2, batch=3)


def test_namesakes_say_that_they_are_other_functions():
    for one, other in (("dot", "numpy.dot"), ("reduce", "lax.reduce")):
        space, _, name = other.partition(".")
        assert f"`nx.{other}` is another function" in getattr(nx, one).__doc__
        assert f"`nx.{one}` is another function" in getattr(getattr(nx, space), name).__doc__


# --- stubs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stubs():
    """The stubs as they would be written now, by their paths."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("stubs").stubs()
    finally:
        sys.path.remove(str(ROOT / "tools"))


def made_with(text):
    return re.match(r"# Written by tools/stubs.py \(make stubs\) with JAX (\S+)\.", text)[1]


def definitions(text):
    """What a stub defines: the parameters of each function, and `None` for what it imports."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            a = node.args
            found.setdefault(node.name, set()).update(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname: None for alias in node.names if alias.asname}
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = None
    return found


def test_stubs_are_up_to_date(stubs):
    """On the release of JAX that they were written with, to the letter. On others: what is this package's own is as it was."""
    written = {path for path in stubs if path.suffix == ".pyi"}
    assert set(PACKAGE.rglob("*.pyi")) == written or made_with(next(iter(stubs.values()))) != jax.__version__
    stale = {}
    for path, wanted in stubs.items():
        if not path.exists():
            stale[path] = "missing"
            continue
        have = path.read_text()
        if made_with(have) == jax.__version__:
            if have != wanted:
                lines = zip(have.splitlines(), wanted.splitlines(), strict=False)
                stale[path] = next((pair for pair in lines if pair[0] != pair[1]), "longer or shorter")
        elif path.parent.name == "namedax" and path.stem == "__init__":
            now, then = definitions(wanted), definitions(have)
            differ = {name for name in now | then if now.get(name) != then.get(name)}
            if differ:
                stale[path] = differ
    assert stale == {}, "run `make stubs`"


def test_stubs_know_every_name(stubs):
    version = made_with((PACKAGE / "__init__.pyi").read_text())
    for space in ("", *MIRRORS):
        module = importlib.import_module(f"namedax.{space}".rstrip("."))
        path = PACKAGE.joinpath(*space.split("."))
        text = (path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")).read_text()
        known = {name for name in definitions(text) if not name.startswith("_")}
        if version == jax.__version__:
            assert known == set(public(module)), space
        else:  # JAX may have got or dropped a function since
            theirs = set(dir(importlib.import_module(f"jax.{space}"))) if space else set()
            assert set(public(module)) - theirs <= known, space


def test_stubs_are_typed(stubs):
    """Few annotations are `Any`: those of the sources and of JAX that are."""
    nodes = [node for path, text in stubs.items() if path.suffix == ".pyi" for node in ast.walk(ast.parse(text))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    results = [ast.unparse(node.returns) for node in functions]
    parameters = [ast.unparse(node.annotation) for node in nodes if isinstance(node, ast.arg) and node.annotation]
    assert len(parameters) > 5000
    assert parameters.count("Any") < 0.02 * len(parameters)
    assert results.count("Any") < 0.02 * len(results)


def test_the_array_has_the_methods_that_its_stub_says(stubs):
    (stub,) = (
        node for node in ast.parse((PACKAGE / "core" / "methods.pyi").read_text()).body if isinstance(node, ast.ClassDef)
    )
    names = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert names >= {"__add__", "__rmatmul__", "sum", "at", "T", "rename", "cumsum"}
    assert all(name in vars(nx.NamedArray) for name in names)


# --- editors ------------------------------------------------------------------------------------------------------------


def script(code):
    return jedi.Script(code, project=jedi.Project(str(ROOT)))


def completions(expression, before=""):
    code = f"import namedax as nx\n{before}{expression}."
    line = code.splitlines()[-1]
    return {completion.name for completion in script(code).complete(code.count("\n") + 1, len(line))}


@pytest.mark.fast(0)
def test_completion_of_every_public_name():
    assert completions("nx") >= set(nx.__all__)


@pytest.mark.parametrize("space", MIRRORS)
def test_completion_in_namespaces(space):
    shown = completions(f"nx.{space}")
    module = importlib.import_module(f"namedax.{space}")
    assert shown >= set(public(module)) - new_in_jax(space)
    assert not {"Any", "overload", "ArrayLike", "NamedArray"} & shown


def new_in_jax(space):
    """What the JAX that runs has, and the one that the stubs were written with had not."""
    path = PACKAGE.joinpath(*space.split("."))
    known = definitions((path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")).read_text())
    return set(dir(importlib.import_module(f"jax.{space}"))) - set(known)


@pytest.mark.fast(0)
def test_completion_of_methods():
    before = "def f(x: nx.NamedArray):\n    "
    assert completions("x", before) >= {"sum", "named_shape", "rename", "at", "dims", "cumsum", "T", "block_until_ready"}
    assert completions("x.at[0]", before) >= {"set", "add", "get", "apply"}
    assert completions("nx.exp(x)", before) >= {"named_shape", "mean"}
    assert completions("nx.sum(x)", before) >= {"named_shape", "mean", "addressable_shards"}  # named or plain
    assert completions("f", "f = nx.xmap(lambda x: x, ['a'], ['a'])\n") >= {"lower", "trace", "eval_shape"}


REPORTS = {  # an expression, and what an editor offers after it
    "nx.explain(nx.sin, 1.0)": {"collectives", "summary", "by", "diff", "findings"},
    "nx.plan(nx.xmap(nx.sin), 1.0)": {"best", "candidates", "why", "apply"},
    "nx.profile(nx.sin, 1.0)": {"report", "coverage", "by"},
    "nx.dot(x, x, 'k')": {"dims", "named_shape", "data", "sharding", "addressable_shards", "rename", "at"},
    "x['k', 0]": {"dims", "named_shape", "addressable_shards"},
    "nx.einsum('{k}->', x)": {"dims", "named_shape", "addressable_shards"},
    "nx.exp(nx.sum(x, 'k'))": {"dims", "named_shape"},
}


@pytest.mark.parametrize("expression", REPORTS)
def test_completion_of_results(expression):
    before = "def f(x: nx.NamedArray):\n    "
    assert completions(f"{expression}", before) >= REPORTS[expression]
    assert completions("report", f"{before}report = {expression}\n    ") >= REPORTS[expression]


CALLS = {  # a call, and a parameter that its signature shows
    "nx.sum": "keepdims",
    "nx.einsum": "spec",
    "nx.dot": "axis",
    "nx.exp": "x",
    "nx.zeros": "named_shape",
    "nx.where": "condition",
    "nx.rename": "names",
    "nx.named": "axes",
    "nx.var": "correction",
    "nx.scan": "init",
    "nx.xmap": "axis_resources",
    "nx.rearrange": "pattern",
    "nx.numpy.sum": "promote_integers",
    "nx.numpy.linalg.norm": "ord",
    "nx.lax.psum_scatter": "scatter_dimension",
    "nx.lax.dot_general": "dimension_numbers",
    "nx.nn.softmax": "axis",
    "nx.nn.dot_product_attention": "is_causal",
    "nx.random.normal": "named_shape",
    "nx.scipy.stats.norm.logpdf": "loc",
    "nx.NamedArray": "dims",
    "nx.zeros(named_shape={'a': 3}).mean": "where",
    "nx.xmap(lambda x: x).lower": "kwargs",
}


@pytest.mark.full(8)
@pytest.mark.fast(0)
@pytest.mark.parametrize("call", CALLS)
def test_signature_help_and_documentation(call):
    code = f"import namedax as nx\n{call}("
    found = script(code).get_signatures(2, len(call) + 1)
    assert CALLS[call] in {p.name for signature in found for p in signature.params}
    assert any(len(signature.docstring(raw=True)) > 20 for signature in found)
    if call.count(".") == 1:
        (name, *_) = script(code).help(2, len(call) - 1)
        assert name.docstring(raw=True).split("\n")[0] == inspect.getdoc(eval(call)).split("\n")[0]


@pytest.mark.parametrize("name", ["sum", "einsum", "var", "rename", "scan", "xmap", "take_along_axis", "NamedArray", "where"])
def test_definition(name):
    """An editor goes to the file that defines it."""
    value = inspect.unwrap(getattr(nx, name))
    found = {str(place.module_path) for place in script(f"import namedax as nx\nnx.{name}").infer(2, 4)}
    assert inspect.getfile(value) in found


# --- type checkers ------------------------------------------------------------------------------------------------------

WRONG = [
    "nx.summ(x, 'batch')",
    "nx.numpy.sumn(x)",
    "nx.lax.psumm(x, 'batch')",
    "nx.nn.softmaxx(x)",
    "nx.random.normall(key)",
    "nx.scipy.stats.norm.logpdff(x)",
    "nx.errors.AxisNameErrors",
    "nx.ops",
    "nx.Any",
    "nx.array.Array",
    "x.named_shap",
    "x.sum('batch').named_shap",
    "nx.dot(x, x, 'batch').dimms",
    "jax.numpy.sum(nx.positional(x, ['batch'])).dims",
    "x.cumsumm('batch')",
    "x.at[0].sett(1)",
    "nx.sum(x, axes='batch')",
    "nx.sum(x, 'batch', keepdim=True)",
    "nx.sum()",
    "nx.sum('batch', x)",
    "nx.mean(x, x)",
    "nx.mean(x, 'batch', dtype=3)",
    "nx.dot(x, x, 'batch', precision=7)",
    "nx.numpy.linalg.eigh(x).eigenvaluess",
    "nx.exp(x, 'batch')",
    "nx.exp('batch')",
    "nx.where(x)[0].dims.index(0).real.nothing",
    "nx.einsum(x, '{b}->{b}')",
    "nx.rename(x, 'batch', 'rows')",
    "x.rename('batch', 'rows')",
    "nx.zeros(named_shape=3)",
    "nx.zeros({'batch': 3}, named_shape=['batch'])",
    "nx.random.normal(key, named_shape=8)",
    "nx.random.normal(key, (2,), names={'batch': 8})",
    "nx.xmap(lambda x: x, partitioning='atuo')",
    "nx.xmap(lambda x: x, ['a'], ['a'], axis_resource={'a': 'x'})",
    "nx.xmap(lambda x: x).lowr(x)",
    "nx.nn.softmax(x, dimension='k')",
    "nx.numpy.sum(x, promote_integer=False)",
    "nx.scan(x)",
    "nx.serial_loop('a', '4')",
    "nx.axis_size('batch').dims",
    "nx.positional(x, ['batch']).named_shape",
]


# Results have the attributes of named and of plain arrays, and are a union for all else.
RESULTS = """\
import jax

import namedax as nx


def takes_plain(x: jax.Array) -> jax.Array:
    return x


def takes_named(x: nx.NamedArray) -> nx.NamedArray:
    return x


def f(x: nx.NamedArray, w: nx.NamedArray) -> nx.NamedArray | jax.Array:
    y = nx.dot(x, w, "k")
    print(y.dims, y.named_shape, y.data, y.sharding, y.shape, y.dtype, float(y), -y, y @ w)
    print(x["k", 0].dims, nx.sum(x, "k").rename({"a": "b"}), nx.exp(y).dims, y.at["k", 0].set(0), y.sum("k").T)
    takes_plain(y)  # wrong
    takes_named(y)  # wrong
    if isinstance(y, nx.NamedArray):
        takes_named(y)
    else:
        takes_plain(y)
    return nx.maximum(y, 1.0)
"""


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_mypy_accepts_the_attributes_of_results(tmp_path):
    (tmp_path / "results.py").write_text(RESULTS)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-namedax.*]\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "results.py"]
    run = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    found = {int(line) - 1 for line in re.findall(r"^results\.py:(\d+): error", run.stdout, re.M)}
    assert found == {line for line, text in enumerate(RESULTS.splitlines()) if "# wrong" in text}, run.stdout


def typed_examples():
    """The blocks of docs/guides/typing.md that say they are for static checkers, as one program each."""
    section = (ROOT / "docs" / "guides" / "typing.md").read_text().partition("## Static checkers and linters")[2]
    blocks = re.findall(r"```python\n(.*?)```", section, re.S)
    return [block for block in blocks if "Annotated" in block]


def pyright(folder):
    """What pyright says of everything above: the lines with errors, by file."""
    executable = shutil.which("basedpyright", path=str(pathlib.Path(sys.executable).parent))
    assert executable, "pyright is not installed: pip install -e '.[test]'"
    shutil.copy(ROOT / "tests" / "typed_usage.py", folder / "typed_usage.py")
    head = "import namedax as nx\nimport jax\n\nkey = jax.random.key(0)\n\n\ndef f(x: nx.NamedArray) -> None:\n"
    (folder / "wrong.py").write_text(head + "".join(f"    print({line})\n" for line in WRONG))
    (folder / "results.py").write_text(RESULTS)
    for i, block in enumerate(typed_examples()):
        (folder / f"example_{i}.py").write_text(block)
    settings = {"include": ["."], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [executable, "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    found = {path.name: {} for path in folder.glob("*.py")}
    for line in report["generalDiagnostics"]:
        if line["severity"] == "error":
            found[pathlib.Path(line["file"]).name][line["range"]["start"]["line"]] = line["message"]
    return found


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_pyright_accepts_the_typed_examples_and_rejects_what_is_wrong(tmp_path):
    """In one test, because workers would each run it: it takes seconds."""
    found = pyright(tmp_path)
    assert found["typed_usage.py"] == {}
    assert found["results.py"].keys() == {line for line, text in enumerate(RESULTS.splitlines()) if "# wrong" in text}
    assert not any(
        '"Array" is not assignable to "Array"' in text or '"Array" cannot' in text for text in found["results.py"].values()
    )
    assert typed_examples()
    for i, block in enumerate(typed_examples()):
        assert found[f"example_{i}.py"] == {}, block
    assert [line for i, line in enumerate(WRONG) if 7 + i not in found["wrong.py"]] == []
