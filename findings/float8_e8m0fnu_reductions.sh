#!/usr/bin/env bash
# jax 0.12.0.1 and ml_dtypes 0.6.0, CPU.
# Expected: jnp.max and jnp.min of finite float8_e8m0fnu values are the largest and the smallest of them, as in NumPy, and jnp.argmax and
#   jnp.argmin are their indices; jnp.sum is the sum, rounded to a power of two.
# Seen: max, min, sum and mean are NaN, argmax and argmin are 0, whatever the values are. A reduction begins with an identity, an infinity or zero, and
#   the type has neither: it becomes NaN. jnp.prod, whose identity is one, is right. NumPy's maximum is right; its sum is NaN, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1 ml_dtypes==0.6.0
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
import numpy as np

values = np.array([2, 1, 4, 1]).astype(jnp.float8_e8m0fnu)
x = jnp.asarray(values)
seen = {name: float(getattr(jnp, name)(x)) for name in ("max", "min", "sum", "mean", "prod", "argmax", "argmin")}
print(f"jax {jax.__version__}: {seen}; NumPy: max {values.max()}, sum {values.sum()}")
if not all(np.isnan(seen[name]) for name in ("max", "min", "sum", "mean")):
    raise SystemExit("a reduction of float8_e8m0fnu gives a number now")
if (seen["argmax"], seen["argmin"]) != (0, 0):
    raise SystemExit("the index of an extremum of float8_e8m0fnu has changed")
assert (seen["prod"], float(values.max())) == (8, 4)
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
