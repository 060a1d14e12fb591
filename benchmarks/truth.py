"""Predicted and measured times of the 50 programs of tests/insight/analysis/corpus on eight simulated devices.

    python benchmarks/truth.py [--steps 7] [--least 4] [PROGRAM ...]

The programs are no examples of namedax. The mapped axes of each are doubled until a step takes
`--least` milliseconds, so that the arithmetic and the communication of a step take longer than its
start. `nx.profile` then compares the step with `nx.explain` on the measured machine.

The table has the measured time; the predicted time divided by it, on the measured machine, on one
machine fitted to all programs, and on a machine fitted to all other programs; the fraction of the
busy time with a known line; and Spearman's correlation of predicted and measured times of the
lines of a program. The steps of all programs take about as long, so the correlation of programs
says little; that of the lines of all programs together says more. Programs on a mesh of another shape take no part in the fit; they are predicted
with its arithmetic and memory and with the measured links of their own mesh.
"""

import os
import pathlib
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import argparse
import dataclasses
import statistics
import time
from collections.abc import Iterator, Sequence

import jax
from scipy.stats import spearmanr

import namedax as nx
from namedax.insight.profiling.fitting import Observation, fit
from namedax.insight.profiling.profile import Profile
from tests.insight.analysis.corpus.programs import PROGRAMS, Program

MOST_BYTES = 1 << 28  # of the arguments and results of a step, all devices together


def seconds_of_a_step(program: Program, scale: int) -> float:
    """Return the least of a few measured times: it only chooses the scale."""
    function, arguments = program.mapped(), program.values(scale)
    compiled = function.lower(*arguments).compile()
    shardings = jax.tree.leaves(compiled.input_shardings[0])
    leaves, tree = jax.tree.flatten(arguments)
    placed = jax.tree.unflatten(tree, [*map(jax.device_put, leaves, shardings)])
    times = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*placed))
        times.append(time.perf_counter() - began)
    return min(times)


def scale_of(program: Program, least: float) -> int:
    """Return the least power of two with which a step takes so many seconds."""
    scale = 1
    while seconds_of_a_step(program, scale) < least:
        report = nx.explain(program.mapped(), *program.values(2 * scale))
        if 8 * report.memory.peak > MOST_BYTES:
            break
        scale *= 2
    return scale


def observation(profile: Profile) -> Observation:
    """Return all steps of a program, in units of its measured time, so that programs weigh the same."""
    measured = profile.measured
    steps = tuple(
        dataclasses.replace(step, trips=step.trips / measured, number=0, needs=(), loops=())
        for step in profile.report.steps
    )
    return Observation(steps, 1.0)


def fitted(machine: nx.machines.Machine, profiles: Sequence[Profile]) -> nx.machines.Machine:
    """Return the machine whose relative errors over all programs are least."""
    rows = [observation(profile) for profile in profiles]
    steps = tuple(step for row in rows for step in row.steps)
    every = dataclasses.replace(profiles[0].report, steps=steps)
    return fit(machine, every, rows, float(len(rows)))


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's correlation; `None` of fewer than three pairs."""
    return float(spearmanr(*zip(*pairs, strict=True)).statistic) if len(pairs) > 2 else None


def lines(profile: Profile) -> list[tuple[float, float]]:
    """Return the predicted and the measured times of the lines that have both."""
    rows = profile.by("line").values()
    return [(row.predicted, row.measured) for row in rows if row.predicted and row.measured]


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def report(profiles: dict[str, Profile], scales: dict[str, int]) -> Iterator[str]:
    """Yield the lines of the tables."""
    usual = {name: one for name, one in profiles.items() if len(one.report.mesh) == 2}
    machine = next(iter(usual.values())).machine
    general = fitted(machine, [*usual.values()])
    yield f"measured: {machine}"
    yield f"fitted:   {general}"
    yield ""
    yield (
        "| program | scale | step, ms | coverage | predicted / measured | fitted | fitted on the others"
        " | lines | correlation of lines | fitted |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    columns: list[list[float]] = [[], [], []]
    of_lines: list[list[float]] = [[], []]
    all_lines: list[list[tuple[float, float]]] = [[], [], []]
    times: list[list[tuple[float, float]]] = [[], [], []]
    for name, profile in profiles.items():
        if name in usual:
            others = fitted(machine, [one for key, one in usual.items() if key != name])
            after, out = profile.with_machine(general), profile.with_machine(others)
        else:
            links = profile.machine.links
            after = out = profile.with_machine(dataclasses.replace(general, links=links))
        for i, one in enumerate((profile, after, out)):
            columns[i].append(one.ratio)
            times[i].append((one.predicted.total, one.measured))
            all_lines[i] += lines(one)
        pairs = [correlation(lines(one)) for one in (profile, out)]
        for i, each in enumerate(pairs):
            of_lines[i] += [] if each is None else [each]
        yield (
            f"| {name} | {scales[name]} | {profile.measured * 1e3:.1f} | {profile.coverage:.0%}"
            f" | {profile.ratio:.2f} | {after.ratio:.2f} | {out.ratio:.2f} | {len(lines(profile))}"
            f" | {shown(pairs[0])} | {shown(pairs[1])} |"
        )
    yield ""
    titles = "measured machine", "one fit over all programs", "fit over the other programs"
    for title, ratios, pairs, every in zip(titles, columns, times, all_lines, strict=True):
        ordered = sorted(ratios)
        tenth = len(ordered) // 10
        within = sum(0.5 <= ratio <= 2 for ratio in ratios)
        yield (
            f"{title}: ratio {statistics.median(ratios):.2f} (median),"
            f" {ordered[tenth]:.2f} to {ordered[-1 - tenth]:.2f} (80 % of the programs),"
            f" {ordered[0]:.2f} to {ordered[-1]:.2f} (all); {within} of {len(ratios)} within a"
            f" factor of 2; rank correlation of programs {shown(correlation(pairs))}, of all"
            f" {len(every)} lines {shown(correlation(every))}"
        )
    for title, found in zip((titles[0], titles[2]), of_lines, strict=True):
        if found:
            yield (
                f"correlation of the lines of a program, {title}: {statistics.median(found):.2f}"
                f" (median of {len(found)}), least {min(found):.2f}"
            )
    coverage = [profile.coverage for profile in profiles.values()]
    yield f"coverage: least {min(coverage):.1%}, median {statistics.median(coverage):.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Predicted and measured times of 50 programs.")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--least", type=float, default=4.0, help="milliseconds of a step")
    parser.add_argument("programs", nargs="*", help="default: all")
    given = parser.parse_args()
    machines: dict[tuple[int, ...], nx.machines.Machine] = {}
    profiles: dict[str, Profile] = {}
    scales: dict[str, int] = {}
    for name in given.programs or PROGRAMS:
        program = PROGRAMS[name]
        if program.mesh not in machines:
            axes = ("x", "y")[: len(program.mesh)]
            machines[program.mesh] = nx.machines.measure(jax.make_mesh(program.mesh, axes))
        scales[name] = scale_of(program, given.least * 1e-3)
        function, arguments = program.mapped(), program.values(scales[name])
        profiles[name] = nx.profile(
            function, *arguments, steps=given.steps, machine=machines[program.mesh]
        )
        print(f"{name}: {profiles[name].measured * 1e3:.1f} ms", file=sys.stderr, flush=True)
    print("\n".join(report(profiles, scales)))


if __name__ == "__main__":
    main()
