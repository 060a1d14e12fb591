"""Random short programs over special values, in layouts of every kind: `python -m tests.fuzz --special` runs many."""

from __future__ import annotations

import dataclasses
import json
import random
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from tests.fuzz.special import NUMPY, SIZES, WAYS, Arithmetic, V, finfo
from tests.fuzz.special_ops import OPS, Op

Argument = tuple[tuple[str, ...], np.ndarray]  # axis names and values
# Five kinds of layouts: one element per device, blocks, a mesh of two axes, steps, and sizes that do not divide.
LAYOUTS: dict[str, list[tuple[dict[str, Any], tuple[int, ...]]]] = {
    "one each": [({"a": "x"}, (8,)), ({"b": "x"}, (4,)), ({"a": ("y", "x")}, (4, 2))],
    "blocks": [({"a": "x"}, (4,)), ({"a": "x"}, (2,)), ({"b": "x"}, (2,))],
    "two mesh axes": [({"a": "x", "b": "y"}, (4, 2)), ({"a": "y", "b": "x"}, (2, 2)), ({"a": ("y", "x")}, (2, 2))],
    "steps": [({"a": 4}, ()), ({"a": 8}, ()), ({"a": ("x", 2)}, (2,)), ({"a": 2, "b": "x"}, (4,)), ({"b": 2}, ())],
    "uneven": [({"a": "x"}, (3,)), ({"a": "x"}, (5,)), ({"b": "x"}, (3,)), ({"a": 3}, ()), ({"b": "x", "a": "y"}, (3, 2))],
}


