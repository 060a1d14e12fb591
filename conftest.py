"""Eight simulated devices, for tests and doctests alike, and quick compilation; this has to happen before JAX starts."""

import os
from importlib.metadata import version

# A program of a test runs once or twice, and most of the time goes into compiling it: a third of that without these optimisations,
# which come after the partitioner has placed its collectives.
flags = ["--xla_force_host_platform_device_count=8", "--xla_backend_optimization_level=0"]
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    flags.append("--xla_cpu_use_fusion_emitters=false")  # later versions refuse it
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])
os.environ.setdefault("JAX_PLATFORMS", "cpu")
