#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: jnp.digitize, jnp.interp and jax.scipy.linalg.expm work in a jax.shard_map over a part of the mesh axes, as they do in
#   one over all of them: they compute with the block of a device, and the other mesh axis is left to the compiler.
# Seen: an AssertionError without a message of JAX, only the text of a ManualAxisType. They contain jnp.searchsorted, which makes its
#   type from a jax.ShapeDtypeStruct with a variance, on a mesh that is not manual there. With check_vma=False they work.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
x, edges = jnp.arange(8.0) / 8, jnp.array([0.25, 0.5])
functions = {
    "digitize": (lambda v: jnp.digitize(v, edges), x),
    "interp": (lambda v: jnp.interp(v, edges, edges**2), x),
    "expm": (jax.vmap(jax.scipy.linalg.expm), jnp.ones((4, 3, 3))),
}
for name, (function, value) in functions.items():
    for axes, checked in (({"x", "y"}, True), ({"x"}, False), ({"x"}, True)):
        mapped = jax.shard_map(
            function, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names=axes, check_vma=checked
        )
        try:
            jax.jit(mapped)(value)
            seen = "works"
        except AssertionError as error:
            seen = f"AssertionError: {str(error)[:40]}..."
        print(f"jax {jax.__version__}: {name} over {sorted(axes)}, check_vma={checked}: {seen}")
        if seen.startswith("Assertion") != (axes == {"x"} and checked):
            raise SystemExit(f"{name}: {seen} now")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
