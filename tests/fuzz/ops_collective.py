"""Collectives, over the logical indices of one name."""

from __future__ import annotations

import numpy as np

from tests.fuzz.program import Operation
from tests.fuzz.values import NUMBERS, SIZES, V, along, broadcast, front, make, place, without


def divides(name: str, v: V) -> bool:
    """Whether the leading positional axis has a part for each entry of the named one."""
    return bool(SIZES[name]) and v.shape[0] % SIZES[name] == 0


class Reduce(Operation):
    """`psum` and its like, of values that have the name or lack it."""

    names, weight = ("psum", "pmean", "pmax", "pmin"), 0.8

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype in ("f32", "bf16"))
        options = [] if x is None else g.known()
        return g.s(name, (x,), axis=g.choice([*(n for n in g.v(x).names), *options])) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.lax.{s.op}({a[0]}, {s['axis']!r})"

    def run(self, r, s, values, env):
        (v,), axis = values, s["axis"]
        if axis not in v.names:
            return [v._replace(data=v.data * SIZES[axis] if s.op == "psum" else v.data)]
        f = getattr(r.xp, {"psum": "sum", "pmean": "mean", "pmax": "max", "pmin": "min"}[s.op])
        return [V(r.xp.asarray(f(v.data, axis=place(v, axis))), without(v, (axis,)), v.dtype)]


class ReduceMany(Operation):
    """Over several names together."""

    names, weight = ("psum_many", "pmax_many"), 0.4

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype in ("f32", "bf16") and len(v.names) > 1)
        return None if x is None else g.s(name, (x,), axes=tuple(g.subset(g.v(x).names, 2, 3)))

    def code(self, s, a, functions, resources):
        return f"nx.lax.{s.op.removesuffix('_many')}({a[0]}, {s['axes']!r})"

    def run(self, r, s, values, env):
        (v,) = values
        f = r.xp.sum if s.op == "psum_many" else r.xp.max
        return [V(f(v.data, axis=tuple(place(v, n) for n in s["axes"])), without(v, s["axes"]), v.dtype)]


class AllGather(Operation):
    names, weight = ("all_gather",), 0.8

    def draw(self, g, name):
        x = g.pick(lambda v: v.ndim <= 1 and v.dtype in NUMBERS)
        options = [] if x is None else [*(g.v(x).names or g.known())]
        return g.s(name, (x,), axis=g.choice(options), tiled=g.v(x).ndim == 1 and g.rare()) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.lax.all_gather({a[0]}, {s['axis']!r}{', tiled=True' if s['tiled'] else ''})"

    def run(self, r, s, values, env):
        (v,), axis, xp = values, s["axis"], r.xp
        data, rest = front(xp, broadcast(xp, v, (axis,)), axis)
        data = xp.moveaxis(data, 0, len(rest))
        if s["tiled"]:
            data = xp.reshape(data, (*data.shape[: len(rest)], -1, *data.shape[len(rest) + 2 :]))
        return [V(data, rest, v.dtype)]


class PsumScatter(Operation):
    names, weight = ("psum_scatter",), 0.8

    def draw(self, g, name):
        x = g.pick(lambda v: v.ndim and v.dtype in ("f32", "bf16") and any(divides(n, v) for n in v.names))
        if x is None:
            return None
        axis = g.choice([n for n in g.v(x).names if divides(n, g.v(x))])
        return g.s(name, (x,), axis=axis, tiled=g.v(x).shape[0] != SIZES[axis] or g.rare())

    def code(self, s, a, functions, resources):
        return f"nx.lax.psum_scatter({a[0]}, {s['axis']!r}{', tiled=True' if s['tiled'] else ''})"

    def run(self, r, s, values, env):
        (v,), axis, xp = values, s["axis"], r.xp
        data, rest = front(xp, v, axis)
        total = xp.moveaxis(xp.sum(data, axis=0), len(rest), 0)  # the positional axis in front
        parts = xp.reshape(total, (SIZES[axis], -1, *total.shape[1:]))
        parts = xp.moveaxis(parts, 1, len(rest) + 1)
        if not s["tiled"]:
            parts = xp.squeeze(parts, len(rest) + 1)
        return [make(xp, parts, [axis, *rest], v.dtype)]


class AllToAll(Operation):
    """The named axis and the leading positional axis change places, or parts of it."""

    names, weight, moves = ("all_to_all",), 0.8, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.ndim and v.dtype in NUMBERS and any(divides(n, v) for n in v.names))
        if x is None:
            return None
        axis = g.choice([n for n in g.v(x).names if divides(n, g.v(x))])
        return g.s(name, (x,), axis=axis, tiled=g.v(x).shape[0] != SIZES[axis] or g.rare())

    def code(self, s, a, functions, resources):
        return f"nx.lax.all_to_all({a[0]}, {s['axis']!r}, 0, 0{', tiled=True' if s['tiled'] else ''})"

    def run(self, r, s, values, env):
        (v,), axis, xp = values, s["axis"], r.xp
        data, rest = front(xp, v, axis)
        data = xp.moveaxis(data, 1 + len(rest), 1)  # source, position, rest, other positions
        n = SIZES[axis]
        data = xp.reshape(data, (n, n, -1, *data.shape[2:]))  # source, target, within, rest, ...
        data = xp.moveaxis(data, 1, 0)  # target, source, within
        data = xp.reshape(data, (n, -1, *data.shape[3:]))
        return [make(xp, xp.moveaxis(data, 1, 1 + len(rest)), [axis, *rest], v.dtype)]


class Permute(Operation):
    names, weight, moves = ("ppermute", "pshuffle", "pbroadcast"), 0.5, True

    def draw(self, g, name):
        def axes(v):  # nothing can be broadcast from an entry of no entries
            return [axis for axis in v.names if SIZES[axis] or name != "pbroadcast"]

        x = g.pick(lambda v: axes(v) and v.dtype in NUMBERS)
        if x is None:
            return None
        return g.s(name, (x,), axis=g.choice(axes(g.v(x))), step=g.choice([1, -1, 3]), whole=g.flag())

    def _sources(self, s):
        """Who sends to every instance; `None`: nobody."""
        n, step = SIZES[s["axis"]], s["step"]
        if s.op == "pbroadcast":
            return [step % n] * n
        return [(i - step) % n if s["whole"] or 0 <= i - step < n or s.op == "pshuffle" else None for i in range(n)]

    def code(self, s, a, functions, resources):
        sources = self._sources(s)
        how = {"pbroadcast": sources[0], "pshuffle": sources}.get(
            s.op, [(p, i) for i, p in enumerate(sources) if p is not None]
        )
        return f"nx.lax.{s.op}({a[0]}, {s['axis']!r}, {how})"

    def run(self, r, s, values, env):
        sources = self._sources(s)

        def f(data):
            got = data[np.array([p or 0 for p in sources])]
            there = np.array([p is not None for p in sources]).reshape([-1] + [1] * (data.ndim - 1))
            return r.xp.where(there, got, r.xp.zeros_like(got))

        return [along(r.xp, values[0], s["axis"], f)]
