"""The catalog: machines from public figures.

Each figure is for one device of JAX: a chip, a GPU, or one of the two devices of a TPU7x chip. Its
source is in a comment, and in `Machine.sources`:

- "Cloud TPU": Google Cloud's documentation of Cloud TPU, the page of each generation. The table for
  TPU7x has three generations.
- "Scaling book": "How to Scale Your Model" (Google DeepMind), the chapter "How to Think About
  TPUs", tables of chips and interconnects.
- "datasheet": the vendor's data sheet of the device, the column of the SXM or OAM module. NVIDIA's
  sheets show rates with structured sparsity; the entries use the dense rates, half of them.
- "DGX": NVIDIA's datasheets of DGX A100, H100, H200 and B200, and of GB200 NVL72.
- "Open Book": "Machine Learning Engineering Open Book" (Stas Bekman), the chapter "Accelerators",
  table "Maximum Achievable Matmul FLOPS" (the best of many shapes, in bfloat16 and FP8), and the
  chapter on networks, sweeps of all-reduces by size.

Memory has the unit of its source: Cloud TPU has 16 GB, 95 GB and 32 GB for v5e, v5p and v6e on
their own pages, and 32 GiB and 192 GiB for v4 and TPU7x. The page of TPU7x shows the figures of v5p
and v6e in GiB; the entries have the smaller unit.

`host_bandwidth` is that of PCI Express in one direction: the datasheets of GPUs count both
directions, 64 GB/s for A100 and 128 GB/s for the later ones, and the Scaling book has 15 GB/s for a
chip, and 32 GB/s for v6e. The two GPUs of a GB200 superchip share 900 GB/s to its processor, both
directions counted. No source has the figure of TPU7x.

`efficiency` is 1 for dtypes and machines without a measurement: all TPUs, and `float32` on GPUs.
`memory_efficiency` is 1 and `launch` is 0 everywhere, because no public measurement was found.
`float32` has the rate at which JAX multiplies by default: on TPUs in one pass of `bfloat16`, on
GPUs of NVIDIA in TensorFloat-32. With `jax.default_matmul_precision("highest")` a TPU makes six
passes: `dataclasses.replace(v5e, flops={**v5e.flops, "float32": 197e12 / 6})`.

No vendor publishes latencies. The Scaling book uses a microsecond for each hop between chips.
Collectives of GPUs start as in the sweeps: an all-reduce of at most 512 KiB among eight H200 takes
39 microseconds, which are six rounds of one microsecond, an assumption, and a start of 33. The
latencies of networks are assumptions, of the order that users report, and their collectives start
like those within a node.
"""

from __future__ import annotations

import dataclasses

from namedax.machines.links import Link
from namedax.machines.machine import Machine

__all__ = [
    "D2D_TPU7X",
    "DCN_TPU7X",
    "DCN_V4",
    "DCN_V5E",
    "DCN_V5P",
    "DCN_V6E",
    "ICI_TPU7X",
    "ICI_V4",
    "ICI_V5E",
    "ICI_V5P",
    "ICI_V6E",
    "INFINIBAND",
    "INFINIBAND_200",
    "INFINITY_FABRIC",
    "NVLINK",
    "NVLINK3",
    "NVLINK5",
    "NVLINK5_NVL72",
    "a100",
    "b200",
    "gb200_nvl72",
    "h100",
    "h200",
    "mi300x",
    "tpu7x",
    "v4",
    "v5e",
    "v5p",
    "v6e",
]


# --- links ----------------------------------------------------------------------------------------


#: The data-center network between pods of v4, for each chip. Scaling book: 25 GB/s for a host,
#: which has four chips.
DCN_V4 = Link(2.5e10 / 4, 1e-5, "switch")
#: The same for v5e. Cloud TPU: 6.4 Tbit/s for a pod of 256 chips.
DCN_V5E = Link(6.4e12 / 8 / 256, 1e-5, "switch")
#: The same for v5p. Cloud TPU: 50 Gbit/s for each chip.
DCN_V5P = Link(50e9 / 8, 1e-5, "switch")
#: The same for v6e. Cloud TPU: 25.6 Tbit/s for a pod of 256 chips.
DCN_V6E = Link(25.6e12 / 8 / 256, 1e-5, "switch")
#: The same for TPU7x. Cloud TPU: 100 Gbit/s for each chip, which has two devices.
DCN_TPU7X = Link(100e9 / 8 / 2, 1e-5, "switch")

