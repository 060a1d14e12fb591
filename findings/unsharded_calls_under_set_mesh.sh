#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: under jax.set_mesh of a mesh with Explicit axes, calls whose operands are all unsharded run as they do without a mesh, since
#   the type of the result can only be unsharded, too.
# Seen: jax.lax.ragged_dot raises a NotImplementedError ("Explicit sharding inference for ragged_dot_general is not currently
#   implemented"), jax.lax.linalg.cholesky_update a ShardingTypeError ("sharding rule ... is not implemented"), both before they look at
#   a sharding, and jax.lax.rng_uniform an AssertionError ("Unhandled OpSharding type"). Without the mesh all three give numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_num_cpu_devices", 4)
groups = jnp.array([1, 2])
calls = {
    "ragged_dot": (lambda: lax.ragged_dot(jnp.ones((3, 1)), jnp.ones((2, 1, 2)), groups), NotImplementedError),
    "cholesky_update": (lambda: lax.linalg.cholesky_update(jnp.eye(2), jnp.ones(2)), Exception),
    "rng_uniform": (lambda: lax.rng_uniform(0.0, 1.0, (2,)), AssertionError),
}
mesh = jax.make_mesh((4,), ("x",))
for name, (call, kind) in calls.items():
    jax.block_until_ready(call())
    try:
        with jax.set_mesh(mesh):
            jax.block_until_ready(call())
    except kind as error:
        print(f"jax {jax.__version__}: {name}: works without a mesh; under set_mesh {type(error).__name__}: {str(error)[:90]}")
    else:
        raise SystemExit(f"{name} works under jax.set_mesh now")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
