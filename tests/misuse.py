"""Call every public function with nonsense, and find errors in Python's words that come from frames of namedax.

A call is Python source over a few named values, so that a finding can be pasted. Some calls give nonsense only; the others take the example that
the reference has of the function and replace one part of it.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import io
import json
import pathlib
import random
import sys
import traceback
import types
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from namedax.errors import NamedaxError
from namedax.messages.call_errors import reject_miscall

ROOT = pathlib.Path(__file__).parent.parent

#: What stands where something else belongs, as source.
NONSENSE = (
    *("None", "3", "-1", "0", "2.5", "True", "float('nan')", "10**30", "1j", "...", "NotImplemented"),
    *("'nope'", "'k'", "''", "b'nope'", "'\\ud800'", "object()", "int", "np", "slice(None)", "range(2)"),
    *(
        "[]",
        "()",
        "{}",
        "set()",
        "{'a': 1}",
        "{'k': 0}",
        "{'k': None}",
        "{3: 'k'}",
        "{'k': 'nope'}",
        "{None: None}",
        "{'k': -2}",
    ),
    *(
        "['a', 'a']",
        "('k', 'k')",
        "['k']",
        "['k', 'nope']",
        "[None, None]",
        "[[]]",
        "[{}]",
        "[3, 'k']",
        "(-1, -1)",
        "(2, -3)",
        "((1, 2), (3, 4))",
    ),
    *(
        "np.array([None, 'x'])",
        "np.array('nope')",
        "np.zeros((2, 3))",
        "np.zeros(0)",
        "np.array(['a', 'b'])",
        "np.float32",
        "np.dtype('int8')",
    ),
    *(
        "x",
        "z",
        "i",
        "t",
        "x.data",
        "z.data",
        "[x, z]",
        "{'w': x}",
        "jnp.zeros((2, 0))",
        "jnp.arange(4)",
        "jax.random.key(0)",
        "nx.named(np.zeros((4, 2, 3)), ['k', None, 'b'])",
    ),
    *(
        "len",
        "(lambda *args, **kwargs: None)",
        "(lambda x: x)",
        "(lambda x: 'nope')",
        "jax.ShapeDtypeStruct((4,), np.float32)",
        "jax.sharding.PartitionSpec('x')",
    ),
)

#: Functions that wait for other machines, measure this one for long, or leave something behind.
LEFT_OUT = {"nx.machines.measure", "nx.numpy.set_printoptions", "nx.numpy.printoptions"}

_SETTING = """
x = nx.named(jnp.linspace(0.2, 0.8, 4), ["k"])
z = nx.named(jnp.arange(8.0).reshape(2, 4) % 5, ["b", "k"])
i = nx.named(jnp.arange(4) % 3, ["k"])
t = nx.named(jnp.arange(4) % 2 == 0, ["k"])
"""


def setting() -> dict[str, Any]:
    """The values that a call may name."""
    scope: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "nx": nx}
    exec(_SETTING, scope)
    return scope


def public_functions() -> Iterator[tuple[str, Any]]:
    """Each function and class of namedax once, and the methods of an array, with a name under which `eval` finds it."""
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("nx", nx)]
    while waiting:
        label, home = waiting.pop(0)
        for name in sorted(home.__all__):
            value, where = getattr(home, name), f"{label}.{name}"
            if id(value) in seen or where in LEFT_OUT:
                continue
            seen.add(id(value))
            if isinstance(value, types.ModuleType):
                if value.__name__.startswith("namedax."):
                    waiting.append((where, value))
            elif callable(value) and not _is_of_jax(value):
                yield where, value
    for name, value in sorted(vars(nx.NamedArray).items()):
        if callable(value) and name not in _NOT_CALLED and (name.startswith("__") or not name.startswith("_")):
            yield f"nx.NamedArray.{name}", value


# Protocols that only Python, `copy` and NumPy call, with arguments of their own.
_NOT_CALLED = frozenset(
    f"__{name}__"
    for name in "init_subclass class new init setattr delattr getattr getstate setstate reduce copy deepcopy array_function array_ufunc".split()
)


def _is_of_jax(value: Any) -> bool:
    """Return True for an object of JAX that is public here as it is, and for types of JAX and NumPy."""
    home = getattr(value, "__module__", None) or type(value).__module__
    own = (
        str(home).startswith("namedax") or isinstance(value, types.FunctionType) or type(value).__module__.startswith("namedax")
    )
    return not own


@functools.cache
def _examples() -> dict[str, tuple[str, str]]:
    """For each function the lines before the call of its example, and the call."""
    found = {}
    recorded = json.loads((ROOT / "docs" / "reference" / "examples.json").read_text())["functions"]
    for name, entry in recorded.items():
        lines = [line[4:] for line in entry.get("example", "").splitlines() if line.startswith(">>> ")]
        if lines:
            found[name] = "\n".join(lines[:-1]), lines[-1]
    return found


@dataclasses.dataclass(frozen=True)
class Call:
    """A call as source: what comes before it, and the expression."""

    name: str
    before: str
    text: str


def calls(name: str, function: Any, count: int, seed: int = 0) -> Iterator[Call]:
    """Nonsense calls of a function, always the same ones for a seed."""
    draw = random.Random(zlib.crc32(f"{name} {seed}".encode()))
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    keyword = [
        p.name
        for p in parameters
        if p.kind is not p.POSITIONAL_ONLY and p.kind is not p.VAR_KEYWORD and p.kind is not p.VAR_POSITIONAL
    ]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    example = _examples().get(name)
    for number in range(count):
        if example is not None and number % 3:
            if (text := _spoiled(example[1], draw, keyword)) is not None:
                yield Call(name, example[0], text)
                continue
        given = draw.choice([needed, needed, needed + 1, draw.randrange(len(positional) + 2)])
        given = max(name.startswith("nx.NamedArray."), min(given, 8))
        args = [draw.choice(NONSENSE) for _ in range(given)]
        if args and (name.startswith("nx.NamedArray.") or draw.random() < 0.5):
            args[0] = draw.choice(
                ["x", "z", "x.data", "i", "jax.random.key(0)"]
                if not name.startswith("nx.NamedArray.")
                else ["x", "z", "i", "t"]
            )
        rest = [word for word in keyword if word != "self" and word not in {p.name for p in positional[: len(args)]}]
        words = draw.sample(rest, min(len(rest), draw.choice([0, 0, 1, 1, 2])))
        yield Call(name, "", f"{name}({', '.join(args + [f'{word}={draw.choice(NONSENSE)}' for word in words])})")


def _spoiled(text: str, draw: random.Random, keyword: list[str]) -> str | None:
    """The call with one part replaced, left out or added."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return None
    spots: list[tuple[Any, str, int | None]] = []
    outer = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            outer = outer or node
            spots += [(node, "args", place) for place in range(len(node.args))]
            spots += [(word, "value", None) for word in node.keywords]
        elif isinstance(node, (ast.List, ast.Tuple)):
            spots += [(node, "elts", place) for place in range(len(node.elts))]
        elif isinstance(node, ast.Dict):
            spots += [(node, field, place) for field in ("keys", "values") for place in range(len(node.values))]
        elif isinstance(node, ast.Lambda):
            spots.append((node, "body", None))
    nonsense = ast.parse(draw.choice(NONSENSE), mode="eval").body
    kind = draw.random()
    if outer is not None and keyword and (kind < 0.25 or not spots):
        word = draw.choice(keyword)
        outer.keywords = [k for k in outer.keywords if k.arg != word] + [ast.keyword(word, nonsense)]
    elif outer is not None and (kind < 0.33 or not spots):
        outer.args.append(nonsense)
    elif spots:
        node, field, place = draw.choice(spots)
        if place is None:
            setattr(node, field, nonsense)
        else:
            getattr(node, field)[place] = nonsense
    else:
        return None
    return ast.unparse(ast.fix_missing_locations(tree))


