#!/usr/bin/env bash
# flax 0.12.12 with jax 0.12.0.1, CPU.
# Expected: flax.serialization.from_bytes(target, data) restores into the target: data whose keys, shapes or dtypes differ from it are an
#   error.
# Seen: other keys are a ValueError. An array of another shape, rank or dtype replaces the one of the target without a word: a model of
#   another width loads, and fails, or broadcasts, at its first use.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flax==0.12.12 jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import flax
import jax
import jax.numpy as jnp
from flax import serialization

data = serialization.to_bytes({"w": jnp.arange(4), "scale": jnp.ones(1)})
target = {"w": jnp.zeros((2, 3)), "scale": jnp.ones(3)}
found = serialization.from_bytes(target, data)
types = {name: f"{value.dtype}{list(value.shape)}" for name, value in found.items()}
print(f"flax {flax.__version__}: target float32[2, 3] and float32[3], restored {types}")
if types != {"w": "int32[4]", "scale": "float32[1]"}:
    raise SystemExit("from_bytes treats other shapes in another way now")
try:
    serialization.from_bytes({"v": jnp.zeros(4), "scale": jnp.ones(1)}, data)
except ValueError as error:
    print(f"other keys: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
else:
    raise SystemExit("other keys load, too")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
