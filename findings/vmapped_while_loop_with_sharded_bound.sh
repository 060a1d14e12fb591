#!/usr/bin/env bash
# jax 0.12.0.1 (and 0.10.2), CPU.
# Expected: jax.vmap of a jax.lax.while_loop runs over elements that are sharded over an Explicit mesh axis, whether an element is where the
#   loop begins or where it ends, as it does on an Auto axis.
# Seen: with the element as the initial carry it works. With the element as the bound, and a constant as the initial carry, it raises a
#   ValueError, "Resource axis: x of P('x',) is not found in mesh: ()", also under jax.jit and jax.set_mesh: the carry is broadcast with
#   the sharding of the elements, but without their mesh. A carry of n * 0 in place of the constant works.
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


def carry(n):
    return lax.while_loop(lambda c: c < 5, lambda c: c + 1, n)


def bound(n):
    return lax.while_loop(lambda c: c < n, lambda c: c + 1, 0.0)


def bound_like(n):
    return lax.while_loop(lambda c: c < n, lambda c: c + 1, n * 0)


n = jnp.arange(4.0)
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(kind,))
    placed = jax.device_put(n, NamedSharding(mesh, PartitionSpec("x")))
    np.testing.assert_array_equal(jax.vmap(carry)(placed), 5)
    np.testing.assert_array_equal(jax.vmap(bound_like)(placed), n)
    for run in (jax.vmap(bound), jax.jit(jax.vmap(bound))):
        try:
            with jax.set_mesh(mesh):
                seen = np.asarray(run(placed)).tolist()
        except ValueError as error:
            seen = f"ValueError: {str(error)[:60]}"
        print(f"jax {jax.__version__}: {kind.name}: {seen}")
        if seen != n.tolist() and kind is AxisType.Auto:
            raise SystemExit("the loop over an Auto axis has changed")
        if kind is AxisType.Explicit and not str(seen).startswith("ValueError: Resource axis"):
            raise SystemExit("a loop with a sharded bound has changed")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
