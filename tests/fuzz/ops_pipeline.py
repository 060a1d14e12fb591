"""Pipelines: layers over a name, whose carry is cut into microbatches along another."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tests.fuzz.ops_blocks import settle
from tests.fuzz.program import Invalid, Operation, Statement
from tests.fuzz.values import FLOATS, SIZES, V, broadcast, elementwise, front, make, promote

# What a layer may do: operations that say nothing of names but of those that they go over, since in a layer values have those of the batch too.
LAYER = (
    *("sin", "tanh", "relu", "exp", "root", "add", "subtract", "multiply", "maximum", "divide", "greater", "where", "constant"),
    *(
        "uniform",
        "sum",
        "mean",
        "max",
        "var",
        "logsumexp",
        "softmax",
        "log_softmax",
        "dot",
        "index",
        "take",
        "rename",
        "cumsum",
    ),
    *("roll", "scan", "fold", "jit", "checkpoint"),
)


def entry(xp: Any, v: V, axis: str, i: int) -> V:
    """One entry along a name, if the value has it."""
    if axis not in v.names:
        return v
    data, rest = front(xp, v, axis)
    return V(data[i], rest, v.dtype)


def cannot_be_cut(s: Statement, layout: Any) -> bool:
    """Whether layers, or microbatches over stages, do not divide as a pipeline in this layout needs it."""
    mesh = dict(layout.mesh)
    stages = math.prod(mesh[axis] for name in s["axes"] for axis in layout.mesh_axes(name))
    loops = [entries for name in s["axes"] for entries in [dict(layout.resources).get(name, ())] if any(map(_is_int, entries))]
    if stages == 1 or loops or layout.partitioning == "auto":
        return False
    rounds = s["interleave"]
    if len(s["axes"]) > 1 and layout.mesh_axes(s["axes"][1]):
        rounds = SIZES[s["axes"][0]]
    uncut = rounds > 1 and s["microbatches"] % stages
    return bool(uncut or SIZES[s["axes"][0]] // stages % s["interleave"])


def _depends(number: int, statements: list[Statement], on: int) -> bool:
    """Whether a value is made of another one."""
    made = {on}
    for s in statements:
        if made & {*s.args}:
            made |= {*s.outs}
    return number in made


def _is_int(entry: Any) -> bool:
    return isinstance(entry, int)


class Pipeline(Operation):
    """Layers along one name or two, with inputs that have the layers, the batch, both or neither, and results of each layer or not."""

    names, weight = ("pipeline",), 1.0

    def draw(self, g, name):
        if g.depth >= 2:
            return None
        p = g.pick(lambda v: v.names and v.dtype in ("f32", "bf16") and v.data.size <= 512)
        if p is None:
            return None
        axes = tuple(g.subset(g.v(p).names, 1, 1 if g.flag() else 2))
        x = g.pick(lambda v: not {*v.names} & {*axes} and v.dtype in FLOATS and v.data.size <= 256)
        if x is None:
            return None
        others = [n for n in (g.pick(lambda v: v.dtype != "key" and v.data.size <= 512) for _ in range(2)) if n is not None]
        inputs = [p, *others[: g.choice([0, 1, 2])]]
        batches = sorted({name for n in (x, *inputs) for name in g.v(n).names} - {*axes})
        if not batches:
            return None
        over = g.choice(batches)
        entries = [g.v(n) for n in (x, *inputs)]
        for gone in (*axes, over):
            entries = [entry(np, v, gone, 0) for v in entries]
        child = g.child(entries, hide=(*axes, over))
        child.only = LAYER
        child.env = {n: entry(np, v, over, 0) for n, v in child.env.items()}  # what a layer closes over may have the batch, too
        child.statements_up_to(3)
        carry = child.pick(lambda v: v.shape == g.v(x).shape and v.dtype in FLOATS)
        outputs = g.flag()
        results = [carry, *([child.pick(lambda v: v.dtype in ("f32", "bf16"))] if outputs else [])]
        if None in results or not _depends(carry, child.statements, child.parameters[0]):
            return None
        options = {
            "axes": axes,
            "over": over,
            "microbatches": g.choice([1, 2, 3, 4, 8]),
            "interleave": 2 if len(axes) == 1 and SIZES[axes[0]] % 4 == 0 and g.rare() else 1,
            "remat": g.flag(),
            "schedule": "gpipe" if g.forward else g.choice(["gpipe", "1f1b", "zero_bubble"]),  # the others have no jvp
            "positions": g.v(x).dtype == "f32" and g.rare(),
        }
        return g.s(name, (x, *inputs), len(results), blocks=(child.block(results),), **options)

    def code(self, s, a, functions, resources):
        carry = f"c + 0.1 * nx.arange(axis={s['over']!r})" if s["positions"] else "c"
        axis = s["axes"][0] if len(s["axes"]) == 1 else s["axes"]
        options = f"axis={axis!r}, over={s['over']!r}, microbatches={s['microbatches']}, interleave={s['interleave']}"
        options += f", schedule={s['schedule']!r}" if s["schedule"] != "gpipe" else ""
        options += f", remat={s['remat']}, outputs={len(s.outs) > 1}"
        return f"nx.pipeline(lambda c, p: {functions[0]}({carry}, *p), {a[0]}, ({', '.join(a[1:])},), {options})"

    def run(self, r, s, values, env):
        (init, *inputs), axes, xp = values, s["axes"], r.xp
        steps = list(itertools.product(*(range(SIZES[axis]) for axis in axes)))

        def layer(carry: V, step: tuple[int, ...]) -> list[V]:
            if s["positions"]:
                place = V(0.1 * np.arange(SIZES[s["over"]]), (s["over"],))
                carry = elementwise(xp, lambda c, p: c + p, promote(carry.dtype, "weak"), carry, place)
            own = inputs
            for axis, i in zip(axes, step, strict=True):
                own = [entry(xp, v, axis, i) for v in own]
            return r.block(s.blocks[0], env, [carry, *own])

        carry = settle(r, lambda c: layer(c, steps[0])[0], init)
        names, collected = carry.names, []
        for step in steps:
            results = layer(carry, step)
            carry = broadcast(xp, results[0], names)
            if carry.names != names:
                raise Invalid
            collected.append(results[-1])
        if {*axes} & {*names, *collected[0].names}:
            raise Invalid
        if len(s.outs) == 1:
            return [carry]
        first = collected[0]
        data = xp.stack([v.data for v in collected], 0)
        data = data.reshape((*(SIZES[axis] for axis in axes), *first.data.shape))
        return [carry, make(xp, data, [*axes, *first.names], first.dtype)]

    def meetings(self, s, values, results):
        return [{*s["axes"], s["over"], *(name for v in (*values, *results) for name in v.names)}]
