"""Layouts: a mesh, an assignment, and the way in which a mapped function is called; and a program written down as Python for a layout."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from tests.fuzz.program import Block, Operation, Program, statements_of
from tests.fuzz.values import FLOATS, INNER, SIZES, V

MESHES = ((("x", 8),), (("x", 4), ("y", 2)), (("x", 2), ("y", 4)), (("x", 2), ("y", 2)), (("x", 2), ("y", 2), ("z", 2)))
PASSES = ("late_sums", "loop_casts", "serial_steps")


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where and how a program runs. In `resources` an integer is the number of steps of a `SerialLoop`."""

    mesh: tuple[tuple[str, int], ...] = ()
    resources: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    explicit: bool = False
    partitioning: str = "manual"
    gradient: str = "outside"  # or "inside", "none"
    wrap: str = "plain"  # or "checkpoint", "vmap", "eager"
    arrive: str = "host"  # or "sharded": arguments come sharded over the last mesh axis
    passes: tuple[str, ...] = PASSES  # those over the traced program that are taken

    @property
    def uneven(self) -> set[str]:
        """Names that do not divide over their mesh axes, or into their steps."""
        sizes = dict(self.mesh)
        return {
            name
            for name, entries in self.resources
            if SIZES[name] % math.prod(entry if isinstance(entry, int) else sizes[entry] for entry in entries)
        }

    @property
    def loops(self) -> set[str]:
        """Names that are executed in steps."""
        return {name for name, entries in self.resources if any(isinstance(entry, int) for entry in entries)}

    def mesh_axes(self, name: str) -> tuple[str, ...]:
        """The mesh axes of a name."""
        return tuple(entry for entry in dict(self.resources).get(name, ()) if isinstance(entry, str))


def written(entries: Sequence[Any]) -> str:
    """A value of `axis_resources`."""
    texts = [f"nx.SerialLoop({entry})" if isinstance(entry, int) else repr(entry) for entry in entries]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def conflicts(layout: Layout, meetings: Iterable[frozenset[str]]) -> bool:
    """Whether two names on one mesh axis meet in one value."""
    for meeting in meetings:
        axes = [axis for name in meeting for axis in layout.mesh_axes(name)]
        if len(axes) != len(set(axes)):
            return True
    return False


def random_layout(rng: random.Random, meetings: list[frozenset[str]], unmapped: bool = False) -> Layout:
    """A layout that usually keeps names apart that meet."""
    gradient = rng.choice(["outside", "inside", "outside", "none"])
    wrap = rng.choice(["plain"] * 7 + ["checkpoint", "vmap", "eager"])
    if wrap == "eager":
        gradient = "none"
    if unmapped:
        return Layout(gradient=gradient, wrap=wrap)
    mesh = rng.choice((*MESHES, ())) if rng.random() < 0.5 else rng.choice(MESHES)
    if wrap == "eager" and mesh and rng.random() < 0.8:
        wrap = "plain"  # eagerly jax.shard_map compiles each operation: it takes as long as twenty other runs
    explicit = bool(mesh) and rng.choice([False, False, True])
    partitioning = rng.choice(["manual"] * 4 + ["auto"]) if mesh else "manual"
    with_loops = partitioning == "manual" and (not mesh or rng.choice([False, False, True]))
    careless = rng.choice([False] * 11 + [True])
    resources = _resources(rng, meetings, dict(mesh), with_loops, careless, uneven=rng.random() < 0.25)
    arrive = rng.choice(["host"] * 5 + ["sharded"]) if mesh else "host"
    passes = PASSES
    if resources and partitioning == "manual" and rng.random() < 0.15:
        passes = tuple(name for name in PASSES if rng.random() < 0.5)
    return Layout(mesh, resources, explicit, partitioning, gradient, wrap, arrive, passes)


