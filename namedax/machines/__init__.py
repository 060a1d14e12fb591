"""Machines, and estimates of step times on them without running.

A `Machine` is a small data class: peak operations by dtype, memory and its bandwidth, and for each
mesh axis a `Link` with its bandwidth and latency. The catalog has entries from public figures: the
TPUs `v4`, `v5e`, `v5p`, `v6e` and `tpu7x`, and the GPUs `a100`, `h100`, `h200`, `b200`,
`gb200_nvl72` and `mi300x`. `measure` makes an entry for the available devices. `Machine.time`
estimates the times of a program's collectives and operations: operations by the roofline model,
collectives by the formulas of rings and switches.

>>> from namedax import machines
>>> print(f"{machines.v5e.peak('bfloat16'):.3g} operations per second")
1.97e+14 operations per second

`links` defines the links of mesh axes and assigns them to the axes of a mesh. `collectives` has the
formulas of collectives over them. `schedule` orders steps one after the other, or in
two streams that overlap. `kernels` declares the cost of a function. `machine` combines these
modules, and shows a machine as a table. `catalog` has the entries, and `measuring` makes one.
`saving` makes dicts of a machine. `trace_events` writes schedules for Perfetto. Read `links` first.
"""

from namedax.machines.catalog import D2D_TPU7X as D2D_TPU7X
from namedax.machines.catalog import DCN_TPU7X as DCN_TPU7X
from namedax.machines.catalog import DCN_V4 as DCN_V4
from namedax.machines.catalog import DCN_V5E as DCN_V5E
from namedax.machines.catalog import DCN_V5P as DCN_V5P
from namedax.machines.catalog import DCN_V6E as DCN_V6E
from namedax.machines.catalog import ICI_TPU7X as ICI_TPU7X
from namedax.machines.catalog import ICI_V4 as ICI_V4
from namedax.machines.catalog import ICI_V5E as ICI_V5E
from namedax.machines.catalog import ICI_V5P as ICI_V5P
from namedax.machines.catalog import ICI_V6E as ICI_V6E
from namedax.machines.catalog import INFINIBAND as INFINIBAND
from namedax.machines.catalog import INFINIBAND_200 as INFINIBAND_200
from namedax.machines.catalog import INFINITY_FABRIC as INFINITY_FABRIC
from namedax.machines.catalog import NVLINK as NVLINK
from namedax.machines.catalog import NVLINK3 as NVLINK3
from namedax.machines.catalog import NVLINK5 as NVLINK5
from namedax.machines.catalog import NVLINK5_NVL72 as NVLINK5_NVL72
from namedax.machines.catalog import a100 as a100
from namedax.machines.catalog import b200 as b200
from namedax.machines.catalog import gb200_nvl72 as gb200_nvl72
from namedax.machines.catalog import h100 as h100
from namedax.machines.catalog import h200 as h200
from namedax.machines.catalog import mi300x as mi300x
from namedax.machines.catalog import tpu7x as tpu7x
from namedax.machines.catalog import v4 as v4
from namedax.machines.catalog import v5e as v5e
from namedax.machines.catalog import v5p as v5p
from namedax.machines.catalog import v6e as v6e
from namedax.machines.kernels import cost as cost
from namedax.machines.links import Link as Link
from namedax.machines.machine import Machine as Machine
from namedax.machines.measuring import measure as measure
from namedax.machines.schedule import Timed as Timed
from namedax.machines.schedule import Times as Times

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
    "Link",
    "Machine",
    "Timed",
    "Times",
    "a100",
    "b200",
    "cost",
    "gb200_nvl72",
    "h100",
    "h200",
    "measure",
    "mi300x",
    "tpu7x",
    "v4",
    "v5e",
    "v5p",
    "v6e",
]


def __dir__() -> list[str]:
    return __all__