@dataclasses.dataclass(frozen=True)
class Layout:
    """A mesh and an assignment; an integer is the number of steps of a `SerialLoop`."""

    kind: str
    resources: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    shape: tuple[int, ...] = ()
    explicit: bool = False

    @property
    def loops(self) -> set[str]:
        """Names in steps."""
        return {name for name, entries in self.resources if any(isinstance(entry, int) for entry in entries)}

    @property
    def axis_resources(self) -> dict[str, tuple[Any, ...]]:
        """The assignment."""
        return {
            name: tuple(nx.SerialLoop(entry) if isinstance(entry, int) else entry for entry in entries)
            for name, entries in self.resources
        }

    @property
    def text(self) -> str:
        """Keyword arguments of `xmap`, for a report."""
        mesh = f", mesh={self.shape} {'explicit' if self.explicit else 'auto'}" if self.shape else ""
        return f"axis_resources={self.axis_resources}{mesh}"

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `xmap`."""
        if not self.shape:
            return {"axis_resources": self.axis_resources, "jit": self.kind != "eager"}
        kind = jax.sharding.AxisType.Explicit if self.explicit else jax.sharding.AxisType.Auto
        devices = jax.devices()[: int(np.prod(self.shape))]
        mesh = jax.make_mesh(self.shape, ("x", "y")[: len(self.shape)], (kind,) * len(self.shape), devices=devices)
        return {"axis_resources": self.axis_resources, "mesh": mesh}


@dataclasses.dataclass(frozen=True)
class Statement:
    """`v{target} = ...`"""

    op: str
    values: tuple[int, ...]
    axis: str = ""


@dataclasses.dataclass(frozen=True)
class Program:
    """Arguments, one dtype, and statements; results are the values that no statement uses."""

    dtype: str
    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    moved: frozenset[str]

    @property
    def results(self) -> list[int]:
        """The numbers of the results."""
        used = {n for s in self.statements for n in s.values}
        first = len(self.arguments)
        return [n for n in range(first, first + len(self.statements)) if n not in used]

    @property
    def source(self) -> str:
        """The body."""
        lines = [f"def body({', '.join(f'v{n}' for n in range(len(self.arguments)))}):"]
        for n, s in enumerate(self.statements, len(self.arguments)):
            text = OPS[s.op].text.format(*(f"v{v}" for v in s.values), axis=repr(s.axis))
            lines.append(f"    v{n} = {text}")
        return "\n".join([*lines, f"    return [{', '.join(f'v{n}' for n in self.results)}]"])

    def evaluate(self, m: Arithmetic) -> list[V]:
        """All values, by NumPy."""
        values = [m.argument(data, dims, self.dtype) for dims, data in self.arguments]
        for s in self.statements:
            axis = (s.axis,) if s.axis else ()
            values.append(OPS[s.op].plain(m, *(values[n] for n in s.values), *axis))
        return values


# --- drawing ---------------------------------------------------------------------------------------------------------


def special_values(dtype: str) -> dict[str, list[float]]:
    """Families of values from which an array is drawn."""
    info = finfo(dtype)
    most, tiny, least, eps = (float(v) for v in (info.max, info.tiny, info.smallest_subnormal, info.eps))
    return {
        "counts": [0, 0, 1, 2, 4, 3],
        "zeros": [0.0, -0.0, 1, -1, 0.0],
        "normal": [0.5, -1.5, 2, 40, -39, 3, -0.25],
        "large": [most, most / 2, most / 16, -most / 4, 1, most / 3, -most],
        "positive large": [most / 2, most / 4, most / 16, 1, 8],
        "small": [tiny, -tiny, tiny * 3, 1, 0.0, 4 * tiny],
        "subnormal": [least, -least, 4 * least, tiny / 2, 0.0, 1],
        "infinite": [np.inf, 1, 2, 3, np.inf, 5],
        "both infinite": [np.inf, -np.inf, 1, 2, 3, -1],
        "nan": [np.nan, 1, -2, 3, 4, 0.5],
        "near one": [1, 1 + eps, 1 - eps / 2, -1, 2],
    }


def drawn(rng: random.Random, family: list[float], shape: Sequence[int], dtype: str) -> np.ndarray:
    """An array of values of a family."""
    data = np.array([rng.choice(family) for _ in range(int(np.prod(shape)))], float).reshape(shape)
    with np.errstate(all="ignore"):
        return data.astype(NUMPY[dtype]).astype(np.float64)


def random_array(rng: random.Random, dims: tuple[str, ...], dtype: str) -> np.ndarray:
    """An array of one family, with another one in some rows."""
    families = special_values(dtype)
    shape = [SIZES[name] for name in dims]
    calm = rng.random() < 0.6  # so that not every element becomes NaN
    data = drawn(
        rng, families[rng.choice(["counts", "normal", "zeros", "near one"] if calm else sorted(families))], shape, dtype
    )
    if rng.random() < 0.7:
        rare = families[rng.choice(sorted(families))]
        axis = rng.randrange(len(shape))
        for row in range(shape[axis]):
            if rng.random() < 0.3:
                place = (slice(None),) * axis + (row,)
                data[place] = drawn(rng, rare, data[place].shape, dtype)
    return data


def random_program(rng: random.Random) -> Program:
    """Two to four arrays, and up to seven statements."""
    dtype = rng.choice(["float32", "float32", "float16", "bfloat16"])
    with_sums = rng.random() < 0.4
    if with_sums:
        arguments, axis = arguments_to_sum(rng, dtype)
    else:  # the first one has both names, so that layouts may map both
        dims = [("a", "b"), *(rng.choice([("a", "b"), ("a", "b"), ("a",), ("b",)]) for _ in range(rng.randint(1, 3)))]
        arguments = [(d, random_array(rng, d, dtype)) for d in dims]
    moved = rng.choice(["a", "b"])
    dims_of = [dims for dims, _ in arguments]
    statements = statements_after_sums(rng, dims_of, dtype, axis) if with_sums else []
    for statement in statements:
        dims_of.append(dims_after(statement, dims_of))
    count = rng.randint(2, 6)
    while len(statements) < count:
        statement = random_statement(rng, dims_of, moved, dtype)
        if statement:
            statements.append(statement)
            dims_of.append(dims_after(statement, dims_of))
    used = frozenset(s.axis for s in statements if OPS[s.op].moves)
    return Program(dtype, tuple(arguments), tuple(statements), used)


def arguments_to_sum(rng: random.Random, dtype: str) -> tuple[list[Argument], str]:
    """Two arrays that are summed over an axis, which is returned too, and a factor without it."""
    families = special_values(dtype)
    most, tiny = max(families["large"]), families["small"][0]
    axis, rest = rng.choice([("a", "b"), ("b", "a")])
    arguments: list[Argument] = []
    for dims in [("a", "b"), rng.choice([("a", "b"), (axis,)])]:
        family = families[rng.choice(["counts", "normal", "zeros", "small"])]
        arguments.append((dims, drawn(rng, family, [SIZES[name] for name in dims], dtype)))
    factors = [0.0, -0.0, 1, 2, most / 8, most / 64, np.inf, tiny, 4 * tiny, 3]
    return [*arguments, ((rest,), drawn(rng, factors, [SIZES[rest]], dtype))], axis


def random_statement(rng: random.Random, dims_of: list[tuple[str, ...]], moved: str, dtype: str) -> Statement | None:
    """A statement that the values allow, or `None`."""
    newest = len(dims_of) - 1
    names = [name for name in OPS if allowed(name, dtype)]
    name = rng.choice(names)
    op = OPS[name]
    values = tuple(newest if rng.random() < 0.5 else rng.randint(0, newest) for _ in range(op.count))
    if not op.axis:
        return Statement(name, values)
    shared = [axis for axis in ("a", "b") if all(axis in dims_of[n] for n in values[:2])]
    if op.moves:
        shared = [axis for axis in shared if axis == moved]
    if not shared or (op.fresh and any("u" in dims for dims in dims_of)):
        return None
    return Statement(name, values, rng.choice(shared))


def statements_after_sums(rng: random.Random, dims_of: list[tuple[str, ...]], dtype: str, axis: str) -> list[Statement]:
    """Two sums over one axis, and operations past which a sum may be postponed in real arithmetic."""
    dims_of, found = list(dims_of), []
    linear = [name for name, op in OPS.items() if op.linear and allowed(name, dtype)]

    def put(name: str, values: tuple[int, ...], axis: str = "") -> int:
        found.append(Statement(name, values, axis))
        dims_of.append(dims_after(found[-1], dims_of))
        return len(dims_of) - 1

    parts = [put(rng.choice(["sum", "sum", "mean"]), (n,), axis) for n in (0, 1)]
    for _ in range(rng.randint(1, 2)):
        i, scale = rng.randrange(2), rng.choice(["divide", "multiply"])
        if rng.random() < 0.5:
            parts = [put(scale, (part, 2)) for part in parts]
        elif dims_of[parts[i]] and rng.random() < 0.4:
            parts[i] = put(rng.choice(["first", "second", "last", "sum"]), (parts[i],), dims_of[parts[i]][0])
        else:
            name = rng.choice(linear)
            parts[i] = put(name, (parts[i], 2)[: OPS[name].count])
    put(rng.choice(["add", "subtract", "minimum"]), (parts[0], parts[1]))
    return found


def allowed(name: str, dtype: str) -> bool:
    """Whether the dtype has the constants of an operation."""
    return (name != "wide" or dtype != "float32") and ("large_" not in name or name.endswith("large_" + dtype))


def dims_after(s: Statement, dims_of: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The axis names of what a statement gives."""
    op: Op = OPS[s.op]
    union = {name for n in s.values for name in dims_of[n]}
    if op.fresh:
        union = union - {s.axis} | {"u"}
    elif s.op == "rates":
        union = {name for n in s.values[:2] for name in dims_of[n]} - {s.axis} | set(dims_of[s.values[2]])
    elif s.axis and "softmax" not in s.op and not op.moves and not s.op.startswith("cum"):
        union -= {s.axis}
    return tuple(sorted(union))


