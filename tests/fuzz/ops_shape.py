"""Names and shapes: renaming, merging, splitting, joining, conversion."""

from __future__ import annotations

import numpy as np

from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import NUMBERS, SIZES, V, along, broadcast, front, make, promote, spread, union, without

MERGES = {
    **{"a": ("b", "k"), "a2": ("k", "b"), "c": ("d", "k"), "c2": ("k2", "d")},
    **{"b": ("b2", "o"), "k2": ("o2", "k"), "e": ("k", "e2"), "e2": ("e", "b")},
}


class Rename(Operation):
    names, weight = ("rename",), 3.0

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype != "bool")
        if x is None:
            return None
        names, renames = g.v(x).names, {}
        for old in g.subset(names, 1, 2):
            options = [n for n in g.twins(old) if n not in names and n not in renames.values()]
            if options:
                renames[old] = g.choice(options)
        pairs = [(p, q) for p in names for q in names if p < q and SIZES[p] == SIZES[q]]
        if pairs and (not renames or g.rare()):
            p, q = g.choice(pairs)
            renames = {p: q, q: p}
        return g.s(name, (x,), renames=renames) if renames else None

    def code(self, s, a, functions, resources):
        return f"nx.rename({a[0]}, {s['renames']})"

    def run(self, r, s, values, env):
        (v,) = values
        return [make(r.xp, v.data, [s["renames"].get(n, n) for n in v.names], v.dtype)]

    def meetings(self, s, values, results):
        return [{*results[0].names}]


class RenameNarrow(Rename):
    """Sent in a narrow format, and compared with what was not, within the bound."""

    names, weight = ("rename_narrow",), 0.6

    def draw(self, g, name):
        x = None if g.forward else g.pick(lambda v: v.names and v.dtype in ("f32", "bf16"))
        if x is None:
            return None
        names = g.v(x).names
        old = g.choice(names)
        options = [n for n in g.twins(old) if n not in names]
        if not options:
            return None
        return g.s(name, (x,), renames={old: g.choice(options)}, wire=g.choice(["bf16", "float8_e4m3", "int8"]))

    def code(self, s, a, functions, resources):
        renames, wire = s["renames"], s["wire"]
        return f"within(nx.rename({a[0]}, {renames}, wire={wire!r}), nx.rename({a[0]}, {renames}), {wire!r})"


