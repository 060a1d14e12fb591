"""Runs a program on plain arrays, in NumPy or in jnp (for gradients), with or without noise that shows how well it is conditioned."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tests.fuzz import (  # noqa: F401 - they fill the table of operations
    ops_attention,
    ops_blocks,
    ops_collective,
    ops_elementwise,
    ops_groups,
    ops_indexing,
    ops_linear,
    ops_masks,
    ops_pipeline,
    ops_ragged,
    ops_rules,
    ops_shape,
    ops_window,
)
from tests.fuzz.program import Block, Invalid, Operation, Program, Statement
from tests.fuzz.values import FLOATS, V

__all__ = ["Run"]
EPSILON = {"f32": 1e-6, "weak": 1e-6, "bf16": 4e-3}


class Run:
    """One execution. `noise` is a factor of random relative errors, of the size that the element type has.

    What goes into `stop_gradient` is recorded; an execution with `frozen` values takes these instead, so that differences between
    executions are derivatives.
    """

    def __init__(self, xp: Any = np, noise: Any = None, frozen: list[V] | None = None):
        self.xp, self.noise, self.frozen = xp, noise, frozen
        self.meetings: list[frozenset[str]] = []  # names that meet in one value
        self.stopped: list[V] = []
        self._count = 0

    def program(self, program: Program, arguments: list[V]) -> list[V]:
        """The results of a program."""
        self.meetings += [frozenset(v.names) for v in arguments]
        with warnings.catch_warnings(action="ignore"):  # of means of nothing
            return self.block(program.main, {}, arguments)

    def block(self, block: Block, env: Mapping[int, V], arguments: list[V]) -> list[V]:
        """The results of a function that sees `env`."""
        inner = {**env, **dict(zip(block.parameters, arguments, strict=True))}
        for s in block.statements:
            self.statement(s, inner)
        return [inner[number] for number in block.results]

    def statement(self, s: Statement, env: dict[int, V]) -> None:
        """Adds what the statement makes to `env`."""
        operation, values = Operation.table[s.op], [env[number] for number in s.args]
        results = operation.run(self, s, values, env)
        if any(len({*v.names}) < len(v.names) for v in results):  # a name that a carry has gained
            raise Invalid
        self.meetings += map(frozenset, operation.meetings(s, values, results))
        for number, v in zip(s.outs, results, strict=True):
            env[number] = self._noisy(v)

    def stop(self, v: V) -> V:
        """The value without gradient."""
        if self.xp is not np:
            return v._replace(data=jax.lax.stop_gradient(v.data))
        self.stopped.append(v if self.frozen is None else self.frozen[len(self.stopped)])
        return self.stopped[-1]

    def again(self, since: int, count: int) -> Run:
        """An execution of the same block, which begins where this one was, with what it has stopped since then."""
        run = Run(self.xp, self.noise, self.stopped[since:])
        run._count = count
        return run

    @property
    def position(self) -> tuple[int, int]:
        """What `again` takes, before a block."""
        return len(self.stopped), self._count

    def _noisy(self, v: V) -> V:
        if self.noise is None or v.dtype not in FLOATS:
            return v
        self._count += 1
        errors = EPSILON[v.dtype] * np.random.default_rng(self._count).normal(size=v.data.shape)
        return v._replace(data=v.data * (1 + self.noise * errors))
