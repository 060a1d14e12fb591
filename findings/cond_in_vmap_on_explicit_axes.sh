#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: jax.vmap of a function with jax.lax.cond, over a dimension that is not sharded, runs on an array whose other dimension is sharded
#   over an Explicit mesh axis, as it does on an Auto one, and as jax.numpy.where of the same predicate does.
# Seen: a ShardingTypeError "select `which` must be scalar or have the same sharding as cases": the batched predicate has one dimension, and
#   is broadcast to the shape of the branches without their sharding. jax.lax.switch fails in the same way; while_loop and scan do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 4)


def branch(v):
    return lax.cond(v.sum() > 0, lambda q: q * 2, lambda q: -q, v)


def switched(v):
    return lax.switch((v.sum() > 0).astype(int), [lambda q: -q, lambda q: q * 2], v)


def chosen(v):
    return jnp.where(v.sum() > 0, v * 2, -v)


x = jnp.arange(-8.0, 8.0).reshape(4, 4)
want = np.where(np.asarray(x).sum(1, keepdims=True) > 0, 2 * x, -x)
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(kind,))
    placed = jax.device_put(x, NamedSharding(mesh, PartitionSpec(None, "x")))
    np.testing.assert_array_equal(jax.vmap(chosen)(placed), want)
    for function in (branch, switched):
        try:
            np.testing.assert_array_equal(jax.vmap(function)(placed), want)
            seen = "right"
        except Exception as error:
            seen = f"{type(error).__name__}: {str(error)[:70]}"
        print(f"jax {jax.__version__}: {function.__name__} in vmap, {kind}: {seen}")
        if (seen == "right") != (kind == AxisType.Auto):
            raise SystemExit("branches in vmap behave in another way now")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
