"""Windows, rolling reductions, and operations on groups.

An element is of a group, or of none: that is an array of truth values over elements and groups, and with it all of this is sums and maxima over
what is dense. A scan or a shift within groups is a sum over pairs of elements, whose second one has the name `source`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.ops_ragged import of_rows, total
from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import SIZES, V, along, elementwise, inexact, make, without

FEW = 512
WORDS = ("north", "east", "south", "west")


def _windows(xp: Any, data: Any, s: Any, mode: str, fill: float) -> Any:
    """The windows along the leading dimension, as the last one."""
    size, stride = s["size"], s["stride"]
    more = {"constant_values": fill} if mode == "constant" else {}
    wide = xp.pad(data, [s["padding"], *[(0, 0)] * (data.ndim - 1)], mode=mode, **more)
    last = (wide.shape[0] - size) // stride * stride + 1
    return xp.stack([wide[j : j + last : stride] for j in range(size)], -1)


def _out(g: Any, v: V, axis: str, count: int) -> Any:
    """A name for `count` windows: `axis` if it has this size, another one perhaps."""
    options = [n for n in g.free() if SIZES[n] == count and n not in v.names]
    options += [axis] if SIZES[axis] == count else []
    return g.choice(options) if options else None


class Windows(Operation):
    names, weight, moves = ("windows",), 0.5, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype in ("f32", "bf16", "i32") and v.data.size <= FEW)
        if x is None:
            return None
        v = g.v(x)
        axis = g.choice(v.names)
        size, stride = g.choice([1, 2, 3, 4, 8]), g.choice([1, 1, 2, 3])
        given = g.choice(["VALID", "SAME", (size - 1, 0), (size // 2, (size - 1) // 2), (1, 2)])
        n, padding = SIZES[axis], given
        if given == "SAME":
            both = max((-(-n // stride) - 1) * stride + size - n, 0)
            padding = (both // 2, both - both // 2)
        padding = (0, 0) if padding == "VALID" else padding
        length = n + sum(padding)
        rename = _out(g, v, axis, (length - size) // stride + 1) if n and length >= size else None
        if rename is None:
            return None
        outs = [None, *(o for o in g.free() if SIZES[o] == size and o not in (*v.names, rename))]
        mode = g.choice(["zero", "constant", "wrap", "edge"])
        shown = {"axis": axis, "size": size, "stride": stride, "given": given, "mode": mode}
        return g.s(name, (x,), padding=padding, rename=rename, out=g.choice(outs), **shown)

    def code(self, s, a, functions, resources):
        more = "" if s["rename"] == s["axis"] else f", rename={s['rename']!r}"
        more += "" if s["out"] is None else f", out_axis={s['out']!r}"
        more += ", fill_value=2" if s["mode"] == "constant" else ""
        shown = ", ".join(
            f"{k}={s[o]!r}" for k, o in (("size", "size"), ("stride", "stride"), ("padding", "given"), ("mode", "mode"))
        )
        return f"nx.windows({a[0]}, {s['axis']!r}, {shown}{more})"

    def run(self, r, s, values, env):
        (v,), xp = values, r.xp
        mode, fill = {"zero": ("constant", 0), "constant": ("constant", 2)}.get(s["mode"], (s["mode"], 0))
        result = along(xp, v, s["axis"], lambda data: _windows(xp, data, s, mode, fill), s["rename"])
        if s["out"] is None:
            return [result]
        return [make(xp, xp.moveaxis(result.data, -1, 0), [s["out"], *result.names], v.dtype)]

    def meetings(self, s, values, results):
        return [{*values[0].names}, {*results[0].names}]


class Rolling(Operation):
    """NaN is missing, and results without enough elements are zeros."""

    names, weight, moves = ("rolling_reduce",), 0.6, True

    def draw(self, g, name):
        kind = g.choice(["sum", "mean", "max", "min", "count", "median", "var", "own"])
        floats = kind in ("median", "var", "own")
        x = g.pick(
            lambda v: v.names and v.dtype in (("f32",) if floats else ("f32", "bf16", "i32")) and v.data.size <= FEW, nan=True
        )
        if x is None:
            return None
        v = g.v(x)
        axis = g.choice([n for n in v.names if SIZES[n]] or [None])
        if axis is None or (kind in ("max", "min", "median") and not g.distinct(v, (axis,))):
            return None
        size, stride, center = g.choice([1, 2, 3, 5]), g.choice([1, 1, 1, 2]), g.flag()
        least = 1 if v.dtype == "i32" else g.choice([None, 1, 0] if size < 2 else [None, 2, 1, 0])
        out = _out(g, v, axis, -(-SIZES[axis] // stride))
        padding = (size // 2, (size - 1) // 2) if center else (size - 1, 0)
        if out is None:
            return None
        options = {"axis": axis, "size": size, "stride": stride, "center": center, "least": least}
        return g.s(name, (x,), kind=kind, out=out, padding=padding, **options)

    def code(self, s, a, functions, resources):
        kind = "lambda w, axis: nx.nansum(nx.sin(w), axis)" if s["kind"] == "own" else repr(s["kind"])
        more = "" if s["out"] == s["axis"] else f", out_axis={s['out']!r}"
        more += "" if s["stride"] == 1 else f", stride={s['stride']}"
        more += f", center={s['center']}, min_count={s['least']}"
        return f"nx.nan_to_num(nx.rolling_reduce({a[0]}, {s['axis']!r}, size={s['size']}, reduction={kind}{more}))"

    def run(self, r, s, values, env):
        (v,), xp, kind = values, r.xp, s["kind"]
        least = s["size"] if s["least"] is None else s["least"]

        def f(data):
            known = ~xp.isnan(data)
            here = _windows(xp, xp.where(known, data, 0), s, "constant", 0)
            known = _windows(xp, known, s, "constant", False)
            count = xp.sum(known * 1, axis=-1)
            if kind == "count":
                return count
            enough, some = count >= max(least, kind not in ("sum", "own")), xp.maximum(count, 1)
            mean = xp.sum(xp.where(known, here, 0), axis=-1) / some
            if kind == "sum":
                result = xp.sum(xp.where(known, here, 0), axis=-1)
            elif kind == "own":
                result = xp.sum(xp.where(known, xp.sin(here), 0), axis=-1)
            elif kind == "mean":
                result = mean
            elif kind == "var":
                result = xp.sum(xp.where(known, (here - mean[..., None]) ** 2, 0), axis=-1) / some
            elif kind == "median":
                ordered = xp.sort(xp.where(known, here, 1e6), axis=-1)
                parts = [xp.take_along_axis(ordered, (k // 2)[..., None], -1)[..., 0] for k in (some - 1, some)]
                result = (parts[0] + parts[1]) / 2
            else:
                sign = 1 if kind == "max" else -1
                result = sign * xp.max(xp.where(known, sign * here, -1e6), axis=-1)
            return xp.where(enough, result, 0)

        dtype = "i32" if kind == "count" else inexact(v.dtype) if kind == "mean" else v.dtype
        return [along(xp, v, s["axis"], f, s["out"], dtype)]

    def meetings(self, s, values, results):
        return [{*values[0].names}, {*results[0].names}]


# --- groups -------------------------------------------------------------------------------------------------------------


class Groups(Operation):
    """What all of these take: an array, an axis, and labels that are known or come from the program, perhaps with batches."""

    dtypes: tuple[str, ...] = ("f32",)
    nan = False

    def draw(self, g, name):
        """Draws an array, an axis and labels, and what `of` makes of them."""
        x = g.pick(lambda v: v.names and v.dtype in self.dtypes and v.data.size <= FEW, self.nan)
        axes = [] if x is None else [n for n in g.v(x).names if SIZES[n]]
        if not axes:
            return None
        axis = g.choice(axes)
        if g.flag():
            by = g.pick(lambda v: v.dtype == "i32" and axis in v.names and not v.ndim and v.data.size <= 64)
            return None if by is None else self.of(g, name, (x, by), axis, None)
        count = g.choice([1, 2, 3, 4])
        numbers = [g.choice(range(-1, count)) for _ in range(SIZES[axis])]
        return self.of(g, name, (x,), axis, tuple(sorted(numbers) if g.flag() else numbers))

    def of(self, g: Any, name: str, args: tuple[int, ...], axis: str, labels: Any) -> Any:
        """A statement."""
        return g.s(name, args, axis=axis, labels=labels)

    def labels_code(self, s: Any, a: list[str]) -> str:
        """The argument `by`."""
        return a[1] if s["labels"] is None else str([*s["labels"]])

    def numbers(self, s: Any, values: list[V]) -> V:
        """The number of the group of each element."""
        if s["labels"] is not None:
            return V(np.array(s["labels"]), (s["axis"],), "i32")
        if s["axis"] not in values[1].names:
            raise Invalid
        return values[1]


def _pairs(xp: Any, by: V, axis: str) -> tuple[V, V]:
    """Whether an element `source` is of the group of each element, and its distance before it."""
    source = make(xp, by.data, ["source" if n == axis else n for n in by.names], "i32")
    same = elementwise(xp, lambda i, j: (i == j) & (i >= 0), "bool", by, source)
    n = by.data.shape[by.names.index(axis)]
    distance = V(np.arange(n)[:, None] - np.arange(n), (axis, "source"), "i32")
    return same, distance


def _moved(xp: Any, v: V, axis: str) -> V:
    return make(xp, v.data, ["source" if n == axis else n for n in v.names], v.dtype)


KINDS = ("sum", "mean", "max", "min", "count", "var", "first", "last")


class GroupReduction(Groups):
    """NaN is missing."""

    names, weight, nan, dtypes = ("group_reduce",), 0.8, True, ("f32", "f32", "bf16", "i32")

    def of(self, g, name, args, axis, labels):
        kind, v = g.choice(self.kinds), g.v(args[0])
        by = V(np.array(labels), (axis,), "i32") if labels is not None else g.v(args[1])
        names = [n for n in g.free() if n not in (*v.names, *by.names) and 0 < SIZES[n] <= 8]
        if not names or (kind in ("max", "min", "quantile") and not g.distinct(v, (axis,))):
            return None
        if kind in ("var", "quantile") and v.dtype != "f32":
            return None
        options = {"axis": axis, "labels": labels, "out": g.choice(names), "words": g.flag(), "q": g.choice([0.5, 0.3, 0.8])}
        return g.s(name, args, kind=kind, **options)

    kinds: tuple[str, ...] = KINDS

    def code(self, s, a, functions, resources):
        n, by, groups = SIZES[s["out"]], self.labels_code(s, a), f", groups={SIZES[s['out']]}"
        if s["labels"] is not None:
            if {*range(n)} == {*s["labels"]} - {-1} and s["words"]:
                groups = ""  # there is one for each label that occurs
            elif s["words"] and n <= len(WORDS):
                by = str([WORDS[i] if 0 <= i < n else "" for i in s["labels"]])
                groups = f", groups={[*WORDS[:n]]}"
        more = f", q={s['q']}" if s["kind"] == "quantile" else ""
        return f"nx.group_reduce({a[0]}, {by}, {s['axis']!r}, {s['kind']!r}, out_axis={s['out']!r}{groups}{more})"

    def run(self, r, s, values, env):
        xp, axis, kind, (v, by) = r.xp, s["axis"], s["kind"], (values[0], self.numbers(s, values))
        if s["out"] in (*v.names, *by.names):
            raise Invalid
        number = V(np.arange(SIZES[s["out"]]), (s["out"],), "i32")
        member = elementwise(xp, lambda i, g: i == g, "bool", by, number)
        member = elementwise(xp, lambda x, m: m & ~xp.isnan(x), "bool", v, member)
        v = v._replace(data=xp.where(xp.isnan(v.data), 0, v.data))
        count = total(xp, member._replace(data=member.data * 1, dtype="i32"), axis)
        if kind == "count":
            return [count]
        dtype = inexact(v.dtype) if kind in ("mean", "var") else v.dtype
        if kind in ("first", "last"):
            place = V(np.arange(SIZES[axis]), (axis,), "i32")
            sign = 1 if kind == "first" else -1
            ends = elementwise(xp, lambda i, m: xp.where(m, sign * i, SIZES[axis]), "i32", place, member)
            end = V(xp.min(ends.data, axis=ends.names.index(axis)), without(ends, (axis,)), "i32")
            member = elementwise(xp, lambda i, m, e: m & (sign * i == e), "bool", place, member, end)
            result = of_rows(xp, "sum", v, member, axis)
        elif kind == "quantile":
            result = self.quantile(xp, s, v, member, count)
        else:
            result = of_rows(xp, kind, v, member, axis)
        if (kind != "sum" and v.dtype != "i32") or kind in ("mean", "var"):
            result = elementwise(xp, lambda x, n: xp.where(n > 0, x, xp.nan), dtype, result, count)
        elif kind in ("max", "min"):
            if xp is np and not np.all(count.data):
                raise Invalid
        return [result._replace(dtype=dtype)]

    def quantile(self, xp: Any, s: Any, v: V, member: V, count: V) -> V:
        """The element at the rank, or between two."""
        wide = elementwise(xp, lambda x, m: xp.where(m, x, 1e6), v.dtype, v, member)
        dim = wide.names.index(s["axis"])
        ordered = wide._replace(data=xp.sort(wide.data, axis=dim))
        place = V(np.arange(SIZES[s["axis"]]), (s["axis"],), "i32")
        rank = elementwise(xp, lambda n: s["q"] * xp.maximum(n - 1, 0), "f32", count)

        def at(f: Any) -> V:
            hit = elementwise(xp, lambda x, i, k: xp.where(i == f(k), x, 0.0), v.dtype, ordered, place, rank)
            return total(xp, hit, s["axis"])

        near = elementwise(xp, lambda k: k + 1e-9, "f32", rank)  # 0.3 * 10 is a little less than 3
        low, high = at(lambda k: xp.floor(k + 1e-9)), at(lambda k: xp.ceil(k - 1e-9))
        return elementwise(xp, lambda a, b, k: a + (b - a) * (k - xp.floor(k)), v.dtype, low, high, near)

    def meetings(self, s, values, results):
        return [{n for v in values for n in v.names}, {*results[0].names}]


class GroupQuantile(GroupReduction):
    names, weight, moves, dtypes, kinds = ("group_quantile",), 0.3, True, ("f32",), ("quantile",)


class GroupAccumulation(Groups):
    """Results of elements without a group are zeros."""

    names, weight, moves, dtypes = ("group_accumulate",), 0.4, True, ("f32", "i32")

    def of(self, g, name, args, axis, labels):
        kind = g.choice(["sum", "max", "min", "count"])
        if kind in ("max", "min") and not g.distinct(g.v(args[0]), (axis,)):
            return None
        return g.s(name, args, axis=axis, labels=labels, kind=kind)

    def code(self, s, a, functions, resources):
        return f"nx.nan_to_num(nx.group_accumulate({a[0]}, {self.labels_code(s, a)}, {s['axis']!r}, {s['kind']!r}))"

    def run(self, r, s, values, env):
        xp, axis, (v, by) = r.xp, s["axis"], (values[0], self.numbers(s, values))
        same, distance = _pairs(xp, by, axis)
        member = elementwise(xp, lambda m, d: m & (d >= 0), "bool", same, distance)
        source = _moved(xp, v, axis)
        if s["kind"] == "count":
            source = V(xp.ones_like(source.data) * 1, source.names, "i32")
        return [of_rows(xp, "sum" if s["kind"] == "count" else s["kind"], source, member, "source")]


class GroupShift(Groups):
    names, weight, moves, dtypes = ("group_shift",), 0.4, True, ("f32", "bf16", "i32")

    def of(self, g, name, args, axis, labels):
        return g.s(name, args, axis=axis, labels=labels, offset=g.choice([1, -1, 2, 0]), fill=g.choice([0, 3]))

    def code(self, s, a, functions, resources):
        fill = "" if s["fill"] == 0 else f", fill_value={s['fill']}"
        return f"nx.group_shift({a[0]}, {s['offset']}, {self.labels_code(s, a)}, {s['axis']!r}{fill})"

    def run(self, r, s, values, env):
        xp, axis, (v, by) = r.xp, s["axis"], (values[0], self.numbers(s, values))
        same, distance = _pairs(xp, by, axis)
        before = elementwise(xp, lambda m, d: m & (d > 0), "bool", same, distance)
        rank = total(xp, before._replace(data=before.data * 1, dtype="i32"), "source")
        hit = elementwise(xp, lambda m, i, j: m & (i - j == s["offset"]), "bool", same, rank, _moved(xp, rank, axis))
        moved = of_rows(xp, "sum", _moved(xp, v, axis), hit, "source")
        found = total(xp, hit._replace(data=hit.data * 1, dtype="i32"), "source")
        return [elementwise(xp, lambda x, n: xp.where(n > 0, x, s["fill"]), v.dtype, moved, found)]
