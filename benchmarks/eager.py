"""The cost of eager operations on small named arrays: against `jnp`, `jax.lax` and a cached `jax.jit`.

    python benchmarks/eager.py                      # the three tables
    python benchmarks/eager.py operations control   # two of them
    python benchmarks/eager.py functions nx.lax. nx.linspace

- `operations`: operations as a multiple of the plain `jnp` call.
- `control`: loops and branches as a multiple of `jax.lax`, with the same functions at every call.
- `functions`: every other public function of the reference against the same call under a cached
  `jax.jit`; then the number of functions that cost more over it than 1.3 eager additions of `jnp`
  (10 µs where one takes 7.7 µs). Words that begin with `nx.` select functions, and namespaces if
  they end with a dot.

The benchmark measures processor time of the calling thread. The rivals alternate. In the first
table the plain call comes twice; the second one is the noise.
"""

import argparse
import ast
import pathlib
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from timing import interleaved

import namedax as nx

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tools"))

import recorded_calls as table

TABLES = ("operations", "control", "functions")
# What a function may cost over the jitted call: as much as 1.3 eager additions, 10 µs where `x + y` takes 7.7 µs.
LIMIT = 1.3
# Calls before any is measured: one with several kernels and a number is a program from the tenth on.
WARM_UP = 12
# How often a function over the limit is measured again: a single measurement may be disturbed.
AGAIN = 4
# Calls for a part of a body, where the time is that of the mapped function.
INSIDE = ("axis_index", "axis_size", "lax.axis_index", "lax.axis_size", "lax.pcast")
SIZES = {"N": 4, "M": 2}


def cases():
    """Pairs of functions, the plain call and the named call, by operation."""
    x, y, v, w = jnp.ones((8, 16)), jnp.ones((16, 4)), jnp.ones((8,)), jnp.ones((16,))
    mask, at = x > 0, jnp.array([2, 0, 1])
    nx_x, nx_y, nx_v, nx_w = (
        nx.named(a, d)
        for a, d in ((x, ["batch", "k"]), (y, ["k", "m"]), (v, ["batch"]), (w, ["k"]))
    )
    nx_mask, nx_at = nx.named(mask, ["batch", "k"]), nx.named(at, ["pick"])
    nx_p = nx.named(x, [None, "k"])
    spec, nx_spec = "bk,km->bm", "{batch,k},{k,m}->{batch,m}"
    return {
        "`x + y`, equal dims": (lambda: x + x, lambda: nx_x + nx_x),
        "`x + w`, broadcasting that `jnp` does by itself": (lambda: x + w, lambda: nx_x + nx_w),
        "`x + v`, broadcasting that needs `v[:, None]` in `jnp`": (
            lambda: x + v[:, None],
            lambda: nx_x + nx_v,
        ),
        "`x * 2.0`": (lambda: x * 2.0, lambda: nx_x * 2.0),
        "`x == y`": (lambda: x == x, lambda: nx_x == nx_x),
        "`x > 0`": (lambda: x > 0, lambda: nx_x > 0),
        "`where(mask, x, 0.0)`": (
            lambda: jnp.where(mask, x, 0.0),
            lambda: nx.where(nx_mask, nx_x, 0.0),
        ),
        "`sum(x, axis)`": (lambda: jnp.sum(x, axis=0), lambda: nx.sum(nx_x, "batch")),
        "`x.sum(axis)`": (lambda: x.sum(0), lambda: nx_x.sum("batch")),
        "`max(x, axis)`": (lambda: jnp.max(x, axis=1), lambda: nx.max(nx_x, "k")),
        "`mean(x, axis)`": (lambda: jnp.mean(x, axis=1), lambda: nx.mean(nx_x, "k")),
        "`exp(x)`": (lambda: jnp.exp(x), lambda: nx.exp(nx_x)),
        "`-x`": (lambda: -x, lambda: -nx_x),
        "`einsum` against `jnp.einsum`": (
            lambda: jnp.einsum(spec, x, y),
            lambda: nx.einsum(nx_spec, nx_x, nx_y),
        ),
        "`dot` against `jnp.einsum`": (
            lambda: jnp.einsum(spec, x, y),
            lambda: nx.dot(nx_x, nx_y, "k"),
        ),
        "`dot` against `jnp.tensordot`": (
            lambda: jnp.tensordot(x, y, 1),
            lambda: nx.dot(nx_x, nx_y, "k"),
        ),
        "`dot` against `x @ y`": (lambda: x @ y, lambda: nx.dot(nx_x, nx_y, "k")),
        "`dot` against `jnp.dot`": (lambda: jnp.dot(x, y), lambda: nx.dot(nx_x, nx_y, "k")),
        "`x[axis, 3]`": (lambda: x[:, 3], lambda: nx_x["k", 3]),
        "`x[3]`, by position": (lambda: x[3], lambda: nx_p[3]),
        "`x[axis, 1:4]`": (lambda: x[:, 1:4], lambda: nx_x["k", 1:4]),
        "`x[axis, indices]`": (lambda: x[:, at], lambda: nx_x["k", nx_at]),
        "`take(x, indices, axis)`": (
            lambda: jnp.take(x, at, axis=1),
            lambda: nx.take(nx_x, nx_at, "k"),
        ),
        "`softmax(x, axis)`": (lambda: jax.nn.softmax(x, axis=1), lambda: nx.nn.softmax(nx_x, "k")),
    }


