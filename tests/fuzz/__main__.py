"""`make fuzz`: runs random programs for a given time or number, and prints every failure, made small.

    python -m tests.fuzz --minutes 60 --layouts 5 --seed 1
    python -m tests.fuzz --programs 2000

Programs run in child processes, sixty in each: a child that dies takes nothing with it, and the program that it had begun is printed.

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
from pathlib import Path
from typing import Any

CHUNK = 60  # programs in one process, whose memory grows with every program that is compiled
SILENCE = 300.0  # seconds after which a process that says nothing is taken for dead

FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"


def main() -> int:
    """The exit status: 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, help="how long to go on; default: until --programs are done")
    parser.add_argument("--programs", type=int, help="how many programs; default: 200, or as many as there is time for")
    parser.add_argument("--layouts", type=int, default=5, help="layouts for each program (default: 5)")
    parser.add_argument("--seed", type=int, help="where to begin; default: a random number, which is printed")
    parser.add_argument("--keep", type=Path, help="a folder for one file for each failure")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        from tests.fuzz.worker import work

        work(options.worker, options.seed, options.programs, options.layouts)
        return 0
    return Session(options).run()


class Session:
    """Children one after the other, and what they report."""

    def __init__(self, options: argparse.Namespace):
        self.seed = random.randrange(10**6) if options.seed is None else options.seed
        self.layouts, self.keep = options.layouts, options.keep
        self.deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
        self.wanted = options.programs or (10**9 if options.minutes else 200)
        self.counts: collections.Counter[str] = collections.Counter()
        self.operations: collections.Counter[str] = collections.Counter()
        self.refusals: collections.Counter[str] = collections.Counter()
        self.failures: dict[str, int] = {}

    def run(self) -> int:
        """Runs until time or programs are spent, and prints statistics."""
        print(f"fuzz: seed {self.seed}, {self.layouts} layouts for each program", flush=True)
        child = 0
        with tempfile.TemporaryDirectory() as folder:
            known = Path(folder, "known.json")
            first = self.seed
            while self.counts["programs"] < self.wanted and time.monotonic() < self.deadline:
                known.write_text(json.dumps(sorted(self.failures)))
                before = self.counts["programs"]
                self._child(Path(folder), first, min(CHUNK, self.wanted - before))
                first += max(1, self.counts["programs"] - before + self.counts["lost"])
                self.counts["lost"] = 0
                child += 1
                if self.counts["programs"] == before and child > 3:
                    print("fuzz: the processes do nothing", file=sys.stderr)
                    return 2
        self._print()
        return 1 if self.failures else 0

    def _child(self, folder: Path, seed: int, programs: int) -> None:
        log, current = folder / "log.jsonl", folder / "current.txt"
        log.write_text("")
        current.write_text("")
        env = {"XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu", "JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS": "0", **os.environ}
        command = [sys.executable, "-m", "tests.fuzz", "--worker", str(folder), "--seed", str(seed)]
        command += ["--programs", str(programs), "--layouts", str(self.layouts)]
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, errors="replace") as process:
            read = 0
            while process.poll() is None:
                time.sleep(0.5)
                read = self._read(log, read)
                silent = time.time() - max(log.stat().st_mtime, current.stat().st_mtime) > SILENCE
                if silent or time.monotonic() > self.deadline:
                    process.kill()
                    if silent:
                        self._failure({"key": f"hang {seed}", "text": f"# no answer for {SILENCE} s\n{current.read_text()}"})
                    self._read(log, read)
                    return
            self._read(log, read)
            if process.returncode:
                last = (process.stderr.read() if process.stderr else "")[-1500:]
                text = f"# the process ended with {process.returncode}\n{current.read_text()}\n# {last}"
                self._failure({"key": f"abort: {(last.strip() or '?').splitlines()[-1][:90]}", "text": text})

    def _read(self, log: Path, start: int) -> int:
        with log.open() as file:
            file.seek(start)
            while line := file.readline():
                if not line.endswith("\n"):
                    break
                start += len(line.encode())
                self._record(json.loads(line))
        return start

    def _record(self, record: dict[str, Any]) -> None:
        if "failure" in record:
            self._failure(record["failure"])
        self.counts.update(record.get("counts", {}))
        self.operations.update(record.get("operations", []))
        self.refusals.update(record.get("refusals", []))

    def _failure(self, failure: dict[str, str]) -> None:
        key = failure["key"]
        self.failures[key] = self.failures.get(key, 0) + 1
        self.counts["lost"] += key.startswith(("abort", "hang"))
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
        print("layouts:", ", ".join(f"{n} {k[7:]}" for k, n in sorted(c.items()) if k.startswith("layout:")))
        print(f"{len(self.operations)} operations:", ", ".join(f"{name} {n}" for name, n in self.operations.most_common()))
        for refusal, n in self.refusals.most_common(12):
            print(f"refused {n} times: {refusal}")
        print(f"{len(self.failures)} distinct failures", *(f"  {n} x {key}" for key, n in self.failures.items()), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
