"""The command `python -m namedax.plan`: a plan of a program in a module or a file."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import math
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeAlias

import jax
from jax.sharding import AbstractMesh, AxisType

from namedax import machines
from namedax.errors import ArgumentError, NamedaxError, PlanError, did_you_mean
from namedax.hlo import size_text
from namedax.insight.planning.planner import plan
from namedax.machines import Machine
from namedax.xmap.mapped_function import Xmapped

__all__ = ["layout_argument", "main", "mesh_argument"]

_DESCRIPTION = """\
Find the fastest layout (axis_resources) of a program on a machine, as nx.plan does. Nothing is
compiled or run, and the machine need not be there.

PROGRAM is MODULE:NAME or FILE.py:NAME, where NAME is one of these:

  a function without arguments, which returns (f, args) or (f, args, kwargs): a function f made by
  nx.xmap, and its arguments or their types (jax.ShapeDtypeStruct)

  a function made by nx.xmap; --args then names a function without arguments, which returns the
  tuple of its arguments or their types

exit codes: 0 a plan was found, 1 no layout fits into the memory, 2 an argument is invalid"""

_EXAMPLES = """\
examples:
  python -m namedax.plan train.py:program --machine v5p --mesh data=32,model=8
  python -m namedax.plan models.mlp:step --args models.mlp:types --machine h100 --devices 64 \\
      --memory 60GB --names batch,hidden --json plan.json --html plan.html"""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code.

    Args:
      arguments: the arguments of the command line, without the name of the program.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.machines:
        print(_machines_text())
        return 0
    try:
        if options.program is None:
            raise ArgumentError("plan: there is no program. Pass MODULE:NAME; see --help.")
        made = _plan(options)
        print(made)
        if options.why is not None:
            print(f"\n{made.why(layout_argument(options.why, 'plan: --why'))}")
        if options.json is not None:
            made.to_json(options.json)
        if options.html is not None:
            made.save(options.html)
    except PlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (NamedaxError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m namedax.plan",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("program", nargs="?", metavar="PROGRAM", help="MODULE:NAME or FILE.py:NAME")
    add("--args", metavar="ARGS", help="MODULE:NAME or FILE.py:NAME of the arguments' function")
    add("--machine", metavar="NAME", help="a machine of --machines; default: measure the devices")
    add("--machines", action="store_true", help="list the machines, and exit")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--devices", type=_count, metavar="N", help="choose the mesh's shape too")
    where.add_argument(
        "--mesh", type=mesh_argument, metavar="AXIS=N,...", help="the mesh: data=32,model=8"
    )
    add("--memory", type=_bytes, metavar="BYTES", help="limit per device: 32e9, 60GB or 30GiB")
    add("--names", type=_names, metavar="NAME,...", help="the axis names that may be mapped")
    add("--uneven", type=_names, metavar="NAME,...", help="names that may have padded blocks")
    add(
        "--fixed",
        type=_fixed,
        action="append",
        metavar="NAME=AXIS,...",
        help="pin a name to mesh axes, or to none (NAME=); may be repeated",
    )
    add("--tries", type=_count, metavar="N", help="the maximum number of layouts to judge")
    add("--verify", type=_count, metavar="N", help="compile and time the best N layouts")
    add("--why", metavar="LAYOUT", help="explain another layout: \"{'batch': 'data'}\"")
    add("--json", metavar="FILE", help="write the plan; nx.Plan.from_json reads it")
    add("--html", metavar="FILE", help="write the plan as one HTML file")
    return parser


# --- arguments ------------------------------------------------------------------------------------


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


_UNITS = {
    unit: base**power
    for power, letter in enumerate("KMGT", 1)
    for unit, base in ((f"{letter}B", 1000), (f"{letter}iB", 1024))
}


def _bytes(text: str) -> float:
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        value = float(text.removesuffix(unit)) * _UNITS.get(unit, 1)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 32e9, 60GB or 30GiB")
    return value


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, such as batch,hidden")
    return names


def mesh_argument(text: str) -> dict[str, int]:
    """Return the axes and sizes of a mesh, written as `data=32,model=8`."""
    pairs = [part.partition("=") for part in text.split(",")]
    sizes = {axis.strip(): size.strip() for axis, _, size in pairs}
    if len(sizes) < len(pairs) or not all(
        axis and size.isdigit() and int(size) >= 1 for axis, size in sizes.items()
    ):
        raise argparse.ArgumentTypeError(f"{text!r} is not a mesh, such as data=32,model=8")
    return {axis: int(size) for axis, size in sizes.items()}


def _fixed(text: str) -> tuple[str, tuple[str, ...]]:
    name, sign, axes = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pin, such as batch=data")
    return name.strip(), tuple(axis.strip() for axis in axes.split(",") if axis.strip())


def layout_argument(text: str, what: str) -> dict[Any, Any]:
    """Return a layout, written as a dict.

    Raises:
      ArgumentError: it is not a dict; the message begins with `what`.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, dict):
        raise ArgumentError(
            f"{what}={text!r} is not a layout. Write a dict, such as"
            f" {what.rpartition(' ')[2]} \"{{'batch': 'data'}}\"."
        )
    return value


# --- the plan -------------------------------------------------------------------------------------


_Program: TypeAlias = tuple[Xmapped, Sequence[Any], dict[str, Any]]


