"""Selects the tests of a tier (see tests/covering.py), and shows errors as users see them to the tests that ask for it."""

import collections
import pathlib
import sys
import traceback
from collections.abc import Hashable, Iterator

import jax
import pytest
from hypothesis import settings

from tests.covering import TIERS, Case, tiers, traits
from tests.harness import Placement
from tests.node_ids import without_room

# As the flag of XLA says already. Notebooks say it in their first cell as a laptop has to, which JAX allows later only if it is so.
jax.config.update("jax_num_cpu_devices", 8)

# All tests that were collected, those that the tier leaves out included.
COLLECTED = pytest.StashKey[list[pytest.Item]]()

# What the modules of tests did when they were imported: the lines that compiled a program, and all modules that were imported.
IMPORTS = pytest.StashKey[tuple[list[str], set[str]]]()

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
    fast, full = (min((mark.args[0] for mark in item.iter_markers(tier)), default=None) for tier in TIERS)
    if not hasattr(item, "callspec"):
        return Case(limits=(fast, full))
    placements = [value for value in item.callspec.params.values() if isinstance(value, Placement)]
    values = frozenset(filter(None, values_of(item)))
    return Case(values, frozenset().union(*map(traits, placements)), (fast, full))


def tiers_of(items: list[pytest.Item]) -> tuple[list[pytest.Item], ...]:
    """Return the tests in each tier; those with the mark `leaks` are in none."""
    functions: dict[str, list[pytest.Item]] = collections.defaultdict(list)
    for item in items:
        if not item.get_closest_marker("leaks"):
            functions[item.nodeid.partition("[")[0]].append(item)
    found = tuple(set() for _ in TIERS)
    for function, tests in functions.items():
        for tier, chosen in zip(found, tiers(function, [case_of(test) for test in tests]), strict=True):
            tier.update(tests[i] for i in chosen)
    return tuple([item for item in items if item in tier] for tier in found)


@pytest.hookimpl(tryfirst=True)  # before the options of conftest.py take one test in N
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = config.stash[COLLECTED] = [*items]
    if tier := config.getoption("--tier"):
        kept = tiers_of(items)[TIERS.index(tier)]
    if not getattr(jax.config, "jax_auto_pcast", True):
        lines = set(pathlib.Path(__file__).with_name("without_auto_pcast.txt").read_text().splitlines())
        kept = [item for item in kept if without_room(item.nodeid) not in lines]
    if len(kept) < len(items):
        in_tier = {*kept}
        config.hook.pytest_deselected(items=[item for item in items if item not in in_tier])
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Record what test modules do when they are imported."""
    compiled: list[str] = []

    def record(event: str, seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            lines = (f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_stack(None))
            compiled.append(next((line for line in lines if "/tests/" in line and __file__ not in line), "a module of namedax"))

    jax.monitoring.register_event_duration_secs_listener(record)
    result = yield
    jax.monitoring.unregister_event_duration_listener(record)
    session.config.stash[IMPORTS] = compiled, {*sys.modules}
    return result


@pytest.fixture
def collected(pytestconfig: pytest.Config) -> list[pytest.Item]:
    """All tests that this run has collected, in whatever tier."""
    return pytestconfig.stash[COLLECTED]


@pytest.fixture
def imports(pytestconfig: pytest.Config) -> tuple[list[str], set[str]]:
    """The lines that compiled a program while tests were collected, and the modules that were imported."""
    return pytestconfig.stash[IMPORTS]


@pytest.fixture(scope="module")
def tracebacks_as_for_users() -> Iterator[None]:
    """With the filter of JAX, which the other tests go without (conftest.py)."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "auto")
    yield
    jax.config.update("jax_traceback_filtering", before)
