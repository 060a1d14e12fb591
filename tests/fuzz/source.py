"""A program written down as Python for a layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tests.fuzz.layouts import PASSES, Layout, written
from tests.fuzz.program import Block, Operation, Program, Statement, statements_of, used
from tests.fuzz.values import FLOATS, SIZES, V

__all__ = ["HEADER", "can_be_outside", "cut", "out_axes", "source"]

HELPERS = "elsewhere, lossy, placed, plain_gradients, pulled, pulled_by, pushed_by, twice, whitened, within"
HEADER = f"import jax, jax.numpy as jnp, numpy as np, namedax as nx\nfrom tests.fuzz.helpers import {HELPERS}\n"
SPEAKERS = ("psum", "pmean", "pmax", "pmin", "all_gather", "arange", "axis_index")  # of names that no value may have
IN_BODIES = (*SPEAKERS, *("psum_many", "pmax_many", "psum_scatter", "all_to_all", "ppermute", "pshuffle", "pbroadcast"))
IN_BODIES += ("pipeline", "xmap")  # and which leave the names of others as they are


class _Writer:
    def __init__(self, layout: Layout):
        self.layout, self.functions = layout, 0

    def block(self, block: Block, name: str, indent: str, values_of: str = "") -> list[str]:
        """The lines of a function."""
        lines = [f"{indent}def {name}({', '.join(f'v{n}' for n in block.parameters)}):"]
        inner = indent + "    "
        for s in block.statements:
            names = []
            for function in s.blocks:
                self.functions += 1
                names.append(f"f{self.functions}")
                lines += self.block(function, names[-1], inner)
            text = Operation.table[s.op].code(s, [f"v{n}" for n in s.args], names, self.resources)
            lines.append(f"{inner}{', '.join(f'v{n}' for n in s.outs)} = {text}")
        results = ", ".join(f"v{n}" for n in block.results)
        return [*lines, f"{inner}return {values_of.format(results) if values_of else results}"]

    def resources(self, names: Sequence[str]) -> str:
        """`, axis_resources=..., mesh=mesh` for a nested mapped function."""
        placed = [
            f"{name!r}: {written(entries)}"
            for name, entries in self.layout.resources
            if name in names and not self.aborts(name)
        ]
        auto = ", partitioning='auto'" if self.layout.partitioning == "auto" else ""
        mesh = "" if self.layout.again == "set_mesh" else ", mesh=mesh"  # it is called again under another mesh
        return f", axis_resources={{{', '.join(placed)}}}{mesh}{auto}" if placed else ""

    def aborts(self, name: str) -> bool:
        """Whether XLA may end the process if a nested mapped function maps the name.

        The XLA of JAX 0.12 does if a mesh axis is free, and an inner one is before an outer one, in plain JAX as here.
        """
        order = [axis for axis, _ in self.layout.mesh]
        used = {other: [order.index(entry) for entry in entries if entry in order] for other, entries in self.layout.resources}
        is_free = len({i for places in used.values() for i in places}) < len(order)
        outer = [i for other, places in used.items() if other != name for i in places]
        return is_free and any(i < max(outer, default=-1) for i in used[name])


def out_axes(values: Sequence[V]) -> list[list[Any]]:
    """Where the names of results stand: sorted, or the other way round."""
    axes = []
    for number, v in enumerate(values):
        axes.append([*(v.names[::-1] if number % 2 else v.names), *[None] * v.ndim])
    return axes


def source(program: Program, layout: Layout, results: Sequence[V], mapped: Sequence[str], sizes: Sequence[str]) -> str:
    """A program for a layout, which leaves what it computes in `result`: `(loss, values), gradients`, or `values`; and if it is called again,
    what it computes then in `again`."""
    lines = [f"v{n} = {argument.expression}" for n, argument in enumerate(program.arguments)]
    ins, outs = [argument.mapping for argument in program.arguments], out_axes(results)
    floats = tuple(n for n, argument in enumerate(program.arguments) if argument.dtype in FLOATS and argument.fill != "nan")
    gradient = layout.gradient if floats else "none"
    if layout.outside:
        return _outside(program, layout, lines, outs, gradient, floats)
    if layout.mesh:
        lines.append(f"mesh = {mesh_of(layout.mesh, layout.explicit)}")
    # XLA's partitioner aborts over a Fourier transform along an axis that arrives cut, in plain JAX as here; Explicit axes are typed.
    aborts = not layout.explicit and any(s.op == "fft" for s in statements_of(program.main))
    if layout.arrive == "sharded" and not aborts:
        lines += _sharded(program, layout)
    inside, after = cut(program, layout)
    lines += _Writer(layout).block(inside, "body", "", "[{}]")
    function, in_axes, final_axes = "body", f"({', '.join(map(repr, ins))},)", "None" if after else repr(outs)
    if layout.wrap == "checkpoint":
        function = "jax.checkpoint(body)"
    if gradient in ("inside", "vjp inside"):
        function = _differentiated(gradient, function, floats, f", {outs}")
        final_axes = f"(([], {outs}), ({', '.join(repr(ins[n]) for n in floats)},))"
    options = _options(layout, mapped, sizes)
    at_rest = _at_rest(program, layout) if layout.arrive == "padded" else {}
    lines.append(f"f = nx.xmap({function}, {'None' if at_rest else in_axes}, {final_axes}{options})")
    if at_rest:
        lines.append(f"f = stored_padded(f, {ins}, {at_rest}, mesh)")
    if after:
        lines += [*_Writer(layout).block(after, "rest", "", "[{}]"), *_after(program, outs)]
    if layout.wrap == "vmap" and floats:
        lines.append(f"f = twice(f, {floats[0]})")
    if gradient in ("outside", "vjp outside"):
        lines.append(f"f = {_differentiated(gradient, 'f', floats)}")
    if gradient in ("outside", "vjp outside") or layout.after == "jit":
        lines += ["f = jax.jit(f)"] if layout.after != "eager" else []
    return "\n".join([*lines, *_calls(program, layout)])


def can_be_outside(program: Program) -> bool:
    """Whether no statement needs a mapped function."""
    return not any(map(_needs_body, program.main.statements))


def _outside(
    program: Program, layout: Layout, lines: list[str], outs: Sequence[Any], gradient: str, floats: tuple[int, ...]
) -> str:
    """The program over arrays that are named and placed first."""
    lines.append(f"mesh = {mesh_of(layout.mesh, layout.explicit)}")
    places, under = _at_rest(program, layout), "mesh" if layout.outside.endswith("set_mesh") else None
    for n, argument in enumerate(program.arguments):
        mine = {name: axes for name, axes in places.items() if name in argument.axes}
        lines.append(f"v{n} = nx.shard(nx.named(v{n}, {argument.mapping}), {mine}, mesh, padded=True)")
    parameters = ", ".join(f"v{n}" for n in range(len(program.arguments)))
    lines += _Writer(layout).block(program.main, "body", "", "[{}]")
    lines += [f"def f({parameters}):", f"    return placed(body({parameters}), {outs})"]
    if gradient != "none":
        lines.append(f"f = {_differentiated(gradient, 'f', floats)}")
    if layout.outside.startswith("jit"):
        lines.append("f = jax.jit(f)")
    lines += _under(under, f"result = f({parameters})")
    if gradient != "none":
        mappings = [program.arguments[n].mapping for n in floats]
        lines += _under(under, f"result = plain_gradients(result, {mappings})")
    return "\n".join(lines)


def _at_rest(program: Program, layout: Layout) -> dict[str, tuple[str, ...]]:
    """The mesh axes over which arguments are stored, for `nx.shard`."""
    names = {axis for argument in program.arguments for axis in argument.axes if isinstance(axis, str)}
    return {name: layout.mesh_axes(name) for name, _ in layout.resources if name in names and layout.mesh_axes(name)}


def mesh_of(axes: Iterable[tuple[str, int]], explicit: bool, devices: str = "jax.devices()") -> str:
    """A mesh, as Python."""
    names, shape = zip(*axes, strict=True)
    kind, count = "Explicit" if explicit else "Auto", math.prod(shape)
    types = f"axis_types=(jax.sharding.AxisType.{kind},) * {len(names)}"
    return f"jax.make_mesh({shape}, {names}, {types}, devices={devices}[:{count}])"


def _differentiated(gradient: str, function: str, floats: tuple[int, ...], axes: str = "") -> str:
    if gradient.startswith("vjp"):
        return f"pulled({function}, {floats}{axes})"
    return f"jax.value_and_grad(lossy({function}{axes}), {floats}, has_aux=True)"


def _options(layout: Layout, mapped: Sequence[str], sizes: Sequence[str]) -> str:
    """What the mapped function is told beside its mappings."""
    placed = ", ".join(f"{name!r}: {written(entries)}" for name, entries in layout.resources if name in mapped)
    options = f", axis_sizes={ {name: SIZES[name] for name in sizes} }" if sizes else ""
    if placed:
        options += f", axis_resources={{{placed}}}"
    if layout.mesh:
        options += f"{'' if layout.again == 'set_mesh' else ', mesh=mesh'}, partitioning={layout.partitioning!r}"
    if layout.wrap == "eager":
        options += ", jit=False"
    if layout.slow:
        options += f", slow_axes={dict.fromkeys(layout.slow, 0)}"
    return options + (f", passes={layout.passes}" if layout.passes != PASSES else "")


# --- what is done outside of the mapped function ---------------------------------------------------------------------


def cut(program: Program, layout: Layout) -> tuple[Block, Block | None]:
    """The statements in the mapped function, and those that are done to what it returns: after the last one that needs a body."""
    main = program.main
    if not layout.after:
        return main, None
    least = max((i + 1 for i, s in enumerate(main.statements) if _needs_body(s)), default=0)
    middle = max(least, len(main.statements) // 2)
    before, after = main.statements[:middle], main.statements[middle:]
    there = {*main.parameters, *(n for s in before for n in s.outs)}
    handed = tuple(sorted(used(after, main.results) & there))
    return Block(main.parameters, before, handed), Block(handed, after, main.results)


def _needs_body(s: Statement) -> bool:
    """Whether the sizes of names, or steps in time, are those of a mapped function."""
    return s.op in IN_BODIES or any(_needs_body(inner) for block in s.blocks for inner in block.statements)


def _after(program: Program, outs: Sequence[Any]) -> list[str]:
    parameters = ", ".join(f"v{n}" for n in range(len(program.arguments)))
    return ["mapped = f", f"def f({parameters}):", f"    return placed(rest(*mapped({parameters})), {outs})"]


def _calls(program: Program, layout: Layout) -> list[str]:
    parameters = [f"v{n}" for n in range(len(program.arguments))]
    lines = _under("mesh" if layout.explicit or layout.again == "set_mesh" else None, f"result = f({', '.join(parameters)})")
    if not layout.again:
        return lines
    # The same devices in another mesh, whose axes have other names, or come in another order, as the devices do.
    turned = layout.mesh[::-1] if layout.again == "set_mesh" else [(f"{axis}2", size) for axis, size in layout.mesh[::-1]]
    count = math.prod(size for _, size in layout.mesh)
    if layout.again != "cut":
        lines.append(f"other = {mesh_of(turned, layout.explicit, f'jax.devices()[:{count}][::-1]')}")
    if layout.again != "set_mesh":
        mesh = "mesh" if layout.again == "cut" else "other"
        lines.append(f"moved = elsewhere([{', '.join(parameters)}], {mesh}, {len(program.statements)})")
    call = "again = f(*moved)" if layout.again != "set_mesh" else f"again = f({', '.join(parameters)})"
    under = {"set_mesh": "other", "cut": "mesh" if layout.explicit else None}.get(layout.again)
    return lines + _under(under, call)


def _under(mesh: str | None, line: str) -> list[str]:
    return [f"with jax.set_mesh({mesh}):", f"    {line}"] if mesh else [line]


def _sharded(program: Program, layout: Layout) -> list[str]:
    """Lines that place arguments over the last mesh axis."""
    axis, devices = layout.mesh[-1]
    lines = []
    for n, argument in enumerate(program.arguments):
        shape = [SIZES[entry] if isinstance(entry, str) else entry for entry in argument.axes]
        fits = [i for i, size in enumerate(shape) if size % devices == 0]
        if fits:
            spec = ", ".join([*["None"] * fits[0], repr(axis)])
            lines.append(f"v{n} = jax.device_put(v{n}, jax.NamedSharding(mesh, jax.P({spec})))")
    return lines
