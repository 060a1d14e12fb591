"""Layouts: a mesh, an assignment, and the way in which a mapped function is called."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from tests.fuzz.values import INNER, SIZES

MESHES = ((("x", 8),), (("x", 4), ("y", 2)), (("x", 2), ("y", 4)), (("x", 2), ("y", 2)), (("x", 2), ("y", 2), ("z", 2)))
PASSES = ("late_sums", "loop_casts", "serial_steps")


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where and how a program runs. In `resources` an integer is the number of steps of a `SerialLoop`."""

    mesh: tuple[tuple[str, int], ...] = ()
    resources: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    explicit: bool = False
    partitioning: str = "manual"
    gradient: str = "outside"  # or "inside", "none"; "vjp outside" and "vjp inside" with cotangents that are given
    wrap: str = "plain"  # or "checkpoint", "vmap", "eager"
    arrive: str = "host"  # or "sharded": arguments come sharded over the last mesh axis; "padded": named, and stored padded
    passes: tuple[str, ...] = PASSES  # those over the traced program that are taken
    slow: tuple[str, ...] = ()  # mesh axes over which collectives run in two levels, however small
    after: str = ""  # "eager" or "jit": how the second half of the program is done, outside of the mapped function
    outside: str = ""  # "eager" or "jit", which may end in " under set_mesh": how the program is done without a mapped function
    again: str = (
        ""  # "cut", "mesh" or "set_mesh": a second call with arguments that lie otherwise, or on another mesh; or under one
    )

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
    gradient = rng.choice(["outside", "outside", "vjp outside", "inside", "inside", "vjp inside", "none", "none"])
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
    after, again = "", ""
    if mesh and wrap != "eager" and not gradient.endswith("inside") and rng.random() < 0.25:
        after = rng.choice(["eager", "eager", "jit"])
    elif mesh and wrap == "plain" and rng.random() < 0.2:
        again = rng.choice(["cut", "mesh", "set_mesh"])
        if again == "mesh":  # of what is compiled JAX moves no arguments, and XLA aborts over two meshes of one shape
            gradient = "none"
        arrive = "host" if again == "set_mesh" else arrive  # nor arrays whose devices come in another order
    slow: tuple[str, ...] = ()
    apart = random.Random(repr((mesh, resources, gradient, wrap, after)))  # draws that change no others
    if len(mesh) > 1 and resources and partitioning == "manual" and apart.random() < 0.3:
        slow = (apart.choice([axis for axis, _ in mesh]),)
    layout = Layout(mesh, resources, explicit, partitioning, gradient, wrap, arrive, passes, slow, after, again=again)
    is_global = random.Random(repr(layout)).random() < 0.25  # draws that change no others
    if mesh and partitioning == "manual" and not slow and is_global and {*INNER}.isdisjoint(dict(resources)):
        layout = dataclasses.replace(layout, partitioning="global")
    # nx.shard runs neither under an eager jax.vmap, nor in a traced program under jax.set_mesh.
    at_rest = layout.uneven and mesh and not again and arrive == "host" and wrap not in ("vmap", "eager") and not explicit
    if at_rest and apart.random() < 0.5:
        layout = dataclasses.replace(layout, arrive="padded")
    return layout


def outside_layout(rng: random.Random, meetings: list[frozenset[str]]) -> Layout:
    """A layout of arguments that a program takes outside of mapped functions."""
    mesh, explicit = rng.choice(MESHES), rng.random() < 0.6
    resources = _resources(rng, meetings, dict(mesh), loops=False, careless=False, uneven=rng.random() < 0.25)
    how = rng.choice(["eager", "jit"]) + rng.choice(["", " under set_mesh"])
    gradient = rng.choice(["none", "none", "outside", "vjp outside"])
    if explicit and gradient == "outside" and how == "eager":
        how += " under set_mesh"  # JAX's own cotangent of a loss, a number, is on no device of an Explicit mesh otherwise
    return Layout(mesh, resources, explicit, gradient=gradient, outside=how)


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
