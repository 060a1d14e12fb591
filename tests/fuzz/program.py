"""A program: arguments, statements over numbered values, results. Blocks are the functions that control flow and transformations take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tests.fuzz.values import DTYPES, SIZES, V


class Invalid(Exception):
    """A statement has no meaning: it is not drawn."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A function: the numbers of its parameters, its statements, the numbers of its results. It sees the values around it."""

    parameters: tuple[int, ...]
    statements: tuple[Statement, ...]
    results: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Statement:
    """One operation: the values that it takes and makes (by number), what else it is told, and its functions."""

    op: str
    args: tuple[int, ...]
    outs: tuple[int, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    blocks: tuple[Block, ...] = ()

    def __getitem__(self, option: str) -> Any:
        return self.options[option]


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of the mapped function: the axes of the array, sizes for the positional ones, and what fills it."""

    axes: tuple[Any, ...]  # names, and sizes of positional axes
    dtype: str = "f32"
    fill: str = "normal"  # or "nan", "index", "ties"
    seed: int = 0

    @property
    def mapping(self) -> list[Any]:
        """As `in_axes` takes it."""
        return [axis if isinstance(axis, str) else None for axis in self.axes]

    @property
    def expression(self) -> str:
        """The array, as Python."""
        shape = tuple(SIZES[axis] if isinstance(axis, str) else axis for axis in self.axes)
        rng = f"np.random.default_rng({self.seed})"
        if self.dtype == "key":
            return f"jax.random.split(jax.random.key(7), 16)[{rng}.integers(0, 16, {shape})]"
        if self.dtype == "bool":
            return f"jnp.asarray({rng}.random({shape}) < 0.6)"
        if self.dtype in ("i8", "i32"):
            low = -SIZES["n"] // 2 if self.fill == "index" and self.dtype == "i8" else -2
            return f"jnp.asarray({rng}.integers({max(low, -128)}, 2, {shape}), '{DTYPES[self.dtype]}')"
        values = f"{rng}.integers(-2, 3, {shape}) / 2" if self.fill == "ties" else f"{rng}.normal(size={shape})"
        if self.fill == "nan":
            values = f"np.where({rng}.random({shape}) < 0.1, np.nan, {values})"
        return f"jnp.asarray({values}, '{DTYPES[self.dtype]}')"

    def array(self) -> Any:
        """The array itself."""
        import jax
        import jax.numpy as jnp

        return eval(self.expression, {"jax": jax, "jnp": jnp, "np": np})

    def value(self) -> V:
        """The array as the interpreter has it. A random key is the number that it has in the table of keys."""
        if self.dtype == "key":
            shape = tuple(SIZES[axis] if isinstance(axis, str) else axis for axis in self.axes)
            data = np.random.default_rng(self.seed).integers(0, 16, shape)
        else:
            data = np.asarray(self.array())
        data = np.asarray(data, {"f": np.float64, "V": np.float64, "i": np.int64, "b": bool}[data.dtype.kind])
        names = sorted(axis for axis in self.axes if isinstance(axis, str))
        order = [self.axes.index(name) for name in names] + [i for i, axis in enumerate(self.axes) if not isinstance(axis, str)]
        return V(np.transpose(data, order), tuple(names), self.dtype)


@dataclasses.dataclass(frozen=True)
class Program:
    """Arguments have the numbers from 0 on."""

    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    results: tuple[int, ...]

    @property
    def main(self) -> Block:
        """The program as a function of its arguments."""
        return Block(tuple(range(len(self.arguments))), self.statements, self.results)


class Operation:
    """What the fuzzer knows of an operation. Subclasses register themselves, once for each of their names."""

    names: ClassVar[tuple[str, ...]] = ()
    weight: ClassVar[float] = 1.0
    moves: ClassVar[bool] = False  # entries along an axis move, which a loop in time cannot do
    shown: ClassVar[bool] = False  # its results are results of the program
    table: ClassVar[dict[str, Operation]] = {}

    def __init_subclass__(cls) -> None:
        for name in cls.names:
            Operation.table.setdefault(name, cls())  # pytest imports modules under two names

    def draw(self, g: Any, name: str) -> Statement | None:
        """A statement whose preconditions hold, or `None` if there are no values for it."""
        raise NotImplementedError

    def code(self, s: Statement, a: list[str], functions: list[str], resources: Callable[..., str]) -> str:
        """The expression over namedax."""
        raise NotImplementedError

    def run(self, r: Any, s: Statement, values: list[V], env: Mapping[int, V]) -> list[V]:
        """What it means."""
        raise NotImplementedError

    def meetings(self, s: Statement, values: list[V], results: list[V]) -> list[set[str]]:
        """Names that meet in one value, or in the operation."""
        return [{name for v in (*values, *results) for name in v.names}]


def statements_of(block: Block) -> Iterator[Statement]:
    """All statements, those of inner blocks too."""
    for s in block.statements:
        yield s
        for inner in s.blocks:
            yield from statements_of(inner)


def shown(statements: Iterable[Statement]) -> tuple[int, ...]:
    """The values that have to be results of the program."""
    return tuple(n for s in statements if Operation.table[s.op].shown for n in s.outs)


def used(statements: Sequence[Statement], results: Iterable[int]) -> set[int]:
    """The values that some statements take, and those that are results."""
    found = set(results)
    for s in statements:
        found |= {*s.args}
        for inner in s.blocks:
            found |= used(inner.statements, inner.results)
    return found
