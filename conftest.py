"""Eight simulated devices, for tests and doctests alike, and quick compilation; this has to happen before JAX starts."""

import gc
import os
import zlib
from importlib.metadata import version

import pytest

# A program of a test runs once or twice, and most of the time goes into compiling it: a third of that without these optimisations,
# which come after the partitioner has placed its collectives.
flags = ["--xla_force_host_platform_device_count=8"]
if not os.environ.get("NAMEDAX_TEST_OPTIMIZED"):  # make test-optimized runs a part of the tests as XLA compiles for users
    flags.append("--xla_backend_optimization_level=0")
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    flags.append("--xla_cpu_use_fusion_emitters=false")  # later versions refuse it
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Nobody reads where the operations of these programs come from, but for tests that ask for it.
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")
if not os.environ.get("NAMEDAX_TEST_OPTIMIZED"):
    # Every error that crosses JAX costs milliseconds, in which it looks at the file of each frame; tests of what users see of an error
    # ask for it (the fixture `tracebacks_as_for_users`).
    os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-in", type=int, default=1, metavar="N", help="run one test in N, always the same ones")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    every = config.getoption("--one-in")
    left_out = [item for item in items if zlib.crc32(item.nodeid.encode()) % every]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not zlib.crc32(item.nodeid.encode()) % every]


def pytest_collection_finish() -> None:
    """Lets Python look for garbage less often.

    What was imported lives as long as the process, and most of the rest is in JAX's caches; to look through all of it as often as Python
    does by itself takes a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
