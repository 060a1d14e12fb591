#!/usr/bin/env bash
# jax 0.12.0.1, CPU.
# Expected: a sampler of jax.random whose parameter is sharded over an Explicit mesh axis draws as it does with the parameter replicated,
#   since it computes element by element; or it raises a ShardingTypeError that names the parameter.
# Seen: under jax.set_mesh, gamma, loggamma, beta and chisquare raise a ValueError about jax.vmap, which the caller has not used ("Mapped
#   away dimension of inputs passed to vmap should be sharded the same"), poisson and binomial a ShardingTypeError about the operands of
#   a select. All six draw if the parameter is resharded to be replicated first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.12.0.1
cat > "$folder/program.py" <<'PROGRAM'
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)
key = jax.random.key(0)
samplers = {
    "gamma": lambda a: jax.random.gamma(key, a, (8,)),
    "loggamma": lambda a: jax.random.loggamma(key, a, (8,)),
    "beta": lambda a: jax.random.beta(key, a, 2.0, (8,)),
    "chisquare": lambda a: jax.random.chisquare(key, a, shape=(8,)),
    "poisson": lambda a: jax.random.poisson(key, a, (8,)),
    "binomial": lambda a: jax.random.binomial(key, 5.0, a / 10, (8,)),
}
with jax.set_mesh(jax.make_mesh((4,), ("x",))):
    parameter = jax.device_put(jnp.linspace(1.0, 8.0, 8), P("x"))
    print(f"jax {jax.__version__}: type of the parameter: {jax.typeof(parameter)}")
    for name, draw in samplers.items():
        draw(jax.reshard(parameter, P(None)))
        try:
            draw(parameter)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:100]}")
        else:
            raise SystemExit(f"{name} of a sharded parameter works now")
PROGRAM
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
