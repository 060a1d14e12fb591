"""The schedules of pipelines: layouts that were judged, judged again with other options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from namedax.errors import NamedaxError
from namedax.ops.loops.pipeline_options import choosing
from namedax.planning.candidates import Candidate

__all__ = ["with_schedules"]

# The number of layouts that are judged with other schedules: the fastest ones, and the smallest.
_LAYOUTS = 2
_SCHEDULES: tuple[Mapping[str, Any], ...] = (
    {"schedule": "1f1b"},
    {"schedule": "zero_bubble"},
    {"schedule": "gpipe", "interleave": 2},
    {"schedule": "interleaved", "interleave": 2},
)
#: Numbers of microbatches for each stage; the default of `nx.pipeline` is 4.
_MICROBATCHES = (1, 2, 8, 16)


def with_schedules(
    candidates: Sequence[Candidate],
    judge: Callable[[Candidate], Candidate],
    rank: Callable[[Candidate], Any],
) -> list[Candidate]:
    """Return candidates for the open options of pipelines, if the program has any.

    Args:
      candidates: the layouts that were judged.
      judge: judges a candidate's layout again.
      rank: the sort key of candidates, the best one first.
    """
    staged = [one for one in sorted(candidates, key=rank) if one.report.pipelines]
    smallest = sorted(staged, key=lambda one: one.peak)[:1]
    found: list[Candidate] = []
    for base in dict.fromkeys(map(id, (*staged[:_LAYOUTS], *smallest))):
        one = next(candidate for candidate in staged if id(candidate) == base)
        of_one: list[Candidate] = []
        stages = next(iter(one.report.pipelines.values())).stages
        counts = [{"microbatches": stages * each} for each in _MICROBATCHES]
        if not _try(one, counts, judge, of_one):
            continue
        fastest = dict(min((one, *of_one), key=rank).pipeline)
        smallest_option = dict(min((one, *of_one), key=lambda one: one.peak).pipeline)
        for start in (fastest, smallest_option) if fastest != smallest_option else (fastest,):
            _try(one, [{**start, **each} for each in _SCHEDULES], judge, of_one)
        found += of_one
    return found


def _try(
    one: Candidate,
    options: Sequence[Mapping[str, Any]],
    judge: Callable[[Candidate], Candidate],
    found: list[Candidate],
) -> bool:
    """Judge a layout with each of these options; return True if the program leaves them open."""
    is_open = False
    for each in options:
        with choosing(each) as choice:
            try:
                judged = judge(one)
            except (NamedaxError, NotImplementedError, TypeError, ValueError):
                is_open |= bool(choice.open)
                continue
        is_open |= bool(choice.open)
        used = {name: value for name, value in each.items() if name in choice.open}
        if not used:
            break
        found.append(dataclasses.replace(judged, pipeline=used))
    return is_open
