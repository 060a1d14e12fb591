"""Interleaved timing: programs alternate within one run, so that noise affects all of them equally."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax


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
