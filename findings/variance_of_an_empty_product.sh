#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: within jax.shard_map (check_vma=True, the default) a function has the same type with and without jax.vjp. The product of no
#   elements of each column of a sharded array varies over the mesh axis, as the sum does, and the pullback takes a cotangent of that type.
# Seen: jnp.prod(x, 0) of blocks of shape (0, 2) varies over the mesh axis. The value that jax.vjp returns for it does not: the derivative
#   rule makes constants. The pullback therefore rejects a cotangent that varies, "unexpected JAX type". The sum of no elements has no
#   such difference.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
seen = {}


def body(function, x):
    value, pullback = jax.vjp(function, x)
    plain = function(x)
    name = function.__name__
    seen[name] = [str(jax.typeof(v)) for v in (plain, value)]
    try:
        pullback(plain)
    except ValueError as error:
        seen[name].append(str(error).split("(")[0].strip())
    return plain


def prod(x):
    return jnp.prod(x, 0)


def total(x):
    return jnp.sum(x, 0)


for function in (prod, total):
    mapped = jax.shard_map(lambda x, f=function: body(f, x), mesh=mesh, in_specs=P(None, "x"), out_specs=P("x"))
    jax.eval_shape(mapped, jnp.zeros((0, 4)))
print(f"jax {jax.__version__}: types of the value, and of that of jax.vjp: {seen}")
varying, constant = "float32[2]{V:x}", "float32[2]"
if seen != {"prod": [varying, constant, "unexpected JAX type"], "total": [varying, varying]}:
    raise SystemExit("the variance of an empty product under jax.vjp has changed")
PROGRAM
XLA_FLAGS=--xla_force_host_platform_device_count=2 JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
