"""Interleaved timing: programs alternate within one run, so that noise affects all of them equally."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

# A function that creates the program, and its arguments.
Rival = tuple[Callable[[], Any], Sequence[Any]]


def interleaved(
    rivals: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = 30,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds per call of every program.

    Args:
      rivals: functions to time, by name; their results are awaited.
      rounds: rounds of every function. The order is reversed every other round.
      calls: calls per round; increase it for calls of microseconds.
      clock: the clock. The elapsed time of `time.perf_counter` includes the wait for the results.
        Processor time, of the calling thread (`time.thread_time`) or of all threads
        (`time.process_time`), does not, and other programs on the machine distort it less.
    """
    for run in rivals.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    waits = clock is time.perf_counter
    for round_ in range(rounds):
        for name in order if round_ % 2 == 0 else reversed(order):
            run = rivals[name]
            begin = clock()
            for _ in range(calls):
                result = run()
            if waits:
                jax.block_until_ready(result)
            seconds[name].append((clock() - begin) / calls)
            jax.block_until_ready(result)
    return {name: statistics.median(times) for name, times in seconds.items()}


def compile_times(rivals: Mapping[str, Rival], rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds to trace every program, and to trace, lower and compile it, with cold caches each time.

    Args:
      rivals: functions that create the function to compile, in each round, and its arguments.
      rounds: rounds of every program. The order is reversed every other round.
    """
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in rivals}
    order = list(rivals)
    for round_ in range(rounds):
        for name in order if round_ % 2 == 0 else reversed(order):
            make, args = rivals[name]
            jax.clear_caches()
            gc.collect()
            begin = time.perf_counter()
            traced = make().trace(*args)
            between = time.perf_counter()
            traced.lower().compile()
            seconds[name].append((between - begin, time.perf_counter() - begin))
    columns = {name: list(zip(*times, strict=True)) for name, times in seconds.items()}
    return {
        name: (statistics.median(trace), statistics.median(whole))
        for name, (trace, whole) in columns.items()
    }
