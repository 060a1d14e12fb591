#!/usr/bin/env bash
# equinox 0.13.8 with jax 0.12.0.1, CPU.
# Expected: eqx.tree_deserialise_leaves compares the file with the given tree: an array of another shape or dtype is an error, and so is
#   a Python number of another type.
# Seen: arrays are compared. A float in the file is silently cut to an integer where the tree has an integer, and becomes a bool where it has
#   a bool: 2.5 loads as 2, 0.1 as True.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet equinox==0.13.8 jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import sys

import equinox as eqx
import jax.numpy as jnp

path = sys.argv[1]
eqx.tree_serialise_leaves(path, {"array": jnp.ones(3), "flag": 0.1, "rate": 2.5})
loaded = eqx.tree_deserialise_leaves(path, {"array": jnp.zeros(3), "flag": False, "rate": 0})
print(f"equinox {eqx.__version__}: saved rate 2.5 and flag 0.1, loaded {loaded['rate']!r} and {loaded['flag']!r}")
if (loaded["rate"], loaded["flag"]) != (2, True):
    raise SystemExit("a Python number of another type loads in another way now")
try:
    eqx.tree_deserialise_leaves(path, {"array": jnp.zeros(4), "flag": 0.0, "rate": 0.0})
except RuntimeError as error:
    print(f"an array of another shape: {type(error).__name__}")
else:
    raise SystemExit("an array of another shape loads, too")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py" "$folder/tree.eqx"
