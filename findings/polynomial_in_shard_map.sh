#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: jax.lax.polynomial, which is new, takes numbers as coefficients inside of a jax.shard_map, as lax.add and lax.mul take a
#   number beside a block that varies over mesh axes; and jax.lax.erf and jax.scipy.special.ndtri have derivatives there.
# Seen: lax.polynomial of a block and numbers raises a ValueError, "Primitive polynomial requires varying manual axes to match". The
#   values of erf and ndtri are computed, and their derivatives, inside and outside of the shard_map, raise the same error: the
#   derivatives are polynomials. With check_vma=False all of them work, and so does lax.polynomial if the numbers are cast by jax.lax.pcast.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import ndtri
from jax.sharding import AxisType, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
values = jnp.linspace(0.1, 0.9, 8)


def polynomial(block):
    return lax.polynomial(block, [1.0, 2.0, 3.0])


def cast_polynomial(block):
    return lax.polynomial(block, [lax.pcast(jnp.float32(c), "x", to="varying") for c in (1.0, 2.0, 3.0)])


def mapped(function, checked):
    return jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=checked)


def derivative(function):
    return jax.vmap(jax.grad(function))


def outside(function):
    return lambda checked: jax.grad(lambda x: mapped(function, checked)(x).sum())


cases = {
    "polynomial": (lambda checked: mapped(polynomial, checked), True),
    "erf": (lambda checked: mapped(lax.erf, checked), False),
    "ndtri": (lambda checked: mapped(ndtri, checked), False),
    "derivative of erf, inside": (lambda checked: mapped(derivative(lax.erf), checked), True),
    "derivative of erf, outside": (outside(lax.erf), True),
    "derivative of ndtri, outside": (outside(ndtri), True),
}
for name, (make, fails) in cases.items():
    for checked in (False, True):
        try:
            make(checked)(values)
            seen = "works"
        except ValueError as error:
            seen = f"ValueError: {str(error)[:62]}..."
        print(f"jax {jax.__version__}: {name}, check_vma={checked}: {seen}")
        if (seen != "works") != (fails and checked):
            raise SystemExit(f"{name}, check_vma={checked}: {seen} now")
mapped(cast_polynomial, True)(values)
print("polynomial with coefficients that are cast: works")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
