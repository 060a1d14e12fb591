"""`make fuzz`: runs random programs for a given time or number, and prints every failure, made small.

    python -m tests.fuzz --minutes 60 --layouts 5 --seed 1
    python -m tests.fuzz --programs 2000
    python -m tests.fuzz --programs 2000 --special

With `--special` the programs compute with infinities, NaN, subnormals, signed zeros and values near the ends of each dtype (special.py), each in
one layout of every kind.

Programs run in child processes, two at a time and sixty in each: a child that dies takes nothing with it, and the program that it had begun
is printed. What a number stands for does not depend on who runs it.

What a program sends is compared with what `nx.explain` says of it, too: kinds, groups and bytes of collectives.

A gradient that plain `jnp` gets wrong too, compiled in the same way, is no failure (about one program in two thousand): with few optimisations XLA
computes the operand of a maximum twice, not to the last bit the same, and finds no maximum.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.flags import FEW_OPTIMISATIONS

CHUNK = 60  # programs in one process, whose memory grows with every program that is compiled
SILENCE = 120.0  # seconds for a program in one layout, after which its process is ended
COMMAND = [sys.executable, "-m", "tests.fuzz"]
IDLE = 3  # processes in a row that end without having run a program


def main() -> int:
    """The exit status: 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="how long to go on; default: until --programs are done")
    parser.add_argument("--programs", type=int, help="how many programs; default: 200, or as many as there is time for")
    parser.add_argument("--layouts", type=int, default=5, help="layouts for each program (default: 5)")
    parser.add_argument("--processes", type=int, default=2, help="how many run side by side (default: 2)")
    parser.add_argument("--seed", type=int, help="where to begin; default: a random number, which is printed")
    parser.add_argument("--keep", type=Path, help="a folder for one file for each failure")
    parser.add_argument("--special", action="store_true", help="programs over special values (special_programs.py)")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        from tests.fuzz import special_programs, worker

        if options.special:
            special_programs.work(options.worker, options.seed, options.programs)
        else:
            worker.work(options.worker, options.seed, options.programs, options.layouts)
        return 0
    return Session(options).run()


