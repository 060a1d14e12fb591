#!/usr/bin/env bash
# jax 0.12.0.1 (and 0.10.2), CPU.
# Expected: jnp.max of an array that contains NaN is NaN, also if the array is sharded over the reduced axis, and jax.lax.pmax of a value that
#   is NaN on one device is NaN: both are the maximum of the same numbers.
# Seen: unsharded, jnp.max gives NaN. Of the sharded array it gives the largest number, with and without jax.jit, and so does lax.pmax: the
#   all-reduce of the CPU backend compares NaN with a number and takes the number. jnp.argmax of the sharded array still finds the NaN.
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
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
x = jnp.array([1.0, np.nan, 3.0, 2.0])
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(kind,))
    placed = jax.device_put(x, NamedSharding(mesh, P("x")))
    with jax.set_mesh(mesh):
        largest = jax.shard_map(lambda v: lax.pmax(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(placed)
        seen = [float(jnp.max(placed)), float(jax.jit(jnp.max)(placed)), float(largest[0]), float(jnp.min(placed))]
        index = int(jnp.argmax(placed))
    print(f"jax {jax.__version__}: {kind.name}: unsharded {jnp.max(x)}, sharded {seen[:2]}, pmax {seen[2]}, min {seen[3]}, argmax {index}")
    if seen != [3, 3, 3, 1] or index != 1:
        raise SystemExit("the maximum of a sharded NaN has changed")
assert np.isnan(jnp.max(x))
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
