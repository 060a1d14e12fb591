#!/usr/bin/env bash
# jax 0.12.0.1 (and 0.10.2), CPU.
# Expected: lax.psum_scatter, and the gradient of lax.all_gather, which is one, work in a jax.shard_map that is manual over one axis of a
#   mesh of Explicit axes (axis_names={"z"}), as lax.psum, lax.all_gather and lax.all_to_all do, and as they do in jax 0.10.2.
# Seen: in jax 0.12.0.1 they are traced, and raise a ValueError when they are lowered, "Length of sharding.spec (3) must be equal to aval's
#   ndim (0)". On Auto axes, and with all axes of the mesh manual, they work. jax 0.10.2 computes all of them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/program.py" <<'PROGRAM'
import sys

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
fails = sys.argv[1] == "fails"
FUNCTIONS = {
    "psum": lambda x: lax.psum(x, "z") + 0 * x,
    "all_gather": lambda x: lax.all_gather(x, "z", axis=0, tiled=True)[:4],
    "all_to_all": lambda x: lax.all_to_all(x, "z", 1, 0, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "z", scatter_dimension=0, tiled=True),
    "gradient of all_gather": jax.grad(lambda x: jnp.sum(jnp.sin(lax.all_gather(x, "z", axis=0, tiled=True)))),
}
MESHES = {"Explicit, one axis manual": (AxisType.Explicit, {"z"}), "Explicit, all manual": (AxisType.Explicit, {"y", "z"}), "Auto, one manual": (AxisType.Auto, {"z"})}
for label, (kind, manual) in MESHES.items():
    mesh = jax.make_mesh((2, 2), ("y", "z"), axis_types=(kind, kind))
    x = jax.device_put(jnp.ones((8, 4, 2)), NamedSharding(mesh, P("z")))
    for name, function in FUNCTIONS.items():
        with jax.set_mesh(mesh):
            mapped = jax.shard_map(function, mesh=mesh, in_specs=P("z"), out_specs=P("z"), axis_names=manual)
            try:
                jax.jit(mapped)(x)
                seen = "works"
            except ValueError as error:
                seen = f"ValueError: {str(error)[:70]}..."
        print(f"jax {jax.__version__}: {label}, {name}: {seen}")
        expected = fails and label == "Explicit, one axis manual" and name in ("psum_scatter", "gradient of all_gather")
        assert seen.startswith("ValueError: Length of sharding.spec") if expected else seen == "works", (label, name, seen)
PROGRAM
run() {
  "$1" -m venv "$folder/$2"
  "$folder/$2/bin/pip" install --quiet "jax==$2"
  "$folder/$2/bin/python" "$folder/program.py" "$3"
}
run "${PYTHON:-python3.13}" 0.12.0.1 fails
run "${OLDER_PYTHON:-python3.11}" 0.10.2 works
