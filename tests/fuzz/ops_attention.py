"""Attention by name: heads that share keys, other names for the keys' positions, sinks, and the logarithm of the sum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.fuzz.ops_ragged import total
from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import SIZES, V, elementwise, make, place, without

KEYS = "keys"  # the positions of the keys in scores, which no value has


class Attention(Operation):
    """Queries are `sin(x)`; keys and values come from the sum of `x` over the heads, times a number for each of their own heads."""

    names, weight = ("attention",), 0.9
    moves = True

    def draw(self, g, name):
        x = g.pick(lambda v: len(v.names) >= 3 and not v.ndim and v.dtype in ("f32", "bf16") and v.data.size <= 512)
        if x is None:
            return None
        pos, features, heads = g.subset(g.v(x).names, 3, 3)
        shared = [n for n in g.free() if SIZES[n] and SIZES[heads] % SIZES[n] == 0 and n not in g.v(x).names]
        twins = [n for n in g.twins(pos) if n not in g.v(x).names]
        key_heads = g.choice([None, *shared, *shared])
        key_axis = g.choice([None, None, *twins]) if twins else None
        if key_axis is not None and key_axis == key_heads:
            return None
        window = g.choice([None, None, None, 1, (2, 0), (0, 1)])
        options = {"pos": pos, "features": features, "heads": heads, "key_heads": key_heads, "key_axis": key_axis}
        options |= {"causal": g.flag(), "window": window, "cap": g.choice([None, None, 0.6])}
        options |= {"sinks": g.choice([None, None, 0.4]), "residual": g.choice([False, False, True])}
        if options["causal"] and key_axis is None:  # the keys then have the mesh axes of the queries
            options["balance"] = g.choice([None, "zigzag", "zigzag"])
        return g.s(name, (x,), **options)

    def code(self, s, a, functions, resources):
        given = f"axis={s['pos']!r}, features={s['features']!r}, is_causal={s['causal']}"
        key = f"nx.sum({a[0]}, {s['heads']!r}) / {SIZES[s['heads']]}"
        if s["key_axis"] is not None:
            key = f"nx.rename({key}, {{{s['pos']!r}: {s['key_axis']!r}}})"
            given += f", key_axis={s['key_axis']!r}"
        if s["key_heads"] is not None:
            scale = f"nx.named(jnp.arange({SIZES[s['key_heads']]}) * 0.5 + 0.5, [{s['key_heads']!r}])"
            key = f"({key}) * {scale}.astype({a[0]}.dtype)"
            given += f", heads={s['heads']!r}, key_heads={s['key_heads']!r}"
        if s["window"] is not None:
            given += f", local_window_size={s['window']!r}"
        if s.options.get("cap") is not None:
            given += f", soft_cap={s['cap']!r}"
        if s.options.get("balance") is not None:
            given += f", balance={s['balance']!r}"
        if s.options.get("sinks") is not None:
            given += f", sinks=nx.named(jnp.arange({SIZES[s['heads']]}) * {s['sinks']}, [{s['heads']!r}])"
        call = f"nx.nn.dot_product_attention(nx.sin({a[0]}), nx.cos(k), k, {given}"
        if s.options.get("residual"):
            call = f"(lambda y: y[0] + nx.sin(y[1]).astype(y[0].dtype))({call}, return_residual=True))"
        else:
            call += ")"
        return f"(lambda k: {call})({key})"

    def run(self, r, s, values, env):
        xp, (x,) = r.xp, values
        if {s["key_heads"], s["key_axis"]} & {*x.names}:  # in a loop whose carry gains names
            raise Invalid
        pos, features, heads = s["pos"], s["features"], s["heads"]
        key = total(xp, x, heads)
        key = key._replace(data=key.data / SIZES[heads])
        if s["key_heads"] is not None:  # every head of the queries has that of the keys: consecutive ones share
            group = SIZES[heads] // SIZES[s["key_heads"]]
            scale = V(xp.asarray(0.5 + 0.5 * (np.arange(SIZES[heads]) // group)), (heads,), "f32")
            key = elementwise(xp, lambda k, n: k * n, x.dtype, key, scale)
        key = self._with_keys(xp, key, pos)
        query = x._replace(data=xp.sin(x.data))
        scores = total(xp, elementwise(xp, lambda q, k: q * xp.cos(k), "f32", query, key), features)
        i, j = V(np.arange(SIZES[pos]), (pos,), "i32"), V(np.arange(SIZES[pos]), (KEYS,), "i32")
        seen = elementwise(xp, lambda i, j: self._sees(s, i, j), "bool", i, j)
        scores = elementwise(xp, lambda a: self._limited(xp, s, a / math.sqrt(SIZES[features])), "f32", scores)
        powers = elementwise(xp, lambda a, m: xp.where(m, xp.exp(xp.where(m, a, 0.0)), 0.0), "f32", scores, seen)
        sums = total(xp, powers, KEYS)
        if s.options.get("sinks") is not None:
            sinks = V(xp.asarray(np.arange(SIZES[heads]) * s["sinks"]), (heads,), "f32")
            sums = elementwise(xp, lambda t, n: t + xp.exp(n), "f32", sums, sinks)
        weights = elementwise(xp, lambda p, t: p / t, "f32", powers, sums)
        result = total(xp, elementwise(xp, lambda w, k: w * k, x.dtype, weights, key), KEYS)
        if s.options.get("residual"):
            result = elementwise(xp, lambda y, t: y + xp.sin(xp.log(t)), x.dtype, result, sums)
        return [result._replace(dtype=x.dtype)]

    @staticmethod
    def _limited(xp: Any, s: Any, scores: Any) -> Any:
        cap = s.options.get("cap")
        return scores if cap is None else cap * xp.tanh(scores / cap)

    @staticmethod
    def _with_keys(xp: Any, key: V, pos: str) -> V:
        data = xp.moveaxis(key.data, place(key, pos), 0)
        return make(xp, data, [KEYS, *without(key, (pos,))], key.dtype)

    @staticmethod
    def _sees(s: Any, i: Any, j: Any) -> Any:
        window = s["window"]
        left, right = (SIZES["a"],) * 2 if window is None else (window,) * 2 if isinstance(window, int) else window
        return (j >= i - left) & (j <= i + right) & ((j <= i) | (not s["causal"]))

    def meetings(self, s, values, results):
        scores = {*values[0].names} - {s["pos"]} | {s["key_axis"] or s["pos"]}  # both positions may live on one mesh axis
        keys = scores - {s["heads"]} | ({s["key_heads"]} - {None})
        return [{*values[0].names}, scores, keys, {*results[0].names}]


def cannot_share(s: Any, layout: Any) -> bool:
    """Whether a layout has the heads of the keys elsewhere than those of the queries. A `SerialLoop` is the place of one name only."""
    if s["key_heads"] is None:
        return False
    own = dict(layout.resources).get(s["key_heads"], ())
    return s["key_heads"] in layout.loops or own not in ((), dict(layout.resources).get(s["heads"], ()))
