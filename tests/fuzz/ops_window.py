"""Neighbours: rolls, differences, windows, convolution."""

from __future__ import annotations

import numpy as np

from tests.fuzz.program import Operation
from tests.fuzz.values import SIZES, V, along, make, place, promote, spread, union


class Roll(Operation):
    """One axis or two, with a shift that is an integer, a NumPy array or a JAX array."""

    names, weight, moves = ("roll",), 0.8, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.names)
        if x is None or g.v(x).dtype == "key":
            return None
        axes = tuple(g.subset([*g.v(x).names, *range(g.v(x).ndim)], 1, 2))
        shifts = tuple(g.choice([1, -1, 3]) for _ in axes)
        return g.s(name, (x,), axes=axes, shifts=shifts, kind=g.choice(["tuple", "np.array", "jnp.array"]))

    def code(self, s, a, functions, resources):
        if len(s["axes"]) == 1:
            shift = s["shifts"][0] if s["kind"] == "tuple" else f"{s['kind']}({s['shifts'][0]})"
            return f"nx.roll({a[0]}, {shift}, {s['axes'][0]!r})"
        shift = s["shifts"] if s["kind"] == "tuple" else f"{s['kind']}({[*s['shifts']]})"
        return f"nx.roll({a[0]}, {shift}, {s['axes']!r})"

    def run(self, r, s, values, env):
        (v,) = values
        data = v.data
        for axis, shift in zip(s["axes"], s["shifts"], strict=True):
            data = r.xp.roll(data, shift, place(v, axis))
        return [v._replace(data=data)]


class Shift(Operation):
    names, weight, moves = ("shift",), 0.4, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype in ("f32", "bf16"))
        return None if x is None else g.s(name, (x,), axis=g.choice(g.v(x).names), offset=g.choice([1, -1, 2]))

    def code(self, s, a, functions, resources):
        return f"nx.shift({a[0]}, {s['offset']}, {s['axis']!r})"

    def run(self, r, s, values, env):
        def f(data):
            n, offset = data.shape[0], s["offset"]
            zeros = r.xp.zeros_like(data[: min(abs(offset), n)])
            return r.xp.concatenate([zeros, data], 0)[:n] if offset > 0 else r.xp.concatenate([data, zeros], 0)[-n:]

        return [along(r.xp, values[0], s["axis"], f)]


class Flip(Operation):
    names, weight, moves = ("flip",), 0.4, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.names)
        if x is None or g.v(x).dtype == "key":
            return None
        return g.s(name, (x,), axis=g.choice(g.v(x).names))

    def code(self, s, a, functions, resources):
        return f"nx.flip({a[0]}, {s['axis']!r})"

    def run(self, r, s, values, env):
        return [along(r.xp, values[0], s["axis"], lambda data: data[::-1])]


class Diff(Operation):
    names, weight, moves = ("diff",), 0.3, True

    def draw(self, g, name):
        x = g.pick(lambda v: {"b", "b2"} & {*v.names} and "d" not in v.names and v.dtype == "f32")
        if x is None or not g.allowed("d"):
            return None
        return g.s(name, (x,), axis=g.choice(sorted({"b", "b2"} & {*g.v(x).names})))

    def code(self, s, a, functions, resources):
        return f"nx.diff({a[0]}, 1, {s['axis']!r}, out_axis='d')"

    def run(self, r, s, values, env):
        return [along(r.xp, values[0], s["axis"], lambda data: data[1:] - data[:-1], "d")]


class Halo(Operation):
    names, weight, moves = ("halo",), 0.5, True

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype in ("f32", "bf16") and v.data.size <= 1024)
        if x is None:
            return None
        out = "d" if g.allowed("d") and "d" not in g.v(x).names and g.flag() else None
        mode = g.choice(["zero", "wrap", "edge"])
        return g.s(name, (x,), axis=g.choice(g.v(x).names), out=out, reach=g.choice([(1, 1), (2, 0)]), mode=mode)

    def code(self, s, a, functions, resources):
        out = "" if s["out"] is None else f", out_axis={s['out']!r}"
        return f"nx.halo({a[0]}, {s['axis']!r}, {s['reach'][0]}, {s['reach'][1]}, mode={s['mode']!r}{out})"

    def run(self, r, s, values, env):
        (v,), xp = values, r.xp
        mode = {"zero": "constant", "wrap": "wrap", "edge": "edge"}[s["mode"]]

        def f(data):
            wide = xp.pad(data, [s["reach"], *[(0, 0)] * (data.ndim - 1)], mode=mode)
            return xp.stack([wide[j : j + data.shape[0]] for j in range(3)], -1)

        window = along(xp, v, s["axis"], f)
        if s["out"] is None:
            return [window]
        return [make(xp, xp.moveaxis(window.data, -1, 0), [s["out"], *window.names], v.dtype)]


