"""Make only the tests that `-k WORD` may select, and look for doctests only in modules that have some. Nothing here imports JAX.

`-k` selects tests by their names after all of them are made, which takes seconds for many cases. The name of a case follows from the parameters
of its function, so a function whose names and parameters lack the word is left without its cases. Whatever is not certain is made.
"""

import enum
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

PARAMETERS = type(pytest.param())
# The node ids of functions that are left without cases.
LEFT_OUT = pytest.StashKey[set[str]]()


def word_of(config: pytest.Config) -> str:
    """Return the word of `-k WORD`, in lowercase, or an empty string for other expressions.

    Without digits, it cannot come from the numbers that pytest adds to equal names, and without other signs it is in the name of one parameter.
    """
    word = config.getoption("-k").strip().lower()
    return word if re.fullmatch("_*[a-z][a-z_]*", word) and word not in ("and", "or", "not") else ""


def name_of(value: object) -> str:
    """Return what pytest writes of a value in the name of a case; empty where that is the name of the argument and a number."""
    if isinstance(value, str):
        return value.encode("unicode_escape").decode()
    if value is None or isinstance(value, bytes | int | float | complex | enum.Enum):
        return str(value)
    name = value.pattern if isinstance(value, re.Pattern) else getattr(value, "__name__", "")
    return name if isinstance(name, str) else str(name)


def names(argnames: Any, argvalues: Any, indirect: object = False, ids: Any = None, **_: object) -> str | None:
    """Return all of which the names of the cases of one `parametrize` consist, in lowercase; None for what can be read only once."""
    if isinstance(argvalues, Iterator) or isinstance(ids, Iterator):
        return None
    arguments = [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else argnames
    found = [*arguments, *map(name_of, () if ids is None or callable(ids) else ids)]
    for values in argvalues:
        if isinstance(values, PARAMETERS):
            found += [name_of(values.id), *(mark.name for mark in values.marks)]
            values = values.values
        elif isinstance(argnames, str) and len(arguments) == 1:
            values = [values]
        found += map(name_of, [*values, *map(ids, values)] if callable(ids) else values)
    return "\n".join(found).lower()


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Make the cases of a function if one of their names may have the word of `-k`."""
    word, function = word_of(metafunc.config), metafunc.definition
    marks = (mark.name for mark in function.iter_markers())
    own = [*(node.name for node in function.listchain()), *function.listextrakeywords(), *vars(metafunc.function), *marks]
    if any(word in name.lower() for name in own):  # as it is if there is no word
        return (yield)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    parametrize, metafunc.parametrize = metafunc.parametrize, lambda *args, **kwargs: calls.append((args, kwargs))
    result = yield
    metafunc.parametrize = parametrize
    found = [names(*args, **kwargs) for args, kwargs in calls]
    if any(text is None or word in text for text in found):
        for args, kwargs in calls:
            parametrize(*args, **kwargs)
    else:
        metafunc.config.stash.setdefault(LEFT_OUT, set()).add(function.nodeid)
    return result


@pytest.hookimpl(tryfirst=True)  # before plugins that look at every test
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = config.stash.get(LEFT_OUT, set())
    if deselected := [item for item in items if item.nodeid in left_out]:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item.nodeid not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> Iterator[None]:
    """Leave out modules without a doctest, and those whose doctests cannot have the word of `-k` in their names."""
    collectors = yield
    if file_path.suffix != ".py":
        return collectors
    source, word = file_path.read_text(encoding="utf-8"), word_of(parent.config)
    # A module with a `__getattr__` of its own may have functions that its source does not show.
    found = "__getattr__" in source or (">>>" in source and (word in source.lower() or word in str(file_path).lower()))
    return [collector for collector in collectors if found or type(collector) is pytest.Module]
