"""Arguments that are a yes or a no: every public function refuses what is neither, whatever else it is given."""

import importlib
import inspect
import types

import numpy as np
import pytest

import namedax as nx
from namedax.errors import ArgumentTypeError
from tests import make
from tests.harness import make_mesh, said

X = nx.named(make.array(np.arange(12.0).reshape(2, 3, 2)), ["b", "k", None])
SPACES = [
    *(
        "",
        "numpy",
        "numpy.fft",
        "numpy.linalg",
        "lax",
        "lax.linalg",
        "nn",
        "random",
        "image",
        "scipy.linalg",
        "scipy.signal",
        "scipy.special",
    ),
    *("scipy.stats", "scipy.sparse.linalg", "scipy.ndimage"),
]
# They ask nothing of their arguments: files, and what makes no array over names.
NOT_OURS = {"numpy.save", "numpy.savez", "numpy.load", "numpy.indices", "numpy.array_repr", "numpy.array_str", "lax.dce_sink"}


def flags():
    """Every public function with a parameter that is a yes or a no."""
    for space in SPACES:
        module = importlib.import_module(f"namedax.{space}" if space else "namedax")
        for name in dir(module):
            path = f"{space}.{name}".lstrip(".")
            function = getattr(module, name)
            if (
                name.startswith("_")
                or isinstance(function, (type, types.ModuleType))
                or not callable(function)
                or path in NOT_OURS
            ):
                continue
            try:
                parameters = inspect.signature(function).parameters
            except (TypeError, ValueError):
                continue
            for p in parameters.values():
                if p.annotation in (bool, "bool") and isinstance(p.default, bool) and p.kind is not p.POSITIONAL_ONLY:
                    yield path, function, parameters, p.name


def test_a_yes_or_a_no():
    taken, found = [], list(flags())
    assert len(found) > 250
    for path, function, parameters, flag in found:
        needed = [
            p for p in parameters.values() if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        by_name = {p.name: X for p in parameters.values() if p.default is p.empty and p.kind is p.KEYWORD_ONLY}
        for value, shown in (("no", "'no'"), (["no"], "['no']"), (np.ones(2), "f64[2]")):
            try:
                function(*[X] * len(needed), **by_name, **{flag: value})
            except ArgumentTypeError as error:
                if f": {flag}={shown} is neither True nor False." not in said(error):
                    taken.append(f"{path}({flag}={shown}): {error}")
            except Exception as error:
                taken.append(f"{path}({flag}={shown}): {type(error).__name__} {error}")
            else:
                taken.append(f"{path}({flag}={shown})")
    assert not taken, "\n".join(taken)


def refusal(call):
    with pytest.raises(ArgumentTypeError) as error:
        call()
    return said(error.value)


def test_messages_for_non_boolean_flags():
    assert refusal(lambda: nx.sum(X, "k", keepdims="b")) == "sum: keepdims='b' is neither True nor False."
    assert refusal(lambda: X.sum("k", keepdims=["b"])) == "sum: keepdims=['b'] is neither True nor False."
    assert refusal(lambda: nx.linspace(0.0, 1.0, 5, "k")) == (
        "linspace: endpoint='k' is neither True nor False. Pass the axis name by keyword: axis='k'."
    )
    assert refusal(lambda: nx.nn.gelu(X, approximate="none")) == (
        "gelu: approximate='none' is neither True nor False. For PyTorch's 'none', write approximate=False."
    )
    assert refusal(lambda: nx.nn.gelu(X, "tanh")).endswith(" For PyTorch's 'tanh', write approximate=True.")
    mapped = nx.xmap(lambda x: nx.cumsum(x, "k", reverse="no"), axis_resources={"b": "x"}, mesh=make_mesh((2,)))
    assert refusal(lambda: mapped(X)) == "cumsum: reverse='no' is neither True nor False."
    assert refusal(lambda: nx.numpy.geomspace(1.0, 8.0, 4, "no")).startswith("geomspace: endpoint='no' is neither")


def test_what_is_a_yes_or_a_no():
    for yes in (True, 1, np.True_):
        y = nx.named(make.array(np.arange(6.0).reshape(2, 3)), ["b", None])
        assert nx.mean(y, 0, keepdims=yes).shape == (1,)
        assert nx.numpy.linspace(0.0, 1.0, 3, endpoint=yes)[-1] == 1.0
    for no in (False, 0, np.False_, None):
        assert nx.mean(nx.named(make.ones((2, 3)), ["b", None]), 0, keepdims=no).shape == ()
    assert refusal(lambda: nx.linspace(0.0, 1.0, 3, endpoint=None, axis="k")).startswith("linspace: endpoint=None is neither")
