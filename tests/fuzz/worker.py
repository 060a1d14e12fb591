"""What a child process of the fuzzer does: draws programs, runs each in some layouts, writes down what came of it."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

from tests.fuzz.generator import program as random_program
from tests.fuzz.layouts import Layout, outside_layout, random_layout
from tests.fuzz.program import Program, statements_of
from tests.fuzz.runner import Outcome, Reference, attempt, reference, write
from tests.fuzz.shrink import prune, shrink
from tests.fuzz.source import HEADER, can_be_outside

__all__ = ["features", "outside_trial", "report", "trial", "work"]

# What is drawn outside of mapped functions, each as often as it stands here.
CONTROL = ("cond", "fold", "fori_loop", "map", "scan", "switch", "while_loop")
OUTSIDE = (
    *CONTROL,
    "add",
    "concatenate",
    "dot",
    "getitem",
    "greater",
    "max",
    "multiply",
    "rename",
    "sin",
    "softmax",
    "stack",
    "sum",
    "where",
)
EVERY = 4  # of so many numbers one stands for a program outside of mapped functions, too


def trial(number: int, count: int, most: int = 6) -> tuple[Reference, list[Layout]]:
    """The program with a number, and its layouts, the first of which maps nothing."""
    rng = random.Random(number)
    program = random_program(rng, most)
    while not program.results:
        program = random_program(rng, most)
    ref = reference(prune(program))
    return ref, [random_layout(rng, ref.meetings, unmapped=not i) for i in range(count)]


def outside_trial(number: int, count: int, most: int = 5) -> tuple[Reference, list[Layout]]:
    """The program with a number that runs without a mapped function, with a loop or a branch in it, and its layouts."""
    rng = random.Random(f"outside {number}")
    while True:
        program = random_program(rng, most, only=OUTSIDE)
        if not program.results:
            continue
        ref = reference(prune(program))
        if can_be_outside(ref.program) and any(s.op in CONTROL for s in ref.program.main.statements):
            return ref, [outside_layout(rng, ref.meetings) for _ in range(count)]


def features(layout: Layout) -> list[str]:
    """What statistics say of a layout."""
    found = [layout.partitioning, f"gradient {layout.gradient}", f"{len(layout.mesh)}-D mesh" if layout.mesh else "no mesh"]
    found += ["explicit"] if layout.explicit else []
    found += [layout.wrap] if layout.wrap != "plain" else []
    found += ["loop"] if layout.loops else []
    found += ["slow axis"] if layout.slow else []
    found += ["loop on a mesh axis"] if any(len({*map(type, entries)}) > 1 for _, entries in layout.resources) else []
    axes = [axis for name, _ in layout.resources for axis in layout.mesh_axes(name)]
    found += ["two names on a mesh axis"] if len(axes) > len(set(axes)) else []
    found += ["arguments sharded elsewhere"] if layout.arrive == "sharded" else []
    found += ["arguments stored padded"] if layout.arrive == "padded" else []
    found += [f"{layout.after} outside"] if layout.after else []
    found += [f"all outside, {layout.outside}"] if layout.outside else []
    found += [f"again: {layout.again}"] if layout.again else []
    return found + (["nothing mapped"] if not layout.resources else [])


def report(program: Program, layout: Layout, outcome: Outcome) -> str:
    """A failure as a program with a comment."""
    text = write(reference(program), layout)
    comment = "\n".join(f"# {line}" for line in f"{outcome.kind}: {outcome.detail}".split("\n"))
    return f"{HEADER}{text}\n{comment}"


def signature(program: Program, outcome: Outcome) -> str:
    """What failures of one family have in common: where an exception arose, or the operations of the smallest program."""
    if outcome.kind in ("value", "shape", "nan", "type", "prediction"):
        what = "a gradient" if outcome.detail.startswith("gradient") else "a result"
        what = outcome.detail.split(",")[0] if outcome.kind == "prediction" else what
        return f"{outcome.kind} of {what}: {' '.join(sorted({s.op for s in statements_of(program.main)}))}"
    frames = re.findall(r'File "[^"]*(namedax/[^"]+)", line \d+, in (\w+)', outcome.detail)
    head = re.sub(r"[0-9]+|'[a-z][a-z0-9]?'", "_", outcome.detail)[:70].split("\n")[0]
    return f"{outcome.kind} in {' '.join(frames[-1]) if frames else '?'}: {head}"


def work(folder: Path, seed: int, count: int, layouts_each: int) -> None:
    """Runs the programs with the numbers from `seed` on; appends what comes of them to `log.jsonl`."""
    log, current = folder / "log.jsonl", folder / "current.txt"
    known = set(json.loads((folder / "known.json").read_text()))

    def put(record: dict[str, Any]) -> None:
        with log.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def watch(ref: Reference, layout: Layout) -> None:
        current.write_text(HEADER + write(ref, layout))

    sys.setrecursionlimit(5000)
    for number in range(seed, seed + count):
        start = time.monotonic()
        trials = [trial(number, layouts_each), *([] if number % EVERY else [outside_trial(number, layouts_each)])]
        counts, refusals, operations = {"programs": 1, "layouts": 0}, [], []
        for ref, layout in ((ref, layout) for ref, where in trials for layout in where):
            watch(ref, layout)
            outcome = attempt(ref, layout, not layout.outside)
            for feature in ("layouts", outcome.kind, *(f"layout:{feature}" for feature in features(layout))):
                counts[feature] = counts.get(feature, 0) + 1
            if outcome.kind == "refused":
                refusals.append(outcome.detail)
            if outcome.failed:
                put({"failure": failure(ref.program, layout, outcome, known, watch, number)})
        for ref, _ in trials:
            operations += [s.op for s in statements_of(ref.program.main)]
        counts["seconds"] = round(time.monotonic() - start)
        put({"counts": counts, "operations": operations, "refusals": refusals})


def failure(program: Program, layout: Layout, outcome: Outcome, known: set[str], watch: Any, number: int) -> dict[str, str]:
    """A failure, made small unless its like is known."""
    key = signature(program, outcome)
    if key in known:
        return {"key": key}
    small = shrink(program, layout, outcome, watch)
    final = signature(small[0], small[2])
    new = final not in known
    known |= {key, final}
    return {"key": final, **({"text": f"# program {number}\n{report(*small)}"} if new else {})}
