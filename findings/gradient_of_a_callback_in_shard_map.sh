#!/usr/bin/env bash
# jax 0.12.0.1 (and 0.10.2), CPU.
# Expected: in jax.shard_map, the gradient of a function with a jax.custom_vjp rule around a jax.pure_callback is that of the rule, whether
#   check_vma is on, the default, or off; or the checker raises an error.
# Seen: with check_vma=False it is right. With the checker the value is right, and the gradient is silently wrong: the result of the callback is
#   typed as equal on all devices although its operand varies, so the multiplication after it casts it, and the transpose of the cast adds
#   the cotangents of all devices. jax.ffi.ffi_call has such a type too, unless its result type is jax.typeof(operand).
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
from jax.sharding import AxisType, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
x = jnp.arange(1.0, 5.0)


def doubled(x):
    return jax.pure_callback(lambda x: 2 * np.asarray(x), jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@jax.custom_vjp
def product(w, x):
    return doubled(w * x)


product.defvjp(lambda w, x: (doubled(w * x), (w, x)), lambda saved, ct: (2 * ct * saved[1], 2 * ct * saved[0]))


def loss(x, checked):
    def body(x):
        print(f"jax {jax.__version__}: check_vma={checked}: x {jax.typeof(x)}, callback {jax.typeof(product(x, x))}")
        return product(x, x) * x

    return jnp.sum(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=checked)(x))


want = 6 * x**2  # of the sum of 2 * x**3
for checked in (False, True):
    value, gradient = jax.value_and_grad(loss)(x, checked)
    print(f"check_vma={checked}: value {value}, gradient {gradient.tolist()}, right {want.tolist()}")
    assert float(value) == 200
    if np.array_equal(gradient, want) == checked:
        raise SystemExit("the gradient of a callback with a rule has changed")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