def random_layouts(rng: random.Random, program: Program) -> list[Layout]:
    """No assignment, eagerly and compiled, and one layout of each kind."""
    found = [Layout("eager"), Layout("compiled")]
    for kind, choices in LAYOUTS.items():
        fits = []
        for resources, shape in choices:
            entries = tuple((name, value if isinstance(value, tuple) else (value,)) for name, value in resources.items())
            layout = Layout(kind, entries, shape, bool(shape) and rng.random() < 0.3)
            if not layout.loops & program.moved:
                fits.append(layout)
        found.append(rng.choice(fits))
    return found


# --- comparing -------------------------------------------------------------------------------------------------------


class Expected:
    """The results of a program in every admissible way."""

    def __init__(self, program: Program):
        self.program = program
        self.simplified: dict[int, np.ndarray] = {}  # elements that XLA's simplifications change, by number of the result
        self.dims: list[tuple[str, ...]] = []
        self.dtypes: list[str] = []
        self._ways: list[list[np.ndarray]] = []
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for way in WAYS:
                m = Arithmetic(way)
                values = [program.evaluate(m)[n] for n in program.results]
                self._ways.append([m.result(v) for v in values])
                self.dims, self.dtypes = [v.dims for v in values], [v.dtype for v in values]

    def sure(self, number: int) -> np.ndarray:
        """The elements of a result whose class is the same in every way."""
        classes = [classified(way[number]) for way in self._ways]
        return np.all([c == classes[0] for c in classes], 0) & ~self.simplified.get(number, np.False_)

    def difference(self, number: int, have: np.ndarray, dtype: str, compiled: bool = False) -> str:
        """A description of the first difference, or nothing.

        Args:
          number: which result.
          have: its values.
          dtype: its dtype.
          compiled: True for the compiled program without an assignment, whose differences are XLA's: the same program was right eagerly.
        """
        want = self._ways[0][number]
        if have.shape != want.shape or dtype != self.dtypes[number]:
            return f"result {number} is {dtype}{list(have.shape)}, not {self.dtypes[number]}{list(want.shape)}"
        wrong = self.sure(number) & (classified(have) != classified(want))
        info = finfo(dtype)
        with np.errstate(all="ignore"):
            room = np.max([np.abs(way[number] - want) for way in self._ways], 0)
            room = 4 * room + 16 * float(info.eps) * np.abs(want) + 4 * float(info.tiny)
            wrong |= self.sure(number) & np.isfinite(want) & ~(np.abs(have - want) <= room)
        if compiled:
            self.simplified[number] = wrong
        if compiled or not wrong.any():
            return ""
        place = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
        return f"result {number} {self.dims[number]} at {place} of {int(wrong.sum())}: {have[place]}, not {want[place]}"


