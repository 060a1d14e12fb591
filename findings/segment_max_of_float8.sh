#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: jax.ops.segment_max of finite float8_e4m3fn values gives the largest value of each segment, as jnp.max does.
# Seen: every segment that has elements is NaN. The reduction begins at -inf, and the type has no infinity: it becomes NaN, and
#   the maximum of NaN and a number is NaN. float8_e5m2, which has infinities, is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
import numpy as np

values, segments = [1.0, 2.0, -1.0, 0.5], jnp.array([0, 0, 1, 1])
for dtype, want in (("float8_e5m2", [2.0, 0.5]), ("float8_e4m3fn", [np.nan, np.nan])):
    x = jnp.array(values, dtype)
    have = np.asarray(jax.ops.segment_max(x, segments, 2).astype(jnp.float32))
    print(f"jax {jax.__version__}: {dtype}: jnp.max {jnp.max(x)}, segment_max {have}")
    assert float(jnp.max(x)) == 2
    if not np.array_equal(have, want, equal_nan=True):
        raise SystemExit(f"{dtype}: {have} now")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
