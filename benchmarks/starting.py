"""What `import namedax` costs beyond `import jax`, in fresh processes that take turns.

python benchmarks/starting.py

Processor time, because a start is work for one core, and the time on the wall is that of the machine's other work too. The least of all
rounds counts: what disturbs a start only makes it longer.
"""

import os
import pathlib
import subprocess
import sys

import jax

ROUNDS = 10
PROGRAM = (
    "import time, jax, jax.numpy; begin = time.process_time(); {}; print(time.process_time(), time.process_time() - begin)"
)
# What is imported once JAX is there: nothing, twice, which is the noise; what namedax needs of JAX besides; namedax; and what it imports
# when it is touched, every name of it.
RIVALS = {
    "jax": "pass",
    "jax again": "pass",
    "jax.extend": "import jax.extend",
    "namedax": "import namedax",
    "every name": "import namedax as nx; [getattr(nx, name) for name in nx.__all__]",
}


def main() -> None:
    """Prints a line for each rival: seconds of the process, and of the import alone."""
    root = pathlib.Path(__file__).parent.parent
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in RIVALS}
    # Sources are compiled in the first round, whatever the shell says.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    for round_ in range(ROUNDS + 1):
        for name in RIVALS if round_ % 2 else reversed(RIVALS):
            command = [sys.executable, "-c", PROGRAM.format(RIVALS[name])]
            said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            process, alone = map(float, said.split())
            if round_:
                found[name].append((process, alone))
    base = min(process for process, _ in found["jax"])
    print(f"jax {jax.__version__}, {ROUNDS} processes each: seconds of processor time, the least")
    for name, times in found.items():
        process, alone = (min(column) for column in zip(*times, strict=True))
        print(f"{name:12s} process {process:.3f}   against jax {process / base:.3f}   import alone {alone:.3f}")


if __name__ == "__main__":
    main()