def classified(data: np.ndarray) -> np.ndarray:
    """0 where finite, 1 NaN, 2 inf, 3 -inf."""
    return np.where(np.isnan(data), 1, np.where(data == np.inf, 2, np.where(data == -np.inf, 3, 0)))


def attempt(expected: Expected, layout: Layout) -> tuple[str, str]:
    """`equal`, `refused`, or what is wrong, and a description."""
    program = expected.program
    names: dict[str, Any] = {"nx": nx, "np": np, "jnp": jnp}
    exec(program.source, names)
    arguments = [nx.named(jnp.asarray(data.astype(NUMPY[program.dtype])), [*dims]) for dims, data in program.arguments]
    try:
        results = nx.xmap(names["body"], **layout.options)(*arguments)
    except nx.errors.SerialLoopError as error:
        if layout.loops & program.moved:
            return "refused", str(error).split("\n")[0]
        return "SerialLoopError", str(error)
    except Exception as error:
        return type(error).__name__, "".join(traceback.format_exception(error)[-4:])[-1500:]
    for number, (result, dims) in enumerate(zip(results, expected.dims, strict=True)):
        array = nx.positional(result, [*dims]) if dims else result
        values = np.asarray(array).astype(np.float64)
        difference = expected.difference(number, values, str(array.dtype), layout.kind == "compiled")
        if difference:
            return "value", difference
    return "equal", ""


