"""What XLA is told where programs are compiled for tests. Nothing here imports JAX, which reads the flags when it starts."""

from importlib.metadata import version

# Eight simulated devices. And one module of LLVM's for each program: to split it for several threads takes a fifth of the time of compiling
# programs as small as those of tests, and gives the same code.
FLAGS = ["--xla_force_host_platform_device_count=8", "--xla_cpu_parallel_codegen_split_count=1"]
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")  # a third of the time; later versions refuse it
AS_FOR_USERS = " ".join(FLAGS)

# A program of a test runs once or twice, and most of the time goes into compiling it: a third of that without these optimisations,
# which come after the partitioner has placed its collectives.
FEW_OPTIMISATIONS = f"{AS_FOR_USERS} --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

# For programs that set up their devices themselves, as those of a reader do: the pages of the docs.
WITHOUT_DEVICES = FEW_OPTIMISATIONS.replace("--xla_force_host_platform_device_count=8 ", "")