def _plan(options: argparse.Namespace) -> Any:
    """Return the plan of the command."""
    f, args, kwargs = _program(options)
    if options.devices is None and options.mesh is None and f._options.mesh is None:
        raise ArgumentError(
            "plan: the program has no mesh. Pass --mesh, such as --mesh data=4,model=2, or"
            " --devices, such as --devices 8."
        )
    machine = None if options.machine is None else _machine(options.machine)
    more: dict[str, Any] = {}
    if options.fixed:
        more["fixed"] = {name: axes or None for name, axes in options.fixed}
    return plan(
        f,
        *args,
        mesh=options.devices if options.mesh is None else _made(options.mesh, machine),
        machine=machine,
        memory=options.memory,
        names=options.names,
        uneven=options.uneven or (),
        tries=options.tries,
        verify=options.verify or 0,
        **more,
        **kwargs,
    )


def _made(sizes: dict[str, int], machine: Machine | None) -> Any:
    """Return a mesh of these sizes, with devices if there is no machine, to measure them."""
    kinds = (AxisType.Auto,) * len(sizes)
    if machine is not None:
        return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=kinds)
    count, there = math.prod(sizes.values()), len(jax.devices())
    if count > there:
        raise ArgumentError(
            f"plan: --mesh has {count} devices, but there are {there} to measure. Pass --machine;"
            " --machines lists them."
        )
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), kinds, devices=jax.devices()[:count])


def _catalog() -> dict[str, Machine]:
    """Return the machines of `nx.machines` by name."""
    found = {name: getattr(machines, name) for name in machines.__all__}
    return {name: one for name, one in found.items() if isinstance(one, Machine)}


def _machine(name: str) -> Machine:
    known = _catalog()
    if name not in known:
        raise ArgumentError(
            f"plan: --machine={name} is not a machine. Choose from"
            f" {', '.join(known)}.{did_you_mean(name, known)}"
        )
    return known[name]


def _machines_text() -> str:
    rows = [("machine", "bfloat16", "memory", "bandwidth")]
    rows += [
        (
            name,
            f"{one.peak('bfloat16') / 1e12:,.0f} TFLOP/s",
            size_text(int(one.memory)),
            f"{one.bandwidth / 1e9:,.0f} GB/s",
        )
        for name, one in _catalog().items()
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _program(options: argparse.Namespace) -> _Program:
    """Return the mapped function of the command, and its arguments.

    Raises:
      ArgumentError: there is no such function, or it returns something else.
    """
    found = _found(options.program)
    if isinstance(found, Xmapped):
        if options.args is None:
            raise ArgumentError(
                f"plan: {options.program} is a mapped function, which needs arguments. Pass --args"
                " MODULE:NAME, a function without arguments that returns the tuple of them."
            )
        args = _found(options.args)
        args = _called(args, options.args) if callable(args) else args
        if not isinstance(args, (tuple, list)):
            raise ArgumentError(
                f"plan: {options.args} returns a {type(args).__name__}. Return the tuple of the"
                " arguments, such as (params, images)."
            )
        return found, args, {}
    if options.args is not None:
        raise ArgumentError(
            f"plan: --args is given, but {options.program} is a {type(found).__name__}, not a"
            " mapped function. Name a function made by nx.xmap, or remove --args."
        )
    parts = _called(found, options.program)
    if (
        not isinstance(parts, tuple)
        or len(parts) not in (2, 3)
        or not isinstance(parts[0], Xmapped)
        or not isinstance(parts[1], (tuple, list))
        or (len(parts) == 3 and not isinstance(parts[2], dict))
    ):
        raise ArgumentError(
            f"plan: {options.program} does not return a program. Return (f, args) or (f, args,"
            " kwargs), with f = nx.xmap(...), a tuple args and a dict kwargs."
        )
    return parts[0], parts[1], parts[2] if len(parts) == 3 else {}


def _called(found: Any, what: str) -> Any:
    """Call a function without arguments.

    Raises:
      ArgumentError: it is not a function, or it needs arguments.
    """
    try:
        signature = inspect.signature(found)
        signature.bind()
    except TypeError as error:
        raise ArgumentError(
            f"plan: {what} is not a function that can be called without arguments ({error}). Write"
            " one that returns (f, args), or pass a mapped function and --args."
        ) from None
    return found()


def _found(what: str) -> Any:
    """Return the object of `MODULE:NAME` or `FILE.py:NAME`.

    Raises:
      ArgumentError: there is no such module, file or name.
    """
    where, sign, name = what.rpartition(":")
    if not sign or not where or not name.replace(".", "").isidentifier():
        raise ArgumentError(
            f"plan: {what!r} does not name an object. Write MODULE:NAME or FILE.py:NAME."
        )
    found: Any = _file(where) if where.endswith(".py") else _module(where)
    for part in name.split("."):
        if not hasattr(found, part):
            names = [each for each in dir(found) if not each.startswith("_")]
            raise ArgumentError(
                f"plan: {where} has no {name!r}. Choose the name of a function that is"
                f" there.{did_you_mean(part, names)}"
            )
        found = getattr(found, part)
    return found


def _module(name: str) -> ModuleType:
    """Import a module.

    Raises:
      ArgumentError: there is no such module; an import within the module that fails is its error.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ArgumentError(
            f"plan: there is no module {name!r} in {os.getcwd()} or among the installed ones. Write"
            " MODULE:NAME, or a file as FILE.py:NAME."
        ) from None


def _file(path: str) -> ModuleType:
    """Run a Python file as a module.

    Raises:
      ArgumentError: there is no such file.
    """
    if not os.path.isfile(path):
        raise ArgumentError(
            f"plan: there is no file {path!r} in {os.getcwd()}. Write FILE.py:NAME with its path."
        )
    folder, file = os.path.split(os.path.abspath(path))
    name = file.removesuffix(".py")
    if folder not in sys.path:
        sys.path.insert(0, folder)  # its imports of modules next to it
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
