#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: jax.value_and_grad of a sum of an array on a mesh with Explicit axes gives the number and the gradient, eagerly as
#   under jax.jit, since the array has its devices.
# Seen: under jax.jit it does. Eagerly it raises ValueError "Length of device assignment 1 is not equal to the size of the mesh",
#   and works only in jax.set_mesh(mesh): the type of the first cotangent, a number, has the mesh, but no devices.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp

mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
a = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("x")))
f = jax.value_and_grad(lambda a: jnp.sum(a * a))

value, gradient = jax.jit(f)(a)
assert float(value) == 140 and gradient.sharding.spec == jax.P("x")
with jax.set_mesh(mesh):
    value, gradient = f(a)
assert float(value) == 140 and gradient.sharding.spec == jax.P("x")
try:
    f(a)
except ValueError as error:
    print(f"jax {jax.__version__}: eagerly: {str(error)[:90]}")
    assert "device assignment" in str(error)
else:
    raise SystemExit("the eager gradient works now")
PROGRAM
XLA_FLAGS=--xla_force_host_platform_device_count=8 JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
