"""Simulate eight devices for tests and doctests, and compile quickly.

Both have to be set before JAX starts.
"""

import gc
import os
import zlib

import pytest

from tests.flags import AS_FOR_USERS, FEW_OPTIMISATIONS
from tests.node_ids import without_room

pytest_plugins = ["tests.selection"]

# make test-optimized runs a part of the tests as XLA compiles for users.
flags = AS_FOR_USERS if os.environ.get("NAMEDAX_TEST_OPTIMIZED") else FEW_OPTIMISATIONS
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.pop("COLUMNS", None)  # the width of printed tables
# Nobody reads where the operations of these programs come from, but for tests that ask for it.
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")
if not os.environ.get("NAMEDAX_TEST_OPTIMIZED"):
    # Every error that crosses JAX costs milliseconds, in which it looks at the file of each frame;
    # tests of what users see of an error ask for it (the fixture `tracebacks_as_for_users`).
    os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")
# Look for garbage less often: what is imported and what JAX has in its caches is none, and to look
# through all of it as often as Python does by itself takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier", choices=["fast", "full"], help="run the tests of a tier (tests/covering.py)"
    )
    parser.addoption(
        "--one-in", type=int, default=1, metavar="N", help="run one test in N, always the same ones"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            # A reader does not have the names of the module: an example imports what it uses.
            item.dtest.globs = {"__name__": "__main__"}
    every = config.getoption("--one-in")
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        number = zlib.crc32(without_room(item.nodeid).encode())
        (left_out if number % every else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish() -> None:
    """Freeze what was imported and collected, which lives as long as the process."""
    gc.freeze()


@pytest.hookimpl(trylast=True)  # after fixtures
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Freeze the objects that are alive after a module: most of them stay in JAX's caches.

    Otherwise every `gc.collect` of a test, and of pytest, looks through all that earlier modules
    have compiled, which takes seconds.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