class Conv(Operation):
    """One name or none of features, one that is convolved over; stride 1 or 2, a kernel of two or three entries."""

    names, weight, moves = ("conv",), 0.8, True

    def draw(self, g, name):
        kernel = g.pick(lambda v: {"d", "k"} & {*v.names} and v.dtype == "f32" and not v.ndim and len(v.names) <= 3)
        if kernel is None:
            return None
        w = g.v(kernel)
        tap = g.choice(sorted({"d", "k"} & {*w.names}))
        sliding = {"a", "a2", "b", "c"} - {*w.names}
        x = g.pick(lambda v: v.dtype == "f32" and not v.ndim and tap not in v.names and sliding & {*v.names})
        if x is None:
            return None
        v = g.v(x)
        axis = g.choice(sorted(sliding & {*v.names}))
        inner = g.choice([None, *sorted(({*v.names} & {*w.names}) - {tap})])
        only = sorted({*w.names} - {*v.names, tap})
        stride = g.choice([1, 2])
        outs = [n for n in g.free() if SIZES[n] == -(-SIZES[axis] // stride) and n not in union(v, w)]
        outs += [axis] if stride == 1 else []
        if len(only) > 1 or not outs:
            return None
        outer = only[0] if only else None
        return g.s(name, (x, kernel), axis=axis, tap=tap, inner=inner, outer=outer, stride=stride, out=g.choice(outs))

    def code(self, s, a, functions, resources):
        features = "".join(
            f", {k}={s[o]!r}" for k, o in (("features_in", "inner"), ("features_out", "outer")) if s[o] is not None
        )
        out = "" if s["out"] == s["axis"] else f", out_axis={{{s['axis']!r}: {s['out']!r}}}"
        axes = f"({s['axis']!r},), kernel_axis=({s['tap']!r},)"
        return f"nx.conv({a[0]}, {a[1]}, {axes}{features}, strides={s['stride']}{out})"

    def run(self, r, s, values, env):
        (v, w), xp = values, r.xp
        size, stride, taps = SIZES[s["axis"]], s["stride"], SIZES[s["tap"]]
        total = max((-(-size // stride) - 1) * stride + taps - size, 0)
        ends = (total // 2, total - total // 2)

        def f(data):
            wide = xp.pad(data, [ends, *[(0, 0)] * (data.ndim - 1)])
            return xp.stack([wide[j : j + (size - 1) // stride * stride + 1 : stride] for j in range(taps)], -1)

        window = along(xp, v, s["axis"], f, s["out"])
        window = make(xp, xp.moveaxis(window.data, -1, 0), [s["tap"], *window.names], v.dtype)
        names = union(window, w)
        product = spread(xp, window, names) * spread(xp, w, names)
        gone = [s["tap"]] + ([s["inner"]] if s["inner"] is not None else [])
        kept = [n for n in names if n not in gone]
        return [V(xp.sum(product, axis=tuple(names.index(n) for n in gone)), tuple(kept), promote(v.dtype, w.dtype))]

    def meetings(self, s, values, results):
        return [{*values[0].names, *values[1].names}, {*values[1].names, *results[0].names}]


class Convolve(Operation):
    """NumPy's convolution with a fixed kernel."""

    names, weight, moves = ("convolve",), 0.2, True

    def draw(self, g, name):
        # Shorter than the kernel, it would be the kernel that says the length of the result.
        x = g.pick(lambda v: len(v.names) == 1 and not v.ndim and v.dtype == "f32" and v.data.size >= 3)
        return None if x is None else g.s(name, (x,), axis=g.v(x).names[0])

    def code(self, s, a, functions, resources):
        return f"nx.convolve({a[0]}, jnp.array([1.0, -2.0, 0.5]), 'same', axis={s['axis']!r})"

    def run(self, r, s, values, env):
        kernel = np.array([1.0, -2.0, 0.5])

        def f(data):
            return r.xp.stack(
                [sum(kernel[j] * data[i + 1 - j] for j in range(3) if 0 <= i + 1 - j < len(data)) for i in range(len(data))]
            )

        return [along(r.xp, values[0], s["axis"], f)]