def again(program: Program, layout: Layout) -> tuple[str, str]:
    """What comes of a program, where it is known what XLA simplifies."""
    expected = Expected(program)
    if layout.kind != "eager":
        attempt(expected, Layout("compiled"))
    return attempt(expected, layout)


def reduced(program: Program, layout: Layout, kind: str) -> tuple[Program, str]:
    """The shortest program that still fails: one result, and only the statements that it needs."""
    best, detail = program, again(program, layout)[1]
    for n in range(len(program.arguments), len(program.arguments) + len(program.statements)):
        small = only(program, n)
        found = again(small, layout)
        if found[0] == kind and len(small.statements) < len(best.statements):
            best, detail = small, found[1]
    return best, detail


def only(program: Program, number: int) -> Program:
    """The program that returns one value."""
    first = len(program.arguments)
    needed, stack = set(), [number]
    while stack:
        n = stack.pop()
        if n not in needed:
            needed.add(n)
            stack += program.statements[n - first].values if n >= first else ()
    order = [*range(first), *sorted(n for n in needed if n >= first)]
    new = {n: i for i, n in enumerate(order)}
    statements = [program.statements[n - first] for n in order[first:]]
    statements = [dataclasses.replace(s, values=tuple(new[v] for v in s.values)) for s in statements]
    return dataclasses.replace(program, statements=tuple(statements))


def report(program: Program, layout: Layout, kind: str, detail: str) -> str:
    """A failure as text."""
    lines = [f"v{n}: {program.dtype}{list(dims)} = {data.tolist()}" for n, (dims, data) in enumerate(program.arguments)]
    return "\n".join([*lines, program.source, f"# {layout.kind}: {layout.text}", f"# {kind}: {detail}"])


def trial(number: int) -> tuple[Expected, list[Layout]]:
    """The program with a number, and its layouts."""
    rng = random.Random(number)
    program = random_program(rng)
    return Expected(program), random_layouts(rng, program)


def work(folder: Path, seed: int, count: int) -> None:
    """Runs the programs from `seed` on; appends what comes of them to `log.jsonl`."""
    log, current = folder / "log.jsonl", folder / "current.txt"
    known = set(json.loads((folder / "known.json").read_text()))
    for number in range(seed, seed + count):
        start = time.monotonic()
        expected, layouts = trial(number)
        program = expected.program
        counts: dict[str, int] = {"programs": 1, "layouts": len(layouts)}
        for n in range(len(program.results)):
            sure = expected.sure(n)
            counts["elements"] = counts.get("elements", 0) + sure.size
            counts["compared"] = counts.get("compared", 0) + int(sure.sum())
        lines = []
        for layout in layouts:
            current.write_text(report(program, layout, "", ""))
            kind, detail = attempt(expected, layout)
            for feature in (kind, f"layout:{layout.kind}"):
                counts[feature] = counts.get(feature, 0) + 1
            if kind not in ("equal", "refused"):
                small, detail = reduced(program, layout, kind)
                key = f"{kind}: {' '.join(s.op for s in small.statements)} {program.dtype} {layout.kind}"
                text = {} if key in known else {"text": f"# special {number}\n{report(small, layout, kind, detail)}"}
                known.add(key)
                lines.append({"failure": {"key": key, **text}})
        counts["simplified"] = sum(int(wrong.sum()) for wrong in expected.simplified.values())
        counts["seconds"] = round(time.monotonic() - start)
        lines.append({"counts": counts, "operations": [s.op for s in program.statements], "refusals": []})
        with log.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
