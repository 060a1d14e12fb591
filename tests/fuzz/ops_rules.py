"""Functions with rules of derivatives that are not their derivatives, and of which some give something for nothing.

A rule that is not linear says something only of the whole cotangent: it is called once for each use of JAX's own choosing. So its result is
a result of the program, which has a cotangent, and it does not stand in a loop.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tests.fuzz.program import Invalid, Operation
from tests.fuzz.values import V, elementwise, places, spread, without

# What the backward rule of the sine makes of its value and a cotangent, with namedax and without.
AFFINE = {
    "affine": ("2 * ct + 0.5", lambda xp, x, ct: 2 * ct + 0.5),
    "constant": ("0 * ct + nx.cos(x)", lambda xp, x, ct: 0 * ct + xp.cos(x)),
    "bounded": ("0.25 + nx.tanh(ct)", lambda xp, x, ct: 0.25 + xp.tanh(ct)),
}
LINEAR = {"tripled": ("3 * ct * nx.cos(x)", lambda xp, x, ct: 3 * ct * xp.cos(x))}
RULES = {**AFFINE, **LINEAR}


class OfEntries(Operation):
    """The sine with a backward rule for each entry: namedax's and JAX's own `custom_vjp`."""

    names, weight = ("nx.custom_vjp", "jax.custom_vjp"), 0.5

    rules = LINEAR

    def draw(self, g, name):
        x = None if g.forward else g.pick(lambda v: v.dtype == "f32")
        return None if x is None else g.s(name, (x,), rule=g.choice(list(self.rules)))

    def code(self, s, a, functions, resources):
        make, rule = s.op.removesuffix("_affine"), RULES[s["rule"]][0]
        return f"pulled_by({make}, nx.sin, lambda x, ct: ({rule},))({a[0]})"

    def run(self, r, s, values, env):
        (v,) = values
        return [v._replace(data=_with_rule(r.xp, r.xp.sin, lambda x, ct: (RULES[s["rule"]][1](r.xp, x, ct),), v.data))]


class AffineOfEntries(OfEntries):
    names, weight, shown = ("nx.custom_vjp_affine", "jax.custom_vjp_affine"), 0.7, True

    rules = AFFINE

    def draw(self, g, name):
        return None if g.depth else super().draw(g, name)


class OverNames(Operation):
    """A product whose rule sums over the names that a factor lacks, and takes the mean off one that it has; with or without a constant."""

    names, weight = ("rule_over_names",), 0.5
    constant = 0.0

    def draw(self, g, name):
        x = None if g.forward else g.pick(lambda v: v.dtype == "f32" and v.names and not v.ndim)
        if x is None:
            return None
        names = g.v(x).names
        w = g.pick(lambda v: v.dtype == "f32" and {*v.names} < {*names} and not v.ndim)
        return None if w is None else g.s(name, (x, w), mean=g.choice(names), sums=without(g.v(x), g.v(w).names))

    def code(self, s, a, functions, resources):
        rule = f"ct * w - nx.mean(ct, {s['mean']!r}) + {self.constant}, nx.sum(ct * x, {s['sums']!r}) + {self.constant}"
        return f"pulled_by(nx.custom_vjp, lambda x, w: x * w, lambda x, w, ct: ({rule}))({', '.join(a)})"

    def run(self, r, s, values, env):
        x, w = values
        if without(x, w.names) != s["sums"] or not {*w.names} <= {*x.names} or s["mean"] not in x.names:
            raise Invalid
        sums = places(x, s["sums"])
        factor = spread(r.xp, w, x.names)

        def rule(xp: Any, v: Any, u: Any, ct: Any) -> tuple[Any, Any]:
            centred = ct * u - xp.mean(ct, axis=places(x, (s["mean"],)), keepdims=True)
            return centred + self.constant, xp.sum(ct * v, axis=sums, keepdims=True) + self.constant

        data = _with_rule(r.xp, lambda v, u: v * u, lambda v, u, ct: rule(r.xp, v, u, ct), x.data, factor)
        return [V(data, x.names, "f32")]


class AffineOverNames(OverNames):
    names, weight, shown = ("rule_over_names_affine",), 0.7, True
    constant = 0.5

    def draw(self, g, name):
        return None if g.depth else super().draw(g, name)


class Slopes(Operation):
    """The hyperbolic tangent with a forward rule that takes a mean over a name; at any depth, since it is linear."""

    names, weight = ("nx.custom_jvp",), 0.5

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "f32" and v.names)
        return None if x is None else g.s(name, (x,), mean=g.choice(g.v(x).names))

    def code(self, s, a, functions, resources):
        return f"pushed_by(nx.custom_jvp, nx.tanh, lambda x, t: 2 * t - nx.mean(t * x, {s['mean']!r}))({a[0]})"

    def run(self, r, s, values, env):
        (v,) = values
        if s["mean"] not in v.names:
            raise Invalid
        if r.xp is np:
            return [v._replace(data=np.tanh(v.data))]
        f = jax.custom_jvp(r.xp.tanh)
        axis = places(v, (s["mean"],))
        f.defjvp(lambda p, t: (r.xp.tanh(p[0]), 2 * t[0] - r.xp.mean(t[0] * p[0], axis=axis, keepdims=True)))
        return [elementwise(r.xp, f, v.dtype, v)]


RULED = ("nx.custom_vjp", "jax.custom_vjp", "nx.custom_jvp", "rule_over_names")


def has_rules(operations: Any) -> bool:
    """Whether some of these operations (their names) have rules, so that differences of values are not their derivatives."""
    return any(name.startswith(RULED) for name in operations)


def _with_rule(xp: Any, f: Any, rule: Any, *data: Any) -> Any:
    if xp is np:
        return f(*data)
    g = jax.custom_vjp(f)
    g.defvjp(lambda *x: (f(*x), x), lambda x, ct: rule(*x, ct))
    return g(*data)
