#!/usr/bin/env bash
# jax 0.10.2, 0.11.2 and 0.12.0.1, eight simulated devices, CPU.
# Expected: jax.scipy.fft.idct of an array that is sharded over an Auto mesh axis runs under jit, as dct and jnp.fft.ifft of it do.
# Seen: the program compiles and raises an internal error of XLA when it runs (fft_thunk.cc, the layout of the operand of the transform). dct and
#   ifft of the same array run, and so does idct if the transformed axis is the first one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
import jax.scipy.fft
import numpy as np

mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
x = np.arange(256, dtype=np.float32).reshape(16, 16)
last, first = (jax.device_put(a, jax.NamedSharding(mesh, jax.P(*spec))) for a, spec in ((x, (None, "x")), (x.T, ("x", None))))


def runs(function, operand):
    try:
        np.asarray(jax.jit(function)(operand))
        return "runs"
    except jax.errors.JaxRuntimeError as error:
        return "fft_thunk" if "fft_thunk" in str(error) else "another error"


found = {
    "dct": runs(jax.scipy.fft.dct, last),
    "ifft": runs(jnp.fft.ifft, last),
    "idct": runs(jax.scipy.fft.idct, last),
    "idct of the first axis": runs(lambda a: jax.scipy.fft.idct(a, axis=0), first),
}
print(f"jax {jax.__version__}: {found}")
if found != {"dct": "runs", "ifft": "runs", "idct": "fft_thunk", "idct of the first axis": "runs"}:
    raise SystemExit(f"{found} now")
PROGRAM
XLA_FLAGS=--xla_force_host_platform_device_count=8 JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
