"""Reductions over the entries that a mask chooses, and from a value to begin with, also where entries are equal."""

from __future__ import annotations

from tests.fuzz.program import Operation
from tests.fuzz.values import V, elementwise, places, without

BEGINS = {
    "sum": (0.5, -2.0),
    "prod": (0.5, -1.0),
    "max": (-9.0, 0.5),
    "min": (9.0, -0.5),
}  # 0.5: of arguments with ties it is an entry
MASKED = (*BEGINS, "mean", "var")


class Masked(Operation):
    """The mask is where another value, or the value itself, is positive: of its names, some, or none."""

    names, weight = tuple(f"{name}_where" for name in MASKED), 1.0

    def draw(self, g, name):
        x = g.pick(lambda v: (v.names or v.ndim) and v.dtype in ("f32", "bf16"))
        if x is None:
            return None
        v = g.v(x)

        def suits(w):
            fits = {*w.names} <= {*v.names} and w.shape in ((), v.shape)
            return fits and w.dtype in ("f32", "i32") and g.apart(w.data.ravel(), 0.0)

        axes, what = tuple(g.subset([*v.names, *range(v.ndim)], 1, 3)), name.removesuffix("_where")
        begin = g.choice(BEGINS[what]) if what in BEGINS else None
        if begin is not None and g.rare():
            return g.s(name, (x,), axes=axes, begin=begin)
        y = g.pick(suits)
        if what in ("sum", "prod") and g.flag():
            begin = None
        return None if y is None else g.s(name, (x, y), axes=axes, begin=begin)

    def code(self, s, a, functions, resources):
        axes = s["axes"][0] if len(s["axes"]) == 1 else s["axes"]
        where = f", where={a[1]} > 0" if len(a) == 2 else ""
        begin = "" if s["begin"] is None else f", initial={s['begin']}"
        return f"nx.{s.op.removesuffix('_where')}({a[0]}, {axes!r}{where}{begin})"

    def run(self, r, s, values, env):
        v, options = values[0], {} if s["begin"] is None else {"initial": s["begin"]}
        if len(values) == 2:
            options["where"] = elementwise(r.xp, lambda x, y: (y > 0) & r.xp.ones_like(x, dtype=bool), "bool", *values).data
        reduce = getattr(r.xp, s.op.removesuffix("_where"))
        return [V(r.xp.asarray(reduce(v.data, axis=places(v, s["axes"]), **options)), without(v, s["axes"]), v.dtype)]