# --- loops and branches -----------------------------------------------------------------------------


def control() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """The call of `jax.lax` and the named call, by function; the functions that they take stay the same."""
    plain_x, plain_c = jnp.arange(32.0).reshape(8, 4), jnp.arange(4.0)
    x, c = nx.named(plain_x, ["t", "k"]), nx.named(plain_c, ["k"])
    true, one = jnp.array(True), jnp.array(1)

    def step(carry, entry):
        return carry + entry, carry * entry

    def fold_step(carry, entry):
        return carry + entry, None

    def add(carry, entry):
        return carry + entry

    def double(entry):
        return 2 * entry

    def up(carry):
        return carry + 1

    def down(carry):
        return carry - 1

    def indexed(i, carry):
        return carry + i

    def is_small(carry):
        return jnp.all(carry < 9)

    def is_small_named(carry):
        return nx.all(carry < 9, "k")

    branches = [up, down]
    lax = jax.lax
    return {
        "scan": (lambda: lax.scan(step, plain_c, plain_x), lambda: nx.scan(step, c, x, axis="t")),
        "fold": (
            lambda: lax.scan(fold_step, plain_c, plain_x),
            lambda: nx.fold(add, c, x, axis="t"),
        ),
        "map": (lambda: lax.map(double, plain_x), lambda: nx.map(double, x, axis="t")),
        "associative_scan": (
            lambda: lax.associative_scan(add, plain_x),
            lambda: nx.associative_scan(add, x, axis="t"),
        ),
        "cond": (lambda: lax.cond(true, up, down, plain_c), lambda: nx.cond(true, up, down, c)),
        "switch": (lambda: lax.switch(one, branches, plain_c), lambda: nx.switch(one, branches, c)),
        "while_loop": (
            lambda: lax.while_loop(is_small, up, plain_c),
            lambda: nx.while_loop(is_small_named, up, c),
        ),
        "fori_loop": (
            lambda: lax.fori_loop(0, 3, indexed, plain_c),
            lambda: nx.fori_loop(0, 3, indexed, c),
        ),
    }


# --- every public function --------------------------------------------------------------------------


def scope() -> dict[str, Any]:
    """The modules that a call of the reference can use."""
    return {"jax": jax, "jnp": jnp, "nx": nx}


def called(name: str, call: str) -> tuple[Callable[..., Any], list[Any]] | None:
    """The function of a call, and its arrays; whatever else it takes is fixed. `None` if it has no single call."""
    node = ast.parse(table.sized(call, SIZES), mode="eval").body
    if not isinstance(node, ast.Call) or not re.match(rf"{re.escape(name)}\b", ast.unparse(node)):
        return None
    values = {
        operand: eval(table.sized(table.OPERANDS[operand], SIZES), scope())
        for operand in table.operands_of(call)
    }
    space = {**scope(), **values}

    def value(part: ast.expr) -> Any:
        return eval(ast.unparse(part), space)

    function = value(node.func)
    args: list[Any] = []
    for arg in node.args:
        args += value(arg.value) if isinstance(arg, ast.Starred) else [value(arg)]
    options = {keyword.arg: value(keyword.value) for keyword in node.keywords}
    given = [*args, *options.values()]
    where = [i for i, arg in enumerate(given) if has_only_arrays(arg)]
    names = list(options)

    def run(*arrays: Any) -> Any:
        every = list(given)
        for i, array in zip(where, arrays, strict=True):
            every[i] = array
        return function(*every[: len(args)], **dict(zip(names, every[len(args) :], strict=True)))

    return run, [given[i] for i in where]


def has_only_arrays(value: Any) -> bool:
    """Return True if a value is a pytree of arrays, at least one."""
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(isinstance(leaf, jax.Array) for leaf in leaves)


def pair(name: str, call: str) -> tuple[Callable[[], Any], Callable[[], Any]] | None:
    """The eager call and the jitted one, or `None` if JAX cannot trace the call, or it returns no arrays."""
    found = called(name, call)
    if found is None:
        return None
    run, arrays = found
    if not has_only_arrays(run(*arrays)):
        return None
    jitted = jax.jit(run)
    try:
        jitted(*arrays)
    except (TypeError, ValueError, jax.errors.JAXTypeError):
        return None
    return lambda: run(*arrays), lambda: jitted(*arrays)


