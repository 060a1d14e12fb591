"""Marks what `make test` and `make test-all` leave out (see tests/covering.py), and shows errors as users see them to the tests that ask for it."""

import collections
import pathlib
from collections.abc import Hashable, Iterator

import jax
import pytest
from hypothesis import settings

from tests.covering import FAMILIES_OF_THIS_RUN, Case, cover, family_of, met_in_rest, products, traits
from tests.harness import Placement
from tests.node_ids import without_room

# As the flag of XLA says already. Notebooks say it in their first cell as a laptop has to, which JAX allows later only if it is so.
jax.config.update("jax_num_cpu_devices", 8)

# A test that fails has to fail again; `make fuzz` is there to draw other programs each time.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


def values_of(item: pytest.Item) -> Iterator[Hashable]:
    """One for each `parametrize`, and for each fixture with parameters: what it gave to this case, but for the placement."""
    params = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        given = [(name, params.pop(name)) for name in names]
        yield tuple((name, id(value)) for name, value in given if not isinstance(value, Placement))
    yield from ((name, id(value)) for name, value in params.items() if not isinstance(value, Placement))


def case_of(item: pytest.Item) -> Case:
    """What the rule has to know of a test."""
    function = item.nodeid.partition("[")[0]
    if not hasattr(item, "callspec"):
        return Case(function, frozenset({"alone"}))
    part, rest = (mark.args[0] if (mark := item.get_closest_marker(name)) else None for name in ("part", "rest"))
    placements = [value for value in item.callspec.params.values() if isinstance(value, Placement)]
    return Case(function, frozenset(filter(None, values_of(item))), frozenset().union(*map(traits, placements)), part, rest)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    families: dict[str, list[pytest.Item]] = collections.defaultdict(list)
    # In the order of base names, since the selection depends on the order of the cases and not on the rooms.
    for item in sorted(items, key=lambda item: item.path.name):
        if not item.get_closest_marker("full") and not item.get_closest_marker("leaks"):
            module = item.nodeid.partition("::")[0]
            families[family_of(module)].append(item)
    config.stash[FAMILIES_OF_THIS_RUN] = {}
    for family, tests in families.items():
        cases = [case_of(test) for test in tests]
        kept = cover(cases)
        config.stash[FAMILIES_OF_THIS_RUN][family] = cases, kept
        for i, test in enumerate(tests):
            if i not in kept:
                test.add_marker("full")
    others = [item for item in items if not item.get_closest_marker("leaks")]
    kept = {i for i, item in enumerate(others) if not item.get_closest_marker("full")}
    cases = [case_of(item) for item in others]
    for i in products(cases, kept):
        others[i].add_marker("product")
    if config.getoption("--beside-rest"):
        in_rest = {
            i for i, item in enumerate(others) if item.get_closest_marker("full") and not item.get_closest_marker("product")
        }
        elsewhere = {others[i] for i in met_in_rest(cases, kept, in_rest)}
        config.hook.pytest_deselected(items=[item for item in items if item in elsewhere])
        items[:] = [item for item in items if item not in elsewhere]
    if not getattr(jax.config, "jax_auto_pcast", True):
        lines = set(pathlib.Path(__file__).with_name("without_auto_pcast.txt").read_text().splitlines())
        left_out = [item for item in items if without_room(item.nodeid) in lines]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if without_room(item.nodeid) not in lines]


@pytest.fixture(scope="module")
def tracebacks_as_for_users() -> Iterator[None]:
    """With the filter of JAX, which the other tests go without (conftest.py)."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "auto")
    yield
    jax.config.update("jax_traceback_filtering", before)