#: The links between chips of a v4 pod, along one axis of its torus. Scaling book: 4.5e10 one way
#: for each port. Cloud TPU: 4096 chips in three dimensions; a torus of multiples of 4.
ICI_V4 = Link(2 * 4.5e10, 1e-6, "ring", closes=4, dimensions=3, reach=4096, beyond=DCN_V4)
#: The same for a v5e pod. Cloud TPU: 400 GB/s for each chip over 4 ports, both directions counted,
#: so 50e9 for each port one way; the Scaling book counts 4.5e10 of these as usable. A 16 x 16
#: torus, whose axes close at 16 chips.
ICI_V5E = Link(2 * 4.5e10, 1e-6, "ring", closes=16, dimensions=2, reach=256, beyond=DCN_V5E)
#: The same for a v5p pod. Cloud TPU: 1200 GB/s over 6 ports, both directions, so 100e9; the Scaling
#: book counts 9e10. A torus of three dimensions made of cubes of 4 x 4 x 4 chips. An axis closes if
#: it consists of complete cubes.
ICI_V5P = Link(2 * 9e10, 1e-6, "ring", closes=4, dimensions=3, reach=8960, beyond=DCN_V5P)
#: The same for a v6e pod. Cloud TPU: 800 GB/s over 4 ports, both directions, so 100e9; the Scaling
#: book counts 9e10.
ICI_V6E = Link(2 * 9e10, 1e-6, "ring", closes=16, dimensions=2, reach=256, beyond=DCN_V6E)
#: The same for a TPU7x pod, for each of the two devices of a chip. Cloud TPU: 1200 GB/s for each
#: chip, both directions counted, in three dimensions, so 100e9 for each of 6 ports one way, and
#: half of it for each device. No source has the usable part. 9216 chips, in cubes of 4 x 4 x 4.
ICI_TPU7X = Link(2 * 1e11 / 2, 1e-6, "ring", closes=4, dimensions=3, reach=9216, beyond=DCN_TPU7X)
#: Between the two devices of a TPU7x chip. Cloud TPU: the two chiplets of a chip are two devices.
#: An assumption: the link between them is as fast as the six ports of the chip together.
D2D_TPU7X = Link(6 * 1e11, 1e-6, "switch", reach=2, beyond=ICI_TPU7X)

#: Between nodes, for each GPU. DGX H100, H200, B200 and GB200: an adapter of 400 Gbit/s for each
#: GPU.
INFINIBAND = Link(400e9 / 8, 5e-6, "switch", start=33e-6)
#: The same for A100. DGX A100: eight adapters of 200 Gbit/s in a node of eight GPUs.
INFINIBAND_200 = Link(200e9 / 8, 5e-6, "switch", start=38e-6)
#: Within a node of A100. A100 datasheet: 600 GB/s for each GPU, both directions counted. Open Book:
#: the sweep of all-reduces among eight A100, 44 microseconds for the smallest, 0.78 of the
#: bandwidth for the largest. The table has the rest of each time, by the bytes of a block.
NVLINK3 = Link(
    300e9,
    1e-6,
    "switch",
    start=38e-6,
    reach=8,
    beyond=INFINIBAND_200,
    by_size=(
        (2**16, 0.08),
        (2**19, 0.40),
        (2**20, 0.49),
        (2**23, 0.61),
        (2**26, 0.75),
        (2**31, 0.78),
    ),
)
#: Within a node of H100 or H200. Datasheet: 900 GB/s for each GPU, both directions counted. Eight
#: GPUs on NVSwitch. Open Book: 367.6 GB/s in all-reduces of 16 GiB by rings, 0.82 of the bandwidth.
NVLINK = Link(
    450e9, 1e-6, "switch", start=33e-6, reach=8, beyond=INFINIBAND, by_size=((2**20, 0.82),)
)
#: Within a node of B200. DGX B200: 14.4 TB/s for eight GPUs, both directions counted. Open Book:
#: 682.2 GB/s in all-reduces of 8 GiB by rings, 0.76 of the bandwidth. Collectives start like those
#: of H200, an assumption.
NVLINK5 = Link(
    900e9, 1e-6, "switch", start=33e-6, reach=8, beyond=INFINIBAND, by_size=((2**20, 0.76),)
)
#: Within a rack of GB200 NVL72. DGX: 72 GPUs in one domain. Open Book: 680 GB/s without reductions
#: in the switch (NVIDIA, GTC 2025, session S72583), 0.76 of the bandwidth.
NVLINK5_NVL72 = dataclasses.replace(NVLINK5, reach=72)
#: Within a node of MI300X. Datasheet: 128 GB/s for each of seven links, both directions counted,
#: one to each other GPU. Open Book: 312.9 GB/s in all-reduces of 4 GiB among eight, 0.7 of the
#: bandwidth, and 47.7 GB/s of 64 between two. Assumptions: collectives start like those of H200,
#: and between nodes each GPU has one adapter of 400 Gbit/s.
INFINITY_FABRIC = Link(
    7 * 64e9, 1e-6, "direct", start=33e-6, reach=8, beyond=INFINIBAND, by_size=((2**20, 0.7),)
)