class Merge(Operation):
    names, weight = ("merge_axes",), 0.6

    def draw(self, g, name):
        x = g.pick(lambda v: any({*parts} <= {*v.names} and whole not in v.names for whole, parts in MERGES.items()))
        if x is None:
            return None
        names = {*g.v(x).names}
        options = [whole for whole, parts in MERGES.items() if {*parts} <= names and whole not in names and g.allowed(whole)]
        return g.s(name, (x,), whole=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.merge_axes({a[0]}, {MERGES[s['whole']]}, {s['whole']!r})"

    def run(self, r, s, values, env):
        (v,), parts = values, MERGES[s["whole"]]
        rest = without(v, parts)
        order = [*(v.names.index(p) for p in parts), *(v.names.index(n) for n in rest), *range(len(v.names), v.data.ndim)]
        data = r.xp.transpose(v.data, order)
        return [make(r.xp, r.xp.reshape(data, (SIZES[s["whole"]], *data.shape[2:])), [s["whole"], *rest], v.dtype)]


class SplitAxis(Operation):
    names, weight = ("split_axis",), 0.6

    def draw(self, g, name):
        x = g.pick(lambda v: any(whole in v.names and not {*parts} & {*v.names} for whole, parts in MERGES.items()))
        if x is None:
            return None
        names = {*g.v(x).names}
        options = [w for w, parts in MERGES.items() if w in names and not {*parts} & names and all(map(g.allowed, parts))]
        return g.s(name, (x,), whole=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        sizes = {part: SIZES[part] for part in MERGES[s["whole"]]}
        return f"nx.split_axis({a[0]}, {s['whole']!r}, {sizes})"

    def run(self, r, s, values, env):
        (v,), parts = values, MERGES[s["whole"]]
        data, rest = front(r.xp, v, s["whole"])
        return [make(r.xp, r.xp.reshape(data, (*(SIZES[p] for p in parts), *data.shape[1:])), [*parts, *rest], v.dtype)]


class Rearrange(Operation):
    """One name to two, or two to one, by a pattern."""

    names, weight = ("rearrange",), 0.6

    def draw(self, g, name):
        x = g.pick(lambda v: not v.ndim and any(self._fits(g, v, w, split) for w in MERGES for split in (True, False)))
        if x is None:
            return None
        whole, split = g.choice([(w, split) for w in MERGES for split in (True, False) if self._fits(g, g.v(x), w, split)])
        return g.s(name, (x,), whole=whole, split=split)

    def _fits(self, g, v, whole, split):
        names, parts = {*v.names}, {*MERGES[whole]}
        if split:
            return whole in names and not parts & names and all(map(g.allowed, parts))
        return parts <= names and whole not in names and g.allowed(whole)

    def code(self, s, a, functions, resources):
        p, q = MERGES[s["whole"]]
        grouped, apart = f"{{{s['whole']}=({p} {q})}}", f"{{{p}, {q}}}"
        if s["split"]:
            return f"nx.rearrange({a[0]}, '{grouped} -> {apart}', {p}={SIZES[p]}, {q}={SIZES[q]})"
        return f"nx.rearrange({a[0]}, '{apart} -> {grouped}')"

    def run(self, r, s, values, env):
        (v,), parts = values, MERGES[s["whole"]]
        if s["split"]:
            data, rest = front(r.xp, v, s["whole"])
            return [make(r.xp, r.xp.reshape(data, (*(SIZES[p] for p in parts), *data.shape[1:])), [*parts, *rest], v.dtype)]
        order = [v.names.index(p) for p in parts]
        rest = [n for n in v.names if n not in parts]
        data = r.xp.transpose(v.data, [*order, *(v.names.index(n) for n in rest)])
        return [make(r.xp, r.xp.reshape(data, (SIZES[s["whole"]], *data.shape[2:])), [s["whole"], *rest], v.dtype)]


class Stack(Operation):
    names, weight = ("stack",), 0.5

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype in NUMBERS)
        y = None if x is None else g.pick(lambda v: v.dtype == g.v(x).dtype and v.shape == g.v(x).shape)
        if y is None:
            return None
        options = [n for n in ("k", "k2") if n not in union(g.v(x), g.v(y)) and g.allowed(n)]
        return g.s(name, (x, y), axis=g.choice([*options, 0]))

    def code(self, s, a, functions, resources):
        return f"nx.stack([{a[0]}, {a[1]}], axis={s['axis']!r})"

    def run(self, r, s, values, env):
        names = union(*values)
        full = [broadcast(r.xp, v, names).data for v in values]
        dtype = promote(*(v.dtype for v in values))
        if s["axis"] == 0:
            return [V(r.xp.stack(full, len(names)), names, dtype)]
        return [make(r.xp, r.xp.stack(full, 0), [s["axis"], *names], dtype)]


class Concatenate(Operation):
    names, weight, moves = ("concatenate",), 0.5, True

    def draw(self, g, name):
        x = g.pick(lambda v: {"b", "b2", "d"} & {*v.names} and v.dtype in ("f32", "bf16"))
        if x is None:
            return None
        v = g.v(x)
        axis = g.choice(sorted({"b", "b2", "d"} & {*v.names}))
        y = g.pick(lambda w: axis in w.names and w.dtype == v.dtype and w.shape == v.shape)
        options = [n for n in (("c", "c2") if axis == "d" else ("a", "a2")) if g.allowed(n) and n not in union(v, g.v(y))]
        return g.s(name, (x, y), axis=axis, out=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.concatenate([{a[0]}, {a[1]}], {s['axis']!r}, out_axis={s['out']!r})"

    def run(self, r, s, values, env):
        names = union(*values)
        full = [front(r.xp, broadcast(r.xp, v, names), s["axis"])[0] for v in values]
        rest = [n for n in names if n != s["axis"]]
        return [make(r.xp, r.xp.concatenate(full, 0), [s["out"], *rest], promote(*(v.dtype for v in values)))]


class ConcatenateParts(Operation):
    """Parts by name: each has an axis of its own."""

    names, weight, moves = ("concatenate_parts",), 0.5, True

    def draw(self, g, name):
        x = g.pick(lambda v: "b" in v.names and "b2" not in v.names and v.dtype in ("f32", "bf16"))
        if x is None:
            return None
        y = g.pick(lambda w: "b2" in w.names and "b" not in w.names and w.dtype == g.v(x).dtype)
        if y is None:
            return None
        options = [n for n in ("a", "a2") if g.allowed(n) and n not in union(g.v(x), g.v(y))]
        return g.s(name, (x, y), out=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.concatenate({{'b': {a[0]}, 'b2': {a[1]}}}, out_axis={s['out']!r})"

    def run(self, r, s, values, env):
        rest = [n for n in union(*values) if n not in ("b", "b2")]
        full = [front(r.xp, broadcast(r.xp, v, (name, *rest)), name)[0] for v, name in zip(values, ("b", "b2"), strict=True)]
        return [make(r.xp, r.xp.concatenate(full, 0), [s["out"], *rest], promote(*(v.dtype for v in values)))]


class Split(Operation):
    names, weight, moves = ("split",), 0.5, True

    def draw(self, g, name):
        x = g.pick(lambda v: {"a", "a2", "c"} & {*v.names} and v.dtype in NUMBERS)
        if x is None:
            return None
        axis = g.choice(sorted({"a", "a2", "c"} & {*g.v(x).names}))
        options = [n for n in (("d",) if axis == "c" else ("b", "b2")) if g.allowed(n) and n not in g.v(x).names]
        return g.s(name, (x,), 2, axis=axis, out=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.split({a[0]}, 2, {s['axis']!r}, out_axis={s['out']!r})"

    def run(self, r, s, values, env):
        data, rest = front(r.xp, values[0], s["axis"])
        return [make(r.xp, part, [s["out"], *rest], values[0].dtype) for part in r.xp.split(data, 2, 0)]

    def meetings(self, s, values, results):
        return [{*results[0].names}]


class SplitParts(Split):
    names, weight = ("split_parts",), 0.5

    def draw(self, g, name):
        x = g.pick(lambda v: {"a", "a2"} & {*v.names} and not {"b", "b2"} & {*v.names} and v.dtype in NUMBERS)
        if x is None or not (g.allowed("b") and g.allowed("b2")):
            return None
        return g.s(name, (x,), 2, axis=g.choice(sorted({"a", "a2"} & {*g.v(x).names})))

    def code(self, s, a, functions, resources):
        return f"nx.split({a[0]}, {{'b': {SIZES['b']}, 'b2': {SIZES['b2']}}}, {s['axis']!r}).values()"

    def run(self, r, s, values, env):
        data, rest = front(r.xp, values[0], s["axis"])
        return [
            make(r.xp, part, [name, *rest], values[0].dtype)
            for part, name in zip(r.xp.split(data, 2, 0), ("b", "b2"), strict=True)
        ]

    def meetings(self, s, values, results):
        return [{*v.names} for v in results]


class Positional(Operation):
    """Names to positions, all of them."""

    names, weight = ("positional",), 0.5

    def draw(self, g, name):
        x = g.pick(lambda v: 0 < len(v.names) <= 2 and v.ndim <= 1 and v.dtype in NUMBERS)
        return None if x is None else g.s(name, (x,), order=tuple(g.subset(g.v(x).names, len(g.v(x).names), 2)))

    def code(self, s, a, functions, resources):
        return f"nx.positional({a[0]}, {[*s['order'], ...]!r})".replace("Ellipsis", "...")

    def run(self, r, s, values, env):
        (v,) = values
        order = [v.names.index(n) for n in s["order"]]
        return [V(r.xp.transpose(v.data, [*order, *range(len(order), v.data.ndim)]), (), v.dtype)]


class Named(Operation):
    """A leading positional axis gets a name."""

    names, weight = ("named",), 0.8

    def draw(self, g, name):
        x = g.pick(lambda v: v.ndim and any(v.shape[0] == SIZES[n] for n in SIZES) and v.dtype in NUMBERS)
        if x is None:
            return None
        options = [n for n in g.free() if SIZES[n] == g.v(x).shape[0] and n not in g.v(x).names]
        return g.s(name, (x,), name=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.named({a[0]}, [{s['name']!r}, ...])"

    def run(self, r, s, values, env):
        (v,) = values
        return [make(r.xp, r.xp.moveaxis(v.data, len(v.names), 0), [s["name"], *v.names], v.dtype)]


class OneHot(Operation):
    names, weight = ("one_hot",), 0.4

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "i32" and len(v.names) <= 2)
        options = [] if x is None else [n for n in g.free() if n not in g.v(x).names]
        return g.s(name, (x,), axis=g.choice(options)) if options else None

    def code(self, s, a, functions, resources):
        return f"nx.nn.one_hot({a[0]}, {SIZES[s['axis']]}, axis={s['axis']!r})"

    def run(self, r, s, values, env):
        names = sorted({*values[0].names, s["axis"]})
        if s["axis"] in values[0].names:
            raise Invalid
        index = spread(r.xp, V(np.arange(SIZES[s["axis"]]), (s["axis"],)), names, values[0].ndim)
        return [V(r.xp.asarray(spread(r.xp, values[0], names) == index, float), tuple(names), "f32")]


class Pad(Operation):
    names, weight, moves = ("pad",), 0.5, True

    def draw(self, g, name):
        x = g.pick(lambda v: {"b", "b2", "c"} & {*v.names} and v.dtype in ("f32", "bf16"))
        if x is None:
            return None
        axis = g.choice(sorted({"b", "b2", "c"} & {*g.v(x).names}))
        options = [n for n in (("a", "a3") if axis == "c" else ("c", "c2")) if g.allowed(n) and n not in g.v(x).names]
        mode = g.choice(["constant", "edge", "wrap", "reflect"])
        return (
            g.s(name, (x,), axis=axis, out=g.choice(options), mode=mode, width=g.choice([(1, 1), (2, 0)])) if options else None
        )

    def code(self, s, a, functions, resources):
        out = f"out_axis={{{s['axis']!r}: {s['out']!r}}}"
        return f"nx.pad({a[0]}, {{{s['axis']!r}: {s['width']}}}, {s['mode']!r}, {out})"

    def run(self, r, s, values, env):
        def padded(data):
            return r.xp.pad(data, [s["width"], *[(0, 0)] * (data.ndim - 1)], mode=s["mode"])

        return [along(r.xp, values[0], s["axis"], padded, s["out"])]
