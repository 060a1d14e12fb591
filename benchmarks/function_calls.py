"""Python functions entered while a program is traced, by name and by hand: counts, not times.

    python benchmarks/function_calls.py

The counts do not depend on other work on the machine. The programs are the transformer of
`make bench-check` under some layouts, and programs of `growth.py` at some sizes. Each program is
traced twice with cold caches of JAX, and the second trace counts: the first one fills what namedax
remembers of axis names. `single` is a layout without a mesh.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import argparse
import platform
from collections.abc import Callable, Mapping
from typing import Any

import check
import growth
import jax

LAYOUTS = (
    "single",
    "dp",
    "tp",
    "dp+tp",
    "fsdp",
    "fsdp+tp+sp",
    "single+moe",
    "ep",
    "ep+tp",
    "ring",
    "accumulation",
)
SIZES = {"devices": (8,), "layers": (4, 96), "scanned": (4,), "names": (2, 16)}
SIZES |= {"parameters": (10, 200)}


def entered(make: Callable[[], Any], args: Any) -> int:
    """Count the Python functions that are entered to trace a program."""
    for _ in range(2):
        function = make()
        jax.clear_caches()
        count = check.entered(lambda function=function: function.trace(*args))
    return count


def row(name: str, programs: Mapping[str, growth.Program], by_hand: str, named: str) -> None:
    """Print the count by hand, and the ratio by name."""
    hand, own = (entered(*programs[key]) for key in (by_hand, named))
    print(f"| {name} | {hand:,} | {own / hand:.2f} |", flush=True)


def main() -> None:
    """Print two Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layouts", nargs="*", choices=LAYOUTS, default=LAYOUTS)
    parser.add_argument("--curves", nargs="*", choices=SIZES, default=tuple(SIZES))
    options = parser.parse_args()
    print(f"jax {jax.__version__}, Python {platform.python_version()}")
    if options.layouts:
        benchmark = check.transformer()
        print("\n| layout | by hand | namedax |\n|---|---|---|")
        for layout in options.layouts:
            programs = benchmark.rivals_of(layout, check.CONFIG, 8)
            row(layout, programs, benchmark.BY_HAND, benchmark.NAMED)
    if options.curves:
        print("\n| program | by hand | namedax |\n|---|---|---|")
        for curve in options.curves:
            for size in SIZES[curve]:
                title = f"{growth.CURVES[curve].title}: {size}"
                row(title, growth.CURVES[curve].programs(size), growth.PLAIN, growth.NAMED)


if __name__ == "__main__":
    main()
