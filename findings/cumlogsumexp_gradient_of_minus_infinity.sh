#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: the last element of jax.lax.cumlogsumexp(x) is jax.nn.logsumexp(x), and has its gradient: the softmax of x, which is zero where
#   x is minus infinity, as for masked tokens.
# Seen: the values agree. The gradient of cumlogsumexp is NaN for two elements of minus infinity that the scan combines first (an even index
#   and the next one), and right for the others: one that stands alone, or at an odd index before another one, does no harm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
import numpy as np

x = jnp.array([-jnp.inf, -jnp.inf, 1.0, -jnp.inf, -jnp.inf, 2.0])
apart = x[jnp.array([2, 0, 1, 5, 3, 5])]  # the two side by side begin at an odd index


def last(x):
    return jax.lax.cumlogsumexp(x)[-1]


np.testing.assert_allclose(last(x), jax.nn.logsumexp(x), rtol=1e-6)
have, want = jax.grad(last)(x), jax.grad(jax.nn.logsumexp)(x)
other = jax.grad(last)(apart)
print(f"jax {jax.__version__}: cumlogsumexp {have.tolist()}, logsumexp {want.tolist()}; from an odd index {other.tolist()}")
if np.isnan(np.asarray(have)).tolist() != [True, True, False, False, False, False]:
    raise SystemExit("the gradient of cumlogsumexp for two infinities has changed")
if np.isnan(np.asarray(other)).any():
    raise SystemExit("two infinities from an odd index give NaN, too")
np.testing.assert_allclose(have[2:], want[2:], rtol=1e-6)
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
