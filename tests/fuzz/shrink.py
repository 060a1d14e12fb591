"""Makes a failing program and its layout small: fewer statements, results, arguments and resources, with the same kind of failure.

It knows what a program is, and so needs few runs, each of which compiles.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from tests.fuzz.layouts import Layout
from tests.fuzz.program import Block, Program, Statement, shown, used
from tests.fuzz.runner import Outcome, attempt, reference


def shrink(
    program: Program, layout: Layout, outcome: Outcome, watch: Any = lambda *_: None, seconds: float = 90.0
) -> tuple[Program, Layout, Outcome]:
    """A smaller pair, and what came of it."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for smaller in (*_layouts(layout), *_programs(program)):
            if time.monotonic() > deadline:
                break
            candidate = (program, smaller) if isinstance(smaller, Layout) else (smaller, layout)
            found = _try(*candidate, outcome, watch)
            if found is not None:
                (program, layout), outcome, progress = candidate, found, True
                break
    return program, layout, outcome


def _try(program: Program, layout: Layout, outcome: Outcome, watch: Any) -> Outcome | None:
    try:
        ref = reference(program)
        names = {name for meeting in ref.meetings for name in meeting}
        if any(name not in names for name, _ in layout.resources) or not program.results:
            return None
        if not {*shown(program.statements)} <= {*program.results}:
            return None
    except Exception:
        return None
    watch(ref, layout)
    found = attempt(ref, layout, outcome.kind == "prediction")
    alike = found.kind in ("value", "nan", "type", "shape", "prediction") or _head(found) == _head(outcome)
    same = found.kind == outcome.kind and alike
    return found if found.failed and same else None


def _head(outcome: Outcome) -> str:
    return outcome.detail[:24]


def _layouts(layout: Layout) -> Iterator[Layout]:
    """Simpler layouts, the simplest first."""
    if layout.gradient != "none":
        yield dataclasses.replace(layout, gradient="none")
    for field in ("outside", "after", "again", "explicit", "wrap", "arrive", "passes", "slow"):
        default = getattr(Layout(), field)
        if getattr(layout, field) != default:
            yield dataclasses.replace(layout, **{field: default})
    for i, (name, entries) in enumerate(layout.resources):
        rest = layout.resources[:i] + layout.resources[i + 1 :]
        yield dataclasses.replace(layout, resources=rest)
        for j in range(len(entries)):
            if len(entries) > 1:
                yield dataclasses.replace(layout, resources=tuple(sorted([*rest, (name, entries[:j] + entries[j + 1 :])])))
    used = {entry for _, entries in layout.resources for entry in entries}
    for i, (axis, _) in enumerate(layout.mesh):
        if axis not in used and (
            len(layout.mesh) > 1 or layout == dataclasses.replace(Layout(), mesh=layout.mesh, gradient=layout.gradient)
        ):
            yield dataclasses.replace(layout, mesh=layout.mesh[:i] + layout.mesh[i + 1 :])
    if not layout.mesh and layout.partitioning == "auto":
        yield dataclasses.replace(layout, partitioning="manual")


def _programs(program: Program) -> Iterator[Program]:
    """Smaller programs: one result, fewer statements, earlier values as results."""
    for i in range(len(program.results)):
        if len(program.results) > 1:
            yield prune(dataclasses.replace(program, results=program.results[i : i + 1]))
    for s in program.statements[::-1]:
        if s.outs[-1] in program.results and len(program.results) == 1:
            for arg in s.args:
                if arg >= len(program.arguments):
                    yield prune(dataclasses.replace(program, results=(arg,)))
    for block in _smaller(program.main):
        yield prune(dataclasses.replace(program, statements=block.statements, results=block.results))


def _smaller(block: Block) -> Iterator[Block]:
    """The function without a statement, whose results are replaced by another value; or with a smaller inner function."""
    for i, s in enumerate(block.statements):
        before, after = block.statements[:i], block.statements[i + 1 :]
        for instead in dict.fromkeys((*s.args, *block.parameters)):
            smaller = Block(block.parameters, before + after, block.results)
            for out in s.outs:
                smaller = _renumber(smaller, out, instead)
            yield smaller
        for j, inner in enumerate(s.blocks):
            for small in _smaller(inner):
                changed = dataclasses.replace(s, blocks=(*s.blocks[:j], small, *s.blocks[j + 1 :]))
                yield dataclasses.replace(block, statements=(*before, changed, *after))


def _renumber(block: Block, old: int, new: int) -> Block:
    """The function with one value in the place of another."""

    def number(n: int) -> int:
        return new if n == old else n

    statements = []
    for s in block.statements:
        blocks = tuple(_renumber(inner, old, new) for inner in s.blocks)
        statements.append(dataclasses.replace(s, args=tuple(map(number, s.args)), blocks=blocks))
    return Block(block.parameters, tuple(statements), tuple(map(number, block.results)))


def prune(program: Program) -> Program:
    """The program without statements and arguments that nothing uses; values are numbered anew."""
    block = _prune(program.main)
    needed = used(block.statements, block.results)
    arguments = [n for n in block.parameters if n in needed] or [0]
    kept = tuple(program.arguments[n] for n in arguments)
    numbers: dict[int, int] = {n: i for i, n in enumerate(arguments)}
    statements = _numbered(block.statements, numbers)
    return Program(kept, statements, tuple(numbers[n] for n in block.results))


def _prune(block: Block) -> Block:
    needed, kept = set(block.results), []
    for s in block.statements[::-1]:
        if not needed & {*s.outs}:
            continue
        s = dataclasses.replace(s, blocks=tuple(map(_prune, s.blocks)))
        kept.append(s)
        needed |= {*s.args}
        for inner in s.blocks:
            needed |= used(inner.statements, inner.results)
    return Block(block.parameters, tuple(kept[::-1]), block.results)


def _numbered(statements: tuple[Statement, ...], numbers: dict[int, int]) -> tuple[Statement, ...]:
    """The statements with numbers in the order in which values come."""

    def fresh(n: int) -> int:
        return numbers.setdefault(n, len(numbers))

    result = []
    for s in statements:
        args = tuple(numbers[n] for n in s.args)
        blocks = []
        for inner in s.blocks:
            parameters = tuple(map(fresh, inner.parameters))
            inner_statements = _numbered(inner.statements, numbers)
            blocks.append(Block(parameters, inner_statements, tuple(numbers[n] for n in inner.results)))
        result.append(dataclasses.replace(s, args=args, blocks=tuple(blocks), outs=tuple(map(fresh, s.outs))))
    return tuple(result)
