"""Eight simulated devices, for tests and doctests alike, and quick compilation; this has to happen before JAX starts."""

import gc
import os
from importlib.metadata import version

# A program of a test runs once or twice, and most of the time goes into compiling it: a third of that without these optimisations,
# which come after the partitioner has placed its collectives.
flags = ["--xla_force_host_platform_device_count=8", "--xla_backend_optimization_level=0"]
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    flags.append("--xla_cpu_use_fusion_emitters=false")  # later versions refuse it
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Nobody reads where the operations of these programs come from, but for tests that ask for it.
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")


def pytest_collection_finish() -> None:
    """Lets Python look for garbage less often.

    What was imported lives as long as the process, and most of the rest is in JAX's caches; to look through all of it as often as Python
    does by itself takes a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
