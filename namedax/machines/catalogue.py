"""Machines from public figures.

Each figure is per device (a chip, a GPU), with its source in a comment.

Sources:

- "Cloud TPU": Google Cloud's documentation of TPU v5e, v5p and v6e, the tables of specifications.
- "Scaling book": "How to Scale Your Model" (Google DeepMind), chapter "How to Think About TPUs",
  the tables of chips and interconnects.
- "H100 datasheet", "H200 datasheet": NVIDIA's datasheets of the H100 and H200 Tensor Core GPUs, SXM
  columns. The datasheets show rates with structured sparsity; this module uses the dense rates,
  which are half of them.
- "DGX": NVIDIA's datasheets of DGX H100 and DGX H200.

Only large matrix products reach the peaks, and never completely. `float32` has the rate at which
JAX multiplies by default: on TPUs in one pass of `bfloat16`, on GPUs in TensorFloat-32. With
`jax.default_matmul_precision("highest")` a TPU makes six passes: `dataclasses.replace(v5e,
flops={**v5e.flops, "float32": 197e12 / 6})`.

No vendor publishes latencies. The Scaling book uses a microsecond for each hop between chips. The
latencies of networks are assumptions, of the order that users report.
"""

from __future__ import annotations

from namedax.machines.links import Link
from namedax.machines.machine import Machine

__all__ = [
    "DCN_V5E",
    "DCN_V5P",
    "DCN_V6E",
    "ICI_V5E",
    "ICI_V5P",
    "ICI_V6E",
    "INFINIBAND",
    "NVLINK",
    "h100",
    "h200",
    "v5e",
    "v5p",
    "v6e",
]

#: The data-center network between pods of v5e, for each chip. Cloud TPU: 6.4 Tbit/s for a pod of
#: 256 chips.
DCN_V5E = Link(6.4e12 / 8 / 256, 1e-5, "switch")
#: The same for v5p. Cloud TPU: 50 Gbit/s for each chip.
DCN_V5P = Link(50e9 / 8, 1e-5, "switch")
#: The same for v6e. Cloud TPU: 25.6 Tbit/s for a pod of 256 chips.
DCN_V6E = Link(25.6e12 / 8 / 256, 1e-5, "switch")

#: The links between chips of a v5e pod, along one axis of its torus. Cloud TPU: 400 GB/s for each
#: chip over 4 ports, both directions counted, so 50e9 for each port one way; the Scaling book
#: counts 4.5e10 of these as usable. A 16 x 16 torus, whose axes close at 16 chips.
ICI_V5E = Link(2 * 4.5e10, 1e-6, "ring", closes=16, dimensions=2, reach=256, beyond=DCN_V5E)
#: The same for a v5p pod. Cloud TPU: 1200 GB/s over 6 ports, both directions, so 100e9; the Scaling
#: book counts 9e10. A torus of three dimensions made of cubes of 4 x 4 x 4 chips. An axis closes if
#: it consists of complete cubes.
ICI_V5P = Link(2 * 9e10, 1e-6, "ring", closes=4, dimensions=3, reach=8960, beyond=DCN_V5P)
#: The same for a v6e pod. Cloud TPU: 800 GB/s over 4 ports, both directions, so 100e9; the Scaling
#: book counts 9e10.
ICI_V6E = Link(2 * 9e10, 1e-6, "ring", closes=16, dimensions=2, reach=256, beyond=DCN_V6E)

#: Between nodes, for each GPU. DGX: eight ConnectX-7 of 400 Gbit/s in a node of eight GPUs.
INFINIBAND = Link(400e9 / 8, 5e-6, "switch")
#: Within a node. H100 and H200 datasheet: 900 GB/s for each GPU, both directions counted. Eight
#: GPUs on NVSwitch.
NVLINK = Link(450e9, 1e-6, "switch", reach=8, beyond=INFINIBAND)

#: Cloud TPU: 197 TFLOPS in bfloat16, 393 TOPS in int8, 16 GB at 819 GB/s.
v5e = Machine(
    flops={"bfloat16": 197e12, "float32": 197e12, "int8": 393e12},
    memory=16e9,
    bandwidth=819e9,
    links={...: ICI_V5E},
    name="v5e",
)

#: Cloud TPU: 459 TFLOPS in bfloat16, 95 GB at 2765 GB/s. Scaling book: 918 TOPS in int8.
v5p = Machine(
    flops={"bfloat16": 459e12, "float32": 459e12, "int8": 918e12},
    memory=95e9,
    bandwidth=2765e9,
    links={...: ICI_V5P},
    name="v5p",
)

#: Cloud TPU: 918 TFLOPS in bfloat16, 1836 TOPS in int8, 32 GB at 1638 GB/s.
v6e = Machine(
    flops={"bfloat16": 918e12, "float32": 918e12, "int8": 1836e12},
    memory=32e9,
    bandwidth=1638e9,
    links={...: ICI_V6E},
    name="v6e",
)

# H100 and H200 datasheet, SXM: 1,979 TFLOPS in bfloat16 and float16, 989 in TensorFloat-32, 3,958
# in FP8 and INT8, all with sparsity; 67 in FP64 on tensor cores.
_HOPPER = {
    "bfloat16": 989.5e12,
    "float16": 989.5e12,
    "float32": 494.5e12,
    "float64": 67e12,
    "float8_e4m3fn": 1979e12,
    "float8_e5m2": 1979e12,
    "int8": 1979e12,
}

#: H100 datasheet, SXM: 80 GB at 3.35 TB/s. Nodes of eight.
h100 = Machine(flops=_HOPPER, memory=80e9, bandwidth=3.35e12, links={...: NVLINK}, name="h100")

#: H200 datasheet, SXM: 141 GB at 4.8 TB/s. Nodes of eight.
h200 = Machine(flops=_HOPPER, memory=141e9, bandwidth=4.8e12, links={...: NVLINK}, name="h200")