# --- TPUs -----------------------------------------------------------------------------------------


_SCALING_BOOK = (
    '"How to Scale Your Model" (Google DeepMind), chapter "How to Think About TPUs": links'
)


_HOST = '"How to Scale Your Model", same chapter: PCIe, for each chip'


def _cloud(page: str, figures: str) -> str:
    return f'"{page}" (Google Cloud, Cloud TPU documentation): {figures}'


#: Cloud TPU: 275 TFLOPS in bfloat16 or int8, 32 GiB at 1200 GB/s.
v4 = Machine(
    flops={"bfloat16": 275e12, "float32": 275e12, "int8": 275e12},
    memory=32 * 2**30,
    bandwidth=1200e9,
    links={...: ICI_V4},
    name="v4",
    host_bandwidth=1.5e10,
    sources=(
        _cloud("TPU v4", "peak compute, HBM2 capacity and bandwidth, pod size, topology"),
        _SCALING_BOOK + ", network of a host",
        _HOST,
    ),
)

#: Cloud TPU: 197 TFLOPS in bfloat16, 393 TOPS in int8, 16 GB at 819 GB/s.
v5e = Machine(
    flops={"bfloat16": 197e12, "float32": 197e12, "int8": 393e12},
    memory=16e9,
    bandwidth=819e9,
    links={...: ICI_V5E},
    name="v5e",
    host_bandwidth=1.5e10,
    sources=(
        _cloud("TPU v5e", "peak compute, HBM2 capacity and bandwidth, ICI, pod, network"),
        _SCALING_BOOK,
        _HOST,
    ),
)

#: Cloud TPU: 459 TFLOPS in bfloat16, 95 GB at 2765 GB/s. Scaling book: 918 TOPS in int8.
v5p = Machine(
    flops={"bfloat16": 459e12, "float32": 459e12, "int8": 918e12},
    memory=95e9,
    bandwidth=2765e9,
    links={...: ICI_V5P},
    name="v5p",
    host_bandwidth=1.5e10,
    sources=(
        _cloud("TPU v5p", "peak compute, HBM2e capacity and bandwidth, pod size"),
        _cloud("TPU7x (Ironwood)", "column v5p: ICI and network"),
        _SCALING_BOOK + ", int8",
        _HOST,
    ),
)

#: Cloud TPU: 918 TFLOPS in bfloat16, 1836 TOPS in int8, 32 GB at 1638 GB/s.
v6e = Machine(
    flops={"bfloat16": 918e12, "float32": 918e12, "int8": 1836e12},
    memory=32e9,
    bandwidth=1638e9,
    links={...: ICI_V6E},
    name="v6e",
    host_bandwidth=3.2e10,
    sources=(
        _cloud("TPU v6e", "peak compute, HBM capacity and bandwidth, ICI, pod, network"),
        _SCALING_BOOK,
        _HOST,
    ),
)

