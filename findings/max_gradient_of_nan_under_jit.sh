#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: jax.jit(jax.grad(f)) and jax.grad(f) agree for f = jnp.max of an array with a NaN, whose maximum is NaN. The derivative rule
#   divides the elements that equal the maximum by their number, which is zero, so the gradient is NaN: a mistake in the data shows.
# Seen: without jax.jit the gradient is NaN for all elements of the column with the NaN. Under jax.jit it is zero for all of them, so a
#   training step goes on without a trace of the NaN. The value is NaN in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
import numpy as np

x = jnp.array([[1.0, np.nan], [3.0, 2.0]])


def total(x):
    return jnp.max(x, 0).sum()


each, compiled = jax.grad(total)(x), jax.jit(jax.grad(total))(x)
print(f"jax {jax.__version__}: values {total(x)}, {jax.jit(total)(x)}; gradients {each.tolist()}, under jit {compiled.tolist()}")
if not np.isnan([total(x), jax.jit(total)(x)]).all():
    raise SystemExit("the maximum of NaN has changed")
if not np.isnan(each[:, 1]).all():
    raise SystemExit("the gradient without jit has changed")
np.testing.assert_array_equal(compiled[:, 1], [0.0, 0.0], "the gradient under jit has changed")
np.testing.assert_array_equal(compiled[:, 0], [0.0, 1.0])
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
