"""Rows of different lengths: `nx.Ragged`, and contraction by group.

A token is of a row, or of none: that is an array of truth values over rows and tokens, and with it all of this is sums and maxima over what is
dense. What unused tokens hold is no part of the meaning, and is masked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import SIZES, V, elementwise, make, promote, spread, union, without

FEW = 512


def _lengths(g: Any, x: V, tokens: str, rows: str, most: int) -> tuple[tuple[int, ...] | None, list[int]]:
    """Lengths that are known, or a value of the program, perhaps with batches, that says them."""
    if g.flag():
        n = g.pick(
            lambda v: (
                v.dtype == "i32"
                and rows in v.names
                and tokens not in v.names
                and not v.ndim
                and {*v.names} - {rows} <= {*x.names}
                and np.all(np.abs(v.data) <= most)
                and np.all(np.abs(v.data).sum(v.names.index(rows)) <= SIZES[tokens])
            )
        )
        if n is not None:
            return None, [n]
    if not SIZES[tokens]:
        return (0,) * SIZES[rows], []
    lengths = [g.choice(range(1, min(most, 4, SIZES[tokens]) + 1))]  # XLA knows what becomes of rows that are all empty
    for _ in range(1, SIZES[rows]):
        lengths.append(g.choice(range(min(SIZES[tokens] - sum(lengths), most, 4) + 1)))
    return tuple(g.subset(lengths, len(lengths), len(lengths))), []


def _lengths_code(s: Any, given: str | None) -> str:
    return f"nx.abs({given})" if s["lengths"] is None else f"nx.named(jnp.array({[*s['lengths']]}, int), [{s['rows']!r}])"


def _lengths_of(xp: Any, s: Any, values: list[V]) -> V:
    if s["lengths"] is None:
        return values[-1]._replace(data=xp.abs(values[-1].data))
    return V(xp.asarray(np.array(s["lengths"], int)), (s["rows"],), "i32")


def _starts(xp: Any, lengths: V, rows: str) -> V:
    return lengths._replace(data=xp.cumsum(lengths.data, axis=lengths.names.index(rows)) - lengths.data)


def members(xp: Any, lengths: V, tokens: str, rows: str) -> V:
    """Which token is of which row."""
    place = V(np.arange(SIZES[tokens]), (tokens,), "i32")
    return elementwise(xp, lambda i, a, n: (i >= a) & (i < a + n), "bool", place, _starts(xp, lengths, rows), lengths)


def total(xp: Any, v: V, name: str) -> V:
    """The sum over a name."""
    return V(xp.sum(v.data, axis=v.names.index(name)), without(v, (name,)), v.dtype)


def _largest(xp: Any, v: V, m: V, name: str) -> tuple[V, V]:
    """The maximum over a name where `m` is true, 0 where it never is; and the values where it is, the maximum elsewhere."""
    low = elementwise(xp, lambda x, m: xp.where(m, x, -1e6), v.dtype, v, m)
    top = V(xp.max(low.data, axis=low.names.index(name)), without(low, (name,)), v.dtype)
    return elementwise(xp, lambda t: xp.where(t > -1e5, t, 0.0), v.dtype, top), low


def of_rows(xp: Any, kind: str, x: V, m: V, tokens: str) -> V:
    """A reduction by row; 0 for an empty one."""
    count = total(xp, m._replace(data=m.data * 1.0), tokens)
    sums = total(xp, elementwise(xp, lambda x, m: xp.where(m, x, 0.0), x.dtype, x, m), tokens)
    if kind == "sum":
        return sums
    least = elementwise(xp, lambda n: xp.maximum(n, 1), "f32", count)
    if kind == "mean":
        return elementwise(xp, lambda s, n: s / n, x.dtype, sums, least)
    if kind == "var":
        mean = elementwise(xp, lambda s, n: s / n, x.dtype, sums, least)
        square = elementwise(xp, lambda x, a, m: xp.where(m, (x - a) ** 2, 0.0), x.dtype, x, mean, m)
        return elementwise(xp, lambda s, n: s / n, x.dtype, total(xp, square, tokens), least)
    if kind in ("max", "min"):
        sign = 1 if kind == "max" else -1
        top, _ = _largest(xp, x._replace(data=sign * x.data), m, tokens)
        return top._replace(data=sign * top.data)
    terms = elementwise(xp, lambda x, m: xp.where(m, xp.exp(xp.where(m, x, 0.0) / 64), 0.0), x.dtype, x, m)  # logsumexp
    sums = total(xp, terms, tokens)
    return elementwise(xp, lambda s: 64 * xp.log(xp.where(s > 0, s, 1.0)), x.dtype, sums)


class Rows(Operation):
    """What all of these take: an array with tokens, rows, and lengths that are known or come from the program."""

    moves = True
    extra = 0  # values besides the array and the lengths

    def suits(self, v: V) -> bool:
        """Whether a value may be the array."""
        return True

    def draw(self, g, name):
        """Draws an array of tokens, the names of its tokens and of its rows, and what `of` makes of them."""
        x = g.pick(lambda v: v.names and v.dtype in ("f32", "bf16") and v.data.size <= FEW and self.suits(v))
        if x is None:
            return None
        tokens = g.choice(g.v(x).names)
        rows = [name for name in g.free() if name not in g.v(x).names and SIZES[name]]
        return self.of(g, name, x, tokens, g.choice(rows)) if rows else None

    def rows_code(self, s: Any, a: list[str]) -> str:
        """The `Ragged`."""
        given = a[-1] if s["lengths"] is None else None
        return f"nx.Ragged({a[0]}, {_lengths_code(s, given)}, tokens={s['tokens']!r}, rows={s['rows']!r})"

    def check(self, s: Any, values: list[V]) -> None:
        """Raises where the array has the rows, too: in a loop whose carry gains names."""
        if s["rows"] in values[0].names:
            raise Invalid

    def members(self, xp: Any, s: Any, values: list[V]) -> V:
        """Which token is of which row, in the program."""
        self.check(s, values)
        return members(xp, _lengths_of(xp, s, values), s["tokens"], s["rows"])

    def meetings(self, s, values, results):
        of_rows = {s["rows"], *values[0].names, *results[0].names} - {s["tokens"]}
        more = [{s["column"], s["tokens"], *of_rows} - {s["rows"]}] if "column" in s.options else []
        return [{*v.names} for v in (*values, *results)] + [of_rows, *more]


def _masked(text: str, rows: str) -> str:
    return f"(lambda r: nx.where(r.is_token, ({text}).values, 0))({rows})"


KINDS = ("sum", "sum", "mean", "max", "min", "logsumexp", "var")


class RowReduction(Rows):
    names, weight = ("ragged_reduce",), 0.6

    def of(self, g, name, x, tokens, rows):
        kind = g.choice(KINDS)
        if kind in ("max", "min") and not g.distinct(g.v(x), (tokens,)):
            return None
        lengths, more = _lengths(g, g.v(x), tokens, rows, 4)
        empty = 0 in (lengths if lengths is not None else g.v(more[0]).data)
        if kind in ("mean", "var") and empty:
            kind = "sum"
        return g.s(name, (x, *more), kind=kind, tokens=tokens, rows=rows, lengths=lengths)

    def code(self, s, a, functions, resources):
        rows = self.rows_code(s, a)
        if s["kind"] in ("sum", "mean", "var"):
            return f"{rows}.{s['kind']}()"
        if s["kind"] == "logsumexp":
            return f"(lambda r: nx.where(r.lengths > 0, 64 * (r / 64).logsumexp(), 0))({rows})"
        return f"(lambda r: nx.where(r.lengths > 0, r.{s['kind']}(), 0))({rows})"

    def run(self, r, s, values, env):
        return [of_rows(r.xp, s["kind"], values[0], self.members(r.xp, s, values), s["tokens"])]


class RowSoftmax(Rows):
    names, weight = ("ragged_softmax", "ragged_log_softmax", "ragged_centred"), 0.5

    def of(self, g, name, x, tokens, rows):
        lengths, more = _lengths(g, g.v(x), tokens, rows, 4)
        return g.s(name, (x, *more), tokens=tokens, rows=rows, lengths=lengths)

    def code(self, s, a, functions, resources):
        text = "r - r.sum()" if s.op == "ragged_centred" else f"r.{s.op[7:]}()"
        return _masked(text, self.rows_code(s, a))

    def run(self, r, s, values, env):
        x, xp, m = values[0], r.xp, self.members(r.xp, s, values)
        if s.op == "ragged_centred":
            sums = of_rows(xp, "sum", x, m, s["tokens"])
            terms = elementwise(xp, lambda x, t, m: xp.where(m, x - t, 0.0), x.dtype, x, sums, m)
            return [total(xp, terms, s["rows"])]
        top, _ = _largest(xp, r.stop(x), m, s["tokens"])
        shifted = elementwise(xp, lambda x, t, m: xp.where(m, x - t, 0.0), x.dtype, x, top, m)
        terms = elementwise(xp, lambda d, m: xp.where(m, xp.exp(d), 0.0), x.dtype, shifted, m)
        sums = total(xp, terms, s["tokens"])
        if s.op == "ragged_softmax":
            terms = elementwise(xp, lambda t, n: t / xp.where(n > 0, n, 1.0), x.dtype, terms, sums)
        else:
            terms = elementwise(
                xp, lambda d, n, m: xp.where(m, d - xp.log(xp.where(n > 0, n, 1.0)), 0.0), x.dtype, shifted, sums, m
            )
        return [total(xp, terms, s["rows"])]


class RowMeeting(Rows):
    """Tokens meet what their rows have: numbers that have the rows are spread."""

    names, weight = ("ragged_multiply", "ragged_spread"), 0.4

    def suits(self, v):
        return not v.ndim

    def of(self, g, name, x, tokens, rows):
        def suits(v):
            return rows in v.names and tokens not in v.names and v.dtype in ("f32", "bf16") and not v.ndim

        y = g.pick(lambda v: suits(v) and np.prod([SIZES[n] for n in union(v, g.v(x))]) <= 4096)
        if y is None:
            return None
        lengths, more = _lengths(g, g.v(x), tokens, rows, 4)
        return g.s(name, (x, y, *more), tokens=tokens, rows=rows, lengths=lengths)

    def code(self, s, a, functions, resources):
        if s.op == "ragged_spread":
            return f"(lambda r: nx.where(r.is_token, {a[0]} - r.spread({a[1]}), 0))({self.rows_code(s, a)})"
        return _masked(f"{a[1]} * r", self.rows_code(s, a))

    def run(self, r, s, values, env):
        xp, m = r.xp, self.members(r.xp, s, values)
        dtype = promote(values[0].dtype, values[1].dtype)
        if s.op == "ragged_spread":
            terms = elementwise(xp, lambda x, y, m: xp.where(m, x - y, 0.0), dtype, *values[:2], m)
        else:
            terms = elementwise(xp, lambda x, y, m: xp.where(m, x * y, 0.0), dtype, *values[:2], m)
        return [total(xp, terms, s["rows"])]


class RowTake(Rows):
    """Some rows in another order, with another name perhaps, into a buffer that may be of another size; all tokens, or their sums."""

    names, weight = ("ragged_take",), 0.4

    def of(self, g, name, x, tokens, rows):
        lengths, more = _lengths(g, g.v(x), tokens, rows, 4)
        out = g.choice([rows, *(n for n in g.free() if n not in (*g.v(x).names, rows) and SIZES[n])])
        index = tuple(g.choice(range(-SIZES[rows], SIZES[rows] + 1)) for _ in range(SIZES[out]))
        options = {"tokens": tokens, "rows": rows, "lengths": lengths, "index": index, "out": out, "sums": g.flag()}
        return g.s(name, (x, *more), **options)

    def code(self, s, a, functions, resources):
        index = f"nx.named(jnp.array({[*s['index']]}, int), [{s['out']!r}])"
        rows = f"{self.rows_code(s, a)}.take({index})"
        return f"{rows}.sum()" if s["sums"] else _masked("r", rows)

    def run(self, r, s, values, env):
        self.check(s, values)
        xp, tokens = r.xp, s["tokens"]
        x, lengths = values[0], _lengths_of(xp, s, values)
        n = SIZES[s["rows"]]
        index = np.array([i + n if i < 0 else i for i in s["index"]], int)
        place = lengths.names.index(s["rows"])
        moved = [s["out"] if name == s["rows"] else name for name in lengths.names]
        starts = _starts(xp, lengths, s["rows"])

        def read(v: V) -> V:
            taken = xp.take(v.data, np.minimum(index, n - 1), axis=place)
            shape = [-1 if i == place else 1 for i in range(taken.ndim)]
            return make(xp, xp.where((index < n).reshape(shape), taken, 0), moved, "i32")

        new, old = read(lengths), read(starts)
        if xp is np:
            sums = new.data.sum(new.names.index(s["out"]))
            if (sums > SIZES[tokens]).any() or (sums == 0).all():
                raise Invalid
        # Token t of a row that is taken was token t - its new start + its old one.
        ahead = _starts(xp, new, s["out"])
        here = V(np.arange(SIZES[tokens]), (tokens,), "i32")
        source = V(np.arange(SIZES[tokens]), ("source",), "i32")
        hit = elementwise(
            xp,
            lambda t, u, a, o, n: (t >= a) & (t < a + n) & (u == t - a + o),
            "bool",
            *(here, source, ahead, old, new),
        )
        if s["out"] == tokens:
            raise Invalid
        renamed = make(xp, x.data, ["source" if name == tokens else name for name in x.names], x.dtype)
        terms = total(xp, elementwise(xp, lambda x, h: xp.where(h, x, 0.0), x.dtype, renamed, hit), "source")
        return [total(xp, terms, tokens if s["sums"] else s["out"])]


class RowPadded(Rows):
    """Rows as columns of a padded array, or one token of each."""

    names, weight = ("ragged_padded", "ragged_pick"), 0.4

    def of(self, g, name, x, tokens, rows):
        lengths, more = _lengths(g, g.v(x), tokens, rows, 4)
        options = {"tokens": tokens, "rows": rows, "lengths": lengths}
        if name == "ragged_pick":
            return g.s(name, (x, *more), at=g.choice([0, -1, 1]), **options)
        columns = [n for n in g.free() if n not in (*g.v(x).names, rows) and SIZES[n]]
        return g.s(name, (x, *more), column=g.choice(columns), **options) if columns else None

    def code(self, s, a, functions, resources):
        if s.op == "ragged_pick":
            return f"{self.rows_code(s, a)}.pick({s['at']}, fill_value=0.5)"
        return f"{self.rows_code(s, a)}.padded({s['column']!r}, {SIZES[s['column']]}, fill=0.5)"

    def run(self, r, s, values, env):
        self.check(s, values)
        xp, x, tokens = r.xp, values[0], s["tokens"]
        lengths = _lengths_of(xp, s, values)
        if s.op == "ragged_pick":
            at = elementwise(xp, lambda n: xp.where(s["at"] < 0, n + s["at"], s["at"] + 0 * n), "i32", lengths)
        else:
            at = V(np.arange(SIZES[s["column"]]), (s["column"],), "i32")
        is_there = elementwise(xp, lambda i, n: (i >= 0) & (i < n), "bool", at, lengths)
        number = elementwise(xp, lambda i, a: i + a, "i32", at, _starts(xp, lengths, s["rows"]))
        here = V(np.arange(SIZES[tokens]), (tokens,), "i32")
        hit = elementwise(xp, lambda t, i, m: (t == i) & m, "bool", here, number, is_there)
        read = total(xp, elementwise(xp, lambda x, h: xp.where(h, x, 0.0), x.dtype, x, hit), tokens)
        return [elementwise(xp, lambda x, m: xp.where(m, x, 0.5), x.dtype, read, is_there)]


class RowsOfPadded(Rows):
    """The tokens of padded rows, by lengths or by a mask."""

    names, weight = ("from_padded",), 0.3

    def draw(self, g, name):
        x = g.pick(lambda v: len(v.names) >= 2 and v.dtype in ("f32", "bf16") and v.data.size <= FEW)
        if x is None:
            return None
        v = g.v(x)
        rows, column = g.subset(v.names, 2, 2)
        free = [n for n in g.free() if n not in v.names]
        if not free or not SIZES[rows]:
            return None
        tokens = g.choice(free)
        options = {"tokens": tokens, "rows": rows, "column": column, "lengths": None, "by": "mask"}
        mask = g.pick(
            lambda m: m.dtype == "bool" and {*m.names} == {rows, column} and not m.ndim and m.data.sum() <= SIZES[tokens]
        )
        if mask is not None and g.flag():
            return g.s(name, (x, mask), **options)
        lengths, more = _lengths(g, v, tokens, rows, SIZES[column])
        if more and column in g.v(more[0]).names:
            return None
        return g.s(name, (x, *more), **{**options, "lengths": lengths, "by": "lengths"})

    def code(self, s, a, functions, resources):
        by = f"mask={a[1]}" if s["by"] == "mask" else f"lengths={_lengths_code(s, a[-1])}"
        options = f"rows={s['rows']!r}, column={s['column']!r}, tokens={s['tokens']!r}, {by}, size={SIZES[s['tokens']]}"
        return _masked("r", f"nx.Ragged.from_padded({a[0]}, {options})")

    def run(self, r, s, values, env):
        xp, x, rows, column = r.xp, values[0], s["rows"], s["column"]
        if s["by"] == "mask":
            mask = values[1]
            counted = mask._replace(data=mask.data * 1)
            lengths, axis = total(xp, counted, column), mask.names.index(column)
            rank = counted._replace(data=xp.cumsum(counted.data, axis=axis) - counted.data)
        else:
            lengths, rank = _lengths_of(xp, s, values), V(np.arange(SIZES[column]), (column,), "i32")
            mask = elementwise(xp, lambda i, n: i < n, "bool", rank, lengths)
        starts = _starts(xp, lengths, rows)
        here = V(np.arange(SIZES[s["tokens"]]), (s["tokens"],), "i32")
        hit = elementwise(xp, lambda t, a, k, m: (t == a + k) & m, "bool", here, starts, rank, mask)
        terms = elementwise(xp, lambda x, h: xp.where(h, x, 0.0), x.dtype, x, hit)
        return [total(xp, total(xp, terms, rows), column)]


class RowAttention(Rows):
    """Tokens attend to those of their own row."""

    names, weight = ("ragged_attention",), 0.4

    def suits(self, v):
        return len(v.names) >= 2 and not v.ndim and v.dtype == "f32"

    def of(self, g, name, x, tokens, rows):
        features = g.choice([n for n in g.v(x).names if n != tokens])
        lengths, more = _lengths(g, g.v(x), tokens, rows, 4)
        if more and features in g.v(more[0]).names:
            return None
        options = {"tokens": tokens, "rows": rows, "lengths": lengths, "features": features, "causal": g.flag()}
        return g.s(name, (x, *more), **options)

    def code(self, s, a, functions, resources):
        text = f"r.attention({a[0]}, nx.sin({a[0]}), nx.cos({a[0]}), features={s['features']!r}, is_causal={s['causal']})"
        return _masked(text, self.rows_code(s, a))

    def run(self, r, s, values, env):
        xp, x, tokens, features = r.xp, values[0], s["tokens"], s["features"]
        m = self.members(xp, s, values)
        rest = sorted({*x.names, *m.names} - {tokens, features, s["rows"]})
        order = [*rest, tokens, features]
        data = xp.moveaxis(x.data, [x.names.index(n) for n in x.names], [order.index(n) for n in x.names])
        of_rows = [*rest, s["rows"], tokens]
        own = spread(xp, m, of_rows, 0)
        own = xp.transpose(own, [sorted(of_rows).index(n) for n in of_rows]) * 1.0
        same = xp.einsum("...rt,...ru->...tu", own, own) > 0
        if s["causal"]:
            same = same & np.tri(SIZES[tokens], dtype=bool)
        scores = xp.einsum("...tf,...uf->...tu", data, xp.sin(data)) / math.sqrt(SIZES[features])
        weights = xp.where(same, xp.exp(xp.where(same, scores, 0.0) / 1), 0.0)
        sums = xp.sum(weights, axis=-1, keepdims=True)
        result = xp.einsum("...tu,...uf->...tf", weights / xp.where(sums > 0, sums, 1.0), xp.cos(data))
        return [make(xp, result, order, x.dtype)]


class GroupedDot(Operation):
    """Every token meets the weights of its group."""

    names, weight = ("grouped_dot",), 0.5

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and not v.ndim and v.dtype in ("f32", "bf16") and v.data.size <= FEW)
        if x is None:
            return None
        v = g.v(x)
        w = g.pick(lambda w: {*w.names} & {*v.names} and {*w.names} - {*v.names} and not w.ndim and w.dtype in ("f32", "bf16"))
        if w is None or np.prod([SIZES[n] for n in union(v, g.v(w))]) > 8192:
            return None
        contracted = tuple(g.subset(sorted({*v.names} & {*g.v(w).names}), 1, 2))
        group = g.choice(sorted({*g.v(w).names} - {*v.names}))
        ids = g.pick(lambda i: i.dtype == "i32" and not i.ndim and {*i.names} <= {*v.names} - {*contracted})
        return None if ids is None else g.s(name, (x, w, ids), axes=contracted, group=group)

    def code(self, s, a, functions, resources):
        return f"nx.nn.grouped_dot({a[0]}, {a[1]}, {s['axes']!r}, groups={a[2]}, group={s['group']!r})"

    def run(self, r, s, values, env):
        xp, (x, w, ids) = r.xp, values
        group = V(np.arange(SIZES[s["group"]]), (s["group"],), "i32")
        is_own = elementwise(xp, lambda i, j: i == j, "bool", ids, group)
        result = elementwise(xp, lambda x, w, h: xp.where(h, x * w, 0.0), promote(x.dtype, w.dtype), x, w, is_own)
        for name in (*s["axes"], s["group"]):
            result = total(xp, result, name)
        return [result]

    def meetings(self, s, values, results):
        return [{*v.names} for v in (*values, *results)]


class RowDot(Rows):
    """Every token meets the weights of its row."""

    names, weight = ("ragged_dot",), 0.3

    def suits(self, v):
        return len(v.names) >= 2 and not v.ndim

    def of(self, g, name, x, tokens, rows):
        names = {*g.v(x).names} - {tokens}
        w = g.pick(
            lambda w: (
                rows in w.names and names & {*w.names} and tokens not in w.names and not w.ndim and w.dtype in ("f32", "bf16")
            )
        )
        if w is None or np.prod([SIZES[n] for n in union(g.v(x), g.v(w))]) > 8192:
            return None
        contracted = tuple(g.subset(sorted(names & {*g.v(w).names}), 1, 2))
        lengths, more = _lengths(g, g.v(x), tokens, rows, 4)
        if more and {*contracted} & {*g.v(more[0]).names}:
            return None
        return g.s(name, (x, w, *more), tokens=tokens, rows=rows, lengths=lengths, axes=contracted)

    def code(self, s, a, functions, resources):
        return _masked(f"r.dot({a[1]}, {s['axes']!r})", self.rows_code(s, a))

    def run(self, r, s, values, env):
        xp, m, (x, w) = r.xp, self.members(r.xp, s, values), values[:2]
        result = elementwise(xp, lambda x, w, m: xp.where(m, x * w, 0.0), promote(x.dtype, w.dtype), x, w, m)
        for name in (*s["axes"], s["rows"]):
            result = total(xp, result, name)
        return [result]
