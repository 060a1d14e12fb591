"""Reading and writing at indices, sorting, segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import SIZES, V, along, elementwise, front, make, place, spread, union, without

INDEX = ("i8", "i32")


def in_range(index: V, size: int) -> bool:
    """Whether all indices are those of an axis of that size."""
    return bool(np.all(index.data >= -size) and np.all(index.data < size))


class Index(Operation):
    """One entry along a name."""

    names, weight = ("index",), 0.6

    def draw(self, g, name):
        x = g.pick(lambda v: v.names, nan=True)
        if x is None:
            return None
        axis = g.choice(g.v(x).names)
        return g.s(name, (x,), axis=axis, at=g.choice([0, -1, SIZES[axis] // 2]))

    def code(self, s, a, functions, resources):
        return f"{a[0]}[{s['axis']!r}, {s['at']}]"

    def run(self, r, s, values, env):
        data, rest = front(r.xp, values[0], s["axis"])
        return [V(data[s["at"]], rest, values[0].dtype)]


class Take(Operation):
    """Entries along a name, at indices with names of their own; both ways of writing it."""

    names, weight = ("take", "getitem"), 1.5

    def draw(self, g, name):
        i = g.pick(lambda v: v.dtype in INDEX and (name == "take" or (v.names and not v.ndim)))
        if i is None:
            return None

        def suits(v):
            size = np.prod([SIZES[n] for n in union(v, g.v(i))])
            return size <= 4096 and any(in_range(g.v(i), SIZES[n]) for n in v.names) and v.ndim + g.v(i).ndim <= 2

        x = g.pick(suits)
        if x is None:
            return None
        axis = g.choice([n for n in g.v(x).names if in_range(g.v(i), SIZES[n])])
        return g.s(name, (x, i), axis=axis, mode=g.choice(["None", "'wrap'"]))

    def code(self, s, a, functions, resources):
        if s.op == "getitem":
            return f"{a[0]}[{{{s['axis']!r}: {a[1]}}}]"
        return f"nx.take({a[0]}, {a[1]}, {s['axis']!r}, mode={s['mode']})"

    def run(self, r, s, values, env):
        v, i = values
        return [take(r.xp, v, i, s["axis"])]

    def meetings(self, s, values, results):
        # The axis that is read gives way to those of the indices; where the indices are spread over its mesh axes, the operation says so.
        return [{n for v in values for n in v.names}, {*results[0].names}]


def take(xp: Any, v: V, i: V, axis: str) -> V:
    """By comparison of indices: a sum of which one term is not zero. Names that both have are batch names."""
    size = SIZES[axis]
    rest = without(v, (axis,))
    names = tuple(sorted({*rest, *i.names}))
    data, _ = front(xp, v, axis)  # axis, rest, positions
    data = spread(xp, V(xp.moveaxis(data, 0, -1), rest), names, i.ndim + v.ndim + 1)
    index = xp.where(i.data < 0, i.data + size, i.data)
    index = spread(xp, V(xp.reshape(index, (*index.shape, *[1] * v.ndim)), i.names), names)
    hit = index[..., None] == xp.arange(size)
    hits = xp.where(hit, data, xp.zeros_like(data))
    return V(xp.any(hits, axis=-1) if v.dtype == "bool" else xp.sum(hits, axis=-1), names, v.dtype)


class TakeAlongAxis(Operation):
    names, weight = ("take_along_axis",), 0.5

    def draw(self, g, name):
        i = g.pick(lambda v: v.dtype in INDEX and v.names and not v.ndim)
        if i is None:
            return None
        x = g.pick(lambda v: not v.ndim and any(n in g.v(i).names and in_range(g.v(i), SIZES[n]) for n in v.names))
        if x is None or len(union(g.v(i), g.v(x))) > 4:
            return None
        axis = g.choice([n for n in g.v(x).names if n in g.v(i).names and in_range(g.v(i), SIZES[n])])
        return g.s(name, (x, i), axis=axis)

    def code(self, s, a, functions, resources):
        return f"nx.take_along_axis({a[0]}, {a[1]}, {s['axis']!r})"

    def run(self, r, s, values, env):
        v, i = values
        return [take(r.xp, v, i, s["axis"])]


class Update(Operation):
    """One entry along a name is set, or added to."""

    names, weight = ("at_set", "at_add"), 0.7

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and (v.dtype == "f32" or (v.dtype == "key" and name == "at_set")))
        if x is None:
            return None
        v, axis = g.v(x), g.choice(g.v(x).names)
        at = g.choice([0, -1, SIZES[axis] // 2])
        y = g.pick(lambda w: w.dtype == v.dtype and {*w.names} <= {*v.names} - {axis} and w.shape in ((), v.shape))
        return None if y is None else g.s(name, (x, y), axis=axis, at=at)

    def code(self, s, a, functions, resources):
        return f"{a[0]}.at[{s['axis']!r}, {s['at']}].{s.op[3:]}({a[1]})"

    def run(self, r, s, values, env):
        v, w = values
        if not {*w.names} <= {*without(v, (s["axis"],))}:  # in a loop whose carry gains names
            raise Invalid
        hit = spread(r.xp, V(np.arange(SIZES[s["axis"]]) == s["at"] % SIZES[s["axis"]], (s["axis"],)), v.names, v.ndim)
        new = spread(r.xp, w, v.names, v.ndim)
        return [v._replace(data=r.xp.where(hit, new + (v.data if s.op == "at_add" else 0 * v.data), v.data))]


class UpdateMany(Operation):
    """One entry is added to for every entry of an index with names, which are batch names: `x.at[{axis: i}].add(y)`."""

    names, weight = ("at_rows",), 0.6

    def draw(self, g, name):
        i = g.pick(lambda v: v.dtype == "i32" and len(v.names) == 1 and not v.ndim)
        if i is None:
            return None

        def suits(v):
            return v.dtype == "f32" and g.v(i).names[0] not in v.names and any(in_range(g.v(i), SIZES[n]) for n in v.names)

        x = g.pick(suits)
        if x is None:
            return None
        v = g.v(x)
        axis = g.choice([n for n in v.names if in_range(g.v(i), SIZES[n])])
        names = ({*v.names} - {axis}) | {*g.v(i).names}
        y = g.pick(lambda w: w.dtype == "f32" and {*w.names} <= names and w.shape in ((), v.shape))
        return None if y is None else g.s(name, (x, i, y), axis=axis)

    def code(self, s, a, functions, resources):
        return f"{a[0]}.at[{{{s['axis']!r}: {a[1]}}}].add({a[2]})"

    def run(self, r, s, values, env):
        if s["axis"] in union(*values[1:]):
            raise Invalid
        size, places = SIZES[s["axis"]], V(np.arange(SIZES[s["axis"]]), (s["axis"],), "i32")

        def f(x, i, y, place):
            return r.xp.where(r.xp.where(i < 0, i + size, i) == place, x + y, x)

        return [elementwise(r.xp, f, "f32", *values, places)]


class Segments(Operation):
    names, weight = ("segment_sum", "segment_max"), 0.8

    def draw(self, g, name):
        i = g.pick(lambda v: v.dtype == "i32" and len(v.names) == 1 and not v.ndim)
        if i is None:
            return None
        axis = g.v(i).names[0]
        x = g.pick(lambda v: axis in v.names and v.dtype == "f32")
        if x is None:
            return None
        options = [n for n in g.free() if n not in g.v(x).names]
        if name == "segment_max":
            options = [n for n in options if {*range(SIZES[n])} <= {*g.v(i).data.tolist()}]
        return g.s(name, (x, i), axis=axis, out=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.{s.op}({a[0]}, {a[1]}, {SIZES[s['out']]}, axis={s['axis']!r}, out_axis={s['out']!r})"

    def run(self, r, s, values, env):
        v, i = values
        if i.names != (s["axis"],):
            raise Invalid
        data, rest = front(r.xp, v, s["axis"])
        hit = (
            np.arange(SIZES[s["out"]])[:, None] == np.asarray(i.data)
            if r.xp is np
            else r.xp.arange(SIZES[s["out"]])[:, None] == i.data
        )
        hit = r.xp.reshape(hit, (*hit.shape, *[1] * (data.ndim - 1)))
        if s.op == "segment_sum":
            result = r.xp.sum(r.xp.where(hit, data, 0.0), axis=1)
        else:
            result = r.xp.max(r.xp.where(hit, data, -np.inf), axis=1)
        return [make(r.xp, result, [s["out"], *rest], v.dtype)]


# --- sorting --------------------------------------------------------------------------------------------------------


class Sort(Operation):
    names, weight, moves = ("sort", "argsort", "sort_by"), 0.7, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype in ("f32", "i32"))
        if x is None:
            return None
        axis = g.choice(g.v(x).names)
        return g.s(name, (x,), axis=axis, descending=g.rare()) if g.distinct(g.v(x), (axis,)) else None

    def code(self, s, a, functions, resources):
        key = f"(nx.sign({a[0]}), 2 * {a[0]}), " if s.op == "sort_by" else ""  # the same order, with ties of the first key
        return f"nx.{s.op}({a[0]}, {key}{s['axis']!r}{', descending=True' if s['descending'] else ''})"

    def run(self, r, s, values, env):
        (v,) = values
        dim, sign = place(v, s["axis"]), -1 if s["descending"] else 1
        order = r.xp.argsort(sign * r.stop(v).data, axis=dim, stable=True)
        if s.op == "argsort":
            return [v._replace(data=order, dtype="i32")]
        return [v._replace(data=r.xp.take_along_axis(v.data, order, axis=dim))]


class TopK(Operation):
    names, weight = ("top_k",), 0.6

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype == "f32")
        if x is None:
            return None
        v = g.v(x)
        axis = g.choice(v.names)
        options = [n for n in ("b", "d", "k", "k2") if g.allowed(n) and n not in v.names and SIZES[n] <= SIZES[axis]]
        return g.s(name, (x,), 2, axis=axis, out=g.choice([None, *options])) if g.distinct(v, (axis,)) else None

    def code(self, s, a, functions, resources):
        k, out = (2, "") if s["out"] is None else (SIZES[s["out"]], f", out_axis={s['out']!r}")
        return f"nx.top_k({a[0]}, {k}, axis={s['axis']!r}{out})"

    def run(self, r, s, values, env):
        (v,) = values
        k = 2 if s["out"] is None else SIZES[s["out"]]
        dim = place(v, s["axis"])
        order = r.xp.argsort(-r.stop(v).data, axis=dim, stable=True)
        highest = v._replace(data=r.xp.take_along_axis(v.data, order, axis=dim))
        index = v._replace(data=order, dtype="i32")
        return [along(r.xp, w, s["axis"], lambda data: data[:k], s["out"]) for w in (highest, index)]


class Cumulative(Operation):
    names, weight, moves = ("cumsum", "cummax", "cumlogsumexp"), 0.5, True

    def draw(self, g, name):
        def suits(v):  # the shares of a gradient at ties depend on the layout (docs/about/laws.md)
            has_ties = name == "cummax" and np.unique(v.data).size < v.data.size
            return v.names and not has_ties and v.dtype in (("f32", "bf16") if name == "cumsum" else ("f32",))

        x = g.pick(suits)
        return None if x is None else g.s(name, (x,), axis=g.choice(g.v(x).names), reverse=g.rare())

    def code(self, s, a, functions, resources):
        return f"nx.{s.op}({a[0]}, {s['axis']!r}{', reverse=True' if s['reverse'] else ''})"

    def run(self, r, s, values, env):
        def f(data):
            data = data[::-1] if s["reverse"] else data
            if s.op == "cumsum":
                result = r.xp.cumsum(data, axis=0)
            elif s.op == "cummax":
                result = r.xp.stack([r.xp.max(data[: i + 1], axis=0) for i in range(data.shape[0])])
            else:
                result = r.xp.stack([r.xp.log(r.xp.sum(r.xp.exp(data[: i + 1]), axis=0)) for i in range(data.shape[0])])
            return result[::-1] if s["reverse"] else result

        return [along(r.xp, values[0], s["axis"], f)]


class Searchsorted(Operation):
    names, weight = ("searchsorted",), 0.3

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "f32" and len(v.names) == 1 and not v.ndim and np.all(np.diff(v.data) > 1e-3))
        if x is None:
            return None
        (axis,) = g.v(x).names

        def suits(w):
            gaps = np.abs(w.data.reshape(-1, 1) - g.v(x).data)
            return w.dtype == "f32" and axis not in w.names and gaps.min() > 1e-3

        y = g.pick(suits)
        return None if y is None else g.s(name, (x, y), axis=axis)

    def code(self, s, a, functions, resources):
        return f"nx.searchsorted({a[0]}, {a[1]}, axis={s['axis']!r})"

    def run(self, r, s, values, env):
        v, w = (r.stop(value) for value in values)
        if v.names != (s["axis"],) or s["axis"] in w.names:
            raise Invalid
        return [w._replace(data=r.xp.sum(w.data[..., None] > v.data, axis=-1), dtype="i32")]