#: Cloud TPU: 2307 TFLOPS in bfloat16, 4614 in FP8, 192 GiB at 7380 GB/s for a chip, which is two
#: devices of JAX. No source has a rate of integers.
tpu7x = Machine(
    flops={
        "bfloat16": 2307e12 / 2,
        "float32": 2307e12 / 2,
        "float8_e4m3fn": 4614e12 / 2,
        "float8_e5m2": 4614e12 / 2,
    },
    memory=192 * 2**30 / 2,
    bandwidth=7380e9 / 2,
    links={...: D2D_TPU7X},
    name="tpu7x",
    sources=(
        _cloud("TPU7x (Ironwood)", "column TPU7x, half of a chip for each of its two devices"),
        "an assumption: the link between the two devices of a chip",
    ),
)


# --- GPUs -----------------------------------------------------------------------------------------


_OPEN_BOOK = '"Machine Learning Engineering Open Book" (Stas Bekman)'
_ACHIEVED = f'{_OPEN_BOOK}, "Maximum Achievable Matmul FLOPS": efficiency'
_SWEEPS = f"{_OPEN_BOOK}, all-reduces by size: start and fraction of NVLink"


def _datasheet(title: str, figures: str) -> str:
    return f'"{title}" (NVIDIA): {figures}'


#: A100 datasheet, 80 GB SXM: 312 TFLOPS in bfloat16 and float16, 156 in TensorFloat-32, 624 TOPS in
#: INT8, 19.5 TFLOPS in FP64 on tensor cores; 80 GB at 2039 GB/s. Nodes of eight. Open Book: 271.2
#: TFLOPS reached in bfloat16.
a100 = Machine(
    flops={
        "bfloat16": 312e12,
        "float16": 312e12,
        "float32": 156e12,
        "float64": 19.5e12,
        "int8": 624e12,
    },
    memory=80e9,
    bandwidth=2039e9,
    links={...: NVLINK3},
    name="a100",
    efficiency={"bfloat16": 0.869, "float16": 0.869},
    host_bandwidth=64e9 / 2,
    sources=(
        _datasheet("A100 Tensor Core GPU datasheet", "column A100 80GB SXM, dense rates; PCIe"),
        _datasheet("DGX A100 datasheet", "adapters"),
        _ACHIEVED,
        _SWEEPS,
    ),
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

#: H100 datasheet, SXM: 80 GB at 3.35 TB/s. Nodes of eight. Open Book: 794.5 TFLOPS reached in
#: bfloat16, 1402.6 in FP8.
h100 = Machine(
    flops=_HOPPER,
    memory=80e9,
    bandwidth=3.35e12,
    links={...: NVLINK},
    name="h100",
    efficiency={
        "bfloat16": 0.803,
        "float16": 0.803,
        "float8_e4m3fn": 0.709,
        "float8_e5m2": 0.709,
    },
    host_bandwidth=128e9 / 2,
    sources=(
        _datasheet("H100 Tensor Core GPU datasheet", "column H100 SXM, dense rates; PCIe"),
        _datasheet("DGX H100 datasheet", "adapters"),
        _ACHIEVED,
        _SWEEPS,
    ),
)

#: H200 datasheet, SXM: 141 GB at 4.8 TB/s. Nodes of eight. Open Book: as H100 in bfloat16, 1453.4
#: TFLOPS reached in FP8.
h200 = Machine(
    flops=_HOPPER,
    memory=141e9,
    bandwidth=4.8e12,
    links={...: NVLINK},
    name="h200",
    efficiency={
        "bfloat16": 0.803,
        "float16": 0.803,
        "float8_e4m3fn": 0.734,
        "float8_e5m2": 0.734,
    },
    host_bandwidth=128e9 / 2,
    sources=(
        _datasheet("H200 Tensor Core GPU datasheet", "column H200 SXM, dense rates; PCIe"),
        _datasheet("DGX H200 datasheet", "adapters"),
        _ACHIEVED,
        _SWEEPS,
    ),
)

#: DGX B200: 1440 GB at 64 TB/s, 72 PFLOPS in FP8 and 144 in FP4 with sparsity for eight GPUs.
#: Blackwell brief, HGX B200: half of FP8 in bfloat16 and float16, a quarter in TensorFloat-32, INT8
#: as FP8, 40 TFLOPS in FP64. Open Book: 1745 TFLOPS reached in bfloat16, 3432.5 in FP8.
b200 = Machine(
    flops={
        "bfloat16": 2250e12,
        "float16": 2250e12,
        "float32": 1125e12,
        "float64": 40e12,
        "float8_e4m3fn": 4500e12,
        "float8_e5m2": 4500e12,
        "float4_e2m1fn": 9000e12,
        "int8": 4500e12,
    },
    memory=180e9,
    bandwidth=8e12,
    links={...: NVLINK5},
    name="b200",
    efficiency={
        "bfloat16": 0.776,
        "float16": 0.776,
        "float8_e4m3fn": 0.763,
        "float8_e5m2": 0.763,
    },
    host_bandwidth=128e9 / 2,
    sources=(
        _datasheet("DGX B200 datasheet", "memory, FP8, FP4, NVLink, adapters; dense rates"),
        _datasheet("Blackwell Architecture Technical Brief", "column HGX B200: other dtypes; PCIe"),
        _ACHIEVED,
        _SWEEPS,
    ),
)

#: GB200 NVL72 datasheet, half of a superchip, dense: 2500 TFLOPS in bfloat16 and float16, 1250 in
#: TensorFloat-32, 5000 in FP8 and INT8, 10000 in FP4, 45 in FP64; 186 GB at 8 TB/s. Open Book: 1822
#: TFLOPS reached in bfloat16, 3615.6 in FP8.
gb200_nvl72 = Machine(
    flops={
        "bfloat16": 2500e12,
        "float16": 2500e12,
        "float32": 1250e12,
        "float64": 45e12,
        "float8_e4m3fn": 5000e12,
        "float8_e5m2": 5000e12,
        "float4_e2m1fn": 10000e12,
        "int8": 5000e12,
    },
    memory=186e9,
    bandwidth=8e12,
    links={...: NVLINK5_NVL72},
    name="gb200_nvl72",
    efficiency={
        "bfloat16": 0.729,
        "float16": 0.729,
        "float8_e4m3fn": 0.723,
        "float8_e5m2": 0.723,
    },
    host_bandwidth=900e9 / 2 / 2,
    sources=(
        _datasheet(
            "GB200 NVL72 datasheet", "column of the superchip, half for each GPU, dense; NVLink-C2C"
        ),
        _datasheet("Blackwell Architecture Technical Brief", "column GB200: FP64"),
        _ACHIEVED,
        _SWEEPS,
    ),
)

#: MI300X datasheet, dense: 1307.4 TFLOPS in bfloat16 and float16, 2614.9 in FP8 and INT8, 163.4 in
#: FP32 and FP64 matrix products; 192 GB at 5.3 TB/s. `float32` has the rate of FP32, not the 653.7
#: of TF32. The FP8 types of this GPU are the `fnuz` types. Open Book: 668.4 TFLOPS reached in
#: bfloat16.
mi300x = Machine(
    flops={
        "bfloat16": 1307.4e12,
        "float16": 1307.4e12,
        "float32": 163.4e12,
        "float64": 163.4e12,
        "float8_e4m3fnuz": 2614.9e12,
        "float8_e5m2fnuz": 2614.9e12,
        "int8": 2614.9e12,
    },
    memory=192e9,
    bandwidth=5.3e12,
    links={...: INFINITY_FABRIC},
    name="mi300x",
    efficiency={"bfloat16": 0.511, "float16": 0.511},
    host_bandwidth=128e9 / 2,
    sources=(
        '"Instinct MI300X Accelerator data sheet" (AMD): rates, memory, links, PCIe',
        _ACHIEVED,
        f"{_OPEN_BOOK}, all-reduces of MI300X: fraction of Infinity Fabric",
        "assumptions: start of collectives, and the network between nodes",
    ),
)
