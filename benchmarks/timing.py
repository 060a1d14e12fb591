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
    processor: bool = False,
) -> dict[str, float]:
    """Median seconds per call of every program.

    Args:
      rivals: functions to time, by name; their results are awaited.
      rounds: rounds of every function. The order is reversed every other round.
      calls: calls per round; increase it for calls of microseconds.
      processor: if True, measure processor time of the calling thread, without waiting, instead of
        elapsed time.
    """
    for run in rivals.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    now = time.thread_time if processor else time.perf_counter
    for round_ in range(rounds):
        for name in order if round_ % 2 == 0 else reversed(order):
            run = rivals[name]
            begin = now()
            for _ in range(calls):
                result = run()
            if not processor:
                jax.block_until_ready(result)
            seconds[name].append((now() - begin) / calls)
            jax.block_until_ready(result)
    return {name: statistics.median(times) for name, times in seconds.items()}
