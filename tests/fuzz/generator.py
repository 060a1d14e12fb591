"""Draws programs and layouts. A statement that is drawn is executed at once, so that its preconditions can look at the values."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tests.fuzz.interpreter import Run
from tests.fuzz.program import Argument, Block, Invalid, Operation, Program, Statement, shown
from tests.fuzz.values import INNER, SIZES, V

LARGEST = 300.0  # of all values, so that rounding stays small


class Generator:
    """What is known while a function is drawn: the values that it sees, and the names that it may make."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self.env: dict[int, V] = {}
        self.visible: list[int] = []
        self.statements: list[Statement] = []
        self.parameters: tuple[int, ...] = ()
        self.hidden: frozenset[str] = frozenset(INNER)
        self.depth = 0
        self.forward = False  # whether forward mode goes through this function, which rules of reverse mode refuse
        self.only: tuple[str, ...] = ()  # the operations that may be drawn; all, if none are given
        self._counter = [0]
        self.run = Run(np)

    # --- choices ---

    def choice(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return self._rng.choice(list(options))

    def flag(self) -> bool:
        """True half of the time."""
        return self.choice([False, True])

    def rare(self) -> bool:
        """True every fourth time."""
        return self.choice([False, False, False, True])

    def subset(self, options: Iterable[Any], least: int, most: int) -> list[Any]:
        """Some of the options, in any order."""
        options = list(options)
        return self._rng.sample(options, self._rng.randint(min(least, len(options)), min(most, len(options))))

    # --- values and names ---

    def v(self, number: int) -> V:
        """A value by its number."""
        return self.env[number]

    def pick(self, suits: Callable[[V], Any] = lambda v: True, nan: bool = False) -> int | None:
        """The number of a value, late ones first; `None` if none suits. Values with NaN only where they are asked for."""
        options = [n for n in reversed(self.visible) if self._usable(self.env[n], nan) and suits(self.env[n])]
        if not options:
            return None
        # Late values twice: programs are chains rather than heaps.
        return self.choice([*options[:3], *options])

    def _usable(self, v: V, nan: bool) -> bool:
        return not {*v.names} & self.hidden and (nan or v.dtype == "key" or not np.isnan(v.data).any())

    def allowed(self, name: str) -> bool:
        """Whether a value may have this name here."""
        return name not in self.hidden

    def free(self) -> list[str]:
        """Names that a value may get here."""
        return [name for name in SIZES if name not in self.hidden and name != "n"]

    def known(self) -> list[str]:
        """Names that some value has, which may be spoken of."""
        return sorted({name for n in self.visible for name in self.env[n].names} - self.hidden - {"n"})

    def twins(self, name: str) -> list[str]:
        """Other names of the same size."""
        return [other for other in self.free() if other != name and SIZES[other] == SIZES[name]]

    def apart(self, values: Any, point: float) -> bool:
        """Whether no value is near a point without being it."""
        distance = np.abs(np.asarray(values) - point)
        return bool(np.all((distance > 1e-2) | (distance == 0)))

    def distinct(self, v: V, axes: Sequence[Any]) -> bool:
        """Whether the entries along some axes differ clearly, so that rounding does not change their order."""
        if v.dtype == "i32" or v.dtype == "bool":
            return True
        dims = [v.names.index(axis) if isinstance(axis, str) else len(v.names) + axis for axis in axes]
        data = np.moveaxis(v.data, dims, range(-len(dims), 0))
        data = np.sort(data.reshape(*data.shape[: -len(dims)], -1), -1)
        gap = 1e-3 if v.dtype == "f32" else 5e-2
        return bool(np.all(np.diff(data) > gap * (1 + np.abs(data[..., 1:]))))

    # --- statements ---

    def new(self) -> int:
        """A fresh number."""
        self._counter[0] += 1
        return self._counter[0] - 1

    def s(self, op: str, args: Sequence[int], outs: int = 1, blocks: tuple[Block, ...] = (), **options: Any) -> Statement:
        """A statement with fresh results."""
        return Statement(op, tuple(args), tuple(self.new() for _ in range(outs)), options, blocks)

    def statement(self) -> bool:
        """Adds a statement if the drawn one is possible and its values are fit for comparison."""
        names = _names(self.depth)
        name = self.choice([name for name in names if name in self.only] if self.only else names)
        trial = dict(self.env)
        before = len(self.run.meetings)
        with warnings.catch_warnings(action="ignore"):  # of means of nothing
            try:
                s = Operation.table[name].draw(self, name)
                if s is None:
                    return False
                self.run.statement(s, trial)
                fit = all(_fit(trial[number], s.op) for number in s.outs)
            except (Invalid, ValueError, LookupError):  # no maximum of nothing, no first entry
                fit = False
        if not fit:
            del self.run.meetings[before:]
            return False
        self.env.update({number: trial[number] for number in s.outs})
        self.visible += s.outs
        self.statements.append(s)
        return True

    def statements_up_to(self, most: int, least: int = 1) -> None:
        """Adds some statements."""
        wanted = self._rng.randint(least, most)
        for _ in range(3 * wanted):
            if wanted <= 0:
                break
            wanted -= self.statement()

    # --- functions ---

    def child(self, arguments: Sequence[V], hide: Iterable[str] = (), inner: Iterable[str] = ()) -> Generator:
        """A generator for a function with these parameters, which sees what is visible here without the names to hide."""
        child = Generator(self._rng)
        child._counter, child.depth, child.forward = self._counter, self.depth + 1, self.forward
        child.only = self.only
        child.hidden = (self.hidden | {*hide}) - {*inner}
        child.parameters = tuple(self.new() for _ in arguments)
        child.env = {**self.env, **dict(zip(child.parameters, arguments, strict=True))}
        child.visible = [*self.visible, *child.parameters]
        return child

    def some_results(self, suits: Callable[[V], Any], most: int) -> list[int]:
        """One or more values."""
        results = [self.pick(suits) for _ in range(self.choice(range(1, most + 1)))]
        return [] if None in results else [n for n in results if n is not None]

    def like(self, like: V) -> int | None:
        """A value of the same type, but for names; or a number."""
        number = self.pick(lambda v: v.shape == like.shape and v.dtype == like.dtype)
        if not like.shape and like.dtype == "f32" and (number is None or self.rare()):
            s = self.s("constant", (), number=0.5)
            self.run.statement(s, self.env)
            self.statements.append(s)
            return s.outs[0]
        return number

    def block(self, results: Sequence[int]) -> Block:
        """The function that was drawn."""
        return Block(self.parameters, tuple(self.statements), tuple(results))


def _names(depth: int) -> list[str]:
    key = min(depth, 2)
    if key not in _NAMES:
        _NAMES[key] = []
        for name, operation in Operation.table.items():
            takes_functions = type(operation).__module__.endswith(("ops_blocks", "ops_pipeline"))
            if not (depth and takes_functions and depth >= 2):
                _NAMES[key] += [name] * max(1, round(10 * operation.weight / len(operation.names) ** 0.5))
    return _NAMES[key]


_NAMES: dict[int, list[str]] = {}


def _fit(v: V, op: str) -> bool:
    """Whether a value is small and finite (but for NaN that came with the arguments)."""
    if v.data.size > 4096 or v.ndim > 3 or len(v.names) > 4:
        return False
    if v.dtype == "i8":
        return False
    if np.isnan(v.data).any() and op not in ("max", "min", "sum", "index", "nansum", "nanmax"):
        return False
    return bool(np.all(np.abs(np.nan_to_num(v.data, nan=0.0, posinf=1e9, neginf=1e9)) <= LARGEST))


# --- programs -------------------------------------------------------------------------------------------------------


def argument(rng: random.Random, seed: int) -> Argument:
    """Most are arrays of floats with one to three names, in any physical order, and at most two positional axes."""
    kind = rng.choice(["f32"] * 10 + ["ties"] * 2 + ["bf16"] * 2 + ["i32"] * 3 + ["bool", "key", "nan", "i8", "table"])
    if kind == "table":
        return Argument(("n",), "f32", "normal", seed)
    many = {"key": 1, "i8": 1, "i32": 1}.get(kind, 3)
    names = rng.sample(("a", "b", "a2", "b2", "c", "k", "d"), rng.randint(1, many))
    names += ["o"] * (rng.random() < 0.15) + ["e"] * (rng.random() < 0.08)
    sizes = rng.choice([[], [], [], [3], [8], [4], [2], [8, 3]]) if kind in ("f32", "ties", "bf16", "nan") else []
    axes = rng.sample([*names, *sizes], len(names) + len(sizes))
    if np.prod([SIZES.get(axis, axis) for axis in axes]) > 1024:
        axes = names
    dtype, fill = ("f32", kind) if kind in ("nan", "ties") else (kind, "index" if kind in ("i32", "i8") else "normal")
    return Argument(tuple(axes), dtype, fill, seed)


def program(rng: random.Random, most: int = 6, given: tuple[Argument, ...] = (), only: tuple[str, ...] = ()) -> Program:
    """A program, of these arguments or any, and these operations or any. It has no results if nothing could be drawn."""
    g = Generator(rng)
    g.only = only
    given = given or tuple(argument(rng, seed) for seed in range(rng.randint(1, 3)))
    g.parameters = tuple(g.new() for _ in given)
    g.env = {number: argument.value() for number, argument in enumerate(given)}
    g.visible = list(g.parameters)
    g.statements_up_to(most, 2)
    made = [n for s in g.statements for n in s.outs if g.v(n).dtype != "key" and not np.isnan(g.v(n).data).all()]
    used = {n for s in g.statements for n in s.args}
    results = [n for n in made if n not in used or rng.randint(0, 3) == 0] or made[-1:]
    return Program(given, tuple(g.statements), tuple(dict.fromkeys((*results[-4:], *shown(g.statements)))))
