#!/usr/bin/env bash
# jax 0.12.0.1 (and 0.10.2), CPU.
# Expected: in jax.shard_map, lax.pmax with axis_index_groups=[[0, 1], [2, 3]] has a result that varies over the mesh axis, as lax.all_gather in
#   groups has, since two groups have two maxima. So out_specs=P(), which promises one value for all devices, is an error.
# Seen: the result of pmax and of pmin is typed as equal on all devices. out_specs=P() is accepted, and the "replicated" array has another
#   value on the devices of each group. The result of all_gather in groups varies; psum in groups is a NotImplementedError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
groups = [[0, 1], [2, 3]]


def body(x):
    gathered = lax.all_gather(x, "x", axis_index_groups=groups)
    result = lax.pmax(x, "x", axis_index_groups=groups)
    print(f"jax {jax.__version__}: all_gather {jax.typeof(gathered)}, pmax {jax.typeof(result)}")
    if "V:x" not in str(jax.typeof(gathered)) or "V:x" in str(jax.typeof(result)):
        raise SystemExit("the types have changed")
    return result


result = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P())(jnp.arange(4.0))
values = [float(shard.data[0]) for shard in result.addressable_shards]
print(f"{result.sharding}, {result.is_fully_replicated=}: {values} on the devices")
if not result.is_fully_replicated or values != [1, 1, 3, 3]:
    raise SystemExit("the maximum in groups has changed")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
