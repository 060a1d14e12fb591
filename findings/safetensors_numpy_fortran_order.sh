#!/usr/bin/env bash
# safetensors 0.8.0 and numpy 2.3.5, CPU.
# Expected: safetensors.numpy.save_file writes the elements of an array by index, or raises for one that is not contiguous in C order, as
#   safetensors.torch does for a tensor that is not contiguous.
# Seen: an array in Fortran order, such as np.asfortranarray(a), or the transposed view a.T, is saved without an error in the order of its
#   memory with its own shape: the elements come back in other places.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.13}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet safetensors==0.8.0 numpy==2.3.5
cat > "$folder/program.py" <<'PROGRAM'
import sys

import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
saved = {"fortran": np.asfortranarray(a), "transposed": a.T}
save_file(saved, sys.argv[1])
loaded = load_file(sys.argv[1])
for name, value in saved.items():
    print(f"safetensors {safetensors.__version__}: {name}: saved {value.tolist()}, loaded {loaded[name].tolist()}")
    if np.array_equal(value, loaded[name]):
        raise SystemExit(f"an array that is {name} comes back as it was now")
PROGRAM
"$folder/venv/bin/python" "$folder/program.py" "$folder/file.safetensors"