class Child:
    """A process that runs the programs of some numbers, in order, and the folder in which it says what comes of them."""

    def __init__(self, folder: Path, numbers: range, layouts: int, known: list[str], special: bool = False):
        self.numbers, self.done, self._read = numbers, 0, 0
        self.log, self.current = folder / "log.jsonl", folder / "current.txt"
        (folder / "known.json").write_text(json.dumps(known))
        self.log.write_text("")
        self.current.write_text("")
        env = {
            "XLA_FLAGS": FEW_OPTIMISATIONS,
            "JAX_PLATFORMS": "cpu",
            "JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS": "0",
            **os.environ,
        }
        command = [*COMMAND, "--worker", str(folder), "--seed", str(numbers.start)]
        command += ["--programs", str(len(numbers)), "--layouts", str(layouts)]
        command += ["--special"] if special else []
        self._errors = (folder / "errors.txt").open("w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(command, env=env, stderr=self._errors)

    def records(self) -> Iterator[dict[str, Any]]:
        """What it has said since the last call."""
        with self.log.open() as file:
            file.seek(self._read)
            while (line := file.readline()).endswith("\n"):
                self._read += len(line.encode())
                record = json.loads(line)
                self.done += record.get("counts", {}).get("programs", 0)
                yield record

    @property
    def is_silent(self) -> bool:
        """Whether it has said nothing for long."""
        return time.time() - max(self.log.stat().st_mtime, self.current.stat().st_mtime) > SILENCE

    def end(self) -> dict[str, str] | None:
        """Ends it, and says how it failed."""
        running = self.process.poll() is None
        self.process.kill()
        code = self.process.wait()
        self._errors.seek(0)
        last = self._errors.read()[-1500:]
        self._errors.close()
        if running and self.is_silent:
            return {
                "key": f"hang {self.numbers.start + self.done}",
                "text": f"# no answer for {SILENCE} s\n{self.current.read_text()}",
            }
        if running or not code:
            return None
        text = f"# the process ended with {code}\n{self.current.read_text()}\n# {last}"
        return {"key": f"abort: {(last.strip() or '?').splitlines()[-1][:90]}", "text": text}


class Session:
    """Children side by side, and what they report."""

    def __init__(self, options: argparse.Namespace):
        self.seed = random.randrange(10**6) if options.seed is None else options.seed
        self.special = options.special
        self.layouts, self.keep, self.processes = options.layouts, options.keep, options.processes
        self.deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
        wanted = options.programs or (10**9 if options.minutes else 200)
        self.chunk = min(CHUNK, -(-wanted // options.processes))
        self.left = [range(self.seed, self.seed + wanted)]  # numbers of programs that no child was given, the next ones last
        self.idle = 0
        self.counts: collections.Counter[str] = collections.Counter()
        self.operations: collections.Counter[str] = collections.Counter()
        self.refusals: collections.Counter[str] = collections.Counter()
        self.failures: dict[str, int] = {}

    def run(self) -> int:
        """Runs until time or programs are spent, and prints statistics."""
        print(f"fuzz: seed {self.seed}, {self.layouts} layouts for each program", flush=True)
        children: list[Child] = []
        with tempfile.TemporaryDirectory() as folder:
            while (children or self.left) and time.monotonic() < self.deadline and self.idle < IDLE:
                while self.left and len(children) < self.processes:
                    path = Path(tempfile.mkdtemp(dir=folder))
                    children.append(Child(path, self._next(), self.layouts, sorted(self.failures), self.special))
                time.sleep(0.1)
                ended = [child for child in children if child.process.poll() is not None or child.is_silent]
                for child in children:
                    self._hear(child)
                for child in ended:
                    children.remove(child)
                    self._end(child)
            for child in children:
                child.end()
                self._hear(child)
        if self.idle >= IDLE:
            print("fuzz: the processes do nothing", file=sys.stderr)
            return 2
        self._print()
        return 1 if self.failures else 0

    def _next(self) -> range:
        """The numbers for a new child."""
        numbers = self.left.pop()
        if len(numbers) > self.chunk:
            self.left.append(numbers[self.chunk :])
        return numbers[: self.chunk]

    def _hear(self, child: Child) -> None:
        for record in child.records():
            self._record(record)

    def _end(self, child: Child) -> None:
        """What a child leaves: how it failed, and the programs after the one that it failed in."""
        failure = child.end()
        self.idle = 0 if child.done else self.idle + 1
        if failure:
            self._failure(failure)
            if rest := child.numbers[child.done + 1 :]:
                self.left.append(rest)

    def _record(self, record: dict[str, Any]) -> None:
        if "failure" in record:
            self._failure(record["failure"])
        self.counts.update(record.get("counts", {}))
        self.operations.update(record.get("operations", []))
        self.refusals.update(record.get("refusals", []))

    def _failure(self, failure: dict[str, str]) -> None:
        key = failure["key"]
        self.failures[key] = self.failures.get(key, 0) + 1
        if self.failures[key] > 1 or "text" not in failure:
            return
        print(f"\n=== failure {len(self.failures)}: {key}\n{failure['text']}", flush=True)
        if self.keep:
            self.keep.mkdir(parents=True, exist_ok=True)
            (self.keep / f"{len(list(self.keep.iterdir())):03}.txt").write_text(f"# {key}\n{failure['text']}\n")

    def _print(self) -> None:
        c = self.counts
        print(
            f"\n{c['programs']} programs, {c['layouts']} runs: {c['equal']} equal, {c['refused']} refused, {c['ill']} too ill-conditioned"
        )
        if "elements" in c:
            print(
                f"{c['compared']} of {c['elements']} elements have one class in every admissible evaluation, {c['simplified']} differ by XLA"
            )
        print("layouts:", ", ".join(f"{n} {k[7:]}" for k, n in sorted(c.items()) if k.startswith("layout:")))
        print(f"{len(self.operations)} operations:", ", ".join(f"{name} {n}" for name, n in self.operations.most_common()))
        for refusal, n in self.refusals.most_common(12):
            print(f"refused {n} times: {refusal}")
        print(f"{len(self.failures)} distinct failures", *(f"  {n} x {key}" for key, n in self.failures.items()), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