def functions(
    wanted: list[str],
) -> Iterator[tuple[str, tuple[Callable[[], Any], Callable[[], Any]] | None]]:
    """The eager call and the jitted one of every function; `None` where there is nothing to compare."""
    apart = {name for loop in control() for name in (f"nx.{loop}", f"nx.lax.{loop}")}
    for name, call in table.recorded().items():
        short = name.removeprefix("nx.")
        if name in apart or not asked(name, wanted):
            continue
        with warnings.catch_warnings(action="ignore"):
            yield name, None if short in INSIDE else pair(name, call)


def asked(name: str, wanted: list[str]) -> bool:
    """Return True if a function is selected."""
    return not wanted or any(
        name.startswith(word) if word.endswith(".") else name == word for word in wanted
    )


def seconds(
    own: Callable[[], Any], rival: Callable[[], Any], limit: float = 0.05
) -> tuple[float, float]:
    """The shortest processor time of each call; the two alternate for about `limit` seconds."""
    times: dict[Callable[[], Any], list[float]] = {own: [], rival: []}
    for call in times:
        for _ in range(WARM_UP):
            jax.block_until_ready(call())
    begin = time.thread_time()
    jax.block_until_ready(own())
    number = max(1, min(20, int(0.002 / max(time.thread_time() - begin, 1e-6))))
    spent = time.thread_time()
    while len(times[own]) < 3 or (len(times[own]) < 12 and time.thread_time() - spent < limit):
        for call, found in times.items():
            begin = time.thread_time()
            for _ in range(number):
                result = call()
            found.append((time.thread_time() - begin) / number)
            jax.block_until_ready(result)
    return min(times[own]), min(times[rival])


# --- tables ---------------------------------------------------------------------------------------------


def print_operations() -> None:
    """Print a line for each operation."""
    print("\n| operation | `jnp`, µs | ratio | noise |\n|---|---|---|---|")
    for name, (plain, named) in cases().items():
        times = interleaved(
            {"jnp": plain, "namedax": named, "again": plain},
            rounds=60,
            calls=200,
            clock=time.thread_time,
        )
        ratio, noise = times["namedax"] / times["jnp"], times["again"] / times["jnp"]
        print(f"| {name} | {times['jnp'] * 1e6:.1f} | {ratio:.2f} | {noise:.2f} |", flush=True)


def print_control() -> None:
    """Print a line for each loop and branch."""
    print("\n| eager loop or branch | `jax.lax`, µs | namedax, µs | ratio |\n|---|---|---|---|")
    for name, (plain, named) in control().items():
        own, rival = seconds(named, plain, 1.0)
        print(f"| `{name}` | {rival * 1e6:.1f} | {own * 1e6:.1f} | {own / rival:.2f} |", flush=True)


def print_functions(wanted: list[str]) -> None:
    """Print a line for each function that costs more than `LIMIT` over the jitted call, and the counts."""
    found, without = [], []
    x = jnp.ones((8, 16))
    addition, _ = seconds(lambda: x + x, lambda: x - x, 0.5)
    limit = LIMIT * addition
    for name, rivals in functions(wanted):
        if rivals is None:
            without.append(name)
            continue
        own, rival = seconds(*rivals)
        for _ in range(AGAIN):
            if own - rival <= limit:
                break
            own, rival = min((own, rival), seconds(*rivals), key=lambda two: two[0] - two[1])
        found.append((own - rival, name, own, rival))
        if wanted:
            print(f"{name}: {own * 1e6:.1f} µs, jitted {rival * 1e6:.1f} µs", flush=True)
    over = sorted((one for one in found if one[0] > limit), reverse=True)
    print("\n| function | jitted, µs | eager, µs | difference, µs | ratio |\n|---|---|---|---|---|")
    for difference, name, own, rival in over:
        print(
            f"| `{name}` | {rival * 1e6:.1f} | {own * 1e6:.1f} | {difference * 1e6:.1f}"
            f" | {own / rival:.1f} |"
        )
    print(
        f"\n{len(over)} of {len(found)} functions cost more than {limit * 1e6:.0f} µs (`x + y` of `jnp`"
        f" takes {addition * 1e6:.1f} µs) over the jitted call, {sum(own > 10 * rival for _, _, own, rival in over)} of them over ten times"
        f" as much. Not compared: {len(without)} ({', '.join(without)})."
    )


def main() -> None:
    """Print the tables that are selected, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="TABLE or nx.NAME")
    words = parser.parse_args().words
    wanted = [word for word in words if word.startswith("nx.")]
    if unknown := {*words} - {*wanted} - {*TABLES}:
        parser.error(f"unknown words: {', '.join(sorted(unknown))}")
    tables = {word for word in words if word in TABLES} or ({"functions"} if wanted else TABLES)
    print(f"jax {jax.__version__}")
    if "operations" in tables:
        print_operations()
    if "control" in tables:
        print_control()
    if "functions" in tables:
        print_functions(wanted)


if __name__ == "__main__":
    main()
