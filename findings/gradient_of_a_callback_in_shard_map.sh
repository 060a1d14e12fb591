#!/usr/bin/env bash
# jax 0.12.0.1 (and 0.10.2), CPU.
# Expected: in jax.shard_map, the gradient of a function with a jax.custom_vjp rule around a jax.pure_callback is that of the rule, whether
#   check_vma is on, the default, or off; or the checker raises an error.
# Seen: with check_vma=False it is right. With the checker the value is right, and the gradient is silently wrong: the result of the callback is
#   typed as equal on all devices although its operand varies, so the multiplication after it casts it, and the transpose of the cast adds
#   the cotangents of all devices. jax.ffi.ffi_call, here of a kernel of LAPACK, has such a type and gradient too, unless its result type is
#   jax.typeof(operand).
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

jnp.linalg.cholesky(jnp.eye(2))  # loads the kernels of LAPACK


def quotient(typed):
    """x / w, as a system of one equation."""

    def solved(w, x):
        like = jax.typeof(x[:, None]) if typed else jax.ShapeDtypeStruct((1, 1), x.dtype)
        kernel = jax.ffi.ffi_call("lapack_strsm_ffi", like)
        codes = zip(("side", "uplo", "trans_x", "diag"), b"LLNN")
        return kernel(w[:, None], x[:, None], **{name: np.uint8(code) for name, code in codes})[0]

    rule = jax.custom_vjp(solved)
    rule.defvjp(lambda w, x: (solved(w, x), (w, x)), lambda saved, ct: (-ct * saved[1] / saved[0] ** 2, ct / saved[0]))
    return rule


def loss(x, f, checked):
    def body(x):
        print(f"jax {jax.__version__}: check_vma={checked}: x {jax.typeof(x)}, result {jax.typeof(f(x, x * x))}")
        return f(x, x * x) * x

    return jnp.sum(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=checked)(x))


cases = {
    "callback": (product, 708, 8 * x**3, True),  # of the sum of 2 * x**4
    "foreign call": (quotient(False), 30, 2 * x, True),  # of the sum of x**2
    "foreign call with the type of its operand": (quotient(True), 30, 2 * x, False),
}
for name, (f, result, want, is_wrong) in cases.items():
    for checked in (False, True):
        value, gradient = jax.value_and_grad(loss)(x, f, checked)
        print(f"{name}: check_vma={checked}: value {value}, gradient {gradient.tolist()}, right {want.tolist()}")
        assert float(value) == result
        if np.allclose(gradient, want) == (checked and is_wrong):
            raise SystemExit(f"the gradient of a {name} with a rule has changed")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
