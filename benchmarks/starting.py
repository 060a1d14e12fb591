"""The cost of `import namedax` in addition to `import jax`, in alternating fresh processes.

python benchmarks/starting.py

The benchmark measures processor time, because an import uses one core, and elapsed time includes
other work on the machine. It takes the minimum of all rounds, because disturbances only add time.
"""

import os
import pathlib
import subprocess
import sys

import jax

ROUNDS = 10
PROGRAM = (
    "import time, jax, jax.numpy; begin = time.process_time(); {}; print(time.process_time(),"
    " time.process_time() - begin)"
)
# The imports after JAX: nothing, twice, which is the noise; the other JAX modules that namedax
# needs; namedax; and namedax with an access to every public name.
RIVALS = {
    "jax": "pass",
    "jax again": "pass",
    "jax.extend": "import jax.extend",
    "namedax": "import namedax",
    "every name": "import namedax as nx; [getattr(nx, name) for name in nx.__all__]",
}


def main() -> None:
    """Print a line per import: seconds of the process, and of the import alone."""
    root = pathlib.Path(__file__).parent.parent
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in RIVALS}
    # Compile sources in the first round, independent of the environment.
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    environment |= {"PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    for round_ in range(ROUNDS + 1):
        for name in RIVALS if round_ % 2 else reversed(RIVALS):
            command = [sys.executable, "-c", PROGRAM.format(RIVALS[name])]
            said = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            ).stdout
            process, alone = map(float, said.split())
            if round_:
                found[name].append((process, alone))
    base = min(process for process, _ in found["jax"])
    print(f"jax {jax.__version__}, {ROUNDS} processes each: minimum seconds of processor time")
    for name, times in found.items():
        process, alone = (min(column) for column in zip(*times, strict=True))
        print(
            f"{name:12s} process {process:.3f}   against jax {process / base:.3f}   import alone"
            f" {alone:.3f}"
        )


if __name__ == "__main__":
    main()
