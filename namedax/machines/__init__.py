"""Machines, and estimates of step times on them without running.

A `Machine` is a small data class: peak operations by dtype, memory and its bandwidth, and for each
mesh axis a `Link` with its bandwidth and latency. `v5e`, `v5p`, `v6e`, `h100` and `h200` are
entries from public figures, and `measure` makes an entry for the available devices. `Machine.time`
estimates the times of a program's collectives and operations: operations by the roofline model,
collectives by the formulas of rings and switches.

>>> from namedax import machines
>>> print(f"{machines.v5e.peak('bfloat16'):.3g} operations per second")
1.97e+14 operations per second

`links` defines the links of mesh axes, assigns them to the axes of a mesh, and has the formulas of
collectives. `schedule` orders steps one after the other or overlapping. `machine` combines these
modules and has the entries, and `measuring` makes one. `trace_events` writes schedules for
Perfetto. Read `links` first.
"""

from namedax.machines.links import Link as Link
from namedax.machines.machine import DCN_V5E as DCN_V5E
from namedax.machines.machine import DCN_V5P as DCN_V5P
from namedax.machines.machine import DCN_V6E as DCN_V6E
from namedax.machines.machine import ICI_V5E as ICI_V5E
from namedax.machines.machine import ICI_V5P as ICI_V5P
from namedax.machines.machine import ICI_V6E as ICI_V6E
from namedax.machines.machine import INFINIBAND as INFINIBAND
from namedax.machines.machine import NVLINK as NVLINK
from namedax.machines.machine import Machine as Machine
from namedax.machines.machine import h100 as h100
from namedax.machines.machine import h200 as h200
from namedax.machines.machine import v5e as v5e
from namedax.machines.machine import v5p as v5p
from namedax.machines.machine import v6e as v6e
from namedax.machines.measuring import measure as measure
from namedax.machines.schedule import Timed as Timed
from namedax.machines.schedule import Times as Times

__all__ = [
    "DCN_V5E",
    "DCN_V5P",
    "DCN_V6E",
    "ICI_V5E",
    "ICI_V5P",
    "ICI_V6E",
    "INFINIBAND",
    "NVLINK",
    "Link",
    "Machine",
    "Timed",
    "Times",
    "h100",
    "h200",
    "measure",
    "v5e",
    "v5p",
    "v6e",
]


def __dir__() -> list[str]:
    return __all__
