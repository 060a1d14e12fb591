"""Operations that take functions: control flow, transformations, nested mapped functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.fuzz.ops_rules import has_rules
from tests.fuzz.program import Block, Invalid, Operation, Statement, statements_of
from tests.fuzz.values import FLOATS, INNER, SIZES, V, along, broadcast, elementwise, front, make, promote, union


def _floats(v: V) -> bool:
    return v.dtype in ("f32", "bf16") and v.data.size <= 1024


def _same(xp: Any, values: list[V]) -> list[V]:
    """Alternatives with the same names, and of one type."""
    names = union(*values)
    dtype = promote(*(v.dtype for v in values))
    if len({v.shape for v in values}) > 1:
        raise Invalid
    return [broadcast(xp, v, names)._replace(dtype=dtype) for v in values]


# --- branches -------------------------------------------------------------------------------------------------------


class Branch(Operation):
    """`cond` with a predicate that may have names, and `switch`: any branch may be the one that lacks names."""

    names, weight = ("cond", "switch"), 1.5

    def draw(self, g, name):
        if g.depth >= 2:
            return None
        if name == "cond":
            p = g.pick(lambda v: v.dtype == "bool" and not v.ndim and len(v.names) <= 1)
        else:
            p = g.pick(lambda v: v.dtype in ("i8", "i32") and not v.ndim and len(v.names) <= 1)
        x = g.pick(_floats)
        if p is None or x is None:
            return None
        blocks: list[Block] = []
        likes: list[V] = []
        for number in range(2 if name == "cond" else 3):
            child = g.child([g.v(x)])
            child.statements_up_to(2)
            if not number:
                results = child.some_results(_floats, 2)
                likes = [child.v(result) for result in results]
            else:
                results = [child.like(like) for like in likes]
            if not results or None in results:
                return None
            blocks.append(child.block(results))
        return g.s(name, (p, x), len(likes), blocks=tuple(blocks))

    def code(self, s, a, functions, resources):
        if s.op == "cond":
            return f"nx.cond({a[0]}, {functions[0]}, {functions[1]}, {a[1]})"
        return f"nx.switch({a[0]}, [{', '.join(functions)}], {a[1]})"

    def run(self, r, s, values, env):
        p, x = values
        branches = [r.block(block, env, [x]) for block in s.blocks]
        results = []
        for alternatives in zip(*branches, strict=True):
            same = _same(r.xp, list(alternatives))
            if s.op == "cond":
                results.append(elementwise(r.xp, r.xp.where, same[0].dtype, p, *same))
                continue
            result = same[0]
            for number, other in enumerate(same[1:], 1):
                result = elementwise(r.xp, lambda i, u, v, n=number: r.xp.where(i >= n, v, u), other.dtype, p, result, other)
            results.append(result)
        return results


# --- loops ----------------------------------------------------------------------------------------------------------


def settle(r: Any, step: Any, init: V) -> V:
    """The carry as it must begin, so that a step does not change its names."""
    for _ in range(4):
        after = step(init)
        if after.shape != init.shape:
            raise Invalid
        wider = broadcast(r.xp, init, after.names)._replace(dtype=promote(init.dtype, after.dtype))
        if wider.names == init.names and wider.dtype == init.dtype:
            if after.dtype != init.dtype:
                raise Invalid
            return init
        if init.dtype not in (wider.dtype, "weak"):
            raise Invalid
        init = wider
    raise Invalid


class Scan(Operation):
    """`scan` and `fold` along a name, with a carry that may gain names, with or without `checkpoint`."""

    names, weight = ("scan", "fold"), 2.0

    def draw(self, g, name):
        if g.depth >= 2:
            return None
        xs = g.pick(lambda v: v.names and _floats(v))
        if xs is None:
            return None
        axis = g.choice(g.v(xs).names)
        init = g.pick(lambda v: axis not in v.names and v.dtype in FLOATS and v.data.size <= 256)
        if init is None:
            return None
        entry = Scan.entry(np, g.v(xs), axis, 0)
        child = g.child([g.v(init), entry], hide=(axis,))
        child.statements_up_to(3)
        carry = child.pick(lambda v: v.shape == g.v(init).shape and v.dtype in FLOATS)
        if carry is None:
            return None
        results = [carry] if name == "fold" else [carry, child.pick(_floats)]
        if None in results:
            return None
        options = {"axis": axis, "checkpoint": g.rare(), "reverse": g.rare(), "prefetch": not g.forward and g.rare()}
        return g.s(name, (init, xs), len(results), blocks=(child.block(results),), **options)

    @staticmethod
    def entry(xp: Any, v: V, axis: str, i: int) -> V:
        """One entry of `xs`."""
        data, rest = front(xp, v, axis)
        return V(data[i], rest, v.dtype)

    def code(self, s, a, functions, resources):
        f = f"jax.checkpoint({functions[0]})" if s["checkpoint"] else functions[0]
        options = f"{', reverse=True' if s['reverse'] else ''}{', prefetch=1' if s['prefetch'] else ''}"
        return f"nx.{s.op}({f}, {a[0]}, {a[1]}, axis={s['axis']!r}{options})"

    def run(self, r, s, values, env):
        (init, xs), axis, xp = values, s["axis"], r.xp
        carry = settle(r, lambda c: r.block(s.blocks[0], env, [c, Scan.entry(xp, xs, axis, 0)])[0], init)
        names, collected = carry.names, []
        order = range(SIZES[axis])
        for i in order[::-1] if s["reverse"] else order:
            results = r.block(s.blocks[0], env, [carry, Scan.entry(xp, xs, axis, i)])
            carry = broadcast(xp, results[0], names)
            if carry.names != names:
                raise Invalid
            collected.append(results[-1])
        if s.op == "fold":
            return [carry]
        first = collected[0]
        if axis in first.names:
            raise Invalid
        stacked = xp.stack([v.data for v in (collected[::-1] if s["reverse"] else collected)], 0)
        return [carry, make(xp, stacked, [axis, *first.names], first.dtype)]


class Fori(Operation):
    names, weight = ("fori_loop",), 0.7

    def draw(self, g, name):
        if g.depth >= 2:
            return None
        init = g.pick(lambda v: v.dtype in FLOATS and v.data.size <= 256)
        if init is None:
            return None
        child = g.child([V(np.asarray(0), (), "i32"), g.v(init)])
        child.statements_up_to(2)
        result = child.pick(lambda v: v.shape == g.v(init).shape and v.dtype in FLOATS)
        return None if result is None else g.s(name, (init,), blocks=(child.block([result]),))

    def code(self, s, a, functions, resources):
        return f"nx.fori_loop(0, 3, {functions[0]}, {a[0]})"

    def run(self, r, s, values, env):
        def step(i, c):
            return r.block(s.blocks[0], env, [V(r.xp.asarray(i), (), "i32"), c])[0]

        carry = settle(r, lambda c: step(0, c), values[0])
        for i in range(3):
            after = broadcast(r.xp, step(i, carry), carry.names)
            if after.names != carry.names:
                raise Invalid
            carry = after
        return [carry]


class While(Operation):
    """Doubles until a maximum is reached, of everything or of each entry of some names; another value may add its names."""

    names, weight = ("while_loop",), 0.8

    def draw(self, g, name):
        x = g.pick(lambda v: v.dtype == "f32" and v.data.size <= 512)
        y = None if x is None else g.pick(lambda v: v.dtype == "f32" and not v.ndim)
        if y is None:
            return None
        names = union(g.v(x), g.v(y))
        return g.s(name, (x, y), over=tuple(g.subset(names, 0, len(names))))

    def code(self, s, a, functions, resources):
        axes = (*s["over"], *range(s.options.get("ndim", 0)))
        stopped = [f"nx.lax.stop_gradient({x})" for x in a]
        test = f"nx.max(v + 0 * {stopped[1]}, {axes})" if axes else f"v + 0 * {stopped[1]}"
        return f"nx.while_loop(lambda v: {test} < 20, lambda v: 2 * v + 1 + nx.abs({stopped[1]}), nx.abs({stopped[0]}))"

    def run(self, r, s, values, env):
        x, y = (r.stop(v) for v in values)
        if x.ndim:
            raise Invalid
        xp = r.xp
        names = union(x, y)
        v, w = (broadcast(xp, value._replace(data=xp.abs(value.data)), names) for value in (x, y))
        axes = tuple(names.index(n) for n in s["over"])
        data = v.data
        for _ in range(8):
            going = (xp.max(data, axis=axes, keepdims=True) if axes else data) < 20
            data = xp.where(going, 2 * data + 1 + w.data, data)
        return [V(data, names, "f32")]


class EntryByEntry(Operation):
    """`map` and `vmap` over a name."""

    names, weight = ("map", "vmap"), 0.8

    def draw(self, g, name):
        if g.depth >= 2:
            return None
        x = g.pick(lambda v: v.names and _floats(v))
        if x is None:
            return None
        axis = g.choice(g.v(x).names)
        child = g.child([Scan.entry(np, g.v(x), axis, 0)], hide=(axis,))
        child.statements_up_to(2)
        result = child.pick(_floats)
        return None if result is None else g.s(name, (x,), blocks=(child.block([result]),), axis=axis)

    def code(self, s, a, functions, resources):
        if s.op == "map":
            return f"nx.map({functions[0]}, {a[0]}, axis={s['axis']!r})"
        return f"nx.vmap({functions[0]}, {s['axis']!r})({a[0]})"

    def run(self, r, s, values, env):
        (x,), axis = values, s["axis"]
        entries = [r.block(s.blocks[0], env, [Scan.entry(r.xp, x, axis, i)])[0] for i in range(SIZES[axis])]
        if axis in entries[0].names:
            raise Invalid
        return [make(r.xp, r.xp.stack([v.data for v in entries], 0), [axis, *entries[0].names], entries[0].dtype)]


class AssociativeScan(Operation):
    names, weight = ("associative_scan",), 0.4

    def draw(self, g, name):
        x = g.pick(lambda v: v.names and v.dtype == "f32")
        return None if x is None else g.s(name, (x,), axis=g.choice(g.v(x).names), how=g.choice(["+", "*"]), reverse=g.rare())

    def code(self, s, a, functions, resources):
        reverse = ", reverse=True" if s["reverse"] else ""
        return f"nx.associative_scan(lambda x, y: x {s['how']} y, {a[0]}, axis={s['axis']!r}{reverse})"

    def run(self, r, s, values, env):
        def f(data):
            data = data[::-1] if s["reverse"] else data
            result = (r.xp.cumsum if s["how"] == "+" else r.xp.cumprod)(data, axis=0)
            return result[::-1] if s["reverse"] else result

        return [along(r.xp, values[0], s["axis"], f)]


def difference(f: Any, x: np.ndarray, direction: np.ndarray, step: float = 1e-4) -> Any:
    """The derivative of `f` in a direction, as a central difference; `Invalid` where the two sides disagree: at a kink."""
    ahead, behind, here = f(x + step * direction), f(x - step * direction), f(x)
    if np.max(np.abs(ahead + behind - 2 * here), initial=0.0) > 0.02 * step * (
        1 + np.max(np.abs(ahead - behind), initial=0.0) / step
    ):
        raise Invalid
    return (ahead - behind) / (2 * step)


# --- transformations ------------------------------------------------------------------------------------------------


class Call(Operation):
    """A helper under `jit` or `checkpoint`; it may close over values."""

    names, weight = ("jit", "checkpoint"), 0.8

    def draw(self, g, name):
        if g.depth >= 2:
            return None
        arguments = [x for x in (g.pick(_floats), g.pick(_floats)) if x is not None][: g.choice([1, 2])]
        if not arguments:
            return None
        child = g.child([g.v(x) for x in arguments])
        child.statements_up_to(3)
        results = child.some_results(_floats, 2)
        return g.s(name, tuple(arguments), len(results), blocks=(child.block(results),)) if results else None

    def code(self, s, a, functions, resources):
        return f"jax.{s.op}({functions[0]})({', '.join(a)})"

    def run(self, r, s, values, env):
        return r.block(s.blocks[0], env, values)


class Derivative(Operation):
    """`grad` of the sum, or `vjp`, `jvp` or `linearize`, of a function that may close over values."""

    names, weight = ("grad", "vjp", "jvp", "linearize"), 0.8

    def draw(self, g, name):
        if g.depth >= 2:
            return None
        x = g.pick(lambda v: v.dtype == "f32" and v.data.size <= (32 if name in ("grad", "vjp") else 512))
        if x is None:
            return None
        child = g.child([g.v(x)])
        child.forward = g.forward or name in ("jvp", "linearize")
        child.statements_up_to(3)
        result = child.pick(lambda v: v.dtype == "f32" and v.data.size <= 1024)
        if result is None:
            return None
        v = child.v(result)
        return g.s(name, (x,), blocks=(child.block([result]),), axes=(*v.names, *range(v.ndim)))

    def code(self, s, a, functions, resources):
        (x,), f = a, functions[0]
        if s.op == "grad":
            total = f"nx.sum({f}(u), {s['axes']})" if s["axes"] else f"{f}(u)"
            return f"jax.grad(lambda u: {total})({x})"
        if s.op == "vjp":  # the cotangents are any values, along what they share too
            return f"jax.vjp({f}, {x})[1](nx.cos({f}({x})))[0]"
        if s.op == "jvp":
            return f"jax.jvp({f}, ({x},), (nx.cos({x}),))[1]"
        return f"jax.linearize({f}, {x})[1](nx.cos({x}))"

    def run(self, r, s, values, env):
        x, block = values[0], s.blocks[0]
        if r.xp is not np:
            return [self._differentiate(r, s, env)]
        if has_rules(inner.op for inner in statements_of(block)):
            with jax.enable_x64(True):
                given = {n: v if v.dtype == "key" else v._replace(data=jnp.asarray(v.data)) for n, v in env.items()}
                v = self._differentiate(type(r)(jnp), s, given)
            return [v._replace(data=np.asarray(v.data))]
        position = r.position
        (base,) = r.block(block, env, [x])

        def f(data: np.ndarray) -> np.ndarray:
            return r.again(*position).block(block, env, [x._replace(data=data)])[0].data

        if s.op not in ("grad", "vjp"):
            return [base._replace(data=difference(f, x.data, np.cos(x.data)))]
        directions = np.eye(x.data.size).reshape(x.data.size, *x.data.shape)
        weights = np.cos(base.data) if s.op == "vjp" else 1.0
        return [
            x._replace(data=np.array([np.sum(weights * difference(f, x.data, d)) for d in directions]).reshape(x.data.shape))
        ]

    def _differentiate(self, r: Any, s: Statement, env: Mapping[int, V]) -> V:
        x = env[s.args[0]]
        types: list[V] = []

        def f(data: Any) -> Any:
            (v,) = r.block(s.blocks[0], env, [x._replace(data=data)])
            types.append(v)
            return v.data

        if s.op == "grad":
            return x._replace(data=jax.grad(lambda data: jnp.sum(f(data)))(x.data))
        if s.op == "vjp":
            value, pull = jax.vjp(f, x.data)
            return x._replace(data=pull(jnp.cos(value))[0])
        tangent = jax.jvp(f, (x.data,), (jnp.cos(x.data),))[1]
        return types[-1]._replace(data=tangent)


class Nested(Operation):
    """A mapped function in the body, whose own names are `i` (4) and `j` (8); its results may be broadcast along them."""

    names, weight = ("xmap",), 1.5

    def draw(self, g, name):
        if g.depth >= 1:
            return None
        x = g.pick(_floats)
        if x is None:
            return None
        v, own = g.v(x), None
        for inner in INNER:
            if v.shape and v.shape[0] == SIZES[inner]:
                own = inner
        child = g.child([self._enter(np, v, own)], inner=INNER)
        child.statements_up_to(3)
        out = own or g.choice([None, *INNER])
        # The inner function can only return what it places, and names that the outer one has before: what another value gave the
        # outer one is not there any more when nothing needs that value.
        outside = {*v.names}.union(*(g.v(n).names for n in g.parameters))
        result = child.pick(lambda w: _floats(w) and {*w.names} <= outside | {out})
        if result is None:
            return None
        return g.s(name, (x,), blocks=(child.block([result]),), own=own, out=out)

    def _enter(self, xp, v, own):
        if own is None:
            return v
        return make(xp, xp.moveaxis(v.data, len(v.names), 0), [own, *v.names], v.dtype)

    def code(self, s, a, functions, resources):
        placed = {own: [own, ...] if own else [...] for own in (s["own"], s["out"])}
        mentions = sorted(_mentions(s.blocks[0]) | ({s["own"], s["out"]} - {None}))
        sizes = {name: SIZES[name] for name in mentions}
        options = f"axis_sizes={sizes}{resources(mentions)}"
        axes = f"({placed[s['own']]!r},), {placed[s['out']]!r}".replace("Ellipsis", "...")
        return f"nx.xmap({functions[0]}, {axes}, {options})({a[0]})"

    def run(self, r, s, values, env):
        xp = r.xp
        (v,) = r.block(s.blocks[0], env, [self._enter(xp, values[0], s["own"])])
        if s["out"] is None:
            return [v]
        data, rest = front(xp, broadcast(xp, v, (s["out"],)), s["out"])
        return [V(xp.moveaxis(data, 0, len(rest)), rest, v.dtype)]

    def meetings(self, s, values, results):
        own = {s["own"]} - {None}
        out = {s["out"]} - {None}
        return [{*values[0].names} | own, {*results[0].names} | out]


def _mentions(block: Block) -> set[str]:
    """The inner names that the statements of a block speak of."""
    text = repr([dict(s.options) for s in statements_of(block)])
    return {name for name in INNER if f"'{name}'" in text}


LIFTED = {
    "cumulate": ("jnp.cumsum(p[::-1])", lambda xp, p: xp.cumsum(p[..., ::-1], axis=-1)),
    "solve": ("jnp.linalg.solve(jnp.outer(p, p) + jnp.eye(p.size), p)", lambda xp, p: _solve(xp, p)),
}


def _solve(xp: Any, p: Any) -> Any:
    return xp.linalg.solve(p[..., None] * p[..., None, :] + np.eye(p.shape[-1]), p[..., None])[..., 0]


class Lifted(Operation):
    """A function of JAX along positional axes, lifted over all names."""

    names, weight = ("nmap",), 0.4

    def draw(self, g, name):
        x = g.pick(lambda v: v.ndim == 1 and v.names and v.dtype == "f32")
        return None if x is None else g.s(name, (x,), which=g.choice(list(LIFTED)))

    def code(self, s, a, functions, resources):
        return f"nx.nmap(lambda p: {LIFTED[s['which']][0]})({a[0]})"

    def run(self, r, s, values, env):
        return [values[0]._replace(data=LIFTED[s["which"]][1](r.xp, values[0].data))]
