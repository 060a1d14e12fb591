#!/usr/bin/env bash
# optax 0.2.8 with jax 0.12.0.1, CPU.
# Expected: optimizer.update returns a state with the dtypes of the state that it takes, for any dtypes of parameters and gradients, so that a
#   training step can be the body of jax.lax.scan. For bfloat16 parameters and float32 gradients both moments of Adam keep one dtype.
# Seen: optax.adam(...).init makes both moments in bfloat16. After the first update the first moment is float32 and the second one still
#   bfloat16, so jax.lax.scan rejects the step ("carry input and carry output must have equal types"). sgd with momentum, lion and rmsprop
#   change their moment in the same way. With mu_dtype=jnp.float32 the moments of Adam begin as they end, and scan runs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optax==0.2.8 jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
import optax

params, gradients = jnp.ones(4, jnp.bfloat16), jnp.full(4, 0.5, jnp.float32)


def scanned(optimizer, state):
    def step(carry, _):
        params, state = carry
        updates, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), None

    try:
        jax.lax.scan(step, (params, state), None, length=2)
    except TypeError as error:
        return f"TypeError: {str(error)[:70]}"
    return "runs"


for options in ({}, {"mu_dtype": jnp.float32}):
    optimizer = optax.adam(0.1, **options)
    state = optimizer.init(params)
    _, new = optimizer.update(gradients, state, params)
    before, after = ((s[0].mu.dtype.name, s[0].nu.dtype.name) for s in (state, new))
    scan = scanned(optimizer, state)
    print(f"optax {optax.__version__}: {options}: moments {before}, after an update {after}; scan: {scan}")
    if after != ("float32", "bfloat16") or before[1] != "bfloat16":
        raise SystemExit("the dtypes of the moments have changed")
    if (scan == "runs") != bool(options):
        raise SystemExit("scan of a training step has changed")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