def _resources(
    rng: random.Random, meetings: list[frozenset[str]], mesh: dict[str, int], loops: bool, careless: bool, uneven: bool
) -> Any:
    """An assignment; if `uneven`, also of names that do not divide."""
    names = sorted({name for meeting in meetings for name in meeting} - {"n"})
    inner = [name for name in names if name in INNER]
    pairs = [(p, q) for p in mesh for q in mesh if p != q]
    places = [(), *((axis,) for axis in mesh), *(pairs[:2] if rng.random() < 0.5 else [])]
    resources: dict[str, tuple[Any, ...]] = {}
    order = rng.sample([name for name in names if name not in INNER], len(names) - len(inner))
    for name in [*order, *inner]:
        taken = {a for m in meetings if name in m for other in m for a in resources.get(other, ()) if isinstance(a, str)}
        blocks = {axes: math.prod(mesh[axis] for axis in axes) for axes in places}
        fits = [axes for axes in places if SIZES[name] % blocks[axes] == 0 or (uneven and name not in inner)]
        allowed = [axes for axes in fits if careless or not taken & {*axes}]
        if name in inner:  # these live on mesh axes of one kind, and have no loops
            allowed = [axes for axes in allowed if len(axes) <= 1]
        entries: tuple[Any, ...] = rng.choice(allowed[1:] * 2 + allowed[:1] * 2)
        if loops and name not in inner and rng.choice([False, True]):
            steps = [n for n in (2, 3, 4, 8) if uneven or SIZES[name] % (blocks[entries] * n) == 0]
            entries = (*entries, rng.choice(steps)) if steps else entries
        if entries:
            resources[name] = entries
    return tuple(sorted(resources.items()))


# --- programs as Python ---------------------------------------------------------------------------------------------


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
        placed = [f"{name!r}: {written(entries)}" for name, entries in self.layout.resources if name in names]
        auto = ", partitioning='auto'" if self.layout.partitioning == "auto" else ""
        return f", axis_resources={{{', '.join(placed)}}}, mesh=mesh{auto}" if placed else ""


def out_axes(values: Sequence[V]) -> list[list[Any]]:
    """Where the names of results stand: sorted, or the other way round."""
    axes = []
    for number, v in enumerate(values):
        axes.append([*(v.names[::-1] if number % 2 else v.names), *[None] * v.ndim])
    return axes


def source(program: Program, layout: Layout, results: Sequence[V], mapped: Sequence[str], sizes: Sequence[str]) -> str:
    """A program for a layout, which leaves what it computes in `result`: `(loss, values), gradients`, or `values`."""
    writer = _Writer(layout)
    count = len(program.arguments)
    lines = [f"v{n} = {argument.expression}" for n, argument in enumerate(program.arguments)]
    ins, outs = [argument.mapping for argument in program.arguments], out_axes(results)
    floats = tuple(n for n, argument in enumerate(program.arguments) if argument.dtype in FLOATS and argument.fill != "nan")
    gradient = layout.gradient if floats else "none"
    parameters = ", ".join(f"v{n}" for n in range(count))
    if layout.mesh:
        axes, shape = zip(*layout.mesh, strict=True)
        kind = "Explicit" if layout.explicit else "Auto"
        types = f", axis_types=(jax.sharding.AxisType.{kind},) * {len(axes)}"
        lines.append(f"mesh = jax.make_mesh({shape}, {axes}{types}, devices=jax.devices()[:{math.prod(shape)}])")
    # XLA's partitioner aborts over a Fourier transform along an axis that arrives cut, in plain JAX as here; Explicit axes are typed.
    aborts = not layout.explicit and any(s.op == "fft" for s in statements_of(program.main))
    if layout.arrive == "sharded" and not aborts:
        lines += _sharded(program, layout)
    inside = gradient == "inside"
    lines += writer.block(program.main, "body", "", "[{}]")
    function, in_axes, final_axes = "body", f"({', '.join(map(repr, ins))},)", repr(outs)
    if layout.wrap == "checkpoint":
        function = "jax.checkpoint(body)"
    if inside:
        function = f"jax.value_and_grad(lossy({function}, {outs}), {floats}, has_aux=True)"
        final_axes = f"(([], {outs}), ({', '.join(repr(ins[n]) for n in floats)},))"
    placed = ", ".join(f"{name!r}: {written(entries)}" for name, entries in layout.resources if name in mapped)
    options = f", axis_sizes={ {name: SIZES[name] for name in sizes} }" if sizes else ""
    if placed:
        options += f", axis_resources={{{placed}}}"
    if layout.mesh:
        options += f", mesh=mesh, partitioning={layout.partitioning!r}"
    if layout.wrap == "eager":
        options += ", jit=False"
    if layout.passes != PASSES:
        options += f", passes={layout.passes}"
    lines.append(f"f = nx.xmap({function}, {in_axes}, {final_axes}{options})")
    if layout.wrap == "vmap" and floats:
        lines.append(f"f = twice(f, {floats[0]})")
    if gradient == "outside":
        lines.append(f"f = jax.jit(jax.value_and_grad(lossy(f), {floats}, has_aux=True))")
    call = f"f({parameters})"
    if layout.explicit:
        return "\n".join([*lines, "with jax.set_mesh(mesh):", f"    result = {call}"])
    return "\n".join([*lines, f"result = {call}"])


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