@dataclasses.dataclass(frozen=True)
class Finding:
    """A call whose error is in Python's words, raised in a frame of namedax."""

    call: Call
    kind: str
    message: str
    where: str
    line: str


# Frames of these stand between a frame of namedax and the place where its call went wrong.
_PASSED_THROUGH = frozenset({*sys.stdlib_module_names, "numpy", "einops", "opt_einsum"})


def finding(call: Call, error: BaseException) -> Finding | None:
    """The error as a finding, unless it is in words, or raised by JAX or by what the user gave."""
    if isinstance(error, NamedaxError) and str(error).strip():
        return None
    entries = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for entry, frame in zip(reversed(entries), reversed(frames), strict=True):
        home = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if home == "namedax":
            where = f"{pathlib.Path(entry.filename).relative_to(ROOT)}:{entry.lineno} {entry.name}"
            return Finding(call, type(error).__name__, str(error)[:200], where, entry.line or "")
        if home not in _PASSED_THROUGH:
            return None
    return None


def run(call: Call) -> Finding | None:
    """Run a call and judge its error."""
    scope = setting()
    try:
        if call.before:
            exec(call.before, scope)
    except Exception:
        return None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            eval(call.text, scope)
        except Exception as error:
            return finding(call, error)
    return None


def blamed_in_examples(part: int = 0, parts: int = 1) -> Iterator[tuple[str, str]]:
    """The examples of the reference one of whose arguments would be blamed if the call failed, with the message."""
    for name, function in public_functions():
        example = _examples().get(name)
        if example is None or zlib.crc32(name.encode()) % parts != part:
            continue
        scope = setting()
        try:
            signature = inspect.signature(function)
            call = ast.parse(example[1], mode="eval").body
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != name:
                continue
            exec(example[0], scope)
            arguments = ", ".join(map(ast.unparse, [*call.args, *call.keywords]))
            args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({arguments})", scope)
        except Exception:
            continue  # an example that is more than a call
        try:
            reject_miscall(name, signature, args, kwargs, TypeError())
        except NamedaxError as error:
            yield example[1], str(error)
        else:
            yield example[1], ""
